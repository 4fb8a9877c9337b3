"""fastText vectors for the pieces of a model's vocabulary, and a map from vectors to the model's embeddings.

`vocabulary_vectors` gives F of TAPTER (section 3), and the pieces that R may regularise. `fit_map` fits the map of
Poerner et al. (2020) on the words that vectors and vocabulary share:

    W, b = argmin sum over shared words of ||W v + b - e||^2

Legend: V pieces of the vocabulary, N shared words, F numbers of a vector (G = F + 1), D of an embedding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from acclimate.text.words import ENGLISH

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from acclimate.text.vectors.vectors import Vectors

STOP_WORDS = "acclimate.text.words.ENGLISH"
HELD_OUT = 5  # every fifth word is held out to measure the map
Unseen = Literal["keep", "drop"]


@dataclass(frozen=True, eq=False)
class VocabularyVectors:
    """The vectors of the pieces, and which pieces R regularises.

    vectors_VF      float32, zeros for the pieces outside R
    regularised_V   bool: the pieces of R
    left_out        reason why pieces are outside R -> their number
    unseen_V        bool: the pieces whose vector is mostly of n-grams that no word of the vectors has, in R or dropped
    """

    vectors_VF: np.ndarray
    regularised_V: np.ndarray
    left_out: dict[str, int]
    unseen_V: np.ndarray


def vocabulary_vectors(
    tokenizer: PreTrainedTokenizerBase,
    vectors: Vectors,
    *,
    size: int,
    lower: bool,
    unseen: Unseen = "keep",
) -> VocabularyVectors:
    """Return the vector of each piece's text without marks: "##tion", "Ġtion" and "▁tion" get the vector of "tion".

    size    rows of the model's embeddings, of which there may be more than pieces
    lower   look pieces up in lower case, for vectors of lower-cased text
    unseen  "drop" leaves pieces out of R whose n-grams mostly occur in no word of the vectors, as
            `Vectors.mostly_unseen` says

    R leaves out special tokens, pieces that are no text (a mark alone, a part of a character), stop words, pieces with
    fewer characters than the vectors' shortest n-gram, and pieces without a vector.
    Raises ValueError if no piece is left, or if the tokenizer cannot tell marks from text.
    """
    texts = [text.lower() if lower else text for text in piece_texts(tokenizer, size)]
    special = set(tokenizer.all_special_ids)
    reasons = [_reason(text, piece in special, vectors.shortest) for piece, text in enumerate(texts)]
    regularised_V = np.array([not reason for reason in reasons])
    pieces = np.flatnonzero(regularised_V)
    looked_up = [texts[piece] for piece in pieces]
    vectors_found, has_vector = vectors.look_up(looked_up)
    unseen_V = np.zeros(size, bool)
    unseen_V[pieces] = has_vector & vectors.mostly_unseen(looked_up)
    counts = {reason: reasons.count(reason) for reason in sorted(set(reasons) - {""})}
    counts["without a vector"] = int((~has_vector).sum())
    regularised_V[pieces[~has_vector]] = False
    if unseen == "drop":
        regularised_V &= ~unseen_V
        counts["mostly unseen"] = int(unseen_V.sum())
    if not regularised_V.any():
        condition = " that consists mostly of n-grams of its words" if unseen == "drop" else ""
        raise ValueError(
            f"none of the {len(pieces):,} words and word parts in the model's vocabulary has a vector{condition}. "
            "Give vectors of the same language, or train them on more text"
        )
    vectors_VF = np.zeros((size, vectors.dim), np.float32)
    vectors_VF[pieces] = vectors_found
    vectors_VF[~regularised_V] = 0
    return VocabularyVectors(vectors_VF, regularised_V, counts, unseen_V)


def piece_texts(tokenizer: PreTrainedTokenizerBase, size: int) -> list[str]:
    """Return the text of each id below `size` without the marks of its place in a word; "" for an id without a piece.

    Bytes that are not a whole character become U+FFFD.
    """
    decoder = tokenizer.backend_tokenizer.decoder if tokenizer.is_fast else None
    if decoder is None:
        raise ValueError(
            f"{type(tokenizer).__name__} has no decoder, which is needed to convert tokens to text. Load it with "
            "AutoTokenizer.from_pretrained(..., use_fast=True), or add one to tokenizer.json"
        )
    texts = [""] * size
    for piece, number in tokenizer.get_vocab().items():
        if number < size:
            # decoded after another piece: at the beginning of a text, decoders keep the mark or drop a blank
            texts[number] = decoder.decode(["a", piece])[1:].strip()
    return texts


def _reason(text: str, special: bool, shortest: int) -> str:
    """Return why a piece is outside R, or "" if it is in R."""
    if special:
        return "special"
    if not text or "\ufffd" in text or len(text.split()) > 1:
        return "without a text"
    if text.lower() in ENGLISH:
        return "stop word"
    return "too short" if len(text) < shortest else ""


@dataclass(frozen=True, eq=False)
class Mapped:
    """A fitted map.

    map_GD     (F + 1, D): W transposed, with b as the last row
    words      N
    explained  share of the variance of a fifth of the embeddings that a map fitted on the other words explains
    """

    map_GD: np.ndarray
    words: int
    explained: float

    def __call__(self, vectors_NF: np.ndarray) -> np.ndarray:
        """Return the mapped vectors, (N, D) float32."""
        mapped_ND: np.ndarray = (_with_one(vectors_NF) @ self.map_GD).astype(np.float32)
        return mapped_ND


def fit_map(vectors_NF: np.ndarray, embeddings_ND: np.ndarray) -> Mapped:
    """Fit the map by least squares. Raises ValueError if there are too few words to determine it."""
    words, numbers = vectors_NF.shape
    if words < 2 * (numbers + 1):
        raise ValueError(
            f"{words:,} words have a vector and are whole words in the model's vocabulary. Vectors of {numbers} "
            f"dimensions need at least {2 * (numbers + 1):,}. Give more text, lower skipgram.dim, or set "
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
