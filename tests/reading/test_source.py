import gzip
import json

import pytest

from acclimate.reading.source import open_source
from acclimate.text.untrusted import HEAD

TABLE = b"text,label\nx,y\n"
TAGS = b"EU B-ORG\nis O\n"
QUESTIONS = b'{"version": 1, "data": [{"title": "a", "paragraphs": []}]}'


@pytest.mark.parametrize(
    ("name", "content", "form", "holds"),
    [
        ("a.csv", TABLE, ",", ""),
        ("a.tsv.gz", gzip.compress(TABLE.replace(b",", b"\t"), mtime=0), "\t", ""),
        ("a.txt", TABLE.replace(b",", b";"), ";", ""),
        ("a.txt", b"a text\nanother\n", "", ""),
        ("a.csv", b'{"a": 1}\n{"a": 2}\n', ".jsonl", ""),
        ("a", b"[\n{}]", ".json", ""),
        ("a.csv", b"PAR1", ".parquet", ""),
        ("a.parquet", TABLE, ".parquet", ""),
        ("a.txt", TAGS, "", "tags"),
        ("a.txt", b"\xef\xbb\xbf\n" + TAGS * 9000, "", "tags"),  # longer than what is looked at
        ("a.txt", TAGS.replace(b"B-ORG", b"NOUN"), "", ""),
        ("a.conll", b"anything", "", "tags"),
        ("a.txt", b"%PDF-1.7", None, ""),
        ("a.txt", QUESTIONS, "", "questions"),
        ("a.json", QUESTIONS.replace(b"data", b"rows"), ".json", "mentions"),
        ("data-00000.bin", b"\xff\xff\xff\xff", ".arrow", ""),
        ("a.json", json.dumps([{"a": 1}]).encode(), ".json", "mentions"),
        ("a.json.zip", b"PK\x03\x04", None, "questions mentions"),
        ("a.pubtator.gz", gzip.compress(b"1|t|A title\n", mtime=0), "", "mentions"),
    ],
)
def test_the_beginning_and_the_ending_show_what_a_file_holds(tmp_path, name, content, form, holds):
    path = tmp_path / name
    path.write_bytes(content)
    source = open_source(path)
    facts = {"questions": source.holds_questions, "tags": source.holds_tags, "mentions": source.holds_mentions}
    assert " ".join(fact for fact, holds in facts.items() if holds) == holds
    if form is None:
        with pytest.raises(ValueError, match=r"Unpack it|Extract its text"):
            source.table_form(["text", "label"])
    else:
        assert source.table_form(["text", "label"]) == form


def test_a_file_is_looked_into_once(tmp_path):
    path = tmp_path / "a\x1b.csv.gz"
    path.write_bytes(gzip.compress(TABLE))
    source = open_source(path)
    assert (source.name, source.file) == (f"{tmp_path}/a\\x1b.csv.gz", "a\\x1b.csv.gz")
    assert (source.ending, len(source.head) <= HEAD, source.line_place(2)) == (".csv", True, "a\\x1b.csv.gz:2")
    assert not source.holds_questions
    path.unlink()
    assert (source.beginning, source.table_form(["text"]), source.holds_tags) == (TABLE, ",", False)


def test_a_folder_is_opened_only_where_documents_may_be(tmp_path):
    assert open_source(tmp_path, folder=True).holds_mentions
    with pytest.raises(ValueError, match="is a folder, but a file is needed"):
        open_source(tmp_path)
