from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

import studies
from acclimate.core.figures import points
from acclimate.races.outcome import IN_SCIKIT_LEARN, NEAR, Facts, Outcome, best_on_dev
from acclimate.races.verdict import (
    GUIDE,
    MARGIN,
    claims,
    constant_score,
    further,
    next_race,
    one_sided,
    verdict,
    warnings,
    without_encoder,
)
from acclimate.tasks.metrics import metric_named
from made_up_races import race_of, rival, score_of, untouched

SIMPLE = "TF-IDF + logistic regression"


def predicting(outcome: Outcome, predicted: Mapping[str, Sequence[str]]) -> Outcome:
    """The outcome with ten test texts of three labels; predicted: contestant -> what it says of them."""
    gold, ids = (*"aaaaaabbbc",), tuple(map(str, range(10)))
    results = tuple(
        replace(
            each,
            scores=tuple(replace(one, ids=ids, gold=gold, predicted=(*predicted[each.row],)) for one in each.scores),
        )
        for each in outcome.results
    )
    return replace(outcome, results=results, race=replace(outcome.race, use="DAPT", encoder="DAPT"))


def test_what_gives_one_answer_is_named_and_what_the_model_to_use_never_predicts():
    outcome = race_of([untouched(), rival("DAPT", 0.03, p=0.01), rival("TF-IDF", 0.0, p=0.9)], baselines=["TF-IDF"])
    said = {"untouched": "aaaaaabbbc", "DAPT": "aaaaaaaaab", "TF-IDF": "aaaaaaaaaa"}
    assert [*one_sided(predicting(outcome, said))] == [
        "TF-IDF gives every test text the same answer, 'a'.",
        "On the test set the model to use never predicts c (1 test text). More training rows with such labels "
        "may help.",
    ]
    assert not [*one_sided(predicting(outcome, dict.fromkeys(said, "aaaaaabbbc")))]


def test_a_race_that_established_nothing_names_what_else_to_try():
    nothing = race_of([untouched(), rival("TAPT", 0.001, p=0.9)])
    said = further(nothing)
    assert said.startswith("Raw text of the domain (--corpus) adds contestants that adapt on it")
    assert GUIDE in said
    with_text = replace(nothing, race=replace(nothing.race, hashes={"corpus, domain": "1f"}))
    vars(with_text).update(compared=nothing.compared, answer=nothing.answer)
    assert further(with_text).startswith("See what helped in our runs")
    assert not further(race_of([untouched(), rival("TAPT", 0.031, p=0.01)]))
    assert not further(race_of([untouched(), rival("TAPT", 0.001, p=0.9)], untaught={"untouched", "TAPT"}))


def test_the_spread_is_that_of_encoders_and_not_of_a_baseline_which_has_no_seed():
    tapt, simple = rival("TAPT", 0.001, p=0.9, half=0.05), rival(SIMPLE, -0.1, p=0.001, half=0.001)
    both = next_race(race_of([untouched(), tapt, simple], baselines={SIMPLE}))
    alone = next_race(race_of([untouched(), tapt]))
    assert both == alone


@pytest.mark.parametrize(
    ("gain", "dev", "test", "why"),
    [
        (-0.12, 400, 400, "are both drawn alike?"),
        (-0.12, 50, 400, "with so few rows this may be chance."),
        (-0.12, 400, 50, "with so few rows this may be chance."),
        (-0.08, 400, 400, ""),
    ],
)
def test_a_model_that_is_far_worse_on_test_than_on_dev_is_named(gain, dev, test, why):
    dapt = replace(rival("DAPT", gain, p=0.9), dev=(0.8,) * 3)
    outcome = predicting(race_of([untouched(), dapt]), {"untouched": "aaaaaabbbc", "DAPT": "aaaaaabbbc"})
    sizes = {"dev": dev, "test": test}
    sized = tuple(replace(each, task=replace(each.task, sizes=sizes)) for each in outcome.results)
    said = f"The model to use has 80.0 points on {dev} rows of dev and 68.0 on {test} of test: {why}"
    assert [*one_sided(replace(outcome, results=sized))] == [said] * bool(why)


@pytest.mark.parametrize("used", ["untouched", "DAPT"])
def test_a_choice_of_dev_that_is_not_the_better_one_on_test_is_named(used):
    dapt = replace(rival("DAPT", 0.1, p=0.001), dev=(0.7,) * 3)
    outcome = predicting(race_of([untouched(), dapt]), {"untouched": "bbbbbbaaba", "DAPT": "aaaaaabbbc"})
    sentences = one_sided(replace(outcome, race=replace(outcome.race, use=used, encoder=used)))
    found = [sentence for sentence in sentences if "is chosen only on dev" in sentence]
    assert len(found) == (used == "untouched")
    said = "to use is chosen only on dev. It is the untouched model (80.0 against 70.0 points on dev). To use DAPT"
    assert all(said in each for each in found)


def test_a_baseline_to_use_that_is_ahead_on_test_too_is_no_cause_for_a_warning():
    dapt, simple = replace(rival("DAPT", 0.1, p=0.001), dev=(0.7,) * 3), rival("TF-IDF", 0.2, p=0.001)
    outcome = race_of([untouched(), dapt, replace(simple, dev=(0.9,) * 3)])
    answers = {"untouched": "bbbbbbaaba", "DAPT": "aaaaaabbbb", "TF-IDF": "aaaaaabbbc"}
    outcome = predicting(outcome, answers)
    facts = replace(outcome.race, use="TF-IDF", encoder="DAPT")
    assert not [each for each in one_sided(replace(outcome, race=facts)) if "is chosen only on dev" in each]


def test_claims_are_what_the_verdict_says():
    raced = [untouched(), rival("DAPT", 0.031, p=0.002), rival("TAPT", 0.01, p=0.3)]
    assert claims(race_of(raced)) == ["DAPT is better than the untouched model"]
    assert claims(race_of([untouched(), rival("TAPT", 0.01, p=0.3)])) == []
    simple = [untouched(), rival(SIMPLE, 0.004, p=0.8)]
    assert claims(race_of(simple)) == []
    assert claims(race_of(simple, baselines={SIMPLE})) == [f"no encoder scores above {SIMPLE}"]


def test_where_no_encoder_learnt_anything_the_baseline_has_its_code():
    others = [replace(rival(name, 0.1, p=0.001), comparison=None, p_adjusted=None) for name in ("DAPT", SIMPLE)]
    outcome = race_of([untouched(), *others], untaught={"untouched", "DAPT"}, baselines={SIMPLE})
    assert best_on_dev([result for result in outcome.results if result.encoder]) is None
    known = replace(outcome, race=Facts(given={SIMPLE: {IN_SCIKIT_LEARN: "make()"}}))
    vars(known)["compared"] = outcome.compared
    assert without_encoder(known).endswith("as scikit-learn has it, to be fitted on the training rows: make().")


def test_a_baseline_at_the_level_of_guesses_heads_no_verdict():
    ahead = replace(rival(SIMPLE, 0.1, p=0.001), comparison=None, p_adjusted=None)
    outcome = race_of([untouched(), rival("DAPT", 0.03, p=0.01), ahead], untaught={SIMPLE}, baselines={SIMPLE})
    assert verdict(outcome).startswith("Adapting helped: DAPT is better than the untouched model. DAPT: +3.0 points")
    assert verdict(outcome).endswith(f" {SIMPLE} failed to learn and is not compared.")
    [warning] = warnings(outcome)
    said = f"On dev, or by loss, {SIMPLE} does no better than a constant answer or guesses. "
    assert warning == f"{said}Therefore it is not compared."
    assert without_encoder(outcome) == ""
    nothing = race_of([untouched(), ahead], untaught={SIMPLE, "untouched"}, baselines={SIMPLE})
    assert verdict(nothing) == "No encoder has learned the task, so nothing is compared."


@pytest.mark.parametrize(("predicted", "warned"), [("a", True), ("right", False)])
def test_encoders_that_score_as_a_constant_answer_are_called_that(predicted, warned):
    gold = ("a",) * 6 + ("b",) * 4
    guesses = gold if predicted == "right" else ("a",) * 10
    scores = [score_of("untouched", "accuracy", seed, gold=gold, predicted=guesses) for seed in (0, 1)]
    found = warnings(studies.raced(scores))
    assert bool(found) is warned
    assert not warned or "60.0 points, the same answer to every text 60.0" in found[0]


def test_a_class_that_does_not_count_is_no_constant_answer_to_be_above():
    gold = ("false",) * 6 + ("a",) * 4
    without = metric_named("micro_f1 without false")
    assert constant_score(gold, "sequence", without) == without.compute(gold, ("a",) * 10) > 0.5


def test_pretraining_that_learnt_little_more_than_frequencies_is_named():
    outcome = race_of([untouched(), rival("TLM", 0.1, p=0.01)])
    assert not any("frequencies" in line for line in warnings(outcome))
    near = [replace(each, facts={NEAR: "1 of 3"} if each.row == "TLM" else {}) for each in outcome.results]
    [said] = [line for line in warnings(replace(outcome, results=tuple(near))) if "frequencies" in line]
    assert "frequencies: TLM (1 of 3). Differences may show which runs have left that plateau" in said


def test_runs_that_learnt_nothing_are_counted_and_named_in_any_study():
    outcome = studies.outcome_of_pairs()

    def runs(row, column, nothing, again):
        cell = outcome.cells["", row, column]
        scores = (replace(each, learnt=at >= nothing, again=at < again) for at, each in enumerate(cell.scores))
        return replace(cell, scores=tuple(scores))

    changed = {each.key: each for each in (runs("Drugs", "Genes", 5, 5), runs("Cells", "Genes", 1, 2))}
    found = warnings(replace(outcome, results=tuple(changed.get(each.key, each) for each in outcome.results)))
    assert "Genes: Drugs failed to learn: 5 of 5 fine-tunings, each in a second attempt too. It is" in found[0]
    assert found[1] == "Some fine-tunings failed to learn but count in the means: Genes: Cells (1 of 5)."
    assert found[2].endswith("at another rate with more steps: Genes: Cells (1).")


@pytest.mark.parametrize("learnt", [True, False])
def test_a_target_that_no_model_has_learnt_carries_no_difference(learnt, monkeypatch):
    outcome = studies.outcome_of_pairs()
    best = max(
        sum(score.test for score in each.scores) / len(each.scores)
        for each in outcome.results
        if each.column == "Genes" and each.shown
    )
    constant = best - MARGIN - (1e-6 if learnt else -1e-6)
    monkeypatch.setattr("acclimate.races.verdict.constant_score", lambda *_: constant)
    expected = (
        f"Genes: no encoder has learned it: the highest has {points(best)} points, the same answer to every text "
        f"{points(constant)}. Differences between such scores, including 0, are meaningless."
    )
    assert any(sentence.startswith(expected) for sentence in warnings(outcome)) != learnt
