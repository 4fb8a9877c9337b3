"""Find dev and test items in train or in a corpus (leaks), copies within a split, and partners of test rows in train.

A text leaks an item if it contains the item's words exactly, a near-duplicate of it, or at least half of its runs of 13
words (text/overlap/references.py). A text that shares fewer runs has a passage. Passages are counted and shown, but not
removed, because unrelated texts share stock phrases.

A document contains an item with a pair if it contains one of the two texts. A row contains it only if each of the row's
texts contains the item's text in the same place: a passage with another question is another item, and so is a pair in
the other order.

A partner of a test row is no leak: a row of train with its template, with one text of its pair, or with its pair in the
other order. A random split puts such rows on both sides. Where the order matters (entailment) or the label is a number,
the turned pair asks something else. It shares its words with train all the same, so the score without it is reported.

Documents are named by their number in the order of reading, from 1, because ids need not be unique. Labels of test
items are compared and counted, but neither kept nor shown.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, get_args

from acclimate.core.door import option
from acclimate.core.types import Example, Label, Split
from acclimate.data.examination import SHOWN, Copies, Finding, Leak, LeakKind, PartnerKind, Partners, Sighting
from acclimate.reading.labelled import Labelled
from acclimate.reading.splitting import template_keys, text_keys
from acclimate.reports.page import amount, beginning, share
from acclimate.text.overlap.references import HALF, Match, References
from acclimate.text.overlap.words import GRAM, compared_words

KINDS: tuple[LeakKind, ...] = get_args(LeakKind)
SEALED: tuple[Split, ...] = ("dev", "test")
NEAR = 0.8  # least Jaccard similarity of character 5-grams of near-duplicates
MOST_ROWS = 25  # matches of a row that are looked for; similar rows get others
MOST_PARTS = 1000  # of one part of a row with a pair: only some belong to a pair with the other part
EXAMPLES = 5  # kept of each kind of leak
MANY = 0.1  # share of the test rows from which on partners are a warning
BEGINNING = 60  # characters of an example in a finding on partners
_FIRST, _BEFORE = 40, 20  # characters shown of the beginning, and before the shared passage
Splits = Mapping[Split, Sequence[Example]]
Keys = Sequence[tuple[str, ...]]  # of each row
Met = dict[int, Match]  # indexed text -> how a text matches it


def found_in_rows(source: Split, rows: Sequence[Example], sealed: Sealed) -> SourceLeaks:
    """Return the dev and test items that labelled rows contain (rows of dev: test items)."""
    source_leaks = SourceLeaks(source, sealed)
    for row, matches, complete in sealed.match_rows(rows):
        source_leaks.incomplete += not complete
        if matches:
            source_leaks.take(row.id, text_and_pair(row), matches, label=row.label)
    return source_leaks


class Leaking(NamedTuple):
    """A scanned text that contains a sealed item. label: of a row; None for a document"""

    name: str
    text: str
    label: Label | None
    match: Match


@dataclass
class SourceLeaks:
    """The sealed items that a source ("train", "dev", "domain", "general") contains, counted while it is scanned.

    An item has the strongest kind of all matches, and an example of it: the first text with that kind. A text has the
    strongest kind of its own matches with the split.
    """

    source: str
    sealed: Sealed
    kinds: dict[int, LeakKind] = field(default_factory=dict)  # of items that match
    same_label: set[int] = field(default_factory=set)  # items that a text with their label leaks
    texts: Counter[tuple[Split, LeakKind]] = field(default_factory=Counter)
    examples: dict[int, Leaking] = field(default_factory=dict)  # by item, in the order of the texts
    leaking: dict[Split, set[str]] = field(default_factory=dict)  # ids of rows, numbers of documents
    incomplete: int = 0  # rows with so many matches that not all were looked for

    def take(
        self, name: str, text: str, matches: Sequence[Match], *, label: Label | None = None, number: int = 0
    ) -> None:
        """Count the matches of one scanned text. label: of a row; number: of a document, in the order of reading."""
        strongest: dict[Split, LeakKind] = {}
        for match in sorted(matches, key=_weakness):
            place, kind = int(match.reference), leak_kind(match)
            split, item = self.sealed.items[place]
            if split == self.source:
                continue
            strongest.setdefault(split, kind)
            if label is not None and label == item.label and kind != "passage":
                self.same_label.add(place)
            if self._is_stronger(place, kind):
                self._strengthen(place, kind, Leaking(name, text, label, match))
        for split, kind in strongest.items():
            self.texts[split, kind] += 1
            if kind != "passage":
                self.leaking.setdefault(split, set()).add(f"{number}" if number else name)

    def add(self, later: SourceLeaks) -> None:
        """Count also what was counted in texts that come after these."""
        for place, example in later.examples.items():
            if self._is_stronger(place, kind := later.kinds[place]):
                self._strengthen(place, kind, example)
        self.same_label |= later.same_label
        self.texts += later.texts
        for split, names in later.leaking.items():
            self.leaking.setdefault(split, set()).update(names)
        self.incomplete += later.incomplete

    def _is_stronger(self, place: int, kind: LeakKind) -> bool:
        return place not in self.kinds or KINDS.index(kind) < KINDS.index(self.kinds[place])

    def _strengthen(self, place: int, kind: LeakKind, example: Leaking) -> None:
        self.kinds[place] = kind
        self.examples.pop(place, None)  # so that it is the last one
        self.examples[place] = example

    def leaks(self) -> list[Leak]:
        """Return the leaks by split and kind, dev first, the strongest kind first."""
        leaks = []
        for split, kind in itertools.product(SEALED, KINDS):
            items = {place for place, own in self.kinds.items() if own == kind and self.sealed.items[place][0] == split}
            if items or (self.texts[split, kind] and kind != "passage"):
                counts_labels = self.source in ("train", "dev") and kind != "passage"
                texts, share = self.texts[split, kind], len(items) / self.sealed.sizes[split]
                same = len(items & self.same_label) if counts_labels else None
                sample = itertools.islice(filter(items.__contains__, self.examples), EXAMPLES)
                examples = tuple(_sighting(self.examples[place], *self.sealed.items[place]) for place in sample)
                leaks.append(Leak(self.source, split, kind, texts, len(items), share, same, examples))
        return leaks

    def leaked(self, split: Split) -> set[int]:
        """Return the numbers of the items that leak; passages do not count."""
        leaking = (place for place, kind in self.kinds.items() if kind != "passage")
        return {place for place in leaking if self.sealed.items[place][0] == split}

    def leaked_ids(self, split: Split) -> frozenset[str]:
        """Return the ids of the items that leak."""
        return frozenset(self.sealed.items[number][1].id for number in self.leaked(split))


class Sealed:
    """The indexed items of dev and test: `items` as (split, example), `sizes` of the splits.

    The reference of a match is an item's number among `items`. Each item has one match, its strongest.
    """

    def __init__(self, splits: Splits, *, near: float = NEAR) -> None:
        self.items = [(split, example) for split in SEALED for example in splits[split]]
        self.sizes = {split: len(splits[split]) for split in SEALED}
        self._numbers: dict[str, int] = {}  # normalised text -> its number in the index
        self._holders: list[list[int]] = []  # indexed text -> items that contain it
        self._alone: dict[int, list[int]] = {}  # text -> items without a pair
        self._pairs: dict[int, dict[int, list[int]]] = {}  # text -> text of the pair -> items
        for item, (_, example) in enumerate(self.items):
            first = self._number(example.text, item)
            if not example.pair:
                self._alone.setdefault(first, []).append(item)
                continue
            self._number(text_and_pair(example), item)
            second = self._number(example.pair, item)
            self._pairs.setdefault(first, {}).setdefault(second, []).append(item)
        self._near = near
        self._references = References(((str(number), text) for text, number in self._numbers.items()), near=near)

    def __reduce__(self) -> tuple[Callable[[Splits], Sealed], tuple[Splits]]:
        """Have another process index the items again."""
        splits = {split: [example for own, example in self.items if own == split] for split in SEALED}
        return functools.partial(Sealed, near=self._near), (splits,)

    def match_documents(self, texts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, list[Match]]]:
        """Yield (id, text, matches) for every (id, text), in order; memory holds only texts that are read ahead."""
        ours, theirs = itertools.tee(texts)
        for (name, text), matches in zip(ours, self._references.scan(theirs), strict=True):
            yield name, text, _strongest((match, self._holders[int(match.reference)]) for match in matches)

    def match_rows(self, rows: Sequence[Example]) -> Iterator[tuple[Example, list[Match], bool]]:
        """Yield each row with matches of the items that it contains, and whether these are all, in order.

        A row has MOST_ROWS matches at most; if rows have pairs, each of its texts has MOST_PARTS.
        """
        texts = ((row.id, text) for row in rows for text in ((row.text, row.pair) if row.pair else (row.text,)))
        scanned = self._references.scan(texts, most=MOST_PARTS if any(row.pair for row in rows) else MOST_ROWS)
        for row in rows:
            matches = next(scanned)
            if not matches and not row.pair and "" not in self._numbers:
                yield row, [], matches.complete
                continue
            first, complete = self._met(row.text, matches), matches.complete
            if row.pair:
                others = next(scanned)
                pairs = self._paired(first, self._met(row.pair, others))
                yield row, _strongest(pairs), complete and others.complete
            else:
                items = ((match, self._alone.get(number, ())) for number, match in first.items())
                yield row, _strongest(items), complete

    def _number(self, text: str, item: int) -> int:
        number = self._numbers.setdefault(compared_words(text), len(self._holders))
        if number == len(self._holders):
            self._holders.append([])
        if item not in self._holders[number][-1:]:
            self._holders[number].append(item)
        return number

    def _met(self, text: str, matches: Sequence[Match]) -> Met:
        """Return the matches by indexed text. A part without words matches another such part."""
        if not matches and "" in self._numbers and not compared_words(text):
            return {self._numbers[""]: Match("exact", "", "", 1.0, "")}
        return {int(match.reference): match for match in matches}

    def _paired(self, first: Met, second: Met) -> Iterator[tuple[Match, Sequence[int]]]:
        """Yield the items whose texts are contained each in its part; the weaker of both matches counts."""
        for number, match in first.items():
            others = self._pairs.get(number, {})
            for other in others.keys() & second.keys():
                yield max(match, second[other], key=_weakness), others[other]


def leak_kind(match: Match) -> LeakKind:
    """Return the kind of leak of a match; runs of 13 words leak the item only if they are at least half of its runs."""
    return "passage" if match.kind == "13-gram" and match.similarity < HALF else match.kind


def text_and_pair(example: Example) -> str:
    """Return the whole text of an example, with its pair."""
    return f"{example.text} {example.pair}" if example.pair else example.text


def _weakness(match: Match) -> tuple[int, float]:
    return KINDS.index(leak_kind(match)), -match.similarity


def _strongest(matches: Iterable[tuple[Match, Sequence[int]]]) -> list[Match]:
    """Return the strongest match of each item, the strongest matches first."""
    best: dict[int, Match] = {}
    for match, items in matches:
        for item in items:
            if item not in best or _weakness(match) < _weakness(best[item]):
                best[item] = match
    ordered = sorted(best, key=lambda item: (*_weakness(best[item]), item))
    pairs = ((best[item], str(item)) for item in ordered)
    return [Match(match.kind, match.id, reference, match.similarity, match.excerpt) for match, reference in pairs]


def copies(split: Split, rows: Sequence[Example], *, near: float = NEAR) -> Copies | None:
    """Return the split's texts that occur more than once, or None. Both texts of a pair must be the same, in order."""
    from acclimate.text.overlap.groups import duplicate_pairs  # loads numba, which a refusal must not wait for

    texts = [text_and_pair(row) for row in rows]
    groups: dict[int, list[int]] = {}
    for number, group in enumerate(duplicate_pairs([(row.text, row.pair) for row in rows], near=near, ordered=True)):
        groups.setdefault(group, []).append(number)
    repeated = [members for members in groups.values() if len(members) > 1]
    if not repeated:
        return None
    words = {number: compared_words(texts[number]) for members in repeated for number in members}
    conflicts = [pair for members in repeated for pair in _conflicts(members, rows, words)]
    laid_out = {number: " ".join(texts[number].lower().split()) for number in words}
    plain = {words[first] for members in repeated for first, _ in _conflicts(members, rows, laid_out)}
    pairs = (conflicts + [(members[0], members[1]) for members in repeated])[:EXAMPLES]
    examples = []
    for first, second in dict.fromkeys(pairs):
        excerpts = beginning(texts[second], SHOWN), beginning(texts[first], SHOWN)
        labels = _open_label(split, rows[second].label), _open_label(split, rows[first].label)
        similarity = 1.0 if words[first] == words[second] else near
        examples.append(Sighting(rows[second].id, rows[first].id, similarity, "", *excerpts, *labels))
    marked = sum(words[first] not in plain for first, _ in conflicts)
    surplus = sum(map(len, repeated)) - len(repeated)
    return Copies(split, len(repeated), surplus, len(conflicts), tuple(examples), marked)


def _conflicts(members: Sequence[int], rows: Sequence[Example], texts: Mapping[int, str]) -> list[tuple[int, int]]:
    """Return, for each text of several of these rows with different labels, two rows that differ."""
    first: dict[str, int] = {}
    conflicts: dict[str, tuple[int, int]] = {}
    for number in members:
        earlier = first.setdefault(texts[number], number)
        if rows[earlier].label != rows[number].label:
            conflicts.setdefault(texts[number], (earlier, number))
    return list(conflicts.values())


def _sighting(leaking: Leaking, split: Split, item: Example) -> Sighting:
    """Return both texts of a match with an item of `split`."""
    name, text, label, match = leaking
    excerpts = _shown(text, text_and_pair(item), match)
    labels = "" if label is None else label_text(label), _open_label(split, item.label)
    return Sighting(name, item.id, round(match.similarity, 4), match.excerpt[:SHOWN], *excerpts, *labels)


def label_text(label: Label) -> str:
    """Return a label as text; several classes are joined by commas."""
    return ", ".join(label) if isinstance(label, tuple) else str(label)


def _open_label(split: Split, label: Label) -> str:
    """Return the label as text; "" for a test item, whose label must not be kept."""
    return "" if split == "test" else label_text(label)


def _shown(text: str, item: str, match: Match) -> tuple[str, str]:
    """Return excerpts of both texts: their beginnings, and the place where they differ or share a passage."""
    if match.kind == "13-gram":
        shared = re.compile(r"\W+".join(match.excerpt.split()[:GRAM]), re.IGNORECASE)
        places = [run.start() if (run := shared.search(place)) else 0 for place in (text, item)]
    else:
        words, item_words = text.split(), item.split()
        pairs = enumerate(zip(words, item_words, strict=False))
        alike = next((place for place, (ours, theirs) in pairs if ours != theirs), 0)
        text, item = " ".join(words), " ".join(item_words)
        places = [len(" ".join(words[: alike - 1]))] * 2 if match.kind == "near" and alike else [0, 0]
    return _excerpt(text, places[0]), _excerpt(item, places[1])


def _excerpt(text: str, place: int) -> str:
    """Return the first words of the text and the words around the place."""
    if place <= 2 * _FIRST:
        return beginning(text, SHOWN)
    return beginning(f"{beginning(text, _FIRST)} {text[place - _BEFORE :]}", SHOWN)


def find_partners(labelled: Labelled, *, every: bool = False) -> tuple[Partners, ...]:
    """Return the test rows that have a partner in train, by the kind of partner.

    every  True: each labelled row is a test row and a training row, as in a cross-validation
    """
    train, test = labelled.splits["train"], labelled.splits["test"]
    if every:
        train = test = tuple(row for rows in labelled.splits.values() for row in rows)
    rows = train if every else (*train, *test)
    items = range(len(rows) - len(test), len(rows))

    @functools.cache
    def words(row: int) -> tuple[str, str]:
        return compared_words(rows[row].text), compared_words(rows[row].pair or "")

    of_pairs = iter(text_keys([row for row in rows if row.pair]))
    texts: Keys = [next(of_pairs) if row.pair else () for row in rows]
    both = [words(place) if row.pair else ("", "") for place, row in enumerate(rows)]
    pairs: Keys = [("\n".join(parts),) if all(parts) else () for parts in both]
    turned: Keys = [("\n".join(reversed(parts)),) if all(parts) else () for parts in both]
    templates: Keys = [(key,) for key in template_keys(rows)]
    searches: dict[PartnerKind, tuple[Keys, Keys]] = {
        "swapped": (pairs, turned),
        "text": (texts, texts),
        "template": (templates, templates),
    }
    kinds: list[Partners] = []
    swapped: set[int] = set()  # these share both texts
    for kind, (held, sought) in searches.items():
        holders: dict[str, list[int]] = {}  # key -> training rows, two with different words at most
        for row in range(len(train)):
            for key in filter(None, held[row]):
                same_key = holders.setdefault(key, [])
                if not same_key or (len(same_key) == 1 and words(same_key[0]) != words(row)):
                    same_key.append(row)
        partners: dict[int, int] = {}
        shared: set[str] = set()
        for item in items if kind != "text" else (item for item in items if item not in swapped):
            for key in sought[item]:
                # a row with the same words is a copy, which the search for leaks counts
                if (row := next((row for row in holders.get(key, ()) if words(row) != words(item)), -1)) >= 0:
                    shared.add(key)
                    partners.setdefault(item, row)
        if not partners:
            continue
        swapped = swapped or {*partners} if kind == "swapped" else swapped
        column = {"swapped": "", "text": "text", "template": "template"}[kind]
        if kind == "text":
            sides = {texts[item].index(key) for item in partners for key in texts[item] if key in shared}
            named = (labelled.columns.text, labelled.columns.pair or "text")
            column = named[sides.pop()] if len(sides) == 1 else "text"
        item, row = next(iter(partners.items()))
        example = tuple(f"{rows[place].id}: {beginning(text_and_pair(rows[place]), SHOWN)}" for place in (item, row))
        ids = frozenset(rows[place].id for place in partners)
        kinds.append(Partners(kind, ids, len(ids) / len(test), len(shared), column, example))
    return tuple(kinds)


def findings_on_partners(
    partners: Sequence[Partners], divided: Sequence[Split], *, every: bool = False
) -> list[Finding]:
    """Return a finding on each kind of partners. divided: the splits that were split off train."""
    findings = []
    where = "another row" if every else "a row of train"
    for kind in partners:
        count, plural = len(kind.ids), len(kind.ids) != 1
        what = {
            "swapped": f"{'are pairs' if plural else 'is a pair'} that {where} has in the other order",
            "text": f"{'share' if plural else 'shares'} one text of the pair with {where}",
            "template": f"{'differ' if plural else 'differs'} from {where} in numbers and names only",
        }[kind.kind]
        first, second = (beginning(text, BEGINNING) for text in kind.example)
        text = (
            f"{count:,} {'labelled' if every else 'test'} text{'s' * plural} ({share(kind.share)}) {what} "
            f"({amount(kind.groups, 'group')}), such as {first!r} and {second!r}."
        )
        way_out = "The report scores with and without these texts."
        if kind.option and (every or "test" in divided):
            way_out = f"{option('group', kind.option)} keeps such rows in one {'fold' if every else 'split'}. {way_out}"
        elif kind.option:
            way_out = f"{way_out} Give one file with {option('group', kind.option)} to keep such rows in one split."
        findings.append(Finding("warning" if kind.share >= MANY else "note", text, way_out))
    return findings
