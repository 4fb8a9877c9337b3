"""A shipment of any family and kind predicts the same in transformers as in acclimate, or transformers refuses it."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertForSequenceClassification,
    pipeline,
)

from acclimate.core import files
from acclimate.core.types import Example
from acclimate.methods.probe import load_encoder
from acclimate.models.classifier import load_finetuned
from acclimate.models.configuration import configuration_of
from acclimate.models.encoder import load_masked_language_model
from acclimate.models.formats import own_parts, own_weights, refuse_transformers
from acclimate.models.loading import identity
from acclimate.models.sentence_modules import sentence_modules
from acclimate.shipping.check import native_obstacle
from acclimate.shipping.form import OTHER_TAGS, Form
from acclimate.shipping.predict import load_predictor, predict
from acclimate.shipping.ship import ship
from acclimate.shipping.ways import try_ways
from acclimate.tasks.prepared import open_prepared
from families import CLASSIFIED
from finished import LABELS, finished_race

CLOSE = 1e-4
KINDS = ("sequence", "pairs", "multilabel", "score")
READS_MEAN = ("eurobert", "modernbert")  # families whose own class reads the mean
# How a family reads rows out is the same for all kinds of label, so all read-outs are tried on one kind.
GRID = [
    *((family, "sequence", pooling) for family in CLASSIFIED for pooling in ("pooler", "first", "mean")),
    *((family, kind, "first" if kind == "multilabel" else "pooler") for family in CLASSIFIED for kind in KINDS[1:]),
]
# The default suite has each kind, and families whose heads are made differently; of read-outs, those of a family whose
# own class reads the mean and of one whose own class does not. tests/models/test_native.py has all families and kinds.
FAST = {("bert", "sequence"), ("roberta", "score"), ("deberta-v2", "pairs"), ("modernbert", "multilabel")}
TAGGED = ("bert", "deberta-v2")
READ_OUT = [("bert", "mean"), ("eurobert", "mean")]


def grid():
    for family, kind, pooling in GRID:
        usual = pooling == ("first" if kind == "multilabel" else "pooler")
        fast = (usual and (family, kind) in FAST) or (family, pooling) in READ_OUT
        yield pytest.param(family, kind, pooling, marks=[] if fast else pytest.mark.slow)


def shipped_texts(run):
    examples = open_prepared(run / "data").examples("test")
    return [(one.text, one.pair) if one.pair else one.text for one in examples], [
        {"text": one.text, "text_pair": one.pair} if one.pair else {"text": one.text} for one in examples
    ]


@pytest.mark.parametrize(("family", "kind", "pooling"), list(grid()))
def test_the_pipeline_says_what_predict_does_or_refuses(tmp_path, family, kind, pooling):
    paired = kind == "pairs"
    run = finished_race(tmp_path / "run", "sequence" if paired else kind, paired=paired, family=family, pooling=pooling)
    shipped = ship(run, tmp_path / "out")
    texts, inputs = shipped_texts(run)
    expected = predict(shipped.path, texts)
    ways = {way.name: way for way in shipped.ways}
    if pooling == "mean" and family not in READS_MEAN:
        assert not ways["pipeline"].takes
        with pytest.raises(ValueError, match="Load this directory with acclimate predict or SentenceTransformer"):
            pipeline("text-classification", model=str(shipped.path))
        return
    assert ways["pipeline"].takes
    ask = pipeline("text-classification", model=str(shipped.path), truncation=True)
    if kind == "score":
        said = np.array([one["score"] for one in ask(inputs, function_to_apply="none")])
        numbers = np.array([one.label for one in expected])
        assert np.abs(said - numbers).max() <= CLOSE * np.ptp(numbers)
        assert np.ptp(numbers) > 0.1
        return
    rows = [{one["label"]: one["score"] for one in row} for row in ask(inputs, top_k=None)]
    for row, one in zip(rows, expected, strict=True):
        assert row == pytest.approx(dict(one.probabilities), abs=CLOSE)
        if kind != "multilabel":
            assert max(row, key=row.__getitem__) == one.label
    assert len({one.label for one in expected}) > 1


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[] if name in TAGGED else pytest.mark.slow) for name in CLASSIFIED]
)
def test_tags_of_words_are_the_same_in_the_pipeline(tmp_path, family):
    run = finished_race(tmp_path / "run", "tokens", family=family)
    shipped = ship(run, tmp_path / "out")
    assert {way.name: way.takes for way in shipped.ways}["pipeline"]
    texts = [text for text, _ in zip(*shipped_texts(run), strict=True) if len(text.split()) < 20]
    tag = pipeline("token-classification", model=str(shipped.path), aggregation_strategy="none", ignore_labels=[])
    tags = set()
    for text, one in zip(texts, predict(shipped.path, texts), strict=True):
        first = {}
        for piece in tag(text):
            first.setdefault(text[: piece["end"]].count(" "), piece)
        assert [first[word]["entity"] for word in range(len(one.label))] == list(one.label)
        assert [first[word]["score"] for word in range(len(one.label))] == pytest.approx(one.of_words, abs=CLOSE)
        tags.update(one.label)
    assert len(tags) > 1


@pytest.fixture(scope="module")
def of_means(tmp_path_factory):
    """A race whose model reads the mean, and its shipment; not to be changed."""
    run = finished_race(tmp_path_factory.mktemp("means") / "run", pooling="mean")
    return run, ship(run, run.with_name("out")).path


@pytest.mark.parametrize("place", ["use", "shipment"])
def test_another_name_of_the_class_does_not_make_transformers_load_what_it_cannot_compute(of_means, tmp_path, place):
    run, shipment = of_means
    where = shutil.copytree(shipment if place == "shipment" else run / "use", tmp_path / "model")
    path = where / "config.json"
    config = json.loads(path.read_text())
    autos = (AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoModelForTokenClassification)
    for name in ("BertForSequenceClassification", "BertModel", "Nonsense"):
        path.write_text(json.dumps(config | {"architectures": [name]}))
        for auto in autos:
            with pytest.raises(ValueError, match=r"bert with text_pooling=mean, .* acclimate predict"):
                auto.from_pretrained(where)
        with pytest.raises(OSError, match=r"no file named model\.safetensors"):
            BertForSequenceClassification.from_pretrained(where)


def test_sentence_transformers_form_gives_the_logits(of_means):
    """The files as the package reads them; where it is installed, `ship` compares with the package itself."""
    run, where = of_means
    modules = files.read_json(where / "modules.json")
    assert [module["type"].rpartition(".")[2] for module in modules] == ["Transformer", "Pooling", "Dense"]
    encoder, pooling, dense = (where / module["path"] for module in modules)
    about = files.read_json(pooling / "config.json")
    assert [name for name, value in about.items() if value is True] == ["pooling_mode_mean_tokens"]
    layer, shape = load_file(dense / "model.safetensors"), files.read_json(dense / "config.json")
    assert shape["activation_function"] == "torch.nn.modules.linear.Identity"
    assert (shape["out_features"], shape["in_features"]) == (len(LABELS), about["word_embedding_dimension"])
    longest = files.read_json(encoder / "sentence_bert_config.json")["max_seq_length"]
    tokenizer, model = AutoTokenizer.from_pretrained(encoder), AutoModel.from_pretrained(encoder)
    texts, _ = shipped_texts(run)
    read = tokenizer(texts, truncation=True, max_length=longest, padding=True, return_tensors="pt")
    with torch.no_grad():
        states, mask = model(**read).last_hidden_state, read["attention_mask"][..., None]
    logits = (states * mask).sum(1) / mask.sum(1) @ layer["linear.weight"].T + layer["linear.bias"]
    predictor = load_predictor(where)
    for row, one in zip(
        logits.softmax(-1).tolist(), predictor.predict(open_prepared(run / "data").examples("test")), strict=True
    ):
        assert dict(zip(predictor.labels, row, strict=True)) == pytest.approx(dict(one.probabilities), abs=CLOSE)


def test_a_shipment_on_the_hub_is_read_from_its_folders(of_means, monkeypatch):
    _, where = of_means
    config, expected = configuration_of(where), load_finetuned(where).state_dict()
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda repository, name: str(where / name))
    weights = own_weights("owner/name", config)
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], weight) for name, weight in expected.items())


def test_every_loader_reads_a_shipment_with_folders_and_its_identity_is_that_of_all_weights(of_means, tmp_path):
    where = shutil.copytree(of_means[1], tmp_path / "out")
    expected = load_finetuned(where).base_model.state_dict()
    for encoder in (load_masked_language_model(where).base_model, load_encoder(str(where))[0]):
        weights = encoder.state_dict()
        assert all(torch.equal(weights[name], weight) for name, weight in expected.items())
    before, file = identity(where), where / "0_Transformer" / "model.safetensors"
    weights = load_file(file)
    name = next(iter(weights))
    save_file({**weights, name: weights[name] + 1}, file, metadata={"format": "pt"})
    assert identity(where) != before
    with pytest.raises(files.DamagedError, match=r"0_Transformer/model\.safetensors"):
        load_finetuned(where)


def test_texts_that_are_too_long_are_compared_where_they_are_cut_and_said_to_be_none_for_tags(tmp_path):
    for kind, pooling in (("sequence", "first"), ("tokens", "pooler")):
        where = ship(finished_race(tmp_path / kind / "run", kind, pooling=pooling), tmp_path / kind / "out").path
        form, long = Form("", False), [Example(f"id{n}", "word1 word2 " * 200 + f"word{n}", "") for n in range(3)]
        [pipe, reference] = try_ways(where, long, form)
        said = "same predictions on 3 test texts" if kind == "sequence" else "not tried: no test text fits"
        assert (pipe.takes, pipe.result, reference.result) == (True, said, "same predictions")


def test_the_folder_of_the_encoder_is_an_ordinary_encoder_with_the_completed_tokenizer(tmp_path):
    where = ship(finished_race(tmp_path / "run", family="roberta", pooling="mean"), tmp_path / "out").path
    encoder = where / "0_Transformer"
    config = files.read_json(encoder / "config.json")
    assert config["model_type"] == "roberta"
    assert not {"acclimate_family", "acclimate_encoder", "text_pooling", "tag_layer"} & config.keys()
    configs = [files.read_json(place / "tokenizer_config.json") for place in (where, encoder)]
    for name in ("model_input_names", "model_max_length"):
        assert configs[0][name] == configs[1][name]
    assert sentence_modules(encoder) is None
    assert all(
        torch.equal(load_masked_language_model(encoder).base_model.state_dict()[name], weight)
        for name, weight in load_finetuned(where).base_model.state_dict().items()
        if "pooler" not in name
    )
    (encoder / "adapter_config.json").write_text("{}")
    with pytest.raises(files.DamagedError, match=r"0_Transformer/adapter_config\.json is not listed"):
        load_predictor(where)


def test_tags_of_another_scheme_are_refused_in_a_sentence(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    config, task = SimpleNamespace(id2label={0: "B-x", 1: "O"}), SimpleNamespace(kind="tokens", labels=("I-x", "O"))
    assert native_obstacle(config, task).startswith("its tags are of another scheme")
    refuse_transformers(tmp_path, own_parts(config) or OTHER_TAGS)
    assert files.read_json(tmp_path / "config.json")["model_type"].startswith("bert with tags of another scheme, which")


def test_a_shipment_without_its_encoder_is_refused(of_means, tmp_path):
    where = shutil.copytree(of_means[1], tmp_path / "out")
    shutil.rmtree(where / "0_Transformer")
    with pytest.raises(ValueError, match=r"0_Transformer|more than the weights"):
        load_finetuned(where)
