"""Published datasets by name: read as labelled files are, and counted beside the counts of their papers.

A user names files or a dataset, and `read_task` reads either.

`acclimate evaluate MODEL SciERC --data DIR` reads one with `published`. `acclimate doctor blurb --data DIR` counts the
splits of a catalogue with `count_catalogue`. A count that differs is listed with its reason if the catalogue states one
for that count; any other difference should be mended. Everything is read as for fine-tuning, so a file that cannot make
a task is found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from acclimate.core.door import option
from acclimate.core.types import SPLITS, Example, Progress, Rejected, Split, Watch, unwatched
from acclimate.reading.datasets import blurb, dga, glue, questions, tlm
from acclimate.reading.datasets.catalogue import Dataset, Form, dataset_named, other_folders, size_of
from acclimate.reading.labelled import Labelled, read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.reading.tables import FileRead
from acclimate.text.untrusted import named

Verdict = Literal["equal", "known", "wrong"]
CATALOGUES: dict[str, tuple[str, tuple[Dataset, ...]]] = {
    "blurb": (blurb.TABLE, blurb.DATASETS),
    "tlm": (tlm.TABLE, tlm.DATASETS),
    "dga": (dga.TABLE, dga.DATASETS),
    "glue": (glue.TABLE, glue.DATASETS),
    "questions": (questions.TABLE, questions.DATASETS),
}
CUT = "drawn from train and counted there"  # reason for a dev set that the paper does not have
MANY = 3  # rejected rows that are listed


def read_task(labelled: LabelledFiles, data: Path | None) -> Labelled:
    """Return what was read of the files, or of the dataset in the folder `data` that `labelled.train` names.

    Raises ValueError for options that a dataset would ignore, for the name of one without its folder, and as
    `read_files` does.
    """
    if data is None:
        if not Path(labelled.train).exists() and (way_out := unplaced(str(labelled.train))):
            raise ValueError(way_out)
        return read_files(labelled)
    usual = LabelledFiles(train=labelled.train)
    if labelled != replace(usual, max_tokens=labelled.max_tokens):
        raise ValueError(
            f"the dataset '{labelled.train}' already defines its splits, columns, kind and metric. With "
            f"{option('data')}, remove the options for labelled files; {option('max_tokens')} may stay"
        )
    read = published(str(labelled.train), data)
    if labelled.max_tokens == usual.max_tokens:
        return read
    return replace(read, max_tokens=min(read.max_tokens, labelled.max_tokens))


def published(name: str, folder: Path) -> Labelled:
    """Return the splits of a dataset of any catalogue, with its kind, labels, metric and length.

    name    name of the dataset, in any case, and optionally a form after a comma: "ChemProt, markers"
    folder  folder of the catalogue, which `acclimate data fetch` fills

    Raises ValueError if there is no such dataset, if its files are missing, and for a row that cannot be used.
    """
    dataset, form = check_published(name, folder)
    task = dataset.task(form.name)
    splits = {split: tuple(task.read(folder, split)) for split in SPLITS}
    notes = [f"{dataset.name} is read from {dataset.place(folder)} in the format '{form.name}'."]
    notes += [form.note] if form.note else []
    odd = [count for count in counts_of_dataset(dataset, form, folder, splits) if count.verdict == "wrong"]
    cautions = [
        f"{count.split} has {count.found:,} {count.counted}, but the paper has {count.stated:,}. The files in "
        f"{named(dataset.place(folder))} differ from those of {dataset.name}, so scores cannot be compared with the "
        "paper's."
        for count in odd
    ]
    return Labelled(
        name=f"{dataset.name}, {form.name}" if "," in name else dataset.name,
        kind=dataset.kind,
        labels=task.labels,
        metric=dataset.metric,
        max_tokens=dataset.max_tokens,
        splits=splits,
        files=tuple(
            FileRead(Path(f"{dataset.name} {split}"), len(examples), len(examples), ())
            for split, examples in splits.items()
        ),
        notes=tuple(notes),
        cautions=tuple(cautions),
        source=task.source,
        untaught=task.untaught,
    )


def check_published(name: str, folder: Path) -> tuple[Dataset, Form]:
    """Return the dataset and its form in the folder, without reading rows.

    Raises ValueError if there is no such folder or dataset, and AbsentError if its files are missing.
    """
    if not folder.is_dir():
        raise ValueError(f"{option('data', str(folder))}: there is no such folder")
    called, _, form_name = (part.strip() for part in name.partition(","))
    dataset = dataset_named(called, (dataset for _, datasets in CATALOGUES.values() for dataset in datasets))
    in_one_form = replace(dataset, forms=(dataset.form(form_name),)) if form_name else dataset
    return dataset, in_one_form.form_in(folder)


def unplaced(name: str) -> str:
    """Return the way out for a task that is the name of a dataset or catalogue, given without --data; "" for others."""
    called = name.partition(",")[0].strip().lower()
    if called in CATALOGUES:
        return (
            f"'{name}' is a catalogue of published datasets. Add {option('data', 'DIR')}, the folder with their files"
        )
    if any(dataset.name.lower() == called for _, datasets in CATALOGUES.values() for dataset in datasets):
        return f"'{name}' is a published dataset. Add {option('data', 'DIR')}, the folder of its catalogue"
    return ""


def check_order(model: str, task: str) -> None:
    """Raise ValueError if model and task of `evaluate MODEL TASK` are the wrong way round."""
    holds_model = any((Path(task) / name).is_file() for name in ("config.json", "checkpoint/config.json"))
    is_task = not Path(model).is_dir() and (unplaced(model) or Path(model).is_file())
    if is_task and (holds_model or not (unplaced(task) or Path(task).exists())):
        raise ValueError(f"'{model}' is a task and {task} a model. Put the model first: evaluate {task} {model}")


def count_catalogue(catalogue: str, folder: Path, *, watch: Watch = unwatched) -> CatalogueCounts:
    """Return the counts of every dataset of the catalogue below the folder.

    Raises ValueError if there is no such catalogue or folder, or the folder has none of the datasets.
    """
    datasets, table = datasets_of(catalogue), CATALOGUES[catalogue][0]
    if not any(dataset.place(folder).is_dir() for dataset in datasets):
        folders = sorted({row.folder for row in datasets})
        fills = any(row.catalogue for row in datasets)
        way_out = f"; acclimate data fetch {catalogue} --to DIR creates one" if fills else ""
        raise ValueError(
            f"{option('data', named(folder))}: has none of the folders {', '.join(folders)}. "
            f"{other_folders(folder, folders) or f'Name the folder that they are in{way_out}'}"
        )
    counts: list[SplitCount] = []
    rejected: list[tuple[str, Rejected]] = []
    unread: list[str] = []
    notes: list[tuple[str, str]] = []
    for count, dataset in enumerate(datasets):
        watch(Progress("counting", count, len(datasets), "datasets", {"dataset": dataset.name}))
        try:
            form = dataset.form_in(folder)
            split_counts, dropped = _counted(dataset, form, folder)
        except ValueError as error:
            unread.append(f"{error}")
            continue
        counts += split_counts
        rejected += [(dataset.name, row) for row in dropped]
        if form.note:
            notes.append((dataset.name, form.note))
    watch(Progress("counting", len(datasets), len(datasets), "datasets"))
    return CatalogueCounts(table, folder, tuple(counts), tuple(rejected), tuple(unread), tuple(notes))


def datasets_of(catalogue: str) -> tuple[Dataset, ...]:
    """Return the datasets of the catalogue. Raises ValueError if there is no catalogue of this name."""
    if catalogue not in CATALOGUES:
        raise ValueError(f"no catalogue is named {catalogue!r}. Known: {', '.join(CATALOGUES)}")
    return CATALOGUES[catalogue][1]


def _counted(dataset: Dataset, form: Form, folder: Path) -> tuple[list[SplitCount], list[Rejected]]:
    rejected: list[Rejected] = []
    splits: dict[Split, list[Example]] = {}
    for split in SPLITS:
        splits[split], dropped = dataset.rows(folder, split, form.name)
        rejected += dropped
    return counts_of_dataset(dataset, form, folder, splits), rejected


def counts_of_dataset(
    dataset: Dataset, form: Form, folder: Path, splits: Mapping[Split, Sequence[Example]]
) -> list[SplitCount]:
    """Return the counts of a dataset's splits that were read in this form, beside the paper's."""
    counts = []
    sizes = {split: size_of(examples, dataset.counted) for split, examples in splits.items()}
    if form.undivided is not None:
        rows = form.undivided(dataset.place(folder))
        sizes["train"] = size_of((row for row in rows if isinstance(row, Example)), dataset.counted)
    elif "dev" not in dataset.sizes:
        sizes["train"] += sizes["dev"]
    for split, size in sizes.items():
        paper_size = dataset.sizes.get(split)
        reasons = [
            difference.reason
            for difference in form.differences
            if difference.split == split and difference.count in (size, None)
        ]
        reasons += [CUT] if paper_size is None else []
        verdict: Verdict = "equal" if size == paper_size else "known" if reasons else "wrong"
        reason = "; ".join(reasons) if verdict == "known" else ""
        counts.append(SplitCount(dataset.name, form.name, dataset.counted, split, paper_size, size, verdict, reason))
    return counts


@dataclass(frozen=True)
class SplitCount:
    """A split's count beside that of the paper.

    counted  unit, such as "sentences"
    stated   the paper's count; None if it has no such split
    verdict  "known": differs, and the catalogue has a reason; "wrong": differs without one
    reason   the catalogue's reason; "" for another verdict
    """

    dataset: str
    form: str
    counted: str
    split: Split
    stated: int | None
    found: int
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class CatalogueCounts:
    """The counts of a catalogue.

    table     the paper's table
    rejected  (dataset, row that cannot be used)
    unread    a message for each dataset that cannot be read
    notes     (dataset, note on its form)
    """

    table: str
    folder: Path
    counts: tuple[SplitCount, ...]
    rejected: tuple[tuple[str, Rejected], ...]
    unread: tuple[str, ...]
    notes: tuple[tuple[str, str], ...]

    @property
    def matches_paper(self) -> bool:
        """True if every row was read, and every count is the paper's or differs for a known reason."""
        return not self.rejected and not self.unread and all(count.verdict != "wrong" for count in self.counts)

    def as_text(self) -> str:
        """Return a line for each split, then notes, rejected rows, messages and a summary."""
        rows = [("dataset", "form", "counted", "split", "paper", "found", "")]
        rows += [
            (
                count.dataset,
                count.form,
                count.counted,
                count.split,
                _figure(count.stated),
                _figure(count.found),
                _said(count),
            )
            for count in self.counts
        ]
        widths = [max(len(row[at]) for row in rows) for at in range(6)]
        right = {4, 5}
        lines = [f"{named(self.folder)} against {self.table}", ""]
        for row in rows:
            cells = [
                cell.rjust(width) if at in right else cell.ljust(width)
                for at, (cell, width) in enumerate(zip(row[:6], widths, strict=True))
            ]
            lines.append("  ".join([*cells, row[6]]).rstrip())
        lines.append("")
        lines += [f"{name}: {note}" for name, note in self.notes]
        lines += [f"{name}: {rejected.place}: {rejected.reason}" for name, rejected in self.rejected[:MANY]]
        if len(self.rejected) > MANY:
            lines.append(f"{len(self.rejected) - MANY:,} more rows were rejected.")
        lines += [f"Not read: {why}" for why in self.unread]
        verdicts = [count.verdict for count in self.counts]
        lines.append(
            f"{verdicts.count('equal')} of {len(verdicts)} counts equal the paper's, {verdicts.count('known')} "
            f"differ for a known reason, {verdicts.count('wrong')} for an unknown one; {len(self.rejected):,} rows "
            f"rejected, {len(self.unread)} datasets not read."
        )
        return "\n".join(lines)


def _figure(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _said(count: SplitCount) -> str:
    if count.verdict == "equal":
        return "equal"
    return f"known: {count.reason}" if count.verdict == "known" else "DIFFERS for an unknown reason"
