import itertools
import math

import pytest
import torch

from acclimate.training.plan import Plan, autocast_type, coupled_tokens, piece_tokens

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


def test_a_stable_rate_falls_as_1_less_the_root_of_what_is_done_and_a_constant_one_stays():
    plan = Plan(steps=10, rate=1.0, warmup_steps=2, schedule="stable", decay=0.4)
    assert [plan.rate_at(step) for step in range(6)] == [0.5, *5 * [1.0]]
    falling = [plan.rate_at(step) for step in range(6, 10)]
    assert falling == pytest.approx([1.0, 1 - math.sqrt(1 / 4), 1 - math.sqrt(2 / 4), 1 - math.sqrt(3 / 4)])
    plan = Plan(steps=5, rate=1.0, warmup_steps=2, schedule="constant")
    assert [plan.rate_at(step) for step in range(5)] == [0.5, *4 * [1.0]]
    assert Plan(steps=10, warmup=0.4, warmup_steps=2).rate_at(1) == Plan(steps=10, warmup=0.2).rate_at(1)


@pytest.mark.parametrize("schedule", ["linear", "stable", "constant"])
@pytest.mark.parametrize("decay", [0.01, 0.1, 0.25, 0.5, 1.0])
def test_a_longer_plan_takes_the_settled_steps_alike(schedule, decay):
    plans = [Plan(steps=n, warmup=0.0, warmup_steps=3, schedule=schedule, decay=decay) for n in range(1, 40)]
    for shorter, longer in itertools.pairwise(plans):
        assert shorter.settled <= longer.settled <= longer.steps
        assert all(shorter.rate_at(step) == longer.rate_at(step) for step in range(shorter.settled))
        assert all(0 < longer.rate_at(step) <= longer.rate * (1 + 1e-12) for step in range(longer.steps))


def test_precision_and_pieces_go_by_device_and_rows_that_are_compared_get_a_larger_piece():
    assert autocast_type("float32", CPU) is None
    assert autocast_type("bfloat16", CPU) is torch.bfloat16
    assert piece_tokens(Plan(), CPU) == 2_048
    assert piece_tokens(Plan(), torch.device("cuda", 0)) == 65_536
    assert piece_tokens(Plan(piece_tokens=7), CPU) == 7
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert coupled_tokens(Plan(), cpu) == 2 * piece_tokens(Plan(), cpu) == 4096
    for stated, where in ((Plan(piece_tokens=100), cpu), (Plan(), gpu)):
        assert coupled_tokens(stated, where) == piece_tokens(stated, where)
