"""Names are nouns, and functions are named for what they do or return: the lint of CONTRIBUTING's rules on names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "acclimate"
# They say how a value came to be, not what it is.
NO_NOUNS = {"stated", "each", "found", "given", "made", "shown", "told", "asked", "left"}
WRITTEN = {  # fields of values that runs have on disk, or that --json prints
    "data/examination.py": {"found"},
    "data/published.py": {"stated", "found"},
    "races/compare.py": {"shown"},
    "races/design.py": {"shown"},
    "races/outcome.py": {"shown", "given"},
    "races/work.py": {"stated"},
}
# `as_text`, `from_toml`, `to_json`, `with_steps` and `without_paths` are idioms.
PREPOSITIONS = {"of", "in", "by", "at", "on", "over", "under", "beside", "per", "into", "between", "among", "across"}
EXCEPTIONS = {"on_gradients", "on_update", "by_dataset"}  # hooks of the loop, and a setting


def variables(tree: ast.AST) -> Iterator[str]:
    """Names that are assigned to, and parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def test_variables_and_parameters_are_nouns():
    assert {*variables(ast.parse("def f(given): _each = 1; return [found for found in given]"))} == {
        "given",
        "_each",
        "found",
    }
    wrong = {}
    for file in sorted(SOURCE.rglob("*.py")):
        place = file.relative_to(SOURCE).as_posix()
        names = {name.strip("_") for name in variables(ast.parse(file.read_text("utf-8")))} & NO_NOUNS
        if names - WRITTEN.get(place, set()):
            wrong[place] = names
    assert not wrong


def test_no_function_is_named_for_a_preposition():
    wrong = [
        f"{file.relative_to(SOURCE)}: {node.name}"
        for file in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
        and node.name.strip("_").partition("_")[0] in PREPOSITIONS
        and node.name not in EXCEPTIONS
    ]
    assert not wrong
