"""What a race is planned with of methods/mlm.py: its settings, and its value of `Method`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from acclimate.core.settings import Dropout, Range, check_ranges
from acclimate.core.steps import steps_of_epochs
from acclimate.methods.method import Contestant, Method, deferred
from acclimate.training.plan import Plan

NO_HEAD = "no language modelling head: a random one was added"  # of a checkpoint, in notes
Length = Annotated[int, Range(least=3)]  # of a sequence in tokens: two special ones, and one to predict
Share = Annotated[float, Range(above=0, most=1)]
Epochs = Annotated[float, Range(least=0, most=100_000)]  # more is a slip: 1e30 would begin to train


@dataclass(frozen=True)
class MlmRecipe:
    """Masked language modelling from a checkpoint. Either `epochs` or `plan.steps` sets the length of the run."""

    model: str = ""  # checkpoint to start from: a local directory or a hub id
    corpus: Path = Path()  # texts to train on: raw text on the command line, or a prepared corpus; needed
    max_tokens: Length = 128  # longest sequence in tokens, special ones included; longer documents become several
    masking: Share = 0.15  # share of the tokens that are predicted, above 0 and at most 1
    whole_words: bool = False
    """True: a word is masked with all its tokens or not at all, unless its row has too few words that fit `masking`;
    false: tokens are masked one by one."""
    dropout: Dropout | None = None  # dropout of hidden states, 0 to 1; None: as in the model's configuration
    attention_dropout: Dropout | None = None
    """Dropout of attention; None: as in the model; 0 is 1.3 to 1.6 times as fast."""
    epochs: Epochs = 100.0  # passes over the corpus; 0: plan.steps sets the length
    plan: Plan = field(default_factory=lambda: Plan(batch=256, rate=5e-5, warmup=0.06))
    """Steps, batch, rate and precision of the training."""

    def __post_init__(self) -> None:
        check_ranges(self)
        check_length(self.epochs, self.plan)


def with_steps(plan: Plan, epochs: float, rows: float) -> Plan:
    """Return the plan with the steps that `epochs` passes over `rows` rows take; unchanged where epochs is 0."""
    return plan if epochs == 0 else replace(plan, steps=steps_of_epochs(epochs, rows, plan.batch))


def check_length(epochs: float, plan: Plan) -> None:
    """Raises ValueError where both epochs and steps are stated."""
    if epochs and plan.steps != Plan().steps:
        raise ValueError(
            f"epochs = {epochs:g} and plan.steps = {plan.steps} both set the length of the run. Set epochs=0 to use "
            "plan.steps, or remove plan.steps"
        )


# For an encoder on a few million characters of text: what two cores do within ten minutes.
_SMALL = MlmRecipe(whole_words=True, epochs=0.0, plan=Plan(steps=300, batch=16, rate=1e-3, warmup=0.06))
# In a race TAPT is compared with TAPTER, whose gradients clipping would all but take away (methods/tapter.py), so
# neither is clipped.
_TAPT = MlmRecipe(plan=replace(MlmRecipe().plan, clip=0.0))
_SMALL_TAPT = replace(_SMALL, plan=replace(_SMALL.plan, clip=0.0))
# For a model of BERT's size, as DGA (Ke et al., 2022) states it: 2,500 steps of 256 sequences, rate 1e-4, no decay.
_USUAL_ON_DOMAIN = MlmRecipe(max_tokens=164, epochs=0.0, plan=Plan(2_500, 256, 1e-4, warmup=0.1, weight_decay=0.0))
METHOD = Method(
    name="mlm",
    recipe=MlmRecipe,
    adapt=deferred("acclimate.methods.mlm", "adapt"),
    contestants=(
        Contestant("TAPT", "task", group="tapt", small=_SMALL_TAPT, usual=_TAPT, default=True, after=("DAPT",)),
        Contestant("DAPT", "domain", group="dapt", small=_SMALL, usual=_USUAL_ON_DOMAIN, default=True),
    ),
    curves={"mlm": ("Language modelling", "masked tokens, nats")},
)
