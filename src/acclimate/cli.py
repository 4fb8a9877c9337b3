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
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from acclimate.core.types import Progress, Watch
    from acclimate.study.race import Materials

app = typer.Typer(
    help="Adapt encoder language models to a domain, and know whether it helped.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

TaskName = Annotated[str, typer.Argument(metavar="TASK", help="docstrings, or a labelled file to train on.")]
Assignments = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings of the recipe.")]
Out = Annotated[Path, typer.Option("--out", help="Directory of the run; the same command goes on there.")]
RecipeFile = Annotated[Path | None, typer.Option("--recipe", help="TOML file that states settings.")]
Model = Annotated[str | None, typer.Option("--model", help="A local directory or a hub id.")]
Track = Annotated[list[str] | None, typer.Option("--track", help="tensorboard, mlflow, wandb or trackio.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and what it costs; start nothing.")]
Dev = Annotated[Path | None, typer.Option("--dev", help="Labelled file to choose on.")]
Test = Annotated[Path | None, typer.Option("--test", help="Labelled file to score on, once.")]
Text = Annotated[str, typer.Option("--text", help="Column of the text.")]
Pair = Annotated[str | None, typer.Option("--pair", help="Column of a second text.")]
Label = Annotated[str, typer.Option("--label", help="Column of the label.")]
Metric = Annotated[str, typer.Option("--metric", help="macro_f1, micro_f1 or accuracy.")]
MaxTokens = Annotated[int, typer.Option("--max-tokens", help="Longer examples are cut.")]
Domain = Annotated[Path | None, typer.Option("--domain", help="Raw text of the domain, a file or folder.")]
General = Annotated[Path | None, typer.Option("--general", help="Raw text to pretrain on, without --model.")]
PerClass = Annotated[int, typer.Option("--labels-per-class", help="docstrings: so many labels a class; 0: all.")]
Separated = Annotated[Literal["line", "blank"], typer.Option("--separated", help="How documents stand in .txt files.")]


@app.command()
def race(
    task: TaskName,
    assignments: Assignments = None,
    out: Out = Path("runs/race"),
    recipe: RecipeFile = None,
    model: Model = None,
    dev: Dev = None,
    test: Test = None,
    text: Text = "text",
    pair: Pair = None,
    label: Label = "label",
    metric: Metric = "macro_f1",
    max_tokens: MaxTokens = 256,
    domain: Domain = None,
    general: General = None,
    separated: Separated = "line",
    labels_per_class: PerClass = 32,
    track: Track = None,
    dry_run: DryRun = False,
) -> None:
    """Compare ways of adapting a model on a task: table, verdict, report and the winner's checkpoint."""
    from acclimate.study.race import Recipe, for_model, race

    with _errors_told(), _started(out, held=not dry_run) as console:
        stated = _recipe(for_model() if model else Recipe(), recipe, assignments)
        columns = {"text": text, "label": label, "pair": pair, "metric": metric, "max_tokens": max_tokens}
        raw = {"domain": domain, "general": general, "separated": separated}
        files = {"dev": dev, "test": test, **columns, **raw}
        if dry_run:
            from acclimate.core.types import unwatched
            from acclimate.study.cost import estimate

            with TemporaryDirectory() as place:
                materials = _materials(task, Path(place), model, labels_per_class, files, unwatched)
                console.print(estimate(stated, materials, out).as_text(), highlight=False)
            return
        with _watching(console, track, out) as watch:
            materials = _materials(task, out, model, labels_per_class, files, watch)
            race(stated, materials, out, command=_command(), watch=watch)
        _show(console, out)


@app.command()
def adapt(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="mlm, scratch or finetune.")],
    assignments: Assignments = None,
    out: Out = Path("runs/adapt"),
    recipe: RecipeFile = None,
    separated: Separated = "line",
    track: Track = None,
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
            console.print(f"Checkpoint: {checkpoint.path}")


@app.command()
def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A local directory or a hub id.")],
    task: TaskName,
    assignments: Assignments = None,
    out: Out = Path("runs/evaluate"),
    recipe: RecipeFile = None,
    dev: Dev = None,
    test: Test = None,
    text: Text = "text",
    pair: Pair = None,
    label: Label = "label",
    metric: Metric = "macro_f1",
    max_tokens: MaxTokens = 256,
    labels_per_class: PerClass = 32,
    track: Track = None,
) -> None:
    """Fine-tune a model on a task with several seeds, choose on dev, test once; mean score and interval."""
    from dataclasses import replace

    from acclimate.study.race import for_model, race

    with _errors_told(), _started(out) as console:
        stated = replace(_recipe(for_model(), recipe, assignments), contestants=())
        columns = {"text": text, "label": label, "pair": pair, "metric": metric, "max_tokens": max_tokens}
        files = {"dev": dev, "test": test, **columns}
        with _watching(console, track, out) as watch:
            materials = _materials(task, out, model, labels_per_class, files, watch)
            race(stated, materials, out, command=_command(), watch=watch)
        _show(console, out)


@app.command()
def report(run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished race.")]) -> None:
    """Write report.html and the tables of a finished race again, and print the table."""
    from rich.console import Console

    with _errors_told():
        _show(Console(soft_wrap=True), run)


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


def _materials(
    task: str, out: Path, model: str | None, labels_per_class: int, stated: dict[str, Any], watch: Watch
) -> Materials:
    from acclimate.study import materials

    if task == materials.DOCSTRINGS:
        return materials.docstrings(out, labels_per_class=labels_per_class or None, model=model, watch=watch)
    for split in ("dev", "test"):
        if stated[split] is None:
            raise ValueError(f"{task}: give the {split} file too, --{split} FILE (or the task 'docstrings')")
    return materials.own(out, materials.Own(train=Path(task), **stated), model=model, watch=watch)


def _show(console: Console, run: Path) -> None:
    from acclimate.core import ranks
    from acclimate.study.outcome import PAGE, TABLE, WINNER, write_pages

    if ranks.is_first():
        write_pages(run)
        console.print((run / TABLE).read_text(encoding="utf-8"), highlight=False, markup=False)
        console.print(f"Report: {run / PAGE}\nWinner: {run / WINNER}", highlight=False, markup=False)


@contextmanager
def _started(out: Path, *, held: bool = True) -> Iterator[Console]:
    """Processes joined, the directory ours, log lines and words on the same screen."""
    from rich.console import Console
    from rich.logging import RichHandler

    from acclimate.core import files, ranks

    console = Console(soft_wrap=True)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[RichHandler(console=console)])
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
    """What a user can mend is one clear line and exit status 2; anything else is ours and keeps its traceback."""
    from acclimate.core.files import HeldError

    try:
        yield
    except (ValueError, OSError, HeldError, ImportError) as error:
        typer.echo(f"acclimate: {error}", err=True)
        raise typer.Exit(2) from None


def _command() -> str:
    return "acclimate " + shlex.join(sys.argv[1:])
