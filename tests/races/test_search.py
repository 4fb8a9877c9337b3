"""Rounds of a search, on made-up dev scores: who goes on, what it costs, and that no contestant is favoured."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import toys
from acclimate.races.recipe import RaceRecipe, SearchRecipe, Setting
from acclimate.races.search import (
    DIVERGED,
    EARLY,
    FAILED,
    HALFWAY,
    NOTHING_LEARNT,
    Candidate,
    DevResult,
    search,
    tunings,
)

NAMES = ("untouched", "TAPT", "DAPT", "random weights")
SETTINGS = tuple(Setting(f"rate {rate}", toys.papers()) for rate in (1, 2, 3))


class Track:
    """Plays candidates with given true scores, plus a spread by seed, and remembers what was asked."""

    def __init__(self, true: dict[tuple[str, str], float], noise: float = 0.0, short_bias: float = 0.0) -> None:
        self.true, self.noise, self.short_bias = true, noise, short_bias
        self.played: list[tuple[str, str, int, float]] = []

    def __call__(self, candidate: Candidate, seed: int, share: float) -> DevResult:
        self.played.append((candidate.contestant, candidate.setting.name, seed, share))
        chance = np.random.default_rng(
            [seed, zlib.crc32(f"{candidate.contestant} {candidate.setting.name} {share}".encode())]
        )
        score = self.true[candidate.contestant, candidate.setting.name] + self.noise * float(chance.standard_normal())
        return DevResult(score - self.short_bias * (share < 1), round(100 * share))

    @property
    def cost(self) -> float:
        """In whole runs: a candidate that goes on goes on from where it stood."""
        furthest: dict[tuple[str, str, int], float] = {}
        for name, setting, seed, share in self.played:
            furthest[name, setting, seed] = max(share, furthest.get((name, setting, seed), 0.0))
        return sum(furthest.values())


def true_scores(best: str = "DAPT", setting: int = 2) -> dict[tuple[str, str], float]:
    """Contestants .5 apart but the best; of each, the second setting is best."""
    return {
        (name, stated_setting.name): 0.5 + 0.1 * (name == best) - 0.05 * abs(number - setting)
        for name in NAMES
        for number, stated_setting in enumerate(SETTINGS, 1)
    }


def never(rival: Candidate, untouched: Candidate, seeds: int) -> bool:
    return False


def rated(*rates: float) -> tuple[Setting, ...]:
    plan = toys.papers().plan
    return tuple(Setting(f"rate {rate:g}", toys.papers(plan=replace(plan, rate=rate))) for rate in rates)


@pytest.mark.parametrize("finalists", [None, lambda: 3])
@pytest.mark.parametrize(
    ("final", "left"),
    [
        # the largest rate never learns, and its loss does not fall
        pytest.param((0.5, 0.7, 0.6, 0.3), (0.9, 0.6, 0.55, 2.0), id="none has left the constant answer at the cut"),
        pytest.param((0.4, 0.7, 0.6, 0.5), (0.9, 0.4, 0.2, 0.1), id="two others have"),
    ],
)
def test_a_setting_that_has_not_left_the_constant_answer_at_the_first_cut_can_still_win(finalists, final, left):
    """A simulation of 200 searches: a candidate leaves the constant answer late, the later the lower its rate, but its
    loss falls before that. The best setting in the end is one of those that stand at the constant at the first cut.

    final: score of each rate in the end; left: share of the steps at which it leaves the constant answer
    """
    settings, constant = rated(1e-5, 3e-5, 1e-4, 3e-4), 0.3
    generator = np.random.default_rng(0)

    def play(candidate: Candidate, seed: int, share: float) -> DevResult:
        at = settings.index(candidate.setting)
        gone = share >= left[at]
        dev = constant + (final[at] - constant) * gone + (0.01 * generator.standard_normal() if gone else 0.0)
        progress = share * (final[at] - constant)
        return DevResult(dev, round(100 * share), loss=1.0 - progress + 0.005 * generator.standard_normal())

    won = []
    for _ in range(200):
        found = search(NAMES, settings, 3, play, how="halving", finalists=finalists, hopeless=never, constant=constant)
        won += [candidate.setting.recipe.plan.rate for candidate in found.finalists]
    assert won.count(3e-5) > 0.97 * len(won)


def test_a_setting_that_diverges_takes_no_place_of_one_that_has_learnt():
    settings = rated(1e-5, 3e-5, 1e-4, 1.0)
    dev = {1e-5: 0.8, 3e-5: 0.75, 1e-4: 0.7}
    played: dict[float, set[float]] = {}

    def play(candidate: Candidate, seed: int, share: float) -> DevResult:
        rate = candidate.setting.recipe.plan.rate
        played.setdefault(rate, set()).add(share)
        return DevResult(dev[rate], 100, loss=1.0) if rate in dev else DIVERGED

    search(["untouched"], settings, 2, play, how="halving", finalists=None, hopeless=never, constant=0.5)
    assert {rate for rate, shares in played.items() if 1.0 in shares} == {1e-5, 3e-5}


@pytest.mark.parametrize(("how", "finalists"), [("grid", None), ("halving", None), ("halving", lambda: 2)])
def test_a_best_setting_at_an_end_of_the_rates_is_named_whatever_found_it(how, finalists):
    recipe = RaceRecipe(search=SearchRecipe(rates=(1e-5, 3e-5, 9e-5)))

    def play(candidate: Candidate, seed: int, share: float) -> DevResult:
        return DevResult(0.5 + 100 * candidate.setting.recipe.plan.rate, 100, loss=1.0)

    given = {"finalists": finalists, "hopeless": never, "beyond": recipe.beyond}
    found = search(NAMES, recipe.settings(), 2, play, how=how, **given)
    assert "at an end of those tried: untouched (rate 9e-05)" in found.edge


def test_of_equal_arms_the_one_with_the_lower_loss_then_the_faster_one_wins():
    settings = rated(1e-5, 3e-5, 1e-4)
    losses = {1e-5: 0.5, 3e-5: 0.4, 1e-4: 0.4}

    def play(candidate: Candidate, seed: int, share: float) -> DevResult:
        return DevResult(0.5, round(100 * share), loss=losses[candidate.setting.recipe.plan.rate])

    for how in ("halving", "grid"):
        found = search(NAMES, settings, 2, play, how=how, finalists=None, hopeless=never, constant=0.3)
        assert {candidate.setting.name for candidate in found.finalists} == {"rate 0.0001"}


def test_nobody_leaves_before_the_first_cut():
    track = Track({(name, each.name): 0.5 for name in NAMES for each in rated(1, 2, 3, 4)})
    search(NAMES, rated(1, 2, 3, 4), 2, track, how="halving", finalists=None, hopeless=never, first_cut=0.6)
    assert min(share for *_, share in track.played) == 0.6
    track = Track({(name, each.name): 0.5 for name in NAMES for each in rated(1, 2, 3, 4)})
    search(NAMES, rated(1, 2, 3, 4), 2, track, how="halving", finalists=None, hopeless=never, first_cut=1.0)
    assert {share for *_, share in track.played} == {1.0}


def test_the_last_cut_looks_at_two_seeds():
    """With one seed the second setting is ahead, over two it is behind."""
    settings = rated(1e-5, 3e-5, 1e-4)
    scores = {"rate 1e-05": (0.6, 0.6), "rate 3e-05": (0.65, 0.4), "rate 0.0001": (0.2, 0.9)}

    def play(candidate: Candidate, seed: int, share: float) -> DevResult:
        return DevResult(scores[candidate.setting.name][min(seed, 1)], 100, loss=1.0)

    found = search(NAMES, settings, 3, play, how="halving", finalists=None, hopeless=never)
    assert {candidate.setting.name for candidate in found.finalists} == {"rate 1e-05"}


@pytest.mark.parametrize(
    ("peak", "tried", "warned"),
    [
        (3e-5, {1e-5, 3e-5, 9e-5}, False),
        (2.7e-4, {1e-5, 3e-5, 9e-5, 2.7e-4, 8.1e-4}, False),
        (1e-6, {1e-5, 3e-5, 9e-5, 3.33e-6, 1.11e-6}, True),
    ],
)
def test_where_the_best_rate_lies_at_an_end_all_try_one_beyond_it_twice_at_most(peak, tried, warned):
    recipe = RaceRecipe(search=SearchRecipe(rates=(1e-5, 3e-5, 9e-5), extend=True))
    seen: dict[str, set[float]] = {}

    def play(candidate: Candidate, seed: int, share: float) -> DevResult:
        rate = candidate.setting.recipe.plan.rate
        seen.setdefault(candidate.contestant, set()).add(float(f"{rate:.3g}"))
        return DevResult(0.5 - 0.1 * abs(np.log(rate / peak)), 100, loss=1.0)

    found = search(
        NAMES,
        recipe.settings(),
        2,
        play,
        how="halving",
        finalists=None,
        hopeless=never,
        beyond=recipe.beyond,
        extend=True,
    )
    assert all(rates == tried for rates in seen.values())
    assert ("The best rate lies at an end of those tried: untouched (rate 1.11e-06)" in found.edge) == warned


def test_halving_finds_the_grids_best_at_less_than_a_third_of_its_cost():
    true = true_scores()
    grid, halved = Track(true), Track(true, short_bias=0.2)
    full = search(NAMES, SETTINGS, 3, grid, how="grid", finalists=None, hopeless=never)
    found = search(NAMES, SETTINGS, 3, halved, how="halving", finalists=lambda: 2, hopeless=never)
    best = max(full.finalists, key=lambda candidate: true[candidate.contestant, candidate.setting.name])
    assert best in found.finalists
    assert (best.contestant, best.setting.name) == ("DAPT", "rate 2")
    assert halved.cost <= grid.cost / 3
    assert halved.cost == pytest.approx(sum(tunings(NAMES, SETTINGS, 3, 2).values()))


def test_without_a_budget_everybody_reaches_the_end_with_its_own_best_setting():
    track = Track(true_scores())
    found = search(NAMES, SETTINGS, 3, track, how="halving", finalists=None, hopeless=never)
    assert found.finalists[0].contestant == "untouched"
    assert {candidate.contestant for candidate in found.finalists} == set(NAMES)
    assert {candidate.setting.name for candidate in found.finalists} == {"rate 2"}


@pytest.mark.parametrize("how", ["grid", "halving"])
def test_a_common_setting_is_the_one_with_the_best_mean_over_all_contestants(how):
    scores = {"untouched": (0.7, 0.6, 0.1), "TAPT": (0.1, 0.6, 0.7)}  # with each of SETTINGS

    def tune(candidate: Candidate, seed: int, share: float) -> DevResult:
        if candidate.contestant == "broken":
            return FAILED
        return DevResult(scores[candidate.contestant][SETTINGS.index(candidate.setting)], 1)

    names = [*scores, "broken"]
    own, common = (
        search(names, SETTINGS, 2, tune, common=common, how=how, finalists=None, hopeless=never, constant=0.2)
        for common in (False, True)
    )
    chosen = {candidate.contestant: candidate.setting.name for candidate in own.finalists}
    assert (chosen["untouched"], chosen["TAPT"]) == ("rate 1", "rate 3")
    assert {candidate.setting.name for candidate in common.finalists} == {"rate 2"}


def test_every_contestant_tries_every_setting_with_the_same_seeds_and_steps():
    for how, finalists in (("grid", None), ("halving", None), ("halving", lambda: 2)):
        track = Track(true_scores())
        search(NAMES, SETTINGS, 3, track, how=how, finalists=finalists, hopeless=never)
        [(seed, share)] = {(seed, share) for *_, seed, share in track.played[:1]}
        first = {(name, setting) for name, setting, *rest in track.played if tuple(rest) == (seed, share)}
        assert first == {(name, setting.name) for name in NAMES for setting in SETTINGS}
        assert max(Counter(track.played).values()) == 1  # nothing twice


def test_the_untouched_model_is_never_cut():
    true = true_scores() | {("untouched", setting.name): 0.1 for setting in SETTINGS}
    track = Track(true)
    found = search(NAMES, SETTINGS, 2, track, how="halving", finalists=lambda: 2, hopeless=never)
    assert [candidate.contestant for candidate in found.finalists] == ["untouched", "DAPT"]
    assert {seed for name, _, seed, share in track.played if name == "untouched" and share == 1} == {0, 1}


def test_it_ends_early_only_where_no_rival_is_left():
    true = true_scores(best="untouched")
    track = Track(true)
    found = search(NAMES, SETTINGS, 5, track, how="halving", finalists=lambda: 3, hopeless=lambda *_: True)
    assert [candidate.contestant for candidate in found.finalists] == ["untouched"]
    assert found.stopped == "nothing could win any more"
    assert {name for name, _, seed, _ in track.played if seed > 0} == {"untouched"}
    # a full search tells the same about everybody and stops nothing
    assert (
        len(search(NAMES, SETTINGS, 2, Track(true), how="grid", finalists=None, hopeless=lambda *_: True).finalists)
        == 4
    )


def test_what_is_left_of_a_budget_pays_for_further_seeds():
    asked = []

    def another(names, seeds):
        asked.append((names, seeds))
        return seeds < 4

    track = Track(true_scores())
    given = {"how": "halving", "finalists": lambda: 2, "another": another}
    found = search(NAMES, SETTINGS, 2, track, hopeless=never, **given)
    assert asked == [(["untouched", "DAPT"], seeds) for seeds in (2, 3, 4)]
    assert found.seeds == 4
    assert {(name, seed) for name, _, seed, share in track.played if share == 1} == {
        (name, seed) for name in ("untouched", "DAPT") for seed in range(4)
    }
    assert {line.seeds for line in found.record if line.rung == 2} == {4}
    asked.clear()
    assert search(NAMES, SETTINGS, 2, track, hopeless=lambda *_: True, **given).seeds == 2
    assert not asked, "nothing can win any more"


def test_one_setting_without_a_budget_is_a_plain_race():
    track = Track(true_scores())
    found = search(NAMES, SETTINGS[:1], 2, track, how="halving", finalists=None, hopeless=never)
    assert sorted(track.played) == sorted((name, "rate 1", seed, 1.0) for name in NAMES for seed in (0, 1))
    assert found.note == ""


def test_the_record_accounts_for_every_run():
    track = Track(true_scores(), noise=0.02)
    found = search(NAMES, SETTINGS, 3, track, how="halving", finalists=lambda: 3, hopeless=never)
    assert {line.rung for line in found.record} == {0, 1, 2}
    for line in found.record:
        assert line.steps == round(100 * (EARLY, HALFWAY, 1.0)[line.rung])
        assert line.seeds == (3 if line.rung == 2 else 1)
    for rung in (0, 1):
        went_on = {(line.contestant, line.setting) for line in found.record if line.rung == rung and line.kept}
        assert went_on == {(line.contestant, line.setting) for line in found.record if line.rung == rung + 1}
    last = {(line.contestant, line.setting) for line in found.record if line.rung == 2 and line.kept}
    assert last == {(candidate.contestant, candidate.setting.name) for candidate in found.finalists}


def test_contestants_keep_equally_many_settings_and_the_others_are_given_up():
    track, given_up = Track(true_scores(), noise=0.02), []
    found = search(
        NAMES, SETTINGS, 3, track, how="halving", finalists=lambda: 2, hopeless=never, give_up=given_up.append
    )
    halfway = Counter(name for name, *_, share in track.played if share == HALFWAY)
    assert halfway == dict.fromkeys(NAMES, 2)
    assert len(given_up) == len(set(given_up)) == len(NAMES) * len(SETTINGS) - len(found.finalists)
    assert not set(given_up) & set(found.finalists)


@pytest.mark.parametrize(("learns", "seeds", "stopped"), [(True, 4, ""), (False, 2, NOTHING_LEARNT)])
def test_what_is_left_of_a_budget_pays_for_no_more_seeds_where_nothing_has_learnt(learns, seeds, stopped):
    track = Track(true_scores())

    def tune(candidate: Candidate, seed: int, share: float) -> DevResult:
        return replace(track(candidate, seed, share), learnt=learns and candidate.contestant == "DAPT")

    asked = {"how": "halving", "finalists": lambda: 2, "hopeless": never, "another": lambda names, seeds: seeds < 4}
    found = search(NAMES, SETTINGS[1:2], 2, tune, **asked)
    assert (found.seeds, found.stopped) == (seeds, stopped)
    assert {seed for *_, seed, share in track.played if share == 1} == {*range(seeds)}


@pytest.mark.parametrize(("how", "finalists"), [("grid", None), ("halving", None), ("halving", lambda: 2)])
def test_an_arm_that_diverges_loses_and_the_race_goes_on(how, finalists):
    true = true_scores()
    track = Track(true)

    def wild(candidate: Candidate, seed: int, share: float) -> DevResult:
        track(candidate, seed, share)
        return (
            DIVERGED
            if candidate.setting.name == "rate 3"
            else DevResult(true[candidate.contestant, candidate.setting.name], 100)
        )

    found = search(NAMES, SETTINGS, 2, wild, how=how, finalists=finalists, hopeless=never)
    assert {candidate.setting.name for candidate in found.finalists} == {"rate 2"}
    assert {line.why for line in found.record if line.setting == "rate 3"} == {"its training diverged"}


def test_where_the_untouched_model_diverges_throughout_the_way_out_is_told():
    with pytest.raises(ValueError, match=r"the untouched model's training diverges .* Lower search\.rates"):
        search(NAMES, SETTINGS, 2, lambda *_: DIVERGED, how="grid", finalists=None, hopeless=never)
