"""A catalogue's splits counted beside its paper's."""

from dataclasses import replace
from pathlib import Path

import pytest

from acclimate.reading import published
from acclimate.reading.datasets.catalogue import Dataset, Difference, cut_form, split_form
from acclimate.reading.formats.delimited import iob_examples
from acclimate.reading.published import CATALOGUES, count_catalogue
from acclimate.tasks.metrics import METRICS

DATA = Path(__file__).parents[3] / "shared" / "data" / "blurb"
FILES = {split: f"{split}.tsv" for split in ("train", "dev", "test")}
TOY = Dataset(
    name="Toy",
    type="NER",
    folder="toy",
    kind="tokens",
    labels=("O", "B-X", "I-X"),
    metric=METRICS["entity_f1"],
    max_tokens=16,
    counted="mentions",
    sizes={"train": 2, "dev": 1, "test": 1},
    forms=(split_form("BIO", FILES, iob_examples, differences=(Difference("dev", 2, "the table is wrong"),)),),
    citation="",
    licence="",
    obtain="Ask its authors",
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setitem(CATALOGUES, "toys", ("Table 1", (TOY,)))
    (tmp_path / "toy").mkdir()
    for split, mentions in (("train", 2), ("dev", 2), ("test", 1)):
        (tmp_path / "toy" / f"{split}.tsv").write_text("a\tB-X\nb\tI-X\n\n" * mentions)
    return tmp_path


def test_equal_counts_and_those_that_differ_for_a_known_reason_are_in_order(folder):
    found = count_catalogue("toys", folder)
    assert [(each.split, each.stated, each.found, each.verdict) for each in found.counts] == [
        ("train", 2, 2, "equal"),
        ("dev", 1, 2, "known"),
        ("test", 1, 1, "equal"),
    ]
    assert found.matches_paper
    text = found.as_text()
    assert "Toy      BIO   mentions  dev        1      2  known: the table is wrong" in text
    assert text.endswith(
        "2 of 3 counts equal the paper's, 1 differ for a known reason, 0 for an unknown one; 0 rows rejected, "
        "0 datasets not read."
    )


def test_a_reason_holds_for_its_own_count_only(folder):
    (folder / "toy" / "dev.tsv").write_text("a\tB-X\n\n" * 3)
    found = count_catalogue("toys", folder)
    assert [each.verdict for each in found.counts] == ["equal", "wrong", "equal"]
    assert not found.matches_paper
    assert "DIFFERS for an unknown reason" in found.as_text()


def test_rows_that_dev_was_drawn_from_are_counted_undivided_and_a_count_that_nobody_has_is_explained(
    folder, monkeypatch
):
    whole = replace(TOY.forms[0], undivided=lambda place: iob_examples(place / "test.tsv", "test"))
    unknown = replace(whole, differences=(Difference("train", None, "drawn"), Difference("dev", None, "drawn")))
    monkeypatch.setitem(CATALOGUES, "toys", ("Table 1", (replace(TOY, forms=(unknown,)),)))
    (folder / "toy" / "train.tsv").write_text("a\tB-X\n\n" * 5)
    found = count_catalogue("toys", folder)
    assert [(each.found, each.verdict, each.reason) for each in found.counts] == [
        (1, "known", "drawn"), (2, "known", "drawn"), (1, "equal", "")
    ]  # fmt: skip


def test_rejected_rows_and_missing_files_are_told(folder):
    (folder / "toy" / "test.tsv").write_text("a\tB-X\n\nword\n")
    found = count_catalogue("toys", folder)
    assert [rejected.place for _, rejected in found.rejected] == ["test.tsv:3"]
    assert not found.matches_paper
    (folder / "toy" / "test.tsv").unlink()
    found = count_catalogue("toys", folder)
    assert not found.matches_paper
    assert "Not read: Toy: " in found.as_text()
    assert "Ask its authors" in found.as_text()


def test_a_dev_that_the_paper_has_not_counts_with_train(folder, monkeypatch):
    cut = cut_form("cut", train="train.tsv", test="test.tsv", reader=iob_examples, count=1, note="Dev is drawn.")
    dataset = replace(TOY, sizes={"train": 2, "test": 1}, forms=(cut,))
    monkeypatch.setitem(published.CATALOGUES, "toys", ("Table 1", (dataset,)))
    found = count_catalogue("toys", folder)
    assert [(each.split, each.stated, each.found) for each in found.counts] == [
        ("train", 2, 2), ("dev", None, 1), ("test", 1, 1)
    ]  # fmt: skip
    assert found.matches_paper
    assert "Toy: Dev is drawn." in found.as_text()


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the datasets are not there")
def test_every_count_of_table_3_is_reached_or_explained():
    found = count_catalogue("blurb", DATA)
    assert found.matches_paper, found.as_text()
    assert len(found.counts) == 39
    different = {(each.dataset, each.split) for each in found.counts if each.verdict == "known"}
    assert different == {
        ("BC5-disease", "dev"), ("EBM PICO", "train"), ("EBM PICO", "dev"), ("ChemProt", "dev"), ("ChemProt", "test"),
        ("DDI", "train"), ("DDI", "dev"), ("GAD", "dev"), ("GAD", "test"),
    }  # fmt: skip
