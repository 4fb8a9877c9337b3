"""Which pieces of a vocabulary get which vector, and which are left out."""

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from acclimate.text.vectors.of_vocabulary import piece_texts, vocabulary_vectors

SPECIAL = {"unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"}


class Known:
    """Vectors of a few words: (length, first letter's place in the alphabet)."""

    dim = 2
    unseen: tuple[str, ...] = ()

    def __init__(self, *words: str, shortest: int = 3) -> None:
        self.words, self.shortest = words, shortest

    def look_up(self, words):
        values = [(len(word), ord(word[0]) - ord("a")) if word in self.words else (0, 0) for word in words]
        return np.array(values, np.float32).reshape(-1, 2), np.array([word in self.words for word in words], bool)

    def mostly_unseen(self, words):
        return np.array([word in self.unseen for word in words], bool)


def tokenizer_of(kind: str, pieces: list[str]) -> PreTrainedTokenizerFast:
    vocabulary = {piece: number for number, piece in enumerate([*SPECIAL.values(), *pieces])}
    if kind == "wordpiece":
        raw = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        raw.decoder = decoders.WordPiece()
    else:
        raw = Tokenizer(models.BPE(vocabulary, [], unk_token="[UNK]"))
        raw.pre_tokenizer = pre_tokenizers.ByteLevel() if kind == "bytes" else pre_tokenizers.Metaspace()
        raw.decoder = decoders.ByteLevel() if kind == "bytes" else decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=raw, **SPECIAL)


@pytest.mark.parametrize(
    ("kind", "pieces", "texts"),
    [
        ("wordpiece", ["gene", "##gene", ".", "##'s", "é"], ["gene", "gene", ".", "'s", "é"]),
        ("bytes", ["gene", "Ġgene", "ĠÃ©", "Ã", "Ġ", "ĊĊ"], ["gene", "gene", "é", "\ufffd", "", ""]),
        ("metaspace", ["gene", "▁gene", "▁", "▁é"], ["gene", "gene", "", "é"]),
    ],
)
def test_marks_are_stripped_whatever_the_family(kind, pieces, texts):
    assert piece_texts(tokenizer_of(kind, pieces), 4 + len(pieces)) == [*SPECIAL.values(), *texts, ""]


def test_a_piece_is_left_out_for_one_reason_and_the_others_have_their_vectors():
    pieces = ["gene", "##gene", "the", "##ab", "valve", "zzzz", "GENE"]
    found = vocabulary_vectors(
        tokenizer_of("wordpiece", pieces), Known("gene", "valve", "the", "ab", "[MASK]"), size=12, lower=True
    )
    assert np.flatnonzero(found.regularised_V).tolist() == [3, 4, 7, 9]  # gene, ##gene, valve, GENE
    assert found.vectors_VF[[3, 4, 7, 9]].tolist() == [[4, 6], [4, 6], [5, 21], [4, 6]]
    assert not found.vectors_VF[~found.regularised_V].any()
    assert found.left_out == {"special": 3, "stop word": 1, "too short": 1, "without a text": 2, "without a vector": 1}
    assert sum(found.left_out.values()) + found.regularised_V.sum() == 12


@pytest.mark.parametrize("unseen", ["keep", "drop"])
def test_pieces_of_unseen_ngrams_are_told_and_stay_in_r_unless_they_are_dropped(unseen):
    known = Known("gene", "valve")
    known.unseen = ("valve", "zzzz")  # zzzz has no vector at all
    tokenizer = tokenizer_of("wordpiece", ["gene", "valve", "zzzz"])
    found = vocabulary_vectors(tokenizer, known, size=6, lower=True, unseen=unseen)
    assert np.flatnonzero(found.unseen_V).tolist() == [4]
    assert np.flatnonzero(found.regularised_V).tolist() == ([3, 4] if unseen == "keep" else [3])
    assert found.vectors_VF[4].any() == (unseen == "keep")
    assert found.left_out.get("mostly unseen", 0) == (unseen == "drop")
    assert sum(found.left_out.values()) + found.regularised_V.sum() == 6


def test_a_vocabulary_of_unseen_ngrams_cannot_be_dropped_whole():
    known = Known("gene")
    known.unseen = ("gene",)
    with pytest.raises(ValueError, match="has a vector that consists mostly of n-grams of its words"):
        vocabulary_vectors(tokenizer_of("wordpiece", ["gene"]), known, size=4, lower=True, unseen="drop")


def test_case_is_kept_where_the_vectors_have_case():
    pieces = ["Gene", "gene", "The"]
    kept = vocabulary_vectors(tokenizer_of("wordpiece", pieces), Known("gene"), size=6, lower=False)
    assert np.flatnonzero(kept.regularised_V).tolist() == [4]
    assert kept.left_out["stop word"] == 1  # "The" is one in any case


def test_vectors_without_ngrams_have_no_shortest_piece_and_what_has_no_vector_or_marks_is_refused():
    found = vocabulary_vectors(tokenizer_of("wordpiece", ["ab"]), Known("ab", shortest=0), size=4, lower=True)
    assert found.regularised_V.tolist() == [False, False, False, True]
    with pytest.raises(ValueError, match=r"none of the 1 .* has a vector\. Give vectors of the same language"):
        vocabulary_vectors(tokenizer_of("wordpiece", ["gene", "the"]), Known("valve"), size=5, lower=True)
    tokenizer = tokenizer_of("wordpiece", ["gene"])
    tokenizer.backend_tokenizer.decoder = None
    with pytest.raises(ValueError, match="has no decoder"):
        piece_texts(tokenizer, 4)
