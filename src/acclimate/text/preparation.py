"""Turn raw text of any size into a corpus, without unsuitable and repeated documents, and count what is left out.

1. Files are read in parts, and their documents filtered by length and language (text/filters.py).
2. Articles of PubMed that a later file replaces or deletes are left out (`pubmed.superseded`).
3. Documents that repeat an earlier one, exactly or nearly, are left out (overlap/near_duplicates.py).
4. The rest is written as a Corpus, in the order of the files. A report has counts and examples of what is left out.

Memory grows by some 70 bytes a document (measured up to 10 GB), and 60 more for an article of PubMed. The disk holds
the kept text twice for a while, and sketches of half a kilobyte a document. A stopped run resumes after the last part
that it wrote, and ends with the same bytes.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from acclimate.core import files, settings
from acclimate.core.door import option
from acclimate.core.machines import map_processes
from acclimate.core.settings import Count, Range, check_ranges
from acclimate.core.types import Document, Progress, Rejected, Watch, counted, unwatched
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.documents import Separated, check_rows, files_of, unread_in
from acclimate.text.filters import (
    EXAMPLES,
    CorpusPart,
    FilterCounts,
    Filters,
    parts_of_unit,
    read_unit,
    total_counts,
    units,
)
from acclimate.text.language import RECOGNISER, check_language
from acclimate.text.overlap.near_duplicates import Sketches, exact_repeats, grams, near_repeats
from acclimate.text.overlap.words import jaccard
from acclimate.text.pubmed import superseded
from acclimate.text.untrusted import named, printable

CORPUS, FACTS = "corpus", "preparation.json"
KINDS = ("rejected", "empty", "short", "long", "language", "replaced", "deleted", "repeated", "nearly repeated")
MEMORY = 1 << 30  # bytes for the keys of documents that are compared at a time
_PARTS, _PLAN = "parts", "plan.json"
_WRITING = f".{CORPUS}.unfinished"  # only a killed run leaves anything in it
_OPENED = 8  # parts whose files stay open
_LANGUAGES = 8  # listed in the report
_UNREAD = 5  # file names in the report


@dataclass(frozen=True)
class CorpusRecipe:
    """Which documents of raw text are kept."""

    field: str = "text"  # field or column of the text
    language: str = ""
    """Two letters, such as en: remove documents of another language; keep those of an unknown one."""
    least_words: Count = 0  # fewest words of a document, separated by white space; PubMedBERT: 128
    most_words: Count = 0  # most words of a document; 0: any number
    least_characters: Count = 0  # fewest characters of a document
    most_characters: Count = 0  # most characters of a document; 0: any number
    exact: bool = True  # remove documents with the same words as an earlier one
    near: Annotated[float, Range(least=0, most=1, hint=", a Jaccard similarity; 0: no search")] = 0.8
    """Also remove documents whose runs of five words have this Jaccard similarity, or more, with those of an earlier
    one; 0: none."""

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.language:
            check_language(self.language)
        if self.near and not self.exact:
            raise ValueError(
                f"near is {self.near}, but exact is false, and exact copies are also near copies. Set near=0"
            )
        for unit in ("words", "characters"):
            least, most = getattr(self, f"least_{unit}"), getattr(self, f"most_{unit}")
            if 0 < most < least:
                raise ValueError(
                    f"least_{unit} is {least} and most_{unit} {most}, so no document fits. Correct one of them"
                )

    def filters(self) -> Filters:
        return Filters(self.language, self.least_words, self.most_words, self.least_characters, self.most_characters)


@dataclass(frozen=True)
class Preparation:
    """A finished preparation: its folder, and the facts of its report."""

    path: Path
    facts: dict[str, Any]

    @property
    def corpus(self) -> Corpus:
        return Corpus(self.path / CORPUS)


def prepare_corpus(
    raw: Sequence[Path],
    out: Path,
    recipe: CorpusRecipe,
    *,
    separated: Separated = "line",
    processes: int = 1,
    memory: int = MEMORY,
    watch: Watch = unwatched,
) -> Preparation:
    """Write `corpus` and `preparation.json`, with the counts, into `out`; or return what an earlier run finished there.

    raw        files or folders, as `read_documents` reads them; PubMed's files must be in their order
    processes  number of processes that read and filter; the bytes written depend neither on it nor on `memory`
    Raises ValueError if `raw` cannot be read, if no document is left, or if `out` has another preparation.
    """
    listed = _listed(raw)
    _check_plan(out, listed, recipe, separated, watch)
    if (out / FACTS).exists() and (out / CORPUS).exists():
        shutil.rmtree(out / _PARTS, ignore_errors=True)  # left by a run that was killed just before its end
        way_out = f"Remove {out / FACTS}, and give the same command again"
        return Preparation(out, files.read_record(out / FACTS, way_out=way_out))
    (out / _PARTS).mkdir(exist_ok=True)
    parts = _read(listed, out / _PARTS, recipe, separated=separated, processes=processes, watch=watch)
    counts = total_counts(parts)
    _check_counts(raw, counts)
    stays = _stays(PartTexts(parts), counts, recipe, memory, watch)
    if not stays.any():
        dropped = ", ".join(f"{kind}: {count:,}" for kind, count in counts.documents.items() if kind != "read")
        raise ValueError(f"{_names(raw)}: no document remains ({dropped}). Relax the filters, or name more text")
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
    files.write_record(out / FACTS, facts)
    shutil.rmtree(out / _PARTS)
    return Preparation(out, facts)


def _listed(raw: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Return every file, with the folder from which its documents are named."""
    files = [(file, path if path.is_dir() else path.parent) for path in raw for file in files_of(path)]
    if not files:
        raise ValueError("no raw text given. Name a file or folder")
    paths: set[Path] = set()
    for file, _ in files:
        if file.resolve() in paths:
            raise ValueError(f"{named(file)}: is named twice. Name each file once, directly or by its folder")
        paths.add(file.resolve())
    return files


def _check_plan(
    out: Path, listed: Sequence[tuple[Path, Path]], recipe: CorpusRecipe, separated: Separated, watch: Watch
) -> None:
    """Write the plan of the parts: settings, files, and what recognises their language.

    If files changed since an unfinished run, drop its parts.
    Raises ValueError if `out` has another preparation, finished or not.
    """
    plan: dict[str, Any] = {"settings": settings.to_mapping(recipe), "separated": separated}
    if recipe.language:
        plan["recogniser"] = RECOGNISER
    hashes = [(str(file.relative_to(above)), files.sha256_of_input(file)) for file, above in listed]
    plan["files"] = settings.digest(hashes)
    file = out / _PLAN
    before = files.read_record(file) if file.exists() else {}
    if before and before | {"files": plan["files"]} == plan != before and not (out / CORPUS).exists():
        note = "files changed since the last attempt, so all are read again"
        watch(Progress("reading", 0, 0, "documents", {"note": note}))
        shutil.rmtree(out / _PARTS, ignore_errors=True)
        before = {}
    if not before:
        out.mkdir(parents=True, exist_ok=True)
        files.write_record(file, plan)
        return
    if before != plan:
        differing = ", ".join(name for name in plan | before if before.get(name) != plan.get(name))
        raise ValueError(
            f"{out} contains a preparation with other {differing}. Choose another {option('out')}, or remove "
            "that folder"
        )


def _read(
    listed: Sequence[tuple[Path, Path]],
    folder: Path,
    recipe: CorpusRecipe,
    *,
    separated: Separated,
    processes: int,
    watch: Watch,
) -> list[CorpusPart]:
    """Return the parts of all files, in order."""
    planned = units(listed)
    work = partial(
        read_unit,
        folder=folder,
        filters=recipe.filters(),
        near=recipe.near,
        column=recipe.field,
        separated=separated,
        watch=watch if processes <= 1 else unwatched,  # only this process can show progress
    )
    for count, _ in enumerate(map_processes(work, planned, min(processes, len(planned))), 1):
        watch(Progress("reading", count, len(planned), "units"))
    return [part for unit in planned for part in parts_of_unit(unit.number, folder)]


def _check_counts(raw: Sequence[Path], counts: FilterCounts) -> None:
    rejected = counts.documents.get("rejected", 0)
    examples = [Rejected(place, reason) for place, reason, _ in counts.examples.get("rejected", [])]
    check_rows(_names(raw), counts.documents.get("read", 0) + rejected, rejected, examples)


def _stays(texts: PartTexts, counts: FilterCounts, recipe: CorpusRecipe, memory: int, watch: Watch) -> np.ndarray:
    """Return (D,) bool, True for documents of any part that stay in the corpus; count the others."""
    stays = np.ones(texts.begins[-1], bool)
    watch(Progress("searching for repeated documents", 0, 2, "stages"))
    for kind, numbers in zip(("replaced", "deleted"), superseded(*texts.citations()), strict=True):
        stays[numbers] = False
        _count(counts, texts, kind, numbers, lambda number: "")
    if recipe.exact:
        first = exact_repeats(texts, stays, memory)
        repeats = np.flatnonzero(first >= 0)
        stays[repeats] = False
        _count(counts, texts, "repeated", repeats, lambda number: f"as {texts.document(int(first[number])).id}")
    watch(Progress("searching for repeated documents", 1, 2, "stages"))
    if recipe.near:
        earlier = near_repeats(texts, stays, recipe.near, memory)
        repeats = np.flatnonzero(earlier >= 0)
        stays[repeats] = False
        _count(counts, texts, "nearly repeated", repeats, lambda number: texts.alike(int(earlier[number]), number))
    watch(Progress("searching for repeated documents", 2, 2, "stages"))
    return stays


def _count(counts: FilterCounts, texts: PartTexts, kind: str, numbers: np.ndarray, reason_of: Any) -> None:
    lengths = texts.lengths
    for place, number in enumerate(numbers.tolist()):
        example = None
        if place < EXAMPLES:
            document = texts.document(number)
            example = (document.id, reason_of(number), document.text)
        counts.add(kind, int(lengths[number]), example)


def _kept(parts: Sequence[CorpusPart], stays: np.ndarray) -> Iterator[Document]:
    number = 0
    for part in parts:
        if part.corpus is not None:
            for document in part.corpus.documents():
                if stays[number]:
                    yield document
                number += 1


def _names(raw: Sequence[Path]) -> str:
    return ", ".join(named(path) for path in raw)


class PartTexts:
    """The documents of all parts, numbered from 0 in the order of the parts: a `near_duplicates.Store`.

    lengths  (D,) int64 characters; begins: (parts + 1,) the number of each part's first document
    """

    def __init__(self, parts: Sequence[CorpusPart]) -> None:
        self._parts = parts
        self.lengths = np.concatenate([np.empty(0, np.int64), *(part.array("lengths") for part in parts)])
        self.begins = np.cumsum([0, *(len(part.array("lengths")) for part in parts)])
        # parts stay open, because opening one takes a millisecond
        self._opened = lru_cache(_OPENED)(lambda part: _PartReader(parts[part].path))

    def sketches(self) -> list[Sketches]:
        return self._sketches

    @cached_property
    def _sketches(self) -> list[Sketches]:
        return [part.sketches() for part in self._parts]

    def citations(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the citations as the arrays that `superseded` takes."""
        arrays = [np.empty((0, 3), np.int64)]
        for part, begin in zip(self._parts, self.begins.tolist(), strict=False):
            cited = np.array(part.array("citations"))
            cited[cited[:, 2] >= 0, 2] += begin
            arrays.append(cited)
        pmids, versions, numbers = np.concatenate(arrays).T
        return pmids, versions, numbers

    def document(self, number: int) -> Document:
        part = int(np.searchsorted(self.begins, number, side="right")) - 1
        return self._opened(part)(int(number - self.begins[part]))

    def text(self, number: int) -> str:
        return self.document(number).text

    def alike(self, one: int, other: int) -> str:
        return f"{jaccard(grams(self.text(one)), grams(self.text(other))):.2f} like {self.document(one).id}"


class _PartReader:
    """The documents of a part by number, memory-mapped."""

    def __init__(self, path: Path) -> None:
        self._file = pa.ipc.open_file(pa.memory_map(str(path / "corpus" / "documents.arrow")))
        sizes = [self._file.get_batch(number).num_rows for number in range(self._file.num_record_batches)]
        self._begins = np.cumsum([0, *sizes])

    def __call__(self, number: int) -> Document:
        batch = int(np.searchsorted(self._begins, number, side="right")) - 1
        row = int(number - self._begins[batch])
        columns = self._file.get_batch(batch)
        return Document(*(columns.column(name)[row].as_py() for name in ("id", "text", "source")))


def as_text(facts: dict[str, Any]) -> str:
    """Return the report as text: counts, languages, and the first documents of each kind that were left out."""
    rows = [("", "documents", "characters"), *((name, f"{of:,}", f"{size:,}") for name, of, size in _counts(facts))]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{name:<{widths[0]}}  {of:>{widths[1]}}  {size:>{widths[2]}}" for name, of, size in rows]
    languages = sorted(facts["languages"].items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{name} {count:,}" for name, count in languages[:_LANGUAGES])
    more = f" and {len(languages) - _LANGUAGES} more" if len(languages) > _LANGUAGES else ""
    lines += ["", f"Languages of the documents read (und: unknown): {listed}{more}."]
    if unread := facts["unread"]:
        others = f", and {len(unread) - _UNREAD:,} more" if len(unread) > _UNREAD else ""
        lines.append(f"Not read because of their endings: {', '.join(map(printable, unread[:_UNREAD]))}{others}.")
    for kind in KINDS:
        for name, reason, excerpt in facts["examples"].get(kind, []):
            about = f" ({reason})" if reason else ""
            lines.append(f"{_meaning(kind, facts['settings'])}: {name}{about}{': ' if excerpt else ''}{excerpt}")
    return "\n".join(lines)


def as_csv(facts: dict[str, Any]) -> str:
    """Return the table of counts as CSV."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([("what", "documents", "characters"), *_counts(facts)])
    return file.getvalue()


def _counts(facts: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Return rows (what, documents, characters): read, left out by each filter, kept."""
    documents, characters = facts["documents"], facts["characters"]
    left_out = [
        (_meaning(kind, facts["settings"]), documents[kind], characters[kind]) for kind in KINDS if kind in documents
    ]
    read = ("read", documents.get("read", 0) + documents.get("rejected", 0), characters.get("read", 0))
    return [read, *left_out, ("kept", facts["kept"]["documents"], facts["kept"]["characters"])]


def _meaning(kind: str, settings: dict[str, Any]) -> str:
    """Return the name of a row of the table."""
    if kind in ("short", "long"):
        side, word = ("least", "fewer") if kind == "short" else ("most", "more")
        bounds = [
            f"{word} than {settings[f'{side}_{unit}']:,} {unit}"
            for unit in ("words", "characters")
            if settings[f"{side}_{unit}"]
        ]
        return " or ".join(bounds)
    return {
        "rejected": "cannot be used",
        "empty": "only white space",
        "language": f"in another language than {settings['language']}",
        "replaced": "replaced by a later PubMed record",
        "deleted": "deleted by PubMed",
        "repeated": "the same words as an earlier one",
        "nearly repeated": f"nearly the same as an earlier one ({settings['near']:g})",
    }[kind]
