"""The methods that DGA is compared with, as contestants of a race."""

import shutil
from dataclasses import replace

import pytest
from transformers import AutoModel, MPNetConfig

from acclimate.core import settings
from acclimate.methods import METHODS
from acclimate.races.contestants import enter
from acclimate.races.planning.forecast import costs_of
from acclimate.races.race import run_race
from acclimate.races.recipe import RaceRecipe, contestants_of
from acclimate.races.report import report_of
from families import mpnet
from studies import recorded

ON_DOMAIN = {name: both for name, both in contestants_of(METHODS).items() if both[1].needs == "domain"}
NINE = tuple(name for name in ON_DOMAIN if name != "DAPT")


@pytest.fixture
def materials(toy_race):
    return replace(toy_race.materials, model=str(toy_race.base))


def test_each_is_a_job_of_its_method_with_the_races_settings(toy_race, materials):
    recipe = replace(toy_race.recipe, contestants=NINE)
    models = enter(recipe, materials).models
    kinds = {name: (job.settings["method"], job.settings["recipe"]) for name, job in models.items() if job}
    assert {name: method for name, (method, _) in kinds.items()} == {name: ON_DOMAIN[name][0].name for name in NINE}
    for name, (method, stated) in kinds.items():
        assert {"model", "corpus"}.isdisjoint(stated)
        assert stated.items() >= ON_DOMAIN[name][1].settings.items()
        assert stated["plan"]["steps"] == getattr(recipe, method).plan.steps == 6
    assert len({job.name for job in models.values() if job}) == len(NINE)


def test_they_race_and_are_scored_with_what_they_cost_and_forgot(toy_race, materials, tmp_path):
    """Some of them: that each adapts and costs what it says, tests/methods/test_conformance.py holds them all to."""
    tuning = replace(toy_race.recipe.finetune, looks=1, plan=replace(toy_race.recipe.finetune.plan, steps=4))
    several = ("DGA", "KD", "adapter")
    recipe = replace(toy_race.recipe, contestants=several, finetune=tuning)
    run_race(recipe, materials, tmp_path, command="acclimate race")
    scores = {score.contestant: score for score in recorded(tmp_path).scores}
    assert set(scores) == {"untouched", *several}
    assert scores["DGA"].adapting.tokens > scores["KD"].adapting.tokens  # importance comes first
    assert scores["DGA"].adapting.flops > 2 * scores["adapter"].adapting.flops > 0
    assert set(recorded(tmp_path).race.general_losses) == set(several)
    [adapted] = (tmp_path / "jobs").glob("adapter-*")
    [tuned] = (tmp_path / "jobs").glob("fine-tune-adapter-seed-0-*")
    for checkpoint in (adapted / "checkpoint", tuned / "checkpoint"):
        assert "adapter" in (checkpoint / "config.json").read_text()


def test_a_forecast_counts_the_passes_of_a_step(toy_race, materials, tmp_path):
    """DGA's step is three passes of the encoder, an adapter's is less than one."""
    names = ("DAPT", "DGA", "adapter")
    plan = replace(toy_race.recipe.dapt.plan, steps=6, batch=8)
    recipe = replace(toy_race.recipe, contestants=names, dapt=replace(toy_race.recipe.dapt, plan=plan))
    entries = enter(recipe, materials)
    dapt, dga, adapter = (cost.flops for cost in costs_of(entries, [entries.models[name] for name in names]))
    assert dga == pytest.approx(3 * dapt, rel=0.1)
    assert adapter == pytest.approx(2 / 3 * dapt, rel=0.1)
    assert METHODS["dga"].passes(RaceRecipe().dga) == 3


@pytest.mark.parametrize(
    ("name", "stated", "message"),
    [
        ("prompt", ["light.prompt_tokens=490"], "prompt: light.max_tokens=32, and a prompt of 490 after them"),
        ("prompt", ["dapt.max_tokens=510"], "dapt.max_tokens=510, and a prompt of 4 .* Set dapt.max_tokens=508"),
        ("TAPT", ["dapt.max_tokens=600"], "dapt.max_tokens = 600 is the length for losses on held-out text"),
        ("TAPT", ["tapt.max_tokens=600"], "TAPT: tapt.max_tokens=600, but the model reads at most 512 tokens"),
        ("AdaptedDeiT", ["distil.max_tokens=512"], "and 1 more after them.* Set distil.max_tokens=511"),
        (
            "SimCSE",
            [f"sequence_contrast.{name}=0" for name in ("dropout", "attention_dropout")],
            "Set sequence_contrast.drop",
        ),
        ("DGA", ["dga.dropout=0", "dga.attention_dropout=0"], "dga.dropout = 0 and .* Set dga.drop"),
    ],
)
def test_what_would_fail_hours_later_is_told_before_any_job(name, stated, message, toy_race, materials):
    recipe = settings.override(replace(toy_race.recipe, contestants=(name,)), stated)
    for given in (materials, toy_race.materials):  # a model that is given, and one that is pretrained
        with pytest.raises(ValueError, match=message):
            enter(recipe, given)


def test_rows_that_leave_no_room_for_a_prompt_are_told_before_any_job(toy_race, materials):
    long = replace(materials, task=replace(materials.task, max_tokens=510))
    with pytest.raises(ValueError, match=r"prompt: --max-tokens 510, and a prompt of 4 .* Set --max-tokens 508"):
        enter(replace(toy_race.recipe, contestants=("prompt",)), long)
    enter(replace(toy_race.recipe, contestants=("adapter",)), long)


def test_a_family_that_adapters_or_dropout_are_not_known_of_is_told_before_any_job(toy_race, materials, tmp_path):
    mpnet().save_pretrained(tmp_path)
    stated = replace(toy_race.recipe, dapt=replace(toy_race.recipe.dapt, max_tokens=16), contestants=("adapter",))
    other = replace(materials, model=str(tmp_path), task=replace(materials.task, max_tokens=16))
    with pytest.raises(ValueError, match="does not know where adapters belong in a 'mpnet'"):
        enter(stated, other)
    with pytest.raises(
        ValueError,
        match=r"TAPT: tapt.dropout = 0.2, but acclimate does not know the dropout settings of the family 'mpnet'",
    ):
        enter(replace(stated, contestants=("TAPT",), tapt=replace(stated.tapt, dropout=0.2)), other)


def test_what_a_contestant_does_not_read_leaves_its_job_its_name(toy_race, materials):
    def changed(*stated):
        recipe_of_nine = replace(toy_race.recipe, contestants=NINE)
        before, after = (
            enter(recipe, materials).models for recipe in (recipe_of_nine, settings.override(recipe_of_nine, stated))
        )
        return {name for name in NINE if before[name].name != after[name].name}

    assert changed("light.prompt_tokens=9") == changed("light.prompt_rate=0.9") == {"prompt"}
    assert changed("light.bottleneck=9") == {"adapter"}
    assert changed("token_contrast.window=9", "token_contrast.anchors=9", "token_contrast.negatives=9") == {"TaCO"}
    assert changed("token_contrast.weight=0.9") == {"TaCL", "TaCO"}


def test_dga_races_with_all_others_where_the_heads_are_known(toy_race):
    raw = {"domain": True, "general": False}
    unknown = MPNetConfig()
    assert RaceRecipe().names(**raw) == ("TAPT", "DAPT", "frozen", "TF-IDF + encoder", "TF-IDF")
    every = RaceRecipe(contestants=("all",))
    assert {"TAPTER", "DGA", "SimCSE", "random weights"} < {*every.names(**raw)}
    assert "TLM" not in every.names(**raw), "it retrieves from general text"
    assert "DGA" not in every.names(**raw, config=unknown)
    with pytest.raises(ValueError, match=r'"all" cannot be combined with other names\. Remove them'):
        RaceRecipe(contestants=("all", "TAPT"))
    with pytest.raises(ValueError, match="DGA supports only these families: bert,"):
        RaceRecipe(contestants=("DGA",)).names(**raw, config=unknown)


def test_of_a_model_without_a_language_modelling_head_nothing_says_what_it_forgot(toy_race, materials, tmp_path):
    """Of the encoder alone, as many checkpoints on the hub are: a head would be drawn, its loss that of chance."""
    bare = tmp_path / "bare"
    shutil.copytree(materials.model, bare, ignore=shutil.ignore_patterns("manifest.json"))
    AutoModel.from_pretrained(materials.model).save_pretrained(bare)
    given = replace(materials, model=str(bare))
    tuning = replace(toy_race.recipe.finetune, looks=1, plan=replace(toy_race.recipe.finetune.plan, steps=2))
    recipe = replace(toy_race.recipe, contestants=("TAPT",), finetune=tuning)
    run_race(recipe, given, tmp_path / "run", command="acclimate race")
    report = report_of(recorded(tmp_path / "run"))
    assert not report.facts.general_losses
    assert any("no language modelling head" in note for note in report.outcome.notes)
