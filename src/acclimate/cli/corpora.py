"""The verbs `corpus` and `prepare`: raw text and labelled files made ready to train on. cli.py lists them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from acclimate.cli import options
from acclimate.cli.session import errors_told, models_and_settings, say, started, stated_recipe, tell_findings, watched

if TYPE_CHECKING:
    from acclimate.core.types import Watch
    from acclimate.tasks.labelled import Own

REPORT, TABLE = "report.md", "counts.csv"  # neither with an ending of raw text


def corpus(
    given: Annotated[
        list[str],
        typer.Argument(metavar="RAW... [KEY=VALUE]...", help="Files or folders of raw text; settings of the filters."),
    ],
    out: options.Out = Path("runs/corpus"),
    separated: options.Separated = "line",
    model: Annotated[
        str | None,
        typer.Option("--model", help="Also make the tokens that this model trains on: a directory or hub id."),
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", help="That work at once; 0: as many as there are processors.", min=0)
    ] = 0,
    memory: Annotated[
        int, typer.Option("--memory", help="Megabytes for the keys of documents while repeated ones are sought.", min=1)
    ] = 1024,
    recipe: options.RecipeFile = None,
) -> None:
    """Read, filter and de-duplicate raw text, with counts of all that is left out: OUT/corpus and a report."""
    from acclimate.core import files
    from acclimate.core.machines import processors
    from acclimate.text.preparation import CorpusRecipe, as_csv, as_text, prepare

    with errors_told(), started(out) as console:
        raw, settings = models_and_settings(given)
        chosen = stated_recipe(CorpusRecipe(), recipe, settings)
        at_once = processes or processors()
        with watched(console, None, out) as watch:
            done = prepare(
                [Path(each) for each in raw],
                out,
                chosen,
                separated=separated,
                processes=at_once,
                memory=memory << 20,
                watch=watch,
            )
            files.write_text(out / REPORT, as_text(done.facts) + "\n")
            files.write_text(out / TABLE, as_csv(done.facts))
            told = _tokens(done.path / "corpus", model, at_once, watch) if model else ""
        say(console, f"{as_text(done.facts)}\n{told}Corpus: {done.corpus.path}\nReport: {out / REPORT}")


def _tokens(path: Path, model: str, processes: int, watch: Watch) -> str:
    """Make them, and say how many."""
    from acclimate.models.encoder import load_tokenizer
    from acclimate.models.loading import resolved
    from acclimate.text.corpus import Corpus

    made = Corpus(path).tokens(load_tokenizer(Path(resolved(model))), processes=processes, watch=watch)
    return f"Tokens under {model}: {len(made.ids):,}\n"


@options.of_files
def prepare(
    task: options.Labelled,
    own: Own,
    leaks: options.Leaks = "keep",
    rows: options.Rows = 0,
    data: options.Data = None,
    out: options.Out = Path("runs/task"),
) -> None:
    """Read, split and check labelled files, and seal the test labels: OUT/data, a task for adapt. Trains nothing."""
    from acclimate.core import ranks
    from acclimate.data.inputs import made_ready
    from acclimate.race import race
    from acclimate.report.page import escaped

    with errors_told(), started(out) as console:
        with watched(console, None, out) as watch:
            read = race.labelled_rows(own, data, rows)
            made, labelled, found = made_ready(out, read, leaks=leaks, watch=watch)
        tell_findings(console, found)
        if ranks.is_first():
            sizes = ", ".join(f"{split} {size:,}" for split, size in made.sizes.items())
            said = (*labelled.notes, f"{made.name}: {sizes}; scored by {made.metric.name}", f"Task: {made.path}")
            say(console, "\n".join(map(escaped, said)))
