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
a multiple of SIDE with what is never read from there on; R rows, S queries of all rows.

A first run waits for the compiler. So the loops index through `_get` and `_set`, stay apart (`_apart`), and make no
array: all that they work in is `room`, (n,) float32, of which each part begins at a place. Both compile in 3 seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
FAST = {"reassoc", "contract", "nsz"}  # not "nnan": a number that is none has to reach the loss
LINE = 16  # numbers of 4 bytes that memory hands over together
HALF, BELOW_HALF = 16, 0x7FFF  # bits that a bfloat16 lacks, and the largest number below half of its last bit
_16, _LOW = np.uint64(16), np.uint64(0xFFFF)
ZERO, ONE = np.float32(0), np.float32(1)
_0, _1 = np.int64(0), np.int64(1)  # for a plain number numba compiles a function again, as for steps of 1 in `_turn`
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
    """Rows of N tokens, and the S queries: those of asked_S, or of all tokens.

    rows_R5  (R, 5) first key, keys, first query, queries, and where P of the row begins in what is kept
    kept     how many numbers of P are kept
    """

    heads: int
    rows_R5: np.ndarray
    kept: int
    asked_S: Tensor | None


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
    work = _work(rows, tokens_M, heads)
    q_NC, k_NC, v_NC = (tensor.transpose(1, 2).reshape(lines * width, heads * size) for tensor in (query, key, value))
    kind = query.dtype if query.dtype in {torch.float32, torch.bfloat16} else torch.float32
    inputs = (tensor.to(kind).contiguous() for tensor in (q_NC, k_NC, v_NC))
    output_NC: Tensor = _ByRow.apply(*inputs, work, round(dropout_p * LEVELS), scale)  # type: ignore[no-untyped-call]
    return output_NC.to(query.dtype).view(lines, width, heads, size).transpose(1, 2)


def _work(rows: RowsOfCpu, asked_S: Tensor | None, heads: int) -> _Work:
    firsts_R, lengths_R = rows.firsts_R, rows.lengths_R
    queries_R, counts_R = firsts_R, lengths_R
    if asked_S is not None:
        queries_R = np.searchsorted(asked_S.numpy(), firsts_R)
        counts_R = np.searchsorted(asked_S.numpy(), firsts_R + lengths_R) - queries_R
    kept_R = np.concatenate([[0], np.cumsum(heads * lengths_R * _up_to_side(counts_R))])
    rows_R5 = np.stack([firsts_R, lengths_R, queries_R, counts_R, kept_R[:-1]], axis=1)
    return _Work(heads, rows_R5, int(kept_R[-1]), asked_S)


def _up_to_side(numbers: np.ndarray) -> np.ndarray:
    return -(-numbers // SIDE) * SIDE


class _ByRow(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917
        ctx: Any, q_NC: Tensor, k_NC: Tensor, v_NC: Tensor, work: _Work, dropped: int, scale: float
    ) -> Tensor:
        keeps = any(ctx.needs_input_grad)
        probabilities = torch.empty(work.kept if keeps else 0)
        seed = torch.empty((), dtype=torch.int64)
        if dropped:
            seed.random_(-(2**63), None)
        stays = np.float32(LEVELS / (LEVELS - dropped)) if dropped < LEVELS else ZERO
        noise = (seed.numpy().view(np.uint64)[()], np.uint32(dropped), stays)
        q_SC = _queries(q_NC, work)
        output_SC = torch.zeros_like(q_SC)
        _run_loop(_forward, work, (q_SC, k_NC, v_NC, output_SC, probabilities), np.float32(scale), *noise)
        output_NC = _scattered(output_SC, q_NC, work)
        if keeps:
            ctx.save_for_backward(q_SC, k_NC, v_NC, output_NC, probabilities)
            ctx.work, ctx.scale, ctx.stays = work, np.float32(scale), stays
        return output_NC

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient_NC: Tensor) -> Any:
        q_SC, k_NC, v_NC, output_NC, probabilities = ctx.saved_tensors
        output_SC, g_SC = (_queries(array_NC, ctx.work) for array_NC in (output_NC, gradient_NC))
        gradients = [torch.zeros_like(tensor) for tensor in (q_SC, k_NC, v_NC)]
        arrays = (q_SC, k_NC, v_NC, output_SC, g_SC, *gradients, probabilities)
        _run_loop(_backward, ctx.work, arrays, ctx.scale, ctx.stays)
        return _scattered(gradients[0], gradient_NC, ctx.work), *gradients[1:], None, None, None


def _queries(array_NC: Tensor, work: _Work) -> Tensor:
    """Return the queries' part of an array."""
    return array_NC.contiguous() if work.asked_S is None else array_NC.index_select(0, work.asked_S)


def _scattered(array_SC: Tensor, like_NC: Tensor, work: _Work) -> Tensor:
    """Undo `_queries`, with 0 for other tokens."""
    return array_SC if work.asked_S is None else torch.zeros_like(like_NC).index_copy_(0, work.asked_S, array_SC)


def _run_loop(loop: Callable[..., Any], work: _Work, arrays: Sequence[Tensor], *arguments: Any) -> None:
    """Run a loop over all heads of all rows, in as many threads as torch has. arrays: contiguous"""
    threads, size = torch.get_num_threads(), arrays[0].shape[1] // work.heads
    _, keys_R, _, counts_R, _ = work.rows_R5.T
    sums = np.cumsum(np.repeat(keys_R * _up_to_side(counts_R), work.heads))
    shares = np.arange(1, threads) / threads
    ends = np.searchsorted(sums, shares * (sums[-1] if len(sums) else 0)) + 1
    bits = np.empty(0, np.uint16 if arrays[0].dtype == torch.bfloat16 else np.float32)  # numpy has no bfloat16
    places = np.array([work.rows_R5.ctypes.data, *(tensor.data_ptr() for tensor in arrays)])

    def run(begin: int, end: int) -> None:
        span = slice(begin // work.heads, (end - 1) // work.heads + 1)
        longest, most = (int(numbers_R[span].max()) + SIDE for numbers_R in (keys_R, counts_R))
        room = np.zeros((longest + most + 1) * 4 * (size + SIDE) + 2 * (longest + 1) * most, np.float32)
        loop(begin, end, work.heads, size, np.append(places, room.ctypes.data), bits, room, *arguments)

    run_threads(run, [0, *ends.tolist(), len(sums)])


_intrinsic = cast(Callable[..., Callable[..., Any]], intrinsic)  # by numba's own types, each takes one argument more


@_intrinsic
def _tile(  # noqa: PLR0917
    typing: Any, a: Any, a_at: Any, a_i: Any, b: Any, b_at: Any, b_x: Any, c: Any, c_at: Any, c_i: Any, x: Any
) -> Any:
    """c[c_at + i c_i + j] = sum over x of a[a_at + i a_i + x] b[b_at + x b_x + j], for i and j below SIDE.

    numba would keep the sums in memory, so this says in LLVM's terms that they are SIDE vectors. a, b, c: flat float32
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.FloatType(), SIDE)
        nothing, zero = ir.Constant(vector, ir.Undefined), ir.Constant(vector, [0.0] * SIDE)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), SIDE), [0] * SIDE)

        def address(place: int, start: Any, *steps: tuple[Any, Any]) -> Any:
            for number, step in steps:
                start = builder.add(start, builder.mul(number, step))
            return builder.gep(arguments[place], [start])

        numbers = [ir.Constant(arguments[2].type, row) for row in range(SIDE)]
        sums = [alloca_once_value(builder, zero) for _ in range(SIDE)]  # type: ignore[no-untyped-call]
        for accumulator in sums:
            builder.store(zero, accumulator)
        with for_range(builder, arguments[9]) as loop:
            of_b = builder.bitcast(address(3, arguments[4], (loop.index, arguments[5])), vector.as_pointer())
            row = builder.load(of_b, align=4)
            for number, accumulator in zip(numbers, sums, strict=True):
                factor = builder.load(address(0, builder.add(arguments[1], loop.index), (number, arguments[2])))
                first = builder.insert_element(nothing, factor, ir.Constant(ir.IntType(32), 0))
                product = builder.fmul(builder.shuffle_vector(first, nothing, everywhere), row, flags=("contract",))
                builder.store(builder.fadd(builder.load(accumulator), product, flags=("contract",)), accumulator)
        for number, accumulator in zip(numbers, sums, strict=True):
            of_c = builder.bitcast(address(6, arguments[7], (number, arguments[8])), vector.as_pointer())
            builder.store(builder.load(accumulator), of_c, align=4)
        return context.get_dummy_value()

    flat, whole = types.CPointer(types.float32), types.intp  # type: ignore[no-untyped-call]
    return types.void(flat, *[whole] * 2, flat, *[whole] * 2, flat, *[whole] * 3), code


@_intrinsic
def _as_float(typing: Any, bits: Any) -> Any:
    """Return the float32 that has these bits."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), code


@_intrinsic
def _as_bits(typing: Any, number: Any) -> Any:
    """Return the bits of a float32."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), code


@_intrinsic
def _pointer(typing: Any, place: Any, like: Any) -> Any:
    """Return a pointer to numbers like those of an array, from their place in memory. A call passes one value for it in
    place of seven for an array.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like.dtype)(types.intp, like), code  # type: ignore[no-untyped-call]


@_intrinsic
def _get(typing: Any, array: Any, place: Any) -> Any:
    """Return array[place]; of the bits of a bfloat16, uint16, the float32. A place is not counted from the end, so the
    compiler has less to do and finds vectors.
    """
    narrow = array.dtype == types.uint16

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = builder.load(builder.gep(arguments[0], [arguments[1]]))
        if not narrow:
            return value
        wide = ir.IntType(32)
        return builder.bitcast(builder.shl(builder.zext(value, wide), wide(HALF)), ir.FloatType())

    return (types.float32 if narrow else array.dtype)(array, types.intp), code


@_intrinsic
def _set(typing: Any, array: Any, place: Any, value: Any) -> Any:
    """array[place] = value, as in `_get`: rounded to the nearest bfloat16, of two to the even one."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        stored = arguments[2]
        if array.dtype == types.uint16:
            wide = ir.IntType(32)
            bits = builder.bitcast(stored, wide)
            last = builder.and_(builder.lshr(bits, wide(HALF)), wide(1))
            rounded = builder.add(builder.add(bits, wide(BELOW_HALF)), last)
            stored = builder.trunc(builder.lshr(rounded, wide(HALF)), ir.IntType(16))
        builder.store(stored, builder.gep(arguments[0], [arguments[1]]))
        return context.get_dummy_value()

    return types.void(array, types.intp, types.float32), code


@_intrinsic
def _apart(typing: Any) -> Any:
    """Keep the function that calls this out of its callers: compiling it once for each takes seconds."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), code


_part = partial(part, fastmath=FAST)


@_part
def _product(  # noqa: PLR0917
    a: Any,
    a_at: Any,
    a_i: Any,
    b: Any,
    b_at: Any,
    b_x: Any,
    c: Any,
    c_at: Any,
    c_i: Any,
    i: Any,
    x: Any,
    j: Any,
) -> None:
    """c (i, j) = a (i, x) b (x, j), each flat, from a_at, b_at and c_at on. a_i, b_x, c_i: how far its rows lie apart

    i and j are rounded up to multiples of SIDE, so a and c have room for that. Columns lie side by side: with a step
    that the compiler does not know, attention over 128 tokens took half as long again.
    """
    _apart()
    for row in range(0, i, SIDE):
        for column in range(0, j, SIDE):
            _tile(a, a_at + row * a_i, a_i, b, b_at + column, b_x, c, c_at + row * c_i + column, c_i, x)


@_part
def _softmax(room: Any, scores: Any, keys: Any, queries: Any, highest: Any, sums: Any) -> None:  # noqa: PLR0917
    """Replace scores (keys, queries) by their softmax along the keys. highest, sums: room for Q numbers"""
    _apart()
    for query in range(queries):
        _set(room, highest + query, _get(room, scores + query))
        _set(room, sums + query, ZERO)
    for key in range(1, keys):
        at = scores + key * queries
        for query in range(queries):
            score, most = _get(room, at + query), _get(room, highest + query)
            _set(room, highest + query, score if score > most else most)
    for key in range(keys):
        at = scores + key * queries
        for query in range(queries):
            # e^x = 2^(x log2 e), of an x of at most 0
            power = (_get(room, at + query) - _get(room, highest + query)) * LOG2E
            power = LEAST if power < LEAST else power
            whole = np.floor(power)
            rest = power - whole
            value = ((((_E5 * rest + _E4) * rest + _E3) * rest + _E2) * rest + _E1) * rest + _E0
            value = _as_float(np.uint32(_as_bits(value) + np.uint32(np.int32(whole) << MANTISSA)))
            _set(room, at + query, value)
            _set(room, sums + query, _get(room, sums + query) + value)
    for query in range(queries):
        _set(room, sums + query, ONE / _get(room, sums + query))
    for key in range(keys):
        at = scores + key * queries
        for query in range(queries):
            _set(room, at + query, _get(room, at + query) * _get(room, sums + query))


@_part
def _drop(room: Any, weights: Any, number: Any, start: Any, seed: Any, dropped: Any) -> None:  # noqa: PLR0917
    """Negate weights that are dropped. start: counts the random bits over all rows"""
    _apart()
    for word in range(number // LANES):
        bits = mix(seed + (np.uint64(start) + np.uint64(word + 1)) * STRIDE)
        for lane in range(LANES):
            place = weights + word * LANES + lane
            weight = _get(room, place)
            _set(room, place, weight if np.uint32(bits & _LOW) >= dropped else -weight)
            bits >>= _16


@_part
def _mask(weights: Any, at: Any, number: Any, stays: Any, room: Any, masked: Any) -> None:  # noqa: PLR0917
    """masked = P * M, of weights that are negative where they were dropped."""
    _apart()
    for place in range(number):
        weight = _get(weights, at + place)
        _set(room, masked + place, ZERO if weight < ZERO else weight * stays)


@_part
def _to_scores(  # noqa: PLR0917
    weights: Any, at: Any, keys: Any, queries: Any, stays: Any, room: Any, sums: Any, gradient: Any
) -> None:
    """gradient (keys, queries): G v^T becomes dS. sums: rowsum(G * O)"""
    _apart()
    for key in range(keys):
        for query in range(queries):
            place = key * queries + query
            weight, total = _get(weights, at + place), _get(room, sums + query)
            value = _get(room, gradient + place) * stays - total
            _set(room, gradient + place, weight * total if weight < ZERO else weight * value)


@_part
def _turn(  # noqa: PLR0917
    a: Any,
    a_at: Any,
    a_i: Any,
    a_d: Any,
    b: Any,
    b_at: Any,
    b_i: Any,
    b_d: Any,
    count: Any,
    size: Any,
    scale: Any,
) -> None:
    """b = scale a, (count, size) numbers from b_at and a_at on. Rows lie b_i and a_i apart, columns b_d and a_d."""
    _apart()
    for place in range(count):
        for d in range(size):
            _set(b, b_at + place * b_i + d * b_d, _get(a, a_at + place * a_i + d * a_d) * scale)


@_part
def _stream(a: Any, b: Any, begin: Any, count: Any, room: Any, at: Any) -> None:  # noqa: PLR0917
    """Read numbers in their order, so that they wait in the cache. What is read head by head comes with gaps, slowly.

    at  where a sum is written, so that the compiler does not leave the loop out
    """
    _apart()
    checksum = ZERO
    for place in range(begin, begin + count, LINE):
        checksum += _get(a, place) + _get(b, place)
    _set(room, at, checksum)


@partial(compiled, fastmath=FAST)
def _forward(  # noqa: PLR0917
    begin: Any,
    end: Any,
    heads: Any,
    size: Any,
    places: Any,
    bits: Any,
    numbers: Any,
    scale: Any,
    seed: Any,
    dropped: Any,
    stays: Any,
) -> None:
    """Write O of heads of rows to `output`, and P to `probabilities`, unless that is empty.

    begin, end     counts of heads, those of the first row first
    places         where these begin in memory: `_Work.rows_R5`; q (S, C), k and v (N, C), output (S, C); P or 0; room
    bits, numbers  arrays that have the types of what the tensors and P hold
    """
    keeps, room = places[5], _pointer(places[-1], numbers)
    rows, probabilities = _pointer(places[0], places), _pointer(places[5], numbers)
    q, k, v = _pointer(places[1], bits), _pointer(places[2], bits), _pointer(places[3], bits)
    output = _pointer(places[4], bits)
    wide, width = (size + SIDE - 1) & -SIDE, heads * size
    for r in range(begin // heads, (end - 1) // heads + 1):
        first, keys = _get(rows, 5 * r), _get(rows, 5 * r + 1)
        first_query, count, kept = _get(rows, 5 * r + 2), _get(rows, 5 * r + 3), _get(rows, 5 * r + 4)
        queries, long = (count + SIDE - 1) & -SIDE, (keys + SIDE - 1) & -SIDE
        number, sums = keys * queries, long * queries
        k_KD = sums + 2 * queries
        v_DK = k_KD + wide * long
        q_DQ = v_DK + wide * long
        low, high = begin - r * heads, end - r * heads
        low, high = low if low > 0 else 0, high if high < heads else heads
        _stream(k, v, first * width, keys * width, room, sums)
        _stream(q, output, first_query * width, count * width, room, sums)
        for head in range(low, high):
            of_key, of_query = first * width + head * size, first_query * width + head * size
            _turn(k, of_key, width, 1, room, k_KD, wide, 1, keys, size, ONE)
            _turn(v, of_key, width, _1, room, v_DK, _1, long, keys, size, ONE)
            _turn(q, of_query, width, _1, room, q_DQ, _1, queries, count, size, scale)
            _product(room, k_KD, wide, room, q_DQ, queries, room, _0, queries, keys, size, queries)
            _softmax(room, _0, keys, queries, sums, sums + queries)
            start = kept + head * number
            if dropped:
                _drop(room, _0, number, start, seed, dropped)
            if keeps:
                _turn(room, _0, _0, 1, probabilities, start, _0, 1, _1, number, ONE)
            if dropped:
                _mask(room, _0, number, stays, room, _0)
            _product(room, v_DK, long, room, _0, queries, room, q_DQ, queries, size, keys, queries)
            _turn(room, q_DQ, _1, queries, output, of_query, width, _1, count, size, ONE)


@partial(compiled, fastmath=FAST)
def _backward(  # noqa: PLR0917
    begin: Any,
    end: Any,
    heads: Any,
    size: Any,
    places: Any,
    bits: Any,
    numbers: Any,
    scale: Any,
    stays: Any,
) -> None:
    """Write the gradients of heads of rows, from what `_forward` kept."""
    rows, room = _pointer(places[0], places), _pointer(places[-1], numbers)
    q, k, v = _pointer(places[1], bits), _pointer(places[2], bits), _pointer(places[3], bits)
    output = _pointer(places[4], bits)
    gradient, to_q = _pointer(places[5], bits), _pointer(places[6], bits)
    to_k, to_v = _pointer(places[7], bits), _pointer(places[8], bits)
    probabilities = _pointer(places[9], numbers)
    wide, width = (size + SIDE - 1) & -SIDE, heads * size
    for r in range(begin // heads, (end - 1) // heads + 1):
        first, keys = _get(rows, 5 * r), _get(rows, 5 * r + 1)
        first_query, count, kept = _get(rows, 5 * r + 2), _get(rows, 5 * r + 3), _get(rows, 5 * r + 4)
        queries, long = (count + SIDE - 1) & -SIDE, (keys + SIDE - 1) & -SIDE
        number, masked, sums = keys * queries, long * queries, 2 * long * queries
        k_KD = sums + queries
        v_KD = k_KD + wide * long
        q_QD = v_KD + wide * long
        g_QD, g_DQ = q_QD + wide * queries, q_QD + 2 * wide * queries
        low, high = begin - r * heads, end - r * heads
        low, high = low if low > 0 else 0, high if high < heads else heads
        _stream(k, v, first * width, keys * width, room, sums)
        _stream(to_k, to_v, first * width, keys * width, room, sums)
        _stream(q, to_q, first_query * width, count * width, room, sums)
        _stream(output, gradient, first_query * width, count * width, room, sums)
        for head in range(low, high):
            of_key, of_query = first * width + head * size, first_query * width + head * size
            _turn(v, of_key, width, 1, room, v_KD, wide, 1, keys, size, ONE)
            _turn(k, of_key, width, _1, room, k_KD, _1, long, keys, size, ONE)
            _turn(q, of_query, width, 1, room, q_QD, wide, 1, count, size, ONE)
            _turn(gradient, of_query, width, 1, room, g_QD, wide, 1, count, size, ONE)
            _turn(gradient, of_query, width, _1, room, g_DQ, _1, queries, count, size, ONE)
            for query in range(count):
                total, at = ZERO, of_query + query * width
                for d in range(at, at + size):
                    total += _get(gradient, d) * _get(output, d)
                _set(room, sums + query, total)
            start = kept + head * number
            _product(room, v_KD, wide, room, g_DQ, queries, room, _0, queries, keys, size, queries)
            _to_scores(probabilities, start, keys, queries, stays, room, sums, _0)
            _mask(probabilities, start, number, stays, room, masked)
            _product(room, k_KD, long, room, _0, queries, room, g_DQ, queries, size, keys, queries)
            _turn(room, g_DQ, _1, queries, to_q, of_query, width, _1, count, size, scale)
            _product(room, _0, queries, room, q_QD, wide, room, k_KD, wide, keys, count, wide)
            _turn(room, k_KD, wide, 1, to_k, of_key, width, 1, keys, size, scale)
            _product(room, masked, queries, room, g_QD, wide, room, v_KD, wide, keys, count, wide)
            _turn(room, v_KD, wide, 1, to_v, of_key, width, 1, keys, size, ONE)
