import pytest
import torch
from tests.families import FAMILIES, VOCABULARY, mpnet
from torch.nn.functional import cross_entropy

from acclimate.models.encoder import family
from acclimate.models.heads import (
    POSITIONWISE,
    SPARSE_HEADS,
    has_sparse_head,
    hidden_and_masked_logits,
    inputs_of,
    masked_logits,
    states_and_masked_logits,
)

LENGTHS = (12, 9, 5)


def piece_for(model, lengths=LENGTHS, width=12):
    """A piece of random rows, padded to `width`; the rows do not depend on the width."""
    pad = model.config.pad_token_id
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randint(5, VOCABULARY, (length,), generator=generator) for length in lengths]
    ids = torch.full((len(rows), width), pad)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = tokens
    real = torch.arange(width) < torch.tensor(lengths)[:, None]
    return {"input_ids": ids, "attention_mask": real.long()}


def places(width):
    """Three positions of the first row, one of the second, two of the last."""
    return torch.tensor([0, 3, 11, width + 8, 2 * width + 1, 2 * width + 4])


@pytest.fixture(params=FAMILIES)
def model(request):
    return FAMILIES[request.param]()


def test_there_is_a_model_for_every_sparse_head():
    assert {family(make()) for make in FAMILIES.values()} == set(SPARSE_HEADS)


def test_sparse_logits_are_the_dense_ones(model):
    piece, positions = piece_for(model), places(12)
    dense = model(**piece).logits.flatten(0, 1)[positions]
    sparse = masked_logits(model, piece, positions)
    assert has_sparse_head(model)
    assert sparse.shape == (6, VOCABULARY)
    assert dense.std() > 0.1  # otherwise the tolerance would say nothing
    torch.testing.assert_close(sparse, dense, atol=1e-5, rtol=0)


def test_the_last_layer_goes_on_from_its_attention_at_these_positions_alone(model):
    linear = [module for module in model.base_model.modules() if isinstance(module, torch.nn.Linear)]
    read = []
    hook = linear[-1].register_forward_hook(lambda _, given, __: read.append(given[0].shape[:-1].numel()))
    masked_logits(model, piece_for(model), places(12))
    model(**piece_for(model))
    hook.remove()
    assert read == [6 if family(model) in POSITIONWISE else 36, 36]


def test_gradients_through_sparse_logits_are_the_dense_ones(model):
    piece, positions = piece_for(model), places(12)
    labels = torch.arange(len(positions)) + 5

    def gradients(logits):
        model.zero_grad()
        cross_entropy(logits, labels).backward()
        return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}

    dense = gradients(model(**piece).logits.flatten(0, 1)[positions])
    sparse = gradients(masked_logits(model, piece, positions))
    assert dense.keys() == sparse.keys()
    assert any(gradient.abs().max() > 0.01 for gradient in dense.values())
    for name, gradient in dense.items():
        torch.testing.assert_close(sparse[name], gradient, atol=1e-5, rtol=0, msg=name)


def test_a_full_attention_mask_and_none_give_the_same_logits(model):
    piece, positions = piece_for(model, lengths=(8, 8), width=8), torch.tensor([2, 9])
    with_mask = masked_logits(model, piece, positions)
    without = masked_logits(model, {"input_ids": piece["input_ids"]}, positions)
    assert torch.equal(with_mask, without)


def test_no_masked_position_gives_no_logits_and_zero_gradients(model):
    logits = masked_logits(model, piece_for(model), torch.tensor([], dtype=torch.int64))
    assert logits.shape == (0, VOCABULARY)
    logits.sum().backward()
    assert all((weight.grad == 0).all() for weight in model.parameters() if weight.grad is not None)


def test_a_family_without_a_sparse_head_computes_every_position():
    model = mpnet()
    piece, positions = piece_for(model), places(12)
    assert not has_sparse_head(model)
    dense = model(**piece).logits.flatten(0, 1)[positions]
    assert torch.equal(masked_logits(model, piece, positions), dense)


@pytest.mark.parametrize("name", [*FAMILIES, "mpnet"])
def test_hidden_states_and_logits_of_one_pass_are_those_of_the_encoder_and_the_head(name):
    model = mpnet() if name == "mpnet" else FAMILIES[name]()
    piece, positions = piece_for(model), places(12)
    hidden, logits = hidden_and_masked_logits(model, piece, positions)
    torch.testing.assert_close(hidden, model.base_model(**piece).last_hidden_state, atol=1e-6, rtol=0)
    torch.testing.assert_close(logits, masked_logits(model, piece, positions), atol=1e-5, rtol=0)
    firsts = torch.tensor([0, 12, 24])
    states, beside = states_and_masked_logits(model, piece, firsts, positions)
    torch.testing.assert_close(states, hidden[:, 0], atol=1e-5, rtol=0)
    torch.testing.assert_close(beside, logits, atol=1e-5, rtol=0)


def test_token_types_go_only_to_models_that_know_two():
    taken = {}
    for name, make in {**FAMILIES, "mpnet": mpnet}.items():
        model = make()
        piece = piece_for(model)
        piece |= {"token_type_ids": torch.ones_like(piece["input_ids"]), "labels": piece["input_ids"]}
        inputs = inputs_of(model, piece)
        model(**inputs)
        assert set(inputs) - {"token_type_ids"} == {"input_ids", "attention_mask"}
        taken[name] = "token_type_ids" in inputs
    assert {name for name, takes in taken.items() if takes} == {"bert", "electra"}


def test_a_family_becomes_sparse_by_one_line(monkeypatch):
    """CONTRIBUTING, "How to add an encoder family": MPNet, which has no sparse head yet."""
    model = mpnet()
    piece, positions = piece_for(model), places(12)
    dense = masked_logits(model, piece, positions)
    assert not has_sparse_head(model)
    monkeypatch.setitem(SPARSE_HEADS, "mpnet", lambda model, hidden_MD: model.lm_head(hidden_MD))
    assert has_sparse_head(model)
    torch.testing.assert_close(masked_logits(model, piece, positions), dense, atol=1e-5, rtol=0)
