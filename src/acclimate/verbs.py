"""Verbs that stand for themselves, outside a race; cli.py, which has the others, lists them all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acclimate import options
from acclimate.session import errors_told, say, screen, started, stated_recipe, tell_findings, watched

if TYPE_CHECKING:
    from acclimate.study.gathering import Raw
    from acclimate.tasks.own import Own


@options.of_files
def retrieve(
    own: Own,
    task: options.Asking = None,
    assignments: options.Assignments = None,
    corpus: Annotated[
        Path | None, typer.Option("--corpus", help="Raw text to retrieve from, a file or folder.")
    ] = None,
    separated: options.Separated = "line",
    k: options.K = None,
    how: options.How = None,
    queries: options.Queries = None,
    cut_from: options.From = None,
    shards: Annotated[int, typer.Option("--shards", help="Cut the index into so many.", min=1)] = 1,
    cluster: Annotated[
        str, typer.Option("--cluster", help="Ray cluster that works on the shards: auto, or HOST:PORT.")
    ] = "",
    out: options.Out = Path("runs/retrieve"),
    recipe: options.RecipeFile = None,
) -> None:
    """Retrieve the documents that training texts resemble (TLM): OUT/corpus, who brought which, and a report.

    Or cut a smaller K from what was retrieved before, with --from and --k.
    """
    from acclimate.core import ranks
    from acclimate.study import retrieving
    from acclimate.study.retrieval_launch import for_files

    with errors_told(), started(out) as console:
        stated = {"k": k, "how": how, "queries": queries}
        settings = [*(assignments or []), *(f"{name}={value}" for name, value in stated.items() if value is not None)]
        with watched(console, None, out) as watch:
            if cut_from is not None:
                if k is None or settings != [f"k={k}"] or task or corpus or recipe or own != type(own)(train=own.train):
                    raise ValueError(
                        f"--from {cut_from} cuts what was retrieved there: give --k and --out, nothing else"
                    )
                done = ranks.first_then_all(lambda: retrieving.cut(cut_from, k, out, watch=watch))
            else:
                if task is None or corpus is None:
                    what = (
                        "no FILE given whose texts ask"
                        if task is None
                        else "no corpus given. Add --corpus PATH, raw text"
                    )
                    raise ValueError(f"{what}; or cut a smaller K from a retrieval with --from RUN --k NUMBER")
                chosen = stated_recipe(retrieving.Recipe(), recipe, settings)
                given: dict[str, Any] = {"separated": separated, "shards": shards, "cluster": cluster, "watch": watch}
                done = for_files(own, corpus, out, chosen, **given)
        say(console, done.as_text())
        say(console, f"Documents: {done.corpus.path}\nWho brought which: {done.selection.path}")


def fetch(
    catalogue: Annotated[
        str, typer.Argument(metavar="CATALOGUE", help="blurb or questions; with --from also tlm, dga, glue.")
    ],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder to fill; the same command goes on there.")],
    source: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="A copy to take the files from, in place of the web.")
    ] = None,
) -> None:
    """Fetch a benchmark's files from where they are published, checked by their hashes; or check and take a copy."""
    from acclimate.core import files
    from acclimate.study import fetching
    from acclimate.study.counting import datasets_of

    with errors_told(), screen() as console:
        datasets = datasets_of(catalogue)
        with files.hold(to), watched(console, None, to) as watch:
            if source is None:
                done = fetching.fetch(datasets, to, watch=watch)
            else:
                done = fetching.copy(datasets, source, to, watch=watch)
        say(console, f"{done.as_text()}\nTo count what is there: acclimate doctor {catalogue} --data {to}")


def blurb(
    given: Annotated[
        list[str],
        typer.Argument(metavar="MODEL... [KEY=VALUE]...", help="Directories or hub ids; settings of the run."),
    ],
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Folder that `acclimate fetch blurb` filled.")],
    out: options.Out = Path("runs/blurb"),
    recipe: options.RecipeFile = None,
    track: options.Track = None,
    dry_run: options.DryRun = False,
) -> None:
    """Fine-tune and test models on all of BLURB: a row a dataset, a column a model, the BLURB score."""
    from acclimate.study.benchmark import run_benchmark
    from acclimate.study.benchmark_page import as_text
    from acclimate.study.benchmark_plan import plan
    from acclimate.study.benchmark_recipe import Recipe
    from acclimate.study.outcome import PAGE
    from acclimate.study.recipe import heeded

    with errors_told(), started(out, held=not dry_run) as console:
        models, assignments = _models_and_settings(given)
        stated = heeded(stated_recipe(Recipe(), recipe, assignments), Recipe())
        if dry_run:
            say(console, plan(stated, models, data, out).as_text())
            return
        with watched(console, track, out) as watch:
            found = run_benchmark(stated, models, data, out, watch=watch)
        say(console, f"{as_text(found)}\nReport: {out / PAGE}")


@options.of_files
def grid(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="retrieval, k, rho_1, rho_2, stages, model or search of TLM; layers, schemes or relations of BLURB.",
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
    from acclimate.study import choices, launch
    from acclimate.study import grid as grids
    from acclimate.study.choices_plan import plan
    from acclimate.study.choices_recipe import STUDIES
    from acclimate.study.choices_recipe import Recipe as Choices
    from acclimate.study.recipe import Recipe as Race

    with errors_told(), started(out, held=not dry_run) as console:
        if study not in (known := [*grids.STUDIES, *STUDIES]):
            raise ValueError(f"no study is called '{study}'. Known: {', '.join(known)}")
        given: dict[str, Any] = {"model": model, "leaks": leaks, "labels_per_class": labels_per_class}
        if study in STUDIES and data is not None:
            if (own, raw, [*given.values()]) != (type(own)(train=own.train), type(raw)(), [None, "keep", None]):
                raise ValueError(
                    f"with --data the study '{study}' runs on the datasets there: name models after it, and leave "
                    f"--model and the options for files of your own out"
                )
            models, settings = _models_and_settings([task, *(assignments or [])])
            chosen = stated_recipe(Choices(), recipe, settings)
            if dry_run:
                say(console, plan(study, chosen, models, data, out).as_text())
                return
            with watched(console, None, out) as watch:
                say(console, choices.run_on_catalogue(study, chosen, models, data, out, watch=watch).text)
            return
        if dry_run:
            raise ValueError("--dry-run is for the studies layers, schemes and relations with --data. Leave it out")
        if study in STUDIES:
            run: Any = choices.run_on_task
            stated = stated_recipe(Choices(), recipe, assignments)
            choices.check_own(study, stated, model)  # before any file is read
        else:
            run, stated = grids.run_grid, stated_recipe(grids.Recipe(), recipe, assignments)
            if study != "model":
                grids.variants(study, stated)
        with watched(console, None, out) as watch:
            found = launch.materials_of(own, raw, out, Race(seeds=stated.seeds), **given, data=data, watch=watch)
            tell_findings(console, found.examination)
            done = run(study, stated, found, out, watch=watch)
        say(console, done.text)


def _models_and_settings(given: list[str]) -> tuple[list[str], list[str]]:
    settings = [each for each in given if "=" in each and not Path(each).is_dir()]
    return [each for each in given if each not in settings], settings


def count_splits(catalogue: str, folder: Path) -> None:
    """`doctor` of a benchmark's folder. Exit status 1 where a count differs for no known reason, or cannot be made."""
    from acclimate.study.counting import count

    with errors_told(), screen() as console:
        with watched(console, None, folder) as watch:
            found = count(catalogue, folder, watch=watch)
        say(console, found.as_text())
    if not found.in_order:
        raise typer.Exit(1)
