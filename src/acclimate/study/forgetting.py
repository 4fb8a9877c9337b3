"""What adapting forgot: the language modelling loss on held-out general text, of each contestant and before it.

The text is in nothing that is pretrained on, adapted on or retrieved here (study/gathering.py, tasks/docstrings.py),
and the masks are the same for all models of one vocabulary. A model that was given may have read it where it was
pretrained: then its own loss is lower than on new text, and part of the difference is text that it knew by heart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

HEADING = "general loss"
MEANING = (
    "masked language modelling on general text that nobody trained on here, nats a masked sub-word, the same masks for "
    "all; in brackets how much higher than before adapting: what was forgotten."
)

Losses = Mapping[str, tuple[float, float]]  # contestant -> before and after adapting


@dataclass(frozen=True, slots=True)
class GeneralLoss:
    """A contestant's loss on general text, and how much higher it is than before adapting; None: not measured."""

    loss: float | None = None
    difference: float | None = None

    def __str__(self) -> str:
        """`2.95 (+0.12)`; the untouched model's alone; `-` for what was not measured."""
        if self.loss is None:
            return "-"
        return f"{self.loss:.2f}" + ("" if self.difference is None else f" ({round(self.difference, 2) + 0.0:+.2f})")


def beside(contestants: Sequence[str], losses: Losses) -> dict[str, GeneralLoss]:
    """Contestant -> its loss, for the column beside the scores; empty where none was measured.

    The first contestant, where it has no loss of its own, is the model that the others adapted.
    """
    if not losses:
        return {}
    before, _ = next(iter(losses.values()))
    measured = {name: GeneralLoss(after, after - own) for name, (own, after) in losses.items()}
    return {contestants[0]: GeneralLoss(before), **dict.fromkeys(contestants[1:], GeneralLoss()), **measured}
