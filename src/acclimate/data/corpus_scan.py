"""Read a corpus once: its size, its copies, a sample of it, and the sealed items (dev and test) that it contains.

`scan_corpus` serves the doctor. `leave_out` finds the documents that retrieval must leave out: those that leak a dev or
test text (data/leaks.py), and copies: documents with the same words as an earlier one, which BM25 always scores alike.
Memory: eight bytes a document for the copies, the sample, and the texts that the search
reads ahead, and a text of each dev or test item that is found. `leave_out` reads
the parts of a corpus in shards one by one, or each as a task of a cluster (core/machines.py).
"""

from __future__ import annotations

import dataclasses
import random
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from acclimate.core import files
from acclimate.core.machines import Pool, SerialPool
from acclimate.core.types import Document, Progress, Rejected, Watch, counted, unwatched
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
        text = f"The {name} corpus cannot be read: {error}"
        findings.append(Finding("error", text, "Correct the file or remove it."))
    file = corpus.path.name
    facts = CorpusFacts(name, file, tally.documents, tally.characters, tally.copies(), tally.empty, rejections)
    if not findings and facts.documents == facts.empty:
        findings.append(Finding("error", f"The {name} corpus {file} contains no text.", "Name another file or folder."))
    if unread:
        endings = Counter(path.suffix or path.name for path in unread).most_common(8)
        listed = ", ".join(f"{ending} ({count:,})" for ending, count in endings) + ", ..." * (len(endings) == 8)
        text = f"{amount(len(unread), 'file')} of the {name} corpus not read because of their endings: {listed}."
        way_out = "Convert them to .txt or .jsonl, or leave them out of the folder."
        findings.append(Finding("warning", text, way_out))
    more = "At least " if rejections > len(rejected) else ""
    for why, count, places in grouped(rejected):
        text = f"{more}{amount(count, 'document')} of the {name} corpus not read: {why} ({places})."
        findings.append(Finding("note", text, "Correct them or remove them."))
    if facts.copies >= 0.01 * max(facts.documents, 1):
        part = f"{facts.copies:,} of the {facts.documents:,} documents of the {name} corpus"
        text = f"{part} ({facts.copies / facts.documents:.1%}) are copies of earlier documents."
        findings.append(Finding("note", text, "Remove the copies, because a model memorises repeated texts."))
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


def leave_out(
    corpus: Corpus,
    sealed: Sealed,
    path: Path,
    *,
    passages: bool,
    shards: int = 1,
    pool: Pool | None = None,
    watch: Watch = unwatched,
) -> LeftOut:
    """Read the corpus once, or open the result of an earlier call.

    passages  True to leave out documents that share only some runs of 13 words with a sealed text too
    shards    parts of the corpus, which `pool` reads. The documents to leave out do not depend on them; of a document
              that holds more sealed items than a search reports, other items may be counted.
    """
    if (path / files.MANIFEST).is_file():
        files.check_manifest(path)
        return LeftOut(path)
    pool, shards = pool or SerialPool(), min(shards, max(len(corpus), 1))
    begins = [len(corpus) * number // shards for number in range(shards + 1)]
    place = corpus.path.resolve()
    parts = [
        _Part(number, place, sealed, first, last, passages) for number, (first, last) in enumerate(pairwise(begins))
    ]
    source_leaks, sources, hashes, leaking, holding = SourceLeaks("general", sealed), Counter[str](), [], [], 0

    def read_here(part: _Part) -> _Read:
        return _read_part(part, lambda step: watch(replace(step, done=part.first + step.done, total=len(corpus))))

    read_part = read_here if isinstance(pool, SerialPool) else _read_part
    for read in pool.map(read_part, parts, home=lambda part: part.number):
        source_leaks.add(SourceLeaks(sealed=sealed, **read.leaks))
        sources += read.sources
        hashes.append(read.hashes)
        leaking += read.leaking
        holding += read.holding
        watch(Progress("examining", parts[len(hashes) - 1].last, len(corpus), "documents"))
    copies = _repeated(np.concatenate(hashes))
    facts = {
        "documents": len(corpus),
        "leaking": len(leaking),
        "passages": holding,
        "copies": len(np.setdiff1d(copies, leaking)),
        "leaks": [dataclasses.asdict(leak) for leak in source_leaks.leaks()],
        "sources": dict(sources.most_common(SOURCES)),
    }
    with files.new_directory(path) as directory:
        np.save(directory / _LEAKING, np.array(leaking, np.int64), allow_pickle=False)
        np.save(directory / _COPIES, copies, allow_pickle=False)
        files.write_json(directory / FACTS, facts)
    return LeftOut(path)


@dataclass(frozen=True)
class _Part:
    """Documents `first` to `last` - 1 of a corpus, to be read by one call. passages: as in `leave_out`"""

    number: int
    corpus: Path
    sealed: Sealed
    first: int
    last: int
    passages: bool


@dataclass(frozen=True)
class _Read:
    """What was found in a part.

    hashes   (documents,) uint64 of the words of each document; 0 without words
    leaks    the fields of a SourceLeaks, without the sealed items
    leaking  numbers, from 0, of the documents to leave out; holding: number of documents with passages only
    """

    hashes: np.ndarray
    sources: Counter[str]
    leaks: dict[str, Any]
    leaking: list[int]
    holding: int


def _read_part(part: _Part, watch: Watch = unwatched) -> _Read:
    """Memory: eight bytes a document, the names of sources, and an example of each sealed item that is found."""
    hashes, sources, leaking, holding = [np.zeros(0, np.uint64)], Counter[str](), [], 0
    source_leaks = SourceLeaks("general", part.sealed)

    def documents() -> Iterator[tuple[str, str]]:
        """Yield "number id", with numbers from 1, and the text of each document."""
        read = Corpus(part.corpus).documents(part.first, part.last)
        numbered = enumerate(counted(read, watch, "examining", total=part.last - part.first), part.first + 1)
        while batch := list(islice(numbered, _BATCH)):
            hashes.append(text_hashes([document.text for _, document in batch]))
            sources.update(document.source for _, document in batch)
            yield from ((f"{number} {document.id}", document.text) for number, document in batch)

    texts = documents()
    matched = part.sealed.match_documents(texts) if part.sealed.items else ((*item, []) for item in texts)
    for name, text, matches in matched:
        if matches:
            number, _, document = name.partition(" ")
            source_leaks.take(document, text, matches, number=int(number))
            leaks = any(leak_kind(match) != "passage" for match in matches)
            holding += not leaks
            if leaks or part.passages:
                leaking.append(int(number) - 1)
    counts = {name: value for name, value in vars(source_leaks).items() if name != "sealed"}
    return _Read(np.concatenate(hashes), sources, counts, leaking, holding)


def _repeated(hashes: np.ndarray) -> np.ndarray:
    """Return the numbers, from 0, of documents with the words of an earlier one; empty texts do not count."""
    again = hashes != 0
    again[np.unique(hashes, return_index=True)[1]] = False
    return np.flatnonzero(again)
