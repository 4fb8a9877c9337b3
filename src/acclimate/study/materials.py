"""What a race runs on, made of what the user has: the embedded default, or labelled files and raw text."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from acclimate.core import ranks, settings
from acclimate.core.types import SPLITS, Document, Example, Split, Watch, counted, unwatched
from acclimate.models.loading import resolved
from acclimate.study.race import Materials
from acclimate.tasks.docstrings import build_docstrings
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.partition import normalised
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.readers import delimited_task
from acclimate.tasks.task import Task
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.documents import read_documents

DOCSTRINGS = "docstrings"
SEALED: tuple[Split, ...] = ("dev", "test")
HELD_OUT = 20  # one document of so many of the domain is held out for measuring the loss


def cache() -> Path:
    """Where what many runs share is kept: $ACCLIMATE_CACHE, or `acclimate` in the user's cache directory."""
    if stated := os.environ.get("ACCLIMATE_CACHE"):
        return Path(stated)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "acclimate"


def docstrings(run: Path, *, labels_per_class: int | None, model: str | None, watch: Watch = unwatched) -> Materials:
    """The embedded default (tasks/docstrings.py); its general corpus is pretrained on where no model is given."""
    built = ranks.first_then_all(
        lambda: build_docstrings(cache() / DOCSTRINGS, labels_per_class=labels_per_class, watch=watch)
    )
    task = ranks.first_then_all(lambda: prepare(built.task, built.path, run / "data"))
    return Materials(
        task=task,
        task_text=built.task_text,
        model=resolved(model) if model else None,
        general=None if model else built.general,
        domain=built.domain,
        heldout=built.heldout,
    )


@dataclass(frozen=True)
class Own:
    """A user's files. Columns are told by name; `domain` and `general` are files or folders of raw text."""

    train: Path
    dev: Path
    test: Path
    text: str = "text"
    label: str = "label"
    pair: str | None = None
    metric: str = "macro_f1"
    max_tokens: int = 256
    domain: Path | None = None
    general: Path | None = None
    separated: Literal["line", "blank"] = "line"  # how documents stand in .txt files


def own(run: Path, stated: Own, *, model: str | None, watch: Watch = unwatched) -> Materials:
    """Labelled files, and raw text where there is any.

    One in HELD_OUT documents of the domain is held out of adapting, to measure the loss on; each that equals a dev or
    test text is dropped. Raises ValueError for whatever is wrong with the files, before anything is trained.
    """
    if stated.general is not None and model is not None:
        raise ValueError("give either a model to start from or a general corpus to pretrain one on, not both")
    task = ranks.first_then_all(lambda: prepare(_task(stated), stated.train, run / "data"))
    place = run / "corpora"
    texts = (Document(row.id, f"{row.text} {row.pair or ''}".strip(), task.name) for row in task.examples("train"))
    task_text = ranks.first_then_all(lambda: _built(place / f"task-{task.hashes['train'][:12]}", texts, watch))
    sealed = {text for split in SEALED for row in task.examples(split) for text in _texts(row)}
    # TAPT trains on the task's own texts: none of them may measure the loss
    seen = sealed | {text for row in task.examples("train") for text in _texts(row)}

    def adapts(document: Document) -> bool:
        return not _held(document) and normalised(document.text) not in sealed

    def measures(document: Document) -> bool:
        return _held(document) and normalised(document.text) not in seen

    adapting = heldout = general = None
    notes = []
    if stated.domain is not None:
        adapting = _kept(stated, place, "domain", task, adapts, watch=watch)
        if any(map(measures, read_documents(stated.domain, separated=stated.separated))):
            heldout = _kept(stated, place, "heldout", task, measures, watch=watch)
        notes.append(
            f"Of the domain's documents {len(adapting):,} adapt, {len(heldout or ()):,} measure the loss; those that "
            f"equal a dev or test text were dropped."
        )
    if stated.general is not None:
        general = _kept(stated, place, "general", task, lambda d: normalised(d.text) not in sealed, watch=watch)
    return Materials(task, task_text, resolved(model) if model else None, general, adapting, heldout, tuple(notes))


def corpus_at(
    source: Path, out: Path, *, separated: Literal["line", "blank"] = "line", watch: Watch = unwatched
) -> Corpus:
    """The corpus that `source` is, or one made in `out` of the raw text that it holds.

    Raises ValueError where there is neither.
    """
    if (source / "corpus.json").exists():
        return Corpus(source)
    if source == Path():
        raise ValueError("no corpus given. Add corpus=PATH: a file or folder of .txt, .jsonl or .parquet")
    path = out / "corpora" / f"corpus-{settings.digest([_listing(source), separated])[:12]}"
    return ranks.first_then_all(lambda: _built(path, read_documents(source, separated=separated), watch))


def _task(stated: Own) -> Task:
    if stated.metric not in METRICS:
        raise ValueError(f"no metric is called '{stated.metric}'. Known: {', '.join(METRICS)}")
    return delimited_task(
        stated.train.name.split(".")[0],
        {"train": stated.train, "dev": stated.dev, "test": stated.test},
        text=stated.text,
        label=stated.label,
        pair=stated.pair,
        metric=METRICS[stated.metric],
        max_tokens=stated.max_tokens,
    )


def _kept(
    stated: Own, place: Path, name: str, task: Prepared, keep: Callable[[Document], bool], *, watch: Watch
) -> Corpus:
    """The corpus of the documents to keep, made once for these files and this task."""
    source = stated.general if name == "general" else stated.domain
    assert source is not None
    made_of = [_listing(source), stated.separated, {split: task.hashes[split] for split in SPLITS}]
    path = place / f"{name}-{settings.digest(made_of)[:12]}"
    documents = read_documents(source, separated=stated.separated)
    return ranks.first_then_all(lambda: _built(path, (document for document in documents if keep(document)), watch))


def _listing(source: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of change of each file: whether a corpus was made of the files that are there now."""
    if not source.exists():
        raise ValueError(f"{source}: there is no such file or folder of raw text")
    below = sorted(source.rglob("*")) if source.is_dir() else [source]
    facts = [(str(file.relative_to(source)), file.stat()) for file in below if file.is_file()]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in facts]


def _built(path: Path, documents: Iterable[Document], watch: Watch) -> Corpus:
    if (path / "corpus.json").exists():
        return Corpus(path)
    return write_corpus(counted(documents, watch, f"reading {path.name.partition('-')[0]}"), path)


def _held(document: Document) -> bool:
    """Whether the document is held out: by its text, so that copies fall on one side."""
    return int(hashlib.sha256(normalised(document.text).encode()).hexdigest(), 16) % HELD_OUT == 0


def _texts(row: Example) -> set[str]:
    """What of an example must not be met again: its text, that of its pair, and both as TAPT would read them."""
    return {normalised(text) for text in (row.text, row.pair or row.text, f"{row.text} {row.pair or ''}")}
