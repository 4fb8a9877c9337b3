"""Which setting each contestant gets, on made-up dev scores."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

import toys
from acclimate.races.recipe import RaceRecipe, SearchRecipe, Setting
from acclimate.races.search import DIVERGED, FAILED, Candidate, DevResult, DevScores, end_rate_warning, search_result

NAMES = ("untouched", "TAPT", "DAPT")
RATES = (1e-5, 3e-5, 1e-4)


def rated(*rates: float) -> tuple[Setting, ...]:
    plan = toys.papers().plan
    return tuple(Setting(f"rate {rate:g}", toys.papers(plan=replace(plan, rate=rate))) for rate in rates)


CANDIDATES = [Candidate(name, setting) for name in NAMES for setting in rated(*RATES)]


def scores(dev: Mapping[str, tuple[DevResult | float, ...]], *, common: bool = False) -> DevScores:
    """Return scores that do not depend on the seed. dev: contestant -> its result at each of the rates"""

    def result(candidate: Candidate, number: int) -> DevResult:
        score = dev[candidate.contestant][RATES.index(candidate.setting.recipe.plan.rate)]
        return score if isinstance(score, DevResult) else DevResult(score, 100, loss=1.0)

    return DevScores(result, constant=0.3, common=common)


def chosen_rates(made_up: DevScores, names: tuple[str, ...] = NAMES) -> dict[str, float]:
    best = made_up.best([candidate for candidate in CANDIDATES if candidate.contestant in names])
    return {candidate.contestant: candidate.setting.recipe.plan.rate for candidate in best}


def test_each_contestant_keeps_its_own_best_setting_or_all_have_the_one_with_the_best_mean():
    made_up = scores({"untouched": (0.5, 0.6, 0.4), "TAPT": (0.7, 0.6, 0.5), "DAPT": (0.5, 0.6, 0.8)})
    assert [*chosen_rates(made_up).items()] == [("untouched", 3e-5), ("DAPT", 1e-4), ("TAPT", 1e-5)]
    dev = {"untouched": (0.7, 0.6, 0.1), "TAPT": (0.1, 0.6, 0.7), "DAPT": (FAILED, FAILED, FAILED)}
    assert chosen_rates(scores(dev)) | {"DAPT": 0} == {"untouched": 1e-5, "TAPT": 1e-4, "DAPT": 0}
    assert {*chosen_rates(scores(dev, common=True), ("untouched", "TAPT")).values()} == {3e-5}
    assert {*chosen_rates(scores(dev, common=True)).values()} == {3e-5}


@pytest.mark.parametrize(
    ("results", "best"),
    [
        pytest.param((DevResult(0.5, 9, 0.5), DevResult(0.5, 9, 0.4), DevResult(0.5, 9, 0.6)), 3e-5, id="lower loss"),
        pytest.param((DevResult(0.5, 9, 0.5), DevResult(0.5, 10, 0.5), DevResult(0.5, 9, 0.5)), 3e-5, id="more steps"),
        pytest.param((DevResult(0.5, 9, 0.5), DevResult(0.5, 9, 0.5), DevResult(0.4, 9, 0.1)), 3e-5, id="higher rate"),
        pytest.param((DevResult(0.2, 9, 0.5), DevResult(0.1, 9, 0.4), DevResult(0.3, 9, 0.6)), 3e-5, id="none learnt"),
        pytest.param((DevResult(0.2, 9, 0.1), DevResult(0.31, 9, 0.9), DIVERGED), 3e-5, id="one learnt"),
    ],
)
def test_equal_settings_are_ranked_and_those_that_learnt_nothing_come_last(results, best):
    assert chosen_rates(scores({"untouched": results}), ("untouched",)) == {"untouched": best}


def test_the_record_accounts_for_every_candidate():
    made_up = scores({"untouched": (0.5, 0.6, 0.4), "TAPT": (0.7, DIVERGED, 0.5), "DAPT": (0.5, 0.6, 0.8)})
    chosen = made_up.best(CANDIDATES)
    search = search_result(made_up, CANDIDATES, chosen, 3)
    assert search.finalists == tuple(chosen)
    assert search.note == "3 settings of each contestant were tried with the first seed."
    assert [(line.rung, line.seeds) for line in search.record] == [(0, 1)] * 9 + [(1, 3)] * 3
    for rung in (0, 1):
        kept = {(line.contestant, line.setting) for line in search.record if line.rung == rung and line.kept}
        assert kept == {(candidate.contestant, candidate.setting.name) for candidate in chosen}
    [lost] = [line for line in search.record if "diverged" in line.why]
    assert (lost.contestant, lost.setting, lost.why) == ("TAPT", "rate 3e-05", "its training diverged")


def test_one_setting_is_no_search():
    made_up = scores(dict.fromkeys(NAMES, (0.5, 0.5, 0.5)))
    tried = CANDIDATES[:: len(RATES)]
    search = search_result(made_up, tried, tried, 2)
    assert search.note == ""
    assert {(line.rung, line.seeds, line.kept) for line in search.record} == {(0, 2, True)}


def test_a_contestant_that_diverges_with_a_later_seed_is_out_and_of_the_untouched_model_the_way_out_is_told():
    def result(candidate: Candidate, number: int) -> DevResult:
        return DIVERGED if (candidate.contestant, number) == ("TAPT", 1) else DevResult(0.5, 100, loss=1.0)

    chosen = CANDIDATES[:: len(RATES)]
    assert [candidate.contestant for candidate in DevScores(result).sound(chosen, 2)] == ["untouched", "DAPT"]
    with pytest.raises(ValueError, match=r"the untouched model's training diverges .* Lower search\.rates"):
        DevScores(lambda *_: DIVERGED).sound(CANDIDATES[:1], 1)


@pytest.mark.parametrize(
    ("rates", "rate", "named"),
    [((1e-5, 3e-5, 1e-4), 1e-4, True), ((1e-5, 3e-5, 1e-4), 3e-5, False), ((3e-5,), 3e-5, False), ((), 3e-5, False)],
)
def test_a_best_rate_at_an_end_of_those_tried_is_named(rates, rate, named):
    recipe = RaceRecipe(search=SearchRecipe(rates=rates))
    warning = end_rate_warning([Candidate("TAPT", *rated(rate))], recipe)
    assert warning.startswith("The best rate is the lowest or highest of those tried: TAPT (rate 0.0001)." * named)
    assert bool(warning) == named


def test_a_result_that_is_missing_has_no_loss():
    assert math.isinf(FAILED.loss)
    assert FAILED.lost != DIVERGED.lost
