"""Labelled examples as the token rows that a model reads, and their labels as what a loss reads.

In a task of kind "tokens" the first piece of a word carries the word's tag. The tokenizer reads the sentence as it
stands, so a word has the pieces that it has in any text. A sentence of more tokens than a row may have becomes several
rows, windows that overlap; the window in whose middle a word stands nearest predicts it. So no word is cut off, and
none counts twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from acclimate.core.prompt import prompt_length
from acclimate.core.types import MENTIONS, NOT_PREDICTED, TAGS, Batch, Example, Split
from acclimate.tasks.mention_marks import marked_spans, mention_spans
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.spans import encode_spans, with_ends
from acclimate.tasks.tags import words_of
from acclimate.tasks.task import Kind
from acclimate.text.tokens import tokenizer_identity

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedTokenizerBase


# Which tokens of a row stand for the two mentions of a relation, or for the two texts of a pair.

PAIR = 2  # mentions or texts
Places = Callable[[Example], Sequence[tuple[int, int]]]


def both_texts(example: Example) -> tuple[tuple[int, int], ...]:
    """Return where each text of a pair begins and ends, in its own characters."""
    return (0, len(example.text)), (0, len(example.pair or ""))


# what a classifier reads (models/task_layers.py) -> where that stands
SPANS: dict[str, Places | None] = {
    "auto": None,  # of a recipe, before a probe has chosen
    "pooler": None,
    "first": None,
    "mean": None,
    "mentions": mention_spans,
    "mentions-mean": mention_spans,
    "starts": marked_spans,
    "pair": both_texts,
}


def read_at_places(task: Prepared, tokenizer: PreTrainedTokenizerBase) -> Literal["mentions", "pair"] | None:
    """Return what a probe can read of the task's texts at two places; None if there are no places, and for a tokenizer
    that has no fast version, which does not say where its pieces stand.
    """
    return task.two_places if tokenizer.is_fast else None


def places_of(task: Prepared, tokenizer: PreTrainedTokenizerBase) -> Places | None:
    """Return where `read_at_places` reads."""
    return SPANS[read_at_places(task, tokenizer) or "first"]


def mention_places(examples: Sequence[Example], encoded: BatchEncoding, spans: Places) -> np.ndarray:
    """Return (B, 2, 2), the first token of its row that each mention or text touches, and the one after the last.

    encoded  the texts, with the characters of each token
    spans    where the mentions of an example stand in its text; `both_texts`: each stretch is of another text

    For a mention that was cut off, and for a text that is empty, the row's first token stands.

    Raises ValueError for an example without two mentions.
    """
    places = np.tile(np.array([0, 1], dtype=np.int64), (len(examples), PAIR, 1))
    for row, example in enumerate(examples):
        stretches = spans(example)
        if len(stretches) != PAIR:
            raise ValueError(
                f"{example.id}: {len(stretches)} mentions have positions, but {PAIR} are needed to read mentions "
                "instead of the first token. Remove pooling, or prepare the task from annotated relations"
            )
        offsets = np.asarray(encoded["offset_mapping"][row])
        text_T = np.array([-1 if text is None else text for text in encoded.sequence_ids(row)])
        for mention, (start, end) in enumerate(stretches):
            in_text = text_T == (mention if spans is both_texts else 0)
            touched = np.flatnonzero(in_text & (offsets[:, 0] < end) & (offsets[:, 1] > start))
            if len(touched):
                places[row, mention] = touched[0], touched[-1] + 1
    return places


def cut_off(rows: Batch) -> int:
    """Return the number of rows in which a mention was cut off."""
    return int((rows.rows[MENTIONS][:, :, 0] == 0).any(axis=1).sum())


WORD = "word"  # of Batch.tokens: the number of the word whose first piece the token is, else NOT_PREDICTED
EXAMPLE, WORDS = "example", "words"  # of Batch.rows: which example the row is of, and how many words that has
EDGES = "edges"  # of Batch.rows: (B, 2), 1 where the sentence begins with the row's words, and where it ends with them
CONTEXT = 4  # one part in so many of a window, at either side, is context for the words in its middle


def encode_rows(
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int,
    kind: Kind = "sequence",
    *,
    spans: Places | None = None,
) -> Batch:
    """Return the texts of all examples as one batch, in their order. Labels are not looked at: `with_labels` adds them.

    Each is cut to `max_tokens`, of a pair the longer text first; a prompt (core/prompt.py) stands behind that.
    Sentences of tagged words (kind "tokens") are read in windows, so that an example may have several rows, and the
    batch carries tokens["word"], rows["example"], rows["words"] and rows["edges"]. So are contexts of questions (kind
    "span"): tasks/spans.py.

    spans  where the two mentions of an example stand in its text, or `both_texts`, for rows["mentions"]: the tokens
           that they touch, or the row's first token in place of a mention that was cut off
    """
    if kind == "tokens":
        return _encoded_words(examples, tokenizer, max_tokens)
    if kind == "span":
        return encode_spans(examples, tokenizer, max_tokens)
    if spans is not None and not tokenizer.is_fast:
        raise ValueError(
            "the tokenizer has no fast version, so acclimate cannot map tokens to mentions or texts. Save one "
            "(tokenizer.json) with transformers, use another model, or set finetune.pooling=mean"
        )
    texts = [example.text for example in examples]
    pairs = [example.pair or "" for example in examples] if any(example.pair for example in examples) else None
    encoded = tokenizer(
        texts,
        pairs,
        truncation=True,
        max_length=max_tokens + prompt_length(tokenizer),
        return_attention_mask=False,
        return_offsets_mapping=spans is not None,
    )
    rows = encoded["input_ids"]
    tokens = {}
    if "token_type_ids" in encoded and pairs is not None:
        tokens["token_type_ids"] = np.concatenate(
            [np.asarray(row, dtype=np.int64) for row in encoded["token_type_ids"]]
        )
    return Batch(
        ids=np.concatenate([np.asarray(row, dtype=np.int64) for row in rows]),
        offsets=np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64),
        tokens=tokens,
        rows={} if spans is None else {MENTIONS: mention_places(examples, encoded, spans)},
        names=[example.id for example in examples],
        pad=int(tokenizer.pad_token_id or 0),
    )


def with_labels(rows: Batch, examples: Sequence[Example], kind: Kind, labels: Sequence[str]) -> Batch:
    """Return the rows with the examples' labels as `rows["label"]`:

    sequence    (B,) int64, indices into `labels`
    multilabel  (B, labels) float32, 1 where the row has the label
    score       (B,) float64, the numbers as they are
    span        (B, 2) int64, the places of the answer's first and last token in the row

    and those of kind "tokens" as `tokens["tags"]`, (N,) int64 indices into `labels` and NOT_PREDICTED.

    Raises ValueError for a label that is not among them, or is not of the kind.
    """
    index = {label: number for number, label in enumerate(labels)}
    if kind == "tokens":
        return _tagged(rows, examples, index)
    if kind == "span":
        return with_ends(rows, examples)
    if kind == "sequence":
        codes = [_index(example, example.label, index) for example in examples]
        return _with_label_values(rows, np.asarray(codes, dtype=np.int64))
    if kind == "multilabel":
        hot = np.zeros((len(examples), len(labels)), dtype=np.float32)
        for row, example in enumerate(examples):
            if not isinstance(example.label, tuple):
                raise ValueError(f"{example.id}: label {example.label!r} is not a tuple of labels")
            hot[row, [_index(example, label, index) for label in example.label]] = 1
        return _with_label_values(rows, hot)
    if kind == "score":
        for example in examples:
            if isinstance(example.label, str | tuple):
                raise ValueError(f"{example.id}: label {example.label!r} is not a number")
        return _with_label_values(rows, np.asarray([example.label for example in examples], dtype=np.float64))
    raise ValueError(
        f"a task of kind '{kind}' cannot be fine-tuned. These kinds can: sequence, multilabel, score, tokens, span"
    )


def emptied(rows: Batch, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase) -> tuple[int, str]:
    """Return the number of texts (of tagged words: the number of words) of which the tokenizer leaves no token, and
    "texts" or "words".

    rows: as `encoded` returns those of the examples, of any kind but "span"

    Raises ValueError if it leaves nothing of any.
    """
    if WORD in rows.tokens:
        count, what = sum(len(words_of(example.text)) for example in examples), "words"
        lost = count - int(np.count_nonzero(rows.tokens[WORD] != NOT_PREDICTED))
    else:
        pair = "" if any(example.pair for example in examples) else None
        count, what = len(examples), "texts"
        lost = int(np.count_nonzero(rows.lengths <= len(tokenizer("", pair)["input_ids"])))
    if lost == count:
        raise ValueError(
            f"the tokenizer makes no token of any of the {count:,} training {what}, from {examples[0].id} on. Check "
            "the text column, or use a model whose vocabulary has its characters"
        )
    return lost, what


def word_values(values_N: np.ndarray, rows: Batch) -> list[np.ndarray]:
    """Return each example's values a word, from values a token; -1 for a word without a piece."""
    first = rows.rows[EXAMPLE]
    counts = np.zeros(int(first.max()) + 1, dtype=np.int64)
    counts[first] = rows.rows[WORDS]
    ends = np.cumsum(counts)
    tokens, words = _words_of_tokens(rows, ends - counts)
    flat = np.full(int(ends[-1]), -1, dtype=np.int64)
    flat[words] = values_N[tokens]
    return np.split(flat, ends[:-1])


def _encoded_words(examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> Batch:
    if not tokenizer.is_fast:
        raise ValueError(
            "the tokenizer has no fast version, so acclimate cannot map tokens to words. Save one (tokenizer.json) "
            "with transformers, or use another model"
        )
    encoded = tokenizer(
        [example.text for example in examples],
        add_special_tokens=False,
        return_attention_mask=False,
        return_offsets_mapping=True,
        verbose=False,
    )
    before, after = _frame(tokenizer)
    room = max_tokens + prompt_length(tokenizer) - len(before) - len(after)
    if room < 1:
        raise ValueError(f"rows of {max_tokens} tokens have no room for a word. Raise max_tokens")
    ids, words, of, counts, edges = [], [], [], [], []
    for number, example in enumerate(examples):
        text = words_of(example.text)
        pieces = np.asarray(encoded["input_ids"][number], dtype=np.int64)
        offsets = np.asarray(encoded["offset_mapping"][number], dtype=np.int64).reshape(-1, 2)
        word = _first_pieces(text, offsets)
        for window, centre in windows(len(pieces), room):
            window_words = np.full(len(before) + (window.stop - window.start) + len(after), NOT_PREDICTED)
            window_words[len(before) + centre.start - window.start : len(before) + centre.stop - window.start] = word[
                centre
            ]
            ids.append(np.concatenate([before, pieces[window], after]))
            words.append(window_words)
            of.append(number)
            counts.append(len(text))
            edges.append((centre.start == 0, centre.stop == len(pieces)))
    return Batch(
        ids=np.concatenate(ids).astype(np.int64),
        offsets=np.concatenate([[0], np.cumsum([len(row) for row in ids])]).astype(np.int64),
        tokens={WORD: np.concatenate(words)},
        rows={
            EXAMPLE: np.array(of, dtype=np.int64),
            WORDS: np.array(counts, dtype=np.int64),
            EDGES: np.array(edges, dtype=np.int64),
        },
        names=[examples[number].id for number in of],
        pad=int(tokenizer.pad_token_id or 0),
    )


def _frame(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Return the ids that stand before and after the pieces of a text."""
    inner, framed = (tokenizer("a", add_special_tokens=special)["input_ids"] for special in (False, True))
    start = next(at for at in range(len(framed)) if framed[at : at + len(inner)] == inner)
    return framed[:start], framed[start + len(inner) :]


def _first_pieces(words: Sequence[str], offsets: np.ndarray) -> np.ndarray:
    """Return (pieces,), the number of the word that begins with the piece, NOT_PREDICTED elsewhere.

    offsets: (pieces, 2), the characters that each is made of; a space before a word may belong to its first piece.
    """
    numbers = np.full(len(offsets), NOT_PREDICTED)
    lengths = np.array([len(word) for word in words])
    ends = np.cumsum(lengths + 1) - 1
    piece = np.searchsorted(offsets[:, 1], ends - lengths, side="right")
    has_piece = piece < len(offsets)
    has_piece[has_piece] = offsets[piece[has_piece], 0] < ends[has_piece]
    has_piece[1:] &= piece[1:] != piece[:-1]  # a piece of two words stands for the first
    numbers[piece[has_piece]] = np.flatnonzero(has_piece)
    return numbers


def windows(pieces: int, room: int) -> Iterator[tuple[slice, slice]]:
    """Yield the pieces of each window, and those of them that it predicts: each piece is predicted by one window.

    room: pieces that a window holds at most
    """
    if pieces <= room:
        yield slice(0, pieces), slice(0, pieces)
        return
    step = room - 2 * (room // CONTEXT)
    count = -(-(pieces - room) // step) + 1
    starts = np.linspace(0, pieces - room, count).round().astype(int)
    middles = (starts[:-1] + starts[1:] + room) // 2
    bounds = [0, *middles.tolist(), pieces]
    for start, first, last in zip(starts.tolist(), bounds[:-1], bounds[1:], strict=True):
        yield slice(start, start + room), slice(first, last)


def _words_of_tokens(rows: Batch, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens that stand for a word, and the words' places where all words of all examples stand in one row.

    starts: where the words of each example begin there.
    """
    tokens = np.flatnonzero(rows.tokens[WORD] != NOT_PREDICTED)
    example = np.repeat(rows.rows[EXAMPLE], rows.lengths)[tokens]
    return tokens, starts[example] + rows.tokens[WORD][tokens]


def _tagged(rows: Batch, examples: Sequence[Example], index: dict[str, int]) -> Batch:
    codes: list[int] = []
    starts = []
    for example in examples:
        starts.append(len(codes))
        if not isinstance(example.label, tuple) or len(example.label) != len(words_of(example.text)):
            raise ValueError(f"{example.id}: label {example.label!r} is not a tuple of one tag per word")
        codes += [_index(example, tag, index) for tag in example.label]
    tokens, words = _words_of_tokens(rows, np.array(starts, dtype=np.int64))
    tags = np.full(len(rows.ids), NOT_PREDICTED, dtype=np.int64)
    tags[tokens] = np.array(codes, dtype=np.int64)[words]
    return replace(rows, tokens={**rows.tokens, TAGS: tags})


def _index(example: Example, label: object, index: dict[str, int]) -> int:
    if not isinstance(label, str) or label not in index:
        raise ValueError(f"{example.id}: label {label!r} is not among {', '.join(index)}")
    return index[label]


def _with_label_values(rows: Batch, values: np.ndarray) -> Batch:
    return replace(rows, rows={**rows.rows, "label": values})


# The rows of a prepared task under a tokenizer, made once for all fine-tunings that a process does one after another.
#
# A race of small models would spend a fifth of its time on making the same rows again.

KEPT = 6  # splits whose rows stay in memory, those used last
_rows: OrderedDict[Hashable, Batch] = OrderedDict()


def encoded(
    task: Prepared,
    split: Split,
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    *,
    spans: Places | None = None,
) -> Batch:
    """Return the rows of the split's examples, as `encode_rows` makes them. They are cached: do not change them."""
    if not tokenizer.is_fast:  # what a slow one depends on is unknown
        return encode_rows(examples, tokenizer, task.max_tokens, task.kind, spans=spans)
    sides = prompt_length(tokenizer), tokenizer.truncation_side, tuple(tokenizer.model_input_names)
    key = (task.hashes[split], task.max_tokens, task.kind, spans, tokenizer_identity(tokenizer), *sides)
    if key not in _rows:
        _rows[key] = encode_rows(examples, tokenizer, task.max_tokens, task.kind, spans=spans)
        while len(_rows) > KEPT:
            _rows.popitem(last=False)
    _rows.move_to_end(key)
    return _rows[key]
