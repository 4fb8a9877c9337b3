"""What is known of head importance in several domains, as values, sections of a page and CSV.

Shape suffixes: L layers, H heads.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from acclimate.methods.importance import How, Over
from acclimate.study.head_agreement import HEAVILY, MODERATELY, Agreement, Chance, Noise, View
from acclimate.study.typeset import Section, amount, page, share

LISTED = 10  # heads, of the most and of the least important ones
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
        """Of the heads, those whose normalised importance is at least the one limit and under the other."""
        return float(self._within(limits).mean())

    def below(self, over: Over) -> float | None:
        """Of the heavily protected heads, the share that is less important than the mean; None where there are none."""
        mean = self.importance_LH.mean(axis=1 if over == "layer" else None, keepdims=True)
        there = self._within(HEAVILY)
        return float((self.importance_LH < mean)[there].mean()) if there.any() else None

    def _within(self, limits: tuple[float, float]) -> np.ndarray:
        return (self.normalised_LH >= limits[0]) & (self.normalised_LH < limits[1])


@dataclass(frozen=True, eq=False)
class Analysis:
    """How far domains agree on which heads matter. max_tokens: that were read of a text, at most."""

    model: str
    domains: tuple[Domain, ...]
    how: How
    over: Over
    max_tokens: int
    agreements: Mapping[View, Sequence[Agreement]]
    noise: Noise

    def verdict(self) -> str:
        """Cosine and rank correlation in a sentence, each beside what chance gives."""
        cosine, rank = self.agreements["normalised"], self.agreements["rank"]
        shuffled = np.mean([each.shuffled.mean for each in cosine])
        return (
            f"Normalised importance has a cosine of {_between(each.others for each in cosine)} with other domains, and "
            f"{shuffled:.2f} when shuffled. The rank correlation is {_between(each.others for each in rank)}, by "
            f"chance 0, and between halves of a domain {_between(each.halves for each in rank)}."
        )

    def as_text(self) -> str:
        """The page for a terminal, at most 110 columns wide."""
        parts = [self.read(), *map(self.agreement, self.agreements), self.protected(), *self.listed()]
        return page("acclimate importance", parts)

    def read(self) -> Section:
        """A line for each domain: what was read."""
        rows = [(each.name, each.source, f"{each.texts:,}", f"{each.tokens:,}") for each in self.domains]
        layers, heads = self.domains[0].importance_LH.shape
        lines = (
            f"{self.model}: {layers} layers of {amount(heads, 'head')}. Texts are drawn evenly, and read up to "
            f"{self.max_tokens} tokens.",
            f"Normalised {SHUFFLED[self.over]}: {HOW[self.how]}.",
        )
        return Section("Domains", ("domain", "of", "texts", "tokens"), tuple(rows), lines)

    def agreement(self, view: View) -> Section:
        """A line for each domain: how far its importances are like those of the others, and like themselves."""
        rows = [
            (domain.name, _figure(each.others), *_chance(each.shuffled), _figure(each.halves))
            for domain, each in zip(self.domains, self.agreements[view], strict=True)
        ]
        lines = {
            "normalised": (
                "Section 4.3 of the paper has .89 to .92, of six domains, and no figure for chance. Shuffled: "
                f"each domain's own values, {SHUFFLED[self.over]} in random order. Normal noise in place of "
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
        """A line for each domain, and one for noise: the shares of heads that the soft mask holds back."""
        rows = []
        for each in self.domains:
            below = each.below(self.over)
            heavily, moderately = share(each.share(HEAVILY)), share(each.share(MODERATELY))
            rows.append((each.name, heavily, moderately, "-" if below is None else share(below)))
        rows.append(("normal noise", _shares(self.noise.heavily), _shares(self.noise.moderately), "-"))
        lines = (
            "Heavily: normalised importance of at least .8; moderately: .6 to .8. Around 20% and another 20% in the "
            "paper.",
            *(
                (
                    "|tanh z| is as large for a head far less important than the mean as for one far more important. "
                    "Of noise, half of the heavily protected lie below the mean.",
                )
                if self.how == "paper"
                else ()
            ),
        )
        columns = ("domain", "heavily", "moderately", "heavily, but less important than the mean")
        return Section("Protected heads", columns, tuple(rows), lines)

    def listed(self) -> tuple[Section, Section]:
        """The heads that are the most important ones, and the least important ones, by their mean rank."""
        order = self.by_rank()
        listed = min(LISTED, len(order) // 2)
        columns = ("head", *(domain.name for domain in self.domains))
        meant = "Importance as a multiple of the mean over all heads, and normalised (in brackets)"
        return (
            Section(
                "Most important heads",
                columns,
                tuple(map(self._head, order[:listed])),
                (f"{meant}. First: the highest mean rank over the domains.",),
            ),
            Section(
                "Least important heads",
                columns,
                tuple(map(self._head, order[: -listed - 1 : -1])),
                (f"{meant}. First: the lowest mean rank.",),
            ),
        )

    def by_rank(self) -> list[tuple[int, int]]:
        """(layer, head) of all heads from 0, by falling mean over domains of the rank of their importance."""
        ranks = [domain.importance_LH.argsort(axis=None).argsort() for domain in self.domains]
        order = np.argsort(-np.mean(ranks, axis=0), kind="stable")
        heads = self.domains[0].importance_LH.shape[1]
        return [(int(place) // heads, int(place) % heads) for place in order]

    def as_csv(self) -> str:
        """The figures unrounded, a line for each domain and view."""
        rows = [
            (domain.name, view, each.others, each.shuffled.mean, each.shuffled.low, each.shuffled.high, each.halves)
            for view, found in self.agreements.items()
            for domain, each in zip(self.domains, found, strict=True)
        ]
        return _csv(("domain", "view", "others", "shuffled", "shuffled_low", "shuffled_high", "halves"), rows)

    def heads_as_csv(self) -> str:
        """The importances unrounded, a line for each domain and head; layers and heads count from 1."""
        rows = [
            (
                domain.name,
                layer + 1,
                head + 1,
                importance,
                domain.normalised_LH[layer, head],
                *domain.halves_2LH[:, layer, head],
            )
            for domain in self.domains
            for (layer, head), importance in np.ndenumerate(domain.importance_LH)
        ]
        return _csv(("domain", "layer", "head", "importance", "normalised", "first_half", "second_half"), rows)

    def _head(self, place: tuple[int, int]) -> tuple[str, ...]:
        cells = (f"{each.relative_LH[place]:.2f} ({_figure(each.normalised_LH[place])})" for each in self.domains)
        return (f"layer {place[0] + 1}, head {place[1] + 1}", *cells)


def _figure(value: float) -> str:
    return f"{value:.3f}"


def _chance(chance: Chance) -> tuple[str, str, str]:
    return _figure(chance.mean), _figure(chance.low), _figure(chance.high)


def _shares(chance: Chance) -> str:
    return f"{share(chance.mean)} ({share(chance.low)} to {share(chance.high)})"


def _between(values: Iterator[float]) -> str:
    low, high = f"{min(found := [*values]):.2f}", f"{max(found):.2f}"
    return low if low == high else f"{low} to {high}"


def _csv(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([names, *rows])
    return file.getvalue()
