"""What fits into a budget, and how that is said."""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from acclimate.core import files
from acclimate.jobs.job import decided, write_result
from acclimate.races.budget import Budget, budget_or_usual, clocked, parse_budget, seconds_of, session_of
from acclimate.races.fit import (
    ADAPTING,
    FEWEST_STEPS,
    LEAST_BATCH,
    LITTLE,
    NO_RETRY,
    CostOfJob,
    Costs,
    affordable,
    check_listed,
    cut_to_budget,
    last_round,
    pays_for_another,
)
from acclimate.races.recipe import RaceRecipe, SearchRecipe, for_model
from acclimate.reports.table import UNTOUCHED
from acclimate.studies.pubmedbert import EXTEND
from acclimate.studies.tlm import STAGE_1

TEXT_ROWS = {"pretrain": 1000, "tapt": 1000, "dapt": 1000}
WIDE = RaceRecipe(search=SearchRecipe(rates=(1e-5, 3e-5, 5e-5)))
RIVALS = ("TAPT", "DAPT", "random weights")


def costs_alike(adapting: float, fixed: float, tuning: float, test: float, rivals: Sequence[str] = RIVALS) -> Costs:
    """Return the costs of contestants of which each takes as much as the others."""
    names = (UNTOUCHED, *rivals)
    adapted = tuple(CostOfJob(adapting / len(rivals), (name,)) for name in rivals)
    each = tuple(CostOfJob(fixed / len(names), (name,)) for name in names)
    return Costs(adapted, each, dict.fromkeys(names, tuning), dict.fromkeys(names, test))


COSTS = costs_alike(adapting=600.0, fixed=10.0, tuning=20.0, test=1.0)


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("20min", 1200, "seconds"),
        ("90 s", 90, "seconds"),
        ("1.5h", 5400, "seconds"),
        ("2d", 172800, "seconds"),
        ("5 min 20 s", 320, "seconds"),
        ("1h30min", 5400, "seconds"),
        ("3e15flop", 3e15, "flops"),
        ("3 PFLOP", 3e15, "flops"),
        ("1.5TFLOPs", 1.5e12, "flops"),
        ("5usd@2.50/h", 7200, "seconds"),
        ("$5 @ $2.5/h", 7200, "seconds"),
    ],
)
def test_budgets_as_people_write_them(text, amount, unit):
    budget = parse_budget(text)
    assert (budget.amount, budget.unit) == (pytest.approx(amount), unit)


@pytest.mark.parametrize(
    "text", ["", "20", "min", "-5min", "0min", "5usd", "5usd@0/h", "1e999h", "20 minutes?", "3XFLOP"]
)
def test_what_is_no_budget_is_refused_with_examples(text):
    with pytest.raises(ValueError, match=r"Write it as 20min, 1\.5h, 3PFLOP"):
        parse_budget(text)


def test_a_large_budget_leaves_the_recipe_as_it_is():
    fitted = cut_to_budget(WIDE, parse_budget("10h"), COSTS, text_rows=TEXT_ROWS)
    assert fitted.recipe.seeds == WIDE.seeds
    assert fitted.recipe.settings() == WIDE.settings()
    assert fitted.recipe.dapt.plan == WIDE.dapt.plan
    assert len(fitted.notes) == 1


def test_what_is_planned_never_costs_more_than_the_budget():
    for minutes in range(8, 60):
        budget = Budget(minutes * 60.0, "seconds", f"{minutes}min")
        fitted = cut_to_budget(WIDE, budget, COSTS, text_rows=TEXT_ROWS)
        share = min(1.0, ADAPTING * budget.amount / 600.0)
        recipe_fitted = fitted.recipe
        tuning = COSTS.searching(recipe_fitted.settings(), recipe_fitted.seeds)
        assert share * 600.0 + 10.0 + tuning <= budget.amount
        for adapted, before in ((recipe_fitted.dapt, WIDE.dapt), (recipe_fitted.tapt, WIDE.tapt)):
            tokens = adapted.plan.steps * adapted.plan.batch
            assert tokens <= 1.02 * share * before.plan.steps * before.plan.batch + adapted.plan.batch


def test_seeds_outlive_settings():
    tight = cut_to_budget(WIDE, parse_budget("8min"), COSTS, text_rows=TEXT_ROWS)
    assert tight.recipe.seeds == 3
    assert len(tight.recipe.settings()) < 3
    assert any("settings" in note for note in tight.notes)
    assert tight.recipe.settings()[0].recipe.plan.rate == 3e-5  # the recipe's rate stays longest


def test_a_budget_that_lowers_the_number_of_adaptations_says_so():
    several = replace(WIDE, seeds=5, adapt_seeds=5)
    tight = cut_to_budget(several, parse_budget("8min"), COSTS, text_rows=TEXT_ROWS)
    assert tight.recipe.adapt_seeds == tight.recipe.seeds == 3
    assert "3 adaptations in place of 5, to fit the budget." in tight.notes
    [seeds] = [note for note in tight.notes if note.startswith("3 seeds in place of 5, to fit the budget")]
    assert seeds.endswith("what the doctor says of detectable differences is for 5 seeds.")
    fits = cut_to_budget(replace(several, adapt_seeds=2), parse_budget("8min"), COSTS, text_rows=TEXT_ROWS)
    assert fits.recipe.adapt_seeds == 2
    assert not any("adaptations" in note for note in fits.notes)


def test_adapting_is_shortened_by_one_factor_and_in_smaller_batches():
    recipe = for_model()
    costs = costs_alike(60_000, 10, 5, 1, RIVALS[:2])
    fitted = cut_to_budget(recipe, parse_budget("20min"), costs, text_rows={"tapt": 5000, "dapt": 9000}).recipe
    share = 0.5 * 1200 / 60_000
    assert fitted.dapt.plan.steps * fitted.dapt.plan.batch == pytest.approx(share * 2500 * 256, rel=0.02)
    assert fitted.dapt.plan.steps == pytest.approx(400, rel=0.02)
    assert fitted.dapt.plan.rate == pytest.approx(1e-4 * math.sqrt(fitted.dapt.plan.batch / 256))
    # epochs are of segments, of which a text may have many: their share is exact, only the batch is guessed by texts
    assert fitted.tapt.epochs == pytest.approx(share * 100)
    assert LEAST_BATCH <= fitted.tapt.plan.batch < 256


@pytest.mark.parametrize("seconds", [200, 400, 1000])
def test_the_updates_of_smaller_batches_are_planned_with(seconds):
    """Few of DAPT's rows are seen in 400 smaller steps, and a step takes .1 seconds however small it is."""
    recipe = for_model()
    before = recipe.dapt.plan
    adapted = CostOfJob(6250.0, ("DAPT",), updates=0.1 * before.steps, steps=before.steps, batch=before.batch)
    assert (before.steps, before.batch) == (2500, 256)
    costs = replace(costs_alike(0.0, 3.0, 2.0, 1.0, ["DAPT"]), adapting=(adapted,))
    plan = cut_to_budget(recipe, Budget(seconds, "seconds", f"{seconds}s"), costs, text_rows=TEXT_ROWS).recipe.dapt.plan
    assert plan.batch < before.batch
    takes = 0.1 * plan.steps + 6000.0 * plan.steps * plan.batch / (before.steps * before.batch)
    assert 0.9 * ADAPTING * seconds < takes < 1.01 * ADAPTING * seconds  # a batch has a whole number of rows


def test_contestants_leave_before_fine_tuning_is_shortened_and_both_are_said():
    given = {"text_rows": TEXT_ROWS, "besides": ["TF-IDF"]}
    costs = costs_alike(adapting=60.0, fixed=0.0, tuning=100.0, test=1.0)
    fewer = cut_to_budget(WIDE, parse_budget("13min"), costs, **given)
    assert fewer.recipe.contestants == ("TAPT", "DAPT", "TF-IDF")
    assert (fewer.recipe.seeds, fewer.recipe.finetune) == (3, replace(WIDE.finetune, retry=False))
    assert "Left out, to fit the budget: random weights. TAPT and DAPT race." in fewer.notes
    shorter = cut_to_budget(WIDE, parse_budget("3min"), costs, **given)
    assert shorter.recipe.contestants == ("TAPT", "TF-IDF")
    length = (0.9 * 180 - 20 - 4 * 1.0) / (4 * 100.0)  # without TAPT's adapting and the tests: four fine-tunings
    assert shorter.recipe.finetune.epochs == pytest.approx(length * WIDE.finetune.epochs)
    assert shorter.recipe.finetune.least_steps == round(length * WIDE.finetune.least_steps)
    [told] = [note for note in shorter.notes if "More steps may change which is ahead" in note]
    named = re.search(r"--budget ([\dminhs ]+) has all of them", told)
    assert named is not None
    whole = cut_to_budget(WIDE, _budget(named[1].replace(" ", "")), costs, **given)
    assert whole.recipe.finetune.epochs == WIDE.finetune.epochs
    assert shorter.costs.tuning == pytest.approx(dict.fromkeys(costs.tuning, 100 * length))
    with pytest.raises(ValueError, match=r"a budget of 10s is too small.*Give a --budget of at least") as told:
        cut_to_budget(WIDE, parse_budget("10s"), costs, **given)
    words = str(told.value).split("at least ")[1].split(",")[0].replace(" ", "")
    assert cut_to_budget(WIDE, _budget(words), costs, **given).recipe.seeds == 2


def test_what_a_short_fine_tuning_takes_besides_its_steps_is_not_shortened():
    """The probe that a head begins as, loading and a look at dev: in a short race they are most of it."""
    names = (UNTOUCHED, "TAPT")
    costs = costs_alike(adapting=0.0, fixed=0.0, tuning=110.0, test=1.0, rivals=["TAPT"])
    costs = replace(costs, start=dict.fromkeys(names, 20.0), apart=dict.fromkeys(names, 10.0))
    part = costs.part([*names], 0.1)
    assert part.tuning == dict.fromkeys(names, 20.0)
    assert part.searching(WIDE.settings()[:1], 2) == 4 * 20.0 + 4 * 1.0 + 2 * 20.0
    length = (0.9 * 180 - 4 * 1.0 - 2 * 20.0 - 4 * 10.0) / (4 * 100.0)
    fitted = cut_to_budget(WIDE, parse_budget("3min"), costs, text_rows=TEXT_ROWS)
    assert fitted.recipe.finetune.epochs == pytest.approx(length * WIDE.finetune.epochs)
    assert (fitted.costs.start, fitted.costs.apart) == (costs.start, costs.apart)
    assert Costs.of_record(json.loads(json.dumps(fitted.costs.as_record()))) == fitted.costs
    earlier = {name: value for name, value in costs.as_record().items() if name not in ("start", "apart")}
    assert Costs.of_record(earlier) == replace(costs, start={}, apart={})
    # each begins with its head's start, and loads and looks; half of its steps follow
    assert costs.pace(WIDE.settings()[:1], [*names], 2 * (20.0 + 10.0 + 50.0)) == 1.0
    assert costs.pace(WIDE.settings()[:1], [*names], 4 * (20.0 + 10.0 + 50.0)) == 2.0


@pytest.mark.parametrize("seconds", range(70, 200, 5))
@pytest.mark.parametrize(("tuning", "apart"), [(24.0, 18.0), (20.0, 20.0), (8.0, 0.0)])
def test_a_shortened_fine_tuning_is_never_longer_than_stated_and_fits(seconds, tuning, apart):
    names = (UNTOUCHED, "TAPT")
    costs = costs_alike(adapting=30.0, fixed=5.0, tuning=tuning, test=3.0, rivals=["TAPT"])
    costs = replace(costs, apart=dict.fromkeys(names, apart))
    budget = Budget(float(seconds), "seconds", f"{seconds}s")
    try:
        fitted = cut_to_budget(WIDE, budget, costs, text_rows=TEXT_ROWS, rows=700)
    except ValueError:
        assert seconds < 145
        return
    assert fitted.recipe.finetune.epochs <= WIDE.finetune.epochs
    one = replace(costs, tuning={name: fitted.costs.tuning[name] for name in names})
    if not fitted.recipe.finetune.retry:
        assert one.searching(fitted.recipe.settings(), fitted.recipe.seeds) + 5.0 <= budget.usable


def test_second_attempts_are_left_out_where_the_budget_does_not_pay_for_all_of_them():
    """One takes twice as long as the first attempt, and which fine-tunings need one is not known before."""
    costs = costs_alike(adapting=0.0, fixed=0.0, tuning=10.0, test=0.0)
    whole = costs.searching(WIDE.settings(), WIDE.seeds)
    ample = cut_to_budget(WIDE, parse_budget(f"{4 * whole:.0f}s"), costs, text_rows=TEXT_ROWS)
    assert ample.recipe == WIDE
    assert NO_RETRY not in ample.notes
    tight = cut_to_budget(WIDE, parse_budget(f"{2 * whole:.0f}s"), costs, text_rows=TEXT_ROWS)
    assert tight.recipe == replace(WIDE, finetune=replace(WIDE.finetune, retry=False))
    assert NO_RETRY in tight.notes


def test_fine_tuning_is_shortened_as_long_as_steps_are_left_before_a_budget_is_refused():
    costs = costs_alike(adapting=0.0, fixed=0.0, tuning=160.0, test=0.0, rivals=["TAPT"])
    given = {"text_rows": TEXT_ROWS, "rows": 700}
    with pytest.raises(ValueError, match="too small"):
        cut_to_budget(WIDE, parse_budget("60s"), costs, text_rows=TEXT_ROWS)  # 80 s at an eighth of the steps
    fitted = cut_to_budget(WIDE, parse_budget("60s"), costs, **given)
    assert fitted.recipe.finetune.least_steps == round(WIDE.finetune.least_steps * 54 / 640) >= FEWEST_STEPS
    assert fitted.recipe.finetune.looks == 2
    assert any("fine-tuning has 8.4% of its steps and 2 looks at dev" in note for note in fitted.notes)
    assert cut_to_budget(WIDE, parse_budget("5s"), costs, text_rows=TEXT_ROWS, rows=50_000)  # 31,250 steps, cut to 61
    with pytest.raises(ValueError, match="too small") as refused:
        cut_to_budget(WIDE, parse_budget("20s"), replace(costs, busy=2.0), **given)
    assert "--rows" not in str(refused.value), "the number of steps is the same on fewer rows"
    assert "The machine is busy: when idle, 28 s would do" in str(refused.value)
    tuned = replace(WIDE, search=SearchRecipe(epochs=(3.0, 10.0)))
    with pytest.raises(ValueError, match=r"fewer epochs \(search\.epochs\), fewer training rows \(--rows\)"):
        cut_to_budget(tuned, parse_budget("60s"), costs, **given)


def test_adapting_is_cut_to_little_before_fine_tuning_is_shortened():
    costs = costs_alike(adapting=400.0, fixed=0.0, tuning=30.0, test=1.0, rivals=["DAPT"])
    fitted = cut_to_budget(WIDE, parse_budget("304s"), costs, text_rows=TEXT_ROWS)
    assert fitted.recipe.finetune == replace(WIDE.finetune, retry=False)
    assert any(f"Adapting was cut to {LITTLE * 304 / 400:.1%}" in note for note in fitted.notes)


def test_a_plan_that_keeps_the_dearest_contestant_costs_what_that_one_costs():
    """Contestants cost what they cost: DGA's adaptation is fifty times as long as that of random weights."""
    names = ("DGA", "TAPT", "random weights")
    costs = Costs(
        adapting=(CostOfJob(500.0, ("DGA",)), CostOfJob(50.0, ("TAPT",))),
        fixed=(CostOfJob(2.0), CostOfJob(4.0, ("DGA",)), CostOfJob(1.0, names)),
        tuning={UNTOUCHED: 10.0, "DGA": 40.0, "TAPT": 10.0, "random weights": 10.0},
        test={UNTOUCHED: 1.0, "DGA": 2.0, "TAPT": 1.0, "random weights": 1.0},
    )
    assert costs.part([UNTOUCHED, "DGA"]).before() == (500.0, 7.0)
    assert costs.part([UNTOUCHED, "TAPT"]).before() == (50.0, 3.0)
    setting = WIDE.settings()[:1]
    # both halfway with one seed, then with two in full, and two looks at the test set each
    assert costs.part([UNTOUCHED, "DGA"]).searching(setting, 2) == 2 * (10.0 + 40.0) + 2 * (1.0 + 2.0)
    # all four halfway; to the end go the untouched model and, at worst, the dearest
    assert costs.searching(setting, 2) == 2 * 50.0 + 0.5 * 20.0 + 2 * 3.0
    dearest = cut_to_budget(WIDE, parse_budget("170s"), costs, text_rows=TEXT_ROWS).recipe
    # of 153 seconds, 42.5 (LITTLE) go into adapting and 7 are fixed; of the 100 above with a third seed, 150, are left
    # those without nine tests: three seeds are worth more than length
    length = (153 - 42.5 - 7 - 9) / 150
    assert (dearest.contestants, dearest.finetune.epochs) == (("DGA",), pytest.approx(length * WIDE.finetune.epochs))
    assert dearest.seeds == 3
    cheap_first = replace(costs, tuning={name: costs.tuning[name] for name in (UNTOUCHED, "TAPT", "DGA")})
    cheap = cut_to_budget(WIDE, parse_budget("120s"), cheap_first, text_rows=TEXT_ROWS).recipe
    assert (cheap.contestants, cheap.finetune) == (("TAPT",), replace(WIDE.finetune, retry=False))
    # of 161.5 seconds 111.5 are left: 17 for the untouched model, 64 for DGA, 17 for TAPT
    assert affordable(parse_budget("170s"), costs, [*costs.tuning], 2, spent=50.0) == 3
    assert Costs.of_record(json.loads(json.dumps(costs.as_record()))) == costs


@pytest.mark.parametrize("adapting", [0.0, 5.0, 40.0, 300.0, 1e5])
@pytest.mark.parametrize("tuning", [0.5, 17.8, 400.0])
def test_whatever_a_refusal_proposes_is_enough(adapting, tuning):
    costs = costs_alike(adapting, 3.0, tuning, 1.0, ["TAPT"])
    with pytest.raises(ValueError, match="is too small") as told:
        cut_to_budget(WIDE, Budget(2.0, "seconds", "2s"), costs, text_rows=TEXT_ROWS)
    words = str(told.value).split("at least ")[1].split(",")[0].replace(" ", "")
    assert cut_to_budget(WIDE, _budget(words), costs, text_rows=TEXT_ROWS).recipe.seeds >= 2


def _budget(words: str) -> Budget:
    """Of `duration`'s words without spaces."""
    seconds = sum(
        float(amount) * {"h": 3600, "min": 60, "s": 1}[unit] for amount, unit in re.findall(r"([\d.]+)(h|min|s)", words)
    )
    return Budget(seconds, "seconds", words)


def test_a_budget_does_not_go_with_settings_that_are_drawn():
    check_listed(SearchRecipe())
    drawn = SearchRecipe(rates=(1e-5, 5e-5), how="tpe", trials=6)
    with pytest.raises(
        ValueError, match=r"search\.how = 'tpe' lists none: .* Leave out --budget and lower search\.trials"
    ):
        check_listed(drawn)


def test_the_last_round_takes_as_many_as_can_be_paid():
    budget, names = parse_budget("10min"), [*COSTS.tuning]
    assert affordable(budget, COSTS, names, 3, spent=600) == 2, "the untouched model and one rival in any case"
    assert affordable(budget, COSTS, names, 3, spent=400) == (570 - 400) // 53 == 3


def test_what_fine_tunings_have_taken_says_what_the_last_round_takes():
    """The first rounds take 3 x 1/4 + 2 x 1/4 of a fine-tuning of each of four contestants, or 1/2 with one setting."""
    names, one = [*COSTS.tuning], replace(WIDE, search=SearchRecipe(rates=(3e-5,)))
    assert COSTS.pace(WIDE.settings(), names, 4 * 1.25 * 20.0) == pytest.approx(1.0)
    assert COSTS.pace(WIDE.settings(), names, 300.0) == pytest.approx(3.0)
    assert COSTS.pace(one.settings(), names, 80.0) == pytest.approx(2.0)
    assert COSTS.pace(one.settings(), names, 1.0) == 1.0, "what went faster may have been luck"
    free = replace(COSTS, tuning=dict.fromkeys(names, 0.0))
    assert free.pace(WIDE.settings(), names, 9.0) == 1.0
    budget, slow = parse_budget("10min"), COSTS.slowed(2.0)
    assert affordable(budget, slow, names, 3, spent=250) == (570 - 250) // 106 == 3
    assert affordable(budget, COSTS, names, 3, spent=250) == 4
    assert last_round(slow, names, 3) == [106.0, 212.0, 318.0, 424.0]
    assert (slow.adapting, slow.fixed) == (COSTS.adapting, COSTS.fixed), "they are over by then"


def test_one_more_seed_has_to_be_paid_with_its_tests_and_those_of_the_seeds_before():
    budget, pair = parse_budget("10min"), [UNTOUCHED, "DAPT"]
    needed = 2 * 20 + 2 * 4 * 1
    assert pays_for_another(budget, COSTS, pair, 3, spent=570 - needed)
    assert not pays_for_another(budget, COSTS, pair, 3, spent=570 - needed + 1)


def test_what_was_spent_is_told_with_and_without_the_search(tmp_path):
    for name, work, seconds, flops in (
        ("dapt-1", "adapt", 20.0, 5.0),
        ("tuned-2", "fine-tune", 7.0, 3.0),
        ("looked-3", "test", 1.0, 0.0),
    ):
        (tmp_path / "jobs" / name).mkdir(parents=True)
        files.write_json(tmp_path / "jobs" / name / "job.json", {"work": work})
        files.write_record(tmp_path / "jobs" / name / "wall.json", {"seconds": seconds})
        write_result(tmp_path / "jobs" / name, {"flops": flops})
    files.write_record(tmp_path / "jobs" / "dapt-1" / "clock.json", {"seconds": 30.0})  # of two sessions
    assert (Budget(1, "seconds", "").spent(tmp_path), Budget(1, "flops", "").spent(tmp_path)) == (38.0, 8.0)
    assert Budget(1, "seconds", "").spent(tmp_path, searching=False) == 30.0


def test_the_time_between_jobs_counts_too(tmp_path, monkeypatch):
    """Loading, planning and pages are no jobs, and a user waits for them."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    budget, job = Budget(1, "seconds", ""), tmp_path / "jobs" / "tuned-1"
    with clocked(tmp_path):
        now[0] += 5.0
        assert not (tmp_path / "sessions.json").exists()
    assert not [*tmp_path.iterdir()], "a race that is refused leaves nothing"
    with clocked(tmp_path):
        job.mkdir(parents=True)
        files.write_json(job / "job.json", {"work": "fine-tune"})
        files.write_record(job / "wall.json", {"seconds": 20.0})
        now[0] += 30.0
        with clocked(tmp_path):  # as a race within a command
            assert (budget.spent(tmp_path), session_of(tmp_path)) == (30.0, 30.0)
        assert budget.spent(tmp_path, searching=False) == 0.0
    with contextlib.suppress(KeyboardInterrupt), clocked(tmp_path):
        now[0] += 7.0
        (job / "state").touch()
        raise KeyboardInterrupt
    assert (budget.spent(tmp_path), seconds_of(tmp_path), session_of(tmp_path)) == (37.0, 37.0, 0.0)
    with clocked(tmp_path):
        now[0] += 3.0  # all is done, and the run stays as it is
    assert seconds_of(tmp_path) == 37.0
    files.write_record(job / "wall.json", {"seconds": 90.0})  # by two workers at once, or in a session that was killed
    assert budget.spent(tmp_path) == 90.0


@pytest.mark.parametrize("work", [EXTEND.name, STAGE_1.name, "of a user's study"])
def test_what_a_study_spent_in_the_directory_counts_too(work, tmp_path):
    job = tmp_path / "jobs" / "job-1"
    job.mkdir(parents=True)
    files.write_json(job / "job.json", {"work": work})
    files.write_record(job / "wall.json", {"seconds": 20.0})
    assert Budget(1, "seconds", "").spent(tmp_path) == 20.0
    assert Budget(1, "seconds", "").spent(tmp_path, searching=False) == 20.0


def test_a_decision_is_made_once(tmp_path):
    assert decided(tmp_path, "a", lambda: [1]) == [1]
    assert decided(tmp_path, "a", lambda: [2]) == [1]
    assert decided(tmp_path, "b", lambda: 3) == 3
    assert files.read_record(tmp_path / "decisions.json") == {"a": [1], "b": 3}


def test_a_race_has_an_hour_unless_a_budget_or_none_is_stated() -> None:
    recipe = for_model()
    assert budget_or_usual(None, recipe) == ("1h", ("1h, the default; --budget none removes the limit",))
    for stated in ("1h", "20min", "3PFLOP"):
        assert budget_or_usual(stated, recipe) == (stated, ())
    for stated in ("none", " None "):
        assert budget_or_usual(stated, recipe) == (None, ())
    with pytest.raises(ValueError, match=r"budget 'nothing' is not understood.* or none for no limit"):
        budget_or_usual("nothing", recipe)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"folds": 5}, "cross-validation"),
        ({"search": SearchRecipe(rates=(1e-5, 1e-4), common=True)}, "search.common"),
        ({"search": SearchRecipe(rates=(1e-5, 1e-4), how="tpe", trials=4)}, "search.how = 'tpe'"),
    ],
)
def test_a_race_that_takes_no_budget_has_no_usual_one_and_says_so(change, reason) -> None:
    recipe = replace(for_model(), **change)
    assert budget_or_usual(None, recipe) == (None, (f"no limit, because {reason} takes no budget",))
    assert budget_or_usual("20min", recipe) == ("20min", ()), "what the user states is refused elsewhere"


def test_probes_alone_have_no_usual_budget() -> None:
    assert budget_or_usual(None, for_model(), probe_only=True) == (None, ())


def test_what_a_budget_cuts_or_refuses_names_the_way_to_have_none() -> None:
    cut = cut_to_budget(WIDE, Budget(900, "seconds", "15min"), COSTS, text_rows=TEXT_ROWS)
    assert cut.notes[0] == "The race had a budget of 15min."
    with pytest.raises(ValueError, match=r"too small: .*--budget none removes the limit\."):
        cut_to_budget(WIDE, Budget(2, "seconds", "2s"), COSTS, text_rows=TEXT_ROWS)


def test_one_contestant_alone_reaches_the_end() -> None:
    alone = costs_alike(adapting=0.0, fixed=1.0, tuning=20.0, test=1.0, rivals=("TAPT",)).part([UNTOUCHED])
    found = affordable(Budget(3600, "seconds", "1h"), alone, [UNTOUCHED], 3, 0.0)
    assert last_round(alone, [UNTOUCHED], 3)[:found] == last_round(alone, [UNTOUCHED], 3)
