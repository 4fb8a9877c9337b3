"""The verbs of a race: doctor, race, evaluate, report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from acclimate.api.checks import (
    check_adaptations,
    check_directory,
    check_ended,
    check_files,
    check_models,
    check_race,
    check_settings,
    check_start,
)
from acclimate.api.race import RaceOrder, examine_files, order_race, plan_race, run_race
from acclimate.cli import options
from acclimate.cli.options import JOBS, TRACKING
from acclimate.cli.verb import Session, command, verb
from acclimate.core.settings import SEEDS
from acclimate.studies import FAILED, documents_of

INTERRUPTED_STATUS = 130  # of a process that ended at ctrl-C

if TYPE_CHECKING:
    from acclimate.data.gather import Raw
    from acclimate.reading.labelled_files import LabelledFiles


def _labelled_or_catalogue(parameters: Mapping[str, Any]) -> None:
    if parameters["data"] is None:
        check_files(parameters)
    if parameters["run"] is not None:
        check_race(parameters)


@verb(check=_labelled_or_catalogue)
def doctor(
    session: Session,
    task: options.LabelledArgument,
    labelled: LabelledFiles,
    raw: Raw,
    model: options.ModelOption = None,
    seeds: Annotated[int, typer.Option("--seeds", help="Number of seeds of the planned race.")] = SEEDS,
    contestants: Annotated[
        int,
        typer.Option("--contestants", help="Number of contestants of the planned race besides the untouched model."),
    ] = 4,
    run: Annotated[
        Path | None,
        typer.Option("--run", help="A finished race on this task, whose variance is used instead of a guess."),
    ] = None,
    data: options.DataOption = None,
    details: Annotated[bool, typer.Option("--details", help="Print all findings, and tables of all counts.")] = False,
    json: options.JsonOption = False,
) -> None:
    """Check labelled files, corpora and model, and say what a race could detect; changes nothing.

    With --data, count a benchmark's splits beside those of its paper. Exit status 1: mend something first.
    """
    if data is not None:
        _count_splits(session, task, data)
        return
    with session.watched() as watch:
        planned: dict[str, Any] = {"seeds": seeds, "contestants": contestants, "run": run}
        examination = examine_files(labelled, raw, model=model, **planned, watch=watch)
    if not json:
        session.say(examination.as_text(details=details))
    if json:
        session.give({"in_order": not examination.errors, **examination.to_json()})
    if examination.errors:
        raise typer.Exit(1)


def _count_splits(session: Session, catalogue: str, folder: Path) -> None:
    """The exit status is 1 if a count differs for no known reason, or cannot be made."""
    from dataclasses import asdict

    from acclimate.reading.published import count_catalogue

    with session.watched() as watch:
        counts = count_catalogue(catalogue, folder, watch=watch)
    if session.parameters["json"]:
        session.give({"in_order": counts.matches_paper, **asdict(counts)})
    else:
        session.say(counts.as_text())
    if not counts.matches_paper:
        raise typer.Exit(1)


def _files_and_budget(parameters: Mapping[str, Any]) -> None:
    from acclimate.data.checkpoints import parse_checkpoints
    from acclimate.races.planning.budget import check_budget, states_none
    from acclimate.races.planning.exclusions import check_options

    check_models([*parse_checkpoints(parameters["checkpoints"] or ()).values()])
    check_budget(parameters["budget"])
    typed = [f"{name}={parameters[name]}" for name in ("folds", "until") if parameters[name] is not None]
    if (recipe := check_settings("race", parameters, *typed)) is not None:
        names = ("probe_only", "learning_curve", "checkpoints")
        options = {name: bool(parameters[name]) for name in names}
        limited = parameters["budget"] is not None and not states_none(parameters["budget"])
        check_options(folds=recipe.folds, until=recipe.until, budget=limited, **options)
    check_adaptations(parameters)
    check_files(parameters)
    check_start(parameters)


@verb("race", JOBS, TRACKING, check=_files_and_budget)
def race(
    session: Session,
    task: options.TaskName,
    labelled: LabelledFiles,
    raw: Raw,
    model: options.StartOption = None,
    checkpoints: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoint",
            metavar="NAME=PATH",
            help="Your own encoder (a directory or hub id), compared with the untouched model without further "
            "adaptation. May be repeated.",
            rich_help_panel=options.COMPARED,
        ),
    ] = None,
    leaks: options.LeaksOption = "keep",
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            help="Limit of the race: 20min, 3PFLOP or 5usd@2.50/h; none for no limit.  [default: 1h]",
            rich_help_panel=options.COMPARED,
        ),
    ] = None,
    probe_only: Annotated[
        bool,
        typer.Option(
            "--probe-only",
            help="Adapt and probe each frozen encoder, without fine-tuning. 'contestants=[\"TF-IDF\"]' also skips "
            "adaptation. Repeat the command without this option to continue with the race.",
            rich_help_panel=options.COMPARED,
        ),
    ] = False,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Race every contestant whose texts are given, not only the defaults.",
            rich_help_panel=options.COMPARED,
        ),
    ] = False,
    rows: options.RowsOption = 0,
    data: options.DataOption = None,
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds",
            help="Score by cross-validation with this number of folds, repeated for each seed, instead of one test "
            "set. For few labelled rows. The same as folds=K.",
            rich_help_panel=options.COMPARED,
        ),
    ] = None,
    until: Annotated[
        Literal["rounds", "settled"] | None,
        typer.Option(
            "--until",
            help="settled: continue round by round until the answer is settled, the budget is used or 20 rounds "
            "are done. The same as until=settled.",
            rich_help_panel=options.COMPARED,
        ),
    ] = None,
    learning_curve: Annotated[
        bool,
        typer.Option(
            "--learning-curve",
            help="Afterwards score the untouched model and the best adapted one with 12.5, 25 and 50% of the "
            "labels, to measure the worth of adapting in labels.",
            rich_help_panel=options.COMPARED,
        ),
    ] = False,
    out: options.OutOption = Path("runs/race"),
    dry_run: options.DryRunOption = False,
    json: options.JsonOption = False,
) -> None:
    """Compare ways of adapting a model on a task: answer, tables, report and the model to use."""
    from dataclasses import replace

    from acclimate.data.checkpoints import parse_checkpoints
    from acclimate.data.gather import Inputs
    from acclimate.models.loading import start_of
    from acclimate.races import race
    from acclimate.races.recipe import ALL, heeded, stated_methods

    start = start_of(model)
    usual = race.recipe_for(start, stated_methods(session.parameters.get("assignments") or ()))
    if folds is not None:
        usual = replace(usual, folds=folds)
    if until is not None:
        usual = replace(usual, until=until)
    if every:
        usual = replace(usual, contestants=(ALL,))
    recipe = session.note(heeded(session.recipe, usual))
    models = () if start is None else (start,)
    inputs = Inputs(out, task=labelled, raw=raw, models=models, data=data, leaks=leaks, rows=rows)
    order = order_race(
        recipe,
        usual,
        inputs,
        command=command(),
        budget=budget,
        probe_only=probe_only,
        learning_curve=learning_curve,
        checkpoints=parse_checkpoints(checkpoints or ()),
    )
    session.model_or_embedded(model)
    _run(session, order)


def _run(session: Session, order: RaceOrder) -> None:
    """Run a race and print its table, or say what it would still do and cost."""
    from acclimate.api.screen import watching
    from acclimate.races.outcome import INTERRUPTED
    from acclimate.races.report import text_of

    out, json = order.inputs.out, session.parameters.get("json")
    for note in order.notes:
        session.say(f"Budget: {note}.")
    if session.parameters["dry_run"]:
        with watching(session.console) as watch:
            dry_run = plan_race(order.watched_by(watch))
        if json:
            session.give(dry_run.as_document())
        else:
            session.say(dry_run.as_text())
        return
    with session.watched() as watch:
        end = run_race(order.watched_by(watch), examine=session.tell_findings)
    session.say(text_of(end.report))
    _tell_use(session, out)
    if end.curves is not None:
        session.say(end.curves.text)
    if json:
        session.give({"directory": str(out), "studies": documents_of(out)})
    if end.report.facts.stopped == INTERRUPTED:
        session.say(f"The race was interrupted. To continue: {order.command}")
        session.status = INTERRUPTED_STATUS
        return
    session.status = FAILED if end.failed else 0


def _without_model(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return what was typed of MODEL TASK SETTINGS, where MODEL may be missing: then the task was taken for it."""
    task = parameters["task"]
    if task is None or ("=" in task and not Path(task).exists()):
        settings = [setting for setting in (task, *(parameters["assignments"] or ())) if setting is not None]
        return {**parameters, "model": None, "task": parameters["model"], "assignments": settings or None}
    return parameters


def _model_then_task(parameters: Mapping[str, Any]) -> None:
    from acclimate.reading.published import check_order

    if parameters["model"] is not None:
        check_order(parameters["model"], parameters["task"])
    elif any((Path(parameters["task"]) / place).is_file() for place in ("config.json", "checkpoint/config.json")):
        raise ValueError(
            f"{parameters['task']} is a model, and no task is given. Add one: evaluate {parameters['task']} TASK"
        )
    check_files(parameters)


@verb("evaluate", JOBS, TRACKING, check=_model_then_task, arrange=_without_model)
def evaluate(
    session: Session,
    model: options.ModelName,
    labelled: LabelledFiles,
    task: options.TaskAfterModel = None,
    rows: options.RowsOption = 0,
    data: options.DataOption = None,
    out: options.OutOption = Path("runs/evaluate"),
    dry_run: options.DryRunOption = False,
    json: options.JsonOption = False,
) -> None:
    """Fine-tune one model on a task with several seeds, choose on dev, test once; mean score and interval."""
    from dataclasses import replace

    from acclimate.data.gather import Inputs
    from acclimate.races.recipe import for_model, heeded

    recipe = session.note(replace(heeded(session.recipe, for_model()), contestants=()))
    models = (session.model_or_embedded(model),)
    inputs = Inputs(out, task=labelled, models=models, data=data, rows=rows)
    _run(session, order_race(recipe, recipe, inputs, command=command(), budget="none"))


def _check_version(parameters: Mapping[str, Any]) -> None:
    from acclimate.jobs.job import check_format

    check_directory(parameters)
    check_format(parameters["run"])
    check_ended(parameters)


@verb(check=_check_version)
def report(session: Session, run: options.RunDirectory, json: options.JsonOption = False) -> None:
    """Write page and tables of a finished race or study again, and print the tables."""
    from acclimate.jobs.lock import check_outcomes
    from acclimate.studies import write_again

    check_outcomes(run)
    session.say(write_again(run))
    if json:
        session.give({"directory": str(run), "studies": documents_of(run)})
    _tell_use(session, run)


def _tell_use(session: Session, run: Path) -> None:
    """Print where the report of a race is and which model to use; nothing if `run` holds another study."""
    import shlex

    from acclimate.jobs.lock import ENCODER, FITTED, USE
    from acclimate.races.outcome import path_of, read_outcome
    from acclimate.races.report import PAGE, RACE

    if not path_of(run, RACE).exists():
        return
    outcome = read_outcome(path_of(run, RACE))
    assert outcome.race is not None
    lines = [f"Report: {run / PAGE}"]
    if any(result.task.kind == "search" for result in outcome.results):
        if outcome.race.use and outcome.race.use not in outcome.baselines:
            lines.append(f"The model to use is in {run / USE}: acclimate embed and sentence-transformers load it")
    elif outcome.race.use:
        lines.append(f"Share it: acclimate ship {run} --to FOLDER")
        if any(result.task.kind == "tokens" for result in outcome.results):
            lines.append("For plain text with one sentence per line, add --format txt")
    if (run / ENCODER).exists():
        option = f"--contestant {shlex.quote(outcome.race.encoder)}"
        lines.append(f"The best encoder is in {run / ENCODER}: add {option} to use {outcome.race.encoder}")
    elif outcome.race.handed_over and not outcome.race.use:
        lines.append(outcome.race.handed_over)
    if not outcome.race.use and (run / FITTED).exists():
        lines.append(f"The baseline is in {run / FITTED}")
    session.say("\n".join(lines))
