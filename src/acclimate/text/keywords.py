"""Keywords of a text by RAKE: short queries for long texts.

Rose, Engel, Cramer, Cowley (2010), "Automatic keyword extraction from individual documents". A candidate is a run of
words between stop words and punctuation. In the graph of words that stand in one candidate, itself included, with
freq(w) the occurrences of w and deg(w) the words of all candidates that hold it, counted with every occurrence,

    score(w) = deg(w) / freq(w)                 score(candidate) = sum of its words' scores

Readings
  A word is letters, digits and underscores of any script, with apostrophes and hyphens inside it; case does not count.
  Any other visible character, and the end of a line that a blank one follows, parts candidates.
  Of equal scores the candidate that comes first in the text comes first. Each candidate is told once.
Deviations
  Keywords with stop words inside ("axis of evil", section 1.2.3) are not joined: to a search engine that takes words
  one by one, they say the same as their parts.
  The number of keywords is stated (20, as in TLM's released code), not a third of the words in the graph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Set

from acclimate.text.stop_words import ENGLISH

PHRASES = 20
_PIECE = re.compile(r"(?P<word>\w+(?:['’‑-]\w+)*)|(?P<end>[^\w\s]|\n\s*\n)")


def keywords(text: str, *, stop_words: Set[str] = ENGLISH) -> list[tuple[str, float]]:
    """The candidates in lower case with their scores, highest first.

    stop_words: in lower case, with straight apostrophes. A text of stop words alone has no candidate.
    """
    candidates = list(_candidates(text, stop_words))
    occurrences: Counter[str] = Counter()
    degrees: Counter[str] = Counter()
    for candidate in candidates:
        for word in candidate:
            occurrences[word] += 1
            degrees[word] += len(candidate)
    scores = {
        candidate: sum(degrees[word] / occurrences[word] for word in candidate)
        for candidate in dict.fromkeys(candidates)
    }
    # sorting is stable, and the candidates stand in the order of the text
    return [(" ".join(words), score) for words, score in sorted(scores.items(), key=lambda each: -each[1])]


def keyword_query(text: str, phrases: int = PHRASES, *, stop_words: Set[str] = ENGLISH) -> str:
    """The best `phrases` candidates, one after the other: what to search for in place of the text."""
    return " ".join(phrase for phrase, _ in keywords(text, stop_words=stop_words)[:phrases])


def _candidates(text: str, stop_words: Set[str]) -> Iterator[tuple[str, ...]]:
    """The runs of words between stop words, punctuation and blank lines, in the order of the text."""
    run: list[str] = []
    for piece in _PIECE.finditer(text.lower()):
        word = piece["word"]
        # a typographic apostrophe is the straight one, so that a contraction is found in the list
        if word is None or word.replace("’", "'") in stop_words:
            if run:
                yield tuple(run)
            run = []
        else:
            run.append(word)
    if run:
        yield tuple(run)
