"""What a benchmark came to, as values: scores with intervals, how each model compares, means, costs.

Each model is compared with the baseline, and with the first model, on the same test items and seeds. Of the two
baselines (the one without an encoder, the constant answer) it is compared with the one that scores higher on the test
set: a choice that can only make the model look worse. Holm's correction is over the datasets of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from acclimate.core.types import Cost, Score
from acclimate.study.across import mean_difference, mean_interval
from acclimate.study.resampling import Resampled
from acclimate.study.sections import Trial
from acclimate.study.significance import LEVEL, Comparison, Interval, compare_of, holm, interval_of, resample
from acclimate.tasks.catalogue import Dataset, Form
from acclimate.tasks.metrics import blurb_score

NO_ENCODER = "no encoder"
CONSTANT = "constant"
BASELINES = (CONSTANT, NO_ENCODER)
BLURB_SCORE = "BLURB score"


@dataclass(frozen=True, eq=False)
class Result:
    """What the models did on a dataset.

    trained   training examples; max_tokens: where they were cut
    scores    model, or a baseline by its own name, -> a score a seed
    trials    model -> the record of its search
    settings  model -> the setting that dev chose
    taken     model -> what all of its fine-tunings took, those of the search and those given up too
    """

    dataset: Dataset
    form: Form
    trained: int
    max_tokens: int
    scores: dict[str, list[Score]] = field(default_factory=dict)
    trials: dict[str, list[Trial]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    taken: dict[str, Cost] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @cached_property
    def draws(self) -> dict[str, Resampled]:
        """Column -> its scores with each test item left out once."""
        drawn = resample([score for own in self.scores.values() for score in own], self.dataset.metric)
        return {self.column(name): own for name, own in drawn.items()}

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Column -> its interval."""
        return {column: interval_of(own) for column, own in self.draws.items()}

    def column(self, name: str) -> str:
        """The model or the constant answer by its name; any other baseline is NO_ENCODER."""
        return name if name in self.trials or name == CONSTANT else NO_ENCODER

    def baseline(self) -> str:
        """The column of the baseline that scores highest; "" where there is none."""
        there = [column for column in BASELINES if column in self.intervals]
        return max(there, key=lambda column: self.intervals[column].mean, default="")

    def tunings(self, model: str) -> int:
        """Fine-tunings that its search and its seeds took, begun ones too."""
        seeds: dict[str, int] = {}
        for trial in self.trials[model]:
            seeds[trial.setting] = max(seeds.get(trial.setting, 0), trial.seeds)
        return sum(seeds.values())

    def tried(self, model: str) -> int:
        """Settings."""
        return len({trial.setting for trial in self.trials[model]})

    def finetuning(self, name: str) -> Cost:
        """What the fine-tuning of a seed took, the mean over seeds."""
        own = [score.finetuning for score in self.scores[name]]
        total = sum(own, Cost())
        return Cost(round(total.tokens / len(own)), total.flops / len(own), total.seconds / len(own))


@dataclass(frozen=True, slots=True)
class Compared:
    """A model with a reference on a dataset. reference: its column; p_holm: corrected over the model's datasets."""

    dataset: str
    model: str
    reference: str
    comparison: Comparison
    p_holm: float

    @property
    def said(self) -> str:
        """What the corrected test bears out."""
        if self.p_holm >= LEVEL:
            return "not established"
        return "higher" if self.comparison.difference > 0 else "lower"


@dataclass(frozen=True)
class Benchmark:
    """absent: dataset -> why it is not there."""

    models: tuple[str, ...]
    results: tuple[Result, ...]
    absent: Mapping[str, str]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The baselines, where there are any, and the models."""
        given = [name for name in BASELINES if any(name in result.intervals for result in self.results)]
        return (*given, *self.models)

    @cached_property
    def against_baseline(self) -> tuple[Compared, ...]:
        """Each model on each dataset, in the order of the datasets."""
        return self._compared(Result.baseline)

    @cached_property
    def against_first(self) -> tuple[Compared, ...]:
        """Each other model on each dataset, in the order of the datasets."""
        return self._compared(lambda result: self.models[0])

    @cached_property
    def weights(self) -> dict[str, dict[Result, float]]:
        """Type of task -> its datasets that are here, with their weights in its mean; last, under the name of what it
        is, the mean of the types: the BLURB score where all datasets are here.
        """
        types: dict[str, list[Result]] = {}
        for result in self.results:
            types.setdefault(result.dataset.type, []).append(result)
        found = {kind: dict.fromkeys(own, 1 / len(own)) for kind, own in types.items()}
        if self.refused() and len(types) == 1:
            return found
        name = f"{len(types)} types, no BLURB score" if self.refused() else BLURB_SCORE
        return {**found, name: {result: part / len(types) for own in found.values() for result, part in own.items()}}

    @cached_property
    def means(self) -> dict[str, dict[str, Interval]]:
        """As `weights`: what is a mean -> column -> the mean with its interval."""
        return {
            name: {
                column: mean_interval([result.draws[column] for result in own], [*own.values()])
                for column in self.columns
            }
            for name, own in self.weights.items()
        }

    def mean_against_first(self, name: str, model: str) -> Comparison:
        """The model's mean of this name with the first model's."""
        own = self.weights[name]
        ours, first = ([result.draws[column] for result in own] for column in (model, self.models[0]))
        return mean_difference(ours, first, [*own.values()])

    def refused(self) -> str:
        """Why there is no BLURB score; "" where there is."""
        try:
            blurb_score({result.dataset.name: result.intervals[self.models[0]].mean for result in self.results})
        except ValueError as error:
            return str(error)
        return ""

    def _compared(self, reference: Callable[[Result], str]) -> tuple[Compared, ...]:
        found: dict[tuple[str, str], Compared] = {}
        for model in self.models:
            sides = [(result, reference(result)) for result in self.results]
            pairs = [
                (result.dataset.name, against, compare_of(result.draws[model], result.draws[against]))
                for result, against in sides
                if against not in ("", model)
            ]
            corrected = holm([comparison.p for _, _, comparison in pairs])
            for (dataset, against, comparison), p in zip(pairs, corrected, strict=True):
                found[dataset, model] = Compared(dataset, model, against, comparison, p)
        order = [(result.dataset.name, model) for result in self.results for model in self.models]
        return tuple(found[place] for place in order if place in found)
