"""Adapters and prompts from adapting to shipping: what learns, what stays, and that every step keeps them."""

import contextlib
import io
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers.processors import TemplateProcessing
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

import finished
import toys
from acclimate.core import files
from acclimate.core.types import Checkpoint, Document, unwatched
from acclimate.methods import finetune, light, mlm, tapter, tlm
from acclimate.methods.domain import appended
from acclimate.methods.light import LightLoss
from acclimate.methods.task_loss import predict
from acclimate.models import light as parts
from acclimate.models.classifier import labels_of, load_finetuned
from acclimate.models.encoder import load_masked_language_model, save_model, training_flops
from acclimate.models.formats import weight_files
from acclimate.models.light import add_adapters
from acclimate.models.loading import load_tokenizer
from acclimate.shipping import check as predicting
from acclimate.shipping import predict as shipped
from acclimate.shipping.ship import ship
from acclimate.tasks.prepared import open_prepared
from acclimate.tasks.rows import encode_rows
from acclimate.text.corpus import write_corpus
from acclimate.text.streams import evaluation_batches
from acclimate.text.vectors.skipgram import Skipgram
from acclimate.training.checkpoint import read_log
from acclimate.training.plan import Plan
from conformance import toy_rows
from families import FAMILIES, VOCABULARY
from toys import text

KINDS = ("adapter", "prompt")
PROMPT = 4
ROOMLESS = r"max_tokens = \d+, but the model reads at most \d+ tokens beside its prompt of 4\. Lower"


def weights_in(directory):
    """The weights of a checkpoint, under either name of its file."""
    [file] = weight_files(Path(directory))
    return load_file(file)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Text to train on, and held-out text."""
    generator, place = random.Random(0), tmp_path_factory.mktemp("corpora")
    return [
        write_corpus(
            (Document(str(row), text("heart", generator.randint(5, 30), generator)) for row in range(rows)),
            place / str(rows),
        )
        for rows in (120, 60)
    ]


@pytest.fixture(scope="module", params=KINDS)
def adapted(request, encoder, corpora, tmp_path_factory):
    """The recipe of each kind, and the checkpoint of a run."""
    recipe = light.LightRecipe(
        model=str(encoder),
        corpus=corpora[0].path,
        kind=request.param,
        bottleneck=8,
        prompt_tokens=PROMPT,
        max_tokens=24,
        plan=Plan(steps=30, batch=16, rate=1e-2, warmup=0.1, weight_decay=0.01),
    )
    return recipe, light.adapt(recipe, tmp_path_factory.mktemp(request.param)).path


@pytest.fixture(scope="module")
def tuned(adapted, toy_task, tmp_path_factory):
    """The checkpoint, fine-tuned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCLIMATE_CACHE", str(tmp_path_factory.mktemp("cache")))
        plan = Plan(steps=30, batch=16, rate=5e-3, warmup=0.1)
        task, out = toy_task("sequence"), tmp_path_factory.mktemp("tuned")
        recipe = toys.papers(str(adapted[1]), task.path, looks=2, epochs=0.0, dropout=0.0, plan=plan)
        return task, finetune.evaluate(recipe, out), out / "checkpoint"


def forget(kind, monkeypatch):
    """Have checkpoints read as whoever knows nothing of adapters or prompts would read them."""
    if kind == "adapter":
        monkeypatch.setattr(parts, "with_adapters", lambda auto, config: auto)
    else:
        monkeypatch.setattr("acclimate.methods.mlm.load_tokenizer", unprompted)
        monkeypatch.setattr("acclimate.methods.finetune.load_tokenizer", unprompted)
        monkeypatch.setattr(shipped, "load_tokenizer", unprompted)


def unprompted(model):
    """A checkpoint's tokenizer without its prompt."""
    tokenizer = load_tokenizer(model)
    frame = [(name, tokenizer.convert_tokens_to_ids(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing("[CLS] $A [SEP]", special_tokens=frame)
    tokenizer.init_kwargs["prompt_tokens"] = 0
    return tokenizer


def test_every_weight_of_the_model_is_what_it_was(adapted):
    recipe, path = adapted
    before, after = weights_in(recipe.model), weights_in(path)
    learnt = {name for name in after if ".adapter." in name}
    assert set(after) == set(before) | learnt
    assert bool(learnt) == (recipe.kind == "adapter")
    for name, value in before.items():
        assert torch.equal(after[name][: len(value)], value), name
    longer = {name: len(after[name]) - len(value) for name, value in before.items() if len(after[name]) != len(value)}
    assert set(longer.values()) == (set() if learnt else {PROMPT})


def test_loss_on_text_that_was_not_trained_on_falls_and_needs_what_was_learnt(adapted, corpora, monkeypatch):
    recipe, path = adapted
    heldout = corpora[1].path
    before, after = (mlm.heldout_loss(str(model), heldout, max_tokens=24).loss for model in (recipe.model, path))
    assert after < before - 0.01
    forget(recipe.kind, monkeypatch)
    forgotten = mlm.heldout_loss(str(path), heldout, max_tokens=24).loss
    assert forgotten == pytest.approx(before, abs=1e-4)  # the model is the one that it was


def test_held_out_texts_are_cut_and_masked_as_for_the_model_without(adapted, corpora):
    recipe, path = adapted
    plain, prompted = (corpora[1].tokens(load_tokenizer(model)) for model in (recipe.model, path))
    count = PROMPT if recipe.kind == "prompt" else 0
    rows = [evaluation_batches(tokens, batch=8, longest=16, seed=0) for tokens in (plain, prompted)]
    for one, other in zip(*rows, strict=True):
        whole = appended(one, range(plain.vocabulary, plain.vocabulary + count))
        assert whole.ids.tolist() == other.ids.tolist()
        assert whole.tokens["labels"].tolist() == other.tokens["labels"].tolist()


def test_transformers_loads_a_prompt_and_refuses_adapters(adapted):
    if adapted[0].kind == "adapter":
        with pytest.raises(ValueError, match=r"adapter_bottleneck=8, .* with acclimate race --model"):
            AutoModel.from_pretrained(adapted[1])
        return
    AutoModel.from_pretrained(adapted[1])
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(adapted[1]), AutoTokenizer.from_pretrained(adapted[1])
    logits = model(**tokenizer(f"the {tokenizer.mask_token} of the heart", return_tensors="pt")).logits
    assert torch.isfinite(logits).all()


def test_fine_tuning_moves_everything(adapted, tuned):
    after, before = load_finetuned(tuned[2]), load_masked_language_model(adapted[1])
    named = dict(before.named_parameters())
    both = {name: weight for name, weight in after.bert.named_parameters() if f"bert.{name}" in named}
    assert len(both) > 20
    for name, weight in both.items():
        if "position" not in name:  # no text of the task is as long as there are positions
            assert not torch.equal(weight, named[f"bert.{name}"]), name


def test_test_set_is_predicted_with_what_was_learnt(adapted, tuned, monkeypatch):
    task, score, path = tuned
    again = finetune.test(Checkpoint(path), task, by="a test", watch=unwatched)
    assert again["predicted"] == score.predicted
    texts = [example.text for example in task.examples("test")]
    probabilities = [row.probabilities for row in shipped.predict(path, texts)]
    forget(adapted[0].kind, monkeypatch)
    assert [row.probabilities for row in shipped.predict(path, texts)] != probabilities


def test_rows_of_a_task_are_cut_as_without_a_prompt(adapted, toy_task):
    recipe, path = adapted
    plain, prompted = load_tokenizer(recipe.model), load_tokenizer(path)
    count = PROMPT if recipe.kind == "prompt" else 0
    ids = range(len(plain), len(plain) + count)
    for kind in ("sequence", "tokens", "span"):
        examples = toy_task(kind).examples("test")
        was, now = (encode_rows(examples, tokenizer, 16, kind) for tokenizer in (plain, prompted))
        assert appended(was, ids).ids.tolist() == now.ids.tolist()


def test_checkpoint_is_adapted_further(adapted, tmp_path):
    recipe, path = adapted
    on = light.adapt(replace(recipe, model=str(path), plan=replace(recipe.plan, steps=3)), tmp_path / "light").path
    before, after = weights_in(path), weights_in(on)
    assert set(before) == set(after)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if ".adapter." in name} if recipe.kind == "adapter" else len(moved) == 1
    plain = mlm.MlmRecipe(str(path), recipe.corpus, max_tokens=24, epochs=0.0, plan=Plan(steps=3, batch=8, rate=1e-2))
    all_moved = weights_in(mlm.adapt(plain, tmp_path / "mlm").path)
    assert set(all_moved) == set(before)
    assert all(not torch.equal(before[name], all_moved[name]) for name in before if ".adapter." in name)
    other = {"adapter": "prompt", "prompt": "adapter"}[recipe.kind]
    both = light.adapt(replace(recipe, model=str(path), kind=other, plan=plain.plan), tmp_path / "both").path
    assert any(".adapter." in name for name in weights_in(both))
    assert "prompt_tokens" in files.read_json(both / "config.json")


def test_what_is_shipped_says_what_was_scored(adapted, tuned):
    task, score, path = tuned
    if adapted[0].kind == "adapter":
        with pytest.raises(ValueError, match="Load this directory with acclimate predict"):
            AutoModelForSequenceClassification.from_pretrained(path)
        loaded = predicting.Loaded(load_finetuned(path), load_tokenizer(path))
    else:
        loaded = predicting.load_shipped(path)
    logits = predicting.outputs_of_examples(task.examples("test"), loaded.tokenizer, loaded.logits, task.kind)
    assert not predicting.differing(score.predicted, logits, task.kind, task.labels)


def test_card_of_a_shipped_model_with_adapters_says_how_to_ask_it(tmp_path):
    run = finished.finished_race(tmp_path / "run")
    examples = open_prepared(run / "data").examples("test")
    model, tokenizer = load_finetuned(run / "use"), load_tokenizer(run / "use")
    add_adapters(model, 4, seed=0)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        for adapter in parts.adapters_of(model):
            adapter.up.weight.normal_()
            adapter.down.weight.normal_()
    said = predict(model, encode_rows(examples, tokenizer, finished.MAX_TOKENS), labels_of(model))
    told = files.read_json(run / "use" / "race.json")
    shutil.rmtree(run / "use")
    with files.new_directory(run / "use") as temporary:
        save_model(model, tokenizer, temporary)
        files.write_json(temporary / "race.json", told)
    finished.change_used(run, lambda won: replace(won, predicted=tuple(said)))
    card = ship(run, tmp_path / "out").card.read_text()
    assert "adapters of 4 dimensions" in card
    assert "were loaded as above and predicted" in card
    [code] = re.findall(r"^```python\n(.*?)^```", card, re.MULTILINE | re.DOTALL)
    code = code.replace('where = "."', f"where = {str(tmp_path / 'out')!r}")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code.replace('["A text.", "Another one."]', repr([example.text for example in examples])), {})
    assert printed.getvalue().strip() == repr(said)


def test_a_prompt_learns_at_its_own_rate(adapted, tmp_path):
    recipe = replace(adapted[0], kind="prompt", plan=replace(adapted[0].plan, steps=1, warmup=0.0), prompt_rate=0.25)
    path = light.adapt(recipe, tmp_path).path
    name = "bert.embeddings.word_embeddings.weight"
    begun = LightLoss(load_masked_language_model(recipe.model))
    parts.add_prompt(begun.model, load_tokenizer(recipe.model), PROMPT, seed=recipe.plan.seed)
    step = weights_in(path)[name][-PROMPT:] - begun.model.state_dict()[name][-PROMPT:]
    # Adam's first step is as long as the rate in each number, less what weight decay takes
    assert float(step.abs().median()) == pytest.approx(0.25, rel=0.02)
    assert read_log(tmp_path)[0]["rate"] == recipe.plan.rate


def test_a_head_that_the_checkpoint_lacks_learns_with_the_rest(adapted, headless, tmp_path):
    recipe = replace(adapted[0], model=str(headless), plan=replace(adapted[0].plan, steps=2))
    after = weights_in(light.adapt(recipe, tmp_path).path)
    drawn = load_masked_language_model(headless).state_dict()
    head = [name for name in drawn if name.startswith("cls.") and "decoder" not in name]
    assert all(not torch.equal(after[name][: len(drawn[name])], drawn[name]) for name in head)
    assert all(
        torch.equal(after[f"bert.{name}"], value) for name, value in weights_in(headless).items() if "word" not in name
    )


@pytest.fixture(scope="module")
def headless(encoder, tmp_path_factory):
    """The encoder as transformers saves it by itself, without the head."""
    path = tmp_path_factory.mktemp("headless")
    load_masked_language_model(encoder).bert.save_pretrained(path)
    AutoTokenizer.from_pretrained(encoder).save_pretrained(path)
    return path


def test_frozen_weights_cost_no_gradient_of_their_own():
    model, batch = FAMILIES["bert"](), toy_rows(0, 0)
    predicted = LightLoss(FAMILIES["bert"]()).counts(batch)["mlm"]
    whole = training_flops(model, batch.lengths, predicted=predicted)
    prompt = LightLoss(FAMILIES["bert"](), range(VOCABULARY - 4, VOCABULARY)).flops(batch)
    forward_and_back = whole - prompt
    body = 2 * (4 * 32 * 32 + 2 * 32 * 64)
    head = 32 * 32 + 32 * VOCABULARY
    assert forward_and_back == 2.0 * (body * len(batch.ids) + head * predicted)
    add_adapters(model, 4, seed=0)
    assert LightLoss(model).flops(batch) - prompt == 6.0 * 4 * (2 * 32 * 4) * len(batch.ids)


def test_a_row_without_room_for_a_prompt_is_an_error(adapted, tmp_path):
    with pytest.raises(ValueError, match=r"Lower max_tokens to 10"):
        light.adapt(replace(adapted[0], kind="prompt", model=adapted[0].model, prompt_tokens=30), tmp_path)


def test_reading_a_prompted_model_without_room_for_its_prompt_is_told(adapted, corpora, tmp_path):
    recipe, checkpoint = adapted
    if recipe.kind == "adapter":
        return
    with pytest.raises(ValueError, match=ROOMLESS):
        mlm.heldout_loss(str(checkpoint), corpora[1].path, max_tokens=10_000)
    with pytest.raises(ValueError, match=ROOMLESS):
        tapter.adapt(
            tapter.TapterRecipe(
                model=str(checkpoint),
                corpus=corpora[0].path,
                max_tokens=10_000,
                skipgram=Skipgram(dim=8, epochs=1, min_count=1, buckets=50),
            ),
            tmp_path,
        )


def test_tlm_alone_leaves_a_prompt_its_room_in_the_tokenizer(adapted, toy_task, tmp_path):
    recipe, checkpoint = adapted
    task = toy_task("sequence")
    plan = Plan(steps=4, batch=8)
    stated = tlm.TlmRecipe(
        model=str(checkpoint), task=task.path, corpus=recipe.corpus, stage_2=False, rho_1=1, plan=plan
    )
    done = tlm.adapt(replace(stated, max_tokens=24), tmp_path).path
    count = PROMPT if recipe.kind == "prompt" else 0
    assert load_tokenizer(done).model_max_length == task.max_tokens + count
    assert files.read_json(done / "config.json").get("prompt_tokens", 0) == count
