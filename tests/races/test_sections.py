import pytest

import studies
from acclimate.races.report import Looks, Trial, search_remark


def test_equal_chances_are_said_to_be_equal() -> None:
    assert search_remark(studies.trials(["untouched", "DAPT"])) == (
        "Each contestant had 4 settings tried, with dev alone to choose among them."
    )


def test_unequal_chances_are_said_to_be_unequal() -> None:
    extra = Trial("DAPT", "rate 9e-05", 0, 60, 1, 0.7, False)
    assert search_remark([*studies.trials(["untouched", "DAPT"]), extra]) == (
        "The contestants had unequal numbers of settings tried (untouched 4, DAPT 5): those with more had better "
        "chances."
    )


def test_without_a_search_nothing_is_said_of_it() -> None:
    assert search_remark([]) == ""
    assert search_remark([Trial(name, "as stated", 0, 60, 3, 0.7, True) for name in ("untouched", "DAPT")]) == ""


@pytest.mark.parametrize(
    ("looks", "begins"),
    [
        (
            Looks(30, 5, 34),
            "These test labels were opened 34 times by 5 earlier races on this machine. A test set wears",
        ),
        (Looks(30, 1, 1), "These test labels were opened once by 1 earlier race on this machine. A test set wears out"),
        (Looks(30, 2), "These test labels were opened by 2 earlier races on this machine. A test set wears out"),
    ],
)
def test_earlier_looks_are_a_warning(looks: Looks, begins: str) -> None:
    assert looks.warning().startswith(begins)


def test_first_looks_are_none() -> None:
    assert Looks(30).warning() == ""
    assert Looks(1).sentence() == "This race opened the labels of the test set once, after all choices were made."
