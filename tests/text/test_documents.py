import gzip
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from acclimate.core.types import Document
from acclimate.text.documents import read_documents

PACK = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}


@pytest.mark.parametrize("packed", PACK)
def test_text_is_a_document_a_line(tmp_path, packed):
    file = tmp_path / f"notes.txt{packed}"
    file.write_bytes(PACK[packed]("\ufefffirst\r\nsécond\u2028still second\n\nlast".encode()))
    texts = [(document.id, document.text) for document in read_documents(file)]
    name = file.name
    assert texts == [
        (f"{name}:1", "first"),
        (f"{name}:2", "sécond\u2028still second"),
        (f"{name}:3", ""),
        (f"{name}:4", "last"),
    ]


@pytest.mark.parametrize("packed", PACK)
def test_blank_lines_separate_documents_where_asked(tmp_path, packed):
    file = tmp_path / f"notes.txt{packed}"
    file.write_bytes(PACK[packed](b"\none\ntwo\n\n \nthree\n"))
    assert list(read_documents(file, separated="blank")) == [
        Document(f"{file.name}:2", "one\ntwo"),
        Document(f"{file.name}:6", "three"),
    ]


@pytest.mark.parametrize("packed", PACK)
def test_json_lines_carry_id_and_source(tmp_path, packed):
    rows = [{"body": "a\nb", "id": 7, "source": "wiki", "more": [1]}, {"body": "c", "id": None}]
    file = tmp_path / f"rows.jsonl{packed}"
    file.write_bytes(PACK[packed]("\n\n".join(map(json.dumps, rows)).encode()))
    assert list(read_documents(file, field="body")) == [
        Document("7", "a\nb", "wiki"),
        Document(f"{file.name}:3", "c"),
    ]


def test_parquet_carries_id_and_source(tmp_path):
    count = 600  # more than are decoded at a time
    table = pa.table({"text": [f"text {row}" for row in range(count)], "source": ["s"] * count, "other": [0] * count})
    pq.write_table(table, tmp_path / "rows.parquet")
    documents = list(read_documents(tmp_path / "rows.parquet"))
    assert documents == [Document(f"rows.parquet:{row + 1}", f"text {row}", "s") for row in range(count)]


def test_folder_is_read_in_the_order_of_its_paths(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.txt").write_text("two")
    (tmp_path / "a.jsonl").write_text('{"text": "one"}')
    (tmp_path / "README.md").write_text("not a document")
    (tmp_path / ".hidden.txt").write_text("not a document")
    assert list(read_documents(tmp_path)) == [Document("a.jsonl:1", "one"), Document("b/two.txt:1", "two")]


def test_zstd_frames_follow_each_other_and_lines_span_blocks(tmp_path):
    lines = [str(number) * 5000 for number in range(60)]
    content = "\n".join(lines).encode()
    file = tmp_path / "many.txt.zst"
    file.write_bytes(PACK[".zst"](content[:100_001]) + PACK[".zst"](content[100_001:]))
    assert [document.text for document in read_documents(file)] == lines


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b'{"text": ', "rows.jsonl:2: '{\"text\": ' is not valid JSON"),
        (b'["text"]', "rows.jsonl:2: '[\"text\"]' is not a JSON object"),
        (b'{"body": "b"}', "rows.jsonl:2: no field 'text', only ['body']"),
        (b'{"text": 3}', "rows.jsonl:2: 'text' is 3, but a document is text"),
        (b'{"text": "b", "id": [1]}', "rows.jsonl:2: id [1] is neither"),
        (b'{"text": "b", "id": true}', "rows.jsonl:2: id True is neither"),
        (b'{"text": "b", "source": 1}', "rows.jsonl:2: source 1 is not text"),
        (b'{"text": "caf\xe9"}', "rows.jsonl:2: byte 13 is 0xe9, which is not UTF-8"),
        (b'{"text": "a\\ud800"}', "rows.jsonl:2: '\\ud800' at character 1 is half a surrogate pair"),
    ],
)
def test_bad_lines_are_named_with_file_and_line(tmp_path, line, complaint):
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b'{"text": "fine"}\n' + line + b"\n")
    with pytest.raises(ValueError, match=re.escape(complaint)):
        list(read_documents(file))


def test_bad_parquet_is_named(tmp_path):
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": ["a", None]}), file)
    with pytest.raises(ValueError, match=r"rows.parquet:2: 'text' is None"):
        list(read_documents(file))
    with pytest.raises(ValueError, match=r"rows.parquet: no field 'body', only \['text'\]"):
        list(read_documents(file, field="body"))
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match=r"rows.parquet: not a parquet file"):
        list(read_documents(file))


@pytest.mark.parametrize("packed", [".gz", ".zst"])
@pytest.mark.parametrize("cut", [-9, 3, None])
def test_cut_off_and_damaged_archives_are_refused(tmp_path, packed, cut):
    whole = PACK[packed](b"\n".join(b"line %d" % number for number in range(5000)))
    file = tmp_path / f"notes.txt{packed}"
    file.write_bytes(whole[:cut] if cut else b"nothing of the kind")
    with pytest.raises(ValueError, match=r"notes\.txt"):
        list(read_documents(file))


def test_unknown_places_and_endings_are_refused_at_once(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_documents(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no file below it ends in \.txt"):
        read_documents(tmp_path)
    (tmp_path / "notes.doc").touch()
    with pytest.raises(ValueError, match=r"notes.doc: its name ends in none of"):
        read_documents(tmp_path / "notes.doc")
