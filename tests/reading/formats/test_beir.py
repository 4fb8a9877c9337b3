"""BEIR's folders: what is read of documents, queries and judgements, and which splits are drawn."""

from collections import Counter

import pytest

from acclimate.reading.formats.beir import read_collection
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles, check_labelled_files
from search_files import Judgement, write_collection

DOCUMENTS = {"a": ("Aspirin", "treats pain."), "b": "Ibuprofen treats pain.", "c": "Clay is soil."}
QUERIES = {f"q{at}": f"query {at}" for at in range(10)}
JUDGED: list[Judgement] = [(query, "a", 1) for query in QUERIES]


def test_rows_have_titles_grades_and_the_queries_that_a_document_answers(tmp_path):
    judged: dict[str, list[Judgement]] = {
        "train": [("q1", "b", 1), ("q2", "b", 2), ("q2", "gone", 1), ("q9", "b", 0)],
        "dev": [("q3", "a", 1)],
        "test": [("q4", "a", 2), ("q4", "b", 1), ("q4", "c", 0), ("q5", "c", -1)],
    }
    read = read_files(LabelledFiles(write_collection(tmp_path / "pills", DOCUMENTS, QUERIES, judged), max_tokens=32))
    assert (read.name, read.kind, read.metric.name, read.divided) == ("pills", "search", "ndcg_at_10", ())
    assert [(row.id, row.text, row.label) for row in read.splits["train"]] == [
        ("a", "Aspirin treats pain.", ()),
        ("b", "Ibuprofen treats pain.", ("query 1", "query 2")),
        ("c", "Clay is soil.", ()),
    ]
    assert [(row.id, row.text, row.label) for row in read.splits["test"]] == [("q4", "query 4", ("a", "a", "b"))]
    first, *others = read.notes
    assert first == (
        "pills is a search collection in BEIR's format: 3 documents, 2 training queries, 1 of dev and 1 of test."
    )
    assert others == [
        "2 queries without a relevant document are not used.",
        "1 relevant documents are not in corpus.jsonl; no ranking has them.",
    ]


@pytest.mark.parametrize(
    ("judged", "sizes", "divided"),
    [
        ({"test": JUDGED}, (0, 2, 8), ("dev",)),
        ({"train": JUDGED[:7], "test": JUDGED[7:]}, (6, 1, 3), ("dev",)),
        ({"train": JUDGED[:7], "dev": JUDGED[7:]}, (6, 1, 3), ("dev",)),
        ({"train": JUDGED}, (7, 1, 2), ("test", "dev")),
    ],
)
def test_missing_splits_are_drawn_of_train_or_else_of_test(tmp_path, judged, sizes, divided):
    folder = write_collection(tmp_path / "pills", DOCUMENTS, QUERIES, judged)
    read, again, other = (read_collection(folder, seed=seed) for seed in (0, 0, 1))
    assert read == again != other
    [training] = [row.label for row in read.splits["train"] if row.label] or [()]
    assert (len(training), len(read.splits["dev"]), len(read.splits["test"])) == sizes
    assert read.divided == divided
    texts = Counter([*training, *(row.text for split in ("dev", "test") for row in read.splits[split])])
    assert texts == Counter(QUERIES.values())


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("corpus.jsonl", '{"_id": "a", "text": "again"}', r"corpus.jsonl:4: the _id 'a' occurs twice. Give"),
        ("qrels/test.tsv", "q77\ta\t1", r"test.tsv:12: the query 'q77' is not in queries.jsonl. Add it"),
        ("qrels/test.tsv", "q1 a 1", r"test.tsv:12: 'q1 a 1' is no judgement. Write query-id"),
        ("qrels/test.tsv", "q1\tb\t0.5", r"test.tsv:12: .* is no judgement. Write query-id"),
        ("qrels/test.tsv", "q1\ta\t2", r"test.tsv:12: the document 'a' has the score 2 .* and 1 above. Remove"),
        ("qrels/test.tsv", "q1\tb\t1000", r"test.tsv:12: the score 1000 is no grade of relevance. Use"),
        ("qrels/dev.tsv", "q1\tb\t1", r"qrels: the query 'q1' has judgements in dev.tsv and test.tsv"),
    ],
)
def test_a_fault_is_named_with_its_file_and_line(tmp_path, file, line, message):
    folder = write_collection(tmp_path / "pills", DOCUMENTS, QUERIES, {"test": JUDGED})
    with open(folder / file, "a") as opened:
        opened.write(line + "\n")
    with pytest.raises(ValueError, match=message):
        read_collection(folder, seed=0)


def test_a_row_without_text_is_rejected_and_counted(tmp_path):
    folder = write_collection(tmp_path / "pills", {**DOCUMENTS, "d": ""}, QUERIES, {"test": JUDGED})
    documents, _ = read_collection(folder, seed=0).files
    assert (documents.rows, documents.accepted) == (4, 3)
    assert documents.rejected[0].place == "corpus.jsonl:4"


def test_what_is_no_collection_and_options_of_columns_are_refused(tmp_path):
    folder = write_collection(tmp_path / "pills", DOCUMENTS, QUERIES, {"test": JUDGED})
    check_labelled_files(LabelledFiles(folder))
    with pytest.raises(ValueError, match=r"--text body: pills is read in BEIR's format, which defines it. Remove it"):
        check_labelled_files(LabelledFiles(folder, text="body"))
    with pytest.raises(ValueError, match=r"--dev .*: pills is read in BEIR's format"):
        check_labelled_files(LabelledFiles(folder, dev=tmp_path / "dev.csv"))
    with pytest.raises(ValueError, match=r"--metric accuracy: applies to .* Use one of ndcg_at_10, mrr_at_10"):
        check_labelled_files(LabelledFiles(folder, metric="accuracy"))
    (folder / "qrels" / "test.tsv").unlink()
    with pytest.raises(ValueError, match=r"pills: there is no qrels/test.tsv. A search task is a folder in BEIR"):
        check_labelled_files(LabelledFiles(folder))
    with pytest.raises(ValueError, match=r"there is no corpus.jsonl"):
        check_labelled_files(LabelledFiles(tmp_path, kind="search"))
