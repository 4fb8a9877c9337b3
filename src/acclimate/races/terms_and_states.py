"""TF-IDF + encoder: one linear model on the terms of TF-IDF and on the states of an encoder that nothing trains.

    outputs = W t + V z + b        t: the terms of a text (methods/baselines.py); z: its state in standard deviations of
                                   the training rows, by the read-out that the probe chose (methods/probe.py)

W, V and b minimise what TF-IDF alone minimises, over the training rows, with a penalty of its own on V:

    one label, several labels      C sum over rows of - log p(label) + |W|^2 / 2 + |V|^2 / (2 v^2)
    a number                       sum over rows of (y - o)^2 + alpha |W|^2 + alpha |V|^2 / v^2

so v z stands beside t in the linear model. The probe's penalty on V decides v: with the probe's strength lambda and N
rows, times the number of labels if a row may have several, v = 1 / sqrt(lambda C N), and of a number
sqrt(alpha / (lambda N)). Values of v that dev chose among four did worse
(benchmarks/reports/2026-11-29-terms-and-states.md).

Dev chooses the strength and the class weights, of equals the strongest regularisation. With threshold = "dev" dev
chooses one number more, as for TF-IDF (tasks/thresholds.py). There is no seed. The terms are the longest that the
recipe of TF-IDF tries, and the strengths are the first of its list. At most CHOOSING training rows choose the settings,
and at most FITTED rows are fitted with these, drawn at random.

Shape suffixes: R rows, C labels (1 for a number), F terms, D dimensions of a state.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from scipy import sparse

from acclimate.core import files
from acclimate.core.types import COMBINED_FILE, Example, Label, Watch, counted, unwatched
from acclimate.methods import baselines, probe
from acclimate.models.encoder import save_model
from acclimate.models.formats import PROVENANCE, Pooling, times_hidden
from acclimate.models.loading import copy_licence, load_tokenizer, origin_facts
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.rows import SPANS, encode_rows, encoded, places_of
from acclimate.tasks.task import Kind
from acclimate.tasks.thresholds import decide
from acclimate.training.plan import Precision, move_to_device

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

WEIGHTS, ENCODER = "combined.safetensors", "encoder"  # beside COMBINED_FILE: its numbers, and the encoder's folder
STATES = "states"  # of the numbers: V, of states as they are


@dataclass(frozen=True, eq=False)
class TermsAndStates:
    """The linear model, fitted. Standardisation of the states is folded into V and b.

    terms       W, b and what makes the terms of a text
    states_CD   V
    read_out    what of the encoder's states V reads
    max_tokens  that the encoder reads of a text
    """

    terms: baselines.TfidfModel
    states_CD: np.ndarray
    read_out: probe.ReadOut
    max_tokens: int

    @property
    def kind(self) -> Kind:
        return self.terms.kind

    @property
    def labels(self) -> tuple[str, ...]:
        return self.terms.labels

    @property
    def linear(self) -> baselines.Linear:
        """What decodes the outputs."""
        return self.terms.linear

    def outputs(self, examples: Sequence[Example], states_RD: np.ndarray) -> np.ndarray:
        """(R, C) as of `Linear.outputs`. states_RD: of these examples, as `read_states` returns them"""
        outputs_RC: np.ndarray = self.terms.outputs(examples) + states_RD @ self.states_CD.T
        return outputs_RC


class Fit(NamedTuple):
    """What dev chose. looks: all predictions on dev among which it chose; tried: number of settings

    tokens: that the encoder read, of train and dev
    """

    model: TermsAndStates
    setting: baselines.TfidfSetting
    tried: int
    dev: float
    predicted_dev: tuple[Label, ...]
    looks: tuple[tuple[Label, ...], ...]
    tokens: int
    seconds: float


class _Look(NamedTuple):
    """A fit with one setting, and what it predicts on dev."""

    score: float
    setting: baselines.TfidfSetting
    linear: baselines.Linear
    predicted: list[Label]


def fit(
    recipe: baselines.TfidfRecipe,
    task: Prepared,
    model: str,
    layer: probe.ProbeLayer,
    *,
    precision: Precision = "float32",
    watch: Watch = unwatched,
) -> Fit:
    """Fit on the training rows, and choose the settings on dev. The test set stays sealed.

    recipe     of TF-IDF
    model      the checkpoint of the encoder
    layer      of the encoder's probe on this task
    precision  in which the encoder reads

    Raises ValueError for a kind of task without terms, and where the recipe has nothing to try.
    """
    begun = time.perf_counter()
    if task.kind not in baselines.FITS:
        raise ValueError(
            f"a task of kind '{task.kind}' has no TF-IDF baseline; these have one: {', '.join(baselines.FITS)}"
        )
    settings = baselines.settings_with_states(recipe, task.kind)
    if not settings:
        raise ValueError("tfidf has an empty list of settings. Give at least one value for each")
    train, dev = task.examples("train"), task.examples("dev")
    encoder, tokenizer = load_encoder(model)
    states, tokens = {}, 0
    for split in ("train", "dev"):
        rows = encoded(task, split, task.examples(split), tokenizer, spans=places_of(task, tokenizer))
        read = probe.states_of(encoder, rows, (layer.read_out,), precision=precision, watch=watch)
        states[split], tokens = read[layer.read_out], tokens + len(rows.ids)
    centre_D, scale_D = probe.state_scales(states["train"])
    units = {split: (states_RD - centre_D) / scale_D for split, states_RD in states.items()}
    features, train_terms = baselines.features_of(train, settings[0].longest)
    dev_terms = features(dev)
    gold, dev_gold = [example.label for example in train], [example.label for example in dev]
    looks: list[tuple[Label, ...]] = []
    order_R = np.random.default_rng(0).permutation(len(train))[: baselines.FITTED]

    def look(setting: baselines.TfidfSetting, rows_R: np.ndarray) -> _Look:
        weight = weight_of_states(setting.strength, layer.strength, len(rows_R), task)
        rows = _join_columns(train_terms[rows_R], weight * units["train"][rows_R])
        linear = baselines.FITS[task.kind](rows, [gold[row] for row in rows_R], task.labels, setting)
        others = _join_columns(dev_terms, weight * units["dev"])
        if recipe.threshold == "dev" and task.has_threshold:
            decision = decide(linear.outputs(others), dev_gold, linear.labels, task)
            linear = replace(linear, bias_C=linear.bias_C - decision.shift_C)
            looks.extend(map(tuple, decision.tried))
        predicted = linear.predict(others)
        looks.append(tuple(predicted))
        return _Look(task.score(dev_gold, predicted), setting, linear, predicted)

    rows_R = np.sort(order_R[: baselines.CHOOSING])
    fits = counted(settings, watch, "TF-IDF + encoder", total=len(settings), unit="fits", every=1)
    best = max((look(setting, rows_R) for setting in fits), key=lambda look: look.score)  # the first of equals
    if len(rows_R) < len(order_R):
        best = look(best.setting, np.sort(order_R))
    weight = weight_of_states(best.setting.strength, layer.strength, len(order_R), task)
    return Fit(
        model=TermsAndStates(
            *_folded(best.linear, features, weight / scale_D, centre_D), layer.read_out, task.max_tokens
        ),
        setting=best.setting,
        tried=len(settings),
        dev=best.score,
        predicted_dev=tuple(best.predicted),
        looks=tuple(looks),
        tokens=tokens,
        seconds=time.perf_counter() - begun,
    )


def weight_of_states(strength: float, of_probe: float, rows: int, task: Prepared) -> float:
    """Return v, by which the penalty on V is that of the probe. strength: C or alpha; of_probe: lambda"""
    if task.kind == "score":
        return float(np.sqrt(strength / (of_probe * rows)))
    several = len(task.labels) if task.kind == "multilabel" else 1  # the probe's loss is a mean over labels too
    return float(1 / np.sqrt(of_probe * strength * rows * several))


def _join_columns(terms_RF: Any, states_RD: np.ndarray) -> Any:
    return sparse.csr_array(sparse.hstack([terms_RF, sparse.csr_array(states_RD)]))


def _folded(
    linear: baselines.Linear, features: baselines.Features, unit_D: np.ndarray, centre_D: np.ndarray
) -> tuple[baselines.TfidfModel, np.ndarray]:
    """Return the model of terms and V, of states as they are. unit_D: what a state less `centre_D` was multiplied by"""
    size = len(centre_D)
    terms_CF, states_CD = linear.weights_CF[:, :-size], linear.weights_CF[:, -size:] * unit_D
    terms = replace(linear, weights_CF=terms_CF, bias_C=linear.bias_C - states_CD @ centre_D)
    return baselines.TfidfModel(features, terms), states_CD


def load_encoder(model: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the encoder of a checkpoint on this process's device, and its tokenizer."""
    encoder, _ = probe.load_encoder(model)
    move_to_device(encoder)
    return encoder, load_tokenizer(model)


def read_states(
    model: TermsAndStates,
    encoder: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    examples: Sequence[Example],
    *,
    precision: Precision = "float32",
    watch: Watch = unwatched,
) -> np.ndarray:
    """(R, D) what the model reads of the encoder's states of these texts."""
    rows = encode_rows(examples, tokenizer, model.max_tokens, model.kind, spans=SPANS[model.read_out])
    return probe.states_of(encoder, rows, (model.read_out,), precision=precision, watch=watch)[model.read_out]


def test_fitted(
    fitted: TermsAndStates, model: str, task: Prepared, *, by: str, precision: Precision, watch: Watch
) -> dict[str, Any]:
    """Predict the sealed texts, then open their labels in the name of `by`: ids, gold, predicted, test.

    model, precision: the checkpoint of the encoder, and how it was read
    """
    encoder, tokenizer = load_encoder(model)
    examples = task.examples("test")
    states_RD = read_states(fitted, encoder, tokenizer, examples, precision=precision, watch=watch)
    return task.open_and_score(examples, fitted.linear.decoded(fitted.outputs(examples, states_RD)), by=by)


def write(model: TermsAndStates, out: Path) -> None:
    """Write the model to `out/combined.json` and `out/combined.safetensors`. `write_encoder` adds the encoder."""
    about = {"read_out": model.read_out, "max_tokens": model.max_tokens}
    baselines.write_tfidf(
        model.terms, out / COMBINED_FILE, out / WEIGHTS, about=about, arrays={STATES: model.states_CD}
    )


def write_encoder(model: str, out: Path) -> None:
    """Write the encoder of a checkpoint, its tokenizer and, of the embedded encoder, the licence to `out/encoder`."""
    encoder, _ = probe.load_encoder(model)
    save_model(encoder, load_tokenizer(model), out / ENCODER)
    copy_licence(model, out / ENCODER)
    if start_facts := origin_facts(model):
        files.write_json(out / ENCODER / PROVENANCE, start_facts)


def read(directory: Path) -> TermsAndStates:
    """Return the model that `write` wrote. Raises DamagedError, naming the file, if it is none."""
    path, weights = directory / COMBINED_FILE, directory / WEIGHTS
    terms, arrays = baselines.read_tfidf(path, weights)
    about = files.read_object(path, names=("read_out", "max_tokens"))
    read_out, tokens = about["read_out"], about["max_tokens"]
    baselines.require(
        read_out in SPANS and read_out != "auto", path, f"read_out = {read_out!r:.60} is not a read-out of a probe"
    )
    baselines.require(baselines.is_count(tokens), path, f"max_tokens = {tokens!r:.60} is not a number of at least 1")
    states_CD = arrays.get(STATES, np.zeros(0))
    shape_matches = states_CD.ndim == 2 and len(states_CD) == len(terms.linear.bias_C)
    baselines.require(shape_matches, path, f"its sizes do not match {WEIGHTS}")
    baselines.require(bool(np.isfinite(states_CD).all()), weights, f"{STATES} has values that are NaN or infinite")
    return TermsAndStates(terms, states_CD, read_out, tokens)


def read_with_encoder(directory: Path) -> tuple[TermsAndStates, PreTrainedModel, PreTrainedTokenizerBase]:
    """Return what `write` and `write_encoder` wrote. Raises DamagedError, naming the file, if they do not match."""
    model, folder = read(directory), directory / ENCODER
    baselines.require((folder / "config.json").is_file(), folder, "it holds no encoder")
    encoder, tokenizer = load_encoder(str(folder))
    size = encoder.config.hidden_size * times_hidden(cast(Pooling, model.read_out))
    width = model.states_CD.shape[1]
    fault = f"{STATES} has {width:,} columns, but the encoder in {ENCODER}/ has {size:,} numbers for a text"
    baselines.require(width == size, directory / WEIGHTS, fault)
    return model, encoder, tokenizer
