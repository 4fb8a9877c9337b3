"""A task as files that a run owns: read, prepared and checked once, then the same for every contestant and process.

task.json     what the task is, sizes and hashes
*.jsonl       a file a split; that of test has empty labels
sealed.json   the labels of test, in its order

The seal is a record, not a lock: `unseal` opens the labels and writes the look down in
`looks.jsonl` beside the directory and in a ledger that all runs of this machine share.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from acclimate.core import files, settings
from acclimate.core.types import SPLITS, Example, Label, Split, label_of
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.task import Kind, Metric, Task, load

LOOKS = "looks.jsonl"
_ABOUT = "task.json"
_SEALED = "sealed.json"


@dataclass(frozen=True)
class Prepared:
    """A prepared task. sizes: examples a split; hashes: SHA-256 of each split's examples with their labels, as "sealed"
    of the labels of test alone, and as "about" of all else that a result depends on.
    """

    path: Path
    name: str
    kind: Kind
    labels: tuple[str, ...]
    metric: Metric
    max_tokens: int
    source: str
    sizes: Mapping[Split, int]
    hashes: Mapping[str, str]

    def examples(self, split: Split) -> list[Example]:
        """Return the split's examples; those of test have the label ""."""
        with open(self.path / f"{split}.jsonl", encoding="utf-8") as file:
            return [_example(json.loads(line)) for line in file]

    def unseal(self, by: str, *, cache: Path | None = None) -> list[Label]:
        """Return the labels of the test set, in its order, once the look is written down.

        by: who looks, such as "test TAPT, seed 1". cache: where the ledger lies; by default with what all runs share
        (core.files.cache). Where nothing can be written there, the look goes on and says so (`ledger` false).

        Raises DamagedError where the labels are not those that were sealed.
        """
        place = self.path / _SEALED
        if files.sha256_of(place) != self.hashes["sealed"]:
            raise files.DamagedError(f"{place} is damaged: its hash is not the one in {self.path / _ABOUT}")
        labels = [label_of(label) for label in files.read_json(place)]
        look = {"by": by, "time": datetime.now(UTC).isoformat(), "test": self.hashes["test"]}
        ledger = self._ledger(cache)
        try:
            ledger.parent.mkdir(parents=True, exist_ok=True)
            files.append_line(ledger, json.dumps({**look, "run": self._run}, ensure_ascii=False))
            written = True
        except OSError:  # a cache is no condition for working
            written = False
        files.append_line(self._looks, json.dumps({**look, "ledger": written}, ensure_ascii=False))
        return labels

    def looks(self) -> list[dict[str, Any]]:
        """Return the looks at this test set from this run, oldest first: by, time (UTC), test (its hash), ledger."""
        looks = _records(self._looks) if self._looks.exists() else []
        return [look for look in looks if look.get("test", self.hashes["test"]) == self.hashes["test"]]

    def earlier_looks(self, *, cache: Path | None = None) -> int:
        """Return how many looks the ledger has at this test set that this run did not make; 0 where it cannot be read.

        Test sets are the same where ids, texts and labels are, in the same order; of those sorted by class, many have
        equal labels.
        A run that was deleted and done again at the same place counts as another: its looks were looks.
        """
        return len(self._earlier(cache))

    def earlier_runs(self, *, cache: Path | None = None) -> int:
        """Return how many runs those looks were made by, as far as places tell."""
        return len({look.get("run") for look in self._earlier(cache)})

    def _earlier(self, cache: Path | None) -> list[dict[str, Any]]:
        try:
            noted = _records(self._ledger(cache))
        except OSError:
            return []
        times = {look.get("time") for look in self.looks()}
        return [look for look in noted if look.get("run") != self._run or look.get("time") not in times]

    def score(self, gold: Sequence[Label], predicted: Sequence[Label]) -> float:
        return self.metric.compute(gold, predicted)

    @property
    def _looks(self) -> Path:
        return self.path.parent / LOOKS

    @property
    def _run(self) -> str:
        return str(self.path.parent.resolve())

    def _ledger(self, cache: Path | None) -> Path:
        return (cache or files.cache()) / "looks" / f"{self.hashes['test']}.jsonl"


def prepare(task: Task, source: Path, path: Path) -> Prepared:
    """Read, prepare and check the task's splits and write them to `path`; the same again changes nothing.

    Raises ValueError for whatever `task.load` finds wrong, and where `path` holds other data already.
    """
    splits = load(task, source)
    about = {
        "name": task.name,
        "kind": task.kind,
        "labels": list(task.labels),
        "metric": task.metric.name,
        "max_tokens": task.max_tokens,
    }
    sealed = json.dumps([example.label for example in splits["test"]], ensure_ascii=False).encode()
    hashes = {"about": settings.digest(about)}
    hashes |= {split: files.sha256_of_bytes(_lines(splits[split])) for split in SPLITS}
    hashes["sealed"] = files.sha256_of_bytes(sealed)
    if (path / files.MANIFEST).exists():
        before = open_prepared(path)
        if dict(before.hashes) != hashes:
            raise ValueError(
                f"{path} holds other data than {source} now gives: the file, or what is stated of it, such as rows and "
                f"max_tokens, is another. Choose another --out"
            )
        return before
    open_splits = {**splits, "test": [_without_label(example, task.kind) for example in splits["test"]]}
    with files.new_directory(path) as temporary:
        for split in SPLITS:
            files.write_bytes(temporary / f"{split}.jsonl", _lines(open_splits[split]))
        files.write_bytes(temporary / _SEALED, sealed)
        sizes = {split: len(splits[split]) for split in SPLITS}
        files.write_json(temporary / _ABOUT, {**about, "source": task.source, "sizes": sizes, "hashes": hashes})
    return open_prepared(path)


def open_prepared(path: Path) -> Prepared:
    """Return the task that `prepare` wrote.

    Raises DamagedError where its files are not what was written, ValueError where another version wrote them, or where
    this is a file.
    """
    if path.is_file():
        raise ValueError(
            f"{path} is a file, and no prepared task. Make one of it: acclimate data prepare {path} --out runs/task, "
            f"then state runs/task/data"
        )
    if not (path / _ABOUT).exists() and (path / "data" / _ABOUT).exists():
        raise ValueError(f"{path} is the directory of a run, and its task lies in it. State {path / 'data'}")
    files.check(path)
    about = files.read_json(path / _ABOUT)
    if "sealed" not in about["hashes"]:
        raise ValueError(
            f"{path} was prepared by an earlier version of acclimate, which did not seal the test set. Choose another "
            "--out, or remove that one"
        )
    return Prepared(
        path=path,
        name=about["name"],
        kind=about["kind"],
        labels=tuple(about["labels"]),
        metric=metric_named(about["metric"]),
        max_tokens=about["max_tokens"],
        source=about["source"],
        sizes=about["sizes"],
        hashes=about["hashes"],
    )


def check_unprepared(path: Path) -> None:
    """Raises ValueError for a prepared task, or a file of one, where a labelled file is to be read."""
    place = path if os.path.isdir(path) else path.parent
    if all(os.path.exists(place / name) for name in (files.MANIFEST, _ABOUT, _SEALED)):
        raise ValueError(
            f"{path} is of a prepared task, whose test labels are sealed. Name the labelled files that it was made of, "
            f"with the same options (--split-seed too, where the split was made)"
        )


def _lines(examples: Sequence[Example]) -> bytes:
    rows = [asdict(example) for example in examples]
    for row in rows:
        if not row["spans"]:  # of most tasks, whose files and hashes are older than spans
            del row["spans"]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _without_label(example: Example, kind: Kind) -> Example:
    """Spans are what the label is about, but of a question they are where its answers stand."""
    return replace(example, label="", spans=() if kind == "span" else example.spans)


def _example(row: dict[str, Any]) -> Example:
    spans = tuple((start, end) for start, end in row.get("spans", ()))
    return Example(**{**row, "label": label_of(row["label"]), "spans": spans})


def _records(path: Path) -> list[dict[str, Any]]:
    """Return a file's lines; one that a crash tore is still a look, whose maker is not known."""
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            record = None
        found.append(record if isinstance(record, dict) else {"by": "a line that cannot be read"})
    return found
