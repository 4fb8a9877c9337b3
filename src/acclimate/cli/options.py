"""The options of the command line, each defined once: several verbs take the same files, columns and corpora."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

if TYPE_CHECKING:
    from acclimate.data.inputs import Raw
    from acclimate.jobs.workers import Where
    from acclimate.tasks.labelled import Own

TaskName = Annotated[
    str, typer.Argument(metavar="TASK", help="A labelled file to train on, docstrings, or with --data a dataset.")
]
Labelled = Annotated[Path, typer.Argument(metavar="FILE", help="A labelled file to train on.")]
Asking = Annotated[Path | None, typer.Argument(metavar="FILE", help="A labelled file; its training texts ask.")]
Assignments = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings of the recipe.")]
Out = Annotated[Path, typer.Option("--out", help="Directory of the run; the same command goes on there.")]
RecipeFile = Annotated[Path | None, typer.Option("--recipe", help="TOML file that states settings.")]
Model = Annotated[str | None, typer.Option("--model", help="A local directory or a hub id.")]
Track = Annotated[list[str] | None, typer.Option("--track", help="tensorboard, mlflow, wandb or trackio.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and what it costs; start nothing.")]
Budget = Annotated[str | None, typer.Option("--budget", help="Such as 20min, 3PFLOP or 5usd@2.50/h.")]
Leaks = Annotated[
    Literal["keep", "drop"], typer.Option("--leaks", help="Labelled rows that hold a test text: keep, score both ways.")
]
K = Annotated[int | None, typer.Option("--k", help="Documents a query, 1 to 10,000 (50).")]
How = Annotated[
    Literal["bm25", "random"] | None, typer.Option("--how", help="random: as many documents as BM25 finds, drawn.")
]
Queries = Annotated[
    Literal["text", "keywords"] | None, typer.Option("--queries", help="Whole texts, or keywords of long ones.")
]
From = Annotated[
    Path | None, typer.Option("--from", metavar="RUN", help="A finished retrieval to cut a smaller K from.")
]
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Folder of a benchmark; TASK or FILE then names what is in it."),
]
Separated = Annotated[Literal["line", "blank"], typer.Option("--separated", help="How documents stand in .txt files.")]
Rows = Annotated[int, typer.Option("--rows", help="Train on so many rows, drawn, every class among them.", min=0)]
PerClass = Annotated[
    int | None, typer.Option("--labels-per-class", help="docstrings: so many labels a class (32); 0: all.")
]

offered: ContextVar[frozenset[str]] = ContextVar("offered", default=frozenset())  # options of the verb that runs
_Options = Mapping[str, tuple[Any, Any]]  # parameter -> its annotation for typer, its default

_OWN: _Options = {
    "dev": (
        Annotated[Path | None, typer.Option("--dev", help="Labelled file to choose on; else split off FILE.")],
        None,
    ),
    "test": (
        Annotated[Path | None, typer.Option("--test", help="Labelled file to score on, once; else split off FILE.")],
        None,
    ),
    "text": (Annotated[str, typer.Option("--text", help="Column of the text.")], "text"),
    "pair": (Annotated[str | None, typer.Option("--pair", help="Column of a second text.")], None),
    "label": (Annotated[str, typer.Option("--label", help="Column of the label.")], "label"),
    "group": (
        Annotated[str | None, typer.Option("--group", help="Column of what stays on one side of a split.")],
        None,
    ),
    "id": (Annotated[str | None, typer.Option("--id", help="Column of the rows' ids.")], None),
    "kind": (
        Annotated[
            Literal["auto", "sequence", "multilabel", "score", "tokens", "span"],
            typer.Option(
                "--kind", help="One label a row, several, a number to predict, a tag a word (tokens), an answer (span)."
            ),
        ],
        "auto",
    ),
    "separator": (Annotated[str, typer.Option("--separator", help="What stands between several labels of a row.")], ""),
    "fold_labels": (
        Annotated[bool, typer.Option("--fold-labels", help="Labels that differ by case or spaces are one.")],
        False,
    ),
    "metric": (
        Annotated[str, typer.Option("--metric", help="macro_f1, accuracy, pearson, entity_f1, ...; else by kind.")],
        "",
    ),
    "max_tokens": (Annotated[int, typer.Option("--max-tokens", help="Longer examples are cut.")], 256),
    "split_seed": (
        Annotated[int, typer.Option("--split-seed", help="Of the split that is made where no file is given.")],
        0,
    ),
}
_RAW: _Options = {
    "corpus": (
        Annotated[Path | None, typer.Option("--corpus", help="Raw text of the domain, a file or folder.")],
        None,
    ),
    "general": (
        Annotated[
            Path | None,
            typer.Option("--general", help="Raw text to retrieve from (TLM), or to pretrain on."),
        ],
        None,
    ),
    "separated": (Separated, "line"),
}

_WHERE: _Options = {
    "workers": (
        Annotated[int, typer.Option("--workers", help="Processes that share the jobs; 1: this one does all.", min=1)],
        1,
    ),
    "cluster": (
        Annotated[str, typer.Option("--cluster", "--ray", help="Ray cluster that does them: auto, or HOST:PORT.")],
        "",
    ),
    "threads": (
        Annotated[int, typer.Option("--threads", help="Of each job; 0: processors by workers, on a cluster 1.", min=0)],
        0,
    ),
    "gpu_share": (
        Annotated[float, typer.Option("--gpu-share", help="Of a GPU that each job on a cluster claims.", min=0)],
        0.0,
    ),
}


def of_files(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with the options of labelled files in place of its parameter `own`, those of raw text for `raw`, and for
    `where` those of where jobs run.

    Its parameter `task` names the file to train on.
    """
    signature = inspect.signature(verb)
    hints = get_type_hints(verb, localns={"Own": Any, "Raw": Any, "Where": Any}, include_extras=True)
    groups = {"own": _OWN, "raw": _RAW, "where": _WHERE}
    taken = {name: options for name, options in groups.items() if name in signature.parameters}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name not in taken:
            parameters.append(parameter.replace(annotation=hints[name]))
            continue
        for option, (annotation, default) in taken[name].items():
            parameters.append(inspect.Parameter(option, parameter.kind, default=default, annotation=annotation))

    @wraps(verb)
    def parsed(**given: Any) -> None:
        offered.set(frozenset({*given} - {"assignments", "task"}))
        values = {name: {option: given.pop(option) for option in options} for name, options in taken.items()}
        made: dict[str, Callable[..., Any]] = {"own": _own, "raw": _raw, "where": _where}
        verb(**given, **{name: made[name](given.get("task"), **stated) for name, stated in values.items()})

    # typer reads these; a wrapped function's would be the verb's
    parsed.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    parsed.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return parsed


def _own(train: str | Path | None, *, split_seed: int, **stated: Any) -> Own:
    from acclimate.tasks.labelled import Own

    return Own(train=Path(train or ""), seed=split_seed, **stated)


def _where(train: str | Path | None, **stated: Any) -> Where:
    from acclimate.jobs.workers import Where

    return Where(**stated)


def _raw(train: str | Path, *, corpus: Path | None, general: Path | None, separated: Literal["line", "blank"]) -> Raw:
    from acclimate.data.inputs import Raw

    return Raw(corpus, general, separated)
