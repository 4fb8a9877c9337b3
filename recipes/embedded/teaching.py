"""Masked language modelling with a teacher: a larger model that reads the same text in another vocabulary.

The frozen teacher reads some rows of each step without masks. The student, which reads them masked, learns states that
point in the direction of the teacher's: for each word, the mean over its pieces; for each row, that over its tokens.

Shape suffixes: R rows, T tokens of the longest, W words of the longest + 1 (number 0: no word), D features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.methods.domain import Frozen, row_states
from acclimate.models.encoder import training_flops
from acclimate.models.heads import hidden_and_masked_logits, rows_of
from acclimate.training.objective import MaskedLanguageLoss, Objective
from acclimate.training.pieces import Piece

WORDS, TEACHER_IDS, TEACHER_WORDS = "words", "teacher_ids", "teacher_words"


class Taught(Objective):
    """The terms `mlm`, as MaskedLanguageLoss has it, and `word` and `sentence`: 1 - cosine of student and teacher,
    averaged over the words and over the rows that the teacher reads. `Lessons` makes the batches.

    If the student has another width than the teacher, a linear map of its states is trained too and thrown away later.
    """

    def __init__(self, model: PreTrainedModel, teacher: PreTrainedModel, *, word: float, sentence: float) -> None:
        super().__init__()
        self.language, self.teacher = MaskedLanguageLoss(model), Frozen(teacher)
        self.weights = {"mlm": 1.0, "word": word, "sentence": sentence}
        self.shares_lines = self.language.shares_lines
        width, width_of_teacher = model.config.hidden_size, teacher.config.hidden_size
        same = width == width_of_teacher
        self.onto = nn.Identity() if same else nn.Linear(width, width_of_teacher)

    def counts(self, batch: Batch) -> dict[str, int]:
        taught = batch.rows[TEACHER_IDS][:, 0] > 0
        words = batch.rows[TEACHER_WORDS].max(1)
        return {**self.language.counts(batch), "word": int(words[taught].sum()), "sentence": int(taught.sum())}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        hidden, logits_MV = hidden_and_masked_logits(self.language.model, piece, piece["positions"])
        mlm = nn.functional.cross_entropy(logits_MV.float(), piece["labels"], reduction="sum")
        student_RTD, there_RT = row_states(hidden, piece)
        rows = rows_of(piece)
        words_RT = piece[WORDS] if rows is None else rows.alone(piece[WORDS], 0)
        taught = piece[TEACHER_IDS][:, 0] > 0
        if not taught.any():
            return {"mlm": mlm, "word": mlm * 0, "sentence": mlm * 0}
        ids, numbers = piece[TEACHER_IDS][taught], piece[TEACHER_WORDS][taught]
        longest = int((ids > 0).sum(1).max())
        ids, numbers = ids[:, :longest], numbers[:, :longest]
        teacher_RTD = self.teacher.hidden_states({"input_ids": ids, "attention_mask": (ids > 0).long()})
        student_RTD = self.onto(student_RTD[taught])
        count = int(numbers.max()) + 1
        student_RWD = averaged(student_RTD, words_RT[taught], count)
        teacher_RWD = averaged(teacher_RTD, numbers, count)
        known_RW = torch.arange(1, count) <= numbers.amax(1, keepdim=True)
        word = ((1 - nn.functional.cosine_similarity(student_RWD, teacher_RWD, dim=-1))[:, 1:] * known_RW).sum()
        means = [
            averaged(states, seen.long(), 2)[:, 1]
            for states, seen in ((student_RTD, there_RT[taught]), (teacher_RTD, ids > 0))
        ]
        return {"mlm": mlm, "word": word, "sentence": (1 - nn.functional.cosine_similarity(*means, dim=-1)).sum()}

    def flops(self, batch: Batch) -> float:
        lengths = (batch.rows[TEACHER_IDS] > 0).sum(1)
        return self.language.flops(batch) + training_flops(self.teacher.model, lengths[lengths > 0], predicted=0) / 3


def averaged(states_RTD: Tensor, numbers_RT: Tensor, count: int) -> Tensor:
    """Return (R, count, D) float32: the mean of each row's states that have the same number."""
    index = numbers_RT[:, :, None].expand(-1, -1, states_RTD.shape[2])
    zeros = states_RTD.new_zeros(len(states_RTD), count, states_RTD.shape[2], dtype=torch.float32)
    sums = zeros.scatter_add(1, index, states_RTD.float())
    counts = zeros[:, :, 0].scatter_add(1, numbers_RT, torch.ones_like(numbers_RT, dtype=torch.float32))
    return sums / counts.clamp(min=1)[:, :, None]


class Lessons:
    """Adds to a masked batch what the teacher reads: the first `taught` rows, unmasked, in the teacher's vocabulary.

    Both vocabularies are WordPiece over the same words, so the pieces of a word, joined, are the word.
    """

    def __init__(self, student: PreTrainedTokenizerBase, teacher: PreTrainedTokenizerBase, taught: int) -> None:
        self.pieces = student.convert_ids_to_tokens(range(len(student)))
        self.continues = np.array([piece.startswith("##") for piece in self.pieces])
        self.special = np.array([piece in student.all_special_tokens for piece in self.pieces])
        self.special[student.unk_token_id] = False
        self.frame = (teacher.cls_token_id, teacher.sep_token_id)
        self.taught = taught
        unknown = student.unk_token

        @lru_cache(1 << 17)
        def spelled(word: str) -> list[int]:
            return [teacher.unk_token_id] if word == unknown else teacher.encode(word, add_special_tokens=False)

        self.spelled: Callable[[str], list[int]] = spelled

    def __call__(self, batch: Batch) -> Batch:
        labels = batch.tokens["labels"]
        ids = np.where(labels == NOT_PREDICTED, batch.ids, labels)
        words, begins = np.zeros(len(ids), np.int64), ~self.continues[ids] & ~self.special[ids]
        of_teacher = np.zeros((2, len(batch), max(batch.lengths) + 256), np.int64)  # ids, words
        longest = 2
        for row in range(min(self.taught, len(batch))):
            first, last = batch.offsets[row], batch.offsets[row + 1]
            row_ids = ids[first:last]
            starts = begins[first:last].copy()
            starts[1] = True  # a segment may begin within a word
            words[first:last] = np.where(self.special[row_ids], 0, np.cumsum(starts))
            texts: list[str] = []
            for start, token in zip(starts, row_ids, strict=False):
                piece = self.pieces[token]
                if start:
                    texts.append(piece.removeprefix("##"))
                elif not self.special[token]:
                    texts[-1] += piece.removeprefix("##")
            spelled = [self.spelled(text) for text in texts]
            numbers = [number for number, pieces in enumerate(spelled, 1) for _ in pieces]
            end = len(numbers) + 1
            of_teacher[0, row, : end + 1] = [
                self.frame[0],
                *(piece_id for pieces in spelled for piece_id in pieces),
                self.frame[1],
            ]
            of_teacher[1, row, 1:end] = numbers
            longest = max(longest, end + 1)
        more = {TEACHER_IDS: of_teacher[0, :, :longest], TEACHER_WORDS: of_teacher[1, :, :longest]}
        return replace(batch, tokens={**batch.tokens, WORDS: words}, rows={**batch.rows, **more})
