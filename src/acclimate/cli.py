"""The command line: verbs, a method or task, and `key=value`. It parses, calls and prints; torch comes with a verb."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acclimate import options

if TYPE_CHECKING:
    from rich.console import Console

    from acclimate.core.types import Progress, Watch
    from acclimate.study.gathering import Raw
    from acclimate.tasks.own import Own

app = typer.Typer(
    help="Adapt encoder language models to a domain, and know whether it helped.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
@options.of_files
def race(
    task: options.TaskName,
    own: Own,
    raw: Raw,
    assignments: options.Assignments = None,
    model: options.Model = None,
    leaks: options.Leaks = "keep",
    budget: options.Budget = None,
    labels_per_class: options.PerClass = None,
    out: options.Out = Path("runs/race"),
    recipe: options.RecipeFile = None,
    track: options.Track = None,
    dry_run: options.DryRun = False,
) -> None:
    """Compare ways of adapting a model on a task: table, verdict, report and the winner's checkpoint."""
    from acclimate.core.types import unwatched
    from acclimate.study import launch
    from acclimate.study.budget import parse_budget
    from acclimate.study.jobs import check_format
    from acclimate.study.recipe import Recipe, for_model

    with _errors_told(), _started(out, held=not dry_run) as console:
        stated = _recipe(for_model() if model else Recipe(), recipe, assignments)
        given: dict[str, Any] = {"model": model, "leaks": leaks, "labels_per_class": labels_per_class}
        if budget is not None:
            parse_budget(budget)  # before any file is read
        if dry_run:
            with TemporaryDirectory() as place:
                found = launch.materials_of(own, raw, Path(place), stated, **given, watch=unwatched)
                cost, notes = launch.foreseen_cost(stated, found, out, budget=budget)
                _say(console, "\n".join([cost.as_text(), *notes]))
            return
        check_format(out)
        with _watching(console, track, out) as watch:
            found = launch.materials_of(own, raw, out, stated, **given, watch=watch)
            _tell_findings(console, found.examination)
            launch.start(stated, found, out, budget=budget, command=_command(), watch=watch)
        _show(console, out)


@app.command()
@options.of_files
def doctor(
    task: options.Labelled,
    own: Own,
    raw: Raw,
    model: options.Model = None,
    seeds: Annotated[int, typer.Option("--seeds", help="Of the race to come.")] = 3,
    contestants: Annotated[int, typer.Option("--contestants", help="Compared with the untouched model there.")] = 4,
) -> None:
    """Say what is wrong with labelled files and corpora, and what a race on them could detect; changes nothing.

    Exit status 1 where something has to be mended first.
    """
    from acclimate.study.gathering import examined

    with _errors_told(), _console() as console:
        with _watching(console, None, Path()) as watch:
            _, found = examined(own, raw, model=model, seeds=seeds, comparisons=contestants, watch=watch)
        _say(console, found.as_text())
    if found.errors:
        raise typer.Exit(1)


@app.command()
def adapt(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="mlm, scratch or finetune.")],
    assignments: options.Assignments = None,
    out: options.Out = Path("runs/adapt"),
    recipe: options.RecipeFile = None,
    separated: options.Separated = "line",
    track: options.Track = None,
) -> None:
    """Run one method on raw text or a task; writes OUT/checkpoint, which transformers loads."""
    from dataclasses import fields, replace

    from acclimate.core import ranks
    from acclimate.methods import METHODS
    from acclimate.models.loading import resolved
    from acclimate.study.materials import corpus_at

    with _errors_told(), _started(out) as console:
        if method not in METHODS:
            raise ValueError(f"no method is called '{method}'. Known: {', '.join(METHODS)}")
        stated = _recipe(METHODS[method].Recipe(), recipe, assignments)
        with _watching(console, track, out) as watch:
            if "corpus" in {field.name for field in fields(stated)}:
                corpus = corpus_at(stated.corpus, out, separated=separated, watch=watch)
                stated = replace(stated, corpus=corpus.path)
            if getattr(stated, "model", ""):
                stated = replace(stated, model=resolved(stated.model))
            checkpoint = METHODS[method].adapt(stated, out, watch=watch)
        if ranks.is_first():
            _say(console, f"Checkpoint: {checkpoint.path}")


@app.command()
@options.of_files
def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A local directory or a hub id.")],
    task: options.TaskName,
    own: Own,
    assignments: options.Assignments = None,
    labels_per_class: options.PerClass = None,
    out: options.Out = Path("runs/evaluate"),
    recipe: options.RecipeFile = None,
    track: options.Track = None,
) -> None:
    """Fine-tune a model on a task with several seeds, choose on dev, test once; mean score and interval."""
    from dataclasses import replace

    from acclimate.study import launch
    from acclimate.study.gathering import Raw
    from acclimate.study.recipe import for_model

    with _errors_told(), _started(out) as console:
        stated = replace(_recipe(for_model(), recipe, assignments), contestants=())
        with _watching(console, track, out) as watch:
            given: dict[str, Any] = {"model": model, "labels_per_class": labels_per_class, "watch": watch}
            found = launch.materials_of(own, Raw(), out, stated, **given)
            _tell_findings(console, found.examination)
            launch.start(stated, found, out, budget=None, command=_command(), watch=watch)
        _show(console, out)


@app.command()
def report(run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished race.")]) -> None:
    """Write report.html and the tables of a finished race again, and print the table."""
    with _errors_told(), _console() as console:
        _show(console, run, anew=True)


@app.command()
def ship(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished race.")],
    to: Annotated[Path, typer.Option("--to", help="Directory to write: checkpoint, tokenizer, model card.")],
    onnx: Annotated[bool, typer.Option("--onnx", help="Also an int8 ONNX copy, its loss and speed measured.")] = False,
    push: Annotated[str | None, typer.Option("--push", metavar="REPO", help="Upload it to this hub id.")] = None,
) -> None:
    """Make the winner of a race ready for use: checked against its scores, with a model card filled in from the run."""
    from acclimate.study.ship import push as upload
    from acclimate.study.ship import ship as make

    with _errors_told(), _console() as console:
        with _watching(console, None, Path()) as watch:
            make(run, to, onnx=onnx, watch=watch)
        _say(console, f"Shipped: {to}, with a model card in {to / 'README.md'}")
        if push is not None:
            _say(console, f"Uploaded: {upload(to, push)}")


def main() -> None:
    """The entry point of the command `acclimate`."""
    # Threads that wait for each other sleep instead of spinning: on a machine with other work, spinning threads hold
    # the processor that the thread they wait for needs, and a step takes 15 times as long. Read when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    app()


def _recipe(base: Any, path: Path | None, assignments: list[str] | None) -> Any:
    """The base with what a file states, and over that what the command line states."""
    from acclimate.core import settings

    return settings.override(settings.from_toml(type(base), path, base=base) if path else base, assignments or [])


def _tell_findings(console: Console, examination: Any) -> None:
    """What the doctor would say, before the race starts: its warnings here, all of it in the report."""
    from acclimate.study.typeset import escaped

    for finding in examination.findings if examination else ():
        if finding.level != "note":
            _say(console, escaped(f"doctor: {finding.what} {finding.way_out}"))


def _show(console: Console, run: Path, *, anew: bool = False) -> None:
    from acclimate.core import ranks
    from acclimate.study.jobs import check_format
    from acclimate.study.outcome import PAGE, TABLE, WINNER, write_pages

    if ranks.is_first():
        if anew:
            check_format(run)
            write_pages(run)
        _say(console, (run / TABLE).read_text(encoding="utf-8"))
        _say(console, f"Report: {run / PAGE}\nWinner: {run / WINNER}")


def _say(console: Console, text: str) -> None:
    """Print the text as it is; of several processes the first one does."""
    from acclimate.core import ranks

    if ranks.is_first():
        console.print(text, highlight=False, markup=False)


@contextmanager
def _console() -> Iterator[Console]:
    """A screen for words and log lines."""
    from rich.console import Console
    from rich.logging import RichHandler

    console = Console(soft_wrap=True)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[RichHandler(console=console)])
    yield console


@contextmanager
def _started(out: Path, *, held: bool = True) -> Iterator[Console]:
    """Processes joined, the directory ours, log lines and words on the same screen."""
    from acclimate.core import files, ranks

    with _console() as console:
        ranks.start()
        try:
            with ExitStack() as stack:
                if held and ranks.is_first():
                    stack.enter_context(files.hold(out))
                yield console
        finally:
            ranks.stop()


@contextmanager
def _watching(console: Console, track: list[str] | None, out: Path) -> Iterator[Watch]:
    from acclimate.core import ranks
    from acclimate.screen import watching
    from acclimate.training.trackers import TRACKERS

    with ExitStack() as stack:
        watches = [stack.enter_context(watching(console))]
        for name in track or [] if ranks.is_first() else []:
            if name not in TRACKERS:
                raise ValueError(f"nothing is known to track with '{name}'. Known: {', '.join(TRACKERS)}")
            watches.append(stack.enter_context(closing(TRACKERS[name](out.name, out, {"command": _command()}))))

        def watch(progress: Progress) -> None:
            for each in watches:
                each(progress)

        yield watch


@contextmanager
def _errors_told() -> Iterator[None]:
    """What a user can mend is one clear line and exit status 2; anything else is ours and keeps its traceback.

    With ACCLIMATE_TRACEBACK=1 everything keeps it. What a terminal would obey in names and values is spelt out.
    """
    from acclimate.core.files import HeldError
    from acclimate.study.typeset import escaped

    try:
        yield
    except (ValueError, OSError, HeldError, ImportError) as error:
        if os.environ.get("ACCLIMATE_TRACEBACK"):
            raise
        typer.echo("\n".join(map(escaped, f"acclimate: {error}".splitlines())), err=True)
        raise typer.Exit(2) from None


def _command() -> str:
    return "acclimate " + shlex.join(sys.argv[1:])
