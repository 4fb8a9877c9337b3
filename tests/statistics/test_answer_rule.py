"""Shape suffixes: B races, m contestants."""

import numpy as np
import pytest

from acclimate.statistics.answer_rule import SETTLED, Ends, answer_kind, is_settled


def kind_of(*contestants: tuple[float, float, float, float, float], margin: float = 1.0) -> tuple[str, int]:
    """The answer of contestants with these differences, simultaneous intervals and single ones, in points."""
    difference, low, high, single_low, single_high = np.array(contestants).T
    kind, place = answer_kind(difference, Ends(low, high), Ends(single_low, single_high), margin=margin)
    return str(kind), int(place)


@pytest.mark.parametrize(
    ("contestants", "answer"),
    [
        ([(2.4, 1.0, 3.8, 1.2, 3.6)], ("helped", 0)),
        # the leader is open, and another one is established
        ([(3.0, -1.0, 7.0, 0.5, 5.5), (2.0, 1.0, 3.0, 1.2, 2.8), (1.5, 0.5, 2.5, 0.7, 2.3)], ("helped", 1)),
        ([(-2.0, -3.0, -1.0, -2.8, -1.2)], ("harmful", 0)),
        ([(-4.0, -6.0, -2.0, -5.5, -2.5), (-2.0, -3.0, -1.0, -2.8, -1.2)], ("harmful", 1)),
        # a small harm is established; so is a small gain, which does not matter
        ([(-0.3, -0.6, -0.1, -0.5, -0.1)], ("harmful", 0)),
        ([(0.3, 0.1, 0.6, 0.1, 0.5)], ("no gain that matters", 0)),
        # one is worse, and the other cannot gain the margin; or can
        ([(-4.0, -6.0, -2.0, -5.5, -2.5), (-0.1, -0.9, 0.7, -0.7, 0.5)], ("no gain that matters", 1)),
        ([(-4.0, -6.0, -2.0, -5.5, -2.5), (-0.1, -1.9, 1.7, -1.7, 1.5)], ("not settled", 1)),
        # better and worse at once
        ([(-4.0, -6.0, -2.0, -5.5, -2.5), (2.0, 0.5, 3.5, 0.7, 3.3)], ("helped", 1)),
        ([(1.5, -0.1, 3.1, 0.2, 2.8), (0.0, -1.6, 1.6, -1.3, 1.3)], ("probably", 0)),
        ([(-1.5, -3.1, 1.1, -2.8, -0.2)], ("probably", 0)),
        # the single interval of another than the leader excludes 0
        ([(1.5, -4.1, 7.1, -2.0, 5.0), (1.0, -0.1, 2.1, 0.1, 1.9)], ("not settled", 0)),
        ([(0.0, -2.0, 2.0, -1.5, 1.5)], ("not settled", 0)),
        # ends on the limits: neither above 0 nor below the margin
        ([(1.0, 0.0, 2.0, 0.0, 2.0)], ("not settled", 0)),
        ([(0.2, -0.6, 1.0, -0.6, 1.0)], ("not settled", 0)),
        ([(-1.0, -2.0, 0.0, -2.0, 0.0)], ("no gain that matters", 0)),
    ],
)
def test_each_answer_by_the_rule(contestants, answer):
    assert kind_of(*contestants) == answer


def test_without_a_margin_no_gain_is_too_small():
    assert kind_of((0.3, 0.1, 0.6, 0.1, 0.5), margin=0.0)[0] == "helped"
    assert kind_of((-0.3, -0.6, -0.1, -0.5, -0.1), margin=0.0)[0] == "harmful"
    assert kind_of((0.0, -0.1, 0.1, -0.1, 0.1), margin=0.0)[0] == "not settled"


def test_answer_and_intervals_never_contradict():
    """Random races, some with a margin of 0, answered side by side."""
    generator = np.random.default_rng(0)
    for number in (1, 2, 5):
        difference_Bm = generator.normal(0, 0.02, (5_000, number))
        single_Bm = np.abs(generator.normal(0, 0.02, difference_Bm.shape))
        half_Bm = single_Bm * (generator.uniform(1, 1.5, (5_000, 1)) if number > 1 else 1.0)
        interval = Ends(difference_Bm - half_Bm, difference_Bm + half_Bm)
        single = Ends(difference_Bm - single_Bm, difference_Bm + single_Bm)
        for margin in (0.0, 0.01):
            kind, place = answer_kind(difference_Bm, interval, single, margin=margin)
            of_named = np.arange(5_000), place
            low, difference = interval.low[of_named], difference_Bm[of_named]
            assert (low[kind == "helped"] > 0).all()
            assert (difference[kind != "helped"] == difference_Bm.max(axis=-1)[kind != "helped"]).all()
            assert (interval.high[kind == "harmful"] < 0).all()
            assert (interval.high[kind == "no gain that matters"] < margin).all()
            open_ends = np.isin(kind, ["probably", "not settled"])
            assert (low[open_ends] <= 0).all()
            assert not (interval.low[open_ends] > 0).any()
            assert (interval.high.max(axis=-1)[open_ends] >= margin).all()
            excludes = (single.low[of_named] > 0) | (single.high[of_named] < 0)
            assert (excludes == (kind == "probably"))[open_ends].all()
            assert (np.isin(kind, list(SETTLED)) == is_settled(interval, margin=margin)).all()
            assert number > 1 or not (kind == "probably").any()
            assert {"helped", "not settled", *(["harmful"] if number < 5 else ["probably"])} <= set(kind)
