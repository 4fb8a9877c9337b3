"""The column of losses on general text: by hand."""

from acclimate.reports.table import GeneralLoss, beside


def test_the_first_is_what_the_others_adapted_and_who_was_not_measured_has_none():
    found = beside(["untouched", "TAPT", "TF-IDF"], {"TAPT": (3.0, 3.5)})
    assert found == {"untouched": GeneralLoss(3.0), "TAPT": GeneralLoss(3.5, 0.5), "TF-IDF": GeneralLoss()}
    assert list(map(str, found.values())) == ["3.00", "3.50 (+0.50)", "-"]


def test_a_first_that_was_adapted_itself_has_a_difference_too():
    assert beside(["K = 5", "K = 50"], {"K = 5": (3.0, 3.1), "K = 50": (3.0, 2.9)})["K = 5"].difference is not None


def test_less_is_told_with_its_sign_and_nothing_never_as_minus_zero():
    assert str(GeneralLoss(2.9, -0.1)) == "2.90 (-0.10)"
    assert str(GeneralLoss(2.9, -0.001)) == "2.90 (+0.00)"


def test_where_nothing_was_measured_there_is_no_column():
    assert beside(["untouched", "TAPT"], {}) == {}
