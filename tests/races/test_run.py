"""What ends a study, and what only fails one of its cells (tests/studies/test_conformance.py)."""

from types import SimpleNamespace
from typing import Any

import pytest

from acclimate.races import run as running
from acclimate.races.design import Design, Search
from acclimate.races.recipe import RaceRecipe
from acclimate.races.run import run


@pytest.mark.parametrize("error", [KeyError("a mistake of ours"), AssertionError()])
def test_an_error_that_no_job_raised_ends_the_study(error, monkeypatch, tmp_path):
    def mistaken(*given: Any, **more: Any) -> None:
        raise error

    monkeypatch.setattr(running, "searched", mistaken)
    entries: Any = SimpleNamespace(models={"untouched": None}, recipe=RaceRecipe())
    design = Design("made-up", "", "", cells=(), against=(), searches=(Search("row", "column", entries),))
    with pytest.raises(type(error)):
        run(design, tmp_path)
