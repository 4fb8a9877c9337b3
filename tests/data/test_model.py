"""The doctor says what a checkpoint consists of as transformers does when it loads it, and what that means."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from acclimate.core.steps import finetuning_steps
from acclimate.data import model as doctor
from acclimate.data.examination import ModelFacts
from acclimate.data.model import HEADS, check_checkpoint, check_rows, model_facts
from acclimate.methods.finetune import FinetuneRecipe, plan_of
from acclimate.methods.probe import POOLED_FAMILIES, load_encoder
from acclimate.models.encoder import load_masked_language_model
from acclimate.models.loading import head_drawn
from families import FAMILIES

FACTS = ModelFacts("bert", 8_000_000, 3, 384, 8_192, head=True, pooler=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_heads_poolers_and_sizes_are_those_that_transformers_finds(family, tmp_path):
    whole = FAMILIES[family]()
    whole.save_pretrained(tmp_path / "whole")
    whole.base_model.save_pretrained(tmp_path / "encoder")
    for place in ("whole", "encoder"):
        facts = model_facts(str(tmp_path / place))
        assert facts.family in HEADS
        assert facts.head is not head_drawn(load_masked_language_model(tmp_path / place))
        assert facts.head is (place == "whole")
        assert facts.pooler is (load_encoder(str(tmp_path / place))[1] if facts.family in POOLED_FAMILIES else None)
        assert (facts.layers, facts.hidden) == (2, 32)
    assert facts.parameters == sum(weight.numel() for weight in whole.base_model.parameters())


def test_a_trained_pooler_is_found_and_a_model_whose_weights_the_hub_keeps_has_unknown_ones(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "hidden_size": 4}))
    save_file({"pooler.dense.weight": torch.ones(4, 4), "ids": torch.arange(9)}, tmp_path / "model.safetensors")
    facts = model_facts(str(tmp_path))
    assert (facts.pooler, facts.head, facts.parameters, facts.layers) == (True, False, 16, None)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    facts = model_facts(str(tmp_path))
    assert (facts.pooler, facts.head, facts.parameters) == (None, None, None)
    monkeypatch.setattr(doctor, "_directory", lambda model: tmp_path)
    monkeypatch.setattr(doctor, "hub_answers", lambda: False)
    facts = model_facts("ada/model")
    assert (facts.pooler, facts.head, facts.parameters) == (None, None, None)


def test_a_damaged_checkpoint_is_named(tmp_path):
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"config\.json: not the config of a model"):
        model_facts(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(ValueError, match=r"model\.safetensors: cannot be loaded .* save the model there again"):
        model_facts(str(tmp_path))


def test_what_a_model_lacks_is_said_with_what_it_means():
    def lacking(kind="sequence", **lacks):
        said = check_checkpoint(replace(FACTS, **lacks), kind)
        return [(finding.level, finding.what.split(",")[0]) for finding in said]

    assert lacking() == []
    assert lacking(head=None, pooler=None) == []
    assert lacking(head=False) == [("warning", "The model has no language modelling head")]
    assert lacking(pooler=False) == [("note", "The model has no trained pooler")]
    assert lacking("tokens", pooler=False) == []  # taggers read every token


@pytest.mark.parametrize(("rows", "said"), [(80, "300 steps"), (600, "500 steps"), (1_500, ""), (20_000, "12,500")])
def test_rows_that_are_few_or_many_are_compared_with_the_steps_of_a_fine_tuning(rows, said):
    recipe = FinetuneRecipe()
    found = check_rows(rows, recipe)
    assert len(found) == bool(said)
    assert all(said in finding.what and finding.way_out for finding in found)
    assert finetuning_steps(recipe, rows) == plan_of(recipe, rows, 768).steps
    without = SimpleNamespace(epochs=0, plan=SimpleNamespace(steps=7, batch=16))
    assert finetuning_steps(without, rows) == 7
