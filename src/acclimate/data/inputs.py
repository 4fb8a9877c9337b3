"""Turn a user's files into the materials of a race: read, examined, split if necessary, and without leaks."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from acclimate.core import files, ranks, settings
from acclimate.core.door import option
from acclimate.core.settings import SEEDS
from acclimate.core.types import SPLITS, Document, Example, Split, Watch, unwatched
from acclimate.data.corpus_scan import raw_documents
from acclimate.data.doctor import check_model, examine, folded_splits, note_removal, removed
from acclimate.data.examination import Examination
from acclimate.data.folds import with_folds
from acclimate.data.materials import Materials, built_corpus, corpus_of_split, listing
from acclimate.models.loading import resolved
from acclimate.reports.page import amount
from acclimate.tasks.labelled import Labelled, LabelledFiles, read_files
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.spans import PASSAGE
from acclimate.text.corpus import Corpus
from acclimate.text.overlap.words import normalised_words
from acclimate.text.untrusted import printable

if TYPE_CHECKING:
    from acclimate.statistics.power import PowerDesign

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

    def places(self) -> dict[str, Path]:
        """Return the paths that were given, by name."""
        paths = {"domain": self.domain, "general": self.general}
        return {name: path for name, path in paths.items() if path is not None}


def examined(
    labelled: Labelled,
    raw: Raw,
    *,
    model: str | None,
    seeds: int,
    comparisons: int,
    spread: PowerDesign | None = None,
    folds: int = 0,
    finetune: Any = None,
    watch: Watch = unwatched,
) -> Examination:
    """Return the doctor's examination of a task. Parameters as those of `doctor.examine`."""
    model = resolved(model) if model else None
    return examine(
        labelled,
        model=model,
        corpora=raw.places(),
        separated=raw.separated,
        seeds=seeds,
        comparisons=comparisons,
        spread=spread,
        folds=folds,
        finetune=finetune,
        watch=watch,
    )


def made_ready(
    run: Path,
    source: LabelledFiles | Labelled,
    raw: Raw = Raw(),
    *,
    model: str | None = None,
    leaks: Leaks = "keep",
    seeds: int = SEEDS,
    comparisons: int = 4,
    folds: int = 0,
    finetune: Any = None,
    watch: Watch = unwatched,
) -> tuple[Prepared, Labelled, Examination]:
    """Read, examine and prepare labelled files in `run/data`; write the examination to `run/examination.json`.

    leaks: as in `gather`. Raises ValueError for faults of the files.
    """
    model = resolved(model) if model else None
    labelled = source if isinstance(source, Labelled) else read_files(source)
    settings: dict[str, Any] = {"seeds": seeds, "comparisons": comparisons, "folds": folds}
    settings |= {"model": model, "finetune": finetune, "watch": watch}
    # an examination may take a minute of all cores: the first of several processes does it and sends the result
    plain = ranks.agree(examined(labelled, raw, **settings).to_json() if ranks.is_first() else {})
    examination = Examination.from_json(plain)
    if examination.errors:
        raise ValueError("\n".join(f"{error.what} {error.way_out}".strip() for error in examination.errors))
    if leaks == "drop":
        labelled = removed(labelled, examination)
        examination = note_removal(examination, labelled)
    task = ranks.first_then_all(lambda: prepare(labelled.task(), labelled.files[0].path, run / "data"))
    if (learnt := check_model(model, task.hashes)) is not None:
        examination = replace(examination, findings=(learnt, *examination.findings))
    if ranks.is_first():
        files.write_json(run / EXAMINATION, examination.to_json())
        read = labelled.columns
        columns = {"text": read.text, "pair": read.pair, "id": read.id, "separator": labelled.separator}
        files.write_json(run / COLUMNS, columns)
    return task, labelled, examination


def gather(
    run: Path,
    source: LabelledFiles | Labelled,
    raw: Raw,
    *,
    model: str | None,
    leaks: Leaks = "keep",
    seeds: int = SEEDS,
    comparisons: int = 4,
    folds: int = 0,
    split_seed: int = 0,
    finetune: Any = None,
    watch: Watch = unwatched,
) -> Materials:
    """Return the materials of a race, and write the doctor's examination to `run/examination.json`.

    source  labelled files, or their rows if they have been read
    raw     raw text, if any. Documents that contain a dev or test text are left out. One in HELD_OUT documents of the
            domain, and at most the same share of the general text, are held out of all training and retrieval, to
            measure the loss on
    leaks   what to do with labelled rows that contain a test text: "keep" scores the race with and without them,
            "drop" removes them
    folds   of a cross-validation that is repeated `seeds` times; 0: none. split_seed: of their division
    finetune  the recipe of the fine-tunings, of whose steps the doctor speaks

    Raises ValueError for faults of the files, before anything is trained.
    """
    if raw.general is None and model is None:
        raise ValueError(
            f"{option('model', 'scratch')} pretrains a small encoder on general text, and there is none. Add "
            f"{option('general', 'TEXT')}, or leave {option('model')} out to start from the embedded encoder"
        )
    model = resolved(model) if model else None
    settings: dict[str, Any] = {"leaks": leaks, "seeds": seeds, "comparisons": comparisons, "folds": folds}
    settings |= {"finetune": finetune, "watch": watch}
    task, labelled, examined = made_ready(run, source, raw, model=model, **settings)
    place = run / "corpora"
    task_text = corpus_of_split(task, "train", place, watch)
    making = _Making(raw, place, task, examined, watch)
    domain, heldout, on_domain = making.domain()
    general, general_heldout, on_general = making.general()
    materials = Materials(
        task=task,
        task_text=task_text,
        model=model,
        general=general,
        domain=domain,
        heldout=heldout,
        general_heldout=general_heldout,
        notes=(*labelled.notes, *on_domain, *on_general),
        examination=examined,
    )
    if not folds:
        return materials
    rows = [row for split in folded_splits(labelled) for row in labelled.splits[split]]
    division: dict[str, Any] = {"articles": labelled.articles, "folds": folds, "repeats": seeds, "seed": split_seed}
    return with_folds(materials, labelled.task(), rows, run, **division, watch=watch)


@dataclass(frozen=True)
class _Making:
    """Makes corpora from raw text, each once for these files and this task."""

    raw: Raw
    place: Path
    task: Prepared
    examination: Examination
    watch: Watch

    def domain(self) -> tuple[Corpus | None, Corpus | None, list[str]]:
        """Return the documents for adaptation, those that measure the loss (None if there are none), and a note."""
        if self.raw.domain is None:
            return None, None, []
        adapting, heldout, counts = self._parted("domain", self.raw.domain, HELD_OUT)
        note = (
            f"Of the domain's {amount(counts.documents, 'document')} {len(adapting):,} adapt, {len(heldout or ()):,} "
            f"measure the loss; {counts.left_out(len(adapting) + len(heldout or ()))}"
        )
        return adapting, heldout, [note]

    def general(self) -> tuple[Corpus | None, Corpus | None, list[str]]:
        """Return the documents to pretrain on or to retrieve from, those that measure forgetting, and a note.

        One document in `one_in` is held out, which is at least one in HELD_OUT and about MOST_HELD_OUT documents at
        most. `one_in` is a multiple of HELD_OUT, so the domain's text holds out the same document if it has it too:
        no model adapts on a document that measures forgetting.
        """
        if self.raw.general is None:
            return None, None, []
        one_in = HELD_OUT * math.ceil(self._counts("general").documents / (HELD_OUT * MOST_HELD_OUT))
        used, heldout, counts = self._parted("general", self.raw.general, one_in)
        if heldout is None and not counts.leaked and not counts.empty and len(used) == counts.documents:
            return used, None, []
        note = (
            f"Of the general text's {amount(counts.documents, 'document')} {len(used):,} are used, "
            f"{len(heldout or ()):,} measure forgetting; {counts.left_out(len(used) + len(heldout or ()))}"
        )
        return used, heldout, [note]

    def _parted(self, name: str, source: Path, one_in: int) -> tuple[Corpus, Corpus | None, _Counts]:
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

        self._check_some(name, source, trains)
        training = self._kept(name, name, source, trains, one_in)
        heldout = None
        if any(True for _ in self._left(name, source, measures)):
            heldout = self._kept(name, HELDOUT[name], source, measures, one_in)
        return training, heldout, self._counts(name)

    def _left(self, name: str, source: Path, keep: Callable[[Document], bool]) -> Iterator[Document]:
        """Yield the documents that have text, contain no dev or test text, and for which `keep` is True."""
        leaked = self.examination.leaked.get(name, frozenset())
        for number, document in enumerate(raw_documents(source, separated=self.raw.separated), 1):
            if str(number) not in leaked and document.text.strip() and keep(document):
                yield document

    def _kept(self, name: str, part: str, source: Path, keep: Callable[[Document], bool], one_in: int) -> Corpus:
        hashes = {split: self.task.hashes[split] for split in SPLITS}
        leaked = sorted(self.examination.leaked.get(name, ()))
        made_of = [listing(source), self.raw.separated, hashes, leaked, one_in]
        path = self.place / f"{part}-{settings.digest(made_of)[:12]}"
        return ranks.first_then_all(lambda: built_corpus(path, self._left(name, source, keep), self.watch))

    def _check_some(self, name: str, source: Path, keep: Callable[[Document], bool]) -> None:
        if any(True for _ in self._left(name, source, keep)):
            return
        facts = self._counts(name)
        others = facts.documents - facts.leaked - facts.empty
        parts = [
            (facts.leaked, "hold a dev or test text"),
            (others, "are held out to measure the loss"),
            (facts.empty, "hold no text"),
        ]
        why = ", ".join(f"{count:,} {reason}" for count, reason in parts if count)
        raise ValueError(
            f"{printable(str(source))}: nothing of the {name} corpus is left to train on: of "
            f"{amount(facts.documents, 'document')} {why}. Add {name} text that does not stand in dev or test"
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
        sentence = f"{self.leaked:,} that hold a dev or test text were left out"
        sentence += f", {unmeasured:,} are left out of training and not measured either" if unmeasured else ""
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
