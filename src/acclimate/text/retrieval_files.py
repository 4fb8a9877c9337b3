"""The files of a BM25 index: their kinds and lengths, whether they are whole and readable, and how they are mapped."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np

from acclimate.core.files import MANIFEST, DamagedError, read_json, sha256_of
from acclimate.text.retrieval_analysis import UNICODE

VERSION = 2  # one more whenever a file, its layout or what stands in it changes; 1 had several layouts
FACTS = "index.json"

# name: its kind, and how long it is by index.json: a sum of products of these
_FILES: dict[str, tuple[type[np.generic], str]] = {
    "lengths": (np.uint32, "documents"),
    "frequencies": (np.uint32, "words"),
    "entry_begins": (np.int64, "words + 1"),
    "blocks": (np.uint32, "entries"),
    "begins": (np.int64, "entries + 1"),
    "postings": (np.uint32, "postings"),
    "large_at": (np.int64, "large"),
    "large": (np.uint32, "large"),
    "frequent": (np.uint32, "frequent"),
    "greatest": (np.uint8, "frequent"),
    "bounds": (np.uint8, "frequent * groups * 64"),
    "peaks": (np.uint8, "frequent * groups"),
    "cells": (np.uint8, "frequent * groups * 64"),
    "large_cells_at": (np.int64, "large_cells"),
    "large_cells": (np.uint32, "large_cells"),
    "slots": (np.uint32, "slots"),
    "hashes": (np.uint64, "words"),
    "word_begins": (np.int64, "words + 1"),
    "spellings": (np.uint8, "spelling"),
}


class UnreadableError(ValueError):
    """A whole index, but one that this release, or this Python's Unicode, does not read."""


def checked_facts(path: Path, hashed: int) -> dict[str, Any]:
    """What index.json says.

    hashed  bytes of files that are hashed, small files first; of the others the size is checked
    Raises DamagedError where a file is missing or not the one written, UnreadableError.
    """
    if not (path / MANIFEST).is_file():
        raise DamagedError(f"{path} is incomplete: it has no {MANIFEST}. Remove it; it is built anew")
    manifest = read_json(path / MANIFEST)
    if sha256_of(path / FACTS) != manifest.get(FACTS):
        raise DamagedError(f"{path / FACTS} is damaged: its content is not what {MANIFEST} lists. Remove {path}")
    facts: dict[str, Any] = read_json(path / FACTS)
    if facts.get("version") != VERSION:
        raise UnreadableError(
            f"{path}: format {facts.get('version')}, but this release reads {VERSION}. Build it anew with build_index"
        )
    if facts["unicode"] != UNICODE:
        raise UnreadableError(
            f"{path} was built with the letters of Unicode {facts['unicode']}, but this Python has those of {UNICODE}. "
            "Build it anew, or search it with the Python that built it"
        )
    sizes = {name: _size(name, facts) * np.dtype(kind).itemsize for name, (kind, _) in _FILES.items()}
    for name, size in sorted(sizes.items(), key=lambda pair: pair[1]):
        file = path / f"{name}.bin"
        if not file.is_file():
            raise DamagedError(f"{file} is missing. Remove {path}; it is built anew")
        if file.stat().st_size != size:
            raise DamagedError(
                f"{file} has {file.stat().st_size:,} bytes instead of {size:,}. Remove {path}; it is built anew"
            )
        if size <= hashed:
            hashed -= size
            if sha256_of(file) != manifest.get(file.name):
                raise DamagedError(f"{file} is damaged: its content is not what {MANIFEST} lists. Remove {path}")
    return facts


def _size(name: str, facts: dict[str, Any]) -> int:
    total = 0
    for product in _FILES[name][1].split(" + "):
        total += math.prod(int(factor) if factor.isdigit() else int(facts[factor]) for factor in product.split(" * "))
    return total


def mapped(path: Path, name: str, mode: Literal["r", "c"] = "r") -> np.ndarray:
    """The file's array. c: one that could be written to, in memory only: numba's type of what is being built."""
    file = path / f"{name}.bin"
    kind = _FILES[name][0]
    if not file.stat().st_size:
        return np.zeros(0, kind) if mode == "c" else np.frombuffer(b"", kind)
    return np.asarray(np.memmap(file, kind, mode))  # a plain array: indexing numpy's memmap class costs microseconds
