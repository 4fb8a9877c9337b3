"""The tokens of a corpus under one tokenizer: memory-mapped arrays, with the words' starts beside the ids."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np
import tokenizers

from acclimate.core.files import read_json, write_json
from acclimate.core.machines import in_processes
from acclimate.core.prompt import prompt_length
from acclimate.core.types import Document
from acclimate.text.words import word_starts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


# Tokens of text made chunk by chunk, what stands between two blanks, each different chunk once.
#
# Running text repeats itself: of ten chunks nine were met before. Under most encoders' tokenizers a chunk has the same
# tokens wherever it stands, so it is enough to look them up, which is some ten times as fast as tokenising. That holds
# where nothing that the tokenizer does looks over a blank:
#
# words    BERT's: its normaliser, its rules for words, WordPiece. Every blank is a border.
# bytes    RoBERTa's and ModernBERT's: at most Unicode's composition, byte-level rules, BPE. A blank that stands
# alone is the beginning of the next chunk; a text with more white space after one is tokenised as a whole.
#
# Texts are tokenised as a whole, too, where a token of the tokenizer's own takes blanks beside it or has some within it
# (RoBERTa's <mask>), and where a chunk ends in what is counted to the next word. Of any other tokenizer every text is.

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
        if len(self._known) > _KNOWN or self._characters > _CHARACTERS:
            self._forget()
        return self._with_whole(texts, whole, found) if whole.any() else found

    def _is_odd(self, text: str) -> bool:
        # white space in a row is one piece to byte-level rules but for its last character before a word
        spaced = self._kind == "bytes" and _SPACED.search(text) is not None
        return spaced or any(odd in text for odd in self._odd)

    def _with_whole(self, texts: Sequence[str], whole: np.ndarray, found: Encoded) -> Encoded:
        """Return what was found, but for the texts that are to be tokenised as a whole."""
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
        """Return ids and word starts of the tokens of all chunks, the chunks' numbers of tokens, and which of them end
        in what is counted to the next word.
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
        """Return the text that gives the chunks their tokens, each with what divides it from the next."""
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
    """Do what `Chunked.encode` does, with the tokenizer alone."""
    encodings = backend.encode_batch(list(texts), add_special_tokens=False)
    counts = np.fromiter(map(len, encodings), np.int64, len(encodings))
    ids = np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), np.int64, counts.sum())
    # flattened on the way: as lists of pairs the offsets would take most of the memory of a batch
    ends = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
    spans = np.fromiter(ends, np.int64, 2 * counts.sum()).reshape(-1, 2)
    return ids, word_starts(texts, spans, counts), counts


def _kind(rules: dict[str, Any]) -> tuple[Literal["", "words", "bytes"], tuple[str, ...]]:
    """Return which borders its chunks have, "" where they have none; and what makes a text odd.

    rules  of tokenizer.json
    """
    model, normaliser, splitter = (rules[name] or {} for name in ("model", "normalizer", "pre_tokenizer"))
    named = model.get("type"), normaliser.get("type"), splitter.get("type")
    special_rules = [
        token for token in rules["added_tokens"] if token["lstrip"] or token["rstrip"] or " " in token["content"]
    ]
    # what such a token is, once the text is normalised, cannot be looked for in the text, unless it is blanks alone
    unseen = [token for token in special_rules if token["normalized"] and token["content"].strip(" ")]
    odd = tuple(dict.fromkeys(token["content"] for token in special_rules))
    if not unseen and named in (
        ("WordPiece", "BertNormalizer", "BertPreTokenizer"),
        ("WordPiece", None, "BertPreTokenizer"),
    ):
        blanks = any(
            token["normalized"] for token in special_rules
        )  # BERT's normaliser makes blanks of tabs and others
        return ("", ()) if blanks else ("words", odd)
    by_rules = splitter.get("use_regex", True) and not model.get("dropout")
    if not unseen and by_rules and named in (("BPE", None, "ByteLevel"), ("BPE", "NFC", "ByteLevel")):
        return "bytes", odd
    return "", ()


_VERSION = 1
_FACTS = "tokens.json"
_BEGUN = "begun.json"
_FILES = _IDS, _STARTS, _OFFSETS = "ids.bin", "word_starts.bin", "documents.bin"
# Encoded at a time. The encodings of a million characters take some 100 MB; larger batches are no faster.
_BATCH_CHARACTERS = 1 << 20
_BATCH_DOCUMENTS = 1 << 14
_SAVED = 64  # batches, after which a killed build need not be done again


@dataclass(frozen=True, eq=False)
class Tokens:
    """N tokens of D documents, without the special tokens that a tokenizer puts around a sequence.

    ids          (N,) uint16, or uint32 where the vocabulary has 65,536 ids or more
    word_starts  (N,) bool, where a token begins a word as `acclimate.text.words` has it, whatever the tokenizer
    documents    (D + 1,) int64; document d is ids[documents[d]:documents[d + 1]] and may be without tokens
    prefix, suffix  the ids that the tokenizer puts before and after a single sequence
    prompt       how many of the suffix are a learnt prompt (core/prompt.py)
    mask, pad    ids
    vocabulary   1 + the largest id
    special      ids of all special tokens, ascending; they also occur in `ids` where a text spells one ("[MASK]") or
                 has what the vocabulary lacks ("[UNK]")
    tokenizer, corpus  64 hex digits: `tokenizer_identity` and `Corpus.hash`
    """

    path: Path
    ids: np.ndarray
    word_starts: np.ndarray
    documents: np.ndarray
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    mask: int
    pad: int
    vocabulary: int
    special: tuple[int, ...]
    tokenizer: str
    corpus: str
    prompt: int = 0

    @property
    def frame(self) -> int:
        """How many ids prefix and suffix add to a sequence."""
        return len(self.prefix) + len(self.suffix)


def tokenizer_identity(tokenizer: PreTrainedTokenizerBase) -> str:
    """64 hex digits: SHA-256 of all that decides which ids a text gets; truncation and padding are no part of it.

    Raises ValueError where the tokenizer has no fast backend.
    """
    _require_fast(tokenizer)
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    rules |= {"truncation": None, "padding": None}
    special = [tokenizer.all_special_ids, tokenizer.mask_token_id, tokenizer.pad_token_id]
    content = json.dumps([rules, special, bool(tokenizer.split_special_tokens)], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def build_tokens(
    documents: Iterable[Document],
    tokenizer: PreTrainedTokenizerBase,
    directory: Path,
    *,
    corpus: str,
    processes: int = 1,
) -> None:
    """Write the files that `open_tokens` reads; memory stays within some batches of about a million characters.

    directory  there already; where a call with the same tokenizer and corpus was killed in it, this one goes on
    corpus     the hash of the corpus that the documents are
    processes  that tokenise; the bytes written do not depend on it
    Raises ValueError where the tokenizer has no fast backend, mask token or padding token, or makes no token at all.
    """
    identity = tokenizer_identity(tokenizer)
    backend = _plain_backend(tokenizer)
    facts = _special_ids(tokenizer, backend)
    ids_type = np.uint16 if facts["vocabulary"] < 1 << 16 else np.uint32
    begun = _begun(directory, {"tokenizer": identity, "corpus": corpus})
    count, total = begun["documents"], begun["tokens"]
    rules = directory / "tokenizer.json"
    work: Callable[[list[str]], Encoded] = Chunked(backend).encode
    if processes > 1:
        rules.write_text(backend.to_str(), encoding="utf-8")
        work = partial(_encode, str(rules), bool(tokenizer.split_special_tokens))
    with ExitStack() as stack:
        sizes = (total * np.dtype(ids_type).itemsize, total, 8 * (count + bool(count)))
        opened = [stack.enter_context(open(directory / name, "ab")) for name in _FILES]
        for file, size in zip(opened, sizes, strict=True):
            file.truncate(size)
        ids_file, starts_file, offsets_file = opened
        if not count:
            _append(offsets_file, np.zeros(1, np.int64))
        batches = _batches(islice(documents, count, None))
        for number, (ids, starts, counts) in enumerate(in_processes(work, batches, processes), 1):
            _append(ids_file, ids.astype(ids_type))
            _append(starts_file, starts)
            _append(offsets_file, total + np.cumsum(counts, dtype=np.int64))
            total += len(ids)
            count += len(counts)
            if number % _SAVED == 0:
                for file in opened:
                    file.flush()
                    os.fsync(file.fileno())
                write_json(directory / _BEGUN, begun | {"documents": count, "tokens": total})
    if not total:
        raise ValueError(
            f"the tokenizer makes no token of the {count:,} documents. Use one that knows their characters"
        )
    facts |= {"version": _VERSION, "tokens": total, "documents": count, "tokenizer": identity, "corpus": corpus}
    facts["prompt"] = prompt_length(tokenizer)
    write_json(directory / _FACTS, facts)
    for left in (rules, directory / _BEGUN):
        left.unlink(missing_ok=True)


def open_tokens(path: Path) -> Tokens:
    """Map the token files in `path`. Raises ValueError where they are of another format version or cut off."""
    facts = read_json(path / _FACTS)
    if facts["version"] != _VERSION:
        raise ValueError(f"{path}: format {facts['version']}, but this release reads {_VERSION}. Remove it")
    ids_type = np.uint16 if facts["vocabulary"] < 1 << 16 else np.uint32
    return Tokens(
        path=path,
        ids=_map(path / _IDS, ids_type, facts["tokens"]),
        word_starts=_map(path / _STARTS, np.bool_, facts["tokens"]),
        documents=_map(path / _OFFSETS, np.int64, facts["documents"] + 1),
        prefix=tuple(facts["prefix"]),
        suffix=tuple(facts["suffix"]),
        mask=facts["mask"],
        pad=facts["pad"],
        vocabulary=facts["vocabulary"],
        special=tuple(facts["special"]),
        tokenizer=facts["tokenizer"],
        corpus=facts["corpus"],
        prompt=facts.get("prompt", 0),
    )


def _require_fast(tokenizer: PreTrainedTokenizerBase) -> None:
    if not tokenizer.is_fast:
        raise ValueError(
            f"{type(tokenizer).__name__} has no fast backend, which alone tells where in the text a token stands. "
            "Load it with AutoTokenizer.from_pretrained(..., use_fast=True), or convert it to tokenizer.json"
        )


def _plain_backend(tokenizer: PreTrainedTokenizerBase) -> tokenizers.Tokenizer:
    """Return a copy of the Rust tokenizer that cuts and fills nothing; the caller's keeps its settings.

    It is called directly: transformers' call would be half as fast and warn of every long document.
    """
    backend = tokenizers.Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = bool(tokenizer.split_special_tokens)
    return backend


def _special_ids(tokenizer: PreTrainedTokenizerBase, backend: tokenizers.Tokenizer) -> dict[str, Any]:
    """vocabulary, mask, pad, special, prefix and suffix, as in Tokens."""
    for name, value in (("mask_token", tokenizer.mask_token_id), ("pad_token", tokenizer.pad_token_id)):
        if value is None:
            raise ValueError(f"{type(tokenizer).__name__} has no {name}. Set tokenizer.{name} to one of its tokens")
    inner = backend.encode("a", add_special_tokens=False).ids
    framed = backend.encode("a", add_special_tokens=True).ids
    places = [start for start in range(len(framed) - len(inner) + 1) if framed[start : start + len(inner)] == inner]
    if not inner or len(places) != 1:
        raise ValueError(
            f"cannot tell which special tokens {type(tokenizer).__name__} puts around a text: 'a' alone is {inner}, "
            f"with special tokens {framed}. Use a tokenizer that knows the letter a"
        )
    return {
        "vocabulary": 1 + max(backend.get_vocab(with_added_tokens=True).values()),
        "mask": tokenizer.mask_token_id,
        "pad": tokenizer.pad_token_id,
        "special": sorted(set(tokenizer.all_special_ids)),
        "prefix": framed[: places[0]],
        "suffix": framed[places[0] + len(inner) :],
    }


def _batches(documents: Iterable[Document]) -> Iterator[list[str]]:
    """Yield texts of about _BATCH_CHARACTERS together; a longer one comes alone or last."""
    texts: list[str] = []
    characters = 0
    for document in documents:
        texts.append(document.text)
        characters += len(document.text)
        if characters >= _BATCH_CHARACTERS or len(texts) >= _BATCH_DOCUMENTS:
            yield texts
            texts, characters = [], 0
    if texts:
        yield texts


@lru_cache(1)
def _known_tokenizer(rules: str, encode_special: bool) -> Chunked:
    backend = tokenizers.Tokenizer.from_file(rules)
    backend.encode_special_tokens = encode_special
    return Chunked(backend)


def _encode(rules: str, encode_special: bool, texts: list[str]) -> Encoded:
    """Do what `Chunked.encode` does, in another process. rules: the tokenizer's file, read once a process."""
    return _known_tokenizer(rules, encode_special).encode(texts)


def _begun(directory: Path, what: dict[str, Any]) -> dict[str, Any]:
    """Return how many documents and tokens a killed call for the same left on disk for certain."""
    file = directory / _BEGUN
    found = read_json(file) if file.exists() else {}
    return found if what.items() <= found.items() else what | {"documents": 0, "tokens": 0}


def _append(file: BinaryIO, values: np.ndarray) -> None:
    file.write(values.tobytes())


def _map(file: Path, kind: type[np.generic], count: int) -> np.ndarray:
    expected, found = count * np.dtype(kind).itemsize, file.stat().st_size
    if found != expected:
        raise ValueError(f"{file} has {found:,} bytes instead of {expected:,}. Remove {file.parent}; it is built anew")
    return np.asarray(np.memmap(file, kind, "r"))  # a plain array: indexing numpy's memmap class costs microseconds
