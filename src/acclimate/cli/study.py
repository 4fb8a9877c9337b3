"""The group `study`: the papers' studies, one command for each of STUDIES, and what there is to do with a study's
directory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acclimate.api.checks import check_directory, check_locked, check_study
from acclimate.cli import options
from acclimate.cli.once import Verbs
from acclimate.cli.options import JOBS, TRACKING
from acclimate.cli.verb import Session, verb
from acclimate.studies import STUDIES, Study

if TYPE_CHECKING:
    from acclimate.data.gather import Raw
    from acclimate.reading.labelled_files import LabelledFiles

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="--out of race, evaluate or a study.")]
PAPERS, RUNS = "The papers' studies", "A running or finished study"

study = Verbs(help="Repeat the papers' studies on your data, or show the state of a study.", no_args_is_help=True)


def _task_command(named: Study, out: Path) -> Callable[..., None]:
    """The command of a study that takes one labelled task."""

    @verb(f"study {named.name}", JOBS, TRACKING, check=partial(check_study, named))
    def command(
        session: Session,
        task: options.TaskName,
        labelled: LabelledFiles,
        raw: Raw,
        model: options.ModelOption = None,
        leaks: options.LeaksOption = "keep",
        data: options.DataOption = None,
        out: options.OutOption = out,
        dry_run: options.DryRunOption = False,
        json: options.JsonOption = False,
    ) -> None:
        inputs = {"task": labelled, "raw": raw, "leaks": leaks, "data": data}
        _run(session, named, models=() if model is None else (model,), **inputs)

    return command


def _models_command(named: Study, out: Path) -> Callable[..., None]:
    """Return the command of a study that takes models, and datasets by its settings."""

    @verb(f"study {named.name}", JOBS, TRACKING, check=partial(check_study, named))
    def command(
        session: Session,
        words: options.ModelsAndSettings,
        data: options.Benchmark = None,
        out: options.OutOption = out,
        dry_run: options.DryRunOption = False,
        json: options.JsonOption = False,
    ) -> None:
        _run(session, named, models=tuple(session.listed()[0]), data=data)

    return command


def _texts_command(named: Study, out: Path) -> Callable[..., None]:
    """The command of a study that takes raw texts alone, and datasets by its settings."""

    @verb(f"study {named.name}", JOBS, TRACKING, check=partial(check_study, named))
    def command(
        session: Session,
        raw: Raw,
        data: options.Benchmark = None,
        out: options.OutOption = out,
        dry_run: options.DryRunOption = False,
        json: options.JsonOption = False,
    ) -> None:
        _run(session, named, raw=raw, data=data)

    return command


def _run(session: Session, named: Study, **inputs: Any) -> None:
    """Run a study, or say what it would still do and cost."""
    from acclimate.data.gather import Inputs
    from acclimate.studies import FAILED, documents_of, dry_run_study, run_study

    out = session.parameters["out"]
    recipe = session.recipe(named.recipe())
    if session.parameters["dry_run"]:
        with TemporaryDirectory() as place:
            dry_run = dry_run_study(named, recipe, Inputs(Path(place), **inputs), out)
        if session.parameters["json"]:
            session.give(dry_run.as_document())
        else:
            session.say(dry_run.as_text())
        return
    with session.watched() as watch:
        outcome = run_study(named, recipe, Inputs(out, **inputs, watch=watch), out, before=session.tell_findings)
    session.say(outcome.text)
    if session.parameters["json"]:
        session.give({"directory": str(out), "studies": documents_of(out)})
    session.status = FAILED if outcome.failed else 0


SHAPES = {"task": _task_command, "models": _models_command, "texts": _texts_command}
for paper_study in STUDIES.values():
    study.command(
        paper_study.name,
        rich_help_panel=PAPERS,
        help=f"{paper_study.about[0].upper()}{paper_study.about[1:]} ({paper_study.paper}).",
        # Session.listed refuses unknown options where names and settings are typed together
        context_settings={"ignore_unknown_options": paper_study.takes == "models"},
    )(SHAPES[paper_study.takes](paper_study, Path("runs") / paper_study.name))


@study.command(rich_help_panel=RUNS)
@verb(check=check_directory)
def status(session: Session, run: Directory, json: options.JsonOption = False) -> None:
    """Say what is done, running, failed and waiting, and the time left; changes nothing."""
    from acclimate.jobs.status import status_of
    from acclimate.reports.page import escaped

    if json:
        session.give(status_of(run).as_document())
        return
    typer.echo("\n".join(map(escaped, status_of(run).as_text().splitlines())))


@study.command(rich_help_panel=RUNS)
@verb(check=check_locked)
def verify(session: Session, run: Directory) -> None:
    """Compare results with study.lock.json, written when the study ended. The exit status is 1 if one differs."""
    from acclimate.jobs.lock import LOCK, differences

    changes = differences(run)
    if changes:
        typer.echo("\n".join(changes))
        raise typer.Exit(1)
    typer.echo(f"All results agree with {run / LOCK}.")


@study.command(rich_help_panel=RUNS)
@verb(check=check_locked)
def regenerate(session: Session, run: Directory) -> None:
    """Write tables and pages again from what was recorded; results must be those of study.lock.json. Runs nothing."""
    from acclimate.studies.regenerate import regenerate

    session.say(regenerate(run))
    typer.echo(f"Written again from the results of {run}.")
