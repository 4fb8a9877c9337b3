"""The pages agree with the repository: links resolve, files and functions exist, settings are all there."""

import ast
import dataclasses
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from acclimate.analyses import vocabularies
from acclimate.core.settings import to_mapping
from acclimate.data import retrieve
from acclimate.methods import METHODS, baselines
from acclimate.race import recipe
from acclimate.race.budget import ADAPTED
from acclimate.studies import blurb, choices, dga, stilt, tapter, tlm
from acclimate.text import preparation
from acclimate.text.vectors.vectors import Skipgram
from acclimate.training.plan import Plan

RACED = ("finetune", "tlm", *ADAPTED)  # groups of a race that have a plan
ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(file for folder in ("docs", "benchmarks") for file in (ROOT / folder).rglob("*.md"))]
)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
RECIPES: dict[str, Any] = {**{name: method.recipe for name, method in METHODS.items()}, "tfidf": baselines.TfidfRecipe}
RECIPES |= {
    "retrieve": retrieve.RetrieveRecipe,
    "corpus": preparation.CorpusRecipe,
    "grid": tlm.TlmStudyRecipe,
    "choices": choices.ChoicesRecipe,
    "grid tapter": tapter.TapterStudyRecipe,
    "grid dga": dga.DgaStudyRecipe,
    "grid stilt": stilt.StiltStudyRecipe,
    "blurb": blurb.BlurbRecipe,
    "vocabulary": vocabularies.VocabularyRecipe,
}
RECIPES |= {"skipgram": Skipgram, "race": recipe.RaceRecipe, "search": recipe.Search, "Plan": Plan}


@cache
def prose(page: Path) -> str:
    """The page without code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """GitHub's anchors of a page's headings."""
    titles = re.findall(r"^#+ +(.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_relative_links_resolve(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            assert file.exists(), target
            assert not anchor or anchor in anchors(file), target


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_files_and_functions_that_a_page_names_exist(page):
    text = page.read_text(encoding="utf-8")
    for path, name in re.findall(r"\b((?:src|tests|recipes|examples)/[\w./-]*\.(?:py|toml|html))(?:::([\w.]+))?", text):
        if "NAME" in path:  # of a file to be
            continue
        assert (ROOT / path).is_file(), path
        if name:
            assert name in defined(ROOT / path), f"{path}::{name}"


@cache
def defined(file: Path) -> set[str]:
    """Functions, classes, methods (as `Class.method`) and values that a module defines."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
            names |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize("name", RECIPES)
def test_every_setting_is_on_the_page_with_its_default(name):
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, f"docs/settings.md lacks the section {name}"
    rows = dict(re.findall(r"^\| `(\w+)` \| (?:[^|]*) \| ([^|]*?) *\|", section[1], re.MULTILINE))
    assert rows == {field.name: default(RECIPES[name](), field) for field in dataclasses.fields(RECIPES[name])}


def default(stated: Any, field: dataclasses.Field[Any]) -> str:
    """As the page writes it: nothing for a group and for what must be given, else the value as TOML."""
    value = getattr(stated, field.name)
    if value is None:
        return "none"
    if dataclasses.is_dataclass(value) or value in ("", Path()):
        return ""
    return f"`{json.dumps(to_mapping(stated)[field.name])}`"


def test_the_plans_of_the_recipes_are_on_the_page():
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    whole = recipe.RaceRecipe()
    plans = {name: method.recipe().plan for name, method in METHODS.items() if hasattr(method.recipe(), "plan")}
    plans |= {f"race: {name}": getattr(whole, name).plan for name in RACED}
    for name, plan in plans.items():
        named = {key: getattr(plan, key) for key in ("steps", "batch", "rate", "warmup", "weight_decay", "clip")}
        assert f"| {name} | {' | '.join(map(str, named.values()))} |" in text
        assert plan == dataclasses.replace(Plan(), **named), f"{name} differs in more than the table has columns for"


def test_every_method_has_a_page():
    assert {page.stem for page in (ROOT / "docs" / "methods").glob("*.md")} == {*METHODS, "tfidf"}
