"""A small encoder that was pretrained on the toy's general text, and labelled tasks of each kind to fine-tune it on."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acclimate.core.types import Document, Example, Label, Split
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.task import Kind, Task
from acclimate.text.corpus import write_corpus
from toys import PLAIN, SIZES, TOPICS, text

METRICS = {"sequence": "macro_f1", "multilabel": "micro_f1", "score": "pearson", "tokens": "entity_f1", "span": "f1"}
TAGS = ("O", "I-heart", "B-heart", "B-orbit")


def labelled_text(kind: Kind, generator: random.Random) -> tuple[Any, ...]:
    """A text and its label: one topic; the topics that it has words of, at most two; 50, and 5 a word of heart. Of a
    question also what else the example has.
    """
    names = [*TOPICS]
    if kind == "tokens":
        return tagged_text(generator)
    if kind == "span":
        return answered_text(generator)
    words = generator.choices(PLAIN, k=generator.randint(6, 12))
    if kind == "score":
        count = generator.randint(0, 6)
        words += generator.choices(TOPICS["heart"], k=count)
        generator.shuffle(words)
        return " ".join(words), 50.0 + 5.0 * count
    chosen = generator.sample(names, k=1 if kind == "sequence" else generator.randint(0, 2))
    words += [word for name in chosen for word in generator.choices(TOPICS[name], k=3)]
    generator.shuffle(words)
    return " ".join(words), chosen[0] if kind == "sequence" else tuple(sorted(chosen))


def tagged_text(generator: random.Random) -> tuple[str, tuple[str, ...]]:
    """Plain words with some of heart, alone or two together, and of orbit; one text in eight is too long for a row."""
    words: list[tuple[str, str]] = []
    for _ in range(generator.randint(4, 9) if generator.random() < 7 / 8 else 40):
        about = generator.random()
        if about < 0.2:
            words += [(generator.choice(TOPICS["heart"]), tag) for tag in ("B-heart", "I-heart")]
        elif about < 0.4:
            words.append((generator.choice(TOPICS["orbit"]), "B-orbit"))
        else:
            words += [(word, "O") for word in generator.choices(PLAIN, k=2)]
    return " ".join(word for word, _ in words), tuple(tag for _, tag in words)


def answered_text(generator: random.Random) -> tuple[str, Label, str, str, tuple[tuple[int, int], ...]]:
    """Plain words with one or two of heart, which answer every question; one text in eight is too long for a row."""
    words = generator.choices(PLAIN, k=generator.randint(4, 12) if generator.random() < 7 / 8 else 40)
    answer = " ".join(generator.choices(TOPICS["heart"], k=generator.randint(1, 2)))
    at = generator.randint(0, len(words))
    text = " ".join([*words[:at], answer, *words[at:]])
    start = len(" ".join([*words[:at], ""]))
    return text, (answer,), "the pulse of the heart was", "", ((start, start + len(answer)),)


@pytest.fixture(scope="session")
def toy_task(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Kind], Prepared]:
    """The prepared task of a kind, the same at every call."""
    place = tmp_path_factory.mktemp("toy-tasks")

    def of_kind(kind: Kind) -> Prepared:
        def read(path: Path, split: Split) -> list[Example]:
            generator = random.Random(f"{kind} {split}")
            rows = [labelled_text(kind, generator) for _ in range(2 * SIZES[split])]
            return [Example(f"{split}-{number}", *row) for number, row in enumerate(rows)]

        labels = {"score": (), "tokens": TAGS, "span": ()}.get(kind, tuple(sorted(TOPICS, reverse=True)))
        task = Task(f"toy {kind}", kind, read, labels, metric_named(METRICS[kind]), 32)
        return prepare(task, Path(), place / kind / "data")

    return of_kind


@pytest.fixture(scope="session")
def topic_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of forty texts of the toy's topics."""
    generator = random.Random(3)
    texts = [text(generator.choice([*TOPICS]), generator.randint(4, 12), generator) for _ in range(40)]
    documents = (Document(str(place), words) for place, words in enumerate(texts))
    return write_corpus(documents, tmp_path_factory.mktemp("topics") / "corpus").path


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at test sets of tests go into no ledger of a person."""
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
