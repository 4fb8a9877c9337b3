"""Labelled tasks of made-up words, in which nothing stands twice unless a test puts it there."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from acclimate.core.types import Example, Label, Rejected
from acclimate.reading.labelled import Labelled
from acclimate.reading.tables import FileRead
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.task import Kind

generator = random.Random(0)
WORDS = tuple("".join(generator.choices("abcdefghijklmnop", k=generator.randint(3, 9))) for _ in range(3_000))


def text(seed: int | str, words: int = 40) -> str:
    return " ".join(random.Random(f"text {seed}").choices(WORDS, k=words))


def examples(split: str, size: int, labels: Sequence[Label] = ("acid", "base"), words: int = 40) -> list[Example]:
    """Rows `train-0`, `train-1`, ... whose labels take turns."""
    return [
        Example(f"{split}-{number}", text(f"{split} {number}", words), labels[number % len(labels)])
        for number in range(size)
    ]


def labelled(
    train: Sequence[Example],
    dev: Sequence[Example],
    test: Sequence[Example],
    *,
    kind: Kind = "sequence",
    metric: str = "macro_f1",
    max_tokens: int = 64,
    rejected: Sequence[Rejected] = (),
) -> Labelled:
    """A task as read_files gives it; the rejected rows are those of train.csv."""
    names = {name for row in train for name in (row.label if isinstance(row.label, tuple) else (row.label,))}
    files = tuple(
        FileRead(Path(f"{name}.csv"), len(rows) + len(out), len(rows), tuple(out))
        for name, rows, out in (("train", train, rejected), ("dev", dev, ()), ("test", test, ()))
    )
    return Labelled(
        name="salts",
        kind=kind,
        labels=() if kind == "score" else tuple(sorted(map(str, names))),
        metric=METRICS[metric],
        max_tokens=max_tokens,
        splits={"train": tuple(train), "dev": tuple(dev), "test": tuple(test)},
        files=files,
        notes=(),
    )


def one_word_changed(words: str, place: int = 20) -> str:
    changed = words.split()
    changed[place] = "exchanged"
    return " ".join(changed)
