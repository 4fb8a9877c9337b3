"""A published dataset as a value: the counts of its paper, the origin of its files, and the functions that read them.

Each dataset has a folder with its files as the publisher ships them, packed (.gz, .zst, .zip, .tar.gz) or not. Some
can be read in several forms, such as the encodings of a relation, or with a substitute for a file whose licence forbids
copies. A user names a form; without a name it is the first whose files are all there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Literal

from acclimate.core.door import option
from acclimate.core.names import meant
from acclimate.core.types import Example, Rejected, Split
from acclimate.reading.formats.archives import ENDINGS
from acclimate.tasks.tags import OUTSIDE, entities
from acclimate.tasks.task import Kind, Metric, Task
from acclimate.text.untrusted import PACKINGS, named

Counted = Literal["mentions", "words", "instances", "documents", "pairs", "questions"]
ExamplesRead = Iterator[Example | Rejected]
FileReader = Callable[[Path, Split], ExamplesRead]
PACKED = (*PACKINGS, *ENDINGS)  # what may stand after a file's name; whether its reader opens archives, it says itself


@dataclass(frozen=True, slots=True)
class Download:
    """A file as it is published.

    path    below the dataset's folder
    size    bytes; 0 if unknown
    sha256  of the bytes, 64 hex digits; "" if it is unknown
    """

    path: str
    url: str
    size: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A count that is not the paper's, though nothing is wrong with the files, and why.

    count  the count in the files; None if it cannot be stated, and then `reason` explains any count
    """

    split: Split
    count: int | None
    reason: str


@dataclass(frozen=True)
class Form:
    """One way in which a dataset's files may be read.

    files        what must be there, files or folders below the dataset's folder; names without .gz, .zip and the like
    read         (the dataset's folder, split) -> an Example or a Rejected for each row, in a fixed order
    note         how it differs from what the paper had, for readers of the scores; "" if it does not
    differences  counts that are known not to be the paper's
    special      strings that it writes into texts, which a tokenizer may keep whole
    undivided    (the dataset's folder) -> the training rows as the paper counts them, before dev was drawn from them;
                 None: those of train and of dev
    archives     whether the files may be folders, or lie in .zip and .tar.gz
    joint        labels that it has beside the dataset's, tags of words with several; none need be trained on
    """

    name: str
    files: tuple[str, ...]
    read: FileReader
    note: str = ""
    differences: tuple[Difference, ...] = ()
    special: tuple[str, ...] = ()
    undivided: Callable[[Path], ExamplesRead] | None = None
    archives: bool = False
    joint: tuple[str, ...] = ()


class AbsentError(ValueError):
    """The files of a dataset are not in the folder of its catalogue."""


@dataclass(frozen=True)
class Dataset:
    """A published dataset.

    name       as its paper writes it
    type       of task, as its benchmark groups them
    folder     below the folder of the catalogue
    counted    what `sizes` count
    sizes      of the splits, by the paper's table; a split that the paper has not is left out
    downloads  the files that may be fetched
    catalogue  what `acclimate data fetch` calls the catalogue that lists its downloads; "" where it has none
    obtain     how to get the files that cannot or may not be fetched; "" if all can be
    runs       seeds that the paper averages over
    untaught   labels that no training example has in the paper's split
    """

    name: str
    type: str
    folder: str
    kind: Kind
    labels: tuple[str, ...]
    metric: Metric
    max_tokens: int
    counted: Counted
    sizes: Mapping[Split, int]
    forms: tuple[Form, ...]
    citation: str
    licence: str
    downloads: tuple[Download, ...] = field(default=(), repr=False)
    catalogue: str = ""
    obtain: str = ""
    runs: int = 5
    untaught: tuple[str, ...] = ()

    def form(self, name: str) -> Form:
        """Return the form of this name. Raises ValueError where there is none."""
        for form in self.forms:
            if form.name == name:
                return form
        names = ", ".join(form.name for form in self.forms)
        raise ValueError(f"{self.name}: no format is named {name!r}. Known: {names}")

    def place(self, root: Path) -> Path:
        """Return the folder of the files, below `root` or below the folder in it that has the catalogue's name."""
        inside = root / self.catalogue / self.folder
        return inside if inside.is_dir() and not (root / self.folder).is_dir() else root / self.folder

    def form_in(self, root: Path) -> Form:
        """Return the first form all of whose files are below `root`. Raises AbsentError where there is none."""
        for form in self.forms:
            if not self.missing(form, root):
                return form
        if not self.place(root).is_dir():
            raise AbsentError(
                f"{self.name}: there is no folder {named(root / self.folder)}. "
                f"{other_folders(root, [self.folder]) or self.way_out(root)}"
            )
        first = self.missing(self.forms[0], root)
        raise AbsentError(
            f"{self.name}: {named(self.place(root))} has no {', '.join(first)}, compressed or not. {self.way_out(root)}"
        )

    def way_out(self, root: Path) -> str:
        """Return a sentence that says how to get the files into `root`."""
        fetched = f"acclimate data fetch {self.catalogue} --to {named(root)}" if self.catalogue else ""
        if not self.obtain:
            return f"Fetch it: {fetched}" if fetched else "Fetch it"
        return f"{self.obtain}. {fetched} downloads the other files" if fetched else self.obtain

    def missing(self, form: Form, root: Path) -> list[str]:
        """Return the files of the form that are not there."""
        find_there = partial(find_file, self.place(root), archives=form.archives)
        return [name for name in form.files if find_there(name) is None]

    def rows(self, root: Path, split: Split, form: str = "") -> tuple[list[Example], list[Rejected]]:
        """Return the examples of a split, and its rows that cannot be used. form: "" for the first that is there."""
        chosen = self.form(form) if form else self.form_in(root)
        examples: list[Example] = []
        rejected: list[Rejected] = []
        for row in chosen.read(self.place(root), split):
            if isinstance(row, Rejected):
                rejected.append(row)
            else:
                examples.append(row)
        return examples, rejected

    def task(self, form: str = "") -> Task:
        """Return the task whose `read` takes the catalogue's folder. form: "" for the first that is there on reading.

        `read` raises ValueError for a row that cannot be used: scores without it would not be those of the dataset.
        """
        name = f"{self.name}, {self.form(form).name}" if form else self.name
        joint = self.form(form).joint if form else ()
        return Task(
            name,
            self.kind,
            partial(_examples, self, form),
            (*self.labels, *joint),
            self.metric,
            self.max_tokens,
            source=f"{self.citation} Licence: {self.licence}",
            untaught=(*self.untaught, *joint),
        )


def dataset_named(name: str, datasets: Iterable[Dataset]) -> Dataset:
    """Return the dataset of this name, whatever its case.

    Raises ValueError, naming the nearest, where there is none.
    """
    by_name = {dataset.name.lower(): dataset for dataset in datasets}
    if name.lower() not in by_name:
        names = [dataset.name for dataset in by_name.values()]
        raise ValueError(f"no dataset is named {name!r}{meant(name, names)}. Known: {', '.join(names)}")
    return by_name[name.lower()]


def other_folders(root: Path, folders: Iterable[str]) -> str:
    """Return a sentence that names the folders' place if that is above or one below `root`; else ""."""
    names, place = sorted(folders), root.resolve()
    below = sorted(path for path in place.iterdir() if path.is_dir()) if place.is_dir() else []
    for near in (*place.parents[:2], *below):
        if folders_here := [folder for folder in names if (near / folder).is_dir()]:
            return f"But {named(near)} has the folder {folders_here[0]}: give {option('data', named(near))}"
    return ""


def find_file(folder: Path, name: str, *, archives: bool = True) -> Path | None:
    """Return the file of this name, packed or not; with `archives` a folder or archive of it too.

    None where there is none.
    """
    endings = ("", *(PACKED if archives else PACKINGS))
    paths = (folder / f"{name}{ending}" for ending in endings)
    return next((path for path in paths if path.is_file() or (archives and path.is_dir())), None)


def file_in(folder: Path, name: str) -> Path:
    """Return the file or folder of this name, compressed or not. Raises ValueError where there is none."""
    if (path := find_file(folder, name)) is None:
        raise ValueError(f"{named(folder / name)}: there is no such file, compressed or not")
    return path


def split_form(
    name: str,
    files: Mapping[Split, str],
    reader: FileReader,
    *,
    note: str = "",
    differences: tuple[Difference, ...] = (),
    special: tuple[str, ...] = (),
) -> Form:
    """Return the form in which each split is a file."""
    return Form(name, tuple(files.values()), partial(_read_split, dict(files), reader), note, differences, special)


def held_back(rows: Iterable[Example | Rejected], count: int) -> tuple[list[Example | Rejected], list[Example]]:
    """Return the rows without and of `count` of their groups, those whose names have the smallest SHA-256.

    An example without a group is one by itself. The cut depends on the names alone, not on their order.
    """
    rows = list(rows)
    groups = {row.group or row.id for row in rows if isinstance(row, Example)}
    chosen = set(sorted(groups, key=lambda name: sha256(name.encode()).digest())[:count])
    back = [row for row in rows if isinstance(row, Example) and (row.group or row.id) in chosen]
    return [row for row in rows if isinstance(row, Rejected) or (row.group or row.id) not in chosen], back


def cut_form(
    name: str,
    *,
    train: str,
    test: str,
    reader: FileReader,
    count: int,
    note: str,
    differences: tuple[Difference, ...] = (),
) -> Form:
    """Return the form in which dev is cut from the file of train: `count` of its groups (`held_back`)."""
    reading = partial(_read_cut, {"train": train, "dev": train, "test": test}, reader, count)
    return Form(name, (train, test), reading, note, differences)


def size_of(examples: Iterable[Example], counted: Counted) -> int:
    """Return the number of mentions of entities, words with a tag that is not O, groups (documents) or examples."""
    if counted == "mentions":
        return sum(len(entities(_tags(example))) for example in examples)
    if counted == "words":
        return sum(tag != OUTSIDE for example in examples for tag in _tags(example))
    if counted == "documents":
        return len({example.group or example.id for example in examples})
    return sum(1 for _ in examples)


def _tags(example: Example) -> tuple[str, ...]:
    assert isinstance(example.label, tuple)
    return example.label


def _examples(dataset: Dataset, form: str, root: Path, split: Split) -> list[Example]:
    examples, rejected = dataset.rows(root, split, form)
    if rejected:
        first = "; ".join(f"{row.place}: {row.reason}" for row in rejected[:3])
        raise ValueError(
            f"{dataset.name}, {split}: {len(rejected):,} of {len(examples) + len(rejected):,} rows cannot be used. "
            f"The first: {first}. Without them the score would not be comparable: fetch the files again"
        )
    return examples


def _read_split(files: Mapping[Split, str], reader: FileReader, folder: Path, split: Split) -> ExamplesRead:
    yield from reader(file_in(folder, files[split]), split)


def _read_cut(files: Mapping[Split, str], reader: FileReader, count: int, folder: Path, split: Split) -> ExamplesRead:
    path = file_in(folder, files[split])
    if split == "test":
        yield from reader(path, split)
        return
    train_rows, back = held_back(reader(path, "train"), count)
    yield from train_rows if split == "train" else back
