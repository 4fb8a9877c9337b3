"""What every objective must do, whatever it minimises. Add an objective to OBJECTIVES and all of it is held to this.

An entry makes the objective, without dropout unless told, and a stream of batches for it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from acclimate.core.types import MENTIONS, NOT_PREDICTED, TAGS, Batch, Stream
from acclimate.methods.adversarial import AdversarialLoss
from acclimate.methods.contrast.sequence_contrast import CONTRASTS
from acclimate.methods.contrast.token_contrast import TokenAlignment, TokenAwareContrast, with_anchors
from acclimate.methods.dga import DgaLoss
from acclimate.methods.distil import DistillationToken, DistilledText, KnowledgeDistillation, with_distillation_token
from acclimate.methods.domain import appended
from acclimate.methods.light import LightLoss
from acclimate.methods.probe import ReadOut
from acclimate.methods.ranking.search import PairContrast
from acclimate.methods.recipes.tsdae import DECODERS
from acclimate.methods.scratch import NextSentenceLoss, new_head
from acclimate.methods.tapter import Ids, Per, TapterLoss, with_regularised
from acclimate.methods.task_loss import TaskLoss
from acclimate.methods.tlm import JointLoss
from acclimate.methods.tsdae import DenoisingLoss, with_deletions
from acclimate.models.classifier import PROBLEM_TYPES
from acclimate.models.encoder import encoder_of
from acclimate.models.formats import OutputLayer, Pooling, SequenceLayer
from acclimate.models.joint_head import new_joint_head
from acclimate.models.light import add_adapters
from acclimate.models.task_layers import PooledClassifiers, SequenceTaggers, set_layer, set_pooling
from acclimate.tasks.rows import EDGES
from acclimate.text.rows import RANDOM_NEXT, TYPES
from acclimate.training.checkpoint import LOG, resumable
from acclimate.training.loop import adamw, train
from acclimate.training.objective import VIEWS, MaskedLanguageLoss, Objective
from acclimate.training.pieces import Layout, pack, pad, pieces_of_rows, together
from acclimate.training.plan import Plan
from families import FAMILIES, VOCABULARY, mpnet

ROWS = 8
LABELS = 3
CPU = torch.device("cpu")
MODELS = {**FAMILIES, "mpnet": mpnet}
PLAN = Plan(steps=4, batch=ROWS, rate=1e-2, warmup=0.25, precision="float32", piece_tokens=64)
SHORT = replace(PLAN, steps=2)
STOPPED = SHORT  # after its first step


@dataclass(frozen=True)
class Case:
    objective: Callable[[float], Objective]  # dropout -> a new objective, the same at every call
    stream: Stream


def pad_of(name: str) -> int:
    return MODELS[name]().config.pad_token_id or 0


def toy_rows(pad_id: int, step: int, labels: int = 0) -> Batch:
    """ROWS rows of 3 to 20 random tokens; masked language labels, or a class for each row where labels is given."""
    generator = np.random.default_rng([5, step])
    lengths = generator.integers(3, 21, ROWS)
    ids = generator.integers(5, VOCABULARY, lengths.sum())
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    names = [f"document {row}" for row in range(ROWS)]
    if labels:
        return Batch(ids, offsets, {}, {"label": generator.integers(0, labels, ROWS)}, names, pad_id)
    chosen = generator.random(len(ids)) < 0.3
    chosen[offsets[:-1]] = True
    return Batch(ids, offsets, {"labels": np.where(chosen, ids, NOT_PREDICTED)}, {}, names, pad_id)


def _masked(name: str) -> Case:
    make, pad_id = MODELS[name], pad_of(name)
    return Case(lambda dropout: MaskedLanguageLoss(make(dropout=dropout)), lambda step: toy_rows(pad_id, step))


def _task(kind: str) -> Case:
    def make(dropout: float) -> Objective:
        config = FAMILIES["bert"](dropout=dropout).config
        config.num_labels = {"score": 1, "span": 2}.get(kind, LABELS)
        config.problem_type = PROBLEM_TYPES.get(kind)
        others = {"tokens": AutoModelForTokenClassification, "span": AutoModelForQuestionAnswering}
        auto = others.get(kind, AutoModelForSequenceClassification)
        with torch.random.fork_rng():
            torch.manual_seed(3)
            return TaskLoss(auto.from_config(config))

    def stream(step: int) -> Batch:
        batch, generator = toy_rows(0, step, labels=LABELS), np.random.default_rng([6, step])
        if kind == "multilabel":
            return replace(batch, rows={"label": (generator.random((ROWS, LABELS)) < 0.4).astype(np.float32)})
        if kind == "tokens":
            tags = np.where(generator.random(len(batch.ids)) < 0.5, batch.ids % LABELS, NOT_PREDICTED)
            return replace(batch, rows={}, tokens={TAGS: tags})
        if kind == "span":
            return replace(batch, rows={"label": generator.integers(0, batch.lengths[:, None], (ROWS, 2))})
        if kind == "score":
            return replace(batch, rows={"label": generator.normal(size=ROWS).astype(np.float32)})
        return batch

    return Case(make, stream)


def _pooled(name: str, pooling: Pooling, layer: SequenceLayer = "linear", kind: str = "sequence") -> Case:
    """A class or number for each row, read from two mentions in it, or from an LSTM's states."""

    def make(dropout: float) -> Objective:
        config = FAMILIES[name](dropout=dropout).config
        config.num_labels = 1 if kind == "score" else LABELS
        config.problem_type = PROBLEM_TYPES[kind]
        set_pooling(config, pooling, layer)
        with torch.random.fork_rng():
            torch.manual_seed(3)
            return TaskLoss(PooledClassifiers.from_config(config))

    pad_id = pad_of(name)

    def stream(step: int) -> Batch:
        batch, generator = toy_rows(pad_id, step, labels=LABELS), np.random.default_rng([8, step])
        starts_B2 = generator.integers(0, batch.lengths[:, None], (ROWS, 2))
        ends_B2 = np.minimum(starts_B2 + generator.integers(1, 4, (ROWS, 2)), batch.lengths[:, None])
        row_values = batch.rows if kind == "sequence" else _task(kind).stream(step).rows
        return replace(batch, rows={**row_values, MENTIONS: np.stack([starts_B2, ends_B2], axis=-1)})

    return Case(make, stream)


def _tagger(name: str, layer: OutputLayer) -> Case:
    """Tags at half of the tokens; some rows have none, and some are parts of sentences."""

    def make(dropout: float) -> Objective:
        config = FAMILIES[name](dropout=dropout).config
        config.num_labels = LABELS
        set_layer(config, layer)
        with torch.random.fork_rng():
            torch.manual_seed(3)
            return TaskLoss(SequenceTaggers.from_config(config))

    pad_id = pad_of(name)

    def stream(step: int) -> Batch:
        batch, generator = toy_rows(pad_id, step, labels=LABELS), np.random.default_rng([9, step])
        tagged = (generator.random(len(batch.ids)) < 0.5) & np.repeat(np.arange(ROWS) != 2, batch.lengths)
        tags = np.where(tagged, batch.ids % LABELS, NOT_PREDICTED)
        return replace(batch, rows={EDGES: generator.integers(0, 2, (ROWS, 2))}, tokens={TAGS: tags})

    return Case(make, stream)


def _joint(name: str, kind: str) -> Case:
    """Internal and external batches by turns."""
    make, pad_id = MODELS[name], pad_of(name)

    def objective(dropout: float) -> Objective:
        model = make(dropout=dropout)
        labels = () if kind == "score" else tuple("abc"[:LABELS])
        return JointLoss(model, new_joint_head(model, kind, labels, seed=3), kind=kind, rho_2=2.0)

    def stream(step: int) -> Batch:
        batch, generator = toy_rows(pad_id, step), np.random.default_rng([7, step])
        if step % 2:
            return batch
        if kind == "tokens":
            tags = np.where(generator.random(len(batch.ids)) < 0.5, batch.ids % LABELS, NOT_PREDICTED)
            return replace(batch, tokens={**batch.tokens, TAGS: tags})
        return replace(batch, rows=_task(kind).stream(step).rows)

    return Case(objective, stream)


def _regularised(name: str, per: Per = "occurrence", ids: Ids = "original") -> Case:
    """Two of three pieces have a vector, of which padding and special tokens are none."""
    make, pad_id = MODELS[name], pad_of(name)
    generator = np.random.default_rng(11)
    regularised_V = (np.arange(VOCABULARY) >= 5) & (generator.random(VOCABULARY) < 2 / 3)
    vectors_VF = (generator.normal(size=(VOCABULARY, 7)) * regularised_V[:, None]).astype(np.float32)

    def stream(step: int) -> Batch:
        return with_regularised(toy_rows(pad_id, step), regularised_V, per=per, ids=ids)

    return Case(lambda dropout: TapterLoss(make(dropout=dropout), vectors_VF, regularised_V, seed=3), stream)


def _adapted(name: str) -> Case:
    """Adapters that have learnt something: of new ones the first matrices get hardly a gradient."""
    plain = _masked(name)

    def make(dropout: float) -> Objective:
        model = FAMILIES[name](dropout=dropout)
        add_adapters(model, 4, seed=3)
        objective = LightLoss(model)
        with torch.no_grad():
            for weight in filter(lambda weight: weight.requires_grad, objective.parameters()):
                weight.mul_(100)
        return objective

    return Case(make, plain.stream)


def _prompted(name: str) -> Case:
    """The last four pieces of the vocabulary behind each row."""
    plain, prompt = _masked(name), range(VOCABULARY - 4, VOCABULARY)
    return Case(
        lambda dropout: LightLoss(FAMILIES[name](dropout=dropout), prompt, prompt_rate=3.0),
        lambda step: appended(plain.stream(step), prompt),
    )


def _soft_masked(name: str, **settings: Any) -> Case:
    """DGA with heads of unequal importance, none of which is held fast."""
    make, pad_id = MODELS[name], pad_of(name)
    importance = {"heads": torch.tensor([[0.2, 0.9], [0.6, 0.1]])}
    return Case(
        lambda dropout: DgaLoss(make(dropout=dropout), importance, **settings), lambda step: toy_rows(pad_id, step)
    )


def another(name: str) -> PreTrainedModel:
    """A teacher: a model of the family whose weights differ from the student's."""
    model = MODELS[name]()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(17)
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model


def _distilled(name: str, text: DistilledText = "unmasked", *, token: bool = False) -> Case:
    """Towards a teacher of other weights, each token or a distillation token."""
    make, pad_id = MODELS[name], pad_of(name)
    if not token:
        return Case(
            lambda dropout: KnowledgeDistillation(make(dropout=dropout), another(name), text=text),
            lambda step: toy_rows(pad_id, step),
        )
    return Case(
        lambda dropout: DistillationToken(make(dropout=dropout), another(name), text=text, seed=3),
        lambda step: with_distillation_token(toy_rows(pad_id, step)),
    )


def _paired(name: str) -> Case:
    """Rows of two stretches, of which the second follows the first or not."""
    plain = _masked(name)

    def objective(dropout: float) -> Objective:
        model = FAMILIES[name](dropout=dropout)
        return NextSentenceLoss(model, new_head(model, seed=3))

    def stream(step: int) -> Batch:
        batch, generator = plain.stream(step), np.random.default_rng([10, step])
        second = np.arange(len(batch.ids)) >= np.repeat(batch.offsets[:-1] + batch.lengths // 2, batch.lengths)
        rows = {RANDOM_NEXT: generator.integers(0, 2, ROWS)}
        return replace(batch, tokens={**batch.tokens, TYPES: second.astype(np.int64)}, rows=rows)

    return Case(objective, stream)


def _contrasted(name: str, contrast: str) -> Case:
    """Of one row nothing is predicted."""
    pad_id = pad_of(name)

    def stream(step: int) -> Batch:
        batch = toy_rows(pad_id, step)
        third = np.repeat(np.arange(ROWS) == 2, batch.lengths)
        return replace(batch, tokens={"labels": np.where(third, NOT_PREDICTED, batch.tokens["labels"])})

    return Case(lambda dropout: CONTRASTS[contrast](MODELS[name](dropout=dropout)), stream)


def _pairs_contrasted(name: str) -> Case:
    pad_id = pad_of(name)
    return Case(
        lambda dropout: PairContrast(encoder_of(MODELS[name](dropout=dropout)), "mean"),
        lambda step: toy_rows(pad_id, step).take(np.arange(ROWS // 2 * 2)),
    )


def _tokens_contrasted(name: str, contrast: str) -> Case:
    """Masked text against a teacher of other weights, or tokens of rows against tokens of other rows."""
    make, pad_id = MODELS[name], pad_of(name)
    if contrast == "tacl":
        return Case(
            lambda dropout: TokenAwareContrast(make(dropout=dropout), another(name), temperature=0.1),
            lambda step: toy_rows(pad_id, step),
        )
    return Case(
        lambda dropout: TokenAlignment(make(dropout=dropout), negatives=5),
        lambda step: with_anchors(toy_rows(pad_id, step), anchors=4, window=5, seed=0),
    )


def _denoised(name: str, read_out: ReadOut) -> Case:
    pad_id = pad_of(name)

    def stream(step: int) -> Batch:
        generator = np.random.default_rng([12, step])
        return with_deletions(toy_rows(pad_id, step), 0.6, prefix=1, suffix=1, generator=generator)

    return Case(lambda dropout: DenoisingLoss(FAMILIES[name](dropout=dropout), read_out, seed=3), stream)


def _adversarial(name: str, **settings: Any) -> Case:
    plain = _masked(name)
    return Case(lambda dropout: AdversarialLoss(FAMILIES[name](dropout=dropout), **settings), plain.stream)


OBJECTIVES: dict[str, Callable[[], Case]] = {
    **{f"masked language, {name}": (lambda name=name: _masked(name)) for name in MODELS},
    "task": lambda: _task("sequence"),
    "task, several labels": lambda: _task("multilabel"),
    "task, a number": lambda: _task("score"),
    "task, tags": lambda: _task("tokens"),
    "task, spans": lambda: _task("span"),
    "task, mentions": lambda: _pooled("bert", "mentions"),
    "task, starts of mentions, roberta": lambda: _pooled("roberta", "starts"),
    "task, means of mentions, MLP": lambda: _pooled("bert", "mentions-mean", "mlp"),
    "task, a number of a pair": lambda: _pooled("bert", "pair", "linear", "score"),
    "task, BiLSTM": lambda: _pooled("bert", "first", "bilstm"),
    "task, a number, BiLSTM, deberta-v2": lambda: _pooled("deberta-v2", "first", "bilstm", "score"),
    "task, several labels, BiLSTM, mentions, electra": lambda: _pooled("electra", "mentions", "bilstm", "multilabel"),
    "task, tags, CRF": lambda: _tagger("bert", "crf"),
    "task, tags, BiLSTM, roberta": lambda: _tagger("roberta", "bilstm"),
    "task, tags, BiLSTM and CRF, electra": lambda: _tagger("electra", "bilstm-crf"),
    "joint": lambda: _joint("bert", "sequence"),
    "joint, several labels, roberta": lambda: _joint("roberta", "multilabel"),
    "joint, a number, mpnet": lambda: _joint("mpnet", "score"),
    "joint, tags": lambda: _joint("bert", "tokens"),
    **{f"adapters, {name}": (lambda name=name: _adapted(name)) for name in ("bert", "distilbert", "modernbert")},
    **{f"prompt, {name}": (lambda name=name: _prompted(name)) for name in ("bert", "roberta", "deberta-v2")},
    "regularised embeddings": lambda: _regularised("bert"),
    "regularised embeddings, each type once, roberta": lambda: _regularised("roberta", "type"),
    "regularised embeddings, masked ids, electra": lambda: _regularised("electra", "type", "masked"),
    "regularised embeddings, mpnet": lambda: _regularised("mpnet"),
    "next sentence": lambda: _paired("bert"),
    "pairs": lambda: _pairs_contrasted("bert"),
    "SimCSE": lambda: _contrasted("bert", "simcse"),
    "SimCSE, modernbert": lambda: _contrasted("modernbert", "simcse"),
    "SimCSE, mpnet": lambda: _contrasted("mpnet", "simcse"),
    "InfoWord": lambda: _contrasted("bert", "infoword"),
    "InfoWord, roberta": lambda: _contrasted("roberta", "infoword"),
    "InfoWord, deberta-v2": lambda: _contrasted("deberta-v2", "infoword"),
    "InfoWord, mpnet": lambda: _contrasted("mpnet", "infoword"),
    "DGA": lambda: _soft_masked("bert"),
    "DGA, three passes, update, roberta": lambda: _soft_masked("roberta", anchor="mlm", reading="update"),
    "DGA, heads' outputs, domain, modernbert": lambda: _soft_masked(
        "modernbert", reading="head_output", knowledge="domain"
    ),
    "DGA without contrast, deberta-v2": lambda: _soft_masked("deberta-v2", weight=0.0),
    "distillation": lambda: _distilled("bert"),
    "distillation on masked text, roberta": lambda: _distilled("roberta", "masked"),
    "distillation token": lambda: _distilled("bert", token=True),
    "distillation token on masked text, roberta": lambda: _distilled("roberta", "masked", token=True),
    "distillation token, electra": lambda: _distilled("electra", token=True),
    "distillation token, modernbert": lambda: _distilled("modernbert", token=True),
    "distillation token on masked text, mpnet": lambda: _distilled("mpnet", "masked", token=True),
    "contrast of tokens, tacl": lambda: _tokens_contrasted("bert", "tacl"),
    "contrast of tokens, tacl, deberta-v2": lambda: _tokens_contrasted("deberta-v2", "tacl"),
    "contrast of tokens, taco": lambda: _tokens_contrasted("bert", "taco"),
    "contrast of tokens, taco, modernbert": lambda: _tokens_contrasted("modernbert", "taco"),
    "contrast of tokens, taco, mpnet": lambda: _tokens_contrasted("mpnet", "taco"),
    **{f"TSDAE, {name}": (lambda name=name: _denoised(name, "first")) for name in DECODERS if name != "bert"},
    "TSDAE": lambda: _denoised("bert", "mean"),
    "adversarial": lambda: _adversarial("bert"),
    "adversarial, released, roberta": lambda: _adversarial("roberta", reading="released"),
}

ONE_OF_EACH = (
    *{name.partition(",")[0]: name for name in reversed(OBJECTIVES)}.values(),
    *("task, tags", "task, spans", "task, BiLSTM", "task, tags, CRF", "joint, tags", "contrast of tokens, taco"),
    *(
        "DGA, three passes, update, roberta",
        "DGA, heads' outputs, domain, modernbert",
        "adversarial, released, roberta",
    ),
)
"""An entry for each loss and each state that it keeps; how steps and gradients go through it, no encoder changes."""


def check_sums_match_counts(case: Case) -> None:
    """A term's sum over the step by its count is the mean that the loop reports; pieces add up to the whole."""
    objective, batch = case.objective(0.0).eval(), case.stream(0)
    counts = objective.counts(batch)
    whole, halves = _sums(objective, [batch]), _sums(objective, _parts(batch, 2))
    assert set(whole) == set(counts) == set(objective.weights)
    [step] = _steps(case, replace(PLAN, steps=1))
    for term, value in whole.items():
        torch.testing.assert_close(halves[term], value, rtol=1e-4, atol=1e-4)
        assert abs(step.losses[term] - float(value.detach()) / max(1, counts[term])) < 1e-4


def check_pieces_do_not_matter(case: Case) -> None:
    """The same weights whether a step goes through the model whole or a row at a time.

    Pieces of several rows come in `check_sums_match_counts`, whose step of PLAN has some.
    """
    whole, single = (_weights(case, replace(SHORT, piece_tokens=most)) for most in (ROWS * 20, 1))
    for name, value in whole.items():
        torch.testing.assert_close(
            single[name], value, rtol=2e-3, atol=2e-4, msg=lambda text, name=name: f"{name}: {text}"
        )


def check_seed_stop_and_resume(case: Case, directory: Path) -> None:
    """With dropout: stopped after a step and gone on with by a new objective, the same weights and log byte for byte;
    with another seed, other weights.
    """
    whole, place = case.objective(0.1), directory / "whole"
    for step in resumable(whole, case.stream, STOPPED, place, save_seconds=0):
        if step.number > 1:  # what a kill leaves now: the state after the steps before, this one's is lost
            shutil.copytree(place, directory / f"stopped-{step.number - 1}")
    for stop in range(1, STOPPED.steps):
        resumed, out = case.objective(0.1), directory / f"stopped-{stop}"
        numbers = [step.number for step in resumable(resumed, case.stream, STOPPED, out, save_seconds=0)]
        assert numbers == list(range(stop + 1, STOPPED.steps + 1))
        for (name, value), (_, other) in zip(whole.named_parameters(), resumed.named_parameters(), strict=True):
            assert torch.equal(value, other), f"{name} differs after stopping at step {stop}"
        assert (out / LOG).read_bytes() == (place / LOG).read_bytes()
    other = _weights(case, replace(STOPPED, seed=1), dropout=0.1)
    assert any(not torch.equal(value, other[name]) for name, value in whole.named_parameters())


def check_every_weight_learns(case: Case) -> None:
    """Each trainable parameter gets a gradient that is not zero everywhere."""
    objective = case.objective(0.0).eval()
    losses = _sums(objective, [case.stream(0)])
    sum(objective.weights[term] * value for term, value in losses.items()).backward()
    idle = [name for name, weight in objective.named_parameters() if weight.requires_grad and not _moves(weight)]
    # a softmax does not see what all its inputs share, so the keys' biases of an attention have no say
    assert not [name for name in idle if "key" not in name and "k_lin" not in name], idle


def check_other_rows_do_not_matter(case: Case) -> None:
    """Rows have the same loss alone, beside a longer one, and on a line with others if the objective lets them share
    it; and what rows are compared by meets the same dropout alone as on the way to the other terms.
    """
    objective, batch = case.objective(0.0).eval(), case.stream(0)
    alone, beside = _sums(objective, _parts(batch, ROWS)), _sums(objective, [batch])
    for term, value in beside.items():
        torch.testing.assert_close(alone[term], value, rtol=1e-4, atol=1e-4)
    if objective.shares_lines:
        layouts = pack(batch.lengths, 64)
        assert any(layout.shared for layout in layouts)
        packed = _added(objective, [objective(pad(batch, layout, CPU)) for layout in layouts], layouts)
        for term, value in beside.items():
            torch.testing.assert_close(packed[term], value, rtol=1e-4, atol=1e-4)
    if objective.couples_rows:
        _check_views_are_drawn_first(case)


def _check_views_are_drawn_first(case: Case) -> None:
    """Alone and on the way to the other terms, the views that rows are compared by meet the same dropout."""
    objective, batch = case.objective(0.1).train(), case.stream(0)
    for layout in (pack if objective.shares_lines else pieces_of_rows)(batch.lengths, 64):
        piece = pad(batch, layout, CPU)
        with torch.random.fork_rng():
            torch.manual_seed(5)
            on_the_way = objective(piece)[VIEWS]
            torch.manual_seed(5)
            with torch.no_grad():
                alone = objective.views(piece)
            other = objective.views(piece)
        assert len(alone) == len(layout.rows_R)
        assert alone.dtype == torch.float32
        assert torch.equal(alone, on_the_way)
        assert not torch.equal(alone, other)


def _parts(batch: Batch, number: int) -> list[Batch]:
    return [batch.take(rows) for rows in np.array_split(np.arange(ROWS), number)]


def _sums(objective: Objective, parts: list[Batch]) -> dict[str, Tensor]:
    """Each term's sum over the parts together, every row of them on a separate line."""
    return _added(objective, [objective(pad(part, together(part.lengths), CPU)) for part in parts])


def _added(
    objective: Objective, pieces: list[dict[str, Tensor]], layouts: list[Layout] | None = None
) -> dict[str, Tensor]:
    """What pieces say, added; rows are compared over all of them, in the order of the batch."""
    sums = {term: torch.stack([piece[term] for piece in pieces]).sum() for term in pieces[0] if term != VIEWS}
    if objective.couples_rows:
        views = torch.cat([piece[VIEWS] for piece in pieces])
        if layouts:
            views = views[np.argsort(np.concatenate([layout.rows_R for layout in layouts]))]
        sums |= objective.compared(views)
    return sums


def _moves(weight: Tensor) -> bool:
    return weight.grad is not None and bool(weight.grad.abs().max() > 0)


def _steps(case: Case, plan: Plan) -> list:
    objective = case.objective(0.0)
    return list(train(objective, case.stream, plan, adamw(objective, plan)))


def _weights(case: Case, plan: Plan, *, dropout: float = 0.0) -> dict[str, Tensor]:
    objective = case.objective(dropout)
    for _ in train(objective, case.stream, plan, adamw(objective, plan)):
        pass
    return {name: weight.detach() for name, weight in objective.named_parameters()}
