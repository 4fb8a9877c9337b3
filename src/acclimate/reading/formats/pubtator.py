"""PubTator's format: for each document its title and abstract, then a line for each mention and each relation.

    1234567|t|Aspirin and stroke
    1234567|a|We studied ...
    1234567<TAB>0<TAB>7<TAB>Aspirin<TAB>Chemical<TAB>D001241
    1234567<TAB>CID<TAB>D001241<TAB>D020521

An empty line ends a document. Offsets count characters of title, one line end and abstract. A mention may have the
identifiers of its concepts, with `|` or `;` between several (-1 or - : none); later fields are not read. A relation is
between concepts; here it becomes a relation between every two mentions of them, in the order of the text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from acclimate.core.names import shown
from acclimate.core.types import Rejected
from acclimate.reading.formats.annotated import Annotated, Mention, Relation, StatedMention, StatedRelation, checked
from acclimate.reading.formats.archives import LIMITS, ArchiveLimits, files_in
from acclimate.text.untrusted import named, printable

ENDINGS = (".pubtator", ".txt")
_TEXT = re.compile(r"([^|\t]+)\|([ta])\|(.*)", re.DOTALL)
_OFFSET = re.compile("[0-9]{1,12}")
_BETWEEN = re.compile(r"[|;,]")
_NONE = ("", "-", "-1")

_Lines = list[tuple[int, str]]


def pubtator_documents(path: Path, *, limits: ArchiveLimits = LIMITS) -> Iterator[Annotated | Rejected]:
    """Yield the documents of a file, or of the .pubtator and .txt files of a folder or archive; a Rejected for a faulty
    one.

    Raises ValueError if a file is not UTF-8 or does not begin with a title, if there is no file, and for the faults
    that `files_in` finds.
    """
    any_document = False
    for name, content in files_in(path, endings=ENDINGS, limits=limits):
        any_document = True
        yield from _documents(name, content, named(path))
    if not any_document:
        raise ValueError(f"{named(path)}: no file in it ends in {' or '.join(ENDINGS)}. Name another")


def _documents(name: str, content: bytes, path: str) -> Iterator[Annotated | Rejected]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content[: error.start].count(10) + 1
        raise ValueError(
            f"{path}, {printable(name)}:{number}: byte {content[error.start]:#04x} is not UTF-8 ({error.reason}). "
            f"Convert the file, for example: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW"
        ) from error
    lines: _Lines = []
    begun = False
    for number, ended in enumerate([*text.split("\n"), ""], 1):
        line = ended.removesuffix("\r")
        title = _TEXT.fullmatch(line)
        if line.strip() and not begun:
            begun = True
            if title is None:
                raise ValueError(
                    f"{path}, {printable(name)}:{number}: {shown(line)}, but PubTator files begin with a title, "
                    "such as '1234567|t|Aspirin and stroke'. Name another file"
                )
        if lines and (not line.strip() or (title is not None and title[2] == "t")):
            yield _document(printable(name), lines)
            lines = []
        if line.strip():
            lines.append((number, line))
    if not begun:
        raise ValueError(f"{path}, {printable(name)}: contains no document. Write it again or name another file")


def _document(name: str, lines: _Lines) -> Annotated | Rejected:
    parts: dict[str, str] = {}
    ids: dict[str, None] = {}
    mentions: list[StatedMention] = []
    bearers: defaultdict[str, list[str]] = defaultdict(list)  # concept -> ids of its mentions
    relation_lines: list[tuple[str, list[str]]] = []
    for number, line in lines:
        place = f"{name}:{number}"
        if text := _TEXT.fullmatch(line):
            if text[2] in parts or (text[2] == "a" and "t" not in parts):
                return Rejected(
                    place, f"{shown(line)} is a second title or abstract, or in the wrong place; correct it"
                )
            ids[text[1]] = None
            parts[text[2]] = text[3]
            continue
        fields = line.split("\t")
        ids[fields[0]] = None
        if len(fields) >= 5 and _OFFSET.fullmatch(fields[1]) and _OFFSET.fullmatch(fields[2]):
            id = f"T{len(mentions) + 1}"
            mention = Mention(id, fields[4], ((int(fields[1]), int(fields[2])),))
            mentions.append(StatedMention(place, mention, fields[3]))
            for concept in _BETWEEN.split(fields[5] if len(fields) > 5 else ""):
                if concept.strip() not in _NONE and id not in bearers[concept.strip()]:
                    bearers[concept.strip()].append(id)
        elif len(fields) >= 4 and not _OFFSET.fullmatch(fields[1]):
            relation_lines.append((place, fields))
        else:
            return Rejected(
                place,
                f"{shown(line)} is neither a mention (id, start, end, surface form, type) nor a relation (id, type, "
                "two concepts), separated by tabs; correct the line",
            )
        if len(ids) > 1:
            return Rejected(
                place, f"the line belongs to document {shown(fields[0])}, but is in {shown(next(iter(ids)))}"
            )
    relations: list[StatedRelation] = []
    for place, fields in relation_lines:
        missing = [concept for concept in fields[2:4] if concept not in bearers]
        if missing:
            return Rejected(
                place, f"the relation {shown(fields[1])} refers to {shown(missing[0])}, but no mention has that concept"
            )
        relations += [
            StatedRelation(place, Relation(fields[1], first, second))
            for first in bearers[fields[2]]
            for second in bearers[fields[3]]
            if first != second
        ]
    return checked(next(iter(ids)), "\n".join(parts.values()), mentions, relations, place=f"{name}:{lines[0][0]}")
