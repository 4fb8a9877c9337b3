"""A small encoder that was pretrained on the toy's general text."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def pretrained(toy_race) -> Path:
    """The checkpoint that the toy race pretrained."""
    [job] = (toy_race.run / "jobs").glob("pretrain-*")
    return job / "checkpoint"
