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


TaskName = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="A labelled file to train on, a dataset of the hub (owner/name), 'arxiv' (included), or with --data a "
        "benchmark's dataset.",
    ),
]
TaskAfterModel = Annotated[
    str | None,
    typer.Argument(
        metavar="TASK",
        help="A labelled file to train on, a dataset of the hub (owner/name), 'arxiv' (included), or with --data a "
        "benchmark's dataset.",
        show_default=False,
    ),
]
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


def _option(kind: Any, name: str, help: str, panel: str, **more: Any) -> Any:
    return Annotated[kind, typer.Option(name, help=help, rich_help_panel=panel, **more)]


LABELLED: Group = {  # a user's labelled files
    "dev": (
        _option(
            Path | None, "--dev", "Labelled file for choices, or a split of the dataset; by default split off.", FILES
        ),
        None,
    ),
    "test": (
        _option(Path | None, "--test", "Labelled file for the final scores, or a split; by default split off.", FILES),
        None,
    ),
    "text": (_option(str, "--text", "Column of the text.", COLUMNS), "text"),
    "pair": (_option(str | None, "--pair", "Column of a second text.", COLUMNS), None),
    "label": (
        _option(
            list[str] | None,
            "--label",
            "Column of the label. Repeat it to name a column of 0 and 1 for each label.  [default: label]",
            COLUMNS,
        ),
        None,
    ),
    "labels": (
        _option(
            str,
            "--labels",
            "Names of the classes 0, 1, ... or of the positions in vectors of 0 and 1, separated by commas.",
            COLUMNS,
        ),
        "",
    ),
    "group": (
        _option(
            str | None,
            "--group",
            "Column whose equal values must stay in one split; or template (rows that differ only in numbers and "
            "names), or text (pairs that share a text).",
            COLUMNS,
        ),
        None,
    ),
    "id": (_option(str | None, "--id", "Column of the row ids.", COLUMNS), None),
    "kind": (
        _option(
            Literal["auto", "sequence", "multilabel", "score", "tokens", "span", "search"],
            "--kind",
            "sequence (one label a row), multilabel (several), score (a number), tokens (a tag a word), span (an "
            "answer in a text), search (a folder in BEIR's format); auto: by the labels.",
            COLUMNS,
            metavar="KIND",
        ),
        "auto",
    ),
    "separator": (_option(str, "--separator", "Separator between several labels in one row.", COLUMNS), ""),
    "fold_labels": (
        _option(bool, "--fold-labels", "Treat labels that differ only in case or spaces as one.", COLUMNS),
        False,
    ),
    "repair": (
        _option(
            bool, "--repair", "Correct simple faults, such as answers that begin a space early, and count them.", FILES
        ),
        False,
    ),
    "metric": (
        _option(
            str,
            "--metric",
            "macro_f1, accuracy, pearson, entity_f1, ...; the default depends on the kind.",
            COLUMNS,
            autocompletion=begins_with(_metrics),
        ),
        "",
    ),
    "max_tokens": (_option(int, "--max-tokens", "Longest example in tokens; longer ones are cut.", COLUMNS), 256),
    "split_seed": (
        _option(int, "--split-seed", "Seed of the random split if there is no dev or test file.", FILES, min=0),
        0,
    ),
}
HUB: Group = {  # which part of a dataset of the hub, or of a saved one
    "config": (_option(str, "--config", "Configuration of a dataset of the hub.", FILES), ""),
    "split": (_option(str, "--split", "Split of a dataset to train on; by default train.", FILES), ""),
    "revision": (_option(str, "--revision", "Commit, branch or tag of a dataset of the hub.", FILES), ""),
}
RAW: Group = {  # raw text
    "corpus": (
        _option(
            list[Path] | None,
            "--corpus",
            "Raw text of the domain: a file, folder or dataset of the hub; may be repeated.",
            RAW_TEXT,
        ),
        None,
    ),
    "general": (
        _option(
            Path | None,
            "--general",
            "General raw text for retrieval, or for pretraining with --model scratch.",
            RAW_TEXT,
        ),
        None,
    ),
    "separated": (SeparatedOption, "line"),
}
JOBS: Group = {  # where a study's jobs run
    "workers": (_option(int, "--workers", "Number of processes that run jobs at the same time.", JOBS_RUN, min=1), 1),
    "cluster": (
        Annotated[
            str,
            typer.Option(
                "--cluster", "--ray", help="Ray cluster to run the jobs: auto, or HOST:PORT.", rich_help_panel=JOBS_RUN
            ),
        ],
        "",
    ),
    "threads": (
        _option(
            int,
            "--threads",
            "Threads per job; 0: all processors, divided among the workers; on a cluster 1.",
            JOBS_RUN,
            min=0,
        ),
        0,
    ),
    "gpu_share": (_option(float, "--gpu-share", "Share of a GPU for each job on a cluster.", JOBS_RUN, min=0), 0.0),
}
TRACKING: Group = {
    "track": (
        _option(
            list[str] | None,
            "--track",
            "tensorboard, mlflow, wandb or trackio.",
            RUN,
            autocompletion=begins_with(lambda: ("tensorboard", "mlflow", "wandb", "trackio")),
        ),
        None,
    ),
}
RECIPE: Group = {
    "recipe": (
        _option(
            Path | None,
            "--recipe",
            "TOML file with settings, or one of `acclimate recipes`.",
            RUN,
            autocompletion=begins_with(_recipes),
        ),
        None,
    ),
}
ASSIGNMENTS: Group = {
    "assignments": (
        Annotated[
            list[str] | None,
            typer.Argument(metavar="[KEY=VALUE]...", help="Settings as NAME=VALUE; `acclimate settings` lists them."),
        ],
        None,
    ),
}
