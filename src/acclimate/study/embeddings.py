"""What adapting did to a model's word embeddings: distances, main axes, neighbours, losses (docs/analyses.md).

Nishida et al. (2021, TAPTER), Figure 1 and Appendix B: the mean distance between the embeddings of two models, scatter
plots of their principal components, learning curves of both terms of the loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from acclimate.core.types import Progress, Watch, unwatched
from acclimate.models.encoder import load_tokenizer
from acclimate.models.loading import resolved
from acclimate.study.attention import short_names
from acclimate.study.embedding_curves import read_curve
from acclimate.study.embeddings_result import COMMON, SHORTEST, Analysis, AxesOf, Moved, Panel
from acclimate.study.word_embeddings import (
    Axes,
    Distances,
    Embeddings,
    principal_axes,
    read_embeddings,
    row_distances,
    shared_rows,
    summary,
)
from acclimate.text.stop_words import ENGLISH

MARKED = 10  # words that are shown
LOOKED_UP = 4  # of them, whose neighbours are shown where no words are named
NEIGHBOURS = 6
OVER = ("all pieces", "pieces of the texts")
TEXTS = 1000  # that are tokenized together


def analyse_embeddings(
    models: Sequence[str],
    *,
    texts: Iterable[str] | None = None,
    source: str = "",
    words: Sequence[str] = (),
    axes_of: AxesOf = "first",
    watch: Watch = unwatched,
) -> Analysis:
    """The word embeddings of the models (directories or hub ids), each compared with the first one's.

    texts    of the domain, whose pieces are also looked at by themselves; `source` says what they are, for people
    words    whose neighbours are shown; none: of those that moved furthest
    axes_of  the rows that the principal axes are fitted on: the first model's, or those of all

    All tables are held in memory together. Raises ValueError for fewer than two models, and for a word that is no
    piece of the first model's vocabulary; a model that cannot be compared is said in the result.
    """
    if len(models) < 2:
        raise ValueError(f"{len(models)} model given: name the model that others are compared with, and then those")
    places = [resolved(model) for model in models]
    tables = []
    for number, (name, place) in enumerate(zip(short_names(models), places, strict=True)):
        tables.append(read_embeddings(name, place))
        watch(Progress("read word embeddings", number + 1, len(models), "models"))
    first = tables[0]
    for word in words:
        _require_word(word, first, places[0])
    counts_V = None if texts is None else piece_counts(texts, places[0], len(first.rows_VH), watch=watch)
    pairs, refused = _pairs(tables)
    marked = _furthest(first, counts_V, pairs[1:])
    fitted = [first.rows_VH] if axes_of == "first" else [pair.table.rows_VH[pair.rows_N] for pair in pairs]
    axes = principal_axes(np.concatenate(fitted))
    curves = [read_curve(table.name, place) for table, place in zip(tables, places, strict=True)]
    return Analysis(
        models=tuple(table.name for table in tables),
        moved=tuple(_moved(pair, first, counts_V, marked) for pair in pairs[1:]),
        refused=tuple(refused),
        axes=axes,
        axes_of=axes_of,
        panels=tuple(_panel(pair, first, counts_V, marked, axes) for pair in pairs),
        counts={word: 0 if counts_V is None else int(counts_V[first.words[word]]) for word in marked},
        neighbours={
            word: {table.name: table.nearest(word, NEIGHBOURS) for table in tables if word in table.words}
            for word in (words or marked[:LOOKED_UP])
        },
        curves=tuple(curve for curve in curves if curve is not None),
        source=source,
    )


def embedding_distances(
    first: str, model: str, texts: Iterable[str], *, watch: Watch = unwatched
) -> dict[str, Distances]:
    """How far the model's word embeddings lie from the first one's, over `OVER`: all pieces, those of the texts.

    Raises ValueError where the two cannot be compared, or no piece of the texts is shared.
    """
    table, other = read_embeddings("the first", first), read_embeddings("the other", model)
    counts_V = piece_counts(texts, first, len(table.rows_VH), watch=watch)
    moved = _moved(_pair(table, other), table, counts_V, ())
    if moved.in_texts is None:
        raise ValueError(f"no piece of the texts is in the vocabularies of both {first} and {model}")
    return dict(zip(OVER, (moved.everywhere, moved.in_texts), strict=True))


def piece_counts(texts: Iterable[str], model: str, size: int, *, watch: Watch = unwatched) -> np.ndarray:
    """(size,) how often each piece of the model's vocabulary occurs in the texts."""
    tokenizer: Any = load_tokenizer(model)
    encode = partial(tokenizer, add_special_tokens=False, split_special_tokens=True, verbose=False)
    counts_V, done = np.zeros(size, np.int64), 0
    remaining = iter(texts)
    while some := [*islice(remaining, TEXTS)]:
        ids = np.fromiter(chain.from_iterable(encode(some)["input_ids"]), np.int64)
        counts_V += np.bincount(ids, minlength=size)[:size]
        done += len(some)
        watch(Progress("count pieces", done, 0, "texts"))
    return counts_V


@dataclass(frozen=True, eq=False)
class _Pair:
    """A model beside the first one: of the pieces that both have, the first's rows (ascending) and the model's own."""

    table: Embeddings
    firsts_N: np.ndarray
    rows_N: np.ndarray
    distances_N: np.ndarray
    cosines_N: np.ndarray

    def place(self, row: int) -> int:
        """Which of the N pieces the first model's row is."""
        return int(np.searchsorted(self.firsts_N, row))


def _pairs(tables: Sequence[Embeddings]) -> tuple[list[_Pair], list[str]]:
    """The first model beside itself, then each other beside it; and why some could not be put there."""
    first, pairs, refused = tables[0], [], []
    for table in tables:
        try:
            pairs.append(_pair(first, table))
        except ValueError as error:
            refused.append(f"{str(error)[0].upper()}{str(error)[1:]}.")
    return pairs, refused


def _pair(first: Embeddings, table: Embeddings) -> _Pair:
    firsts_N, rows_N = shared_rows(first, table)
    return _Pair(table, firsts_N, rows_N, *row_distances(first.rows_VH[firsts_N], table.rows_VH[rows_N]))


def _furthest(first: Embeddings, counts_V: np.ndarray | None, pairs: Sequence[_Pair]) -> list[str]:
    """Of the COMMON most frequent words that all models have as a piece, the MARKED that some model moved furthest."""
    shared = set.intersection(*(set(pair.firsts_N.tolist()) for pair in pairs)) if pairs else set()
    found = [
        (word, row)
        for word, row in first.words.items()
        if row in shared and len(word) >= SHORTEST and word.lower() not in ENGLISH
    ]
    if counts_V is not None:
        occurring = [(word, row) for word, row in found if counts_V[row]]
        found = sorted(occurring, key=lambda entry: -counts_V[entry[1]])[:COMMON]
    by_distance = sorted(found, key=lambda entry: -max(pair.distances_N[pair.place(entry[1])] for pair in pairs))
    return [word for word, _ in by_distance[:MARKED]]


def _moved(pair: _Pair, first: Embeddings, counts_V: np.ndarray | None, marked: Sequence[str]) -> Moved:
    words = {word: float(pair.distances_N[pair.place(first.words[word])]) for word in marked}
    in_texts = None
    if counts_V is not None and (there := counts_V[pair.firsts_N] > 0).any():
        in_texts = summary(pair.distances_N[there], pair.cosines_N[there])
    return Moved(pair.table.name, summary(pair.distances_N, pair.cosines_N), in_texts, words)


def _panel(pair: _Pair, first: Embeddings, counts_V: np.ndarray | None, marked: Sequence[str], axes: Axes) -> Panel:
    places_N2 = axes.places(pair.table.rows_VH[pair.rows_N])
    at = {word: places_N2[pair.place(first.words[word])] for word in marked}
    in_texts_N = None if counts_V is None else counts_V[pair.firsts_N] > 0
    return Panel(pair.table.name, places_N2, in_texts_N, {word: (float(x), float(y)) for word, (x, y) in at.items()})


def _require_word(word: str, first: Embeddings, model: str) -> None:
    """Raises ValueError for a word that is no piece of the first model's vocabulary, with the pieces that it is of."""
    if word in first.words:
        return
    pieces = " ".join(load_tokenizer(model).tokenize(f" {word}"))
    raise ValueError(
        f"'{word}' is no single piece of the vocabulary of {first.name}, which reads it as {pieces}: only whole pieces "
        "have an embedding. Name other words"
    )
