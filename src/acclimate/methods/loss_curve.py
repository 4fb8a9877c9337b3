"""How the terms of a run's loss fall, on what it trains on and on text that it does not (TAPTER, Figure 1).

curve.json   [{"step": int, "train": {term: loss}, "dev": {term: loss}}, ...], once the run has ended
looks.json   [[step, {term: loss on dev}], ...], as they are taken
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from acclimate.core import files, ranks
from acclimate.core.types import Batch
from acclimate.training.checkpoint import read_log
from acclimate.training.loop import Step
from acclimate.training.measure import measure
from acclimate.training.objective import Objective
from acclimate.training.plan import Plan

CURVE, LOOKS = "curve.json", "looks.json"


class LossCurve:
    """The looks of a run at evenly spaced steps, before the first and after the last among them.

    batches  of dev, the same at every look; none: the curve has the training losses alone
    looks    after the first one
    """

    def __init__(self, objective: Objective, batches: Sequence[Batch], plan: Plan, looks: int, out: Path) -> None:
        self.objective, self.batches, self.plan, self.out = objective, batches, plan, out
        self.steps = [0, *sorted({round(plan.steps * number / looks) for number in range(1, looks + 1)} - {0})]
        self.losses: dict[int, dict[str, float]] = {}
        if (out / LOOKS).exists():
            self.losses = dict(files.read_json(out / LOOKS))

    def begin(self) -> None:
        """The look before the first step; nothing in a run that goes on."""
        if 0 not in ranks.agree(self.losses):
            self._look(0)

    def __call__(self, step: Step) -> Mapping[str, float]:
        """What `training.run.run` tells after the step."""
        return self._look(step.number)

    def write(self) -> None:
        """`curve.json`; a training loss is the mean over the steps since the look before."""
        if not ranks.is_first():
            return
        log = read_log(self.out)
        curve: list[dict[str, Any]] = []
        for before, step in zip([0, *self.steps], self.steps, strict=False):
            own = log[before:step]
            train = {term: float(np.mean([line[f"loss.{term}"] for line in own])) for term in self._terms() if own}
            curve.append({"step": step, "train": train, "dev": self.losses.get(step, {})})
        files.write_json(self.out / CURVE, curve)

    def _look(self, step: int) -> dict[str, float]:
        if not self.batches:
            return {}
        found = measure(self.objective, self.batches, self.plan)
        self.losses[step] = found
        if ranks.is_first():
            files.write_json(self.out / LOOKS, sorted(self.losses.items()))
        return {f"dev {term}": loss for term, loss in found.items()}

    def _terms(self) -> Sequence[str]:
        return [*self.objective.weights]
