from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest

from acclimate.core.types import Cost
from acclimate.races.report import RaceReport
from acclimate.reports.differences import Difference, difference_plot
from acclimate.reports.plots import gold_against_predicted, heldout_losses, learning_curves, score_against_cost

pytestmark = pytest.mark.usefixtures("plots")

DIFFERENCES = [Difference("DAPT", 0.024, (0.01, 0.038)), Difference("TAPT", -0.002, (-0.01, 0.006))]
NASTY = "<script>alert('$x$')</script> --> & \"q\""


@pytest.fixture(scope="module")
def drawn(report: RaceReport) -> dict[str, str]:
    curves = next(iter(report.facts.curves.values()))
    return {
        "seconds": score_against_cost(report.rows),
        "curves": learning_curves(curves.lines, curves.x, curves.y),
        "losses": heldout_losses(report.facts.losses, "domain"),
        "general losses": heldout_losses(report.facts.general_losses, "general"),
        "differences": difference_plot(DIFFERENCES, margin=0.01),
        "numbers": gold_against_predicted([(float(i), i + 0.5) for i in range(20)], "DAPT"),
    }


def texts(svg: str) -> str:
    return " ".join(
        " ".join(element.itertext()) for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")
    )


def test_every_plot_is_one_element_that_names_and_describes_itself(drawn):
    for svg in drawn.values():
        root = ElementTree.fromstring(svg)
        assert svg.startswith("<svg ")
        assert root.get("role") == "img"
        ids = {element.get("id"): element for element in root.iter() if element.get("id")}
        assert ids[root.get("aria-labelledby")].text
        assert ids[root.get("aria-describedby")].text


def test_ids_are_unique_on_a_page_and_every_reference_is_met(drawn):
    elements = [element for svg in drawn.values() for element in ElementTree.fromstring(svg).iter()]
    ids = [element.get("id") for element in elements if element.get("id")]
    assert len(ids) == len(set(ids))
    for element in elements:
        for key, value in element.attrib.items():
            if key.endswith("href"):
                assert value[1:] in ids
            if value.startswith("url("):
                assert value[5:-1] in ids


def test_no_plot_styles_the_page_or_loads_anything(drawn):
    for svg in drawn.values():
        assert "<style" not in svg
        assert "<metadata" not in svg
        assert "#01020" not in svg
        assert "DejaVu" not in svg
        assert svg.count("http") == 1  # the name space


def test_names_are_text_that_can_be_searched(drawn, report):
    for row in report.rows:
        assert row.contestant in texts(drawn["seconds"])
    assert "4.31 \N{RIGHTWARDS ARROW} 2.95" in texts(drawn["losses"])


def test_nasty_names_stay_names(report):
    rows = [replace(row, contestant=NASTY) if row.contestant == "DAPT" else row for row in report.rows]
    plots = [
        score_against_cost(rows),
        learning_curves({NASTY: [(0, 1), (1, 2)]}, NASTY, NASTY, title=NASTY),
        heldout_losses({NASTY: (3.0, 2.0)}, "general"),
        gold_against_predicted([(0.0, 1.0), (2.0, 2.0)], NASTY),
        difference_plot([Difference(NASTY[:40], 0.1)]),
    ]
    for svg in plots:
        assert not [element for element in ElementTree.fromstring(svg).iter() if "script" in str(element.tag)]
        assert NASTY in "".join(ElementTree.fromstring(svg).itertext())


def test_plots_of_two_titles_do_not_share_ids():
    curves = {"a": [(0.0, 1.0), (1.0, 2.0)]}
    first, second = (learning_curves(curves, "x", "y", title=title) for title in ("損失", "精度"))
    ids = [{element.get("id") for element in ElementTree.fromstring(svg).iter()} - {None} for svg in (first, second)]
    assert not ids[0] & ids[1]


def test_odd_but_possible_data_can_be_drawn(report):
    one = [replace(report.rows[0], adapting=Cost(), finetuning=Cost())]
    assert "untouched (0)" in texts(score_against_cost(one))
    assert "only" in texts(learning_curves({"only": [(3.0, 1.0)]}, "step", "loss"))
    long = [replace(row, adapting=Cost(1, 1.0, 3e5), finetuning=Cost()) for row in report.rows]
    assert "100 h" in texts(score_against_cost(long))


def test_of_many_numbers_some_are_drawn_and_the_page_stays_small():
    generator = np.random.default_rng(0)
    pairs = [(float(gold), float(gold + noise)) for gold, noise in generator.normal(size=(20_000, 2))]
    svg = gold_against_predicted(pairs, "DAPT")
    assert len(svg) < 150_000
    assert "20,000 test items, 1,000 of them shown" in svg
    assert "they differ by 0.79" in svg  # the mean of |Normal| is .798


def test_each_seed_is_a_dot_beside_its_bar_and_matplotlib_keeps_its_settings(report):
    fewer = [replace(row, scores=row.scores[:2]) for row in report.rows]
    dots = [svg.count("<use") for svg in (score_against_cost(report.rows), score_against_cost(fewer))]
    assert dots[0] - dots[1] == 3 * len(report.rows)
    before = dict(matplotlib.rcParams)
    score_against_cost(report.rows)
    assert dict(matplotlib.rcParams) == before
