"""Calibration errors of fine-tuned encoders and of TF-IDF: as they are, by temperature, and by isotonic regression.

    python benchmarks/calibration.py --tasks sst2=DIR ... --seeds 3 --work WORK --out REPORT.md

DIR is a folder that `acclimate data prepare` wrote, of a task with one or several labels a row. WORK keeps the outputs:
the same command continues where it stopped.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from fine_tuning import named
from page import head, table, tell, write
from sklearn.isotonic import IsotonicRegression

from acclimate.methods import finetune
from acclimate.methods.baselines import TfidfRecipe, fit_tfidf
from acclimate.methods.task_loss import outputs_of_rows
from acclimate.models.loading import embedded
from acclimate.models.task_layers import pooling_of
from acclimate.statistics import calibration
from acclimate.statistics.calibration import calibration_error, confidences, reliability
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.tasks.rows import SPANS, encoded

WAYS = ("as it is", "temperature", "without the prior", "isotonic")
METHOD = """Each temperature and each isotonic regression is fitted on dev, and measured on test. ECE: expected
calibration error in 15 bins of equal width, in points. Brier: mean squared difference between the probability and 0 or
1, times 100. Chance: mean ECE of probabilities that are right, for as many rows. Isotonic regression maps the
probability of a label to the frequency with which it is right. It has no place in a classification head. "Without the
prior": the temperature with the least log loss alone."""


def tuned(model: str, task: Prepared, seed: int, work: Path) -> dict[str, np.ndarray]:
    """Return the outputs for dev and test of a fine-tuning with the default settings."""
    recipe = finetune.FinetuneRecipe(model=model, task=task.path)
    checkpoint = finetune.adapt(replace(recipe, plan=replace(recipe.plan, seed=seed)), work)
    loaded, tokenizer, labels = finetune.load_tested(checkpoint, task)
    assert labels == task.labels
    outputs = {}
    for split in ("dev", "test"):
        rows = encoded(task, split, task.examples(split), tokenizer, spans=SPANS[pooling_of(loaded.config)])
        outputs[split] = outputs_of_rows(loaded, rows, labels)
    return outputs


def terms(task: Prepared) -> dict[str, np.ndarray]:
    """Return the outputs of TF-IDF for dev and test."""
    fitted = fit_tfidf(TfidfRecipe(trials=3), task).model
    order = [fitted.labels.index(label) for label in task.labels]
    return {split: fitted.outputs(task.examples(split))[:, order] for split in ("dev", "test")}


def without_prior(outputs: np.ndarray, has: np.ndarray, *, several: bool) -> float:
    """Return the temperature that the data alone choose: with the rows counted 1,000 times the prior has no weight."""
    return calibration.fit_temperature(np.tile(outputs, (1000, 1)), np.tile(has, (1000, 1)), several=several)


def measured(outputs: dict[str, np.ndarray], task: Prepared, gold: dict[str, list]) -> tuple[list[float], list[float]]:
    """Return temperatures and chance, and for each of WAYS ECE and Brier score on test."""
    several = task.kind == "multilabel"
    has = {split: calibration.targets_of(gold[split], task.labels) for split in gold}
    dev, test = ((outputs[split], has[split]) for split in ("dev", "test"))
    chosen = calibration.calibration_of(dev, test, several=several)
    alone = without_prior(*dev, several=several)
    isotonic = IsotonicRegression(out_of_bounds="clip").fit(*confidences(*dev, several=several))
    confidence, right = confidences(*test, several=several)
    probabilities = [
        confidence,
        *(confidences(test[0] / divisor, test[1], several=several)[0] for divisor in (chosen.temperature, alone)),
        isotonic.predict(confidence),
    ]
    values = []
    for probability in probabilities:
        values += [100 * calibration_error(reliability(probability, right)), 100 * np.mean((probability - right) ** 2)]
    return [chosen.temperature, alone, 100 * chosen.chance], values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(embedded()), help="a directory; else the encoder that acclimate brings")
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--seeds", type=int, default=3, help="of fine-tunings")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows, by_model = [], {}
    for name, folder in named(options.tasks).items():
        task = open_prepared(folder)
        gold = {"dev": [example.label for example in task.examples("dev")], "test": task.unseal("benchmark")}
        for seed in [*range(options.seeds), None]:
            place = options.work / name / ("TF-IDF" if seed is None else f"seed-{seed}")
            if not (place / "outputs.npz").exists():
                outputs = terms(task) if seed is None else tuned(options.model, task, seed, place)
                place.mkdir(parents=True, exist_ok=True)
                np.savez(place / "outputs.npz", **outputs)
            (temperature, alone, chance), values = measured(dict(np.load(place / "outputs.npz")), task, gold)
            model = "TF-IDF" if seed is None else "fine-tuned"
            by_model.setdefault(model, []).append(values)
            cells = [f"{value:.1f}" for value in values]
            about = [name, f"{len(gold['dev'])}, {len(gold['test'])}", model if seed is None else f"seed {seed}"]
            rows.append([*about, f"{temperature:.2f}", f"{alone:.2f}", f"{chance:.1f}", *cells])
            tell(" | ".join(map(str, rows[-1])))
    for model, several in by_model.items():
        rows.append(
            [f"mean, {model}", "", "", "", "", "", *(f"{fmean(column):.1f}" for column in zip(*several, strict=True))]
        )
    columns = ["task", "dev, test rows", "model", "T", "T without the prior", "chance"]
    columns += [f"{measure}, {way}" for way in WAYS for measure in ("ECE", "Brier")]
    top = head("Calibration by temperature", facts=[("encoder", Path(options.model).name), ("threads", "one")])
    write(options.out, [top, f"{METHOD}\n", table(columns, rows)])


if __name__ == "__main__":
    main()
