"""What a fine-tuning saw on dev: a score at each look, the best weights so far, what they predict.

dev.json             [[step, score], ...]
predicted_dev.json   what the checkpoint that was handed over predicts for dev, in its order
best.safetensors     only while the run goes on
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from transformers import PreTrainedModel

from acclimate.core import files, ranks
from acclimate.core.types import Label, label_of

BEST = "best.safetensors"
DEV = "dev.json"
PREDICTED_DEV = "predicted_dev.json"


class Looks:
    """The looks at dev, and the best weights so far with what they predict, in files of their own.

    A run that goes on from an earlier state looks again and finds the same scores; so a best that the killed run left
    from a later step is still the best of the whole run, and is kept. The last look is always this process's own.
    """

    def __init__(self, out: Path, *, keep_best: bool) -> None:
        self.scores_path, self.best_path, self.predicted_path = out / DEV, out / BEST, out / PREDICTED_DEV
        self.keep_best = keep_best
        self.scores: dict[int, float] = {}
        if self.scores_path.exists():
            self.scores = dict(files.read_json(self.scores_path))
        self.best: float | None = None
        self.predicted: list[Any] = []  # by the weights that are to be handed over
        if self.best_path.exists():
            with safe_open(self.best_path, framework="pt") as file:
                # one file, so that a kill never parts the weights from what they predict
                self.best = float(file.metadata()["score"])
                self.predicted = json.loads(file.metadata()["predicted"])

    def add(self, step: int, score: float, predicted: list[Label], model: PreTrainedModel) -> None:
        if not ranks.is_first():
            return
        if not self.keep_best:
            self.predicted = predicted
        elif self.best is None or score > self.best:
            self.best, self.predicted = score, predicted
            tensors = {name: value.detach().cpu().contiguous() for name, value in model.named_parameters()}
            about = {"score": repr(score), "step": str(step), "predicted": json.dumps(predicted, allow_nan=False)}
            files.write_bytes(self.best_path, save(tensors, metadata=about))
        self.scores[step] = score
        files.write_json(self.scores_path, sorted(self.scores.items()))

    @torch.no_grad()
    def load_best(self, model: PreTrainedModel) -> None:
        ranks.agree(None)
        with safe_open(self.best_path, framework="pt") as file:
            for name, parameter in model.named_parameters():
                parameter.copy_(file.get_tensor(name))

    def hand_over(self) -> None:
        """Write what the chosen weights predict for dev."""
        if ranks.is_first():
            files.write_json(self.predicted_path, self.predicted)


def drop_best(out: Path) -> None:
    if ranks.is_first():
        (out / BEST).unlink(missing_ok=True)


def dev_score(out: Path, choose: str) -> float:
    """The dev score of the checkpoint that was handed over."""
    scores: list[float] = [score for _, score in files.read_json(out / DEV)]
    return max(scores) if choose == "best" else scores[-1]


def predicted_dev(out: Path) -> list[Label]:
    """What the checkpoint that was handed over predicts for dev, in its order."""
    return [label_of(label) for label in files.read_json(out / PREDICTED_DEV)]
