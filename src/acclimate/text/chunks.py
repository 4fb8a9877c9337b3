"""Tokens of text made chunk by chunk, what stands between two blanks, each different chunk once.

Running text repeats itself: of ten chunks nine were met before. Under most encoders' tokenizers a chunk has the same
tokens wherever it stands, so it is enough to look them up, which is some ten times as fast as tokenising. That holds
where nothing that the tokenizer does looks over a blank:

    words    BERT's: its normaliser, its rules for words, WordPiece. Every blank is a border.
    bytes    RoBERTa's and ModernBERT's: at most Unicode's composition, byte-level rules, BPE. A blank that stands
             alone is the beginning of the next chunk; a text with more white space after one is tokenised as a whole.

Texts are tokenised as a whole, too, where a token of the tokenizer's own takes blanks beside it or has some within it
(RoBERTa's <mask>), and where a chunk ends in what is counted to the next word. Of any other tokenizer every text is.
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

Encoded = tuple[np.ndarray, np.ndarray, np.ndarray]
_SPACED = re.compile(r" \s|\s \Z")
_JOINED = 256  # new chunks that are tokenised as one text
_KNOWN = 1 << 19  # chunks, and
_CHARACTERS = 1 << 23  # characters of theirs, after which all are forgotten: some 150 MB


class Chunked:
    """A tokenizer that cuts and fills nothing, and the chunks that it met."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self._backend = backend
        self._kind, self._odd = _kind(json.loads(backend.to_str()))
        self._ids: np.ndarray  # of all chunks, and so their word starts; where each chunk's tokens begin and end there;
        self._starts: np.ndarray
        self._begins: np.ndarray
        self._ends: np.ndarray
        self._open: np.ndarray  # whether its end is counted to the next word
        self._forget()

    def encode(self, texts: Sequence[str]) -> Encoded:
        """(n,) int64 ids of all texts one after the other, (n,) bool word starts, (texts,) int64 tokens of each."""
        if not self._kind:
            return encode_whole(self._backend, texts)
        whole = np.fromiter(map(self._is_odd, texts), bool, len(texts))
        # to an odd text belongs an empty chunk for the time being, so that every text has some
        split = [[""] if odd else text.split(" ") for text, odd in zip(texts, whole.tolist(), strict=True)]
        if self._kind == "bytes":
            for chunks in split:
                chunks[0] = f" {chunks[0]}"  # stands for: the first of its text
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
        found = self._ids[places], self._starts[places], counts
        self._bound()
        return self._with_whole(texts, whole, found) if whole.any() else found

    def _is_odd(self, text: str) -> bool:
        # white space in a row is one piece to byte-level rules but for its last character before a word
        spaced = self._kind == "bytes" and _SPACED.search(text) is not None
        return spaced or any(odd in text for odd in self._odd)

    def _with_whole(self, texts: Sequence[str], whole: np.ndarray, found: Encoded) -> Encoded:
        """What was found, but for the texts that are to be tokenised as a whole."""
        ids, starts, counts = encode_whole(self._backend, [texts[place] for place in np.flatnonzero(whole).tolist()])
        of_chunks = np.repeat(~whole, found[2])
        all_counts = found[2].copy()
        all_counts[whole] = counts
        of_whole = np.repeat(whole, all_counts)
        all_ids, all_starts = np.empty(len(of_whole), np.int64), np.empty(len(of_whole), bool)
        all_ids[of_whole], all_starts[of_whole] = ids, starts
        all_ids[~of_whole], all_starts[~of_whole] = found[0][of_chunks], found[1][of_chunks]
        return all_ids, all_starts, all_counts

    def _learn(self, chunks: set[str]) -> None:
        """Add the tokens of chunks that were not met before."""
        if not chunks:
            return
        # the first of a text has no blank before it, and an empty one would put two blanks side by side
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
        """Ids and word starts of the tokens of all chunks, the chunks' numbers of tokens, and which of them end in
        what is counted to the next word.
        """
        texts = [self._text(group) for group in groups]
        encodings = self._backend.encode_batch(texts, add_special_tokens=False)
        # an empty text may get tokens all the same (add_prefix_space), but there is no chunk
        spoken = [each if text else None for each, text in zip(encodings, texts, strict=True)]
        of_text = np.array([len(each) if each else 0 for each in spoken], np.int64)
        ids = np.fromiter(chain.from_iterable(each.ids for each in spoken if each), np.int64, of_text.sum())
        # one token more, of a word of its own, follows each text
        followed = chain.from_iterable(
            (*chain.from_iterable(each.offsets if each else ()), len(text) + 1, len(text) + 2)
            for each, text in zip(spoken, texts, strict=True)
        )
        spans = np.fromiter(followed, np.int64, 2 * (of_text.sum() + len(texts))).reshape(-1, 2)
        starts = word_starts([f"{text} a" for text in texts], spans, of_text + 1)
        chunk_of = self._chunk_of(groups, texts, spans[:, 0], of_text + 1)
        last = np.cumsum(of_text + 1) - 1
        counts = np.bincount(np.delete(chunk_of, last), minlength=sum(map(len, groups)))
        # a chunk whose end is counted to the next word keeps the token after it from beginning one
        after = np.flatnonzero(np.append(False, chunk_of[1:] != chunk_of[:-1]) & ~starts)
        is_open = np.zeros(len(counts), bool)
        is_open[chunk_of[after - 1]] = True
        starts[after] = True  # where another chunk is before it, or none, it does
        return ids, np.delete(starts, last), counts, is_open

    def _chunk_of(self, groups: list[list[str]], texts: list[str], first: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """(n,) number of the chunk that a token is of, by its first character within its text. The token more of each
        text is of a chunk of its own, which has the number -1.
        """
        # places count over all texts, each followed by three characters, " a" and what would be the next text's border
        text_begins = np.cumsum([0, *(len(text) + 3 for text in texts)])[:-1]
        lengths = np.fromiter((len(chunk) + 1 for group in groups for chunk in group), np.int64)
        group_of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        before = np.cumsum(lengths) - lengths
        sizes = np.fromiter(map(len, groups), np.int64)
        firsts = np.cumsum(sizes) - sizes
        begins = text_begins[group_of] + before - before[firsts][group_of]
        places = np.repeat(text_begins, counts) + first
        found: np.ndarray = np.searchsorted(begins, places, side="right") - 1
        found[np.cumsum(counts) - 1] = -1
        return found

    def _text(self, group: list[str]) -> str:
        """The text that gives the chunks their tokens, each with what divides it from the next."""
        if self._kind == "words":
            return " ".join(group)
        return group[0][1:] if group[0].startswith(" ") else "".join(f" {chunk}" for chunk in group)

    def _bound(self) -> None:
        if len(self._known) > _KNOWN or self._characters > _CHARACTERS:
            self._forget()

    def _forget(self) -> None:
        self._known: dict[str, int] = {}
        self._characters = 0
        self._ids = np.empty(0, np.int64)
        self._starts = np.empty(0, bool)
        self._begins = np.empty(0, np.int64)
        self._ends = np.empty(0, np.int64)
        self._open = np.empty(0, bool)


def encode_whole(backend: tokenizers.Tokenizer, texts: Sequence[str]) -> Encoded:
    """As `Chunked.encode`, by the tokenizer alone."""
    encodings = backend.encode_batch(list(texts), add_special_tokens=False)
    counts = np.fromiter(map(len, encodings), np.int64, len(encodings))
    ids = np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), np.int64, counts.sum())
    # flattened on the way: as lists of pairs the offsets would take most of the memory of a batch
    ends = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
    spans = np.fromiter(ends, np.int64, 2 * counts.sum()).reshape(-1, 2)
    return ids, word_starts(texts, spans, counts), counts


def _kind(rules: dict[str, Any]) -> tuple[Literal["", "words", "bytes"], tuple[str, ...]]:
    """Which borders its chunks have, "" where they have none; and what makes a text odd.

    rules  of tokenizer.json
    """
    model, normaliser, splitter = (rules[name] or {} for name in ("model", "normalizer", "pre_tokenizer"))
    named = model.get("type"), normaliser.get("type"), splitter.get("type")
    own = [token for token in rules["added_tokens"] if token["lstrip"] or token["rstrip"] or " " in token["content"]]
    # what such a token is, once the text is normalised, cannot be looked for in the text, unless it is blanks alone
    unseen = [token for token in own if token["normalized"] and token["content"].strip(" ")]
    odd = tuple(dict.fromkeys(token["content"] for token in own))
    if not unseen and named in (
        ("WordPiece", "BertNormalizer", "BertPreTokenizer"),
        ("WordPiece", None, "BertPreTokenizer"),
    ):
        blanks = any(token["normalized"] for token in own)  # BERT's normaliser makes blanks of tabs and others
        return ("", ()) if blanks else ("words", odd)
    by_rules = splitter.get("use_regex", True) and not model.get("dropout")
    if not unseen and by_rules and named in (("BPE", None, "ByteLevel"), ("BPE", "NFC", "ByteLevel")):
        return "bytes", odd
    return "", ()
