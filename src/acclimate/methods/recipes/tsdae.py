"""What a race is planned with of methods/tsdae.py: its settings, and its value of `Method`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from acclimate.core.settings import Dropout, Range, check_ranges
from acclimate.methods.method import Contestant, Method, check_dropout, deferred
from acclimate.methods.recipes.domain import SMALL
from acclimate.methods.recipes.mlm import Epochs, Length, check_length
from acclimate.models.families import BOTTLENECK
from acclimate.training.plan import Plan

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

# Families whose classes in transformers can be decoders with cross-attention, and have a sparse head here
DECODERS = ("bert", "camembert", "electra", "roberta", "xlm-roberta")


@dataclass(frozen=True)
class TsdaeRecipe:
    """TSDAE. The defaults are the paper's, and of its released example: one epoch, constant rate, no decay."""

    model: str = ""  # checkpoint to start from: a local directory or a hub id
    corpus: Path = Path()  # texts to train on: raw text on the command line, or a prepared corpus; needed
    max_tokens: Length = 128  # longest sequence in tokens, special ones included; longer documents become several
    deletion: Annotated[float, Range(above=0, below=1)] = 0.6
    """Probability with which a token is deleted before a text is encoded, above 0 and below 1; the paper: .6."""
    dropout: Dropout | None = None  # dropout of hidden states, 0 to 1; None: as in the model's configuration
    attention_dropout: Dropout | None = None  # dropout of attention; None: as in the model
    epochs: Epochs = 1.0  # passes over the corpus; 0: plan.steps sets the length
    plan: Plan = field(
        default_factory=lambda: Plan(batch=8, rate=3e-5, warmup=0.0, weight_decay=0.0, schedule="constant")
    )
    """Steps, batch, rate, precision: steps of 8 sequences at a constant rate of 3e-5 in the paper"""

    def __post_init__(self) -> None:
        check_ranges(self)
        check_length(self.epochs, self.plan)
        if self.plan.shard:
            raise ValueError(
                "tsdae has a decoder that shares the encoder's weights, so they cannot be cut over processes. Set "
                "plan.shard=false"
            )


def passes(recipe: TsdaeRecipe) -> float:
    """Passes through the encoder a step: one of the tokens that are left, and the decoder's, which has a
    cross-attention in each layer and predicts each token.
    """
    return 1 - recipe.deletion + 4 / 3


def check(recipe: TsdaeRecipe, config: PreTrainedConfig, group: str) -> None:
    """Raises ValueError for a model of which transformers cannot make a decoder."""
    check_dropout(recipe, config, group)
    if config.model_type not in DECODERS or int(getattr(config, BOTTLENECK, 0)):
        adapters = " with adapters" if config.model_type in DECODERS else ""
        raise ValueError(
            f"TSDAE needs a decoder like the encoder, which a '{config.model_type}'{adapters} does not have. Use a "
            f"model without adapters of one of these families: {', '.join(DECODERS)}"
        )


METHOD = Method(
    name="tsdae",
    recipe=TsdaeRecipe,
    adapt=deferred("acclimate.methods.tsdae", "adapt"),
    contestants=(
        Contestant(
            "TSDAE", "domain", small=TsdaeRecipe(max_tokens=SMALL["max_tokens"], epochs=0.0, plan=SMALL["plan"])
        ),
    ),
    passes=passes,
    check=check,
)
