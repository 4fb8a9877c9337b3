"""Vectors of texts: the numbers that sentence-transformers computes from the same directory.

A directory with modules.json says how the encoder's last hidden states become a vector: the pooling, and then linear
layers and normalisation. A directory without it gives the mean of the states, special tokens included, as
sentence-transformers does there, a fine-tuned classifier too. A classifier that was shipped with modules.json gives the
vector before its last module, the layer of the logits.

Reimers and Gurevych, "Sentence-BERT", EMNLP 2019, section 3. Shape suffixes: n texts, D numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import load_file

from acclimate.core import files
from acclimate.core.types import Batch, Example, Watch, unwatched
from acclimate.methods import probe
from acclimate.models.classifier import head_in, load_finetuned
from acclimate.models.configuration import longest_of_config
from acclimate.models.encoder import encoder_of
from acclimate.models.formats import OWN_WEIGHTS, WEIGHTS
from acclimate.models.loading import EMBEDDED, configuration, load_tokenizer
from acclimate.models.sentence_modules import LENGTHS, MODULES, SETTINGS, read_modules, sentence_modules
from acclimate.tasks.rows import encode_rows
from acclimate.training.plan import move_to_device

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

UNSTATED = 512  # tokens of a row where neither tokenizer nor model says how long it may be
WAY_OUT = "Compute the vectors with the package sentence-transformers"
_POOLINGS: dict[str, probe.ReadOut] = {"cls": "first", "cls_token": "first", "mean": "mean", "mean_tokens": "mean"}
_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"Identity": lambda x: x, "Tanh": np.tanh}
Step = Callable[[np.ndarray], np.ndarray]  # (n, D) -> (n, another D)


@dataclass(frozen=True)
class Embedder:
    """An encoder with the steps from its last hidden states to a vector.

    column      of the text in the race that the model is of; None: no race recorded it
    read_out    "mean" over all tokens, or the "first" token's state
    steps       what follows: linear layers, normalisation
    prefix      text that begins every input: the default prompt of the model
    lower       whether texts are put into lower case first
    """

    encoder: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    max_tokens: int
    column: str | None = None
    read_out: probe.ReadOut = "mean"
    steps: tuple[Step, ...] = ()
    prefix: str = ""
    lower: bool = False

    @property
    def size(self) -> int:
        """Numbers of a vector."""
        hidden = np.zeros((1, self.encoder.config.hidden_size), np.float32)
        for step in self.steps:
            hidden = step(hidden)
        return int(hidden.shape[1])

    def rows(self, texts: Sequence[str]) -> Batch:
        """Return the tokens of each text."""
        inputs = [self.prefix + text for text in texts]
        examples = [Example("", text.lower() if self.lower else text, "") for text in inputs]
        return encode_rows(examples, self.tokenizer, self.max_tokens)

    def __call__(self, texts: Sequence[str], *, watch: Watch = unwatched) -> np.ndarray:
        """Return (n, D) float32, a vector for each text. Raises ValueError if a number is NaN or infinite."""
        rows = self.rows(texts)
        vectors_nD = probe.states_of(self.encoder, rows, (self.read_out,), watch=watch)[self.read_out]
        for step in self.steps:
            vectors_nD = step(vectors_nD)
        if not np.isfinite(vectors_nD).all():
            raise ValueError(
                f"{self.encoder.name_or_path}: the vector of at least one text is NaN or infinite. Restore the weights"
            )
        return vectors_nD


def embedder_of(source: str, *, column: str | None = None) -> Embedder:
    """Return the encoder of a checkpoint or hub id, ready to compute vectors. column: as of `Embedder`

    Raises ValueError for modules that are not known here.
    """
    folder = Path(source)
    is_classifier = bool(head_in(configuration(source)).kind)
    encoder = encoder_of(load_finetuned(source)) if is_classifier else probe.load_encoder(source)[0]
    move_to_device(encoder)
    tokenizer = load_tokenizer(source)
    longest = min(tokenizer.model_max_length, longest_of_config(encoder.config) or UNSTATED)
    has_logits = (folder / OWN_WEIGHTS).is_file() and (folder / MODULES).is_file()  # by the last module of a shipment
    modules = read_modules(folder) if has_logits else sentence_modules(source)
    if modules is None:
        return Embedder(encoder, tokenizer, longest, column)
    lengths = [files.read_object(file) for file in sorted(modules.encoder.glob(LENGTHS))]
    settings = files.read_object(modules.root / SETTINGS) if (modules.root / SETTINGS).is_file() else {}
    prompt = (settings.get("prompts") or {}).get(settings.get("default_prompt_name"), "")
    read_out: probe.ReadOut = "mean"
    steps = []
    for module in modules.modules[1 : -1 if has_logits else None]:
        kind, place = module["type"].rpartition(".")[2], modules.root / module["path"]
        if kind == "Pooling":
            read_out = _read_out(place, prompt)
        elif kind == "Dense":
            steps.append(_linear_layer(place))
        elif kind == "Normalize":
            steps.append(_normalised)
        else:
            raise ValueError(f"{modules.root / MODULES}: {module['type']} is not supported. {WAY_OUT}")
    return Embedder(
        encoder,
        tokenizer,
        min([longest, *filter(None, (about.get("max_seq_length") for about in lengths))]),
        column,
        read_out,
        tuple(steps),
        prompt,
        any(about.get("do_lower_case") for about in lengths),
    )


def read_out_of(source: str) -> probe.ReadOut:
    """Return which states of an encoder, a checkpoint or hub id, become the vector of a text: "mean" or "first".

    Raises ValueError for a pooling that is not known here.
    """
    modules = None if source == EMBEDDED else sentence_modules(source)
    poolings = [module for module in modules.modules if module["type"].endswith("Pooling")] if modules else []
    return _read_out(modules.root / poolings[0]["path"], "") if modules and poolings else "mean"


def _read_out(place: Path, prompt: str) -> probe.ReadOut:
    """Return which states the pooling in a folder reads. Raises ValueError for one that is not known here."""
    path = place / "config.json"
    pooling = files.read_object(path)
    modes = [name.removeprefix("pooling_mode_") for name, value in pooling.items() if value is True]
    modes = [mode for mode in modes if f"pooling_mode_{mode}" in pooling] or [pooling.get("pooling_mode", "")]
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise ValueError(f"{path}: pooling {' and '.join(map(str, modes))} is not supported. {WAY_OUT}")
    if prompt and pooling.get("include_prompt") is False:
        raise ValueError(f"{path}: include_prompt is false, which is not supported. {WAY_OUT}")
    return _POOLINGS[modes[0]]


def _linear_layer(place: Path) -> Step:
    settings, weights = files.read_object(place / "config.json"), load_file(place / WEIGHTS)
    name = str(settings.get("activation_function", "")).rpartition(".")[2]
    if name not in _ACTIVATIONS:
        raise ValueError(f"{place / 'config.json'}: activation_function {name!r} is not supported. {WAY_OUT}")
    weight, bias = weights["linear.weight"], weights.get("linear.bias", np.float32(0))
    return lambda vectors_nD: _ACTIVATIONS[name](vectors_nD @ weight.T + bias)


def _normalised(vectors_nD: np.ndarray) -> np.ndarray:
    lengths_n1 = np.linalg.norm(vectors_nD, axis=1, keepdims=True)
    return np.asarray(vectors_nD / np.maximum(lengths_n1, 1e-12))
