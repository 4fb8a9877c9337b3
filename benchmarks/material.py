"""Text of real length for the training benchmarks: its documents, tokens and rows, the same for ours and the peer."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from acclimate.core.types import Document
from acclimate.models.encoder import new_encoder
from acclimate.text.corpus import write_corpus
from acclimate.text.documents import read_documents
from acclimate.text.segments import segments
from acclimate.text.tokens import Tokens
from acclimate.text.vocabulary import train_tokenizer

LONGEST = 128  # tokens of a row, special tokens included
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"'(\[])")

Row = dict[str, list[int]]


@dataclass(frozen=True)
class Material:
    """Training and held-out tokens under a WordPiece vocabulary learnt from the training texts."""

    tokenizer: PreTrainedTokenizerBase
    training: Tokens
    heldout: Tokens
    rows: list[Row]  # of the training tokens, and the same joined and cut
    chunks: list[Row]


def how(sentences: int) -> str:
    """What `prepare` does, in words for a report."""
    cut = f"Documents of more than {LONGEST} tokens are cut, nothing is dropped."
    if not sentences:
        return f"A document is a text as it is. {cut}"
    return (
        "Each text is split where a sentence seems to end (a full stop, question or exclamation mark, white space, "
        f"then a capital, digit, quote or bracket); 1 to {sentences} sentences in a row, the number drawn evenly under "
        f"a fixed seed, make a document. {cut}"
    )


def prepare(source: Path, directory: Path, *, texts: int, vocabulary: int, sentences: int = 3) -> Material:
    """The first `texts` texts of a file with the field `text`; the last twentieth of them is held out.

    sentences: of a document at most; 0: documents are the texts as they are
    """
    found = list(itertools.islice(read_documents(source), texts))
    kept = max(1, len(found) - max(1, len(found) // 20))
    training = write_corpus(slices(found[:kept], sentences), directory / "training")
    heldout = write_corpus(slices(found[kept:], sentences), directory / "heldout")
    tokenizer = train_tokenizer(training, size=vocabulary)
    tokens = training.tokens(tokenizer)
    rows = rows_of(tokens)
    return Material(tokenizer, tokens, heldout.tokens(tokenizer), rows, chunks_of(rows))


def rows_of(tokens: Tokens) -> list[Row]:
    """What a collator of transformers takes: the very rows that `masked_stream` trains on, as Python lists."""
    boundaries = segments(tokens, LONGEST)
    special = set(tokens.special)
    rows = []
    for first, last in itertools.pairwise(boundaries.tolist()):
        ids = [*tokens.prefix, *tokens.ids[first:last].tolist(), *tokens.suffix]
        rows.append({"input_ids": ids, "special_tokens_mask": [int(token in special) for token in ids]})
    return rows


def chunks_of(rows: list[Row]) -> list[Row]:
    """The rows joined and cut every LONGEST tokens, as transformers' language modelling examples do."""
    joined = {name: list(itertools.chain.from_iterable(row[name] for row in rows)) for name in rows[0]}
    whole = len(joined["input_ids"]) // LONGEST * LONGEST
    return [
        {name: values[first : first + LONGEST] for name, values in joined.items()} for first in range(0, whole, LONGEST)
    ]


def lengths_line(rows: list[Row]) -> str:
    lengths = np.array([len(row["input_ids"]) for row in rows])
    low, middle, high = np.percentile(lengths, [10, 50, 90])
    return (
        f"{len(rows):,} rows of {lengths.mean():.1f} tokens on average, special tokens included (10th, 50th and 90th "
        f"percentile {low:.0f}, {middle:.0f}, {high:.0f}; longest {lengths.max()})"
    )


def model_of(size: str, material: Material, *, seed: int, attention_dropout: float = 0.1):
    """A random BERT for masked language modelling of a size such as 6x384: layers, hidden width; heads of 64."""
    layers, hidden = map(int, size.split("x"))
    return new_encoder(
        layers=layers,
        hidden=hidden,
        heads=max(1, hidden // 64),
        vocabulary_size=len(material.tokenizer),
        longest=512,
        pad=material.tokenizer.pad_token_id,
        seed=seed,
        attention_dropout=attention_dropout,
    )


def slices(texts: list[Document], most: int) -> Iterator[Document]:
    generator = np.random.default_rng(0)
    for text in texts:
        if not most:
            yield text
            continue
        sentences = _END.split(text.text.strip())
        first = 0
        while first < len(sentences):
            taken = int(generator.integers(1, most + 1))
            yield Document(f"{text.id}:{first}", " ".join(sentences[first : first + taken]), text.source)
            first += taken
