"""How `retrieval` makes words of a text, by name, and the UTF-8 that its compiled loops take."""

from __future__ import annotations

import difflib
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

    from acclimate.text.overlap_index import Packed

ANALYZERS = {
    "words": r"re.findall(r'\w+', text.lower())",
    "cased": r"re.findall(r'\w+', text)",
}
UNICODE = unicodedata.unidata_version  # whose letters Python knows; an index is searched with those it was built with
_SPECIAL = ("\u03a3".encode(), "\u0130".encode())  # lower case depends on the neighbours, or is two characters


def check_analyzer(name: str) -> None:
    """Raises ValueError where there is no such analyzer."""
    if name not in ANALYZERS:
        near = difflib.get_close_matches(name, ANALYZERS, 1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"there is no analyzer {name!r}; there are {', '.join(map(repr, ANALYZERS))}.{meant}")


def words_of(analyzer: str, text: str) -> list[str]:
    """The definition, which the compiled loops follow."""
    check_analyzer(analyzer)
    return re.findall(r"\w+", text.lower() if analyzer == "words" else text)


@cache
def fold_of(analyzer: str) -> np.ndarray:
    """(1,114,112,) uint32: each code point's spelling, 0 where it belongs to no word."""
    check_analyzer(analyzer)
    if analyzer == "words":
        from acclimate.text.overlap_index import fold

        return fold()
    points = "".join(map(chr, range(sys.maxunicode + 1)))
    found = np.zeros(len(points), np.uint32)
    for run in re.finditer(r"\w+", points):
        found[run.start() : run.end()] = np.arange(run.start(), run.end())
    return found


def packed_texts(analyzer: str, texts: Sequence[str]) -> Packed:
    """UTF-8 of all texts, lowered where that depends on more than a character."""
    from acclimate.text.overlap_index import Packed, pack

    if analyzer == "words":
        return pack(texts)
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    begins = np.concatenate([[0], np.cumsum([len(each) for each in encoded])]).astype(np.int64)
    return Packed(np.frombuffer(b"".join(encoded), np.uint8), begins)


def packed_column(analyzer: str, column: pa.StringArray) -> Packed:
    """The same of an Arrow column, without making strings of it as a rule."""
    from acclimate.text.overlap_index import Packed

    _, offsets, content = column.buffers()
    begins = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.frombuffer(content, np.uint8)[begins[0] : begins[-1]] if content is not None else np.empty(0, np.uint8)
    if analyzer == "words" and any(data.tobytes().find(each) >= 0 for each in _SPECIAL):
        return packed_texts(analyzer, column.to_pylist())
    return Packed(data, begins - begins[0])


def batches(columns: Iterable[pa.StringArray], size: int, block: int) -> Iterator[list[pa.StringArray]]:
    """Columns cut and gathered to about `size` bytes; a batch ends where `block` texts are full."""
    gathered: list[pa.StringArray] = []
    texts = held = 0  # texts from the first on; bytes gathered
    for column in columns:
        place = 0
        while place < len(column):
            taken = column.slice(place, min(len(column) - place, block - texts % block))
            gathered.append(taken)
            place, texts, held = place + len(taken), texts + len(taken), held + taken.nbytes
            if held >= size or texts % block == 0:
                yield gathered
                gathered, held = [], 0
    if gathered:
        yield gathered
