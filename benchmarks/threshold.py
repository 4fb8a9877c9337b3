"""What it is worth that one number, chosen on dev, decides how soon rare classes are predicted (tasks/thresholds.py).

    python benchmarks/threshold.py --model MODEL --tasks ACL-ARC=DIR SciERC=DIR --seeds 2 --work WORK --out REPORT.md

DIR is a folder that `acclimate data prepare` wrote, of a task with one label a row. WORK keeps what is trained: the
same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fine_tuning import named
from page import head, table, tell, write

from acclimate.core.types import Example, unwatched
from acclimate.methods import finetune, probe
from acclimate.methods.task_loss import outputs_of_rows
from acclimate.models.loading import embedded, load_tokenizer
from acclimate.models.task_layers import pooling_of
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import Prepared, open_prepared, prepare
from acclimate.tasks.rows import SPANS, encoded, places_of
from acclimate.tasks.task import Task
from acclimate.tasks.thresholds import decide

DRAWS = 12  # of the rows into three parts, for probes
FITTED, CHOSEN = 0.6, 0.75  # shares of the rows that are trained on, and up to which tau is chosen

METHOD = f"""The rows of train and dev are divided anew: {FITTED:.0%} to train on, {CHOSEN - FITTED:.0%} as dev, and the
rest to judge on; no task's own test set is opened. *Usual*: the most probable class. *Chosen*: with the tau that scores
best on dev, macro-F1 in points on the rows to judge on. Probes: {DRAWS} divisions, with the standard error of the mean
difference. Fine-tunings (preset robust, choosing among looks by the usual score): the first division, a line a seed."""


def parts_of(rows: int, draw: int) -> list[np.ndarray]:
    order = np.random.default_rng(draw).permutation(rows)
    return np.split(order, [round(FITTED * rows), round(CHOSEN * rows)])


def divided(task: Prepared, draw: int, place: Path) -> Prepared:
    """Return the task with rows of train and dev divided anew."""
    rows = [*task.examples("train"), *task.examples("dev")]
    parts = dict(zip(("train", "dev", "test"), parts_of(len(rows), draw), strict=True))

    def read(path: Path, split: str) -> list[Example]:
        return [replace(rows[int(row)], group="") for row in np.sort(parts[split])]

    about = Task(task.name, task.kind, read, task.labels, metric_named("macro_f1"), task.max_tokens)
    return prepare(about, task.path, place)


def compared(task: Prepared, outputs: dict[str, np.ndarray], gold: dict[str, list[Any]]) -> tuple[float, float, float]:
    """Return the usual score, that with the chosen tau, and that tau. outputs: of dev and test"""
    chosen = decide(outputs["dev"], gold["dev"], task.labels, task)
    usual = [task.labels[int(code)] for code in outputs["test"].argmax(1)]
    moved = [task.labels[int(code)] for code in (outputs["test"] - chosen.shift_C).argmax(1)]
    return 100 * task.score(gold["test"], usual), 100 * task.score(gold["test"], moved), chosen.number


def probes(model: str, whole: Prepared, work: Path) -> list[tuple[float, float, float]]:
    """Return a comparison for each division: the encoder reads once, then a layer is fitted for each."""
    tokenizer = load_tokenizer(model)
    encoder, _ = probe.load_encoder(model)
    found = []
    read: dict[str, np.ndarray] = {}
    for draw in range(DRAWS):
        task = divided(whole, draw, work / f"draw-{draw}")
        if not read:
            for split in ("train", "dev"):
                examples = whole.examples(split)
                rows = encoded(whole, split, examples, tokenizer, spans=places_of(whole, tokenizer))
                states_RD = probe.states_of(encoder, rows, ("mean",))["mean"]
                read |= dict(zip((example.id for example in examples), states_RD, strict=True))
        gold = labels_of(whole, task)
        states = {split: np.stack([read[each.id] for each in task.examples(split)]) for split in gold}
        codes_R = np.array([task.labels.index(label) for label in gold["train"]])
        layer, _ = probe.fit({"mean": states["train"]}, codes_R, "sequence", len(task.labels))
        found.append(compared(task, {split: layer(states[split]) for split in ("dev", "test")}, gold))
    return found


def labels_of(whole: Prepared, task: Prepared) -> dict[str, list[Any]]:
    known = {each.id: each.label for split in ("train", "dev") for each in whole.examples(split)}
    return {split: [known[each.id] for each in task.examples(split)] for split in ("train", "dev", "test")}


def tuned(model: str, whole: Prepared, seed: int, work: Path) -> tuple[float, float, float]:
    task = divided(whole, 0, work / "draw-0")
    stated = finetune.FinetuneRecipe(model=model, task=task.path, threshold="half")
    recipe = replace(stated, plan=replace(stated.plan, seed=seed))
    checkpoint = finetune.adapt(recipe, work / f"seed-{seed}")
    loaded, tokenizer, labels = finetune.load_tested(checkpoint, task)
    outputs = {}
    for split in ("dev", "test"):
        rows = encoded(task, split, task.examples(split), tokenizer, spans=SPANS[pooling_of(loaded.config)])
        outputs[split] = outputs_of_rows(loaded, rows, labels, watch=unwatched)
    return compared(task, outputs, labels_of(whole, task))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(embedded()), help="a directory; else the encoder that acclimate brings")
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--seeds", type=int, default=0, help="of fine-tunings; 0: probes alone")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    given = parser.parse_args()
    torch.set_num_threads(1)
    of_probes, of_tunings = [], []
    for name, folder in named(given.tasks).items():
        whole, work = open_prepared(folder), given.work / name
        rows = [*whole.examples("train"), *whole.examples("dev")]
        counts = np.bincount([whole.labels.index(str(row.label)) for row in rows])
        found = np.array(probes(given.model, whole, work))
        gains = found[:, 1] - found[:, 0]
        of_probes.append([
            name, f"{len(rows):,}", len(whole.labels), f"{counts.min() / counts.sum():.1%}",
            f"{found[:, 0].mean():.1f}", f"{found[:, 1].mean():.1f}",
            f"{gains.mean():+.1f} ± {gains.std(ddof=1) / DRAWS**0.5:.1f}", f"{np.median(found[:, 2]):g}",
        ])  # fmt: skip
        tell(" | ".join(map(str, of_probes[-1])))
    for name, folder in named(given.tasks).items():
        for seed in range(given.seeds):
            usual, chosen, tau = tuned(given.model, open_prepared(folder), seed, given.work / name)
            of_tunings.append([name, seed, f"{usual:.1f}", f"{chosen:.1f}", f"{chosen - usual:+.1f}", f"{tau:g}"])
            tell(" | ".join(map(str, of_tunings[-1])))
    columns = ["task", "rows", "classes", "rarest", "usual", "chosen", "difference", "tau, median"]
    top = head("Rare classes predicted sooner", facts=[("encoder", Path(given.model).name)])
    parts = [top, f"{METHOD}\n", "## Probes\n", table(columns, of_probes)]
    if of_tunings:
        columns = ["task", "seed", "usual", "chosen", "difference", "tau"]
        parts += ["\n## Fine-tunings\n", table(columns, of_tunings)]
    write(given.out, parts)


if __name__ == "__main__":
    main()
