import csv
import io
from collections.abc import Callable
from dataclasses import replace

import pytest

from acclimate.core.types import Cost, Score
from acclimate.reports.table import Row, as_csv, as_text, chance_text, rows, without
from acclimate.statistics.significance import Comparison, compare, holm, interval
from acclimate.tasks.metrics import METRICS

METRIC = METRICS["macro_f1"]


@pytest.fixture(scope="module")
def table(field: list[Score]) -> list[Row]:
    return rows(field, METRIC)


def test_the_untouched_model_comes_first_and_the_others_by_falling_mean(table: list[Row]) -> None:
    assert table[0].contestant == "untouched"
    assert table[0].comparison is None
    means = [row.score.mean for row in table[1:]]
    assert means == sorted(means, reverse=True)


def test_rows_hold_what_the_single_functions_give(table: list[Row], field: list[Score]) -> None:
    own = {row.contestant: [score for score in field if score.contestant == row.contestant] for row in table}
    row = next(row for row in table if row.contestant == "DAPT")
    assert row.score == interval(own["DAPT"], METRIC)
    alone = compare(own["DAPT"], own["untouched"], METRIC)
    assert row.comparison is not None
    assert row.comparison.p == pytest.approx(alone.p)
    assert [row.p_holm for row in table[1:]] == pytest.approx(holm([row.comparison.p for row in table[1:]]))
    assert row.adapting == Cost(1_240_000, 8.6e12, 41.0)


def test_costs_are_means_over_seeds(make: Callable[..., list[Score]]) -> None:
    scores = make("untouched", level=1.0, seeds=2, items=50)
    scores[1] = replace(scores[1], finetuning=Cost(110_000, 6e12, 33.0))
    assert rows(scores, METRICS["accuracy"])[0].finetuning == Cost(100_000, 5e12, 32.0)


def test_a_missing_reference_is_named(field: list[Score]) -> None:
    with pytest.raises(ValueError, match="no contestant is called 'plain'"):
        rows(field, METRIC, untouched="plain")


@pytest.mark.parametrize("name", ["DAPT", "a contestant whose name is longer than any line of a terminal " * 3])
def test_text_fits_110_columns_and_stays_aligned(table: list[Row], name: str) -> None:
    text = as_text([replace(row, contestant=name) if row.contestant == "DAPT" else row for row in table])
    lines = text.splitlines()
    assert max(map(len, lines)) <= 110
    assert len({len(line) for line in lines[: 2 + len(table)] if "[" in line}) == 1
    assert all(line == line.rstrip() for line in lines)


def test_text_with_many_seeds_still_fits(table: list[Row]) -> None:
    many = [replace(row, seeds=tuple(range(40)), scores=(row.score.mean,) * 40, dev=(0.5,) * 40) for row in table]
    assert max(map(len, as_text(many).splitlines())) <= 110


def test_csv_keeps_every_digit(table: list[Row]) -> None:
    read = list(csv.DictReader(io.StringIO(as_csv(table))))
    assert [line["contestant"] for line in read] == [row.contestant for row in table]
    assert read[0]["p"] == ""
    assert float(read[1]["mean"]) == table[1].score.mean
    assert tuple(map(float, read[1]["scores"].split())) == table[1].scores
    assert float(read[1]["adapting_seconds"]) == table[1].adapting.seconds


def test_csv_has_a_cell_for_every_heading(table: list[Row]) -> None:
    head, *lines = csv.reader(io.StringIO(as_csv(table)))
    assert {len(line) for line in lines} == {len(head)}
    assert {"p_permutation", "improvement", "improvement_low", "improvement_high"} <= set(head)


def test_tables_tell_the_probability_of_improvement_and_one_p(table: list[Row]) -> None:
    [row] = [row for row in table if row.contestant == "DAPT"]
    assert row.comparison is not None
    stated = replace(row.comparison, p_permutation=0.0625, improvement=0.93, improvement_low=0.8, improvement_high=0.99)
    told = [replace(row, comparison=stated)]
    assert "93% [80, 99]" in as_text([table[0], *told])
    assert ".062" not in as_text([table[0], *told])
    assert as_text([table[0], *told]).count("p (Holm)") == 1


def test_scores_without_some_items_are_those_of_the_others(make: Callable[..., list[Score]]) -> None:
    scores = make("untouched", level=1.0, seeds=2, items=10)
    answers = zip(scores[0].ids, scores[0].gold, scores[0].predicted, strict=True)
    wrong = [id for id, right, guess in answers if right != guess]
    first, second = without(scores, wrong)
    assert 0 < len(wrong) < 8
    assert first.ids == tuple(id for id in scores[0].ids if id not in wrong)
    assert first.test == 1.0
    assert second.ids == first.ids
    assert second.test == METRICS["accuracy"].compute(second.gold, second.predicted)
    assert (first.dev, first.finetuning) == (scores[0].dev, scores[0].finetuning)
    assert without(scores, []) == scores


def test_a_score_of_one_item_or_none_is_refused(make: Callable[..., list[Score]]) -> None:
    scores = make("untouched", level=1.0, seeds=2, items=10)
    with pytest.raises(ValueError, match="1 of 10 test items are left without the 9 to leave out"):
        without(scores, scores[0].ids[1:])


def test_the_csv_has_what_pretraining_took_where_it_is_told(table: list[Row]) -> None:
    took = Cost(1_000, 2e9, 3.0)
    lines = list(csv.DictReader(io.StringIO(as_csv(table, pretraining={"DAPT": took}))))
    found = {line["contestant"]: line["pretraining_flops"] for line in lines}
    assert (found["DAPT"], found["TAPT"]) == ("2000000000.0", "0.0")
    assert "pretraining_flops" not in as_csv(table)


def test_losses_on_general_text_stand_beside_every_score_where_there_are_any(table: list[Row]) -> None:
    losses = {"DAPT": (3.875, 4.36), "TAPT": (3.875, 3.8)}
    text = as_text(table, general=losses)
    assert max(map(len, text.splitlines())) <= 110
    told = {line.split("  ")[0]: line for line in text.partition("general loss")[2].splitlines()}
    assert ("3.88" in told["untouched"], "4.36 (+0.49)" in told["DAPT"]) == (True, True)
    assert "what was forgotten" in " ".join(text.split())
    lines = {line["contestant"]: line for line in csv.DictReader(io.StringIO(as_csv(table, general=losses)))}
    assert float(lines["DAPT"]["general_loss_difference"]) == 4.36 - 3.875
    assert (lines["untouched"]["general_loss"], lines["untouched"]["general_loss_difference"]) == ("3.875", "")
    assert lines["DGA"]["general_loss"] == ""
    assert "general" not in (as_text(table) + as_csv(table)).lower()


def test_the_probability_of_improvement_has_its_interval() -> None:
    assert chance_text(None) == "-"
    comparison = Comparison("DAPT", "untouched", 0.8, 0.7, 0.05, 0.15, 0.01, 0.02, "made up")
    assert chance_text(comparison) == "-"
    stated = replace(comparison, improvement=0.93, improvement_low=0.8, improvement_high=0.999)
    assert chance_text(stated) == "93% [80, 100]"
