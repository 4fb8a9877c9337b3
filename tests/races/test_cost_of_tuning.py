"""What fine-tuning on each kind of task is estimated to take, against what it took."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toys
from acclimate.core import settings
from acclimate.core.types import Example
from acclimate.data.materials import Materials
from acclimate.jobs.run import done
from acclimate.methods import finetune
from acclimate.races import work
from acclimate.races.contestants import enter
from acclimate.races.cost import estimate_of, random_rows, round_costs
from acclimate.races.recipe import RaceRecipe, SearchRecipe
from acclimate.races.search import foreseen_of
from acclimate.tasks.metrics import METRICS, default_metric
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.task import Kind, Task
from acclimate.training.checkpoint import read_log, spent

LABELS: dict[str, tuple[str, ...]] = {"tokens": ("O", "B-soil"), "sequence": tuple(toys.TOPICS), "span": ()}


def example(kind: Kind, name: str, generator: random.Random) -> Example:
    """One text in five is longer than a row."""
    text = toys.text("soil", 60 if generator.random() < 0.2 else generator.randint(8, 16), generator)
    if kind == "tokens":
        words = text.split()
        return Example(name, " ".join(words), tuple("B-soil" if len(word) > 4 else "O" for word in words))
    if kind == "span":
        answer = text.split()[0]
        return Example(name, text, (answer,), pair="what is it", spans=((0, len(answer)),))
    return Example(name, text, generator.choice([*toys.TOPICS]), pair=toys.text("heart", 9, generator))


def task_of(kind: Kind, place: Path) -> Prepared:
    def read(path: Path, split: str) -> list[Example]:
        generator = random.Random(f"{kind} {split}")
        return [example(kind, f"{split}-{number}", generator) for number in range(60)]

    return prepare(Task(kind, kind, read, LABELS[kind], METRICS[default_metric(kind)], 32), place, place / "data")


@pytest.mark.parametrize(
    ("kind", "stated"),
    [
        ("tokens", []),
        ("tokens", ["finetune.tag_layer=bilstm-crf"]),
        ("sequence", []),
        ("span", []),
        ("tokens", ["finetune.preset=robust", "finetune.patience=0", "finetune.retry=false"]),
    ],
)
def test_fine_tuning_is_estimated_with_its_own_head_and_rows(
    kind: Kind, stated: list[str], toy_race: Any, tmp_path: Path
) -> None:
    [base] = (toy_race.run / "jobs").glob("pretrain-*")
    plan = ["seeds=2", "contestants=[]"]
    plan += [f"finetune.{setting}" for setting in ("preset=papers", "looks=2", "epochs=4.0", "plan.batch=16")]
    materials = Materials(task=task_of(kind, tmp_path), model=str(base / "checkpoint"))
    entries = enter(settings.override(RaceRecipe(), [*plan, *stated]), materials)
    found = {stage.label: stage for stage in estimate_of(entries, tmp_path).stages}
    jobs = [job for job, _ in foreseen_of(entries)]
    assert [*found] == [job.label for job in jobs]
    tuning = next(job for job in jobs if job.work is work.FINE_TUNE)
    done(tuning, tmp_path)
    took, estimated = spent(tuning.directory(tmp_path)), found[tuning.label]
    steps = finetune.steps_of(entries.recipe.finetune, materials.task)
    assert len(read_log(tuning.directory(tmp_path))) == steps
    assert estimated.tokens == pytest.approx(took.tokens, rel=0.1)
    assert estimated.flops == pytest.approx(took.flops, rel=0.1)
    assert estimated.seconds > 0


def test_fine_tunings_of_random_weights_are_counted_with_their_second_attempt(toy_race: Any, tmp_path: Path) -> None:
    [base] = (toy_race.run / "jobs").glob("pretrain-*")
    materials = Materials(task=task_of("sequence", tmp_path), model=str(base / "checkpoint"))
    for retry in (True, False):
        recipe = settings.override(RaceRecipe(), ["seeds=2", "search.rates=[]", f"finetune.retry={retry}".lower()])
        entries = enter(replace(recipe, contestants=("random weights",)), materials)
        tokens = {stage.label: stage.tokens for stage in estimate_of(entries, tmp_path / "run").stages}
        times = tokens["fine-tune random weights, seed 0"] / tokens["fine-tune untouched, seed 0"]
        assert times == pytest.approx(3 if retry else 1), "the second attempt is twice as long"
        jobs = [entries.tuning(name, entries.recipe.settings()[0], 0) for name in entries.models]
        planned = round_costs(entries, jobs, "flops").tuning
        assert planned["random weights"] == planned["untouched"], "a budget counts none: most need none"


def test_one_trial_serves_all_settings_that_differ_in_rate_batch_and_length_only(
    toy_race: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acclimate.races import cost

    [base] = (toy_race.run / "jobs").glob("pretrain-*")
    made: list[finetune.FinetuneRecipe] = []

    class Counted(cost.Tuning):
        def __init__(self, recipe: finetune.FinetuneRecipe, *others: Any) -> None:
            made.append(recipe)
            super().__init__(recipe, *others)

    monkeypatch.setattr(cost, "Tuning", Counted)
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path / "cache"))
    materials = Materials(task=task_of("tokens", tmp_path), model=str(base / "checkpoint"))
    search = SearchRecipe(rates=(1e-3, 1e-4), epochs=(1.0, 2.0), batches=(8, 16))
    entries = enter(replace(RaceRecipe(), seeds=2, contestants=(), search=search), materials)
    first = estimate_of(entries, tmp_path / "run")
    assert len(first.stages) > 8
    assert len(made) == 1
    monkeypatch.setattr(cost.trials, "peak_memory", lambda: 1.0)
    again = estimate_of(entries, tmp_path / "run")
    assert len(made) == 1, "the second forecast reads what the first one kept"
    assert [stage.tokens for stage in again.stages] == [stage.tokens for stage in first.stages]
    assert again.memory == first.memory > 1e6, "the trials' memory, not that of the process that loads no model"
    monkeypatch.setattr(cost.trials.ranks, "world", lambda: 2)
    monkeypatch.setattr(cost.trials.ranks, "agree", lambda value: value)
    _, earlier = cost.trials.kept({"a": 1}, dict)
    monkeypatch.undo()
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path / "cache"))
    assert not earlier
    assert not cost.trials.kept({"a": 1}, dict)[1], "a speed of two processes is none of one"
    assert cost.trials.kept({"a": 1}, dict)[1]


def test_random_rows_have_the_lengths_that_were_asked_for() -> None:
    import numpy as np

    batch = random_rows(np.array([5, 9]), 40, 100)(3)
    assert set(batch.lengths) == {5, 9}
    assert (batch.tokens["labels"] != -100).any()
