"""Importance of a model's heads on the text of several domains, and how far these agree (docs/analyses.md).

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge" (DGA), section 4.3: head importance
(methods/importance.py) on each domain's text, the mean cosine similarity of each with every other, and how many heads
are heavily and moderately protected.

Shape suffixes: K domains, L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from acclimate.core.types import Batch, Watch, counted, unwatched
from acclimate.methods.importance import How, Over, head_importance, normalised
from acclimate.models.encoder import load_masked_language_model, load_tokenizer, longest_input
from acclimate.models.loading import resolved
from acclimate.models.parts import gate_shape
from acclimate.study.attention import short_names
from acclimate.study.attention_texts import ids_of, put_around, sample_texts
from acclimate.study.head_agreement import agreements, noise
from acclimate.study.head_importance_result import Analysis, Domain
from acclimate.training.gradients import noise_seed

BATCH = 32  # texts


def analyse_importance(
    model: str,
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
) -> Analysis:
    """The importance of the heads of a model (a directory or hub id) on each domain's texts.

    sources     domain -> raw text (a file or folder), a folder made by write_corpus, or a table
    column      of the texts, where there are columns
    sample      so many texts of each, drawn evenly
    max_tokens  that are read of a text, special tokens included; fewer where the model reads no more
    how, over   how importances are normalised, as `methods.importance.normalised` takes it
    dropout, attention_dropout  None: as the model has it
    seed        of the texts that are drawn, of dropout, and of what stands for chance

    Raises ValueError for fewer than two domains, for one of fewer than two texts, for a model without dropout, and for
    a family whose heads are not known.
    """
    if len(sources) < 2:
        raise ValueError(
            f"{len(sources)} domain given: importances are compared between domains. Name two or more, as NAME=TEXTS"
        )
    where = resolved(model)
    loaded = load_masked_language_model(where, hidden_dropout=dropout, attention_dropout=attention_dropout)
    layers, heads = gate_shape(loaded, "heads")
    tokenizer: Any = load_tokenizer(where)
    longest = min(max_tokens, longest_input(where) or max_tokens)
    if longest <= (around := len(put_around(tokenizer))):
        raise ValueError(f"max_tokens is {max_tokens}: {model} puts {around} tokens around a text")
    texts = _sampled(sources, column, sample, seed)
    domains = []
    for number, (name, drawn) in enumerate(texts.items()):
        rows = [*ids_of(drawn, tokenizer, longest)]
        seeds = [noise_seed(seed, number, half) for half in range(2)]  # noise in common would be taken for agreement
        batches = [[*_batches(rows[first::2], tokenizer.pad_token_id or 0)] for first in range(2)]
        halves_2LH = _halves(loaded, batches, seeds, name, watch)
        domains.append(_domain(name, sources[name], rows, halves_2LH, partial(normalised, how=how, over=over)))
    importance_KLH = torch.from_numpy(np.stack([domain.importance_LH for domain in domains]))
    halves_K2LH = torch.from_numpy(np.stack([domain.halves_2LH for domain in domains]))
    return Analysis(
        model=short_names([model])[0],
        domains=tuple(domains),
        how=how,
        over=over,
        max_tokens=longest,
        agreements=agreements(importance_KLH, halves_K2LH, how, over, seed=seed),
        noise=noise(len(domains), layers, heads, how, over, seed=seed),
    )


def _sampled(sources: Mapping[str, Path], column: str, sample: int, seed: int) -> dict[str, list[str]]:
    """Domain -> texts of it. Raises ValueError for one that has no two."""
    texts = {name: sample_texts(path, column=column, size=sample, seed=seed) for name, path in sources.items()}
    for name, drawn in texts.items():
        if len(drawn) < 2:
            raise ValueError(f"{sources[name]}: 1 text of {name}, but its texts are halved. Give more of them")
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
    """(2, L, H) importance on each half of the batches, under dropout noise of its own."""
    total = sum(map(len, halves))
    told = counted(chain(*halves), watch, f"importance on {name}", total=total, unit="batches", every=1)
    found = [
        head_importance(model, islice(told, len(half)), seed=seed)["heads"]
        for half, seed in zip(halves, seeds, strict=True)
    ]
    return torch.stack(found).double()


def _batches(rows: Sequence[list[int]], pad: int) -> Iterator[Batch]:
    for first in range(0, len(rows), BATCH):
        some = rows[first : first + BATCH]
        offsets = np.cumsum([0, *map(len, some)])
        yield Batch(np.concatenate(some).astype(np.int64), offsets.astype(np.int64), pad=pad)
