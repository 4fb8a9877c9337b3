"""Lengths of a sample of texts in a model's tokens, and how its tokenizer breaks their words.

A directory's tokenizer.json is read by `tokenizers` alone, in a hundredth of the time that loading torch takes.
"""

from __future__ import annotations

import os
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import category

import numpy as np

from acclimate.core.door import option
from acclimate.core.files import read_object
from acclimate.core.prompt import FIELD, prompt_length
from acclimate.core.types import Example
from acclimate.data.examination import Finding, Lengths, Pieces
from acclimate.models.directory import (
    RESTORE,
    TOKENIZER,
    require_bounded,
    require_safetensors,
    require_usable,
    require_vocabulary,
)
from acclimate.models.families import positions_read
from acclimate.reports.page import share
from acclimate.tasks.task import Kind
from acclimate.text.scripts import divided_words, plain, words_as_written

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

SAMPLE = 2_000  # texts
CHARACTERS = 1_000_000  # of a sample; a tokenizer takes half a second for them
LEAST = 50  # texts of a sample, even if they are long
LONGEST = 20_000  # characters of a text that are tokenised; the rest is assumed to be similar
BROKEN = 15  # broken words that are shown
MANY = 3  # pieces of a broken word at least
MUCH_CUT = 0.1  # share of tokens cut off that is a warning
MANY_UNKNOWN = 0.01  # share of pieces that are unknown from which another model is advised
ROUND = 32  # the suggested --max-tokens is a multiple of this
TextOrPair = tuple[str, str | None]  # a text, and the second one of a pair


@dataclass(frozen=True)
class Reader:
    """A model's tokenizer, the length that the model can read (None: unknown), and the id of the unknown token.

    prompt: tokens that the tokenizer puts behind each row (core/prompt.py)
    """

    tokenizer: Tokenizer
    reads: int | None
    unknown: int | None
    prompt: int = 0


def reader(model: str) -> Reader:
    """Return the reader of a checkpoint directory or hub id.

    Raises ValueError if it has no readable tokenizer, or no safetensors weights.
    """
    directory = Path(os.path.expanduser(model))
    if directory.is_dir():
        require_usable(directory)
    vocabulary = directory / "tokenizer.json"
    if vocabulary.is_file() and (directory / "config.json").is_file() and any(directory.glob("*.safetensors")):
        from tokenizers import Tokenizer

        config = read_object(directory / "config.json", way_out=RESTORE)
        try:
            tokenizer = Tokenizer.from_file(str(vocabulary))
        except Exception as error:  # the exception that `tokenizers` raises is Exception itself
            raise ValueError(f"{directory}: not a readable tokenizer.json: {error}") from error
        require_vocabulary(str(directory), max(tokenizer.get_vocab().values(), default=0), config)
        require_bounded(str(directory), tokenizer.normalizer)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return Reader(tokenizer, positions_read(config), _unknown(directory, tokenizer), int(config.get(FIELD, 0)))
    return _loaded(model)


def _unknown(directory: Path, tokenizer: Tokenizer) -> int | None:
    """Return the id of the unknown token, or None."""
    unknown = getattr(tokenizer.model, "unk_token", None)
    settings = directory / TOKENIZER
    if settings.is_file():
        token = read_object(settings, way_out=RESTORE).get("unk_token", unknown)
        unknown = token.get("content") if isinstance(token, dict) else token
    return tokenizer.token_to_id(unknown) if isinstance(unknown, str) else None


def _loaded(model: str) -> Reader:
    """Return the reader by transformers, which fetches models from the hub and says what is missing."""
    from acclimate.models.configuration import longest_input
    from acclimate.models.loading import load_tokenizer, locate

    require_safetensors(locate(model))
    tokenizer = load_tokenizer(model)
    if not tokenizer.is_fast:
        raise ValueError(f"{model}: its tokenizer has no fast version. Save one (tokenizer.json) with transformers")
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    return Reader(backend, longest_input(model), tokenizer.unk_token_id, prompt_length(tokenizer))


def bounded_sample(texts: Sequence[TextOrPair]) -> list[TextOrPair]:
    """Return at most SAMPLE of the texts, in order; fewer if they reach CHARACTERS before, but at least LEAST."""
    order = list(range(len(texts)))
    random.Random(0).shuffle(order)
    count = characters = 0
    while count < min(len(order), SAMPLE) and (characters < CHARACTERS or count < LEAST):
        text, pair = texts[order[count]]
        characters += min(len(text), LONGEST) + min(len(pair or ""), LONGEST)
        count += 1
    return [texts[number] for number in sorted(order[:count])]


def tokenised(texts: Sequence[TextOrPair], by: Reader) -> list[list[Encoding]]:
    """Return the encodings of each text and of its pair, of at most LONGEST characters and without special tokens."""
    parts = [text[:LONGEST] for text, _ in texts], [(pair or "")[:LONGEST] for _, pair in texts]
    encoded = [by.tokenizer.encode_batch(part, add_special_tokens=False) for part in parts]
    return [list(encodings) for encodings in zip(*encoded, strict=True)]


def emptied(texts: Sequence[str], by: Reader) -> list[int]:
    """Return the numbers of the texts of which the tokenizer leaves no token.

    Only texts without a character that can be seen are tokenised: control characters, spaces and marks.
    """
    unseen = [number for number, text in enumerate(texts) if all(category(character)[0] in "CZM" for character in text)]
    encoded = by.tokenizer.encode_batch([texts[number][:LONGEST] for number in unseen], add_special_tokens=False)
    return [number for number, encoding in zip(unseen, encoded, strict=True) if not encoding.ids]


def lengths_in_words(texts: Sequence[TextOrPair], limit: int) -> Lengths:
    """Return the lengths in words, which stand in for tokens where there is no tokenizer.

    In scripts without spaces each letter is a word.
    """
    counts = [sum(len(divided_words(plain(part))) for part in (text, pair or "")) for text, pair in texts]
    return Lengths("words", len(texts), *_spread(np.array(counts)), limit)


def lengths(texts: Sequence[TextOrPair], encoded: Sequence[Sequence[Encoding]], limit: int, by: Reader) -> Lengths:
    """Return the lengths in tokens, with special ones; that of a very long text is extrapolated from its beginning."""
    read = np.array([sum(len(part.ids) for part in parts) for parts in encoded])
    special = np.array([by.tokenizer.num_special_tokens_to_add(pair is not None) for _, pair in texts])
    whole = np.array([len(text) + len(pair or "") for text, pair in texts])
    short = np.array([len(text[:LONGEST]) + len((pair or "")[:LONGEST]) for text, pair in texts])
    tokens = np.round(read * (whole / np.maximum(short, 1))).astype(np.int64) + special
    most = limit if by.reads is None else min(limit, by.reads)
    return Lengths(
        "tokens",
        len(texts),
        *_spread(tokens),
        limit,
        by.reads,
        float(np.mean(tokens > limit)),
        0.0 if by.reads is None else float(np.mean(tokens > by.reads)),
        float(np.maximum(tokens - most, 0).sum() / max(tokens.sum(), 1)),
        _suggested(tokens, limit, by.reads),
    )


def row_lengths(examples: Sequence[Example], kind: Kind, max_tokens: int, by: Reader) -> np.ndarray:
    """Return the tokens of each row that tasks/rows.py::encode_rows makes of examples of any kind but "span"."""
    from acclimate.tasks.rows import windows  # the doctor does without it

    paired = kind != "tokens" and any(example.pair for example in examples)
    texts = [(example.text, example.pair or "") if paired else example.text for example in examples]
    special = by.tokenizer.num_special_tokens_to_add(paired)
    room = max_tokens + by.prompt - special
    counts = [len(encoding) for encoding in by.tokenizer.encode_batch(texts, add_special_tokens=False)]
    if kind == "tokens":
        cut = [window.stop - window.start for count in counts for window, _ in windows(count, room)]
    else:
        cut = [min(count, room) for count in counts]
    return np.array(cut) + special


def _spread(counts: np.ndarray) -> tuple[int, int, int]:
    """Return median, 95th percentile and maximum."""
    half, most = np.quantile(counts, [0.5, 0.95], method="higher")
    return int(half), int(most), int(counts.max())


def _suggested(tokens: np.ndarray, limit: int, reads: int | None) -> int | None:
    """Return the least multiple of ROUND that holds 95% of the texts; None if `limit` does, or the model cannot."""
    if np.mean(tokens > limit) <= 0.05:
        return None
    length = -(-int(np.quantile(tokens, 0.95, method="higher")) // ROUND) * ROUND
    most = length if reads is None else min(length, reads)
    return most if most > limit else None


def pieces(of: str, texts: Sequence[TextOrPair], encoded: Sequence[Sequence[Encoding]], by: Reader) -> Pieces | None:
    """Return how the tokenizer breaks the texts' words (`scripts.words_as_written`); None if there is no word."""
    words = total = whole = unknown = tokens = 0
    counts: Counter[str] = Counter()
    parts: dict[str, int] = {}
    for text, encoding in _each(texts, encoded):
        # a piece may begin with the space before it, so it belongs to the word that it ends in
        ends = [end for _, end in encoding.offsets]
        tokens += len(ends)
        unknown += encoding.ids.count(by.unknown) if by.unknown is not None else 0
        for match in words_as_written(text).finditer(text):
            count = bisect_right(ends, match.end()) - bisect_right(ends, match.start())
            words += 1
            total += count
            whole += count == 1
            if count >= MANY:
                word = match.group().lower()
                counts[word] += 1
                parts[word] = max(count, parts.get(word, 0))
    if not words:
        return None
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    # digits break under every tokenizer; a vocabulary of the domain would not change that
    broken = tuple((word[:60], parts[word], count) for word, count in ranked if not word.isdigit())[:BROKEN]
    return Pieces(of, len(texts), words, total / words, whole / words, unknown / max(tokens, 1), broken)


def _each(texts: Sequence[TextOrPair], encoded: Sequence[Sequence[Encoding]]) -> Iterator[tuple[str, Encoding]]:
    for (text, pair), encodings in zip(texts, encoded, strict=True):
        yield text[:LONGEST], encodings[0]
        yield (pair or "")[:LONGEST], encodings[1]


def findings(
    measured: Lengths, broken: Sequence[Pieces], *, windows: bool = False, spaced: bool = True
) -> list[Finding]:
    """Return findings on lengths and pieces. windows: True if long texts are read in parts instead of being cut.

    spaced  False: words are not separated by spaces, so pieces per word say nothing
    """
    findings = []
    if measured.reads is not None and measured.limit > measured.reads:
        text = f"{option('max_tokens')} is {measured.limit}, but the model reads at most {measured.reads} tokens."
        findings.append(Finding("error", text, f"Give {option('max_tokens', str(measured.reads))} or less."))
    if measured.over_limit > 0 and windows:
        text = f"{share(measured.over_limit)} of the sentences are longer than {measured.limit} tokens."
        findings.append(Finding("note", text, "They are read in overlapping windows, so nothing is cut."))
    elif measured.over_limit > 0:
        most = measured.limit if measured.reads is None else min(measured.limit, measured.reads)
        text = (
            f"{share(measured.over_limit)} of the texts are longer than {measured.limit} tokens; "
            f"{share(measured.cut)} of all tokens come after the first {most} of their text and are not read."
        )
        findings.append(Finding("warning" if measured.cut >= MUCH_CUT else "note", text, _longer(measured, most)))
    task_pieces = next((pieces for pieces in broken if pieces.of == "task"), None)
    general = next((pieces for pieces in broken if pieces.of == "general"), None)
    if task_pieces is not None and task_pieces.unknown >= 0.001:
        part = share(task_pieces.unknown)
        text = f"{part} of the pieces are unknown to the model, which cannot distinguish those words."
        if task_pieces.unknown >= MANY_UNKNOWN:
            findings.append(Finding("warning", text, "Choose a model that was trained on this language and script."))
        else:
            findings.append(Finding("note", text, "Such a small share is mostly rare symbols and accented letters."))
    least = max(1.5, 1.15 * general.per_word if general is not None else 0.0)
    if spaced and task_pieces is not None and task_pieces.per_word >= least:
        beside = "" if general is None else f", {general.per_word:.2f} in general text"
        text = f"The model splits the texts into {task_pieces.per_word:.2f} pieces per word{beside}: much of their"
        way_out = "Adapting on text of the domain, or a model of the domain, should help; `acclimate data vocabulary`"
        way_out += " measures this for a vocabulary of the domain."
        findings.append(Finding("note", f"{text} vocabulary is foreign to it.", way_out))
    return findings


def _longer(measured: Lengths, most: int) -> str:
    """Return advice on how to read more of the texts; "" if little is cut."""
    if measured.suggested is not None:
        return f"{option('max_tokens', str(measured.suggested))} reads more of them but takes longer."
    if measured.cut >= MUCH_CUT and measured.reads == most:
        return "The model cannot read more. Put the important text first, or choose a model with a longer input."
    return ""
