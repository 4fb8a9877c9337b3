"""BRAT's standoff format: for each document a .txt with its text and an .ann with a line for each annotation.

    T1<TAB>Chemical 0 7<TAB>aspirin                 a mention: type, offsets, surface form
    T2<TAB>Disease 10 16;29 35<TAB>breast cancer    a discontinuous one
    R1<TAB>treats Arg1:T1 Arg2:T2                   a relation of two mentions

Attributes (A, M), normalisations (N), notes (#), equivalences (*), events (E) and relations with them are counted but
not read (`Annotated.unread`). Offsets count the characters of the .txt, line ends as they are in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from acclimate.core.names import shown
from acclimate.core.types import Rejected
from acclimate.reading.formats.annotated import Annotated, Mention, Relation, StatedMention, StatedRelation, checked
from acclimate.reading.formats.archives import LIMITS, ArchiveLimits, files_in
from acclimate.text.untrusted import MARK, named, printable

_UNREAD = {"A": "attribute", "M": "attribute", "N": "normalisation", "#": "note", "*": "equivalence", "E": "event"}
_MENTION = re.compile(r"(\S+) (\d{1,12} \d{1,12}(?:;\d{1,12} \d{1,12})*)")
_RELATION = re.compile(r"(\S+)((?: \S+:\S+)+) *")


def brat_documents(path: Path, *, limits: ArchiveLimits = LIMITS) -> Iterator[Annotated | Rejected]:
    """Yield the documents of a folder or archive; a Rejected for a faulty one. An id is the file's name without .txt.

    Raises ValueError if there is neither a .txt nor an .ann, and for the faults that `files_in` finds.
    """
    waiting: dict[str, tuple[str, bytes]] = {}  # ending and content of each file whose partner has not been read yet
    any_document = False
    for name, content in files_in(path, endings=(".txt", ".ann"), limits=limits):
        document, _, ending = name.rpartition(".")
        any_document = True
        if document in waiting:
            text_file = waiting.pop(document)[1]
            text, annotations = (content, text_file) if ending == "txt" else (text_file, content)
            yield _document(document, text, annotations)
        else:
            waiting[document] = (ending, content)
    for document, (ending, _) in waiting.items():
        lacks = (
            ".txt with its text"
            if ending == "ann"
            else ".ann file, which may be empty but shows that the text was annotated"
        )
        yield Rejected(f"{printable(document)}.{ending}:1", f"there is no {lacks}; add it, or remove the document")
    if not any_document:
        raise ValueError(
            f"{named(path)}: contains no .txt and no .ann files, which BRAT documents consist of. Name another"
        )


def _document(name: str, text: bytes, annotations: bytes) -> Annotated | Rejected:
    place = f"{printable(name)}.txt:1"
    decoded = {}
    for ending, content in (("txt", text), ("ann", annotations.removeprefix(MARK))):
        try:
            decoded[ending] = content.decode()
        except UnicodeDecodeError as error:
            return Rejected(
                f"{printable(name)}.{ending}:{content[: error.start].count(10) + 1}",
                f"byte {content[error.start]:#04x} is not UTF-8 ({error.reason}); convert the file",
            )
    mentions: list[StatedMention] = []
    relations: list[StatedRelation] = []
    unread: Counter[str] = Counter()
    for number, line in enumerate(decoded["ann"].split("\n"), 1):
        if not line.strip():
            continue
        read = _annotation(f"{printable(name)}.ann:{number}", line.rstrip("\r"))
        if isinstance(read, Rejected):
            return read
        if isinstance(read, StatedMention):
            mentions.append(read)
        elif isinstance(read, StatedRelation):
            relations.append(read)
        else:
            unread[read] += 1
    return checked(name, decoded["txt"], mentions, relations, place=place, unread=sorted(unread.items()))


def _annotation(place: str, line: str) -> StatedMention | StatedRelation | Rejected | str:
    """Return the mention or relation that the line states; for annotations that are not read, their kind."""
    id, _, body = line.partition("\t")
    annotation, _, surface = body.partition("\t")
    if id[:1] == "T" and (mention := _MENTION.fullmatch(annotation)):
        spans = [tuple(map(int, span.split(" "))) for span in mention[2].split(";")]
        return StatedMention(place, Mention(id, mention[1], tuple((start, end) for start, end in spans)), surface)
    if id[:1] == "R" and (relation := _RELATION.fullmatch(annotation)):
        arguments = [argument.rpartition(":")[::2] for argument in relation[2].split()]
        if len(arguments) != 2:
            return f"relation of {len(arguments)}"
        if any(target.startswith("E") for _, target in arguments):
            return "relation of an event"
        if arguments[0][0] == "Arg2":
            arguments.reverse()
        return StatedRelation(place, Relation(relation[1], arguments[0][1], arguments[1][1]))
    if id[:1] in _UNREAD:
        return _UNREAD[id[:1]]
    return Rejected(
        place,
        f"{shown(line)} is not an annotation of BRAT, such as 'T1<TAB>Chemical 0 7<TAB>aspirin' or 'R1<TAB>treats "
        "Arg1:T1 Arg2:T2'; correct the line",
    )
