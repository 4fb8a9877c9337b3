"""TaCL and TaCO: the losses against their equations written out, and runs from a checkpoint to a checkpoint."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.methods.contrast import token_contrast
from acclimate.methods.contrast.token_contrast import PAIRS, TokenAlignment, TokenAwareContrast, with_anchors
from acclimate.models.encoder import encoder_of, training_flops
from acclimate.training.checkpoint import read_log
from acclimate.training.objective import VIEWS, MaskedLanguageLoss
from acclimate.training.pieces import pad, together
from acclimate.training.plan import Plan
from conformance import another, toy_rows
from families import FAMILIES

CPU = torch.device("cpu")


def piece_of(batch):
    return pad(batch, together(batch.lengths), CPU)


def masked_rows(rows: int, pad_id: int = 0) -> Batch:
    """Toy rows whose predicted tokens are hidden behind the mask, which is piece 4, all but each row's first."""
    batch = toy_rows(pad_id, 0).take(np.arange(rows))
    hidden = batch.tokens["labels"] != NOT_PREDICTED
    hidden[batch.offsets[:-1]] = False
    return replace(batch, ids=np.where(hidden, 4, batch.ids))


def rows_of(batch: Batch) -> list[tuple[torch.Tensor, torch.Tensor, list[int]]]:
    """Of each row the masked ids, those of the text, and the places that are predicted."""
    labels = batch.tokens["labels"]
    text_ids = np.where(labels != NOT_PREDICTED, labels, batch.ids)
    parts = (np.split(values, batch.offsets[1:-1]) for values in (batch.ids, text_ids, labels))
    return [
        (torch.from_numpy(masked), torch.from_numpy(whole), np.flatnonzero(added_places != NOT_PREDICTED).tolist())
        for masked, whole, added_places in zip(*parts, strict=True)
    ]


def cosine(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return one @ other / (one @ one).sqrt() / (other @ other).sqrt()


def states(model, ids: torch.Tensor) -> torch.Tensor:
    return encoder_of(model)(ids[None]).last_hidden_state[0]


@pytest.mark.parametrize("name", ["bert", "roberta", "modernbert"])
def test_tacl_has_each_masked_token_find_what_the_teacher_makes_of_it_among_its_row(name):
    model, teacher = FAMILIES[name](), another(name)
    batch = masked_rows(2, model.config.pad_token_id or 0)
    objective = TokenAwareContrast(model, teacher, temperature=0.05).eval()
    losses = []
    for masked, whole, predicted in rows_of(batch):
        student, target = states(model, masked), states(teacher, whole)
        for i in predicted:
            scores = [torch.exp(cosine(student[i], target[j]) / 0.05) for j in range(len(whole))]
            losses.append(-torch.log(scores[i] / sum(scores)))
    sums, counts = objective(piece_of(batch)), objective.counts(batch)
    assert counts["contrast"] == counts["mlm"] == len(losses)
    torch.testing.assert_close(sums["contrast"], sum(losses), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(sums["mlm"], MaskedLanguageLoss(model).eval()(piece_of(batch))["mlm"])


def test_taco_has_each_anchor_find_its_neighbour_among_anchors_of_the_rows_behind_it():
    model, batch = FAMILIES["bert"](), with_anchors(masked_rows(5), anchors=3, window=4, seed=1)
    objective = TokenAlignment(model, temperature=0.2, negatives=2).eval()
    # BERT's last hidden states less what its embedding module makes of the ids
    added = [states(model, masked) - model.bert.embeddings(masked[None])[0] for masked, _, _ in rows_of(batch)]
    by_hand = 0.0
    for row in range(5):
        of_row = []
        for a, (anchor, positive) in enumerate(batch.rows[PAIRS][row].T):
            with_positive = torch.exp(cosine(added[row][anchor], added[row][positive]) / 0.2)
            others = [(row + k) % 5 for k in (1, 2)]
            negatives = [cosine(added[row][anchor], added[j][batch.rows[PAIRS][j][0, a]]) for j in others]
            of_row.append(-torch.log(with_positive / (with_positive + sum(torch.exp(one / 0.2) for one in negatives))))
        by_hand += sum(of_row) / len(of_row)
    sums = objective(piece_of(batch))
    ours = objective.compared(sums.pop(VIEWS))["contrast"]
    assert objective.counts(batch)["contrast"] == 5
    torch.testing.assert_close(ours, by_hand, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(sums["mlm"], MaskedLanguageLoss(model).eval()(piece_of(batch))["mlm"])


def test_a_step_has_at_most_as_many_negatives_as_other_rows():
    views_BVD = torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(0))
    few, many = (TokenAlignment(FAMILIES["bert"](), negatives=count).compared(views_BVD) for count in (3, 50))
    assert torch.equal(few["contrast"], many["contrast"])


def test_positives_are_other_tokens_of_the_row_less_than_the_window_away():
    lengths = np.array([2, 3, 7, 60, 200])
    batch = Batch(np.arange(lengths.sum()), np.concatenate([[0], np.cumsum(lengths)]))
    seen = set()
    for seed in range(20):
        anchors_BA, positives_BA = with_anchors(batch, anchors=50, window=5, seed=seed).rows[PAIRS].transpose(1, 0, 2)
        for values in (anchors_BA, positives_BA):
            assert ((values >= 0) & (values < lengths[:, None])).all()
        seen |= set((positives_BA - anchors_BA)[3:].ravel().tolist())
        assert set(anchors_BA[2]) == set(range(7))
    assert seen == {-4, -3, -2, -1, 1, 2, 3, 4}
    same = [with_anchors(batch, anchors=9, window=5, seed=seed).rows[PAIRS] for seed in (0, 0, 1)]
    assert np.array_equal(same[0], same[1])
    assert not np.array_equal(same[0], same[2])


def test_a_row_of_one_token_is_its_own_neighbour_and_contrasts_are_computed_in_float32():
    batch = Batch(np.array([7, 8, 9]), np.array([0, 1, 3]))
    assert with_anchors(batch, anchors=4, window=5, seed=0).rows[PAIRS][0].tolist() == [[0] * 4, [0] * 4]
    batch = with_anchors(masked_rows(4), anchors=3, window=4, seed=1)
    aware = TokenAwareContrast(FAMILIES["bert"](), another("bert"), temperature=0.1).eval()
    alignment = TokenAlignment(FAMILIES["bert"]()).eval()
    exact = aware(piece_of(batch))["contrast"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow, views = aware(piece_of(batch))["contrast"], alignment(piece_of(batch))[VIEWS]
    assert narrow.dtype == views.dtype == torch.float32
    torch.testing.assert_close(narrow, exact, rtol=0.05, atol=0)


def test_the_teacher_counts_as_a_third_and_taco_needs_no_further_pass():
    batch, model = masked_rows(4), FAMILIES["bert"]()
    predicted = int((batch.tokens["labels"] != NOT_PREDICTED).sum())
    mlm, encoder = (training_flops(model, batch.lengths, predicted=count) for count in (predicted, 0))
    assert TokenAwareContrast(model, another("bert")).flops(batch) == mlm + encoder / 3
    assert TokenAlignment(model).flops(batch) == mlm


@pytest.fixture
def recipe(encoder: Path, topic_texts: Path) -> token_contrast.TokenContrastRecipe:
    plan = Plan(steps=6, batch=8, rate=5e-3, warmup=0.1, piece_tokens=128)
    return token_contrast.TokenContrastRecipe(model=str(encoder), corpus=topic_texts, max_tokens=24, plan=plan)


def test_each_contrast_has_a_temperature_of_its_own(recipe, tmp_path):
    one_step = replace(recipe, plan=replace(recipe.plan, steps=1))
    for contrast, temperature in (("tacl", 0.01), ("taco", 0.07)):
        losses = []
        for stated in (None, temperature, 0.5):
            out = tmp_path / f"{contrast}-{stated}"
            token_contrast.adapt(replace(one_step, contrast=contrast, temperature=stated), out)
            losses.append(read_log(out)[0]["loss.contrast"])
        assert losses[0] == losses[1] != losses[2]
