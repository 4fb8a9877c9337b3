"""Cut documents into segments that fit a model: as few and as equal as possible, and not within words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from acclimate.core.types import Watch, counted, unwatched
from acclimate.text.corpus import Corpus
from acclimate.text.tokens import Tokens

_TOKENS_AT_ONCE = 1 << 20  # bounds the memory, except for longer documents


def segments(tokens: Tokens, longest: int) -> np.ndarray:
    """Return (S + 1,) int64 boundaries, from 0 to N: segment s is tokens.ids[result[s]:result[s + 1]].

    longest  tokens of a sequence at most, with prefix and suffix but without a prompt (core/prompt.py)

    No token is dropped, and no segment crosses the end of a document. A document is cut only where a word begins, or
    within a word that is too long for any segment, into as few segments of nearly equal length as possible.
    Raises ValueError if `longest` leaves no room for a token.
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
    """Yield ranges of documents (first, last + 1) with about _TOKENS_AT_ONCE tokens each."""
    first, count = 0, len(documents) - 1
    while first < count:
        last = int(np.searchsorted(documents, documents[first] + _TOKENS_AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), count)
        yield first, last
        first = last


def _cuts(starts: np.ndarray, begins: np.ndarray, ends: np.ndarray, room: int) -> np.ndarray:
    """Return the cuts of the documents [begins, ends), each longer than `room`, in no particular order.

    The first pass runs from the ends: earliest[j] holds the first places from which j segments reach the end, for the
    documents active[j] with more than j segments. No way of cutting takes fewer segments.
    The second pass runs from the front: each cut goes to the possible place nearest to an equal share of the rest, but
    not before `earliest`, from where the rest would take one segment more, and not beyond `room`.
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
    for remainder in range(len(earliest) - 1, 0, -1):
        rows = active[remainder]
        targets = at[rows] + np.rint((ends[rows] - at[rows]) / (remainder + 1)).astype(np.int64)
        low, high = before[targets], after[targets]
        nearest = np.where(targets - low <= high - targets, low, high)
        at[rows] = np.clip(nearest, earliest[remainder], before[at[rows] + room])
        cuts.append(at[rows])
    return np.concatenate(cuts)


def _possible(starts: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest possible cut at or before each position, and at or after it: (n + 1,) int64 each.

    starts  (n,) bool, True where a word begins; the first is True, because documents begin with a word
    """
    edges = np.flatnonzero(np.append(starts, True))
    lengths = np.diff(edges)
    possible = np.append(starts | np.repeat(lengths > room, lengths), True)
    positions = np.arange(len(possible))
    before = np.maximum.accumulate(np.where(possible, positions, 0))
    after = np.minimum.accumulate(np.where(possible, positions, len(starts))[::-1])[::-1]
    return before, after


def long_documents(corpus: Corpus, least_words: int, *, watch: Watch = unwatched) -> np.ndarray:
    """Return (D,) bool, True for documents with at least `least_words` words. Reads the corpus once.

    Raises ValueError if there is no such document.
    """
    documents = counted(corpus.documents(), watch, "words", total=len(corpus))
    counts = np.fromiter((len(document.text.split()) for document in documents), np.int64, len(corpus))
    flags = counts >= least_words
    if not flags.any():
        raise ValueError(
            f"least_words = {least_words}, but the longest of {len(corpus):,} documents has {counts.max():,} words. "
            "Lower it; 0 keeps all"
        )
    return flags
