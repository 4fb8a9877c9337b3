"""A random walk over corpora, settings and queries: always what a scorer of all documents finds, bit by bit."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import pytest

from acclimate.core.types import Document
from acclimate.text.bm25.build import build_index
from acclimate.text.bm25.index import Index, merge
from acclimate.text.corpus import write_corpus
from exhaustive import Exhaustive

LETTERS = "abcdeABCDE0_éÉßẞΣσςİıΑαЖж日本ⅧK٣🙂\u0301\u0345"
BETWEEN = " ,.;-'’\n\t\x00\u00a0\u2003、²½🙂…"
KS = (1, 2, 3, 10, 49, 64, 65, 100, 999, 10_000)


@dataclass(frozen=True)
class Walk:
    """Where a walk is: what is searched, what for, and how."""

    texts: list[str]
    queries: list[str]
    k1: float
    b: float
    analyzer: str
    shards: int


def word(generator: random.Random, different: int, plain: bool) -> str:
    number = min(int(generator.expovariate(6 / different)), different)
    if plain:
        return f"w{number}"
    mine = random.Random(number)  # the same word for the same number, now and then in another case
    spelled = "".join(mine.choices(LETTERS, k=mine.randint(1, 6)))
    return generator.choice((spelled, spelled, spelled.upper(), spelled.lower()))


def text(generator: random.Random, words: int, different: int, plain: bool) -> str:
    between = " " if plain else BETWEEN
    return "".join(word(generator, different, plain) + generator.choice(between) for _ in range(words))


def step(seed: int) -> Walk:
    """Small corpora and large, of few different words and many, with texts without a word and with copies."""
    generator = random.Random(seed)
    count, different = generator.choice((1, 2, 15, 16, 17, 63, 64, 65, 300, 900)), generator.choice((1, 3, 30, 400))
    longest, plain = generator.choice((1, 5, 60)), generator.random() < 0.5
    texts = [text(generator, generator.randint(1, longest), different, plain) for _ in range(count)]
    for place in range(0, count, generator.choice((2, 5, 50))):
        texts[place] = generator.choice(("...", "\x00", texts[0], texts[-1], texts[0] * 20, "w0 " * 300))
    queries = [text(generator, generator.choice((1, 4, 40, 400)), different, plain) for _ in range(9)]
    queries += ["", " ", "unheard", texts[-1], f"{queries[0]} unheard " * 7, "w0 " * 5000]
    return Walk(
        texts,
        queries,
        k1=generator.choice((0, 1e-9, 0.4, 1.2, 2, 1e3, 1e30)),
        b=generator.choice((0, 1e-9, 0.3, 0.75, 1)),
        analyzer=generator.choice(("words", "cased")),
        shards=generator.choice((1, 2, 3, 7)),
    )


def built(texts: list[str], place, walk: Walk, threads: int) -> Index:
    corpus = write_corpus((Document(str(number), each) for number, each in enumerate(texts)), place / "corpus")
    return build_index(corpus, place / "index", k1=walk.k1, b=walk.b, analyzer=walk.analyzer, threads=threads)


@pytest.mark.parametrize("seed", range(16))
def test_what_is_found_is_what_an_exhaustive_scorer_finds(seed, tmp_path, monkeypatch, request):
    request.getfixturevalue("few" if seed % 2 else "many")
    monkeypatch.setattr("os.fsync", lambda handle: None)  # takes most of the time
    walk, generator = step(seed), random.Random(-seed - 1)
    shards = min(walk.shards, len(walk.texts))
    firsts = sorted({0, *generator.sample(range(1, len(walk.texts)), shards - 1)})
    parts = [
        built(walk.texts[first:last], tmp_path / str(first), walk, generator.choice((1, 3)))
        for first, last in zip(firsts, [*firsts[1:], len(walk.texts)], strict=True)
    ]
    authority = Exhaustive(walk.texts, walk.k1, walk.b, walk.analyzer)
    expected = [authority.search(query, max(KS)) for query in walk.queries]
    statistics = reduce(add, (part.statistics(walk.queries) for part in parts))
    for k in generator.sample(KS, 3):
        given = {"threads": generator.choice((1, 4)), "statistics": statistics if len(parts) > 1 else None}
        found = [part.search(walk.queries, k, first=first, **given) for part, first in zip(parts, firsts, strict=True)]
        hits = merge(found, k)
        for query, whole in enumerate(expected):
            documents, scores = hits.documents_for(query)
            assert list(zip(documents.tolist(), scores.tolist(), strict=True)) == whole[:k], (walk.queries[query], k)
            for less in {1, max(1, k // 2)}:
                cut = hits.cut(less).documents_for(query)[0]
                assert cut.tolist() == [document for document, _ in whole[:less]]
    assert np.isfinite(hits.scores).all()
    best = max(range(len(expected)), key=lambda query: len(expected[query]))
    if expected[best]:
        document = expected[best][0][0]
        place = max(number for number, first in enumerate(firsts) if first <= document)
        told = parts[place].explain(walk.queries[best], document - firsts[place], statistics=statistics)
        parts_of = authority.parts(walk.queries[best], document)
        assert dict(told) == {term: part for term, part in parts_of.items() if part > 0}
