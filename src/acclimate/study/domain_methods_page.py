"""What DGA's study came to, as text, CSV and a page: scores as in Tables 2 to 5, differences, costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from acclimate.core.types import Cost
from acclimate.study import forgetting
from acclimate.study.contestants import UNTOUCHED
from acclimate.study.domain_methods_recipe import MLM
from acclimate.study.forgetting import GeneralLoss
from acclimate.study.judged_page import (
    cost_columns,
    costs_section,
    judged_csv,
    pairs_section,
    scores_section,
    seeds_section,
)
from acclimate.study.judging import Cell, Judged
from acclimate.study.typeset import Section, amount, page

DOMAIN = "domain loss"
SOURCE = "The study: Ke, Shao, Lin, Xu, Shu and Liu (2022), Tables 2 to 5."


@dataclass(frozen=True)
class DomainMethods:
    """trained: training rows; documents: that were adapted on; metric: the task's own; judged: by every metric that is
    reported of it; general, domain: contestant -> its loss on held-out text, empty where none was measured.
    """

    task: str
    model: str
    metric: str
    trained: int
    documents: int
    judged: tuple[Judged, ...]
    general: Mapping[str, GeneralLoss]
    domain: Mapping[str, GeneralLoss]
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """As dga.txt has it, at most 110 columns wide."""
        return page(self.heading, self.sections())

    @property
    def heading(self) -> str:
        return f"{self.task}: {self.model}"

    def sections(self) -> list[Section]:
        """The parts of text and page."""
        trained = f"{amount(self.trained, 'row')}, adapted on {amount(self.documents, 'document')}"
        losses = {forgetting.HEADING: self.general, DOMAIN: self.domain}
        beside = {what: {name: str(loss) for name, loss in own.items()} for what, own in losses.items() if own}
        meant = [f"General loss: {forgetting.MEANING}"] if self.general else []
        meant += ["Domain loss: the same on text of the domain that nobody adapted on."] if self.domain else []

        def costs(cell: Cell) -> dict[str, Cost]:
            return {"adapting": cell.adapting, "tuning": cell.finetuning}

        return [
            scores_section(self.judged, "test", trained=trained, beside=beside, lines=(*meant, *self.notes)),
            pairs_section(self.judged, self.metric, t_test="paired t over seeds"),
            seeds_section(self.judged),
            costs_section(self.judged[0].cells, costs, "Adapting once; tuning a seed, the mean over seeds."),
        ]

    def csv(self) -> str:
        """A line for each metric and contestant; the differences are from the untouched model and from MLM."""
        names = [cell.contestant for cell in self.judged[0].cells]

        def more(cell: Cell) -> dict[str, object]:
            told: dict[str, object] = {}
            for what, own in (("general_loss", self.general), ("domain_loss", self.domain)):
                loss = own.get(cell.contestant, GeneralLoss())
                told |= {what: loss.loss, f"{what}_difference": loss.difference}
            return told | cost_columns({"adapting": cell.adapting, "finetuning": cell.finetuning})

        about = {"task": self.task, "model": self.model}
        return judged_csv(self.judged, about, [name for name in (UNTOUCHED, MLM) if name in names], more)
