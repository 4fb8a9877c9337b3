"""TAPTER's loss against Eq. 1 written out, its readings, and every family's embeddings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.methods.tapter import (
    REGULARISED,
    TapterLoss,
    permuted,
    scale_to_unit_spread,
    spread_of,
    with_regularised,
)
from acclimate.models.encoder import training_flops, word_embeddings
from acclimate.training.objective import MaskedLanguageLoss
from acclimate.training.pieces import pad, together
from conformance import toy_rows
from families import FAMILIES, VOCABULARY, mpnet

WIDTH = 7
REGULARISED_V = (np.arange(VOCABULARY) >= 5) & (np.arange(VOCABULARY) % 3 > 0)
VECTORS_VF = (np.random.default_rng(1).normal(0.2, 0.5, (VOCABULARY, WIDTH)) * REGULARISED_V[:, None]).astype("f4")


def objective_of(model, **stated) -> TapterLoss:
    return TapterLoss(model, VECTORS_VF, REGULARISED_V, **stated).eval()


def masked_rows() -> Batch:
    """Toy rows of which most predicted tokens are hidden behind the mask, which is piece 4."""
    batch = toy_rows(0, 0)
    hidden = (batch.tokens["labels"] != NOT_PREDICTED) & (np.arange(len(batch.ids)) % 4 > 0)
    return replace(batch, ids=np.where(hidden, 4, batch.ids))


def piece_of(batch):
    return pad(batch, together(batch.lengths), torch.device("cpu"))


def test_loss_is_lm_plus_mean_squared_distance_of_projected_embeddings_eq_1():
    batch, model = masked_rows(), FAMILIES["bert"]()
    objective = objective_of(model, seed=2)
    with torch.no_grad():  # f as it may be after training, not only as it begins
        objective.norm.weight.add_(torch.linspace(-0.1, 0.1, WIDTH))
    marked = with_regularised(batch, REGULARISED_V)
    sums, counts = objective(piece_of(marked)), objective.counts(marked)

    labels, table = batch.tokens["labels"], model.bert.embeddings.word_embeddings.weight
    original = [label if label != NOT_PREDICTED else piece for piece, label in zip(batch.ids, labels, strict=True)]
    distances = []
    for piece in original:
        if REGULARISED_V[piece]:
            z = objective.linear.weight @ table[piece] + objective.linear.bias
            normal = (z - z.mean()) / z.var(unbiased=False).sqrt()
            projected = objective.norm.weight * normal + objective.norm.bias
            distances.append(((projected - torch.from_numpy(VECTORS_VF[piece])) ** 2).sum())
    language = MaskedLanguageLoss(model).eval()
    by_hand = language(piece_of(batch))["mlm"] / language.counts(batch)["mlm"] + sum(distances) / len(distances)
    ours = sum(objective.weights[term] * sums[term] / counts[term] for term in sums)
    torch.testing.assert_close(ours, by_hand, rtol=1e-5, atol=1e-5)
    assert counts["embedding"] == len(distances)


def test_r_has_each_occurrence_or_each_type_by_original_or_masked_ids():
    ids, labels = np.array([7, 4, 7, 8, 5, 9, 7]), np.array([-100, 10, -100, 8, -100, -100, -100])
    batch = Batch(ids, np.array([0, 4, 7]), {"labels": labels})
    regularised_V = np.array([False] * 7 + [True] * 2 + [False] + [True])  # 7, 8 and 10, but not 9

    def pieces(**stated):
        return (with_regularised(batch, regularised_V, **stated).tokens[REGULARISED] - 1).tolist()

    assert pieces() == [7, 10, 7, 8, -1, -1, 7]
    assert pieces(ids="masked") == [7, -1, 7, 8, -1, -1, 7]
    assert pieces(per="type") == [7, 10, -1, 8, -1, -1, -1]
    assert pieces(per="type", ids="masked") == [7, -1, -1, 8, -1, -1, -1]


@pytest.mark.parametrize("name", [*FAMILIES, "mpnet"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_rows_of_r_are_moved_in_every_family_tied_or_not(name, tied):
    model = mpnet() if name == "mpnet" else FAMILIES[name]()
    if not tied:
        model.set_input_embeddings(nn.Embedding.from_pretrained(word_embeddings(model).detach().clone(), freeze=False))
    batch = with_regularised(masked_rows(), REGULARISED_V)
    objective = objective_of(model)
    objective(piece_of(batch))["embedding"].backward()
    moved = word_embeddings(model).grad.abs().sum(dim=1) > 0
    assert np.array_equal(np.flatnonzero(moved.numpy()), np.unique(batch.tokens[REGULARISED])[1:] - 1)
    others = [weight for weight in model.parameters() if weight is not word_embeddings(model)]
    assert all(weight.grad is None or not weight.grad.any() for weight in others)


def test_f_starts_at_the_scale_of_the_vectors():
    """So that what it has to learn is where they point."""
    for scale in (0.01, 1.0, 50.0):
        objective = TapterLoss(FAMILIES["bert"](), scale * VECTORS_VF, REGULARISED_V).eval()
        batch = with_regularised(masked_rows(), REGULARISED_V)
        mean = float(objective(piece_of(batch))["embedding"].detach()) / objective.counts(batch)["embedding"]
        spread = (scale * VECTORS_VF)[REGULARISED_V].var(axis=0).sum()
        assert 1 < mean / spread < 3


def test_vectors_of_unit_spread_differ_from_the_given_ones_in_scale_alone():
    scaled = scale_to_unit_spread(0.01 * VECTORS_VF, REGULARISED_V)
    counted = scaled[REGULARISED_V]
    assert np.sqrt(np.mean((counted - counted.mean(axis=0)) ** 2)) == pytest.approx(1)
    np.testing.assert_allclose(scaled, scale_to_unit_spread(VECTORS_VF, REGULARISED_V), rtol=1e-4)
    given, unit = VECTORS_VF[REGULARISED_V].ravel(), counted.ravel()
    assert given @ unit == pytest.approx(np.linalg.norm(given) * np.linalg.norm(unit))


def test_permuted_vectors_are_the_same_ones_in_another_order_among_the_pieces_of_r():
    mixed = permuted(VECTORS_VF, REGULARISED_V, seed=0)
    assert not mixed[~REGULARISED_V].any()
    before, after = VECTORS_VF[REGULARISED_V], mixed[REGULARISED_V]
    assert sorted(map(tuple, before.tolist())) == sorted(map(tuple, after.tolist()))
    assert (before != after).any(axis=1).mean() > 0.7
    assert spread_of(mixed, REGULARISED_V) == pytest.approx(spread_of(VECTORS_VF, REGULARISED_V))
    np.testing.assert_array_equal(mixed, permuted(VECTORS_VF, REGULARISED_V, seed=0))
    assert (mixed != permuted(VECTORS_VF, REGULARISED_V, seed=1)).any()


def test_vectors_that_are_all_the_same_have_no_spread_to_be_divided_by():
    same = np.ones_like(VECTORS_VF)
    with pytest.raises(ValueError, match=r"scale = 'unit' .* but it is 0: the \d+ .* Set scale=given"):
        scale_to_unit_spread(same, REGULARISED_V)


def test_without_a_piece_of_r_the_term_is_0_and_its_gradient_too():
    batch = with_regularised(masked_rows(), np.zeros(VOCABULARY, bool))
    objective = objective_of(FAMILIES["bert"]())
    terms = objective(piece_of(batch))
    assert (float(terms["embedding"].detach()), objective.counts(batch)["embedding"]) == (0, 0)
    terms["embedding"].backward()
    assert not objective.linear.weight.grad.any()


def test_flops_are_those_of_language_modelling_and_of_f_on_each_type():
    model = FAMILIES["bert"]()
    batch = with_regularised(masked_rows(), REGULARISED_V)
    predicted = np.count_nonzero(batch.tokens["labels"] != NOT_PREDICTED)
    types = len(set(batch.tokens[REGULARISED].tolist()) - {0})
    plain = training_flops(model, batch.lengths, predicted=predicted)
    assert objective_of(model).flops(batch) == plain + 6 * 32 * WIDTH * types


def test_a_vector_is_needed_for_each_embedding():
    with pytest.raises(ValueError, match="199 vectors for 200 embeddings"):
        TapterLoss(FAMILIES["bert"](), VECTORS_VF[1:], REGULARISED_V[1:])
