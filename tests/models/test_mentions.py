"""Classifiers that read two mentions: what they read, and that checkpoints of every family keep them."""

import json

import pytest
import torch
from transformers import AutoModel

from acclimate.models.classifier import kind_of, labels_of, load_classifier, load_finetuned, output_layer
from acclimate.models.loading import quiet
from acclimate.models.mentions import pooled
from families import FAMILIES, VOCABULARY

PLACES = torch.tensor([[[1, 3], [4, 5]], [[2, 3], [3, 7]]])


def inputs():
    generator = torch.Generator().manual_seed(0)
    return {"input_ids": torch.randint(5, VOCABULARY, (2, 7), generator=generator), "mentions": PLACES}


@pytest.fixture(params=[*FAMILIES])
def directory(request, tmp_path):
    FAMILIES[request.param]().save_pretrained(tmp_path / "encoder")
    return tmp_path / "encoder"


def test_mentions_are_the_largest_values_of_their_tokens_side_by_side():
    hidden_BTD = torch.randn(2, 7, 4)
    rows = [
        torch.cat([hidden_BTD[row, start:end].max(dim=0).values for start, end in PLACES[row].tolist()])
        for row in range(2)
    ]
    assert torch.equal(pooled(hidden_BTD, PLACES, "mentions"), torch.stack(rows))


def test_starts_are_the_first_tokens_side_by_side():
    hidden_BTD = torch.randn(2, 7, 4)
    rows = [torch.cat([hidden_BTD[row, start] for start, _ in PLACES[row].tolist()]) for row in range(2)]
    assert torch.equal(pooled(hidden_BTD, PLACES, "starts"), torch.stack(rows))


@pytest.mark.parametrize("pooling", ["mentions", "starts"])
def test_a_checkpoint_of_any_family_says_what_it_said(directory, tmp_path, pooling):
    model = load_classifier(directory, ("yes", "no"), seed=1, pooling=pooling)
    with torch.no_grad():
        said = model(**inputs()).logits
        hidden = model.base_model(input_ids=inputs()["input_ids"]).last_hidden_state
        assert torch.allclose(output_layer(model)(pooled(hidden, PLACES, pooling)), said)
    with quiet():
        model.save_pretrained(tmp_path / "tuned")
        encoder = AutoModel.from_pretrained(tmp_path / "tuned")
    again = load_finetuned(tmp_path / "tuned")
    assert (kind_of(again), labels_of(again)) == ("sequence", ("yes", "no"))
    with torch.no_grad():
        assert torch.equal(again(**inputs()).logits, said)
        assert torch.equal(encoder(input_ids=inputs()["input_ids"]).last_hidden_state, hidden)
    config = json.loads((tmp_path / "tuned" / "config.json").read_text())
    assert config["mention_pooling"] == pooling
    assert config["architectures"][0].endswith("ForMentionPairs")


def test_the_head_depends_on_the_seed_alone(directory):
    one, same, other = (load_classifier(directory, ("a", "b"), seed=seed, pooling="mentions") for seed in (1, 1, 2))
    heads = [output_layer(model).weight for model in (one, same, other)]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


def test_a_checkpoint_that_read_mentions_can_be_tuned_to_read_the_first_token(tmp_path):
    FAMILIES["bert"]().save_pretrained(tmp_path / "encoder")
    with quiet():
        load_classifier(tmp_path / "encoder", ("a", "b"), seed=1, pooling="starts").save_pretrained(tmp_path / "tuned")
    plain = load_classifier(tmp_path / "tuned", ("a", "b"), seed=1)
    assert type(plain).__name__ == "BertForSequenceClassification"
    assert not hasattr(plain.config, "mention_pooling")


def test_tags_have_no_two_mentions(tmp_path):
    FAMILIES["bert"]().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="not for kind 'tokens'"):
        load_classifier(tmp_path, ("O", "B"), seed=1, kind="tokens", pooling="mentions")
