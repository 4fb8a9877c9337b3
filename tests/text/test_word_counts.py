import random

import pytest

from acclimate.text.vocabulary import WordCounts


def test_counts_are_exact_where_all_words_fit():
    counts = WordCounts(4)
    counts.add(["a", "b", "a", "c"])
    counts.add(["d", "a"])
    assert counts.ordered() == [("a", 3), ("b", 1), ("c", 1), ("d", 1)]
    assert counts.dropped == 0


def test_the_rarest_words_go_and_are_told_while_the_frequent_ones_stay():
    generator = random.Random(0)
    words = [f"once{number}" for number in range(2_000)] + ["often"] * 300 + ["seldom"] * 40
    generator.shuffle(words)
    counts = WordCounts(100)
    for first in range(0, len(words), 10):
        counts.add(words[first : first + 10])
        assert len(counts.counts) <= 100
    assert counts.counts["often"] == 300
    assert 20 < counts.counts["seldom"] <= 40  # dropped at first, when it was as rare as the others
    assert counts.dropped == len(words) - sum(counts.counts.values())


def test_of_words_met_once_those_that_stay_are_drawn_from_the_whole_text():
    counts = WordCounts(200)
    for number in range(4_000):
        counts.add([f"word {number}"])
    places = [int(word.split()[1]) for word in counts.counts]
    assert sum(place < 3_500 for place in places) > 50  # the last 500 alone would fill it five times


def test_a_bound_that_keeps_nothing_is_refused():
    with pytest.raises(ValueError, match="keep 2 or more"):
        WordCounts(1)
