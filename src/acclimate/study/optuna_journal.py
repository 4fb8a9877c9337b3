"""The trials that Optuna drew, kept for the next session: a file of JSON lines that Optuna's JournalStorage reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend

from acclimate.core import files, settings
from acclimate.study.recipe import Search

JOURNAL = "optuna.jsonl"


def kept_trials(journal: Path, known_as: str, own: Search, *, writes: bool) -> optuna.Study | None:
    """The trials in the journal that were drawn as `own` says, however many it asks for. None: there are none."""
    storage = JournalStorage(_Lines(journal, writes=writes))
    stated = {**asdict(own), "trials": 0, "optuna": optuna.__version__}
    name = f"{known_as} {settings.digest(stated)[:12]}"
    if name in optuna.get_all_study_names(storage):
        return optuna.load_study(study_name=name, storage=storage)
    return optuna.create_study(study_name=name, storage=storage, direction="maximize") if writes else None


class _Lines(BaseJournalBackend):
    """A file for Optuna's JournalStorage, one JSON value a line; a last line that a kill cut off is taken away.

    With Optuna's own backend the next line would be written behind the torn one, and neither could be read again.
    """

    def __init__(self, path: Path, *, writes: bool) -> None:
        self.path = path
        if writes:
            path.parent.mkdir(parents=True, exist_ok=True)
        whole, newline, torn = self._content().rpartition(b"\n")
        if writes and torn:
            files.write_bytes(path, whole + newline)

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        for number, line in enumerate(self._content().split(b"\n")[:-1]):
            if number < log_number_from:
                continue
            try:
                yield json.loads(line)
            except ValueError as error:
                raise files.DamagedError(
                    f"{self.path}:{number + 1}: not valid JSON. Remove the file: the same settings are drawn again, "
                    f"and what was run is not run again"
                ) from error

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        for line in logs:
            files.append_line(self.path, json.dumps(line, separators=(",", ":")))

    def _content(self) -> bytes:
        return self.path.read_bytes() if self.path.exists() else b""
