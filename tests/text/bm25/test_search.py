"""BM25 against a scorer in plain Python that goes through all documents: equal bit by bit."""

import math
import random
from collections import Counter

import numpy as np
import pytest

from acclimate.core.types import Document
from acclimate.text.bm25 import build
from acclimate.text.bm25.build import build_index, open_index
from acclimate.text.bm25.index import Hits
from acclimate.text.bm25.words import analysed_words, fold_of, invert, packed_texts
from acclimate.text.corpus import Corpus, write_corpus
from exhaustive import Exhaustive

ALPHABET = "abcde AB_9.,\n\t'éÉßΣσςİıÅ日本語、ǅ٣²½Ⅷ🙂\u0301\u00a0\u2003\x00ﬁẞȺK\u0345"


def made(texts, path, **settings):
    corpus = write_corpus((Document(str(number), text) for number, text in enumerate(texts)), path / "corpus")
    return build_index(corpus, path / "index", **settings)


def told(hits: Hits, query: int):
    return list(zip(*(values.tolist() for values in hits.documents_for(query)), strict=True))


def random_texts(generator, count, words=60, longest=60):
    """Few words, the first ones far more frequent than the last, so that many are in more than 1/16 of the texts."""
    chosen = [f"w{min(int(generator.expovariate(4 / words)), words)}" for _ in range(50 * count)]
    return [" ".join(generator.choices(chosen, k=generator.randint(1, longest))) for _ in range(count)]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Texts, their index, and queries: random ones, some of a single word, of no known word, empty."""
    generator = random.Random(0)
    texts = random_texts(generator, 700)
    texts[5], texts[6], texts[7] = "...!", "w1 " * 400, texts[8]
    queries = [*random_texts(generator, 25, longest=40), "", "nothing known", "w0", "w59 w59 w58", "W1, w1!", texts[8]]
    return texts, made(texts, tmp_path_factory.mktemp("library")), queries


def test_more_documents_than_a_block_holds(tmp_path, monkeypatch):
    generator = random.Random(1)
    texts = [f"common{generator.randrange(3)} rare{generator.randrange(9000)} odd" for _ in range(66_000)]
    monkeypatch.setattr(build, "_BATCH", 1 << 19)
    monkeypatch.setattr(build, "_PART", 1 << 12)
    index, naive = made(texts, tmp_path), Exhaustive(texts)
    queries = ["common0 rare17 rare18 rare5000", "odd", "rare3"]
    hits = index.search(queries, 40)
    for number, query in enumerate(queries):
        assert told(hits, number) == naive.search(query, 40)
    assert index.statistics().frequencies == naive.frequencies
    assert hits.effort.postings < hits.effort.exhaustive


def test_lucenes_formula_worked_by_hand(tmp_path):
    # N = 3, average length 4; "cat" is in 2 documents, twice in the first, which has 5 words
    index = made(["the cat sat cat down", "a dog ran", "cat and dog sleep"], tmp_path)
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    documents, scores = index.search(["cat"], 5).documents_for(0)
    assert documents.tolist() == [0, 2]
    assert scores.tolist() == pytest.approx(
        [idf * 2 / (2 + 1.2 * (0.25 + 0.75 * 5 / 4)), idf * 1 / (1 + 1.2 * (0.25 + 0.75 * 4 / 4))]
    )


def test_statistics_that_lack_a_word_are_refused(library):
    _, index, _ = library
    with pytest.raises(ValueError, match="Use the sum of the statistics of all shards"):
        index.search(["w3"], 5, statistics=index.statistics(["w4"]))


def test_queries_without_a_known_word_are_counted(library):
    _, index, _ = library
    hits = index.search(["w1", "", "quite unknown", "?!"], 5)
    assert np.diff(hits.offsets).tolist() == [5, 0, 0, 0]
    assert (hits.effort.queries, hits.effort.without_hits) == (4, 3)
    nothing = index.search([], 5)
    assert (len(nothing), len(nothing.documents)) == (0, 0)


def test_a_corpus_without_words(tmp_path):
    index = made(["...", "?!"], tmp_path)
    assert index.words == 0
    assert len(index.search(["anything", ""], 3).documents) == 0


@pytest.mark.parametrize("k", [0, -1, 10_001])
def test_k_out_of_range_is_refused(library, k):
    _, index, queries = library
    with pytest.raises(ValueError, match="a query retrieves 1 to 10,000 documents"):
        index.search(queries, k)
    with pytest.raises(ValueError, match="a query retrieves 1 to 10,000 documents"):
        index.search(queries, 5).cut(k)


def read_by_loops(texts, analyzer="words"):
    """(words of all texts with their documents and counts, lengths) as the compiled loop has them."""
    hashes, begins, spellings, sizes, places, counts, lengths = invert(
        *packed_texts(analyzer, texts), fold_of(analyzer)
    )
    found, pair = [Counter() for _ in texts], 0
    for word in range(len(hashes)):
        spelling = spellings[begins[word] : begins[word + 1]].tobytes().decode()
        for _ in range(sizes[word]):
            found[places[pair]][spelling] += int(counts[pair])
            pair += 1
    return found, lengths.tolist()


@pytest.mark.parametrize("analyzer", ["words", "cased"])
def test_words_are_those_of_the_regular_expression(analyzer):
    generator = random.Random(2)
    texts = ["".join(generator.choices(ALPHABET, k=generator.randint(0, 40))) for _ in range(1500)]
    texts += ["".join(chr(generator.randrange(1, 0xD800)) for _ in range(50)) for _ in range(300)]
    texts += ["".join(chr(generator.randrange(0xE000, 0x110000)) for _ in range(50)) for _ in range(100)]
    found, lengths = read_by_loops(texts, analyzer)
    expected = [analysed_words(analyzer, text) for text in texts]
    assert found == [Counter(words) for words in expected]
    assert lengths == [len(words) for words in expected]


def test_every_code_point_alone_is_a_word_or_not_as_the_regular_expression_has_it():
    points = [*range(1, 0x3200), *range(0xA900, 0xAC00), *range(0xFB00, 0x10000), *range(0x1F000, 0x1F100)]
    texts = [f"a{chr(point)}b" for point in points] + [f"ก{chr(point)}ข\u0e31" for point in points]
    found, _ = read_by_loops(texts)
    assert found == [Counter(analysed_words("words", text)) for text in texts]


def test_unknown_analyzer_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'words'"):
        made(["text"], tmp_path, analyzer="word")


def test_the_index_there_is_opened_and_another_is_refused(tmp_path, library):
    texts, _, queries = library
    index = made(texts, tmp_path)
    corpus, before = Corpus(tmp_path / "corpus"), (tmp_path / "index" / "index.json").stat().st_ino
    again = build_index(corpus, tmp_path / "index")
    assert (tmp_path / "index" / "index.json").stat().st_ino == before
    assert (again.search(queries, 9).documents == index.search(queries, 9).documents).all()
    with pytest.raises(ValueError, match=r"k1 1\.2 instead of 0\.9"):
        build_index(corpus, tmp_path / "index", k1=0.9)
    with pytest.raises(ValueError, match="contains no index"):
        build_index(corpus, tmp_path / "corpus")
    with pytest.raises(ValueError, match="contains no index"):
        open_index(tmp_path)


def test_the_same_corpus_gives_the_same_bytes(tmp_path, library, request):
    texts = [*library[0], "a" * 300 + " é日本語. İı" * 20, "often " * 300]
    made(texts, tmp_path / "one", threads=3)
    request.getfixturevalue("few")
    made(texts, tmp_path / "other")
    for file in sorted((tmp_path / "one" / "index").iterdir()):
        assert file.read_bytes() == (tmp_path / "other" / "index" / file.name).read_bytes(), file.name


@pytest.mark.parametrize("amount", ["few", "many"])
def test_large_counts_are_exact(tmp_path, request, amount):
    request.getfixturevalue(amount)
    texts = ["a " * 300 + "b " * 20, "a " * 255 + "b", "b " * 15, "c", *["a d"] * 5, *["filler words"] * 400]
    index, naive = made(texts, tmp_path), Exhaustive(texts)
    for query in ("a b", "b", "filler a"):
        assert told(index.search([query], 10), 0) == naive.search(query, 10)
    often = ["a " * 300, "a " * 255, "a " * 254, "a b", "b"]
    (tmp_path / "often").mkdir()
    index, naive = made(often, tmp_path / "often"), Exhaustive(often)
    assert told(index.search(["a b"], 10), 0) == naive.search("a b", 10)
