"""A run that is stopped in the middle and gone on with, against one that was left alone."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from safetensors import safe_open
from transformers import AutoModelForMaskedLM

from acclimate.core import files


def check_goes_on_to_the_same_bytes(
    method: ModuleType, recipe: Any, encoder: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after step 4. And the checkpoint is an ordinary one, with the weights of the encoder and no others."""
    monkeypatch.setenv("ACCLIMATE_SAVE_SECONDS", "0")
    whole = method.adapt(recipe, place / "whole").path

    def stopping(progress):
        if (progress.stage, progress.done) == ("adapt", 4):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        method.adapt(recipe, place / "stopped", watch=stopping)
    stopped = method.adapt(recipe, place / "stopped").path
    for file in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (whole / file).read_bytes() == (stopped / file).read_bytes()
    files.check_manifest(whole)
    AutoModelForMaskedLM.from_pretrained(whole)
    assert _shapes(whole) == _shapes(encoder)


def _shapes(checkpoint: Path) -> dict[str, list[int]]:
    with safe_open(checkpoint / "model.safetensors", framework="pt") as file:
        return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118  it is no mapping
