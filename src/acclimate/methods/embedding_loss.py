"""What TAPTER minimises: L_LM plus how far the word embeddings, projected, are from fastText's vectors (Eq. 1).

Shape suffixes: V vocabulary, D numbers of an embedding, F of a fastText vector, N tokens of a batch, U distinct pieces.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.models.encoder import word_embeddings
from acclimate.models.loading import seeded
from acclimate.training.objective import MaskedLanguageLoss, Objective
from acclimate.training.pieces import Piece

REGULARISED = "regularised"  # of `Batch.tokens`: 1 + the piece that counts at a position, 0 where none does
ROUND = 64  # distinct pieces are filled up to a multiple of it: few shapes, for which the CPU's kernels are made once
EPSILON = 1e-12  # of layer normalisation, as in BERT

Per = Literal["occurrence", "type"]
Ids = Literal["original", "masked"]


def with_regularised(
    batch: Batch, regularised_V: np.ndarray, *, per: Per = "occurrence", ids: Ids = "original"
) -> Batch:
    """The step's batch, masked for language modelling, with tokens["regularised"]: R(X), position by position.

    regularised_V  (V,) bool: the pieces that R may have
    per            "type": only the first occurrence of a piece in the step counts
    ids            at predicted positions: the piece that the text has there, or that of the masked input
    """
    pieces_N, labels_N = batch.ids, batch.tokens["labels"]
    if ids == "original":
        pieces_N = np.where(labels_N == NOT_PREDICTED, pieces_N, labels_N)
    kept_N = regularised_V[pieces_N]
    if per == "type":
        first_N = np.zeros(len(kept_N), bool)
        first_N[np.unique(pieces_N, return_index=True)[1]] = True
        kept_N &= first_N
    return replace(batch, tokens={**batch.tokens, REGULARISED: np.where(kept_N, 1 + pieces_N, 0)})


def spread_of(vectors_VF: np.ndarray, regularised_V: np.ndarray) -> float:
    """The standard deviation of the numbers of the vectors that count, about the mean of each of the F numbers."""
    counted_RF = vectors_VF[regularised_V]
    return float((counted_RF - counted_RF.mean(axis=0)).std())


def of_unit_spread(vectors_VF: np.ndarray, regularised_V: np.ndarray) -> np.ndarray:
    """The vectors divided by their spread. Raises ValueError where they have none."""
    spread = spread_of(vectors_VF, regularised_V)
    if not spread > 0:
        raise ValueError(
            f"scale = 'unit' divides the vectors by their standard deviation, but it is {spread:g}: no two of the "
            f"{int(regularised_V.sum()):,} that count differ. Set scale=given, or train the vectors on more text"
        )
    return vectors_VF / np.float32(spread)


class TapterLoss(Objective):
    """Terms `mlm`, as MaskedLanguageLoss has it, and `embedding`: ||f(E_x) - F_x||^2 with f(z) = LN(W z + b), averaged
    over R, which batches carry as `with_regularised` puts it there.

    E_x is the row of the embedding matrix itself, before positions and normalisation, whatever else it is tied to. f is
    a child of the objective, so states have it; the model, and so its checkpoint, has not.

    vectors_VF      (V, F) float32, a row for each of the model's embeddings
    regularised_V   (V,) bool: the rows that count
    regularisation  weight of the second term; 1 in the paper
    seed            of W. LN starts at the vectors' mean and spread, not at 0 and 1: at the rates of language modelling
                    a run would not get it from there to their scale

    Raises ValueError where there are not as many vectors as embeddings.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        vectors_VF: np.ndarray,
        regularised_V: np.ndarray,
        *,
        regularisation: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.language = MaskedLanguageLoss(model)
        self.weights = {"mlm": 1.0, "embedding": regularisation}
        self.shares_lines = self.language.shares_lines
        rows, width = word_embeddings(model).shape
        if len(vectors_VF) != rows:
            raise ValueError(f"{len(vectors_VF):,} vectors for {rows:,} embeddings. Give one for each")
        # a parameter that learns nothing: a buffer would be sent between processes at every step
        self.vectors_VF = nn.Parameter(torch.from_numpy(vectors_VF), requires_grad=False)
        with seeded(seed):
            self.linear = nn.Linear(width, vectors_VF.shape[1])
        self.norm = nn.LayerNorm(vectors_VF.shape[1], eps=EPSILON)
        with torch.no_grad():
            self.norm.weight.fill_(spread_of(vectors_VF, regularised_V))
            self.norm.bias.copy_(torch.from_numpy(vectors_VF[regularised_V].mean(axis=0)))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {**self.language.counts(batch), "embedding": int(np.count_nonzero(batch.tokens[REGULARISED]))}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        # a piece that occurs ten times is projected once and counts tenfold
        found_U, times_U = torch.unique(piece[REGULARISED], return_counts=True)
        filling = (0, -len(found_U) % ROUND)
        found_U, times_U = nn.functional.pad(found_U, filling), nn.functional.pad(times_U, filling)
        pieces_U, times_U = (found_U - 1).clamp(min=0), times_U * (found_U > 0)
        embeddings_UD = nn.functional.embedding(pieces_U, word_embeddings(self.language.model))
        projected_UF = self.norm(self.linear(embeddings_UD)).float()
        distance_U = (projected_UF - self.vectors_VF[pieces_U]).square().sum(-1)
        return {**self.language(piece), "embedding": (times_U * distance_U).sum()}

    def flops(self, batch: Batch) -> float:
        """As masked language modelling; f once for each distinct piece of the step, as if it were not cut."""
        distinct = np.count_nonzero(np.unique(batch.tokens[REGULARISED]))
        return self.language.flops(batch) + 6.0 * self.linear.weight.numel() * distinct
