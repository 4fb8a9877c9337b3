"""How well measures predict what intermediate tasks were measured to give: rank correlation, regret, and chance.

For each target the candidates are ranked by a predictor and by the measured differences; Spearman's rho and Kendall's
tau_b say how alike both orders are. The mean of rho over targets is what is judged.

chance    One order of the candidates' names is drawn and used for all targets, so that a task which is good (or bad)
          for every target stays so under another name. Orders drawn for each target by itself would take what targets
          have in common for evidence: a predictor that looks at A alone would be found significant by chance alone. A
          target is no candidate of its own: of the drawn order it is left out, and what would have stood for it takes
          its place. Only candidates that were measured for the same targets exchange their names: where cells are
          missing there are fewer orders.
interval  Targets are drawn with replacement. They share candidates, so it is too narrow, and with few targets more so.
regret@k  The best measured difference less the best among a predictor's first k (Renggli et al., 2022; Poth et al.,
          2021), here in the metric's own points and not as a share of the best score; where candidates are tied, the
          mean over all orders. Beside it that of k candidates at random.

Shape suffixes: K tasks (rows are targets, columns intermediate tasks), N draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb

import numpy as np
import numpy.typing as npt
from scipy import stats

from acclimate.study.significance import LEVEL, holm
from acclimate.study.transfer_evidence import Values

FEWEST = 3  # candidates of a target: of two an order is right half the time
FEWEST_TARGETS = 3  # for an interval over targets
ROUNDING = 1e-12  # sums of ranks that are equal differ by no more
FIRST = (1, 3)  # k of regret@k


@dataclass(frozen=True)
class Agreement:
    """Of a predictor with what was measured for one target. low, high: 95% of rho under drawn orders lies between."""

    target: str
    candidates: int
    rho: float
    tau: float
    low: float
    high: float
    regret: Mapping[int, float]


@dataclass(frozen=True)
class Checked:
    """A predictor beside what was measured.

    rho, tau           means over the targets
    interval           of rho over targets drawn with replacement; None for too few targets
    chance             between what 95% of rho lies under drawn orders
    p, p_holm          how often chance gives as much, draws counted; corrected for all predictors
    regret, random     k -> mean over targets; of k candidates at random
    """

    predictor: str
    targets: tuple[Agreement, ...]
    rho: float
    tau: float
    interval: tuple[float, float] | None
    chance: tuple[float, float]
    p: float
    p_holm: float
    regret: Mapping[int, float]
    random: Mapping[int, float]

    @property
    def established(self) -> bool:
        return self.p_holm < LEVEL


def check(
    names: Sequence[str], predicted: Mapping[str, Values], measured_KK: Values, *, draws: int, seed: int
) -> list[Checked]:
    """Each predictor, in their order. measured_KK: differences, NaN where there is none.

    Those that tell no candidates apart, or are there for too few, are left out.
    """
    found: list[Checked] = []
    for name, values_KK in predicted.items():
        there_KK = ~np.isnan(values_KK) & ~np.isnan(measured_KK)
        rows = [row for row in range(len(names)) if told_apart(values_KK[row], measured_KK[row], there_KK[row])]
        if not rows:
            continue
        orders_NK = drawn_orders((there_KK | np.eye(len(names), dtype=bool))[rows], draws, seed)
        agreements, by_chance, real = [], [], []
        for row in rows:
            chance_N = _rho_of_orders(values_KK[row], measured_KK[row], without(orders_NK, row))
            real.append(measured_KK[row][there_KK[row]])
            agreements.append(_agreement(names[row], values_KK[row][there_KK[row]], real[-1], chance_N))
            by_chance.append(chance_N)
        random = {k: float(np.mean([regret_at_random(each, k) for each in real])) for k in FIRST}
        found.append(_checked(name, agreements, random, np.mean(by_chance, axis=0), seed))
    return [replace(each, p_holm=p) for each, p in zip(found, holm([each.p for each in found]), strict=True)]


def told_apart(values_K: Values, measured_K: Values, there_K: np.ndarray) -> bool:
    """Whether there are orders to compare."""
    enough = int(there_K.sum()) >= FEWEST
    return enough and len(np.unique(values_K[there_K])) > 1 and len(np.unique(measured_K[there_K])) > 1


def drawn_orders(there_TK: npt.NDArray[np.bool_], draws: int, seed: int) -> np.ndarray:
    """(N, K) orders of the names of the tasks: those that are there for the same targets T exchange theirs."""
    generator = np.random.default_rng(seed)
    orders_NK = np.tile(np.arange(there_TK.shape[1]), (draws, 1))
    _, group_K = np.unique(there_TK, axis=1, return_inverse=True)
    for group in range(group_K.max() + 1):
        own = np.flatnonzero(group_K == group)
        orders_NK[:, own] = generator.permuted(orders_NK[:, own], axis=1)
    return orders_NK


def without(orders_NK: np.ndarray, target: int) -> np.ndarray:
    """(N, K) the orders with the target in its own place, and in its former place what stood in it."""
    tasks = np.arange(orders_NK.shape[1])
    instead_N = orders_NK[:, target]
    left = np.where(orders_NK == target, instead_N[:, None], orders_NK)
    left[:, target] = target
    assert (np.sort(left, axis=1) == tasks).all()
    return left


def regret(values: Values, measured: Values, k: int) -> float:
    """The best measured difference less the best of the first k by `values`; ties: the mean over all their orders."""
    k = min(k, len(values))
    edge = np.sort(values)[::-1][k - 1]
    sure, tied = measured[values > edge], np.sort(measured[values == edge])[::-1]
    return float(measured.max() - _expected_best(tied, k - len(sure), sure.max() if len(sure) else -np.inf))


def regret_at_random(measured: Values, k: int) -> float:
    return regret(np.zeros(len(measured)), measured, k)


def _expected_best(falling: Values, k: int, least: float) -> float:
    """The mean, over all choices of k of these numbers, of the largest among them and `least`."""
    choices = comb(len(falling), k)
    rest = [comb(len(falling) - place - 1, k - 1) / choices for place in range(len(falling) - k + 1)]
    return float(sum(share * max(value, least) for share, value in zip(rest, falling, strict=False)))


def _checked(
    name: str, agreements: Sequence[Agreement], random: Mapping[int, float], pooled_N: Values, seed: int
) -> Checked:
    """pooled_N: the mean of rho over the targets under each drawn order. Of p_holm nothing is known yet."""
    rhos = np.array([each.rho for each in agreements])
    low, high = np.quantile(pooled_N, [0.025, 0.975])
    return Checked(
        predictor=name,
        targets=tuple(agreements),
        rho=float(rhos.mean()),
        tau=float(np.mean([each.tau for each in agreements])),
        interval=_interval(rhos, len(pooled_N), seed),
        chance=(float(low), float(high)),
        p=float((1 + (pooled_N >= rhos.mean() - ROUNDING).sum()) / (1 + len(pooled_N))),
        p_holm=1.0,
        regret={k: float(np.mean([each.regret[k] for each in agreements])) for k in FIRST},
        random=random,
    )


def _agreement(target: str, values: Values, measured: Values, chance_N: Values) -> Agreement:
    low, high = np.quantile(chance_N, [0.025, 0.975])
    return Agreement(
        target=target,
        candidates=len(values),
        rho=float(stats.spearmanr(values, measured).statistic),
        tau=float(stats.kendalltau(values, measured).statistic),
        low=float(low),
        high=float(high),
        regret={k: regret(values, measured, k) for k in FIRST},
    )


def _rho_of_orders(values_K: Values, measured_K: Values, orders_NK: np.ndarray) -> Values:
    """(N,) Spearman's rho of the values with the differences under each order of names, which puts nothing measured
    where nothing is."""
    drawn_NK = measured_K[orders_NK]
    there_NK = ~np.isnan(drawn_NK) & ~np.isnan(values_K)
    one_NK = _centred_ranks(np.broadcast_to(values_K, drawn_NK.shape), there_NK)
    other_NK = _centred_ranks(drawn_NK, there_NK)
    rho_N: Values = (one_NK * other_NK).sum(1) / np.sqrt((one_NK**2).sum(1) * (other_NK**2).sum(1))
    return rho_N


def _centred_ranks(values_NK: Values, there_NK: np.ndarray) -> Values:
    """(N, K) ranks less the mean of their row, the mean rank where several are equal; 0 for what is not there."""
    ranks_NK = stats.rankdata(np.where(there_NK, values_NK, np.inf), axis=1)  # what is not there comes last
    means_N1 = (there_NK.sum(1, keepdims=True) + 1) / 2
    centred: Values = np.where(there_NK, ranks_NK - means_N1, 0.0)
    return centred


def _interval(rhos: Values, draws: int, seed: int) -> tuple[float, float] | None:
    if len(rhos) < FEWEST_TARGETS:
        return None
    generator = np.random.default_rng(seed)
    means_N = rhos[generator.integers(len(rhos), size=(draws, len(rhos)))].mean(1)
    low, high = np.quantile(means_N, [0.025, 0.975])
    return float(low), float(high)
