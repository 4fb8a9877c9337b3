"""Documents that nobody may retrieve, found in one pass over the corpus: those with a dev or test text, and copies.

What counts as holding a text is the race's rule (study/sealed.py): the same words, a near-duplicate, or at least half
of the text's runs of 13 words. A copy is a document with the same words as one before it in the corpus, of which BM25
says the same whatever the query: the first stands for all.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from acclimate.core import files
from acclimate.core.types import Document, Watch, counted
from acclimate.study.leaks import Found
from acclimate.study.sealed import Sealed, kind_of
from acclimate.text.corpus import Corpus
from acclimate.text.overlap import text_hashes

FACTS = "left-out.json"
_LEAKING, _COPIES = "leaking.npy", "copies.npy"
_BATCH = 500  # documents that are hashed at a time
SOURCES = 1000  # told by name; a corpus may have one for each document


@dataclass(frozen=True)
class LeftOut:
    """The folder that `leave_out` wrote.

    facts   documents, leaking, passages (documents that hold a part of a sealed text), copies; leaks, as in
            study/examination.py; sources: documents of each
    """

    path: Path

    @cached_property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = files.read_json(self.path / FACTS)
        return found

    def mask(self, *, copies: bool) -> np.ndarray:
        """(documents,) bool: those that nobody may retrieve, copies among them or not."""
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
    tally, found = _Tally(), Found("general", sealed)
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


class _Tally:
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
    """As `Sealed.in_documents` where nothing is sealed."""
    return ((name, text, []) for name, text in texts)
