"""Write and read the tokens of a corpus under one tokenizer: memory-mapped arrays of ids and of word starts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
import tokenizers

from acclimate.core.files import DamagedError, read_object, read_record, write_json, write_record
from acclimate.core.machines import map_processes
from acclimate.core.prompt import prompt_length
from acclimate.core.types import Document
from acclimate.text.chunks import Chunked, Encoded

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_VERSION = 1
_FACTS = "tokens.json"
_BEGUN = "begun.json"
_FILES = _IDS, _STARTS, _OFFSETS = "ids.bin", "word_starts.bin", "documents.bin"
_BATCH_CHARACTERS = 1 << 20  # encoded at a time: their encodings take some 100 MB; larger batches are not faster
_BATCH_DOCUMENTS = 1 << 14
_COUNTED = 2_000_000  # tokens at most whose frequencies are taken
_SAVED = 64  # batches between two states from which a killed build resumes


@dataclass(frozen=True, eq=False)
class Tokens:
    """N tokens of D documents, without the special tokens that a tokenizer puts around a sequence.

    ids          (N,) uint16, or uint32 if the vocabulary has 65,536 ids or more
    word_starts  (N,) bool, True if a token begins a word, as `acclimate.text.words` defines it for every tokenizer
    documents    (D + 1,) int64; document d is ids[documents[d]:documents[d + 1]] and may be empty
    prefix, suffix  the ids that the tokenizer puts before and after a single sequence
    prompt       number of ids in the suffix that are a learnt prompt (core/prompt.py)
    mask, pad    ids
    vocabulary   1 + the largest id
    special      ids of all special tokens, ascending; `ids` has them too if a text spells one ("[MASK]") or has
                 characters that the vocabulary lacks ("[UNK]")
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
        """Return the number of ids that prefix and suffix add to a sequence."""
        return len(self.prefix) + len(self.suffix)


def loss_of_frequencies(tokens: Tokens, *, masked: float = 0.8, random: float = 0.1) -> float:
    """Return the least loss, in nats, of a model that ignores context. It knows the share p_w of each piece w, and sees
    what is shown in its place: the mask, a random one of V pieces, or w itself (text/masking.py).

        H(w | shown) = H(w) + H(shown | w) - H(shown)

    With k = 1 - masked - random and r = random / V, piece w is shown with probability k + r and each other one with r,
    so piece v is shown with probability k p_v + r. The terms of the mask cancel. With k = random = .1 and many pieces,
    the result is about .9 H(w) + .14.

    masked, random  shares of the predicted pieces that become the mask and a random piece
    """
    from scipy.special import entr  # takes longer to load than all else of this file

    counts = np.bincount(tokens.ids[:_COUNTED], minlength=tokens.vocabulary)
    ordinary = np.ones(len(counts), bool)
    ordinary[list(tokens.special)] = False
    shares_V = counts[ordinary] / max(1, counts[ordinary].sum())
    unchanged, drawn = max(0.0, 1 - masked - random), random / max(1, len(shares_V))
    shown_as = entr(unchanged + drawn) + (len(shares_V) - 1) * entr(drawn)
    return float(entr(shares_V).sum() + shown_as - entr(unchanged * shares_V + drawn).sum())


def build_tokens(
    documents: Iterable[Document],
    tokenizer: PreTrainedTokenizerBase,
    directory: Path,
    *,
    corpus: str,
    processes: int = 1,
) -> None:
    """Write the files that `open_tokens` reads. Memory: a few batches of about a million characters.

    directory  must exist; a killed call with the same tokenizer and corpus is resumed there
    corpus     the hash of the documents' corpus
    processes  number of processes that tokenise; the bytes written do not depend on it
    Raises ValueError if the tokenizer has no fast backend, mask token or padding token, or makes no token at all.
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
        opened = [_Appended(stack.enter_context(open(directory / name, "ab+"))) for name in _FILES]
        for file, size in zip(opened, (total * np.dtype(ids_type).itemsize, total, 8 * (count + 1)), strict=True):
            file.cut(size)
        if not count or [file.sha256.hexdigest() for file in opened] != begun["hashes"]:  # damaged since: build anew
            count = total = 0
            for file in opened:
                file.cut(0)
        ids_file, starts_file, offsets_file = opened
        if not count:
            offsets_file.append(np.zeros(1, np.int64))
        batches = _batches(islice(documents, count, None))
        for number, (ids, starts, counts) in enumerate(map_processes(work, batches, processes), 1):
            ids_file.append(ids.astype(ids_type))
            starts_file.append(starts)
            offsets_file.append(total + np.cumsum(counts, dtype=np.int64))
            total += len(ids)
            count += len(counts)
            if number % _SAVED == 0:
                hashes = [file.flushed() for file in opened]
                write_record(directory / _BEGUN, begun | {"documents": count, "tokens": total, "hashes": hashes})
    if not total:
        raise ValueError(
            f"the tokenizer makes no token of the {count:,} documents. Use a tokenizer whose vocabulary has "
            "their characters"
        )
    facts |= {"version": _VERSION, "tokens": total, "documents": count, "tokenizer": identity, "corpus": corpus}
    facts["prompt"] = prompt_length(tokenizer)
    write_json(directory / _FACTS, facts)
    for leftover in (rules, directory / _BEGUN):
        leftover.unlink(missing_ok=True)


def open_tokens(path: Path) -> Tokens:
    """Return the tokens in `path`, memory-mapped. Raises ValueError for another format version or a cut-off file."""
    facts = read_object(path / _FACTS, way_out=f"Remove {path}; then it is built again")
    if facts.get("version") != _VERSION:
        raise ValueError(f"{path}: format {facts.get('version')}, but this release reads {_VERSION}. Remove it")
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


def tokenizer_identity(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return 64 hex digits: the SHA-256 of all that decides which ids a text gets, without truncation and padding.

    Raises ValueError if the tokenizer has no fast backend.
    """
    if not tokenizer.is_fast:
        raise ValueError(
            f"{type(tokenizer).__name__} has no fast backend, which is needed for the positions of tokens. Load it "
            "with AutoTokenizer.from_pretrained(..., use_fast=True), or convert it to tokenizer.json"
        )
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    rules |= {"truncation": None, "padding": None}
    special = [tokenizer.all_special_ids, tokenizer.mask_token_id, tokenizer.pad_token_id]
    content = json.dumps([rules, special, bool(tokenizer.split_special_tokens)], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _plain_backend(tokenizer: PreTrainedTokenizerBase) -> tokenizers.Tokenizer:
    """Return a copy of the Rust tokenizer without truncation and padding.

    It is called directly: transformers would take twice as long and warn of every long document.
    """
    backend = tokenizers.Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = bool(tokenizer.split_special_tokens)
    return backend


def _special_ids(tokenizer: PreTrainedTokenizerBase, backend: tokenizers.Tokenizer) -> dict[str, Any]:
    """Return vocabulary, mask, pad, special, prefix and suffix, as `Tokens` has them."""
    for name, value in (("mask_token", tokenizer.mask_token_id), ("pad_token", tokenizer.pad_token_id)):
        if value is None:
            of = f" of {tokenizer.name_or_path}" if tokenizer.name_or_path else ""
            raise ValueError(
                f"{type(tokenizer).__name__}{of} has no {name}. Name one of its tokens as {name} in its "
                f"tokenizer_config.json, or set tokenizer.{name}"
            )
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


def _begun(directory: Path, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return how many documents and tokens a killed call with the same inputs has safely written."""
    file = directory / _BEGUN
    try:
        begun = read_record(file) if file.exists() else {}
    except DamagedError:  # nothing is lost but time: the build starts anew
        begun = {}
    return begun if inputs.items() <= begun.items() else inputs | {"documents": 0, "tokens": 0}


def _batches(documents: Iterable[Document]) -> Iterator[list[str]]:
    """Yield batches of texts with about _BATCH_CHARACTERS together; a longer text is alone or the last of its batch."""
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


def _encode(rules: str, encode_special: bool, texts: list[str]) -> Encoded:
    """Call `Chunked.encode` in another process. rules: the tokenizer's file, which each process reads once."""
    return _known_tokenizer(rules, encode_special).encode(texts)


@lru_cache(1)
def _known_tokenizer(rules: str, encode_special: bool) -> Chunked:
    backend = tokenizers.Tokenizer.from_file(rules)
    backend.encode_special_tokens = encode_special
    return Chunked(backend)


class _Appended:
    """A file that is appended to, with the hash of its content."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.sha256 = hashlib.sha256()

    def cut(self, size: int) -> None:
        """Shorten the file, and read what stays for its hash."""
        self.file.truncate(size)
        self.file.seek(0)
        self.sha256 = hashlib.file_digest(cast(Any, self.file), "sha256")

    def append(self, values: np.ndarray) -> None:
        content = values.tobytes()
        self.file.write(content)
        self.sha256.update(content)

    def flushed(self) -> str:
        """Put the content on the disk and return its SHA-256."""
        self.file.flush()
        os.fsync(self.file.fileno())
        return self.sha256.hexdigest()


def _map(file: Path, kind: type[np.generic], count: int) -> np.ndarray:
    expected, actual = count * np.dtype(kind).itemsize, file.stat().st_size
    if actual != expected:
        raise ValueError(
            f"{file} has {actual:,} bytes instead of {expected:,}. Remove {file.parent}; then it is built again"
        )
    return np.asarray(np.memmap(file, kind, "r"))  # a plain array: indexing numpy's memmap class costs microseconds
