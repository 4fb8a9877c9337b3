from dataclasses import replace

import pytest

from acclimate.reports.table import GeneralLoss, chance_text, general_loss_column
from acclimate.statistics.significance import Comparison


def test_the_probability_of_improvement_has_its_interval():
    assert chance_text(None) == "-"
    comparison = Comparison("DAPT", "untouched", 0.8, 0.7, 0.05, 0.15, 0.01, 0.02, "made up")
    assert chance_text(comparison) == "-"
    stated = replace(comparison, improvement=0.93, improvement_low=0.8, improvement_high=0.999)
    assert chance_text(stated) == "93% [80, 100]"


def test_the_first_is_what_the_others_adapted_unless_it_was_adapted_itself():
    found = general_loss_column(["untouched", "TAPT", "TF-IDF"], {"TAPT": (3.0, 3.5)})
    assert found == {"untouched": GeneralLoss(3.0), "TAPT": GeneralLoss(3.5, 0.5), "TF-IDF": GeneralLoss()}
    assert list(map(str, found.values())) == ["3.00", "3.50 (+0.50)", "-"]
    found = general_loss_column(["K = 5", "K = 50"], {"K = 5": (3.0, 3.1), "K = 50": (3.0, 2.9)})
    assert [found[name].difference for name in ("K = 5", "K = 50")] == pytest.approx([0.1, -0.1])
    assert general_loss_column(["untouched", "TAPT"], {}) == {}


def test_less_is_told_with_its_sign_and_nothing_never_as_minus_zero():
    assert str(GeneralLoss(2.9, -0.1)) == "2.90 (-0.10)"
    assert str(GeneralLoss(2.9, -0.001)) == "2.90 (+0.00)"
