"""Texts with mentions of entities and relations between them, whose offsets have been checked against the text.

Offsets count characters (Unicode code points) of the document's text from 0, ends excluded, in whatever unit the file
has them. If one mention or relation of a document cannot be used, the whole document is rejected: without it, the
annotation would wrongly say that there is none in that place.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from acclimate.core.names import shown
from acclimate.core.types import Rejected
from acclimate.text.untrusted import unsound

_BLANK = re.compile(r"\s")  # one character, so that offsets stay what they are


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity in a text.

    spans  offsets [start, end), ascending; several for a discontinuous mention (in "breast and ovarian cancer", those
           of "breast" and of "cancer")
    """

    id: str
    type: str
    spans: tuple[tuple[int, int], ...]

    @property
    def start(self) -> int:
        return self.spans[0][0]

    @property
    def end(self) -> int:
        """The end of the last span."""
        return self.spans[-1][1]

    def surface(self, text: str) -> str:
        """Return the mention's part of its document's text, with a space between the parts of a discontinuous one."""
        return " ".join(text[start:end] for start, end in self.spans)


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation between the mentions with the ids `first` and `second`, in the file's order."""

    type: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Annotated:
    """A document with its mentions and relations, checked.

    place   file and line where it begins: "abstracts.pubtator:17"
    unread  annotations that are not read: kind ("event") and number
    """

    id: str
    text: str
    mentions: tuple[Mention, ...]
    relations: tuple[Relation, ...]
    place: str
    unread: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class StatedMention:
    """A mention as a file states it, with its place and surface form, not yet checked."""

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
    """Return the document, or the place and reason of its first fault.

    Faults are: an empty or unsound text, an empty id or type, two mentions with one id, spans that are empty, do not
    ascend or leave the text, a surface form that differs from the text at its offsets, and a relation to an unknown
    mention. All white space in a surface form is the same, because formats cannot hold line ends.
    """
    if not id.strip():
        return Rejected(place, f"the document's id is {shown(id)}; add an id")
    if not text.strip():
        return Rejected(place, f"document {shown(id)}: the text is empty: {shown(text)}; remove it")
    if reason := unsound(text):
        return Rejected(place, f"document {shown(id)}: the text {reason}; correct it or remove the document")
    by_id: dict[str, Mention] = {}
    for stated_mention in mentions:
        mention = stated_mention.mention
        reason = _fault(text, mention, stated_mention.surface)
        if not reason and mention.id in by_id:
            reason = "an earlier mention has the same id; give each a different id"
        if reason:
            return Rejected(stated_mention.place, f"document {shown(id)}, mention {shown(mention.id)}: {reason}")
        by_id[mention.id] = mention
    sound_relations = []
    for stated_relation in relations:
        relation = stated_relation.relation
        missing = next((id for id in (relation.first, relation.second) if id not in by_id), None)
        if missing is not None or not relation.type.strip():
            wrong = "has no type" if missing is None else f"refers to {shown(missing)}, but no mention has that id"
            return Rejected(
                stated_relation.place, f"document {shown(id)}: the relation {shown(relation.type)} {wrong}; correct it"
            )
        sound_relations.append(relation)
    return Annotated(id, text, tuple(by_id.values()), tuple(sound_relations), place, tuple(unread))


def _fault(text: str, mention: Mention, surface: str) -> str:
    """Return the mention's fault and the way out; "" if there is no fault."""
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
        covered = f"characters {stretches} exceed the {len(text):,} characters of the text"
    else:
        covered = f"characters {stretches} are {shown(mention.surface(text))}"
    return f"its surface form is {shown(surface)}, but {covered}. {_way_out(text, mention, surface)}"


def _is(text: str, mention: Mention, surface: str) -> bool:
    """Return True if the mention's text is the surface form: its parts with a space, or with the text, between them."""
    folded = _BLANK.sub(" ", surface)
    return folded in (
        _BLANK.sub(" ", spelling) for spelling in (mention.surface(text), text[mention.start : mention.end])
    )


def _way_out(text: str, mention: Mention, surface: str) -> str:
    """Return the unit that the offsets seem to count, if it is not characters, or else where the surface form is."""
    for unit, width in (("bytes of UTF-8", _utf8), ("UTF-16 code units, as Java and JavaScript do", _utf16)):
        if (spans := _recounted(text, mention, width)) and _is(text, Mention("", "", spans), surface):
            return f"They fit if they count {unit}; count characters (code points)"
    if "\r\n" in text:
        shorter = text.replace("\r\n", "\n")
        if mention.end <= len(shorter) and _is(shorter, mention, surface):
            return "They fit if \\r\\n counts as one character; write the text's line ends as \\n"
    near = _nearest(text, surface, mention.start)
    if near < 0:
        return "The text does not contain that form; correct the mention or remove the document"
    return f"The text has that form at {near} to {near + len(surface)}; correct the offsets or remove the document"


def _nearest(text: str, surface: str, offset: int) -> int:
    """Return the offset of the occurrence of `surface` that is nearest to `offset`; -1 if there is none."""
    before = text.rfind(surface, 0, offset + len(surface))
    after = text.find(surface, offset)
    places = [place for place in (before, after) if place >= 0 and surface]
    return min(places, key=lambda place: abs(place - offset), default=-1)


def _utf8(character: str) -> int:
    return len(character.encode())


def _utf16(character: str) -> int:
    return 1 + (character > "\uffff")


def _recounted(text: str, mention: Mention, width: Callable[[str], int]) -> tuple[tuple[int, int], ...]:
    """Return the spans in characters, given that they count units and a character has `width` of them.

    Return () if they cut a character in two.
    """
    place_of = {offset: place for place, offset in enumerate(itertools.accumulate(map(width, text), initial=0))}
    if not all(offset in place_of for span in mention.spans for offset in span):
        return ()
    return tuple((place_of[start], place_of[end]) for start, end in mention.spans)
