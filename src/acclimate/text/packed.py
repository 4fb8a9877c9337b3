"""The bytes and lines of files that anybody may have made, packed or not, in bounded memory.

Nothing is trusted: not the name, not the length, not that a line ends. What is wrong with a file as a whole is one
ValueError that names it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from acclimate.text.recognise import HEAD, foreign, nearest, printable

PACKINGS = {".gz": "gzip", ".zst": "zstd"}
MARK = b"\xef\xbb\xbf"  # UTF-8's byte order mark

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a file may ask of us.

    line     bytes of a line, a field, or an article
    content  bytes of a file, unpacked
    ratio    unpacked bytes for each packed one, looked at once `grace` bytes are unpacked: text packs to a tenth or so,
             a decompression bomb to a thousandth
    """

    line: int = 64 << 20
    content: int = 1 << 40
    ratio: int = 500
    grace: int = 16 << 20


LIMITS = Limits()


def named(path: Path) -> str:
    """The path as messages show it: line ends and escape codes in it are spelt out."""
    return printable(str(path))


def unpacked_name(path: Path) -> str:
    """The file's name without .gz or .zst."""
    return path.name.removesuffix(path.suffix) if path.suffix in PACKINGS else path.name


def check_file(path: Path) -> None:
    """Raises ValueError where the path is not an ordinary file that can be read, naming what there is instead."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{named(path)}: there is no such file{_beside(path)}") from None
    except OSError as error:
        raise _unreadable(path, error) from error
    except ValueError as error:  # NUL in a name
        raise ValueError(f"{named(path)}: cannot be a path ({error}). Name a file") from error
    if stat.S_ISDIR(mode):
        inside = sorted(file.name for file in path.iterdir() if file.is_file())[:3]
        listed = f", such as {', '.join(map(printable, inside))}" if inside else ""
        raise ValueError(f"{named(path)}: is a folder, where a file is needed. Name a file in it{listed}")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{named(path)}: is a pipe or a device, not an ordinary file. Write its content to a file")
    try:
        open(path, "rb").close()
    except OSError as error:
        raise _unreadable(path, error) from error


def blocks(path: Path, limits: Limits = LIMITS) -> Iterator[bytes]:
    """The file's content in pieces of at most a megabyte, unpacked where its name ends in .gz or .zst.

    Raises ValueError where the file cannot be read, is not what its name says, is damaged or cut off, or holds more
    than `limits` allow.
    """
    check_file(path)
    with open(path, "rb") as raw:
        _check_head(path, raw.read(HEAD))
        raw.seek(0)
        taken = 0
        for block in _pieces(path, raw):
            if not taken and path.suffix in PACKINGS:
                _refuse_foreign(path, block[:HEAD], "holds, unpacked,")
            taken += len(block)
            _check_size(path, taken, raw.tell(), limits)
            yield block


def lines(path: Path, limits: Limits = LIMITS) -> Iterator[tuple[int, bytes]]:
    r"""Line number, from 1, and line with its end: \n, \r\n or \r, mixed or not. A byte order mark is left out.

    Raises ValueError as `blocks` does, and where a line is longer than `limits.line`.
    """
    number = 1
    parts: list[bytes] = []  # of a line that is not over yet, joined once: a line may be longer than many blocks
    length = 0
    for line in _parts(path, limits):
        length += len(line)
        if length > limits.line:
            raise ValueError(
                f"{named(path)}:{number}: more than {limits.line:,} bytes without a line end. Is it a file of lines? "
                f"Break the line up, or write the file as .parquet"
            )
        parts.append(line)
        if line.endswith((b"\n", b"\r")):
            whole = line if len(parts) == 1 else b"".join(parts)
            yield number, whole.removeprefix(MARK) if number == 1 else whole
            number += 1
            parts, length = [], 0
    if rest := b"".join(parts):
        yield number, rest.removeprefix(MARK) if number == 1 else rest


def text_lines(path: Path, limits: Limits = LIMITS) -> Iterator[tuple[int, str]]:
    """Like `lines`, as text. Raises ValueError with line and byte where the file is not UTF-8."""
    for number, line in lines(path, limits):
        try:
            yield number, line.decode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{named(path)}:{number}: byte {error.start + 1} of the line is {line[error.start]:#04x}, which is not "
                f"UTF-8 ({error.reason}). Convert the file, for example: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW"
            ) from error


def _parts(path: Path, limits: Limits) -> Iterator[bytes]:
    r"""Lines with their ends and pieces of lines, no \r\n cut in two."""
    held = b""
    for block in blocks(path, limits):
        joined = held + block if held else block
        held = b"\r" if joined.endswith(b"\r") else b""
        yield from (joined[:-1] if held else joined).splitlines(keepends=True)
    if held:
        yield held


def _pieces(path: Path, raw: BinaryIO) -> Iterator[bytes]:
    codec = PACKINGS.get(path.suffix)
    try:
        # pyarrow's unpacks all members of a .gz and all frames of a .zst, never more at once than it is asked for, and
        # refuses a file that is cut off; the modules gzip and zstandard each fall short of one of these
        stream = pa.CompressedInputStream(raw, codec) if codec else raw
        while block := stream.read(_BLOCK):
            yield block
    except OSError as error:
        if error.errno is not None:
            raise _unreadable(path, error) from error
        raise ValueError(f"{named(path)}: damaged or cut off {codec} file ({error}). Fetch it again") from error


def _check_head(path: Path, head: bytes) -> None:
    if path.suffix not in PACKINGS:
        _refuse_foreign(path, head, "is")
        return
    magic = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}[path.suffix]
    # skippable frames may come first in a .zst
    skippable = path.suffix == ".zst" and head[1:4] == b"\x2a\x4d\x18"
    if head and not magic.startswith(head[: len(magic)]) and not skippable:
        what, _ = foreign(head) or ("something else", "")
        raise ValueError(
            f"{named(path)}: is not packed with {PACKINGS[path.suffix]}, though its name says so; it is {what} (it "
            f"begins with {head[:8]!r}). Rename it or fetch it again"
        )


def _refuse_foreign(path: Path, head: bytes, verb: str) -> None:
    if found := foreign(head):
        what, way_out = found
        raise ValueError(f"{named(path)}: {verb} {what}, whatever its name says. {way_out}")


def _check_size(path: Path, taken: int, packed: int, limits: Limits) -> None:
    if taken > limits.content:
        raise ValueError(
            f"{named(path)}: holds more than {limits.content:,} bytes, which is the limit. Divide it into several files"
        )
    if path.suffix in PACKINGS and taken > max(limits.grace, limits.ratio * packed):
        raise ValueError(
            f"{named(path)}: unpacks to {taken // max(packed, 1):,} times its size, as a decompression bomb does "
            f"(text: 3 to 20 times). If it is what it should be, unpack it yourself"
        )


def _unreadable(path: Path, error: OSError) -> ValueError:
    return ValueError(f"{named(path)}: cannot be read ({error.strerror}). Check where it points and who may read it")


def _beside(path: Path) -> str:
    """The nearest name in the same folder, as the end of a sentence."""
    try:
        found = nearest(path.name, [file.name for file in path.parent.iterdir()])
    except OSError:
        return f", nor a folder {named(path.parent)}. Check the path"
    return (
        f"; the nearest in its folder is {printable(found)}" if found else f"; its folder {named(path.parent)} is empty"
    )
