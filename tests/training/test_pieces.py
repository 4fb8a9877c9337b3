"""A batch in pieces: every row once, little padding, and the tensors that a model gets."""

from functools import partial

import numpy as np
import pytest
import torch

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.training.pieces import LINE, ROUND, Layout, pack, pad, pieces_of_rows, together

CPU = torch.device("cpu")
by_row = partial(pack, by_row=True)
CUTS = [pieces_of_rows, pack, by_row]


def short(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 40, count)


def documents(count: int, seed: int = 0) -> np.ndarray:
    """Documents of log-normal length, cut into equal segments of at most 128 tokens with two special ones each."""
    generator = np.random.default_rng(seed)
    tokens = np.maximum(1, generator.lognormal(5.0, 1.0, 10 * count).astype(np.int64))
    parts = -(-tokens // 126)
    return generator.choice(np.repeat(tokens // parts + 2, parts), count)


def abstracts(count: int, seed: int = 0) -> np.ndarray:
    """Texts of log-normal length that are mostly shorter than 128 tokens, and cut off there."""
    return np.clip(np.random.default_rng(seed).lognormal(4.0, 0.8, count), 4, 128).astype(np.int64)


def share_of_padding(cutting, rows, batch: int, most: int = 2_048) -> float:
    real = all_tokens = 0
    for seed in range(20):
        lengths = rows(batch, seed)
        real += int(lengths.sum())
        all_tokens += sum(piece.tokens for piece in cutting(lengths, most))
    return 1 - real / all_tokens


@pytest.mark.parametrize("cutting", CUTS)
@pytest.mark.parametrize("most", [1, 16, 100, 2_048, 10**6])
@pytest.mark.parametrize("seed", range(2))
def test_every_row_is_in_one_piece_that_holds_no_more_than_it_may(cutting, most, seed):
    lengths = short(57, seed)
    pieces = cutting(lengths, most)
    assert sorted(np.concatenate([piece.rows_R for piece in pieces])) == list(range(57))
    for piece in pieces:
        assert piece.tokens <= most or piece.lines == 1
        assert piece.tokens == piece.lines * piece.width


@pytest.mark.parametrize("cutting", CUTS)
@pytest.mark.parametrize("seed", range(2))
def test_no_two_rows_lie_in_the_same_place_and_none_runs_over_its_line(cutting, seed):
    lengths = documents(64, seed)
    for piece in cutting(lengths, 1_000):
        taken = np.zeros((piece.lines, piece.width), dtype=int)
        for row, line, start in zip(piece.rows_R, piece.lines_R, piece.starts_R, strict=True):
            assert start + lengths[row] <= piece.width
            taken[line, start : start + lengths[row]] += 1
        assert taken.max() == 1
        assert (taken.sum(1) > 0).all()  # no line is empty
        assert piece.shared == (len(piece.rows_R) > piece.lines)


@pytest.mark.parametrize("batch", [16, 32, 64, 256])
def test_where_rows_of_unequal_length_may_share_lines_padding_is_under_5_percent(batch):
    assert share_of_padding(pack, abstracts, batch) < 0.05


@pytest.mark.parametrize("rows", [short, abstracts])
def test_lines_of_rows_that_attend_one_by_one_are_long_and_full(rows):
    assert share_of_padding(by_row, rows, 32) < 0.01
    [piece] = by_row(np.full(16, 100), 2_048)
    assert (piece.lines, piece.width) == (1, 1_600)
    assert {piece.width for piece in by_row(documents(1_000), 10**6)} <= set(range(1_900, LINE + 1))


def test_where_each_row_has_a_line_padding_is_under_5_percent_of_large_batches():
    assert share_of_padding(pieces_of_rows, documents, 256) < 0.05
    assert share_of_padding(pieces_of_rows, documents, 32) < 0.10


def test_packed_pieces_are_about_equal():
    sizes = [piece.tokens for piece in pack(documents(256), 2_048)]
    assert max(sizes) < 1.35 * np.mean(sizes)
    assert len({piece.width for piece in pack(documents(256), 2_048)}) == 1


@pytest.fixture
def batch() -> Batch:
    labels = np.array([NOT_PREDICTED, 7, NOT_PREDICTED, NOT_PREDICTED, 9])
    kinds = np.array([0, 1, 1, 1, 1])
    ids, offsets = np.array([2, 3, 4, 5, 6]), np.array([0, 2, 5])
    return Batch(ids, offsets, {"labels": labels, "token_type_ids": kinds}, {"label": np.array([1, 0])}, pad=99)


def test_pad_fills_with_the_batchs_own_padding_and_gathers_predicted_positions(batch):
    piece = pad(batch, together(batch.lengths), CPU)
    assert piece["input_ids"].tolist() == [[2, 3, 99], [4, 5, 6]]
    assert piece["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert piece["token_type_ids"].tolist() == [[0, 1, 0], [1, 1, 1]]
    assert piece["positions"].tolist() == [1, 5] + [0] * (ROUND - 2)
    assert piece["labels"].tolist() == [7, 9] + [NOT_PREDICTED] * (ROUND - 2)
    assert piece["label"].tolist() == [1, 0]
    assert piece["firsts"].tolist() == [0, 3]


def test_rows_on_one_line_see_themselves_only_and_count_from_0(batch):
    line = Layout(np.array([1, 0]), np.array([0, 0]), np.array([0, 3]), lines=1, width=6)
    piece = pad(batch, line, CPU)
    assert piece["input_ids"].tolist() == [[4, 5, 6, 2, 3, 99]]
    assert piece["position_ids"].tolist() == [[0, 1, 2, 0, 1, 0]]
    assert piece["attention_mask"].shape == (1, 1, 6, 6)
    seen = piece["attention_mask"][0, 0].int().tolist()
    assert seen == [[1, 1, 1, 0, 0, 0]] * 3 + [[0, 0, 0, 1, 1, 0]] * 2 + [[0, 0, 0, 0, 0, 1]]
    assert piece["positions"].tolist()[:2] == [2, 4]
    assert piece["labels"].tolist()[:2] == [9, 7]
    assert piece["label"].tolist() == [0, 1]
    assert piece["firsts"].tolist() == [0, 3]


def test_rows_of_one_length_need_no_mask():
    same = Batch(np.arange(6), np.array([0, 3, 6]))
    assert "attention_mask" not in pad(same, together(same.lengths), CPU)
