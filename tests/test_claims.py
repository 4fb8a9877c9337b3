"""docs/claims.md: it is what the script writes, its commands parse, and verdicts follow from outcomes by the rule."""

import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import typer

from acclimate.api.checks import check_settings
from acclimate.cli import app

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("claims", ROOT / "docs" / "claims.py")
claims = sys.modules["claims"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(claims)
ROWS = [claim for rows in claims.CLAIMS.values() for claim in rows]
STORED = sorted(claims.OUTCOMES.glob("*.json"))


def found(low: float, high: float, *, p: float = 0.001, learnt: bool = True):
    return claims.Figure((low + high) / 2, low, high, p, 1.0, "items", learnt)


def test_the_page_is_what_the_script_writes():
    """Where this fails: python docs/claims.py."""
    assert claims.PAGE.read_text("utf-8") == claims.page()


def test_which_method_says_what_the_outcomes_say():
    """Where this fails: python docs/claims.py."""
    assert claims.WHICH.read_text("utf-8") == claims.which()
    assert {key for each in claims.ADVICE for key in each.claims} <= {claim.key for claim in ROWS}


def test_each_of_the_27_claims_has_a_row():
    keys = [claim.key for claim in ROWS]
    numbers = {"T": 6, "G": 5, "L": 6, "P": 8, "S": 2}
    assert keys == [f"{letter}{number + 1}" for letter, count in numbers.items() for number in range(count)]
    assert len(keys) == 27
    assert {claim.key for claim in ROWS if not claim.tests or not claim.commands} == set()


@pytest.mark.parametrize("command", sorted({command for claim in ROWS for command in claim.commands}))
def test_each_command_parses_or_names_a_script_that_is_there(command):
    program, *words = shlex.split(command)
    if program == "python":
        assert (ROOT / words[0]).is_file()
        return
    assert program == "acclimate"
    place, path = typer.main.get_command(app), []
    while hasattr(place, "commands"):
        path.append(words.pop(0))
        place = place.commands[path[-1]]
    given = place.make_context(path[-1], words).params
    if path != ["adapt"] and given.get("assignments"):
        assert check_settings(" ".join(path), given) is not None


def test_the_verdict_follows_from_the_intervals():
    assert claims.verdict([found(0.1, 2)]) == "holds"
    assert claims.verdict([found(0.1, 2), found(-0.1, 2, p=0.2)]) == "not visible"
    assert claims.verdict([found(-2, -0.1), found(0.1, 2)]) == "opposite"
    assert claims.verdict([found(-1, 1, p=0.9)]) == "not visible"
    # three figures: what is below 0 by itself is not after Holm's correction
    assert claims.verdict([found(-2, -0.01, p=0.04), *[found(-1, 1, p=0.5)] * 2]) == "not visible"


def test_there_is_no_verdict_without_every_figure_or_on_a_target_that_was_not_learnt():
    assert claims.verdict([None]) == "not run"
    assert claims.verdict([found(0.1, 2), None]) == "not run"
    assert claims.verdict([found(0.1, 2, learnt=False)]) == "not run"


def test_outcomes_belong_to_a_claim_and_say_how_they_were_made():
    wanted = {(test.outcome, test.figure) for claim in ROWS for test in claim.tests}
    for path in STORED:
        stored = json.loads(path.read_text("utf-8"))
        assert {figure for outcome, figure in wanted if outcome == path.stem} & set(stored["figures"])
        assert re.fullmatch("[0-9a-f]{40}", stored["commit"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", stored["date"])
        assert stored["processor_seconds"] > 0
        assert stored["commands"]
        for each in stored["figures"].values():
            figure = claims.Figure(**each)
            assert figure.low <= figure.difference <= figure.high
        assert path.stat().st_size < 10_000
        assert not re.search(r"/(work|home|tmp|root)/", path.read_text("utf-8"))


def test_what_has_a_verdict_states_what_could_be_seen_before_the_run():
    with_verdict = [claim for claim in ROWS if claims.verdict([claims.figure(one) for one in claim.tests]) != "not run"]
    assert {claim.key for claim in with_verdict if any(test.planned is None for test in claim.tests)} == set()
