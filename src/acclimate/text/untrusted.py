"""What a file is by its first bytes, where its name says something else; and values as messages may show them."""

from __future__ import annotations

import difflib
import itertools
import json
import os
import re
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar
from xml.parsers import expat

import pyarrow as pa

HEAD = 4096  # bytes from which a file is recognised

# no text means anything by these; tab, line ends, vertical tab and form feed (PDFs leave it) are white space. Those
# from \x80 on are what a wrong encoding leaves of quotation marks, in 2% of IMDb: the texts are kept, and whatever is
# printed is escaped
_CONTROL = re.compile("[\0-\x08\x0e-\x1f\x7f]")
# first bytes -> what such a file is, and the way out
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (b"PAR1", "a Parquet file", "Give it a name that ends in .parquet"),
    (b"ARROW1", "an Arrow (Feather) file", "Write it as .parquet"),
    (b"\x1f\x8b", "packed with gzip", "Give it a name that ends in .gz"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd", "Give it a name that ends in .zst"),
    (b"BZh", "packed with bzip2", "Unpack it, or pack it with gzip or zstd"),
    (b"\xfd7zXZ", "packed with xz", "Unpack it, or pack it with gzip or zstd"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "Unpack it and name a file of it"),
    (b"Rar!", "a RAR archive", "Unpack it and name a file of it"),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Word file", "Save it as CSV (UTF-8) there"),
    (b"\x89HDF", "an HDF5 file", "Write it as .parquet"),
    (b"SQLite format 3", "an SQLite database", "Export the table as CSV"),
    (b"%PDF", "a PDF", "Extract its text first"),
    (b"\x93NUMPY", "a NumPy array", "Write it as .csv or .parquet"),
    (b"\x89PNG", "a picture", "Name the file that holds the text"),
    (b"\xff\xd8\xff", "a picture", "Name the file that holds the text"),
    (b"\x7fELF", "a program", "Name the file that holds the text"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself", "Run `git lfs pull`"),
)
_WEB = (b"<!doctype html", b"<html")
# longer marks first: the UTF-32 mark begins with that of UTF-16
_MARKS: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xfe\0\0", "UTF-32LE"),
    (b"\0\0\xfe\xff", "UTF-32BE"),
    (b"\xff\xfe", "UTF-16LE"),
    (b"\xfe\xff", "UTF-16BE"),
)


def foreign(head: bytes) -> tuple[str, str] | None:
    """Return what a file that begins with these bytes is, and the way out; None where it may well be text.

    Nothing is unpacked or run to find out: only the first bytes are compared.
    """
    for magic, what, way_out in _MAGIC:
        if head.startswith(magic):
            return what, way_out
    if head.startswith(b"PK\x03\x04"):
        if b"xl/" in head or b"[Content_Types].xml" in head:
            return "an Excel workbook (.xlsx) or another Office file", "Save it as CSV (UTF-8) there"
        return "a zip archive", "Unpack it and name a file of it"
    if head[:1] == b"\x80" and head[1:2] in {b"\x02", b"\x03", b"\x04", b"\x05"}:
        return "a Python pickle, which could run code when it is read", "It is never opened: write it as .parquet"
    if head[257:262] == b"ustar":
        return "a tar archive", "Unpack it and name a file of it"
    if head.lstrip()[:20].lower().startswith(_WEB):
        return "a web page", "Download the file itself, not the page that shows it"
    if encoding := wide_encoding(head):
        text = f"iconv -f {encoding} -t UTF-8 OLD > NEW"
        return f"{encoding} text, where UTF-8 is needed", f"Convert it: {text}"
    return None


def wide_encoding(head: bytes) -> str | None:
    """UTF-16LE, UTF-32BE and so on, told by the byte order mark, or by where the zeros of Latin letters stand."""
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


def printable(text: str) -> str:
    """Return the text with whatever a terminal would not print as a character (escape codes, line ends) spelt out."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def shown(value: object, longest: int = 60) -> str:
    """Return the value as Python spells it, escape codes and all, cut to `longest` characters."""
    # a text of a gigabyte is not spelt out to be cut
    text = repr(value[: longest + 1] if isinstance(value, str | bytes) else value)
    return text if len(text) <= longest else text[: longest - 3] + "..."


ALIKE = 0.65  # of difflib's ratio: `txt` and `text` have .86, `text` and `intent` .6


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is meant, case aside, of the first few thousand; None where none is known.

    The shortest that begins with the name; else the shortest that holds it, if it has three characters; else the one
    spelt most alike.
    """
    folded: dict[str, str] = {}
    for each in itertools.islice(known, 5000):
        folded.setdefault(each[:100].casefold().strip(), each)
    asked = name[:100].casefold().strip()
    begun = [each for each in folded if len(asked) > 1 and each.startswith(asked)]
    if found := begun or [each for each in folded if len(asked) > 2 and asked in each]:
        return folded[min(found, key=len)]
    found = difflib.get_close_matches(asked, folded, n=1, cutoff=0.0)
    return folded[found[0]] if found else None


def meant(name: str, known: Iterable[str]) -> str:
    """`; the nearest is 'label'`, as the end of a sentence; "" where no known name is spelt alike."""
    near = nearest(name, known)
    if near is None:
        return ""
    asked, found = name.casefold().strip(), near.casefold().strip()
    alike = (len(asked) > 1 and asked in found) or difflib.SequenceMatcher(None, found, asked).ratio() >= ALIKE
    return f"; the nearest is {shown(near)}" if alike else ""


def unsound(text: str) -> str | None:
    """What makes the text useless, as the end of a sentence that begins with what it is; None where nothing does."""
    if found := _CONTROL.search(text):
        what = "NUL" if found[0] == "\0" else "the control character"
        near = text[max(found.start() - 20, 0) : found.start() + 20]
        return f"has {what} {found[0]!r} in it: {shown(near)}"
    if text.isascii():
        return None
    if "\ufffd" in text and not text.replace("\ufffd", "").strip():
        return f"is nothing but replacement characters (U+FFFD): {shown(text)}"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        # JSON can escape half a surrogate pair, which is no character
        return f"has half a surrogate pair, {text[error.start]!r}, in it, at character {error.start + 1}"
    return None


# The bytes and lines of files that anybody may have made, packed or not, in bounded memory.
#
# Nothing is trusted: not the name, not the length, not that a line ends. What is wrong with a file as a whole is one
# ValueError that names it.

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
    """Return the path as messages show it: line ends and escape codes in it are spelt out."""
    return printable(str(path))


def unpacked_name(path: Path) -> str:
    """Return the file's name without .gz or .zst."""
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
    """Yield the file's content in pieces of at most a megabyte, unpacked where its name ends in .gz or .zst.

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
    """Return the nearest name in the same folder, as the end of a sentence."""
    try:
        there = [file.name for file in path.parent.iterdir()]
    except OSError:
        return f", nor a folder {named(path.parent)}. Check the path"
    if not there:
        return f"; its folder {named(path.parent)} is empty"
    found = meant(path.name, there)
    return found.replace("the nearest", "the nearest in its folder") if found else ". Check the path"


# JSON lines: an object a line, or why a line holds none.

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
    """Return the JSON object of a line, or the reason for which it is none."""
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


# XML that anybody may have made, read as it streams by: nothing is fetched, no entity expanded, nothing grows unseen.
#
# A file that declares entities is refused, for a few lines of them can unfold into gigabytes or read other files. The
# name of a document type (`<!DOCTYPE collection SYSTEM "BioC.dtd">`) may stand there; it is not looked up.

Item = TypeVar("Item")

DEEPEST = 200  # elements within each other
_FED = 1 << 16  # bytes at a time


class RefusedError(ValueError):
    """What is wrong with the content, as we say it."""


class SafeParser:
    """Calls back for what it is fed: start(name, attributes), end(name), characters(text).

    where    what messages call the file
    longest  bytes without an end of tag, from which the file is refused
    """

    def __init__(
        self,
        where: str,
        *,
        longest: int,
        start: Callable[[str, dict[str, str]], None],
        end: Callable[[str], None],
        characters: Callable[[str], None],
    ) -> None:
        self._where, self._longest, self._told_start, self._told_end = where, longest, start, end
        self._fed = self._depth = 0
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = characters
        parser.EntityDeclHandler = self._entity
        parser.SkippedEntityHandler = self._skipped
        self._parser = parser

    @property
    def line(self) -> int:
        return self._parser.CurrentLineNumber

    def feed(self, content: Iterable[bytes]) -> Iterator[None]:
        """Read all of it, with a pause after every piece. Raises RefusedError where it is not well-formed, declares or
        uses entities, or something in it never ends.
        """
        for block in content:
            for start in range(0, len(block), _FED):
                self._read(block[start : start + _FED])
                yield
        self._read(b"", last=True)
        yield

    def error(self, what: str, line: int | None = None) -> RefusedError:
        """With the file and the line before it."""
        return RefusedError(f"{self._where}:{line or self.line}: {what}")

    def _read(self, content: bytes, *, last: bool = False) -> None:
        self._fed += len(content)
        try:
            self._parser.Parse(content, last)
        except expat.ExpatError as error:
            raise self.error(
                f"not well-formed XML at column {error.offset + 1} ({expat.ErrorString(error.code)}). Fetch the file "
                f"again",
                error.lineno,
            ) from error
        except RefusedError:
            raise
        except (LookupError, ValueError) as error:  # from looking up the encoding that the file says it has
            if self._depth:  # or else by the reader of the element
                raise
            raise self.error(f"cannot be decoded ({printable(str(error))}). Convert it to UTF-8") from error
        if self._fed - self._parser.CurrentByteIndex > self._longest:
            raise self.error(f"more than {self._longest:,} bytes without an end of tag. Fetch the file again")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self.error(f"{self._depth} elements within each other, which no file of this kind has. Leave it out")
        self._told_start(name, attributes)

    def _end(self, name: str) -> None:
        self._told_end(name)
        self._depth -= 1

    def _entity(self, name: str, *_: object) -> NoReturn:
        raise self.error(
            f"declares the entity {shown(name)}: entities can unfold into gigabytes or read other files. Nothing was "
            f"unfolded; write out what it stands for, and take the declaration out"
        )

    def _skipped(self, name: str, _: bool) -> NoReturn:
        raise self.error(f"uses the entity {shown(name)}, which nothing in the file says the meaning of. Write it out")


def fed(parser: SafeParser, content: Iterable[bytes], found: list[Item]) -> Generator[Item, None, bool]:
    """Yield what those whom the parser calls put into `found`, as soon as it is there; returns whether anything was."""
    some = False
    for _ in parser.feed(content):
        some |= bool(found)
        yield from found
        found.clear()
    return some
