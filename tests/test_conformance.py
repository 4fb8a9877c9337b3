"""Every objective against tests/conformance.py."""

import pytest

import conformance


@pytest.fixture(params=list(conformance.OBJECTIVES))
def case(request: pytest.FixtureRequest) -> conformance.Case:
    return conformance.OBJECTIVES[request.param]()


def test_sums_match_counts(case):
    conformance.check_sums_match_counts(case)


@pytest.mark.parametrize("case", conformance.ONE_OF_EACH, indirect=True)
def test_pieces_do_not_matter(case):
    conformance.check_pieces_do_not_matter(case)


@pytest.mark.parametrize("case", conformance.ONE_OF_EACH, indirect=True)
def test_a_seed_fixes_every_byte_and_a_stop_changes_none(case, tmp_path):
    conformance.check_seed_stop_and_resume(case, tmp_path)


def test_every_weight_learns(case):
    conformance.check_every_weight_learns(case)


def test_other_rows_of_a_piece_do_not_matter(case):
    conformance.check_other_rows_do_not_matter(case)
