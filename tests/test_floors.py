"""The house (docs/architecture.md): imports go down only, and two wings on one floor do not see each other; folders
stay small; a test stands in the folder of the module that it tests.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
WINGS = (  # of each floor
    ("core",),
    ("models", "text"),
    ("training", "tasks"),
    ("methods", "reading"),
    ("jobs", "statistics"),
    ("reports",),
    ("data",),
    ("races",),
    ("studies", "analyses", "shipping"),
    ("api",),
    ("cli",),
    ("__main__", "on_ray"),
)
FLOORS = {"__version__": -1} | {wing: floor for floor, wings in enumerate(WINGS) for wing in wings}
MODULES = 20  # of a folder
TESTS = Path(__file__).parent
OF_SEVERAL = {  # test modules that test no single module of their folder
    "cli/test_bad_commands.py": "each verb refuses faulty settings and files in one line",
    "cli/test_bad_input.py": "each reader of files, as each verb calls it",
    "methods/test_conformance.py": "each value of METHODS",
    "methods/test_sentence_modules.py": "models/sentence_modules.py, through each value of METHODS",
    "methods/test_pages.py": "docs/methods",
    "studies/test_conformance.py": "each study of STUDIES",
    "studies/test_recipes_of_studies.py": "the recipe of each study",
}
REPORT = ["acclimate." + name for name in ("statistics.significance", "reports.table", "reports.plots", "races.report")]


def module_name(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(file): file for file in sorted(SOURCE.rglob("*.py"))}


def imports(module: str, nodes: Iterator[ast.AST]) -> Iterator[str]:
    """Full names of what these nodes import, `from a import b` as a.b; relative ones resolved."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".") if FILES[module].name == "__init__.py" else module.split(".")[:-1]
            base = package[: len(package) - node.level + 1] if node.level else []
            base = [*base, *(node.module or "").split(".")] if node.module else base
            yield from (".".join([*base, alias.name]) for alias in node.names)


def on_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: bodies of functions and `if TYPE_CHECKING` do not."""
    for node in ast.iter_child_nodes(tree):
        lazy = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if not lazy and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from on_import(node)


def in_functions_too(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            yield node
            yield from in_functions_too(node)


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or through others: Tarjan's strongly connected components."""
    number, lowest, stack, groups = {}, {}, [], []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in edges[module]:
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                groups.append(sorted(group))

    for module in edges:
        if module not in number:
            visit(module)
    return groups


@cache
def imported(module: str) -> tuple[set[str], ...]:
    """What it imports anywhere, but for a type checker, and as it is imported itself."""
    tree = ast.parse(FILES[module].read_text("utf-8"))
    return tuple({*imports(module, nodes)} for nodes in (ast.walk(tree), in_functions_too(tree), on_import(tree)))


def loaded(name: str, seen: set[str]) -> set[str]:
    """`seen` and all that importing `name` loads: the packages on its way, and what acclimate's modules import."""
    parts = name.split(".")
    for prefix in (".".join(parts[:end]) for end in range(1, len(parts) + 1)):
        if prefix not in seen:
            seen.add(prefix)
            if prefix in FILES:
                for other in imported(prefix)[2]:
                    loaded(other, seen)
    return seen


def test_imports_go_down_only():
    wrong = []
    for module in FILES.keys() - {"acclimate"}:
        wing = module.split(".")[1]
        for name in imported(module)[0]:
            root, target, *_ = [*name.split("."), "itself"]
            # its public names may come from any floor, so they are for the command line; __version__ is for all
            if root == "acclimate" and target != wing and FLOORS.get(target, len(WINGS)) >= FLOORS[wing]:
                wrong.append(f"{module} ({wing}) must not import {name} ({target})")
    assert not wrong


def test_no_modules_import_each_other_in_a_circle():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}}) == [["b", "c"]]
    edges = {}
    for module in FILES:
        edges[module] = {
            name if name in FILES else name.rpartition(".")[0] for name in imported(module)[1]
        } & FILES.keys()
    del edges["acclimate"]  # whose public names are imported when they are used
    assert circles({module: others - {"acclimate"} for module, others in edges.items()}) == []


@pytest.mark.parametrize("module", REPORT)
def test_report_loads_neither_torch_nor_transformers(module):
    assert module in FILES, f"{module} is gone: name the modules that make a report in REPORT"
    assert loaded(module, set()) & {"torch", "transformers"} == set()


def test_no_folder_has_more_modules_than_a_reader_can_hold():
    for folder in {file.parent for file in FILES.values()}:
        modules = [file.stem for file in folder.glob("*.py") if file.stem != "__init__"]
        assert len(modules) <= MODULES, f"{folder.relative_to(SOURCE)} has {len(modules)} modules"


def test_a_test_module_is_named_for_the_module_that_it_tests():
    """test_NAME.py or test_NAME_ASPECT.py, in the folder of the tests that NAME.py has in src/acclimate."""
    tests = [file.relative_to(TESTS) for file in sorted(TESTS.rglob("test_*.py")) if file.parent != TESTS]
    assert len(tests) > 100
    for file in tests:
        modules = {module.stem for module in (SOURCE / "acclimate" / file.parent).glob("*.py")} - {"__init__"}
        words = file.stem.removeprefix("test_").split("_")
        named = {"_".join(words[:end]) for end in range(1, len(words) + 1)} & modules
        assert named or str(file) in OF_SEVERAL, f"{file} names no module of {file.parent}"


def test_test_modules_of_several_modules_exist():
    assert all((TESTS / name).is_file() for name in OF_SEVERAL)
