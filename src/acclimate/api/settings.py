"""The settings of methods, verbs and studies (settings.json): checked before any recipe is imported."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from acclimate.core.schema import stand_in
from acclimate.core.settings import did_you_mean

FILE = Path(__file__).with_name("settings.json")


@functools.cache
def schema() -> dict[str, Any]:
    """`names`: name -> its class, its defaults with an option, the settings that a method cannot do without, and the
    settings with which it does without a corpus; `classes`: as core/schema.py has them.
    """
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content


def class_of(name: str) -> str:
    """Return the class of the recipe with this name: that of a method (`mlm`), a verb (`race`, `data corpus`) or a
    study (`study tlm`). Raises ValueError if there is none.
    """
    names = schema()["names"]
    if name not in names:
        near = did_you_mean(name, names, "")
        raise ValueError(f"no settings are named '{name}'{near}")
    return str(names[name]["class"])


def stand_in_of(name: str) -> Any:
    """Return the recipe of this name with its defaults, but none of its code: settings can be checked against it."""
    return _stand_in(class_of(name))


@functools.cache
def _stand_in(name: str) -> Any:
    return stand_in(schema()["classes"], name)()
