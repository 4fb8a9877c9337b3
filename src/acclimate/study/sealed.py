"""The dev and test items, indexed once to be looked for in labelled rows and in documents.

What counts as a leak of an item: its words exactly, a near-duplicate, or at least half of its runs of 13 words
(text/overlap.py). A text that shares less of them is a passage.

A document holds an item of a pair task already where it holds one of the two texts. A row holds it only where each of
the row's texts holds one of the item's, in either order: a passage with another question is another item.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from acclimate.core.types import Example, Split
from acclimate.study.examination import LeakKind
from acclimate.text.overlap import Match, References, normalised

KINDS: tuple[LeakKind, ...] = get_args(LeakKind)
SEALED: tuple[Split, ...] = ("dev", "test")
NEAR = 0.8  # Jaccard similarity of character 5-grams
MOST_OF_IT = 0.5  # share of an item's runs of 13 words
MOST_PARTS = 1000  # texts looked at of those that are like one part of a row: only some of them come in such a pair

Splits = Mapping[Split, Sequence[Example]]
Met = dict[int, Match]  # indexed text -> how a text matches it


class Sealed:
    """The items of dev and test: `items` as (split, example), `sizes` of the splits.

    Matches name an item as reference by its number among `items`, and each item once, in the strongest way.
    """

    def __init__(self, splits: Splits, *, near: float = NEAR) -> None:
        self.items = [(split, example) for split in SEALED for example in splits[split]]
        self.sizes = {split: len(splits[split]) for split in SEALED}
        self._numbers: dict[str, int] = {}  # different texts, as they are indexed
        self._holders: list[list[int]] = []  # items with such a text in them
        self._alone: dict[int, list[int]] = {}  # the text of items without a pair -> those items
        self._pairs: dict[int, dict[int, list[int]]] = {}  # text -> text of the pair -> items
        for item, (_, example) in enumerate(self.items):
            first = self._number(example.text, item)
            if not example.pair:
                self._alone.setdefault(first, []).append(item)
                continue
            self._number(whole(example), item)
            second = self._number(example.pair, item)
            self._pairs.setdefault(first, {}).setdefault(second, []).append(item)
        self._references = References(((str(number), text) for text, number in self._numbers.items()), near=near)

    def in_documents(self, texts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, list[Match]]]:
        """(id, text, matches) of every (id, text), in order; only the texts that are read ahead are kept."""
        ours, theirs = itertools.tee(texts)
        for (name, text), matches in zip(ours, self._references.scan(theirs), strict=True):
            yield name, text, _strongest((match, self._holders[int(match.reference)]) for match in matches)

    def in_rows(self, rows: Sequence[Example]) -> Iterator[tuple[Example, list[Match]]]:
        """Each row with the items that it holds, in order."""
        texts = ((row.id, text) for row in rows for text in _parts(row))
        told = self._references.scan(texts, most=MOST_PARTS)
        for row in rows:
            first, *others = (self._met(text, next(told)) for text in _parts(row))
            if others:
                yield row, _strongest(self._paired(first, others[0]))
            else:
                yield row, _strongest((match, self._alone.get(number, ())) for number, match in first.items())

    def _number(self, text: str, item: int) -> int:
        number = self._numbers.setdefault(normalised(text), len(self._holders))
        if number == len(self._holders):
            self._holders.append([])
        if item not in self._holders[number][-1:]:
            self._holders[number].append(item)
        return number

    def _met(self, text: str, matches: Sequence[Match]) -> Met:
        """The matches by indexed text. A part without any word is like another such part."""
        if not matches and "" in self._numbers and not normalised(text):
            return {self._numbers[""]: Match("exact", "", "", 1.0, "")}
        return {int(match.reference): match for match in matches}

    def _paired(self, first: Met, second: Met) -> Iterator[tuple[Match, Sequence[int]]]:
        """The items of which each text is held by one of the two; the weaker of both matches counts."""
        for one, other in ((first, second), (second, first)):
            for number, match in one.items():
                partners = self._pairs.get(number, {})
                for partner in partners.keys() & other.keys():
                    yield max(match, other[partner], key=_weakness), partners[partner]


def whole(example: Example) -> str:
    """All that a model reads of an example."""
    return f"{example.text} {example.pair}" if example.pair else example.text


def kind_of(match: Match) -> LeakKind:
    """The kind of leak that a match is: a run of 13 words is one only with most of the item around it."""
    return "passage" if match.kind == "13-gram" and match.similarity < MOST_OF_IT else match.kind


def _parts(row: Example) -> tuple[str, ...]:
    return (row.text, row.pair) if row.pair else (row.text,)


def _weakness(match: Match) -> tuple[int, float]:
    return KINDS.index(kind_of(match)), -match.similarity


def _strongest(found: Iterable[tuple[Match, Sequence[int]]]) -> list[Match]:
    """One match an item, the strongest ones first."""
    best: dict[int, Match] = {}
    for match, items in found:
        for item in items:
            if item not in best or _weakness(match) < _weakness(best[item]):
                best[item] = match
    ordered = sorted(best, key=lambda item: (*_weakness(best[item]), item))
    return [replace(best[item], reference=str(item)) for item in ordered]
