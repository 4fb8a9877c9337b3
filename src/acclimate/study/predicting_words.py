"""What a shipped model says of the words of sentences, asked through transformers' Auto classes (study/predicting.py).

A word's tag is the one at the word's first piece, found by the characters that the tokenizer says it has read.
Sentences of more tokens than the tokenizer's own model_max_length are read in the windows of tasks/rows.py, as scored.

Shape suffixes: C outputs (a tag each), w words of a sentence.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from acclimate.core.prompt import prompt_length
from acclimate.core.types import NOT_PREDICTED, Example, Watch, counted, unwatched
from acclimate.tasks.rows import WORD, encode
from acclimate.tasks.tags import words_of

Places = dict[int, int]  # word -> the position of its first piece
Row = tuple[int, list[int], Places]  # of which sentence, token ids, and where the words that are asked for stand


def logits_of_words(
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    asked: Callable[[dict[str, np.ndarray]], np.ndarray],
    *,
    size: int,
    stage: str = "check",
    watch: Watch = unwatched,
) -> list[np.ndarray]:
    """(w, C) for each sentence; nan for a word of which the tokenizer leaves no piece. size: rows of a batch."""
    rows = sorted(_rows(examples, tokenizer), key=lambda row: -len(row[1]))
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    logits: list[np.ndarray | None] = [None] * len(examples)
    for part in counted(parts, watch, stage, total=len(parts), unit="batches", every=1):
        padded = tokenizer.pad({"input_ids": [ids for _, ids, _ in part]}, return_tensors="np", verbose=False)
        logits_BTC = asked({name: np.asarray(values, dtype=np.int64) for name, values in _inputs(padded, tokenizer)})
        for (sentence, _, places), logits_TC in zip(part, logits_BTC, strict=True):
            said_wC = logits[sentence]
            if said_wC is None:
                said_wC = np.full((len(words_of(examples[sentence].text)), logits_TC.shape[-1]), np.nan)
                logits[sentence] = said_wC
            said_wC[list(places)] = logits_TC[list(places.values())]
    return [said_wC for said_wC in logits if said_wC is not None]


def _inputs(padded: Any, tokenizer: PreTrainedTokenizerBase) -> list[tuple[str, np.ndarray]]:
    """What the tokenizer itself would give: one text is of token type 0."""
    named = dict(padded)
    if "token_type_ids" in tokenizer.model_input_names:
        named["token_type_ids"] = np.zeros_like(named["input_ids"])
    return [(name, named[name]) for name in tokenizer.model_input_names if name in named]


def _rows(examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase) -> list[Row]:
    encoded = tokenizer([example.text for example in examples], return_offsets_mapping=True, verbose=False)
    rows: list[Row] = []
    long = []
    for sentence, (ids, offsets) in enumerate(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)):
        if len(ids) > tokenizer.model_max_length:
            long.append(sentence)
            continue
        starts = [0, *accumulate(len(word) + 1 for word in words_of(examples[sentence].text))]
        places: Places = {}
        for position, (start, end) in enumerate(offsets):
            if end > start:
                # its last character: a space before a word may belong to the word's first piece
                places.setdefault(bisect_right(starts, end - 1) - 1, position)
        rows.append((sentence, ids, places))
    return rows + _windows([examples[sentence] for sentence in long], long, tokenizer)


def _windows(examples: Sequence[Example], numbers: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> list[Row]:
    if not examples:
        return []
    batch = encode(examples, tokenizer, tokenizer.model_max_length - prompt_length(tokenizer), "tokens")
    rows = []
    for row, sentence in enumerate(batch.rows["example"].tolist()):
        own = slice(batch.offsets[row], batch.offsets[row + 1])
        words = batch.tokens[WORD][own]
        places = {int(words[position]): int(position) for position in np.flatnonzero(words != NOT_PREDICTED)}
        rows.append((numbers[sentence], batch.ids[own].tolist(), places))
    return rows
