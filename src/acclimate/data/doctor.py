"""`acclimate doctor`: what is wrong with labelled files, corpora and model, and what they can show, before training.

It takes values and opens no file: labelled rows, raw text as documents, which it reads once, and an opened model. It
counts labels of the test set, and compares them with labels of the same text elsewhere; it neither shows them nor keeps
them beside their texts. It predicts nothing, so it scores nothing.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from acclimate.core import ranks
from acclimate.core.door import option
from acclimate.core.figures import has
from acclimate.core.settings import SEEDS
from acclimate.core.types import SPLITS, Example, Label, Progress, Split, Watch, unwatched
from acclimate.data import corpus_scan, leaks, lengths
from acclimate.data.corpus_scan import Scanned, grouped
from acclimate.data.examination import LEVELS, Copies, Examination, FileFacts, Finding, Lengths, Level, Pieces
from acclimate.data.leaks import (
    MOST_ROWS,
    NEAR,
    SEALED,
    Sealed,
    SourceLeaks,
    Splits,
    find_partners,
    findings_on_partners,
)
from acclimate.data.model import OpenedModel, check_checkpoint, check_rows
from acclimate.reports.page import amount, share
from acclimate.tasks.tags import borne, words_of
from acclimate.tasks.task import Kind, classes_in
from acclimate.text.overlap.words import normalised_words
from acclimate.text.scripts import MUCH, pieces_sentence, unspaced_share

if TYPE_CHECKING:
    from acclimate.data.materials import RawText
    from acclimate.reading.labelled import Labelled
    from acclimate.reading.tables import FileRead
    from acclimate.statistics.power import PowerDesign

FEW_TO_LEARN = 10  # fewer training examples of a class are a finding
FEW_TO_CHOOSE = 10  # fewer rows of dev are a finding
FEW_TO_SCORE = 5  # fewer test examples of a class are a finding
NAMED = 5  # labels that a sentence lists
SHIFTED = 0.1  # total variation distance between train and test that is a finding
CHANCE = 0.01  # p-value from which on a shift may be chance
LOOKED_AT = 5_000  # training rows whose texts are searched for names of labels
OTHERS = 10  # labels of other rows that are searched for comparison
SHORTEST = 3  # letters of the shortest label whose name is searched
SPLIT_AGAIN = "Split again, unless the test set should differ."
LEAVE_OUT = "Remove those rows from train."  # of train, those that hold a dev text
MANY_LEAKED = 0.1  # share of a split that was split off, from which on the doctor names --group
SWAPPED = 10  # if test has so many times the texts of train, the files may be swapped
LARGE = 0.1  # smallest detectable difference that is a finding: hardly any adaptation gains more
HOPELESS = 0.5  # smallest detectable difference above which no figure is given
WINDOWED = ("tokens", "span")  # kinds whose texts are read in windows instead of being cut
SCORED_APART = ("span", "search")  # kinds that have neither classes nor numbers
UNCLASSED = ("score", *SCORED_APART)  # kinds whose labels are not classes
FOLDS = 5  # of the cross-validation that is advised
WORTH = 0.9  # advice must lower the smallest difference to this share
GUESS = (
    "This is a guess for a score of 80 points of this metric on the test set's labels, and a standard deviation of "
    "one point over seeds."
)
BASES = {  # PowerDesign.spread -> a sentence on it
    "guess": GUESS,
    "items": "The variance over items comes from an earlier race on this task; one point over seeds is a guess.",
    "runs": "The variance over items and seeds comes from an earlier race on this task.",
}
MOST_LABELS = 2_000  # test labels, drawn evenly, on which the spread over items is computed


def examine(
    labelled: Labelled,
    corpora: Mapping[str, RawText] = MappingProxyType({}),
    *,
    model: OpenedModel | None = None,
    seeds: int = SEEDS,
    comparisons: int = 1,
    spread: PowerDesign | None = None,
    folds: int = 0,
    finetune: Any = None,
    near: float = NEAR,
    watch: Watch = unwatched,
) -> Examination:
    """Return the findings on a labelled task, raw text and a model.

    corpora              raw text by name, "domain" and "general"
    seeds, comparisons   of the planned race, for the smallest detectable difference; 0: nothing is compared on test
    spread               of scores over items and seeds, from a race on this task (statistics/power.py); None:
                         it is guessed, by the metric and the labels of the test set
    folds                of the planned cross-validation, in which every labelled row is a test text; 0: one test set
    finetune             the recipe of the planned fine-tunings, or its stand-in; None: their steps are not known
    near                 least Jaccard similarity of a near-duplicate; 0: only exact ones and shared runs of words

    A fault becomes a finding of level "error" and raises nothing. It may take a minute of all cores: the first of
    several processes examines, and sends the others the result.
    """
    if not ranks.is_first():
        return Examination.from_json(ranks.agree({}))
    splits = labelled.splits
    sizes: dict[str, int] = {split: len(splits[split]) for split in SPLITS}
    watch(Progress("examining the labelled texts", 0, 0, "texts"))
    sealed = Sealed(splits, near=near)
    in_rows = {
        "train": leaks.found_in_rows("train", _trained_on(labelled), sealed),
        "dev": leaks.found_in_rows("dev", splits["dev"], Sealed({"dev": (), "test": splits["test"]}, near=near)),
    }
    # several questions on one context are nearly the same text, but not copies; nor are similar documents
    alike = 0.0 if labelled.kind in SCORED_APART else near
    twice = tuple(found_twice for split in SPLITS if (found_twice := leaks.copies(split, splits[split], near=alike)))
    if folds:
        every = tuple(row for split in SPLITS for row in splits[split])
        sealed = Sealed({"dev": (), "test": every}, near=near)
    scans = [corpus_scan.scan_corpus(name, corpus, sealed, watch=watch) for name, corpus in corpora.items()]
    watch(Progress("examining lengths and pieces", 0, 0, "texts"))
    measured, broken, on_model = _measured(labelled, model, scans)
    counts = {} if labelled.kind in UNCLASSED else label_counts(_bearing(labelled))
    partners = () if labelled.kind == "search" else find_partners(labelled, every=folds > 0)
    findings = [
        *on_model,
        *(check_rows(sizes["train"], finetune) if finetune and not folds and labelled.kind not in SCORED_APART else []),
        *check_leaks(in_rows, scans, sizes, folds),
        *([] if folds else _check_divided(labelled, in_rows["train"])),
        *findings_on_partners(partners, labelled.divided, every=folds > 0),
        *check_copies(twice),
        *_check_labelled(labelled, counts, folds),
    ]
    findings += [finding for scan in scans for finding in scan.findings]
    detectable, reach, on_reach = _reach(labelled, seeds, comparisons, spread, folds)
    findings += on_reach
    examination = Examination(
        task=_facts(labelled, model),
        files=tuple(map(_file_facts, labelled.files)),
        splits=sizes,
        label_counts=counts,
        quantiles=quantiles(splits) if labelled.kind == "score" else {},
        lengths=measured,
        pieces=tuple(broken),
        corpora=tuple(scan.facts for scan in scans),
        leaks=tuple(leak for source in [*in_rows.values(), *(scan.leaks for scan in scans)] for leak in source.leaks()),
        copies=twice,
        leaked=leaked(in_rows, scans),
        findings=tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level))),
        detectable=detectable,
        reach=reach,
        model=model.facts if model else None,
        partners=partners,
    )
    return Examination.from_json(ranks.agree(examination.to_json()))


def removed(labelled: Labelled, examination: Examination) -> Labelled:
    """Return the task without the train and dev rows that contain a test item, and with a note on their number.

    Raises ValueError if train or dev would be empty, or if a class would lose all its training examples.
    """
    splits = dict(labelled.splits)
    notes = list(labelled.notes)
    for split in ("train", "dev"):
        gone = examination.leaked.get(split, frozenset())
        if split == "train" and labelled.kind == "search":
            splits[split] = tuple(_without_queries(row, gone) for row in splits[split])
            continue
        clean_rows = tuple(row for row in splits[split] if row.id not in gone)
        if not clean_rows:
            raise ValueError(f"{labelled.name}: every row of {split} contains a test text. Give another test file")
        if len(clean_rows) < len(splits[split]):
            notes.append(
                f"{amount(len(splits[split]) - len(clean_rows), 'row')} of the {len(splits[split]):,} of "
                f"{split} removed because they contain a test text."
            )
        splits[split] = clean_rows
    had, has = (_labels_in(rows) for rows in (labelled.splits["train"], splits["train"]))
    if lost := [label for label in labelled.labels if label in had and label not in has]:
        raise ValueError(
            f"{labelled.name}: without the rows that contain a test text, no training example has the label "
            f"{', '.join(map(repr, lost))}. Add examples, remove such classes, or keep the leaks"
        )
    return dataclasses.replace(labelled, splits=splits, notes=tuple(notes))


def _trained_on(labelled: Labelled) -> Sequence[Example]:
    """Return the rows of train; of a search task its training queries, each its own id, since documents are there to
    be found.
    """
    train = labelled.splits["train"]
    if labelled.kind != "search":
        return train
    queries = dict.fromkeys(query for row in train for query in classes_in(row.label))
    return [Example(query, query, "") for query in queries]


def _without_queries(document: Example, queries: Set[str]) -> Example:
    return dataclasses.replace(
        document, label=tuple(query for query in classes_in(document.label) if query not in queries)
    )


def _facts(labelled: Labelled, model: OpenedModel | None) -> dict[str, str]:
    facts = {"name": labelled.name, "kind": labelled.kind, "metric": labelled.metric.name}
    if labelled.labels:
        facts["labels"] = f"{len(labelled.labels)}"
    facts["max_tokens"] = f"{labelled.max_tokens}"
    if model is not None:
        facts["model"] = model.name
    return facts


def _measured(
    labelled: Labelled, model: OpenedModel | None, scans: Sequence[Scanned]
) -> tuple[Lengths | None, list[Pieces], list[Finding]]:
    """Return lengths, pieces and findings; an "error" if the model cannot be read."""
    sampled = lengths.bounded_sample([(row.text, row.pair) for split in SPLITS for row in labelled.splits[split]])
    in_words = lengths.lengths_in_words(sampled, labelled.max_tokens) if sampled else None
    unspaced = unspaced_share(" ".join(text for text, _ in sampled))
    noted = [Finding("note", f"{sentence}.") for sentence in [pieces_sentence(unspaced)] if sentence]
    if model is None or in_words is None:
        return in_words, [], noted
    if model.reader is None or model.facts is None:
        return in_words, [], [Finding("error", f"The model cannot be used: {model.fault}")]
    by = model.reader
    encoded = lengths.tokenised(sampled, by)
    measured = lengths.lengths(sampled, encoded, labelled.max_tokens, by)
    if labelled.kind in WINDOWED:
        measured = dataclasses.replace(measured, cut=0.0, suggested=None)
    broken = [lengths.pieces("task", sampled, encoded, by)]
    for scan in scans:
        texts = lengths.bounded_sample(scan.sample)
        broken.append(lengths.pieces(scan.facts.name, texts, lengths.tokenised(texts, by), by))
    with_words = [pieces for pieces in broken if pieces is not None]
    findings = noted + lengths.findings(measured, with_words, windows=labelled.kind in WINDOWED, spaced=unspaced < MUCH)
    findings += check_checkpoint(model.facts, labelled.kind)
    return measured, with_words, [*findings, *findings_on_emptied(labelled, by)]


def findings_on_emptied(labelled: Labelled, by: lengths.Reader) -> list[Finding]:
    """Return findings on texts, or tagged words, of which the tokenizer leaves nothing; if that is so of all training
    texts, an error.
    """
    findings = []
    what = "words" if labelled.kind == "tokens" else "texts"
    for split in SPLITS:
        if what == "words":
            units = [(row.id, word) for row in labelled.splits[split] for word in words_of(row.text)]
        else:
            units = [(row.id, f"{row.text}{row.pair or ''}") for row in labelled.splits[split]]
        lost = [units[number][0] for number in lengths.emptied([text for _, text in units], by)]
        if not lost:
            continue
        places = list(dict.fromkeys(lost))
        ids = ", ".join(places[:NAMED]) + (", ..." if len(places) > NAMED else "")
        text = f"The model's tokenizer makes no token of {len(lost):,} of the {len(units):,} {what} of {split} ({ids})."
        if split == "train" and len(lost) == len(units):
            way_out = "Check the text column, or use a model whose vocabulary has their characters."
            findings.append(Finding("error", text, way_out))
        else:
            findings.append(Finding("warning", text, "The model reads them as empty. Correct them, or remove them."))
    return findings


def _file_facts(read: FileRead) -> FileFacts:
    return FileFacts(read.path.name, read.rows, read.accepted, len(read.rejected), grouped(read.rejected))


def _check_labelled(labelled: Labelled, counts: Mapping[str, Mapping[str, int]], folds: int) -> list[Finding]:
    """Return findings on files, labels and give-aways, and how these were read. counts: labels by split."""
    sizes: dict[str, int] = {split: len(rows) for split, rows in labelled.splits.items()}
    if labelled.kind == "score":
        on_labels = findings_on_numbers(labelled.splits)
    elif labelled.kind in SCORED_APART:
        on_labels = []
    elif labelled.kind == "tokens":
        on_labels = findings_on_types(counts, sizes)
    else:
        on_labels = findings_on_classes(counts, sizes, labelled.metric.name)
    noted = [Finding("warning", caution) for caution in labelled.cautions]
    noted += [Finding("reading", note) for note in labelled.notes]
    if sizes["test"] == 1:
        text = "Test has 1 row, but an interval needs more."
        on_labels.append(
            Finding("error", text, f"Label more rows for it, or remove {option('test')} to split test rows off.")
        )
    if not folds:  # else this dev set chooses no contestant
        on_labels += findings_on_dev(labelled.splits["dev"], labelled.kind)
        on_labels += scarce_on_dev(counts) if labelled.kind in ("sequence", "multilabel") else []
    away = [] if labelled.kind in (*WINDOWED, "search") else give_aways(labelled.splits["train"])
    return [*_check_files(labelled), *on_labels, *away, *noted]


def _bearing(labelled: Labelled) -> Mapping[Split, Sequence[Example]]:
    """Return the splits; for tagged words, each sentence's label becomes its types of entities, or its tags."""
    if labelled.kind != "tokens":
        return labelled.splits
    named = labelled.metric.name == "entity_f1"
    return {
        split: [dataclasses.replace(row, label=borne(classes_in(row.label), named=named)) for row in rows]
        for split, rows in labelled.splits.items()
    }


def _check_files(labelled: Labelled) -> list[Finding]:
    """Return findings on files with rejected rows, and on a test set that is larger than train."""
    findings = []
    sizes = {split: len(rows) for split, rows in labelled.splits.items()}
    if sizes["test"] > SWAPPED * sizes["train"]:
        text = f"Test has {sizes['test']:,} texts and train only {sizes['train']:,}."
        findings.append(Finding("warning", text, "If the files are swapped, exchange them."))
    return findings + [
        Finding(
            "warning",
            f"{facts.rejected:,} of the {facts.rows:,} rows of {facts.path} "
            f"{'was' if facts.rejected == 1 else 'were'} not read,{' mostly' * (len(facts.reasons) > 1)} because "
            f"{why}.",
            f"Correct them ({places}) or remove them.",
        )
        for facts in map(_file_facts, labelled.files)
        if facts.rejected
        for why, _, places in facts.reasons[:1]
    ]


def _reach(
    labelled: Labelled, seeds: int, comparisons: int, spread: PowerDesign | None, folds: int
) -> tuple[float | None, str, list[Finding]]:
    """Return the smallest detectable difference (None if unknown), a sentence on it, and a warning if it is large."""
    scored = [row.label for split in folded_splits(labelled) for row in labelled.splits[split]]
    gold = scored if folds else [row.label for row in labelled.splits["test"]]
    # by cross-validation a row counts (K - 1) / K as much as a row of a test set (statistics/folds.py)
    items = len(gold) * (folds - 1) // folds if folds else len(gold)
    if comparisons < 1:
        return None, "No comparison is made on the test set.", []
    if items < 2 or seeds < 2:
        return None, "A difference can only be tested with at least two test texts and two seeds.", []
    from acclimate.statistics.power import guessed, variance_of_one_item  # loads SciPy

    if spread is None:
        drawn = gold[:: -(-items // MOST_LABELS)]
        # 0 where all labels are equal, or the metric cannot fall: then as for right and wrong answers
        one_item = variance_of_one_item(labelled.kind, labelled.metric, drawn) or None
        design = guessed(items, seeds, one_item=one_item, comparisons=comparisons)
    else:
        design = dataclasses.replace(spread, items=items, seeds=seeds, comparisons=comparisons)
    basis = BASES[design.spread]
    if folds:  # more repeats make the mean better, but not the interval (statistics/folds.py)
        joint_variance = design.item_variance + design.residual_variance
        design = dataclasses.replace(design, item_variance=joint_variance, residual_variance=0.0, seed_variance=0.0)
    least = design.detectable()
    hopeless = least > HOPELESS and not folds
    if hopeless and seeds < SEEDS and design.detectable(seeds=SEEDS) <= HOPELESS:
        better = f"with {SEEDS} seeds, gains of {100 * design.detectable(seeds=SEEDS):.1f} points are"
        reach = f"With {seeds} seeds the usual gains of adaptation are not detectable; {better}. {basis}"
        compared = amount(comparisons, "comparison")
        text = f"{seeds} seeds are too few for {items:,} test texts and {compared}: any gain may be chance."
        return least, reach, [Finding("warning", text, f"Take {SEEDS} seeds.")]
    verdict = f"With {items:,} test texts and {seeds} seeds the usual gains of adaptation are not detectable."
    reach = f"{verdict if hopeless else design.advice()} {basis}"
    if folds:
        reach = f"{reach} The {len(gold):,} labelled rows, scored in {folds} folds, count as {items:,} test items."
    if least < LARGE:
        return least, reach, []
    what = f"{len(gold):,} {'labelled rows' if folds else 'test texts'}"
    with_seeds = "" if folds else f" and {seeds} seeds"  # more repeats do not make the interval narrower
    text = f"With {what}{with_seeds}, only differences of at least {100 * least:.1f} points are detectable."
    ways = [
        ("take more seeds", design.detectable(seeds=seeds + 2)),
        (f"label more {'rows' if folds else 'test texts'}", design.detectable(items=2 * items)),
    ]
    by_rows = len(scored) * (FOLDS - 1) // FOLDS
    if not folds and labelled.divided and by_rows > items and labelled.kind != "search":
        way = (
            f"score all {len(scored):,} labelled rows by cross-validation (race {option('folds', str(FOLDS))}, without "
            f"{option('budget')})"
        )
        ways.append((way, design.detectable(items=by_rows)))
    worth = " or ".join(way for way, then in ways if then < WORTH * least)
    # so few that twice as many hardly help
    worth = worth or ("label many more test texts" if hopeless else "")
    return least, reach, [Finding("warning", text, f"{worth.capitalize()}." if worth else "")]


def folded_splits(labelled: Labelled) -> tuple[Split, ...]:
    """Return the splits whose rows a cross-validation divides into folds: all but a test set that was given."""
    return SPLITS if "test" in labelled.divided else ("train", "dev")


def _labels_in(rows: Sequence[Example]) -> set[Label]:
    return {label for row in rows for label in (row.label if isinstance(row.label, tuple) else (row.label,))}


def check_leaks(
    in_rows: Mapping[str, SourceLeaks], scans: Sequence[Scanned], sizes: Mapping[str, int], folds: int = 0
) -> list[Finding]:
    """Return findings on the dev and test texts that train, dev and the corpora contain.

    sizes: rows of each split; folds: of a cross-validation, for which corpora were searched for every labelled text
    """
    findings = []
    pairs: tuple[tuple[Split, Split], ...] = (("train", "test"), ("train", "dev"), ("dev", "test"))
    for source, split in () if folds else pairs:  # texts that are nearly the same stand in one fold
        if items := in_rows[source].leaked(split):
            findings.append(_report_rows(in_rows[source], split, len(items), sizes[split]))
    for source in () if folds else ("train", "dev"):
        if incomplete := in_rows[source].incomplete:
            what = (
                f"{amount(incomplete, 'row')} of {source} {'resembles' if incomplete == 1 else 'each resemble'} at "
                f"least {MOST_ROWS} other texts, like rows made from templates. Only some pairs were compared, so "
                "leaks may be undercounted."
            )
            way_out = (
                f"{option('group', 'template')} keeps rows together that differ only in numbers and names. If a "
                f"column identifies related rows, name it with {option('group')}."
            )
            findings.append(Finding("warning", what, way_out))
    for scan in scans:
        name, scanned = scan.facts.name, scan.leaks
        numbers = {split: len(scanned.leaked(split)) for split in SEALED}
        parts = [
            f"{count:,} of the {scanned.sealed.sizes[split]:,} {'labelled' if folds else split} texts"
            for split, count in numbers.items()
            if count
        ]
        if parts:
            documents = len(set().union(*scanned.leaking.values()))
            text = (
                f"{documents:,} of the {scan.facts.documents:,} documents of the {name} corpus "
                f"{'contains' if documents == 1 else 'contain'} {' and '.join(parts)}."
            )
            findings.append(Finding("note", text, "A race does not adapt on them."))
    return findings


def _report_rows(source_leaks: SourceLeaks, split: Split, items: int, size: int) -> Finding:
    """Return the finding on labelled rows that contain items of another split."""
    source, rows = source_leaks.source, len(source_leaks.leaking[split])
    same = len(source_leaks.leaked(split) & source_leaks.same_label)
    text = (
        f"{items:,} of the {size:,} {split} texts ({share(items / size)}) {'occurs' if items == 1 else 'occur'} "
        f"also in {source}, exactly or nearly ({amount(rows, 'row')} there); {same:,} of them with the same label"
    )
    if split == "dev":
        return Finding("warning", f"{text}: choices on dev favour models that memorise.", LEAVE_OUT)
    if source == "dev":
        return Finding("note", f"{text}.", _removal("dev", rows))
    return Finding("warning", f"{text}: a model can memorise these.", _removal("train", rows))


def _check_divided(labelled: Labelled, in_train: SourceLeaks) -> list[Finding]:
    """Return a finding that names --group where many of the texts that were split off have near copies in train."""
    shares = {
        split: len(in_train.leaked(split)) / len(labelled.splits[split])
        for split in SEALED
        if split in labelled.divided and labelled.splits[split]
    }
    many = [split for split, part in shares.items() if part >= MANY_LEAKED]
    if not many or any(example.group for example in labelled.splits["train"]):
        return []
    text = f"Splitting {' and '.join(many)} from train put near copies into both parts."
    way_out = f"If a column identifies related rows, name it with {option('group')} to keep them in one part."
    return [Finding("note", text, way_out)]


def _removal(split: Split, rows: int) -> str:
    """Return the advice that removes the rows with a test text from the split."""
    way_out = f"{option('leaks', 'drop')} removes {amount(rows, 'row')} from {split}."
    return f"{way_out} The report scores with and without these texts in any case." if split == "train" else way_out


def check_copies(twice: Sequence[Copies]) -> list[Finding]:
    """Return findings on texts that occur more than once in a split."""
    findings = []
    for copies in twice:
        text = f"{amount(copies.texts, 'text')} {'occurs' if copies.texts == 1 else 'occur'} more than once in "
        text += f"{copies.split}, exactly or nearly ({amount(copies.rows, 'row')} too many)"
        if copies.conflicting:
            text += f"; {copies.conflicting:,} of them have different labels for the same words"
        if copies.marked:
            number = "all" if copies.marked == copies.conflicting else f"{copies.marked:,}"
            text += f", {number} of these with other punctuation"
        level: Level = "warning" if copies.conflicting > copies.marked else "note"
        findings.append(Finding(level, f"{text}.", _one_of_each(copies)))
    return findings


def _one_of_each(copies: Copies) -> str:
    """Return what to do about copies. Rows that differ only in punctuation may be about different parts of a text."""
    if not copies.conflicting:
        return "Keep one row of each."
    if copies.conflicting == copies.marked:
        return "Keep the rows if marks show which part of a text the label is about; else keep one row of each."
    right = "Keep one row of each, with the correct label"
    return f"{right}. If marks show which part of a text it is about, keep the rows." if copies.marked else f"{right}."


def leaked(in_rows: Mapping[str, SourceLeaks], scans: Sequence[Scanned]) -> dict[str, frozenset[str]]:
    """Return ids of rows and numbers of documents, as `Examination.leaked` has them."""
    ids = {"test": in_rows["train"].leaked_ids("test")}
    ids |= {split: frozenset(in_rows[split].leaking.get("test", ())) for split in ("train", "dev")}
    ids |= {f"test in {scan.facts.name}": scan.leaks.leaked_ids("test") for scan in scans}
    return ids | {scan.facts.name: frozenset().union(*scan.leaks.leaking.values()) for scan in scans}


def note_removal(examination: Examination, labelled: Labelled) -> Examination:
    """Return the examination after `removed`, which returned `labelled`: the advice to remove rows becomes a note that
    they were removed, and the dev texts in train are counted again.
    """
    notes = {}
    for split in ("train", "dev"):
        rows = len(examination.leaked.get(split, ()))
        removed_rows = f"{amount(rows, 'row')} of {split} contained a test text, exactly or nearly, and "
        notes[_removal(split, rows)] = f"{removed_rows}{'was' if rows == 1 else 'were'} removed."
    findings: list[Finding] = []
    for finding in examination.findings:
        if finding.way_out == LEAVE_OUT:
            source_leaks = leaks.found_in_rows("train", _trained_on(labelled), Sealed(labelled.splits))
            items = len(source_leaks.leaked("dev"))
            findings += [_report_rows(source_leaks, "dev", items, len(labelled.splits["dev"]))] if items else []
        else:
            findings.append(Finding(finding.level, notes[finding.way_out]) if finding.way_out in notes else finding)
    return dataclasses.replace(examination, findings=tuple(findings), dropped=True)


def label_counts(splits: Splits) -> dict[str, dict[str, int]]:
    """Return split -> label -> number of rows, most frequent first; no labels for numbers."""
    counts: dict[str, dict[str, int]] = {}
    for split in SPLITS:
        rows_of = Counter(label for row in splits[split] for label in _classes(row))
        counts[split] = dict(sorted(rows_of.items(), key=lambda pair: (-pair[1], pair[0])))
    return counts


def quantiles(splits: Splits) -> dict[str, tuple[float, ...]]:
    """Return split -> minimum, quartiles and maximum of the numbers to predict."""
    return {split: tuple(map(float, np.quantile(numbers, np.linspace(0, 1, 5)))) for split, numbers in _all(splits)}


def findings_on_classes(
    counts: Mapping[str, Mapping[str, int]], sizes: Mapping[str, int], metric: str
) -> list[Finding]:
    """Return findings on rare, missing or nearly exclusive classes and on splits that differ. sizes: rows by split."""
    train, test = counts["train"], counts["test"]
    findings = []
    if few := [f"{_named(label)} ({count})" for label, count in train.items() if count < FEW_TO_LEARN]:
        text = f"{_listed(few)} {has(few)} fewer than {FEW_TO_LEARN} training examples, too few to learn from."
        findings.append(Finding("note", text, "Label more of them, or merge rare classes."))
    rare = [f"{_named(label)} ({test.get(label, 0)})" for label in train if test.get(label, 0) < FEW_TO_SCORE]
    if rare and sizes["test"]:
        heavy = ", and macro-F1 weights each of them like a frequent one" if metric.startswith("macro") else ""
        text = f"{_listed(rare)} {has(rare)} fewer than {FEW_TO_SCORE} test examples: their scores are chance{heavy}."
        way_out = f"Label more test texts of these classes, or use {option('metric', 'micro_f1')}."
        findings.append(Finding("note", text, way_out))
    if test and sizes["test"]:
        label, count = next(iter(test.items()))
        share = count / sizes["test"]
        if share >= 0.8:
            text = f"{share:.1%} of the test texts have {_named(label)}: a constant answer scores the same."
            way_out = f"Judge by {option('metric', 'macro_f1')}, which does not reward it."
            on_macro = Finding("note", text, "The metric, macro-F1, does not reward it.")
            findings.append(on_macro if metric.startswith("macro") else Finding("warning", text, way_out))
        findings += _shift(train, test, sizes)
    return findings


def scarce_on_dev(counts: Mapping[str, Mapping[str, int]]) -> list[Finding]:
    """Return a finding on classes of which train has enough and dev too few. counts: labels by split"""
    dev = counts["dev"]
    few = [(label, dev.get(label, 0)) for label, rows in counts["train"].items() if rows >= FEW_TO_LEARN]
    scarce = [f"{_named(label)} ({rows})" for label, rows in few if rows < FEW_TO_SCORE]
    if not dev or not scarce:
        return []
    text = f"{_listed(scarce)} {has(scarce)} fewer than {FEW_TO_SCORE} dev examples, too few for choices on dev."
    return [Finding("note", text, f"Give {option('dev')} more rows of these classes, or score by {option('folds')}.")]


def findings_on_types(counts: Mapping[str, Mapping[str, int]], sizes: Mapping[str, int]) -> list[Finding]:
    """Return findings on rare types of entities, or tags, and on splits that differ. sizes: sentences by split."""
    train, test = counts["train"], counts["test"]
    findings = []
    if few := [f"{_named(label)} ({count})" for label, count in train.items() if count < FEW_TO_LEARN]:
        text = f"{_listed(few)} {has(few)} fewer than {FEW_TO_LEARN} training sentences, too few to learn from."
        findings.append(Finding("note", text, "Label more of them, or merge rare ones."))
    if rare := [f"{_named(label)} ({test.get(label, 0)})" for label in train if test.get(label, 0) < FEW_TO_SCORE]:
        text = f"{_listed(rare)} {has(rare)} fewer than {FEW_TO_SCORE} test sentences: their scores are chance."
        findings.append(Finding("note", text, "Label more test sentences with them."))
    return [*findings, *(_shift(train, test, sizes) if sizes["test"] else [])]


def findings_on_numbers(splits: Splits) -> list[Finding]:
    """Return findings on numbers to predict that are all equal, and on splits that differ."""
    findings = []
    numbers = dict(_all(splits))
    for split, values in numbers.items():
        if len(set(values)) == 1:
            amounts = "Every number" if len(values) > 1 else "The one number"
            first = splits[split][0].id
            text = f"{amounts} to predict in {split} is {values[0]:g} ({first}), so nothing can be learned."
            findings.append(Finding("error", text, "Check the label column."))
    if not findings and "train" in numbers and "test" in numbers:
        from scipy.stats import ks_2samp

        test = ks_2samp(numbers["train"], numbers["test"])
        if test.statistic >= SHIFTED and test.pvalue < CHANCE:
            text = (
                f"Numbers to predict are distributed differently in train and test, by {test.statistic:.0%} of the "
                "rows."
            )
            findings.append(Finding(_grave(test.statistic), text, SPLIT_AGAIN))
    return findings


def findings_on_dev(dev: Sequence[Example], kind: Kind) -> list[Finding]:
    """Return findings on a dev set that is too small to choose on, or on which one answer for all is always right."""
    if not dev:
        return []
    findings = []
    way_out = f"Label more rows for it, or remove {option('dev')} to split dev off train."
    if len(dev) < FEW_TO_CHOOSE:
        text = f"Dev has {amount(len(dev), 'row')}: the best weights, settings and contestants on dev are then chance."
        folds = f"race {option('folds', str(FOLDS))} without {option('budget')}"
        of_all = f"{way_out} With few rows, use {folds} to score all of them."
        findings.append(Finding("warning", text, "Judge more queries of dev." if kind == "search" else of_all))
    if kind in UNCLASSED:
        return findings
    answers = {tag for row in dev for tag in _classes(row)} if kind == "tokens" else {row.label for row in dev}
    if len(dev) > 1 and len(answers) == 1:
        (answer,) = answers
        of = "word" if kind == "tokens" else "row"
        names = ", ".join(map(_named, answer)) if isinstance(answer, tuple) else _named(str(answer))
        text = (
            f"Every {of} of dev has the same label ({names or 'none'}), so a constant answer is always correct there."
        )
        findings.append(Finding("warning", text, way_out))
    return findings


def give_aways(train: Sequence[Example]) -> list[Finding]:
    """Return findings on short cuts to the label: its name in the text, a text that is the id, a group that decides."""
    findings = []
    same = sum(row.text.strip() == row.id for row in train) / max(len(train), 1)
    if same >= 0.5:
        text = f"The text equals the id in {same:.0%} of the training rows."
        findings.append(Finding("warning", text, f"Name the text column with {option('text')}."))
    right, others, most = _naming(train[:LOOKED_AT])
    if right >= 0.05 and right >= 2 * others:
        text = (
            f"The name of the label occurs in {right:.0%} of the training texts with that label, the name of "
            f"another label in {others:.1%}: a search for words would classify them. {most}"
        )
        findings.append(Finding("note", text, "If new texts do not name their label, mask the names."))
    labels_of: dict[str, Counter[object]] = defaultdict(Counter)
    for row in train:
        if row.group:
            labels_of[row.group][row.label] += 1
    mixed = {group: labels for group, labels in labels_of.items() if labels.total() > 1}
    rows = sum(labels.total() for labels in mixed.values())
    if rows >= 0.5 * len(train) and len({label for labels in mixed.values() for label in labels}) > 1:
        decided = sum(labels.most_common(1)[0][1] for labels in mixed.values()) / rows
        if decided >= 0.95:
            text = f"The group alone decides the label in {decided:.0%} of the training rows ({len(mixed):,} groups)."
            way_out = "A model may learn to recognise the groups. Test it on groups that are not in train."
            findings.append(Finding("note", text, way_out))
    return findings


def _classes(row: Example) -> tuple[str, ...]:
    if isinstance(row.label, tuple):
        return row.label
    return (row.label,) if isinstance(row.label, str) else ()


def _all(splits: Splits) -> list[tuple[Split, list[float]]]:
    """Return the numbers to predict of each split that has rows."""
    numbers = [(split, [float(row.label) for row in splits[split] if isinstance(row.label, float)]) for split in SPLITS]
    return [(split, values) for split, values in numbers if values]


def _shift(train: Mapping[str, int], test: Mapping[str, int], sizes: Mapping[str, int]) -> list[Finding]:
    """Return a finding if labels are spread differently in train and test: half of the summed differences of shares."""
    labels = [label for label in {**train, **test} if train.get(label, 0) + test.get(label, 0)]
    table = np.array([[part.get(label, 0) for label in labels] for part in (train, test)], dtype=float)
    if len(labels) < 2 or not table.sum(axis=1).all():
        return []
    shares = table / table.sum(axis=1, keepdims=True)
    distance = float(np.abs(shares[0] - shares[1]).sum() / 2)
    if distance < SHIFTED:
        return []
    from scipy.stats import chi2_contingency

    if chi2_contingency(table).pvalue >= CHANCE:
        return []
    most = int(np.abs(shares[0] - shares[1]).argmax())
    text = (
        f"Labels are distributed differently in train and test, by {distance:.0%} of the rows: "
        f"{_named(labels[most])} is {shares[0, most]:.1%} of train and {shares[1, most]:.1%} of test."
    )
    return [Finding(_grave(distance), text, SPLIT_AGAIN)]


def _naming(rows: Sequence[Example]) -> tuple[float, float, str]:
    """Return the share of the rows' labels whose names are in the text, that share for labels of other rows, and a
    sentence on the label that is named most often.
    """
    names = {label: f" {normalised_words(label)} " for row in rows for label in _classes(row)}
    names = {label: name for label, name in names.items() if len(name) >= SHORTEST + 2 and not name.strip().isdigit()}
    order = sorted(names)
    places = {label: place for place, label in enumerate(order)}
    right, rows_of = Counter[str](), Counter[str]()
    others = searched_others = 0
    for row in rows:
        text = f" {normalised_words(row.text)} "
        for label in set(_classes(row)) & names.keys():
            place = places[label]
            rows_of[label] += 1
            right[label] += names[label] in text
            for other_row in (order[(place + step) % len(order)] for step in range(1, min(len(order), OTHERS + 1))):
                if other_row not in _classes(row):
                    searched_others += 1
                    others += names[other_row] in text
    most = max(right, key=lambda label: right[label], default="")
    sentence = f"Most often this is {_named(most)}, in {right[most] / rows_of[most]:.0%} of its texts." if most else ""
    return right.total() / max(rows_of.total(), 1), others / max(searched_others, 1), sentence


def _grave(distance: float) -> Level:
    return "warning" if distance >= 2 * SHIFTED else "note"


def _named(label: str) -> str:
    return f"'{label[:60]}'"


def _listed(names: Sequence[str]) -> str:
    listing = ", ".join(names[:NAMED])
    return listing if len(names) <= NAMED else f"{listing} and {len(names) - NAMED:,} more classes"
