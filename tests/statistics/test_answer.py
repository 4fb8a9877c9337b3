"""Answers of made-up races: the rule is in test_answer_rule.py, intervals in test_simultaneous.py."""

from dataclasses import replace

import pytest

from acclimate.statistics.answer import Answer, answer_of
from acclimate.statistics.answer_rule import SETTLED
from acclimate.statistics.variance import Resampled
from made_up_races import resampled

UNTOUCHED = resampled("untouched")


def answer(*contestants: Resampled, reference: Resampled = UNTOUCHED, **settings: float) -> Answer:
    result = answer_of(contestants, reference, **settings)  # type: ignore[arg-type]
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("gains", "settings", "kind", "contestant"),
    [
        ([0.3], {}, "helped", "A"),
        ([0.2, 0.3, -0.3], {}, "helped", "B"),
        ([-0.3], {}, "harmful", "A"),
        ([-0.4, -0.3], {}, "harmful", "B"),
        ([0.0, -0.3], {"margin": 0.2}, "no gain that matters", "A"),
        ([0.1], {"margin": 0.3}, "no gain that matters", "A"),  # established, and too small to matter
        ([0.0], {}, "not settled", "A"),
        ([-0.3, 0.0], {}, "not settled", "B"),
    ],
)
def test_answers(gains, settings, kind, contestant):
    result = answer(*(resampled(name, gain=gain) for name, gain in zip("ABC", gains, strict=False)), **settings)
    assert (result.kind, result.contestant) == (kind, contestant)
    assert result.settled is (kind in SETTLED)
    named = next(gain for gain in result.gains if gain.contestant == contestant)
    assert (result.difference, result.interval, result.single, result.p) == (
        named.difference, named.interval, named.single, named.p,
    )  # fmt: skip
    assert result.limits.remedies[0].now == 300


def test_probably_has_both_intervals():
    """The leader is moved to where only its single interval is above 0."""
    sides = [resampled(name) for name in "ABCDE"]
    leader = answer(*sides).gains[0]
    ends = leader.difference - leader.single[0], leader.difference - leader.interval[0]
    move = sum(ends) / 2 - leader.difference
    moved = replace(sides[0], points_S=sides[0].points_S + move)
    others = [replace(side, points_S=side.points_S - 0.2) for side in sides[1:]]
    result = answer(moved, *others)
    assert (result.kind, result.contestant) == ("probably", "A")
    assert result.interval[0] < 0 < result.single[0]
    assert result.p > 0.05
    assert result.gains[0].single_p < 0.05
    assert answer(moved).kind == "helped"


def test_designs_of_races():
    """Adaptations of every design, folds with one repeat, and a contestant of other seeds."""
    for adaptations in ((4,) * 6, tuple(range(6)), (0, 1, 2, 0, 1, 2)):
        sides = [resampled(name, gain=0.3, seeds=6, adaptations=adaptations) for name in "AB"]
        result = answer(*sides, reference=resampled("untouched", seeds=6))
        assert result.kind == "helped"
        assert ("adaptations" in {remedy.source for remedy in result.limits.remedies}) is (len(set(adaptations)) > 1)
    repeats = answer(resampled("A", gain=0.3, seeds=1), reference=resampled("untouched", seeds=1), folds=5)
    assert repeats.kind == "helped"
    assert "Use at least 3" in repeats.caution
    others = replace(resampled("A", gain=0.3), seeds=(5, 6, 7, 8, 9))
    assert answer(others, resampled("B", gain=0.2)).kind == "helped"


def test_without_a_contestant_there_is_no_answer():
    assert answer_of([], UNTOUCHED) is None


@pytest.mark.parametrize("margin", [-0.01, 0.51, 1.0])
def test_a_margin_is_from_0_to_50_points(margin):
    with pytest.raises(ValueError, match=r"pass a gain from 0 to 0\.5; 1 point is \.01"):
        answer_of([resampled("A")], UNTOUCHED, margin=margin)
