"""Fine-tuning through low-rank adapters: what it changes, and that what is handed over is what was scored."""

import sys
from dataclasses import replace

import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

import toys
from acclimate.core import files
from acclimate.core.types import unwatched
from acclimate.methods import finetune, task_loss
from acclimate.methods.finetune import FinetuneRecipe, Tuning
from acclimate.methods.tuning.looks import predicted_dev
from acclimate.models.classifier import load_finetuned
from acclimate.models.formats import weight_files
from acclimate.models.loading import load_tokenizer
from acclimate.tasks.rows import encode_rows
from acclimate.training.loop import adamw
from acclimate.training.plan import Plan

RANK = 3
PLAN = Plan(steps=30, batch=16, rate=2e-2, warmup=0.1)


def recipe_for(encoder, task, **settings) -> FinetuneRecipe:
    usual = toys.papers(str(encoder), task.path, epochs=0.0, looks=3, plan=PLAN, lora_rank=RANK, lora_alpha=6.0)
    return replace(usual, **settings)


@pytest.fixture
def recipe_of(encoder, toy_task):
    return lambda kind, **settings: recipe_for(encoder, toy_task(kind), **settings)


@pytest.mark.parametrize("averaged", [1, 3])
def test_only_low_rank_differences_and_transformers_predicts_what_was_scored(averaged, encoder, toy_task, tmp_path):
    task = toy_task("sequence")
    score = finetune.evaluate(recipe_for(encoder, task, averaged=averaged, lora_dropout=0.1), tmp_path)
    before, after = (AutoModel.from_pretrained(place).state_dict() for place in (encoder, tmp_path / "checkpoint"))
    attention = [key for key in after if ".attention." in key and key.endswith("weight") and "LayerNorm" not in key]
    assert len(attention) == 4
    for name in attention:
        rank = torch.linalg.matrix_rank((after[name] - before[name]).double(), rtol=1e-4)
        assert 0 < rank <= RANK, name
    for name in set(after) - set(attention) - {"pooler.dense.weight", "pooler.dense.bias"}:
        assert torch.equal(after[name], before[name]), name

    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "checkpoint").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "checkpoint")
    with torch.no_grad():
        codes = [
            int(model(**tokenizer(example.text, truncation=True, return_tensors="pt")).logits[0].argmax())
            for example in task.examples("test")
        ]
    assert tuple(model.config.id2label[code] for code in codes) == score.predicted
    rows = encode_rows(task.examples("dev"), load_tokenizer(tmp_path / "checkpoint"), task.max_tokens)
    predicted = task_loss.predict(load_finetuned(tmp_path / "checkpoint"), rows, task.labels)
    assert predicted == predicted_dev(tmp_path)
    assert task.score([example.label for example in task.examples("dev")], predicted) == score.dev


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("score", {"head": "probe", "pooling": "auto", "layer_decay": 0.5, "averaged": 2}),
        ("multilabel", {"base_rates": True, "threshold": "dev", "lora_layers": "all"}),
        ("tokens", {"tag_layer": "bilstm-crf", "choose": "last"}),
        ("sequence", {"retry": True, "plan": replace(PLAN, steps=3, rate=1e-9)}),
    ],
)
def test_killed_and_resumed_gives_the_same_bytes(recipe_of, kind, settings, tmp_path, monkeypatch):
    """With all that can be set beside it."""
    monkeypatch.setenv("ACCLIMATE_SAVE_SECONDS", "0")
    recipe = recipe_of(kind, **{"plan": replace(PLAN, steps=6), **settings})
    finetune.adapt(recipe, tmp_path / "whole")
    assert files.read_record(tmp_path / "whole" / "learnt.json")["again"] == recipe.retry

    class Killed(Exception):
        pass

    steps = []

    def kill(progress):
        steps.append(progress.done)
        if len(steps) == 4:
            raise Killed

    with pytest.raises(Killed):
        finetune.adapt(recipe, tmp_path / "killed", watch=kill)
    finetune.adapt(recipe, tmp_path / "killed")
    for name in ("dev.json", "predicted_dev.json", "log.jsonl", "learnt.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    [killed], [whole] = (weight_files(tmp_path / name / "checkpoint") for name in ("killed", "whole"))
    assert killed.read_bytes() == whole.read_bytes()
    kept = load_finetuned(tmp_path / "killed" / "checkpoint")
    assert not [name for name, _ in kept.named_parameters() if "lora" in name]


def test_it_learns_what_it_should_and_costs_what_that_costs(encoder, toy_task, tmp_path):
    """Adapters and head alone are optimised, layer by layer at their rates; frozen weights get no gradient."""
    task = toy_task("sequence")
    lora = Tuning(recipe_for(encoder, task, layer_decay=0.5, head_rate=3.0), task, tmp_path / "lora", unwatched)
    full = Tuning(recipe_for(encoder, task, lora_rank=0, lora_alpha=16.0), task, tmp_path / "full", unwatched)
    objective = lora.objective()
    names = {id(weight): name for name, weight in objective.named_parameters()}
    rates = {
        names[id(weight)]: group["multiple"]
        for group in adamw(objective, PLAN).param_groups
        for weight in group["params"]
    }
    for name, rate in rates.items():
        assert rate == (1.0 if ".lora_" in name else 3.0), name
    assert len(rates) == 4 * 2 + 4  # A and B of four layers; weight and bias of pooler and output layer
    batch = lora.stream()(0)
    assert 0.6 < objective.flops(batch) / full.objective().flops(batch) < 0.9
    assert lora.look(lora.dev).loss == pytest.approx(full.look(full.dev).loss, abs=1e-6), (
        "B starts at 0, and the heads are the same"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lora_alpha": 8.0}, r"lora_alpha = 8.0 is for LoRA, but lora_rank is 0. Set lora_rank to 8, or remove"),
        ({"lora_layers": "all"}, "lora_layers = 'all' is for LoRA"),
        ({"lora_rank": 4, "special_tokens": ("[E1]",)}, r"special_tokens = \['\[E1\]'\] adds rows to the embeddings"),
    ],
)
def test_what_lora_cannot_do_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        toys.papers(**settings)


def test_without_peft_nothing_begins(encoder, toy_task, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ImportError, match=r"pip install acclimate\[lora\]"):
        finetune.adapt(recipe_for(encoder, toy_task("sequence")), tmp_path / "run")
    assert not (tmp_path / "run").exists()
