"""Load checkpoints: find them, read their config, tokenizer and weights, and silence the messages of transformers.

Functions import PyTorch and transformers where they need them, so that a path is checked before they are loaded.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from logging import ERROR
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acclimate.core.door import option
from acclimate.core.files import MANIFEST, check_manifest, read_json, read_object, sha256_of_input
from acclimate.core.hub import failures, hub_errors
from acclimate.core.names import nearest_folder
from acclimate.core.randomness import seeded
from acclimate.models import formats
from acclimate.models.directory import (
    current_name,
    file_of_weight,
    lost_weights,
    require_bounded,
    require_safetensors,
    require_usable,
    require_vocabulary,
    weight_headers,
)
from acclimate.models.dropout import dropout_fields
from acclimate.models.families import ENCODERS, require_encoder_config

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

EMBEDDED = "embedded"  # names the encoder that comes with the package
SCRATCH = "scratch"  # in place of a race's model: a small encoder is pretrained first
# of its weights, tokenizer, card and logs; recipes/embedded/ship.py writes it
FOLDER = Path(__file__).parent / EMBEDDED
FACTS = "embedded.json"  # of this folder: what was measured of the encoder
LICENCE_FILES = ("LICENSE", "NOTICE")  # of this folder
MADE_FROM = "sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0)"
UNSTATED = "No model is given: this run uses the embedded encoder, which comes with acclimate."
LARGER = ("sentence-transformers/all-MiniLM-L6-v2", "google-bert/bert-base-uncased", "answerdotai/ModernBERT-base")
SHA256 = re.compile(r"[0-9a-f]{64}")
HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
DRAWN = "weights_drawn"  # attribute of a loaded model, which `drawn_weights` returns
# fields of config.json whose numbers are checked before a model is made
WIDTHS = ("hidden_size", "intermediate_size", "vocab_size", "embedding_size", "dim", "hidden_dim")
LAYERS = ("num_hidden_layers", "n_layers", "num_attention_heads", "n_heads", "num_hidden_groups")
LENGTHS = ("max_position_embeddings",)
MOST_SIZE, MOST_LAYERS = 1 << 20, 1000  # where the weights do not say more
BESIDE = (MANIFEST, formats.PROVENANCE, FACTS)  # files that it does not hash
PATIENCE = 10.0  # seconds that the hub may take to answer
HURRY = 2.0  # the same where its answer only decides what a message says
WAY_OUT = "give the path of a directory that contains config.json and model.safetensors"


_log = logging.getLogger(__name__)


def start_of(model: str | None) -> str | None:
    """Return the model that a race starts from if the user stated this `--model`: the embedded encoder if none was
    stated; None, which means to pretrain a small one, for "scratch".
    """
    if model == SCRATCH and Path(SCRATCH).is_dir():
        _log.warning(f"'{SCRATCH}' pretrains a small encoder first. For your directory write ./{SCRATCH}")
    return None if model == SCRATCH else model or EMBEDDED


def embedded() -> Path:
    """Return the folder of the embedded encoder. Raises ValueError if this installation does not have its weights."""
    if not (FOLDER / "model.safetensors").is_file():
        raise ValueError(
            f"the embedded encoder is missing from this installation: {FOLDER} contains no model.safetensors. "
            f"Install acclimate again, or name a model: {option('model')} with a directory or a hub id"
        )
    if Path(EMBEDDED).is_dir():
        _explain_name(Path.cwd())
    return FOLDER


@cache  # once for each working folder
def _explain_name(folder: Path) -> None:
    _log.warning(f"'{EMBEDDED}' names the encoder that comes with acclimate. For your directory write ./{EMBEDDED}")


def hub_answers() -> bool:
    """Return True if the Hugging Face hub answers within HURRY seconds. With HF_HUB_OFFLINE set it is not asked."""
    import huggingface_hub as hub
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    answers: list[bool] = []
    failed = failures()
    unreadable = getattr(sys.modules[failed[-1].__module__], "InvalidURL", ValueError)

    def ask() -> None:
        # the last three: the environment names a proxy that the library cannot use
        with suppress(*failed, ValueError, ImportError, unreadable):
            hub.get_hf_file_metadata(hub.hf_hub_url(LARGER[0], "config.json"), timeout=HURRY)
            answers.append(True)

    thread = threading.Thread(target=ask, daemon=True)  # the timeout does not hold for the look-up of the hub's name
    thread.start()
    thread.join(HURRY)
    return bool(answers)


def load_tokenizer(model: str | os.PathLike[str]) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a checkpoint directory or hub id. Raises ValueError where there is none."""
    import transformers

    with reading(model) as where:
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(where, trust_remote_code=False)
        except ValueError as error:
            below, way_out = Path(where) / "tokenizer", f": {error}"
            if (below / "tokenizer.json").exists():
                way_out = f". The directory {below} has one: give that path"
            if any(Path(where).glob("*.model")):  # pip lets sentencepiece and a protobuf too old for it be installed
                way_out = f"{way_out.rstrip('.')}. If protobuf is older than sentencepiece: pip install -U protobuf"
            raise ValueError(f"{where}: contains no tokenizer that transformers can read{way_out}") from error
    # Where the files are missing, transformers returns a tokenizer to which every word is unknown.
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise ValueError(f"{where}: contains no tokenizer with a vocabulary. Save one there (tokenizer.json).")
    # transformers adds a token that the vocabulary lacks, but not an empty one: asked for its id, it calls itself
    if tokenizer.unk_token is not None and tokenizer.unk_token not in tokenizer.get_vocab():
        raise ValueError(
            f"{where}/tokenizer_config.json: unk_token = {tokenizer.unk_token!r} is not in the vocabulary. Set it "
            "to the token for unknown words, such as [UNK]"
        )
    if (config := Path(where) / "config.json").is_file():
        require_vocabulary(where, max(tokenizer.get_vocab().values()), read_object(config))
    if tokenizer.is_fast:
        require_bounded(where, tokenizer.backend_tokenizer.normalizer)
    return tokenizer


def load_weights(kind: Any, where: str, config: PreTrainedConfig, seed: int) -> tuple[PreTrainedModel, set[str]]:
    """Return a model of an Auto class, and the names of its weights that the checkpoint lacks or has in another shape.

    The model has the adapters that its config states (models/light.py). The weights that are named are random, from
    `seed`. Attention is transformers' default: SDPA for families that have it. Raises ValueError if one of the named
    weights belongs to the encoder, and if there are only pickled weights.
    """
    import torch

    from acclimate.models.light import with_adapters

    require_safetensors(where)
    weights = formats.own_weights(where, config)
    source = {"variant": formats.VARIANT} if getattr(config, formats.FAMILY, "") else {}
    loader = with_adapters(kind, config)
    if weights is not None:  # the Auto classes ask for a directory
        with torch.device("meta"):
            loader = type(loader.from_config(config))
    with seeded(seed):
        model, report = loader.from_pretrained(
            where if weights is None else None,
            config=config,
            **(source if weights is None else {"state_dict": weights}),
            dtype=torch.float32,  # transformers would keep the checkpoint's
            use_safetensors=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,  # checked below, together with the missing ones
            output_loading_info=True,
        )
    absent = {*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])}
    require_encoder(model, absent, where)
    move_to_torch_memory(model)
    require_finite(model, where)
    setattr(model, DRAWN, frozenset(absent))
    return model, absent


def require_encoder(model: PreTrainedModel, absent: Iterable[str], where: str) -> None:
    """Raise ValueError if one of the `absent` weights belongs to the encoder. Head and pooler may be new."""
    encoder = f"{model.base_model_prefix}."
    lost = [name for name in absent if name.startswith(encoder) and not name.startswith(f"{encoder}pooler.")]
    if lost:
        raise ValueError(lost_weights(where, lost))


def require_finite(model: PreTrainedModel, where: str) -> None:
    """Raise ValueError, naming file and weight, if a weight is NaN or infinite."""
    import torch

    for name, weight in model.named_parameters():
        if torch.isfinite(weight).all():
            continue
        file = file_of_weight(Path(where), name) if Path(where).is_dir() else where
        raise ValueError(
            f"{file}: the weight {name} has {int((~torch.isfinite(weight)).sum()):,} values that are NaN or infinite. "
            f"Restore the file, or save the model there again"
        )


def move_to_torch_memory(model: PreTrainedModel) -> None:
    """Move every parameter and buffer into memory that torch allocated; tied weights stay one tensor.

    Loaded tensors are views of a mapped file. Their alignment varies, which can change the last bit of a result.
    """
    import torch

    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            tensor.data = tensor.data.clone(memory_format=torch.contiguous_format)


def head_drawn(model: PreTrainedModel) -> bool:
    """Return True if a loaded model's head is random, because the checkpoint lacks a weight of it other than a bias."""
    encoder = f"{model.base_model_prefix}."
    return any(not name.startswith(encoder) and "bias" not in name for name in drawn_weights(model))


def drawn_weights(model: PreTrainedModel) -> frozenset[str]:
    """Return the names of the weights that a loaded model's checkpoint lacked; for a new model, an empty set."""
    drawn: frozenset[str] = getattr(model, DRAWN, frozenset())
    return drawn


@contextmanager
def reading(model: str | os.PathLike[str]) -> Iterator[str]:
    """Yield what transformers can load (a directory's path or a hub id), and keep transformers quiet in the block.

    Raises ValueError, chained to the original error, if the model cannot be found, downloaded or read, and
    DamagedError as `check_unchanged`.
    """
    where = locate(model)
    if Path(where).is_dir():
        check_directory(Path(where))
    else:
        require_fetchable(where)
        _check_cached(where)
    try:
        with quiet():
            yield where
    except Exception as error:
        # transformers, tokenizers and safetensors raise errors of any kind for files that do not fit together, even
        # bare ones: which code raised it tells theirs from ours
        full = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # of torch
        if _raised_here(error) or full or isinstance(error, ImportError):
            raise
        if not Path(where).is_dir():
            _check_cached(where)  # its config has been fetched since
        if Path(where).is_dir() or not isinstance(error, failures()):
            kind = "" if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: "
            what = next(iter(str(error).splitlines()), "")
            raise ValueError(
                f"{where}: cannot be loaded as a checkpoint of transformers: {kind}{what}. Check that config.json, "
                "tokenizer and weights are of the same model, or save the model there again"
            ) from error
        raise ValueError(
            f"{where}: there is no such directory here{nearest_folder(Path(where))}, and the hub has returned no "
            f"model of that name with safetensors weights. Try again, or {WAY_OUT}"
        ) from error


def check_directory(directory: Path) -> None:
    """Raise ValueError if no encoder can be loaded from its files as they are, and DamagedError as `check_unchanged`.

    No library is imported, and no weights are read.
    """
    require_usable(directory)
    check_unchanged(directory)
    check_sizes(directory)


def _check_cached(hub_id: str) -> None:
    """Raise ValueError as `require_encoder_config` if the hub's cache has the config of a model of the hub."""
    import huggingface_hub as hub

    cached = hub.try_to_load_from_cache(hub_id, "config.json")
    if isinstance(cached, str):
        require_encoder_config(read_object(Path(cached), way_out="Remove the file to fetch it again"), hub_id)


def _raised_here(error: BaseException) -> bool:
    """True if the code that raised the error is acclimate's."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    return frames is not None and Path(frames.tb_frame.f_code.co_filename).is_relative_to(Path(__file__).parents[1])


def check_unchanged(directory: Path) -> None:
    """Raise DamagedError if a file of the model differs from the manifest that acclimate wrote beside it.

    A directory without one passes, and so does one whose manifest.json is another program's: it has no hashes. A file
    is hashed once in a process. Other files, such as an edited card or what was put beside the model, do not count.
    """
    manifest = directory / MANIFEST
    if not manifest.is_file():
        return
    way_out = (
        f"Copy it again, or repeat the command that created it. If you changed the model yourself, delete {manifest}"
    )
    listed = read_json(manifest, way_out=way_out)
    if not isinstance(listed, dict) or not any(SHA256.fullmatch(str(content)) for content in listed.values()):
        return
    names = [
        name
        for name in listed
        if ("/" not in name or name.startswith(f"{formats.ENCODER}/"))
        and Path(name).suffix in formats.SAFE_ENDINGS
        and (name.endswith(".safetensors") or (directory / name).is_file())  # what else is needed is missed when read
    ]
    check_manifest(directory, names=names, way_out=way_out)


def check_sizes(directory: Path) -> None:
    """Raise ValueError, naming the file, if config.json states sizes that its weights do not have, or none at all.

    The headers of the weights are read, which takes no time, so a model that cannot fit is refused before memory is
    taken for it.
    """
    path, index = directory / "config.json", directory / "model.safetensors.index.json"
    way_out = "Restore the file, or save the model there again"
    if not path.is_file():
        return
    config = read_object(path, way_out=way_out)
    if index.is_file() and not isinstance(read_object(index, way_out=way_out).get("weight_map"), dict):
        raise ValueError(f"{index}: weight_map is not a JSON object. {way_out}")
    shapes = [shape for _, shape in weight_headers(directory).values()]
    largest = max((size for shape in shapes for size in shape), default=MOST_SIZE)
    most = dict.fromkeys(WIDTHS, largest) | dict.fromkeys(LAYERS, max(len(shapes), MOST_LAYERS))
    most |= dict.fromkeys(LENGTHS, max(largest, MOST_SIZE))
    for name, value in config.items():
        if name in most and value is not None and value > most[name]:
            has = f"more than the weights in {directory} have" if shapes else f"at most {most[name]:,} can be read"
            raise ValueError(f"{path}: {name} = {value:,}: {has}. {way_out}")


def check_weights(model: str | os.PathLike[str]) -> None:
    """Check the headers of a directory's weights, its hashes if it has a manifest, and modules.json if there is one.

    Raises ValueError where the model cannot be used (models/directory.py), has no safetensors weights, or where
    modules.json is damaged, and DamagedError as `check_unchanged`.
    """
    from acclimate.models.sentence_modules import sentence_modules

    if Path(model).is_dir():
        with reading(model) as source:
            require_safetensors(source)
            _require_every_weight(source, identity(source))
        sentence_modules(model)


@lru_cache(maxsize=64)
def _require_every_weight(where: str, content: str) -> None:
    """Raise ValueError as `require_encoder`, by the headers alone, before weights are loaded.

    content: the model's identity, which the cache goes by. Models in acclimate's own form and families whose names
    transformers converts (models/families.py) are checked while they are loaded.
    """
    import torch
    import transformers

    config = configuration(where)
    if getattr(config, formats.FAMILY, "") or not ENCODERS[config.model_type]:
        return
    kind: Any = transformers.AutoModelForMaskedLM  # its class methods are untyped in transformers
    with torch.device("meta"):
        model = kind.from_config(config)
    prefix = f"{model.base_model_prefix}."

    def own(name: str) -> str:
        return current_name(name).removeprefix(prefix)

    shapes = {own(name): shape for name, (_, shape) in weight_headers(Path(where)).items()}
    weights = model.named_parameters()
    absent = [name for name, weight in weights if shapes.get(own(name)) != tuple(weight.shape)]
    require_encoder(model, absent, where)


def configuration(where: str) -> PreTrainedConfig:
    """Return the config of a checkpoint. Raises ValueError for a directory without one, and where a dropout is no
    probability or `architectures` no names, which transformers takes.
    """
    if Path(where).is_dir() and not (Path(where) / "config.json").is_file():
        raise ValueError(
            f"{where}: contains no config.json, so transformers cannot load it. Give the directory of a checkpoint."
        )
    config = formats.read_configuration(where)
    if not Path(where).is_dir():
        _check_cached(where)  # it has been fetched now
    needed = {"architectures": "a list of names of classes"}
    needed |= dict.fromkeys(dropout_fields(config.model_type), "a probability from 0 to below 1")
    for name, kind in needed.items():
        value = getattr(config, name, None)
        if name == "architectures":
            sound = isinstance(value, list) and all(isinstance(class_name, str) for class_name in value)
        else:
            sound = isinstance(value, int | float) and 0 <= value < 1
        if value is not None and not sound:
            raise ValueError(
                f"{Path(where) / 'config.json'}: {name} is {value!r:.60}, but must be {kind}. Restore the file, or "
                "save the model there again"
            )
    return config


def locate(model: str | os.PathLike[str]) -> str:
    """Return the path of a directory or a hub id; "embedded" is the encoder that comes with the package. What is
    path-like, such as a `Path` or a `Checkpoint`, is always a directory.

    Raises ValueError if it is neither, and for "scratch", which is none.
    """
    if model == EMBEDDED:
        return str(embedded())
    if model == SCRATCH:
        raise ValueError(
            f"'{SCRATCH}' is not a model: race {option('model', SCRATCH)} pretrains a small encoder first. Give a "
            f"directory, a hub id or {EMBEDDED}; for your directory write ./{SCRATCH}"
        )
    path = Path(model).expanduser()
    if path.is_dir():
        return str(path)
    if path.exists():
        raise ValueError(f"{path} is a file. Give the directory that contains config.json and model.safetensors.")
    if not isinstance(model, str) or not HUB_ID.fullmatch(model):
        raise ValueError(
            f"{os.fspath(model)}: there is no such directory, and it is not a hub id (`name` or `owner/name`) "
            "either. Give the path of a directory that contains config.json and "
            f"model.safetensors{nearest_folder(path)}."
        )
    return model


@cache
def require_fetchable(hub_id: str) -> None:
    """Raise ValueError if neither the hub's cache nor the hub has the model, or the hub does not answer.

    It asks the hub once. transformers would ask again and again for half a minute.
    """
    import huggingface_hub as hub
    from huggingface_hub import errors

    if isinstance(hub.try_to_load_from_cache(hub_id, "config.json"), str):
        return
    with hub_errors(hub_id, "model", way_out=WAY_OUT):
        try:
            hub.get_hf_file_metadata(hub.hf_hub_url(hub_id, "config.json"), timeout=PATIENCE)
        except errors.EntryNotFoundError as error:
            raise ValueError(
                f"{hub_id}: this repository of the hub contains no config.json, so it is not a model. Name another"
            ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Switch load reports and progress bars of transformers off in the block, and restore them after it."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(ERROR)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def resolved(model: str | os.PathLike[str]) -> str:
    """Return the path or hub id of a model that a user named; for the directory of a run, that of its checkpoint.

    "embedded" is the encoder that comes with the package, and the path of a directory of that name is absolute.
    """
    if model == EMBEDDED:
        return str(embedded())
    path = Path(model).expanduser()
    if str(path) in (EMBEDDED, SCRATCH):  # typed as ./embedded: without its dot it would mean another model
        path = Path(os.path.abspath(path))
    if (path / "checkpoint" / "config.json").is_file():
        return str(path / "checkpoint")
    if path.is_dir() and not (path / "config.json").is_file():
        from acclimate.models.sentence_modules import sentence_modules

        modules = sentence_modules(path)
        if modules is not None and (modules.encoder / "config.json").is_file():
            return str(modules.encoder)  # older versions of sentence-transformers store the encoder in a folder
    return str(path) if path.is_dir() else os.fspath(model)


def identity(model: str | os.PathLike[str]) -> str:
    """Return a hub id as it is, or 64 hex digits: the SHA-256 over a directory's configuration, vocabulary and weights.

    The files of a sentence-transformers model's modules count too. The directory's path and its other files do not.
    """
    from acclimate.models.sentence_modules import sentence_modules

    directory = embedded() if model == EMBEDDED else Path(model).expanduser()
    if not directory.is_dir():
        return os.fspath(model)
    content = hashlib.sha256()
    encoder_files = [file for file in formats.weight_files(directory) if file.parent != directory]
    for file in [*sorted(directory.iterdir()), *encoder_files]:
        if file.is_file() and file.suffix in formats.SAFE_ENDINGS and file.name not in BESIDE:
            content.update(f"{file.relative_to(directory)} {sha256_of_input(file)}\n".encode())
    if (modules := sentence_modules(directory)) is not None:
        for file, name in modules.files():
            if "/" in name:
                content.update(f"{name} {sha256_of_input(file)}\n".encode())
    return content.hexdigest()


def origin(model: str | os.PathLike[str]) -> str:
    """Return what a model was made from, by however many runs: "embedded" or a hub id; "" if that is not known."""
    return origin_facts(model).get("origin", "")


def origin_facts(model: str | os.PathLike[str]) -> dict[str, str]:
    """Return `origin`, and `origin_weights` if it is "embedded": the SHA-256 of that encoder's model.safetensors. {} if
    the origin is not known.

    A checkpoint has both in its provenance.json, so they outlive an upgrade of the embedded encoder's weights.
    """
    if (name := os.fspath(model)) in (EMBEDDED, str(FOLDER)):
        return {"origin": EMBEDDED, "origin_weights": sha256_of_input(FOLDER / "model.safetensors")}
    directory = Path(os.path.expanduser(model))
    if not name or not directory.is_dir():
        return {"origin": name} if isinstance(model, str) and HUB_ID.fullmatch(model) else {}
    about = read_json(directory / formats.PROVENANCE) if (directory / formats.PROVENANCE).exists() else None
    fields = about if isinstance(about, dict) else {}
    return {field: str(fields[field]) for field in ("origin", "origin_weights") if fields.get(field)}


def copy_licence(model: str | os.PathLike[str], directory: Path) -> None:
    """Copy the embedded encoder's LICENSE and NOTICE to a directory with what was made from `model`, if that is the
    encoder or was made from it. They are those of the weights that it was made from, also after an upgrade.
    """
    if origin(model) == EMBEDDED:
        source = FOLDER if model == EMBEDDED else Path(os.path.expanduser(model))
        for file in (source / name for name in LICENCE_FILES if (source / name).is_file()):
            shutil.copyfile(file, directory / file.name)


def short_names(models: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return a short name for each model: the fewest last parts of its path that make all names different.

    A last part `checkpoint` is left out, and so is a last part that all paths share. If two paths are the same, return
    the paths.
    """
    parts = [path.parent.parts if path.name == "checkpoint" else path.parts for path in map(Path, models)]
    if len(set(parts)) < len(parts):
        return [os.fspath(model) for model in models]
    depth = 1
    while len({names[-depth:] for names in parts}) < len(parts):
        depth += 1
    short = [names[-depth:] for names in parts]
    while len(short) > 1 and min(map(len, short)) > 1 and len({names[-1] for names in short}) == 1:
        short = [names[:-1] for names in short]
    return ["/".join(names) or os.fspath(name) for names, name in zip(short, models, strict=True)]
