"""The verb `study`: how far a study is, whether its results are those it ended with, its tables again. cli.py lists
it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from acclimate.cli.session import errors_told

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="--out of race, evaluate, grid or blurb.")]

study = typer.Typer(help="Look at a study that runs or has run: state, lock file, tables.", no_args_is_help=True)


@study.command()
def status(run: Directory) -> None:
    """Say what is done, running, failed and waiting, and the time left; changes nothing."""
    from acclimate.jobs.status import status_of
    from acclimate.report.page import escaped

    with errors_told():
        typer.echo("\n".join(map(escaped, status_of(run).as_text().splitlines())))


@study.command()
def verify(run: Directory) -> None:
    """Compare results with study.lock.json, written when the study ended. Exit status 1 where one differs."""
    from acclimate.jobs.lock import LOCK, differing

    with errors_told():
        found = differing(run)
        if found:
            typer.echo("\n".join(found))
            raise typer.Exit(1)
        typer.echo(f"All results are those of {run / LOCK}.")


@study.command()
def regenerate(context: typer.Context, run: Directory) -> None:
    """Write every table and page again from the results that study.lock.json has; nothing is done."""
    from acclimate.studies import regenerate

    def play(arguments: list[str]) -> object:
        return context.find_root().command.main(arguments, prog_name="acclimate", standalone_mode=False)

    with errors_told():
        if not regenerate.regenerate(run, play):
            raise ValueError(
                f"the tables of {run} were not written again: which results they are made of is found in the files "
                f"that the study's command names, read once more. Put back what is missing; the results are untouched"
            )
        typer.echo(f"Written again from the results of {run}.")
