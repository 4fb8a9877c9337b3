"""Calibrate a model that a race hands over: divide its last layer by the temperature that fits dev best.

The logits are o / T then (statistics/calibration.py), so the probabilities of acclimate, of transformers' pipeline and
of ONNX are calibrated alike, and every label stays as it was. This is for one label and for several labels a text. What
dev chose is in race.json beside the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acclimate.core import files
from acclimate.core.records import from_plain, to_plain
from acclimate.core.types import BASELINE_FILE, COMBINED_FILE, Example, Label, Split
from acclimate.methods.baselines import Linear, TfidfModel, read_baseline, write_baseline
from acclimate.statistics.calibration import Calibration, calibration_of, targets_of
from acclimate.tasks.prepared import Prepared

CALIBRATED = ("sequence", "multilabel")  # kinds of tasks
ABOUT = "race.json"  # beside each model that a race hands over
FIELD = "calibration"  # of it
KEPT = "calibration-{}.json"  # in the directory of a job, by the split that measured
MOST_ROWS = 1_000  # of dev and of test, so that a race does not exceed its budget for this


class _Model(NamedTuple):
    """A model in its directory. outputs: rows of a split -> (R, C); divide: writes it with its outputs divided"""

    labels: Sequence[str]
    outputs: Callable[[Split, np.ndarray], np.ndarray]
    divide: Callable[[float], None]


def read_calibration(directory: Path) -> Calibration | None:
    """Return what dev chose for the model in `directory`; None if the model is not calibrated."""
    record = directory / ABOUT
    about = files.read_object(record).get(FIELD) if record.is_file() else None
    return None if about is None else from_plain(Calibration, about)


def calibrate(directory: Path, task: Prepared, gold: Sequence[Label], job: Path) -> dict[str, Any]:
    """Divide the last layer of the model in `directory`, and return what dev chose as a field of its record.

    gold  labels of the test set, which measure the error and choose nothing; (): there is no test set of this model
    job   directory of the job that made the model: what dev chose is kept there, so that it is computed once
    """
    if task.kind not in CALIBRATED:
        return {}
    model, path = _model_in(directory, task), job / KEPT.format("test" if gold else "dev")
    if not path.exists():
        splits: dict[Split, Sequence[Label]] = {"dev": [example.label for example in task.examples("dev")]}
        splits |= {"test": gold} if gold else {}
        read = {}
        for split, labels in splits.items():
            rows = np.sort(np.random.default_rng(0).permutation(len(labels))[:MOST_ROWS])
            read[split] = model.outputs(split, rows), targets_of([labels[row] for row in rows], model.labels)
        chosen = calibration_of(read["dev"], read.get("test"), several=task.kind == "multilabel")
        files.write_record(path, to_plain(chosen))
    about = files.read_record(path, way_out=f"Remove {path}, and give the same command again")
    model.divide(from_plain(Calibration, about).temperature)
    return {FIELD: about}


def _model_in(directory: Path, task: Prepared) -> _Model:
    if (directory / BASELINE_FILE).exists():
        baseline = read_baseline(directory)
        assert isinstance(baseline, TfidfModel)

        def divide_baseline(temperature: float) -> None:
            write_baseline(replace(baseline, linear=_divided(baseline.linear, temperature)), directory)

        return _Model(
            baseline.labels, lambda split, rows: baseline.outputs(_examples(task, split, rows)), divide_baseline
        )
    if (directory / COMBINED_FILE).exists():
        return _combined_in(directory, task)
    return _classifier_in(directory, task)


def _combined_in(directory: Path, task: Prepared) -> _Model:
    from acclimate.races import terms_and_states  # imports PyTorch

    model, encoder, tokenizer = terms_and_states.read_with_encoder(directory)

    def outputs(split: Split, rows: np.ndarray) -> np.ndarray:
        examples = _examples(task, split, rows)
        return model.outputs(examples, terms_and_states.read_states(model, encoder, tokenizer, examples))

    def divide(temperature: float) -> None:
        terms = replace(model.terms, linear=_divided(model.linear, temperature))
        states_CD = model.states_CD / temperature
        terms_and_states.write(replace(model, terms=terms, states_CD=states_CD), directory)

    return _Model(model.labels, outputs, divide)


def _classifier_in(directory: Path, task: Prepared) -> _Model:
    from acclimate.methods.task_loss import outputs_of_rows  # imports PyTorch
    from acclimate.models.classifier import labels_of, load_finetuned
    from acclimate.models.formats import save_weights
    from acclimate.models.loading import load_tokenizer, quiet
    from acclimate.models.scale import divide_outputs
    from acclimate.models.task_layers import pooling_of
    from acclimate.tasks.rows import SPANS, encoded
    from acclimate.training.plan import move_to_device

    model, tokenizer = load_finetuned(directory), load_tokenizer(directory)
    labels = labels_of(model)

    def outputs(split: Split, rows: np.ndarray) -> np.ndarray:
        move_to_device(model)
        every_row = encoded(task, split, task.examples(split), tokenizer, spans=SPANS[pooling_of(model.config)])
        return outputs_of_rows(model, every_row.take(rows), labels)

    def divide(temperature: float) -> None:
        model.cpu()  # whose division differs from that of a GPU in the last bit
        divide_outputs(model, temperature)
        with quiet():
            save_weights(model, directory)

    return _Model(labels, outputs, divide)


def _examples(task: Prepared, split: Split, rows: np.ndarray) -> list[Example]:
    examples = task.examples(split)
    return [examples[row] for row in rows]


def _divided(linear: Linear, temperature: float) -> Linear:
    return replace(linear, weights_CF=linear.weights_CF / temperature, bias_C=linear.bias_C / temperature)
