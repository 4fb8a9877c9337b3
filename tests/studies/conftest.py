"""What studies run on in tests: a tiny model, a made-up catalogue of datasets, questions in two stages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import toys
from acclimate.models.encoder import new_encoder, save_model
from acclimate.reading import published
from acclimate.reading.datasets import blurb
from acclimate.reading.datasets.catalogue import Dataset, split_form
from acclimate.reading.formats.delimited import delimited_examples, iob_examples, number, one_of
from acclimate.tasks.metrics import METRICS
from acclimate.text.corpus import write_corpus
from acclimate.text.documents import read_documents
from acclimate.text.vocabulary import train_tokenizer

SIZES = {"train": 24, "dev": 12, "test": 14}
TOPICS = [*toys.TOPICS]


def dataset(name: str, type: str, kind: Any, *, labels: tuple[str, ...], metric: str, reader: Any) -> Dataset:
    return Dataset(
        name=name,
        type=type,
        folder=name.lower(),
        kind=kind,
        labels=labels,
        metric=METRICS[metric],
        max_tokens=64,
        counted="instances",
        sizes={},
        forms=(split_form("made up", {split: f"{split}.tsv" for split in SIZES}, reader),),
        citation="Made up.",
        licence="none",
        obtain="Make it up",
    )


CATALOGUE = (
    dataset("Words", "NER", "tokens", labels=("B-soil", "O"), metric="entity_f1", reader=iob_examples),
    dataset(
        "Topics",
        "Question Answering",
        "sequence",
        labels=tuple(TOPICS),
        metric="accuracy",
        reader=partial(delimited_examples, text="text", label="label", label_of=one_of(tuple(TOPICS))),
    ),
    dataset(
        "Numbers",
        "Sentence Similarity",
        "score",
        labels=(),
        metric="pearson",
        reader=partial(delimited_examples, text="text", label="label", label_of=number),
    ),
    dataset("Nowhere", "PICO", "tokens", labels=("B-soil", "O"), metric="entity_f1", reader=iob_examples),  # no files
)


def tag(word: str) -> str:
    return "B-soil" if word.strip(".") in toys.TOPICS["soil"] else "O"


@pytest.fixture(scope="module")
def catalogue() -> Iterator[tuple[Dataset, ...]]:
    """CATALOGUE in place of BLURB's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blurb, "DATASETS", CATALOGUE)
        title, _ = published.CATALOGUES["blurb"]
        patch.setattr(published, "CATALOGUES", {"blurb": (title, CATALOGUE)})
        patch.setattr("acclimate.studies.inputs.CATALOGUES", published.CATALOGUES)
        yield CATALOGUE


@pytest.fixture(scope="package")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the catalogue."""
    root, generator = tmp_path_factory.mktemp("catalogue"), random.Random(3)
    for name in ("words", "topics", "numbers"):
        (root / name).mkdir()
    for split, size in SIZES.items():
        texts = [(topic, toys.text(topic, 12, generator)) for topic in TOPICS * size][:size]
        tagged = ["".join(f"{word}\t{tag(word)}\n" for word in text.split()) for _, text in texts]
        (root / "words" / f"{split}.tsv").write_text("\n".join(tagged))
        rows = [f"{text}\t{topic}" for topic, text in texts]
        (root / "topics" / f"{split}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
        rows = [f"{text}\t{sum(tag(word) != 'O' for word in text.split())}" for _, text in texts]
        (root / "numbers" / f"{split}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return root


@pytest.fixture(scope="package")
def models(tmp_path_factory: pytest.TempPathFactory, toy_inputs: Path) -> tuple[str, ...]:
    """Two encoders of one shape that read 64 tokens."""
    place = tmp_path_factory.mktemp("models")
    tokenizer = train_tokenizer(write_corpus(read_documents(toy_inputs / "domain.txt"), place / "corpus"), size=200)
    shape = {"layers": 1, "hidden": 16, "heads": 4, "vocabulary_size": 200, "longest": 64}
    for name, seed in (("one", 0), ("two", 1)):
        save_model(new_encoder(**shape, pad=tokenizer.pad_token_id, seed=seed), tokenizer, place / name)
    return str(place / "one"), str(place / "two")
