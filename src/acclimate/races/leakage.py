"""Scores of a race without the test items that leaked: whether its claims depend on them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from acclimate.core.types import Score
from acclimate.data.examination import Leak
from acclimate.races.outcome import Outcome
from acclimate.races.verdict import claims, verdict
from acclimate.tasks.metrics import metric_named


@dataclass(frozen=True)
class Leakage:
    """All leaks that were found, and the scores without the `leaked` of `items` test items that train contains.

    outcome, verdict   as on the rest of the page, on the other items; empty where no test item leaked, or too many did
    changed         in words, what is claimed on all items only or on the others only; empty where nothing is
    dropped         True if training rows that contain a test text were taken out before the race
    """

    leaks: Sequence[Leak]
    items: int
    leaked: int = 0
    outcome: Outcome | None = None
    verdict: str = ""
    changed: Sequence[str] = ()
    dropped: bool = False


def leakage_of(leaks: Sequence[Leak], outcome: Outcome, leaked: Collection[str]) -> Leakage:
    """Return the leaks, and the race scored again without the leaked test items if at least two others are left.

    leaked: ids of the test items that the training data contains
    """
    scored = next(score.ids for result in outcome.results for score in result.scores)
    ids, items = frozenset(leaked).intersection(scored), len(scored)
    if not ids or items - len(ids) < 2:
        return Leakage(leaks, items, len(ids))
    others = without(outcome, ids)
    before, after = claims(outcome), claims(others)
    changed = [f"only with the leaked items, {claim}" for claim in before if claim not in after]
    changed += [f"only without them, {claim}" for claim in after if claim not in before]
    return Leakage(leaks, items, len(ids), others, verdict(others), changed)


def without(outcome: Outcome, ids: Collection[str]) -> Outcome:
    """Return the outcome on the test items that are not among `ids`, scored anew; dev and costs stay.

    Raises ValueError where fewer than two items are left: a score of one says nothing.
    """
    results = (replace(result, scores=tuple(_without(result.scores, ids))) for result in outcome.results)
    return replace(outcome, results=tuple(results))


def _without(scores: Sequence[Score], ids: Collection[str]) -> Iterator[Score]:
    for score in scores:
        kept = [place for place, id in enumerate(score.ids) if id not in ids]
        if len(kept) < 2:
            raise ValueError(
                f"{len(kept)} of {len(score.ids)} test items are left without the {len(ids)} to leave out; a score "
                "needs two at least. Take them out of the training data instead."
            )
        gold, predicted = (tuple(labels[place] for place in kept) for labels in (score.gold, score.predicted))
        value = metric_named(score.metric).compute(gold, predicted)
        yield replace(score, ids=tuple(score.ids[place] for place in kept), gold=gold, predicted=predicted, test=value)
