"""How fine-tuning begins and ends where more is asked for than the papers have, and with a head that is kept."""

import json
import re
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertForNextSentencePrediction,
)

import toys
from acclimate.core import files, settings
from acclimate.core.files import read_record
from acclimate.core.types import unwatched
from acclimate.methods import finetune, probe
from acclimate.methods.finetune import FinetuneRecipe, Tuning, plan_of
from acclimate.methods.task_loss import TaskLoss, predict, restore_labels
from acclimate.methods.tuning import head as initial_head
from acclimate.methods.tuning.head import training_rows
from acclimate.methods.tuning.looks import DEV, LEARNT, DevLooks, Look, dev_score, last_attempt, predicted_dev
from acclimate.models.classifier import load_finetuned
from acclimate.models.encoder import new_encoder, save_model
from acclimate.models.loading import load_tokenizer
from acclimate.models.scale import folded
from acclimate.models.task_layers import pooling_of
from acclimate.tasks.constant import constant_on_dev
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.rows import encoded
from acclimate.tasks.task import PROBED, Task
from acclimate.training.checkpoint import read_log, spent
from acclimate.training.gradients import NotFiniteError
from acclimate.training.plan import Plan
from families import FAMILIES

PLAN = Plan(steps=12, batch=8, rate=1e-3, warmup=0.1)


def recipe_for(encoder, task, **settings) -> FinetuneRecipe:
    usual = toys.papers(str(encoder), task.path, epochs=0.0, looks=4, plan=PLAN, head="probe", pooling="auto")
    return replace(usual, **settings)


@pytest.mark.parametrize("kind", ["sequence", "multilabel", "score", "tokens"])
def test_before_the_first_step_it_predicts_what_the_probe_does(kind, encoder, toy_task, tmp_path):
    task = toy_task(kind)
    tuning = Tuning(recipe_for(encoder, task), task, tmp_path, unwatched)
    with finetune.folded(tuning.model, tuning.scale):
        score, _, predicted, _ = tuning.look(tuning.dev)
    found = probe.probe(str(encoder), task)
    if kind == "score":
        assert predicted == pytest.approx(found.predicted_dev, abs=0.05)
    else:
        agree = np.mean([one == other for one, other in zip(predicted, found.predicted_dev, strict=True)])
        assert agree > 0.98
    assert score == pytest.approx(found.dev, abs=0.02)
    assert tuning.head_rate == 1.0


@pytest.mark.parametrize("kind", ["sequence", "tokens"])
def test_after_a_probe_no_seed_fits_its_head_again(kind, encoder, toy_task, tmp_path, monkeypatch):
    task, fits = toy_task(kind), []
    monkeypatch.setattr(probe, "_fits", OrderedDict())
    monkeypatch.setattr(initial_head, "_starts", OrderedDict())
    fit = probe.fit
    monkeypatch.setattr(probe, "fit", lambda *args, **kwargs: fits.append(kind) or fit(*args, **kwargs))
    probe.probe(str(encoder), task)
    for seed in (0, 1):
        plan = replace(PLAN, seed=seed)
        Tuning(recipe_for(encoder, task, plan=plan), task, tmp_path / str(seed), unwatched)
    assert fits == [kind]
    Tuning(recipe_for(encoder, task, pooling="mean"), task, tmp_path / "mean", unwatched)
    assert len(fits) == 1 + (kind != "tokens")  # of words one state is read, whatever the pooling of texts


@pytest.mark.parametrize(
    ("kind", "rank"), [("sequence", 0), ("multilabel", 0), ("score", 0), ("tokens", 0), ("span", 0), ("score", 2)]
)
def test_what_the_preset_robust_leaves_predicts_what_was_scored_and_its_encoder_can_be_adapted_further(
    kind, rank, encoder, toy_task, tmp_path
):
    task = toy_task(kind)
    plan = replace(PLAN, steps=Plan().steps)
    recipe = FinetuneRecipe(str(encoder), task.path, least_steps=24, epochs=1.0, plan=plan, looks=4, lora_rank=rank)
    done = finetune.adapt(replace(recipe, rate_by_width=False, retry=False), tmp_path / "run")
    model, tokenizer, labels = finetune.load_tested(done, task)
    if kind in PROBED and kind != "tokens":
        assert pooling_of(model.config) == probe.probe(str(encoder), task).layer.read_out
    dev = task.examples("dev")
    rows = encoded(task, "dev", dev, tokenizer)
    predicted = restore_labels(predict(model, rows, labels, texts=[example.text for example in dev]), labels, task)
    expected = predicted_dev(tmp_path / "run")
    assert predicted == (pytest.approx(expected, rel=1e-4) if kind == "score" else expected)
    ids = torch.tensor([[2, 7, 8, 3]])
    with torch.no_grad():
        encoder, _ = probe.load_encoder(str(done.path))
        plain = encoder(input_ids=ids).last_hidden_state
        assert torch.equal(model.base_model(input_ids=ids).last_hidden_state, plain)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("span", {}),
        ("tokens", {"tag_layer": "crf"}),
        ("sequence", {"sequence_layer": "bilstm"}),
        ("sequence", {"sequence_layer": "mlp", "pooling": "first"}),
        ("sequence", {"pooling": "pooler"}),
    ],
)
def test_where_there_is_no_probe_a_drawn_head_learns_ten_times_as_fast(kind, settings, encoder, toy_task, tmp_path):
    task = toy_task(kind)
    recipe = recipe_for(encoder, task, **settings)
    tuning = Tuning(recipe, task, tmp_path, unwatched)
    assert tuning.head_rate == 10.0
    drawn = Tuning(replace(recipe, head="fresh", pooling="pooler"), task, tmp_path / "drawn", unwatched)
    for name, value in drawn.model.state_dict().items():
        assert torch.equal(tuning.model.state_dict()[name], value), name


def test_under_an_mlp_a_probe_chooses_what_is_read_but_not_the_pooler_and_head_is_drawn(encoder, toy_task, tmp_path):
    save_model(BertForNextSentencePrediction.from_pretrained(encoder), load_tokenizer(encoder), tmp_path / "nsp")
    task, notes = toy_task("sequence"), {"linear": [], "mlp": []}
    recipe = recipe_for(tmp_path / "nsp", task, pooler="kept")
    tunings = {}
    for layer, told in notes.items():  # the linear layer's probe first, in this process: an MLP does not begin as it

        def watch(step, told=told):
            told.append(step.values.get("note", ""))

        tunings[layer] = Tuning(replace(recipe, sequence_layer=layer), task, tmp_path / layer, watch)
    read_outs = {layer: " ".join(told) for layer, told in notes.items()}
    assert "pooler" in read_outs["linear"]
    assert "lowest loss" in read_outs["mlp"]
    assert "pooler" not in read_outs["mlp"]
    assert (tunings["linear"].head_rate, tunings["mlp"].head_rate) == (1.0, 10.0)
    pooling = tunings["mlp"].pooling
    assert pooling in ("first", "mean")
    stated = replace(recipe, sequence_layer="mlp", head="fresh", pooling=pooling)
    drawn = Tuning(stated, task, tmp_path / "drawn", unwatched).model.state_dict()
    for name, value in tunings["mlp"].model.state_dict().items():
        assert torch.equal(drawn[name], value), name


def test_a_family_whose_tagging_head_has_more_layers_keeps_its_drawn_head(encoder, toy_task, tmp_path):
    """ModernBERT's has a dense layer between the encoder's states and the tags."""
    tokenizer = load_tokenizer(encoder)
    config = FAMILIES["modernbert"]().config
    config.vocab_size, config.pad_token_id = len(tokenizer), tokenizer.pad_token_id
    save_model(AutoModelForMaskedLM.from_config(config), tokenizer, tmp_path / "modernbert")
    task = toy_task("tokens")
    tuning = Tuning(recipe_for(tmp_path / "modernbert", task), task, tmp_path / "run", unwatched)
    assert tuning.head_rate == 10.0


def test_a_trained_pooler_is_kept_where_that_is_asked_for(encoder, toy_task, tmp_path):
    """Next sentence prediction trains one (Devlin et al., 2019)."""
    model = BertForNextSentencePrediction.from_pretrained(encoder)
    save_model(model, load_tokenizer(encoder), tmp_path / "nsp")
    trained = model.bert.pooler.dense.weight
    task = toy_task("sequence")
    poolers = {
        pooler: Tuning(
            recipe_for(tmp_path / "nsp", task, head="fresh", pooling="pooler", pooler=pooler),
            task,
            tmp_path / pooler,
            unwatched,
        ).model.base_model.pooler.dense.weight
        for pooler in ("kept", "fresh")
    }
    assert torch.equal(poolers["kept"], trained)
    assert not torch.equal(poolers["fresh"], trained)
    assert probe.load_encoder(str(tmp_path / "nsp"))[1]
    kept = Tuning(
        recipe_for(tmp_path / "nsp", task, pooling="pooler", pooler="kept"), task, tmp_path / "run", unwatched
    )
    assert kept.head_rate == 1.0  # it begins as the probe of the pooler


@pytest.mark.parametrize(
    ("settings", "rows", "steps"),
    [
        ({"epochs": 10.0}, 80, 50),
        ({"epochs": 10.0, "least_steps": 200}, 80, 200),
        ({"epochs": 10.0, "least_steps": 500, "most_epochs": 60.0}, 80, 300),
        ({"epochs": 10.0, "least_steps": 500, "most_epochs": 60.0}, 8000, 5000),
        ({"epochs": 0.0, "least_steps": 500}, 80, 30),
    ],
)
def test_the_length_is_in_epochs_within_bounds(settings, rows, steps):
    plan = Plan(batch=16, rate=3e-5, **({"steps": 30} if settings["epochs"] == 0 else {}))
    assert plan_of(toys.papers(plan=plan, **settings), rows, 768).steps == steps


@pytest.mark.parametrize(("hidden", "rate"), [(768, 3e-5), (384, 1.2e-4), (128, 1.08e-3)])
def test_narrow_encoders_learn_at_higher_rates(hidden, rate):
    plan = Plan(batch=16, rate=3e-5)
    assert plan_of(toys.papers(plan=plan, rate_by_width=True), 80, hidden).rate == pytest.approx(rate)
    assert plan_of(toys.papers(plan=plan), 80, hidden).rate == 3e-5


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_each_layer_learns_at_a_share_of_the_rate_of_the_one_above(family, tmp_path):
    model = AutoModelForSequenceClassification.from_config(FAMILIES[family]().config)
    layers = model.config.num_hidden_layers
    plain, rates = (
        {name: objective.rate_multiple(f"model.{name}") for name, _ in model.named_parameters()}
        for objective in (TaskLoss(model, head_rate=3.0), TaskLoss(model, head_rate=3.0, layer_decay=0.5))
    )
    body = f"{model.base_model_prefix}."
    for name, rate in rates.items():
        if not name.startswith(body) or ".pooler." in name:
            assert rate == plain[name] == 3.0, name
            continue
        assert plain[name] == 1.0, name
        if ".layer.0." in name or ".layers.0." in name:
            assert rate == 0.5 ** (layers - 1), name
        elif "embeddings" in name:
            assert rate == 0.5**layers, name
    assert len({rate for name, rate in rates.items() if name.startswith(body)}) >= layers + 1


@pytest.mark.parametrize("case", [(12, 0.0, 0.9), (2, 0.0, 1.0), (2, 0.5, 0.5), (12, 1.0, 1.0)])
def test_a_layer_s_weights_move_by_its_share_of_the_rate(case, encoder, toy_task, tmp_path):
    """Adam moves a weight by about its rate in the first step. 0: 0.9 for an encoder of 12 layers."""
    (layers, stated, decay), task = case, toy_task("sequence")
    shape = {"layers": layers, "hidden": 8, "heads": 2, "vocabulary_size": 36, "longest": 40, "pad": 0, "seed": 0}
    save_model(new_encoder(**shape), load_tokenizer(encoder), tmp_path / "model")
    plan = replace(PLAN, steps=1, warmup=0.0, weight_decay=0.0)
    recipe = recipe_for(
        tmp_path / "model", task, head="fresh", pooling="pooler", layer_decay=stated, plan=plan, looks=1
    )
    before = {name: value.clone() for name, value in AutoModel.from_pretrained(tmp_path / "model").state_dict().items()}
    after = AutoModel.from_pretrained(finetune.adapt(recipe, tmp_path / "run").path).state_dict()
    moved = [
        (after[name] - before[name]).abs().median().item()
        for name in (f"encoder.layer.{layer}.output.dense.weight" for layer in range(layers))
    ]
    for layer, distance in enumerate(moved):
        assert distance / moved[-1] == pytest.approx(decay ** (layers - 1 - layer), rel=0.15), layer


def test_patience_ends_a_run_whose_looks_get_no_better(encoder, toy_task, tmp_path, monkeypatch):
    """Scores that are made up: after the second look none is better, and the third of these ends it."""
    task = toy_task("sequence")
    made_up = iter([0.3, 0.5, 0.5, 0.4, 0.45, 0.9, 0.9, 0.9])
    monkeypatch.setattr(finetune, "nothing_learnt", lambda *looks, **measures: "")
    monkeypatch.setattr(Tuning, "look", lambda self, dev, precision="": Look(next(made_up), 1.0, ["x"]))
    recipe = recipe_for(encoder, task, looks=8, patience=3, plan=replace(PLAN, steps=16))
    finetune.adapt(recipe, tmp_path)
    assert files.read_record(tmp_path / "dev.json") == [[2, 0.3], [4, 0.5], [6, 0.5], [8, 0.4], [10, 0.45]]
    assert len(read_log(tmp_path)) == 10
    assert files.read_record(tmp_path / "chosen.json")["averaged"] == [4]


def test_a_record_that_a_fine_tuning_left_and_that_is_gone_is_named_with_the_way_out(encoder, toy_task, tmp_path):
    out = tmp_path / "run"
    finetune.adapt(recipe_for(encoder, toy_task("sequence")), out)
    (out / "predicted_dev.json").unlink()
    with pytest.raises(files.DamagedError, match=r"predicted_dev\.json is missing\. Remove .*run, and give the same"):
        predicted_dev(out)


def test_patience_waits_while_the_loss_falls_and_no_look_has_beaten_the_constant_answer(
    encoder, toy_task, tmp_path, monkeypatch
):
    """As of entities: with a fresh head the score is 0 for long, while the loss falls."""
    task = toy_task("sequence")
    monkeypatch.setattr("acclimate.methods.recipes.finetune.constant_on_dev", lambda task, examples=None: 0.4)
    made_up = iter([(0.3, 2.0), (0.0, 1.9), (0.1, 1.8), (0.0, 1.7), (0.0, 1.6), (0.5, 1.7), (0.4, 1.5), (0.45, 1.4)])
    monkeypatch.setattr(Tuning, "look", lambda self, dev, precision="": Look(*next(made_up), ["x"]))
    recipe = recipe_for(encoder, task, looks=10, patience=2, plan=replace(PLAN, steps=20), retry=False)
    with pytest.raises(StopIteration):  # at the look at the chosen weights
        finetune.adapt(recipe, tmp_path)
    assert len(files.read_record(tmp_path / "dev.json")) == 8
    assert len(read_log(tmp_path)) == 16


def test_the_mean_of_the_best_looks_is_kept(encoder, toy_task, tmp_path, monkeypatch):
    task, weights = toy_task("sequence"), []

    def look(self, dev, precision="float32"):
        weights.append({name: value.detach().clone() for name, value in self.model.named_parameters()})
        return Look([0.1, 0.6, 0.7, 0.2, 0.65][len(weights) - 1], 1.0, [f"look {len(weights)}"])

    monkeypatch.setattr(Tuning, "look", look)
    monkeypatch.setattr(finetune, "nothing_learnt", lambda *looks, **measures: "")
    done = finetune.adapt(recipe_for(encoder, task, averaged=2), tmp_path)
    kept = load_finetuned(done.path).state_dict()
    for name, value in weights[1].items():
        assert torch.allclose(kept[name], (value + weights[2][name]) / 2, atol=1e-7), name
    assert files.read_record(tmp_path / "chosen.json")["averaged"] == [9, 6]
    assert dev_score(tmp_path) == 0.65, "that of the mean in float32, also if it is below the best look"
    assert predicted_dev(tmp_path) == ["look 5"]
    assert not [*tmp_path.glob("best-*")]


def test_looks_are_in_the_precision_of_training_and_the_chosen_weights_are_scored_in_float32(
    encoder, toy_task, tmp_path, monkeypatch
):
    narrow, outputs_and_loss = [], finetune.task_loss.outputs_and_loss

    def watched(*arguments):
        narrow.append(torch.is_autocast_enabled("cpu"))
        return outputs_and_loss(*arguments)

    monkeypatch.setattr(finetune.task_loss, "outputs_and_loss", watched)
    plan = replace(PLAN, steps=4, precision="bfloat16")
    finetune.adapt(recipe_for(encoder, toy_task("sequence"), looks=2, averaged=2, plan=plan), tmp_path)
    assert narrow == [True, True, False], "two looks, and the score of the chosen weights"


def test_a_look_that_is_made_again_with_another_score_replaces_the_first(tmp_path):
    model = torch.nn.Linear(1, 1)

    def look(looks, step, score):
        torch.nn.init.constant_(model.weight, score)
        looks.add(step, Look(score, 1.0, [str(score)]), model)

    killed = DevLooks(tmp_path, keep=1)
    look(killed, 110, 0.88)
    look(killed, 120, 0.9)
    resumed = DevLooks(tmp_path, keep=1)
    look(resumed, 120, 0.87)
    assert len([*tmp_path.glob("best-120-*")]) == 1
    assert DevLooks(tmp_path, keep=1).load(model) == [120]
    assert model.weight.item() == pytest.approx(0.87)
    [weights] = tmp_path.glob("best-*")
    weights.unlink()
    with pytest.raises(files.DamagedError, match="has the weights of 0 evaluations on dev, but 1 were kept"):
        DevLooks(tmp_path, keep=1).load(model)


@pytest.mark.parametrize("base", [toys.papers(model="m"), FinetuneRecipe(model="m")])
def test_a_preset_is_where_settings_start_from_and_what_is_stated_comes_on_top(base):
    robust = settings.override(base, ["preset=robust", "patience=2", "plan.rate=1e-5"])
    plan = replace(FinetuneRecipe().plan, rate=1e-5)
    assert robust == FinetuneRecipe(model="m", patience=2, rate_by_width=False, plan=plan)
    papers = settings.override(base, ["plan.batch=8", "preset=papers"])
    assert papers == toys.papers(model="m", plan=replace(toys.papers().plan, batch=8))
    assert settings.from_mapping(FinetuneRecipe, settings.to_mapping(robust)) == robust
    with pytest.raises(ValueError, match=r"command line: preset = 'best' is not one of robust, papers"):
        settings.override(base, ["preset=best"])


@pytest.mark.parametrize("kind", ["multilabel", "score", "tokens"])
def test_a_run_that_gives_one_answer_is_made_once_more_and_says_so(kind, encoder, toy_task, tmp_path):
    """At a rate of next to nothing nothing is learnt; neither at three times that rate."""
    task = toy_task(kind)
    plan = replace(PLAN, steps=4, rate=1e-9)
    recipe = recipe_for(encoder, task, head="fresh", pooling="pooler", plan=plan, retry=True)
    notes = []
    finetune.adapt(recipe, tmp_path, watch=lambda told: notes.append(told.values.get("note", "")))
    about = files.read_record(tmp_path / "learnt.json")
    why = about.pop("why")
    assert about == {"learnt": False, "again": True, "attempt_rate": 3.0, "counts": "again"}
    told = (
        r"on dev it has -?\d+\.\d points, and a constant answer \d+\.\d|"
        r"its best score on dev, \d+\.\d points, is within chance: guesses reach \d+\.\d one time in twenty|"
        r"its final loss on train is [\d.]+, and that of constant outputs [\d.]+"
    )
    assert re.fullmatch(told, why)
    again = "repeating it with twice the steps, at three times the rate"
    assert any(re.fullmatch(rf"it failed to learn \(({told})\); {again}", note) for note in notes)
    assert not [*tmp_path.rglob("tried-*.json")]
    assert len(read_log(tmp_path)) == 4
    again = read_log(tmp_path / "again")
    assert len(again) == 8
    assert max(line["rate"] for line in again) == pytest.approx(3e-9)
    assert spent(tmp_path).tokens == sum(line["tokens"] for line in [*read_log(tmp_path), *again])
    best = max(each for _, each in files.read_record(tmp_path / "again" / "dev.json"))
    assert dev_score(tmp_path) == pytest.approx(best, abs=0.02)


@pytest.mark.parametrize("run", [("probe", "auto", 0.1, 1 / 3), ("fresh", "pooler", 1.7e-4, 3.0)])
def test_a_second_attempt_saves_a_run_at_a_wrong_rate_also_if_killed_before_its_checkpoint(
    run, encoder, toy_task, tmp_path, monkeypatch
):
    """At 1e-2 it is learnt at once."""
    head, pooling, rate, factor = run
    plan = replace(PLAN, steps=60, rate=rate)
    recipe = recipe_for(encoder, toy_task("sequence"), head=head, pooling=pooling, plan=plan, retry=True)
    judged = Mock(wraps=finetune.nothing_learnt)
    monkeypatch.setattr(finetune, "nothing_learnt", judged)
    with monkeypatch.context() as patch:
        patch.setattr(finetune, "write_checkpoint", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            finetune.adapt(recipe, tmp_path)
    assert (tmp_path / LEARNT).exists()
    finetune.adapt(recipe, tmp_path)
    first, second, *later = [call.kwargs["score"] for call in judged.call_args_list]
    assert later == [first, second]
    assert first != second
    about = {"learnt": True, "again": True, "attempt_rate": factor, "counts": "again"}
    assert files.read_record(tmp_path / "learnt.json") == about
    assert max(line["rate"] for line in read_log(tmp_path / "again")) == pytest.approx(factor * rate)


def test_a_run_whose_loss_is_not_finite_is_made_again_at_a_third_of_the_rate(encoder, toy_task, tmp_path, monkeypatch):
    task, rates = toy_task("sequence"), []

    def diverges_above(tuning, **_):
        rates.append(tuning.plan.rate)
        if tuning.plan.rate > limit:
            raise NotFiniteError("the loss is nan")
        return True

    monkeypatch.setattr(Tuning, "finish", diverges_above)
    recipe, limit = recipe_for(encoder, task, head="fresh", pooling="pooler", retry=True), PLAN.rate / 2
    finetune.adapt(recipe, tmp_path / "saved")
    assert rates == pytest.approx([PLAN.rate, PLAN.rate / 3])
    assert files.read_record(tmp_path / "saved" / "learnt.json")["learnt"]
    with pytest.raises(NotFiniteError):
        finetune.adapt(replace(recipe, retry=False), tmp_path / "no second attempt")
    limit = 0.0
    with pytest.raises(NotFiniteError):
        finetune.adapt(recipe, tmp_path / "lost")


def test_a_run_of_which_both_attempts_overflow_stops_in_the_second(encoder, toy_task, tmp_path):
    plan = replace(PLAN, steps=4, rate=1e38)
    recipe = recipe_for(encoder, toy_task("sequence"), head="fresh", pooling="pooler", plan=plan, retry=True)
    notes = []
    with pytest.raises(NotFiniteError, match="the loss is not finite"):
        finetune.adapt(recipe, tmp_path, watch=lambda told: notes.append(told.values.get("note", "")))
    assert (
        "it failed to learn; repeating it with twice the steps, at a third of the rate, because its loss rose" in notes
    )
    assert (tmp_path / "again").is_dir()


def test_a_run_killed_in_its_second_attempt_ends_with_the_same_bytes(encoder, toy_task, tmp_path):
    plan = replace(PLAN, steps=4, rate=1e-9)
    recipe = recipe_for(encoder, toy_task("sequence"), head="fresh", pooling="pooler", plan=plan, retry=True)
    began_again = []

    def killed(progress):
        began_again.extend(["note"] if "repeating it" in progress.values.get("note", "") else [])
        if began_again and progress.done >= 3:
            raise KeyboardInterrupt

    finetune.adapt(recipe, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        finetune.adapt(recipe, tmp_path / "killed", watch=killed)
    assert not (tmp_path / "killed" / LEARNT).exists()
    finetune.adapt(recipe, tmp_path / "killed")
    for name in (LEARNT, "checkpoint/model.safetensors", f"again/{DEV}", "again/predicted_dev.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_where_the_second_attempt_diverges_the_first_one_counts(encoder, toy_task, tmp_path, monkeypatch):
    finish = Tuning.finish

    def diverges_again(tuning):
        if tuning.out.name == "again":
            raise NotFiniteError("the loss is nan")
        return finish(tuning)

    monkeypatch.setattr(Tuning, "finish", diverges_again)
    plan = replace(PLAN, steps=4, rate=1e-9)
    recipe = recipe_for(encoder, toy_task("sequence"), head="fresh", pooling="pooler", plan=plan, retry=True)
    done = finetune.adapt(recipe, tmp_path)
    about = {"learnt": False, "again": True, "attempt_rate": 3.0, "counts": ""}
    found = files.read_record(tmp_path / "learnt.json")
    assert found.pop("why")
    assert found == about
    found = finetune.load_tested(done, toy_task("sequence"))
    assert found[2]
    assert len(predicted_dev(tmp_path)) == toy_task("sequence").sizes["dev"]


def test_a_record_that_does_not_say_which_attempt_counts_is_refused(tmp_path):
    files.write_record(tmp_path / LEARNT, {"learnt": True, "again": True})
    with pytest.raises(ValueError, match="'counts' is missing"):
        last_attempt(tmp_path)


def test_a_run_whose_looks_only_guess_has_learnt_nothing_though_it_beats_the_constant_answer(
    encoder, toy_task, tmp_path, monkeypatch
):
    """Its loss on train falls too: as of a run that knows the training rows by heart."""
    task, random, looked = toy_task("sequence"), np.random.default_rng(2), Tuning.look
    gold = [example.label for example in task.examples("dev")]

    def guessed(tuning, dev, precision="float32"):
        given = random.permutation(gold).tolist()
        return looked(tuning, dev, precision)._replace(score=tuning.task.score(gold, given), predicted=given)

    monkeypatch.setattr(Tuning, "look", guessed)
    plan = replace(PLAN, steps=40, rate=1e-2)
    recipe = recipe_for(encoder, task, head="fresh", pooling="pooler", plan=plan, retry=False, looks=10)
    finetune.adapt(recipe, tmp_path)
    assert max(score for _, score in files.read_record(tmp_path / DEV)) > constant_on_dev(task)
    found = files.read_record(tmp_path / LEARNT)
    assert found["learnt"] is False
    assert "points, is within chance: guesses reach" in found["why"]


def test_where_a_constant_answer_is_perfect_on_dev_the_loss_decides(encoder, toy_task, tmp_path, monkeypatch):
    task = toy_task("sequence")
    recipe = recipe_for(encoder, task, head="fresh", pooling="pooler", plan=replace(PLAN, steps=60, rate=1e-2))
    monkeypatch.setattr("acclimate.tasks.chance.constant_on_dev", lambda task, examples=None: 1.0)
    finetune.adapt(recipe, tmp_path)
    assert files.read_record(tmp_path / LEARNT)["learnt"] is True


def test_the_constant_loss_is_that_of_the_label_frequencies(encoder, toy_task):
    task = toy_task("sequence")
    rows, _ = training_rows(task, load_tokenizer(encoder))
    gold = rows.rows["label"]
    logits = torch.log(torch.tensor([(gold == code).mean() for code in range(len(task.labels))]))
    expected = torch.nn.functional.cross_entropy(logits.expand(len(gold), -1), torch.from_numpy(gold)).item()
    assert finetune.constant_loss(rows, "sequence") == pytest.approx(expected, rel=1e-5)


KINDS = ("sequence", "multilabel", "score", "tokens", "span")


def head_recipe(encoder: Path, task: Prepared, **stated: object) -> finetune.FinetuneRecipe:
    plan = Plan(steps=40, batch=16, rate=3e-3, warmup=0.1, precision="float32")
    base = toys.papers(model=str(encoder), task=task.path, looks=2, epochs=0, choose="last", plan=plan)
    return replace(base, **stated)


@pytest.fixture(scope="module", params=KINDS)
def tuned(request, encoder, toy_task, tmp_path_factory):
    task = toy_task(request.param)
    return task, finetune.adapt(head_recipe(encoder, task), tmp_path_factory.mktemp("tuned")).path


def loaded(recipe: finetune.FinetuneRecipe, task: Prepared, out: Path) -> Tuning:
    return Tuning(recipe, task, out, lambda progress: None)


def test_a_kept_head_begins_with_what_the_checkpoint_predicts(tuned, tmp_path):
    task, checkpoint = tuned
    begun = loaded(head_recipe(checkpoint, task, head="kept", pooling="auto"), task, tmp_path / "kept")
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
    from_tuned = loaded(head_recipe(checkpoint, task), task, tmp_path / "a").model
    from_encoder = loaded(head_recipe(encoder, task), task, tmp_path / "b").model
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
        recipe = head_recipe(checkpoint, task, head="kept")
        recipe = replace(recipe, plan=replace(recipe.plan, steps=2, seed=seed))
        ends.append((finetune.adapt(recipe, tmp_path / f"{number}").path / "model.safetensors").read_bytes())
    assert ends[0] == ends[1] != ends[2]


def test_a_checkpoint_with_another_head_is_named_beside_the_one_that_is_needed(encoder, toy_task, tmp_path):
    task = toy_task("sequence")
    checkpoint = finetune.adapt(head_recipe(encoder, task, plan=Plan(steps=1, batch=4)), tmp_path / "first").path
    labels = ", ".join(task.labels)
    with pytest.raises(ValueError, match="it has no head, but the task needs a head for kind 'sequence'"):
        finetune.adapt(head_recipe(encoder, task, head="kept"), tmp_path / "a")
    with pytest.raises(ValueError, match=rf"kind 'sequence' with outputs \({labels}\).* kind 'span' .*\(start, end\)"):
        finetune.adapt(head_recipe(checkpoint, toy_task("span"), head="kept"), tmp_path / "b")
    turned = Task("turned", "sequence", lambda path, split: [
        replace(example, label=task.labels[0] if split == "test" else example.label) for example in task.examples(split)
    ], task.labels[::-1], metric_named("macro_f1"), 32)  # fmt: skip
    with pytest.raises(ValueError, match=rf"\({labels}\), but .*labels in the same order"):
        finetune.adapt(head_recipe(checkpoint, prepare(turned, Path(), tmp_path / "data"), head="kept"), tmp_path / "c")
    with pytest.raises(ValueError, match=r"kind 'tokens'.*tag_layer 'crf'"):
        finetune.adapt(head_recipe(checkpoint, toy_task("tokens"), head="kept", tag_layer="crf"), tmp_path)


def test_a_regression_that_states_no_problem_keeps_its_head(toy_task, encoder, tmp_path):
    task = toy_task("score")
    checkpoint = finetune.adapt(head_recipe(encoder, task), tmp_path / "tuned").path
    config = json.loads((checkpoint / "config.json").read_text())
    del config["problem_type"]
    (checkpoint / "config.json").write_text(json.dumps(config))
    (checkpoint / "manifest.json").unlink()  # the way out where a user changed the model
    begun = loaded(head_recipe(checkpoint, task, head="kept", pooling="auto"), task, tmp_path / "kept")
    with folded(begun.model, begun.scale):
        assert begun.look(begun.dev).predicted == pytest.approx(
            read_record(checkpoint.parent / "predicted_dev.json"), rel=1e-4
        )
