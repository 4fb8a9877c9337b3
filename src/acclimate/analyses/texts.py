"""The texts that an analysis reads: a sample of a file, as token ids of a model."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from acclimate.models.configuration import longest_input
from acclimate.reading.source import ending_of, open_source
from acclimate.reading.tables import table_rows
from acclimate.text.corpus import Corpus
from acclimate.text.documents import read_documents

TABLES = (".csv", ".tsv")  # file names of tables; all others are raw text


def sample_texts(path: Path, *, column: str = "text", size: int = 200, seed: int = 0) -> list[str]:
    """Return a uniform sample of `size` texts of a file, in the file's order; all if there are fewer. One pass.

    path  raw text (text/documents.py), a folder made by write_corpus, or a table with the texts in `column`
          (reading/tables.py)

    Raises ValueError if it holds no text.
    """
    if size < 1:
        raise ValueError(f"{size} texts requested. Request at least 1")
    generator = random.Random(seed)
    sample: list[tuple[int, str]] = []
    for number, text in enumerate(read_texts(path, column=column)):
        if number < size:
            sample.append((number, text))
        elif (place := generator.randrange(number + 1)) < size:
            sample[place] = (number, text)
    if not sample:
        raise ValueError(f"{path}: contains no text in '{column}'")
    return [text for _, text in sorted(sample)]


def read_texts(path: Path, *, column: str = "text") -> Iterator[str]:
    """Yield the texts of a file, read as by `sample_texts`, without those of white space alone."""
    if ending_of(path) in TABLES:
        values = (row.get(column) for _, row in table_rows(open_source(path), [column]) if not isinstance(row, str))
        yield from (value for value in values if isinstance(value, str) and value.strip())
    else:
        is_corpus = (path / "corpus.json").exists()
        documents = Corpus(path).documents() if is_corpus else read_documents(path, field=column)
        yield from (document.text for document in documents if document.text.strip())


def ids_of(texts: Iterable[str], tokenizer: Any, longest: int) -> Iterator[list[int]]:
    """Yield the ids of each text with special tokens around it; a special token that a text spells has ordinary ids."""
    encode = partial(tokenizer, truncation=True, max_length=longest, split_special_tokens=True, verbose=False)
    return ([*encode(text)["input_ids"]] for text in texts)


def longest_row(name: str, model: str, tokenizer: Any, max_tokens: int) -> int:
    """Return the number of tokens to read of a text: `max_tokens`, or fewer if the model reads fewer.

    name: of the model in the error. Raises ValueError if special tokens alone take as many.
    """
    longest = min(max_tokens, longest_input(model) or max_tokens)
    if longest <= (around := len(put_around(tokenizer))):
        raise ValueError(f"max_tokens is {max_tokens}, but {name} adds {around} tokens to a text. Increase it")
    return longest


def put_around(tokenizer: Any) -> list[int]:
    """Return the special tokens that the tokenizer puts around every text."""
    return [*tokenizer("")["input_ids"]]
