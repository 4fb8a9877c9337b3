import copy
from itertools import pairwise

import numpy as np
import pytest

from acclimate.core.types import NOT_PREDICTED
from acclimate.text.masking import Replacement, _chosen, mask_words, replacement_of, rising_rate

MASK, SPECIAL = 4, (0, 1, 2, 3, 4)
REPLACEMENT = Replacement(MASK, 50, SPECIAL)
ALL_MASKED = Replacement(MASK, 50, SPECIAL, masked=1, random=0)


def random_rows(generator, rows=30, longest=40):
    """A ragged batch: ids with [CLS]=2 first and [SEP]=3 last and some [UNK]=1 in between; word starts."""
    lengths = generator.integers(2, longest, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = generator.integers(5, 50, offsets[-1])
    ids[generator.random(len(ids)) < 0.05] = 1
    ids[offsets[:-1]], ids[offsets[1:] - 1] = 2, 3
    starts = generator.random(len(ids)) < 0.6
    starts[offsets[:-1]] = starts[offsets[:-1] + 1] = starts[offsets[1:] - 1] = True
    return ids, offsets, starts


def masks(ids, offsets, starts, rate, *, replacement=REPLACEMENT, seed=0, **settings):
    """(ids with masks, labels) of rows"""
    generator = np.random.default_rng(seed)
    return mask_words(
        ids, offsets, word_starts=starts, rate=rate, replacement=replacement, generator=generator, **settings
    )


def naive_choice(rows, lengths, budget, order):
    chosen = np.zeros(len(rows), bool)
    for row in range(len(budget)):
        left = budget[row]
        words = [word for word in order if rows[word] == row]
        for word in words:
            if lengths[word] <= left:
                chosen[word] = True
                left -= lengths[word]
    return chosen


@pytest.mark.parametrize("seed", range(5))
def test_words_are_chosen_as_by_the_greedy_loop(seed, monkeypatch):
    generator = np.random.default_rng(seed)
    rows = np.sort(generator.integers(0, 12, 150))
    lengths = generator.choice([1, 1, 1, 2, 3, 7, 30], 150)
    budget = generator.integers(1, 20, 12)
    order = np.lexsort((generator.random(150), rows))
    monkeypatch.setattr("acclimate.text.masking._shuffled", lambda *arguments: order)
    np.testing.assert_array_equal(_chosen(rows, lengths, budget, generator), naive_choice(rows, lengths, budget, order))


@pytest.mark.parametrize("rate", [0.05, 0.15, 0.4, 1])
@pytest.mark.parametrize("whole_words", [True, False])
def test_budget_words_and_special_tokens_are_respected(rate, whole_words):
    ids, offsets, starts = random_rows(np.random.default_rng(1))
    _, labels = masks(ids, offsets, starts, rate, whole_words=whole_words)
    predicted = labels != NOT_PREDICTED
    np.testing.assert_array_equal(labels[predicted], ids[predicted])
    assert not predicted[np.isin(ids, SPECIAL)].any()
    for begin, end in pairwise(offsets):
        ordinary = ~np.isin(ids[begin:end], SPECIAL)
        budget = max(1, round(rate * ordinary.sum()))
        taken = predicted[begin:end].sum()
        words = np.cumsum(starts[begin:end]) if whole_words else np.arange(end - begin)
        longer = np.bincount(words, weights=ordinary)[words] > budget
        if ordinary[~longer].sum() < budget:
            words = np.where(longer, -1 - np.arange(end - begin), words)  # each token by itself
        taken_words = set(words[predicted[begin:end]])
        assert taken == np.isin(words, list(taken_words))[ordinary].sum()  # all of each word
        assert taken <= budget
        assert taken > 0 or not ordinary.any()
        if not whole_words:
            assert taken == min(budget, ordinary.sum())


@pytest.mark.parametrize(
    ("lengths", "whole", "predicted"),
    [
        ([40], False, 6),
        ([15, 1, 1], False, 3),  # the shorter words do not fill the budget
        ([4, 1, 1, 1, 1, 1, 1], True, 2),
        ([4, 2, 2, 2], True, 2),
    ],
)
def test_a_word_longer_than_the_budget_is_divided_only_if_other_words_do_not_fill_it(lengths, whole, predicted):
    row = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.diff(row, prepend=-1) > 0
    _, labels = masks(np.full(100 * len(row), 9), np.arange(101) * len(row), np.tile(starts, 100), 0.15)
    words = np.split((labels != NOT_PREDICTED).reshape(100, -1), np.flatnonzero(starts)[1:], axis=1)
    assert (sum(word.sum(1) for word in words) == predicted).all()
    assert all((word.any(1) == word.all(1)).all() for word in words) == whole


def test_rows_of_special_tokens_are_not_masked():
    ids = np.array([2, 1, 3])
    masked, labels = masks(ids, np.array([0, 3, 3]), np.ones(3, bool), 0.5)
    assert masked.tolist() == [2, 1, 3]
    assert (labels == NOT_PREDICTED).all()


def test_shares_of_mask_random_and_kept():
    ids = np.full(20_000, 10)
    masked, labels = masks(ids, np.arange(0, 20_001, 100), np.ones(20_000, bool), 1)
    assert (labels == 10).all()
    assert (masked == MASK).mean() == pytest.approx(0.8, abs=0.01)
    random = masked[(masked != MASK) & (masked != 10)]
    assert len(random) / 20_000 == pytest.approx(0.1 * 44 / 45, abs=0.01)
    assert set(random) == set(range(5, 50)) - {10}


def test_every_word_has_the_same_chance():
    rows, words = 4000, 10
    offsets = np.arange(0, rows * words + 1, words)
    _, labels = masks(np.full(rows * words, 10), offsets, np.ones(rows * words, bool), 0.3)
    chances = (labels.reshape(rows, words) != NOT_PREDICTED).mean(axis=0)
    np.testing.assert_allclose(chances, 0.3, atol=0.03)


@pytest.mark.parametrize("rate", [0, -0.1, 1.01, float("nan")])
def test_rates_outside_their_range_are_refused(rate):
    ids, offsets, starts = random_rows(np.random.default_rng(3))
    with pytest.raises(ValueError, match=r"is outside \(0, 1\]"):
        masks(ids, offsets, starts, rate)


def test_impossible_replacements_are_refused():
    with pytest.raises(ValueError, match="be shares"):
        Replacement(MASK, 50, SPECIAL, masked=0.9, random=0.2)
    with pytest.raises(ValueError, match="all 5 ids are special"):
        Replacement(MASK, 5, SPECIAL)


def test_a_tokenizer_says_what_masks_and_what_is_special_or_is_refused(tokenizers):
    for tokenizer in tokenizers.values():
        found = replacement_of(tokenizer)
        assert (found.mask, found.masked, found.random) == (tokenizer.mask_token_id, 0.8, 0.1)
        assert found.vocabulary == len(tokenizer)
        assert set(found.special) == set(tokenizer.all_special_ids)
    tokenizer = copy.deepcopy(tokenizers["wordpiece"])
    tokenizer.mask_token = None
    with pytest.raises(ValueError, match="has no mask_token"):
        replacement_of(tokenizer)


def test_rising_rate_is_five_to_twenty_five_per_cent_by_fifths():
    rate = rising_rate(0.15, 100)
    assert [rate(step) for step in (0, 19, 20, 39, 40, 60, 80, 99)] == [0.05, 0.05, 0.1, 0.1, 0.15, 0.2, 0.25, 0.25]
    assert np.mean([rate(step) for step in range(100)]) == pytest.approx(0.15)
    assert [rising_rate(0.3, 3)(step) for step in range(3)] == [0.1, 0.2, 0.4]  # fewer steps than fifths
    with pytest.raises(ValueError, match=r"at most 0\.6"):
        rising_rate(0.61, 10)
