"""The options of the command line, each defined once: several verbs take the same files, columns and corpora.

An option that one verb alone has stands at that verb. A group is a mapping from the name of a parameter to typer's
annotation and the default; cli/verb.py puts a group's options in place of one parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

# Panels of --help
COMPARED, FILES, COLUMNS = "What is compared", "Labelled files", "Columns and labels"
RAW_TEXT, RUN, JOBS_RUN = "Raw text", "Run", "Where the jobs run"

Group = Mapping[str, tuple[Any, Any]]  # parameter -> its annotation for typer, its default


def begins_with(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return the function that completes what was typed on a shell to one of the names. Where nothing begins so, shells
    complete files.
    """
    return lambda incomplete: [name for name in names() if incomplete and name.startswith(incomplete)]


def _recipes() -> Iterable[str]:
    from acclimate.core.settings import recipe_names

    return recipe_names()


def _metrics() -> Iterable[str]:
    from acclimate.tasks.metrics import METRICS

    return METRICS


TASK_HELP = (
    "A labelled file to train on, a dataset of the hub (owner/name), 'arxiv' (included), or with --data a benchmark's "
    "dataset."
)
TaskName = Annotated[str, typer.Argument(metavar="TASK", help=TASK_HELP)]
TaskAfterModel = Annotated[str | None, typer.Argument(metavar="TASK", help=TASK_HELP, show_default=False)]
LabelledArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A labelled file to train on, or a dataset of the hub.")
]
ToPrepareArgument = Annotated[
    str,
    typer.Argument(metavar="FILE", help="A labelled file to train on, a dataset of the hub, or 'arxiv' (included)."),
]
ModelName = Annotated[
    str, typer.Argument(metavar="[MODEL]", help="A local directory or a hub id; by default embedded.")
]
ModelNames = Annotated[
    list[str] | None, typer.Argument(metavar="[MODEL]...", help="Local directories or hub ids; by default embedded.")
]
ContestantOption = Annotated[
    str,
    typer.Option(
        "--contestant",
        metavar="NAME",
        help="Use the model of this contestant instead of the recommended one. A race keeps the best encoder and "
        "the baseline.",
    ),
]
RaceDirectory = Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished race, or its baseline.")]
RunDirectory = Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished race or study.")]
ModelsAndSettings = Annotated[
    list[str], typer.Argument(metavar="MODEL... [KEY=VALUE]...", help="Local directories or hub ids, then settings.")
]

OutOption = Annotated[
    Path, typer.Option("--out", help="Directory of the run. Repeat the command to continue there.", rich_help_panel=RUN)
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print the plan and its cost, measured by two trial steps, without starting it.",
        rich_help_panel=RUN,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON document; progress and notes go to standard error.", rich_help_panel=RUN
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="A local directory, a hub id, or embedded: the encoder that comes with acclimate.",
        rich_help_panel=COMPARED,
    ),
]
StartOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="A local directory or a hub id; by default embedded, the encoder that comes with acclimate. scratch: "
        "pretrain a small one first.",
        rich_help_panel=COMPARED,
    ),
]
LeaksOption = Annotated[
    Literal["keep", "drop"],
    typer.Option(
        "--leaks",
        help="Labelled rows that contain a test text: keep them and score with and without them, or drop them.",
        rich_help_panel=FILES,
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder of a benchmark; TASK or FILE then names one of its datasets.",
        rich_help_panel=FILES,
    ),
]
Benchmark = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Folder of a benchmark, as created by `acclimate data fetch`."),
]
SeparatedOption = Annotated[
    Literal["line", "blank"],
    typer.Option(
        "--separated",
        help="How documents are separated in .txt files: one per line, or by blank lines.",
        rich_help_panel=RAW_TEXT,
    ),
]
RowsOption = Annotated[
    int, typer.Option("--rows", help="Number of training rows to sample; 0: all.", min=0, rich_help_panel=FILES)
]
ColumnOption = Annotated[str, typer.Option("--text", help="Column of the text in a table.")]
SampleOption = Annotated[int, typer.Option("--sample", help="Number of texts to sample.", min=1)]


def _option(name: str, kind: Any, default: Any, help: str, panel: str, *flags: str, **more: Any) -> tuple[str, Any]:
    """Return an entry of a group. flags: names beside `--name`; more: as of typer"""
    flag = f"--{name.replace('_', '-')}"
    return name, (Annotated[kind, typer.Option(flag, *flags, help=help, rich_help_panel=panel, **more)], default)


def _group(*options: tuple[str, Any]) -> Group:
    return dict(options)


LABELLED = _group(  # a user's labelled files
    _option(
        "dev", Path | None, None, "Labelled file for choices, or a split of the dataset; by default split off.", FILES
    ),
    _option("test", Path | None, None, "Labelled file for the final scores, or a split; by default split off.", FILES),
    _option("text", str, "text", "Column of the text.", COLUMNS),
    _option("pair", str | None, None, "Column of a second text.", COLUMNS),
    _option(
        "label",
        list[str] | None,
        None,
        "Column of the label. Repeat it to name a column of 0 and 1 for each label.  [default: label]",
        COLUMNS,
    ),
    _option(
        "labels",
        str,
        "",
        "Names of the classes 0, 1, ... or of the positions in vectors of 0 and 1, separated by commas.",
        COLUMNS,
    ),
    _option(
        "group",
        str | None,
        None,
        "Column whose equal values must stay in one split; or template (rows that differ only in numbers and "
        "names), or text (pairs that share a text).",
        COLUMNS,
    ),
    _option("id", str | None, None, "Column of the row ids.", COLUMNS),
    _option(
        "kind",
        Literal["auto", "sequence", "multilabel", "score", "tokens", "span", "search"],
        "auto",
        "sequence (one label per row), multilabel (several), score (a number), tokens (a tag per word), span (an "
        "answer in a text), search (a folder in BEIR's format); auto: by the labels.",
        COLUMNS,
        metavar="KIND",
    ),
    _option("separator", str, "", "Separator between several labels in one row.", COLUMNS),
    _option("fold_labels", bool, False, "Treat labels that differ only in case or spaces as one.", COLUMNS),
    _option(
        "repair", bool, False, "Correct simple faults, such as answers that begin a space early, and count them.", FILES
    ),
    _option(
        "metric",
        str,
        "",
        "macro_f1, accuracy, pearson, entity_f1, ...; the default depends on the kind.",
        COLUMNS,
        autocompletion=begins_with(_metrics),
    ),
    _option("max_tokens", int, 256, "Longest example in tokens; longer ones are cut.", COLUMNS),
    _option("split_seed", int, 0, "Seed of the random split if there is no dev or test file.", FILES, min=0),
)
HUB = _group(  # which part of a dataset of the hub, or of a saved one
    _option("config", str, "", "Configuration of a dataset of the hub.", FILES),
    _option("split", str, "", "Split of a dataset to train on; by default train.", FILES),
    _option("revision", str, "", "Commit, branch or tag of a dataset of the hub.", FILES),
)
RAW = _group(  # raw text
    _option(
        "corpus",
        list[Path] | None,
        None,
        "Raw text of the domain: a file, folder or dataset of the hub; may be repeated.",
        RAW_TEXT,
    ),
    _option(
        "general",
        Path | None,
        None,
        "General raw text for retrieval, or for pretraining with --model scratch.",
        RAW_TEXT,
    ),
    ("separated", (SeparatedOption, "line")),
)
JOBS = _group(  # where a study's jobs run
    _option("workers", int, 1, "Number of processes that run jobs at the same time.", JOBS_RUN, min=1),
    _option("cluster", str, "", "Ray cluster to run the jobs: auto, or HOST:PORT.", JOBS_RUN, "--ray"),
    _option(
        "threads",
        int,
        0,
        "Threads per job; 0: all processors, divided among the workers; on a cluster 1.",
        JOBS_RUN,
        min=0,
    ),
    _option("gpu_share", float, 0.0, "Share of a GPU for each job on a cluster.", JOBS_RUN, min=0),
)
TRACKING = _group(
    _option(
        "track",
        list[str] | None,
        None,
        "tensorboard, mlflow, wandb or trackio.",
        RUN,
        autocompletion=begins_with(lambda: ("tensorboard", "mlflow", "wandb", "trackio")),
    ),
)
RECIPE = _group(
    _option(
        "recipe",
        Path | None,
        None,
        "TOML file with settings, or one of `acclimate recipes`.",
        RUN,
        autocompletion=begins_with(_recipes),
    ),
)
Assignments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Settings as NAME=VALUE; `acclimate settings` lists them."),
]
ASSIGNMENTS: Group = {"assignments": (Assignments, None)}
