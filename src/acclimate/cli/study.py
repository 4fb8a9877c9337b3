"""The group `study`: the papers' studies, and how far a study is, whether its results are its own, its tables again."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acclimate.cli import options
from acclimate.cli.options import JOBS, TRACKING
from acclimate.cli.verb import Session, verb

if TYPE_CHECKING:
    from collections.abc import Callable

    from acclimate.data.inputs import Raw
    from acclimate.tasks.labelled import Own

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="--out of race, evaluate or a study.")]
PAPERS, RUNS = "The papers' studies", "A study that runs or has run"

study = typer.Typer(help="Repeat the papers' studies on your data; look at a study's state.", no_args_is_help=True)


@study.command(rich_help_panel=PAPERS)
@verb("tlm-study", JOBS)
def tlm(
    session: Session,
    varied: Annotated[
        str,
        typer.Argument(metavar="VARIED", help="retrieval, k, rho_1, rho_2, stages, model or search."),
    ],
    task: options.TaskName,
    own: Own,
    raw: Raw,
    model: options.Model = None,
    leaks: options.Leaks = "keep",
    labels_per_class: options.PerClass = None,
    data: options.Data = None,
    out: options.Out = Path("runs/tlm"),
) -> None:
    """TLM: vary one thing, all else and the seeds the same, and compare on dev."""
    from acclimate.studies import tlm

    _check_known(varied, tlm.STUDIES)
    stated = session.recipe(tlm.TlmStudyRecipe())
    if varied != "model":
        tlm.variants(varied, stated)
    given: dict[str, Any] = {"model": model, "leaks": leaks, "labels_per_class": labels_per_class, "data": data}
    _on_task(session, varied, tlm.run_grid, own, raw, stated, out, given)


@study.command(rich_help_panel=PAPERS, context_settings={"ignore_unknown_options": True})  # Session.listed refuses them
@verb("choices", JOBS)
def choices(
    session: Session,
    varied: Annotated[str, typer.Argument(metavar="VARIED", help="layers, schemes or relations.")],
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|MODEL... [KEY=VALUE]...",
            help="A labelled file, with --model; or with --data models, on BLURB's datasets. Then settings.",
        ),
    ],
    own: Own,
    raw: Raw,
    model: options.Model = None,
    leaks: options.Leaks = "keep",
    data: options.Data = None,
    out: options.Out = Path("runs/choices"),
    dry_run: options.DryRun = False,
) -> None:
    """BLURB's Tables 10 to 12: layers over the encoder, schemes of tags, encodings of relations."""
    from acclimate.studies import choices

    _check_known(varied, choices.STUDIES)
    names, _ = session.listed()
    if data is None:
        if len(names) != 1:
            raise ValueError(f"{' '.join(names)}: name one labelled file; with --data DIR, one model or more")
        if dry_run:
            raise ValueError("--dry-run of this study needs --data, the folder of BLURB's datasets. Leave it out")
        stated = session.recipe(choices.ChoicesRecipe())
        choices.check_own(varied, stated, model)  # before any file is read
        _on_task(session, varied, choices.run_on_task, own, raw, stated, out, {"model": model, "leaks": leaks})
        return
    if (own, raw, model, leaks) != (type(own)(train=own.train), type(raw)(), None, "keep"):
        raise ValueError(
            f"the study '{varied}' runs on datasets: name models after it, and leave --model and the options for files "
            f"of your own out"
        )
    stated = session.recipe(choices.ChoicesRecipe())
    if dry_run:
        session.say(choices.plan(varied, stated, names, data, out).as_text())
        return
    with session.watched() as watch:
        session.say(choices.run_on_catalogue(varied, stated, names, data, out, watch=watch).text)


@study.command(rich_help_panel=PAPERS)
@verb("tapter-study", JOBS)
def tapter(
    session: Session,
    task: options.TaskName,
    own: Own,
    raw: Raw,
    model: options.Model = None,
    leaks: options.Leaks = "keep",
    data: options.Data = None,
    out: options.Out = Path("runs/tapter"),
    dry_run: options.DryRun = False,
) -> None:
    """TAPTER's Table 2: the model as it is, TAPT and TAPTER, over two stages of fine-tuning."""
    from acclimate.studies import tapter

    stated = session.recipe(tapter.TapterStudyRecipe())
    given: dict[str, Any] = {"model": model, "leaks": leaks, "data": data}
    _on_inputs(session, tapter, tapter.run_two_stages, own, raw, stated, out, given)


@study.command(rich_help_panel=PAPERS)
@verb("dga-study", JOBS)
def dga(
    session: Session,
    task: options.TaskName,
    own: Own,
    raw: Raw,
    model: options.Model = None,
    leaks: options.Leaks = "keep",
    data: options.Data = None,
    out: options.Out = Path("runs/dga"),
    dry_run: options.DryRun = False,
) -> None:
    """DGA's Tables 2 to 5: ten ways of adapting on raw text of a domain, with equal steps."""
    from acclimate.studies import dga

    stated = session.recipe(dga.DgaStudyRecipe())
    given: dict[str, Any] = {"model": model, "leaks": leaks, "data": data}
    _on_inputs(session, dga, dga.run_domain_methods, own, raw, stated, out, given)


@study.command(rich_help_panel=PAPERS, context_settings={"ignore_unknown_options": True})  # Session.listed refuses them
@verb("stilt-study", JOBS)
def stilt(
    session: Session,
    given: options.ModelsAndSettings,
    data: options.Benchmark = None,
    out: options.Out = Path("runs/stilt"),
    dry_run: options.DryRun = False,
) -> None:
    """Jeong and Hwang's matrix: fine-tune on every ordered pair of tasks, one after the other, with controls."""
    from acclimate.studies.stilt import STUDY, StiltStudyRecipe, as_text, plan, run_matrix

    models, _ = session.listed()
    stated = session.recipe(StiltStudyRecipe())
    if dry_run:
        session.say(plan(stated, models, data, out).as_text())
        return
    with session.watched() as watch:
        found = run_matrix(stated, models, data, out, watch=watch)
    session.say(f"{as_text(found)}\nReport: {out / STUDY}.html")


@study.command(rich_help_panel=PAPERS, context_settings={"ignore_unknown_options": True})  # Session.listed refuses them
@verb("blurb", JOBS, TRACKING)
def blurb(
    session: Session,
    given: options.ModelsAndSettings,
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Folder that `acclimate data fetch blurb` filled.")
    ],
    out: options.Out = Path("runs/blurb"),
    dry_run: options.DryRun = False,
) -> None:
    """Fine-tune and test models on all of BLURB: a row a dataset, a column a model, the BLURB score."""
    from acclimate.race.outcome import PAGE
    from acclimate.race.recipe import heeded
    from acclimate.studies.blurb import BlurbRecipe, as_text, plan, run_benchmark

    models, _ = session.listed()
    stated = session.note(heeded(session.recipe(BlurbRecipe()), BlurbRecipe()))
    if dry_run:
        session.say(plan(stated, models, data, out).as_text())
        return
    with session.watched() as watch:
        found = run_benchmark(stated, models, data, out, watch=watch)
    session.say(f"{as_text(found)}\nReport: {out / PAGE}")


@study.command(rich_help_panel=RUNS)
@verb()
def status(session: Session, run: Directory) -> None:
    """Say what is done, running, failed and waiting, and the time left; changes nothing."""
    from acclimate.jobs.status import status_of
    from acclimate.report.page import escaped

    typer.echo("\n".join(map(escaped, status_of(run).as_text().splitlines())))


@study.command(rich_help_panel=RUNS)
@verb()
def verify(session: Session, run: Directory) -> None:
    """Compare results with study.lock.json, written when the study ended. The exit status is 1 if one differs."""
    from acclimate.jobs.lock import LOCK, differing

    found = differing(run)
    if found:
        typer.echo("\n".join(found))
        raise typer.Exit(1)
    typer.echo(f"All results are those of {run / LOCK}.")


@study.command(rich_help_panel=RUNS)
@verb()
def regenerate(session: Session, context: typer.Context, run: Directory) -> None:
    """Write every table and page again from the results that study.lock.json has; runs nothing."""
    from acclimate.studies import regenerate

    def play(arguments: list[str]) -> object:
        return context.find_root().command.main(arguments, prog_name="acclimate", standalone_mode=False)

    if not regenerate.regenerate(run, play):
        raise ValueError(
            f"the tables of {run} were not written again: which results they are made of is found in the files "
            f"that the study's command names, read once more. Put back what is missing; the results are untouched"
        )
    typer.echo(f"Written again from the results of {run}.")


def _check_known(varied: str, known: Any) -> None:
    if varied not in known:
        raise ValueError(f"'{varied}' is nothing that this study varies. Known: {', '.join(known)}")


def _on_task(
    session: Session,
    varied: str,
    run: Callable[..., Any],
    own: Own,
    raw: Raw,
    recipe: Any,
    out: Path,
    given: dict[str, Any],
) -> None:
    """Run a study that varies one thing on the user's task."""
    from acclimate.race import race
    from acclimate.race.recipe import RaceRecipe

    with session.watched() as watch:
        settings = RaceRecipe(seeds=recipe.seeds, contestants=())
        found = race.materials_of(own, raw, out, settings, **given, watch=watch)
        session.tell_findings(found.examination)
        done = run(varied, recipe, found, out, watch=watch)
    session.say(done.text)


def _on_inputs(
    session: Session,
    study: ModuleType,
    run: Callable[..., Any],
    own: Own,
    raw: Raw,
    recipe: Any,
    out: Path,
    given: dict[str, Any],
) -> None:
    """Run a study whose module says what it runs on, or print what it would cost."""
    from tempfile import TemporaryDirectory

    if session.given["dry_run"]:
        with TemporaryDirectory() as place:
            found = study.given(own, raw, recipe, Path(place), **given)
            session.say(study.foreseen(recipe, found, out).as_text())
        return
    with session.watched() as watch:
        found = study.given(own, raw, recipe, out, **given, watch=watch)
        session.tell_findings(found.examination)
        session.say(run(recipe, found, out, watch=watch).text)
