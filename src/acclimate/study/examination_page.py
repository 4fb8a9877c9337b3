"""An examination as a page for the terminal."""

from __future__ import annotations

from acclimate.core.types import SPLITS
from acclimate.study.examination import Examination, Sighting
from acclimate.study.typeset import Section, amount, beginning, page, share
from acclimate.study.wording import metric_text

MOST_LABELS = 30
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
SHOWN = 120  # characters of an example on the page
EXAMPLES = 2  # of a kind of leak


def as_text(examined: Examination) -> str:
    """The page, at most 110 columns wide; nothing of it acts on a terminal."""
    return page(_title(examined), sections(examined))


def sections(examined: Examination) -> list[Section]:
    """The page's parts, empty ones left out; texts of users are not escaped yet (Section.escaped)."""
    parts = [_findings(examined), _reach(examined), _files(examined), _labels(examined), _numbers(examined)]
    parts += [_lengths(examined), _pieces(examined), _corpora(examined), _leaks(examined)]
    parts += [_leak_examples(examined), _copies(examined)]
    return [part for part in parts if part.rows or part.lines]


def _title(examined: Examination) -> str:
    task = examined.task
    parts = [KINDS.get(task["kind"], task["kind"])]
    parts += [f"{task['labels']} labels"] if "labels" in task else []
    parts += [metric_text(task["metric"])] + ([f"model {task['model']}"] if "model" in task else [])
    return f"acclimate doctor: {task['name']} ({', '.join(parts)})"


def _findings(examined: Examination) -> Section:
    if not examined.findings:
        return Section("Findings", lines=("Nothing is wrong with these files.",))
    lines = (f"{finding.level}: {finding.what} {finding.way_out}" for finding in examined.findings)
    return Section("Findings", lines=tuple(lines))


def _reach(examined: Examination) -> Section:
    return Section("What these data can show", lines=(examined.reach,) if examined.reach else ())


def _files(examined: Examination) -> Section:
    rows = tuple((each.path, f"{each.rows:,}", f"{each.accepted:,}", f"{each.rejected:,}") for each in examined.files)
    lines = tuple(
        f"{each.path}: {amount(count, 'row')} left out: {why} ({places})"
        for each in examined.files
        for why, count, places in each.reasons
    )
    return Section("Files", ("file", "rows", "accepted", "rejected"), rows, lines)


def _labels(examined: Examination) -> Section:
    names = list(dict.fromkeys(label for counts in examined.label_counts.values() for label in counts))
    rows = []
    for name in names[:MOST_LABELS]:
        cells = [name[:60]]
        for split in SPLITS:
            count, size = examined.label_counts[split].get(name, 0), examined.splits[split]
            cells += [f"{count:,}", share(count / size) if size else "-"]
        rows.append(tuple(cells))
    if rows:
        sizes = (f"{examined.splits[split]:,}" for split in SPLITS)
        rows.append(("rows", *(cell for size in sizes for cell in (size, ""))))
    columns = ("label", *(cell for split in SPLITS for cell in (split, "share")))
    more = (f"and {len(names) - MOST_LABELS:,} more labels",) if len(names) > MOST_LABELS else ()
    return Section("Labels", columns, tuple(rows), more)


def _numbers(examined: Examination) -> Section:
    rows = tuple(
        (split, f"{examined.splits[split]:,}", *(f"{value:.6g}" for value in values))
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
        if each.broken and each.of == "task"
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
    rows = tuple((each.split, f"{each.texts:,}", f"{each.rows:,}", f"{each.conflicting:,}") for each in examined.copies)
    columns = ("split", "texts", "rows too many", "with different labels")
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
    return f'{beginning(name, 40)}{f" [{beginning(label, 30)}]" if label else ""} "{beginning(text, SHOWN)}"'
