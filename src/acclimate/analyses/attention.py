"""Positional and vertical heads of encoders, counted, each beside a twin of random weights (docs/analyses.md).

Yao et al. (2022), section 4.4.1: a head is positional where at least 90% of its maxima fall on adjacent tokens, and
vertical where more than 90% fall on [CLS], [SEP] or the period. What counts as a maximum: models/attention.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from acclimate.analyses.head_plots import CELL, WIDE, heads_axes
from acclimate.analyses.texts import ids_of, longest_row, put_around
from acclimate.core.figures import percent
from acclimate.core.types import Progress, Watch, unwatched
from acclimate.models.attention import Marks, Maxima, attention_of, find_maxima, show_attention
from acclimate.models.encoder import load_masked_language_model, random_twin
from acclimate.models.loading import load_tokenizer, resolved, short_names
from acclimate.reports.page import Drawing, Page, Section, TableCell, page, share
from acclimate.reports.plots import INK, MUTED, PALETTE, STYLE, svg

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

COMMAND = "acclimate analyse heads"
CONTINUED = "##"  # WordPiece's mark before a piece that continues a word
SPACES = "\u0120\u2581"  # marks before a piece that begins a word: byte-level tokenizers' and SentencePiece's
SHARE = 0.9  # a head is positional from this share of its maxima on, and vertical above it
POSITIONAL, VERTICAL, BOTH, OTHER = "positional", "vertical", "both", "other"
EXAMPLE_WORDS, EXAMPLE_TOKENS = 8, 24  # length of the text that is drawn; the paper's have 7 to 10 words

BLUE, ORANGE, PURPLE = PALETTE[0], PALETTE[4], PALETTE[3]
# kind -> letter, colours of its cell and of the letter, and frame of its map: kinds differ by more than colour
LOOKS: dict[str, tuple[str, str, str, tuple[float, str]]] = {
    POSITIONAL: ("P", BLUE, "#ffffff", (2.4, "-")),
    VERTICAL: ("V", ORANGE, "#000000", (1.6, ":")),
    BOTH: ("PV", PURPLE, "#000000", (2.0, "--")),
}
PLACES = {-1: "\N{MINUS SIGN}1", 1: "+1", 0: "\N{PLUS-MINUS SIGN}1"}
SMALLEST, LARGEST_MAP = 0.62, 1.9  # inches of a head's map
GAP = 2  # tokens between maps
SHADE = "#2f8fd6"  # colour of a weight of 1; its contrast is 3 to 1 on a light page and on a dark one


@dataclass(frozen=True, eq=False)
class AttentionExample:
    """One text for the drawings: its tokens as they are written, and the (L, H, T, T) attention weights."""

    tokens: tuple[str, ...]
    weights: np.ndarray


@dataclass(frozen=True, eq=False)
class Heads:
    """The heads of one encoder. twin: True if its weights are random, in the architecture of the model `name`."""

    name: str
    maxima: Maxima
    example: AttentionExample
    twin: bool = False

    @property
    def title(self) -> str:
        return f"{self.name}, random weights" if self.twin else self.name

    @property
    def before(self) -> np.ndarray:
        """(L, H) shares of maxima on the token before."""
        return np.asarray(self.maxima.previous_LH / self.maxima.queries)

    @property
    def after(self) -> np.ndarray:
        """(L, H) shares of maxima on the token after."""
        return np.asarray(self.maxima.next_LH / self.maxima.queries)

    @property
    def positional(self) -> np.ndarray:
        """(L, H) shares of maxima on either."""
        return np.asarray((self.maxima.previous_LH + self.maxima.next_LH) / self.maxima.queries)

    @property
    def vertical(self) -> np.ndarray:
        """(L, H) shares of maxima on [CLS], [SEP] or a period."""
        return np.asarray(self.maxima.marked_LH / self.maxima.queries)

    @property
    def one_place(self) -> np.ndarray:
        """(L, H) -1 or 1 where at least 90% of the maxima fall on the token before, or on the one after; else 0.

        That is Voita et al.'s definition of a positional head: "a specific relative position".
        """
        return np.asarray((self.after >= SHARE).astype(int) - (self.before >= SHARE).astype(int))

    @property
    def kinds(self) -> np.ndarray:
        """(L, H) POSITIONAL, VERTICAL, BOTH or OTHER."""
        positional, vertical = self.positional >= SHARE, self.vertical > SHARE
        return np.select([positional & vertical, positional, vertical], [BOTH, POSITIONAL, VERTICAL], OTHER)

    def count(self) -> Counter[str]:
        return Counter(self.kinds.ravel().tolist())


@dataclass(frozen=True)
class AttentionAnalysis:
    """The heads of each model and of its twin after it, over the same texts of at most `max_tokens` tokens."""

    heads: tuple[Heads, ...]
    source: str
    max_tokens: int
    seed: int

    def verdict(self) -> str:
        """Return the counts in a sentence."""
        models = [heads for heads in self.heads if not heads.twin]
        figures = "; ".join(f"{heads.name}: {_counted(heads)}" for heads in models)
        control = "; ".join(_counted(heads) for heads in self.heads if heads.twin)
        return f"{figures}. With random weights: {control}."

    def as_text(self) -> str:
        """Return the counts for a terminal, as `reports.page.page` does."""
        return page(COMMAND, [self.totals(), self.layers()])

    def page(self) -> Page:
        """Return the HTML page, with the drawings of each encoder's heads."""
        kinds, maps = [], []
        for number, heads in enumerate(self.heads):
            wide = heads.kinds.shape[1] > WIDE
            kinds.append(Drawing(heads.title, kinds_of_heads(heads, str(number))))
            tokens = " ".join(heads.example.tokens)
            maps.append(Drawing(heads.title, maps_of_heads(heads, str(number)), wide, lead=tokens))
        example = Section(
            "One text",
            lead="Each small map is a head: a row for each token of the text from above, a column for each token it "
            "looks at from the left; the fuller the colour, the larger the weight. Framed by a thick line: positional; "
            "by a dotted one: vertical; by a broken one: both. What a head is called comes from all texts, not from "
            "this one.",
        )
        every = Section("Every head", parts=tuple(map(_every_head, self.heads)))
        return Page(
            "Where heads look",
            self.verdict(),
            [self.totals(), self.layers(), example, every],
            figures={"Layer by layer": kinds, "One text": maps},
            source="Definitions: Yao et al. (2022), section 4.4.1, after Voita et al. (2019), Kovaleva et al. (2019).",
        )

    def totals(self) -> Section:
        """Return a line for each encoder."""
        rows = []
        for heads in self.heads:
            positional, vertical = _both_counts(heads.count())
            adjacent, marked = heads.maxima.by_chance
            cells = (positional, np.count_nonzero(heads.one_place), vertical)
            shares = (heads.positional.mean(), adjacent, heads.vertical.mean(), marked)
            rows.append((heads.title, f"{heads.kinds.size:,}", *map(str, cells), *map(share, shares)))
        counted = ("model", "heads", "positional", "in one place", "vertical")
        columns = (*counted, "maxima on neighbours", "by chance", "on marks", "by chance")
        first = self.heads[0].maxima
        lines = (
            f"Counted over {first.texts:,} texts ({first.queries:,} tokens) of {self.source}.",
            "positional: at least 90% of a head's maxima on adjacent tokens; in one place: on the token before, or on "
            "the one after; vertical: more than 90% on marks, which are [CLS], [SEP] and the period (Yao et al. 2022).",
            "Random weights are the control: training is not needed for what they also show.",
        )
        lead = (
            "A head is classified by the position of the largest weight of each token. Texts are read up to "
            f"{self.max_tokens:,} tokens; special tokens and padding are not counted as queries. By chance: the "
            "share if maxima were at random positions."
        )
        return Section("Heads", columns, tuple(rows), lines, lead=lead)

    def layers(self) -> Section:
        """Return a line for each layer: positional and vertical heads of each encoder."""
        deepest = max(len(heads.kinds) for heads in self.heads)
        rows = []
        for layer in range(deepest):
            cells = [str(layer + 1)]
            for heads in self.heads:
                counts = Counter(heads.kinds[layer].tolist()) if layer < len(heads.kinds) else None
                cells.append("-" if counts is None else " / ".join(map(str, _both_counts(counts))))
            rows.append(tuple(cells))
        lines = ("Positional / vertical heads of each layer.",)
        lead = (
            f"P: positional, with the place it looks at ({PLACES[-1]} the token before, {PLACES[1]} the one after, "
            f"{PLACES[0]} either). V: vertical. PV: both. Blank: neither. Random weights are drawn with the seed "
            f"{self.seed}."
        )
        columns = ("layer", *(heads.title for heads in self.heads))
        return Section("Layer by layer", columns, tuple(rows), lines, lead=lead)


def analyse_heads(
    models: Sequence[str | PathLike[str]],
    texts: Sequence[str],
    *,
    source: str,
    max_tokens: int = 128,
    seed: int = 0,
    watch: Watch = unwatched,
) -> AttentionAnalysis:
    """Return the heads of each model (a directory or hub id) and of a twin with random weights, over these texts.

    source      name of the texts on the page
    max_tokens  number of tokens to read of a text, special ones included; fewer if the model reads fewer
    seed        of the random weights
    """
    if not texts:
        raise ValueError("no texts given, but heads are judged by their attention on texts. Give some")
    analysed = []
    for name, model_path in zip(short_names(models), models, strict=True):
        where = resolved(model_path)
        tokenizer = load_tokenizer(where)
        longest = longest_row(name, where, tokenizer, max_tokens)
        for twin in (False, True):
            model = random_twin(where, seed=seed) if twin else load_masked_language_model(where)
            analysed.append(_heads(name, model, tokenizer, texts, longest, twin=twin, watch=watch))
    return AttentionAnalysis(tuple(analysed), source, max_tokens, seed)


def _heads(
    name: str,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    longest: int,
    *,
    twin: bool,
    watch: Watch,
) -> Heads:
    show_attention(model)
    stage = f"attention of {name}, random weights" if twin else f"attention of {name}"
    maxima = find_maxima(
        model,
        ids_of(texts, tokenizer, longest),
        marks_of(tokenizer, model.config.vocab_size),
        watch=lambda count: watch(Progress(stage, count, len(texts), "texts")),
    )
    drawn = min(texts, key=lambda text: abs(len(text.split()) - EXAMPLE_WORDS))
    [ids] = ids_of([drawn], tokenizer, min(longest, EXAMPLE_TOKENS))
    return Heads(name, maxima, AttentionExample(spelt(tokenizer, ids), attention_of(model, ids)), twin)


def _counted(heads: Heads) -> str:
    positional, vertical = _both_counts(heads.count())
    return f"{positional} of {heads.kinds.size} heads positional, {vertical} vertical"


def _both_counts(kinds: Mapping[str, int]) -> tuple[int, int]:
    """Return the numbers of positional and of vertical heads; a head that is both counts in both."""
    return kinds.get(POSITIONAL, 0) + kinds.get(BOTH, 0), kinds.get(VERTICAL, 0) + kinds.get(BOTH, 0)


def write_page(path: Path, analysis: AttentionAnalysis) -> Path:
    """Write the page, whole or not at all, and return its path."""
    return analysis.page().write(path)[0]


def _every_head(heads: Heads) -> Section:
    shares = heads.before, heads.after, heads.vertical
    rows: tuple[tuple[str | TableCell, ...], ...] = tuple(
        (
            f"layer {layer + 1}, head {head + 1}",
            f"{layer + 1}",
            *(TableCell(percent(float(shares_LH[layer, head])), float(shares_LH[layer, head])) for shares_LH in shares),
            str(kind),
        )
        for (layer, head), kind in np.ndenumerate(heads.kinds)
    )
    columns = ("Head", "Layer", "Token before", "Token after", "[CLS], [SEP], period", "Kind")
    return Section(heads.title, columns, rows, ("Shares of each head's maxima.",), fold="closed", most=len(rows))


def kinds_of_heads(heads: Heads, name: str) -> str:
    """Return SVG with a cell for each head, layers from above: P positional, with its place, V vertical, PV both.

    name: of the drawing, unique on its page.
    """
    layers, across = heads.kinds.shape
    with matplotlib.rc_context(STYLE):
        figure, axes = heads_axes(layers, across, CELL)
        for (layer, head), kind in np.ndenumerate(heads.kinds):
            corner = (head - 0.44, layer - 0.44)
            if kind == OTHER:
                axes.add_patch(
                    Rectangle(corner, 0.88, 0.88, facecolor="none", edgecolor=MUTED, linewidth=0.7, alpha=0.6)
                )
                continue
            letter, colour, ink, _ = LOOKS[kind]
            axes.add_patch(Rectangle(corner, 0.88, 0.88, facecolor=colour, edgecolor="none"))
            place = PLACES[int(heads.one_place[layer, head])] if kind == POSITIONAL else ""
            axes.text(
                head, layer, f"{letter}{place}", ha="center", va="center", color=ink, fontweight="bold", fontsize=8.5
            )
        return svg(figure, f"kinds-{name}", f"Kinds of the heads of {heads.title}", describe_heads(heads))


def maps_of_heads(heads: Heads, name: str) -> str:
    """Return SVG of the weights over the example, a framed map for each head: rows are queries, columns keys."""
    weights = heads.example.weights
    layers, across, tokens, _ = weights.shape
    pitch = tokens + GAP
    shades = np.zeros((layers * pitch - GAP, across * pitch - GAP))
    for (layer, head), _ in np.ndenumerate(heads.kinds):
        shades[layer * pitch :, head * pitch :][:tokens, :tokens] = weights[layer, head]
    size = float(np.clip(7.0 / across, SMALLEST, LARGEST_MAP))
    with matplotlib.rc_context(STYLE):
        figure, axes = heads_axes(layers, across, size)
        picture = np.zeros((*shades.shape, 4))
        picture[..., :3], picture[..., 3] = to_rgb(SHADE), shades  # the page shows through a weight of 0
        margin = tokens / pitch / 2
        extent = (-margin, across - 1 + margin, layers - 1 + margin, -margin)
        axes.imshow(picture, extent=extent, interpolation="none", aspect="auto")
        for (layer, head), kind in np.ndenumerate(heads.kinds):
            width, line = LOOKS[kind][3] if kind != OTHER else (0.6, "-")
            ink = MUTED if kind == OTHER else INK
            corner = (head - margin, layer - margin)
            axes.add_patch(
                Rectangle(
                    corner, 2 * margin, 2 * margin, facecolor="none", edgecolor=ink, linewidth=width, linestyle=line
                )
            )
        axes.set_xlim(-0.5, across - 0.5)
        axes.set_ylim(layers - 0.5, -0.5)
        title = f"Attention of {heads.title} over: {' '.join(heads.example.tokens)}"
        return svg(figure, f"maps-{name}", title, describe_heads(heads))


def describe_heads(heads: Heads) -> list[str]:
    """Return a phrase for each head that is positional or vertical."""
    named = np.argwhere(heads.kinds != OTHER)
    phrases = []
    for layer, head in named.tolist():
        parts = []
        if heads.kinds[layer, head] in (POSITIONAL, BOTH):
            parts.append(f"positional, {heads.positional[layer, head]:.0%} on neighbours")
        if heads.kinds[layer, head] in (VERTICAL, BOTH):
            parts.append(f"vertical, {heads.vertical[layer, head]:.0%} on marks")
        phrases.append(f"layer {layer + 1}, head {head + 1}: {' and '.join(parts)}")
    others = heads.kinds.size - len(named)
    return [*phrases, f"{others} of {heads.kinds.size} heads neither"]


def marks_of(tokenizer: PreTrainedTokenizerBase, vocabulary: int) -> Marks:
    """Return the marks: [CLS] and [SEP], or what stands in their places, and every piece that is a period alone."""
    ends, periods = np.zeros(vocabulary, bool), np.zeros(vocabulary, bool)
    ends[put_around(tokenizer)] = True
    spelt_so = [number for piece, number in tokenizer.get_vocab().items() if _bare(piece) == "."]
    periods[[number for number in spelt_so if number < vocabulary]] = True
    return Marks(ends, periods)


def spelt(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> tuple[str, ...]:
    """Return the text of each token; an open box for white space."""
    return tuple(str(tokenizer.decode([number])).strip() or "\N{OPEN BOX}" for number in ids)


def _bare(piece: str) -> str:
    return piece.removeprefix(CONTINUED).lstrip(SPACES)
