"""Names are nouns, and functions are named for what they do or return: the lint of CONTRIBUTING's rules on names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "acclimate"
# They say how a value came to be, not what it is.
NO_NOUNS = {"stated", "each", "found", "given", "made", "shown", "told", "asked", "left"}
WRITTEN = {  # fields of values that runs have on disk, or that --json prints
    "data/examination.py": {"found"},
    "reading/published.py": {"stated", "found"},
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


@cache
def names_of_modules() -> dict[str, tuple[set[str], set[str]]]:
    """Module -> names of variables and parameters, and of functions."""
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        found[file.relative_to(SOURCE).as_posix()] = ({*variables(tree)}, functions)
    return found


def test_variables_and_parameters_are_nouns():
    assert {*variables(ast.parse("def f(given): _each = 1; [found for found in given]"))} == {"given", "_each", "found"}
    found = {place: {name.strip("_") for name in names} & NO_NOUNS for place, (names, _) in names_of_modules().items()}
    assert not {place: names for place, names in found.items() if names - WRITTEN.get(place, set())}


def test_no_function_is_named_for_a_preposition():
    found = [(place, name) for place, (_, names) in names_of_modules().items() for name in names - EXCEPTIONS]
    assert len(found) > 1000
    assert not [(place, name) for place, name in found if name.strip("_").partition("_")[0] in PREPOSITIONS]
