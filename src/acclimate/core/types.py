"""The values that every floor passes on. Plain data, numpy at most: nothing here loads torch.

Shape suffixes: B rows (sequences), N tokens of all rows together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

Item = TypeVar("Item")
Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")
Label = str | tuple[str, ...] | float  # one class; several (sorted), or tags, or answers; a number
BASELINE_FILE = "baseline.json"  # in the directory of a fitted baseline, by which it is known
COMBINED_FILE = "combined.json"  # likewise of a linear model on terms and on the states of an encoder
DEV_SCORES = "dev.json"  # file of a fine-tuning: [[step, score on dev], ...] of its looks
NOT_PREDICTED = -100  # the label of a position that no loss counts (PyTorch's ignore_index)
TAGS = "tags"  # of `Batch.tokens`: the tag of a word at its first piece, NOT_PREDICTED elsewhere
MENTIONS = "mentions"  # of `Batch.rows`: (B, 2, 2), from which token each mention, or text of a pair, goes to which


@dataclass(frozen=True, slots=True)
class Document:
    """A raw text. Rows of tokens never run over its ends."""

    id: str
    text: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """A labelled text.

    text   in a task of kind "tokens", the words with one space between them
    label  of the task's kind (tasks/task.py): one class, the sorted classes of a row that may have several, a number,
           or a tag for each word
    pair   the second text of a pair
    group  rows of one group stay in one split
    spans  offsets [start, end) of the mentions that the label is about, such as the two of a relation; for a question,
           of its answers in the context
    """

    id: str
    text: str
    label: Label
    pair: str | None = None
    group: str = ""
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that was read and left out. place: such as "train.csv:118"; reason: why it was left out."""

    place: str
    reason: str


def label_of(value: Any) -> Label:
    """Return a label that was read from JSON: lists become tuples."""
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Batch:
    """The rows of one optimiser step, unpadded: row i is `ids[offsets[i]:offsets[i + 1]]`.

    ids      (N,) int64 token ids, special tokens included
    offsets  (B + 1,) int64, from 0 to N
    tokens   arrays (N,) that go with the ids, such as "labels" (NOT_PREDICTED where nothing is predicted)
    rows     arrays (B, ...) that go with the rows, such as "label"
    names    (B,) a name of each row for people: `document 17` or an example's id
    pad      the id that fills short rows when rows are put together (RoBERTa counts positions by it)
    """

    ids: np.ndarray
    offsets: np.ndarray
    tokens: dict[str, np.ndarray] = field(default_factory=dict)
    rows: dict[str, np.ndarray] = field(default_factory=dict)
    names: Sequence[str] = ()
    pad: int = 0

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """(B,) tokens of each row."""
        return np.diff(self.offsets)

    def take(self, rows: np.ndarray) -> Batch:
        """Return the batch of the rows with these indices, in this order."""
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        # position of every kept token in the old arrays: its row's old start plus its place within the row
        where = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Batch(
            ids=self.ids[where],
            offsets=offsets,
            tokens={name: values[where] for name, values in self.tokens.items()},
            rows={name: values[rows] for name, values in self.rows.items()},
            names=[self.names[row] for row in rows] if len(self.names) else (),
            pad=self.pad,
        )


class Stream(Protocol):
    """A pure function from the number of a step to its batch, so that resuming needs one integer."""

    def __call__(self, step: int) -> Batch: ...


@dataclass(frozen=True, slots=True)
class Cost:
    """What a stage cost. tokens: without padding; flops: by formula (models/encoder.py::training_flops)."""

    tokens: int = 0
    flops: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.tokens + other.tokens, self.flops + other.flops, self.seconds + other.seconds)


@dataclass(frozen=True, slots=True)
class FoldScore:
    """The result on one fold of a cross-validation, of which with others a `Score` is made; fields as of `Score`.

    rows  number of rows in the fold
    """

    rows: int
    dev: float
    test: float
    learnt: bool = True
    again: bool = False


@dataclass(frozen=True)
class Score:
    """The result of one contestant, fine-tuned with one seed, on one task: chosen on dev, tested once.

    With `folds` it is that of one repeat of a cross-validation: `test` is the metric of the predictions for all rows
    together, each by the model that was not trained on its fold, and `dev` the mean over the models.

    gold, predicted  (n,) labels of the test set, in the order of `ids`; intervals and tests are computed from them
    seed             of fine-tuning
    adaptation       seed with which the fine-tuned checkpoint was adapted; None: not adapted, or not recorded
    learnt           False if the fine-tuning learnt nothing (tasks/chance.py::nothing_learnt), in its second
                     attempt if `again` is True, or if the probe or baseline is no better on dev than guesses; with
                     `folds`, False if none of the models learnt anything
    folds            the result on each fold; () where there is one test set
    """

    contestant: str
    task: str
    metric: str
    seed: int
    dev: float
    test: float
    ids: tuple[str, ...]
    gold: tuple[Label, ...]
    predicted: tuple[Label, ...]
    adapting: Cost
    finetuning: Cost
    adaptation: int | None = None
    learnt: bool = True
    again: bool = False
    folds: tuple[FoldScore, ...] = ()

    @property
    def runs(self) -> tuple[Score | FoldScore, ...]:
        """The fine-tunings that the score is made of, each with what it learnt: one for each fold, or itself."""
        return self.folds or (self,)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A directory that every verb loads, with recipe.toml and provenance.json beside the weights.

    Transformers loads it too, unless it has a part that transformers lacks (models/formats.py). It is path-like: every
    verb and function that takes a model's directory takes a Checkpoint.
    """

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True)
class Progress:
    """A stage's report to its watch: `done` of `total` (0: unknown) in `unit`, and the newest values."""

    stage: str
    done: int
    total: int
    unit: str = "steps"
    values: dict[str, Any] = field(default_factory=dict)


class NotFiniteError(ValueError):
    """A loss or gradient is not finite. The weights are still those of the step before."""


Watch = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """Ignore the report: the default watch."""


def counted(
    items: Iterable[Item], watch: Watch, stage: str, *, total: int = 0, unit: str = "documents", every: int = 500
) -> Iterator[Item]:
    """Yield the items, and report their number to `watch` every `every` items. total: their number, 0 if unknown."""
    number = 0
    for number, item in enumerate(items, 1):
        if number % every == 0:
            watch(Progress(stage, number, total, unit))
        yield item
    watch(Progress(stage, number, number, unit))
