r"""The words of a corpus that a tokenizer breaks, and how many pieces it makes of a word (its fertility).

A tokenizer's rules cut text at white space and mostly at punctuation; each part is then made of pieces by itself. So a
corpus is counted once, by its distinct parts, and whatever is asked of it is asked of each part once.

Readings
  A new word is as the vocabulary would hold it: "naloxone" for WordPiece, lower-cased where the tokenizer does that;
  "Ġnaloxone" after a blank and "naloxone" elsewhere for byte-level BPE; "▁naloxone" and "naloxone" for Unigram, whose
  parts may hold punctuation that is no part of the word. Each of them is one entry and is counted by itself.
  What a word saves is its count times the pieces it loses, under the vocabulary as it was: that "naloxones" becomes
  shorter too where "naloxone" is new is left out. A piece that stands for something unknown counts as one more.
  Fertility is over what `\w+` matches, as in the doctor's report: punctuation is no word. White space itself, of which
  byte-level vocabularies have pieces (line feeds, second blanks), is left out, and what follows other white space than
  a blank is read as at the beginning of a text.
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
from acclimate.text.vocabulary import WordCounts, texts
from acclimate.text.words import word_spans

if TYPE_CHECKING:
    from tokenizers import Token, Tokenizer

    from acclimate.text.vocabulary import Documents


FAMILIES = ("WordPiece", "BPE", "Unigram")
LONGEST = 50  # characters of a new word; what is longer is no word but a sequence or an address
_MOST = 4_000_000  # distinct strings between white space that are kept in memory
_WORD = re.compile(r"\w+")
_OF_WORD = re.compile(r"[\w\ufffd]")  # also a piece that is a part of a character
_CHUNK = re.compile(r" ?\S+")  # with the blank before it, which decides how byte-level vocabularies spell it


@dataclass(frozen=True)
class Parts:
    """A corpus as a tokenizer's rules cut it.

    counts    part -> how often
    words     all told
    left_out  occurrences of rare strings that were left out to bound the memory
    """

    counts: Counter[str]
    words: int
    left_out: int


@dataclass(frozen=True)
class NewWord:
    """form: as the vocabulary is to hold it; text: as people write it; count: in the corpus; pieces: ids that it is
    made of so far; unknown: how many of those stand for something unknown.
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
    r"""Of a corpus under a tokenizer.

    words: what `\w+` matches; pieces: that words are made of; tokens: all, punctuation's too; unknown: of these, those
    that stand for something unknown.
    """

    words: int
    pieces: int
    tokens: int
    unknown: int

    @property
    def pieces_a_word(self) -> float:
        return self.pieces / max(self.words, 1)


class Cutter:
    """What a tokenizer's rules make of strings, one step at a time.

    Raises ValueError for a tokenizer whose model is none of FAMILIES, that does not cut text into parts, or that marks
    the pieces of a word in a way which whole words cannot be added to.
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
                "the tokenizer has no rules that cut text into words, or none that tell the marks of pieces from their "
                "text (pre_tokenizer and decoder of tokenizer.json), so it takes no whole words. Take another model"
            )
        if self.kind == "BPE" and (model["end_of_word_suffix"] or model["continuing_subword_prefix"]):
            raise ValueError(
                "the tokenizer marks the ends or insides of words (end_of_word_suffix, continuing_subword_prefix), and "
                "a BPE that does takes no whole words. Take a model with a byte-level vocabulary"
            )
        if self.kind == "Unigram":
            self.unknown = model["unk_id"]
        else:
            self.unknown = backend.token_to_id(model["unk_token"]) if model["unk_token"] else None
        self.mark = _mark(rules["pre_tokenizer"]) if self.kind == "Unigram" else ""

    def parts(self, chunk: str) -> list[str]:
        """Return what the model gets of a string without white space, but for a blank before it."""
        normal = self.backend.normalizer.normalize_str(chunk) if self.backend.normalizer else chunk
        return [part for part, _ in self.backend.pre_tokenizer.pre_tokenize_str(normal)]

    def pieces(self, form: str) -> list[Token]:
        made: list[Token] = self.backend.model.tokenize(form)
        return made

    def text(self, form: str) -> str:
        """Return the form without marks."""
        if self.kind == "WordPiece":
            return form
        if self.kind == "Unigram":
            return form.removeprefix(self.mark)
        return str(self.backend.decoder.decode([form])).strip()

    def forms(self, part: str) -> list[str]:
        """Return the words in a part that could be entries: with a letter, and of 2 to LONGEST characters."""
        if self.kind != "Unigram":
            return [part] if _is_word(self.text(part)) else []
        words = [span for span in word_spans(part.replace(self.mark, " ")) if _is_word(part[slice(*span)])]
        return [part[first - part[:first].endswith(self.mark) : last] for first, last in words]

    def of_words(self, part: str, pieces: Sequence[Token]) -> int:
        """Return how many of a part's pieces are of words: not punctuation, nor a mark of a blank by itself."""
        if not _WORD.search(self.text(part)):
            return 0
        return sum(_OF_WORD.search(self.text(piece.value)) is not None for piece in pieces)

    def unknown_of(self, pieces: Sequence[Token]) -> int:
        return sum(piece.id == self.unknown for piece in pieces)


def count_parts(corpus: Documents, cutter: Cutter, *, most: int = _MOST, watch: Watch = unwatched) -> Parts:
    """Count a corpus by its parts. Of distinct strings between white space `most` are kept in memory; how many
    occurrences of rare ones were left out is told.
    """
    chunks, words = WordCounts(most), 0
    for some in texts(corpus, watch, "words"):
        text = "\n".join([*some, ""])
        chunks.add(_CHUNK.findall(text))
        words += sum(1 for _ in _WORD.finditer(text))
    parts: Counter[str] = Counter()
    for chunk, count in chunks.counts.items():
        for part in cutter.parts(chunk):
            parts[part] += count
    return Parts(parts, words, chunks.dropped)


def fertility(parts: Parts, cutter: Cutter) -> Fertility:
    """Of the corpus under the cutter's tokenizer, which may have other words than the one that it was counted with, but
    must cut text alike.
    """
    pieces = tokens = unknown = 0
    for part, count in parts.counts.items():
        made = cutter.pieces(part)
        pieces += count * cutter.of_words(part, made)
        tokens += count * len(made)
        unknown += count * cutter.unknown_of(made)
    return Fertility(parts.words, pieces, tokens, unknown)


def broken_words(parts: Parts, cutter: Cutter, *, most: int, least: int) -> list[NewWord]:
    """Return the corpus's words that are no entry yet and save most, in that order; of equals the first by spelling.

    most: words at most; least: how often a word occurs.
    """
    counts = _counts(parts, cutter)
    words = (_new(form, count, cutter) for form, count in counts.items() if count >= least)
    saving = [word for word in words if word is not None and word.saved > 0]
    return sorted(saving, key=lambda word: (-word.saved, word.form))[:most]


def listed_words(lines: Iterable[str], parts: Parts, cutter: Cutter) -> list[NewWord]:
    """Return the words of a list that are no entry yet, in its order; a line of several words gives each by itself.

    A word is added as it stands after a blank, and as it stands elsewhere if the corpus has it so.
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
    """Return the word; None where the vocabulary has it."""
    if cutter.backend.token_to_id(form) is not None:
        return None
    made = cutter.pieces(form)
    ids = tuple(piece.id for piece in made)
    return NewWord(form, cutter.text(form), count, ids, cutter.unknown_of(made)) if ids else None


def _counts(parts: Parts, cutter: Cutter) -> Counter[str]:
    counts: Counter[str] = Counter()
    for part, count in parts.counts.items():
        for form in cutter.forms(part):
            counts[form] += count
    return counts


def _is_word(text: str) -> bool:
    return 2 <= len(text) <= LONGEST and any(map(str.isalpha, text))


def _mark(rules: dict[str, Any]) -> str:
    """Return the character that stands for a blank."""
    for each in rules.get("pretokenizers", [rules]):
        if each["type"] == "Metaspace":
            return str(each["replacement"])
    raise ValueError(
        "the Unigram tokenizer has no Metaspace rule, so the beginning of a word looks like the inside of others"
    )


# A tokenizer with more words in its vocabulary: as real entries, so that ordinary text uses them, and so that every
# text without them gets the ids that it had.
#
# WordPiece   entries. Greedy longest match takes them, also as the beginning of longer words ("naloxone ##s"). A text
# none of whose words begins with a new one keeps its ids.
# BPE         entries, and `ignore_merges`: a word that is an entry is taken whole before any merge is tried. New merges
# instead would have to come last, and would join the same pieces in other words too. A text keeps its ids
# unless a new word stands in it by itself, or an entry that the merges never came to (`woken` counts these).
# Unigram     entries whose score is that of the best way to spell them so far, and next to nothing more. So the best
# way
# to spell a text changes only where the very pieces of a new word stood side by side.
#
# Words that were added to a tokenizer by other means (added_tokens: masks, prompts) and have ids behind those of the
# vocabulary become entries of it: `tokenizers` numbers them anew, behind the last entry, whenever it reads a file.

# Of a Unigram entry, times the square of its length in characters: the score by which it wins over its own pieces. The
# square is more than the sum of the parts' squares, so that a longer new word wins over two shorter ones in a row.
MARGIN = 1e-9
_UNKNOWN = 10.0  # by how much `tokenizers` scores an unknown character below the lowest piece


def extended(cutter: Cutter, forms: Sequence[str]) -> Tokenizer:
    """Return the cutter's tokenizer with these entries, whose ids follow the largest that there is, in their order.

    Raises ValueError where ids would move, or an entry would not be taken for its own text.
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
    made = Tokenizer.from_str(json.dumps(rules))
    _check(made, old, numbered)
    return made


def woken(before: Cutter, after: Cutter) -> int:
    """Return how many old entries of a BPE are now taken whole for their own text, which merges had spelt otherwise."""
    if before.kind != "BPE" or json.loads(before.backend.to_str())["model"].get("ignore_merges"):
        return 0
    added = {token.content for token in before.backend.get_added_tokens_decoder().values()}
    entries = (entry for entry in before.backend.get_vocab(with_added_tokens=False) if entry not in added)
    spelt = (entry for entry in entries if len(before.pieces(entry)) != len(after.pieces(entry)))
    return sum(before.parts(str(before.backend.decoder.decode([entry]))) == [entry] for entry in spelt)


def _extend_scores(rules: dict[str, Any], numbered: Mapping[str, int], first: int, cutter: Cutter) -> None:
    entries: list[list[Any]] = rules["model"]["vocab"]
    scores = [score for _, score in entries]
    lowest = min(scores)
    added = {token["id"]: token["content"] for token in rules["added_tokens"]}
    for number in range(len(entries), first):
        if number not in added:
            raise ValueError(
                f"the tokenizer's vocabulary has a gap: no entry has the id {number:,}, though larger ones are taken. "
                "Save it anew with all ids in use"
            )
        entries.append([added[number], lowest])
    for form in numbered:
        spelt = sum(
            (lowest - _UNKNOWN) * len(piece.value) if piece.id == cutter.unknown else scores[piece.id]
            for piece in cutter.pieces(form)
        )
        entries.append([form, spelt + MARGIN * len(form) ** 2])


def _check(made: Tokenizer, old: Mapping[str, int], numbered: Mapping[str, int]) -> None:
    new = made.get_vocab(with_added_tokens=True)
    if moved := [entry for entry, number in old.items() if new.get(entry) != number]:
        raise ValueError(
            f"{len(moved):,} entries of the vocabulary would get other ids, such as '{moved[0]}' (id {old[moved[0]]:,})"
            ". The tokenizer numbers its entries with gaps; save it anew with all ids in use"
        )
    for form, number in numbered.items():
        if (found := [piece.id for piece in made.model.tokenize(form)]) != [number]:
            raise ValueError(f"the new word '{form}' would be read as the pieces {found}, not whole. Leave it out")
