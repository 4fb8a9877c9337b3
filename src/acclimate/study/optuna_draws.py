"""What Optuna draws settings from, who draws and who judges, of a search as a recipe states it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner, MedianPruner, NopPruner, SuccessiveHalvingPruner
from optuna.samplers import BaseSampler, GridSampler, TPESampler

from acclimate.study.halving import EARLY, HALFWAY
from acclimate.study.recipe import Search

RANDOM = 5  # trials that are drawn before TPE looks at scores, and that end before there is a median
PERCENT = 100  # Optuna's steps are whole numbers: per cent of the run's


def _listed(own: Search) -> dict[str, Sequence[float]]:
    listed = {"rate": own.rates, "epochs": own.epochs, "batch": own.batches}
    return {name: values for name, values in listed.items() if values}


def space_of(own: Search) -> dict[str, BaseDistribution]:
    """What is drawn: that of which two values or more are listed."""
    space: dict[str, BaseDistribution] = {}
    for name, values in _listed(own).items():
        least, most = min(values), max(values)
        if len(values) == 1:
            continue
        if own.how == "pruned-grid" or name == "batch":
            space[name] = CategoricalDistribution(values)
        elif name == "epochs" and all(value % 1 == 0 for value in values):
            space[name] = IntDistribution(int(least), int(most), log=True)
        else:
            space[name] = FloatDistribution(least, most, log=True)
    return space


def meaning(params: Mapping[str, Any], own: Search) -> dict[str, Any]:
    """The setting that Optuna's parameters stand for, with what is not drawn because only one value is listed."""
    space = space_of(own)
    given: dict[str, Any] = {name: values[0] for name, values in _listed(own).items()}
    return given | {name: _rounded(value, space[name]) for name, value in params.items()}


def _rounded(value: Any, within: BaseDistribution) -> Any:
    if isinstance(within, FloatDistribution):
        return min(max(float(f"{value:.3g}"), within.low), within.high)
    return float(value) if isinstance(within, IntDistribution) else value


def sampler_of(own: Search, number: int) -> BaseSampler:
    """Of the trial with this number; a grid has one order for all."""
    if own.how == "pruned-grid":
        listed = {name: list(values) for name, values in _listed(own).items() if len(values) > 1}
        return GridSampler(listed, _seed(own.seed))
    return TPESampler(n_startup_trials=RANDOM, seed=_seed(own.seed, number))


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def pruner_of(own: Search) -> BasePruner:
    if own.pruner == "median":
        return MedianPruner(n_startup_trials=RANDOM)
    if own.pruner == "halving":
        return SuccessiveHalvingPruner(min_resource=round(PERCENT * EARLY), reduction_factor=round(HALFWAY / EARLY))
    return NopPruner()
