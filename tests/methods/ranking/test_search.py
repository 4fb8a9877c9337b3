"""Documents ranked by the cosine of vectors, and the fine-tuning on pairs of a query and a relevant document."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import acclimate
from acclimate.core.types import Checkpoint, unwatched
from acclimate.methods.ranking import search
from acclimate.methods.ranking.search import PairContrast, fine_tune, rankings, training_queries
from acclimate.methods.recipes.finetune import FinetuneRecipe
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.training.objective import measure
from acclimate.training.plan import Plan
from conformance import toy_rows
from families import FAMILIES
from search_files import write_collection, write_toy
from sentence_model import make_sentence_model


def prepared(folder: Path, place: Path) -> Prepared:
    return prepare(read_files(LabelledFiles(folder, max_tokens=32)).task(), folder, place / "data")


def test_documents_are_ranked_by_cosine_and_a_query_does_not_find_itself(encoder, tmp_path):
    documents = {f"d{at}": text for at, text in enumerate(("the moon", "clay and loam", "a moon", "valve", "the moon"))}
    documents |= {"q0": "a small moon", "q1": "aorta"}  # the first query itself, and a document with an equal id
    queries = {"q0": "small moon", "q1": "clay", "q2": "solar"}
    judged = {"dev": [("q2", "d0", 1)], "test": [("q0", "d0", 1), ("q1", "d1", 1)]}
    task = prepared(write_collection(tmp_path / "toy", documents, queries, judged), tmp_path)
    vectors = acclimate.embed(encoder, [*documents.values(), *queries.values()], progress=False).astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = []
    for query in (0, 1):
        cosines = vectors[:7] @ vectors[7 + query]
        order = sorted(range(7), key=lambda at: (-round(float(cosines[at]), 5), at))
        names = [name for name in (list(documents)[at] for at in order) if (query, name) != (0, "q0")]
        expected.append(tuple(names))
    assert rankings(encoder, task, "test") == expected
    tested = search.test(Checkpoint(encoder), task, by="test untouched", watch=unwatched)
    assert tested["predicted"] == tuple(expected)
    assert len(task.looks()) == 1


def test_without_training_queries_the_encoder_stays_as_it_is(encoder, tmp_path):
    model = make_sentence_model(encoder, tmp_path / "model", old=False, pooling="cls")
    (model / "sentence_bert_config.json").write_text('{"max_seq_length": 64, "do_lower_case": false}')
    task = prepared(write_toy(tmp_path / "toy"), tmp_path)
    result = fine_tune(FinetuneRecipe(model=str(model), task=task.path), tmp_path / "run")
    texts = ["the moon and the clay", "valve"]
    written = acclimate.embed(tmp_path / "run" / "checkpoint", texts, progress=False)
    np.testing.assert_array_equal(written, acclimate.embed(model, texts, progress=False))
    assert (result["steps"], result["looks"], result["learnt"]) == (0, [[0, result["dev"]]], True)
    assert result["predicted_dev"] == rankings(model, task, "dev")
    lengths = tmp_path / "run" / "checkpoint" / "sentence_bert_config.json"
    assert json.loads(lengths.read_text())["max_seq_length"] == 32  # as the task cuts texts


def test_training_on_pairs_raises_the_score_and_the_better_look_is_written(encoder, tmp_path):
    task = prepared(write_toy(tmp_path / "toy", train=True), tmp_path)
    assert len(training_queries(task)) == 24
    recipe = FinetuneRecipe(model=str(encoder), task=task.path, epochs=0.0, plan=Plan(steps=40, batch=8, rate=5e-3))
    recipe = replace(recipe, rate_by_width=False, least_steps=0, most_epochs=0.0)
    result = fine_tune(recipe, tmp_path / "run")
    (first, before), (last, after) = result["looks"]
    assert (first, last, result["steps"]) == (0, 40, 40)
    assert result["dev"] == max(before, after)
    assert after > before + 0.2
    assert fine_tune(recipe, tmp_path / "run") == result  # a second call trains nothing


@torch.no_grad()
@pytest.mark.parametrize("read_out", ["mean", "first"])
def test_the_loss_is_that_of_each_document_among_the_documents_of_the_step(read_out):
    """-log softmax of cosine / .05, row by row with the plain model: queries are the even rows, documents the odd."""
    model, batch = FAMILIES["bert"](), toy_rows(0, 0).take(np.arange(6))
    states = [
        model.bert(input_ids=torch.from_numpy(batch.take(np.array([row])).ids)[None]).last_hidden_state[0]
        for row in range(6)
    ]
    vectors = torch.stack([state.mean(0) if read_out == "mean" else state[0] for state in states])
    vectors = vectors / vectors.norm(dim=1, keepdim=True)
    similarity = vectors[0::2] @ vectors[1::2].T / 0.05
    expected = -float(torch.log_softmax(similarity, 1).diag().mean())
    for most in (1, 1000):
        loss = measure(PairContrast(model, read_out), [batch], Plan(precision="float32", piece_tokens=most))
        assert loss["contrast"] == pytest.approx(expected, rel=1e-4)
