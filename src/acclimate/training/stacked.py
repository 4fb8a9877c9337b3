"""Compute a step of several runs at once, whose models have one shape and weights of their own.

With a small encoder and small batches a GPU waits until the processor has started its kernels, one after the other. So
the weights of S runs are stacked, (S, ...), and one pass forward and back serves them all:

    batches of S runs -> one piece, whose lines are those of the first run, then those of the second ...
    linear layers, embeddings and normalisations take the lines of each run with its weights
    each run's sums, loss and gradient, which is left on its parameters: parts of the stack

The piece goes through the modules of the first run; only those three functions of torch are replaced. What has no
weights, such as attention, knows nothing of runs, so kernels that keep rows apart stay in use (kernels.py), for which
torch.func.vmap has no rule. Each run keeps its clipping, rate, optimiser and, in float16, scale of the loss.

Each run gets what it gets alone, up to rounding. Its dropout has the same distribution but other noise, which is drawn
for all runs together, by the seed and step of the first.

Shape suffixes: S runs of a stack, N numbers of a run, I inputs, O outputs, V vocabulary, D hidden.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from acclimate.core import ranks
from acclimate.core.types import NOT_PREDICTED, TAGS, Batch, NotFiniteError
from acclimate.training.gradients import accumulate, config_of, mean_losses, noise
from acclimate.training.kernels import Replaced, arithmetic
from acclimate.training.objective import Objective
from acclimate.training.pieces import ROUND, Layout, Piece, pad, together
from acclimate.training.plan import Plan, device, piece_tokens

MOST_RUNS = 8  # of a stack
MOST_WEIGHTS = 40_000_000  # of a run: a larger encoder keeps a GPU busy, and eight of them may not fit
LAYERS = (nn.Linear, nn.Embedding, nn.LayerNorm)  # that can take several weights

Gradient = Callable[..., dict[str, float]]
GRADIENT: ContextVar[Gradient] = ContextVar("GRADIENT", default=accumulate)
"""What computes the gradient of this run's steps; it has the arguments and the result of `accumulate`."""


def is_chosen() -> bool:
    """Return whether this process computes steps of several runs at once: with $ACCLIMATE_STACKED=1, on one CUDA
    device. On a CPU it gained nothing, and equal seeds have to give equal bytes; it has not been measured on a GPU.
    """
    return os.environ.get("ACCLIMATE_STACKED") == "1" and ranks.world() == 1 and device().type == "cuda"


@dataclass(eq=False)
class Turn:
    """A step of a run, and once `Stacks.accumulate` has computed it what `accumulate` returns or raises.

    seconds  the run's share of the time that this took
    """

    objective: Objective
    batch: Batch
    pieces: list[Layout]
    plan: Plan
    step: int
    where: torch.device
    scaler: torch.amp.GradScaler | None = None
    losses: dict[str, float] = field(default_factory=dict)
    error: Exception | None = None
    seconds: float = 0.0


def can_stack(objective: Objective, plan: Plan) -> bool:
    """Return whether the steps of a run can be computed in a stack: its objective offers it, and all of its weights are
    in layers that can take several.
    """
    if not objective.stacks or not objective.shares_lines or plan.compile or plan.recompute:
        return False
    layers = [module for module in objective.modules() if [*module.parameters(recurse=False)]]
    return (
        all(type(layer) in LAYERS for layer in layers)
        and not any(buffer.is_floating_point() for buffer in objective.buffers())
        and sum(weight.numel() for weight in objective.parameters()) <= MOST_WEIGHTS
    )


class Stacks:
    """Computes the steps of runs, those of runs of one shape together."""

    def __init__(self) -> None:
        self.shapes: WeakKeyDictionary[Objective, str] = WeakKeyDictionary()
        self.tokens: dict[str, int] = {}  # shape -> the most that a step of one of its runs had, padding included
        self.stacks: list[_Stack] = []  # those of the last steps
        self.most = MOST_RUNS  # fewer once memory ran out

    def accumulate(self, turns: Sequence[Turn]) -> None:
        """Leave on the parameters of each run, and in its turn, what `accumulate` does."""
        before, self.stacks = self.stacks, []
        for group in self._groups(turns):
            begun = time.perf_counter()
            if len(group) == 1 or not self._has_room(group, before):
                for turn in group:
                    _accumulate_alone(turn)
            for turn in group:
                turn.seconds = (time.perf_counter() - begun) / len(group)

    def _has_room(self, group: Sequence[Turn], before: Sequence[_Stack]) -> bool:
        """Compute the step of a group in a stack, or return False if memory ran out: then nothing of it is left."""
        objectives = [turn.objective for turn in group]
        try:
            stack = next((stack for stack in before if stack.objectives == objectives), None) or _Stack(objectives)
            stack.accumulate(group)
            self.stacks.append(stack)
        except torch.OutOfMemoryError:
            self.most = len(group) // 2
            for turn in group:
                turn.objective.zero_grad()
            return False
        except Exception as error:  # of these runs, as if each was alone: the others go on
            for turn in group:
                turn.error = error
        return True

    def _groups(self, turns: Sequence[Turn]) -> list[list[Turn]]:
        """Return the turns that go together: of runs of one shape, in order, as many as one piece has room for."""
        groups: list[list[Turn]] = []
        by_shape: dict[str, list[Turn]] = {}
        for turn in turns:
            if len(turn.pieces) > 1:
                groups.append([turn])
                continue
            if turn.objective not in self.shapes:
                self.shapes[turn.objective] = _shape(turn)
            shape = self.shapes[turn.objective]
            by_shape.setdefault(shape, []).append(turn)
            self.tokens[shape] = max(self.tokens.get(shape, 0), turn.pieces[0].tokens)
        for shape, alike in by_shape.items():
            most = max(1, min(self.most, piece_tokens(alike[0].plan, alike[0].where) // self.tokens[shape]))
            groups += [alike[first : first + most] for first in range(0, len(alike), most)]
        return groups


def _shape(turn: Turn) -> str:
    """Return what has to be equal in the runs of a stack."""
    config = config_of(turn.objective)
    about = {name: value for name, value in config.to_dict().items() if name != "_name_or_path"} if config else {}
    weights = [(name, [*weight.shape], weight.requires_grad) for name, weight in turn.objective.named_parameters()]
    fields = sorted([*turn.batch.tokens, *turn.batch.rows])
    how = [turn.plan.precision, turn.plan.piece_tokens, len(turn.batch), turn.batch.pad]
    modules = [*turn.objective.modules()]  # the stack runs through those of its first run
    numbers = [(getattr(module, "p", None), getattr(module, "scaling", None)) for module in modules]
    return json.dumps([type(turn.objective).__name__, about, weights, fields, how, numbers], default=str)


def _accumulate_alone(turn: Turn) -> None:
    how: dict[str, Any] = {"step": turn.step, "where": turn.where, "scaler": turn.scaler}
    try:
        turn.losses = accumulate(turn.objective, turn.batch, turn.pieces, turn.plan, **how)
    except Exception as error:  # of this run, which raises it
        turn.error = error


class _Stack:
    """The weights of runs of one shape. The parameters of each run are parts of it, so its optimiser moves the stack.

    weights  for each parameter (S, ...), of which autograd computes the gradient
    """

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self.objectives = [*objectives]
        self.parameters = [*zip(*(objective.parameters() for objective in objectives), strict=True)]
        self.weights: list[Tensor] = []
        for parameters in self.parameters:
            weight = torch.stack([parameter.detach() for parameter in parameters])
            for parameter, part in zip(parameters, weight.unbind(), strict=True):
                parameter.data = part
            self.weights.append(weight.requires_grad_(parameters[0].requires_grad))
        of_first = {id(parameters[0]): weight for parameters, weight in zip(self.parameters, self.weights, strict=True)}
        self.functions: Replaced = {
            functional.linear: partial(_linear, of_first),
            functional.embedding: partial(_embedding, of_first),
            functional.layer_norm: partial(_layer_norm, of_first),
        }

    def accumulate(self, turns: Sequence[Turn]) -> None:
        first, where = turns[0], turns[0].where
        first.objective.train()
        piece = _pad([turn.batch for turn in turns], [turn.pieces[0] for turn in turns], where)
        with noise(first.plan.seed, first.step, 0, where), arithmetic(first.plan, where, self.functions):
            sums_S = first.objective.sums_by_run(piece, len(turns))
        counts = [{term: max(1, count) for term, count in turn.objective.counts(turn.batch).items()} for turn in turns]
        losses = []
        for run, (turn, count) in enumerate(zip(turns, counts, strict=True)):
            loss = torch.stack(
                [turn.objective.weights[term] * sum_S[run] / count[term] for term, sum_S in sums_S.items()]
            )
            losses.append(loss.sum() if turn.scaler is None else turn.scaler.scale(loss.sum()))
        trainable = [place for place, weight in enumerate(self.weights) if weight.requires_grad]
        weights = [self.weights[place] for place in trainable]
        gradients = torch.autograd.grad(torch.stack(losses).sum(), weights, allow_unused=True)
        for place, gradient in zip(trainable, gradients, strict=True):
            if gradient is not None:  # else the loss does not depend on this weight
                # contiguous, because a fused optimiser reads weight and gradient in the order of memory
                for parameter, part in zip(self.parameters[place], gradient.contiguous().unbind(), strict=True):
                    parameter.grad = part
        table = torch.stack([sum_S.detach() for sum_S in sums_S.values()]).cpu()
        rows = np.arange(len(first.batch))
        for run, (turn, count) in enumerate(zip(turns, counts, strict=True)):
            sums = {term: table[place, run] for place, term in enumerate(sums_S)}
            try:
                turn.losses = mean_losses(turn.objective, turn.batch, [(rows, sums)], counts=count, step=turn.step)
            except NotFiniteError as error:
                turn.error = error


def _linear(weights: Mapping[int, Tensor], input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b, (S * N, I) -> (S * N, O), in which each run has its W (S, O, I) and b (S, O).

    A single row belongs to no run: transformers puts one through the pooler that `models.heads.output_by_row` replaces.
    """
    if input.shape[:-1] == (1,):
        return functional.linear(input, weight, bias)
    weight_SOI = weights[id(weight)]
    input_SNI = input.reshape(len(weight_SOI), -1, input.shape[-1])
    if bias is None:
        output_SNO = input_SNI @ weight_SOI.mT
    else:
        output_SNO = torch.baddbmm(weights[id(bias)][:, None], input_SNI, weight_SOI.mT)
    return output_SNO.view(*input.shape[:-1], weight_SOI.shape[1])


def _embedding(weights: Mapping[int, Tensor], input: Tensor, weight: Tensor, *_: Any, **__: Any) -> Tensor:
    """(S * L, W) -> (S * L, W, D), rows of the table of each run, (S, V, D).

    The padding's row gets no gradient, with or without `padding_idx`, because no loss depends on padding.
    """
    table_SVD = weights[id(weight)]
    runs, vocabulary = table_SVD.shape[:2]
    assert input.shape[0] % runs == 0, "ids of a stack have lines of each run"
    first_S = torch.arange(0, runs * vocabulary, vocabulary, device=input.device)
    ids_SN = input.reshape(runs, -1) + first_S[:, None]
    return functional.embedding(ids_SN.view(input.shape), table_SVD.flatten(0, 1))


def _layer_norm(  # noqa: PLR0917  torch's signature
    weights: Mapping[int, Tensor],
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(S * N, D) -> (S * N, D), normalised, then scaled and shifted by what each run has, (S, D)."""
    normal = functional.layer_norm(input, normalized_shape, None, None, eps)
    if weight is None:
        return normal
    weight_SD = weights[id(weight)]
    normal_SND = normal.reshape(len(weight_SD), -1, input.shape[-1])
    if bias is None:
        return (normal_SND * weight_SD[:, None]).view(input.shape)
    return torch.addcmul(weights[id(bias)][:, None], normal_SND, weight_SD[:, None]).view(input.shape)


def _pad(batches: Sequence[Batch], layouts: Sequence[Layout], where: torch.device) -> Piece:
    """Return the piece of all runs: equally many lines of each, in their order, all of one width."""
    rows = len(batches[0])
    if max(layout.lines for layout in layouts) >= rows:
        layouts = [together(batch.lengths) for batch in batches]
    lines, width = (max(getattr(layout, name) for layout in layouts) for name in ("lines", "width"))
    batch = Batch(
        ids=np.concatenate([batch.ids for batch in batches]),
        offsets=np.concatenate([[0], np.cumsum(np.concatenate([batch.lengths for batch in batches]))]),
        tokens={name: np.concatenate([batch.tokens[name] for batch in batches]) for name in batches[0].tokens},
        rows={name: np.concatenate([batch.rows[name] for batch in batches]) for name in batches[0].rows},
        pad=batches[0].pad,
    )
    layout = Layout(
        np.concatenate([run * rows + layout.rows_R for run, layout in enumerate(layouts)]),
        np.concatenate([run * lines + layout.lines_R for run, layout in enumerate(layouts)]),
        np.concatenate([layout.starts_R for layout in layouts]),
        len(batches) * lines,
        width,
    )
    piece = pad(batch, layout, where)
    if not layout.shared:  # else counted from each row's start
        piece["position_ids"] = torch.arange(width, device=where).expand(layout.lines, -1)
    if TAGS in batch.tokens:
        piece["tagged"] = torch.from_numpy(_tagged_places(batch, layout, len(batches))).to(where)
    return piece


def _tagged_places(batch: Batch, layout: Layout, runs: int) -> np.ndarray:
    """Return (S * M,), the places of tagged tokens as `pad` has them, but equally many of each run, and each once."""
    rows = batch.take(layout.rows_R)
    first_R = layout.lines_R * layout.width + layout.starts_R
    places = np.repeat(first_R - rows.offsets[:-1], rows.lengths) + np.arange(len(rows.ids))
    tagged = np.zeros(layout.tokens, bool)
    tagged[places] = rows.tokens[TAGS] != NOT_PREDICTED
    tagged_SN = tagged.reshape(runs, -1)
    most = -(-int(tagged_SN.sum(1).max()) // ROUND) * ROUND
    order_SN = np.argsort(~tagged_SN, axis=1, kind="stable")  # those with a tag first
    return (order_SN[:, :most] + np.arange(runs)[:, None] * tagged_SN.shape[1]).ravel()
