"""Stream XML from files that may be hostile: fetch nothing, expand no entity, and bound the memory.

A file that declares entities is refused, because a few lines of them can expand into gigabytes or read other files. A
document type (`<!DOCTYPE collection SYSTEM "BioC.dtd">`) may be named; it is not looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NoReturn
from xml.parsers import expat

from acclimate.core.names import shown
from acclimate.core.types import Item
from acclimate.text.untrusted import printable

DEEPEST = 200  # levels of nested elements
_FED = 1 << 16  # bytes that the parser gets at a time


class SafeParser:
    """Parses what it is fed and calls start(name, attributes), end(name) and characters(text).

    where    the file's name in messages
    longest  bytes without the end of a tag, above which the file is refused
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
        self._where, self._longest, self._on_start, self._on_end = where, longest, start, end
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
        """Parse the content, and yield after every piece.

        Raises RefusedError if the content is not well-formed, declares or uses entities, or has a tag without an end.
        """
        for block in content:
            for start in range(0, len(block), _FED):
                self._read(block[start : start + _FED])
                yield
        self._read(b"", last=True)
        yield

    def error(self, fault: str, line: int | None = None) -> RefusedError:
        """Return an error with the file and the line before the text."""
        return RefusedError(f"{self._where}:{line or self.line}: {fault}")

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
        except (LookupError, ValueError) as error:  # the file declares an encoding that Python does not know
            if self._depth:  # inside an element a caller's function raised it
                raise
            raise self.error(f"cannot be decoded ({printable(str(error))}). Convert it to UTF-8") from error
        if self._fed - self._parser.CurrentByteIndex > self._longest:
            raise self.error(f"more than {self._longest:,} bytes without the end of a tag. Fetch the file again")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self.error(f"{self._depth} nested elements, which no valid file has. Remove the file")
        self._on_start(name, attributes)

    def _end(self, name: str) -> None:
        self._on_end(name)
        self._depth -= 1

    def _entity(self, name: str, *_: object) -> NoReturn:
        raise self.error(
            f"declares the entity {shown(name)}: entities can expand to gigabytes or read other files, so it was "
            "not expanded. Write its text out, and remove the declaration"
        )

    def _skipped(self, name: str, _: bool) -> NoReturn:
        raise self.error(f"uses the entity {shown(name)}, which the file does not define. Write it out")


class RefusedError(ValueError):
    """The content of a file is refused; the message names the file and the reason."""


def fed(parser: SafeParser, content: Iterable[bytes], items: list[Item]) -> Generator[Item, None, bool]:
    """Parse, and yield what the parser's functions append to `items`. Return True if they appended anything."""
    any_items = False
    for _ in parser.feed(content):
        any_items |= bool(items)
        yield from items
        items.clear()
    return any_items
