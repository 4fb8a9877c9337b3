"""How the labels are spread over a task's splits, and what gives a label away before any text is understood."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from acclimate.core.types import SPLITS, Example, Split
from acclimate.study.examination import Finding, Level
from acclimate.text.overlap import normalised

FEW_TO_LEARN = 10  # training examples of a class
FEW_TO_SCORE = 5  # test examples of a class
NAMED = 5  # labels listed in a sentence
SHIFTED = 0.1  # total variation distance between train and test
CHANCE = 0.01  # p below which a shift is none of chance
LOOKED_AT = 5_000  # rows of train in which labels are looked for
OTHERS = 10  # other labels looked for beside a row's own
SPLIT_AGAIN = "Split again, or say why the test set should differ."
SHORTEST = 3  # letters of a label's name that is looked for

Splits = Mapping[Split, Sequence[Example]]


def label_counts(splits: Splits) -> dict[str, dict[str, int]]:
    """Split -> label -> rows that bear it, frequent ones first; nothing for numbers."""
    counts: dict[str, dict[str, int]] = {}
    for split in SPLITS:
        found = Counter(label for row in splits[split] for label in _classes(row))
        counts[split] = dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))
    return counts


def quantiles(splits: Splits) -> dict[str, tuple[float, ...]]:
    """Split -> least, quarter, half, three quarters and most of the numbers to predict."""
    return {split: tuple(map(float, np.quantile(numbers, np.linspace(0, 1, 5)))) for split, numbers in _all(splits)}


def findings_on_classes(
    counts: Mapping[str, Mapping[str, int]], sizes: Mapping[str, int], metric: str
) -> list[Finding]:
    """Classes that are rare, missing or nearly alone, and splits that differ. sizes: rows by split."""
    train, test = counts["train"], counts["test"]
    found = []
    if few := [f"{_named(label)} ({count})" for label, count in train.items() if count < FEW_TO_LEARN]:
        text = f"{_listed(few)} {_has(few)} fewer than {FEW_TO_LEARN} training examples, too few to learn from."
        found.append(Finding("note", text, "Label more of them, or put rare classes together."))
    rare = [f"{_named(label)} ({test.get(label, 0)})" for label in train if test.get(label, 0) < FEW_TO_SCORE]
    if rare and sizes["test"]:
        heavy = ", and macro-F1 gives each of them the weight of a frequent one" if metric.startswith("macro") else ""
        text = f"{_listed(rare)} {_has(rare)} fewer than {FEW_TO_SCORE} test examples: their scores are luck{heavy}."
        found.append(Finding("note", text, "Label more test texts of these classes, or use --metric micro_f1."))
    if test and sizes["test"]:
        label, count = next(iter(test.items()))
        share = count / sizes["test"]
        if share >= 0.8:
            text = f"{share:.1%} of the test texts bear {_named(label)}: who always answers that is right as often."
            found.append(Finding("warning", text, "Judge by --metric macro_f1, which does not reward it."))
        found += _shift(train, test, sizes)
    return found


def findings_on_types(counts: Mapping[str, Mapping[str, int]], sizes: Mapping[str, int]) -> list[Finding]:
    """Types of entities, or tags, that few sentences bear, and splits that differ. sizes: sentences by split."""
    train, test = counts["train"], counts["test"]
    found = []
    if few := [f"{_named(label)} ({count})" for label, count in train.items() if count < FEW_TO_LEARN]:
        text = f"{_listed(few)} {_has(few)} fewer than {FEW_TO_LEARN} training sentences, too few to learn from."
        found.append(Finding("note", text, "Label more of them, or put rare ones together."))
    if rare := [f"{_named(label)} ({test.get(label, 0)})" for label in train if test.get(label, 0) < FEW_TO_SCORE]:
        text = f"{_listed(rare)} {_has(rare)} fewer than {FEW_TO_SCORE} test sentences: their scores are luck."
        found.append(Finding("note", text, "Label more test sentences with them."))
    return [*found, *(_shift(train, test, sizes) if sizes["test"] else [])]


def findings_on_numbers(splits: Splits) -> list[Finding]:
    """Numbers to predict that are all the same, and splits that differ."""
    found = []
    numbers = dict(_all(splits))
    for split, values in numbers.items():
        if len(set(values)) == 1 and len(values) > 1:
            text = f"Every number to predict in {split} is {values[0]:g}: there is nothing to tell apart."
            found.append(Finding("error", text, "Check the label column."))
    if not found and "train" in numbers and "test" in numbers:
        from scipy.stats import ks_2samp

        test = ks_2samp(numbers["train"], numbers["test"])
        if test.statistic >= SHIFTED and test.pvalue < CHANCE:
            text = f"Numbers to predict are spread differently in train and test, by {test.statistic:.0%} of the rows."
            found.append(Finding(_grave(test.statistic), text, SPLIT_AGAIN))
    return found


def give_aways(train: Sequence[Example]) -> list[Finding]:
    """Short cuts to the label: its name in the text, a text that is the id, a group that decides."""
    found = []
    same = sum(row.text.strip() == row.id for row in train) / max(len(train), 1)
    if same >= 0.5:
        text = f"The text equals the id in {same:.0%} of the training rows."
        found.append(Finding("warning", text, "Name the column that holds the text with --text."))
    own, others = _naming(train[:LOOKED_AT])
    if own >= 0.05 and own >= 2 * others:
        text = (
            f"The label's own name stands in {own:.0%} of the training texts that bear it, another label's in "
            f"{others:.1%}: a search for words would do well."
        )
        found.append(Finding("note", text, "If new texts will not name their label, mask the names."))
    labels_of: dict[str, Counter[object]] = defaultdict(Counter)
    for row in train:
        if row.group:
            labels_of[row.group][row.label] += 1
    several = {group: labels for group, labels in labels_of.items() if labels.total() > 1}
    rows = sum(labels.total() for labels in several.values())
    if rows >= 0.5 * len(train) and len({label for labels in several.values() for label in labels}) > 1:
        decided = sum(labels.most_common(1)[0][1] for labels in several.values()) / rows
        if decided >= 0.95:
            text = f"The group alone decides the label in {decided:.0%} of the training rows ({len(several):,} groups)."
            found.append(Finding("note", text, "A model may learn to know the groups: test it on groups of its own."))
    return found


def _classes(row: Example) -> tuple[str, ...]:
    if isinstance(row.label, tuple):
        return row.label
    return (row.label,) if isinstance(row.label, str) else ()


def _all(splits: Splits) -> list[tuple[Split, list[float]]]:
    """The numbers of each split that has rows."""
    numbers = [(split, [float(row.label) for row in splits[split] if isinstance(row.label, float)]) for split in SPLITS]
    return [(split, values) for split, values in numbers if values]


def _shift(train: Mapping[str, int], test: Mapping[str, int], sizes: Mapping[str, int]) -> list[Finding]:
    """Whether the labels are spread differently in train and test: by half of the summed differences of the shares."""
    labels = [label for label in {**train, **test} if train.get(label, 0) + test.get(label, 0)]
    table = np.array([[part.get(label, 0) for label in labels] for part in (train, test)], dtype=float)
    if len(labels) < 2 or not table.sum(axis=1).all():
        return []
    shares = table / table.sum(axis=1, keepdims=True)
    distance = float(np.abs(shares[0] - shares[1]).sum() / 2)
    if distance < SHIFTED:
        return []
    from scipy.stats import chi2_contingency

    if chi2_contingency(table).pvalue >= CHANCE:
        return []
    most = int(np.abs(shares[0] - shares[1]).argmax())
    text = (
        f"Labels are spread differently in train and test, by {distance:.0%} of the rows: {_named(labels[most])} is "
        f"{shares[0, most]:.1%} of train and {shares[1, most]:.1%} of test."
    )
    return [Finding(_grave(distance), text, SPLIT_AGAIN)]


def _naming(rows: Sequence[Example]) -> tuple[float, float]:
    """Of the rows' own labels, the share that the text names; and of as many other labels."""
    names = {label: f" {normalised(label)} " for row in rows for label in _classes(row)}
    names = {label: name for label, name in names.items() if len(name) >= SHORTEST + 2 and not name.strip().isdigit()}
    order = sorted(names)
    places = {label: place for place, label in enumerate(order)}
    own = others = asked = asked_others = 0
    for row in rows:
        text = f" {normalised(row.text)} "
        for label in set(_classes(row)) & names.keys():
            place = places[label]
            asked += 1
            own += names[label] in text
            for other in (order[(place + step) % len(order)] for step in range(1, min(len(order), OTHERS + 1))):
                if other not in _classes(row):
                    asked_others += 1
                    others += names[other] in text
    return own / max(asked, 1), others / max(asked_others, 1)


def _grave(distance: float) -> Level:
    return "warning" if distance >= 2 * SHIFTED else "note"


def _named(label: str) -> str:
    return f"'{label[:60]}'"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED:,} more classes"


def _has(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"
