"""Every metric against its authority: scikit-learn, SciPy, seqeval, and the official scripts' definitions."""

import pickle
import random
import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef, precision_recall_fscore_support
from sklearn.preprocessing import MultiLabelBinarizer

from acclimate.core.types import Label
from acclimate.reading.datasets.blurb import DATASETS
from acclimate.tasks.metrics import (
    BLURB,
    METRICS,
    accuracy_and_f1,
    blurb_score,
    metric_for,
    metric_named,
    micro_f1_without,
)
from acclimate.tasks.tags import entities, join_tags, joined_tags
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


def searches(seed: int, count: int = 40) -> tuple[list[Label], list[Label]]:
    """Relevant documents, by grades from 1 to 3, and rankings of 0 to 120 documents; some were never judged."""
    generator = random.Random(seed)
    names = [f"d{number}" for number in range(150)]
    gold = [
        tuple(
            name for name in generator.sample(names, generator.randint(1, 20)) for _ in range(generator.randint(1, 3))
        )
        for _ in range(count)
    ]
    ranked = []
    for relevant in gold:
        order = generator.sample(names, generator.randint(0, 120))
        ranked.append(tuple(sorted(order, key=lambda name: generator.random() - 0.5 * (name in relevant))))
    return gold, ranked


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
HOC = [METRICS[f"hoc_{name}"] for name in ("micro_per_hallmark_mean", "micro_pooled", "example_f1")]
OF_RANKS = [METRICS["strict_accuracy"], METRICS["lenient_accuracy"], METRICS["mrr"]]
OF_SEARCH = [METRICS["ndcg_at_10"], METRICS["mrr_at_10"], METRICS["recall_at_100"]]
OF_CLASSES = [METRICS["accuracy"], METRICS["micro_f1"], METRICS["macro_f1"]]
WITHOUT = [micro_f1_without("none"), micro_f1_without("none", "cause")]
EVERY: list[tuple[Metric, Labels]] = [
    *((metric, labels(1, count=12)) for metric in (*OF_CLASSES, *WITHOUT)),
    *((metric, sets(1, count=12)) for metric in (*OF_CLASSES, *WITHOUT)),
    *((metric, sets(2, count=12)) for metric in HOC),
    (METRICS["matthews"], labels(2, count=12)),
    (accuracy_and_f1("cause"), labels(3, count=12)),
    (METRICS["entity_f1"], sentences(0, count=12)),
    (METRICS["word_accuracy"], sentences(1, count=12)),
    (METRICS["word_macro_f1"], sentences(2, count=12)),
    (METRICS["word_type_macro_f1"], sentences(3, count=12)),
    (METRICS["pearson"], numbers(0, count=12)),
    (METRICS["spearman"], numbers(1, count=12)),
    (METRICS["pearson_and_spearman"], numbers(2, count=12)),
    (METRICS["exact_match"], ANSWERS),
    (METRICS["f1"], ANSWERS),
    *((metric, RANKED) for metric in OF_RANKS),
    *((metric, searches(0)) for metric in OF_SEARCH),
]
IN_SUMS = [(metric, pairs) for metric, pairs in EVERY if "spearman" not in metric.name]
NAMED = [f"{metric.name}, {type(pairs[0][0]).__name__}" for metric, pairs in EVERY]


@pytest.mark.parametrize("case", SINGLE)
@pytest.mark.parametrize(
    ("metric", "ignore"),
    [*((metric, set()) for metric in OF_CLASSES), (WITHOUT[0], {"none"}), (WITHOUT[1], {"none", "cause"})],
)
def test_metrics_of_one_label_equal_scikit_learn(metric, ignore, case):
    gold, predicted = SINGLE[case]
    if metric.name == "accuracy":
        expected = accuracy_score(gold, predicted)
    else:
        kept = sorted((set(gold) | set(predicted)) - ignore)
        expected = f1_score(gold, predicted, labels=kept, average=metric.name.split("_")[0], zero_division=0)
    assert metric.compute(gold, predicted) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", SEVERAL)
@pytest.mark.parametrize("metric", OF_CLASSES, ids=lambda metric: metric.name)
def test_metrics_of_several_labels_equal_scikit_learn(metric, case):
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


@pytest.mark.parametrize("letters", ["BI", "I", "BIES"])
@pytest.mark.parametrize("seed", range(3))
def test_entity_f1_equals_seqeval(letters, seed):
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


def test_entities_are_read_as_conlleval_does():
    assert entities(("I-a", "I-a", "I-b", "B-b", "O", "I-b")) == {(0, 1, "a"), (2, 2, "b"), (3, 3, "b"), (5, 5, "b")}
    assert METRICS["entity_f1"].compute([("O", "O"), ()], [("O", "O"), ()]) == 0.0
    with pytest.raises(ValueError, match="the tag 'X-a' is not O and does not begin with B-"):
        entities(("O", "X-a"))
    with pytest.raises(ValueError, match="item 1: 2 gold tags, but 1 predicted"):
        METRICS["entity_f1"].compute([("O",), ("O", "O")], [("O",), ("O",)])


@pytest.mark.parametrize("seed", range(3))
def test_metrics_over_words_equal_scikit_learn(seed):
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
def test_pearson_equals_scipy(scale, shift):
    x, y = (np.array(side) for side in numbers(0))
    moved = (scale * x + shift).tolist(), (y * scale - shift).tolist()
    # what the shift has rounded away is gone for both; at 1e200 SciPy's squares would overflow
    expected = stats.pearsonr(*(moved if shift else (x, y))).statistic
    assert METRICS["pearson"].compute(*moved) == pytest.approx(expected, abs=1e-9)
    assert METRICS["pearson"].compute(moved[0], (-np.array(moved[0])).tolist()) == pytest.approx(-1.0, abs=1e-9)
    assert METRICS["pearson"].least == -1.0


def test_pearson_with_a_constant_is_zero_and_with_no_number_is_refused():
    assert METRICS["pearson"].compute([1.0, 2.0, 3.0], [0.1, 0.1, 0.1]) == 0.0
    assert METRICS["pearson"].compute([0.1] * 7, [1.0] * 7) == 0.0
    assert METRICS["pearson"].compute([0.5], [0.7]) == 0.0
    for wrong in (float("nan"), float("inf"), ("a",)):
        with pytest.raises(ValueError, match=r"predicted label .* is not a finite number"):
            METRICS["pearson"].compute([1.0, 2.0], [1.0, wrong])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ties", [False, True])
def test_spearman_equals_scipy_and_leaving_out_an_item_is_exact(ties, seed):
    gold, predicted = (np.round(side) if ties else np.array(side) for side in numbers(seed))
    statistics = METRICS["spearman"].statistics(gold.tolist(), predicted.tolist())
    expected = stats.spearmanr(gold, predicted).statistic
    assert METRICS["spearman"].compute(gold.tolist(), predicted.tolist()) == pytest.approx(expected, abs=1e-12)
    without = [stats.spearmanr(np.delete(gold, i), np.delete(predicted, i)).statistic for i in range(len(gold))]
    left_out = METRICS["spearman"].value(statistics.sum(axis=0) - statistics)
    jackknife = [values - values.mean() for values in (left_out, np.array(without))]
    np.testing.assert_allclose(*jackknife, atol=1e-12)
    both = METRICS["pearson_and_spearman"].compute(gold.tolist(), predicted.tolist())
    assert both == pytest.approx((expected + stats.pearsonr(gold, predicted).statistic) / 2, abs=1e-12)


def test_spearman_of_few_or_constant_numbers():
    for name in ("spearman", "pearson_and_spearman"):
        compute = METRICS[name].compute
        assert compute([1.0, 2.0, 3.0], [0.1] * 3) == compute([0.1] * 3, [1.0, 2.0, 3.0]) == compute([2.0], [5.0]) == 0
        assert compute([1.0, 2.0], [3.0, 4.0]) == pytest.approx(1)
        assert compute([1.0, 2.0], [4.0, 3.0]) == pytest.approx(-1)
        with pytest.raises(ValueError, match="gold label 'x' is not a finite number"):
            compute(["x", 1.0], [1.0, 2.0])


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("seed", range(2))
def test_matthews_of_random_labels_equals_scikit_learn(seed, classes):
    gold, predicted = np.random.default_rng(seed).integers(classes, size=(2, 40)).astype(str).tolist()
    mixed = gold[:20] + predicted[20:]
    for said in (predicted, mixed, gold, ["0"] * 40):
        expected = matthews_corrcoef(gold, said)
        assert METRICS["matthews"].compute(gold, said) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", SINGLE)
@pytest.mark.parametrize("label", ["treat", "cause", "nowhere"])
def test_accuracy_and_f1_of_a_class_equal_scikit_learn(label, case):
    gold, predicted = SINGLE[case]
    f1 = f1_score(gold, predicted, labels=[label], average="macro", zero_division=0)
    expected = (accuracy_score(gold, predicted) + f1) / 2
    assert accuracy_and_f1(label).compute(gold, predicted) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", SEVERAL)
def test_the_three_metrics_of_hoc_equal_scikit_learn(case):
    gold, predicted = SEVERAL[case]
    found = [metric.compute(gold, predicted) for metric in HOC]
    occurring = sorted({name for row in (*gold, *predicted) for name in row})
    if not occurring:  # no document bears anything
        assert found == [0, 0, 0]
        return
    maker = MultiLabelBinarizer(classes=[*occurring, "nowhere"])
    matrices = [maker.fit_transform(gold)[:, :-1], maker.transform(predicted)[:, :-1]]
    columns = zip(*(matrix.T for matrix in matrices), strict=True)
    by_hallmark = np.mean([f1_score(ours, theirs, zero_division=0) for ours, theirs in columns])
    pooled = f1_score(*(matrix.ravel() for matrix in matrices), zero_division=0)
    labelled = matrices[0].any(axis=1)
    precision, recall = 0.0, 0.0
    if labelled.any():
        several = [np.hstack([matrix[labelled], np.zeros((labelled.sum(), 1), int)]) for matrix in matrices]
        precision, recall, *_ = precision_recall_fscore_support(*several, average="samples", zero_division=0)
    by_example = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    assert found == pytest.approx([by_hallmark, pooled, by_example], abs=1e-12)


def by_linkbert(gold: Sequence[Label], predicted: Sequence[Label]) -> float:
    """The mean over types of seqeval's F1 where every I- has become a B-, so that each word is an entity."""
    report = pytest.importorskip("seqeval.metrics", reason="seqeval is in the extra 'test'").classification_report
    sides = [[[re.sub("^I-", "B-", tag) for tag in row] for row in side] for side in (gold, predicted)]
    found = report(*sides, output_dict=True, zero_division=0)
    return float(np.mean([value["f1-score"] for name, value in found.items() if not name.endswith(" avg")]))


@pytest.mark.parametrize("seed", range(5))
def test_f1_over_words_by_type_is_what_linkbert_computes_for_pico(seed):
    types = ["O", "O", "I-P", "B-P", "I-I", "B-I", "I-O"]  # outcomes may be called O, as what is outside is
    generator = random.Random(seed)
    gold = [tuple(generator.choices(types, k=generator.randint(1, 9))) for _ in range(40)]
    predicted = [tuple(tag if generator.random() < 0.6 else generator.choice(types) for tag in row) for row in gold]
    metric = METRICS["word_type_macro_f1"]
    assert metric.compute(gold, predicted) == pytest.approx(by_linkbert(gold, predicted), abs=1e-12)
    no_outcome = [tuple("O" if tag == "I-O" else tag for tag in row) for row in predicted]
    assert metric.compute(gold, no_outcome) == pytest.approx(by_linkbert(gold, no_outcome), abs=1e-12)
    assert metric.compute([("O", "O")], [("O", "O")]) == 0.0
    assert metric.compute([("B-P", "I-P")], [("I-P", "B-P")]) == 1.0
    with pytest.raises(ValueError, match="the tag 'P' is not O and does not begin with"):
        metric.compute([("P",)], [("O",)])


@pytest.mark.parametrize(("metric", "pairs"), EVERY, ids=NAMED)
def test_metrics_stay_in_range_travel_and_do_not_depend_on_the_order_of_items(metric, pairs):
    value = metric.compute(*pairs)
    assert pickle.loads(pickle.dumps(metric)).compute(*pairs) == value
    assert metric.least <= value < 1.0
    order = np.random.default_rng(0).permutation(len(pairs[0]))
    assert metric.compute(*([side[i] for i in order] for side in pairs)) == pytest.approx(value, abs=1e-12)
    assert metric.compute(pairs[0], pairs[0]) > value
    assert metric.value(np.zeros((2, len(order))) @ metric.statistics(*pairs)).tolist() == [0.0, 0.0]
    single = np.eye(len(order))[:1] * len(order)
    assert metric.least <= metric.value(single @ metric.statistics(*pairs)).item() <= 1.0
    with pytest.raises(ValueError, match="no examples"):
        metric.compute([], [])
    with pytest.raises(ValueError, match="2 gold labels, but 1 predictions"):
        metric.compute(pairs[0][:2], pairs[1][:1])


# columns of the BLURB paper: BERT uncased and PubMedBERT of Table 6, Wiki and word pieces of Table 7
PUBLISHED = [
    ((89.25, 81.44, 85.67, 80.90, 78.63, 72.34, 71.86, 80.04, 77.72, 82.68, 80.20, 51.62, 70.36), 75.99),
    ((93.33, 85.62, 87.82, 84.52, 80.06, 73.38, 77.24, 82.36, 82.34, 92.30, 82.32, 55.84, 87.56), 81.10),
    ((93.20, 85.00, 88.39, 83.65, 79.90, 73.30, 75.04, 81.30, 79.48, 91.36, 81.76, 52.20, 73.69), 79.00),
]


@pytest.mark.parametrize(("column", "expected"), PUBLISHED)
def test_the_blurb_score_of_published_columns_is_the_published_one(column, expected):
    names = [name for datasets in BLURB.values() for name in datasets]
    assert blurb_score(dict(zip(names, column, strict=True))) == pytest.approx(expected, abs=0.01)
    assert np.mean(column) != pytest.approx(expected, abs=0.1)  # not the mean over datasets


def test_the_blurb_score_groups_datasets_as_their_catalogue_does_and_needs_every_one_and_no_other():
    assert {(name, type) for type, names in BLURB.items() for name in names} == {
        (dataset.name, dataset.type) for dataset in DATASETS
    }
    full = {name: 0.5 for datasets in BLURB.values() for name in datasets}
    assert blurb_score(full) == 0.5
    with pytest.raises(ValueError, match=r"no score for BC2GM, HoC: the BLURB score needs all 13 datasets"):
        blurb_score({name: score for name, score in full.items() if name not in {"BC2GM", "HoC"}})
    with pytest.raises(ValueError, match="'hoc': not a dataset of BLURB"):
        blurb_score(full | {"hoc": 0.5})
    with pytest.raises(ValueError, match="the score of DDI is nan"):
        blurb_score(full | {"DDI": float("nan")})


def squad(gold: Sequence[str], said: str) -> tuple[float, float]:
    """Exact match and F1 of one answer by the definition of evaluate-v1.1.py: precision and recall of common words."""

    def normal(text: str) -> str:
        bare = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())

    def f1(answer: str) -> float:
        ours, theirs = normal(answer).split(), normal(said).split()
        same = sum((Counter(ours) & Counter(theirs)).values())
        if same == 0:
            return 0.0
        precision, recall = same / len(theirs), same / len(ours)
        return 2 * precision * recall / (precision + recall)

    return max(float(normal(answer) == normal(said)) for answer in gold), max(f1(answer) for answer in gold)


def test_answers_are_judged_as_squad_judges_them():
    gold, predicted = ANSWERS
    # a question without an answer, which SQuAD 1.1 does not have, is answered by saying nothing
    expected = [
        squad(ours, said if isinstance(said, str) else said[0]) if ours else (float(not said),) * 2
        for ours, said in zip(*ANSWERS, strict=True)
    ]
    for metric, column in (("exact_match", 0), ("f1", 1)):
        each = [METRICS[metric].compute([ours], [said]) for ours, said in zip(gold, predicted, strict=True)]
        assert each == pytest.approx([row[column] for row in expected], abs=1e-12)
        assert METRICS[metric].compute(gold, predicted) == pytest.approx(np.mean(each), abs=1e-12)
    assert [row[0] for row in expected] == [1, 0, 1, 1, 0, 0]
    assert METRICS["f1"].compute([("aspirin",)], [("ibuprofen and aspirin",)]) == pytest.approx(0.5)


@pytest.mark.parametrize("seed", range(5))
def test_random_answers_are_judged_as_squad_judges_them(seed):
    generator = random.Random(seed)
    vocabulary = ["The", "a", "an", "p53", "Heart,", "heart", "(gene)", "-", ".", "naïve", "U.S.", "  x "]
    answers = [" ".join(generator.choices(vocabulary, k=generator.randint(0, 4))) for _ in range(400)]
    gold = [tuple(generator.choices(answers, k=generator.randint(1, 4))) for _ in answers]
    expected = np.mean([squad(ours, said) for ours, said in zip(gold, answers, strict=True)], axis=0)
    found = [METRICS[name].compute(gold, answers) for name in ("exact_match", "f1")]
    assert found == pytest.approx(expected.tolist(), abs=1e-12)
    assert (expected > 0.05).all()
    assert (expected < 0.9).all()  # neither everything nor nothing was right


@pytest.mark.parametrize("seed", range(5))
def test_random_ranked_answers_are_judged_as_bioasq_judges_them(seed):
    """By the official program: lower case, equality with any synonym, the first that is right of up to five."""
    generator = random.Random(seed)
    names = ["p53", "P53", "TP53", "MDM2", "Mdm2", "aspirin", "p53 gene"]
    gold: list[Label] = [tuple(generator.sample(names, generator.randint(0, 3))) for _ in range(100)]
    said: list[Label] = [tuple(generator.sample(names, generator.randint(0, 7))) for _ in gold]
    strict = lenient = reciprocal = 0.0
    for synonyms, answers in zip(gold, said, strict=True):
        right = [each.lower() in [synonym.lower() for synonym in synonyms] for each in answers[:5]]
        strict += bool(right) and right[0]
        lenient += any(right)
        reciprocal += 1 / (right.index(True) + 1) if any(right) else 0
    found = [metric.compute(gold, said) for metric in OF_RANKS]
    assert found == pytest.approx([strict / 100, lenient / 100, reciprocal / 100], abs=1e-12)
    assert found[0] < found[2] < found[1]


@pytest.mark.parametrize(("metric", "pairs"), IN_SUMS, ids=[name for name in NAMED if "spearman" not in name])
def test_weighted_sums_equal_computing_on_repeated_items(metric, pairs):
    gold, predicted = pairs
    items = len(gold)
    weights = np.random.default_rng(2).multinomial(items, np.full(items, 1 / items), size=50)
    values = metric.value(weights @ metric.statistics(gold, predicted))
    for row, value in zip(weights, values, strict=True):
        again = [[side[i] for i in range(items) for _ in range(row[i])] for side in pairs]
        assert value == pytest.approx(metric.compute(*again), abs=1e-12)


def test_metrics_are_found_by_name():
    assert all(metric_named(name) is metric for name, metric in METRICS.items())
    assert metric_named("micro_f1 without none, cause") == micro_f1_without("cause", "none")
    assert metric_named("accuracy_and_f1 of equivalent") == accuracy_and_f1("equivalent")
    assert metric_named(metric_named("micro_f1 without none").name).compute(["none"], ["none"]) == 0.0
    assert {kind: metric_for(kind, "").name for kind in ("sequence", "score", "tokens")} == {
        "sequence": "macro_f1", "score": "pearson", "tokens": "entity_f1",
    }  # fmt: skip
    assert all(kind in metric_for(kind, "").kinds for kind in ("sequence", "multilabel", "score", "tokens", "span"))
    for unknown in ("macro-f1", "micro_f1 without ", "accuracy_and_f1 of ", ""):
        with pytest.raises(ValueError, match=f"no metric is named '{unknown}'.*. Known: accuracy, micro_f1"):
            metric_named(unknown)
    with pytest.raises(ValueError, match="'macro-f1'; the nearest is 'macro_f1'"):
        metric_named("macro-f1")


def overlapping(seed: int, count: int = 40) -> tuple[list[Label], list[Label]]:
    """Words that up to three elements cover, in gold and predicted tags that often agree."""
    generator = random.Random(seed)

    def tag() -> str:
        return join_tags(f"I-{element}" for element in ("INT", "OUT", "PAR") if generator.random() < 0.4)

    gold = [tuple(tag() for _ in range(generator.randint(1, 9))) for _ in range(count)]
    predicted = [tuple(known if generator.random() < 0.5 else tag() for known in tags) for tags in gold]
    return list(gold), list(predicted)


@pytest.mark.parametrize("name", ["word_type_macro_f1", "word_macro_f1"])
@pytest.mark.parametrize("seed", range(3))
def test_a_word_that_several_elements_cover_counts_for_each_as_in_scikit_learn(seed, name):
    pair = overlapping(seed)
    flat = [[set(joined_tags(tag)) - {"O"} for tags in side for tag in tags] for side in pair]
    binarizer = MultiLabelBinarizer(classes=["I-INT", "I-OUT", "I-PAR"])
    gold, predicted = (binarizer.fit_transform(side) for side in flat)
    assert METRICS[name].compute(*pair) == pytest.approx(f1_score(gold, predicted, average="macro"), abs=1e-12)


def trec_eval(relevant: Counter[str], ranked: Sequence[str]) -> tuple[float, float, float]:
    """ndcg_cut.10, recip_rank of the first 10 and recall.100, transcribed from the programs m_*.c of those names.

    They walk down the ranking, and then down the counts of each grade, the highest first.
    """
    gain = 0.0
    for place, name in enumerate(ranked):
        if place < 10:
            gain += relevant[name] / np.log2(place + 2)
    ideal, place = 0.0, 0
    for grade in (3, 2, 1):
        for _ in range(list(relevant.values()).count(grade)):
            ideal += grade / np.log2(place + 2) if place < 10 else 0.0
            place += 1
    first = next((place for place, name in enumerate(ranked[:10]) if relevant[name] > 0), None)
    hits = sum(relevant[name] > 0 for name in ranked[:100])
    return gain / ideal, 0.0 if first is None else 1 / (first + 1), hits / len(relevant)


def test_metrics_of_search_equal_trec_eval():
    gold, ranked = searches(1)
    expected = np.array([trec_eval(Counter(ours), theirs) for ours, theirs in zip(gold, ranked, strict=True)])
    for metric, scores in zip(OF_SEARCH, expected.T, strict=True):
        np.testing.assert_allclose(metric.statistics(gold, ranked)[:, 0], scores, atol=1e-12)
        assert metric.compute(gold, ranked) == pytest.approx(scores.mean(), abs=1e-12)
    by_hand = [("a", "a", "b")], [("b", "x", "a")]  # gains 1 and 2 at ranks 1 and 3; at best 2 and 1 at ranks 1 and 2
    assert OF_SEARCH[0].compute(*by_hand) == pytest.approx((1 + 2 / 2) / (2 + 1 / np.log2(3)))
