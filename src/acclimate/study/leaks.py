"""Texts that stand where they must not: dev and test items in train or in a corpus, and copies within a split.

What counts as a leak of an item says study/sealed.py. A passage is counted and shown, but neither removed nor held
against the item, for stock phrases are shared by texts that have nothing to do with each other.

A document is told by its number in the order of reading, from 1 on: ids need not be unique. Labels of test items are
compared and counted, never kept or shown.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from acclimate.core.types import Example, Label, Split
from acclimate.study.examination import SHOWN, Copies, Leak, LeakKind, Sighting
from acclimate.study.sealed import KINDS, NEAR, SEALED, Sealed, kind_of, whole
from acclimate.study.typeset import beginning
from acclimate.text.overlap import GRAM, Match, duplicate_pairs, normalised

EXAMPLES = 5
_FIRST, _BEFORE = 40, 20  # characters shown of the beginning, and before what matters


@dataclass
class Found:
    """What one source ("train", "dev", "domain", "general") holds of the sealed items, filled while it is scanned."""

    source: str
    sealed: Sealed
    texts: dict[tuple[Split, LeakKind], int] = field(default_factory=dict)
    items: dict[tuple[Split, LeakKind], set[int]] = field(default_factory=dict)
    same_label: dict[tuple[Split, LeakKind], set[int]] = field(default_factory=dict)
    examples: dict[tuple[Split, LeakKind], list[Sighting]] = field(default_factory=dict)
    leaking: dict[Split, set[str]] = field(default_factory=dict)  # ids of rows, numbers of documents

    def take(
        self, name: str, text: str, matches: Sequence[Match], *, label: Label | None = None, number: int = 0
    ) -> None:
        """Count one scanned text. label: a row's own; number: a document's, in the order of reading."""
        mark = f"{number}" if number else name
        met: set[tuple[Split, LeakKind]] = set()
        for match in matches:
            place = int(match.reference)
            split, item = self.sealed.items[place]
            if split == self.source:
                continue
            where = (split, kind_of(match))
            met.add(where)
            self.items.setdefault(where, set()).add(place)
            if label is not None and label == item.label:
                self.same_label.setdefault(where, set()).add(place)
            if where[1] != "passage":
                self.leaking.setdefault(split, set()).add(mark)
            shown = self.examples.setdefault(where, [])
            if len(shown) < EXAMPLES and all(each.within_id != item.id for each in shown):
                shown.append(_sighting((name, text, label), split, item, match))
        for where in met:
            self.texts[where] = self.texts.get(where, 0) + 1

    def leaks(self) -> list[Leak]:
        """A leak for each split and kind that was met, dev first, the strongest kind first."""
        found = []
        for where in itertools.product(SEALED, KINDS):
            if where in self.items:
                split, kind = where
                same = len(self.same_label.get(where, ())) if self.source in ("train", "dev") else None
                found.append(
                    Leak(
                        self.source,
                        split,
                        kind,
                        self.texts[where],
                        len(self.items[where]),
                        len(self.items[where]) / self.sealed.sizes[split],
                        None if kind == "passage" else same,
                        tuple(self.examples[where]),
                    )
                )
        return found

    def leaked(self, split: Split) -> set[int]:
        """Numbers of the items that leak, passages left out."""
        return set().union(*(self.items.get((split, kind), set()) for kind in KINDS if kind != "passage"))

    def leaked_with_their_label(self, split: Split) -> set[int]:
        return set().union(*(self.same_label.get((split, kind), set()) for kind in KINDS if kind != "passage"))

    def leaked_ids(self, split: Split) -> frozenset[str]:
        """Ids of those items."""
        return frozenset(self.sealed.items[number][1].id for number in self.leaked(split))


def found_in_rows(source: Split, rows: Sequence[Example], sealed: Sealed) -> Found:
    """What labelled rows hold: train of dev and test, dev of test."""
    found = Found(source, sealed)
    for row, matches in sealed.in_rows(rows):
        if matches:
            found.take(row.id, whole(row), matches, label=row.label)
    return found


def copies(split: Split, rows: Sequence[Example], *, near: float = NEAR) -> Copies | None:
    """The split's texts that occur more than once; None where all differ. Both texts of a pair must be the same."""
    texts = [whole(row) for row in rows]
    groups: dict[int, list[int]] = {}
    for number, group in enumerate(duplicate_pairs([(row.text, row.pair) for row in rows], near=near)):
        groups.setdefault(group, []).append(number)
    several = [members for members in groups.values() if len(members) > 1]
    if not several:
        return None
    words = [normalised(text) for text in texts]
    conflicts = [pair for members in several for pair in _conflicts(members, rows, words)]
    laid_out = [" ".join(text.lower().split()) for text in texts]
    plain = {words[first] for members in several for first, _ in _conflicts(members, rows, laid_out)}
    shown = (conflicts + [(members[0], members[1]) for members in several])[:EXAMPLES]
    examples = tuple(
        Sighting(
            rows[second].id,
            rows[first].id,
            1.0 if words[first] == words[second] else near,
            "",
            beginning(texts[second], SHOWN),
            beginning(texts[first], SHOWN),
            _open_label(split, rows[second].label),
            _open_label(split, rows[first].label),
        )
        for first, second in dict.fromkeys(shown)
    )
    marked = sum(words[first] not in plain for first, _ in conflicts)
    return Copies(split, len(several), sum(map(len, several)) - len(several), len(conflicts), examples, marked)


def label_text(label: Label) -> str:
    """A label as people write it; several joined by commas."""
    return ", ".join(label) if isinstance(label, tuple) else str(label)


def _sighting(found: tuple[str, str, Label | None], split: Split, item: Example, match: Match) -> Sighting:
    """found: id, text and label of what holds the item of `split`."""
    name, text, label = found
    return Sighting(
        name,
        item.id,
        round(match.similarity, 4),
        match.excerpt[:SHOWN],
        *_shown(text, whole(item), match),
        "" if label is None else label_text(label),
        _open_label(split, item.label),
    )


def _open_label(split: Split, label: Label) -> str:
    """The label as it may be kept: none of a test item."""
    return "" if split == "test" else label_text(label)


def _shown(text: str, item: str, match: Match) -> tuple[str, str]:
    """The beginnings of both texts, going on where they begin to differ or where the passage is that they share."""
    if match.kind == "13-gram":
        shared = re.compile(r"\W+".join(match.excerpt.split()[:GRAM]), re.IGNORECASE)
        places = [found.start() if (found := shared.search(each)) else 0 for each in (text, item)]
    else:
        one, other = text.split(), item.split()
        alike = next((place for place, words in enumerate(zip(one, other, strict=False)) if words[0] != words[1]), 0)
        text, item = " ".join(one), " ".join(other)
        places = [len(" ".join(one[: alike - 1]))] * 2 if match.kind == "near" and alike else [0, 0]
    return _from(text, places[0]), _from(item, places[1])


def _from(text: str, place: int) -> str:
    """The first words, and what stands around the place."""
    if place <= 2 * _FIRST:
        return beginning(text, SHOWN)
    return beginning(f"{beginning(text, _FIRST)} {text[place - _BEFORE :]}", SHOWN)


def _conflicts(members: Sequence[int], rows: Sequence[Example], texts: Sequence[str]) -> list[tuple[int, int]]:
    """For each text that several of these rows share, two rows that label it differently, if any."""
    first: dict[str, int] = {}
    found: dict[str, tuple[int, int]] = {}
    for number in members:
        other = first.setdefault(texts[number], number)
        if rows[other].label != rows[number].label:
            found.setdefault(texts[number], (other, number))
    return list(found.values())
