"""What the scripts of this folder write: an outcome for docs/claims.py, with figures, commands, commit, date, cost."""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from acclimate.statistics.variance import LEVEL, noncentrality

OUTCOMES = Path(__file__).with_name("outcomes")
POWER = 0.8


def from_error(difference: float, error: float, freedom: float, over: str) -> dict[str, Any]:
    """Return a figure with its 95% interval and p by Student's t, and the smallest one that is seen with 80%."""
    critical = float(stats.t.isf(LEVEL / 2, freedom))
    return {
        "difference": difference,
        "low": difference - critical * error,
        "high": difference + critical * error,
        "p": float(2 * stats.t.sf(abs(difference) / error, freedom)),
        "smallest": noncentrality(critical, freedom, 1 - POWER) * error,
        "over": over,
    }


def of_values(values: Sequence[float], over: str) -> dict[str, Any]:
    """Return the mean of independent values as a figure."""
    count = len(values)
    return from_error(float(np.mean(values)), float(np.std(values, ddof=1)) / count**0.5, count - 1, over)


def commit() -> str:
    said = subprocess.run(["git", "rev-parse", "HEAD"], cwd=OUTCOMES.parent, check=True, capture_output=True, text=True)
    return said.stdout.strip()


def write(
    name: str,
    figures: Mapping[str, Mapping[str, Any]],
    *,
    commands: Sequence[str],
    seconds: float,
    made_by: str,
    facts: Mapping[str, Any],
    remark: str = "",
) -> None:
    """Write the outcome. seconds: processor seconds of all commands; made_by: commit of the code that ran; facts: more
    numbers, for readers; remark: sentences on them that the page repeats."""
    stored = {
        "commands": list(commands),
        "commit": made_by,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor_seconds": round(seconds, 1),
        "remark": remark,
        "figures": figures,
        "facts": facts,
    }
    OUTCOMES.mkdir(exist_ok=True)
    text = json.dumps(_rounded(stored), indent=1, ensure_ascii=False)
    (OUTCOMES / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    """Return the value with numbers of six significant digits."""
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
