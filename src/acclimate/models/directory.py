"""Whether a directory is a checkpoint that can be adapted and fine-tuned.

Its files, its config and the headers of its weights are read. That needs no torch, and transformers only to say what
a refused model is. Every verb
asks `require_usable` before it loads anything, so all refuse a model with the same sentence.
"""

from __future__ import annotations

import json
import re
import stat
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

from acclimate.core.files import DamagedError, read_object
from acclimate.models.families import CONFIG, ENCODERS, LAYERS, layer_weights, quantised, require_encoder_config
from acclimate.models.formats import ENCODER_FOLDER, WEIGHTS, family_in, weight_files

ADAPTER = "adapter_config.json"  # of peft: transformers loads the adapters beside it over the weights
MODULES = "modules.json"  # of sentence-transformers
INDEX = "model.safetensors.index.json"
TOKENIZER = "tokenizer_config.json"
QUANTISERS = ("quantize_config.json", "quant_config.json", "quantization_config.json")  # of GPTQ and AWQ
READ = (".json", ".txt", ".model", ".safetensors")  # endings of the files that loaders open
PICKLED = (".bin", ".pt", ".pth", ".ckpt")
NO_MODEL = re.compile(r"(training_args|optimizer|scheduler|scaler|rng_state.*|openvino.*)\.\w+$")  # of those endings
RESTORE = "Restore the file, or save the model there again"
NAMES_SHOWN = 5
MOST_GROWTH = 8  # of a text by its normaliser
WORDS = re.compile(r"(.*?)embeddings\.(word|tok)_embeddings\.weight$")
FORMATS = {".onnx": "an ONNX", ".h5": "a TensorFlow", ".msgpack": "a Flax", ".ot": "a Rust"}
SHARD = re.compile(r"(.*)-(\d+)-of-(\d+)\.safetensors$")
INTEGERS = re.compile(r"[IU](8|16|32)$|F[48]_|F8")
PACKED = re.compile(r"\.(qweight|qzeros|SCB|absmax|quant_map|quant_state\..*)$")


def require_usable(directory: Path) -> None:
    """Raise ValueError, naming the file and the way out, if the directory holds a model that cannot be adapted.

    A tokenizer alone or a config alone passes; the code that needs more reports what is missing.
    """
    names = _readable(directory)
    _require_transformers_model(directory, names)
    if ADAPTER in names:
        about = read_object(directory / ADAPTER, way_out=RESTORE)
        raise ValueError(
            f"{directory / ADAPTER}: adapters of peft would change the loaded weights (base model "
            f"{about.get('base_model_name_or_path')!r:.80}). Merge them first: peft's merge_and_unload(), then "
            "save_pretrained; or remove the file"
        )
    if CONFIG not in names:
        return
    config = read_object(directory / CONFIG, way_out=RESTORE)
    require_encoder_config(config, str(directory))
    if quantiser := next((name for name in QUANTISERS if name in names), None):
        raise ValueError(quantised(str(directory), quantiser))
    _check_labels(directory / CONFIG, config)
    if TOKENIZER in names:
        path = directory / TOKENIZER
        longest = read_object(path, way_out=RESTORE).get("model_max_length", 1)
        if longest is not None and (
            isinstance(longest, bool) or not isinstance(longest, int | float) or not longest >= 1
        ):
            raise DamagedError(f"{path}: model_max_length = {longest!r:.60} is not a number of at least 1. {RESTORE}")
    _require_shards(directory, names)
    encoder = directory / str(config.get(ENCODER_FOLDER, "")) / WEIGHTS
    if config.get(ENCODER_FOLDER) and not encoder.is_file():
        raise ValueError(f"{encoder}: the encoder of this model is missing. Copy it there, or ship again")
    headers = weight_headers(directory)
    packed = [name for name, (kind, shape) in headers.items() if _is_packed(name, kind, shape)]
    if packed:
        raise ValueError(quantised(str(directory), f"{packed[0]} is {headers[packed[0]][0]}"))
    require_names(directory, config, headers)


def require_vocabulary(where: str, largest: int, config: Mapping[str, Any]) -> None:
    """Raise ValueError if the tokenizer has larger ids than the weights have rows. largest: of its ids"""
    vocabulary_size = config.get("vocab_size")
    if isinstance(vocabulary_size, int) and largest >= vocabulary_size:
        raise ValueError(
            f"{where}: the tokenizer has ids up to {largest:,}, but config.json says vocab_size = "
            f"{vocabulary_size:,}. Replace the tokenizer with the one that the weights were trained with"
        )


def require_bounded(where: str, normalizer: Any) -> None:
    """Raise ValueError if a normaliser of `tokenizers` could make a text MOST_GROWTH times as long.

    A replacement multiplies the length by len(content) / len(match); replacements in a sequence multiply each other. A
    regular expression matches at least one character.
    """
    if normalizer is None:
        return
    if (growth := _growth(json.loads(normalizer.__getstate__()))) > MOST_GROWTH:
        raise ValueError(
            f"{where}/tokenizer.json: the normalizer can make a text {growth:,} times as long, but the limit is "
            f"{MOST_GROWTH}. Remove the replacement rule, or restore the file"
        )


def _growth(step: Mapping[str, Any]) -> int:
    """Return the most characters that a step of a normaliser makes of one."""
    if step.get("type") == "Sequence":
        return prod(map(_growth, step["normalizers"]))
    if step.get("type") != "Replace":
        return 1
    matched = max(len(step["pattern"].get("String", "")), 1)
    return max(-(-len(step["content"]) // matched), 1)


def weight_headers(directory: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return name -> type, such as F32, and shape of the safetensors weights; empty: none are there.

    Raises ValueError, naming the file, if one cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    headers: dict[str, tuple[str, tuple[int, ...]]] = {}
    for file in weight_files(directory):
        try:
            with safe_open(file, framework="np") as weights:
                for name in weights.keys():  # noqa: SIM118  # no mapping
                    part = weights.get_slice(name)
                    headers[name] = part.get_dtype(), tuple(part.get_shape())
        except (SafetensorError, OSError) as error:
            raise ValueError(
                f"{file}: cannot be loaded as a checkpoint of transformers: {error}. Restore the file, or save the "
                f"model there again"
            ) from error
    return headers


def file_of_weight(directory: Path, name: str) -> str:
    """Return the path of the file that holds a weight; that of the directory if none does under this name."""
    from safetensors import safe_open

    for file in weight_files(directory):
        with safe_open(file, framework="np") as weights:
            if name in weights.keys():  # noqa: SIM118  # no mapping
                return str(file)
    return str(directory)


def require_safetensors(where: str) -> None:
    """Raise ValueError for a directory without safetensors weights. Reading pickled ones can run code in them."""
    directory = Path(where)
    if not directory.is_dir() or any(directory.glob("*.safetensors")):
        return
    pickled = _pickled(file.name for file in directory.iterdir())
    if not pickled:
        below = sorted(path.parent for path in directory.glob("*/model.safetensors"))
        way_out = f"The directory {below[0]} has some: give that path" if below else "Copy the file there"
        raise ValueError(f"{where}: contains no weights (model.safetensors). {way_out}, or save the model there again")
    raise ValueError(
        f"{where}: contains only pickled weights ({', '.join(pickled)}), and loading those can run code. If you "
        "trust their source, convert them once: from transformers import AutoModelForMaskedLM; "
        f"AutoModelForMaskedLM.from_pretrained({where!r}).save_pretrained({where!r})"
    )


def _pickled(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.endswith(PICKLED) and not NO_MODEL.match(name))


def _readable(directory: Path) -> set[str]:
    """Return the names in the directory. Raises ValueError for a pipe, device, socket or broken link among the files
    that a loader opens: opening a pipe waits for ever.
    """
    names = set()
    for path in directory.iterdir():
        names.add(path.name)
        if path.suffix not in (*READ, *PICKLED):
            continue
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise ValueError(f"{path}: cannot be opened: {error.strerror}. {RESTORE}") from error
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
            kind = kinds.get(stat.S_IFMT(mode), "a device")
            raise ValueError(f"{path}: is {kind}, not a file, so it cannot be read. {RESTORE}")
    return names


def _require_transformers_model(directory: Path, names: Collection[str]) -> None:
    """Raise ValueError if the directory is empty, or holds weights in another form than that of transformers."""
    if not names:
        raise ValueError(f"{directory}: the directory is empty. Give one that contains {CONFIG} and model.safetensors")
    if not any(name.endswith(".safetensors") for name in names):
        places = [*sorted(names)]
        if CONFIG in names:  # exports are often in a folder
            places += sorted(str(path.relative_to(directory)) for path in directory.glob("*/*"))
        if packed := [name for name in places if name.endswith(".gguf")]:
            raise ValueError(quantised(str(directory), packed[0]))
        others = [(name, FORMATS[Path(name).suffix]) for name in places if Path(name).suffix in FORMATS]
        if others and not _pickled(names):
            raise ValueError(
                f"{directory}: contains only {others[0][1]} model ({others[0][0]}), whose weights cannot be trained "
                "here. Give the checkpoint from which it was made"
            )
    if MODULES in names and CONFIG not in names:
        below = sorted(path.parent for path in directory.glob(f"*/{CONFIG}") if any(path.parent.glob("*.safetensors")))
        if below:
            what = "the encoder of this model of sentence-transformers"
            raise ValueError(f"{directory}: {what} is in {below[0]}. Give that path")


def _is_packed(name: str, kind: str, shape: tuple[int, ...]) -> bool:
    """True if a tensor holds quantised weights: a matrix of small numbers, or what GPTQ and bitsandbytes add."""
    matrix = len(shape) > 1 and name.endswith("weight")
    return bool(PACKED.search(name)) or (matrix and bool(INTEGERS.match(kind)))


def _require_shards(directory: Path, names: Collection[str]) -> None:
    """Raise ValueError if a file of weights that are in several files is missing."""
    shards: set[str] = set()
    if INDEX in names:
        weight_map = read_object(directory / INDEX, way_out=RESTORE).get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
            raise ValueError(f"{directory / INDEX}: weight_map is not an object of file names. {RESTORE}")
        shards |= set(weight_map.values())
    for name in names:
        if parts := SHARD.match(name):
            total, width = int(parts[3]), len(parts[3])
            if not 1 <= total <= 10_000:
                what = "the number of parts in the name"
                raise ValueError(f"{directory / name}: {what} is not between 1 and 10,000. {RESTORE}")
            shards |= {f"{parts[1]}-{number:0{width}}-of-{parts[3]}.safetensors" for number in range(1, total + 1)}
    if missing_shards := sorted(shards - set(names)):
        excerpt = ", ".join(missing_shards[:NAMES_SHOWN]) + (", ..." if len(missing_shards) > NAMES_SHOWN else "")
        raise ValueError(
            f"{directory}: {len(missing_shards)} of {len(shards)} files of the weights are missing: {excerpt}. "
            f"Copy them there"
        )


# max_position_embeddings where config.json lacks it, if not 512, by transformers
POSITIONS = {"big_bird": 4096, "esm": 1026, "nystromformer": 510, "xlm-roberta-xl": 514, "yoso": 4096}


def require_names(
    directory: Path, config: Mapping[str, Any], headers: Mapping[str, tuple[str, tuple[int, ...]]]
) -> None:
    """Raise ValueError if weights of the encoder have names that transformers does not know: they would be random."""
    family = family_in(config)
    stem = ENCODERS[family]
    if not stem or not headers:
        return
    prefix, _, stem = stem.partition(".")
    words = {name: match for name in headers if (match := WORDS.match(name))}
    if words and not any(match[1] in ("", f"{prefix}.") for match in words.values()):
        name, match = next(iter(words.items()))
        owner = _owner(match)
        if owner and not ENCODERS[owner].startswith(f"{prefix}."):
            evidence = f"model_type is {family!r}, but {name} is the name of a weight of {owner}"
            raise ValueError(_mismatched(directory, evidence))
        wrapper = match[1].removesuffix(f"{prefix}.")
        count = sum(name.startswith(wrapper) for name in headers)
        raise ValueError(
            f"{directory}: {count} of {len(headers)} weight names begin with {wrapper!r}, which transformers does not "
            "expect, so the encoder would be random. Remove the prefix from each file F of weights: from "
            f"safetensors.torch import load_file, save_file; save_file({{name.removeprefix({wrapper!r}): weight for "
            'name, weight in load_file(F).items()}, F, {"format": "pt"})'
        )
    rows, vocabulary_size = [headers[name][1][0] for name in words], config.get("vocab_size")
    if rows and isinstance(vocabulary_size, int) and vocabulary_size not in rows:
        evidence = f"vocab_size = {vocabulary_size:,}, but {next(iter(words))} has {rows[0]:,} rows"
        raise ValueError(_mismatched(directory, evidence))
    positions = config.get("max_position_embeddings", POSITIONS.get(family, 512))
    for name, (_, shape) in headers.items():
        more = 2 * (family in ("mra", "nystromformer", "yoso"))  # rows that no position has
        if name.endswith("embeddings.position_embeddings.weight") and shape[0] - more != positions:
            evidence = f"max_position_embeddings = {positions}, but {name} has {shape[0]:,} rows"
            raise ValueError(_mismatched(directory, evidence))
    layers = config.get(LAYERS.get(family, "num_hidden_layers"))
    if not isinstance(layers, int):
        return
    own = {current_name(name).removeprefix(f"{prefix}.") for name in headers}
    parts = [{name for name in own if name.startswith(f"{stem}.{layer}.")} for layer in range(min(layers, len(own)))]
    if layers > len(own) or not all(parts):
        missing = next((number for number, part in enumerate(parts) if not part), len(parts))
        evidence = f"layer {missing} of {layers:,} has no weight whose name begins with {prefix}.{stem}.{missing}"
        raise ValueError(_mismatched(directory, evidence))
    names = (f"{stem}.{layer}.{name}" for layer in range(layers) for name in layer_weights(family))
    if lost := [f"{prefix}.{name}" for name in names if name not in own]:
        raise ValueError(lost_weights(str(directory), lost))


def current_name(name: str) -> str:
    """Return a weight's name with the LayerNorm of today for that of the first BERT, which transformers also reads."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def lost_weights(source: str, names: Collection[str]) -> str:
    """Return the sentence on weights of the encoder that a checkpoint lacks or has in another shape."""
    excerpt = ", ".join(sorted(names)[:NAMES_SHOWN]) + (", ..." if len(names) > NAMES_SHOWN else "")
    return (
        f"{source}: weights of the encoder are missing or differ in shape from config.json ({len(names)}): "
        f"{excerpt}. They would be random. Use config.json and weights of the same model."
    )


def _owner(words: re.Match[str]) -> str:
    """Return the family whose name the word embeddings have; "" if the name does not say."""
    if words[2] == "tok":
        return "modernbert"
    last = words[1].removesuffix(".").rpartition(".")[2]
    return next((family for family in ENCODERS if family.replace("-", "_") == last), "")


def _mismatched(directory: Path, evidence: str) -> str:
    return (
        f"{directory}: {CONFIG} and the weights are of different models: {evidence}. The encoder would be random. "
        "Put both files of one model there"
    )


def _check_labels(path: Path, config: Mapping[str, Any]) -> None:
    """Raise DamagedError if a classifier's labels are not numbered from 0 on, or share a name."""
    labels = config.get("id2label")
    if labels is None:
        return
    if not isinstance(labels, dict) or not all(re.fullmatch(r"\d{1,9}", key) for key in labels):
        raise DamagedError(f"{path}: id2label is not an object of numbers and names: {labels!r:.60}. {RESTORE}")
    classes = config.get("architectures")
    names = [name for name in classes if isinstance(name, str)] if isinstance(classes, list) else []
    if not names or any(re.search(r"(ForMaskedLM|ForPreTraining|Model)$", name) for name in names):
        return  # no head: the labels are not read
    if {int(key) for key in labels} != {*range(len(labels))}:
        numbers = f"id2label has the numbers {', '.join([*labels][:NAMES_SHOWN])}"
        raise DamagedError(f"{path}: {numbers}, but class numbers must be consecutive from 0. {RESTORE}")
    if fault := next((label for label in labels.values() if not isinstance(label, str)), None):
        raise DamagedError(f"{path}: id2label has {fault!r:.60}, which is not text. {RESTORE}")
    name, count = Counter(labels.values()).most_common(1)[0] if labels else ("", 0)
    if count > 1:
        raise DamagedError(f"{path}: id2label has {name!r} for {count} classes. Give each class a different name")
    if config.get("problem_type") == "regression" and len(labels) > 1 and names[0].endswith("SequenceClassification"):
        problem = "problem_type is 'regression', which has one output"
        raise DamagedError(f"{path}: {problem}, but id2label has {len(labels)}. {RESTORE}")
