"""A user's own questions with their answers in a context: files in SQuAD's form (tasks/formats/squad.py) as a task.

Readings
  SQuAD 2.0's questions without an answer (`is_impossible`) are left out and counted: no model here can say "none".
  BioASQ's factoid questions in this form are pairs: rows that ask the same, with ids `<question>_<number>`. They are
  trained on as pairs; dev and test score a question with all of its contexts (`by_question`), as BioASQ does.
  Where we split, no context stands on two sides, nor any article where there are FEWEST_ARTICLES titles or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from acclimate.core.types import SPLITS, Example, Rejected, Split
from acclimate.tasks.formats.squad import IMPOSSIBLE, by_question, of_question, placed_questions
from acclimate.tasks.labelled import Labelled, Own, check_apart, metric_of, told_of_rejected
from acclimate.tasks.readers import FileRead, check_accepted
from acclimate.tasks.splitting import split_off
from acclimate.text.packed import named, unpacked_name
from acclimate.text.recognise import printable

FEWEST_ARTICLES = 20  # with fewer, shares would be far off
FORM = (
    'Questions need {"data": [{"paragraphs": [{"context": ..., "qas": [{"id": ..., "question": ..., "answers": '
    '[{"text": ..., "answer_start": ...}]}]}]}]}. Rows of another kind: one object a line (jq -c \'.[]\' OLD > '
    "NEW.jsonl); BioC's documents: --kind tokens"
)


@dataclass(frozen=True)
class _File:
    """A file's questions, each with its place and its article as the group, and what became of all of them."""

    rows: Sequence[tuple[str, Example]]
    read: FileRead
    notes: tuple[str, ...]

    @property
    def examples(self) -> list[Example]:
        return [example for _, example in self.rows]


def holds_questions(path: Path) -> bool:
    """Whether questions are looked for there, by its ending."""
    return unpacked_name(path).endswith(".json") or path.name.endswith(".json.zip")


def read_questions(stated: Own) -> Labelled:
    """Read, check and, where dev or test is missing, split the user's questions.

    Raises ValueError for whatever is wrong with a file as a whole, and with what is stated.
    """
    metric = metric_of(stated.metric, "span")
    files = {split: _read(path) for split, path in stated.paths.items()}
    notes = [note for file in files.values() for note in file.notes]
    pairs = _pairs(files.values())
    # an article may have its own part in two files; a question may not
    check_apart({split: _grouped(file.rows, pairs) for split, file in files.items()})
    rows = {split: file.examples for split, file in files.items()}
    if missing := tuple(split for split in SPLITS if split not in files):
        whole = [row for _, row in _grouped(files["train"].rows, pairs, articles=True)]
        made, note = split_off(whole, missing, kind="span", seed=stated.seed, where=named(stated.train))
        rows |= made
        notes.append(note)
    splits = {split: _scored(rows[split], pairs, split) for split in SPLITS}
    if pairs:
        told = " and ".join(f"{len(splits[split]):,} in {split}" for split in SPLITS if split != "train")
        notes.append(
            f"Rows that ask the same, with ids <question>_<number>, are one question with several contexts, as BioASQ "
            f"has them: learnt one by one, and scored together ({told})."
        )
    return Labelled(
        name=printable(stated.train.name.split(".")[0]),
        kind="span",
        labels=(),
        metric=metric,
        max_tokens=stated.max_tokens,
        splits={split: tuple(splits[split]) for split in SPLITS},
        files=tuple(file.read for file in files.values()),
        notes=tuple(notes),
    )


def _read(path: Path) -> _File:
    """The file's questions that can be used; raises ValueError where too few can."""
    rows: list[tuple[str, Example]] = []
    rejected: list[Rejected] = []
    for place, row in placed_questions(path, way_out=FORM):
        if isinstance(row, Rejected):
            rejected.append(row)
        else:
            rows.append((place, row))
    faulty = [row for row in rejected if row.reason != IMPOSSIBLE]
    impossible = len(rejected) - len(faulty)
    if not rows and not rejected:
        raise ValueError(f"{named(path)}: has no question. {FORM}")
    read = FileRead(path, len(rows) + len(rejected), len(rows), tuple(rejected))
    # what SQuAD 2.0 has on purpose is no sign of a file that was misread
    check_accepted(FileRead(path, len(rows) + len(faulty), len(rows), tuple(faulty)) if rows or faulty else read)
    notes = told_of_rejected(replace(read, rejected=tuple(faulty)))
    if impossible:
        notes.append(
            f"{named(path)}: {impossible:,} of {read.rows:,} questions have no answer in their context "
            f"(is_impossible); they are left out, for no model here answers that there is none."
        )
    return _File(rows, read, tuple(notes))


def _pairs(files: Iterable[_File]) -> frozenset[str]:
    """The questions that several rows ask, by what the rows' ids begin with."""
    asked: dict[str, list[str | None]] = {}
    for row in (row for file in files for row in file.examples if _numbered(row.id)):
        asked.setdefault(of_question("", row.id), []).append(row.pair)
    return frozenset(question for question, rows in asked.items() if len(rows) > 1 and len(set(rows)) == 1)


def _numbered(id: str) -> bool:
    question, _, number = id.rpartition("_")
    return bool(question) and number.isdecimal()


def _grouped(
    rows: Sequence[tuple[str, Example]], pairs: frozenset[str], *, articles: bool = False
) -> list[tuple[str, Example]]:
    """The rows with their question as the group where they are pairs, else their article where that is asked for."""
    titles = {row.group for _, row in rows} - {""}
    kept = articles and len(titles) >= FEWEST_ARTICLES
    return [(place, replace(row, group=_question(row, pairs) or (row.group if kept else ""))) for place, row in rows]


def _question(row: Example, pairs: frozenset[str]) -> str:
    question = of_question("", row.id)
    return question if question in pairs and _numbered(row.id) else ""


def _scored(examples: Sequence[Example], pairs: frozenset[str], split: Split) -> list[Example]:
    """The examples of a split: as they are in train, pairs made one question elsewhere."""
    grouped = [replace(row, group=_question(row, pairs)) for row in examples]
    if split == "train":
        return grouped
    merged = iter(by_question(row for row in grouped if row.group))
    seen: set[str] = set()
    made = []
    for row in grouped:
        if not row.group:
            made.append(row)
        elif row.group not in seen:
            seen.add(row.group)
            made.append(next(merged))
    return made
