"""A corpus read once from end to end: its size, its copies, a sample of it, and what it holds of the sealed items.

Memory: eight bytes a document for the copies, the sample, and what the search reads ahead.
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
from typing import Any, Literal

import numpy as np

from acclimate.core import files
from acclimate.core.types import Document, Rejected, Watch, counted
from acclimate.data.examination import CorpusFacts, Finding
from acclimate.data.leaks import Found, Sealed, kind_of
from acclimate.data.lengths import Text
from acclimate.data.materials import prepared
from acclimate.reports.page import amount
from acclimate.text.corpus import Corpus
from acclimate.text.documents import Documents, read_documents
from acclimate.text.overlap.references import text_hashes

SAMPLE = 500  # documents
PLACES = 3  # shown of the rows that were rejected for one reason
BEGINNING = 2_000  # characters kept of a sampled one


@dataclass(frozen=True)
class Scanned:
    """What one pass over a corpus brought."""

    facts: CorpusFacts
    found: Found
    sample: list[Text]
    findings: list[Finding]


def scan(
    name: str, path: Path, sealed: Sealed, *, separated: Literal["line", "blank"], watch: Watch, seed: int = 0
) -> Scanned:
    """One pass over the corpus at `path`: raw text, or a folder made by write_corpus.

    A document that leaks is named by its number in the order of `documents_of`, from 1 on: ids need not be unique.
    What cannot be read is an error among the findings, and the figures are those of what came before it.
    """
    tally = _Tally(random.Random(seed))
    found = Found(name, sealed)
    findings = []
    rejected: list[Rejected] = []
    rejections = 0
    try:
        read = documents_of(path, separated=separated)
        documents = counted(read, watch, f"examining {name}")
        texts = ((f"{number} {each.id}", each.text) for number, each in tally.watched(documents))
        for marked, text, matches in sealed.in_documents(texts):
            if matches:
                number, _, document = marked.partition(" ")
                found.take(document, text, matches, number=int(number))
        if isinstance(read, Documents):
            rejected, rejections = read.rejected, read.rejections
    except (ValueError, OSError) as error:
        findings.append(
            Finding("error", f"The {name} corpus cannot be read: {error}", "Mend the file or leave it out.")
        )
    facts = CorpusFacts(name, path.name, tally.documents, tally.characters, tally.copies(), tally.empty, rejections)
    if not findings and facts.documents == facts.empty:
        findings.append(
            Finding("error", f"The {name} corpus {path.name} holds no text.", "Name another file or folder.")
        )
    more = "At least " if rejections > len(rejected) else ""
    findings += [
        Finding(
            "note",
            f"{more}{amount(count, 'document')} of the {name} corpus left out: {why} ({places}).",
            "Correct them or leave them out.",
        )
        for why, count, places in grouped(rejected)
    ]
    if facts.copies >= 0.01 * max(facts.documents, 1):
        findings.append(
            Finding(
                "note",
                f"{facts.copies:,} of the {facts.documents:,} documents of the {name} corpus "
                f"({facts.copies / facts.documents:.1%}) are copies of one before.",
                "Leave them out: what is met often is learnt by heart.",
            )
        )
    return Scanned(facts, found, [(text[:BEGINNING], None) for text in tally.sample], findings)


def documents_of(path: Path, *, separated: Literal["line", "blank"]) -> Iterator[Document]:
    """The documents of raw text, or of a corpus that was made before: the same ones in the same order at each call."""
    path = prepared(path)
    if (path / "corpus.json").exists():
        return Corpus(path).documents()
    return read_documents(path, separated=separated)


def grouped(rejected: Iterable[Rejected]) -> tuple[tuple[str, int, str], ...]:
    """Rejections by their reason, values and numbers in it left aside: (the first's reason, how many, first places).

    Frequent ones first.
    """
    alike: dict[str, list[Rejected]] = {}
    for row in rejected:
        alike.setdefault(re.sub(r"'[^']*'|\"[^\"]*\"|\d[\d,.]*", "...", row.reason), []).append(row)
    return tuple(
        (rows[0].reason, len(rows), ", ".join(row.place for row in rows[:PLACES]) + ", ..." * (len(rows) > PLACES))
        for rows in sorted(alike.values(), key=len, reverse=True)
    )


class _Tally:
    """Counts of the documents that pass, and a sample in which each has the same chance."""

    def __init__(self, generator: random.Random) -> None:
        self.documents = self.characters = self.empty = 0
        self.sample: list[str] = []
        self._hashes = array("q")
        self._generator = generator

    def watched(self, documents: Iterator[Document]) -> Iterator[tuple[int, Document]]:
        """Yield the documents that hold any text, each with its number among all, from 1 on."""
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
        """Return documents whose very text came before."""
        hashes = np.array(self._hashes, dtype=np.int64)
        return len(hashes) - len(np.unique(hashes))


# Documents that are left out of retrieval, found in one pass: copies, and those with a dev or test text.
#
# A document contains a text by the race's rule (data/leaks.py): the same words, a near-duplicate, or at least half of
# the text's runs of 13 words. A copy is a document with the same words as one before it in the corpus, of which BM25
# says the same whatever the query: the first stands for all.

FACTS = "left-out.json"
_LEAKING, _COPIES = "leaking.npy", "copies.npy"
_BATCH = 500  # documents that are hashed at a time
SOURCES = 1000  # told by name; a corpus may have one for each document


@dataclass(frozen=True)
class LeftOut:
    """The folder that `leave_out` wrote.

    facts   documents, leaking, passages (documents that hold a part of a sealed text), copies; leaks, as in
            data/examination.py; sources: documents of each
    """

    path: Path

    @cached_property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = files.read_json(self.path / FACTS)
        return found

    def mask(self, *, copies: bool) -> np.ndarray:
        """(documents,) bool: those that are left out of retrieval, copies among them or not."""
        mask = np.zeros(self.facts["documents"], bool)
        mask[np.load(self.path / _LEAKING)] = True
        if copies:
            mask[np.load(self.path / _COPIES)] = True
        return mask


def leave_out(corpus: Corpus, sealed: Sealed, path: Path, *, passages: bool, watch: Watch) -> LeftOut:
    """Look through the corpus once, or open what an earlier call wrote.

    passages: whether a document that holds a part of a sealed text only, one run of 13 words, is left out as well.
    """
    if (path / files.MANIFEST).is_file():
        files.check(path)
        return LeftOut(path)
    tally, found = _LeftOutTally(), Found("general", sealed)
    leaking = []
    holding = 0  # passages only
    documents = tally.watched(counted(corpus.documents(), watch, "examining", total=len(corpus)))
    for name, text, matches in sealed.in_documents(documents) if sealed.items else _unread(documents):
        if matches:
            number, _, document = name.partition(" ")
            found.take(document, text, matches, number=int(number))
            leaks = any(kind_of(match) != "passage" for match in matches)
            holding += not leaks
            if leaks or passages:
                leaking.append(int(number) - 1)
    copies = tally.copies()
    facts = {
        "documents": tally.documents,
        "leaking": len(leaking),
        "passages": holding,
        "copies": len(np.setdiff1d(copies, leaking)),
        "leaks": [dataclasses.asdict(leak) for leak in found.leaks()],
        "sources": dict(tally.sources.most_common(SOURCES)),
    }
    with files.new_directory(path) as directory:
        np.save(directory / _LEAKING, np.array(leaking, np.int64), allow_pickle=False)
        np.save(directory / _COPIES, copies, allow_pickle=False)
        files.write_json(directory / FACTS, facts)
    return LeftOut(path)


class _LeftOutTally:
    """Counts of the documents that pass. Memory: eight bytes a document, and the names of the sources."""

    def __init__(self) -> None:
        self.documents = 0
        self.sources: Counter[str] = Counter()
        self._hashes: list[np.ndarray] = []

    def watched(self, documents: Iterable[Document]) -> Iterator[tuple[str, str]]:
        """Number (from 1) and id in one, and the text, of each."""
        documents = iter(documents)
        while batch := list(islice(documents, _BATCH)):
            self._hashes.append(text_hashes([document.text for document in batch]))
            for document in batch:
                self.documents += 1
                self.sources[document.source] += 1
                yield f"{self.documents} {document.id}", document.text

    def copies(self) -> np.ndarray:
        """Numbers, from 0, of the documents whose words came before. One without any word is a copy of none."""
        hashes = np.concatenate([np.zeros(0, np.uint64), *self._hashes])
        again = hashes != 0
        again[np.unique(hashes, return_index=True)[1]] = False
        return np.flatnonzero(again)


def _unread(texts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, list[Any]]]:
    """Yield what `Sealed.in_documents` does if nothing is sealed."""
    return ((name, text, []) for name, text in texts)
