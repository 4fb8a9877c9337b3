import csv
import io
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import studies
from acclimate.core import files
from acclimate.core.types import Cost, Score
from acclimate.races.compare import rows
from acclimate.races.outcome import (
    leakage_of,
    outcome_of,
    read_scores,
    study_of,
    untaught,
    without,
    write_outcome,
    write_pages,
)
from acclimate.races.report import Facts, Looks, tables_of
from acclimate.reports.page import WIDTH, Page
from acclimate.statistics.significance import compare, holm, interval
from acclimate.tasks.metrics import METRICS

BARE = Facts(
    title="Race",
    task={},
    kind="sequence",
    winner="DAPT",
    baselines=[studies.SIMPLE],
    commands=["acclimate race"],
)


def several(level: float = 1.7) -> list[Score]:
    return studies.of_several("untouched", level=1.0) + studies.of_several("DAPT", level=level)


def numbers() -> list[Score]:
    return studies.of_numbers("untouched", level=1.0) + studies.of_numbers("DAPT", level=2.0)


def test_labels_of_every_kind_come_back_as_they_were(tmp_path: Path, field: list[Score]) -> None:
    for scores in (field, several(), numbers()):
        write_outcome(tmp_path, scores, BARE)
        assert read_scores(tmp_path) == scores


def test_a_race_that_has_not_ended_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no race there has come to its end"):
        read_scores(tmp_path)


def test_facts_without_any_of_the_optional_entries_make_a_page(tmp_path: Path, field: list[Score]) -> None:
    write_outcome(tmp_path, field, BARE)
    study = write_pages(tmp_path)
    assert study.verdict in " ".join((tmp_path / "table.txt").read_text().split())
    assert (study.leakage, study.looks, study.examination, study.alerts) == (None, None, None, [])
    assert [confusion.contestant for confusion in study.confusions] == ["untouched", "DAPT"]


def test_what_is_shown_depends_on_the_kind_of_labels(tmp_path: Path) -> None:
    write_outcome(tmp_path, several(), replace(BARE, kind="multilabel"))
    study = write_pages(tmp_path)
    assert study.labels
    assert not study.confusions
    write_outcome(tmp_path, several(), replace(BARE, kind="span"))
    assert not study_of(tmp_path).labels
    write_outcome(tmp_path, numbers(), replace(BARE, kind="score"))
    study = write_pages(tmp_path)
    assert not study.labels
    assert {name: len(pairs) for name, pairs in study.predictions.items()} == {"untouched": 120, "DAPT": 120}


def test_every_entry_reaches_the_page(tmp_path: Path, field: list[Score]) -> None:
    examination = studies.examination()
    facts = replace(
        BARE,
        search=studies.trials(["untouched", "DAPT", "TLM"]),
        search_note="Two rungs.",
        chosen={"DAPT": "rate 5e-05"},
        stopped="nothing could win any more",
        pretraining={"DAPT": Cost(1000, 2e9, 754.0)},
        looks=Looks(30, 5, lines=["2026-11-02, race runs/first"]),
        examination=examination,
        leaked_test_ids=[f"test-{i}" for i in range(12)],
    )
    write_outcome(tmp_path, field, facts)
    study = write_pages(tmp_path)
    assert study.examination == examination
    assert "; TLM was given up on dev and not tested; the race stopped early, since nothing could win" in study.verdict
    assert study.alerts[0].startswith("These test labels were opened by 5 earlier races on this machine.")
    assert study.remarks[-1].startswith("Each contestant had 4 settings tried")
    assert study.leakage is not None
    assert (study.leakage.items, study.leakage.leaked, study.leakage.changed) == (400, 12, [])
    assert study.leakage.outcome is not None
    assert rows(study.leakage.outcome) == rows(without(outcome_of(field, BARE), set(facts.leaked_test_ids)))
    said = " ".join((tmp_path / "table.txt").read_text().split())
    assert all(told in said for told in (*study.alerts, *study.remarks))
    assert "12 min 34 s" in said
    assert "1000,2000000000.0,754.0" in (tmp_path / "table.csv").read_text()
    assert (tmp_path / "report.html").stat().st_size < 2_000_000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"leeks": []}, "Facts has no leeks: another release"),
        (
            {"looks": {"in_this_run": 1, "earlier_runs": 0, "earlier_looks": 0, "lines": [], "by": ""}},
            "Looks has no by",
        ),
        ({"looks": {"in_this_run": 1}}, "earlier_looks and earlier_runs and lines of Looks is missing"),
    ],
)
def test_facts_of_another_release_are_refused(tmp_path: Path, field: list[Score], change: Any, said: str) -> None:
    write_outcome(tmp_path, field, BARE)
    files.write_json(tmp_path / "facts.json", files.read_json(tmp_path / "facts.json") | change)
    with pytest.raises(ValueError, match=rf"facts\.json: {said}"):
        study_of(tmp_path)


def test_a_gain_that_rests_on_leaked_items_is_found_out() -> None:
    """DAPT knows 60 of 400 test items by heart and is otherwise the untouched model."""
    plain = studies.made_up_scores("untouched", level=1.0)
    known = frozenset(plain[0].ids[:60])
    by_heart = []
    for score in plain:
        predicted = tuple(
            right if id in known else guess
            for id, right, guess in zip(score.ids, score.gold, score.predicted, strict=True)
        )
        test = METRICS["accuracy"].compute(score.gold, predicted)
        by_heart.append(replace(score, contestant="DAPT", predicted=predicted, test=test))
    scores = plain + by_heart
    leakage = leakage_of([], outcome_of(scores, BARE), known)
    assert leakage.changed == ["only with the leaked items, DAPT is better than the untouched model"]
    assert "level with it" in leakage.verdict
    assert leakage.outcome is not None
    assert len(rows(leakage.outcome)[0].scores) == 5


def test_the_verdict_says_that_it_rests_on_leaked_items_and_the_page_once(tmp_path: Path) -> None:
    plain = studies.made_up_scores("untouched", level=1.0)
    better = [replace(score, contestant="DAPT", predicted=score.gold[:60] + score.predicted[60:]) for score in plain]
    scores = plain + [replace(s, test=METRICS["accuracy"].compute(s.gold, s.predicted)) for s in better]
    leaked = list(scores[0].ids[:60])
    facts = replace(BARE, examination=studies.examination(), leaked_test_ids=leaked)
    write_outcome(tmp_path, scores, facts)
    study = write_pages(tmp_path)
    told = (
        "But this depends on leaked test items (60 of 400 stand in the training data too): only with the leaked items, "
        "DAPT is better than the untouched model."
    )
    assert study.verdict.endswith(f". {told}")
    assert study.alerts == []
    for page in ("report.html", "table.txt"):
        assert " ".join((tmp_path / page).read_text().split()).count("only with the leaked items") == 1


def test_where_everything_leaked_there_is_nothing_to_score_twice(field: list[Score]) -> None:
    outcome = outcome_of(field, BARE)
    leakage = leakage_of([], outcome, field[0].ids[1:])
    assert (leakage.leaked, leakage.outcome, leakage.verdict) == (399, None, "")
    assert leakage_of([], outcome, ["an id of another split"]).leaked == 0


def test_facts_come_back_from_json_as_they_were(tmp_path: Path, field: list[Score]) -> None:
    study = studies.study_of_six(field)
    facts = Facts(**{each.name: getattr(study, each.name) for each in fields(Facts)})
    write_outcome(tmp_path, field, facts)
    again = Facts.from_json(files.read_json(tmp_path / "facts.json"))
    assert again.to_json() == facts.to_json()
    assert again.examination == facts.examination
    assert again.search == tuple(facts.search)


@pytest.mark.parametrize(("predicted", "warned"), [("a", True), ("right", False)])
def test_encoders_that_learnt_nothing_are_called_that(predicted, warned):
    gold = ("a",) * 6 + ("b",) * 4
    answers = gold if predicted == "right" else ("a",) * 10
    value = METRICS["accuracy"].compute(gold, answers)
    ids = tuple(map(str, range(10)))
    field = [
        Score("untouched", "toy", "accuracy", seed, value, value, ids, gold, answers, Cost(), Cost()) for seed in (0, 1)
    ]
    told = untaught(rows(outcome_of(field, BARE)), field, "sequence", baselines=())
    assert bool(told) is warned
    assert not warned or "60.0 points, the same answer to every text 60.0" in told[0]


def test_the_untouched_model_comes_first_and_the_others_by_falling_mean(field: list[Score]) -> None:
    outcome = outcome_of(field[::-1], BARE)
    table = rows(outcome)
    assert [row.contestant for row in table] == [ran.cell.row for ran in outcome.ran.values()]
    assert (table[0].contestant, table[0].comparison) == ("untouched", None)
    means = [row.score.mean for row in table[1:]]
    assert means == sorted(means, reverse=True)


def test_rows_hold_what_the_single_functions_give(field: list[Score]) -> None:
    table, metric = rows(outcome_of(field, BARE)), METRICS["macro_f1"]
    scores = {row.contestant: [score for score in field if score.contestant == row.contestant] for row in table}
    [row] = [row for row in table if row.contestant == "DAPT"]
    assert row.score == interval(scores["DAPT"], metric)
    alone = compare(scores["DAPT"], scores["untouched"], metric)
    assert row.comparison is not None
    assert row.comparison == alone
    assert [row.p_holm for row in table[1:]] == holm([row.comparison.p for row in table[1:] if row.comparison])
    assert row.adapting == Cost(1_240_000, 8.6e12, 41.0)


def test_costs_are_means_over_seeds() -> None:
    scores = studies.made_up_scores("untouched", level=1.0, seeds=2, items=50)
    scores[1] = replace(scores[1], finetuning=Cost(110_000, 6e12, 33.0))
    assert rows(outcome_of(scores, BARE))[0].finetuning == Cost(100_000, 5e12, 32.0)


def test_scores_without_some_items_are_those_of_the_others() -> None:
    scores = studies.made_up_scores("untouched", level=1.0, seeds=2, items=10)
    outcome = outcome_of(scores, BARE)
    answers = zip(scores[0].ids, scores[0].gold, scores[0].predicted, strict=True)
    wrong = [id for id, right, guess in answers if right != guess]
    [ran] = without(outcome, wrong).ran.values()
    first, second = ran.scores
    assert 0 < len(wrong) < 8
    assert first.ids == tuple(id for id in scores[0].ids if id not in wrong)
    assert first.test == 1.0
    assert second.ids == first.ids
    assert second.test == METRICS["accuracy"].compute(second.gold, second.predicted)
    assert (first.dev, first.finetuning) == (scores[0].dev, scores[0].finetuning)
    assert next(iter(without(outcome, []).ran.values())).scores == tuple(scores)


def test_a_score_of_one_item_or_none_is_refused() -> None:
    scores = studies.made_up_scores("untouched", level=1.0, seeds=2, items=10)
    with pytest.raises(ValueError, match="1 of 10 test items are left without the 9 to leave out"):
        without(outcome_of(scores, BARE), scores[0].ids[1:])


def lines_of(run: Path) -> dict[str, dict[str, str]]:
    return {line["contestant"]: line for line in csv.DictReader(io.StringIO((run / "table.csv").read_text()))}


def test_the_csv_keeps_every_digit_and_has_what_pretraining_took(tmp_path: Path, field: list[Score]) -> None:
    losses = {"DAPT": (3.875, 4.36), "TAPT": (3.875, 3.8)}
    took = {"DAPT": Cost(1_000, 2e9, 3.0)}
    write_outcome(tmp_path, field, replace(BARE, general_losses=losses, pretraining=took))
    study, lines = write_pages(tmp_path), lines_of(tmp_path)
    assert [*lines] == [row.contestant for row in study.rows]
    row = study.rows[1]
    line = lines[row.contestant]
    assert float(line["mean"]) == row.score.mean
    assert tuple(map(float, line["scores"].split())) == row.scores
    assert row.comparison is not None
    for part in ("difference", "p", "improvement", "improvement_low", "improvement_high", "p_permutation"):
        assert float(line[f"against_untouched_{part}"]) == getattr(row.comparison, part)
    assert float(line["against_untouched_p_holm"]) == row.p_holm
    assert float(line["adapting_seconds"]) == row.adapting.seconds
    assert lines["untouched"]["against_untouched_p"] == ""
    assert (lines["DAPT"]["pretraining_flops"], lines["TAPT"]["pretraining_flops"]) == ("2000000000.0", "0.0")
    assert float(lines["DAPT"]["general_loss_difference"]) == 4.36 - 3.875
    assert (lines["untouched"]["general_loss"], lines["untouched"]["general_loss_difference"]) == ("3.875", "")
    assert lines["DGA"]["general_loss"] == ""
    write_outcome(tmp_path, field, BARE)
    write_pages(tmp_path)
    assert not {"pretraining_flops", "general_loss"} & lines_of(tmp_path)["DAPT"].keys()


@pytest.mark.parametrize("name", ["DAPT", "a contestant whose name is longer than any line of a terminal " * 3])
def test_the_text_fits_a_terminal(tmp_path: Path, field: list[Score], name: str) -> None:
    named = [replace(score, contestant=name) if score.contestant == "DAPT" else score for score in field]
    write_outcome(tmp_path, named, replace(BARE, winner=name))
    lines = Page("A race", "", tables_of(study_of(tmp_path))).as_text().splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert all(line == line.rstrip() for line in lines)


def test_a_model_that_runs_alone_is_not_called_untouched(tmp_path: Path) -> None:
    write_outcome(tmp_path, studies.made_up_scores("untouched", level=1.0), replace(BARE, winner="untouched"))
    write_pages(tmp_path)
    table = (tmp_path / "table.txt").read_text()
    assert "  model " in table
    assert "untouched" not in table
    assert [*lines_of(tmp_path)] == ["untouched"]


def test_a_contestant_that_failed_is_named_in_verdict_table_csv_and_page(tmp_path: Path, field: list[Score]) -> None:
    write_outcome(tmp_path, field, replace(BARE, failed={"TLM": "TLM: no memory"}))
    study = write_pages(tmp_path)
    assert "TLM failed and has no score" in study.verdict
    for page in ("table.txt", "report.html"):
        assert "TLM failed: TLM: no memory." in " ".join((tmp_path / page).read_text().split())
    line = lines_of(tmp_path)["TLM"]
    assert (line["failed"], line["mean"], line["against_untouched_p"]) == ("TLM: no memory", "", "")
    assert "Not compared, for one of the two failed: TLM." in (tmp_path / "table.txt").read_text()
    others = [row.p_holm for row in study.rows]
    assert others == [row.p_holm for row in rows(outcome_of(field, BARE))]
