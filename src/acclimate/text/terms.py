"""A domain's most characteristic terms: words that stand out against general text, whatever any vocabulary holds.

Monroe, Colaresi and Quinn (2008), "Fightin' Words: Lexical Feature Selection and Evaluation for Identifying the Content
of Political Conflict", log-odds with an informative Dirichlet prior. A word w is met y_w times among the n words of the
domain and y'_w times among the n' of the general text, and a_w times in a prior of a words:

    delta_w = log((y_w + a_w) / (n + a - y_w - a_w)) - log((y'_w + a_w) / (n' + a - y'_w - a_w))
    z_w = delta_w / sqrt(1 / (y_w + a_w) + 1 / (y'_w + a_w))

Readings
  The prior spreads its words as both texts together do. It is worth as many words as the smaller of them: a prior of
  few words would give a term that general text lacks altogether a low z, for next to nothing would be known of y'.
  A word begins with a letter and has three characters or more, letters, digits and underscores; case does not count,
  and a term is spelt as it mostly is in the domain. Function words are none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from acclimate.core.types import Watch, unwatched
from acclimate.text.stop_words import ENGLISH
from acclimate.text.vocabulary import WORDS, Documents
from acclimate.text.vocabulary_words import texts
from acclimate.text.word_counts import WordCounts

LONGEST = 60  # characters of a term
_WORD = re.compile(r"[^\W\d_]\w{2,}")


@dataclass(frozen=True, slots=True)
class Term:
    """own, general: how often it was met, in any case; None where nobody counted. z: of its log-odds, likewise."""

    word: str
    own: int | None = None
    general: int | None = None
    z: float | None = None


def count_words(
    corpus: Documents, *, most: int = WORDS, stage: str = "terms", watch: Watch = unwatched
) -> Counter[str]:
    """The words of a corpus as they are spelt, but for function words. most: different ones that memory holds."""
    counts = WordCounts(most)
    for some in texts(corpus, watch, stage):
        counts.add(word for text in some for word in _WORD.findall(text) if len(word) <= LONGEST)
    return Counter({word: count for word, count in counts.ordered() if word.lower() not in ENGLISH})


def characteristic(own: Mapping[str, int], general: Mapping[str, int], *, most: int) -> list[Term]:
    """At most so many words of the domain with a z above 0, the highest first; ties by their letters.

    own, general: counts as `count_words` makes them. Raises ValueError where one of them is empty.
    """
    folded, folded_general = _folded(own), _folded(general)
    if not (folded and folded_general):
        which = "text of the domain" if not folded else "general text"
        raise ValueError(f"the {which} holds no word of three letters or more. Give more of it, or a list of terms")
    words = [*folded]
    y = np.array([folded[word] for word in words], float)
    y_general = np.array([folded_general[word] for word in words], float)
    n, n_general = sum(folded.values()), sum(folded_general.values())
    z = log_odds(y, y_general, n, n_general)
    spelling = _spelling(own)
    order = sorted(np.flatnonzero(z > 0).tolist(), key=lambda place: (-z[place], words[place]))[:most]
    return [
        Term(spelling[words[place]], folded[words[place]], folded_general[words[place]], float(z[place]))
        for place in order
    ]


def log_odds(y: np.ndarray, y_general: np.ndarray, n: int, n_general: int) -> np.ndarray:
    """z of words that are met y times among n, and y_general times among n_general."""
    prior = min(n, n_general)
    a = prior * (y + y_general) / (n + n_general)
    own, other = y + a, y_general + a
    delta = np.log(own / (n + prior - own)) - np.log(other / (n_general + prior - other))
    z: np.ndarray = delta / np.sqrt(1 / own + 1 / other)
    return z


def given_terms(lines: Iterable[str], own: Mapping[str, int], general: Mapping[str, int] | None) -> list[Term]:
    """The terms of a list, one a line, in its order and each once; what follows a tab is not read.

    Counted are those that are words as `count_words` has them. Raises ValueError for a list without a term.
    """
    words = dict.fromkeys(word for line in lines if (word := " ".join(line.partition("\t")[0].split())))
    if not words:
        raise ValueError("the list of terms holds none. Write one a line")
    folded, folded_general = _folded(own), None if general is None else _folded(general)
    found = []
    for word in words:
        counted = _WORD.fullmatch(word) and word.lower() not in ENGLISH
        count = folded[word.lower()] if counted else None
        found.append(
            Term(word, count, folded_general[word.lower()] if counted and folded_general is not None else None)
        )
    return found


def _folded(counts: Mapping[str, int]) -> Counter[str]:
    folded: Counter[str] = Counter()
    for word, count in counts.items():
        folded[word.lower()] += count
    return folded


def _spelling(counts: Mapping[str, int]) -> dict[str, str]:
    """The most frequent spelling of each word in lower case; of equally frequent ones the last by its code points."""
    return {word.lower(): word for word, _ in sorted(counts.items(), key=lambda each: (each[1], each[0]))}
