"""The page of `make torture` is current; a twentieth of the tries of its cheap parts, with a fixed seed; and a tenth of
nearly all of them (`-m slow`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from torture import page

TESTS = Path(__file__).parent
CHEAP = ("adapt", "retrieve", "corpus", "prepare", "fetch", "ship")
QUICK = [*(f"kill-{victim}" for victim in CHEAP), "at-rest", "between", "stale", "lockless", "payloads"]
LEFT_OUT = {"kill-race", "kill-study", "kill-ranks", "kill-ray"}  # seconds each: tests/test_kill.py has the first two
MOST = [fault.name for fault in page.FAULTS if fault.name not in LEFT_OUT]


def counts(state: Path, share: float, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Try a share of these parts, in a process of their own, and return the counts of each."""
    parts = [word for name in names for word in ("--part", name)]
    command = ["--seed", "0", "--share", str(share), "--state", str(state), *parts, "--victims", *CHEAP]
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "torture", *command],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert state.exists(), done.stderr
    tried: dict[str, dict[str, Any]] = json.loads(state.read_text())["parts"]
    return tried


@pytest.fixture(scope="module")
def twentieth(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return counts(tmp_path_factory.mktemp("torture") / "state.json", 0.05, QUICK)


@pytest.fixture(scope="module")
def tenth(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return counts(tmp_path_factory.mktemp("torture") / "state.json", 0.1, MOST)


@pytest.mark.parametrize("name", QUICK)
def test_what_is_promised_holds_for_a_twentieth_of_the_tries(name, twentieth):
    assert twentieth[name]["failures"] == []
    assert twentieth[name]["tries"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", MOST)
def test_what_is_promised_holds_for_a_tenth_of_the_tries(name, tenth):
    assert tenth[name]["failures"] == []
    if name not in ("full", "read-only"):  # these need a disk that only root can mount
        assert tenth[name]["tries"] > 0


def test_the_page_is_what_the_list_and_the_recorded_results_make():
    assert page.PAGE.read_text(encoding="utf-8") == page.text()
