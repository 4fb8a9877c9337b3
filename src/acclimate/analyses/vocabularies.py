"""How texts break under the vocabularies of models, and under one learnt from the texts (docs/vocabulary.md).

Gu et al. (2021), "Domain-Specific Language Model Pretraining for Biomedical NLP" (PubMedBERT), section 3.2 and Table 1:
which of a domain's terms a vocabulary holds whole, and into which pieces it shatters the others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from acclimate.core import files
from acclimate.core.settings import Count, Positive, Range, check_ranges
from acclimate.core.types import Document, Watch, unwatched
from acclimate.data import lengths
from acclimate.data.examination import Pieces
from acclimate.models.loading import load_tokenizer, resolved, short_names
from acclimate.reports.page import Page, Section, amount, page, share, sheet
from acclimate.text.corpus import Corpus
from acclimate.text.terms import Term, characteristic, count_words, given_terms
from acclimate.text.untrusted import text_lines
from acclimate.text.vectors.of_vocabulary import piece_texts
from acclimate.text.vocabulary import KINDS, VocabularyKind, train_tokenizer

IN_DOMAIN = "in-domain"  # name of the vocabulary that is learnt from the texts
LISTED = 30  # terms that a terminal shows
WORTH = 0.05  # share of the pieces that an in-domain vocabulary must save to be advised
UNKNOWN = "[UNK]"  # stands for a piece that a vocabulary lacks
WHOLE = "\N{CHECK MARK}"
UNBROKEN = "No vocabulary breaks any."
TOKENIZER = "tokenizer"
LEARNT = "learnt.json"
HELD = 2_000  # texts, at most a tenth of all, that vocabularies are measured on and none is learnt from
LEAST = 10  # texts in the smallest corpus
SPACES = "\u0120\u2581"  # marks before a piece that begins a word: byte-level tokenizers' and SentencePiece's
PAGE, SHEET, TERMS = "vocabulary.html", "vocabulary.csv", "terms.csv"


@dataclass(frozen=True)
class VocabularyRecipe:
    """The vocabulary that is learnt from the texts, and what all are compared on. PubMedBERT's is uncased WordPiece."""

    kind: VocabularyKind = "wordpiece"
    """Kind of vocabulary to learn: WordPiece as BERT's, byte-level as RoBERTa's, or a unigram model as ALBERT's."""
    size: Count = 30_522
    """Largest number of entries, including special tokens and characters; 0: learn none, only compare models."""
    lower: bool = True  # lower-case and drop accents, as the "uncased" models do
    characters: Positive = 1_000
    """Number of most frequent characters to keep; bpe uses the 256 bytes instead."""
    longest: Annotated[int, Range(least=3)] = 512  # longest input in tokens that the new tokenizer states for its model
    most_terms: Positive = 1_000  # most terms to find by comparing with general text
    seed: Count = 0  # seed of the sample of texts for measuring

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.kind not in KINDS:
            raise ValueError(f"kind is '{self.kind}'. Set one of {', '.join(KINDS)}")


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary, and how the texts break under it.

    kind        as `tokenizers` calls its model: WordPiece, BPE, Unigram
    lower       whether case is lost
    per_text    pieces per text
    texts       how the words break of the texts that were set aside
    in_general  pieces per word of general text; None without any
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
        """True if the vocabulary of that number has every word of the term in one piece."""
        pieces = self.pieces[number]
        return len(pieces) == len(self.term.word.split()) and UNKNOWN not in pieces

    def spelt(self, number: int) -> str:
        """Return a check mark for a term that is whole, else its pieces."""
        return WHOLE if self.whole(number) else " ".join(self.pieces[number])


@dataclass(frozen=True)
class VocabulariesAnalysis:
    """Vocabularies on the same texts; one that was learnt from them comes last.

    texts                what the texts are called; documents: how many there are
    held_out             number of them that were measured on, and that no vocabulary here was learnt from
    reference            the vocabulary that shared entries are counted of
    terms, own_terms     what was looked up, and whether a list of it was given
    """

    texts: str
    documents: int
    held_out: int
    vocabularies: tuple[Vocabulary, ...]
    reference: str
    terms: tuple[Judged, ...] = ()
    own_terms: bool = False

    def advice(self) -> str:
        """Return a sentence: pieces per word under each vocabulary."""
        first, *others = [
            f"{vocabulary.texts.per_word:.2f}{' pieces per word' * (not number)} under {_called(vocabulary.name)}"
            for number, vocabulary in enumerate(self.vocabularies)
        ]
        return f"Your texts break into {', '.join([first, *others])}."

    def way_out(self) -> str:
        """Return what follows from the comparison; "" if there is nothing to compare."""
        *models, last = self.vocabularies
        if not models:
            return ""
        if last.name != IN_DOMAIN:
            best, worst = (choose(self.vocabularies, key=lambda one: one.per_text) for choose in (min, max))
            fewer = 1 - best.per_text / worst.per_text
            return f"{best.name} spells them in the fewest pieces: {fewer:.0%} fewer than {worst.name} does."
        best = min(models, key=lambda vocabulary: vocabulary.per_text)
        fewer = 1 - last.per_text / best.per_text
        if fewer < 0:
            return (
                f"The vocabulary of {best.name}, of {best.entries:,} entries, needs fewer pieces per text than the "
                f"in-domain one of {last.entries:,}. A larger in-domain one (size=...) may do better."
            )
        if fewer < WORTH:
            return f"The vocabulary of {best.name} does nearly as well: there is little to gain from another."
        return (
            f"An in-domain vocabulary spells the texts in {fewer:.0%} fewer pieces than {best.name} does. Add words of "
            "the texts to a model's vocabulary (acclimate adapt extend), or pretrain a model with an in-domain one "
            "(acclimate adapt scratch)."
        )

    def as_text(self) -> str:
        """Return the tables for a terminal, as `reports.page.page` does."""
        parts = [part for part in (self.compared(), self.found(LISTED), self.broken()) if part.rows or part.lines]
        sentences = " ".join(filter(None, (self.advice(), self.way_out())))
        return page("acclimate data vocabulary", [Section(sentences), *parts])

    def page(self) -> Page:
        """Return the HTML page and its sheets: the same tables, with all terms and how often they occur."""
        broken = self.broken()
        sections = [self.compared(), self.every_term(), broken if broken.lines else replace(broken, lines=(UNBROKEN,))]
        sheets = {SHEET: self.as_csv()} | ({TERMS: self.terms_as_csv()} if self.terms else {})
        way_out = [self.way_out()] if self.way_out() else []
        source = "After Gu et al. (2021), Table 1."
        return Page("Vocabularies", self.advice(), sections, sheets=sheets, remarks=way_out, source=source)

    def compared(self) -> Section:
        """Return a line for each vocabulary."""
        general = any(vocabulary.in_general is not None for vocabulary in self.vocabularies)
        rows = []
        for vocabulary in self.vocabularies:
            kind = f"{vocabulary.kind}, {'uncased' if vocabulary.lower else 'cased'}"
            cells = [vocabulary.name, kind, f"{vocabulary.entries:,}", f"{vocabulary.texts.per_word:.2f}"]
            cells += ["-" if vocabulary.in_general is None else f"{vocabulary.in_general:.2f}"] if general else []
            cells += [f"{vocabulary.per_text:,.0f}", share(vocabulary.texts.whole), _unknown(vocabulary.texts.unknown)]
            rows.append((*cells, "-" if vocabulary.shared is None else share(vocabulary.shared)))
        columns = ["vocabulary of", "kind", "entries", "pieces per word", *(["in general text"] if general else [])]
        columns += ["pieces per text", "whole words", "unknown pieces", "shared entries"]
        words, learnt = self.vocabularies[0].texts.words, self.vocabularies[-1].name == IN_DOMAIN
        line = (
            f"Measured on {amount(self.held_out, 'text')} of the {self.documents:,} of {self.texts}, {words:,} words, "
            f"drawn evenly{'; the in-domain vocabulary was learnt from the others' if learnt else ''}. Shared: of "
            f"the entries of {self.reference}."
        )
        lead = (
            "A word is a run of letters, digits and underscores. Whole words: the share of the texts' words that are "
            "one piece. Shared entries are counted by what a piece spells and whether it begins a word, case aside."
        )
        return Section("Vocabularies", tuple(columns), tuple(rows), (line,), lead=lead)

    def found(self, most: int) -> Section:
        """Return at most `most` terms that some vocabulary breaks, with their pieces."""
        if not self.terms:
            text = "No terms were examined. Add general text to find terms (--general), or a list of terms (--terms)."
            return Section("Terms", lines=(text,))
        numbers = range(len(self.vocabularies))
        broken = [judged for judged in self.terms if not all(map(judged.whole, numbers))]
        rows = [(judged.term.word, *map(judged.spelt, numbers)) for judged in broken[:most]]
        more = f" The first {most:,} of {len(broken):,} that some vocabulary breaks." if len(broken) > most else ""
        return Section("Terms", ("term", *self.names), tuple(rows), (f"{self.kept_whole()}{more}",))

    def every_term(self) -> Section:
        """Return all terms, whole ones too: how often each occurs, z, and its pieces under each vocabulary."""
        if not self.terms:
            return self.found(0)
        rows = tuple(
            (
                judged.term.word,
                *("-" if number is None else f"{number:,}" for number in (judged.term.domain, judged.term.general)),
                "-" if judged.term.z is None else f"{judged.term.z:.1f}",
                *map(judged.spelt, range(len(self.vocabularies))),
            )
            for judged in self.terms
        )
        z = "" if self.own_terms else " z: of the log-odds against general text (Monroe et al., 2008)."
        lines = ("The pieces of each term; a check mark: one piece per word.",)
        columns = ("Term", "In the texts", "In general text", "z", *self.names)
        return Section("Terms", columns, rows, lines, lead=f"{self.kept_whole()}{z}")

    def kept_whole(self) -> str:
        """Return how many terms each vocabulary keeps whole, and what terms they are."""
        which_terms = "that were given" if self.own_terms else "that differ most from general text"
        counts = ", ".join(f"{self.whole(at):,} under {_called(name)}" for at, name in enumerate(self.names))
        return f"{amount(len(self.terms), 'term')} {which_terms}: {counts} have one piece per word ({WHOLE})."

    def broken(self) -> Section:
        """Return the most frequent words of three pieces and more under each vocabulary."""
        lines = tuple(
            f"{vocabulary.name}: "
            + ", ".join(f"{word} ({pieces} pieces, {count:,} times)" for word, pieces, count in vocabulary.texts.broken)
            for vocabulary in self.vocabularies
            if vocabulary.texts.broken
        )
        lead = "The most frequent words of three pieces and more, in the texts that were measured on."
        return Section("Words that break most often", lines=lines, lead=lead)

    def whole(self, number: int) -> int:
        """Return how many terms the vocabulary of that number keeps whole."""
        return sum(judged.whole(number) for judged in self.terms)

    def as_csv(self) -> str:
        """Return the figures unrounded, a line for each vocabulary."""
        rows = [
            (
                *(one.name, one.kind, one.lower, one.entries, one.texts.per_word, one.in_general, one.per_text),
                *(one.texts.whole, one.texts.unknown, one.shared, self.whole(number), len(self.terms)),
            )
            for number, one in enumerate(self.vocabularies)
        ]
        names = [
            *("vocabulary", "kind", "lower", "entries", "pieces_per_word", "pieces_per_word_general"),
            *("pieces_per_text", "whole_words", "unknown_pieces", "shared", "whole_terms", "terms"),
        ]
        return sheet(names, rows)

    def terms_as_csv(self) -> str:
        """Return a line for each term: how often it was met, z, and its pieces under each vocabulary."""
        rows = [
            (judged.term.word, judged.term.domain, judged.term.general, judged.term.z, *map(" ".join, judged.pieces))
            for judged in self.terms
        ]
        return sheet(("term", "in_texts", "in_general", "z", *self.names), rows)

    @property
    def names(self) -> tuple[str, ...]:
        """What the vocabularies are called."""
        return tuple(vocabulary.name for vocabulary in self.vocabularies)


def compare_vocabularies(
    recipe: VocabularyRecipe,
    corpus: Corpus,
    out: Path,
    *,
    models: Sequence[str | PathLike[str]] = (),
    general: Corpus | None = None,
    terms: Path | None = None,
    name: str = "",
    watch: Watch = unwatched,
) -> VocabulariesAnalysis:
    """Learn an in-domain vocabulary into `out/tokenizer`, and compare it with those of the models.

    models   directories or hub ids, of a model or of a tokenizer alone
    general  text that the terms of the corpus stand out against
    terms    a list of terms, one a line, in place of those
    name     of the texts on the page

    Raises ValueError where there is nothing to compare or too little text, and where `out/tokenizer` was learnt from
    other texts or under other settings.
    """
    if not models and not recipe.size:
        raise ValueError(
            "size is 0 and no model is given, so there is no vocabulary to analyse. Add --model MODEL or set size"
        )
    held = held_out(corpus, recipe.seed)
    held_general = None if general is None else held_out(general, recipe.seed)
    tokenizers: list[Any] = [load_tokenizer(resolved(model)) for model in models]
    names = short_names(models) if models else []
    if recipe.size:
        tokenizers.append(_learnt(recipe, held, out / TOKENIZER, watch))
        names.append(IN_DOMAIN)
    judged = _terms(recipe, corpus, general, terms, watch)
    reference = entries(tokenizers[-1])
    vocabularies = [
        _vocabulary(name, tokenizer, held, held_general, None if tokenizer is tokenizers[-1] else reference)
        for name, tokenizer in zip(names, tokenizers, strict=True)
    ]
    return VocabulariesAnalysis(
        texts=name or corpus.path.name,
        documents=len(corpus),
        held_out=len(held.sample),
        vocabularies=tuple(vocabularies),
        reference=names[-1],
        terms=tuple(
            Judged(term, tuple(term_pieces(term.word, tokenizer) for tokenizer in tokenizers)) for term in judged
        ),
        own_terms=terms is not None,
    )


def write_page(out: Path, analysis: VocabulariesAnalysis) -> tuple[Path, ...]:
    """Write the page and the figures as CSV, and the terms where there are any; return their paths."""
    if not analysis.terms:
        (out / TERMS).unlink(missing_ok=True)  # of an earlier run with terms
    return analysis.page().write(out / PAGE)


@dataclass(frozen=True)
class Held:
    """A corpus and some of its documents, by number, that are set aside to measure on."""

    corpus: Corpus
    numbers: tuple[int, ...]

    def documents(self) -> Iterator[Document]:
        """Yield the documents that are not set aside, in order."""
        aside = frozenset(self.numbers)
        return (document for number, document in enumerate(self.corpus.documents()) if number not in aside)

    def __len__(self) -> int:
        return len(self.corpus) - len(self.numbers)

    @cached_property
    def sample(self) -> list[lengths.TextOrPair]:
        """Return the documents that are set aside, in the form that `lengths` takes."""
        return lengths.bounded_sample([(document.text, None) for document in self.corpus.take(self.numbers)])


def held_out(corpus: Corpus, seed: int) -> Held:
    """Return the corpus with a tenth of its texts, HELD at most, set aside. Raises ValueError where it has too few."""
    if len(corpus) < LEAST:
        raise ValueError(
            f"{corpus.path}: {len(corpus)} texts, but a tenth of them is reserved for measuring. Give {LEAST}"
        )
    numbers = random.Random(seed).sample(range(len(corpus)), min(HELD, len(corpus) // LEAST))
    return Held(corpus, tuple(sorted(numbers)))


def term_pieces(term: str, tokenizer: Any) -> tuple[str, ...]:
    """Return the term's pieces within a text, as people read them, WordPiece's with its marks; else UNKNOWN."""
    alone, within = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("a", f"a {term}"))
    pieces = tokenizer.convert_ids_to_tokens(within[len(alone) :])
    return tuple(UNKNOWN if piece == tokenizer.unk_token else _spelt(piece, tokenizer) for piece in pieces)


def entries(tokenizer: Any) -> set[tuple[str, bool]]:
    """Return what the vocabulary holds, comparable over families: the text of each piece, and whether it begins a word.

    Special tokens are left out.
    """
    vocabulary = tokenizer.get_vocab()
    texts = piece_texts(tokenizer, 1 + max(vocabulary.values()))
    special = set(tokenizer.all_special_ids)
    continued = type(tokenizer.backend_tokenizer.model).__name__ == "WordPiece"
    spellings = set()
    for piece, number in vocabulary.items():
        if number not in special:
            text = texts[number]
            begins = not piece.startswith("##") if continued else piece[:1] in SPACES
            spellings.add((text if text and "\ufffd" not in text else piece, begins))
    return spellings


def _spelt(piece: str, tokenizer: Any) -> str:
    """Return the piece without marks of a space, its bytes as characters; a lone space as an open box."""
    backend = tokenizer.backend_tokenizer
    if type(backend.model).__name__ == "WordPiece" or backend.decoder is None:
        return piece
    return str(backend.decoder.decode(["a", piece]))[1:].strip() or "\N{OPEN BOX}"


def _learnt(recipe: VocabularyRecipe, held: Held, path: Path, watch: Watch) -> Any:
    """Return the tokenizer in `path`, which is learnt first if it is not there."""
    record = {key: value for key, value in asdict(recipe).items() if key != "most_terms"}
    record |= {"corpus": held.corpus.hash}
    if (path / files.MANIFEST).exists():
        files.check_manifest(path)
        if files.read_json(path / LEARNT) != record:
            raise ValueError(
                f"{path} has a vocabulary that was learnt from other texts or with other settings, see "
                f"{path / LEARNT}. Choose another --out, or remove this one"
            )
        return load_tokenizer(path)
    settings = {key: record[key] for key in ("kind", "size", "lower", "characters", "longest")}
    tokenizer = train_tokenizer(held, **settings, watch=watch)
    with files.new_directory(path) as temporary:
        tokenizer.save_pretrained(temporary)
        files.write_json(temporary / LEARNT, record)
    return tokenizer


def _terms(
    recipe: VocabularyRecipe, corpus: Corpus, general: Corpus | None, terms_file: Path | None, watch: Watch
) -> list[Term]:
    """Return the given terms, or those that stand out against general text; none if there is neither."""
    if terms_file is None and general is None:
        return []
    lines = None if terms_file is None else [line for _, line in text_lines(terms_file)]
    in_texts = count_words(corpus, watch=watch)
    general_counts = None if general is None else count_words(general, stage="words of general text", watch=watch)
    if lines is not None:
        return given_terms(lines, in_texts, general_counts)
    return characteristic(in_texts, general_counts or {}, most=recipe.most_terms)


def _vocabulary(
    name: str, tokenizer: Any, held: Held, held_general: Held | None, reference: set[tuple[str, bool]] | None
) -> Vocabulary:
    """Return how the texts break under a vocabulary. reference: entries of which shared ones are counted."""
    if not tokenizer.is_fast:
        raise ValueError(f"{name}: its tokenizer has no fast version. Save one (tokenizer.json) with transformers")
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    by = lengths.Reader(backend, None, tokenizer.unk_token_id)
    encoded = lengths.tokenised(held.sample, by)
    texts = lengths.pieces("texts", held.sample, encoded, by)
    if texts is None:
        raise ValueError(f"{held.corpus.path}: none of {len(held.sample):,} texts contains a word. Give other texts")
    in_general = held_general and lengths.pieces(
        "general", held_general.sample, lengths.tokenised(held_general.sample, by), by
    )
    lower = backend.normalizer is not None and backend.normalizer.normalize_str("A") == "a"
    return Vocabulary(
        name=name,
        kind=type(backend.model).__name__,
        lower=lower,
        entries=len(tokenizer),
        per_text=sum(len(part.ids) for parts in encoded for part in parts) / len(encoded),
        texts=texts,
        in_general=in_general.per_word if in_general else None,
        shared=None if reference is None else len(_shared(entries(tokenizer), reference)) / max(len(reference), 1),
    )


def _shared(spellings: set[tuple[str, bool]], reference: set[tuple[str, bool]]) -> set[tuple[str, bool]]:
    """Return the reference's entries that are among `spellings`, case aside: an uncased one holds "dna" for "DNA"."""
    folded = {(text.lower(), begins) for text, begins in spellings}
    return {(text, begins) for text, begins in reference if (text.lower(), begins) in folded}


def _unknown(part: float) -> str:
    return "< 0.01%" if 0 < part < 0.00005 else f"{part:.2%}"


def _called(name: str) -> str:
    """Return the vocabulary's name within a sentence."""
    return "an in-domain vocabulary" if name == IN_DOMAIN else name
