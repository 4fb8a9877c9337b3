"""A corpus in shards finds what one index of it finds, bit by bit; builds go on where they were killed."""

import random
import shutil

import numpy as np
import pytest

from acclimate.core.files import DamagedError
from acclimate.core.types import Document, Progress
from acclimate.text.bm25 import shards as shards_work
from acclimate.text.bm25.build import build_index
from acclimate.text.bm25.shards import build_shards, open_shards, shard_begins
from acclimate.text.corpus import Corpus, write_corpus

WORDS = [f"word{number}" for number in range(200)]
SETTINGS = {"k1": 0.9, "b": 0.4, "analyzer": "cased"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Texts of very different lengths, the long ones at the end, with copies, so that scores are equal."""
    generator = random.Random(3)
    texts = [" ".join(generator.choices(WORDS, k=3 + number // 8)) for number in range(400)]
    texts[200:240] = texts[:40]
    texts[7] = "only here: Zebra"
    documents = (Document(f"d{number}", text) for number, text in enumerate(texts))
    return write_corpus(documents, tmp_path_factory.mktemp("shards") / "corpus")


@pytest.fixture(scope="module")
def index(corpus):
    return build_index(corpus, corpus.path.parent / "index", **SETTINGS)


@pytest.fixture(scope="module")
def queries():
    generator = random.Random(5)
    asked = [" ".join(generator.choices(WORDS, k=generator.randint(1, 60))) for _ in range(30)]
    return [*asked, "Zebra", "", "nobody wrote this"]


@pytest.fixture(scope="module", params=[1, 2, 5])
def shards(corpus, request):
    return build_shards(corpus, corpus.path.parent / f"shards-{request.param}", shards=request.param, **SETTINGS)


@pytest.mark.parametrize("k", [1, 7, 300, 400])
def test_shards_find_what_one_index_finds(index, shards, queries, k):
    one, many = index.search(queries, k), shards.search(queries, k)
    for name in ("offsets", "documents", "scores"):
        assert np.array_equal(getattr(one, name), getattr(many, name)), name
        assert getattr(one, name).dtype == getattr(many, name).dtype
    assert (many.effort.queries, many.effort.without_hits) == (len(queries), one.effort.without_hits)


def test_queries_in_batches_find_the_same(index, shards, queries, monkeypatch):
    monkeypatch.setattr("acclimate.text.bm25.shards._QUERIES", 4)
    monkeypatch.setattr("acclimate.text.bm25.shards._TOGETHER", 2)
    told: list[Progress] = []
    one, many = index.search(queries, 10), shards.search(queries, 10, threads=2, watch=told.append)
    assert np.array_equal(one.documents, many.documents)
    assert np.array_equal(one.offsets, many.offsets)
    assert np.array_equal(one.scores, many.scores)
    assert [each.done for each in told] == [*range(4, 33, 4), 33]
    assert many.effort.queries == 33


def test_no_queries_find_nothing(shards):
    found = shards.search([], 5)
    assert (len(found), found.offsets.tolist(), len(found.documents)) == (0, [0], 0)


def test_explains_as_one_index(index, shards, queries):
    for document in (0, 7, 210, 399):
        assert shards.explain(queries[0], document) == index.explain(queries[0], document)
    assert shards.explain("Zebra word1", 7) == index.explain("Zebra word1", 7) != []
    with pytest.raises(ValueError, match="no document 400"):
        shards.explain("Zebra", 400)


def test_statistics_are_those_of_one_index(index, shards, queries):
    assert shards.statistics(queries) == index.statistics(queries)
    names = ("corpus", "documents", "tokens", "analyzer", "k1", "b")
    assert [getattr(shards, name) for name in names] == [getattr(index, name) for name in names]


def test_cuts_where_the_texts_are_equally_long(corpus):
    begins = shard_begins(corpus, 4)
    lengths = np.cumsum([0, *(len(document.text) for document in corpus.documents())])
    sizes = np.diff(lengths[[*begins, len(corpus)]])
    assert begins[0] == 0
    assert np.abs(sizes - corpus.characters / 4).max() < 500  # the longest has 416


@pytest.mark.parametrize("place", [0, 3, 7])
def test_every_shard_has_a_document_however_long_one_is(tmp_path, place):
    texts = ["a"] * 8
    texts[place] = "long " * 1000
    corpus = write_corpus((Document(str(number), text) for number, text in enumerate(texts)), tmp_path / "corpus")
    assert shard_begins(corpus, 8) == list(range(8))
    begins = shard_begins(corpus, 5)
    assert begins[0] == 0
    assert (np.diff([*begins, 8]) > 0).all()
    with pytest.raises(ValueError, match="few for 9 shards"):
        shard_begins(corpus, 9)


def test_texts_of_a_run_of_documents(monkeypatch, tmp_path):
    monkeypatch.setattr("acclimate.text.corpus._BATCH_DOCUMENTS", 4)
    texts = [f"text {number}" for number in range(11)]
    corpus = write_corpus((Document(text, text) for text in texts), tmp_path / "corpus")
    for first, last in ((0, 11), (0, 4), (3, 5), (4, 8), (5, 6), (10, 11), (6, 6)):
        assert [text for column in corpus.texts(first, last) for text in column.to_pylist()] == texts[first:last]
    assert shard_begins(corpus, 3) == [0, 4, 8]


def test_a_build_goes_on_with_what_is_missing(corpus, tmp_path, queries):
    shards = build_shards(corpus, tmp_path / "index", shards=3)
    found = shards.search(queries, 10)
    kept = [(shards.shards[number].path / "manifest.json").stat().st_mtime_ns for number in (0, 2)]
    shutil.rmtree(shards.shards[1].path)
    with pytest.raises(DamagedError, match="shard-00001 is missing"):
        open_shards(tmp_path / "index")
    again = build_shards(corpus, tmp_path / "index", shards=3)
    assert again.shards == shards.shards  # the same bytes, by the hash of the manifest
    assert kept == [(shards.shards[number].path / "manifest.json").stat().st_mtime_ns for number in (0, 2)]
    assert np.array_equal(found.documents, open_shards(tmp_path / "index").search(queries, 10).documents)


def test_a_damaged_shard_is_found_and_built_again(corpus, tmp_path):
    shards = build_shards(corpus, tmp_path / "index", shards=3)
    file = shards.shards[2].path / "lengths.bin"
    file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(DamagedError, match=r"lengths\.bin is damaged"):
        open_shards(tmp_path / "index")
    assert build_shards(corpus, tmp_path / "index", shards=3).shards == shards.shards
    assert open_shards(tmp_path / "index").shards == shards.shards


def test_another_index_at_the_path_is_refused(corpus, tmp_path):
    build_shards(corpus, tmp_path / "index", shards=2)
    with pytest.raises(ValueError, match=r"another index: b 0\.75 instead of 0\.5, shards 2 instead of 3"):
        build_shards(corpus, tmp_path / "index", shards=3, b=0.5)
    with pytest.raises(ValueError, match="few for 0 shards"):
        build_shards(corpus, tmp_path / "other", shards=0)
    with pytest.raises(ValueError, match="contains no index in shards"):
        build_shards(corpus, corpus.path)


def test_progress_counts_documents_of_the_whole_corpus(corpus, tmp_path):
    told: list[Progress] = []
    build_shards(corpus, tmp_path / "index", shards=3, watch=told.append)
    done = [each.done for each in told if each.unit == "documents"]
    assert (done, done[-1]) == (sorted(done), 400)
    assert {each.total for each in told if each.unit == "documents"} == {400}


def test_files_that_changed_or_are_not_shared_are_named(corpus, tmp_path):
    shards = build_shards(corpus, tmp_path / "index", shards=2)
    shards_work._index.cache_clear()
    shutil.move(tmp_path / "index", tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"sees another version of .*shard-00000\. All machines"):
        shards.search(["word1"], 3)
    shutil.copytree(corpus.path, tmp_path / "corpus")
    source = shards_work.Source(
        shards_work.DocumentRange(0, tmp_path / "index" / "shard-00000", "0" * 64, 0, 9),
        tmp_path / "corpus",
        1.2,
        0.75,
        "words",
        1,
    )
    with pytest.raises(ValueError, match="cannot access the corpus"):
        shards_work.build_part(source)
    assert Corpus(tmp_path / "corpus").hash == corpus.hash
