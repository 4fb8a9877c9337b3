"""Gains are made up, in points; variances in squared points."""

import numpy as np
import pytest

from acclimate.statistics.limits import Limits, Remedy, limits_of
from acclimate.statistics.simultaneous import Gain, simultaneous_half_width
from acclimate.statistics.variance import Components


def gain(
    difference: float, *, seeds: float, items: float, runs: int = 5, adaptations: int = 0, share: float = 0.0
) -> Gain:
    """A gain whose difference has these variances; its p values are not right, and nothing reads them."""
    components = Components(np.float64(seeds), np.float64(items), np.float64(max(runs - 1, 1)), 400, np.float64(0.0))
    half = float(simultaneous_half_width(components, 0.05))
    ends = difference - half, difference + half
    return Gain("A", difference, ends, ends, 1.0, 1.0, 0.05, components, runs, adaptations, share)


def limits(*gains: Gain) -> tuple[Limits, dict[str, Remedy]]:
    """What limits the answer that names the first, and the remedies by their source."""
    result = limits_of(gains, 0, margin=1.0)
    return result, {remedy.source: remedy for remedy in result.remedies}


def between(low: int, number: int | None, high: int) -> bool:
    return number is not None and low <= number <= high


def test_test_rows_limit_what_no_seed_can_settle():
    result, remedies = limits(gain(1.0, seeds=0.1, items=4.0))
    rows, seeds = remedies["test rows"], remedies["seeds"]
    assert result.source == "test rows"
    assert (rows.now, seeds.now) == (400, 5)
    assert rows.share == pytest.approx(4.0 / 4.1)
    assert rows.share + seeds.share == pytest.approx(1.0)
    assert (seeds.to_halve, seeds.to_settle) == (None, None)
    assert between(1_600, rows.to_halve, 1_900)


def test_seeds_limit_what_a_number_of_them_settles():
    result, remedies = limits(gain(7.0, seeds=9.0, items=0.2))
    rows, seeds = remedies["test rows"], remedies["seeds"]
    assert result.source == "seeds"
    assert between(10, seeds.to_settle, 50)
    assert (rows.to_halve, rows.to_settle) == (None, None)
    # less than four times the seeds: t has more degrees of freedom too
    assert between(10, seeds.to_halve, 20)


def test_a_settled_answer_has_nothing_to_settle_and_more_seeds_may_settle_one():
    assert limits(gain(3.0, seeds=2.0, items=2.0, runs=3))[0].source == "several"
    result, remedies = limits(gain(9.0, seeds=1.0, items=3.0))
    assert result.source == "test rows"
    assert all(remedy.to_settle is None for remedy in remedies.values())
    assert limits(gain(9.0, seeds=3.0, items=1.0))[0].source == "seeds"


def test_adaptations_are_the_source_where_each_run_has_its_own_and_else_apart_from_seeds():
    result, remedies = limits(gain(7.0, seeds=9.0, items=0.2, adaptations=5, share=1.0))
    assert list(remedies) == ["test rows", "adaptations"]
    assert result.source == "adaptations"
    _, remedies = limits(gain(9.0, seeds=4.0, items=1.0, runs=6, adaptations=3, share=0.75))
    assert {source: remedy.share for source, remedy in remedies.items()} == pytest.approx(
        {"test rows": 0.2, "seeds": 0.2, "adaptations": 0.6}
    )
    assert remedies["seeds"].to_halve is None  # more seeds leave the adaptations' variance
    assert between(6, remedies["adaptations"].to_halve, 30)


def test_folds_have_test_rows_alone_and_another_contestant_can_keep_the_answer_open():
    result, remedies = limits(gain(1.0, seeds=0.0, items=4.0, runs=1))
    assert list(remedies) == ["test rows"]
    assert remedies["test rows"].share == 1.0
    assert result.remedy("seeds") is None
    assert result.remedy("test rows") == remedies["test rows"]
    closed, wide = gain(-1.0, seeds=0.1, items=0.1), gain(-8.0, seeds=16.0, items=0.1)
    assert limits(closed)[1]["seeds"].to_settle is None  # settled
    result, remedies = limits(closed, wide)
    assert result.source == "seeds"
    assert between(6, remedies["seeds"].to_settle, 50)


def test_numbers_above_a_hundred_have_two_digits():
    numbers = [
        number
        for items in (2.0, 3.0, 7.0)
        for remedy in limits(gain(1.0, seeds=0.1, items=items))[0].remedies
        for number in (remedy.to_halve, remedy.to_settle)
        if number is not None and number > 100
    ]
    assert numbers
    assert all(len(str(number).rstrip("0")) <= 2 for number in numbers)
