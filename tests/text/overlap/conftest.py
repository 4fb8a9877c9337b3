"""Tests of this folder run twice, but for two long ones: by what compares few texts, and by the compiled loops."""

import pytest

from acclimate.text.overlap import groups, references, sketches


@pytest.fixture(autouse=True, params=["few", "many"])
def amount(request, monkeypatch):
    characters, pairs = (1 << 40, 1 << 30) if request.param == "few" else (0, 0)
    monkeypatch.setattr(sketches, "FEW", characters)
    monkeypatch.setattr(references, "FEW_REFERENCES", characters)
    monkeypatch.setattr(groups, "_FEW", pairs)
