"""Runs that an earlier commit made (tests/golden): today's code finds nothing to do there, and the same tables."""

import csv
import json
import math
import re
import runpy
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from acclimate import cli
from acclimate.jobs import job

GOLDEN = Path(__file__).parent / "golden"
COMMANDS = runpy.run_path(str(GOLDEN / "make.py"))["COMMANDS"]
TABLES = {"race": ("table.txt", "table.csv"), "dga": ("dga.txt", "dga.csv")}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the directory in which the runs were made."""
    copy = shutil.copytree(GOLDEN / "run", tmp_path / "run")
    for lock in copy.glob("*/study.lock.json"):
        lock.write_text(lock.read_text().replace("PLACE", str(copy)))
    monkeypatch.chdir(copy)
    # with other versions of Python and of packages all jobs would rightly be done again
    versions = json.loads(next(copy.glob("race/jobs/*/job.json")).read_text())["versions"]
    monkeypatch.setattr(job, "_versions", lambda: versions)
    return copy


def call(*arguments: str) -> str:
    """What the command prints."""
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def results(run: Path) -> dict[Path, tuple[int, bytes]]:
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in run.glob("jobs/*/result.json")}


def alike(found: str, expected: str) -> bool:
    """Cells of a CSV: the same, but for the last bit of a number, which another processor may round otherwise."""
    try:
        return found == expected or math.isclose(float(found), float(expected), rel_tol=1e-12)
    except ValueError:
        return False


@pytest.mark.parametrize("name", COMMANDS)
def test_there_is_nothing_to_do(place, name):
    said = " ".join(call(*COMMANDS[name], "--dry-run").split())
    assert re.search(r"\b0 jobs are left, [1-9]\d* are done", said), said
    before = results(place / name)
    assert len(before) >= 8
    call(*COMMANDS[name])
    assert results(place / name) == before


@pytest.mark.parametrize("name", COMMANDS)
def test_its_state_is_known_and_its_results_are_those_of_the_lock(place, name):
    assert f"{len(results(place / name))} done" in call("study", "status", name)
    assert f"All results agree with {name}/study.lock.json." in call("study", "verify", name)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_same_tables_are_written_again(place, name):
    text, sheet = ((GOLDEN / "run" / name / table).read_text(encoding="utf-8") for table in TABLES[name])
    for table in TABLES[name]:
        (place / name / table).unlink()
    call(*(("report", name) if name == "race" else ("study", "regenerate", name)))
    text_again, sheet_again = ((place / name / table).read_text(encoding="utf-8") for table in TABLES[name])
    assert re.findall(r"[\d.,]*\d", text_again) == re.findall(r"[\d.,]*\d", text), "the words may change"
    rows, rows_again = (list(csv.reader(each.splitlines())) for each in (sheet, sheet_again))
    for again, row in zip(rows_again, rows, strict=True):
        assert all(alike(*pair) for pair in zip(again, row, strict=True)), (again, row)
