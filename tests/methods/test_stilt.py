"""A chain of fine-tunings: what of a stage goes on and what does not, that it can be stopped, and what is refused."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import toys
from acclimate.core import files, settings
from acclimate.methods import finetune, stilt
from acclimate.methods.finetune import Tuning
from acclimate.models.classifier import load_classifier, load_finetuned
from acclimate.training.checkpoint import read_log
from acclimate.training.plan import Plan

PAIRS = (
    ("sequence", "sequence"),  # whose heads have one shape
    ("sequence", "score"),
    ("score", "multilabel"),
    ("multilabel", "span"),
    ("span", "tokens"),
    ("tokens", "sequence"),
)
FILES = ("model.safetensors", "config.json", "tokenizer.json")


def recipe_for(encoder: Path, *tasks, steps: int = 3, **stated) -> stilt.StiltRecipe:
    plan = Plan(steps=steps, batch=8, rate=3e-3, warmup=0.1, precision="float32")
    stage = toys.papers(looks=2, epochs=0.0, plan=plan)
    return stilt.StiltRecipe(str(encoder), tuple(task.path for task in tasks), finetune=stage, **stated)


@pytest.mark.parametrize("kinds", PAIRS)
def test_the_encoder_goes_on_bit_for_bit_and_no_head_or_pooler_does(kinds, encoder, toy_task, tmp_path, monkeypatch):
    first, second = kinds
    begun = []

    class Seen(Tuning):
        def __init__(self, *given):
            super().__init__(*given)
            begun.append({name: weight.clone() for name, weight in self.model.state_dict().items()})

    monkeypatch.setattr(finetune, "Tuning", Seen)
    target = toy_task(second)
    stilt.adapt(recipe_for(encoder, toy_task(first), target), tmp_path)
    learnt = load_finetuned(tmp_path / "stage-1" / "checkpoint")
    encoders, encoder_prefix = learnt.state_dict(), f"{learnt.base_model_prefix}."
    fresh = load_classifier(encoder, target.labels, seed=0, kind=second).state_dict()  # with no intermediate task
    _, start = begun
    assert start.keys() == fresh.keys()
    moved = 0
    for name, weight in start.items():
        drawn = not name.startswith(encoder_prefix) or name.startswith(f"{encoder_prefix}pooler.")
        assert torch.equal(weight, fresh[name] if drawn else encoders[name]), name
        moved += not torch.equal(weight, fresh[name])
        if drawn and weight.shape == encoders.get(name, weight[..., :0]).shape and weight.any():
            assert not torch.equal(weight, encoders[name]), f"{name} of {first} reached {second}"
    assert moved > 10  # the encoder is not the one that everything began with


def test_a_chain_is_fine_tuning_after_fine_tuning(encoder, toy_task, tmp_path):
    tasks = [toy_task(kind) for kind in ("tokens", "multilabel", "sequence")]
    recipe = recipe_for(encoder, *tasks, intermediate=stilt.Intermediate(choose="last", steps=2))
    chained = stilt.adapt(recipe, tmp_path / "chain").path
    model = str(encoder)
    for number, task in enumerate(tasks):
        last = number == len(tasks) - 1
        plan = replace(recipe.finetune.plan, steps=3 if last else 2)
        choose = "best" if last else "last"
        stage = replace(recipe.finetune, model=model, task=task.path, plan=plan, choose=choose)
        model = str(finetune.adapt(stage, tmp_path / f"{number}").path)
    for file in FILES:
        assert (chained / file).read_bytes() == (Path(model) / file).read_bytes()
    files.check_manifest(chained)
    assert [len(read_log(tmp_path / "chain" / f"stage-{number}")) for number in (1, 2, 3)] == [2, 2, 3]
    stated = settings.from_toml(stilt.StiltRecipe, chained / "recipe.toml")
    assert stated.intermediate == recipe.intermediate
    assert str(tmp_path) not in (chained / "recipe.toml").read_text()  # places tell nothing of a run


def test_a_stopped_chain_goes_on_and_repeats_no_stage(encoder, toy_task, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCLIMATE_SAVE_SECONDS", "0")
    recipe = recipe_for(encoder, toy_task("tokens"), toy_task("sequence"), steps=4)
    whole = stilt.adapt(recipe, tmp_path / "whole").path

    def stopping(progress):
        if progress.done == 2 and progress.stage.endswith("2 of 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stilt.adapt(recipe, tmp_path / "stopped", watch=stopping)
    first = tmp_path / "stopped" / "stage-1" / "checkpoint" / "model.safetensors"
    before = first.stat().st_mtime_ns
    begun = []
    gone_on = stilt.adapt(recipe, tmp_path / "stopped", watch=lambda told: begun.append((told.stage, told.done))).path
    went_on = [told for told in begun if told[1]]  # stopped while step 2 was told, before its state was saved
    assert went_on == [("fine-tune on toy sequence, 2 of 2", step) for step in (2, 3, 4)]
    assert first.stat().st_mtime_ns == before
    for file in FILES:
        assert (gone_on / file).read_bytes() == (whole / file).read_bytes()
    assert stilt.adapt(recipe, tmp_path / "stopped").path == gone_on  # and is finished
    with pytest.raises(ValueError, match="contains a run with other settings"):
        stilt.adapt(replace(recipe, tasks=recipe.tasks[::-1]), tmp_path / "stopped")


def test_what_is_of_one_kind_of_task_is_left_out_of_tasks_of_others(encoder, toy_task, tmp_path):
    stage = toys.papers(tag_layer="crf", tag_scheme="BIOUL", epochs=3.0)
    recipe = stilt.StiltRecipe(finetune=stage, intermediate=stilt.Intermediate(rate=1e-4, warmup=0.0))
    same, other = (stilt.stage_of(recipe, toy_task(kind), last=False) for kind in ("tokens", "sequence"))
    assert (same.tag_layer, same.tag_scheme, same.plan.rate, same.plan.warmup) == ("crf", "BIOUL", 1e-4, 0.0)
    assert (other.tag_layer, other.tag_scheme, other.plan.rate, other.epochs) == ("linear", "given", 1e-4, 3.0)
    assert stilt.Intermediate().change(stage) == stage
    assert (stilt.Intermediate(steps=7).change(stage).plan.steps, stilt.Intermediate(steps=7).change(stage).epochs) == (
        7,
        0.0,
    )


def test_a_setting_for_tags_is_for_the_stages_with_tags(encoder, toy_task, tmp_path):
    recipe = recipe_for(encoder, toy_task("tokens"), toy_task("sequence"), steps=1)
    crf = replace(recipe, finetune=replace(recipe.finetune, tag_layer="crf"))
    stilt.adapt(crf, tmp_path / "crf")
    places = [tmp_path / "crf" / stage / "checkpoint" / "recipe.toml" for stage in ("stage-1", "stage-2")]
    assert [settings.from_toml(finetune.FinetuneRecipe, place).tag_layer for place in places] == ["crf", "linear"]
    with pytest.raises(ValueError, match=r"finetune\.tag_layer = 'crf' has no effect on toy sequence, toy score"):
        stilt.adapt(replace(crf, tasks=(toy_task("sequence").path, toy_task("score").path)), tmp_path / "idle")


def test_what_is_wrong_with_the_target_is_told_before_the_first_stage(encoder, toy_task, tmp_path):
    first, target = toy_task("sequence"), toy_task("tokens")
    short = shutil.copytree(encoder, tmp_path / "short")
    config = files.read_json(short / "config.json")
    files.write_json(short / "config.json", config | {"max_position_embeddings": 16})
    weights = load_file(short / "model.safetensors")
    table = next(name for name in weights if "position_embeddings" in name)
    save_file({**weights, table: weights[table][:16].clone()}, short / "model.safetensors")
    with pytest.raises(ValueError, match=r"toy sequence has examples of up to 32 tokens, but .*short reads at most 16"):
        stilt.adapt(recipe_for(short, first, target), tmp_path / "chain")
    assert not (tmp_path / "chain").exists()


def test_one_task_is_no_chain(encoder, toy_task, tmp_path):
    with pytest.raises(ValueError, match="name at least two prepared tasks, the target last"):
        stilt.adapt(recipe_for(encoder, toy_task("sequence")), tmp_path)
