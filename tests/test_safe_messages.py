"""What the command line says shows nothing of a user's that a terminal would obey."""

import pytest
import typer

from acclimate.cli import verb
from acclimate.data.examination import Examination, Finding

HOSTILE = "\x1b]0;owned\x07\x9b2J\u202egpj.exe\u2066"


def fit(said: str) -> bool:
    return all(character == "\n" or character.isprintable() for character in said)


def test_an_error_shows_escapes_and_keeps_its_lines(capsys):
    with pytest.raises(typer.Exit) as end, verb.errors_printed():
        raise ValueError(f"label {HOSTILE} is odd\nand a second thing is wrong")
    said = capsys.readouterr().err
    assert end.value.exit_code == 2
    assert fit(said)
    assert said.splitlines() == [
        r"acclimate: label \x1b]0;owned\x07\x9b2J\u202egpj.exe\u2066 is odd",
        "and a second thing is wrong",
    ]


def test_findings_told_before_a_race_show_escapes(capsys):
    nothing = {"files": (), "splits": {}, "label_counts": {}, "quantiles": {}, "pieces": (), "corpora": ()}
    findings = (Finding("warning", f"'{HOSTILE}' is rare.", f"Add {HOSTILE}."), Finding("note", "Little."))
    examined = Examination(task={}, lengths=None, leaks=(), copies=(), leaked={}, findings=findings, **nothing)
    with verb.screen() as console:
        verb.Session(console, {}).tell_findings(examined)
    captured = capsys.readouterr()
    said = captured.out + captured.err
    assert fit(said)
    assert r"doctor: '\x1b]0;owned" in said
    assert "Little" not in said
