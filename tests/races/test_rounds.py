"""A race in rounds, on the toy task: it is compared by complete rounds, and goes on where it was stopped."""

import json
import re
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toys
from acclimate.core import files, ranks
from acclimate.core.types import Progress, unwatched
from acclimate.data.gather import Inputs
from acclimate.data.materials import Materials
from acclimate.jobs.deadline import TimeUpError
from acclimate.jobs.job import DECISIONS
from acclimate.races import race, rounds, work
from acclimate.races.contestants import Entries
from acclimate.races.outcome import Outcome
from acclimate.races.planning.budget import Budget, parse_budget
from acclimate.races.planning.dry_run import dry_run
from acclimate.races.planning.lengths import CostOfJob, RoundCosts
from acclimate.races.race import run_race
from acclimate.races.report import write_race_pages
from conftest import Raced
from studies import recorded


def stopping(stage: str, error: type[BaseException]) -> Callable[[Progress], None]:
    """Return a watch that raises the error once a job with this in its label tells its progress."""

    def watch(progress: Progress) -> None:
        if stage in progress.stage and progress.unit in ("steps", "batches") and progress.total:
            raise error

    return watch


def race_in(
    run: Path,
    raced: Raced,
    *,
    watch: Callable[[Progress], None] = unwatched,
    budget: Budget | None = None,
    pages: bool = False,
    left: str = "fine-tune-*",
    **given: object,
) -> Outcome:
    """Race in the directory, and return what it recorded. The toy race has done its adaptations and fine-tunings.

    pages: True to write the pages
    left: pattern of the fine-tunings that are still to do
    """
    done = ("pretrain-", "tapt-", "dapt-", "fine-tune-")
    for job in (raced.run / "jobs").iterdir():
        if job.name.startswith(done) and not (job.match(left) or (run / "jobs" / job.name).exists()):
            shutil.copytree(job, run / "jobs" / job.name)
            shutil.copy(raced.run / "study.json", run)
    recipe = replace(raced.recipe, **given)
    run_race(recipe, raced.materials, run, command="acclimate race", budget=budget, watch=watch)
    if pages:
        write_race_pages(run)
    return recorded(run)


def test_a_race_without_a_limit_does_all_rounds(toy_race):
    outcome = recorded(toy_race.run)
    assert (outcome.rounds, outcome.first_impression) == (2, False)
    plan = [json.loads(line)["label"] for line in (toy_race.run / "plan.jsonl").read_text().splitlines()]
    first, later = (max(plan.index(f"test {name}, seed {seed}") for name in ("untouched", "DAPT")) for seed in (0, 1))
    assert first < plan.index("fine-tune untouched, seed 1") < later
    assert plan.index("fine-tune untouched, seed 0") < plan.index("TAPT")


def fail(monkeypatch: pytest.MonkeyPatch, job: str) -> None:
    """Let the fine-tunings fail whose directories have this in their names."""
    do = work.FINE_TUNE.do

    def fine_tune(*, recipe: dict[str, Any], out: Path, **others: Any) -> Any:
        if job in out.name:
            raise MemoryError("no memory")
        return do(recipe=recipe, out=out, **others)

    monkeypatch.setitem(vars(work.FINE_TUNE), "do", fine_tune)


@pytest.mark.parametrize("failed", ["", "TAPT"])
def test_of_a_first_round_that_was_stopped_those_at_its_end_are_shown(failed, toy_race, tmp_path, monkeypatch):
    """By an interruption; the time that is up stops the next test's. What failed before is not called late."""
    if failed:
        fail(monkeypatch, "fine-tune-tapt")
    watch = stopping("fine-tune DAPT", KeyboardInterrupt)
    left = "fine-tune-[dt]apt-*" if failed else "fine-tune-dapt-*"
    outcome = race_in(tmp_path / "run", toy_race, watch=watch, pages=True, left=left)
    assert outcome.rounds == 0
    assert {score.contestant for score in outcome.scores} == {"untouched", "TAPT", "TF-IDF"} - {failed}
    assert [row for _, row, _ in outcome.failed] == [failed] * bool(failed)
    assert not outcome.compared.contrasts
    text = " ".join((tmp_path / "run" / "table.txt").read_text().split())
    assert "First impression before the first round was complete. " in text
    assert "Differences may be chance" in text
    assert "The first round ended before DAPT." in text
    assert "95%" not in text.partition("Costs")[0].partition("Scores on test")[2]


def test_rounds_that_are_not_complete_are_not_compared(toy_race, tmp_path):
    watch = stopping("fine-tune TAPT, seed 1", KeyboardInterrupt)
    outcome = race_in(tmp_path / "run", toy_race, watch=watch, pages=True, left="fine-tune-*-seed-1-*")
    assert (outcome.rounds, outcome.first_impression) == (1, True)
    assert {(score.contestant, score.seed) for score in outcome.scores} == {
        (name, 0) for name in ("untouched", "TAPT", "DAPT", "TF-IDF")
    }
    assert outcome.race.stopped == "it was interrupted"
    assert "First impression after 1 round." in (tmp_path / "run" / "table.txt").read_text()
    begun = [path.name for path in (tmp_path / "run" / "jobs").glob("fine-tune-untouched-seed-1-*/result.json")]
    assert begun == ["result.json"], "it is kept for a session that goes on"


def test_where_the_untouched_model_was_not_fine_tuned_its_probe_and_the_baseline_are_scored(toy_race, tmp_path):
    outcome = race_in(tmp_path / "run", toy_race, watch=stopping("fine-tune untouched", TimeUpError))
    assert {result.row for result in outcome.results} == {"untouched, probe", "TF-IDF"}
    assert outcome.race.use == "TF-IDF"
    assert (tmp_path / "run" / "use" / "race.json").exists()


def test_where_even_the_probe_was_interrupted_the_baseline_is_the_answer(toy_race, tmp_path):
    outcome = race_in(tmp_path / "run", toy_race, watch=stopping("probe untouched", KeyboardInterrupt), pages=True)
    assert {result.row for result in outcome.results} == {"TF-IDF"}
    table = (tmp_path / "run" / "table.txt").read_text()
    assert "First impression before the first round was complete.\n  TF-IDF" in table
    assert "model" not in table.partition("Data")[0].partition("Scores on test")[2]
    assert (tmp_path / "run" / "report.html").exists()


def test_a_budget_of_flops_counts_rounds_and_a_larger_one_goes_on(toy_race, tmp_path):
    run, one_round = tmp_path / "run", tmp_path / "one round"
    shutil.copytree(toy_race.run, one_round, ignore=shutil.ignore_patterns("*seed-1*"))
    spent = {rounds: Budget(1, "flops", "").spent(place) for rounds, place in ((1, one_round), (2, toy_race.run))}
    assert spent[1] < spent[2]
    first = Budget(1.2 * spent[1], "flops", "small")
    assert race_in(run, toy_race, budget=first).rounds == 1
    lengths = files.read_record(run / DECISIONS)
    settings = {path.parent.name for path in (run / "jobs").glob("fine-tune-*/result.json")}
    again = race_in(run, toy_race, budget=first)
    assert again.rounds == 1
    assert settings == {path.parent.name for path in (run / "jobs").glob("fine-tune-*/result.json")}
    further = race_in(run, toy_race, budget=Budget(3 * spent[2], "flops", "large"))
    assert (further.rounds, further.first_impression) == (2, False)
    assert lengths.items() <= files.read_record(run / DECISIONS).items()
    assert settings < {path.parent.name for path in (run / "jobs").glob("fine-tune-*/result.json")}


def test_adapting_is_shortened_at_the_pace_of_the_untouched_models_fine_tuning(toy_race, tmp_path, monkeypatch):
    def costs(entries: Entries, *arguments: object, **options: object) -> RoundCosts:
        names = [*entries.models]
        adapting = tuple(CostOfJob(12.0, (name,)) for name in names[1:])
        return RoundCosts(adapting, (), dict.fromkeys(names, 0.1), dict.fromkeys(names, 0.0))

    monkeypatch.setattr(rounds, "round_costs", costs)
    monkeypatch.setattr(rounds._Race, "cost", lambda race, job: 3.0 if job.work.trains == "task" else 0.0)
    materials, notes = replace(toy_race.materials, model=str(toy_race.base)), []
    finetune = toy_race.recipe.finetune
    brief = replace(finetune, looks=1, plan=replace(finetune.plan, steps=8))
    recipe = replace(toy_race.recipe, seeds=1, adapt_seeds=0, finetune=brief)
    run, budget = tmp_path / "run", Budget(200.0, "seconds", "200s")
    run_race(
        recipe,
        materials,
        run,
        command="acclimate race",
        budget=budget,
        watch=lambda told: notes.append(told.values.get("note", "")),
    )
    decisions = files.read_record(run / DECISIONS)
    planned, used = (
        next(value for name, value in decisions.items() if re.fullmatch(form, name))
        for form in (r"lengths-\w+-200s", r"lengths-\w+")
    )
    assert planned["adapting"] == 1.0
    assert used["adapting"] < 1.0
    assert any(note.startswith("Adapting sees ") for note in notes)
    outcome = recorded(run)
    assert outcome.rounds == 1

    def adaptations() -> set[str]:
        return {path.name for path in (run / "jobs").iterdir() if path.name.startswith(("tapt-", "dapt-"))}

    adapted, two = adaptations(), replace(recipe, seeds=2)
    planned = dry_run(race.design(two, materials), run)
    assert any("Adapting sees " in note and "with which the race began" in note for note in planned.notes)
    run_race(two, materials, run, command="acclimate race")
    assert recorded(run).rounds == 2
    assert adaptations() == adapted, "without a budget the race keeps its lengths"
    assert dry_run(race.design(two, materials), run).jobs_left == 0


def test_a_budget_of_a_second_is_accepted_and_says_what_it_would_take(toy_race, tmp_path):
    told: list[str] = []

    def watch(progress: Progress) -> None:
        told.append(str(progress.values.get("note", "")))

    outcome = race_in(tmp_path / "run", toy_race, budget=parse_budget("1kFLOP"), watch=watch)
    assert "TF-IDF" in {result.row for result in outcome.results}
    assert any("is too small for fine-tuning" in note for note in told)
    assert not [*(tmp_path / "run" / "jobs").glob("fine-tune*")]


def test_raw_text_that_takes_too_long_to_read_is_left_out(tmp_path, monkeypatch):
    reads = race.gather

    def slow(inputs: Inputs, *values: Any, **stated: Any) -> Materials:
        if inputs.raw.texts():
            time.sleep(60)
        return reads(inputs, *values, **stated)

    monkeypatch.setattr(race, "gather", slow)
    task, raw = toys.files_in(toys.write_inputs(tmp_path))
    told: list[str] = []
    inputs = Inputs(
        tmp_path / "run",
        task=task,
        raw=raw,
        models=("embedded",),
        watch=lambda progress: told.append(progress.values.get("note", "")),
    )
    recipe = race.recipe_for("embedded")
    materials = race.materials_for(inputs, recipe, budget=parse_budget("1s"))
    assert materials.unread
    assert materials.domain is None
    [note] = [note for note in told if "raw text" in note]
    assert note in materials.notes

    named = replace(recipe, contestants=("TAPT", "DAPT", "DAPT+TAPT"))
    [search] = race.design(named, materials).searches
    assert [*search.entries.models] == ["untouched", "TAPT"]
    with pytest.raises(ValueError, match="Set a larger --budget"):
        race.design(replace(recipe, contestants=("DAPT",)), materials)


def test_a_contestant_that_fails_in_a_later_round_is_out_and_the_others_go_on(toy_race, tmp_path, monkeypatch):
    fail(monkeypatch, "tapt-seed-1")
    contestants = ("TAPT", "TF-IDF")
    outcome = race_in(tmp_path / "run", toy_race, left="fine-tune-tapt-seed-1-*", seeds=3, contestants=contestants)
    assert outcome.rounds == 3
    assert {score.contestant for score in outcome.scores} == {"untouched", "TF-IDF"}
    assert {key[1]: why for key, why in outcome.failed.items()} == {"TAPT": "fine-tune TAPT, seed 1: no memory"}


def test_where_the_untouched_model_fails_in_a_later_round_the_complete_rounds_count(toy_race, tmp_path, monkeypatch):
    fail(monkeypatch, "untouched-seed-1")
    left = "fine-tune-untouched-seed-1-*"
    outcome = race_in(tmp_path / "run", toy_race, left=left, contestants=("TAPT", "TF-IDF"))
    assert (outcome.rounds, outcome.race.stopped) == (1, "in round 2 untouched failed: no memory")


def test_several_processes_agree_before_a_job_that_the_time_is_up(toy_race, tmp_path, monkeypatch):
    [search] = race.design(toy_race.recipe, toy_race.materials).searches
    raced = rounds._Race(search.entries, tmp_path, Budget(0.0, "seconds", "0s"), unwatched)
    monkeypatch.setattr(ranks, "world", lambda: 2)
    monkeypatch.setattr(ranks, "agree", lambda value: value)
    with pytest.raises(TimeUpError), raced.until_time_up():
        pass
    monkeypatch.setattr(ranks, "agree", lambda value: False)  # what the first process says holds
    with raced.until_time_up():
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("name", ["use", "encoder", "baseline"])
def test_a_folder_that_no_race_wrote_is_not_replaced(name, toy_race, tmp_path):
    own = tmp_path / "run" / name / "mine.txt"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    with pytest.raises(ValueError, match=rf"/{name} was not written by a race, but the race would replace it\. Move"):
        run_race(toy_race.recipe, toy_race.materials, tmp_path / "run", command="acclimate race")
    assert own.read_text() == "mine"
    assert not (tmp_path / "run" / "jobs").exists()
