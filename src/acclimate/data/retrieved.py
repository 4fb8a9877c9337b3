"""What a retrieval found: counts for facts.json, a page for the terminal, and documents beside their queries.

1. `describe_corpus`, `describe_queries`, `describe_documents` and `examples_of_selection` make facts.json;
   `shown_queries` returns a few queries with their documents in full.
2. `as_text` is the page for the terminal, made of facts.json.
3. `page_examples` marks the words that a document shares with its query (Yao et al. 2022, Table 9), for a race's page.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from acclimate.core.records import from_plain
from acclimate.core.types import Watch, counted
from acclimate.data.corpus_scan import SOURCES, LeftOut
from acclimate.reports.page import Section, amount, beginning, page, share
from acclimate.text.bm25.index import Index
from acclimate.text.bm25.selection import Selection
from acclimate.text.bm25.shards import ShardedIndex
from acclimate.text.corpus import Corpus
from acclimate.text.scripts import divided_in, plain

SEQUENCE = 128  # tokens of a training sequence of TLM
EXAMPLES = 4  # queries, or documents of a random selection
RETRIEVED_SHOWN = 3  # documents of a query that a race shows
_QUERY, _PASSAGE = 400, 600  # characters shown
SOURCES_SHOWN = 15
TERMS = 15  # listed words of an example
MARKED = 0.05  # smallest part of the score with which a word is marked
CARRIED = 0.9  # share of a score that the marked words make up
LONGEST = 700  # characters of a marked text
QUERIES, DOCUMENTS = 12, 10  # on a page, at most
WORDS = 12  # named below a document
MarkedText = tuple[str, bool]  # a stretch of text; True if it is marked


def describe_corpus(corpus: Corpus, left_out: LeftOut) -> dict[str, Any]:
    """Return corpus, left_out, leaks and sources, which depend on no query."""
    facts = left_out.facts
    return {
        "corpus": {"documents": len(corpus), "characters": corpus.characters, "hash": corpus.hash},
        "left_out": {name: facts[name] for name in ("leaking", "passages", "copies")},
        "leaks": facts["leaks"],
        "sources": facts["sources"],
    }


def describe_queries(selection: Selection) -> dict[str, int]:
    """Return the numbers of queries, of those without a word of the corpus, and of those with fewer than k hits."""
    short = int(np.count_nonzero(selection.counts() < selection.k))
    return {"queries": selection.queries, "unhit": selection.unhit, "short": short}


def describe_documents(selection: Selection, corpus: Corpus, watch: Watch) -> dict[str, Any]:
    """Return counts of the retrieved documents. corpus: the documents of the selection.

    long     documents with more than SEQUENCE words
    beyond   words after the first SEQUENCE of a document, summed
    """
    sources: Counter[str] = Counter()
    words = long = beyond = 0
    for document in counted(corpus.documents(), watch, "counting", total=len(corpus)):
        count = len(document.text.split())
        sources[document.source] += 1
        words, long, beyond = words + count, long + (count > SEQUENCE), beyond + max(0, count - SEQUENCE)
    counts = {"documents": len(selection), "rows": int(selection.counts().sum()), "similar": selection.similar}
    counts |= {"characters": corpus.characters, "words": words, "long": long, "beyond": beyond}
    return {"selection": counts, "retrieved_sources": dict(sources.most_common(SOURCES))}


def examples_of_selection(selection: Selection, corpus: Corpus, index: Index | ShardedIndex) -> list[dict[str, Any]]:
    """Return the best document of a few queries with their shared words, or the first documents of a sample.

    corpus  the searched corpus
    """
    if selection.how != "bm25":
        first = selection.documents[:EXAMPLES]
        passages = zip(first.tolist(), selection.ranks[:EXAMPLES].tolist(), corpus.take(first), strict=True)
        return [_example_document(document.id, document.source, document.text, rank) for _, rank, document in passages]
    with_hits = np.flatnonzero(selection.counts())
    examples = []
    for query in with_hits[np.linspace(0, len(with_hits) - 1, min(EXAMPLES, len(with_hits))).astype(int)].tolist():
        documents, ranks, scores = selection.documents_for(query)
        [document] = corpus.take(documents[:1])
        name, text = selection.query(query)
        terms = [[word, round(part, 3)] for word, part in index.explain(text, int(documents[0]))]
        of_query = {"query_id": name, "query": beginning(text, _QUERY), "score": float(scores[0]), "terms": terms}
        examples.append(_example_document(document.id, document.source, document.text, int(ranks[0])) | of_query)
    return examples


def _example_document(id: str, source: str, text: str, rank: int) -> dict[str, Any]:
    return {"document_id": id, "source": source, "passage": beginning(text, _PASSAGE), "rank": rank}


@dataclass(frozen=True, slots=True)
class QueryShown:
    """A text of the task that was a query, and the documents that it found, best first."""

    id: str
    text: str
    documents: Sequence[DocumentShown]


@dataclass(frozen=True, slots=True)
class DocumentShown:
    """A document that a query found; rank counts from 1. terms: words of both, with their parts of the score."""

    id: str
    source: str
    text: str
    rank: int
    score: float
    terms: Sequence[tuple[str, float]] = ()


def shown_queries(selection: Selection, corpus: Corpus, index: Index | ShardedIndex) -> list[QueryShown]:
    """Return a few queries with their best documents in full; nothing for a sample.

    corpus  the searched corpus
    """
    if selection.how != "bm25":
        return []
    with_hits = np.flatnonzero(selection.counts())
    queries = []
    for query in with_hits[np.linspace(0, len(with_hits) - 1, min(EXAMPLES, len(with_hits))).astype(int)].tolist():
        name, text = selection.query(query)
        numbers, ranks, scores = (values[:RETRIEVED_SHOWN].tolist() for values in selection.documents_for(query))
        documents = zip(corpus.take(numbers), numbers, ranks, scores, strict=True)
        retrieved = [
            DocumentShown(document.id, document.source, document.text, rank, score, index.explain(text, number))
            for document, number, rank, score in documents
        ]
        queries.append(QueryShown(name, text, retrieved))
    return queries


def shown_from(entries: Sequence[Mapping[str, Any]]) -> tuple[QueryShown, ...]:
    """Return the values of a retrieval's shown.json. Raises ValueError for an unknown field."""
    return tuple(from_plain(QueryShown, entry) for entry in entries)


def as_text(facts: Mapping[str, Any], width: int = 0) -> str:
    """Return the page for the terminal. facts: the content of facts.json; width: as of `reports.page.page`"""
    sections = [_query_section(facts), _left_out(facts), _sources(facts), _lengths(facts), *_examples(facts)]
    return page(_title(facts), sections, width)


def _title(facts: Mapping[str, Any]) -> str:
    selection, whole = facts["selection"], facts["corpus"]["documents"]
    size = f"{share(selection['documents'] / whole)}, {selection['characters']:,} characters"
    part = f"{amount(selection['documents'], 'document')} of {whole:,} ({size})"
    if facts["recipe"]["how"] != "bm25":
        sampled = "at random" if facts["recipe"]["how"] == "random" else "by DSIR's weights"
        return f"Sampled {sampled}: {part}, as many as BM25 retrieves with K = {facts['recipe']['k']:,}"
    return f"Retrieved: {part}, K = {facts['recipe']['k']:,}"


def _query_section(facts: Mapping[str, Any]) -> Section:
    recipe, query_facts, counts = facts["recipe"], facts["queries"], facts["asked"]
    keywords = f"the keywords of a text (RAKE, {recipe['phrases']} at most)"
    queries, words = counts["queries"], query_facts["asked_words"]
    shortened = f", to {share(words / max(query_facts['words'], 1))} of all words" if query_facts["shortened"] else ""
    lines = [
        f"{queries:,} {'query' if queries == 1 else 'queries'}, one per training text, each "
        f"{keywords if recipe['queries'] == 'keywords' else 'a whole text'}; {words / queries:,.1f} words on average.",
        f"Shortened: {query_facts['shortened']:,}{shortened}.",
        f"Without a hit: {counts['unhit']:,}. With fewer than {recipe['k']:,} documents: {counts['short']:,}.",
    ]
    if recipe["k"] > facts["corpus"]["documents"]:
        lines.append(
            f"K = {recipe['k']:,} exceeds the {facts['corpus']['documents']:,} documents of the corpus, so a query "
            "retrieves every document that has one of its words."
        )
    if facts["selection"]["rows"]:
        queries_each = facts["selection"]["rows"] / facts["selection"]["documents"]
        lines.append(f"On average, a retrieved document was found by {queries_each:,.1f} queries.")
    return Section("Queries", lines=tuple(lines))


def _left_out(facts: Mapping[str, Any]) -> Section:
    recipe, left_out = facts["recipe"], facts["left_out"]
    rows = [
        (leak["within"], leak["kind"], f"{leak['scanned']:,}", f"{leak['references']:,}", share(leak["share"]))
        for leak in facts["leaks"]
    ]
    lines = [f"{amount(left_out['leaking'], 'document')} removed from the corpus because of a dev or test text."]
    if left_out["passages"]:
        fate = "left out as well" if recipe["passages"] == "drop" else "not removed (passages=drop removes them)"
        part = "with only a part of such a text, less than half of its runs of 13 words"
        lines.append(f"{amount(left_out['passages'], 'document')} {part}: {fate}.")
    copies = f"{left_out['copies']:,} copies of an earlier document"
    lines.append(f"{copies}: kept." if recipe["duplicates"] == "keep" else f"{copies} left out.")
    similar = f"{facts['selection']['similar']:,} near-duplicates of a higher-ranked document removed from the union."
    unsearched = "Near-duplicates were not searched for (duplicates=near does that)."
    lines.append(similar if recipe["duplicates"] == "near" else unsearched)
    columns = ("of", "held", "documents", "texts", "of all texts there")
    return Section("What was left out", columns, tuple(rows), tuple(lines))


def _sources(facts: Mapping[str, Any]) -> Section:
    whole, selection = facts["sources"], facts["retrieved_sources"]
    if set(whole) | set(selection) <= {""}:
        return Section("Where they come from", lines=("The corpus names no sources.",))
    documents, selected = facts["corpus"]["documents"], facts["selection"]["documents"]
    names = sorted({*whole, *selection}, key=lambda name: (-selection.get(name, 0), -whole.get(name, 0), name))
    rows = []
    for name in names[:SOURCES_SHOWN]:
        count, count_in_corpus = selection.get(name, 0), whole.get(name, 0)
        share_selected, share_of_corpus = count / selected, count_in_corpus / documents
        cells = (f"{count:,}", share(share_selected), f"{count_in_corpus:,}", share(share_of_corpus))
        times = f"{share_selected / share_of_corpus:.2f}" if share_of_corpus else "-"
        rows.append((name or "(none)", *cells, times))
    columns = ("source", "retrieved", "share", "in the corpus", "share", "times as frequent")
    more = (f"and {len(names) - SOURCES_SHOWN:,} more sources",) if len(names) > SOURCES_SHOWN else ()
    return Section("Where they come from", columns, tuple(rows), more)


def _lengths(facts: Mapping[str, Any]) -> Section:
    selection = facts["selection"]
    unread = share(selection["beyond"] / max(selection["words"], 1))
    lines = (
        f"{selection['words'] / selection['documents']:,.0f} words per document on average; no document was cut.",
        f"{selection['long']:,} have more than {SEQUENCE} words, so they exceed a training sequence of {SEQUENCE} "
        "tokens (max_tokens). Training cuts them into several sequences and uses all of them. The paper's released "
        f"code uses only the first, so at least {unread} of all words remain unused.",
    )
    return Section("How long they are", lines=lines)


def _examples(facts: Mapping[str, Any]) -> list[Section]:
    sections = []
    for number, example in enumerate(facts["examples"], 1):
        named = f"{example['document_id']}" + (f" ({example['source']})" if example["source"] else "")
        if "query" not in example:
            sections.append(Section(f"Example {number}: {named}, sampled at random", lines=(example["passage"],)))
            continue
        terms = {word for word, part in example["terms"] if part >= MARKED * example["score"]}
        parts = ", ".join(f"{word} {part:.2f}" for word, part in example["terms"][:TERMS])
        parts += f", and {len(example['terms']) - TERMS:,} more" if len(example["terms"]) > TERMS else ""
        lines = (
            f"Query {example['query_id']}: {bracketed(example['query'], terms)}",
            f"Document: {bracketed(example['passage'], terms)}",
            f"Matched words by their part of the score {example['score']:.2f}: {parts}",
        )
        sections.append(Section(f"Example {number}: {named}, rank {example['rank']}", lines=lines))
    return sections


def bracketed(text: str, terms: set[str]) -> str:
    """Return the text with brackets around the words that are among the terms, as they are or in lower case."""
    words = divided_in(text)
    return words.sub(lambda match: f"[{match[0]}]" if {match[0], plain(match[0])} & terms else match[0], text)


@dataclass(frozen=True)
class QueryExample:
    """A query and the documents that it found, by rank."""

    query: Marked
    documents: tuple[Marked, ...]


@dataclass(frozen=True)
class Marked:
    """An excerpt of a text with marked words.

    about  rank, score, source and id of a document; id of a query
    parts  the excerpt in stretches, with an ellipsis where the text was cut
    words  a sentence on the words that document and query share; "" for a query
    """

    about: str
    parts: tuple[MarkedText, ...]
    words: str = ""


def page_examples(queries: Sequence[QueryShown]) -> tuple[QueryExample, ...]:
    """Return the first QUERIES queries with their first DOCUMENTS documents, for the page."""
    return tuple(map(_example, queries[:QUERIES]))


def _example(query: QueryShown) -> QueryExample:
    documents = query.documents[:DOCUMENTS]
    carried = [carrying(document.terms) for document in documents]
    heaviest: dict[str, float] = {}
    for terms in carried:
        for term, part in terms.items():
            heaviest[term] = max(part, heaviest.get(term, 0.0))
    sides = (_document(document, terms) for document, terms in zip(documents, carried, strict=True))
    return QueryExample(Marked(query.id, marked(query.text, heaviest)), tuple(sides))


def _document(document: DocumentShown, terms: Mapping[str, float]) -> Marked:
    about = [f"rank {document.rank:,}", f"score {document.score:.2f}"]
    about += [f"source {document.source}"] if document.source else []
    named = [f"{term} {part:.2f}" for term, part in terms.items()][:WORDS]
    others = len(document.terms) - len(named)
    remainder = sum(part for _, part in document.terms) - sum(list(terms.values())[:WORDS])
    words = f"In common: {', '.join(named)}" if named else "No common word is known"
    words += f"; {others:,} more add {remainder:.2f}" if others else ""
    return Marked(", ".join([*about, f"document {document.id}"]), marked(document.text, terms), f"{words}.")


def carrying(terms: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Return the heaviest terms that together make up CARRIED of the score, and their parts of it."""
    heaviest = sorted(terms, key=lambda term: -term[1])
    enough, sum_so_far = CARRIED * sum(part for _, part in terms), 0.0
    carried: dict[str, float] = {}
    for term, part in heaviest:
        if carried and sum_so_far >= enough:
            break
        carried[term] = part
        sum_so_far += part
    return carried


def marked(text: str, terms: Mapping[str, float], *, longest: int = LONGEST) -> tuple[MarkedText, ...]:
    """Return the text with every occurrence of a term marked; a long text is cut to where their weight is largest.

    A term is a run of letters, digits and underscores, compared as it is and in lower case.
    """
    occurrences = list(_occurrences(text, terms))
    begin, end = _window(text, occurrences, terms, longest)
    parts: list[MarkedText] = [("\N{HORIZONTAL ELLIPSIS} ", False)] if begin else []
    at = begin
    for first, last, _ in occurrences:
        if begin <= first and last <= end:
            parts += [(text[at:first], False), (text[first:last], True)]
            at = last
    parts.append((text[at:end], False))
    if end < len(text):
        parts.append((" \N{HORIZONTAL ELLIPSIS}", False))
    return tuple(part for part in parts if part[0])


def _occurrences(text: str, terms: Mapping[str, float]) -> Iterator[tuple[int, int, str]]:
    """Yield (first character, the one after the last, term) in the order of the text."""
    for match in divided_in(text).finditer(text):
        term = match[0] if match[0] in terms else plain(match[0])
        if term in terms:
            yield *match.span(), term


def _window(
    text: str, occurrences: Sequence[tuple[int, int, str]], terms: Mapping[str, float], longest: int
) -> tuple[int, int]:
    """Return the first stretch of at most `longest` characters, cut between words, whose terms weigh most."""
    if len(text) <= longest:
        return 0, len(text)
    best, begin = 0.0, 0
    firsts, lasts = [first for first, _, _ in occurrences], [last for _, last, _ in occurrences]
    for first in firsts:
        start = max(0, first - longest // 8)  # some words before the first mark
        inside = occurrences[bisect_left(firsts, start) : bisect_right(lasts, start + longest)]
        within = {term for _, _, term in inside}
        weight = sum(terms[term] for term in within)
        if weight > best + 1e-9:
            best, begin = weight, start
    begin = min(begin, len(text) - longest)
    return _edge(text, begin, forward=True), _edge(text, begin + longest, forward=False)


def _edge(text: str, at: int, *, forward: bool) -> int:
    """Return the nearest place between words from `at` on, or before it; `at` if none is near."""
    if at in (0, len(text)):
        return at
    places = range(at, min(at + 40, len(text))) if forward else range(at, max(at - 40, 0), -1)
    for place in places:
        if text[place - 1].isspace() if forward else text[place].isspace():
            return place
    return at
