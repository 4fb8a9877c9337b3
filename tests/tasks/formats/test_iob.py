"""Tagged sentences of BLURB's datasets."""

from acclimate.core.types import Example, Rejected
from acclimate.tasks.formats.delimited import iob_examples

WRITTEN = """-DOCSTART- 95369245

IL-2\tB-DNA
gene\tI-DNA
of\tO

-DOCSTART-\tO

NF-kappa\tB-protein
"""


def test_lines_that_begin_documents_are_no_words_and_name_groups(tmp_path):
    (tmp_path / "dev.tsv").write_text(WRITTEN)
    assert list(iob_examples(tmp_path / "dev.tsv", "dev")) == [
        Example("dev:1", "IL-2 gene of", ("B-DNA", "I-DNA", "O"), None, "dev, document 1"),
        Example("dev:2", "NF-kappa", ("B-protein",), None, "dev, document 2"),
    ]


def test_types_are_merged_where_that_is_stated(tmp_path):
    (tmp_path / "dev.tsv").write_text(WRITTEN)
    assert [row.label for row in iob_examples(tmp_path / "dev.tsv", "dev", merged=True)] == [("B", "I", "O"), ("B",)]


def test_a_sentence_of_which_a_word_has_no_tag_is_rejected(tmp_path):
    (tmp_path / "dev.tsv").write_text("one\tO\ntwo\n\nthree\tO\n")
    first, second = iob_examples(tmp_path / "dev.tsv", "dev")
    assert isinstance(first, Rejected)
    assert first.place == "dev.tsv:2"
    assert second.text == "three"
