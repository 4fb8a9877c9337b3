"""Retrieved documents beside the text that brought them, what they have in common marked (Yao et al. 2022, Table 9).

Plain values in, plain values out: the words in common and their parts of the score are the retrieval's to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acclimate.study.sections import DocumentShown, QueryShown

CARRIED = 0.9  # of a score, by the words that are marked
LONGEST = 700  # characters of a text
QUERIES, DOCUMENTS = 12, 10  # at most, on a page
WORDS = 12  # named below a document

Part = tuple[str, bool]  # a stretch of text, and whether it is marked

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Marked:
    """A text cut to what matters, and what stands beside it.

    parts  the text, in stretches; what was cut off is an ellipsis
    about  rank, score, source and id, or what the query is
    words  what the two have in common, in a sentence; empty for a query
    """

    about: str
    parts: tuple[Part, ...]
    words: str = ""


@dataclass(frozen=True)
class Example:
    """A query and the documents that it brought, by rank."""

    query: Marked
    documents: tuple[Marked, ...]


def shown_from(entries: Sequence[Mapping[str, Any]]) -> tuple[QueryShown, ...]:
    """The values of the entry `retrieved` of facts.json. Raises TypeError for a key that is no field."""

    def document(entry: Mapping[str, Any]) -> DocumentShown:
        terms = tuple((str(term), float(part)) for term, part in entry.get("terms", ()))
        return DocumentShown(**{**entry, "terms": terms})

    return tuple(QueryShown(**{**entry, "documents": tuple(map(document, entry["documents"]))}) for entry in entries)


def examples(shown: Sequence[QueryShown]) -> tuple[Example, ...]:
    """The first QUERIES queries and their first DOCUMENTS documents, as the page has them."""
    return tuple(map(_example, shown[:QUERIES]))


def carrying(terms: Sequence[tuple[str, float]]) -> dict[str, float]:
    """The heaviest terms that together make up CARRIED of the sum, and their parts of it."""
    heaviest = sorted(terms, key=lambda term: -term[1])
    enough, sum_so_far = CARRIED * sum(part for _, part in terms), 0.0
    carried: dict[str, float] = {}
    for term, part in heaviest:
        if carried and sum_so_far >= enough:
            break
        carried[term] = part
        sum_so_far += part
    return carried


def marked(text: str, terms: Mapping[str, float], *, longest: int = LONGEST) -> tuple[Part, ...]:
    """The text with every occurrence of a term marked; a longer one is cut to where most of their weight stands.

    A term is a run of letters, digits and underscores, compared as it is and in small letters. One that stands nowhere
    in the text, such as a stem, is marked nowhere.
    """
    found = list(_occurrences(text, terms))
    begin, end = _window(text, found, terms, longest)
    parts: list[Part] = [("\N{HORIZONTAL ELLIPSIS} ", False)] if begin else []
    at = begin
    for first, last, _ in found:
        if begin <= first and last <= end:
            parts += [(text[at:first], False), (text[first:last], True)]
            at = last
    parts.append((text[at:end], False))
    if end < len(text):
        parts.append((" \N{HORIZONTAL ELLIPSIS}", False))
    return tuple(part for part in parts if part[0])


def _example(query: QueryShown) -> Example:
    documents = query.documents[:DOCUMENTS]
    carried = [carrying(document.terms) for document in documents]
    heaviest: dict[str, float] = {}
    for terms in carried:
        for term, part in terms.items():
            heaviest[term] = max(part, heaviest.get(term, 0.0))
    sides = (_document(document, terms) for document, terms in zip(documents, carried, strict=True))
    return Example(Marked(query.id, marked(query.text, heaviest)), tuple(sides))


def _document(document: DocumentShown, terms: Mapping[str, float]) -> Marked:
    about = [f"rank {document.rank:,}", f"score {document.score:.2f}"]
    about += [f"source {document.source}"] if document.source else []
    named = [f"{term} {part:.2f}" for term, part in terms.items()][:WORDS]
    others = len(document.terms) - len(named)
    rest = sum(part for _, part in document.terms) - sum(list(terms.values())[:WORDS])
    said = f"In common: {', '.join(named)}" if named else "No word in common was told"
    said += f"; {others:,} more add {rest:.2f}" if others else ""
    return Marked(", ".join([*about, f"document {document.id}"]), marked(document.text, terms), f"{said}.")


def _occurrences(text: str, terms: Mapping[str, float]) -> Iterator[tuple[int, int, str]]:
    """(first character, the one after the last, term) in the text's order."""
    for match in _WORD.finditer(text):
        term = match[0] if match[0] in terms else match[0].lower()
        if term in terms:
            yield *match.span(), term


def _window(
    text: str, found: Sequence[tuple[int, int, str]], terms: Mapping[str, float], longest: int
) -> tuple[int, int]:
    """The first stretch of at most `longest` characters, cut between words, whose different terms weigh most."""
    if len(text) <= longest:
        return 0, len(text)
    best, begin = 0.0, 0
    for first, _, _ in found:
        start = max(0, first - longest // 8)  # some words before the first mark
        within = {term for at, last, term in found if start <= at and last <= start + longest}
        weight = sum(terms[term] for term in within)
        if weight > best + 1e-9:
            best, begin = weight, start
    begin = min(begin, len(text) - longest)
    return _edge(text, begin, forward=True), _edge(text, begin + longest, forward=False)


def _edge(text: str, at: int, *, forward: bool) -> int:
    """The nearest place between words from `at` on, or before it; `at` itself where there is none near."""
    if at in (0, len(text)):
        return at
    places = range(at, min(at + 40, len(text))) if forward else range(at, max(at - 40, 0), -1)
    for place in places:
        if text[place - 1].isspace() if forward else text[place].isspace():
            return place
    return at
