"""Checkpoints that race as contestants: encoders that the user has already, beside the untouched model."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from acclimate.core.names import shown
from acclimate.models.loading import identity, require_model, resolved

NAME = re.compile(r"\w[\w .()/&+-]{0,38}[\w.)+]|\w")
EXAMPLE = "--checkpoint ours=models/ours (in Python checkpoints={'ours': 'models/ours'})"


def parse_checkpoints(stated: Iterable[str]) -> dict[str, str]:
    """Return name -> directory or hub id of what was typed as NAME=PATH. Raises ValueError for a fault of the form."""
    found: dict[str, str] = {}
    for each in stated:
        name, equals, path = (part.strip() for part in each.partition("="))
        if not equals or not name or not path:
            what = "path" if equals and name else "name"
            raise ValueError(f"--checkpoint {each}: has no {what}. Write NAME=PATH, such as {EXAMPLE}")
        if name in found:
            raise ValueError(f"--checkpoint {name} is stated twice, as {found[name]} and {path}. Rename one of them")
        found[name] = path
    check_names(found)
    return found


def check_names(names: Iterable[str], taken: Iterable[str] = ()) -> None:
    """Raises ValueError for a name that tables cannot show, that two checkpoints have, or that is one of `taken`, in
    any spelling.
    """
    known = {_plain(name): name for name in taken}
    stated: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError(
                f"checkpoint {shown(name)}: a name has 1 to 40 letters, digits, spaces and . _ - + / & ( ), and begins "
                f"with a letter or digit. Rename it, such as {EXAMPLE}"
            )
        if (other := known.get(_plain(name))) is not None:
            raise ValueError(f"checkpoint '{name}': '{other}' is the name of a contestant already. Rename it")
        if (other := stated.setdefault(_plain(name), name)) != name:
            raise ValueError(f"checkpoints '{other}' and '{name}' have the same name. Rename one of them")


def checked(
    checkpoints: Mapping[str, str | os.PathLike[str]], start: str | None, *, taken: Iterable[str]
) -> dict[str, str]:
    """Return name -> directory or hub id of each checkpoint, in full.

    start  the model that the race starts from; None: a small encoder is pretrained
    taken  the names of contestants

    Raises ValueError, before anything is trained, for a name that cannot be used and for what is no encoder.
    """
    if not isinstance(checkpoints, Mapping):
        raise ValueError(f"checkpoints = {shown(checkpoints)}: a mapping is needed, such as {{'ours': 'models/ours'}}")
    check_names(checkpoints, taken)
    contents = {} if start is None else {identity(resolved(start)): "the model that the race starts from"}
    found: dict[str, str] = {}
    for name, stated in checkpoints.items():
        if not isinstance(stated, str | os.PathLike):
            raise ValueError(f"checkpoint '{name}' is {shown(stated)}, no directory or hub id. Give one of them")
        model = resolved(stated)
        try:
            require_model(model)
        except ValueError as error:
            raise type(error)(f"checkpoint '{name}': {error}") from error
        if (same := contents.setdefault(identity(model), f"checkpoint '{name}'")) != f"checkpoint '{name}'":
            raise ValueError(f"checkpoint '{name}' has the same files as {same}: it would score the same. Leave it out")
        found[name] = model
    return found


def same_tokenizer(one: str, other: str) -> bool:
    """Return True if two models cut every text into the same ids."""
    return _tokenizer_of(one, identity(one)) == _tokenizer_of(other, identity(other))


@lru_cache(maxsize=64)
def _tokenizer_of(model: str, content: str) -> str:
    """Return a text that is the same for equal tokenizers. content: the model's identity, which the cache goes by"""
    from acclimate.models.encoder import load_tokenizer

    tokenizer: Any = load_tokenizer(model)
    backend = json.loads(tokenizer.backend_tokenizer.to_str()) if tokenizer.is_fast else {}
    about = {name: value for name, value in backend.items() if name not in ("padding", "truncation")}
    return json.dumps([about, sorted(tokenizer.get_vocab().items()), tokenizer.special_tokens_map], sort_keys=True)


def notes_on(checkpoints: Mapping[str, str], start: str | None) -> list[str]:
    """Return in sentences which checkpoints have a tokenizer of their own.

    start: as of `checked`
    """
    own = [name for name, model in checkpoints.items() if start is None or not same_tokenizer(model, start)]
    return [
        f"{name} has its own tokenizer, which reads its texts. Its losses per token cannot be compared with the "
        f"untouched model's, so none is shown."
        for name in own
    ]


def check_lengths(checkpoints: Mapping[str, str], max_tokens: int) -> None:
    """Raises ValueError if a checkpoint reads fewer tokens than the examples of the task have."""
    from acclimate.models.encoder import longest_input

    for name, model in checkpoints.items():
        longest = longest_input(model)
        if longest is not None and longest < max_tokens:
            raise ValueError(
                f"examples of up to {max_tokens} tokens, but checkpoint '{name}' reads at most {longest}. Set "
                f"--max-tokens {longest}, so that all contestants read the same"
            )


def _plain(name: object) -> str:
    """Return the name without case, spaces and marks: what two spellings of one name have in common."""
    return re.sub(r"[\W_]+", "", str(name).casefold())


def check_unchanged(checkpoints: Mapping[str, str], run: Path, *, writes: bool = True) -> None:
    """Raises ValueError if a checkpoint has other files than when the race in this directory began with it.

    writes: False in a dry run, which remembers nothing
    """
    from acclimate.jobs.job import decided

    for name, model in checkpoints.items():
        if decided(run, f"checkpoint {name}", partial(identity, model), writes=writes) != identity(model):
            raise ValueError(
                f"checkpoint '{name}' ({model}) has other files than when the race in {run} began. Choose another "
                "--out, or put the earlier files back"
            )
