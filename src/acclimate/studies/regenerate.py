"""Write every table and page of a finished race or study again, if its results are still those of the lock."""

from __future__ import annotations

from pathlib import Path

from acclimate.jobs.lock import differences, read_lock
from acclimate.studies import write_again


def regenerate(run: Path) -> str:
    """Write the tables and pages in `run` from the outcomes there, and return the texts. No job runs.

    Raises ValueError, with what differs, where a result is not the lock's.
    """
    lock = read_lock(run)
    if faults := differences(run, weights=False):
        more = f" (and {len(faults) - 1:,} more: acclimate study verify {run})" if len(faults) > 1 else ""
        raise ValueError(
            f"{faults[0]}{more}. Nothing was written. Restore it, or remove the folder of that job and give the "
            f"command again: {lock['verb']}"
        )
    return write_again(run)
