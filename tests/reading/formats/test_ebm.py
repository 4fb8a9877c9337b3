"""EBM-NLP's folders, made by hand in the layout of release 2.00, as sentences with one element a word."""

import tarfile
from pathlib import Path

import pytest

from acclimate.core.types import Example, Rejected
from acclimate.reading.datasets.blurb import PICO
from acclimate.reading.datasets.catalogue import size_of
from acclimate.reading.formats.ebm import ELEMENTS, SPANS, ebm_sentences
from acclimate.reading.published import published
from acclimate.tasks.prepared import prepare
from acclimate.tasks.task import checked_splits

PUBLISHED = Path(__file__).parents[4] / "shared" / "data" / "blurb"
TEXT = "Aspirin in 20 men . Pain fell"
#                         Aspirin in 20 men . Pain fell
COVERS = {"participants": "0 0 1 1 0 0 0", "interventions": "1 0 0 1 0 1 0", "outcomes": "0 0 0 0 0 1 1"}
TAGS = ("I-INT", "O", "I-PAR", "I-INT", "O", "I-OUT", "I-OUT")  # the later element covers the earlier


def write(folder, abstract, part="train", text=TEXT, covers=COVERS):
    (folder / "documents").mkdir(parents=True, exist_ok=True)
    (folder / "documents" / f"{abstract}.tokens").write_text(text)
    (folder / "documents" / f"{abstract}.txt").write_text("not read")
    for element, numbers in covers.items():
        for phase, content in ((SPANS, numbers), (SPANS.replace("starting_spans", "hierarchical_labels"), "7 7")):
            place = folder / phase / element / part
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{abstract}.AGGREGATED.ann").write_text(content)


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / PICO.folder / "ebm_nlp_2_00"
    for abstract in range(1, 11):
        write(folder, abstract)
    write(folder, 99, "test/gold")
    write(folder, 99)  # of both parts: tested on, not trained on
    write(folder, 98, "test/crowd")
    return folder


def test_of_elements_that_overlap_the_last_counts_and_sentences_end_after_a_stop(corpus):
    rows = list(ebm_sentences(corpus, "test"))
    assert rows == [
        Example("99:0", "Aspirin in 20 men .", TAGS[:5], None, "99"),
        Example("99:5", "Pain fell", TAGS[5:], None, "99"),
    ]


def test_with_overlaps_a_word_bears_each_element_that_covers_it(corpus):
    rows = list(ebm_sentences(corpus, "test", overlaps="all"))
    assert [row.label for row in rows] == [("I-INT", "O", "I-PAR", "I-INT+I-PAR", "O"), ("I-INT+I-OUT", "I-OUT")]


def test_the_form_overlapping_is_asked_for_by_name_and_knows_every_set(corpus, tmp_path):
    task = PICO.task("overlapping")
    assert task.labels == (
        "O", "I-INT", "I-OUT", "I-PAR", "I-INT+I-PAR", "I-OUT+I-PAR", "I-INT+I-OUT", "I-INT+I-OUT+I-PAR"
    )  # fmt: skip
    splits = checked_splits(task, tmp_path)
    assert "I-INT+I-PAR" in splits["test"][0].label
    found = published("EBM PICO, overlapping", tmp_path)
    assert (found.labels, found.untaught) == (task.labels, task.labels[4:])
    made = prepare(found.task(), tmp_path, tmp_path / "data")
    assert made.score([("I-INT+I-PAR", "O")], [("I-INT", "I-PAR")]) == pytest.approx((1 + 0) / 2)
    assert PICO.form_in(tmp_path).name == "raw"


def test_an_archive_is_read_as_the_folder_is_and_test_abstracts_are_not_trained_on(corpus, tmp_path):
    with tarfile.open(tmp_path / "ebm_nlp_2_00.tar.gz", "w:gz") as archive:
        archive.add(corpus, "ebm_nlp_2_00")
    rows = list(ebm_sentences(corpus, "train"))
    assert {row.group for row in rows} == {f"{number}" for number in range(1, 11)}
    assert list(ebm_sentences(tmp_path / "ebm_nlp_2_00.tar.gz", "train")) == rows


def test_an_element_without_a_file_covers_nothing(tmp_path):
    write(tmp_path, 1, covers={"participants": COVERS["participants"]})
    first, second = ebm_sentences(tmp_path, "train")
    assert (first.label, second.label) == (("O", "O", "I-PAR", "I-PAR", "O"), ("O", "O"))


@pytest.mark.parametrize(
    ("covers", "place", "reason"),
    [
        (COVERS | {"outcomes": "0 1"}, f"{SPANS}/outcomes, 1.AGGREGATED.ann", "2 numbers for 7 tokens"),
        (COVERS | {"outcomes": "0 0 0 x 0 0 0"}, f"{SPANS}/outcomes, 1.AGGREGATED.ann", "'x' is not"),
    ],
)
def test_an_abstract_whose_numbers_do_not_fit_is_rejected(tmp_path, covers, place, reason):
    write(tmp_path, 1, covers=covers)
    write(tmp_path, 2)
    rejected, *rest = ebm_sentences(tmp_path, "train")
    assert isinstance(rejected, Rejected)
    assert (rejected.place, rejected.reason[: len(reason)]) == (place, reason)
    assert {row.group for row in rest} == {"2"}


def test_an_abstract_without_tokens_is_rejected_and_a_folder_without_any_refused(corpus, tmp_path):
    (corpus / "documents" / "99.tokens").unlink()
    [rejected] = ebm_sentences(corpus, "test")
    assert rejected.place == "documents/99.tokens"
    with pytest.raises(ValueError, match=r"lacks annotations/aggregated/starting_spans/\*/test/gold/"):
        list(ebm_sentences(corpus / "documents", "test"))


def test_the_form_raw_cuts_a_fifth_of_the_abstracts_off_for_dev(corpus, tmp_path):
    assert PICO.form_in(tmp_path).name == "raw"
    splits = checked_splits(PICO.task(), tmp_path)
    assert {split: len({row.group for row in rows}) for split, rows in splits.items()} == {
        "train": 8, "dev": 2, "test": 1
    }  # fmt: skip


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the datasets are not there")
def test_sentences_are_those_of_blurbs_own_file(tmp_path):
    """BLURB's test file taken apart into files as EBM-NLP has them, and put together again."""
    sentences, _ = PICO.rows(PUBLISHED, "test", "crowd")
    for abstract in {row.group for row in sentences}:
        rows = [row for row in sentences if row.group == abstract]
        tags = [tag for row in rows for tag in row.label]
        covers = {element: " ".join(str(int(tag == name)) for tag in tags) for element, name in ELEMENTS.items()}
        write(tmp_path, abstract.split(":")[0], "test/gold", "\n".join(row.text for row in rows), covers)
    made = list(ebm_sentences(tmp_path, "test"))
    assert sorted((row.text, row.label) for row in made) == sorted((row.text, row.label) for row in sentences)
    assert size_of(made, "words") == PICO.sizes["test"] == 16_364
