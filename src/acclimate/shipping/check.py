"""What a shipped model predicts, loaded as a user would load it: by Auto classes of transformers alone, or by
models/classifier.py where the encoder has adapters, which those do not know. A classifier of pooled states (pooling
"first" or "mean"), for which transformers has no class, is the encoder by AutoModel, and its last layer on the states.

Nothing of methods/ is used here, so that agreeing with what was scored means something.

A word's tag is the one at the word's first piece, found by the characters that the tokenizer says it has read.
Sentences of more tokens than the tokenizer's model_max_length are read in the windows of tasks/rows.py, as scored.

Shape suffixes: n texts, w words of a text, C outputs (a class or tag each, or one number).
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
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from acclimate.core.prompt import prompt_length
from acclimate.core.types import NOT_PREDICTED, Example, Label, Watch, counted, unwatched
from acclimate.models.classifier import labels_of, load_finetuned
from acclimate.models.light import bottleneck_of
from acclimate.models.loading import quiet
from acclimate.models.task_layers import OF_MENTIONS, layer_of, mean_of, pooling_of, sequence_layer_of
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.rows import WORD, encode_rows
from acclimate.tasks.tags import fallback, words_of
from acclimate.tasks.task import Kind

BATCH = 16
# logits that differ by less are equal, and so are numbers by that share of their standard deviation: sums are taken in
# another order when texts are batched anew
ROUNDING = 1e-4
STEPS = 8  # between float32 numbers, where numbers hardly spread

# what the tokenizer gives of a batch -> its (B, C) logits; of a model that tags, (B, T, C) with T tokens of the longest
Forward = Callable[[dict[str, np.ndarray]], np.ndarray]
Outputs = np.ndarray | list[np.ndarray]  # (n, C); of tags (w, C) for each of n texts
WordPlaces = dict[int, int]  # word -> the position of its first piece
SentenceRow = tuple[int, list[int], WordPlaces]  # number of the sentence, token ids, places of the words asked for


@dataclass(frozen=True)
class Loaded:
    """A model and its tokenizer, as a user loads them. `logits` runs the model on a batch.

    encoder: of a classifier of pooled states what AutoModel loads; `logits` then computes as the card's code does
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    encoder: PreTrainedModel | None = None

    def logits(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        read = {name: torch.from_numpy(values) for name, values in inputs.items()}
        with torch.inference_mode():
            if self.encoder is None:
                logits_BC = self.model(**read).logits
            else:
                states_BTD = self.encoder(**read).last_hidden_state
                by_mean = pooling_of(self.model.config) == "mean"
                text_BD = mean_of(states_BTD, read["attention_mask"]) if by_mean else states_BTD[:, 0]
                logits_BC = cast(torch.nn.Linear, self.model.classifier)(text_BD)
        return cast(np.ndarray, logits_BC.float().numpy())


def load_shipped(directory: Path) -> Loaded:
    """Return a directory's model and tokenizer, loaded by transformers alone. Raises what transformers raises."""
    with quiet():
        tokenizer: Any = AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
        config: Any = AutoConfig.from_pretrained(directory, trust_remote_code=False)
        if (pooling := pooling_of(config)) in OF_MENTIONS:
            raise ValueError(
                f"{directory}: its classifier reads mentions (pooling={pooling}), which no class of transformers does. "
                f"Use it with acclimate, or fine-tune with another pooling"
            )
        if (between := sequence_layer_of(config)) != "linear":
            raise ValueError(
                f"{directory}: its classifier reads an LSTM (sequence_layer={between}), which no class of transformers "
                f"does. Use it with acclimate, or fine-tune with sequence_layer=linear"
            )
        if (layer := layer_of(config)) != "linear":
            raise ValueError(
                f"{directory}: its tags come from more than a linear layer (tag_layer={layer}), which no class of "
                f"transformers has. Use it with acclimate, or fine-tune with tag_layer=linear"
            )
        if bottleneck_of(config):
            return Loaded(load_finetuned(directory), tokenizer)
        if pooling != "pooler":
            encoder = AutoModel.from_pretrained(directory, use_safetensors=True, dtype=torch.float32)
            return Loaded(load_finetuned(directory), tokenizer, encoder)
        tags = any(name.endswith("ForTokenClassification") for name in config.architectures or ())
        auto: Any = AutoModelForTokenClassification if tags else AutoModelForSequenceClassification
        model: Any = auto.from_pretrained(directory, trust_remote_code=False, use_safetensors=True, dtype=torch.float32)
    return Loaded(model, tokenizer)


def require_own_tags(loaded: Loaded, task: Prepared) -> None:
    """Raises ValueError for a model whose tags are not the task's: what was scored was written in those."""
    if task.kind == "tokens" and (labels := labels_of(loaded.model)) != task.labels:
        raise ValueError(
            f"the model predicts the tags {', '.join(labels)} in place of {', '.join(task.labels)} (tag_scheme), "
            f"and transformers would use those. Use it with acclimate, or fine-tune with tag_scheme=given"
        )


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
    if kind == "tokens":
        return logits_of_words(examples, tokenizer, forward, size=BATCH, stage=stage, watch=watch)
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
    total = -(-len(examples) // BATCH)
    for places, inputs in counted(
        padded_batches(examples, tokenizer), watch, stage, total=total, unit="batches", every=1
    ):
        rows.update(zip(places, forward(inputs), strict=True))
    return np.stack([rows[i] for i in range(len(examples))])


def logits_of_words(
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    forward: Callable[[dict[str, np.ndarray]], np.ndarray],
    *,
    size: int,
    stage: str = "check",
    watch: Watch = unwatched,
) -> list[np.ndarray]:
    """(w, C) for each sentence; nan for a word of which the tokenizer leaves no piece. size: rows of a batch."""
    rows = sorted(_rows(examples, tokenizer), key=lambda row: -len(row[1]))
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
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
    """Return the most probable class; the sorted classes whose probability is over .5; the number itself; or the most
    probable tag of each word.
    """
    if kind == "tokens":
        return [tuple(_tag(logits_C, labels) for logits_C in logits_wC) for logits_wC in logits_nC]
    assert isinstance(logits_nC, np.ndarray)
    if kind == "sequence":
        return [labels[int(place)] for place in logits_nC.argmax(-1)]
    if kind == "multilabel":
        return [tuple(sorted(labels[int(place)] for place in np.flatnonzero(row > 0))) for row in logits_nC]
    return [float(row[0]) for row in logits_nC]


def differing(scored: Sequence[Label], logits_nC: Outputs, kind: Kind, labels: Sequence[str]) -> list[int]:
    """Places where the logits say something else than what was scored, by more than rounding can explain."""
    if kind == "score":
        assert isinstance(logits_nC, np.ndarray)
        return _other_numbers(np.array(scored, dtype=np.float64), logits_nC[:, 0])
    apart = {"sequence": _another_class, "multilabel": _other_classes, "tokens": _other_tags}[kind]
    return [i for i, label in enumerate(scored) if apart(label, logits_nC[i], labels)]


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


def _other_numbers(scored_n: np.ndarray, said_n: np.ndarray) -> list[int]:
    coarse = STEPS * float(np.finfo(np.float32).eps) * float(np.abs(scored_n).max())
    apart_n = np.abs(scored_n - said_n)
    # not "more than", which nan never is
    return [int(place) for place in np.flatnonzero(~(apart_n <= max(ROUNDING * float(scored_n.std()), coarse)))]
