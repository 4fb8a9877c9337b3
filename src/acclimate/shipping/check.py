"""Predict with a shipped model as a user would: loaded by the Auto classes of transformers alone.

Nothing of methods/ is used here, so agreement with the scored predictions is evidence.

A model that no class of transformers computes is loaded and asked as `acclimate predict` does (ship.py).

A word's tag is the one at the word's first piece, found by the characters that the tokenizer says it has read.
Sentences of more tokens than the tokenizer's model_max_length are read in the windows of tasks/rows.py, as scored.

Shape suffixes: n texts, w words of a text, C outputs (a class or tag each, or one number; of spans begin and end).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from acclimate.core.prompt import prompt_length
from acclimate.core.types import NOT_PREDICTED, Batch, Example, Label, Watch, counted, unwatched
from acclimate.models.formats import OF_MENTIONS
from acclimate.models.light import bottleneck_of
from acclimate.models.loading import quiet
from acclimate.models.task_layers import layer_of, pooling_of, sequence_layer_of
from acclimate.tasks.metrics import RANKS
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.rows import WORD, encode_rows
from acclimate.tasks.spans import ranked_answers
from acclimate.tasks.tags import fallback, words_of
from acclimate.tasks.task import Kind
from acclimate.tasks.thresholds import PREDICTIONS

BATCH = 16
# logits that differ by less are equal, and so are numbers by that share of their standard deviation: sums are taken in
# another order when texts are batched anew
ROUNDING = 1e-4
STEPS = 8  # between float32 numbers, where numbers hardly spread

# what the tokenizer gives of a batch -> its (B, C) logits; of a model that tags, (B, T, C) with T tokens of the longest
Forward = Callable[[dict[str, np.ndarray]], np.ndarray]
Answers = list[tuple[str, float]]  # the different answers to a question with their scores, the best first
Outputs = np.ndarray | list[np.ndarray] | list[Answers]  # (n, C); of tags (w, C), of spans answers for each of n texts
WordPlaces = dict[int, int]  # word -> the position of its first piece
SentenceRow = tuple[int, list[int], WordPlaces]  # number of the sentence, token ids, places of the words asked for


@dataclass(frozen=True)
class Loaded:
    """A model and its tokenizer. `logits` runs the model on a batch."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase

    def logits(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        with torch.inference_mode():
            outputs = self.model(**{name: torch.from_numpy(values) for name, values in inputs.items()})
        return logits_in(outputs).float().numpy()


def logits_in(outputs: Any) -> torch.Tensor:
    """Return what a model's head gives; of spans (B, T, 2)."""
    if "start_logits" in outputs:
        return torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)
    return cast(torch.Tensor, outputs.logits)


def text_obstacle(config: PreTrainedConfig, task: Prepared) -> str:
    """Return, as the end of a sentence, why a classifier needs more than tokens and a linear layer; "" if it does not.

    Such a model cannot be exported as ONNX either.
    """
    if (pooling := pooling_of(config)) in OF_MENTIONS:
        return f"it reads a relation at its two mentions (finetune.pooling = {pooling})"
    if pooling == "pair":
        return "it compares the states of the two texts of a pair (finetune.pooling = pair)"
    if (between := sequence_layer_of(config)) != "linear":
        what = {
            "bilstm": "it reads an LSTM over the encoder's states",
            "mlp": "it has a dense layer and tanh before its last layer",
        }
        return f"{what[between]} (finetune.sequence_layer = {between})"
    if (layer := layer_of(config)) != "linear":
        return f"its tags come from more than a linear layer (finetune.tag_layer = {layer})"
    names: Any = config.id2label
    if task.kind == "tokens" and tuple(names[number] for number in range(len(names))) != task.labels:
        return "its tags are of another scheme than the data's (finetune.tag_scheme), and are converted"
    return ""


def native_obstacle(config: PreTrainedConfig, task: Prepared) -> str:
    """Return, as the end of a sentence, why no class of transformers computes a classifier; "" if one does."""
    if obstacle := text_obstacle(config, task):
        return obstacle
    if width := bottleneck_of(config):
        return f"its encoder has adapters of {width} dimensions in each layer"
    read_outs = {"mean": "the mean state of all tokens", "first": "the state of the first token by a linear layer"}
    if (pooling := pooling_of(config)) in read_outs:
        return f"it reads {read_outs[pooling]} (finetune.pooling = {pooling})"
    return ""


def load_shipped(directory: Path) -> Loaded:
    """Return a directory's model and tokenizer, loaded by transformers alone. Raises what transformers raises."""
    with quiet():
        tokenizer: Any = AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
        config: Any = AutoConfig.from_pretrained(directory, trust_remote_code=False)
        endings = {
            "ForTokenClassification": AutoModelForTokenClassification,
            "ForQuestionAnswering": AutoModelForQuestionAnswering,
        }
        names = (auto for name in config.architectures or () for end, auto in endings.items() if name.endswith(end))
        auto: Any = next(names, AutoModelForSequenceClassification)
        model: Any = auto.from_pretrained(directory, trust_remote_code=False, use_safetensors=True, dtype=torch.float32)
    return Loaded(model, tokenizer)


def outputs_of_examples(
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    forward: Forward,
    kind: Kind,
    *,
    stage: str = "check",
    watch: Watch = unwatched,
) -> Outputs:
    """Return what `decoded` and `differing` read, in the order of the examples."""
    if kind == "span":
        return answers_of(examples, tokenizer, forward, stage=stage, watch=watch)
    if kind == "tokens":
        return logits_of_words(examples, tokenizer, forward, stage=stage, watch=watch)
    return logits_of(examples, tokenizer, forward, stage=stage, watch=watch)


def padded_batches(
    examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, *, size: int = BATCH
) -> Iterator[tuple[list[int], dict[str, np.ndarray]]]:
    """(places of the examples, their (B, T) inputs), texts of like length together, the longest first.

    Texts are cut where the tokenizer's model_max_length says.
    """
    order = sorted(range(len(examples)), key=lambda i: -len(examples[i].text) - len(examples[i].pair or ""))
    paired = any(example.pair for example in examples)
    for start in range(0, len(order), size):
        places = order[start : start + size]
        texts = [examples[i].text for i in places]
        pairs = [examples[i].pair or "" for i in places] if paired else None
        encoded = tokenizer(texts, pairs, truncation=True, padding=True, return_tensors="np")
        yield places, {name: np.asarray(values, dtype=np.int64) for name, values in encoded.items()}


def batches_of(
    examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, kind: Kind, *, size: int = BATCH
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the (B, T) inputs of the texts, those of like length together, the longest first."""
    if kind == "span":
        most = tokenizer.model_max_length - prompt_length(tokenizer)
        yield from (inputs for _, inputs in windows(encode_rows(examples, tokenizer, most, kind), tokenizer, size=size))
        return
    yield from (inputs for _, inputs in padded_batches(examples, tokenizer, size=size))


def logits_of(
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    forward: Forward,
    *,
    stage: str = "check",
    watch: Watch = unwatched,
) -> np.ndarray:
    """(n, C) in the order of the examples."""
    rows: dict[int, np.ndarray] = {}
    total, batches = -(-len(examples) // BATCH), padded_batches(examples, tokenizer)
    for places, inputs in counted(batches, watch, stage, total=total, unit="batches", every=1):
        rows.update(zip(places, forward(inputs), strict=True))
    return np.stack([rows[i] for i in range(len(examples))])


def logits_of_words(
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    forward: Forward,
    *,
    stage: str = "check",
    watch: Watch = unwatched,
) -> list[np.ndarray]:
    """(w, C) for each sentence; nan for a word of which the tokenizer leaves no piece."""
    rows = sorted(_rows(examples, tokenizer), key=lambda row: -len(row[1]))
    parts = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
    logits: list[np.ndarray | None] = [None] * len(examples)
    for part in counted(parts, watch, stage, total=len(parts), unit="batches", every=1):
        padded = tokenizer.pad({"input_ids": [ids for _, ids, _ in part]}, return_tensors="np", verbose=False)
        logits_BTC = forward({name: np.asarray(values, dtype=np.int64) for name, values in _inputs(padded, tokenizer)})
        for (sentence, _, places), logits_TC in zip(part, logits_BTC, strict=True):
            said_wC = logits[sentence]
            if said_wC is None:
                said_wC = np.full((len(words_of(examples[sentence].text)), logits_TC.shape[-1]), np.nan)
                logits[sentence] = said_wC
            said_wC[list(places)] = logits_TC[list(places.values())]
    return [said_wC for said_wC in logits if said_wC is not None]


def answers_of(
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    forward: Forward,
    *,
    stage: str = "check",
    watch: Watch = unwatched,
) -> list[Answers]:
    """Return the answers to each question, from all windows of its contexts."""
    rows = encode_rows(examples, tokenizer, tokenizer.model_max_length - prompt_length(tokenizer), "span")
    scores_N2 = np.zeros((len(rows.ids), 2), np.float32)
    parts = list(windows(rows, tokenizer))
    for places, inputs in counted(parts, watch, stage, total=len(parts), unit="batches", every=1):
        for row, logits_T2 in zip(places, forward(inputs), strict=True):
            scores_N2[rows.offsets[row] : rows.offsets[row + 1]] = logits_T2[: rows.lengths[row]]
    return ranked_answers(scores_N2, rows, [example.text for example in examples])


def windows(
    rows: Batch, tokenizer: PreTrainedTokenizerBase, *, size: int = BATCH
) -> Iterator[tuple[list[int], dict[str, np.ndarray]]]:
    """(numbers of rows, their (B, T) inputs), rows of like length together, the longest first. rows: of questions"""
    order = np.argsort(-rows.lengths, kind="stable").tolist()
    for start in range(0, len(order), size):
        places = order[start : start + size]
        width = int(rows.lengths[places].max())
        fields = {"input_ids": rows.ids, "attention_mask": np.ones(len(rows.ids), np.int64)}
        if "token_type_ids" in tokenizer.model_input_names:
            fields["token_type_ids"] = rows.tokens["token_type_ids"]
        inputs = {}
        for name, values_N in fields.items():
            inputs[name] = np.full((len(places), width), rows.pad if name == "input_ids" else 0, dtype=np.int64)
            for line, row in enumerate(places):
                inputs[name][line, : rows.lengths[row]] = values_N[rows.offsets[row] : rows.offsets[row + 1]]
        yield places, inputs


def _inputs(padded: Any, tokenizer: PreTrainedTokenizerBase) -> list[tuple[str, np.ndarray]]:
    """Return what the tokenizer itself would give: one text is of token type 0."""
    named = dict(padded)
    if "token_type_ids" in tokenizer.model_input_names:
        named["token_type_ids"] = np.zeros_like(named["input_ids"])
    return [(name, named[name]) for name in tokenizer.model_input_names if name in named]


def _rows(examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase) -> list[SentenceRow]:
    encoded = tokenizer([example.text for example in examples], return_offsets_mapping=True, verbose=False)
    rows: list[SentenceRow] = []
    long = []
    for sentence, (ids, offsets) in enumerate(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)):
        if len(ids) > tokenizer.model_max_length:
            long.append(sentence)
            continue
        starts = [0, *accumulate(len(word) + 1 for word in words_of(examples[sentence].text))]
        places: WordPlaces = {}
        for position, (start, end) in enumerate(offsets):
            if end > start:
                # its last character: a space before a word may belong to the word's first piece
                places.setdefault(bisect_right(starts, end - 1) - 1, position)
        rows.append((sentence, ids, places))
    return rows + _windows([examples[sentence] for sentence in long], long, tokenizer)


def _windows(
    examples: Sequence[Example], numbers: Sequence[int], tokenizer: PreTrainedTokenizerBase
) -> list[SentenceRow]:
    if not examples:
        return []
    batch = encode_rows(examples, tokenizer, tokenizer.model_max_length - prompt_length(tokenizer), "tokens")
    rows = []
    for row, sentence in enumerate(batch.rows["example"].tolist()):
        part = slice(batch.offsets[row], batch.offsets[row + 1])
        words = batch.tokens[WORD][part]
        places = {int(words[position]): int(position) for position in np.flatnonzero(words != NOT_PREDICTED)}
        rows.append((numbers[sentence], batch.ids[part].tolist(), places))
    return rows


def decoded(logits_nC: Outputs, kind: Kind, labels: Sequence[str]) -> list[Label]:
    """Return the most probable class; the sorted classes whose probability is over .5; the number itself; the most
    probable tag of each word; or the best answers.
    """
    if kind == "span":
        return [tuple(answer for answer, _ in answers[:RANKS]) for answers in cast(list[Answers], logits_nC)]
    if kind == "tokens":
        words = cast(list[np.ndarray], logits_nC)
        return [tuple(_tag(logits_C, labels) for logits_C in logits_wC) for logits_wC in words]
    assert isinstance(logits_nC, np.ndarray)
    return PREDICTIONS[kind](logits_nC, labels)


def differing(scored: Sequence[Label], logits_nC: Outputs, kind: Kind, labels: Sequence[str]) -> list[int]:
    """Places where the logits say something else than what was scored, by more than rounding can explain."""
    if kind == "score":
        assert isinstance(logits_nC, np.ndarray)
        scored_n = np.array(scored, dtype=np.float64)
        coarse = STEPS * float(np.finfo(np.float32).eps) * float(np.abs(scored_n).max())
        apart_n = np.abs(scored_n - logits_nC[:, 0])
        # not "more than", which nan never is
        return [int(place) for place in np.flatnonzero(~(apart_n <= max(ROUNDING * float(scored_n.std()), coarse)))]
    if kind == "span":
        answers = cast(list[Answers], logits_nC)
        return [i for i, label in enumerate(scored) if _other_answers(cast(tuple[str, ...], label), answers[i])]
    apart = {"sequence": _another_class, "multilabel": _other_classes, "tokens": _other_tags}[kind]
    logits = cast(Sequence[np.ndarray], logits_nC)
    return [i for i, label in enumerate(scored) if apart(label, logits[i], labels)]


def _other_answers(scored: tuple[str, ...], ranked: Answers) -> bool:
    """True unless the scored answers are the best ones, in an order that rounding explains."""
    scores = dict(ranked)
    if len(scored) != min(RANKS, len(ranked)) or not {*scored} <= scores.keys():
        return True
    return any(abs(scores[answer] - score) > ROUNDING for answer, (_, score) in zip(scored, ranked, strict=False))


def _another_class(scored: Label, logits_C: np.ndarray, labels: Sequence[str]) -> bool:
    return scored not in labels or bool(logits_C.max() - logits_C[labels.index(cast(str, scored))] > ROUNDING)


def _other_classes(scored: Label, logits_C: np.ndarray, labels: Sequence[str]) -> bool:
    named = set(cast(tuple[str, ...], scored))
    wanted_C = np.array([label in named for label in labels])
    return bool((np.abs(logits_C[(logits_C > 0) != wanted_C]) > ROUNDING).any()) or not named <= set(labels)


def _other_tags(scored: Label, logits_wC: np.ndarray, labels: Sequence[str]) -> bool:
    tags = cast(tuple[str, ...], scored)
    return len(tags) != len(logits_wC) or any(
        tag != fallback(labels) if np.isnan(logits_C).any() else _another_class(tag, logits_C, labels)
        for tag, logits_C in zip(tags, logits_wC, strict=True)
    )


def _tag(logits_C: np.ndarray, labels: Sequence[str]) -> str:
    return fallback(labels) if np.isnan(logits_C).any() else labels[int(logits_C.argmax())]
