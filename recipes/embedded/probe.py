"""Measure what an encoder knows before fine-tuning: a linear probe of its frozen, mean-pooled states on the docstrings.

python probe.py MODEL ... DIRECTORY    (the docstrings are built in DIRECTORY once)

The probe is logistic regression on standardised features. Five-fold cross-validation on train chooses its strength. It
is fitted on 32 examples of each label, three times with different examples, and once on all of train. Macro-F1 on dev
judges it.
"""

import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core.types import Batch
from acclimate.methods.domain import hidden_states, row_means
from acclimate.models.encoder import encoder_of, load_masked_language_model, load_tokenizer
from acclimate.tasks.datasets.docstrings import build_docstrings
from acclimate.tasks.task import labels_per_class
from acclimate.training.pieces import pack, pad

STRENGTHS = np.logspace(-4, 0, 9)
DRAWS, EXAMPLES = 3, 32  # of train, of each label


@dataclass(frozen=True)
class Probe:
    """Scores an encoder on the docstrings. directory: where the task is built, once."""

    directory: Path

    @cached_property
    def rows(self) -> dict:
        built = build_docstrings(self.directory)
        return {split: built.task.read(built.path, split) for split in ("train", "dev")}

    def __call__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, float]:
        """Return macro-F1 on dev: `probe`, fitted on 32 examples of each label; `probe_all`, fitted on all of train."""
        train, dev = self.rows["train"], self.rows["dev"]
        states = {
            row.id: state
            for rows in (train, dev)
            for row, state in zip(rows, sentences(model, tokenizer, rows), strict=False)
        }
        few = [labels_per_class(train, EXAMPLES, seed) for seed in range(DRAWS)]
        return {
            "probe": float(np.mean([_score(states, drawn, dev) for drawn in few])),
            "probe_all": _score(states, train, dev),
        }


@torch.no_grad()
def sentences(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: list) -> np.ndarray:
    """Return (rows, D) float32: the mean of each row's last hidden states."""
    model.eval()
    encoded = tokenizer([row.text for row in rows], truncation=True, max_length=128)["input_ids"]
    batch = Batch(np.concatenate([np.array(ids) for ids in encoded]), np.cumsum([0, *map(len, encoded)]), pad=0)
    means = np.zeros((len(rows), encoder_of(model).config.hidden_size), np.float32)
    for layout in pack(batch.lengths, 2048):
        piece = pad(batch, layout, torch.device("cpu"))
        with torch.autocast("cpu", torch.bfloat16):
            states = hidden_states(model, piece)
        means[layout.rows_R] = row_means(states, piece).numpy()
    return means


def _score(states: dict[str, np.ndarray], train: list, dev: list) -> float:
    fitted = make_pipeline(
        StandardScaler(),
        LogisticRegressionCV(Cs=STRENGTHS, cv=5, max_iter=300, scoring="neg_log_loss", random_state=0),
    ).fit(np.stack([states[row.id] for row in train]), [row.label for row in train])
    predicted = fitted.predict(np.stack([states[row.id] for row in dev]))
    return float(f1_score([row.label for row in dev], predicted, average="macro"))


if __name__ == "__main__":
    *names, where = sys.argv[1:]
    probe = Probe(Path(where))
    for name in names:
        print(name, probe(load_masked_language_model(name), load_tokenizer(name)))
