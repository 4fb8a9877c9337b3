"""The length that is stated for each encoder of transformers is the longest that it reads."""

import json

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForMaskedLM
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from acclimate.models import families
from acclimate.models.classifier import load_classifier
from acclimate.models.configuration import longest_input, longest_of_config
from acclimate.models.encoder import load_masked_language_model, save_model
from acclimate.models.families import positions_read
from families import CLASSIFIED

TINY = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "type_vocab_size": 2,
}
RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
# fields of families whose classes have other names for them, or more sizes
OWN = {
    "albert": {"embedding_size": 16},
    "convbert": {"embedding_size": 16},
    "distilbert": {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16},
    "electra": {"embedding_size": 16},
    "esm": {"mask_token_id": 3},
    "eurobert": {"num_key_value_heads": 2},
    "flaubert": {"emb_dim": 16, "n_layers": 1, "n_heads": 2},
    "funnel": {"d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 16, "block_sizes": [1, 1]},
    "longformer": {"attention_window": [4]},
    "luke": {"entity_vocab_size": 5, "entity_emb_size": 16},
    "mobilebert": {"embedding_size": 8, "intra_bottleneck_size": 16},
    "rembert": {"input_embedding_size": 16, "output_embedding_size": 16},
    "roc_bert": dict.fromkeys(("pronunciation_vocab_size", "shape_vocab_size"), 50),
    "squeezebert": {"embedding_size": 16},
    "xlm": {"emb_dim": 16, "n_layers": 1, "n_heads": 2},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
}
UNLIMITED = {
    "DeBERTa-v3": ("deberta-v2", RELATIVE | {"position_buckets": 4}),
    "DeBERTa-v2 without buckets": ("deberta-v2", RELATIVE),
    "DeBERTa without absolute positions": ("deberta", RELATIVE),
    "funnel": ("funnel", {}),
}
CASES = {name: (name, {}) for name in families.ENCODERS} | UNLIMITED
CASES |= {"DeBERTa-v2 with absolute positions": ("deberta-v2", RELATIVE | {"position_biased_input": True})}
CASES |= {"ESM with rotary positions": ("esm", {"position_embedding_type": "rotary"})}
ROTARY = {"esmc", "eurobert", "gte", "jina_embeddings_v3", "modernbert", "nomic_bert", "ultrabert"}  # no table
ROTARY |= {"ESM with rotary positions"}


def tiny(family, own, *, pad, positions):
    fields = TINY | {"max_position_embeddings": positions, "pad_token_id": pad} | OWN.get(family, {}) | own
    if family == "funnel":  # takes no other name for block_sizes and d_model
        del fields["num_hidden_layers"], fields["hidden_size"]
    return AutoModelForMaskedLM.from_config(CONFIG_MAPPING[family](**fields)).train()


def trains(model, length):
    """Whether two rows, one of them padded, run through the model and back."""
    ids = torch.full((2, length), 7)
    attended = torch.ones_like(ids)
    ids[1, -2:], attended[1, -2:] = model.config.pad_token_id, 0
    try:
        model(input_ids=ids, attention_mask=attended, labels=ids).loss.backward()
    except (RuntimeError, IndexError):
        return False
    return True


@pytest.mark.parametrize("case", CASES)
def test_the_longest_row_that_trains_is_the_one_that_is_stated(case):
    family, own = CASES[case]
    for pad, positions in ((1, 20), (3, 36)):  # a padding id other than RoBERTa's moves its positions
        model = tiny(family, own, pad=pad, positions=positions)
        longest = longest_of_config(model.config)
        assert longest == positions_read(json.loads(model.config.to_json_string()))
        assert (longest is None) == (case in UNLIMITED)
        assert trains(model, longest or 2 * positions)
        assert trains(model, (longest or 2 * positions) + 1) == (case in ROTARY | {*UNLIMITED})


@pytest.mark.parametrize("positions", [24, 70])
@pytest.mark.parametrize("family", CLASSIFIED)
def test_shipped_families_are_adapted_and_fine_tuned_at_their_longest_input(family, positions, tmp_path, tokenizer):
    config = CLASSIFIED[family]().config
    config.max_position_embeddings = positions
    save_model(AutoModelForMaskedLM.from_config(config), tokenizer, tmp_path)
    ids = torch.arange(2 * longest_input(tmp_path)).view(2, -1) % 100 + 5
    adapted = load_masked_language_model(tmp_path).train()
    adapted(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss.backward()
    tuned = load_classifier(tmp_path, ("yes", "no"), seed=1).train()
    logits = tuned(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1])).backward()
    for model in (adapted, tuned):
        assert model.get_input_embeddings().weight.grad.abs().sum() > 0


@pytest.mark.parametrize("family", sorted(MODEL_FOR_MASKED_LM_MAPPING_NAMES))
def test_a_padding_id_of_null_is_refused_where_positions_begin_behind_it(family):
    about = {"model_type": family, "pad_token_id": None}
    if family in families.FROM_BEHIND_PADDING:
        with pytest.raises(ValueError, match=rf"pad_token_id in config\.json is None, but {family} counts positions"):
            families.require_encoder_config(about, "model")
    elif family in families.ENCODERS:
        families.require_encoder_config(about, "model")
    else:
        with pytest.raises(ValueError, match=rf"encoder.* \({family}\)"):
            families.require_encoder_config(about, "model")


@pytest.mark.parametrize(
    ("kind", "members"),
    {
        "a decoder": ("gpt2", "llama", "qwen3", "bert-generation", "xlnet", "mamba"),
        "an encoder-decoder": ("t5", "umt5", "t5gemma", "pegasus", "whisper"),
        "no text encoder": ("canine", "clip_text_model", "dpr", "lilt", "markuplm", "splinter", "vit"),
    }.items(),
)
def test_families_without_a_masked_language_model_are_refused_with_their_kind(kind, members):
    for family in members:
        with pytest.raises(ValueError, match=rf"^model: {kind} \({family}\)"):
            families.require_encoder_config({"model_type": family}, "model")
