"""Words and their tags: how a text holds its words, which tags name entities, and which entities they name.

scheme   tags                what they say
BIO      B-, I-, O           B- begins an entity, I- goes on with it, O is outside of any
IO       I-, O               words of one type side by side are one entity: two that touch cannot be told apart
IOBES    B-, I-, E-, S-, O   E- is the last word of an entity, S- its only one

Spans are read from any of them as conlleval and seqeval (not strict) do: an I- or E- that follows nothing of its type
begins an entity. Tags may come without a type (B, I, O).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

Scheme = Literal["BIO", "IO", "IOBES"]
OUTSIDE = "O"
LETTERS: dict[Scheme, frozenset[str]] = {
    "IO": frozenset("I"),
    "BIO": frozenset("BI"),
    "IOBES": frozenset("BIES"),
}
OTHER_LETTERS = {"L": "E", "U": "S", "M": "I", "W": "S"}  # of BILOU, BMES and BMEWO, and what IOBES calls them


def words_of(text: str) -> list[str]:
    """The words of an example whose label is a tag a word: what stands between single spaces."""
    return text.split(" ")


def text_of(words: Iterable[str]) -> str:
    """The text that `words_of` takes apart again; no word may be empty or hold a space."""
    return " ".join(words)


def scheme_of(tags: Collection[str]) -> Scheme | None:
    """The scheme of a set of tags; None where they name no entities, as parts of speech do not."""
    letters = {tag.partition("-")[0] for tag in tags if tag != OUTSIDE}
    if not letters or any(tag[1:2] not in ("", "-") or tag.endswith("-") for tag in tags):
        return None
    return next((scheme for scheme, known in LETTERS.items() if letters <= known), None)


def other_scheme(tags: Collection[str]) -> str:
    """A tag of a scheme that is not read, such as L-PER of BILOU; "" where there is none."""
    typed = sorted(tag for tag in tags if tag != OUTSIDE)
    known = {"B", "I", "E", "S", *OTHER_LETTERS}
    if not typed or OUTSIDE not in tags or not all(tag[:1] in known and tag[1:2] == "-" for tag in typed):
        return ""
    return next((tag for tag in typed if tag[0] in OTHER_LETTERS), "")


def fallback(labels: Sequence[str]) -> str:
    """What a word gets of which a tokenizer leaves nothing to be read: O, or the first of the labels."""
    return OUTSIDE if OUTSIDE in labels else labels[0]


def entities(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """(first word, last word, type) of each entity, read from B-, I-, E-, S- and O as conlleval and seqeval do.

    An I- that follows nothing of its type begins an entity. Raises ValueError for any other tag.
    """
    found: set[tuple[int, int, str]] = set()
    start, before, kind_before = 0, OUTSIDE, ""
    for place, tag in enumerate([*tags, OUTSIDE]):
        letter, _, rest = tag.partition("-")
        kind = rest or "_"
        if letter not in ("B", "I", "E", "S") and tag != OUTSIDE:
            raise ValueError(f"the tag {tag!r} is not O and does not begin with B-, I-, E- or S-; correct the labels")
        changes = letter in ("B", "S") or before in (OUTSIDE, "E", "S") or kind != kind_before
        if before != OUTSIDE and (changes or tag == OUTSIDE):
            found.add((start, place - 1, kind_before))
        if tag != OUTSIDE and changes:
            start = place
        before, kind_before = letter, kind
    return found


def borne(tags: Sequence[str], *, named: bool) -> tuple[str, ...]:
    """What a sentence bears, sorted: the types of its entities where tags name some (`named`), else its tags."""
    return tuple(sorted({kind for _, _, kind in entities(tags)} if named else set(tags)))
