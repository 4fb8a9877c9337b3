"""The eight tasks of GLUE in TLM's Table 10 as values, as blurb.py has those of BLURB.

Wang et al., "GLUE", ICLR 2019. Sizes are those of the files that the benchmark gives out.

MNLI has two dev files, and the paper's average counts the mean of both as MNLI's score. They are two datasets here,
"MNLI" (matched) and "MNLI-mm" (mismatched), with the same train and dev; a study that has both counts them as one task
(studies/inputs.py::means_over_tasks), and fine-tunes for each.

Reading: the labels of GLUE's test sets are not published. Its dev file is test here, as papers report it, and dev is
drawn from train by the hash of the row: a tenth of it, at most 2,000. What train and dev have together is counted.
STS-B and CoLA can also be read from other sources: the STS benchmark with its test set, CoLA with train.tsv and
val.tsv, which are GLUE's train.tsv in two parts.

MRPC, QQP, QNLI and MNLI are read as their header lines say. We had no files of theirs to test this.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from acclimate.core.types import Split
from acclimate.reading.datasets.catalogue import Dataset, Form, cut_form, split_form
from acclimate.reading.formats.delimited import delimited_examples, number, one_of
from acclimate.tasks.metrics import METRICS, accuracy_and_f1
from acclimate.tasks.task import Metric

TABLE = "GLUE (Wang et al., 2019)"
MOST = 2000  # examples of a dev that is drawn
NOTE = "GLUE's dev file is test; dev is drawn from train."


def _glue(
    name: str,
    folder: str,
    labels: tuple[str, ...],
    counts: tuple[int, int],
    *,
    metric: Metric,
    forms: tuple[Form, ...] = (),
    dev_file: str = "dev.tsv",
    columns: Mapping[str, Any],
) -> Dataset:
    """Return a task with GLUE's files. columns: which of them `delimited_examples` is to read."""
    train, test = counts
    reader = partial(delimited_examples, label_of=one_of(labels), **columns)
    divided_form = cut_form(
        "GLUE", train="train.tsv", test=dev_file, reader=reader, count=min(train // 10, MOST), note=NOTE
    )
    return Dataset(
        name=name,
        type="classification",
        folder=f"glue/{folder}",
        kind="sequence",
        labels=labels,
        metric=metric,
        max_tokens=128,
        counted="instances",
        sizes={"train": train, "test": test},
        forms=(*forms, divided_form),
        citation="Wang et al., GLUE, ICLR 2019.",
        licence="of each task its own; see https://gluebenchmark.com",
        obtain="Get it from https://gluebenchmark.com/tasks",
        runs=3,
    )


ENTAILED = ("entailment", "not_entailment")
YES_NO = ("0", "1")
_COLA: dict[str, Any] = {"columns": ("source", "label", "mark", "sentence"), "text": "sentence", "label": "label"}
_IN_THREE: dict[Split, str] = {"train": "train.tsv", "dev": "val.tsv", "test": "dev.tsv"}
_STS: dict[Split, str] = {"train": "sts-train.tsv", "dev": "sts-dev.tsv", "test": "sts-test.tsv"}

STS_B = Dataset(
    name="STS-B",
    type="classification",
    folder="glue/stsb",
    kind="score",
    labels=(),
    # average: mean of the two correlations over the pairs
    metric=METRICS["pearson_and_spearman"],
    max_tokens=128,
    counted="pairs",
    sizes={"train": 5749, "dev": 1500, "test": 1379},
    forms=(
        split_form(
            "STS benchmark",
            _STS,
            partial(
                delimited_examples,
                columns=("genre", "file", "year", "number", "score", "first", "second"),
                surplus=True,
                text="first",
                pair="second",
                label="score",
                label_of=number,
            ),
            note="The STS benchmark's own test set, whose labels GLUE does not give out.",
        ),
    ),
    citation="Cer et al., SemEval-2017, task 1.",
    licence="of the sources each its own; see LICENSE.txt of the STS benchmark",
    obtain="Get it from http://ixa2.si.ehu.eus/stswiki",
    runs=3,
)

DATASETS: tuple[Dataset, ...] = (
    _glue(
        "CoLA",
        "cola",
        YES_NO,
        (8551, 1043),
        # average: one correlation over the sentences
        metric=METRICS["matthews"],
        forms=(
            split_form(
                "in three",
                _IN_THREE,
                partial(delimited_examples, label_of=one_of(YES_NO), **_COLA),
                note="GLUE's dev file is test; dev is val.tsv, a part of GLUE's train file.",
            ),
        ),
        columns=_COLA,
    ),
    _glue(
        "RTE",
        "rte",
        ENTAILED,
        (2490, 277),
        metric=METRICS["accuracy"],
        columns={"text": "sentence1", "pair": "sentence2", "label": "label"},
    ),
    STS_B,
    _glue(
        "MRPC",
        "mrpc",
        YES_NO,
        (3668, 408),
        # average: mean of accuracy and the F1 of paraphrases
        metric=accuracy_and_f1("1"),
        columns={"text": "#1 String", "pair": "#2 String", "label": "Quality"},
    ),
    _glue(
        "QQP",
        "qqp",
        YES_NO,
        (363846, 40430),
        # average: mean of accuracy and the F1 of duplicates
        metric=accuracy_and_f1("1"),
        columns={"text": "question1", "pair": "question2", "label": "is_duplicate"},
    ),
    _glue(
        "SST-2",
        "sst2",
        YES_NO,
        (67349, 872),
        metric=METRICS["accuracy"],
        columns={"text": "sentence", "label": "label"},
    ),
    _glue(
        "QNLI",
        "qnli",
        ENTAILED,
        (104743, 5463),
        metric=METRICS["accuracy"],
        columns={"text": "question", "pair": "sentence", "label": "label"},
    ),
    *(
        _glue(
            name,
            "mnli",
            ("contradiction", "entailment", "neutral"),
            (392702, size),
            metric=METRICS["accuracy"],
            dev_file=dev_file,
            columns={"text": "sentence1", "pair": "sentence2", "label": "gold_label"},
        )
        # average: accuracy over examples, the mean of both dev files
        for name, size, dev_file in (("MNLI", 9815, "dev_matched.tsv"), ("MNLI-mm", 9832, "dev_mismatched.tsv"))
    ),
)
