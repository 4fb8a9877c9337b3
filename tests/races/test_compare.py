"""Comparisons of a study's cells: against naive transcriptions, on made-up scores."""

from dataclasses import replace

import numpy as np
import pytest

from acclimate.core.types import Cost
from acclimate.races.compare import MAIN, Against, Mean, compare, mean_cost
from acclimate.statistics.means import mean_difference, mean_interval
from acclimate.statistics.significance import compare as compare_scores
from acclimate.statistics.significance import holm, interval, resample
from acclimate.tasks.metrics import METRICS
from studies import outcome_of_pairs, result

ACCURACY = METRICS["accuracy"]
LEVELS = {"untouched": 1.2, "TAPT": 1.5, "DAPT": 1.9, "random": 0.2}


def made(columns=("Genes",)):
    cells = [result(row, level, column) for column in columns for row, level in LEVELS.items()]
    return {cell.key: cell for cell in cells}


def key(row: str, column: str = "Genes"):
    return "", row, column


def test_holm_counts_a_family_together_whatever_stands_between():
    found = made()
    pairs = [
        ("TAPT", "untouched", "a"),
        ("DAPT", "untouched", "b"),
        ("random", "untouched", "a"),
        ("DAPT", "TAPT", "b"),
    ]
    against = [Against(key(one), (key(other),), other, family) for one, other, family in pairs]
    compared = compare(found, against)
    naive = [compare_scores(found[key(one)].scores, found[key(other)].scores, ACCURACY) for one, other, _ in pairs]
    assert [contrast.comparison for contrast in compared.contrasts] == naive
    for family, numbers in {"a": (0, 2), "b": (1, 3)}.items():
        assert compared.count(family) == 2
        told = [compared.contrasts[at] for at in numbers]
        assert [contrast.p_adjusted for contrast in told] == holm([naive[at].p for at in numbers])
        assert [contrast.p_seeds_holm for contrast in told] == holm([naive[at].p_seeds for at in numbers])
    assert compared.contrast(key("DAPT"), "untouched").said == "better"
    assert compared.contrast(key("random"), "untouched").said == "worse"
    assert compared.contrast(key("TAPT"), "DAPT") is None


def test_intervals_are_of_cells_alone_and_of_several_references_the_highest_is_taken():
    found = made()
    compared = compare(found, [])
    for place, cell in found.items():
        assert compared.intervals[place, MAIN] == interval(cell.scores, ACCURACY)
    against = [Against(key("TAPT"), (key("random"), key("untouched"), key("DAPT")), "the best", "one")]
    assert compare(found, against).contrasts[0].reference == key("DAPT")


def test_every_metric_is_of_the_same_predictions_and_a_family_of_its_own():
    found = made()
    against = [Against(key(row), (key("untouched"),), "untouched", "all") for row in ("TAPT", "DAPT")]
    two = {
        place: replace(cell, task=replace(cell.task, metrics=("accuracy", "macro_f1"))) for place, cell in found.items()
    }
    both = compare(two, against)
    assert both.contrasts[:2] == pytest.approx(both.contrasts[:2])
    assert [contrast.metric for contrast in both.contrasts] == [MAIN, MAIN, "macro_f1", "macro_f1"]
    assert both.count("all") == 2
    macro = [contrast for contrast in both.contrasts if contrast.metric == "macro_f1"]
    assert [contrast.p_adjusted for contrast in macro] == holm([contrast.comparison.p for contrast in macro])
    scores = found[key("TAPT")].scores
    values = [METRICS["macro_f1"].compute(score.gold, score.predicted) for score in scores]
    assert both.draws[key("TAPT"), "macro_f1"].points_S == pytest.approx(values)


def test_what_failed_is_compared_with_nothing_and_counts_in_no_family():
    found = made()
    lost = key("random")
    found[lost] = result("random", failed="seed 1: out of memory")
    against = [Against(key(row), (key("untouched"),), "untouched", "all") for row in LEVELS if row != "untouched"]
    compared = compare(found, against)
    assert (lost, MAIN) not in compared.intervals
    assert compared.contrast(lost, "untouched") is None
    assert compared.count("all") == 2
    naive = [
        compare_scores(found[key(row)].scores, found[key("untouched")].scores, ACCURACY) for row in ("TAPT", "DAPT")
    ]
    assert [comparison.p_adjusted for comparison in compared.contrasts] == holm([comparison.p for comparison in naive])


def untaught(cell, runs: int):
    """The cell, of which so many runs learnt nothing."""
    scores = (replace(score, learnt=at >= runs) for at, score in enumerate(cell.scores))
    return replace(cell, scores=tuple(scores))


def test_what_learnt_nothing_has_a_score_and_is_compared_with_nothing():
    against = [Against(key(row), (key("untouched"),), "untouched", "all") for row in LEVELS if row != "untouched"]
    found = made()
    nothing, some = found[key("random")], found[key("TAPT")]
    compared = compare(found | {nothing.key: untaught(nothing, 3), some.key: untaught(some, 2)}, against)
    assert compared.intervals[nothing.key, MAIN] == interval(nothing.scores, ACCURACY)
    assert compared.contrast(nothing.key, "untouched") is None
    assert compared.contrast(some.key, "untouched") is not None  # three runs of five did learn
    assert compared.count("all") == 2
    first = found[key("untouched")]
    assert not compare(found | {first.key: untaught(first, 5)}, against).contrasts


def test_cells_of_other_items_are_refused():
    found = made(("Genes", "Drugs"))
    scores = [
        score.__class__(**{**vars(score), "ids": score.ids[::-1]}) for score in found[key("TAPT", "Drugs")].scores
    ]
    found[key("TAPT", "Drugs")] = replace(found[key("TAPT", "Drugs")], scores=tuple(scores))
    with pytest.raises(ValueError, match=r", so they cannot be compared\. Score both on the same items"):
        compare(found, [Against(key("TAPT", "Drugs"), (key("untouched", "Genes"),), "x", "x")])


def test_a_mean_over_tasks_is_that_of_the_statistics():
    columns = ("Genes", "Drugs", "Cells")
    found, weights = made(columns), (0.5, 0.25, 0.25)
    means = [
        Mean(("", row, "all"), tuple((key(row, column),) for column in columns), weights)
        for row in ("TAPT", "untouched")
    ]
    against_mean = Against(means[0].key, (means[1].key,), "untouched", "means")
    compared = compare(found, [against_mean], means)
    draws = {place: resample(cell.scores, ACCURACY)[cell.row] for place, cell in found.items()}
    ours, theirs = ([draws[key(row, column)] for column in columns] for row in ("TAPT", "untouched"))
    assert compared.intervals[means[0].key, MAIN] == mean_interval(ours, weights)
    assert compared.contrasts[0].comparison == mean_difference(ours, theirs, weights)
    lost = found[key("TAPT", "Drugs")]
    nothing_learnt = compare(found | {lost.key: untaught(lost, 5)}, [against_mean], means)
    assert not nothing_learnt.contrasts
    assert (means[0].key, MAIN) in nothing_learnt.intervals
    found[lost.key] = result("TAPT", column="Drugs", failed="lost")
    again = compare(found, [against_mean], means)
    assert not again.contrasts
    assert (means[0].key, MAIN) not in again.intervals
    assert (means[1].key, MAIN) in again.intervals


@pytest.mark.parametrize("failed", ["", "Drugs"])
def test_groups_are_means_over_targets_of_means_over_first_tasks(failed):
    outcome = outcome_of_pairs(failed=failed)
    score = {place: found.mean for (place, _), found in outcome.compared.intervals.items()}
    told = {
        contrast.against.key[1]: contrast
        for contrast in outcome.compared.contrasts
        if contrast.against.name.endswith("by types")
    }

    def gain(first: str, target: str) -> float:
        return score["", first, target] - score["", "baseline", target]

    if failed:
        assert told.keys() == {"NER → RE", "RE → NER", "RE → RE"}
        assert told["RE → NER"].comparison.difference == pytest.approx(gain("Cells", "Genes"))
        assert told["RE → RE"].comparison.difference == pytest.approx(gain("Cells", "Drugs"))
        return
    naive = {
        "NER → RE": np.mean([gain("Genes", target) for target in ("Drugs", "Cells")]),
        "RE → NER": np.mean([gain(first, "Genes") for first in ("Drugs", "Cells")]),
        "RE → RE": np.mean([gain("Cells", "Drugs"), gain("Drugs", "Cells")]),
    }
    assert {name: line.comparison.difference for name, line in told.items()} == pytest.approx(naive)
    assert [contrast.p_adjusted for contrast in told.values()] == holm(
        [contrast.comparison.p for contrast in told.values()]
    )
    assert told["RE → NER"].said == "better"


def test_a_mean_cost_is_of_the_runs_that_there_are():
    assert mean_cost([Cost(10, 4.0, 1.0), Cost(20, 8.0, 3.0)]) == Cost(15, 6.0, 2.0)
    assert mean_cost([]) == Cost()
