"""Names in messages: a value as it is shown, and the known name that a misspelt one was meant to be."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable
from pathlib import Path

ALIKE = 0.65  # of difflib's ratio: `txt` and `text` have .86, `text` and `intent` .6


def shown(value: object, longest: int = 60) -> str:
    """Return the value as Python spells it, cut to `longest` characters."""
    # a text is cut first, in case it has a gigabyte
    text = repr(value[: longest + 1] if isinstance(value, str | bytes) else value)
    return text if len(text) <= longest else text[: longest - 3] + "..."


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the known name that is probably meant, whatever its case; None if no name is known.

    It is the shortest that begins with the name, else the shortest that contains it (from three characters on), else
    the one with the most similar spelling. Only the first 5,000 known names are compared.
    """
    folded: dict[str, str] = {}
    for candidate in itertools.islice(names, 5000):
        folded.setdefault(candidate[:100].casefold().strip(), candidate)
    spelling = name[:100].casefold().strip()
    begun = [candidate for candidate in folded if len(spelling) > 1 and candidate.startswith(spelling)]
    if candidates := begun or [candidate for candidate in folded if len(spelling) > 2 and spelling in candidate]:
        return folded[min(candidates, key=len)]
    candidates = difflib.get_close_matches(spelling, folded, n=1, cutoff=0.0)
    return folded[candidates[0]] if candidates else None


def nearest_folder(path: Path) -> str:
    """Return the end of a sentence that names the folder beside `path` whose name is alike; "" if there is none."""
    try:
        names = [folder.name for folder in path.parent.iterdir() if folder.is_dir()]
    except OSError:
        return ""
    return meant(path.name, names)


def meant(name: str, names: Iterable[str]) -> str:
    """Return the end of a sentence, such as `; the nearest is 'label'`; "" if no known name is spelt alike."""
    near = nearest(name, names)
    if near is None:
        return ""
    spelling, candidate = name.casefold().strip(), near.casefold().strip()
    alike = (len(spelling) > 1 and spelling in candidate) or difflib.SequenceMatcher(
        None, candidate, spelling
    ).ratio() >= ALIKE
    return f"; the nearest is {shown(near)}" if alike else ""
