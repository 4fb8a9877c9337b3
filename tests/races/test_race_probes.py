"""Probes of frozen encoders in a race: their jobs, their statistics, and what the page says of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import studies
import toys
from acclimate import cli
from acclimate.core import files
from acclimate.data.gather import Inputs
from acclimate.jobs.job import missing
from acclimate.methods.finetune import PAPERS, FinetuneRecipe
from acclimate.races import race
from acclimate.races.answer import represented
from acclimate.races.compare import MAIN
from acclimate.races.contestants import enter, threshold_of
from acclimate.races.facts import probe_facts, task_facts
from acclimate.races.outcome import Facts, Outcome, best_on_dev, probe_row
from acclimate.races.planning.dry_run import dry_run, foreseen_jobs
from acclimate.races.race import probes_against_untouched
from acclimate.races.recipe import RaceRecipe
from acclimate.races.report import report_of
from acclimate.races.tables import as_csv, sections
from acclimate.races.verdict import claims, warnings
from acclimate.statistics.significance import ONE_ADAPTATION, compare, holm
from acclimate.tasks.metrics import METRICS
from toys import outcome_without_seconds

NAMES = ("untouched", "TAPT", "random weights")


@pytest.fixture(scope="module")
def asked(toy_race, pretrained) -> dict[str, Any]:
    """What `race` is given."""
    files = {split: toy_race.inputs / f"{split}.jsonl" for split in ("dev", "test")}
    names = [*NAMES[1:], "TF-IDF"]
    return {**files, "model": str(pretrained), "contestants": names, "recipe": toy_race.recipe, "max_tokens": 32}


@pytest.fixture(scope="module")
def probed(toy_race, asked, tmp_path_factory):
    """(directory, report) of a race that only probes."""
    out = tmp_path_factory.mktemp("probed") / "run"
    return out, toys.raced(toy_race.inputs / "train.jsonl", **asked, out=out, probe_only=True)


def test_without_fine_tuning_there_are_probes_the_baseline_and_the_usual_files(probed):
    out, report = probed
    assert [result.row for result in report.outcome.results] == ["TF-IDF", *(row for row in _rows(report.outcome))]
    assert {probe_row(name) for name in NAMES} == set(_rows(report.outcome))
    assert report.verdict.startswith("Nothing was fine-tuned. A probe of the frozen, untouched model scores ")
    assert "TF-IDF, which needs no encoder, " in report.verdict
    assert "Before fine-tuning, it is not established that TAPT changed what the encoder represents" in report.verdict
    assert not list((out / "jobs").glob("fine-tune*"))
    assert files.read_json(out / "use" / "race.json") == files.read_json(out / "baseline" / "race.json")
    assert not (out / "encoder").exists()
    assert files.read_json(out / "baseline" / "race.json")["contestant"] == "TF-IDF"
    told = CliRunner().invoke(cli.app, ["report", str(out)]).output
    said = " ".join(told.split())
    assert "/use. TF-IDF is used, because nothing was fine-tuned." in said
    page, table = ((out / name).read_text() for name in ("report.html", "table.txt"))
    assert all(row in page and row in table for row in _rows(report.outcome))
    assert len((out / "table.csv").read_text().splitlines()) == 5
    alone = replace(report.outcome, results=report.outcome.results[1:2], against=())
    assert report_of(alone).verdict.startswith("Nothing was fine-tuned. A probe of the frozen model scores ")
    looks = report.facts.looks
    assert looks is not None
    assert [line for line in looks.lines if "probe" in line] == [f"test probe {name}" for name in NAMES]


def test_the_same_again_does_nothing_and_the_whole_race_goes_on_from_there(probed, toy_race, asked):
    out, _ = probed
    before, jobs = outcome_without_seconds(out), {path.name for path in (out / "jobs").iterdir()}
    toys.raced(toy_race.inputs / "train.jsonl", **asked, out=out, probe_only=True)
    assert (outcome_without_seconds(out), {path.name for path in (out / "jobs").iterdir()}) == (before, jobs)
    labelled, _ = toys.files_in(toy_race.inputs)
    inputs = Inputs(out, task=labelled, models=(asked["model"],))
    recipe = replace(asked["recipe"], contestants=tuple(asked["contestants"]))
    foreseen = foreseen_jobs(enter(recipe, race.materials_for(inputs, recipe)), out)
    labels = {job.label for job in missing(foreseen, out)}
    assert labels
    assert all(label.startswith(("fine-tune ", "test ")) and "probe" not in label for label in labels)


def test_a_dry_run_of_probes_alone_fine_tunes_nothing(toy_race, pretrained, tmp_path):
    materials = replace(toy_race.materials, general=None, general_heldout=None, model=str(pretrained))
    found = dry_run(race.design(toy_race.recipe, materials, probe_only=True), tmp_path)
    assert sum(line.fine_tunings for line in found.lines) == 0
    assert found.seconds > 0


def test_a_failed_probe_is_named_and_its_contestant_races(toy_race, probed, asked, tmp_path, monkeypatch):
    from acclimate.methods import probe

    def broken(model: str, task: Any, **more: Any) -> Any:
        if "tapt" in model:
            raise ValueError("no states")
        return whole(model, task, **more)

    whole = probe.probe
    monkeypatch.setattr(probe, "probe", broken)
    report = toys.raced(toy_race.inputs / "train.jsonl", **asked, out=tmp_path / "run", probe_only=True)
    assert report.failed == {"TAPT, probe": "probe TAPT: no states"}
    assert "TAPT failed and has no score" in report.verdict


def _rows(outcome: Outcome) -> list[str]:
    return [result.row for result in outcome.results if result.probe]


def probe_of(name: str, level: float, *, adaptations: int = 0, learnt: bool = True) -> Any:
    """The result of a made-up probe: of the given model, or one score for each adaptation."""
    scores = studies.made_up_scores(probe_row(name), level=level, seeds=max(1, adaptations))
    stated = [replace(score, adaptation=score.seed if adaptations else None, learnt=learnt) for score in scores]
    return replace(studies.result(name, level), row=probe_row(name), scores=tuple(stated), probe=True, jobs=())


def raced(*probes: Any, facts: Facts = Facts()) -> Outcome:  # noqa: B008
    tuned = [studies.result("untouched", 1.2), studies.result("TAPT", 1.3)]
    names = [each.contestant for each in probes]
    against = (*race.against_untouched(["TAPT"], "Genes"), *probes_against_untouched(names, "Genes"))
    return Outcome("race", "Race", "", (*tuned, *probes), against, race=facts)


def test_probes_are_compared_by_items_alone_and_are_a_family_of_their_own():
    untouched, tapt, dapt = (
        probe_of(*stated, adaptations=number)
        for *stated, number in (("untouched", 1.2, 0), ("TAPT", 1.5, 1), ("DAPT", 1.3, 1))
    )
    outcome = raced(untouched, tapt, dapt)
    found = {each.against.key[1]: each for each in outcome.compared.contrasts if each.metric == MAIN}
    right = {each.row: np.equal(each.scores[0].gold, each.scores[0].predicted) for each in (untouched, tapt, dapt)}
    for name in ("TAPT, probe", "DAPT, probe"):
        naive = stats.ttest_rel(right[name].astype(float), right["untouched, probe"].astype(float))
        comparison = found[name].comparison
        assert comparison.p == pytest.approx(naive.pvalue)
        assert (comparison.low, comparison.high) == pytest.approx(naive.confidence_interval())
        assert (comparison.p_seeds, comparison.p_permutation, comparison.adaptations) == (None, None, 1)
        assert "seed" not in comparison.test + comparison.caution
    p_of_probes = [found[name].comparison.p for name in ("TAPT, probe", "DAPT, probe")]
    assert [found[name].p_adjusted for name in ("TAPT, probe", "DAPT, probe")] == holm(p_of_probes)
    assert found["TAPT"].p_adjusted == pytest.approx(found["TAPT"].comparison.p)
    assert ONE_ADAPTATION in represented(outcome)


def test_with_several_adaptations_their_chance_counts_too():
    untouched, tapt = probe_of("untouched", 1.2), probe_of("TAPT", 1.5, adaptations=3)
    outcome = raced(untouched, tapt)
    contrast = outcome.compared.contrast(tapt.key, "untouched, probe")
    assert contrast is not None
    equal = [replace(untouched.scores[0], seed=number) for number in range(3)]
    naive = compare(tapt.scores, equal, METRICS["accuracy"])
    assert (contrast.comparison.p, contrast.comparison.low) == (naive.p, naive.low)
    assert contrast.comparison.adaptations == 3
    assert ONE_ADAPTATION not in represented(outcome)
    [section] = [each for each in sections(outcome) if each.title == "Frozen probes"]
    assert "each adaptation" in section.columns


def test_the_verdict_says_what_adapting_did_to_the_representation_and_a_probe_never_wins():
    outcome = raced(probe_of("untouched", 1.2), probe_of("TAPT", 2.5, adaptations=1))
    sentence = "Before fine-tuning, adapting changed what the encoder represents: the probe of TAPT is better"
    assert sentence in represented(outcome)
    assert "the probe of TAPT is better than the untouched model's" in claims(outcome)
    best = best_on_dev(outcome.results)
    assert best is not None
    assert not best.probe
    control = raced(probe_of("untouched", 1.2), probe_of("random weights", 0.1))
    assert represented(control) == ""  # nothing adapted it
    assert "probe" in as_csv(control).splitlines()[0].split(",")


def test_a_probe_no_better_than_a_constant_answer_is_named_and_compared_with_nothing():
    outcome = raced(probe_of("untouched", 1.2), probe_of("TAPT", 1.5, adaptations=1, learnt=False))
    assert warnings(outcome) == [
        "On dev, or by loss, TAPT, probe does no better than a constant answer or guesses. Therefore it is not "
        "compared.",
    ]
    assert outcome.compared.contrast(("", "TAPT, probe", "Genes"), "untouched, probe") is None
    assert represented(outcome) == ""


@pytest.mark.parametrize(
    ("asked", "said"),
    [("pairs", "which words belong to which of the two texts"), ("mentions", "which mentions are meant"), ("", "")],
)
def test_the_page_says_what_a_probe_of_pairs_and_relations_cannot_see(asked, said):
    facts = {"read-out": "mean", **({"asked of": asked} if asked else {})}
    outcome = raced(*(replace(probe_of(name, 1.2), facts=facts) for name in ("untouched", "TAPT")))
    [section] = [each for each in sections(outcome) if each.title == "Frozen probes"]
    told = [line for line in section.lines if "one vector of the whole text" in line]
    assert len(told) == bool(asked)
    assert all(said in line for line in told)


@pytest.mark.parametrize(("two", "asked"), [("pair", "pairs"), ("mentions", "mentions"), (None, None)])
def test_a_probe_knows_whether_its_task_asks_of_pairs_or_of_mentions(two, asked):
    task = SimpleNamespace(two_places=two)
    cell = SimpleNamespace(probe=True, jobs_by_seed={}, materials=SimpleNamespace(task=task))
    assert probe_facts(cell, Path()).get("asked of") == asked


def test_a_task_of_numbers_has_no_empty_place_for_labels_on_the_page():
    about = {
        "name": "Pairs",
        "source": "pairs.csv",
        "metric": METRICS["pearson"],
        "sizes": {"train": 7},
        "max_tokens": 9,
    }
    assert "labels" not in task_facts(SimpleNamespace(labels=(), **about))
    assert task_facts(SimpleNamespace(labels=("a", "b"), **about))["labels"] == "a, b"


def test_where_no_probe_exists_the_page_says_why_and_probes_alone_are_refused():
    outcome = raced(facts=Facts(unprobed="A task of kind 'span' cannot be probed."))
    [section] = [each for each in sections(outcome) if each.title == "Frozen probes"]
    assert section.lines == ("A task of kind 'span' cannot be probed.",)
    materials: Any = SimpleNamespace(task=SimpleNamespace(kind="span"), unread={})
    with pytest.raises(ValueError, match=r"--probe-only: a task of kind 'span' cannot be probed\. These can: sequence"):
        race.design(RaceRecipe(), materials, probe_only=True)


@pytest.mark.parametrize(
    ("kind", "tuning", "stated"),
    [
        ("multilabel", FinetuneRecipe(), {"threshold": "dev"}),
        ("multilabel", PAPERS, {}),
        ("score", FinetuneRecipe(), {}),
    ],
)
def test_a_probe_of_several_labels_chooses_its_threshold_as_fine_tuning_does(kind, tuning, stated):
    task = SimpleNamespace(kind=kind, has_threshold=kind == "multilabel")
    assert threshold_of(tuning, task) == stated
