"""Texts with mentions of entities and relations between them, whose offsets have been checked against the text.

Offsets count characters (Unicode code points) of the document's text from 0, ends excluded, whatever the file says them
in. A document of which one mention or relation cannot be used is rejected as a whole: without it, the rest would say
that there is nothing where there is something.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from acclimate.core.types import Rejected
from acclimate.text.untrusted import shown, unsound

_BLANK = re.compile(r"\s")  # one character, so that offsets stay what they are


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity in a text.

    spans  offsets [start, end), ascending; of a discontinuous mention ("breast" in "breast and ovarian cancer", and
           "cancer") more than one
    """

    id: str
    type: str
    spans: tuple[tuple[int, int], ...]

    @property
    def start(self) -> int:
        return self.spans[0][0]

    @property
    def end(self) -> int:
        """Where the last of the spans ends."""
        return self.spans[-1][1]

    def surface(self, text: str) -> str:
        """Return what the mention covers of its document's text, parts of a discontinuous one with a space between."""
        return " ".join(text[start:end] for start, end in self.spans)


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of the mentions with these ids, in the order in which the file states them."""

    type: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Annotated:
    """A document with its mentions and relations, checked.

    place   where it begins: "abstracts.pubtator:17"
    unread  what the file says of it beyond mentions and relations of two: kind of annotation ("event") and how many
    """

    id: str
    text: str
    mentions: tuple[Mention, ...]
    relations: tuple[Relation, ...]
    place: str
    unread: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class StatedMention:
    """A mention as a file states it: with its place and surface form, neither looked at so far."""

    place: str
    mention: Mention
    surface: str


@dataclass(frozen=True, slots=True)
class StatedRelation:
    """A relation as a file states it, with its place."""

    place: str
    relation: Relation


def checked(
    id: str,
    text: str,
    mentions: Iterable[StatedMention],
    relations: Iterable[StatedRelation] = (),
    *,
    place: str,
    unread: Iterable[tuple[str, int]] = (),
) -> Annotated | Rejected:
    """Return the document, or the place and reason of the first thing that is wrong with it.

    Wrong are: an empty or unsound text, an id or type that is empty, two mentions with one id, spans that are empty, do
    not ascend or leave the text, a surface form that the text does not have there, and a relation of a mention that
    there is not. White space in a surface form may be other white space in the text: formats cannot hold line ends.
    """
    if not id.strip():
        return Rejected(place, f"the document's id is {shown(id)}; give it one")
    if not text.strip():
        return Rejected(place, f"document {shown(id)}: the text is empty: {shown(text)}; leave it out")
    if reason := unsound(text):
        return Rejected(place, f"document {shown(id)}: the text {reason}; correct it or leave the document out")
    known: dict[str, Mention] = {}
    for stated in mentions:
        mention = stated.mention
        reason = _fault(text, mention, stated.surface)
        if not reason and mention.id in known:
            reason = "a mention before it has the same id; give each an id of its own"
        if reason:
            return Rejected(stated.place, f"document {shown(id)}, mention {shown(mention.id)}: {reason}")
        known[mention.id] = mention
    found = []
    for stated_relation in relations:
        relation = stated_relation.relation
        missing = next((each for each in (relation.first, relation.second) if each not in known), None)
        if missing is not None or not relation.type.strip():
            wrong = "has no type" if missing is None else f"names {shown(missing)}, which no mention of it has as id"
            return Rejected(
                stated_relation.place, f"document {shown(id)}: the relation {shown(relation.type)} {wrong}; correct it"
            )
        found.append(relation)
    return Annotated(id, text, tuple(known.values()), tuple(found), place, tuple(unread))


def _fault(text: str, mention: Mention, surface: str) -> str:
    """Return what is wrong with the mention, and the way out; "" where nothing is."""
    if not mention.id.strip() or not mention.type.strip():
        return f"its id is {shown(mention.id)} and its type {shown(mention.type)}; neither may be empty"
    if reason := unsound(mention.type):
        return f"its type {reason}; correct it"
    spans = mention.spans
    ends = [offset for span in spans for offset in span]
    if not spans or any(start >= end for start, end in spans) or ends != sorted(ends) or ends[0] < 0:
        return f"its offsets are {shown(spans)}; each start must be less than its end, and spans must ascend"
    if ends[-1] <= len(text) and _is(text, mention, surface):
        return ""
    stretches = ", ".join(f"{start} to {end}" for start, end in spans)
    if ends[-1] > len(text):
        covered = f"characters {stretches} are not all within the text's {len(text):,}"
    else:
        covered = f"characters {stretches} are {shown(mention.surface(text))}"
    return f"it is said to be {shown(surface)}, but {covered}. {_way_out(text, mention, surface)}"


def _is(text: str, mention: Mention, surface: str) -> bool:
    """Whether the text has the surface form there: parts with a space between, or with all that stands between them."""
    folded = _BLANK.sub(" ", surface)
    return folded in (_BLANK.sub(" ", each) for each in (mention.surface(text), text[mention.start : mention.end]))


def _way_out(text: str, mention: Mention, surface: str) -> str:
    """Return what the offsets seem to count if not characters.

    Else where the surface form stands.
    """
    for unit, width in (("bytes of UTF-8", _utf8), ("UTF-16 code units, as Java and JavaScript do", _utf16)):
        if (spans := _recounted(text, mention, width)) and _is(text, Mention("", "", spans), surface):
            return f"They fit if they count {unit}; count characters (code points)"
    if "\r\n" in text:
        shorter = text.replace("\r\n", "\n")
        if mention.end <= len(shorter) and _is(shorter, mention, surface):
            return "They fit if \\r\\n counts as one character; write the text's line ends as \\n"
    near = _nearest(text, surface, mention.start)
    if near < 0:
        return "The text has that nowhere; correct the mention or leave the document out"
    return f"The text has that at {near} to {near + len(surface)}; correct the offsets or leave the document out"


def _nearest(text: str, surface: str, offset: int) -> int:
    """Return where the occurrence begins that is nearest to the offset; -1 where there is none."""
    before = text.rfind(surface, 0, offset + len(surface))
    after = text.find(surface, offset)
    found = [place for place in (before, after) if place >= 0 and surface]
    return min(found, key=lambda place: abs(place - offset), default=-1)


def _utf8(character: str) -> int:
    return len(character.encode())


def _utf16(character: str) -> int:
    return 1 + (character > "\uffff")


def _recounted(text: str, mention: Mention, width: Callable[[str], int]) -> tuple[tuple[int, int], ...]:
    """Return the spans in characters if they count units, `width` a character; () where they cut a character in two."""
    place_of = {offset: place for place, offset in enumerate(itertools.accumulate(map(width, text), initial=0))}
    if not all(offset in place_of for span in mention.spans for offset in span):
        return ()
    return tuple((place_of[start], place_of[end]) for start, end in mention.spans)
