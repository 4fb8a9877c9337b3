"""What the doctor says of leaks and copies, and which texts are to be left out for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from acclimate.core import files
from acclimate.core.types import Split
from acclimate.study.corpus_scan import Scanned
from acclimate.study.examination import Copies, Examination, Finding, Level
from acclimate.study.leaks import Found
from acclimate.study.sealed import SEALED
from acclimate.study.typeset import amount, share

PROVENANCE = "provenance.json"  # of a checkpoint (training/run.py, which loads torch)
REMOVE = "--leaks drop"  # what the command line calls `doctor.removed`


def on_leaks(found: Mapping[str, Found], scans: Sequence[Scanned], sizes: Mapping[str, int]) -> list[Finding]:
    """What train, dev and the corpora hold of dev and test. sizes: rows of each split."""
    findings = []
    several: tuple[tuple[Split, Split], ...] = (("train", "test"), ("train", "dev"), ("dev", "test"))
    for source, split in several:
        if items := found[source].leaked(split):
            findings.append(_on_rows(found[source], split, len(items), sizes[split]))
    for scan in scans:
        name, here = scan.facts.name, scan.found
        numbers = {split: len(here.leaked(split)) for split in SEALED}
        parts = [f"{count:,} of the {sizes[split]:,} {split} texts" for split, count in numbers.items() if count]
        if parts:
            documents = len(set().union(*here.leaking.values()))
            text = (
                f"{documents:,} of the {scan.facts.documents:,} documents of the {name} corpus "
                f"{'holds' if documents == 1 else 'hold'} {' and '.join(parts)}."
            )
            findings.append(Finding("note", text, "A race leaves them out of adapting by itself."))
    return findings


def on_model(model: str | None, hashes: Mapping[str, str]) -> Finding | None:
    """Whether the model may have learnt this task before, from other rows than now. hashes: of the prepared task.

    A checkpoint made here says what it was trained on by the hash of all rows together, so nobody can say which of the
    rows of now were among them.
    """
    path = Path(model or "") / PROVENANCE
    stated = files.read_json(path) if model is not None and path.is_file() else None
    sources = stated.get("sources") if isinstance(stated, dict) else None
    if not isinstance(sources, dict):  # none, or not written by us
        return None
    if sources.get("about") != hashes["about"] or sources.get("train") in (None, hashes["train"]):
        return None
    return Finding(
        "warning",
        "The model has learnt a task of this name, kind, metric, length and labels before, from other training rows "
        "(provenance.json). If it is this one, texts that are test now may have been among them, and it would be right "
        "by remembering.",
        "Give the split that it was trained with (--split-seed, or --dev and --test), or another model.",
    )


def _on_rows(found: Found, split: Split, items: int, size: int) -> Finding:
    """What it means that labelled rows hold items of another split."""
    source, rows = found.source, len(found.leaking[split])
    same = len(found.leaked_with_their_label(split))
    text = (
        f"{items:,} of the {size:,} {split} texts ({share(items / size)}) {'stands' if items == 1 else 'stand'} in "
        f"{source} too, exactly or nearly ({amount(rows, 'row')} there); {same:,} of them with the same label"
    )
    if split == "dev":
        return Finding(
            "warning", f"{text}: choices made by dev favour what remembers.", "Leave those rows out of train."
        )
    if source == "dev":
        return Finding("note", f"{text}.", _removal("dev", rows))
    return Finding("warning", f"{text}: on these a model is right by remembering.", _removal("train", rows))


def _removal(split: Split, rows: int) -> str:
    """What would take the rows that hold a test text out of the split."""
    way_out = f"{REMOVE} takes {amount(rows, 'row')} out of {split}"
    if split == "train":
        return f"{way_out}; the report scores with and without these texts anyway."
    return f"{way_out}."


def on_copies(twice: Sequence[Copies]) -> list[Finding]:
    """Texts that occur more than once in a split."""
    findings = []
    for each in twice:
        text = f"{amount(each.texts, 'text')} {'occurs' if each.texts == 1 else 'occur'} more than once in "
        text += f"{each.split}, exactly or nearly ({amount(each.rows, 'row')} too many)"
        if each.conflicting:
            text += f"; {each.conflicting:,} of them with different labels in the same words"
        if each.marked:
            number = "all" if each.marked == each.conflicting else f"{each.marked:,}"
            text += f", {number} of these with other punctuation"
        level: Level = "warning" if each.conflicting > each.marked else "note"
        findings.append(Finding(level, f"{text}.", _one_of_each(each)))
    return findings


def _one_of_each(copies: Copies) -> str:
    """What to do about copies. Rows that differ in marks alone may be about different parts of one text."""
    if not copies.conflicting:
        return "Keep one row of each."
    if copies.conflicting == copies.marked:
        return "Leave the rows where marks say which part of a text the label is about; else keep one row of each."
    right = "Keep one row of each, with the label that is right"
    return (
        f"{right}; where marks say which part of a text it is about, leave the rows." if copies.marked else f"{right}."
    )


def leaked(found: Mapping[str, Found], scans: Sequence[Scanned]) -> dict[str, frozenset[str]]:
    """Ids of rows and numbers of documents, as Examination.leaked has them."""
    ids = {"test": found["train"].leaked_ids("test")}
    ids |= {split: frozenset(found[split].leaking.get("test", ())) for split in ("train", "dev")}
    ids |= {f"test in {scan.facts.name}": scan.found.leaked_ids("test") for scan in scans}
    return ids | {scan.facts.name: frozenset().union(*scan.found.leaking.values()) for scan in scans}


def after_removal(examination: Examination) -> Examination:
    """The examination of files out of which `doctor.removed` took rows: what advised it says that it was done."""
    done = {}
    for split in ("train", "dev"):
        rows = len(examination.leaked.get(split, ()))
        what = f"{amount(rows, 'row')} of {split} held a test text, exactly or nearly, and "
        done[_removal(split, rows)] = f"{what}{'was' if rows == 1 else 'were'} taken out."
    findings = (
        Finding(finding.level, done[finding.way_out]) if finding.way_out in done else finding
        for finding in examination.findings
    )
    return dataclasses.replace(examination, findings=tuple(findings), dropped=True)
