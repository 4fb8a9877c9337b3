"""Leaks planted on purpose, for `overlap.py`: a reference laid out anew, edited to a known similarity, or in part."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from acclimate.text.overlap.words import GRAM, SHINGLE, jaccard, normalised_words

BANDS = ((0.80, 0.85), (0.85, 0.90), (0.90, 0.95), (0.95, 1.00))
Texts = list[tuple[str, str]]


def plant(
    references: Texts, others: Sequence[str], count: int, generator: random.Random
) -> tuple[Texts, dict[str, tuple[str, str]]]:
    """`count` texts of each kind of leak, and for each its kind and the reference that it was made of."""
    planted: Texts = []
    expected: dict[str, tuple[str, str]] = {}
    words = " ".join(generator.choice(others) for _ in range(200)).split()
    makers: dict[str, Callable[[str], str | None]] = {
        "exact: other case, layout, punctuation": lambda text: _laid_out(text, generator),
        "a run of 13 words inside another text": lambda text: _inside(text, generator.choice(others), generator),
    }
    for low, high in BANDS:
        makers[f"near: Jaccard similarity {low:.2f} to {high:.2f}"] = lambda text, low=low, high=high: _edited(
            text, words, low, high, generator
        )
    for kind, make in makers.items():
        made = 0
        while made < count:
            name, text = generator.choice(references)
            changed = make(text)
            if changed is not None:
                planted.append((f"p{len(planted)}", changed))
                expected[planted[-1][0]] = (kind, name)
                made += 1
    return planted, expected


def _laid_out(text: str, generator: random.Random) -> str:
    spaces = (" ", "  ", "\n", ", ", " - ", "; ")
    words = [generator.choice((str.upper, str.lower, str.title))(word) for word in re.findall(r"\w+", text.lower())]
    changed = "".join(f"{word}{generator.choice(spaces)}" for word in words)
    return (
        changed
        if normalised_words(changed) == normalised_words(text)
        else " ".join(normalised_words(text).split()) + "!"
    )


def _inside(text: str, other: str, generator: random.Random) -> str | None:
    words = normalised_words(text).split()
    if len(words) < GRAM:
        return None
    first, place = generator.randint(0, len(words) - GRAM), generator.randint(0, len(other.split()))
    around = other.split()
    return " ".join([*around[:place], *words[first : first + GRAM], *around[place:]])


def _edited(text: str, others: Sequence[str], low: float, high: float, generator: random.Random) -> str | None:
    """The text with words replaced, left out, put in, exchanged and misspelt until the similarity is in [low, high)."""
    shingles_of_text, words, target = shingles(normalised_words(text)), text.split(), generator.uniform(low, high)
    similarity = 1.0
    while similarity > target or similarity >= high:
        place, how = generator.randrange(len(words)), generator.randrange(5)
        if how == 0:
            words[place] = generator.choice(others)
        elif how == 1 and len(words) > 1:
            del words[place]
        elif how == 2:
            words.insert(place, generator.choice(others))
        elif how == 3 and place:
            words[place - 1], words[place] = words[place], words[place - 1]
        elif how == 4:
            cut = generator.randrange(len(words[place]) + 1)
            words[place] = words[place][:cut] + generator.choice("aeinrst") + words[place][cut + 1 :]
        similarity = jaccard(shingles_of_text, shingles(normalised_words(" ".join(words))))
    return " ".join(words) if low <= similarity else None


def shingles(words: str) -> set[str]:
    """The different runs of SHINGLE characters of a normalised text."""
    return {words[place : place + SHINGLE] for place in range(len(words) - SHINGLE + 1)}
