"""Texts that heads are judged on: a sample of a file, and what a tokenizer makes of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from acclimate.models.attention import Marks
from acclimate.tasks.tables import table_rows
from acclimate.text.corpus import Corpus
from acclimate.text.documents import read_documents
from acclimate.text.packed import LIMITS, unpacked_name

TABLES = (".csv", ".tsv")  # what raw text does not come in
CONTINUED = "##"  # WordPiece writes it before a piece that continues a word
SPACES = "\u0120\u2581"  # stand before a piece that begins one: byte-level tokenizers', SentencePiece's


def sample_texts(path: Path, *, column: str = "text", size: int = 200, seed: int = 0) -> list[str]:
    """So many texts of a file, drawn evenly in one pass, in the file's order; all where there are fewer.

    path  raw text (text/documents.py), a folder made by write_corpus, or a table with the texts in `column`
          (tasks/tables.py)

    Raises ValueError where it holds none.
    """
    if size < 1:
        raise ValueError(f"{size} texts were asked for; ask for 1 or more")
    generator = random.Random(seed)
    kept: list[tuple[int, str]] = []
    for number, text in enumerate(texts_of(path, column=column)):
        if number < size:
            kept.append((number, text))
        elif (place := generator.randrange(number + 1)) < size:
            kept[place] = (number, text)
    if not kept:
        raise ValueError(f"{path}: holds no text in '{column}'")
    return [text for _, text in sorted(kept)]


def texts_of(path: Path, *, column: str = "text") -> Iterator[str]:
    """The texts of a file, as `sample_texts` reads them: those that hold more than white space."""
    if Path(unpacked_name(path)).suffix in TABLES:
        values = (row.get(column) for _, row in table_rows(path, [column], LIMITS) if not isinstance(row, str))
        yield from (value for value in values if isinstance(value, str) and value.strip())
    else:
        made = (path / "corpus.json").exists()
        documents = Corpus(path).documents() if made else read_documents(path, field=column)
        yield from (document.text for document in documents if document.text.strip())


def ids_of(texts: Iterable[str], tokenizer: Any, longest: int) -> Iterator[list[int]]:
    """The ids of each text with special tokens around them; what a text itself spells like one is ordinary text."""
    encode = partial(tokenizer, truncation=True, max_length=longest, split_special_tokens=True, verbose=False)
    return ([*encode(text)["input_ids"]] for text in texts)


def marks_of(tokenizer: PreTrainedTokenizerBase, vocabulary: int) -> Marks:
    """[CLS] and [SEP], or what stands in their places, and every piece that is a period alone."""
    ends, periods = np.zeros(vocabulary, bool), np.zeros(vocabulary, bool)
    ends[put_around(tokenizer)] = True
    spelt_so = [number for piece, number in tokenizer.get_vocab().items() if _bare(piece) == "."]
    periods[[number for number in spelt_so if number < vocabulary]] = True
    return Marks(ends, periods)


def put_around(tokenizer: Any) -> list[int]:
    """The special tokens that the tokenizer puts around every text."""
    return [*tokenizer("")["input_ids"]]


def spelt(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """Each token as people read it."""
    return tuple(str(tokenizer.decode([number])).strip() or "\N{OPEN BOX}" for number in ids)


def _bare(piece: str) -> str:
    return piece.removeprefix(CONTINUED).lstrip(SPACES)
