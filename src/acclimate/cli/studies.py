"""The verb `grid`: studies in which one thing varies. cli.py lists it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acclimate.cli import options
from acclimate.cli.session import (
    errors_told,
    models_and_settings,
    say,
    started,
    stated_recipe,
    studying,
    tell_findings,
    watched,
)

if TYPE_CHECKING:
    from rich.console import Console

    from acclimate.data.inputs import Raw
    from acclimate.jobs.workers import Where
    from acclimate.tasks.labelled import Own

FILES_OF_STILT = ', or state them of each file: datasets=[{train="mine.csv", text="abstract"}, ...]'


@options.of_files
def grid(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="retrieval, k, rho_1, rho_2, stages, model or search of TLM; layers, schemes or relations of BLURB; "
            "tapter, in two stages of fine-tuning; dga, on raw text of a domain; stilt, all pairs of tasks.",
        ),
    ],
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="A labelled file, docstrings, or with --data a dataset; of BLURB's studies with --data, and of stilt, "
            "MODEL...",
        ),
    ],
    own: Own,
    raw: Raw,
    where: Where,
    assignments: options.Assignments = None,
    model: options.Model = None,
    leaks: options.Leaks = "keep",
    labels_per_class: options.PerClass = None,
    data: options.Data = None,
    out: options.Out = Path("runs/grid"),
    recipe: options.RecipeFile = None,
    dry_run: options.DryRun = False,
) -> None:
    """Vary one thing, all else and the seeds the same, and compare: the studies of the papers' tables."""
    from acclimate.race import race
    from acclimate.race.recipe import RaceRecipe
    from acclimate.studies import choices, dga, stilt, tapter
    from acclimate.studies import tlm as grids
    from acclimate.studies.choices import STUDIES, ChoicesRecipe, plan
    from acclimate.studies.dga import DgaStudyRecipe
    from acclimate.studies.tapter import TapterStudyRecipe

    with errors_told(), started(out, held=not dry_run) as console, studying(out, where, plans=dry_run) as noted:
        planned = (tapter.STUDY, dga.STUDY)
        if study not in (known := [*grids.STUDIES, *STUDIES, *planned, stilt.STUDY]):
            raise ValueError(f"no study is called '{study}'. Known: {', '.join(known)}")
        given: dict[str, Any] = {"model": model, "leaks": leaks}
        if study in planned:
            if labels_per_class is not None:
                raise ValueError("--labels-per-class is for docstrings; rows=N draws so many rows of any task")
            given |= {"data": data, "dry_run": dry_run}
            if study == tapter.STUDY:
                stages = noted(stated_recipe(TapterStudyRecipe(), recipe, assignments))
                _planned(console, tapter, tapter.run_two_stages, own, raw, stages, out, **given)
                return
            adapting = noted(stated_recipe(DgaStudyRecipe(), recipe, assignments))
            _planned(console, dga, dga.run_domain_methods, own, raw, adapting, out, **given)
            return
        given["labels_per_class"] = labels_per_class
        if study == stilt.STUDY or (study in STUDIES and data is not None):
            if (own, raw, [*given.values()]) != (type(own)(train=own.train), type(raw)(), [None, "keep", None]):
                raise ValueError(
                    f"the study '{study}' runs on datasets: name models after it, and leave --model and the options "
                    f"for files of your own out{FILES_OF_STILT if study == stilt.STUDY else ''}"
                )
            models, settings = models_and_settings([task, *(assignments or [])])
            if study == stilt.STUDY or data is None:
                _matrix(console, noted, models, settings, recipe, data=data, out=out, dry_run=dry_run)
                return
            chosen = noted(stated_recipe(ChoicesRecipe(), recipe, settings))
            if dry_run:
                say(console, plan(study, chosen, models, data, out).as_text())
                return
            with watched(console, None, out) as watch:
                say(console, choices.run_on_catalogue(study, chosen, models, data, out, watch=watch).text)
            return
        if dry_run:
            raise ValueError(
                "--dry-run is for the studies tapter, dga and stilt, and for layers, schemes and relations with "
                "--data. Leave it out"
            )
        if study in STUDIES:
            run: Any = choices.run_on_task
            stated = noted(stated_recipe(ChoicesRecipe(), recipe, assignments))
            choices.check_own(study, stated, model)  # before any file is read
        else:
            run, stated = grids.run_grid, noted(stated_recipe(grids.TlmStudyRecipe(), recipe, assignments))
            if study != "model":
                grids.variants(study, stated)
        with watched(console, None, out) as watch:
            found = race.materials_of(
                own, raw, out, RaceRecipe(seeds=stated.seeds, contestants=()), **given, data=data, watch=watch
            )
            tell_findings(console, found.examination)
            done = run(study, stated, found, out, watch=watch)
        say(console, done.text)


def _matrix(
    console: Console,
    noted: Callable[[Any], Any],
    models: list[str],
    settings: list[str],
    recipe: Path | None,
    *,
    data: Path | None,
    out: Path,
    dry_run: bool,
) -> None:
    """All pairs of tasks, one after the other."""
    from acclimate.studies.stilt import STUDY, StiltStudyRecipe, as_text, plan, run_matrix

    stated = noted(stated_recipe(StiltStudyRecipe(), recipe, settings))
    if dry_run:
        say(console, plan(stated, models, data, out).as_text())
        return
    with watched(console, None, out) as watch:
        found = run_matrix(stated, models, data, out, watch=watch)
    say(console, f"{as_text(found)}\nReport: {out / STUDY}.html")


def _planned(
    console: Console,
    study: ModuleType,
    run: Callable[..., Any],
    own: Own,
    raw: Raw,
    recipe: Any,
    out: Path,
    *,
    dry_run: bool,
    **given: Any,
) -> None:
    """A study whose module says what it is given and what it would take."""
    from tempfile import TemporaryDirectory

    if dry_run:
        with TemporaryDirectory() as place:
            found = study.given(own, raw, recipe, Path(place), **given)
            say(console, study.foreseen(recipe, found, out).as_text())
        return
    with watched(console, None, out) as watch:
        found = study.given(own, raw, recipe, out, **given, watch=watch)
        tell_findings(console, found.examination)
        say(console, run(recipe, found, out, watch=watch).text)
