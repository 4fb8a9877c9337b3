"""Metrics. Each is a few numbers for each item (statistics) and a function of their sums (task.Metric).

If a denominator is 0, the value is 0 (scikit-learn's `zero_division=0`), and so is a correlation with a constant.
Macro-F1 is the mean over the classes that occur in the gold labels or the predictions. Classes are compared as sets:
one label is a set of one, so the same functions serve tasks with one label a row and with several.

name                         benchmark            what it is
entity_f1                    BLURB's NER          micro-F1 over entities with equal ends and type
word_type_macro_f1           EBM PICO             mean over P, I and O of F1 over words, B- and I- of a type being one
micro_f1 without ...         ChemProt, DDI        micro-F1 over the classes that are a relation
hoc_micro_per_hallmark_mean  HoC (BLURB paper)    mean over the hallmarks that occur of F1 over documents
hoc_micro_pooled             HoC (LinkBERT)       F1 over all pairs of a document and a hallmark
hoc_example_f1               HoC (BLUE)           F1 of mean precision and mean recall over documents with a hallmark
matthews                     CoLA                 Matthews' correlation, also of several classes
accuracy_and_f1 of ...       MRPC, QQP            mean of accuracy and the F1 of one class
pearson_and_spearman         STS-B                mean of the two correlations
exact_match, f1              SQuAD                of the first answer, as evaluate-v1.1.py computes them
strict_accuracy, lenient_accuracy, mrr            BioASQ's factoid questions, task B, phase B since the third challenge
ndcg_at_10, mrr_at_10, recall_at_100              BEIR (search), as trec_eval defines them

Answers to questions: a gold label is the tuple of acceptable answers, empty for a question that has none; a prediction
is an answer, or a tuple of them, best first. All five metrics are means over questions.

Search: a gold label is the tuple of relevant documents' ids, in which an id occurs as often as its grade; a prediction
is a tuple of different ids, best first. All three metrics are means over queries.

Readings
  SQuAD's evaluate-v1.1.py knows no question without an answer. For those the rule of evaluate-v2.0.py holds: the right
  prediction has no words. If a gold answer is only articles and punctuation (3 of 10,570 questions of SQuAD 1.1's dev
  set, beside other answers), 2.0 ignores it, and 1.1 counts it, as we do.
  BioASQ takes up to five answers to a factoid question; one is right if it equals any synonym, case aside. Outer spaces
  do not count here; the official program compares them.

tests/tasks/test_metrics.py compares all with scikit-learn, SciPy, seqeval and the results of the official programs.

Shape suffixes: n items (rows, sentences or questions), b of them at a time, C classes.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from operator import and_, eq

import numpy as np
import numpy.typing as npt

from acclimate.core.door import option
from acclimate.core.names import meant
from acclimate.core.types import Label
from acclimate.tasks.tags import OUTSIDE, entities, joined_tags
from acclimate.tasks.task import Kind, Metric, Values

WITHOUT = "micro_f1 without "
AND_F1 = "accuracy_and_f1 of "
CLASSES: tuple[Kind, ...] = ("sequence", "multilabel")
SEVERAL: tuple[Kind, ...] = ("multilabel",)
_TOKENS: tuple[Kind, ...] = ("tokens",)
_SCORE: tuple[Kind, ...] = ("score",)
_SPAN: tuple[Kind, ...] = ("span",)
_SEARCH: tuple[Kind, ...] = ("search",)
# type of task -> its datasets, as the BLURB paper's Table 3 calls them
BLURB: Mapping[str, tuple[str, ...]] = {
    "NER": ("BC5-chem", "BC5-disease", "NCBI-disease", "BC2GM", "JNLPBA"),
    "PICO": ("EBM PICO",),
    "Relation Extraction": ("ChemProt", "DDI", "GAD"),
    "Sentence Similarity": ("BIOSSES",),
    "Document Classification": ("HoC",),
    "Question Answering": ("PubMedQA", "BioASQ"),
}
TOGETHER = (  # that papers report together
    ("exact_match", "f1"),
    ("strict_accuracy", "lenient_accuracy", "mrr"),
    ("ndcg_at_10", "mrr_at_10", "recall_at_100"),
)
DEFAULTS: dict[Kind, str] = {
    "sequence": "macro_f1", "multilabel": "macro_f1", "score": "pearson", "tokens": "entity_f1", "span": "f1",
    "search": "ndcg_at_10",
}  # fmt: skip
RANKS = 5  # ranked answers that BioASQ counts
FIRST, RANKED = 10, 100  # documents that nDCG and MRR count, and that recall counts
_BARE = str.maketrans("", "", string.punctuation)
NO_SPREAD = 1e-12  # a variance that is a smaller part of the second moment is rounding of a variance of 0
BLOCK = 1_000_000  # comparisons of two items at a time: 8 MB


def metric_named(name: str) -> Metric:
    """Return the metric of this name, which may be "micro_f1 without X, Y" or "accuracy_and_f1 of X" too.

    Raises ValueError for a name of no metric.
    """
    if labels := _labels_in(name):
        return micro_f1_without(*labels) if name.startswith(WITHOUT) else accuracy_and_f1(*labels)
    if name not in METRICS:
        raise ValueError(
            f"no metric is named {name!r}{meant(name, METRICS)}. Known: {', '.join(METRICS)}, '{WITHOUT}<label>, "
            f"<label>' and '{AND_F1}<label>'"
        )
    return METRICS[name]


def _labels_in(name: str) -> list[str]:
    """Return the labels that the name of a metric ends with."""
    if name.startswith(WITHOUT):
        return [label for part in name.removeprefix(WITHOUT).split(",") if (label := part.strip())]
    return [label] if name.startswith(AND_F1) and (label := name.removeprefix(AND_F1).strip()) else []


def metric_for(kind: Kind, name: str, default: str = "", *, labels: Collection[str] = ()) -> Metric:
    """Return the metric of this name for a kind of task; "": the default, or that of the kind.

    labels  of the task; (): not known

    Raises ValueError for a name of no metric, for a metric that does not judge the kind, and for one that names another
    label than the task's.
    """
    default = default or DEFAULTS[kind]
    metric = metric_named(name or default)
    if kind not in metric.kinds:
        names = ", ".join(fitting for fitting, known in METRICS.items() if kind in known.kinds)
        raise ValueError(
            f"{option('metric', name)}: applies to {' and '.join(metric.kinds)}, but this task is of kind {kind!r}. "
            f"Use one of {names}, remove the metric (default {default}), or change the kind"
        )
    for label in filter(lambda label: labels and label not in labels, _labels_in(name)):
        raise ValueError(
            f"{option('metric', name)}: no row has the label {label!r}{meant(label, labels)}. Correct it, or choose "
            "another metric"
        )
    return metric


def reported_with(metric: Metric) -> tuple[Metric, ...]:
    """Return the metrics that are reported with this one, itself included: for answers all of SQuAD or BioASQ."""
    names = next((names for names in TOGETHER if metric.name in names), None)
    return tuple(METRICS[name] for name in names) if names else (metric,)


def micro_f1_without(*labels: str) -> Metric:
    """Return micro-F1 over all classes except these, as relation extraction reports it without the negative class."""
    return _micro_f1(frozenset(labels))


@cache
def _micro_f1(ignore: frozenset[str]) -> Metric:
    return Metric(WITHOUT + ", ".join(sorted(ignore)), partial(decisions, ignore=ignore), ratio, CLASSES)


@cache
def accuracy_and_f1(label: str) -> Metric:
    """Return the mean of accuracy and the F1 of this class: GLUE's for MRPC and QQP, with the class of paraphrases."""
    return Metric(AND_F1 + label, partial(hits_and_class, label=label), mean_of_ratios, ("sequence",))


def blurb_score(scores: Mapping[str, float]) -> float:
    """Return the mean over BLURB's six types of task of the mean over a type's datasets (Gu et al., section 3).

    scores  dataset, by its name in the paper's Table 3, -> test score; all in one unit

    Raises ValueError if a dataset is missing or unknown, and for a score that is no finite number.
    """
    names = [name for names in BLURB.values() for name in names]
    if missing := [name for name in names if name not in scores]:
        raise ValueError(
            f"no score for {', '.join(missing)}: the BLURB score needs all {len(names)} datasets. Run those too, "
            "and compare single datasets until then"
        )
    if unknown := [name for name in scores if name not in names]:
        raise ValueError(f"{', '.join(map(repr, unknown))}: not a dataset of BLURB. Known: {', '.join(names)}")
    for name, score in scores.items():
        if not math.isfinite(score):
            raise ValueError(f"the score of {name} is {score}, so no mean can be computed. Run it again")
    return sum(sum(scores[name] for name in names) / len(names) for names in BLURB.values()) / len(BLURB)


def ratio(sums: Values) -> Values:
    """(..., 2) -> (...): the first sum divided by the second; 0 where the second is 0."""
    return divided(sums[..., 0], sums[..., 1])


def divided(top: npt.ArrayLike, bottom: npt.ArrayLike) -> Values:
    """Return the quotients, element by element; 0 where the denominator is 0."""
    over, under = np.asarray(top, dtype=np.float64), np.asarray(bottom, dtype=np.float64)
    return np.divide(over, under, out=np.zeros(np.broadcast_shapes(over.shape, under.shape)), where=under != 0)


def table(rows: Sequence[Sequence[float]], width: int) -> Values:
    """Return the rows as an array (n, width), also if n is 0."""
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)


def means(scores: Sequence[float] | Values) -> Values:
    """(n, 2): a score for each item, and 1. The ratio of their sums is the mean."""
    return np.stack([np.array(scores, dtype=np.float64), np.ones(len(scores))], axis=1)


def label_texts(label: Label) -> tuple[str, ...]:
    """Return the texts of a label: those of a tuple, or the one."""
    return label if isinstance(label, tuple) else (str(label),)


def hits(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 2) for accuracy: 1 where the sets of labels are equal, and 1."""
    pairs = zip(gold, predicted, strict=True)
    return means([ours == theirs or classes(ours) == classes(theirs) for ours, theirs in pairs])


def decisions(gold: Sequence[Label], predicted: Sequence[Label], *, ignore: frozenset[str] = frozenset()) -> Values:
    """(n, 2) for micro-F1: twice the labels in both sets, and the labels of either set.

    An ignored label is no decision: to predict it costs recall, to miss it costs precision.
    """
    sets = [(classes(ours) - ignore, classes(theirs) - ignore) for ours, theirs in zip(gold, predicted, strict=True)]
    return table([(2.0 * len(ours & theirs), len(ours) + len(theirs)) for ours, theirs in sets], 2)


def decisions_by_class(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 3 C) for macro-F1: for each class that occurs, whether both sets have it; then gold; then predicted."""
    sides = [[classes(label) for label in labels] for labels in (gold, predicted)]
    columns = {name: at for at, name in enumerate(sorted(frozenset().union(*sides[0], *sides[1])))}
    has_2nC = np.zeros((2, len(gold), len(columns)))
    for has_nC, sets in zip(has_2nC, sides, strict=True):
        places = [(row, columns[name]) for row, names in enumerate(sets) for name in names]
        if places:
            has_nC[tuple(np.array(places).T)] = 1.0
    return np.concatenate([has_2nC[0] * has_2nC[1], has_2nC[0], has_2nC[1]], axis=1)


def mean_f1(sums: Values) -> Values:
    """(..., 3 C) -> (...): the unweighted mean of the classes' F1: a rare class counts as much as a frequent one."""
    right, gold, predicted = np.split(sums, 3, axis=-1)
    either = gold + predicted
    # sums over so few columns are much faster as products
    ones = np.ones(either.shape[-1])
    return divided(divided(2.0 * right, either) @ ones, (either > 0) @ ones)


def example_based(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 3) for example-based F1: precision and recall of the item's labels, and 1; three 0 for no gold label.

    So items without a gold label do not count, whatever their prediction: BLUE leaves such documents out.
    """
    rows = []
    for ours, theirs in zip(map(classes, gold), map(classes, predicted), strict=True):
        right = len(ours & theirs)
        rows.append((right / max(len(theirs), 1), right / len(ours), 1.0) if ours else (0.0, 0.0, 0.0))
    return table(rows, 3)


def example_f1(sums: Values) -> Values:
    """(..., 3) -> (...): the harmonic mean of mean precision and mean recall."""
    precision, recall, count = np.moveaxis(sums, -1, 0)
    return divided(2.0 * precision * recall, count * (precision + recall))


def matthews(sums: Values) -> Values:
    """(..., 3 C) -> (...): Matthews' correlation of the confusion matrix (Gorodkin's R_K for more than two classes)."""
    hits_C, gold, predicted = np.split(sums, 3, axis=-1)
    count, right = gold.sum(axis=-1), hits_C.sum(axis=-1)
    spreads = [count * count - (side * side).sum(axis=-1) for side in (gold, predicted)]
    bottom = np.sqrt(np.maximum(spreads[0], 0.0)) * np.sqrt(np.maximum(spreads[1], 0.0))
    return np.clip(divided(right * count - (gold * predicted).sum(axis=-1), bottom), -1.0, 1.0)


def hits_and_class(gold: Sequence[Label], predicted: Sequence[Label], *, label: str) -> Values:
    """(n, 4) for accuracy and the F1 of one class: `hits`; twice the class on both sides; the class on each side."""
    sides = [(float(ours == label), float(theirs == label)) for ours, theirs in zip(gold, predicted, strict=True)]
    return np.concatenate([hits(gold, predicted), table([(2.0 * a * b, a + b) for a, b in sides], 2)], axis=1)


def mean_of_ratios(sums: Values) -> Values:
    """(..., 4) -> (...): the mean of the ratios of the first two and of the last two."""
    return (ratio(sums[..., :2]) + ratio(sums[..., 2:])) / 2


def classes(label: Label) -> frozenset[str]:
    """Return the classes of a label: those of a tuple, or the one."""
    return frozenset(label) if isinstance(label, tuple) else frozenset((str(label),))


def best_answer(
    gold: Sequence[Label], predicted: Sequence[Label], *, judge: Callable[[list[str], list[str]], float]
) -> Values:
    """(n, 2): the score of the first predicted answer against the gold answer that gives the best, and 1."""
    scores = []
    for ours, theirs in zip(gold, predicted, strict=True):
        answered = words("".join(label_texts(theirs)[:1]))
        answers = label_texts(ours)
        scores.append(max(judge(words(answer), answered) for answer in answers) if answers else float(not answered))
    return means(scores)


def words(text: str) -> list[str]:
    """Return the words of an answer in lower case, without ASCII punctuation, a, an and the (as SQuAD does)."""
    return re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(_BARE)).split()


def equal_words(answer: list[str], answered: list[str]) -> float:
    """Return 1 if the words are the same in the same order, or else 0."""
    return float(answer == answered)


def words_f1(answer: list[str], answered: list[str]) -> float:
    """Return the F1 over words with repetition; 0 if no word is common, so also for two answers without words."""
    matches = (Counter(answer) & Counter(answered)).total()
    return 2.0 * matches / (len(answer) + len(answered)) if matches else 0.0


def strictly(rank: int) -> float:
    """Return the credit in BioASQ's strict accuracy (SAcc), in which only the first answer counts."""
    return float(rank == 1)


def leniently(rank: int) -> float:
    """Return the credit in BioASQ's lenient accuracy (LAcc), in which all five answers count the same."""
    return 1.0


def reciprocally(rank: int) -> float:
    """Return the credit in the mean reciprocal rank (MRR)."""
    return 1.0 / rank


def first_right(gold: Sequence[Label], predicted: Sequence[Label], *, credit: Callable[[int], float]) -> Values:
    """(n, 2): the credit for the rank, from 1, of the first of five answers that is a gold synonym, or 0; and 1."""
    scores = []
    for ours, theirs in zip(gold, predicted, strict=True):
        synonyms = {text.strip().lower() for text in label_texts(ours)}
        ranks = [rank for rank, text in enumerate(label_texts(theirs)[:RANKS], 1) if text.strip().lower() in synonyms]
        scores.append(credit(ranks[0]) if ranks else 0.0)
    return means(scores)


def discounted_gain(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 2): nDCG of the first 10 documents, and 1 (Jarvelin and Kekalainen, 2002; trec_eval's ndcg_cut_10).

    The gain of a document is its grade, the discount of rank r is log2(r + 1). The ideal ranking has all relevant
    documents of the query, of which the first 10 count.
    """
    scores = []
    for ours, theirs in zip(gold, predicted, strict=True):
        grades = Counter(label_texts(ours))
        ranked = (grades[document] for document in label_texts(theirs)[:FIRST])
        best = sorted(grades.values(), reverse=True)[:FIRST]
        gain, ideal = (
            sum(grade / math.log2(rank + 1) for rank, grade in enumerate(ranking, 1)) for ranking in (ranked, best)
        )
        scores.append(gain / ideal if ideal else 0.0)
    return means(scores)


def first_relevant(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 2): 1 / the rank of the first relevant document among the first 10, or 0; and 1 (MS MARCO's MRR@10)."""
    scores = []
    for ours, theirs in zip(gold, predicted, strict=True):
        relevant = {*label_texts(ours)}
        ranks = [rank for rank, document in enumerate(label_texts(theirs)[:FIRST], 1) if document in relevant]
        scores.append(1 / ranks[0] if ranks else 0.0)
    return means(scores)


def relevant_share(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 2): the share of the relevant documents that are among the first 100, and 1 (trec_eval's recall_100)."""
    pairs = [
        ({*label_texts(ours)}, {*label_texts(theirs)[:RANKED]}) for ours, theirs in zip(gold, predicted, strict=True)
    ]
    return means([len(relevant & ranked) / max(len(relevant), 1) for relevant, ranked in pairs])


def moments(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 6) for Pearson's correlation: 1, x, y, x^2, y^2 and x y of the two numbers.

    Both are first moved to a mean of 0 and scaled to at most 1, which does not change the correlation and keeps the
    digits that the difference of sums would lose. Raises ValueError for a label that is no finite number.
    """
    x_n, y_n = (_centred(side) for side in _numbers(gold, predicted))
    return np.stack([np.ones_like(x_n), x_n, y_n, x_n * x_n, y_n * y_n, x_n * y_n], axis=1)


def pearson(sums: Values) -> Values:
    """(..., 6) -> (...): Pearson's r."""
    count, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    x_spread, y_spread = xx - divided(x * x, count), yy - divided(y * y, count)
    varies = (x_spread > NO_SPREAD * xx) & (y_spread > NO_SPREAD * yy)
    # square roots first: a product of tiny spreads vanishes
    bottom = np.sqrt(np.where(varies, x_spread, 0.0)) * np.sqrt(np.where(varies, y_spread, 0.0))
    return np.clip(divided(xy - divided(x * y, count), bottom), -1.0, 1.0)


def pseudo_values(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 2) for Spearman's correlation: each item's pseudo-value, and 1.

    Ranks depend on the sample, so Spearman's rho is no function of sums over items. Its jackknife pseudo-values,
    n rho - (n - 1) rho without the item, are numbers of an item. A constant is added to make their mean rho. Then the
    value of the sample is exact, and so is the value without any one item; that of a resample with repetition is
    approximate, to first order. (With ranks of the whole sample it would not even be that: at a correlation of .9 their
    standard error is 6% too small.) Costs n^2 comparisons. Raises ValueError for a label that is no finite number.
    """
    sides = [_ranks(side) for side in _numbers(gold, predicted)]
    count = len(gold)
    whole = _cosine(*(ranks_n - (count + 1) / 2 for ranks_n in sides))
    without_n = np.zeros(count)
    step = max(1, BLOCK // max(count, 1))
    for begin in range(0, count, step):
        rows_b = np.arange(begin, min(begin + step, count))
        left_out = []
        for ranks_n in sides:
            # items that rank above the item move down by 1, items that tie with it by 1/2; the mean is then n / 2
            moved_bn = ranks_n - np.heaviside(ranks_n - ranks_n[rows_b, None], 0.5) - count / 2
            moved_bn[np.arange(len(rows_b)), rows_b] = 0.0
            left_out.append(moved_bn)
        without_n[rows_b] = _cosine(*left_out)
    pseudo_n = count * whole - (count - 1) * without_n
    return means(pseudo_n + whole - pseudo_n.sum() / max(count, 1))


def spearman(sums: Values) -> Values:
    """(..., 2) -> (...): the mean of the pseudo-values."""
    return np.clip(ratio(sums), -1.0, 1.0)


def moments_and_pseudo_values(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 8) for the mean of Pearson's and Spearman's correlations."""
    return np.concatenate([moments(gold, predicted), pseudo_values(gold, predicted)], axis=1)


def pearson_and_spearman(sums: Values) -> Values:
    """(..., 8) -> (...): the mean of the two, as GLUE averages them for STS-B."""
    return (pearson(sums[..., :6]) + spearman(sums[..., 6:])) / 2


def _numbers(gold: Sequence[Label], predicted: Sequence[Label]) -> tuple[Values, Values]:
    """Return both sides as (n,) float64. Raises ValueError for a label that is no finite number."""
    for side, labels in (("gold", gold), ("predicted", predicted)):
        for label in labels:
            if isinstance(label, str | tuple) or not np.isfinite(label):
                raise ValueError(
                    f"the {side} label {label!r} is not a finite number, but a correlation needs one; correct it"
                )
    return np.array(gold, dtype=np.float64), np.array(predicted, dtype=np.float64)


def _centred(values_n: Values) -> Values:
    """Return (n,) the numbers less their mean, divided by the largest absolute difference."""
    # scaling by a power of two rounds nothing; without it sums of huge numbers overflow and squares of tiny ones vanish
    values_n = np.ldexp(values_n, -int(np.frexp(values_n)[1].max(initial=-1074)))
    centred_n = values_n - values_n.sum() / max(len(values_n), 1)
    largest = float(np.abs(centred_n).max(initial=0.0))
    # a smaller difference is rounding of a constant
    return centred_n / largest if largest > NO_SPREAD else np.zeros_like(centred_n)


def _ranks(values_n: Values) -> Values:
    """Return (n,) ranks from 1; equal numbers have the mean of their ranks."""
    _, inverse_n, counts = np.unique(values_n, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse_n]


def _cosine(x: Values, y: Values) -> Values:
    """(..., n) and (..., n) -> (...): the cosine; 0 where one of them is all 0."""
    return divided((x * y).sum(axis=-1), np.sqrt((x * x).sum(axis=-1)) * np.sqrt((y * y).sum(axis=-1)))


def entity_decisions(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 2) for entity F1: twice the entities in both, with equal ends and type; the entities of each side together.

    A label is a tuple of tags, one a word. Raises ValueError for a tag outside the scheme, and if the two sides have
    different numbers of tags.
    """
    sets = [(entities(ours), entities(theirs)) for ours, theirs in _tags(gold, predicted)]
    return table([(2.0 * len(ours & theirs), len(ours) + len(theirs)) for ours, theirs in sets], 2)


def word_hits(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 2) for accuracy over words: right tags; all tags. Raises ValueError if the numbers of tags differ."""
    return table([(sum(map(eq, ours, theirs)), len(ours)) for ours, theirs in _tags(gold, predicted)], 2)


@cache
def tags_in(tag: str) -> frozenset[str]:
    """Return the tags that a tag consists of, without O."""
    return frozenset(joined_tags(tag)) - {OUTSIDE}


@cache
def types_in(tag: str) -> frozenset[str]:
    """Return the types of a tag: PAR for B-PAR and I-PAR, none for O. Raises ValueError for a tag of no scheme."""
    return frozenset(kind for _, _, kind in entities([tag]))


def words_by_class(
    gold: Sequence[Label], predicted: Sequence[Label], *, classes_in: Callable[[str], frozenset[str]] = tags_in
) -> Values:
    """(n, 3 C) for macro-F1 over words: for each class of tags, the words of it on both sides; gold; predicted.

    A word with a joint tag counts for each of its classes. Raises ValueError if the numbers of tags differ.
    """
    pairs = [tuple([*map(classes_in, side)] for side in pair) for pair in _tags(gold, predicted)]
    classes = sorted({name for pair in pairs for side in pair for names in side for name in names})
    columns = {name: at for at, name in enumerate(classes)}
    counts_3nC = np.zeros((3, len(pairs), len(columns)))
    for row, (ours, theirs) in enumerate(pairs):
        matches = map(and_, ours, theirs)
        for counts_nC, side in zip(counts_3nC, (matches, ours, theirs), strict=True):
            for name, count in Counter(chain.from_iterable(side)).items():
                counts_nC[row, columns[name]] = count
    return np.concatenate(list(counts_3nC), axis=1)


def words_by_type(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 3 C) as `words_by_class`, with types as classes: B-PAR and I-PAR are words of PAR.

    `mean_f1` of it is PICO's score, which LinkBERT computes with seqeval after it changes every I- to B-.
    """
    return words_by_class(gold, predicted, classes_in=types_in)


def _tags(gold: Sequence[Label], predicted: Sequence[Label]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the gold and predicted tags of each item. Raises ValueError if their numbers differ."""
    pairs = [(label_texts(ours), label_texts(theirs)) for ours, theirs in zip(gold, predicted, strict=True)]
    for row, (ours, theirs) in enumerate(pairs):
        if len(ours) != len(theirs):
            raise ValueError(f"item {row}: {len(ours)} gold tags, but {len(theirs)} predicted; give one tag per word")
    return pairs


_correlations = moments_and_pseudo_values, pearson_and_spearman
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", hits, ratio, CLASSES),
        Metric("micro_f1", decisions, ratio, CLASSES),
        Metric("macro_f1", decisions_by_class, mean_f1, CLASSES),
        Metric("matthews", decisions_by_class, matthews, ("sequence",), least=-1.0),
        Metric("hoc_micro_per_hallmark_mean", decisions_by_class, mean_f1, SEVERAL),
        Metric("hoc_micro_pooled", decisions, ratio, SEVERAL),
        Metric("hoc_example_f1", example_based, example_f1, SEVERAL),
        Metric("entity_f1", entity_decisions, ratio, _TOKENS),
        Metric("word_accuracy", word_hits, ratio, _TOKENS),
        Metric("word_macro_f1", words_by_class, mean_f1, _TOKENS),
        Metric("word_type_macro_f1", words_by_type, mean_f1, _TOKENS),
        Metric("pearson", moments, pearson, _SCORE, least=-1.0),
        Metric("spearman", pseudo_values, spearman, _SCORE, least=-1.0),
        Metric("pearson_and_spearman", *_correlations, _SCORE, least=-1.0),
        Metric("exact_match", partial(best_answer, judge=equal_words), ratio, _SPAN),
        Metric("f1", partial(best_answer, judge=words_f1), ratio, _SPAN),
        Metric("strict_accuracy", partial(first_right, credit=strictly), ratio, _SPAN),
        Metric("lenient_accuracy", partial(first_right, credit=leniently), ratio, _SPAN),
        Metric("mrr", partial(first_right, credit=reciprocally), ratio, _SPAN),
        Metric("ndcg_at_10", discounted_gain, ratio, _SEARCH),
        Metric("mrr_at_10", first_relevant, ratio, _SEARCH),
        Metric("recall_at_100", relevant_share, ratio, _SEARCH),
    )
}
