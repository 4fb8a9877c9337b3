from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from acclimate.core import files
from acclimate.methods import mlm, scratch
from acclimate.training.checkpoint import read_log
from acclimate.training.plan import Plan


@pytest.fixture
def recipe(toy_race) -> scratch.ScratchRecipe:
    return scratch.ScratchRecipe(
        toy_race.materials.general.path,
        vocabulary=200,
        layers=1,
        hidden=16,
        heads=2,
        max_tokens=32,
        plan=Plan(steps=3, batch=8, rate=1e-3),
    )


def test_an_encoder_with_a_vocabulary_of_its_own(recipe, tmp_path):
    checkpoint = scratch.adapt(recipe, tmp_path)
    model, tokenizer = (kind.from_pretrained(checkpoint.path) for kind in (AutoModelForMaskedLM, AutoTokenizer))
    assert len(tokenizer) == model.config.vocab_size <= 200
    assert tokenizer.tokenize("Artery")[0] == "artery"  # a frequent word is a piece
    assert (model.config.num_hidden_layers, model.config.hidden_size) == (1, 16)
    assert model.config.max_position_embeddings == 512
    assert set(files.read_json(checkpoint.path / "provenance.json")["sources"]) == {"corpus"}


def test_pretraining_lowers_the_loss(toy_race):
    [job] = (toy_race.run / "jobs").glob("pretrain-*")
    losses = [line["loss"] for line in read_log(job)]
    assert sum(losses[-5:]) / 5 < losses[0] - 1


def test_pretraining_that_learnt_little_more_than_frequencies_is_told(recipe, tmp_path):
    told = []
    checkpoint = scratch.adapt(recipe, tmp_path / "short", watch=told.append)  # three steps
    record = files.read_json(tmp_path / "short" / scratch.FREQUENCIES)
    last = np.mean([line["loss"] for line in read_log(tmp_path / "short")])
    assert record["last loss"] == pytest.approx(last)
    assert 2 < record["frequencies"] < np.log(200)
    assert record["little"]
    said = f"the final loss is {last:.2f} nats, but the frequencies of the pieces alone would reach"
    assert [said in note for each in told if (note := str(each.values.get("note", "")))].count(True) == 1
    goes_on = scratch.ScratchRecipe(recipe.corpus, model=str(checkpoint.path), max_tokens=32, plan=recipe.plan)
    scratch.adapt(goes_on, tmp_path / "on")
    assert not (tmp_path / "on" / scratch.FREQUENCIES).exists()


def test_a_loss_far_below_that_of_frequencies_is_not_told(recipe, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(scratch, "LITTLE", 100.0)
    scratch.adapt(recipe, tmp_path, watch=told.append)
    assert not files.read_json(tmp_path / scratch.FREQUENCIES)["little"]
    assert not any("pieces alone" in str(each.values.get("note", "")) for each in told)


def test_random_weights_have_the_shape_of_the_model_and_know_nothing(pretrained, toy_race, tmp_path):
    twin = scratch.untrained(str(pretrained), tmp_path, seed=0)
    assert scratch.untrained(str(pretrained), tmp_path, seed=0) == twin
    trained, random = (AutoModelForMaskedLM.from_pretrained(path).state_dict() for path in (pretrained, twin.path))
    assert {name: value.shape for name, value in trained.items()} == {
        name: value.shape for name, value in random.items()
    }
    words = "bert.embeddings.word_embeddings.weight"
    assert not torch.equal(trained[words], random[words])
    heldout = toy_race.materials.heldout.path
    losses = [mlm.heldout_loss(str(path), heldout, max_tokens=32).loss for path in (twin.path, pretrained)]
    assert losses[0] > losses[1] + 1
