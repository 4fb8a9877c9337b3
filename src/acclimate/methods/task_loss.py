"""The loss of fine-tuning, and the predictions of a fine-tuned model, for each kind of task.

    kind         loss                                                   averaged over
    sequence     - log softmax(o)[label]                                rows
    multilabel   - y log sigmoid(o) - (1 - y) log(1 - sigmoid(o))       rows times labels
    score        (o - y)^2                                              rows
    tokens       - log softmax(o)[tag], at a word's first piece         tagged words
                 with a CRF - log p(the row's tags)                     tagged words
    span         - log softmax over the row's tokens (o)[place]         ends of answers

with o the head's output and y the label, 0 or 1, or the number. Devlin et al. (2019), sections 4.1, 4.2 and 5.3; the
Readings stand in methods/finetune.py. Entities may be tagged in another scheme for training; what is scored is in the
scheme of the task.

Shape suffixes: B rows, T tokens of the longest row, N tokens of all rows together, C labels (1 for a score), W words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from acclimate.core.types import NOT_PREDICTED, TAGS, Batch, Example, Label, Watch, counted, unwatched
from acclimate.methods.recipes.finetune import Tagging
from acclimate.models.classifier import ENDS, SPAN, TOKENS, classifier_kind
from acclimate.models.encoder import training_flops, weights_by_part
from acclimate.models.heads import Read, keeps_rows_apart, output_by_row, rows_of
from acclimate.models.scale import output_layer
from acclimate.models.task_layers import ConditionalRandomField, crf_of, layer_of, reads_first
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.rows import EDGES, word_values
from acclimate.tasks.spans import best_answers
from acclimate.tasks.tags import LETTERS, all_tags, converted, entities, fallback, joined_tags, scheme_of
from acclimate.tasks.thresholds import PREDICTIONS
from acclimate.training.kernels import kernels
from acclimate.training.loop import keep_some_freed_memory
from acclimate.training.objective import Objective
from acclimate.training.pieces import Layout, Piece, pack, pad, pieces_of_rows
from acclimate.training.plan import Plan, piece_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LAYER = re.compile(r"\.layers?\.(\d+)\.")  # of the name of a weight, in all families that are known here
AfterPiece = Callable[[Tensor, Piece], None]


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """(B, C) and (B,); of spans (B, T, 2) and (B, 2), where the softmax is over T, for either end."""
    return nn.functional.cross_entropy(logits, target, reduction="sum")  # - log softmax(o)[label]


def _binary_cross_entropy(logits_BC: Tensor, label_BC: Tensor) -> Tensor:
    # - y log sigmoid(o) - (1 - y) log(1 - sigmoid(o))
    return nn.functional.binary_cross_entropy_with_logits(logits_BC, label_BC.float(), reduction="sum")


def _squared_error(logits_BC: Tensor, number_B: Tensor) -> Tensor:
    return nn.functional.mse_loss(logits_BC.squeeze(-1), number_B.float(), reduction="sum")  # (o - y)^2


def _cross_entropy_of_tags(logits_BTC: Tensor, tags_BT: Tensor) -> Tensor:
    flat = logits_BTC.flatten(0, 1), tags_BT.flatten()  # (B T, C), (B T,): - log softmax(o)[tag]
    return nn.functional.cross_entropy(*flat, reduction="sum", ignore_index=NOT_PREDICTED)


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sequence": _cross_entropy,
    "multilabel": _binary_cross_entropy,
    "score": _squared_error,
    "tokens": _cross_entropy_of_tags,
    "span": _cross_entropy,
}
"""Kind of task -> (`outputs_of` a piece, `loss_targets` it) -> the loss as a sum over the piece."""


def outputs_of(model: PreTrainedModel, piece: Piece) -> Tensor:
    """Return the head's outputs, float32: (B, C); of tags (B, T, C), any numbers at a token without a tag where the
    piece has tags; of spans (B, T, 2), with the least number at padding. Each row has a line to itself, whether or not
    rows share lines in the piece.
    """
    kind, rows = classifier_kind(model), rows_of(piece)
    read: Read = "all"
    if kind == TOKENS:
        read = "tagged" if "tagged" in piece and not layer_of(model.config).startswith("bilstm") else "all"
    elif kind != SPAN:
        read = "first" if reads_first(model.config) else "all"
    outputs = output_by_row(model, piece, read=read)
    if kind != SPAN:
        return outputs.logits.float()  # type: ignore[no-any-return]
    logits_BT2 = torch.stack([outputs.start_logits, outputs.end_logits], dim=-1).float()
    there_BT = piece.get("attention_mask") if rows is None else rows.there_RT
    if there_BT is None:
        return logits_BT2
    return logits_BT2.masked_fill(there_BT[:, :, None] == 0, torch.finfo(torch.float32).min)


def loss_targets(piece: Piece) -> Tensor:
    """Return what the loss compares the outputs with: the tags, laid out as the piece, or the label of each row."""
    return piece[TAGS] if TAGS in piece else piece["label"]


def target_in_rows(piece: Piece) -> Tensor:
    """`loss_targets` a piece, but with one row of tags a line, as `outputs_of` has them."""
    rows = rows_of(piece) if TAGS in piece else None
    return loss_targets(piece) if rows is None else rows.alone(piece[TAGS], NOT_PREDICTED)


def targets(batch: Batch) -> int:
    """Return the number that the loss of a step is averaged over: rows; rows times labels, where a row may have
    several; tagged words; ends of answers.
    """
    if TAGS in batch.tokens:
        return int(np.count_nonzero(batch.tokens[TAGS] != NOT_PREDICTED))
    return int(batch.rows["label"].size)


class TaskLoss(Objective):
    """Term `task`: the loss of the model's kind of task, averaged over `targets`.

    With a CRF -log p(the row's tags) is averaged over tagged words too, so that with transitions of 0 it is the number
    without the CRF.

    head_rate  the rate of the head, a pooler included, in multiples of the plan's; the rate of a CRF's weights is set
               in models/task_layers.py
    layer_decay  the rate of each layer of the encoder in multiples of that of the layer above it; the embeddings are
                 the lowest layer (Howard and Ruder, 2018, "ULMFiT", section 3.2, discriminative fine-tuning)
    """

    stacks = True

    def __init__(self, model: PreTrainedModel, *, head_rate: float = 1.0, layer_decay: float = 1.0) -> None:
        super().__init__()
        self.model = model
        self.head_rate, self.layer_decay = head_rate, layer_decay
        self.loss = LOSSES[classifier_kind(model)]
        self.weights = {"task": 1.0}
        if classifier_kind(model) == SPAN:
            # the softmax over tokens cancels this bias; Adam would make steps of its gradient, which is rounding errors
            output_layer(model).bias.requires_grad_(False)
        self.frozen, _ = weights_by_part(model, among=lambda weight: not weight.requires_grad)
        self.shares_lines = keeps_rows_apart(model)

    def rate_multiple(self, name: str) -> float:
        encoder = name.startswith(f"model.{self.model.base_model_prefix}.") and ".pooler." not in name
        if not encoder:
            return 1.0 if name.startswith("model.crf.") else self.head_rate
        number = LAYER.search(name)
        above = self.model.config.num_hidden_layers - 1 - int(number[1]) if number else None
        if above is None:  # embeddings, and a last normalisation
            above = self.model.config.num_hidden_layers if "embeddings" in name else 0
        return float(self.layer_decay**above)

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"task": targets(batch)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        return {"task": self.compute(outputs_of(self.model, piece), piece)}

    def sums_by_run(self, piece: Piece, runs: int) -> dict[str, Tensor]:
        # a CRF cannot be in a stack
        parts = zip(outputs_of(self.model, piece).chunk(runs), target_in_rows(piece).chunk(runs), strict=True)
        return {"task": torch.stack([self.loss(outputs, target) for outputs, target in parts])}

    def compute(self, outputs: Tensor, piece: Piece) -> Tensor:
        """Return the loss as a sum over the piece, from `outputs_of` it."""
        target = target_in_rows(piece)
        if (crf := crf_of(self.model)) is None:
            return self.loss(outputs, target)
        places_BW, lengths_B = _tagged_words(target)
        tags_BW = target.gather(1, places_BW).clamp(min=0)
        emissions_BWC = outputs.gather(1, places_BW[..., None].expand(-1, -1, outputs.shape[-1]))
        return -crf.log_likelihood(emissions_BWC, tags_BW, lengths_B, piece[EDGES]).sum()  # - log p(the row's tags)

    def flops(self, batch: Batch) -> float:
        """With LoRA, without the gradients of frozen weights: 4 operations a weight, not 6."""
        heads = len(batch.ids) if classifier_kind(self.model) in (TOKENS, SPAN) else len(batch)
        return training_flops(self.model, batch.lengths, predicted=heads) - 2.0 * self.frozen * len(batch.ids)


def _tagged_words(tags_BT: Tensor) -> tuple[Tensor, Tensor]:
    """(B, W) the places of each row's tagged words in their order, then other places; (B,) the number of the words."""
    tagged_BT = tags_BT != NOT_PREDICTED
    lengths_B = tagged_BT.sum(1)
    places_BT = torch.argsort((~tagged_BT).to(torch.uint8), dim=1, stable=True)
    return places_BT[:, : max(1, int(lengths_B.max()))], lengths_B


@torch.no_grad()
def predict(
    model: PreTrainedModel, rows: Batch, labels: Sequence[str], *, texts: Sequence[str] = (), watch: Watch = unwatched
) -> list[Label]:
    """Return the model's predictions, in float32, by its kind of task.

    For each row: the most probable label; all labels that are more probable than not, which may be none; or a number.
    For each example, which may have several rows: the most probable tag of each word, with a CRF the most probable
    tags of all words together; or the best answers out of its text, best first.

    texts  those of the examples, where answers are predicted
    """
    return predictions_of(model, _outputs(model, rows, len(labels), watch), rows, labels, texts=texts)


def predictions_of(
    model: PreTrainedModel, outputs: np.ndarray, rows: Batch, labels: Sequence[str], *, texts: Sequence[str] = ()
) -> list[Label]:
    """Return what `predict` does, from the outputs of the rows as `outputs_and_loss` has them."""
    kind, crf = classifier_kind(model), crf_of(model)
    if kind in PREDICTIONS:
        return PREDICTIONS[kind](outputs, labels)
    if kind == SPAN:
        return [*best_answers(outputs, rows, texts)]
    names = [*labels, fallback(labels)]  # the last one is for -1, a word without a piece
    sentences = word_values(outputs, rows) if crf is None else _sequences(model, crf, outputs, rows)
    return [tuple(names[code] for code in codes) for codes in sentences]


@torch.no_grad()
def predict_and_measure(
    objective: TaskLoss, rows: Batch, labels: Sequence[str], *, texts: Sequence[str] = ()
) -> tuple[list[Label], float]:
    """`predict`, and the loss of the same outputs: the mean over `targets` of the rows, which have their labels."""
    outputs, loss = outputs_and_loss(objective, rows, labels)
    return predictions_of(objective.model, outputs, rows, labels, texts=texts), loss


@torch.no_grad()
def outputs_and_loss(objective: TaskLoss, rows: Batch, labels: Sequence[str]) -> tuple[np.ndarray, float]:
    """Return the head's outputs without dropout, and their loss: the mean over `targets` of the rows.

    Outputs are float32, (B, C); of spans (N, 2); of tags with a CRF (N, C), and without one the most probable tag of
    each token, (N,) int64.
    """
    total = 0.0

    def add(outputs: Tensor, piece: Piece) -> None:
        nonlocal total
        total += float(objective.compute(outputs, piece))

    outputs = _outputs(objective.model, rows, len(labels), unwatched, add)
    return outputs, total / max(1, targets(rows))


@torch.no_grad()
def outputs_of_rows(
    model: PreTrainedModel, rows: Batch, labels: Sequence[str], *, watch: Watch = unwatched
) -> np.ndarray:
    """Return the head's outputs without dropout, float32: (B, C); of tags (N, C), and of spans (N, 2)."""
    return _outputs(model, rows, len(labels), watch, reduced=False)


@torch.no_grad()
def probabilities(
    model: PreTrainedModel, rows: Batch, labels: Sequence[str], *, watch: Watch = unwatched
) -> np.ndarray:
    """(B, C) float32: the probability of each label for each row, by a model for one label a row."""
    return torch.from_numpy(_outputs(model, rows, len(labels), watch)).softmax(-1).numpy()


def _outputs(
    model: PreTrainedModel,
    rows: Batch,
    labels: int,
    watch: Watch,
    after_piece: AfterPiece | None = None,
    *,
    reduced: bool = True,
) -> np.ndarray:
    """Return the outputs that `outputs_and_loss` returns. after_piece: gets those of each piece, and the piece.

    reduced: False: of tags without a CRF the outputs themselves, (N, C), in place of the most probable tags
    """
    where, training, kind = model.device, model.training, classifier_kind(model)
    tokens = len(rows.ids)
    each_alone = reduced and kind == TOKENS and crf_of(model) is None
    shapes = {TOKENS: (tokens,) if each_alone else (tokens, labels), SPAN: (tokens, len(ENDS))}
    shape = shapes.get(kind, (len(rows), labels or 1))
    outputs = np.zeros(shape, np.int64 if each_alone else np.float32)
    model.train(False)
    pieces = pieces_to_read(model, rows.lengths)
    keep_some_freed_memory()
    with kernels(Plan(), where):
        for piece in counted(pieces, watch, "test", total=len(pieces), unit="batches", every=1):
            padded = pad(rows, piece, where)
            logits = outputs_of(model, padded)
            if after_piece is not None:
                after_piece(logits, padded)
            values = (logits.argmax(-1) if each_alone else logits).cpu().numpy()
            if kind in PREDICTIONS:
                outputs[piece.rows_R] = values
                continue
            for row, values_T in zip(piece.rows_R, values, strict=True):
                outputs[rows.offsets[row] : rows.offsets[row + 1]] = values_T[: rows.lengths[row]]
    model.train(training)
    return outputs


def pieces_to_read(model: PreTrainedModel, lengths: np.ndarray) -> list[Layout]:
    """Return the pieces in which a model reads rows without being trained: on a CPU rows share lines."""
    where, most = model.device, piece_tokens(Plan(), model.device)
    shared = where.type == "cpu" and keeps_rows_apart(model)
    return pack(lengths, most, by_row=True) if shared else pieces_of_rows(lengths, most)


def _sequences(
    model: PreTrainedModel, crf: ConditionalRandomField, outputs_NC: np.ndarray, rows: Batch
) -> list[np.ndarray]:
    """Return the tags of each example's words, of all its rows; -1 for a word of which the tokenizer leaves no piece.

    outputs_NC  float32, the linear layer's outputs for each token
    """
    sentences = word_values(np.arange(len(outputs_NC)), rows)  # the place of each word's first piece
    present = [tokens != -1 for tokens in sentences]
    lengths = np.array([int(words.sum()) for words in present])
    for layout in pieces_of_rows(lengths, piece_tokens(Plan(), model.device)):
        emissions_BWC = np.zeros((len(layout.rows_R), max(1, layout.width), outputs_NC.shape[1]), np.float32)
        for row, number in enumerate(layout.rows_R):
            emissions_BWC[row, : lengths[number]] = outputs_NC[sentences[number][present[number]]]
        emissions = torch.from_numpy(emissions_BWC).to(model.device)
        counts = torch.from_numpy(lengths[layout.rows_R]).to(model.device)
        tags_BW = crf.most_probable(emissions, counts).cpu().numpy()
        for row, number in enumerate(layout.rows_R):
            sentences[number][present[number]] = tags_BW[row, : lengths[number]]
    return sentences


def trained_labels(task: Prepared, tagging: Tagging) -> tuple[str, ...]:
    """Return the labels that a model is trained on: the task's, or all tags of a scheme for the types of its entities.

    Raises ValueError where the task's labels are no tags of entities.
    """
    if tagging == "given":
        return task.labels
    if task.kind != "tokens" or scheme_of(task.labels) is None:
        raise ValueError(
            f"tag_scheme = '{tagging}' applies to entity tags (B-, I-, O), but {task.name} is of kind '{task.kind}' "
            f"with the labels {', '.join(task.labels) or 'none'}. Remove tag_scheme"
        )
    if any(len(joined_tags(label)) > 1 for label in task.labels):
        raise ValueError(
            f"tag_scheme = '{tagging}' needs one tag per word, but entities of {task.name} overlap. Remove it"
        )
    return all_tags(task.labels, tagging)


def convert_tags(examples: Sequence[Example], tagging: Tagging) -> Sequence[Example]:
    """Return the examples with their tags in the scheme."""
    if tagging == "given":
        return examples
    return [
        replace(example, label=converted(example.label, tagging))
        for example in examples
        if isinstance(example.label, tuple)
    ]


def restore_labels(predicted: list[Label], labels: Sequence[str], task: Prepared) -> list[Label]:
    """Return the predictions of a model with these labels, in the labels of the task.

    A tag that breaks its scheme, such as an I- after O, becomes the tag of the entity that metrics read from it
    (tasks/tags.py). In IO, entities of one type that touch have become one, and stay one.
    """
    scheme = scheme_of(task.labels)
    if tuple(labels) == task.labels or scheme is None:
        return predicted
    return [converted(tags, scheme) if isinstance(tags, tuple) else tags for tags in predicted]


def learnable(task: Prepared) -> set[tuple[str, ...]]:
    """Return the sets of labels that a model for the task may have: the task's, or its tags in another scheme."""
    named = task.kind == "tokens" and scheme_of(task.labels) is not None
    return {task.labels, *(all_tags(task.labels, scheme) for scheme in (LETTERS if named else ()))}


def merged(task: Prepared, tagging: Tagging) -> int:
    """Return the number of training entities that the scheme merges with the entity before them: 0 but in IO."""
    if tagging != "IO":
        return 0
    labels = [example.label for example in task.examples("train") if isinstance(example.label, tuple)]
    return sum(len(entities(tags)) - len(entities(converted(tags, tagging))) for tags in labels)
