# ruff: noqa: E501
"""docs/reliability.md, made of the list of faults and of the results that were recorded last."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torture.clusters import FAULTS as OF_CLUSTERS
from torture.faults import FAULTS as OF_MACHINES
from torture.faults import Fault
from torture.strangers import FAULTS as OF_STRANGERS

RESULTS = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
FAULTS: Sequence[Fault] = (*OF_CLUSTERS, *OF_MACHINES, *OF_STRANGERS)

HEAD = """# Reliability

What happens to your work when something breaks. `make torture` tries every row below on small inputs, with random moments and files,
and prints its seed; a run with the same seed (`--seed`) tries the same. `make torture ARGS="--part power"` runs one row, `--tenth` a
tenth of the tries, `--state FILE` continues a stopped run. The other tests, and so CI, make 1% of the tries with a fixed seed
(`tests/test_torture.py`). They use commands that take a second and omit the parts `kill-*` and `looked-at`; the parts `crash` and `power`
leave the same states as a kill. The last table names the tests of races, workers, ranks and clusters.

"The same bytes" are those of an undisturbed run: weights, results, predictions, corpora and outcomes. Files that contain times (clocks,
logs, pages) are not compared. A try that does not end as promised counts as failed.

The columns *tried* and *failed* count the tries of the recorded run. A later version of `python -m torture` may try more or fewer.

"""

TAIL = """
## Tested elsewhere

| fault | test |
|---|---|
| A worker process is killed, or its driver is, or it dies in the middle of a message | `tests/jobs/test_run.py` |
| A node of a Ray cluster or a task of it dies | `tests/jobs/test_workers_ray.py`, `tests/text/bm25/test_shards_ray.py` |
| Processes of torchrun differ in settings, inputs or versions; one hangs or is lost, the one that keeps the store too; the launcher ends | `tests/training/test_loop_ranks.py`, `tests/core/test_ranks.py` |
| A race is killed in each of its stages; a training at each of its writes, with a second attempt, a probe, an adaptation | `tests/test_kill.py` |
| A file of a finished race is harmed, and `study verify`, `report`, `ship` or `predict` follows | `tests/studies/test_regenerate.py`, `tests/shipping/test_ship.py`, `tests/shipping/test_predict.py` |
| Names of archives that lead out of their folder, bombs | `tests/reading/formats/test_archives.py`, `tests/cli/test_bad_input.py` |

## What is not promised

* Raw text and labelled files that change while they are at rest are other inputs, not damage: acclimate has no hash of what you meant.
* Hashes find damage and mistakes. One who can write your run's directory can write a hash, too.
* Logs and pages may be lost or cut off; no number is made of them.
* A disk that says that it has flushed what it has not may lose finished work. It is then named, and done again.
* With another number of threads, another GPU or other versions the bytes may differ.
* A process of torchrun that still works 100 s after the one that keeps the store has ended in order is ended, too. No command is known to do that.
"""


def record(name: str, counts: dict[str, Any]) -> None:
    """Keep the counts of a part."""
    known = recorded()
    known[name] = counts
    RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(text(), encoding="utf-8")


def recorded() -> dict[str, dict[str, Any]]:
    """Return the counts of each part that was recorded."""
    known: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return known


def text() -> str:
    """Return the page."""
    lines = [
        "| part | fault | promised | tried | failed | how the tries ended | date, seed |",
        "|---|---|---|---:|---:|---|---|",
    ]
    known = recorded()
    for fault in FAULTS:
        if done := known.get(fault.name):
            ended = ", ".join(f"{how}: {count:,}" for how, count in sorted(done["how"].items()))
            figures = f"{done['tries']:,} | {len(done['failures']):,} | {ended} | {done['date']}, {done['seed']}"
        else:
            figures = "not yet | | | "
        lines.append(f"| `{fault.name}` | {fault.does} | {fault.promised} | {figures} |")
    failures = [
        f"* `{name}`: {each.splitlines()[0]}" for name, done in sorted(known.items()) for each in done["failures"]
    ]
    if failures:
        lines += ["", "What failed in the recorded run:", "", *failures]
    return HEAD + "\n".join(lines) + "\n" + TAIL
