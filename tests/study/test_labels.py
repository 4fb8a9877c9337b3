from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, f1_score
from sklearn.preprocessing import MultiLabelBinarizer

import studies
from acclimate.core.types import Score
from acclimate.study.labels import confusion, mean_predictions, per_label


def own(field: list[Score], contestant: str) -> list[Score]:
    return [score for score in field if score.contestant == contestant]


def test_label_scores_are_those_of_scikit_learn(field: list[Score]) -> None:
    dapt = own(field, "DAPT")
    found = per_label(own(field, "untouched"), dapt)
    labels = [label.label for label in found]
    expected = sum(f1_score(score.gold, score.predicted, labels=labels, average=None) for score in dapt) / len(dapt)
    assert [label.contestant for label in found] == pytest.approx(list(expected))
    assert [label.support for label in found] == sorted((label.support for label in found), reverse=True)
    assert sum(label.support for label in found) == len(dapt[0].gold)


def test_label_scores_of_rows_with_several_labels_are_those_of_scikit_learn() -> None:
    scores = studies.of_several("untouched", level=1.0)
    found = per_label(scores, scores)
    labels = [label.label for label in found]
    matrix = MultiLabelBinarizer(classes=labels).fit([labels])
    sides = [[matrix.transform(side) for side in (score.gold, score.predicted)] for score in scores]
    expected = sum(f1_score(*side, average=None) for side in sides) / len(sides)
    assert [label.untouched for label in found] == pytest.approx(list(expected))
    assert [label.support for label in found] == list(sides[0][0].sum(axis=0))
    assert set(labels) == set(studies.LABELS)


def test_confusions_are_those_of_scikit_learn_as_the_mean_over_seeds(field: list[Score]) -> None:
    scores = own(field, "DAPT")
    found = confusion(scores)
    expected = [confusion_matrix(score.gold, score.predicted, labels=list(found.labels)) for score in scores]
    assert np.array(found.counts) == pytest.approx(np.mean(expected, axis=0))
    assert found.pooled == 0
    assert list(found.labels) == [label.label for label in per_label(scores, scores)]


def test_rare_labels_are_pooled_and_every_item_stays(field: list[Score]) -> None:
    scores = own(field, "DAPT")
    whole, pooled = np.array(confusion(scores).counts), confusion(scores, most=3)
    assert pooled.labels[3:] == ("3 other labels",)
    counts = np.array(pooled.counts)
    assert counts.shape == (4, 4)
    assert counts[:3, :3] == pytest.approx(whole[:3, :3])
    assert counts[3, 3] == pytest.approx(whole[3:, 3:].sum())
    assert counts.sum() == pytest.approx(len(scores[0].gold))


def test_a_single_label_is_not_pooled(field: list[Score]) -> None:
    found = confusion(own(field, "DAPT"), most=5)
    assert (found.pooled, len(found.labels)) == (0, 6)


def test_a_label_that_is_only_predicted_has_a_row_without_items(field: list[Score]) -> None:
    scores = [replace(score, predicted=("unheard of", *score.predicted[1:])) for score in own(field, "DAPT")]
    found = confusion(scores)
    assert found.labels[-1] == "unheard of"
    assert sum(found.counts[-1]) == 0
    assert sum(row[-1] for row in found.counts) == pytest.approx(1)


def test_predicted_numbers_are_means_over_seeds() -> None:
    scores = studies.of_numbers("untouched", level=1.0)
    pairs = mean_predictions(scores)
    assert [gold for gold, _ in pairs] == list(scores[0].gold)
    assert pairs[7][1] == pytest.approx(np.mean([score.predicted[7] for score in scores]))
