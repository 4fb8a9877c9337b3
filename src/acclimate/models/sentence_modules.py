"""Copy the modules of a sentence-transformers model to an adapted checkpoint.

They are pooling, normalisation, prompts and length.

modules.json                       the modules in their order; the first is the encoder, its path "" is the directory
1_Pooling/, 2_Dense/, ...          a folder per further module, with its settings and weights
config_sentence_transformers.json  prompts and the similarity function
sentence_bert_config.json          the number of tokens that are read; older versions name it after the family

Older versions store the encoder in a folder of its own, such as 0_Transformer. A checkpoint of acclimate stores it
beside modules.json, as newer versions do.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from acclimate.core.files import read_json, read_object, write_json
from acclimate.core.hub import UnreachableError, hub_errors
from acclimate.models.directory import PICKLED
from acclimate.models.formats import OWN_WEIGHTS, SAFE_ENDINGS

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MODULES = "modules.json"
OMITTED = "modules_omitted"  # in the provenance of a checkpoint: why it lacks the modules
SETTINGS = "config_sentence_transformers.json"
LENGTHS = "sentence_*_config.json"
PACKAGE = "sentence_transformers."  # begins the types of modules that the package has
WAY_OUT = "Restore the file, or delete it to use only the encoder"


@dataclass(frozen=True)
class SentenceModules:
    """The modules of a sentence-transformers model.

    root     directory that holds modules.json
    modules  its entries, the encoder first
    """

    root: Path
    modules: tuple[dict[str, Any], ...]

    @property
    def encoder(self) -> Path:
        """The directory of the encoder."""
        return self.root / str(self.modules[0]["path"])

    @property
    def obstacle(self) -> str:
        """Why a checkpoint cannot keep the modules, as a clause; "" if it can."""
        for module in self.modules:
            if not module["type"].startswith(PACKAGE):
                return f"{self.root / MODULES} names {module['type']}, custom code, which is not copied"
        for folder in self.folders:
            names = [file.name for file in folder.rglob("*") if file.is_file()]
            pickled = [name for name in names if name.endswith(PICKLED)]
            if pickled and not any(name.endswith(".safetensors") for name in names):
                return (
                    f"{folder / pickled[0]} is pickled, and pickled weights are not copied. Save the model with a "
                    f"current version of sentence-transformers, which writes model.safetensors"
                )
        return ""

    @property
    def folders(self) -> list[Path]:
        """The folders of the modules behind the encoder; one without files may be missing."""
        return [folder for module in self.modules[1:] if (folder := self.root / module["path"]).is_dir()]

    def files(self) -> Iterator[tuple[Path, str]]:
        """Yield the files that a checkpoint keeps unchanged, each with its name there."""
        for folder in self.folders:
            for file in sorted(folder.rglob("*")):
                if file.is_file() and file.suffix in SAFE_ENDINGS:
                    yield file, str(file.relative_to(self.root))
        if (self.root / SETTINGS).is_file():
            yield self.root / SETTINGS, SETTINGS
        for file in sorted(self.encoder.glob(LENGTHS)):
            yield file, file.name

    def copy_to(self, directory: Path, *, longest: int = 0) -> None:
        """Write the modules into the directory of another encoder of the same width.

        longest  tokens to which it cuts texts; 0: as many as before
        """
        encoder_module, *head_modules = self.modules
        write_json(directory / MODULES, [{**encoder_module, "path": ""}, *head_modules])
        for file, name in self.files():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, directory / name)
        for file in self.encoder.glob(LENGTHS) if longest else ():
            about = read_object(file)
            own = about.get("max_seq_length") or longest
            write_json(directory / file.name, about | {"max_seq_length": min(own, longest)})


def sentence_modules(model: str | os.PathLike[str]) -> SentenceModules | None:
    """Return the modules of a directory or hub id; None if it is no sentence-transformers model.

    Raises ValueError, naming the file, if modules.json is damaged, and if the hub cannot be reached and its cache
    does not have the encoder either.
    """
    directory = Path(os.path.expanduser(model))
    if not directory.is_dir():
        fetched = _fetched(os.fspath(model))
        return None if fetched is None else read_modules(fetched)
    if (directory / OWN_WEIGHTS).is_file() or (directory.parent / OWN_WEIGHTS).is_file():
        return None  # a shipped classifier or its encoder: the last module gives logits
    if (directory / MODULES).is_file():
        return read_modules(directory)
    if (directory.parent / MODULES).is_file():  # the folder 0_Transformer of an older version
        listed = read_json(directory.parent / MODULES, way_out=WAY_OUT)
        first = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], dict) else {}
        encoder = directory.parent / str(first.get("path"))
        return read_modules(directory.parent) if encoder.resolve() == directory.resolve() else None
    return None


def adapters_obstacle(model: PreTrainedModel) -> str:
    """Return why a model cannot have the modules, if it has adapters; else ""."""
    from acclimate.models.light import bottleneck_of

    bottleneck = bottleneck_of(model.config)
    return "sentence-transformers would load the encoder without its adapters" if bottleneck else ""


def is_classifier(model: PreTrainedModel) -> bool:
    """Return True if the model has a head other than that of masked language modelling."""
    has_word_head = model.get_output_embeddings() is not None  # type: ignore[no-untyped-call]
    return model.base_model is not model and not has_word_head


def read_modules(root: Path) -> SentenceModules:
    """Return the modules of a directory. Raises ValueError, naming the file, if modules.json is damaged."""
    path = root / MODULES
    modules = read_json(path, way_out=WAY_OUT)
    is_module_list = isinstance(modules, list) and modules and all(isinstance(module, dict) for module in modules)
    if not is_module_list:
        raise ValueError(f"{path}: is not a list of modules. {WAY_OUT}")
    for number, module in enumerate(modules):
        for name in ("path", "type"):
            if not isinstance(module.get(name), str):
                raise ValueError(f"{path}: {name} of module {number} is {module.get(name)!r}, not text. {WAY_OUT}")
        path_inside = PurePosixPath(module["path"])
        if path_inside.is_absolute() or ".." in path_inside.parts or (number and not path_inside.parts):
            raise ValueError(f"{path}: path of module {number} is {module['path']!r}, not a folder below it. {WAY_OUT}")
    return SentenceModules(root, tuple(modules))


def _fetched(hub_id: str) -> Path | None:
    """Return the directory of the hub's cache that holds the modules of a model; None if it has none."""
    import huggingface_hub as hub
    from huggingface_hub import errors

    cached_path = hub.try_to_load_from_cache(hub_id, MODULES)
    if cached_path is not None and not isinstance(cached_path, str):
        return None  # the hub said earlier that there is no such file
    try:
        with hub_errors(hub_id, "model", way_out="give the path of its directory"):
            try:
                path = Path(cached_path or hub.hf_hub_download(hub_id, MODULES))
            except errors.LocalEntryNotFoundError:
                raise
            except errors.EntryNotFoundError:
                return None
            folders = [f"{module['path']}/*" for module in read_modules(path.parent).modules[1:]]
            patterns = [f"{folder}{ending}" for folder in folders for ending in SAFE_ENDINGS]
            return Path(hub.snapshot_download(hub_id, allow_patterns=[MODULES, SETTINGS, f"*{LENGTHS}", *patterns]))
    except UnreachableError:
        if cached_path is None and isinstance(hub.try_to_load_from_cache(hub_id, "config.json"), str):
            return None  # what the cache has was fetched as an encoder
        raise
