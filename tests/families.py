"""Two-layer random masked language models, one for every family with a sparse head: models for conformance tests.

Every model has hidden size 32, two heads, VOCABULARY tokens and at least LONGEST positions. Weights are drawn under a
fixed seed; biases too, so that a forgotten one changes the logits. `model.config.pad_token_id` is the padding's id.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    CamembertConfig,
    CamembertForMaskedLM,
    DebertaConfig,
    DebertaForMaskedLM,
    DebertaV2Config,
    DebertaV2ForMaskedLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    ElectraConfig,
    ElectraForMaskedLM,
    EuroBertConfig,
    EuroBertForMaskedLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    MPNetConfig,
    MPNetForMaskedLM,
    PreTrainedConfig,
    PreTrainedModel,
    RobertaConfig,
    RobertaForMaskedLM,
    XLMRobertaConfig,
    XLMRobertaForMaskedLM,
)

VOCABULARY = 200
LONGEST = 64
_SPREAD = 0.1  # wider than BERT's 0.02, so that logits of this small a model differ visibly

_BERT: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": LONGEST,
}
_ROBERTA = {  # positions start behind the padding's id, which is 1
    **_BERT,
    "max_position_embeddings": LONGEST + 2,
    "type_vocab_size": 1,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
_DISTILBERT = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64, "max_position_embeddings": LONGEST}
_DEBERTA = {**_BERT, "type_vocab_size": 0, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
_DEBERTA_V2 = {**_DEBERTA, "position_buckets": 16, "norm_rel_ebd": "layer_norm", "share_att_key": True}
_MODERNBERT = {  # one global layer, one that sees four tokens to each side
    **_BERT,
    "local_attention": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
}
_EUROBERT = {**_BERT, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_MPNET = dict(_ROBERTA)
_MPNET.pop("type_vocab_size")

_BERT_DROPOUT = ("hidden_dropout_prob", "attention_probs_dropout_prob")
_DISTILBERT_DROPOUT = ("dropout", "attention_dropout")
_MODERNBERT_DROPOUT = ("embedding_dropout", "mlp_dropout", "attention_dropout")


def _make(
    architecture: type[PreTrainedModel],
    configuration: type[PreTrainedConfig],
    settings: dict[str, Any],
    dropouts: tuple[str, ...] = _BERT_DROPOUT,
    *,
    dropout: float = 0.0,
) -> PreTrainedModel:
    config = configuration(
        vocab_size=VOCABULARY, initializer_range=_SPREAD, **dict.fromkeys(dropouts, dropout), **settings
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = architecture(config)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() == 1:
                    weight.add_(_SPREAD * torch.randn_like(weight))
    model.eval()
    return model


FAMILIES: dict[str, Callable[..., PreTrainedModel]] = {
    "bert": partial(_make, BertForMaskedLM, BertConfig, _BERT),
    "camembert": partial(_make, CamembertForMaskedLM, CamembertConfig, _ROBERTA),
    "deberta": partial(_make, DebertaForMaskedLM, DebertaConfig, _DEBERTA),
    "deberta not legacy": partial(_make, DebertaForMaskedLM, DebertaConfig, {**_DEBERTA, "legacy": False}),
    "deberta-v2": partial(_make, DebertaV2ForMaskedLM, DebertaV2Config, _DEBERTA_V2),
    "deberta-v2 not legacy": partial(_make, DebertaV2ForMaskedLM, DebertaV2Config, {**_DEBERTA_V2, "legacy": False}),
    "distilbert": partial(_make, DistilBertForMaskedLM, DistilBertConfig, _DISTILBERT, _DISTILBERT_DROPOUT),
    "electra": partial(_make, ElectraForMaskedLM, ElectraConfig, {**_BERT, "embedding_size": 16}),
    "modernbert": partial(_make, ModernBertForMaskedLM, ModernBertConfig, _MODERNBERT, _MODERNBERT_DROPOUT),
    "roberta": partial(_make, RobertaForMaskedLM, RobertaConfig, _ROBERTA),
    "xlm-roberta": partial(_make, XLMRobertaForMaskedLM, XLMRobertaConfig, _ROBERTA),
}
"""Name -> a function of `dropout=0.0` that makes the model, in evaluation mode, the same one at every call."""

mpnet: Callable[..., PreTrainedModel] = partial(_make, MPNetForMaskedLM, MPNetConfig, _MPNET)
"""A family without a sparse head, for the way around."""

CLASSIFIED: dict[str, Callable[..., PreTrainedModel]] = {
    **{name: make for name, make in FAMILIES.items() if "legacy" not in name},
    "albert": partial(_make, AlbertForMaskedLM, AlbertConfig, {**_BERT, "embedding_size": 16}),
    "eurobert": partial(_make, EuroBertForMaskedLM, EuroBertConfig, _EUROBERT, ("attention_dropout",)),
    "modernbert": partial(  # its LayerNorm is linear to float precision from some hundred features on
        _make, ModernBertForMaskedLM, ModernBertConfig, {**_MODERNBERT, "hidden_size": 256}, _MODERNBERT_DROPOUT
    ),
    "mpnet": mpnet,
}
"""The families whose fine-tuned models are shipped."""
