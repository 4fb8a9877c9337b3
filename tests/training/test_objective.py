"""The masked language loss against its formula."""

import numpy as np
import pytest
import torch

import conformance
from acclimate.core.types import NOT_PREDICTED
from acclimate.training.loop import adamw, train
from acclimate.training.objective import MaskedLanguageLoss
from acclimate.training.plan import Plan
from families import FAMILIES


def test_masked_language_loss_is_the_mean_surprise_at_masked_positions_devlin_3_1():
    """Two sentences, one by one, every position, the logarithm written out."""
    batch = conformance.toy_rows(0, 0).take(np.array([1, 4]))
    model = FAMILIES["bert"]()
    surprises = []
    for row in range(2):
        ids = torch.from_numpy(batch.ids[batch.offsets[row] : batch.offsets[row + 1]])
        labels = batch.tokens["labels"][batch.offsets[row] : batch.offsets[row + 1]]
        with torch.no_grad():
            logits = model(input_ids=ids[None]).logits[0].double()
        for place, label in enumerate(labels):
            if label != NOT_PREDICTED:
                surprises.append(-float(torch.log(torch.exp(logits[place, label]) / torch.exp(logits[place]).sum())))
    objective = MaskedLanguageLoss(model)
    plan = Plan(steps=1, batch=2, precision="float32", piece_tokens=20)
    [step] = train(objective, lambda step: batch, plan, adamw(objective, plan))
    assert objective.counts(batch) == {"mlm": len(surprises)}
    assert step.loss == pytest.approx(np.mean(surprises), abs=1e-5)
