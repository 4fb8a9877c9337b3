"""TAPTER's study as a value (study/two_stages.py runs it)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from acclimate.methods import finetune, mlm, tapter
from acclimate.text.vectors import Skipgram
from acclimate.training.plan import Plan

# Nishida et al., Table 5, and the tool's rate, going on too; buckets for the n-grams of a task's text, where there are
# no public vectors to go on from
BIOASQ_VECTORS = Skipgram(min_count=2, epochs=10, rate=0.05, buckets=200_000, lower=True, threads=1)


def _fine_tuning(epochs: float) -> finetune.Recipe:
    """Nishida et al., Table 4, which chooses nothing on dev."""
    plan = Plan(batch=128, rate=5e-5, warmup=0.06, weight_decay=0.01)
    return finetune.Recipe(choose="last", looks=1, epochs=epochs, plan=plan)


@dataclass(frozen=True)
class Recipe:
    """Table 2 of Nishida et al. (2021): the model as it is, with TAPT, with TAPTER, each fine-tuned in two stages.

    The defaults are those of Tables 4 and 5 for BioASQ, but that vectors start from nothing, with fewer buckets, and so
    are of unit spread: with public ones state tapter.skipgram.buckets. SQuAD alone, with `first`
    empty, has finetune.epochs=5, tapter.skipgram.min_count=5 and tapter.skipgram.epochs=5 there.
    """

    seeds: int = 10
    contestants: tuple[Literal["TAPT", "TAPTER"], ...] = ("TAPT", "TAPTER")
    first: str = ""  # what is fine-tuned on first: a dataset of --data, or a labelled file; "": one stage
    rows: int = 0  # so many of train, drawn; 0: all
    first_rows: int = 0  # likewise of the first stage
    rows_seed: int = 0  # of both draws
    split: Literal["dev", "test"] = "test"  # what is scored; with "test" each run is one look at the test set
    tapt: mlm.Recipe = field(default_factory=lambda: mlm.Recipe(max_tokens=512))
    tapter: tapter.Recipe = field(default_factory=lambda: tapter.Recipe(max_tokens=512, skipgram=BIOASQ_VECTORS))
    first_stage: finetune.Recipe = field(default_factory=lambda: _fine_tuning(2.0))
    finetune: finetune.Recipe = field(default_factory=lambda: _fine_tuning(10.0))

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(f"seeds = {self.seeds}: one seed says nothing about chance. Give at least 2, better 10")
        if not self.contestants or len(set(self.contestants)) < len(self.contestants):
            raise ValueError(f"contestants = {list(self.contestants)}: at least one of them, and each once")
        for name in ("rows", "first_rows"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} = {getattr(self, name)} is out of range: at least 0")
        for name in ("first_stage", "finetune"):
            if getattr(self, name).head == "kept":
                raise ValueError(
                    f"{name}.head = 'kept': the study itself keeps the head of the first stage, and no other. Leave it "
                    f"out"
                )
