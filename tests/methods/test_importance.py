"""Importance of heads: Eq. 5 to 8 and 10 of DGA."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from acclimate.methods.domain import divergence, hidden_states
from acclimate.methods.importance import head_importance, normalised, row_gradients
from acclimate.models.families import PARTS
from acclimate.models.gates import gate_shape, gated
from acclimate.models.heads import keeps_rows_apart
from acclimate.training.pieces import pad, together
from conformance import toy_rows
from families import FAMILIES

CPU = torch.device("cpu")


def texts(model, step=0):
    return replace(toy_rows(model.config.pad_token_id or 0, step), tokens={})


def divergence_of(first_TD, second_TD):
    """Mean over tokens of sum_d p_d ln(p_d / q_d), p and q written out."""
    total = 0.0
    for first, second in zip(first_TD.tolist(), second_TD.tolist(), strict=True):
        p = [math.exp(value) / sum(map(math.exp, first)) for value in first]
        q = [math.exp(value) / sum(map(math.exp, second)) for value in second]
        total += sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    return total / len(first_TD)


def test_divergence_is_that_of_softmax_over_the_numbers_of_each_state():
    first_TD, second_TD = torch.randn(2, 2, 5, generator=torch.Generator().manual_seed(0))
    mean = float(divergence(first_TD[None], second_TD[None]).mean())
    assert mean == pytest.approx(divergence_of(first_TD, second_TD), rel=1e-5)


def test_two_sentences_by_finite_differences():
    """Eq. 6 from its definition: each gate moved a little, one row at a time, under the same noise."""
    model = FAMILIES["bert"](dropout=0.1).double()
    batch = texts(model).take(np.array([0, 1]))
    rows = [pad(batch.take(np.array([row])), together(batch.lengths[[row]]), CPU) for row in range(2)]
    expected_LH = torch.zeros(2, 2, dtype=torch.float64)
    found_LH = torch.zeros(2, 2, dtype=torch.float64)
    model.train()
    for seed, piece in enumerate(rows):

        def loss(gates_LH, piece=piece, seed=seed):
            torch.manual_seed(seed)
            with torch.no_grad(), gated(model, {"heads": gates_LH}):
                states = [hidden_states(model, piece)[0] for _ in range(2)]
            return divergence_of(*states)

        for place in itertools.product(range(2), range(2)):
            step = torch.zeros(2, 2, dtype=torch.float64)
            step[place] = 1e-3
            expected_LH[place] += abs(loss(1 + step) - loss(1 - step)) / 2e-3 / 2
        torch.manual_seed(seed)
        found_LH += row_gradients(model, piece, 1, ("heads",))["heads"][0].abs() / 2
    torch.testing.assert_close(found_LH, expected_LH, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["bert", "roberta", "modernbert"])
def test_importance_is_the_mean_of_absolute_gradients_of_rows_alone(name, monkeypatch):
    """Noise depends on how rows lie. Here the second pass differs by its embeddings instead: half of them."""
    model, turn = FAMILIES[name]().eval(), itertools.count()
    halves = {"embeddings": torch.full(gate_shape(model, "embeddings"), 0.5)}

    def passes(model, piece):
        with gated(model, halves if next(turn) % 2 else {}):
            return hidden_states(model, piece)

    monkeypatch.setattr("acclimate.methods.importance.hidden_states", passes)
    batch = texts(model)
    assert keeps_rows_apart(model) == (name != "modernbert")
    alone = [batch.take(np.array([row])) for row in range(len(batch))]
    gradients = torch.cat(
        [row_gradients(model, pad(row, together(row.lengths), CPU), 1, ("heads",))["heads"] for row in alone]
    )
    assert (gradients < 0).any()
    assert (gradients > 0).any()
    found = head_importance(model, [batch.take(np.arange(5)), batch.take(np.arange(5, 8))], seed=0)["heads"]
    torch.testing.assert_close(found, gradients.abs().mean(0), rtol=1e-3, atol=1e-7)


def test_it_is_the_same_for_a_seed_and_another_for_another():
    model = FAMILIES["bert"](dropout=0.1)
    first, again = (head_importance(model, [texts(model)], seed=1)["heads"] for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, head_importance(model, [texts(model)], seed=2)["heads"])
    assert first.shape == (2, 2)
    assert (first > 0).all()


def test_every_part_has_an_importance_and_masked_tokens_are_put_back():
    model = FAMILIES["electra"](dropout=0.1)
    found = head_importance(model, [texts(model)], parts=PARTS, seed=0)
    for part in PARTS:
        assert found[part].shape == gate_shape(model, part)
        assert (found[part] > 0).all()
    model = FAMILIES["bert"](dropout=0.1)
    text = toy_rows(0, 0)
    hidden = replace(text, ids=np.where(text.tokens["labels"] >= 0, 4, text.ids))
    whole, filled = (head_importance(model, [one], seed=0)["heads"] for one in (replace(text, tokens={}), hidden))
    assert torch.equal(whole, filled)


def test_the_model_is_left_as_it_was():
    model = FAMILIES["bert"](dropout=0.1).eval()
    model.bert.pooler = None
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)
    model.bert.encoder.layer[0].train()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    modes = [module.training for module in model.modules()]
    state = torch.get_rng_state()
    head_importance(model, [texts(model)], seed=0)
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())
    assert [module.training for module in model.modules()] == modes
    assert [name for name, weight in model.named_parameters() if not weight.requires_grad] == [
        "bert.embeddings.word_embeddings.weight"
    ]
    assert all(weight.grad is None for weight in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_model_without_dropout_and_no_texts_are_refused():
    model = FAMILIES["bert"](dropout=0.0)
    with pytest.raises(ValueError, match=r"the model has no dropout.*Set dropout=0.1 and attention_dropout=0.1"):
        head_importance(model, [texts(model)], seed=0)
    assert all(weight.requires_grad for weight in model.parameters())
    with pytest.raises(ValueError, match="no texts"):
        head_importance(FAMILIES["bert"](dropout=0.1), [], seed=0)


def test_halves_of_the_texts_agree():
    """What the released code computes does not (methods.md: r = .18): it has no dropout."""
    model = FAMILIES["bert"](dropout=0.1)
    halves = [
        head_importance(model, [texts(model, step) for step in range(first, 40, 2)], seed=first)["heads"].flatten()
        for first in range(2)
    ]
    assert float(torch.corrcoef(torch.stack(halves))[0, 1]) > 0.9


def test_normalisation_as_printed():
    importance_LH = torch.tensor([[1.0, 2.0, 4.0], [5.0, 5.0, 8.0]])
    expected = []
    for layer in importance_LH.tolist():
        mean = sum(layer) / 3
        spread = math.sqrt(sum((value - mean) ** 2 for value in layer) / 2)  # unbiased
        expected.append([abs(math.tanh((value - mean) / spread)) for value in layer])
    torch.testing.assert_close(normalised(importance_LH), torch.tensor(expected))
    over_all = normalised(importance_LH, over="model")
    z = (importance_LH - importance_LH.mean()) / importance_LH.std()
    torch.testing.assert_close(over_all, z.tanh().abs())


def test_unsigned_normalisations():
    importance_LH = torch.tensor([[1.0, 2.0, 5.0, 2.0], [9.0, 8.0, 7.0, 6.0]])
    torch.testing.assert_close(
        normalised(importance_LH, "min-max"), torch.tensor([[0, 0.25, 1, 0.25], [1, 2 / 3, 1 / 3, 0]])
    )
    torch.testing.assert_close(
        normalised(importance_LH, "rank"), torch.tensor([[0, 0.5, 1, 0.5], [1, 2 / 3, 1 / 3, 0]])
    )
    assert normalised(importance_LH, "rank", over="model").tolist()[1] == pytest.approx([1, 6 / 7, 5 / 7, 4 / 7])


@pytest.mark.parametrize(("how", "value"), [("paper", 0.0), ("min-max", 0.0), ("rank", 0.5)])
def test_equally_important_heads(how, value):
    assert normalised(torch.full((2, 3), 7.0), how).tolist() == [[value] * 3] * 2


def test_a_layer_with_one_head_has_nothing_to_be_compared_with():
    assert normalised(torch.tensor([[3.0], [4.0]])).tolist() == [[0.0], [0.0]]
