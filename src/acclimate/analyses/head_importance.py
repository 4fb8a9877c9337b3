"""Importance of a model's heads on the text of several domains, and how far these agree (docs/analyses.md).

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge" (DGA), section 4.3: head importance
(methods/importance.py) on each domain's text, the mean cosine similarity of each with every other, and how many heads
are heavily and moderately protected.

Shape suffixes: K domains, L layers, H heads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from acclimate.analyses.head_agreement import (
    HEAVILY,
    MODERATELY,
    Agreement,
    Chance,
    NoiseFigures,
    View,
    agreements,
    noise_figures,
)
from acclimate.analyses.head_plots import WIDE, heat_map, scale
from acclimate.analyses.texts import ids_of, longest_row, sample_texts
from acclimate.core.types import Batch, Watch, counted, unwatched
from acclimate.methods.importance import head_importance, normalised
from acclimate.methods.recipes.dga import How, Over
from acclimate.models.encoder import load_masked_language_model
from acclimate.models.gates import gate_shape
from acclimate.models.loading import load_tokenizer, resolved, short_names
from acclimate.reports.page import Drawing, Page, Section, amount, page, share, sheet
from acclimate.training.gradients import noise_seed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LISTED = 10  # most and least important heads that are listed
BATCH = 32  # texts in a batch
TITLES: dict[View, str] = {
    "normalised": "Cosine of normalised importance",
    "raw": "Cosine of importance",
    "rank": "Rank correlation",
    "rank in layers": "Rank correlation within layers",
}
SHUFFLED: dict[Over, str] = {"layer": "within each layer", "model": "over the whole model"}
HOW: dict[How, str] = {
    "paper": "|tanh z| (Eq. 10)",
    "min-max": "0 for the least important, 1 for the most",
    "rank": "the share of the others that are less important",
}


@dataclass(frozen=True, eq=False)
class Domain:
    """The importance of each head on one domain's text.

    source         the file or folder, for people
    texts, tokens  that were read, special tokens included
    normalised_LH  between 0 and 1: how far a head is protected
    halves_2LH     importance on every other text, and on the rest
    """

    name: str
    source: str
    texts: int
    tokens: int
    importance_LH: np.ndarray
    normalised_LH: np.ndarray
    halves_2LH: np.ndarray

    @property
    def relative_LH(self) -> np.ndarray:
        """Importance as a multiple of its mean over the heads; 0 where no head has any."""
        mean = float(self.importance_LH.mean())
        return self.importance_LH / mean if mean else self.importance_LH

    def share(self, limits: tuple[float, float]) -> float:
        """Return the share of heads whose normalised importance is at least the first limit and under the second."""
        return float(self._head_mask(limits).mean())

    def share_below_mean(self, over: Over) -> float | None:
        """Return the share of the heavily protected heads that is below the mean; None if none is protected."""
        mean = self.importance_LH.mean(axis=1 if over == "layer" else None, keepdims=True)
        heavily = self._head_mask(HEAVILY)
        return float((self.importance_LH < mean)[heavily].mean()) if heavily.any() else None

    def _head_mask(self, limits: tuple[float, float]) -> np.ndarray:
        return (self.normalised_LH >= limits[0]) & (self.normalised_LH < limits[1])


@dataclass(frozen=True, eq=False)
class ImportanceAnalysis:
    """How far domains agree on which heads matter. max_tokens: number of tokens read of a text at most."""

    model: str
    domains: tuple[Domain, ...]
    how: How
    over: Over
    max_tokens: int
    agreements: Mapping[View, Sequence[Agreement]]
    noise: NoiseFigures

    def verdict(self) -> str:
        """Return two sentences: cosine and rank correlation between domains, each beside its value by chance."""
        cosine, rank = self.agreements["normalised"], self.agreements["rank"]
        shuffled = np.mean([agreement.shuffled.mean for agreement in cosine])
        return (
            f"Normalised importance has a cosine of {_span_text(agreement.others for agreement in cosine)} with other "
            f"domains, and {shuffled:.2f} when shuffled. The rank correlation is "
            f"{_span_text(agreement.others for agreement in rank)}, by chance 0, and between halves of a domain "
            f"{_span_text(agreement.halves for agreement in rank)}."
        )

    def as_text(self) -> str:
        """Return the tables for a terminal, as `reports.page.page` does."""
        parts = [self.read(), *map(self.agreement, self.agreements), self.protected(), *self.listed()]
        return page("acclimate analyse importance", parts)

    def page(self) -> Page:
        """Return the HTML page: the tables, with a heat map of each domain's heads, all on one scale."""
        most = max(float(domain.relative_LH.max()) for domain in self.domains)
        label = "importance, multiple of the mean"
        protected = [Drawing("Colours", scale(1.0, "normalised-scale", "normalised importance"), wide=True)]
        raw = [Drawing("Colours", scale(most, "relative-scale", label), wide=True)]
        for number, domain in enumerate(self.domains):
            wide = domain.importance_LH.shape[1] > WIDE
            title = f"Normalised importance of heads on {domain.name}"
            svg = heat_map(domain.normalised_LH, 1.0, f"normalised-{number}", title, _share_text)
            protected.append(Drawing(domain.name, svg, wide))
            title = f"Importance of heads on {domain.name}, as a multiple of the mean"
            svg = heat_map(domain.relative_LH, most, f"relative-{number}", title, "{:.1f}".format)
            raw.append(Drawing(domain.name, svg, wide))
        agreement = Section(
            "Agreement",
            lead="With the others: the mean over the other domains. Shuffled: the same for each domain's values in "
            "random order, the mean and what lies between 2.5% and 97.5% of 1,000 draws. Between its halves: the same "
            "figure, of every other text and the rest; where it is no higher than that with the others, the domains do "
            "not differ by more than the choice of texts and of dropout does.",
            parts=tuple(map(self.agreement, self.agreements)),
        )
        lead = "Before normalisation, as a multiple of the mean over all heads."
        importance = Section("Importance", lead=lead, parts=self.listed())
        every = Section("Every head", parts=(self.every_head(),), id="heads")
        return Page(
            "Head importance",
            self.verdict(),
            [self.read(), agreement, self.protected(), importance, every],
            figures={"Protected heads": protected, "Importance": raw},
            source="After Ke et al. (2022), section 4.3.",
        )

    def read(self) -> Section:
        """Return a line for each domain: what was read."""
        rows = [(domain.name, domain.source, f"{domain.texts:,}", f"{domain.tokens:,}") for domain in self.domains]
        layers, heads = self.domains[0].importance_LH.shape
        lines = (
            f"{self.model}: {layers} layers of {amount(heads, 'head')}. Texts are drawn evenly and read up to "
            f"{self.max_tokens} tokens.",
            f"Normalised {SHUFFLED[self.over]}: {HOW[self.how]}.",
        )
        return Section("Domains", ("domain", "of", "texts", "tokens"), tuple(rows), lines)

    def agreement(self, view: View) -> Section:
        """Return a line for each domain: how similar its importances are to the others', its halves to each other."""
        rows = [
            (domain.name, _figure(agreement.others), *_chance(agreement.shuffled), _figure(agreement.halves))
            for domain, agreement in zip(self.domains, self.agreements[view], strict=True)
        ]
        lines = {
            "normalised": (
                "Section 4.3 of the paper has .89 to .92, of six domains, and no figure for chance. Shuffled: "
                f"each domain's values, {SHUFFLED[self.over]} in random order. Normal noise in place of "
                f"importances has {_figure(self.noise.cosine.mean)} ({' to '.join(_chance(self.noise.cosine)[1:])}).",
            ),
            "raw": ("Before normalisation. Importances are positive, so chance gives more than 0.",),
            "rank": ("Spearman's, before normalisation, over all heads: 0 by chance.",),
            "rank in layers": (
                "Spearman's, of ranks among the heads of the same layer: what is left once layers are alike.",
            ),
        }[view]
        columns = ("domain", "with the others", "shuffled", "95% from", "to", "between its halves")
        return Section(TITLES[view], columns, tuple(rows), lines)

    def protected(self) -> Section:
        """Return a line for each domain, and one for noise: the shares of heads that the soft mask holds back."""
        rows = []
        for domain in self.domains:
            below = domain.share_below_mean(self.over)
            heavily, moderately = share(domain.share(HEAVILY)), share(domain.share(MODERATELY))
            rows.append((domain.name, heavily, moderately, "-" if below is None else share(below)))
        rows.append(("normal noise", _shares(self.noise.heavily), _shares(self.noise.moderately), "-"))
        lines = [
            "Heavily: normalised importance of at least .8; moderately: .6 to .8. Around 20% and another 20% in the "
            "paper."
        ]
        if self.how == "paper":
            lines.append(
                "|tanh z| is as large for a head far less important than the mean as for one far more important. "
                "Of noise, half of the heavily protected lie below the mean."
            )
        columns = ("domain", "heavily", "moderately", "heavily, but less important than the mean")
        lead = "The soft mask multiplies a head's gradients by one less its normalised importance."
        return Section("Protected heads", columns, tuple(rows), tuple(lines), lead=lead)

    def listed(self) -> tuple[Section, Section]:
        """Return the heads that are the most important ones, and the least important ones, by their mean rank."""
        order = self.heads_by_rank()
        listed = min(LISTED, len(order) // 2)
        columns = ("head", *(domain.name for domain in self.domains))
        meant = "Importance as a multiple of the mean over all heads, and normalised (in brackets)"
        most, least = (tuple(map(self._head, heads)) for heads in (order[:listed], order[: -listed - 1 : -1]))
        highest, lowest = "First: the highest mean rank over the domains.", "First: the lowest mean rank."
        return (
            Section("Most important heads", columns, most, (f"{meant}. {highest}",)),
            Section("Least important heads", columns, least, (f"{meant}. {lowest}",)),
        )

    def every_head(self) -> Section:
        """Return a line for each head, in the order of their mean rank."""
        rows = []
        for place in self.heads_by_rank():
            pairs = [(f"{one.relative_LH[place]:.2f}", f"{one.normalised_LH[place]:.3f}") for one in self.domains]
            rows.append((_place_text(place), f"{place[0] + 1}", *chain(*pairs)))
        names = (name for domain in self.domains for name in (domain.name, f"{domain.name}, normalised"))
        columns, lines = ("Head", "Layer", *names), ("Importance as a multiple of the mean, and normalised.",)
        return Section("In the order of their mean rank", columns, tuple(rows), lines, fold="closed", most=len(rows))

    def heads_by_rank(self) -> list[tuple[int, int]]:
        """(layer, head) of all heads from 0, by falling mean over domains of the rank of their importance."""
        ranks = [domain.importance_LH.argsort(axis=None).argsort() for domain in self.domains]
        order = np.argsort(-np.mean(ranks, axis=0), kind="stable")
        heads = self.domains[0].importance_LH.shape[1]
        return [(int(place) // heads, int(place) % heads) for place in order]

    def as_csv(self) -> str:
        """Return the figures unrounded, a line for each domain and view."""
        rows = [
            (domain.name, view, one.others, one.shuffled.mean, one.shuffled.low, one.shuffled.high, one.halves)
            for view, agreements in self.agreements.items()
            for domain, one in zip(self.domains, agreements, strict=True)
        ]
        return sheet(("domain", "view", "others", "shuffled", "shuffled_low", "shuffled_high", "halves"), rows)

    def heads_as_csv(self) -> str:
        """Return the importances unrounded, a line for each domain and head; layers and heads count from 1."""
        rows = [
            (one.name, layer + 1, head + 1, importance, one.normalised_LH[layer, head], *one.halves_2LH[:, layer, head])
            for one in self.domains
            for (layer, head), importance in np.ndenumerate(one.importance_LH)
        ]
        return sheet(("domain", "layer", "head", "importance", "normalised", "first_half", "second_half"), rows)

    def _head(self, place: tuple[int, int]) -> tuple[str, ...]:
        cells = (f"{domain.relative_LH[place]:.2f} ({_figure(domain.normalised_LH[place])})" for domain in self.domains)
        return (_place_text(place), *cells)


def _place_text(place: tuple[int, int]) -> str:
    return f"layer {place[0] + 1}, head {place[1] + 1}"


def _figure(value: float) -> str:
    return f"{value:.3f}"


def _chance(chance: Chance) -> tuple[str, str, str]:
    return _figure(chance.mean), _figure(chance.low), _figure(chance.high)


def _shares(chance: Chance) -> str:
    return f"{share(chance.mean)} ({share(chance.low)} to {share(chance.high)})"


def _span_text(values: Iterator[float]) -> str:
    low, high = f"{min(figures := [*values]):.2f}", f"{max(figures):.2f}"
    return low if low == high else f"{low} to {high}"


def analyse_importance(
    model: str | PathLike[str],
    sources: Mapping[str, Path],
    *,
    column: str = "text",
    sample: int = 300,
    max_tokens: int = 164,
    how: How = "paper",
    over: Over = "layer",
    dropout: float | None = None,
    attention_dropout: float | None = None,
    seed: int = 0,
    watch: Watch = unwatched,
) -> ImportanceAnalysis:
    """Return the importance of the heads of a model (a directory or hub id) on each domain's texts.

    sources     domain -> raw text (a file or folder), a folder made by write_corpus, or a table
    column      of the texts, where there are columns
    sample      number of texts of each domain, a uniform sample
    max_tokens  number of tokens to read of a text, special ones included; fewer if the model reads fewer
    how, over   how importances are normalised, as `methods.importance.normalised` takes it
    dropout, attention_dropout  None: as the model has it
    seed        of the sample, of dropout, and of the draws that chance is computed from

    Raises ValueError for fewer than two domains, for one of fewer than two texts, for a model without dropout, and for
    a family whose heads are not known.
    """
    if len(sources) < 2:
        raise ValueError(
            f"{len(sources)} domain given, but importances are compared between domains. Name at least two, as "
            "NAME=TEXTS"
        )
    where = resolved(model)
    loaded = load_masked_language_model(where, hidden_dropout=dropout, attention_dropout=attention_dropout)
    layers, heads = gate_shape(loaded, "heads")
    tokenizer: Any = load_tokenizer(where)
    longest = longest_row(os.fspath(model), where, tokenizer, max_tokens)
    texts = _sampled(sources, column, sample, seed)
    domains = []
    for number, (name, drawn) in enumerate(texts.items()):
        rows = [*ids_of(drawn, tokenizer, longest)]
        seeds = [noise_seed(seed, number, half) for half in range(2)]  # common noise would look like agreement
        batches = [[*_batches(rows[first::2], tokenizer.pad_token_id or 0)] for first in range(2)]
        halves_2LH = _halves(loaded, batches, seeds, name, watch)
        domains.append(_domain(name, sources[name], rows, halves_2LH, partial(normalised, how=how, over=over)))
    importance_KLH = torch.from_numpy(np.stack([domain.importance_LH for domain in domains]))
    halves_K2LH = torch.from_numpy(np.stack([domain.halves_2LH for domain in domains]))
    return ImportanceAnalysis(
        model=short_names([model])[0],
        domains=tuple(domains),
        how=how,
        over=over,
        max_tokens=longest,
        agreements=agreements(importance_KLH, halves_K2LH, how, over, seed=seed),
        noise=noise_figures(len(domains), layers, heads, how, over, seed=seed),
    )


def _sampled(sources: Mapping[str, Path], column: str, sample: int, seed: int) -> dict[str, list[str]]:
    """Return domain -> its sample of texts. Raises ValueError for a domain of fewer than two texts."""
    texts = {name: sample_texts(path, column=column, size=sample, seed=seed) for name, path in sources.items()}
    for name, drawn in texts.items():
        if len(drawn) < 2:
            raise ValueError(
                f"{sources[name]}: 1 text of {name}, but its texts are divided into halves. Give more texts"
            )
    return texts


def _domain(
    name: str, source: Path, rows: Sequence[list[int]], halves_2LH: Tensor, normalise: Callable[[Tensor], Tensor]
) -> Domain:
    counts_2 = torch.tensor([len(rows[0::2]), len(rows[1::2])])[:, None, None]
    importance_LH = (halves_2LH * counts_2).sum(0) / len(rows)
    return Domain(
        name,
        source.name,
        texts=len(rows),
        tokens=sum(map(len, rows)),
        importance_LH=importance_LH.numpy(),
        normalised_LH=normalise(importance_LH).numpy(),
        halves_2LH=halves_2LH.numpy(),
    )


def _halves(
    model: PreTrainedModel, halves: Sequence[Sequence[Batch]], seeds: Sequence[int], name: str, watch: Watch
) -> Tensor:
    """(2, L, H) importance on each half of the batches, each under different dropout noise."""
    total = sum(map(len, halves))
    batches = counted(chain(*halves), watch, f"importance on {name}", total=total, unit="batches", every=1)
    pairs = zip(halves, seeds, strict=True)
    importances = [head_importance(model, islice(batches, len(half)), seed=seed)["heads"] for half, seed in pairs]
    return torch.stack(importances).double()


def _batches(rows: Sequence[list[int]], pad: int) -> Iterator[Batch]:
    for first in range(0, len(rows), BATCH):
        rows_of_batch = rows[first : first + BATCH]
        offsets = np.cumsum([0, *map(len, rows_of_batch)])
        yield Batch(np.concatenate(rows_of_batch).astype(np.int64), offsets.astype(np.int64), pad=pad)


def write_page(path: Path, analysis: ImportanceAnalysis) -> tuple[Path, Path]:
    """Write the page and, beside it, the figures and every head as CSV; return the paths of the latter two."""
    names = path.with_suffix(".csv").name, f"{path.stem}-heads.csv"
    sheets = dict(zip(names, (analysis.as_csv(), analysis.heads_as_csv()), strict=True))
    _, sheet, heads = replace(analysis.page(), sheets=sheets).write(path)
    return sheet, heads


def _share_text(value: float) -> str:
    """`.83`, and `1.0` for what rounds to 1."""
    text = f"{value:.2f}"
    return text[1:] if text.startswith("0") else text[:3]
