"""The unigram trainer against naive transcriptions: every segmentation of every word, written out."""

from math import exp, log

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from acclimate.text import unigram
from acclimate.text.unigram import expected_counts, losses, path_counts

WORDS = [("_lymphoma", 9), ("_lymph", 7), ("oma", 6), ("_naloxone", 5), ("_oma", 4), ("42", 3)]
ALPHABET = sorted({*"".join(word for word, _ in WORDS)})


@pytest.fixture(scope="module")
def lattice():
    return unigram._lattice("".join(word for word, _ in WORDS), WORDS, ALPHABET)


@pytest.fixture(scope="module")
def scores(lattice):
    """A log probability for each piece, longer ones a little more probable, no two segmentations alike."""
    draws = np.random.default_rng(0).random(len(lattice.where_P))
    return np.log(draws / draws.sum()) + 0.3 * lattice.length_P


@pytest.fixture(scope="module")
def texts(lattice):
    text = "".join(word for word, _ in WORDS)
    found = [text[where : where + length] for where, length in zip(lattice.where_P, lattice.length_P, strict=True)]
    return [*ALPHABET, *found[len(ALPHABET) :]]


def arrays(lattice):
    return lattice.begins_W1, lattice.counts_W, lattice.start_E, lattice.piece_E, lattice.begins_C1


def segmentations(word, pieces):
    if not word:
        yield []
    for end in range(1, len(word) + 1):
        if word[:end] in pieces:
            yield from ([word[:end], *rest] for rest in segmentations(word[end:], pieces))


def score(path, scored):
    return sum(scored[piece] for piece in path)


def test_seeds_are_substrings_met_twice_that_do_not_always_go_on_alike(texts):
    whole = "".join(f"{word} " * count for word, count in WORDS)

    def met(piece):
        return sum(whole.startswith(piece, place) for place in range(len(whole)))

    def seed(piece):
        return met(piece) >= 2 and all(met(piece + other) < met(piece) for other in ALPHABET)

    substrings = {word[i:j] for word, _ in WORDS for i in range(len(word)) for j in range(i + 2, len(word) + 1)}
    assert set(texts[len(ALPHABET) :]) == {piece for piece in substrings if seed(piece)}
    assert len(texts) == len(set(texts))


def test_expected_counts_are_those_over_all_segmentations(lattice, scores, texts):
    scored = dict(zip(texts, scores, strict=True))
    expected = dict.fromkeys(texts, 0.0)
    for word, count in WORDS:
        paths = [*segmentations(word, scored)]
        total = sum(exp(score(path, scored)) for path in paths)
        for path in paths:
            for piece in path:
                expected[piece] += count * exp(score(path, scored)) / total
    assert expected_counts(*arrays(lattice), scores) == pytest.approx([expected[piece] for piece in texts])


def test_path_counts_are_those_of_the_best_segmentation_and_of_the_tokenizer(lattice, scores, texts):
    scored = dict(zip(texts, scores, strict=True))
    best, by_tokenizer = dict.fromkeys(texts, 0), dict.fromkeys(texts, 0)
    tokenizer = Tokenizer(models.Unigram([("?", -50.0), *scored.items()], 0, False))
    for word, count in WORDS:
        for piece in max(segmentations(word, scored), key=lambda path: score(path, scored)):
            best[piece] += count
        for piece in tokenizer.encode(word).tokens:
            by_tokenizer[piece] += count
    assert path_counts(*arrays(lattice), scores).tolist() == [*best.values()] == [*by_tokenizer.values()]


def test_the_loss_of_a_piece_is_that_of_its_best_other_segmentation(lattice, scores, texts):
    scored = dict(zip(texts, scores, strict=True))
    met = np.arange(1.0, len(texts) + 1)
    counts, total = dict(zip(texts, met, strict=True)), met.sum()
    found = losses(lattice.where_P, lattice.length_P, *arrays(lattice)[2:], scores, met)
    for piece, loss in zip(texts, found, strict=True):
        others = [path for path in segmentations(piece, scored) if path != [piece]]
        if not others:
            assert loss == np.inf
            continue
        other = max(others, key=lambda path: score(path, scored))
        if score(other, scored) >= scored[piece]:
            assert loss == -np.inf
            continue
        more = log(total + counts[piece] * (len(other) - 1))
        instead = sum(log(counts[part] + counts[piece]) - more for part in other)
        assert loss == pytest.approx(counts[piece] / total * (log(counts[piece] / total) - instead))


def test_frequent_words_become_pieces_and_the_alphabet_stays():
    words = [*WORDS, ("_q", 1)]
    pieces = unigram.train_unigram(words, sorted({*ALPHABET, "q"}), size=18, space="_")
    assert len(pieces) == 18
    assert {*ALPHABET, "q", "_lymph", "_lymphoma"} <= {piece for piece, _ in pieces}
    assert [score for _, score in pieces] == sorted((score for _, score in pieces), reverse=True)


def test_letters_digits_and_marks_do_not_stand_in_one_piece():
    words = [("_p53-positive", 9), ("_p53", 9), ("_-5", 9)]
    pieces = unigram.train_unigram(words, sorted({*"_p53-ositve"}), size=60, space="_")
    assert "_p" in dict(pieces)
    assert not [piece for piece, _ in pieces if {"p", "5"} <= {*piece} or {"-", "p"} <= {*piece}]


def test_characters_outside_of_the_alphabet_are_not_learnt():
    pieces = unigram.train_unigram([("_abéab", 9), ("_ab", 5)], ["_", "a", "b"], size=10, space="_")
    assert {character for piece, _ in pieces for character in piece} == {"_", "a", "b"}
