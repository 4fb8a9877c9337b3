"""Set dropout by the names that each family's config has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_BERT: dict[str, tuple[str, ...]] = {
    "attention": ("attention_probs_dropout_prob",),
    "hidden": ("hidden_dropout_prob",),
    "head": ("classifier_dropout",),
}
_DEBERTA: dict[str, tuple[str, ...]] = {**_BERT, "head": ("cls_dropout", "pooler_dropout")}

# DeBERTa's hidden dropout also acts on the relative positions within attention, ModernBERT's attention dropout also on
# the output of the attention block.
DROPOUT_FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "bert": _BERT,
    "camembert": _BERT,
    "deberta": _DEBERTA,
    "deberta-v2": _DEBERTA,
    "distilbert": {"attention": ("attention_dropout",), "hidden": ("dropout",), "head": ("seq_classif_dropout",)},
    "electra": _BERT,
    "modernbert": {
        "attention": ("attention_dropout",),
        "hidden": ("embedding_dropout", "mlp_dropout"),
        "head": ("classifier_dropout",),
    },
    "roberta": _BERT,
    "xlm-roberta": _BERT,
}


def dropout_fields(family: str) -> tuple[str, ...]:
    """Return the names of all fields of a family's config that hold a dropout; none of a family that is not listed."""
    return tuple(name for names in DROPOUT_FIELDS.get(family, {}).values() for name in names)


def set_dropout(
    config: PreTrainedConfig, *, attention: float | None = None, hidden: float | None = None, head: float | None = None
) -> None:
    """Set the dropout of a config, in place, before a model is made from it. None keeps the checkpoint's value.

    attention  on the attention probabilities
    hidden     on the embeddings and on what each block adds to the hidden states
    head       before the output layer of a classifier

    Raises ValueError for a probability outside [0, 1), and for a family that DROPOUT_FIELDS does not list.
    """
    probabilities = {
        part: value
        for part, value in zip(("attention", "hidden", "head"), (attention, hidden, head), strict=True)
        if value is not None
    }
    if not probabilities:
        return
    family = config.model_type
    if family not in DROPOUT_FIELDS:
        raise ValueError(
            f"acclimate does not know the dropout settings of the family '{family}', so it cannot change them. "
            f"Remove the setting, or use a model of one of these families: {', '.join(DROPOUT_FIELDS)}."
        )
    for part, probability in probabilities.items():
        if not 0 <= probability < 1:
            raise ValueError(
                f"{part} dropout is {probability}, but it must be a probability of at least 0 and below 1."
            )
        for field in DROPOUT_FIELDS[family][part]:
            setattr(config, field, probability)
