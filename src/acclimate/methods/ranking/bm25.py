"""BM25, the baseline of a search task: documents by the words that they share with the query.

Robertson et al. (1994), with Lucene's formula and defaults, k1 = 1.2 and b = .75 (text/bm25). It learns nothing from
training queries, and dev chooses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar

from acclimate.core.types import Example, Label, Split, Watch, unwatched
from acclimate.tasks.metrics import RANKED
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.task import Kind

if TYPE_CHECKING:
    import pyarrow as pa

BM25 = "BM25"


@dataclass(frozen=True)
class Bm25:
    """The settings of BM25. It has no weights: an index of the documents is built for each ranking."""

    k1: float = 1.2
    b: float = 0.75
    kind: ClassVar[Kind] = "search"
    labels: ClassVar[tuple[str, ...]] = ()

    def rankings(self, task: Prepared, split: Split, *, watch: Watch = unwatched) -> list[Label]:
        """Return for each query of dev or test the ids of the first RANKED documents that share a word with it."""
        from acclimate.text.bm25.build import build_index  # loads numba

        documents, queries = task.examples("train"), task.examples(split)
        with TemporaryDirectory(prefix="acclimate-") as place:
            texts = _Texts(task.hashes["train"], documents)
            index = build_index(texts, Path(place) / "index", k1=self.k1, b=self.b, watch=watch)
            hits = index.search([query.text for query in queries], RANKED + 1, watch=watch)
        return [without_itself(query, documents, hits.documents_for(number)[0]) for number, query in enumerate(queries)]


def without_itself(query: Example, documents: Sequence[Example], places: Iterable[int]) -> tuple[str, ...]:
    """Return the ids of the first RANKED of the documents at these places, without the query itself."""
    ids = []
    for document in (documents[place] for place in places):
        if document.id != query.id or not document.text.endswith(query.text):
            ids.append(document.id)
    return tuple(ids[:RANKED])


@dataclass(frozen=True)
class _Texts:
    hash: str
    documents: Sequence[Example]

    def texts(self) -> Iterator[pa.StringArray]:
        import pyarrow as pa

        yield pa.array([document.text for document in self.documents], pa.string())

    def __len__(self) -> int:
        return len(self.documents)
