"""How the head of a fine-tuning begins, as a probe of the frozen encoder or drawn, and the rows that it learns from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from acclimate.core import settings
from acclimate.core.types import NOT_PREDICTED, Batch, Progress, Watch
from acclimate.methods import probe
from acclimate.methods.recipes.finetune import FinetuneRecipe, Tagging
from acclimate.methods.task_loss import convert_tags, outputs_of, trained_labels
from acclimate.models.classifier import register
from acclimate.models.configuration import configuration_of
from acclimate.models.formats import Pooling
from acclimate.models.loading import identity
from acclimate.models.scale import Scale, output_layer, scale_of
from acclimate.models.task_layers import pooling_of
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.rows import SPANS, WORD, emptied, encoded, read_at_places, with_labels
from acclimate.tasks.task import PROBED
from acclimate.training.pieces import pad, together
from acclimate.training.plan import move_to_device

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PROBE_ROUNDING = 1e-3  # of the largest output
STARTS_KEPT = 16
RARE_SHOWN = 5


@torch.no_grad()
def start_at_base_rates(model: PreTrainedModel, rows: Batch) -> None:
    """Set the biases of the output layer to the log odds of the labels' frequencies in the rows: log r / (1 - r).

    A label that no row has, or every row, counts as in half a row more, or less.
    """
    label_RC = rows.rows["label"]
    half = 1 / (2 * len(label_RC))
    rates_C = np.clip(label_RC.mean(0, dtype=np.float64), half, 1 - half)
    output_layer(model).bias.copy_(torch.from_numpy(np.log(rates_C / (1 - rates_C))))


@dataclass(frozen=True, eq=False)
class HeadStart:
    """How the head begins.

    layer      that of a probe; None where the head is drawn or kept
    states_RD  what the layer reads of the first training rows, or of their words
    """

    pooling: Pooling
    layer: probe.ProbeLayer | None = None
    states_RD: np.ndarray | None = None

    @torch.no_grad()
    def put_into(self, model: PreTrainedModel, rows: Batch) -> bool:
        """Set the model's head to the layer, and return True. Return False, and leave the head as it was drawn, if
        there is no layer, or if the family's head has more between the encoder's states and its outputs.
        """
        if self.layer is None or self.states_RD is None:
            return False
        head = output_layer(model)
        drawn = head.weight.detach().clone(), head.bias.detach().clone()
        if head.weight.shape != self.layer.weight_CD.shape:
            return False
        head.weight.copy_(torch.from_numpy(self.layer.weight_CD))
        head.bias.copy_(torch.from_numpy(self.layer.bias_C))
        first = rows.take(np.arange(min(probe.CHECKED, len(rows))))
        model.train(False)
        outputs = outputs_of(model, pad(first, together(first.lengths), model.device)).cpu().numpy()
        if WORD in first.tokens:
            begins_N = first.tokens[WORD] != NOT_PREDICTED
            of_row = np.split(begins_N, first.offsets[1:-1])
            words = [output[: len(begins)][begins] for output, begins in zip(outputs, of_row, strict=True)]
            outputs = np.concatenate(words)
        expected_RC = self.layer(self.states_RD[: len(outputs)])
        if np.allclose(outputs, expected_RC, atol=PROBE_ROUNDING * max(1.0, float(np.abs(expected_RC).max()))):
            return True
        head.weight.copy_(drawn[0])
        head.bias.copy_(drawn[1])
        return False


_starts: OrderedDict[str, HeadStart] = OrderedDict()  # those made last, for the seeds and settings that begin alike


def start_of(
    recipe: FinetuneRecipe, task: Prepared, tokenizer: PreTrainedTokenizerBase, labels: Sequence[str], watch: Watch
) -> HeadStart:
    """Return the head's pooling and the layer that it begins as: those of a probe where the recipe asks for either.

    Under sequence_layer = "mlp" a probe may choose the pooling, the pooler excepted, but no head begins as one.
    """
    recipe_pooling: Pooling = "pooler" if recipe.pooling == "auto" else recipe.pooling
    if recipe.head == "kept" and recipe.pooling == "auto":
        return HeadStart(pooling_of(configuration_of(recipe.model)))
    linear = recipe.tag_layer == "linear" and recipe.sequence_layer == "linear"
    begins_as_probe = recipe.head == "probe" and linear
    chosen = recipe.pooling == "auto" and (linear or (recipe.sequence_layer == "mlp" and task.kind != "tokens"))
    if not (begins_as_probe or chosen) or task.kind not in PROBED:
        return HeadStart(recipe_pooling)
    special = [*recipe.special_tokens, recipe.plan.seed] if recipe.special_tokens else []
    about = [identity(recipe.model), task.hashes["train"], task.max_tokens, list(labels), recipe.pooling, special]
    key = settings.digest([*about, recipe.pooler, recipe.head, recipe.sequence_layer])
    if key in _starts:
        _starts.move_to_end(key)
        return _starts[key]

    def watch_head(progress: Progress) -> None:
        watch(replace(progress, unit=f"{progress.unit} (initial head)"))

    encoder, trained_pooler = probe.load_encoder(recipe.model)
    register(encoder, tokenizer, recipe.special_tokens, seed=recipe.plan.seed)
    has_pooler = trained_pooler and recipe.pooler == "kept" and encoder.config.model_type in probe.POOLED_FAMILIES
    has_pooler &= linear  # an MLP takes its place
    read_outs = probe.read_outs_of(task, tokenizer, has_pooler=has_pooler)
    read: Pooling = read_at_places(task, tokenizer) or recipe_pooling
    if recipe.pooling != "auto" and task.kind != "tokens":
        if recipe.pooling == "pooler" and not has_pooler:
            return HeadStart(recipe_pooling)
        read_outs, read = (recipe.pooling,), recipe.pooling
    move_to_device(encoder)
    rows, _ = training_rows(task, tokenizer, read, recipe.tag_scheme)
    target_R = probe.probe_targets(rows)
    layer, losses, first_states_RD = probe.fit_encoder(
        encoder, rows, read_outs, task, max(1, len(labels)), model=recipe.model, watch=watch_head, registered=special
    )
    if few := probe.rows_of_rare_labels(target_R, task.kind, labels):
        label_list = ", ".join(f"{label} ({count})" for label, count in list(few.items())[:RARE_SHOWN])
        note = (
            f"{len(few)} labels have fewer training rows than the probe's {probe.FOLDS} folds, so some folds do not "
            f"test them: {label_list}{', ...' if len(few) > RARE_SHOWN else ''}"
        )
        watch(Progress("fine-tune", 0, 0, "steps", {"note": note}))
    if len(losses) > 1:
        loss_list = ", ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
        note = f"read-out {layer.read_out}: its probe has the lowest loss on held-out training rows ({loss_list})"
        watch(Progress("fine-tune", 0, 0, "steps", {"note": note}))
    pooling: Pooling = "pooler" if layer.read_out == "pieces" else layer.read_out
    start = HeadStart(pooling)
    if begins_as_probe:
        start = HeadStart(pooling, layer, first_states_RD)
    _starts[key] = start
    while len(_starts) > STARTS_KEPT:
        _starts.popitem(last=False)
    return start


def training_rows(
    task: Prepared, tokenizer: PreTrainedTokenizerBase, pooling: Pooling = "pooler", scheme: Tagging = "given"
) -> tuple[Batch, Scale | None]:
    """Return the training rows with labels (tags in the scheme, numbers standardised), and the scale of the numbers.

    Raises ValueError if all numbers are equal, or the tokenizer leaves nothing of any text.
    """
    train = task.examples("train")
    inputs = encoded(task, "train", train, tokenizer, spans=SPANS[pooling])
    if task.kind != "span":
        emptied(inputs, train, tokenizer)
    rows = with_labels(inputs, convert_tags(train, scheme), task.kind, trained_labels(task, scheme))
    if task.kind != "score":
        return rows, None
    scale = scale_of(rows.rows["label"])
    numbers = scale.standardised(rows.rows["label"]).astype(np.float32)
    return replace(rows, rows={**rows.rows, "label": numbers}), scale
