"""DSIR: weigh each document of a corpus by how much likelier its n-grams are in a task's texts than in the corpus.

Xie et al., "Data Selection for Language Models via Importance Resampling" (NeurIPS 2023, arXiv:2302.03169), sections 2
and 3. The task's texts are a sample of the target p, the documents x_i one of q. The letters are ours:

    (a) z_i[j]  = how many words and pairs of neighbouring words of x_i have a hash in bucket j of m = 10,000
    (b) γ[j]    = sum_i z_i[j] / sum_i sum_l z_i[l], over the texts of the task, and over the documents
    (c) P(z; γ) = prod_j γ[j]^z[j]
    (d) w_i     = P(z_i; γ of the task) / P(z_i; γ of the documents)
    (e) k documents without replacement, in proportion to w_i: those with the largest log w_i + Gumbel(0, 1)

This module has (a) to (d); (e) is `selection.sample_like`.

Readings
  The paper cuts documents into chunks of 128 words, so that all weights are products of as many factors. Here documents
  are whole, and each has the weight of a chunk of CHUNK n-grams with the document's frequencies. Without this, a task
  of few texts would get the shortest documents, of any domain.
  The counts of (b) begin at SMOOTHING for the task and at 0 for the documents, whose γ gets EPSILON, as in the authors'
  code, which has an option for the first: else a bucket that few texts never fill would decide alone.
  Words are those of BM25 (words.py), without punctuation. The hash is a CRC-32, mixed for pairs; theirs is a SHA-256.
  A document without words has no n-grams to judge: its weight is 0.

Two passes over the corpus. Memory: eight bytes a document, and the n-grams of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from zlib import crc32

import numpy as np

from acclimate.core.mixing import STRIDE
from acclimate.core.types import Watch, counted, unwatched
from acclimate.text.bm25.words import analysed_words
from acclimate.text.corpus import Corpus

BUCKETS = 10_000
CHUNK = 2 * 128 - 1  # n-grams of the paper's 128 words
SMOOTHING, EPSILON = 0.1, 1e-8
_UPPER = np.uint64(32)  # bits of a product that depend on all bits of its factors


def ngram_buckets(text: str, analyzer: str) -> np.ndarray:
    """Return (n-grams of the text,) int64 bucket of each word, then of each pair of neighbours; z counts them (a)."""
    words = analysed_words(analyzer, text)
    hashes = np.fromiter((crc32(word.encode("utf-8", "surrogatepass")) for word in words), np.uint64, len(words))
    pairs = ((hashes[:-1] * STRIDE + hashes[1:]) * STRIDE) >> _UPPER
    return (np.concatenate([hashes, pairs]) % np.uint64(BUCKETS)).astype(np.int64)


def log_weights(
    targets: Iterable[str],
    corpus: Corpus,
    *,
    analyzer: str,
    left_out: np.ndarray | None = None,
    watch: Watch = unwatched,
) -> np.ndarray:
    """Return (documents,) float64 log w_i of each document of the corpus; -inf for one without words.

    targets    texts of the task
    left_out   (documents,) bool: documents that do not count for the γ of the corpus, as they cannot be selected
    """

    def buckets(stage: str) -> Iterator[tuple[int, np.ndarray]]:
        documents = counted(corpus.documents(), watch, stage, total=len(corpus))
        return enumerate(ngram_buckets(document.text, analyzer) for document in documents)

    in_task, in_corpus = np.full(BUCKETS, SMOOTHING), np.zeros(BUCKETS)
    for text in targets:
        in_task += np.bincount(ngram_buckets(text, analyzer), minlength=BUCKETS)  # (a)
    for number, ngrams in buckets("counting n-grams"):
        if left_out is None or not left_out[number]:
            in_corpus += np.bincount(ngrams, minlength=BUCKETS)  # (a)
    task = in_task / in_task.sum()  # (b)
    raw = in_corpus / max(in_corpus.sum(), 1) + EPSILON  # (b)
    log_ratios = np.log(task) - np.log(raw)  # (d) of one n-gram
    weights = np.full(len(corpus), -np.inf)
    for number, ngrams in buckets("weighing"):
        if len(ngrams):
            weights[number] = CHUNK * log_ratios[ngrams].mean()  # (c) and (d)
    return weights
