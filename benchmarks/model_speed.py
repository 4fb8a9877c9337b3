"""Tokens a second of processor time on one core, adapting and fine-tuning, of several encoders in turns.

    python benchmarks/model_speed.py FILE embedded MODEL ... --out benchmarks/reports/DATE-model-speed.md

FILE is a labelled file with the columns `text` and `label`. Time of the processor, in place of a clock, so that other
work on the machine counts as little as possible; turns, so that what remains of it counts for all encoders alike.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from page import head, table, write

from acclimate.core.types import Document, Stream
from acclimate.methods.task_loss import TaskLoss
from acclimate.methods.tuning.head import training_rows
from acclimate.models.classifier import load_classifier
from acclimate.models.encoder import load_masked_language_model
from acclimate.models.loading import load_tokenizer, resolved
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.tasks.prepared import prepare
from acclimate.text.corpus import write_corpus
from acclimate.text.streams import masked_stream, rows_stream
from acclimate.training.loop import adamw, train
from acclimate.training.objective import MaskedLanguageLoss, Objective
from acclimate.training.plan import Plan

LONGEST = 128
WARM_UP = 2  # steps that are not counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        runs = {name: works(resolved(name), given.file, Path(place) / str(i)) for i, name in enumerate(given.models)}
        plan = Plan(steps=given.steps + WARM_UP, batch=16, rate=1e-5)
        speeds: dict[tuple[str, str], list[float]] = {}
        for _ in range(given.rounds):
            for name, works in runs.items():
                for kind, make in works.items():
                    speeds.setdefault((name, kind), []).append(_speed(*make(), plan))
    rows = [
        [Path(name).name, *(f"{statistics.median(speeds[name, kind]):,.0f} ({min(speeds[name, kind]):,.0f} to "
                 f"{max(speeds[name, kind]):,.0f})" for kind in ("adapting", "fine-tuning"))]
        for name in given.models
    ]  # fmt: skip
    said = (
        f"Real tokens a second of processor time, one thread: median of {given.rounds} rounds, with their range. "
        f"Batches of {plan.batch} texts of at most {LONGEST} tokens, {given.steps} steps a round, "
        f"after {WARM_UP} to warm up.\n"
    )
    write(given.out, [head("Speed of encoders on one core"), said, table(["encoder", "adapting", "fine-tuning"], rows)])


def works(model: str, file: Path, place: Path) -> dict[str, Callable[[], tuple[Objective, Stream]]]:
    """Return what makes an objective and its stream, for each kind of training."""
    tokenizer = load_tokenizer(model)
    task = prepare(read_files(LabelledFiles(train=file, max_tokens=LONGEST)).task(), file.parent, place / "task")
    rows, _ = training_rows(task, tokenizer)
    texts = (Document(str(i), example.text) for i, example in enumerate(task.examples("train")))
    tokens = write_corpus(texts, place / "corpus").tokens(tokenizer)

    def adapting() -> tuple[Objective, Stream]:
        return MaskedLanguageLoss(load_masked_language_model(model)), masked_stream(
            tokens, batch=16, longest=LONGEST, seed=0
        )

    def fine_tuning() -> tuple[Objective, Stream]:
        classifier = load_classifier(model, task.labels, kind=task.kind, seed=0)
        return TaskLoss(classifier), rows_stream(rows, batch=16, seed=0)

    return {"adapting": adapting, "fine-tuning": fine_tuning}


def _speed(objective: Objective, stream: Stream, plan: Plan) -> float:
    tokens, begun = 0, 0.0
    for step in train(objective, stream, plan, adamw(objective, plan)):
        if step.number == WARM_UP:
            begun = time.process_time()
        elif step.number > WARM_UP:
            tokens += step.tokens
    return tokens / (time.process_time() - begun)


if __name__ == "__main__":
    main()
