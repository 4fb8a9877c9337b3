"""What a verb returns: a study in its directory, with its answer, its table and the model to use."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pandas

    from acclimate.races.answer import RaceAnswer
    from acclimate.races.outcome import Outcome
    from acclimate.races.report import RaceReport
    from acclimate.shipping.hub import Upload
    from acclimate.shipping.predict import Prediction
    from acclimate.shipping.ship import Shipped
    from acclimate.shipping.writers import Predicted

EVIDENCE = 6  # lines at most between the headline of a printed race and the model to use


@dataclass(frozen=True, repr=False)
class Study:
    """A race, an evaluation or another study, with what it came to.

    path      its directory; `path / "report.html"` is the page of a race
    text      the tables, as the command line prints them; of a dry run, what is still to do and its cost
    report    what the page of a race shows; None for other studies and for a dry run
    followed  tables of what followed a race, such as learning curves; "" if nothing did

    >>> study = acclimate.report("runs/race")
    >>> study.answer.kind, study.answer.headline
    ('helped', 'Adapting helped: TAPT is better than the untouched model.')
    >>> study.predict(["a new text"])[0].label
    'heart'
    """

    path: Path
    text: str
    report: RaceReport | None = field(default=None, compare=False)
    followed: str = ""

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        """Return the answer of a race with its model to use and the place of its report, in at most 12 lines; else the
        tables.
        """
        if self.report is None:
            return self.text
        from acclimate.races.report import answer_lines
        from acclimate.reports.page import escaped

        answer = self.report.answer
        evidence = [*answer.evidence[: EVIDENCE - 1], " ".join(answer.evidence[EVIDENCE - 1 :])]
        lines = [answer.headline, *filter(None, evidence), *answer_lines(self.report)[len(answer.evidence) :]]
        lines += [f"Warnings: {len(self.warnings)}, in study.warnings."] if self.warnings else []
        return "\n".join(map(escaped, [*lines, f"Report: {self.path / 'report.html'}"]))

    def __repr__(self) -> str:
        return f"Study in {self.path}\n" + (str(self) if self.report else "\n".join(self.text.splitlines()[:3]))

    def _repr_html_(self) -> str:
        """Return the answer, the plot and the table for a notebook, and the other tables folded away."""
        if self.report is None:
            return f"<pre>{html.escape(self.text)}</pre>"
        from acclimate.races.report import notebook_view

        return notebook_view(self.report, place=self.path / "report.html")

    @property
    def answer(self) -> RaceAnswer:
        """Whether adapting helped, by how much, what limits the answer, and what to do next. Raises ValueError for
        studies other than a race.
        """
        return self._raced().answer

    @property
    def verdict(self) -> str:
        """The answer with its evidence in one text; "" for studies other than a race."""
        return self.report.verdict if self.report else ""

    @property
    def warnings(self) -> list[str]:
        """What casts doubt on the answer, as the page shows it beside; none for studies other than a race."""
        return [*self.report.alerts] if self.report else []

    @property
    def use(self) -> str:
        """The contestant to use, whose model is in `path / "use"`; "" if none is better than a constant answer."""
        return self.report.facts.use if self.report else ""

    @property
    def encoder(self) -> str:
        """The best encoder on dev, used or not; "" if no encoder learnt the task."""
        return self.report.facts.encoder if self.report else ""

    @property
    def rounds(self) -> int | None:
        """Number of complete rounds of a race in rounds; None of other studies."""
        return self.report.outcome.rounds if self.report else None

    @property
    def outcome(self) -> Outcome:
        """The record of a race: scores, costs, failures. Raises ValueError for other studies and a dry run."""
        return self._raced().outcome

    @property
    def table(self) -> pandas.DataFrame:
        """The table of a race as a pandas DataFrame, a row a contestant: model, score with its 95% interval, difference
        to the untouched model, cost of training and a note, as the page has them. Raises ImportError without pandas.
        """
        from acclimate.races.report import SUMMARY, summary

        rows = [list(map(str, row)) for row in summary(self._raced()).rows]
        return self._pandas().DataFrame(rows, columns=list(SUMMARY))

    @property
    def table_full(self) -> pandas.DataFrame:
        """All figures of a race as a pandas DataFrame: the columns of `path / "table.csv"` in which this race has
        something. Raises ImportError without pandas.
        """
        from acclimate.races.report import SHEET

        self._raced()
        return self._pandas().read_csv(self.path / SHEET).dropna(axis="columns", how="all")

    def _pandas(self) -> Any:
        try:
            import pandas
        except ImportError as error:
            where = self.path / "table.csv"
            raise ImportError(f"a table needs pandas: pip install pandas. Or read {where}") from error
        return pandas

    def predict(self, rows: Iterable[Any] | str | Path, **options: Any) -> list[Prediction] | Predicted:
        """Return the predictions of the model to use for texts, rows or a file; options as of `acclimate.predict`.

        contestant="DAPT" takes that contestant's model: the best encoder or the baseline.
        """
        from acclimate.api.use import predict

        return predict(self.path, rows, **options)

    def embed(self, rows: Iterable[Any] | str | Path, **options: Any) -> np.ndarray | tuple[int, int]:
        """Return the vectors of texts, rows or a file by the model to use; options as of `acclimate.embed`."""
        from acclimate.api.use import embed

        return embed(self.path, rows, **options)

    def ship(self, to: str | Path, **options: Any) -> Shipped:
        """Write the model to use, checked and with a model card, to a directory; options as of `acclimate.ship`."""
        from acclimate.api.use import ship

        return ship(self.path, to, **options)

    def push_to_hub(self, repository: str, *, to: str | Path | None = None, private: bool = True) -> Upload:
        """Ship the model to use to the directory `to`, by default `path / "shipped"`, and upload it as `owner/name`."""
        from acclimate.api.use import ship
        from acclimate.shipping.hub import push

        shipped = ship(self.path, self.path / "shipped" if to is None else to)
        return push(shipped.path, repository, private=private)

    def _raced(self) -> RaceReport:
        if self.report is None:
            raise ValueError(
                f"{self.path}: not a finished race, so it has no table of contestants. Print the study instead"
            )
        return self.report


def study_in(path: Path, text: str) -> Study:
    """Return the study in a directory, of a race with what its page shows."""
    from acclimate.races.outcome import path_of
    from acclimate.races.report import RACE, read_report

    return Study(path, text, read_report(path) if path_of(path, RACE).exists() else None)
