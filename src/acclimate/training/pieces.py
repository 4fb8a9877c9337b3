"""Cut the batch of a step into pieces that go through the model one after the other, with next to no padding.

Rows of text are short and of very different length. If the model can keep rows apart (models/heads.py), several share a
line (`pack`): each attends to itself only and counts its positions from 0, so it gets the result of a row alone. On a
CPU lines are long, because attention is computed row by row there (kernels.py), and next to nothing is padding.
Otherwise each row has a line to itself, and a piece holds rows of about one length (`pieces_of_rows`).

Shape suffixes: R rows of a piece, B rows of the batch, L lines, W width of a line in tokens, T tokens of the longest
row, M predicted positions or tagged tokens.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapreplace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from acclimate.core.types import NOT_PREDICTED, TAGS, Batch
from acclimate.training.kernels import GRAIN, block_diagonal

Piece = dict[str, Tensor]

# of `pieces_of_rows`
LIKE = 0.85  # rows of at least this share of the longest are of about one length
# of `pack`
SEARCHED = 512  # rows: in larger batches any width packs well, and a search would cost more than it saves
WIDEST = 2  # times the longest row
ATTENTION = 1500  # tokens: about the width of a line at which attention costs as much as everything else
LINE = 2_048  # tokens of a line whose rows attend one by one: its mask, which they don't need, takes W * W bytes
# of `pad`
ROUND = 16  # predicted positions are filled up to a multiple of it for the same reason; it halves the memory of a run


@dataclass(frozen=True)
class Layout:
    """The places of the rows of a piece: row rows_R[i] of the batch begins in column starts_R[i] of line lines_R[i]."""

    rows_R: np.ndarray
    lines_R: np.ndarray
    starts_R: np.ndarray
    lines: int  # L
    width: int  # W

    @property
    def tokens(self) -> int:
        """Return the number of tokens that go through the model, padding included."""
        return self.lines * self.width

    @property
    def shared(self) -> bool:
        """True if a line holds more than one row."""
        return self.lines < len(self.rows_R)


def together(lengths: np.ndarray) -> Layout:
    """Return one piece of all rows, each on its line. lengths: (B,) tokens of each row."""
    return _one_row_a_line(np.arange(len(lengths)), lengths)


def pieces_of_rows(lengths: np.ndarray, most: int) -> list[Layout]:
    """Return pieces of at most `most` tokens, padding included, one row a line, the longest rows first.

    A piece ends when it is full, or when it is a quarter full and the next row is much shorter than its first: small
    pieces use the processor badly, unequal rows waste it. A row longer than `most` makes a piece alone.
    """
    order = np.argsort(-lengths, kind="stable")
    pieces: list[list[int]] = []
    for row in order:
        piece = pieces[-1] if pieces else []
        longest = lengths[piece[0]] if piece else 0
        full = (len(piece) + 1) * longest > most
        unlike = len(piece) * longest >= most / 4 and lengths[row] < LIKE * longest
        if not piece or full or unlike:
            pieces.append([row])
        else:
            piece.append(row)
    return [_one_row_a_line(np.array(piece), lengths) for piece in pieces]


def _one_row_a_line(rows: np.ndarray, lengths: np.ndarray) -> Layout:
    return Layout(rows, np.arange(len(rows)), np.zeros(len(rows), np.int64), len(rows), int(lengths[rows].max()))


def pack(lengths: np.ndarray, most: int, *, by_row: bool = False) -> list[Layout]:
    """Return pieces of at most `most` tokens, of one width and about equal height, in which rows share lines.

    by_row  attention is computed row by row (kernels.py), so long lines cost no more than short ones. Elsewhere the
            width is the one that costs least, between padding (narrow lines fill worse) and attention (quadratic in the
            width), up to WIDEST times the longest row.
    """
    if by_row:
        width, lines = _even_lines(lengths, min(most, LINE))
    else:
        longest = int(lengths.max())
        narrowest = -(-longest // GRAIN) * GRAIN
        widths = range(narrowest, int(WIDEST * longest) + 1, GRAIN) if len(lengths) <= SEARCHED else []
        tried = [(width, _filled_lines(lengths, width)) for width in [*widths] or [narrowest]]
        width, lines = min(tried, key=lambda one: len(one[1]) * one[0] * (ATTENTION + one[0]))
    count = -(-len(lines) // max(1, most // width))
    bounds = np.linspace(0, len(lines), count + 1).round().astype(int)
    return [_layout_of_lines(lines[first:last], lengths, width) for first, last in pairwise(bounds)]


def _even_lines(lengths: np.ndarray, widest: int) -> tuple[int, list[list[int]]]:
    """Return the width of as few and as equal lines as hold all rows, at most `widest`, and the rows of each line.

    Every row goes, longest first, to the emptiest line. A row longer than `widest` makes a line alone.
    """
    order = np.argsort(-lengths, kind="stable").tolist()
    count = min(len(lengths), -(-int(lengths.sum()) // widest))
    while True:
        lines: list[list[int]] = [[] for _ in range(count)]
        filled = [(0, line) for line in range(count)]
        for row in order:
            tokens, line = filled[0]
            lines[line].append(row)
            heapreplace(filled, (tokens + int(lengths[row]), line))
        width = max(tokens for tokens, _ in filled)
        if width <= widest or count == len(lengths):
            break
        count = min(len(lengths), count + 1 + count // 50)  # one by one would take as many times as there are lines
    return -(-width // GRAIN) * GRAIN, lines


def _filled_lines(lengths: np.ndarray, width: int) -> list[list[int]]:
    """Return the rows of each line: every row goes, longest first, where it leaves the least room."""
    lines: list[list[int]] = []
    rooms: list[tuple[int, int]] = []  # (room left, line), ascending
    for row in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[row])
        place = bisect_left(rooms, (length, -1))
        if place == len(rooms):
            room, line = width, len(lines)
            lines.append([])
        else:
            room, line = rooms.pop(place)
        lines[line].append(row)
        gap = (room - length, line)
        rooms.insert(bisect_left(rooms, gap), gap)
    return lines


def _layout_of_lines(lines: list[list[int]], lengths: np.ndarray, width: int) -> Layout:
    rows = np.array([row for line in lines for row in line], dtype=np.int64)
    of_line = np.repeat(np.arange(len(lines)), [len(line) for line in lines])
    ends = np.cumsum(lengths[rows])
    begins = ends - lengths[rows]
    first = np.concatenate([[0], np.cumsum([len(line) for line in lines])[:-1]])  # place of each line's first row
    return Layout(rows, of_line, begins - begins[first][of_line], len(lines), width)


def pad(batch: Batch, layout: Layout, where: torch.device) -> Piece:
    """Return the rows of a piece as tensors on a device.

    input_ids       (L, W) int64
    attention_mask  (L, W) int64, 1 on real tokens, and left out where there is no padding; if lines are shared,
                    (L, 1, W, W) bool, True where the token of the third axis sees that of the fourth
    position_ids    (L, W) int64, counted from each row's start; only if lines are shared
    labels          (M,) int64, of the predicted positions only, filled up with NOT_PREDICTED to a multiple of ROUND
    positions       (M,) int64, where these positions stand in the flattened (L * W)
    firsts          (R,) int64, where each row's first token stands in the flattened (L * W)
    lengths         (R,) int64, tokens of each row; only if lines are shared
    columns         (T,) int64, 0, 1 ... of the longest row, or of a longer one: so T is known without a look at the
                    device; only if lines are shared
    tags            (L, W) int64, filled with NOT_PREDICTED
    tagged          (M,) int64, where tags stand in the flattened (L * W), filled up to a multiple of ROUND with a place
                    without one
    every other field of `batch.tokens` as (L, W), filled with 0; every field of `batch.rows` as it is, (R, ...)
    """
    rows = batch.take(layout.rows_R)
    lengths = rows.lengths
    first_R = layout.lines_R * layout.width + layout.starts_R
    within = np.arange(len(rows.ids)) - np.repeat(rows.offsets[:-1], lengths)  # of each token, its place in its row
    places = np.repeat(first_R, lengths) + within  # and in the flattened (L * W)

    def put(values: np.ndarray, fill: int) -> np.ndarray:
        flat = np.full(layout.tokens, fill, dtype=np.int64)
        flat[places] = values
        return flat.reshape(layout.lines, layout.width)

    arrays = {"input_ids": put(rows.ids, batch.pad), "firsts": first_R}
    if layout.shared:
        # padding counts as one more row: a position that attends to nothing would make its softmax NaN
        arrays["attention_mask"] = put(np.repeat(np.arange(len(rows)), lengths), -1).astype(np.int32)
        arrays["position_ids"] = put(within, 0)
        arrays["lengths"] = lengths
        arrays["columns"] = np.arange(lengths.max())
    elif len(places) < layout.tokens:
        arrays["attention_mask"] = put(np.ones(len(places)), 0)
    for name, values in rows.tokens.items():
        if name == "labels":
            predicted = values != NOT_PREDICTED
            filling = np.zeros(-int(predicted.sum()) % ROUND, np.int64)
            arrays["positions"] = np.concatenate([places[predicted], filling])
            arrays["labels"] = np.concatenate([values[predicted], filling + NOT_PREDICTED])
        else:
            arrays[name] = put(values, NOT_PREDICTED if name == TAGS else 0)
        if name == TAGS:
            tagged, others = places[values != NOT_PREDICTED], places[values == NOT_PREDICTED]
            arrays["tagged"] = np.concatenate([tagged, np.repeat(others[:1], -len(tagged) % ROUND)])
    arrays.update(rows.rows)
    tensors = _moved(arrays, where)
    if layout.shared:
        row_LW = tensors["attention_mask"]  # compared on the device: the mask is W times as large
        mask_L1WW = row_LW[:, None, :, None] == row_LW[:, None, None, :]
        tensors["attention_mask"] = block_diagonal(mask_L1WW, first_R, lengths)
    return tensors


def _moved(arrays: dict[str, np.ndarray], where: torch.device) -> Piece:
    """Return the arrays as tensors on a device. A GPU gets those of one type in one copy: with a copy each a
    step of a small model took 3 to 9% longer.
    """
    if where.type != "cuda":
        return {name: torch.from_numpy(values).to(where, non_blocking=True) for name, values in arrays.items()}
    tensors: Piece = {}
    for kind in {values.dtype for values in arrays.values()}:
        alike = {name: values for name, values in arrays.items() if values.dtype == kind}
        flat = torch.from_numpy(np.concatenate([values.ravel() for values in alike.values()]))
        copy = flat.pin_memory().to(where, non_blocking=True)
        parts = torch.split(copy, [values.size for values in alike.values()])
        tensors |= {name: part.view(values.shape) for (name, values), part in zip(alike.items(), parts, strict=True)}
    return tensors


def order_rows(values: Sequence[Tensor], layouts: Sequence[Layout], rows: int) -> Tensor:
    """Return (B, ...), the values of the pieces' rows, (R, ...) each, in the batch's order; 0 for rows of no piece."""
    joined = torch.cat(list(values))
    order = torch.from_numpy(np.concatenate([layout.rows_R for layout in layouts])).to(joined.device)
    return joined.new_zeros(rows, *joined.shape[1:]).index_copy(0, order, joined)
