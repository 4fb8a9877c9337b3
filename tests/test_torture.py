"""The page of `make torture` is current; and a share of the tries with a fixed seed (`-m slow`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torture import page

TESTS = Path(__file__).parent
SHARE = 0.012
CHEAP = ("adapt", "retrieve", "corpus", "prepare", "fetch", "ship")
LEFT_OUT = {"kill-race", "kill-study", "kill-ranks", "kill-ray"}  # seconds each: tests/test_kill.py has the first two


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """The counts of each part."""
    state = tmp_path_factory.mktemp("torture") / "state.json"
    parts = [word for fault in page.FAULTS if fault.name not in LEFT_OUT for word in ("--part", fault.name)]
    command = ["--seed", "0", "--share", str(SHARE), "--state", str(state), *parts, "--victims", *CHEAP]
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "torture", *command],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert state.exists(), done.stderr
    parts_tried: dict[str, dict[str, object]] = json.loads(state.read_text())["parts"]
    return parts_tried


@pytest.mark.slow
@pytest.mark.parametrize("name", [fault.name for fault in page.FAULTS if fault.name not in LEFT_OUT])
def test_what_is_promised_holds_for_a_share_of_the_tries(name, tried):
    assert tried[name]["failures"] == []
    if name not in ("full", "read-only"):  # these need a disk that only root can mount
        assert tried[name]["tries"] > 0


def test_the_page_is_what_the_list_and_the_recorded_results_make():
    assert page.PAGE.read_text(encoding="utf-8") == page.text()
