"""A task as files in a run's directory: read and checked once, then the same for every contestant and process.

task.json     name, kind, labels, metric, sizes and hashes
*.jsonl       the examples of each split; those of test have empty labels
sealed.json   the labels of test, in the order of its examples

The seal is a record, not a lock: `unseal` returns the labels and records the look in `looks.jsonl` beside the directory
and in a ledger that all runs of this machine share.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from acclimate.core import files, settings
from acclimate.core.door import option
from acclimate.core.types import SPLITS, Example, Label, Split, label_of
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.task import Kind, Metric, Task, checked_splits

LOOKS = "looks.jsonl"
_ABOUT = "task.json"
_SEALED = "sealed.json"
PREPARED = (files.MANIFEST, _ABOUT, _SEALED)  # files that together mark the directory of a prepared task


def shares_of(examples: Iterable[Example]) -> dict[str, float]:
    """Return class -> its share of the examples, of which each has one class."""
    counts = Counter(str(example.label) for example in examples)
    return {label: count / counts.total() for label, count in counts.items()}


@dataclass(frozen=True)
class Prepared:
    """A prepared task.

    sizes   number of examples of each split
    hashes  SHA-256 of each split's examples with their labels; "sealed": of the labels of test alone; "about": of all
            else that a result depends on
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

    @cached_property
    def two_places(self) -> Literal["mentions", "pair"] | None:
        """What the labels are about: the two mentions of each text, if their places are known, or a pair of texts."""
        train = self.examples("train")
        if self.kind == "sequence" and all(len(example.spans) == 2 for example in train):
            return "mentions"
        paired = self.kind not in ("tokens", "span") and any(example.pair for example in train)
        return "pair" if paired else None

    @property
    def has_threshold(self) -> bool:
        """True if dev may decide what is predicted from the outputs (tasks/thresholds.py): for several labels, and for
        one where the metric is not accuracy (as micro-F1 over all classes is), which the most probable class suits.
        """
        return self.kind == "multilabel" or (
            self.kind == "sequence" and self.metric.name not in ("accuracy", "micro_f1")
        )

    @cached_property
    def shares(self) -> Mapping[str, float]:
        """Class -> its share of the training rows, of a task of one class a row."""
        return shares_of(self.examples("train"))

    def unseal(self, by: str, *, cache: Path | None = None) -> list[Label]:
        """Record the look and return the labels of the test set, in the order of its examples.

        by     what needs the labels, such as "test TAPT, seed 1"
        cache  folder of the ledger; None: core.files.cache(). It is written last, and only where it can be: a look in
               it that this run has not is another run's, also where this run was killed or its directory moved

        Raises DamagedError if the labels are not those that were sealed.
        """
        place = self.path / _SEALED
        if files.sha256_of(place) != self.hashes["sealed"]:
            raise files.DamagedError(
                f"{place} is damaged: its hash differs from {self.path / _ABOUT}. Prepare the task again"
            )
        labels = [label_of(label) for label in files.read_json(place)]
        look = {"by": by, "time": datetime.now(UTC).isoformat(), "test": self.hashes["test"]}
        files.append_line(self._looks, json.dumps(look, ensure_ascii=False))
        ledger = self._ledger(cache)
        with contextlib.suppress(OSError):  # a task must work without a cache
            ledger.parent.mkdir(parents=True, exist_ok=True)
            run = str(self.path.parent.resolve())
            files.append_line(ledger, json.dumps({**look, "run": run}, ensure_ascii=False))
        return labels

    def open_and_score(self, examples: Sequence[Example], predicted: Sequence[Label], *, by: str) -> dict[str, Any]:
        """Open the labels of the test set in the name of `by`, once its texts are predicted. Return ids, gold and
        predicted labels, and the score as `test`. examples: of the test set, which were predicted
        """
        gold = self.unseal(by)
        return {
            "ids": tuple(example.id for example in examples),
            "gold": tuple(gold),
            "predicted": tuple(predicted),
            "test": self.score(gold, predicted),
        }

    def looks(self) -> list[dict[str, Any]]:
        """Return the looks at this test set from this run, oldest first: by, time (UTC), test (its hash)."""
        looks = _records(self._looks) if self._looks.exists() else []
        return [look for look in looks if look.get("test", self.hashes["test"]) == self.hashes["test"]]

    def earlier_looks(self, *, cache: Path | None = None) -> int:
        """Return the number of looks at this test set in the ledger that other runs made; 0 if it cannot be read.

        Two test sets are the same if their ids, texts and labels are, in the same order. (Labels alone would not do:
        sets that are sorted by class often have the same.) A run that was deleted and done again at the same place
        counts as another one, so its earlier looks count.
        """
        return len(self._earlier(cache))

    def earlier_runs(self, *, cache: Path | None = None) -> int:
        """Return the number of runs that made those looks; two directories are two runs."""
        return len({look.get("run") for look in self._earlier(cache)})

    def _earlier(self, cache: Path | None) -> list[dict[str, Any]]:
        try:
            noted = _records(self._ledger(cache))
        except OSError:
            return []
        mine = {look["time"] for look in self.looks() if "time" in look}  # microseconds, so no two runs share one
        torn = len(mine - {look.get("time") for look in noted})  # lines of this run that a crash cut off, at most
        others = []
        for look in noted:
            if "time" not in look and torn:
                torn -= 1
            elif look.get("time") not in mine:
                others.append(look)
        return others

    def score(self, gold: Sequence[Label], predicted: Sequence[Label]) -> float:
        """Return the value of the task's metric."""
        return self.metric.compute(gold, predicted)

    @property
    def _looks(self) -> Path:
        return self.path.parent / LOOKS

    def _ledger(self, cache: Path | None) -> Path:
        return (cache or files.cache()) / "looks" / f"{self.hashes['test']}.jsonl"


def prepare(task: Task, source: Path, path: Path) -> Prepared:
    """Read, prepare and check the task's splits, write them to `path` and return them. A second call changes nothing.

    Raises ValueError for the faults that `checked_splits` finds, and if `path` already holds other data.
    """
    splits = checked_splits(task, source)
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
    if not (path / files.MANIFEST).exists():
        # the spans of a question are its answers
        sealed_off = [replace(row, label="", spans=() if task.kind == "span" else row.spans) for row in splits["test"]]
        open_splits = {**splits, "test": sealed_off}
        with files.new_directory(path) as temporary:
            for split in SPLITS:
                files.write_bytes(temporary / f"{split}.jsonl", _lines(open_splits[split]))
            files.write_bytes(temporary / _SEALED, sealed)
            sizes = {split: len(splits[split]) for split in SPLITS}
            files.write_json(temporary / _ABOUT, {**about, "source": task.source, "sizes": sizes, "hashes": hashes})
    prepared = open_prepared(path)
    if dict(prepared.hashes) != hashes:
        raise ValueError(
            f"{path} has other data than {source} now gives. Another run ({prepared.name}) began there, or the "
            f"file changed, or a setting such as rows or max_tokens. Choose another {option('out')}"
        )
    return prepared


def with_fewer(task: Prepared, rows: Sequence[int], path: Path) -> Prepared:
    """Write the task with these rows of train alone, by their ascending places, to `path`, and return it.

    Dev and test are copied, and the labels of test stay sealed. A second call changes nothing.
    """
    if (path / files.MANIFEST).exists():
        return open_prepared(path)
    about = files.read_json(task.path / _ABOUT)
    with files.new_directory(path) as temporary:
        for name in ("dev.jsonl", "test.jsonl", _SEALED):
            files.write_bytes(temporary / name, (task.path / name).read_bytes())
        examples = task.examples("train")
        lines = _lines([examples[place] for place in rows])
        files.write_bytes(temporary / "train.jsonl", lines)
        about["hashes"]["train"] = files.sha256_of_bytes(lines)
        about["sizes"]["train"] = len(rows)
        files.write_json(temporary / _ABOUT, about)
    return open_prepared(path)


def open_prepared(path: Path) -> Prepared:
    """Return the task that `prepare` wrote.

    Raises DamagedError if its files differ from those that were written, ValueError if another version wrote them, and
    if `path` is a file.
    """
    if path.is_file():
        raise ValueError(
            f"{path} is a file, not a prepared task. Prepare it with acclimate data prepare {path} --out runs/task, "
            "then give runs/task/data"
        )
    if not (path / _ABOUT).exists() and (path / "data" / _ABOUT).exists():
        raise ValueError(f"{path} is the directory of a run. Give its task instead: {path / 'data'}")
    files.check_manifest(path)
    names = {field.name for field in fields(Prepared)} - {"path"}
    about = files.read_object(path / _ABOUT, names=sorted(names))
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


def _lines(examples: Sequence[Example]) -> bytes:
    names = [field.name for field in fields(Example)]
    rows = [{name: getattr(example, name) for name in names} for example in examples]  # asdict takes ten times as long
    for row in rows:
        if not row["spans"]:  # most tasks have none, and their files and hashes are older than the field
            del row["spans"]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _example(row: dict[str, Any]) -> Example:
    spans = tuple((start, end) for start, end in row.get("spans", ()))
    return Example(**{**row, "label": label_of(row["label"]), "spans": spans})


def _records(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file of looks. A line that is no look, as where a crash cut it off, counts as one by an
    unknown run.
    """
    records = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            record = None
        is_look = isinstance(record, dict) and "by" in record
        records.append(record if is_look else {"by": "a line that cannot be read"})
    return records
