"""The front door: a race from Python in one call, with a search and a budget, and what is refused there."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

import acclimate
import toys
from acclimate.core import files, settings
from acclimate.races.recipe import RaceRecipe
from studies import recorded

QUICK = settings.override(RaceRecipe(), [*toys.SETTINGS, 'contestants=["TAPT", "TF-IDF"]'])
SEARCHING = settings.override(QUICK, ["search.rates=[3e-3,1e-2,3e-2]"])


@pytest.fixture(scope="module")
def base(toy_race) -> str:
    [job] = (toy_race.run / "jobs").glob("pretrain-*")
    return str(job / "checkpoint")


@pytest.fixture(scope="module")
def budgeted(base, tmp_path_factory) -> Path:
    """One CSV and a corpus, raced within a budget that is ample."""
    place = tmp_path_factory.mktemp("budgeted")
    generator = random.Random(3)
    with open(place / "train.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["abstract", "topic"])
        writer.writerows([toys.text(topic, 14, generator), topic] for topic in [*toys.TOPICS] * 60)
    toys.write_inputs(place / "in")
    report = acclimate.race(
        place / "train.csv",
        text="abstract",
        label="topic",
        corpus=place / "in" / "domain.txt",
        model=base,
        max_tokens=32,
        budget="20min",
        recipe=SEARCHING,
        out=place / "run",
    )
    assert report.verdict
    return place / "run"


def test_the_file_is_split_and_says_so(budgeted):
    sizes = files.read_json(budgeted / "data" / "task.json")["sizes"]
    assert sum(sizes.values()) == 180
    assert sizes["train"] > 2 * sizes["test"] > 2 * sizes["dev"] > 20
    assert any("split" in note for note in recorded(budgeted).notes)


def test_every_contestant_tried_the_same_and_the_untouched_one_was_tested(budgeted):
    outcome = recorded(budgeted)
    first = {(trial.contestant, trial.setting) for trial in outcome.trials if trial.rung == 0}
    names = {name for name, _ in first}
    assert names == {"untouched", "TAPT"}
    assert len(first) == 3 * len(names)
    assert {outcome.race.given[name]["settings tried"] for name in (*names, "TF-IDF")} == {3}
    tested = {score.contestant for score in outcome.scores}
    assert {"untouched", "TF-IDF"} <= tested


def test_every_look_at_the_test_set_is_written_down(budgeted):
    looks = [json.loads(line) for line in (budgeted / "looks.jsonl").read_text().splitlines()]
    encoders = {(score.contestant, score.seed) for score in recorded(budgeted).scores if score.contestant != "TF-IDF"}
    probes = [look for look in looks if look["by"].startswith("test probe ")]
    assert len(looks) == len(encoders) + 1 + len(probes)
    assert len(probes) == len({"untouched", "TAPT"})  # those too that left the search
    assert recorded(budgeted).race.looks.in_this_run == len(looks)
    begun = list((budgeted / "jobs").glob("fine-tune*/begun.json"))
    tuned = list((budgeted / "jobs").glob("fine-tune*/result.json"))
    assert len(begun) > len(tuned) == len(encoders)  # what left the search was given up, and never tested
    sealed = [json.loads(line)["label"] for line in (budgeted / "data" / "test.jsonl").read_text().splitlines()]
    assert set(sealed) == {""}


def test_what_a_budget_decided_stays_decided(budgeted, base):
    before = (budgeted / "decisions.json").read_bytes()
    jobs = sorted(path.name for path in (budgeted / "jobs").iterdir())
    acclimate.race(
        budgeted.parent / "train.csv",
        text="abstract",
        label="topic",
        corpus=budgeted.parent / "in" / "domain.txt",
        model=base,
        max_tokens=32,
        budget="20min",
        recipe=SEARCHING,
        out=budgeted,
    )
    assert (budgeted / "decisions.json").read_bytes() == before
    assert sorted(path.name for path in (budgeted / "jobs").iterdir()) == jobs


def test_a_budget_too_small_is_refused_before_any_training(toy_inputs, base, tmp_path):
    with pytest.raises(ValueError, match=r"a budget of 1s is too small: .* Give --budget of at least"):
        acclimate.race(
            toy_inputs / "train.jsonl",
            model=base,
            max_tokens=32,
            budget="1s",
            recipe=replace(QUICK, contestants=("TAPT",)),
            out=tmp_path / "run",
        )
    left = [path.name for path in (tmp_path / "run").iterdir()] if (tmp_path / "run").exists() else []
    assert set(left) <= {files.LOCK, files.HOLDER}  # so another race can begin there


def test_options_that_the_embedded_default_would_ignore_are_refused(tmp_path):
    with pytest.raises(ValueError, match="has files, columns, metric and corpora already"):
        acclimate.race("docstrings", metric="accuracy", out=tmp_path)
    with pytest.raises(ValueError, match="--labels-per-class draws from the embedded default only"):
        acclimate.race("train.csv", labels_per_class=3, out=tmp_path)


def test_settings_of_what_would_not_follow_are_refused(tmp_path):
    recipe = settings.override(QUICK, ["learning_curve.draws=5"])
    with pytest.raises(ValueError, match=r"settings of learning_curve do nothing here: add then=acclimate\."):
        acclimate.race("docstrings", recipe=recipe, out=tmp_path)


def test_a_run_of_another_format_is_left_alone(tmp_path, toy_inputs, base):
    files.write_json(tmp_path / "study.json", {"format": 99, "acclimate": "9.9"})
    with pytest.raises(ValueError, match=r"was written by acclimate 9\.9 in format 99"):
        acclimate.race(toy_inputs / "train.jsonl", model=base, recipe=QUICK, out=tmp_path)
