"""Names are nouns, functions are named for what they do, nothing outside methods/ names a method; public names."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import acclimate
from acclimate.methods import METHODS
from acclimate.races.recipe import chains_of, contestants_of
from acclimate.studies import STUDIES

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


def test_variables_and_parameters_are_nouns_and_no_function_is_named_for_a_preposition():
    assert {*variables(ast.parse("def f(given): _each = 1; [found for found in given]"))} == {"given", "_each", "found"}
    found = {place: {name.strip("_") for name in names} & NO_NOUNS for place, (names, _) in names_of_modules().items()}
    assert not {place: names for place, names in found.items() if names - WRITTEN.get(place, set())}
    found = [(place, name) for place, (_, names) in names_of_modules().items() for name in names - EXCEPTIONS]
    assert len(found) > 1000
    assert not [(place, name) for place, name in found if name.strip("_").partition("_")[0] in PREPOSITIONS]


# The studies of the papers compare named methods; reading/datasets/ has the datasets of a paper under the paper's name.
PAPERS = ("methods", "studies", "reading/datasets")
# What every race does, whichever methods take part:
STAGES = {
    "finetune",  # every contestant is fine-tuned and tested
    "mlm",  # models are compared by their held-out loss of masked language modelling, and costs counted in its passes
    "scratch",  # where no model is given, a small encoder is pretrained
}
PARTS = {"adapter", "prompt", "extend"}  # also parts of an encoder that models/ has words for, and what a search does
NAMES = {*contestants_of(METHODS), *chains_of(METHODS), *METHODS} - PARTS - STAGES
# Where a word such as `tlm` names a paper's study or its datasets; all other names of methods are looked for there too.
STUDIES_NAMED = ("cli/", "reading/published.py")
ADVICE = re.compile(r"acclimate adapt \w+")  # a message may say which command to type


def files() -> list[str]:
    found = (str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py"))
    return sorted(path for path in found if not path.startswith(PAPERS))


def named_in(tree: ast.AST, names: set[str]) -> list[str]:
    """Strings of the code, but for docstrings, that name a contestant or a method."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    described = [node for node in ast.walk(tree) if isinstance(node, documented) and ast.get_docstring(node)]
    docstrings = {statement.value for node in described if isinstance(statement := node.body[0], ast.Expr)}
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    word = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b")
    return [node.value for node in strings if node not in docstrings and word.search(ADVICE.sub("", node.value))]


def test_no_other_room_names_a_method():
    found = []
    for file in files():
        tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
        found += [
            (file, name) for name in named_in(tree, NAMES - STUDIES.keys() if file.startswith(STUDIES_NAMED) else NAMES)
        ]
        imported: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "acclimate.methods":
                imported |= {name.name for name in node.names} & METHODS.keys()
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("acclimate.methods."):
                imported |= {str(node.module).split(".")[2]} & METHODS.keys()
        found += [(file, name) for name in imported - STAGES]
    assert not found


def test_no_shared_code_asks_which_method_or_work_it_is_or_reads_a_label():
    rooms = ("races/", "jobs/", "cli/", "reports/", "data/", "shipping/", "analyses/")
    shared = [*(file for file in files() if file.startswith(rooms)), "studies/__init__.py"]
    assert len(shared) > 60
    found = []
    for file in shared:
        for node in ast.walk(ast.parse((SOURCE / file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                compared = node.comparators[0]
                named = isinstance(compared, ast.Constant) and compared.value in METHODS.keys() | NAMES
                wrong = named or any(map(_of_a_job, (node.left, *node.comparators)))
            else:
                of_class = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
                wrong = of_class and "Recipe" in ast.unparse(node.args[1])
            found += [(file, ast.unparse(node))] if wrong else []
    assert not found


def _of_a_job(compared: ast.expr) -> bool:
    """True for `job.work`, and for `about["work"]` and `about["label"]` of the record of a job."""
    if isinstance(compared, ast.Subscript):
        return isinstance(compared.slice, ast.Constant) and compared.slice.value in ("work", "label")
    return isinstance(compared, ast.Attribute) and compared.attr == "work"


@pytest.mark.parametrize("name", acclimate.__all__)
def test_every_public_name_is_there_and_listed(name):
    assert getattr(acclimate, name) is not None
    assert name in dir(acclimate)


def test_no_folder_bears_a_public_name():
    """As it imports a folder, Python sets it in place of a function of that name."""
    folders = {folder.name for folder in Path(acclimate.__file__).parent.iterdir() if folder.is_dir()}
    assert not folders & set(acclimate.__all__)


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'rase'"):
        acclimate.rase  # noqa: B018
