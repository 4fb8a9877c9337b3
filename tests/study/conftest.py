"""Made-up scores: no figure in these tests was measured."""

import pytest

import studies
from acclimate.core.types import Score
from acclimate.study.report import Study


@pytest.fixture
def make() -> studies.Maker:
    return studies.made_up_scores


@pytest.fixture(scope="session")
def field() -> list[Score]:
    """A race of six."""
    return studies.race_of_six()


@pytest.fixture(scope="session")
def study(field: list[Score]) -> Study:
    return studies.study_of_six(field)
