"""Count where an encoder's heads look: on which key the largest weight of each query falls, over many texts.

Yao et al. (2022), section 4.4.1, takes the definitions from Voita et al. (2019) and Kovaleva et al. (2019): the share
of a head's maxima on adjacent tokens, and the share on [CLS], [SEP] or the period, say what kind of head it is.
docs/analyses.md has the readings. It works for every family of transformers whose attention is a (T, T) matrix.

Shape suffixes: L layers, H heads, B texts, T tokens of the longest, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from acclimate.models.encoder import encoder_of, family

if TYPE_CHECKING:
    from transformers import PreTrainedModel

HELD = 2**25  # attention weights in memory at once, all layers and heads together: 128 MB
READ = 256  # texts that are read at once and sorted by length


@dataclass(frozen=True, eq=False)
class Maxima:
    """Counts of what the largest weights of an encoder's heads fell on, summed over queries.

    previous_LH, next_LH  float64: maxima on the token before the query, and on the one after it
    marked_LH             float64: maxima on [CLS], [SEP] or a period
    queries               number of tokens whose weights were counted: all except special tokens and padding
    texts                 number of texts that have such tokens
    by_chance             shares of adjacent and of marked keys among all keys, as means over queries: what a head
                          would score if its maxima fell on random keys

    Where k keys share a maximum, each counts 1/k, so the order of keys does not matter.
    """

    previous_LH: np.ndarray
    next_LH: np.ndarray
    marked_LH: np.ndarray
    queries: int
    texts: int
    by_chance: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Marks:
    """The ids of a vocabulary that are counted separately, (V,) bool. ends: [CLS] and [SEP]; periods: the token "."."""

    ends: np.ndarray
    periods: np.ndarray


@torch.no_grad()
def find_maxima(
    model: PreTrainedModel,
    texts: Iterable[Sequence[int]],
    marks: Marks,
    *,
    watch: Callable[[int], None] = lambda text_count: None,
) -> Maxima:
    """Return the maxima of every head over these texts. They are read once; memory does not grow with their number.

    model  must use eager attention (`show_attention`)
    texts  token ids of each text, special tokens included, at most as many as the model reads
    watch  called with the number of texts that are done

    Raises ValueError if all tokens are special ones, and if a weight is NaN.
    """
    ends_V, marked_V = torch.from_numpy(marks.ends), torch.from_numpy(marks.ends | marks.periods)
    previous, following, marked = 0.0, 0.0, 0.0
    queries = text_count = asking = 0
    chances = np.zeros(2)
    for piece in _pieces(model, texts):
        ids_BT, real_BT = _padded(piece, model)
        asked_BT = real_BT & ~ends_V[ids_BT]
        keys_BT = marked_V[ids_BT] & real_BT
        sums = [
            _sums(weights_BHTT.float().cpu(), real_BT, keys_BT, asked_BT)
            for weights_BHTT in _attentions(model, ids_BT.to(model.device), real_BT.long().to(model.device))
        ]
        before, after, on = np.stack(sums, axis=1)
        previous, following, marked = previous + before, following + after, marked + on
        queries += int(asked_BT.sum())
        asking += int(asked_BT.any(1).sum())
        chances += _chances(real_BT, keys_BT, asked_BT)
        text_count += len(piece)
        watch(text_count)
    if not queries:
        raise ValueError(
            f"none of the {text_count:,} texts has a token that is not special, so heads cannot be judged. Give "
            "other texts"
        )
    adjacent, special = (float(chance) for chance in chances / queries)
    return Maxima(np.asarray(previous), np.asarray(following), np.asarray(marked), queries, asking, (adjacent, special))


def show_attention(model: PreTrainedModel) -> None:
    """Switch the model, in place, to transformers' eager attention: the only one that returns its weights.

    Raises ValueError for a family without eager attention.
    """
    try:
        model.set_attn_implementation("eager")
    except (ValueError, NotImplementedError) as error:
        raise ValueError(f"{family(model)}: transformers does not return its attention weights: {error}") from error


@torch.no_grad()
def attention_of(model: PreTrainedModel, ids: Sequence[int]) -> np.ndarray:
    """Return the (L, H, T, T) float32 attention weights over one text, special tokens included; rows are queries.

    The model must use eager attention (`show_attention`).
    """
    ids_1T = torch.tensor([ids], device=model.device)
    return np.stack([weights[0].cpu().numpy() for weights in _attentions(model, ids_1T, torch.ones_like(ids_1T))])


def _attentions(model: PreTrainedModel, ids_BT: Tensor, real_BT: Tensor) -> Iterator[Tensor]:
    """Yield the (B, H, T, T) weights of each layer. Raises ValueError if the model returns another shape or none."""
    attentions = encoder_of(model)(input_ids=ids_BT, attention_mask=real_BT, output_attentions=True).attentions
    rows, tokens = ids_BT.shape
    for layer in attentions or [None]:
        if layer is None or layer.ndim != 4 or layer.shape[0] != rows or layer.shape[2:] != (tokens, tokens):
            raise ValueError(
                f"{family(model)}: does not return a matrix of attention weights for each head and text. Use "
                "another model"
            )
        yield layer


def _pieces(model: PreTrainedModel, texts: Iterable[Sequence[int]]) -> Iterator[list[Sequence[int]]]:
    """Yield lists of texts of similar length, each as long as HELD allows, with at least one text."""
    of_all = model.config.num_hidden_layers * model.config.num_attention_heads
    waiting = iter(texts)
    while read := sorted(islice(waiting, READ), key=len):
        piece: list[Sequence[int]] = []
        for text in read:
            if piece and (len(piece) + 1) * len(text) ** 2 * of_all > HELD:
                yield piece
                piece = []
            piece.append(text)
        yield piece


def _padded(piece: Sequence[Sequence[int]], model: PreTrainedModel) -> tuple[Tensor, Tensor]:
    """Return the padded ids (B, T), and a mask (B, T) that is False at padding."""
    filler = getattr(model.config, "pad_token_id", None) or 0
    ids_BT = torch.full((len(piece), max(map(len, piece))), filler)
    real_BT = torch.zeros_like(ids_BT, dtype=torch.bool)
    for row, text in enumerate(piece):
        ids_BT[row, : len(text)] = torch.tensor(text)
        real_BT[row, : len(text)] = True
    return ids_BT, real_BT


def _sums(weights_BHTT: Tensor, real_BT: Tensor, marked_BT: Tensor, asked_BT: Tensor) -> np.ndarray:
    """Return the (3, H) float64 numbers of maxima on the token before, on the one after, and on marked tokens."""
    weights_BHTT = weights_BHTT.masked_fill(~real_BT[:, None, None, :], -1.0)
    highest_BHT1 = weights_BHTT.amax(-1, keepdim=True)
    if highest_BHT1.isnan().any():
        raise ValueError("an attention weight is NaN: the model's weights are damaged or too large. Restore them")
    largest_BHTT = weights_BHTT == highest_BHT1
    share_BHT = asked_BT[:, None, :] / largest_BHTT.sum(-1, dtype=torch.float64)
    previous_BHT = pad(largest_BHTT.diagonal(-1, -2, -1), (1, 0))
    next_BHT = pad(largest_BHTT.diagonal(1, -2, -1), (0, 1))
    on_BHT = (largest_BHTT & marked_BT[:, None, None, :]).sum(-1)
    return np.stack([(hits_BHT * share_BHT).sum((0, 2)).numpy() for hits_BHT in (previous_BHT, next_BHT, on_BHT)])


def _chances(real_BT: Tensor, marked_BT: Tensor, asked_BT: Tensor) -> np.ndarray:
    """Return the (2,) float64 shares of adjacent and of marked keys among all keys, summed over queries."""
    keys_B = real_BT.sum(1, dtype=torch.float64)
    neighbours_BT = pad(real_BT[:, :-1], (1, 0)).double() + pad(real_BT[:, 1:], (0, 1)).double()
    adjacent = (neighbours_BT * asked_BT / keys_B[:, None]).sum()
    marked = (marked_BT.sum(1) * asked_BT.sum(1) / keys_B).sum()
    return np.array([float(adjacent), float(marked)])
