"""The studies of the five papers, by name. Importing this loads neither torch nor the studies themselves.

    study = STUDIES["tapter"]
    design = study.design(study.recipe(seeds=5), Inputs(...))     # reads and prepares the data in inputs.out
    outcome = run(design, out)                                    # races/run.py: trains what is missing, then tests
    write(outcome, out)                                           # races/write.py: text, CSV, JSON and page

`run_study` and `plan_study` are these steps in one call, as the command line makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from acclimate.races.design import Inputs


@dataclass(frozen=True)
class Study:
    """A paper's study.

    about   one line for people
    paper   the tables that it repeats
    takes   what stands after its name on the command line: "task", one labelled file or dataset, with --model,
            --corpus, --general and the options of labelled files; "models", one or more models, with --data and the
            setting `datasets`, which also takes labelled files; "texts", nothing, with --corpus, --general and
            --data
    """

    name: str
    about: str
    paper: str
    takes: Literal["task", "models", "texts"]

    @property
    def recipe(self) -> type[Any]:
        """The class of its settings; loads the study."""
        recipe: type[Any] = import_module(f"acclimate.studies.{self.name}").RECIPE
        return recipe

    def design(self, recipe: Any, inputs: Inputs) -> Any:
        """What is compared with what. Raises ValueError for whatever is wrong with settings, files and models."""
        return import_module(f"acclimate.studies.{self.name}").design(recipe, inputs)


STUDIES: Mapping[str, Study] = {
    study.name: study
    for study in (
        Study(
            "tlm", "one choice of TLM varied: vary=retrieval, k, rho_1, ...", "Yao et al. (2022), Tables 3 to 8", "task"
        ),
        Study(
            "choices", "layers, tag schemes, relations: vary=layers, ...", "Gu et al. (2021), Tables 10 to 12", "models"
        ),
        Study("tapter", "TAPT and TAPTER where fine-tuning has two stages", "Nishida et al. (2021), Table 2", "task"),
        Study("dga", "each way of adapting on raw text of a domain", "Ke et al. (2022), Tables 2 to 5", "task"),
        Study("stilt", "all pairs of tasks, one after the other", "Jeong and Hwang, Tables 2 and 3", "models"),
        Study("blurb", "all of the BLURB benchmark", "Gu et al. (2021), Tables 3 and 6", "models"),
        Study("pubmedbert", "vocabulary, masking and start of pretraining", "Gu et al. (2021), Table 7", "texts"),
    )
}


FAILED = 1  # exit status of a study some of whose cells stand as failed


@dataclass(frozen=True)
class Done:
    """text: what the terminal shows; failed: cell -> why it has no score."""

    text: str
    failed: Mapping[str, str] = field(default_factory=dict)


def run_study(
    study: Study,
    recipe: Any,
    inputs: Inputs,
    out: Path,
    *,
    before: Callable[[Any], None] = lambda examination: None,
) -> Done:
    """Do what is missing of the study in `out`, and write STUDY.txt, .csv, .scores.json and .html there.

    before: told, before anything is trained, what the doctor found in the task (data/doctor.py::Examination); None
    where the study has no one task
    """
    from acclimate.races.run import run
    from acclimate.races.write import write

    design = study.design(recipe, replace(inputs, out=out))
    before(design.examination)
    outcome = run(design, out, watch=inputs.watch)
    text = write(outcome, out)
    failed = {", ".join(filter(None, key)): why for key, why in outcome.failed.items()}
    return Done(f"{text}\nReport: {out / design.name}.html", failed)


def plan_study(study: Study, recipe: Any, inputs: Inputs, out: Path) -> str:
    """What the study would still do in `out`, and what that takes. Trains a few steps to try; writes nothing there."""
    from acclimate.races.run import plan

    with TemporaryDirectory() as place:
        return plan(study.design(recipe, replace(inputs, out=Path(place))), out).as_text()
