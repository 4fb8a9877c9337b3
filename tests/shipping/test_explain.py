"""Explanations name the word that decides the label, and add up to the change of the log odds."""

import json
import random
import shutil

import numpy as np
import pytest
import torch

from acclimate.core.types import Example
from acclimate.methods.task_loss import TaskLoss
from acclimate.models.encoder import save_model
from acclimate.shipping.explain import explain, predict_and_explain
from acclimate.shipping.predict import load_predictor, predict
from acclimate.tasks.rows import encode_rows, with_labels
from acclimate.training.loop import adamw, train
from acclimate.training.plan import Plan
from finished import LABELS, MAX_TOKENS, finished_race, only_baseline

DECIDING = {"acid": "word1", "base": "word2", "salt": "word3"}


def keyed(count: int, seed: int) -> list[Example]:
    """Texts of ten words, of which one decides the label."""
    generator = random.Random(seed)
    examples = []
    for number in range(count):
        label = LABELS[number % 3]
        words = [f"word{generator.randrange(4, 60)}" for _ in range(9)]
        words.insert(generator.randrange(10), DECIDING[label])
        examples.append(Example(str(number), " ".join(words), label))
    return examples


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    """A model that was trained on such texts."""
    run = finished_race(tmp_path_factory.mktemp("explain") / "run", pooling="mean")
    start = load_predictor(run)
    model, tokenizer = start.model, start.tokenizer
    examples = keyed(32 * 60, 0)
    rows = with_labels(encode_rows(examples, tokenizer, MAX_TOKENS), examples, "sequence", LABELS)
    plan = Plan(steps=60, batch=32, rate=5e-3, precision="float32")
    objective = TaskLoss(model)
    with torch.random.fork_rng(devices=[]):
        for _ in train(objective, lambda step: rows.take(np.arange(32) + 32 * step), plan, adamw(objective, plan)):
            pass
    save_model(model.eval(), tokenizer, run / "keyed")
    shutil.copy(run / "use" / "race.json", run / "keyed")
    return load_predictor(run / "keyed")


def test_the_word_that_decides_the_label_has_the_largest_contribution(predictor, monkeypatch):
    examples = keyed(60, 1)
    predictions = predictor.predict(examples)
    assert sum(made.label == one.label for made, one in zip(predictions, examples, strict=True)) >= 57
    explanations = explain(predictor, examples, predictions)
    largest = [max(why.words, key=lambda word: word.contribution).text for why in explanations]
    decided = [DECIDING[made.label] for made in predictions]
    assert sum(map(str.__eq__, largest, decided)) >= 57
    for example, made, why in zip(examples, predictions, explanations, strict=True):
        assert why.label == made.label
        assert [example.text[word.begin : word.end] for word in why.words] == example.text.split()
        assert why.output == pytest.approx(np.log(made.probability / (1 - made.probability)), abs=1e-3)
        total = sum(word.contribution for word in why.words)
        assert total == pytest.approx(why.output - why.baseline, abs=0.02 * abs(why.output - why.baseline) + 0.01)
        assert why.error < 0.02
    monkeypatch.setattr("acclimate.shipping.explain.MOST_TOKENS", 40)  # three points of the path at once
    [in_pieces] = explain(predictor, examples[:1], predictions[:1])
    assert in_pieces.output == pytest.approx(explanations[0].output, abs=1e-5)
    contributions = [[word.contribution for word in one.words] for one in (in_pieces, explanations[0])]
    assert contributions[0] == pytest.approx(contributions[1], abs=1e-4)


@pytest.mark.parametrize(("kind", "pooling"), [("sequence", "pooler"), ("score", "pooler"), ("multilabel", "first")])
def test_contributions_of_pairs_add_up_for_every_kind(tmp_path, kind, pooling):
    predictor = load_predictor(finished_race(tmp_path / "run", kind, paired=True, pooling=pooling))
    examples = [Example("", "word1 word2", "", "word3"), Example("", "word4", "", None)]
    predictions = predictor.predict(examples)
    explanations = explain(predictor, examples, predictions)
    assert [[word.part for word in why.words] for why in explanations] == [["text", "text", "pair"], ["text"]]
    for made, why in zip(predictions, explanations, strict=True):
        assert why.error < 0.02
        if kind == "score":
            assert why.output == pytest.approx(made.label, abs=1e-4)
        else:
            probability = max(made.probabilities.values())
            assert why.output == pytest.approx(np.log(probability / (1 - probability)), abs=1e-3)


def test_terms_contribute_coefficient_times_value(tmp_path):
    run = finished_race(tmp_path / "run", labels=LABELS[:2])
    only_baseline(run)
    predictor = load_predictor(run)
    examples = [Example("", "word1 word2 word17 word2 unheard", "")]
    [made], linear = predictor.predict(examples), predictor.model.linear
    [why] = explain(predictor, examples, [made])
    assert why.output == pytest.approx(np.log(made.probability / (1 - made.probability)))
    margin_F = linear.weights_CF[linear.labels.index(made.label)] * 2 - linear.weights_CF.sum(axis=0)
    row_F = predictor.model.features(examples).toarray()[0]
    assert sum(word.contribution for word in why.words) == pytest.approx(float(margin_F @ row_F))
    assert "unheard" not in [word.text for word in why.words]


def test_files_are_escaped_and_hold_the_same(predictor, tmp_path):
    source = tmp_path / "in.jsonl"
    texts = ["word1 <script>alert(1)</script> word7 & word8", "word2"]
    source.write_text("".join(json.dumps({"id": "<b>", "text": text}) + "\n" for text in texts))
    model = predictor.model.name_or_path
    for ending in ("html", "jsonl"):
        predict_and_explain(model, source, tmp_path / "out.csv", tmp_path / f"why.{ending}")
    page = (tmp_path / "why.html").read_text()
    assert "<script" not in page
    assert "<b>" not in page
    assert '<h2 dir="auto">&lt;b&gt;: ' in page
    lines = [json.loads(line) for line in (tmp_path / "why.jsonl").read_text().splitlines()]
    assert [line["predicted"] for line in lines] == [made.label for made in predict(predictor, texts)]
    for line in lines:
        assert all(f'title="{word["contribution"]:+.3f}"' in page for word in line["words"])


def test_what_cannot_be_explained_is_refused_before_anything_is_written(tmp_path):
    run = finished_race(tmp_path / "run", "tokens")
    with pytest.raises(ValueError, match="not tags of words"):
        predict_and_explain(run, run / "data" / "test.jsonl", tmp_path / "out.jsonl", tmp_path / "why.html")
    with pytest.raises(ValueError, match=r"explain.*known format\. Use one of \.html, \.jsonl"):
        predict_and_explain(run, run / "data" / "test.jsonl", tmp_path / "out.jsonl", tmp_path / "why.txt")
    with pytest.raises(ValueError, match=r"explain.* is the file of --out too"):
        predict_and_explain(run, run / "data" / "test.jsonl", tmp_path / "out.jsonl", tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()
