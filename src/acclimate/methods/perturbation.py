"""The adversary: the small change of an encoder's input that changes the model's output most (ALUM).

Liu et al. (2020), "Adversarial Training for Large Neural Language Models" (ALUM), Algorithm 1, lines 3 to 7; Jiang et
al. (2020), "SMART: Robust and Efficient Fine-Tuning for Pre-trained Natural Language Models through Principled
Regularized Optimization", Algorithm 1, lines 5 to 9. x are the embeddings, f(x) the model's output, s a distance of two
outputs, and the lines are those of ALUM:

    delta ~ N(0, noise^2)                                                                                       (line 3)
    `ascents` times:  g = the gradient of s(f(x), f(x + delta)) at delta                                        (line 5)
                      delta = the point nearest to delta + step * g within `radius` of 0                        (line 6)

reading     x, which is perturbed   g                             within the radius
"paper"     the words' embeddings   divided by the largest        each number is cut off at the radius
                                    number of its row
"released"  what the embeddings     as it is                      each token's delta is scaled so that its largest
            give the first layer                                  number is the radius, 1

Shape suffixes: L lines, W width of a line in tokens, R rows, D numbers of an embedding, P pairs of them, B rows of the
step, C outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from acclimate.core.settings import check_ranges
from acclimate.methods.recipes.adversarial import Ascents, NoiseScale, Radius, SearchReading, StepSize
from acclimate.models.encoder import encoder_of, family
from acclimate.models.heads import rows_of
from acclimate.training.pieces import Piece
from acclimate.training.plan import device

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Distance = Callable[[Tensor, Tensor], Tensor]  # (f(x), f(x + delta)) -> a sum over the piece

RADIUS: dict[SearchReading, float] = {"paper": 1e-5, "released": 1.0}
ABOVE_0 = 1e-6  # the released code adds it to a divisor
LOW_32_BITS = 2**32 - 1


@dataclass(frozen=True)
class Perturbation:
    """Settings of the search above. radius: 0 stands for RADIUS of the reading."""

    step: StepSize = 1e-3
    noise: NoiseScale = 1e-5
    radius: Radius = 0.0
    ascents: Ascents = 1
    reading: SearchReading = "paper"

    def __post_init__(self) -> None:
        check_ranges(self)

    def place(self, model: PreTrainedModel) -> nn.Module:
        """Return the module whose output x is.

        Raises ValueError where the model's family has no such module, and under "paper" on a GPU of Apple.
        """
        if self.reading == "paper":
            if device().type == "mps":
                raise ValueError(
                    "the search for an adversary repeats dropout, which is not possible on ACCLIMATE_DEVICE=mps. "
                    "Set ACCLIMATE_DEVICE=cpu, or remove adversarial training"
                )
            words: Any = model.get_input_embeddings()
            place: nn.Module = words
            return place
        embeddings: nn.Module | None = getattr(encoder_of(model), "embeddings", None)
        if embeddings is None:
            raise ValueError(
                f"reading='released' perturbs the output of the embeddings, whose place in a '{family(model)}' is "
                "unknown. Set reading='paper'"
            )
        return embeddings

    def compare(
        self,
        model: PreTrainedModel,
        piece: Piece,
        output: Callable[[], Tensor],
        distance: Distance,
        *,
        ascent: Distance | None = None,
    ) -> tuple[Tensor, Tensor]:
        """f(x) of the piece, and its distance from f(x + delta) for the delta that the search finds.

        output    a pass of the model over the piece: f
        distance  of the result, with gradients for the model's weights; delta counts as given
        ascent    s of the search, in which the gradient at one row may not depend on another row; None: distance

        The paper's deltas are a few hundred-thousandths, which bfloat16 cannot represent and which are nothing beside
        the effect of another dropout. So under "paper" all passes are in float32 whatever the plan's precision, and
        under the same dropout. Those of the released code, with deltas of 1, are in the plan's precision and each
        under another dropout, as there.
        """
        where, paper = piece["input_ids"].device, self.reading == "paper"
        place, s = self.place(model), ascent or distance
        precision: AbstractContextManager[Any] = torch.autocast(where.type, enabled=False) if paper else nullcontext()
        with precision:
            dropout = [torch.get_rng_state(), *([torch.cuda.get_rng_state(where)] if where.type == "cuda" else [])]
            with _changed(place, lambda embedded_LWD: embedded_LWD) as embedded:
                clean = output()  # f(x)
            [x_LWD] = embedded

            def perturbed(delta_LWD: Tensor) -> Tensor:
                """f(x + delta)."""

                def moved(embedded_LWD: Tensor) -> Tensor:
                    # the released code keeps the x of the first pass, so the embeddings get no gradient of this one
                    return (embedded_LWD if paper else x_LWD.detach()) + delta_LWD.to(embedded_LWD.dtype)

                same_dropout: AbstractContextManager[None] = _replayed(dropout, where) if paper else nullcontext()
                with same_dropout, _changed(place, moved):
                    return output()

            delta_LWD = self.noise * gaussian(piece, x_LWD.shape[-1])  # line 3
            for _ in range(self.ascents):
                with torch.enable_grad():
                    delta_LWD.requires_grad_()
                    change = s(clean.detach(), perturbed(delta_LWD))
                    (g_LWD,) = torch.autograd.grad(change, delta_LWD)  # line 5
                delta_LWD = self._ascended(delta_LWD.detach(), g_LWD, piece)  # line 6
            return clean, distance(clean, perturbed(delta_LWD))

    def _ascended(self, delta_LWD: Tensor, g_LWD: Tensor, piece: Piece) -> Tensor:
        """(L, W, D) delta after a step along g, brought back to within the radius."""
        radius = self.radius or RADIUS[self.reading]
        if self.reading == "released":
            delta_LWD = delta_LWD + self.step * g_LWD
            return radius * delta_LWD / (delta_LWD.abs().amax(-1, keepdim=True) + ABOVE_0)
        # the largest number of g in each row; padding counts as one more row
        rows_LW, largest_LW = row_of_tokens(piece), g_LWD.abs().amax(-1)
        zeros = largest_LW.new_zeros(rows_in(piece) + 1)
        largest_R = zeros.scatter_reduce(0, rows_LW.flatten(), largest_LW.flatten(), "amax")
        scale_LW1 = largest_R[rows_LW][..., None].clamp(min=torch.finfo(largest_R.dtype).tiny)
        return (delta_LWD + self.step * g_LWD / scale_LW1).clamp(-radius, radius)


def rows_in(piece: Mapping[str, Tensor]) -> int:
    """R, the number of rows of a piece."""
    return len(piece["lengths"] if "lengths" in piece else piece["input_ids"])


def row_of_tokens(piece: Mapping[str, Tensor]) -> Tensor:
    """(L, W) int64: the number of each token's row within the piece; R at padding."""
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
    """(L, W, D) float32 numbers from N(0, 1); 0 at padding.

    They are a function of the row's tokens, of the token's place in it and of the number's place in the token, so a
    row gets the same noise however a step is cut and laid out.
    """
    ids_LW, rows_LW = piece["input_ids"], row_of_tokens(piece)
    there_LW = rows_LW < rows_in(piece)
    places_LW = piece.get("position_ids", torch.arange(ids_LW.shape[1], device=ids_LW.device).expand_as(ids_LW))
    tokens_LW = _mixed(_mixed(ids_LW) ^ places_LW) * there_LW
    key_R = ids_LW.new_zeros(rows_in(piece) + 1).index_add(0, rows_LW.flatten(), tokens_LW.flatten())
    key_LW = _mixed(_mixed(key_R)[rows_LW] ^ places_LW)
    pairs_P = torch.arange(2 * ((width + 1) // 2), device=ids_LW.device).view(2, -1)
    # float32 numbers above 0 and at most 1; Box and Muller: two uniform numbers make two normal ones
    first_LWP, second_LWP = ((_mixed(key_LW[..., None] ^ _mixed(pairs)).float() + 1) / 2**32 for pairs in pairs_P)
    length_LWP, angle_LWP = (-2 * first_LWP.log()).sqrt(), 2 * torch.pi * second_LWP
    both_LWD = torch.cat([length_LWP * angle_LWP.cos(), length_LWP * angle_LWP.sin()], dim=-1)
    return both_LWD[..., :width] * there_LW[..., None]


def symmetric(logits: Tensor, others: Tensor) -> Tensor:
    """(..., C), (..., C) -> (...) KL(P || Q) + KL(Q || P) of their softmaxes, in nats, float32.

    It is computed as the sum of (p - q) (log p - log q), of which no summand is below 0. Each KL by itself is a sum in
    which numbers a million times as large cancel, where P and Q are as near to each other as here.
    """
    log_p, log_q = logits.float().log_softmax(-1), others.float().log_softmax(-1)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)


def _mixed(numbers: Tensor) -> Tensor:
    """Return a 32-bit hash of each number, int64. The factors are below 2^31, so no product overflows."""
    numbers = numbers & LOW_32_BITS
    for shift, factor in ((16, 0x7FEB352D), (15, 0x2C1B3C6D)):
        numbers = ((numbers ^ (numbers >> shift)) * factor) & LOW_32_BITS
    return numbers ^ (numbers >> 16)


@contextmanager
def _changed(place: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[list[Tensor]]:
    """Within the block the module's output is changed. Yields a list of its outputs before the change."""
    outputs: list[Tensor] = []

    def hook(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        outputs.append(output)
        return change(output)

    handle = place.register_forward_hook(hook)
    try:
        yield outputs
    finally:
        handle.remove()


@contextmanager
def _replayed(states: list[Tensor], where: torch.device) -> Iterator[None]:
    """Within the block dropout is drawn from these states; afterwards the generators go on where they were."""
    with torch.random.fork_rng(devices=[where] if where.type == "cuda" else []):
        torch.set_rng_state(states[0])
        if where.type == "cuda":
            torch.cuda.set_rng_state(states[1], where)
        yield
