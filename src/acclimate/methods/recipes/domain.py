"""The settings that DGA and the methods that it is compared with share: those of its section 4.2."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from acclimate.methods.method import deferred
from acclimate.methods.recipes import mlm
from acclimate.models.dropout import DROPOUT_FIELDS, set_dropout
from acclimate.training.plan import Plan

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_may_differ = deferred("acclimate.methods.domain", "may_differ")


@dataclass(frozen=True)
class DomainRecipe(mlm.MlmRecipe):
    """Masked language modelling with section 4.2's settings as defaults: 2,500 steps of 256 sequences of 164 tokens at
    rate 1e-4. What that section leaves open is as in the released code: 10% warm-up, no decay, 15% of sub-words masked.
    """

    max_tokens: mlm.Length = 164  # longest sequence in tokens, special ones included; the paper: 164
    epochs: mlm.Epochs = 0.0  # passes over the corpus; 0: plan.steps sets the length, 2,500 in the paper
    plan: Plan = field(default_factory=lambda: Plan(steps=2_500, batch=256, rate=1e-4, warmup=0.1, weight_decay=0.0))
    """Steps, batch, rate, precision: 2,500 steps of 256 sequences at 1e-4 in the paper"""


# for a small encoder that a race pretrains
SMALL: dict[str, Any] = {
    "max_tokens": 128,
    "whole_words": True,
    "plan": Plan(steps=300, batch=16, rate=1e-3, warmup=0.06),
}
SMALL_NOISY: dict[str, Any] = {**SMALL, "dropout": 0.1}  # two passes over a text have to differ
NOISY: dict[str, Any] = {"dropout": 0.1, "attention_dropout": 0.1}  # likewise, for a model of BERT's or RoBERTa's size


def check_noise(recipe: DomainRecipe, config: PreTrainedConfig, group: str) -> None:
    """Raises ValueError where two passes of a model of this config and recipe would not differ, and names the settings.

    group: prefix of the settings' names in the error, such as "dga."
    """
    changed = copy.deepcopy(config)
    set_dropout(changed, attention=recipe.attention_dropout, hidden=recipe.dropout)
    hidden_fields = DROPOUT_FIELDS.get(config.model_type, {}).get("hidden", ())
    if any(getattr(changed, field, 0) for field in hidden_fields) or _may_differ(changed):
        return
    dropouts = {"dropout": recipe.dropout, "attention_dropout": recipe.attention_dropout}
    assignments = [f"{group}{setting} = {value:g}" for setting, value in dropouts.items() if value is not None]
    raise ValueError(
        "compares passes over a text that differ only by dropout, but "
        f"{' and '.join(assignments) or 'the model has no dropout'}. Set {group}dropout=0.1"
    )
