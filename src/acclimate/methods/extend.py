"""Add a domain's words, which a model's vocabulary breaks into pieces, to that vocabulary. Nothing is trained here.

Words are found in the corpus by the number of pieces that they save, or given as a list. They become entries of the
tokenizer (text/new_words.py) and rows of the model's embeddings (models/extension.py); then `mlm` can go on with the
checkpoint. A new row starts, by `start`, as

    pieces   the mean of the embeddings of the pieces that the word was broken into
    vectors  W v + b, with v the word's fastText vector, and W and b by least squares from the words that the domain's
             vectors and the vocabulary share: Poerner, Waltinger and Schütze (2020), "Inexpensive Domain Adaptation of
             Pretrained Language Models", who have no b and use Word2Vec (text/vectors/of_vocabulary.py)

Sachidananda, Kessler and Lai (2021), "Efficient Domain Adaptation of Language Models via Adaptive Tokenization", find
words in another way: by how much more probable a sequence of pieces is in the domain than in general text.

Shape suffixes: N new words, D numbers of an embedding.

Readings
  An output layer that does not share the embeddings gets means of the pieces' rows and biases, whatever `start` says.
  A shared word is an entry of two letters or more that the tokenizer gives for that very word, after a blank where that
  makes a difference, and that is one of the words of the vectors. Vectors are of lower-cased text, and words are looked
  up in lower case.
  A word without a vector starts as the mean of its pieces.
  What a word saves is count times (pieces - 1), counted under the old vocabulary; a piece for unknown characters counts
  as one more. Words have 2 to 50 characters and a letter. Each way to write one (after a blank, at a line's start, with
  a capital) is a separate entry if the vocabulary tells them apart.
  A checkpoint without a language modelling head stays without one; a random one would hide that it has learnt nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from acclimate.core import files, ranks
from acclimate.core.types import Checkpoint, Progress, Watch, unwatched
from acclimate.methods.recipes.extend import ExtendRecipe
from acclimate.methods.tapter import VECTORS, train_on
from acclimate.models.encoder import encoder_of, load_masked_language_model, word_embeddings
from acclimate.models.extension import add_rows, with_backend
from acclimate.models.loading import head_drawn, identity, load_tokenizer
from acclimate.text import new_words
from acclimate.text.corpus import Corpus
from acclimate.text.vectors.of_vocabulary import fit_map, piece_texts
from acclimate.text.vectors.vectors import Vectors, open_vectors
from acclimate.training.run import finished, write_checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

WORDS = "new_words.json"


def adapt(recipe: ExtendRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Add the words; writes `out/checkpoint`, and to `out/new_words.json` what was added and how many pieces it saves.
    A run that ended is returned as it is.

    Raises ValueError where the corpus has no text, the model cannot be loaded or takes no words, or no word is new.
    """
    if not recipe.model:
        raise ValueError("no model given. Add model=PATH or model=HUB_ID")
    sources = _sources(recipe)
    record = replace(recipe, word_list=Path())  # without the list's path: `sources` has the hash of its content
    if checkpoint := finished(out, record, sources):
        return checkpoint
    lines = _lines(recipe.word_list)
    tokenizer, model = load_tokenizer(recipe.model), load_masked_language_model(recipe.model)
    if not tokenizer.is_fast:
        raise ValueError(
            f"{recipe.model}: the tokenizer has no fast version. Save one (tokenizer.json) with transformers"
        )
    if head_drawn(model):
        model = encoder_of(model)
    cutter = new_words.Cutter(tokenizer.backend_tokenizer)
    parts = new_words.count_parts(Corpus(recipe.corpus), cutter, watch=watch)
    words = _words(recipe, lines, parts, cutter)
    longer = new_words.Cutter(new_words.extended(cutter, [word.form for word in words]))
    start_ND: Tensor | None = None
    facts: dict[str, Any] = {"start": recipe.start}
    if recipe.start == "vectors":
        vectors = open_vectors(_vectors(recipe, out, watch))
        start_ND, facts = _mapped(model, tokenizer, words, vectors, cutter, lower=recipe.skipgram.lower)
    add_rows(model, [word.pieces for word in words], _first(cutter), start_ND=start_ND)
    before, after = new_words.fertility(parts, cutter), new_words.fertility(parts, longer)
    report = {"before": _saved(before), "after": _saved(after), **facts, "left_out": parts.left_out}
    old = new_words.woken(cutter, longer) if cutter.kind == "BPE" else 0
    report |= {"old_entries_now_whole": old} if cutter.kind == "BPE" else {}
    _write(out, report, words, cutter)
    summary = note(before, after, len(words), parts.left_out)
    summary += f"; {old:,} existing entries without a merge now work as whole words too" if old else ""
    if unseen := facts.get("mostly_unseen", 0):
        summary += f"; the vectors of {unseen:,} consist mostly of n-grams that occur in no word of the vectors"
    watch(Progress("adapt", 0, 0, "steps", {"note": summary}))
    return write_checkpoint(out, model, with_backend(tokenizer, longer.backend), record, sources)


def note(before: new_words.Fertility, after: new_words.Fertility, words: int, left_out: int) -> str:
    """Return a sentence on the number of pieces that the words save."""
    less = 1 - after.tokens / before.tokens
    sentence = (
        f"the texts have {before.pieces_a_word:.2f} pieces per word, and {after.pieces_a_word:.2f} with {words:,} "
        f"new words ({less:.1%} fewer pieces in total)"
    )
    return f"{sentence}; {left_out:,} occurrences of rare strings were not counted" if left_out else sentence


def _lines(path: Path) -> list[str]:
    if path == Path():
        return []
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {error.start:,} is not UTF-8: {error.reason}. Save it as UTF-8") from error


def _words(
    recipe: ExtendRecipe, lines: Sequence[str], parts: new_words.TokenizerParts, cutter: new_words.Cutter
) -> list[new_words.NewWord]:
    if recipe.word_list == Path():
        words = new_words.broken_words(parts, cutter, most=recipe.words, least=recipe.least)
        if not words:
            raise ValueError(
                f"the model's vocabulary splits no word of the corpus that occurs {recipe.least} times. Give more "
                "text, lower least, or use the model without new words"
            )
        return words
    words = new_words.listed_words(lines, parts, cutter)
    if not words:
        raise ValueError(
            f"{recipe.word_list} contains only words that the model's vocabulary already has. Add other words"
        )
    return words


def _vectors(recipe: ExtendRecipe, out: Path, watch: Watch) -> Path:
    if recipe.vectors:
        return Path(recipe.vectors)
    corpora = [Corpus(path) for path in (recipe.corpus, recipe.vectors_corpus) if path != Path()]
    return train_on(corpora, out / VECTORS, recipe.skipgram, watch=watch)


def _mapped(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    words: Sequence[new_words.NewWord],
    vectors: Vectors,
    cutter: new_words.Cutter,
    *,
    lower: bool,
) -> tuple[Tensor, dict[str, Any]]:
    """(N, D) the embeddings that the words start with, and facts about the map for the report."""
    embedded = word_embeddings(model).detach()
    with_vector = set(vectors.words)
    texts = [text.lower() if lower else text for text in piece_texts(tokenizer, len(embedded))]
    shared = [
        number
        for number, (text, entry) in enumerate(zip(texts, _entries(cutter, len(embedded)), strict=True))
        if text in with_vector and cutter.parts(f" {cutter.text(entry)}") == [entry] == cutter.forms(entry)
    ]
    mapped = fit_map(vectors.look_up([texts[number] for number in shared])[0], embedded[shared].numpy())
    looked_up = [word.text.lower() if lower else word.text for word in words]
    vectors_of_words, has_vector = vectors.look_up(looked_up)
    means = torch.stack([embedded[list(word.pieces)].double().mean(0).float() for word in words])
    mapped_ND = torch.from_numpy(mapped(vectors_of_words))  # W v + b
    start_ND = torch.where(torch.from_numpy(has_vector)[:, None], mapped_ND, means)
    facts = {"shared_words": mapped.words, "variance_explained": mapped.explained}
    facts |= {"without_a_vector": int((~has_vector).sum())}
    facts |= {"mostly_unseen": int(vectors.mostly_unseen(looked_up).sum())}
    return start_ND, {"start": "vectors", **facts}


def _entries(cutter: new_words.Cutter, size: int) -> list[str]:
    """Return the vocabulary's entry for each id; "" where there is none."""
    return [cutter.backend.id_to_token(number) or "" for number in range(size)]


def _first(cutter: new_words.Cutter) -> int:
    return 1 + max(cutter.backend.get_vocab(with_added_tokens=True).values())


def _sources(recipe: ExtendRecipe) -> dict[str, str]:
    """Hashes of all that the run reads."""
    sources = {"corpus": Corpus(recipe.corpus).hash, "model": identity(recipe.model)}
    if recipe.vectors_corpus != Path():
        sources["vectors_corpus"] = Corpus(recipe.vectors_corpus).hash
    for name, path in (("vectors", Path(recipe.vectors)), ("word_list", recipe.word_list)):
        if path != Path():
            if not path.is_file():
                raise ValueError(f"{name} = {path}: there is no such file. Give one, or remove {name}")
            sources[name] = ranks.agree(files.sha256_of_input(path) if ranks.is_first() else "")
    return sources


def _saved(counts: new_words.Fertility) -> dict[str, Any]:
    return asdict(counts) | {"a_word": counts.pieces_a_word}


def _write(out: Path, report: dict[str, Any], words: Sequence[new_words.NewWord], cutter: new_words.Cutter) -> None:
    """Write `out/new_words.json`: the report, and the words in the order of their ids."""
    if ranks.is_first():
        first = _first(cutter)
        rows = [
            {
                "id": first + place,
                "entry": word.form,
                "text": word.text,
                "count": word.count,
                "pieces": [cutter.backend.id_to_token(piece) for piece in word.pieces],
            }
            for place, word in enumerate(words)
        ]
        files.write_json(out / WORDS, {**report, "words": rows})
