"""Relations between mentions, as examples: each pair of mentions of the wanted types in a sentence has one class.

encoding  how the text shows which two mentions are meant (BLURB, section 3.2 and Table 12)
dummies   the name of its type replaces each mention: "@CHEMICAL$ inhibits @GENE$". One name replaces two that overlap,
          from the first character of either to the last of both: "@CHEM-GENE$ blockers". Other mentions stay
markers   "[E1] aspirin [/E1] inhibits [E2] COX-2 [/E2]"; for two that overlap, "[E1-E2] COX-2 inhibitors [/E1-E2]"
original  the text does not change

An example's spans are the offsets of the two mentions in its text with dummies or markers. The mention of the first
type comes first; of two of one type, the one that begins first. A discontinuous mention counts from its first
character to its last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from acclimate.core.types import Example, Rejected
from acclimate.reading.formats.annotated import Annotated, Mention
from acclimate.tasks.mention_marks import BOTH_MENTIONS, EACH_MENTION, marks_of
from acclimate.tasks.sentences import Span, sentence_spans

Encoding = Literal["dummies", "markers", "original"]
Sentences = Callable[[str, Iterable[Span]], list[Span]]  # (a text, its mentions) -> its sentences


@dataclass(frozen=True)
class MentionPairs:
    """Which mentions are paired, and what dummies call them.

    first, second  types of the two mentions; the same for both if relations have no direction
    names          names of the two dummies
    overlapping    name of the dummy for two mentions that overlap
    """

    first: Collection[str]
    second: Collection[str]
    names: tuple[str, str]
    overlapping: str

    def pair_mentions(self, mentions: Iterable[Mention]) -> Iterator[tuple[Mention, Mention]]:
        """Yield each pair once, in the order in which the mentions begin."""
        ordered = sorted(mentions, key=lambda mention: (mention.start, mention.end))
        for at, one in enumerate(ordered):
            for other in ordered[at + 1 :]:
                if one.type in self.first and other.type in self.second:
                    yield one, other
                elif other.type in self.first and one.type in self.second:
                    yield other, one

    def special_tokens(self, encoding: Encoding) -> tuple[str, ...]:
        """Return the strings that the encoding writes into texts, which a tokenizer may keep whole."""
        if encoding == "dummies":
            return tuple(dict.fromkeys(map(_dummy, (*self.names, self.overlapping))))
        return (
            tuple(mark for name in (*EACH_MENTION, BOTH_MENTIONS) for mark in marks_of(name))
            if encoding == "markers"
            else ()
        )


def relation_examples(
    documents: Iterable[Annotated | Rejected],
    pairs: MentionPairs,
    *,
    labels: Mapping[str, str],
    negative: str,
    encoding: Encoding = "dummies",
    sentences: Sentences = sentence_spans,
) -> Iterator[Example | Rejected]:
    """Yield an example for each pair of mentions in one sentence, and the rejected documents as they come.

    labels     type of relation -> label. A pair has the label of its last relation of these types, in either direction,
               or `negative` if there is none
    sentences  returns the sentences of a text. A mention that runs over the end of a sentence is in no pair

    An example's id is `<document>.<first mention>.<second mention>`, its group is the document.
    """
    for document in documents:
        if isinstance(document, Rejected):
            yield document
            continue
        pair_labels = {
            frozenset((relation.first, relation.second)): labels[relation.type]
            for relation in document.relations
            if relation.type in labels
        }
        spans = sentences(document.text, [(mention.start, mention.end) for mention in document.mentions])
        for start, end in spans:
            inside = [mention for mention in document.mentions if start <= mention.start and mention.end <= end]
            for one, other in pairs.pair_mentions(inside):
                text, places = _encoded(
                    document.text[start:end],
                    ((one.start - start, one.end - start), (other.start - start, other.end - start)),
                    pairs,
                    encoding,
                )
                label = pair_labels.get(frozenset((one.id, other.id)), negative)
                yield Example(f"{document.id}.{one.id}.{other.id}", text, label, None, document.id, places)


def _encoded(
    text: str, mentions: tuple[Span, Span], pairs: MentionPairs, encoding: Encoding
) -> tuple[str, tuple[Span, ...]]:
    """Return the encoded text, and the offsets of the two mentions in it."""
    if encoding == "original":
        return text, mentions
    one, other = mentions
    if max(one[0], other[0]) < min(one[1], other[1]):
        stretches = [((min(one[0], other[0]), max(one[1], other[1])), pairs.overlapping, BOTH_MENTIONS)]
    else:
        stretches = sorted(zip(mentions, pairs.names, EACH_MENTION, strict=True))
    written, position = "", 0
    places: dict[Span, Span] = {}
    for (start, end), name, mark in stretches:
        opening, closing = marks_of(mark)
        written += text[position:start] + (f"{opening} " if encoding == "markers" else "")
        at = len(written)
        for mention in mentions:
            if start <= mention[0] and mention[1] <= end:
                within = (0, len(_dummy(name))) if encoding == "dummies" else (mention[0] - start, mention[1] - start)
                places[mention] = (at + within[0], at + within[1])
        written += _dummy(name) if encoding == "dummies" else f"{text[start:end]} {closing}"
        position = end
    return written + text[position:], tuple(places[mention] for mention in mentions)


def _dummy(name: str) -> str:
    return f"@{name}$"
