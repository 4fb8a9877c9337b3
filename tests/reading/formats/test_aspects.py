"""Aspects and what a review says of them."""

import json
import zipfile
from pathlib import Path

import pytest

from acclimate.core.types import Example, Rejected
from acclimate.reading.formats.aspects import aspect_json, product_reviews

DATA = Path(__file__).parents[4] / "shared" / "data" / "dga" / "camera_phone"
REVIEW = """* Annotated by: somebody[+2]##
[t]a title
picture[+2], use[-1][u]##it is easy to use .
##nothing is said here .
option[+1}, look{-2]##two brackets are wrong .
zoom##no sign .
"""


def test_an_aspect_is_the_text_and_its_sentence_the_pair(tmp_path):
    (tmp_path / "train.json").write_text(
        json.dumps(
            {
                "1_0": {"term": "Jazz", "sentence": "Live Jazz.", "polarity": "positive", "id": "1_0"},
                "1_1": {"term": "Jazz", "sentence": "Live Jazz.", "polarity": "conflict"},
                "1_2": {"term": "Jazz"},
            }
        )
    )
    first, second, third = aspect_json(tmp_path / "train.json", "train")
    assert first == Example("train:1_0", "Jazz", "positive", "Live Jazz.")
    assert isinstance(second, Rejected)
    assert second.place == "train.json, 1_1"
    assert isinstance(third, Rejected)
    assert third.reason.startswith("term, sentence and polarity must be")


def test_every_signed_aspect_of_a_review_is_an_example(tmp_path):
    with zipfile.ZipFile(tmp_path / "reviews.zip", "w") as archive:
        archive.writestr("reviews/Canon.txt", REVIEW)
    assert list(product_reviews(tmp_path, ["reviews.zip"], ["Canon"])) == [
        Example("Canon:3:0", "picture", "positive", "it is easy to use ."),
        Example("Canon:3:1", "use", "negative", "it is easy to use ."),
        Example("Canon:5:0", "option", "positive", "two brackets are wrong ."),
        Example("Canon:5:1", "look", "negative", "two brackets are wrong ."),
    ]
    with pytest.raises(ValueError, match=r"the file Nikon\.txt is missing"):
        list(product_reviews(tmp_path, ["reviews.zip"], ["Nikon"]))


@pytest.mark.skipif(not DATA.exists(), reason="the reviews are not there")
def test_nokia_6610_and_6600_have_as_many_as_they_should():
    archives = ("product_reviews_1.zip", "product_reviews_2.zip")
    assert len(list(product_reviews(DATA, archives, ["Nokia_6610"]))) == 339
    assert len(list(product_reviews(DATA, archives, ["Nokia_6600"]))) == 457
