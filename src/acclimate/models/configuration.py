"""What a model's configuration says: its size, the longest row that it reads, and whether its dropout is known.

A race is planned with `usable_configuration`, which checks a model. What it found is kept in core.files.cache(), by the
content of the model's files. So the next plan imports neither transformers nor torch.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, cast

from acclimate.core.files import DamagedError, cache, read_object, write_json
from acclimate.core.prompt import FIELD
from acclimate.core.settings import digest
from acclimate.models.dropout import DROPOUT_FIELDS
from acclimate.models.families import positions_read
from acclimate.models.loading import (
    check_directory,
    check_weights,
    configuration,
    identity,
    load_tokenizer,
    locate,
    reading,
)

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

KEPT, FORMAT = "configurations", 1  # folder in core.files.cache(), and of what is kept there
Architecture = Literal["bert", "modernbert"]
Size = Literal["", "tiny", "mini", "small", "medium", "base", "large"]


@dataclass(frozen=True)
class Shape:
    """The size of an encoder. intermediate: width of the feed-forward layers; None: `new_encoder`'s default."""

    layers: int
    hidden: int
    heads: int
    intermediate: int | None = None


# Devlin et al. (2019), section 3, for base and large; Turc et al. (2019), "Well-Read Students Learn Better", the rest.
_BERT = {
    "tiny": Shape(2, 128, 2),
    "mini": Shape(4, 256, 4),
    "small": Shape(4, 512, 8),
    "medium": Shape(8, 512, 8),
    "base": Shape(12, 768, 12),
    "large": Shape(24, 1024, 16),
}
# Warner et al. (2024), "Smarter, Better, Faster, Longer", table 4, has base and large; the smaller ones are BERT's.
SIZES: dict[Architecture, dict[str, Shape]] = {
    "bert": _BERT,
    "modernbert": {**_BERT, "base": Shape(22, 768, 12, 1152), "large": Shape(28, 1024, 16, 2624)},
}


def shape_of(
    size: Size, architecture: Architecture, *, layers: int | None, hidden: int | None, heads: int | None
) -> Shape:
    """Return the shape of this size. If `size` is empty, the stated numbers, and BERT-base's for those that are None.

    Raises ValueError if a stated number contradicts the size.
    """
    numbers = {
        name: value for name, value in (("layers", layers), ("hidden", hidden), ("heads", heads)) if value is not None
    }
    if not size:
        return replace(_BERT["base"], **numbers)
    named = SIZES[architecture][size]
    for name, value in numbers.items():
        if value != getattr(named, name):
            raise ValueError(
                f"size = '{size}' of {architecture} has {name} = {getattr(named, name)}, but {name} = {value} is "
                f"also given. Remove one of them, or set layers={named.layers} hidden={named.hidden} "
                f"heads={named.heads}"
            )
    return named


def configuration_of(model: str | PathLike[str]) -> PreTrainedConfig:
    """Return the config of a checkpoint directory or hub id. Raises ValueError if it cannot be read."""
    with reading(model) as where:
        return configuration(where)


def require_model(model: str | PathLike[str]) -> None:
    """Raise ValueError unless an encoder and its tokenizer can be read there. No weights are loaded."""
    configuration_of(model)
    check_weights(model)
    load_tokenizer(model)


def longest_input(model: str | PathLike[str]) -> int | None:
    """Return the number of tokens that a model can read at once; None if its config sets no limit."""
    return longest_of_config(configuration_of(model))


def longest_of_config(config: PreTrainedConfig) -> int | None:
    """Return `longest_input` of a config, less the tokens of the prompt, which come after the input."""
    prompt = int(getattr(config, FIELD, 0))
    fields = ("model_type", "max_position_embeddings", "pad_token_id", "position_biased_input")
    positions = positions_read({name: getattr(config, name) for name in fields if hasattr(config, name)})
    return None if positions is None else positions - prompt


def dropout_known(model: str | PathLike[str]) -> bool:
    """Return True if `set_dropout` knows the model's family (models/dropout.py)."""
    return configuration_of(model).model_type in DROPOUT_FIELDS


class Configuration(SimpleNamespace):
    """The fields of a config of transformers, under all names that its class has for them."""

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def usable_configuration(model: str | PathLike[str]) -> PreTrainedConfig:
    """Return the config of a model that can be raced. For a directory it is a `Configuration`.

    Raises ValueError as `check_weights`, `configuration_of` and `load_tokenizer` do.
    """
    where = locate(model)
    if not Path(where).is_dir():
        return configuration_of(model)
    check_directory(Path(where))
    conditions = {"model": identity(where), "format": FORMAT}
    conditions |= {package: version(package) for package in ("acclimate", "torch", "transformers")}
    path = cache() / KEPT / f"{digest(conditions)[:16]}.json"
    with suppress(DamagedError):
        if path.is_file():
            return cast("PreTrainedConfig", Configuration(**read_object(path, names=("fields",))["fields"]))
    check_weights(where)
    config = configuration_of(where)
    if any(Path(where).glob("*token*")):  # what lacks one is refused when its texts are read
        load_tokenizer(where)
    aliases = {name: getattr(config, name) for name in config.attribute_map if hasattr(config, name)}
    content = json.loads(json.dumps({"of": conditions, "fields": aliases | config.to_dict()}, default=str))
    with suppress(OSError):  # a model is checked without a cache, too
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, content)
    return cast("PreTrainedConfig", Configuration(**content["fields"]))


def transformers_configuration(config: PreTrainedConfig) -> PreTrainedConfig:
    """Return the config as an object of transformers, from which a model can be made."""
    if not isinstance(config, Configuration):
        return config
    from transformers import CONFIG_MAPPING

    config_class: Any = CONFIG_MAPPING[config.model_type]
    transformers_config: PreTrainedConfig = config_class.from_dict(config.to_dict())
    return transformers_config
