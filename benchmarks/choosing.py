"""Which weights of a fine-tuning to keep where dev is small: score on test of each rule of choosing, on the same runs.

    python benchmarks/choosing.py RUNS --encoder path/or/hub-id --tasks NAME=DIR NAME=DIR --seeds 2 --out FILE

DIR of a task   a folder that `acclimate data prepare` wrote

Each run trains with the preset `robust` to its last step and keeps the weights of the start (a probe's head on the
untouched encoder) and of every look. Then each rule chooses by dev alone, and what it chose is scored on 500 test rows.
Patience counts for a rule as the preset has it. Runs that are in RUNS are not done again.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from page import head, table, write

from acclimate.core import files, settings
from acclimate.core.types import unwatched
from acclimate.methods import finetune, task_loss
from acclimate.methods.finetune import FinetuneRecipe
from acclimate.methods.tuning.looks import Look, trained
from acclimate.tasks.prepared import open_prepared
from acclimate.tasks.rows import SPANS

TESTED = 500  # test rows at most, evenly spaced
MEANT = 3  # looks whose weights are averaged
RULES = {
    "the probe's head, untrained": "the start",
    "best": "the look with the best score",
    "best three": "the mean of the three with the best scores",
    "best three if no worse": "as `best three` where its dev score is no lower than that of `best`, else as `best`",
    "best, start": "as `best`, with the start among the looks",
    "best three, start": "as `best three`, with the start among the looks",
    "least loss": "the look with the least loss on dev; patience counts losses",
    "three of least loss, start": "the mean of the three with the least losses, with the start among the looks",
    "last": "the last look, without patience",
    "all": "the mean of all looks, without patience",
    "half way": "the mean of the start and the last look",
}


class Weights:
    """The looks of one run with their weights, and what each choice scores on test."""

    def __init__(self, model: Path | str, folder: Path, seed: int, place: Path) -> None:
        robust = settings.override(FinetuneRecipe(), ["patience=0", "averaged=1"])
        self.patience = FinetuneRecipe().patience
        self.task = open_prepared(folder)
        recipe = replace(robust, model=str(model), task=folder, plan=replace(robust.plan, seed=seed))
        self.run = finetune.Tuning(recipe, self.task, place, unwatched)
        rows = range(0, self.task.sizes["test"], max(1, self.task.sizes["test"] // TESTED))
        gold, examples = self.task.unseal("benchmark"), self.task.examples("test")
        self.gold, examples = [gold[row] for row in rows], [examples[row] for row in rows]
        self.texts = [example.text for example in examples]
        spans = SPANS[self.run.pooling]
        self.rows = finetune.encoded(self.task, "test", examples, self.run.tokenizer, spans=spans)
        self.looks: list[tuple[int, float, float]] = []  # step, score, loss
        self.weights: list[dict[str, torch.Tensor]] = []
        self.scored: dict[tuple[int, ...], tuple[float, float]] = {}  # looks whose mean it is -> score on dev, on test

    def train(self) -> None:
        add = self.run.looks.add

        def kept(step: int, look: Look, model: Any) -> None:
            add(step, look, model)
            self._keep(step, look)

        self.run.looks.add = kept  # type: ignore[method-assign]
        self.run.model.train(False)
        self._keep(0, self._look())
        self.run.train()
        self.run.model.train(False)

    def _keep(self, step: int, look: Look) -> None:
        weights = {name: value.detach().clone() for name, value in trained(self.run.model)}
        self.weights.append(weights)
        self.looks.append((step, look.score, look.loss))

    def _look(self) -> Look:
        with finetune.folded(self.run.model, self.run.scale):
            return self.run.look(self.run.dev)

    @torch.no_grad()
    def scores(self, looks: Sequence[int]) -> tuple[float, float]:
        """Return the scores on dev and on test of the mean of these looks' weights."""
        key = tuple(sorted(looks))
        if key not in self.scored:
            for name, value in trained(self.run.model):
                value.copy_(torch.stack([self.weights[look][name] for look in key]).mean(0))
            dev = self._look().score
            with finetune.folded(self.run.model, self.run.scale):
                labels = self.run.labels
                found = task_loss.predict(self.run.model, self.rows, labels, texts=self.texts, watch=unwatched)
            predicted = task_loss.restore_labels(found, labels, self.task)
            self.scored[key] = dev, self.task.score(self.gold, predicted)
        return self.scored[key]

    def best(self, worth: Callable[[int], float], *, start: int, count: int) -> list[int]:
        """Return the best looks of those that patience would have seen, the best first."""
        seen, best, idle = [], float("-inf"), 0
        for look in range(start, len(self.looks)):
            seen.append(look)
            best, idle = (worth(look), 0) if worth(look) > best else (best, idle + 1)
            if idle >= self.patience:
                break
        return sorted(seen, key=lambda look: (-worth(look), look))[:count]

    def by_rule(self) -> dict[str, float]:
        """Return the score on test of each rule."""

        def score(look: int) -> float:
            return self.looks[look][1]

        def ease(look: int) -> float:
            return -self.looks[look][2]

        last = len(self.looks) - 1
        one, three = self.best(score, start=1, count=1), self.best(score, start=1, count=MEANT)
        chosen = {
            "the probe's head, untrained": [0],
            "best": one,
            "best three": three,
            "best three if no worse": three if self.scores(three)[0] >= self.scores(one)[0] else one,
            "best, start": self.best(score, start=0, count=1),
            "best three, start": self.best(score, start=0, count=MEANT),
            "least loss": self.best(ease, start=1, count=1),
            "three of least loss, start": self.best(ease, start=0, count=MEANT),
            "last": [last],
            "all": list(range(1, last + 1)),
            "half way": [0, last],
        }
        return {rule: self.scores(chosen[rule])[1] for rule in RULES}


def report(place: Path, encoder: str, tasks: Sequence[str]) -> Iterator[str]:
    """The lines of the report: mean score on test of each rule and task, in points."""
    runs = {task: [files.read_json(path) for path in sorted(place.glob(f"{task}-*.json"))] for task in tasks}
    yield f"Encoder: {encoder}. Scores on test, in points; `robust` chooses by the rule `best three`.\n"
    rows = []
    for rule in RULES:
        means = [100 * statistics.mean(run[rule] for run in runs[task]) for task in tasks]
        rows.append([rule, *(f"{mean:.1f}" for mean in means), f"{statistics.mean(means):.1f}"])
    yield table(["rule", *(f"{task} ({len(runs[task])})" for task in tasks), "mean"], rows)
    yield "In brackets: the number of seeds.\n\n" + "\n".join(f"- {rule}: {what}" for rule, what in RULES.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    tasks = {name: Path(folder) for name, _, folder in (task.partition("=") for task in given.tasks)}
    given.runs.mkdir(parents=True, exist_ok=True)
    for seed in range(given.seeds):
        for name, folder in tasks.items():
            place = given.runs / f"{name}-{seed}.json"
            if place.exists():
                continue
            shutil.rmtree(place.with_suffix(""), ignore_errors=True)
            run = Weights(given.encoder, folder, seed, place.with_suffix(""))
            run.train()
            files.write_json(place, run.by_rule())
            shutil.rmtree(place.with_suffix(""))
            print(name, seed, place.read_text(), flush=True)
    write(given.out, [head(__doc__.splitlines()[0]), *report(given.runs, Path(given.encoder).name, list(tasks))])


if __name__ == "__main__":
    main()
