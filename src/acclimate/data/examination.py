"""What the doctor found (data/doctor.py), as values that JSON stores and a terminal or report shows.

Shares are fractions of 1. Texts of users are stored with at most SHOWN characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from acclimate.core.door import option
from acclimate.core.figures import metric_text, si
from acclimate.core.records import from_plain, to_plain
from acclimate.reports.page import Item, Section, amount, beginning, page, share

Level = Literal["error", "warning", "note", "reading"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note", "reading")
LeakKind = Literal["exact", "near", "13-gram", "passage"]
PartnerKind = Literal["swapped", "text", "template"]
SHOWN = 200  # characters of a stored text
MOST_FINDINGS = 10  # on a terminal, without details
MOST_LABELS = 30  # labels on a terminal
MOST_REASONS = 100  # listed reasons why rows were left out
KINDS = {
    "sequence": "one label per text",
    "multilabel": "several labels per text",
    "score": "a number per text",
    "tokens": "a tag per word",
    "search": "documents for queries",
}
LEAKS = {
    "exact": "the same words",
    "near": "nearly the same (5-grams, Jaccard .8)",
    "13-gram": "half of its runs of 13 words or more",
    "passage": "fewer of these runs: not a leak",
}
DROPPED = (
    "The counts are those of the files. Afterwards, the rows of train and dev that contain a test text were removed."
)
SHOWN_ON_PAGE = 120  # characters of an example on the page
EXAMPLES = 2  # shown of each kind of leak


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault or remark, and what to do about it, as sentences.

    level  error: training is impossible or worthless; warning: a score will mislead; note: good to know; reading: how
           the labelled files were read
    """

    level: Level
    what: str
    way_out: str = ""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A labelled file; rows == accepted + rejected.

    reasons  (why rows were left out, how many, the places of the first: "train.csv:118, train.csv:131, ...")
    """

    path: str
    rows: int
    accepted: int
    rejected: int
    reasons: tuple[tuple[str, int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of a sample of the labelled texts, in the model's tokens (special ones included) or in words.

    limit         max_tokens: the length that is read of a text
    reads         the longest text that the model can read; None if unknown
    over_limit, over_reads   shares of the texts that are longer
    cut           share of all tokens that `limit` cuts off
    suggested     a better --max-tokens; None if the present one is good
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

    per_word   mean number of pieces of a word
    whole      share of the words that are one piece
    unknown    share of the pieces that stand for "unknown"
    broken     the most frequent words of three or more pieces: (word, pieces, occurrences)
    """

    of: str
    texts: int
    words: int
    per_word: float
    whole: float
    unknown: float
    broken: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a checkpoint consists of; None where that is not known.

    parameters  number of its weights, those of heads included
    head        True if it has a language modelling head, which predicts masked words
    pooler      True if it has a trained pooler; None also for families whose classifiers read none
    """

    family: str
    parameters: int | None
    layers: int | None
    hidden: int | None
    vocabulary: int | None
    head: bool | None
    pooler: bool | None


@dataclass(frozen=True, slots=True)
class CorpusFacts:
    """Counts of a corpus.

    documents  all that were read
    copies     those of them with the text of an earlier one; empty: those without text
    rejected   documents that could not be read, which `documents` leaves out
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
    """A text that occurs twice: the beginnings of both texts, their labels if they have any, and the shared excerpt.

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
    """Texts of `found` ("train", "dev", "domain", "general") that contain texts of `within` ("dev", "test").

    kind        exact: equal after normalisation; near: Jaccard .8 and more; 13-gram: at least half of the item's runs
                of 13 words; passage: fewer of them, which does not leak the item
    scanned     number of texts of `found` of which this is the strongest match with `within`
    references  number of items of `within` of which this is the strongest match; share: of all items of `within`
    same_label  how many of these items a text with the same label leaks; None for corpora and passages
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

    texts        different texts that do
    rows         rows beyond the first of each text
    conflicting  texts whose rows have different labels
    marked       conflicting texts that differ in punctuation, which may mark what the label is about
    """

    split: str
    texts: int
    rows: int
    conflicting: int
    examples: tuple[Sighting, ...] = ()
    marked: int = 0


@dataclass(frozen=True, slots=True)
class Partners:
    """Test rows with a partner in train that is no copy of them.

    kind     swapped: the pair in the other order; text: a pair with one text in common; template: a text that differs
             only in numbers and names
    ids      of the test rows; share: of all test rows; groups: sets of such rows that are in train and in test
    option   value of the option `group` that keeps such rows together; "" if there is none
    example  id and beginning of a test row and of its partner
    """

    kind: PartnerKind
    ids: frozenset[str]
    share: float
    groups: int
    option: str
    example: tuple[str, ...]


@dataclass(frozen=True)
class Examination:
    """All that the doctor found in labelled files, corpora and model, before anything is trained.

    task          facts: name, kind, metric, labels (their number), max_tokens, model
    splits        rows of each split; label_counts: rows of each label, by split; quantiles: minimum, quartiles and
                  maximum of the numbers to predict, by split
    leaked        ids of test items that train contains ("test") or a corpus ("test in domain", "test in general");
                  ids of rows that contain a test item ("train", "dev"); numbers, from 1 in the order of reading, of
                  documents that contain a dev or test item ("domain", "general"), which adaptation must leave out
    findings      errors, then warnings, then notes, then how the labelled files were read
    detectable    the smallest true difference that the race would detect, in units of the metric; None if unknown
    reach         the same as a sentence, with what would make it smaller
    dropped       True if the rows of train and dev with a test item were removed after this examination
    model         None if none was given, or if it cannot be read
    partners      test rows that resemble a training row without being a copy of it
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
    model: ModelFacts | None = None
    partners: tuple[Partners, ...] = ()

    @property
    def reading(self) -> tuple[str, ...]:
        """How the labelled files were read, a sentence each."""
        return tuple(finding.what for finding in self.findings if finding.level == "reading")

    @property
    def remarks(self) -> tuple[Finding, ...]:
        """The other findings."""
        return tuple(finding for finding in self.findings if finding.level != "reading")

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that must be corrected before training."""
        return tuple(finding for finding in self.findings if finding.level == "error")

    def to_json(self) -> dict[str, Any]:
        """Return plain values; sets become sorted lists."""
        values: dict[str, Any] = to_plain(self)
        return values

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Examination:
        """Return the examination that `to_json` wrote."""
        return from_plain(Examination, values)

    def as_text(self, *, details: bool = False) -> str:
        """Return a page for the terminal: what to act on, or with `details` all findings and tables."""
        return as_text(self, details=details)

    def __str__(self) -> str:
        return as_text(self)


def grave(examined: Examination | None) -> list[str]:
    """Return the errors and warnings in a sentence each; none where nothing was examined."""
    findings = examined.findings if examined is not None else ()
    levels = ("error", "warning")
    return [f"{finding.what} {finding.way_out}".rstrip() for finding in findings if finding.level in levels]


def as_text(examined: Examination, *, details: bool = False) -> str:
    """Return the page for the terminal, as `reports.page.page` does, without control characters.

    details  False: at most MOST_FINDINGS findings that say what to do, and what the data can show
    """
    reach = Section("What these data can show", lines=(examined.reach,) if examined.reach else ())
    if details:
        tables = [*_tables(examined, MOST_LABELS), _leaks(examined), _leak_examples(examined)]
        return page(_title(examined), [*_opening(examined, examined.remarks), *_filled(reach, *tables)])
    actionable = [finding for finding in examined.remarks if finding.way_out or finding.level != "note"]
    first = actionable[:MOST_FINDINGS]
    others = len(examined.remarks) - len(first)
    hidden = f"{amount(others, 'other finding')} and the tables" if others else "The tables"
    more = Section("More", lines=(f"{hidden}: {option('details', True)}",))
    return page(_title(examined), [*_opening(examined, first), *_filled(reach, more)])


def sections_of_data(examined: Examination, *, most_labels: int = MOST_LABELS) -> list[Section]:
    """Return how the files were read, the findings, and the tables that are not empty, without leaks between files."""
    return [*_opening(examined, examined.remarks), *_filled(*_tables(examined, most_labels))]


def _filled(*sections: Section) -> list[Section]:
    return [section for section in sections if section.rows or section.lines]


def _opening(examined: Examination, remarks: Sequence[Finding]) -> list[Section]:
    return [*_filled(Section("How the files were read", lines=examined.reading)), _findings(remarks)]


def _tables(examined: Examination, most_labels: int) -> list[Section]:
    parts = [_files(examined), _labels(examined, most_labels), _numbers(examined), _model(examined)]
    return [*parts, _lengths(examined), _pieces(examined), _corpora(examined), _copies(examined)]


def _title(examined: Examination) -> str:
    task = examined.task
    parts = [KINDS.get(task["kind"], task["kind"])]
    parts += [f"{task['labels']} {'tags' if task['kind'] == 'tokens' else 'labels'}"] if "labels" in task else []
    parts += [metric_text(task["metric"])] + ([f"model {task['model']}"] if "model" in task else [])
    return f"acclimate doctor: {task['name']} ({', '.join(parts)})"


def _findings(findings: Sequence[Finding]) -> Section:
    if not findings:
        return Section("Findings", lines=("No problems were found in these files.",))
    items = (Item(finding.what, finding.level, finding.way_out) for finding in findings if finding.level != "reading")
    return Section("Findings", items=tuple(items))


def _files(examined: Examination) -> Section:
    rows = tuple((file.path, f"{file.rows:,}", f"{file.accepted:,}", f"{file.rejected:,}") for file in examined.files)
    reasons = tuple(
        f"{file.path}: {amount(count, 'row')} not read: {why} ({places})"
        for file in examined.files
        for why, count, places in file.reasons
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
    more: tuple[str, ...] = (f"and {len(names) - most:,} more labels",) if len(names) > most else ()
    if rows and examined.task.get("kind") == "tokens":
        named = "entities of a type" if examined.task["metric"] == "entity_f1" else "a tag"
        more += (f"Sentences with {named}. A sentence may count in several lines.",)
    elif rows and examined.task.get("kind") == "multilabel":
        more += ("A text with several labels counts in the line of each.",)
    return Section("Labels", columns, tuple(rows), more, most=most + 1)


def _numbers(examined: Examination) -> Section:
    rows = tuple(
        (split, f"{examined.splits.get(split, 0):,}", *(f"{value:.6g}" for value in values))
        for split, values in examined.quantiles.items()
    )
    return Section("Numbers to predict", ("split", "rows", "least", "quarter", "median", "3/4", "most"), rows)


def _model(examined: Examination) -> Section:
    model = examined.model
    if model is None:
        return Section("The model")
    reads = examined.lengths.reads if examined.lengths else None
    numbers = (model.layers, model.hidden, model.vocabulary, reads)
    sizes = ("unknown" if size is None else f"{size:,}" for size in numbers)
    answers = {True: "yes", False: "no", None: "unknown"}
    pooler = "-" if model.pooler is None and model.head is not None else answers[model.pooler]
    weights = "unknown" if model.parameters is None else si(model.parameters)
    amounts = ("weights", "layers", "width", "vocabulary", "tokens it reads")
    columns = ("family", *amounts, "head for masked words", "pooler")
    return Section("The model", columns, ((model.family, weights, *sizes, answers[model.head], pooler),))


def _lengths(examined: Examination) -> Section:
    lengths = examined.lengths
    if lengths is None:
        return Section("Lengths")
    columns = ["a sample of", "median", "95% up to", "longest"]
    cells = [f"{lengths.sampled:,} texts", *(f"{value:,}" for value in (lengths.median, lengths.p95, lengths.longest))]
    if lengths.unit == "tokens":
        columns += ["cut at", "longer texts", "the model reads", "longer texts than that", "tokens cut"]
        reads = ("unknown", "-") if lengths.reads is None else (f"{lengths.reads:,}", share(lengths.over_reads))
        cells += [f"{lengths.limit:,}", share(lengths.over_limit), *reads, share(lengths.cut)]
    return Section(f"Lengths in {lengths.unit}", tuple(columns), (tuple(cells),))


def _pieces(examined: Examination) -> Section:
    rows = tuple(
        (text.of, f"{text.words:,}", f"{text.per_word:.2f}", share(text.whole), f"{text.unknown:.2%}")
        for text in examined.pieces
    )
    lines = tuple(
        f"Words that break most often ({text.of}): "
        + ", ".join(f"{word} ({pieces} pieces, {amount(count, 'time')})" for word, pieces, count in text.broken)
        for text in examined.pieces
        if text.broken
    )
    columns = ("words of", "words", "pieces per word", "in one piece", "unknown pieces")
    return Section("How words break into the model's pieces", columns, rows, lines)


def _corpora(examined: Examination) -> Section:
    rows = []
    for corpus in examined.corpora:
        counts = (corpus.rejected, corpus.copies, corpus.empty, len(examined.leaked.get(corpus.name, ())))
        sizes = (f"{corpus.documents:,}", f"{corpus.characters / 1e6:,.1f}", *(f"{count:,}" for count in counts))
        rows.append((corpus.name, corpus.path, *sizes))
    columns = ("corpus", "path", "documents", "M characters", "rejected", "copies", "empty", "left out for leaks")
    return Section("Corpora", columns, tuple(rows))


def _leaks(examined: Examination) -> Section:
    rows: list[tuple[str, ...]] = []
    for leak in examined.leaks:
        same = "-" if leak.same_label is None else f"{leak.same_label:,}"
        counts = (f"{leak.references:,}", share(leak.share), same, f"{leak.scanned:,}")
        rows.append((f"{leak.within} in {leak.found}", LEAKS[leak.kind], *counts))
    columns = ("where", "what is shared", "items", "share", "same label", "texts there")
    lines = (DROPPED,) if examined.dropped and rows else ()
    return Section("Texts of dev and test that also occur elsewhere", columns, tuple(rows), lines)


def _leak_examples(examined: Examination) -> Section:
    rows = tuple(
        (f"{leak.within} in {leak.found}: {leak.kind} {sighting.similarity:.0%}", *_side_by_side(sighting))
        for leak in examined.leaks
        for sighting in leak.examples[: 1 if leak.kind == "passage" else EXAMPLES]
    )
    return Section("Such texts side by side", ("where", "dev or test text", "the text there"), rows)


def _copies(examined: Examination) -> Section:
    marked = any(copies.marked for copies in examined.copies)
    rows = tuple(
        (
            *(copies.split, f"{copies.texts:,}", f"{copies.rows:,}", f"{copies.conflicting:,}"),
            *([f"{copies.marked:,}"] if marked else []),
        )
        for copies in examined.copies
    )
    columns = ("split", "texts", "rows too many", "with different labels", *(["of them, by punctuation"] * marked))
    lines = tuple(
        f"{copies.split}: {' = '.join(_side_by_side(sighting))}"
        for copies in examined.copies
        for sighting in copies.examples[:1]
    )
    return Section("Texts that occur more than once in a split", columns, rows, lines)


def _side_by_side(sighting: Sighting) -> tuple[str, str]:
    """Return both texts, each with its id and its label if that was kept."""
    first = _shown(sighting.within_id, sighting.within_label, sighting.within_text)
    return first, _shown(sighting.found_id, sighting.found_label, sighting.found_text)


def _shown(name: str, label: str, text: str) -> str:
    return f'{beginning(name, 40)}{f" [{beginning(label, 30)}]" if label else ""} "{beginning(text, SHOWN_ON_PAGE)}"'
