import pytest
from transformers import BertConfig, ModernBertConfig

from acclimate.models.encoder import SIZES, Shape, new_configuration, new_encoder, shape_of

NONE = {"layers": None, "hidden": None, "heads": None}


def test_base_and_large_are_those_of_the_architectures_authors():
    for architecture, config in (("bert", BertConfig()), ("modernbert", ModernBertConfig())):
        own = new_configuration(
            SIZES[architecture]["base"], architecture, longest=512, attention_dropout=0.0, hidden_dropout=0.0
        )
        for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"):
            assert getattr(own, name) == getattr(config, name)
    assert shape_of("large", "bert", **NONE) == Shape(24, 1024, 16)


def test_numbers_that_are_not_stated_are_those_of_bert_base():
    assert shape_of("", "bert", layers=2, hidden=None, heads=None) == Shape(2, 768, 12)


def test_a_size_and_a_number_that_is_not_its_own_are_refused():
    assert shape_of("tiny", "bert", layers=2, hidden=128, heads=None) == Shape(2, 128, 2)
    with pytest.raises(ValueError, match="size = 'tiny' of bert has layers = 2, but layers = 12 is stated too"):
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
