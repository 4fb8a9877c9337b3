"""A labelled task of three topics and raw text to go with it, small enough to race in seconds."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from acclimate.data.gather import Inputs, Raw
    from acclimate.data.materials import Materials
    from acclimate.methods.finetune import FinetuneRecipe
    from acclimate.races.report import RaceReport
    from acclimate.reading.labelled_files import LabelledFiles

TOPICS = {
    "heart": ("artery", "valve", "pulse", "aorta", "cardiac"),
    "orbit": ("moon", "apogee", "thrust", "comet", "solar"),
    "soil": ("clay", "humus", "loam", "root", "compost"),
}
PLAIN = ("the", "a", "of", "was", "in", "we", "found", "that", "and", "small", "large", "with", "over", "time")
SIZES = {"train": 60, "dev": 24, "test": 30}

SETTINGS = (
    "seeds=2",
    "adapt_seeds=1",
    'contestants=["TAPT", "DAPT", "TF-IDF"]',
    "pretrain.vocabulary=300",
    "pretrain.masking=0.15",
    *(f"pretrain.{setting}" for setting in ("layers=1", "hidden=32", "heads=2", "max_tokens=32")),
    *(f"pretrain.plan.{setting}" for setting in ("steps=60", "batch=16", "rate=5e-3")),
    *(f"tapt.{setting}" for setting in ("max_tokens=32", "plan.steps=25", "plan.batch=16", "plan.rate=2e-3")),
    *("tapt.epochs=0", "tapter.epochs=0", "tsdae.epochs=0"),
    *(f"dapt.{setting}" for setting in ("max_tokens=32", "plan.steps=30", "plan.batch=16", "plan.rate=2e-3")),
    *(
        f"{method}.{setting}"
        for method in ("dga", "light", "distil", "sequence_contrast", "token_contrast", "tsdae")
        for setting in ("max_tokens=32", "plan.steps=6", "plan.batch=8", "plan.rate=2e-3")
    ),
    *("dga.subset=16", "light.prompt_tokens=4", "light.bottleneck=8"),
    *(f"tapter.{setting}" for setting in ("max_tokens=32", "plan.steps=25", "plan.batch=16", "plan.rate=2e-3")),
    *(f"tapter.skipgram.{setting}" for setting in ("dim=16", "epochs=2", "min_count=1", "buckets=500")),
    *(f"finetune.{setting}" for setting in ("preset=papers", "looks=4", "epochs=0.0")),
    *(f"finetune.plan.{setting}" for setting in ("steps=40", "batch=16", "rate=1e-2")),
)
"""Of a race that takes a few seconds."""


def papers(model: str = "", task: Path = Path(), **stated: Any) -> FinetuneRecipe:
    """The preset "papers" of fine-tuning, which is cheap with few steps, with these settings on top."""
    from acclimate.methods.finetune import PAPERS

    return replace(PAPERS, model=model, task=task, **stated)


def text(topic: str, words: int, generator: random.Random) -> str:
    """Words of which about a third belong to the topic."""
    topic_words = TOPICS[topic]
    return " ".join(generator.choice(topic_words if generator.random() < 0.35 else PLAIN) for _ in range(words)) + "."


def write_inputs(place: Path) -> Path:
    """`train.jsonl`, `dev.jsonl`, `test.jsonl`, `domain.txt` and `general.txt` in `place`, the same at every call."""
    generator = random.Random(0)
    place.mkdir(parents=True, exist_ok=True)
    for split, size in SIZES.items():
        rows = [{"text": text(topic, 14, generator), "label": topic} for topic in [*TOPICS] * (size // 3)]
        (place / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, documents in (("domain", 200), ("general", 300)):
        lines = [text(generator.choice([*TOPICS]), generator.randint(5, 40), generator) for _ in range(documents)]
        (place / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return place


def write_model(path: Path, *, hidden: int, initializer_range: float = 0.02) -> Path:
    """Write a checkpoint of a layer of random weights that reads the toy's words whole."""
    from transformers import BertTokenizer

    from acclimate.models.encoder import new_encoder, save_model

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, ".", *PLAIN, *(word for topic in TOPICS.values() for word in topic)]
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(words)})
    shape = {"layers": 1, "hidden": hidden, "heads": 2, "vocabulary_size": len(words), "longest": 40}
    save_model(new_encoder(**shape, pad=0, seed=0, initializer_range=initializer_range), tokenizer, path)
    return path


def materials_in(run: Path, inputs: Path) -> Materials:
    """What `race_command` has its race run on."""
    from acclimate.data.gather import Inputs

    return gathered(Inputs(run, *files_in(inputs)))


def gathered(inputs: Inputs, *, folds: int = 0, **planned: Any) -> Materials:
    """The materials of the inputs, read and examined first. planned: of the study, as the doctor takes it"""
    from acclimate.data.gather import gather

    return gather(inputs, inputs.labelled(), **{"comparisons": 4, "folds": folds, **planned})


def files_in(inputs: Path) -> tuple[LabelledFiles, Raw]:
    """The labelled files and the raw text there."""
    from acclimate.data.gather import Raw
    from acclimate.reading.labelled_files import LabelledFiles

    labelled = LabelledFiles(**{split: inputs / f"{split}.jsonl" for split in SIZES}, max_tokens=32)
    return labelled, Raw(domain=inputs / "domain.txt", general=inputs / "general.txt")


def few_papers(place: Path, patch: pytest.MonkeyPatch) -> None:
    """Have the embedded dataset hold the first rows of each file: a second or two instead of a minute."""
    from pyarrow import parquet

    from acclimate.data import embedded

    place.mkdir()
    for name, rows in (("arxiv", 90), ("dev", 40), ("test", 60)):
        lines = (embedded.FOLDER / f"{name}.csv").read_text("utf-8").splitlines(keepends=True)
        (place / f"{name}.csv").write_text("".join(lines[: rows + 1]), "utf-8")
    parquet.write_table(parquet.read_table(embedded.ABSTRACTS).slice(0, 100), place / "abstracts.parquet")
    patch.setattr(embedded, "FOLDER", place)
    patch.setattr(embedded, "ABSTRACTS", place / "abstracts.parquet")
    patch.setattr("acclimate.api.verbs.ABSTRACTS", place / "abstracts.parquet")


def race_command(inputs: Path, out: Path | str, *settings: str) -> list[str]:
    """The arguments of `acclimate` that race on these inputs; `settings` replace those of SETTINGS."""
    keys = {setting.partition("=")[0] for setting in settings}
    usual = [setting for setting in SETTINGS if setting.partition("=")[0] not in keys]
    stated = ["race", f"{inputs}/train.jsonl", "--dev", f"{inputs}/dev.jsonl", "--test", f"{inputs}/test.jsonl"]
    raw = ["--corpus", f"{inputs}/domain.txt", "--general", f"{inputs}/general.txt", "--model", "scratch"]
    return [*stated, *raw, "--max-tokens", "32", "--budget", "none", "--out", str(out), *usual, *settings]


def raced(task: Path, **given: Any) -> RaceReport:
    """What the page of a race shows that was called from Python. given: as of `acclimate.race`"""
    from acclimate.api.verbs import race

    report = race(task, **given).report
    assert report is not None
    return report


def outcome_without_seconds(run: Path) -> dict[str, Any]:
    """What a race recorded in race.outcome.json, without the seconds that results took."""
    outcome: dict[str, Any] = json.loads((run / "race.outcome.json").read_text())
    for result in outcome["results"]:
        for cost in result["costs"].values():
            del cost["seconds"]
        for score in result["scores"]:
            for part in ("adapting", "finetuning"):
                del score[part]["seconds"]
    return outcome
