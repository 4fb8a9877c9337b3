"""Load a shipment in every way that users have, and compare each with what `acclimate predict` says.

pipeline               pipeline() of transformers, with the labels and probabilities of texts, or the tags of words
sentence-transformers  SentenceTransformer(directory).encode, which gives the logits of a shipment with modules.json
ONNX                   the copy of `ship --onnx`
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
from acclimate.shipping.predict import Prediction, Predictor, load_predictor
from acclimate.tasks.tags import words_of

PIPELINE, SENTENCE_TRANSFORMERS, ONNX = "pipeline", "sentence-transformers", "ONNX"
SAMPLE = 32  # texts that each way predicts
CLOSE = 1e-4  # difference of probabilities; of numbers, as a share of their spread


@dataclass(frozen=True)
class Way:
    """One way to load the directory. note: why it is refused, or was not tried; "": it predicts the same"""

    name: str
    takes: bool
    note: str = ""

    @property
    def result(self) -> str:
        return self.note or "same predictions"


def try_ways(directory: Path, examples: Sequence[Example], *, beyond: str, sentences: bool, onnx: bool) -> list[Way]:
    """Return what takes the directory, each way tried on some of the texts.

    beyond     why transformers cannot compute the model; "": it can
    sentences  whether the directory has the form of sentence-transformers
    onnx       whether it has an ONNX copy, which `copy_as_int8` compared

    Raises ValueError if a way predicts something else, or if transformers loads what it cannot compute.
    """
    predictor = load_predictor(directory)
    assert isinstance(predictor, Predictor)
    # longer texts are cut by some ways and read in windows by others
    short = [example for example in examples if _tokens(predictor, example) <= predictor.max_tokens][:SAMPLE]
    expected = predictor.predict(short)
    ways = [_refusal(directory, beyond) if beyond else _try_pipeline(directory, predictor, short, expected)]
    if sentences:
        ways.append(_try_sentence_transformers(directory, predictor, short, expected))
    if onnx:
        ways.append(Way(ONNX, True))
    return [*ways, Way(PREDICT, True)]


def _tokens(predictor: Predictor, example: Example) -> int:
    return len(predictor.tokenizer(example.text, example.pair or None, verbose=False)["input_ids"])


def _refusal(directory: Path, beyond: str) -> Way:
    """Raises ValueError if an Auto class of transformers loads the directory."""
    import transformers

    for name in ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", ""):
        auto: Any = getattr(transformers, f"AutoModel{name}")
        try:
            with quiet():
                auto.from_pretrained(directory, trust_remote_code=False)
        except (ValueError, OSError):
            continue
        raise ValueError(f"transformers' AutoModel{name} loads the shipment although {beyond}. Nothing was written")
    return Way(PIPELINE, False, f"refused, because {beyond}")


def _try_pipeline(
    directory: Path, predictor: Predictor, examples: Sequence[Example], expected: Sequence[Prediction]
) -> Way:
    import transformers

    def pipeline(task: str, **settings: Any) -> Any:
        with quiet():
            make: Any = transformers.pipeline
            return make(task, model=str(directory), **settings)

    if predictor.kind == "span":
        return Way(PIPELINE, False, "transformers has no pipeline for answers; AutoModelForQuestionAnswering loads it")
    if predictor.kind == "tokens":
        tag = pipeline("token-classification", aggregation_strategy="none", ignore_labels=[])
        for example, prediction in zip(examples, expected, strict=True):
            _compare_tags(tag(example.text), example, prediction)
        return Way(PIPELINE, True)
    ask = pipeline("text-classification", truncation=True)
    texts = [
        {"text": one.text, **({"text_pair": one.pair or ""} if predictor.asking.paired else {})} for one in examples
    ]
    if predictor.kind == "score":
        said = np.array([one["score"] for one in ask(texts, function_to_apply="none")])
        _compare(PIPELINE, said, np.array([one.label for one in expected], dtype=float), numbers=True)
        return Way(PIPELINE, True)
    rows = [{one["label"]: one["score"] for one in row} for row in ask(texts, top_k=None)]
    labels = predictor.labels
    said = np.array([[row[label] for label in labels] for row in rows])
    _compare(PIPELINE, said, np.array([[one.probabilities[label] for label in labels] for one in expected]))
    return Way(PIPELINE, True)


def _compare_tags(pieces: Sequence[dict[str, Any]], example: Example, prediction: Prediction) -> None:
    """Raises ValueError unless the pipeline's tag at the first piece of each word is the predicted one."""
    starts = np.cumsum([0, *(len(word) + 1 for word in words_of(example.text))])
    first: dict[int, dict[str, Any]] = {}
    for piece in pieces:
        # its last character: a space before a word may belong to the word's first piece
        first.setdefault(int(np.searchsorted(starts, piece["end"] - 1, side="right")) - 1, piece)
    assert isinstance(prediction.label, tuple)
    for word, piece in first.items():
        tag, probability = prediction.label[word], prediction.of_words[word]
        if piece["entity"] != tag or abs(piece["score"] - probability) > CLOSE:
            raise ValueError(
                f"{PIPELINE} gives word {word + 1} of {example.id} the tag {piece['entity']} ({piece['score']:.4f}), "
                f"and {PREDICT} {tag} ({probability:.4f}). Nothing was written"
            )


def _try_sentence_transformers(
    directory: Path, predictor: Predictor, examples: Sequence[Example], expected: Sequence[Prediction]
) -> Way:
    if find_spec("sentence_transformers") is None:
        return Way(SENTENCE_TRANSFORMERS, True, "written, not tried: the package is not installed")
    from sentence_transformers import SentenceTransformer

    texts = [[one.text, one.pair or ""] if predictor.asking.paired else one.text for one in examples]
    with quiet():
        model: Any = SentenceTransformer(str(directory), device="cpu")
    logits_nC = np.asarray(model.encode(texts, show_progress_bar=False))
    if predictor.kind == "score":
        numbers = np.array([one.label for one in expected], dtype=float)
        _compare(SENTENCE_TRANSFORMERS, logits_nC[:, 0], numbers, numbers=True)
    else:
        said = expit(logits_nC) if predictor.kind == "multilabel" else softmax(logits_nC, axis=-1)
        wanted = np.array([[one.probabilities[label] for label in predictor.labels] for one in expected])
        _compare(SENTENCE_TRANSFORMERS, said, wanted)
    return Way(SENTENCE_TRANSFORMERS, True)


def _compare(way: str, said: np.ndarray, expected: np.ndarray, *, numbers: bool = False) -> None:
    """Raises ValueError if numbers or probabilities differ."""
    most = CLOSE * max(float(np.ptp(expected)), 1e-6) if numbers else CLOSE
    difference = float(np.abs(said - expected).max()) if len(expected) else 0.0
    if not difference <= most:
        raise ValueError(
            f"{way} and {PREDICT} differ by {difference:.2g} on the shipped directory, and rounding accounts for "
            f"{most:.2g}. Nothing was written"
        )
