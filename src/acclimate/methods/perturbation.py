"""The change of an encoder's input, within reach, that changes most what a model says of it: its adversary.

Liu et al. (2020), "Adversarial Training for Large Neural Language Models" (ALUM), Algorithm 1, lines 3 to 7; Jiang et
al. (2020), "SMART: Robust and Efficient Fine-Tuning for Pre-trained Natural Language Models through Principled
Regularized Optimization", Algorithm 1, lines 5 to 9. x are the embeddings, s what the model is compared by:

    delta <- N(0, noise^2);    `ascents` times:  g <- the gradient of s(f(x), f(x + delta)) at delta
                                                 delta <- within `radius` of 0:  delta + step * g

reading     what is perturbed        g                       within the radius
"paper"     the words' embeddings    by its largest number   each number is cut off at it
                                     of the row
"released"  what the embeddings      as it is                each token's delta is made as long: its largest number
            hand to the first layer                          is the radius, 1

Shape suffixes: L lines, W width of a line in tokens, R rows, D numbers of an embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.core.types import Batch
from acclimate.models.encoder import encoder_of, family
from acclimate.models.heads import rows_of
from acclimate.training.pieces import Piece

Reading = Literal["paper", "released"]
Distance = Callable[[Tensor, Tensor], Tensor]  # what is said of the text, and of the text perturbed -> a sum

NOISE = "noise"  # of `Batch.rows`: a number for each row, where a row is to meet another noise each time it comes
RADIUS: dict[Reading, float] = {"paper": 1e-5, "released": 1.0}
ABOVE_0 = 1e-6  # added to what the released code divides by
_WORD = 2**32 - 1


@dataclass(frozen=True)
class Perturbation:
    """Settings of the search above. radius: 0 stands for the reading's own, RADIUS."""

    step: float = 1e-3
    noise: float = 1e-5
    radius: float = 0.0
    ascents: int = 1
    reading: Reading = "paper"

    def __post_init__(self) -> None:
        rules = {
            "step": (self.step > 0, "above 0"),
            "noise": (self.noise > 0, "above 0, or the gradient is 0: where nothing is changed yet, s is least"),
            "radius": (self.radius >= 0, "at least 0, where 0 is the reading's own"),
            "ascents": (self.ascents >= 1, "at least 1"),
        }
        for name, (holds, wanted) in rules.items():
            if not holds:
                raise ValueError(f"{name} = {getattr(self, name)} is out of range: {wanted}")

    @property
    def reach(self) -> float:
        return self.radius or RADIUS[self.reading]

    def place(self, model: PreTrainedModel) -> nn.Module:
        """The module whose output is perturbed. Raises ValueError where the reading's is not there."""
        if self.reading == "paper":
            words: Any = model.get_input_embeddings()
            place: nn.Module = words
            return place
        embeddings: nn.Module | None = getattr(encoder_of(model), "embeddings", None)
        if embeddings is None:
            raise ValueError(
                f"where the embeddings of a '{family(model)}' come out is not known, which reading='released' "
                "perturbs. Take reading='paper'"
            )
        return embeddings

    def searched(
        self,
        model: PreTrainedModel,
        piece: Piece,
        say: Callable[[], Tensor],
        *,
        ascended: Distance,
        distance: Distance,
    ) -> tuple[Tensor, Tensor]:
        """What the model says of the piece, and the distance from that to what it says of the piece perturbed.

        say       a pass of the model over the piece
        ascended  s of the search, whose gradient at one row is not to depend on another
        distance  s of the result, with gradients for the model's weights; the perturbation counts as given

        The paper's changes are a few hundred-thousandths, which bfloat16 does not see, and nothing beside what another
        dropout changes. So all its passes are in float32 whatever the plan's precision, and under the same dropout. The
        released code's, of 1, are in the plan's precision, each under a dropout of its own, as there.
        """
        where, paper = piece["input_ids"].device, self.reading == "paper"
        place = self.place(model)
        precision: AbstractContextManager[Any] = torch.autocast(where.type, enabled=False) if paper else nullcontext()
        with precision:
            dropout = _generators(where)
            with _changed(place, lambda embedded: embedded) as seen:
                said = say()
            [clean_LWD] = seen
            delta_LWD = self.noise * gaussian(piece, clean_LWD.shape[-1])

            def perturbed(delta_LWD: Tensor) -> Tensor:
                def change(embedded_LWD: Tensor) -> Tensor:
                    # the released code's embeddings stay those of the first pass, and learn nothing from this one
                    return (embedded_LWD if paper else clean_LWD.detach()) + delta_LWD.to(embedded_LWD.dtype)

                drawn: AbstractContextManager[None] = _replayed(dropout, where) if paper else nullcontext()
                with drawn, _changed(place, change):
                    return say()

            for _ in range(self.ascents):
                with torch.enable_grad():
                    delta_LWD.requires_grad_()
                    s = ascended(said.detach(), perturbed(delta_LWD))
                    (gradient_LWD,) = torch.autograd.grad(s, delta_LWD)
                delta_LWD = self._moved(delta_LWD.detach(), gradient_LWD, piece)
            return said, distance(said, perturbed(delta_LWD))

    def _moved(self, delta_LWD: Tensor, gradient_LWD: Tensor, piece: Piece) -> Tensor:
        if self.reading == "released":
            delta_LWD = delta_LWD + self.step * gradient_LWD
            return self.reach * delta_LWD / (delta_LWD.abs().amax(-1, keepdim=True) + ABOVE_0)
        rows_LW, most_LW = row_of_tokens(piece), gradient_LWD.abs().amax(-1)
        most_R = most_LW.new_zeros(rows_in(piece) + 1).scatter_reduce(0, rows_LW.flatten(), most_LW.flatten(), "amax")
        scale_LW1 = most_R[rows_LW][..., None].clamp(min=torch.finfo(most_R.dtype).tiny)
        return (delta_LWD + self.step * gradient_LWD / scale_LW1).clamp(-self.reach, self.reach)


def rows_in(piece: Mapping[str, Tensor]) -> int:
    """R, how many rows a piece has."""
    return len(piece["lengths"] if "lengths" in piece else piece["input_ids"])


def row_of_tokens(piece: Mapping[str, Tensor]) -> Tensor:
    """(L, W) int64: which row of the piece a token is of, R for padding, which has a place behind them all."""
    ids_LW = piece["input_ids"]
    if (rows := rows_of(piece)) is None:
        numbers_LW = torch.arange(len(ids_LW), device=ids_LW.device)[:, None].expand_as(ids_LW)
        mask_LW = piece.get("attention_mask")
        return numbers_LW if mask_LW is None else torch.where(mask_LW > 0, numbers_LW, len(ids_LW))
    numbers_LW = torch.full_like(ids_LW, len(rows.there_RT))
    number_RT = torch.arange(len(rows.there_RT), device=ids_LW.device)[:, None].expand_as(rows.there_RT)
    numbers_LW.view(-1)[rows.places_RT[rows.there_RT]] = number_RT[rows.there_RT]
    return numbers_LW


def gaussian(piece: Mapping[str, Tensor], width: int) -> Tensor:
    """(L, W, D) float32 numbers from N(0, 1), a function of the row (its tokens, and its NOISE where it has one), the
    token's place in it and the number's: however a step is cut and laid out, a row meets the same. 0 at padding.
    """
    ids_LW, rows_LW = piece["input_ids"], row_of_tokens(piece)
    there_LW = rows_LW < rows_in(piece)
    places_LW = piece.get("position_ids", torch.arange(ids_LW.shape[1], device=ids_LW.device).expand_as(ids_LW))
    tokens_LW = _mixed(_mixed(ids_LW) ^ places_LW) * there_LW
    key_R = ids_LW.new_zeros(rows_in(piece) + 1).index_add(0, rows_LW.flatten(), tokens_LW.flatten())
    if NOISE in piece:
        key_R[:-1] += piece[NOISE]
    key_LW = _mixed(_mixed(key_R)[rows_LW] ^ places_LW)
    pairs_P = torch.arange(2 * ((width + 1) // 2), device=ids_LW.device).view(2, -1)
    first_LWP, second_LWP = (_uniform(key_LW[..., None] ^ _mixed(pairs)) for pairs in pairs_P)
    # Box and Muller: two even numbers make two normal ones
    length_LWP, angle_LWP = (-2 * first_LWP.log()).sqrt(), 2 * torch.pi * second_LWP
    both_LWD = torch.cat([length_LWP * angle_LWP.cos(), length_LWP * angle_LWP.sin()], dim=-1)
    return both_LWD[..., :width] * there_LW[..., None]


def with_noise(batch: Batch, *, seed: int, step: int) -> Batch:
    """The batch of a step with its NOISE: for rows that are the same in each epoch, unlike masked ones."""
    drawn_B = np.random.default_rng([seed, step]).integers(_WORD, size=len(batch))
    return replace(batch, rows={**batch.rows, NOISE: drawn_B})


def symmetric(logits: Tensor, others: Tensor) -> Tensor:
    """(..., C), (..., C) -> (...) KL(P || Q) + KL(Q || P) of their softmaxes, in nats, float32.

    As sum of (p - q) (log p - log q), of which no part is below 0: apart, the two are differences of numbers a million
    times as large as themselves where P and Q are as near to each other as here.
    """
    log_p, log_q = logits.float().log_softmax(-1), others.float().log_softmax(-1)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)


def _mixed(numbers: Tensor) -> Tensor:
    """32 bits of each number, well mixed. The factors are below 2^31, so no product leaves an int64."""
    numbers = numbers & _WORD
    for shift, factor in ((16, 0x7FEB352D), (15, 0x2C1B3C6D)):
        numbers = ((numbers ^ (numbers >> shift)) * factor) & _WORD
    return numbers ^ (numbers >> 16)


def _uniform(numbers: Tensor) -> Tensor:
    """Float32 above 0, and at most 1."""
    return (_mixed(numbers).float() + 1) / 2**32


@contextmanager
def _changed(place: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[list[Tensor]]:
    """In the block a module hands on its output changed. Gives a list that holds the outputs as they were."""
    seen: list[Tensor] = []

    def hook(_: nn.Module, __: Any, said: Tensor) -> Tensor:
        seen.append(said)
        return change(said)

    handle = place.register_forward_hook(hook)
    try:
        yield seen
    finally:
        handle.remove()


def _generators(where: torch.device) -> list[Tensor]:
    """The states that dropout is drawn from."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(where)] if where.type == "cuda" else [])]


@contextmanager
def _replayed(states: list[Tensor], where: torch.device) -> Iterator[None]:
    """In the block dropout is drawn from these states; afterwards from where it was before."""
    with torch.random.fork_rng(devices=[where] if where.type == "cuda" else []):
        torch.set_rng_state(states[0])
        if where.type == "cuda":
            torch.cuda.set_rng_state(states[1], where)
        yield
