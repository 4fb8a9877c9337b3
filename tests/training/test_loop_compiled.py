"""torch.compile, which takes a C++ compiler and minutes."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

import conformance
from acclimate.training.loop import adamw, train


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, ("g++", "c++", "clang++"))), reason="no C++ compiler")
@pytest.mark.filterwarnings("default")  # the compiler's
@pytest.mark.parametrize("name", ["masked language, bert", "task"])
def test_compiled_gives_the_same_losses(name):
    losses = []
    for compiled in (False, True):
        case = conformance.OBJECTIVES[name]()
        objective = case.objective(0.0)
        plan = replace(conformance.PLAN, rate=1e-3, compile=compiled)
        losses.append([step.loss for step in train(objective, case.stream, plan, adamw(objective, plan))])
        assert not [name for name, _ in objective.named_parameters() if "_orig_mod" in name]
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
