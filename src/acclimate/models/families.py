"""Whether a config.json is that of a text encoder with a masked language model, and how many tokens it reads.

The names that a family has for the parts of a layer are here too: the parts that gates and adapters change.

transformers is imported only to say what a model is that is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from acclimate.models.formats import family_in

CONFIG = "config.json"
ENCODER = "Choose an encoder, such as google-bert/bert-base-uncased"
CAUSAL = re.compile(r"(ForCausalLM|LMHeadModel|DoubleHeadsModel)$")
# Text encoders with a masked language model in transformers -> how the names of their layers begin in a checkpoint with
# a head; "" where transformers converts names, or where layers are not numbered. REFUSED has the others of its mapping.
ENCODERS = {
    "albert": "albert.encoder.albert_layer_groups",
    "big_bird": "bert.encoder.layer",
    "data2vec-text": "data2vec_text.encoder.layer",
    "deberta-v2": "deberta.encoder.layer",
    "distilbert": "distilbert.transformer.layer",
    "esmc": "esmc.layers",
    "megatron-bert": "bert.encoder.layer",
    "roberta-prelayernorm": "roberta_prelayernorm.encoder.layer",
    "squeezebert": "transformer.encoder.layers",
    **dict.fromkeys(("camembert", "xlm-roberta", "xlm-roberta-xl", "xmod"), "roberta.encoder.layer"),
    **dict.fromkeys(("eurobert", "modernbert", "ultrabert"), "model.layers"),
    **dict.fromkeys(("esm", "flaubert", "funnel", "gte", "jina_embeddings_v3", "nomic_bert", "xlm"), ""),
} | {
    family: f"{family}.encoder.layer"
    for family in (
        *("bert", "convbert", "deberta", "electra", "ernie", "fnet", "ibert", "longformer", "luke", "mobilebert"),
        *("mpnet", "mra", "nystromformer", "rembert", "roberta", "roc_bert", "roformer", "yoso"),
    )
}
# Families with a masked language model in transformers that cannot be used here -> the reason
REFUSED = {
    **dict.fromkeys(("bart", "mbart", "mvp"), "it has a decoder"),
    "layoutlm": "it needs the positions of words on a page",
    **dict.fromkeys(("modernvbert", "neomme", "ultravbert"), "it reads images"),
    "perceiver": "it reads bytes, so it cannot mask words",
    "reformer": "it trains only on rows of one length",  # multiples of its chunks that fill its axial positions
    "tapas": "it needs the positions of words in a table",
}
LAYERS = {"albert": "num_hidden_groups", "distilbert": "n_layers"}  # field of config.json, if not num_hidden_layers
# fields of config.json that are whole numbers of at least 1; of at least 0 is pad_token_id
NUMBERS = (
    *("max_position_embeddings", "hidden_size", "intermediate_size", "vocab_size", "embedding_size", "dim"),
    *("hidden_dim", "num_hidden_layers", "n_layers", "num_attention_heads", "n_heads", "num_hidden_groups"),
)
ACTIVATIONS = frozenset(  # of transformers, with torch's and its own names
    """
    gelu gelu_10 gelu_accurate gelu_fast gelu_new gelu_python gelu_python_tanh gelu_pytorch_tanh hardswish laplace
    leaky_relu linear mish prelu quick_gelu relu relu2 relu6 sigmoid silu sqrtsoftplus swish tanh xielu
    """.split()  # noqa: SIM905
)
# common families -> the modules with weights and biases in each layer, by their names in a checkpoint
_FEED_FORWARD = ("intermediate.dense", "output.dense", "output.LayerNorm")
_OUTPUTS = ("attention.output.dense", "attention.output.LayerNorm", *_FEED_FORWARD)
_BERT_LAYER = (*(f"attention.self.{name}" for name in ("query", "key", "value")), *_OUTPUTS)
_ALBERT_ATTENTION = (f"attention.{name}" for name in ("query", "key", "value", "dense", "LayerNorm"))
_ALBERT_LAYER = (*_ALBERT_ATTENTION, "ffn", "ffn_output", "full_layer_layer_norm")
_DISTILBERT_ATTENTION = (f"attention.{name}_lin" for name in ("q", "k", "v", "out"))
LAYER_MODULES = {
    **dict.fromkeys(("bert", "camembert", "electra", "ernie", "roberta", "xlm-roberta"), _BERT_LAYER),
    "albert": tuple(f"albert_layers.0.{name}" for name in _ALBERT_LAYER),
    "deberta": _OUTPUTS,
    "deberta-v2": (*(f"attention.self.{name}_proj" for name in ("query", "key", "value")), *_OUTPUTS),
    "distilbert": (*_DISTILBERT_ATTENTION, "ffn.lin1", "ffn.lin2", "sa_layer_norm", "output_layer_norm"),
    "mpnet": (*(f"attention.attn.{name}" for name in "qkvo"), "attention.LayerNorm", *_FEED_FORWARD),
}
_GATED = ("mlp.gate", "mlp.up", "mlp.down")
# the same, of modules that may have no bias
LAYER_WEIGHTS = {
    "deberta": ("attention.self.in_proj",),
    "eurobert": tuple(f"{part}_proj" for part in (*(f"self_attn.{name}" for name in "qkvo"), *_GATED)),
    "modernbert": ("attn.Wqkv", "attn.Wo", "mlp_norm", "mlp.Wi", "mlp.Wo"),
}
# Families that count positions from behind the padding's id. positions_read says how the others count.
FROM_BEHIND_PADDING = frozenset(
    """
    camembert data2vec-text esm ibert longformer luke mpnet roberta roberta-prelayernorm xlm-roberta
    xlm-roberta-xl xmod
    """.split()  # noqa: SIM905
)

GatedPart = Literal["heads", "intermediate", "output", "embeddings"]  # H, I, O, E of Table 3
LoraLayers = Literal["attention", "all"]  # linear layers that have low-rank adapters
PARTS: tuple[GatedPart, ...] = ("heads", "intermediate", "output", "embeddings")


@dataclass(frozen=True)
class ModuleNames:
    """A family's names of the layers in the encoder, and of the linear maps in a layer."""

    layers: str
    into_heads: tuple[str, ...]
    out_of_heads: str
    first: str  # of the two feed-forward maps
    second: str
    relative: tuple[str, ...] = ()  # maps of relative positions into heads, which some models of the family have


_BERT_NAMES = ModuleNames(
    layers="encoder.layer",
    into_heads=("attention.self.query", "attention.self.key", "attention.self.value"),
    out_of_heads="attention.output.dense",
    first="intermediate.dense",
    second="output.dense",
)
PLACES: dict[str, ModuleNames] = {
    **dict.fromkeys(("bert", "camembert", "electra", "roberta", "xlm-roberta"), _BERT_NAMES),
    "deberta-v2": replace(
        _BERT_NAMES,
        into_heads=("attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"),
        relative=("attention.self.pos_query_proj", "attention.self.pos_key_proj"),
    ),
    "distilbert": ModuleNames(
        layers="transformer.layer",
        into_heads=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        out_of_heads="attention.out_lin",
        first="ffn.lin1",
        second="ffn.lin2",
    ),
    # W_q, W_k and W_v are one matrix, one below the other; the first feed-forward matrix has two rows a neuron
    "modernbert": ModuleNames("layers", ("attn.Wqkv",), "attn.Wo", "mlp.Wi", "mlp.Wo"),
    "mpnet": replace(
        _BERT_NAMES,
        into_heads=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
        out_of_heads="attention.attn.o",
    ),
}
BOTTLENECK = "adapter_bottleneck"  # of config.json
# family -> its layers, and in a layer the modules whose output goes through an adapter
ADAPTER_PLACES: dict[str, tuple[str, tuple[str, str]]] = {
    **dict.fromkeys(
        ("bert", "camembert", "deberta", "deberta-v2", "electra", "roberta", "xlm-roberta"),
        ("encoder.layer", ("attention.output.dropout", "output.dropout")),
    ),
    "distilbert": ("transformer.layer", ("attention.out_lin", "ffn.dropout")),
    "modernbert": ("layers", ("attn.out_drop", "mlp")),
}
ADAPTED = tuple(sorted(ADAPTER_PLACES))  # families that can have adapters


def require_encoder_config(config: Mapping[str, Any], where: str) -> None:
    """Raise ValueError if config.json is that of a model that is no encoder, needs code of its own, or is quantised.

    where: the directory or hub id, for the message
    """
    family, classes = family_in(config), config.get("architectures")
    classes = [name for name in classes if isinstance(name, str)] if isinstance(classes, list) else []
    if not family:
        raise ValueError(
            f"{where}: {CONFIG} has no model_type. Add the family of the weights as transformers names it, such as "
            '"model_type": "bert"'
        )
    for name in ("quantization_config", "compression_config"):
        if (quantisation := config.get(name)) is None:
            continue
        if not quantisation:
            empty = f"{name} in {CONFIG} is empty ({quantisation!r})"
            raise ValueError(f"{where}: {empty}, so the model cannot be loaded. Remove the entry")
        method = quantisation.get("quant_method") if isinstance(quantisation, dict) else None
        raise ValueError(quantised(where, f"{name} in {CONFIG}" + (f": {method}" if method else "")))
    if family not in ENCODERS or config.get("is_encoder_decoder") is True:
        raise ValueError(_no_encoder(where, family, classes, config))
    if config.get("is_decoder") is True:
        raise ValueError(
            f"{where}: a decoder (is_decoder in {CONFIG} is true): it has no masked-language-model head. {ENCODER}"
        )
    _check_fields(config, where)
    pad = config.get("pad_token_id", None if family == "esm" else 1)  # as the family's class of transformers
    if family in FROM_BEHIND_PADDING and (not isinstance(pad, int) or isinstance(pad, bool) or pad < 0):
        raise ValueError(
            f"{where}: pad_token_id in {CONFIG} is {pad!r}, but {family} counts positions from it. Set it to the id of "
            f"the tokenizer's padding token"
        )
    if (reads := positions_read(config)) is not None and reads < 1:
        raise ValueError(
            f"{where}: max_position_embeddings in {CONFIG} is {config['max_position_embeddings']}, but {family} counts "
            f"positions from pad_token_id = {pad}, so no token has one. Restore the file"
        )


def _check_fields(config: Mapping[str, Any], where: str) -> None:
    """Raise ValueError for a size that is no whole number, heads that do not divide the width, an unknown activation,
    and an id of the padding that the vocabulary lacks.
    """
    fewest_types = 0 if family_in(config) in ("deberta", "deberta-v2") else 1
    for name, least in (*((name, 1) for name in NUMBERS), ("pad_token_id", 0), ("type_vocab_size", fewest_types)):
        value = config.get(name, least)
        may_be_other = value is None or (name == "pad_token_id" and value == -1)  # none
        if not may_be_other and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise ValueError(
                f"{where}: {name} in {CONFIG} is {value!r:.80}, but must be a whole number of at least {least}. "
                "Restore the file, or save the model there again"
            )
    width = config.get("hidden_size", config.get("dim"))
    heads = config.get("num_attention_heads", config.get("n_heads"))
    pad, size, activation = (config.get(name) for name in ("pad_token_id", "vocab_size", "hidden_act"))
    fault = ""
    # then the width is not that of all heads
    own_head_size = "head_dim" in config or family_in(config) in ("funnel", "mobilebert")
    if not own_head_size and width and heads and width % heads:
        fault = f"num_attention_heads = {heads} does not divide hidden_size = {width}"
    elif (pad or 0) >= (size or math.inf):
        fault = f"pad_token_id = {pad} is not below vocab_size = {size}"
    elif "hidden_act" in config and str(activation) not in ACTIVATIONS:
        fault = f"hidden_act = {activation!r:.80} is no activation of transformers, such as 'gelu'"
    if fault:
        raise ValueError(f"{where}: in {CONFIG}, {fault}. Restore the file, or save the model there again")


def _no_encoder(where: str, family: str, classes: Sequence[str], config: Mapping[str, Any]) -> str:
    """Return the sentence on a model that is none of ENCODERS. transformers says what it is."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    is_known, code = family in CONFIG_MAPPING, config.get("auto_map")
    class_name = f"{classes[0] if classes else family}"
    if code and not is_known:
        entry, value = next(iter(code.items())) if isinstance(code, dict) else ("auto_map", code)
        return (
            f"{where}: the model needs custom code (auto_map in {CONFIG}: {entry} = {value!r:.80}), and acclimate "
            f"never runs code that comes with a model. {ENCODER}"
        )
    if config.get("is_encoder_decoder") is True or (is_known and CONFIG_MAPPING[family].is_encoder_decoder):
        return f"{where}: an encoder-decoder ({class_name}), which cannot be adapted as an encoder. {ENCODER}"
    if reason := REFUSED.get(family):
        return f"{where}: no usable text encoder ({class_name}): {reason}. {ENCODER}"
    if family in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or any(CAUSAL.search(name) for name in classes):
        return f"{where}: a decoder ({class_name}): it has no masked-language-model head. {ENCODER}"
    if not is_known:
        return f"{where}: model_type in {CONFIG} is {family!r:.80}, a family that transformers does not have. {ENCODER}"
    return f"{where}: no text encoder ({class_name}): {family} has no masked language model of text. {ENCODER}"


def layer_weights(family: str) -> list[str]:
    """Return the names of weights that each layer of the family has, after the layer's number; [] if not known here."""
    names = [f"{module}.{kind}" for module in LAYER_MODULES.get(family, ()) for kind in ("bias", "weight")]
    return [*names, *(f"{module}.weight" for module in LAYER_WEIGHTS.get(family, ()))]


def first_position(family: str, pad: int | None) -> int:
    """Return the position of a row's first token. pad: the padding's id"""
    if family not in FROM_BEHIND_PADDING:
        return 0
    behind = 1 if family == "mpnet" else pad  # MPNet's code has the 1
    assert behind is not None, "require_encoder_config refuses a model without one"
    return behind + 1


def positions_read(config: Mapping[str, Any]) -> int | None:
    """Return the number of tokens that a model reads at once, prompt included, by its config; None: not limited there.

    Most families have a table of max_position_embeddings positions, some of which precede a row's first. Those with
    rotary positions read more, but state the length that they were trained at. DeBERTa without absolute positions, such
    as DeBERTa-v3, and Funnel know only distances, which they limit themselves: no length is too long.
    """
    family, positions = family_in(config), config.get("max_position_embeddings")
    distances_only = family in ("deberta", "deberta-v2") and config.get("position_biased_input") is False
    if not positions or distances_only or family == "funnel":
        return None
    return int(positions) - first_position(family, config.get("pad_token_id", 1))


def quantised(where: str, evidence: str) -> str:
    return (
        f"{where}: quantised weights ({evidence}), which cannot be trained. Give the checkpoint that they were made "
        f"from, in float32, bfloat16 or float16"
    )
