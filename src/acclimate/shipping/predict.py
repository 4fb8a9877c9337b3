"""Predict labels for new texts with a fine-tuned model: a shipment, that of a race, or another checkpoint. The
fitted baseline of a race, which needs no encoder, predicts likewise, and so does TF-IDF + encoder.

The rows of tokens and the forward pass are those of the race's test (tasks/rows.py, methods/task_loss.py), so a text
gets the label that the race's test gave it. Rows go through the model CHUNK at a time, short ones side by side:
memory does not grow with the file. The last digits of a number depend on which rows go together, as in any batch.

kind        probability
sequence    softmax of the outputs
multilabel  sigmoid of each output; each label above .5 is predicted. With finetune.threshold=dev the outputs of both
            kinds are shifted as dev chose (tasks/thresholds.py). A race divides the outputs of both by a temperature
            that dev chose (races/calibration.py)
score       none
tokens      of the predicted tag of each word: softmax; with a CRF the marginal over all sequences of tags; of a word
            list none
span        softmax over the different answers among the 20 best spans of every window

Shape suffixes: n texts, w words of a text, C labels, N tokens of all rows together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from scipy.special import expit, softmax

from acclimate.core import files
from acclimate.core.door import is_python, option
from acclimate.core.prompt import prompt_length
from acclimate.core.types import (
    BASELINE_FILE,
    COMBINED_FILE,
    Batch,
    Example,
    Label,
    Progress,
    Rejected,
    Watch,
    unwatched,
)
from acclimate.methods.baselines import TfidfModel, WordList, read_baseline
from acclimate.methods.ranking.bm25 import Bm25
from acclimate.methods.ranking.embedder import UNSTATED
from acclimate.methods.task_loss import outputs_of_rows, predictions_of
from acclimate.models.classifier import classifier_kind, labels_of, load_finetuned
from acclimate.models.configuration import longest_of_config
from acclimate.models.formats import OF_MENTIONS
from acclimate.models.loading import load_tokenizer
from acclimate.models.task_layers import crf_of, pooling_of
from acclimate.races import terms_and_states
from acclimate.races.terms_and_states import TermsAndStates
from acclimate.reading.source import open_source
from acclimate.shipping.texts import (
    CARD,
    Asking,
    Text,
    asking_of,
    checkpoint_in,
    ids_in,
    open_input,
    read_texts,
    texts_of_rows,
)
from acclimate.shipping.writers import NAMED, Predicted, check_columns, check_out, written
from acclimate.tasks.metrics import RANKS
from acclimate.tasks.rows import SPANS, encode_rows, word_values
from acclimate.tasks.spans import ranked_answers
from acclimate.tasks.tags import Scheme, converted, entities, scheme_of, words_of
from acclimate.tasks.task import Kind
from acclimate.training.plan import move_to_device

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CHUNK = 4096  # rows that are read, and go through the model, together
CHARACTERS = 1 << 20  # of their texts at most, but for a single longer text


@dataclass(frozen=True)
class Prediction:
    """What a model predicts for a text.

    label          as in the predictions of a race's test: one class; the sorted classes of several; a number; a tag for
                   each word; up to five answers, the best first
    probability    of the class, or of the best answer; None for other kinds
    probabilities  class -> probability; {} for other kinds
    of_words       probability of the tag of each word; () for other kinds and from a word list
    entities       (first word, last word, type, its words) for tags that name entities, in their order
    places         (begin, end) in characters of the given text, for each entity; () where a list of words was given
    answers        (answer, probability), the best first
    words          the words that have tags; () for other kinds
    """

    label: Label
    probability: float | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)
    of_words: tuple[float, ...] = ()
    entities: tuple[tuple[int, int, str, str], ...] = ()
    places: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    answers: tuple[tuple[str, float], ...] = ()
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Predictor:
    """A fine-tuned model that is loaded once and predicts as often as it is asked.

    labels  what its outputs stand for; asking.labels, where they differ, are the tags of the task's scheme
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    kind: Kind
    labels: tuple[str, ...]
    max_tokens: int
    asking: Asking

    @property
    def reads_mentions(self) -> bool:
        return pooling_of(self.model.config) in OF_MENTIONS

    def predict(self, examples: Sequence[Example], *, watch: Watch = unwatched) -> list[Prediction]:
        """Return the predictions for texts, in their order; labels of the examples are not looked at."""
        if not examples:
            return []
        inputs = with_segments(examples, self.asking, self.kind)
        spans = SPANS[pooling_of(self.model.config)]
        rows = encode_rows(inputs, self.tokenizer, self.max_tokens, self.kind, spans=spans)
        outputs = outputs_of_rows(self.model, rows, self.labels, watch=watch)
        if not np.isfinite(outputs).all():
            raise ValueError(
                f"{self.model.name_or_path}: its output for at least one text is NaN or infinite. "
                f"Restore the weights, or copy the folder again"
            )
        return self._predictions(outputs, rows, inputs)[: len(examples)]

    def _predictions(self, outputs: np.ndarray, rows: Batch, examples: Sequence[Example]) -> list[Prediction]:
        if self.kind == "span":
            return [_answered(answers) for answers in ranked_answers(outputs, rows, [one.text for one in examples])]
        if self.kind == "tokens":
            return self._tagged(outputs, rows, examples)
        return _with_probabilities(predictions_of(self.model, outputs, rows, self.labels), outputs, self)

    def _tagged(self, outputs_NC: np.ndarray, rows: Batch, examples: Sequence[Example]) -> list[Prediction]:
        crf = crf_of(self.model)
        predicted = predictions_of(self.model, outputs_NC if crf else outputs_NC.argmax(-1), rows, self.labels)
        scheme = scheme_of(self.asking.labels or self.labels)
        other = scheme is not None and self.asking.labels and self.asking.labels != self.labels
        index = {label: place for place, label in enumerate(self.labels)}
        places = word_values(np.arange(len(outputs_NC)), rows)
        predictions = []
        for example, tags, places_w in zip(examples, predicted, places, strict=True):
            assert isinstance(tags, tuple)
            has_place_w = places_w != -1
            found_wC = self._word_probabilities(outputs_NC[places_w[has_place_w]])
            codes = [index[tag] for tag, has_place in zip(tags, has_place_w, strict=True) if has_place]
            of_words = np.ones(len(tags))
            of_words[has_place_w] = found_wC[np.arange(len(codes)), codes]
            prediction = _with_entities(converted(tags, scheme) if scheme and other else tags, example, scheme)
            predictions.append(replace(prediction, of_words=tuple(of_words.tolist())))
        return predictions

    def _word_probabilities(self, outputs_wC: np.ndarray) -> np.ndarray:
        """(w, C) the probability of each tag of each word of a sentence."""
        crf = crf_of(self.model)
        if crf is None or not len(outputs_wC):
            return cast(np.ndarray, softmax(outputs_wC, axis=-1))
        emissions_1wC = torch.from_numpy(outputs_wC).to(self.model.device)[None]
        lengths_1 = torch.tensor([len(outputs_wC)], device=self.model.device)
        return crf.marginals(emissions_1wC, lengths_1)[0].cpu().numpy()


@dataclass(frozen=True)
class BaselinePredictor:
    """The fitted baseline of a race, which predicts as `Predictor` does."""

    model: TfidfModel | WordList
    asking: Asking
    reads_mentions: ClassVar[bool] = False

    @property
    def kind(self) -> Kind:
        return self.model.kind

    @property
    def labels(self) -> tuple[str, ...]:
        return self.asking.labels or self.model.labels

    def predict(self, examples: Sequence[Example], *, watch: Watch = unwatched) -> list[Prediction]:
        """Return the predictions for texts, in their order; labels of the examples are not looked at."""
        if isinstance(self.model, WordList):
            scheme = scheme_of(self.labels)
            pairs = zip(self.model.predict(examples), examples, strict=True)
            return [_with_entities(tags, example, scheme) for tags, example in pairs]
        outputs_nC = self.model.outputs(examples)
        if np.isnan(outputs_nC).any():
            raise ValueError("the baseline's outputs are NaN for a text. Copy the folder again, or repeat the race")
        return _with_probabilities(self.model.linear.decoded(outputs_nC), outputs_nC, self.model)


@dataclass(frozen=True)
class CombinedPredictor:
    """A linear model on terms and states with the encoder that it reads, which predicts as `Predictor` does."""

    model: TermsAndStates
    encoder: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    asking: Asking

    @property
    def kind(self) -> Kind:
        return self.model.kind

    @property
    def labels(self) -> tuple[str, ...]:
        return self.asking.labels or self.model.labels

    @property
    def reads_mentions(self) -> bool:
        return self.model.read_out in OF_MENTIONS

    def predict(self, examples: Sequence[Example], *, watch: Watch = unwatched) -> list[Prediction]:
        """Return the predictions for texts, in their order; labels of the examples are not looked at."""
        if not examples:
            return []
        rows = with_segments(examples, self.asking, self.kind)
        states_nD = terms_and_states.read_states(self.model, self.encoder, self.tokenizer, rows, watch=watch)
        outputs_nC = self.model.outputs(rows, states_nD)[: len(examples)]
        if np.isnan(outputs_nC).any():
            raise ValueError("the model's outputs are NaN for a text. Copy the folder again, or repeat the race")
        return _with_probabilities(self.model.linear.decoded(outputs_nC), outputs_nC, self.model)


AnyPredictor = Predictor | BaselinePredictor | CombinedPredictor


def with_segments(examples: Sequence[Example], asking: Asking, kind: Kind) -> list[Example]:
    """Return the examples, and where the race read pairs and none of these is one, a pair behind them: whether a row
    has two segments is decided for all rows together, as in the race.
    """
    lone = asking.paired and kind != "span" and not any(example.pair for example in examples)
    return [*examples, *([Example("", "a", "", "a")] if lone else [])]


def _with_probabilities(
    labels: Sequence[Label], outputs_nC: np.ndarray, model: Predictor | TfidfModel | TermsAndStates
) -> list[Prediction]:
    """Return the predictions of classes or numbers. labels: what was predicted for each text"""
    if model.kind == "score":
        return [Prediction(label) for label in labels]
    several = model.kind == "multilabel"
    found_nC = expit(outputs_nC) if several else softmax(outputs_nC, axis=-1)
    predictions = []
    for label, found_C in zip(labels, found_nC.tolist(), strict=True):
        probabilities = dict(zip(model.labels, found_C, strict=True))
        predictions.append(Prediction(label, None if several else probabilities[cast(str, label)], probabilities))
    return predictions


def _with_entities(tags: Label, example: Example, scheme: Scheme | None) -> Prediction:
    """Return the prediction of these tags for a sentence. scheme: None where they name no entities"""
    words = words_of(example.text)
    named = sorted(entities(cast(tuple[str, ...], tags))) if scheme else []
    spans = tuple((first, last, kind, " ".join(words[first : last + 1])) for first, last, kind in named)
    return Prediction(tags, entities=spans, words=tuple(words))


def _answered(ranked: Sequence[tuple[str, float]]) -> Prediction:
    best = ranked[:RANKS]
    if not best:
        return Prediction(())
    probabilities = softmax(np.array([score for _, score in ranked]))[: len(best)].tolist()
    answers = tuple((answer, probability) for (answer, _), probability in zip(best, probabilities, strict=True))
    return Prediction(tuple(answer for answer, _ in best), probabilities[0], answers=answers)


def _search_refusal(source: str) -> ValueError:
    return ValueError(f"{source} is of a search task and predicts no labels. Compute vectors with acclimate embed")


def load_predictor(
    model: str | PathLike[str], *, contestant: str = "", own_columns: bool = False, watch: Watch = unwatched
) -> AnyPredictor:
    """Return a fine-tuned model, ready to predict, on this process's device; or a linear model of a race.

    model       a shipment, the out folder of a race (its model to use), a checkpoint of fine-tuning, the `baseline` of
                a race, or the hub id of a model
    contestant  as of `checkpoint_in`
    own_columns  as of `asking_of`

    Raises ValueError for what is none of these.
    """
    source = checkpoint_in(model, contestant, watch=watch)
    asking = asking_of(source, own_columns=own_columns)
    if asking.kind == "search":
        raise _search_refusal(source)
    linear = [name for name in (BASELINE_FILE, COMBINED_FILE) if (Path(source) / name).is_file()]
    if linear:
        files.check_manifest(Path(source), edited=(CARD,), way_out="Copy the folder again, or repeat the race")
    if COMBINED_FILE in linear:
        return CombinedPredictor(*terms_and_states.read_with_encoder(Path(source)), asking)
    if linear:
        baseline = read_baseline(Path(source))
        if isinstance(baseline, Bm25):
            raise _search_refusal(source)
        return BaselinePredictor(baseline, asking)
    tokenizer, loaded = load_tokenizer(source), load_finetuned(source)
    kind = cast(Kind, classifier_kind(loaded))
    move_to_device(loaded)
    room = longest_of_config(loaded.config) or UNSTATED
    of_tokenizer = tokenizer.model_max_length - prompt_length(tokenizer)
    return Predictor(loaded, tokenizer, kind, labels_of(loaded), min(of_tokenizer, room), replace(asking, kind=kind))


def predict(
    model: str | PathLike[str] | AnyPredictor,
    rows: str | Path | Iterable[Any],
    *,
    text: str | None = None,
    pair: str | None = None,
    id: str | None = None,
    contestant: str = "",
    watch: Watch = unwatched,
) -> list[Prediction]:
    """Return the predictions for a file, or for rows in memory, in their order.

    model         as of `load_predictor`, or what that returns
    rows          path of a file, or rows: texts, pairs of texts, lists of words, or mappings by column
    text, pair, id  columns; None: those of the race
    contestant    as of `checkpoint_in`

    Raises ValueError for a row that cannot be read, with its place and the way out. `predict_file` writes a file, for
    any number of rows.
    """
    predictor = model
    if isinstance(predictor, str | PathLike):
        predictor = load_predictor(predictor, contestant=contestant, own_columns=bool(text or pair), watch=watch)
    asking = predictor.asking.with_columns(text=text, pair=pair, id=id)
    mentions = predictor.reads_mentions
    if isinstance(rows, str | Path):
        texts = read_texts(open_source(Path(rows)), asking, predictor.kind, mentions=mentions)
    else:
        texts = texts_of_rows(rows, asking, predictor.kind, mentions=mentions)
    chunks = chunked(_usable(texts, skipped=None))
    return [prediction for chunk in chunks for prediction in _predict_chunk(predictor, chunk, watch)]


def predict_file(
    model: str | PathLike[str] | AnyPredictor,
    file: str | Path,
    out: str | Path,
    *,
    text: str | None = None,
    pair: str | None = None,
    id: str | None = None,
    keep: Sequence[str] = (),
    format: str = "",
    skip_bad: bool = False,
    contestant: str = "",
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes] | None = None,
    seen: Callable[[Sequence[Text], Sequence[Prediction]], None] = lambda texts, predictions: None,
    watch: Watch = unwatched,
) -> Predicted:
    """Write a line or row with the prediction for each row of a file, in memory that does not grow with it.

    model     as of `load_predictor`, or what that returns
    file      its path; "-": standard input
    out       .csv, .tsv, .jsonl, .parquet, or .conll of a tagger; "-": JSON lines on standard output. It appears once
              it is whole
    text, pair, id  columns; None: those of the race
    contestant  as of `checkpoint_in`
    keep      columns of the file to copy to `out`
    format    of the file, if its ending does not say it: csv, tsv, jsonl, parquet, txt, conll
    skip_bad  leave out rows that cannot be read. Otherwise they raise ValueError before anything is predicted
    seen      receives the texts and their predictions, CHUNK at a time

    Raises ValueError for what cannot be read or written.
    """
    check_out(out, file, keep)
    source = checkpoint_in(model, contestant, watch=watch) if isinstance(model, str | PathLike) else model
    own_columns = bool(text or pair)
    recorded = asking_of(source, own_columns=own_columns) if isinstance(source, str) else source.asking
    asking = replace(recorded.with_columns(text=text, pair=pair, id=id), form=format)
    with open_input(file, asking, format, stdin) as opened:
        predictor = load_predictor(source, own_columns=own_columns) if isinstance(source, str) else source
        check_columns(out, predictor.kind, predictor.labels, keep)
        asking = replace(asking, kind=predictor.kind)
        read = partial(read_texts, opened, asking, predictor.kind, keep=keep, mentions=predictor.reads_mentions)
        if not skip_bad:
            switch = "skip_bad=True" if is_python() else option("skip_bad")
            for _ in _usable(read(), skipped=None, way_out=f". To skip such rows: {switch}"):
                pass
        skipped = Skipped()

        def pairs() -> Iterator[tuple[Text, Prediction]]:
            for chunk in chunked(_usable(read(), skipped=skipped), watch):
                predictions = _predict_chunk(predictor, chunk, unwatched)
                seen(chunk, predictions)
                yield from zip(chunk, predictions, strict=True)

        rows = written(
            pairs(),
            out,
            predictor.kind,
            labels=predictor.labels,
            separator=asking.separator,
            keep=keep,
            ids=ids_in(opened, asking),
            stdout=stdout,
        )
    return Predicted(str(out), rows, tuple(skipped.first), skipped.number, asking.about_probabilities)


@dataclass
class Skipped:
    """Rows that were left out: their number, and the first of them."""

    number: int = 0
    first: list[Rejected] = field(default_factory=list)

    def add(self, row: Rejected) -> None:
        self.number += 1
        if self.number <= NAMED:
            self.first.append(row)


def _predict_chunk(predictor: AnyPredictor, chunk: Sequence[Text], watch: Watch) -> list[Prediction]:
    pairs = zip(predictor.predict([text.example for text in chunk], watch=watch), chunk, strict=True)
    return [_placed(one, text.source_text) if text.source_text else one for one, text in pairs]


def _placed(prediction: Prediction, text: str) -> Prediction:
    """Return the prediction with the places of its entities in the text of which its words were made."""
    ends = [0]
    for word in prediction.words:
        ends.append(text.index(word, ends[-1]) + len(word))
    begins = [end - len(word) for end, word in zip(ends[1:], prediction.words, strict=True)]
    return replace(prediction, places=tuple((begins[first], ends[last + 1]) for first, last, *_ in prediction.entities))


def _usable(texts: Iterable[Text | Rejected], *, skipped: Skipped | None, way_out: str = "") -> Iterator[Text]:
    """Yield the texts; those that were rejected go to `skipped`, or raise ValueError if that is None.

    way_out: of the message
    """
    for text in texts:
        if isinstance(text, Text):
            yield text
        elif skipped is None:
            raise ValueError(f"{text.place}: {text.reason}{way_out}")
        else:
            skipped.add(text)


def chunked(texts: Iterator[Text], watch: Watch = unwatched, *, doing: str = "predict") -> Iterator[list[Text]]:
    """Yield the texts in lists of at most CHUNK, of at most about CHARACTERS characters together."""
    chunk: list[Text] = []
    characters = count = 0
    for text in chain(texts, [None]):
        if text is None or len(chunk) == CHUNK or characters >= CHARACTERS:
            if chunk:
                yield chunk
                count += len(chunk)
                watch(Progress(doing, count, 0, "rows"))
            chunk, characters = [], 0
        if text is not None:
            chunk.append(text)
            characters += len(text.example.text) + len(text.example.pair or "")
