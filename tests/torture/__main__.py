"""Run the torture, or a part of it; see `python -m torture --help`."""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "MPLBACKEND": "Agg"}
os.fsync = lambda handle: None  # the machine does not go down, and each file would wait for the disk

import argparse  # noqa: E402
import json  # noqa: E402
import random  # noqa: E402
import shutil  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections import Counter  # noqa: E402
from datetime import date  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1]))

from torture import faults, page, victims  # noqa: E402

SHOWN = 40  # failures of a part that are kept


def main() -> int:
    parser = argparse.ArgumentParser(prog="torture", description="Faults that a user may meet, tried in numbers.")
    parser.add_argument("--seed", type=int, default=None, help="of all that is random; by default another each time")
    parser.add_argument("--part", action="append", help="only this row of the matrix; may be repeated")
    parser.add_argument("--tenth", action="store_true", help="a tenth of the tries")
    parser.add_argument("--share", type=float, default=1.0, help="a share of the tries")
    parser.add_argument("--victims", nargs="+", choices=victims.VICTIMS, help="only these commands")
    parser.add_argument("--state", type=Path, default=None, help="file with what is done; the same seed goes on there")
    parser.add_argument("--record", action="store_true", help="keep the counts, and write docs/reliability.md of them")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 30) if given.seed is None else given.seed
    state: dict[str, Any] = {"seed": seed, "parts": {}}
    if given.state and given.state.exists():
        before = json.loads(given.state.read_text())
        if given.seed in (None, before["seed"]):
            state, seed = before, before["seed"]
    share = 0.1 if given.tenth else given.share
    parts = [fault for fault in page.FAULTS if not given.part or fault.name in given.part]
    print(f"seed {seed}; {len(parts)} parts", flush=True)
    scratch = Path(tempfile.mkdtemp(prefix="torture-"))
    failed = 0
    try:
        begun = time.monotonic()
        home = victims.warmed(scratch / "home", given.victims or ())
        print(f"warm after {time.monotonic() - begun:.0f} s", flush=True)
        for fault in parts:
            if fault.name in state["parts"] and not given.part:
                failed += len(state["parts"][fault.name]["failures"])
                continue
            bench = faults.Bench(home, scratch, random.Random(f"{seed} {fault.name}"))
            if given.victims:
                bench.victims = tuple(victims.VICTIMS[name] for name in given.victims)
            bench.expected, bench.recordings = _kept.setdefault("expected", {}), _kept.setdefault("recordings", {})
            done = _tried(fault, bench, share)
            failed += len(done["failures"])
            state["parts"][fault.name] = done
            if given.state:
                given.state.write_text(json.dumps(state, indent=1))
            if given.record:
                page.record(fault.name, {"seed": seed, **done})
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"seed {seed}: {failed} failures")
    return 1 if failed else 0


_kept: dict[str, Any] = {}


def _tried(fault: faults.Fault, bench: faults.Bench, share: float) -> dict[str, Any]:
    """Return the counts of a part: tries, how they ended, what failed."""
    begun, before = time.monotonic(), os.times()
    how: Counter[str] = Counter()
    failures: list[str] = []
    for tried in fault.attempt(bench, max(1, round(fault.tries * share))):
        how["failed" if tried.failed else tried.how] += 1
        if tried.failed:
            failures.append(tried.failed)
            print(f"FAILED {fault.name}: {tried.failed}", flush=True)
    spent = os.times()
    seconds = spent.children_user + spent.children_system - before.children_user - before.children_system
    print(f"{fault.name}: {how.total()} tries, {len(failures)} failed; {dict(how)}; {seconds:.0f} s", flush=True)
    return {
        "tries": how.total(),
        "how": dict(how),
        "failures": failures[:SHOWN],
        "processor": round(seconds, 1),
        "wall": round(time.monotonic() - begun, 1),
        "date": str(date.today()),
    }


if __name__ == "__main__":
    sys.exit(main())
