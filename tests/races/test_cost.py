"""The estimate of a race before it starts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import toys
from acclimate.data.sources import Inputs
from acclimate.jobs.workers import Where, working
from acclimate.methods.finetune import FinetuneRecipe
from acclimate.races import dry_run as dry_runs
from acclimate.races.budget import Budget, parse_budget
from acclimate.races.contestants import enter, rows_of
from acclimate.races.cost import SpeedTest, Stage, costs_of, estimate, notes_on
from acclimate.races.dry_run import dry_run
from acclimate.races.estimates import LAST_GAINS, shares_run
from acclimate.races.fit import CostOfJob, Costs, _cut
from acclimate.races.race import design, dry_run_for
from acclimate.races.recipe import SearchRecipe
from acclimate.races.search import foreseen_of, left
from acclimate.reports.table import UNTOUCHED
from acclimate.training import trials
from acclimate.training.checkpoint import read_log
from acclimate.training.plan import Plan


@pytest.fixture(scope="module")
def before(toy_race, tmp_path_factory):
    """The estimate, in a separate directory where nothing is done, with the materials."""
    run = tmp_path_factory.mktemp("estimate")
    materials = toys.materials_in(run, toy_race.inputs)
    found = estimate(toy_race.recipe, materials, run)
    return found, run


def test_it_lists_exactly_what_is_missing(before, toy_race):
    found, run = before
    jobs = foreseen_of(enter(toy_race.recipe, toy_race.materials))
    assert {stage.label for stage in found.stages} == {job.label for job, _ in jobs}
    assert len(found.stages) == len(jobs)
    assert not (run / "jobs").exists()


def test_what_a_contestant_needs_is_a_job_too(toy_race, tmp_path):
    """TLM's documents are retrieved first."""
    recipe = replace(toy_race.recipe, contestants=("TLM",))
    found = estimate(recipe, toys.materials_in(tmp_path, toy_race.inputs), tmp_path)
    assert {"retrieve", "TLM"} < {stage.label for stage in found.stages}


def test_what_is_done_costs_nothing_more(toy_race):
    assert estimate(toy_race.recipe, toy_race.materials, toy_race.run).stages == ()
    everything = {job.name for job, _ in foreseen_of(enter(toy_race.recipe, toy_race.materials))}
    found = dry_run(design(toy_race.recipe, toy_race.materials), toy_race.run)
    assert (found.left, found.done, found.seconds) == (0, len(everything), 0)


def test_some_jobs_are_left_where_a_setting_changed(toy_race, monkeypatch):
    monkeypatch.setenv("ACCLIMATE_DEVICE", "cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # a GPU that is not taken has no say on the memory
    recipe = replace(toy_race.recipe, tapt=replace(toy_race.recipe.tapt, masking=0.2))
    waiting = left(recipe, toy_race.materials, toy_race.run)
    found = estimate(recipe, toy_race.materials, toy_race.run)
    assert [stage.label for stage in found.stages] == [job.label for job, _ in waiting]
    assert found.memory > 0


def test_tokens_and_flops_are_within_15_percent_of_what_the_race_counted(before, toy_race):
    stages = {stage.label: stage for stage in before[0].stages}
    trained = [
        job
        for job, _ in foreseen_of(enter(toy_race.recipe, toy_race.materials))
        if (job.directory(toy_race.run) / "log.jsonl").exists()
    ]
    assert len(trained) == 1 + 2 + 6
    for job in trained:
        log = read_log(job.directory(toy_race.run))
        for unit in ("tokens", "flops"):
            counted = sum(line[unit] for line in log)
            assert getattr(stages[job.label], unit) == pytest.approx(counted, rel=0.15), f"{job.label}, {unit}"


def test_the_plan_has_a_line_a_contestant_in_which_every_job_counts_once(before, toy_race):
    estimated, run = before
    found = dry_run(design(toy_race.recipe, toys.materials_in(run, toy_race.inputs)), run)
    assert [line.label for line in found.lines] == ["untouched", "TAPT", "DAPT", "TF-IDF", "probes"]
    assert [line.tunings for line in found.lines] == [2, 2, 2, 0, 0]
    assert (found.left, found.done) == (len(estimated.stages), 0)
    for unit in ("tokens", "flops"):
        counted = sum(getattr(stage, unit) for stage in estimated.stages)
        assert sum(getattr(line, unit) for line in found.lines) == pytest.approx(counted), unit
    lines = {line.label: line for line in found.lines}
    assert lines["untouched"].tokens > lines["TAPT"].tokens, "the model that all share is pretrained for the first"
    assert min(found.disk, found.memory) > 0
    text = found.as_text()
    assert text.startswith("Race on ")
    assert ": still to do" in text
    assert f"{found.left} jobs are left, 0 are done" in " ".join(text.split())


def test_the_costs_of_fewer_contestants_are_those_of_a_race_of_fewer(toy_race, tmp_path):
    """Pretraining is for all, DAPT for two of them; an adaptation is counted where one that needs it is kept."""
    names = ("DAPT", "DAPT+TAPT", "random weights")
    recipe, materials = replace(toy_race.recipe, contestants=names), toys.materials_in(tmp_path, toy_race.inputs)
    costs = costs_of("flops")(recipe, materials, tmp_path)
    adapted = {}
    for kept in (("DAPT",), ("DAPT+TAPT",), ("random weights",)):
        part, fewer = (
            costs.part([UNTOUCHED, *kept]),
            costs_of("flops")(replace(recipe, contestants=kept), materials, tmp_path),
        )
        assert part.before() == fewer.before()
        assert (part.tuning, part.test) == (fewer.tuning, fewer.test)
        adapted[kept[0]] = part.before()[0]
    assert adapted["DAPT+TAPT"] > adapted["DAPT"] > adapted["random weights"] > 0
    assert costs.before()[0] == adapted["DAPT+TAPT"]
    assert min(costs.tuning.values()) > 0


@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
def test_what_is_planned_for_shortened_adapting_is_what_the_cut_recipe_is_forecast_to_take(
    toy_race, tmp_path, monkeypatch, share
):
    """An update is as dear as 2,000 tokens, so that smaller batches are dear; TAPTER's looks do not get fewer."""
    speeds = {"training": vars(trials.Speed(1e-3, 1e6, 2.0)), "whole": 1.2, "shares_lines": True}
    monkeypatch.setattr(SpeedTest, "_speed", lambda *given: speeds)
    monkeypatch.setattr(trials, "busy_of_late", lambda: 1.5)
    monkeypatch.setattr(SpeedTest, "tokens", lambda *given, **others: 1e7)  # of a look
    names = ("TAPT", "TAPTER", "DAPT", "DGA")
    recipe = replace(toy_race.recipe, contestants=names)
    plan = replace(recipe.dapt.plan, steps=500, batch=64)
    groups = {name: replace(getattr(recipe, name), plan=plan) for name in ("tapter", "dapt", "dga")}
    recipe = replace(recipe, tapt=replace(recipe.tapt, plan=Plan(batch=64), epochs=100), **groups)
    materials = toys.materials_in(tmp_path, toy_race.inputs)
    costs = costs_of("seconds")(recipe, materials, tmp_path)
    rows = rows_of(recipe, materials, costs.rows)
    assert rows["dapt"] >= len(materials.domain)
    cut = _cut(recipe, share, 1, 2, rows)
    again = costs_of("seconds")(cut, materials, tmp_path)
    for planned, forecast in zip(costs.adapting, again.adapting, strict=True):
        assert planned.shortened(share) == pytest.approx(forecast.amount, rel=0.02), planned.contestants
        assert planned.shortened(share) > 1.2 * share * planned.amount or share == 0.5, "updates do not count"
    apart, apart_again = (sum(job.amount for job in each.fixed) for each in (costs, again))
    assert apart == pytest.approx(apart_again, rel=0.05)


def test_a_dry_run_keeps_no_decision_of_a_budget_and_reads_those_that_the_race_made(toy_race, tmp_path):
    recipe = replace(toy_race.recipe, search=SearchRecipe(rates=(1e-3, 3e-3)))
    names = enter(recipe, toy_race.materials).models
    costs = Costs((CostOfJob(1.0),), (), dict.fromkeys(names, 1.0), dict.fromkeys(names, 0.0))
    asked = []

    def estimator(*given):
        asked.append(given)
        return costs

    made = design(recipe, toy_race.materials, budget=parse_budget("1h"), estimator=estimator)
    found = dry_run(made, tmp_path)
    assert "The race had a budget of 1h." in found.notes
    assert not [*tmp_path.iterdir()]
    [search] = made.searches
    assert search.allowed is not None
    search.allowed(search.entries, tmp_path, True)
    dry_run(made, tmp_path)
    assert len(asked) == 2, "the third time it stands in the directory"


def test_a_model_of_the_hub_is_estimated_as_one_in_a_directory(toy_race, tmp_path, monkeypatch):
    """A hub id is no path: the model lies in the hub's cache."""
    from huggingface_hub import constants

    [base] = (toy_race.run / "jobs").glob("pretrain-*")
    place = tmp_path / "models--somebody--small"
    shutil.copytree(base / "checkpoint", place / "snapshots" / "0123")
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0123")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(tmp_path))
    for model in (str(base / "checkpoint"), "somebody/small"):
        materials = replace(toy_race.materials, general=None, model=model)
        found = estimate(toy_race.recipe, materials, Path(tmp_path / "run"))
        assert "pretrain" not in {stage.label for stage in found.stages}


def test_it_is_said_what_gradient_caching_costs():
    plain, cached = Stage("TAPT", "adapting", 1, 1, 10.0), Stage("DGA", "adapting", 1, 1, 40.0, dearer=0.25)
    assert notes_on([plain]) == []
    [told] = notes_on([plain, cached])
    assert told.startswith("DGA: all rows of a batch are compared")
    assert "a step costs 25% more" in told


def test_it_is_said_where_looks_at_dev_take_most_of_the_time():
    learns, looks = Stage("a", "tuning", 1, 1, 10.0, reading=2.0), Stage("b", "tuning", 1, 1, 30.0, reading=28.0)
    assert notes_on([learns]) == []
    [told] = notes_on([learns, looks])
    assert told.startswith("75% of the time goes into looks at dev and the test, more than into training")
    assert "(finetune.looks and tapter.looks)" in told


def test_a_dry_run_counts_that_fine_tunings_stop_early_and_says_which_rates_it_does_not(toy_race, tmp_path):
    searching = SearchRecipe(rates=(1e-3, 3e-3), extend=True)
    recipe = replace(toy_race.recipe, contestants=(), search=searching, finetune=FinetuneRecipe())
    found = dry_run(design(recipe, toy_race.materials), tmp_path)
    assert any("counted with 62% of their steps, as measured" in note for note in found.notes)
    assert any("beyond those listed, which dev may ask for, is not counted" in note for note in found.notes)
    assert found.least < found.seconds < found.most
    assert found.uncertain > 0.3 * found.seconds
    full = dry_run(design(replace(recipe, finetune=FinetuneRecipe(patience=0)), toy_race.materials), tmp_path)
    assert not any("patience" in note for note in full.notes)
    assert full.least == full.most == pytest.approx(full.seconds)
    [line], [line_in_full] = found.lines[:1], full.lines[:1]
    assert line.tokens < 0.75 * line_in_full.tokens


def test_a_dry_run_says_where_the_budget_may_be_missed_and_tells_each_speed_once(toy_race, tmp_path):
    heard = []
    labelled, raw = toys.files_in(toy_race.inputs)
    inputs = Inputs(tmp_path / "run", task=labelled, raw=raw, watch=heard.append)
    left = dry_run_for(inputs, toy_race.recipe, budget="20min")
    speeds = [(each.stage, each.values["note"]) for each in heard if each.stage.startswith("speed of")]
    assert len({(stage, note.rpartition(", ")[0]) for stage, note in speeds}) == len(speeds) > 0
    assert not any("may take longer" in note for note in left.notes)
    short = Budget(left.seconds / 2, "seconds", "1min")
    assert "when it is idle" not in replace(left, busy=1.0).in_short
    assert "(when it is idle: " in replace(left, busy=4.0).in_short
    [said, *_] = replace(left, busy=4.0).held_to(short, tmp_path / "run").notes
    assert said.startswith("The race may take longer than its budget of 1min: it takes about ")
    assert said.endswith("and would keep to the budget when it is idle.")


def test_a_fine_tuning_stops_after_its_last_gain_and_its_patience():
    assert shares_run(0, 20) == (1.0, 1.0, 1.0)
    least, usual, most = shares_run(6, 20)
    assert (least, usual, most) == (0.35, pytest.approx(0.3 + sum(LAST_GAINS) / len(LAST_GAINS)), 1.0)
    assert shares_run(6, 8)[1] > 0.95, "with 8 looks, six of them without a gain are nearly all"
    assert shares_run(6, 20, 0.25) == (0.25, 0.25, 0.25), "cut off before it may stop"


def test_a_race_is_imported_without_the_code_of_models():
    """Importing it takes a fifth of the processor seconds of a dry run whose speeds are known."""
    program = (
        "import acclimate.races.race, sys; print({'transformers.modeling_utils', 'scipy.optimize'} & {*sys.modules})"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True).stdout == "set()\n"
    )


def test_a_race_says_how_long_it_takes_where_that_may_be_long(toy_race, tmp_path, monkeypatch):
    made = design(toy_race.recipe, toy_race.materials)
    assert dry_runs.how_long(made, tmp_path) == "", "a toy"
    monkeypatch.setattr(dry_runs, "MANY_ROWS", 1)
    monkeypatch.setattr(dry_runs, "LONG", 0.0)
    said = dry_runs.how_long(made, tmp_path)
    assert said.startswith("about ")
    assert "race --budget 20min would cut it" in said
    assert dry_runs.how_long(made, toy_race.run) == "", "all of it is done"

    probed = dry_runs.how_long(design(toy_race.recipe, toy_race.materials, probe_only=True), tmp_path)
    assert probed.endswith(
        '; adapting takes most of it: with contestants=["TF-IDF"] only the untouched model is probed'
    )

    in_folds = replace(made, race=replace(made.race, folds=2))
    assert "--budget" not in dry_runs.how_long(in_folds, tmp_path), "which goes without folds"

    def fails(*_, **__):
        raise RuntimeError("this method cannot be tried")

    monkeypatch.setattr(dry_runs, "estimate_of_jobs", fails)
    assert dry_runs.how_long(made, tmp_path).endswith("failed: this method cannot be tried"), "and the race goes on"


def test_workers_share_what_a_dry_run_foresees_but_a_job_waits_for_those_that_it_needs(before, toy_race):
    _, run = before
    made = design(toy_race.recipe, toys.materials_in(run, toy_race.inputs))
    alone = dry_run(made, run)
    with working(Where(workers=2, threads=1)):
        by_two = dry_run(made, run)
    with working(Where(workers=500, threads=1)):
        by_many = dry_run(made, run)
    work = [sum(line.seconds for line in found.lines) for found in (alone, by_two, by_many)]
    assert alone.seconds == work[0]
    assert by_two.seconds == max(work[1] / 2, by_two.longest)
    assert work[2] / 500 < by_many.seconds == by_many.longest < work[2]
    assert "on this machine by 2 workers, give or take" in " ".join(by_two.as_text().split())
    assert by_two.memory == pytest.approx(2 * alone.memory, rel=0.2)


def test_a_plan_and_its_dry_run_count_with_one_load(monkeypatch):
    loads, now = iter([2.0, 3.0]), [100.0]
    monkeypatch.setattr(trials, "busy", lambda: next(loads))
    monkeypatch.setattr(trials, "_last_busy", [])
    monkeypatch.setattr(trials.time, "monotonic", lambda: now[0])
    assert [trials.busy_of_late(), trials.busy_of_late()] == [2.0, 2.0]
    now[0] += trials.OF_LATE + 1
    assert trials.busy_of_late() == 3.0


def test_a_speed_from_a_busy_machine_is_tried_again_when_it_is_less_busy(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    loads = iter([3.0, 2.8, 1.1])
    monkeypatch.setattr(trials, "busy", lambda: next(loads))
    speeds = iter([9.0, 5.0])

    def tried() -> tuple[float, bool]:
        found, kept = trials.kept({"kind": "made up"}, lambda: {"seconds": next(speeds)})
        return found["seconds"], kept

    assert [tried() for _ in range(4)] == [(9.0, False), (9.0, True), (5.0, False), (5.0, True)]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # processor time: the load does not matter
    speeds = iter([7.0])
    assert [tried() for _ in range(2)] == [(7.0, False), (7.0, True)]
