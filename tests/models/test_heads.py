"""Heads: sparse logits are the dense ones, and rows that share lines are those of rows alone."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from acclimate.core.types import NOT_PREDICTED, TAGS, Batch
from acclimate.methods.task_loss import outputs_of, target_in_rows
from acclimate.models.encoder import family
from acclimate.models.families import first_position
from acclimate.models.heads import (
    POSITIONWISE,
    SHARES_LINES,
    SPARSE_HEADS,
    has_sparse_head,
    hidden_and_masked_logits,
    inputs_of,
    masked_logits,
    rows_of,
    states_and_masked_logits,
)
from acclimate.training.kernels import kernels
from acclimate.training.pieces import ROUND, Layout, pad, together
from acclimate.training.plan import Plan
from families import FAMILIES, VOCABULARY, mpnet

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


def test_sparse_logits_are_the_dense_ones_from_the_last_attention_at_these_positions_alone(model):
    piece, positions = piece_for(model), places(12)
    dense = model(**piece).logits.flatten(0, 1)[positions]
    sparse = masked_logits(model, piece, positions)
    assert has_sparse_head(model)
    assert sparse.shape == (6, VOCABULARY)
    assert dense.std() > 0.1  # otherwise the tolerance would say nothing
    torch.testing.assert_close(sparse, dense, atol=1e-5, rtol=0)
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


def test_a_full_attention_mask_and_none_give_the_same_logits_and_no_masked_position_none(model):
    piece, positions = piece_for(model, lengths=(8, 8), width=8), torch.tensor([2, 9])
    with_mask = masked_logits(model, piece, positions)
    without = masked_logits(model, {"input_ids": piece["input_ids"]}, positions)
    assert torch.equal(with_mask, without)
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


LENGTHS_LINES = np.array([7, 3, 5, 9])
CPU = torch.device("cpu")


def rows_of_tokens(pad_id):
    ids = np.random.default_rng(0).integers(5, VOCABULARY, LENGTHS_LINES.sum())
    return Batch(ids, np.concatenate([[0], np.cumsum(LENGTHS_LINES)]), {}, {}, ["a", "b", "c", "d"], pad_id)


# rows 3 and 1 on the first line, 2 and 0 on the second, which ends in padding
SHARED = Layout(np.array([3, 1, 2, 0]), np.array([0, 0, 1, 1]), np.array([0, 9, 0, 5]), lines=2, width=13)


@pytest.mark.parametrize("auto", [AutoModelForSequenceClassification, AutoModelForTokenClassification, None])
@pytest.mark.parametrize("family", SHARES_LINES)
def test_a_head_says_of_rows_on_shared_lines_what_it_says_of_rows_alone(family, auto):
    config = FAMILIES[family]().config
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = (auto or AutoModelForQuestionAnswering).from_config(config).eval()
    batch = rows_of_tokens(config.pad_token_id or 0)
    piece = pad(batch, together(LENGTHS_LINES), CPU)
    alone, shared = outputs_of(model, piece), outputs_of(model, pad(batch, SHARED, CPU))
    if auto is AutoModelForSequenceClassification:
        torch.testing.assert_close(alone, model(**inputs_of(model, piece)).logits, rtol=1e-5, atol=1e-5)
    for place, row in enumerate(SHARED.rows_R):
        length = LENGTHS_LINES[row] if shared.ndim == 3 else len(shared[place])
        torch.testing.assert_close(shared[place][:length], alone[row][:length], rtol=1e-5, atol=1e-5)
    assert not model.base_model._forward_hooks


@pytest.mark.parametrize("layout", [together(LENGTHS_LINES), SHARED])
@pytest.mark.parametrize("family", SHARES_LINES)
def test_of_tokens_with_a_tag_the_head_says_what_it_says_where_all_are_computed(family, layout):
    config = FAMILIES[family]().config
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForTokenClassification.from_config(config).eval()
    batch = rows_of_tokens(config.pad_token_id or 0)
    tags = np.where(np.arange(LENGTHS_LINES.sum()) % 3, NOT_PREDICTED, 1)
    expected = outputs_of(model, pad(batch, layout, CPU))
    computed = []
    linear = [module for module in model.base_model.modules() if isinstance(module, torch.nn.Linear)]
    linear[-1].register_forward_hook(lambda _, given, __: computed.append(given[0].shape[:-1].numel()))
    piece = pad(replace(batch, tokens={TAGS: tags}), layout, CPU)
    there = target_in_rows(piece) != NOT_PREDICTED
    assert 3 < there.sum() < 16
    torch.testing.assert_close(outputs_of(model, piece)[there], expected[there], rtol=1e-5, atol=1e-5)
    assert computed == [ROUND]


@pytest.mark.parametrize("family", SHARES_LINES)
def test_gradients_are_those_of_rows_alone_also_where_a_token_is_read_more_than_once(family):
    """The filling of predicted positions repeats a place, and a first token may be predicted."""
    model = FAMILIES[family]()
    batch, picked = rows_of_tokens(model.config.pad_token_id or 0), [(0, 2), (3, 0), (0, 2), (3, 8), (3, 0)]
    found = []
    for layout in (together(LENGTHS_LINES), SHARED):
        piece, row = pad(batch, layout, CPU), {int(row): place for place, row in enumerate(layout.rows_R)}
        firsts = piece["firsts"][[row[number] for number in range(4)]]
        positions = torch.stack([firsts[number] + column for number, column in picked])
        model.zero_grad()
        with kernels(Plan(), CPU):
            states, logits = states_and_masked_logits(model, piece, firsts, positions)
        (states.square().sum() + logits.square().sum()).backward()
        found.append({name: each.grad for name, each in model.named_parameters() if each.grad is not None})
    alone, shared = found
    assert len(alone) > 10
    within = 1e-5 * float(max(gradient.abs().max() for gradient in alone.values()))
    for name, gradient in alone.items():
        torch.testing.assert_close(shared[name], gradient, atol=within, rtol=1e-4, msg=name)


@pytest.mark.parametrize("layout", [together(LENGTHS_LINES), SHARED])
@pytest.mark.parametrize("family", SHARES_LINES)
def test_of_a_text_whose_first_token_is_read_the_last_layer_computes_no_other(family, layout):
    """Where rows share lines, nor asks for another: a query that nobody reads is not computed."""
    config = FAMILIES[family]().config
    model = AutoModelForSequenceClassification.from_config(config).eval()
    names = POSITIONWISE[family]
    last = attrgetter(names.layers)(model.base_model)[-1]
    [*_, output] = [module for module in last.modules() if isinstance(module, torch.nn.Linear)]
    computed = []
    for module in (attrgetter(names.query)(last), output):
        module.register_forward_hook(lambda _, given, __: computed.append(given[0].shape[:-1].numel()), prepend=True)
    outputs_of(model, pad(rows_of_tokens(config.pad_token_id or 0), layout, CPU))
    assert computed == [4 if layout is SHARED else 36, 4]


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("family", SHARES_LINES)
def test_a_line_may_be_longer_than_the_longest_row_that_the_model_reads(family, alone):
    """Also in a piece in which no rows share a line, while those of other pieces of the step do."""
    config = FAMILIES[family]().config
    config.max_position_embeddings = int(LENGTHS_LINES.max()) + first_position(family, config.pad_token_id)
    assert config.max_position_embeddings < SHARED.width
    model = AutoModelForSequenceClassification.from_config(config).eval()
    batch = rows_of_tokens(config.pad_token_id or 0)
    layout = Layout(SHARED.rows_R, np.arange(4), np.zeros(4, np.int64), lines=4, width=13) if alone else SHARED
    assert layout.shared is not alone
    expected = outputs_of(model, pad(batch, together(LENGTHS_LINES), CPU))[SHARED.rows_R]
    torch.testing.assert_close(outputs_of(model, pad(batch, layout, CPU)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("auto", [AutoModelForSequenceClassification, AutoModelForTokenClassification])
def test_several_threads_predict_with_one_model(auto):
    """Each with pieces of its own, whose places mean nothing in those of the others."""
    model = auto.from_config(FAMILIES["bert"]().config).eval()
    pieces = [pad(rows_of_tokens(0), layout, CPU) for layout in (SHARED, together(LENGTHS_LINES))] * 2

    @torch.no_grad()
    def predicted(piece):
        return [outputs_of(model, piece) for _ in range(30)]

    alone = [outputs_of(model, piece).detach() for piece in pieces]
    with ThreadPoolExecutor(4) as pool:
        for several, expected in zip(pool.map(predicted, pieces), alone, strict=True):
            for found in several:
                torch.testing.assert_close(found, expected)


def test_values_of_tokens_stand_by_rows_again():
    batch = rows_of_tokens(0)
    piece = pad(batch, SHARED, CPU)
    rows = rows_of(piece)
    alone = rows.alone(piece["input_ids"], -1)
    assert alone.shape == (4, 9)
    for place, row in enumerate(SHARED.rows_R):
        ids = batch.ids[batch.offsets[row] : batch.offsets[row + 1]]
        assert alone[place].tolist() == ids.tolist() + [-1] * (9 - len(ids))
    assert rows_of(pad(batch, together(LENGTHS_LINES), CPU)) is None
