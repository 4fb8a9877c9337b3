"""Next-sentence prediction beside masked language modelling: does the second stretch of text follow the first?

Devlin et al. (2019), "BERT", section 3.1, task 2; PubMedBERT (Gu et al., 2021) keeps it (section 2.3). The loss is

    L = L_mlm + L_nsp,    L_nsp = - mean over rows of log softmax(W_2 tanh(W_1 h_[CLS] + b_1) + b_2) at the label

on the pairs of text/rows.py. W_1 and b_1 are BERT's pooler, which fine-tuning goes on with.

Shape suffixes: B lines, T tokens of a line, R rows, D hidden, M predicted positions, V vocabulary.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForPreTraining, PreTrainedModel

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.models.encoder import family, training_flops
from acclimate.models.heads import has_sparse_head, hidden_and_masked_logits, keeps_rows_apart
from acclimate.models.loading import configuration, drawn_weights, load_weights, reading, seeded
from acclimate.text.rows import RANDOM_NEXT
from acclimate.training.objective import Objective
from acclimate.training.pieces import Piece

FAMILY = "bert"  # whose checkpoints have a place for pooler and classifier


class NextSentenceHead(nn.Module):
    """BERT's pooler and the classifier on it; by its names, class 0 is "follows" and 1 "does not"."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.pooler = nn.Linear(hidden, hidden)
        self.classifier = nn.Linear(hidden, 2)

    def forward(self, first_RD: Tensor) -> Tensor:
        """(R, 2) logits of each row's first token."""
        logits_R2: Tensor = self.classifier(torch.tanh(self.pooler(first_RD)))
        return logits_R2


class NextSentenceLoss(Objective):
    """Terms `mlm`, averaged over the predicted tokens, and `nsp`, averaged over the rows; both of one pass."""

    def __init__(self, model: PreTrainedModel, head: NextSentenceHead) -> None:
        super().__init__()
        self.model, self.head = model, head
        self.weights = {"mlm": 1.0, "nsp": 1.0}
        self.shares_lines = keeps_rows_apart(model)

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"mlm": int(np.count_nonzero(batch.tokens["labels"] != NOT_PREDICTED)), "nsp": len(batch)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        hidden_BTD, logits_MV = hidden_and_masked_logits(self.model, piece, piece["positions"])
        first_RD = hidden_BTD.flatten(0, 1).index_select(0, piece["firsts"])
        return {
            "mlm": nn.functional.cross_entropy(logits_MV.float(), piece["labels"], reduction="sum"),
            "nsp": nn.functional.cross_entropy(self.head(first_RD).float(), piece[RANDOM_NEXT], reduction="sum"),
        }

    def flops(self, batch: Batch) -> float:
        predicted = self.counts(batch)["mlm"] if has_sparse_head(self.model) else len(batch.ids)
        weights = sum(weight.numel() for weight in self.head.parameters() if weight.ndim > 1)
        return training_flops(self.model, batch.lengths, predicted=predicted) + 6.0 * weights * len(batch)


def require_pairs(model: PreTrainedModel) -> None:
    """Raises ValueError for a model that cannot learn from pairs, or whose checkpoint could not keep what it learns."""
    if family(model) != FAMILY or model.config.type_vocab_size < 2:
        raise ValueError(
            f"next_sentence = true needs a BERT with two token types, but the model is a '{family(model)}'. Set "
            "next_sentence=false"
        )


def new_head(model: PreTrainedModel, *, seed: int) -> NextSentenceHead:
    """With random weights, as the model's own were drawn."""
    with seeded(seed):
        head = NextSentenceHead(model.config.hidden_size)
        for weight in head.parameters():
            if weight.ndim > 1:
                nn.init.normal_(weight, std=model.config.initializer_range)
            else:
                nn.init.zeros_(weight)
    return head


def head_of(model: str, *, seed: int) -> tuple[NextSentenceHead, bool]:
    """That of a BERT's checkpoint, and whether the checkpoint has one: else it is drawn."""
    with reading(model) as where:
        loaded: Any
        loaded, _ = load_weights(BertForPreTraining, where, configuration(where), seed)
    if any("pooler" in name or "seq_relationship" in name for name in drawn_weights(loaded)):
        return new_head(loaded, seed=seed), False
    head = NextSentenceHead(loaded.config.hidden_size)
    head.pooler.load_state_dict(loaded.bert.pooler.dense.state_dict())
    head.classifier.load_state_dict(loaded.cls.seq_relationship.state_dict())
    return head, True


def with_head(model: PreTrainedModel, head: NextSentenceHead) -> PreTrainedModel:
    """The BERT with its pooler and both heads, as its authors hand it over; AutoModelForMaskedLM loads it too."""
    with seeded(0):
        whole: Any = BertForPreTraining(cast(BertConfig, model.config))
    lacking, unknown = whole.load_state_dict(model.state_dict(), strict=False)
    assert not unknown
    assert all("pooler" in name or "seq_relationship" in name for name in lacking)
    whole.bert.pooler.dense.load_state_dict(head.pooler.state_dict())
    whole.cls.seq_relationship.load_state_dict(head.classifier.state_dict())
    whole.train(False)
    handed_over: PreTrainedModel = whole
    return handed_over
