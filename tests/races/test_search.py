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
    FAILED,
    Candidate,
    DevResult,
    search,
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


def rated(*rates: float) -> tuple[Setting, ...]:
    plan = toys.papers().plan
    return tuple(Setting(f"rate {rate:g}", toys.papers(plan=replace(plan, rate=rate))) for rate in rates)


@pytest.mark.parametrize(
    ("final", "left"),
    [
        # the largest rate never learns, and its loss does not fall
        pytest.param((0.5, 0.7, 0.6, 0.3), (0.9, 0.6, 0.55, 2.0), id="none has left the constant answer at the cut"),
        pytest.param((0.4, 0.7, 0.6, 0.5), (0.9, 0.4, 0.2, 0.1), id="two others have"),
    ],
)
def test_a_setting_that_has_not_left_the_constant_answer_at_the_first_cut_can_still_win(final, left):
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
        found = search(NAMES, settings, 3, play, how="halving", constant=constant)
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

    search(["untouched"], settings, 2, play, how="halving", constant=0.5)
    assert {rate for rate, shares in played.items() if 1.0 in shares} == {1e-5, 3e-5}


@pytest.mark.parametrize("how", ["grid", "halving"])
def test_a_best_setting_at_an_end_of_the_rates_is_named_whatever_found_it(how):
    recipe = RaceRecipe(search=SearchRecipe(rates=(1e-5, 3e-5, 9e-5)))

    def play(candidate: Candidate, seed: int, share: float) -> DevResult:
        return DevResult(0.5 + 100 * candidate.setting.recipe.plan.rate, 100, loss=1.0)

    found = search(NAMES, recipe.settings(), 2, play, how=how, beyond=recipe.beyond)
    assert "at an end of those tried: untouched (rate 9e-05)" in found.edge


def test_of_equal_arms_the_one_with_the_lower_loss_then_the_faster_one_wins():
    settings = rated(1e-5, 3e-5, 1e-4)
    losses = {1e-5: 0.5, 3e-5: 0.4, 1e-4: 0.4}

    def play(candidate: Candidate, seed: int, share: float) -> DevResult:
        return DevResult(0.5, round(100 * share), loss=losses[candidate.setting.recipe.plan.rate])

    for how in ("halving", "grid"):
        found = search(NAMES, settings, 2, play, how=how, constant=0.3)
        assert {candidate.setting.name for candidate in found.finalists} == {"rate 0.0001"}


def test_nobody_leaves_before_the_first_cut():
    track = Track({(name, each.name): 0.5 for name in NAMES for each in rated(1, 2, 3, 4)})
    search(NAMES, rated(1, 2, 3, 4), 2, track, how="halving", first_cut=0.6)
    assert min(share for *_, share in track.played) == 0.6
    track = Track({(name, each.name): 0.5 for name in NAMES for each in rated(1, 2, 3, 4)})
    search(NAMES, rated(1, 2, 3, 4), 2, track, how="halving", first_cut=1.0)
    assert {share for *_, share in track.played} == {1.0}


def test_the_last_cut_looks_at_two_seeds():
    """With one seed the second setting is ahead, over two it is behind."""
    settings = rated(1e-5, 3e-5, 1e-4)
    scores = {"rate 1e-05": (0.6, 0.6), "rate 3e-05": (0.65, 0.4), "rate 0.0001": (0.2, 0.9)}

    def play(candidate: Candidate, seed: int, share: float) -> DevResult:
        return DevResult(scores[candidate.setting.name][min(seed, 1)], 100, loss=1.0)

    found = search(NAMES, settings, 3, play, how="halving")
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
        beyond=recipe.beyond,
        extend=True,
    )
    assert all(rates == tried for rates in seen.values())
    assert ("The best rate lies at an end of those tried: untouched (rate 1.11e-06)" in found.edge) == warned


def test_everybody_reaches_the_end_with_its_own_best_setting():
    track = Track(true_scores())
    found = search(NAMES, SETTINGS, 3, track, how="halving")
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
    own, common = (search(names, SETTINGS, 2, tune, common=common, how=how, constant=0.2) for common in (False, True))
    chosen = {candidate.contestant: candidate.setting.name for candidate in own.finalists}
    assert (chosen["untouched"], chosen["TAPT"]) == ("rate 1", "rate 3")
    assert {candidate.setting.name for candidate in common.finalists} == {"rate 2"}


def test_every_contestant_tries_every_setting_with_the_same_seeds_and_steps():
    for how in ("grid", "halving"):
        track = Track(true_scores())
        search(NAMES, SETTINGS, 3, track, how=how)
        [(seed, share)] = {(seed, share) for *_, seed, share in track.played[:1]}
        first = {(name, setting) for name, setting, *rest in track.played if tuple(rest) == (seed, share)}
        assert first == {(name, setting.name) for name in NAMES for setting in SETTINGS}
        assert max(Counter(track.played).values()) == 1  # nothing twice


def test_one_setting_is_a_plain_race():
    track = Track(true_scores())
    found = search(NAMES, SETTINGS[:1], 2, track, how="halving")
    assert sorted(track.played) == sorted((name, "rate 1", seed, 1.0) for name in NAMES for seed in (0, 1))
    assert found.note == ""


def test_the_record_accounts_for_every_run():
    track, given_up = Track(true_scores(), noise=0.02), []
    found = search(NAMES, SETTINGS, 3, track, how="halving", give_up=given_up.append)
    assert {line.rung for line in found.record} == {0, 1, 2}
    assert {line.seeds for line in found.record if line.rung == 2} == {3}
    last = {(line.contestant, line.setting) for line in found.record if line.rung == 2 and line.kept}
    assert last == {(candidate.contestant, candidate.setting.name) for candidate in found.finalists}
    assert len(given_up) == len(set(given_up)) == len(NAMES) * len(SETTINGS) - len(found.finalists)
    assert not set(given_up) & set(found.finalists)


@pytest.mark.parametrize("how", ["grid", "halving"])
def test_an_arm_that_diverges_loses_and_the_race_goes_on(how):
    true = true_scores()
    track = Track(true)

    def wild(candidate: Candidate, seed: int, share: float) -> DevResult:
        track(candidate, seed, share)
        return (
            DIVERGED
            if candidate.setting.name == "rate 3"
            else DevResult(true[candidate.contestant, candidate.setting.name], 100)
        )

    found = search(NAMES, SETTINGS, 2, wild, how=how)
    assert {candidate.setting.name for candidate in found.finalists} == {"rate 2"}
    assert {line.why for line in found.record if line.setting == "rate 3"} == {"its training diverged"}


def test_where_the_untouched_model_diverges_throughout_the_way_out_is_told():
    with pytest.raises(ValueError, match=r"the untouched model's training diverges .* Lower search\.rates"):
        search(NAMES, SETTINGS, 2, lambda *_: DIVERGED, how="grid")
