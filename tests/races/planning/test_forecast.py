"""What jobs cost by forecast, against what they took; and the dry run."""

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import toys
from acclimate.core import settings
from acclimate.core.steps import finetuning_steps
from acclimate.core.types import Cost, Example
from acclimate.data.gather import Inputs
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job, with_needs
from acclimate.jobs.run import done
from acclimate.jobs.where import Where, working
from acclimate.races import work
from acclimate.races.contestants import Entries, enter
from acclimate.races.planning import forecast
from acclimate.races.planning.budget import parse_budget
from acclimate.races.planning.dry_run import dry_run, foreseen_jobs
from acclimate.races.planning.forecast import costs_of, round_costs
from acclimate.races.race import design, dry_run_for
from acclimate.races.recipe import RaceRecipe, SearchRecipe
from acclimate.reports.table import UNTOUCHED
from acclimate.tasks.metrics import metric_for
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.task import Kind, Task
from acclimate.training import trials
from acclimate.training.checkpoint import read_log, spent

LABELS: dict[str, tuple[str, ...]] = {"tokens": ("O", "B-soil"), "sequence": tuple(toys.TOPICS), "span": ()}


def foreseen(entries: Entries) -> dict[str, tuple[Job, Cost]]:
    """Return label -> each job of a race, and what it costs."""
    jobs = foreseen_jobs(entries, Path("no run yet"))
    return {job.label: (job, cost) for job, cost in zip(jobs, costs_of(entries, jobs), strict=True)}


def test_tokens_and_flops_are_about_what_a_race_without_a_model_counted(toy_race):
    """No vocabulary is there before its text was read: tokens are counted by characters."""
    trained = 0
    for job, cost in foreseen(enter(toy_race.recipe, toy_race.materials)).values():
        if (job.directory(toy_race.run) / "log.jsonl").exists():
            log = read_log(job.directory(toy_race.run))
            trained += 1
            for unit in ("tokens", "flops"):
                counted = sum(line[unit] for line in log)
                assert getattr(cost, unit) == pytest.approx(counted, rel=0.25), f"{job.label}, {unit}"
    assert trained == 1 + 2 + 6


def example(kind: Kind, name: str, generator: random.Random) -> Example:
    """One text in five is longer than a row."""
    text = toys.text("soil", 60 if generator.random() < 0.2 else generator.randint(8, 16), generator)
    if kind == "tokens":
        words = text.split()
        return Example(name, " ".join(words), tuple("B-soil" if len(word) > 4 else "O" for word in words))
    if kind == "span":
        answer = text.split()[0]
        return Example(name, text, (answer,), pair="what is it", spans=((0, len(answer)),))
    return Example(name, text, generator.choice([*toys.TOPICS]), pair=toys.text("heart", 9, generator))


def task_of(kind: Kind, place: Path) -> Prepared:
    def read(path: Path, split: str) -> list[Example]:
        generator = random.Random(f"{kind} {split}")
        return [example(kind, f"{split}-{number}", generator) for number in range(60)]

    return prepare(Task(kind, kind, read, LABELS[kind], metric_for(kind, ""), 32), place, place / "data")


@pytest.mark.parametrize(
    ("kind", "stated"),
    [
        ("tokens", []),
        ("sequence", []),
        ("span", []),
        ("tokens", ["finetune.preset=robust", "finetune.patience=0", "finetune.retry=false"]),
    ],
)
def test_fine_tuning_is_forecast_with_rows_of_its_kind(kind, stated, toy_race, tmp_path):
    plan = ["seeds=2", "contestants=[]"]
    plan += [f"finetune.{setting}" for setting in ("preset=papers", "looks=2", "epochs=4.0", "plan.batch=16")]
    materials = Materials(task=task_of(kind, tmp_path), model=str(toy_race.base))
    entries = enter(settings.override(RaceRecipe(), [*plan, *stated]), materials)
    tuning, cost = next(both for both in foreseen(entries).values() if both[0].work is work.FINE_TUNE)
    done(tuning, tmp_path)
    took = spent(tuning.directory(tmp_path))
    assert len(read_log(tuning.directory(tmp_path))) == finetuning_steps(
        entries.recipe.finetune, materials.task.sizes["train"]
    )
    assert cost.tokens == pytest.approx(took.tokens, rel=0.1)
    assert cost.flops == pytest.approx(took.flops, rel=0.15)
    assert cost.seconds > 0


def first_round(entries: Entries) -> list[Job]:
    """Return the jobs that come before the tests of a first round, and those that they need."""
    tunings = [entries.tuning(name, entries.recipe.settings()[0], 0) for name in entries.models]
    return with_needs([*entries.prepared(), *tunings])


def test_the_costs_of_fewer_contestants_are_those_of_a_race_of_fewer(toy_race, tmp_path):
    """Pretraining is for all, DAPT for two of them; an adaptation is counted where one that needs it is kept."""
    names = ("DAPT", "DAPT+TAPT", "random weights")
    recipe, materials = replace(toy_race.recipe, contestants=names), toys.materials_in(tmp_path, toy_race.inputs)
    entries = enter(recipe, materials)
    costs = round_costs(entries, first_round(entries), "flops")
    adapted = {}
    for name in names:
        fewer = enter(replace(recipe, contestants=(name,)), materials)
        part, alone = costs.select([UNTOUCHED, name]), round_costs(fewer, first_round(fewer), "flops")
        assert part.adapting_total == alone.adapting_total
        assert (part.tuning, part.test) == (alone.tuning, alone.test)
        adapted[name] = part.adapting_total
    assert adapted["DAPT+TAPT"] > adapted["DAPT"] > adapted["random weights"] > 0
    assert costs.adapting_total == adapted["DAPT+TAPT"]
    assert min(costs.tuning.values()) > 0
    assert costs.fixed_total == 0, "a budget of FLOPs counts training alone"
    assert round_costs(entries, first_round(entries), "seconds").fixed_total > 0


def test_one_trial_serves_all_settings_and_the_next_forecast(toy_race, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path / "cache"))
    materials = Materials(task=task_of("tokens", tmp_path), model=str(toy_race.base))
    search = SearchRecipe(rates=(1e-3, 1e-4), epochs=(1.0, 2.0), batches=(8, 16))
    entries = enter(replace(RaceRecipe(), seeds=2, contestants=(), search=search), materials)
    heard: list[str] = []
    for _ in range(2):
        jobs = foreseen_jobs(entries, tmp_path)
        costs_of(entries, jobs, watch=lambda progress: heard.append(progress.values["note"]))
    assert [note.rpartition(", ")[2] for note in heard] == ["tried", "from an earlier trial"]
    assert heard[0].partition(" ")[0] == heard[1].partition(" ")[0]
    monkeypatch.setattr(trials.ranks, "world", lambda: 2)
    monkeypatch.setattr(trials.ranks, "agree", lambda value: value)
    assert not trials.trial_record({"a": 1}, dict)[1]
    monkeypatch.setattr(trials.ranks, "world", lambda: 1)
    assert not trials.trial_record({"a": 1}, dict)[1], "a speed of two processes is none of one"
    assert trials.trial_record({"a": 1}, dict)[1]


def test_seconds_grow_with_the_load_and_flops_do_not(toy_race, monkeypatch):
    entries = enter(toy_race.recipe, toy_race.materials)
    monkeypatch.setattr(trials, "busy", lambda: 1.0)
    idle = foreseen(entries)["DAPT"][1]
    monkeypatch.setattr(trials, "busy", lambda: 4.0)
    busy = foreseen(entries)["DAPT"][1]
    assert busy.flops == idle.flops
    assert busy.seconds - forecast.JOB_SECONDS == pytest.approx(4 * (idle.seconds - forecast.JOB_SECONDS))


def test_the_plan_has_a_line_a_contestant_in_which_every_job_counts_once(toy_race, tmp_path):
    found = dry_run(design(toy_race.recipe, toys.materials_in(tmp_path, toy_race.inputs)), tmp_path)
    assert [line.label for line in found.lines] == ["untouched", "TAPT", "DAPT", "TF-IDF"]
    assert [line.fine_tunings for line in found.lines] == [2, 2, 2, 0]
    assert [line.adaptations for line in found.lines] == [1, 1, 1, 0], "all start from the model that is pretrained"
    counted = sum(line.adaptations + line.fine_tunings + line.others for line in found.lines)
    everything = with_needs(foreseen_jobs(enter(toy_race.recipe, toy_race.materials), tmp_path))
    assert (found.jobs_left, found.jobs_done, counted) == (len(everything), 0, len(everything))
    text = " ".join(found.as_text().split())
    assert text.startswith("Race on ")
    assert f"{found.jobs_left} jobs are left, 0 are done" in text
    assert not (tmp_path / "jobs").exists()
    after = dry_run(design(toy_race.recipe, toy_race.materials), toy_race.run)
    assert (after.jobs_left, after.jobs_done, after.seconds) == (0, len(everything), 0)


def test_a_dry_run_says_how_many_rounds_fit(toy_race, tmp_path):
    heard = []
    labelled, raw = toys.files_in(toy_race.inputs)
    inputs = Inputs(tmp_path / "run", task=labelled, raw=raw, watch=heard.append)
    left = dry_run_for(inputs, toy_race.recipe, budget=parse_budget("20min"))
    assert sum(each.stage == "speed of training" for each in heard) == 1
    assert "2 rounds should fit into 20min." in left.notes
    assert not (tmp_path / "run").exists(), "it keeps no decision"


def test_workers_share_what_a_dry_run_foresees(toy_race, tmp_path):
    made = design(toy_race.recipe, toys.materials_in(tmp_path, toy_race.inputs))
    with working(Where(workers=2, threads=1)):
        found = dry_run(made, tmp_path)
    assert found.seconds == sum(line.seconds for line in found.lines) / 2
    assert "on this machine as it is now by 2 workers" in " ".join(found.as_text().split())


def test_a_race_is_imported_without_the_code_of_models():
    """Importing it takes a fifth of the processor seconds of a dry run whose speeds are known."""
    program = (
        "import acclimate.races.race, sys; print({'transformers.modeling_utils', 'scipy.optimize'} & {*sys.modules})"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True).stdout == "set()\n"
    )
