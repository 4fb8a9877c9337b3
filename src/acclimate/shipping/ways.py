"""Load a shipment with each tool that the card names, and compare it with what `acclimate predict` says.

pipeline               pipeline() of transformers, with the labels and probabilities of texts, or the tags of words
sentence-transformers  SentenceTransformer(directory).encode, which gives the logits of a shipment with modules.json
ONNX                   the copies of `ship --onnx`, which shipping/onnx.py compared
acclimate predict      the reference

A directory that transformers cannot compute has to be refused by its Auto classes. Anything else raises ValueError, and
nothing is shipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from acclimate.core.types import Example
from acclimate.models.formats import PREDICT
from acclimate.models.loading import quiet
from acclimate.shipping.form import Form
from acclimate.shipping.onnx import Int8
from acclimate.shipping.predict import Prediction, Predictor, load_predictor
from acclimate.tasks.tags import words_of

PIPELINE, SENTENCE_TRANSFORMERS, ONNX = "pipeline", "sentence-transformers", "ONNX"
SAMPLE = 32  # texts that each way predicts
WINDOWED = ("tokens", "span")  # kinds of which a long text has several windows
NO_TEXT = "not tried: no test text fits"
CLOSE = 1e-4  # difference of probabilities; of numbers, as a share of their spread


@dataclass(frozen=True)
class Way:
    """One way to load the directory.

    note   why it is refused, was not tried, or predicts otherwise; "": it predicts the same
    texts  number of test texts that were compared; 0: no number is shown
    """

    name: str
    takes: bool
    note: str = ""
    texts: int = 0

    @property
    def result(self) -> str:
        texts = f" on {self.texts:,} test text{'s' * (self.texts > 1)}" if self.texts else ""
        return self.note or f"same predictions{texts}"


def try_ways(directory: Path, examples: Sequence[Example], form: Form, *, int8: Int8 | None = None) -> list[Way]:
    """Return what takes the directory, each way tried on some of the test texts.

    int8  measurements of the ONNX copies, if there are any

    Raises ValueError if a way predicts something else, or if transformers loads what it cannot compute.
    """
    predictor = load_predictor(directory)
    assert isinstance(predictor, Predictor)
    if predictor.kind in WINDOWED:  # acclimate reads longer ones in windows
        examples = [example for example in examples if _tokens(predictor, example) <= predictor.max_tokens]
    sample = examples[:SAMPLE]
    expected = predictor.predict(sample) if sample else []
    tried = (
        _refusal(directory, form.obstacle) if form.obstacle else _try_pipeline(directory, predictor, sample, expected)
    )
    ways = [tried]
    if form.has_modules:
        ways.append(_try_sentence_transformers(directory, predictor, sample, expected))
    if int8 is not None:
        ways += _onnx_ways(int8, numbers=predictor.kind == "score")
    return [*ways, Way(PREDICT, True)]


def _onnx_ways(int8: Int8, *, numbers: bool) -> list[Way]:
    """Return the results for the copies in 32 and in 8 bits."""

    def result(agreement: float, texts: str) -> str:
        if numbers:
            return f"its numbers correlate at {agreement:.4f} with the model's on {texts}"
        return f"same predictions on {agreement:.1%} of {texts}"

    return [
        Way(f"{ONNX}, 32 bits", True, result(int8.same_whole, "the dev texts")),
        Way(f"{ONNX}, 8 bits", True, result(int8.agreement, f"{int8.items:,} test texts")),
    ]


def _tokens(predictor: Predictor, example: Example) -> int:
    return len(predictor.tokenizer(example.text, example.pair or None, verbose=False)["input_ids"])


def _refusal(directory: Path, obstacle: str) -> Way:
    """Raises ValueError if an Auto class of transformers loads the directory."""
    import transformers

    for name in ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", ""):
        auto: Any = getattr(transformers, f"AutoModel{name}")
        try:
            with quiet():
                auto.from_pretrained(directory, trust_remote_code=False)
        except (ValueError, OSError):
            continue
        raise ValueError(
            f"AutoModel{name} of transformers loads the shipment, but must not, because {obstacle}. Nothing was written"
        )
    return Way(PIPELINE, False, f"refused, because {obstacle}")


def _try_pipeline(
    directory: Path, predictor: Predictor, examples: Sequence[Example], expected: Sequence[Prediction]
) -> Way:
    import transformers

    def pipeline(task: str, **settings: Any) -> Any:
        with quiet():
            factory: Any = transformers.pipeline
            return factory(task, model=str(directory), **settings)

    if predictor.kind == "span":
        return Way(PIPELINE, False, "transformers has no pipeline for answers; AutoModelForQuestionAnswering loads it")
    if not examples:
        return Way(PIPELINE, True, NO_TEXT)
    if predictor.kind == "tokens":
        tagger = pipeline("token-classification", aggregation_strategy="none", ignore_labels=[])
        for example, prediction in zip(examples, expected, strict=True):
            _compare_tags(tagger(example.text), example, prediction)
        return Way(PIPELINE, True, texts=len(examples))
    classifier = pipeline("text-classification", truncation=True)
    texts = [
        {"text": example.text, **({"text_pair": example.pair or ""} if predictor.asking.paired else {})}
        for example in examples
    ]
    if predictor.kind == "score":
        values = np.array([answer["score"] for answer in classifier(texts, function_to_apply="none")])
        _compare(PIPELINE, values, np.array([prediction.label for prediction in expected], dtype=float), numbers=True)
        return Way(PIPELINE, True, texts=len(examples))
    rows = [{answer["label"]: answer["score"] for answer in row} for row in classifier(texts, top_k=None)]
    labels = predictor.labels
    values = np.array([[row[label] for label in labels] for row in rows])
    _compare(PIPELINE, values, _probabilities(predictor, expected))
    return Way(PIPELINE, True, texts=len(examples))


def _compare_tags(pieces: Sequence[dict[str, Any]], example: Example, prediction: Prediction) -> None:
    """Raises ValueError unless the pipeline's tag at the first piece of each word is the predicted one."""
    starts = np.cumsum([0, *(len(word) + 1 for word in words_of(example.text))])
    first_pieces: dict[int, dict[str, Any]] = {}
    for piece in pieces:
        # its last character: a space before a word may belong to the word's first piece
        first_pieces.setdefault(int(np.searchsorted(starts, piece["end"] - 1, side="right")) - 1, piece)
    assert isinstance(prediction.label, tuple)
    for word, piece in first_pieces.items():
        tag, probability = prediction.label[word], prediction.of_words[word]
        if piece["entity"] != tag or abs(piece["score"] - probability) > CLOSE:
            raise ValueError(
                f"for word {word + 1} of {example.id} {PIPELINE} predicts {piece['entity']} ({piece['score']:.4f}) and "
                f"{PREDICT} {tag} ({probability:.4f}). Nothing was written"
            )


def _try_sentence_transformers(
    directory: Path, predictor: Predictor, examples: Sequence[Example], expected: Sequence[Prediction]
) -> Way:
    if find_spec("sentence_transformers") is None:
        return Way(SENTENCE_TRANSFORMERS, True, "written, not tried: the package is not installed")
    from sentence_transformers import SentenceTransformer

    paired = predictor.asking.paired
    texts = [[example.text, example.pair or ""] if paired else example.text for example in examples]
    with quiet():
        model: Any = SentenceTransformer(str(directory), device="cpu")
    logits_nC = np.asarray(model.encode(texts, show_progress_bar=False))
    if predictor.kind == "score":
        numbers = np.array([prediction.label for prediction in expected], dtype=float)
        _compare(SENTENCE_TRANSFORMERS, logits_nC[:, 0], numbers, numbers=True)
    else:
        values = expit(logits_nC) if predictor.kind == "multilabel" else softmax(logits_nC, axis=-1)
        _compare(SENTENCE_TRANSFORMERS, values, _probabilities(predictor, expected))
    return Way(SENTENCE_TRANSFORMERS, True, texts=len(examples))


def _probabilities(predictor: Predictor, predictions: Sequence[Prediction]) -> np.ndarray:
    """(n, C) probabilities of the labels, in the predictor's order."""
    return np.array([[prediction.probabilities[label] for label in predictor.labels] for prediction in predictions])


def _compare(way: str, values: np.ndarray, expected: np.ndarray, *, numbers: bool = False) -> None:
    """Raises ValueError if numbers or probabilities differ."""
    tolerance = CLOSE * max(float(np.ptp(expected)), 1e-6) if numbers else CLOSE
    difference = float(np.abs(values - expected).max())
    if not difference <= tolerance:
        raise ValueError(
            f"{way} and {PREDICT} differ by {difference:.2g} on the shipped directory; at most {tolerance:.2g} is "
            f"rounding. Nothing was written"
        )
