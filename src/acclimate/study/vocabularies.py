"""How texts break under the vocabularies of models, and under one learnt from the texts (docs/vocabulary.md).

Gu et al. (2021), "Domain-Specific Language Model Pretraining for Biomedical NLP" (PubMedBERT), section 3.2 and Table 1:
which of a domain's terms a vocabulary holds whole, and into which pieces it shatters the others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from acclimate.core import files
from acclimate.core.types import Document, Watch, unwatched
from acclimate.models.encoder import load_tokenizer
from acclimate.models.loading import resolved
from acclimate.study import lengths
from acclimate.study.attention import short_names
from acclimate.study.vocabularies_result import OWN, UNKNOWN, Analysis, Judged, Vocabulary
from acclimate.text.corpus import Corpus
from acclimate.text.terms import Term, characteristic, count_words, given_terms
from acclimate.text.vocabulary import KINDS, Kind, train_tokenizer
from acclimate.text.vocabulary_vectors import piece_texts

TOKENIZER = "tokenizer"
LEARNT = "learnt.json"
HELD = 2_000  # texts, a tenth at most, that fertility is measured on: no vocabulary is learnt from them
LEAST = 10  # texts
SPACES = "\u0120\u2581"  # stand before a piece that begins a word: byte-level tokenizers', SentencePiece's


@dataclass(frozen=True)
class Recipe:
    """The vocabulary that is learnt from the texts, and what all are compared on. PubMedBERT's is uncased WordPiece."""

    kind: Kind = "wordpiece"
    size: int = 30_522  # entries at most; 0: none is learnt
    lower: bool = True  # lower-case and drop accents
    characters: int = 1_000  # of the alphabet at most; bpe has bytes instead
    longest: int = 512  # tokens that the tokenizer says a model reads
    most_terms: int = 1_000  # that are found by comparing with general text
    seed: int = 0  # of the texts that are held out

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind is '{self.kind}'; it is one of {', '.join(KINDS)}")
        for name, least in (("size", 0), ("characters", 1), ("longest", 3), ("most_terms", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be {least} or more")


@dataclass(frozen=True)
class Held:
    """A corpus and some of its documents, by number, that are set aside to measure on."""

    corpus: Corpus
    numbers: tuple[int, ...]

    def documents(self) -> Iterator[Document]:
        """All the others, in order."""
        aside = frozenset(self.numbers)
        return (document for number, document in enumerate(self.corpus.documents()) if number not in aside)

    def __len__(self) -> int:
        return len(self.corpus) - len(self.numbers)

    @cached_property
    def sample(self) -> list[lengths.Text]:
        """Those that are set aside, as `lengths` takes them."""
        return lengths.sample([(document.text, None) for document in self.corpus.take(self.numbers)])


def compare_vocabularies(
    recipe: Recipe,
    corpus: Corpus,
    out: Path,
    *,
    models: Sequence[str] = (),
    general: Corpus | None = None,
    terms: Path | None = None,
    name: str = "",
    watch: Watch = unwatched,
) -> Analysis:
    """Learn the texts' own vocabulary into `out/tokenizer`, and compare it with those of the models.

    models   directories or hub ids, of a model or of a tokenizer alone
    general  text that the terms of the corpus stand out against
    terms    a list of terms, one a line, in place of those
    name     of the texts, for people

    Raises ValueError where there is nothing to compare or too little text, and where `out/tokenizer` was learnt from
    other texts or under other settings.
    """
    if not models and not recipe.size:
        raise ValueError("size is 0 and no model is given: there is no vocabulary. Give --model MODEL, or a size")
    held = held_out(corpus, recipe.seed)
    held_general = None if general is None else held_out(general, recipe.seed)
    tokenizers: list[Any] = [load_tokenizer(resolved(model)) for model in models]
    names = short_names(models) if models else []
    if recipe.size:
        tokenizers.append(_own(recipe, held, out / TOKENIZER, watch))
        names.append(OWN)
    judged = _terms(recipe, corpus, general, terms, watch)
    reference = entries(tokenizers[-1])
    found = [
        _vocabulary(name, tokenizer, held, held_general, None if tokenizer is tokenizers[-1] else reference)
        for name, tokenizer in zip(names, tokenizers, strict=True)
    ]
    return Analysis(
        texts=name or corpus.path.name,
        documents=len(corpus),
        held_out=len(held.sample),
        vocabularies=tuple(found),
        reference=names[-1],
        terms=tuple(Judged(term, tuple(pieces_of(term.word, each) for each in tokenizers)) for term in judged),
        given=terms is not None,
    )


def held_out(corpus: Corpus, seed: int) -> Held:
    """The corpus with a tenth of its texts, HELD at most, set aside. Raises ValueError where it has too few."""
    if len(corpus) < LEAST:
        raise ValueError(f"{corpus.path}: {len(corpus)} texts, but a tenth is set aside to measure on. Give {LEAST}")
    numbers = random.Random(seed).sample(range(len(corpus)), min(HELD, len(corpus) // LEAST))
    return Held(corpus, tuple(sorted(numbers)))


def pieces_of(term: str, tokenizer: Any) -> tuple[str, ...]:
    """The term's pieces within a text, as people read them, WordPiece's with its marks; UNKNOWN for what it lacks."""
    alone, within = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("a", f"a {term}"))
    pieces = tokenizer.convert_ids_to_tokens(within[len(alone) :])
    return tuple(UNKNOWN if piece == tokenizer.unk_token else _spelt(piece, tokenizer) for piece in pieces)


def entries(tokenizer: Any) -> set[tuple[str, bool]]:
    """What the vocabulary holds, comparable over families: the text of each piece, and whether it begins a word.

    Special tokens are left out.
    """
    vocabulary = tokenizer.get_vocab()
    texts = piece_texts(tokenizer, 1 + max(vocabulary.values()))
    special = set(tokenizer.all_special_ids)
    continued = type(tokenizer.backend_tokenizer.model).__name__ == "WordPiece"
    found = set()
    for piece, number in vocabulary.items():
        if number not in special:
            text = texts[number]
            begins = not piece.startswith("##") if continued else piece[:1] in SPACES
            found.add((text if text and "\ufffd" not in text else piece, begins))
    return found


def _spelt(piece: str, tokenizer: Any) -> str:
    """Without marks of a space, bytes as characters; a lone space as an open box."""
    backend = tokenizer.backend_tokenizer
    if type(backend.model).__name__ == "WordPiece" or backend.decoder is None:
        return piece
    return str(backend.decoder.decode(["a", piece]))[1:].strip() or "\N{OPEN BOX}"


def _own(recipe: Recipe, held: Held, path: Path, watch: Watch) -> Any:
    """The tokenizer in `path`, learnt where it is not there."""
    stated = {key: value for key, value in asdict(recipe).items() if key != "most_terms"}
    stated |= {"corpus": held.corpus.hash}
    if (path / files.MANIFEST).exists():
        files.check(path)
        if files.read_json(path / LEARNT) != stated:
            raise ValueError(
                f"{path} holds a vocabulary learnt from other texts or under other settings, see {path / LEARNT}. "
                "Choose another --out, or remove that one"
            )
        return load_tokenizer(path)
    settings = {key: stated[key] for key in ("kind", "size", "lower", "characters", "longest")}
    tokenizer = train_tokenizer(held, **settings, watch=watch)
    with files.new_directory(path) as temporary:
        tokenizer.save_pretrained(temporary)
        files.write_json(temporary / LEARNT, stated)
    return tokenizer


def _terms(recipe: Recipe, corpus: Corpus, general: Corpus | None, given: Path | None, watch: Watch) -> list[Term]:
    """The terms that are given, or else found; none where there is no general text to find them by."""
    if given is None and general is None:
        return []
    lines = None if given is None else given.read_text(encoding="utf-8").splitlines()
    own = count_words(corpus, watch=watch)
    other = None if general is None else count_words(general, stage="words of general text", watch=watch)
    if lines is not None:
        return given_terms(lines, own, other)
    return characteristic(own, other or {}, most=recipe.most_terms)


def _vocabulary(
    name: str, tokenizer: Any, held: Held, held_general: Held | None, reference: set[tuple[str, bool]] | None
) -> Vocabulary:
    """reference: the entries that shared ones are counted of."""
    if not tokenizer.is_fast:
        raise ValueError(f"{name}: its tokenizer has no fast version. Save one (tokenizer.json) with transformers")
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    by = lengths.Reader(backend, None, tokenizer.unk_token_id)
    encoded = lengths.tokenised(held.sample, by)
    texts = lengths.pieces("texts", held.sample, encoded, by)
    if texts is None:
        raise ValueError(f"{held.corpus.path}: none of {len(held.sample):,} texts holds a word. Give other texts")
    in_general = held_general and lengths.pieces(
        "general", held_general.sample, lengths.tokenised(held_general.sample, by), by
    )
    own = entries(tokenizer)
    lower = backend.normalizer is not None and backend.normalizer.normalize_str("A") == "a"
    return Vocabulary(
        name=name,
        kind=type(backend.model).__name__,
        lower=lower,
        entries=len(tokenizer),
        per_text=sum(len(part.ids) for parts in encoded for part in parts) / len(encoded),
        texts=texts,
        in_general=in_general.per_word if in_general else None,
        shared=None if reference is None else len(_shared(own, reference)) / max(len(reference), 1),
    )


def _shared(own: set[tuple[str, bool]], reference: set[tuple[str, bool]]) -> set[tuple[str, bool]]:
    """The reference's entries that are among one's own, case aside: an uncased vocabulary holds "dna" for "DNA"."""
    folded = {(text.lower(), begins) for text, begins in own}
    return {(text, begins) for text, begins in reference if (text.lower(), begins) in folded}
