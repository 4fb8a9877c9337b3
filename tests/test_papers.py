"""docs/papers.md: every row's command parses, its recipes and report are there, and no recipe or study is forgotten."""

import importlib.util
import shlex
import sys
from pathlib import Path

import pytest
import typer

from acclimate.cli import app
from acclimate.cli.verb import check_settings
from acclimate.core.settings import recipe_names
from acclimate.studies import STUDIES

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("papers", ROOT / "docs" / "papers.py")
papers = sys.modules["papers"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(papers)
ROWS = [row for rows in papers.PAPERS.values() for row in rows]


def test_the_page_is_what_the_script_writes():
    """Where this fails: python docs/papers.py."""
    assert papers.PAGE.read_text("utf-8") == papers.page()


@pytest.mark.parametrize("command", sorted({command for row in ROWS for command in row.commands}))
def test_each_command_parses_with_its_settings_and_recipe(command):
    place, words, path = typer.main.get_command(app), shlex.split(command), []
    while hasattr(place, "commands"):
        path.append(words.pop(0))
        place = place.commands[path[-1]]
    given = place.make_context(path[-1], words).params
    recipe = str(given.get("recipe") or "")
    assert recipe in {"", *recipe_names()}
    if path == ["adapt"]:
        assert recipe.partition("/")[0] == given["method"]
    elif given.get("assignments"):
        assert check_settings(" ".join(path), given) is not None


def test_recipes_and_reports_of_the_rows_are_there_and_every_recipe_and_study_stands_in_a_row():
    stated = {recipe for row in ROWS for recipe in row.recipes}
    assert stated == set(recipe_names())
    commands = [command.split() for row in ROWS for command in row.commands]
    assert {words[1] for words in commands if words[0] == "study"} == set(STUDIES)
    reports = {row.report for row in ROWS if row.report}
    assert {report for report in reports if not (ROOT / "benchmarks" / "reports" / report).is_file()} == set()
    assert {row.item for row in ROWS if (row.state == papers.SMALL) != bool(row.report)} == set()
