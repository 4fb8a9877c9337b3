"""SMART: its distances written out, what it adds to fine-tuning, and that fine-tuning without it is as before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import toys
from acclimate.core.types import NOT_PREDICTED, TAGS
from acclimate.methods import finetune
from acclimate.methods.adversarial import DISTANCES, SmartLoss
from acclimate.methods.finetune import Tuning
from acclimate.methods.perturbation import NOISE
from acclimate.methods.task_loss import TaskLoss
from acclimate.training.checkpoint import read_log
from acclimate.training.pieces import pack, pad, together
from acclimate.training.plan import Plan
from conformance import _tagger, _task

CPU = torch.device("cpu")
FAR = {"step": 0.1, "noise": 0.01, "radius": 0.05}


def both_ways(a, b):
    p, q = a.double().softmax(-1), b.double().softmax(-1)
    return float((p * (p / q).log()).sum() + (q * (q / p).log()).sum())


def test_distances_are_those_of_what_is_predicted():
    generator = torch.Generator().manual_seed(0)
    said, other = (torch.randn(2, 5, 3, generator=generator) for _ in range(2))
    labels = DISTANCES["sequence"](said[0], other[0], {})
    assert float(labels) == pytest.approx(sum(map(both_ways, said[0], other[0])), rel=1e-5)
    each = DISTANCES["multilabel"](said[0], other[0], {})  # a label that is there or not: two outcomes, logits a and 0
    pairs = [torch.stack([values.flatten(), torch.zeros(15)], dim=-1) for values in (said[0], other[0])]
    assert float(each) == pytest.approx(sum(map(both_ways, *pairs)), rel=1e-5)
    number = DISTANCES["score"](said[0, :, :1], other[0, :, :1], {})
    assert float(number) == pytest.approx(float(((said - other)[0, :, 0] ** 2).sum()), rel=1e-5)
    tags = torch.tensor([[0, NOT_PREDICTED, 2, 1, NOT_PREDICTED], [NOT_PREDICTED, 0, 0, 0, NOT_PREDICTED]])
    tagged = tags != NOT_PREDICTED
    words = DISTANCES["tokens"](said, other, {TAGS: tags})
    assert float(words) == pytest.approx(sum(map(both_ways, said[tagged], other[tagged])), rel=1e-5)
    least = torch.finfo(torch.float32).min  # as `outputs_of` has it in the padding
    ends = [
        torch.cat([values[..., :2], torch.full((2, 1, 2), least)], dim=1).requires_grad_() for values in (said, other)
    ]
    by_row = (said[..., :2].transpose(1, 2).flatten(0, 1), other[..., :2].transpose(1, 2).flatten(0, 1))
    found = DISTANCES["span"](*ends, {})
    assert float(found.detach()) == pytest.approx(sum(map(both_ways, *by_row)), rel=1e-5)
    found.backward()
    assert all(values.grad.isfinite().all() for values in ends)


@pytest.mark.parametrize("kind", ["sequence", "multilabel", "score", "tokens", "span"])
def test_every_kind_has_its_own_loss_and_is_bent_the_same_however_rows_lie(kind):
    case = _task(kind)
    plain, batch = case.objective(0.0).eval(), case.stream(0)
    smart = SmartLoss(plain.model, weight=3.0, **FAR).eval()
    sums = smart(pad(batch, together(batch.lengths), CPU))
    alone = plain(pad(batch, together(batch.lengths), CPU))
    assert torch.equal(sums["task"], alone["task"])
    assert float(sums["smooth"].detach()) > 0
    assert smart.counts(batch) == dict.fromkeys(("task", "smooth"), plain.counts(batch)["task"])
    packed = [smart(pad(batch, layout, CPU)) for layout in pack(batch.lengths, 48)]
    torch.testing.assert_close(sum(part["smooth"] for part in packed), sums["smooth"], rtol=1e-3, atol=1e-5)
    assert smart.flops(batch) == pytest.approx((2 + 2 / 3) * plain.flops(batch))


def test_the_head_keeps_its_rate():
    model = _task("sequence").objective(0.0).model
    plain, smart = TaskLoss(model, head_rate=7.0), SmartLoss(model, head_rate=7.0)
    rates = {name: plain.rate_multiple(name) for name, _ in plain.named_parameters()}
    assert {name.removeprefix("task."): smart.rate_multiple(name) for name, _ in smart.named_parameters()} == rates
    assert set(rates.values()) == {1.0, 7.0}


def test_smart_is_refused_with_a_crf_and_its_settings_without_it():
    with pytest.raises(ValueError, match=r"whole sentences are predicted. Set tag_layer to linear"):
        toys.papers(smart=1.0, tag_layer="crf")
    with pytest.raises(ValueError, match=r"smart_radius = 0.01 is for SMART, but smart is 0"):
        toys.papers(smart_radius=0.01)
    with pytest.raises(ValueError, match=r"smart_noise = 0.0 is out of range: above 0"):
        toys.papers(smart=1.0, smart_noise=0.0)
    with pytest.raises(ValueError, match=r"smart = -1.0 is out of range"):
        toys.papers(smart=-1.0)
    with pytest.raises(ValueError, match="this model's CRF predicts whole sentences"):
        SmartLoss(_tagger("bert", "crf").objective(0.0).model)


def test_fine_tuning_without_smart_is_as_before_and_with_it_learns_the_task(encoder, toy_task, tmp_path):
    plan = Plan(steps=60, batch=16, rate=1e-2, warmup=0.1, seed=1)
    recipe = toys.papers(
        model=str(encoder), task=toy_task("sequence").path, epochs=0.0, looks=2, attention_dropout=0.0, plan=plan
    )
    plain = Tuning(recipe, toy_task("sequence"), tmp_path / "plain", lambda _: None)
    assert type(plain.objective()) is TaskLoss
    assert NOISE not in plain.stream()(0).rows
    smart = replace(recipe, smart=1.0, smart_step=0.1, smart_radius=1e-3)
    finetune.adapt(smart, tmp_path / "smart")
    log = read_log(tmp_path / "smart")
    assert log[-1]["loss.task"] < 0.85 * log[0]["loss.task"]
    assert log[-1]["loss"] == pytest.approx(log[-1]["loss.task"] + log[-1]["loss.smooth"], rel=1e-4)
    stream = Tuning(smart, toy_task("sequence"), tmp_path / "again", lambda _: None).stream()
    assert np.array_equal(stream(3).rows[NOISE], stream(3).rows[NOISE])
    assert not np.array_equal(stream(3).rows[NOISE], stream(4).rows[NOISE])
