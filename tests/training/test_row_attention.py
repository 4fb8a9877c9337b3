"""Attention of rows that lie one behind the other: torch's numbers, whatever is asked, dropped or shared by threads."""

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from acclimate.training.row_attention import LEVELS, RowsOfCpu, attention_by_row

HEADS, WIDTH = 3, 60
FIRSTS, LENGTHS = np.array([0, 9, 40, 60, 61, 78, 103]), np.array([9, 31, 16, 1, 16, 25, 8])  # of 120 tokens
ROWS = RowsOfCpu(FIRSTS, LENGTHS)
REAL = np.concatenate([np.arange(first, first + length) for first, length in zip(FIRSTS, LENGTHS, strict=True)])
SOME = torch.tensor([0, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 60, 80, 110])  # none of two rows


def tensors(size, kind=torch.float32):
    """Queries, keys and values of two lines, (L, H, W, D), as a model makes them: views of (L, W, H, D)."""
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(2, WIDTH, HEADS, size, generator=generator).to(kind) for _ in range(3)]
    return [each.transpose(1, 2).requires_grad_() for each in made]


def attend(query, key, value, *, asked=None, dropout=0.0, seed=0):
    """(N, C), and the seed of what is dropped."""
    torch.manual_seed(seed)
    scale = query.shape[-1] ** -0.5
    found = attention_by_row(query, key, value, ROWS, tokens_M=asked, dropout_p=dropout, scale=scale)
    return found.transpose(1, 2).flatten(0, 1).flatten(1)


def by_torch(query, key, value):
    row = torch.full((2 * WIDTH,), -1)
    for number, (first, length) in enumerate(zip(FIRSTS, LENGTHS, strict=True)):
        row[first : first + length] = number
    mask = row[:, None] == row
    flat = (each.float().transpose(1, 2).flatten(0, 1).transpose(0, 1)[None] for each in (query, key, value))
    return scaled_dot_product_attention(*flat, attn_mask=mask)[0].transpose(0, 1).flatten(1)


@pytest.mark.parametrize("asked", [None, SOME])
@pytest.mark.parametrize("size", [5, 8, 32])
@pytest.mark.parametrize(("kind", "within"), [(torch.float32, 1e-5), (torch.bfloat16, 0.03)])
def test_values_and_gradients_are_torchs(kind, within, size, asked):
    given, places = tensors(size, kind), torch.from_numpy(REAL) if asked is None else asked
    found, wanted = attend(*given, asked=asked), by_torch(*given)
    assert found.dtype == kind
    torch.testing.assert_close(found[places].float(), wanted[places], atol=within, rtol=within)
    others = torch.ones(2 * WIDTH, dtype=torch.bool)
    others[places] = False
    assert (found[others] == 0).all()
    gradients = [
        torch.autograd.grad((each[places].float() * torch.linspace(-1, 1, size * HEADS)).square().sum(), given)
        for each in (found, wanted)
    ]
    for ours, theirs in zip(*gradients, strict=True):
        assert theirs.abs().max() > 0.1
        torch.testing.assert_close(ours, theirs, atol=2 * within, rtol=within)


def test_bfloat16_is_rounded_to_the_nearest_number_and_inputs_may_lie_anyhow():
    given = tensors(32, torch.bfloat16)
    found, exact = attend(*given), by_torch(*given).bfloat16()
    assert float((found == exact)[REAL].float().mean()) > 0.95
    given = tensors(8)
    fused = torch.cat(given, -1).transpose(1, 2).contiguous().transpose(1, 2)
    torch.testing.assert_close(attend(*fused.split(8, -1)), attend(*given))


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_dropout_drops_the_share_and_gradients_pass_what_stays(share):
    query, key, value = tensors(32)
    ones = torch.ones_like(value)
    with torch.no_grad():
        weights = torch.stack([attend(query, key, ones, dropout=share, seed=seed)[REAL] for seed in range(400)])
    assert float(weights.mean()) == pytest.approx(float(share < 1), abs=0.01)
    # a weight is dropped with this probability, and the others make up for it
    lone = weights[:, list(REAL).index(60), 0]  # the only key of its row
    there = [0, LEVELS / (LEVELS - round(share * LEVELS))] if share < 1 else [0]
    assert sorted(set(lone.tolist())) == pytest.approx(there)
    assert float((lone == 0).float().mean()) == pytest.approx(share, abs=0.08)

    found = attend(query, key, value, dropout=share)
    direction = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    gradients = torch.autograd.grad((found * direction).sum(), (query, key, value))
    for place, gradient in enumerate(gradients):
        given = [query.detach(), key.detach(), value.detach()]
        moved = 0.01 * torch.randn(given[place].shape, generator=torch.Generator().manual_seed(2))
        ahead, behind = (
            attend(*given[:place], given[place] + sign * moved, *given[place + 1 :], dropout=share) for sign in (1, -1)
        )
        measured = ((ahead - behind) * direction).sum() / 2
        assert float((gradient * moved).sum()) == pytest.approx(float(measured), rel=0.01, abs=1e-4)


def test_each_head_and_each_row_is_dropped_by_noise_of_its_own():
    _, key, value = tensors(8)
    equal = attend(torch.zeros_like(key), key, torch.ones_like(value), dropout=0.3).unflatten(-1, (HEADS, 8))[..., 0]
    assert not torch.equal(equal[:9, 0], equal[:9, 1])
    assert not torch.equal(equal[40:56, 0], equal[61:77, 0])  # of one length, so without noise the same


def test_a_number_that_is_none_reaches_the_result_and_the_gradient_of_its_row_alone():
    query, key, value = tensors(8)
    with torch.no_grad():
        key[0, 1, 20, 3] = torch.nan  # of the second row
    found = attend(query, key, value)
    whole = torch.ones(2 * WIDTH, dtype=torch.bool)
    whole[9:40] = False
    assert found[~whole].isnan().any(1).all()
    assert found[whole].isfinite().all()
    (gradient,) = torch.autograd.grad(found[whole].sum() + found[~whole].sum(), query)
    flat = gradient.transpose(1, 2).flatten(0, 1).flatten(1)
    assert flat[~whole].isnan().any(1).all()
    assert flat[whole].isfinite().all()


@pytest.mark.parametrize("threads", [2, 16])
def test_threads_share_the_rows_and_change_nothing(threads):
    given = tensors(8)

    def run():
        found = attend(*given, asked=SOME, dropout=0.3)
        return found, *torch.autograd.grad(found.square().sum(), given)

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        alone = run()
        torch.set_num_threads(threads)
        together = run()
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, alone, together))
