import json
from pathlib import Path
from typing import Any

import pytest

from acclimate.core.types import Rejected
from acclimate.reading.formats.annotated import Annotated, Mention, Relation
from acclimate.reading.formats.bioc import bioc_documents

TITLE, ABSTRACT = "𝛼-Naloxone & clonidine", "Breast and ovarian cancer."
XML = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE collection SYSTEM "BioC.dtd">
<collection><source>x</source><date/><key/>
<document><id>17</id>
<passage><infon key="type">title</infon><offset>0</offset><text>𝛼-Naloxone &amp; clonidine</text>
<annotation id="T1"><infon key="type">Chemical</infon><location offset="2" length="8"/><text>Naloxone</text>
</annotation></passage>
<passage><offset>25</offset><text>Breast and ovarian cancer.</text>
<annotation id="T2"><infon key="type">Disease</infon><location offset="44" length="6"/>
<location offset="25" length="6"/><text>Breast cancer</text></annotation>
<annotation id="T3"><infon key="type">Topic</infon><text/></annotation>
<relation id="R1"><infon key="type">treats</infon><node refid="T1" role="a"/><node refid="T2" role="b"/></relation>
</passage>
<relation id="R2"><infon key="type">why</infon><node refid="R1" role="a"/><node refid="T2" role="b"/></relation>
<relation id="R3"><infon key="type">alone</infon><node refid="T1" role="a"/></relation>
</document>
</collection>
"""


def annotated(name: str, kind: str, text: str, *places: tuple[int, int]) -> dict[str, Any]:
    locations = [{"offset": offset, "length": length} for offset, length in places]
    return {"id": name, "infons": {"type": kind}, "text": text, "locations": locations}


def related(name: str, kind: str, *nodes: str) -> dict[str, Any]:
    return {"id": name, "infons": {"type": kind}, "nodes": [{"refid": node} for node in nodes]}


NALOXONE, CANCER = ("T1", "Chemical", "Naloxone", (2, 8)), ("T2", "Disease", "Breast cancer", (44, 6), (25, 6))
PASSAGES = [
    {"offset": 0, "infons": {"type": "title"}, "text": TITLE, "annotations": [annotated(*NALOXONE)]},
    {"offset": 25, "text": ABSTRACT, "annotations": [annotated(*CANCER), annotated("T3", "Topic", "")]},
]
PASSAGES[1]["relations"] = [related("R1", "treats", "T1", "T2")]
RELATIONS = [related("R2", "why", "R1", "T2"), related("R3", "alone", "T1")]
DOCUMENT: dict[str, Any] = {"id": "17", "passages": PASSAGES, "relations": RELATIONS}


def read(folder: Path, content: str | bytes | object, name: str) -> list[Annotated | Rejected]:
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(bioc_documents(folder / name))


@pytest.mark.parametrize("name", ["a.xml", "a.json"])
def test_xml_and_json_say_the_same(tmp_path, name):
    (document,) = read(tmp_path, XML if name == "a.xml" else {"source": "x", "documents": [DOCUMENT]}, name)
    assert isinstance(document, Annotated), document
    # passages stand at their offsets, with a line end and spaces in the gap
    assert (document.id, document.text) == ("17", f"{TITLE}\n  {ABSTRACT}")
    assert document.mentions == (Mention("T1", "Chemical", ((2, 10),)), Mention("T2", "Disease", ((25, 31), (44, 50))))
    assert document.relations == (Relation("treats", "T1", "T2"),)
    unread = "annotation without a location", "relation of 1", "relation of a relation"
    assert dict(document.unread) == dict.fromkeys(unread, 1)
    assert document.place == {"a.xml": "a.xml:4", "a.json": "a.json, document 1"}[name]


@pytest.mark.parametrize("wrapped", [[{"documents": [DOCUMENT]}], DOCUMENT, [DOCUMENT], {"PubTator3": [DOCUMENT]}])
def test_json_may_hold_collections_or_documents(tmp_path, wrapped):
    (document,) = read(tmp_path, wrapped, "a.json")
    assert isinstance(document, Annotated), document
    assert len(document.mentions) == 2


def test_sentences_may_hold_the_text(tmp_path):
    sentence = {"offset": 5, "text": "Aspirin.", "annotations": []}
    one = {"id": 1, "passages": [{"offset": 5, "sentences": [sentence, {"offset": 14, "text": "It works."}]}]}
    (document,) = read(tmp_path, one, "a.json")
    assert isinstance(document, Annotated), document
    assert document.text == "\n    Aspirin.\nIt works."
    one["passages"][0]["text"] = "Aspirin. It works."  # type: ignore[index]
    (document,) = read(tmp_path, one, "a.json")
    assert isinstance(document, Annotated), document
    assert document.text == "\n    Aspirin. It works."


@pytest.mark.parametrize(
    ("old", "new", "place", "said"),
    [
        ('offset="2"', 'offset="1"', "a.xml:6", "'-Naloxon'. The text has that form at 2 to 10"),
        ('offset="2"', 'offset="3"', "a.xml:6", "They fit if they count UTF-16 code units"),
        ('offset="2"', 'offset="two"', "a.xml:6", "'offset' is 'two'"),
        ('offset="2"', 'offset="-2"', "a.xml:6", "'offset' is '-2'"),
        (">Naloxone<", ">naloxone<", "a.xml:6", "'Naloxone'. The text does not contain that form"),
        ('<annotation id="T2">', '<annotation id="T1">', "a.xml:9", "the same id"),
        ('key="type">Chemical', 'key="kind">Chemical', "a.xml:6", "'T1' has no infon 'type', only ['kind']"),
        ('refid="T1" role="a"/><node refid="T2"', 'refid="T1"/><node refid="T9"', "a.xml:12", "refers to 'T9'"),
        ("<offset>25", "<offset>20", "a.xml:8", "begins at 20, but the text before it ends at 22"),
        ("<offset>25", "<offset>99999999999", "a.xml:8", "begins at 99,999,999,999"),
        ("<id>17</id>", "", "a.xml:4", "'id' of"),
        ("<id>17</id>", "<id> </id>", "a.xml:4", "the document's id is ' '"),
    ],
)
def test_what_cannot_be_used_rejects_its_document(tmp_path, old, new, place, said):
    assert XML.count(old) == 1
    other = "<document><id>18</id><passage><offset>0</offset><text>x</text></passage></document></collection>"
    bad, good = read(tmp_path, XML.replace(old, new).replace("</collection>", other), "a.xml")
    assert isinstance(bad, Rejected)
    assert isinstance(good, Annotated)
    assert bad.place == place
    assert said in bad.reason


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("passages",), "x"),
        (("passages", 0), "x"),
        (("passages", 0, "text"), 5),
        (("passages", 0, "offset"), None),
        (("passages", 0, "offset"), True),
        (("passages", 0, "offset"), 1.5),
        (("passages", 0, "annotations"), {"a": 1}),
        (("passages", 0, "annotations", 0, "infons"), None),
        (("passages", 0, "annotations", 0, "infons", "type"), ["a"]),
        (("passages", 0, "annotations", 0, "locations"), 7),
        (("passages", 0, "annotations", 0, "locations", 0, "length"), -1),
        (("passages", 0, "annotations", 0, "text"), None),
        (("relations", 0, "nodes"), "T1"),
        (("passages", 1, "relations", 0, "nodes", 0, "refid"), None),
        (("id",), {"a": 1}),
    ],
)
def test_json_of_the_wrong_shape_rejects_its_document(tmp_path, path, value):
    document = json.loads(json.dumps(DOCUMENT))
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    bad, good = read(tmp_path, {"documents": [document, DOCUMENT]}, "a.json")
    assert isinstance(bad, Rejected)
    assert isinstance(good, Annotated)
    assert bad.place == "a.json, document 1"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.xml", '<!DOCTYPE c [<!ENTITY x "ha">]><collection>&x;</collection>', "declares the entity 'x'"),
        ("a.xml", "<collection><document>", "not well-formed XML"),
        ("a.xml", "<document/>", "the outermost element is 'document'"),
        ("a.xml", "<collection/>", "contains no document"),
        ("a.json", '{"documents": [', "not valid JSON"),
        ("a.json", "[" * 100_000, "not valid JSON"),
        ("a.json", "[5]", "5 is neither a collection nor a document"),
        ("a.json", "{}", "{} is neither a collection nor a document"),
        ("a.json", '{"documents": []}', "contains no document"),
        ("a.json", b'{"documents": "\xff"}', "not valid JSON"),
    ],
)
def test_a_file_that_is_no_collection_is_refused(tmp_path, name, content, said):
    with pytest.raises(ValueError, match=said) as caught:
        read(tmp_path, content, name)
    assert name in str(caught.value)
