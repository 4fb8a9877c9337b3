"""Who may race, by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal

UNTOUCHED = "untouched"
BASELINE = "TF-IDF"
DICTIONARY = "word list"  # what stands for BASELINE where words have tags (methods/baselines.py)
CONTROL = "random weights"
TLM = "TLM"
UNFIT = {"span": (BASELINE, TLM)}  # kind of task -> who has no model for it

Contestant = Literal[
    "TAPT", "TAPTER", "DAPT", "DAPT+TAPT", "DAPT+TAPTER", "DGA", "adapter", "prompt", "KD", "AdaptedDeiT", "SimCSE",
    "InfoWord", "TaCL", "TaCO", "TLM", "TF-IDF", "random weights",
]  # fmt: skip
# who adapts on raw text of the domain -> the race's settings of its method (a name of METHODS but for "dapt"), and what
# makes it this contestant; all but the first are those of DGA's Table 2
DOMAIN: dict[str, tuple[str, dict[str, str]]] = {
    "DAPT": ("dapt", {}),
    "DGA": ("dga", {}),
    "adapter": ("light", {"kind": "adapter"}),
    "prompt": ("light", {"kind": "prompt"}),
    "KD": ("distil", {"teacher": "kd"}),
    "AdaptedDeiT": ("distil", {"teacher": "deit"}),
    "SimCSE": ("sequence_contrast", {"contrast": "simcse"}),
    "InfoWord": ("sequence_contrast", {"contrast": "infoword"}),
    "TaCL": ("token_contrast", {"contrast": "tacl"}),
    "TaCO": ("token_contrast", {"contrast": "taco"}),
}
# who does not read which settings of its method
UNREAD: dict[str, tuple[str, ...]] = {
    "adapter": ("prompt_tokens", "prompt_rate"),
    "prompt": ("bottleneck",),
    "TaCL": ("window", "anchors", "negatives"),
    "DGA (w/o contrast)": ("temperature", "anchor", "knowledge"),
    "DGA (random mask)": ("subset",),
}


def unread(name: str, recipe: Any) -> dict[str, Any]:
    """What a contestant does not read of its method's recipe, as it usually is: stated otherwise, it renames no job."""
    return {field.name: field.default for field in fields(recipe) if field.name in UNREAD.get(name, ())}


def check_unnamed(recipe: Any) -> None:
    """Raises ValueError for settings of methods that the names of contestants say. recipe: has the groups of DOMAIN."""
    said: dict[tuple[str, str], list[str]] = {}
    for name, (group, own) in DOMAIN.items():
        for setting in own:
            said.setdefault((group, setting), []).append(name)
    for (group, setting), names in said.items():
        stated = getattr(recipe, group)
        [usual] = [field.default for field in fields(stated) if field.name == setting]
        if (value := getattr(stated, setting)) != usual:
            raise ValueError(
                f"{group}.{setting} = '{value}' does nothing here: contestants say it by their names, "
                f"{' and '.join(names)}. Leave it out, and name them in contestants"
            )


def check_pretraining(pretrain: Any) -> None:
    """Raises ValueError for settings of `scratch` that go against what a race gives it, or that no budget can cut."""
    elsewhere = (
        "corpus",
        "general",
        "general_share",
        "dev",
        "tokenizer",
        "model",
        "tokens",
        "long_share",
        "least_words",
        "adversarial",
    )
    for field in [field for field in fields(pretrain) if field.name in elsewhere]:
        if (value := getattr(pretrain, field.name)) != field.default:
            raise ValueError(
                f"pretrain.{field.name} = {str(value)!r} is nothing for a race, which pretrains on --general alone, "
                "for pretrain.plan.steps or pretrain.epochs. Leave it out; or pretrain with `acclimate adapt scratch "
                f"{field.name}=...` and race with --model"
            )
