"""A fine-tuning that is repeated on the rows of train and dev together, with what dev chose before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import toys
from acclimate.core import files
from acclimate.methods import finetune
from acclimate.methods.finetune import FinetuneRecipe
from acclimate.methods.tuning.looks import CHOSEN
from acclimate.models.classifier import load_finetuned
from acclimate.tasks.prepared import with_dev_rows
from acclimate.training.checkpoint import read_log
from acclimate.training.plan import Plan

EPOCHS = 2.0


def recipe_for(encoder, task, **settings) -> FinetuneRecipe:
    usual = toys.papers(str(encoder), task.path, epochs=EPOCHS, looks=4, plan=Plan(batch=8, rate=1e-3, warmup=0.1))
    return replace(usual, **settings)


@pytest.mark.parametrize("kind", ["sequence", "multilabel", "score", "tokens"])
def test_with_the_last_weights_it_is_a_fine_tuning_on_all_rows(kind, encoder, toy_task, tmp_path):
    task = toy_task(kind)
    recipe = recipe_for(encoder, task, looks=1)
    finetune.adapt(recipe, tmp_path / "tuned")
    again = finetune.retrain(recipe, tmp_path / "tuned", tmp_path / "again")
    joined = with_dev_rows(task, tmp_path / "joined")
    assert joined.sizes["train"] == task.sizes["train"] + task.sizes["dev"]
    alone = finetune.adapt(replace(recipe, task=joined.path), tmp_path / "alone")
    weights, expected = (load_finetuned(checkpoint.path).state_dict() for checkpoint in (again, alone))
    for name, value in expected.items():
        torch.testing.assert_close(weights[name], value, rtol=0, atol=1e-6)


def test_the_mean_is_over_the_same_shares_of_more_steps_and_the_threshold_stays(encoder, toy_task, tmp_path):
    task = toy_task("multilabel")
    recipe = recipe_for(encoder, task, averaged=2, threshold="dev", patience=0)
    finetune.adapt(recipe, tmp_path / "tuned")
    chosen = files.read_record(tmp_path / "tuned" / CHOSEN)
    first = min(chosen["averaged"])
    files.write_record(tmp_path / "tuned" / CHOSEN, {**chosen, "averaged": [first], "shift": [1.5] * 3})
    shifted = finetune.retrain(recipe, tmp_path / "tuned", tmp_path / "shifted")
    files.write_record(tmp_path / "tuned" / CHOSEN, {**chosen, "averaged": [first], "shift": None})
    plain = finetune.retrain(recipe, tmp_path / "tuned", tmp_path / "plain")
    more = (task.sizes["train"] + task.sizes["dev"]) / task.sizes["train"]
    assert len(read_log(tmp_path / "plain")) == pytest.approx(more * first, abs=2)
    biases = [load_finetuned(checkpoint.path).classifier.bias.detach().numpy() for checkpoint in (shifted, plain)]
    np.testing.assert_allclose(biases[1] - biases[0], 1.5, rtol=1e-5)


def test_of_a_run_by_an_earlier_release_it_is_refused(encoder, toy_task, tmp_path):
    recipe = recipe_for(encoder, toy_task("sequence"), looks=1)
    finetune.adapt(recipe, tmp_path / "tuned")
    chosen = files.read_record(tmp_path / "tuned" / CHOSEN)
    del chosen["shift"]
    files.write_record(tmp_path / "tuned" / CHOSEN, chosen)
    with pytest.raises(ValueError, match="another release"):
        finetune.retrain(recipe, tmp_path / "tuned", tmp_path / "again")
