"""DGA's importance of attention heads: how much the model's robustness depends on each, computed from raw text.

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge" (DGA), section 3.1. The importance
of head h of layer l is

    I_lh = 1/M sum_m |d L_impt(x_m) / d g_lh|                                                            (Eq. 6 and 7)
    L_impt(x_m) = KL(f1(x_m), f2(x_m))                                                                         (Eq. 8)
    I^norm_lh = |tanh(Normalize(I_lh))|                                                                       (Eq. 10)

where g_lh = 1 multiplies the head's output (Eq. 5), and f1 and f2 are passes over the same text under different
dropout; the other parts of Table 3 likewise (models/gates.py).

Shape suffixes: R rows, L lines, W width of a line in tokens, D hidden.

Readings
  "The KL-divergence of the two representations": softmax is over the features of the last hidden state, and the KL is
  averaged over the tokens of a text, special ones included. Texts are unmasked.
  M counts texts: each text has separate gates. Both passes over it share them, so the gradient comes through both.
  "Normalize makes the I_lh have a mean of 0 and standard deviation of 1" (Eq. 10): over the heads of each layer, as in
  the released code, or over all of them (`over="model"`); the deviation is the unbiased one. With two heads a layer
  |tanh z| is the same for both, whatever their importance.
Deviations
  The released code computes this without dropout, so that both passes agree and their difference is rounding noise;
  takes softmax over the positions; and sums gradients with their signs. None of that is done here.
  Eq. 10 protects the least important heads of a layer like the most important ones, because of its absolute value.
  "min-max" (the least important 0, the most important 1) and "rank" (the share of the others that are less important)
  do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from acclimate.core.types import Batch
from acclimate.methods.domain import divergence, hidden_states, row_means, unmasked
from acclimate.methods.recipes.dga import How, Over
from acclimate.models.families import GatedPart
from acclimate.models.gates import gate_shape, gated
from acclimate.models.heads import keeps_rows_apart
from acclimate.training.gradients import noise
from acclimate.training.pieces import Piece, pack, pad, pieces_of_rows
from acclimate.training.plan import Plan, device, piece_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def head_importance(
    model: PreTrainedModel,
    batches: Iterable[Batch],
    *,
    parts: Sequence[GatedPart] = ("heads",),
    seed: int,
    plan: Plan | None = None,
) -> dict[GatedPart, Tensor]:
    """Return part -> I of each gate (Eq. 6), float32 on the CPU, shaped as `gate_shape` says.

    Each row has separate gates, so a single backward pass gives every |gradient| of Eq. 6; no weight gets one. The cost
    is 4/3 of training on the batches once. The model is moved to this process's device, and otherwise left as it was.

    batches  texts; masked tokens (`labels`) are replaced by the original ones
    seed     of the dropout noise
    plan     its `piece_tokens` says how many tokens may go through the model at once

    Raises ValueError where the model has no dropout, for a family whose heads are not known, and without texts.
    """
    where, rows = device(), 0
    held = torch.device("cpu") if where.type == "mps" else where  # Apple's GPUs have no float64
    sums = {part: torch.zeros(gate_shape(model, part), dtype=torch.float64, device=held) for part in parts}
    most = piece_tokens(plan or Plan(), where) // 2  # two passes are held at once
    lay = pack if keeps_rows_apart(model) else pieces_of_rows
    model.to(where)  # type: ignore[arg-type]  # transformers' wrapper hides the signature
    with _only_noise(model):
        for step, batch in enumerate(batches):
            for index, layout in enumerate(lay(batch.lengths, most)):
                piece = pad(batch, layout, where)
                piece = unmasked(piece) if "labels" in piece else piece
                with noise(seed, step, index, where):
                    for part, gradients in row_gradients(model, piece, len(layout.rows_R), parts).items():
                        sums[part] += gradients.abs().to(held).sum(0, dtype=torch.float64)  # the sum of Eq. 6
            rows += len(batch)
    if not rows:
        raise ValueError("no texts to compute the importance of heads from. Give texts of the domain")
    return {part: (total / rows).float().cpu() for part, total in sums.items()}  # 1/M of Eq. 6


def row_gradients(
    model: PreTrainedModel, piece: Piece, rows: int, parts: Sequence[GatedPart]
) -> dict[GatedPart, Tensor]:
    """Return part -> (R, ...) the gradient of each row's L_impt (Eq. 8) at that row's gates (Eq. 7).

    Raises ValueError where the two passes do not differ.
    """
    gates = {part: torch.ones(rows, *gate_shape(model, part), device=model.device) for part in parts}  # g, Eq. 5
    for values in gates.values():
        values.requires_grad_()
    with gated(model, gates, piece):
        first_LWD, second_LWD = hidden_states(model, piece), hidden_states(model, piece)  # f1(x_m) and f2(x_m)
    if torch.equal(first_LWD, second_LWD):
        raise ValueError(
            "the model has no dropout, so two passes over a text are equal and cannot show the importance of "
            "heads. Set dropout=0.1 and attention_dropout=0.1, the values of BERT and RoBERTa"
        )
    loss_R1 = row_means(divergence(first_LWD, second_LWD)[..., None], piece)  # Eq. 8, the mean over a row's tokens
    # a row's gates touch that row alone, so the gradients of the sum are those of each row
    gradients = torch.autograd.grad(loss_R1.sum(), [*gates.values()])  # Eq. 7
    return dict(zip(gates, gradients, strict=True))


def normalised(importance: Tensor, how: How = "paper", *, over: Over = "layer") -> Tensor:
    """I^norm in [0, 1], shaped like the importance (layers, gates).

    how   "paper": |tanh z|, Eq. 10; "min-max"; "rank"
    over  the gates among which z, least and most, or ranks are computed: those of a layer, or of the whole model

    Where all gates are equally important, "paper" and "min-max" give 0 and "rank" gives 1/2.
    """
    groups = importance.double().flatten() if over == "model" else importance.double()
    groups = groups.reshape(-1, groups.shape[-1])
    if how == "paper":
        spread = groups.std(-1, keepdim=True) if groups.shape[-1] > 1 else torch.zeros(len(groups), 1)
        scaled = _ratio(groups - groups.mean(-1, keepdim=True), spread).tanh().abs()  # Eq. 10
    elif how == "min-max":
        least, most = groups.aminmax(dim=-1, keepdim=True)
        scaled = _ratio(groups - least, most - least)
    else:
        scaled = torch.stack([_ranks(group) for group in groups])
    return scaled.reshape(importance.shape).to(importance.dtype)


def random_importance(shape: tuple[int, ...], seed: int) -> Tensor:
    """Importances from U[0, 1), before normalisation: Table 3's "random mask"."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


@contextmanager
def _only_noise(model: PreTrainedModel) -> Iterator[None]:
    """Within the block the model is in training mode and no weight gets a gradient; afterwards it is as before."""
    modes = [(module, module.training) for module in model.modules()]
    flags = [(weight, weight.requires_grad) for weight in model.parameters()]
    model.train().requires_grad_(False)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        for weight, flag in flags:
            weight.requires_grad_(flag)


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """above / below, and 0 where below is 0."""
    return torch.where(below > 0, above / below.clamp(min=torch.finfo(below.dtype).tiny), 0.0)


def _ranks(values: Tensor) -> Tensor:
    """(N,) the share of the other values that are smaller; equal ones count half."""
    _, which, times = torch.unique(values, return_inverse=True, return_counts=True)
    smaller: Tensor = times.cumsum(0) - times + (times - 1) / 2
    return smaller.double()[which] / max(1, len(values) - 1)
