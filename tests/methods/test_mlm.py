import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

import conformance
from acclimate.core import files, settings
from acclimate.core.types import NOT_PREDICTED, Document
from acclimate.methods import finetune, mlm, tapter
from acclimate.models.encoder import load_masked_language_model
from acclimate.models.loading import load_tokenizer
from acclimate.text.corpus import write_corpus
from acclimate.text.streams import evaluation_batches
from acclimate.training.checkpoint import read_log
from acclimate.training.gradients import NotFiniteError
from acclimate.training.plan import Plan


@pytest.fixture
def recipe(pretrained, toy_race) -> mlm.MlmRecipe:
    plan = Plan(steps=120, batch=16, rate=5e-3, warmup=0.1)
    corpus = toy_race.materials.domain.path
    return mlm.MlmRecipe(str(pretrained), corpus, max_tokens=32, whole_words=True, epochs=0.0, plan=plan)


def test_adapting_lowers_the_loss_on_text_of_the_domain_that_it_never_saw(recipe, toy_race, tmp_path):
    checkpoint = mlm.adapt(recipe, tmp_path)
    heldout = toy_race.materials.heldout.path
    before, after = (
        mlm.heldout_loss(str(model), heldout, max_tokens=32).loss for model in (recipe.model, checkpoint.path)
    )
    assert after < before - 0.02


def test_the_loss_of_held_out_text_is_the_same_at_every_call(recipe, toy_race):
    heldout = toy_race.materials.heldout.path
    losses = {mlm.heldout_loss(recipe.model, heldout, max_tokens=32).loss for _ in range(2)}
    assert len(losses) == 1
    assert mlm.heldout_loss(recipe.model, heldout, max_tokens=32, most=3).loss != losses.pop()


def test_the_loss_of_a_word_is_the_sum_over_its_sub_words(recipe, toy_race, tmp_path):
    turned = (replace(each, text=each.text[::-1]) for each in toy_race.materials.heldout.documents())
    heldout = write_corpus(turned, tmp_path / "turned")  # words of several sub-words
    tokenizer, model = load_tokenizer(recipe.model), load_masked_language_model(recipe.model).eval()
    rows = evaluation_batches(heldout.tokens(tokenizer), batch=8, longest=32, seed=0, segments_at_most=5)
    total, words, pieces = 0.0, 0, 0
    for batch in rows:
        for at in range(len(batch)):
            row = batch.take(np.array([at]))
            predicted = row.tokens["labels"] != NOT_PREDICTED
            old = np.where(predicted, row.tokens["labels"], row.ids)
            names = tokenizer.convert_ids_to_tokens(old.tolist())
            begins = [place for place, name in enumerate(names) if place <= 1 or not name.startswith("##")]
            words += sum(word.mean() for word in np.split(predicted, begins[1:]))  # also of words in part
            logits = model(torch.tensor(row.ids)[None]).logits[0].log_softmax(-1).detach()
            total -= sum(float(logits[place, old[place]]) for place in np.flatnonzero(predicted))
            pieces += int(predicted.sum())
    found = mlm.heldout_loss(recipe.model, heldout.path, max_tokens=32, most=5)
    assert words < pieces
    assert found.loss == pytest.approx(total / pieces, rel=0.02)  # computed in bfloat16 where the machine has it
    assert found.a_word == pytest.approx(found.loss * pieces / words)


def test_a_text_of_which_nothing_is_predicted_has_no_loss(recipe, tmp_path):
    unknown = write_corpus([Document("1", "\N{SNOWMAN} \N{SNOWMAN}")], tmp_path / "unknown").path
    with pytest.raises(ValueError, match=r"no held-out loss"):
        mlm.heldout_loss(recipe.model, unknown, max_tokens=32)


def test_bytes_and_provenance_do_not_depend_on_time_or_where_the_inputs_lie(recipe, toy_race, tmp_path):
    short = replace(recipe, plan=replace(recipe.plan, steps=2))
    checkpoint = mlm.adapt(short, tmp_path / "one")
    provenance = files.read_json(checkpoint.path / "provenance.json")
    assert provenance["sources"]["corpus"] == toy_race.materials.domain.hash
    assert re.fullmatch("[0-9a-f]{64}", provenance["sources"]["model"])
    assert {"torch", "transformers", "acclimate", "python", "numba", "llvmlite"} <= set(provenance["versions"])
    assert not re.search(r"\d\d:\d\d|202\d-", (checkpoint.path / "provenance.json").read_text())
    stated = settings.from_toml(mlm.MlmRecipe, checkpoint.path / "recipe.toml")
    assert replace(stated, model=short.model, corpus=short.corpus) == short
    first = mlm.adapt(short, tmp_path / "one")
    shutil.copytree(recipe.model, tmp_path / "model")
    shutil.copytree(recipe.corpus, tmp_path / "corpus")
    moved = replace(short, model=str(tmp_path / "model"), corpus=tmp_path / "corpus")
    assert _content(mlm.adapt(moved, tmp_path / "two").path) == _content(first.path)


def test_a_finished_run_is_returned_and_a_changed_one_refused(recipe, tmp_path):
    short = replace(recipe, plan=replace(recipe.plan, steps=2))
    checkpoint = mlm.adapt(short, tmp_path)
    told = []
    assert mlm.adapt(short, tmp_path, watch=told.append) == checkpoint
    assert told == []
    with open(checkpoint.path / "config.json", "a") as file:
        file.write(" ")
    with pytest.raises(files.DamagedError, match=r"config\.json is damaged"):
        mlm.adapt(short, tmp_path)


def test_epochs_count_steps_until_every_row_was_seen():
    plan = Plan(steps=7, batch=10)
    assert [mlm.with_steps(plan, epochs, 25).steps for epochs in (0, 0.001, 1, 2, 3)] == [7, 1, 3, 5, 8]


@pytest.mark.parametrize("recipe", [mlm.MlmRecipe, tapter.TapterRecipe, finetune.FinetuneRecipe])
def test_steps_that_epochs_would_overrule_are_refused(recipe):
    with pytest.raises(ValueError, match=r"epochs = \d+ and plan\.steps = 500 both set the length of the run"):
        settings.override(recipe(), ["plan.steps=500"])
    assert settings.override(recipe(), ["plan.steps=500", "epochs=0"]).plan.steps == 500


def test_epochs_of_a_run(recipe, toy_race, tmp_path):
    plan = replace(recipe.plan, steps=Plan().steps)
    mlm.adapt(replace(recipe, epochs=1.0, max_tokens=512, plan=plan), tmp_path)  # each document in one piece
    assert len(read_log(tmp_path)) == -(-len(toy_race.materials.domain) // 16)


def test_a_model_without_a_sparse_head_is_adapted_and_somebody_is_told(recipe, pretrained, tmp_path):
    model = conformance.mpnet()
    model.resize_token_embeddings(300)
    model.save_pretrained(tmp_path / "mpnet")
    AutoTokenizer.from_pretrained(pretrained).save_pretrained(tmp_path / "mpnet")
    told = []
    plan = replace(recipe.plan, steps=2, rate=1e-4)
    mlm.adapt(replace(recipe, model=str(tmp_path / "mpnet"), plan=plan), tmp_path / "out", watch=told.append)
    notes = [each.values["note"] for each in told if "note" in each.values]
    assert notes == ["mpnet: no sparse head, so the MLM head computes every position"]


def test_weights_that_are_finite_but_too_large_to_train_with_are_named_with_their_model(recipe, pretrained, tmp_path):
    shutil.copytree(pretrained, tmp_path / "huge")
    weights = load_file(tmp_path / "huge" / "model.safetensors")
    name = next(name for name in weights if name.endswith("word_embeddings.weight"))
    save_file({**weights, name: weights[name] * 1e37}, tmp_path / "huge" / "model.safetensors", {"format": "pt"})
    (tmp_path / "huge" / "manifest.json").unlink()
    said = r"step 1: .* No weight has changed yet: check these texts and the weights of .*/huge, which may be dam"
    with pytest.raises(NotFiniteError, match=said):
        mlm.adapt(replace(recipe, model=str(tmp_path / "huge")), tmp_path / "out")


def _content(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}
