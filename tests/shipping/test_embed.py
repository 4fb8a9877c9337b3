"""Vectors of texts are the numbers that sentence-transformers computes from the same files."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

import acclimate
from acclimate.models.classifier import load_finetuned
from acclimate.models.configuration import longest_of_config
from acclimate.models.encoder import encoder_of
from acclimate.shipping import embed as embedding
from acclimate.shipping.embed import load_embedder
from acclimate.shipping.ship import ship
from finished import finished_race, only_baseline
from sentence_model import Sentences, make_sentence_model

TEXTS = ["the heart of the moon", "clay", "a small comet over a large root and that was found in time " * 3]


@torch.no_grad()
def mean_states(model, tokenizer):
    longest = min(longest_of_config(model.config), tokenizer.model_max_length)
    rows = [tokenizer(text, truncation=True, max_length=longest, return_tensors="pt") for text in TEXTS]
    return torch.stack([model(**row).last_hidden_state[0].mean(0) for row in rows])


@pytest.mark.parametrize(("old", "pooling"), [(True, "mean"), (False, "mean"), (False, "cls")])
def test_modules_decide_on_pooling_layers_length_and_prompt(encoder, tmp_path, old, pooling):
    model = make_sentence_model(encoder, tmp_path / "model", old=old, pooling=pooling)
    expected = Sentences(model).vectors(TEXTS).numpy()
    np.testing.assert_allclose(acclimate.embed(model, TEXTS, progress=False), expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("part", ["pooling", "activation", "module", "prompt"])
def test_a_part_that_is_not_known_is_refused_with_its_file(encoder, tmp_path, part):
    model = make_sentence_model(encoder, tmp_path / "model", old=False, pooling="max" if part == "pooling" else "cls")
    edits = {
        "pooling": ("1_Pooling/config.json", {}),
        "activation": ("2_Dense/config.json", {"activation_function": "torch.nn.modules.activation.GELU"}),
        "module": ("modules.json", {"type": "sentence_transformers.base.modules.WeightedLayerPooling"}),
        "prompt": ("1_Pooling/config.json", {"include_prompt": False}),
    }
    name, edit = edits[part]
    content = json.loads((model / name).read_text())
    (content[-1] if isinstance(content, list) else content).update(edit)
    (model / name).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rf"{name}: .*not supported.*sentence-transformers"):
        load_embedder(model)


def test_without_modules_a_vector_is_the_mean_of_the_last_states(encoder, tmp_path):
    expected = mean_states(AutoModel.from_pretrained(encoder).eval(), AutoTokenizer.from_pretrained(encoder))
    vectors = acclimate.embed(encoder, [{"body": text} for text in TEXTS], text="body", progress=False)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_files_hold_the_vectors_of_all_chunks_in_order(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr("acclimate.shipping.predict.CHUNK", 2)
    table = tmp_path / "texts.jsonl"
    table.write_text("".join(json.dumps({"text": text, "key": f"k{at}"}) + "\n" for at, text in enumerate(TEXTS)))
    expected = acclimate.embed(encoder, TEXTS, progress=False)
    shape = acclimate.embed(encoder, table, out=tmp_path / "v.npy", progress=False)
    assert shape == expected.shape
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)
    np.testing.assert_allclose(acclimate.embed(encoder, table, progress=False), expected, atol=1e-5)
    acclimate.embed(encoder, table, out=tmp_path / "v.parquet", id="key", progress=False)
    written = pq.read_table(tmp_path / "v.parquet")
    assert written["id"].to_pylist() == ["k0", "k1", "k2"]
    np.testing.assert_allclose(written["vector"].to_pylist(), expected, atol=1e-5)


def test_a_race_and_its_shipment_give_the_mean_of_the_last_states(tmp_path):
    run = finished_race(tmp_path / "run", pooling="first")
    ship(run, tmp_path / "shipped")
    expected = mean_states(encoder_of(load_finetuned(run / "use")), AutoTokenizer.from_pretrained(run / "use"))
    for model in (run, run / "use", tmp_path / "shipped"):
        np.testing.assert_allclose(acclimate.embed(model, TEXTS, progress=False), expected, atol=1e-5)
    only_baseline(run)
    with pytest.raises(ValueError, match="without an encoder"):
        acclimate.embed(run, TEXTS, progress=False)


def test_bad_input_is_refused_before_anything_is_written(encoder, tmp_path):
    table = tmp_path / "texts.csv"
    table.write_text('text\na\n""\n')
    with pytest.raises(ValueError, match=r"texts\.csv:3.*empty"):
        acclimate.embed(encoder, table, out=tmp_path / "v.npy", progress=False)
    with pytest.raises(TypeError, match="out applies only to a file"):
        acclimate.embed(encoder, ["a"], out=tmp_path / "v.npy", progress=False)
    assert not [*tmp_path.glob("v.*")]
    assert embedding.embed(load_embedder(encoder), []).shape == (0, 32)
