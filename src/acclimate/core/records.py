"""Dataclasses as plain values for JSON, and back. Reading refuses fields that are missing or unknown."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

Record = TypeVar("Record")
_types: dict[type, Mapping[str, Any]] = {}


def field_types(record: type) -> Mapping[str, Any]:
    """Return field -> type of a dataclass, whose annotations are evaluated once in a process."""
    if record not in _types:
        _types[record] = typing.get_type_hints(record)
    return _types[record]


def to_plain(value: Any) -> Any:
    """Return the value as JSON holds it: dataclasses as objects, tuples as lists, frozen sets as sorted lists."""
    if dataclasses.is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: to_plain(inner) for key, inner in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    return [to_plain(inner) for inner in value] if isinstance(value, (tuple, list)) else value


def from_plain(record: type[Record], values: Mapping[str, Any]) -> Record:
    """Return the dataclass that `to_plain` wrote.

    Raises ValueError, naming the entries, if some are missing or are no fields of the dataclass.
    """
    names = {field.name for field in dataclasses.fields(typing.cast(Any, record))}
    if unknown := sorted(values.keys() - names):
        raise ValueError(
            f"{record.__name__} has no {' and no '.join(unknown)}: it was written by another release. Use that "
            "release, or write it again"
        )
    if missing := sorted(names - values.keys()):
        raise ValueError(
            f"{' and '.join(missing)} of {record.__name__} is missing: it was written by another release. Use that "
            "release, or write it again"
        )
    hints = field_types(record)
    return record(**{name: _typed(hints[name], value) for name, value in values.items()})


def _typed(hint: Any, value: Any) -> Any:
    """Return a value of JSON as the type `hint`."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return from_plain(hint, value)
    if origin is types.UnionType:
        kinds = [element for element in inner if element is not type(None)]
        if isinstance(value, list):  # of a label, say, which is a string, a tuple or a number
            kinds = [kind for kind in kinds if typing.get_origin(kind) is tuple] or kinds
        return _typed(kinds[0], value) if len(kinds) == 1 and value is not None else value
    if origin is tuple and inner[-1] is not ...:
        return tuple(_typed(kind, element) for kind, element in zip(inner, value, strict=True))
    if origin in (tuple, Sequence):
        return tuple(_typed(inner[0], element) for element in value)
    if origin is frozenset:
        return frozenset(value)
    if origin is Mapping:
        return {key: _typed(inner[1], element) for key, element in value.items()}
    return value
