"""Exact BM25 search over a corpus, for thousands of long queries at a time.

A document's score is the sum, over the different words of the query that it has, of

    count in the query * idf * tf / (tf + k1 * (1 - b + b * length / average length))
    idf = ln(1 + (N - n + .5) / (n + .5))        N documents, n of which have the word

as Lucene has it (BM25Similarity since release 8: no factor k1 + 1), in float64, word by word in the order in which
they first occur in the query, then rounded to float32. Order: score falling, then document number. Hence the same
result, bit by bit, on every run, with every number of threads and of shards.

Sources: Robertson and Zaragoza, The probabilistic relevance framework: BM25 and beyond (2009); Turtle and Flood, Query
evaluation: strategies and optimizations (1995), for upper bounds (MaxScore).
"""

from __future__ import annotations

import fcntl
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from acclimate.core.files import DamagedError, new_directory, write_json
from acclimate.core.threads import processors
from acclimate.core.types import Watch, unwatched
from acclimate.text.retrieval_analysis import UNICODE, check_analyzer
from acclimate.text.retrieval_files import FACTS, VERSION, UnreadableError, checked_facts
from acclimate.text.retrieval_hits import MOST, Effort, Hits, Statistics, merge
from acclimate.text.retrieval_index import Index

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MOST", "Effort", "Hits", "Index", "Statistics", "Texts", "build_index", "merge", "open_index"]
_HASHED = 1 << 30  # bytes


class Texts(Protocol):
    """What is indexed: a corpus, or a run of its documents. hash: 64 hex digits that tell it from all others."""

    @property
    def hash(self) -> str: ...
    def texts(self) -> Iterator[pa.StringArray]: ...
    def __len__(self) -> int: ...


def build_index(
    corpus: Texts,
    path: Path,
    *,
    k1: float = 1.2,
    b: float = 0.75,
    analyzer: str = "words",
    threads: int | None = None,
    watch: Watch = unwatched,
) -> Index:
    """Write the index of the corpus to `path`, or open the one that is there if it is whole and the same.

    Several processes may ask at once: one builds and the others wait. A build that was killed leaves nothing that is
    taken for an index. A damaged one, and one that this release does not read, are replaced. Memory: `retrieval_build`.
    Raises ValueError where `path` holds anything else, or a setting is out of range.
    """
    check_formula(k1, b)
    check_analyzer(analyzer)
    if len(corpus) >= 1 << 32:
        raise ValueError(f"{len(corpus):,} documents: an index numbers at most 2^32 - 1. Cut the corpus into shards")
    path = Path(path)
    wanted = {"corpus": corpus.hash, "analyzer": analyzer, "k1": float(k1), "b": float(b)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(f".{path.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        facts = _facts_of(path, wanted)
        if facts is None:
            from acclimate.text.retrieval_build import write_index

            given: dict[str, Any] = {"threads": threads or processors(), "watch": watch, "total": len(corpus)}
            with new_directory(path) as directory:
                sizes = write_index(corpus.texts(), directory, analyzer, float(k1), float(b), **given)
                facts = {"version": VERSION, "unicode": UNICODE, **wanted, **sizes}
                write_json(directory / FACTS, facts)
    return _opened(path, facts)


def check_formula(k1: float, b: float) -> None:
    """Raises ValueError where BM25 is not defined. k1 = 0: a word counts once, however often a document has it."""
    if not (0 <= k1 < math.inf and 0 <= b <= 1):
        raise ValueError(f"k1 = {k1} and b = {b}: k1 must be 0 or more and b between 0 and 1. 1.2 and .75 are usual")


def _facts_of(path: Path, wanted: dict[str, Any]) -> dict[str, Any] | None:
    """Of the index at the path; None where there is none, or none to be read. Raises ValueError for anything else."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return None
    if not (path / FACTS).is_file():
        raise ValueError(f"{path} is there and holds no index: it has no {FACTS}. Name another path, or remove it")
    try:
        found = checked_facts(path, _HASHED)
    except (DamagedError, UnreadableError):
        return None
    different = [f"{name} {found[name]} instead of {value}" for name, value in wanted.items() if found[name] != value]
    if different:
        raise ValueError(f"{path} holds another index: {', '.join(different)}. Name another path, or remove it")
    return found


def open_index(path: Path, *, hashed: int = _HASHED) -> Index:
    """The index at the path.

    Every file's size is checked, and the SHA-256 of those that fit into `hashed` bytes together, small ones first: a
    gigabyte by default, for half a second to a second; larger files are taken at their size.
    Raises DamagedError where a file is not the one written, ValueError where there is no index or one that this
    release, or this Python's Unicode, does not read.
    """
    path = Path(path)
    if not (path / FACTS).is_file():
        raise ValueError(f"{path} holds no index: it has no {FACTS}. Make one with build_index")
    return _opened(path, checked_facts(path, hashed))


def _opened(path: Path, facts: dict[str, Any]) -> Index:
    names = ("corpus", "documents", "tokens", "words", "analyzer", "k1", "b")
    return Index(path, **{name: facts[name] for name in names})
