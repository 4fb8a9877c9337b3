"""Adapters and prompts: what they change of a model, and that they are there wherever the checkpoint is read."""

import pytest
import torch
from tests.families import FAMILIES, LONGEST, VOCABULARY, mpnet
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer, BertTokenizer, PreTrainedTokenizerFast

from acclimate.core.prompt import prompt_length
from acclimate.models.classifier import load_classifier, load_finetuned
from acclimate.models.configuration import longest_input, longest_of_config
from acclimate.models.encoder import load_masked_language_model, random_twin, require_room, save_model, word_embeddings
from acclimate.models.joint_head import as_classifier, new_joint_head
from acclimate.models.light import Adapter, adapters_of, add_adapters, add_prompt, prompt_ids

IDS = torch.arange(5, 25).view(2, 10)


def logits(model):
    with torch.no_grad():
        return model(input_ids=IDS).logits


def learnt(model):
    """The model with adapters that say something."""
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(1)
        for adapter in adapters_of(model):
            for weight in adapter.parameters():
                weight.normal_(std=0.3)
    return model


@pytest.fixture(scope="module")
def adapted(tmp_path_factory, tokenizer):
    """A checkpoint with adapters, and what the model says."""
    model = FAMILIES["bert"]()
    add_adapters(model, 4, seed=0)
    path = tmp_path_factory.mktemp("adapted")
    save_model(learnt(model), tokenizer, path)
    return path, logits(model)


@pytest.mark.parametrize("name", FAMILIES)
def test_new_adapters_are_next_to_nothing_and_learnt_ones_matter(name):
    model = FAMILIES[name]()
    before = logits(model)
    add_adapters(model, 4, seed=0)
    assert len([*adapters_of(model)]) == 4  # two in each of two layers
    torch.testing.assert_close(logits(model), before, rtol=0, atol=1e-3)
    assert not torch.allclose(logits(learnt(model)), before, rtol=0, atol=1e-2)


@pytest.mark.parametrize("name", FAMILIES)
def test_adapters_are_there_when_a_checkpoint_is_loaded(name, tokenizer, tmp_path):
    model = FAMILIES[name]()
    add_adapters(model, 4, seed=0)
    save_model(learnt(model), tokenizer, tmp_path)
    again = load_masked_language_model(tmp_path)
    assert type(again).__name__ == type(model).__name__
    assert torch.equal(logits(again), logits(model))


def test_bert_layer_with_adapters_is_houlsbys():
    model = FAMILIES["bert"]()
    add_adapters(model, 4, seed=0)
    layer = learnt(model).bert.encoder.layer[0]
    hidden = torch.randn(2, 5, 32)
    with torch.no_grad():
        attended = layer.attention.self(hidden)[0]
        first = layer.attention.output.dense(attended)
        adapter = layer.attention.output.dropout.adapter
        first = first + adapter.up(torch.nn.functional.gelu(adapter.down(first)))
        middle = layer.attention.output.LayerNorm(first + hidden)
        second = layer.output.dense(layer.intermediate(middle))
        adapter = layer.output.dropout.adapter
        second = second + adapter.up(torch.nn.functional.gelu(adapter.down(second)))
        said = layer(hidden)
        said = said[0] if isinstance(said, tuple) else said
        torch.testing.assert_close(said, layer.output.LayerNorm(second + middle))


def test_new_adapters_are_a_function_of_the_seed():
    def weights(seed):
        model = FAMILIES["bert"]()
        add_adapters(model, 4, seed=seed)
        return next(adapters_of(model)).down.weight

    assert torch.equal(weights(0), weights(0))
    assert not torch.equal(weights(0), weights(1))
    assert float(Adapter(64, 64).down.weight.detach().abs().max()) <= 2e-3


@pytest.mark.parametrize("auto", [AutoModel, AutoModelForMaskedLM])
def test_transformers_refuses_the_encoder_whose_adapters_it_would_drop(adapted, auto):
    with pytest.raises(ValueError, match=r"adapter_bottleneck=4, .* Load this directory with acclimate race"):
        auto.from_pretrained(adapted[0])


def test_classifier_keeps_adapters_and_its_head_does_not_depend_on_them(adapted, tokenizer, tmp_path):
    classifier = load_classifier(adapted[0], ("a", "b"), seed=3)
    assert len([*adapters_of(classifier)]) == 4
    save_model(FAMILIES["bert"](), tokenizer, tmp_path / "plain")
    plain = load_classifier(tmp_path / "plain", ("a", "b"), seed=3)
    assert torch.equal(classifier.classifier.weight, plain.classifier.weight)
    assert torch.equal(classifier.bert.pooler.dense.weight, plain.bert.pooler.dense.weight)
    assert all(weight.requires_grad for weight in classifier.parameters())
    save_model(classifier, tokenizer, tmp_path / "finetuned")
    again = load_finetuned(tmp_path / "finetuned")
    assert torch.equal(logits(again), logits(classifier))
    assert not torch.allclose(logits(again), logits(plain), rtol=0, atol=1e-3)


@pytest.mark.parametrize(("pooling", "layer"), [("first", "bilstm"), ("mentions", "linear"), ("mean", "mlp")])
def test_own_heads_stand_on_adapters_too(adapted, pooling, layer):
    model = load_classifier(adapted[0], ("a", "b"), seed=0, pooling=pooling, sequence_layer=layer)
    assert len([*adapters_of(model)]) == 4


def test_classifier_of_a_first_stage_takes_adapters_over_and_says_that_it_has_a_prompt():
    model = FAMILIES["bert"]()
    add_adapters(model, 4, seed=0)
    made = as_classifier(learnt(model), new_joint_head(model, "sequence", ("a", "b"), seed=0), "sequence", ("a", "b"))
    with torch.no_grad():
        states = [each.base_model(input_ids=IDS).last_hidden_state for each in (model, made)]
    torch.testing.assert_close(states[0], states[1])
    model.config.prompt_tokens = 4
    made = as_classifier(model, new_joint_head(model, "sequence", ("a", "b"), seed=0), "sequence", ("a", "b"))
    assert made.config.prompt_tokens == 4
    assert longest_of_config(made.config) == longest_of_config(model.config)


def test_random_twin_has_adapters_of_its_own(adapted):
    twin = random_twin(adapted[0], seed=0)
    [*adapters] = adapters_of(twin)
    assert len(adapters) == 4
    assert not torch.equal(
        adapters[0].down.weight, next(adapters_of(load_masked_language_model(adapted[0]))).down.weight
    )


def test_weights_of_adapters_that_are_missing_are_an_error(adapted, tokenizer, tmp_path):
    model = FAMILIES["bert"]()
    model.config.adapter_bottleneck = 4
    save_model(model, tokenizer, tmp_path)
    with pytest.raises(ValueError, match=r"weights of the encoder are missing.*adapter"):
        load_masked_language_model(tmp_path)


def test_adapters_that_are_there_are_kept_and_a_family_without_known_places_has_none():
    model = FAMILIES["bert"]()
    add_adapters(model, 4, seed=0)
    before = next(adapters_of(model)).down.weight.clone()
    add_adapters(model, 4, seed=1)
    assert torch.equal(next(adapters_of(model)).down.weight, before)
    with pytest.raises(ValueError, match=r"bottleneck 4\. Set bottleneck=4"):
        add_adapters(model, 8, seed=0)
    with pytest.raises(ValueError, match="does not support adapters in a 'mpnet'"):
        add_adapters(mpnet(), 4, seed=0)


PROMPTED = [name for name in FAMILIES if "not legacy" not in name]


@pytest.mark.parametrize("name", PROMPTED)
def test_prompt_is_new_pieces_that_no_head_predicts(name, tokenizer):
    model = FAMILIES[name]()
    before, saying = word_embeddings(model).clone(), logits(model)
    prompted = add_prompt(model, tokenizer, 3, seed=0)
    ids = prompt_ids(prompted)
    assert ids == [VOCABULARY, VOCABULARY + 1, VOCABULARY + 2]
    assert torch.equal(word_embeddings(model)[:VOCABULARY], before)
    drawn = word_embeddings(model)[ids].detach()
    assert 0.4 < float(drawn.abs().max()) <= 0.5
    said = logits(model)
    torch.testing.assert_close(said[..., :VOCABULARY], saying)
    assert float(torch.log_softmax(said, -1)[..., ids].max()) < -1e3


def test_prompt_fills_free_rows_before_there_are_more_if_the_head_takes_new_pieces(tokenizer):
    with pytest.raises(ValueError, match="cannot add entries to the head of this 'deberta-v2'"):
        add_prompt(FAMILIES["deberta-v2 not legacy"](), tokenizer, 3, seed=0)
    model = FAMILIES["bert"]()
    model.resize_token_embeddings(VOCABULARY + 8)
    prompted = add_prompt(model, tokenizer, 3, seed=0)
    assert len(word_embeddings(model)) == VOCABULARY + 8
    assert prompt_ids(prompted)[0] == VOCABULARY


def test_tokenizer_puts_the_prompt_behind_each_row(tokenizer, tmp_path):
    model = FAMILIES["bert"]()
    prompted = add_prompt(model, tokenizer, 3, seed=0)
    save_model(model, prompted, tmp_path)
    for each in (prompted, AutoTokenizer.from_pretrained(tmp_path)):
        assert prompt_length(each) == 3
        plain, ids = tokenizer("word1 word2", "word3 word4"), prompt_ids(each)
        said = each("word1 word2", "word3 word4")
        assert said["input_ids"] == plain["input_ids"] + ids
        assert said["token_type_ids"] == plain["token_type_ids"] + [0, 0, 0]
        assert each("word1")["input_ids"] == tokenizer("word1")["input_ids"] + ids
        cut = each("word1 word2 word3", truncation=True, max_length=7)["input_ids"]
        assert cut == tokenizer("word1 word2")["input_ids"] + ids
        assert set(ids) <= set(each.all_special_ids)
        assert (each.mask_token_id, each.pad_token_id) == (tokenizer.mask_token_id, tokenizer.pad_token_id)
    assert prompt_length(tokenizer) == 0  # the one that was given stays as it was


def test_prompt_that_is_there_is_kept(tokenizer):
    model = FAMILIES["bert"]()
    prompted = add_prompt(model, tokenizer, 3, seed=0)
    before = word_embeddings(model).clone()
    assert add_prompt(model, prompted, 3, seed=1) is prompted
    assert torch.equal(word_embeddings(model), before)
    with pytest.raises(ValueError, match=r"prompt of 3 tokens\. Set prompt_tokens=3"):
        add_prompt(model, prompted, 5, seed=0)


FRAMES = {
    "RoBERTa's": processors.RobertaProcessing(("</s>", 1), ("<s>", 0)),
    "BERT's": processors.BertProcessing(("</s>", 1), ("<s>", 0)),
    "a template": processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B:1 </s>:1", [("<s>", 0), ("</s>", 1)]),
}
FRAMES["two"] = processors.Sequence([processors.ByteLevel(trim_offsets=True), FRAMES["a template"]])


@pytest.mark.parametrize("name", FRAMES)
def test_rows_are_framed_as_before_whatever_framed_them(name):
    pieces = ["<s>", "</s>", "<pad>", "<mask>", "Ġ", *"abcd", "Ġb", "Ġc"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    backend = Tokenizer(models.BPE(vocabulary, [("Ġ", "b"), ("Ġ", "c")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.post_processor = FRAMES[name]
    plain = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", mask_token="<mask>")
    model = FAMILIES["bert"]()
    prompted = add_prompt(model, plain, 2, seed=0)
    for texts in (("a b",), ("a b", "d c")):
        was, now = (each(*texts, return_offsets_mapping=True, return_token_type_ids=True) for each in (plain, prompted))
        assert now["input_ids"] == was["input_ids"] + prompt_ids(prompted)
        assert now["offset_mapping"] == was["offset_mapping"] + [(0, 0)] * 2
        assert now["token_type_ids"] == was["token_type_ids"] + [0, 0]


def test_tokenizer_that_frames_in_no_known_way_gets_no_prompt():
    backend = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    backend.post_processor = processors.ByteLevel()
    with pytest.raises(ValueError, match=r"cannot add a prompt to the rows of this tokenizer .*'ByteLevel'"):
        add_prompt(FAMILIES["bert"](), PreTrainedTokenizerFast(tokenizer_object=backend), 2, seed=0)


def test_prompt_takes_its_room_from_what_the_model_reads(tokenizer, tmp_path):
    model = FAMILIES["roberta"]()
    prompted = add_prompt(model, tokenizer, 10, seed=0)
    save_model(model, prompted, tmp_path)
    assert longest_input(tmp_path) == LONGEST - 10
    require_room(model, LONGEST - 10)
    with pytest.raises(ValueError, match=f"Lower max_tokens to {LONGEST - 10}"):
        require_room(model, LONGEST - 9)


def test_a_tokenizer_class_of_a_family_is_not_kept(tokenizer):
    # BertTokenizer frames rows by itself when it is loaded, whatever tokenizer.json says
    assert isinstance(tokenizer, BertTokenizer)
    assert not isinstance(add_prompt(FAMILIES["bert"](), tokenizer, 1, seed=0), BertTokenizer)
