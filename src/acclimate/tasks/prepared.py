"""A task as files that a run owns: read, prepared and checked once, then the same for every contestant and process.

`task.json` and a JSONL file a split. Of `test.jsonl` the labels are read by scoring only; its
texts are also looked at to keep them out of what adapts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from acclimate.core import files, settings
from acclimate.core.types import SPLITS, Example, Split
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.task import Metric, Task, load

_ABOUT = "task.json"


@dataclass(frozen=True)
class Prepared:
    """A prepared task. sizes: examples a split; hashes: SHA-256 of each split's file, and as "about" of all
    else that a result depends on.
    """

    path: Path
    name: str
    labels: tuple[str, ...]
    metric: Metric
    max_tokens: int
    source: str
    sizes: Mapping[Split, int]
    hashes: Mapping[str, str]

    def examples(self, split: Split) -> list[Example]:
        with open(self.path / f"{split}.jsonl", encoding="utf-8") as file:
            return [Example(**json.loads(line)) for line in file]

    def score(self, gold: Sequence[str], predicted: Sequence[str]) -> float:
        return self.metric.compute(gold, predicted)


def prepare(task: Task, source: Path, path: Path) -> Prepared:
    """Read, prepare and check the task's splits and write them to `path`; the same again changes nothing.

    Raises ValueError for whatever `task.load` finds wrong, and where `path` holds other data already.
    """
    splits = load(task, source)
    written = {split: _lines(splits[split]) for split in SPLITS}
    about = {
        "name": task.name,
        "labels": list(task.labels),
        "metric": task.metric.name,
        "max_tokens": task.max_tokens,
    }
    hashes = {"about": settings.digest(about)}
    hashes |= {split: files.sha256_of_bytes(content) for split, content in written.items()}
    if (path / files.MANIFEST).exists():
        before = open_prepared(path)
        if dict(before.hashes) != hashes:
            raise ValueError(f"{path} holds other data than {source} now gives. Choose another --out")
        return before
    with files.new_directory(path) as temporary:
        for split, content in written.items():
            files.write_bytes(temporary / f"{split}.jsonl", content)
        sizes = {split: len(splits[split]) for split in SPLITS}
        files.write_json(temporary / _ABOUT, {**about, "source": task.source, "sizes": sizes, "hashes": hashes})
    return open_prepared(path)


def open_prepared(path: Path) -> Prepared:
    """The task that `prepare` wrote. Raises DamagedError where its files are not what was written."""
    files.check(path)
    about = files.read_json(path / _ABOUT)
    return Prepared(
        path=path,
        name=about["name"],
        labels=tuple(about["labels"]),
        metric=METRICS[about["metric"]],
        max_tokens=about["max_tokens"],
        source=about["source"],
        sizes=about["sizes"],
        hashes=about["hashes"],
    )


def _lines(examples: Sequence[Example]) -> bytes:
    return "".join(json.dumps(asdict(example), ensure_ascii=False) + "\n" for example in examples).encode()
