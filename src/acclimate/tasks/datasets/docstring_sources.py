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
import re
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# What is taken out of a docstring: markup and doctests from every text, names of packages from the task's texts.
#
# A text that names the package it comes from can be classified without being understood. So imports, references, dotted
# names and names of packages or modules written as code become the word MASK. English stays English: "signal", "sparse
# matrix" and "optimize" are the language of the field; `signal` in backticks and "the optimize module" are names.

MASK = "package"
LINK = "link"

# a prompt and all up to the next empty line
DOCTEST = re.compile(r"^[ \t]*>>>.*\n(?:[ \t]*\S.*\n)*", re.MULTILINE)
# directives without a text, and the options of all directives
DIRECTIVE = re.compile(
    r"^[ \t]*\.\.[ ]+(?:_|(?:plot|autosummary|toctree|currentmodule|module|auto\w+|index|highlight|image|figure|"
    r"testsetup|testcode|include|contents|code|code-block|sourcecode|legacy)::).*\n"
    r"|^[ \t]+:[\w-]+:(?!`).*\n",
    re.MULTILINE,
)
# what a decorator would fill in
PLACEHOLDER = re.compile(r"%\(\w[^)\n]*\)s|^[ \t]*\{+\w+\}+[ \t]*$", re.MULTILINE)
_TITLE = r"[A-Z][\w ]{2,30}[ \t]*\n[ \t]*[-=~]{3,}[ \t]*\n"
EMPTY_SECTION = re.compile(rf"^{_TITLE}\s*(?=\Z|^{_TITLE})", re.MULTILINE)
UNDERLINE = re.compile(r"^[ \t]*([-=~*^#])\1{2,}[ \t]*\n", re.MULTILINE)

ADDRESS = re.compile(r"(?:(?:https?|ftp)://|\bwww\.)[^\s>`)\],]+(?<!\.)|:(?:doi|arxiv):`[^`]*`")
IMPORT = re.compile(
    r"^[ \t]*(?:from[ ]+[\w.]+[ ]+import\b.*"
    r"|import[ ]+[\w.]+(?:[ ]+as[ ]+\w+)?(?:[ ]*,[ ]*[\w.]+(?:[ ]+as[ ]+\w+)?)*[ \t]*)(?:\n|\Z)",
    re.MULTILINE,
)
ROLE = re.compile(r":(?!math:)[a-z]+(?::[a-z]+)?:`[^`]*`")
DOTTED = re.compile(r"~?(?<![\w.])_*[A-Za-z]\w*(?:\.[A-Za-z_]\w*)+")
AS_CODE = (
    re.compile(r"(?P<ticks>`+)(?P<name>\w+)(?P=ticks)"),
    re.compile(r"(?<![\w-])(?P<name>\w+)(?=\s+(?:(?:sub)?(?:modules?|packages?)|namespaces?|library)\b)"),
    re.compile(r"(?<=\bmodule )(?P<name>\w+)\b"),
    re.compile(r"(?<![\w-])(?P<name>_\w+)"),
)


def plain_docstring(text: str) -> str:
    """Return the text without doctests, directives to Sphinx, placeholders, underlines and empty sections."""
    text = DOCTEST.sub("", text + "\n")
    text = PLACEHOLDER.sub("", DIRECTIVE.sub("", text))
    return _tidy(UNDERLINE.sub("", EMPTY_SECTION.sub("", text)))


def masker(packages: Iterable[str], modules: Iterable[str]) -> Callable[[str], str]:
    """Return a function that masks the names in a text which `plain_docstring` has cleaned.

    packages  masked wherever they stand as a word, in any case, and in dotted names: "scipy", "np", "linalg"
    modules   masked in dotted names and as code, that is in backticks or beside the word module, package or the like:
              "optimize", "sparse". Those that begin with an underscore are masked everywhere.
    """
    packages, modules = frozenset(packages), frozenset(modules)
    names = packages | modules
    everywhere = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, sorted(packages)))})(?![\w-])", re.IGNORECASE)

    def dotted(match: re.Match[str]) -> str:
        parts = match[0].lstrip("~").split(".")
        # "norm.pdf" and "OptimizeResult.x" say whose attribute it is; "i.e.", "A.T" and "J.A.Nelder" do not
        return MASK if len(parts[0]) > 1 or not names.isdisjoint(parts) else match[0]

    def as_code(match: re.Match[str]) -> str:
        return match[0].replace(match["name"], MASK) if match["name"] in modules else match[0]

    def mask(text: str) -> str:
        text = ROLE.sub(MASK, ADDRESS.sub(LINK, IMPORT.sub("", text)))
        text = everywhere.sub(MASK, DOTTED.sub(dotted, text))
        for pattern in AS_CODE:
            text = pattern.sub(as_code, text)
        return _tidy(text)

    return mask


def _tidy(text: str) -> str:
    """Return the text without spaces at line ends, and with at most one empty line between paragraphs."""
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)).strip()


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
def pause_collector() -> Iterator[None]:
    """In the block, Python does not search for reference cycles. Syntax trees have none, but so many nodes that the
    search takes a sixth of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def version(package: str) -> str | None:
    """Return the installed version of a package by its import name; None where it is not installed."""
    if package == STANDARD_LIBRARY:
        return platform.python_version()
    spec = importlib.util.find_spec(package)
    if spec is None:
        return None
    return importlib.metadata.version(DISTRIBUTIONS.get(package, package))


def read_docstrings(package: str, *, without: tuple[str, ...] = ()) -> Iterator[Docstring]:
    """Yield the docstrings of an installed package in the order of its file names, modules beginning with `without`
    left out.

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
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ValueError(
                f"the package {package!r} is not installed; `pip install {DISTRIBUTIONS.get(package, package)}`"
            )
        roots = [Path(spec.submodule_search_locations[0])]
        root = roots[0].parent
    for top in roots:
        for file in sorted(top.rglob("*.py")) if top.is_dir() else [top]:
            parts = file.relative_to(root).with_suffix("").parts
            if SKIPPED.isdisjoint(parts):
                yield ".".join(parts).removesuffix(".__init__"), file


def _parsed(file: Path) -> ast.Module:
    """Return the file's syntax tree; an empty one where the file is for another version of Python than this one."""
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
    """Yield what a call such as `add_newdoc("ellipj", "...")` documents; nothing where the value is no such call."""
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
    """Return the text of an expression: a constant, `"...".format(...)`, a sum of these, or the last of a tuple."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _string(node.func.value)
    if isinstance(node, ast.BinOp):
        return _string(node.left) + _string(node.right)
    if isinstance(node, ast.Tuple) and node.elts:
        return _string(node.elts[-1])
    return ""
