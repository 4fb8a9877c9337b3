"""What a race is told, and what of it is searched."""

from __future__ import annotations

from acclimate.core import settings
from acclimate.study.recipe import Recipe, for_model, heeded


def rates(*stated: str) -> list[str]:
    """The settings that a race on a model tries where this is stated."""
    usual = for_model()
    return [setting.name for setting in heeded(settings.override(usual, stated), usual).settings()]


def test_a_rate_that_is_stated_is_the_rate():
    assert rates() == ["rate 1e-05", "rate 3e-05", "rate 5e-05"]
    assert rates("finetune.plan.rate=1e-3") == ["rate 0.001"]


def test_rates_that_are_stated_are_searched():
    assert rates("finetune.plan.rate=1e-3", "search.rates=[1e-4,2e-4]") == ["rate 0.0001", "rate 0.0002"]
    assert len(rates("finetune.epochs=3", "search.epochs=[1,2]")) == 3 * 2


def test_what_is_not_searched_stays_as_stated():
    usual = Recipe()
    stated = settings.override(usual, ["finetune.plan.batch=8"])
    assert heeded(stated, usual) == stated
