"""How a selection (text/selection.py) is made: by searching for queries, or at random as their control."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from acclimate.core.files import new_directory
from acclimate.core.types import Progress, Watch, unwatched
from acclimate.text.retrieval_hits import MOST, check_k
from acclimate.text.selection import Selection, open_selection
from acclimate.text.selection_files import RANK, ROWS, Query, Rows, finish, write_facts, write_queries

if TYPE_CHECKING:
    from acclimate.text.retrieval import Index
    from acclimate.text.shards import Shards

BATCH = 256  # queries that are searched for at a time
_UNSEEN = np.iinfo(RANK).max

Dropping = Callable[[np.ndarray], np.ndarray]  # documents in their order -> (D,) bool, each told by those before it


def select(
    index: Index | Shards,
    queries: Sequence[Query],
    path: Path,
    *,
    k: int,
    left_out: np.ndarray | None = None,
    dropping: Dropping | None = None,
    threads: int | None = None,
    watch: Watch = unwatched,
) -> Selection:
    """Search for all queries and write the union of their best k documents, with the rank and score of each.

    left_out   (documents of the corpus,) bool: those that are treated as if the corpus did not have them; the ranks
               are given to the others. Where so many are left out that a query's first 10,000 hits hold fewer than k
               others, it brings fewer
    dropping   says of the union's documents, in their order, which to drop; the ranks stay as they are

    Memory: three bytes a document of the corpus, and the hits of BATCH queries. Raises ValueError for a k out of 1 to
    10,000, and where no query hits anything.
    """
    check_k(k)
    if index.documents > np.iinfo(ROWS["documents"]).max:
        raise ValueError(f"a selection numbers at most 2^32 documents, but the corpus has {index.documents:,}: cut it")
    skipped = np.zeros(index.documents, bool) if left_out is None else left_out
    assert len(skipped) == index.documents
    best = np.full(index.documents, _UNSEEN, RANK)
    facts = {"how": "bm25", "k": k, "corpus": index.corpus, "queries": len(queries)}
    with new_directory(path) as directory:
        raw = directory / "raw" if dropping else directory
        raw.mkdir(exist_ok=True)
        unhit = 0
        with Rows(raw) as rows:
            for begin in range(0, len(queries), BATCH):
                texts = [text for _, text in queries[begin : begin + BATCH]]
                watch(Progress("retrieving", begin, len(queries), "queries"))
                for documents, scores, hit in _best(index, texts, k, skipped, threads):
                    ranks = np.arange(1, len(documents) + 1, dtype=RANK)
                    best[documents] = np.minimum(best[documents], ranks)
                    rows.add(documents, ranks, scores)
                    unhit += not hit
            watch(Progress("retrieving", len(queries), len(queries), "queries"))
        documents = np.flatnonzero(best < _UNSEEN)
        documents = documents[np.argsort(best[documents], kind="stable")]
        if not len(documents):
            what = "no word of them occurs in the corpus" if unhit == len(queries) else "all that they hit was left out"
            raise ValueError(
                f"the {len(queries):,} queries retrieve nothing: {what}. Give other queries or another corpus"
            )
        write_queries(directory, queries)
        facts["unhit"] = unhit
        if dropping is None:
            none = np.empty(0, RANK)
            finish(directory, rows, facts, documents=documents, ranks=best[documents], similar=none)
        else:
            _drop(directory, raw, facts, documents=documents, best=best, dropped=dropping(documents))
    return open_selection(path)


def draw(
    like: Selection,
    documents: int,
    path: Path,
    *,
    seed: int,
    left_out: np.ndarray | None = None,
    dropping: Dropping | None = None,
) -> Selection:
    """As many documents as `like` has, drawn uniformly and without regard to any query: its random control.

    documents   of the corpus; left_out and dropping are as in `select`

    The i-th document drawn bears the rank of the i-th of `like`, so that a cut has the size that a cut of `like` has.
    Raises ValueError where fewer documents are left than `like` has.
    """
    eligible = np.arange(documents) if left_out is None else np.flatnonzero(~left_out)
    order = np.random.default_rng(seed).permutation(eligible)
    wanted = looked = len(like)
    while True:
        candidates = order[:looked]
        flags = dropping(candidates) if dropping else np.zeros(len(candidates), bool)
        lacking = wanted - int(np.count_nonzero(~flags))
        if lacking <= 0 or looked >= len(order):
            break
        looked += 2 * lacking
    drawn = candidates[~flags][:wanted]
    if len(drawn) < wanted:
        raise ValueError(
            f"a random selection of {wanted:,} documents cannot be drawn: only {len(drawn):,} are left. Lower k"
        )
    before = np.cumsum(~flags)[flags]  # documents that had been kept when one was dropped
    dropped = like.ranks[before[before < wanted]]
    facts = {"how": "random", "k": like.k, "corpus": like.corpus, "queries": 0, "unhit": 0}
    with new_directory(path) as directory:
        with Rows(directory) as rows:
            pass
        write_queries(directory, [])
        finish(directory, rows, facts, documents=drawn, ranks=like.ranks, similar=dropped)
    return open_selection(path)


def _best(
    index: Index | Shards, texts: Sequence[str], k: int, skipped: np.ndarray, threads: int | None
) -> list[tuple[np.ndarray, np.ndarray, bool]]:
    """Documents and scores of each text's best k that are not skipped, and whether it hit anything at all.

    More than k are asked for, and twice as many again of the texts for which that was too few.
    """
    most = min(MOST, index.documents)
    asked = min(most, k + min(int(skipped.sum()), max(8, k // 8)))
    found: dict[int, tuple[np.ndarray, np.ndarray, bool]] = {}
    pending = list(range(len(texts)))
    while pending:
        hits = index.search([texts[place] for place in pending], asked, threads=threads)
        short = []
        for number, place in enumerate(pending):
            documents, scores = hits.of(number)
            kept = np.flatnonzero(~skipped[documents])[:k]
            found[place] = documents[kept].astype(np.int64), scores[kept], len(documents) > 0
            if len(kept) < k and len(documents) == asked < most:
                short.append(place)
        pending, asked = short, min(most, 2 * asked)
    return [found[place] for place in range(len(texts))]


def _drop(
    directory: Path,
    raw: Path,
    facts: dict[str, Any],
    *,
    documents: np.ndarray,
    best: np.ndarray,
    dropped: np.ndarray,
) -> None:
    """The selection in `raw` written to `directory` without the dropped documents."""
    gone = np.zeros(len(best), bool)
    gone[documents[dropped]] = True
    write_facts(raw, {**facts, "rows": (raw / "rows.documents.bin").stat().st_size // ROWS["documents"].itemsize})
    with Rows(directory) as rows:
        for columns, offsets in Selection(raw, facts["k"]).blocks():
            rows.add_some(columns, ~gone[columns["documents"]], offsets)
    shutil.rmtree(raw)
    kept = documents[~dropped]
    similar = best[documents[dropped]]
    finish(directory, rows, facts, documents=kept, ranks=best[kept], similar=similar)
