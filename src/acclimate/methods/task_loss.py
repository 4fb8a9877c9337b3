"""What fine-tuning minimises and what a fine-tuned model predicts, for each kind of task.

Shape suffixes: B rows, T tokens of the longest, N tokens of all rows together, C labels (1 for a score).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.core.types import NOT_PREDICTED, TAGS, Batch, Label, Watch, counted, unwatched
from acclimate.models.classifier import ENDS, SPAN, TOKENS, kind_of, output_layer
from acclimate.models.flops import training_flops
from acclimate.models.heads import inputs_of
from acclimate.tasks.rows import by_word
from acclimate.tasks.spans import best_answers
from acclimate.tasks.tags import fallback
from acclimate.training.objective import Objective
from acclimate.training.pieces import Piece, cut, pad
from acclimate.training.plan import Plan, piece_tokens


def _cross_entropy(logits_BC: Tensor, label_B: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits_BC, label_B, reduction="sum")


def _binary_cross_entropy(logits_BC: Tensor, label_BC: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(logits_BC, label_BC.float(), reduction="sum")


def _squared_error(logits_BC: Tensor, number_B: Tensor) -> Tensor:
    return nn.functional.mse_loss(logits_BC.squeeze(-1), number_B.float(), reduction="sum")


def _cross_entropy_of_tags(logits_BTC: Tensor, tags_BT: Tensor) -> Tensor:
    flat = logits_BTC.flatten(0, 1), tags_BT.flatten()
    return nn.functional.cross_entropy(*flat, reduction="sum", ignore_index=NOT_PREDICTED)


def _cross_entropy_of_ends(logits_BT2: Tensor, ends_B2: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits_BT2, ends_B2, reduction="sum")


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sequence": _cross_entropy,
    "multilabel": _binary_cross_entropy,
    "score": _squared_error,
    "tokens": _cross_entropy_of_tags,
    "span": _cross_entropy_of_ends,
}
"""Kind of task -> (outputs in float32, `target_of` a piece) -> the sum over a piece."""


def outputs_of(model: PreTrainedModel, piece: Piece) -> Tensor:
    """What the head says in float32: (B, C); of tags (B, T, C); of a span (B, T, 2), and least in the padding."""
    said = model(**inputs_of(model, piece))
    if kind_of(model) != SPAN:
        return said.logits.float()  # type: ignore[no-any-return]
    logits_BT2 = torch.stack([said.start_logits, said.end_logits], dim=-1).float()
    if "attention_mask" not in piece:
        return logits_BT2
    return logits_BT2.masked_fill(piece["attention_mask"][:, :, None] == 0, torch.finfo(torch.float32).min)


def target_of(piece: Piece) -> Tensor:
    """What the loss compares the outputs with: the tags (B, T) where rows have some, else the label of each row."""
    return piece[TAGS] if TAGS in piece else piece["label"]


def targets(batch: Batch) -> int:
    """What the loss of a step is averaged over: rows; of several labels a row, rows times labels; tagged words; of
    spans both ends.
    """
    if TAGS in batch.tokens:
        return int(np.count_nonzero(batch.tokens[TAGS] != NOT_PREDICTED))
    return int(batch.rows["label"].size)


class TaskLoss(Objective):
    """The loss of the kind that the model is for, averaged over the step's rows; for several labels a row, over rows
    times labels; for tags, over the tagged words; for spans, over both ends of each row's.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model
        self.loss = LOSSES[kind_of(model)]
        self.weights = {"task": 1.0}
        if kind_of(model) == SPAN:
            # the same for every token of a row, so no softmax sees it: Adam would make steps of its rounding errors
            output_layer(model).bias.requires_grad_(False)

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"task": targets(batch)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        return {"task": self.loss(outputs_of(self.model, piece), target_of(piece))}

    def flops(self, batch: Batch) -> float:
        heads = len(batch.ids) if kind_of(self.model) in (TOKENS, SPAN) else len(batch)
        return training_flops(self.model, batch.lengths, predicted=heads)


def _most_probable(logits_BC: np.ndarray, labels: Sequence[str]) -> list[Label]:
    return [labels[int(code)] for code in logits_BC.argmax(-1)]


def _all_probable(logits_BC: np.ndarray, labels: Sequence[str]) -> list[Label]:
    return [tuple(sorted(labels[int(code)] for code in np.flatnonzero(row > 0))) for row in logits_BC]


def _numbers(logits_BC: np.ndarray, labels: Sequence[str]) -> list[Label]:
    return [float(number) for number in logits_BC[:, 0]]


PREDICTIONS: dict[str, Callable[[np.ndarray, Sequence[str]], list[Label]]] = {
    "sequence": _most_probable,
    "multilabel": _all_probable,
    "score": _numbers,
}


@torch.no_grad()
def predict(
    model: PreTrainedModel,
    rows: Batch,
    labels: Sequence[str],
    *,
    texts: Sequence[str] = (),
    watch: Watch = unwatched,
) -> list[Label]:
    """What the model predicts for each row, in float32, by the kind that it is for: the most probable label; all labels
    that are more probable than not, which may be none; the number that comes out. Or for each example, which may have
    several rows: the most probable tag of each word; the best answers out of its text, best first.

    texts: of the examples, where answers are predicted.
    """
    where, training, kind = model.device, model.training, kind_of(model)
    tokens = len(rows.ids)
    shapes = {TOKENS: (tokens,), SPAN: (tokens, len(ENDS))}
    shape = shapes.get(kind, (len(rows), len(labels) or 1))
    said = np.zeros(shape, np.int64 if kind == TOKENS else np.float32)
    model.train(False)
    pieces = cut(rows.lengths, piece_tokens(Plan(), where))
    for piece in counted(pieces, watch, "test", total=len(pieces), unit="pieces", every=1):
        logits = outputs_of(model, pad(rows, piece, where))
        values = (logits.argmax(-1) if kind == TOKENS else logits).cpu().numpy()
        if kind in PREDICTIONS:
            said[piece.rows_R] = values
            continue
        for row, values_T in zip(piece.rows_R, values, strict=True):
            said[rows.offsets[row] : rows.offsets[row + 1]] = values_T[: rows.lengths[row]]
    model.train(training)
    if kind in PREDICTIONS:
        return PREDICTIONS[kind](said, labels)
    if kind == SPAN:
        return [*best_answers(said, rows, texts)]
    names = [*labels, fallback(labels)]  # which a word without a piece, -1, gets
    return [tuple(names[code] for code in codes) for codes in by_word(said, rows)]
