"""How docstrings are shown: lines "name  meaning", with what continues them, become a list."""

import re
from typing import Any

import griffe

ITEM = re.compile(r"(\S.*?)  +(\S.*)")


def listed(text: str) -> str:
    """Return the text as Markdown. Two spaces or more divide a line of a list; indented lines after it continue it."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        item = ITEM.fullmatch(line)
        if item:
            lines += ["", f"* `{item[1]}`: {item[2]}"] if not inside else [f"* `{item[1]}`: {item[2]}"]
            inside = True
        elif inside and line.startswith("  "):
            lines.append(f"  {line.strip()}")
        else:
            lines += ["", line] if inside and line else [line]
            inside = False
    return "\n".join(lines)


class Lists(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **others: Any) -> None:
        if obj.docstring:
            obj.docstring.value = listed(obj.docstring.value)
