"""Tokenise each different chunk of text, between two blanks, only once.

Running text repeats itself: nine of ten chunks were met before. Under most encoders' tokenizers a chunk has the same
tokens in every context, so they can be looked up, which is some ten times as fast as tokenising. This holds if none of
the tokenizer's rules looks across a blank:

words    BERT's rules: its normaliser, its word rules, WordPiece. Every blank separates chunks.
bytes    RoBERTa's and ModernBERT's rules: at most Unicode composition, byte-level rules, BPE. A single blank begins the
         next chunk; a text with more white space after a blank is tokenised as a whole.

A text is also tokenised as a whole if it contains an added token that takes in the blanks beside it or has some inside
(RoBERTa's <mask>), or if the end of a chunk belongs to the next word. Any other tokenizer gets only whole texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal

import numpy as np
import tokenizers

from acclimate.text.words import word_starts

Encoded = tuple[np.ndarray, np.ndarray, np.ndarray]  # ids of all texts, word starts, tokens of each text
_SPACED = re.compile(r" \s|\s \Z")
_JOINED = 256  # new chunks that are tokenised as one text
# known chunks, and their characters, above which all are forgotten: some 150 MB
_KNOWN, _CHARACTERS = 1 << 19, 1 << 23


class Chunked:
    """A tokenizer without truncation and padding, and the chunks that it has met."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self._backend = backend
        self._kind, self._odd = _kind(json.loads(backend.to_str()))
        self._ids: np.ndarray  # of the tokens of all chunks
        self._starts: np.ndarray  # word starts of these tokens
        self._begins: np.ndarray  # where each chunk's tokens begin
        self._ends: np.ndarray
        self._open: np.ndarray  # True for a chunk whose end belongs to the next word
        self._forget()

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Return (n,) int64 ids of all texts in turn, (n,) bool word starts, (texts,) int64 tokens of each text."""
        if not self._kind:
            return encode_whole(self._backend, texts)
        whole = np.fromiter(map(self._is_odd, texts), bool, len(texts))
        # an odd text gets an empty chunk for now, so that every text has one
        split = [[""] if odd else text.split(" ") for text, odd in zip(texts, whole.tolist(), strict=True)]
        if self._kind == "bytes":
            for chunks in split:
                chunks[0] = f" {chunks[0]}"  # the blank marks the first chunk of a text
        flat = list(chain.from_iterable(split))
        self._learn(set(flat).difference(self._known))
        numbers = np.fromiter(map(self._known.__getitem__, flat), np.int64, len(flat))
        begins = np.cumsum([0, *map(len, split)])[:-1]
        whole |= np.logical_or.reduceat(self._open[numbers], begins)
        lengths = self._ends[numbers] - self._begins[numbers]
        counts = np.add.reduceat(lengths, begins)
        # token i of the chunk at place p is token begins[p] + i of the table
        shift = self._begins[numbers] - (np.cumsum(lengths) - lengths)
        places = np.repeat(shift, lengths) + np.arange(lengths.sum())
        pieces = self._ids[places], self._starts[places], counts
        if len(self._known) > _KNOWN or self._characters > _CHARACTERS:
            self._forget()
        return self._with_whole(texts, whole, pieces) if whole.any() else pieces

    def _is_odd(self, text: str) -> bool:
        # byte-level rules take several blanks as one piece, except for the last before a word
        spaced = self._kind == "bytes" and _SPACED.search(text) is not None
        return spaced or any(odd in text for odd in self._odd)

    def _with_whole(self, texts: Sequence[str], whole: np.ndarray, pieces: Encoded) -> Encoded:
        """Return what was found, with the tokens of the texts `whole` replaced by those of the tokenizer."""
        ids, starts, counts = encode_whole(self._backend, [texts[place] for place in np.flatnonzero(whole).tolist()])
        of_chunks = np.repeat(~whole, pieces[2])
        all_counts = pieces[2].copy()
        all_counts[whole] = counts
        of_whole = np.repeat(whole, all_counts)
        all_ids, all_starts = np.empty(len(of_whole), np.int64), np.empty(len(of_whole), bool)
        all_ids[of_whole], all_starts[of_whole] = ids, starts
        all_ids[~of_whole], all_starts[~of_whole] = pieces[0][of_chunks], pieces[1][of_chunks]
        return all_ids, all_starts, all_counts

    def _learn(self, chunks: set[str]) -> None:
        """Add the tokens of new chunks."""
        if not chunks:
            return
        # the first chunk of a text has no blank before it, and an empty chunk would put two blanks side by side
        alone = [chunk for chunk in chunks if self._kind == "bytes" and chunk[:1] in ("", " ")]
        joined = list(chunks.difference(alone))
        groups = [[chunk] for chunk in alone]
        groups += [joined[first : first + _JOINED] for first in range(0, len(joined), _JOINED)]
        ids, starts, counts, is_open = self._tokens(groups)
        ends = len(self._ids) + np.cumsum(counts)
        self._open = np.concatenate([self._open, is_open])
        self._ids, self._starts = np.concatenate([self._ids, ids]), np.concatenate([self._starts, starts])
        self._begins, self._ends = np.append(self._begins, ends - counts), np.append(self._ends, ends)
        self._known.update(zip([*alone, *joined], range(len(self._known), len(ends) + len(self._known)), strict=True))
        self._characters += sum(map(len, chunks))

    def _tokens(self, groups: list[list[str]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return ids and word starts of all chunks' tokens, the number of tokens of each chunk, and whether its end
        belongs to the next word.
        """
        texts = [self._text(group) for group in groups]
        encodings = self._backend.encode_batch(texts, add_special_tokens=False)
        # an empty text may get tokens (add_prefix_space) though it has no chunk
        encoded = [encoding if text else None for encoding, text in zip(encodings, texts, strict=True)]
        of_text = np.array([len(encoding) if encoding else 0 for encoding in encoded], np.int64)
        ids = np.fromiter(
            chain.from_iterable(encoding.ids for encoding in encoded if encoding), np.int64, of_text.sum()
        )
        # each text is followed by one more token, which is a separate word
        followed = chain.from_iterable(
            (*chain.from_iterable(encoding.offsets if encoding else ()), len(text) + 1, len(text) + 2)
            for encoding, text in zip(encoded, texts, strict=True)
        )
        spans = np.fromiter(followed, np.int64, 2 * (of_text.sum() + len(texts))).reshape(-1, 2)
        starts = word_starts([f"{text} a" for text in texts], spans, of_text + 1)
        chunk_of = self._chunk_of(groups, texts, spans[:, 0], of_text + 1)
        last = np.cumsum(of_text + 1) - 1
        counts = np.bincount(np.delete(chunk_of, last), minlength=sum(map(len, groups)))
        # if the end of a chunk belongs to the next word, the first token after it begins no word
        after = np.flatnonzero(np.append(False, chunk_of[1:] != chunk_of[:-1]) & ~starts)
        is_open = np.zeros(len(counts), bool)
        is_open[chunk_of[after - 1]] = True
        starts[after] = True  # after any other chunk it begins one
        return ids, np.delete(starts, last), counts, is_open

    def _chunk_of(self, groups: list[list[str]], texts: list[str], first: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return (n,) the number of each token's chunk, by its first character; -1 for the token after each text."""
        # places count over all texts, each followed by three characters: " a" and a border to the next text
        text_begins = np.cumsum([0, *(len(text) + 3 for text in texts)])[:-1]
        lengths = np.fromiter((len(chunk) + 1 for group in groups for chunk in group), np.int64)
        group_of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        before = np.cumsum(lengths) - lengths
        sizes = np.fromiter(map(len, groups), np.int64)
        firsts = np.cumsum(sizes) - sizes
        begins = text_begins[group_of] + before - before[firsts][group_of]
        places = np.repeat(text_begins, counts) + first
        chunks: np.ndarray = np.searchsorted(begins, places, side="right") - 1
        chunks[np.cumsum(counts) - 1] = -1
        return chunks

    def _text(self, group: list[str]) -> str:
        """Return the text by whose tokens the chunks are known: the chunks with the blanks between them."""
        if self._kind == "words":
            return " ".join(group)
        return group[0][1:] if group[0].startswith(" ") else "".join(f" {chunk}" for chunk in group)

    def _forget(self) -> None:
        self._known: dict[str, int] = {}
        self._characters = 0
        self._ids = np.empty(0, np.int64)
        self._starts = np.empty(0, bool)
        self._begins = np.empty(0, np.int64)
        self._ends = np.empty(0, np.int64)
        self._open = np.empty(0, bool)


def encode_whole(backend: tokenizers.Tokenizer, texts: Sequence[str]) -> Encoded:
    """Return what `Chunked.encode` returns, by tokenising the whole texts."""
    encodings = backend.encode_batch(list(texts), add_special_tokens=False)
    counts = np.fromiter(map(len, encodings), np.int64, len(encodings))
    ids = np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), np.int64, counts.sum())
    # flattened lazily: as lists of pairs the offsets would take most of a batch's memory
    ends = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
    spans = np.fromiter(ends, np.int64, 2 * counts.sum()).reshape(-1, 2)
    return ids, word_starts(texts, spans, counts), counts


def _kind(rules: dict[str, Any]) -> tuple[Literal["", "words", "bytes"], tuple[str, ...]]:
    """Return which rules divide text into chunks ("": none), and the contents that make a text odd.

    rules  tokenizer.json
    """
    model, normaliser, splitter = (rules[name] or {} for name in ("model", "normalizer", "pre_tokenizer"))
    named = model.get("type"), normaliser.get("type"), splitter.get("type")
    special_rules = [
        token for token in rules["added_tokens"] if token["lstrip"] or token["rstrip"] or " " in token["content"]
    ]
    # a token that is found in normalised text cannot be looked for in the text, unless it consists of blanks
    unseen = [token for token in special_rules if token["normalized"] and token["content"].strip(" ")]
    odd = tuple(dict.fromkeys(token["content"] for token in special_rules))
    if not unseen and named in (
        ("WordPiece", "BertNormalizer", "BertPreTokenizer"),
        ("WordPiece", None, "BertPreTokenizer"),
    ):
        blanks = any(token["normalized"] for token in special_rules)  # BERT's normaliser turns tabs into blanks
        return ("", ()) if blanks else ("words", odd)
    by_rules = splitter.get("use_regex", True) and not model.get("dropout")
    if not unseen and by_rules and named in (("BPE", None, "ByteLevel"), ("BPE", "NFC", "ByteLevel")):
        return "bytes", odd
    return "", ()
