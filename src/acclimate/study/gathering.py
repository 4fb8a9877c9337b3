"""A user's own files made into the materials of a race: read, examined, split where need be, cleared of leaks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from acclimate.core import files, ranks, settings
from acclimate.core.types import SPLITS, Document, Example, Split, Watch, unwatched
from acclimate.models.loading import resolved
from acclimate.study.doctor import examine, removed
from acclimate.study.examination import Examination
from acclimate.study.materials import Materials, built_corpus, listing
from acclimate.tasks.own import Labelled, Own, read_own
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.text.corpus import Corpus
from acclimate.text.documents import read_documents
from acclimate.text.overlap import normalised

EXAMINATION = "examination.json"
SEALED: tuple[Split, ...] = ("dev", "test")
HELD_OUT = 20  # one document of so many of the domain is held out for measuring the loss

Leaks = Literal["keep", "drop"]


@dataclass(frozen=True)
class Raw:
    """A user's raw text: files or folders. separated: how documents stand in .txt files."""

    domain: Path | None = None
    general: Path | None = None
    separated: Literal["line", "blank"] = "line"

    def places(self) -> dict[str, Path]:
        given = {"domain": self.domain, "general": self.general}
        return {name: path for name, path in given.items() if path is not None}


def examined(
    stated: Own, raw: Raw, *, model: str | None, seeds: int, comparisons: int, watch: Watch = unwatched
) -> tuple[Labelled, Examination]:
    """The labelled files as they were read, and what the doctor says of them. Raises ValueError for what is no data."""
    labelled = read_own(stated)
    return labelled, examine(
        labelled,
        model=model,
        corpora=raw.places(),
        separated=raw.separated,
        seeds=seeds,
        comparisons=comparisons,
        watch=watch,
    )


def gather(
    run: Path,
    stated: Own,
    raw: Raw,
    *,
    model: str | None,
    leaks: Leaks = "keep",
    seeds: int = 3,
    comparisons: int = 4,
    watch: Watch = unwatched,
) -> Materials:
    """Labelled files, and raw text where there is any; `run/examination.json` holds what the doctor said.

    Documents that hold a dev or test text adapt nobody. leaks: what becomes of labelled rows that hold a test text:
    kept, and the race is scored both ways; or dropped. One in HELD_OUT documents of the domain is held out of adapting,
    to measure the loss on. Raises ValueError for whatever is wrong with the files, before anything is trained.
    """
    if (raw.general is None) == (model is None):
        raise ValueError(
            "give either a model to start from (--model, a directory or hub id) or general text to pretrain a small "
            "one on (--general TEXT): one of the two"
        )
    model = resolved(model) if model else None
    labelled, found = examined(stated, raw, model=model, seeds=seeds, comparisons=comparisons, watch=watch)
    if found.errors:
        raise ValueError("\n".join(f"{error.what} {error.way_out}".strip() for error in found.errors))
    if leaks == "drop":
        labelled = removed(labelled, found)
    task = ranks.first_then_all(lambda: prepare(labelled.task(), stated.train, run / "data"))
    if ranks.is_first():
        files.write_json(run / EXAMINATION, found.to_json())
    place = run / "corpora"
    texts = (Document(row.id, f"{row.text} {row.pair or ''}".strip(), task.name) for row in task.examples("train"))
    task_text = ranks.first_then_all(lambda: built_corpus(place / f"task-{task.hashes['train'][:12]}", texts, watch))
    making = _Making(raw, place, task, found.leaked, watch)
    domain, heldout, notes = making.domain()
    general = making.general()
    return Materials(
        task=task,
        task_text=task_text,
        model=model,
        general=general,
        domain=domain,
        heldout=heldout,
        notes=(*labelled.notes, *notes),
        examination=found,
    )


@dataclass(frozen=True)
class _Making:
    """Corpora out of raw text, each made once for these files and this task."""

    raw: Raw
    place: Path
    task: Prepared
    leaked: Mapping[str, Collection[str]]
    watch: Watch

    def domain(self) -> tuple[Corpus | None, Corpus | None, list[str]]:
        """The documents that adapt, those that measure the loss (None where there are none), and what to say of it."""
        if self.raw.domain is None:
            return None, None, []
        leaked = self.leaked.get("domain", ())
        # TAPT trains on the task's own texts: none of them may measure the loss
        seen = {text for split in SPLITS for row in self.task.examples(split) for text in _texts(row)}

        def adapts(document: Document) -> bool:
            return not _held(document) and document.id not in leaked

        def measures(document: Document) -> bool:
            return _held(document) and document.id not in leaked and normalised(document.text) not in seen

        adapting = self._kept("domain", self.raw.domain, adapts)
        heldout = None
        if any(map(measures, read_documents(self.raw.domain, separated=self.raw.separated))):
            heldout = self._kept("heldout", self.raw.domain, measures)
        note = (
            f"Of the domain's documents {len(adapting):,} adapt, {len(heldout or ()):,} measure the loss; "
            f"{len(leaked):,} that hold a dev or test text were left out."
        )
        return adapting, heldout, [note]

    def general(self) -> Corpus | None:
        if self.raw.general is None:
            return None
        leaked = self.leaked.get("general", ())
        return self._kept("general", self.raw.general, lambda document: document.id not in leaked)

    def _kept(self, name: str, source: Path, keep: Callable[[Document], bool]) -> Corpus:
        hashes = {split: self.task.hashes[split] for split in SPLITS}
        made_of = [listing(source), self.raw.separated, hashes, sorted(self.leaked.get(name, ()))]
        path = self.place / f"{name}-{settings.digest(made_of)[:12]}"
        documents = read_documents(source, separated=self.raw.separated)
        kept = (document for document in documents if keep(document))
        return ranks.first_then_all(lambda: built_corpus(path, kept, self.watch))


def _held(document: Document) -> bool:
    """Whether the document is held out: by its text, so that copies fall on one side."""
    return int(hashlib.sha256(normalised(document.text).encode()).hexdigest(), 16) % HELD_OUT == 0


def _texts(row: Example) -> set[str]:
    """What of an example must not be met again: its text, that of its pair, and both as TAPT would read them."""
    return {normalised(text) for text in (row.text, row.pair or row.text, f"{row.text} {row.pair or ''}")}
