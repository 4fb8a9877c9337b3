"""Search collections in BEIR's folder format, written for tests."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import toys

Judgement = tuple[str, str, int]


def write_collection(
    folder: Path,
    documents: Mapping[str, str | tuple[str, str]],
    queries: Mapping[str, str],
    judgements: Mapping[str, Sequence[Judgement]],
) -> Path:
    """documents: id -> text, or title and text; judgements: split -> (query, document, score)"""
    (folder / "qrels").mkdir(parents=True)
    rows = [
        {"_id": id, "title": text[0], "text": text[1]} if isinstance(text, tuple) else {"_id": id, "text": text}
        for id, text in documents.items()
    ]
    _write(folder / "corpus.jsonl", rows)
    _write(folder / "queries.jsonl", [{"_id": id, "text": text} for id, text in queries.items()])
    for split, judged in judgements.items():
        lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, judgement)) for judgement in judged)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def write_toy(folder: Path, *, train: bool = False) -> Path:
    """A document of two words, and a query for it: of the same words, or with `train`, whose judgements teach that, of
    another word for each.
    """
    words = dict(zip((word for topic in toys.TOPICS.values() for word in topic), toys.PLAIN, strict=False))
    pairs = random.Random(0).sample([(first, second) for first in words for second in words if first < second], 40)
    documents = {f"d{at}": f"{first} {second}" for at, (first, second) in enumerate(pairs)}
    named = words if train else {word: word for word in words}
    queries = {f"q{at}": f"{named[second]} {named[first]}" for at, (first, second) in enumerate(pairs)}
    judged = [(f"q{at}", f"d{at}", 1) for at in range(len(pairs))]
    return write_collection(
        folder, documents, queries, {"train": judged[:30], "test": judged[30:]} if train else {"test": judged}
    )


def _write(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
