"""What is known of several vocabularies on the same texts, as values, sections of a page and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from acclimate.study.examination import Pieces
from acclimate.study.typeset import Section, amount, page, share
from acclimate.text.terms import Term

OWN = "their own"
LISTED = 30  # terms that a terminal shows
WORTH = 0.05  # share of the pieces that a vocabulary of their own saves, from which it is advised
UNKNOWN = "[UNK]"  # of a piece that a vocabulary lacks, whatever it calls it
WHOLE = "\N{CHECK MARK}"


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary, and how the texts break under it.

    kind        as `tokenizers` calls its model: WordPiece, BPE, Unigram
    lower       whether case is lost
    per_text    pieces a text
    texts       how the words break of the texts that were set aside
    in_general  pieces a word of general text; None without any
    shared      share of the reference's entries that it has, too; None for the reference itself
    """

    name: str
    kind: str
    lower: bool
    entries: int
    per_text: float
    texts: Pieces
    in_general: float | None = None
    shared: float | None = None


@dataclass(frozen=True)
class Judged:
    """A term, and its pieces under each vocabulary."""

    term: Term
    pieces: tuple[tuple[str, ...], ...]

    def whole(self, number: int) -> bool:
        """Whether the vocabulary of that number has every word of the term in one piece."""
        pieces = self.pieces[number]
        return len(pieces) == len(self.term.word.split()) and UNKNOWN not in pieces

    def spelt(self, number: int) -> str:
        """A check mark for a term that is whole, else its pieces."""
        return WHOLE if self.whole(number) else " ".join(self.pieces[number])


@dataclass(frozen=True)
class Analysis:
    """Vocabularies on the same texts, the texts' own last where there is one.

    texts                what the texts are called; documents: how many there are
    held_out             of them, that were measured on, and that no vocabulary here was learnt from
    reference            the vocabulary that shared entries are counted of
    terms, given         what was looked up, and whether a list of it was given
    """

    texts: str
    documents: int
    held_out: int
    vocabularies: tuple[Vocabulary, ...]
    reference: str
    terms: tuple[Judged, ...] = ()
    given: bool = False

    def advice(self) -> str:
        """How far the texts break under each, in a sentence."""
        first, *others = [
            f"{each.texts.per_word:.2f}{' pieces a word' * (not number)} under {each.name}"
            for number, each in enumerate(self.vocabularies)
        ]
        return f"Your texts break into {', '.join([first, *others])}."

    def way_out(self) -> str:
        """What follows, where there is something to compare; else nothing."""
        *models, own = self.vocabularies
        if not models:
            return ""
        if own.name != OWN:
            best, worst = (choose(self.vocabularies, key=lambda each: each.per_text) for choose in (min, max))
            fewer = 1 - best.per_text / worst.per_text
            return f"{best.name} spells them in the fewest pieces: {fewer:.0%} fewer than {worst.name} does."
        best = min(models, key=lambda each: each.per_text)
        fewer = 1 - own.per_text / best.per_text
        if fewer < 0:
            return (
                f"The vocabulary of {best.name}, of {best.entries:,} entries, takes fewer pieces a text than their own "
                f"of {own.entries:,}. A larger one of their own (size=...) may do better."
            )
        if fewer < WORTH:
            return f"The vocabulary of {best.name} does nearly as well: there is little to gain from another."
        return (
            f"A vocabulary of their own spells the texts in {fewer:.0%} fewer pieces than {best.name} does. Add words "
            "of the texts to a model's (acclimate adapt extend), or pretrain from scratch with their own (acclimate "
            "adapt scratch)."
        )

    def as_text(self) -> str:
        """The page for a terminal, at most 110 columns wide."""
        parts = [self.compared(), self.found(LISTED), self.broken()]
        told = " ".join(filter(None, (self.advice(), self.way_out())))
        return page("acclimate vocabulary", [Section(told), *(part for part in parts if part.rows or part.lines)])

    def compared(self) -> Section:
        """A line for each vocabulary."""
        general = any(each.in_general is not None for each in self.vocabularies)
        rows = []
        for each in self.vocabularies:
            cells = [each.name, f"{each.kind}, {'uncased' if each.lower else 'cased'}", f"{each.entries:,}"]
            cells += [f"{each.texts.per_word:.2f}"]
            cells += ["-" if each.in_general is None else f"{each.in_general:.2f}"] if general else []
            cells += [f"{each.per_text:,.0f}", share(each.texts.whole), _unknown(each.texts.unknown)]
            rows.append((*cells, "-" if each.shared is None else share(each.shared)))
        columns = ["vocabulary of", "kind", "entries", "pieces a word", *(["in general text"] if general else [])]
        columns += ["pieces a text", "whole words", "unknown pieces", "shared entries"]
        words = self.vocabularies[0].texts.words
        line = (
            f"Measured on {amount(self.held_out, 'text')} of the {self.documents:,} of {self.texts}, {words:,} words, "
            f"drawn evenly{'; their own vocabulary was learnt from the others' if self._has_own else ''}. Shared: of "
            f"the entries of {self.reference}."
        )
        return Section("Vocabularies", tuple(columns), tuple(rows), (line,))

    def found(self, most: int) -> Section:
        """So many terms that some vocabulary breaks, with their pieces."""
        if not self.terms:
            text = "No terms were looked up. Give general text to find them by (--general), or a list (--terms)."
            return Section("Terms", lines=(text,))
        broken = [each for each in self.terms if not all(each.whole(at) for at in range(len(self.vocabularies)))]
        numbers = range(len(self.vocabularies))
        rows = [(each.term.word, *map(each.spelt, numbers)) for each in broken[:most]]
        more = f" The first {most:,} of {len(broken):,} that some vocabulary breaks." if len(broken) > most else ""
        return Section("Terms", ("term", *self.names), tuple(rows), (f"{self.kept_whole()}{more}",))

    def kept_whole(self) -> str:
        """How many terms each vocabulary keeps whole, and what terms they are."""
        what = "that were given" if self.given else "that stand out most against general text"
        counts = ", ".join(f"{self.whole(at):,} under {name}" for at, name in enumerate(self.names))
        return f"Of {amount(len(self.terms), 'term')} {what}, {counts} are one piece a word ({WHOLE})."

    def broken(self) -> Section:
        """The most frequent words of three pieces and more under each vocabulary."""
        lines = tuple(
            f"{each.name}: "
            + ", ".join(f"{word} ({pieces} pieces, {count:,} times)" for word, pieces, count in each.texts.broken)
            for each in self.vocabularies
            if each.texts.broken
        )
        return Section("Words that break most often", lines=lines)

    def whole(self, number: int) -> int:
        """How many terms the vocabulary of that number keeps whole."""
        return sum(each.whole(number) for each in self.terms)

    def as_csv(self) -> str:
        """The figures unrounded, a line for each vocabulary."""
        rows = [
            (
                *(each.name, each.kind, each.lower, each.entries, each.texts.per_word, each.in_general, each.per_text),
                *(each.texts.whole, each.texts.unknown, each.shared, self.whole(number), len(self.terms)),
            )
            for number, each in enumerate(self.vocabularies)
        ]
        names = [
            *("vocabulary", "kind", "lower", "entries", "pieces_per_word", "pieces_per_word_general"),
            *("pieces_per_text", "whole_words", "unknown_pieces", "shared", "whole_terms", "terms"),
        ]
        return _csv(names, rows)

    def terms_as_csv(self) -> str:
        """A line for each term: how often it was met, z, and its pieces under each vocabulary."""
        rows = [
            (each.term.word, each.term.own, each.term.general, each.term.z, *(" ".join(part) for part in each.pieces))
            for each in self.terms
        ]
        return _csv(("term", "in_texts", "in_general", "z", *self.names), rows)

    @property
    def names(self) -> tuple[str, ...]:
        """What the vocabularies are called."""
        return tuple(each.name for each in self.vocabularies)

    @property
    def _has_own(self) -> bool:
        return self.vocabularies[-1].name == OWN


def _unknown(part: float) -> str:
    return "< 0.01%" if 0 < part < 0.00005 else f"{part:.2%}"


def _csv(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([names, *rows])
    return file.getvalue()
