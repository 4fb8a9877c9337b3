"""METHODS: the methods by name. The rest of the package knows them by their `Method` values alone."""

from __future__ import annotations

from pathlib import Path

from acclimate.methods.method import Contestant, First, Method, file_of, fingerprint, loaded
from acclimate.methods.recipes import METHODS

# methods without a file, such as those of a notebook, which this process alone knows
_session_methods: dict[str, Method] = {}


def method_called(name: str, code: Path | None = None) -> Method:
    """Return the method of that name: one of METHODS, or from the file `code`. Raises ValueError if there is none."""
    if code is not None:
        return loaded(code, name)
    method = METHODS.get(name) or _session_methods.get(name)
    if method is None:
        raise ValueError(f"no method is named '{name}'. Known: {', '.join(METHODS)}")
    return method


def code_of(method: Method) -> tuple[str, Path | None]:
    """(hash of the code of a user's method, file that another process can load it from); ("", None) for METHODS.

    A method without a file can be used in this process alone.
    """
    if METHODS.get(method.name) is method:
        return "", None
    if (place := file_of(method)) is None:
        _session_methods[method.name] = method
    return fingerprint(method), place


__all__ = ["METHODS", "Contestant", "First", "Method", "code_of", "method_called"]
