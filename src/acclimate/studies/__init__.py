"""The papers' studies, by name. Importing this module loads neither torch nor the studies.

    study = STUDIES["tapter"]
    design = study.design(study.recipe(seeds=5), Inputs(...))     # reads and prepares the data in inputs.out
    outcome = run(design, out)                                    # races/run.py: trains what is missing, then tests
    write(outcome, out)                                           # races/tables.py: text, CSV and page

`run_study` takes these steps in one call, for the command line; `write_again` makes the tables from the outcome alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from acclimate.data.gather import Inputs
    from acclimate.races.outcome import Outcome, StudyEnd
    from acclimate.races.planning.dry_run import DryRun
    from acclimate.reports.page import Drawing, Section

FAILED = 1  # exit status of a study in which a cell failed


@dataclass(frozen=True)
class Study:
    """A paper's study.

    about   what it varies, for the help
    paper   the tables that it repeats
    takes   what the user types after its name: "task", one labelled file or dataset, with --model, --corpus, --general
            and the options of labelled files; "models", one or more models, with --data and the setting `datasets`,
            which also takes labelled files; "texts", nothing, with --corpus, --general and --data
    needs   options that have to be given: model, corpus, general, data
    matrix  True if tables that only it has come first: its file has `matrix`, which makes them of the outcome
    drawn   True if it has figures: its file has `figures`, which makes them of the outcome
    submits True if its test predictions are written too, in the form of a leaderboard (studies/blurb_submission.py)
    """

    name: str
    about: str
    paper: str
    takes: Literal["task", "models", "texts"]
    needs: tuple[str, ...] = ()
    matrix: bool = False
    drawn: bool = False
    submits: bool = False

    @property
    def recipe(self) -> type[Any]:
        """The class of its settings. Loads the study."""
        recipe: type[Any] = import_module(f"acclimate.studies.{self.name}").RECIPE
        return recipe

    def design(self, recipe: Any, inputs: Inputs) -> Any:
        """Return the study as a `Design`, with prepared data. Raises ValueError for faulty settings, files, models."""
        return replace(import_module(f"acclimate.studies.{self.name}").design(recipe, inputs), study=self.name)

    def sections(self, outcome: Outcome) -> Sequence[Section]:
        """Return the tables that only this study has."""
        if not self.matrix:
            return ()
        sections: Sequence[Section] = import_module(f"acclimate.studies.{self.name}").matrix(outcome)
        return sections

    def figures(self, outcome: Outcome) -> Mapping[str, Sequence[Drawing]]:
        """Return the figures that only this study has, by the heading above them."""
        if not self.drawn:
            return {}
        figures: Mapping[str, Sequence[Drawing]] = import_module(f"acclimate.studies.{self.name}").figures(outcome)
        return figures


STUDIES: Mapping[str, Study] = {
    study.name: study
    for study in (
        Study(
            "tlm",
            "one choice of TLM varied: vary=scale, retrieval, k, ...",
            "Yao et al. (2022), Tables 2 to 8 and 10, Figure 1",
            "task",
            matrix=True,
            drawn=True,
        ),
        Study(
            "choices", "layers, tag schemes, relations: vary=layers, ...", "Gu et al. (2021), Tables 10 to 12", "models"
        ),
        Study(
            "tapter",
            "TAPT and TAPTER where fine-tuning has two stages",
            "Nishida et al. (2021), Table 2",
            "task",
            ("model",),
        ),
        Study(
            "dga",
            "each way of adapting on raw text of a domain",
            "Ke et al. (2022), Tables 2 to 5",
            "task",
            ("model", "corpus"),
        ),
        Study(
            "stilt", "all pairs of tasks, one after the other", "Jeong and Hwang, Tables 2 and 3", "models", matrix=True
        ),
        Study(
            "blurb", "all of the BLURB benchmark", "Gu et al. (2021), Tables 3 and 6", "models", ("data",), submits=True
        ),
        Study(
            "pubmedbert",
            "vocabulary, masking, start and texts of pretraining",
            "Gu et al. (2021), Tables 7 and 8",
            "texts",
            ("corpus", "general"),
        ),
    )
}


def run_study(
    study: Study, recipe: Any, inputs: Inputs, out: Path, *, before: Callable[[Any], None] = lambda examination: None
) -> StudyEnd:
    """Run what is missing of the study in `out`, and write NAME.outcome.json, .txt, .csv and .html there.

    before: called before any training with what the doctor found in the task (data/examination.py::Examination), or
    with None where the study has several tasks
    """
    from acclimate.races.outcome import StudyEnd
    from acclimate.races.run import run

    design = study.design(recipe, replace(inputs, out=out))
    before(design.examination)
    outcome = run(design, out, watch=inputs.watch)
    text = write_tables(outcome, out)
    failed = {", ".join(filter(None, key)): why for key, why in outcome.failed.items()}
    return StudyEnd(f"{text}\nReport: {out / design.name}.html", failed)


def dry_run_study(study: Study, recipe: Any, inputs: Inputs, out: Path) -> DryRun:
    """Return which jobs the study would still run in `out`, and their cost. Tries a few steps; writes nothing there."""
    from acclimate.races.planning.dry_run import dry_run

    with TemporaryDirectory() as place:
        return dry_run(study.design(recipe, replace(inputs, out=Path(place))), out)


def write_tables(outcome: Outcome, out: Path) -> str:
    """Write text, CSV and page of a study or race from its outcome, and return the text."""
    from acclimate.core import files, ranks
    from acclimate.races import report, tables
    from acclimate.races.outcome import LEARNING_CURVE

    if outcome.race is not None:
        raced = report.write_race_pages(out)
        if (out / "learning-curve.outcome.json").exists():
            from acclimate.studies import learning_curve

            learning_curve.add_to_race_page(out)
        return report.text_of(raced)
    if outcome.study == LEARNING_CURVE:
        from acclimate.studies import learning_curve

        return tables.write_page(learning_curve.page(outcome), outcome.name, out)
    study = STUDIES.get(outcome.study)
    if study is None:
        return tables.write(outcome, out)
    if study.submits and ranks.is_first():
        from acclimate.studies.blurb_submission import submissions

        for path, document in submissions(outcome).items():
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            files.write_json(out / path, document)
    return tables.write(outcome, out, study.sections, study.figures)


def documents_of(out: Path) -> list[dict[str, Any]]:
    """Return what `acclimate report --json` prints of each study that has ended in `out`, of a race with its answer,
    the contestant to use and the best encoder. Raises FileNotFoundError if nothing has ended there.
    """
    from acclimate.races import report, tables
    from acclimate.races.outcome import outcomes_in, read_outcome

    documents = []
    for outcome in map(read_outcome, outcomes_in(out)):
        document = tables.as_document(outcome)
        if outcome.race is not None:
            raced = report.report_of(outcome)
            document |= {"answer": asdict(raced.answer), "verdict": raced.verdict, "use": outcome.race.use}
            document |= {"use_reason": outcome.race.use_reason, "encoder": outcome.race.encoder}
        documents.append(document)
    return documents


def write_again(out: Path) -> str:
    """Write the tables and pages of all that has ended in `out`, and return the texts. Nothing is trained or read but
    the outcomes. Raises FileNotFoundError if nothing has ended there.
    """
    from acclimate.races.outcome import outcomes_in, read_outcome

    return "\n".join(write_tables(read_outcome(path), out) for path in outcomes_in(out))
