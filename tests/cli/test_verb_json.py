"""`--json` prints one JSON document on standard output, and nothing else there; its keys are those of docs/json.md."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import toys
from acclimate import cli

PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")


def printed(*arguments: str | Path, status: int = 0) -> dict:
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def keys_of(verb: str) -> set[str]:
    """The keys that the page lists for a verb."""
    section = PAGE[PAGE.index(f"## `{verb}") :].split("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE))


def test_doctor(toy_inputs):
    files = [f"{toy_inputs}/train.jsonl", "--dev", f"{toy_inputs}/dev.jsonl", "--test", f"{toy_inputs}/test.jsonl"]
    found = printed("doctor", *files, "--json")
    assert found.keys() == keys_of("acclimate doctor")
    assert found["in_order"] is True
    assert [Path(file["path"]).name for file in found["files"]] == ["train.jsonl", "dev.jsonl", "test.jsonl"]
    assert all(finding["level"] != "error" for finding in found["findings"])


def test_the_dry_run_of_a_race(toy_race):
    left = printed(*toys.race_command(toy_race.inputs, toy_race.run), "--dry-run", "--json")
    assert left.keys() == keys_of("--dry-run")
    assert left["jobs_left"] == 0 < left["jobs_done"]
    assert left["seconds"] == 0
    assert {line["label"] for line in left["lines"]} >= {"untouched", "TAPT", "DAPT", "TF-IDF"}


def test_the_dry_runs_of_an_evaluation_and_of_a_study(toy_race, tmp_path):
    files = [f"{toy_race.inputs}/train.jsonl", "--dev", f"{toy_race.inputs}/dev.jsonl"]
    files += ["--test", f"{toy_race.inputs}/test.jsonl", "--dry-run", "--json", "--out", tmp_path / "run"]
    verbs = (["evaluate", toy_race.base], ["study", "dga"])
    options = ([], ["--model", toy_race.base, "--corpus", f"{toy_race.inputs}/domain.txt"])
    for verb, more in zip(verbs, options, strict=True):
        left = printed(*verb, *files, *more, *(["--general", toy_race.inputs / "general.txt"] if more else []))
        assert left.keys() == keys_of("--dry-run")
        assert left["jobs_left"] > 0 == left["jobs_done"]


def test_a_race_prints_one_document_at_its_end(toy_race, tmp_path):
    run = shutil.copytree(toy_race.run, tmp_path / "run")
    found = printed(*toys.race_command(toy_race.inputs, run), "--json")
    assert found["directory"] == str(run)
    assert [study.keys() for study in found["studies"]] == [keys_of("acclimate report")]


def test_report(toy_race, tmp_path):
    found = printed("report", toy_race.run, "--json")
    assert found["directory"] == str(toy_race.run)
    [race] = found["studies"]
    assert race.keys() == keys_of("acclimate report")
    assert {race["use"], race["encoder"]} <= {row["contestant"] for row in race["rows"]}
    with open(toy_race.run / "table.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["contestant"] for row in race["rows"]] == [row["contestant"] for row in rows]
    assert [row["mean"] for row in race["rows"]] == [float(row["mean"]) for row in rows]
    assert race["rows"][0]["scores"] == [float(score) for score in rows[0]["scores"].split()]


def test_study_status(toy_race):
    found = printed("study", "status", toy_race.run, "--json")
    assert found.keys() == keys_of("acclimate study status")
    assert found["counts"] == {"done": len(found["jobs"])}
    assert {job["state"] for job in found["jobs"]} == {"done"}
    assert found["jobs"][0].keys() == {"study", "name", "label", "state", "seconds", "detail"}


def test_a_refusal_prints_nothing_on_standard_output(tmp_path):
    result = CliRunner().invoke(cli.app, ["doctor", str(tmp_path / "nowhere.csv"), "--json"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "there is no such file" in result.stderr


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_become_null(number, capsys):
    from rich.console import Console

    from acclimate.cli.verb import Session

    Session(Console(), {}).give({"loss": number, "rows": [(1, number)]})
    assert json.loads(capsys.readouterr().out) == {"loss": None, "rows": [[1, None]]}
