"""DAPT and TAPT: go on with masked language modelling on other text.

Gururangan et al. (2020), "Don't Stop Pretraining: Adapt Language Models to Domains and Tasks", sections 3 and 4. DAPT
trains on raw text of the domain, TAPT on the texts of the task without their labels; TAPT after DAPT is two runs, the
second from the checkpoint of the first. The loss is that of `training.objective.MaskedLanguageLoss`:

    L_MLM = mean over the masked positions m of -log p(w_m | the text with its masks)

Readings
  The defaults are TAPT's as TAPTER states them (its Table 4: 100 epochs, batch 256, rate 5e-5, warm-up .06, decay .01),
  but for `max_tokens`: 128 here, 512 there, for questions with their contexts.
  The texts of a task of questions are its distinct training contexts, without the questions, as TAPTER counts them
  (methods/tapter.py); for other tasks a document is a row, its text and that of its pair.
  An epoch is as many steps as it takes to see each segment once; the last step of one shares its batch with the next.
  Of a row of n ordinary tokens max(1, round(.15 n)) are predicted: 80% become the mask, 10% another token, 10% stay
  (text/masking.py). With `whole_words`, words are taken in random order, and those that do not fit are skipped.
Deviations
  Documents are never joined, so a sequence holds text of one document only. RoBERTa joined them to fill 512 tokens;
  that would save no padding here (training/pieces.py).
  Whole words are those of the text, not of the tokenizer: "(naloxone)" is three words.
  With `whole_words`, a row whose words of at most round(.15 n) tokens have fewer tokens together predicts single tokens
  of its longer words, too. BERT never predicts these, but it joins sentences to rows in which nearly all words fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from acclimate.core import ranks
from acclimate.core.types import Batch, Checkpoint, Progress, Stream, Watch, counted, unwatched
from acclimate.methods.recipes.mlm import NO_HEAD, MlmRecipe, with_steps
from acclimate.models.encoder import load_masked_language_model, require_room
from acclimate.models.heads import has_sparse_head
from acclimate.models.loading import head_drawn, identity, load_tokenizer
from acclimate.text.corpus import Corpus
from acclimate.text.scripts import pieces_sentence, unspaced_share
from acclimate.text.segments import segments
from acclimate.text.streams import MASKED_WORDS, evaluation_batches, masked_stream
from acclimate.text.tokens import Tokens
from acclimate.training.checkpoint import finish
from acclimate.training.objective import MaskedLanguageLoss, Objective, measure
from acclimate.training.plan import Plan
from acclimate.training.run import finished, run, write_checkpoint

_DOCUMENTS, _READ = 100, 1000  # documents whose scripts are looked at, and their first characters

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def adapt(recipe: MlmRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Train and write `out/checkpoint`; a run that was stopped goes on, one that ended is returned as it is.

    Raises ValueError where the corpus has no text or the model cannot be loaded.
    """
    return adapt_with(recipe, out, lambda start: MaskedLanguageLoss(start.model), watch=watch)


@dataclass(frozen=True)
class RunStart:
    """What a run on a corpus begins with. The model is trained in place and becomes the checkpoint."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    tokens: Tokens


def adapt_with(
    recipe: MlmRecipe,
    out: Path,
    objective: Callable[[RunStart], Objective],
    *,
    ready: Callable[[PreTrainedModel, PreTrainedTokenizerBase], PreTrainedTokenizerBase] | None = None,
    mark: Callable[[Batch], Batch] | None = None,
    watch: Watch = unwatched,
) -> Checkpoint:
    """As `adapt`, with another loss on the masked batches.

    objective  makes the loss
    ready      adds weights to the model, in place, and returns the tokenizer that goes with it
    mark       adds to a step's batch what the loss needs; a pure function of the batch
    """
    if not recipe.model:
        raise ValueError("no model given. Add model=PATH or model=HUB_ID")
    corpus = Corpus(recipe.corpus)
    sources = {"corpus": corpus.hash, "model": identity(recipe.model)}
    # with epochs = 0 a batch depends on the number of its step alone, so a run may be made longer
    if checkpoint := finished(out, recipe, sources, extends=recipe.epochs == 0):
        return checkpoint
    model, tokenizer = load_adapted(recipe, watch), load_tokenizer(recipe.model)
    if ready is not None:
        tokenizer = ready(model, tokenizer)
    require_room(model, recipe.max_tokens)
    tokens = ranks.first_then_all(lambda: corpus.tokens(tokenizer, watch=watch))
    if recipe.whole_words and (note := pieces_note(corpus)):
        watch(Progress("adapt", 0, 0, "steps", {"note": note}))
    masked, plan = masked_run(tokens, recipe)
    stream = masked if mark is None else lambda step: mark(masked(step))
    trained = objective(RunStart(model, tokenizer, tokens))
    run(trained, stream, plan, out, stage="adapt", watch=watch)
    checkpoint = write_checkpoint(out, model, tokenizer, recipe, sources)
    finish(out)
    return checkpoint


def pieces_note(corpus: Corpus) -> str:
    """Return a sentence if words of the corpus are masked piece by piece, because nothing finds them; "" if not.

    The first documents of the corpus decide.
    """
    beginning = " ".join(document.text[:_READ] for document in islice(corpus.documents(), _DOCUMENTS))
    return pieces_sentence(unspaced_share(beginning))


class Adapted(Protocol):
    """A recipe that starts from a checkpoint."""

    @property
    def model(self) -> str: ...
    @property
    def dropout(self) -> float | None: ...
    @property
    def attention_dropout(self) -> float | None: ...


def load_adapted(recipe: Adapted, watch: Watch) -> PreTrainedModel:
    """Return the masked language model of the recipe's checkpoint; `watch` gets a note if its head is new or slow."""
    model = load_masked_language_model(
        recipe.model, hidden_dropout=recipe.dropout, attention_dropout=recipe.attention_dropout
    )
    if head_drawn(model):
        watch(Progress("adapt", 0, 0, "steps", {"note": f"{recipe.model} has {NO_HEAD}"}))
    if not has_sparse_head(model):
        note = f"{model.config.model_type}: no sparse head, so the MLM head computes every position"
        watch(Progress("adapt", 0, 0, "steps", {"note": note}))
    return model


class Masked(Protocol):
    """A recipe with masked language modelling in it."""

    @property
    def max_tokens(self) -> int: ...
    @property
    def masking(self) -> float: ...
    @property
    def whole_words(self) -> bool: ...
    @property
    def epochs(self) -> float: ...
    @property
    def plan(self) -> Plan: ...


def masked_run(tokens: Tokens, recipe: Masked) -> tuple[Stream, Plan]:
    """Return the masked batches of a run over a corpus, and its plan with the number of steps that its epochs take."""
    plan = with_steps(recipe.plan, recipe.epochs, len(segments(tokens, recipe.max_tokens)) - 1)
    stream = masked_stream(
        tokens,
        batch=plan.batch,
        longest=recipe.max_tokens,
        seed=plan.seed,
        rate=recipe.masking,
        whole_words=recipe.whole_words,
    )
    return stream, plan


class HeldOutLoss(NamedTuple):
    """L_MLM on held-out text.

    loss    nats a predicted sub-word: models with different vocabularies predict different sub-words
    a_word  nats a predicted word, with all its sub-words, which models with different vocabularies have in common; k of
            a word's n sub-words are k / n words
    head    True if the checkpoint has a language modelling head; one without gets a random one, and is at chance
    """

    loss: float
    a_word: float
    head: bool


def heldout_loss(
    model: str, corpus: Path, *, max_tokens: int, masking: float = 0.15, most: int = 2000, watch: Watch = unwatched
) -> HeldOutLoss:
    """Return L_MLM on held-out text with whole words masked. Masks are fixed by a seed: all models of one vocabulary
    get the same, whatever their recipes masked, so that recipes can be compared.

    most  largest number of segments; of a longer corpus a seeded sample

    Raises ValueError if a prompt of the model does not fit behind `max_tokens`, or if the text has no token that can be
    predicted: then there is no loss.
    """
    loaded = load_masked_language_model(model)
    require_room(loaded, max_tokens)
    tokens: Tokens = Corpus(corpus).tokens(load_tokenizer(model), watch=watch)
    batches = evaluation_batches(
        tokens, batch=64, longest=max_tokens, seed=0, rate=masking, whole_words=True, segments_at_most=most
    )
    objective = MaskedLanguageLoss(loaded)
    predicted = sum(objective.counts(batch)["mlm"] for batch in batches)
    if not predicted:
        raise ValueError(
            f"{corpus}: {model} reads all of this text as special tokens, such as unknown ones, so there is no "
            "held-out loss. Use another model, or other held-out text"
        )
    followed = counted(batches, watch, "held-out loss", total=len(batches), unit="batches", every=1)
    loss = measure(objective, followed)["mlm"]
    a_word = loss * predicted / sum(float(batch.rows[MASKED_WORDS].sum()) for batch in batches)
    return HeldOutLoss(loss, a_word, not head_drawn(loaded))
