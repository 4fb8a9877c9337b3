"""Choose the WordPieces of a model that cover a corpus best, in the order that they had.

python vocabulary.py MODEL CORPUS SIZE OUT

Single characters that are frequent in the corpus stay, so that every word can still be spelled. Of the other pieces the
script removes an eighth at a time, the cheapest first. A piece costs how often it is used, times how many pieces more
it takes to spell it with those that stay. It writes a tokenizer to OUT, and to OUT/kept.json the old id of each piece.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from transformers import BertTokenizer

from acclimate.models.loading import load_tokenizer
from acclimate.text.corpus import Corpus

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
RARE = 3  # rarer words do not count
CHARACTERS = 200  # a rarer single character goes
DOCUMENTS = 200_000  # read, the first ones: the corpus is shuffled


def word_counts(corpus: Corpus, normalise, parts) -> Counter[str]:
    counts: Counter[str] = Counter()
    for number, document in enumerate(corpus.documents()):
        if number == DOCUMENTS:
            break
        counts.update(word for word, _ in parts(normalise(document.text)))
    return Counter({word: count for word, count in counts.items() if count >= RARE})


def spelled(word: str, pieces: set[str], longest: int) -> list[str] | None:
    """Return the pieces of a word, the longest first, as WordPiece finds them; None if the word is unknown."""
    found, at = [], 0
    while at < len(word):
        for end in range(min(len(word), at + longest), at, -1):
            piece = word[at:end] if at == 0 else f"##{word[at:end]}"
            if piece in pieces:
                break
        else:
            return None
        found.append(piece)
        at = end
    return found


def inside(piece: str, pieces: set[str]) -> int:
    """Return how many other pieces it takes to spell a piece."""
    prefix = "##" if piece.startswith("##") else ""
    letters, at, count = piece.removeprefix(prefix), 0, 0
    while at < len(letters):
        for end in range(len(letters) - (at == 0), at, -1):
            if (f"##{letters[at:end]}" if prefix or at else letters[:end]) in pieces:
                break
        else:
            return len(letters) + 1
        at, count = end, count + 1
    return count


def usage(words: Counter[str], pieces: set[str]) -> tuple[Counter[str], int, int]:
    """Return how often each piece is used, the number of pieces in all, and the number of unknown words."""
    longest, used, unknown = max(map(len, pieces)), Counter(), 0
    for word, count in words.items():
        found = spelled(word, pieces, longest)
        if found is None:
            unknown += count
        else:
            for piece in found:
                used[piece] += count
    return used, used.total(), unknown


def main() -> None:
    model, corpus, size, out = sys.argv[1], Corpus(Path(sys.argv[2])), int(sys.argv[3]), Path(sys.argv[4])
    tokenizer = load_tokenizer(model)
    backend = tokenizer.backend_tokenizer
    words = word_counts(corpus, backend.normalizer.normalize_str, backend.pre_tokenizer.pre_tokenize_str)
    old = tokenizer.get_vocab()
    pieces = {piece for piece in old if piece not in SPECIAL and not piece.startswith("[unused")}
    letters = Counter()
    for word, count in words.items():
        for place, letter in enumerate(word):
            letters[letter if place == 0 else f"##{letter}"] += count
    single = {piece for piece in pieces if len(piece.removeprefix("##")) == 1}
    pieces -= {piece for piece in single if letters[piece] < CHARACTERS}
    single &= pieces
    print(f"{len(words):,} words, {words.total():,} in all; {len(single)} characters stay", flush=True)
    while True:
        used, total, unknown = usage(words, pieces)
        print(f"{len(pieces):,} pieces: {total / words.total():.4f} a word, {unknown:,} unknown", flush=True)
        spare = len(pieces) + len(SPECIAL) - size
        if spare <= 0:
            break
        cost = {piece: used[piece] * (inside(piece, pieces) - 1) for piece in sorted(pieces - single)}
        pieces -= set(sorted(cost, key=lambda piece: (cost[piece], piece))[: min(spare, max(300, len(pieces) // 8))])
    kept = [*SPECIAL, *sorted(pieces, key=old.__getitem__)]
    vocabulary = {piece: number for number, piece in enumerate(kept)}
    BertTokenizer(vocab=vocabulary, do_lower_case=True, model_max_length=512).save_pretrained(out)
    (out / "kept.json").write_text(json.dumps([old[piece] for piece in kept]))


if __name__ == "__main__":
    main()
