"""DSIR's weights against a transcription in plain Python, and samples in proportion to them."""

import gzip
import io
import json
import math
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import zstandard

from acclimate.core.types import Document
from acclimate.text.bm25 import dsir
from acclimate.text.bm25.selection import sample_like
from acclimate.text.corpus import write_corpus

DATA = Path(__file__).parents[4] / "shared" / "data"
TASK = ["The enzyme inhibits the kinase.", "Kinase inhibitors of the enzyme, in vitro"]
TEXTS = [
    "the film was the best",
    "the kinase inhibits the enzyme in the cell",
    "...",
    "film",
    "Élan vital",
    "enzyme " * 9,
]


@pytest.fixture
def corpus(tmp_path):
    return write_corpus((Document(str(number), text, "") for number, text in enumerate(TEXTS)), tmp_path / "corpus")


def naive_weights(left_out: list[int]) -> list[float]:
    """(a) to (d) with dictionaries; the buckets of single n-grams are dsir's own."""

    def z(text: str) -> Counter:
        words = "".join(letter.lower() if letter.isalnum() else " " for letter in text).split()
        pairs = [dsir.ngram_buckets(f"{one} {two}", "words")[2] for one, two in pairwise(words)]
        return Counter([*(dsir.ngram_buckets(word, "words")[0] for word in words), *pairs])

    def gamma(counts: Counter, start: float) -> list[float]:
        whole = counts.total() + start * dsir.BUCKETS
        return [(counts[bucket] + start) / whole for bucket in range(dsir.BUCKETS)]

    task = gamma(sum((z(text) for text in TASK), Counter()), 0.1)
    raw = gamma(sum((z(text) for number, text in enumerate(TEXTS) if number not in left_out), Counter()), 0)
    weights = []
    for counts in map(z, TEXTS):
        log_w = sum(n * (math.log(task[bucket]) - math.log(raw[bucket] + 1e-8)) for bucket, n in counts.items())
        weights.append(255 * log_w / counts.total() if counts else -math.inf)
    return weights


@pytest.mark.parametrize("left_out", [[], [0, 3]])
def test_weights_are_those_of_the_equations(left_out, corpus):
    mask = np.isin(np.arange(len(TEXTS)), left_out)
    weights = dsir.log_weights(TASK, corpus, analyzer="words", left_out=mask)
    assert weights == pytest.approx(naive_weights(left_out), rel=1e-6)
    assert weights[2] == -math.inf


class Like(NamedTuple):
    """What a sample takes from the selection whose size it has."""

    ranks: np.ndarray
    k: int = 1
    corpus: str = ""

    def __len__(self) -> int:
        return len(self.ranks)


def test_documents_are_sampled_without_replacement_in_proportion_to_their_weights(tmp_path):
    weights = np.log(np.repeat([1.0, 2.0, 4.0], 2000))
    weights[7] = -np.inf
    sample = sample_like(Like(np.ones(300, "<u2")), 6000, tmp_path / "sample", seed=3, log_weights=weights)
    assert sample.how == "dsir"
    eligible = np.delete(np.arange(6000), 7)
    noise = np.random.default_rng(3).gumbel(size=5999)
    best = sorted(zip(weights[eligible] + noise, eligible, strict=True), reverse=True)[:300]
    assert sample.documents.tolist() == [number for _, number in best]
    assert np.bincount(sample.documents // 2000) / 300 == pytest.approx([1 / 7, 2 / 7, 4 / 7], abs=0.08)


def test_documents_of_weight_0_are_never_sampled(tmp_path):
    weights = np.array([0.0, *[-np.inf] * 5])
    with pytest.raises(ValueError, match="a sample of 2 documents is not possible: only 1 remain"):
        sample_like(Like(np.ones(2, "<u2")), 6, tmp_path / "sample", seed=0, log_weights=weights)


@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data")
def test_biomedical_texts_get_biomedical_documents_out_of_general_text(tmp_path):
    with gzip.open(DATA / "tlm" / "chemprot_13class" / "train.jsonl.gz", "rt") as file:
        task = [json.loads(line)["text"] for line in islice(file, 300)]
    with (DATA / "general_corpus" / "general_corpus.jsonl.zst").open("rb") as packed:
        stream = zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(packed)
        passages = [json.loads(line) for line in islice(io.TextIOWrapper(stream, encoding="utf-8"), 1000)]
    documents = (Document(passage["id"], passage["text"], passage["domain"]) for passage in passages)
    weights = dsir.log_weights(task, write_corpus(documents, tmp_path / "corpus"), analyzer="words")
    biomedical = np.array([passage["domain"] == "biomed" for passage in passages])
    assert biomedical.mean() < 0.3
    assert biomedical[np.argsort(-weights)[:50]].mean() > 0.7
