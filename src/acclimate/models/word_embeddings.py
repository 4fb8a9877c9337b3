"""Compare the word embeddings of models: distances between two matrices, their main axes, a word's neighbours.

The embeddings are the raw rows of the table that the first layer reads (TAPTER's E), without position or normalisation.
Only `read_embeddings` loads PyTorch, because report pages import this module too.

Shape suffixes: V pieces of a vocabulary, N pieces that two of them share, H width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from acclimate.core.types import Progress, Watch, unwatched

CONTINUED = "##"  # WordPiece writes it before a piece that continues a word
# byte-level tokenizers and SentencePiece write one of these before a piece that begins one
SPACES = ("\u0120", "\u2581")
ROWS = 16_384  # rows of a block: computations on a table need memory for one block
OVER = ("all pieces", "pieces of the texts")  # the two sets of pieces that embedding_distances takes means over
TEXTS = 1000  # number of texts that are tokenized together


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The word embeddings of one model.

    rows_VH  (V, H) float32
    ids      piece, as the tokenizer's vocabulary spells it -> its row
    words    word, as people read it -> its row: pieces that begin a word and hold letters only
    """

    name: str
    rows_VH: np.ndarray
    ids: Mapping[str, int]
    words: Mapping[str, int]

    def nearest(self, word: str, count: int) -> list[tuple[str, float]]:
        """Return the `count` words with the largest cosine to this word, and the cosines. Raises KeyError if it is not
        one of `words`.
        """
        names = [name for name in self.words if name != word]
        rows_VH = self.rows_VH[[self.words[name] for name in names]]
        row_H = self.rows_VH[self.words[word]]
        lengths = np.linalg.norm(rows_VH, axis=1) * np.linalg.norm(row_H)
        cosines = rows_VH @ row_H / np.maximum(lengths, np.finfo(np.float32).tiny)
        return [(names[place], float(cosines[place])) for place in np.argsort(-cosines, kind="stable")[:count]]


@dataclass(frozen=True, slots=True)
class Distances:
    """Euclidean distances between two models' rows of the same pieces.

    pieces       number of pieces
    mean         TAPTER's Appendix B calls it the average distance
    nine_tenths  the .9 quantile
    cosine       mean of the rows' cosines
    """

    pieces: int
    mean: float
    median: float
    nine_tenths: float
    cosine: float


@dataclass(frozen=True, eq=False)
class Axes:
    """The two directions in which rows vary most.

    centre_H       mean of the rows
    directions_2H  unit vectors
    explained      their shares of the rows' variance, from 0 to 1
    """

    centre_H: np.ndarray
    directions_2H: np.ndarray
    explained: tuple[float, float]

    def places(self, rows_NH: np.ndarray) -> np.ndarray:
        """Return the rows' coordinates on the two axes, (N, 2)."""
        blocks = [(rows_NH[block] - self.centre_H) @ self.directions_2H.T for block in _blocks(len(rows_NH))]
        return np.concatenate(blocks) if blocks else np.zeros((0, 2))


def read_embeddings(name: str, model: str, spell: Callable[[Any, int], Sequence[str]] | None = None) -> Embeddings:
    """Return the word embeddings of a checkpoint directory or hub id.

    spell  returns the text of each piece, from the tokenizer and the number of rows; without it `words` is empty

    Raises ValueError if the model cannot be read.
    """
    from acclimate.models.encoder import load_masked_language_model, word_embeddings
    from acclimate.models.loading import load_tokenizer

    tokenizer = load_tokenizer(model)
    rows_VH = word_embeddings(load_masked_language_model(model)).detach().numpy()
    ids = {piece: row for piece, row in tokenizer.get_vocab().items() if row < len(rows_VH)}
    texts = [""] * len(rows_VH) if spell is None else spell(tokenizer, len(rows_VH))
    words = {texts[ids[piece]]: ids[piece] for piece in beginning_words(ids) if texts[ids[piece]].isalpha()}
    return Embeddings(name, rows_VH, dict(sorted(ids.items(), key=lambda entry: entry[1])), words)


def embedding_distances(
    first: str, model: str, texts: Iterable[str], *, watch: Watch = unwatched
) -> dict[str, Distances]:
    """Return the distances between the word embeddings of both models, for each set of pieces in OVER.

    Raises ValueError if the two cannot be compared (`shared_rows`), or share no piece of the texts.
    """
    one, other = read_embeddings("the first", first), read_embeddings("the other", model)
    firsts_N, others_N = shared_rows(one, other)
    distances_N, cosines_N = row_distances(one.rows_VH[firsts_N], other.rows_VH[others_N])
    in_texts_N = piece_counts(texts, first, len(one.rows_VH), watch=watch)[firsts_N] > 0
    if not in_texts_N.any():
        raise ValueError(f"no token of the texts is in the vocabularies of both {first} and {model}. Give other texts")
    summaries = summary(distances_N, cosines_N), summary(distances_N[in_texts_N], cosines_N[in_texts_N])
    return dict(zip(OVER, summaries, strict=True))


def piece_counts(texts: Iterable[str], model: str, size: int, *, watch: Watch = unwatched) -> np.ndarray:
    """Return (size,) int64: how often each piece of the model's vocabulary occurs in the texts."""
    from acclimate.models.loading import load_tokenizer

    tokenizer: Any = load_tokenizer(model)
    encode = partial(tokenizer, add_special_tokens=False, split_special_tokens=True, verbose=False)
    counts_V, text_count = np.zeros(size, np.int64), 0
    remaining = iter(texts)
    while chunk := [*islice(remaining, TEXTS)]:
        ids = np.fromiter(chain.from_iterable(encode(chunk)["input_ids"]), np.int64)
        counts_V += np.bincount(ids, minlength=size)[:size]
        text_count += len(chunk)
        watch(Progress("count pieces", text_count, 0, "texts"))
    return counts_V


def beginning_words(pieces: Mapping[str, int]) -> list[str]:
    """Return the pieces that begin a word, in the order of their ids.

    These are the pieces with a mark of SPACES, if at least a tenth of the pieces have it; if not, the pieces without
    WordPiece's "##".
    """
    ordered = sorted(pieces, key=pieces.__getitem__)
    for space in SPACES:
        marked = [piece for piece in ordered if piece.startswith(space)]
        if 10 * len(marked) >= len(ordered):
            return marked
    return [piece for piece in ordered if not piece.startswith(CONTINUED)]


def shared_rows(first: Embeddings, other: Embeddings) -> tuple[np.ndarray, np.ndarray]:
    """Return the first's and the other's rows, (N,) each, of the pieces that both spell alike, in the first's order.

    Raises ValueError, naming both, if there are none, or if the widths differ: then the rows lie in different spaces.
    """
    if first.rows_VH.shape[1] != other.rows_VH.shape[1]:
        widths = f"{first.rows_VH.shape[1]} and {other.rows_VH.shape[1]}"
        raise ValueError(
            f"the word embeddings of {first.name} and {other.name} have different widths, {widths}, so they have no "
            "distance. Compare a model with models trained from it"
        )
    pairs = [(row, other.ids[piece]) for piece, row in first.ids.items() if piece in other.ids]
    if not pairs:
        raise ValueError(
            f"the vocabularies of {first.name} and {other.name} have no token in common, so they cannot be "
            "compared. Name other models"
        )
    firsts_N, others_N = np.array(pairs).T
    return firsts_N, others_N


def row_distances(first_NH: np.ndarray, other_NH: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows' Euclidean distances (N,) and cosines (N,); a cosine is NaN if a row is zero."""
    distances_N, cosines_N = np.zeros(len(first_NH)), np.full(len(first_NH), np.nan)
    for block in _blocks(len(first_NH)):
        first, second = first_NH[block].astype(np.float64), other_NH[block].astype(np.float64)
        distances_N[block] = np.linalg.norm(first - second, axis=1)
        lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        np.divide(np.einsum("nh,nh->n", first, second), lengths, out=cosines_N[block], where=lengths > 0)
    return distances_N, cosines_N


def summary(distances_N: np.ndarray, cosines_N: np.ndarray) -> Distances:
    """Return the summary of at least one distance. The mean cosine leaves out zero rows, which have none."""
    mean, median, nine_tenths = distances_N.mean(), np.median(distances_N), np.quantile(distances_N, 0.9)
    measured_N = cosines_N[~np.isnan(cosines_N)]
    cosine = float(measured_N.mean()) if len(measured_N) else 0.0
    return Distances(len(distances_N), float(mean), float(median), float(nine_tenths), cosine)


def principal_axes(rows_NH: np.ndarray) -> Axes:
    """Return the first two principal components (PCA): eigenvectors of the rows' covariance.

    Each direction's sign makes its largest component positive, so the same rows give the same picture.
    """
    centre_H = rows_NH.mean(axis=0, dtype=np.float64)
    width = len(centre_H)
    scatter_HH = np.zeros((width, width))
    for block in _blocks(len(rows_NH)):
        about_NH = rows_NH[block] - centre_H
        scatter_HH += about_NH.T @ about_NH
    variances, vectors = np.linalg.eigh(scatter_HH)
    directions_2H = vectors[:, [-1, -2]].T
    signs = np.sign(directions_2H[np.arange(2), np.abs(directions_2H).argmax(axis=1)])
    total = max(float(variances.sum()), np.finfo(float).tiny)
    return Axes(centre_H, directions_2H * signs[:, None], (float(variances[-1]) / total, float(variances[-2]) / total))


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(begin, begin + ROWS) for begin in range(0, rows, ROWS))
