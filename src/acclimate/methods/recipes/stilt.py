"""What a race is planned with of methods/stilt.py: its settings, and its value of `Method`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Literal

from acclimate.core.settings import AboveZero, BatchSize, Dropout, Positive, Range, check_ranges
from acclimate.methods.method import Method, deferred
from acclimate.methods.recipes import finetune
from acclimate.methods.recipes.mlm import Epochs
from acclimate.training.plan import Plan


@dataclass(frozen=True)
class Intermediate:
    """Settings of the intermediate tasks that differ from the target's; None: the target's."""

    choose: Literal["best", "last"] | None = None
    """Which weights are passed to the next task: those of the best evaluation on dev, or of the last step."""
    looks: Positive | None = None  # number of times that dev is scored
    dropout: Dropout | None = None  # dropout of hidden states and before the output layer, 0 to 1
    epochs: Epochs | None = None  # passes over the training rows
    steps: Positive | None = None  # number of steps, instead of epochs
    batch: BatchSize | None = None  # rows of one optimiser step
    rate: AboveZero | None = None  # peak learning rate
    warmup: Annotated[float | None, Range(least=0, most=1)] = None
    """Share of the steps over which the rate rises from 0."""

    def __post_init__(self) -> None:
        check_ranges(self, "intermediate.")
        if self.steps is not None and self.epochs is not None:
            raise ValueError(
                f"intermediate.steps = {self.steps} and intermediate.epochs = {self.epochs:g} both set the length "
                "of the run. Remove one of them"
            )

    def change(self, target: finetune.FinetuneRecipe) -> finetune.FinetuneRecipe:
        """Return the target's settings, changed by these."""
        changes = {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}
        plan_changes = {name: changes.pop(name) for name in ("steps", "batch", "rate", "warmup") if name in changes}
        if "steps" in plan_changes:
            changes["epochs"] = 0.0
        elif changes.get("epochs"):
            plan_changes["steps"] = Plan().steps
            changes |= target.besides["epochs"]
        if changes.get("choose") == "last":
            changes["averaged"] = 1
        return replace(target, **changes, plan=replace(target.plan, **plan_changes))


@dataclass(frozen=True)
class StiltRecipe:
    """A chain of fine-tunings, one after the other."""

    model: str = ""  # checkpoint to start from: a local directory or a hub id
    tasks: tuple[Path, ...] = ()
    """Two or more directories written by `acclimate data prepare`, in the order of training; the target comes
    last."""
    intermediate: Intermediate = field(default_factory=Intermediate)
    """Settings that differ on the tasks before the target; none: the same as in `finetune`."""
    finetune: finetune.FinetuneRecipe = finetune.PAPERS
    """Settings of all fine-tunings; model, task and head are set by the study."""

    def __post_init__(self) -> None:
        check_chained(self.finetune)


def check_chained(recipe: finetune.FinetuneRecipe) -> None:
    """Raises ValueError for settings of fine-tuning that the chain itself fills in."""
    if recipe.head == "kept":
        raise ValueError(
            "finetune.head = 'kept': the tasks of a chain share the encoder, but each has a new head. Remove it. "
            "To continue with a checkpoint's head, use acclimate adapt finetune head=kept"
        )
    if recipe.model or recipe.task != Path():
        name = "model" if recipe.model else "task"
        raise ValueError(f"finetune.{name} is set by the chain. Set model=MODEL and tasks=[...] instead")


METHOD = Method("stilt", StiltRecipe, deferred("acclimate.methods.stilt", "adapt"))
