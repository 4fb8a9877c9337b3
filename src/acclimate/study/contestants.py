"""Who may race, by name."""

from __future__ import annotations

from typing import Literal

UNTOUCHED = "untouched"
BASELINE = "TF-IDF"
DICTIONARY = "word list"  # what stands for BASELINE where words have tags (methods/dictionary.py)
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
