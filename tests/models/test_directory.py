"""A model that cannot be adapted is refused with one sentence, whoever reads it first."""

import json
import os
import shutil
import socket
from functools import reduce

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from tests.families import FAMILIES
from tokenizers import normalizers
from transformers import CONFIG_MAPPING, MODEL_FOR_MASKED_LM_MAPPING
from transformers.models.auto import modeling_auto

from acclimate.core import files
from acclimate.data.lengths import reader
from acclimate.models import directory, families
from acclimate.models.configuration import configuration_of, require_model
from acclimate.models.encoder import load_masked_language_model, save_model
from acclimate.models.loading import check_weights, load_tokenizer


def config(**fields):
    def write(place):
        about = json.loads((place / "config.json").read_text())
        (place / "config.json").write_text(json.dumps(about | fields))

    return write


def as_type(kind):
    def write(place):
        weights = load_file(place / "model.safetensors")
        weights["bert.encoder.layer.0.output.dense.weight"] = np.zeros((32, 64), kind)
        save_file(weights, place / "model.safetensors")

    return write


def without(field):
    def write(place):
        about = json.loads((place / "config.json").read_text())
        del about[field]
        (place / "config.json").write_text(json.dumps(about))

    return write


def named(old, new):
    """The weights with names that begin with `new` in place of `old`, or in front of all if that is empty."""

    def write(place):
        weights = load_file(place / "model.safetensors")
        save_file({name.replace(old, new, 1): weight for name, weight in weights.items()}, place / "model.safetensors")

    return write


def exported(name, content=b"x"):
    """The weights in another form, maybe in a folder."""

    def write(place):
        (place / "model.safetensors").unlink()
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(content)

    return write


def text(name, content):
    return lambda place: (place / name).write_text(content)


def only(name, content=b"x"):
    def write(place):
        shutil.rmtree(place)
        (place / name).parent.mkdir(parents=True)
        (place / name).write_bytes(content)

    return write


def emptied(place):
    shutil.rmtree(place)
    place.mkdir()


def in_a_folder(place):
    below = place / "0_Transformer"
    shutil.copytree(place, below)
    for name in ("config.json", "model.safetensors"):
        (place / name).unlink()
    (place / "modules.json").write_text("[]")


def pipe(name):
    def make(place):
        (place / name).unlink(missing_ok=True)
        os.mkfifo(place / name)

    return make


def listening(place):
    (place / "model.safetensors").unlink()
    here = os.getcwd()
    os.chdir(place)  # a socket's path is at most 108 bytes
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("model.safetensors")
    finally:
        os.chdir(here)


def linked(target):
    def make(place):
        (place / "model.safetensors").unlink()
        (place / "model.safetensors").symlink_to(target)

    return make


def shards(place):
    os.rename(place / "model.safetensors", place / "model-00001-of-00003.safetensors")


def shard_of_the_index(place):
    (place / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-2.safetensors"}}')


def both(*changes):
    return lambda place: [change(place) for change in changes]


ROBERTA = config(model_type="roberta", architectures=None, pad_token_id=0)
ELECTRA = config(model_type="electra", architectures=None)
CASES = {
    "gpt2": (config(model_type="gpt2", architectures=["GPT2LMHeadModel"]), r"a decoder \(GPT2LMHeadModel\)"),
    "unknown decoder": (config(model_type="new", architectures=["NewForCausalLM"]), r"a decoder \(NewForCausalLM\)"),
    "bert as decoder": (config(is_decoder=True), r"a decoder \(is_decoder"),
    "t5": (config(model_type="t5", is_encoder_decoder=True), "an encoder-decoder"),
    "vit": (config(model_type="vit", architectures=["ViTModel"]), r"no text encoder \(ViTModel\): vit has no masked"),
    "layoutlm": (config(model_type="layoutlm", architectures=None), r"no usable text encoder \(layoutlm\): it needs"),
    "unknown family": (config(model_type="own", architectures=["Own"]), "'own', a family that transformers does not"),
    "no family": (without("model_type"), 'has no model_type. .* such as "model_type": "bert"'),
    "empty quantisation": (config(quantization_config={}), r"quantization_config in config.json is empty \({}\)"),
    "remote code": (config(model_type="own", auto_map={"AutoModel": "own.Model"}), "code .*AutoModel = 'own.Model'"),
    "bitsandbytes": (config(quantization_config={"quant_method": "bitsandbytes"}), r"quantised .*bitsandbytes"),
    "compressed": (config(compression_config={"format": "int8"}), "quantised weights"),
    "gptq": (text("quantize_config.json", "{}"), r"quantised weights \(quantize_config\.json"),
    "int8 weights": (as_type(np.int8), r"quantised weights \(bert\..*dense\.weight is I8"),
    "gguf": (only("model.gguf"), r"quantised weights \(model\.gguf\)"),
    "onnx": (only("model.onnx"), r"ONNX model \(model\.onnx\)"),
    "onnx in a folder": (exported("onnx/model.onnx"), r"ONNX model \(onnx/model\.onnx\)"),
    "tensorflow": (exported("tf_model.h5"), r"TensorFlow model \(tf_model\.h5\)"),
    "onnx beside a trainer's state": (
        both(exported("training_args.bin"), text("model.onnx", "x")), r"ONNX model \(model\.onnx\)"
    ),
    "roberta over bert": (ROBERTA, r"is 'roberta', but bert\..*\.weight is the name of a weight of bert\."),
    "wrapped bert under electra": (
        both(named("", "module."), ELECTRA), r"model_type is 'electra', but module\.bert\..* weight of bert"
    ),
    "bert over modernbert": (named("bert.embeddings.word_", "model.embeddings.tok_"), "'bert', but .* of modernbert"),
    "other vocabulary": (config(vocab_size=50), r"vocab_size = 50, but bert\.emb.*\.weight has 200 rows"),
    "list for a number": (config(max_position_embeddings=[64]), r"max_position_embeddings in .* is \[64\], but must"),
    "text for a number": (config(num_attention_heads="abc"), r"num_attention_heads in config\.json is 'abc', but must"),
    "more positions": (config(max_position_embeddings=1000), r"max_position_embeddings = 1000, but .* has \d+ rows"),
    "no positions": (without("max_position_embeddings"), r"max_position_embeddings = 512, but .* rows"),
    "odd heads": (config(num_attention_heads=3), r"num_attention_heads = 3 does not divide hidden_size = 32"),
    "unknown activation": (config(hidden_act="nope"), r"hidden_act = 'nope' is no activation"),
    "padding without a vector": (config(pad_token_id=999), r"pad_token_id = 999 is not below vocab_size = 200"),
    "fewer positions than padding": (
        config(model_type="roberta", max_position_embeddings=64, pad_token_id=199),
        r"max_position_embeddings in config\.json is 64, but roberta counts positions from pad_token_id = 199",
    ),
    "layers renamed": (named("bert.encoder.", "bert.enc."), r"of 2 has no .* begins with bert\.encoder\.layer\.0\."),
    "lost layer": (config(num_hidden_layers=3), "of 3 has no weight"),
    "names within layers": (named("attention.self", "attention.own"), r"missing .*\(12\): bert\..*\.self\.key"),
    "a bias within a layer": (named("layer.1.output.dense.bias", "layer.1.output.bias"), r"\(1\): .*dense\.bias"),
    "no layer at all": (named("bert.", "something."), "begin with 'something.'"),
    "empty": (emptied, "the directory is empty"),
    "sentence-transformers": (in_a_folder, r"encoder .* is in .*0_Transformer\. Give that path"),
    "compiled": (named("", "_orig_mod."), "42 of 42 weight names begin with '_orig_mod.'"),
    "peft": (text("adapter_config.json", '{"base_model_name_or_path": "a/b"}'), r"_config\.json: adapters .*'a/b'"),
    "missing shards": (shards, "2 of 3 files of the weights are missing: model-00002-of-00003"),
    "shard of an index": (shard_of_the_index, r"1 of 1 files of the weights are missing: model-2\.safetensors"),
    "pipe for weights": (pipe("model.safetensors"), r"model\.safetensors: is a named pipe, not a file"),
    "pipe that nobody asked for": (pipe("added_tokens.json"), r"added_tokens\.json: is a named pipe"),
    "socket": (listening, r"model\.safetensors: is a socket"),
    "device": (linked("/dev/zero"), r"model\.safetensors: is a device"),
    "broken link": (linked("nowhere"), r"model\.safetensors: cannot be opened: No such file"),
    "negative length": (text("tokenizer_config.json", '{"model_max_length": -5}'), r"model_max_length = -5 is not"),
    "key twice": (text("tokenizer_config.json", '{"a": 1, "a": 2}'), r"_config\.json: the name 'a' occurs twice"),
}  # fmt: skip
HEAD = {"architectures": ["BertForSequenceClassification"]}
CASES |= {
    "gaps": (config(**HEAD, id2label={"0": "a", "2": "b"}), r"config\.json: id2label has the numbers 0, 2"),
    "one name twice": (config(**HEAD, id2label={"0": "a", "1": "a"}), r"id2label has 'a' for 2 classes"),
    "labels that are no names": (config(**HEAD, id2label={"0": 5, "1": "a"}), r"id2label has 5, which is not text"),
    "labels in a list": (config(**HEAD, id2label=["a", "b"]), r"id2label is not an object"),
    "numbers of several": (
        config(**HEAD, problem_type="regression", id2label={"0": "a", "1": "b"}),
        "'regression', which",
    ),
}
READERS = [reader, check_weights, load_tokenizer, load_masked_language_model, configuration_of]


def refusal(readers, place, says):
    """The sentence with which all of them refuse a model."""
    sentences = set()
    for read in readers:
        with pytest.raises(ValueError, match=says) as error:
            read(str(place))
        sentences.add(str(error.value))
    [sentence] = sentences
    return sentence


@pytest.mark.parametrize("case", CASES)
def test_every_reader_refuses_a_model_that_cannot_be_adapted_with_the_same_sentence(case, checkpoint):
    change, says = CASES[case]
    change(checkpoint)
    assert str(checkpoint) in refusal(READERS, checkpoint, says)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_checkpoints_of_every_family_pass_with_and_without_a_head(family, tmp_path, tokenizer):
    model = FAMILIES[family]()
    save_model(model, tokenizer, tmp_path / "model")
    save_model(model.base_model, tokenizer, tmp_path / "bare")
    for place in ("model", "bare"):
        directory.require_usable(tmp_path / place)
        check_weights(tmp_path / place)


def test_labels_of_a_model_without_a_head_are_not_read(checkpoint):
    config(id2label={"0": "a", "1": "a", "7": "b"})(checkpoint)
    directory.require_usable(checkpoint)


def test_the_families_whose_layers_are_checked_by_name_are_encoders():
    assert {*families.LAYER_MODULES, *families.LAYER_WEIGHTS} <= {*families.ENCODERS}


def test_the_encoders_are_the_families_with_a_masked_language_model_of_text():
    masked = {*modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES}
    assert {*families.ENCODERS} == masked - {*families.REFUSED}
    assert masked >= {*families.REFUSED}
    assert {*families.LAYERS, *families.FROM_BEHIND_PADDING} <= {*families.ENCODERS}


@pytest.mark.parametrize("family", [name for name, stem in families.ENCODERS.items() if stem])
def test_the_layers_of_every_family_have_the_names_that_are_checked(family, tmp_path):
    about = CONFIG_MAPPING[family]()
    layers = families.LAYERS.get(family, "num_hidden_layers")
    setattr(about, layers, 2)
    if getattr(about, "layer_types", None):
        about.layer_types = about.layer_types[:2]
    with torch.device("meta"):
        model = MODEL_FOR_MASKED_LM_MAPPING[type(about)](about)
    headers = {name: ("F32", tuple(weight.shape)) for name, weight in model.named_parameters()}
    stated = json.loads(about.to_json_string(use_diff=False))
    assert stated[layers] == 2
    bare = {name.removeprefix(f"{model.base_model_prefix}."): header for name, header in headers.items()}
    names_of_a_layer = families.layer_weights(family)
    for names in (headers, bare):
        directory.require_names(tmp_path, stated, names)
        for part in names_of_a_layer:
            rest = {name: header for name, header in names.items() if not name.endswith(f".1.{part}")}
            with pytest.raises(ValueError, match=rf"weights of the encoder are missing .*\.1\.{part}\."):
                directory.require_names(tmp_path, stated, rest)
        lost = {
            name: header for name, header in names.items() if ".1." not in name and not name.startswith("layers.1.")
        }
        with pytest.raises(ValueError, match="of 2 has no weight"):
            directory.require_names(tmp_path, stated, lost)


def test_a_tokenizer_with_ids_beyond_the_vocabulary_is_refused_by_doctor_and_loader_alike(checkpoint):
    path = checkpoint / "tokenizer.json"
    about = json.loads(path.read_text())
    about["model"]["vocab"] |= {"more": 200}
    path.write_text(json.dumps(about))
    refusal((reader, load_tokenizer, require_model), checkpoint, r"has ids up to 200, but .* vocab_size = 200")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (exported("notes.md"), r"contains no weights \(model\.safetensors\)\. Copy the file there, or save"),
        (exported("training_args.bin"), r"contains no weights .* Copy the file there"),
        (exported("optimizer.pt"), r"contains no weights .* Copy the file there"),
        (exported("best/model.safetensors"), r".*.*: give that path"),
    ],
)
def test_a_config_without_weights_is_refused_with_a_way_out_where_weights_are_needed(change, says, checkpoint):
    change(checkpoint)
    load_tokenizer(checkpoint)
    refusal((reader, check_weights, load_masked_language_model), checkpoint, says)


def test_weights_of_another_shape_are_refused_by_the_headers_as_by_the_loader(checkpoint):
    config(intermediate_size=32)(checkpoint)
    says = r"weights of the encoder .* differ in shape .*\(6\)"
    refusal((check_weights, load_masked_language_model), checkpoint, says)


def test_names_of_the_first_bert_are_known(checkpoint):
    weights = load_file(checkpoint / "model.safetensors")
    names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    old = {reduce(lambda name, pair: name.replace(*pair), names.items(), name): weights[name] for name in weights}
    save_file(old, checkpoint / "model.safetensors", {"format": "pt"})
    check_weights(checkpoint)
    load_masked_language_model(checkpoint)


def test_a_normaliser_that_grows_a_text_is_refused(checkpoint):
    path = checkpoint / "tokenizer.json"
    about = json.loads(path.read_text())
    grows = {"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaa"}
    about["normalizer"] = {"type": "Sequence", "normalizers": [grows, {"type": "Lowercase"}, grows]}
    path.write_text(json.dumps(about))
    # a class such as BertTokenizer makes its own normaliser
    (checkpoint / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    says = r"tokenizer\.json: the normalizer can make a text 25 times as long"
    refusal((reader, load_tokenizer), checkpoint, says)
    directory.require_bounded("x", normalizers.Sequence([normalizers.Replace(" ", "▁"), normalizers.NFKD()]))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers_are_refused_with_file_and_name(value, checkpoint):
    weights = load_file(checkpoint / "model.safetensors")
    weights["bert.embeddings.word_embeddings.weight"][3, 4] = value
    save_file(weights, checkpoint / "model.safetensors")
    with pytest.raises(ValueError, match=r"model\.safetensors: the weight .*\.word_embeddings\.weight has 1 values"):
        load_masked_language_model(checkpoint)


@pytest.mark.parametrize(
    "name", ["adapter_model.safetensors", "pytorch_model.bin", "modules.json", "added_tokens.json", "x.gguf"]
)
def test_a_file_that_the_manifest_does_not_list_is_refused_if_loaders_would_read_it(name, checkpoint):
    files.seal(checkpoint)
    (checkpoint / "notes.txt").write_text("mine")
    (checkpoint / "handler.py").write_text("")
    (checkpoint / "training.json").write_text("{}")
    check_weights(checkpoint)
    files.check_manifest(checkpoint)
    (checkpoint / name).write_bytes((checkpoint / "model.safetensors").read_bytes() if "safe" in name else b"[]")
    for read in (check_weights, load_tokenizer, load_masked_language_model, files.check_manifest):
        with pytest.raises(files.DamagedError, match=f"{name} is not listed in .*manifest"):
            read(checkpoint)


def test_code_beside_a_family_of_transformers_is_ignored(checkpoint):
    config(auto_map={"AutoModel": "own.Model"})(checkpoint)
    directory.require_usable(checkpoint)
    assert type(load_masked_language_model(checkpoint)).__module__.startswith("transformers.")
