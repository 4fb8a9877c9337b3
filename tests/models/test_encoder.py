import hashlib
import io
import json
import shutil
from importlib.metadata import version

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file, save_file
from tests.families import FAMILIES, mpnet
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForTokenClassification,
    BertModel,
    ModernBertConfig,
)
from transformers.utils import logging

from acclimate.models.classifier import load_classifier, load_finetuned
from acclimate.models.configuration import SIZES, Shape, shape_of
from acclimate.models.encoder import (
    encoder_of,
    load_masked_language_model,
    new_configuration,
    new_encoder,
    random_twin,
    save_model,
)
from acclimate.models.loading import load_tokenizer

LABELS = ("optimize", "signal", "stats")
SMALL = {"layers": 2, "hidden": 32, "heads": 2, "vocabulary_size": 200, "longest": 64, "pad": 0, "seed": 5}


def same(one, other):
    """Whether two models hold the same weights, to the bit."""
    first, second = one.state_dict(), other.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def hashes(directory):
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in directory.iterdir()}


# Loading


@pytest.mark.parametrize("name", FAMILIES)
def test_a_saved_language_model_loads_with_the_same_weights_tied_and_in_memory_of_their_own(name, tmp_path, tokenizer):
    model = FAMILIES[name]()
    save_model(model, tokenizer, tmp_path)
    loaded = load_masked_language_model(tmp_path)
    assert same(loaded, model)
    assert not loaded.training
    assert len(list(loaded.parameters())) == len(list(model.parameters()))
    if "not legacy" not in name:  # there the head is handed the embeddings instead
        assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight
    for tensor in [*loaded.parameters(), *loaded.buffers()]:
        assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
        assert tensor.data_ptr() % 64 == 0


def test_loading_does_not_depend_on_how_the_weights_lie_in_their_file(checkpoint):
    before = load_masked_language_model(checkpoint)
    # the longer the header, the further the mapped weights move
    weights = load_file(checkpoint / "model.safetensors")
    save_file(weights, checkpoint / "model.safetensors", metadata={"format": "pt", "note": "x" * 12})
    assert same(load_masked_language_model(checkpoint), before)


@pytest.mark.parametrize("load", [load_masked_language_model, lambda path: load_classifier(path, LABELS, seed=1)])
def test_weights_are_float32_whatever_the_checkpoint_holds(checkpoint, tokenizer, load):
    half = AutoModelForMaskedLM.from_pretrained(checkpoint).bfloat16()
    save_model(half, tokenizer, checkpoint)
    assert {weight.dtype for weight in load(checkpoint).parameters()} == {torch.float32}


def test_attention_is_sdpa_where_the_family_has_it(tmp_path, tokenizer):
    used = {}
    for name, make in {**FAMILIES, "mpnet": mpnet}.items():
        save_model(make(), tokenizer, tmp_path / name)
        used[name] = load_masked_language_model(tmp_path / name).config._attn_implementation
    assert {name for name, implementation in used.items() if implementation == "eager"} == {
        *(name for name in FAMILIES if name.startswith("deberta")),
        "mpnet",
    }
    assert set(used.values()) == {"eager", "sdpa"}


def test_loading_leaves_the_random_state_as_it_was(checkpoint):
    state = torch.get_rng_state()
    load_masked_language_model(checkpoint)
    load_classifier(checkpoint, LABELS, seed=1)
    new_encoder(**SMALL)
    assert torch.equal(torch.get_rng_state(), state)


def test_loading_prints_nothing_and_restores_logging(checkpoint, tokenizer, capfd):
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    model = load_classifier(checkpoint, LABELS, seed=1)
    save_model(model, tokenizer, checkpoint)
    load_tokenizer(checkpoint)
    load_masked_language_model(checkpoint)  # of a classifier's checkpoint: the head is missing
    assert capfd.readouterr() == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == (verbosity, bars)


def test_an_untrained_language_modelling_head_is_a_function_of_the_seed(checkpoint, tokenizer):
    save_model(BertModel.from_pretrained(checkpoint), tokenizer, checkpoint)
    first, again, other = (load_masked_language_model(checkpoint, seed=seed) for seed in (1, 1, 2))
    assert same(first, again)
    assert same(encoder_of(first), encoder_of(other))
    assert not same(first, other)


def test_dropout_is_set_before_the_model_is_made(checkpoint):
    model = load_classifier(checkpoint, LABELS, seed=1, dropout=0.3, attention_dropout=0.2, hidden_dropout=0.4)
    block = model.bert.encoder.layer[0]
    assert model.dropout.p == 0.3
    assert block.attention.self.dropout.p == 0.2
    assert block.output.dropout.p == 0.4
    language_model = load_masked_language_model(checkpoint, attention_dropout=0.2, hidden_dropout=0.4)
    assert language_model.bert.encoder.layer[0].attention.self.dropout.p == 0.2


# Heads


def test_the_same_seed_gives_the_same_head(checkpoint):
    first, again, other = (load_classifier(checkpoint, LABELS, seed=seed) for seed in (1, 1, 2))
    assert same(first, again)
    assert not torch.equal(first.classifier.weight, other.classifier.weight)
    assert first.config.id2label == dict(enumerate(LABELS))
    assert first.config.label2id == {"optimize": 0, "signal": 1, "stats": 2}
    assert same(encoder_of(first).encoder, encoder_of(load_masked_language_model(checkpoint)).encoder)


@pytest.mark.parametrize("architecture", [AutoModelForSequenceClassification, BertForTokenClassification])
def test_a_head_trained_for_another_task_is_not_taken_over(checkpoint, tokenizer, architecture):
    untouched = load_classifier(checkpoint, LABELS, seed=1)
    save_model(architecture.from_pretrained(checkpoint, num_labels=3), tokenizer, checkpoint)
    weights = load_file(checkpoint / "model.safetensors")
    weights["classifier.weight"].fill_(9)
    save_file(weights, checkpoint / "model.safetensors", metadata={"format": "pt"})
    assert same(load_classifier(checkpoint, LABELS, seed=1), untouched)
    assert load_classifier(checkpoint, ("no", "yes"), seed=1).classifier.weight.shape == (2, 32)


def test_a_trained_pooler_is_kept_on_request_alone(checkpoint, tokenizer):
    trained = load_classifier(checkpoint, LABELS, seed=1)
    torch.nn.init.constant_(trained.bert.pooler.dense.weight, 9)
    save_model(trained, tokenizer, checkpoint)
    fresh = load_classifier(checkpoint, LABELS, seed=2)
    kept = load_classifier(checkpoint, LABELS, seed=2, pooler="kept")
    assert (kept.bert.pooler.dense.weight == 9).all()
    assert (fresh.bert.pooler.dense.weight != 9).all()
    assert torch.equal(fresh.classifier.weight, kept.classifier.weight)


def test_the_layer_that_modernbert_shares_with_its_language_model_is_kept(tmp_path, tokenizer):
    model = FAMILIES["modernbert"]()
    save_model(model, tokenizer, tmp_path)
    assert same(load_classifier(tmp_path, LABELS, seed=1).head, model.head)


@pytest.mark.parametrize(("labels", "said"), [((), "none"), (("yes", "yes"), "yes, yes")])
def test_labels_are_needed_each_once(checkpoint, labels, said):
    with pytest.raises(ValueError, match=f"without duplicates, but these were given: {said}"):
        load_classifier(checkpoint, labels, seed=1)


def test_a_checkpoint_without_a_finetuned_head_is_refused(checkpoint):
    state = torch.get_rng_state()
    with pytest.raises(ValueError, match=r"no fine-tuned classifier.*: bert.pooler.*classifier.weight\. Fine-tune"):
        load_finetuned(checkpoint)
    assert torch.equal(torch.get_rng_state(), state)


# Saving


def test_the_same_weights_give_the_same_bytes_in_every_file(checkpoint, tmp_path):
    loaded, tokenizer = load_masked_language_model(checkpoint), load_tokenizer(checkpoint)
    tokenizer(["word1 word2 word3", "word1"], padding=True, truncation=True, max_length=4)
    save_model(loaded, tokenizer, tmp_path / "second")
    assert hashes(tmp_path / "second") == hashes(checkpoint)
    assert tokenizer.backend_tokenizer.truncation["max_length"] == 4, "saving leaves it as it was"
    assert set(hashes(checkpoint)) == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


# Refusals


@pytest.mark.parametrize("load", [load_tokenizer, load_masked_language_model])
def test_a_missing_directory_is_named(tmp_path, load):
    for missing in (tmp_path / "nowhere", str(tmp_path / "nowhere"), "../nowhere", "a/b/c"):
        with pytest.raises(ValueError, match=f"{missing}: there is no such directory, and it is not a hub id"):
            load(missing)
    (tmp_path / "minilm").mkdir()
    with pytest.raises(ValueError, match=r"model\.safetensors; the nearest is 'minilm'\.$"):
        load(tmp_path / "minlm")


@pytest.mark.parametrize("name", ["bert", "deberta-v2", "modernbert", "roberta", "xlm-roberta"])
def test_a_directory_without_a_tokenizer_is_refused(name, tmp_path, tokenizer):
    save_model(FAMILIES[name](), tokenizer, tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / file).unlink()
    with pytest.raises(ValueError, match=f"{tmp_path}: contains no tokenizer"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_needs_no_model_beside_it(checkpoint):
    (checkpoint / "config.json").unlink()
    assert load_tokenizer(checkpoint)("word1")["input_ids"] == [2, 6, 3]


def test_a_deberta_with_nothing_but_a_sentencepiece_model_is_read(tmp_path):
    learnt = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([f"the moon {number} is bright" for number in range(50)]),
        model_writer=learnt,
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
        pad_id=0,
        pad_piece="[PAD]",
        bos_id=1,
        bos_piece="[CLS]",
        eos_id=2,
        eos_piece="[SEP]",
        unk_id=3,
        unk_piece="[UNK]",
        user_defined_symbols=["[MASK]"],
    )
    (tmp_path / "spm.model").write_bytes(learnt.getvalue())
    config = {"model_type": "deberta-v2", "vocab_size": 48}
    (tmp_path / "config.json").write_text(json.dumps(config))
    if tuple(map(int, version("protobuf").split(".")[:2])) < (7, 36):  # what the reader of sentencepiece 0.2.3 needs
        with pytest.raises(ValueError, match=r"If protobuf is older than sentencepiece: pip install -U protobuf"):
            load_tokenizer(tmp_path)
        return
    assert "".join(load_tokenizer(tmp_path).tokenize("the moon")) == "\u2581the\u2581moon"


def test_an_unknown_token_that_is_not_in_the_vocabulary_is_named(checkpoint, tmp_path):
    place = tmp_path / "model"
    shutil.copytree(checkpoint, place)
    config = json.loads((place / "tokenizer_config.json").read_text())
    (place / "tokenizer_config.json").write_text(json.dumps(config | {"unk_token": ""}))
    with pytest.raises(ValueError, match=r"tokenizer_config\.json: unk_token = '' is not in the vocabulary"):
        load_tokenizer(place)


@pytest.mark.parametrize("load", [load_tokenizer, load_masked_language_model])
def test_a_hub_id_that_cannot_be_fetched_is_named_with_the_way_out(load, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minilm").mkdir()
    with pytest.raises(ValueError, match=r"minlm: there is no such directory here; the nearest is 'minilm', and"):
        load("minlm")
    with pytest.raises(ValueError, match=r"nobody/nothing: there is no such directory here.*HF_HUB_OFFLINE") as caught:
        load("nobody/nothing")
    assert isinstance(caught.value.__cause__, OSError)


# Random encoders


def test_a_new_encoder_is_a_function_of_its_arguments_and_impossible_sizes_are_refused():
    first, again, other = new_encoder(**SMALL), new_encoder(**SMALL), new_encoder(**{**SMALL, "seed": 6})
    assert same(first, again)
    assert not same(first, other)
    assert first.config.intermediate_size == 128
    assert first.config.pad_token_id == 0
    assert not first.training
    assert first.bert.encoder.layer[0].output.dense.weight.std().item() == pytest.approx(0.02, rel=0.05)
    with pytest.raises(ValueError, match="hidden is 32, which 3 heads cannot divide"):
        new_encoder(**{**SMALL, "heads": 3})
    with pytest.raises(ValueError, match="pad is 200, but a vocabulary of 200"):
        new_encoder(**{**SMALL, "pad": 200})


def test_a_random_twin_has_the_shape_and_none_of_the_weights(checkpoint):
    model = load_masked_language_model(checkpoint)
    state = torch.get_rng_state()
    first, again, other = (random_twin(checkpoint, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert same(first, again)
    for twin in (model, other):
        assert first.config.to_dict() == twin.config.to_dict()
        assert not torch.equal(first.get_input_embeddings().weight, twin.get_input_embeddings().weight)
    assert first.get_output_embeddings().weight is first.get_input_embeddings().weight
    assert not first.training


NONE = {"layers": None, "hidden": None, "heads": None}


def test_base_and_large_are_those_of_the_architectures_authors():
    for architecture, config in (("bert", BertConfig()), ("modernbert", ModernBertConfig())):
        made = new_configuration(
            SIZES[architecture]["base"], architecture, longest=512, attention_dropout=0.0, hidden_dropout=0.0
        )
        for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"):
            assert getattr(made, name) == getattr(config, name)
    assert shape_of("large", "bert", **NONE) == Shape(24, 1024, 16)


def test_numbers_that_are_not_stated_are_those_of_bert_base_and_those_of_a_size_its_own():
    assert shape_of("", "bert", layers=2, hidden=None, heads=None) == Shape(2, 768, 12)
    assert shape_of("tiny", "bert", layers=2, hidden=128, heads=None) == Shape(2, 128, 2)
    with pytest.raises(ValueError, match="size = 'tiny' of bert has layers = 2, but layers = 12 is also given"):
        shape_of("tiny", "bert", layers=12, hidden=None, heads=None)


def test_a_modernbert_from_nothing_knows_its_special_tokens_and_is_the_same_at_every_call():
    def make(seed, **others):
        return new_encoder(
            **vars(Shape(2, 16, 2)),
            vocabulary_size=50,
            longest=64,
            pad=3,
            seed=seed,
            architecture="modernbert",
            **others,
        )

    model = make(0, ends=(1, 2), attention_dropout=0.2, hidden_dropout=0.3)
    config = model.config
    assert (config.pad_token_id, config.cls_token_id, config.sep_token_id) == (3, 1, 2)
    assert (config.attention_dropout, config.embedding_dropout, config.mlp_dropout) == (0.2, 0.3, 0.3)
    assert config.intermediate_size == 24
    weights = [dict(make(seed).named_parameters())["model.layers.0.attn.Wqkv.weight"] for seed in (0, 0, 1)]
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])


def test_a_modernbert_turns_pairs_of_numbers_in_each_head():
    with pytest.raises(ValueError, match="a multiple of 4"):
        new_encoder(
            layers=1, hidden=6, heads=2, vocabulary_size=50, longest=64, pad=0, seed=0, architecture="modernbert"
        )
