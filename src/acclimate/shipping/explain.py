"""Explain predictions: how much each word of a text contributes to the predicted label.

An encoder is explained by integrated gradients (Sundararajan, Taly and Yan, 2017, "Axiomatic Attribution for Deep
Networks", 1703.01365). With x the word embeddings of a row, x' those of the baseline and F the log odds of the label,

    contribution_t = sum over d of (x - x')_td integral over a in [0, 1] of dF(x' + a (x - x')) / dx_td da     Eq. 1

by Gauss-Legendre quadrature with STEPS points. The contributions add up to F(x) - F(x') (Proposition 1, completeness);
`Explanation.error` is the share that the quadrature misses. The baseline has the tokenizer's mask in place of each
token of the texts; special tokens stay, and so do positions and segments. A word has the sum of its pieces.

F is log p / (1 - p) of the predicted label: of several labels of the most probable one. Of a number it is the number.

A TF-IDF model is linear: a term contributes (w_c - mean of the other w) x, with w_c the weights of the label and x its
value in the text; of each of several labels, and of a number, w_c x. The sum is exact.

Shape suffixes: S points of the quadrature and both ends, T tokens of a row, D hidden, C labels.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from acclimate.core import files
from acclimate.core.door import option
from acclimate.core.types import Example, Watch, counted, unwatched
from acclimate.methods.baselines import TfidfModel
from acclimate.methods.task_loss import outputs_of
from acclimate.models.task_layers import pooling_of
from acclimate.reports.page import VISIBLE, templates
from acclimate.shipping.predict import (
    AnyPredictor,
    BaselinePredictor,
    CombinedPredictor,
    Prediction,
    Predictor,
    load_predictor,
    predict_file,
)
from acclimate.shipping.texts import Text
from acclimate.shipping.writers import Predicted, check_explanations
from acclimate.tasks.rows import SPANS, encode_rows
from acclimate.tasks.task import Kind
from acclimate.training.pieces import pad, together

STEPS = 32
MOST_TOKENS = 4_096  # of the path at once; with the two ends they are in memory together
MOST = 200  # texts that are explained: each takes STEPS forward and backward passes
KINDS = ("sequence", "multilabel", "score")
COSINE = "(cosine of the two texts)"


@dataclass(frozen=True)
class Word:
    """A word or term and its contribution.

    part        "text" or "pair"; "terms" of a TF-IDF model
    begin, end  characters of that part; 0 and 0 of terms
    """

    text: str
    part: str
    begin: int
    end: int
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """The contributions of the words of a text to a label.

    label     that is explained; "" of a number
    output    F(x), and baseline F(x'): the sum of the contributions is their difference
    error     |sum - difference| / max(|difference|, 1)
    """

    label: str
    words: tuple[Word, ...]
    output: float
    baseline: float
    error: float

    @property
    def largest(self) -> float:
        return max((abs(word.contribution) for word in self.words), default=0.0)


def check_explained(kind: Kind, predictor: AnyPredictor) -> None:
    """Raises ValueError if predictions of this kind or model cannot be explained."""
    what = option("explain")
    if kind not in KINDS:
        what_of = {"tokens": "tags of words", "span": "answers"}[kind]
        raise ValueError(f"{what} supports labels of whole texts and numbers, not {what_of}. Remove it")
    if isinstance(predictor, CombinedPredictor):
        raise ValueError(
            f"{what} does not support TF-IDF + encoder, whose states do not belong to words. Remove it, or explain "
            f"another contestant with {option('contestant')}"
        )
    if isinstance(predictor, Predictor) and not predictor.tokenizer.is_fast:
        raise ValueError(f"{what} needs a fast tokenizer (tokenizer.json), which says where words are. Remove it")


def explain(
    predictor: AnyPredictor, examples: Sequence[Example], predictions: Sequence[Prediction]
) -> list[Explanation]:
    """Return the explanation of each prediction. Raises ValueError as `check_explained` does."""
    check_explained(predictor.kind, predictor)
    if isinstance(predictor, BaselinePredictor):
        model = cast(TfidfModel, predictor.model)
        return [_terms(model, *both) for both in zip(examples, predictions, strict=True)]
    paired = predictor.asking.paired or any(example.pair for example in examples)
    encoder = cast(Predictor, predictor)
    return [_integrated(encoder, *both, paired=paired) for both in zip(examples, predictions, strict=True)]


def _code(prediction: Prediction, labels: Sequence[str]) -> int:
    """Return the place of the label that is explained among the labels; 0 of a number."""
    return labels.index(max(labels, key=lambda label: prediction.probabilities[label])) if labels else 0


def _terms(model: TfidfModel, example: Example, prediction: Prediction) -> Explanation:
    features, weights_CF, bias_C = model.features, model.linear.weights_CF, model.linear.bias_C
    # a label that all training rows have, or none, depends on no word
    learned_C = np.isfinite(bias_C)
    if not learned_C.any():
        return Explanation(model.labels[_code(prediction, model.labels)], (), 0.0, 0.0, 0.0)
    learned = [label for label, has in zip(model.labels, learned_C, strict=True) if has] if model.labels else []
    code = model.labels.index(learned[_code(prediction, learned)]) if learned else 0
    weights_F, bias = weights_CF[code], float(bias_C[code])
    others_C = learned_C & (np.arange(len(weights_CF)) != code)
    if model.kind == "sequence" and others_C.any():
        weights_F = weights_F - weights_CF[others_C].mean(axis=0)
        bias -= float(bias_C[others_C].mean())
    words = []
    if features.terms:
        text = f"{example.text} {example.pair}" if example.pair else example.text
        row = features.vectorizer.transform([text]).tocoo()
        for term, value in zip(row.col, row.data, strict=True):
            part = weights_F[features.column_T[term]] * features.value_T[term] * value
            words.append(Word(features.terms[term], "terms", 0, 0, float(part)))
        if features.paired:
            cosine = features([example]).toarray()[0, -1]
            words.append(Word(COSINE, "terms", 0, 0, float(weights_F[-1] * cosine)))
    words.sort(key=lambda word: -abs(word.contribution))
    total = sum(word.contribution for word in words)
    return Explanation(model.labels[code] if model.labels else "", tuple(words), bias + total, bias, 0.0)


def _integrated(predictor: Predictor, example: Example, prediction: Prediction, *, paired: bool) -> Explanation:
    model, tokenizer, code = predictor.model, predictor.tokenizer, _code(prediction, predictor.labels)
    examples = [example, Example("", "a", "", "a")] if paired else [example]  # so that it has two segments in any case
    spans = SPANS[pooling_of(model.config)]
    row = encode_rows(examples, tokenizer, predictor.max_tokens, predictor.kind, spans=spans).take(np.array([0]))
    length = len(row.ids)
    encoded = tokenizer(
        [example.text],
        [example.pair or ""] if paired else None,
        truncation=True,
        max_length=length,
        return_offsets_mapping=True,
        verbose=False,
    )
    assert encoded["input_ids"][0] == row.ids.tolist(), "the places of words are of other tokens"
    parts = encoded.sequence_ids(0)
    blanks = (tokenizer.mask_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id)
    blank = next(token for token in blanks if token is not None)
    in_texts_T = torch.tensor([part is not None for part in parts], device=model.device)
    points_S = torch.zeros(0)
    path: list[Tensor] = []

    def interpolate(_: nn.Module, __: Any, x_STD: Tensor) -> Tensor:
        assert x_STD.shape[:2] == (len(points_S), length), "rows share lines"
        baseline_TD, difference_TD = x_STD[-2].detach(), (x_STD[-1] - x_STD[-2]).detach()
        path_STD = baseline_TD + points_S.to(x_STD)[:, None, None] * difference_TD
        path[:] = [path_STD.requires_grad_(), difference_TD]
        return path[0]

    model.train(False)
    hook = model.get_input_embeddings().register_forward_hook(interpolate)
    contribution_T = np.zeros(length)
    try:
        for weights_S, points_S in _quadrature(most=max(1, MOST_TOKENS // length)):
            rows = row.take(np.zeros(len(points_S), np.int64))
            piece = pad(rows, together(rows.lengths), model.device)
            piece["input_ids"][-2, in_texts_T] = blank  # the row of x'
            with torch.enable_grad():
                output_S = _log_odds(outputs_of(model, piece), code, predictor.kind)
                [gradient_STD] = torch.autograd.grad(output_S.sum(), [path[0]])
            integral_TD = torch.einsum("s,std->td", weights_S.to(gradient_STD), gradient_STD)
            contribution_T += (path[1] * integral_TD).sum(-1).double().cpu().numpy()
    finally:
        hook.remove()
    baseline, output = output_S.detach()[-2:].tolist()
    words: dict[tuple[int, int], Word] = {}
    texts = (example.text, example.pair or "")
    pieces = zip(parts, encoded.word_ids(0), encoded["offset_mapping"][0], contribution_T.tolist(), strict=True)
    for part, word, (begin, end), value in pieces:
        if part is not None:
            before = words.get((part, word))
            first, others = (begin, 0.0) if before is None else (before.begin, before.contribution)
            words[part, word] = Word(texts[part][first:end], ("text", "pair")[part], first, end, others + value)
    difference = output - baseline
    error = abs(float(contribution_T.sum()) - difference) / max(abs(difference), 1.0)
    label = predictor.labels[code] if predictor.labels else ""
    return Explanation(label, tuple(words.values()), output, baseline, error)


def _quadrature(most: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (S,) weights and points in [0, 1] of Gauss and Legendre, at most so many points at once.

    The ends 0 and 1, of weight 0, are the last two each time.
    """
    points, weights = np.polynomial.legendre.leggauss(STEPS)
    for begin in range(0, STEPS, most):
        at = slice(begin, begin + most)
        yield torch.tensor([*(weights[at] / 2), 0.0, 0.0]), torch.tensor([*((points[at] + 1) / 2), 0.0, 1.0])


def _log_odds(output_SC: Tensor, code: int, kind: Kind) -> Tensor:
    """(S,) log p / (1 - p) of a label; of a number the number."""
    if kind != "sequence":
        return output_SC[:, code]
    others_SC = torch.cat([output_SC[:, :code], output_SC[:, code + 1 :]], dim=1)
    return output_SC[:, code] - others_SC.logsumexp(dim=1)


def predict_and_explain(
    model: str | PathLike[str],
    file: str | Path,
    out: str | Path,
    why: Path,
    *,
    contestant: str = "",
    watch: Watch = unwatched,
    **options: Any,
) -> Predicted:
    """Predict as `predict_file` does, and write the explanations of the first MOST predictions to the file `why`.

    Raises ValueError, before anything is predicted, as `check_explained` does and for another ending than EXPLAINED.
    """
    check_explanations(why, file, out)
    own_columns = bool(options.get("text") or options.get("pair"))
    predictor = load_predictor(model, contestant=contestant, own_columns=own_columns, watch=watch)
    check_explained(predictor.kind, predictor)
    texts: list[Text] = []
    predictions: list[Prediction] = []

    def collect(chunk: Sequence[Text], predicted: Sequence[Prediction]) -> None:
        room = MOST - len(texts)
        texts.extend(chunk[:room])
        predictions.extend(predicted[:room])

    output = predict_file(predictor, file, out, watch=watch, seen=collect, **options)
    steps = counted(zip(texts, predictions, strict=True), watch, "explain", total=len(texts), unit="texts", every=1)
    explanations = [one for text, predicted in steps for one in explain(predictor, [text.example], [predicted])]
    write_explanations(why, texts, predictions, explanations)
    return output


def write_explanations(
    path: Path, texts: Sequence[Text], predictions: Sequence[Prediction], explanations: Sequence[Explanation]
) -> None:
    """Write an HTML page, in which everything is escaped, or a JSON line for each text, by the ending of the path."""
    entries = list(zip(texts, predictions, explanations, strict=True))
    if path.suffix == ".html":
        rows = [
            {
                "place": text.example.id or str(text.number),
                "predicted": prediction.label,
                "probability": prediction.probabilities.get(one.label),
                "why": one,
                "parts": _stretches(text.example, one),
            }
            for text, prediction, one in entries
        ]
        page = templates().get_template("explanations.html").render(rows=rows, steps=STEPS, most=MOST)
        files.write_text(path, page.translate(VISIBLE))
        return
    lines = [
        {"row": text.number, "id": text.example.id, "predicted": prediction.label} | asdict(one)
        for text, prediction, one in entries
    ]
    files.write_text(path, "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines))


def _stretches(example: Example, why: Explanation) -> list[list[tuple[str, float, float]]]:
    """Return for each part of a text its stretches: characters, contribution, and its share of the largest one."""
    largest = why.largest or 1.0

    def stretches(part: str, whole: str) -> Iterator[tuple[str, float, float]]:
        end = 0
        for word in why.words:
            if word.part == part:
                yield whole[end : word.begin], 0.0, 0.0
                yield whole[word.begin : word.end], word.contribution, word.contribution / largest
                end = word.end
        yield whole[end:], 0.0, 0.0

    if any(word.part == "terms" for word in why.words):
        return [[(f"{word.text} ", word.contribution, word.contribution / largest) for word in why.words]]
    return [
        list(stretches(part, whole)) for part, whole in (("text", example.text), ("pair", example.pair or "")) if whole
    ]
