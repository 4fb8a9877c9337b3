"""What the doctor found (data/doctor.py), as plain values: read back from JSON, shown on a terminal or in a report.

Shares are fractions of 1. Texts of users are cut to SHOWN characters where they are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from acclimate.core.figures import metric_text
from acclimate.core.records import from_plain, to_plain
from acclimate.reports.page import Item, Section, amount, beginning, page, share

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
        values: dict[str, Any] = to_plain(self)
        return values

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Examination:
        """Return the examination that `to_json` wrote."""
        return from_plain(Examination, values)

    def as_text(self) -> str:
        """Return a page for the terminal (data/examination.py)."""

        return as_text(self)


MOST_LABELS = 30  # on a terminal
MOST_REASONS = 100  # why rows were left out
KINDS = {
    "sequence": "one label a text",
    "multilabel": "several labels a text",
    "score": "a number a text",
    "tokens": "a tag a word",
}
LEAKS = {
    "exact": "the same words",
    "near": "nearly the same (5-grams, Jaccard .8)",
    "13-gram": "half of its runs of 13 words or more",
    "passage": "fewer of them: no leak",
}
DROPPED = "So it was in the files. The rows of train and dev that hold a test text were taken out after that."
SHOWN_ON_PAGE = 120  # characters of an example on the page
EXAMPLES = 2  # of a kind of leak


def as_text(examined: Examination) -> str:
    """Return the page, at most 110 columns wide; nothing of it acts on a terminal."""
    return page(_title(examined), sections(examined))


def sections(examined: Examination) -> list[Section]:
    """Return the page's parts, empty ones left out."""
    findings, *data = sections_of_data(examined)
    reach = Section("What these data can show", lines=(examined.reach,) if examined.reach else ())
    leaks = [_leaks(examined), _leak_examples(examined)]
    return [findings, *(part for part in (reach, *data, *leaks) if part.rows or part.lines)]


def sections_of_data(examined: Examination, *, most_labels: int = MOST_LABELS) -> list[Section]:
    """Return what was found within the files, empty parts left out: findings first; leaks between files are apart."""
    parts = [_files(examined), _labels(examined, most_labels), _numbers(examined), _lengths(examined)]
    parts += [_pieces(examined), _corpora(examined), _copies(examined)]
    return [_findings(examined), *(part for part in parts if part.rows)]


def _title(examined: Examination) -> str:
    task = examined.task
    parts = [KINDS.get(task["kind"], task["kind"])]
    parts += [f"{task['labels']} labels"] if "labels" in task else []
    parts += [metric_text(task["metric"])] + ([f"model {task['model']}"] if "model" in task else [])
    return f"acclimate doctor: {task['name']} ({', '.join(parts)})"


def _findings(examined: Examination) -> Section:
    if not examined.findings:
        return Section("Findings", lines=("Nothing is wrong with these files.",))
    return Section("Findings", items=tuple(Item(each.what, each.level, each.way_out) for each in examined.findings))


def _files(examined: Examination) -> Section:
    rows = tuple((each.path, f"{each.rows:,}", f"{each.accepted:,}", f"{each.rejected:,}") for each in examined.files)
    reasons = tuple(
        f"{each.path}: {amount(count, 'row')} left out: {why} ({places})"
        for each in examined.files
        for why, count, places in each.reasons
    )
    return Section("Files", ("file", "rows", "accepted", "rejected"), rows, items=reasons, most=MOST_REASONS)


def _labels(examined: Examination, most: int) -> Section:
    names = list(dict.fromkeys(label for counts in examined.label_counts.values() for label in counts))
    rows = []
    for name in names[:most]:
        cells = [name[:60]]
        for split, counts in examined.label_counts.items():
            count, size = counts.get(name, 0), examined.splits.get(split, 0)
            cells += [f"{count:,}", share(count / size) if size else "-"]
        rows.append(tuple(cells))
    if rows:
        sizes = (f"{examined.splits.get(split, 0):,}" for split in examined.label_counts)
        rows.append(("rows", *(cell for size in sizes for cell in (size, ""))))
    columns = ("label", *(cell for split in examined.label_counts for cell in (split, "share")))
    more = (f"and {len(names) - most:,} more labels",) if len(names) > most else ()
    return Section("Labels", columns, tuple(rows), more, most=most + 1)


def _numbers(examined: Examination) -> Section:
    rows = tuple(
        (split, f"{examined.splits.get(split, 0):,}", *(f"{value:.6g}" for value in values))
        for split, values in examined.quantiles.items()
    )
    return Section("Numbers to predict", ("split", "rows", "least", "quarter", "median", "3/4", "most"), rows)


def _lengths(examined: Examination) -> Section:
    found = examined.lengths
    if found is None:
        return Section("Lengths")
    columns = ["a sample of", "median", "95% up to", "longest"]
    cells = [f"{found.sampled:,} texts", *(f"{value:,}" for value in (found.median, found.p95, found.longest))]
    if found.unit == "tokens":
        columns += ["--max-tokens", "longer texts", "the model reads", "longer texts than that", "tokens cut"]
        reads = ("unknown", "-") if found.reads is None else (f"{found.reads:,}", share(found.over_reads))
        cells += [f"{found.limit:,}", share(found.over_limit), *reads, share(found.cut)]
    return Section(f"Lengths in {found.unit}", tuple(columns), (tuple(cells),))


def _pieces(examined: Examination) -> Section:
    rows = tuple(
        (each.of, f"{each.words:,}", f"{each.per_word:.2f}", share(each.whole), f"{each.unknown:.2%}")
        for each in examined.pieces
    )
    lines = tuple(
        f"Words that break most often ({each.of}): "
        + ", ".join(f"{word} ({pieces} pieces, {count:,} times)" for word, pieces, count in each.broken)
        for each in examined.pieces
        if each.broken
    )
    columns = ("words of", "words", "pieces a word", "in one piece", "unknown pieces")
    return Section("How words break into the model's pieces", columns, rows, lines)


def _corpora(examined: Examination) -> Section:
    rows = tuple(
        (
            each.name,
            each.path,
            f"{each.documents:,}",
            f"{each.characters / 1e6:,.1f}",
            f"{each.rejected:,}",
            f"{each.copies:,}",
            f"{each.empty:,}",
            f"{len(examined.leaked.get(each.name, ())):,}",
        )
        for each in examined.corpora
    )
    columns = ("corpus", "path", "documents", "M characters", "rejected", "copies", "empty", "left out for leaks")
    return Section("Corpora", columns, rows)


def _leaks(examined: Examination) -> Section:
    rows: list[tuple[str, ...]] = []
    for leak in examined.leaks:
        same = "-" if leak.same_label is None else f"{leak.same_label:,}"
        counts = (f"{leak.references:,}", share(leak.share), same, f"{leak.scanned:,}")
        rows.append((f"{leak.within} in {leak.found}", LEAKS[leak.kind], *counts))
    columns = ("where", "what is shared", "items", "share", "same label", "texts there")
    lines = (DROPPED,) if examined.dropped and rows else ()
    return Section("Texts of dev and test that stand elsewhere", columns, tuple(rows), lines)


def _leak_examples(examined: Examination) -> Section:
    rows = tuple(
        (f"{leak.within} in {leak.found}: {leak.kind} {each.similarity:.0%}", *_side_by_side(each))
        for leak in examined.leaks
        for each in leak.examples[: 1 if leak.kind == "passage" else EXAMPLES]
    )
    return Section("Such texts side by side", ("where", "dev or test text", "the text there"), rows)


def _copies(examined: Examination) -> Section:
    marked = any(each.marked for each in examined.copies)
    rows = tuple(
        (
            *(each.split, f"{each.texts:,}", f"{each.rows:,}", f"{each.conflicting:,}"),
            *([f"{each.marked:,}"] if marked else []),
        )
        for each in examined.copies
    )
    columns = ("split", "texts", "rows too many", "with different labels", *(["of them, by punctuation"] * marked))
    lines = tuple(
        f"{each.split}: {' = '.join(_side_by_side(shown))}" for each in examined.copies for shown in each.examples[:1]
    )
    return Section("Texts that occur more than once in a split", columns, rows, lines)


def _side_by_side(each: Sighting) -> tuple[str, str]:
    """Both texts, each with its id and the label that was kept of it."""
    return (
        _shown(each.within_id, each.within_label, each.within_text),
        _shown(each.found_id, each.found_label, each.found_text),
    )


def _shown(name: str, label: str, text: str) -> str:
    return f'{beginning(name, 40)}{f" [{beginning(label, 30)}]" if label else ""} "{beginning(text, SHOWN_ON_PAGE)}"'
