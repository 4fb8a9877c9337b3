"""The study of intermediate tasks as a value (study/intermediate.py runs it)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from acclimate.methods import finetune
from acclimate.methods.stilt import Intermediate, check_chained
from acclimate.tasks.labelled import Own, called

PAPER = (
    *("BC5-chem", "BC5-disease", "NCBI-disease", "BC2GM", "JNLPBA", "EBM PICO"),
    *("ChemProt", "DDI", "GAD", "PubMedQA", "BioASQ"),
)
FEWEST_TOKENS = 8
BASELINE = "baseline"  # B alone
MORE = "more steps"  # B alone, for as many steps as B twice takes


@dataclass(frozen=True)
class Recipe:
    """All ordered pairs of datasets, as Tables 2 and 3 of Jeong and Hwang, with the controls that these lack.

    `finetune` is what every fine-tuning has, `intermediate` what that on the first task of a pair has instead. Settings
    of `finetune` that mean nothing on a dataset are at their defaults there.
    """

    # names of datasets, or labelled files, also with their columns and kind; (): the paper's 11 whose files are there
    datasets: tuple[str | Own, ...] = ()
    seeds: int = 3
    rows: int = 0  # so many of each train set, every class among them; 0: all
    rows_seed: int = 0  # of their draw
    max_tokens: int = 0  # of an example, where the dataset's own limit is no lower; 0: the dataset's, 256 of a file
    split: Literal["dev", "test"] = "test"  # what is scored; with "test" each run of each cell is one look at it
    leaks: Literal["drop", "keep"] = "drop"  # training rows of a first task that hold a dev or test text of the second
    same_task: bool = True  # the control A = B: the same task twice
    more_steps: Literal["each", "twice", "none"] = "each"  # the control of each pair, of A = B only, or none
    intermediate: Intermediate = field(default_factory=Intermediate)
    finetune: finetune.Recipe = field(default_factory=finetune.Recipe)

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(f"seeds = {self.seeds}: one seed says nothing about chance. Give at least 2, better 3")
        if self.rows < 0:
            raise ValueError(f"rows = {self.rows} is out of range: at least 0")
        if self.max_tokens and self.max_tokens < FEWEST_TOKENS:
            raise ValueError(f"max_tokens = {self.max_tokens}: too short for a text. Give at least {FEWEST_TOKENS}")
        if len(self.datasets) == 1:
            raise ValueError(f"datasets = {[*map(called, self.datasets)]}: a pair takes two. Name another one")
        check_chained(self.finetune)
