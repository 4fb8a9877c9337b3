"""Every objective against tests/conformance.py."""

from pathlib import Path

import pytest

import conformance


@pytest.fixture(params=list(conformance.OBJECTIVES))
def case(request: pytest.FixtureRequest) -> conformance.Case:
    return conformance.OBJECTIVES[request.param]()


def test_sums_match_counts(case):
    conformance.check_sums_match_counts(case)


def test_pieces_do_not_matter(case):
    conformance.check_pieces_do_not_matter(case)


def test_same_seed_same_bytes(case):
    conformance.check_same_seed_same_bytes(case)


def test_stop_and_resume(case, tmp_path: Path):
    conformance.check_stop_and_resume(case, tmp_path)


def test_every_weight_learns(case):
    conformance.check_every_weight_learns(case)


def test_padding_does_not_matter(case):
    conformance.check_padding_does_not_matter(case)


def test_sharing_lines_does_not_matter(case):
    conformance.check_sharing_lines_does_not_matter(case)


def test_views_are_drawn_first(case):
    conformance.check_views_are_drawn_first(case)
