"""Where an encoder's heads look: on which key the largest weight of each query falls, counted over many texts.

Yao et al. (2022), section 4.4.1, takes the definitions from Voita et al. (2019) and Kovaleva et al. (2019): a head is
told by the share of its maxima on adjacent tokens, and of those on [CLS], [SEP] or the period. docs/analyses.md has the
readings. Any family of transformers whose attention is a matrix of (T, T) weights will do.

Shape suffixes: L layers, H heads, B texts, T tokens of the longest, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedModel

from acclimate.models.encoder import encoder_of, family

HELD = 2**25  # attention weights in memory at once, all layers and heads together: 128 MB
READ = 256  # texts that are brought into the order of their lengths at once


@dataclass(frozen=True, eq=False)
class Maxima:
    """What the largest weights of an encoder's heads fell on, summed over queries.

    previous_LH, next_LH  float64: maxima on the token before the query, and on the one after it
    marked_LH             float64: maxima on [CLS], [SEP] or a period
    queries               how many tokens asked: those of the texts, without special tokens and padding
    texts                 how many texts had such tokens
    by_chance             shares of adjacent and of marked keys among all keys, mean over queries: the shares of maxima
                          that fell anywhere

    A maximum that several keys share counts for each as its part, so that their order decides nothing.
    """

    previous_LH: np.ndarray
    next_LH: np.ndarray
    marked_LH: np.ndarray
    queries: int
    texts: int
    by_chance: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Marks:
    """The ids of a vocabulary that are counted apart, (V,) bool each. ends: [CLS] and [SEP]; periods: the token "."."""

    ends: np.ndarray
    periods: np.ndarray


def show_attention(model: PreTrainedModel) -> None:
    """Makes the model hand out its weights: transformers' eager attention, the one that has them.

    Raises ValueError for a family without it.
    """
    try:
        model.set_attn_implementation("eager")
    except (ValueError, NotImplementedError) as error:
        raise ValueError(f"{family(model)}: its attention weights cannot be had in transformers: {error}") from error


@torch.no_grad()
def attention_of(model: PreTrainedModel, ids: Sequence[int]) -> np.ndarray:
    """(L, H, T, T) float32 weights over one text, special tokens included; a row is a query. See `show_attention`."""
    ids_1T = torch.tensor([ids], device=model.device)
    return np.stack([weights[0].cpu().numpy() for weights in _attentions(model, ids_1T, torch.ones_like(ids_1T))])


@torch.no_grad()
def find_maxima(
    model: PreTrainedModel,
    texts: Iterable[Sequence[int]],
    marks: Marks,
    *,
    watch: Callable[[int], None] = lambda done: None,
) -> Maxima:
    """Return the maxima of every head over these texts, read once, in memory that does not grow with their number.

    texts  ids of each, special tokens included, no longer than the model reads; see `show_attention`
    watch  is told the number of texts that are done

    Raises ValueError where no text holds a token that is not special, and where a weight is no number.
    """
    ends_V, marked_V = torch.from_numpy(marks.ends), torch.from_numpy(marks.ends | marks.periods)
    previous, following, marked = 0.0, 0.0, 0.0
    queries = done = asking = 0
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
        done += len(piece)
        watch(done)
    if not queries:
        raise ValueError(f"none of the {done:,} texts holds a token that is not special, so no head can be judged")
    adjacent, special = (float(chance) for chance in chances / queries)
    return Maxima(np.asarray(previous), np.asarray(following), np.asarray(marked), queries, asking, (adjacent, special))


def _attentions(model: PreTrainedModel, ids_BT: Tensor, real_BT: Tensor) -> Iterator[Tensor]:
    """(B, H, T, T) of each layer."""
    given = encoder_of(model)(input_ids=ids_BT, attention_mask=real_BT, output_attentions=True).attentions
    rows, tokens = ids_BT.shape
    for layer in given or [None]:
        if layer is None or layer.ndim != 4 or layer.shape[0] != rows or layer.shape[2:] != (tokens, tokens):
            raise ValueError(f"{family(model)}: hands out no matrix of attention weights for each head and text")
        yield layer


def _pieces(model: PreTrainedModel, texts: Iterable[Sequence[int]]) -> Iterator[list[Sequence[int]]]:
    """Yield texts of about one length, as many as HELD allows and at least one."""
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
    """(B, T) ids, and which of them are the text's."""
    filler = getattr(model.config, "pad_token_id", None) or 0
    ids_BT = torch.full((len(piece), max(map(len, piece))), filler)
    real_BT = torch.zeros_like(ids_BT, dtype=torch.bool)
    for row, text in enumerate(piece):
        ids_BT[row, : len(text)] = torch.tensor(text)
        real_BT[row, : len(text)] = True
    return ids_BT, real_BT


def _sums(weights_BHTT: Tensor, real_BT: Tensor, marked_BT: Tensor, asked_BT: Tensor) -> np.ndarray:
    """(3, H) float64: maxima on the token before, on the one after, on marked ones."""
    weights_BHTT = weights_BHTT.masked_fill(~real_BT[:, None, None, :], -1.0)
    highest_BHT1 = weights_BHTT.amax(-1, keepdim=True)
    if highest_BHT1.isnan().any():
        raise ValueError("an attention weight is not a number: the model's weights are damaged or too large")
    largest_BHTT = weights_BHTT == highest_BHT1
    share_BHT = asked_BT[:, None, :] / largest_BHTT.sum(-1, dtype=torch.float64)
    previous_BHT = pad(largest_BHTT.diagonal(-1, -2, -1), (1, 0))
    next_BHT = pad(largest_BHTT.diagonal(1, -2, -1), (0, 1))
    on_BHT = (largest_BHTT & marked_BT[:, None, None, :]).sum(-1)
    return np.stack([(hits_BHT * share_BHT).sum((0, 2)).numpy() for hits_BHT in (previous_BHT, next_BHT, on_BHT)])


def _chances(real_BT: Tensor, marked_BT: Tensor, asked_BT: Tensor) -> np.ndarray:
    """(2,) float64: adjacent keys and marked keys over all keys, summed over queries."""
    keys_B = real_BT.sum(1, dtype=torch.float64)
    neighbours_BT = pad(real_BT[:, :-1], (1, 0)).double() + pad(real_BT[:, 1:], (0, 1)).double()
    adjacent = (neighbours_BT * asked_BT / keys_B[:, None]).sum()
    marked = (marked_BT.sum(1) * asked_BT.sum(1) / keys_B).sum()
    return np.array([float(adjacent), float(marked)])
