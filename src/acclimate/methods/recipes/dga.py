"""What a race is planned with of methods/dga.py: its settings, and its value of `Method`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from acclimate.core.settings import Range
from acclimate.methods.method import Contestant, Method, deferred
from acclimate.methods.method import check_dropout as check_stated
from acclimate.methods.recipes.domain import NOISY, SMALL_NOISY, DomainRecipe, check_noise
from acclimate.models.dropout import DROPOUT_FIELDS
from acclimate.models.families import PLACES, GatedPart

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

How = Literal["paper", "min-max", "rank"]
Over = Literal["layer", "model"]

MaskReading = Literal["gradient", "head_output", "update", "none"]
Anchor = Literal["own", "mlm"]
Knowledge = Literal["full", "domain"]


@dataclass(frozen=True)
class DgaRecipe(DomainRecipe):
    """DGA, with section 4.2's settings as defaults."""

    parts: tuple[GatedPart, ...] = ("heads",)
    """Parts of the model that are protected from change: heads, intermediate, output, embeddings (Table 3)."""
    reading: MaskReading = "gradient"
    """What Eq. 9 multiplies by 1 - importance: the "gradient" of a head, its "head_output" or its "update"; with
    "none" only the contrast is used, without a mask."""
    importance: Literal["proxy", "random"] = "proxy"
    """How the importance of heads is computed: by Eq. 6 to 8 (proxy), or drawn at random (Table 3)."""
    normalisation: How = "paper"
    """How importance is brought between 0 and 1: by Eq. 10 (paper); "min-max" and "rank" leave the least important
    heads without protection."""
    over: Over = "layer"
    """The heads among which importance is normalised: those of a layer, or of the whole model. With two heads a layer
    Eq. 10 gives both the same number."""
    subset: Annotated[int, Range(least=1)] = 10_000
    """Number of sequences on which importance is computed, where `subset_tokens` is 0."""
    subset_tokens: Annotated[int, Range(least=0)] = 0
    """Number of tokens on which importance is computed, in place of `subset`; the paper: 1,640,000, which are 10,000
    joined sequences of 164. Documents are kept apart here, so 10,000 sequences have fewer. 0: `subset` sequences."""
    contrast: Annotated[float, Range(least=0)] = 1.0
    """Weight of the contrastive loss, lambda_1 of Eq. 16, at least 0; 0: no contrast; the paper: 1."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Temperature of the contrastive loss, tau of Eq. 15, above 0: cosines are divided by it; the paper: .05."""
    anchor: Anchor = "own"
    """Source of the representation o of Eq. 15: a separate pass over the text ("own", four passes per step), or the
    masked pass ("mlm", three passes)."""
    knowledge: Knowledge = "full"
    """What is contrasted: representations from all heads (Eq. 13), or with "domain" from heads multiplied by 1 -
    importance."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.parts or len(set(self.parts)) < len(self.parts):
            raise ValueError(f"parts = {list(self.parts)}: name at least one, and each only once")
        if self.plan.compile and self.reading == "head_output":
            raise ValueError(
                "plan.compile does not support hooks, which reading = 'head_output' needs. Set plan.compile=false"
            )
        if self.knowledge == "domain" and self.anchor == "mlm":
            raise ValueError(
                "knowledge = 'domain' gates the heads of anchor and positive, but anchor = 'mlm' takes the anchor "
                "from the language modelling pass, which gates no heads. Set anchor=own"
            )
        if self.contrast and "heads" not in self.parts:
            raise ValueError(f"parts = {list(self.parts)}: the contrast gates heads. Add heads, or set contrast=0")
        idle: dict[str, list[str]] = {
            "contrast = 0": [] if self.contrast else ["temperature", "anchor", "knowledge"],
            "importance = 'random'": ["subset", "subset_tokens"] if self.importance == "random" else [],
        }
        for why, names in idle.items():
            for name in names:
                if (value := getattr(self, name)) != type(self).__dataclass_fields__[name].default:
                    raise ValueError(f"{name} = {value!r} does nothing with {why}. Remove one of them")


def passes(recipe: DgaRecipe) -> float:
    """Passes through the encoder a step."""
    return (3.0 if recipe.anchor == "mlm" else 4.0) if recipe.contrast else 1.0


def check(recipe: DgaRecipe, config: PreTrainedConfig, group: str) -> None:
    """Raises ValueError where two passes of a model of this config would be one and the same."""
    check_stated(recipe, config, group)
    if recipe.contrast or recipe.importance == "proxy":
        check_noise(recipe, config, group)


def unsuited(kind: str, config: PreTrainedConfig | None) -> str:
    """Return why a model cannot race: its family's heads must be known, because they are gated. "" if it can."""
    if config is None or (config.model_type in PLACES and config.model_type in DROPOUT_FIELDS):
        return ""
    return f"supports only these families: {', '.join(sorted(PLACES))}"


METHOD = Method(
    name="dga",
    recipe=DgaRecipe,
    adapt=deferred("acclimate.methods.dga", "adapt"),
    contestants=(
        Contestant(
            "DGA",
            "domain",
            # over="model": for two heads a layer Eq. 10 gives both the same number
            small=DgaRecipe(**SMALL_NOISY, over="model", subset=200, anchor="mlm"),
            usual=DgaRecipe(**NOISY),
        ),
    ),
    passes=passes,
    check=check,
    unsuited=unsuited,
)
