"""TAPTER: go on with masked language modelling on a task's texts, and keep word embeddings near fastText vectors.

Nishida, Nishida and Yoshida (2021), "Task-adaptive Pre-training of Language Models with Word Embedding Regularization",
section 3. First fastText vectors F are trained on the texts, starting from public ones (text/vectors/vectors.py). Then
the model minimises

    L_LM(X) + 1/|R(X)| sum over x in R(X) of ||f(E_x) - F_x||^2,    f(z) = LN(W_f z + b_f)                (Eq. 1)

where E_x is x's row of the word embeddings. f is dropped afterwards: the checkpoint is an ordinary one. The paper's
third stage is methods/finetune.py.

Shape suffixes: V vocabulary, D numbers of an embedding, F of a fastText vector, N tokens of a batch, U distinct pieces.

Readings
  The task's texts are, for a task of questions, its distinct training contexts without the questions, which fits the
  word count of the paper's Table 1 for SQuAD; for other tasks a document is a row, its text and that of its pair
  (data/materials.py).
  X is the whole batch of a step: the mean is over all tokens of R in it, not of each sequence by itself.
  R has every occurrence of a piece (`per`), and at a masked position the token of the text, not the mask (`ids`).
  R leaves out special tokens, stop words (text/words.py; the paper's list is not known), pieces whose text is shorter
  than fastText's shortest n-gram, pieces without text, such as a lone space mark, and pieces without a vector;
  `out/regularised.json` counts them and lists the stop words. Every piece with n-grams has a vector under a .bin, if
  only from the buckets that its n-grams share with others: `unseen` keeps or drops those without a row of their own
  and with more than half of their n-grams in no word of the vectors. They are counted and told either way.
  A piece is looked up like a word, without the tokenizer's mark: "##tion" has the vector of "tion". Vectors are of
  lower-cased text, as the public wiki.en.bin is, and pieces are looked up in lower case.
  F_x is the mean of x's word and n-gram rows, as fastText composes it (the paper writes a sum), and is not normalised;
  so LN has a gain and a bias. They start at the vectors' standard deviation and mean: from 1 and 0 they could not reach
  the vectors' scale at the rates of language modelling.
  W_f, b_f and LN learn at the rate of everything else.
  Public vectors keep their scale. Vectors trained from nothing are divided by their standard deviation (`scale`), which
  otherwise depends on how long they were trained; the second term's gradient falls with its square.
  Gradients are not clipped: the second term's gradient is so much longer than the first's that at a length of 1 both
  together fall below AdamW's epsilon (docs/methods/tapter.md has the measurement).
Deviations
  Without public vectors (`vectors`) fastText starts from nothing, on the texts and `vectors_corpus`.
  From a .bin fastText goes on at rate .025, not .05 (docs/methods/tapter.md has the measurement).
  fastText runs on one thread, so that equal runs give equal bytes; skipgram.threads=0 takes all.
  Documents are never joined, as in mlm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from acclimate.core import files, ranks
from acclimate.core.randomness import seeded
from acclimate.core.settings import from_mapping
from acclimate.core.types import NOT_PREDICTED, Batch, Checkpoint, Progress, Watch, unwatched
from acclimate.methods.mlm import load_adapted, masked_run
from acclimate.methods.recipes.tapter import Ids, Per, TapterRecipe, resolved_scale
from acclimate.models.encoder import require_room, word_embeddings
from acclimate.models.loading import identity, load_tokenizer
from acclimate.text.corpus import Corpus
from acclimate.text.streams import evaluation_batches
from acclimate.text.tokens import Tokens
from acclimate.text.vectors.of_vocabulary import STOP_WORDS, VocabularyVectors, vocabulary_vectors
from acclimate.text.vectors.skipgram import Skipgram
from acclimate.text.vectors.vectors import open_vectors, train_vectors
from acclimate.text.words import ENGLISH
from acclimate.training.checkpoint import finish
from acclimate.training.objective import MaskedLanguageLoss, Objective
from acclimate.training.pieces import Piece
from acclimate.training.run import LossCurve, finished, run, write_checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

REGULARISED = "regularised"  # of `Batch.tokens`: 1 + the piece where the position is in R(X), 0 elsewhere
ROUND = 64  # distinct pieces are padded to a multiple of it: few shapes, because the CPU makes a kernel for each
EPSILON = 1e-12  # of layer normalisation, as in BERT
DEV_SEGMENTS = 256  # largest number of dev segments that the curve is measured on; of more, a seeded sample

VECTORS, TRAINED = "vectors", "vectors.bin"  # directory in that of a run, and the file in it
TARGETS = "regularised.json"


def with_regularised(
    batch: Batch, regularised_V: np.ndarray, *, per: Per = "occurrence", ids: Ids = "original"
) -> Batch:
    """Return the step's masked batch with tokens["regularised"], which marks R(X) position by position.

    regularised_V  (V,) bool: the pieces that may be in R
    per            "occurrence": every occurrence of a piece counts; "type": only the first one in the step
    ids            at predicted positions the piece of the text ("original"), or that of the masked input ("masked")
    """
    pieces_N, labels_N = batch.ids, batch.tokens["labels"]
    if ids == "original":
        pieces_N = np.where(labels_N == NOT_PREDICTED, pieces_N, labels_N)
    kept_N = regularised_V[pieces_N]
    if per == "type":
        first_N = np.zeros(len(kept_N), bool)
        first_N[np.unique(pieces_N, return_index=True)[1]] = True
        kept_N &= first_N
    return replace(batch, tokens={**batch.tokens, REGULARISED: np.where(kept_N, 1 + pieces_N, 0)})


def permuted(vectors_VF: np.ndarray, regularised_V: np.ndarray, *, seed: int) -> np.ndarray:
    """(V, F) the vectors with those of the regularised pieces in random order; every such vector is still there once.

    A control for TAPTER: the targets have the same length, spread and number, but no piece has the meaning of its own.
    """
    pieces_R = np.flatnonzero(regularised_V)
    mixed_VF = vectors_VF.copy()
    mixed_VF[pieces_R] = vectors_VF[np.random.default_rng(seed).permutation(pieces_R)]
    return mixed_VF


def spread_of(vectors_VF: np.ndarray, regularised_V: np.ndarray) -> float:
    """Return the standard deviation of the regularised pieces' vectors about their mean vector, over all numbers."""
    kept_RF = vectors_VF[regularised_V]
    return float((kept_RF - kept_RF.mean(axis=0)).std())


def scale_to_unit_spread(vectors_VF: np.ndarray, regularised_V: np.ndarray) -> np.ndarray:
    """(V, F) the vectors divided by their `spread_of`. Raises ValueError where that is 0."""
    spread = spread_of(vectors_VF, regularised_V)
    if not spread > 0:
        raise ValueError(
            f"scale = 'unit' divides the vectors by their standard deviation, but it is {spread:g}: the "
            f"{int(regularised_V.sum()):,} vectors in use are all equal. Set scale=given, or train the vectors on "
            "more text"
        )
    return vectors_VF / np.float32(spread)


class TapterLoss(Objective):
    """Eq. 1. Terms: `mlm`, as MaskedLanguageLoss has it, and `embedding`, the second term, averaged over R(X), which
    `with_regularised` has marked in the batch.

    E_x is the row of the embedding matrix itself, before positions and normalisation, whatever else it is tied to. f is
    a child of this objective, so saved states contain it; the model and its checkpoint do not.

    vectors_VF      (V, F) float32: F, a row for each of the model's embeddings
    regularised_V   (V,) bool: the pieces that may be in R
    regularisation  weight of the second term; 1 in the paper
    seed            of W_f

    Raises ValueError where there are not as many vectors as embeddings.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        vectors_VF: np.ndarray,
        regularised_V: np.ndarray,
        *,
        regularisation: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.language = MaskedLanguageLoss(model)
        self.weights = {"mlm": 1.0, "embedding": regularisation}
        self.shares_lines = self.language.shares_lines
        rows, width = word_embeddings(model).shape
        if len(vectors_VF) != rows:
            raise ValueError(f"{len(vectors_VF):,} vectors for {rows:,} embeddings. Give one for each")
        # a parameter that learns nothing: a buffer would be sent between processes at every step
        self.vectors_VF = nn.Parameter(torch.from_numpy(vectors_VF), requires_grad=False)
        with seeded(seed):
            self.linear = nn.Linear(width, vectors_VF.shape[1])  # W_f (F, D) and b_f (F)
        self.norm = nn.LayerNorm(vectors_VF.shape[1], eps=EPSILON)
        # from a gain of 1 and a bias of 0 a run at the rates of language modelling would not reach the vectors' scale
        with torch.no_grad():
            self.norm.weight.fill_(spread_of(vectors_VF, regularised_V))
            self.norm.bias.copy_(torch.from_numpy(vectors_VF[regularised_V].mean(axis=0)))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {**self.language.counts(batch), "embedding": int(np.count_nonzero(batch.tokens[REGULARISED]))}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        # each distinct piece of R(X) is projected once, and counts as often as it occurs
        marks_U, times_U = torch.unique(piece[REGULARISED], return_counts=True)  # (L, W) -> (U,), (U,)
        padding = (0, -len(marks_U) % ROUND)
        marks_U, times_U = nn.functional.pad(marks_U, padding), nn.functional.pad(times_U, padding)
        times_U = times_U * (marks_U > 0)  # 0 marks positions outside R, and pads
        x_U = (marks_U - 1).clamp(min=0)
        embeddings_UD = nn.functional.embedding(x_U, word_embeddings(self.language.model))  # E_x
        projected_UF = self.norm(self.linear(embeddings_UD)).float()  # f(E_x) = LN(W_f E_x + b_f), (U, D) -> (U, F)
        distance_U = (projected_UF - self.vectors_VF[x_U]).square().sum(-1)  # ||f(E_x) - F_x||^2
        # Eq. 1: L_LM(X), and the sum over R(X), which the loop divides by |R(X)|
        return {**self.language(piece), "embedding": (times_U * distance_U).sum()}

    def flops(self, batch: Batch) -> float:
        """As masked language modelling, and f once for each distinct piece of the step, as if it were not cut."""
        distinct = np.count_nonzero(np.unique(batch.tokens[REGULARISED]))
        return self.language.flops(batch) + 6.0 * self.linear.weight.numel() * distinct


def adapt(recipe: TapterRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Train vectors and model; writes `out/checkpoint`, `out/curve.json`, `out/regularised.json`, and the vectors to
    `out/vectors`. A run that was stopped goes on, one that ended is returned as it is.

    Raises ValueError where a corpus has no text, or the model or the vectors cannot be loaded.
    """
    if not recipe.model:
        raise ValueError("no model given. Add model=PATH or model=HUB_ID")
    sources = _sources(recipe)
    if checkpoint := finished(out, recipe, sources):
        return checkpoint
    tokenizer = load_tokenizer(recipe.model)
    tokens = _tokens(recipe.corpus, tokenizer, watch)
    dev = None if recipe.dev == Path() else _tokens(recipe.dev, tokenizer, watch)

    # stage 1: fastText vectors F, and a target for each piece of the vocabulary
    vectors = open_vectors(_vectors(recipe, out, watch))
    model = load_adapted(recipe, watch)
    require_room(model, recipe.max_tokens)
    size, lower = len(word_embeddings(model)), recipe.skipgram.lower
    targets = vocabulary_vectors(tokenizer, vectors, size=size, lower=lower, unseen=recipe.unseen)
    if note := unseen_note(targets):
        watch(Progress("adapt", 0, 0, "steps", {"note": note}))
    if ranks.is_first():
        counts = {"regularised": int(targets.regularised_V.sum()), "left_out": targets.left_out}
        counts |= {"mostly_unseen": int(targets.unseen_V.sum())}
        files.write_json(out / TARGETS, {**counts, "stop_words": {"list": STOP_WORDS, "words": sorted(ENGLISH)}})

    # stage 2: masked language modelling, the embeddings kept near them
    vectors_VF = targets.vectors_VF
    if resolved_scale(recipe) == "unit":
        vectors_VF = scale_to_unit_spread(vectors_VF, targets.regularised_V)
    if recipe.permuted:
        vectors_VF = permuted(vectors_VF, targets.regularised_V, seed=recipe.plan.seed)
    objective = TapterLoss(
        model, vectors_VF, targets.regularised_V, regularisation=recipe.regularisation, seed=recipe.plan.seed
    )
    mark = partial(with_regularised, regularised_V=targets.regularised_V, per=recipe.per, ids=recipe.ids)
    masked, plan = masked_run(tokens, recipe)
    heldout: list[Batch] = []
    if dev is not None:
        batches = evaluation_batches(
            dev,
            batch=64,
            longest=recipe.max_tokens,
            seed=recipe.plan.seed,
            rate=recipe.masking,
            whole_words=recipe.whole_words,
            segments_at_most=DEV_SEGMENTS,
        )
        heldout = [mark(batch) for batch in batches]
    curve = LossCurve(objective, heldout, plan, recipe.looks, out)
    curve.begin()
    run(
        objective,
        lambda step: mark(masked(step)),
        plan,
        out,
        stage="adapt",
        watch=watch,
        after=curve,
        looks=curve.steps,
    )
    curve.write()
    if (out / VECTORS).is_dir():
        sources["trained_vectors"] = files.read_json(out / VECTORS / files.MANIFEST)[TRAINED]
    checkpoint = write_checkpoint(out, model, tokenizer, recipe, sources)
    finish(out)
    return checkpoint


def unseen_note(targets: VocabularyVectors) -> str:
    """Return a sentence on the pieces whose n-grams are mostly unseen; "" if there are none."""
    unseen = int(targets.unseen_V.sum())
    if not unseen:
        return ""
    total = int((targets.regularised_V | targets.unseen_V).sum())
    fate = "kept, as in the paper" if targets.regularised_V[targets.unseen_V].all() else "removed"
    return (
        f"{unseen:,} of {total:,} pieces with a vector ({unseen / total:.0%}) share more than half of their n-grams "
        f"with no word of the vectors: {fate}"
    )


def train_on(
    corpora: Sequence[Corpus], out: Path, settings: Skipgram, *, start: Path | None = None, watch: Watch = unwatched
) -> Path:
    """Return the file of vectors trained on the corpora, `vectors.bin` in the directory `out`; the first process trains
    them where they are missing.

    start  the vectors to go on from; None: from nothing

    Raises DamagedError where the files in `out` are not what was written.
    """

    def texts() -> Iterator[str]:
        return (document.text for document in chain.from_iterable(corpus.documents() for corpus in corpora))

    def make() -> None:
        if (out / files.MANIFEST).exists():
            files.check_manifest(out)
        else:
            with files.new_directory(out) as temporary:
                train_vectors(texts, temporary / TRAINED, settings, start=start, watch=watch)

    ranks.first_then_all(make)
    return out / TRAINED


def _vectors(recipe: TapterRecipe, out: Path, watch: Watch) -> Path:
    """Return the file of the vectors, which are trained first where the recipe says so."""
    start = Path(recipe.vectors) if recipe.vectors else None
    if start is not None and not recipe.train_vectors:
        return start
    corpora = [Corpus(path) for path in (recipe.corpus, recipe.vectors_corpus) if path != Path()]
    return train_on(corpora, out / VECTORS, recipe.skipgram, start=start, watch=watch)


def _sources(recipe: TapterRecipe) -> dict[str, str]:
    """Hashes of all that the run reads."""
    corpora = {"corpus": recipe.corpus, "dev": recipe.dev, "vectors_corpus": recipe.vectors_corpus}
    sources = {name: Corpus(path).hash for name, path in corpora.items() if name == "corpus" or path != Path()}
    sources["model"] = identity(recipe.model)
    if recipe.vectors:
        if not Path(recipe.vectors).is_file():
            raise ValueError(
                f"vectors = {recipe.vectors}: there is no such file. Give a fastText .bin or .vec, or remove vectors"
            )
        sources["vectors"] = ranks.agree(files.sha256_of_input(Path(recipe.vectors)) if ranks.is_first() else "")
    return sources


def _tokens(corpus: Path, tokenizer: PreTrainedTokenizerBase, watch: Watch) -> Tokens:
    return ranks.first_then_all(lambda: Corpus(corpus).tokens(tokenizer, watch=watch))


def shared_vectors(
    settings: Mapping[str, Any], corpora: Sequence[Corpus], out: Path, *, start: Path | None, watch: Watch
) -> Path:
    """Return the file of vectors of the corpora's texts, in `out/vectors`, trained there if it is not yet."""
    return train_on(corpora, out / VECTORS, from_mapping(Skipgram, settings), start=start, watch=watch)
