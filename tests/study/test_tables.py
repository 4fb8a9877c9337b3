import csv
import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from sklearn.metrics import f1_score

from acclimate.core.types import Cost, Score
from acclimate.study import wording
from acclimate.study.significance import compare, holm, interval
from acclimate.study.tables import Row, as_csv, as_markdown, as_text, per_label, rows
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
    assert rows(scores, METRICS["accuracy"], resamples=20)[0].finetuning == Cost(100_000, 5e12, 32.0)


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


def test_markdown_has_one_line_a_row_and_bars_in_names_do_not_break_it(table: list[Row]) -> None:
    lines = as_markdown([replace(table[0], contestant="a|b"), *table[1:]]).splitlines()
    assert len(lines) == 2 + len(table)
    assert {line.replace("\\|", "").count("|") for line in lines} == {10}


def test_csv_keeps_every_digit(table: list[Row]) -> None:
    read = list(csv.DictReader(io.StringIO(as_csv(table))))
    assert [line["contestant"] for line in read] == [row.contestant for row in table]
    assert read[0]["p"] == ""
    assert float(read[1]["mean"]) == table[1].score.mean
    assert tuple(map(float, read[1]["scores"].split())) == table[1].scores
    assert float(read[1]["adapting_seconds"]) == table[1].adapting.seconds


def test_label_scores_are_those_of_scikit_learn(field: list[Score]) -> None:
    own = [score for score in field if score.contestant == "DAPT"]
    other = [score for score in field if score.contestant == "untouched"]
    found = per_label(other, own)
    labels = [label.label for label in found]
    expected = sum(f1_score(score.gold, score.predicted, labels=labels, average=None) for score in own) / len(own)
    assert [label.contestant for label in found] == pytest.approx(list(expected))
    assert [label.support for label in found] == sorted((label.support for label in found), reverse=True)
    assert sum(label.support for label in found) == len(own[0].gold)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "FLOP", "0 FLOP"),
        (999, "", "999"),
        (999.7, "", "1.00 k"),
        (1_234_567, "", "1.23 M"),
        (12.34e12, "FLOP", "12.3 TFLOP"),
        (999.6e12, "FLOP", "1.00 PFLOP"),
        (99.96e6, "", "100 M"),
    ],
)
def test_amounts_have_three_digits(value: float, unit: str, text: str) -> None:
    assert wording.si(value, unit) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.42, "0.4 s"),
        (41.3, "41 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3599.7, "1 h"),
        (7500, "2 h 05 min"),
    ],
)
def test_times_read_naturally(seconds: float, text: str) -> None:
    assert wording.duration(seconds) == text


@pytest.mark.parametrize(
    ("p", "text"), [(None, "-"), (0.0002, "< .001"), (0.0341, ".034"), (0.25, ".25"), (0.995, "> .99"), (1.0, "> .99")]
)
def test_p_values_are_never_bare_zero_or_one(p: float | None, text: str) -> None:
    assert wording.p_text(p) == text


def test_points_never_show_minus_zero() -> None:
    assert wording.points(-0.0001, sign="+") == "+0.0"
    assert wording.points(0.8125) == "81.2"
