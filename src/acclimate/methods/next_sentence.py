"""Next-sentence prediction beside masked language modelling: does the second stretch of text follow the first?

Devlin et al. (2019), "BERT", section 3.1, task 2; PubMedBERT (Gu et al., 2021) keeps it (section 2.3). The loss is

    L_mlm + L_nsp,    L_nsp = - mean over rows of log softmax(W_2 tanh(W_1 h_[CLS] + b_1) + b_2)[label]

on the pairs of text/rows.py. W_1 and b_1 are BERT's pooler. `scratch` minimises it with `next_sentence = true`.

Shape suffixes: L lines, W width of a line in tokens, R rows, D hidden, M predicted positions, V vocabulary.
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
from acclimate.training.objective import Objective, masked_cross_entropy
from acclimate.training.pieces import Piece

FAMILY = "bert"  # the family whose checkpoints have a place for pooler and classifier


class NextSentenceHead(nn.Module):
    """BERT's pooler and the classifier on it; class 0 is "follows" and class 1 "does not", as in BERT's code."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.pooler = nn.Linear(hidden, hidden)
        self.classifier = nn.Linear(hidden, 2)

    def forward(self, first_RD: Tensor) -> Tensor:
        """(R, 2) logits from the last hidden state of each row's first token, h_[CLS]."""
        logits_R2: Tensor = self.classifier(torch.tanh(self.pooler(first_RD)))  # W_2 tanh(W_1 h_[CLS] + b_1) + b_2
        return logits_R2


class NextSentenceLoss(Objective):
    """L_mlm + L_nsp of one pass. Terms: `mlm`, averaged over the predicted tokens, and `nsp`, averaged over rows."""

    def __init__(self, model: PreTrainedModel, head: NextSentenceHead) -> None:
        super().__init__()
        self.model, self.head = model, head
        self.weights = {"mlm": 1.0, "nsp": 1.0}
        self.shares_lines = keeps_rows_apart(model)

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"mlm": int(np.count_nonzero(batch.tokens["labels"] != NOT_PREDICTED)), "nsp": len(batch)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        hidden_LWD, logits_MV = hidden_and_masked_logits(self.model, piece, piece["positions"])
        first_RD = hidden_LWD.flatten(0, 1).index_select(0, piece["firsts"])  # h_[CLS]
        logits_R2 = self.head(first_RD).float()
        nsp = nn.functional.cross_entropy(logits_R2, piece[RANDOM_NEXT], reduction="sum")  # L_nsp
        return {"mlm": masked_cross_entropy(logits_MV, piece), "nsp": nsp}

    def flops(self, batch: Batch) -> float:
        predicted = self.counts(batch)["mlm"] if has_sparse_head(self.model) else len(batch.ids)
        weights = sum(weight.numel() for weight in self.head.parameters() if weight.ndim > 1)
        return training_flops(self.model, batch.lengths, predicted=predicted) + 6.0 * weights * len(batch)


def require_pairs(model: PreTrainedModel) -> None:
    """Raises ValueError for a model that is not a BERT with two token types."""
    if family(model) != FAMILY or model.config.type_vocab_size < 2:
        raise ValueError(
            f"next_sentence = true needs a BERT with two token types, but the model is a '{family(model)}'. Set "
            "next_sentence=false"
        )


def new_head(model: PreTrainedModel, *, seed: int) -> NextSentenceHead:
    """A head with random weights, drawn as the model's were."""
    with seeded(seed):
        head = NextSentenceHead(model.config.hidden_size)
        for weight in head.parameters():
            if weight.ndim > 1:
                nn.init.normal_(weight, std=model.config.initializer_range)
            else:
                nn.init.zeros_(weight)
    return head


def head_of(model: str, *, seed: int) -> tuple[NextSentenceHead, bool]:
    """The head of a BERT's checkpoint and True; or, where the checkpoint has none, a new one and False."""
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
    """The BERT with its pooler and both heads, as its authors publish it; AutoModelForMaskedLM loads it too."""
    with seeded(0):
        whole: Any = BertForPreTraining(cast(BertConfig, model.config))
    lacking, unknown = whole.load_state_dict(model.state_dict(), strict=False)
    assert not unknown
    assert all("pooler" in name or "seq_relationship" in name for name in lacking)
    whole.bert.pooler.dense.load_state_dict(head.pooler.state_dict())
    whole.cls.seq_relationship.load_state_dict(head.classifier.state_dict())
    whole.train(False)
    pretrained: PreTrainedModel = whole
    return pretrained
