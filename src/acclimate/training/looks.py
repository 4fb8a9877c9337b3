"""Looks at losses on held-out text while a model adapts: what it learns of the domain and what it forgets.

A method that learns more of the domain often forgets more general text. Looks at both losses every so many steps make
a path from the untouched model to the adapted one, so that methods can be compared at equal domain loss
(reports/forgetting.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from acclimate.core import files, ranks
from acclimate.core.types import HELDOUT_LOOKS, HELDOUT_SEGMENTS, SUB_WORDS, Batch, Watch
from acclimate.models.loading import head_drawn
from acclimate.text.corpus import Corpus
from acclimate.text.streams import evaluation_batches

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from acclimate.training.loop import Step


@dataclass(frozen=True)
class HeldOutLooks:
    """What is looked at while a model adapts.

    every       steps between two looks; there is one before the first step and one after the last, too
    texts       "domain" and "general" -> the directory of a corpus that no model adapts on
    max_tokens  longest sequence in tokens, the same for all models that are compared
    sub_words   True: each text twice, with whole words masked and with sub-words masked one by one
    """

    every: int
    texts: Mapping[str, Path]
    max_tokens: int
    sub_words: bool = False


class LossPath:
    """Measures L_MLM on held-out texts at each look, as `methods.mlm.heldout_loss` does: masks are of 15% of the tokens
    and the same for all models of one vocabulary. Nothing that is trained depends on it.
    """

    def __init__(
        self,
        looks: HeldOutLooks,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        out: Path,
        watch: Watch,
    ) -> None:
        from acclimate.training.objective import MaskedLanguageLoss

        self.objective, self.out = MaskedLanguageLoss(model), out
        self.head = not head_drawn(model)
        self.every = looks.every
        self.batches: dict[str, list[Batch]] = {}
        for name, place in looks.texts.items():
            tokens = ranks.first_then_all(partial(Corpus(place).tokens, tokenizer, watch=watch))
            for masks, whole_words in (("", True), (SUB_WORDS, False))[: 2 if looks.sub_words else 1]:
                self.batches[f"{name}{masks}"] = evaluation_batches(
                    tokens,
                    batch=64,
                    longest=looks.max_tokens,
                    seed=0,
                    whole_words=whole_words,
                    segments_at_most=HELDOUT_SEGMENTS,
                )
        self.losses: dict[int, dict[str, float]] = {}
        if (out / HELDOUT_LOOKS).exists():
            self.losses = dict(files.read_record(out / HELDOUT_LOOKS)["looks"])

    def look_steps(self, steps: int) -> set[int]:
        """Return the steps after which a run of so many steps looks."""
        return {*range(self.every, steps, self.every), steps}

    def begin(self) -> None:
        """Look before the first step; in a run that goes on, do nothing."""
        if 0 not in ranks.agree(self.losses):
            self._look(0)

    def __call__(self, step: Step) -> dict[str, float]:
        """Look, and return what `training.run.run` passes to the watch. Pass it to that as `after`."""
        return self._look(step.number)

    def _look(self, step: int) -> dict[str, float]:
        from acclimate.training.objective import measure

        losses = {name: measure(self.objective, batches)["mlm"] for name, batches in self.batches.items()}
        self.losses[step] = losses
        if ranks.is_first():
            files.write_record(self.out / HELDOUT_LOOKS, {"head": self.head, "looks": sorted(self.losses.items())})
        return {f"{name} loss": loss for name, loss in losses.items()}
