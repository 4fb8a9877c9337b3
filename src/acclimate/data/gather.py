"""What a study is run on, as a user names it (`Inputs`), and the materials that it becomes: examined, prepared and
without leaks (`gather`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from acclimate.core import files, ranks, settings
from acclimate.core.door import option
from acclimate.core.settings import SEEDS
from acclimate.core.types import SPLITS, Document, Example, Progress, Split, Watch, unwatched
from acclimate.data.as_files import is_hub_id, labelled_files
from acclimate.data.doctor import examine, folded_splits, note_removal, removed
from acclimate.data.examination import Examination
from acclimate.data.folds import with_folds
from acclimate.data.materials import Materials, RawText, built_corpus, corpus_of_split, listing
from acclimate.data.model import check_sources, open_model
from acclimate.models.loading import resolved
from acclimate.reading.labelled import Labelled, fewer, read_files
from acclimate.reading.labelled_files import LabelledFiles, with_way_out
from acclimate.reading.published import read_task
from acclimate.reading.tables import ColumnError
from acclimate.reports.page import amount
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.spans import PASSAGE
from acclimate.text.corpus import Corpus
from acclimate.text.overlap.words import normalised_words
from acclimate.text.untrusted import printable

EXAMINATION = "examination.json"
COLUMNS = "columns.json"  # in the directory of a run: which columns of the user's files were read
SEALED: tuple[Split, ...] = ("dev", "test")
HELD_OUT = 20  # of this many documents of raw text, one is held out to measure the loss
MOST_HELD_OUT = 2_000  # documents of general text that are held out; from a large corpus a smaller share
HELDOUT = {"domain": "heldout", "general": "general-heldout"}  # raw text -> folder of its held-out documents

Leaks = Literal["keep", "drop"]


@dataclass(frozen=True)
class Raw:
    """A user's raw text: files or folders. separated: what ends a document in .txt files."""

    domain: Path | None = None
    general: Path | None = None
    separated: Literal["line", "blank"] = "line"

    def texts(self) -> dict[str, RawText]:
        """Return the raw text of each name that has some."""
        paths = {"domain": self.domain, "general": self.general}
        return {name: RawText(path, self.separated) for name, path in paths.items() if path is not None}


@dataclass(frozen=True)
class Inputs:
    """What a study is run on.

    out       the directory of the study, in which data are prepared; a dry run has a temporary one here
    task      the labelled files; None where the study's settings name its datasets
    raw       raw text of the domain, and general text
    models    directories or hub ids
    checkpoints  name -> directory or hub id of an encoder that races as it is (data/checkpoints.py::checked)
    data      the folder of a benchmark, of which datasets are taken by name; None where all are files
    leaks     labelled rows that contain a test text: "keep" scores with and without them, "drop" removes them
    rows      number of training rows to sample, every class among them; 0: all
    """

    out: Path
    task: LabelledFiles | None = None
    raw: Raw = field(default_factory=Raw)
    models: tuple[str, ...] = ()
    checkpoints: Mapping[str, str] = field(default_factory=dict)
    data: Path | None = None
    leaks: Leaks = "keep"
    rows: int = 0
    watch: Watch = unwatched

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", tuple(map(resolved, self.models)))

    @property
    def model(self) -> str | None:
        """The model of a study that takes one; None where none was given."""
        return self.models[0] if self.models else None

    def labelled(self) -> Labelled:
        """Return the labelled rows, as many as were asked for. Raises ValueError as `read_task` does."""
        assert self.task is not None
        labelled = read_task(self.task, self.data)
        if labelled.kind == "search":
            self.watch(Progress("reading", 0, 0, "rows", {"note": labelled.notes[0]}))
        return fewer(labelled, self.rows, seed=0)


def read_dataset(dataset: str | LabelledFiles, data: Path | None) -> Labelled:
    """Return one of several datasets: a labelled file, by its path or with what is stated of it, or else a dataset in
    the folder `data`, or without that a dataset of the hub. Raises ValueError as `read_task` does.
    """
    labelled = dataset if isinstance(dataset, LabelledFiles) else LabelledFiles(train=Path(dataset))
    if data is None and is_hub_id(labelled.train):
        return read_files(labelled_files(labelled.train, labelled, dev=labelled.dev, test=labelled.test))
    is_file = labelled.train.is_file() or (labelled.kind == "tokens" and labelled.train.is_dir())
    try:
        return read_task(labelled, None if is_file else data)
    except ColumnError as error:
        if isinstance(dataset, LabelledFiles):
            raise
        raise with_way_out(error, dataset) from error


def gather(
    inputs: Inputs,
    labelled: Labelled,
    *,
    seeds: int = SEEDS,
    comparisons: int = 1,
    folds: int = 0,
    finetune: Any = None,
    training: Labelled | None = None,
) -> Materials:
    """Return the materials of a study of one task, and write the doctor's examination to `inputs.out/examination.json`.

    labelled     the rows that were read of `inputs.task`
    seeds, comparisons, finetune  of the study, as the doctor takes them
    folds        of a cross-validation that is repeated `seeds` times; 0: none
    training     the rows to train on, where the study has others than the examined ones

    Documents of raw text that contain a dev or test text are left out. One in HELD_OUT documents of the domain, and at
    most the same share of the general text, are held out of all training and retrieval, to measure the loss on.

    Raises ValueError for faults that the doctor found, before anything is trained.
    """
    assert inputs.task is not None
    if folds and labelled.kind == "search":
        raise ValueError(f"{option('folds', str(folds))}: a search task is not scored by cross-validation. Remove it")
    planned: dict[str, Any] = {"seeds": seeds, "comparisons": comparisons, "folds": folds, "finetune": finetune}
    model, texts = open_model(inputs.model), inputs.raw.texts()
    examination = examine(labelled, texts, model=model, **planned, watch=inputs.watch)
    task, labelled, examination = prepare_task(inputs, training or labelled, examination)
    place, watch = inputs.out / "corpora", inputs.watch
    task_text = corpus_of_split(task, "train", place, watch)
    making = _Making(texts, place, task, examination, watch)
    domain, heldout, on_domain = making.domain()
    general, general_heldout, on_general = making.general()
    materials = Materials(
        task=task,
        task_text=task_text,
        model=inputs.model,
        general=general,
        domain=domain,
        heldout=heldout,
        general_heldout=general_heldout,
        notes=(*labelled.notes, *on_domain, *on_general),
        examination=examination,
        checkpoints=inputs.checkpoints,
    )
    if not folds:
        return materials
    rows = [row for split in folded_splits(labelled) for row in labelled.splits[split]]
    division: dict[str, Any] = {"articles": labelled.articles, "folds": folds, "repeats": seeds}
    division["seed"] = inputs.task.seed
    return with_folds(materials, labelled.task(), rows, inputs.out, **division, watch=watch)


def prepare_task(
    inputs: Inputs, labelled: Labelled, examination: Examination
) -> tuple[Prepared, Labelled, Examination]:
    """Return the task, prepared in `inputs.out/data`, with its rows and findings, after leaks are dropped if asked for.

    Writes the examination to `inputs.out/examination.json`. Raises ValueError for faults that the doctor found.
    """
    if examination.errors:
        raise ValueError("\n".join(f"{error.what} {error.way_out}".strip() for error in examination.errors))
    if inputs.leaks == "drop":
        labelled = removed(labelled, examination)
        examination = note_removal(examination, labelled)
    read_task, source = labelled.task(), labelled.files[0].path
    task = ranks.first_then_all(lambda: prepare(read_task, source, inputs.out / "data"))
    findings = (*check_sources(inputs.model, task.hashes), *examination.findings)
    examination = replace(examination, findings=findings)
    if ranks.is_first():
        files.write_json(inputs.out / EXAMINATION, examination.to_json())
        read = labelled.columns
        columns = {"text": read.text, "pair": read.pair, "id": read.id, "separator": labelled.separator}
        files.write_json(inputs.out / COLUMNS, columns)
    return task, labelled, examination


@dataclass(frozen=True)
class _Making:
    """Makes corpora from raw text, each once for these files and this task."""

    raw: Mapping[str, RawText]
    place: Path
    task: Prepared
    examination: Examination
    watch: Watch

    def domain(self) -> tuple[Corpus | None, Corpus | None, list[str]]:
        """Return the documents for adaptation, those that measure the loss (None if there are none), and a note."""
        if "domain" not in self.raw:
            return None, None, []
        adapting, heldout, counts = self._parted("domain", HELD_OUT)
        note = (
            f"The domain's text has {amount(counts.documents, 'document')}: {len(adapting):,} for adaptation, "
            f"{len(heldout or ()):,} to measure the loss; {counts.left_out(len(adapting) + len(heldout or ()))}"
        )
        return adapting, heldout, [note]

    def general(self) -> tuple[Corpus | None, Corpus | None, list[str]]:
        """Return the documents to pretrain on or to retrieve from, those that measure forgetting, and a note.

        One document in `one_in` is held out, which is at least one in HELD_OUT and about MOST_HELD_OUT documents at
        most. `one_in` is a multiple of HELD_OUT, so the domain's text holds out the same document if it has it too:
        no model adapts on a document that measures forgetting.
        """
        if "general" not in self.raw:
            return None, None, []
        one_in = HELD_OUT * math.ceil(self._counts("general").documents / (HELD_OUT * MOST_HELD_OUT))
        used, heldout, counts = self._parted("general", one_in)
        if heldout is None and not counts.leaked and not counts.empty and len(used) == counts.documents:
            return used, None, []
        note = (
            f"The general text has {amount(counts.documents, 'document')}: {len(used):,} for training, "
            f"{len(heldout or ()):,} to measure forgetting; {counts.left_out(len(used) + len(heldout or ()))}"
        )
        return used, heldout, [note]

    def _parted(self, name: str, one_in: int) -> tuple[Corpus, Corpus | None, _Counts]:
        """Return the documents to train on or to retrieve from, one in `one_in` held out (None if there are none), and
        counts.

        Two kinds of documents are in neither corpus: a held-out document that is also a text of the task, because
        methods that adapt on the task's texts train on it; and a document that would be held out at one in HELD_OUT
        but is not at one in `one_in`, because the domain's text may hold the same document out.
        """
        task_texts = {text for split in SPLITS for row in self.task.examples(split) for text in _texts(row)}

        def trains(document: Document) -> bool:
            return not _held(document, HELD_OUT)

        def measures(document: Document) -> bool:
            return _held(document, one_in) and normalised_words(document.text) not in task_texts

        self._check_some(name, trains)
        training = self._kept(name, name, trains, one_in)
        heldout = None
        if any(True for _ in self._left(name, measures)):
            heldout = self._kept(name, HELDOUT[name], measures, one_in)
        return training, heldout, self._counts(name)

    def _left(self, name: str, keep: Callable[[Document], bool]) -> Iterator[Document]:
        """Yield the documents that have text, contain no dev or test text, and for which `keep` is True."""
        leaked = self.examination.leaked.get(name, frozenset())
        for number, document in enumerate(self.raw[name], 1):
            if str(number) not in leaked and document.text.strip() and keep(document):
                yield document

    def _kept(self, name: str, part: str, keep: Callable[[Document], bool], one_in: int) -> Corpus:
        hashes = {split: self.task.hashes[split] for split in SPLITS}
        leaked = sorted(self.examination.leaked.get(name, ()))
        made_of = [listing(self.raw[name].path), self.raw[name].separated, hashes, leaked, one_in]
        path = self.place / f"{part}-{settings.digest(made_of)[:12]}"
        return ranks.first_then_all(lambda: built_corpus(path, self._left(name, keep), self.watch))

    def _check_some(self, name: str, keep: Callable[[Document], bool]) -> None:
        if any(True for _ in self._left(name, keep)):
            return
        facts = self._counts(name)
        others = facts.documents - facts.leaked - facts.empty
        counts = {"hold a dev or test text": facts.leaked, "are held out to measure the loss": others}
        counts["hold no text"] = facts.empty
        why = ", ".join(f"{count:,} {reason}" for reason, count in counts.items() if count)
        raise ValueError(
            f"{printable(str(self.raw[name].path))}: no text of the {name} corpus remains for training: of "
            f"{amount(facts.documents, 'document')} {why}. Add {name} text that is not in dev or test"
        )

    def _counts(self, name: str) -> _Counts:
        facts = next(facts for facts in self.examination.corpora if facts.name == name)
        return _Counts(facts.documents, facts.empty, len(self.examination.leaked.get(name, ())))


@dataclass(frozen=True)
class _Counts:
    """Numbers of a corpus's documents: all, those without text, and those with a dev or test text."""

    documents: int
    empty: int
    leaked: int

    def left_out(self, number: int) -> str:
        """Return why no more than this number of documents are left, as the end of a sentence."""
        unmeasured = self.documents - self.empty - self.leaked - number
        sentence = f"{self.leaked:,} that contain a dev or test text were removed"
        sentence += f", {unmeasured:,} are used neither for training nor for measuring" if unmeasured else ""
        return f"{sentence}, and {self.empty:,} without text." if self.empty else f"{sentence}."


def _held(document: Document, one_in: int) -> bool:
    """Return True if the document is held out; its text decides, so that copies stay together."""
    return int(hashlib.sha256(normalised_words(document.text).encode()).hexdigest(), 16) % one_in == 0


def _texts(row: Example) -> set[str]:
    """Return the texts of an example, normalised, that held-out documents must not repeat.

    These are its text, its pair, and both joined, as methods that adapt on the task's texts read them; for a question
    each of its contexts too.
    """
    parts = (*row.text.split(PASSAGE), row.text, row.pair or row.text, f"{row.text} {row.pair or ''}")
    return {normalised_words(text) for text in parts}
