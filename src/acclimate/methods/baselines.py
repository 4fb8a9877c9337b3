"""Baselines without an encoder: TF-IDF with a linear model, a constant answer, and a word list.

TF-IDF of words, or of words and pairs of adjacent words, t, L2-normalised, with a linear model:

    x_t = (1 + ln tf_t) idf_t, then x / |x|
    one label       softmax(W x + b)                minimise  C sum over rows of - log p(label) + |W|^2 / 2
    several labels  sigmoid(w x + b), one a label   minimise  the same
    a number        w x + b                         minimise  sum over rows of (y - w x - b)^2 + alpha |w|^2

A row counts once, or, where the classes are balanced, R / (C rows of its class) times, so that all classes count alike.
C or alpha, the weights of classes and the length of a term are chosen on dev, as every contestant's checkpoint is; of
equals the strongest regularisation wins. In a race it tries as many settings as each encoder, in an order that is fixed
before any score (`TfidfRecipe.tried`). With threshold = "dev" dev chooses one number more (tasks/thresholds.py). A pair
of texts is one text, with a space between, and beside x stands the cosine of the two texts' own vectors, since a sum
over terms cannot compare them. It sees the whole text, where encoders see `max_tokens`. There is no seed: one fit
stands beside every seed of the others, so its variance over seeds is 0.

Constant: the answer, the same for all texts, that scores best on the training labels; of equals the commonest. One
label a text: for accuracy it is the majority class, for a metric that leaves a class out it is another. Several: no
label, the commonest set of them, or any number of the most frequent ones. Tags: one for every word. A number: the mean,
whose correlation with anything is 0.

Word list, for tagged words: a word gets the tag that it has most often in the training sentences, spelt the same; else
that of the word in lower case; a word that never occurs there gets the most frequent tag of all words that occur once,
which are most like new words. Of equals the first by name wins. CoNLL's baseline (Tjong Kim Sang and De Meulder, 2003,
section 4.1) looks up whole entities instead of words. Neither of these two has a setting, so dev is only scored.

Shape suffixes: R rows, C labels, T terms, F features.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from acclimate.core import files
from acclimate.core.settings import AboveZero, Count, Positive, check_ranges
from acclimate.core.types import BASELINE_FILE, Example, Label, Watch, counted, unwatched
from acclimate.methods.ranking.bm25 import BM25, Bm25
from acclimate.tasks.constant import ANSWERS, constant_answers
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.tags import words_of
from acclimate.tasks.task import Kind
from acclimate.tasks.thresholds import PREDICTIONS, Threshold, decide
from acclimate.text.scripts import plain
from acclimate.text.scripts import terms as terms_of

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

BASELINE = "TF-IDF"
DICTIONARY = "word list"  # of tasks in which words have tags
WEIGHTS = "baseline.safetensors"
STRENGTHS = 2  # of those that TF-IDF tries, beside an encoder's states
CHOOSING, FITTED = 5_000, 50_000  # rows at most that choose its settings there, and that are fitted: states fill memory

ClassWeights = Literal["balanced", "equal"]
Labels = Sequence[Label]


@dataclass(frozen=True)
class TfidfSetting:
    """One of the settings that are tried.

    strength       C or alpha
    class_weights  "equal" for a number, which has no classes
    longest        most words in a term
    """

    strength: float
    class_weights: ClassWeights
    longest: int

    def text(self, kind: str) -> str:
        """Return the setting in words, for a task of this kind."""
        terms = "words" if self.longest == 1 else f"terms of 1 to {self.longest} words"
        if kind == "score":
            return f"alpha {self.strength:g}, {terms}"
        return f"C {self.strength:g}, {self.class_weights} classes, {terms}"

    def scikit_learn_code(self, kind: str) -> str:
        """Return the model as scikit-learn's users write it, for texts and labels of a task of this kind; of several
        labels one column each, from .5 on. Of pairs it lacks the cosine, and in any case a threshold that dev chose.
        """
        terms = f"TfidfVectorizer(sublinear_tf=True, ngram_range=(1, {self.longest}))"
        if kind == "score":
            return f"make_pipeline({terms}, Ridge(alpha={self.strength:g}))"
        weights = ', class_weight="balanced"' * (self.class_weights == "balanced")
        linear = f"LogisticRegression(C={self.strength:g}{weights}, max_iter=2000)"
        return f"make_pipeline({terms}, {f'OneVsRestClassifier({linear})' if kind == 'multilabel' else linear})"


@dataclass(frozen=True)
class TfidfRecipe:
    """The settings that are tried on dev. Each list is in order of preference."""

    strengths: tuple[AboveZero, ...] = (10.0, 1.0, 100.0, 0.1, 1000.0)
    """Values of C to try in logistic regression, the preferred one first."""
    alphas: tuple[AboveZero, ...] = (1.0, 10.0, 0.1, 100.0, 0.01)
    """Values of alpha to try in ridge regression, for numbers, the preferred one first."""
    class_weights: tuple[ClassWeights, ...] = ("balanced", "equal")
    """What to try: with "balanced" all classes have the same weight, with "equal" all rows have."""
    longest: tuple[Positive, ...] = (2, 1)  # numbers of words that a term may have at most, to try
    trials: Count = 0
    """Largest number of settings to try, preferred combinations first; 0: all. A race tries as many as for an
    encoder."""
    threshold: Threshold = "half"
    """What is predicted from the outputs. "half": the most probable class; for several labels, each above 0.5. "dev":
    the rule that scores best on dev, as in finetune.threshold. In a race it follows finetune.threshold, so that all
    contestants choose in the same way."""

    def __post_init__(self) -> None:
        check_ranges(self)

    def tried(self, kind: str) -> tuple[TfidfSetting, ...]:
        """Return the settings tried for a task of this kind, the preferred one first.

        Preferred is a small sum of the places in the three lists; of equals the one whose strength, then whose weights
        come first. So the first three have the preferred strength, and vary weights and longest terms. It is not the
        order of the dev scores: those of eleven published datasets are in benchmarks/reports/2026-11-23-tfidf.md. C of
        10, 1 and 100 in their place (2,000 training rows at most) had 57.3 macro-F1 on dev where these three have 56.7,
        but 68.4 micro-F1 where they have 69.3, and on test 52.7 for 52.4 and 66.5 for 67.5: weights matter as much.
        """
        places = {
            (strength, weights, longest): (at_strength + at_weights + at_longest, at_strength, at_weights)
            for at_strength, strength in enumerate(self.alphas if kind == "score" else self.strengths)
            for at_weights, weights in enumerate(("equal",) if kind == "score" else self.class_weights)
            for at_longest, longest in enumerate(self.longest)
        }
        preferred = [TfidfSetting(*values) for values in sorted(places, key=lambda values: places[values])]
        return tuple(preferred[: self.trials or None])

    def only(self, setting: TfidfSetting) -> TfidfRecipe:
        """Return the recipe with this one setting to try, whatever the kind."""
        one, weights, longest = (setting.strength,), (setting.class_weights,), (setting.longest,)
        return replace(self, strengths=one, alphas=one, class_weights=weights, longest=longest)


def settings_with_states(recipe: TfidfRecipe, kind: str) -> tuple[TfidfSetting, ...]:
    """Return the settings that are tried beside an encoder's states (races/terms_and_states.py), the strongest
    regularisation first.
    """
    longest = (max(recipe.longest),) if recipe.longest else ()
    few = replace(recipe, strengths=recipe.strengths[:STRENGTHS], alphas=recipe.alphas[:STRENGTHS], longest=longest)
    return tuple(sorted(few.tried(kind), key=lambda tried: tried.strength, reverse=kind == "score"))


@dataclass(frozen=True)
class FittedBaseline:
    """A fitted baseline.

    setting  what dev chose; None where there was nothing to choose
    looks    all predictions on dev among which was chosen
    tokens   number of words of the training texts that were used
    model    what predicts, and can be kept; None for a constant answer
    """

    setting: TfidfSetting | None
    dev: float
    predicted_dev: tuple[Label, ...]
    looks: tuple[tuple[Label, ...], ...]
    tokens: int
    seconds: float
    predict: Callable[[Sequence[Example]], list[Label]]
    model: BaselineModel | None = None


def fit_tfidf(recipe: TfidfRecipe, task: Prepared, *, watch: Watch = unwatched) -> FittedBaseline:
    """Fit for each setting and choose on dev; of equals the strongest regularisation wins. The test set stays sealed.

    Raises ValueError where there is nothing to try, and for a kind of task that has no such model.
    """
    begun = time.perf_counter()
    if task.kind not in FITS:
        raise ValueError(f"a task of kind '{task.kind}' has no TF-IDF baseline; these have one: {', '.join(FITS)}")
    train, dev = task.examples("train"), task.examples("dev")
    settings = sorted(recipe.tried(task.kind), key=lambda tried: tried.strength, reverse=task.kind == "score")
    if not settings:
        lists = ("alphas" if task.kind == "score" else "strengths", "class_weights", "longest")
        empty = next(name for name in lists if not getattr(recipe, name))
        raise ValueError(f"tfidf.{empty} is empty. Give at least one value")
    features = {longest: features_of(train, longest) for longest in {tried.longest for tried in settings}}
    dev_rows = {longest: of_texts(dev) for longest, (of_texts, _) in features.items()}
    gold, dev_gold = [example.label for example in train], [example.label for example in dev]
    best: tuple[float, TfidfSetting, list[Label], Linear] | None = None
    looks: list[tuple[Label, ...]] = []
    for setting in counted(settings, watch, "TF-IDF", total=len(settings), unit="fits", every=1):
        (_, rows), others = features[setting.longest], dev_rows[setting.longest]
        linear = FITS[task.kind](rows, gold, task.labels, setting)
        if recipe.threshold == "dev" and task.has_threshold:
            decision = decide(linear.outputs(others), dev_gold, linear.labels, task)
            linear = replace(linear, bias_C=linear.bias_C - decision.shift_C)
            looks += map(tuple, decision.tried)
        predicted = linear.predict(others)
        score = task.score(dev_gold, predicted)
        looks.append(tuple(predicted))
        if best is None or score > best[0]:
            best = score, setting, predicted, linear
    assert best is not None
    score, setting, predicted, chosen = best
    model = TfidfModel(features[setting.longest][0], chosen)
    return FittedBaseline(
        setting=setting,
        dev=score,
        predicted_dev=tuple(predicted),
        looks=tuple(looks),
        tokens=sum(len(text.split()) for text in _texts(train)),
        seconds=time.perf_counter() - begun,
        predict=model.predict,
        model=model,
    )


def test_baseline(fitted: FittedBaseline | BaselineModel, task: Prepared, *, by: str) -> dict[str, Any]:
    """Predict the sealed texts, then open their labels in the name of `by`: ids, gold, predicted, test."""
    examples = task.examples("test")
    predicted = fitted.rankings(task, "test") if isinstance(fitted, Bm25) else fitted.predict(examples)
    return task.open_and_score(examples, predicted, by=by)


def evaluate(
    recipe: TfidfRecipe, task: Prepared, *, by: str = "evaluate TF-IDF", watch: Watch = unwatched
) -> dict[str, Any]:
    """Fit and test the baseline. Return ids, gold, predicted, test, dev, predicted_dev, setting, tokens, seconds."""
    fitted = fit_tfidf(recipe, task, watch=watch)
    names = ("dev", "predicted_dev", "setting", "tokens", "seconds")
    return test_baseline(fitted, task, by=by) | {name: getattr(fitted, name) for name in names}


@dataclass(frozen=True, eq=False)
class Features:
    """TF-IDF rows, and of pairs the cosine of the two texts in the last column.

    The terms that occur in one training text only, as nearly all pairs of words do, are merged into one column for each
    text. Under an L2 penalty the weights of those of one text are multiples of their values there, so one weight
    suffices, and the model is the same with a quarter of the columns. `merge` has orthonormal columns: x -> x @ merge.

    Where no training text has a word of two letters, there is one column, of zeros: a model is left with its intercept,
    and predicts the most frequent label or the mean of the numbers.

    longest    most words in a term
    paired     True if texts come in pairs
    terms      () where there are none
    column_T   the column of each term, and value_T its entry there; width: number of these columns
    """

    longest: int
    paired: bool
    terms: tuple[str, ...] = ()
    idf_T: np.ndarray = field(default_factory=lambda: np.zeros(0))
    column_T: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    value_T: np.ndarray = field(default_factory=lambda: np.zeros(0))
    width: int = 1

    @cached_property
    def vectorizer(self) -> TfidfVectorizer:
        vectorizer = _vectorizer(self.longest, self.terms)
        vectorizer.idf_ = self.idf_T
        return vectorizer

    @cached_property
    def merge(self) -> Any:
        from scipy import sparse

        places = (np.arange(len(self.terms)), self.column_T)
        return sparse.csr_array((self.value_T, places), shape=(len(self.terms), self.width))

    def __call__(self, examples: Sequence[Example]) -> Any:
        """Return the sparse rows of these texts, (R, F)."""
        from scipy import sparse

        if not self.terms:
            return sparse.csr_array((len(examples), 1))
        return self.compared(sparse.csr_array(self.vectorizer.transform(_texts(examples))) @ self.merge, examples)

    def compared(self, rows: Any, examples: Sequence[Example]) -> Any:
        """Return the rows, (R, width); of pairs with the cosine of the two texts behind them, (R, width + 1)."""
        if not self.paired:
            return rows
        from scipy import sparse

        firsts = self.vectorizer.transform([example.text for example in examples])
        seconds = self.vectorizer.transform([example.pair or "" for example in examples])
        cosine_R1 = firsts.multiply(seconds).sum(axis=1)
        return sparse.csr_array(sparse.hstack([rows, sparse.csr_array(np.asarray(cosine_R1).reshape(-1, 1))]))


def features_of(examples: Sequence[Example], longest: int) -> tuple[Features, Any]:
    """Return the features of these training texts, and their rows, (R, F)."""
    from scipy import sparse

    texts, paired = _texts(examples), any(example.pair for example in examples)
    vectorizer = _vectorizer(longest)
    terms_of = vectorizer.build_analyzer()
    if not any(terms_of(text) for text in texts):
        blank = Features(longest, paired)
        return blank, blank(examples)
    rows = sparse.csr_array(vectorizer.fit_transform(texts))
    once = np.bincount(rows.indices, minlength=rows.shape[1]) == 1
    alone = sparse.coo_array(rows[:, once])
    norms = np.sqrt(np.bincount(alone.row, alone.data**2, minlength=rows.shape[0]))
    columns, merged = np.flatnonzero(~once), np.flatnonzero(once)[alone.col]
    column_T, value_T = np.zeros(rows.shape[1], np.int32), np.ones(rows.shape[1])
    column_T[columns] = np.arange(len(columns))
    column_T[merged] = len(columns) + alone.row
    value_T[merged] = alone.data / norms[alone.row]
    terms = tuple(str(term) for term in vectorizer.get_feature_names_out())
    features = Features(longest, paired, terms, vectorizer.idf_, column_T, value_T, len(columns) + rows.shape[0])
    return features, features.compared(rows @ features.merge, examples)


def _vectorizer(longest: int, terms: Sequence[str] | None = None) -> TfidfVectorizer:
    from sklearn.feature_extraction.text import TfidfVectorizer  # takes a second, and a dry run fits nothing

    words: dict[str, Any] = {"preprocessor": plain, "tokenizer": terms_of, "token_pattern": None}
    return TfidfVectorizer(sublinear_tf=True, ngram_range=(1, longest), vocabulary=terms, **words)


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear model of a task of this kind: outputs_RC = rows_RF @ weights_CF.T + bias_C.

    labels  what the outputs stand for, of which softmax or sigmoid makes probabilities; () for a number

    A label that no training row has, or all have, has an infinite bias. What dev chose (tasks/thresholds.py) is in the
    biases.
    """

    kind: Kind
    labels: tuple[str, ...]
    weights_CF: np.ndarray
    bias_C: np.ndarray

    def outputs(self, rows_RF: Any) -> np.ndarray:
        return np.asarray(rows_RF @ self.weights_CF.T + self.bias_C)

    def predict(self, rows_RF: Any) -> list[Label]:
        return self.decoded(self.outputs(rows_RF))

    def decoded(self, outputs_RC: np.ndarray) -> list[Label]:
        """Return the label of each row of outputs."""
        return PREDICTIONS[self.kind](outputs_RC, self.labels)


@dataclass(frozen=True, eq=False)
class TfidfModel:
    """TF-IDF with a linear model, fitted."""

    features: Features
    linear: Linear

    @property
    def kind(self) -> Kind:
        return self.linear.kind

    @property
    def labels(self) -> tuple[str, ...]:
        return self.linear.labels

    def outputs(self, examples: Sequence[Example]) -> np.ndarray:
        """(R, C) as of `Linear.outputs`."""
        return self.linear.outputs(self.features(examples))

    def predict(self, examples: Sequence[Example]) -> list[Label]:
        return self.linear.decoded(self.outputs(examples))


@dataclass(frozen=True)
class WordList:
    """A tag for each word of the training sentences, spelt the same or in lower case, and one for new words."""

    labels: tuple[str, ...]
    exact: Mapping[str, str]
    lowered: Mapping[str, str]
    new: str
    kind: ClassVar[Kind] = "tokens"

    def predict(self, examples: Sequence[Example]) -> list[Label]:
        def tag(word: str) -> str:
            return self.exact.get(word) or self.lowered.get(word.lower(), self.new)

        return [tuple(map(tag, words_of(example.text))) for example in examples]


BaselineModel = TfidfModel | WordList | Bm25


def write_baseline(model: BaselineModel, out: Path) -> None:
    """Write the model to `out/baseline.json`, and its numbers to `out/baseline.safetensors`."""
    if isinstance(model, WordList):
        about = {"exact": model.exact, "lowered": model.lowered, "new": model.new}
        files.write_json(out / BASELINE_FILE, {"kind": model.kind, "labels": model.labels, **about})
    elif isinstance(model, Bm25):
        files.write_json(out / BASELINE_FILE, {"kind": model.kind, "labels": model.labels, **asdict(model)})
    else:
        write_tfidf(model, out / BASELINE_FILE, out / WEIGHTS)


def write_tfidf(
    model: TfidfModel,
    path: Path,
    weights: Path,
    *,
    about: Mapping[str, Any] = MappingProxyType({}),
    arrays: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> None:
    """Write the model's terms to the JSON file `path`, and its numbers to `weights`, of safetensors.

    about, arrays: what else the files hold, by other names than those of the model
    """
    features, linear = model.features, model.linear
    numbers = {"idf": features.idf_T, "column": features.column_T, "value": features.value_T}
    numbers |= {"weights": linear.weights_CF, "bias": linear.bias_C, **arrays}
    files.write_bytes(weights, save({name: np.ascontiguousarray(array) for name, array in numbers.items()}))
    terms = {"longest": features.longest, "paired": features.paired, "terms": features.terms}
    files.write_json(path, {"kind": model.kind, "labels": model.labels, **terms, **about})


def read_baseline(directory: Path) -> BaselineModel:
    """Return the model that `write_baseline` wrote. Raises DamagedError, naming the file, if it is none."""
    path = directory / BASELINE_FILE
    kind, labels = _kind_and_labels(path, ("tokens", "search", *FITS))
    if kind == "search":
        about = files.read_object(path, names=("k1", "b"), way_out=_WAY_OUT)
        return Bm25(about["k1"], about["b"])
    return _read_word_list(path, labels) if kind == "tokens" else read_tfidf(path, path.with_name(WEIGHTS))[0]


def _kind_and_labels(path: Path, kinds: Sequence[str]) -> tuple[Any, Sequence[str]]:
    about = files.read_object(path, names=("kind", "labels"), way_out=_WAY_OUT)
    kind, labels = about["kind"], about["labels"]
    require(isinstance(kind, str) and kind in kinds, path, f"kind = {kind!r:.60}; known are {', '.join(kinds)}")
    require(_are_texts(labels), path, "labels is not a list of names")
    require(len(set(labels)) == len(labels), path, "labels has a name twice")
    return kind, labels


_WAY_OUT = "Copy the folder again, or repeat the command of the race"


def require(condition: bool, file: Path, fault: str) -> None:
    """Raise DamagedError, naming the file and what is wrong with it, unless it is sound."""
    if not condition:
        raise files.DamagedError(f"{file} is damaged: {fault}. {_WAY_OUT}")


def is_count(value: Any) -> bool:
    """Return True if the value is a whole number of at least 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _read_word_list(path: Path, labels: Sequence[str]) -> WordList:
    about = files.read_object(path, names=("exact", "lowered", "new"), way_out=_WAY_OUT)
    for name in ("exact", "lowered"):
        words = about[name]
        has_known_tags = isinstance(words, dict) and all(
            isinstance(tag, str) and tag in labels for tag in words.values()
        )
        require(has_known_tags, path, f"{name} does not map words to tags from labels")
    require(about["new"] in labels, path, f"new = {about['new']!r:.60} is none of labels")
    return WordList(tuple(labels), about["exact"], about["lowered"], about["new"])


def read_tfidf(path: Path, weights: Path) -> tuple[TfidfModel, dict[str, np.ndarray]]:
    """Return the model that `write_tfidf` wrote to the files, and all arrays of `weights`.

    Raises DamagedError, naming the file, if it is none.
    """
    kind, labels = _kind_and_labels(path, (*FITS,))
    about = files.read_object(path, names=("longest", "paired", "terms"), way_out=_WAY_OUT)
    longest, paired, terms = about["longest"], about["paired"], about["terms"]
    require(is_count(longest), path, f"longest = {longest!r:.60} is not a number of at least 1")
    require(isinstance(paired, bool), path, f"paired = {paired!r:.60} is neither true nor false")
    require(_are_texts(terms), path, "terms is not a list of terms")
    require(weights.is_file(), weights, "is missing")
    try:
        arrays = load(weights.read_bytes())
    except SafetensorError as error:
        raise files.DamagedError(f"{weights} is damaged: {error}. {_WAY_OUT}") from error
    outputs = 1 if kind == "score" else len(labels)
    expected_shapes = dict.fromkeys(("idf", "column", "value"), (len(terms),)) | {"bias": (outputs,)}
    shapes = {name: arrays[name].shape for name in expected_shapes if name in arrays}
    weights_CF = arrays.get("weights", np.zeros(0))
    shapes_match = shapes == expected_shapes and weights_CF.ndim == 2 and len(weights_CF) == outputs
    require(shapes_match, path, f"its sizes do not match {weights.name}")
    for name in ("idf", "value", "weights"):
        require(bool(np.isfinite(arrays[name]).all()), weights, f"{name} has values that are NaN or infinite")
    require(not np.isnan(arrays["bias"]).any(), weights, "bias has values that are NaN")  # -inf: no training row
    width, columns = weights_CF.shape[1] - (paired and bool(terms)), arrays["column"]
    columns_exist = columns.dtype.kind in "iu" and (not columns.size or 0 <= columns.min() <= columns.max() < width)
    require(columns_exist, weights, f"column has numbers that are none of the {width:,} columns of weights")
    features = Features(longest, paired, tuple(terms), arrays["idf"], columns, arrays["value"], width)
    return TfidfModel(features, Linear(kind, tuple(labels), weights_CF, arrays["bias"])), arrays


def _one_label(rows: Any, gold: Sequence[Label], labels: Sequence[str], setting: TfidfSetting) -> Linear:
    model = _logistic(setting).fit(rows, list(gold))
    weights_CF, bias_C = model.coef_, model.intercept_
    if len(weights_CF) == 1:  # of two classes scikit-learn has the second's outputs alone
        weights_CF, bias_C = np.concatenate([np.zeros_like(weights_CF), weights_CF]), np.append(0.0, bias_C)
    classes = [str(label) for label in model.classes_]
    absent = [label for label in labels if label not in classes]
    weights_CF = np.concatenate([weights_CF, np.zeros((len(absent), weights_CF.shape[1]))])
    return Linear("sequence", (*classes, *absent), weights_CF, np.append(bias_C, [-math.inf] * len(absent)))


def _several_labels(rows: Any, gold: Sequence[Label], labels: Sequence[str], setting: TfidfSetting) -> Linear:
    weights_CF, bias_C = np.zeros((len(labels), rows.shape[1])), np.zeros(len(labels))
    for code, label in enumerate(labels):
        has = np.array([isinstance(labels_of_row, tuple) and label in labels_of_row for labels_of_row in gold])
        if has.all() or not has.any():
            bias_C[code] = math.inf if has[0] else -math.inf
        else:
            model = _logistic(setting).fit(rows, has)
            weights_CF[code], bias_C[code] = model.coef_[0], model.intercept_[0]
    return Linear("multilabel", tuple(labels), weights_CF, bias_C)


def _number(rows: Any, gold: Sequence[Label], labels: Sequence[str], setting: TfidfSetting) -> Linear:
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=setting.strength, solver="sparse_cg", tol=1e-6).fit(rows, np.asarray(gold, dtype=np.float64))
    return Linear("score", (), model.coef_.reshape(1, -1), np.atleast_1d(model.intercept_))


FITS: dict[str, Callable[[Any, Sequence[Label], Sequence[str], TfidfSetting], Linear]] = {
    "sequence": _one_label,
    "multilabel": _several_labels,
    "score": _number,
}
"""Kind of task -> (features, gold labels, all labels, setting) -> a linear model."""


def _logistic(setting: TfidfSetting) -> LogisticRegression:
    from sklearn.linear_model import LogisticRegression

    weights = "balanced" if setting.class_weights == "balanced" else None
    return LogisticRegression(C=setting.strength, class_weight=weights, max_iter=2000, random_state=0)


def _texts(examples: Sequence[Example]) -> list[str]:
    return [f"{example.text} {example.pair}" if example.pair else example.text for example in examples]


def fit_constant(task: Prepared) -> FittedBaseline:
    """Choose the constant answer on the training labels, and score it on dev. The test set stays sealed.

    Raises ValueError for a kind of task in which no answer can be the same for all texts.
    """
    begun = time.perf_counter()
    if task.kind not in ANSWERS:
        raise ValueError(f"a task of kind '{task.kind}' has no constant answer; these have one: {', '.join(ANSWERS)}")
    train = task.examples("train")
    gold = [example.label for example in train]

    scores = {answer: task.score(gold, constant_answers(answer, train, task)) for answer in ANSWERS[task.kind](gold)}
    best = max(scores, key=lambda answer: scores[answer])  # the first of equals
    return _one_setting(task, lambda examples: constant_answers(best, examples, task), begun)


def _one_setting(
    task: Prepared,
    predict: Callable[[Sequence[Example]], list[Label]],
    begun: float,
    *,
    tokens: int = 0,
    model: BaselineModel | None = None,
) -> FittedBaseline:
    """Return a baseline that had nothing to choose, scored on dev.

    begun: `time.perf_counter()` when fitting began
    """
    dev = task.examples("dev")
    predicted = tuple(predict(dev))
    score = task.score([example.label for example in dev], predicted)
    return FittedBaseline(None, score, predicted, (predicted,), tokens, time.perf_counter() - begun, predict, model)


def fit_dictionary(task: Prepared) -> FittedBaseline:
    """Count the tags of each word, and score on dev. The test set stays sealed.

    Raises ValueError for a kind of task without tagged words.
    """
    begun = time.perf_counter()
    if task.kind != "tokens":
        raise ValueError(f"a task of kind '{task.kind}' has no word tags; only 'tokens' has them")
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    small: dict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in _tagged(task.examples("train")):
        counts[word][tag] += 1
        small[word.lower()][tag] += 1
    of_new = Counter(tag for tags in counts.values() if tags.total() == 1 for tag in tags)
    exact, lowered = ({word: _most(tags) for word, tags in table.items()} for table in (counts, small))
    new = _most(of_new or sum(counts.values(), Counter()))

    model = WordList(task.labels, exact, lowered, new)
    tokens = sum(tags.total() for tags in counts.values())
    return _one_setting(task, model.predict, begun, tokens=tokens, model=model)


def _tagged(examples: Sequence[Example]) -> Iterator[tuple[str, str]]:
    for example in examples:
        assert isinstance(example.label, tuple)
        yield from zip(words_of(example.text), example.label, strict=True)


def _most(tags: Counter[str]) -> str:
    return min(tags, key=lambda tag: (-tags[tag], tag))


def baseline_of(kind: str) -> str:
    """Return the name of the contestant without an encoder for a task of this kind; "" if there is none."""
    return {"tokens": DICTIONARY, "span": "", "search": BM25}.get(kind, BASELINE)
