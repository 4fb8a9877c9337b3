"""What TAPTER's study came to, as text, CSV and a page: scores as in its Table 2, differences, costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from acclimate.core.types import Cost, Split
from acclimate.study.judged_page import (
    cost_columns,
    costs_section,
    judged_csv,
    pairs_section,
    scores_section,
    seeds_section,
)
from acclimate.study.judging import Cell, Judged
from acclimate.study.typeset import Section, page

SOURCE = "The study: Nishida, Nishida and Yoshida (2021), Tables 2 and 3."


@dataclass(frozen=True)
class TwoStages:
    """trained, trained_first: training rows; first: the first stage's task, "" where there is none; first_costs: of a
    seed, by contestant; metric: the task's own; judged: by every metric that is reported of it.
    """

    task: str
    model: str
    metric: str
    split: Split
    trained: int
    first: str
    trained_first: int
    first_costs: Mapping[str, Cost]
    judged: tuple[Judged, ...]
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """As tapter.txt has it, at most 110 columns wide."""
        return page(self.heading, self.sections())

    @property
    def heading(self) -> str:
        stages = f"{self.first}, then {self.task}" if self.first else self.task
        return f"{stages}: {self.model}"

    def sections(self) -> list[Section]:
        """The parts of text and page."""
        first = f" after {self.trained_first:,} of {self.first}" if self.first else ""
        trained = f"{self.trained:,} rows{first}"

        def costs(cell: Cell) -> dict[str, Cost]:
            return {
                "adapting": cell.adapting,
                "first stage": self.first_costs[cell.contestant],
                "tuning": cell.finetuning,
            }

        said = "Adapting once; first stage and tuning a seed, the mean over seeds."
        return [
            scores_section(self.judged, self.split, trained=trained, lines=self.notes),
            pairs_section(self.judged, self.metric, t_test="the paper's test, paired t over seeds"),
            seeds_section(self.judged),
            costs_section(self.judged[0].cells, costs, said),
        ]

    def csv(self) -> str:
        """A line for each metric and contestant; the differences are from every contestant before it, in columns of its
        name.
        """
        about = {"task": self.task, "first_task": self.first, "model": self.model, "split": self.split}

        def costs(cell: Cell) -> dict[str, object]:
            first = self.first_costs[cell.contestant]
            return cost_columns({"adapting": cell.adapting, "first": first, "finetuning": cell.finetuning})

        earlier = [cell.contestant for cell in self.judged[0].cells[:-1]]
        return judged_csv(self.judged, about, earlier, costs)
