"""Elements out of XML that anybody may have made: nothing is fetched, no entity expanded, one held at a time.

A file that declares entities is refused, for a few lines of them can unfold into gigabytes or read other files. The
name of a document type (`<!DOCTYPE collection SYSTEM "BioC.dtd">`) may stand there; it is not looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from acclimate.text.packed import LIMITS
from acclimate.text.recognise import printable, shown

Lines = dict[Element, int]  # on which each element begins

_DEEPEST = 200  # elements within each other
_FED = 1 << 16  # bytes at a time


def elements(
    content: Iterable[bytes], name: str, *, where: str, root: str = "", longest: int = LIMITS.line
) -> Iterator[tuple[Element, Lines]]:
    """The tree of each element of that name, outermost ones, in the order of the file, and the lines of all in it.

    content  the file's bytes, in blocks
    where    what messages call the file
    root     the name that the file's outermost element must have; "": any
    longest  characters of an element's text and attributes, from which it is refused

    Raises ValueError where the content is not well-formed XML, declares or uses entities, or has another root.
    """
    reader = _Reader(name, where, root, longest)
    for block in content:
        for start in range(0, len(block), _FED):
            reader.feed(block[start : start + _FED])
            yield from reader.taken()
    reader.feed(b"", last=True)
    yield from reader.taken()


class _RefusedError(ValueError):
    """What is wrong with the content, as we say it."""


class _Reader:
    """Takes bytes and collects the elements that have come to their end."""

    def __init__(self, name: str, where: str, root: str, longest: int) -> None:
        self._name, self._where, self._root, self._longest = name, where, root, longest
        self._found: list[tuple[Element, Lines]] = []
        self._builder: TreeBuilder | None = None  # of the element that is open
        self._lines: Lines = {}
        self._depth = self._began = self._length = self._fed = 0
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = self._entity
        parser.SkippedEntityHandler = self._skipped
        self._parser = parser

    def taken(self) -> list[tuple[Element, Lines]]:
        """What has come to its end since the last call."""
        found, self._found = self._found, []
        return found

    def feed(self, content: bytes, *, last: bool = False) -> None:
        self._fed += len(content)
        try:
            self._parser.Parse(content, last)
        except expat.ExpatError as error:
            raise self._error(
                f"not well-formed XML at column {error.offset + 1} ({expat.ErrorString(error.code)}). Fetch the file "
                f"again",
                error.lineno,
            ) from error
        except _RefusedError:
            raise
        except (LookupError, ValueError) as error:  # from looking up the encoding that the file says it has
            raise self._error(f"cannot be decoded ({printable(str(error))}). Convert it to UTF-8") from error
        if self._fed - self._parser.CurrentByteIndex > self._longest:
            raise self._error(f"more than {self._longest:,} bytes without an end of tag. Fetch the file again")

    def _error(self, what: str, line: int | None = None) -> _RefusedError:
        return _RefusedError(f"{self._where}:{line or self._parser.CurrentLineNumber}: {what}")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._depth and self._root and name != self._root:
            raise self._error(f"the outermost element is {shown(name)}, where {self._root!r} is needed. Name another")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"{self._depth} elements within each other, which no file of this kind has. Leave it out")
        if self._builder is None and name == self._name:
            self._builder = TreeBuilder()
            self._began, self._length, self._lines = self._depth, 0, {}
        if self._builder is not None:
            self._lengthen(sum(map(len, attributes.values())) + 1)
            self._lines[self._builder.start(name, attributes)] = self._parser.CurrentLineNumber

    def _end(self, name: str) -> None:
        if self._builder is not None:
            self._builder.end(name)
            if self._depth == self._began:
                self._found.append((self._builder.close(), self._lines))
                self._builder = None
        self._depth -= 1

    def _characters(self, text: str) -> None:
        if self._builder is not None:
            self._lengthen(len(text))
            self._builder.data(text)

    def _lengthen(self, by: int) -> None:
        self._length += by
        if self._length > self._longest:
            raise self._error(f"an element {self._name!r} of more than {self._longest:,} characters. Leave it out")

    def _entity(self, name: str, *_: object) -> NoReturn:
        raise self._error(
            f"declares the entity {shown(name)}: entities can unfold into gigabytes or read other files. Nothing was "
            f"unfolded; write out what it stands for, and take the declaration out"
        )

    def _skipped(self, name: str, _: bool) -> NoReturn:
        raise self._error(f"uses the entity {shown(name)}, which nothing in the file says the meaning of. Write it out")
