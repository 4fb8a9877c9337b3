"""Made-up races: scores of contestants on the same test rows, and outcomes with given differences."""

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from acclimate.core.types import Cost, Label, Score
from acclimate.races.compare import MAIN, Compared, Contrast
from acclimate.races.outcome import CellResult, Facts, Outcome, ScoredTask
from acclimate.races.race import against_untouched
from acclimate.reports.table import ContestantRow
from acclimate.statistics.answer import Answer
from acclimate.statistics.answer_rule import Ends, answer_kind
from acclimate.statistics.limits import Limits, Remedy
from acclimate.statistics.significance import Comparison, Interval
from acclimate.statistics.simultaneous import Gain
from acclimate.statistics.variance import Components, Resampled
from acclimate.tasks.metrics import METRICS

ROWS_LIMIT = Limits("test rows", (Remedy("test rows", 400, 0.7, 800, None), Remedy("seeds", 3, 0.3, None, None)))


def resampled(
    name: str,
    *,
    gain: float = 0.0,
    seeds: int = 5,
    rows: int = 300,
    spread: float = 0.02,
    adaptations: tuple[int, ...] = (),
) -> Resampled:
    """Normal scores around .7: of rows that are hard for all or for this contestant, of seeds, and of each answer."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    hard_n = np.random.default_rng(0).normal(0, 0.35, rows)
    scores_Sn = 0.7 + gain + hard_n + generator.normal(0, 0.2, rows) + generator.normal(0, 0.1, (seeds, rows))
    scores_Sn = scores_Sn + generator.normal(0, spread, (seeds, 1))
    points_S = scores_Sn.mean(axis=1)
    return Resampled(name, tuple(range(seeds)), points_S, scores_Sn - points_S[:, None], 0.0, adaptations)


def score_of(
    contestant: str,
    metric: str,
    seed: int,
    *,
    gold: Sequence[Label],
    predicted: Sequence[Label],
    adaptation: int | None = None,
) -> Score:
    """The score of these predictions, on dev the same; the items have their numbers as ids."""
    test, ids = METRICS[metric].compute(gold, predicted), tuple(map(str, range(len(gold))))
    return Score(
        contestant, "task", metric, seed, test, test, ids, tuple(gold), tuple(predicted), Cost(), Cost(), adaptation
    )


def untouched(mean: float = 0.8) -> ContestantRow:
    return ContestantRow(
        contestant="untouched",
        task="task",
        metric="macro_f1",
        seeds=(0, 1, 2),
        scores=(mean,) * 3,
        dev=(mean,) * 3,
        score=Interval(mean, mean, mean),
        comparison=None,
        p_adjusted=None,
        adapting=Cost(),
        finetuning=Cost(),
    )


def rival(name: str, gain: float, *, p: float, half: float = 0.019, seconds: float = 41.0) -> ContestantRow:
    mean = 0.8 + gain
    comparison = Comparison(name, "untouched", mean, 0.8, gain - half, gain + half, p / 2, None, "made up")
    spread = {"variance_seeds": half**2 / 12, "variance_items": half**2 / 12, "variance_residual": half**2 / 24}
    comparison = replace(comparison, items=400, seeds=3, **spread)
    return replace(
        untouched(mean), contestant=name, comparison=comparison, p_adjusted=p, adapting=Cost(1, 1.0, seconds)
    )


def race_of(
    rows: list[ContestantRow],
    *,
    failed: Mapping[str, str] = MappingProxyType({}),
    baselines: Collection[str] = (),
    stopped: str = "",
    limits: Limits = ROWS_LIMIT,
    untaught: Collection[str] = (),
    failing: Mapping[str, int] = MappingProxyType({}),
) -> Outcome:
    """A race that came to these rows, as `outcome.rows` gives them back. failing: contestant -> number of its runs that
    learnt nothing
    """
    task = ScoredTask("Genes", "sequence", "macro_f1", ("macro_f1",), {})
    items = ("1",), ("a",), ("a",)
    results = []
    for row in rows:
        learnt = row.contestant not in untaught
        scores = tuple(
            Score(
                row.contestant,
                row.task,
                row.metric,
                seed,
                *two,
                *items,
                row.adapting,
                row.finetuning,
                learnt=learnt and at >= failing.get(row.contestant, 0),
            )
            for at, (seed, *two) in enumerate(zip(row.seeds, row.dev, row.scores, strict=True))
        )
        costs = {"adapting": row.adapting, "tuning": row.finetuning}
        encoder = row.contestant not in baselines
        results.append(CellResult("", row.contestant, "Genes", task, scores, costs=costs, encoder=encoder))
    results += [CellResult("", name, "Genes", task, failed=why) for name, why in failed.items()]
    against = {
        row.contestant: against_untouched([row.contestant], "Genes")[0] for row in rows if row.comparison is not None
    }
    contrasts = tuple(
        Contrast(against[row.contestant], against[row.contestant].references[0], MAIN, row.comparison, row.p_adjusted)
        for row in rows
        if row.comparison is not None and row.p_adjusted is not None
    )
    outcome = Outcome("race", "Race", "", tuple(results), tuple(against.values()), race=Facts(stopped=stopped))
    intervals = {("", row.contestant, "Genes"): row.score for row in rows}
    means = {(key, MAIN): score for key, score in intervals.items()}
    # in place of what would be computed of scores
    vars(outcome)["compared"] = Compared({}, means, contrasts)
    vars(outcome)["answer"] = answer_of_rows(
        [row for row in rows if row.contestant not in {*baselines, *untaught}], limits
    )
    return outcome


def answer_of_rows(rows: list[ContestantRow], limits: Limits) -> Answer | None:
    """The answer of these rows: the interval of one whose p is .05 or more is made wider until it includes 0."""
    gains = []
    for row in rows:
        if row.comparison is None or row.p_adjusted is None:
            continue
        low, high = single = row.comparison.low, row.comparison.high
        wide = single if row.p_adjusted < 0.05 else (min(low, -0.002), max(high, 0.002))
        nothing = Components(0.0, 0.0, 1.0, 1, 0.0)
        gains.append(
            Gain(
                row.contestant,
                row.comparison.difference,
                wide,
                single,
                row.p_adjusted,
                row.comparison.p,
                0.05,
                nothing,
                3,
                caution=row.comparison.caution,
            )
        )
    if not gains or rows[0].contestant != "untouched":
        return None
    ends = [Ends(*np.array([getattr(gain, part) for gain in gains]).T) for part in ("interval", "single")]
    kind, place = answer_kind(np.array([gain.difference for gain in gains]), *ends)
    named = gains[int(place)]
    figures = named.contestant, named.difference, named.interval, named.single, named.p
    return Answer(str(kind), *figures, 0.01, tuple(gains), limits)
