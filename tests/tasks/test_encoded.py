"""Rows that several fine-tunings share: the same object where all is the same, others where anything differs."""

from dataclasses import replace

import numpy as np
import pytest
from transformers import BertTokenizer

from acclimate.core.types import Example
from acclimate.tasks import rows as module
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.rows import encode, encoded
from acclimate.tasks.task import Task

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "heart", "moon", "clay"]


def tokenizer(words=WORDS, **given):
    return BertTokenizer(vocab={word: number for number, word in enumerate(words)}, **given)


def rows_of(task, split, tokenizer):
    return encoded(task, split, task.examples(split), tokenizer)


@pytest.fixture
def task(tmp_path, monkeypatch) -> Prepared:
    monkeypatch.setattr(module, "_rows", type(module._rows)())

    def read(root, split):
        return [Example(f"{split} a", "heart moon clay", "a"), Example(f"{split} b", "moon", "b")]

    stated = Task("toy", "sequence", read, ("a", "b"), METRICS["accuracy"], 8, source="made up")
    return prepare(stated, tmp_path, tmp_path / "data")


def test_rows_are_those_of_encode_and_made_once(task):
    first = rows_of(task, "train", tokenizer())
    assert np.array_equal(first.ids, encode(task.examples("train"), tokenizer(), 8).ids)
    used = tokenizer()
    used(["heart"], truncation=True, max_length=3)  # what a tokenizer was last asked for is no part of it
    assert rows_of(task, "train", used) is first


def test_whatever_decides_rows_tells_them_apart(task):
    first = rows_of(task, "train", tokenizer())
    others = [
        rows_of(task, "dev", tokenizer()),
        rows_of(replace(task, max_tokens=4), "train", tokenizer()),
        rows_of(task, "train", tokenizer([*WORDS[:5], "clay", "moon", "heart"])),
        rows_of(task, "train", tokenizer(truncation_side="left")),
        rows_of(replace(task, hashes={**task.hashes, "train": "other"}), "train", tokenizer()),
    ]
    assert all(rows is not first for rows in others)
    assert others[1].ids.tolist() == [2, 5, 6, 3, 2, 6, 3]


def test_of_many_the_oldest_are_let_go(task):
    first = rows_of(task, "train", tokenizer())
    for longest in range(20, 20 + module.KEPT):
        rows_of(replace(task, max_tokens=longest), "train", tokenizer())
    assert len(module._rows) == module.KEPT
    again = rows_of(task, "train", tokenizer())
    assert again is not first
    assert np.array_equal(again.ids, first.ids)
