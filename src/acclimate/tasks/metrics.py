"""What a task is judged by. Every metric is a few numbers for each item and a function of their sums (task.Metric).

Where a denominator is 0 the value is 0 (scikit-learn's `zero_division=0`), and so is a correlation with a constant.
Macro-F1 is the mean over the classes that occur, in the gold labels or among the predictions. Classes are compared as
sets: one label is a set of one, so the same functions judge tasks with one label a row and with several.

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
strict_accuracy, lenient_accuracy, mrr            BioASQ factoid (tasks/answers.py, as SQuAD's exact_match and f1)

Checked against scikit-learn, SciPy, seqeval and what the official programs compute in tests/tasks/test_metrics.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache, partial

from acclimate.tasks import agreement, answers, correlations, tagging
from acclimate.tasks.sums import ratio
from acclimate.tasks.task import Kind, Metric

WITHOUT = "micro_f1 without "
AND_F1 = "accuracy_and_f1 of "
CLASSES: tuple[Kind, ...] = ("sequence", "multilabel")
SEVERAL: tuple[Kind, ...] = ("multilabel",)
# type of task -> its datasets, as the BLURB paper's Table 3 calls them
BLURB: Mapping[str, tuple[str, ...]] = {
    "NER": ("BC5-chem", "BC5-disease", "NCBI-disease", "BC2GM", "JNLPBA"),
    "PICO": ("EBM PICO",),
    "Relation Extraction": ("ChemProt", "DDI", "GAD"),
    "Sentence Similarity": ("BIOSSES",),
    "Document Classification": ("HoC",),
    "Question Answering": ("PubMedQA", "BioASQ"),
}


def micro_f1_without(*labels: str) -> Metric:
    """Micro-F1 over all classes but these, as relation extraction reports it for a negative class."""
    return _micro_f1(frozenset(labels))


@cache
def _micro_f1(ignore: frozenset[str]) -> Metric:
    return Metric(WITHOUT + ", ".join(sorted(ignore)), partial(agreement.decisions, ignore=ignore), ratio, CLASSES)


def accuracy_and_f1(label: str) -> Metric:
    """The mean of accuracy and the F1 of this class: MRPC and QQP in GLUE, where the class is that of paraphrases."""
    return _accuracy_and_f1(label)


@cache
def _accuracy_and_f1(label: str) -> Metric:
    return Metric(
        AND_F1 + label, partial(agreement.hits_and_class, label=label), agreement.mean_of_ratios, ("sequence",)
    )


_TOKENS: tuple[Kind, ...] = ("tokens",)
_SCORE: tuple[Kind, ...] = ("score",)
_SPAN: tuple[Kind, ...] = ("span",)
_both = correlations.moments_and_pseudo_values, correlations.pearson_and_spearman
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", agreement.hits, ratio, CLASSES),
        Metric("micro_f1", agreement.decisions, ratio, CLASSES),
        Metric("macro_f1", agreement.decisions_by_class, agreement.mean_f1, CLASSES),
        Metric("matthews", agreement.decisions_by_class, agreement.matthews, ("sequence",), least=-1.0),
        Metric("hoc_micro_per_hallmark_mean", agreement.decisions_by_class, agreement.mean_f1, SEVERAL),
        Metric("hoc_micro_pooled", agreement.decisions, ratio, SEVERAL),
        Metric("hoc_example_f1", agreement.examples, agreement.example_f1, SEVERAL),
        Metric("entity_f1", tagging.entity_decisions, ratio, _TOKENS),
        Metric("word_accuracy", tagging.word_hits, ratio, _TOKENS),
        Metric("word_macro_f1", tagging.words_by_class, agreement.mean_f1, _TOKENS),
        Metric("word_type_macro_f1", tagging.words_by_type, agreement.mean_f1, _TOKENS),
        Metric("pearson", correlations.moments, correlations.pearson, _SCORE, least=-1.0),
        Metric("spearman", correlations.pseudo_values, correlations.spearman, _SCORE, least=-1.0),
        Metric("pearson_and_spearman", *_both, _SCORE, least=-1.0),
        Metric("exact_match", partial(answers.best_answer, judge=answers.equal_words), ratio, _SPAN),
        Metric("f1", partial(answers.best_answer, judge=answers.words_f1), ratio, _SPAN),
        Metric("strict_accuracy", partial(answers.first_right, credit=answers.strictly), ratio, _SPAN),
        Metric("lenient_accuracy", partial(answers.first_right, credit=answers.leniently), ratio, _SPAN),
        Metric("mrr", partial(answers.first_right, credit=answers.reciprocally), ratio, _SPAN),
    )
}
DEFAULTS: dict[Kind, str] = {
    "sequence": "macro_f1", "multilabel": "macro_f1", "score": "pearson", "tokens": "entity_f1", "span": "f1",
}  # fmt: skip
TOGETHER = (("exact_match", "f1"), ("strict_accuracy", "lenient_accuracy", "mrr"))  # as papers report them


def reported_with(metric: Metric) -> tuple[Metric, ...]:
    """What is reported of the same predictions, this metric among them: of answers all that SQuAD, or BioASQ, has."""
    names = next((names for names in TOGETHER if metric.name in names), None)
    return tuple(METRICS[name] for name in names) if names else (metric,)


def metric_named(name: str) -> Metric:
    """The metric of this name; "micro_f1 without X, Y" and "accuracy_and_f1 of X" are made as they are asked for.

    Raises ValueError for any other.
    """
    left_out = [label.strip() for label in name.removeprefix(WITHOUT).split(",")] if name.startswith(WITHOUT) else []
    if any(left_out):
        return micro_f1_without(*filter(None, left_out))
    if name.startswith(AND_F1) and (label := name.removeprefix(AND_F1).strip()):
        return accuracy_and_f1(label)
    if name not in METRICS:
        raise ValueError(
            f"no metric is called {name!r}. Known: {', '.join(METRICS)}, '{WITHOUT}<label>, <label>' and "
            f"'{AND_F1}<label>'"
        )
    return METRICS[name]


def default_metric(kind: Kind) -> str:
    """The metric of a task of this kind where nobody says otherwise."""
    return DEFAULTS[kind]


def blurb_score(scores: Mapping[str, float]) -> float:
    """The mean over BLURB's six types of task of the mean over a type's datasets (Gu et al., section 3).

    scores  dataset, by its name in the paper's Table 3, -> test score; all in one unit

    Raises ValueError for a dataset that is missing or not known, and for a score that is no finite number.
    """
    known = [name for names in BLURB.values() for name in names]
    if missing := [name for name in known if name not in scores]:
        raise ValueError(
            f"no score for {', '.join(missing)}: the BLURB score needs all {len(known)} datasets. Run those as well, "
            f"and compare single datasets until then"
        )
    if unknown := [name for name in scores if name not in known]:
        raise ValueError(f"{', '.join(map(repr, unknown))}: no dataset of BLURB. Known: {', '.join(known)}")
    for name, score in scores.items():
        if not math.isfinite(score):
            raise ValueError(f"the score of {name} is {score}, of which no mean can be taken. Run it again")
    return sum(sum(scores[name] for name in names) / len(names) for names in BLURB.values()) / len(BLURB)
