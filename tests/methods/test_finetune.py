from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

import conformance
from acclimate.core import files
from acclimate.core.types import unwatched
from acclimate.methods import finetune
from acclimate.tasks.prepared import open_prepared
from acclimate.training.loop import adamw, train
from acclimate.training.plan import Plan


@pytest.fixture
def recipe(pretrained, toy_race) -> finetune.Recipe:
    plan = Plan(steps=60, batch=16, rate=1e-2, warmup=0.1)
    return finetune.Recipe(str(pretrained), toy_race.materials.task.path, looks=6, epochs=0.0, dropout=0.0, plan=plan)


@pytest.fixture(scope="module")
def tuned(pretrained, toy_race, tmp_path_factory):
    """The score of a run and its directory."""
    out = tmp_path_factory.mktemp("tuned")
    plan = Plan(steps=120, batch=16, rate=1e-2, warmup=0.1)
    path = toy_race.materials.task.path
    recipe = finetune.Recipe(str(pretrained), path, looks=6, epochs=0.0, dropout=0.0, plan=plan)
    return recipe, finetune.evaluate(recipe, out), out


def test_fine_tuning_beats_the_majority_on_an_easy_task(tuned):
    _, score, _ = tuned
    assert score.test > 0.5  # macro-F1 of one class for all: 1/6
    assert score.dev > 0.5


def test_the_score_is_of_the_checkpoint_that_was_handed_over(tuned):
    recipe, score, out = tuned
    task = open_prepared(recipe.task)
    model = AutoModelForSequenceClassification.from_pretrained(out / "checkpoint")
    assert tuple(model.config.id2label.values()) == task.labels
    again = finetune.test(finetune.Checkpoint(out / "checkpoint"), task, watch=unwatched)
    assert (again["predicted"], again["test"]) == (score.predicted, score.test)
    assert score.dev == max(look for _, look in files.read_json(out / finetune.DEV))
    assert not (out / finetune.BEST).exists()


def test_the_best_look_or_the_last_step(recipe, tmp_path, monkeypatch):
    """Dev scores that are made up: the second of three looks is the best, and as good as a later one."""
    kept = []
    for choose in ("best", "last"):
        scores = iter([0.1, 0.9, 0.9])
        monkeypatch.setattr(finetune.Prepared, "score", lambda self, gold, predicted, scores=scores: next(scores))
        seen = {}

        def watch(told, seen=seen):
            seen[told.done] = told.values.get("dev")

        short = replace(recipe, choose=choose, looks=3, plan=replace(recipe.plan, steps=3))
        checkpoint = finetune.adapt(short, tmp_path / choose, watch=watch)
        assert seen == {1: 0.1, 2: 0.9, 3: 0.9}
        assert finetune.dev_score(tmp_path / choose, choose) == 0.9
        kept.append(load_file(checkpoint.path / "model.safetensors"))
    monkeypatch.undo()
    stopped_at_two = replace(recipe, choose="last", looks=1, plan=replace(recipe.plan, steps=3))
    whole = load_file(finetune.adapt(stopped_at_two, tmp_path / "whole").path / "model.safetensors")
    assert all(torch.equal(value, kept[1][name]) for name, value in whole.items())
    assert any(not torch.equal(value, kept[0][name]) for name, value in whole.items())


def test_looks_are_evenly_spaced_and_the_last_is_at_the_end(recipe, tmp_path):
    for steps, looks, expected in ((10, 4, [2, 5, 8, 10]), (2, 10, [1, 2])):
        short = replace(recipe, looks=looks, plan=replace(recipe.plan, steps=steps))
        finetune.adapt(short, tmp_path / str(steps))
        assert [step for step, _ in files.read_json(tmp_path / str(steps) / finetune.DEV)] == expected


def test_the_test_set_is_not_opened_before_testing(recipe, tmp_path, monkeypatch):
    opened = []
    examples = finetune.Prepared.examples

    def watched(self, split):
        opened.append(split)
        return examples(self, split)

    monkeypatch.setattr(finetune.Prepared, "examples", watched)
    finetune.adapt(replace(recipe, plan=replace(recipe.plan, steps=2)), tmp_path)
    assert opened == ["train", "dev"]
    provenance = json.loads((tmp_path / "checkpoint" / "provenance.json").read_text())
    assert set(provenance["sources"]) == {"about", "train", "dev", "model"}


def test_the_loss_is_the_mean_cross_entropy_of_the_rows():
    """Two rows, one by one, the formula written out."""
    case = conformance.OBJECTIVES["task"]()
    batch = case.stream(0).take(np.array([2, 5]))
    objective = case.objective(0.0)
    surprises = []
    for row, label in enumerate(batch.rows["label"]):
        ids = torch.from_numpy(batch.ids[batch.offsets[row] : batch.offsets[row + 1]])
        with torch.no_grad():
            logits = objective.model.eval()(input_ids=ids[None]).logits[0].double()
        surprises.append(-float(torch.log(torch.exp(logits[label]) / torch.exp(logits).sum())))
    plan = Plan(steps=1, batch=2, precision="float32", piece_tokens=16)
    [step] = train(objective, lambda step: batch, plan, adamw(objective, plan))
    assert step.loss == pytest.approx(np.mean(surprises), abs=1e-5)


def test_predicting_keeps_the_order_of_the_rows_and_the_mode_of_the_model(tuned):
    recipe, _, out = tuned
    task = open_prepared(recipe.task)
    model = finetune.load_finetuned(out / "checkpoint").train()
    tokenizer = finetune.load_tokenizer(out / "checkpoint")
    rows = finetune.encode(task.examples("test"), tokenizer, task.labels, task.max_tokens)
    together = finetune.predict(model, rows, task.labels)
    assert model.training
    order = np.random.default_rng(0).permutation(len(rows))
    assert finetune.predict(model, rows.take(order), task.labels) == [together[row] for row in order]
