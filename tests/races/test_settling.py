"""A race that continues until its answer is settled: what ends it, what is refused, and how it is resumed."""

import shutil
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from acclimate.core.types import unwatched
from acclimate.jobs.job import DECISIONS
from acclimate.races import settling
from acclimate.races.contestants import enter
from acclimate.races.outcome import write_outcome
from acclimate.races.race import run_race
from acclimate.races.recipe import RaceRecipe
from acclimate.races.report import write_race_pages
from acclimate.races.rounds import _Race, only, race_in_rounds, race_key
from acclimate.races.search import FineTuned
from acclimate.races.settling import (
    NOTHING,
    SETTLED,
    TEST_ROWS,
    Evaluation,
    check_same,
    check_settling,
    evaluation_of,
    evaluations_in,
)
from acclimate.statistics.answer import answer_of
from acclimate.statistics.sequential import evaluation_level
from acclimate.tasks.prepared import Prepared
from made_up_races import resampled


def test_a_race_ends_once_it_is_settled_and_a_resumed_one_keeps_its_evaluations(toy_race, tmp_path, monkeypatch):
    """No gain of 45 points is possible, which three rounds show. The rounds are then resumed with other evaluations."""
    monkeypatch.setattr(settling, "FEWEST_ROWS", 30)
    run = tmp_path / "run"
    for job in (toy_race.run / "jobs").iterdir():
        if job.name.startswith(("pretrain-", "tapt-", "fine-tune-untouched-", "fine-tune-tapt-")):
            shutil.copytree(job, run / "jobs" / job.name)
            shutil.copy(toy_race.run / "study.json", run)
    recipe = replace(toy_race.recipe, contestants=("TAPT",), seeds=5, until="settled", margin=45.0)
    outcome = run_race(recipe, toy_race.materials, run, command="acclimate race")
    assert outcome.rounds == 3
    assert outcome.answer.kind == "no gain that matters"
    assert outcome.answer.gains[0].single_level == pytest.approx(evaluation_level(3))
    [evaluation] = evaluations_in(run)
    kind, race = outcome.answer.kind, race_key(enter(recipe, toy_race.materials))
    assert evaluation == {"margin": 45.0, "level": evaluation_level(3), "kind": kind, "end": SETTLED, "race": race}
    said = str(write_race_pages(run).answer)
    assert "The race ended after 1 evaluation on test, since its answer is settled." in said
    for other, message in (
        (replace(recipe, margin=1.0), r"evaluated with margin = 45, so it cannot continue with margin = 1\. "),
        (replace(recipe, until="rounds"), r".*Add --until settled, or choose another"),
        (replace(recipe, finetune=replace(recipe.finetune, looks=2)), r"other settings, files.* choose another --out"),
    ):
        with pytest.raises(ValueError, match=message):
            run_race(other, toy_race.materials, run, command="acclimate race")

    (run / DECISIONS).unlink()
    evaluated: list[int] = []

    def evaluate(tuned: FineTuned) -> Evaluation:
        assert tuned.rounds is not None
        evaluated.append(tuned.rounds)
        if evaluated == [3, 4]:
            raise SystemExit  # as if it were killed
        return Evaluation(1.0, evaluation_level(tuned.rounds), "not settled", TEST_ROWS if tuned.rounds == 4 else "")

    entries = enter(recipe, toy_race.materials)
    with pytest.raises(SystemExit):
        race_in_rounds(entries, run, budget=None, evaluate=evaluate)
    tuned = race_in_rounds(entries, run, budget=None, evaluate=evaluate)
    assert evaluated == [3, 4, 4], "that of round 3 was recorded"
    assert (tuned.rounds, tuned.search.stopped) == (4, TEST_ROWS)
    alone = only(entries, ["untouched"])
    assert _Race(alone, run, None, unwatched, evaluate, race_key(entries), complete=4).ends()
    assert evaluated == [3, 4, 4], "a contestant that fails in one session gives the race no second evaluation"


def test_a_race_that_was_evaluated_at_its_end_does_not_go_on_until_it_is_settled(report, tmp_path):
    write_outcome(report.outcome, tmp_path)
    with pytest.raises(ValueError, match=r"evaluated without --until settled.* choose another --out"):
        check_same(RaceRecipe(until="settled"), tmp_path, "")


@pytest.mark.parametrize(
    ("gain", "spread", "rows", "end"),
    [(0.2, 0.005, 300, SETTLED), (-0.2, 0.005, 300, SETTLED), (0.02, 0.0, 60, TEST_ROWS), (0.05, 0.05, 3_000, "")],
)
def test_an_evaluation_ends_a_race_if_it_is_settled_or_only_test_rows_can_settle_it(gain, spread, rows, end):
    sides = [resampled(name, gain=gain * (name == "A"), spread=spread, rows=rows, seeds=4) for name in ("A", "0")]
    answer = answer_of(sides[:1], sides[1], level=evaluation_level(4))
    assert evaluation_of(answer, rounds=4, margin=1.0).end == end
    assert evaluation_of(None, rounds=4, margin=1.0).end == NOTHING


@pytest.mark.parametrize(
    ("about", "message"),
    [({"rivals": 0}, "can be settled"), ({"rows": 20}, "20 test rows can settle only differences of about 20 points")],
)
def test_what_cannot_be_settled_is_refused(about, message):
    task = cast(Prepared, SimpleNamespace(sizes={"test": about.get("rows", 50)}))
    with pytest.raises(ValueError, match=message):
        check_settling(task, rivals=about.get("rivals", 1))
    with pytest.raises(ValueError, match="seeds = 2: the first evaluation is after 3 rounds"):
        RaceRecipe(until="settled", seeds=2)
    check_settling(cast(Prepared, SimpleNamespace(sizes={"test": 50})), rivals=1)
