"""What TLM's first stage minimises: L_mlm on external text, rho_2 L_mlm + L_task on the task's own rows.

Shape suffixes: B lines, T tokens of a line, D hidden, M predicted positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.core.types import NOT_PREDICTED, TAGS, Batch
from acclimate.methods.task_loss import LOSSES, target_of, targets
from acclimate.models.classifier import TOKENS
from acclimate.models.flops import training_flops
from acclimate.models.heads import has_sparse_head, hidden_and_masked_logits, keeps_rows_apart
from acclimate.training.objective import Objective
from acclimate.training.pieces import Piece


class JointLoss(Objective):
    """Terms `external` and `mlm`, averaged over the predicted tokens of external and of internal rows, and `task`, as
    in `TaskLoss`. A batch with labels or tags is internal. A term that a batch has nothing for is 0.

    Both losses of an internal row come from one pass over its masked input: the encoder with its language modelling
    head is `model`, the classifier is `head`, on each row's first position; of tagged words, on every position.

    normalise  weights of an internal batch add up to 1, as in the released code; False: the paper's sum
    """

    def __init__(
        self, model: PreTrainedModel, head: nn.Module, *, kind: str, rho_2: float, normalise: bool = False
    ) -> None:
        super().__init__()
        self.model, self.head, self.kind = model, head, kind
        share = 1.0 / (rho_2 + 1.0) if normalise else 1.0
        self.weights = {"external": 1.0, "mlm": share * rho_2, "task": share}
        self.shares_lines = keeps_rows_apart(model)

    def counts(self, batch: Batch) -> dict[str, int]:
        predicted = int(np.count_nonzero(batch.tokens["labels"] != NOT_PREDICTED))
        if _is_internal(batch.rows, batch.tokens):
            return {"external": 0, "mlm": predicted, "task": targets(batch)}
        return {"external": predicted, "mlm": 0, "task": 0}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        hidden_BTD, logits_MV = hidden_and_masked_logits(self.model, piece, piece["positions"])
        mlm = nn.functional.cross_entropy(logits_MV.float(), piece["labels"], reduction="sum")
        internal = _is_internal(piece)
        everywhere = internal and self.kind == TOKENS
        read = hidden_BTD if everywhere else hidden_BTD.flatten(0, 1).index_select(0, piece["firsts"])
        outputs = self.head(read).float()
        # not a plain 0: processes can average gradients only of weights that took part in every batch
        nothing = 0.0 * outputs.sum()
        if not internal:
            return {"external": mlm, "mlm": nothing, "task": nothing}
        return {"external": nothing, "mlm": mlm, "task": LOSSES[self.kind](outputs, target_of(piece))}

    def flops(self, batch: Batch) -> float:
        count = self.counts(batch)
        predicted = count["external"] + count["mlm"] if has_sparse_head(self.model) else len(batch.ids)
        classified = (len(batch.ids) if self.kind == TOKENS else len(batch)) if count["task"] else 0
        weights = sum(layer.weight.numel() for layer in self.head.modules() if isinstance(layer, nn.Linear))
        return training_flops(self.model, batch.lengths, predicted=predicted) + 6.0 * weights * classified


def _is_internal(*fields: Mapping[str, object]) -> bool:
    return any("label" in field or TAGS in field for field in fields)
