"""Which of several intermediate tasks A will help a target task B most, by measures that train on neither.

PREDICTORS says what each is. Each gives a number for every ordered pair of tasks; the larger, the more should A help.
Two look at A alone (`rows`, `labels of A`) and rank the candidates alike for every target. LogME in the literature
(Schulte et al., 2024) is that of the target's labels given the features of an encoder that was fine-tuned on A: without
any training all candidates have the same encoder, and LogME of B is one number that ranks nothing. `fine-tuned on A` is
that measure, where such checkpoints are given. What stands in for it without them is `head of A`: as in LEEP (Nguyen et
al., 2020) the target is seen through what a head for A says of it, here the linear head that the evidence of A's own
labels gives, on the encoder as it is. That stand-in is ours: no paper says how well it does.

Shape suffixes: K tasks (rows of a matrix are targets, columns intermediate tasks), W words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import rankdata

from acclimate.study.transfer_evidence import Evidence, Moments, Values, evidence
from acclimate.study.transfer_features import Described
from acclimate.tasks.task import Kind

MEAN = "mean rank"  # of a candidate by the predictors that look at the target
DIGITS = 12  # of cosines: texts that are the same are so, whatever the last bit says
MOST_WORDS = 10_000  # whose overlap is measured (Gururangan et al., 2020, section 3.1)
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Known:
    """A task that is a target or a candidate.

    rows   training rows, of which `seen.rows` went through the encoder
    words  how often each stands in the texts of all training rows, in lower case
    tuned  of the encoders that were fine-tuned on other tasks, by task: this one seen by each of them
    """

    name: str
    kind: Kind
    rows: int
    words: Counter[str]
    seen: Described
    tuned: Mapping[str, Sequence[Described]] = field(default_factory=dict)


@dataclass(frozen=True)
class Predictor:
    """measure: tasks -> (K, K), NaN where there is none; told: what it is; aims: whether it looks at the target."""

    measure: Callable[[Sequence[Known]], Values]
    told: str
    aims: bool = True


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Words in lower case and how often each stands in the texts."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(WORD.findall(text.lower()))
    return counts


def predictions(tasks: Sequence[Known]) -> dict[str, Values]:
    """Predictor -> (K, K) its number for each target (row) and intermediate task (column), NaN on the diagonal."""
    found = {}
    for name, predictor in PREDICTORS.items():
        values_KK = predictor.measure(tasks).astype(np.float64)
        np.fill_diagonal(values_KK, np.nan)
        if not np.isnan(values_KK).all():
            found[name] = values_KK
    found[MEAN] = _mean_rank([values_KK for name, values_KK in found.items() if PREDICTORS[name].aims])
    return found


def rank(values_K: Values) -> Values:
    """(K,) 1 for the largest, the mean rank where several are equal; NaN stays NaN."""
    found: Values = rankdata(-values_K, nan_policy="omit")
    return found


def _mean_rank(several: Sequence[Values]) -> Values:
    """(K, K) less the mean rank that the measures give, over those that have a number for all that any has one for."""
    ranks = [np.array([rank(values_K) for values_K in values_KK]) for values_KK in several]
    most_K = np.max([(~np.isnan(ranks_KK)).sum(1) for ranks_KK in ranks], axis=0)
    total_KK, count_K = np.zeros_like(several[0]), np.zeros(len(most_K))
    for ranks_KK in ranks:
        whole_K = (~np.isnan(ranks_KK)).sum(1) == most_K
        total_KK[whole_K] += ranks_KK[whole_K]
        count_K += whole_K
    mean: Values = -total_KK / count_K[:, None]
    return mean


def _text_embeddings(tasks: Sequence[Known]) -> Values:
    return _cosines(np.stack([task.seen.text_H for task in tasks]))


def _tf_idf(tasks: Sequence[Known]) -> Values:
    """Cosines of weights (1 + log count) * (1 + log((1 + K) / (1 + tasks with the word))), as scikit-learn has them."""
    vocabulary = {word: place for place, word in enumerate(sorted(set().union(*(task.words for task in tasks))))}
    counts_KW = np.zeros((len(tasks), len(vocabulary)))
    for row, task in enumerate(tasks):
        counts_KW[row, [vocabulary[word] for word in task.words]] = [*task.words.values()]
    there_W = (counts_KW > 0).sum(0)
    rarity_W = np.log((1 + len(tasks)) / (1 + there_W)) + 1
    return _cosines((np.log(np.maximum(counts_KW, 1)) + (counts_KW > 0)) * rarity_W)


def _shared_words(tasks: Sequence[Known]) -> Values:
    frequent = [{word for word, _ in task.words.most_common(MOST_WORDS)} for task in tasks]
    return np.array([[len(one & other) / len(one | other) for other in frequent] for one in frequent])


def _rows(tasks: Sequence[Known]) -> Values:
    return np.array([[task.rows for task in tasks]] * len(tasks), np.float64)


def _same_kind(tasks: Sequence[Known]) -> Values:
    return np.array([[float(one.kind == other.kind) for other in tasks] for one in tasks])


def _labels_of_candidate(tasks: Sequence[Known]) -> Values:
    return np.array([[gain(task.seen.moments) for task in tasks]] * len(tasks))


def _head_of_candidate(tasks: Sequence[Known]) -> Values:
    heads = [head(task.seen.moments) for task in tasks]
    return np.array([[gain(target.seen.moments, own) for own in heads] for target in tasks])


def _fine_tuned(tasks: Sequence[Known]) -> Values:
    means = [
        [
            np.mean([gain(seen.moments) for seen in target.tuned[other.name]]) if other.name in target.tuned else np.nan
            for other in tasks
        ]
        for target in tasks
    ]
    return np.array(means)


PREDICTORS: dict[str, Predictor] = {
    "TextEmb": Predictor(_text_embeddings, "cosine of the mean encoder states of both tasks' texts"),
    "TF-IDF": Predictor(_tf_idf, "cosine of the weights of both tasks' words"),
    "shared words": Predictor(_shared_words, f"Jaccard index of the {MOST_WORDS:,} most frequent words of each"),
    "same kind": Predictor(_same_kind, "1 where both have labels of one kind"),
    "rows": Predictor(_rows, "training rows of the candidate", aims=False),
    "labels of A": Predictor(
        _labels_of_candidate,
        "LogME of the candidate's labels given the encoder as it is",
        aims=False,
    ),
    "head of A": Predictor(
        _head_of_candidate, "LogME of the target's labels given what a linear head for the candidate says of its texts"
    ),
    "fine-tuned on A": Predictor(
        _fine_tuned, "LogME of the target's labels given the encoder that was fine-tuned on the candidate"
    ),
}


def gain(moments: Moments, map_DK: Values | None = None) -> float:
    """LogME of the labels given the features, or given what a map makes of them and a constant, less LogME given the
    constant alone: nats an item that features add to how often each label is borne. The last feature is the constant.

    Labels that are rare have a large evidence whatever the features: without the difference tasks cannot be compared.
    """
    width = len(moments.gram_DD)
    constant = np.eye(width)[:, -1:]
    seen = np.eye(width)[:, :-1] if map_DK is None else np.concatenate([map_DK, constant], axis=1)
    return evidence(moments.through(seen)).value - evidence(moments.through(constant)).value


def head(moments: Moments) -> Values:
    """(D, C) the linear head that the evidence gives for the labels; nothing for the constant, which is last."""
    own: Evidence = evidence(moments.through(np.eye(len(moments.gram_DD))[:, :-1]))
    return np.concatenate([own.weights_DC, np.zeros((1, own.weights_DC.shape[1]))])


def _cosines(vectors: Values) -> Values:
    directions = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    cosines: Values = np.round(directions @ directions.T, DIGITS)
    return cosines
