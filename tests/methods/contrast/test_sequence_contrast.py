"""SimCSE and InfoWord: what is compared, term by term, and a run of each."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.methods.contrast import sequence_contrast
from acclimate.methods.contrast.sequence_contrast import CONTRASTS, InfoWord, SimCse
from acclimate.training.objective import measure
from acclimate.training.pieces import pad, together
from acclimate.training.plan import Plan
from conformance import toy_rows
from families import FAMILIES

CPU = torch.device("cpu")
MASK = 4
TAU = 0.05


def masked_rows() -> Batch:
    """Two rows, of which every predicted token but one is hidden; and a third without any."""
    batch = toy_rows(0, 0).take(np.array([1, 4, 6]))
    labels = np.where(np.repeat(np.arange(3) == 2, batch.lengths), NOT_PREDICTED, batch.tokens["labels"])
    hidden = labels != NOT_PREDICTED
    hidden[np.flatnonzero(hidden)[0]] = False
    return replace(batch, ids=np.where(hidden, MASK, batch.ids), tokens={"labels": labels})


def of_rows(batch: Batch) -> list[tuple[torch.Tensor, torch.Tensor, np.ndarray]]:
    """Of each row: its masked ids, its text, and which positions are predicted."""
    found = []
    for row in range(len(batch)):
        one = batch.take(np.array([row]))
        predicted = one.tokens["labels"] != NOT_PREDICTED
        text = np.where(predicted, one.tokens["labels"], one.ids)
        found.append((torch.from_numpy(one.ids)[None], torch.from_numpy(text)[None], predicted))
    return found


def infonce(anchors: list[torch.Tensor], positives: list[torch.Tensor]) -> float:
    """The mean over anchors, written out."""
    total = 0.0
    for number, anchor in enumerate(anchors):
        alike = [float(torch.cosine_similarity(anchor, other, dim=0)) for other in positives]
        total -= np.log(np.exp(alike[number] / TAU) / np.sum(np.exp(np.array(alike) / TAU)))
    return total / len(anchors)


@torch.no_grad()
def test_infoword_compares_the_masked_text_with_what_is_masked_of_it():
    """Row by row, with the plain model; the row without a masked token is in no sum."""
    model, batch = FAMILIES["bert"](), masked_rows()
    anchors, positives = [], []
    for masked, text, predicted in of_rows(batch):
        if predicted.any():
            anchors.append(model.bert(input_ids=masked).last_hidden_state[0].mean(0))
            positives.append(model.bert(input_ids=text).last_hidden_state[0][torch.from_numpy(predicted)].mean(0))
    assert len(anchors) == 2
    objective = InfoWord(model)
    assert objective.counts(batch)["contrast"] == 2
    for most in (1, 1000):
        found = measure(objective, [batch], Plan(precision="float32", piece_tokens=most))
        assert found["contrast"] == pytest.approx(infonce(anchors, positives), rel=1e-4)


def test_simcse_compares_a_text_with_itself_under_other_dropout():
    """Without masks, row by row, two passes under the noise of the step; the row without a masked token counts too."""
    model, batch = FAMILIES["bert"](dropout=0.2), masked_rows()
    piece = pad(batch, together(batch.lengths), CPU)
    text_LW = piece["input_ids"].clone()
    for row, (_, text, _) in enumerate(of_rows(batch)):
        text_LW[row, : text.shape[1]] = text
    objective = SimCse(model).train()
    with torch.no_grad():
        torch.manual_seed(3)
        passes = [
            model.bert(input_ids=text_LW, attention_mask=piece["attention_mask"]).last_hidden_state for _ in range(2)
        ]
        torch.manual_seed(3)
        views_R2D = objective.views(piece)
    lengths = batch.lengths.tolist()
    anchors, positives = ([states[row, : lengths[row]].mean(0) for row in range(3)] for states in passes)
    assert not torch.allclose(anchors[0], positives[0], atol=1e-2)
    torch.testing.assert_close(views_R2D[:, 0], torch.stack(anchors), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(views_R2D[:, 1], torch.stack(positives), rtol=1e-4, atol=1e-5)
    found = float(objective.compared(views_R2D)["contrast"]) / objective.counts(batch)["contrast"]
    assert found == pytest.approx(infonce(anchors, positives), rel=1e-4)


def test_language_modelling_is_of_the_masked_text_and_a_step_counts_the_passes_that_it_makes():
    batch, plan = masked_rows(), Plan(precision="float32")
    losses = {name: measure(make(FAMILIES["bert"]()), [batch], plan)["mlm"] for name, make in CONTRASTS.items()}
    assert losses["simcse"] == pytest.approx(losses["infoword"], rel=1e-5)
    assert losses["simcse"] == pytest.approx(measure(SimCse(FAMILIES["bert"]()).language, [batch], plan)["mlm"])
    batch, one = masked_rows(), FAMILIES["bert"]()
    plain = SimCse(one).language.flops(replace(batch, tokens={"labels": np.full(len(batch.ids), NOT_PREDICTED)}))
    extra = {name: make(one).flops(batch) - SimCse(one).language.flops(batch) for name, make in CONTRASTS.items()}
    assert extra == {"simcse": pytest.approx(2 * plain), "infoword": pytest.approx(plain)}


def test_simcse_refuses_a_model_without_dropout_and_infoword_does_not(pretrained, toy_race, tmp_path):
    recipe = sequence_contrast.SequenceContrastRecipe(
        str(pretrained), toy_race.materials.domain.path, max_tokens=32, plan=Plan(steps=2, batch=8)
    )
    without = replace(recipe, dropout=0.0, attention_dropout=0.0)
    with pytest.raises(ValueError, match=r"differ only by dropout, but this bert has no dropout\. Set dropout=0\.1"):
        sequence_contrast.adapt(without, tmp_path / "simcse")
    sequence_contrast.adapt(replace(without, contrast="infoword"), tmp_path / "infoword")
