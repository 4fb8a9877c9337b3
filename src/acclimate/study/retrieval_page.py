"""A retrieval as a page for the terminal: what was asked and left out, where the documents come from, examples."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from acclimate.study.retrieval_facts import SEQUENCE
from acclimate.study.typeset import Section, amount, page, share

SOURCES = 15  # shown
TERMS = 15  # told of an example
MARKED = 0.05  # least part of the score for which a word is marked in the texts
_WORD = re.compile(r"\w+")


def as_text(facts: Mapping[str, Any]) -> str:
    """The page; facts: of study/retrieval_facts.py."""
    sections = [_asked(facts), _left_out(facts), _sources(facts), _lengths(facts), *_examples(facts)]
    return page(_title(facts), sections)


def _title(facts: Mapping[str, Any]) -> str:
    kept, whole = facts["selection"], facts["corpus"]["documents"]
    of_all = share(kept["documents"] / whole)
    part = f"{amount(kept['documents'], 'document')} of {whole:,} ({of_all}, {kept['characters']:,} characters)"
    if facts["recipe"]["how"] == "random":
        return f"Drawn at random: {part}, as many as BM25 retrieves with K = {facts['recipe']['k']:,}"
    return f"Retrieved: {part}, K = {facts['recipe']['k']:,}"


def _asked(facts: Mapping[str, Any]) -> Section:
    recipe, made, asked = facts["recipe"], facts["queries"], facts["asked"]
    what = (
        "the keywords of a text (RAKE, " + f"{recipe['phrases']} at most)"
        if recipe["queries"] == "keywords"
        else "a whole text"
    )
    queries = asked["queries"]
    lines = [
        f"{queries:,} {'query' if queries == 1 else 'queries'}, one a training text, each {what}; "
        f"{made['asked_words'] / queries:,.1f} words on average.",
        f"Shortened: {made['shortened']:,}"
        + (f", to {share(made['asked_words'] / max(made['words'], 1))} of all words." if made["shortened"] else "."),
        f"Without a hit: {asked['unhit']:,}. With fewer than {recipe['k']:,} documents: {asked['short']:,}.",
    ]
    if recipe["k"] > facts["corpus"]["documents"]:
        lines.append(
            f"K = {recipe['k']:,} is more than the {facts['corpus']['documents']:,} documents that there are: every "
            f"one that has a word of a query was brought by it."
        )
    if facts["selection"]["rows"]:
        brought = facts["selection"]["rows"] / facts["selection"]["documents"]
        lines.append(f"A retrieved document was brought by {brought:,.1f} queries on average.")
    return Section("What was asked", lines=tuple(lines))


def _left_out(facts: Mapping[str, Any]) -> Section:
    recipe, left = facts["recipe"], facts["left_out"]
    rows = [
        (leak["within"], leak["kind"], f"{leak['scanned']:,}", f"{leak['references']:,}", share(leak["share"]))
        for leak in facts["leaks"]
    ]
    lines = [f"{amount(left['leaking'], 'document')} left out of the corpus for a dev or test text."]
    if left["passages"]:
        fate = "left out as well" if recipe["passages"] == "drop" else "not left out (passages=drop does)"
        part = "with a part of one only, less than half of its runs of 13 words"
        lines.append(f"{amount(left['passages'], 'document')} {part}: {fate}.")
    copies = f"{left['copies']:,} copies of a document before them"
    lines.append(f"{copies}: kept." if recipe["duplicates"] == "keep" else f"{copies} left out.")
    if recipe["duplicates"] == "near":
        lines.append(f"{facts['selection']['similar']:,} near-duplicates of a better document dropped from the union.")
    else:
        lines.append("Near-duplicates of each other were not looked for (duplicates=near does).")
    columns = ("of", "held", "documents", "texts", "of all texts there")
    return Section("What was left out", columns, tuple(rows), tuple(lines))


def _sources(facts: Mapping[str, Any]) -> Section:
    whole, kept = facts["sources"], facts["retrieved_sources"]
    if set(whole) | set(kept) <= {""}:
        return Section("Where they come from", lines=("The corpus names no sources.",))
    every, some = facts["corpus"]["documents"], facts["selection"]["documents"]
    names = sorted({*whole, *kept}, key=lambda name: (-kept.get(name, 0), -whole.get(name, 0), name))
    rows = []
    for name in names[:SOURCES]:
        here, there = kept.get(name, 0) / some, whole.get(name, 0) / every
        times = f"{here / there:.2f}" if there else "-"
        rows.append(
            (name or "(none)", f"{kept.get(name, 0):,}", share(here), f"{whole.get(name, 0):,}", share(there), times)
        )
    columns = ("source", "retrieved", "share", "in the corpus", "share", "times as frequent")
    more = (f"and {len(names) - SOURCES:,} more sources",) if len(names) > SOURCES else ()
    return Section("Where they come from", columns, tuple(rows), more)


def _lengths(facts: Mapping[str, Any]) -> Section:
    found = facts["selection"]
    unread = share(found["beyond"] / max(found["words"], 1))
    lines = (
        f"{found['words'] / found['documents']:,.0f} words a document on average; no document was cut.",
        f"{found['long']:,} have more than {SEQUENCE} words, and so more than a training sequence of {SEQUENCE} tokens "
        f"holds (tlm's max_tokens). tlm cuts them into several sequences and reads them all; TLM's released code reads "
        f"only the first, and so never at least {unread} of all words.",
    )
    return Section("How long they are", lines=lines)


def _examples(facts: Mapping[str, Any]) -> list[Section]:
    sections = []
    for number, example in enumerate(facts["examples"], 1):
        told = f"{example['document_id']}" + (f" ({example['source']})" if example["source"] else "")
        if "query" not in example:
            sections.append(Section(f"Example {number}: {told}, drawn at random", lines=(example["passage"],)))
            continue
        terms = {word for word, part in example["terms"] if part >= MARKED * example["score"]}
        parts = ", ".join(f"{word} {part:.2f}" for word, part in example["terms"][:TERMS])
        parts += f", and {len(example['terms']) - TERMS:,} more" if len(example["terms"]) > TERMS else ""
        lines = (
            f"Query {example['query_id']}: {marked(example['query'], terms)}",
            f"Document: {marked(example['passage'], terms)}",
            f"Matched words by their part of the score {example['score']:.2f}: {parts}",
        )
        sections.append(Section(f"Example {number}: {told}, rank {example['rank']}", lines=lines))
    return sections


def marked(text: str, terms: set[str]) -> str:
    """The text with brackets around the words that are among the terms, which are in lower case or as in the text."""
    return _WORD.sub(lambda found: f"[{found[0]}]" if {found[0], found[0].lower()} & terms else found[0], text)
