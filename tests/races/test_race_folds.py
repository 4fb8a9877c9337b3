"""A race by cross-validation: `folds` of the recipe, `--folds` on the command line."""

import csv
import json
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import acclimate
import toys
from acclimate.core import files, settings
from acclimate.core.types import SPLITS
from acclimate.data.gather import Inputs, Raw
from acclimate.jobs.job import DIRECTORY, RESULT, read_result
from acclimate.methods import finetune
from acclimate.methods.baselines import read_baseline
from acclimate.races import contestants, pooling, race
from acclimate.races.compare import MAIN
from acclimate.races.design import Cell, Search
from acclimate.races.outcome import Outcome, probe_row
from acclimate.races.recipe import RaceRecipe
from acclimate.races.report import RaceReport
from acclimate.races.verdict import warnings
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.shipping.ship import ship
from acclimate.statistics.folds import components_of_rows, row_interval
from acclimate.statistics.variance import p_value, resample
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.prepared import open_prepared
from acclimate.text.corpus import Corpus
from acclimate.training.gradients import NotFiniteError

ROWS, FOLDS, REPEATS = 48, 2, 2
F1 = METRICS["macro_f1"]
RECIPE = settings.override(
    RaceRecipe(),
    [
        *(*toys.SETTINGS, f"folds={FOLDS}", f"seeds={REPEATS}", 'contestants=["TAPT", "TF-IDF"]'),
        *("tapt.plan.steps=3", "finetune.plan.steps=8", "finetune.looks=1"),
    ],
)


@dataclass(frozen=True)
class Folded:
    """A race that was killed once. before: name of a job that was done by then -> when its result was written"""

    given: dict[str, Any]
    report: RaceReport
    before: dict[str, int]

    @property
    def out(self) -> Path:
        return self.given["out"]

    @property
    def outcome(self) -> Outcome:
        return self.report.outcome


def cell_of(name: str, searches: Sequence[Search]) -> Cell:
    """The cell of a contestant that is fine-tuned on each fold."""
    parts = []
    for each in searches:
        entries = each.entries
        job = contestants.tested(entries.tuning(name, entries.recipe.setting(), 0), entries.materials.task)
        parts.append(Cell(name, each.column, {entries.seeds[0]: job}, {}, entries.materials))
    return replace(parts[0], jobs_by_seed={}, folds=tuple(parts))


def results(out: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in (out / DIRECTORY).glob(f"*/{RESULT}")}


@pytest.fixture(scope="module")
def folded(toy_race, tmp_path_factory) -> Iterator[Folded]:
    """A race of 48 rows that was killed in its third fold, and went on."""
    place, generator = tmp_path_factory.mktemp("folds"), random.Random(7)
    rows = [{"text": toys.text(topic, 14, generator), "label": topic} for topic in [*toys.TOPICS] * (ROWS // 3)]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = {"model": str(toy_race.base), "max_tokens": 32, "recipe": RECIPE, "out": place / "run"}

    def killed(progress):
        if progress.stage.startswith("repeat 2, fold 1"):
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finetune, "nothing_learnt", lambda *looks, **measures: "")  # which little does in so few steps
        with pytest.raises(KeyboardInterrupt):
            toys.raced(place / "rows.jsonl", **given, watch=killed)
        before = results(given["out"])
        yield Folded({"task": place / "rows.jsonl", **given}, toys.raced(place / "rows.jsonl", **given), before)


def test_after_a_kill_between_folds_no_job_is_done_again(folded):
    assert len(folded.before) > 10
    after = results(folded.out)
    assert {name: after[name] for name in folded.before} == folded.before
    toys.raced(**folded.given)
    assert results(folded.out) == after


def test_a_score_is_the_metric_of_the_predictions_of_all_folds_together(folded):
    cell = folded.outcome.cells["", "untouched", "rows"]
    predicted: dict[tuple[int, str], str] = {}
    for name in cell.jobs:
        place = folded.out / DIRECTORY / name
        result, job = read_result(place), files.read_json(place / "job.json")
        tuned = files.read_json(folded.out / DIRECTORY / job["needs"]["tuned"] / "job.json")
        seed = tuned["settings"]["recipe"]["plan"]["seed"]
        predicted |= {(seed, id): label for id, label in zip(result["ids"], result["predicted"], strict=True)}
    assert len(cell.jobs) == FOLDS * REPEATS
    assert len(predicted) == ROWS * REPEATS
    for score in cell.scores:
        assert score.predicted == tuple(predicted[score.seed, id] for id in score.ids)
        assert score.test == pytest.approx(F1.compute(score.gold, score.predicted))
        assert [fold.rows for fold in score.folds] == [ROWS // FOLDS] * FOLDS
    assert cell.task.folds == FOLDS
    assert cell.task.sizes["test"] == ROWS


def test_intervals_and_tests_are_those_of_cross_validation(folded):
    ours, theirs = (folded.outcome.cells["", name, "rows"] for name in ("TAPT", "untouched"))
    compared = folded.outcome.compared
    interval = row_interval(ours.scores[0].gold, [score.predicted for score in ours.scores], F1, folds=FOLDS)
    found = compared.intervals[ours.key, MAIN]
    assert (found.mean, found.low, found.high) == pytest.approx((interval.mean, interval.low, interval.high))
    assert "Repeats of the cross-validation: 2." in found.caution
    draws = resample([*ours.scores, *theirs.scores], F1)
    difference = draws["TAPT"].points_S.mean() - draws["untouched"].points_S.mean()
    components = components_of_rows(draws["TAPT"].shares_Sn - draws["untouched"].shares_Sn, folds=FOLDS)
    comparison = compared.contrast(ours.key, "untouched").comparison
    assert comparison.difference == pytest.approx(difference)
    [gain] = folded.outcome.answer.gains
    assert comparison.p == gain.single_p >= float(p_value(np.float64(difference), components))  # few items widen it
    assert comparison.p_seeds is None
    probe = compared.contrast(("", probe_row("TAPT"), "rows"), probe_row("untouched")).comparison
    assert probe.test == comparison.test
    assert probe.seeds == REPEATS


def test_no_model_has_seen_a_row_that_it_is_tested_on(folded):
    """By what the jobs read: the task's rows, and the text that TAPT adapts on."""
    texts = [Corpus(path.parent) for path in (folded.out / "corpora").glob("*/corpus.json")]
    corpora = {corpus.hash: corpus for corpus in texts}
    tasks = [open_prepared(path) for path in sorted((folded.out / "folds" / "2").iterdir()) if path.is_dir()]
    by_test = {task.hashes["test"]: task for task in tasks}
    jobs = {path.parent.name: files.read_json(path) for path in (folded.out / DIRECTORY).glob("*/job.json")}
    adapted = set()
    for name in folded.outcome.cells["", "TAPT", "rows"].jobs:
        task = by_test[jobs[name]["contents"]["test"]]
        tuned = jobs[jobs[name]["needs"]["tuned"]]
        assert {split: tuned["contents"][split] for split in ("train", "dev")} == {
            split: task.hashes[split] for split in ("train", "dev")
        }
        rows = {split: {row.text for row in task.examples(split)} for split in SPLITS}
        assert not rows["test"] & (rows["train"] | rows["dev"])
        adapted.add(tuned["needs"]["model"])
        corpus = corpora[jobs[tuned["needs"]["model"]]["contents"]["corpus"]]
        assert {document.text for document in corpus.documents()} == rows["train"]
    assert len(adapted) == FOLDS * REPEATS


def test_adaptation_on_text_of_the_domain_is_one_job_for_all_folds(folded, toy_race, tmp_path):
    labelled, raw = LabelledFiles(folded.given["task"], max_tokens=32), Raw(domain=toy_race.inputs / "domain.txt")
    inputs = Inputs(tmp_path, task=labelled, raw=raw, models=(folded.given["model"],))
    recipe = settings.override(RECIPE, ['contestants=["TAPT", "DAPT", "DAPT+TAPT"]', "adapt_seeds=2"])
    searches = race.design(recipe, race.materials_for(inputs, recipe)).searches
    names = {name: [search.entries.models[name].name for search in searches] for name in ("TAPT", "DAPT", "DAPT+TAPT")}
    assert [len({*found}) for found in names.values()] == [4, 2, 4]
    recipe = settings.override(recipe, ["adapt_seeds=1"])
    searches = race.design(recipe, race.materials_for(inputs, recipe)).searches
    once = {name: pooling.adaptations(cell_of(name, searches)) for name in ("untouched", "TAPT", "DAPT+TAPT")}
    assert once == {"untouched": {}, "TAPT": {0: 0, 1: 1}, "DAPT+TAPT": {0: 0, 1: 0}}
    assert names["DAPT"] == [names["DAPT"][0]] * FOLDS + [names["DAPT"][-1]] * FOLDS  # a repeat, an adaptation


def test_page_table_csv_and_record_say_how_it_was_scored(folded):
    page, table, sheet = ((folded.out / name).read_text() for name in ("report.html", "table.txt", "table.csv"))
    for text in (page, " ".join(table.split())):
        assert "2-fold cross-validation, repeated 2 times over 48 rows" in text
        assert "Intervals from fewer than 3 repeats are too narrow" in text
        assert "was not scored" in text
    assert "Each repeat" in table
    assert "p, t" not in table
    lines = list(csv.DictReader(sheet.splitlines()))
    assert {(line["split"], line["folds"], line["repeats"]) for line in lines} == {("cross-validation", "2", "2")}
    assert folded.report.facts.task["cross-validation"] == "2 folds, divided 2 times"
    assert folded.report.facts.given["TAPT"]["folds"] == FOLDS


def test_one_encoder_is_trained_once_more_on_the_usual_split(folded):
    facts = folded.report.facts
    place = "use" if facts.use == facts.encoder else "encoder"
    assert files.read_json(folded.out / place / "race.json")["contestant"] == facts.encoder
    assert files.read_json(folded.out / "use" / "race.json")["contestant"] == facts.use
    usual = open_prepared(folded.out / "data")
    assert usual.looks() == []
    tuned = [
        job
        for path in (folded.out / DIRECTORY).glob("fine-tune*/job.json")
        if (job := files.read_json(path))["contents"]["train"] == usual.hashes["train"]
    ]
    assert {job["settings"]["recipe"]["plan"]["seed"] for job in tuned} == {*range(REPEATS)}
    for given in (folded.out, folded.out / "baseline"):
        with pytest.raises(ValueError, match="used cross-validation, so"):
            ship(given, folded.out.parent / "shipped")


def test_the_baseline_is_fitted_once_more_on_the_usual_split(folded):
    usual = open_prepared(folded.out / "data")
    [fitted] = [
        path
        for path in (folded.out / DIRECTORY).glob("tf-idf-*")
        if files.read_json(path / "job.json")["contents"]["train"] == usual.hashes["train"]
    ]
    kept, handed_over = read_baseline(fitted), read_baseline(folded.out / "baseline")
    assert kept.predict(usual.examples("test")) == handed_over.predict(usual.examples("test"))


def test_folds_that_learnt_nothing_are_counted_and_named(folded):
    cell = folded.outcome.cells["", "TAPT", "rows"]
    first, second = cell.scores
    dull = replace(first, folds=(first.folds[0], replace(first.folds[1], learnt=False)))
    bright = replace(second, folds=tuple(replace(fold, learnt=True) for fold in second.folds))
    others = [result for result in folded.outcome.results if result.row != "TAPT"]
    outcome = replace(folded.outcome, results=(*others, replace(cell, scores=(dull, bright))))
    assert outcome.cells[cell.key].learnt
    assert any("TAPT (1 of 4: repeat 1, fold 2)" in line for line in warnings(outcome))


def test_a_contestant_of_which_one_fold_fails_has_no_score(folded, tmp_path, monkeypatch):
    out = shutil.copytree(folded.out, tmp_path / "run")
    [lost] = (out / DIRECTORY).glob("test-tapt-seed-1-repeat-2-fold-2-*")
    shutil.rmtree(lost)

    def fails(*arguments, **settings):
        raise ValueError("no luck")

    monkeypatch.setattr(finetune, "test", fails)
    report = toys.raced(**{**folded.given, "out": out})
    assert report.failed == {"TAPT": "test TAPT, seed 1, repeat 2, fold 2: no luck"}
    assert report.outcome.cells["", "TAPT", "rows"].scores == ()
    assert report.outcome.cells["", "untouched", "rows"] == folded.outcome.cells["", "untouched", "rows"]


def test_a_contestant_that_diverges_on_every_fold_is_a_failed_one_whose_probe_has_a_score(
    folded, tmp_path, monkeypatch
):
    out = shutil.copytree(folded.out, tmp_path / "run")
    for place in [*(out / DIRECTORY).glob("fine-tune-tapt-*"), *(out / DIRECTORY).glob("test-tapt-*")]:
        shutil.rmtree(place)

    def diverges(*arguments, **settings):
        raise NotFiniteError("the loss is nan")

    monkeypatch.setattr(finetune, "adapt", diverges)
    report = toys.raced(**{**folded.given, "out": out})
    assert report.failed == {"TAPT": "its training diverged on repeat 1, fold 1 at rate 0.01"}
    assert "TAPT failed and has no score" in report.verdict
    assert "TAPT failed: its training diverged on repeat 1, fold 1" in " ".join((out / "table.txt").read_text().split())
    probe = folded.outcome.cells["", probe_row("TAPT"), "rows"]
    assert report.outcome.cells[probe.key].scores == probe.scores


def test_a_dry_run_counts_every_fold_and_repeat(folded, tmp_path):
    text = acclimate.race(**{**folded.given, "out": tmp_path / "run"}, dry_run=True).text
    lines = {line[:20].strip(): line[20:].split() for line in text.splitlines()}
    assert lines["TAPT"][1] == str(FOLDS * REPEATS)
    assert "the best encoder on the usual split" in " ".join(text.split())
    assert not (tmp_path / "run").exists()
    assert "The run is complete: 0 jobs are left" in " ".join(acclimate.race(**folded.given, dry_run=True).text.split())


def test_models_can_be_probed_by_folds_alone(folded, tmp_path):
    out = shutil.copytree(folded.out, tmp_path / "run")
    report = toys.raced(**{**folded.given, "out": out}, probe_only=True)
    assert report.verdict.startswith("Nothing was fine-tuned.")
    assert (report.facts.use, report.facts.encoder) == ("TF-IDF", "")
    assert (out / "use").exists()
    assert not (out / "encoder").exists()


def test_folds_take_one_setting():
    materials = SimpleNamespace(task=SimpleNamespace(kind="sequence"), unread=False)
    recipe = settings.override(RaceRecipe(), ["folds=2", "search.rates=[1e-5, 3e-5]"])
    with pytest.raises(ValueError, match=r"--folds with several settings in search: 2 settings .* remove --folds"):
        race.design(recipe, materials)
