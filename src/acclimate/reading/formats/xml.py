"""Elements of untrusted XML (text/untrusted.py), one in memory at a time, and the hyperpartisan news that have it.

Hyperpartisan news (SemEval-2019, task 4, by article) are articles in one XML file, with their labels in another, by id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder

from acclimate.core.names import shown
from acclimate.core.types import Example, Rejected
from acclimate.reading.datasets.catalogue import file_in
from acclimate.reading.formats.delimited import example_of, one_of
from acclimate.text.safe_xml import SafeParser
from acclimate.text.untrusted import LIMITS, ReadLimits, named, printable, read_blocks

Lines = dict[Element, int]  # on which each element begins

ARTICLES = "articles-training-byarticle-20181122.xml"

LABELS = "ground-truth-training-byarticle-20181122.xml"

CLASSES = ("true", "false")


def elements(
    content: Iterable[bytes], name: str, *, where: str, root: str = "", longest: int = LIMITS.line
) -> Iterator[tuple[Element, Lines]]:
    """Yield the tree of each outermost element of this name, in the order of the file, with the lines of its elements.

    content  the file's bytes, in blocks
    where    name of the file in messages
    root     name that the file's outermost element must have; "": any
    longest  most characters of an element's text and attributes

    Raises ValueError if the content is not well-formed XML, declares or uses entities, has another root, or an element
    is too long.
    """
    reader = _ElementReader(name, where, root, longest)
    for _ in reader.parser.feed(content):
        yield from reader.taken()


def hyperpartisan_examples(folder: Path, *, limits: ReadLimits = LIMITS) -> Iterator[Example | Rejected]:
    """Yield an Example or a Rejected for each article; the text is its title and its text without tags."""
    articles, truth = file_in(folder, ARTICLES), file_in(folder, LABELS)
    labels = {
        article.get("id", ""): article.get("hyperpartisan", "")
        for article, _ in elements(
            read_blocks(truth, limits), "article", where=named(truth), root="articles", longest=limits.line
        )
    }
    for article, lines in elements(
        read_blocks(articles, limits), "article", where=named(articles), root="articles", longest=limits.line
    ):
        place, id = f"{printable(articles.name)}:{lines[article]}", article.get("id", "")
        if id not in labels:
            yield Rejected(place, f"{LABELS} has no label for the article {id!r}; fetch both files again")
            continue
        text = " ".join(" ".join([article.get("title", ""), *article.itertext()]).split())
        yield example_of(place, id, text, labels[id], one_of(CLASSES))


class _ElementReader:
    """Collects the elements that are complete."""

    def __init__(self, name: str, where: str, root: str, longest: int) -> None:
        self._name, self._root, self._longest = name, root, longest
        self._found: list[tuple[Element, Lines]] = []
        self._builder: TreeBuilder | None = None  # builds the element that is open
        self._lines: Lines = {}
        self._depth = self._began = self._length = 0
        self.parser = SafeParser(where, longest=longest, start=self._start, end=self._end, characters=self._characters)

    def taken(self) -> list[tuple[Element, Lines]]:
        """Return the elements that were completed since the last call."""
        elements, self._found = self._found, []
        return elements

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._depth and self._root and name != self._root:
            raise self.parser.error(
                f"the outermost element is {shown(name)}, but must be {self._root!r}. Name another file"
            )
        self._depth += 1
        if self._builder is None and name == self._name:
            self._builder = TreeBuilder()
            self._began, self._length, self._lines = self._depth, 0, {}
        if self._builder is not None:
            self._lengthen(sum(map(len, attributes.values())) + 1)
            self._lines[self._builder.start(name, attributes)] = self.parser.line

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
            raise self.parser.error(f"an element {self._name!r} of more than {self._longest:,} characters. Remove it")
