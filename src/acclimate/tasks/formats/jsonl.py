"""Examples of JSON Lines, an object a text or an abstract, and whole files that are one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from acclimate.core.types import Example, Rejected, Split
from acclimate.tasks.formats.delimited import LabelOf, example_of
from acclimate.text.jsonlines import json_lines
from acclimate.text.packed import LIMITS, Limits, blocks, named
from acclimate.text.recognise import printable, shown


def jsonl_examples(
    path: Path,
    split: Split,
    *,
    label_of: LabelOf,
    text: str = "text",
    label: str = "label",
    limits: Limits = LIMITS,
) -> Iterator[Example | Rejected]:
    """An Example or a Rejected for each line. `text` and `label` name keys; an id is `<split>:<line>`."""
    for number, values in json_lines(path, limits):
        place = f"{printable(path.name)}:{number}"
        if isinstance(values, str):
            yield Rejected(place, values)
        elif not isinstance(values.get(text), str) or not isinstance(values.get(label), str | int):
            held = {key: values.get(key) for key in (text, label)}
            yield Rejected(place, f"a string under {text!r} and a label under {label!r} are needed, not {shown(held)}")
        else:
            yield example_of(place, f"{split}:{number}", values[text].strip(), str(values[label]), label_of)


def abstract_sentences(
    path: Path, split: Split, *, label_of: LabelOf, limits: Limits = LIMITS
) -> Iterator[Example | Rejected]:
    """An Example or a Rejected for each sentence of abstracts with the keys pmid, sentences and labels, one a line."""
    for number, values in json_lines(path, limits):
        place = f"{printable(path.name)}:{number}"
        if isinstance(values, str):
            yield Rejected(place, values)
            continue
        sentences, labels = values.get("sentences"), values.get("labels")
        if not (isinstance(sentences, list) and isinstance(labels, list) and len(sentences) == len(labels)):
            yield Rejected(place, "as many sentences as labels are needed, each in a list; correct the line")
            continue
        abstract = str(values.get("pmid", number))
        for at, (sentence, name) in enumerate(zip(sentences, labels, strict=True)):
            yield example_of(place, f"{abstract}:{at}", str(sentence).strip(), str(name), label_of, group=abstract)


def json_object(path: Path, limits: Limits = LIMITS) -> dict[str, Any]:
    """The JSON object that the file is. Raises ValueError where it is none."""
    try:
        value = json.loads(b"".join(blocks(path, limits)))
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ValueError(f"{named(path)}: is not one JSON object ({printable(str(error))}). Fetch it again") from error
    if not isinstance(value, dict):
        raise ValueError(f"{named(path)}: is {shown(value)}, where a JSON object is needed. Fetch it again")
    return value
