"""Unions, cuts and provenance against plain Python, on the real engine; random controls."""

import random
from dataclasses import dataclass

import numpy as np
import pytest

from acclimate.core.types import Document
from acclimate.text.bm25 import selection
from acclimate.text.bm25.build import build_index
from acclimate.text.bm25.selection import Selection, open_selection, sample_like, select
from acclimate.text.corpus import write_corpus
from acclimate.text.overlap.groups import repeats

WORDS = [f"word{number}" for number in range(60)]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    generator = random.Random(3)
    found = [" ".join(generator.choices(WORDS, k=generator.randint(3, 30))) for _ in range(300)]
    return [*found, *found[:20], "nobody asks for this"]


@pytest.fixture(scope="module")
def corpus(texts, tmp_path_factory):
    documents = (Document(f"d{number}", text) for number, text in enumerate(texts))
    return write_corpus(documents, tmp_path_factory.mktemp("selection") / "corpus")


@pytest.fixture(scope="module")
def index(corpus):
    return build_index(corpus, corpus.path.parent / "index")


@pytest.fixture(scope="module")
def queries() -> list[tuple[str, str]]:
    generator = random.Random(5)
    asked = [(f"q{number}", " ".join(generator.choices(WORDS, k=generator.randint(1, 8)))) for number in range(40)]
    return [*asked, ("empty", ""), ("unknown", "zebra")]


@pytest.fixture(scope="module")
def left_out(corpus) -> np.ndarray:
    """Half of the corpus, so that many of the best hits are missing."""
    return np.random.default_rng(0).random(len(corpus)) < 0.5


@dataclass(frozen=True)
class Bringing:
    """The number of a query that brought a document, with the document's rank and score."""

    query: int
    rank: int
    score: float


def brought_by(selection: Selection, document: int) -> list[Bringing]:
    """Return the queries that brought a document, best rank first."""
    hits = [
        (query, hit) for query in range(selection.queries) for hit in zip(*selection.documents_for(query), strict=True)
    ]
    found = [Bringing(query, int(rank), float(score)) for query, (brought, rank, score) in hits if brought == document]
    return sorted(found, key=lambda each: (each.rank, each.query))


def naive(index, queries, k, left_out=None) -> dict[int, list[Bringing]]:
    """Document -> who brought it, by a search for everything."""
    found: dict[int, list[Bringing]] = {}
    hits = index.search([text for _, text in queries], index.documents)
    for query in range(len(queries)):
        clean = [
            pair for pair in zip(*hits.documents_for(query), strict=True) if left_out is None or not left_out[pair[0]]
        ]
        for rank, (document, score) in enumerate(clean[:k], 1):
            found.setdefault(int(document), []).append(Bringing(query, rank, float(score)))
    return {document: sorted(by, key=lambda each: (each.rank, each.query)) for document, by in found.items()}


def ordered(brought: dict[int, list[Bringing]]) -> list[int]:
    return sorted(brought, key=lambda document: (brought[document][0].rank, document))


def content(selection: Selection) -> tuple:
    rows = [[column.tolist() for column in selection.documents_for(query)] for query in range(selection.queries)]
    return selection.documents.tolist(), selection.ranks.tolist(), rows, selection.similar, selection.how, selection.k


@pytest.mark.parametrize(("k", "clean"), [(1, True), (7, False), (7, True)])
def test_the_union_has_the_best_ranks_and_who_brought_each(index, queries, *, left_out, tmp_path, k, clean):
    mask = left_out if clean else None
    selection = select(index, queries, tmp_path / "s", k=k, left_out=mask)
    expected = naive(index, queries, k, mask)
    assert selection.documents.tolist() == ordered(expected)
    assert selection.ranks.tolist() == [expected[document][0].rank for document in ordered(expected)]
    for document in selection.documents.tolist():
        assert brought_by(selection, document) == expected[document]
    assert selection.counts().tolist() == [len(selection.documents_for(query)[0]) for query in range(len(queries))]
    assert (selection.queries, selection.unhit, len(selection)) == (len(queries), 2, len(expected))
    assert selection.corpus == index.corpus
    assert selection.query(0) == queries[0]


@pytest.mark.parametrize("dropping", [False, True])
def test_a_cut_is_the_selection_with_the_smaller_k(index, texts, queries, *, left_out, tmp_path, dropping):
    drop = (lambda documents: repeats([texts[each] for each in documents], near=0.8)) if dropping else None
    given = {"left_out": left_out, "dropping": drop}
    large = select(index, queries, tmp_path / "large", k=60, **given)
    assert not dropping or large.similar
    for k in (1, 5, 30, 60):
        small = select(index, queries, tmp_path / f"{k}", k=k, **given)
        assert content(large.cut(k)) == content(small)
        written = large.cut(k).write(tmp_path / f"written-{k}")
        assert content(written) == content(small)
        assert [written.query(number) for number in range(written.queries)] == queries
        assert brought_by(written, int(small.documents[-1])) == brought_by(small, int(small.documents[-1]))


def test_dropped_documents_are_like_a_better_one_and_their_rows_go(index, texts, queries, tmp_path):
    whole = select(index, queries, tmp_path / "whole", k=20)
    less = select(
        index, queries, tmp_path / "less", k=20, dropping=lambda each: repeats([texts[n] for n in each], near=0)
    )
    first: dict[str, int] = {}
    for document in whole.documents.tolist():
        first.setdefault(texts[document], document)
    assert less.documents.tolist() == list(first.values())
    assert less.similar == len(whole) - len(first) > 0
    kept = set(first.values())
    for query in range(len(queries)):
        documents, ranks, _ = whole.documents_for(query)
        places = [place for place, document in enumerate(documents.tolist()) if document in kept]
        assert less.documents_for(query)[0].tolist() == documents[places].tolist()
        assert less.documents_for(query)[1].tolist() == ranks[places].tolist()


def test_many_batches_and_blocks_make_the_same_selection(index, queries, left_out, tmp_path, monkeypatch):
    whole = select(index, queries, tmp_path / "whole", k=9, left_out=left_out)
    monkeypatch.setattr(selection, "BATCH", 3)
    monkeypatch.setattr("acclimate.text.bm25.selection._BLOCK", 5)
    parts = select(index, queries, tmp_path / "parts", k=9, left_out=left_out, dropping=lambda each: each < 0)
    assert content(parts) == content(whole)
    assert content(parts.cut(4).write(tmp_path / "cut")) == content(whole.cut(4))


def test_a_random_control_has_the_size_at_every_cut(index, queries, left_out, tmp_path):
    like = select(index, queries, tmp_path / "like", k=8, left_out=left_out)
    control = sample_like(like, index.documents, tmp_path / "control", seed=1, left_out=left_out)
    assert len(control) == len(like)
    assert len(set(control.documents.tolist())) == len(control)
    assert not left_out[control.documents].any()
    assert [len(control.cut(k)) for k in range(1, 9)] == [len(like.cut(k)) for k in range(1, 9)]
    small = select(index, queries, tmp_path / "small", k=3, left_out=left_out)
    again = sample_like(small, index.documents, tmp_path / "again", seed=1, left_out=left_out)
    assert content(again) == content(control.cut(3))
    other = sample_like(like, index.documents, tmp_path / "other", seed=2, left_out=left_out)
    assert other.documents.tolist() != control.documents.tolist()
    assert (control.how, control.queries, control.counts().tolist()) == ("random", 0, [])
    assert brought_by(control, int(control.documents[0])) == []


def test_a_random_control_is_uniform_over_what_is_left(index, queries, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda handle: None)  # takes most of the time
    like = select(index, queries[:2], tmp_path / "like", k=20)
    left_out = np.arange(index.documents) >= 40
    left_out[:10] = True
    counts = np.zeros(index.documents, int)
    for seed in range(100):
        counts[
            sample_like(like.cut(5), index.documents, tmp_path / "control", seed=seed, left_out=left_out).documents
        ] += 1
    sampled = len(like.cut(5))
    assert counts[left_out].sum() == 0
    expected = 100 * sampled / 30
    assert ((counts[10:40] - expected) ** 2 / expected).sum() < 59  # chi-square of 29 degrees, p = .001


def test_a_random_control_samples_on_where_documents_are_dropped(index, texts, queries, tmp_path):
    def dropping(documents):
        return repeats([texts[each] for each in documents], near=0)

    like = select(index, queries, tmp_path / "like", k=40, dropping=dropping)
    control = sample_like(like, index.documents, tmp_path / "control", seed=0, dropping=dropping)
    assert len(control) == len(like)
    assert len({texts[each] for each in control.documents}) == len(control)
    assert control.similar > 0


def test_no_control_of_more_than_there_is(index, queries, tmp_path):
    like = select(index, queries, tmp_path / "like", k=50)
    with pytest.raises(ValueError, match=r"of \d+ documents is not possible: only 5 remain. Lower k"):
        sample_like(like, index.documents, tmp_path / "control", seed=0, left_out=np.arange(index.documents) >= 5)


def test_a_larger_k_cannot_be_cut(index, queries, tmp_path):
    with pytest.raises(ValueError, match="made with k=5, so only smaller selections can be taken from it"):
        select(index, queries, tmp_path / "s", k=5).cut(6)


def test_queries_that_retrieve_nothing_are_refused(index, queries, tmp_path):
    with pytest.raises(ValueError, match="2 queries retrieve no documents: none of their words occurs in the corpus"):
        select(index, [("a", "zebra"), ("b", "...")], tmp_path / "s", k=5)
    with pytest.raises(ValueError, match="retrieve no documents: all matching documents were excluded"):
        select(index, queries, tmp_path / "s", k=5, left_out=np.ones(index.documents, bool))
    assert not (tmp_path / "s").exists()


def test_a_folder_without_a_selection_is_told(index, queries, tmp_path):
    with pytest.raises(ValueError, match=r"contains no selection: it has no selection.json"):
        open_selection(tmp_path)
    select(index, queries, tmp_path / "s", k=5)
    (tmp_path / "s" / "rows.scores.bin").write_bytes(b"")
    with pytest.raises(ValueError, match="retrieve again"):
        Selection(tmp_path / "s", 5).documents_for(0)


def test_a_selection_that_was_changed_is_refused(index, queries, tmp_path):
    for file in sorted(select(index, queries, tmp_path / "s", k=5).path.iterdir()):
        content = file.read_bytes()
        if content:
            file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            with pytest.raises(ValueError, match=str(tmp_path / "s")):
                open_selection(tmp_path / "s")
            file.write_bytes(content)
