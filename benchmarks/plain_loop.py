"""The loop of an afternoon: transformers' Auto classes, AdamW, four epochs, nothing chosen on dev.

Batch 16, a peak rate of 3e-5 (768 / width)^2, warm-up over a tenth of the steps, linear decay, rows of similar length
in a batch. Numbers are standardised. `fine_tuning.py` runs it as the recipes of RECIPES.

Shape suffixes: B rows, T tokens, C labels.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch.nn import functional

from acclimate.core.types import Example, Label
from acclimate.tasks.prepared import Prepared, open_prepared

RECIPES = {"loop": ("train", "dev"), "loop-no-dev": ("train",)}  # name -> splits that it trains on
EPOCHS, BATCH, RATE, WARMUP = 4, 16, 3e-5, 0.1
PREDICTED = 64  # rows of a batch without gradients
IGNORED = -100  # code of a token without a tag


def encode(examples: Sequence[Example], task: Prepared, tokenizer: Any) -> list[dict[str, Any]]:
    """Return the token ids of each example, and of tagged words the place of each word's first token under "starts"."""
    words = task.kind == "tokens"
    rows = []
    for example in examples:
        texts = (example.text.split(" "),) if words else (example.text, *([example.pair] if example.pair else []))
        row = tokenizer(*texts, truncation=True, max_length=task.max_tokens, is_split_into_words=words)
        if words:
            of_token = row.word_ids()
            row["starts"] = {word: of_token.index(word) for word in sorted({*of_token} - {None})}
        rows.append(row)
    return rows


def targets(examples: Sequence[Example], rows: Sequence[Any], task: Prepared) -> list[Any]:
    """Return a code, a vector of zeros and ones, a number, or a code per token, by the kind of task."""
    code = {label: number for number, label in enumerate(task.labels)}
    if task.kind == "sequence":
        return [code[example.label] for example in examples]
    if task.kind == "multilabel":
        return [[float(label in example.label) for label in task.labels] for example in examples]
    if task.kind == "score":
        return [float(example.label) for example in examples]
    tags = []
    for example, row in zip(examples, rows, strict=True):
        tags.append([IGNORED] * len(row["input_ids"]))
        for word, start in row["starts"].items():
            tags[-1][start] = code[example.label[word]]
    return tags


def padded(rows: Sequence[Any], tokenizer: Any) -> dict[str, torch.Tensor]:
    names = tokenizer.model_input_names
    return tokenizer.pad([{name: row[name] for name in names} for row in rows], return_tensors="pt")


def loss_of(logits: torch.Tensor, batch: Sequence[Any], kind: str) -> torch.Tensor:
    """Mean loss of logits (B, C), of tagged words (B, T, C)."""
    if kind == "multilabel":
        return functional.binary_cross_entropy_with_logits(logits, torch.tensor(batch))
    if kind == "score":
        return functional.mse_loss(logits[:, 0], torch.tensor(batch))
    if kind == "sequence":
        return functional.cross_entropy(logits, torch.tensor(batch))
    tags_BT = torch.tensor([[*row, *[IGNORED] * (logits.shape[1] - len(row))] for row in batch])
    return functional.cross_entropy(logits.flatten(0, 1), tags_BT.flatten(), ignore_index=IGNORED)


@torch.no_grad()
def predict(model: Any, examples: Sequence[Example], task: Prepared, tokenizer: Any) -> list[Label]:
    rows, predicted = encode(examples, task, tokenizer), [None] * len(examples)
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]["input_ids"]))
    for first in range(0, len(order), PREDICTED):
        places = order[first : first + PREDICTED]
        logits = model(**padded([rows[place] for place in places], tokenizer)).logits
        for place, output in zip(places, logits, strict=True):
            if task.kind == "sequence":
                label = task.labels[int(output.argmax())]
            elif task.kind == "multilabel":
                label = tuple(sorted(name for name, number in zip(task.labels, output, strict=True) if number > 0))
            elif task.kind == "score":
                label = float(output[0])
            else:
                starts, words = rows[place]["starts"], examples[place].text.split(" ")
                codes = output.argmax(-1)
                label = tuple(
                    task.labels[int(codes[starts[word]])] if word in starts else "O" for word in range(len(words))
                )
            predicted[place] = label
    return predicted


def run(name: str, model: Path, folder: Path, seed: int) -> dict[str, Any]:
    """Train on the recipe's splits and return the test score."""
    begun, seconds = time.perf_counter(), time.process_time()
    transformers.set_seed(seed)
    task, tokenizer = open_prepared(folder), transformers.AutoTokenizer.from_pretrained(model)
    kinds = transformers.AutoModelForTokenClassification, transformers.AutoModelForSequenceClassification
    auto = kinds[task.kind != "tokens"]
    network = auto.from_pretrained(model, num_labels=max(1, len(task.labels)))
    examples = [example for split in RECIPES[name] for example in task.examples(split)]
    rows = encode(examples, task, tokenizer)
    wanted = targets(examples, rows, task)
    if task.kind == "score":
        mean, deviation = np.mean(wanted), np.std(wanted)
        wanted = [float((number - mean) / deviation) for number in wanted]
    by_length = sorted(range(len(rows)), key=lambda place: len(rows[place]["input_ids"]))
    batches = [by_length[first : first + BATCH] for first in range(0, len(by_length), BATCH)]
    steps = EPOCHS * len(batches)
    rate = RATE * (768 / network.config.hidden_size) ** 2
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.01)
    schedule = transformers.get_linear_schedule_with_warmup(optimiser, round(WARMUP * steps), steps)
    network.train()
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(batches)).tolist():
            places = batches[batch]
            logits = network(**padded([rows[place] for place in places], tokenizer)).logits
            loss_of(logits, [wanted[place] for place in places], task.kind).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()
    network.eval()
    tested = task.examples("test")
    predicted = predict(network, tested, task, tokenizer)
    if task.kind == "score":
        predicted = [float(mean + deviation * number) for number in predicted]
    return {
        "test": task.open_and_score(tested, predicted, by=f"{name}, seed {seed}")["test"],
        "learnt": True,
        "again": False,
        "steps": steps,
        "tokens": EPOCHS * sum(len(row["input_ids"]) for row in rows),
        "processor seconds": round(time.process_time() - seconds, 1),
        "seconds": round(time.perf_counter() - begun, 1),
    }
