"""Forgetting at equal domain loss, on made-up paths of losses."""

from __future__ import annotations

from pathlib import Path

import pytest

from acclimate.core import files
from acclimate.core.types import HELDOUT_LOOKS
from acclimate.reports.forgetting import Look, LossPaths, equal_domain_loss, general_at, path_of, section, sentence
from acclimate.reports.plots import general_against_domain

GENTLE = (Look(0, 4.0, 2.0), Look(10, 3.0, 2.1), Look(20, 2.5, 2.2))
HARSH = (Look(0, 4.0, 2.0), Look(10, 2.0, 3.0), Look(20, 2.2, 3.5))  # which gets worse in the end
USELESS = (Look(0, 4.0, 2.0), Look(10, 4.5, 2.6))


def test_a_general_loss_is_interpolated_where_the_path_first_falls_to_the_domain_loss():
    assert general_at(GENTLE, 4.0) == 2.0
    assert general_at(GENTLE, 3.5) == pytest.approx(2.05)
    assert general_at(GENTLE, 2.75) == pytest.approx(2.15)
    assert general_at(GENTLE, 2.5) == pytest.approx(2.2)
    assert general_at(GENTLE, 2.4) is None
    assert general_at(GENTLE, 4.1) is None
    assert general_at(HARSH, 2.1) == pytest.approx(2.95)  # on the way down, and not on the way up
    assert general_at((), 2.0) is None


def test_contestants_are_compared_at_the_lowest_domain_loss_that_all_reach_and_those_that_learn_nothing_are_not():
    level, general = equal_domain_loss({"harsh": HARSH, "gentle": GENTLE, "useless": USELESS})
    assert level == 2.5
    assert list(general) == ["gentle", "harsh"]
    assert general == pytest.approx({"gentle": 2.2, "harsh": 2.75})
    assert equal_domain_loss({"gentle": GENTLE, "useless": USELESS}) is None
    told = sentence(LossPaths("", {"harsh": HARSH, "gentle": GENTLE}))
    assert "At a domain loss of 2.500" in told
    assert "gentle 2.200 (+0.200) and harsh 2.750 (+0.750)" in told
    assert "none are compared" in sentence(LossPaths("", {"gentle": GENTLE}))


def test_the_table_has_a_line_for_each_lowest_domain_loss_and_a_column_for_each_contestant():
    table = section(LossPaths(", ACL", {"gentle": GENTLE, "harsh": HARSH}))
    assert table.title.endswith(", ACL")
    assert table.rows == (
        ("gentle", "3", "2.500", "20", "2.200", "2.750"),
        ("harsh", "3", "2.000", "10", "-", "3.000"),
    )
    lines = {"gentle": [(look.domain, look.general) for look in GENTLE]}
    assert "gentle: domain 4.000 to 2.500, general 2.000 to 2.200" in general_against_domain(lines, table.title)


def written(place: Path, looks: dict[int, tuple[float, float]], *, head: bool = True) -> Path:
    place.mkdir()
    found = [[step, {"domain": domain, "general": general}] for step, (domain, general) in looks.items()]
    files.write_record(place / HELDOUT_LOOKS, {"head": head, "looks": found})
    return place


def test_a_path_goes_on_through_the_runs_of_a_chain_and_is_the_mean_over_adaptations(tmp_path):
    first = written(tmp_path / "first", {0: (4.0, 2.0), 5: (3.0, 2.5)})
    then = written(tmp_path / "then", {0: (3.0, 2.5), 4: (2.0, 3.0)})
    again = written(tmp_path / "again", {0: (3.0, 2.5), 4: (1.0, 4.0)})
    assert path_of([[first, then]]) == (Look(0, 4.0, 2.0), Look(5, 3.0, 2.5), Look(9, 2.0, 3.0))
    assert path_of([[first, then], [first, again]])[-1] == Look(9, 1.5, 3.5)
    assert path_of([[first, tmp_path]]) == ()  # a run of the chain that did not look
    assert path_of([[first], [then]]) == ()  # of other steps
    assert path_of([[written(tmp_path / "without", {0: (9.0, 9.0)}, head=False)]]) == ()
