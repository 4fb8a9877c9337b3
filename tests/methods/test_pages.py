"""docs/methods: a page points to the docstring with the readings of its method, and its examples fit the package."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

from acclimate.methods import METHODS

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "methods").glob("*.md"))
EXAMPLES = [
    (f"{page.name}-{number}", block)
    for page in (*PAGES, ROOT / "docs" / "shipping.md")
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S))
]


@pytest.mark.parametrize("name", METHODS)
def test_readings_and_deviations_stand_in_the_docstring_alone(name):
    page = (ROOT / "docs" / "methods" / f"{name}.md").read_text("utf-8")
    assert not re.search(r"^#+ (Readings|Deviations)", page, re.M)
    [module] = re.findall(rf"`python -m pydoc (acclimate\.methods\.(?:\w+\.)?{name})`", page)
    about = importlib.import_module(module).__doc__ or ""
    assert re.search(r"^Readings", about, re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_when_to_use_the_method_and_how_to_run_it(page):
    titles = re.findall(r"^## (.+)$", page.read_text("utf-8"), re.M)
    assert titles[:2] == ["When to use it", "Run it"]


@pytest.mark.parametrize("code", [code for _, code in EXAMPLES], ids=[name for name, _ in EXAMPLES])
def test_an_example_calls_what_there_is_with_parameters_that_there_are(code):
    tree, known = ast.parse(code), {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
                known[alias.asname or alias.name] = getattr(module, alias.name)
    checked = 0
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if (called := resolved(call.func, known)) is not None:
            inspect.signature(called).bind(*call.args, **{word.arg: None for word in call.keywords if word.arg})
            checked += 1
    assert checked, "the example calls nothing that it imports"


def resolved(node: ast.expr, known: dict[str, object]) -> object | None:
    """What the expression names; None where it is no imported name or attribute of one."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := resolved(node.value, known)) is not None:
        return getattr(owner, node.attr)
    return None
