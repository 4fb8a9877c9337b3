"""TAPTER's jobs in a race: its vectors are a job, and names tell all that a result depends on."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from acclimate.core import files
from acclimate.methods import tapter
from acclimate.races.contestants import enter
from acclimate.races.race import run_race
from acclimate.races.recipe import SearchRecipe
from acclimate.races.report import report_of
from acclimate.training.checkpoint import read_log, spent
from acclimate.training.run import CURVE
from studies import recorded


@pytest.fixture
def recipe(toy_race):
    return replace(toy_race.recipe, contestants=("TAPTER", "DAPT+TAPTER"))


@pytest.fixture(scope="module")
def raced(toy_race, tmp_path_factory):
    """(recipe, materials, run) of a race with both, from the encoder that the toy race pretrained."""
    run = tmp_path_factory.mktemp("raced")
    materials = replace(toy_race.materials, general=None, model=str(toy_race.base))
    tuning = replace(toy_race.recipe.finetune, looks=1, plan=replace(toy_race.recipe.finetune.plan, steps=4))
    recipe = replace(toy_race.recipe, contestants=("TAPTER", "DAPT+TAPTER"), finetune=tuning)
    run_race(recipe, materials, run, command="acclimate race")
    return recipe, materials, run


def test_losses_on_domain_and_general_text_are_the_same_work_on_two_corpora(recipe, toy_race):
    entries = enter(recipe, toy_race.materials)
    assert entries.losses.keys() == entries.general_losses.keys() >= {"untouched", "TAPTER", "DAPT+TAPTER"}
    for name, [general] in entries.general_losses.items():
        [domain] = entries.losses[name]
        assert (general.work, general.settings, general.needs) == (domain.work, domain.settings, domain.needs)
        assert general.contents == {"corpus": toy_race.materials.general_heldout.hash}
        assert general in entries.prepared()
    assert enter(recipe, replace(toy_race.materials, general_heldout=None)).general_losses == {}


def test_of_tlm_a_loss_is_measured_only_where_it_keeps_the_models_vocabulary(toy_race):
    recipe = replace(toy_race.recipe, contestants=("TLM",))
    materials = replace(toy_race.materials, model=str(toy_race.base))
    assert set(enter(recipe, materials).general_losses) == {"untouched"}
    onward = replace(recipe, tlm=replace(recipe.tlm, model=materials.model))
    assert set(enter(onward, materials).general_losses) == {"untouched", "TLM"}


def test_two_contestants_share_the_vectors(recipe, toy_race):
    models = enter(recipe, toy_race.materials).models
    alone, chained = models["TAPTER"], models["DAPT+TAPTER"]
    assert alone.needs["vectors"] == chained.needs["vectors"]
    assert set(alone.needs["vectors"].places) == {"corpus", "raw"}
    assert alone.needs["model"].label == "pretrain"
    assert chained.needs["model"].label == "DAPT"
    assert alone.contents["dev"] == toy_race.materials.heldout.hash


def test_vectors_are_of_the_domain_or_of_general_text_or_of_the_task_alone(recipe, toy_race):
    single, materials = replace(recipe, contestants=("TAPTER",)), toy_race.materials
    for stated, raw in (
        (materials, materials.domain.hash),
        (replace(materials, domain=None), materials.general.hash),
        (replace(materials, domain=None, general=None, model=str(toy_race.base)), None),
    ):
        vectors = enter(single, stated).models["TAPTER"].needs["vectors"]
        assert vectors.contents.get("raw") == raw
        assert vectors.contents["corpus"] == materials.task_text.hash


def test_names_depend_on_what_the_vectors_are_made_of_and_not_on_where_they_lie(recipe, toy_race, tmp_path):
    def name(**stated):
        stated_recipe = replace(recipe, tapter=replace(recipe.tapter, **stated))
        return enter(stated_recipe, toy_race.materials).models["TAPTER"].name

    (tmp_path / "one.vec").write_text("1 2\ngene 0 1\n")
    shutil.copy(tmp_path / "one.vec", tmp_path / "copy.vec")
    (tmp_path / "other.vec").write_text("1 2\ngene 1 0\n")
    skipgram = recipe.tapter.skipgram
    for more in ({}, {"train_vectors": False}):
        one, copy, other = (name(vectors=str(tmp_path / f"{each}.vec"), **more) for each in ("one", "copy", "other"))
        assert one == copy != other
        assert name() not in (one, other)
    assert name(vectors=str(tmp_path / "one.vec")) != name(vectors=str(tmp_path / "one.vec"), train_vectors=False)
    assert name(skipgram=replace(skipgram, epochs=3)) != name() != name(regularisation=2.0)
    with pytest.raises(ValueError, match=r"tapter\.vectors = nowhere\.bin: there is no such file"):
        name(vectors="nowhere.bin")


def test_a_race_with_tapter_adapts_measures_and_scores(raced):
    recipe, materials, run = raced
    scores = {score.contestant: score for score in recorded(run).scores}
    assert set(scores) == {"untouched", "TAPTER", "DAPT+TAPTER"}
    [vectors] = (run / "jobs").glob("word-vectors-*")
    [held] = (run / "jobs").glob("tapter-*")
    assert scores["TAPTER"].adapting == spent(vectors) + spent(held)
    assert scores["TAPTER"].adapting.seconds > spent(held).seconds > 0
    provenance = files.read_json(held / "checkpoint" / "provenance.json")
    assert provenance["sources"]["vectors"] == files.sha256_of(vectors / tapter.VECTORS / tapter.TRAINED)
    assert not (held / tapter.VECTORS).exists()
    assert [point["step"] for point in files.read_json(held / CURVE)][-1] == recipe.tapter.plan.steps
    report = report_of(recorded(run))
    assert set(report.facts.losses) == {"TAPTER", "DAPT+TAPTER"}
    texts = len(materials.task_text) + len(materials.domain)
    assert report.facts.given["TAPTER"]["adapting"] == f"word vectors: {texts} documents, then TAPTER: 25 steps"
    lines = report.facts.curves["Masked language modelling loss while adapting"].lines["TAPTER"]
    assert lines[-1][1] == pytest.approx(read_log(held)[-1]["loss.mlm"], rel=1e-6)


def test_the_baseline_tries_as_many_settings_as_an_encoder(toy_race):
    tuning = replace(toy_race.recipe.finetune, threshold="dev")
    searching = replace(toy_race.recipe, finetune=tuning, search=SearchRecipe(rates=(1e-3, 3e-3, 9e-3)))
    entries = enter(searching, toy_race.materials)
    assert entries.baseline.settings["recipe"]["trials"] == len(entries.recipe.settings()) == 3
    assert entries.baseline.settings["recipe"]["threshold"] == entries.recipe.finetune.threshold == "dev"
    fewer = replace(entries, recipe=replace(entries.recipe, tfidf=replace(entries.recipe.tfidf, trials=2)))
    assert fewer.with_trials(4).baseline.settings["recipe"]["trials"] == 2
