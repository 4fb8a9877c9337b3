"""Every metric against its authority: scikit-learn, SciPy, seqeval, and the official scripts' definitions."""

from __future__ import annotations

import pickle
import random
import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score
from sklearn.preprocessing import MultiLabelBinarizer

from acclimate.core.types import Label
from acclimate.tasks.metrics import METRICS, default_metric, metric_named, micro_f1_without
from acclimate.tasks.tags import entities
from acclimate.tasks.task import Metric

NAMES = np.array(["none", "cause", "treat", "prevent", "diagnose"])
Labels = tuple[Sequence[Label], Sequence[Label]]


def labels(seed: int, count: int = 200) -> tuple[list[str], list[str]]:
    """Gold and predicted labels that agree in about half of the cases; "diagnose" is rare."""
    generator = np.random.default_rng(seed)
    gold = generator.choice(5, size=count, p=[0.4, 0.3, 0.2, 0.09, 0.01])
    predicted = np.where(generator.random(count) < 0.5, gold, generator.choice(5, size=count))
    return NAMES[gold].tolist(), NAMES[predicted].tolist()


def sets(seed: int, count: int = 200) -> tuple[list[Label], list[Label]]:
    """Gold and predicted sets of labels, some of them empty."""
    generator = np.random.default_rng(seed)
    gold = generator.random((count, 5)) < [0.5, 0.3, 0.2, 0.1, 0.01]
    predicted = gold ^ (generator.random((count, 5)) < 0.15)
    return tuple([tuple(NAMES[row].tolist()) for row in side] for side in (gold, predicted))


def sentences(seed: int, count: int = 60, letters: str = "BI") -> tuple[list[Label], list[Label]]:
    """Tags in any order, so that stray I- tags and sudden changes of type abound; some sentences are empty."""
    generator = random.Random(seed)
    tags = ["O", "O", *(f"{letter}-{kind}" for letter in letters for kind in ("Drug", "Gene"))]
    gold = [tuple(generator.choices(tags, k=generator.randint(0, 9))) for _ in range(count)]
    mixed = [tuple(tag if generator.random() < 0.8 else generator.choice(tags) for tag in row) for row in gold]
    return gold, mixed


def numbers(seed: int, count: int = 50) -> tuple[list[Label], list[Label]]:
    x, y = np.random.default_rng(seed).normal(size=(2, count))
    return x.tolist(), (x + y).tolist()


ANSWERS: Labels = (
    [("the BRCA1 gene", "BRCA1"), ("aspirin",), (), ("a", "statins"), ("Crohn's disease", "enteritis"), ("five",)],
    ["brca1.", ("ibuprofen and aspirin",), "", "The statins", "crohns  disease, an enteritis", "six"],
)
RANKED: Labels = (
    [("p53", "TP53"), ("aspirin",), ("x",), ("y",), ("z", "w")],
    [("tp53 ", "MDM2"), ("ibuprofen", "statin", "Aspirin"), ("a", "b", "c", "d", "e", "x"), (), ("w", "z")],
)

SINGLE: dict[str, Labels] = {
    "mixed": labels(0),
    "one class, all right": (["treat"] * 5, ["treat"] * 5),
    "one class, all wrong": (["treat"] * 5, ["cause"] * 5),
    "a class never predicted": (["treat", "cause", "cause"], ["cause", "cause", "cause"]),
    "a class predicted but never gold": (["cause", "cause", "treat"], ["cause", "prevent", "treat"]),
    "one example": (["treat"], ["treat"]),
}
SEVERAL: dict[str, Labels] = {
    "mixed": sets(0),
    "nothing anywhere": ([()] * 4, [()] * 4),
    "nothing predicted": ([("cause",), ("cause", "treat"), ()], [(), (), ()]),
    "nothing gold": ([(), ()], [("cause",), ("cause", "treat")]),
    "one class": ([("cause",), ()], [("cause",), ("cause",)]),
}
OF_CLASSES = [METRICS["accuracy"], METRICS["micro_f1"], METRICS["macro_f1"]]
WITHOUT = [micro_f1_without("none"), micro_f1_without("none", "cause")]
EVERY: list[tuple[Metric, Labels]] = [
    *((metric, labels(1, count=12)) for metric in (*OF_CLASSES, *WITHOUT)),
    *((metric, sets(1, count=12)) for metric in (*OF_CLASSES, *WITHOUT)),
    (METRICS["entity_f1"], sentences(0, count=12)),
    (METRICS["word_accuracy"], sentences(1, count=12)),
    (METRICS["word_macro_f1"], sentences(2, count=12)),
    (METRICS["pearson"], numbers(0, count=12)),
    (METRICS["exact_match"], ANSWERS),
    (METRICS["f1"], ANSWERS),
    (METRICS["mrr"], RANKED),
]
NAMED = [f"{metric.name}, {type(pairs[0][0]).__name__}" for metric, pairs in EVERY]


@pytest.mark.parametrize("case", SINGLE)
@pytest.mark.parametrize(
    ("metric", "ignore"),
    [*((metric, set()) for metric in OF_CLASSES), (WITHOUT[0], {"none"}), (WITHOUT[1], {"none", "cause"})],
)
def test_metrics_of_one_label_equal_scikit_learn(metric: Metric, ignore: set[str], case: str) -> None:
    gold, predicted = SINGLE[case]
    if metric.name == "accuracy":
        expected = accuracy_score(gold, predicted)
    else:
        kept = sorted((set(gold) | set(predicted)) - ignore)
        expected = f1_score(gold, predicted, labels=kept, average=metric.name.split("_")[0], zero_division=0)
    assert metric.compute(gold, predicted) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", SEVERAL)
@pytest.mark.parametrize("metric", OF_CLASSES, ids=lambda metric: metric.name)
def test_metrics_of_several_labels_equal_scikit_learn(metric: Metric, case: str) -> None:
    gold, predicted = SEVERAL[case]
    occurring = sorted({name for row in (*gold, *predicted) for name in row})
    if not occurring:  # scikit-learn refuses a matrix without columns
        assert metric.compute(gold, predicted) == (metric.name == "accuracy")
        return
    maker = MultiLabelBinarizer(classes=[*occurring, "nowhere"])  # one column would be taken for a binary label
    matrices = maker.fit_transform(gold), maker.transform(predicted)
    if metric.name == "accuracy":
        expected = accuracy_score(*matrices)
    else:
        expected = f1_score(*matrices, labels=range(len(occurring)), average=metric.name.split("_")[0], zero_division=0)
    assert metric.compute(gold, predicted) == pytest.approx(expected, abs=1e-12)


def test_micro_f1_equals_accuracy_where_nothing_is_ignored() -> None:
    gold, predicted = labels(3)
    assert METRICS["micro_f1"].compute(gold, predicted) == pytest.approx(METRICS["accuracy"].compute(gold, predicted))
    assert micro_f1_without("none").compute(["none"] * 3, ["none"] * 3) == 0.0


@pytest.mark.parametrize("letters", ["BI", "I", "BIES"])
@pytest.mark.parametrize("seed", range(10))
def test_entity_f1_equals_seqeval(letters: str, seed: int) -> None:
    seqeval = pytest.importorskip("seqeval.metrics", reason="seqeval is in the extra 'test'")
    gold, predicted = sentences(seed, letters=letters)
    for ours, theirs in (
        (gold, predicted),
        (predicted, gold),
        (gold, gold),
        ([("O",) * len(row) for row in gold], predicted),
    ):
        expected = seqeval.f1_score([*map(list, ours)], [*map(list, theirs)], zero_division=0)
        assert METRICS["entity_f1"].compute(ours, theirs) == pytest.approx(expected, abs=1e-12)
    for row in gold:
        found = {(start, end, kind) for kind, start, end in seqeval.sequence_labeling.get_entities(list(row))}
        assert entities(row) == found


def test_entities_are_read_as_conlleval_does() -> None:
    assert entities(("I-a", "I-a", "I-b", "B-b", "O", "I-b")) == {(0, 1, "a"), (2, 2, "b"), (3, 3, "b"), (5, 5, "b")}
    assert METRICS["entity_f1"].compute([("O", "O"), ()], [("O", "O"), ()]) == 0.0
    with pytest.raises(ValueError, match="the tag 'X-a' is not O and does not begin with B-"):
        entities(("O", "X-a"))
    with pytest.raises(ValueError, match="item 1: 2 gold tags, but 1 predicted"):
        METRICS["entity_f1"].compute([("O",), ("O", "O")], [("O",), ("O",)])


@pytest.mark.parametrize("seed", range(3))
def test_metrics_over_words_equal_scikit_learn(seed: int) -> None:
    gold, predicted = sentences(seed)
    ours, theirs = ([tag for row in side for tag in row] for side in (gold, predicted))
    assert METRICS["word_accuracy"].compute(gold, predicted) == pytest.approx(accuracy_score(ours, theirs), abs=1e-12)
    tags = sorted({*ours, *theirs} - {"O"})
    expected = f1_score(ours, theirs, labels=tags, average="macro", zero_division=0)
    assert METRICS["word_macro_f1"].compute(gold, predicted) == pytest.approx(expected, abs=1e-12)
    assert METRICS["word_macro_f1"].compute([("O", "O")], [("O", "O")]) == 0.0
    for metric in ("word_accuracy", "word_macro_f1"):
        with pytest.raises(ValueError, match="item 0: 1 gold tags, but 2 predicted"):
            METRICS[metric].compute([("O",)], [("O", "O")])


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1e-3, 1e6), (1e200, 0.0), (1e-200, 0.0)])
def test_pearson_equals_scipy(scale: float, shift: float) -> None:
    x, y = (np.array(side) for side in numbers(0))
    moved = (scale * x + shift).tolist(), (y * scale - shift).tolist()
    # what the shift has rounded away is gone for both; at 1e200 SciPy's own squares would overflow
    expected = stats.pearsonr(*(moved if shift else (x, y))).statistic
    assert METRICS["pearson"].compute(*moved) == pytest.approx(expected, abs=1e-9)
    assert METRICS["pearson"].compute(moved[0], (-np.array(moved[0])).tolist()) == pytest.approx(-1.0, abs=1e-9)
    assert METRICS["pearson"].least == -1.0


def test_pearson_with_a_constant_is_zero_and_with_no_number_is_refused() -> None:
    assert METRICS["pearson"].compute([1.0, 2.0, 3.0], [0.1, 0.1, 0.1]) == 0.0
    assert METRICS["pearson"].compute([0.1] * 7, [1.0] * 7) == 0.0
    assert METRICS["pearson"].compute([0.5], [0.7]) == 0.0
    for wrong in (float("nan"), float("inf"), ("a",)):
        with pytest.raises(ValueError, match=r"predicted label .* is no finite number"):
            METRICS["pearson"].compute([1.0, 2.0], [1.0, wrong])


def squad(gold: Sequence[str], said: str) -> tuple[float, float]:
    """Exact match and F1 of one answer, transcribed from the official evaluation of SQuAD 2.0."""

    def normal(text: str) -> str:
        bare = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
        return " ".join(re.sub(re.compile(r"\b(a|an|the)\b", re.UNICODE), " ", bare).split())

    def f1(answer: str) -> float:
        ours, theirs = normal(answer).split(), normal(said).split()
        if not ours or not theirs:
            return float(ours == theirs)
        same = sum((Counter(ours) & Counter(theirs)).values())
        precision, recall = same / len(theirs), same / len(ours)
        return 2 * precision * recall / (precision + recall) if same else 0.0

    answers = [answer for answer in gold if normal(answer)] or [""]
    return max(float(normal(answer) == normal(said)) for answer in answers), max(f1(answer) for answer in answers)


def test_answers_are_judged_as_squad_judges_them() -> None:
    gold, predicted = ANSWERS
    expected = [squad(ours, said if isinstance(said, str) else said[0]) for ours, said in zip(*ANSWERS, strict=True)]
    for metric, column in (("exact_match", 0), ("f1", 1)):
        each = [METRICS[metric].compute([ours], [said]) for ours, said in zip(gold, predicted, strict=True)]
        assert each == pytest.approx([row[column] for row in expected], abs=1e-12)
        assert METRICS[metric].compute(gold, predicted) == pytest.approx(np.mean(each), abs=1e-12)
    assert [row[0] for row in expected] == [1, 0, 1, 1, 0, 0]
    assert METRICS["f1"].compute([("aspirin",)], [("ibuprofen and aspirin",)]) == pytest.approx(0.5)


def test_mean_reciprocal_rank_is_that_of_bioasq() -> None:
    each = [METRICS["mrr"].compute([ours], [said]) for ours, said in zip(*RANKED, strict=True)]
    assert each == pytest.approx([1, 1 / 3, 0, 0, 1])  # the sixth answer is not looked at
    assert METRICS["mrr"].compute(*RANKED) == pytest.approx(np.mean(each))


@pytest.mark.parametrize(("metric", "pairs"), EVERY, ids=NAMED)
def test_weighted_sums_equal_computing_on_repeated_items(metric: Metric, pairs: Labels) -> None:
    gold, predicted = pairs
    items = len(gold)
    weights = np.random.default_rng(2).multinomial(items, np.full(items, 1 / items), size=50)
    values = metric.value(weights @ metric.statistics(gold, predicted))
    for row, value in zip(weights, values, strict=True):
        again = [[side[i] for i in range(items) for _ in range(row[i])] for side in pairs]
        assert value == pytest.approx(metric.compute(*again), abs=1e-12)


@pytest.mark.parametrize(("metric", "pairs"), EVERY, ids=NAMED)
def test_a_resample_of_weight_zero_is_zero(metric: Metric, pairs: Labels) -> None:
    assert metric.value(np.zeros((2, len(pairs[0]))) @ metric.statistics(*pairs)).tolist() == [0.0, 0.0]
    single = np.eye(len(pairs[0]))[:1] * len(pairs[0])
    assert metric.least <= metric.value(single @ metric.statistics(*pairs)).item() <= 1.0


@pytest.mark.parametrize(("metric", "pairs"), EVERY, ids=NAMED)
def test_metrics_refuse_nothing_and_unequal_numbers(metric: Metric, pairs: Labels) -> None:
    with pytest.raises(ValueError, match="no examples"):
        metric.compute([], [])
    with pytest.raises(ValueError, match="2 gold labels, but 1 predictions"):
        metric.compute(pairs[0][:2], pairs[1][:1])


@pytest.mark.parametrize(("metric", "pairs"), EVERY, ids=NAMED)
def test_metrics_travel_to_other_processes(metric: Metric, pairs: Labels) -> None:
    assert pickle.loads(pickle.dumps(metric)).compute(*pairs) == metric.compute(*pairs)


def test_metrics_are_found_by_name() -> None:
    assert all(metric_named(name) is metric for name, metric in METRICS.items())
    assert metric_named("micro_f1 without none, cause") == micro_f1_without("cause", "none")
    assert metric_named(metric_named("micro_f1 without none").name).compute(["none"], ["none"]) == 0.0
    assert {kind: default_metric(kind) for kind in ("sequence", "score", "tokens")} == {
        "sequence": "macro_f1", "score": "pearson", "tokens": "entity_f1",
    }  # fmt: skip
    assert all(
        kind in METRICS[default_metric(kind)].kinds for kind in ("sequence", "multilabel", "score", "tokens", "span")
    )
    for unknown in ("macro-f1", "micro_f1 without ", ""):
        with pytest.raises(ValueError, match=f"no metric is called '{unknown}'. Known: accuracy, micro_f1"):
            metric_named(unknown)
