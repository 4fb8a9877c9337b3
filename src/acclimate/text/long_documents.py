"""Which documents of a corpus are long enough to learn from."""

from __future__ import annotations

import numpy as np

from acclimate.core.types import Watch, counted, unwatched
from acclimate.text.corpus import Corpus


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
