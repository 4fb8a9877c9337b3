"""A tokenizer with more words in its vocabulary: as real entries, so that ordinary text uses them, and so that every
text without them gets the ids that it had.

WordPiece   entries. Greedy longest match takes them, also as the beginning of longer words ("naloxone ##s"). A text
            none of whose words begins with a new one keeps its ids.
BPE         entries, and `ignore_merges`: a word that is an entry is taken whole before any merge is tried. New merges
            instead would have to come last, and would join the same pieces in other words too. A text keeps its ids
            unless a new word stands in it by itself, or an entry that the merges never came to (`woken` counts these).
Unigram     entries whose score is that of the best way to spell them so far, and next to nothing more. So the best way
            to spell a text changes only where the very pieces of a new word stood side by side.

Words that were added to a tokenizer by other means (added_tokens: masks, prompts) and have ids behind those of the
vocabulary become entries of it: `tokenizers` numbers them anew, behind the last entry, whenever it reads a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

from acclimate.text.new_words import Cutter

# Of a Unigram entry, times the square of its length in characters: the score by which it wins over its own pieces. The
# square is more than the sum of the parts' squares, so that a longer new word wins over two shorter ones in a row.
MARGIN = 1e-9
_UNKNOWN = 10.0  # by how much `tokenizers` scores an unknown character below the lowest piece


def extended(cutter: Cutter, forms: Sequence[str]) -> Tokenizer:
    """The cutter's tokenizer with these entries, whose ids follow the largest that there is, in their order.

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
    """How many old entries of a BPE are now taken whole for their own text, which merges had spelt otherwise."""
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
