"""DGA: go on with masked language modelling on raw text of the domain, and hold back the heads of general knowledge.

Ke, Shao, Lin, Xu, Shu and Liu (2022), "Adapting a Language Model While Preserving its General Knowledge", section 3.
The importance I of each attention head is computed from the domain's text (Eq. 5 to 8 and 10: methods/importance.py).
Then the model minimises

    L_MLM + lambda_1 L_contrast                                                                               (Eq. 16)
    L_contrast = -log e^(sim(o_m, o+_m) / tau) / sum_j ( e^(sim(o_m, o+_j) / tau) + e^(sim(o_m, o-_j) / tau) )  (Eq. 15)

while the gradient of each head is held back: grad'(att_lh) = (1 - I_lh) grad(att_lh)                          (Eq. 9)

o_m and o+_m are the means of text m's last hidden states in two passes under different dropout (Eq. 14); o-_m is that
of a pass in which each head is multiplied by its importance (Eq. 12). The checkpoint is an ordinary one.

Shape suffixes: R rows of a piece, B rows of the step, V views of a row, D numbers of a view, C candidates, L layers, H
heads; W width of a line in tokens.

Readings
  Eq. 9 can mean three things (`reading`). "gradient", the default and the released code's, multiplies the gradients of
  a part's weights and no others. "head_output" is Eq. 9 to the letter: it multiplies the gradient of a head's output in
  the backward pass, so lower layers get less of it too, and the gradient of W_o's columns, because att_lh contains W_o
  (Eq. 2); for other parts it multiplies the gradient of what `models.gates.gated` would multiply. "update" multiplies
  the optimiser's change of a part's weights, decay included.
  Eq. 15 prints e^sim / tau; we compute e^(sim / tau), as the released code and SimCSE do (Gao et al., 2021, Eq. 4: the
  same contrast without the o-).
  The contrast sees the texts unmasked; masks are for L_MLM alone.
  o- has a gradient and dropout, as o and o+ have. With `anchor = "mlm"` o is the mean of the masked pass that L_MLM
  makes anyway, so a step has three passes, not four.
  If more parts than heads are held back (`parts`, Table 3's (H, I), (H, I, O) and (H, I, O, E)), o- is still gated at
  heads only.
  "Without contrast" is `contrast = 0`. "Random mask" draws importances (`importance = "random"`) for the soft mask and
  the contrast alike. "Domain-specific" gates o and o+ with 1 - I (`knowledge = "domain"`), as the released code does.
Deviations
  AdamW divides a gradient by a running mean of its size. A factor that is the same at every step is in both, so it
  cancels: under "gradient" a weight moves as if nothing were masked, unless its factor is 0, its gradients are as small
  as AdamW's epsilon, or the step's gradient is clipped. Under "head_output" it cancels for the head's weights, but not
  for what lies below. "update" does what Eq. 9 says of plain gradient descent (docs/methods/dga.md).
  Masks act once a step, on the whole gradient. The released code multiplies again for each piece of a step, masks W_o's
  bias, which belongs to no head, and masks the columns of W_q, W_k and W_v, where a head owns the rows.
  The released code also computes importance without dropout, from rounding noise; takes different texts as positives;
  and takes means over padding. None of that is done here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from acclimate.core import files, ranks
from acclimate.core.types import Batch, Checkpoint, Cost, Watch, counted, unwatched
from acclimate.methods.domain import check_passes_differ, hidden_states, masked_pass, row_means, unmasked
from acclimate.methods.importance import head_importance, normalised, random_importance
from acclimate.methods.mlm import RunStart, adapt_with
from acclimate.methods.recipes.dga import Anchor, DgaRecipe, Knowledge, MaskReading
from acclimate.models.encoder import load_masked_language_model, training_flops
from acclimate.models.families import GatedPart
from acclimate.models.gates import gate_shape, gated, heads_moved, masked_weights, output_columns, scale_gradients
from acclimate.text.rows import masked_segments
from acclimate.text.streams import evaluation_batches
from acclimate.training.checkpoint import BEFORE
from acclimate.training.objective import VIEWS, MaskedLanguageLoss
from acclimate.training.pieces import Piece

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IMPORTANCE = "importance.json"  # in the directory of a run
HEADS = "heads.json"  # there too: how far each head moved (models.gates.heads_moved), and its I^norm
BATCH = 32  # rows of which importance is computed at once
PASSES_OF_IMPORTANCE = 4 / 3  # a row, in passes of training: two forward, and one backward to the gates alone


class SoftMask:
    """Eq. 9: multiplies the gradients of a model's parts, or their updates, by 1 - I.

    importance  part -> I^norm in [0, 1], shaped as `models.gates.gate_shape` says
    reading     see Readings, above; "none" leaves gradients and updates as they are

    An objective calls `on_gradients` and `on_update` from its methods of that name. Under "head_output" the model gets
    hooks that stay on it. Raises ValueError for importances out of range or of another shape.
    """

    def __init__(
        self, model: PreTrainedModel, importance: Mapping[GatedPart, Tensor], reading: MaskReading = "gradient"
    ) -> None:
        for part, values in importance.items():
            if not bool(((values >= 0) & (values <= 1)).all()):
                raise ValueError(
                    f"{part}: importances from {float(values.min()):g} to {float(values.max()):g} are outside 0 to "
                    "1, so they cannot be a mask. Normalise them first"
                )
        factors = {part: 1 - values for part, values in importance.items() if reading != "none"}  # 1 - I of Eq. 9
        if reading == "head_output":
            scale_gradients(model, factors)  # hooks at the parts' outputs: Eq. 9 in the backward pass
            self.weights = output_columns(model, factors["heads"]) if "heads" in factors else []
        else:
            self.weights = [pair for part, values in factors.items() for pair in masked_weights(model, part, values)]
        self.reading = reading
        self.before: list[Tensor] = []  # of "update": the masked weights before the optimiser moves them

    @torch.no_grad()
    def on_gradients(self) -> None:
        self.weights = [(weight, factor.to(weight.device)) for weight, factor in self.weights]
        if self.reading == "update":
            self.before = [weight.clone() for weight, _ in self.weights]
            return
        for weight, factor in self.weights:
            if weight.grad is not None:
                weight.grad.mul_(factor)  # Eq. 9: grad' = (1 - I) grad

    @torch.no_grad()
    def on_update(self) -> None:
        if self.reading != "update":
            return
        for (weight, factor), before in zip(self.weights, self.before, strict=True):
            weight.copy_(torch.lerp(before, weight, factor.expand_as(weight)))  # Eq. 9: (1 - I) of the change
        self.before = []


def contrast(views_BVD: Tensor, temperature: float) -> Tensor:
    """L_contrast (Eq. 15) as a sum over the rows m of the step, a float32 scalar; sim is the cosine.

    views_BVD    o_m, o+_m and, where rows have a third view, the negatives o-_m; the candidates of Eq. 15's denominator
                 are all the o+ and then all the o-, so C = (V - 1) B
    temperature  tau, above 0
    """
    with torch.autocast(views_BVD.device.type, enabled=False):
        anchors_BD, *others = nn.functional.normalize(views_BVD.float(), dim=-1).unbind(1)  # others: V - 1 times (B, D)
        similarity_BC = anchors_BD @ torch.cat(others).T  # sim(o_m, o+_j), then sim(o_m, o-_j)
        positives_B = torch.arange(len(views_BVD), device=views_BVD.device)  # o+_m is candidate m
        return nn.functional.cross_entropy(similarity_BC / temperature, positives_B, reduction="sum")  # Eq. 15


class DgaLoss(MaskedLanguageLoss):
    """Eq. 16 under the soft mask of Eq. 9. Terms: `mlm`, as MaskedLanguageLoss has it, and `contrast`, Eq. 15 averaged
    over the step's texts.

    importance  part -> I^norm in [0, 1], shaped as `models.gates.gate_shape` says
    weight      lambda_1; 0 leaves the contrast out, and rows are not compared with each other
    anchor      o comes from a separate pass over the unmasked text ("own"), or from the masked pass of L_MLM ("mlm")
    knowledge   o and o+ come from all heads ("full", Eq. 13) or from heads multiplied by 1 - I ("domain")

    Raises ValueError for importances out of range, of another shape, or of a family whose heads are not known.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        importance: Mapping[GatedPart, Tensor],
        *,
        reading: MaskReading = "gradient",
        weight: float = 1.0,
        temperature: float = 0.05,
        anchor: Anchor = "own",
        knowledge: Knowledge = "full",
    ) -> None:
        super().__init__(model)
        self.soft_mask = SoftMask(model, importance, reading)
        self.temperature, self.anchor = temperature, anchor
        if weight:
            self.weights = {**self.weights, "contrast": weight}  # L_MLM + lambda_1 L_contrast, Eq. 16
            self.couples_rows = True
            self.general_LH = importance["heads"]  # the gates of o-, Eq. 11
            self.full_LH = 1 - self.general_LH if knowledge == "domain" else None  # gates of o and o+; None: 1, Eq. 13

    def counts(self, batch: Batch) -> dict[str, int]:
        counts = super().counts(batch)
        return {**counts, "contrast": len(batch)} if self.couples_rows else counts

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        if not self.couples_rows:
            return super().forward(piece)
        if self.anchor == "own":
            views_R3D = self.views(piece)
            return {**super().forward(piece), VIEWS: views_R3D}
        mlm_sum, hidden_LWD = masked_pass(self.model, piece)
        return {"mlm": mlm_sum, VIEWS: self._with_others(row_means(hidden_LWD, piece), piece)}

    def views(self, piece: Piece) -> Tensor:
        """(R, 3, D) o_m, o+_m and o-_m of each text m."""
        if self.anchor == "own":
            anchor_RD = self._transformer(unmasked(piece), self.full_LH)  # o_m, Eq. 14
        else:
            anchor_RD = self._transformer(piece, None)
        return self._with_others(anchor_RD, piece)

    def _with_others(self, anchor_RD: Tensor, piece: Piece) -> Tensor:
        """(R, 3, D) the anchors, with the positives and negatives of their texts."""
        text = unmasked(piece)
        positive_RD = self._transformer(text, self.full_LH)  # o+_m: Eq. 14 again, under another dropout
        negative_RD = self._transformer(text, self.general_LH)  # o-_m = o^gen, Eq. 12
        return torch.stack([anchor_RD, positive_RD, negative_RD], dim=1)

    def _transformer(self, piece: Piece, gates_LH: Tensor | None) -> Tensor:
        """(R, D) the mean of each row's last hidden states (Eq. 12, 14), heads multiplied by gates (Eq. 11, 13)."""
        with nullcontext() if gates_LH is None else gated(self.model, {"heads": gates_LH}):
            return row_means(hidden_states(self.model, piece), piece)

    def compared(self, views_B3D: Tensor) -> dict[str, Tensor]:
        return {"contrast": contrast(views_B3D, self.temperature)}

    def on_gradients(self) -> None:
        self.soft_mask.on_gradients()

    def on_update(self) -> None:
        self.soft_mask.on_update()

    def flops(self, batch: Batch) -> float:
        more = {"own": 3, "mlm": 2}[self.anchor] if self.couples_rows else 0  # passes beside that of L_MLM
        return super().flops(batch) + more * training_flops(self.model, batch.lengths, predicted=0)


def adapt(recipe: DgaRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Compute importance, then train; writes `out/checkpoint`, `out/importance.json` and `out/heads.json`. A run that
    was stopped goes on, one that ended is returned as it is.

    Raises ValueError where the corpus has no text, or the model cannot be loaded, has no dropout (both passes of Eq. 14
    would be one), or is of a family whose heads are not known.
    """

    def objective(start: RunStart) -> DgaLoss:
        if recipe.contrast:
            check_passes_differ(start.model)
        importance = ranks.first_then_all(lambda: _importance(recipe, start, out, watch))
        return DgaLoss(
            start.model,
            {part: normalised(values, recipe.normalisation, over=recipe.over) for part, values in importance.items()},
            reading=recipe.reading,
            weight=recipe.contrast,
            temperature=recipe.temperature,
            anchor=recipe.anchor,
            knowledge=recipe.knowledge,
        )

    checkpoint = adapt_with(recipe, out, objective, watch=watch)
    if ranks.is_first() and not (out / HEADS).exists():
        importance = torch.tensor(files.read_record(out / IMPORTANCE)["heads"]) if "heads" in recipe.parts else None
        before, after = (load_masked_language_model(model) for model in (recipe.model, checkpoint.path))
        held = None if importance is None else normalised(importance, recipe.normalisation, over=recipe.over).tolist()
        files.write_record(out / HEADS, {"moved": heads_moved(before, after).tolist(), "importance": held})
    return checkpoint


def _importance(recipe: DgaRecipe, start: RunStart, out: Path, watch: Watch) -> dict[GatedPart, Tensor]:
    """Return each part's importance before normalisation, from `out/importance.json`, which is computed if missing."""
    path = out / IMPORTANCE
    if not path.exists():
        if recipe.importance == "random":
            importance = {
                part: random_importance(gate_shape(start.model, part), recipe.plan.seed) for part in recipe.parts
            }
        else:
            sequences = recipe.subset
            if recipe.subset_tokens:
                mean = masked_segments(start.tokens, longest=recipe.max_tokens, whole_words=True).mean_tokens
                sequences = math.ceil(recipe.subset_tokens / mean)
            batches = evaluation_batches(
                start.tokens, batch=BATCH, longest=recipe.max_tokens, seed=recipe.plan.seed, segments_at_most=sequences
            )
            followed = counted(batches, watch, "importance", total=len(batches), unit="batches", every=10)
            begun = time.monotonic()
            importance = head_importance(
                start.model, followed, parts=recipe.parts, seed=recipe.plan.seed, plan=recipe.plan
            )
            flops = sum(
                PASSES_OF_IMPORTANCE * training_flops(start.model, batch.lengths, predicted=0) for batch in batches
            )
            cost = Cost(sum(len(batch.ids) for batch in batches), flops, time.monotonic() - begun)
            files.write_record(out / BEFORE, asdict(cost))
        files.write_record(path, {part: values.double().tolist() for part, values in importance.items()})
    return {part: torch.tensor(values) for part, values in files.read_record(path).items()}
