"""Taggers with more than a linear layer: what they compute, and that checkpoints of every family keep them."""

import itertools
import json

import pytest
import torch
from transformers import AutoModel

from acclimate.models.classifier import classifier_kind, kind_in, labels_of, load_classifier, load_finetuned
from acclimate.models.formats import OF_PLACES
from acclimate.models.loading import quiet
from acclimate.models.scale import output_layer
from acclimate.models.task_layers import ConditionalRandomField, crf_of, pooled
from families import FAMILIES, VOCABULARY

LABELS = ("O", "B", "I")
LAYERS = ["bilstm", "crf", "bilstm-crf"]
TAGGED = ["bert", "roberta", "distilbert", "deberta-v2", "modernbert"]


def inputs():
    generator = torch.Generator().manual_seed(0)
    mask = torch.tensor([[1] * 7, [1, 1, 1, 1, 0, 0, 0]])
    return {"input_ids": torch.randint(5, VOCABULARY, (2, 7), generator=generator), "attention_mask": mask}


@pytest.fixture(params=TAGGED)
def directory(request, tmp_path):
    FAMILIES[request.param]().save_pretrained(tmp_path / "encoder")
    return tmp_path / "encoder"


@pytest.fixture
def bert(tmp_path):
    FAMILIES["bert"]().save_pretrained(tmp_path / "encoder")
    return tmp_path / "encoder"


def tagger(directory, layer, seed=1, **settings):
    return load_classifier(directory, LABELS, seed=seed, kind="tokens", layer=layer, **settings)


def assert_kept(model, place, arguments, kind, labels):
    """Save the model: what is loaded says the same, and transformers finds its encoder. Return it and its config."""
    with quiet():
        model.save_pretrained(place)
        encoder = AutoModel.from_pretrained(place)
    again, ids = load_finetuned(place), {name: arguments[name] for name in arguments if name != "mentions"}
    assert (classifier_kind(again), labels_of(again)) == (kind, labels)
    with torch.no_grad():
        assert torch.equal(again(**arguments).logits, model(**arguments).logits)
        assert torch.equal(encoder(**ids).last_hidden_state, model.base_model(**ids).last_hidden_state)
    assert all(torch.equal(again.state_dict()[name], value) for name, value in model.state_dict().items())
    return again, json.loads((place / "config.json").read_text())


@pytest.mark.parametrize(
    ("directory", "layer"),
    [*((name, "bilstm-crf") for name in TAGGED), ("bert", "bilstm"), ("bert", "crf")],
    indirect=["directory"],
)
def test_a_checkpoint_of_a_family_says_what_it_said(directory, tmp_path, layer):
    crf_settings = {"transitions_rate": 50.0} if "crf" in layer else {}
    model = tagger(directory, layer, **crf_settings)
    if (crf := crf_of(model)) is not None:
        torch.nn.init.normal_(crf.transitions)
    again, config = assert_kept(model, tmp_path / "tuned", inputs(), "tokens", LABELS)
    assert config["tag_layer"] == layer
    assert ("tag_transitions_rate" in config) == ("crf" in layer)
    if crf is not None:
        assert crf_of(again).rate == 50
    assert config["architectures"][0].endswith("ForTagSequences")


def test_no_weight_of_a_new_layer_is_what_memory_held(directory, monkeypatch):
    """transformers loads a model into memory that nothing has initialised."""
    empty_like = torch.empty_like

    def dirty(like, **stated):
        memory = empty_like(like, **stated)
        return memory.fill_(torch.nan) if memory.is_floating_point() and memory.device.type != "meta" else memory

    monkeypatch.setattr(torch, "empty_like", dirty)
    model = tagger(directory, "bilstm-crf")
    assert all(not weight.any() for weight in crf_of(model).parameters())
    assert all(torch.isfinite(weight).all() for weight in model.parameters())


def test_the_lstm_is_pytorch_s_over_the_real_tokens_alone(bert):
    model = tagger(bert, "bilstm")
    arguments = inputs()
    with torch.no_grad():
        said = model(**arguments).logits
        for row, length in enumerate(arguments["attention_mask"].sum(1).tolist()):
            hidden = model.base_model(input_ids=arguments["input_ids"][row : row + 1, :length]).last_hidden_state
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
        tagger(bert, "crf", transitions_rate=9.0).save_pretrained(tmp_path / "tuned")
    plain = tagger(tmp_path / "tuned", "linear")
    assert type(plain).__name__ == "BertForTokenClassification"
    assert not [name for name in vars(plain.config) if name.startswith("tag_")]


def test_layers_of_tags_are_for_tags_and_transitions_for_a_crf(bert):
    with pytest.raises(ValueError, match="layer='crf' applies to tags, not to kind 'sequence'"):
        load_classifier(bert, LABELS, seed=1, layer="crf")
    with pytest.raises(ValueError, match=r"transitions_rate=9\.0 is for a CRF, but the layer is 'linear'"):
        tagger(bert, "linear", transitions_rate=9.0)


TAGS = 3
LENGTHS = torch.tensor([4, 1, 3, 0, 2])
EDGES = torch.tensor([[1, 1], [1, 1], [0, 1], [1, 1], [1, 0]])


@pytest.fixture
def crf():
    torch.manual_seed(1)
    field = ConditionalRandomField(TAGS).double()
    for weight in field.parameters():
        torch.nn.init.normal_(weight)
    return field


def emissions(seed=2):
    return torch.randn(len(LENGTHS), 4, TAGS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tags(seed=3):
    return torch.randint(0, TAGS, (len(LENGTHS), 4), generator=torch.Generator().manual_seed(seed))


def score(crf, emissions_WC, sequence, begins=1, ends=1):
    total = sum(emissions_WC[word, tag] for word, tag in enumerate(sequence))
    total = total + sum(crf.transitions[before, tag] for before, tag in itertools.pairwise(sequence))
    return total + begins * crf.starts[sequence[0]] + ends * crf.ends[sequence[-1]]


def sequences(length):
    return list(itertools.product(range(TAGS), repeat=length))


def counted_out(crf, emissions_BWC, tags_BW):
    values = []
    for row, length in enumerate(LENGTHS.tolist()):
        if not length:
            values.append(torch.zeros((), dtype=torch.float64))
            continue
        scores = [score(crf, emissions_BWC[row], one, *EDGES[row].tolist()) for one in sequences(length)]
        path_score = score(crf, emissions_BWC[row], tags_BW[row, :length].tolist(), *EDGES[row].tolist())
        values.append(path_score - torch.logsumexp(torch.stack(scores), dim=0))
    return torch.stack(values)


def test_the_likelihood_is_that_of_every_sequence_counted_out(crf):
    said = crf.log_likelihood(emissions(), tags(), LENGTHS, EDGES)
    torch.testing.assert_close(said, counted_out(crf, emissions(), tags()), rtol=1e-12, atol=1e-12)
    assert (said[LENGTHS > 0] < 0).all()


def test_gradients_are_those_of_finite_differences(crf):
    weights = [weight.detach().clone().requires_grad_() for weight in crf.parameters()]

    def likelihood(emissions_BWC, *values):
        named = dict(zip(dict(crf.named_parameters()), values, strict=True))
        arguments = (emissions_BWC, tags(), LENGTHS, EDGES)
        return torch.func.functional_call(Likelihood(crf), {f"crf.{name}": v for name, v in named.items()}, arguments)

    assert torch.autograd.gradcheck(likelihood, (emissions().requires_grad_(), *weights))


class Likelihood(torch.nn.Module):
    def __init__(self, crf):
        super().__init__()
        self.crf = crf

    def forward(self, *arguments):
        return self.crf.log_likelihood(*arguments)


def test_what_stands_in_the_padding_has_no_say_and_gets_no_gradient(crf):
    one, other = emissions(), emissions()
    other_tags = tags()
    for row, length in enumerate(LENGTHS.tolist()):
        other[row, length:] = 1e4
        other_tags[row, length:] = 0
    other.requires_grad_()
    said = crf.log_likelihood(other, other_tags, LENGTHS, EDGES)
    assert torch.equal(said, crf.log_likelihood(one, tags(), LENGTHS, EDGES))
    said.sum().backward()
    assert all(not other.grad[row, length:].any() for row, length in enumerate(LENGTHS.tolist()))
    decoded = crf.most_probable(one, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        assert torch.equal(crf.most_probable(other, LENGTHS)[row, :length], decoded[row, :length])


def test_the_most_probable_sequence_is_the_best_of_all(crf):
    for seed in range(20):
        arguments = emissions(seed)
        result = crf.most_probable(arguments, LENGTHS)
        for row, length in enumerate(LENGTHS.tolist()):
            if length:
                best = max(
                    sequences(length),
                    key=lambda one, row=row, arguments=arguments: score(crf, arguments[row], one).item(),
                )
                assert tuple(result[row, :length].tolist()) == best


def test_a_rate_of_its_own_moves_its_weights_by_so_much_more_and_leaves_the_gradients_as_they_were():
    plain, fast = ConditionalRandomField(TAGS), ConditionalRandomField(TAGS, rate=100.0)
    for crf in (plain, fast):
        optimiser = torch.optim.AdamW(crf.parameters(), lr=1e-3, weight_decay=0.0)
        (-crf.log_likelihood(emissions().float(), tags(), LENGTHS, EDGES).sum()).backward()
        optimiser.step()
    for one, other, before, after in zip(
        plain.parameters(), fast.parameters(), plain.weights(), fast.weights(), strict=True
    ):
        assert torch.equal(one.grad, other.grad)
        torch.testing.assert_close(after, 100 * before)
    slow = plain.log_likelihood(emissions().float(), tags(), LENGTHS, EDGES)
    assert fast.log_likelihood(emissions().float(), tags(), LENGTHS, EDGES).sum() > slow.sum()
    best = fast.most_probable(emissions().float(), LENGTHS)
    other = ConditionalRandomField(TAGS)
    with torch.no_grad():
        for slow_weight, weight in zip(other.parameters(), fast.weights(), strict=True):
            slow_weight.copy_(weight)
    assert torch.equal(best, other.most_probable(emissions().float(), LENGTHS))


def test_scores_of_thousands_do_not_overflow():
    crf = ConditionalRandomField(TAGS)
    words = torch.tensor([[[5e4, 0.0, -5e4], [0.0, 5e4, 0.0]]])
    assert crf.log_likelihood(words, torch.tensor([[0, 1]]), torch.tensor([2]), torch.ones(1, 2)).item() == 0


PLACES = torch.tensor([[[1, 3], [4, 5]], [[2, 3], [3, 7]]])


def pooled_inputs():
    generator = torch.Generator().manual_seed(0)
    return {"input_ids": torch.randint(5, VOCABULARY, (2, 7), generator=generator), "mentions": PLACES}


def test_places_are_read_by_the_formula_of_each_pooling():
    hidden_BTD = torch.randn(2, 7, 4)
    expected = {"mentions": [], "starts": [], "pair": []}
    for states_TD, places in zip(hidden_BTD, PLACES.tolist(), strict=True):
        both = [states_TD[start:end] for start, end in places]
        u_D, v_D = (states.mean(dim=0) for states in both)
        expected["mentions"].append(torch.cat([states.max(dim=0).values for states in both]))
        expected["starts"].append(torch.cat([states[0] for states in both]))
        expected["pair"].append(torch.cat([u_D, v_D, (u_D - v_D).abs(), u_D * v_D]))
    for pooling, rows in expected.items():
        torch.testing.assert_close(pooled(hidden_BTD, PLACES, pooling), torch.stack(rows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mentions_can_be_the_mean_of_their_tokens_and_no_other_token_counts(dtype):
    hidden_BTD = torch.randn(2, 7, 4).to(dtype)
    rows = [
        torch.cat([hidden_BTD[row, start:end].mean(dim=0) for start, end in PLACES[row].tolist()]) for row in range(2)
    ]
    hidden_BTD[0, 6] = torch.inf
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = pooled(hidden_BTD, PLACES, "mentions-mean")
    torch.testing.assert_close(result, torch.stack(rows))


def summary(model, hidden_BTD, pooling):
    """What the classifier's linear layer reads, with nothing but what PyTorch has."""
    if model.lstm is None:
        read_BD = hidden_BTD[:, 0] if pooling in ("pooler", "first") else hidden_BTD.mean(1)
        read_BD = pooled(hidden_BTD, PLACES, pooling) if pooling in OF_PLACES else read_BD
        return torch.tanh(read_BD @ model.dense.weight.T + model.dense.bias) if model.dense is not None else read_BD
    states_BTD, (last_2BD, _) = model.lstm(hidden_BTD)
    half = model.lstm.hidden_size
    ends = torch.cat([states_BTD[:, -1, :half], states_BTD[:, 0, half:]], -1)
    assert torch.equal(ends, torch.cat([*last_2BD], -1))
    return ends if pooling == "first" else pooled(states_BTD, PLACES, pooling)


@pytest.mark.parametrize(
    ("directory", "pooling", "layer"),
    [
        *((name, "mentions", "bilstm") for name in FAMILIES),
        *(("bert", read, "linear") for read in ("starts", "mentions", "mentions-mean", "pair")),
        *(("bert", read, "bilstm") for read in ("first", "starts")),
        *(("bert", read, "mlp") for read in ("mentions-mean", "pooler", "mean")),
    ],
    indirect=["directory"],
)
def test_a_checkpoint_of_any_family_says_what_it_said(directory, tmp_path, pooling, layer):
    model = load_classifier(directory, ("yes", "no"), seed=1, pooling=pooling, sequence_layer=layer)
    with torch.no_grad():
        said = model(**pooled_inputs()).logits
        assert said.abs().max() > 1e-3
        hidden = model.base_model(input_ids=inputs()["input_ids"]).last_hidden_state
        assert torch.allclose(output_layer(model)(summary(model, hidden, pooling)), said, atol=1e-6)
    _, config = assert_kept(model, tmp_path / "tuned", pooled_inputs(), "sequence", ("yes", "no"))
    assert config.get("text_pooling", "pooler") == pooling
    assert config.get("sequence_layer", "linear") == layer
    assert config["architectures"][0].endswith("ForPooledStates")


@pytest.mark.parametrize(
    ("directory", "pooling"),
    [*((name, "first") for name in FAMILIES), ("bert", "mentions"), ("bert", "starts")],
    indirect=["directory"],
)
def test_the_lstm_sees_no_padding(directory, pooling):
    model = load_classifier(directory, ("yes", "no"), seed=1, pooling=pooling, sequence_layer="bilstm")
    short, places = pooled_inputs()["input_ids"][:, :5], PLACES.clamp(max=5)
    padded = torch.nn.functional.pad(short, (0, 2), value=model.config.pad_token_id or 0)
    mask = torch.tensor([[1, 1, 1, 1, 1, 0, 0]] * 2)
    arguments = {} if pooling == "first" else {"mentions": places}
    with torch.no_grad():
        alone = model(input_ids=short, **arguments).logits
        beside = model(input_ids=padded, attention_mask=mask, **arguments).logits
    torch.testing.assert_close(beside, alone, rtol=1e-5, atol=1e-5)


def test_the_lstm_is_float32_under_autocast(bert):
    model = load_classifier(bert, ("yes", "no"), seed=1, sequence_layer="bilstm")
    seen = []
    model.dropout.register_forward_hook(lambda _, arguments, said: seen.append(said.dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        model(input_ids=inputs()["input_ids"])
    assert seen == [torch.float32]


def test_a_checkpoint_of_the_first_version_is_still_read(bert, tmp_path):
    """Which called its classes `<Family>ForMentionPairs`."""
    model = load_classifier(bert, ("yes", "no"), seed=1, pooling="mentions")
    with quiet():
        model.save_pretrained(tmp_path / "tuned")
    place = tmp_path / "tuned" / "config.json"
    place.write_text(place.read_text().replace("ForPooledStates", "ForMentionPairs"))
    again = load_finetuned(tmp_path / "tuned")
    assert (kind_in(again.config), classifier_kind(again)) == ("sequence", "sequence")
    with torch.no_grad():
        assert torch.equal(again(**pooled_inputs()).logits, model(**pooled_inputs()).logits)


def test_the_head_of_pooled_states_depends_on_the_seed_alone(bert):
    one, same, other = (
        load_classifier(bert, ("a", "b"), seed=seed, pooling="mentions", sequence_layer="mlp") for seed in (1, 1, 2)
    )
    for layer in ("dense", "classifier"):
        heads = [getattr(model, layer).weight for model in (one, same, other)]
        assert torch.equal(heads[0], heads[1])
        assert not torch.equal(heads[0], heads[2])


def test_an_mlp_is_as_wide_as_the_encoder_and_its_last_layer_is_the_output_layer(bert):
    """Also with as many labels as dimensions."""
    width = FAMILIES["bert"]().config.hidden_size
    labels = [f"label {number}" for number in range(width)]
    model = load_classifier(bert, labels, seed=1, pooling="mentions-mean", sequence_layer="mlp")
    assert tuple(model.dense.weight.shape) == (width, 2 * width)
    assert output_layer(model) is model.classifier


def test_a_checkpoint_that_read_mentions_can_be_tuned_to_read_the_first_token_but_no_tags(bert, tmp_path):
    with quiet():
        load_classifier(bert, ("a", "b"), seed=1, pooling="starts").save_pretrained(tmp_path / "tuned")
    plain = load_classifier(tmp_path / "tuned", ("a", "b"), seed=1)
    assert type(plain).__name__ == "BertForSequenceClassification"
    assert not hasattr(plain.config, "text_pooling")
    for asked in ({"sequence_layer": "bilstm"}, {"pooling": "mentions"}):
        with pytest.raises(ValueError, match="not to kind 'tokens'"):
            load_classifier(bert, ("O", "B"), seed=1, kind="tokens", **asked)


def test_marginals_of_a_crf_are_sums_over_all_sequences_of_tags(crf):
    result = crf.marginals(emissions(), LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        expected = torch.zeros(length, TAGS, dtype=torch.float64)
        for sequence in sequences(length) if length else ():
            for word, tag in enumerate(sequence):
                expected[word, tag] += score(crf, emissions()[row], sequence).exp().detach()
        if length:
            torch.testing.assert_close(result[row, :length], expected / expected.sum(1, keepdim=True))
