"""TLM: train a task's model from random weights, on the task's rows and on retrieved text at once.

Yao et al. (2022), "NLP From Scratch Without Large-Scale Pretraining: A Simple and Efficient Framework", section 3.1.
External data S are documents that the task's texts retrieve as queries (text/bm25/build.py does that), internal data T
are the task's. Stage 1 minimises, over rho_1 external batches and then one internal batch,

    rho_1 E_S[L_mlm(x)] + E_T[rho_2 L_mlm(x) + L_task(f(x), y)]

and stage 2 the task's loss alone, with a new classifier (methods/finetune.py).

Shape suffixes: L lines, W width of a line in tokens, R rows, D hidden, M predicted positions, V vocabulary.

Readings
  "One batch of internal data with rho_1 batches of external data": a step's whole batch is of one kind, the internal
  one last. On an external step the classifier's gradient is 0, not absent, so Adam's moments decay and f moves on for
  some steps, as in the released code (model.py: `cls_prediction_scores.sum() * 0.0`).
  L_task is computed on the masked text: both losses of an internal batch come from one forward pass (run.py:427).
  15% of the sub-words are predicted, 80/10/10, masked anew at every step; no whole words (collator.py).
  The classifier of stage 1 is Linear-GELU-Linear on the first position, no pooler, no dropout (released code), with
  BERT's initialisation; for tagged words, of which the paper has none, Linear on every position.
  Without stage 2 (Table 7) the checkpoint has the weights of stage 1's last step. transformers' BERT and RoBERTa have
  other classifiers than f, so it is saved as an ELECTRA of the same weights (models/joint_head.py).
  "Ext only" (Table 5, rho_1 = infinity) is `external_only`, and "task data only" is rho_1 = 0.
  Where no vocabulary is given, it is learnt from the retrieved text and the task's texts; the paper has BERT's.
Deviations
  The paper's sum is the default. The released code, and so presumably the paper's figures, divides an internal batch's
  loss by rho_2 + 1 (model.py:113): `normalise`. Adam cancels a factor on all steps, but this one is on internal steps
  only, whose squared gradients stay in Adam's denominator.
  Documents longer than `max_tokens` are cut into several sequences; the released code drops all but the first.
  Gradients are clipped at 1 by default; the released code does not clip, and the recipes state clip = 0.
  Stage 2's classifier is that of transformers for the family, BERT's pooler and a linear layer; the released code has a
  new Linear-GELU-Linear there too (finetune.sh: `--reset_cls`).
  The released code updates after its first micro-batch, and never loads the optimiser that it saves. Neither is here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.torch import load_file, save
from torch import Tensor, nn

from acclimate.core import files, ranks
from acclimate.core.prompt import prompt_length
from acclimate.core.types import NOT_PREDICTED, TAGS, Batch, Checkpoint, Document, Progress, Stream, Watch, unwatched
from acclimate.methods import finetune
from acclimate.methods.recipes.tlm import TlmRecipe
from acclimate.methods.scratch import learned_tokenizer, note_frequencies
from acclimate.methods.task_loss import LOSSES, TaskLoss, loss_targets, predict_and_measure, targets
from acclimate.methods.tuning.head import training_rows
from acclimate.methods.tuning.looks import DevLooks, Look
from acclimate.models.classifier import TOKENS, load_finetuned
from acclimate.models.configuration import dropout_known, longest_input
from acclimate.models.encoder import load_masked_language_model, new_encoder, training_flops
from acclimate.models.heads import has_sparse_head, hidden_and_masked_logits, keeps_rows_apart, states_and_masked_logits
from acclimate.models.joint_head import as_classifier, new_joint_head, require_alike
from acclimate.models.loading import identity, load_tokenizer
from acclimate.models.scale import fold
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.tasks.rows import encode_rows, with_labels
from acclimate.text.corpus import Corpus
from acclimate.text.masking import replacement_of
from acclimate.text.streams import interleaved, masked_rows_stream, masked_stream
from acclimate.text.words import word_starts_in_rows
from acclimate.training.checkpoint import finish, read_log, spent
from acclimate.training.objective import Objective, masked_cross_entropy
from acclimate.training.pieces import Piece
from acclimate.training.plan import move_to_device
from acclimate.training.run import CHECKPOINT, finished, run, write_checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

JOINT, SECOND = "joint", "finetune"  # directories of the stages within a run
HEAD = "classifier.safetensors"  # stage 1's, beside its checkpoint
COST = "joint.json"
RETRIEVAL = "retrieval.json"  # what data/retrieve.py records beside a corpus that it retrieved


class JointLoss(Objective):
    """Stage 1. Terms: `external`, L_mlm averaged over the predicted tokens of external rows; `mlm`, the same of
    internal rows; and `task`, averaged as in `TaskLoss`. In a batch of the other kind a term is 0.

    model      the encoder with its language modelling head
    head       the classifier f, on each row's first position; of tagged words, on every position
    normalise  divide the weights of an internal batch by rho_2 + 1, as the released code does; False: the paper's sum
    """

    def __init__(
        self, model: PreTrainedModel, head: nn.Module, *, kind: str, rho_2: float, normalise: bool = False
    ) -> None:
        super().__init__()
        self.model, self.head, self.kind = model, head, kind
        share = 1.0 / (rho_2 + 1.0) if normalise else 1.0
        # rho_1 E_S[L_mlm] + E_T[rho_2 L_mlm + L_task]; rho_1 is the number of external batches for each internal one
        self.weights = {"external": 1.0, "mlm": share * rho_2, "task": share}
        self.shares_lines = keeps_rows_apart(model)

    def counts(self, batch: Batch) -> dict[str, int]:
        predicted = int(np.count_nonzero(batch.tokens["labels"] != NOT_PREDICTED))
        if _is_internal(batch.rows, batch.tokens):
            return {"external": 0, "mlm": predicted, "task": targets(batch)}
        return {"external": predicted, "mlm": 0, "task": 0}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        internal = _is_internal(piece)
        if internal and self.kind == TOKENS:
            read, logits_MV = hidden_and_masked_logits(self.model, piece, piece["positions"])  # (L, W, D)
        else:
            read, logits_MV = states_and_masked_logits(self.model, piece, piece["firsts"], piece["positions"])  # (R, D)
        mlm = masked_cross_entropy(logits_MV, piece)  # L_mlm(x)
        outputs = self.head(read).float()  # f(x)
        # not a plain 0: processes can average gradients only of weights that took part in every batch
        nothing = 0.0 * outputs.sum()
        if not internal:
            return {"external": mlm, "mlm": nothing, "task": nothing}
        task = LOSSES[self.kind](outputs, loss_targets(piece))  # L_task(f(x), y)
        return {"external": nothing, "mlm": mlm, "task": task}

    def flops(self, batch: Batch) -> float:
        count = self.counts(batch)
        predicted = count["external"] + count["mlm"] if has_sparse_head(self.model) else len(batch.ids)
        classified = (len(batch.ids) if self.kind == TOKENS else len(batch)) if count["task"] else 0
        weights = sum(layer.weight.numel() for layer in self.head.modules() if isinstance(layer, nn.Linear))
        return training_flops(self.model, batch.lengths, predicted=predicted) + 6.0 * weights * classified


def _is_internal(*fields: Mapping[str, object]) -> bool:
    """True if the batch or piece has labels or tags."""
    return any("label" in field or TAGS in field for field in fields)


def adapt(recipe: TlmRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Do both stages and write `out/checkpoint`, a classifier. Stage 1 lies in `out/joint` (see `train_jointly`), stage
    2 in `out/finetune`; without stage 2, `out/dev.json` and `out/predicted_dev.json` are as `finetune` writes them.
    Never opens the test set.
    """
    task, sources = _inputs(recipe)
    sources["dev"] = task.hashes["dev"]
    if checkpoint := finished(out, recipe, sources):
        return checkpoint
    if not recipe.stage_2 and recipe.model:
        require_alike(recipe.model)
    first = train_jointly(recipe, out / JOINT, watch=watch)
    if recipe.stage_2:
        tuned = replace(recipe.finetune, model=str(first.path), task=recipe.task)
        second = finetune.adapt(tuned, out / SECOND, watch=watch)
        model, tokenizer = load_finetuned(second.path), load_tokenizer(second.path)
    else:
        model, tokenizer = _stage_1_alone(out / JOINT, task, out)
    return write_checkpoint(out, model, tokenizer, recipe, sources)


def train_jointly(recipe: TlmRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Do stage 1: write `out/checkpoint`, an ordinary masked language model to fine-tune, its classifier beside it, and
    its cost to `out/joint.json`. A stopped run goes on, an ended one is returned. Settings of stage 2 do not matter.
    """
    recipe = replace(recipe, stage_2=True, finetune=TlmRecipe().finetune)
    task, sources = _inputs(recipe)
    if checkpoint := finished(out, recipe, sources):
        return checkpoint
    _note_batches(recipe, task, watch)
    inputs = StageInputs(recipe, task, out, watch)
    model = inputs.encoder()
    head = new_joint_head(model, task.kind, task.labels, seed=recipe.plan.seed)
    objective = JointLoss(model, head, kind=task.kind, rho_2=recipe.rho_2, normalise=recipe.normalise)
    run(objective, inputs.stream(), recipe.plan, out, stage="joint", watch=watch)
    if inputs.corpus and not recipe.model:
        tokens = inputs.corpus.tokens(inputs.tokenizer, watch=watch)
        note_frequencies(out, tokens, stage="joint", term="external", watch=watch)
    if ranks.is_first():
        parameters = sum(weight.numel() for weight in objective.parameters())
        files.write_json(out / COST, _cost(recipe, task, out, parameters))
        tensors = {name: value.detach().cpu().contiguous() for name, value in head.state_dict().items()}
        files.write_bytes(out / HEAD, save(tensors))
    checkpoint = write_checkpoint(out, model, inputs.tokenizer, recipe, sources)
    finish(out)
    return checkpoint


def without_stage_2(first: Path, task: Prepared, out: Path) -> Checkpoint:
    """Write the encoder and the classifier of a finished stage 1 in `first`, as `adapt` without stage 2 does."""
    recipe = TlmRecipe(stage_2=False)
    sources = {name: task.hashes[name] for name in ("about", "dev")} | {"joint": identity(str(first / CHECKPOINT))}
    if checkpoint := finished(out, recipe, sources):
        return checkpoint
    return write_checkpoint(out, *_stage_1_alone(first, task, out), recipe, sources)


def _stage_1_alone(first: Path, task: Prepared, out: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Stage 1's model and classifier as one, and its tokenizer; writes the predictions for dev as fine-tuning does."""
    model, tokenizer = load_masked_language_model(first / CHECKPOINT), load_tokenizer(first / CHECKPOINT)
    head = new_joint_head(model, task.kind, task.labels, seed=0)
    head.load_state_dict(load_file(first / HEAD))
    classifier = as_classifier(model, head, task.kind, task.labels)
    _, scale = training_rows(task, tokenizer)
    if scale is not None:
        fold(classifier, scale)
    tokenizer.model_max_length = task.max_tokens + prompt_length(tokenizer)
    dev = task.examples("dev")
    move_to_device(classifier)
    rows = with_labels(encode_rows(dev, tokenizer, task.max_tokens, task.kind), dev, task.kind, task.labels)
    predicted, loss = predict_and_measure(TaskLoss(classifier), rows, task.labels)
    score = task.score([example.label for example in dev], predicted)
    looks = DevLooks(out, keep=0)
    step, look = len(read_log(first)), Look(score, loss, predicted)
    looks.add(step, look, classifier)
    looks.write_chosen([step], look)
    return classifier, tokenizer


def internal_tokens(recipe: TlmRecipe, task: Prepared) -> int:
    """Return the number of tokens at which an internal row is cut off in stage 1."""
    return recipe.internal_tokens or task.max_tokens


class StageInputs:
    """What stage 1 starts from and trains on: tokenizer, encoder, and the stream of external and internal batches.

    A vocabulary that is learnt lies in `out`.
    """

    def __init__(self, recipe: TlmRecipe, task: Prepared, out: Path, watch: Watch) -> None:
        self.recipe, self.task, self.watch = recipe, task, watch
        self.corpus = Corpus(recipe.corpus) if recipe.reads_corpus else None
        # stage 2 reads rows of the task's length
        longest = max(recipe.max_tokens, internal_tokens(recipe, task), task.max_tokens)
        self.positions = max(512, longest)  # of an encoder with random weights
        if recipe.model and (most := longest_input(recipe.model)) and longest > most:
            raise ValueError(
                f"{recipe.model} reads at most {most} tokens, but rows may have {longest}. Lower max_tokens or "
                "internal_tokens, or prepare the task with shorter texts"
            )
        if recipe.whole_words and task.kind == TOKENS:
            raise ValueError("whole-word masking is not available for tagged words. Set whole_words=false")
        tokenizer_of = recipe.model or recipe.tokenizer
        self.tokenizer = load_tokenizer(tokenizer_of) if tokenizer_of else self._learned(out / "vocabulary")

    def encoder(self) -> PreTrainedModel:
        """Return the masked language model that stage 1 starts from."""
        recipe = self.recipe
        if recipe.model and not dropout_known(recipe.model):
            note = "dropout of this family cannot be set, so it is unchanged"
            self.watch(Progress("joint", 0, recipe.plan.steps, "steps", {"note": note}))
            return load_masked_language_model(recipe.model)
        if recipe.model:
            return load_masked_language_model(
                recipe.model, hidden_dropout=recipe.dropout, attention_dropout=recipe.attention_dropout
            )
        return new_encoder(
            layers=recipe.layers,
            hidden=recipe.hidden,
            heads=recipe.heads,
            vocabulary_size=len(self.tokenizer),
            longest=self.positions,
            pad=self.tokenizer.pad_token_id,
            seed=recipe.plan.seed,
            hidden_dropout=recipe.dropout,
            attention_dropout=recipe.attention_dropout,
            initializer_range=recipe.initializer_range,
        )

    def stream(self) -> Stream:
        """Return the stream of rho_1 external batches, then one internal, and again; or of one kind of batches only."""
        recipe, corpus = self.recipe, self.corpus
        shared: dict[str, Any] = {"batch": recipe.plan.batch, "seed": recipe.plan.seed, "rate": recipe.masking}
        if corpus is None:
            return self._internal(shared)
        tokens = ranks.first_then_all(lambda: corpus.tokens(self.tokenizer, watch=self.watch))
        external = masked_stream(tokens, longest=recipe.max_tokens, whole_words=recipe.whole_words, **shared)
        return external if recipe.external_only else interleaved(external, self._internal(shared), rho_1=recipe.rho_1)

    def _internal(self, shared: dict[str, Any]) -> Stream:
        longest = internal_tokens(self.recipe, self.task)
        rows, _ = training_rows(replace(self.task, max_tokens=longest), self.tokenizer)
        starts = self._word_starts(rows, longest) if self.recipe.whole_words else None
        return masked_rows_stream(rows, replacement=replacement_of(self.tokenizer), word_starts=starts, **shared)

    def _word_starts(self, rows: Batch, longest: int) -> np.ndarray:
        train = self.task.examples("train")
        texts, pairs = [example.text for example in train], [example.pair or "" for example in train]
        encoded = self.tokenizer(texts, pairs if any(pairs) else None, truncation=True, max_length=longest)
        starts = word_starts_in_rows(encoded.encodings, list(zip(texts, pairs, strict=True)))
        assert len(starts) == len(rows.ids)
        return starts

    def _learned(self, path: Path) -> PreTrainedTokenizerBase:
        return learned_tokenizer(
            _Texts(self.corpus, self.task),
            path,
            size=self.recipe.vocabulary,
            lower=self.recipe.lower,
            longest=self.positions,
            watch=self.watch,
        )


@dataclass(frozen=True)
class _Texts:
    """The texts that a vocabulary is learnt from: the corpus, then the training examples."""

    corpus: Corpus | None
    task: Prepared

    def documents(self) -> Iterator[Document]:
        train = self.task.examples("train")
        texts = (Document(example.id, f"{example.text} {example.pair or ''}") for example in train)
        return chain(self.corpus.documents() if self.corpus else (), texts)

    def __len__(self) -> int:
        return (len(self.corpus) if self.corpus else 0) + self.task.sizes["train"]


def paper_flops(recipe: TlmRecipe, parameters: float, internal_tokens: int) -> float:
    """6 x training tokens x parameters (Table 2, note 1), with every row of stage 1 counted at full length."""
    external, internal = recipe.batches
    tokens = recipe.plan.batch * (external * recipe.max_tokens + internal * internal_tokens)
    return 6.0 * tokens * parameters


def _inputs(recipe: TlmRecipe) -> tuple[Prepared, dict[str, str]]:
    """Return the task, and hashes of all that stage 1 reads."""
    if recipe.task == Path():
        raise ValueError("no task given. Add task=PATH: a prepared task, such as data/ in the directory of a race")
    if recipe.reads_corpus and recipe.corpus == Path():
        raise ValueError("no corpus given. Add corpus=PATH, or rho_1=0 to train on the task's texts only")
    task = open_prepared(recipe.task)
    sources = {name: task.hashes[name] for name in ("about", "train")}
    if recipe.reads_corpus:
        if recipe.k:
            record = recipe.corpus.parent / RETRIEVAL
            way_out = f"Retrieve it: acclimate data retrieve train.csv --corpus TEXTS --k {recipe.k}, or set k=0"
            if not record.is_file():
                raise ValueError(
                    f"k = {recipe.k}, but {recipe.corpus} has no {record}, so it was not retrieved. {way_out}"
                )
            k = files.read_record(record)["recipe"]["k"]
            if k != recipe.k:
                raise ValueError(f"k = {recipe.k}, but {recipe.corpus} was retrieved with k = {k}. {way_out}")
        sources["corpus"] = Corpus(recipe.corpus).hash
    return task, sources | {name: identity(at) for name in ("model", "tokenizer") if (at := getattr(recipe, name))}


def _epochs(recipe: TlmRecipe, task: Prepared) -> float:
    """Return the number of times that stage 1 sees each training example."""
    return recipe.batches[1] * recipe.plan.batch / task.sizes["train"]


def _note_batches(recipe: TlmRecipe, task: Prepared, watch: Watch) -> None:
    """Give `watch` a note on how many batches are internal, before hours are spent on them."""
    epochs, rows = _epochs(recipe, task), task.sizes["train"]
    note = "external data only" if recipe.external_only else f"rho_1 = {recipe.rho_1}"
    note += f": {recipe.batches[1]:,} of {recipe.plan.steps:,} batches are internal, "
    note += f"{epochs:.2f} epochs over the {rows:,} training examples"
    if epochs < 1 and not recipe.external_only:
        most = recipe.plan.steps // -(-rows // recipe.plan.batch) - 1
        way_out = f"lower rho_1 to {most}, or raise plan.steps" if most >= 0 else "raise plan.steps"
        note = f"Warning: {note}, so some of them are never used. To use each once, {way_out}"
    watch(Progress(JOINT, 0, recipe.plan.steps, "steps", {"note": note}))


def _cost(recipe: TlmRecipe, task: Prepared, out: Path, parameters: int) -> dict[str, Any]:
    """Return the cost of stage 1: FLOPs as in the paper, and by formula without padding (models/encoder.py)."""
    external, internal = recipe.batches
    real = spent(out)
    return {
        "external_batches": external,
        "internal_batches": internal,
        "internal_epochs": _epochs(recipe, task),
        "parameters": parameters,
        "paper_flops": paper_flops(recipe, parameters, internal_tokens(recipe, task)),
        "flops": real.flops,
        "tokens": real.tokens,
    }


def new_model(recipe: TlmRecipe) -> PreTrainedModel:
    """Return an encoder of the recipe's size with random weights."""
    return new_encoder(
        layers=recipe.layers,
        hidden=recipe.hidden,
        heads=recipe.heads,
        vocabulary_size=recipe.vocabulary,
        longest=max(512, recipe.max_tokens),
        pad=0,
        seed=0,
        hidden_dropout=recipe.dropout,
        attention_dropout=recipe.attention_dropout,
    )
