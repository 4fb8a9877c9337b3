"""Measure what an encoder knows before fine-tuning: linear probes of its frozen, mean-pooled states on two tasks.

python probe.py MODEL ... TASKS    (TASKS: the folder of labelled data)

The tasks are the sentiment of film reviews (SST-2) and the relation of a chemical and a protein (ChemProt, 13
classes): 1,000 rows of train, and dev. Each probe is logistic regression on standardised features, with its strength
chosen by five-fold cross-validation on train. It is judged by macro-F1 on dev.
"""

import gzip
import json
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
from acclimate.models.encoder import encoder_of, load_masked_language_model
from acclimate.models.loading import load_tokenizer
from acclimate.training.pieces import pack, pad

STRENGTHS = np.logspace(-4, 0, 9)
ROWS = 1000  # of train
Row = tuple[str, str]  # text, label


def sentiment(tasks: Path, split: str) -> list[Row]:
    lines = content(tasks / "glue" / "sst2", f"{split}.tsv").splitlines()[1:]
    return [tuple(line.rsplit("\t", 1)) for line in lines]


def relations(tasks: Path, split: str) -> list[Row]:
    lines = content(tasks / "tlm" / "chemprot_13class", f"{split}.jsonl").splitlines()
    return [(row["text"], row["label"]) for row in map(json.loads, lines)]


def content(folder: Path, name: str) -> str:
    packed = folder / f"{name}.gz"
    return gzip.decompress(packed.read_bytes()).decode() if packed.exists() else (folder / name).read_text("utf-8")


READERS = {"sst2": sentiment, "chemprot": relations}


@dataclass(frozen=True)
class Probe:
    """Scores an encoder on the tasks below a folder."""

    tasks: Path

    @cached_property
    def rows(self) -> dict[str, tuple[list[Row], list[Row]]]:
        """(train, dev) by name of the task."""
        splits = {}
        for name, read in READERS.items():
            train = read(self.tasks, "train")
            sample = np.random.default_rng(0).choice(len(train), ROWS, replace=False)
            splits[name] = [train[row] for row in sample], read(self.tasks, "dev")
        return splits

    def __call__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, float]:
        """Return macro-F1 on dev by `probe_` and the name of the task."""
        return {
            f"probe_{name}": score(
                *(sentences(model, tokenizer, [text for text, _ in rows]) for rows in (train, dev)),
                *([label for _, label in rows] for rows in (train, dev)),
            )
            for name, (train, dev) in self.rows.items()
        }


@torch.no_grad()
def sentences(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> np.ndarray:
    """Return (texts, D) float32: the mean of each text's last hidden states."""
    model.eval()
    encoded = tokenizer(texts, truncation=True, max_length=128)["input_ids"]
    batch = Batch(np.concatenate([np.array(ids) for ids in encoded]), np.cumsum([0, *map(len, encoded)]), pad=0)
    means = np.zeros((len(texts), encoder_of(model).config.hidden_size), np.float32)
    for layout in pack(batch.lengths, 2048):
        piece = pad(batch, layout, torch.device("cpu"))
        with torch.autocast("cpu", torch.bfloat16):
            states = hidden_states(model, piece)
        means[layout.rows_R] = row_means(states, piece).numpy()
    return means


def score(train_states: np.ndarray, dev_states: np.ndarray, train_labels: list[str], dev_labels: list[str]) -> float:
    folds = LogisticRegressionCV(Cs=STRENGTHS, cv=5, max_iter=300, scoring="neg_log_loss", random_state=0)
    probe = make_pipeline(StandardScaler(), folds).fit(train_states, train_labels)
    return float(f1_score(dev_labels, probe.predict(dev_states), average="macro"))


if __name__ == "__main__":
    *names, where = sys.argv[1:]
    probe = Probe(Path(where))
    for name in names:
        print(name, probe(load_masked_language_model(name), load_tokenizer(name)))
