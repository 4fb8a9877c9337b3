"""Articles out of XML: PubMed's (text/pubmed.py) or PubMed Central's (text/jats.py), whichever the file holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from acclimate.text.jats import ROOTS, jats_articles
from acclimate.text.jsonlines import Values
from acclimate.text.packed import Limits, blocks, named
from acclimate.text.pubmed import Deletion, pubmed_articles
from acclimate.text.safe_xml import SafeParser


def xml_articles(path: Path, field: str, limits: Limits) -> Iterator[tuple[int, Values | Deletion]]:
    """As `pubmed_articles` or `jats_articles` has them. Raises ValueError as they do."""
    readers = jats_articles if _outermost(path, limits) in ROOTS else pubmed_articles
    yield from readers(path, field, limits)


def _outermost(path: Path, limits: Limits) -> str:
    """The name of the file's outermost element, "" where there is none."""
    found: list[str] = []
    parser = SafeParser(
        named(path),
        longest=limits.line,
        start=lambda name, _: None if found else found.append(name),
        end=lambda name: None,
        characters=lambda text: None,
    )
    for _ in parser.feed(blocks(path, limits)):
        if found:
            return found[0]
    return ""
