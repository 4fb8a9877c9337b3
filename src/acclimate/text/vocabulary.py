"""A WordPiece vocabulary of a corpus's own (as PubMedBERT's), in a tokenizer that BERT models take as it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from acclimate.core.types import Document, Watch, counted, unwatched

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_CONTINUED = "##"
_BATCH_CHARACTERS = 1 << 20


class Documents(Protocol):
    """Texts that can be read again and again, such as a Corpus."""

    def documents(self) -> Iterator[Document]: ...
    def __len__(self) -> int: ...


def train_wordpiece(
    corpus: Documents,
    *,
    size: int,
    lower: bool = True,
    longest: int = 512,
    characters: int = 1000,
    watch: Watch = unwatched,
) -> PreTrainedTokenizerFast:
    """A tokenizer with BERT's rules and a vocabulary learnt from the corpus; the same corpus gives the same bytes.

    size        entries, special tokens and characters included; fewer where the corpus has no more pairs to merge
    lower       lower-case and drop accents, as the "uncased" models do
    longest     the tokenizer's model_max_length
    characters  keep so many distinct characters, the most frequent ones; words with others become [UNK]

    Reads the corpus twice and streams it; the distinct words are kept in memory.
    Raises ValueError where `size` has no room for the special tokens and the characters.
    """
    from transformers import BertTokenizer  # takes most of a second, and only this function needs it

    raw = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    raw.normalizer = normalizers.BertNormalizer(lowercase=lower)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    alphabet = _alphabet(corpus, raw, characters, watch)
    continued = [_CONTINUED + character for character in alphabet if _joins(character, raw)]
    least = len(_SPECIAL) + len(alphabet) + len(continued)
    if size < least:
        raise ValueError(
            f"a vocabulary of {size} has no room for {len(_SPECIAL)} special tokens and {len(alphabet)} characters, "
            f"{len(continued)} of them also within words. Set size to more than {least}, or lower characters"
        )
    # Left alone, the trainer numbers "##a", "##b" ... in the order of a randomly seeded hash table, and breaks ties
    # between pairs by these numbers: every run gives another vocabulary. Named as special, they come in our order.
    # That they stay ordinary tokens is seen to below, where only the vocabulary is taken over.
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=[*_SPECIAL, *continued],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        continuing_subword_prefix=_CONTINUED,
        show_progress=False,
    )
    raw.train_from_iterator(_texts(corpus, watch, "vocabulary"), trainer)
    return BertTokenizer(vocab=raw.get_vocab(), do_lower_case=lower, model_max_length=longest)


def _texts(corpus: Documents, watch: Watch, stage: str) -> Iterator[list[str]]:
    texts: list[str] = []
    waiting = 0
    for document in counted(corpus.documents(), watch, stage, total=len(corpus)):
        texts.append(document.text)
        waiting += len(document.text)
        if waiting >= _BATCH_CHARACTERS:
            yield texts
            texts, waiting = [], 0
    if texts:
        yield texts


def _alphabet(corpus: Documents, tokenizer: Tokenizer, most: int, watch: Watch) -> list[str]:
    """The most frequent visible characters after normalisation, by code point; ties go to the lower one."""
    counts = np.zeros(sys.maxunicode + 1, np.int64)
    for texts in _texts(corpus, watch, "alphabet"):
        normal = "\n".join(map(tokenizer.normalizer.normalize_str, texts))
        points = np.frombuffer(normal.encode("utf-32-le"), np.uint32)
        counts += np.bincount(points, minlength=len(counts))
    present = [point for point in np.flatnonzero(counts).tolist() if not chr(point).isspace()]
    frequent = sorted(present, key=lambda point: (-counts[point], point))[:most]
    return [chr(point) for point in sorted(frequent)]


def _joins(character: str, tokenizer: Tokenizer) -> bool:
    """Whether the character can stand within a word, where punctuation and ideographs cannot."""
    normal = tokenizer.normalizer.normalize_str(f"a{character}a")
    return len(tokenizer.pre_tokenizer.pre_tokenize_str(normal)) == 1
