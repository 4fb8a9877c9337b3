"""Division of rows into train, dev and test, or into folds: each class in proportion, and rows that belong together in
one part.

Rows belong together if they have the same group or the same text. The split of a row depends on the seed and the
content of the rows, not on their order or ids.

On request rows also belong together if they have one template, or share one text of a pair: a bond. A template is a
text whose numbers and names are masked: `Anna Bell bought 3 pens.` and `Tom bought 12 pens.` share `# bought # pens`. A
name is a word in capitals, or one that the rows have more often with a capital letter than without. So the languages
without capitals have no names, and their numbers alone are masked. Keys of bonds are strings that are compared exactly,
so the work grows with the number of words.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, get_args

import numpy as np

from acclimate.core.door import option
from acclimate.core.types import Example, Split
from acclimate.tasks.task import Kind, classes_in
from acclimate.text.overlap.words import normalised_words
from acclimate.text.scripts import divided_words, plain

FEWEST_ROWS = 20  # fewer rows are not split
LARGEST_SET = 10  # nearly the same text may keep this many rows together, or a twentieth of all
QUANTILES = 10  # strata of a number to predict
SHARES: dict[tuple[Split, ...], dict[Split, float]] = {  # missing files -> shares of the rows
    ("dev", "test"): {"train": 0.7, "dev": 0.1, "test": 0.2},
    ("dev",): {"train": 0.9, "dev": 0.1},
    ("test",): {"train": 0.8, "test": 0.2},
}
STRATA: dict[Kind, str] = {"score": "the number to predict", "tokens": "the rarest tag of each sentence"}

Bond = Literal["template", "text"]
BONDS: tuple[Bond, ...] = get_args(Bond)  # values of `--group` that name no column
FEWEST_WORDS = 4  # unmasked words of a template, and words of a text that rows share
FEWEST_BYTES = 16  # of the unmasked words in UTF-8: `the # of # in # and #`, of titles, is no template
_MASK, _BETWEEN = "#", "|"  # no word has these characters
_MASKS = f"{_MASK} {_MASK}"
_DIGITS, _RUN = re.compile(r"\d+"), re.compile(f"{_MASK}(?: {_MASK})+")
ASIDE = 0.03  # difference from a share that a note names
Strata = Mapping[str, int]
Part = TypeVar("Part", bound=str)  # a split, or a fold


@dataclass(frozen=True, slots=True)
class _Unit:
    """Rows that stay together.

    key     hash of seed and content; sets are placed in the order of their keys
    rows    positions of the rows
    strata  number of the rows in each stratum
    """

    key: str
    rows: tuple[int, ...]
    strata: Strata


def split_off(
    examples: Sequence[Example], missing: tuple[Split, ...], *, kind: Kind, seed: int, where: str
) -> tuple[dict[Split, list[Example]], str]:
    """Return train and the missing splits, made from the training file's examples, and a note that says how.

    Raises ValueError if there are too few rows, or too few sets of rows that must stay together.
    """
    if len(examples) < FEWEST_ROWS:
        raise ValueError(
            f"{where}: {len(examples)} rows are too few to split off {' and '.join(missing)}; at least "
            f"{FEWEST_ROWS} are needed. Add rows, or give files for dev and test"
        )
    same, on_copies = bonds_of(examples, kind=kind)
    shares = SHARES[missing]
    parts = divide(examples, shares, kind=kind, same=same, seed=seed, origin=where)
    strata = "" if kind == "span" else f", stratified by {STRATA.get(kind, 'label')}"  # an answer is no class
    note = (
        f"acclimate split {where} at random, because no file was given for {' and '.join(missing)}: "
        f"{', '.join(f'{len(rows):,} {split}' for split, rows in parts.items())} rows "
        f"({_shares(shares, parts)}){strata}, seed {seed}.{on_copies}"
    )
    if groups := {example.group for example in examples} - {""}:
        note += f" Each of the {len(groups):,} groups is in one split."
    return parts, note


def _shares(shares: Mapping[Split, float], parts: Mapping[Split, Sequence[Example]]) -> str:
    """Return the shares of the rows, as they were sought, and as they are where sets that stay together forbid that."""
    rows = sum(map(len, parts.values()))
    real = {split: len(parts[split]) / rows for split in shares}
    sought = " / ".join(f"{share:.0%}" for share in shares.values())
    if all(abs(real[split] - share) < ASIDE for split, share in shares.items()):
        return sought
    actual = " / ".join(f"{share:.0%}" for share in real.values())
    return f"{actual} instead of {sought}, because sets of rows stay together"


def divide(
    examples: Sequence[Example],
    shares: Mapping[Split, float],
    *,
    kind: Kind,
    same: Sequence[int],
    seed: int | str,
    origin: str = "the examples",
) -> dict[Split, list[Example]]:
    """Return the examples of each split that has a share, in the order in which they were given.

    shares  split -> share of the rows; train is among the splits, and the shares sum to 1
    same    a number for each example; those with equal numbers have the same text and stay together
    origin  name of the file or dataset, for the error

    Strata are classes; for rows with several classes or tags, the rarest of them; for numbers, deciles; answers to
    questions are one stratum. Rows that belong together are placed first, large sets before small ones, each in the
    split where it distorts the shares least. The other rows then bring each stratum to its share in each split, rounded
    up or down. Every class has a row in train.

    Raises ValueError if there are fewer sets of rows than the splits need.
    """
    all_examples = examples
    if kind == "span":
        examples = [replace(example, label=()) for example in examples]
    units, where = _placed(examples, shares, kind=kind, same=same, seed=seed)
    _teach_every_class(units, examples, where)
    if not _fill_empty(units, examples, where, shares):
        sets = f"{len(units):,} set{'s' * (len(units) != 1)} of rows"
        raise ValueError(
            f"{origin}: {len(examples):,} rows cannot be split into {', '.join(shares)}: rows of the same group or "
            f"of the same text stay together, which makes only {sets}. Give {option('dev')} and {option('test')} "
            f"files, remove rows that repeat a text, or name a {option('group')} column with more values"
        )
    split_of = {row: where[unit.key] for unit in units for row in unit.rows}
    return {split: [example for row, example in enumerate(all_examples) if split_of[row] == split] for split in shares}


def fold_rows(
    examples: Sequence[Example], folds: int, *, kind: Kind, same: Sequence[int], seed: int | str
) -> list[list[int]]:
    """Return the places of the rows of each fold, ascending. Every row is in one fold, and no fold is empty.

    Strata, and rows that stay together, are those of `divide`; `same`, `seed`: likewise. Each fold has an equal share
    of each stratum, rounded up or down.

    Raises ValueError for more folds than rows, or than sets of rows that stay together.
    """
    if folds > len(examples):
        raise ValueError(f"{folds} folds of {len(examples):,} labelled rows. Use at most as many folds as rows")
    bare = [replace(example, label=()) for example in examples] if kind == "span" else examples
    names = [str(fold) for fold in range(folds)]
    units, where = _placed(bare, dict.fromkeys(names, 1 / folds), kind=kind, same=same, seed=seed)
    if len(units) < folds:
        raise ValueError(
            f"{folds} folds, but rows of the same group or of the same text stay together, which makes only "
            f"{len(units):,} set{'s' * (len(units) != 1)} of rows. Use fewer folds, or name a {option('group')} "
            "column with more values"
        )
    for fold in [name for name in names if name not in where.values()]:  # large sets took the shares of several folds
        counts = Counter(where.values())
        spare = [unit for unit in units if counts[where[unit.key]] > 1]
        where[min(spare, key=lambda unit: len(unit.rows)).key] = fold
    rows_of: dict[str, list[int]] = {name: [] for name in names}
    for unit in units:
        rows_of[where[unit.key]] += unit.rows
    return [sorted(rows_of[name]) for name in names]


def bonds_of(examples: Sequence[Example], *, kind: Kind) -> tuple[list[int], str]:
    """Return a number for each example, equal for those with the same text (`same` of `divide`), and a note on them.

    For questions the text is the context.
    """
    return _same_contexts(examples) if kind == "span" else _same_texts(examples)


def nested_subsets(examples: Sequence[Example], sizes: Sequence[int], *, kind: Kind, seed: int) -> list[list[int]]:
    """Return the rows of a sample of each size, as ascending places; a smaller sample is a part of every larger one.

    Each stratum (as of `divide`) has its share of every sample, rounded up or down at random: its rows stand in a drawn
    order at (r + u) / count, r = 0, 1, ..., with one drawn u from 0 to 1, and a sample is the first rows of all strata.
    So a rare class may be missing in a small sample, as it may in what somebody labels.
    """
    generator = np.random.default_rng(seed)
    bare = [replace(example, label=()) for example in examples] if kind == "span" else examples
    members: dict[str, list[int]] = {}
    for place, stratum in enumerate(_strata(bare, kind)):
        members.setdefault(stratum, []).append(place)
    position = np.empty(len(examples))
    for _, places in sorted(members.items()):
        position[generator.permutation(places)] = (np.arange(len(places)) + generator.random()) / len(places)
    order = np.argsort(position, kind="stable")
    return [sorted(order[:size].tolist()) for size in sizes]


def _same_texts(examples: Sequence[Example]) -> tuple[list[int], str]:
    """Return a number for each example, equal for those with the same text, and a note on the number of copies.

    Examples with a pair have the same text if both texts are the same, in either order. Texts that are nearly the same
    count as the same, unless that ties so many rows together that no fair split is possible, as with short texts of one
    pattern.
    """
    from acclimate.text.overlap.groups import duplicate_pairs  # loads numba, which files with a dev set do not need

    texts = [(example.text, example.pair) for example in examples]
    note = ""
    same = duplicate_pairs(texts)
    counts = Counter(same)
    if max(counts.values()) > max(LARGEST_SET, len(texts) // 20):
        note = f" {max(counts.values()):,} rows are nearly equal. Only those with the same words were kept together."
        same = duplicate_pairs(texts, near=0)
        counts = Counter(same)
    order = " (the two texts of a pair in either order)" if any(example.pair for example in examples) else ""
    if copies := sum(count for count in counts.values() if count > 1):
        note += (
            f" {copies:,} rows have exactly or nearly the same text as another row{order} and are in the same split."
        )
    return same, note


def _same_contexts(examples: Sequence[Example]) -> tuple[list[int], str]:
    """Return what `_same_texts` does for questions: those on the same context get equal numbers."""
    contexts = list(dict.fromkeys(example.text for example in examples))
    same, _ = _same_texts([Example(str(place), text, "") for place, text in enumerate(contexts)])
    number = dict(zip(contexts, same, strict=True))
    note = f" All questions on one of the {len(contexts):,} contexts, exactly or nearly, are in one split."
    return [number[example.text] for example in examples], note


def _strata(examples: Sequence[Example], kind: Kind) -> list[str]:
    """Return the stratum of each example: its tenth, or its rarest class."""
    if kind == "score":
        numbers = np.array([example.label for example in examples], dtype=np.float64)
        edges = np.quantile(numbers, np.linspace(0, 1, QUANTILES + 1)[1:-1])
        return [str(bin) for bin in np.searchsorted(edges, numbers, side="right").tolist()]
    counts = Counter(name for example in examples for name in classes_in(example.label))
    return [min(classes_in(example.label), key=lambda name: (counts[name], name), default="") for example in examples]


def _placed(
    examples: Sequence[Example], shares: Mapping[Part, float], *, kind: Kind, same: Sequence[int], seed: int | str
) -> tuple[list[_Unit], dict[str, Part]]:
    """Return the sets of rows that stay together, and key of a set -> the part that it is in."""
    strata = _strata(examples, kind)
    units = _units(examples, strata, same, seed)
    sizes = Counter(strata)
    # number of rows of each stratum that a part still lacks of its share
    lacking = {part: {name: share * sizes[name] for name in sizes} for part, share in shares.items()}
    where = _place_sets([unit for unit in units if len(unit.rows) > 1], sizes, shares, lacking)
    return units, where | _place_singles([unit for unit in units if len(unit.rows) == 1], sizes, lacking)


def _units(examples: Sequence[Example], strata: Sequence[str], same: Sequence[int], seed: int | str) -> list[_Unit]:
    """Return the sets of rows that stay together, in the order of their keys."""
    parent = list(range(len(examples)))

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    # most rows have a text and group of which there is no second; those are skipped
    for bonds in (same, [example.group or row for row, example in enumerate(examples)]):
        counts, first = Counter[str | int](bonds), dict[str | int, int]()
        for row, bond in enumerate(bonds):
            if counts[bond] > 1:
                parent[root(row)] = root(first.setdefault(bond, row))
    members: dict[int, list[int]] = {}
    for row in range(len(examples)):
        members.setdefault(root(row), []).append(row)
    units = []
    for rows in members.values():
        held = sorted([_content(examples[row]) for row in rows])
        key = hashlib.blake2b("\0".join((str(seed), *held)).encode(), digest_size=16).hexdigest()
        held_strata = {strata[rows[0]]: 1} if len(rows) == 1 else Counter(strata[row] for row in rows)
        units.append(_Unit(key, tuple(rows), held_strata))
    return sorted(units, key=lambda unit: unit.key)


def _content(example: Example) -> str:
    return "\0".join((example.text, example.pair or "", repr(example.label)))


def _place_sets(
    units: Sequence[_Unit], sizes: Strata, shares: Mapping[Part, float], lacking: dict[Part, dict[str, float]]
) -> dict[str, Part]:
    """Return key -> part of each set: the part that leaves the smallest squared relative distance to the shares."""
    where: dict[str, Part] = {}
    for unit in sorted(units, key=lambda unit: -len(unit.rows)):

        def distance(part: Part, unit: _Unit = unit) -> float:
            return sum(
                count * (count - 2 * lacking[part][name]) / (shares[part] * sizes[name])
                for name, count in unit.strata.items()
            )

        part = min(shares, key=distance)
        where[unit.key] = part
        for name, count in unit.strata.items():
            lacking[part][name] -= count
    return where


def _place_singles(
    units: Sequence[_Unit], sizes: Strata, lacking: Mapping[Part, Mapping[str, float]]
) -> dict[str, Part]:
    """Return key -> part of each set of one row, stratum by stratum, in the order of the keys."""
    waiting: dict[str, list[_Unit]] = {}
    for unit in units:
        waiting.setdefault(next(iter(unit.strata)), []).append(unit)
    owed = dict.fromkeys(lacking, 0.0)  # what rounding has kept from each part so far
    where: dict[str, Part] = {}
    for name in sorted(waiting, key=lambda name: (-sizes[name], name)):
        numbers = _rounded({part: lacking[part][name] for part in lacking}, len(waiting[name]), owed)
        rows = iter(waiting[name])
        for part, number in numbers.items():
            owed[part] += lacking[part][name] - number
            where |= {next(rows).key: part for _ in range(number)}
    return where


def _rounded(sizes: Mapping[Part, float], total: int, owed: Mapping[Part, float]) -> dict[Part, int]:
    """Return whole numbers that sum to `total`: the sizes, rounded up or down, and at least 0.

    Train is rounded up first if it would have nothing, then the parts to which earlier rounding owes most.
    """
    # the addend: a number that is a rounding error below a whole one counts as that one
    numbers = {part: max(math.floor(sizes[part] + 1e-9), 0) for part in sizes}
    while sum(numbers.values()) < total:
        above = [part for part in sizes if sizes[part] - numbers[part] > 1e-9] or list(sizes)
        empty = [part for part in above if part == "train" and numbers[part] == 0]
        most = empty[0] if empty else max(above, key=lambda part: owed[part] + sizes[part] - numbers[part])
        numbers[most] += 1
    while sum(numbers.values()) > total:
        nonempty = [part for part in sizes if numbers[part]]
        numbers[max(nonempty, key=lambda part: numbers[part] - sizes[part])] -= 1
    return numbers


def _teach_every_class(units: Sequence[_Unit], examples: Sequence[Example], where: dict[str, Split]) -> None:
    """For each class that train lacks, move the smallest set with it to train."""
    taught: set[str] = set()
    others = []
    for unit in units:
        if where[unit.key] == "train":
            taught |= _classes(unit, examples)
        else:
            others.append(unit)
    for unit in sorted(others, key=lambda unit: len(unit.rows)):
        if not (names := _classes(unit, examples)) <= taught:
            where[unit.key] = "train"
            taught |= names


def _fill_empty(
    units: Sequence[_Unit], examples: Sequence[Example], where: dict[str, Split], shares: Mapping[Split, float]
) -> bool:
    """Give each split without rows the smallest set of train whose classes are in other sets of train too.

    Return False if train has no such set.
    """
    for split in shares:
        if split in where.values():
            continue
        taught = [unit for unit in units if where[unit.key] == "train"]
        counts = Counter(name for unit in taught for name in _classes(unit, examples))
        spare = [unit for unit in taught if all(counts[name] > 1 for name in _classes(unit, examples))]
        if len(taught) < 2 or not spare:
            return False
        where[min(spare, key=lambda unit: len(unit.rows)).key] = split
    return True


def _classes(unit: _Unit, examples: Sequence[Example]) -> set[str]:
    """Return the classes of the set's rows."""
    return {name for row in unit.rows for name in classes_in(examples[row].label)}


def template_keys(examples: Sequence[Example]) -> list[str]:
    """Return the template of each row, of both its texts; "" if nothing is masked, if fewer words than masks or
    than FEWEST_WORDS are left, or if they are too short. A mask is for a run of numbers and names.
    """
    counts = Counter[str]()
    for example in examples:
        counts.update(_words(example))
    masked = {word: _masked(word, counts) for word in counts}
    keys = []
    for example in examples:
        key = " ".join(map(masked.__getitem__, _words(example)))
        if _MASKS in key:
            key = _RUN.sub(_MASK, key)
        spaces, masks, marks = (key.count(mark) for mark in (" ", _MASK, _BETWEEN))
        unmasked = spaces + 1 - masks - marks
        size = len(key.encode()) - spaces - masks - marks
        is_masked = masks > 0 or "0" in key
        is_long = size >= FEWEST_BYTES and unmasked >= max(FEWEST_WORDS, masks)
        keys.append(key if is_masked and is_long else "")
    return keys


def text_keys(examples: Sequence[Example]) -> list[tuple[str, str]]:
    """Return the words of the text and of the pair of each row, "" for those of fewer than FEWEST_WORDS words."""
    return [(_shareable(example.text), _shareable(example.pair or "")) for example in examples]


def grouped(examples: Sequence[Example], bond: Bond) -> list[Example]:
    """Return the examples with a group for those that the bond or their own group, such as a document, ties to others,
    directly or through a chain of rows.
    """
    bonds = [(key,) for key in template_keys(examples)] if bond == "template" else text_keys(examples)
    groups = [f"\n{example.group}" if example.group else "" for example in examples]
    keys = [(*row_keys, group) for row_keys, group in zip(bonds, groups, strict=True)]
    counts = Counter(key for row_keys in keys for key in {*row_keys} if key)
    parents = {key: key for key, count in counts.items() if count > 1}

    def root(key: str) -> str:
        while parents[key] != key:
            parents[key] = parents[parents[key]]
            key = parents[key]
        return key

    shared = [[key for key in row_keys if key in parents] for row_keys in keys]
    for first, *others in filter(None, shared):
        for other in others:
            parents[root(other)] = root(first)
    numbers: dict[str, int] = {}
    names = [f"{bond} {numbers.setdefault(root(own[0]), len(numbers) + 1)}" if own else "" for own in shared]
    return [replace(example, group=name) for example, name in zip(examples, names, strict=True)]


def _words(example: Example) -> list[str]:
    """Return the words of both texts, with capitals, and _BETWEEN between them."""
    first = divided_words(plain(example.text, lower=False))
    return [*first, _BETWEEN, *divided_words(plain(example.pair, lower=False))] if example.pair else first


def _masked(word: str, counts: Counter[str]) -> str:
    """Return the word in lower case, or the mask for a number or a name."""
    if _DIGITS.search(word):
        return _MASK if word.isascii() or word.isdecimal() else _DIGITS.sub("0", word.lower())
    lower = word.lower()
    if word == lower:
        return word
    in_capitals = len(word) > 1 and word.isupper()
    return _MASK if in_capitals or counts[word] > counts[lower] else lower


def _shareable(text: str) -> str:
    words = normalised_words(text)
    return words if len(divided_words(words)) >= FEWEST_WORDS else ""
