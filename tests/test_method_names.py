"""Nothing outside methods/ names a method: what the rest of the package needs to know stands in `Method`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from acclimate.methods import METHODS
from acclimate.races.recipe import chains_of, contestants_of
from acclimate.studies import STUDIES

SOURCE = Path(__file__).parents[1] / "src" / "acclimate"
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


def test_no_other_room_names_a_method() -> None:
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


def test_no_shared_code_asks_which_method_or_work_it_is_or_reads_a_label() -> None:
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
