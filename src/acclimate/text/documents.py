"""Documents out of text, JSON-lines and parquet files, streamed: the size of a file does not matter."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from acclimate.core.types import Document

FORMATS = (".txt", ".jsonl", ".parquet")
COMPRESSIONS = (".gz", ".zst")
ENDINGS = tuple(f"{kind}{packed}" for kind in FORMATS[:2] for packed in ("", *COMPRESSIONS)) + FORMATS[2:]

_PARQUET_ROWS = 256  # rows decoded at a time
_COMPRESSED_BYTES = 1 << 14  # read at a time; zstd makes up to a thousand times as much of it


def read_documents(
    path: Path, *, separated: Literal["line", "blank"] = "line", field: str = "text"
) -> Iterator[Document]:
    """The documents of a file, or of every file with a known ending below a folder, in the order of the paths.

    .txt      one document a line, or several lines up to a blank one with `separated="blank"`
    .jsonl    an object a line: the text in `field`; `id` (text or whole number) and `source` where there are any
    .parquet  the same names as columns
    The first two may be packed (.gz, .zst). A document without an id is named after its place: `folder/file.txt:12`.
    Documents that hold nothing but white space come too: `write_corpus` leaves them out and counts them.

    Raises FileNotFoundError where there is no such path, ValueError where nothing there has a known ending and, on the
    way, naming file and line, where a line is not what it should be.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and _readable(file))
        if not files:
            raise ValueError(f"{path}: no file below it ends in {', '.join(ENDINGS)}. Name another folder")
    elif _readable(path):
        files = [path]
    else:
        raise ValueError(f"{path}: its name ends in none of {', '.join(ENDINGS)}. Rename or convert it")
    above = path if path.is_dir() else path.parent
    return (document for file in files for document in _read_file(file, above, separated, field))


def _readable(file: Path) -> bool:
    return file.name.endswith(ENDINGS) and not file.name.startswith(".")


def _read_file(file: Path, above: Path, separated: str, field: str) -> Iterator[Document]:
    name = file.relative_to(above).as_posix()
    if file.name.endswith(".parquet"):
        return _read_parquet(file, name, field)
    kind = file.with_suffix("") if file.suffix in COMPRESSIONS else file
    if kind.suffix == ".jsonl":
        return _read_json_lines(file, name, field)
    return _read_blocks(file, name) if separated == "blank" else _read_lines(file, name)


def _read_lines(file: Path, name: str) -> Iterator[Document]:
    return (Document(f"{name}:{number}", line) for number, line in _lines(file))


def _read_blocks(file: Path, name: str) -> Iterator[Document]:
    block: list[str] = []
    first = 0
    for number, line in _lines(file):
        if line.strip():
            first = first if block else number
            block.append(line)
        elif block:
            yield Document(f"{name}:{first}", "\n".join(block))
            block = []
    if block:
        yield Document(f"{name}:{first}", "\n".join(block))


def _read_json_lines(file: Path, name: str, field: str) -> Iterator[Document]:
    for number, line in _lines(file):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{where}: {_shown(line)} is not valid JSON ({error.msg}, column {error.colno}). A line holds one JSON "
                f"object with the field {field!r}; correct it"
            ) from error
        if not isinstance(values, dict):
            raise ValueError(f"{where}: {_shown(line)} is not a JSON object. Write it as {{{json.dumps(field)}: ...}}")
        yield _document(values, f"{name}:{number}", field, where)


def _read_parquet(file: Path, name: str, field: str) -> Iterator[Document]:
    try:
        table = pq.ParquetFile(file)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{file}: not a parquet file ({error}). Write it anew or rename it") from error
    with table:
        present = table.schema_arrow.names
        if field not in present:
            raise _without(field, present, str(file))
        columns = [column for column in (field, "id", "source") if column in present]
        number = 0
        for rows in table.iter_batches(batch_size=_PARQUET_ROWS, columns=columns):
            for values in rows.to_pylist():
                number += 1
                yield _document(values, f"{name}:{number}", field, f"{file}:{number}")


def _document(values: dict[str, Any], place: str, field: str, where: str) -> Document:
    """The document of a row; `place` is its id where the row has none, `where` is what an error names."""
    if field not in values:
        raise _without(field, list(values), where)
    text, name, source = values[field], values.get("id"), values.get("source")
    if not isinstance(text, str):
        raise ValueError(f"{where}: {field!r} is {_shown(text)}, but a document is text. Correct or drop the row")
    if name is not None and (isinstance(name, bool) or not isinstance(name, str | int)):
        raise ValueError(f"{where}: id {_shown(name)} is neither text nor a whole number. Correct it or leave it out")
    if source is not None and not isinstance(source, str):
        raise ValueError(f"{where}: source {_shown(source)} is not text. Correct it or leave it out")
    return Document(id=place if name is None else str(name), text=_encodable(text, where), source=source or "")


def _without(field: str, present: list[str], where: str) -> ValueError:
    return ValueError(
        f"{where}: no field {field!r}, only {present}. Rename the one that holds the text (from Python: field=NAME)"
    )


def _encodable(text: str, where: str) -> str:
    """The text, where UTF-8 can hold it: JSON can escape half a surrogate pair, which is no character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where}: {_shown(text[error.start : error.end])} at character {error.start} is half a surrogate pair, "
            "which is no character. Correct or drop the row"
        ) from error
    return text


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Line number, from 1, and line without its end; only line feeds end lines, with or without a carriage return."""
    for number, line in enumerate(_raw_lines(file), start=1):
        content = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        try:
            yield number, content.rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{file}:{number}: byte {error.start} is {content[error.start]:#04x}, which is not UTF-8 "
                f"({error.reason}). Convert the file, for example with iconv"
            ) from error


def _raw_lines(file: Path) -> Iterator[bytes]:
    if file.suffix == ".zst":
        parts: list[bytes] = []  # of the line that is not over yet, joined once: a line may be longer than many blocks
        for block in _unpacked(file):
            first, *others = block.split(b"\n")
            parts.append(first)
            if others:
                yield b"".join(parts)
                yield from others[:-1]
                parts = others[-1:]
        if rest := b"".join(parts):
            yield rest
    elif file.suffix == ".gz":
        try:
            with gzip.open(file) as lines:
                yield from lines
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{file}: damaged or cut off gzip file ({error}). Fetch it again") from error
    else:
        with open(file, "rb") as lines:
            yield from lines


def _unpacked(file: Path) -> Iterator[bytes]:
    """The content of all zstd frames. zstandard's own reader takes a file that is cut off for one that has ended."""
    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    ended = True
    with open(file, "rb") as packed:
        while block := packed.read(_COMPRESSED_BYTES):
            while block:
                try:
                    yield frame.decompress(block)
                except zstandard.ZstdError as error:
                    raise ValueError(f"{file}: damaged zstd file ({error}). Fetch it again") from error
                ended = frame.eof
                block = frame.unused_data if ended else b""
                if ended:
                    frame = decompressor.decompressobj()
    if not ended:
        raise ValueError(f"{file}: cut off in the middle of a zstd frame. Fetch it again")
