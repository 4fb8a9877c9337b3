"""Look for the texts of an index in few others, in Python and NumPy: search.py does so with compiled loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from acclimate.text.overlap.sketches import different, few_sketches, least_of
from acclimate.text.overlap.words import GRAM, normalised_words

CANDIDATES = 1000  # pairs of one text, to bound the memory for short texts that resemble many others


class Grams(NamedTuple):
    """Which of U texts have a run of words: those of run g are texts[begins[g] : begins[g + 1]], each once."""

    begins: np.ndarray
    texts: np.ndarray
    counts: np.ndarray  # (U,) different runs of a text


class ScanResult(NamedTuple):
    """What is found in D texts.

    exact  (D,) the text of the index with the same words, or -1
    hits   (H, 2) text, run of the index; in order of their places
    pairs  (P, 2) text, text of the index whose sketches agree
    """

    exact: np.ndarray
    hits: np.ndarray
    pairs: np.ndarray


class FewSearch:
    """Texts to look for; they must be normalised, different and not empty. `grams` says who has which run of words."""

    def __init__(self, texts: Sequence[str], near: float) -> None:
        self._numbers = {text: number for number, text in enumerate(texts)}
        self._runs: dict[str, int] = {}
        places = [
            (self._runs.setdefault(run, len(self._runs)), number)
            for number, text in enumerate(texts)
            for run in _runs_of(text)
        ]
        owners = np.array(places, np.int64).reshape(-1, 2)
        self.grams = grams_of(owners[:, 0], owners[:, 1], len(self._runs), len(texts))
        self._excerpts = list(self._runs)
        self._near, self._least = near, least_of(near)
        _, bands, self._signatures = few_sketches(texts, near)
        self._keys, self._begins, self._texts = texts_by_band(bands)

    def look(self, texts: Sequence[str]) -> ScanResult:
        words = [normalised_words(text) for text in texts]
        exact = np.array([self._numbers.get(text, -1) for text in words], np.int64)
        hits = [
            (number, self._runs[run])
            for number, text in enumerate(words if self._runs else [])
            for run in _runs_of(text)
            if run in self._runs
        ]
        hashes, bands, signatures = few_sketches(texts, self._near)
        pairs = [np.empty((0, 2), np.int64)]
        if len(self._keys):
            places = np.minimum(np.searchsorted(self._keys, bands), len(self._keys) - 1)
            known = self._keys[places] == bands
            for number in np.flatnonzero(known.any(1)).tolist():
                others = self._alike(places[number, known[number]], hashes[number], signatures[number])
                pairs.append(np.stack([np.full(len(others), number), others], axis=1))
        return ScanResult(exact, np.array(hits, np.int64).reshape(-1, 2), np.concatenate(pairs))

    def _alike(self, bands: np.ndarray, key: np.uint64, signature: np.ndarray) -> np.ndarray:
        """Return the candidates of one text as `search.find_near` finds them."""
        parts = []
        for begin, end in zip(self._begins[bands].tolist(), self._begins[bands + 1].tolist(), strict=True):
            parts.append(np.roll(self._texts[begin:end], -(int(key) % (end - begin))))
        others = np.concatenate(parts)
        others = others[np.sort(np.unique(others, return_index=True)[1])]
        agreeing = (self._signatures[others] == signature).sum(1)
        return np.asarray(others[agreeing >= self._least][:CANDIDATES])

    def run(self, gram: int) -> str:
        """Return the words of a run."""
        return self._excerpts[gram]


def _runs_of(text: str) -> list[str]:
    """Return the runs of GRAM words of a normalised text."""
    ends = [place for place, character in enumerate(text) if character == " "] if text.count(" ") >= GRAM - 1 else []
    bounds = [-1, *ends, len(text)]
    return [text[first + 1 : last] for first, last in zip(bounds, bounds[GRAM:], strict=False)]


def grams_of(runs: np.ndarray, texts: np.ndarray, count: int, size: int) -> Grams:
    """Return who has which run, from the run and the text of each place. count: different runs; size: texts"""
    run, text = np.divmod(different(runs * max(size, 1) + texts), max(size, 1))
    return Grams(np.searchsorted(run, np.arange(count + 1)), text, np.bincount(text, minlength=size))


def texts_by_band(bands: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the different band hashes, where the texts of each begin, and the texts, band by band."""
    text, band = np.nonzero(bands)
    order = np.argsort(bands[text, band], kind="stable")
    keys, begins = np.unique(bands[text, band][order], return_index=True)
    return keys, np.append(begins, len(order)).astype(np.int64), text[order].astype(np.int64)
