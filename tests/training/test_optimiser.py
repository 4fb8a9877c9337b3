"""Word embeddings that move by rows end where torch's AdamW takes them with dense gradients, to the bit."""

import pytest
import torch
from tests import conformance
from torch import nn
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

from acclimate.training import loop
from acclimate.training.loop import adamw, train
from acclimate.training.optimiser import AdamW, gradient_by_rows, word_embeddings
from acclimate.training.shards import clip

CONFIG = BertConfig(vocab_size=300, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)


def optimiser_of(words, *, torchs=False):
    groups = [{"params": [words.weight], "weight_decay": 0.1}]
    return torch.optim.AdamW(groups, lr=1e-2, fused=True) if torchs else AdamW(groups, lr=1e-2)


def moved(*, steps, by_rows, dense_at=(), loaded_at=None):
    """Return word embeddings after steps of two pieces each, and AdamW's state of them."""
    torch.manual_seed(0)
    words = nn.Embedding(1000, 48, padding_idx=0)
    optimiser = optimiser_of(words, torchs=not by_rows)
    for step in range(steps):
        if step == loaded_at:
            state = optimiser.state_dict()
            optimiser = optimiser_of(words, torchs=not by_rows)
            optimiser.load_state_dict(state)
        optimiser.param_groups[0]["lr"] = 1e-2 / (1 + step)
        with gradient_by_rows([words] if by_rows else []):
            for piece in range(2):
                ids = torch.randint(0, 20 * (step + 1), (15,))
                (words(ids) * torch.randn(15, 48)).sum().backward()
                if step in dense_at and piece:
                    (words.weight[500:] ** 2).sum().backward()
        assert words.weight.grad.is_sparse == (by_rows and step not in dense_at)
        clip([words.weight], 1.0)
        optimiser.step()
        optimiser.zero_grad()
    return words.weight.detach(), optimiser.state[words.weight]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("given", [{}, {"dense_at": (4,)}, {"loaded_at": 5}])
def test_rows_end_where_a_dense_gradient_takes_them(threads, given, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    found, state = moved(steps=8, by_rows=True, **given)
    expected, expected_state = moved(steps=8, by_rows=False, **given)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
    assert set(state) == set(expected_state)
    for name, value in state.items():
        torch.testing.assert_close(value, expected_state[name], rtol=1e-5, atol=1e-9)


def test_words_whose_matrix_a_head_shares_keep_a_dense_gradient():
    assert word_embeddings(BertForMaskedLM(CONFIG)) == []
    model = BertForSequenceClassification(CONFIG)
    assert word_embeddings(model) == [model.bert.embeddings.word_embeddings]
    assert word_embeddings(model.to(torch.bfloat16)) == []


def test_words_are_as_they_were_after_a_failure():
    words = nn.Embedding(10, 4)
    with pytest.raises(RuntimeError), gradient_by_rows([words]):
        raise RuntimeError
    assert not words.sparse


def test_fine_tuning_by_rows_has_the_losses_of_dense_gradients(monkeypatch):
    case = conformance.OBJECTIVES["task"]()
    losses = []
    for choose in (word_embeddings, lambda _: []):
        monkeypatch.setattr(loop, "word_embeddings", choose)
        objective = case.objective(0.1)
        optimiser = adamw(objective, conformance.PLAN)
        losses.append([step.loss for step in train(objective, case.stream, conformance.PLAN, optimiser)])
        assert bool(optimiser._met) == (choose is word_embeddings)
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
