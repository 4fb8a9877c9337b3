"""Tests of this folder run the compiled loops; a test with the fixture `few` runs what few texts are searched by."""

import pytest

from acclimate.text.bm25 import few as module


@pytest.fixture(autouse=True)
def many(monkeypatch):
    monkeypatch.setattr(module, "FEW", 0)
    monkeypatch.setattr(module, "FEW_PAIRS", 0)


@pytest.fixture
def few(many, monkeypatch):
    monkeypatch.setattr(module, "FEW", 1 << 40)
    monkeypatch.setattr(module, "FEW_PAIRS", 1 << 40)
