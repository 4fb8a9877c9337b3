"""Questions with a context as token rows, and the best answers by the scores of their first and last tokens.

A row is a question and a part of a context: `[CLS] question [SEP] context [SEP]`, with the family's special tokens. A
question is cut to 64 tokens. A context that does not fit is read in windows that overlap, so that no part of it is
lost. An example may have several contexts, with `PASSAGE` between them; each has its rows.

Devlin et al. (2019), section 4.2, and its released run_squad.py; Nishida et al. (2021), Table 4.

Readings
  In a window without the whole answer, the first token ([CLS]) is its begin and end, as in run_squad.py.
  An answer may come from any window. Spans of all windows and contexts of an example are compared by the sum of their
  two logits. If one text occurs several times, its best span counts. (BioBERT adds probabilities that sum to 1 in each
  context, so a context without an answer counts as much as one with it.)

Shape suffixes: B rows, N tokens of all rows together, C tokens of one row's context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from acclimate.core.prompt import prompt_length
from acclimate.core.types import NOT_PREDICTED, Batch, Example
from acclimate.tasks.metrics import RANKS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PASSAGE = "\f"  # between the contexts of one example: no answer, and no row of tokens, runs over it
# keys of Batch.tokens: the characters [begin, end) of the example's text for a token of a context; -100 for others
BEGIN, END = "begin", "end"
EXAMPLE = "example"  # key of Batch.rows: number of the row's example, as in tasks/rows.py
QUESTION = 64  # tokens (Nishida et al., Table 4)
OVERLAP = 128  # tokens that two windows share
LONGEST = 30  # tokens of an answer (run_squad.py)
BEST = 20  # best spans of each row that are compared (run_squad.py)
FEWEST = 16  # tokens of a row
_AT_ONCE = 1_000  # contexts that go through the tokenizer together: its offsets take a hundred bytes a token


def encode_spans(examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> Batch:
    """Return the rows of all examples, in their order, with tokens["begin"], tokens["end"] and rows["example"].

    Raises ValueError if the tokenizer gives no offsets, and if max_tokens is below FEWEST.
    """
    if not tokenizer.is_fast:
        raise ValueError(
            "the tokenizer has no fast version, so acclimate cannot map tokens to characters. Save one "
            "(tokenizer.json) with transformers, or use another model"
        )
    if max_tokens < FEWEST:
        raise ValueError(f"rows of {max_tokens} tokens have no room for a question and a context. Raise max_tokens")
    questions = _cut([example.pair or "" for example in examples], tokenizer, min(QUESTION, max_tokens // 4))
    contexts = (
        (number, start, text) for number, example in enumerate(examples) for start, text in _passages(example.text)
    )
    ids: list[np.ndarray] = []
    types: list[np.ndarray] = []
    places: list[np.ndarray] = []
    of: list[int] = []
    while chunk := [*islice(contexts, _AT_ONCE)]:
        encoded = tokenizer(
            [questions[number] for number, _, _ in chunk],
            [text for _, _, text in chunk],
            truncation="only_second",
            max_length=max_tokens + prompt_length(tokenizer),
            stride=min(OVERLAP, max_tokens // 4),
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            return_attention_mask=False,
        )
        for row, at in enumerate(encoded["overflow_to_sample_mapping"]):
            number, start, _ = chunk[at]
            place = np.asarray(encoded["offset_mapping"][row], dtype=np.int64) + start
            place[np.array([part != 1 for part in encoded.sequence_ids(row)])] = NOT_PREDICTED
            ids.append(np.asarray(encoded["input_ids"][row], dtype=np.int64))
            places.append(place)
            of.append(number)
            if "token_type_ids" in encoded:
                types.append(np.asarray(encoded["token_type_ids"][row], dtype=np.int64))
    place_N2 = np.concatenate(places)
    return Batch(
        ids=np.concatenate(ids),
        offsets=np.concatenate([[0], np.cumsum([len(row) for row in ids])]).astype(np.int64),
        tokens={BEGIN: place_N2[:, 0], END: place_N2[:, 1]}
        | ({"token_type_ids": np.concatenate(types)} if types else {}),
        rows={EXAMPLE: np.array(of, dtype=np.int64)},
        names=[examples[number].id for number in of],
        pad=int(tokenizer.pad_token_id or 0),
    )


def with_ends(rows: Batch, examples: Sequence[Example]) -> Batch:
    """Return the rows with rows["label"], (B, 2) int64: positions in the row of the answer's first and last token.

    The answer is the first of the example's spans that is wholly in the row. Without one, both are 0.
    """
    ends_B2 = np.zeros((len(rows), 2), dtype=np.int64)
    for row, number in enumerate(rows.rows[EXAMPLE]):
        tokens_of_row = slice(rows.offsets[row], rows.offsets[row + 1])
        begin, end = rows.tokens[BEGIN][tokens_of_row], rows.tokens[END][tokens_of_row]
        context = np.flatnonzero(begin != NOT_PREDICTED)
        if not len(context):
            continue
        for first, last in examples[number].spans:
            if begin[context[0]] <= first and last <= end[context[-1]]:
                # a token that only touches the span from outside, as white space may, does not belong to it
                inside = context[(end[context] > first) & (begin[context] < last)]
                if len(inside):
                    ends_B2[row] = inside[0], inside[-1]
                    break
    return replace(rows, rows={**rows.rows, "label": ends_B2})


def best_answers(
    scores_N2: np.ndarray, rows: Batch, texts: Sequence[str], *, longest: int = LONGEST
) -> list[tuple[str, ...]]:
    """Return up to RANKS different answers of each example, the best first.

    scores_N2  logits of each token as the first and as the last of an answer
    texts      texts of all examples
    longest    most tokens of an answer
    """
    ranked = ranked_answers(scores_N2, rows, texts, longest=longest)
    return [tuple(answer for answer, _ in answers[:RANKS]) for answers in ranked]


def ranked_answers(
    scores_N2: np.ndarray, rows: Batch, texts: Sequence[str], *, longest: int = LONGEST
) -> list[list[tuple[str, float]]]:
    """Return the different answers of each example among the BEST best spans of every row, the best first, each with
    the sum of the logits of its first and last token. Parameters as those of `best_answers`.
    """
    assert rows.rows[EXAMPLE].max(initial=-1) < len(texts), "the texts of all examples are needed"
    candidates: list[list[tuple[float, int, int]]] = [[] for _ in texts]
    for row, number in enumerate(rows.rows[EXAMPLE]):
        tokens_of_row = slice(rows.offsets[row], rows.offsets[row + 1])
        context = np.flatnonzero(rows.tokens[BEGIN][tokens_of_row] != NOT_PREDICTED)
        if len(context):
            begin, end = rows.tokens[BEGIN][tokens_of_row][context], rows.tokens[END][tokens_of_row][context]
            for score, first, last in _best_spans(scores_N2[tokens_of_row][context], longest):
                candidates[number].append((score, int(begin[first]), int(end[last])))
    return [_different(text, spans) for text, spans in zip(texts, candidates, strict=True)]


def _best_spans(scores_C2: np.ndarray, longest: int) -> Iterator[tuple[float, int, int]]:
    """Yield score, first and last token of the BEST best spans of a context, in any order."""
    ends = np.pad(scores_C2[:, 1], (0, longest - 1), constant_values=-np.inf)
    sums = scores_C2[:, :1] + np.lib.stride_tricks.sliding_window_view(ends, longest)
    flat = sums.ravel()
    for at in np.argpartition(flat, max(len(flat) - BEST, 0))[-BEST:]:
        if np.isfinite(flat[at]):
            first, more = divmod(int(at), longest)
            yield float(flat[at]), first, first + more


def _different(text: str, spans: Sequence[tuple[float, int, int]]) -> list[tuple[str, float]]:
    """Return the texts of the spans, the best first, with their scores. Texts that differ only by case are one, with
    the score of the best; ties go by position.
    """
    answers: dict[str, tuple[str, float]] = {}
    for score, begin, end in sorted(spans, key=lambda span: (-span[0], span[1:])):
        if answer := text[begin:end].strip():
            answers.setdefault(answer.casefold(), (answer, score))
    return list(answers.values())


def _passages(text: str) -> Iterator[tuple[int, str]]:
    """Yield the offset of each context in the text, and the context."""
    start = 0
    for passage in text.split(PASSAGE):
        if passage.strip():
            yield start, passage
        start += len(passage) + len(PASSAGE)


def _cut(questions: Sequence[str], tokenizer: PreTrainedTokenizerBase, most: int) -> list[str]:
    """Return the questions, cut after `most` tokens."""
    encoded = tokenizer(
        list(questions), add_special_tokens=False, return_offsets_mapping=True, return_attention_mask=False
    )
    return [
        question[: offsets[most - 1][1]] if len(offsets) > most else question
        for question, offsets in zip(questions, encoded["offset_mapping"], strict=True)
    ]
