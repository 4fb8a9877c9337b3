"""Layers computed again on the way back."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

import conformance
from acclimate.training.loop import adamw, train
from acclimate.training.plan import Plan
from acclimate.training.shards import layers_in, recomputed
from families import FAMILIES, mpnet

# shared lines; gates of several passes; adapters by hooks; a teacher; pieces cached, in another family
NAMES = (
    "masked language, bert",
    "DGA, three passes, update, roberta",
    "adapters, distilbert",
    "distillation token, electra",
    "SimCSE, mpnet",
)


def trained(name: str, plan: Plan) -> tuple[list[float], list[torch.Tensor]]:
    case = conformance.OBJECTIVES[name]()
    objective = case.objective(0.1)
    losses = [step.loss for step in train(objective, case.stream, plan, adamw(objective, plan))]
    return losses, [weight.detach() for weight in objective.parameters()]


@pytest.mark.parametrize("name", NAMES)
def test_computed_again_gives_the_same_bytes(name):
    plan = replace(conformance.PLAN, steps=2)
    losses, weights = trained(name, plan)
    again, others = trained(name, replace(plan, recompute=True))
    assert again == losses
    assert all(map(torch.equal, others, weights))


@pytest.mark.parametrize("name", [*FAMILIES, "mpnet"])
def test_the_layers_of_each_family_are_found(name):
    model = mpnet() if name == "mpnet" else FAMILIES[name]()
    found = layers_in(nn.ModuleList([model]))
    assert len(found) == model.config.num_hidden_layers == 2
    assert all(any(isinstance(each, nn.Linear) for each in layer.modules()) for layer in found)


def noted(sizes: list[int], tensor: torch.Tensor) -> torch.Tensor:
    sizes.append(tensor.numel())
    return tensor


def test_a_layer_runs_twice_and_keeps_its_input_only():
    model = FAMILIES["bert"](dropout=0.1).train()
    ids = torch.arange(5, 15)[None]
    runs: list[str] = []
    for layer in layers_in(model):
        layer.intermediate.register_forward_hook(lambda *_: runs.append("layer"))
    kept: dict[str, int] = {}
    for how in ("kept", "again"):
        sizes: list[int] = []
        keep = torch.autograd.graph.saved_tensors_hooks(partial(noted, sizes), lambda tensor: tensor)
        with recomputed(model) if how == "again" else nullcontext(), keep:
            said = model(ids).logits.sum()
        kept[how] = sum(sizes)
        said.backward()
        assert len(runs) == {"kept": 2, "again": 4}[how]
        runs.clear()
    assert kept["again"] < kept["kept"]


def test_behind_the_block_layers_are_as_they_were_and_an_objective_without_any_is_refused():
    model = FAMILIES["bert"]()
    before = [dict(vars(layer)) for layer in layers_in(model)]
    with recomputed(model), torch.no_grad():
        assert model(torch.arange(5, 9)[None]).logits.isfinite().all()
    assert [dict(vars(layer)) for layer in layers_in(model)] == before
    with pytest.raises(ValueError, match=r"plan.recompute = true recomputes layers, but Linear has no encoder"):
        recomputed(nn.Linear(2, 2)).__enter__()
