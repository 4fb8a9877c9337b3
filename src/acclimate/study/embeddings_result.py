"""What is known of several models' word embeddings beside the first one's, as values, sections of a page and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Literal

import numpy as np

from acclimate.study.embedding_curves import TERMS, Curve
from acclimate.study.typeset import Section, page
from acclimate.study.word_embeddings import Axes, Distances

COMMON = 500  # words of the texts, the most frequent ones, among which those that moved furthest are shown
SHORTEST = 3  # letters of a word that is shown
UNRELATED = 0.1  # mean cosine under which rows of two models have nothing to do with each other

AxesOf = Literal["first", "all"]


@dataclass(frozen=True, eq=False)
class Panel:
    """Where a model's rows lie on the common axes.

    places_N2   of the pieces that it shares with the first model
    in_texts_N  whether each occurs in the texts; None without texts
    marked      word -> its place
    """

    name: str
    places_N2: np.ndarray
    in_texts_N: np.ndarray | None
    marked: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Moved:
    """How far a model's word embeddings lie from those of the first model.

    everywhere  over all pieces that they share
    in_texts    over those of them that occur in the texts; None without texts
    words       distance of each marked word
    """

    name: str
    everywhere: Distances
    in_texts: Distances | None
    words: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Analysis:
    """Of the models in their order, the first of which the others are compared with.

    refused     why a model could not be compared, in sentences; it has no Moved and no panel
    counts      marked word -> how often it occurs in the texts, 0 without texts
    neighbours  word -> model -> its nearest words, nearest first; without the models that have no such word
    """

    models: tuple[str, ...]
    moved: tuple[Moved, ...]
    refused: tuple[str, ...]
    axes: Axes
    axes_of: AxesOf
    panels: tuple[Panel, ...]
    counts: Mapping[str, int]
    neighbours: Mapping[str, Mapping[str, Sequence[tuple[str, float]]]]
    curves: tuple[Curve, ...]
    source: str

    def verdict(self) -> str:
        """The mean distances in a sentence."""
        if not self.moved:
            return f"No model here can be compared with {self.models[0]}."
        said = ", ".join(f"{each.name} {each.everywhere.mean:#.3g}" for each in self.moved)
        return f"Mean distance of the word embeddings from those of {self.models[0]}: {said}."

    def as_text(self) -> str:
        """The page for a terminal, at most 110 columns wide."""
        return page("acclimate embeddings", [each for each in self.sections() if each.rows or each.lines])

    def sections(self) -> list[Section]:
        return [self.distances(), self.furthest(), self.nearest(), self.losses()]

    def distances(self) -> Section:
        """Two lines for each model: all pieces, and those of the texts."""
        rows = []
        for each in self.moved:
            for where, found in (("", each.everywhere), (", in the texts", each.in_texts)):
                if found is not None:
                    figures = [found.mean, found.median, found.nine_tenths]
                    cells = [*(f"{value:#.3g}" for value in figures), f"{found.cosine:.4f}"]
                    rows.append((f"{each.name}{where}", f"{found.pieces:,}", *cells))
        lines = [f"Euclidean distance of raw rows from those of {self.models[0]}, piece by piece."]
        if self.source:
            lines.append(f"In the texts: the pieces that occur in {self.source}.")
        lines += [
            f"{each.name}: the rows have nothing to do with those of {self.models[0]} (mean cosine "
            f"{each.everywhere.cosine:.2f}): neither was trained from the other, and the distance says nothing."
            for each in self.moved
            if each.everywhere.cosine < UNRELATED
        ]
        columns = ("model", "pieces", "mean", "median", "90th percentile", "mean cosine")
        return Section("Distances", columns, tuple(rows), (*lines, *self.refused))

    def furthest(self) -> Section:
        """A line for each marked word: how often it occurs, how far each model moved it."""
        rows = [
            (
                word,
                *([f"{self.counts[word]:,}"] if self.source else []),
                *(f"{each.words[word]:#.3g}" for each in self.moved),
            )
            for word in self.counts
        ]
        among = f"Of the {COMMON} most frequent words of {self.source}" if self.source else "Of all words"
        lines = (f"{among} (one piece, {SHORTEST} letters or more, no function word), those that moved furthest.",)
        columns = ("word", *(["occurs"] if self.source else []), *(each.name for each in self.moved))
        return Section("Moved furthest", columns, tuple(rows), lines if rows else ())

    def nearest(self) -> Section:
        """A line for each word: its neighbours under each model."""
        rows = [
            (word, *(", ".join(name for name, _ in by_model.get(model, ())) or "-" for model in self.models))
            for word, by_model in self.neighbours.items()
        ]
        lines = ("By the cosine of raw rows, nearest first, among pieces that are whole words.",) if rows else ()
        return Section("Nearest words", ("word", *self.models), tuple(rows), lines)

    def losses(self) -> Section:
        """A line for each term of each run: from where to where it fell."""
        rows = []
        for curve in self.curves:
            for term in TERMS:
                if own := curve.train.get(term):
                    dev = curve.dev.get(term, [])
                    ends = [f"{points[0][1]:.3f} to {points[-1][1]:.3f}" if points else "-" for points in (own, dev)]
                    rows.append((f"{curve.name}, {term}", f"{own[-1][0]:,.0f}", *ends))
        units = "; ".join(f"{term}: {unit}" for term, unit in TERMS.items())
        lines = (f"First to last value; {units}. Of a run that kept no curve, means of stretches of its log.",)
        return Section("Learning curves", ("term", "steps", "train", "dev"), tuple(rows), lines if rows else ())

    def as_csv(self) -> str:
        """The distances unrounded, a line for each model and what they are taken over."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["model", "from", "over", *(field.name for field in fields(Distances))])
        for each in self.moved:
            for where, found in (("all", each.everywhere), ("texts", each.in_texts)):
                if found is not None:
                    writer.writerow([each.name, self.models[0], where, *asdict(found).values()])
        return file.getvalue()
