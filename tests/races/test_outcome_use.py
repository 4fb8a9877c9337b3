"""The rule that chooses the model of a race to use, case by case."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from acclimate.core.types import Cost, FoldScore, Score
from acclimate.races.outcome import CellResult, ScoredTask, choose, encoder_to_train, probe_row

TASK = ScoredTask("salts", "sequence", "accuracy", ("accuracy",), {"train": 90, "dev": 20, "test": 30})
FLOPS = {"untouched": 0.0, "TF-IDF": 0.0, "TAPT": 1e12, "DAPT": 9e12}


def result(row: str, *dev: float, learnt: bool = True, failed: str = "") -> CellResult:
    """A contestant with a dev score for each seed. The best on dev is the worst on test."""
    cost = Cost(flops=FLOPS[row])
    scores = tuple(
        Score(row, "salts", "accuracy", seed, score, 1 - score, ("a",), ("x",), ("x",), cost, Cost(), learnt=learnt)
        for seed, score in enumerate(dev)
    )
    return CellResult("", row, "salts", TASK, scores, failed=failed, encoder=row != "TF-IDF")


def race(**dev: float | tuple[float, ...]) -> list[CellResult]:
    named = {name.replace("_", "-"): score for name, score in dev.items()}
    return [result(name, *(score if isinstance(score, tuple) else (score,))) for name, score in named.items()]


@pytest.mark.parametrize(
    ("dev", "margin", "use", "encoder"),
    [
        ({"untouched": 0.70, "TAPT": 0.72, "DAPT": 0.80, "TF_IDF": 0.60}, 1.0, "DAPT", "DAPT"),
        ({"untouched": 0.70, "TAPT": 0.72, "DAPT": 0.80, "TF_IDF": 0.90}, 1.0, "TF-IDF", "DAPT"),
        ({"untouched": 0.70, "TAPT": 0.80, "DAPT": 0.80, "TF_IDF": 0.795}, 1.0, "TF-IDF", "TAPT"),
        ({"untouched": 0.795, "TAPT": 0.80, "DAPT": 0.80, "TF_IDF": 0.70}, 1.0, "untouched", "TAPT"),
        ({"untouched": 0.70, "TAPT": 0.795, "DAPT": 0.80, "TF_IDF": 0.70}, 1.0, "TAPT", "DAPT"),
        ({"untouched": 0.79, "TAPT": 0.70, "DAPT": 0.80}, 1.0, "untouched", "DAPT"),  # exactly the margin
        ({"untouched": 0.789, "TAPT": 0.70, "DAPT": 0.80}, 1.0, "DAPT", "DAPT"),
        ({"untouched": 0.78, "TAPT": 0.79, "DAPT": 0.80}, 1.0, "TAPT", "DAPT"),  # near TAPT, not near the best
        ({"untouched": 0.75, "TAPT": 0.79, "DAPT": 0.80}, 0.0, "DAPT", "DAPT"),
        ({"untouched": 0.80, "TAPT": 0.80, "TF_IDF": 0.80}, 0.0, "TF-IDF", "untouched"),  # ties
        ({"untouched": 0.3, "DAPT": 0.1 + 0.2}, 0.0, "untouched", "DAPT"),  # rounding is no difference
        ({"untouched": 0.70, "DAPT": (0.60, 0.84), "TAPT": (0.71, 0.72)}, 1.0, "TAPT", "DAPT"),  # the mean over seeds
        ({"untouched": 0.70, "TAPT": math.nan, "TF_IDF": 0.60}, 1.0, "untouched", "untouched"),
        ({"untouched": 0.70, "TF_IDF": math.nan}, 1.0, "untouched", "untouched"),
        ({"untouched": 0.0, "TF_IDF": -0.2}, 5.0, "untouched", "untouched"),  # a correlation may be negative
        ({"untouched": 0.70}, 1.0, "untouched", "untouched"),
    ],
)
def test_the_best_on_dev_is_used_unless_a_simpler_one_is_near(dev, margin, use, encoder):
    results = race(**dev)
    chosen = choose(results, margin)
    assert (chosen.contestant, chosen.encoder) == (use, encoder)
    assert choose([*reversed(results)], margin).contestant == use, "their order decides nothing here"
    assert encoder_to_train(results, margin) == (use if use != "TF-IDF" else encoder)


def test_the_reason_names_both_scores_and_the_margin():
    near = choose(race(untouched=0.70, DAPT=0.80, TF_IDF=0.795), 1.0)
    assert near.reason == "TF-IDF is simpler than DAPT and at most 1 point worse on dev: 79.5 against 80.0 points."
    assert choose(race(untouched=0.79, DAPT=0.80), 2.5).reason == (
        "The untouched model is simpler than DAPT and at most 2.5 points worse on dev: 79.0 against 80.0 points."
    )
    assert choose(race(untouched=0.70, DAPT=0.80), 1.0).reason == "DAPT has the best dev score, 80.0 points."
    assert choose(race(untouched=0.70), 1.0).reason == "", "there was no choice"


def test_what_failed_learnt_nothing_or_was_probed_is_no_candidate():
    rest = race(untouched=0.70, TF_IDF=0.60)
    assert choose([result("DAPT", 0.9), *rest], 1.0).contestant == "DAPT"
    for other in (
        result("DAPT", 0.9, learnt=False),
        result("DAPT", 0.9, failed="no memory"),
        result("DAPT"),
        replace(result("DAPT", 0.9), row=probe_row("DAPT"), probe=True),
    ):
        assert choose([other, *rest], 1.0).contestant == "untouched"


def test_a_baseline_is_used_if_no_encoder_learnt_the_task_and_the_baseline_did():
    untaught = result("untouched", 0.5, learnt=False)
    chosen = choose([untaught, result("TF-IDF", 0.6)], 1.0)
    assert (chosen.contestant, chosen.encoder) == ("TF-IDF", "")
    assert chosen.reason == "TF-IDF is used, because no fine-tuned encoder of this race has learned the task."
    nothing = choose([untaught, result("TF-IDF", 0.5, learnt=False)], 1.0)
    assert (nothing.contestant, nothing.encoder, nothing.reason) == ("", "", "")
    assert encoder_to_train([untaught, result("TF-IDF", 0.6)], 1.0) == ""


def test_a_probe_alone_leaves_the_baseline():
    probe = replace(result("untouched", 0.9), row=probe_row("untouched"), probe=True)
    assert choose([probe, result("TF-IDF", 0.6)], 1.0).reason == "TF-IDF is used, because nothing was fine-tuned."
    assert choose([probe], 1.0).contestant == ""


def test_a_cross_validation_counts_the_folds_that_learnt_nothing():
    def folded(row: str, dev: float, *learnt: bool) -> CellResult:
        folds = tuple(FoldScore(10, dev, dev, learnt=each) for each in learnt)
        return replace(result(row, dev), scores=tuple(replace(one, folds=folds) for one in result(row, dev).scores))

    untouched = folded("untouched", 0.7, True, True, True)
    assert choose([untouched, folded("DAPT", 0.8, True, True, False)], 1.0).contestant == "DAPT"
    assert choose([untouched, folded("DAPT", 0.8, True, False, False)], 1.0).contestant == "untouched"
