"""BioC, as XML and as JSON: documents of passages, or of sentences in passages, with annotations and relations.

    <collection><document><id>1234567</id><passage><offset>0</offset><text>Aspirin and stroke</text>
      <annotation id="T1"><infon key="type">Chemical</infon><location offset="0" length="7"/><text>Aspirin</text>
      </annotation></passage></document></collection>

A document's text consists of its passages, each at its offset, with line ends and spaces in the gaps. Offsets count
characters of the document. Annotations without a location, and relations of other than two annotations, are counted but
not read (`Annotated.unread`). JSON may hold a collection, a list of collections or documents, or one document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from acclimate.core.names import shown
from acclimate.core.types import Rejected
from acclimate.reading.formats.annotated import Annotated, Mention, Relation, StatedMention, StatedRelation, checked
from acclimate.reading.formats.archives import LIMITS, ArchiveLimits, files_in
from acclimate.reading.formats.xml import Lines, elements
from acclimate.text.untrusted import loads, named, printable

ENDINGS = (".xml", ".json")
_WIDEST = 1 << 20  # characters between two passages; after a wider gap the offset must be wrong
_PLACE = 0  # key, which JSON cannot have, for the place of an element in the file
_ATTRIBUTES = ("id", "refid", "offset", "length")
_CHILDREN = ("id", "text", "offset")
_LISTS = ("passage", "sentence", "annotation", "relation", "location", "node")

_Values = Mapping[Any, Any]  # an element in the form of BioC's JSON


class _UnfitError(Exception):
    """The document cannot be used. rejected: its Rejected."""

    def __init__(self, place: str, reason: str) -> None:
        self.rejected = Rejected(place, reason)


def bioc_documents(path: Path, *, type: str = "type", limits: ArchiveLimits = LIMITS) -> Iterator[Annotated | Rejected]:
    """Yield the documents of a file, or of a folder or archive (.xml, .json); a Rejected for a faulty one.

    type  key of the infon that holds the type of an annotation or relation

    Raises ValueError if there is no such file, if one is not well-formed or no collection, for XML that declares
    entities, and for the faults that `files_in` finds.
    """
    any_document = False
    for name, content in files_in(path, endings=ENDINGS, limits=limits):
        any_document = True
        where = named(path) if path.is_file() and name == path.name else f"{named(path)}, {printable(name)}"
        read = _read_json if content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") else _read_xml
        documents = read(content, where, printable(name))
        none = True
        for document in documents:
            none = False
            yield _document(document, type)
        if none:
            raise ValueError(f"{where}: contains no document. Write it again or name another file")
    if not any_document:
        raise ValueError(f"{named(path)}: no file there ends in {' or '.join(ENDINGS)}. Name another file or folder")


def _read_json(content: bytes, where: str, name: str) -> Iterator[_Values]:
    try:
        value = loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{where}: not valid JSON ({printable(str(error))}). Write it again or name another file"
        ) from error
    waiting, number = [value], 0
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += reversed(node)
        elif isinstance(node, dict) and "passages" in node:
            number += 1
            yield {**node, _PLACE: f"{name}, document {number}"}
        elif isinstance(node, dict) and any(isinstance(part, list) for part in node.values()):
            # PubTator 3 names the list of its documents "PubTator3"
            lists = [part for part in node.values() if isinstance(part, list)]
            waiting.append(node.get("documents", lists[0]))
        else:
            raise ValueError(f"{where}: {shown(node)} is neither a collection nor a document of BioC. Name another")


def _read_xml(content: bytes, where: str, name: str) -> Iterator[_Values]:
    for tree, lines in elements([content], "document", where=where, root="collection"):
        yield _as_json(tree, lines, name)


def _as_json(element: Element, lines: Lines, name: str) -> _Values:
    """Return the element in the form of BioC's JSON, without attributes and children that BioC does not define."""
    values: dict[Any, Any] = {key: value for key, value in element.items() if key in _ATTRIBUTES}
    values[_PLACE] = f"{name}:{lines[element]}"
    for child in element:
        if child.tag in _LISTS:
            values.setdefault(f"{child.tag}s", []).append(_as_json(child, lines, name))
        elif child.tag == "infon":
            values.setdefault("infons", {})[child.get("key", "")] = child.text or ""
        elif child.tag in _CHILDREN:
            values[child.tag] = child.text or ""
    return values


def _document(document: _Values, type: str) -> Annotated | Rejected:
    place = document[_PLACE]
    mentions: list[StatedMention] = []
    relations: list[StatedRelation] = []
    relation_ids: set[str] = set()
    unread: Counter[str] = Counter()
    text = ""
    try:
        id = _text(document, "id", place)
        for part in _parts(document, place):
            text = _longer(text, part, place)
            for annotation in _listed(part, "annotations", place):
                if annotation.get("locations"):
                    mentions.append(_mention(annotation, type, place))
                else:
                    unread["annotation without a location"] += 1
            for relation in _listed(part, "relations", place):
                relation_ids.add(str(relation.get("id")))
                nodes = _listed(relation, "nodes", place)
                if len(nodes) == 2:
                    relations.append(_relation(relation, nodes, type, place))
                else:
                    unread[f"relation of {len(nodes)}"] += 1
    except _UnfitError as error:
        return error.rejected
    relation_ids -= {stated_mention.mention.id for stated_mention in mentions}
    of_mentions = [
        relation
        for relation in relations
        if relation_ids.isdisjoint({relation.relation.first, relation.relation.second})
    ]
    if len(of_mentions) < len(relations):
        unread["relation of a relation"] = len(relations) - len(of_mentions)
    return checked(id, text, mentions, of_mentions, place=place, unread=sorted(unread.items()))


def _parts(document: _Values, place: str) -> Iterator[_Values]:
    """Yield the document, its passages, and their sentences, in the order of the text."""
    yield {**document, "text": None}
    for passage in _listed(document, "passages", place):
        yield passage
        yield from _listed(passage, "sentences", place)


def _longer(text: str, part: _Values, place: str) -> str:
    """Return the text so far, extended by the text of the passage or sentence, if it has one, at its offset."""
    added = part.get("text")
    if not added:
        return text
    at = part.get(_PLACE, place)
    if not isinstance(added, str):
        raise _UnfitError(at, f"the text of a passage is {shown(added)}; make it a string")
    offset = _whole(part, "offset", at)
    gap = offset - len(text)
    if gap < 0 and text.startswith(added, offset):
        return text  # a sentence of a passage that has its text already
    if not 0 <= gap <= _WIDEST:
        raise _UnfitError(
            at,
            f"the passage {shown(added)} begins at {offset:,}, but the text before it ends at {len(text):,}; "
            "passages must be in order, and offsets must count characters (code points) of the document",
        )
    return text + "\n" * min(gap, 1) + " " * (gap - 1) + added


def _mention(annotation: _Values, type: str, place: str) -> StatedMention:
    at = annotation.get(_PLACE, place)
    spans = []
    for location in _listed(annotation, "locations", at):
        start = _whole(location, "offset", at)
        spans.append((start, start + _whole(location, "length", at)))
    mention = Mention(_text(annotation, "id", at), _type(annotation, type, at), tuple(sorted(spans)))
    return StatedMention(at, mention, _text(annotation, "text", at))


def _relation(relation: _Values, nodes: list[_Values], type: str, place: str) -> StatedRelation:
    at = relation.get(_PLACE, place)
    first, second = (_text(node, "refid", at) for node in nodes)
    return StatedRelation(at, Relation(_type(relation, type, at), first, second))


def _type(values: _Values, type: str, place: str) -> str:
    infons = values.get("infons")
    if not isinstance(infons, Mapping) or type not in infons:
        keys = shown(sorted(map(str, infons)) if isinstance(infons, Mapping) else [])
        raise _UnfitError(
            place, f"{shown(values.get('id'))} has no infon {type!r}, only {keys}; rename the one with the type"
        )
    return _text(infons, type, place)


def _listed(values: _Values, key: str, place: str) -> list[_Values]:
    values_listed = values.get(key) or []
    if not isinstance(values_listed, list) or not all(isinstance(item, Mapping) for item in values_listed):
        raise _UnfitError(values.get(_PLACE, place), f"{key!r} are {shown(values_listed)}; make them a list of objects")
    return values_listed


def _text(values: _Values, key: str, place: str) -> str:
    text = values.get(key)
    if isinstance(text, int) and not isinstance(text, bool):
        return str(text)
    if not isinstance(text, str):
        raise _UnfitError(place, f"{key!r} of {_shown(values)} is {shown(text)}; make it a string")
    return text


def _shown(values: _Values) -> str:
    return shown({key: value for key, value in values.items() if key != _PLACE})


def _whole(values: _Values, key: str, place: str) -> int:
    number = values.get(key)
    if isinstance(number, str) and number.strip().isdecimal() and len(number) < 16:
        return int(number)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise _UnfitError(place, f"{key!r} is {shown(number)}, which is not a whole number of at least 0; correct it")
    return number
