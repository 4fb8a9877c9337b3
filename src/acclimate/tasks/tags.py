"""Words and their tags: how a text holds its words, which tags name entities, and which entities they name.

scheme   tags                what they say
BIO      B-, I-, O           B- begins an entity, I- goes on with it, O is outside of any
IO       I-, O               words of one type side by side are one entity: two that touch cannot be told apart
IOBES    B-, I-, E-, S-, O   E- is the last word of an entity, S- its only one
BIOUL    B-, I-, L-, U-, O   the same with other letters: L- the last, U- the only one (also called BILOU)

Spans are read from any of them as conlleval and seqeval (not strict) do: an I-, E- or L- that follows nothing of its
type begins an entity. Tags may come without a type (B, I, O).

Where entities of several types overlap, a word bears a joint tag, `I-INT+I-PAR`: the tags that it has for each, sorted,
with `+` between them. To a model it is a tag like any other (a label powerset: Tsoumakas and Katakis, 2007, section
2.1), so every layer, loss and loader is that of single tags. Of PICO's three elements there are eight sets with the
empty one; one output an element with a threshold each would need another head, loss and decoding, and could not learn
that two elements seldom share a word. It could predict sets that no training word bears, which this cannot: such words
are scored, element by element. Two entities of one type that overlap have no tags here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

Scheme = Literal["BIO", "IO", "IOBES", "BIOUL"]
OUTSIDE = "O"
UNTYPED = "_"  # the type of entities whose tags are B, I and O alone
LETTERS: dict[Scheme, frozenset[str]] = {
    "IO": frozenset("I"),
    "BIO": frozenset("BI"),
    "IOBES": frozenset("BIES"),
    "BIOUL": frozenset("BILU"),
}
OTHER_LETTERS = {"M": "I", "W": "S"}  # of BMES and BMEWO, and what IOBES calls them
# of an entity's first word, those within, its last, and its only one
_WRITTEN: dict[Scheme, tuple[str, str, str, str]] = {
    "IO": ("I", "I", "I", "I"),
    "BIO": ("B", "I", "I", "B"),
    "IOBES": ("B", "I", "E", "S"),
    "BIOUL": ("B", "I", "L", "U"),
}
_KNOWN = frozenset[str]().union(*LETTERS.values())
LISTED = "B-, I-, E-, S-, L- or U-"
_JOINT = re.compile(r"\+(?=[BIESLU]-)")  # a + within a type, as in I-Na+, joins nothing


def words_of(text: str) -> list[str]:
    """Return the words of an example whose label is a tag a word: what stands between single spaces."""
    return text.split(" ")


def text_of(words: Iterable[str]) -> str:
    """Return the text that `words_of` takes apart again; no word may be empty or hold a space."""
    return " ".join(words)


def parts_of(tag: str) -> tuple[str, ...]:
    """Return the tags of each entity that a word is in, of a joint tag; any other tag alone."""
    return tuple(_JOINT.split(tag)) if "+" in tag else (tag,)


def joint(parts: Iterable[str]) -> str:
    """Return the tag of a word that bears these, no two of one type; O where it bears none."""
    return "+".join(sorted(parts)) or OUTSIDE


def scheme_of(tags: Collection[str]) -> Scheme | None:
    """Return the scheme of a set of tags; None where they name no entities, as parts of speech do not."""
    tags = {part for tag in tags for part in parts_of(tag)}
    letters = {tag.partition("-")[0] for tag in tags if tag != OUTSIDE}
    if not letters or any(tag[1:2] not in ("", "-") or tag.endswith("-") for tag in tags):
        return None
    return next((scheme for scheme, known in LETTERS.items() if letters <= known), None)


def other_scheme(tags: Collection[str]) -> str:
    """Return a tag of a scheme that is not read, such as M-PER of BMES; "" where there is none."""
    typed = sorted(tag for tag in tags if tag != OUTSIDE)
    known = {*OTHER_LETTERS}.union(*LETTERS.values())
    if not typed or OUTSIDE not in tags or not all(tag[:1] in known and tag[1:2] == "-" for tag in typed):
        return ""
    return next((tag for tag in typed if tag[0] in OTHER_LETTERS), "")


def fallback(labels: Sequence[str]) -> str:
    """Return what a word gets of which a tokenizer leaves nothing to be read: O, or the first of the labels."""
    return OUTSIDE if OUTSIDE in labels else labels[0]


def entities(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """(first word, last word, type) of each entity, read from the tags of any scheme as conlleval and seqeval do.

    An I- that follows nothing of its type begins an entity. Of joint tags each type is read on its own. Raises
    ValueError for any other tag, and for a joint one of one type twice.
    """
    if any(len(parts_of(tag)) > 1 for tag in tags):
        return {entity for one_type in _by_type(tags) for entity in entities(one_type)}
    found: set[tuple[int, int, str]] = set()
    start, before, kind_before = 0, OUTSIDE, ""
    for place, tag in enumerate([*tags, OUTSIDE]):
        letter, _, rest = tag.partition("-")
        kind = rest or UNTYPED
        if letter not in _KNOWN and tag != OUTSIDE:
            raise ValueError(f"the tag {tag!r} is not O and does not begin with {LISTED}; correct the labels")
        changes = letter in ("B", "S", "U") or before in (OUTSIDE, "E", "S", "L", "U") or kind != kind_before
        if before != OUTSIDE and (changes or tag == OUTSIDE):
            found.add((start, place - 1, kind_before))
        if tag != OUTSIDE and changes:
            start = place
        before, kind_before = letter, kind
    return found


def tags_of(found: Iterable[tuple[int, int, str]], words: int, scheme: Scheme) -> tuple[str, ...]:
    """Return a tag for each of so many words that bear the entities (first word, last word, type): what `entities`
    reads.

    In IO, entities of one type that touch become one. Raises ValueError where one leaves the words or two overlap.
    """
    begin, inside, end, single = _WRITTEN[scheme]
    tags = [OUTSIDE] * words
    for first, last, kind in sorted(found):
        if not 0 <= first <= last < words:
            raise ValueError(f"an entity from word {first} to word {last} does not lie within {words} words")
        if any(tag != OUTSIDE for tag in tags[first : last + 1]):
            raise ValueError(f"the entity from word {first} to word {last} overlaps another; a word bears one tag")
        letters = [begin, *[inside] * (last - first - 1), end] if last > first else [single]
        tags[first : last + 1] = [letter if kind == UNTYPED else f"{letter}-{kind}" for letter in letters]
    return tuple(tags)


def converted(tags: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """Return the same entities in another scheme.

    To IO and back loses where one of two that touch ends, if their type is one.

    An I-, E- or L- that follows nothing of its type, which `entities` takes for a beginning, becomes one.
    """
    return tags_of(entities(tags), len(tags), scheme)


def all_tags(tags: Collection[str], scheme: Scheme) -> tuple[str, ...]:
    """O and every tag that a scheme has for the types of these."""
    kinds = dict.fromkeys(kind for tag in tags for _, _, kind in entities([tag]))
    letters = dict.fromkeys(_WRITTEN[scheme])
    return (OUTSIDE, *(letter if kind == UNTYPED else f"{letter}-{kind}" for kind in kinds for letter in letters))


def may_follow(before: str, tag: str, scheme: Scheme) -> bool:
    """Return whether a sequence that `converted` leaves as it is can have a tag after another.

    O is also what stands before a sentence and after it.
    """
    begin, inside, end, single = _WRITTEN[scheme]
    goes_on = tag[0] in {inside, end} - {begin, single}
    if goes_on:
        return before[0] in {begin, inside} and before[2:] == tag[2:]
    return before[0] not in {begin, inside} - {end, single}


def _by_type(tags: Sequence[str]) -> list[list[str]]:
    """For each type the tags of its entities alone, O elsewhere."""
    parts = [{part.partition("-")[2]: part for part in parts_of(tag) if part != OUTSIDE} for tag in tags]
    if odd := [
        tag for tag, types in zip(tags, parts, strict=True) if tag != OUTSIDE and len(types) < len(parts_of(tag))
    ]:
        raise ValueError(f"the tag {odd[0]!r} joins two of one type; a word can bear one of each. Correct the labels")
    return [[types.get(kind, OUTSIDE) for types in parts] for kind in sorted(set().union(*parts))]


def borne(tags: Sequence[str], *, named: bool) -> tuple[str, ...]:
    """Return what a sentence bears, sorted: the types of its entities where tags name some (`named`), else its tags."""
    return tuple(sorted({kind for _, _, kind in entities(tags)} if named else set(tags)))
