"""The variance of a mean score where adapting was run several times: adaptations, fine-tuning seeds and test items.

A run is one fine-tuning (seed f) of the checkpoint that one adaptation (seed a) made. Its score on item i is

    y_afi = mean + A_a + S_f + AS_af + item_i + AI_ai + SI_fi + residual_afi

with independent random effects: A of the adaptation, S of the fine-tuning seed, products for interactions. The
untouched model has no adaptation; its runs have the effects S, item and SI only. s2_X is the variance of effect X, ms_X
a mean square, E its expectation, A the number of adaptations, n that of test items. Where every run has another
adaptation, runs are independent, and the figures are those of variance.py, in which S then stands for both.

Nested: no two adaptations share a fine-tuning seed. N runs, n_a of adaptation a, each run with the same weight.

    n2 = sum n_a^2 / N          n0 = (N - n2) / (A - 1)          lambda = n2 / n0: 1 if all n_a are equal
    ms_A = sum n_a (mean_a - mean)^2 / (A - 1)                   E = s2_S + n0 s2_A
    ms_W = sum (y_af - mean_a)^2 / (N - A)                       E = s2_S
    Var(A and S) = s2_A n2 / N + s2_S / N = (lambda ms_A - (lambda - 1) ms_W) / N

  One-way analysis of variance with unequal numbers (Searle, Casella and McCulloch, 1992, section 3.6). With equal
  numbers it is the sample variance of the adaptations' means / A, whatever s2_S is.
  Where ms_W > ms_A, the estimate of s2_A would be negative; it is then 0, and Var = ms_A / N.

Crossed: every adaptation is fine-tuned with the same F seeds, N = A F. Two-way analysis of variance:

    v_A = sample variance of the adaptations' means / A          E = s2_A / A + s2_AS / (A F)
    v_S = sample variance of the seeds' means / F                E = s2_S / F + s2_AS / (A F)
    v_AS = ms_AS / (A F)                                         E = s2_AS / (A F)
    Var(A, S, AS) = v_A + max(v_S - v_AS, 0)                     the max: s2_S is at least 0

Items. The same figures of the items' jackknife shares, summed over items and divided by n (n - 1), are r_A, r_S and
r_AS: what AI, SI and the residual add to v_A, v_S and v_AS. With v_i = (variance over items of the mean shares) / n:

    nested   Var = max(v_A, r_A) + max(v_i - r_A, 0)
    crossed  Var = max(v_A, r_A) + max(v_S - v_AS, r_S - r_AS, 0) + max(v_i - r_A - r_S + r_AS, 0)

The first max is for adaptations that agree by chance better than their answers to single items allow.

Difference of two contestants. Runs are paired by seed, and by adaptation too if both sides have several; the formulas
above are then of the differences, so that chance that both share is subtracted. Where runs cannot be paired, the parts
of both sides add up.

Degrees of freedom. Error / sqrt(Var) is compared with Student's t, as in variance.py. A part v with nu degrees of
freedom (adaptations A - 1, seeds F - 1), of which share = v / Var, contributes g(share, nu) to 1 / freedom:

    nu >= 2      g = share^(2 - 4.5 share / nu) / nu                  the rule of variance.py
    nu = 1       g = (1 - (1 - share)^14)^8                           about 0 below a share of .1, and 1 above .3
    1 < nu < 2   linear between both

    apart    = sum of g over the parts + (share of the items)^2 / (n - 1)
    together = g of all parts as one, whose nu is Satterthwaite's, V^2 / sum (v^2 / nu), + the same for the items
    1 / freedom = together^w apart^(1 - w),   w = .7, or .5 where a part has nu < 2

One part: both are equal. For two parts of few degrees of freedom `together` finds too many differences (up to 9%) and
`apart` too few (down to 1%). 14, 8 and w were chosen by simulation, so that no ratio of the variances gives more than
6%, but for a tenth.

What a simulation finds (benchmarks/reports/2026-11-23-adaptation.md), for equal contestants at 5% and for the interval
of a mean. 3 and 5 adaptations, nested or crossed: told apart in 4 to 6% in 137 of 144 settings, in 2.8 to 3.9% in the
others, where single answers waver; covered in 94.5 to 96.4%. 2 adaptations: 2.5 to 5.9% and 94.6 to 97.4%; 4 to 6% and
93.5 to 96.5% cannot be kept everywhere with one degree of freedom by a rule that is continuous. **Two adaptations have
next to no power**: t with one degree of freedom asks for 12.7 standard errors. Three ask for 4.3, five for 2.8. The
best use of a number of fine-tunings is another adaptation for each.

One adaptation. s2_A cannot be estimated from one draw: intervals and p values are then those of variance.py, for the
adapted checkpoint as it is, and `Comparison.one_adaptation` says so.

Assumed: adaptations are independent draws. Datasets that are fine-tuned from the same adapted checkpoint share A_a;
means.py takes the mean over such datasets of each run first.

References
  Searle, Casella and McCulloch (1992), Variance Components.
  Satterthwaite (1946), An approximate distribution of estimates of variance components.
  Bouthillier et al. (2021), Accounting for variance in machine learning benchmarks.

Shape suffixes: N runs, A adaptations, F fine-tuning seeds, n test items. `...`: simulated studies side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from acclimate.statistics.variance import SLOPE, Components, Resampled, components_of, quotient, unpaired
from acclimate.tasks.task import Values

EARLY, STEEP = 14, 8  # exponents of the rule for one degree of freedom
TOGETHER, TOGETHER_OF_FEW = 0.7, 0.5  # w of the rule; the second where a part has fewer than 2 degrees of freedom


@dataclass(frozen=True, slots=True)
class RunLayout:
    """Which run has which adaptation and which seed, as places from 0.

    crossed  every adaptation has all seeds; otherwise no two adaptations share one
    """

    adaptation_N: tuple[int, ...]
    seed_N: tuple[int, ...]
    crossed: bool

    @property
    def adaptations(self) -> int:
        return len(set(self.adaptation_N))


def adaptations_of(resampled: Resampled) -> int:
    """Return the number of adaptations that the runs rest on; 0: none, or the scores do not say."""
    return len(set(resampled.adaptations))


def is_shared(resampled: Resampled) -> bool:
    """Return True if runs share adaptations and there are several, so that they are not independent of each other."""
    return 1 < adaptations_of(resampled) < len(resampled.seeds)


def components_of_score(resampled: Resampled) -> Components:
    """Return the variance components of a contestant's mean score."""
    if not is_shared(resampled):
        return components_of(resampled.points_S, resampled.shares_Sn)
    return components_of_runs(resampled.points_S, resampled.shares_Sn, layout(resampled.adaptations, resampled.seeds))


def components_of_difference(contestant: Resampled, reference: Resampled) -> Components:
    """Return the variance components of the difference of two means on the same items.

    Paired over seeds if both have the same, and over adaptations if both have several with the same seeds.
    """
    if not (is_shared(contestant) or is_shared(reference)):
        if contestant.seeds == reference.seeds:
            return components_of(contestant.points_S - reference.points_S, contestant.shares_Sn - reference.shares_Sn)
        return unpaired((contestant.points_S, contestant.shares_Sn), (reference.points_S, reference.shares_Sn))
    if (pairs := pairs_of_runs(contestant, reference)) is not None:
        points_N, shares_Nn, runs = pairs
        return components_of_runs(points_N, shares_Nn, runs)
    sides = [_parts(side) for side in (contestant, reference)]
    mean_n = contestant.shares_Sn.mean(axis=-2) - reference.shares_Sn.mean(axis=-2)
    return _summed(
        parts=[part for side in sides for part in side.parts],
        residual=sides[0].residual + sides[1].residual,
        one_run=sides[0].one_run + sides[1].one_run,
        mean_n=mean_n,
    )


def pairs_of_runs(contestant: Resampled, reference: Resampled) -> tuple[Values, Values, RunLayout] | None:
    """Return differences of points (N,) and shares (N, n) of runs in pairs, and their layout; None: no such pairs.

    A side whose runs share adaptations has its run of a seed compared with the other side's run of that seed; if both
    have several adaptations, with the run of that seed and adaptation.
    """
    leading = max((contestant, reference), key=adaptations_of)
    runs = layout(leading.adaptations, leading.seeds)
    if min(adaptations_of(contestant), adaptations_of(reference)) > 1:
        if (contestant.seeds, contestant.adaptations) != (reference.seeds, reference.adaptations):
            return None
        return contestant.points_S - reference.points_S, contestant.shares_Sn - reference.shares_Sn, runs
    if set(contestant.seeds) != set(reference.seeds):
        return None
    points, shares = [], []
    for side in (contestant, reference):
        rows = [*range(len(side.seeds))] if side is leading else [side.seeds.index(seed) for seed in leading.seeds]
        points.append(side.points_S[rows])
        shares.append(side.shares_Sn[rows])
    return points[0] - points[1], shares[0] - shares[1], runs


def layout(adaptations: Sequence[int], seeds: Sequence[int]) -> RunLayout:
    """Return the layout of runs with these adaptations and seeds, a run in each place.

    Raises ValueError if adaptations share some of their seeds but not all, and if all have one seed only.
    """
    of_a_seed: dict[int, set[int]] = {}
    for adaptation, seed in zip(adaptations, seeds, strict=True):
        of_a_seed.setdefault(seed, set()).add(adaptation)
    numbers = {len(group) for group in of_a_seed.values()}
    several = len(set(adaptations))
    if numbers not in ({1}, {several}):
        runs = ", ".join(f"{adaptation}/{seed}" for adaptation, seed in zip(adaptations, seeds, strict=True))
        raise ValueError(
            f"runs with adaptation/seed {runs}: fine-tune every adaptation with the same seeds, or each with "
            "different ones."
        )
    if len(of_a_seed) == 1:
        raise ValueError(f"{several} adaptations have only the seed {seeds[0]}. Fine-tune with at least two seeds.")
    places = [{value: place for place, value in enumerate(sorted(set(values)))} for values in (adaptations, seeds)]
    return RunLayout(
        tuple(places[0][adaptation] for adaptation in adaptations),
        tuple(places[1][seed] for seed in seeds),
        crossed=numbers != {1},
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the variance: its value, its degrees of freedom, and what single items account for in it."""

    value: Values
    freedom: float
    residual: Values


@dataclass(frozen=True, slots=True)
class _Side:
    """Parts of the variance over adaptations and seeds; residual: of all; one_run: the variance of one new run."""

    parts: list[_Part]
    residual: Values
    one_run: Values


def components_of_runs(
    points_N: Values, shares_Nn: Values, runs: RunLayout, *, item_freedom: Values | None = None
) -> Components:
    """Return the variance components of the mean of points (..., N) whose shares are (..., N, n).

    item_freedom: degrees of freedom of the items' part; None: n - 1
    """
    side = (_crossed if runs.crossed else _nested)(points_N, shares_Nn, runs)
    return _summed(side.parts, side.residual, side.one_run, shares_Nn.mean(axis=-2), item_freedom)


def _parts(resampled: Resampled) -> _Side:
    points_S, shares_Sn = resampled.points_S, resampled.shares_Sn
    if is_shared(resampled):
        runs = layout(resampled.adaptations, resampled.seeds)
        return (_crossed if runs.crossed else _nested)(points_S, shares_Sn, runs)
    alone = components_of(points_S, shares_Sn)
    number = len(resampled.seeds)
    return _Side([_Part(alone.seeds, number - 1, alone.residual)], alone.residual, alone.seeds * number)


def _nested(points_N: Values, shares_Nn: Values, runs: RunLayout) -> _Side:
    number = len(runs.adaptation_N)
    of_NA = (np.array(runs.adaptation_N)[:, None] == np.arange(runs.adaptations)).astype(float)
    runs_A = of_NA.sum(axis=0)
    n2 = float((runs_A**2).sum()) / number
    n0 = (number - n2) / (runs.adaptations - 1)
    unequal = n2 / n0 - 1  # lambda - 1

    def squares(values_N: Values) -> tuple[Values, Values]:
        """ms_A and ms_W; without a second run of any adaptation ms_A twice, since lambda is 1."""
        mean_A = values_N @ of_NA / runs_A
        between = ((mean_A - values_N.mean(axis=-1, keepdims=True)) ** 2 @ runs_A) / (runs.adaptations - 1)
        spare_runs = number - runs.adaptations
        within = ((values_N - mean_A @ of_NA.T) ** 2).sum(axis=-1) / spare_runs if spare_runs else between
        return between, within

    def mean_variance(between: Values, within: Values) -> Values:
        return (between + unequal * np.maximum(between - within, 0.0)) / number

    between, within = squares(points_N)
    residual = mean_variance(*_item_mean_squares(squares, shares_Nn))
    one_run = within + np.maximum(between - within, 0.0) / n0
    return _Side([_Part(mean_variance(between, within), runs.adaptations - 1, residual)], residual, one_run)


def _crossed(points_N: Values, shares_Nn: Values, runs: RunLayout) -> _Side:
    adaptations, seeds = runs.adaptations, len(set(runs.seed_N))
    order = np.lexsort((runs.seed_N, runs.adaptation_N))  # by adaptation, then by seed
    number = adaptations * seeds

    def squares(values_N: Values) -> tuple[Values, Values, Values]:
        """v_A, v_S and v_AS, in variance of the mean."""
        values_AF = values_N[..., order].reshape(*values_N.shape[:-1], adaptations, seeds)
        mean_A, mean_F = values_AF.mean(axis=-1), values_AF.mean(axis=-2)
        mean = values_N.mean(axis=-1)[..., None, None]
        left_AF = values_AF - mean_A[..., :, None] - mean_F[..., None, :] + mean
        freedom = (adaptations - 1) * (seeds - 1)
        return (
            mean_A.var(axis=-1, ddof=1) / adaptations,
            mean_F.var(axis=-1, ddof=1) / seeds,
            (left_AF**2).sum(axis=(-2, -1)) / freedom / number,
        )

    v_A, v_S, v_AS = squares(points_N)
    r_A, r_S, r_AS = _item_mean_squares(squares, shares_Nn)
    of_seeds = np.maximum(r_S - r_AS, 0.0)
    one_run = np.maximum(v_A - v_AS, 0.0) * adaptations + np.maximum(v_S - v_AS, 0.0) * seeds + v_AS * number
    parts = [_Part(v_A, adaptations - 1, r_A), _Part(np.maximum(v_S - v_AS, of_seeds), seeds - 1, of_seeds)]
    return _Side(parts, r_A + r_S - r_AS, one_run)


def _item_mean_squares(squares: Callable[[Values], tuple[Values, ...]], shares_Nn: Values) -> list[Values]:
    """Return the mean squares of the items' shares, summed over items and divided by n (n - 1)."""
    count = shares_Nn.shape[-1]
    return [square_n.sum(axis=-1) / (count * (count - 1)) for square_n in squares(np.swapaxes(shares_Nn, -1, -2))]


def _summed(
    parts: Sequence[_Part], residual: Values, one_run: Values, mean_n: Values, item_freedom: Values | None = None
) -> Components:
    """Return the components of a mean whose shares are (..., n), with their degrees of freedom."""
    count = mean_n.shape[-1]
    items = np.maximum(mean_n.var(axis=-1, ddof=1) / count - residual, 0.0)
    values = [np.maximum(part.value, part.residual) for part in parts]
    chance = np.sum(values, axis=0)
    variance = chance + items
    # as in variance.py: where the items account for more than was seen, its degrees of freedom are those of the items
    shares = [
        quotient(part.value, variance) * quotient(part.value, value) ** ((part.freedom - 1.0) / 2)
        for part, value in zip(parts, values, strict=True)
    ]
    share = np.sum(shares, axis=0)
    squares = np.sum([part_share**2 / part.freedom for part_share, part in zip(shares, parts, strict=True)], axis=0)
    freedom = np.where(squares > 0, quotient(share**2, squares), sum(part.freedom for part in parts))
    of_items = (1.0 - share) ** 2 / (count - 1 if item_freedom is None else item_freedom)
    together = _inverse(share, freedom) + of_items
    apart = np.sum([_inverse(part_share, part.freedom) for part_share, part in zip(shares, parts, strict=True)], axis=0)
    weight = TOGETHER if min(part.freedom for part in parts) >= 2 else TOGETHER_OF_FEW
    whole_freedom = 1.0 / (together**weight * (apart + of_items) ** (1.0 - weight))
    return Components(
        chance, items, freedom, count, np.minimum(residual, chance), whole_freedom, np.maximum(one_run, chance)
    )


def _inverse(share: Values, freedom: Values | float) -> Values:
    """g: what a part of this share of the variance adds to 1 / freedom."""
    of_one = (1.0 - (1.0 - share) ** EARLY) ** STEEP
    many = np.maximum(freedom, 2.0)
    of_many = share ** (2.0 - SLOPE * share / many) / many
    weight = np.clip(np.asarray(freedom) - 1.0, 0.0, 1.0)
    return np.asarray((1.0 - weight) * of_one + weight * of_many)
