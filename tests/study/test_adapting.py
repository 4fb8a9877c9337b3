"""The methods that DGA is compared with, as contestants of a race."""

from __future__ import annotations

from dataclasses import replace

import pytest

from acclimate.methods import METHODS
from acclimate.study.contestants import DOMAIN
from acclimate.study.cost import estimate_of
from acclimate.study.entries import enter
from acclimate.study.outcome import read_scores, study_of
from acclimate.study.race import run_race
from acclimate.study.recipe import Recipe

NINE = tuple(name for name in DOMAIN if name != "DAPT")


@pytest.fixture
def materials(toy_race):
    [base] = (toy_race.run / "jobs").glob("pretrain-*")
    return replace(toy_race.materials, model=str(base / "checkpoint"))


def test_each_is_a_job_of_its_method_with_the_races_settings(toy_race, materials):
    recipe = replace(toy_race.recipe, contestants=NINE)
    models = enter(recipe, materials).models
    kinds = {name: (job.settings["method"], job.settings["recipe"]) for name, job in models.items() if job}
    assert {name: method for name, (method, _) in kinds.items()} == {name: DOMAIN[name][0] for name in NINE}
    for name, (method, stated) in kinds.items():
        assert {"model", "corpus"}.isdisjoint(stated)
        assert {key: stated[key] for key in DOMAIN[name][1]} == DOMAIN[name][1]
        assert stated["plan"]["steps"] == getattr(recipe, method).plan.steps == 6
    assert len({job.name for job in models.values() if job}) == len(NINE)


def test_dapt_and_tapt_have_the_names_that_they_had(toy_race, materials):
    models = enter(replace(toy_race.recipe, contestants=("TAPT", "DAPT")), materials).models
    assert all("method" not in models[name].settings for name in ("TAPT", "DAPT"))


def test_all_race_and_are_scored_with_what_they_cost_and_forgot(toy_race, materials, tmp_path):
    tuning = replace(toy_race.recipe.finetune, looks=1, plan=replace(toy_race.recipe.finetune.plan, steps=4))
    recipe = replace(toy_race.recipe, contestants=NINE, finetune=tuning)
    run_race(recipe, materials, tmp_path, command="acclimate race")
    scores = {score.contestant: score for score in read_scores(tmp_path)}
    assert set(scores) == {"untouched", *NINE}
    assert len({scores[name].adapting.tokens for name in ("DGA", "KD", "SimCSE", "InfoWord", "TaCL")}) == 1
    assert scores["DGA"].adapting.flops > 2 * scores["adapter"].adapting.flops > 0
    assert set(study_of(tmp_path).general_losses) == set(NINE)
    [adapted] = (tmp_path / "jobs").glob("adapter-*")
    [tuned] = (tmp_path / "jobs").glob("fine-tune-adapter-seed-0-*")
    for checkpoint in (adapted / "checkpoint", tuned / "checkpoint"):
        assert "adapter" in (checkpoint / "config.json").read_text()


def test_estimates_count_the_passes_of_a_step(toy_race, materials, tmp_path):
    """DGA's step is three passes of the encoder, an adapter's less than one."""
    names = ("DAPT", "DGA", "adapter")
    plan = replace(toy_race.recipe.dapt.plan, steps=6, batch=8)
    recipe = replace(toy_race.recipe, contestants=names, dapt=replace(toy_race.recipe.dapt, plan=plan))
    found = estimate_of(enter(recipe, materials), tmp_path)
    flops = {stage.label: stage.flops for stage in found.stages if stage.label in names}
    assert flops["DGA"] == pytest.approx(3 * flops["DAPT"], rel=0.1)
    assert flops["adapter"] == pytest.approx(2 / 3 * flops["DAPT"], rel=0.1)
    assert METHODS["dga"].passes(Recipe().dga) == 3


def test_domain_methods_need_text_of_the_domain(toy_race):
    materials = replace(toy_race.materials, domain=None, heldout=None)
    with pytest.raises(ValueError, match="KD needs raw text of the domain: give --corpus, or leave KD out"):
        enter(replace(toy_race.recipe, contestants=("TAPT", "KD")), materials)
    assert "DGA" not in enter(replace(toy_race.recipe, contestants=None), materials).models


def test_dga_races_by_default_where_the_heads_are_known(toy_race):
    raw = {"domain": True, "general": False}
    assert "DGA" in Recipe().names(**raw)
    assert "DGA" not in Recipe().names(**raw, heads=False)
    with pytest.raises(ValueError, match="DGA knows the heads of bert, "):
        Recipe(contestants=("DGA",)).names(**raw, heads=False)
