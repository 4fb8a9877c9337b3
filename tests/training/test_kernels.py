"""Attention and dropout as a device computes them: torch's numbers, up to rounding and to which numbers are dropped."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn import functional

import conformance
from acclimate.training import kernels
from acclimate.training.kernels import arithmetic, block_diagonal
from acclimate.training.objective import MaskedLanguageLoss
from acclimate.training.pieces import pack, pad
from acclimate.training.plan import Plan
from families import FAMILIES

CPU = torch.device("cpu")
B, H, Q, K, D = 3, 4, 7, 9, 8


def inputs() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(B, H, places, D, requires_grad=True) for places in (Q, K, K)]


def masks() -> dict[str, torch.Tensor | None]:
    seen = torch.rand(B, 1, Q, K, generator=torch.Generator().manual_seed(1)) < 0.7
    seen[..., 0] = True
    return {
        "none": None,
        "booleans": seen,
        "numbers": torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min),
    }


@pytest.mark.parametrize("mask", masks())
@pytest.mark.parametrize("scale", [None, 0.5])
def test_attention_in_bfloat16_has_the_values_and_gradients_of_torchs_in_float32(mask, scale):
    stated = {"attn_mask": masks()[mask], "scale": scale}
    exact, narrow = inputs(), inputs()
    wanted = functional.scaled_dot_product_attention(*exact, **stated)
    with arithmetic(Plan(precision="bfloat16"), CPU):
        dropped = functional.scaled_dot_product_attention(*narrow, **stated)
    assert dropped.dtype == torch.bfloat16
    torch.testing.assert_close(dropped.float(), wanted, atol=0.03, rtol=0.03)
    wanted.square().sum().backward()
    dropped.float().square().sum().backward()
    for ours, theirs in zip(narrow, exact, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=0.1, rtol=0.05)


def test_attention_in_float32_is_torchs_to_the_bit_where_nothing_is_dropped():
    wanted = functional.scaled_dot_product_attention(*inputs())
    with arithmetic(Plan(precision="float32"), CPU):
        assert torch.equal(functional.scaled_dot_product_attention(*inputs()), wanted)


def rows_on_lines() -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """Two lines of 50 tokens: the mask under which rows see themselves, where rows begin, and their lengths."""
    lengths, firsts = np.array([9, 30, 8, 24, 1, 12]), np.array([0, 9, 39, 50, 74, 75])
    row = np.full(100, -1)
    for number, (first, length) in enumerate(zip(firsts, lengths, strict=True)):
        row[first : first + length] = number
    row = torch.from_numpy(row.reshape(2, 50))
    return row[:, None, :, None] == row[:, None, None, :], firsts, lengths


@pytest.mark.parametrize("tokens", [0, 20, 1_000])  # above which a row in bfloat16 goes by products of matrices
@pytest.mark.parametrize(("precision", "within"), [("float32", 1e-5), ("bfloat16", 0.05)])
def test_rows_that_attend_one_by_one_have_the_values_and_gradients_of_torchs_attention_under_the_mask(
    precision, within, tokens, monkeypatch
):
    monkeypatch.setattr(kernels, "LONG", tokens * D)
    mask, firsts, lengths = rows_on_lines()
    real = torch.zeros(100, dtype=torch.bool)
    for first, length in zip(firsts, lengths, strict=True):
        real[first : first + length] = True
    torch.manual_seed(0)
    exact = [torch.randn(2, H, 50, D, requires_grad=True) for _ in range(3)]
    ours = [tensor.detach().clone().requires_grad_() for tensor in exact]
    wanted = functional.scaled_dot_product_attention(*exact, attn_mask=mask).transpose(1, 2).flatten(0, 1)
    with arithmetic(Plan(precision=precision), CPU):
        known = block_diagonal(mask, firsts, lengths)
        dropped = functional.scaled_dot_product_attention(*ours, attn_mask=known).transpose(1, 2).flatten(0, 1).float()
        with torch.no_grad():
            predicted = functional.scaled_dot_product_attention(*ours, attn_mask=known).transpose(1, 2).flatten(0, 1)
    torch.testing.assert_close(dropped[real], wanted[real], atol=within, rtol=within)
    torch.testing.assert_close(predicted.float(), dropped, atol=within, rtol=within)
    assert (dropped[~real] == 0).all()
    dropped[real].square().sum().backward()
    wanted[real].square().sum().backward()
    for one, other in zip(ours, exact, strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=2 * within, rtol=within)


def flash_by_loops(query, key, value, rows, *, dropout_p, scale):
    assert not dropout_p
    parts = [
        functional.scaled_dot_product_attention(
            *(tensor[first:last].transpose(0, 1).float() for tensor in (query, key, value)), scale=scale
        ).transpose(0, 1)
        for first, last in pairwise(rows.bounds.tolist())
    ]
    assert rows.longest >= max(map(len, parts))
    return torch.cat(parts)


@pytest.mark.parametrize(
    "where",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"))],
)
def test_flash_attention_is_told_where_each_row_begins(where, monkeypatch):
    if where == "cpu":  # there the kernel itself has a stand-in
        monkeypatch.setattr(kernels, "_flash", flash_by_loops)
    mask, firsts, lengths = rows_on_lines()
    real = torch.zeros(100, dtype=torch.bool, device=where)
    for first, length in zip(firsts, lengths, strict=True):
        real[first : first + length] = True
    torch.manual_seed(0)
    exact = [torch.randn(2, H, 50, D, device=where, requires_grad=True) for _ in range(3)]
    ours = [tensor.detach().clone().requires_grad_() for tensor in exact]
    known = mask.to(where)
    setattr(known, kernels.ROWS, kernels.rows_of_gpu(100, firsts, lengths, torch.device(where)))
    wanted = functional.scaled_dot_product_attention(*exact, attn_mask=mask.to(where)).transpose(1, 2).flatten(0, 1)
    dropped = kernels.attention(*ours, known).transpose(1, 2).flatten(0, 1).float()
    torch.testing.assert_close(dropped[real], wanted[real], atol=0.02, rtol=0.02)
    dropped[real].square().sum().backward()
    wanted[real].square().sum().backward()
    for one, other in zip(ours, exact, strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=0.04, rtol=0.02)


@torch.library.custom_op("acclimate_tests::rows", mutates_args=())
def rows_apart(query: torch.Tensor, bounds: torch.Tensor, longest: int) -> torch.Tensor:
    """Stands for the kernel of FlashAttention: each row gets the sum over it."""
    parts = [query[first:last] for first, last in pairwise(bounds.tolist())]
    assert longest >= max(map(len, parts))
    return torch.cat([part.sum(0, keepdim=True).expand_as(part) for part in parts])


rows_apart.register_fake(lambda query, bounds, longest: torch.empty_like(query))
rows_apart.register_autograd(lambda context, gradient: (gradient, None, None))


@pytest.mark.parametrize(
    "name", ["bert", *(pytest.param(name, marks=pytest.mark.slow) for name in ("roberta", "electra", "distilbert"))]
)
def test_compiled_code_calls_the_kernel_of_rows_whatever_their_lengths(name, monkeypatch):
    """In one graph for all steps: a graph a step would compile for minutes."""
    graphs, losses = [], set()

    def backend(graph, inputs):
        graphs.append(str(graph.graph))
        return graph.forward

    def flash(query, key, value, rows, *, dropout_p, scale):
        return query.float() + rows_apart((key + value).float(), rows.bounds, rows.longest)

    monkeypatch.setattr(kernels, "_flash", flash)
    monkeypatch.setattr(kernels, "FLASH_SIZES", range(1, 257))  # heads of toys have fewer numbers
    monkeypatch.setattr(kernels, "RowsOfCpu", lambda *rows: kernels.rows_of_gpu(layout.tokens, *rows, CPU))
    torch._dynamo.reset()
    objective = MaskedLanguageLoss(FAMILIES[name]())
    assert objective.shares_lines
    compiled = torch.compile(objective, dynamic=True, fullgraph=True, backend=backend)
    for step in range(4):
        batch = conformance.toy_rows(objective.model.config.pad_token_id, step)
        [layout] = pack(batch.lengths, 2_048, by_row=True)
        piece = pad(batch, layout, CPU)
        with kernels.Kernels(kernels._ON_GPU):
            plain, dropped = objective(piece)["mlm"], compiled(piece)["mlm"]
        torch.testing.assert_close(dropped, plain)
        losses.add(float(dropped.detach()))
    assert len(losses) == 4
    assert len(graphs) == 1
    assert "acclimate_tests.rows" in graphs[0]


def test_what_is_computed_from_a_mask_of_rows_is_a_mask_like_others():
    mask, firsts, lengths = rows_on_lines()
    torch.manual_seed(0)
    tensors = [torch.randn(2, H, 50, D) for _ in range(3)]
    hidden = torch.ones(50, dtype=torch.bool)
    hidden[3] = False
    wanted = functional.scaled_dot_product_attention(*tensors, attn_mask=mask & hidden)
    with arithmetic(Plan(precision="float32"), CPU):
        changed = block_diagonal(mask, firsts, lengths) & hidden
        torch.testing.assert_close(functional.scaled_dot_product_attention(*tensors, attn_mask=changed), wanted)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_attention_with_dropout_has_the_mean_of_attention_without(precision):
    rows = 4000
    query, key, value = (tensor[:1].expand(rows, -1, -1, -1) for tensor in inputs())
    with torch.no_grad(), arithmetic(Plan(precision=precision), CPU):
        drawn = functional.scaled_dot_product_attention(query, key, value, dropout_p=0.3).float()
    wanted = functional.scaled_dot_product_attention(*(tensor[:1] for tensor in inputs()))
    assert drawn.std(0).min() > 0.02
    torch.testing.assert_close(drawn.mean(0, keepdim=True), wanted, atol=0.05, rtol=0.0)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_dropout_drops_the_share_and_keeps_the_mean(share):
    torch.manual_seed(0)
    with arithmetic(Plan(precision="float32"), CPU):
        dropped = functional.dropout(torch.ones(1001, 999), share)
    assert set(dropped.unique().tolist()) == {0.0, dropped.max().item()}
    assert (dropped == 0).float().mean().item() == pytest.approx(share, abs=0.002)
    assert dropped.mean().item() == pytest.approx(1, abs=0.01)
    for places in (slice(part, None, 4) for part in range(4)):  # of each quarter of a random word
        assert (dropped.flatten()[places] == 0).float().mean().item() == pytest.approx(share, abs=0.003)


def test_dropout_of_modules_is_seeded_and_passes_the_gradient_of_what_stays():
    layer, x = torch.nn.Dropout(0.4), torch.ones(50, 50, requires_grad=True)
    drawn = []
    for _ in range(2):
        torch.manual_seed(3)
        with arithmetic(Plan(precision="float32"), CPU):
            drawn.append(layer(x))
    assert torch.equal(*drawn)
    drawn[0].sum().backward()
    assert torch.equal(x.grad, drawn[0])
    assert 0 < (x.grad == 0).float().mean() < 1


def test_dropout_of_all_or_nothing_and_of_evaluation_is_torchs():
    x = torch.ones(20)
    with arithmetic(Plan(precision="float32"), CPU):
        assert functional.dropout(x, 0.0).equal(x)
        assert functional.dropout(x, 1.0).equal(torch.zeros(20))
        assert functional.dropout(x, 0.5, training=False).equal(x)
