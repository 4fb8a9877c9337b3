"""Attention on a CPU where rows lie one behind the other and each sees itself alone.

For each head of each row, with its queries q, keys k and values v, and numbers M that are 0 where dropout drops and
1 / (1 - share) elsewhere:

    P = softmax(scale q k^T)        O = (P * M) v

and with G, the gradient of O:

    dP = (G v^T) * M    dS = P * (dP - rowsum(G * O))    dq = scale dS k    dk = scale dS^T q    dv = (P * M)^T G

PyTorch has these products for batches of matrices of one size. Rows of text would have to be sorted into groups of
about one length, padded and copied there and back, and products of matrices so small reach a quarter of a processor's
speed: attention over 35 tokens took a fifth of a step of fine-tuning in bfloat16, though it is 2% of the
multiplications. Here compiled loops read each row where it lies, a head at a time. Products go by tiles
whose sums stay in registers, in float32, and softmax runs along the keys of all queries at once, so that it needs no
sum across a register. For the backward pass P is kept, negative where it was dropped: the rest is computed again (Dao
et al., 2022, "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness", has the rowsum).

Shape suffixes: N tokens, C numbers of all heads, D numbers of a head, Q queries of a row and K keys, both rounded up to
a multiple of SIDE with what is never read from there on; R rows, M queries of all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from llvmlite import ir
from numba.core import types  # an intrinsic needs what numba itself is made of
from numba.core.cgutils import alloca_once_value, for_range
from numba.extending import intrinsic
from torch import Tensor

from acclimate.core.compiled import compiled, mix, part, run_threads
from acclimate.core.mixing import STRIDE

LEVELS = 2**16  # of the random numbers that decide what is dropped
LANES = 4  # such numbers in a word of 64 bits
SIDE = 8  # of a tile: 8 registers of 8 float32 numbers are summed at a time
LINE = 16  # numbers of 4 bytes that memory hands over together
FAST = {"reassoc", "contract", "nsz"}  # not "nnan": a number that is none has to reach the loss
_16, ROUND, LAST_BIT = np.uint32(16), np.uint32(0x7FFF), np.uint32(1)
ZERO, ONE = np.float32(0), np.float32(1)
# exp(x) = 2^(x log2 e); 2^y for y in [0, 1) by a polynomial whose relative error is below 2e-7
LOG2E, LEAST, MANTISSA = np.float32(1.44269504), np.float32(-126), np.int32(23)
_E5, _E4, _E3 = np.float32(1.8775767e-3), np.float32(8.9893397e-3), np.float32(5.5826318e-2)
_E2, _E1, _E0 = np.float32(2.4015361e-1), np.float32(6.9315308e-1), np.float32(9.9999994e-1)


@dataclass(frozen=True)
class RowsOfCpu:
    """Where rows lie in the tokens of a piece, one behind the other. firsts_R, lengths_R: (R,) int64"""

    firsts_R: np.ndarray
    lengths_R: np.ndarray


@dataclass(frozen=True)
class _Work:
    """Rows and their queries: query i of row r is token firsts_R[r] + columns_M[begins_R[r] + i]; begins_R is (R + 1,).

    kept_R  (R + 1,) where P of each row begins in what is kept
    """

    heads: int
    firsts_R: np.ndarray
    lengths_R: np.ndarray
    columns_M: np.ndarray
    begins_R: np.ndarray
    kept_R: np.ndarray


def attention_by_row(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rows: RowsOfCpu,
    *,
    tokens_M: Tensor | None,
    dropout_p: float,
    scale: float,
) -> Tensor:
    """Return what each row sees of itself, (L, H, W, D), as a view of (L, W, H, D); 0 for tokens of no row.

    query, key, value  (L, H, W, D), of one type; what is neither float32 nor bfloat16 is computed in float32
    tokens_M           (M,) int64, ascending: the tokens of the flattened (L * W) whose queries are answered, while
                       others get 0; None: all
    dropout_p          the share of weights that is dropped, rounded to a multiple of 1/65,536
    """
    lines, heads, width, size = query.shape
    work = _work(rows, None if tokens_M is None else tokens_M.numpy(), heads)
    q_NC, k_NC, v_NC = (tensor.transpose(1, 2).reshape(lines * width, heads * size) for tensor in (query, key, value))
    kind = query.dtype if query.dtype in {torch.float32, torch.bfloat16} else torch.float32
    inputs = (tensor.to(kind).contiguous() for tensor in (q_NC, k_NC, v_NC))
    found_NC: Tensor = _ByRow.apply(*inputs, work, round(dropout_p * LEVELS), scale)  # type: ignore[no-untyped-call]
    return found_NC.to(query.dtype).view(lines, width, heads, size).transpose(1, 2)


def _work(rows: RowsOfCpu, tokens_M: np.ndarray | None, heads: int) -> _Work:
    firsts_R, lengths_R = rows.firsts_R, rows.lengths_R
    counts_R, within_R = lengths_R, np.zeros_like(firsts_R)
    if tokens_M is not None:  # of row r the asked ones from within_R[r] on
        within_R = np.searchsorted(tokens_M, firsts_R)
        counts_R = np.searchsorted(tokens_M, firsts_R + lengths_R) - within_R
    begins_R = np.concatenate([[0], np.cumsum(counts_R)])
    columns_M = np.arange(begins_R[-1]) - np.repeat(begins_R[:-1] - within_R, counts_R)
    if tokens_M is not None:
        columns_M = tokens_M[columns_M] - np.repeat(firsts_R, counts_R)
    kept_R = np.concatenate([[0], np.cumsum(heads * lengths_R * (-(-counts_R // SIDE) * SIDE))])
    return _Work(heads, firsts_R, lengths_R, columns_M, begins_R, kept_R)


class _ByRow(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917
        ctx: Any, q_NC: Tensor, k_NC: Tensor, v_NC: Tensor, work: _Work, dropped: int, scale: float
    ) -> Tensor:
        found_NC = torch.zeros_like(q_NC)
        keeps = any(ctx.needs_input_grad)
        probabilities = torch.empty(int(work.kept_R[-1]) if keeps else 0)
        seed = torch.empty((), dtype=torch.int64)
        if dropped:
            seed.random_(-(2**63), None)
        stays = np.float32(LEVELS / (LEVELS - dropped)) if dropped < LEVELS else ZERO
        noise = (seed.numpy().view(np.uint64)[()], np.uint32(dropped), stays)
        arrays = [_bits(tensor) for tensor in (q_NC, k_NC, v_NC, found_NC)]
        _run_loop(_forward, work, *arrays, probabilities.numpy(), np.float32(scale), *noise)
        if keeps:
            ctx.save_for_backward(q_NC, k_NC, v_NC, found_NC, probabilities)
            ctx.work, ctx.scale, ctx.stays = work, np.float32(scale), stays
        return found_NC

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient_NC: Tensor) -> Any:
        *tensors, probabilities = ctx.saved_tensors
        gradients = [torch.zeros_like(tensor) for tensor in tensors[:3]]
        arrays = [_bits(tensor) for tensor in (*tensors, gradient_NC.contiguous(), *gradients)]
        _run_loop(_backward, ctx.work, *arrays, probabilities.numpy(), ctx.scale, ctx.stays)
        return *gradients, None, None, None


def _bits(tensor: Tensor) -> np.ndarray:
    """Return a tensor of float32 or bfloat16 as whole numbers with its bits; numpy has no bfloat16."""
    if tensor.dtype == torch.bfloat16:
        return cast(np.ndarray, tensor.detach().view(torch.int16).numpy().view(np.uint16))
    return cast(np.ndarray, tensor.detach().numpy().view(np.uint32))


def _run_loop(loop: Callable[..., Any], work: _Work, *arguments: Any) -> None:
    """Run a loop over all heads of all rows, in as many threads as torch has."""
    threads = torch.get_num_threads()
    sums = np.cumsum(np.repeat(np.diff(work.kept_R) // work.heads, work.heads))
    shares = np.arange(1, threads) / threads
    ends = np.searchsorted(sums, shares * (sums[-1] if len(sums) else 0)) + 1
    places = (work.heads, work.firsts_R, work.lengths_R, work.columns_M, work.begins_R, work.kept_R)
    run_threads(loop, [0, *ends.tolist(), len(sums)], *places, *arguments)


@intrinsic
def _tile(  # noqa: PLR0917
    typing: Any, a: Any, a_at: Any, a_i: Any, a_x: Any, b: Any, b_at: Any, b_x: Any, c: Any, c_at: Any, c_i: Any, x: Any
) -> Any:
    """c[c_at + i c_i + j] = sum over x of a[a_at + i a_i + x a_x] b[b_at + x b_x + j], for i and j below SIDE.

    numba would keep the sums in memory, so this says in LLVM's terms that they are SIDE vectors. a, b, c: flat float32
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = {
            place: context.make_array(signature.args[place])(context, builder, arguments[place]).data
            for place in (0, 4, 7)
        }
        vector = ir.VectorType(ir.FloatType(), SIDE)
        nothing, zero = ir.Constant(vector, ir.Undefined), ir.Constant(vector, [0.0] * SIDE)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), SIDE), [0] * SIDE)

        def address(place: int, start: Any, *steps: tuple[Any, Any]) -> Any:
            for number, step in steps:
                start = builder.add(start, builder.mul(number, step))
            return builder.gep(arrays[place], [start])

        numbers = [ir.Constant(arguments[3].type, row) for row in range(SIDE)]
        sums = [alloca_once_value(builder, zero) for _ in range(SIDE)]  # type: ignore[no-untyped-call]
        for accumulator in sums:
            builder.store(zero, accumulator)
        with for_range(builder, arguments[10]) as loop:
            of_b = builder.bitcast(address(4, arguments[5], (loop.index, arguments[6])), vector.as_pointer())
            row = builder.load(of_b, align=4)
            for number, accumulator in zip(numbers, sums, strict=True):
                factor = builder.load(address(0, arguments[1], (number, arguments[2]), (loop.index, arguments[3])))
                first = builder.insert_element(nothing, factor, ir.Constant(ir.IntType(32), 0))
                product = builder.fmul(builder.shuffle_vector(first, nothing, everywhere), row, flags=("contract",))
                builder.store(builder.fadd(builder.load(accumulator), product, flags=("contract",)), accumulator)
        for number, accumulator in zip(numbers, sums, strict=True):
            of_c = builder.bitcast(address(7, arguments[8], (number, arguments[9])), vector.as_pointer())
            builder.store(builder.load(accumulator), of_c, align=4)
        return context.get_dummy_value()

    flat, whole = types.Array(types.float32, 1, "C"), types.intp
    return types.void(flat, *[whole] * 3, flat, *[whole] * 2, flat, *[whole] * 3), code


_part = partial(part, fastmath=FAST)


@_part
def _product(  # noqa: PLR0917
    a: Any, a_i: Any, a_x: Any, b: Any, b_x: Any, c: Any, c_i: Any, i: Any, x: Any, j: Any
) -> None:
    """c (i, j) = a (i, x) b (x, j), each flat. a_i: how far rows of a lie apart, a_x: its columns, and so on.

    i and j are rounded up to multiples of SIDE, so a and c have room for that.
    """
    for row in range(0, i, SIDE):
        for column in range(0, j, SIDE):
            _tile(a, row * a_i, a_i, a_x, b, column, b_x, c, row * c_i + column, c_i, x)  # type: ignore[call-arg]


@_part
def _up(number: Any) -> Any:
    return (number + SIDE - 1) // SIDE * SIDE


@partial(part, fastmath=FAST, inline=True)
def _read(bits: Any, wide: Any) -> None:
    """Make float32 numbers, whose bits are `wide`, of numbers of the same type or of bfloat16."""
    if bits.itemsize == 2:
        for place in range(len(wide)):
            wide[place] = np.uint32(bits[place]) << _16
    else:
        for place in range(len(wide)):
            wide[place] = bits[place]


@partial(part, fastmath=FAST, inline=True)
def _write(wide: Any, bits: Any) -> None:
    """Undo `_read`, rounded to the nearest number, of two to the even one."""
    if bits.itemsize == 2:
        for place in range(len(wide)):
            value = wide[place]
            bits[place] = (value + ROUND + ((value >> _16) & LAST_BIT)) >> _16
    else:
        for place in range(len(wide)):
            bits[place] = wide[place]


@_part
def _read_rows(array_NC: Any, tokens: Any, begin: Any, end: Any, rows: Any) -> None:
    """rows (tokens, _up(D)), flat: the numbers `begin` to `end` of these tokens."""
    bits, wide = rows.view(np.uint32), _up(end - begin)
    for place in range(len(tokens)):
        _read(array_NC[tokens[place], begin:end], bits[place * wide : place * wide + end - begin])


@_part
def _read_turned(array_NC: Any, tokens: Any, begin: Any, end: Any, scale: Any, turned: Any, token_D: Any) -> None:  # noqa: PLR0917
    """turned (D, _up(tokens)), flat: the numbers `begin` to `end` of these tokens, scaled, and 0 behind the last."""
    bits, width = token_D.view(np.uint32), _up(len(tokens))
    for place in range(len(tokens)):
        _read(array_NC[tokens[place], begin:end], bits)
        for d in range(end - begin):
            turned[d * width + place] = token_D[d] * scale
    for place in range(len(tokens), width):
        for d in range(end - begin):
            turned[d * width + place] = ZERO


@_part
def _write_rows(rows: Any, scale: Any, array_NC: Any, tokens: Any, begin: Any, end: Any) -> None:  # noqa: PLR0917
    """Undo `_read_rows`."""
    bits, wide = rows.view(np.uint32), _up(end - begin)
    for place in range(len(tokens) * wide):
        rows[place] *= scale
    for place in range(len(tokens)):
        _write(bits[place * wide : place * wide + end - begin], array_NC[tokens[place], begin:end])


@_part
def _write_turned(turned: Any, scale: Any, array_NC: Any, tokens: Any, begin: Any, end: Any, token_D: Any) -> None:  # noqa: PLR0917
    """Undo `_read_turned`."""
    bits, width = token_D.view(np.uint32), _up(len(tokens))
    for place in range(len(tokens)):
        for d in range(end - begin):
            token_D[d] = turned[d * width + place] * scale
        _write(bits, array_NC[tokens[place], begin:end])


@_part
def _stream(array_NC: Any, tokens: Any) -> Any:
    """Read tokens in their order, so that they wait in the cache. What is read head by head comes with gaps, slowly."""
    checksum = np.uint32(0)
    for token in tokens:
        numbers_C = array_NC[token]
        for place in range(0, len(numbers_C), LINE):
            checksum ^= np.uint32(numbers_C[place])
    return checksum


@_part
def _exp(values: Any, exponents: Any) -> None:
    """Replace values of at most 0 by exp(value). exponents: whole numbers, room to work in"""
    for place in range(len(values)):
        power = values[place] * LOG2E
        power = LEAST if power < LEAST else power
        whole = np.floor(power)
        fraction = power - whole
        values[place] = ((((_E5 * fraction + _E4) * fraction + _E3) * fraction + _E2) * fraction + _E1) * fraction + _E0
        exponents[place] = np.int32(whole) << MANTISSA
    bits = values.view(np.int32)
    for place in range(len(values)):
        bits[place] += exponents[place]


@_part
def _softmax(scores: Any, keys: Any, queries: Any, highest_Q: Any, sums_Q: Any, exponents: Any) -> None:  # noqa: PLR0917
    """Replace scores (keys, queries), flat, by their softmax along the keys."""
    for query in range(queries):
        highest_Q[query] = scores[query]
        sums_Q[query] = ZERO
    for key in range(1, keys):
        of_key = scores[key * queries : (key + 1) * queries]
        for query in range(queries):
            highest_Q[query] = of_key[query] if of_key[query] > highest_Q[query] else highest_Q[query]
    for key in range(keys):
        of_key = scores[key * queries : (key + 1) * queries]
        for query in range(queries):
            of_key[query] -= highest_Q[query]
    _exp(scores[: keys * queries], exponents)
    for key in range(keys):
        of_key = scores[key * queries : (key + 1) * queries]
        for query in range(queries):
            sums_Q[query] += of_key[query]
    for query in range(queries):
        sums_Q[query] = ONE / sums_Q[query]
    for key in range(keys):
        of_key = scores[key * queries : (key + 1) * queries]
        for query in range(queries):
            of_key[query] *= sums_Q[query]


@_part
def _drop(weights: Any, words: Any, start: Any, seed: Any, dropped: Any) -> None:
    """Negate weights that are dropped. words: room for the random bits of all; start: counts them over all rows"""
    for word in range(len(words)):
        words[word] = mix(seed + (np.uint64(start) + np.uint64(word + 1)) * STRIDE)
    drawn = words.view(np.uint16)
    for place in range(len(weights)):
        weights[place] = weights[place] if np.uint32(drawn[place]) >= dropped else -weights[place]


@_part
def _mask_weights(weights: Any, stays: Any, masked: Any) -> None:
    """masked = P * M, of weights that are negative where they were dropped."""
    for place in range(len(weights)):
        weight = weights[place]
        masked[place] = ZERO if weight < ZERO else weight * stays


@_part
def _to_scores(weights: Any, stays: Any, sums_Q: Any, gradient: Any) -> None:
    """gradient (keys, queries), flat: G v^T becomes dS. sums_Q: rowsum(G * O)"""
    queries = len(sums_Q)
    for key in range(len(weights) // queries):
        of_key = gradient[key * queries : (key + 1) * queries]
        of_weights = weights[key * queries : (key + 1) * queries]
        for query in range(queries):
            weight, total = of_weights[query], sums_Q[query]
            of_key[query] = weight * total if weight < ZERO else weight * (of_key[query] * stays - total)


@partial(compiled, fastmath=FAST)
def _forward(  # noqa: PLR0917
    begin: Any,
    end: Any,
    heads: Any,
    firsts_R: Any,
    lengths_R: Any,
    columns_M: Any,
    begins_R: Any,
    kept_R: Any,
    q_NC: Any,
    k_NC: Any,
    v_NC: Any,
    found_NC: Any,
    probabilities: Any,
    scale: Any,
    seed: Any,
    dropped: Any,
    stays: Any,
) -> Any:
    """Write O of heads of rows to found_NC, and P to `probabilities`, unless that is empty.

    begin, end  counts of heads, those of the first row first

    What it returns keeps the compiler from leaving `_stream` out.
    """
    checksum = np.uint32(0)
    if begin >= end:
        return checksum
    row, last, size = begin // heads, (end - 1) // heads + 1, q_NC.shape[1] // heads
    wide, longest = _up(size), _up(lengths_R[row:last].max())
    most = _up((begins_R[row + 1 : last + 1] - begins_R[row:last]).max())
    q_DQ, found_DQ = np.zeros(wide * most, np.float32), np.empty(wide * most, np.float32)
    k_KD, v_DK = np.zeros(longest * wide, np.float32), np.zeros(wide * longest, np.float32)
    weights, exponents = np.empty(longest * most, np.float32), np.empty(longest * most, np.int32)
    words = np.empty(longest * most // LANES if dropped else 0, np.uint64)
    token_D, highest_Q, sums_Q = np.empty(size, np.float32), np.empty(most, np.float32), np.empty(most, np.float32)
    for r in range(row, last):
        of_keys = np.arange(firsts_R[r], firsts_R[r] + lengths_R[r])
        of_queries = firsts_R[r] + columns_M[begins_R[r] : begins_R[r + 1]]
        keys, queries = len(of_keys), _up(len(of_queries))
        number = keys * queries
        if not number:
            continue
        for array_NC in (q_NC, k_NC, v_NC, found_NC):
            checksum ^= _stream(array_NC, of_keys)
        for head in range(max(0, begin - r * heads), min(heads, end - r * heads)):
            from_, to = head * size, (head + 1) * size
            _read_rows(k_NC, of_keys, from_, to, k_KD)
            _read_turned(v_NC, of_keys, from_, to, ONE, v_DK, token_D)
            _read_turned(q_NC, of_queries, from_, to, scale, q_DQ, token_D)
            _product(k_KD, wide, 1, q_DQ, queries, weights, queries, keys, size, queries)
            _softmax(weights, keys, queries, highest_Q, sums_Q, exponents)
            of_head, start = weights[:number], kept_R[r] + head * number
            if dropped:
                _drop(of_head, words[: number // LANES], start, seed, dropped)
            if len(probabilities):
                of_kept = probabilities[start : start + number]
                for place in range(number):
                    of_kept[place] = of_head[place]
            if dropped:
                _mask_weights(of_head, stays, of_head)
            _product(v_DK, _up(keys), 1, weights, queries, found_DQ, queries, size, keys, queries)
            _write_turned(found_DQ, ONE, found_NC, of_queries, from_, to, token_D)
    return checksum


@partial(compiled, fastmath=FAST)
def _backward(  # noqa: PLR0917
    begin: Any,
    end: Any,
    heads: Any,
    firsts_R: Any,
    lengths_R: Any,
    columns_M: Any,
    begins_R: Any,
    kept_R: Any,
    q_NC: Any,
    k_NC: Any,
    v_NC: Any,
    found_NC: Any,
    gradient_NC: Any,
    to_q_NC: Any,
    to_k_NC: Any,
    to_v_NC: Any,
    probabilities: Any,
    scale: Any,
    stays: Any,
) -> Any:
    """Write the gradients of heads of rows, from what `_forward` found and kept; takes and returns as it does."""
    checksum = np.uint32(0)
    if begin >= end:
        return checksum
    row, last, size = begin // heads, (end - 1) // heads + 1, q_NC.shape[1] // heads
    wide, longest = _up(size), _up(lengths_R[row:last].max())
    most = _up((begins_R[row + 1 : last + 1] - begins_R[row:last]).max())
    k_DK, v_KD = np.zeros(wide * longest, np.float32), np.zeros(longest * wide, np.float32)
    q_QD, g_QD = np.zeros(most * wide, np.float32), np.zeros(most * wide, np.float32)
    found_QD = np.zeros(most * wide, np.float32)
    g_DQ, to_q_DQ = np.zeros(wide * most, np.float32), np.empty(wide * most, np.float32)
    to_KD, token_D = np.empty(longest * wide, np.float32), np.empty(size, np.float32)
    to_scores, masked = np.empty(longest * most, np.float32), np.empty(longest * most, np.float32)
    for r in range(row, last):
        of_keys = np.arange(firsts_R[r], firsts_R[r] + lengths_R[r])
        of_queries = firsts_R[r] + columns_M[begins_R[r] : begins_R[r + 1]]
        keys, queries = len(of_keys), _up(len(of_queries))
        number = keys * queries
        if not number:
            continue
        for array_NC in (q_NC, k_NC, v_NC, found_NC, gradient_NC, to_q_NC, to_k_NC, to_v_NC):
            checksum ^= _stream(array_NC, of_keys)
        sums_Q = np.zeros(queries, np.float32)
        for head in range(max(0, begin - r * heads), min(heads, end - r * heads)):
            from_, to = head * size, (head + 1) * size
            _read_rows(v_NC, of_keys, from_, to, v_KD)
            _read_turned(k_NC, of_keys, from_, to, ONE, k_DK, token_D)
            _read_rows(q_NC, of_queries, from_, to, q_QD)
            _read_rows(gradient_NC, of_queries, from_, to, g_QD)
            _read_turned(gradient_NC, of_queries, from_, to, ONE, g_DQ, token_D)
            _read_rows(found_NC, of_queries, from_, to, found_QD)
            for query in range(len(of_queries)):
                total = ZERO
                for d in range(query * wide, query * wide + size):
                    total += g_QD[d] * found_QD[d]
                sums_Q[query] = total
            weights = probabilities[kept_R[r] + head * number : kept_R[r] + (head + 1) * number]
            _product(v_KD, wide, 1, g_DQ, queries, to_scores, queries, keys, size, queries)
            _to_scores(weights, stays, sums_Q, to_scores)
            _mask_weights(weights, stays, masked)
            _product(k_DK, _up(keys), 1, to_scores, queries, to_q_DQ, queries, size, keys, queries)
            _write_turned(to_q_DQ, scale, to_q_NC, of_queries, from_, to, token_D)
            _product(to_scores, queries, 1, q_QD, wide, to_KD, wide, keys, len(of_queries), wide)
            _write_rows(to_KD, scale, to_k_NC, of_keys, from_, to)
            _product(masked, queries, 1, g_QD, wide, to_KD, wide, keys, len(of_queries), wide)
            _write_rows(to_KD, ONE, to_v_NC, of_keys, from_, to)
    return checksum
