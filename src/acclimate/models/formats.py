"""Store models that transformers cannot compute, in files that transformers refuses to load.

Transformers would drop a mean of states, an LSTM, a CRF or adapters silently and use a random layer. Such a model has
these files instead:

config.json                    model_type is a sentence that names the way to load it, and appears in the error of the
                               Auto classes; `acclimate_family` is the family's model_type
model.acclimate.safetensors    the weights, so that a class that is named directly has no model.safetensors to read
0_Transformer/                 only in a shipment for sentence-transformers: the encoder's weights, which the file
                               above then lacks
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from acclimate.core.files import read_object, write_json

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel

SAFE_ENDINGS = (".json", ".txt", ".model", ".safetensors")  # of the files of a model that are read, hashed and copied
PROVENANCE = "provenance.json"  # of a checkpoint: what it was made of (training/run.py)
FAMILY = "acclimate_family"  # of config.json
ENCODER_FOLDER = "acclimate_encoder"  # of config.json, where the encoder's weights are in a folder
VARIANT = "acclimate"  # of the weights' file, as transformers names variants
WEIGHTS, OWN_WEIGHTS = "model.safetensors", f"model.{VARIANT}.safetensors"
ENCODER = "0_Transformer"  # folder of a shipment, by the name that sentence-transformers uses
PREDICT = "acclimate predict"
ENCODE = "acclimate race --model"  # of an encoder with adapters
Pooling = Literal["pooler", "first", "mean", "mentions", "mentions-mean", "starts", "pair"]
OF_MENTIONS: tuple[Pooling, ...] = ("mentions", "mentions-mean", "starts")  # read where two mentions stand
OF_PLACES: tuple[Pooling, ...] = (*OF_MENTIONS, "pair")  # and where two texts stand
SequenceLayer = Literal["linear", "bilstm", "mlp"]
OutputLayer = Literal["linear", "bilstm", "crf", "bilstm-crf"]
CRF_LAYERS: tuple[OutputLayer, ...] = ("crf", "bilstm-crf")
# field of a config -> its value in transformers' classes; any other value is ours
_OWN_FIELDS: dict[str, Any] = {
    "text_pooling": "pooler",
    "sequence_layer": "linear",
    "tag_layer": "linear",
    "adapter_bottleneck": 0,
}


def times_hidden(pooling: Pooling) -> int:
    """Return how many times as wide as the encoder what is read of a text is."""
    return 4 if pooling == "pair" else 2 if pooling in OF_MENTIONS else 1


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
    sentence = f"{family} with {parts}, which transformers does not support. Load this directory with {ways}"
    folder = {ENCODER_FOLDER: ENCODER} if (directory / ENCODER / WEIGHTS).exists() else {}
    write_json(path, config | {FAMILY: family, **folder, "model_type": sentence})
    if (directory / WEIGHTS).exists():
        (directory / WEIGHTS).rename(directory / OWN_WEIGHTS)


def remove_own_fields(directory: Path) -> None:
    """Rewrite config.json as that of the family's encoder, without fields that only acclimate reads."""
    path = directory / "config.json"
    config = read_object(path)
    own = {FAMILY, ENCODER_FOLDER, *_OWN_FIELDS}
    values = {name: value for name, value in config.items() if name not in own}
    write_json(path, values | {"model_type": family_in(config)})


def family_in(config: Mapping[str, Any]) -> str:
    """Return the family, as transformers names it, in the content of a config.json; "" where it is missing."""
    return str(config.get(FAMILY) or config.get("model_type") or "")


def read_configuration(source: str) -> PreTrainedConfig:
    """Return the config of a directory or a hub id, in either form."""
    from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

    content, _ = PreTrainedConfig.get_config_dict(source)
    family = content.get(FAMILY)
    if not family:
        config: PreTrainedConfig = AutoConfig.from_pretrained(source, trust_remote_code=False)
        return config
    if family not in CONFIG_MAPPING:
        raise ValueError(
            f"{Path(source) / 'config.json'}: {FAMILY} = {family!r} is not a model family of transformers. Restore the "
            f"file, or ship the model again"
        )
    config_class: Any = CONFIG_MAPPING[family]
    config = config_class.from_dict({**content, "model_type": family})
    config.name_or_path = source
    return config


def weight_files(directory: Path) -> list[Path]:
    """Return the safetensors files of a model's directory, those of a shipment's encoder among them."""
    encoder_weights = [directory / ENCODER / WEIGHTS] if (directory / OWN_WEIGHTS).exists() else []
    return sorted([*directory.glob("*.safetensors"), *(file for file in encoder_weights if file.exists())])


def own_weights(source: str, config: PreTrainedConfig) -> dict[str, Tensor] | None:
    """Return the weights of a shipment whose encoder is a folder of its own; None for any other model.

    source: a directory or a hub id
    """
    from safetensors.torch import load_file
    from transformers import MODEL_MAPPING

    if not (folder := getattr(config, ENCODER_FOLDER, "")):
        return None
    prefix = cast(Any, MODEL_MAPPING[type(config)]).base_model_prefix
    encoder = load_file(_file(source, f"{folder}/{WEIGHTS}"))
    encoder_state = {f"{prefix}.{name}": weight for name, weight in encoder.items()}
    return {**load_file(_file(source, OWN_WEIGHTS)), **encoder_state}


def _file(source: str, name: str) -> Path:
    if Path(source).is_dir():
        return Path(source) / name
    import huggingface_hub as hub

    return Path(hub.hf_hub_download(source, name))
