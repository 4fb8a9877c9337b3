"""Stream the running text of articles in JATS, the XML of PubMed Central's full texts (text/safe_xml.py).

Kept are title, abstract and body: headings, paragraphs and lists. Left out is what is not running text or not by the
authors: tables, figures with their captions, formulas, footnotes, references and the marks that point to them,
supplements, acknowledgements and everything else after the body; abstracts that are a picture or a teaser; translations
(`trans-abstract`, `sub-article`), and reviews and answers that are printed with the article (`response`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from acclimate.core.names import shown
from acclimate.text.safe_xml import SafeParser, fed
from acclimate.text.untrusted import ReadLimits, RowValues, named, read_blocks

ROOTS = frozenset({"article", "pmc-articleset"})
_TITLE = ("article", "front", "article-meta", "title-group", "article-title")
_ABSTRACT = ("article", "front", "article-meta", "abstract")
_ID = ("article", "front", "article-meta", "article-id")
_PARAGRAPHS = frozenset({"title", "p", "article-title", "term", "verse-line", "subtitle"})
_PICTURES = {
    "table-wrap", "table-wrap-group", "table-wrap-foot", "table", "fig", "fig-group", "graphic", "inline-graphic",
    "media",
}  # fmt: skip
_FORMULAS = {
    "disp-formula", "disp-formula-group", "inline-formula", "tex-math", "math", "chem-struct", "chem-struct-wrap",
}  # fmt: skip
_NOTES = {
    "fn", "fn-group", "label", "object-id", "ref-list", "ref", "back", "floats-group", "author-notes", "kwd-group",
}  # fmt: skip
_BESIDE = {"supplementary-material", "inline-supplementary-material", "sub-article", "response", "code", "preformat"}
_LEFT_OUT = frozenset(_PICTURES | _FORMULAS | _NOTES | _BESIDE)
_OTHER_ABSTRACTS = frozenset({"graphical", "teaser", "toc", "key-points", "highlights", "author-highlights"})
_NAMES = {"pmc": "pmc", "pmcid": "pmc", "pmcaid": "", "pmid": "pmid", "doi": "doi"}
_BETWEEN = re.compile(r"(?:[\s,;\u2010-\u2015-]|and)*")  # between the marks of several references
_EMPTY = re.compile(r"\s*(?:\[(?:[\s,;\u2010-\u2015-]|and)*\]|\((?:[\s,;\u2010-\u2015-]|and|see|e\.g\.)*\))")
_BEFORE = re.compile(r"\s+(?=[.,;:!?)\]])")  # blanks that a removed mark leaves before punctuation


def jats_articles(path: Path, field: str, limits: ReadLimits) -> Iterator[tuple[int, RowValues]]:
    """Yield the first line of each article and its values, `id` and text (as `field`), or why it has none.

    The text has a line for each heading and paragraph. The id is that of PubMed Central (PMC123), else the PMID, else
    the DOI. Raises ValueError if the file is not well-formed XML, declares entities, or holds no article.
    """
    reader = _JatsReader(path, field, limits)
    if not (yield from fed(reader.parser, read_blocks(path, limits), reader.articles)):
        raise ValueError(
            f"{named(path)}: contains no article; its outermost element is {shown(reader.root)}. Remove the file"
        )


class _JatsReader:
    """Collects finished articles."""

    def __init__(self, path: Path, field: str, limits: ReadLimits) -> None:
        self.articles: list[tuple[int, RowValues]] = []
        self.root = ""
        self._field, self._limits = field, limits
        self._open: list[str] = []  # open elements, from the article on
        self._line = self._length = 0
        self._ids: dict[str, str] = {}
        self._lines: list[str] = []  # of the article's text
        self._text: list[str] = []  # of the current line
        self._skipped = 0  # depth of the outermost element that is left out; 0 if none is
        self._kind = ""  # of the current id
        self._marks = False  # True if marks of references were left out of the line
        self._raised: list[int] = []  # where in the line each open <sup> began
        self.parser = SafeParser(
            named(path), longest=limits.line, start=self._start, end=self._end, characters=self._characters
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.root = self.root or name
        name = name.rpartition(":")[2]
        if not self._open:
            if name != "article":
                return
            self._line, self._length, self._ids, self._lines = self.parser.line, 0, {}, []
        self._open.append(name)
        if self._skipped:
            return
        if _left_out(name, attributes):
            self._skipped = len(self._open)
            self._marks |= name == "xref"
        elif self._is_open(_ID):
            self._kind, self._text = _NAMES.get(attributes.get("pub-id-type", ""), ""), []
        elif self._inside():
            if name in _PARAGRAPHS:
                self._end_line()
            elif name == "sup":
                self._raised.append(len(self._text))
            elif name == "break":
                self._text.append(" ")

    def _end(self, name: str) -> None:
        if not self._open:
            return
        name = self._open[-1]
        if self._skipped:
            if len(self._open) == self._skipped:
                self._skipped = 0
                if name not in ("xref", "label"):
                    self._text.append(" ")
        elif self._is_open(_ID):
            self._keep_id("".join(self._text).strip())
        elif self._inside():
            if name in _PARAGRAPHS:
                self._end_line()
            elif name == "sup" and self._raised:
                begun = self._raised.pop()
                if self._marks and _BETWEEN.fullmatch("".join(self._text[begun:])):
                    del self._text[begun:]
        self._open.pop()
        if not self._open:
            self.articles.append((self._line, self._article()))

    def _characters(self, text: str) -> None:
        if self._skipped or not self._open or not (self._inside() or self._is_open(_ID)):
            return
        self._text.append(text)
        self._length += len(text)
        if self._length > self._limits.line:
            raise self.parser.error(f"an article of more than {self._limits.line:,} characters. Remove it")

    def _is_open(self, path: tuple[str, ...]) -> bool:
        return len(self._open) == len(path) and tuple(self._open) == path

    def _inside(self) -> bool:
        """Return True within title, abstract and body."""
        return self._open[1:2] == ["body"] or any(
            tuple(self._open[: len(path)]) == path for path in (_TITLE, _ABSTRACT)
        )

    def _keep_id(self, id: str) -> None:
        if self._kind == "pmc" and id:
            id = f"PMC{id.upper().removeprefix('PMC')}"
        if self._kind and id:
            self._ids.setdefault(self._kind, id)
        self._text = []

    def _end_line(self) -> None:
        line = " ".join("".join(self._text).split())
        if self._marks:
            line = _BEFORE.sub("", _EMPTY.sub("", line))
        if line:
            self._lines.append(line)
        self._text, self._marks, self._raised = [], False, []

    def _article(self) -> RowValues:
        self._end_line()
        if not self._lines:
            return "the article has neither title nor abstract nor body"
        name = next((self._ids[kind] for kind in ("pmc", "pmid", "doi") if kind in self._ids), None)
        return {self._field: "\n".join(self._lines), "id": name}


def _left_out(name: str, attributes: dict[str, str]) -> bool:
    if name == "xref":
        return attributes.get("ref-type") == "bibr"
    if name == "abstract":
        return attributes.get("abstract-type", "") in _OTHER_ABSTRACTS
    return name in _LEFT_OUT
