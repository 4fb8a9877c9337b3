"""Positional and vertical heads of encoders, counted, each beside a twin of random weights (docs/analyses.md).

Yao et al. (2022), section 4.4.1: a head is positional where at least 90% of its maxima fall on adjacent tokens, and
vertical where more than 90% fall on [CLS], [SEP] or the period. What counts as a maximum: models/attention.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core.types import Progress, Watch, unwatched
from acclimate.models.attention import Maxima, attention_of, find_maxima, show_attention
from acclimate.models.encoder import load_masked_language_model, load_tokenizer, longest_input, random_twin
from acclimate.models.loading import resolved
from acclimate.study.attention_texts import ids_of, marks_of, put_around, spelt
from acclimate.study.typeset import Section, page, share

SHARE = 0.9
POSITIONAL, VERTICAL, BOTH, OTHER = "positional", "vertical", "both", "other"
KINDS = (POSITIONAL, VERTICAL, BOTH, OTHER)
EXAMPLE_WORDS, EXAMPLE_TOKENS = 8, 24  # of the text that is drawn; those of the paper's figures have 7 to 10 words


@dataclass(frozen=True, eq=False)
class Example:
    """What the heads make of one text: its tokens as they are written, and (L, H, T, T) weights."""

    tokens: tuple[str, ...]
    weights: np.ndarray


@dataclass(frozen=True, eq=False)
class Heads:
    """The heads of one encoder. twin: whether its weights are random, in the architecture of the model `name`."""

    name: str
    maxima: Maxima
    example: Example
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
        """(L, H) one of KINDS each."""
        positional, vertical = self.positional >= SHARE, self.vertical > SHARE
        return np.select([positional & vertical, positional, vertical], [BOTH, POSITIONAL, VERTICAL], OTHER)

    def count(self) -> Counter[str]:
        return Counter(self.kinds.ravel().tolist())


@dataclass(frozen=True)
class Analysis:
    """The heads of each model and of its twin after it, over the same texts of at most `max_tokens` tokens."""

    heads: tuple[Heads, ...]
    source: str
    max_tokens: int
    seed: int

    def verdict(self) -> str:
        """The counts in a sentence."""
        models = [each for each in self.heads if not each.twin]
        said = "; ".join(f"{each.name}: {_counted(each)}" for each in models)
        control = "; ".join(_counted(each) for each in self.heads if each.twin)
        return f"{said}. With random weights: {control}."

    def as_text(self) -> str:
        """The page for a terminal, at most 110 columns wide."""
        return page("acclimate heads", [self.totals(), self.layers()])

    def totals(self) -> Section:
        """A line for each encoder."""
        rows = []
        for each in self.heads:
            positional, vertical = _both_counts(each.count())
            adjacent, marked = each.maxima.by_chance
            cells = (positional, np.count_nonzero(each.one_place), vertical)
            shares = (each.positional.mean(), adjacent, each.vertical.mean(), marked)
            rows.append((each.title, f"{each.kinds.size:,}", *map(str, cells), *map(share, shares)))
        counted = ("model", "heads", "positional", "in one place", "vertical")
        columns = (*counted, "maxima on neighbours", "by chance", "on marks", "by chance")
        first = self.heads[0].maxima
        lines = (
            f"Counted over {first.texts:,} texts ({first.queries:,} tokens) of {self.source}.",
            "positional: at least 90% of a head's maxima on adjacent tokens; in one place: on the token before, or on "
            "the one after; vertical: more than 90% on marks, which are [CLS], [SEP] and the period (Yao et al. 2022).",
            "Random weights are the control: what they meet too, training need not have made.",
        )
        return Section("Heads", columns, tuple(rows), lines)

    def layers(self) -> Section:
        """A line for each layer: positional and vertical heads of each encoder."""
        deepest = max(len(each.kinds) for each in self.heads)
        rows = []
        for layer in range(deepest):
            cells = [str(layer + 1)]
            for each in self.heads:
                there = Counter(each.kinds[layer].tolist()) if layer < len(each.kinds) else None
                cells.append("-" if there is None else " / ".join(map(str, _both_counts(there))))
            rows.append(tuple(cells))
        lines = ("Positional / vertical heads of each layer.",)
        return Section("Layer by layer", ("layer", *(each.title for each in self.heads)), tuple(rows), lines)


def analyse_heads(
    models: Sequence[str],
    texts: Sequence[str],
    *,
    source: str,
    max_tokens: int = 128,
    seed: int = 0,
    watch: Watch = unwatched,
) -> Analysis:
    """The heads of each model (a directory or hub id) and of a twin with random weights, over these texts.

    source      what the texts are of, for people
    max_tokens  that are read of a text, special tokens included; fewer where the model reads no more
    seed        of the random weights
    """
    if not texts:
        raise ValueError("no texts were given, and heads are judged by what they look at in texts")
    found = []
    for name, given in zip(short_names(models), models, strict=True):
        where = resolved(given)
        tokenizer = load_tokenizer(where)
        longest = min(max_tokens, longest_input(where) or max_tokens)
        if longest <= len(put_around(tokenizer)):
            raise ValueError(
                f"max_tokens is {max_tokens}: {name} puts {len(put_around(tokenizer))} tokens around a text"
            )
        for twin in (False, True):
            model = random_twin(where, seed=seed) if twin else load_masked_language_model(where)
            found.append(_heads(name, model, tokenizer, texts, longest, twin=twin, watch=watch))
    return Analysis(tuple(found), source, max_tokens, seed)


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
        watch=lambda done: watch(Progress(stage, done, len(texts), "texts")),
    )
    drawn = min(texts, key=lambda text: abs(len(text.split()) - EXAMPLE_WORDS))
    [ids] = ids_of([drawn], tokenizer, min(longest, EXAMPLE_TOKENS))
    return Heads(name, maxima, Example(spelt(tokenizer, ids), attention_of(model, ids)), twin)


def _counted(heads: Heads) -> str:
    positional, vertical = _both_counts(heads.count())
    return f"{positional} of {heads.kinds.size} heads positional, {vertical} vertical"


def _both_counts(kinds: Mapping[str, int]) -> tuple[int, int]:
    """How many are positional and how many vertical; who is both counts to both."""
    return kinds.get(POSITIONAL, 0) + kinds.get(BOTH, 0), kinds.get(VERTICAL, 0) + kinds.get(BOTH, 0)


def short_names(models: Sequence[str]) -> list[str]:
    """As many of a path's last parts, `checkpoint` left out, as tell the models apart; not what all of them share."""
    parts = [path.parent.parts if path.name == "checkpoint" else path.parts for path in map(Path, models)]
    if len(set(parts)) < len(parts):
        return list(models)
    depth = 1
    while len({own[-depth:] for own in parts}) < len(parts):
        depth += 1
    short = [own[-depth:] for own in parts]
    while len(short) > 1 and min(map(len, short)) > 1 and len({own[-1] for own in short}) == 1:
        short = [own[:-1] for own in short]
    return ["/".join(own) or name for own, name in zip(short, models, strict=True)]
