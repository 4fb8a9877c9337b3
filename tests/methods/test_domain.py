"""What the methods of DGA's comparison share."""

import numpy as np
import pytest
import torch
from safetensors import safe_open

from acclimate.methods.domain import Frozen, appended, hidden_states, row_means, unmasked
from acclimate.training.checkpoint import save
from acclimate.training.loop import adamw
from acclimate.training.objective import MaskedLanguageLoss
from acclimate.training.pieces import pack, pad, together
from acclimate.training.plan import Plan
from conformance import toy_rows
from families import FAMILIES

CPU = torch.device("cpu")


def test_unmasked_piece_has_the_tokens_of_the_text():
    batch = toy_rows(0, 0)
    text = np.where(batch.tokens["labels"] >= 0, batch.tokens["labels"], batch.ids)
    hidden = np.where(batch.tokens["labels"] >= 0, 4, batch.ids)  # 4 stands for the mask
    masked = pad(type(batch)(hidden, batch.offsets, batch.tokens, {}, batch.names, 0), together(batch.lengths), CPU)
    whole = pad(type(batch)(text, batch.offsets, {}, {}, batch.names, 0), together(batch.lengths), CPU)
    assert not torch.equal(masked["input_ids"], whole["input_ids"])
    assert torch.equal(unmasked(masked)["input_ids"], whole["input_ids"])


@pytest.mark.parametrize("name", ["bert", "roberta", "modernbert"])
def test_row_means_are_those_of_rows_alone(name):
    model = FAMILIES[name]().eval()
    batch = toy_rows(model.config.pad_token_id or 0, 0)
    layouts = {"padded": [together(batch.lengths)]}
    if name != "modernbert":
        layouts["shared"] = pack(batch.lengths, 64)
        assert any(layout.shared for layout in layouts["shared"])
    alone = {}
    for row in range(len(batch)):
        one = batch.take(np.array([row]))
        piece = pad(one, together(one.lengths), CPU)
        alone[row] = hidden_states(model, piece)[0].mean(0)
    for of in layouts.values():
        for layout in of:
            piece = pad(batch, layout, CPU)
            means = row_means(hidden_states(model, piece), piece)
            for row, mean in zip(layout.rows_R, means, strict=True):
                torch.testing.assert_close(mean, alone[row], rtol=1e-4, atol=1e-5)


def test_appended_tokens_stand_behind_each_row_and_predict_nothing():
    batch = toy_rows(0, 0)
    longer = appended(batch, [7, 8])
    assert (longer.lengths == batch.lengths + 2).all()
    for row in range(len(batch)):
        one, more = batch.take(np.array([row])), longer.take(np.array([row]))
        assert more.ids.tolist() == [*one.ids.tolist(), 7, 8]
        assert more.tokens["labels"].tolist() == [*one.tokens["labels"].tolist(), -100, -100]


def test_states_go_without_a_frozen_model(tmp_path):
    class Taught(MaskedLanguageLoss):
        def __init__(self):
            super().__init__(FAMILIES["bert"]())
            self.teacher = Frozen(FAMILIES["bert"]())

    objective = Taught()
    save(objective, adamw(objective, Plan()), tmp_path, 1)
    with safe_open(tmp_path / "state-000000001" / "state.safetensors", "pt") as file:
        names = set(file.keys())
    assert names
    assert not [name for name in names if "teacher" in name]


def test_frozen_model_has_no_dropout_whatever_is_said_of_its_parent():
    parent = torch.nn.ModuleList([Frozen(FAMILIES["bert"](dropout=0.5))]).train()
    batch = toy_rows(0, 0)
    piece = pad(batch, together(batch.lengths), CPU)
    first, second = (parent[0].hidden_states(piece) for _ in range(2))
    assert torch.equal(first, second)
    assert not first.requires_grad
