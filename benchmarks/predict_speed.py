"""Predicting classes of texts: texts a second, ours beside transformers' pipeline.

python benchmarks/predict_speed.py --model MODEL --corpus texts.jsonl.zst --out benchmarks/reports/DATE-predict-speed.md

The head is random: it computes what a trained one does.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contestants import median
from material import slices
from page import head, spread, table, tell, write
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from acclimate.shipping.predict import load_predictor, predict
from acclimate.text.documents import read_documents

CLASSES = 5
KINDS = {"short": 2, "long": 0}  # sentences of a text at most; 0: documents as they are

HOW = """## What is measured

Texts of the corpus, {lengths}. MODEL has a head of {classes} classes.
Ours: `predict`, with the probabilities of all classes, from a list of texts to a list of predictions, in float32.
*pipeline*: `transformers.pipeline("text-classification", top_k=None)` in float32, which reads {batch} texts at a time:
*as given*, and *sorted* by the length of their tokens, the longest first, and put back into order. *in bfloat16* the
model itself is in that precision, which changes predictions. Tokenizing counts for all. Texts are read up to {longest}
tokens.

Each of {rounds} rounds has a turn of all, in reverse order every second time; seconds are the processor's,
{threads} thread(s). The largest difference between a probability of ours and one of the sorted pipeline is
{difference:.0e}.
"""


def main() -> None:
    given = arguments()
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "model"
        torch.manual_seed(0)
        tokenizer = AutoTokenizer.from_pretrained(given.model)
        tokenizer.model_max_length = given.max_tokens
        AutoModelForSequenceClassification.from_pretrained(given.model, num_labels=CLASSES).save_pretrained(place)
        tokenizer.save_pretrained(place)
        predictor = load_predictor(place)
        plain, narrow = (
            pipeline("text-classification", str(place), dtype=dtype, device="cpu", top_k=None)
            for dtype in (torch.float32, torch.bfloat16)
        )
        documents = list(itertools.islice(read_documents(given.corpus), given.texts))
        sections, lengths, difference = [], [], 0.0
        for kind, sentences in KINDS.items():
            texts = [each.text for each in itertools.islice(slices(documents, sentences), given.texts)]
            tokens = [len(ids) for ids in tokenizer(texts, truncation=True)["input_ids"]]
            lengths.append(f"{kind} ones of {np.mean(tokens):.0f} tokens on average (longest {max(tokens)})")
            ways: dict[str, Callable[[Sequence[str]], list[dict[str, float]]]] = {
                "acclimate": lambda texts: [dict(each.probabilities) for each in predict(predictor, texts)],
                "pipeline, as given": lambda texts: as_given(plain, texts, given.batch),
                "pipeline, sorted": lambda texts: in_order(plain, tokenizer, texts, given.batch),
                "pipeline, sorted, in bfloat16": lambda texts: in_order(narrow, tokenizer, texts, given.batch),
            }
            speeds, off = measured(ways, texts, given.rounds)
            difference = max(difference, off)
            ours = speeds["acclimate"]
            rows = [
                (name, spread(several), spread([a / b for a, b in zip(ours, several, strict=True)], ".2f"))
                for name, several in speeds.items()
            ]
            columns = ("", "texts/s: median (least to most)", "ours by this, within a round")
            sections += [f"## {kind.capitalize()} texts", table(columns, rows)]
    stated = {"lengths": " and ".join(lengths), "classes": CLASSES, "batch": given.batch, "rounds": given.rounds}
    how = HOW.format(**stated, threads=given.threads, longest=given.max_tokens, difference=difference)
    write(given.out, [head("Speed of predicting"), how, *sections])


def as_given(classify: Any, texts: Sequence[str], batch: int) -> list[dict[str, float]]:
    return [
        {each["label"]: each["score"] for each in found}
        for found in classify([*texts], batch_size=batch, truncation=True)
    ]


def in_order(classify: Any, tokenizer: Any, texts: Sequence[str], batch: int) -> list[dict[str, float]]:
    """The same with rows of like length together. An expert would tokenize once more to know the lengths."""
    lengths = [len(ids) for ids in tokenizer([*texts], truncation=True)["input_ids"]]
    order = np.argsort(lengths, kind="stable")[::-1]
    found = as_given(classify, [texts[place] for place in order], batch)
    back = np.empty(len(order), dtype=int)
    back[order] = np.arange(len(order))
    return [found[place] for place in back]


def measured(
    ways: dict[str, Callable[[Sequence[str]], list[dict[str, float]]]], texts: Sequence[str], rounds: int
) -> tuple[dict[str, list[float]], float]:
    """Texts a second of each way and round, and how far the probabilities of ours and the sorted pipeline are apart."""
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    said: dict[str, list[dict[str, float]]] = {}
    for turn in range(rounds + 1):
        for name in [*ways] if turn % 2 else [*ways][::-1]:
            begun = time.process_time()
            said[name] = ways[name](texts if turn else texts[:64])  # the first turn warms up
            if turn:
                speeds[name].append(len(texts) / (time.process_time() - begun))
        if turn:
            tell(f"round {turn}: " + ", ".join(f"{name} {median(several):,.0f}" for name, several in speeds.items()))
    pairs = zip(said["acclimate"], said["pipeline, sorted"], strict=True)
    return speeds, max(abs(ours[label] - theirs[label]) for ours, theirs in pairs for label in theirs)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="an encoder, a directory or hub id")
    parser.add_argument("--corpus", type=Path, required=True, help="a .jsonl, .jsonl.zst ... file with the field text")
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--texts", type=int, default=1_000, help="of each length")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32, help="texts that the pipeline reads at a time")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
