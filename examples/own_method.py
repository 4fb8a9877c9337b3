"""Your method in a race: masked language modelling that gives more weight to words which the model finds hard.

python examples/own_method.py TRAIN_FILE MODEL DIRECTORY [KEY=VALUE ... of the race]
acclimate race TRAIN_FILE --model MODEL 'contestants=["TAPT", "examples/own_method.py::FOCAL"]' focal.gamma=1

The loss is that of Lin et al. (2017), "Focal Loss for Dense Object Detection", Eq. 4, at the masked positions. A term
is a sum, and `counts` says by what the loop divides it, so the loss does not depend on how a step is cut into pieces.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

import acclimate
from acclimate.core import settings
from acclimate.core.types import Checkpoint, Watch, unwatched
from acclimate.methods import Contestant, Method
from acclimate.methods.mlm import MlmRecipe, adapt_with
from acclimate.models.heads import masked_logits
from acclimate.races.race import recipe_for
from acclimate.training.objective import MaskedLanguageLoss, Piece
from acclimate.training.plan import Plan


@dataclass(frozen=True)
class FocalRecipe(MlmRecipe):
    gamma: float = 2.0  # the larger, the less a word counts that the model predicts well; 0: all words count the same

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gamma < 0:
            raise ValueError(f"gamma = {self.gamma} is out of range: at least 0")


class FocalLoss(MaskedLanguageLoss):
    """The mean over masked positions of -(1 - p)^gamma log p, where p is the probability of the right word."""

    def __init__(self, model: nn.Module, gamma: float) -> None:
        super().__init__(model)
        self.gamma = gamma

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        logits_MV = masked_logits(self.model, piece, piece["positions"])
        minus_log_p_M = nn.functional.cross_entropy(logits_MV.float(), piece["labels"], reduction="none")
        p_M = minus_log_p_M.neg().exp()
        return {"mlm": ((1 - p_M) ** self.gamma * minus_log_p_M).sum()}  # Eq. 4, without its alpha


def adapt(recipe: FocalRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Train and write `out/checkpoint`; a run that was stopped goes on, one that ended is returned as it is."""
    return adapt_with(recipe, out, lambda start: FocalLoss(start.model, recipe.gamma), watch=watch)


# `passes` is not stated: a step takes one pass of the encoder, as in masked language modelling.
FOCAL = Method(
    name="focal",
    recipe=FocalRecipe,
    adapt=adapt,
    contestants=(
        Contestant(
            "focal TAPT",
            needs="task",
            small=FocalRecipe(whole_words=True, epochs=0.0, plan=Plan(steps=300, batch=16, rate=1e-3, warmup=0.06)),
        ),
    ),
)


def main() -> None:
    train, model, out, *stated = sys.argv[1:]
    recipe = settings.override(recipe_for(model, {"focal": FOCAL}), stated)
    given = {"contestants": ["TAPT", FOCAL], "model": model, "recipe": recipe, "out": out, "budget": "none"}
    print(acclimate.race(train, dry_run=True, **given))  # what the race will cost, before it starts
    print(acclimate.race(train, **given).verdict)  # the same call again goes on where it stopped
    print(f"Table and curves: {out}/report.html")


if __name__ == "__main__":
    main()
