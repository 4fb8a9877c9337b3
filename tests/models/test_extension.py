"""More words in a model: old rows, old ids and old logits stay, and new ones are the means of their pieces'."""

import json

import pytest
import torch
from tests.families import FAMILIES, VOCABULARY
from tokenizers import Tokenizer
from transformers import (
    AutoModelForMaskedLM,
    AutoTokenizer,
    BertForMaskedLM,
    BertTokenizer,
    PreTrainedTokenizerFast,
    RobertaTokenizer,
    XLMRobertaTokenizer,
)

from acclimate.core.prompt import prompt_length
from acclimate.models.encoder import encoder_of, load_masked_language_model, save_model, word_embeddings
from acclimate.models.extension import add_rows, with_backend
from acclimate.models.light import add_prompt, prompt_ids

IDS = torch.arange(5, 25).view(2, 10)
PIECES = [(7, 8), (9, 10, 11)]


def logits(model, ids=IDS):
    with torch.no_grad():
        return model(input_ids=ids).logits


@pytest.mark.parametrize("name", FAMILIES)
def test_old_pieces_keep_their_logits_and_a_new_word_has_the_mean_of_its_pieces(name, tokenizer, tmp_path):
    model = FAMILIES[name]()
    before, saying, state = word_embeddings(model).detach().clone(), logits(model), torch.get_rng_state()
    add_rows(model, PIECES, VOCABULARY, start_ND=None)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.config.vocab_size == len(word_embeddings(model)) == VOCABULARY + 2
    assert torch.equal(word_embeddings(model)[:VOCABULARY], before)
    for place, pieces in enumerate(PIECES):
        torch.testing.assert_close(word_embeddings(model)[VOCABULARY + place], before[list(pieces)].mean(0))
    said = logits(model)
    torch.testing.assert_close(said[..., :VOCABULARY], saying, rtol=1e-5, atol=1e-5)
    means = torch.stack([saying[..., list(pieces)].mean(-1) for pieces in PIECES], -1)
    torch.testing.assert_close(said[..., VOCABULARY:], means, rtol=1e-5, atol=1e-5)
    save_model(model, tokenizer, tmp_path)
    new = torch.tensor([[5, VOCABULARY, VOCABULARY + 1, 6]])
    for again in (load_masked_language_model(tmp_path), AutoModelForMaskedLM.from_pretrained(tmp_path)):
        assert torch.equal(logits(again, new), logits(model, new))


def test_output_layer_of_its_own_gets_means_of_its_own_rows():
    config = FAMILIES["bert"]().config
    config.tie_word_embeddings = False
    model = BertForMaskedLM(config).eval()
    saying = logits(model)
    start_ND = torch.full((2, 32), 0.5)
    add_rows(model, PIECES, VOCABULARY, start_ND=start_ND)
    assert torch.equal(word_embeddings(model)[VOCABULARY:], start_ND)
    means = torch.stack([saying[..., list(pieces)].mean(-1) for pieces in PIECES], -1)
    torch.testing.assert_close(logits(model)[..., VOCABULARY:], means, rtol=1e-5, atol=1e-5)


def test_free_rows_are_filled_before_there_are_more():
    model = FAMILIES["bert"]()
    model.resize_token_embeddings(VOCABULARY + 8)
    add_rows(model, PIECES, VOCABULARY, start_ND=None)
    assert len(word_embeddings(model)) == VOCABULARY + 8
    expected = word_embeddings(model)[[7, 8]].mean(0)
    torch.testing.assert_close(word_embeddings(model)[VOCABULARY], expected)


def test_encoder_without_a_head_gets_embeddings_alone_and_the_tokenizer_of_another_model_is_an_error():
    model = encoder_of(FAMILIES["modernbert"]())
    add_rows(model, PIECES, VOCABULARY, start_ND=None)
    assert len(word_embeddings(model)) == VOCABULARY + 2
    with pytest.raises(ValueError, match="250 entries, but the model has only 200 embeddings"):
        add_rows(FAMILIES["bert"](), PIECES, 250, start_ND=None)


def longer(tokenizer, *words):
    """Its rules with more words."""
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    size = len(tokenizer)
    if isinstance(rules["model"]["vocab"], list):
        rules["model"]["vocab"] += [[word, -1.0] for word in words]
    else:
        rules["model"]["vocab"] |= {word: size + place for place, word in enumerate(words)}
    if rules["model"]["type"] == "BPE":
        rules["model"]["ignore_merges"] = True
    return Tokenizer.from_str(json.dumps(rules))


def roberta():
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "Ġ", *"abcd", "Ġb"]
    return RobertaTokenizer(vocab={piece: number for number, piece in enumerate(pieces)}, merges=[("Ġ", "b")])


def bert():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
    return BertTokenizer(vocab={piece: number for number, piece in enumerate(pieces)})


def xlm_roberta():
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [*((piece, 0.0) for piece in special), *((piece, -5.0) for piece in "▁abcd"), ("<mask>", 0.0)]
    return XLMRobertaTokenizer(vocab=pieces)


@pytest.mark.parametrize(
    ("made", "word", "kind"),
    [
        (roberta, "Ġbad", PreTrainedTokenizerFast),  # the family's class would drop the rule that takes it whole
        (xlm_roberta, "▁bad", XLMRobertaTokenizer),
        (bert, "bad", BertTokenizer),
    ],
)
def test_tokenizer_is_the_same_wherever_it_is_loaded(made, word, kind, tmp_path):
    plain = made()
    again = with_backend(plain, longer(plain, word))
    model = FAMILIES["roberta"]() if made is roberta else FAMILIES["xlm-roberta" if made is xlm_roberta else "bert"]()
    for place in (tmp_path / "once", tmp_path / "twice"):
        save_model(model, with_backend(made(), longer(plain, word)), place)
    files = sorted(path.name for path in (tmp_path / "once").iterdir())
    assert [(tmp_path / "once" / name).read_bytes() for name in files] == [
        (tmp_path / "twice" / name).read_bytes() for name in files
    ]
    loaders = (AutoTokenizer, PreTrainedTokenizerFast)
    for each in (again, *(loader.from_pretrained(tmp_path / "once") for loader in loaders)):
        assert each("a bad")["input_ids"] == [*plain("a")["input_ids"][:-1], len(plain), plain.sep_token_id]
        assert each("a", "a")["input_ids"] == plain("a", "a")["input_ids"]
        assert (each.mask_token_id, each.pad_token_id) == (plain.mask_token_id, plain.pad_token_id)
        assert each.model_max_length == plain.model_max_length
    assert type(again) is kind
    assert list(again("a")) == list(plain("a"))


def test_prompt_stays_behind_each_row(tokenizer):
    model = FAMILIES["bert"]()
    prompted = add_prompt(model, tokenizer, 3, seed=0)
    rules = json.loads(prompted.backend_tokenizer.to_str())
    rules["model"]["vocab"] |= {token["content"]: token["id"] for token in rules["added_tokens"]}
    rules["model"]["vocab"]["wordnew"] = VOCABULARY + 3
    again = with_backend(prompted, Tokenizer.from_str(json.dumps(rules)))
    assert prompt_length(again) == 3
    assert again("wordnew")["input_ids"] == [2, VOCABULARY + 3, 3, *prompt_ids(prompted)]
