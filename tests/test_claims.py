"""docs/claims.md and its details: the script writes them, commands parse, and verdicts follow from outcomes by rule."""

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


def test_the_pages_are_what_the_script_writes():
    """Where this fails: python docs/claims.py."""
    pages = claims.pages()
    assert {page: page.read_text("utf-8") for page in pages} == pages
    assert {*claims.DETAILS.glob("*.md")} <= pages.keys()


def test_each_of_the_27_claims_has_a_row():
    keys = [claim.key for claim in ROWS]
    numbers = {"T": 6, "G": 5, "L": 6, "P": 8, "S": 2}
    assert keys == [f"{letter}{number + 1}" for letter, count in numbers.items() for number in range(count)]
    assert len(keys) == 27
    assert {claim.key for claim in ROWS if not claim.tests or not claim.runs} == set()


@pytest.mark.parametrize("command", sorted({one for claim in ROWS for run in claim.runs for one in run.commands}))
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


def outcome(low: float, high: float, *, p: float = 0.001, learnt: bool = True, **losses: list[float]):
    """Return a made-up outcome with the figures "first", from `low` to `high`, and "second", which agrees."""
    first = {"difference": (low + high) / 2, "low": low, "high": high, "p": p, "smallest": 1.0, "over": "items"}
    return {
        "encoder": "one",
        "losses": losses,
        "figures": {"first": {**first, "learnt": learnt}, "second": first | {"low": 1, "high": 3}},
    }


MORE, BOTH = claims.Test("made-up", "first", "points", 4), claims.Test("made-up", "second", "points", 4)
LESS = claims.Test("made-up", "first", "points", 4, says="no less", bound=1)
ALIKE = claims.Test("made-up", "first", "points", 4, says="alike", bound=1)
BEYOND = claims.Test("made-up", "first", "points", 0.1, beyond="99 core-hours")
ADAPTED, PRETRAINED = ("adapted",), ("pretrained",)


@pytest.mark.parametrize(
    ("tests", "needs", "stored", "verdict", "reason"),
    [
        ((MORE,), (), outcome(2.5, 3), "holds", "first: +2.8 points"),
        ((MORE,), (), outcome(0.1, 1), "holds", "in sign only: first +0.55 points, in the paper +4 points"),
        ((MORE,), (), outcome(-2, -0.1), "opposite", "-1.1 points"),
        ((MORE, BOTH), (), outcome(-2, -0.1), "opposite", "-1.1 points"),
        ((MORE, BOTH), (), outcome(-1, 3, p=0.3), "not visible", "the smallest detectable effect is 1"),
        ((MORE,), (), outcome(-1.9, 1.9, p=0.9), "no such effect", "less than +2 points either way"),
        ((MORE,), (), outcome(-2.1, 1.9, p=0.9), "not visible", "the paper has +4 points"),
        ((LESS,), (), outcome(-0.9, 5), "holds", ""),
        ((LESS,), (), outcome(-3, -1.1), "opposite", ""),
        ((LESS,), (), outcome(-3, 2), "not visible", "the true difference may be as large as 3"),
        ((ALIKE,), (), outcome(-0.9, 0.9), "holds", ""),
        ((ALIKE,), (), outcome(1.1, 3), "opposite", ""),
        ((MORE,), (), outcome(1, 3, learnt=False), "not learnt", "first"),
        ((MORE,), ADAPTED, outcome(1, 3, adapted=[[3.27, 2.98]]), "not adapted", "3.27 nats before adapting and 2.98"),
        ((MORE,), ADAPTED, outcome(1, 3, adapted=[[3.27, 2.96]]), "holds", ""),
        ((MORE,), ADAPTED, outcome(1, 3), "not visible", "did not record whether encoders were adapted"),
        ((MORE,), PRETRAINED, outcome(1, 3, pretrained=[[4, 6.8], [6.2, 6.8]]), "not pretrained", "6.2 nats"),
        ((MORE,), PRETRAINED, outcome(1, 3, pretrained=[[5.7, 6.8]] * 2), "holds", ""),
        ((MORE,), PRETRAINED, outcome(-3, -1), "not visible", "did not record whether encoders were pretrained"),
        ((BEYOND,), PRETRAINED, outcome(1, 3, pretrained=[[6.2, 6.8]]), "beyond two cores", "99 core-hours"),
        ((BEYOND, BOTH), (), outcome(-3, -1), "holds", "; without first, which is beyond two cores"),
        ((MORE, claims.Test("other", "first", "points")), (), outcome(1, 3), "incomplete", "first"),
    ],
)
def test_a_verdict_follows_from_the_outcome(tests, needs, stored, verdict, reason):
    claim = claims.Claim("X1", "", "", "", tests, (), "", needs=needs)
    judgement = claims.judge(claim, {"made-up": stored})
    assert judgement.verdict == verdict
    assert reason in judgement.reason


def test_holms_correction_counts_the_figures_of_a_claim():
    stored = outcome(-3, -0.1, p=0.04)
    stored["figures"]["second"] |= {"low": -1, "high": 3, "p": 0.5}
    claim = claims.Claim("X1", "", "", "", (MORE, BOTH), (), "")
    assert claims.judge(claim, {"made-up": stored}).verdict == "not visible"


def test_losses_of_another_outcome_decide_if_it_comes_from_the_same_encoder():
    claim = claims.Claim("X1", "", "", "", (MORE,), (), "", needs=ADAPTED, shown_by=("other",))
    stored = {"made-up": outcome(1, 3), "other": outcome(1, 3, adapted=[[3.0, 2.0]])}
    assert claims.judge(claim, stored).verdict == "holds"
    judgement = claims.judge(claim, stored | {"other": stored["other"] | {"encoder": "two"}})
    assert judgement.verdict == "incomplete"
    assert "made-up from one, other from two" in judgement.reason
    assert claims.judge(claim, {"made-up": stored["made-up"]}).verdict == "incomplete"


def test_an_advice_that_rests_on_another_verdict_is_left_out(monkeypatch, capsys):
    stale = claims.Advice("labels", "TAPT", {"T1": "holds"})
    monkeypatch.setattr(claims, "ADVICE", (stale, claims.Advice("time", "DAPT", {"P3": "holds"})))
    page = claims.which()
    assert "| labels |" not in page
    assert "| time | DAPT |" in page
    assert "'labels' is left out: T1 is 'not visible', not 'holds'" in capsys.readouterr().err


def test_outcomes_belong_to_a_claim_and_say_how_they_were_made():
    wanted = {(test.outcome, test.figure) for claim in ROWS for test in claim.tests}
    for path in STORED:
        stored = json.loads(path.read_text("utf-8"))
        assert {figure for name, figure in wanted if name == path.stem} & set(stored["figures"])
        assert re.fullmatch("[0-9a-f]{40}", stored["commit"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", stored["date"])
        assert stored["processor_seconds"] > 0
        assert stored["commands"]
        for each in stored["figures"].values():
            figure = claims.Figure(**each)
            assert figure.low <= figure.difference <= figure.high
        assert path.stat().st_size < 10_000
        assert not re.search(r"/(work|home|tmp|root)/", path.read_text("utf-8"))


def test_each_claim_states_before_the_run_what_could_be_seen_and_its_cost():
    assert {claim.key for claim in ROWS if any(test.planned is None for test in claim.tests)} == set()
    assert {claim.key for claim in ROWS for test in claim.tests if test.says != "more" and test.bound is None} == set()
    assert {run.out for claim in ROWS for run in claim.runs if run.hours <= 0} == set()
