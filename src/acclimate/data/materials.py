"""The materials of a race: a prepared task, raw text and a model; and how corpora are made of raw text."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from acclimate.core import files, ranks, settings
from acclimate.core.types import Document, Split, Watch, counted, unwatched
from acclimate.data.as_files import raw_text
from acclimate.models.loading import identity
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.spans import PASSAGE
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.documents import files_of, read_documents

if TYPE_CHECKING:
    from acclimate.data.examination import Examination


@dataclass(frozen=True)
class Fold:
    """Which fold of a repeated cross-validation a task tests. repeat, number: from 0."""

    repeat: int
    number: int

    def __str__(self) -> str:
        return f"repeat {self.repeat + 1}, fold {self.number + 1}"


@dataclass(frozen=True)
class Materials:
    """The inputs of a race.

    task             the labelled dataset
    task_text        its training texts, made by `corpus_of_split`, for methods that adapt on the task's texts
    model            directory or hub id; None: a small encoder is pretrained on `general` (--model scratch)
    general          general text; methods that adapt on what the task's texts retrieve find it there
    domain           text of the domain, to adapt on
    heldout          text of the domain on which no model adapts, to measure the loss
    general_heldout  general text that is neither trained on nor retrieved, to measure forgetting
    notes            sentences on changes to the files
    unread           True if there is raw text that was not read, because that takes too long
    examination      the doctor's findings; None where nothing was examined
    fold             which fold of a cross-validation the task tests; None: it is no fold
    checkpoints      name -> directory or hub id of an encoder that races as it is
    folds            the materials of every fold, repeat after repeat (data/folds.py); () without cross-validation
    """

    task: Prepared
    task_text: Corpus | None = None
    model: str | None = None
    general: Corpus | None = None
    domain: Corpus | None = None
    heldout: Corpus | None = None
    general_heldout: Corpus | None = None
    notes: tuple[str, ...] = ()
    unread: bool = False
    examination: Examination | None = None
    fold: Fold | None = None
    folds: tuple[Materials, ...] = ()
    checkpoints: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.model is None and self.general is None:
            why = "without a model a small encoder is pretrained on general text, but there is none"
            raise ValueError(f"{why}. Give model or general")

    def identity(self) -> str:
        """Return the identity of the given model (models.loading.identity); "" if no model was given."""
        return identity(self.model) if self.model else ""


@dataclass(frozen=True)
class RawText(Iterable[Document]):
    """Raw text, a file or folder of it or a corpus, as its documents: in the same order at each iteration.

    separated  what ends a document in .txt files
    """

    path: Path
    separated: Literal["line", "blank"] = "line"

    def __iter__(self) -> Iterator[Document]:
        path = corpus_path(self.path)
        if (path / "corpus.json").exists():
            return Corpus(path).documents()
        return read_documents(path, separated=self.separated)


def corpus_at(
    source: Path, out: Path, *, separated: Literal["line", "blank"] = "line", watch: Watch = unwatched
) -> Corpus:
    """Return the corpus at `source`, or the one that was prepared in it, or one that is made in `out` of its raw text.

    source: a path, or a dataset of the hub

    Raises ValueError if it is none of these.
    """
    if source == Path():  # which would be the working directory
        raise ValueError("no corpus given. Add corpus=PATH: a file or folder of raw text")
    source = corpus_path(raw_text(source))
    if (source / "corpus.json").exists():
        return Corpus(source)
    path = out / "corpora" / f"corpus-{settings.digest([listing(source), separated])[:12]}"

    def read() -> Corpus:
        is_built = (path / "corpus.json").exists()
        if is_built and _rejections(Corpus(path)).exists():
            return Corpus(path)
        documents = read_documents(source, separated=separated)
        if is_built:  # a kill came before what was left out was written
            deque(documents, maxlen=0)
        corpus = Corpus(path) if is_built else built_corpus(path, documents, watch)
        first = [f"{rejected.place}: {rejected.reason}" for rejected in documents.rejected[:3]]
        record = {"rows": documents.rows, "rejections": documents.rejections, "first": first}
        files.write_json(_rejections(corpus), record)
        return corpus

    return ranks.first_then_all(read)


def corpus_path(source: Path) -> Path:
    """Return the path of the corpus in a folder that `acclimate data corpus` wrote; another path as it is."""
    from acclimate.text.preparation import CORPUS, FACTS  # loads numba

    return source / CORPUS if (source / FACTS).exists() and (source / CORPUS).exists() else source


def note_on(corpus: Corpus) -> str:
    """Return a sentence on the documents that `corpus_at` had to leave out of raw text; "" if there are none."""
    path = _rejections(corpus)
    if not path.exists():
        return ""
    way_out = f"Remove {path} and {corpus.path}, and give the same command again"
    rejections = files.read_object(path, names=("rejections", "rows", "first"), way_out=way_out)
    if not rejections["rejections"]:
        return ""
    sentence = f"{rejections['rejections']:,} of {rejections['rows']:,} documents of the raw text were not read"
    return f"{sentence}; the first: {'; '.join(rejections['first'])}."


def _rejections(corpus: Corpus) -> Path:
    return corpus.path.with_name(f"{corpus.path.name}.rejected.json")


def listing(source: Path) -> list[tuple[str, int, str]]:
    """Return name, size and SHA-256 of each file of raw text: they show if a corpus was made from these files.

    source: raw text, or a folder made by write_corpus. Raises ValueError if there is no file to read.
    """
    if not source.exists():
        raise ValueError(f"{source}: there is no such file or folder of raw text")
    source = corpus_path(source)
    corpus_file = source / "corpus.json"
    paths = [corpus_file] if corpus_file.exists() else files_of(source)
    return [(str(file.relative_to(source)), file.stat().st_size, files.sha256_of_input(file)) for file in paths]


def corpus_of_split(task: Prepared, split: Split, place: Path, watch: Watch = unwatched) -> Corpus:
    """Return the split's texts as a corpus in the directory `place`: a document for each row, its text and its pair.

    For questions, a document for each different context, without the questions (docs/methods/tapter.md).
    """
    is_span = task.kind == "span"
    texts = _contexts(task, split) if is_span else _rows(task, split)
    path = place / f"{'contexts' if is_span else 'task'}-{task.hashes[split][:12]}"
    return ranks.first_then_all(lambda: built_corpus(path, texts, watch))


def _rows(task: Prepared, split: Split) -> Iterator[Document]:
    for row in task.examples(split):
        yield Document(row.id, f"{row.text} {row.pair or ''}".strip(), task.name)


def _contexts(task: Prepared, split: Split) -> Iterator[Document]:
    contexts: set[str] = set()
    for row in task.examples(split):
        for context in row.text.split(PASSAGE):
            if context.strip() and context not in contexts:
                contexts.add(context)
                yield Document(row.id, context, task.name)


def built_corpus(path: Path, documents: Iterable[Document], watch: Watch) -> Corpus:
    """Return the corpus at `path`, made from the documents if it does not exist."""
    if (path / "corpus.json").exists():
        return Corpus(path)
    return write_corpus(counted(documents, watch, f"reading {path.name.partition('-')[0]}"), path)
