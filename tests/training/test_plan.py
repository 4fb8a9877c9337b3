from __future__ import annotations

import pytest
import torch

from acclimate.training.plan import Plan, autocast_type, piece_tokens

CPU = torch.device("cpu")


def test_the_rate_is_slanted_triangular():
    plan = Plan(steps=10, rate=1.0, warmup=0.4)
    rising = [plan.rate_at(step) for step in range(4)]
    assert rising == [0.25, 0.5, 0.75, 1.0]
    falling = [plan.rate_at(step) for step in range(4, 10)]
    assert falling == pytest.approx([1.0, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])


@pytest.mark.parametrize("warmup", [0.0, 0.06, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_rate_is_never_0_while_a_step_is_to_come_nor_above_the_peak(steps, warmup):
    plan = Plan(steps=steps, rate=3e-5, warmup=warmup)
    assert all(0 < plan.rate_at(step) <= 3e-5 for step in range(steps))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0),
        ("batch", 0),
        ("rate", 0.0),
        ("warmup", 1.1),
        ("weight_decay", -0.1),
        ("beta_1", 1.0),
        ("beta_2", -0.1),
        ("epsilon", 0.0),
        ("clip", -1.0),
        ("piece_tokens", -1),
        ("rate", float("nan")),
    ],
)
def test_a_value_out_of_range_is_named(name, value):
    with pytest.raises(ValueError, match=rf"plan\.{name} = {value} is out of range"):
        Plan(**{name: value})


def test_precision_and_pieces_by_device():
    assert autocast_type("float32", CPU) is None
    assert autocast_type("bfloat16", CPU) is torch.bfloat16
    assert piece_tokens(Plan(), CPU) == 2_048
    assert piece_tokens(Plan(), torch.device("cuda", 0)) == 65_536
    assert piece_tokens(Plan(piece_tokens=7), CPU) == 7
