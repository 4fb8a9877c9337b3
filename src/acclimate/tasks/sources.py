"""Docstrings of installed packages, read from their sources with `ast`: nothing is imported or run.

Besides the docstrings of modules, classes and functions there are those that NumPy, SciPy and PyTorch attach to
compiled functions by a call: `add_newdoc("name", "...")`, `_add_docstr(function, "...")`.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib.metadata
import importlib.util
import inspect
import platform
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

STANDARD_LIBRARY = "python"
# tests, generated or vendored code, and what distributions of Python package apart
SKIPPED = frozenset(
    {"tests", "test", "testing", "_testing", "conftest", "_lib", "distutils", "ensurepip", "idlelib", "lib2to3"}
    | {"_vendor", "_vendored", "vendor", "externals", "_external", "extern", "tkinter", "turtledemo"}
)
# import name -> name in the package index, where they differ
DISTRIBUTIONS = {"sklearn": "scikit-learn", "PIL": "pillow", "dateutil": "python-dateutil"}
ATTACHING = frozenset({"add_newdoc", "add_docstr", "_add_docstr", "add_docstr_all"})


@dataclass(frozen=True, slots=True)
class Docstring:
    """One docstring, cleaned of its indentation (`inspect.cleandoc`).

    package  "scipy", or STANDARD_LIBRARY
    module   the dotted name of the file: "scipy.stats._covariance"
    name     what it documents, dotted, beginning with the module
    """

    package: str
    module: str
    name: str
    text: str


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """No search for reference cycles: syntax trees have none and many nodes, so it costs a sixth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def version(package: str) -> str | None:
    """The installed version of a package by its import name; None where it is not installed."""
    if package == STANDARD_LIBRARY:
        return platform.python_version()
    found = importlib.util.find_spec(package)
    if found is None:
        return None
    return importlib.metadata.version(DISTRIBUTIONS.get(package, package))


def docstrings(package: str, *, without: tuple[str, ...] = ()) -> Iterator[Docstring]:
    """The docstrings of an installed package in the order of its file names, modules beginning with `without` left out.

    Raises ValueError where the package is not installed.
    """
    for module, file in _files(package):
        if not any(module == prefix or module.startswith(f"{prefix}.") for prefix in without):
            for name, text in _documented(_parsed(file), module):
                cleaned = inspect.cleandoc(text)
                if cleaned:
                    yield Docstring(package, module, name, cleaned)


def _files(package: str) -> Iterator[tuple[str, Path]]:
    """Dotted module name and file of each Python source of a package."""
    if package == STANDARD_LIBRARY:
        root = Path(sysconfig.get_path("stdlib"))
        tops = sorted(name for name in sys.stdlib_module_names if name not in SKIPPED)
        roots = [path for name in tops for path in (root / name, root / f"{name}.py") if path.exists()]
    else:
        found = importlib.util.find_spec(package)
        if found is None or not found.submodule_search_locations:
            raise ValueError(
                f"the package {package!r} is not installed; `pip install {DISTRIBUTIONS.get(package, package)}`"
            )
        roots = [Path(found.submodule_search_locations[0])]
        root = roots[0].parent
    for top in roots:
        for file in sorted(top.rglob("*.py")) if top.is_dir() else [top]:
            parts = file.relative_to(root).with_suffix("").parts
            if SKIPPED.isdisjoint(parts):
                yield ".".join(parts).removesuffix(".__init__"), file


def _parsed(file: Path) -> ast.Module:
    """The file's syntax tree; an empty one where the file is for another version of Python than this one."""
    with warnings.catch_warnings():
        # invalid escapes such as "\d" in somebody else's source
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return ast.parse(file.read_bytes())
        except SyntaxError:
            return ast.Module(body=[], type_ignores=[])


def _documented(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    """Dotted name and docstring of this node and all within, in source order."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node, clean=False)
        if text:
            yield name, text
    for part in ("body", "handlers", "orelse", "finalbody"):
        for statement in getattr(node, part, ()):
            if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _documented(statement, f"{name}.{statement.name}")
            elif isinstance(statement, ast.Expr | ast.Assign):
                yield from _attached(statement.value, name)
            elif hasattr(statement, "body"):
                yield from _documented(statement, name)


def _attached(value: ast.expr, name: str) -> Iterator[tuple[str, str]]:
    """What a call such as `add_newdoc("ellipj", "...")` documents; nothing where the value is no such call."""
    if not isinstance(value, ast.Call):
        return
    if isinstance(value.func, ast.Name) and value.func.id in ATTACHING and len(value.args) >= 2:
        *objects, text = value.args
        labels = [str(item.value) if isinstance(item, ast.Constant) else ast.unparse(item) for item in objects]
        for number, item in enumerate(text.elts if isinstance(text, ast.List) else [text]):
            described = _string(item)
            if described:
                yield ".".join([name, *labels, *([str(number)] if number else [])]), described


def _string(node: ast.AST) -> str:
    """The text of a string expression: a constant, `"...".format(...)`, a sum of these, or the last of a tuple."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _string(node.func.value)
    if isinstance(node, ast.BinOp):
        return _string(node.left) + _string(node.right)
    if isinstance(node, ast.Tuple) and node.elts:
        return _string(node.elts[-1])
    return ""
