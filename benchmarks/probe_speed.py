"""How long it takes to choose and fit a probe's layer, beside LogisticRegressionCV of scikit-learn.

    python benchmarks/probe_speed.py --model MODEL --tasks arxiv=DIR SciERC=DIR --out REPORT.md

DIR is a folder that `acclimate data prepare` wrote, of a task with one label a row or with tags.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contestants import median
from fine_tuning import named
from page import head, table, tell, write
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from acclimate.methods import probe
from acclimate.models.loading import embedded, load_tokenizer
from acclimate.tasks.prepared import open_prepared
from acclimate.tasks.rows import encoded, places_of, with_labels

METHOD = f"""States of the training rows (of tags: of the words), by one thread; *ours* chooses among the read-outs and
{len(probe.STRENGTHS)} strengths by {probe.FOLDS} folds, and fits the layer that it chose. *scikit-learn*:
`LogisticRegressionCV` (L-BFGS, its usual tolerance, at most {probe.STEPS} steps) with the same strengths and as many
folds on standardised states of each read-out. Seconds are the processor's, medians of all rounds, the sides in turn.
*Loss*: on the folds left out, of the read-out and strength that each chose, in nats."""


def states_of(model: str, folder: Path) -> tuple[dict[Any, np.ndarray], np.ndarray, str, int]:
    task, tokenizer = open_prepared(folder), load_tokenizer(model)
    encoder, has_pooler = probe.load_encoder(model)
    train = task.examples("train")
    rows = with_labels(
        encoded(task, "train", train, tokenizer, spans=places_of(task, tokenizer)), train, task.kind, task.labels
    )
    states = probe.states_of(encoder, rows, probe.read_outs_of(task, tokenizer, has_pooler=has_pooler))
    return states, probe.probe_targets(rows), task.kind, len(task.labels)


def theirs(states: dict[Any, np.ndarray], target_R: np.ndarray) -> float:
    """Return the least loss on the folds left out, of all read-outs."""
    losses = []
    for states_RD in states.values():
        inverse = [1 / (strength * len(target_R)) for strength in probe.STRENGTHS]
        search = LogisticRegressionCV(
            Cs=inverse,
            cv=StratifiedKFold(probe.FOLDS, shuffle=True, random_state=0),
            scoring="neg_log_loss",
            max_iter=probe.STEPS,
        )
        make_pipeline(StandardScaler(), search).fit(states_RD, target_R)
        losses.append(-max(next(iter(search.scores_.values())).mean(axis=0)))
    return min(losses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(embedded()), help="a directory; else the encoder that acclimate brings")
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=FutureWarning)
    rows = []
    for name, folder in named(given.tasks).items():
        states, target_R, kind, labels = states_of(given.model, folder)
        seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
        losses = {}
        for turn in range(given.rounds):
            for side in ("ours", "theirs") if turn % 2 == 0 else ("theirs", "ours"):
                begun = time.process_time()
                loss = probe.fit(states, target_R, kind, labels)[0].loss if side == "ours" else theirs(states, target_R)
                seconds[side].append(time.process_time() - begun)
                losses[side] = loss
        shape = " and ".join(f"{len(each):,} x {each.shape[1]}" for each in states.values())
        medians = [median(each) for each in seconds.values()]
        ratio = median([other / mine for mine, other in zip(*seconds.values(), strict=True)])
        rows.append(
            (
                name,
                shape,
                labels,
                *(f"{each:.1f}" for each in medians),
                f"{ratio:.1f}",
                *(f"{each:.4f}" for each in losses.values()),
            )
        )
        tell(" | ".join(map(str, rows[-1])))
    columns = ("task", "states", "labels", "s: ours", "scikit-learn", "theirs by ours", "loss: ours", "scikit-learn")
    parts = [
        head("Speed of a probe's fit", facts=[("encoder", Path(given.model).name)]),
        f"{METHOD}\n",
        table(columns, rows),
    ]
    write(given.out, parts)


if __name__ == "__main__":
    main()
