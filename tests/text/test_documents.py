import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from acclimate.core.types import Document, Rejected
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
    assert list(read_documents(file, field="body")) == [Document("7", "a\nb", "wiki"), Document(f"{file.name}:3", "c")]


def test_parquet_carries_id_and_source_and_a_bad_row_is_named(tmp_path):
    count = 600  # more than are decoded at a time
    texts = [*(f"text {row}" for row in range(count - 1)), None]
    table = pa.table({"text": texts, "source": ["s"] * count, "other": [0] * count})
    pq.write_table(table, tmp_path / "rows.parquet")
    documents = read_documents(tmp_path / "rows.parquet")
    assert [*documents] == [Document(f"rows.parquet:{row + 1}", f"text {row}", "s") for row in range(count - 1)]
    assert documents.rejected == [Rejected("rows.parquet:600", "'text' is None, but a document must be text")]


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
        (b'["text"]', "a line must hold one JSON object; this one is '[\"text\"]'"),
        (b'{"body": "b"}', "no field 'text'"),
        (b'{"text": 3}', "'text' is 3, but a document must be text"),
        (b'{"text": "b", "id": true}', "the id True is neither text nor a whole number"),
        (b'{"text": "b", "id": "\\u0000"}', "the id has NUL '\\x00' in it: '\\x00'"),
        (b'{"text": "b", "source": 1}', "the source 1 is not text"),
        (b'{"text": "a\\ud800"}', "'text' has half a surrogate pair, '\\ud800', in it, at character 2"),
    ],
)
def test_documents_that_cannot_be_used_are_counted_with_their_place(tmp_path, line, complaint):
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b'{"text": "fine"}\n' + line + b"\n\n" + b'{"text": "fine too"}\n')
    documents = read_documents(file)
    assert [document.text for document in documents] == ["fine", "fine too"]
    assert (documents.rows, documents.accepted, documents.rejections) == (3, 2, 1)
    assert documents.rejected == [Rejected("rows.jsonl:2", complaint)]


def test_only_so_many_rejected_documents_are_kept(tmp_path):
    (tmp_path / "a.txt").write_text("good\n" * 1200 + "b\0d\n" * 1100)
    documents = read_documents(tmp_path)
    assert len(list(documents)) == 1200
    assert (documents.rejections, len(documents.rejected)) == (1100, 1000)


def test_a_list_of_texts_or_objects_in_one_json_file(tmp_path):
    """As labelled rows may stand in one. A folder's .json files are mostly no texts, so they are not read."""
    file = tmp_path / "notes.json"
    file.write_text(json.dumps(["One.", {"text": "Two.", "id": "b"}, 3, {"text": "Four."}]), encoding="utf-8")
    found = read_documents(file)
    assert [(one.id, one.text) for one in found] == [("notes.json:1", "One."), ("b", "Two."), ("notes.json:4", "Four.")]
    assert [each.place for each in found.rejected] == ["notes.json:3"]
    (tmp_path / "notes.json.gz").write_bytes(gzip.compress(file.read_bytes()))
    assert len([*read_documents(tmp_path / "notes.json.gz")]) == 3
    with pytest.raises(ValueError, match=r"no file below it ends in \.txt"):
        read_documents(tmp_path)
    file.write_text(json.dumps([{"body": "One."}]), encoding="utf-8")
    with pytest.raises(ValueError, match=r"notes\.json: no field 'text'; its fields are \['body'\]"):
        [*read_documents(file)]
    file.write_text('{"text": "One."}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"notes\.json: is one JSON value, but not a list"):
        [*read_documents(file)]


ARTICLE = """<PubmedArticle><MedlineCitation><PMID Version="1">{id}</PMID><Article>
<Journal><Title>A journal</Title></Journal><ArticleTitle>{title}</ArticleTitle>
<Abstract>{abstract}<CopyrightInformation>Somebody</CopyrightInformation></Abstract>
<OtherAbstract><AbstractText>Autre langue.</AbstractText></OtherAbstract>
</Article><CommentsCorrectionsList><CommentsCorrections><PMID>999</PMID></CommentsCorrections>
</CommentsCorrectionsList></MedlineCitation></PubmedArticle>"""
BOOK = """<PubmedBookArticle><BookDocument><PMID>3</PMID><Book><BookTitle>A book</BookTitle></Book>
<ArticleTitle>A chapter</ArticleTitle><Abstract><AbstractText>Short.</AbstractText></Abstract>
</BookDocument></PubmedBookArticle>"""


@pytest.mark.parametrize("packed", PACK)
def test_pubmed_gives_title_and_abstract_of_each_article(tmp_path, packed):
    labelled = (
        '<AbstractText Label="AIM">To see\n   &lt;5 <i>in vivo</i>.</AbstractText><AbstractText>Seen.</AbstractText>'
    )
    articles = [
        ARTICLE.format(id=1, title="Effects of <sup>3</sup>H &amp; more", abstract=labelled),
        ARTICLE.format(id=2, title="A title only", abstract=""),
        BOOK,
    ]
    declared = "<!DOCTYPE PubmedArticleSet PUBLIC '-//NLM//DTD' 'https://dtd.nlm.nih.gov/pubmed.dtd'>"
    content = f"\ufeff<?xml version='1.0'?>{declared}<PubmedArticleSet>{''.join(articles)}</PubmedArticleSet>"
    file = tmp_path / f"pubmed.xml{packed}"
    file.write_bytes(PACK[packed](content.encode()))
    assert list(read_documents(file)) == [
        Document("1", "Effects of 3H & more\nAIM: To see <5 in vivo.\nSeen."),
        Document("2", "A title only"),
        Document("3", "A chapter\nShort."),
    ]


def test_pubmed_is_streamed_over_the_ends_of_blocks(tmp_path):
    file = tmp_path / "pubmed.xml"
    abstract = f"<AbstractText>{'é word ' * 2000}</AbstractText>"
    articles = [ARTICLE.format(id=number, title=f"Title {number}", abstract=abstract) for number in range(200)]
    file.write_text(f"<PubmedArticleSet>{''.join(articles)}</PubmedArticleSet>", "utf-8")
    documents = list(read_documents(file))
    assert [document.id for document in documents] == [str(number) for number in range(200)]
    assert {document.text.partition("\n")[2] for document in documents} == {("é word " * 2000).strip()}


def test_what_datasets_saved_is_read_without_it(tmp_path):
    datasets = pytest.importorskip("datasets")
    columns = {"text": [f"text {row}" for row in range(600)], "id": list(range(600)), "more": [[1.5]] * 600}
    saved = datasets.Dataset.from_dict(columns)
    saved.save_to_disk(str(tmp_path / "one"), num_shards=2)
    splits = datasets.DatasetDict({"train": saved.select(range(3)), "test": saved.select([5])})
    splits.save_to_disk(str(tmp_path / "two"))
    assert list(read_documents(tmp_path / "one")) == [Document(str(row), f"text {row}") for row in range(600)]
    assert [document.id for document in read_documents(tmp_path / "two")] == ["5", "0", "1", "2"]


def test_a_dataset_among_other_files_is_read_in_its_place(tmp_path):
    folder = tmp_path / "b"
    folder.mkdir()
    table = pa.table({"text": ["one", "two"]})
    with pa.OSFile(str(folder / "data.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    (folder / "cache-12.arrow").write_bytes(b"what `map` made of the other")
    (folder / "dataset_info.json").write_text("{}")
    (folder / "notes.txt").write_text("not of the dataset")
    (tmp_path / "a.txt").write_text("zero")
    (tmp_path / "c.txt").write_text("three")
    assert list(read_documents(tmp_path)) == [
        Document("a.txt:1", "zero"),
        Document("b/data.arrow:1", "one"),
        Document("b/data.arrow:2", "two"),
        Document("c.txt:1", "three"),
    ]


def test_linked_folders_are_read_once(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("one")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "link").symlink_to(tmp_path / "texts")
    (tmp_path / "texts" / "up").symlink_to(tmp_path / "corpus")
    assert list(read_documents(tmp_path / "corpus")) == [Document("link/a.txt:1", "one")]
