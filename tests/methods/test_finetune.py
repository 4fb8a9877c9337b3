import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.special import expit, log_softmax
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

import conformance
import toys
from acclimate.core import files, settings
from acclimate.core.types import label_of, unwatched
from acclimate.methods import finetune, task_loss
from acclimate.methods.recipes.finetune import looked_at
from acclimate.methods.tuning.looks import BEST, DEV, dev_score, predicted_dev
from acclimate.models.classifier import load_finetuned
from acclimate.models.loading import load_tokenizer
from acclimate.races import work
from acclimate.tasks.constant import constant_on_dev
from acclimate.tasks.prepared import Prepared, with_fewer
from acclimate.tasks.rows import encode_rows
from acclimate.training.loop import adamw, train
from acclimate.training.plan import Plan

KINDS = ("sequence", "multilabel", "score", "tokens", "span")
# of one answer for all, or less
CHANCE = {"sequence": 1 / 6, "multilabel": 0.5, "score": 0.0, "tokens": 0.0, "span": 0.3}


def recipe_for(encoder, task: Prepared, steps: int = 60) -> finetune.FinetuneRecipe:
    plan = Plan(steps=steps, batch=16, rate=1e-2, warmup=0.1)
    return toys.papers(str(encoder), task.path, looks=6, epochs=0.0, dropout=0.0, plan=plan)


@pytest.fixture
def toy_recipe(encoder, toy_task):
    return lambda kind, steps: recipe_for(encoder, toy_task(kind), steps)


@pytest.fixture
def recipe(encoder, toy_task) -> finetune.FinetuneRecipe:
    return recipe_for(encoder, toy_task("sequence"))


@pytest.fixture(scope="module", params=KINDS)
def tuned(request, encoder, toy_task, tmp_path_factory):
    """A task of each kind, the score of a run and its directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCLIMATE_CACHE", str(tmp_path_factory.mktemp("cache")))
        out = tmp_path_factory.mktemp("tuned")
        task = toy_task(request.param)
        return task, finetune.evaluate(recipe_for(encoder, task, steps=80), out), out


def test_fine_tuning_beats_one_answer_for_all_on_an_easy_task(tuned):
    task, score, out = tuned
    assert score.test > CHANCE[task.kind] + 0.2
    assert score.dev > CHANCE[task.kind] + 0.2
    assert files.read_record(out / "learnt.json") == {"learnt": True, "again": False}
    best = max(look for _, look in files.read_record(out / DEV))
    assert score.dev == pytest.approx(best, abs=0.05), "looks are in the precision of training"
    assert not [*out.glob(BEST.format("*", "*"))]


@pytest.mark.parametrize("kind", ["score", "tokens"])
def test_looks_read_a_sample_of_a_dev_set_that_is_larger_than_train(kind, encoder, toy_task, tmp_path):
    task = with_fewer(toy_task(kind), range(24), tmp_path / "task")
    assert task.sizes["dev"] > 24
    recipe = replace(recipe_for(encoder, task, steps=6), dev_sample=1)
    notes: list[str] = []
    tuning = finetune.Tuning(recipe, task, tmp_path / "run", lambda line: notes.append(line.values.get("note", "")))
    assert any(f"use 24 of {task.sizes['dev']} examples" in note for note in notes)

    ids = [example.id for example in tuning.dev.examples]
    some = [ids.index(example.id) for example in tuning.looked_at.examples]
    assert len(set(some)) == 24
    sampled, whole = tuning.look(tuning.looked_at).predicted, tuning.look(tuning.dev).predicted
    expected = [whole[place] for place in some]
    assert sampled == (pytest.approx(expected, abs=1e-5) if kind == "score" else expected)

    constant = constant_on_dev(task, tuning.looked_at.examples)
    assert tuning.looks.constant == constant
    assert looked_at(replace(recipe, dev_sample=0), task) == task.sizes["dev"]
    assert looked_at(finetune.FinetuneRecipe(), task) == task.sizes["dev"], "no larger than 1,000"
    few = round(0.8 * task.sizes["dev"])
    assert looked_at(replace(recipe, dev_sample=few), task) == task.sizes["dev"], "a fifth is not worth it"
    assert looked_at(replace(recipe, dev_sample=few - 10), task) == few - 10
    finetune.adapt(recipe, tmp_path / "run")
    assert len(predicted_dev(tmp_path / "run")) == task.sizes["dev"]


@pytest.mark.parametrize("tuned", ["sequence", "multilabel", "score"], indirect=True)
def test_plain_transformers_predicts_the_same(tuned):
    """By the authority's forward pass and what it says of the problem, a text at a time."""
    task, score, out = tuned
    model = AutoModelForSequenceClassification.from_pretrained(out / "checkpoint").eval()
    tokenizer = AutoTokenizer.from_pretrained(out / "checkpoint")
    predicted = []
    for example in task.examples("test"):
        with torch.no_grad():
            logits = model(**tokenizer(example.text, truncation=True, return_tensors="pt")).logits[0]
        names = model.config.id2label
        if model.config.problem_type == "regression":
            predicted.append(logits.item())
        elif model.config.problem_type == "multi_label_classification":
            sure = torch.sigmoid(logits) > 0.5
            predicted.append(tuple(sorted(name for number, name in names.items() if sure[number])))
        else:
            predicted.append(names[int(logits.argmax())])
    if task.kind == "score":
        assert predicted == pytest.approx(list(score.predicted), rel=1e-5)
        assert np.mean(predicted) == pytest.approx(np.mean(score.gold), abs=5)  # in the user's units: 50 to 80
    else:
        assert tuple(predicted) == score.predicted
        assert tuple(model.config.id2label.values()) == task.labels


@pytest.mark.parametrize("tuned", ["tokens"], indirect=True)
def test_plain_transformers_gives_words_the_same_tags(tuned):
    """Words handed over one by one; sentences that do not fit a row were read in windows, so are left out here."""
    task, score, out = tuned
    model = AutoModelForTokenClassification.from_pretrained(out / "checkpoint").eval()
    tokenizer = AutoTokenizer.from_pretrained(out / "checkpoint")
    assert tuple(model.config.id2label.values()) == task.labels
    compared = 0
    for example, predicted in zip(task.examples("test"), score.predicted, strict=True):
        words = example.text.split()
        assert len(predicted) == len(words)
        read = tokenizer(words, is_split_into_words=True, return_tensors="pt")
        if read["input_ids"].shape[1] <= task.max_tokens:
            with torch.no_grad():
                said = model(**read).logits[0].argmax(-1).tolist()
            places = [read.word_ids().index(number) for number in range(len(words))]
            assert predicted == tuple(model.config.id2label[said[place]] for place in places)
            compared += 1
    assert 0.7 * len(score.predicted) < compared < len(score.predicted)


@pytest.mark.parametrize("tuned", ["span"], indirect=True)
def test_plain_transformers_gives_questions_the_same_answers(tuned):
    """Of every pair of tokens of the context; those that did not fit a row were read in windows: left out here."""
    task, score, out = tuned
    model = AutoModelForQuestionAnswering.from_pretrained(out / "checkpoint").eval()
    tokenizer = AutoTokenizer.from_pretrained(out / "checkpoint")
    compared = 0
    for example, predicted in zip(task.examples("test"), score.predicted, strict=True):
        assert example.spans == (), "where the answer stands is no part of an open test set"
        read = tokenizer(example.pair, example.text, return_tensors="pt", return_offsets_mapping=True)
        places = read.pop("offset_mapping")[0].tolist()
        if read["input_ids"].shape[1] <= task.max_tokens:
            with torch.no_grad():
                said = model(**read)
            both = said.start_logits[0, :, None] + said.end_logits[0]
            context = torch.tensor([part == 1 for part in read.sequence_ids(0)])
            both[~(context[:, None] & context).triu()] = -torch.inf
            first, last = divmod(int(both.argmax()), len(context))
            assert predicted[0] == example.text[places[first][0] : places[last][1]]
            compared += 1
    assert 0.7 * len(score.predicted) < compared < len(score.predicted)


def test_some_rows_have_no_label_and_none_may_be_predicted(toy_task, encoder, tmp_path):
    task = toy_task("multilabel")
    assert () in [example.label for example in task.examples("train")]
    finetune.adapt(replace(recipe_for(encoder, task, steps=1), looks=1, plan=Plan(steps=1, rate=1e-9)), tmp_path)
    model = load_finetuned(tmp_path / "checkpoint")
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([-1.0, 0.0, 1.0]))
    rows = encode_rows(task.examples("dev"), load_tokenizer(tmp_path / "checkpoint"), task.max_tokens)
    assert set(task_loss.predict(model, rows, task.labels)) == {(task.labels[2],)}
    with torch.no_grad():
        model.classifier.bias.fill_(-1.0)
    assert set(task_loss.predict(model, rows, task.labels)) == {()}


def test_the_best_look_or_the_last_step(toy_task, encoder, tmp_path, monkeypatch):
    """Dev scores that are made up: the second of three looks is the best, and as good as a later one."""
    kept, recipe = [], recipe_for(encoder, toy_task("sequence"))
    for choose in ("best", "last"):
        scores = iter([-0.1, 0.9, 0.9, 0.8])  # the last one is of the chosen weights, in float32
        monkeypatch.setattr(finetune.Prepared, "score", lambda self, gold, predicted, scores=scores: next(scores))
        monkeypatch.setattr("acclimate.methods.recipes.finetune.constant_on_dev", lambda task, examples=None: -1.0)
        monkeypatch.setattr(finetune, "nothing_learnt", lambda *looks, **measures: "")
        seen = {}

        def watch(told, seen=seen):
            seen[told.done] = told.values.get("dev")

        short = replace(recipe, choose=choose, looks=3, plan=replace(recipe.plan, steps=3))
        checkpoint = finetune.adapt(short, tmp_path / choose, watch=watch)
        assert seen == {1: -0.1, 2: 0.9, 3: 0.9}
        assert dev_score(tmp_path / choose) == 0.8
        kept.append(load_file(checkpoint.path / "model.safetensors"))
        rows = encode_rows(toy_task("sequence").examples("dev"), load_tokenizer(checkpoint.path), 32)
        predicted = task_loss.predict(load_finetuned(checkpoint.path), rows, toy_task("sequence").labels)
        assert predicted_dev(tmp_path / choose) == predicted
    monkeypatch.undo()
    stopped_at_two = replace(recipe, choose="last", looks=1, plan=replace(recipe.plan, steps=3))
    whole = load_file(finetune.adapt(stopped_at_two, tmp_path / "whole").path / "model.safetensors")
    assert all(torch.equal(value, kept[1][name]) for name, value in whole.items())
    assert any(not torch.equal(value, kept[0][name]) for name, value in whole.items())


def test_looks_are_evenly_spaced_and_the_last_is_at_the_end(recipe, tmp_path):
    for steps, count, expected in ((10, 4, [2, 5, 8, 10]), (2, 10, [1, 2])):
        short = replace(recipe, looks=count, plan=replace(recipe.plan, steps=steps))
        finetune.adapt(short, tmp_path / str(steps))
        assert [step for step, _ in files.read_record(tmp_path / str(steps) / DEV)] == expected


def test_the_test_set_is_not_opened_before_testing(recipe, tmp_path, monkeypatch):
    opened = []
    examples, unseal = Prepared.examples, Prepared.unseal

    def watched(self, split):
        opened.append(split)
        return examples(self, split)

    def watched_seal(self, by, **places):
        opened.append(f"labels, by {by}")
        return unseal(self, by, **places)

    monkeypatch.setattr(Prepared, "examples", watched)
    monkeypatch.setattr(Prepared, "unseal", watched_seal)
    checkpoint = finetune.adapt(replace(recipe, plan=replace(recipe.plan, steps=2)), tmp_path)
    assert set(opened) == {"train", "dev"}, "no look at the test set"
    provenance = json.loads((tmp_path / "checkpoint" / "provenance.json").read_text())
    assert set(provenance["sources"]) == {"about", "train", "dev", "model"}

    original = task_loss.predict

    def predict(*arguments, **named):
        opened.append("predicted")
        return original(*arguments, **named)

    monkeypatch.setattr(task_loss, "predict", predict)
    finetune.test(checkpoint, finetune.open_prepared(recipe.task), by="seed 0", watch=unwatched)
    assert opened[-3:] == ["test", "predicted", "labels, by seed 0"]


def test_a_checkpoint_of_another_task_is_not_tested(recipe, toy_task, tmp_path):
    checkpoint = finetune.adapt(replace(recipe, plan=replace(recipe.plan, steps=1)), tmp_path)
    other = toy_task("score")
    before = other.looks()
    with pytest.raises(ValueError, match=r"for kind 'sequence' with labels .soil, orbit, heart.* is of kind 'score'"):
        finetune.test(checkpoint, other, by="nobody", watch=unwatched)
    assert other.looks() == before


@pytest.mark.parametrize(("name", "kind"), [("task", "sequence"), ("task, several labels", "multilabel"),
                                            ("task, a number", "score"), ("task, tags", "tokens"),
                                            ("task, spans", "span")])  # fmt: skip
def test_the_loss_is_the_formula_written_out(name, kind):
    """Two rows, one by one: mean -log p of the label; of labels and rows; squared error; of tags; of both ends."""
    case = conformance.OBJECTIVES[name]()
    batch = case.stream(0).take(np.array([2, 5]))
    objective = case.objective(0.0)
    losses = []
    targets = batch.rows["label"] if "label" in batch.rows else np.split(batch.tokens["tags"], batch.offsets[1:-1])
    for row, label in enumerate(targets):
        ids = torch.from_numpy(batch.ids[batch.offsets[row] : batch.offsets[row + 1]])
        with torch.no_grad():
            said = objective.model.eval()(input_ids=ids[None])
        names = ("start_logits", "end_logits") if kind == "span" else ("logits",)
        logits, *others = (said[name][0].double().numpy() for name in names)
        if kind == "span":
            losses += [-log_softmax(each)[at] for each, at in zip((logits, *others), label, strict=True)]
        elif kind == "sequence":
            losses.append(-log_softmax(logits)[label])
        elif kind == "multilabel":
            losses += [
                -np.log(expit(logit) if has else 1 - expit(logit)) for logit, has in zip(logits, label, strict=True)
            ]
        elif kind == "tokens":
            losses += [-log_softmax(logit)[tag] for logit, tag in zip(logits, label, strict=True) if tag >= 0]
        else:
            losses.append((logits[0] - label) ** 2)
    plan = Plan(steps=1, batch=2, precision="float32", piece_tokens=16)
    [step] = train(objective, lambda step: batch, plan, adamw(objective, plan))
    assert step.loss == pytest.approx(np.mean(losses), abs=1e-5)


def test_predicting_keeps_the_order_of_the_rows_and_the_mode_of_the_model(tuned):
    task, _, out = tuned
    model = load_finetuned(out / "checkpoint").train()
    rows = encode_rows(task.examples("test"), load_tokenizer(out / "checkpoint"), task.max_tokens, task.kind)
    texts = [example.text for example in task.examples("test")]
    together = task_loss.predict(model, rows, task.labels, texts=texts)
    assert model.training
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = task_loss.predict(model, rows.take(order), task.labels, texts=texts)
    if task.kind == "score":
        assert shuffled == pytest.approx([together[row] for row in order], rel=1e-5)
    elif task.kind in ("tokens", "span"):
        assert shuffled == together  # rows say which example they are of
    else:
        assert shuffled == [together[row] for row in order]


def test_the_stages_of_a_study_hand_on_what_json_can_hold(tuned, encoder, tmp_path):
    task, score, out = tuned
    shutil.copytree(out, tmp_path / "fit")  # where it is found done
    stated = settings.to_mapping(recipe_for(encoder, task, steps=80))
    result = work.fine_tune(out=tmp_path / "fit", watch=unwatched, recipe=stated, task=task.path, model=encoder)
    assert result == json.loads(json.dumps(result))
    assert result["dev"] == score.dev
    tested = work.test(out=tmp_path, watch=unwatched, by="a stage", task=task.path, tuned=tmp_path / "fit")
    assert json.loads(json.dumps(tested))["test"] == score.test
    assert [label_of(label) for label in json.loads(json.dumps(tested))["predicted"]] == list(score.predicted)
    assert task.looks()[-1]["by"] == "a stage"
