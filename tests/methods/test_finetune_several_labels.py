"""Several labels a text: biases that start at the labels' frequencies, and a threshold that dev chooses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import expit, logit
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import toys
from acclimate.core.types import Checkpoint, unwatched
from acclimate.methods import finetune
from acclimate.methods.finetune import FinetuneRecipe, Tuning
from acclimate.methods.recipes.finetune import check_heeded, without_idle_settings
from acclimate.methods.task_loss import outputs_and_loss
from acclimate.methods.tuning.head import start_at_base_rates
from acclimate.methods.tuning.looks import predicted_dev
from acclimate.models.scale import output_layer
from acclimate.training.plan import Plan

PLAN = Plan(steps=12, batch=16, rate=3e-3, warmup=0.1)


def recipe_for(encoder, task, **settings) -> FinetuneRecipe:
    return replace(toys.papers(str(encoder), task.path, epochs=0.0, looks=3, plan=PLAN), **settings)


@pytest.mark.parametrize(
    "settings", [{"head": "fresh"}, {"head": "probe"}, {"head": "fresh", "pooling": "mean", "sequence_layer": "bilstm"}]
)
def test_biases_start_at_the_frequencies_of_the_labels(settings, encoder, toy_task, tmp_path):
    task = toy_task("multilabel")
    labels = [example.label for example in task.examples("train")]
    rates = [np.mean([name in label for label in labels]) for name in task.labels]
    tuning = Tuning(recipe_for(encoder, task, base_rates=True, **settings), task, tmp_path, unwatched)
    outputs, _ = outputs_and_loss(tuning.measured, tuning.rows, tuning.labels)
    if settings["head"] == "probe" and tuning.head_rate == 1.0:
        assert expit(outputs).mean(0) == pytest.approx(rates, abs=0.01), "a fitted head has them by its fit"
    else:
        assert output_layer(tuning.model).bias.tolist() == pytest.approx(logit(rates).tolist(), abs=1e-6)


def test_a_label_that_no_row_or_every_row_has_starts_at_a_finite_bias(encoder, toy_task, tmp_path):
    task = toy_task("multilabel")
    tuning = Tuning(recipe_for(encoder, task), task, tmp_path, unwatched)
    assert output_layer(tuning.model).bias.tolist() == [0.0, 0.0, 0.0], "unless it is asked for"
    label_RC = tuning.rows.rows["label"].copy()
    label_RC[:, 0], label_RC[:, 1] = 0, 1
    start_at_base_rates(tuning.model, replace(tuning.rows, rows={**tuning.rows.rows, "label": label_RC}))
    half = 1 / (2 * len(label_RC))
    expected = logit([half, 1 - half, label_RC[:, 2].mean()])
    assert output_layer(tuning.model).bias.tolist() == pytest.approx(expected.tolist(), abs=1e-5)


@pytest.mark.parametrize("averaged", [1, 3])
def test_with_a_threshold_of_dev_transformers_predicts_at_a_half_what_was_scored(averaged, encoder, toy_task, tmp_path):
    """After few steps no label is probable, so a half would predict next to nothing."""
    task = toy_task("multilabel")
    half = finetune.evaluate(recipe_for(encoder, task, averaged=averaged), tmp_path / "half")
    notes = []
    recipe = recipe_for(encoder, task, averaged=averaged, threshold="dev")
    finetune.adapt(recipe, tmp_path / "dev", watch=lambda told: notes.append(told.values.get("note", "")))
    score = finetune.evaluate(recipe, tmp_path / "dev")
    assert score.dev > half.dev
    assert any("each label is predicted above a probability of 0." in note for note in notes)

    dev, gold = task.examples("dev"), [example.label for example in task.examples("dev")]
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "dev" / "checkpoint").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "dev" / "checkpoint")

    def said(examples):
        with torch.no_grad():
            chosen = [
                torch.sigmoid(model(**tokenizer(example.text, truncation=True, return_tensors="pt")).logits[0]) > 0.5
                for example in examples
            ]
        return [tuple(sorted(model.config.id2label[int(code)] for code in row.nonzero())) for row in chosen]

    assert said(dev) == predicted_dev(tmp_path / "dev")
    assert task.score(gold, said(dev)) == score.dev
    assert tuple(said(task.examples("test"))) == score.predicted
    again = finetune.test(Checkpoint(tmp_path / "dev" / "checkpoint"), task, by="me", watch=unwatched)
    assert again["test"] == score.test


def test_a_threshold_means_nothing_for_numbers_and_base_rates_nothing_for_one_label(toy_task):
    task = toy_task("score")
    check_heeded(FinetuneRecipe(), [task])  # what a preset says is no statement of the user's
    with pytest.raises(ValueError, match=r"finetune.threshold = 'dev' has no effect on toy score"):
        check_heeded(toys.papers(threshold="dev"), [task])
    assert without_idle_settings(toys.papers(threshold="dev"), task).threshold == "half"
    with pytest.raises(ValueError, match=r"finetune.base_rates = True has no effect on toy sequence"):
        check_heeded(toys.papers(base_rates=True, threshold="dev"), [toy_task("sequence")])
