"""How long fine-tuning and adapting are in a budget."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from acclimate.core.steps import finetuning_steps
from acclimate.races.planning.lengths import (
    ADAPTING,
    FEWEST_EPOCHS,
    FEWEST_STEPS,
    LEAST_BATCH,
    SLACK,
    CostOfJob,
    Lengths,
    RoundCosts,
    least_share,
    lengths_within,
    shorter_race,
)
from acclimate.races.recipe import RaceRecipe, for_model
from acclimate.reports.table import UNTOUCHED

RIVALS = ("DAPT", "TAPT", "random weights")


def costs_alike(
    adapting: float, fixed: float, tuning: float, test: float, rivals: Sequence[str] = RIVALS
) -> RoundCosts:
    """Return the costs of contestants of which each takes as much as the others."""
    names = (UNTOUCHED, *rivals)
    adapted = tuple(CostOfJob(adapting / len(rivals), (name,)) for name in rivals)
    each = tuple(CostOfJob(fixed / len(names), (name,)) for name in names)
    return RoundCosts(adapted, each, dict.fromkeys(names, tuning), dict.fromkeys(names, test))


COSTS = costs_alike(adapting=600.0, fixed=8.0, tuning=20.0, test=1.0)


def test_in_a_large_budget_everything_is_as_stated_with_an_adaptation_for_each_round():
    found = lengths_within(36_000, 36_000, COSTS, least=0.1, adaptations=5)
    assert (found.contestants, found.tuning, found.adapting, found.adaptations) == (4, 1.0, 1.0, 5)
    assert found.first == found.later == 600 + 8 + 4 * 21
    recipe = replace(for_model(), adapt_seeds=5)
    assert shorter_race(recipe, found) == recipe


def test_adaptations_are_saved_before_adapting_is_shortened_and_that_before_fine_tuning():
    twice = lengths_within(4_900, 4_900, COSTS, least=0.1, adaptations=5)
    assert (twice.adaptations, twice.adapting, twice.tuning) == (2, 1.0, 1.0)
    once = lengths_within(3_000, 3_000, COSTS, least=0.1, adaptations=5)
    assert (once.adaptations, once.adapting, once.tuning) == (1, 1.0, 1.0)
    assert once.later == 4 * 21, "later rounds adapt nothing"
    shorter = lengths_within(400, 400, COSTS, least=0.1, adaptations=5)
    assert (shorter.adaptations, shorter.tuning) == (1, 1.0)
    assert shorter.adapting == pytest.approx(ADAPTING * 400 / 600, rel=0.01)
    short = lengths_within(100, 100, COSTS, least=0.5, adaptations=5)
    assert (short.contestants, short.adapting) == (4, pytest.approx(ADAPTING * 100 / 600, rel=0.01))
    assert short.tuning == pytest.approx((100 - 8 - 4 - 25) / 80)


@pytest.mark.parametrize("seconds", range(10, 2_000, 37))
@pytest.mark.parametrize("tuning", [6.0, 20.0, 80.0])
def test_what_is_counted_fits_and_no_fine_tuning_is_starved(seconds, tuning):
    costs = costs_alike(300.0, 8.0, tuning, 3.0)
    found = lengths_within(seconds, 0.97 * seconds, costs, least=0.3, adaptations=5)
    assert 0.3 <= found.tuning <= 1.0
    if found.contestants:
        assert found.first <= 0.97 * seconds + 1e-6
        assert (
            found.adapting * costs.select([*costs.tuning][: found.contestants]).adapting_total
            <= ADAPTING * seconds + 1e-6
        )
    else:
        assert found.first > 0.97 * seconds, "what the shortest fine-tuning would take"


def test_with_slack_less_is_planned_but_the_shortest_fine_tuning_in_any_case():
    slack = lengths_within(600, 600, COSTS, least=0.3, adaptations=5, slack=1.5)
    assert slack.first <= 400
    assert slack.contestants == 4
    tight = lengths_within(18, 18, COSTS, least=0.5, adaptations=5, slack=1.5)
    assert (tight.contestants, tight.tuning) == (1, 0.5)
    assert 18 / 1.5 < tight.first <= 18
    assert lengths_within(12, 12, COSTS, least=0.5, adaptations=5, slack=1.5).contestants == 0
    several = lengths_within(80, 80, COSTS, least=0.5, adaptations=5, slack=1.5)
    assert (several.contestants, several.tuning) == (4, 0.5), "more contestants go before longer fine-tunings"


def test_adapting_is_shortened_where_fine_tuning_was_slower_than_its_forecast():
    planned = lengths_within(400, 400, COSTS, least=0.1, adaptations=5)
    assert (planned.untouched, planned.adapted) == (20.0, pytest.approx(100.0))
    assert planned.rest == pytest.approx(3 * (20 + 2)), "the others' fine-tunings and fixed jobs"
    assert planned.slower(20.0, 380.0, 400) == planned
    slow = planned.slower(60.0, 340.0, 400)
    assert slow.adapting == pytest.approx(planned.adapting * (340 / SLACK - 3 * planned.rest) / 300)
    assert (slow.tuning, slow.later) == (planned.tuning, 3 * planned.later), "all fine-tunings are as long"
    least = planned.slower(600.0, 10.0, 400)
    assert least.adapting == pytest.approx(planned.adapting / 5)
    fast = lengths_within(400, 400, COSTS, least=0.1, adaptations=5, slack=SLACK)
    done = fast.untouched + 2 + fast.tests
    assert fast.slower(fast.untouched, 400 - done, 400) == fast, "a race at its forecast keeps what was planned"
    alone = lengths_within(400, 400, COSTS.select([UNTOUCHED]), least=0.1, adaptations=5)
    assert alone.slower(600.0, 10.0, 400) == alone


def test_a_kept_length_of_fine_tuning_is_that_of_a_later_session():
    found = lengths_within(36_000, 36_000, COSTS, least=0.4, most=0.4, adaptations=1)
    assert found.tuning == 0.4


def test_a_fine_tuning_has_three_epochs_and_a_hundred_steps_at_least():
    recipe = RaceRecipe().finetune
    for rows in (100, 500, 2_000, 20_000):
        share = least_share(recipe, rows)
        shorter = shorter_race(RaceRecipe(), Lengths(tuning=share)).finetune
        steps, whole = finetuning_steps(shorter, rows), finetuning_steps(recipe, rows)
        fewest = max(math.ceil(FEWEST_EPOCHS * rows / recipe.plan.batch), FEWEST_STEPS)
        assert steps >= min(whole, fewest) - 1
        assert steps <= 1.05 * fewest + 1


def test_adapting_is_shortened_in_smaller_batches():
    recipe = for_model()
    share = 0.01
    cut = shorter_race(recipe, Lengths(adapting=share, rows={"tapt": 5000, "dapt": 9000}))
    assert cut.dapt.plan.steps * cut.dapt.plan.batch == pytest.approx(share * 2500 * 256, rel=0.02)
    assert cut.dapt.plan.steps == pytest.approx(400, rel=0.02)
    assert cut.dapt.plan.rate == pytest.approx(1e-4 * math.sqrt(cut.dapt.plan.batch / 256))
    # epochs are of segments, of which a text may have many: their share is exact, only the batch is guessed by texts
    assert cut.tapt.epochs == pytest.approx(share * 100)
    assert LEAST_BATCH <= cut.tapt.plan.batch < 256


def test_a_job_counts_if_a_contestant_that_needs_it_is_counted():
    costs = RoundCosts(
        adapting=(CostOfJob(500.0, ("DGA",)), CostOfJob(50.0, ("TAPT",))),
        fixed=(CostOfJob(2.0), CostOfJob(4.0, ("DGA",)), CostOfJob(1.0, ("DGA", "TAPT"))),
        tuning={UNTOUCHED: 10.0, "DGA": 40.0, "TAPT": 10.0},
        test=dict.fromkeys((UNTOUCHED, "DGA", "TAPT"), 2.0),
    )
    assert costs.select([UNTOUCHED, "TAPT"]).adapting_total == 50.0
    assert costs.select([UNTOUCHED, "TAPT"]).fixed_total == 3.0
    assert costs.select([UNTOUCHED]).adapting_total == 0.0
