"""DGA's study as a value (study/domain_methods.py runs it)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from acclimate.methods import dga, distil, finetune, light, mlm, sequence_contrast, token_contrast
from acclimate.methods.domain import DomainRecipe
from acclimate.study.contestants import DOMAIN, check_unnamed, unread
from acclimate.training.plan import Plan

Contestant = Literal[
    "MLM", "adapter", "prompt", "KD", "AdaptedDeiT", "SimCSE", "TaCL", "TaCO", "InfoWord", "DGA", "DGA (H, I)",
    "DGA (H, I, O)", "DGA (H, I, O, E)", "DGA (w/o contrast)", "DGA (random mask)", "Ensemble (LM+MLM)",
    "DGA (domain-specific)",
]  # fmt: skip
TABLE_2: tuple[Contestant, ...] = (
    "MLM", "adapter", "prompt", "KD", "AdaptedDeiT", "SimCSE", "TaCL", "TaCO", "InfoWord", "DGA",
)  # fmt: skip
TABLE_3: tuple[Contestant, ...] = (
    "DGA (H, I)", "DGA (H, I, O)", "DGA (H, I, O, E)", "DGA (w/o contrast)", "DGA (random mask)", "Ensemble (LM+MLM)",
    "DGA (domain-specific)",
)  # fmt: skip
MLM: Contestant = "MLM"
ENSEMBLE: Contestant = "Ensemble (LM+MLM)"
# who adapts -> the method (a name of METHODS), and what makes it this contestant
ADAPTED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    MLM: ("mlm", {}),
    **{name: DOMAIN[name] for name in TABLE_2 if name != MLM},
    "DGA (H, I)": ("dga", {"parts": ("heads", "intermediate")}),
    "DGA (H, I, O)": ("dga", {"parts": ("heads", "intermediate", "output")}),
    "DGA (H, I, O, E)": ("dga", {"parts": ("heads", "intermediate", "output", "embeddings")}),
    "DGA (w/o contrast)": ("dga", {"contrast": 0.0}),
    "DGA (random mask)": ("dga", {"importance": "random"}),
    "DGA (domain-specific)": ("dga", {"knowledge": "domain"}),
}
SHARED = tuple(field.name for field in fields(DomainRecipe))
GROUPS = ("dga", "light", "distil", "sequence_contrast", "token_contrast")


@dataclass(frozen=True)
class Recipe:
    """Tables 2 to 5 of Ke et al. (2022): the model as it is and adapted on raw text of a domain by each method.

    The defaults are those of section 4.2. `adapt` is what all adapt with; the groups of the methods have the rest.
    """

    seeds: int = 5
    contestants: tuple[Contestant, ...] = TABLE_2
    ablations: bool = False  # with those of Table 3
    rows: int = 0  # so many of train, drawn; 0: all
    rows_seed: int = 0  # of that draw
    # the dropout of BERT and RoBERTa: two passes over a text have to differ
    adapt: DomainRecipe = field(default_factory=lambda: DomainRecipe(dropout=0.1, attention_dropout=0.1))
    dga: dga.Recipe = field(default_factory=dga.Recipe)
    light: light.Recipe = field(default_factory=light.Recipe)
    distil: distil.Recipe = field(default_factory=distil.Recipe)
    sequence_contrast: sequence_contrast.Recipe = field(default_factory=sequence_contrast.Recipe)
    token_contrast: token_contrast.Recipe = field(default_factory=token_contrast.Recipe)
    finetune: finetune.Recipe = field(
        default_factory=lambda: finetune.Recipe(
            choose="last", looks=1, epochs=10.0, plan=Plan(batch=16, rate=1e-5, warmup=0.0)
        )
    )

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(f"seeds = {self.seeds}: one seed says nothing about chance. Give at least 2, better 5")
        if len(set(self.contestants)) < len(self.contestants) or not self.names:
            raise ValueError(f"contestants = {list(self.contestants)}: at least one of them, and each once")
        if self.rows < 0:
            raise ValueError(f"rows = {self.rows} is out of range: at least 0")
        if self.finetune.head == "kept":
            raise ValueError(
                "finetune.head = 'kept' goes on with the model's own head, which what was adapted has not. Leave it out"
            )
        check_unnamed(self)
        usual = DomainRecipe()
        for group in GROUPS:
            for name in SHARED:
                if getattr(getattr(self, group), name) != getattr(usual, name):
                    raise ValueError(f"{group}.{name}: all adapt with the same. State adapt.{name} instead")
        noisy = [name for name in self.names if self._differs_by_dropout(name)]
        if noisy and not self.adapt.dropout and self.adapt.dropout == self.adapt.attention_dropout == 0:
            raise ValueError(
                f"adapt.dropout = 0 and adapt.attention_dropout = 0: {noisy[0]} compares passes over a text that "
                f"differ by dropout alone. Set adapt.dropout=0.1, or leave {noisy[0]} out of contestants"
            )

    @property
    def names(self) -> tuple[Contestant, ...]:
        """Who runs against the untouched model, in the order of the tables."""
        chosen = {*self.contestants, *(TABLE_3 if self.ablations else ())}
        return tuple(name for name in (*TABLE_2, *TABLE_3) if name in chosen)

    def stated(self, name: str) -> mlm.Recipe:
        """How a contestant of ADAPTED adapts."""
        method, own = ADAPTED[name]
        shared = {name: getattr(self.adapt, name) for name in SHARED}
        if method == "mlm":
            return mlm.Recipe(**shared)
        group = getattr(self, method)
        recipe: mlm.Recipe = replace(group, **shared, **own, **unread(name, group))
        return recipe

    def _differs_by_dropout(self, name: str) -> bool:
        return name == "SimCSE" or (name != ENSEMBLE and ADAPTED[name][0] == "dga")
