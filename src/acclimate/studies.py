"""The verb `grid`: studies in which one thing varies. cli.py lists it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acclimate import options
from acclimate.session import (
    errors_told,
    models_and_settings,
    say,
    started,
    stated_recipe,
    tell_findings,
    watched,
)

if TYPE_CHECKING:
    from rich.console import Console

    from acclimate.study.gathering import Raw
    from acclimate.tasks.own import Own


@options.of_files
def grid(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="retrieval, k, rho_1, rho_2, stages, model or search of TLM; layers, schemes or relations of BLURB; "
            "tapter, in two stages of fine-tuning.",
        ),
    ],
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="A labelled file, docstrings, or with --data a dataset; of BLURB's studies with --data MODEL...",
        ),
    ],
    own: Own,
    raw: Raw,
    assignments: options.Assignments = None,
    model: options.Model = None,
    leaks: options.Leaks = "keep",
    labels_per_class: options.PerClass = None,
    data: options.Data = None,
    out: options.Out = Path("runs/grid"),
    recipe: options.RecipeFile = None,
    dry_run: options.DryRun = False,
) -> None:
    """Vary one thing, all else and the seeds the same, and compare on dev: the studies of TLM's and BLURB's tables."""
    from acclimate.study import choices, launch, two_stages
    from acclimate.study import grid as grids
    from acclimate.study.choices_plan import plan
    from acclimate.study.choices_recipe import STUDIES
    from acclimate.study.choices_recipe import Recipe as Choices
    from acclimate.study.recipe import Recipe as Race
    from acclimate.study.two_stages_recipe import Recipe as Staged

    with errors_told(), started(out, held=not dry_run) as console:
        if study not in (known := [*grids.STUDIES, *STUDIES, two_stages.STUDY]):
            raise ValueError(f"no study is called '{study}'. Known: {', '.join(known)}")
        given: dict[str, Any] = {"model": model, "leaks": leaks}
        if study == two_stages.STUDY:
            if labels_per_class is not None:
                raise ValueError("--labels-per-class is for docstrings; rows=N draws so many rows of any task")
            stages = stated_recipe(Staged(), recipe, assignments)
            _two_stages(console, own, raw, stages, out, dry_run=dry_run, data=data, **given)
            return
        given["labels_per_class"] = labels_per_class
        if study in STUDIES and data is not None:
            if (own, raw, [*given.values()]) != (type(own)(train=own.train), type(raw)(), [None, "keep", None]):
                raise ValueError(
                    f"with --data the study '{study}' runs on the datasets there: name models after it, and leave "
                    f"--model and the options for files of your own out"
                )
            models, settings = models_and_settings([task, *(assignments or [])])
            chosen = stated_recipe(Choices(), recipe, settings)
            if dry_run:
                say(console, plan(study, chosen, models, data, out).as_text())
                return
            with watched(console, None, out) as watch:
                say(console, choices.run_on_catalogue(study, chosen, models, data, out, watch=watch).text)
            return
        if dry_run:
            raise ValueError(
                "--dry-run is for the study tapter, and for layers, schemes and relations with --data. Leave it out"
            )
        if study in STUDIES:
            run: Any = choices.run_on_task
            stated = stated_recipe(Choices(), recipe, assignments)
            choices.check_own(study, stated, model)  # before any file is read
        else:
            run, stated = grids.run_grid, stated_recipe(grids.Recipe(), recipe, assignments)
            if study != "model":
                grids.variants(study, stated)
        with watched(console, None, out) as watch:
            found = launch.materials_of(
                own, raw, out, Race(seeds=stated.seeds, contestants=()), **given, data=data, watch=watch
            )
            tell_findings(console, found.examination)
            done = run(study, stated, found, out, watch=watch)
        say(console, done.text)


def _two_stages(console: Console, own: Own, raw: Raw, recipe: Any, out: Path, *, dry_run: bool, **given: Any) -> None:
    from tempfile import TemporaryDirectory

    from acclimate.study import two_stages

    if dry_run:
        with TemporaryDirectory() as place:
            found = two_stages.given(own, raw, recipe, Path(place), **given)
            say(console, two_stages.foreseen(recipe, found, out).as_text())
        return
    with watched(console, None, out) as watch:
        found = two_stages.given(own, raw, recipe, out, **given, watch=watch)
        tell_findings(console, found.materials.examination)
        say(console, two_stages.run_two_stages(recipe, found, out, watch=watch).text)
