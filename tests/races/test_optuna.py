"""Settings that Optuna draws, on made-up dev scores: equal chances, what is given up, and searches that are killed."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from dataclasses import replace

import pytest

import toys
from acclimate.core.files import DamagedError
from acclimate.races.contestants import enter
from acclimate.races.recipe import RaceRecipe, SearchRecipe
from acclimate.races.search import DIVERGED, EARLY, Candidate, DevResult, SearchResult, foreseen_of

optuna = pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'acclimate[optuna]'")

from acclimate.races.optuna import HALFWAY, JOURNAL, RANDOM, search_with_optuna  # noqa: E402

NAMES = ("untouched", "TAPT")
WIDE = SearchRecipe(rates=(1e-5, 3e-5, 5e-5), epochs=(2.0, 10.0, 60.0), batches=(16, 32), how="tpe", trials=12)
GRID = replace(WIDE, how="pruned-grid", trials=0)


class Killed(BaseException):
    pass


class Track:
    """Dev scores that are best at a rate of 2e-5, 20 epochs and a batch of 32; the n-th call of `run` kills."""

    def __init__(self, kill: int = -1, wild: float = math.inf) -> None:
        self.played: list[tuple[str, str, int, float]] = []
        self.recipes: list = []
        self.given_up: list[Candidate] = []
        self.kill, self.wild = kill, wild

    def __call__(self, candidate: Candidate, seed: int, share: float) -> DevResult:
        if len(self.played) == self.kill:
            raise Killed
        recipe = candidate.setting.recipe
        self.played.append((candidate.contestant, candidate.setting.name, seed, share))
        self.recipes.append(recipe)
        if recipe.plan.rate > self.wild:
            return DIVERGED
        off = (
            abs(math.log(recipe.plan.rate / 2e-5))
            + abs(math.log(recipe.epochs / 20)) / 3
            + 0.1 * (recipe.plan.batch == 16)
        )
        return DevResult(0.9 - 0.2 * off - 0.3 * (1 - share) - 0.01 * seed, round(100 * share))


def searched(stated_search: SearchRecipe, track: Track, place, names=NAMES, **more) -> SearchResult:
    recipe = RaceRecipe(seeds=2, search=stated_search)
    journal = place / JOURNAL if place else None
    return search_with_optuna(
        names, recipe, track, journal=journal, known_as=str, give_up=track.given_up.append, **more
    )


def drawn(found: SearchResult, name: str = "untouched") -> list[str]:
    return [line.setting for line in found.record if line.contestant == name and line.rung == 0]


@pytest.mark.parametrize("stated", [WIDE, GRID, replace(GRID, trials=7)], ids=["tpe", "grid", "part of the grid"])
def test_every_contestant_has_as_many_trials_all_in_the_record_and_its_best_goes_on_with_all_seeds(stated, tmp_path):
    track = Track()
    found = searched(stated, track, tmp_path)
    number = stated.trials or 18
    assert Counter(line.contestant for line in found.record if line.rung == 0) == dict.fromkeys(NAMES, number)
    # one surface for both: the same draws
    assert drawn(found) == drawn(found, "TAPT")
    for name, candidate in zip(NAMES, found.finalists, strict=True):
        finished = [line for line in found.record if (line.contestant, line.rung, line.steps) == (name, 0, 100)]
        assert candidate == Candidate(name, candidate.setting)
        assert candidate.setting.name == max(finished, key=lambda line: line.dev).setting
        assert {
            seed
            for who, setting, seed, share in track.played
            if share == 1 and (who, setting) == (name, candidate.setting.name)
        } == {0, 1}
    pruned = [line for line in found.record if "pruned" in line.why]
    assert f"{number} trials of each contestant" in found.note
    assert f"of {2 * number} in all {len(pruned)} were pruned and 0 diverged" in found.note
    assert {line.seeds for line in found.record if line.rung == 1} == {2}


def test_tpe_draws_within_the_ranges_what_the_names_say_and_comes_nearer(tmp_path):
    track = Track()
    found = searched(replace(WIDE, trials=40, pruner="none"), track, tmp_path, names=NAMES[:1])
    tried = {name: recipe for (_, name, *_), recipe in zip(track.played, track.recipes, strict=True)}
    for name, trials in tried.items():
        assert name == f"rate {trials.plan.rate:g}, epochs {trials.epochs:g}, batch {trials.plan.batch}"
        assert name == f"rate {trials.plan.rate:.3g}, epochs {int(trials.epochs)}, batch {trials.plan.batch}"
        assert 1e-5 <= trials.plan.rate <= 5e-5
        assert 2 <= trials.epochs <= 60
        assert trials.plan.batch in (16, 32)
    assert len({recipe.plan.rate for recipe in tried.values()}) > 20, "rates between those listed too"
    scores = [line.dev for line in found.record if line.rung == 0]
    assert sum(scores[-20:]) / 20 > sum(scores[:RANDOM]) / RANDOM
    assert [line.dev for line in found.record if line.kept and not line.rung] == [max(scores)]


@pytest.mark.parametrize("how", ["tpe", "pruned-grid"])
@pytest.mark.parametrize(
    ("rates", "warned"), [((1e-5, 2e-5, 4e-5), False), ((2e-5, 1e-4, 5e-4), True), ((2e-5,), False)]
)
def test_a_best_rate_at_an_end_of_those_tried_is_told(how, rates, warned, tmp_path):
    stated = SearchRecipe(rates=rates, epochs=(20.0,), batches=(16, 32), how=how, trials=24 if how == "tpe" else 0)
    found = searched(stated, Track(), tmp_path)
    said = "The best rate lies at an end of those tried: untouched (rate 2"
    assert found.edge.startswith(said) == warned == bool(found.edge)


def test_a_grid_is_each_combination_once_in_an_order_of_the_seed(tmp_path):
    grid = [setting.name for setting in RaceRecipe(search=GRID).settings()]
    orders = [drawn(searched(replace(GRID, seed=seed), Track(), tmp_path)) for seed in (0, 1)]
    assert [sorted(order) for order in orders] == [sorted(grid)] * 2
    assert orders[0] != orders[1] != grid
    assert drawn(searched(replace(GRID, trials=5), Track(), tmp_path)) == orders[0][:5]


def test_what_is_pruned_goes_no_further_and_is_given_up(tmp_path):
    for pruner, stated_search in ((pruner, replace(GRID, pruner=pruner)) for pruner in ("median", "halving", "none")):
        track = Track()
        found = searched(stated_search, track, tmp_path, names=NAMES[:1])
        shares = {name: max(share for _, who, _, share in track.played if who == name) for name in drawn(found)}
        pruned = {line.setting for line in found.record if "pruned" in line.why}
        assert pruned == {name for name, share in shares.items() if share < 1}
        assert bool(pruned) == (pruner != "none")
        assert {candidate.setting.name for candidate in track.given_up} == set(shares) - {
            found.finalists[0].setting.name
        }
        assert max(Counter(track.played).values()) <= 2  # seed 0 of the best once more, where it is read
        if pruner == "median":  # not before there is one
            assert not pruned & set(drawn(found)[:RANDOM])
        assert {share for *_, share in track.played} == ({1.0} if pruner == "none" else {EARLY, HALFWAY, 1.0})


@pytest.mark.parametrize(("stated", "pruner"), [(WIDE, "median"), (GRID, "halving")], ids=["tpe", "grid"])
def test_a_search_that_is_killed_anywhere_goes_on_with_the_same_trials(stated, pruner, tmp_path):
    stated = replace(stated, pruner=pruner, trials=8)
    whole = Track()
    expected = searched(stated, whole, tmp_path / "whole")
    trials = len(whole.played) - 2 * len(NAMES)  # then the best of both, with both seeds
    for kill in [*range(0, trials, 6), len(whole.played) - 1]:
        before, after = Track(kill=kill), Track()
        with pytest.raises(Killed):
            searched(stated, before, tmp_path / str(kill))
        assert before.played == whole.played[:kill]
        assert searched(stated, after, tmp_path / str(kill)) == expected
        ended = {call[:2] for call in before.played} - {whole.played[kill][:2] for _ in range(kill < trials)}
        # the trial that was on is asked for from its beginning, and its job goes on from where it stood
        assert [call for call in after.played if call[-1] < 1] == [
            call for call in whole.played if call[-1] < 1 and call[:2] not in ended
        ]
    searched(stated, after := Track(), tmp_path / "whole")
    assert after.played == whole.played[trials:], "all is known: what is asked for are the results of the best"


def test_a_line_that_a_kill_cut_off_costs_its_trial_alone(tmp_path):
    expected = searched(WIDE, Track(), tmp_path)
    path = tmp_path / JOURNAL
    lines = path.read_bytes().splitlines(keepends=True)
    for cut in (1, len(lines[-1]) // 2, len(lines[-1]) - 1):
        path.write_bytes(b"".join(lines[:-1]) + lines[-1][:cut])
        track = Track()
        assert searched(WIDE, track, tmp_path) == expected
        assert {name for _, name, _, share in track.played if share < 1} == {drawn(expected, "TAPT")[-1]}
        assert len(path.read_bytes().splitlines()) == len(lines)
    path.write_bytes(lines[0] + b"{\n" + b"".join(lines[1:]))
    with pytest.raises(DamagedError, match=r"optuna\.jsonl:2: not valid JSON\. Remove the file"):
        searched(WIDE, Track(), tmp_path)


def test_optuna_reads_the_journal_itself(tmp_path):
    found = searched(WIDE, Track(wild=4e-5), tmp_path)
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(tmp_path / JOURNAL)))
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for name, summary in zip(NAMES, optuna.get_all_study_summaries(storage), strict=True):
        study = optuna.load_study(study_name=summary.study_name, storage=storage)
        assert study.study_name.startswith(name)
        rows = [line for line in found.record if line.contestant == name and line.rung == 0]
        assert [trial.user_attrs["setting"] for trial in study.trials] == [line.setting for line in rows]
        assert [trial.value for trial in study.trials] == [line.dev for line in rows]
        assert [trial.state.name == "COMPLETE" for trial in study.trials] == [
            line.steps == 100 and "diverged" not in line.why for line in rows
        ]
    for line in (tmp_path / JOURNAL).read_text().splitlines():
        json.loads(line)


def test_more_trials_go_on_from_fewer_and_another_model_starts_anew(tmp_path):
    at_once = searched(WIDE, Track(), tmp_path / "once")
    fewer = searched(replace(WIDE, trials=8), Track(), tmp_path)
    track = Track()
    more = searched(WIDE, track, tmp_path)
    assert drawn(more) == drawn(at_once)
    assert drawn(fewer) == drawn(more)[:8]
    assert not {name for _, name, _, share in track.played if share < 1} & set(drawn(fewer))
    other = Track()
    search_with_optuna(
        NAMES,
        RaceRecipe(seeds=2, search=WIDE),
        other,
        journal=tmp_path / JOURNAL,
        known_as=lambda name: f"other {name}",
    )
    assert {name for _, name, *_ in other.played} == set(drawn(more))


def test_of_settings_at_the_constant_answer_the_one_with_the_least_loss_wins_also_after_a_kill(tmp_path):
    """By the score alone the first one drawn would: above a constant answer, all would have to score alike."""
    track = Track()
    loss = {}

    def tune(candidate: Candidate, seed: int, share: float) -> DevResult:
        seen = track(candidate, seed, share)
        if (seed, share) == (0, 1.0):
            loss.setdefault(candidate.contestant, {})[candidate.setting.name] = 1 - seen.dev
        return DevResult(0.3, seen.steps, loss=1 - seen.dev)

    recipe = RaceRecipe(seeds=2, search=WIDE)
    given = {"journal": tmp_path / JOURNAL, "known_as": str, "constant": 0.3, "first_cut": 0.4}
    found = search_with_optuna(NAMES, recipe, tune, **given)
    assert {share for *_, share in track.played} <= {HALFWAY, 1.0}, "none is pruned before the first cut"
    again = search_with_optuna(NAMES, recipe, tune, **given)
    for candidate in (*found.finalists, *again.finalists):
        full = loss[candidate.contestant]
        assert candidate.setting.name == min(full, key=lambda name: full[name])


@pytest.mark.parametrize("pruner", ["median", "halving"])
def test_what_is_foreseen_is_not_pruned(pruner, tmp_path):
    searched(replace(WIDE, trials=10, pruner=pruner), Track(), tmp_path)
    seen: dict[str, float] = {}

    def foreseen(candidate: Candidate, seed: int, share: float) -> DevResult:
        seen[candidate.setting.name] = share
        return DevResult(0.0, 0)

    recipe = RaceRecipe(seeds=2, search=replace(WIDE, trials=16, pruner=pruner))
    search_with_optuna(("untouched",), recipe, foreseen, journal=tmp_path / JOURNAL, known_as=str, writes=False)
    assert len(seen) >= 5
    assert {*seen.values()} == {1.0}


def test_a_setting_that_is_drawn_again_is_not_run_again(tmp_path):
    track = Track()
    stated_search = SearchRecipe(batches=(16, 32), how="tpe", trials=8, pruner="none")
    found = searched(stated_search, track, tmp_path, names=NAMES[:1])
    assert len(drawn(found)) == 8
    assert sorted(set(track.played)) == [
        ("untouched", "batch 16", 0, 1.0),
        *(("untouched", "batch 32", seed, 1.0) for seed in (0, 1)),
    ]
    assert sum("sampled before, as trial" in line.why for line in found.record) == 6
    assert sum(line.kept for line in found.record if line.rung == 0) == 1
    assert searched(stated_search, Track(), tmp_path, names=NAMES[:1]) == found


def test_a_trial_that_diverges_loses_and_teaches(tmp_path):
    track = Track(wild=2.2e-5)
    found = searched(replace(WIDE, trials=30), track, tmp_path, names=NAMES[:1])
    rows = [line for line in found.record if line.rung == 0]
    wild = [line for line in rows if line.why.endswith("its training diverged")]
    assert f"{len(wild)} diverged" in found.note
    assert all(float(line.setting.split()[1].rstrip(",")) > 2.2e-5 for line in wild)
    assert not any(line.kept for line in wild)
    early, late = (sum(line in wild for line in part) / len(part) for part in (rows[:10], rows[-10:]))
    assert late < early
    assert found.finalists[0].setting.recipe.plan.rate <= 2.2e-5


def test_where_every_trial_of_the_untouched_model_diverges_the_way_out_is_told(tmp_path):
    with pytest.raises(ValueError, match=r"none of the 12 trials of the untouched model .* Lower search\.rates"):
        searched(WIDE, Track(wild=0), tmp_path)
    assert searched(WIDE, Track(wild=0), tmp_path, names=("a model",)).finalists == ()


def test_optuna_says_nothing_on_the_screen(tmp_path, capfd):
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.INFO)
    searched(WIDE, Track(), tmp_path)
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == optuna.logging.INFO
    optuna.logging.set_verbosity(before)


@pytest.fixture(scope="module")
def materials(toy_inputs, tmp_path_factory):
    return toys.materials_in(tmp_path_factory.mktemp("drawn"), toy_inputs)


def test_a_dry_run_counts_the_trials_and_writes_nothing(materials, tmp_path):
    stated_search = SearchRecipe(rates=(1e-4, 1e-2), epochs=(1.0, 4.0), how="tpe", trials=6)
    recipe = RaceRecipe(seeds=2, search=stated_search, contestants=("TAPT",))

    def tunings(name: str) -> list[str]:
        jobs = [job.label for job, _ in foreseen_of(enter(recipe, materials), tmp_path)]
        return [label for label in jobs if label.startswith(f"fine-tune {name}")]

    assert [len(tunings(name)) for name in NAMES] == [6 + 1, 6 + 1], "one with the second seed"
    assert [*tmp_path.iterdir()] == []
    known, track = enter(recipe, materials), Track(kill=12)
    with pytest.raises(Killed):
        search_with_optuna(
            NAMES,
            recipe,
            track,
            journal=tmp_path / JOURNAL,
            known_as=lambda name: known.tuning(name, recipe.setting(), 0).name,
        )
    done = (tmp_path / JOURNAL).read_bytes()
    assert {f"fine-tune untouched, {name}, seed 0" for _, name, *_ in track.played} <= {*tunings("untouched")}
    assert len(tunings("untouched")) == 6 + 1
    assert (tmp_path / JOURNAL).read_bytes() == done


def test_without_optuna_the_way_to_get_it_is_told_before_anything_is_done(materials, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ValueError, match=r"search\.how = 'tpe' needs Optuna, .*pip install 'acclimate\[optuna\]'"):
        enter(RaceRecipe(search=WIDE), materials)
