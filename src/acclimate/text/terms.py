"""Find words that say what a text is about: terms of a domain against general text, and keywords of one text.

Terms (`characteristic`). Monroe, Colaresi and Quinn (2008), "Fightin' Words: Lexical Feature Selection and Evaluation
for Identifying the Content of Political Conflict", log-odds with an informative Dirichlet prior. A word w occurs y_w
times among the n words of the domain, y'_w times among the n' words of the general text, and a_w times in a prior of a
words:

    delta_w = log((y_w + a_w) / (n + a - y_w - a_w)) - log((y'_w + a_w) / (n' + a - y'_w - a_w))
    z_w = delta_w / sqrt(1 / (y_w + a_w) + 1 / (y'_w + a_w))

Readings
  The prior has the distribution of both texts together and as many words as the smaller of them. With a prior of few
  words, a term that the general text lacks would get a low z, since next to nothing would be known of y'.
  A word begins with a letter and has at least three characters: letters, digits and underscores. Case does not count;
  a term gets its most frequent spelling in the domain. Function words are left out.

Keywords (`keywords`, by RAKE): short queries for long texts. Rose, Engel, Cramer, Cowley (2010), "Automatic keyword
extraction from individual documents". A candidate is a run of words between stop words and punctuation. freq(w) counts
the occurrences of w; deg(w) counts the words of all candidates that hold w, at every occurrence of w.

    score(w) = deg(w) / freq(w)                 score(candidate) = sum of its words' scores

Readings
  A word is letters, digits and underscores of any script, with apostrophes and hyphens inside it; case does not count.
  Any other visible character, and the end of a line that a blank line follows, separates candidates. Of equal scores
  the candidate that comes first in the text comes first. Each candidate is returned once.
Deviations
  Keywords with stop words inside ("axis of evil", section 1.2.3) are not joined: to a search engine that takes words
  one by one, they say the same as their parts. The number of keywords is a setting (20, as in TLM's released code), not
  a third of the words in the graph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

import numpy as np

from acclimate.core.types import Watch, unwatched
from acclimate.text.scripts import is_simple, plain, words_in
from acclimate.text.vocabulary import WORDS, DocumentSource, WordCounts, text_chunks
from acclimate.text.words import ENGLISH

PHRASES = 20
LONGEST = 60  # characters of a term
_PIECE = re.compile(r"(?P<word>\w+(?:['’‑-]\w+)*)|(?P<end>[^\w\s]|\n\s*\n)")
_WORD = re.compile(r"[^\W\d_]\w{2,}")


@dataclass(frozen=True, slots=True)
class Term:
    """A term.

    domain   number of its occurrences in the domain; None if not counted
    general  number of its occurrences in general text; None if not counted
    z        its weighted log odds; None if not computed
    """

    word: str
    domain: int | None = None
    general: int | None = None
    z: float | None = None


def characteristic(domain: Mapping[str, int], general: Mapping[str, int], *, most: int) -> list[Term]:
    """Return at most `most` words of the domain with z above 0, highest first, equal ones in alphabetical order.

    domain, general: counts by `count_words`. Raises ValueError if one of them is empty.
    """
    folded, folded_general = _folded(domain), _folded(general)
    if not (folded and folded_general):
        which = "text of the domain" if not folded else "general text"
        raise ValueError(f"the {which} contains no word of at least three letters. Give more text, or a list of terms")
    words = [*folded]
    y = np.array([folded[word] for word in words], float)
    y_general = np.array([folded_general[word] for word in words], float)
    n, n_general = sum(folded.values()), sum(folded_general.values())
    z = log_odds(y, y_general, n, n_general)
    spelling = _spelling(domain)
    order = sorted(np.flatnonzero(z > 0).tolist(), key=lambda place: (-z[place], words[place]))[:most]
    return [
        Term(spelling[words[place]], folded[words[place]], folded_general[words[place]], float(z[place]))
        for place in order
    ]


def log_odds(y: np.ndarray, y_general: np.ndarray, n: int, n_general: int) -> np.ndarray:
    """Return z of words that occur y times among n words, and y_general times among n_general."""
    prior = min(n, n_general)
    a = prior * (y + y_general) / (n + n_general)  # a_w
    domain_y, other = y + a, y_general + a
    delta = np.log(domain_y / (n + prior - domain_y)) - np.log(other / (n_general + prior - other))  # delta_w
    z: np.ndarray = delta / np.sqrt(1 / domain_y + 1 / other)  # z_w
    return z


def given_terms(lines: Iterable[str], domain: Mapping[str, int], general: Mapping[str, int] | None) -> list[Term]:
    """Return the terms of a list, one a line, in order and without repeats; the rest of a line after a tab is ignored.

    Terms that are words as in `count_words` are counted. Raises ValueError for a list without a term.
    """
    words = dict.fromkeys(word for line in lines if (word := " ".join(line.partition("\t")[0].split())))
    if not words:
        raise ValueError("the list of terms is empty. Write one term per line")
    folded, folded_general = _folded(domain), None if general is None else _folded(general)
    terms = []
    for word in words:
        spelling = plain(word, lower=False)
        counted = _words(word) == [spelling] and word.lower() not in ENGLISH
        count = folded[spelling.lower()] if counted else None
        terms.append(
            Term(word, count, folded_general[spelling.lower()] if counted and folded_general is not None else None)
        )
    return terms


def count_words(corpus: DocumentSource, *, stage: str = "terms", watch: Watch = unwatched) -> Counter[str]:
    """Count the words of a corpus by spelling, without function words."""
    counts = WordCounts(WORDS)
    for texts in text_chunks(corpus, watch, stage):
        counts.add(word for text in texts for word in _words(text) if len(word) <= LONGEST)
    return Counter({word: count for word, count in counts.ordered() if word.lower() not in ENGLISH})


def _words(text: str) -> list[str]:
    text = plain(text, lower=False)
    if is_simple(text):
        return _WORD.findall(text)
    return [word for word in words_in(text).findall(text) if len(word) > 2 and word[0].isalpha()]


def _folded(counts: Mapping[str, int]) -> Counter[str]:
    folded: Counter[str] = Counter()
    for word, count in counts.items():
        folded[word.lower()] += count
    return folded


def _spelling(counts: Mapping[str, int]) -> dict[str, str]:
    """Return lower case -> most frequent spelling; of equally frequent ones the last by code points."""
    return {word.lower(): word for word, _ in sorted(counts.items(), key=lambda item: (item[1], item[0]))}


def keywords(text: str, *, stop_words: Set[str] = ENGLISH) -> list[tuple[str, float]]:
    """Return the candidates in lower case with their scores, highest first.

    stop_words: in lower case, with straight apostrophes. A text of stop words only has no candidate.
    """
    candidates = list(_candidates(text, stop_words))
    occurrences: Counter[str] = Counter()
    degrees: Counter[str] = Counter()
    for candidate in candidates:
        for word in candidate:
            occurrences[word] += 1
            degrees[word] += len(candidate)
    scores = {
        candidate: sum(degrees[word] / occurrences[word] for word in candidate)  # deg(w) / freq(w)
        for candidate in dict.fromkeys(candidates)
    }
    # sorting is stable, and the candidates stand in the order of the text
    return [(" ".join(words), score) for words, score in sorted(scores.items(), key=lambda item: -item[1])]


def keyword_query(text: str, phrases: int = PHRASES) -> str:
    """Return the best `phrases` candidates as one query, to search for in place of the text."""
    return " ".join(phrase for phrase, _ in keywords(text)[:phrases])


def _candidates(text: str, stop_words: Set[str]) -> Iterator[tuple[str, ...]]:
    """Yield the runs of words between stop words, punctuation and blank lines, in the order of the text."""
    run: list[str] = []
    for piece in _PIECE.finditer(text.lower()):
        word = piece["word"]
        # stop words are spelt with straight apostrophes
        if word is None or word.replace("’", "'") in stop_words:
            if run:
                yield tuple(run)
            run = []
        else:
            run.append(word)
    if run:
        yield tuple(run)
