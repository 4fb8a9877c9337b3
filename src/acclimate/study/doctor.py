"""`acclimate doctor`: what is wrong with labelled files, corpora and model, and what they can show, before training.

It reads every corpus once and loads no torch where the model is a directory. Labels of the test set are counted, and
compared with those of the same text elsewhere, which is counted too; none is shown or kept beside its text. Nothing is
predicted, so nothing is scored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from acclimate.core.types import SPLITS, Example, Label, Progress, Split, Watch, unwatched
from acclimate.study import balance, corpus_scan, leak_findings, leaks, lengths
from acclimate.study.corpus_scan import Scanned, grouped
from acclimate.study.examination import LEVELS, Examination, FileFacts, Finding, Lengths, Pieces
from acclimate.study.power import guessed
from acclimate.study.sealed import NEAR, Sealed
from acclimate.study.typeset import amount
from acclimate.tasks.tags import borne
from acclimate.tasks.task import classes_in

if TYPE_CHECKING:
    from acclimate.tasks.own import Labelled
    from acclimate.tasks.readers import FileRead

MANY_REJECTED = 0.05
SWAPPED = 10  # times as many test texts as training texts
LARGE = 0.1  # of a metric's range: hardly any adaptation gains more
HOPELESS = 0.5  # so that figures beyond it are not worth telling
WINDOWED = ("tokens", "span")  # kinds whose texts are read in windows, and not cut
UNCLASSED = ("score", "span")  # and those whose labels are none of a set
ENOUGH = 5  # seeds, where two say next to nothing
WORTH = 0.9  # of the smallest difference: what brings it no lower is not advised
GUESS = (
    "That is a guess for a score of 80 points and a metric that is a mean over items; macro-F1 over rare classes needs "
    "more. The report says it from what was found."
)


def examine(
    labelled: Labelled,
    *,
    model: str | None = None,
    corpora: Mapping[str, Path] | None = None,
    separated: Literal["line", "blank"] = "line",
    seeds: int = 3,
    comparisons: int = 1,
    near: float = NEAR,
    watch: Watch = unwatched,
) -> Examination:
    """What there is to say of a labelled task, a model (directory or hub id) and corpora ("domain", "general").

    seeds, comparisons   to come, for the smallest difference that can be detected; 0: nothing is compared on test
    near                 least Jaccard similarity of a near-duplicate; 0: only exact ones and shared runs of words

    What is wrong becomes a finding of level "error"; nothing is raised for it.
    """
    splits = labelled.splits
    sizes: dict[str, int] = {split: len(splits[split]) for split in SPLITS}
    watch(Progress("examining the labelled texts", 0, 0, "texts"))
    sealed = Sealed(splits, near=near)
    found = {split: leaks.found_in_rows(split, splits[split], sealed) for split in ("train", "dev")}
    # several questions on one context are nearly the same text, and none too many
    alike = 0.0 if labelled.kind == "span" else near
    twice = tuple(each for split in SPLITS if (each := leaks.copies(split, splits[split], near=alike)))
    scans = [
        corpus_scan.scan(name, path, sealed, separated=separated, watch=watch) for name, path in (corpora or {}).items()
    ]
    watch(Progress("examining lengths and pieces", 0, 0, "texts"))
    measured, broken, on_model = _measured(labelled, model, scans)
    counts = {} if labelled.kind in UNCLASSED else balance.label_counts(_bearing(labelled))
    findings = [
        *on_model,
        *leak_findings.on_leaks(found, scans, sizes),
        *leak_findings.on_copies(twice),
        *_on_labelled(labelled, counts),
    ]
    findings += [finding for scan in scans for finding in scan.findings]
    detectable, reach, on_reach = _reach(sizes["test"], seeds, comparisons)
    findings += on_reach
    return Examination(
        task=_facts(labelled, model),
        files=tuple(map(_file_facts, labelled.files)),
        splits=sizes,
        label_counts=counts,
        quantiles=balance.quantiles(splits) if labelled.kind == "score" else {},
        lengths=measured,
        pieces=tuple(broken),
        corpora=tuple(scan.facts for scan in scans),
        leaks=tuple(leak for each in [*found.values(), *(scan.found for scan in scans)] for leak in each.leaks()),
        copies=twice,
        leaked=leak_findings.leaked(found, scans),
        findings=tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level))),
        detectable=detectable,
        reach=reach,
    )


def removed(labelled: Labelled, examination: Examination) -> Labelled:
    """The same without the train and dev rows that hold a test item; a note says how many went.

    Raises ValueError where train or dev would be empty, or a class would lose all its training examples.
    """
    splits = dict(labelled.splits)
    notes = list(labelled.notes)
    for split in ("train", "dev"):
        gone = examination.leaked.get(split, frozenset())
        kept = tuple(row for row in splits[split] if row.id not in gone)
        if not kept:
            raise ValueError(f"{labelled.name}: every row of {split} holds a test text. Give another test file")
        if len(kept) < len(splits[split]):
            notes.append(
                f"{amount(len(splits[split]) - len(kept), 'row')} of the {len(splits[split]):,} of {split} left out: "
                f"what holds a test text."
            )
        splits[split] = kept
    had, has = (_borne(rows) for rows in (labelled.splits["train"], splits["train"]))
    if lost := [label for label in labelled.labels if label in had and label not in has]:
        raise ValueError(
            f"{labelled.name}: without the rows that hold a test text, no training example bears "
            f"{', '.join(map(repr, lost))}. Add examples, leave such classes out, or keep the leaks in"
        )
    return dataclasses.replace(labelled, splits=splits, notes=tuple(notes))


def _facts(labelled: Labelled, model: str | None) -> dict[str, str]:
    facts = {"name": labelled.name, "kind": labelled.kind, "metric": labelled.metric.name}
    if labelled.labels:
        facts["labels"] = f"{len(labelled.labels)}"
    facts["max_tokens"] = f"{labelled.max_tokens}"
    if model is not None:
        facts["model"] = Path(model).name if Path(model).expanduser().is_dir() else model
    return facts


def _measured(
    labelled: Labelled, model: str | None, scans: Sequence[Scanned]
) -> tuple[Lengths | None, list[Pieces], list[Finding]]:
    """Lengths and pieces, and what they and the model are worth; an error where the model cannot be read."""
    sampled = lengths.sample([(row.text, row.pair) for split in SPLITS for row in labelled.splits[split]])
    in_words = lengths.lengths_in_words(sampled, labelled.max_tokens) if sampled else None
    if model is None or in_words is None:
        return in_words, [], []
    try:
        by = lengths.reader(model)
    except ValueError as error:
        return in_words, [], [Finding("error", f"The model cannot be used: {error}")]
    encoded = lengths.tokenised(sampled, by)
    measured = lengths.lengths(sampled, encoded, labelled.max_tokens, by)
    if labelled.kind in WINDOWED:
        measured = dataclasses.replace(measured, cut=0.0, suggested=None)
    broken = [lengths.pieces("task", sampled, encoded, by)]
    for scan in scans:
        texts = lengths.sample(scan.sample)
        broken.append(lengths.pieces(scan.facts.name, texts, lengths.tokenised(texts, by), by))
    with_words = [each for each in broken if each is not None]
    return measured, with_words, lengths.findings(measured, with_words, windows=labelled.kind in WINDOWED)


def _file_facts(read: FileRead) -> FileFacts:
    return FileFacts(read.path.name, read.rows, read.accepted, len(read.rejected), grouped(read.rejected))


def _on_labelled(labelled: Labelled, counts: Mapping[str, Mapping[str, int]]) -> list[Finding]:
    """What labels, files and give-aways say, and what the reader noted. counts: labels by split."""
    sizes: dict[str, int] = {split: len(rows) for split, rows in labelled.splits.items()}
    if labelled.kind == "score":
        on_labels = balance.findings_on_numbers(labelled.splits)
    elif labelled.kind == "span":
        on_labels = []
    elif labelled.kind == "tokens":
        on_labels = balance.findings_on_types(counts, sizes)
    else:
        on_labels = balance.findings_on_classes(counts, sizes, labelled.metric.name)
    noted = [Finding("warning", caution) for caution in labelled.cautions]
    noted += [Finding("note", note) for note in labelled.notes]
    away = [] if labelled.kind in WINDOWED else balance.give_aways(labelled.splits["train"])
    return [*_on_files(labelled), *on_labels, *away, *noted]


def _bearing(labelled: Labelled) -> Mapping[Split, Sequence[Example]]:
    """The splits; of tagged words, with what a sentence bears as its label: types of entities, or tags."""
    if labelled.kind != "tokens":
        return labelled.splits
    named = labelled.metric.name == "entity_f1"
    return {
        split: [dataclasses.replace(row, label=borne(classes_in(row.label), named=named)) for row in rows]
        for split, rows in labelled.splits.items()
    }


def _on_files(labelled: Labelled) -> list[Finding]:
    """Files of which much was left out, or anything of those that scores come from; a test larger than train.

    read_own notes every file of which anything was left out.
    """
    found = []
    sizes = {split: len(rows) for split, rows in labelled.splits.items()}
    if sizes["test"] > SWAPPED * sizes["train"]:
        text = f"Test has {sizes['test']:,} texts and train only {sizes['train']:,}."
        found.append(Finding("warning", text, "If the files are swapped, give them the other way round."))
    return found + [
        Finding(
            "warning",
            f"{facts.rejected:,} of the {facts.rows:,} rows of {facts.path} were left out, mostly because {why}.",
            f"Correct them ({places}) or leave them out.",
        )
        for place, facts in enumerate(map(_file_facts, labelled.files))
        if facts.rejected >= (1 if place else MANY_REJECTED * facts.rows)
        for why, _, places in facts.reasons[:1]
    ]


def _reach(items: int, seeds: int, comparisons: int) -> tuple[float | None, str, list[Finding]]:
    """The smallest difference that can be detected, a sentence on it, and a warning where it is large; nothing to warn
    of where nothing is compared.
    """
    if comparisons < 1:
        return None, "Nothing is compared on the test set.", []
    if items < 2 or seeds < 2:
        return None, "It takes two test texts and two seeds at least to tell a difference from luck.", []
    design = guessed(items, seeds, comparisons=comparisons)
    least = design.detectable()
    if least > HOPELESS:
        better = f"with {ENOUGH} it is {100 * design.detectable(seeds=ENOUGH):.1f} points"
        reach = f"With {seeds} seeds nothing that adapting gives can be told from luck; {better}. {GUESS}"
        text = f"{seeds} seeds are too few for {items:,} test texts and {comparisons} comparisons: all may be luck."
        return least, reach, [Finding("warning", text, f"Take {ENOUGH} seeds.")]
    reach = f"{design.advice()} {GUESS}"
    if least < LARGE:
        return least, reach, []
    text = f"Only differences of {100 * least:.1f} points and more can be told from luck with {items:,} test texts"
    text += f" and {seeds} seeds."
    ways = [
        ("take more seeds", design.detectable(seeds=seeds + 2)),
        ("label more test texts", design.detectable(items=2 * items)),
    ]
    worth = " or ".join(way for way, then in ways if then < WORTH * least)
    return least, reach, [Finding("warning", text, f"{worth.capitalize()}." if worth else "")]


def _borne(rows: Sequence[Example]) -> set[Label]:
    return {label for row in rows for label in (row.label if isinstance(row.label, tuple) else (row.label,))}
