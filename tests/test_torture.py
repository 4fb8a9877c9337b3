"""The page of `make torture` is current, and what it promises holds in 1% of the tries of nearly all parts, with a
fixed seed and the victims that take a second: at least one try of each victim, where a part goes through them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from torture import page

TESTS = Path(__file__).parent
CHEAP = ("adapt", "retrieve", "fetch", "ship")  # `data prepare` and `data corpus` write with the same functions
# What a kill leaves, "crash" and "power" give to the same commands, moment by moment. tests/test_kill.py kills a race
# in each of its stages and each kind of job at each of its writes; tests/jobs/test_run.py kills workers,
# test_workers_ray.py what Ray runs, and tests/core/test_ranks.py a rank.
# What "looked-at" tries, tests/shipping/test_predict.py, test_ship.py and tests/studies/test_regenerate.py have.
PARTS = [fault.name for fault in page.FAULTS if not fault.name.startswith("kill-") and fault.name != "looked-at"]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The counts of each part, tried in a process of its own."""
    state = tmp_path_factory.mktemp("torture") / "state.json"
    parts, victims = [word for name in PARTS for word in ("--part", name)], ("--victims", *CHEAP)
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "torture", *("--share", "0.01", "--seed", "0", "--state", state), *parts, *victims],
        env=os.environ | {"PYTHONPATH": paths, "TMPDIR": str(state.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert state.exists(), done.stderr
    parts_done: dict[str, dict[str, Any]] = json.loads(state.read_text())["parts"]
    return parts_done


@pytest.mark.parametrize("name", PARTS)
def test_what_is_promised_holds_for_some_of_the_tries(name, tried):
    assert tried[name]["failures"] == []
    if name not in ("full", "read-only"):  # these need a disk that only root can mount
        assert tried[name]["tries"] > 0


def test_the_page_is_what_the_list_and_the_recorded_results_make():
    assert page.PAGE.read_text(encoding="utf-8") == page.text()
