"""Rare classes and several labels a text: thresholds that dev chooses, and where biases start."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import expit, logit
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import toys
from acclimate.core import files
from acclimate.core.types import Checkpoint, Example, unwatched
from acclimate.methods import baselines, finetune, probe
from acclimate.methods.finetune import FinetuneRecipe, Tuning
from acclimate.methods.recipes.finetune import check_heeded, without_idle_settings
from acclimate.methods.task_loss import outputs_and_loss
from acclimate.methods.tuning.head import start_at_base_rates
from acclimate.methods.tuning.looks import dev_score, predicted_dev
from acclimate.models.loading import load_tokenizer
from acclimate.models.scale import output_layer
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.rows import encoded
from acclimate.tasks.task import Task
from acclimate.training.plan import Plan

LABELS = ("heart", "other")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """One text in eight has three words of the heart, and others have up to two: none is sure."""

    def read(path: Path, split: str) -> list[Example]:
        generator = random.Random(split)
        found = []
        for row in range(160):
            about = row % 8 == 0
            words = generator.choices(toys.PLAIN, k=8)
            words += generator.choices(toys.TOPICS["heart"], k=3 if about else generator.randint(0, 2))
            found.append(Example(f"{split} {row}", f"{split} {' '.join(words)}", LABELS[not about]))
        return found

    place = tmp_path_factory.mktemp("rare")
    return prepare(Task("rare", "sequence", read, LABELS, metric_named("macro_f1"), 40), place, place / "data")


def test_plain_transformers_predicts_what_was_scored(task, encoder, tmp_path):
    plan = Plan(steps=60, batch=16, rate=3e-3, warmup=0.1)
    stated = {"epochs": 0.0, "looks": 2, "head": "probe", "plan": plan}
    recipe: FinetuneRecipe = toys.papers(str(encoder), task.path, **stated)
    half = finetune.evaluate(recipe, tmp_path / "half")
    notes: list[str] = []
    chosen = replace(recipe, threshold="dev")
    finetune.adapt(chosen, tmp_path / "dev", watch=lambda told: notes.append(str(told.values.get("note", ""))))
    score = finetune.evaluate(chosen, tmp_path / "dev")
    assert score.dev > half.dev
    assert any("rare classes are predicted at" in note for note in notes)
    checkpoint = tmp_path / "dev" / "checkpoint"
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint).eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)

    def said(examples: list[Example]) -> list[str]:
        with torch.no_grad():
            rows = [model(**tokenizer(each.text, return_tensors="pt")).logits[0] for each in examples]
        return [model.config.id2label[int(row.argmax())] for row in rows]

    assert said(task.examples("dev")) == predicted_dev(tmp_path / "dev")
    assert tuple(said(task.examples("test"))) == score.predicted


def test_probes_and_tfidf_choose_alike(task, encoder):
    found = probe.probe(str(encoder), task)
    model, _ = probe.load_encoder(str(encoder))
    dev = task.examples("dev")
    rows, gold = encoded(task, "dev", dev, load_tokenizer(encoder)), [example.label for example in dev]
    states_RD = probe.states_of(model, rows, (found.layer.read_out,))[found.layer.read_out]
    low = replace(found.layer, bias_C=found.layer.bias_C - np.array([2.0, 0.0]))
    moved = probe.shifted(low, probe.decided(low, states_RD, task))
    scores = [task.score(gold, probe.decoded(layer(states_RD), rows, task)) for layer in (low, moved)]
    assert scores[0] < scores[1] - 0.05
    stated = baselines.TfidfRecipe((1.0,), class_weights=("equal",), longest=(1,))
    half_of_terms, of_terms = (baselines.fit_tfidf(replace(stated, threshold=each), task) for each in ("half", "dev"))
    assert of_terms.dev > half_of_terms.dev
    examples = task.examples("test")
    predicted = of_terms.predict(examples)
    assert 10 < predicted.count("heart") < 80
    assert task.open_and_score(examples, predicted, by="me")["test"] > 0.6


def test_where_accuracy_counts_the_most_probable_class_is_predicted(task, encoder):
    by_accuracy = replace(task, metric=metric_named("accuracy"))
    half, dev = (probe.probe(str(encoder), by_accuracy, threshold=threshold) for threshold in ("half", "dev"))
    assert half.predicted_dev == dev.predicted_dev


def test_a_last_loss_above_that_of_constant_outputs_counts_only_where_dev_does_not_stand_out_by_far(
    encoder, toy_task, tmp_path, monkeypatch
):
    """Of a rare class ten steps have a few rows, so that the loss of the last ones says little."""
    monkeypatch.setattr(finetune, "constant_loss", lambda rows, kind: 0.0)
    plan = Plan(steps=60, batch=16, rate=3e-3, warmup=0.1)
    task = toy_task("sequence")
    recipe = toys.papers(str(encoder), task.path, epochs=0.0, looks=2, head="probe", plan=plan)
    finetune.adapt(recipe, tmp_path / "far")
    assert dev_score(tmp_path / "far") > 0.7
    assert files.read_record(tmp_path / "far" / "learnt.json")["learnt"]
    monkeypatch.setattr("acclimate.tasks.chance.exceeds_chance", lambda task, examples, looks: False)
    finetune.adapt(recipe, tmp_path / "near")
    assert "its final loss on train is" in files.read_record(tmp_path / "near" / "learnt.json")["why"]


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
