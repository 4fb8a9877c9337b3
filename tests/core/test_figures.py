import pytest

from acclimate.core import figures


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
def test_amounts_have_three_digits(value, unit, text):
    assert figures.si(value, unit) == text


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
def test_times_read_naturally(seconds, text):
    assert figures.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (44, "less than a minute"),
        (90, "1.5 min"),
        (740, "12 min"),
        (5390, "90 min"),
        (9000, "2.5 h"),
        (102_000, "28 h"),
        (474_000, "5.5 days"),
        (1_000_000, "12 days"),
    ],
)
def test_forecasts_have_two_digits_in_the_unit_that_suits(seconds, text):
    assert figures.rough_duration(seconds) == text


@pytest.mark.parametrize(
    ("p", "text"), [(None, "-"), (0.0002, "< .001"), (0.0341, ".034"), (0.25, ".25"), (0.995, "> .99"), (1.0, "> .99")]
)
def test_p_values_are_never_bare_zero_or_one(p, text):
    assert figures.p_text(p) == text


def test_points_never_show_minus_zero():
    assert figures.points(-0.0001, sign="+") == "+0.0"
    assert figures.points(0.8125) == "81.2"


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (0.0001, "< 0.1%"), (0.003, "0.3%"), (0.04, "4%"), (0.0999, "10%"), (0.126, "13%"), (1, "100%")],
)
def test_shares_are_written_in_percent(share, text):
    assert figures.percent(share) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("macro_f1", "macro-F1"),
        ("accuracy", "accuracy"),
        ("exact_match", "exact match"),
        ("pearson", "Pearson's r"),
        ("mrr", "MRR"),
        ("f1", "F1"),
        ("micro_f1 without no_relation, other_f1", "micro-F1 without no_relation, other_f1"),
    ],
)
def test_metrics_have_names_for_people(name, text):
    assert figures.metric_text(name) == text


def test_lists_end_in_and():
    assert figures.listed(["a"]) == "a"
    assert figures.listed(["a", "b", "c"]) == "a, b and c"
