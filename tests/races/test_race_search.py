"""A race on a search task: encoders by their vectors against BM25, and what it hands over."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acclimate
from acclimate.data.doctor import examine, removed
from acclimate.methods.ranking.bm25 import Bm25
from acclimate.methods.ranking.search import rankings
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.tasks.prepared import open_prepared
from search_files import write_toy
from sentence_model import make_sentence_model


@pytest.fixture(scope="module")
def options(toy_inputs: Path, encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    model = make_sentence_model(encoder, tmp_path_factory.mktemp("model") / "model", old=False, pooling="cls")
    dapt = {"max_tokens": 32, "epochs": 0.0, "plan": {"steps": 8, "batch": 8, "rate": 2e-3}}
    about = {"seeds": 2, "contestants": ["DAPT", "TF-IDF"], "dapt": dapt, "max_tokens": 32, "budget": "none"}
    return {"corpus": toy_inputs / "domain.txt", "model": model, "progress": False, **about}


@pytest.fixture(scope="module")
def raced(options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("search")
    return acclimate.race(write_toy(place / "toy"), **options, out=place / "run")


def test_contestants_are_scored_by_their_rankings_and_compared_per_query(raced, options):
    outcome, task = raced.outcome, open_prepared(raced.path / "data")
    scores = {(score.contestant, score.seed): score for score in outcome.scores}
    assert {name for name, _ in scores} == {"untouched", "DAPT", "BM25"}
    assert scores["untouched", 0].predicted == tuple(rankings(options["model"], task, "test"))
    assert scores["untouched", 0].test == scores["untouched", 1].test
    assert scores["BM25", 0].predicted == tuple(Bm25().rankings(task, "test"))
    gold = [f"d{id[1:]}" for id in scores["BM25", 0].ids]
    first = [1 / np.log2(2 + ranked[:10].index(own)) if own in ranked[:10] else 0.0
             for own, ranked in zip(gold, scores["DAPT", 1].predicted, strict=True)]  # fmt: skip
    assert scores["DAPT", 1].test == pytest.approx(np.mean(first))
    assert len({score.adaptation for (name, _), score in scores.items() if name == "DAPT"}) == 2
    assert {against.name for against in outcome.against} == {"untouched", "BM25"}
    text = str(raced)
    assert "nDCG@10" in text
    assert "recall@100" in (raced.path / "report.html").read_text()


def test_the_encoder_is_handed_over_for_embed(raced):
    """BM25 finds all documents of the toy, so it is the model to use, and the best encoder is beside it."""
    assert raced.outcome.race.use == "BM25"
    assert json.loads((raced.path / "use" / "baseline.json").read_text())["k1"] == 1.2
    task = open_prepared(raced.path / "data")
    best = max(
        (score for score in raced.outcome.scores if score.contestant == raced.encoder), key=lambda score: score.dev
    )
    assert tuple(rankings(raced.path / "encoder", task, "test")) == best.predicted
    vectors = acclimate.embed(raced.path / "encoder", ["the moon"], progress=False)
    assert np.linalg.norm(vectors) == pytest.approx(1)  # by the last module
    with pytest.raises(ValueError, match=r"without an encoder, so it has no vectors. Name a contestant"):
        raced.embed(["the moon"])


def test_predict_and_ship_name_embed_instead(raced, tmp_path):
    for model in (raced.path, raced.path / "encoder"):
        with pytest.raises(ValueError, match=r"predicts no labels. Compute vectors with acclimate embed"):
            acclimate.predict(model, ["a moon"])
    with pytest.raises(ValueError, match=r"needs no shipping: .*encoder is ready for acclimate embed"):
        raced.ship(tmp_path / "shipped", contestant=raced.encoder)


def test_a_dry_run_counts_training_on_pairs(options, tmp_path):
    budget = {**options, "budget": "10min", "dry_run": True, "out": tmp_path / "run"}
    plans = [acclimate.race(write_toy(tmp_path / str(train), train=train), **budget) for train in (False, True)]
    assert all("fine-tun" in str(plan) for plan in plans)
    assert str(plans[0]) != str(plans[1])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"folds": 3}, "a search task is not scored by cross-validation"),
        ({"rows": 5}, "samples training rows, which a search task lacks"),
        ({"probe_only": True}, "a task of kind 'search' cannot be probed"),
        ({"learning_curve": True}, "does not support search tasks"),
        ({"finetune__lora_rank": 8}, r"finetune\.lora_rank = 8 has no effect on toy"),
        ({"contestants": ["frozen"]}, "frozen does not support tasks of kind 'search'"),
        ({"text": "body"}, "is read in BEIR's format"),
    ],
)
def test_what_a_search_task_lacks_is_refused(options, tmp_path, more, message):
    with pytest.raises(ValueError, match=message):
        acclimate.race(write_toy(tmp_path / "toy"), **{**options, **more}, out=tmp_path / "run")


def test_a_training_query_with_the_words_of_a_test_query_is_a_leak(options, tmp_path):
    folder = write_toy(tmp_path / "toy", train=True)
    rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    rows[0]["text"] = rows[39]["text"]  # q0 is of train, q39 of test
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    labelled = read_files(LabelledFiles(folder, max_tokens=32))
    examination = examine(labelled, {}, model=None, near=0.0)
    assert examination.leaked["train"] == {rows[39]["text"]}
    assert any("of the 10 test texts" in finding.what for finding in examination.findings)
    left = removed(labelled, examination)
    queries = {query for row in left.splits["train"] for query in row.label}
    assert rows[39]["text"] not in queries
    assert len(left.splits["train"]) == 40
