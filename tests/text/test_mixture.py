import numpy as np
import pytest

from acclimate.text.rows import masked_segments
from acclimate.text.streams import even, in_turn, joined, sampled, shares, side_by_side

LONGEST = 20


@pytest.fixture
def rows(tokens):
    return masked_segments(tokens, longest=LONGEST, whole_words=True)


@pytest.mark.parametrize(("batch", "share"), [(8, 0.25), (5, 0.3), (7, 1 / 3), (3, 0.05)])
def test_shares_hold_over_a_run_and_every_row_comes_in_turn(batch, share):
    first, second = shares(batch, share, first_step=4)
    sizes = np.array([[window(step)[1] - window(step)[0] for window in (first, second)] for step in range(4, 104)])
    assert (sizes >= 0).all()
    assert (sizes.sum(axis=1) == batch).all()
    assert np.ptp(sizes[:, 1]) <= 1
    assert sizes[:, 1].sum() == pytest.approx(100 * batch * share, abs=1)
    for window in (first, second):
        assert window(4)[0] == 0
        assert all(window(step)[1] == window(step + 1)[0] for step in range(4, 104))


def test_rows_of_two_streams_make_one_batch_and_each_has_masks_of_its_own(rows):
    windows = shares(6, 0.5)
    streams = [sampled(rows, window, seed=0, rate=0.3, beside=number) for number, window in enumerate(windows)]
    batch = side_by_side(streams)(2)
    alone = [stream(2) for stream in streams]
    np.testing.assert_array_equal(batch.take(np.arange(3)).ids, alone[0].ids)
    np.testing.assert_array_equal(batch.take(np.arange(3, 6)).tokens["labels"], alone[1].tokens["labels"])
    assert list(batch.names) == [*alone[0].names, *alone[1].names]
    assert list(alone[0].names) != list(alone[1].names)


def test_a_step_may_have_no_row_of_one_of_them(rows):
    windows = shares(3, 0.1)
    streams = [sampled(rows, window, seed=0, rate=0.3, beside=number) for number, window in enumerate(windows)]
    assert len(streams[1](0)) == 0
    assert len(side_by_side(streams)(0)) == 3


def test_streams_in_turn_are_asked_by_the_step(rows):
    early, late = (sampled(rows, even(4, first), seed=0, rate=0.3) for first in (0, 5))
    stream = in_turn(early, late, at=5)
    assert list(stream(4).names) == list(early(4).names)
    assert list(stream(5).names) == list(early(0).names)  # the second part begins an epoch
    np.testing.assert_array_equal(stream(5).ids, late(5).ids)
    assert not np.array_equal(stream(5).ids, early(0).ids)  # with masks of its own


def test_joined_keeps_offsets_and_fields(rows):
    batches = [rows(np.array(numbers), rate=0.2, generator=np.random.default_rng(0)) for numbers in ([1, 2], [5])]
    batch = joined(batches)
    assert len(batch) == 3
    np.testing.assert_array_equal(batch.lengths, [*batches[0].lengths, *batches[1].lengths])
    np.testing.assert_array_equal(batch.take(np.array([2])).ids, batches[1].ids)
