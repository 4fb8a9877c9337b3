from dataclasses import replace

from acclimate.reports.table import chance_text
from acclimate.statistics.significance import Comparison


def test_the_probability_of_improvement_has_its_interval() -> None:
    assert chance_text(None) == "-"
    comparison = Comparison("DAPT", "untouched", 0.8, 0.7, 0.05, 0.15, 0.01, 0.02, "made up")
    assert chance_text(comparison) == "-"
    stated = replace(comparison, improvement=0.93, improvement_low=0.8, improvement_high=0.999)
    assert chance_text(stated) == "93% [80, 100]"
