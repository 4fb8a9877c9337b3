"""Read a corpus once: its size, its copies, a sample of it, and the sealed items (dev and test) that it contains.

`scan_corpus` serves the doctor. `leave_out` finds the documents that retrieval must leave out: those that leak a dev or
test text (data/leaks.py), and copies: documents with the same words as an earlier one, which BM25 always scores alike.
Memory: eight bytes a document for the copies, the sample, and the texts that the search reads ahead.
"""

from __future__ import annotations

import dataclasses
import random
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from acclimate.core import files
from acclimate.core.types import Document, Rejected, Watch, counted
from acclimate.data.examination import CorpusFacts, Finding
from acclimate.data.leaks import Sealed, SourceLeaks, leak_kind
from acclimate.data.lengths import TextOrPair
from acclimate.data.materials import RawText
from acclimate.reports.page import amount
from acclimate.text.corpus import Corpus
from acclimate.text.documents import Documents, unread_in
from acclimate.text.overlap.references import text_hashes

SAMPLE = 500  # documents
PLACES = 3  # listed of the documents that were rejected for one reason
BEGINNING = 2_000  # characters kept of a sampled document
SOURCES = 1000  # sources that are counted by name; every document may have a different one
FACTS = "left-out.json"
_LEAKING, _COPIES = "leaking.npy", "copies.npy"
_BATCH = 500  # documents that are hashed at a time


@dataclass(frozen=True)
class Scanned:
    """The result of one pass over a corpus."""

    facts: CorpusFacts
    leaks: SourceLeaks
    sample: list[TextOrPair]
    findings: list[Finding]


def scan_corpus(name: str, corpus: RawText, sealed: Sealed, *, watch: Watch, seed: int = 0) -> Scanned:
    """Read the corpus once.

    A document that leaks is named by its number in the corpus, from 1, because ids need not be unique. A file that
    cannot be read is an error among the findings; the figures are those of the documents before it.
    """
    tally = _Tally(random.Random(seed))
    source_leaks = SourceLeaks(name, sealed)
    findings = []
    rejected: list[Rejected] = []
    rejections = 0
    unread: list[Path] = []
    try:
        read = iter(corpus)
        documents = counted(read, watch, f"examining {name}")
        texts = ((f"{number} {document.id}", document.text) for number, document in tally.watched(documents))
        for marked, text, matches in sealed.match_documents(texts):
            if matches:
                number, _, document = marked.partition(" ")
                source_leaks.take(document, text, matches, number=int(number))
        if isinstance(read, Documents):
            rejected, rejections = read.rejected, read.rejections
            unread = unread_in(corpus.path) if corpus.path.is_dir() else []
    except (ValueError, OSError) as error:
        findings.append(
            Finding("error", f"The {name} corpus cannot be read: {error}", "Correct the file or remove it.")
        )
    file = corpus.path.name
    facts = CorpusFacts(name, file, tally.documents, tally.characters, tally.copies(), tally.empty, rejections)
    if not findings and facts.documents == facts.empty:
        findings.append(Finding("error", f"The {name} corpus {file} contains no text.", "Name another file or folder."))
    if unread:
        endings = Counter(path.suffix or path.name for path in unread).most_common(8)
        findings.append(
            Finding(
                "warning",
                f"{amount(len(unread), 'file')} of the {name} corpus not read because of their endings: "
                + ", ".join(f"{ending} ({count:,})" for ending, count in endings)
                + ", ..." * (len(endings) == 8)
                + ".",
                "Convert them to .txt or .jsonl, or leave them out of the folder.",
            )
        )
    more = "At least " if rejections > len(rejected) else ""
    findings += [
        Finding(
            "note",
            f"{more}{amount(count, 'document')} of the {name} corpus not read: {why} ({places}).",
            "Correct them or remove them.",
        )
        for why, count, places in grouped(rejected)
    ]
    if facts.copies >= 0.01 * max(facts.documents, 1):
        findings.append(
            Finding(
                "note",
                f"{facts.copies:,} of the {facts.documents:,} documents of the {name} corpus "
                f"({facts.copies / facts.documents:.1%}) are copies of earlier documents.",
                "Remove the copies, because a model memorises repeated texts.",
            )
        )
    return Scanned(facts, source_leaks, [(text[:BEGINNING], None) for text in tally.sample], findings)


def grouped(rejected: Iterable[Rejected]) -> tuple[tuple[str, int, str], ...]:
    """Group rejections by reason without its values: (first reason, count, first places), frequent ones first."""
    alike: dict[str, list[Rejected]] = {}
    for row in rejected:
        alike.setdefault(re.sub(r"'[^']*'|\"[^\"]*\"|\d[\d,.]*", "...", row.reason), []).append(row)
    return tuple(
        (rows[0].reason, len(rows), ", ".join(row.place for row in rows[:PLACES]) + ", ..." * (len(rows) > PLACES))
        for rows in sorted(alike.values(), key=len, reverse=True)
    )


class _Tally:
    """Counts documents and keeps a uniform sample of them (reservoir sampling)."""

    def __init__(self, generator: random.Random) -> None:
        self.documents = self.characters = self.empty = 0
        self.sample: list[str] = []
        self._hashes = array("q")
        self._generator = generator

    def watched(self, documents: Iterator[Document]) -> Iterator[tuple[int, Document]]:
        """Yield the documents with text, each with its number among all documents, from 1."""
        for document in documents:
            text = document.text
            self.documents += 1
            self.characters += len(text)
            if not text or text.isspace():
                self.empty += 1
                continue
            self._hashes.append(hash(text))  # 64 bits
            if len(self.sample) < SAMPLE:
                self.sample.append(text[:BEGINNING])
            elif (place := int(self._generator.random() * self.documents)) < SAMPLE:
                self.sample[place] = text[:BEGINNING]
            yield self.documents, document

    def copies(self) -> int:
        """Return the number of documents whose text is that of an earlier one."""
        hashes = np.array(self._hashes, dtype=np.int64)
        return len(hashes) - len(np.unique(hashes))


@dataclass(frozen=True)
class LeftOut:
    """The folder that `leave_out` wrote.

    facts   numbers of documents, leaking ones, passages (documents with a part of a sealed text only) and copies; leaks
            as in data/examination.py; sources: documents of each
    """

    path: Path

    @cached_property
    def facts(self) -> dict[str, Any]:
        files.check_manifest(self.path)
        facts: dict[str, Any] = files.read_json(self.path / FACTS)
        return facts

    def mask(self, *, copies: bool) -> np.ndarray:
        """Return (documents,) bool, True for documents to leave out of retrieval, with or without copies."""
        mask = np.zeros(self.facts["documents"], bool)
        mask[np.load(self.path / _LEAKING)] = True
        if copies:
            mask[np.load(self.path / _COPIES)] = True
        return mask


def leave_out(corpus: Corpus, sealed: Sealed, path: Path, *, passages: bool, watch: Watch) -> LeftOut:
    """Read the corpus once, or open the result of an earlier call.

    passages  True to leave out documents that share only some runs of 13 words with a sealed text too
    """
    if (path / files.MANIFEST).is_file():
        files.check_manifest(path)
        return LeftOut(path)
    tally, source_leaks = _LeftOutTally(), SourceLeaks("general", sealed)
    leaking = []
    holding = 0  # documents with passages only
    documents = tally.watched(counted(corpus.documents(), watch, "examining", total=len(corpus)))
    for name, text, matches in sealed.match_documents(documents) if sealed.items else _unread(documents):
        if matches:
            number, _, document = name.partition(" ")
            source_leaks.take(document, text, matches, number=int(number))
            leaks = any(leak_kind(match) != "passage" for match in matches)
            holding += not leaks
            if leaks or passages:
                leaking.append(int(number) - 1)
    copies = tally.copies()
    facts = {
        "documents": tally.documents,
        "leaking": len(leaking),
        "passages": holding,
        "copies": len(np.setdiff1d(copies, leaking)),
        "leaks": [dataclasses.asdict(leak) for leak in source_leaks.leaks()],
        "sources": dict(tally.sources.most_common(SOURCES)),
    }
    with files.new_directory(path) as directory:
        np.save(directory / _LEAKING, np.array(leaking, np.int64), allow_pickle=False)
        np.save(directory / _COPIES, copies, allow_pickle=False)
        files.write_json(directory / FACTS, facts)
    return LeftOut(path)


class _LeftOutTally:
    """Counts documents by source and finds copies. Memory: eight bytes a document, and the names of the sources."""

    def __init__(self) -> None:
        self.documents = 0
        self.sources: Counter[str] = Counter()
        self._hashes: list[np.ndarray] = []

    def watched(self, documents: Iterable[Document]) -> Iterator[tuple[str, str]]:
        """Yield "number id", with numbers from 1, and the text of each document."""
        documents = iter(documents)
        while batch := list(islice(documents, _BATCH)):
            self._hashes.append(text_hashes([document.text for document in batch]))
            for document in batch:
                self.documents += 1
                self.sources[document.source] += 1
                yield f"{self.documents} {document.id}", document.text

    def copies(self) -> np.ndarray:
        """Return the numbers, from 0, of documents with the words of an earlier one; empty texts do not count."""
        hashes = np.concatenate([np.zeros(0, np.uint64), *self._hashes])
        again = hashes != 0
        again[np.unique(hashes, return_index=True)[1]] = False
        return np.flatnonzero(again)


def _unread(texts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, list[Any]]]:
    """Yield what `Sealed.match_documents` yields if nothing is sealed."""
    return ((name, text, []) for name, text in texts)
