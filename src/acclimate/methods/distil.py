"""Go on with masked language modelling while a frozen copy of the model, its teacher, holds representations in place.

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge", section 4.1, baselines 5 and 6.
KD (after Hinton et al., 2015) and AdaptedDeiT (after DeiT: Touvron et al., 2021) minimise

    L_MLM + weight * mean of KL(softmax(t) || softmax(s))                        softmax over the D features

with s, t of student and teacher: in KD the last hidden state of every token; in AdaptedDeiT s is the state of a
distillation token that stands behind each row, and t the mean of the teacher's states of that row (footnote 13).

Readings
  KD's KL is that of teacher to student, at temperature 1, with weight 1, a mean over all tokens of the step, special
  ones included. The teacher reads without dropout.
  Both read the text `unmasked`, as in the released code: one more pass of the student. `masked` compares them on the
  masked text, in the pass of language modelling itself; the paper does not say which.
  AdaptedDeiT has no released code, and the paper no formula: the same KL as KD's, so that the two differ in what is
  matched alone. The teacher reads the row without the token. The token is behind the row, where it moves no position,
  and in every pass of the student, as in DeiT; it begins as BERT draws weights.
Deviations
  The released code takes KD's softmax over the tokens of a sequence (dim=1), not over features.
  The distillation token is a vector of the objective, not a piece of the vocabulary: nothing predicts it, and the
  checkpoint is as without it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.core.types import Batch, Checkpoint, Watch, unwatched
from acclimate.methods import mlm
from acclimate.methods.domain import (
    SMALL,
    DomainRecipe,
    Frozen,
    appended,
    by_row,
    hidden_states,
    masked_pass,
    row_means,
    unmasked,
)
from acclimate.methods.method import Contestant, Method
from acclimate.models.encoder import longest_input, training_flops, word_embeddings
from acclimate.models.loading import seeded
from acclimate.training.objective import MaskedLanguageLoss, Objective
from acclimate.training.pieces import Piece

# -------------------- distil loss
# What KD and AdaptedDeiT minimise (methods/distil.py): L_MLM plus how far a student is from its frozen teacher.
#
# Shape suffixes: L lines, W width of a line in tokens, R rows, T tokens of the longest, D hidden.


DISTILLATION = "distillation"  # of `Batch.tokens`: 1 at a distillation token, 0 elsewhere

Text = Literal["unmasked", "masked"]


def divergence(student: Tensor, teacher: Tensor) -> Tensor:
    """(..., D), (..., D) -> (...) KL(softmax(teacher) || softmax(student)) over the features, in nats, float32."""
    log_student, log_teacher = (states.float().log_softmax(-1) for states in (student, teacher))
    return nn.functional.kl_div(log_student, log_teacher, reduction="none", log_target=True).sum(-1)


class KnowledgeDistillation(Objective):
    """Terms `mlm`, as MaskedLanguageLoss has it, and `distil`: `divergence` of each token's last hidden states,
    averaged over all tokens of the step.

    teacher: another model of the same width and vocabulary, frozen here.
    """

    def __init__(
        self, model: PreTrainedModel, teacher: PreTrainedModel, *, text: Text = "unmasked", weight: float = 1.0
    ) -> None:
        super().__init__()
        self.student, self.teacher = Student(model, text), Frozen(teacher)
        self.weights = {"mlm": 1.0, "distil": weight}
        self.shares_lines = self.student.language.shares_lines

    def counts(self, batch: Batch) -> dict[str, int]:
        return {**self.student.language.counts(batch), "distil": len(batch.ids)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        mlm_sum, student_LWD, read = self.student(piece)
        student_RTD, there_RT = by_row(student_LWD, piece)
        teacher_RTD, _ = by_row(self.teacher.hidden_states(read), piece)
        return {"mlm": mlm_sum, "distil": (divergence(student_RTD, teacher_RTD) * there_RT).sum()}

    def flops(self, batch: Batch) -> float:
        return self.student.flops(batch) + training_flops(self.teacher.model, batch.lengths, predicted=0) / 3


class DistillationToken(Objective):
    """Terms `mlm`, as MaskedLanguageLoss has it, and `distil`: `divergence` of the distillation token's last hidden
    state and the mean of the teacher's over the row, averaged over rows. Batches carry the token as
    `with_distillation_token` puts it there.

    teacher  another model of the same width and vocabulary, frozen here
    seed     of the token's vector, which learns with the model
    """

    def __init__(
        self,
        model: PreTrainedModel,
        teacher: PreTrainedModel,
        *,
        text: Text = "unmasked",
        weight: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.student, self.teacher = Student(model, text), Frozen(teacher)
        self.weights = {"mlm": 1.0, "distil": weight}
        self.shares_lines = self.student.language.shares_lines
        with seeded(seed):
            self.token_D = nn.Parameter(model.config.initializer_range * torch.randn(word_embeddings(model).shape[1]))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {**self.student.language.counts(batch), "distil": len(batch)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        with embedded_as(self.student.language.model, self.token_D, piece[DISTILLATION] > 0):
            mlm_sum, student_LWD, read = self.student(piece)
        student_RTD, there_RT = by_row(student_LWD, piece)
        # rows end in their token
        token_RD = student_RTD[torch.arange(len(there_RT), device=there_RT.device), there_RT.sum(1) - 1]
        plain = without_distillation_token(read)
        teacher_RD = row_means(self.teacher.hidden_states(plain), plain)
        return {"mlm": mlm_sum, "distil": divergence(token_RD, teacher_RD).sum()}

    def flops(self, batch: Batch) -> float:
        return self.student.flops(batch) + training_flops(self.teacher.model, batch.lengths - 1, predicted=0) / 3


class Student(nn.Module):
    """The model that learns: its language modelling loss, and what it makes of the text that it is compared on."""

    def __init__(self, model: PreTrainedModel, text: Text) -> None:
        super().__init__()
        self.language, self.text = MaskedLanguageLoss(model), text

    def forward(self, piece: Piece) -> tuple[Tensor, Tensor, Piece]:
        """Its sum of `mlm`, (L, W, D) its last hidden states, and the piece that these are of."""
        if self.text == "unmasked":
            read = unmasked(piece)
            return self.language(piece)["mlm"], hidden_states(self.language.model, read), read
        return *masked_pass(self.language.model, piece), piece

    def flops(self, batch: Batch) -> float:
        again = training_flops(self.language.model, batch.lengths, predicted=0) if self.text == "unmasked" else 0.0
        return self.language.flops(batch) + again


def with_distillation_token(batch: Batch) -> Batch:
    """The batch with a distillation token behind each row; the id that stands there is replaced by its vector."""
    longer = appended(batch, [int(batch.ids[-1])])  # any id but the padding's, by which RoBERTa counts positions
    marked = np.zeros(len(longer.ids), np.int64)
    marked[longer.offsets[1:] - 1] = 1
    return replace(longer, tokens={**longer.tokens, DISTILLATION: marked})


def without_distillation_token(piece: Piece) -> Piece:
    """The piece with the tokens hidden from all others and left out of the rows' means."""
    seen_LW = piece[DISTILLATION] == 0
    if "lengths" in piece:
        mask_L1WW = piece["attention_mask"] & seen_LW[:, None, None, :]
        return {**piece, "attention_mask": mask_L1WW, "lengths": piece["lengths"] - 1}
    mask_LW = piece.get("attention_mask", torch.ones_like(piece["input_ids"]))
    return {**piece, "attention_mask": mask_LW * seen_LW}


@contextmanager
def embedded_as(model: PreTrainedModel, vector_D: Tensor, where_LW: Tensor) -> Iterator[None]:
    """In the block the model takes this vector for the word embeddings of these positions."""

    def put(_: nn.Module, __: Any, embedded_LWD: Tensor) -> Tensor:
        return torch.where(where_LW[:, :, None], vector_D.to(embedded_LWD.dtype), embedded_LWD)

    embeddings: Any = model.get_input_embeddings()
    hook = embeddings.register_forward_hook(put)
    try:
        yield
    finally:
        hook.remove()


@dataclass(frozen=True)
class DistilRecipe(DomainRecipe):
    """KD or AdaptedDeiT, with the settings of DGA's section 4.2."""

    teacher: Literal["kd", "deit"] = "kd"
    """What is matched with the frozen model: each token's last hidden state, or a distillation token with the mean of
    its row."""
    text: Text = "unmasked"
    """That both read for it; `"masked"`: in the pass of language modelling itself, at about 1.3 instead of 2.3 times
    the cost of mlm."""
    weight: float = 1.0  # of the second term

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight <= 0:
            raise ValueError(f"weight = {self.weight} is out of range: above 0, or take the method mlm")


def passes(recipe: DistilRecipe) -> float:
    """Of the encoder in a step, in those of masked language modelling; the teacher's has no way back."""
    return 1 / 3 + (2.0 if recipe.text == "unmasked" else 1.0)


def adapt(recipe: DistilRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Train and write `out/checkpoint`, as `mlm.adapt` does; neither teacher nor distillation token is in it.

    Raises ValueError as that does, and where the model cannot read a distillation token behind rows of `max_tokens`.
    """

    def objective(start: mlm.Start) -> Objective:
        teacher = copy.deepcopy(start.model)
        if recipe.teacher == "kd":
            return KnowledgeDistillation(start.model, teacher, text=recipe.text, weight=recipe.weight)
        return DistillationToken(start.model, teacher, text=recipe.text, weight=recipe.weight, seed=recipe.plan.seed)

    if recipe.teacher == "kd":
        return mlm.adapt_with(recipe, out, objective, watch=watch)
    most = longest_input(recipe.model) if recipe.model else None
    if most and recipe.max_tokens >= most:
        raise ValueError(
            f"{recipe.model} reads {most} tokens at once, too few for {recipe.max_tokens} and a distillation token. "
            f"Set max_tokens to at most {most - 1}"
        )
    return mlm.adapt_with(recipe, out, objective, mark=with_distillation_token, watch=watch)


METHOD = Method(
    name="distil",
    recipe=DistilRecipe,
    adapt=adapt,
    contestants=(
        Contestant("KD", "domain", {"teacher": "kd"}, small=DistilRecipe(**SMALL)),
        Contestant("AdaptedDeiT", "domain", {"teacher": "deit"}, small=DistilRecipe(**SMALL)),
    ),
    passes=passes,
    behind=lambda recipe: int(recipe.teacher == "deit"),  # the distillation token
)
