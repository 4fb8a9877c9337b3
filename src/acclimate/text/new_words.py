r"""Find words of a corpus that a tokenizer breaks, measure them, and add them to its vocabulary.

A tokenizer's rules cut text at white space and mostly at punctuation; each part is then split into pieces by itself. So
a corpus is counted once, by its distinct parts, and each part is examined once.

`extended` adds new words as ordinary entries, so that text uses them, and texts without them keep their ids:

WordPiece   entries. The greedy longest match takes them, also at the beginning of longer words ("naloxone ##s"). A text
            keeps its ids unless one of its words begins with a new one.
BPE         entries, and `ignore_merges`: a word that is an entry is taken whole before any merge. New merges would have
            to come last, and would join the same pieces in other words too. A text keeps its ids unless it contains a
            new word by itself, or an old entry that the merges never reached (`woken` counts these).
Unigram     entries that score hardly more than the best way to spell them so far. So a text changes only where exactly
            the pieces of a new word stood side by side.

Words that were added to a tokenizer by other means (added_tokens: masks, prompts) and whose ids follow the vocabulary
become entries of it: `tokenizers` numbers them again, after the last entry, whenever it reads a file.

Readings
  A new word has the form that the vocabulary would hold: "naloxone" for WordPiece, in lower case if the tokenizer is;
  "Ġnaloxone" after a blank and "naloxone" elsewhere for byte-level BPE; "▁naloxone" and "naloxone" for Unigram, whose
  parts may contain punctuation outside of the word. Each form is an entry and is counted separately.
  A word saves its count times the pieces that it loses under the old vocabulary; that "naloxones" becomes shorter too
  if "naloxone" is new is not counted. An unknown piece counts as two.
  Fertility counts what `\w+` matches as words, like the doctor's report: punctuation is not a word. White space, for
  which byte-level vocabularies have pieces (line feeds, second blanks), is left out; text after white space other than
  a blank is read like the beginning of a text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from acclimate.core.types import Watch, unwatched
from acclimate.text.scripts import words_as_written, words_in
from acclimate.text.vocabulary import WordCounts, text_chunks
from acclimate.text.words import word_spans

if TYPE_CHECKING:
    from tokenizers import Token, Tokenizer

    from acclimate.text.vocabulary import DocumentSource

FAMILIES = ("WordPiece", "BPE", "Unigram")
LONGEST = 50  # characters of a new word; longer strings are sequences or addresses
# A new Unigram entry scores this, times its squared length, more than its pieces together. The square is more than the
# sum of the parts' squares, so a longer new word wins over two shorter ones in a row.
MARGIN = 1e-9
_UNKNOWN = 10.0  # `tokenizers` scores an unknown character by this much below the lowest piece
_MOST = 4_000_000  # distinct strings between white space that are kept in memory
_CHUNK = re.compile(r" ?\S+")  # with the blank before it, which decides how byte-level vocabularies spell it


@dataclass(frozen=True)
class TokenizerParts:
    """The parts into which a tokenizer's rules cut a corpus.

    counts    part -> occurrences
    words     number of words
    left_out  occurrences of rare strings that were left out to bound the memory
    """

    counts: Counter[str]
    words: int
    left_out: int


@dataclass(frozen=True)
class NewWord:
    """A word to add.

    form     its entry in the vocabulary; text: as people write it
    count    occurrences in the corpus
    pieces   ids of its present pieces; unknown: how many of them are the unknown token
    """

    form: str
    text: str
    count: int
    pieces: tuple[int, ...]
    unknown: int = 0

    @property
    def saved(self) -> int:
        return self.count * (len(self.pieces) - 1 + self.unknown)


@dataclass(frozen=True)
class Fertility:
    """Counts of a corpus under a tokenizer.

    words   as `scripts.words_as_written` finds them; pieces: of words
    tokens  all pieces, with those of punctuation; unknown: how many of them are the unknown token
    """

    words: int
    pieces: int
    tokens: int
    unknown: int

    @property
    def pieces_a_word(self) -> float:
        return self.pieces / max(self.words, 1)


def count_parts(corpus: DocumentSource, cutter: Cutter, *, watch: Watch = unwatched) -> TokenizerParts:
    """Count the parts of a corpus. With more than _MOST strings between white space, rare ones are left out."""
    chunks, words = WordCounts(_MOST), 0
    for texts in text_chunks(corpus, watch, "words"):
        text = "\n".join([*texts, ""])
        chunks.add(_CHUNK.findall(text))
        words += sum(1 for _ in words_as_written(text).finditer(text))
    parts: Counter[str] = Counter()
    for chunk, count in chunks.counts.items():
        for part in cutter.parts(chunk):
            parts[part] += count
    return TokenizerParts(parts, words, chunks.dropped)


def fertility(parts: TokenizerParts, cutter: Cutter) -> Fertility:
    """Return the fertility of the corpus under the cutter's tokenizer.

    Its vocabulary may differ from that with which the parts were counted, but its rules must cut text in the same way.
    """
    pieces = tokens = unknown = 0
    for part, count in parts.counts.items():
        pieces_of_part = cutter.pieces(part)
        pieces += count * cutter.count_word_pieces(part, pieces_of_part)
        tokens += count * len(pieces_of_part)
        unknown += count * cutter.unknown_of(pieces_of_part)
    return Fertility(parts.words, pieces, tokens, unknown)


def broken_words(parts: TokenizerParts, cutter: Cutter, *, most: int, least: int) -> list[NewWord]:
    """Return the words of the corpus that are not entries and save most pieces, best first, equal ones by spelling.

    most: number of words at most; least: occurrences of a word at least
    """
    counts = _counts(parts, cutter)
    words = (_new(form, count, cutter) for form, count in counts.items() if count >= least)
    saving = [word for word in words if word is not None and word.saved > 0]
    return sorted(saving, key=lambda word: (-word.saved, word.form))[:most]


def listed_words(lines: Iterable[str], parts: TokenizerParts, cutter: Cutter) -> list[NewWord]:
    """Return the words of a list that are not entries, in order; each word of a line counts separately.

    A word is added in its form after a blank, and in its form elsewhere if the corpus has it.
    """
    counts = _counts(parts, cutter)
    forms: dict[str, None] = {}
    for chunk in (chunk for line in lines for chunk in line.split()):
        for part in cutter.parts(f" {chunk}"):
            forms |= dict.fromkeys(cutter.forms(part))
        bare = (form for part in cutter.parts(chunk) for form in cutter.forms(part))
        forms |= dict.fromkeys(form for form in bare if counts[form])
    words = (_new(form, counts[form], cutter) for form in forms)
    return [word for word in words if word is not None]


def _new(form: str, count: int, cutter: Cutter) -> NewWord | None:
    """Return the new word, or None if it is an entry."""
    if cutter.backend.token_to_id(form) is not None:
        return None
    pieces = cutter.pieces(form)
    ids = tuple(piece.id for piece in pieces)
    return NewWord(form, cutter.text(form), count, ids, cutter.unknown_of(pieces)) if ids else None


def _counts(parts: TokenizerParts, cutter: Cutter) -> Counter[str]:
    counts: Counter[str] = Counter()
    for part, count in parts.counts.items():
        for form in cutter.forms(part):
            counts[form] += count
    return counts


class Cutter:
    """Applies a tokenizer's rules to strings, one step at a time.

    Raises ValueError if the tokenizer's model is not in FAMILIES, if it does not cut text into parts, or if it marks
    the pieces of a word so that whole words cannot be added.
    """

    def __init__(self, backend: Tokenizer) -> None:
        rules = json.loads(backend.to_str())
        self.backend, self.kind, model = backend, rules["model"]["type"], rules["model"]
        if self.kind not in FAMILIES:
            raise ValueError(
                f"words cannot be added to a vocabulary of kind {self.kind}, only to {', '.join(FAMILIES)}"
            )
        if backend.pre_tokenizer is None or (self.kind == "BPE" and backend.decoder is None):
            raise ValueError(
                "the tokenizer has no rules that split text into words or decode tokens (pre_tokenizer and decoder "
                "of tokenizer.json), so whole words cannot be added. Use another model"
            )
        if self.kind == "BPE" and (model["end_of_word_suffix"] or model["continuing_subword_prefix"]):
            raise ValueError(
                "the tokenizer marks the ends or insides of words (end_of_word_suffix, continuing_subword_prefix), "
                "so whole words cannot be added to its BPE. Use a model with a byte-level vocabulary"
            )
        if self.kind == "Unigram":
            self.unknown = model["unk_id"]
        else:
            self.unknown = backend.token_to_id(model["unk_token"]) if model["unk_token"] else None
        self.mark = _mark(rules["pre_tokenizer"]) if self.kind == "Unigram" else ""

    def parts(self, chunk: str) -> list[str]:
        """Return the parts that the model gets of a string without white space, except for a blank before it."""
        normal = self.backend.normalizer.normalize_str(chunk) if self.backend.normalizer else chunk
        return [part for part, _ in self.backend.pre_tokenizer.pre_tokenize_str(normal)]

    def pieces(self, form: str) -> list[Token]:
        tokens: list[Token] = self.backend.model.tokenize(form)
        return tokens

    def text(self, form: str) -> str:
        """Return the form without marks."""
        if self.kind == "WordPiece":
            return form
        if self.kind == "Unigram":
            return form.removeprefix(self.mark)
        return str(self.backend.decoder.decode([form])).strip()

    def forms(self, part: str) -> list[str]:
        """Return the words in a part that could be entries: with a letter and 2 to LONGEST characters."""
        if self.kind != "Unigram":
            return [part] if _is_word(self.text(part)) else []
        words = [span for span in word_spans(part.replace(self.mark, " ")) if _is_word(part[slice(*span)])]
        return [part[first - part[:first].endswith(self.mark) : last] for first, last in words]

    def count_word_pieces(self, part: str, pieces: Sequence[Token]) -> int:
        """Return how many of a part's pieces belong to words; punctuation and a lone mark of a blank do not."""
        if not _has_word(self.text(part)):
            return 0
        texts = [self.text(piece.value) for piece in pieces]
        return sum("\ufffd" in text or _has_word(text) for text in texts)  # U+FFFD: a piece is a part of a character

    def unknown_of(self, pieces: Sequence[Token]) -> int:
        return sum(piece.id == self.unknown for piece in pieces)


def _has_word(text: str) -> bool:
    return words_in(text).search(text) is not None


def _is_word(text: str) -> bool:
    return 2 <= len(text) <= LONGEST and any(map(str.isalpha, text))


def _mark(rules: dict[str, Any]) -> str:
    """Return the character that stands for a blank."""
    for rule in rules.get("pretokenizers", [rules]):
        if rule["type"] == "Metaspace":
            return str(rule["replacement"])
    raise ValueError(
        "the Unigram tokenizer has no Metaspace rule, so beginnings of words cannot be distinguished. Use another model"
    )


def extended(cutter: Cutter, forms: Sequence[str]) -> Tokenizer:
    """Return the cutter's tokenizer with these entries; their ids follow the largest present id, in order.

    Raises ValueError if ids would change, or if the tokenizer would not use a new entry for its text.
    """
    rules = json.loads(cutter.backend.to_str())
    old = cutter.backend.get_vocab(with_added_tokens=True)
    first = 1 + max(old.values())
    numbered = {form: first + place for place, form in enumerate(forms)}
    if cutter.kind == "Unigram":
        _extend_scores(rules, numbered, first, cutter)
    else:
        vocabulary = rules["model"]["vocab"]
        vocabulary |= {token["content"]: token["id"] for token in rules["added_tokens"]} | numbered
        if cutter.kind == "BPE":
            rules["model"]["ignore_merges"] = True
    tokenizer_made = Tokenizer.from_str(json.dumps(rules))
    _check(tokenizer_made, old, numbered)
    return tokenizer_made


def _extend_scores(rules: dict[str, Any], numbered: Mapping[str, int], first: int, cutter: Cutter) -> None:
    entries: list[list[Any]] = rules["model"]["vocab"]
    scores = [score for _, score in entries]
    lowest = min(scores)
    added = {token["id"]: token["content"] for token in rules["added_tokens"]}
    for number in range(len(entries), first):
        if number not in added:
            raise ValueError(
                f"the tokenizer's vocabulary has a gap: no entry has the id {number:,}, but larger ids exist. Save "
                "it again without gaps"
            )
        entries.append([added[number], lowest])
    for form in numbered:
        spelt = sum(
            (lowest - _UNKNOWN) * len(piece.value) if piece.id == cutter.unknown else scores[piece.id]
            for piece in cutter.pieces(form)
        )
        entries.append([form, spelt + MARGIN * len(form) ** 2])


def _check(tokenizer: Tokenizer, old: Mapping[str, int], numbered: Mapping[str, int]) -> None:
    new = tokenizer.get_vocab(with_added_tokens=True)
    if moved := [entry for entry, number in old.items() if new.get(entry) != number]:
        raise ValueError(
            f"{len(moved):,} entries of the vocabulary would get other ids, such as '{moved[0]}' (id "
            f"{old[moved[0]]:,}). The ids of the tokenizer have gaps. Save it again without gaps"
        )
    for form, number in numbered.items():
        if (ids := [piece.id for piece in tokenizer.model.tokenize(form)]) != [number]:
            raise ValueError(f"the new word '{form}' would be split into the tokens {ids}. Remove it")


def woken(before: Cutter, after: Cutter) -> int:
    """Return how many old entries of a BPE are now used for their text, which the merges had spelt otherwise."""
    if before.kind != "BPE" or json.loads(before.backend.to_str())["model"].get("ignore_merges"):
        return 0
    added = {token.content for token in before.backend.get_added_tokens_decoder().values()}
    entries = (entry for entry in before.backend.get_vocab(with_added_tokens=False) if entry not in added)
    spelt = (entry for entry in entries if len(before.pieces(entry)) != len(after.pieces(entry)))
    return sum(before.parts(str(before.backend.decoder.decode([entry]))) == [entry] for entry in spelt)
