"""Documents with mentions as sentences of words with a tag each: examples of a task of kind "tokens".

Words are those of text/words.py, cut where a mention begins or ends in them, so that every mention is made of whole
words. A word has one tag, so only the longest of several mentions that share a word is kept.

Documents are files of BRAT, PubTator or BioC, or rows of a table whose label lists spans of the text, as doccano, Label
Studio, Prodigy and spaCy write them: [[21, 24, "PER"], ...], or objects with `start` or `start_offset`, `end` or
`end_offset`, and `label`, `labels`, `entity` or `entity_group`. Offsets count characters from 0, ends excluded. An
object may state its text as `text` or `word`, which must then be at its offsets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any

from acclimate.core.names import shown
from acclimate.core.types import Example, Rejected, Split
from acclimate.reading.formats.annotated import Annotated, Mention, StatedMention, checked
from acclimate.reading.formats.bioc import bioc_documents
from acclimate.reading.formats.brat import brat_documents
from acclimate.reading.formats.pubtator import pubtator_documents
from acclimate.reading.source import Source
from acclimate.reading.tables import Row, check_accepted
from acclimate.tasks.sentences import Span, sentence_spans
from acclimate.tasks.tags import Scheme, entities, tags_of, text_of
from acclimate.text.words import word_spans

FORMATS = {".pubtator": pubtator_documents, ".xml": bioc_documents, ".json": bioc_documents}  # of all else BRAT's
STARTS, ENDS, TYPES = ("start", "start_offset"), ("end", "end_offset"), ("label", "labels", "entity", "entity_group")
SURFACES = ("text", "word")  # keys of the text of a span


@dataclass(frozen=True)
class Tagged:
    """Sentences of tagged words, and the counts of documents and mentions.

    examples       one a sentence, its group the document
    spans          of each example's words, in its document's text
    documents      number of documents, rejected ones included
    rejected       documents that cannot be used
    mentions       number of mentions in the other documents
    dropped        mentions without a tag, each with the reason; all others are entities of the tags, or merged
    discontinuous  mentions that are tagged with all words between their parts
    merged         mentions that touch one of their type, with which IO makes them one
    cut            words that the border of a mention cuts
    unread         (kind of annotation, number) of annotations that tags cannot express
    """

    examples: tuple[Example, ...]
    spans: tuple[tuple[Span, ...], ...]
    documents: int
    rejected: tuple[Rejected, ...]
    mentions: int
    dropped: tuple[Rejected, ...]
    discontinuous: int
    merged: int
    cut: int
    unread: tuple[tuple[str, int], ...]


def tagged(documents: Iterable[Annotated | Rejected], scheme: Scheme) -> Tagged:
    """Return the sentences of the documents, in their order, with the tags of their mentions.

    A discontinuous mention is taken for all from its first character to its last. Of mentions that share a word the
    longest in characters is kept, of equally long ones the first. No sentence ends within a mention that is kept. White
    space in a type becomes `_` in its tag.
    """
    examples: list[Example] = []
    spans: list[tuple[Span, ...]] = []
    rejected: list[Rejected] = []
    dropped: list[Rejected] = []
    unread: Counter[str] = Counter()
    number = mentions = whole = merged = cut = 0
    for document in documents:
        number += 1
        if isinstance(document, Rejected):
            rejected.append(document)
            continue
        unread.update({"relation": len(document.relations)} | dict(document.unread))
        mentions += len(document.mentions)
        uncut = word_spans(document.text)
        pairs, left_out = _kept(document, uncut)
        dropped += left_out
        whole += sum(len(mention.spans) > 1 for _, mention in pairs)
        words, cuts = _cut(uncut, [span for span, _ in pairs])
        cut += cuts
        starts = [start for start, _ in words]
        for place, (start, end) in enumerate(sentence_spans(document.text, [span for span, _ in pairs]), 1):
            first, last = bisect_left(starts, start), bisect_left(starts, end)
            inside = words[first:last]
            places = [
                (bisect_left(starts, span[0]) - first, bisect_left(starts, span[1]) - first - 1, _name(mention.type))
                for span, mention in pairs
                if start <= span[0] < end
            ]
            tags = tags_of(places, len(inside), scheme)
            merged += len(places) - len(entities(tags))
            text = text_of(document.text[start:end] for start, end in inside)
            examples.append(Example(f"{document.id}:{place}", text, tags, group=document.id))
            spans.append(tuple(inside))
    return Tagged(
        examples=tuple(examples),
        spans=tuple(spans),
        documents=number,
        rejected=tuple(rejected),
        mentions=mentions,
        dropped=tuple(dropped),
        discontinuous=whole,
        merged=merged,
        cut=cut,
        unread=tuple(sorted((+unread).items())),
    )


def notes_on_mentions(read: Tagged, *, where: str) -> list[str]:
    """Return notes: a sentence on each kind of annotation that tags do not hold, or that was changed."""
    notes = []
    if read.dropped:
        first = f"{read.dropped[0].place}: {read.dropped[0].reason}"
        notes.append(f"{where}: {len(read.dropped):,} of {read.mentions:,} mentions have no tag. The first: {first}.")
    if read.discontinuous:
        notes.append(
            f"{where}: {read.discontinuous:,} discontinuous mentions are tagged including the words between their "
            "parts."
        )
    if read.merged:
        notes.append(
            f"{where}: {read.merged:,} mentions touch another of the same type, and IO tags cannot separate them."
        )
    if read.cut:
        notes.append(f"{where}: {read.cut:,} words were split where a mention begins or ends inside them.")
    if read.unread:
        notes.append(f"{where}: not used: {', '.join(f'{kind} ({count:,})' for kind, count in read.unread)}.")
    return notes


def mention_rows(source: Source) -> tuple[list[Row | Rejected], list[str]]:
    """Return a Row, tagged in BIO, for each sentence, or a Rejected for a document that cannot be used; and what to
    tell.

    Read are a folder or archive as BRAT's, .pubtator as PubTator's, .xml and .json as BioC's, each also packed.

    Raises ValueError as those do, and where no document, or less than half of them, can be used.
    """
    read = tagged(FORMATS.get(source.ending, brat_documents)(source.path), "BIO")
    check_accepted(source.name, read.documents, read.rejected)
    rows: list[Row | Rejected] = [
        Row(number, example.id, example.text, example.label, None, example.group, example.id)
        for number, example in enumerate(read.examples, 1)
    ]
    return [*rows, *read.rejected], notes_on_mentions(read, where=source.name)


def distinct_documents(
    sources: Mapping[Split, Source], rows: Mapping[Split, Sequence[Row | Rejected]]
) -> dict[Split, list[Row | Rejected]]:
    """Return the rows with the split before the ids of BRAT's documents, which are names of files, if two files share
    one.
    """
    folders = [split for split, source in sources.items() if source.holds_mentions and source.ending not in FORMATS]
    names = Counter(name for split in folders for name in {row.group for row in rows[split] if isinstance(row, Row)})
    if not any(count > 1 for count in names.values()):
        folders = []
    return {
        split: [
            replace(row, group=f"{split}/{row.group}", id=f"{split}/{row.id}")
            if split in folders and isinstance(row, Row)
            else row
            for row in part
        ]
        for split, part in rows.items()
    }


def has_spans(rows: Sequence[Row | Rejected]) -> bool:
    """Return True if at least half of the rows have a list of spans, which may be empty, and one has a span."""
    labels = [row.label for row in rows if isinstance(row, Row)]
    lists = [
        label for label in labels if isinstance(label, list) and all(span_in(value) is not None for value in label)
    ]
    return any(lists) and 2 * len(lists) >= len(labels)


def span_in(value: Any) -> tuple[int, int, str] | None:
    """Return start, end and type of a span; None if the value is none."""
    if isinstance(value, Mapping):
        start, end = (next((value[key] for key in keys if key in value), None) for keys in (STARTS, ENDS))
        type_name = next((value[key] for key in TYPES if value.get(key)), None)
        value = [start, end, type_name[0] if isinstance(type_name, list) else type_name]
    if not isinstance(value, list | tuple) or len(value) != 3:
        return None
    start, end, type_name = value
    whole = all(isinstance(place, int) and not isinstance(place, bool) for place in (start, end))
    return (start, end, type_name) if whole and isinstance(type_name, str) and type_name.strip() else None


def span_rows(source: Source, rows: Sequence[Row | Rejected]) -> tuple[list[Row | Rejected], list[str]]:
    """Return a Row, tagged in BIO, for each sentence of the texts, and notes. A text with a faulty span is rejected.

    A sentence has the group of its text; the sentences of a text without a group are a group.
    """
    documents = [row if isinstance(row, Rejected) else _annotated(source, row) for row in rows]
    read: Tagged = tagged(documents, "BIO")
    groups = {_document_id(source, row): row.group for row in rows if isinstance(row, Row)}
    sentences = [
        Row(number, example.id, example.text, example.label, None, groups[example.group] or example.group, example.id)
        for number, example in enumerate(read.examples, 1)
    ]
    note = f"{source.name}: the labels are spans of the texts. They are read as word tags (BIO)."
    return [*sentences, *read.rejected], [note, *notes_on_mentions(read, where=source.name)]


def _annotated(source: Source, row: Row) -> Annotated | Rejected:
    mentions = []
    if not isinstance(row.label, list):
        return Rejected(row.place, f"the label is {shown(row.label)}, but must be a list of spans; correct it")
    for number, value in enumerate(row.label, 1):
        span = span_in(value)
        if span is None or not 0 <= span[0] < span[1] <= len(row.text):
            return Rejected(
                row.place,
                f"the span {shown(value)} does not fit its text of {len(row.text):,} characters; give start, end and "
                f"label, from 0 and with the end excluded",
            )
        covered = row.text[span[0] : span[1]]
        surface = next((value[key] for key in SURFACES if value.get(key)), "") if isinstance(value, Mapping) else ""
        same = not isinstance(surface, str) or surface.split() in ([], covered.split())
        mention = Mention(str(number), span[2], (span[:2],))
        mentions.append(StatedMention(row.place, mention, covered if same else surface))
    return checked(_document_id(source, row), row.text, mentions, place=row.place)


def _document_id(source: Source, row: Row) -> str:
    return row.id or f"{source.stem}:{row.number}"


def _kept(document: Annotated, words: Sequence[Span]) -> tuple[list[tuple[Span, Mention]], list[Rejected]]:
    """Return the mentions that get tags, ascending, without white space around their spans; and the others."""
    dropped = []
    kept_mentions = []
    for place, mention in enumerate(document.mentions):
        covered = document.text[mention.start : mention.end]
        start = mention.start + len(covered) - len(covered.lstrip())
        span = (start, start + len(covered.strip()))
        if bisect_left(words, span[1], key=itemgetter(0)) <= bisect_right(words, span[0], key=itemgetter(1)):
            dropped.append(_dropped(document, mention, "covers no visible character"))
        else:
            kept_mentions.append((span[0] - span[1], place, span, mention))
    pairs: list[tuple[Span, Mention]] = []
    tagged_spans: list[Span] = []
    for _, _, span, mention in sorted(kept_mentions, key=lambda entry: entry[:2]):
        at = bisect_left(tagged_spans, span)
        beside = [tagged_spans[near] for near in (at - 1, at) if 0 <= near < len(tagged_spans)]
        if any(span[0] < end and start < span[1] for start, end in beside):
            dropped.append(_dropped(document, mention, "overlaps a mention that is longer, or as long and before it"))
        else:
            tagged_spans.insert(at, span)
            pairs.append((span, mention))
    return sorted(pairs, key=lambda pair: pair[0]), dropped


def _dropped(document: Annotated, mention: Mention, why: str) -> Rejected:
    surface = mention.surface(document.text)
    return Rejected(document.place, f"{shown(document.id)}: {mention.type} {mention.id}, {shown(surface)}, {why}")


def _cut(words: Iterable[Span], mentions: Iterable[Span]) -> tuple[list[Span], int]:
    """Return the words, cut where mentions begin or end in them, and how many had to be cut."""
    borders = sorted({border for span in mentions for border in span})
    pieces: list[Span] = []
    cuts = 0
    for start, end in words:
        inner = borders[bisect_right(borders, start) : bisect_left(borders, end)]
        pieces += pairwise([start, *inner, end])
        cuts += bool(inner)
    return pieces, cuts


def _name(type: str) -> str:
    return "_".join(type.split())
