"""Sentences of abstracts with ten decisions each, and what the abstracts bear."""

import tarfile
from pathlib import Path

import pytest

from acclimate.core.types import Example, Rejected
from acclimate.reading.formats.hoc import HALLMARKS, hoc_abstracts, hoc_sentences, join_abstracts

DATA = Path(__file__).parents[4] / "shared" / "data" / "blurb" / "hoc"


def decided(*hallmarks):
    return ",".join(f"{at}_{int(at in hallmarks)}" for at in range(10))


@pytest.fixture
def path(tmp_path):
    rows = [
        (decided(7), "Cells die .", "11_s0"),
        (decided(), "Others do not .", "11_s1"),
        (decided(7, 0), "They spread .", "11_s2"),
        (decided(), "Nothing here .", "12_s0"),
    ]
    text = "".join("\t".join(row) + "\n" for row in [("labels", "sentence", "index"), *rows])
    (tmp_path / "train.tsv").write_text(text)
    return tmp_path / "train.tsv"


def test_an_abstract_bears_what_one_of_its_sentences_bears(path):
    spread, resist = HALLMARKS[0], HALLMARKS[7]
    assert list(hoc_abstracts(path, "train")) == [
        Example("11", "Cells die . Others do not . They spread .", (spread, resist), None, "11"),
        Example("12", "Nothing here .", (), None, "12"),
    ]


def test_predictions_for_sentences_are_joined_the_same_way(path):
    sentences = list(hoc_sentences(path, "train"))
    assert [sentence.label for sentence in sentences] == [(HALLMARKS[7],), (), (HALLMARKS[0], HALLMARKS[7]), ()]
    predicted = [(), (HALLMARKS[3],), (HALLMARKS[2], HALLMARKS[3]), ()]
    assert join_abstracts(sentences, predicted) == {"11": (HALLMARKS[2], HALLMARKS[3]), "12": ()}


@pytest.mark.parametrize("label", ["0_0,1_0", "7", decided().replace("3_0", "3_2"), decided().replace("9_0", "8_0")])
def test_other_labels_are_rejected(tmp_path, label):
    (tmp_path / "dev.tsv").write_text(f"labels\tsentence\tindex\n{label}\tOne .\t11_s0\n")
    [rejected] = hoc_abstracts(tmp_path / "dev.tsv", "dev")
    assert isinstance(rejected, Rejected)
    assert rejected.place == "dev.tsv:2"
    assert "must be ten decisions" in rejected.reason


@pytest.mark.skipif(not DATA.exists(), reason="the corpus is not there")
def test_the_numbers_are_the_hallmarks_of_the_authors_own_files():
    stated = {}
    with tarfile.open(DATA / "hoc_raw.tar.gz") as archive:
        for member in archive:
            if member.name.startswith("labels/") and member.isfile():
                parts = archive.extractfile(member).read().decode().replace("<", "AND").split("AND")
                names = {part.strip().partition("--")[0].lower() for part in parts} - {"", "null"}
                stated[Path(member.name).stem] = tuple(sorted(names))
    files = [(DATA / "dev.tsv.gz", "dev"), (DATA / "test.tsv.gz", "test")]
    found = {each.id: each.label for path, split in files for each in hoc_abstracts(path, split)}
    assert len(found) == 186 + 371
    assert found == {id: stated[id] for id in found}
