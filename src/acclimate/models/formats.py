"""Store models that no class of transformers computes so that transformers refuses to load them.

A mean of all states, an LSTM, a CRF or adapters would be dropped in silence by transformers, which draws a random layer
in their place. Such a model is stored under names of its own:

config.json                    model_type is a sentence that names the way to load it, and appears in the error of the
                               Auto classes; `acclimate_family` is the family's model_type
model.acclimate.safetensors    the weights, so that a class that is named directly has no model.safetensors to read
0_Transformer/                 only in a shipment for sentence-transformers: the encoder's weights, which the file
                               above then lacks
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from acclimate.core.files import read_object, write_json

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel

FAMILY = "acclimate_family"  # of config.json
ENCODER_FOLDER = "acclimate_encoder"  # of config.json, where the encoder's weights are in a folder
VARIANT = "acclimate"  # of the weights' file, as transformers names variants
WEIGHTS, OWN_WEIGHTS = "model.safetensors", f"model.{VARIANT}.safetensors"
ENCODER = "0_Transformer"  # folder of a shipment, by the name that sentence-transformers uses
PREDICT = "acclimate predict"
ENCODE = "acclimate race --model"  # of an encoder with adapters
# fields of a config -> what they say that no class of transformers has; the values are those of transformers' classes
_OWN_FIELDS: dict[str, Any] = {
    "text_pooling": "pooler",
    "sequence_layer": "linear",
    "tag_layer": "linear",
    "adapter_bottleneck": 0,
}


def own_parts(config: PreTrainedConfig) -> str:
    """Return the parts of a model that no class of transformers has, such as "text_pooling=mean"; "" without any."""
    parts = {name: getattr(config, name, native) for name, native in _OWN_FIELDS.items()}
    return ", ".join(f"{name}={value}" for name, value in parts.items() if value != _OWN_FIELDS[name])


def save_weights(model: PreTrainedModel, directory: str | Path) -> None:
    """Write config and weights: as transformers reads them, or under names of their own if it could not."""
    config = cast(Any, model.config)
    for name in (FAMILY, ENCODER_FOLDER):
        if hasattr(config, name):
            delattr(config, name)
    parts = own_parts(config)
    model.save_pretrained(directory, variant=VARIANT if parts else None)
    if parts:
        classifies = "MaskedLM" not in type(model).__name__
        refuse_transformers(Path(directory), parts, ways=PREDICT if classifies else ENCODE)


def refuse_transformers(directory: Path, parts: str, *, ways: str = PREDICT) -> None:
    """Rewrite config.json so that the Auto classes of transformers refuse it with an error that names `ways`.

    Weights get their own name, and config.json states whether the encoder's are in a folder.
    """
    path = directory / "config.json"
    config = read_object(path)
    family = config.get(FAMILY, config["model_type"])
    sentence = f"{family} with {parts}, which transformers cannot compute: load this directory with {ways}"
    folder = {ENCODER_FOLDER: ENCODER} if (directory / ENCODER / WEIGHTS).exists() else {}
    write_json(path, config | {FAMILY: family, **folder, "model_type": sentence})
    if (directory / WEIGHTS).exists():
        (directory / WEIGHTS).rename(directory / OWN_WEIGHTS)


def family_in(config: Mapping[str, Any]) -> str:
    """Return the family, as transformers names it, in the content of a config.json; "" where it is missing."""
    return str(config.get(FAMILY) or config.get("model_type") or "")


def read_configuration(where: str) -> PreTrainedConfig:
    """Return the config of a directory or a hub id, in either form."""
    from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

    content, _ = PreTrainedConfig.get_config_dict(where)
    family = content.get(FAMILY)
    if not family:
        config: PreTrainedConfig = AutoConfig.from_pretrained(where, trust_remote_code=False)
        return config
    if family not in CONFIG_MAPPING:
        raise ValueError(
            f"{Path(where) / 'config.json'}: {FAMILY} = {family!r} is no family of transformers. Restore the file, or "
            f"ship the model again"
        )
    config_class: Any = CONFIG_MAPPING[family]
    config = config_class.from_dict({**content, "model_type": family})
    config.name_or_path = where
    return config


def weight_files(directory: Path) -> list[Path]:
    """Return the safetensors files of a model's directory, those of a shipment's encoder among them."""
    own = [directory / ENCODER / WEIGHTS] if (directory / OWN_WEIGHTS).exists() else []
    return sorted([*directory.glob("*.safetensors"), *(file for file in own if file.exists())])


def own_weights(where: str, config: PreTrainedConfig) -> dict[str, Tensor] | None:
    """Return the weights of a shipment whose encoder is a folder of its own; None for any other model.

    where: a directory or a hub id
    """
    from safetensors.torch import load_file
    from transformers import MODEL_MAPPING

    if not (folder := getattr(config, ENCODER_FOLDER, "")):
        return None
    prefix = cast(Any, MODEL_MAPPING[type(config)]).base_model_prefix
    encoder = load_file(_file(where, f"{folder}/{WEIGHTS}"))
    named = {f"{prefix}.{name}": weight for name, weight in encoder.items()}
    return {**load_file(_file(where, OWN_WEIGHTS)), **named}


def _file(where: str, name: str) -> Path:
    if Path(where).is_dir():
        return Path(where) / name
    import huggingface_hub as hub

    return Path(hub.hf_hub_download(where, name))
