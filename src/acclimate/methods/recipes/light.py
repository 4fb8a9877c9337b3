"""What a race is planned with of methods/light.py: its settings, and its value of `Method`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from acclimate.core.prompt import FIELD
from acclimate.core.settings import Range
from acclimate.methods.method import Contestant, Method, check_dropout, deferred
from acclimate.methods.recipes.domain import SMALL, DomainRecipe
from acclimate.models.families import ADAPTED, BOTTLENECK

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


@dataclass(frozen=True)
class LightRecipe(DomainRecipe):
    """Adapters or a prompt, with section 4.2's settings as defaults."""

    kind: Literal["adapter", "prompt"] = "adapter"
    """What is trained while the model itself stays frozen: adapters in its layers, or a prompt behind its rows."""
    bottleneck: Annotated[int, Range(above=0)] = 64
    """Width between the two layers of an adapter, above 0; the paper: 64."""
    prompt_tokens: Annotated[int, Range(above=0)] = 100  # tokens of a prompt, above 0; the paper: 100
    prompt_rate: Annotated[float, Range(above=0)] = 0.3
    """Learning rate of a prompt, instead of the plan's, above 0; Lester et al.: .3."""


def passes(recipe: LightRecipe) -> float:
    """Passes through the encoder a step."""
    return 2 / 3  # frozen weights get no gradient


def check(recipe: LightRecipe, config: PreTrainedConfig, group: str) -> None:
    """Raises ValueError for a family whose places for adapters are not known, and for a model that has adapters or a
    prompt of another size.
    """
    check_dropout(recipe, config, group)
    if recipe.kind == "adapter" and config.model_type not in ADAPTED:
        raise ValueError(
            f"acclimate does not know where adapters belong in a '{config.model_type}'. Use a model of one of these "
            f"families: {', '.join(ADAPTED)}"
        )
    setting, part, field = {
        "adapter": ("bottleneck", "adapters", BOTTLENECK),
        "prompt": ("prompt_tokens", "a prompt", FIELD),
    }[recipe.kind]
    size, recipe_size = int(getattr(config, field, 0)), getattr(recipe, setting)
    if size not in (0, recipe_size):
        raise ValueError(
            f"{group}{setting} = {recipe_size}, but the model already has {part} of {size}. Set {group}{setting}={size}"
        )


def prompt(recipe: LightRecipe) -> int:
    """Return the number of prompt tokens behind each row."""
    return recipe.prompt_tokens if recipe.kind == "prompt" else 0


METHOD = Method(
    name="light",
    recipe=LightRecipe,
    adapt=deferred("acclimate.methods.light", "adapt"),
    contestants=(
        Contestant(
            "adapter",
            "domain",
            {"kind": "adapter"},
            unread=("prompt_tokens", "prompt_rate"),
            small=LightRecipe(**SMALL),
        ),
        Contestant("prompt", "domain", {"kind": "prompt"}, unread=("bottleneck",), small=LightRecipe(**SMALL)),
    ),
    passes=passes,
    check=check,
    behind=prompt,
    prompt=prompt,
)
