"""What a file is by its first bytes, where its name says something else; and values as messages may show them."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable

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
    """What a file that begins with these bytes is, and the way out; None where it may well be text.

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
    """The text with whatever a terminal would not print as a character (escape codes, line ends) spelt out."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def shown(value: object, longest: int = 60) -> str:
    """The value as Python spells it, escape codes and all, cut to `longest` characters."""
    # a text of a gigabyte is not spelt out to be cut
    text = repr(value[: longest + 1] if isinstance(value, str | bytes) else value)
    return text if len(text) <= longest else text[: longest - 3] + "..."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is meant, case aside, of the first few thousand; None where none is known.

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
