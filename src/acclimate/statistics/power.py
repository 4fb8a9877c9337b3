"""Power: the smallest true difference that a comparison detects with a given probability, before or after training.

The difference of two contestants' means over S shared seeds and n test items has the variance components

    Var = (item + residual / S) / n + seed / S        of which the seeds' part is  seed / S + residual / (S n)

item: variance over items of what is the same for all seeds; residual: over items and seeds; seed: over seeds. The
difference is detected if its simultaneous interval (statistics/simultaneous.py) excludes 0: Student's t exceeds its
critical value at the level of each of so many comparisons, with the stricter degrees of freedom. The smallest
difference detected with probability `power` is then

    d sqrt(Var),  where a noncentral t with noncentrality d exceeds the critical value with probability `power`

Assumed: paired seeds, a normal mean, and differences with a correlation of .5, which they have if all contestants vary
alike. Simulated races confirm it (tests/statistics/test_power.py).

Where the variances come from, best first:

  measured      a comparison that was made on test or dev: its variance components, for any metric
  probed        predictions of two frozen probes: their variance over items; those over seeds are guessed
  guessed       nothing was trained: `one_item` from mistakes that are made up (tests of labels only, no model)

Shape suffixes: n test items, K numbers an item, S seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from acclimate.core.figures import listed
from acclimate.core.types import Label, Score
from acclimate.statistics.significance import Comparison
from acclimate.statistics.simultaneous import level_alone, strict_variance
from acclimate.statistics.variance import Components, jackknife, noncentrality, statistics_of
from acclimate.tasks.metrics import label_texts
from acclimate.tasks.task import Kind, Metric

POWER = 0.8  # probability with which a true difference is to be detected
SEED_SPREAD = 0.01  # standard deviation over seeds of a contestant's score: a guess
MOST_NOISE = 20.0  # standard deviations of numbers to predict that are added as noise at most
NEVER_RIGHT = "\0"  # an answer that no question has
HALVINGS = 12  # steps in the search for the share of mistakes: to 1 in 4,096
SCORE = 0.8  # of a contestant before anything is trained: a guess
STEADY = 0.3  # share of two contestants' disagreement that is the same for all seeds: a guess
MORE_SEEDS = (5, 10)  # numbers of seeds that advice mentions
SHARED = 0.5  # correlation of two contestants' differences from the untouched model, if all vary alike
NORMAL = 1e6  # degrees of freedom from which Student's t is computed as a normal variable


@dataclass(frozen=True, slots=True)
class PowerDesign:
    """A comparison to be made, or made again with more items or seeds.

    item_variance      of the difference over items, the same for all seeds; divided by the items
    residual_variance  over items and seeds; divided by items times seeds
    seed_variance      over seeds, the same for all items; divided by the seeds. Twice that of one contestant
    comparisons        contestants that are compared with the untouched model, whose intervals are simultaneous
    power              probability with which the difference is to be detected
    spread             where the variances come from: a "guess", those over "items" alone from a study, or all from its
                       "runs"

    Variances are of one item's difference with one seed, in squared units of the metric.
    """

    items: int
    seeds: int
    item_variance: float
    residual_variance: float
    seed_variance: float
    comparisons: int = 1
    power: float = POWER
    spread: Literal["guess", "items", "runs"] = "guess"

    def detectable(self, *, items: int | None = None, seeds: int | None = None) -> float:
        """Return the smallest true difference detected with `power`, in units of the metric, for these items and seeds.

        It can be larger than 1 less the score, and then no possible improvement is detected with this power.
        """
        from scipy import special

        items, seeds = items or self.items, seeds or self.seeds
        for name, number in (("items", items), ("seeds", seeds)):
            if number < 2:
                raise ValueError(f"{name}={number}: a variance needs at least two")
        residual = self.residual_variance / (items * seeds)
        parts = np.array([self.seed_variance / seeds + residual, self.item_variance / items, seeds - 1, residual])
        components = Components(parts[0:1], parts[1:2], parts[2:3], items, parts[3:4])
        level = level_alone(self.comparisons, SHARED)
        variance = strict_variance(components, level)
        freedom = min(float(variance.freedom[0]), NORMAL)
        critical = -float(special.stdtrit(freedom, level / 2))
        return noncentrality(critical, freedom, 1 - self.power) * float(np.sqrt(variance.variance[0]))

    def advice(self) -> str:
        """The smallest detectable difference, and what it is with twice the test items or more seeds, if it differs."""
        now = f"{100 * self.detectable():.1f}"
        changes = {"twice the test items": f"{100 * self.detectable(items=2 * self.items):.1f}"}
        of_seeds = self.seed_variance + self.residual_variance
        for number in MORE_SEEDS:
            if number > self.seeds and of_seeds > 0:
                changes[f"{number} seeds"] = f"{100 * self.detectable(seeds=number):.1f}"
        smaller = [f"{points} with {change}" for change, points in changes.items() if points != now]
        smallest = f"{now} points is the smallest difference that {self.items:,} test items and {self.seeds} "
        smallest += f"seeds find with a probability of {self.power:.0%}"
        if self.comparisons > 1:
            smallest += f", {self.comparisons} comparisons counted"
        return f"{smallest}." + (f" It would be {listed(smaller)}." if smaller else "")


def guessed(
    items: int,
    seeds: int,
    *,
    score: float = SCORE,
    one_item: float | None = None,
    disagreement: float | None = None,
    steady: float = STEADY,
    seed_spread: float = SEED_SPREAD,
    comparisons: int = 1,
    power: float = POWER,
) -> PowerDesign:
    """Return the PowerDesign of a comparison of two contestants before anything is trained.

    score         expected score, from 0 to 1
    one_item      variance over items of an item's influence on one contestant's score (`variance_of_one_item`). None:
                  score (1 - score), that of right and wrong answers, for a metric that is a mean of them
    disagreement  variance over items of the difference of two contestants' influences, with one seed each; for right
                  and wrong answers the share of the items that exactly one gets right. None: `one_item`, which is half
                  that of two independent contestants, because both are one model fine-tuned on the same rows and mostly
                  fail on the same items
    steady        share of that disagreement which is the same for all seeds
    seed_spread   standard deviation over seeds of a contestant's score on an infinite test set. One point is a guess;
                  with few training rows it is more, as a race on dev shows

    Raises ValueError for a share outside 0 to 1, no comparison, and fewer than two items or seeds.
    """
    shares = {"score": score, "disagreement": disagreement or 0.0, "steady": steady, "power": power}
    wrong = [f"{name}={value}" for name, value in shares.items() if not 0 <= value <= 1]
    if wrong:
        raise ValueError(f"{', '.join(wrong)}: a share is between 0 and 1, for example 0.8 for 80%")
    if comparisons < 1:
        raise ValueError(
            f"comparisons={comparisons}: must be at least 1, the number of contestants without the untouched model"
        )
    one_item = score * (1 - score) if one_item is None else one_item
    among = one_item if disagreement is None else disagreement
    return PowerDesign(items, seeds, steady * among, (1 - steady) * among, 2 * seed_spread**2, comparisons, power)


def measured(comparison: Comparison, *, comparisons: int = 1, power: float = POWER) -> PowerDesign:
    """Return the PowerDesign of the same comparison made again, with the variance components that it found.

    The seed variance is 0 if by chance the residual was estimated as larger than the seeds' whole part. Where there
    were several adaptations, each counts as one seed of the design, fine-tuned as often as it was.
    """
    items = comparison.items
    seeds = comparison.adaptations if comparison.adaptations > 1 else comparison.seeds
    return PowerDesign(
        items,
        seeds,
        item_variance=comparison.variance_items * items,
        residual_variance=comparison.variance_residual * items * seeds,
        seed_variance=max(comparison.variance_seeds - comparison.variance_residual, 0.0) * seeds,
        comparisons=comparisons,
        power=power,
        spread="runs",
    )


def measured_in_race(comparisons: Sequence[Comparison], *, power: float = POWER) -> PowerDesign:
    """Return the PowerDesign of a race like the one in which these comparisons with one reference were made.

    Its variances are the means over the comparisons, and its comparisons are as many. Raises ValueError for none, and
    for comparisons over different numbers of items or seeds.
    """
    designs = [measured(comparison, comparisons=len(comparisons), power=power) for comparison in comparisons]
    sizes = {(design.items, design.seeds) for design in designs}
    if len(sizes) != 1:
        raise ValueError(
            f"comparisons with (items, seeds) {sorted(sizes)}: give the comparisons of one race, at least one"
        )
    return replace(
        designs[0],
        item_variance=float(np.mean([design.item_variance for design in designs])),
        residual_variance=float(np.mean([design.residual_variance for design in designs])),
        seed_variance=float(np.mean([design.seed_variance for design in designs])),
    )


def variance_of_one_item(
    kind: Kind, metric: Metric, gold: Sequence[Label], *, score: float = SCORE, seed: int = 0
) -> float:
    """Return the variance over items of an item's influence on a score, from mistakes that are made up.

    Labels are replaced until the metric falls to `score`, the nearer the better; the influence is the jackknife's. For
    accuracy it is score (1 - score); for Pearson's r about (1 - r^2)^2; with a rare class, macro-F1 has a multiple of
    accuracy's. Of `gold`, labels of a split of n rows, only the labels are read, as in a count of classes.

    Raises ValueError for fewer than two items.
    """
    if len(gold) < 2:
        raise ValueError(f"{len(gold)} label has no variance over items. Give at least two")
    low, high = 0.0, MOST_NOISE if kind == "score" else 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        value = metric.compute(gold, add_mistakes(kind, gold, middle, seed=seed))
        low, high = (middle, high) if value > score else (low, middle)
    predicted = add_mistakes(kind, gold, high, seed=seed)
    _, shares_n = jackknife(metric.statistics(gold, predicted), metric.value)
    return float(shares_n.var(ddof=1))


def add_mistakes(kind: Kind, gold: Sequence[Label], wrong: float, *, seed: int = 0) -> tuple[Label, ...]:
    """Return the labels with mistakes in about this share of the items, the same ones and more as the share grows.

    A class, or set of classes, is replaced by that of another row; a word's tag by the next one of all tags; a number
    has noise of `wrong` times the numbers' standard deviation added; an answer becomes one that is never right, and
    half of those mistakes have the right answer in the second place; a ranking becomes one without a relevant document.
    """
    generator = np.random.default_rng(seed)
    count = len(gold)
    if kind == "score":
        numbers = np.array(gold, dtype=float)
        return tuple((numbers + wrong * numbers.std() * generator.standard_normal(count)).tolist())
    # a mistake at u < wrong, so that the mistakes of a small share are among those of a large one
    uniform_n, others = generator.random(count), generator.permutation(count)
    if kind == "tokens":
        tags = sorted({tag for label in gold for tag in label_texts(label)})
        after = dict(zip(tags, [*tags[1:], *tags[:1]], strict=True))
        return tuple(
            tuple(after[tag] if generator.random() < wrong else tag for tag in label_texts(label)) for label in gold
        )
    labels: list[Label] = []
    for row, label in enumerate(gold):
        if uniform_n[row] >= wrong:
            labels.append(_best(kind, label))
        elif kind == "span":
            second = label[:1] if isinstance(label, tuple) and uniform_n[row] < wrong / 2 else ()
            labels.append((NEVER_RIGHT, *second))
        elif kind == "search":
            labels.append((NEVER_RIGHT,))
        else:
            labels.append(_another(gold, row, int(others[row])))
    return tuple(labels)


def _best(kind: Kind, label: Label) -> Label:
    """Return the prediction that scores best for a gold label: the first answer, or the documents by falling grade."""
    if kind == "span" and isinstance(label, tuple):
        return label[:1]
    if kind == "search":
        return tuple(document for document, _ in Counter(label_texts(label)).most_common())
    return label


def _another(gold: Sequence[Label], row: int, begin: int) -> Label:
    """Return the label of the first row from `begin` on that has another one than `row`, or its label if all agree."""
    for step in range(len(gold)):
        if (label := gold[(begin + step) % len(gold)]) != gold[row]:
            return label
    return gold[row]


def probed(
    score: Score,
    reference: Score,
    metric: Metric,
    *,
    items: int | None = None,
    seeds: int,
    seed_spread: float = SEED_SPREAD,
    comparisons: int = 1,
    power: float = POWER,
) -> PowerDesign:
    """Return the PowerDesign of a comparison of two models whose frozen probes were scored on the same items.

    Two probes' predictions say on which items two models differ, whatever the metric. They have no seed, so the
    variance over seeds, and the share of the items' that is the same for all seeds, are those of `guessed`.

    items  of the planned test set; None: as many as the probes were scored on
    """
    shares_2n = [jackknife(statistics_of(probe, metric), metric.value)[1] for probe in (score, reference)]
    among = float((shares_2n[0] - shares_2n[1]).var(ddof=1))
    size = len(score.gold) if items is None else items
    return design_from_items(among, size, seeds, seed_spread=seed_spread, comparisons=comparisons, power=power)


def design_from_items(
    among: float,
    items: int,
    seeds: int,
    *,
    seed_spread: float = SEED_SPREAD,
    comparisons: int = 1,
    power: float = POWER,
) -> PowerDesign:
    """Return the PowerDesign of which only the variance over items is known, and that over seeds is as of `guessed`.

    among: variance over items of the difference of two contestants' influences, with one seed each
    """
    guess = 2 * seed_spread**2
    return PowerDesign(items, seeds, STEADY * among, (1 - STEADY) * among, guess, comparisons, power, "items")
