import itertools
import random

import numpy as np
import pytest

from acclimate.text.overlap import near_duplicates
from acclimate.text.overlap.near_duplicates import exact_repeats, grams, near_repeats, sketches
from acclimate.text.overlap.words import jaccard, normalised_words

NEAR = 0.8


class Texts:
    """Texts in parts of several sizes."""

    def __init__(self, texts, cuts=(3, 40)):
        self.texts = texts
        ends = [0, *cuts, len(texts)]
        self._sketches = [sketches(texts[a:b], NEAR) for a, b in itertools.pairwise(ends)]

    def sketches(self):
        return self._sketches

    def text(self, number):
        return self.texts[number]


@pytest.fixture(scope="module")
def texts():
    """Originals of 60 words, copies with none to fifteen words changed, copies in another layout, short ones."""
    generator = random.Random(0)
    words = [f"w{number}" for number in range(400)]
    found = []
    for _ in range(30):
        original = generator.choices(words, k=60)
        found.append(" ".join(original))
        for changed in (0, 1, 2, 3, 5, 15):
            copy = list(original)
            for place in generator.sample(range(60), changed):
                copy[place] = generator.choice(words)
            found.append(", ".join(copy).upper())
    found += ["one two", "One, two!", "…", "", "…", "a b c d", "a b c e"]
    generator.shuffle(found)
    return found


def present(texts):
    return np.ones(len(texts), bool)


def test_near_repeats_are_those_of_all_pairs_compared(texts):
    found = near_repeats(Texts(texts), present(texts), NEAR, 1 << 20)
    runs = [grams(text) for text in texts]
    expected = [any(jaccard(runs[other], runs[one]) >= NEAR for other in range(one)) for one in range(len(texts))]
    assert (found >= 0).tolist() == expected
    assert 50 < sum(expected) < 120
    for number in np.flatnonzero(found >= 0):
        assert found[number] < number
        assert jaccard(runs[number], runs[found[number]]) >= NEAR


def test_exact_repeats_have_the_words_of_the_first(texts):
    found = exact_repeats(Texts(texts), present(texts), 1 << 20)
    first: dict[str, int] = {}
    for number, text in enumerate(texts):
        words = normalised_words(text)
        expected = first.setdefault(words, number) if words else number
        assert found[number] == (-1 if expected == number else expected)


def test_passes_and_parts_change_nothing(texts):
    whole, cut = Texts(texts), Texts(texts, (100,))
    memory = near_duplicates.A_TEXT * 40  # so that several passes are needed
    for repeats, given in ((exact_repeats, ()), (near_repeats, (NEAR,))):
        expected = repeats(whole, present(texts), *given, 1 << 30)
        np.testing.assert_array_equal(repeats(cut, present(texts), *given, memory), expected)


def test_what_is_not_present_repeats_nothing_and_is_repeated_by_nothing():
    store = Texts(["a b c d e f g"] * 60)
    some = np.zeros(60, bool)
    some[[5, 50]] = True
    assert np.flatnonzero(exact_repeats(store, some, 1 << 20) >= 0).tolist() == [50]
    assert near_repeats(store, some, NEAR, 1 << 20)[50] == 5


def test_of_texts_that_are_all_alike_each_is_compared_with_few(monkeypatch):
    generator = random.Random(1)
    base = [f"w{number}" for number in range(300)]
    texts = []
    for number in range(200):
        copy = list(base)
        copy[generator.randrange(300)] = f"other{number}"
        texts.append(" ".join(copy))
    counted = []
    monkeypatch.setattr(near_duplicates, "jaccard", lambda one, other: counted.append(1) or jaccard(one, other))
    assert (near_repeats(Texts(texts), present(texts), NEAR, 1 << 20)[1:] >= 0).all()
    assert len(counted) < 300
