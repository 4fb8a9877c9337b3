"""The plot of differences: marks and bars are where the axis says."""

import re
from xml.etree import ElementTree

import pytest

from acclimate.reports.differences import Difference, difference_plot

pytestmark = pytest.mark.usefixtures("plots")

NAME = "{http://www.w3.org/2000/svg}"
GAIN = Difference("DAPT", 0.024, (0.01, 0.038))
OPEN = Difference("TAPT", -0.002, (-0.01, 0.006))
LOSS = Difference("random", -0.03, (-0.05, -0.01))
ALONE = Difference("TF-IDF", -0.123)  # without an interval


@pytest.mark.parametrize(
    ("difference", "text", "look"),
    [
        (GAIN, "+2.4 [+1.0, +3.8]", "gain"),
        (OPEN, "-0.2 [-1.0, +0.6]", ""),
        (LOSS, "-3.0 [-5.0, -1.0]", "loss"),
        (ALONE, "-12.3", ""),
    ],
)
def test_a_difference_is_coloured_only_if_its_interval_excludes_zero(difference, text, look):
    assert (str(difference), difference.look) == (text, look)


@pytest.mark.parametrize("differences", [[GAIN, OPEN, LOSS], [ALONE], [Difference("equal", 0.0)], [GAIN] * 12])
def test_marks_and_bars_are_where_the_axis_says(differences):
    drawn = ElementTree.fromstring(difference_plot(differences, margin=0.01))
    ticks = {
        float(text.text.replace("\N{MINUS SIGN}", "-")) / 100: float(text.get("x").strip("%"))
        for text in drawn.iter(f"{NAME}text")
        if text.get("text-anchor")
    }
    assert 0 in ticks
    assert 2 <= len(ticks) <= 8
    (first, left), *_, (last, right) = sorted(ticks.items())

    def place(value):
        return left + (value - first) / (last - first) * (right - left)

    circles = [float(mark.get("cx").strip("%")) for mark in drawn.iter(f"{NAME}circle")]
    assert circles == pytest.approx([place(difference.value) for difference in differences], abs=0.05)
    bars = [line for line in drawn.iter(f"{NAME}line") if line.get("stroke-width") == "2.5"]
    ends = [tuple(float(bar.get(end).strip("%")) for end in ("x1", "x2")) for bar in bars]
    intervals = [difference.interval for difference in differences if difference.interval]
    assert ends == [pytest.approx(tuple(map(place, interval)), abs=0.05) for interval in intervals]
    assert all(0 <= place <= 100 for place in (*circles, *ticks.values(), *(end for both in ends for end in both)))
    filled = [mark.get("fill") == mark.get("stroke") for mark in drawn.iter(f"{NAME}circle")]
    assert filled == [bool(difference.look) for difference in differences]
    assert len(re.findall("stroke-dasharray", difference_plot(differences))) == 0, "no margin, no line"
