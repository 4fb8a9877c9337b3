"""The record of what a report came to, and what a race's tables, text and CSV make of it."""

import csv
import io
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import studies
from acclimate.core import files
from acclimate.core.figures import points
from acclimate.core.records import to_plain
from acclimate.core.types import Cost, FoldScore, Score
from acclimate.data.examination import Partners
from acclimate.races.outcome import (
    CellResult,
    Facts,
    LooksAtTest,
    ScoredTask,
    choose,
    encoder_to_train,
    outcomes_in,
    path_of,
    probe_row,
    read_outcome,
    rows,
    write_outcome,
)
from acclimate.races.report import RaceReport, answer_lines, report_of, tables_of, write_race_pages
from acclimate.races.verdict import leakage_of, without_items
from acclimate.reports.page import WIDTH, Page
from acclimate.statistics.significance import compare, interval
from acclimate.tasks.metrics import METRICS
from studies import SIMPLE, raced

BARE = Facts(use="DAPT", encoder="DAPT", commands=["acclimate race"])


def written(run: Path, scores: list[Score], facts: Facts = BARE, **more: Any) -> RaceReport:
    """Write the outcome of a race and its pages."""
    write_outcome(raced(scores, facts, **{"baselines": [SIMPLE], **more}), run)
    return write_race_pages(run)


def several(level: float = 1.7) -> list[Score]:
    return studies.of_several("untouched", level=1.0) + studies.of_several("DAPT", level=level)


def numbers() -> list[Score]:
    return studies.of_numbers("untouched", level=1.0) + studies.of_numbers("DAPT", level=2.0)


def test_the_outcome_of_every_study_comes_back_as_it_was_with_labels_of_every_kind(tmp_path, field):
    race, pairs = studies.report_of_six(field).outcome, studies.outcome_of_pairs(failed="Drugs")
    for outcome in (race, raced(several()), raced(numbers()), pairs):
        write_outcome(outcome, tmp_path)
        path = path_of(tmp_path, outcome.name)
        again = read_outcome(path)
        assert to_plain(again) == to_plain(outcome)
        assert sorted(again.scores, key=str) == sorted(outcome.scores, key=str)
        for name in ("results", "against", "means", "axes", "split", "losses", "searches", "notes", "absent"):
            assert getattr(again, name) == getattr(outcome, name), name
        assert outcome.race is None or again.race.examination == outcome.race.examination
        assert again.trials == outcome.trials
        items = files.read_json(path)["items"]
        assert len(items) == len({score.ids + score.gold for score in outcome.scores})  # what cells share stands once
    assert outcomes_in(tmp_path) == [path_of(tmp_path, name) for name in ("race", "stilt")]


def test_a_race_that_has_not_ended_is_told_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="has no outcome yet: nothing there is finished"):
        outcomes_in(tmp_path)


def test_facts_without_any_of_the_optional_entries_make_a_page(tmp_path, field):
    report = written(tmp_path, field, BARE)
    assert report.verdict in " ".join((tmp_path / "table.txt").read_text().split())
    assert (report.leakage, report.facts.looks, report.facts.examination, report.alerts) == (None, None, None, [])
    assert [confusion.contestant for confusion in report.confusions] == ["untouched", "DAPT"]


def test_what_is_shown_depends_on_the_kind_of_labels(tmp_path):
    report = written(tmp_path, several(), kind="multilabel")
    assert report.labels
    assert not report.confusions
    assert not written(tmp_path, several(), kind="span").labels
    report = written(tmp_path, numbers(), kind="score")
    assert not report.labels
    assert {name: len(pairs) for name, pairs in report.predictions.items()} == {"untouched": 120, "DAPT": 120}


def test_every_entry_reaches_the_page(tmp_path, field):
    examination = studies.examination()
    facts = replace(
        BARE,
        search_note="Two rungs.",
        chosen={"DAPT": "rate 5e-05"},
        stopped="nothing could win any more",
        looks=LooksAtTest(30, 5, lines=["2026-11-02, race runs/first"]),
        examination=examination,
        leaked_test_ids=[f"test-{i}" for i in range(12)],
    )
    trials, took = studies.trials(["untouched", "DAPT", "TLM"]), {"DAPT": Cost(1000, 2e9, 754.0)}
    report = written(tmp_path, field, facts, trials=trials, pretraining=took)
    assert report.facts.examination == examination
    assert "The race stopped early, since nothing could win" in report.verdict
    assert report.alerts[0].startswith("These test labels were opened by 5 earlier races on this machine.")
    assert report.remarks[0].startswith("4 settings of each contestant were tried")
    assert (report.leakage.items, report.leakage.leaked, report.leakage.changed) == (400, 12, [])
    assert rows(report.leakage.outcome) == rows(
        without_items(raced(field, baselines=[SIMPLE]), set(facts.leaked_test_ids))
    )
    said = " ".join((tmp_path / "table.txt").read_text().split())
    assert all(told in said for told in (*report.alerts, *report.remarks, *answer_lines(report)))
    assert "12 min 34 s" in said
    assert "1000,2000000000.0,754.0" in (tmp_path / "table.csv").read_text()
    assert (tmp_path / "report.html").stat().st_size < 2_000_000


@pytest.mark.parametrize(
    ("part", "change", "said"),
    [
        ("race", {"leeks": []}, "Facts has no leeks: it was written by another release"),
        ("", {"leeks": []}, "Outcome has no leeks: it was written by another release"),
        ("race", {"looks": {"in_this_run": 1, "by": ""}}, "LooksAtTest has no by"),
        ("race", {"looks": {"in_this_run": 1}}, "earlier_looks and earlier_runs and lines of LooksAtTest is missing"),
    ],
)
def test_an_outcome_of_another_release_is_refused(tmp_path, field, part, change, said):
    write_outcome(raced(field, BARE), tmp_path)
    path = path_of(tmp_path, "race")
    values = files.read_json(path)
    files.write_json(path, values | ({part: values[part] | change} if part else change))
    with pytest.raises(ValueError, match=rf"race\.outcome\.json: {said}"):
        read_outcome(path)


def test_the_verdict_says_that_it_rests_on_leaked_items_and_the_page_once(tmp_path):
    plain = studies.made_up_scores("untouched", level=1.0)
    better = [replace(score, contestant="DAPT", predicted=score.gold[:60] + score.predicted[60:]) for score in plain]
    scores = plain + [replace(s, test=METRICS["accuracy"].compute(s.gold, s.predicted)) for s in better]
    leaked = list(scores[0].ids[:60])
    facts = replace(BARE, examination=studies.examination(), leaked_test_ids=leaked)
    report = written(tmp_path, scores, facts)
    told = (
        "But this depends on leaked test items (60 of 400 are in the training data too): only with these items, "
        "DAPT is better than the untouched model."
    )
    assert report.verdict.endswith(f". {told}")
    assert report.alerts == []
    assert report.leakage.verdict.startswith("No gain that matters")
    assert len(rows(report.leakage.outcome)[0].scores) == 5
    for page in ("report.html", "table.txt"):
        assert " ".join((tmp_path / page).read_text().split()).count("only with these items") == 1


def test_the_answer_says_the_scores_with_and_without_test_items_that_have_a_partner_in_train(tmp_path):
    scores = studies.made_up_scores("untouched", level=1.0)
    ids = frozenset(scores[0].ids[:60])
    partners = Partners("template", ids - {scores[0].ids[0]}, 0.1, 3, "template", ("test:1: a", "train:2: b"))
    examined = replace(studies.examination(), partners=(partners,), leaked={"test": frozenset([scores[0].ids[0]])})
    report = written(tmp_path, scores, replace(BARE, use="untouched", encoder="", examination=examined))
    means = (
        sum(score.test for score in sides) / len(sides) for sides in (scores, without_items(raced(scores), ids).scores)
    )
    values = [*map(points, means)]
    said = (
        "60 of the 400 test items have a partner in the training data, such as one text or one template: model "
        f"{values[0]} with them and {values[1]} without."
    )
    assert said in report.verdict
    assert report.partners is not None
    assert "that have a partner in the training data the answer is the same" in (tmp_path / "report.html").read_text()


def test_where_everything_leaked_there_is_nothing_to_score_twice(field):
    outcome = raced(field)
    leakage = leakage_of([], outcome, field[0].ids[1:])
    assert (leakage.leaked, leakage.outcome, leakage.verdict) == (399, None, "")
    assert leakage_of([], outcome, ["an id of another split"]).leaked == 0


def test_the_untouched_model_comes_first_and_the_others_by_falling_mean(field):
    outcome = raced(field[::-1])
    table = rows(outcome)
    assert [row.contestant for row in table] == [result.row for result in outcome.results]
    assert (table[0].contestant, table[0].comparison) == ("untouched", None)
    means = [row.score.mean for row in table[1:]]
    assert means == sorted(means, reverse=True)


def test_rows_hold_what_the_single_functions_give(field):
    table, metric = rows(raced(field)), METRICS["macro_f1"]
    scores = {row.contestant: [score for score in field if score.contestant == row.contestant] for row in table}
    [row] = [row for row in table if row.contestant == "DAPT"]
    assert row.score == interval(scores["DAPT"], metric)
    alone = compare(scores["DAPT"], scores["untouched"], metric)
    assert row.comparison == alone
    outcome = raced(field)
    assert {row.contestant: row.p_adjusted for row in table[1:]} == {
        gain.contestant: gain.p for gain in outcome.answer.gains
    }
    assert row.adapting == Cost(1_240_000, 8.6e12, 41.0)


def test_costs_are_means_over_seeds():
    scores = studies.made_up_scores("untouched", level=1.0, seeds=2, items=50)
    scores[1] = replace(scores[1], finetuning=Cost(110_000, 6e12, 33.0))
    assert rows(raced(scores))[0].finetuning == Cost(100_000, 5e12, 32.0)


def test_scores_without_some_items_are_those_of_the_others_if_two_remain():
    scores = studies.made_up_scores("untouched", level=1.0, seeds=2, items=10)
    outcome = raced(scores)
    answers = zip(scores[0].ids, scores[0].gold, scores[0].predicted, strict=True)
    wrong = [id for id, right, guess in answers if right != guess]
    [result] = without_items(outcome, wrong).results
    first, second = result.scores
    assert 0 < len(wrong) < 8
    assert first.ids == tuple(id for id in scores[0].ids if id not in wrong)
    assert first.test == 1.0
    assert second.ids == first.ids
    assert second.test == METRICS["accuracy"].compute(second.gold, second.predicted)
    assert (first.dev, first.finetuning) == (scores[0].dev, scores[0].finetuning)
    assert without_items(outcome, []).results[0].scores == tuple(scores)
    with pytest.raises(ValueError, match="1 of 10 test items remain without the 9 leaked ones, but"):
        without_items(raced(scores), scores[0].ids[1:])


def lines_of(run: Path) -> dict[str, dict[str, str]]:
    return {line["contestant"]: line for line in csv.DictReader(io.StringIO((run / "table.csv").read_text()))}


def test_the_csv_keeps_every_digit_and_has_what_pretraining_took(tmp_path, field):
    losses = {"DAPT": (3.875, 4.36), "TAPT": (3.875, 3.8)}
    took = {"DAPT": Cost(1_000, 2e9, 3.0)}
    report = written(tmp_path, field, replace(BARE, general_losses=losses), pretraining=took)
    lines = lines_of(tmp_path)
    assert [*lines] == [row.contestant for row in report.rows]
    row = report.rows[1]
    line = lines[row.contestant]
    assert float(line["mean"]) == row.score.mean
    assert tuple(map(float, line["scores"].split())) == row.scores
    for part in ("difference", "p", "improvement", "improvement_low", "improvement_high", "p_permutation"):
        assert float(line[f"against_untouched_{part}"]) == getattr(row.comparison, part)
    assert float(line["against_untouched_p_adjusted"]) == row.p_adjusted
    assert float(line["adapting_seconds"]) == row.adapting.seconds
    assert lines["untouched"]["against_untouched_p"] == ""
    assert (lines["DAPT"]["pretraining_flops"], lines["TAPT"]["pretraining_flops"]) == ("2000000000.0", "0.0")
    assert float(lines["DAPT"]["general_loss_difference"]) == 4.36 - 3.875
    assert (lines["untouched"]["general_loss"], lines["untouched"]["general_loss_difference"]) == ("3.875", "")
    assert lines["DGA"]["general_loss"] == ""
    report = written(tmp_path, field, BARE)
    assert not {"pretraining_flops", "general_loss"} & lines_of(tmp_path)["DAPT"].keys()


@pytest.mark.parametrize("name", ["DAPT", "a contestant whose name is longer than any line of a terminal " * 3])
def test_the_text_fits_a_terminal(tmp_path, field, name):
    named = [replace(score, contestant=name) if score.contestant == "DAPT" else score for score in field]
    report = report_of(raced(named, replace(BARE, use=name, encoder=name)))
    lines = Page("A race", "", tables_of(report)).as_text().splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert all(line == line.rstrip() for line in lines)


def test_a_model_that_runs_alone_is_not_called_untouched(tmp_path):
    alone = replace(BARE, use="untouched", encoder="untouched")
    written(tmp_path, studies.made_up_scores("untouched", level=1.0), alone)
    table = (tmp_path / "table.txt").read_text()
    assert "  model " in table
    assert "untouched" not in table
    assert [*lines_of(tmp_path)] == ["untouched"]


def test_a_contestant_that_failed_is_named_in_verdict_table_csv_and_page(tmp_path, field):
    report = written(tmp_path, field, failed={"TLM": "TLM: no memory"})
    assert "TLM failed and has no score" in report.verdict
    for page in ("table.txt", "report.html"):
        assert "TLM failed: TLM: no memory." in " ".join((tmp_path / page).read_text().split())
    line = lines_of(tmp_path)["TLM"]
    assert (line["failed"], line["mean"], line["against_untouched_p"]) == ("TLM: no memory", "", "")
    text = (tmp_path / "table.txt").read_text()
    assert "Not compared, because one of the two failed, or failed to learn: TLM." in text
    others = [row.p_adjusted for row in report.rows]
    assert others == [row.p_adjusted for row in rows(raced(field, baselines=[SIMPLE]))]


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


def test_a_baseline_is_used_if_it_learnt_the_task_and_no_encoder_did_or_there_is_but_a_probe():
    untaught = result("untouched", 0.5, learnt=False)
    chosen = choose([untaught, result("TF-IDF", 0.6)], 1.0)
    assert (chosen.contestant, chosen.encoder) == ("TF-IDF", "")
    assert chosen.reason == "TF-IDF is used, because no fine-tuned encoder of this race has learned the task."
    nothing = choose([untaught, result("TF-IDF", 0.5, learnt=False)], 1.0)
    assert (nothing.contestant, nothing.encoder, nothing.reason) == ("", "", "")
    assert encoder_to_train([untaught, result("TF-IDF", 0.6)], 1.0) == ""
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
