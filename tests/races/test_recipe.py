"""What a race is told, and what of it is searched."""

from dataclasses import replace
from functools import partial

from acclimate.core import settings
from acclimate.methods import finetune, tapter
from acclimate.methods.recipes.finetune import rate_of, rates_text
from acclimate.races.recipe import RaceRecipe, for_model, heeded
from acclimate.training.plan import Plan


def rates(*stated: str) -> list[str]:
    """The settings that a race on a model tries where this is stated."""
    usual = for_model()
    return [setting.name for setting in heeded(partial(settings.override, assignments=stated), usual).settings()]


def test_a_stated_rate_is_used_as_it_is_for_an_encoder_of_any_width():
    """What a race states, and the rates that an encoder of 128 dimensions gets: BERT's rates times (768 / 128)^2."""

    def used(*stated):
        recipe = heeded(partial(settings.override, assignments=stated), for_model())
        return [round(rate_of(setting.recipe, 128), 9) for setting in recipe.settings()]

    assert used() == [1.08e-3]
    assert used("finetune.plan.rate=3e-3") == [3e-3]
    assert used("finetune.plan.rate=3e-5") == [3e-5], "the preset's, but stated"
    assert used("finetune.preset=papers", "finetune.plan.rate=3e-5") == [3e-5]
    assert used("search.rates=[1e-3,2e-3]") == [1e-3, 2e-3]
    assert used("search.rates=[1e-5,3e-5,9e-5]") == [1e-5, 3e-5, 9e-5], "the preset's, but stated"
    assert used("finetune.preset=robust", "search.rates=[1e-3]") == [1e-3]
    assert used("search.epochs=[3]") == [1.08e-3]
    assert used("finetune.plan.rate=3e-3", "finetune.rate_by_width=true") == [0.108]
    assert used("search.rates=[1e-3]", "finetune.rate_by_width=true") == [0.036]
    assert used("finetune.plan.batch=8") == [1.08e-3]


def test_the_rate_in_use_is_told_with_what_was_stated():
    robust, papers = finetune.FinetuneRecipe(), finetune.PAPERS
    assert rates_text([robust], 128) == "peak rate 0.00108, which is 3e-05 times (768 / 128)²"
    assert rates_text([robust], 768) == rates_text([papers], 128) == "peak rate 3e-05"
    faster = replace(papers, plan=replace(papers.plan, rate=1e-3))
    assert rates_text([papers, faster], 128) == "peak rates 3e-05 and 0.001"


def test_a_rate_counts_as_stated_in_a_plan_of_either_form():
    by_width = {
        made: settings.from_mapping(finetune.FinetuneRecipe, {"plan": plan}).rate_by_width
        for made, plan in {"mapping": {"rate": 1e-4}, "plan": Plan(rate=1e-4)}.items()
    }
    assert by_width == {"mapping": False, "plan": False}
    usual = replace(finetune.FinetuneRecipe().plan, batch=8)
    assert settings.from_mapping(finetune.FinetuneRecipe, {"plan": usual}).rate_by_width
    again = settings.from_mapping(
        finetune.FinetuneRecipe, {"plan": Plan(rate=1e-4)}, base=finetune.FinetuneRecipe(plan=Plan(rate=1e-4))
    )
    assert again.rate_by_width, "the base's rate"


def test_of_a_race_vectors_are_of_unit_spread_and_neither_tapt_nor_tapter_is_clipped_unless_stated():
    for usual in (RaceRecipe(), for_model()):
        assert (usual.tapter.vectors, tapter.resolved_scale(usual.tapter)) == ("", "unit")
    for recipe in (RaceRecipe(), for_model()):
        assert recipe.tapt.plan.clip == recipe.tapter.plan.clip == 0
        assert settings.override(recipe, ["tapt.plan.clip=1"]).tapt.plan.clip == 1
        assert recipe.dapt.plan.clip == 1


def test_rates_that_are_stated_are_searched_and_nothing_that_is_not_listed():
    assert rates("finetune.plan.rate=1e-3", "search.rates=[1e-4,2e-4]") == ["rate 0.0001", "rate 0.0002"]
    assert rates("finetune.epochs=3", "search.epochs=[1,2]") == ["epochs 1", "epochs 2"]
    assert [len(rates(f"finetune.preset={preset}")) for preset in ("robust", "papers")] == [1, 1]
    assert rates() == ["rate 3e-05"]
    assert rates("finetune.plan.rate=2e-5") == ["rate 2e-05"]
    assert rates("finetune.preset=papers", "search.rates=[2e-5,4e-5]") == ["rate 2e-05", "rate 4e-05"]


def test_stated_epochs_and_stated_candidates_are_meant_as_they_stand():
    """The least number of steps of robust does not change them."""
    usual = for_model()
    assert usual.finetune.least_steps == 500
    stated = settings.override(usual, ["finetune.epochs=100", "search.rates=[1e-4,2e-4]"])
    assert (stated.finetune.least_steps, stated.finetune.most_epochs) == (0, 0.0)
    both = settings.override(usual, ["finetune.epochs=3", "finetune.least_steps=90"])
    assert both.finetune.least_steps == 90
    [tried, _] = settings.override(usual, ["search.epochs=[3,5]"]).settings()
    assert (tried.recipe.epochs, tried.recipe.least_steps, tried.recipe.most_epochs) == (3.0, 0, 0.0)


def test_what_is_not_searched_stays_as_stated():
    usual = RaceRecipe()
    stated = partial(settings.override, assignments=["finetune.plan.batch=8"])
    assert heeded(stated, usual) == stated(usual)
