"""What adapting did to a model's word embeddings: distances, main axes, neighbours, losses (docs/analyses.md).

Nishida et al. (2021, TAPTER), Figure 1 and Appendix B: the mean distance between the embeddings of two models, scatter
plots of their principal components, learning curves of both terms of the loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import cycle
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox

from acclimate.core.types import Progress, Watch, unwatched
from acclimate.models.loading import load_tokenizer, resolved, short_names
from acclimate.models.word_embeddings import (
    Axes,
    Distances,
    Embeddings,
    piece_counts,
    principal_axes,
    read_embeddings,
    row_distances,
    shared_rows,
    summary,
)
from acclimate.reports.curves import TERMS, Curve, both_sides, read_curve
from acclimate.reports.page import Drawing, Page, Section, TableCell, amount, page, sheet
from acclimate.reports.plots import CARD, HALF, INK, MUTED, PALETTE, STYLE, label_ends, svg
from acclimate.text.vectors.of_vocabulary import piece_texts
from acclimate.text.words import ENGLISH

COMMON = 500  # most frequent words of the texts, among which those that moved furthest are shown
SHORTEST = 3  # letters of the shortest word that is shown
UNRELATED = 0.1  # mean cosine below which neither of two models was trained from the other

MARKED = 10  # words that are shown
LOOKED_UP = 4  # of them, words whose neighbours are shown if the user names none
NEIGHBOURS = 6  # of each word
NEAR = ((1, 0), (-1, 0), (0.8, 0.8), (0.8, -0.8), (-0.8, 0.8), (-0.8, -0.8), (0, 1.2), (0, -1.2))
CLOSE = 12  # points from its dot at which a name needs no line
SHARP = 160  # dots an inch of the picture
GREY, BLUE, ORANGE = "#8b939c", "#2f8fd6", PALETTE[1]  # read on light and on dark ground
AROUND = [(reach * across, reach * up) for reach in (7, 16, 26, 36, 48, 60) for across, up in NEAR]  # points from a dot
MARGIN = 0.04
TITLE = "acclimate analyse embeddings"

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
class EmbeddingsAnalysis:
    """The models in their order; the others are compared with the first.

    refused     a sentence for each model that could not be compared, which has no Moved and no panel
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
        """Return the mean distances in a sentence."""
        if not self.moved:
            return f"No model here can be compared with {self.models[0]}."
        distances = ", ".join(f"{model.name} {model.everywhere.mean:#.3g}" for model in self.moved)
        return f"Mean distance of the word embeddings from those of {self.models[0]}: {distances}."

    def as_text(self) -> str:
        """Return the tables for a terminal, as `reports.page.page` does."""
        return page(TITLE, [section for section in self.sections() if section.rows or section.lines])

    def sections(self) -> list[Section]:
        return [self.distances(), self.furthest(), self.nearest(), self.losses()]

    def page(self) -> Page:
        """Return the HTML page: the tables, with a scatter plot of each model and the losses of each run."""
        distances, furthest, nearest, curves = self.sections()
        inside = f" Blue: it occurs in {self.source}; grey: it does not." if self.source else ""
        of = self.models[0] if self.axes_of == "first" else "all models"
        first, second = self.axes.explained
        lead = (
            f"Each dot is a piece of the vocabulary.{inside} The axes are the first two principal components of the "
            f"rows of {of}, and carry {first:.1%} and {second:.1%} of their variance; they and their limits are the "
            "same in all plots."
        )
        if furthest.rows:
            lead += (
                " Words with a name are those of the next table; a line leads from where "
                f"{self.models[0]} has a word to where this model has it."
            )
        sections = [distances, Section("Two components", lead=lead), furthest, nearest, curves]
        panels = [
            Drawing(panel.name, scatter(panel, self.panels[0], self.panels, self.axes, str(number)))
            for number, panel in enumerate(self.panels)
        ]
        figures = {"Two components": panels}
        if self.curves:
            figures[curves.title] = [Drawing("Both terms of the loss", losses(self.curves), wide=True)]
        return Page(
            "Word embeddings",
            self.verdict(),
            [section for section in sections if section.rows or section.lines or section.lead],
            figures=figures,
            alerts=[f"Not compared: {why}" for why in self.refused],
            source="After Nishida et al. (2021), Figure 1 and Appendix B.",
        )

    def distances(self) -> Section:
        """Return two lines for each model: for all pieces, and for those of the texts."""
        rows = []
        for model in self.moved:
            for where, moved in (("", model.everywhere), (", in the texts", model.in_texts)):
                if moved is not None:
                    figures = [moved.mean, moved.median, moved.nine_tenths]
                    cells = [*(f"{value:#.3g}" for value in figures), f"{moved.cosine:.4f}"]
                    rows.append((f"{model.name}{where}", f"{moved.pieces:,}", *cells))
        lines = [f"Euclidean distance of raw rows from those of {self.models[0]}, piece by piece."]
        if self.source:
            lines.append(f"In the texts: the pieces that occur in {self.source}.")
        lines += [
            f"{model.name}: the rows are unrelated to those of {self.models[0]} (mean cosine "
            f"{model.everywhere.cosine:.2f}). Neither model was trained from the other, so the distance is "
            "meaningless."
            for model in self.moved
            if model.everywhere.cosine < UNRELATED
        ]
        columns = ("model", "pieces", "mean", "median", "90th percentile", "mean cosine")
        lead = (
            "Each row of a model's table of word embeddings, beside the row of the same piece in the table of "
            f"{self.models[0]}. A row whose piece never occurs in the text that a model was trained on moves only by "
            "weight decay and, where the table is also the output layer, by being a wrong answer, which under Adam can "
            "be as far as any."
        )
        return Section("Distances", columns, tuple(rows), (*lines, *self.refused), lead=lead)

    def furthest(self) -> Section:
        """Return a line for each marked word: how often it occurs, how far each model moved it."""
        rows = [
            (
                word,
                *([f"{self.counts[word]:,}"] if self.source else []),
                *(f"{model.words[word]:#.3g}" for model in self.moved),
            )
            for word in self.counts
        ]
        among = f"Of the {COMMON} most frequent words of {self.source}" if self.source else "Of all words"
        lines = (f"{among} (one piece, {SHORTEST} letters or more, no function word), those that moved furthest.",)
        columns = ("word", *(["occurs"] if self.source else []), *(model.name for model in self.moved))
        return Section("Moved furthest", columns, tuple(rows), lines if rows else ())

    def nearest(self) -> Section:
        """Return a line for each word: its neighbours under each model; those that the first model lacks are marked."""
        rows = []
        for word, by_model in self.neighbours.items():
            before = [name for name, _ in by_model.get(self.models[0], ())]
            cells = [_neighbours(by_model.get(model, ()), before) for model in self.models]
            rows.append((word, *cells))
        lines = ("By the cosine of raw rows, nearest first, among pieces that are whole words.",) if rows else ()
        lead = f"Marked: not among the nearest under {self.models[0]}. Numbers are cosines." if rows else ""
        return Section("Nearest words", ("word", *self.models), tuple(rows), lines, lead=lead)

    def losses(self) -> Section:
        """Return a line for each term of each run: from where to where it fell."""
        rows = []
        for curve in self.curves:
            for term in TERMS:
                if train := curve.train.get(term):
                    dev = curve.dev.get(term, [])
                    ends = [f"{points[0][1]:.3f} to {points[-1][1]:.3f}" if points else "-" for points in (train, dev)]
                    rows.append((f"{curve.name}, {term}", f"{train[-1][0]:,.0f}", *ends))
        units = "; ".join(f"{term}: {unit}" for term, (_, unit) in TERMS.items())
        lines = (f"First to last value; {units}. Of a run that kept no curve, means of stretches of its log.",)
        lead = "What the terms of the loss were while adapting: full lines on what was trained on, broken ones on dev."
        columns = ("term", "steps", "train", "dev")
        return (
            Section("Learning curves", columns, tuple(rows), lines, lead=lead) if rows else Section("Learning curves")
        )

    def as_csv(self) -> str:
        """Return the distances unrounded, a line for each model and what they are taken over."""
        rows = [
            (model.name, self.models[0], where, *asdict(summary).values())
            for model in self.moved
            for where, summary in (("all", model.everywhere), ("texts", model.in_texts))
            if summary is not None
        ]
        return sheet(("model", "from", "over", *(field.name for field in fields(Distances))), rows)


def analyse_embeddings(
    models: Sequence[str | PathLike[str]],
    *,
    texts: Iterable[str] | None = None,
    source: str = "",
    words: Sequence[str] = (),
    axes_of: AxesOf = "first",
    watch: Watch = unwatched,
) -> EmbeddingsAnalysis:
    """Return the word embeddings of the models (directories or hub ids), each compared with the first one's.

    texts    of the domain, whose pieces are also measured separately; `source` is their name on the page
    words    whose neighbours are shown; none: some of those that moved furthest
    axes_of  the rows that the principal axes are fitted on: the first model's, or those of all

    All tables are held in memory together. Raises ValueError for fewer than two models, and for a word that is no
    piece of the first model's vocabulary; a model that cannot be compared is named in the result.
    """
    if len(models) < 2:
        raise ValueError(
            f"{amount(len(models), 'model')} given: name the reference model first, then the models to compare with it"
        )
    places = [resolved(model) for model in models]
    tables = []
    for number, (name, place) in enumerate(zip(short_names(models), places, strict=True)):
        tables.append(read_embeddings(name, place, piece_texts))
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
    return EmbeddingsAnalysis(
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


@dataclass(frozen=True, eq=False)
class _Pair:
    """A model beside the first one: of the pieces that both have, the first's rows (ascending) and the model's."""

    table: Embeddings
    firsts_N: np.ndarray
    rows_N: np.ndarray
    distances_N: np.ndarray
    cosines_N: np.ndarray

    def place(self, row: int) -> int:
        """Return the number, among the N pieces, of this row of the first model."""
        return int(np.searchsorted(self.firsts_N, row))


def _pairs(tables: Sequence[Embeddings]) -> tuple[list[_Pair], list[str]]:
    """Return the first model beside itself, then each other beside it; and why some could not be put there."""
    first, pairs, refused = tables[0], [], []
    for table in tables:
        try:
            firsts_N, rows_N = shared_rows(first, table)
            pairs.append(_Pair(table, firsts_N, rows_N, *row_distances(first.rows_VH[firsts_N], table.rows_VH[rows_N])))
        except ValueError as error:
            refused.append(f"{str(error)[0].upper()}{str(error)[1:]}.")
    return pairs, refused


def _furthest(first: Embeddings, counts_V: np.ndarray | None, pairs: Sequence[_Pair]) -> list[str]:
    """Return the MARKED words that some model moved furthest, of the COMMON most frequent that all have as a piece."""
    shared = set.intersection(*(set(pair.firsts_N.tolist()) for pair in pairs)) if pairs else set()
    rows = {word: row for word, row in first.words.items() if len(word) >= SHORTEST and word.lower() not in ENGLISH}
    occurring_most = [(word, row) for word, row in rows.items() if row in shared]
    if counts_V is not None:
        occurring = [(word, row) for word, row in occurring_most if counts_V[row]]
        occurring_most = sorted(occurring, key=lambda entry: -counts_V[entry[1]])[:COMMON]
    by_distance = sorted(
        occurring_most, key=lambda entry: -max(pair.distances_N[pair.place(entry[1])] for pair in pairs)
    )
    return [word for word, _ in by_distance[:MARKED]]


def _moved(pair: _Pair, first: Embeddings, counts_V: np.ndarray | None, marked: Sequence[str]) -> Moved:
    words = {word: float(pair.distances_N[pair.place(first.words[word])]) for word in marked}
    in_texts = None
    if counts_V is not None and (occurs_N := counts_V[pair.firsts_N] > 0).any():
        in_texts = summary(pair.distances_N[occurs_N], pair.cosines_N[occurs_N])
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
        f"'{word}' is not a single piece of the vocabulary of {first.name}, which splits it into {pieces}. Only "
        "whole pieces have an embedding: name other words"
    )


def write_page(path: Path, analysis: EmbeddingsAnalysis) -> Path:
    """Write the page and, beside it, the distances as CSV, each whole or not at all; return the path of the latter."""
    sheets = {path.with_suffix(".csv").name: analysis.as_csv()}
    return replace(analysis.page(), sheets=sheets).write(path)[1]


def _neighbours(neighbours: Sequence[tuple[str, float]], before: Sequence[str]) -> str | TableCell:
    """Return a cell with the neighbours' names; the page adds their cosines, and marks those not among `before`."""
    if not neighbours:
        return "-"
    runs = []
    for number, (name, cosine) in enumerate(neighbours):
        runs += [(name, name not in before), (f" {cosine:.2f}{', ' * (number < len(neighbours) - 1)}", False)]
    return TableCell(tuple(runs), plain=", ".join(name for name, _ in neighbours))


def scatter(panel: Panel, first: Panel, panels: Sequence[Panel], axes_: Axes, name: str) -> str:
    """Return a model's rows on the two principal axes, marked words with lines from where the first model has them.

    The limits are those of all `panels`. name: of the drawing, unique on its page.
    """
    places_N2 = np.concatenate([panel.places_N2 for panel in panels])
    low_2, high_2 = places_N2.min(axis=0), places_N2.max(axis=0)
    room_2 = MARGIN * np.maximum(high_2 - low_2, 1e-9)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(HALF, 4.4), dpi=SHARP, layout="constrained")
        labels = [f"component {number + 1} ({share:.1%} of variance)" for number, share in enumerate(axes_.explained)]
        axes = figure.add_subplot(xlabel=labels[0], ylabel=labels[1])
        axes.set(xlim=(low_2[0] - room_2[0], high_2[0] + room_2[0]), ylim=(low_2[1] - room_2[1], high_2[1] + room_2[1]))
        inside = panel.in_texts_N if panel.in_texts_N is not None else np.ones(len(panel.places_N2), bool)
        for points, colour, strength in ((~inside, GREY, 0.4), (inside, BLUE, 0.5)):
            dots_N2 = panel.places_N2[points]
            axes.plot(*dots_N2.T, ".", color=colour, alpha=strength, markersize=2.2, markeredgewidth=0, rasterized=True)
        for word, (x, y) in panel.marked.items():
            axes.plot(*zip(first.marked[word], (x, y), strict=True), color=MUTED, linewidth=1)
            axes.plot(x, y, "o", color=ORANGE, markeredgecolor=CARD, markersize=5.5)
        _label_dots(axes, panel.marked)
        marks = [f"{word} at {x:.3g}, {y:.3g}" for word, (x, y) in panel.marked.items()]
        marks = [f"{len(panel.places_N2):,} pieces", *marks]
        return svg(figure, f"scatter-{name}", f"Word embeddings of {panel.name} on two principal components", marks)


def losses(curves: Sequence[Curve]) -> str:
    """Return SVG of both terms of each run over its steps, a panel for each: train a full line, dev a broken one."""
    by_term = both_sides(curves)
    colours = {curve.name: colour for curve, colour in zip(curves, cycle(PALETTE))}
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(HALF + 2, 2.6 * len(by_term) + 0.4), layout="constrained")
        panels: Any = figure.subplots(len(by_term), 1, sharex=True, squeeze=False)
        marks = []
        for axes, (term, lines) in zip(panels[:, 0], by_term.items(), strict=True):
            axes.set_ylabel(TERMS[term][1])
            ends = []
            for name, points in lines.items():
                model, side = name.rsplit(", ", 1)
                across, up = np.array(points).T
                dash, dots = "--" if side == "dev" else "-", "o" if len(points) < 12 else ""
                axes.plot(across, up, dash, color=colours[model], marker=dots, markersize=4)
                ends.append((float(across[-1]), float(up[-1]), name, colours[model]))
                marks.append(f"{term} of {model} on {side}: {up[0]:.4g} to {up[-1]:.4g}")
            axes.margins(x=0.02)
            axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
            label_ends(axes, ends)
        panels[-1, 0].set_xlabel("steps")
        panels[-1, 0].xaxis.set_major_locator(MaxNLocator(integer=True))
        return svg(figure, "losses", "Both terms of the loss while adapting", marks)


def _label_dots(axes: Any, dots: Mapping[str, tuple[float, float]]) -> None:
    """Write each name at the first place of AROUND where it meets no dot and no name; a line leads to a far one."""
    axes.figure.draw_without_rendering()
    pixel = axes.figure.dpi / 72
    at = [axes.transData.transform(place) for place in dots.values()]
    boxes = [Bbox.from_bounds(x - 4 * pixel, y - 4 * pixel, 8 * pixel, 8 * pixel) for x, y in at]
    line = {"arrowstyle": "-", "color": INK, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
    for word, place in dots.items():
        text = axes.annotate(word, place, (0, 0), textcoords="offset points", va="center", fontsize=9)
        text.set_in_layout(False)  # the layout is settled, or the dots would move away from the places just tried
        for across, up in AROUND:
            side = "left" if across > 0 else "right" if across < 0 else "center"
            text.set(position=(across, up), horizontalalignment=side)
            box = text.get_window_extent()
            if axes.bbox.containsx(box.x0) and axes.bbox.containsx(box.x1) and not any(map(box.overlaps, boxes)):
                break
        boxes.append(box)
        if max(abs(across), abs(up)) > CLOSE:
            axes.annotate("", place, (across, up), textcoords="offset points", arrowprops=line).set_in_layout(False)
