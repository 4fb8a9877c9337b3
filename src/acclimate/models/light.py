"""Add what can be trained while an encoder's weights do not change: adapters in its layers, a prompt behind its rows.

adapters  Two in each layer, x + W_2 gelu(W_1 x + b_1) + b_2 with `bottleneck` numbers in between, where Houlsby et al.
          (2019, Figure 2) have them: behind the projection and dropout of the attention and of the feed-forward layers,
          before the residual is added. config.json states their width as `adapter_bottleneck`, and models/loading.py
          makes them before it reads weights. Transformers refuses such a checkpoint (models/formats.py).
prompt    New pieces of the vocabulary (Lester et al., 2021), which the checkpoint's tokenizer puts behind every row, so
          that transformers alone uses the prompt too. No head ever predicts one of them.

Shape suffixes: P tokens of the prompt, D hidden.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import torch
import transformers
from tokenizers import Tokenizer
from torch import Tensor, nn

from acclimate.core.prompt import FIELD, prompt_length
from acclimate.core.randomness import seeded
from acclimate.models.families import ADAPTED, ADAPTER_PLACES, BOTTLENECK

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

SPREAD = 1e-3  # of new adapters' weights: they begin as next to nothing (Houlsby et al., 3.6, and their code)
NEVER = -1e4  # a logit below all others; half precision can hold it


def add_adapters(model: PreTrainedModel, bottleneck: int, *, seed: int) -> None:
    """Give a model adapters with random weights, in place; if it has adapters of this width already, change nothing.

    Raises ValueError if it has adapters of another width, or if its family is not one of ADAPTED.
    """
    if (size := bottleneck_of(model.config)) not in (0, bottleneck):
        raise ValueError(
            f"the model already has adapters of bottleneck {size}. Set bottleneck={size} to continue training them"
        )
    if not size:
        with seeded(seed):
            attach_adapters(model, bottleneck)


def attach_adapters(model: PreTrainedModel, bottleneck: int) -> None:
    """Put adapters into a model that has none, in place, and state them in its config.

    Raises ValueError for a family that ADAPTED does not list.
    """
    family = model.config.model_type
    if family not in ADAPTER_PLACES:
        raise ValueError(
            f"acclimate does not support adapters in a '{family}'. Use a model of one of these families: "
            f"{', '.join(ADAPTED)}"
        )
    layers, places = ADAPTER_PLACES[family]
    for layer in attrgetter(layers)(model.base_model):
        for name in places:
            place = attrgetter(name)(layer)
            place.add_module("adapter", Adapter(model.config.hidden_size, bottleneck).to(model.device))
            place.register_forward_hook(_apply_adapter)
    setattr(model.config, BOTTLENECK, bottleneck)


def with_adapters(kind: Any, config: PreTrainedConfig) -> Any:
    """Return the class whose `from_pretrained` loads a checkpoint of this config, `kind` being an Auto class.

    Without adapters that is `kind`; with them, a subclass, of the same name, of the model class that `kind` would use.
    """
    if not bottleneck_of(config):
        return kind
    with torch.device("meta"):
        plain: Any = type(kind.from_config(config))

    class Adapted(plain):  # type: ignore[misc]
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            attach_adapters(self, bottleneck_of(config))

    Adapted.__name__, Adapted.__qualname__ = plain.__name__, plain.__qualname__
    return Adapted


class Adapter(nn.Module):
    """Computes x + W_2 gelu(W_1 x + b_1) + b_2. Initial weights are normal, cut at two standard deviations."""

    def __init__(self, hidden: int, bottleneck: int) -> None:
        super().__init__()
        self.down = nn.Linear(hidden, bottleneck)
        self.up = nn.Linear(bottleneck, hidden)
        for layer in (self.down, self.up):
            nn.init.trunc_normal_(layer.weight, std=SPREAD, a=-2 * SPREAD, b=2 * SPREAD)
            nn.init.zeros_(layer.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + cast(Tensor, self.up(nn.functional.gelu(self.down(hidden))))


def _apply_adapter(place: nn.Module, _: Any, output: Tensor) -> Tensor:
    return cast(Tensor, cast(Adapter, place.adapter)(output))


def bottleneck_of(config: PreTrainedConfig) -> int:
    """Return the width of the adapters that a config states; 0 if there are none."""
    return int(getattr(config, BOTTLENECK, 0))


def adapters_of(model: PreTrainedModel) -> Iterator[Adapter]:
    """Yield the model's adapters, from the lowest layer."""
    return (module for module in model.modules() if isinstance(module, Adapter))


def add_prompt(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, count: int, *, seed: int
) -> PreTrainedTokenizerBase:
    """Return a tokenizer that puts `count` new pieces behind each row, and give the model, in place, their embeddings.

    Embeddings start uniform between -.5 and .5, as those of Lester et al. If the model has a prompt of this length
    already, nothing changes. Raises ValueError if it has one of another length, if the tokenizer's post-processor is
    none that `_with_prompt_behind` knows, and if the head cannot take new pieces.
    """
    if (length := prompt_length(tokenizer)) not in (0, count):
        raise ValueError(
            f"the model already has a prompt of {length} tokens. Set prompt_tokens={length} to continue training it"
        )
    if length:
        return tokenizer
    head = cast(Any, model)  # its methods are untyped in transformers
    embeddings = cast(nn.Embedding, model.get_input_embeddings())
    if getattr(head.get_output_embeddings(), "out_features", 0) != embeddings.num_embeddings:
        # for DeBERTa's head with legacy=false transformers returns, and resizes, the layer before the output
        raise ValueError(f"transformers cannot add entries to the head of this '{model.config.model_type}'")
    prompted = _prompted(tokenizer, count)
    ids = prompt_ids(prompted)
    with seeded(seed):
        if len(prompted) > embeddings.num_embeddings:
            model.resize_token_embeddings(len(prompted), mean_resizing=False)
            embeddings = cast(nn.Embedding, model.get_input_embeddings())
        with torch.no_grad():
            embeddings.weight[ids] = torch.empty(count, embeddings.embedding_dim).uniform_(-0.5, 0.5)
            head.get_output_embeddings().bias[ids] = NEVER
    setattr(model.config, FIELD, count)
    return prompted


def prompt_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the ids of the prompt, which are consecutive; [] if there is no prompt."""
    return cast(list[int], tokenizer.convert_tokens_to_ids(_names(prompt_length(tokenizer))))


def _names(count: int) -> list[str]:
    return [f"[PROMPT {number}]" for number in range(count)]


def _prompted(tokenizer: PreTrainedTokenizerBase, count: int) -> PreTrainedTokenizerBase:
    """Return the tokenizer with a prompt of `count` new pieces behind every row.

    Its class is PreTrainedTokenizerFast, not the family's: the families' classes build the special tokens of a row by
    themselves, whatever their tokenizer.json says.
    """
    if not tokenizer.is_fast:
        raise ValueError("the tokenizer has no fast version. Save one (tokenizer.json) with transformers")
    pieces = _names(count)
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.add_special_tokens(pieces)
    ids = {piece: cast(int, backend.token_to_id(piece)) for piece in pieces}
    content = json.loads(backend.to_str())  # of tokenizer.json
    content["post_processor"] = _with_prompt_behind(content["post_processor"] or {"type": "none"}, ids)
    special = {name: str(token) for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)}
    extra = [token for token in tokenizer.all_special_tokens if token not in special.values()]
    fast: Any = transformers.PreTrainedTokenizerFast  # untyped in transformers
    return cast(
        "PreTrainedTokenizerBase",
        fast(
            tokenizer_object=Tokenizer.from_str(json.dumps(content)),
            **special,
            extra_special_tokens=[*extra, *pieces],
            model_input_names=list(tokenizer.model_input_names),
            model_max_length=tokenizer.model_max_length,
            padding_side=tokenizer.padding_side,
            truncation_side=tokenizer.truncation_side,
            **{FIELD: count},
        ),
    )


def _with_prompt_behind(processor: dict[str, Any], ids: dict[str, int]) -> dict[str, Any]:
    """Return the post-processor of a tokenizer.json, changed to put these pieces, of token type 0, behind every row.

    Every kind becomes a TemplateProcessing, which lists what a row consists of, such as [CLS] A [SEP]:
    {"single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, ...],
    "pair": [...], "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [101], "tokens": ["[CLS]"]}, ...}}

    ids  piece of the prompt -> its id
    """
    kind = processor["type"]
    if kind == "Sequence" and processor["processors"]:
        *others, last = processor["processors"]
        return {**processor, "processors": [*others, _with_prompt_behind(last, ids)]}
    if kind == "RobertaProcessing":  # <s> A </s></s> B </s>, and it trims the offsets of words
        trimming = {"type": "ByteLevel", "use_regex": True}
        trimming |= {name: processor[name] for name in ("add_prefix_space", "trim_offsets")}
        template = _as_template(processor, separators=2, type_of_second=0)
        return {"type": "Sequence", "processors": [trimming, _with_prompt_behind(template, ids)]}
    if kind == "BertProcessing":  # [CLS] A [SEP] B [SEP], the second text of token type 1
        return _with_prompt_behind(_as_template(processor, separators=1, type_of_second=1), ids)
    if kind != "TemplateProcessing":
        raise ValueError(
            f"acclimate cannot add a prompt to the rows of this tokenizer (post-processor '{kind}'). Use another model"
        )
    behind = [{"SpecialToken": {"id": piece, "type_id": 0}} for piece in ids]
    special = {piece: {"id": piece, "ids": [number], "tokens": [piece]} for piece, number in ids.items()}
    return {
        **processor,
        "single": [*processor["single"], *behind],
        "pair": [*processor["pair"], *behind],
        "special_tokens": {**processor["special_tokens"], **special},
    }


def _as_template(processor: dict[str, Any], *, separators: int, type_of_second: int) -> dict[str, Any]:
    """Return the TemplateProcessing that does the same as a BertProcessing or RobertaProcessing.

    separators      number of them between the two texts of a pair
    type_of_second  token type of a pair's second text and of the separator behind it
    """
    cls, cls_id = processor["cls"]
    sep, sep_id = processor["sep"]
    separator = {"SpecialToken": {"id": sep, "type_id": 0}}
    single = [{"SpecialToken": {"id": cls, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, separator]
    second = [
        {"Sequence": {"id": "B", "type_id": type_of_second}},
        {"SpecialToken": {"id": sep, "type_id": type_of_second}},
    ]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, *[separator] * (separators - 1), *second],
        "special_tokens": {
            cls: {"id": cls, "ids": [cls_id], "tokens": [cls]},
            sep: {"id": sep, "ids": [sep_id], "tokens": [sep]},
        },
    }
