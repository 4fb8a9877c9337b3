"""Holding back what is important while a model learns.

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge" (DGA), Eq. 9:

    grad'(att_lh) = (1 - I_lh) grad(att_lh)

Readings
  "gradient" (default, the released code's): the gradients of a part's weights are multiplied, those and no others.
  "head_output", Eq. 9 to the letter: what is multiplied is the gradient of a head's output on its way back, so lower
  layers get less of it too. att_lh has W_o in it (Eq. 2), so its columns are held back as well. Of the other parts
  likewise: the gradient of what `models.gates.gated` would multiply.
  "update": what the optimiser does to a part's weights is multiplied, decay included.
Deviations
  AdamW divides a gradient by a running mean of its size. A factor that is the same at every step is in both, so it
  falls out: under "gradient" a weight moves as if nothing were masked, unless its factor is 0 or its gradients are as
  small as AdamW's epsilon. Under "head_output" it falls out for a head's own weights, but not for what lies below.
  "update" is what Eq. 9 says of plain gradient descent.
  Masks act once a step, on the whole gradient. The released code multiplies again for each piece of a step, masks W_o's
  bias, which belongs to no head, and of W_q, W_k and W_v the columns, which belong to no head either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

from acclimate.models.gates import scale_gradients
from acclimate.models.parts import Part, masked_weights, output_columns

Reading = Literal["gradient", "head_output", "update"]


class SoftMask:
    """1 - I on the gradients or updates of a model's parts, for as long as the model lives.

    importance  part -> I^norm in [0, 1], shaped as `models.parts.gate_shape` says

    An objective calls `on_gradients` and `on_update` from its methods of that name. Raises ValueError for importances
    out of range or of another shape.
    """

    def __init__(
        self, model: PreTrainedModel, importance: Mapping[Part, Tensor], reading: Reading = "gradient"
    ) -> None:
        for part, values in importance.items():
            if not bool(((values >= 0) & (values <= 1)).all()):
                raise ValueError(
                    f"{part}: importances from {float(values.min()):g} to {float(values.max()):g} cannot mask, which "
                    "takes 0 to 1. Normalise them (methods/importance.py)"
                )
        kept = {part: 1 - values for part, values in importance.items()}
        if reading == "head_output":
            scale_gradients(model, kept)
            self.weights = output_columns(model, kept["heads"]) if "heads" in kept else []
        else:
            self.weights = [found for part, values in kept.items() for found in masked_weights(model, part, values)]
        self.moves = reading == "update"
        self.before: list[Tensor] = []  # of the step that is under way: the weights, in their order

    @torch.no_grad()
    def on_gradients(self) -> None:
        self.weights = [(weight, kept.to(weight.device)) for weight, kept in self.weights]
        if self.moves:
            self.before = [weight.clone() for weight, _ in self.weights]
            return
        for weight, kept in self.weights:
            if weight.grad is not None:
                weight.grad.mul_(kept)

    @torch.no_grad()
    def on_update(self) -> None:
        if not self.moves:
            return
        for (weight, kept), before in zip(self.weights, self.before, strict=True):
            weight.copy_(torch.lerp(before, weight, kept.expand_as(weight)))
        self.before = []
