"""A corpus out of raw text of any size: filtered, without what repeats, counted.

1. Every file is read and its documents filtered by length and language, in parts (`preparation_parts`).
2. PubMed's articles that a later file replaces or deletes are left out (`superseded`).
3. So are documents that repeat an earlier one, exactly or nearly (`near_duplicates`).
4. What is left is written as a Corpus, in the order of the files, and counts and examples of what is not as a report.

Memory does not grow with the text but by some 70 bytes a document (measured up to 10 GB), and 60 more an article of
PubMed. The disk holds what is left of the text twice for a while, and sketches of half a kilobyte a document. A run
that was stopped goes on after the last part that it wrote, and ends with the same bytes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from acclimate.core import files, settings
from acclimate.core.processes import in_processes
from acclimate.core.types import Document, Progress, Rejected, Watch, counted, unwatched
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.documents import Separated, check_rows, files_of, unread_in
from acclimate.text.language import check_language
from acclimate.text.near_duplicates import exact_repeats, near_repeats
from acclimate.text.packed import named
from acclimate.text.preparation_parts import TOLD, Counts, Filters, Part, counts_of, parts_of, read_unit, units
from acclimate.text.preparation_texts import Texts
from acclimate.text.superseded import superseded

CORPUS, FACTS = "corpus", "preparation.json"
_PARTS, _PLAN = "parts", "plan.json"
_WRITING = f".{CORPUS}.unfinished"  # a folder of ours: whatever is in it was left by a run that was killed
MEMORY = 1 << 30  # bytes for keys of documents at a time


@dataclass(frozen=True)
class Recipe:
    """What stays of raw text.

    field             the field, or column, that holds the text
    language          two letters, such as en: documents of another language are left out, those of an unknown one stay
    least_words       fewest of a document, between white space; PubMedBERT: 128
    most_words        0: any number; so of characters
    least_characters, most_characters
    exact             leave out documents with the same words as an earlier one
    near              and those with this Jaccard similarity of runs of five words, or more; 0: only the same words
    """

    field: str = "text"
    language: str = ""
    least_words: int = 0
    most_words: int = 0
    least_characters: int = 0
    most_characters: int = 0
    exact: bool = True
    near: float = 0.8

    def __post_init__(self) -> None:
        if self.language:
            check_language(self.language)
        if not 0 <= self.near <= 1:
            raise ValueError(f"near is {self.near}, but a Jaccard similarity lies between 0 and 1; 0 looks for none")
        if self.near and not self.exact:
            raise ValueError(
                f"near is {self.near}, but exact is false: what is the same is nearly the same. Say near=0"
            )
        for what in ("words", "characters"):
            least, most = getattr(self, f"least_{what}"), getattr(self, f"most_{what}")
            if min(least, most) < 0 or 0 < most < least:
                raise ValueError(f"least_{what} is {least} and most_{what} {most}: no document is both. Correct one")

    def filters(self) -> Filters:
        return Filters(self.language, self.least_words, self.most_words, self.least_characters, self.most_characters)


@dataclass(frozen=True)
class Preparation:
    """A finished one: the folder with the corpus, and the facts of its report."""

    path: Path
    facts: dict[str, Any]

    @property
    def corpus(self) -> Corpus:
        return Corpus(self.path / CORPUS)


def prepare(
    raw: Sequence[Path],
    out: Path,
    recipe: Recipe,
    *,
    separated: Separated = "line",
    processes: int = 1,
    memory: int = MEMORY,
    watch: Watch = unwatched,
) -> Preparation:
    """Write `corpus`, and `preparation.json` with what was counted, into `out`; or read what a run before finished.

    raw        files or folders, as `read_documents` reads them; where PubMed's files are among them, in their order
    processes  that read and filter; the bytes written do not depend on it, nor on `memory`
    Raises ValueError where `raw` cannot be read, where nothing is left, and where another preparation began in `out`.
    """
    listed = _listed(raw)
    _check_plan(out, listed, recipe, separated, watch)
    if (out / FACTS).exists():
        shutil.rmtree(out / _PARTS, ignore_errors=True)  # of a run that was killed on its last line
        return Preparation(out, files.read_json(out / FACTS))
    parts = _read(listed, out / _PARTS, recipe, separated=separated, processes=processes, watch=watch)
    counts = counts_of(parts)
    _check_counts(raw, counts)
    stays = _stays(Texts(parts), counts, recipe, memory, watch)
    if not stays.any():
        dropped = ", ".join(f"{kind}: {count:,}" for kind, count in counts.documents.items() if kind != "read")
        raise ValueError(f"{_names(raw)}: no document is left ({dropped}). Ask for less, or name more text")
    if not (out / CORPUS).exists():
        shutil.rmtree(out / _WRITING, ignore_errors=True)
        (out / _WRITING).mkdir()
        write_corpus(counted(_kept(parts, stays), watch, "writing", total=int(stays.sum())), out / _WRITING / CORPUS)
        os.rename(out / _WRITING / CORPUS, out / CORPUS)
        (out / _WRITING).rmdir()
    corpus = Corpus(out / CORPUS)
    facts = {
        "raw": [str(path) for path in raw],
        "files": len(listed),
        "unread": [str(file.relative_to(path)) for path in raw if path.is_dir() for file in unread_in(path)],
        "settings": settings.to_mapping(recipe),
        "kept": {"documents": len(corpus), "characters": corpus.characters, "hash": corpus.hash},
        **{name: getattr(counts, name) for name in ("documents", "characters", "languages", "examples")},
    }
    files.write_json(out / FACTS, facts)
    shutil.rmtree(out / _PARTS)
    return Preparation(out, facts)


def _listed(raw: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Every file, with the folder that its documents' places are named from."""
    found = [(file, path if path.is_dir() else path.parent) for path in raw for file in files_of(path)]
    if not found:
        raise ValueError("no raw text given. Name a file or folder")
    seen: set[Path] = set()
    for file, _ in found:
        if file.resolve() in seen:
            raise ValueError(f"{named(file)}: is named twice. Name each file once, by itself or by its folder")
        seen.add(file.resolve())
    return found


def _check_plan(
    out: Path, listed: Sequence[tuple[Path, Path]], recipe: Recipe, separated: Separated, watch: Watch
) -> None:
    """Write what the parts are made of. Where files changed since a run that did not end, as where one was mended, all
    are read anew, and somebody is told. Raises ValueError where another preparation began or ended here.
    """
    facts = [(str(file.relative_to(above)), file.stat()) for file, above in listed]
    plan: dict[str, Any] = {"settings": settings.to_mapping(recipe), "separated": separated}
    plan["files"] = settings.digest([(name, stat.st_size, stat.st_mtime_ns) for name, stat in facts])
    file = out / _PLAN
    before = files.read_json(file) if file.exists() else {}
    if before and before | {"files": plan["files"]} == plan != before and not (out / CORPUS).exists():
        watch(Progress("reading", 0, 0, "documents", {"note": "files changed since the last try: all are read anew"}))
        shutil.rmtree(out / _PARTS, ignore_errors=True)
        before = {}
    if not before:
        out.mkdir(parents=True, exist_ok=True)
        (out / _PARTS).mkdir(exist_ok=True)
        files.write_json(file, plan)
        return
    if before != plan:
        what = ", ".join(name for name in plan if before.get(name) != plan[name])
        raise ValueError(f"{out} holds a preparation with other {what}. Name another --out, or remove that folder")


def _read(
    listed: Sequence[tuple[Path, Path]],
    folder: Path,
    recipe: Recipe,
    *,
    separated: Separated,
    processes: int,
    watch: Watch,
) -> list[Part]:
    """The parts of all files, in order."""
    planned = units(listed)
    work = partial(
        read_unit,
        folder=folder,
        filters=recipe.filters(),
        near=recipe.near,
        column=recipe.field,
        separated=separated,
        watch=watch if processes <= 1 else unwatched,  # another process has no screen
    )
    for done, _ in enumerate(in_processes(work, planned, min(processes, len(planned))), 1):
        watch(Progress("reading", done, len(planned), "units"))
    return [part for unit in planned for part in parts_of(unit.number, folder)]


def _check_counts(raw: Sequence[Path], counts: Counts) -> None:
    rejected = counts.documents.get("rejected", 0)
    told = [Rejected(place, reason) for place, reason, _ in counts.examples.get("rejected", [])]
    check_rows(_names(raw), counts.documents.get("read", 0) + rejected, rejected, told)


def _names(raw: Sequence[Path]) -> str:
    return ", ".join(named(path) for path in raw)


def _stays(texts: Texts, counts: Counts, recipe: Recipe, memory: int, watch: Watch) -> np.ndarray:
    """(D,) bool, of the documents of all parts; what does not stay is counted."""
    stays = np.ones(texts.begins[-1], bool)
    watch(Progress("looking for repeated documents", 0, 2, "stages"))
    for kind, numbers in zip(("replaced", "deleted"), superseded(*texts.citations()), strict=True):
        stays[numbers] = False
        _count(counts, texts, kind, numbers, lambda number: "")
    if recipe.exact:
        first = exact_repeats(texts, stays, memory)
        repeats = np.flatnonzero(first >= 0)
        stays[repeats] = False
        _count(counts, texts, "repeated", repeats, lambda number: f"as {texts.document(int(first[number])).id}")
    watch(Progress("looking for repeated documents", 1, 2, "stages"))
    if recipe.near:
        earlier = near_repeats(texts, stays, recipe.near, memory)
        repeats = np.flatnonzero(earlier >= 0)
        stays[repeats] = False
        _count(counts, texts, "nearly repeated", repeats, lambda number: texts.alike(int(earlier[number]), number))
    watch(Progress("looking for repeated documents", 2, 2, "stages"))
    return stays


def _count(counts: Counts, texts: Texts, kind: str, numbers: np.ndarray, met: Any) -> None:
    lengths = texts.lengths
    for place, number in enumerate(numbers.tolist()):
        example = None
        if place < TOLD:
            document = texts.document(number)
            example = (document.id, met(number), document.text)
        counts.add(kind, int(lengths[number]), example)


def _kept(parts: Sequence[Part], stays: np.ndarray) -> Iterator[Document]:
    number = 0
    for part in parts:
        if part.corpus is not None:
            for document in part.corpus.documents():
                if stays[number]:
                    yield document
                number += 1
