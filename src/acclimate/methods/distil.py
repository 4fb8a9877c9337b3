"""KD and AdaptedDeiT: go on with masked language modelling while a frozen copy of the model, its teacher, is matched.

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge", section 4.1, baselines 5 and 6.
KD (after Hinton et al., 2015) and AdaptedDeiT (after DeiT: Touvron et al., 2021) minimise

    L_MLM + weight * mean of KL(softmax(t) || softmax(s))                        softmax over the D features

with s and t the student's and the teacher's representations. In KD they are the last hidden states of every token. In
AdaptedDeiT s is the last hidden state of a distillation token, which stands behind each row, and t the mean of the
teacher's states of that row (footnote 13). The checkpoint contains neither the teacher nor the distillation token.

Shape suffixes: L lines, W width of a line in tokens, R rows, T tokens of the longest row, D hidden.

Readings
  KD's KL is that of teacher to student, at temperature 1, with weight 1, a mean over all tokens of the step, special
  ones included. The teacher has no dropout.
  Both see the text `unmasked`, as in the released code: one more pass of the student. `masked` compares them on the
  masked text, in the pass of language modelling itself; the paper does not say which.
  AdaptedDeiT has no released code, and the paper gives no formula: we take KD's KL, so that the two differ only in what
  is matched. The teacher sees the row without the token. The token is behind the row, where it moves no position,
  and in every pass of the student, as in DeiT; its vector is drawn as BERT's weights are.
Deviations
  The released code takes KD's softmax over the tokens of a sequence (dim=1), not over features.
  The distillation token is a vector of the objective, not a piece of the vocabulary: nothing predicts it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from acclimate.core.randomness import seeded
from acclimate.core.types import Batch, Checkpoint, Watch, unwatched
from acclimate.methods import domain, mlm
from acclimate.methods.recipes.distil import DistilledText, DistilRecipe
from acclimate.models.configuration import longest_input
from acclimate.models.encoder import training_flops, word_embeddings
from acclimate.training.kernels import block_diagonal
from acclimate.training.objective import MaskedLanguageLoss, Objective
from acclimate.training.pieces import Piece

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DISTILLATION = "distillation"  # of `Batch.tokens`: 1 at a distillation token, 0 elsewhere


class Student(nn.Module):
    """The model that is trained: its L_MLM, and its states of the text on which teacher and student are compared."""

    def __init__(self, model: PreTrainedModel, text: DistilledText) -> None:
        super().__init__()
        self.language, self.text = MaskedLanguageLoss(model), text

    def forward(self, piece: Piece) -> tuple[Tensor, Tensor, Piece]:
        """Return the sum of L_MLM over the piece; (L, W, D) the last hidden states; and the piece that these are of."""
        if self.text == "masked":
            return *domain.masked_pass(self.language.model, piece), piece
        text = domain.unmasked(piece)
        return self.language(piece)["mlm"], domain.hidden_states(self.language.model, text), text

    def flops(self, batch: Batch) -> float:
        again = training_flops(self.language.model, batch.lengths, predicted=0) if self.text == "unmasked" else 0.0
        return self.language.flops(batch) + again


class KnowledgeDistillation(Objective):
    """KD. Terms: `mlm`, as MaskedLanguageLoss has it, and `distil`, the KL of each token, averaged over the step.

    teacher  another model of the same width and vocabulary, frozen here
    """

    def __init__(
        self, model: PreTrainedModel, teacher: PreTrainedModel, *, text: DistilledText = "unmasked", weight: float = 1.0
    ) -> None:
        super().__init__()
        self.student, self.teacher = Student(model, text), domain.Frozen(teacher)
        self.weights = {"mlm": 1.0, "distil": weight}
        self.shares_lines = self.student.language.shares_lines

    def counts(self, batch: Batch) -> dict[str, int]:
        return {**self.student.language.counts(batch), "distil": len(batch.ids)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        mlm_sum, student_LWD, text = self.student(piece)
        student_RTD, there_RT = domain.row_states(student_LWD, piece)  # s
        teacher_RTD, _ = domain.row_states(self.teacher.hidden_states(text), piece)  # t
        kl_RT = domain.divergence(teacher_RTD, student_RTD)  # KL(softmax(t) || softmax(s)) over the D features
        return {"mlm": mlm_sum, "distil": (kl_RT * there_RT).sum()}

    def flops(self, batch: Batch) -> float:
        return self.student.flops(batch) + training_flops(self.teacher.model, batch.lengths, predicted=0) / 3


class DistillationToken(Objective):
    """AdaptedDeiT. Terms: `mlm`, as MaskedLanguageLoss has it, and `distil`, the KL of each row's distillation token,
    averaged over rows. Batches have the token as `with_distillation_token` adds it.

    teacher  another model of the same width and vocabulary, frozen here
    seed     of the token's vector, which is trained with the model
    """

    def __init__(
        self,
        model: PreTrainedModel,
        teacher: PreTrainedModel,
        *,
        text: DistilledText = "unmasked",
        weight: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.student, self.teacher = Student(model, text), domain.Frozen(teacher)
        self.weights = {"mlm": 1.0, "distil": weight}
        self.shares_lines = self.student.language.shares_lines
        with seeded(seed):
            self.token_D = nn.Parameter(model.config.initializer_range * torch.randn(word_embeddings(model).shape[1]))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {**self.student.language.counts(batch), "distil": len(batch)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        with embedded_as(self.student.language.model, self.token_D, piece[DISTILLATION] > 0):
            mlm_sum, student_LWD, text = self.student(piece)
        student_RTD, there_RT = domain.row_states(student_LWD, piece)
        last_R = there_RT.sum(1) - 1  # a row ends in its distillation token
        student_RD = student_RTD[torch.arange(len(there_RT), device=there_RT.device), last_R]  # s
        plain = without_distillation_token(text)
        teacher_RD = domain.row_means(self.teacher.hidden_states(plain), plain)  # t, footnote 13
        kl_R = domain.divergence(teacher_RD, student_RD)  # KL(softmax(t) || softmax(s)) over the D features
        return {"mlm": mlm_sum, "distil": kl_R.sum()}

    def flops(self, batch: Batch) -> float:
        return self.student.flops(batch) + training_flops(self.teacher.model, batch.lengths - 1, predicted=0) / 3


def with_distillation_token(batch: Batch) -> Batch:
    """Return the batch with a distillation token behind each row; `embedded_as` puts its vector in place of the id."""
    longer = domain.appended(batch, [int(batch.ids[-1])])  # any id but the padding's, by which RoBERTa counts positions
    marked = np.zeros(len(longer.ids), np.int64)
    marked[longer.offsets[1:] - 1] = 1
    return replace(longer, tokens={**longer.tokens, DISTILLATION: marked})


def without_distillation_token(piece: Piece) -> Piece:
    """Return the piece with the distillation tokens hidden from all other tokens and left out of the rows' means."""
    seen_LW = piece[DISTILLATION] == 0
    if "lengths" in piece:  # rows share lines: the mask says for each pair of tokens whether one sees the other
        mask_L1WW = piece["attention_mask"] & seen_LW[:, None, None, :]
        lengths_R = piece["lengths"] - 1
        mask_L1WW = block_diagonal(mask_L1WW, piece["firsts"].cpu().numpy(), lengths_R.cpu().numpy())
        return {**piece, "attention_mask": mask_L1WW, "lengths": lengths_R}
    mask_LW = piece.get("attention_mask", torch.ones_like(piece["input_ids"]))
    return {**piece, "attention_mask": mask_LW * seen_LW}


@contextmanager
def embedded_as(model: PreTrainedModel, vector_D: Tensor, where_LW: Tensor) -> Iterator[None]:
    """Within the block the model takes this vector as the word embedding at these positions."""

    def put(_: nn.Module, __: Any, embedded_LWD: Tensor) -> Tensor:
        return torch.where(where_LW[:, :, None], vector_D.to(embedded_LWD.dtype), embedded_LWD)

    embeddings: Any = model.get_input_embeddings()
    hook = embeddings.register_forward_hook(put)
    try:
        yield
    finally:
        hook.remove()


def adapt(recipe: DistilRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Train and write `out/checkpoint`, as `mlm.adapt` does.

    Raises ValueError as that does, and where the model has no position for a distillation token behind rows of
    `max_tokens`.
    """

    def objective(start: mlm.RunStart) -> Objective:
        teacher = copy.deepcopy(start.model)
        if recipe.teacher == "kd":
            return KnowledgeDistillation(start.model, teacher, text=recipe.text, weight=recipe.weight)
        return DistillationToken(start.model, teacher, text=recipe.text, weight=recipe.weight, seed=recipe.plan.seed)

    if recipe.teacher == "kd":
        return mlm.adapt_with(recipe, out, objective, watch=watch)
    most = longest_input(recipe.model) if recipe.model else None
    if most and recipe.max_tokens >= most:
        raise ValueError(
            f"{recipe.model} reads {most} tokens at most, too few for max_tokens = {recipe.max_tokens} and a "
            f"distillation token. Set max_tokens to at most {most - 1}"
        )
    return mlm.adapt_with(recipe, out, objective, mark=with_distillation_token, watch=watch)
