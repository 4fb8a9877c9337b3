"""The command line: verbs, a method or task, and `key=value`. It parses, calls and prints; torch comes with a verb."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acclimate.cli import options
from acclimate.cli.corpora import corpus, prepare
from acclimate.cli.session import (
    command,
    errors_told,
    say,
    screen,
    started,
    stated_recipe,
    studying,
    tell_findings,
    watched,
)
from acclimate.cli.studies import grid
from acclimate.cli.study import study
from acclimate.cli.verbs import blurb, count_splits, embeddings, fetch, importance, retrieve
from acclimate.cli.vocabularies import vocabulary

if TYPE_CHECKING:
    from rich.console import Console

    from acclimate.data.inputs import Raw
    from acclimate.jobs.workers import Where
    from acclimate.tasks.labelled import Own

METHODS_TOLD = (  # the names of acclimate.methods.METHODS, which loads torch
    "mlm, tapter, dga, light, distil, sequence_contrast, token_contrast, adversarial, scratch, extend, tlm, stilt "
    "or finetune."
)
CORPORA = ("corpus", "dev", "general", "vectors_corpus")  # settings of a method that name raw text


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"acclimate {version('acclimate')}")
        raise typer.Exit


app = typer.Typer(
    help="Adapt encoder language models to a domain, and know whether it helped.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _named(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Adapt encoder language models to a domain, and know whether it helped."""


@app.command()
@options.of_files
def race(
    task: options.TaskName,
    own: Own,
    raw: Raw,
    where: Where,
    assignments: options.Assignments = None,
    model: options.Model = None,
    leaks: options.Leaks = "keep",
    budget: options.Budget = None,
    labels_per_class: options.PerClass = None,
    data: options.Data = None,
    out: options.Out = Path("runs/race"),
    recipe: options.RecipeFile = None,
    track: options.Track = None,
    dry_run: options.DryRun = False,
) -> None:
    """Compare ways of adapting a model on a task: table, verdict, report and the winner's checkpoint."""
    from acclimate.jobs.job import check_format
    from acclimate.race import race
    from acclimate.race.budget import parse_budget, with_search
    from acclimate.race.recipe import heeded

    with errors_told(), started(out, held=not dry_run) as console, studying(out, where, plans=dry_run) as noted:
        usual = race.recipe_for(model)
        stated = noted(heeded(stated_recipe(usual, recipe, assignments), usual))
        given: dict[str, Any] = {"model": model, "leaks": leaks, "labels_per_class": labels_per_class, "data": data}
        if budget is not None:
            parse_budget(budget)  # before any file is read
            with_search(stated)
        if dry_run:
            say(console, race.plan_text(own, raw, out, stated, **given, budget=budget))
            return
        check_format(out)
        with watched(console, track, out) as watch:
            found = race.materials_of(own, raw, out, stated, **given, watch=watch)
            tell_findings(console, found.examination)
            race.start(stated, found, out, budget=budget, command=command(), watch=watch)
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
    data: options.Data = None,
) -> None:
    """Say what is wrong with labelled files and corpora, and what a race on them could detect; changes nothing.

    Or count a benchmark's splits beside its paper's, with --data. Exit status 1 where something has to be mended first.
    """
    if data is not None:
        count_splits(str(task), data)
        return
    from acclimate.data.inputs import examined
    from acclimate.data.published import unplaced

    with errors_told(), screen() as console:
        if not task.exists() and (way_out := unplaced(str(task))):
            raise ValueError(way_out)
        with watched(console, None, Path()) as watch:
            _, found = examined(own, raw, model=model, seeds=seeds, comparisons=contestants, watch=watch)
        say(console, found.as_text())
    if found.errors:
        raise typer.Exit(1)


@app.command()
def adapt(
    method: Annotated[str, typer.Argument(metavar="METHOD", help=METHODS_TOLD)],
    assignments: options.Assignments = None,
    out: options.Out = Path("runs/adapt"),
    recipe: options.RecipeFile = None,
    separated: options.Separated = "line",
    track: options.Track = None,
) -> None:
    """Run one method on raw text or a task; writes OUT/checkpoint, which transformers loads."""
    from dataclasses import fields, replace

    from acclimate.core import ranks
    from acclimate.data.materials import corpus_at
    from acclimate.methods import METHODS
    from acclimate.models.loading import resolved

    with errors_told(), started(out) as console:
        if method not in METHODS:
            raise ValueError(f"no method is called '{method}'. Known: {', '.join(METHODS)}")
        stated = stated_recipe(METHODS[method].recipe(), recipe, assignments)
        with watched(console, track, out) as watch:
            if "corpus" in {field.name for field in fields(stated)} and getattr(stated, "reads_corpus", True):
                for name in [field.name for field in fields(stated) if field.name in CORPORA]:
                    if name == "corpus" or getattr(stated, name) != Path():
                        corpus = corpus_at(getattr(stated, name), out, separated=separated, watch=watch)
                        stated = replace(stated, **{name: corpus.path})
            for name in [name for name in ("model", "tokenizer") if getattr(stated, name, "")]:
                stated = replace(stated, **{name: resolved(getattr(stated, name))})
            checkpoint = METHODS[method].adapt(stated, out, watch=watch)
        if ranks.is_first():
            say(console, f"Checkpoint: {checkpoint.path}")


@app.command()
@options.of_files
def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A local directory or a hub id.")],
    task: options.TaskName,
    own: Own,
    where: Where,
    assignments: options.Assignments = None,
    labels_per_class: options.PerClass = None,
    rows: options.Rows = 0,
    data: options.Data = None,
    out: options.Out = Path("runs/evaluate"),
    recipe: options.RecipeFile = None,
    track: options.Track = None,
    dry_run: options.DryRun = False,
) -> None:
    """Fine-tune a model on a task with several seeds, choose on dev, test once; mean score and interval."""
    from dataclasses import replace

    from acclimate.data.inputs import Raw
    from acclimate.data.published import check_order
    from acclimate.race import race
    from acclimate.race.recipe import for_model, heeded

    with errors_told(), started(out, held=not dry_run) as console, studying(out, where, plans=dry_run) as noted:
        check_order(model, str(own.train))
        usual = for_model()
        stated = noted(replace(heeded(stated_recipe(usual, recipe, assignments), usual), contestants=()))
        given: dict[str, Any] = {"model": model, "labels_per_class": labels_per_class, "rows": rows, "data": data}
        if dry_run:
            say(console, race.plan_text(own, Raw(), out, stated, **given))
            return
        with watched(console, track, out) as watch:
            found = race.materials_of(own, Raw(), out, stated, **given, watch=watch)
            tell_findings(console, found.examination)
            race.start(stated, found, out, budget=None, command=command(), watch=watch)
        _show(console, out)


app.command()(prepare)
app.command()(retrieve)
app.command()(fetch)
app.command(context_settings={"ignore_unknown_options": True})(blurb)  # models_and_settings refuses them
app.command()(grid)
app.command(context_settings={"ignore_unknown_options": True})(corpus)  # models_and_settings refuses them


@app.command()
def report(run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished race.")]) -> None:
    """Write report.html and the tables of a finished race again, and print the table."""
    with errors_told(), screen() as console:
        _show(console, run, anew=True)


@app.command()
def ship(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished race.")],
    to: Annotated[Path, typer.Option("--to", help="Directory to write: checkpoint, tokenizer, model card.")],
    onnx: Annotated[bool, typer.Option("--onnx", help="Also an int8 ONNX copy, its loss and speed measured.")] = False,
    push: Annotated[str | None, typer.Option("--push", metavar="REPO", help="Upload it to this hub id.")] = None,
) -> None:
    """Make the winner of a race ready for use: checked against its scores, with a model card filled in from the run."""
    from acclimate.ship.ship import push as upload
    from acclimate.ship.ship import ship as make

    with errors_told(), screen() as console:
        with watched(console, None, Path()) as watch:
            make(run, to, onnx=onnx, watch=watch)
        say(console, f"Shipped: {to}, with a model card in {to / 'README.md'}")
        if push is not None:
            say(console, f"Uploaded: {upload(to, push)}")


@app.command()
def heads(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Local directories or hub ids.")],
    texts: Annotated[Path, typer.Option("--texts", help="Raw text, or a table with a column of texts.")],
    column: Annotated[str, typer.Option("--text", help="Column of the text, where there are columns.")] = "text",
    sample: Annotated[int, typer.Option("--sample", help="So many texts, drawn evenly.")] = 200,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Read of a text, at most.")] = 128,
    out: Annotated[Path, typer.Option("--out", help="Page to write.")] = Path("heads.html"),
) -> None:
    """Count and draw positional and vertical attention heads (TLM, 4.4.1), random weights beside each model."""
    from acclimate.analyses.attention import analyse_heads, sample_texts, write_page

    with errors_told(), screen() as console:
        if out.is_dir():
            raise ValueError(f"--out {out} is a folder; name the page to write, such as {out / 'heads.html'}")
        read = sample_texts(texts, column=column, size=sample)
        with watched(console, None, Path()) as watch:
            analysis = analyse_heads(models, read, source=texts.name, max_tokens=max_tokens, watch=watch)
        write_page(out, analysis)
        say(console, f"{analysis.as_text()}\nPage: {out}")


app.command()(embeddings)
app.command()(importance)
app.command()(vocabulary)
app.add_typer(study, name="study")


def main() -> None:
    """The entry point of the command `acclimate`."""
    # Threads that wait for each other sleep instead of spinning: on a machine with other work, spinning threads hold
    # the processor that the thread they wait for needs, and a step takes 15 times as long. Read when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    app()


def _show(console: Console, run: Path, *, anew: bool = False) -> None:
    from acclimate.core import ranks
    from acclimate.core.files import read_json
    from acclimate.jobs.job import check_format
    from acclimate.race.outcome import PAGE, TABLE, WINNER, read_scores, write_pages
    from acclimate.report.table import ALONE

    if ranks.is_first():
        if anew:
            check_format(run)
            write_pages(run)
        say(console, (run / TABLE).read_text(encoding="utf-8"))
        winner = read_json(run / WINNER / "race.json")["contestant"]
        winner = winner if len({score.contestant for score in read_scores(run)}) > 1 else ALONE
        say(console, f"Report: {run / PAGE}\nWinner: {run / WINNER} ({winner}, chosen on dev)")
