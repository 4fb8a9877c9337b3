import gzip
from pathlib import Path

import pytest

from acclimate.core.types import Rejected
from acclimate.reading.formats.annotated import Annotated, Mention, Relation
from acclimate.reading.formats.pubtator import pubtator_documents

TITLE = "𝛼-Naloxone reverses clonidine"
ABSTRACT = "Clonidine lowers pressure (hypotension). Naloxone does not."
MENTIONS = """17	2	10	Naloxone	Chemical	D009270
17	20	29	clonidine	Chemical	D003000
17	30	39	Clonidine	Chemical	D003000
17	57	68	hypotension	Disease	D007022|D006973	hypo|tension
17	71	79	Naloxone	Chemical	-1
"""
RELATIONS = "17	CID	D003000	D007022\n"
DOCUMENT = f"17|t|{TITLE}\n17|a|{ABSTRACT}\n{MENTIONS}{RELATIONS}"
OTHER = "18|t|Aspirin\n18|a|\n18	0	7	Aspirin	Chemical\n"


def read(folder: Path, content: str | bytes, name: str = "a.pubtator") -> list[Annotated | Rejected]:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(pubtator_documents(folder / name))


def test_documents_are_read_with_offsets_into_title_line_end_and_abstract(tmp_path):
    first, second = read(tmp_path, f"\n{DOCUMENT}\n\n{OTHER}")
    assert isinstance(first, Annotated), first
    assert isinstance(second, Annotated), second
    assert (first.id, first.text, first.place) == ("17", f"{TITLE}\n{ABSTRACT}", "a.pubtator:2")
    assert first.mentions[3] == Mention("T4", "Disease", ((57, 68),))
    assert [mention.surface(first.text) for mention in first.mentions][:3] == ["Naloxone", "clonidine", "Clonidine"]
    assert (second.id, second.text, second.place) == ("18", "Aspirin\n", "a.pubtator:12")
    assert second.mentions == (Mention("T1", "Chemical", ((0, 7),)),)


def test_a_relation_of_concepts_is_one_of_every_two_mentions_that_bear_them(tmp_path):
    (first,) = read(tmp_path, DOCUMENT)
    assert isinstance(first, Annotated)
    assert first.relations == (Relation("CID", "T2", "T4"), Relation("CID", "T3", "T4"))


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_line_ends_and_empty_lines_do_not_matter(tmp_path, ending):
    content = f"\ufeff{DOCUMENT}{OTHER}".replace("\n", ending)  # a title begins a document too
    first, second = read(tmp_path, gzip.compress(content.encode()), "a.txt.gz")
    assert isinstance(first, Annotated), first
    assert isinstance(second, Annotated), second
    assert (first.text, len(first.mentions), second.id) == (f"{TITLE}\n{ABSTRACT}", 5, "18")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("17\t1\t9\tNaloxone\tChemical\tD1", ("'Naloxone'", "'-Naloxon'", "at 2 to 10")),
        ("17\t21\t30\tclonidine\tChemical\tD1", ("UTF-16",)),
        ("17\t2\t10\tnaloxone\tChemical\tD1", ("'naloxone'", "'Naloxone'")),
        ("17\t2\t10\tNaloxone\t\tD1", ("neither may be empty",)),
        ("18\t2\t10\tNaloxone\tChemical\tD1", ("to document '18'", "is in '17'")),
        ("17\t2\t10", ("neither a mention",)),
        ("17 2 10 Naloxone Chemical", ("neither a mention",)),
        ("17\t2\tten\tNaloxone\tChemical", ("neither a mention",)),
        ("17\tCID\tD003000\tD999", ("the relation 'CID' refers to 'D999', but no mention has that concept",)),
        ("17|a|again", ("a second title or abstract",)),
    ],
)
def test_a_line_that_cannot_be_used_rejects_its_document(tmp_path, line, said):
    bad, good = read(tmp_path, f"{DOCUMENT}{line}\n\n{OTHER}")
    assert isinstance(bad, Rejected)
    assert isinstance(good, Annotated)
    assert bad.place == "a.pubtator:9"
    for words in said:
        assert words in bad.reason


def test_what_is_no_pubtator_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a\.txt:1: 'hello', but PubTator files begin with a title"):
        read(tmp_path, "hello\n", "a.txt")
    with pytest.raises(ValueError, match="byte 0xef is not UTF-8"):
        read(tmp_path, b"17|t|na\xefve\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no file in it ends in"):
        list(pubtator_documents(tmp_path / "empty"))
    with pytest.raises(ValueError, match="contains no document"):
        read(tmp_path, "\n\n")
