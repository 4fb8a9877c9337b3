"""JSON lines: an object a line, or why a line holds none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from acclimate.text.packed import LIMITS, Limits, named, text_lines
from acclimate.text.recognise import shown

Values = Mapping[str, Any] | str  # by name; or the reason for which there are none


def json_lines(path: Path, limits: Limits = LIMITS) -> Iterator[tuple[int, Values]]:
    """Number, from 1, and object of each line that is not empty.

    Raises ValueError where the file cannot be read as lines of UTF-8, and where it is one JSON array.
    """
    for number, line in text_lines(path, limits):
        stripped = line.strip()
        if not stripped:
            continue
        if number == 1 and stripped.startswith("["):
            raise ValueError(
                f"{named(path)}:1: begins with '[' as a JSON array does; a line must hold one JSON object, this one is "
                f"{shown(stripped)}. Convert it: jq -c '.[]' OLD > NEW"
            )
        yield number, parsed(stripped)


def parsed(line: str) -> Values:
    """The JSON object of a line, or the reason for which it is none."""
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        return f"not valid JSON at column {error.colno} ({error.msg}): {shown(line)}"
    except RecursionError:
        return f"JSON nested too deeply: {shown(line)}"
    except ValueError as error:  # a number of more digits than Python reads
        return f"JSON that cannot be read ({error})"
    if not isinstance(values, dict):
        return f"a line must hold one JSON object; this one is {shown(line)}"
    return values
