"""Classifiers that read mentions or an LSTM: what they read, and that checkpoints of every family keep them."""

import json

import pytest
import torch
from transformers import AutoModel

from acclimate.models.classifier import kind_in, kind_of, labels_of, load_classifier, load_finetuned
from acclimate.models.loading import quiet
from acclimate.models.scale import output_layer
from acclimate.models.task_layers import pooled
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


def summary(model, hidden_BTD, pooling):
    """What the classifier's linear layer reads, with nothing but what PyTorch has."""
    if model.lstm is None:
        return pooled(hidden_BTD, PLACES, pooling)
    states_BTD, (last_2BD, _) = model.lstm(hidden_BTD)
    half = model.lstm.hidden_size
    ends = torch.cat([states_BTD[:, -1, :half], states_BTD[:, 0, half:]], -1)
    assert torch.equal(ends, torch.cat([*last_2BD], -1))
    return ends if pooling == "first" else pooled(states_BTD, PLACES, pooling)


@pytest.mark.parametrize(
    ("pooling", "layer"),
    [("mentions", "linear"), ("starts", "linear"), ("first", "bilstm"), ("mentions", "bilstm"), ("starts", "bilstm")],
)
def test_a_checkpoint_of_any_family_says_what_it_said(directory, tmp_path, pooling, layer):
    model = load_classifier(directory, ("yes", "no"), seed=1, pooling=pooling, sequence_layer=layer)
    with torch.no_grad():
        said = model(**inputs()).logits
        hidden = model.base_model(input_ids=inputs()["input_ids"]).last_hidden_state
        assert torch.allclose(output_layer(model)(summary(model, hidden, pooling)), said, atol=1e-6)
    with quiet():
        model.save_pretrained(tmp_path / "tuned")
        encoder = AutoModel.from_pretrained(tmp_path / "tuned")
    again = load_finetuned(tmp_path / "tuned")
    assert (kind_of(again), labels_of(again)) == ("sequence", ("yes", "no"))
    with torch.no_grad():
        assert torch.equal(again(**inputs()).logits, said)
        assert torch.equal(encoder(input_ids=inputs()["input_ids"]).last_hidden_state, hidden)
    config = json.loads((tmp_path / "tuned" / "config.json").read_text())
    assert config.get("mention_pooling", "first") == pooling
    assert config.get("sequence_layer", "linear") == layer
    assert config["architectures"][0].endswith("ForPooledStates")


@pytest.mark.parametrize("pooling", ["first", "mentions", "starts"])
def test_the_lstm_sees_no_padding(directory, pooling):
    model = load_classifier(directory, ("yes", "no"), seed=1, pooling=pooling, sequence_layer="bilstm")
    short, places = inputs()["input_ids"][:, :5], PLACES.clamp(max=5)
    padded = torch.nn.functional.pad(short, (0, 2), value=model.config.pad_token_id or 0)
    mask = torch.tensor([[1, 1, 1, 1, 1, 0, 0]] * 2)
    given = {} if pooling == "first" else {"mentions": places}
    with torch.no_grad():
        alone = model(input_ids=short, **given).logits
        beside = model(input_ids=padded, attention_mask=mask, **given).logits
    torch.testing.assert_close(beside, alone, rtol=1e-5, atol=1e-5)


def test_the_lstm_is_float32_under_autocast(tmp_path):
    FAMILIES["bert"]().save_pretrained(tmp_path)
    model = load_classifier(tmp_path, ("yes", "no"), seed=1, sequence_layer="bilstm")
    seen = []
    model.dropout.register_forward_hook(lambda _, given, said: seen.append(said.dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        model(input_ids=inputs()["input_ids"])
    assert seen == [torch.float32]


def test_a_checkpoint_of_the_first_version_is_still_read(tmp_path):
    """Which called its classes `<Family>ForMentionPairs`."""
    FAMILIES["bert"]().save_pretrained(tmp_path / "encoder")
    model = load_classifier(tmp_path / "encoder", ("yes", "no"), seed=1, pooling="mentions")
    with quiet():
        model.save_pretrained(tmp_path / "tuned")
    place = tmp_path / "tuned" / "config.json"
    place.write_text(place.read_text().replace("ForPooledStates", "ForMentionPairs"))
    again = load_finetuned(tmp_path / "tuned")
    assert (kind_in(again.config), kind_of(again)) == ("sequence", "sequence")
    with torch.no_grad():
        assert torch.equal(again(**inputs()).logits, model(**inputs()).logits)


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


def test_tags_have_no_two_mentions_and_a_layer_of_their_own(tmp_path):
    FAMILIES["bert"]().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="sequence_layer='bilstm' is for labels of whole texts, not for kind 'tokens'"):
        load_classifier(tmp_path, ("O", "B"), seed=1, kind="tokens", sequence_layer="bilstm")
    with pytest.raises(ValueError, match="not for kind 'tokens'"):
        load_classifier(tmp_path, ("O", "B"), seed=1, kind="tokens", pooling="mentions")
