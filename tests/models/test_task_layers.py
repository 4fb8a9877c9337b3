"""Taggers with more than a linear layer: what they compute, and that checkpoints of every family keep them."""

import json

import pytest
import torch
from transformers import AutoModel

from acclimate.models.classifier import kind_of, labels_of, load_classifier, load_finetuned
from acclimate.models.loading import quiet
from acclimate.models.scale import output_layer
from acclimate.models.task_layers import crf_of
from families import FAMILIES, VOCABULARY

LABELS = ("O", "B", "I")
LAYERS = ["bilstm", "crf", "bilstm-crf"]


def inputs():
    generator = torch.Generator().manual_seed(0)
    mask = torch.tensor([[1] * 7, [1, 1, 1, 1, 0, 0, 0]])
    return {"input_ids": torch.randint(5, VOCABULARY, (2, 7), generator=generator), "attention_mask": mask}


@pytest.fixture(params=["bert", "roberta", "distilbert", "deberta-v2", "modernbert"])
def directory(request, tmp_path):
    FAMILIES[request.param]().save_pretrained(tmp_path / "encoder")
    return tmp_path / "encoder"


@pytest.fixture
def bert(tmp_path):
    FAMILIES["bert"]().save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


def tagger(directory, layer, seed=1, **settings):
    return load_classifier(directory, LABELS, seed=seed, kind="tokens", layer=layer, **settings)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_checkpoint_of_a_family_says_what_it_said(directory, tmp_path, layer):
    own = {"transitions": "scheme", "transitions_rate": 50.0} if "crf" in layer else {}
    model = tagger(directory, layer, **own)
    if (crf := crf_of(model)) is not None:
        torch.nn.init.normal_(crf.transitions)
    with torch.no_grad():
        said = model(**inputs()).logits
        hidden = model.base_model(**inputs()).last_hidden_state
    with quiet():
        model.save_pretrained(tmp_path / "tuned")
        encoder = AutoModel.from_pretrained(tmp_path / "tuned")
    again = load_finetuned(tmp_path / "tuned")
    assert (kind_of(again), labels_of(again)) == ("tokens", LABELS)
    with torch.no_grad():
        assert torch.equal(again(**inputs()).logits, said)
        assert torch.equal(encoder(**inputs()).last_hidden_state, hidden)
    assert all(torch.equal(again.state_dict()[name], value) for name, value in model.state_dict().items())
    config = json.loads((tmp_path / "tuned" / "config.json").read_text())
    assert config["tag_layer"] == layer
    assert ("tag_transitions" in config) == ("tag_transitions_rate" in config) == ("crf" in layer)
    if crf is not None:
        assert crf_of(again).rate == 50
    assert config["architectures"][0].endswith("ForTagSequences")


def test_the_lstm_is_pytorch_s_over_the_real_tokens_alone(bert):
    model = tagger(bert, "bilstm")
    given = inputs()
    with torch.no_grad():
        said = model(**given).logits
        for row, length in enumerate(given["attention_mask"].sum(1).tolist()):
            hidden = model.base_model(input_ids=given["input_ids"][row : row + 1, :length]).last_hidden_state
            states, _ = model.lstm(hidden)
            expected = output_layer(model)(states)[0]
            torch.testing.assert_close(said[row, :length], expected, rtol=1e-5, atol=1e-5)
            first, last = states[0, 0], states[0, -1]
            assert model.lstm.bidirectional
            assert states.shape[-1] == hidden.shape[-1]
            assert not torch.equal(first, last)


@pytest.mark.parametrize("layer", LAYERS)
def test_the_layers_are_float32_under_autocast(bert, layer):
    model = tagger(bert, layer)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        assert model.base_model.encoder.layer[0].output.dense(torch.ones(1, 64)).dtype == torch.bfloat16
        assert model(**inputs()).logits.dtype == torch.float32


def test_the_head_depends_on_the_seed_alone(bert):
    one, same, other = (tagger(bert, "bilstm-crf", seed) for seed in (1, 1, 2))
    heads = [
        {name: value for name, value in model.state_dict().items() if "bert." not in name} for model in (one, same)
    ]
    assert {name.split(".")[0] for name in heads[0]} == {"lstm", "classifier", "crf"}
    assert all(torch.equal(heads[0][name], heads[1][name]) for name in heads[0])
    assert not torch.equal(one.lstm.weight_hh_l0, other.lstm.weight_hh_l0)
    assert not torch.equal(output_layer(one).weight, output_layer(other).weight)


def test_a_checkpoint_with_a_crf_can_be_tuned_without_one(bert, tmp_path):
    with quiet():
        tagger(bert, "crf", transitions="scheme", transitions_rate=9.0).save_pretrained(tmp_path / "tuned")
    plain = tagger(tmp_path / "tuned", "linear")
    assert type(plain).__name__ == "BertForTokenClassification"
    assert not [name for name in vars(plain.config) if name.startswith("tag_")]


def test_layers_of_tags_are_for_tags_and_transitions_for_a_crf(bert):
    with pytest.raises(ValueError, match="layer='crf' is for tags, not for kind 'sequence'"):
        load_classifier(bert, LABELS, seed=1, layer="crf")
    with pytest.raises(ValueError, match="transitions='scheme' is for a CRF, but the layer is 'bilstm'"):
        tagger(bert, "bilstm", transitions="scheme")
    with pytest.raises(ValueError, match=r"transitions_rate=9\.0 is for a CRF, but the layer is 'linear'"):
        tagger(bert, "linear", transitions_rate=9.0)
