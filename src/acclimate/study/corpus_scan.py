"""A corpus read once from end to end: its size, its copies, a sample of it, and what it holds of the sealed items.

Memory: eight bytes a document for the copies, the sample, and what the search reads ahead.
"""

from __future__ import annotations

import random
import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from acclimate.core.types import Document, Rejected, Watch, counted
from acclimate.study.examination import CorpusFacts, Finding
from acclimate.study.leaks import Found
from acclimate.study.lengths import Text
from acclimate.study.materials import prepared
from acclimate.study.sealed import Sealed
from acclimate.study.typeset import amount
from acclimate.text.corpus import Corpus
from acclimate.text.documents import Documents, read_documents

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

    A document that leaks is told by its number in the order of `documents_of`, from 1 on: ids need not be unique.
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
        """The documents that hold any text, each with its number among all, from 1 on."""
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
        """Documents whose very text came before."""
        hashes = np.array(self._hashes, dtype=np.int64)
        return len(hashes) - len(np.unique(hashes))
