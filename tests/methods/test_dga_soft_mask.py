"""What is held back moves less, and nothing else does."""

import pytest
import torch

from acclimate.methods.dga import DgaLoss, SoftMask
from acclimate.models.families import PARTS
from acclimate.models.gates import gate_shape
from acclimate.training.loop import train
from acclimate.training.plan import Plan
from conformance import toy_rows
from families import FAMILIES

HEAD = slice(0, 16)  # the first of two, of 32 numbers
LAYER = "bert.encoder.layer.1.attention"
OTHER = "bert.encoder.layer.1.intermediate.dense.weight"
BELOW = "bert.encoder.layer.0.intermediate.dense.weight"


def important_head(value):
    importance_LH = torch.zeros(2, 2)
    importance_LH[1, 0] = value
    return {"heads": importance_LH}


def trained(importance, reading="gradient", *, optimiser="adamw", name="bert", **plan):
    """name -> by how much each weight moved."""
    model = FAMILIES[name]()
    before = {of: weight.detach().clone() for of, weight in model.named_parameters()}
    objective = DgaLoss(model, importance, weight=0.0, reading=reading)
    plan = Plan(**{"steps": 1, "batch": 8, "rate": 1e-3, "warmup": 0, "clip": 0, "precision": "float32", **plan})
    make = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[optimiser]
    settings = {"weight_decay": 0.0, "eps": 1e-12} if optimiser == "adamw" else {}
    pad_id = model.config.pad_token_id or 0
    for _ in train(objective, lambda step: toy_rows(pad_id, step), plan, make(model.parameters(), lr=1e-3, **settings)):
        pass
    return {of: weight.detach() - before[of] for of, weight in model.named_parameters()}


def ratio(moved, free, name, rows=HEAD):
    """Typical displacement of a head's rows, over that of a run without a mask."""
    return float(moved[name][rows].abs().median() / free[name][rows].abs().median())


def test_without_a_mask_importance_changes_no_step():
    moved, free = trained(important_head(1.0), "none"), trained(important_head(0.0))
    assert all(torch.equal(moved[name], free[name]) for name in free)


@pytest.mark.parametrize("reading", ["gradient", "update"])
def test_with_importance_one_the_head_stays_put_and_all_else_moves(reading):
    moved = trained(important_head(1.0), reading)
    for name in ("query", "key", "value"):
        for of in ("weight", "bias"):
            change = moved[f"{LAYER}.self.{name}.{of}"]
            assert not change[HEAD].any()
            assert change[16:].any() or (name, of) == ("key", "bias")
    out = moved[f"{LAYER}.output.dense.weight"]
    assert not out[:, HEAD].any()
    assert out[:, 16:].all()
    assert moved[f"{LAYER}.output.dense.bias"].all()
    mine = {f"{LAYER}.self.{name}.{of}" for name in ("query", "key", "value") for of in ("weight", "bias")}
    assert all(change.any() for name, change in moved.items() if name not in mine)


def test_adamw_cancels_a_factor_on_gradients_and_plain_gradient_descent_does_not():
    """Why there is a reading "update": the paper's mask of .9 leaves a head as free as none does."""
    name = f"{LAYER}.self.value.weight"
    free = trained(important_head(0.0), steps=3)
    assert ratio(trained(important_head(0.9), "gradient", steps=3), free, name) == pytest.approx(1.0, abs=0.05)
    assert ratio(trained(important_head(0.9), "update", steps=3), free, name) == pytest.approx(0.1, abs=0.01)
    free = trained(important_head(0.0), optimiser="sgd")
    for reading in ("gradient", "update"):
        assert ratio(trained(important_head(0.9), reading, optimiser="sgd"), free, name) == pytest.approx(0.1, rel=0.02)


def test_gradient_of_the_output_of_a_head_is_that_of_lower_layers_too():
    """Eq. 9 to the letter: the head's weights move as under "gradient", and those below otherwise."""
    free, masked, below = (
        trained(important_head(value), reading, optimiser="sgd")
        for value, reading in ((0.0, "gradient"), (0.9, "gradient"), (0.9, "head_output"))
    )
    for name in (f"{LAYER}.self.query.weight", f"{LAYER}.self.value.bias", f"{LAYER}.output.dense.weight"):
        torch.testing.assert_close(below[name], masked[name], rtol=1e-3, atol=1e-7)
    torch.testing.assert_close(below[OTHER], free[OTHER])
    torch.testing.assert_close(masked[BELOW], free[BELOW])
    assert not torch.allclose(below[BELOW], free[BELOW], rtol=0.01)


@pytest.mark.parametrize("reading", ["gradient", "head_output", "update"])
@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_pieces_do_not_mask_twice(name, reading):
    whole, cut = (
        trained(important_head(0.5), reading, optimiser="sgd", name=name, piece_tokens=most) for most in (1000, 1)
    )
    for weight, moved in whole.items():
        torch.testing.assert_close(cut[weight], moved, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_held_back(part):
    model = FAMILIES["bert"]()
    everything = {part: torch.ones(gate_shape(model, part))}
    moved = trained(everything, "update")
    held = {
        "heads": {f"bert.encoder.layer.{layer}.attention.output.dense.weight" for layer in range(2)}
        | {
            f"bert.encoder.layer.{layer}.attention.self.{name}.{of}"
            for layer in range(2)
            for name in ("query", "key", "value")
            for of in ("weight", "bias")
        },
        "intermediate": {
            f"bert.encoder.layer.{n}.intermediate.dense.{of}" for n in range(2) for of in ("weight", "bias")
        },
        "output": {f"bert.encoder.layer.{layer}.output.dense.{of}" for layer in range(2) for of in ("weight", "bias")},
        "embeddings": {f"bert.embeddings.{of}_embeddings.weight" for of in ("word", "position", "token_type")}
        | {f"bert.embeddings.LayerNorm.{of}" for of in ("weight", "bias")},
    }[part]
    assert {name for name, change in moved.items() if not change.any()} == held


def test_weights_that_are_not_masked_are_the_same_to_the_last_bit():
    free, masked = (trained(important_head(value), "update") for value in (0.0, 0.9))
    assert torch.equal(free[OTHER], masked[OTHER])
    head, other = f"{LAYER}.self.value.weight", slice(16, None)
    assert torch.equal(free[head][other], masked[head][other])


def test_importances_out_of_range_and_of_another_shape_are_refused():
    model = FAMILIES["bert"]()
    with pytest.raises(ValueError, match=r"heads: importances from 0 to 2 are outside 0 to 1, so they cannot be"):
        SoftMask(model, important_head(2.0))
    with pytest.raises(ValueError, match=r"heads: \(3, 2\) gates, but this model needs \(2, 2\)"):
        SoftMask(model, {"heads": torch.zeros(3, 2)})
