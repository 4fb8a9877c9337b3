"""docs/papers.md: every row's command parses, its recipes and report are there, and no recipe or study is forgotten."""

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer

from acclimate.api.checks import check_settings
from acclimate.api.settings import schema
from acclimate.cli import app
from acclimate.core.settings import recipe_names
from acclimate.studies import STUDIES

ROOT = Path(__file__).parents[1]


def loaded(name: str) -> ModuleType:
    """Return a script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


papers, claims = loaded("papers"), loaded("claims")
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
        needed = schema()["names"][given["method"]]["needs"]
        stated = {each.partition("=")[0] for each in given["assignments"] or ()}
        assert {name for name in needed if name in ("corpus", "task", "tasks")} <= stated
    elif given.get("assignments"):
        assert check_settings(" ".join(path), given) is not None


def test_recipes_and_reports_of_the_rows_are_there_and_every_recipe_and_study_stands_in_a_row():
    stated = {recipe for row in ROWS for recipe in row.recipes}
    assert stated == set(recipe_names())
    commands = [command.split() for row in ROWS for command in row.commands]
    assert {words[1] for words in commands if words[0] == "study"} == set(STUDIES)
    reports = {row.report for row in ROWS if row.report}
    assert {report for report in reports if not (ROOT / "benchmarks" / "reports" / report).is_file()} == set()
    assert {row.item for row in ROWS if row.shown == papers.SMALL and not (row.report or row.measured)} == set()
    assert {row.item for row in ROWS if row.shown == papers.NOT_RUN and (row.report or row.measured)} == set()


def test_each_claim_has_a_row_which_is_small_if_the_claim_was_measured():
    """So no row is called not run while docs/claims.md has an outcome of it."""
    ours = [claim for rows in claims.CLAIMS.values() for claim in rows]
    assert {key for row in ROWS for key in row.claims} == {each.key for each in ours}
    assert {key for row in ROWS for key in row.measured} == papers.measured_claims()
    assert {row.item for row in ROWS if row.measured and row.shown == papers.NOT_RUN} == set()


@pytest.mark.parametrize(
    ("paper", "tables", "figures"),
    [
        ("TLM", [*range(1, 11), "A.1", "A.2", "B.1"], [1, 2, 3, "C.1", "C.2"]),
        ("DGA", range(1, 6), [1]),
        ("TAPTER", range(1, 6), range(1, 6)),
        ("PubMedBERT", range(1, 13), [1, 2]),
        ("STILT", range(1, 4), []),
    ],
)
def test_every_table_and_figure_of_a_paper_has_a_row(paper, tables, figures):
    [rows] = [rows for title, rows in papers.PAPERS.items() if title.startswith(paper)]
    items = " ".join(row.item for row in rows)
    for kind, numbers in (("Table", tables), ("Figure", figures)):
        listed = " ".join(re.findall(rf"{kind} ([A-C\d., ]+)", items))
        assert set(re.findall(r"[A-C]?\.?\d+", listed)) == {str(number) for number in numbers}


def test_squad_alone_has_the_epochs_of_tapters_tables_4_and_5_on_every_page():
    page = (ROOT / "docs" / "methods" / "tapter.md").read_text("utf-8")
    texts = [papers.page(), page]
    commands = [found for text in texts for found in re.findall(r"study tapter ['\"]SQuAD 1\.1['\"][^`\n]*", text)]
    assert commands
    for command in commands:
        assert {"finetune.epochs=5", "tapter.skipgram.min_count=5", "tapter.skipgram.epochs=5"} <= {*command.split()}
