"""What the doctor found (study/doctor.py), as plain values: read back from JSON, shown on a terminal or in a report.

Shares are fractions of 1. Texts of users are cut to SHOWN characters where they are kept.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
LeakKind = Literal["exact", "near", "13-gram", "passage"]
SHOWN = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """error: nothing can be trained or trusted as it is; warning: a score will mislead; note: good to know.

    what, way_out   sentences
    """

    level: Level
    what: str
    way_out: str = ""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A labelled file; rows == accepted + rejected.

    reasons: (why rows were left out, how many, where the first of them stand: "train.csv:118, train.csv:131, ...")
    """

    path: str
    rows: int
    accepted: int
    rejected: int
    reasons: tuple[tuple[str, int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long a sample of the labelled texts is, in the model's tokens (its special ones included) or in words.

    limit         max_tokens: what is read of a text
    reads         what the model can read at once; None where that is unknown
    over_limit, over_reads   shares of the texts that are longer
    cut           share of all tokens that `limit` cuts off
    suggested     what --max-tokens could be; None where it is well as it is
    """

    unit: Literal["tokens", "words"]
    sampled: int
    median: int
    p95: int
    longest: int
    limit: int
    reads: int | None = None
    over_limit: float = 0.0
    over_reads: float = 0.0
    cut: float = 0.0
    suggested: int | None = None


@dataclass(frozen=True, slots=True)
class Pieces:
    """How the words of a sample of texts break into the model's pieces.

    per_word   pieces a word, on average
    whole      share of the words that are one piece
    unknown    share of the pieces that stand for "unknown"
    broken     the most frequent words of three pieces and more: (word, pieces, times met)
    """

    of: str
    texts: int
    words: int
    per_word: float
    whole: float
    unknown: float
    broken: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class CorpusFacts:
    """documents: those that were read. copies: of them, whose very text came before; empty: without any text.

    rejected: documents besides, of which nothing could be made.
    """

    name: str
    path: str
    documents: int
    characters: int
    copies: int
    empty: int = 0
    rejected: int = 0


@dataclass(frozen=True, slots=True)
class Sighting:
    """One text met twice: the beginnings of both, their labels where they have any, and what they share.

    Labels of test items are left out.
    """

    found_id: str
    within_id: str
    similarity: float
    excerpt: str
    found_text: str
    within_text: str
    found_label: str = ""
    within_label: str = ""


@dataclass(frozen=True, slots=True)
class Leak:
    """Texts of `found` ("train", "dev", "domain", "general") that hold those of `within` ("dev", "test").

    kind        exact: equal after normalisation; near: Jaccard .8 and more; 13-gram: at least half of the item's runs
                of 13 words; passage: fewer of them, which is no leak of the item
    scanned     texts of `found` that match
    references  items of `within` that are matched; share: of all items there
    same_label  items of them that are matched by a text with the same label; None for corpora and passages
    """

    found: str
    within: str
    kind: LeakKind
    scanned: int
    references: int
    share: float
    same_label: int | None = None
    examples: tuple[Sighting, ...] = ()


@dataclass(frozen=True, slots=True)
class Copies:
    """Texts that occur more than once, exactly or nearly, in one split.

    texts        different ones that do
    rows         rows beyond the first of each
    conflicting  texts among them whose rows bear different labels
    marked       of these, texts that are told apart by punctuation: marks may say what the label is about
    """

    split: str
    texts: int
    rows: int
    conflicting: int
    examples: tuple[Sighting, ...] = ()
    marked: int = 0


@dataclass(frozen=True)
class Examination:
    """All that the doctor says about labelled files, corpora and model, before anything is trained.

    task          facts: name, kind, metric, labels (their number), max_tokens, model
    splits        rows of each split; label_counts: rows that bear a label, by split; quantiles: of a number to predict,
                  by split: least, quarter, half, three quarters, most
    leaked        ids: "test": test items that train holds; "train", "dev": rows there that hold a test item;
                  "test in domain", "test in general": test items that those hold. Numbers in the order of reading, from
                  1 on: "domain", "general": documents that hold a dev or test item and must be left out of adapting
    findings      errors, then warnings, then notes
    detectable    the smallest true difference that the race would find, in units of the metric; None without test items
    reach         the same as a sentence, with what would make it smaller
    dropped       the rows of train and dev that hold a test item were taken out after all this was found
    """

    task: Mapping[str, str]
    files: tuple[FileFacts, ...]
    splits: Mapping[str, int]
    label_counts: Mapping[str, Mapping[str, int]]
    quantiles: Mapping[str, tuple[float, ...]]
    lengths: Lengths | None
    pieces: tuple[Pieces, ...]
    corpora: tuple[CorpusFacts, ...]
    leaks: tuple[Leak, ...]
    copies: tuple[Copies, ...]
    leaked: Mapping[str, frozenset[str]]
    findings: tuple[Finding, ...]
    detectable: float | None = None
    reach: str = ""
    dropped: bool = False

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What must be mended before anything is trained."""
        return tuple(finding for finding in self.findings if finding.level == "error")

    def to_json(self) -> dict[str, Any]:
        """Plain values; sets are sorted lists."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Examination:
        """The examination that `to_json` wrote."""
        return typing.cast(Examination, _made(Examination, values))

    def as_text(self) -> str:
        """A page for the terminal (study/examination_page.py)."""
        from acclimate.study.examination_page import as_text

        return as_text(self)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value


def _made(hint: Any, value: Any) -> Any:
    """`value`, as JSON has it, in the type `hint`."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return typing.cast(Any, hint)(**{key: _made(hints[key], each) for key, each in value.items()})
    if origin is types.UnionType:
        return None if value is None else _made(inner[0], value)
    if origin is tuple:
        kinds = [inner[0]] * len(value) if inner[-1] is ... else inner
        return tuple(_made(kind, each) for kind, each in zip(kinds, value, strict=True))
    if origin is frozenset:
        return frozenset(value)
    if isinstance(value, Mapping):
        return {key: _made(inner[1], each) for key, each in value.items()}
    return value
