"""Checkpoints that race as contestants: encoders that the user has already, beside the untouched model."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from acclimate.core.door import is_python, option
from acclimate.core.names import shown
from acclimate.models.configuration import require_model
from acclimate.models.loading import identity, resolved

NAME = re.compile(r"\w[\w .()/&+-]{0,38}[\w.)+]|\w")


def parse_checkpoints(arguments: Iterable[str]) -> dict[str, str]:
    """Return name -> directory or hub id of each argument NAME=PATH. Raises ValueError for another form."""
    paths: dict[str, str] = {}
    for argument in arguments:
        name, equals, path = (part.strip() for part in argument.partition("="))
        if not equals or not name or not path:
            missing_part = "path" if equals and name else "name"
            raise ValueError(
                f"--checkpoint {argument}: the {missing_part} is missing. Write NAME=PATH, such as ours=models/ours"
            )
        if name in paths:
            raise ValueError(f"--checkpoint {name} appears twice, as {paths[name]} and {path}. Rename one of them")
        paths[name] = path
    check_names(paths)
    return paths


def check_names(names: Iterable[str], reserved_names: Iterable[str] = ()) -> None:
    """Raise ValueError for a name that tables cannot show, or that another checkpoint or `reserved_names` has in any
    spelling.
    """
    reserved = {_spelling_key(name): name for name in reserved_names}
    spellings: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            example = "checkpoints={'ours': 'models/ours'}" if is_python() else "--checkpoint ours=models/ours"
            raise ValueError(
                f"checkpoint {shown(name)}: a name has 1 to 40 letters, digits, spaces and . _ - + / & ( ), and begins "
                f"with a letter, digit or _. Rename it, such as {example}"
            )
        if (rival := reserved.get(_spelling_key(name))) is not None:
            raise ValueError(f"checkpoint '{name}': '{rival}' is already a contestant. Choose another name")
        if (rival := spellings.setdefault(_spelling_key(name), name)) != name:
            raise ValueError(f"checkpoints '{rival}' and '{name}' have the same name. Rename one of them")


def resolve_checkpoints(
    checkpoints: Mapping[str, str | os.PathLike[str]], start: str | None, *, reserved_names: Iterable[str]
) -> dict[str, str]:
    """Return name -> directory or hub id of each checkpoint, in full.

    start           the model that the race starts from; None: a small encoder is pretrained
    reserved_names  the names of contestants

    Raises ValueError, before anything is trained, for an unusable name and for a model that is not an encoder.
    """
    if not isinstance(checkpoints, Mapping):
        raise ValueError(f"checkpoints = {shown(checkpoints)}: give a mapping, such as {{'ours': 'models/ours'}}")
    if not checkpoints:
        return {}
    check_names(checkpoints, reserved_names)
    contents = {} if start is None else {identity(start): "the model that the race starts from"}
    models: dict[str, str] = {}
    for name, path in checkpoints.items():
        if not isinstance(path, str | os.PathLike):
            raise ValueError(f"checkpoint '{name}' is {shown(path)}. Give a directory or a hub id")
        model = resolved(path)
        try:
            require_model(model)
        except ValueError as error:
            raise type(error)(f"checkpoint '{name}': {error}") from error
        if (duplicate := contents.setdefault(identity(model), f"checkpoint '{name}'")) != f"checkpoint '{name}'":
            raise ValueError(
                f"checkpoint '{name}' has the same files as {duplicate}, so it would score the same. Remove it"
            )
        models[name] = model
    return models


def same_tokenizer(first_model: str, second_model: str) -> bool:
    """Return True if two models cut every text into the same ids."""
    return _tokenizer_of(first_model, identity(first_model)) == _tokenizer_of(second_model, identity(second_model))


@lru_cache(maxsize=64)
def _tokenizer_of(model: str, content: str) -> str:
    """Return a key that equal tokenizers share. content: the model's identity, the key of the cache"""
    from acclimate.models.loading import load_tokenizer

    tokenizer: Any = load_tokenizer(model)
    backend = json.loads(tokenizer.backend_tokenizer.to_str()) if tokenizer.is_fast else {}
    settings = {name: value for name, value in backend.items() if name not in ("padding", "truncation")}
    return json.dumps([settings, sorted(tokenizer.get_vocab().items()), tokenizer.special_tokens_map], sort_keys=True)


def notes_on(checkpoints: Mapping[str, str], start: str | None) -> list[str]:
    """Return in sentences which checkpoints have a tokenizer of their own.

    start: as of `resolve_checkpoints`
    """
    names = [name for name, model in checkpoints.items() if start is None or not same_tokenizer(model, start)]
    return [
        f"{name} has another tokenizer, so its losses per token cannot be compared with the untouched model's and "
        "are not shown."
        for name in names
    ]


def check_lengths(checkpoints: Mapping[str, str], max_tokens: int) -> None:
    """Raises ValueError if a checkpoint reads fewer tokens than the examples of the task have."""
    from acclimate.models.configuration import longest_input

    for name, model in checkpoints.items():
        longest = longest_input(model)
        if longest is not None and longest < max_tokens:
            raise ValueError(
                f"checkpoint '{name}' reads at most {longest} tokens, but examples have up to {max_tokens}. Set "
                f"{option('max_tokens', str(longest))}"
            )


def _spelling_key(name: object) -> str:
    """Return the name without case, spaces and marks: what two spellings of one name have in common."""
    return re.sub(r"[\W_]+", "", str(name).casefold())


def check_unchanged(checkpoints: Mapping[str, str], run: Path, *, records: bool = True) -> None:
    """Raises ValueError if a checkpoint has other files than when the race in this directory began with it.

    records: False in a dry run, which remembers nothing
    """
    from acclimate.jobs.job import decided

    for name, model in checkpoints.items():
        if decided(run, f"checkpoint {name}", partial(identity, model), records=records) != identity(model):
            raise ValueError(
                f"checkpoint '{name}' ({model}) has changed since the race in {run} began. Give it another name to "
                f"race both, restore the earlier files, or choose another {option('out')}"
            )
