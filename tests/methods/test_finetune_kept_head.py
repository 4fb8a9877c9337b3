"""Fine-tuning that goes on from a fine-tuned checkpoint with its head, and what stands in the way of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import toys
from acclimate.core.files import read_record
from acclimate.methods import finetune
from acclimate.methods.finetune import Tuning
from acclimate.models.classifier import load_finetuned
from acclimate.models.scale import folded
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.task import Task
from acclimate.training.plan import Plan

KINDS = ("sequence", "multilabel", "score", "tokens", "span")


def recipe_for(encoder: Path, task: Prepared, **stated: object) -> finetune.FinetuneRecipe:
    plan = Plan(steps=40, batch=16, rate=3e-3, warmup=0.1, precision="float32")
    base = toys.papers(model=str(encoder), task=task.path, looks=2, epochs=0, choose="last", plan=plan)
    return replace(base, **stated)


@pytest.fixture(scope="module", params=KINDS)
def tuned(request, encoder, toy_task, tmp_path_factory):
    task = toy_task(request.param)
    return task, finetune.adapt(recipe_for(encoder, task), tmp_path_factory.mktemp("tuned")).path


def loaded(recipe: finetune.FinetuneRecipe, task: Prepared, out: Path) -> Tuning:
    return Tuning(recipe, task, out, lambda progress: None)


def test_a_kept_head_begins_with_what_the_checkpoint_predicts(tuned, tmp_path):
    task, checkpoint = tuned
    begun = loaded(recipe_for(checkpoint, task, head="kept", pooling="auto"), task, tmp_path / "kept")
    with folded(begun.model, begun.scale):
        score, _, predicted, _ = begun.look(begun.dev)
        weights = {name: weight.clone() for name, weight in begun.model.state_dict().items()}
    before = read_record(checkpoint.parent / "predicted_dev.json")
    if task.kind == "score":
        assert predicted == pytest.approx(before, rel=1e-4)
    else:
        assert [list(each) if isinstance(each, tuple) else each for each in predicted] == before
    for name, weight in load_finetuned(checkpoint).state_dict().items():
        torch.testing.assert_close(weights[name], weight, rtol=1e-5, atol=1e-5)
    assert score == pytest.approx(read_record(checkpoint.parent / "dev.json")[-1][1], abs=1e-6)


def test_a_fresh_head_takes_the_encoder_of_a_fine_tuned_checkpoint_alone(tuned, encoder, tmp_path):
    task, checkpoint = tuned
    from_tuned = loaded(recipe_for(checkpoint, task), task, tmp_path / "a").model
    from_encoder = loaded(recipe_for(encoder, task), task, tmp_path / "b").model
    trained = load_finetuned(checkpoint).state_dict()
    encoder_prefix = f"{from_tuned.base_model_prefix}."
    for name, weight in from_tuned.state_dict().items():
        drawn = not name.startswith(encoder_prefix) or name.startswith(f"{encoder_prefix}pooler.")
        other = from_encoder.state_dict()[name] if drawn else trained[name]
        assert torch.equal(weight, other), name


@pytest.mark.parametrize("tuned", ["sequence"], indirect=True)
def test_with_a_kept_head_the_seed_still_orders_rows_and_dropout(tuned, tmp_path):
    task, checkpoint = tuned
    ends = []
    for number, seed in enumerate((0, 0, 1)):
        recipe = recipe_for(checkpoint, task, head="kept")
        recipe = replace(recipe, plan=replace(recipe.plan, steps=2, seed=seed))
        ends.append((finetune.adapt(recipe, tmp_path / f"{number}").path / "model.safetensors").read_bytes())
    assert ends[0] == ends[1] != ends[2]


def test_a_checkpoint_with_another_head_is_named_beside_the_one_that_is_needed(encoder, toy_task, tmp_path):
    task = toy_task("sequence")
    checkpoint = finetune.adapt(recipe_for(encoder, task, plan=Plan(steps=1, batch=4)), tmp_path / "first").path
    labels = ", ".join(task.labels)
    with pytest.raises(ValueError, match="it has no head, but the task needs a head for kind 'sequence'"):
        finetune.adapt(recipe_for(encoder, task, head="kept"), tmp_path / "a")
    with pytest.raises(ValueError, match=rf"kind 'sequence' with outputs \({labels}\).* kind 'span' .*\(start, end\)"):
        finetune.adapt(recipe_for(checkpoint, toy_task("span"), head="kept"), tmp_path / "b")
    turned = Task("turned", "sequence", lambda path, split: [
        replace(example, label=task.labels[0] if split == "test" else example.label) for example in task.examples(split)
    ], task.labels[::-1], metric_named("macro_f1"), 32)  # fmt: skip
    with pytest.raises(ValueError, match=rf"\({labels}\), but .*labels in the same order"):
        finetune.adapt(recipe_for(checkpoint, prepare(turned, Path(), tmp_path / "data"), head="kept"), tmp_path / "c")
    with pytest.raises(ValueError, match=r"kind 'tokens'.*tag_layer 'crf'"):
        finetune.adapt(recipe_for(checkpoint, toy_task("tokens"), head="kept", tag_layer="crf"), tmp_path / "d")


def test_a_regression_that_states_no_problem_keeps_its_head(toy_task, encoder, tmp_path):
    task = toy_task("score")
    checkpoint = finetune.adapt(recipe_for(encoder, task), tmp_path / "tuned").path
    config = json.loads((checkpoint / "config.json").read_text())
    del config["problem_type"]
    (checkpoint / "config.json").write_text(json.dumps(config))
    (checkpoint / "manifest.json").unlink()  # the way out where a user changed the model
    begun = loaded(recipe_for(checkpoint, task, head="kept", pooling="auto"), task, tmp_path / "kept")
    with folded(begun.model, begun.scale):
        assert begun.look(begun.dev).predicted == pytest.approx(
            read_record(checkpoint.parent / "predicted_dev.json"), rel=1e-4
        )
