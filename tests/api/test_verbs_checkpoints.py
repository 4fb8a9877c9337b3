"""What `adapt` returns is accepted by every verb that takes a model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import acclimate
from acclimate.analyses.attention import analyse_heads
from acclimate.analyses.embeddings import analyse_embeddings
from acclimate.analyses.head_importance import analyse_importance
from acclimate.analyses.vocabularies import VocabularyRecipe, compare_vocabularies
from acclimate.api.call import call_text
from acclimate.core.types import Checkpoint, Document
from acclimate.data.gather import Inputs
from acclimate.models.encoder import load_masked_language_model
from acclimate.models.loading import identity, load_tokenizer, resolved
from acclimate.reading.labelled import LabelledFiles, read_files
from acclimate.tasks.prepared import prepare
from acclimate.text.corpus import write_corpus

SHORT = {"seeds": 2, "finetune__preset": "papers", "finetune__epochs": 0, "finetune__plan__steps": 2}
SHORT |= {"finetune__looks": 1, "search__rates": []}


@pytest.fixture(scope="module")
def checkpoint(toy_race: Any, toy_inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return acclimate.adapt(
        "mlm", model=toy_race.base, corpus=toy_inputs / "domain.txt", out=tmp_path_factory.mktemp("adapted"),
        epochs=0, max_tokens=32, plan__steps=2, plan__batch=4, progress=False,
    )  # fmt: skip


@pytest.fixture
def files(toy_inputs: Path) -> dict[str, Path]:
    return {name: toy_inputs / f"{name}.jsonl" for name in ("dev", "test")}


def test_a_checkpoint_is_its_directory(checkpoint: Checkpoint) -> None:
    assert os.fspath(checkpoint) == str(checkpoint.path)
    assert call_text("ship", [checkpoint], {}) == f"acclimate.ship({str(checkpoint.path)!r})"
    assert resolved(checkpoint) == str(checkpoint.path)
    assert identity(checkpoint) == identity(checkpoint.path)
    assert load_masked_language_model(checkpoint).config.hidden_size == 32
    assert len(load_tokenizer(checkpoint)) > 10
    assert Inputs(Path("out"), models=(checkpoint,)).model == str(checkpoint.path)  # type: ignore[arg-type]


def test_adapt_and_doctor_take_it(checkpoint: Checkpoint, toy_inputs: Path, files: Any, tmp_path: Path) -> None:
    again = acclimate.adapt(
        "mlm", model=checkpoint, corpus=toy_inputs / "domain.txt", out=tmp_path, epochs=0, max_tokens=32,
        plan__steps=1, plan__batch=4, progress=False,
    )  # fmt: skip
    assert again.path.is_dir()
    scratch = acclimate.adapt(
        "scratch", tokenizer=checkpoint, corpus=toy_inputs / "domain.txt", out=tmp_path / "scratch", layers=1,
        hidden=32, heads=2, max_tokens=32, plan__steps=1, plan__batch=4, progress=False,
    )  # fmt: skip
    assert scratch.path.is_dir()
    found = acclimate.doctor(toy_inputs / "train.jsonl", **files, model=checkpoint, progress=False)
    assert not getattr(found, "errors", None)


def test_evaluate_and_race_take_it(checkpoint: Checkpoint, toy_inputs: Path, files: Any, tmp_path: Path) -> None:
    train = toy_inputs / "train.jsonl"
    evaluated = acclimate.evaluate(checkpoint, train, **files, **SHORT, out=tmp_path / "evaluated", progress=False)
    assert evaluated.report is not None
    assert not evaluated.report.failed
    raced = acclimate.race(
        train, **files, **SHORT, model=checkpoint, contestants=["TF-IDF"], out=tmp_path / "raced", progress=False
    )
    assert raced.report is not None
    assert not raced.report.failed


def test_predict_takes_a_fine_tuned_one_and_ship_says_what_it_needs(
    checkpoint: Checkpoint, toy_inputs: Path, tmp_path: Path
) -> None:
    prepared = tmp_path / "data"
    labelled = read_files(LabelledFiles(train=toy_inputs / "train.jsonl", dev=toy_inputs / "dev.jsonl"))
    prepare(labelled.task(), labelled.files[0].path, prepared)
    tuned = acclimate.adapt(
        "finetune", model=checkpoint, task=prepared, out=tmp_path / "tuned", preset="papers", epochs=0, plan__steps=2,
        looks=1, progress=False,
    )  # fmt: skip
    [prediction] = acclimate.predict(tuned, ["the pulse of the heart"], progress=False)  # type: ignore[misc]
    assert prediction.label in labelled.labels
    with pytest.raises(ValueError, match="race"):
        acclimate.ship(tuned, tmp_path / "shipped", progress=False)


def test_analyses_take_it(checkpoint: Checkpoint, toy_inputs: Path, tmp_path: Path) -> None:
    texts = (toy_inputs / "domain.txt").read_text().splitlines()[:12]
    assert len(analyse_heads([checkpoint], texts, source="domain", max_tokens=16).heads) == 2
    other = checkpoint.path.parent / "checkpoint"
    assert analyse_embeddings([checkpoint, other], texts=texts, source="domain") is not None
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("\n".join(texts[name == "b" :: 2]))
    sources = {name: tmp_path / f"{name}.txt" for name in ("a", "b")}
    found = analyse_importance(checkpoint, sources, max_tokens=16, dropout=0.1)
    assert len(found.domains) == 2
    corpus = write_corpus((line for line in documents(texts)), tmp_path / "corpus")
    compared = compare_vocabularies(VocabularyRecipe(size=0), corpus, tmp_path / "out", models=[checkpoint])
    assert compared is not None


def documents(texts: list[str]) -> Any:
    for number, text in enumerate(texts):
        yield Document(str(number), text, "domain")
