"""The facts of an index in shards (text/shards.py), with their hash: read only where they are what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from acclimate.core.files import DamagedError, read_json, write_json
from acclimate.core.settings import digest
from acclimate.text.retrieval_files import UnreadableError

FACTS = "shards.json"
_VERSION = 2


def write_facts(path: Path, stated: dict[str, Any]) -> None:
    facts = {"version": _VERSION, **stated}
    write_json(path / FACTS, {**facts, "hash": digest(facts)})


def known_begins(path: Path, wanted: dict[str, Any]) -> list[int]:
    """Where the shards of the index begin that is there; empty where there is none, or it has to be cut anew.

    Raises ValueError where `path` holds anything else.
    """
    if not (path / FACTS).exists():
        if path.exists() and (not path.is_dir() or any(map(_foreign, path.iterdir()))):
            raise ValueError(f"{path} is there and holds no index in shards. Name another path, or remove it")
        return []
    try:
        facts = facts_of(path)
    except (DamagedError, UnreadableError):
        return []
    different = [f"{name} {facts[name]} instead of {value}" for name, value in wanted.items() if facts[name] != value]
    if different:
        raise ValueError(f"{path} holds another index: {', '.join(different)}. Name another path, or remove it")
    begins: list[int] = facts["begins"]
    return begins


def _foreign(file: Path) -> bool:
    """Whether it is no shard, lock or what a kill left of a write."""
    return not file.name.startswith((".", "shard-"))


def facts_of(path: Path) -> dict[str, Any]:
    """What shards.json says. Raises DamagedError where it was changed, UnreadableError for another format."""
    facts: dict[str, Any] = read_json(path / FACTS)
    if facts.get("version") != _VERSION:
        raise UnreadableError(
            f"{path}: format {facts.get('version')}, but this release reads {_VERSION}. Build it anew with build_shards"
        )
    if facts.pop("hash", "") != digest(facts):
        raise DamagedError(f"{path / FACTS} is damaged. Build the index again; the shards are kept")
    return facts
