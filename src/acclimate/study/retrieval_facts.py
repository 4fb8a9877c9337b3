"""Counts and examples of a retrieval, for `facts.json` and the page."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from acclimate.core.types import Watch, counted
from acclimate.study.left_out import SOURCES, LeftOut
from acclimate.study.sections import DocumentShown, QueryShown
from acclimate.study.typeset import beginning
from acclimate.text.corpus import Corpus
from acclimate.text.retrieval import Index
from acclimate.text.selection import Selection
from acclimate.text.shards import Shards

SEQUENCE = 128  # tokens of a training sequence of TLM
EXAMPLES = 4
BROUGHT = 3  # documents of a query that a race shows
_QUERY, _PASSAGE = 400, 600  # characters shown


def of_corpus(corpus: Corpus, left_out: LeftOut) -> dict[str, Any]:
    """corpus, left_out, leaks and sources: what does not depend on any query."""
    found = left_out.facts
    return {
        "corpus": {"documents": len(corpus), "characters": corpus.characters, "hash": corpus.hash},
        "left_out": {name: found[name] for name in ("leaking", "passages", "copies")},
        "leaks": found["leaks"],
        "sources": found["sources"],
    }


def of_queries(selection: Selection) -> dict[str, int]:
    """queries; unhit: those of which the corpus has no word; short: those that brought fewer than k documents."""
    short = int(np.count_nonzero(selection.counts() < selection.k))
    return {"queries": selection.queries, "unhit": selection.unhit, "short": short}


def of_documents(selection: Selection, corpus: Corpus, watch: Watch) -> dict[str, Any]:
    """Counts of what was retrieved. corpus: the documents of the selection.

    long     documents of more than SEQUENCE words
    beyond   words after the first SEQUENCE of a document
    """
    sources: Counter[str] = Counter()
    words = long = beyond = 0
    for document in counted(corpus.documents(), watch, "counting", total=len(corpus)):
        count = len(document.text.split())
        sources[document.source] += 1
        words, long, beyond = words + count, long + (count > SEQUENCE), beyond + max(0, count - SEQUENCE)
    counts = {
        "documents": len(selection),
        "rows": int(selection.counts().sum()),
        "similar": selection.similar,
        "characters": corpus.characters,
        "words": words,
        "long": long,
        "beyond": beyond,
    }
    return {"selection": counts, "retrieved_sources": dict(sources.most_common(SOURCES))}


def examples(selection: Selection, corpus: Corpus, index: Index | Shards) -> list[dict[str, Any]]:
    """The best document of a few queries, with the words that they share; of a random selection the first documents.

    corpus: the one that was searched.
    """
    if selection.how == "random":
        first = selection.documents[:EXAMPLES]
        passages = zip(first.tolist(), selection.ranks[:EXAMPLES].tolist(), corpus.take(first), strict=True)
        return [_example(document.id, document.source, document.text, rank) for _, rank, document in passages]
    asking = np.flatnonzero(selection.counts())
    found = []
    for query in asking[np.linspace(0, len(asking) - 1, min(EXAMPLES, len(asking))).astype(int)].tolist():
        documents, ranks, scores = selection.of(query)
        [document] = corpus.take(documents[:1])
        name, text = selection.query(query)
        terms = [[word, round(part, 3)] for word, part in index.explain(text, int(documents[0]))]
        asked = {"query_id": name, "query": beginning(text, _QUERY), "score": float(scores[0]), "terms": terms}
        found.append(_example(document.id, document.source, document.text, int(ranks[0])) | asked)
    return found


def shown(selection: Selection, corpus: Corpus, index: Index | Shards) -> list[QueryShown]:
    """A few queries with the best of what each brought, in full; nothing of a random selection.

    corpus: the one that was searched.
    """
    if selection.how == "random":
        return []
    asking = np.flatnonzero(selection.counts())
    found = []
    for query in asking[np.linspace(0, len(asking) - 1, min(EXAMPLES, len(asking))).astype(int)].tolist():
        name, text = selection.query(query)
        numbers, ranks, scores = (values[:BROUGHT].tolist() for values in selection.of(query))
        documents = zip(corpus.take(numbers), numbers, ranks, scores, strict=True)
        brought = [
            DocumentShown(own.id, own.source, own.text, rank, score, index.explain(text, number))
            for own, number, rank, score in documents
        ]
        found.append(QueryShown(name, text, brought))
    return found


def _example(id: str, source: str, text: str, rank: int) -> dict[str, Any]:
    return {"document_id": id, "source": source, "passage": beginning(text, _PASSAGE), "rank": rank}
