"""The vectors that fastText gives to the pieces of a model's vocabulary, and which pieces are held to theirs (TAPTER,
section 3: F, and what R may have).

Legend: V pieces of the vocabulary, F numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from acclimate.text.words import ENGLISH

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from acclimate.text.vectors.vectors import Vectors


# Word vectors mapped into the space of a model's embeddings, by the words that both have (Poerner et al., 2020).
#
# W = argmin sum over shared words of ||W v + b - e||^2
#
# Legend: N shared words, F numbers of a vector, D of an embedding.

HELD_OUT = 5  # every fifth word, when it is measured how much the map tells


@dataclass(frozen=True, eq=False)
class Mapped:
    """map_GD: (F + 1, D), the last row b; words: N; explained: share of the embeddings' variance that a map of four
    fifths of the words explains of the last fifth.
    """

    map_GD: np.ndarray
    words: int
    explained: float

    def __call__(self, vectors_NF: np.ndarray) -> np.ndarray:
        """(N, D) float32."""
        mapped_ND: np.ndarray = (_with_one(vectors_NF) @ self.map_GD).astype(np.float32)
        return mapped_ND


def fit_map(vectors_NF: np.ndarray, embeddings_ND: np.ndarray) -> Mapped:
    """Return the least squares. Raises ValueError where there are too few words for the numbers to be determined."""
    words, numbers = vectors_NF.shape
    if words < 2 * (numbers + 1):
        raise ValueError(
            f"{words:,} words have a vector and are whole in the model's vocabulary, too few to map vectors of "
            f"{numbers} numbers by: at least {2 * (numbers + 1):,}. Give more text, set skipgram.dim lower, or take "
            "start=pieces"
        )
    inputs_NG, targets_ND = _with_one(vectors_NF), embeddings_ND.astype(np.float64)
    held_N = np.arange(words) % HELD_OUT == 0
    trial_GD = np.linalg.lstsq(inputs_NG[~held_N], targets_ND[~held_N])[0]
    missed = np.square(inputs_NG[held_N] @ trial_GD - targets_ND[held_N]).sum()
    spread = np.square(targets_ND[held_N] - targets_ND[~held_N].mean(0)).sum()
    return Mapped(np.linalg.lstsq(inputs_NG, targets_ND)[0], words, float(1 - missed / spread))


def _with_one(vectors_NF: np.ndarray) -> np.ndarray:
    return np.hstack([vectors_NF.astype(np.float64), np.ones((len(vectors_NF), 1))])


STOP_WORDS = "acclimate.text.words.ENGLISH"


@dataclass(frozen=True, eq=False)
class VocabularyVectors:
    """vectors_VF      float32, zeros for the pieces outside R
    regularised_V   bool: the pieces of R
    left_out        why a piece is outside R -> how many are
    """

    vectors_VF: np.ndarray
    regularised_V: np.ndarray
    left_out: dict[str, int]


def vocabulary_vectors(
    tokenizer: PreTrainedTokenizerBase,
    vectors: Vectors,
    *,
    size: int,
    lower: bool,
    stop_words: Collection[str] = ENGLISH,
) -> VocabularyVectors:
    """Return the vector of each piece by its text without marks, so that "##tion", "Ġtion" and "▁tion" have that of
    "tion".

    size   rows of the model's embeddings, which may be more than the tokenizer has pieces
    lower  look pieces up in lower case, for vectors of lower-cased text

    Outside R are special tokens, pieces without a text of their own (a lone mark, a part of a character), stop words,
    those with fewer characters than the vectors' shortest n-gram, and those without a vector.
    Raises ValueError where no piece is left, or the tokenizer does not know its own marks.
    """
    texts = [text.lower() if lower else text for text in piece_texts(tokenizer, size)]
    special = set(tokenizer.all_special_ids)
    reasons = [_reason(text, piece in special, vectors.shortest, stop_words) for piece, text in enumerate(texts)]
    regularised_V = np.array([not reason for reason in reasons])
    asked = np.flatnonzero(regularised_V)
    found, known = vectors.of([texts[piece] for piece in asked])
    regularised_V[asked[~known]] = False
    if not regularised_V.any():
        raise ValueError(
            f"none of the {len(asked):,} pieces of the model's vocabulary that are words or parts of one has a vector. "
            "Give vectors of the same language, or train them on more text"
        )
    vectors_VF = np.zeros((size, vectors.dim), np.float32)
    vectors_VF[asked[known]] = found[known]
    counts = {reason: reasons.count(reason) for reason in sorted(set(reasons) - {""})}
    return VocabularyVectors(vectors_VF, regularised_V, counts | {"without a vector": int((~known).sum())})


def piece_texts(tokenizer: PreTrainedTokenizerBase, size: int) -> list[str]:
    """Return what each of the ids below `size` spells, without the marks of its place in a word; "" for an id without a
    piece.

    Bytes that are no whole character are spelt with U+FFFD.
    """
    decoder = tokenizer.backend_tokenizer.decoder if tokenizer.is_fast else None
    if decoder is None:
        raise ValueError(
            f"{type(tokenizer).__name__} has no decoder, which alone tells the marks of pieces from their text. Load "
            "it with AutoTokenizer.from_pretrained(..., use_fast=True), or add one to tokenizer.json"
        )
    texts = [""] * size
    for piece, number in tokenizer.get_vocab().items():
        if number < size:
            # after another piece, for the decoders keep a mark that nothing stands before, or drop a blank
            texts[number] = decoder.decode(["a", piece])[1:].strip()
    return texts


def _reason(text: str, special: bool, shortest: int, stop_words: Collection[str]) -> str:
    """Why a piece is outside R; "" where it is not."""
    if special:
        return "special"
    if not text or "\ufffd" in text or len(text.split()) > 1:
        return "without a text"
    if text.lower() in stop_words:
        return "stop word"
    return "too short" if len(text) < shortest else ""
