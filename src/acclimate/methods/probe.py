"""Probe a frozen encoder: how well one linear layer on its states does a task, with nothing else trained.

Alain and Bengio (2016), "Understanding intermediate layers using linear classifier probes" (1610.01644), on the last
layer. A probe shows in seconds whether an adaptation changed what the encoder represents, and it has no seed. It is
also where fine-tuning begins with head = "probe": Kumar et al. (2022), "Fine-Tuning can Distort Pretrained Features and
Underperform Out-of-Distribution" (2202.10054), LP-FT.

The read-out is what the layer reads of a text:

    first   the state of its first token
    mean    the mean of the states of all its tokens, those that frame it among them
    pooler  what the encoder's pooler makes of the first token, if the checkpoint has a trained one
    mentions, mentions-mean, starts  the states of the two mentions of a relation (models/task_layers.py)
    pair    of a pair of texts the mean of each, u and v, with |u - v| and u v
    pieces  of each tagged word the state of its first piece

and the layer, with weights W and a bias b, minimises over the training rows (strength = lambda)

    sequence    mean of - log softmax(W x + b)[label]                        + lambda / 2 |W|^2
    multilabel  mean over rows and labels of - log p(the row has the label)  + lambda / 2 |W|^2
    score       mean of (W x + b - number)^2 in standard deviations          + lambda |W|^2
    tokens      as sequence, over tagged words

with x the state in standard deviations of the training rows. Read-out and strength are those with the least loss on the
folds that were left out of five, of the training rows alone: dev and test choose nothing.

Readings
  The scale of a dimension is bounded from below at a thousandth of the median scale: MiniLM's mean state has a
  dimension that is constant to 1e-28, and a layer that divides by it moves nothing else.
  Of a label that only the fold left out has, no fold can know: such rows do not count in the choice.
  b is not regularised, so that with lambda without bound the probe predicts the base rates.
  L-BFGS seeks W along the principal directions of x, with products in float32 (`_path`); its fits while choosing end
  after CHOOSING_STEPS.
  With threshold = "dev" dev chooses one number more, as in fine-tuning (tasks/thresholds.py), which is folded into b.

Shape suffixes: R rows (of tags: words), D dimensions of a state, C labels (1 for a number), F folds.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
import torch
from safetensors.numpy import load, save
from threadpoolctl import threadpool_limits

from acclimate.core import files, settings
from acclimate.core.types import (
    MENTIONS,
    NOT_PREDICTED,
    TAGS,
    Batch,
    Example,
    Label,
    Progress,
    Watch,
    counted,
    unwatched,
)
from acclimate.methods.task_loss import pieces_to_read
from acclimate.models.formats import OF_PLACES, Pooling, times_hidden
from acclimate.models.heads import output_by_row, rows_of
from acclimate.models.loading import configuration, identity, load_tokenizer, load_weights, reading
from acclimate.models.task_layers import mean_of, pooled
from acclimate.tasks.chance import nothing_learnt
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.rows import EXAMPLE, WORD, emptied, encoded, places_of, read_at_places, with_labels, word_values
from acclimate.tasks.tags import fallback
from acclimate.tasks.task import PROBED
from acclimate.tasks.thresholds import PREDICTIONS, Decision, Threshold, decide
from acclimate.training.kernels import arithmetic
from acclimate.training.loop import keep_some_freed_memory
from acclimate.training.pieces import pad
from acclimate.training.plan import Plan, Precision, move_to_device

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ReadOut = Literal["first", "mean", "pooler", "mentions", "mentions-mean", "starts", "pair", "pieces"]

STRENGTHS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # lambda, the strongest first
FOLDS = 5
LEAST_SCALE = 1e-3  # of a dimension, in medians of all scales
CHOOSING = 20_000  # rows at most that choose read-out and strength
STEPS = 200  # of L-BFGS at most; while choosing, CHOOSING_STEPS suffice to rank
CHOOSING_STEPS = 40
POOLED_FAMILIES = ("albert", "bert", "ernie")  # whose classifiers in transformers read the encoder's pooler
CHECKED = 4  # rows on which a head that begins as a probe is compared with it
FITS_KEPT = 16
WEIGHTS, ABOUT = "probe.safetensors", "probe.json"  # files of a fitted layer


@dataclass(frozen=True, eq=False)
class ProbeLayer:
    """A fitted linear layer on states as they are: standardisation is folded in.

    weight_CD, bias_C  float64; of a number in the task's unit
    loss               the mean over rows that were left out, in nats (a number: in variances)
    """

    read_out: ReadOut
    strength: float
    loss: float
    weight_CD: np.ndarray
    bias_C: np.ndarray

    def __call__(self, states_RD: np.ndarray) -> np.ndarray:
        """(R, C) the outputs: logits, or numbers."""
        outputs: np.ndarray = states_RD @ self.weight_CD.T + self.bias_C
        return outputs


@dataclass(frozen=True, eq=False)
class Probe:
    """A probe of an encoder on a task.

    losses  read-out -> its least loss on the folds left out
    dev     score on dev; predicted_dev: its predictions, in dev's order
    learnt  False if it does no better than a constant answer or than guesses (tasks/chance.py): its dev score is not
            above theirs, or its loss on rows left out is not below that of constant outputs
    tokens  that the encoder read, of train and dev
    """

    layer: ProbeLayer
    losses: Mapping[ReadOut, float]
    dev: float
    predicted_dev: tuple[Label, ...]
    learnt: bool
    tokens: int
    seconds: float


def probe(
    model: str,
    task: Prepared,
    *,
    precision: Precision = "float32",
    threshold: Threshold = "half",
    watch: Watch = unwatched,
) -> Probe:
    """Fit a probe of the checkpoint on the training rows, and score it on dev. The test set stays sealed.

    precision  in which the encoder reads
    threshold  what is predicted from the outputs (tasks/thresholds.py)

    Raises ValueError for a kind of task whose labels no state bears ("span"), and where the tokenizer leaves nothing of
    any training text.
    """
    begun = time.perf_counter()
    if task.kind not in PROBED:
        raise ValueError(f"a task of kind '{task.kind}' cannot be probed. These kinds can: {', '.join(PROBED)}")
    tokenizer = load_tokenizer(model)
    encoder, has_pooler = load_encoder(model)
    move_to_device(encoder)
    train = task.examples("train")
    spans = places_of(task, tokenizer)
    rows = with_labels(encoded(task, "train", train, tokenizer, spans=spans), train, task.kind, task.labels)
    emptied(rows, train, tokenizer)
    has_pooler = has_pooler and encoder.config.model_type in POOLED_FAMILIES
    read_outs = read_outs_of(task, tokenizer, has_pooler=has_pooler)
    target_R, labels = probe_targets(rows), max(1, len(task.labels))
    layer, losses, _ = fit_encoder(
        encoder, rows, read_outs, task, labels, model=model, precision=precision, watch=watch
    )
    dev = task.examples("dev")
    rows_of_dev = encoded(task, "dev", dev, tokenizer, spans=spans)
    states_RD = states_of(encoder, rows_of_dev, (layer.read_out,), precision=precision, watch=watch)[layer.read_out]
    predicted = decoded(layer(states_RD), rows_of_dev, task)
    looks = [predicted]
    if threshold == "dev" and task.has_threshold:
        decision = decided(layer, states_RD, task)
        layer, predicted, looks = shifted(layer, decision), decision.predicted, decision.tried
    score = task.score([example.label for example in dev], predicted)
    loss = layer.loss if math.isfinite(layer.loss) else -math.inf  # dev alone decides
    nothing = nothing_learnt(task, dev, looks, loss=loss, constant_loss=_constant_loss(target_R, task.kind, labels))
    return Probe(
        layer=layer,
        losses=losses,
        dev=score,
        predicted_dev=tuple(predicted),
        learnt=not nothing,
        tokens=len(rows.ids) + len(rows_of_dev.ids),
        seconds=time.perf_counter() - begun,
    )


class EncoderFit(NamedTuple):
    """A layer that was fitted on the training rows. losses: as of `fit`

    first_states_RD  what the layer reads of the first CHECKED rows at least, or of their words
    """

    layer: ProbeLayer
    losses: dict[ReadOut, float]
    first_states_RD: np.ndarray


_fits: OrderedDict[str, EncoderFit] = OrderedDict()  # the last ones: a head begins as the probe, for all seeds


def fit_encoder(
    encoder: PreTrainedModel,
    rows: Batch,
    read_outs: Sequence[ReadOut],
    task: Prepared,
    labels: int,
    *,
    model: str,
    precision: Precision = "float32",
    watch: Watch,
    registered: Sequence[Any] = (),
) -> EncoderFit:
    """Fit a layer on the frozen encoder's states of the training rows. This process fits equal ones once.

    rows        of task's "train", with labels
    model       the checkpoint of the encoder; registered: what was added to its vocabulary, and the seed
    """
    target_R = probe_targets(rows)
    parts = [rows.ids, rows.offsets, target_R]
    about = [identity(model), [files.sha256_of_bytes(np.ascontiguousarray(part).tobytes()) for part in parts]]
    key = settings.digest([*about, [*read_outs], labels, precision, [*registered]])
    if key not in _fits:
        states = states_of(encoder, rows, read_outs, precision=precision, watch=watch)
        groups_R = groups_of(task.examples("train"), examples_of_states(rows))
        layer, losses = fit(states, target_R, task.kind, labels, groups_R=groups_R, watch=watch)
        _fits[key] = EncoderFit(layer, losses, states[layer.read_out][: int(rows.lengths[:CHECKED].sum())])
    _fits.move_to_end(key)
    while len(_fits) > FITS_KEPT:
        _fits.popitem(last=False)
    return _fits[key]


def test_probe(
    layer: ProbeLayer, model: str, task: Prepared, *, by: str, precision: Precision, watch: Watch
) -> dict[str, Any]:
    """Predict the sealed texts, then open their labels in the name of `by`: ids, gold and predicted labels, and the
    score as `test`. model, precision: the checkpoint that the layer was fitted on, and how it was read
    """
    encoder, _ = load_encoder(model)
    move_to_device(encoder)
    examples = task.examples("test")
    tokenizer = load_tokenizer(model)
    rows = encoded(task, "test", examples, tokenizer, spans=places_of(task, tokenizer))
    states_RD = states_of(encoder, rows, (layer.read_out,), precision=precision, watch=watch)[layer.read_out]
    predicted = decoded(layer(states_RD), rows, task)
    return task.open_and_score(examples, predicted, by=by)


def write_layer(layer: ProbeLayer, out: Path) -> None:
    """Write the layer to `out/probe.json` and `out/probe.safetensors`."""
    files.write_bytes(out / WEIGHTS, save({"weight": layer.weight_CD, "bias": layer.bias_C}))
    loss = layer.loss if math.isfinite(layer.loss) else None  # JSON has no infinity
    about = {"read_out": layer.read_out, "strength": layer.strength, "loss": loss}
    files.write_json(out / ABOUT, about)


def read_layer(out: Path) -> ProbeLayer:
    """Return the layer that `write_layer` wrote."""
    weights = load((out / WEIGHTS).read_bytes())
    about = files.read_json(out / ABOUT)
    if about["loss"] is None:
        about["loss"] = math.inf
    return ProbeLayer(**about, weight_CD=weights["weight"], bias_C=weights["bias"])


def load_encoder(model: str) -> tuple[PreTrainedModel, bool]:
    """Return a checkpoint's encoder without head, in float32 and evaluation mode, and whether its pooler is trained."""
    from transformers import AutoModel

    with reading(model) as where:
        encoder, absent = load_weights(AutoModel, where, configuration(where), seed=0)
    pooler = getattr(encoder, "pooler", None) is not None and not any(name.startswith("pooler.") for name in absent)
    return encoder, pooler


def read_outs_of(task: Prepared, tokenizer: PreTrainedTokenizerBase, *, has_pooler: bool) -> tuple[ReadOut, ...]:
    """Return what a probe may read of the task's texts."""
    if task.kind == "tokens":
        return ("pieces",)
    read_outs: tuple[ReadOut, ...] = ("first", "mean", "pooler") if has_pooler else ("first", "mean")
    placed = read_at_places(task, tokenizer)
    return (*read_outs, placed) if placed else read_outs


@torch.no_grad()
def states_of(
    encoder: PreTrainedModel,
    rows: Batch,
    read_outs: Sequence[ReadOut],
    *,
    precision: Precision = "float32",
    watch: Watch = unwatched,
) -> dict[ReadOut, np.ndarray]:
    """Return read-out -> (R, D) float32, of each row, or of each word in batch order; one pass without dropout."""
    where, training = encoder.device, encoder.training
    encoder.train(False)
    words = read_outs == ("pieces",)
    first = np.flatnonzero(rows.tokens[WORD] != NOT_PREDICTED) if words else np.empty(0, np.int64)
    slot_N = np.full(len(rows.ids), -1)  # of each token that begins a word, the word's place among the states
    slot_N[first] = np.arange(len(first))
    hidden = encoder.config.hidden_size
    states: dict[ReadOut, np.ndarray] = {
        name: np.zeros((len(first) if words else len(rows), hidden * times_hidden(cast(Pooling, name))), np.float32)
        for name in read_outs
    }
    pieces = pieces_to_read(encoder, rows.lengths)
    keep_some_freed_memory()
    with arithmetic(Plan(precision=precision), where):
        for layout in counted(pieces, watch, "probe", total=len(pieces), unit="batches", every=1):
            piece = pad(rows, layout, where)
            outputs = output_by_row(encoder, piece, read="first" if {*read_outs} <= {"first", "pooler"} else "all")
            hidden_RTD, of_rows = outputs.last_hidden_state.float(), rows_of(piece)
            if words:
                for row, hidden_TD in zip(layout.rows_R, hidden_RTD.cpu().numpy(), strict=True):
                    slots_T = slot_N[rows.offsets[row] : rows.offsets[row + 1]]
                    states["pieces"][slots_T[slots_T >= 0]] = hidden_TD[: len(slots_T)][slots_T >= 0]
                continue
            for name in read_outs:
                if name == "mean":
                    there_RT = piece.get("attention_mask") if of_rows is None else of_rows.there_RT
                    read_RD = mean_of(hidden_RTD, there_RT)
                elif name in OF_PLACES:
                    read_RD = pooled(hidden_RTD, piece[MENTIONS], name)
                else:
                    read_RD = hidden_RTD[:, 0] if name == "first" else outputs.pooler_output
                states[name][layout.rows_R] = read_RD.float().cpu().numpy()
    encoder.train(training)
    return states


def probe_targets(rows: Batch) -> np.ndarray:
    """Return the labels of rows, or of words with a first piece: (R,) codes or numbers, or (R, C) zeros and ones."""
    return rows.tokens[TAGS][rows.tokens[WORD] != NOT_PREDICTED] if TAGS in rows.tokens else rows.rows["label"]


def examples_of_states(rows: Batch) -> np.ndarray:
    """(R,) the place of the example that each of `probe_targets` is of: of its row, or of the word's row."""
    if WORD not in rows.tokens:
        return np.arange(len(rows))
    first = np.flatnonzero(rows.tokens[WORD] != NOT_PREDICTED)
    example: np.ndarray = rows.rows[EXAMPLE][np.searchsorted(rows.offsets, first, side="right") - 1]
    return example


def groups_of(examples: Sequence[Example], example_R: np.ndarray) -> np.ndarray:
    """(R,) the number of the group that each of `probe_targets` is in: of a text with its copies, or of the rows of one
    group. The words of one sentence are alike, and in one group. example_R: as of `examples_of_states`
    """
    numbers: dict[Any, int] = {}
    keys = ((example.group,) if example.group else (example.text, example.pair) for example in examples)
    group_B = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
    return cast(np.ndarray, group_B[example_R])


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Limit BLAS to one thread: the products of a fit are small, and on two cores that others share, a second thread
    took 35 times as long.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        yield


@_one_thread()
def fit(
    states: Mapping[ReadOut, np.ndarray],
    target_R: np.ndarray,
    kind: str,
    labels: int,
    *,
    groups_R: np.ndarray | None = None,
    watch: Watch = unwatched,
) -> tuple[ProbeLayer, dict[ReadOut, float]]:
    """Return the layer on the read-out and at the strength that cross-validation chose, fitted on all rows; and
    read-out -> its least loss there, infinite where no fold could judge it.

    target_R  as `probe_targets` gives it
    groups_R  as `groups_of` gives it: a group is in one fold. None: each row is a group
    """
    loss_of = _LOSSES[kind]
    if kind == "score":
        centre, unit = float(np.mean(target_R)), float(np.std(target_R)) or 1.0
    else:
        centre, unit = 0.0, 1.0
    wanted_RC = _wanted(target_R, kind, labels, centre, unit)
    sample = np.random.default_rng(0).permutation(len(wanted_RC))[:CHOOSING]
    fold_R = folds_of(target_R[sample], None if groups_R is None else groups_R[sample])
    fits: dict[ReadOut, tuple[float, float]] = {}
    fit_numbers = iter(range(1, len(states) * FOLDS + 2))
    shared: dict[ReadOut, Principal | None] = {}
    for name, states_RD in states.items():
        losses = np.zeros(len(STRENGTHS))
        counted_rows = 0
        wide = len(sample) < states_RD.shape[1]  # then each fit finds its own, in far less time
        shared[name] = None
        if not wide and kind != "score":
            shared[name] = _principal(_standard(states_RD[sample], *state_scales(states_RD[sample])))
        for fold in range(FOLDS):
            watch(Progress("probe, fitting", next(fit_numbers), len(states) * FOLDS + 1, "fits"))
            held = fold_R == fold
            if not held.any() or held.all():
                continue
            inside, outside = sample[~held], sample[held]
            known_C = wanted_RC[inside].any(axis=0)
            if kind in ("sequence", "tokens"):
                outside = outside[known_C[wanted_RC[outside].argmax(1)]]
            scales = state_scales(states_RD[inside])
            x_RD, y_RD = (_standard(states_RD[rows], *scales) for rows in (inside, outside))
            path = _path(x_RD, wanted_RC[inside], kind, STRENGTHS, steps=CHOOSING_STEPS, shared=shared[name])
            for at, (weight_CD, bias_C) in enumerate(path):
                losses[at] += loss_of(y_RD @ weight_CD.T + bias_C, wanted_RC[outside])[0].sum()
            counted_rows += len(outside)
        # without two folds nothing can be compared: the strongest
        best = int(np.argmin(losses)) if counted_rows else 0
        fits[name] = (float(losses[best]) / counted_rows if counted_rows else math.inf, STRENGTHS[best])
    read_out = min(fits, key=lambda name: fits[name][0])
    loss, strength = fits[read_out]
    centre_D, scale_D = state_scales(states[read_out])
    x_RD = _standard(states[read_out], centre_D, scale_D)
    ((weight_CD, bias_C),) = _path(x_RD, wanted_RC, kind, [strength], steps=STEPS, shared=shared[read_out])
    watch(Progress("probe, fitting", next(fit_numbers), len(states) * FOLDS + 1, "fits"))
    weight_CD = unit * weight_CD / scale_D
    bias_C = unit * bias_C + centre - weight_CD @ centre_D
    least = {name: loss for name, (loss, _) in fits.items()}
    return ProbeLayer(read_out, strength, loss, weight_CD, bias_C), least


def folds_of(target_R: np.ndarray, groups_R: np.ndarray | None = None) -> np.ndarray:
    """(R,) the fold of each row. A group is in one fold, unless there are fewer groups than folds. Groups of one label,
    of a group its rarest one, or of numbers near each other, are spread over all folds.
    """
    if groups_R is None or len(np.unique(groups_R)) < FOLDS:
        groups_R = np.arange(len(target_R))
    _, first_G, group_R = np.unique(groups_R, return_index=True, return_inverse=True)
    group_R = np.argsort(np.argsort(first_G))[group_R]  # numbered in the order in which they come
    keys_R = target_R if target_R.ndim == 1 else target_R @ np.arange(1, target_R.shape[1] + 1)
    _, label_R, count_L = np.unique(keys_R, return_inverse=True, return_counts=True)
    order = np.lexsort((count_L[label_R], group_R))
    _, begins_G = np.unique(group_R[order], return_index=True)
    fold_G = np.empty(len(begins_G), np.int64)
    fold_G[np.argsort(keys_R[order][begins_G], kind="stable")] = np.arange(len(begins_G)) % FOLDS
    return fold_G[group_R]


def rows_of_rare_labels(target_R: np.ndarray, kind: str, labels: Sequence[str]) -> dict[str, int]:
    """Return the labels of fewer training rows (of tags: words) than there are folds, with the number of their rows."""
    if kind == "score":
        return {}
    counts_C = target_R.sum(0) if target_R.ndim == 2 else np.bincount(target_R, minlength=len(labels))
    return {label: int(count) for label, count in zip(labels, counts_C, strict=True) if 0 < count < FOLDS}


def _wanted(target_R: np.ndarray, kind: str, labels: int, centre: float, unit: float) -> np.ndarray:
    """(R, C) float64: ones at the labels, or the number in standard deviations."""
    if kind == "multilabel":
        return target_R.astype(np.float64)
    if kind == "score":
        return ((target_R.astype(np.float64) - centre) / unit)[:, None]
    ones_RC: np.ndarray = np.eye(labels)[target_R]
    return ones_RC


def state_scales(states_RD: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(D,) and (D,) float64, the mean and the scale of each dimension, by which the layer standardises states."""
    centre_D, scale_D = states_RD.mean(0, dtype=np.float64), states_RD.std(0, dtype=np.float64)
    least = LEAST_SCALE * float(np.median(scale_D)) or 1.0
    return centre_D, np.maximum(scale_D, least)


def _standard(states_RD: np.ndarray, centre_D: np.ndarray, scale_D: np.ndarray) -> np.ndarray:
    """(R, D) float32, the states in standard deviations."""
    x_RD: np.ndarray = (states_RD - centre_D.astype(np.float32)) / scale_D.astype(np.float32)
    return x_RD


class Principal(NamedTuple):
    """Principal directions of standardised states: the columns of turn_DP, and variance_P along each."""

    variance_P: np.ndarray
    turn_DP: np.ndarray


def _principal(x_RD: np.ndarray) -> Principal:
    """Return all D directions; of fewer rows than D those of the rows, in whose span W lies."""
    rows, size = x_RD.shape
    if rows >= size:
        variance_D, turn_DD = np.linalg.eigh(x_RD.T @ x_RD / rows)
        return Principal(np.maximum(variance_D, 0.0), turn_DD)
    variance_R, along_RR = np.linalg.eigh(x_RD @ x_RD.T / rows)
    mask_R = variance_R > variance_R[-1] * rows * np.finfo(np.float32).eps
    return Principal(variance_R[mask_R], x_RD.T @ (along_RR[:, mask_R] / np.sqrt(rows * variance_R[mask_R])))


def _path(
    x_RD: np.ndarray,
    wanted_RC: np.ndarray,
    kind: str,
    strengths: Sequence[float],
    *,
    steps: int,
    shared: Principal | None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """W (C, D) and b (C,) at each strength; a fit by L-BFGS starts from the one before.

    shared: directions along which L-BFGS seeks, of rows like these; None: those of these rows

    With the states along principal directions, z = x V, the second derivative of the loss in W V is
    r (1 - r) S + lambda at constant outputs that are the labels' rates r, S being the variances. L-BFGS seeks
    u = W V sqrt(r (1 - r) S + lambda), in which all directions are about as curved as long as outputs are near those.
    """
    rows, size = x_RD.shape
    if kind == "score":  # W = (x'x / R + lambda I)^-1 x'y / R, for all strengths by one decomposition
        x_RD = x_RD.astype(np.float64)
        if rows < size:  # the decomposition of the smaller of the two products
            _, singular_R, vectors_RD = np.linalg.svd(x_RD, full_matrices=False)
            values, vectors = singular_R**2 / rows, vectors_RD.T
        else:
            values, vectors = np.linalg.eigh(x_RD.T @ x_RD / rows)
        along = vectors.T @ (x_RD.T @ wanted_RC[:, 0]) / rows
        for strength in strengths:
            yield (vectors @ (along / (np.maximum(values, 0) + strength)))[None], wanted_RC.mean(0)
        return
    from scipy.optimize import minimize  # a dry run, which fits nothing, does without it

    variance_P, turn_DP = shared or _principal(x_RD)
    rates_C = _rates(wanted_RC)
    curved_C = rates_C * (1 - rates_C) / (len(rates_C) if kind == "multilabel" else 1)  # the loss is a mean over labels
    weight_CP, bias_C = np.zeros((len(rates_C), len(variance_P))), _constant_outputs(wanted_RC, kind)
    z_RP = x_RD @ turn_DP
    for strength in strengths:
        units = (curved_C[:, None] * variance_P + strength) ** -0.5, curved_C**-0.5
        sought = _Sought(z_RP, wanted_RC, _LOSSES[kind], strength, *units)
        begun = np.concatenate([(weight_CP / units[0]).ravel(), bias_C / units[1]])
        options = {"maxiter": steps, "gtol": 1e-4}
        flat = minimize(sought.loss_and_slope, begun, jac=True, method="L-BFGS-B", options=options).x
        weight_CP, bias_C = sought.layer(flat)
        yield weight_CP @ turn_DP.T, bias_C


@dataclass(frozen=True)
class _Sought:
    """A layer that is sought, of states along principal directions. unit_CP, unit_C: of the numbers that L-BFGS changes
    for W and for b.
    """

    z_RP: np.ndarray
    wanted_RC: np.ndarray
    loss_of: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    strength: float
    unit_CP: np.ndarray
    unit_C: np.ndarray

    def layer(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        labels = len(self.unit_C)
        return flat[:-labels].reshape(self.unit_CP.shape) * self.unit_CP, flat[-labels:] * self.unit_C

    def loss_and_slope(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the regularised mean loss, and its slope in the numbers that L-BFGS changes."""
        weight_CP, bias_C = self.layer(flat)
        loss_R, slope_RC = self.loss_of(self.z_RP @ weight_CP.T.astype(np.float32) + bias_C, self.wanted_RC)
        slope_CP = slope_RC.T.astype(np.float32) @ self.z_RP / len(self.z_RP) + self.strength * weight_CP
        value = loss_R.mean() + self.strength / 2 * np.sum(weight_CP**2)
        return float(value), np.concatenate([(slope_CP * self.unit_CP).ravel(), slope_RC.mean(0) * self.unit_C])


def _rates(wanted_RC: np.ndarray) -> np.ndarray:
    """(C,) the share of the rows that have each label, at least half a row and at most all but half a row."""
    rates_C: np.ndarray = np.clip(wanted_RC.mean(0), 1 / (2 * len(wanted_RC)), 1 - 1 / (2 * len(wanted_RC)))
    return rates_C


def _constant_outputs(wanted_RC: np.ndarray, kind: str) -> np.ndarray:
    """(C,) the logits that are best if they are the same for all rows."""
    rates_C = _rates(wanted_RC)
    logits_C: np.ndarray = np.log(rates_C) if kind != "multilabel" else np.log(rates_C / (1 - rates_C))
    return logits_C


def _constant_loss(target_R: np.ndarray, kind: str, labels: int) -> float:
    """Return the mean loss of constant outputs over the rows, in the unit of `ProbeLayer.loss`."""
    if kind == "score":
        return 1.0
    wanted_RC = _wanted(target_R, kind, labels, 0.0, 1.0)
    outputs_RC = np.broadcast_to(_constant_outputs(wanted_RC, kind), wanted_RC.shape)
    return float(_LOSSES[kind](outputs_RC, wanted_RC)[0].mean())


def _label_loss(outputs_RC: np.ndarray, wanted_RC: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(R,) - log softmax(o)[label], and (R, C) its slope in o."""
    outputs_RC = outputs_RC - outputs_RC.max(1, keepdims=True)
    share_RC = np.exp(outputs_RC)
    total_R1 = share_RC.sum(1, keepdims=True)
    loss_R = np.log(total_R1[:, 0]) - (outputs_RC * wanted_RC).sum(1)
    return loss_R, share_RC / total_R1 - wanted_RC


def _multilabel_loss(outputs_RC: np.ndarray, wanted_RC: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(R,) the mean over labels of the binary cross entropy, and (R, C) its slope in o."""
    labels = outputs_RC.shape[1]
    loss_RC = np.logaddexp(0, outputs_RC) - wanted_RC * outputs_RC
    return loss_RC.mean(1), (1 / (1 + np.exp(-outputs_RC)) - wanted_RC) / labels


def _number_loss(outputs_R1: np.ndarray, wanted_R1: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    error_R1 = outputs_R1 - wanted_R1
    return error_R1[:, 0] ** 2, 2 * error_R1


_LOSSES = {"sequence": _label_loss, "tokens": _label_loss, "multilabel": _multilabel_loss, "score": _number_loss}


def decided(
    layer: ProbeLayer, states_RD: np.ndarray, task: Prepared, *, shares: Mapping[str, float] | None = None
) -> Decision:
    """Return what scores best on dev. states_RD: of the rows of dev, by the layer's read-out; shares: as of `decide`"""
    gold = [example.label for example in task.examples("dev")]
    return decide(layer(states_RD), gold, task.labels, task, shares=shares)


def shifted(layer: ProbeLayer, decision: Decision) -> ProbeLayer:
    """Return the layer with the decision in its biases."""
    return replace(layer, bias_C=layer.bias_C - decision.shift_C)


def decoded(outputs_RC: np.ndarray, rows: Batch, task: Prepared) -> list[Label]:
    """Return the label of each example. outputs_RC: of a layer on the states of `rows` (of tags: of their words)"""
    if task.kind != "tokens":
        return PREDICTIONS[task.kind](outputs_RC, task.labels)
    codes_N = np.zeros(len(rows.ids), np.int64)
    codes_N[rows.tokens[WORD] != NOT_PREDICTED] = outputs_RC.argmax(1)
    names = [*task.labels, fallback(task.labels)]  # the last one is for -1, a word without a piece
    return [tuple(names[code] for code in codes) for codes in word_values(codes_N, rows)]
