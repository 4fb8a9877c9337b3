"""What a tokenizer puts around two texts, and which of its pieces end a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_ENDS = (".", "!", "?")


@dataclass(frozen=True)
class Frame:
    """What a tokenizer puts around two texts; types: of its prefix, the first text, what is between, the second, the
    suffix.
    """

    prefix: tuple[int, ...]
    between: tuple[int, ...]
    suffix: tuple[int, ...]
    types: tuple[int, int, int, int, int]

    @property
    def size(self) -> int:
        return len(self.prefix) + len(self.between) + len(self.suffix)


def frame_of(tokenizer: PreTrainedTokenizerBase) -> Frame:
    """What a tokenizer puts around two texts.

    Raises ValueError where that cannot be told, or where it does not tell them apart by their types.
    """
    inner = tokenizer("a", add_special_tokens=False)["input_ids"]
    both = tokenizer("a", "a", return_token_type_ids=True)
    ids, types = both["input_ids"], both["token_type_ids"]
    places = [at for at in range(len(ids) - len(inner) + 1) if ids[at : at + len(inner)] == inner]
    if not inner or len(places) != 2:
        raise ValueError(f"cannot tell which special tokens {type(tokenizer).__name__} puts around two texts")
    first, second = places
    between, suffix = ids[first + len(inner) : second], ids[second + len(inner) :]
    kinds = (0, types[first], types[second - 1] if between else 0, types[second], types[-1])
    if types[first] == types[second]:
        raise ValueError(
            f"{type(tokenizer).__name__} does not tell two texts apart by token types. Set next_sentence=false"
        )
    return Frame(tuple(ids[:first]), tuple(between), tuple(suffix), kinds)


def ends_and_digits(tokenizer: PreTrainedTokenizerBase, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """(V,) bool: pieces that end a sentence, such as "." and ")."; pieces of digits alone."""
    ends_V, digits_V = np.zeros(vocabulary, bool), np.zeros(vocabulary, bool)
    for piece, number in tokenizer.get_vocab().items():
        text = piece.removeprefix("##").strip("\u2581\u0120")
        ends_V[number], digits_V[number] = text.endswith(_ENDS), text.isdigit()
    ends_V[tokenizer.all_special_ids] = False
    return ends_V, digits_V
