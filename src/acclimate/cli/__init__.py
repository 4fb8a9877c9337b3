"""The command line: `acclimate VERB ...`. It parses, calls and prints; torch is imported inside a verb."""

from __future__ import annotations

import atexit
import gc
import os
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from acclimate.api.settings import stand_in_of
from acclimate.cli import race, recipes, settings, use
from acclimate.cli.analyse import analyse
from acclimate.cli.data import data
from acclimate.cli.method import adapt
from acclimate.cli.once import USAGE_ERROR, Verbs
from acclimate.cli.streams import open_closed
from acclimate.cli.study import study

RACE, METHODS, GROUPS = "Compare, choose, hand over", "Methods", "Groups"

NO_CHOICE = "is not one of"


def _settings_called(takes: str, option: str) -> str:
    """Return the setting of a verb that was typed as an option, "" if it has none of this name."""
    from acclimate.core.settings import settings_called

    names = settings_called(type(stand_in_of(takes)), option.lstrip("-").replace("-", "_"))
    return names[0] if names else ""


def _refuse(error: Any) -> NoReturn:
    """Print in one line what is wrong with what was typed, and exit with status 2. Typed without a verb, a group shows
    its help instead.
    """
    from acclimate.reports.page import escaped

    if type(error).__name__ == "NoArgsIsHelpError":
        raise error
    verb = " ".join(context.info_name for context in _contexts(error.ctx)[1:])
    message = escaped(" ".join(error.format_message().split()).rstrip("."))
    stop = "" if message.endswith("?") else "."
    typer.echo(f"acclimate: {message}{stop} See {' '.join(filter(None, ('acclimate', verb)))} --help", err=True)
    raise typer.Exit(2) from None


def _contexts(innermost: Any) -> list[Any]:
    """Return the contexts of the groups and the verb that were typed, the outermost first."""
    return [*_contexts(innermost.parent), innermost] if innermost else []


class _Verbs(TyperGroup):
    """The group of all verbs. Of an option that is there under no such name but as a setting, it says how settings are
    stated; of a choice that an option does not have, what its choices mean. Such an error is one line, like all others
    (docs/exit-codes.md).
    """

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        try:
            return super().make_context(*arguments, **settings)
        except USAGE_ERROR as error:
            _refuse(error)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except USAGE_ERROR as error:
            name, at = getattr(error, "option_name", ""), error.ctx
            takes = getattr(at.command.callback, "takes", "") if name and at else ""
            if isinstance(takes, str) and takes and (meant := _settings_called(takes, name)):
                error.message += f". It is a setting: write it without dashes, as {meant}=VALUE"
                if any(name == f"--{parameter.name}" for parameter in at.command.params):
                    error.message = f"there is no option {name}: write {at.info_name} MODEL TASK, without {name}"
                error.possibilities = None
            if NO_CHOICE in error.message:  # newer typer has pydantic's words before its own
                help_text = getattr(getattr(error, "param", None), "help", "")
                error.message = " ".join(filter(None, (error.message.removeprefix("Value error, "), help_text)))
            _refuse(error)


def _version(flag: bool) -> None:
    if flag:
        from importlib.metadata import version

        typer.echo(f"acclimate {version('acclimate')}")
        raise typer.Exit


app = Verbs(
    help="Adapt encoder language models to a domain, and know whether it helped.",
    cls=_Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def _named(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Adapt encoder language models to a domain, and know whether it helped."""


for command in (race.doctor, race.race, race.evaluate, race.report, use.predict, use.embed, use.ship, use.push):
    app.command(rich_help_panel=RACE)(command)
app.command(rich_help_panel=METHODS)(adapt)
app.command(rich_help_panel=METHODS)(settings.settings)
app.command(rich_help_panel=METHODS)(recipes.recipes)
app.add_typer(data, name="data", rich_help_panel=GROUPS)
app.add_typer(study, name="study", rich_help_panel=GROUPS)
app.add_typer(analyse, name="analyse", rich_help_panel=GROUPS)


def main() -> None:
    """The entry point of the command `acclimate`."""
    # Threads that wait for each other sleep instead of spinning: on a machine with other work, spinning threads hold
    # the processor that the thread they wait for needs, and a step takes 15 times as long. Read when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # torch and transformers make a million objects as they are imported, and by default Python looks for cycles among
    # them each time that there are 700 more: a fifth of the imports' time.
    gc.set_threshold(10_000)
    open_closed()
    # As it ends, Python looks for cycles among all that torch has imported: half a second, for memory that goes anyway.
    atexit.register(gc.freeze)
    app()
