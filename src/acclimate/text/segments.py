"""Documents cut into segments that fit a model: as few and as equal as possible, and not within words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from acclimate.core.types import Watch, counted, unwatched
from acclimate.text.corpus import Corpus
from acclimate.text.tokens import Tokens

# Which documents of a corpus are long enough to learn from.


def long_documents(corpus: Corpus, least_words: int, *, watch: Watch = unwatched) -> np.ndarray:
    """(D,) bool: documents of at least so many words, which white space parts. Streams the corpus once.

    Raises ValueError where none is.
    """
    documents = counted(corpus.documents(), watch, "words", total=len(corpus))
    counts = np.fromiter((len(document.text.split()) for document in documents), np.int64, len(corpus))
    kept = counts >= least_words
    if not kept.any():
        raise ValueError(
            f"least_words = {least_words}, but the longest of {len(corpus):,} documents has {counts.max():,} words. "
            "Lower it; 0 keeps all"
        )
    return kept


_TOKENS_AT_ONCE = 1 << 20  # bounds the memory; a longer document is cut in one go


def segments(tokens: Tokens, longest: int) -> np.ndarray:
    """(S + 1,) int64 ascending, from 0 to N: segment s is tokens.ids[result[s]:result[s + 1]].

    longest  tokens of a sequence, prefix and suffix included, but no prompt (core/prompt.py)
    Nothing is dropped and no segment runs over the end of a document. A document is cut only where a word begins, or
    within a word that is too long for any segment; into the fewest segments that this allows, of nearly equal length.
    Raises ValueError where `longest` leaves no room for a token.
    """
    frame = tokens.frame - tokens.prompt
    room = longest - frame
    if room < 1:
        raise ValueError(
            f"sequences of at most {longest} tokens have no room for text: the tokenizer adds {frame} special "
            f"tokens. Set longest to at least {frame + 1}"
        )
    boundaries = [np.zeros(1, np.int64)]
    for first, last in _stretches(tokens.documents):
        offsets = tokens.documents[first : last + 1]
        ends = offsets[1:][np.diff(offsets) > 0]
        long = np.flatnonzero(np.diff(offsets) > room)
        if len(long):
            base = offsets[0]
            starts = np.array(tokens.word_starts[base : offsets[-1]])
            cuts = base + _cuts(starts, offsets[long] - base, offsets[long + 1] - base, room)
            ends = np.sort(np.concatenate([ends, cuts]))
        boundaries.append(ends)
    return np.concatenate(boundaries)


def _stretches(documents: np.ndarray) -> Iterator[tuple[int, int]]:
    """First document and the one after the last, of stretches with about _TOKENS_AT_ONCE tokens each."""
    first, count = 0, len(documents) - 1
    while first < count:
        last = int(np.searchsorted(documents, documents[first] + _TOKENS_AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), count)
        yield first, last
        first = last


def _cuts(starts: np.ndarray, begins: np.ndarray, ends: np.ndarray, room: int) -> np.ndarray:
    """Return where the documents [begins, ends), each longer than `room`, are cut; in no order.

    First from the ends: earliest[j] holds the first places from which j segments reach the end, for the documents
    active[j] that have more than j segments. No other way of cutting takes fewer.
    Then from the front: each cut goes to the possible place nearest to an equal share of what is left, but not before
    `earliest`, for then the rest would take one segment more, and not beyond `room`.
    """
    before, after = _possible(starts, room)
    earliest = [ends]
    active = [np.arange(len(ends))]
    while True:
        reached = earliest[-1] - room
        more = reached > begins[active[-1]]
        if not more.any():
            break
        active.append(active[-1][more])
        earliest.append(after[reached[more]])
    cuts = []
    at = begins.copy()
    for left in range(len(earliest) - 1, 0, -1):
        rows = active[left]
        wanted = at[rows] + np.rint((ends[rows] - at[rows]) / (left + 1)).astype(np.int64)
        low, high = before[wanted], after[wanted]
        nearest = np.where(wanted - low <= high - wanted, low, high)
        at[rows] = np.clip(nearest, earliest[left], before[at[rows] + room])
        cuts.append(at[rows])
    return np.concatenate(cuts)


def _possible(starts: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """(n + 1,) and (n + 1,) int64: the nearest possible place for a cut at or before each position, at or after it.

    starts  (n,) bool, the first one True: a stretch begins with a document, and so with a word
    """
    edges = np.flatnonzero(np.append(starts, True))
    lengths = np.diff(edges)
    possible = np.append(starts | np.repeat(lengths > room, lengths), True)
    positions = np.arange(len(possible))
    before = np.maximum.accumulate(np.where(possible, positions, 0))
    after = np.minimum.accumulate(np.where(possible, positions, len(starts))[::-1])[::-1]
    return before, after
