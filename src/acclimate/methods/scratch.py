"""Pretrain an encoder from random weights, with a vocabulary learnt from the same text; or go on with given weights.

Gu et al. (2021), "Domain-Specific Language Model Pretraining for Biomedical Natural Language Processing" (PubMedBERT),
sections 2, 3, 6.1 and 6.4: the vocabulary first, then masked language modelling with whole words masked. The loss is

    L_MLM                                            (training.objective.MaskedLanguageLoss)
    L_MLM + L_NSP, with `next_sentence`              (`NextSentenceLoss`, below)
    L_MLM + weight * L_adv, with `adversarial`       (methods/adversarial.py; Table 9)

with L_NSP = - mean over rows of log softmax(W_2 tanh(W_1 h_[CLS] + b_1) + b_2)[does the second part follow the first?]
on the pairs of text/rows.py; W_1 and b_1 are BERT's pooler. In `NextSentenceLoss` R are rows, L lines, W the width of a
line in tokens, M predicted positions, D hidden and V the vocabulary.

Readings
  Sequence length is not stated in the paper; its cited code trains 90% of the steps on 128 tokens and the rest on 512.
  Here all steps have 128, unless `long_share` says otherwise; both phases have batches of as many rows and one plan,
  and each begins with a new epoch. The size of the vocabulary is not stated either: BERT's 30,522.
  Masking is constant at 15%. The rise from 5% to 25% that the paper describes is of its reference on adversarial
  pretraining: `masking_schedule`, whose mean is `masking`, so that it costs no more predictions than a constant rate.
  Two texts make up every batch together, in the same shares; a vocabulary is learnt from both, and an epoch counts
  passes over `corpus`. A budget of `tokens` counts special tokens and no padding, on average over rows.
  `least_words` counts words as what white space separates.
  Next-sentence pairs (text/rows.py): a segment is cut where a sentence begins, and in half of the rows a stretch of
  about the same length of another document replaces the second part, so that length does not give the answer away.
Deviations
  Documents of fewer than 128 words are kept unless `least_words` is 128; the paper leaves them out.
  No next-sentence prediction unless `next_sentence` is set; the paper keeps it only to compare with earlier models.
  Whole words are those of the text, not of BERT's tokenizer. A learnt vocabulary keeps the 1,000 most frequent
  characters, and joins WordPiece's most frequent pairs of pieces, as the library `tokenizers` does; the original scores
  pairs by likelihood. BERT cuts 10% of its rows shorter at random; here no row is.
  A row with too few words that fit its share predicts single tokens of longer words, as in methods/mlm.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
import transformers
from torch import Tensor, nn

from acclimate.core import files, ranks
from acclimate.core.randomness import seeded
from acclimate.core.types import NOT_PREDICTED, Batch, Checkpoint, Document, Progress, Stream, Watch, unwatched
from acclimate.methods.adversarial import AdversarialLoss
from acclimate.methods.recipes.mlm import NO_HEAD, with_steps
from acclimate.methods.recipes.scratch import ScratchRecipe, Settings, positions
from acclimate.models import encoder
from acclimate.models.configuration import dropout_known
from acclimate.models.heads import has_sparse_head, keeps_rows_apart, states_and_masked_logits
from acclimate.models.loading import configuration as configuration_at
from acclimate.models.loading import drawn_weights, head_drawn, identity, load_tokenizer, load_weights, reading
from acclimate.text.corpus import Corpus
from acclimate.text.masking import rising_rate
from acclimate.text.rows import RANDOM_NEXT, Rows, masked_pairs, masked_segments
from acclimate.text.segments import long_documents
from acclimate.text.streams import evaluation_batches, even, followed_by, sampled_rows, shares, side_by_side
from acclimate.text.tokens import Tokens, loss_of_frequencies
from acclimate.text.vocabulary import DocumentSource, VocabularyKind, train_tokenizer
from acclimate.training.checkpoint import finish, read_log
from acclimate.training.objective import MaskedLanguageLoss, Objective, masked_cross_entropy
from acclimate.training.pieces import Piece
from acclimate.training.plan import Plan
from acclimate.training.run import LossCurve, finished, run, write_checkpoint

if TYPE_CHECKING:
    from transformers import BertConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

STAGE = "pretrain"
FAMILY = "bert"  # the family whose checkpoints have a place for the head of next-sentence prediction
DOCUMENTS = "documents"  # in a run's directory: for each text that is filtered, a byte a document: 1 if it is used
DEV_SEGMENTS = 512  # segments of dev that the curve is measured on; of more, a seeded sample
FREQUENCIES = "frequencies.json"  # in a run's directory: its loss beside that of a model that ignores context
LITTLE = 0.85  # a loss above this share of that one is little below it, where pretraining stays at first
LAST = 20  # steps whose mean is the last loss


def adapt(recipe: ScratchRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Learn the vocabulary, pretrain, write `out/checkpoint` and with `dev` `out/curve.json`; a stopped run goes on, an
    ended one is returned.
    """
    corpora = {name: Corpus(at) for name in ("corpus", "general", "dev") if (at := getattr(recipe, name)) != Path()}
    corpora["corpus"] = Corpus(recipe.corpus)
    sources = {name: corpus.hash for name, corpus in corpora.items()}
    sources |= {name: identity(at) for name in ("model", "tokenizer") if (at := getattr(recipe, name))}
    # with any of these a step depends on the length of the run, which then cannot be made longer
    fixed = recipe.epochs or recipe.tokens or recipe.long_share or "dev" in corpora
    if checkpoint := finished(out, recipe, sources, extends=not fixed and recipe.masking_schedule == "constant"):
        return checkpoint
    names = [name for name in ("corpus", "general") if name in corpora]
    texts = [open_text(corpora[name], out, recipe.least_words, name=name, watch=watch) for name in names]
    tokenizer = _tokenizer(recipe, texts, out, watch)
    model = model_of(recipe, tokenizer, watch=watch)
    objective = objective_of(recipe, model, watch=watch)
    reading = BatchPlan(recipe, texts, tokenizer, watch=watch)
    _note_phases(reading, watch)
    curve = curve_of(recipe, model, tokenizer, reading.plan, out, watch=watch)
    if curve:
        curve.begin()
    run(
        objective,
        reading.stream,
        reading.plan,
        out,
        stage=STAGE,
        watch=watch,
        after=curve,
        looks=curve.steps if curve else (),
    )
    if curve:
        curve.write()
    if not recipe.model:
        note_frequencies(out, reading.tokens[0], stage=STAGE, term="mlm", watch=watch)
    if isinstance(objective, NextSentenceLoss):
        model = with_head(model, objective.head)
    checkpoint = write_checkpoint(out, model, tokenizer, recipe, sources)
    finish(out)
    return checkpoint


def note_frequencies(out: Path, tokens: Tokens, *, stage: str, term: str, watch: Watch) -> None:
    """Write to `frequencies.json` the last loss of the run in `out`, that of a model that ignores context
    (text/tokens.py::loss_of_frequencies), and whether the one is little below the other; then give `watch` a note too.

    term  of the loss: masked language modelling on these tokens
    """
    losses = [line[f"loss.{term}"] for line in read_log(out) if line[f"loss.{term}"]][-LAST:]
    if not losses:
        return
    last, frequencies = float(np.mean(losses)), loss_of_frequencies(tokens)
    little = last > LITTLE * frequencies
    if ranks.is_first():
        files.write_json(out / FREQUENCIES, {"last loss": last, "frequencies": frequencies, "little": little})
    if little:
        note = (
            f"the final loss is {last:.2f} nats, but the frequencies of the pieces alone would reach "
            f"{frequencies:.2f}, with those copied that are not masked: the encoder has hardly learned to use context. "
            "Pretraining often stays at this level for some hundred steps. Use more steps, or another plan.rate, "
            "plan.seed or initializer_range (about 1/sqrt(hidden))"
        )
        watch(Progress(stage, len(read_log(out)), len(read_log(out)), "steps", {"note": note}))


def _tokenizer(recipe: ScratchRecipe, texts: Sequence[CorpusView], out: Path, watch: Watch) -> PreTrainedTokenizerBase:
    """Return the recipe's tokenizer, or one learnt from all texts."""
    if model := recipe.model or recipe.tokenizer:
        return load_tokenizer(model)
    return learned_tokenizer(
        CorpusViews(texts),
        out / "vocabulary",
        kind=recipe.kind,
        size=recipe.vocabulary,
        lower=recipe.lower,
        longest=positions(recipe),
        watch=watch,
    )


def learned_tokenizer(
    texts: DocumentSource,
    path: Path,
    *,
    size: int,
    lower: bool,
    longest: int,
    watch: Watch,
    kind: VocabularyKind = "wordpiece",
) -> PreTrainedTokenizerBase:
    """Return the tokenizer in `path`, which the first process learns from the texts where it is missing."""

    def learn() -> None:
        if not (path / files.MANIFEST).exists():
            tokenizer = train_tokenizer(texts, kind=kind, size=size, lower=lower, longest=longest, watch=watch)
            with files.new_directory(path) as temporary:
                tokenizer.save_pretrained(temporary)

    ranks.first_then_all(learn)
    return load_tokenizer(path)


def model_of(recipe: ScratchRecipe, tokenizer: PreTrainedTokenizerBase, *, watch: Watch) -> PreTrainedModel:
    """Return the model that is trained, in place.

    Raises ValueError where a given one cannot be loaded, or has fewer positions than a row has tokens.
    """
    if not recipe.model:
        return encoder.new_encoder(
            **vars(recipe.shape),
            vocabulary_size=len(tokenizer),
            longest=positions(recipe),
            pad=tokenizer.pad_token_id,
            seed=recipe.plan.seed,
            hidden_dropout=recipe.dropout,
            attention_dropout=recipe.attention_dropout,
            initializer_range=recipe.initializer_range,
            architecture=recipe.architecture,
            ends=(tokenizer.cls_token_id, tokenizer.sep_token_id),
        )
    dropouts = {"hidden_dropout": recipe.dropout, "attention_dropout": recipe.attention_dropout}
    if not dropout_known(recipe.model):
        watch(Progress(STAGE, 0, 0, "steps", {"note": "dropout of this family cannot be set, so it is unchanged"}))
        dropouts = {}
    model = encoder.load_masked_language_model(recipe.model, **dropouts, seed=recipe.plan.seed)
    if head_drawn(model):
        watch(Progress(STAGE, 0, 0, "steps", {"note": f"{recipe.model} has {NO_HEAD}"}))
    rows = {"max_tokens": recipe.max_tokens} | ({"long_tokens": recipe.long_tokens} if recipe.long_share else {})
    for name, tokens in rows.items():
        encoder.require_room(model, tokens, name)
    return model


def new_encoder_configuration(recipe: ScratchRecipe) -> PreTrainedConfig:
    """Return the new encoder's configuration before its vocabulary is known."""
    return encoder.new_configuration(
        recipe.shape,
        recipe.architecture,
        longest=positions(recipe),
        hidden_dropout=recipe.dropout,
        attention_dropout=recipe.attention_dropout,
    )


def objective_of(recipe: ScratchRecipe, model: PreTrainedModel, *, watch: Watch) -> Objective:
    """Return the loss that is minimised. Raises ValueError where the model cannot be trained on pairs of texts."""
    if recipe.adversarial:
        return AdversarialLoss(
            model,
            weight=recipe.adversarial,
            step=recipe.adversarial_step,
            radius=recipe.adversarial_radius,
            reading=recipe.adversarial_reading,
        )
    if not recipe.next_sentence:
        return MaskedLanguageLoss(model)
    require_pairs(model)
    if not recipe.model:
        return NextSentenceLoss(model, new_head(model, seed=recipe.plan.seed))
    head, has_head = head_of(recipe.model, seed=recipe.plan.seed)
    if not has_head:
        note = f"{recipe.model} has no head for next sentences: a random one was added"
        watch(Progress(STAGE, 0, 0, "steps", {"note": note}))
    return NextSentenceLoss(model, head)


def curve_of(
    recipe: ScratchRecipe,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    plan: Plan,
    out: Path,
    *,
    watch: Watch,
) -> LossCurve | None:
    """Return the curve of L_MLM on dev, with whole words masked at 15% whatever the recipe masks, so that recipes with
    one vocabulary can be compared; None without dev.
    """
    if recipe.dev == Path():
        return None
    tokens = ranks.first_then_all(lambda: Corpus(recipe.dev).tokens(tokenizer, watch=watch))
    batches = evaluation_batches(tokens, batch=64, longest=recipe.max_tokens, seed=0, segments_at_most=DEV_SEGMENTS)
    return LossCurve(MaskedLanguageLoss(model), batches, plan, recipe.looks, out)


@dataclass(frozen=True, eq=False)
class CorpusView:
    """A corpus, or part of it.

    mask  (D,) bool, True for the documents that are used; None: all are
    name  what a document is called in messages, before its number
    """

    corpus: Corpus
    mask: np.ndarray | None = None
    name: str = "document"

    def documents(self) -> Iterator[Document]:
        """The documents that are used."""
        documents = self.corpus.documents()
        return documents if self.mask is None else compress(documents, self.mask)

    def __len__(self) -> int:
        return len(self.corpus) if self.mask is None else int(self.mask.sum())


@dataclass(frozen=True, eq=False)
class CorpusViews:
    """Several texts as one, to learn a vocabulary from."""

    texts: Sequence[CorpusView]

    def documents(self) -> Iterator[Document]:
        for text in self.texts:
            yield from text.documents()

    def __len__(self) -> int:
        return sum(map(len, self.texts))


def open_text(corpus: Corpus, out: Path, least_words: int, *, name: str, watch: Watch) -> CorpusView:
    """Return the corpus without documents of fewer than `least_words` words; `watch` gets their number.

    name  "corpus" or "general"

    Raises ValueError where none is left.
    """
    document = "document" if name == "corpus" else f"{name} document"
    if not least_words:
        return CorpusView(corpus, name=document)
    path = out / DOCUMENTS / f"{name}-{least_words}-{corpus.hash[:12]}.bin"

    def find() -> np.ndarray:
        if not path.exists():
            mask = long_documents(corpus, least_words, watch=watch)
            path.parent.mkdir(exist_ok=True)
            files.write_bytes(path, mask.tobytes())
        return np.frombuffer(path.read_bytes(), bool)

    text = CorpusView(corpus, ranks.first_then_all(find), document)
    part = f"{len(text):,} of {len(corpus):,} documents have at least {least_words} words"
    watch(Progress(STAGE, 0, 0, "steps", {"note": f"{name}: {part}; the others are not used"}))
    return text


class BatchPlan:
    """The batches of a run, and its plan with the steps that its epochs or tokens take."""

    def __init__(
        self, recipe: Settings, texts: Sequence[CorpusView], tokenizer: PreTrainedTokenizerBase, *, watch: Watch
    ) -> None:
        self.recipe, self.tokenizer = recipe, tokenizer
        self.texts = texts
        corpora = [text.corpus for text in texts]
        self.tokens = [ranks.first_then_all(partial(corpus.tokens, tokenizer, watch=watch)) for corpus in corpora]
        lengths = [recipe.max_tokens, *([recipe.long_tokens] if recipe.long_share else [])]
        self.phases = [self._phase(longest) for longest in lengths]
        self.parts = [1 - recipe.long_share, recipe.long_share] if recipe.long_share else [1.0]

    @cached_property
    def plan(self) -> Plan:
        plan, parts = self.recipe.plan, list(zip(self.parts, self.phases, strict=True))
        if self.recipe.tokens:
            of_step = plan.batch * sum(part * phase.mean_tokens for part, phase in parts)
            if self.recipe.tokens < of_step:
                raise ValueError(
                    f"tokens = {self.recipe.tokens:,} is less than one step, which reads about {of_step:,.0f} with "
                    f"plan.batch = {plan.batch}. Increase tokens, or lower plan.batch"
                )
            return replace(plan, steps=math.ceil(self.recipe.tokens / of_step))
        if len(parts) == 1:
            return with_steps(plan, self.recipe.epochs, self.phases[0].epoch_rows)
        return with_steps(plan, self.recipe.epochs, 1 / sum(part / phase.epoch_rows for part, phase in parts))

    @cached_property
    def stream(self) -> Stream:
        steps = self.plan.steps
        turn = round(steps * self.parts[0])
        streams = [self._stream(phase, number, first_step=number * turn) for number, phase in enumerate(self.phases)]
        return streams[0] if len(streams) == 1 else followed_by(streams[0], streams[1], at=turn)

    def _phase(self, longest: int) -> Phase:
        rows = [self._rows(number, longest) for number in range(len(self.texts))]
        if len(rows) == 1:
            return Phase(rows, 0.0)
        share = self.recipe.general_share
        return Phase(rows, len(rows[1]) / sum(map(len, rows)) if share is None else share)

    def _rows(self, number: int, longest: int) -> Rows:
        tokens, text = self.tokens[number], self.texts[number]
        paired = self.recipe.next_sentence
        rows = partial(masked_pairs, tokens, self.tokenizer) if paired else partial(masked_segments, tokens)
        return rows(longest=longest, whole_words=self.recipe.whole_words, documents=text.mask, name=text.name)

    def _stream(self, phase: Phase, number: int, *, first_step: int) -> Stream:
        plan = self.plan
        rising = self.recipe.masking_schedule == "steps"
        rate = rising_rate(self.recipe.masking, plan.steps) if rising else self.recipe.masking
        alone = len(phase.rows) == 1
        windows = [even(plan.batch, first_step)] if alone else shares(plan.batch, phase.share, first_step)
        streams = [
            sampled_rows(rows, window, seed=plan.seed, rate=rate, beside=2 * number + place)
            for place, (rows, window) in enumerate(zip(phase.rows, windows, strict=True))
        ]
        return streams[0] if alone else side_by_side(streams)


@dataclass(frozen=True, eq=False)
class Phase:
    """Part of a run, with rows of one length.

    rows   those of the corpus, and those of the general text where there is some
    share  the share of all rows that are general
    """

    rows: Sequence[Rows]
    share: float

    @property
    def epoch_rows(self) -> float:
        """The number of rows, general ones included, until each row of the corpus was seen once."""
        return len(self.rows[0]) / (1 - self.share) if self.share else len(self.rows[0])

    @property
    def mean_tokens(self) -> float:
        """The mean number of tokens of a row."""
        mean = self.rows[0].mean_tokens
        return (1 - self.share) * mean + self.share * self.rows[1].mean_tokens if self.share else mean


@dataclass(frozen=True)
class Untrained:
    """Random weights in the shape of `model`."""

    model: str
    seed: int


def untrained(model: str, out: Path, *, seed: int) -> Checkpoint:
    """Return a checkpoint of this architecture and vocabulary with random weights, to measure what pretraining adds."""
    recipe = Untrained(model=model, seed=seed)
    sources = {"model": identity(model)}
    if checkpoint := finished(out, recipe, sources):
        return checkpoint
    random_model = encoder.random_twin(model, seed=seed)
    return write_checkpoint(out, random_model, load_tokenizer(model), recipe, sources, new_weights=True)


def _note_phases(reading: BatchPlan, watch: Watch) -> None:
    """Give `watch` a note on the rows and shares of texts and phases, if the recipe does not state them."""
    plan, phases = reading.plan, reading.phases
    if len(reading.texts) > 1 or len(phases) > 1 or reading.recipe.tokens:
        rows = "; ".join(
            f"{part:.0%} of {plan.steps:,} steps on rows of {phase.mean_tokens:.0f} tokens"
            + (f", {phase.share:.0%} of them general" if phase.share else "")
            for part, phase in zip(reading.parts, phases, strict=True)
        )
        watch(Progress(STAGE, 0, plan.steps, "steps", {"note": rows}))


class NextSentenceHead(nn.Module):
    """BERT's pooler and the classifier on it; class 0 is "follows" and class 1 "does not", as in BERT's code."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.pooler = nn.Linear(hidden, hidden)
        self.classifier = nn.Linear(hidden, 2)

    def forward(self, first_RD: Tensor) -> Tensor:
        """(R, 2) logits from the last hidden state of each row's first token, h_[CLS]."""
        logits_R2: Tensor = self.classifier(torch.tanh(self.pooler(first_RD)))  # W_2 tanh(W_1 h_[CLS] + b_1) + b_2
        return logits_R2


class NextSentenceLoss(Objective):
    """L_mlm + L_nsp of one pass. Terms: `mlm`, averaged over the predicted tokens, and `nsp`, averaged over rows."""

    def __init__(self, model: PreTrainedModel, head: NextSentenceHead) -> None:
        super().__init__()
        self.model, self.head = model, head
        self.weights = {"mlm": 1.0, "nsp": 1.0}
        self.shares_lines = keeps_rows_apart(model)

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"mlm": int(np.count_nonzero(batch.tokens["labels"] != NOT_PREDICTED)), "nsp": len(batch)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        first_RD, logits_MV = states_and_masked_logits(self.model, piece, piece["firsts"], piece["positions"])
        logits_R2 = self.head(first_RD).float()  # of h_[CLS]
        nsp = nn.functional.cross_entropy(logits_R2, piece[RANDOM_NEXT], reduction="sum")  # L_nsp
        return {"mlm": masked_cross_entropy(logits_MV, piece), "nsp": nsp}

    def flops(self, batch: Batch) -> float:
        predicted = self.counts(batch)["mlm"] if has_sparse_head(self.model) else len(batch.ids)
        weights = sum(weight.numel() for weight in self.head.parameters() if weight.ndim > 1)
        return encoder.training_flops(self.model, batch.lengths, predicted=predicted) + 6.0 * weights * len(batch)


def require_pairs(model: PreTrainedModel) -> None:
    """Raises ValueError for a model that is not a BERT with two token types."""
    if encoder.family(model) != FAMILY or model.config.type_vocab_size < 2:
        raise ValueError(
            f"next_sentence = true needs a BERT with two token types, but the model is a '{encoder.family(model)}'. "
            "Set next_sentence=false"
        )


def new_head(model: PreTrainedModel, *, seed: int) -> NextSentenceHead:
    """Return a head with random weights, drawn as the model's were."""
    with seeded(seed):
        head = NextSentenceHead(model.config.hidden_size)
        for weight in head.parameters():
            if weight.ndim > 1:
                nn.init.normal_(weight, std=model.config.initializer_range)
            else:
                nn.init.zeros_(weight)
    return head


def head_of(model: str, *, seed: int) -> tuple[NextSentenceHead, bool]:
    """Return the head of a BERT's checkpoint and True; or, where the checkpoint has none, a new one and False."""
    with reading(model) as where:
        loaded: Any
        loaded, _ = load_weights(transformers.BertForPreTraining, where, configuration_at(where), seed)
    if any("pooler" in name or "seq_relationship" in name for name in drawn_weights(loaded)):
        return new_head(loaded, seed=seed), False
    head = NextSentenceHead(loaded.config.hidden_size)
    head.pooler.load_state_dict(loaded.bert.pooler.dense.state_dict())
    head.classifier.load_state_dict(loaded.cls.seq_relationship.state_dict())
    return head, True


def with_head(model: PreTrainedModel, head: NextSentenceHead) -> PreTrainedModel:
    """Return the BERT with its pooler and both heads, as its authors publish it; AutoModelForMaskedLM loads it too."""
    with seeded(0):
        whole: Any = transformers.BertForPreTraining(cast("BertConfig", model.config))
    lacking, unknown = whole.load_state_dict(model.state_dict(), strict=False)
    assert not unknown
    assert all("pooler" in name or "seq_relationship" in name for name in lacking)
    whole.bert.pooler.dense.load_state_dict(head.pooler.state_dict())
    whole.cls.seq_relationship.load_state_dict(head.classifier.state_dict())
    whole.train(False)
    pretrained: PreTrainedModel = whole
    return pretrained
