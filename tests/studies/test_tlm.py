"""The studies of TLM's paper on the toy task: what varies, what is shared, and what the table says."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

import toys
from acclimate.core import files, settings
from acclimate.race.contestants import enter
from acclimate.race.outcome import read_scores, study_of, write_pages
from acclimate.race.race import run_race
from acclimate.race.recipe import RaceRecipe
from acclimate.studies.tlm import STUDIES, TlmStudyRecipe, run_grid, variants
from acclimate.training.checkpoint import read_log

SMALL = (
    "seeds=2",
    "ks=[2,10]",
    "rho_1s=[1,3]",
    "rho_2s=[0,20]",
    "retrieval.k=5",
    *(f"tlm.{setting}" for setting in ("vocabulary=300", "layers=1", "hidden=32", "heads=2", "max_tokens=32")),
    *(f"tlm.plan.{setting}" for setting in ("steps=24", "batch=16", "rate=5e-3")),
    *(f"tlm.finetune.{setting}" for setting in ("looks=2", "epochs=0.0")),
    *(f"tlm.finetune.plan.{setting}" for setting in ("steps=12", "batch=16", "rate=1e-2")),
)


@pytest.fixture(scope="module")
def recipe() -> TlmStudyRecipe:
    return settings.override(TlmStudyRecipe(), SMALL)


@pytest.fixture(scope="module")
def place(toy_inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("grid") / "run"


@pytest.fixture(scope="module")
def materials(place, toy_inputs):
    return toys.materials_in(place, toy_inputs)


def test_the_studies_are_those_of_the_papers_tables(recipe):
    stated = replace(recipe, tlm=replace(recipe.tlm, model="a-model"))
    named = {study: [own.name for own in variants(study, stated)] for study in STUDIES}
    assert named == {
        "retrieval": ["random", "BM25"],
        "k": ["task data only", "K = 2", "K = 10"],
        "rho_1": ["rho_1 = 1", "rho_1 = 3", "external only"],
        "rho_2": ["rho_2 = 0", "rho_2 = 20"],
        "stages": ["without stage 2", "two stages"],
        "model": ["model", "model + MLM on task data", "TLM"],
        "search": ["rho_1 = 1, rho_2 = 0", "rho_1 = 1, rho_2 = 20", "rho_1 = 3, rho_2 = 0", "rho_1 = 3, rho_2 = 20"],
    }
    assert TlmStudyRecipe().ks == (50, 500, 5000)
    with pytest.raises(ValueError, match=r"no study is called 'rho'\. Known: retrieval, k, rho_1"):
        variants("rho", recipe)
    with pytest.raises(ValueError, match="needs a pretrained model: give --model"):
        variants("model", recipe)
    with pytest.raises(ValueError, match=r"ks = \[5, 5\]: at least one value, and each once"):
        replace(recipe, ks=(5, 5))


def test_a_smaller_k_is_cut_and_the_first_stages_differ_in_what_they_read(recipe, materials, place):
    found = run_grid("k", recipe, materials, place)
    assert found.rows[0].contestant == "task data only"
    assert {row.seeds for row in found.rows} == {(0, 1)}
    assert len(list((place / "jobs").glob("retrieve-*"))) == 1
    assert len(list((place / "jobs").glob("cut-to-2-*"))) == 1
    assert len(list((place / "jobs").glob("stage-1-*"))) == 3 * 2
    assert found.text == (place / "k.txt").read_text()
    assert "differences are from task data only" in found.text
    assert "2 seeds hardly tell their luck" in found.text


def test_what_two_variants_share_is_done_once(recipe, materials, place):
    before = {path.name for path in (place / "jobs").iterdir()}
    said = set()
    found = run_grid("stages", recipe, materials, place, watch=lambda told: said.add(told.stage))
    assert [row.contestant for row in found.rows] == ["without stage 2", "two stages"]
    assert {"without stage 2: stage 1, seed 0", "two stages: fine-tune, seed 0"} <= said
    new = {path.name.rsplit("-", 1)[0] for path in (place / "jobs").iterdir() if path.name not in before}
    assert new == {"retrieve", "stage-1-seed-0", "stage-1-seed-1", "hand-over-seed-0", "hand-over-seed-1"} | {
        "fine-tune-seed-0",
        "fine-tune-seed-1",
    }
    again = {path: path.stat().st_mtime_ns for path in (place / "jobs").rglob("result.json")}
    run_grid("stages", recipe, materials, place)
    assert {path: path.stat().st_mtime_ns for path in (place / "jobs").rglob("result.json")} == again


def test_a_search_tests_the_best_on_dev_alone_and_counts_what_it_took(recipe, materials, place):
    found = run_grid("search", recipe, materials, place)
    best = max(found.rows, key=lambda row: row.dev_mean).contestant
    assert f"Chosen on dev: {best}. On test, opened for it alone:" in found.text
    assert "The search over 4 settings took" in found.text
    assert len(list((place / "jobs").glob("test-*"))) == 2
    written = files.read_json(place / "search.scores.json")
    assert len(written) == 4 * 2
    assert {score["split"] for score in written} == {"dev"}
    assert not [score for score in written if "test" in score]


def test_a_model_is_compared_with_task_driven_training_from_it_and_from_nothing(recipe, toy_race, tmp_path):
    [base] = (toy_race.run / "jobs").glob("pretrain-*")
    materials = replace(toy_race.materials, model=str(base / "checkpoint"))
    found = run_grid("model", recipe, materials, tmp_path)
    assert found.rows[0].contestant == "model"
    assert found.rows[0].adapting.tokens == 0
    assert all(row.adapting.tokens > 0 for row in found.rows[1:])
    losses = {line["contestant"]: line for line in csv.DictReader((tmp_path / "model.csv").read_text().splitlines())}
    before, on_it, from_nothing = (
        losses[name]["general_loss"] for name in ("model", "model + MLM on task data", "TLM")
    )
    assert from_nothing == "", "a loss of another vocabulary is no smaller or larger"
    difference = float(losses["model + MLM on task data"]["general_loss_difference"])
    assert difference == pytest.approx(float(on_it) - float(before))
    assert f"{float(on_it):.2f} ({difference:+.2f})" in found.text


def test_a_model_that_is_stated_and_not_given_is_told(recipe, toy_race, tmp_path):
    stated = replace(recipe, tlm=replace(recipe.tlm, model="a-model"))
    with pytest.raises(ValueError, match=r"tlm\.model = 'a-model', but no model is given\. Add --model a-model"):
        run_grid("k", stated, replace(toy_race.materials, model=None), tmp_path)


def test_tlm_races_from_nothing_with_its_cost_and_what_it_retrieved(toy_race, tmp_path):
    small = [each.removeprefix("tlm.") for each in SMALL if each.startswith("tlm.") and "finetune" not in each]
    stated = [
        *toys.SETTINGS,
        'contestants=["TLM","random weights"]',
        "retrieval.k=5",
        *(f"tlm.{each}" for each in small),
    ]
    recipe = settings.override(RaceRecipe(), stated)
    run_race(recipe, toy_race.materials, tmp_path, command="acclimate race")
    scores = {score.contestant: score for score in read_scores(tmp_path)}
    assert set(scores) == {"untouched", "TLM", "random weights"}
    [joint] = (tmp_path / "jobs").glob("tlm-*")
    assert scores["TLM"].adapting.tokens == sum(line["tokens"] for line in read_log(joint))
    assert enter(recipe, toy_race.materials).losses.keys() == {"untouched", "random weights"}
    study = study_of(tmp_path)
    assert "documents" in study.given["TLM"]["adapting"]
    write_pages(tmp_path)


def test_tlm_without_general_text_says_what_it_needs(toy_race):
    materials = replace(toy_race.materials, general=None, model="somewhere")
    recipe = replace(toy_race.recipe, contestants=("TLM",))
    with pytest.raises(ValueError, match="TLM retrieves from general text: give --general"):
        enter(recipe, materials)


def test_tlm_from_a_models_weights_needs_the_model(toy_race):
    recipe = replace(toy_race.recipe, contestants=("TLM",), tlm=replace(toy_race.recipe.tlm, model="some/where"))
    with pytest.raises(ValueError, match="no model is given"):
        enter(recipe, toy_race.materials)
