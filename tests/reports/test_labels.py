from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, f1_score
from sklearn.preprocessing import MultiLabelBinarizer

import studies
from acclimate.core.types import Score
from acclimate.reports.labels import confusion, label_scores, mean_predictions, type_scores


def scores_of(field: list[Score], contestant: str) -> list[Score]:
    return [score for score in field if score.contestant == contestant]


def test_label_scores_are_those_of_scikit_learn(field):
    dapt = scores_of(field, "DAPT")
    found = label_scores(scores_of(field, "untouched"), dapt)
    labels = [label.label for label in found]
    expected = sum(f1_score(score.gold, score.predicted, labels=labels, average=None) for score in dapt) / len(dapt)
    assert [label.contestant for label in found] == pytest.approx(list(expected))
    assert [label.support for label in found] == sorted((label.support for label in found), reverse=True)
    assert sum(label.support for label in found) == len(dapt[0].gold)


def test_label_scores_of_rows_with_several_labels_are_those_of_scikit_learn():
    scores = studies.of_several("untouched", level=1.0)
    found = label_scores(scores, scores)
    labels = [label.label for label in found]
    matrix = MultiLabelBinarizer(classes=labels).fit([labels])
    sides = [[matrix.transform(side) for side in (score.gold, score.predicted)] for score in scores]
    expected = sum(f1_score(*side, average=None) for side in sides) / len(sides)
    assert [label.untouched for label in found] == pytest.approx(list(expected))
    assert [label.support for label in found] == list(sides[0][0].sum(axis=0))
    assert set(labels) == set(studies.LABELS)


def test_confusions_are_those_of_scikit_learn_as_the_mean_over_seeds(field):
    scores = scores_of(field, "DAPT")
    found = confusion(scores)
    expected = [confusion_matrix(score.gold, score.predicted, labels=list(found.labels)) for score in scores]
    assert np.array(found.counts) == pytest.approx(np.mean(expected, axis=0))
    assert found.pooled == 0
    assert list(found.labels) == [label.label for label in label_scores(scores, scores)]


def test_rare_labels_are_pooled_and_one_that_is_only_predicted_has_a_row_without_items(field):
    scores = scores_of(field, "DAPT")
    whole, pooled = np.array(confusion(scores).counts), confusion(scores, most=3)
    assert pooled.labels[3:] == ("3 other labels",)
    counts = np.array(pooled.counts)
    assert counts.shape == (4, 4)
    assert counts[:3, :3] == pytest.approx(whole[:3, :3])
    assert counts[3, 3] == pytest.approx(whole[3:, 3:].sum())
    assert counts.sum() == pytest.approx(len(scores[0].gold))
    found = confusion(scores_of(field, "DAPT"), most=5)
    assert (found.pooled, len(found.labels)) == (0, 6)
    scores = [replace(score, predicted=("unheard of", *score.predicted[1:])) for score in scores_of(field, "DAPT")]
    found = confusion(scores)
    assert found.labels[-1] == "unheard of"
    assert sum(found.counts[-1]) == 0
    assert sum(row[-1] for row in found.counts) == pytest.approx(1)


def test_predicted_numbers_are_means_over_seeds():
    scores = studies.of_numbers("untouched", level=1.0)
    pairs = mean_predictions(scores)
    assert [gold for gold, _ in pairs] == list(scores[0].gold)
    assert pairs[7][1] == pytest.approx(np.mean([score.predicted[7] for score in scores]))


def of_tags(predicted: list[tuple[str, ...]], metric: str, seed: int = 0) -> Score:
    gold = (("B-a", "I-a", "O", "B-b"), ("O", "B-a"), ("O",))
    made = studies.of_several("untouched", level=1.0, seeds=1)[0]
    return replace(made, gold=gold, predicted=tuple(predicted), metric=metric, seed=seed, ids=("0", "1", "2"))


def test_types_of_entities_are_scored_as_seqeval_does_as_the_mean_over_seeds():
    seqeval = pytest.importorskip("seqeval.metrics", reason="seqeval is in the extra 'test'")
    seeds = [
        [("B-a", "O", "O", "B-b"), ("O", "B-a"), ("B-c",)],
        [("B-a", "I-a", "O", "B-a"), ("O", "I-a"), ("O",)],
    ]
    scores = [of_tags(predicted, "entity_f1", seed) for seed, predicted in enumerate(seeds)]
    reports = [
        seqeval.classification_report(
            [*map(list, one.gold)], [*map(list, one.predicted)], output_dict=True, zero_division=0
        )
        for one in scores
    ]
    found = type_scores(scores[:1], scores)
    assert [(each.label, each.support) for each in found] == [("a", 2), ("b", 1)]
    for each in found:
        assert each.untouched == pytest.approx(reports[0][each.label]["f1-score"])
        assert each.contestant == pytest.approx(np.mean([report[each.label]["f1-score"] for report in reports]))


def test_tags_that_are_judged_word_by_word_are_scored_as_scikit_learn_does():
    score = of_tags([("B-a", "O", "O", "B-b"), ("O", "O"), ("B-b",)], "word_accuracy")
    found = type_scores([score], [score])
    gold, predicted = ([tag for row in side for tag in row] for side in (score.gold, score.predicted))
    names = [each.label for each in found]
    assert [(each.label, each.support) for each in found] == [("O", 3), ("B-a", 2), ("B-b", 1), ("I-a", 1)]
    expected = f1_score(gold, predicted, labels=names, average=None, zero_division=0)
    assert [each.contestant for each in found] == pytest.approx(list(expected))
