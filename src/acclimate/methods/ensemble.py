"""The mean of what several fine-tuned models hold probable.

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge" (DGA), the row "Ensemble (LM+MLM)"
of Table 3: end-task fine-tuning of the model as it is and of the one that MLM adapted, "concatenating their outputs and
taking the average".

Readings
  The models are fine-tuned one without the other, and what is averaged are the probabilities of the labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from acclimate.core.types import Checkpoint, Label, Split, Watch
from acclimate.methods.finetune import load_tested
from acclimate.methods.task_loss import probabilities
from acclimate.methods.tuning import SPANS
from acclimate.models.pooling import pooling_of
from acclimate.tasks.encoded import encoded
from acclimate.tasks.prepared import Prepared

KIND = "sequence"  # of the tasks that it is for: one label a row


def test(checkpoints: Sequence[Checkpoint], task: Prepared, *, by: str, watch: Watch) -> dict[str, Any]:
    """Predict the sealed texts, then open their labels in the name of `by`, as `finetune.test` does; and as `dev` the
    score on dev.

    Raises ValueError where a checkpoint was fine-tuned for another task, and where rows have no one label.
    """
    if task.kind != KIND:
        raise ValueError(f"an ensemble is for tasks of one label a row, but {task.name} is of kind '{task.kind}'")
    splits: tuple[Split, ...] = ("dev", "test")
    means: dict[Split, np.ndarray] = {}
    for checkpoint in checkpoints:
        model, tokenizer, labels = load_tested(checkpoint, task)
        for split in splits:
            spans = SPANS[pooling_of(model.config)]
            rows = encoded(task, split, task.examples(split), tokenizer, spans=spans)
            said_BC = probabilities(model, rows, labels, watch=watch)[:, [labels.index(name) for name in task.labels]]
            means[split] = means.get(split, 0.0) + said_BC / len(checkpoints)
    predicted: dict[Split, list[Label]] = {
        split: [task.labels[int(code)] for code in means[split].argmax(-1)] for split in splits
    }
    dev = task.score([example.label for example in task.examples("dev")], predicted["dev"])
    gold = task.unseal(by)
    return {
        "ids": tuple(example.id for example in task.examples("test")),
        "gold": tuple(gold),
        "predicted": tuple(predicted["test"]),
        "test": task.score(gold, predicted["test"]),
        "dev": dev,
    }
