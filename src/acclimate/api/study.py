"""What a verb returns: a study in its directory, with its verdict, its table and the model to use."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

    from acclimate.races.outcome import Outcome
    from acclimate.races.report import RaceReport
    from acclimate.shipping.hub import Upload
    from acclimate.shipping.predict import Prediction
    from acclimate.shipping.ship import Shipped
    from acclimate.shipping.writers import Predicted


@dataclass(frozen=True, repr=False)
class Study:
    """A race, an evaluation or another study, with what it came to.

    path      its directory; `path / "report.html"` is the page of a race
    text      the tables, as the command line prints them; of a dry run, what is still to do and its cost
    report    what the page of a race shows; None for other studies and for a dry run
    followed  tables of what followed a race, such as learning curves; "" if nothing did

    >>> study = acclimate.report("runs/race")
    >>> study.verdict
    'TAPT is better than the untouched model by ...'
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
        return "\n".join([self.text, *self._places()])

    def __repr__(self) -> str:
        lines = [f"Study in {self.path}"]
        if self.report is None:
            return "\n".join([*lines, *self.text.splitlines()[:3]])
        return "\n".join([*lines, self.verdict, *(f"warning: {warning}" for warning in self.warnings), *self._places()])

    def _places(self) -> list[str]:
        """Return in words which model of a race to use, and where its report is."""
        if self.report is None:
            return []
        from acclimate.races.report import use_text

        where = f" ({self.path / 'use'})" if self.use else ""
        return [f"use: {use_text(self.report.outcome)}{where}", f"report: {self.path / 'report.html'}"]

    def _repr_html_(self) -> str:
        """Return verdict and table for a notebook."""
        if self.report is None:
            return f"<pre>{html.escape(self.text)}</pre>"
        from acclimate.races.report import TEXT

        table = html.escape((self.path / TEXT).read_text(encoding="utf-8"))
        page = html.escape(str(self.path / "report.html"))
        return f"<p><b>{html.escape(self.verdict)}</b></p><pre>{table}</pre><p>Report: <code>{page}</code></p>"

    @property
    def verdict(self) -> str:
        """The sentence that says whether anything helped; "" for studies other than a race."""
        return self.report.verdict if self.report else ""

    @property
    def warnings(self) -> list[str]:
        """What casts doubt on the verdict, as the page shows it beside; none for studies other than a race."""
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
    def winner(self) -> str:
        """Refused: the name of `use` in version 0.2."""
        raise AttributeError("winner is now called use: the contestant to use, which may be the baseline. See encoder")

    @property
    def outcome(self) -> Outcome:
        """The record of a race: scores, costs, failures. Raises ValueError for other studies and a dry run."""
        return self._raced().outcome

    @property
    def table(self) -> pandas.DataFrame:
        """The table of a race as a pandas DataFrame, a row a contestant: the columns of `path / "table.csv"` in which
        this race has something.

        Raises ImportError without pandas, which acclimate does not need for anything else.
        """
        from acclimate.races.report import SHEET

        self._raced()
        try:
            import pandas
        except ImportError as error:
            raise ImportError(f"the table needs pandas: pip install pandas. Or read {self.path / SHEET}") from error
        return pandas.read_csv(self.path / SHEET).dropna(axis="columns", how="all")

    def predict(self, rows: Iterable[Any] | str | Path, **options: Any) -> list[Prediction] | Predicted:
        """Return the predictions of the model to use for texts, rows or a file; options as of `acclimate.predict`.

        contestant="DAPT" takes that contestant's model: the best encoder or the baseline.
        """
        from acclimate.api.use import predict

        return predict(self.path, rows, **options)

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
            raise ValueError(f"{self.path}: this is no finished race, so it has no table of contestants. Print it")
        return self.report


def study_in(path: Path, text: str) -> Study:
    """Return the study in a directory, of a race with what its page shows."""
    from acclimate.races.outcome import path_of, read_outcome
    from acclimate.races.report import RACE, report_of

    recorded = path_of(path, RACE)
    return Study(path, text, report_of(read_outcome(recorded)) if recorded.exists() else None)
