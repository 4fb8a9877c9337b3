"""Learning curves that follow the toy's race: what is drawn, what the page says, and that nothing is done twice."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import acclimate
import toys
from acclimate import cli
from acclimate.core import settings
from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.jobs.job import RESULT, read_plan
from acclimate.methods import probe
from acclimate.races.outcome import Outcome, path_of, read_outcome
from acclimate.races.planning.budget import parse_budget
from acclimate.races.race import design as race_design
from acclimate.races.report import RACE
from acclimate.statistics.worth import Range, Worth
from acclimate.studies import learning_curve, write_tables
from acclimate.studies.learning_curve import NAME, sentence
from acclimate.tasks.prepared import open_prepared
from acclimate.tasks.rows import EXAMPLE, WORD
from studies import result

STATED = ("learning_curve.shares=[0.1, 0.5]", "learning_curve.draws=3", "learning_curve.finetune=yes", "seeds=3")


@pytest.fixture(scope="module")
def curved(toy_race, tmp_path_factory):
    """The toy's race with a third seed, in a copy of its directory: probes, and fine-tuning with half of the rows."""
    run = shutil.copytree(toy_race.run, tmp_path_factory.mktemp("curves") / "run")
    recipe, (labelled, raw) = settings.override(toy_race.recipe, STATED), toys.files_in(toy_race.inputs)
    study = acclimate.race(
        labelled.train,
        dev=labelled.dev,
        test=labelled.test,
        max_tokens=labelled.max_tokens,
        corpus=raw.domain,
        general=raw.general,
        model="scratch",
        recipe=recipe,
        learning_curve=True,
        out=run,
    )
    materials = toys.materials_in(run, toy_race.inputs)
    return replace(toy_race, recipe=recipe, materials=materials, run=run), study.followed


def cells(run: Path) -> dict[tuple[str, str], tuple[float, ...]]:
    outcome = read_outcome(path_of(run, NAME))
    return {(each.row, each.column): tuple(score.test for score in each.scores) for each in outcome.results}


def test_each_size_has_its_draws_and_parts_of_fewer_than_ten_rows_are_left_out(curved):
    raced, _ = curved
    best = learning_curve.best_adapted(read_outcome(path_of(raced.run, RACE)), entries_of(raced))
    assert best in ("TAPT", "DAPT")
    found = cells(raced.run)
    columns = ["30 labels", "60 labels"]
    assert {key for key in found if key[0].endswith("probe")} == {
        (f"{name}, probe", column) for name in ("untouched", best) for column in columns
    }
    assert {len(scores) for scores in found.values()} == {3}
    assert len(set(found["untouched, probe", "60 labels"])) == 1, "all draws of all rows are one"
    raced_scores = read_outcome(path_of(raced.run, RACE)).cells["", best, "train"].scores
    assert found[f"{best}, fine-tuned", "60 labels"] == tuple(score.test for score in raced_scores)


def entries_of(raced):
    [search] = race_design(raced.recipe, raced.materials).searches
    return search.entries


def test_with_all_rows_it_is_the_probe_of_the_race(curved):
    raced, _ = curved
    found, probes = cells(raced.run), read_outcome(path_of(raced.run, RACE)).results
    scored = {each.row: each.scores[0].test for each in probes if (each.row, "60 labels") in found}
    assert "untouched, probe" in scored
    for row, score in scored.items():
        assert found[row, "60 labels"][0] == pytest.approx(score)


def test_parts_are_rows_of_train_and_dev_and_test_are_those_of_the_race(curved):
    raced, _ = curved
    train = {example.id for example in raced.materials.task.examples("train")}
    for seed in range(2):
        part = open_prepared(raced.run / f"data-30-seed-{seed}")
        ids = {example.id for example in part.examples("train")}
        assert len(ids) == part.sizes["train"] == 30
        assert ids < train
        for name in ("about", "dev", "test", "sealed"):
            assert part.hashes[name] == raced.materials.task.hashes[name]


def test_the_page_says_what_adapting_is_worth_and_shows_the_curves(curved):
    raced, text = curved
    page = (raced.run / f"{NAME}.html").read_text()
    said = " ".join(text.split())
    assert "Worth in labels" in said
    assert "Worth in labels" in page
    for shown in (said, page):
        assert "cannot be measured by fine-tuning: from 30 to 60" in shown or "labels fine-tuning of" in shown
    assert "Test score against labels, probe" in page
    assert "from 30 to 60 labels" in said or "same as" in said
    worth, cells = ((raced.run / name).read_text().splitlines() for name in (f"{NAME}.worth.csv", f"{NAME}.csv"))
    assert len(worth) == 3
    assert len(cells) == 9
    again = write_tables(read_outcome(path_of(raced.run, NAME)), raced.run)
    assert text.startswith(again)


def test_the_page_of_the_race_has_them_too_when_it_is_written_again(curved):
    raced, _ = curved
    page = raced.run / "report.html"
    before = page.read_text()
    page.unlink()
    write_tables(read_outcome(path_of(raced.run, RACE)), raced.run)
    assert page.read_text() == before
    assert "Test score against labels, probe" in before
    assert "Test score against labels, fine-tuned" in before


def test_the_command_does_nothing_again_and_its_dry_run_says_so(curved):
    raced, text = curved
    asked = toys.race_command(raced.inputs, raced.run, "--learning-curve", *STATED)
    said = CliRunner().invoke(cli.app, [*asked, "--dry-run"])
    assert "0 jobs are left" in " ".join(said.output.split()), said.output
    assert "30 labels" in said.output
    before = {path: path.stat().st_mtime_ns for path in raced.run.glob(f"jobs/*/{RESULT}")}
    said = CliRunner().invoke(cli.app, asked)
    assert said.exit_code == 0, said.output
    assert said.output.rstrip().endswith(text)
    assert {path: path.stat().st_mtime_ns for path in raced.run.glob(f"jobs/*/{RESULT}")} == before
    assert len(read_plan(raced.run)) == len(before), "the plan has the jobs of the race and rows of what follows it"


def test_where_nothing_was_fine_tuned_the_best_probe_on_dev_counts(curved):
    raced, _ = curved
    outcome = read_outcome(path_of(raced.run, RACE))
    probes = [each for each in outcome.results if each.probe]
    best = learning_curve.best_adapted(replace(outcome, results=tuple(probes)), entries_of(raced))
    assert best == max(
        (each for each in probes if each.row.startswith(("TAPT", "DAPT"))), key=lambda each: each.scores[0].dev
    ).row.removesuffix(", probe")
    assert learning_curve.best_adapted(replace(outcome, results=()), entries_of(raced)) == ""


def test_a_part_of_the_budget_that_is_left_decides_whether_models_are_fine_tuned(curved):
    raced, _ = curved
    recipe = settings.override(raced.recipe, ["learning_curve.finetune=budget"])
    race, outcome = race_design(recipe, raced.materials), read_outcome(path_of(raced.run, RACE))
    tunes = [
        learning_curve._tunes(race, outcome, raced.run, limit)
        for limit in (None, parse_budget("9h"), parse_budget("2s"))
    ]
    assert tunes == [False, True, False]
    for asked in ("budget", "yes"):  # with two seeds nothing could be told
        few = settings.override(recipe, ["seeds=2", f"learning_curve.finetune={asked}"])
        race = race_design(few, raced.materials)
        assert not learning_curve._tunes(race, outcome, raced.run, parse_budget("9h"))


def test_races_that_no_curve_can_follow_are_refused_before_they_begin(toy_race):
    def refuse(*stated, match, **changes):
        with pytest.raises(ValueError, match=match):
            learning_curve.check(settings.override(toy_race.recipe, stated), replace(toy_race.materials, **changes))

    learning_curve.check(toy_race.recipe, toy_race.materials)
    refuse('contestants=["TF-IDF"]', match="no contestant is adapted")
    refuse("learning_curve.shares=[0.1]", match="too few for learning curves")
    refuse(*STATED, "seeds=2", match=r"with seeds = 2: fewer than 3 .* Set seeds=3, or learning_curve\.finetune=no")
    with pytest.raises(ValueError, match="--probe-only fine-tunes nothing"):
        learning_curve.check(settings.override(toy_race.recipe, STATED), toy_race.materials, probe_only=True)
    task = replace(toy_race.materials.task, kind="span")
    refuse('contestants=["TAPT"]', match="has no probe", task=task)


def test_states_of_words_know_their_examples():
    """Two rows: the first of example 0, the second of example 3; words begin where WORD has a number."""
    words = np.array([NOT_PREDICTED, 0, NOT_PREDICTED, 1, NOT_PREDICTED, 0, 1, NOT_PREDICTED])
    rows = Batch(np.zeros(8, np.int64), np.array([0, 4, 8]), {WORD: words}, {EXAMPLE: np.array([0, 3])})
    assert probe.examples_of_states(rows).tolist() == [0, 0, 3, 3]


def worth(gain: float, low: float, high: float) -> Worth:
    rise = Range(0.02, -0.01, 0.05)
    return Worth((44, 88, 176, 352), Range(gain, low, high), (rise, rise))


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        ((1.0, 0.5, 1.5), "With 180 [120, 250] labels TAPT's probe .* untouched model's .* with 352: adapting saves"),
        ((-1.0, -3.0, -0.5), "With 180 [44 or fewer, 250] labels the untouched .* as TAPT's probe .*: adapting costs"),
        ((0.2, -0.5, 1.0), "With 310 [180, more than 352] labels TAPT's .*that adapting .* is not established"),
        ((3.0, 1.0, 3.0), "With 44 or fewer [44 or fewer, 180] labels TAPT's probe .*: adapting saves labels"),
        ((0.2, -3.0, 3.0), "cannot be measured by probes: from 44 to 352 labels .*gains +2.0 [-1.0, +5.0] points"),
    ],
)
def test_the_sentence(gain, said):
    told = sentence(worth(*gain), "TAPT", "probe", one_adaptation=False)
    assert re.search(".*".join(map(re.escape, said.split(".*"))), told), told


def test_the_sentence_says_that_it_rests_on_one_adaptation():
    said = sentence(worth(1.0, 0.5, 1.5), "TAPT", "fine-tuned", one_adaptation=True)
    assert said.startswith("With 180 [120, 250] labels fine-tuning of TAPT scores as fine-tuning of the untouched")
    assert "adapting saves labels; it depends on one adaptation" in said


def test_a_model_that_reaches_the_other_one_with_half_of_the_labels_is_worth_twice_as_many():
    """The adapted model's score with n labels is the untouched model's with 2 n: the same predictions."""
    results = []
    for row, levels in (("untouched, fine-tuned", (0.6, 0.9, 1.2, 1.5)), ("TAPT, fine-tuned", (0.9, 1.2, 1.5, 1.8))):
        for size, level in zip((50, 100, 200, 400), levels, strict=True):
            made = result("any", level, "any")
            scores = tuple(replace(score, contestant=row) for score in made.scores)
            task = replace(made.task, sizes={"train": size})
            results.append(replace(made, row=row, column=f"{size} labels", task=task, scores=scores))
    outcome = Outcome(NAME, "", "", tuple(results))
    [(key, found)] = learning_curve.worths(outcome).items()
    assert key == ("TAPT", "fine-tuned")
    assert found.labels.value == pytest.approx(200)
    assert found.established
