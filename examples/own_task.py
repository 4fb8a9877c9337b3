"""Your dataset in your format as a task, with your metric: fine-tune, choose on dev, test once.

python examples/own_task.py MODEL FOLDER OUT [KEY=VALUE ...]

MODEL   a directory or hub id
FOLDER  train.txt, dev.txt and test.txt, a line an example: its label, a tab, its text
"""

import sys
from pathlib import Path

import numpy as np

import acclimate
from acclimate.core import settings
from acclimate.core.types import Example
from acclimate.methods.finetune import FinetuneRecipe, evaluate


def read(folder, split):
    lines = (folder / f"{split}.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    return [Example(f"{split}:{number}", text, label) for number, (label, text) in enumerate(rows, 1)]


def recalled(gold, predicted):
    """(n, 2C): for each class, 1 if the item is of the class and was found; then for each, 1 if it is of the class."""
    classes = np.array(sorted(set(gold)))
    of_class_nC = np.array(gold)[:, None] == classes
    found_nC = of_class_nC & (np.array(predicted)[:, None] == classes)
    return np.hstack([found_nC, of_class_nC]).astype(float)


def mean_recall(sums_K):
    """(..., 2C) sums of such rows -> (...) the mean over classes of the share that was found."""
    found, there = np.split(sums_K, 2, axis=-1)
    return np.mean(found / np.maximum(there, 1), axis=-1)


model, folder, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
# Intervals and tests need no more: a metric is a function of sums over the items, so resampling them is cheap.
metric = acclimate.Metric("balanced_accuracy", recalled, mean_recall, kinds=("sequence",))
acclimate.METRICS[metric.name] = metric  # a prepared task finds its metric by name
labels = tuple(sorted({example.label for example in read(folder, "train")}))
task = acclimate.Task("own", "sequence", read, labels, metric, max_tokens=64, source="where it is from; its licence")
# Checked before anything trains; the test labels are sealed.
prepared = acclimate.prepare(task, folder, out / "data")
recipe = settings.override(FinetuneRecipe(model=model, task=prepared.path), sys.argv[4:])
score = evaluate(recipe, out / "run")
print(f"{metric.name}: {score.test:.3f} on {len(score.ids)} test items, {score.dev:.3f} on dev")
