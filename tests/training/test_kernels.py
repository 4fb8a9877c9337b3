"""Attention and dropout as a CPU computes them: torch's numbers, up to rounding and to which numbers are dropped."""

import pytest
import torch
from torch.nn import functional

from acclimate.training.kernels import arithmetic, factors
from acclimate.training.plan import Plan

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
        found = functional.scaled_dot_product_attention(*narrow, **stated)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), wanted, atol=0.03, rtol=0.03)
    wanted.square().sum().backward()
    found.float().square().sum().backward()
    for ours, theirs in zip(narrow, exact, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=0.1, rtol=0.05)


def test_attention_in_float32_is_torchs_to_the_bit_where_nothing_is_dropped():
    wanted = functional.scaled_dot_product_attention(*inputs())
    with arithmetic(Plan(precision="float32"), CPU):
        assert torch.equal(functional.scaled_dot_product_attention(*inputs()), wanted)


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
    found = factors(torch.empty(1001, 999), share)
    assert set(found.unique().tolist()) == {0.0, found.max().item()}
    assert (found == 0).float().mean().item() == pytest.approx(share, abs=0.002)
    assert found.mean().item() == pytest.approx(1, abs=0.01)
    for places in (slice(part, None, 4) for part in range(4)):  # of each quarter of a random word
        assert (found.flatten()[places] == 0).float().mean().item() == pytest.approx(share, abs=0.003)


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
