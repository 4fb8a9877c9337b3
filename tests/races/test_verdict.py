import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest

import studies
from acclimate.core.figures import points
from acclimate.core.types import Cost, Score
from acclimate.races.compare import MAIN, Compared, Contrast
from acclimate.races.outcome import (
    IN_SCIKIT_LEARN,
    NEAR,
    CellResult,
    Facts,
    Outcome,
    ScoredTask,
    best_on_dev,
    rows,
)
from acclimate.races.race import against_untouched
from acclimate.races.verdict import (
    GUIDE,
    MARGIN,
    claims,
    constant_score,
    further,
    next_race,
    one_sided,
    reach,
    verdict,
    warnings,
    without_encoder,
)
from acclimate.reports.table import ContestantRow
from acclimate.statistics.significance import Comparison, Interval, cautions
from acclimate.tasks.metrics import METRICS, metric_named

SIMPLE = "TF-IDF + logistic regression"


def untouched(mean: float = 0.8) -> ContestantRow:
    return ContestantRow(
        contestant="untouched",
        task="task",
        metric="macro_f1",
        seeds=(0, 1, 2),
        scores=(mean,) * 3,
        dev=(mean,) * 3,
        score=Interval(mean, mean, mean),
        comparison=None,
        p_holm=None,
        adapting=Cost(),
        finetuning=Cost(),
    )


def rival(name: str, gain: float, *, p: float, half: float = 0.019, seconds: float = 41.0) -> ContestantRow:
    mean = 0.8 + gain
    comparison = Comparison(name, "untouched", mean, 0.8, gain - half, gain + half, p / 2, None, "made up")
    spread = {"variance_seeds": half**2 / 12, "variance_items": half**2 / 12, "variance_residual": half**2 / 24}
    comparison = replace(comparison, items=400, seeds=3, **spread)
    return replace(untouched(mean), contestant=name, comparison=comparison, p_holm=p, adapting=Cost(1, 1.0, seconds))


def race_of(
    rows: list[ContestantRow],
    *,
    failed: Mapping[str, str] = MappingProxyType({}),
    baselines: Collection[str] = (),
    stopped: str = "",
    untaught: Collection[str] = (),
    failing: Mapping[str, int] = MappingProxyType({}),
) -> Outcome:
    """A race that came to these rows, as `outcome.rows` gives them back. failing: contestant -> number of its runs that
    learnt nothing
    """
    task = ScoredTask("Genes", "sequence", "macro_f1", ("macro_f1",), {})
    items = ("1",), ("a",), ("a",)
    results = []
    for row in rows:
        learnt = row.contestant not in untaught
        scores = tuple(
            Score(
                row.contestant,
                row.task,
                row.metric,
                seed,
                *two,
                *items,
                row.adapting,
                row.finetuning,
                learnt=learnt and at >= failing.get(row.contestant, 0),
            )
            for at, (seed, *two) in enumerate(zip(row.seeds, row.dev, row.scores, strict=True))
        )
        costs = {"adapting": row.adapting, "tuning": row.finetuning}
        encoder = row.contestant not in baselines
        results.append(CellResult("", row.contestant, "Genes", task, scores, costs=costs, encoder=encoder))
    results += [CellResult("", name, "Genes", task, failed=why) for name, why in failed.items()]
    against = {
        row.contestant: against_untouched([row.contestant], "Genes")[0] for row in rows if row.comparison is not None
    }
    contrasts = tuple(
        Contrast(against[row.contestant], against[row.contestant].references[0], MAIN, row.comparison, row.p_holm)
        for row in rows
        if row.comparison is not None and row.p_holm is not None
    )
    outcome = Outcome(
        "race",
        "Race",
        "",
        tuple(results),
        tuple(against.values()),
        race=Facts(stopped=stopped),
    )
    intervals = {("", row.contestant, "Genes"): row.score for row in rows}
    means = {(key, MAIN): score for key, score in intervals.items()}
    vars(outcome)["compared"] = Compared({}, means, contrasts)  # in place of what would be computed of scores
    return outcome


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
    assert outcome.race is not None
    return replace(outcome, results=results, race=replace(outcome.race, use="DAPT", encoder="DAPT"))


def test_what_gives_one_answer_is_named_and_what_the_model_to_use_never_predicts() -> None:
    outcome = race_of([untouched(), rival("DAPT", 0.03, p=0.01), rival("TF-IDF", 0.0, p=0.9)], baselines=["TF-IDF"])
    said = {"untouched": "aaaaaabbbc", "DAPT": "aaaaaaaaab", "TF-IDF": "aaaaaaaaaa"}
    assert [*one_sided(predicting(outcome, said))] == [
        "TF-IDF gives every test text the same answer, 'a'.",
        "On the test set the model to use never predicts c (1 test text). More training rows with such labels "
        "may help.",
    ]
    assert not [*one_sided(predicting(outcome, dict.fromkeys(said, "aaaaaabbbc")))]


def test_the_rows_of_a_race_are_given_back() -> None:
    stated = [untouched(), rival("DAPT", 0.031, p=0.002), rival("TAPT", 0.01, p=0.3)]
    assert rows(race_of(stated)) == stated


def test_a_supported_gain_is_better_and_has_its_price() -> None:
    raced = [untouched(), rival("DAPT", 0.031, p=0.002), rival("random weights", -0.2, p=0.001)]
    assert verdict(race_of(raced)) == (
        "DAPT is better than the untouched model by 3.1 points of macro-F1 (95% interval 1.2 to 5.0; p = .002 after "
        "Holm), at 41 s of extra training."
    )


def test_the_others_that_are_better_are_named() -> None:
    raced = [untouched(), rival("DGA", 0.031, p=0.0002), rival("DAPT", 0.025, p=0.01), rival("TAPT", 0.022, p=0.02)]
    assert verdict(race_of(raced)) == (
        "DGA is better than the untouched model by 3.1 points of macro-F1 (95% interval 1.2 to 5.0; p < .001 after "
        "Holm), at 41 s of extra training; DAPT (by 2.5) and TAPT (by 2.2) are better too."
    )


def test_a_larger_gain_that_may_be_chance_is_not_hidden() -> None:
    raced = [untouched(), rival("DGA", 0.04, p=0.08, half=0.05), rival("DAPT", 0.031, p=0.01, seconds=0)]
    assert verdict(race_of(raced)) == (
        "DAPT is better than the untouched model by 3.1 points of macro-F1 (95% interval 1.2 to 5.0; p = .010 after "
        "Holm), with no extra training; DGA's larger difference, +4.0, is not established (p = .080 after Holm)."
    )


def test_a_race_that_established_nothing_names_what_else_to_try() -> None:
    nothing = race_of([untouched(), rival("TAPT", 0.001, p=0.9)])
    assert nothing.race is not None
    said = further(nothing)
    assert said.startswith("Raw text of the domain (--corpus) adds contestants that read it")
    assert GUIDE in said
    with_text = replace(nothing, race=replace(nothing.race, hashes={"corpus, domain": "1f"}))
    with_text.__dict__["compared"] = nothing.compared
    assert further(with_text).startswith("What helped in our own runs")
    assert not further(race_of([untouched(), rival("TAPT", 0.031, p=0.01)]))
    assert not further(race_of([untouched(), rival("TAPT", 0.001, p=0.9)], untaught={"untouched", "TAPT"}))


COULD_NOT = "This race could not tell whether anything here beats plain fine-tuning of the untouched model"


def test_where_differences_may_be_chance_the_race_says_that_it_could_not_tell() -> None:
    outcome = race_of([untouched(), rival("DAPT", 0.008, p=0.34), rival("TAPT", 0.001, p=0.9)])
    design = next_race(outcome)
    assert design is not None
    assert 0.019 < design.detectable() < 0.1
    difference = f"{100 * design.detectable():.1f} points"
    detects = f"with 3 seeds it detects a true difference of {difference} with a probability of 80%"
    assert verdict(outcome) == (
        f"{COULD_NOT}: {detects}; the largest gain, DAPT's +0.8 points of macro-F1, is within noise (95% "
        "interval -1.1 to 2.7; p = .34 after Holm)."
    )
    assert difference in reach(outcome)


def test_the_spread_is_that_of_encoders_and_not_of_a_baseline_which_has_no_seed() -> None:
    tapt, simple = rival("TAPT", 0.001, p=0.9, half=0.05), rival(SIMPLE, -0.1, p=0.001, half=0.001)
    both = next_race(race_of([untouched(), tapt, simple], baselines={SIMPLE}))
    alone = next_race(race_of([untouched(), tapt]))
    assert both is not None
    assert alone is not None
    assert both == replace(alone, comparisons=2)


@pytest.mark.parametrize(
    ("gain", "dev", "test", "why"),
    [
        (-0.12, 400, 400, "are both drawn alike?"),
        (-0.12, 50, 400, "so few rows may do that by chance."),
        (-0.12, 400, 50, "so few rows may do that by chance."),
        (-0.08, 400, 400, ""),
    ],
)
def test_a_model_that_is_far_worse_on_test_than_on_dev_is_named(gain: float, dev: int, test: int, why: str) -> None:
    dapt = replace(rival("DAPT", gain, p=0.9), dev=(0.8,) * 3)
    outcome = predicting(race_of([untouched(), dapt]), {"untouched": "aaaaaabbbc", "DAPT": "aaaaaabbbc"})
    sizes = {"dev": dev, "test": test}
    sized = tuple(replace(each, task=replace(each.task, sizes=sizes)) for each in outcome.results)
    said = f"The model to use has 80.0 points on {dev} rows of dev and 68.0 on {test} of test: {why}"
    assert [*one_sided(replace(outcome, results=sized))] == [said] * bool(why)


@pytest.mark.parametrize("used", ["untouched", "DAPT"])
def test_a_choice_of_dev_that_is_not_the_better_one_on_test_is_named(used: str) -> None:
    dapt = replace(rival("DAPT", 0.1, p=0.001), dev=(0.7,) * 3)
    outcome = predicting(race_of([untouched(), dapt]), {"untouched": "bbbbbbaaba", "DAPT": "aaaaaabbbc"})
    assert outcome.race is not None
    sentences = one_sided(replace(outcome, race=replace(outcome.race, use=used, encoder=used)))
    found = [sentence for sentence in sentences if "only dev may choose" in sentence]
    assert len(found) == (used == "untouched")
    said = "to use, which is the untouched model (80.0 against 70.0 points on dev). To use DAPT"
    assert all(said in each for each in found)


def test_a_baseline_to_use_that_is_ahead_on_test_too_is_no_cause_for_a_warning() -> None:
    dapt, simple = replace(rival("DAPT", 0.1, p=0.001), dev=(0.7,) * 3), rival("TF-IDF", 0.2, p=0.001)
    outcome = race_of([untouched(), dapt, replace(simple, dev=(0.9,) * 3)])
    answers = {"untouched": "bbbbbbaaba", "DAPT": "aaaaaabbbb", "TF-IDF": "aaaaaabbbc"}
    outcome = predicting(outcome, answers)
    assert outcome.race is not None
    facts = replace(outcome.race, use="TF-IDF", encoder="DAPT")
    assert not [each for each in one_sided(replace(outcome, race=facts)) if "only dev may choose" in each]


def test_a_difference_that_few_items_decide_says_so_where_it_is_claimed() -> None:
    dapt = rival("DAPT", 0.03, p=0.002)
    assert dapt.comparison is not None
    caution = cautions(3, np.array([[1.0] * 4 + [0.0] * 96]))
    assert caution.startswith("Fewer than 10 of the 100 test items decide the result")
    few = replace(dapt, comparison=replace(dapt.comparison, caution=caution))
    ending = "p = .002 after Holm; fewer than 10 items decide it)"
    assert ending in verdict(race_of([untouched(), few]))
    assert "items decide" not in verdict(race_of([untouched(), dapt]))


def test_without_a_common_design_the_interval_says_what_the_race_could_not_tell() -> None:
    tapt = rival("TAPT", 0.001, p=0.9, half=0.05)
    assert tapt.comparison is not None
    fewer = replace(tapt, comparison=replace(tapt.comparison, seeds=2))
    assert verdict(race_of([untouched(), rival("DAPT", 0.008, p=0.34), fewer])) == (
        f"{COULD_NOT}, by up to 5.1 points: the largest gain, DAPT's +0.8 points of macro-F1, is within noise "
        "(95% interval -1.1 to 2.7; p = .34 after Holm)."
    )


def test_a_race_that_detects_nothing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    design = SimpleNamespace(detectable=lambda: 1.4, seeds=3)
    monkeypatch.setattr("acclimate.races.verdict.next_race", lambda outcome: design)
    said = verdict(race_of([untouched(), rival("DAPT", 0.008, p=0.34)]))
    assert said.startswith(f"{COULD_NOT}: it could not detect even the largest possible difference; the largest")


def test_an_interval_without_zero_does_not_outweigh_the_corrected_test() -> None:
    said = verdict(race_of([untouched(), rival("DAPT", 0.02, p=0.12), rival("TAPT", 0.001, p=0.9)]))
    assert said.startswith(COULD_NOT)
    assert said.endswith(
        "; the largest gain, DAPT's +2.0 points of macro-F1, may be chance, all comparisons counted (95% "
        "interval 0.1 to 3.9; p = .12 after Holm)."
    )


def test_where_all_score_lower_but_one_may_be_chance_the_race_could_not_tell() -> None:
    said = verdict(race_of([untouched(), rival("TAPT", -0.004, p=1.0), rival("DAPT", -0.02, p=0.03)]))
    assert said.startswith(COULD_NOT)
    assert said.endswith(
        "; no contestant that learnt the task scores above it, and the nearest, TAPT, is 0.4 points of macro-F1 below "
        "(95% interval -2.3 to 1.5; p > .99 after Holm)."
    )


def test_where_all_are_worse_nothing_beats_plain_fine_tuning() -> None:
    assert verdict(race_of([untouched(), rival("TAPT", -0.024, p=0.02), rival("DAPT", -0.04, p=0.003)])) == (
        "Nothing here beats plain fine-tuning of the untouched model: no contestant that learnt the task scores above "
        "it, and the nearest, "
        "TAPT, is 2.4 points of macro-F1 below (95% interval -4.3 to -0.5; p = .020 after Holm)."
    )


def test_a_twin_is_level() -> None:
    assert "the nearest, TAPT, is level with it (" in verdict(
        race_of([untouched(), rival("TAPT", 0.0, p=1.0, half=0.0)])
    )


def test_an_honest_baseline_above_all_encoders_comes_first() -> None:
    raced = [untouched(), rival(SIMPLE, 0.031, p=0.002, seconds=0), rival("DAPT", 0.02, p=0.02)]
    assert verdict(race_of(raced, baselines={SIMPLE})) == (
        "TF-IDF + logistic regression, which needs no encoder, is better than the untouched model by 3.1 points of "
        "macro-F1 (95% interval 1.2 to 5.0; p = .002 after Holm), and no encoder here scores above it: the highest, "
        "DAPT, has 82.0 against 83.1 points of macro-F1."
    )


def test_a_baseline_in_lower_case_begins_the_sentence_with_a_capital() -> None:
    raced = [untouched(), rival("word list", 0.06, p=0.002, seconds=0)]
    assert verdict(race_of(raced, baselines={"word list"})).startswith("Word list, which needs no encoder, is better")


def test_a_race_that_can_tell_nothing_from_chance_says_so_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    design = SimpleNamespace(detectable=lambda: 1.4, seeds=3)
    monkeypatch.setattr("acclimate.races.verdict.next_race", lambda outcome: design)
    assert "could not tell even the largest possible difference from chance. Take more seeds" in reach(race_of([]))


def test_of_two_seeds_or_adaptations_no_detectable_difference_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be one of 48 points beside an interval of 3."""
    design = SimpleNamespace(detectable=lambda: 0.478, seeds=2)
    monkeypatch.setattr("acclimate.races.verdict.next_race", lambda outcome: design)
    rivals = {}
    for what, given in (("seeds", {"seeds": 2}), ("adaptations", {"seeds": 4, "adaptations": 2})):
        row = rival("DAPT", 0.008, p=0.34)
        rivals[what] = replace(row, comparison=replace(row.comparison, **given))
        outcome = race_of([untouched(), rivals[what]])
        assert reach(outcome) == f"2 {what} seldom establish a difference. Take 3, or a larger budget."
        assert verdict(outcome).startswith(f"{COULD_NOT}: 2 {what} seldom establish a difference; the")
    monkeypatch.setattr(Outcome, "folds", 5)
    repeated = race_of([untouched(), rivals["seeds"]])
    assert "seldom" not in reach(repeated) + verdict(repeated)


def replace_notes(outcome: Outcome, notes: tuple[str, ...]) -> Outcome:
    """Return the outcome with these notes and the comparisons that were made up for it."""
    found = replace(outcome, notes=notes)
    vars(found)["compared"] = outcome.compared
    return found


def test_a_baseline_that_scores_the_same_is_said_to() -> None:
    same = race_of([untouched(), rival(SIMPLE, 0.0, p=1.0, half=0.0, seconds=0)], baselines={SIMPLE})
    assert verdict(same) == (
        "No encoder here scores above TF-IDF + logistic regression, which needs none: the highest, the untouched "
        "model, scores the same, 80.0 points of macro-F1."
    )


def test_a_baseline_on_top_by_chance_is_still_reported() -> None:
    raced = [untouched(), rival(SIMPLE, 0.004, p=0.8, seconds=0), rival("DAPT", -0.02, p=0.2)]
    assert verdict(race_of(raced, baselines={SIMPLE})) == (
        "No encoder here scores above TF-IDF + logistic regression, which needs none: the highest, the untouched "
        "model, has 80.0 against 80.4 points of macro-F1, which is not established (95% interval -1.5 to 2.3; p = .80 "
        "after Holm)."
    )


def test_better_needs_a_supported_gain_whatever_the_figures() -> None:
    generator = np.random.default_rng(0)
    for _ in range(300):
        names = ["DAPT", "TAPT", SIMPLE][: generator.integers(1, 4)]
        raced = [
            untouched(),
            *(rival(name, generator.normal(0, 0.03), p=float(generator.random() ** 3)) for name in names),
        ]
        supported = [row for row in raced[1:] if row.p_holm < 0.05 and row.comparison.difference > 0]
        sentence = verdict(race_of(raced, baselines={SIMPLE}))
        assert not re.search("better", sentence) or supported
        assert sentence.endswith(".")


def test_a_verdict_needs_the_untouched_model() -> None:
    for raced in ([], [rival("DAPT", 0.1, p=0.01)], [replace(untouched(), contestant="other")]):
        with pytest.raises(ValueError, match="needs the untouched model, once, to compare others with"):
            verdict(race_of(raced))


def test_the_score_of_a_model_alone_is_told() -> None:
    assert re.fullmatch(
        r"The model scores \d+\.\d \[\d+\.\d, \d+\.\d\] points of [\w-]+; nothing was compared with it\.",
        verdict(race_of([untouched()])),
    )


def test_who_failed_is_named_and_why_the_race_ended() -> None:
    raced = [untouched(), rival("DAPT", 0.031, p=0.002, seconds=0)]
    start = verdict(race_of(raced)).removesuffix(".")
    assert start.startswith("DAPT is better than the untouched model by 3.1 points")
    assert verdict(race_of(raced, failed={"DGA": "out of memory"})) == f"{start}; DGA failed and has no score."
    stopped = verdict(race_of(raced, stopped="its time was up."))
    assert stopped == f"{start}; the race stopped early, since its time was up."


def test_claims_are_what_the_verdict_says() -> None:
    raced = [untouched(), rival("DAPT", 0.031, p=0.002), rival("TAPT", 0.01, p=0.3)]
    assert claims(race_of(raced)) == ["DAPT is better than the untouched model"]
    assert claims(race_of([untouched(), rival("TAPT", 0.01, p=0.3)])) == []
    simple = [untouched(), rival(SIMPLE, 0.004, p=0.8)]
    assert claims(race_of(simple)) == []
    assert claims(race_of(simple, baselines={SIMPLE})) == [f"no encoder scores above {SIMPLE}"]


def test_a_contestant_that_learnt_nothing_is_named_and_has_no_verdict() -> None:
    lost = replace(rival("DGA", -0.3, p=0.001), comparison=None, p_holm=None)
    raced = [untouched(), rival("DAPT", 0.031, p=0.002, seconds=0), lost]
    said = verdict(race_of(raced, untaught={"DGA"}))
    assert said.startswith("DAPT is better than the untouched model by 3.1 points")
    assert said.endswith("; DGA learnt nothing and has no verdict.")


def test_a_verdict_says_which_runs_learnt_nothing_and_half_of_them_are_too_many() -> None:
    raced = [untouched(), rival("DAPT", 0.031, p=0.002)]
    seeds = len(raced[0].seeds)
    said = verdict(race_of(raced, failing={"untouched": 1}))
    assert said.endswith(f"; fine-tunings that learnt nothing count in the means of untouched (1 of {seeds}).")
    said = verdict(race_of(raced, failing={"untouched": seeds // 2 + seeds % 2}))
    assert said.startswith("The untouched model learnt nothing, so nothing is compared with it")


def test_where_the_untouched_model_learnt_nothing_nothing_is_compared_with_it() -> None:
    others = [replace(rival(name, 0.1, p=0.001), comparison=None, p_holm=None) for name in ("DAPT", SIMPLE)]
    said = verdict(race_of([untouched(), *others], untaught={"untouched"}, baselines={SIMPLE}))
    assert said == (
        "The untouched model learnt nothing, so nothing is compared with it; the highest encoder, DAPT, scores 90.0 "
        "[90.0, 90.0] points of macro-F1."
    )


def test_where_no_encoder_learnt_anything_no_difference_is_told() -> None:
    others = [replace(rival(name, 0.1, p=0.001), comparison=None, p_holm=None) for name in ("DAPT", SIMPLE)]
    outcome = race_of([untouched(), *others], untaught={"untouched", "DAPT"}, baselines={SIMPLE})
    said = verdict(outcome)
    assert said == (
        "No encoder here has learnt the task, so nothing is compared; TF-IDF + logistic regression, which needs none, "
        "scores 90.0 [90.0, 90.0] points of macro-F1."
    )
    assert "better" not in said
    assert best_on_dev([result for result in outcome.results if result.encoder]) is None
    known = replace(outcome, race=Facts(given={SIMPLE: {IN_SCIKIT_LEARN: "make()"}}))
    vars(known)["compared"] = outcome.compared
    assert without_encoder(known).endswith("as scikit-learn has it, to be fitted on the training rows: make().")


def test_a_baseline_at_the_level_of_guesses_heads_no_verdict() -> None:
    ahead = replace(rival(SIMPLE, 0.1, p=0.001), comparison=None, p_holm=None)
    outcome = race_of([untouched(), rival("DAPT", 0.03, p=0.01), ahead], untaught={SIMPLE}, baselines={SIMPLE})
    assert verdict(outcome).startswith("DAPT is better than the untouched model by 3.0 points")
    assert f"; {SIMPLE} learnt nothing and has no verdict" in verdict(outcome)
    [warning] = warnings(outcome)
    said = f"On dev, or by loss, {SIMPLE} does no better than a constant answer or guesses. "
    assert warning == f"{said}So it is compared with nothing."
    assert without_encoder(outcome) == ""
    nothing = race_of([untouched(), ahead], untaught={SIMPLE, "untouched"}, baselines={SIMPLE})
    assert verdict(nothing) == "No encoder here has learnt the task, so nothing is compared."


@pytest.mark.parametrize(("predicted", "warned"), [("a", True), ("right", False)])
def test_encoders_that_score_as_a_constant_answer_are_called_that(predicted: str, warned: bool) -> None:
    gold = ("a",) * 6 + ("b",) * 4
    guesses = gold if predicted == "right" else ("a",) * 10
    value = METRICS["accuracy"].compute(gold, guesses)
    ids = tuple(map(str, range(10)))
    scores = [
        Score("untouched", "toy", "accuracy", seed, value, value, ids, gold, guesses, Cost(), Cost()) for seed in (0, 1)
    ]
    found = warnings(studies.raced(scores))
    assert bool(found) is warned
    assert not warned or "60.0 points, the same answer to every text 60.0" in found[0]


def test_a_class_that_does_not_count_is_no_constant_answer_to_be_above() -> None:
    gold = ("false",) * 6 + ("a",) * 4
    without = metric_named("micro_f1 without false")
    assert constant_score(gold, "sequence", without) == without.compute(gold, ("a",) * 10) > 0.5


def test_pretraining_that_learnt_little_more_than_frequencies_is_named() -> None:
    outcome = race_of([untouched(), rival("TLM", 0.1, p=0.01)])
    assert not any("frequencies" in line for line in warnings(outcome))
    near = [replace(each, facts={NEAR: "1 of 3"} if each.row == "TLM" else {}) for each in outcome.results]
    [said] = [line for line in warnings(replace(outcome, results=tuple(near))) if "frequencies" in line]
    assert "would lose: TLM (1 of 3). Differences here may be about which run has left that plateau" in said


def test_runs_that_learnt_nothing_are_counted_and_named_in_any_study() -> None:
    outcome = studies.outcome_of_pairs()

    def runs(row: str, column: str, nothing: int, again: int) -> CellResult:
        cell = outcome.cells["", row, column]
        scores = (replace(each, learnt=at >= nothing, again=at < again) for at, each in enumerate(cell.scores))
        return replace(cell, scores=tuple(scores))

    changed = {each.key: each for each in (runs("Drugs", "Genes", 5, 5), runs("Cells", "Genes", 1, 2))}
    found = warnings(replace(outcome, results=tuple(changed.get(each.key, each) for each in outcome.results)))
    assert (
        "Genes: Drugs learnt nothing: 5 of 5 fine-tunings, each in a second attempt too. So it is compared" in found[0]
    )
    assert found[1] == "Some fine-tunings learnt nothing, and count in the means: Genes: Cells (1 of 5)."
    assert found[2].endswith("at another rate with more steps: Genes: Cells (1).")


@pytest.mark.parametrize("learnt", [True, False])
def test_a_target_that_no_model_has_learnt_carries_no_difference(learnt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = studies.outcome_of_pairs()
    best = max(
        sum(score.test for score in each.scores) / len(each.scores)
        for each in outcome.results
        if each.column == "Genes" and each.shown
    )
    constant = best - MARGIN - (1e-6 if learnt else -1e-6)
    monkeypatch.setattr("acclimate.races.verdict.constant_score", lambda *_: constant)
    expected = (
        f"Genes: no encoder here has learnt it: the highest has {points(best)} points, the same answer to every text "
        f"{points(constant)}. Differences between such scores, those of 0 too, say nothing."
    )
    assert any(sentence.startswith(expected) for sentence in warnings(outcome)) != learnt
