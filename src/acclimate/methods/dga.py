"""Go on with masked language modelling on raw text of the domain, the heads that carry general knowledge held back.

Ke, Shao, Lin, Xu, Shu and Liu (2022), "Adapting a Language Model While Preserving its General Knowledge" (DGA),
section 3. First the importance of each attention head is told from the text itself (methods/importance.py, Eq. 5 to 8);
then the model minimises

    L_MLM + lambda_1 L_contrast                                                                            (Eq. 16)

with the heads' gradients multiplied by 1 - I (methods/dga.py, Eq. 9), and

    L_contrast = -log e^(sim(o, o+) / tau) / sum_j (e^(sim(o, o+_j) / tau) + e^(sim(o, o-_j) / tau))       (Eq. 15)

o and o+ are the means of a text's last hidden states in two passes with dropout, o- that of a pass whose heads are
multiplied by their importance (Eq. 11 to 14; methods/dga.py). The checkpoint is an ordinary one.

Readings
  The contrast is of the texts as they are; masks are for the first term alone.
  o- has a gradient too, and dropout like the others. With `anchor = "mlm"` o is the mean of the masked pass that the
  first term makes anyway, so a step has three passes, not four.
  Where more than heads are masked (`parts`, Table 3's (H, I), (H, I, O) and (H, I, O, E)), o- is still gated at heads.
  "Without contrast" is `contrast = 0`. "Random mask" draws importances (`importance = "random"`) for the soft mask and
  the contrast alike. "Domain-specific" gates o and o+ with 1 - I (`knowledge = "domain"`), as the released code does.
Deviations
  AdamW divides a gradient by its own size, so a factor that stays the same on it is next to no factor at all:
  `reading = "update"` multiplies what the optimiser does instead (docs/methods/dga.md). Default is the paper's.
  The released code ranks heads without dropout, on rounding noise; has different texts as positives; masks the wrong
  axis of W_q, W_k and W_v; and takes means over padding. None of that is done here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from acclimate.core import files, ranks
from acclimate.core.types import Batch, Checkpoint, Cost, Watch, counted, unwatched
from acclimate.methods.domain import (
    NOISY,
    SMALL_NOISY,
    DomainRecipe,
    check_dropout,
    check_noise,
    hidden_states,
    masked_pass,
    row_means,
    unmasked,
)
from acclimate.methods.importance import How, Over, head_importance, normalised, random_importance
from acclimate.methods.method import Contestant, Method
from acclimate.methods.method import check_dropout as check_stated
from acclimate.methods.mlm import Start, adapt_with
from acclimate.models.dropout import DROPOUT_FIELDS
from acclimate.models.encoder import training_flops
from acclimate.models.gates import PLACES, Part, gate_shape, gated, masked_weights, output_columns, scale_gradients
from acclimate.text.streams import evaluation_batches
from acclimate.training.checkpoint import BEFORE
from acclimate.training.objective import VIEWS, MaskedLanguageLoss
from acclimate.training.pieces import Piece

# -------------------- contrast loss
# A row's positive view against all other rows: the contrastive loss of DGA (Ke et al., 2022, Eq. 15) and of SimCSE.
#
# Gao et al. (2021), "SimCSE: Simple Contrastive Learning of Sentence Embeddings", Eq. 4, is the same without negatives
# of
# their own. Eq. 15 prints e^sim / tau; e^(sim / tau), as in its released code and in SimCSE, is what we take it to
# mean.
#
# Shape suffixes: B rows of the step, V views of a row, D numbers of a view, C candidates.


def contrast(views_BVD: Tensor, temperature: float) -> Tensor:
    """The sum over rows m of Eq. 15, a float32 scalar, sim being the cosine:

        -log( e^(sim(o_m, o+_m) / tau)  /  sum over rows j of ( e^(sim(o_m, o+_j) / tau) + e^(sim(o_m, o-_j) / tau) ) )

    views_BVD    o_m, o+_m and, where each row has more views, its negatives: o-_m
    temperature  tau, above 0
    """
    with torch.autocast(views_BVD.device.type, enabled=False):
        anchors_BD, *others = nn.functional.normalize(views_BVD.float(), dim=-1).unbind(1)
        similarity_BC = anchors_BD @ torch.cat(others).T
        positives_B = torch.arange(len(views_BVD), device=views_BVD.device)
        return nn.functional.cross_entropy(similarity_BC / temperature, positives_B, reduction="sum")


# -------------------- soft mask
# Holding back what is important while a model learns.
#
# Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge" (DGA), Eq. 9:
#
# grad'(att_lh) = (1 - I_lh) grad(att_lh)
#
# Readings
# "gradient" (default, the released code's): the gradients of a part's weights are multiplied, those and no others.
# "head_output", Eq. 9 to the letter: what is multiplied is the gradient of a head's output on its way back, so lower
# layers get less of it too. att_lh has W_o in it (Eq. 2), so its columns are held back as well. Of the other parts
# likewise: the gradient of what `models.gates.gated` would multiply.
# "update": what the optimiser does to a part's weights is multiplied, decay included.
# Deviations
# AdamW divides a gradient by a running mean of its size. A factor that is the same at every step is in both, so it
# falls out: under "gradient" a weight moves as if nothing were masked, unless its factor is 0 or its gradients are as
# small as AdamW's epsilon. Under "head_output" it falls out for a head's own weights, but not for what lies below.
# "update" is what Eq. 9 says of plain gradient descent.
# Masks act once a step, on the whole gradient. The released code multiplies again for each piece of a step, masks W_o's
# bias, which belongs to no head, and of W_q, W_k and W_v the columns, which belong to no head either.


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


IMPORTANCE = "importance.json"  # in the directory of a run
BATCH = 32  # rows of which importance is computed at once

Anchor = Literal["own", "mlm"]
Knowledge = Literal["full", "domain"]


@dataclass(frozen=True)
class DgaRecipe(DomainRecipe):
    """DGA, with section 4.2's settings as defaults."""

    parts: tuple[Part, ...] = ("heads",)  # whose gradients are masked; importance is computed for each
    reading: Reading = "gradient"  # what is multiplied by 1 - I: "gradient", "head_output" or "update"
    importance: Literal["proxy", "random"] = "proxy"  # Eq. 5 to 8, or drawn
    normalisation: How = "paper"  # Eq. 10; "min-max" and "rank" do not protect the least important heads too
    over: Over = "layer"
    """What an importance is normalised among: the heads of its layer, or all. Of two heads a layer Eq. 10 makes the
    same number."""
    subset: int = 10_000  # sequences at most that importance is computed on; 1.64 million tokens in the paper
    contrast: float = 1.0  # lambda_1; 0: no contrast
    temperature: float = 0.05  # tau
    anchor: Anchor = "own"
    """The anchor has a pass of its own, or is the mean of the masked pass: four passes a step, or three."""
    knowledge: Knowledge = "full"  # anchor and positive are ungated, or gated with 1 - I

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = {"subset": self.subset >= 1, "contrast": self.contrast >= 0, "temperature": self.temperature > 0}
        for name, holds in rules.items():
            if not holds:
                raise ValueError(f"{name} = {getattr(self, name)} is out of range")
        if not self.parts or len(set(self.parts)) < len(self.parts):
            raise ValueError(f"parts = {list(self.parts)}: at least one, each once")
        if self.plan.compile and self.reading == "head_output":
            raise ValueError(
                "plan.compile keeps no watch over hooks, which reading = 'head_output' works by. Set plan.compile=false"
            )
        if self.knowledge == "domain" and self.anchor == "mlm":
            raise ValueError(
                "knowledge = 'domain' gates the heads of anchor and positive, but with anchor = 'mlm' the anchor is of "
                "the pass of language modelling, which has none gated. Set anchor=own"
            )
        if self.contrast and "heads" not in self.parts:
            raise ValueError(f"parts = {list(self.parts)}: the contrast gates heads. Add heads, or set contrast=0")
        idle: dict[str, list[str]] = {
            "contrast = 0": [] if self.contrast else ["temperature", "anchor", "knowledge"],
            "importance = 'random'": ["subset"] if self.importance == "random" else [],
        }
        for why, names in idle.items():
            for name in names:
                if (stated := getattr(self, name)) != type(self).__dataclass_fields__[name].default:
                    raise ValueError(f"{name} = {stated!r} does nothing with {why}. Leave one of them out")


def adapt(recipe: DgaRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Compute importance, train; writes `out/checkpoint` and `out/importance.json`. A run that was stopped goes on, one
    that ended is returned as it is.

    Raises ValueError where the corpus has no text, or the model cannot be loaded, has no dropout (two passes would be
    one), or is of a family whose heads are not known.
    """

    def objective(start: Start) -> DgaLoss:
        if recipe.contrast:
            check_dropout(start.model)
        found = ranks.first_then_all(lambda: _importance(recipe, start, out, watch))
        return DgaLoss(
            start.model,
            {part: normalised(values, recipe.normalisation, over=recipe.over) for part, values in found.items()},
            reading=recipe.reading,
            weight=recipe.contrast,
            temperature=recipe.temperature,
            anchor=recipe.anchor,
            knowledge=recipe.knowledge,
        )

    return adapt_with(recipe, out, objective, watch=watch)


def passes(recipe: DgaRecipe) -> float:
    """Of the encoder in a step, in those of masked language modelling."""
    return (3.0 if recipe.anchor == "mlm" else 4.0) if recipe.contrast else 1.0


def caching(recipe: DgaRecipe) -> float:
    """Likewise, what is added where a step is cut into pieces: three views, without gradient."""
    return 1.0 if recipe.contrast else 0.0


class DgaLoss(MaskedLanguageLoss):
    """Terms `mlm`, as MaskedLanguageLoss has it, and `contrast`, Eq. 15 averaged over the step's texts; soft-masked.

    importance  part -> I^norm in [0, 1], shaped as `models.parts.gate_shape` says
    weight      lambda_1; 0 leaves the second term out, and rows are not compared with each other

    Raises ValueError for importances out of range, of another shape, or of a family whose heads are not known.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        importance: Mapping[Part, Tensor],
        *,
        reading: Reading = "gradient",
        weight: float = 1.0,
        temperature: float = 0.05,
        anchor: Anchor = "own",
        knowledge: Knowledge = "full",
    ) -> None:
        super().__init__(model)
        self.soft_mask = SoftMask(model, importance, reading)
        self.temperature, self.anchor, self.knowledge = temperature, anchor, knowledge
        if weight:
            self.weights = {**self.weights, "contrast": weight}
            self.couples_rows = True
            self.general_LH = importance["heads"]

    def counts(self, batch: Batch) -> dict[str, int]:
        own = super().counts(batch)
        return {**own, "contrast": len(batch)} if self.couples_rows else own

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        if not self.couples_rows:
            return super().forward(piece)
        if self.anchor == "own":
            views_R3D = self.views(piece)
            return {**super().forward(piece), VIEWS: views_R3D}
        loss, hidden_LWD = masked_pass(self.model, piece)
        return {"mlm": loss, VIEWS: self._views(piece, row_means(hidden_LWD, piece))}

    def views(self, piece: Piece) -> Tensor:
        """(R, 3, D) o, o+ and o- of each text."""
        if self.anchor == "own":
            return self._views(piece, self._mean(unmasked(piece), self._full()))
        return self._views(piece, self._mean(piece, None))

    def compared(self, views_B3D: Tensor) -> dict[str, Tensor]:
        return {"contrast": contrast(views_B3D, self.temperature)}

    def flops(self, batch: Batch) -> float:
        passes = {"own": 3, "mlm": 2}[self.anchor] if self.couples_rows else 0
        return super().flops(batch) + passes * training_flops(self.model, batch.lengths, predicted=0)

    def on_gradients(self) -> None:
        self.soft_mask.on_gradients()

    def on_update(self) -> None:
        self.soft_mask.on_update()

    def _views(self, piece: Piece, anchor_RD: Tensor) -> Tensor:
        text = unmasked(piece)
        positive_RD, general_RD = self._mean(text, self._full()), self._mean(text, self.general_LH)
        return torch.stack([anchor_RD, positive_RD, general_RD], dim=1)

    def _full(self) -> Tensor | None:
        """The heads' gates of o and o+."""
        return 1 - self.general_LH if self.knowledge == "domain" else None

    def _mean(self, piece: Piece, gates_LH: Tensor | None) -> Tensor:
        with nullcontext() if gates_LH is None else gated(self.model, {"heads": gates_LH}):
            return row_means(hidden_states(self.model, piece), piece)


def _importance(recipe: DgaRecipe, start: Start, out: Path, watch: Watch) -> dict[Part, Tensor]:
    """Of each part, before normalisation, as in `out/importance.json`, which is written where it is not there."""
    path = out / IMPORTANCE
    if not path.exists():
        if recipe.importance == "random":
            found = {part: random_importance(gate_shape(start.model, part), recipe.plan.seed) for part in recipe.parts}
        else:
            batches = evaluation_batches(
                start.tokens,
                batch=BATCH,
                longest=recipe.max_tokens,
                seed=recipe.plan.seed,
                segments_at_most=recipe.subset,
            )
            told = counted(batches, watch, "importance", total=len(batches), unit="batches", every=10)
            begun = time.monotonic()
            found = head_importance(start.model, told, parts=recipe.parts, seed=recipe.plan.seed, plan=recipe.plan)
            # two passes forwards, and one way back that no weight gets a gradient from
            flops = sum(4 / 3 * training_flops(start.model, batch.lengths, predicted=0) for batch in batches)
            taken = Cost(sum(len(batch.ids) for batch in batches), flops, time.monotonic() - begun)
            files.write_json(out / BEFORE, asdict(taken))
        files.write_json(path, {part: values.double().tolist() for part, values in found.items()})
    return {part: torch.tensor(values) for part, values in files.read_json(path).items()}


PASSES_OF_IMPORTANCE = 4 / 3  # a row: two forwards, and one way back to gates alone


def earlier(recipe: DgaRecipe, rows: float) -> tuple[float, float]:
    """Rows of which importance is computed before the first step, and passes over each."""
    return (min(recipe.subset, rows), PASSES_OF_IMPORTANCE) if recipe.importance == "proxy" else (0.0, 0.0)


def check(recipe: DgaRecipe, config: PreTrainedConfig, group: str) -> None:
    """Raises ValueError where two passes of a model of this config would be one and the same."""
    check_stated(recipe, config, group)
    if recipe.contrast or recipe.importance == "proxy":
        check_noise(recipe, config, group)


def unsuited(kind: str, config: PreTrainedConfig | None) -> str:
    """Heads are gated, and so have to be known."""
    if config is None or (config.model_type in PLACES and config.model_type in DROPOUT_FIELDS):
        return ""
    return f"knows the heads of {', '.join(PLACES)} only"


METHOD = Method(
    name="dga",
    recipe=DgaRecipe,
    adapt=adapt,
    contestants=(
        # a small encoder: of two heads a layer Eq. 10 would make one and the same number
        Contestant(
            "DGA",
            "domain",
            small=DgaRecipe(**SMALL_NOISY, over="model", subset=200, anchor="mlm"),
            usual=DgaRecipe(**NOISY),
            default=True,
        ),
    ),
    passes=passes,
    caching=caching,
    earlier=earlier,
    check=check,
    unsuited=unsuited,
)
