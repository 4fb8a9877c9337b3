"""Read files that may be hostile as blocks, lines or JSON objects, in bounded memory; spell values for messages.

Neither the name, the length nor the line ends of a file are trusted. A fault of the file as a whole raises one
ValueError that names it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from acclimate.core import files
from acclimate.core.names import meant, shown

HEAD = 4096  # bytes by which the format of a file is recognised
PACKINGS = {".gz": "gzip", ".zst": "zstd"}  # ending -> compression
LARGEST_ARRAY = 1 << 30  # bytes of a JSON array, which is read as a whole
MARK = b"\xef\xbb\xbf"  # UTF-8's byte order mark
INPUTS = "inputs"  # folder of the cache with the files that data/as_files.py writes
RECORD = ".source.json"  # ending of the record beside such a file, which says what it was made of
_BLOCK = 1 << 20  # bytes
# These have no meaning in a text. Tab, line ends, vertical tab and form feed (from PDFs) are white space. \x80 to \x9f
# are quotation marks in a wrong encoding, as in 2% of IMDb: such texts are kept, and messages escape them.
_CONTROL = re.compile("[\0-\x08\x0e-\x1f\x7f]")
# first bytes -> what such a file is, and the way out
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (b"PAR1", "a Parquet file", "Give it a name that ends in .parquet"),
    (b"ARROW1", "an Arrow (Feather) file", "Write it as .parquet"),
    (b"\x1f\x8b", "packed with gzip", "Unpack it once"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd", "Unpack it once"),
    (b"BZh", "packed with bzip2", "Unpack it, or pack it with gzip or zstd"),
    (b"\xfd7zXZ", "packed with xz", "Unpack it, or pack it with gzip or zstd"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "Unpack it, and name one of its files"),
    (b"Rar!", "a RAR archive", "Unpack it, and name one of its files"),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Word file", "Save it as CSV (UTF-8) there"),
    (b"\x89HDF", "an HDF5 file", "Write it as .parquet"),
    (b"SQLite format 3", "an SQLite database", "Export the table as CSV"),
    (b"%PDF", "a PDF", "Extract its text first"),
    (b"\x93NUMPY", "a NumPy array", "Write it as .csv or .parquet"),
    (b"\x89PNG", "a picture", "Name the file with the text"),
    (b"\xff\xd8\xff", "a picture", "Name the file with the text"),
    (b"\x7fELF", "a program", "Name the file with the text"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself", "Run `git lfs pull`"),
)
_WEB = (b"<!doctype html", b"<html")
# byte order marks, longer ones first: that of UTF-32 begins with that of UTF-16
_MARKS: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xfe\0\0", "UTF-32LE"),
    (b"\0\0\xfe\xff", "UTF-32BE"),
    (b"\xff\xfe", "UTF-16LE"),
    (b"\xfe\xff", "UTF-16BE"),
)
RowValues = Mapping[str, Any] | str  # values by name, or the reason why there are none


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The largest sizes that are read.

    line     bytes of a line, a field, or an article
    content  bytes of an unpacked file
    ratio    unpacked bytes for each packed byte, checked once `grace` bytes are unpacked: text packs to about a tenth,
             a decompression bomb to a hundredth or less
    """

    line: int = 64 << 20
    content: int = 1 << 40
    ratio: int = 100
    grace: int = 8 << 20


LIMITS = ReadLimits()


def json_lines(path: Path, limits: ReadLimits = LIMITS) -> Iterator[tuple[int, RowValues]]:
    """Yield the number, from 1, and the JSON object of each line that is not empty.

    Raises ValueError if the file cannot be read as lines of UTF-8, or is one JSON array.
    """
    for number, line in text_lines(path, limits):
        stripped = line.strip()
        if not stripped:
            continue
        if number == 1 and stripped.startswith("["):
            raise ValueError(
                f"{named(path)}:1: begins with '[' as a JSON array does; a line must hold one JSON object, this one "
                f"is {shown(stripped)}. Convert the file: jq -c '.[]' OLD > NEW"
            )
        yield number, parsed(stripped)


def json_array(path: Path, limits: ReadLimits = LIMITS) -> list[Any]:
    """Return the elements of the JSON array in the file. Raises ValueError for another value, and as `json_value`."""
    elements = json_value(path, limits)
    if not isinstance(elements, list):
        what = f"is one JSON value, but not a list: {shown(elements)}"
        raise ValueError(f"{named(path)}: {what}. Write a list, or an object per line as .jsonl")
    return elements


def json_value(path: Path, limits: ReadLimits = LIMITS) -> Any:
    """Return the one JSON value in the file.

    Raises ValueError for no JSON, a key that an object has twice, or more than LARGEST_ARRAY bytes, and as
    `read_blocks` does.
    """
    content = b"".join(read_blocks(path, replace(limits, content=min(limits.content, LARGEST_ARRAY))))
    try:
        return loads(content.removeprefix(MARK))
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ValueError(f"{named(path)}: is not valid JSON ({printable(str(error))}). Write it again") from error


def loads(content: str | bytes) -> Any:
    """Return the JSON value. Raises ValueError as json.loads does, and for an object that has one key twice."""
    return json.loads(content, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the key {shown(twice)} twice, with two values; remove one")
    return values


def parsed(line: str) -> RowValues:
    """Return the JSON object of a line, or the reason why it is none."""
    try:
        values = loads(line)
    except json.JSONDecodeError as error:
        return f"not valid JSON at column {error.colno} ({error.msg}): {shown(line)}"
    except RecursionError:
        return f"JSON nested too deeply: {shown(line)}"
    except ValueError as error:  # a key that is there twice, or a number of more digits than Python reads
        return f"JSON that cannot be read ({error})"
    if not isinstance(values, dict):
        return f"a line must hold one JSON object; this one is {shown(line)}"
    return values


def text_lines(path: Path, limits: ReadLimits = LIMITS) -> Iterator[tuple[int, str]]:
    """Yield `read_lines` as text. Raises ValueError with line and byte if the file is not UTF-8."""
    for number, line in read_lines(path, limits):
        try:
            yield number, line.decode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{named(path)}:{number}: byte {error.start + 1} of the line is {line[error.start]:#04x}, which is not "
                f"UTF-8 ({error.reason}). Convert the file, for example: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW"
            ) from error


def read_lines(path: Path, limits: ReadLimits = LIMITS) -> Iterator[tuple[int, bytes]]:
    r"""Yield each line's number, from 1, and the line with its end (\n, \r\n or \r), without a byte order mark.

    Raises ValueError as `read_blocks` does, and for a line longer than `limits.line`.
    """
    number = 1
    parts: list[bytes] = []  # of a line without its end so far; joined once, as a line may be longer than many blocks
    length = 0
    for line in _parts(path, limits):
        length += len(line)
        if length > limits.line:
            raise ValueError(
                f"{named(path)}:{number}: more than {limits.line:,} bytes without a line end. Split the line, or "
                "write the file as .parquet"
            )
        parts.append(line)
        if line.endswith((b"\n", b"\r")):
            whole = line if len(parts) == 1 else b"".join(parts)
            yield number, whole.removeprefix(MARK) if number == 1 else whole
            number += 1
            parts, length = [], 0
    if tail := b"".join(parts):
        yield number, tail.removeprefix(MARK) if number == 1 else tail


def _parts(path: Path, limits: ReadLimits) -> Iterator[bytes]:
    r"""Yield lines with their ends, and pieces of lines; \r\n is never cut in two."""
    held = b""
    for block in read_blocks(path, limits):
        joined = held + block if held else block
        held = b"\r" if joined.endswith(b"\r") else b""
        yield from (joined[:-1] if held else joined).splitlines(keepends=True)
    if held:
        yield held


def read_blocks(path: Path, limits: ReadLimits = LIMITS) -> Iterator[bytes]:
    """Yield the file's content in blocks of at most a megabyte, unpacked if it is packed with gzip or zstd, whatever
    its name.

    Raises ValueError if the file cannot be read, is no text, is damaged or cut off, or exceeds `limits`.
    """
    head = check_file(path)
    with open(path, "rb") as raw:
        codec = packing_of(head)
        if codec is None and head in (b"\x1f", b"\x28", b"\x28\xb5", b"\x28\xb5\x2f"):
            codec = PACKINGS.get(path.suffix)  # cut off within the first bytes
        if codec is None:
            _refuse_foreign(path, head, "it is")
            if path.suffix in PACKINGS and head and not _is_text(head):
                raise ValueError(
                    f"{named(path)}: is not packed with {PACKINGS[path.suffix]}, though its name says so. It is not "
                    f"text either (it begins with {head[:8]!r}). Rename it or fetch it again"
                )
        size = 0
        for block in _pieces(path, raw, codec):
            if not size and codec:
                _refuse_foreign(path, block[:HEAD], "unpacked, it is")
            size += len(block)
            _check_size(path, size, raw.tell(), limits, packed_with=codec)
            yield block


def packing_of(head: bytes) -> str | None:
    """Return how a file with these first bytes is packed, "gzip" or "zstd"; None if it is not."""
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    # skippable frames may come first in a .zst
    return "zstd" if head.startswith(b"\x28\xb5\x2f\xfd") or head[1:4] == b"\x2a\x4d\x18" else None


def _pieces(path: Path, raw: BinaryIO, codec: str | None) -> Iterator[bytes]:
    try:
        import pyarrow as pa  # the command line starts without it

        # pyarrow's stream reads all members of a .gz and all frames of a .zst, unpacks no more than is asked for, and
        # refuses a file that is cut off; the modules gzip and zstandard each lack one of these
        stream = pa.CompressedInputStream(raw, codec) if codec else raw
        while block := stream.read(_BLOCK):
            yield block
    except OSError as error:
        if error.errno is not None:
            raise _unreadable(path, error) from error
        raise ValueError(f"{named(path)}: damaged or truncated {codec} file ({error}). Fetch it again") from error


def _is_text(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4  # a character that the head's end cuts
    return b"\0" not in head


def _refuse_foreign(path: Path, head: bytes, subject: str) -> None:
    if foreign_kind := foreign(head):
        kind, way_out = foreign_kind
        raise ValueError(f"{named(path)}: cannot be read as text: {subject} {kind}. {way_out}")


def _check_size(path: Path, size: int, packed: int, limits: ReadLimits, *, packed_with: str | None) -> None:
    if size > limits.content:
        raise ValueError(
            f"{named(path)}: contains more than {limits.content:,} bytes, the limit. Divide it into several files"
        )
    if packed_with and size > max(limits.grace, limits.ratio * packed):
        raise ValueError(
            f"{named(path)}: unpacks to {size // max(packed, 1):,} times its size, like a decompression bomb (text: "
            "3 to 20 times). If the file is genuine, unpack it yourself"
        )


def check_file(path: Path) -> bytes:
    """Return the first bytes of a file as they are stored, at most HEAD.

    Raises ValueError, which says what is there instead, unless the path is an ordinary file that can be read.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{named(path)}: there is no such file{_nearest_name(path)}") from None
    except OSError as error:
        raise _unreadable(path, error) from error
    except ValueError as error:  # NUL in a name
        raise ValueError(f"{named(path)}: cannot be a path ({error}). Name a file") from error
    if stat.S_ISDIR(mode):
        inside = sorted(file.name for file in path.iterdir() if file.is_file() and file.name[0] != ".")[:3]
        listed = f", such as {', '.join(map(printable, inside))}" if inside else ""
        raise ValueError(f"{named(path)}: is a folder, but a file is needed. Name a file in it{listed}")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{named(path)}: is a pipe or a device, not an ordinary file. Write its content to a file")
    try:
        with open(path, "rb") as file:
            return file.read(HEAD)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> ValueError:
    way_out = "Check the path" if error.errno == errno.ENAMETOOLONG else "Check its target and permissions"
    return ValueError(f"{named(path)}: cannot be read ({error.strerror}). {way_out}")


def _nearest_name(path: Path) -> str:
    """Return the nearest name in the same folder, as the end of a sentence."""
    try:
        names = [file.name for file in path.parent.iterdir()]
    except OSError:
        return f", nor a folder {named(path.parent)}. Check the path"
    if not names:
        return f"; its folder {named(path.parent)} is empty"
    name = meant(path.name, names)
    return name.replace("the nearest", "the nearest in its folder") if name else ". Check the path"


def foreign(head: bytes) -> tuple[str, str] | None:
    """Return what a file with these first bytes is, and what to do; None if it may be text."""
    for magic, kind, way_out in _MAGIC:
        if head.startswith(magic):
            return kind, way_out
    if head.startswith(b"PK\x03\x04"):
        if b"xl/" in head or b"[Content_Types].xml" in head:
            return "an Excel workbook (.xlsx) or another Office file", "Save it as CSV (UTF-8) there"
        return "a zip archive", "Unpack it, and name one of its files"
    if head[:1] == b"\x80" and head[1:2] in {b"\x02", b"\x03", b"\x04", b"\x05"}:
        return "a Python pickle, which could run code when it is read", "It is never opened. Write the data as .parquet"
    if head[257:262] == b"ustar":
        return "a tar archive", "Unpack it, and name one of its files"
    if head.lstrip()[:20].lower().startswith(_WEB):
        return "a web page", "Download the file itself, not the page that shows it"
    if encoding := wide_encoding(head):
        text = f"iconv -f {encoding} -t UTF-8 OLD > NEW"
        return f"{encoding} text, but UTF-8 is needed", f"Convert it: {text}"
    return None


def wide_encoding(head: bytes) -> str | None:
    """Return UTF-16LE, UTF-32BE and so on, from the byte order mark or from the places of zeros in Latin text."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    whole = head[: len(head) // 4 * 4]
    if len(whole) < 8:
        return None
    zeros = [whole[place::4].count(0) / (len(whole) // 4) for place in range(4)]
    patterns = {
        "UTF-32LE": (False, True, True, True),
        "UTF-32BE": (True, True, True, False),
        "UTF-16LE": (False, True, False, True),
        "UTF-16BE": (True, False, True, False),
    }
    for encoding, pattern in patterns.items():
        if all(share > 0.6 if zero else share < 0.1 for share, zero in zip(zeros, pattern, strict=True)):
            return encoding
    return None


def unpacked_name(path: Path) -> str:
    """Return the file's name without .gz or .zst."""
    return path.name.removesuffix(path.suffix) if path.suffix.lower() in PACKINGS else path.name


def named(path: Path) -> str:
    """Return the path as messages show it, with line ends and escape codes spelt out; of a file that was made of what
    a user holds, what that is, such as "the pandas DataFrame".
    """
    return printable(str(record_of(path).get("about") or path))


def record_of(path: Path) -> dict[str, Any]:
    """Return what data/as_files.py recorded of a file that it wrote; {} for a file of the user's."""
    record = Path(f"{path}{RECORD}")
    if record.parent.parent != files.cache() / INPUTS or not record.is_file():
        return {}
    facts: dict[str, Any] = files.read_json(record)
    return facts


def printable(text: str) -> str:
    """Return the text with everything spelt out that is not a printable character (escape codes, line ends)."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def plain_lines(text: str) -> str:
    """Return the text with all but its line ends and tabs as `printable` spells it: marks that reverse a line, too."""
    return text if text.isprintable() else re.sub(r"[^\n\t]+", lambda part: printable(part[0]), text)


def sound(text: str) -> str:
    """Return the text without the characters for which `unsound` refuses it: control characters, half surrogates."""
    return _CONTROL.sub("", text).encode(errors="ignore").decode()


def unsound(text: str) -> str | None:
    """Return what makes the text useless, as the predicate of a sentence about it; None if nothing does."""
    if match := _CONTROL.search(text):
        character = "NUL" if match[0] == "\0" else "the control character"
        near = text[max(match.start() - 20, 0) : match.start() + 20]
        return f"has {character} {match[0]!r} in it: {shown(near)}"
    if text.isascii():
        return None
    if "\ufffd" in text and not text.replace("\ufffd", "").strip():
        return f"has only replacement characters (U+FFFD): {shown(text)}"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        # JSON can escape half a surrogate pair, which is not a character
        return f"has half a surrogate pair, {text[error.start]!r}, in it, at character {error.start + 1}"
    return None
