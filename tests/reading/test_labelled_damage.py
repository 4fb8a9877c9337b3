"""Files that are cut off, damaged, in another encoding, empty or oddly named: a reading, or one clear line."""

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from acclimate.reading.labelled import LabelledFiles, read_files

PAIRS = [(f"{('cell', 'goal', 'price')[n % 3]} number {n} of the {n * 7}", "ab"[n % 2]) for n in range(24)]
WORDS = [[(f"Ann{n}", "B-PER"), ("is", "O"), (f"here{n}", "O")] for n in range(24)]


def packed(write: Callable[[io.BytesIO], Any]) -> bytes:
    write(into := io.BytesIO())
    return into.getvalue()


def workbook(into: io.BytesIO) -> None:
    book = openpyxl.Workbook()
    for row in (("text", "label"), *PAIRS):
        book.active.append(row)
    book.save(into)


TABLE = pa.table({"text": [text for text, _ in PAIRS], "label": [label for _, label in PAIRS]})
FORMATS: dict[str, tuple[str | bytes, dict[str, Any]]] = {
    "a.parquet": (packed(lambda into: pyarrow.parquet.write_table(TABLE, into)), {}),
    "a.arrow": (packed(lambda into: pyarrow.feather.write_feather(TABLE, into, compression="uncompressed")), {}),
    "a.xlsx": (packed(workbook), {}),
    "a.csv": ("text,label\n" + "".join(f'"{text}",{label}\n' for text, label in PAIRS), {}),
    "hot.csv": (
        "text,a,b\n" + "".join(f"{text},{n % 2},{n % 3 // 2}\n" for n, (text, _) in enumerate(PAIRS)),
        {"label": ("a", "b")},
    ),
    "a.jsonl": ("".join(json.dumps({"text": text, "label": [label]}) + "\n" for text, label in PAIRS), {}),
    "a.json": (json.dumps({"columns": ["text", "label"], "data": PAIRS}), {}),
    "spans.jsonl": ("".join(json.dumps({"text": text, "label": [[0, 4, "X"]]}) + "\n" for text, _ in PAIRS), {}),
    "a.conll": ("\n".join("".join(f"{word} {tag}\n" for word, tag in words) for words in WORDS), {}),
    "a.conllu": (
        "\n".join("".join(f"{n}\t{word}\t{tag}\n" for n, (word, tag) in enumerate(words, 1)) for words in WORDS),
        {},
    ),
    "words.tsv": (
        "sent\ttext\tlabel\n"
        + "".join(f"{n}\t{word}\t{tag}\n" for n, words in enumerate(WORDS) for word, tag in words),
        {},
    ),
}


def refusal(files: LabelledFiles) -> str:
    """Return the message with which the files are refused; "" if they are read."""
    try:
        read_files(files)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path: Path, name: str) -> None:
    text, stated = FORMATS[name]
    content, ending = text.encode() if isinstance(text, str) else text, Path(name).suffix
    damaged = {f"cut {place}{ending}": content[: len(content) * place // 10] for place in range(10)}
    draws = random.Random(0)
    for number in range(6 if isinstance(text, str) else 30):
        changed = bytearray(content)
        changed[draws.randrange(len(content))] = draws.choice([0, 9, 10, 34, 123, 255])
        damaged[f"changed {number}{ending}"] = bytes(changed)
    if isinstance(text, str):
        for encoding in ("utf-16", "utf-16-be", "utf-32", "cp037"):
            damaged[f"{encoding}{ending}"] = text.encode(encoding)
        damaged[f"latin{ending}"] = text.replace("e", "\u00e9").encode("latin-1")
    for file, damage in damaged.items():
        (tmp_path / file).write_bytes(damage)
        message = refusal(LabelledFiles(tmp_path / file, **stated))
        assert "\n" not in message, file
        assert not message or ending in message, file
    for file in (f"with space{ending}", f"with\nline{ending}", f"-dash{ending}", f"{'n' * 240}{ending}"):
        (tmp_path / file).write_bytes(content)
        assert not any("\n" in note for note in read_files(LabelledFiles(tmp_path / file, **stated)).notes)
