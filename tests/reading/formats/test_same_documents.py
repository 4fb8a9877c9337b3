"""Real documents, written in each format and read again: the readers say the same of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest

from acclimate.core.types import Rejected
from acclimate.reading.formats.annotated import Annotated, Relation
from acclimate.reading.formats.bioc import bioc_documents
from acclimate.reading.formats.brat import brat_documents
from acclimate.reading.formats.chemprot import chemprot_documents
from acclimate.reading.formats.pubtator import pubtator_documents
from acclimate.reading.mentions import tagged
from acclimate.tasks.tags import entities

CHEMPROT = Path(__file__).parents[4] / "shared" / "data" / "blurb" / "chemprot" / "original" / "chemprot_development"
pytestmark = pytest.mark.skipif(not CHEMPROT.is_dir(), reason="ChemProt is not here")


@pytest.fixture(scope="module")
def documents() -> list[Annotated]:
    """The first 60 of ChemProt's development set, title and abstract on a line each, mentions in their order."""
    names = ("abstracts.tsv.gz", "entities.tsv.gz", "relations.tsv")
    read = chemprot_documents(*(CHEMPROT / f"chemprot_development_{name}" for name in names))
    found = []
    for document in itertools.islice(read, 60):
        assert isinstance(document, Annotated)
        mentions = tuple(sorted(document.mentions, key=lambda mention: (mention.start, mention.end)))
        text = document.text.replace("\t", "\n")
        found.append(Annotated(document.id, text, mentions, document.relations, document.place))
    return found


def said(read: Iterator[Annotated | Rejected]) -> list[tuple[object, ...]]:
    documents = [(each.id, each.text, each.mentions, each.relations) for each in read if isinstance(each, Annotated)]
    return sorted(documents, key=lambda document: document[0])


def as_bioc(document: Annotated) -> dict[str, Any]:
    title, abstract = document.text.split("\n")
    passages = []
    for offset, text in ((0, title), (len(title) + 1, abstract)):
        annotations = [
            {
                "id": mention.id,
                "infons": {"type": mention.type},
                "text": mention.surface(document.text),
                "locations": [{"offset": start, "length": end - start} for start, end in mention.spans],
            }
            for mention in document.mentions
            if offset <= mention.start < offset + len(text)
        ]
        passages.append({"offset": offset, "text": text, "annotations": annotations})
    relations = [
        {"id": f"R{number}", "infons": {"type": each.type}, "nodes": [{"refid": each.first}, {"refid": each.second}]}
        for number, each in enumerate(document.relations)
    ]
    return {"id": document.id, "passages": passages, "relations": relations}


def as_xml(name: str, values: dict[str, Any]) -> str:
    attributes = {"annotation": ("id",), "relation": ("id",), "location": ("offset", "length"), "node": ("refid",)}
    written = [f"{key}={quoteattr(str(values[key]))}" for key in attributes.get(name, ())]
    inner = []
    for key, value in values.items():
        if key == "infons":
            inner += [f"<infon key={quoteattr(each)}>{escape(said)}</infon>" for each, said in value.items()]
        elif isinstance(value, list):
            inner += [as_xml(key[:-1], each) for each in value]
        elif key not in attributes.get(name, ()):
            inner.append(f"<{key}>{escape(str(value))}</{key}>")
    return f"<{' '.join([name, *written])}>{''.join(inner)}</{name}>\n"


def test_brat(documents: list[Annotated], tmp_path: Path) -> None:
    for document in documents:
        (tmp_path / f"{document.id}.txt").write_bytes(document.text.encode())
        lines = [
            f"{mention.id}\t{mention.type} {mention.start} {mention.end}\t{mention.surface(document.text)}"
            for mention in document.mentions
        ]
        for number, relation in enumerate(document.relations):
            lines.append(f"R{number}\t{relation.type} Arg1:{relation.first} Arg2:{relation.second}")
        (tmp_path / f"{document.id}.ann").write_bytes("\n".join(lines).encode())
    assert said(brat_documents(tmp_path)) == said(iter(documents))


def test_bioc(documents: list[Annotated], tmp_path: Path) -> None:
    collection = {"documents": [as_bioc(document) for document in documents]}
    (tmp_path / "a.json").write_text(json.dumps(collection))
    (tmp_path / "a.xml").write_bytes(as_xml("collection", collection).encode())
    assert said(bioc_documents(tmp_path / "a.json")) == said(iter(documents))
    assert said(bioc_documents(tmp_path / "a.xml")) == said(iter(documents))


def test_pubtator(documents: list[Annotated], tmp_path: Path) -> None:
    lines = []
    for document in documents:
        title, abstract = document.text.split("\n")
        lines += [f"{document.id}|t|{title}", f"{document.id}|a|{abstract}"]
        for mention in document.mentions:
            surface = mention.surface(document.text)
            lines.append(f"{document.id}\t{mention.start}\t{mention.end}\t{surface}\t{mention.type}\t{mention.id}")
        lines += [f"{document.id}\t{each.type}\t{each.first}\t{each.second}" for each in document.relations]
        lines.append("")
    (tmp_path / "a.pubtator").write_bytes("\n".join(lines).encode())
    for document, read in zip(documents, pubtator_documents(tmp_path / "a.pubtator"), strict=True):
        assert isinstance(read, Annotated), read
        assert (read.id, read.text) == (document.id, document.text)
        # its mentions have no ids
        ours = {mention.id: f"T{number}" for number, mention in enumerate(document.mentions, 1)}
        assert [(each.type, each.spans) for each in read.mentions] == [
            (each.type, each.spans) for each in document.mentions
        ]
        assert read.relations == tuple(
            Relation(each.type, ours[each.first], ours[each.second]) for each in document.relations
        )


def test_tags_say_where_the_mentions_are(documents: list[Annotated]) -> None:
    read = tagged(documents, "BIOUL")
    found = set()
    for example, spans in zip(read.examples, read.spans, strict=True):
        for first, last, type in entities(example.label):
            found.add((example.group, spans[first][0], spans[last][1], type))
    stated = {(document.id, each.start, each.end, each.type) for document in documents for each in document.mentions}
    assert found <= stated
    assert len(found) + len(read.dropped) == read.mentions == sum(len(document.mentions) for document in documents)
    # what bears no tag overlaps what does
    for group, start, end, _ in stated - found:
        assert any(group == other and start < last and first < end for other, first, last, _ in found)
