from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.text.masking import Replacement
from acclimate.text.rows import masked_segments
from acclimate.text.segments import segments
from acclimate.text.streams import (
    evaluation_batches,
    even,
    followed_by,
    interleaved,
    masked_rows_stream,
    masked_stream,
    rows_stream,
    sampled_rows,
    shares,
    side_by_side,
)

LONGEST = 20


def originals(batch):
    """The rows as they were before masking, as tuples."""
    ids = np.where(batch.tokens["labels"] == NOT_PREDICTED, batch.ids, batch.tokens["labels"])
    return [tuple(row.tolist()) for row in np.split(ids, batch.offsets[1:-1])]


def expected_rows(tokens):
    boundaries = segments(tokens, LONGEST)
    return [(*tokens.prefix, *tokens.ids[begin:end].tolist(), *tokens.suffix) for begin, end in pairwise(boundaries)]


@pytest.mark.parametrize("larger", [False, True])
def test_every_segment_comes_once_an_epoch_even_where_a_batch_is_larger_than_the_corpus(tokens, larger):
    expected = sorted(expected_rows(tokens))
    count = len(expected)
    batch = 3 * count + 1 if larger else 7
    stream = masked_stream(tokens, batch=batch, longest=LONGEST, seed=3)
    rows = [row for step in range(14 * count // batch + 1) for row in originals(stream(step))]
    epochs = [rows[first : first + count] for first in range(0, 14 * count, count)]
    assert all(sorted(epoch) == expected for epoch in epochs)
    assert len(set(map(tuple, epochs))) > 10  # and in another order


def test_batch_of_a_step_depends_on_seed_and_step_alone_and_epochs_mask_anew(tokens):
    def make(seed=1):
        return masked_stream(tokens, batch=8, longest=LONGEST, seed=seed)

    forward = [make()(step) for step in range(12)]
    stream = make()
    for step in reversed(range(12)):
        one, other = stream(step), forward[step]
        np.testing.assert_array_equal(one.ids, other.ids)
        np.testing.assert_array_equal(one.offsets, other.offsets)
        np.testing.assert_array_equal(one.tokens["labels"], other.tokens["labels"])
        assert list(one.names) == list(other.names)
    assert not np.array_equal(make(2)(5).ids, forward[5].ids)
    assert originals(forward[0]) != originals(make(2)(0))
    one = replace(tokens, ids=tokens.ids[:18], word_starts=np.ones(18, bool), documents=np.array([0, 18]))
    stream = masked_stream(one, batch=1, longest=LONGEST, seed=0)
    assert len({stream(step).tokens["labels"].tobytes() for step in range(8)}) > 4


def test_rows_are_named_after_their_documents(tokens):
    stream = masked_stream(tokens, batch=40, longest=LONGEST, seed=0)
    batch = stream(0)
    for name, row in zip(batch.names, originals(batch), strict=True):
        document = int(name.removeprefix("document "))
        ids = tokens.ids[tokens.documents[document] : tokens.documents[document + 1]].tolist()
        text = list(row[len(tokens.prefix) : -len(tokens.suffix)])
        assert any(ids[start : start + len(text)] == text for start in range(len(ids)))
    assert batch.pad == tokens.pad
    assert len(batch) == 40


def test_a_batch_that_cannot_fit_memory_is_refused_before_it_is_made(tokens, monkeypatch):
    rows = masked_stream(tokens, batch=9, longest=LONGEST, seed=0)(0)
    monkeypatch.setattr("acclimate.core.machines.memory", lambda: 10_000)
    masked_stream(tokens, batch=2, longest=LONGEST, seed=0)
    for make in (partial(masked_stream, tokens, longest=LONGEST), partial(rows_stream, rows)):
        with pytest.raises(ValueError, match=r"a batch of 999 rows, .* This machine has .* GB\. Lower plan\.batch"):
            make(batch=999, seed=0)


def test_whole_words_are_masked_together(tokens):
    one = replace(tokens, ids=tokens.ids[:18], word_starts=np.arange(18) % 6 == 0, documents=np.array([0, 18]))
    for step in range(5):
        labels = masked_stream(one, batch=1, longest=LONGEST, seed=0, rate=0.34)(step).tokens["labels"]
        assert (labels != NOT_PREDICTED).sum() == 6
        single = masked_stream(one, batch=1, longest=LONGEST, seed=0, whole_words=False)(step).tokens["labels"]
        assert (single != NOT_PREDICTED).sum() == 3


def test_rate_may_follow_the_step_and_shares_of_the_replacement_are_settings(tokens):
    stream = masked_stream(
        tokens, batch=30, longest=LONGEST, seed=0, rate=lambda step: 0.1 + 0.4 * step, whole_words=False
    )
    shares = [(stream(step).tokens["labels"] != NOT_PREDICTED).mean() for step in range(3)]
    assert shares[0] < 0.12
    assert shares[2] > 0.7
    batch = masked_stream(tokens, batch=30, longest=LONGEST, seed=0, masked=0, random=0)(0)
    predicted = batch.tokens["labels"] != NOT_PREDICTED
    assert predicted.any()
    np.testing.assert_array_equal(batch.ids[predicted], batch.tokens["labels"][predicted])


def test_evaluation_covers_every_segment_once_with_masks_that_do_not_depend_on_the_batch(tokens):
    batches = evaluation_batches(tokens, batch=6, longest=LONGEST, seed=0)
    assert [row for batch in batches for row in originals(batch)] == expected_rows(tokens)

    def labels(batch, seed):
        batches = evaluation_batches(tokens, batch=batch, longest=LONGEST, seed=seed)
        return np.concatenate([piece.tokens["labels"] for piece in batches])

    np.testing.assert_array_equal(labels(6, 0), labels(11, 0))
    assert not np.array_equal(labels(6, 0), labels(6, 1))


def test_evaluation_takes_a_sample_by_the_seed(tokens):
    def sample(seed, most):
        return evaluation_batches(tokens, batch=4, longest=LONGEST, seed=seed, segments_at_most=most)

    rows = [row for batch in sample(0, 10) for row in originals(batch)]
    assert len(rows) == 10
    assert set(rows) <= set(expected_rows(tokens))
    assert [row for batch in sample(0, 10) for row in originals(batch)] == rows
    assert [row for batch in sample(1, 10) for row in originals(batch)] != rows
    assert sum(map(len, sample(0, 10_000))) == len(expected_rows(tokens))


def labelled_rows():
    lengths = np.arange(1, 12)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.repeat(np.arange(11), lengths)
    names = [f"example {row}" for row in range(11)]
    return Batch(ids, offsets, tokens={"segment": ids + 1}, rows={"label": np.arange(11)}, names=names, pad=9)


def test_labelled_rows_come_once_an_epoch():
    stream = rows_stream(labelled_rows(), batch=4, seed=0)
    labels = np.concatenate([stream(step).rows["label"] for step in range(11)]).reshape(4, 11)
    np.testing.assert_array_equal(np.sort(labels, axis=1), np.tile(np.arange(11), (4, 1)))
    assert len({tuple(epoch) for epoch in labels}) == 4
    batch = stream(7)
    assert list(batch.names) == [f"example {label}" for label in batch.rows["label"]]
    np.testing.assert_array_equal(batch.ids, np.repeat(batch.rows["label"], batch.rows["label"] + 1))
    np.testing.assert_array_equal(batch.ids + 1, batch.tokens["segment"])
    assert batch.pad == 9


def masked_rows(seed=0, starts=None, rate=0.3):
    replacement = Replacement(100, 101, (100,), random=0)
    return masked_rows_stream(
        labelled_rows(), batch=4, seed=seed, replacement=replacement, rate=rate, word_starts=starts
    )


def test_labelled_rows_are_masked_anew_and_keep_what_goes_with_them():
    stream, plain = masked_rows(), rows_stream(labelled_rows(), batch=4, seed=0)
    masks = {}
    for step in range(22):
        batch, whole = stream(step), plain(step)
        predicted = batch.tokens["labels"] != NOT_PREDICTED
        np.testing.assert_array_equal(np.where(predicted, batch.tokens["labels"], batch.ids), whole.ids)
        assert set(batch.ids[predicted].tolist()) <= {100, *whole.ids[predicted].tolist()}
        np.testing.assert_array_equal(batch.rows["label"], whole.rows["label"])
        np.testing.assert_array_equal(batch.tokens["segment"], whole.tokens["segment"])
        assert set(batch.tokens) == {"labels", "segment"}
        for row in np.split(predicted, batch.offsets[1:-1]):
            assert row.sum() == max(1, round(0.3 * len(row)))
            masks.setdefault(len(row), set()).add(row.tobytes())
    assert len(masks[11]) > 4
    assert masked_rows()(5).ids.tobytes() == masked_rows()(5).ids.tobytes() != masked_rows(1)(5).ids.tobytes()


def test_words_of_labelled_rows_are_masked_whole():
    rows = labelled_rows()
    starts = np.concatenate([np.arange(length) % 3 == 0 for length in rows.lengths])  # words of three tokens
    batch = masked_rows(starts=starts, rate=0.5)(0)
    predicted = batch.tokens["labels"] != NOT_PREDICTED
    rows_of_words = [row for row in np.split(predicted, batch.offsets[1:-1]) if len(row) >= 6]  # others mask pieces
    assert rows_of_words
    for row in rows_of_words:
        assert all(len(set(row[first : first + 3].tolist())) == 1 for first in range(0, len(row), 3))


def numbered(kind):
    return lambda step: f"{kind}{step}"


def test_rho_1_external_batches_come_before_each_internal_one():
    def order(rho_1, steps=8):
        stream = interleaved(numbered("E"), numbered("I"), rho_1=rho_1)
        return " ".join(stream(step) for step in range(steps))

    assert order(3) == "E0 E1 E2 I0 E3 E4 E5 I1"
    assert order(1) == "E0 I0 E1 I1 E2 I2 E3 I3"
    assert order(0) == "I0 I1 I2 I3 I4 I5 I6 I7"
    assert order(99) == "E0 E1 E2 E3 E4 E5 E6 E7"
    with pytest.raises(ValueError, match="rho_1 is -1"):
        interleaved(numbered("E"), numbered("I"), rho_1=-1)


def test_settings_out_of_range_are_refused(tokens):
    with pytest.raises(ValueError, match="batch is 0"):
        masked_stream(tokens, batch=0, longest=LONGEST, seed=0)
    with pytest.raises(ValueError, match="segments_at_most is 0"):
        evaluation_batches(tokens, batch=1, longest=LONGEST, seed=0, segments_at_most=0)
    with pytest.raises(ValueError, match="no rows"):
        rows_stream(labelled_rows().take(np.arange(0)), batch=1, seed=0)


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


def test_rows_of_two_streams_make_one_batch_with_masks_of_their_own_or_one_has_none(rows):
    windows = shares(6, 0.5)
    streams = [sampled_rows(rows, window, seed=0, rate=0.3, beside=number) for number, window in enumerate(windows)]
    batch = side_by_side(streams)(2)
    alone = [stream(2) for stream in streams]
    np.testing.assert_array_equal(batch.take(np.arange(3)).ids, alone[0].ids)
    np.testing.assert_array_equal(batch.take(np.arange(3, 6)).tokens["labels"], alone[1].tokens["labels"])
    assert list(batch.names) == [*alone[0].names, *alone[1].names]
    assert list(alone[0].names) != list(alone[1].names)
    windows = shares(3, 0.1)
    streams = [sampled_rows(rows, window, seed=0, rate=0.3, beside=number) for number, window in enumerate(windows)]
    assert len(streams[1](0)) == 0
    assert len(side_by_side(streams)(0)) == 3


def test_streams_in_turn_are_asked_by_the_step(rows):
    early, late = (sampled_rows(rows, even(4, first), seed=0, rate=0.3) for first in (0, 5))
    stream = followed_by(early, late, at=5)
    assert list(stream(4).names) == list(early(4).names)
    assert list(stream(5).names) == list(early(0).names)  # the second part begins an epoch
    np.testing.assert_array_equal(stream(5).ids, late(5).ids)
    assert not np.array_equal(stream(5).ids, early(0).ids)  # with other masks
