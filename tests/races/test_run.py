"""What ends a study, and what only fails one of its cells (tests/studies/test_conformance.py)."""

from types import SimpleNamespace
from typing import Any

import pytest

from acclimate.races import run as running
from acclimate.races.design import Design, HeldOutLosses, Search
from acclimate.races.recipe import RaceRecipe
from acclimate.races.run import run
from acclimate.reports.table import GeneralLoss


@pytest.mark.parametrize("error", [KeyError("a mistake of ours"), AssertionError()])
def test_an_error_that_no_job_raised_ends_the_study(error, monkeypatch, tmp_path):
    def mistaken(*given: Any, **more: Any) -> None:
        raise error

    monkeypatch.setattr(running, "searched", mistaken)
    entries: Any = SimpleNamespace(models={"untouched": None}, recipe=RaceRecipe())
    design = Design("made-up", "", "", cells=(), against=(), searches=(Search("row", "column", entries),))
    with pytest.raises(type(error)):
        run(design, tmp_path)


def test_the_loss_of_an_untouched_model_without_a_row_is_in_the_columns_meaning(monkeypatch, tmp_path):
    monkeypatch.setattr(running, "result_of", lambda loss, out: {"head": True, "loss": loss})
    losses = HeldOutLosses("loss", "Nats.", ("untouched model", 3.0), {"BM25": (2.0, 1.0)})
    column = running._losses(losses, ["BM25"], tmp_path)
    assert column.meaning == "Nats. Untouched model: 3.00."
    assert column.by_row == {"BM25": GeneralLoss(1.5, -1.5)}
