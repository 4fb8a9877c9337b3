import sys

import pytest
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification

from acclimate.models import lora
from acclimate.models.lora import LoraAdapters, adapted_layers
from families import FAMILIES, LONGEST, mpnet

ALL = {**FAMILIES, "mpnet": mpnet}
SETTINGS = {"rank": 2, "alpha": 4.0, "dropout": 0.0, "seed": 0}


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_family_learns_a_matrix_of_low_rank_beside_its_linear_layers_and_nothing_else(name):
    model = AutoModelForSequenceClassification.from_config(ALL[name]().config).eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    linear = {
        key: layer.weight
        for key, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and key.startswith(f"{model.base_model_prefix}.") and "pooler" not in key
    }
    in_layers = [key for key in linear if "embeddings" not in key and "rel_" not in key]
    attention, everything = adapted_layers(model, "attention"), adapted_layers(model, "all")
    assert sorted(everything) == sorted(in_layers)
    assert 0 < len(attention) < len(everything)
    assert not [key for key in set(everything) - set(attention) if "att" in key]

    ids = torch.tensor([[3, 9, 8, 7, 4, 5]])
    assert ids.shape[1] < LONGEST
    with torch.no_grad():
        plain = model(input_ids=ids).logits
    adapters = LoraAdapters(model, layers="attention", **SETTINGS)
    assert len(adapters.places) == len(attention)
    with torch.no_grad():
        assert torch.allclose(model(input_ids=ids).logits, plain, atol=1e-6), "B starts at 0"
    learns = {key for key, value in model.named_parameters() if value.requires_grad}
    head = {key for key in before if not key.startswith(f"{model.base_model_prefix}.") or ".pooler." in key} & {
        key for key, _ in model.named_parameters()
    }
    assert learns - head == {key for key in learns if ".lora_A." in key or ".lora_B." in key}
    assert head <= learns

    for place in adapters.places:
        nn.init.normal_(place.lora_B["default"].weight)
    with torch.no_grad():
        learnt = model(input_ids=ids).logits
        weights = [place.get_base_layer().weight.clone() for place in adapters.places]
        with adapters.merged():
            merged = model(input_ids=ids).logits
        assert torch.allclose(merged, learnt, atol=1e-4)
        assert not torch.allclose(merged, plain, atol=1e-3)
    for place, weight in zip(adapters.places, weights, strict=True):
        assert torch.equal(place.get_base_layer().weight, weight), "bit by bit"

    adapters.merge()
    with torch.no_grad():
        assert torch.equal(model(input_ids=ids).logits, merged)
    after = model.state_dict()
    assert list(after) == list(before)
    changed = {f"{key}.weight" for key in attention}
    for key, value in after.items():
        if key in changed:
            assert torch.linalg.matrix_rank((value - before[key]).double(), rtol=1e-4) == SETTINGS["rank"], key
        else:
            assert torch.equal(value, before[key]), key
    assert all(value.requires_grad for value in model.parameters())


def test_a_model_without_attention_s_linear_layers_is_refused():
    model = AutoModelForSequenceClassification.from_config(FAMILIES["bert"]().config)
    model.base_model.encoder.layer = nn.ModuleList()
    with pytest.raises(ValueError, match=r"no linear layer of attention was found in a 'bert'.* Set lora_rank=0"):
        LoraAdapters(model, layers="attention", **SETTINGS)


def test_where_peft_is_missing_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ImportError, match=r"needs the package 'peft'.*pip install acclimate\[lora\].*lora_rank=0"):
        lora.require_peft()
