"""Baselines without an encoder: TF-IDF with a linear model, a constant answer, and a word list.

TF-IDF of words, or of words and pairs of adjacent words, t, L2-normalised, with a linear model:

    x_t = (1 + ln tf_t) idf_t, then x / |x|
    one label       softmax(W x + b)                minimise  C sum over rows of - log p(label) + |W|^2 / 2
    several labels  sigmoid(w x + b), one a label   minimise  the same
    a number        w x + b                         minimise  sum over rows of (y - w x - b)^2 + alpha |w|^2

A row counts once, or, where the classes are balanced, R / (C rows of its class) times, so that all classes count alike.
C or alpha, the weights of classes and the length of a term are chosen on dev, as every contestant's checkpoint is; of
equals the strongest regularisation wins. In a race it tries as many settings as each encoder, in an order that is fixed
before any score (`TfidfRecipe.tried`). With several labels a row has those with a probability above .5, or above the
threshold that scores best on dev (tasks/thresholds.py). A pair of texts is one text, with a space between, and beside x
stands the cosine of the two texts' own vectors, since a sum over terms cannot compare them. It sees the whole text,
where encoders see `max_tokens`. There is no seed: one fit stands beside every seed of the others, so its
variance over seeds is 0.

Constant: the answer, the same for all texts, that scores best on the training labels; of equals the commonest. One
label a text: for accuracy it is the majority class, for a metric that leaves a class out it is another. Several: no
label, the commonest set of them, or any number of the most frequent ones. Tags: one for every word. A number: the mean,
whose correlation with anything is 0.

Word list, for tagged words: a word gets the tag that it has most often in the training sentences, spelt the same; else
that of the word in lower case; a word that never occurs there gets the most frequent tag of all words that occur once,
which are most like new words. Of equals the first by name wins. CoNLL's baseline (Tjong Kim Sang and De Meulder, 2003,
section 4.1) looks up whole entities instead of words. Neither of these two has a setting, so dev is only scored.

Shape suffixes: R rows, C labels.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from acclimate.core.settings import AboveZero, Count, Positive, check_ranges
from acclimate.core.types import Example, Label, Watch, counted, unwatched
from acclimate.tasks.chance import guesses
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.tags import words_of
from acclimate.tasks.thresholds import Threshold, decide, labels_above

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

BASELINE = "TF-IDF"
DICTIONARY = "word list"  # of tasks in which words have tags

ClassWeights = Literal["balanced", "equal"]
Labels = Sequence[Label]
Predict = Callable[[Any], list[Label]]  # sparse features (rows, features) -> a label a row


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

    def in_scikit_learn(self, kind: str) -> str:
        """Return the model as scikit-learn's users write it, for texts and labels of a task of this kind; of several
        labels one column each, from .5 on. Of pairs it lacks the cosine.
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
    """What to try: "balanced" classes count alike, however many rows they have; with "equal" each row does."""
    longest: tuple[Positive, ...] = (2, 1)  # numbers of words that a term may have at most, to try
    trials: Count = 0
    """Most settings to try, the preferred combinations first; 0: all. A race takes as many as an encoder tries."""
    threshold: Threshold = "half"
    """Probability above which each of several labels is predicted: 0.5, or for each setting the one that scores best
    on dev. In a race it is "dev" if finetune.threshold is, so that all contestants choose alike."""

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
        preferred = [TfidfSetting(*each) for each in sorted(places, key=lambda each: places[each])]
        return tuple(preferred[: self.trials or None])

    def only(self, setting: TfidfSetting) -> TfidfRecipe:
        """Return the recipe with this one setting to try, whatever the kind."""
        one = (setting.strength,)
        return replace(
            self, strengths=one, alphas=one, class_weights=(setting.class_weights,), longest=(setting.longest,)
        )


@dataclass(frozen=True)
class FittedBaseline:
    """A fitted baseline.

    setting  what dev chose; None where there was nothing to choose
    looks    the predictions on dev of all settings that were tried
    tokens   number of words of the training texts that were used
    """

    setting: TfidfSetting | None
    dev: float
    predicted_dev: tuple[Label, ...]
    looks: tuple[tuple[Label, ...], ...]
    tokens: int
    seconds: float
    predict: Callable[[Sequence[Example]], list[Label]]


def fit_tfidf(recipe: TfidfRecipe, task: Prepared, *, watch: Watch = unwatched) -> FittedBaseline:
    """Fit for each setting and choose on dev; of equals the strongest regularisation wins. The test set stays sealed.

    Raises ValueError where there is nothing to try, and for a kind of task that has no such model.
    """
    begun = time.perf_counter()
    if task.kind not in FITS:
        raise ValueError(f"a task of kind '{task.kind}' has no baseline of terms; these have: {', '.join(FITS)}")
    train, dev = task.examples("train"), task.examples("dev")
    settings = sorted(recipe.tried(task.kind), key=lambda tried: tried.strength, reverse=task.kind == "score")
    if not settings:
        lists = ("alphas" if task.kind == "score" else "strengths", "class_weights", "longest")
        empty = next(name for name in lists if not getattr(recipe, name))
        raise ValueError(f"tfidf.{empty} is empty: give at least one")
    features = {longest: _Features(train, longest) for longest in {tried.longest for tried in settings}}
    dev_rows = {longest: of_texts(dev) for longest, of_texts in features.items()}
    gold, dev_gold = [example.label for example in train], [example.label for example in dev]
    best: tuple[float, TfidfSetting, list[Label], Predict] | None = None
    looks: list[tuple[Label, ...]] = []
    for setting in counted(settings, watch, "TF-IDF", total=len(settings), unit="fits", every=1):
        rows, others = features[setting.longest].train, dev_rows[setting.longest]
        if recipe.threshold == "dev" and task.kind == "multilabel":
            odds = _odds(rows, gold, task.labels, setting)
            decision = decide(odds(others), dev_gold, task.labels, task)
            predicted, score = decision.predicted, decision.score
            predict: Predict = partial(_labels_at, odds, task.labels, decision.shift_C)
        else:
            predict = FITS[task.kind](rows, gold, task.labels, setting)
            predicted = predict(others)
            score = task.score(dev_gold, predicted)
        looks.append(tuple(predicted))
        if best is None or score > best[0]:
            best = score, setting, predicted, predict
    assert best is not None
    score, setting, predicted, chosen = best
    terms = features[setting.longest]
    return FittedBaseline(
        setting=setting,
        dev=score,
        predicted_dev=tuple(predicted),
        looks=tuple(looks),
        tokens=sum(len(text.split()) for text in _texts(train)),
        seconds=time.perf_counter() - begun,
        predict=lambda examples: chosen(terms(examples)),
    )


def test_baseline(fitted: FittedBaseline, task: Prepared, *, by: str) -> dict[str, Any]:
    """Predict the sealed texts, then open their labels in the name of `by`: ids, gold, predicted, test."""
    examples = task.examples("test")
    return task.open_and_score(examples, fitted.predict(examples), by=by)


def evaluate(
    recipe: TfidfRecipe, task: Prepared, *, by: str = "evaluate TF-IDF", watch: Watch = unwatched
) -> dict[str, Any]:
    """Fit and test the baseline. Return ids, gold, predicted, test, dev, predicted_dev, setting, tokens, seconds."""
    fitted = fit_tfidf(recipe, task, watch=watch)
    names = ("dev", "predicted_dev", "setting", "tokens", "seconds")
    return test_baseline(fitted, task, by=by) | {name: getattr(fitted, name) for name in names}


class _Features:
    """TF-IDF rows, and of pairs the cosine of the two texts in the last column.

    The terms that occur in one training text only, as nearly all pairs of words do, are merged into one column for each
    text. Under an L2 penalty the weights of those of one text are multiples of their values there, so one weight
    suffices, and the model is the same with a quarter of the columns. `merge` has orthonormal columns: x -> x @ merge.

    Where no training text has a word of two letters, there is one column, of zeros: a model is left with its intercept,
    and predicts the most frequent label or the mean of the numbers.
    """

    def __init__(self, examples: Sequence[Example], longest: int) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer  # takes a second, and a dry run fits nothing

        texts = _texts(examples)
        self.paired = any(example.pair for example in examples)
        self.vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, longest))
        terms_of = self.vectorizer.build_analyzer()
        self.blank = not any(terms_of(text) for text in texts)
        if self.blank:
            self.train = self(examples)
            return
        rows = sparse.csr_array(self.vectorizer.fit_transform(texts))
        once = np.bincount(rows.indices, minlength=rows.shape[1]) == 1
        alone = sparse.coo_array(rows[:, once])
        norms = np.sqrt(np.bincount(alone.row, alone.data**2, minlength=rows.shape[0]))
        kept = np.flatnonzero(~once)
        terms = np.concatenate([kept, np.flatnonzero(once)[alone.col]])
        columns = np.concatenate([np.arange(len(kept)), len(kept) + alone.row])
        values = np.concatenate([np.ones(len(kept)), alone.data / norms[alone.row]])
        self.merge = sparse.csr_array((values, (terms, columns)), shape=(rows.shape[1], len(kept) + rows.shape[0]))
        self.train = self._compared(rows @ self.merge, examples)

    def __call__(self, examples: Sequence[Example]) -> Any:
        if self.blank:
            return sparse.csr_array((len(examples), 1))
        return self._compared(sparse.csr_array(self.vectorizer.transform(_texts(examples))) @ self.merge, examples)

    def _compared(self, rows: Any, examples: Sequence[Example]) -> Any:
        """Return the rows, (R, T); of pairs with the cosine of the two texts behind them, (R, T + 1)."""
        if not self.paired:
            return rows
        firsts = self.vectorizer.transform([example.text for example in examples])
        seconds = self.vectorizer.transform([example.pair or "" for example in examples])
        cosine_R1 = firsts.multiply(seconds).sum(axis=1)
        return sparse.csr_array(sparse.hstack([rows, sparse.csr_array(np.asarray(cosine_R1).reshape(-1, 1))]))


def _one_label(rows: Any, gold: Sequence[Label], labels: Sequence[str], setting: TfidfSetting) -> Predict:
    model = _logistic(setting).fit(rows, list(gold))
    return lambda others: [str(label) for label in model.predict(others)]


def _several_labels(rows: Any, gold: Sequence[Label], labels: Sequence[str], setting: TfidfSetting) -> Predict:
    return partial(_labels_at, _odds(rows, gold, labels, setting), labels, np.zeros(len(labels), np.float32))


def _labels_at(odds: Callable[[Any], np.ndarray], labels: Sequence[str], shift_C: np.ndarray, rows: Any) -> list[Label]:
    return labels_above(odds(rows) - shift_C, labels)


def _odds(
    rows: Any, gold: Sequence[Label], labels: Sequence[str], setting: TfidfSetting
) -> Callable[[Any], np.ndarray]:
    """Return a function that gives the log odds of each label, (R, C); of a label that all training rows have, or none,
    they are infinite.
    """
    columns: list[Callable[[Any], np.ndarray]] = []
    for label in labels:
        has = np.array([isinstance(labels_of_row, tuple) and label in labels_of_row for labels_of_row in gold])
        if has.all() or not has.any():
            columns.append(partial(_always, math.inf if has[0] else -math.inf))
        else:
            columns.append(_logistic(setting).fit(rows, has).decision_function)
    return lambda others: np.stack([column(others) for column in columns], axis=1)


def _always(answer: float, rows: Any) -> np.ndarray:
    return np.full(rows.shape[0], answer)


def _number(rows: Any, gold: Sequence[Label], labels: Sequence[str], setting: TfidfSetting) -> Predict:
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=setting.strength, solver="sparse_cg", tol=1e-6).fit(rows, np.asarray(gold, dtype=np.float64))
    return lambda others: [float(number) for number in model.predict(others)]


FITS: dict[str, Callable[[Any, Sequence[Label], Sequence[str], TfidfSetting], Predict]] = {
    "sequence": _one_label,
    "multilabel": _several_labels,
    "score": _number,
}
"""Kind of task -> (features, gold labels, all labels, setting) -> a function that predicts."""


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
        raise ValueError(f"a task of kind '{task.kind}' has no constant answer; these have: {', '.join(ANSWERS)}")
    train, dev = task.examples("train"), task.examples("dev")
    gold = [example.label for example in train]

    scores = {answer: task.score(gold, _same(answer, train, task)) for answer in ANSWERS[task.kind](gold)}
    best = max(scores, key=lambda answer: scores[answer])  # the first of equals
    predicted = _same(best, dev, task)
    return FittedBaseline(
        setting=None,
        dev=task.score([example.label for example in dev], predicted),
        predicted_dev=tuple(predicted),
        looks=(tuple(predicted),),
        tokens=0,
        seconds=time.perf_counter() - begun,
        predict=lambda examples: _same(best, examples, task),
    )


def _same(answer: Label, examples: Sequence[Example], task: Prepared) -> list[Label]:
    """Return the answer to each example; of tags, to each of its words."""
    if task.kind != "tokens":
        return [answer] * len(examples)
    assert isinstance(answer, str)
    return [(answer,) * len(words_of(example.text)) for example in examples]


def constant_on_dev(task: Prepared, examples: Sequence[Example] | None = None) -> float:
    """Return the best dev score of all answers that are the same for every text; 0 for a kind of task that has none.
    examples: those of dev that are read; None: all

    Dev chooses the answer, as it chooses among the looks of what is compared with it: the commonest label of train may
    be a rare one on dev.
    """
    if task.kind not in ANSWERS:
        return 0.0
    dev = task.examples("dev") if examples is None else examples
    gold = [example.label for example in dev]
    train = [example.label for example in task.examples("train")]
    answers = dict.fromkeys(answer for labels in (train, gold) for answer in ANSWERS[task.kind](labels))
    return max(task.score(gold, _same(answer, dev, task)) for answer in answers)


def above_chance(task: Prepared, looks: Sequence[Labels]) -> bool:
    """Return False if no look at dev is better than a constant answer, or the best one no better than guesses. Where
    the same answer to every text is perfect, dev decides nothing.
    """
    dev = task.examples("dev")
    gold, constant = [example.label for example in dev], constant_on_dev(task)
    if constant >= 1.0:
        return True
    return max(task.score(gold, look) for look in looks) > constant and not guesses(task, dev, looks)


def _classes(gold: Labels) -> Iterable[Label]:
    return _ranked(str(label) for label in gold)


def _sets(gold: Labels) -> Iterable[Label]:
    sets = [label for label in gold if isinstance(label, tuple)]
    names = _ranked(name for label in sets for name in label)
    commonest = min(Counter(sets).items(), key=lambda pair: (-pair[1], pair[0]))[0]
    return [commonest, *(tuple(sorted(names[:count])) for count in range(len(names) + 1))]


def _tags(gold: Labels) -> Iterable[Label]:
    return _ranked(tag for label in gold if isinstance(label, tuple) for tag in label)


def _mean(gold: Labels) -> Iterable[Label]:
    return [float(np.mean([float(str(label)) for label in gold]))]


def _ranked(names: Iterable[str]) -> list[str]:
    """Return the labels, the commonest first and equals by name."""
    return [name for name, _ in sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0]))]


ANSWERS: dict[str, Callable[[Labels], Iterable[Label]]] = {
    "sequence": _classes,
    "multilabel": _sets,
    "tokens": _tags,
    "score": _mean,
}
"""Kind of task -> (training labels) -> the constant answers that are tried, the commonest first."""


def fit_dictionary(task: Prepared) -> FittedBaseline:
    """Count the tags of each word, and score on dev. The test set stays sealed.

    Raises ValueError for a kind of task without tagged words.
    """
    begun = time.perf_counter()
    if task.kind != "tokens":
        raise ValueError(f"a task of kind '{task.kind}' has no tags of words; these have: tokens")
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    small: dict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in _tagged(task.examples("train")):
        counts[word][tag] += 1
        small[word.lower()][tag] += 1
    of_new = Counter(tag for tags in counts.values() if tags.total() == 1 for tag in tags)
    exact, lowered = ({word: _most(tags) for word, tags in table.items()} for table in (counts, small))
    new = _most(of_new or sum(counts.values(), Counter()))

    def predict(examples: Sequence[Example]) -> list[Label]:
        return [
            tuple(exact.get(word) or lowered.get(word.lower(), new) for word in words_of(example.text))
            for example in examples
        ]

    dev = task.examples("dev")
    predicted = predict(dev)
    return FittedBaseline(
        setting=None,
        dev=task.score([example.label for example in dev], predicted),
        predicted_dev=tuple(predicted),
        looks=(tuple(predicted),),
        tokens=sum(tags.total() for tags in counts.values()),
        seconds=time.perf_counter() - begun,
        predict=predict,
    )


def _tagged(examples: Sequence[Example]) -> Iterator[tuple[str, str]]:
    for example in examples:
        assert isinstance(example.label, tuple)
        yield from zip(words_of(example.text), example.label, strict=True)


def _most(tags: Counter[str]) -> str:
    return min(tags, key=lambda tag: (-tags[tag], tag))


def baseline_of(kind: str) -> str:
    """Return the name of the contestant without an encoder for a task of this kind; "" if there is none."""
    return {"tokens": DICTIONARY, "span": ""}.get(kind, BASELINE)
