import tarfile
from pathlib import Path

import pytest

from acclimate.core.types import Rejected
from acclimate.reading.formats.annotated import Annotated, Mention, Relation
from acclimate.reading.formats.brat import brat_documents

TEXT = "Aspirin 𝛼 helps breast and ovarian cancer.\nIt is cheap.\n"
ANNOTATIONS = """T1\tDrug 0 7\tAspirin
T2\tDisease 16 22;35 41\tbreast cancer
T3\tDisease 27 41\tovarian cancer
R1\ttreats Arg1:T1 Arg2:T2\t
R2\ttreats Arg2:T3 Arg1:T1
*\tEquiv T2 T3
A1\tNegated T1
M1\tSpeculated T1
N1\tReference T1 MESH:D001241\tAspirin
#1\tAnnotatorNotes T1\tcheap
E1\tCure:T1 Theme:T2
R3\tcauses Arg1:E1 Arg2:T2
R4\tall a:T1 b:T2 c:T3
"""


def written(folder: Path, **files: str | bytes) -> Path:
    for name, content in files.items():
        stem, _, ending = name.rpartition("_")
        file = folder / f"{stem}.{ending}"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def test_mentions_and_relations_are_read_and_the_rest_counted(tmp_path):
    (read,) = brat_documents(written(tmp_path, a_txt=TEXT, a_ann=ANNOTATIONS))
    assert isinstance(read, Annotated), read
    assert (read.id, read.text, read.place) == ("a", TEXT, "a.txt:1")
    assert read.mentions == (
        Mention("T1", "Drug", ((0, 7),)),
        Mention("T2", "Disease", ((16, 22), (35, 41))),
        Mention("T3", "Disease", ((27, 41),)),
    )
    assert read.relations == (Relation("treats", "T1", "T2"), Relation("treats", "T1", "T3"))
    assert dict(read.unread) == {
        "attribute": 2,
        "equivalence": 1,
        "event": 1,
        "normalisation": 1,
        "note": 1,
        "relation of 3": 1,
        "relation of an event": 1,
    }


def test_line_ends_count_as_they_stand_in_the_text(tmp_path):
    text = TEXT.replace("\n", "\r\n")
    place = text.index("cheap")
    fitting = ANNOTATIONS.replace("\n", "\r\n") + f"T4\tPrice {place} {place + 5}\tcheap\r\n"
    (read,) = brat_documents(written(tmp_path, a_txt=text, a_ann=fitting))
    assert isinstance(read, Annotated), read
    assert read.mentions[3].surface(read.text) == "cheap"
    (read,) = brat_documents(written(tmp_path, a_ann=f"T4\tPrice {place - 1} {place + 4}\tcheap\n"))
    assert isinstance(read, Rejected)
    assert r"They fit if \r\n counts as one character" in read.reason


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("T4\tDrug 1 8\tAspirin", ("mention 'T4'", "'Aspirin'", "'spirin '", "at 0 to 7")),
        ("T1\tVerb 10 15\thelps", ("the same id",)),
        ("T4\tVerb 10 15", ("surface form is ''",)),
        ("T4\tVerb 10-15\thelps", ("is not an annotation of BRAT",)),
        ("T4\tVerb 10 15 helps", ("is not an annotation of BRAT",)),
        ("T4\tVerb " + "9" * 5000 + " 15\thelps", ("is not an annotation of BRAT",)),
        ("R9\ttreats Arg1:T1 Arg2:T9", ("the relation 'treats' refers to 'T9'",)),
        ("R9\ttreats T1 T2", ("is not an annotation of BRAT",)),
        ("helps", ("is not an annotation of BRAT",)),
    ],
)
def test_a_line_that_cannot_be_used_rejects_its_document(tmp_path, line, said):
    good = {"b_txt": TEXT, "b_ann": ANNOTATIONS}
    bad, read = brat_documents(written(tmp_path, a_txt=TEXT, a_ann=f"{ANNOTATIONS}\n{line}\n", **good))
    assert isinstance(bad, Rejected)
    assert isinstance(read, Annotated)
    assert bad.place == "a.ann:15"
    for words in said:
        assert words in bad.reason


def test_a_file_without_its_other_half_is_rejected(tmp_path):
    read = list(brat_documents(written(tmp_path, a_txt=TEXT, b_ann="", c_txt=TEXT, c_ann="", d_conf="[entities]")))
    assert isinstance(read[0], Annotated)
    assert [(each.place, each.reason[:21]) for each in read[1:] if isinstance(each, Rejected)] == [
        ("a.txt:1", "there is no .ann file"),
        ("b.ann:1", "there is no .txt with"),
    ]


def test_what_is_not_utf8_is_rejected_with_its_line(tmp_path):
    (read,) = brat_documents(written(tmp_path, a_txt=TEXT, a_ann=ANNOTATIONS.encode() + b"#2\tx T1\tna\xefve\n"))
    assert isinstance(read, Rejected)
    assert (read.place, read.reason[:26]) == ("a.ann:14", "byte 0xef is not UTF-8 (in")


def test_an_archive_is_read_as_its_folder_is(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    written(folder, a_txt=TEXT, a_ann=ANNOTATIONS, b_txt="none", b_ann="")
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        archive.add(folder, "corpus")
    read = [(document.id, document.mentions) for document in brat_documents(folder) if isinstance(document, Annotated)]
    packed = [each for each in brat_documents(tmp_path / "x.tar.gz") if isinstance(each, Annotated)]
    assert sorted((each.id.removeprefix("corpus/"), each.mentions) for each in packed) == read
    assert len(read) == 2


def test_what_holds_no_documents_is_refused(tmp_path):
    (tmp_path / "readme.md").write_text("x")
    with pytest.raises(ValueError, match=r"contains no \.txt and no \.ann"):
        list(brat_documents(tmp_path))
