"""The table of errors.md: every message with which acclimate's source ends a command, read from that source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from acclimate.core.door import option

SOURCE = Path(__file__).parents[1] / "src" / "acclimate"
BEGIN = "<!-- errors -->"  # in errors.md; the table takes its place


@cache
def messages() -> dict[str, dict[str, set[str]]]:
    """Return package -> message -> modules that raise it. What a message fills in is an ellipsis."""
    found: dict[str, dict[str, set[str]]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE)
        for message in _raised(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(module.parts[0], {}).setdefault(message, set()).add(str(module))
    return found


def tables() -> str:
    """Return the messages as Markdown, a table for each package."""
    lines: list[str] = []
    for package, texts in messages().items():
        about = SOURCE / package / "__init__.py" if (SOURCE / package).is_dir() else SOURCE / package
        said = ast.get_docstring(ast.parse(about.read_text(encoding="utf-8"))) or ""
        lines += [
            f"## {'acclimate' if package == '__init__.py' else package.removesuffix('.py')}",
            "",
            said.partition("\n\n")[0],
            "",
        ]
        lines += ["| message | raised in |", "|---|---|"]
        for text, modules in sorted(texts.items(), key=lambda entry: entry[0].strip("… :,").casefold()):
            shown = text.translate(str.maketrans({sign: f"\\{sign}" for sign in r"\|*_<>[]`"}))
            lines.append(f"| {shown} | {', '.join(f'`{module}`' for module in sorted(modules))} |")
        lines.append("")
    return "\n".join(lines)


def _raised(tree: ast.Module) -> Iterator[str]:
    for scope in (tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))):
        own = list(_own(scope))
        named = {  # values of variables, for `raise ValueError(refused)`
            node.targets[0].id: node.value
            for node in own
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in own:
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                text = " ".join(_text(node.exc.args[0], named).split())
                if sum(sign.isalpha() for sign in text) > 8:  # not one that only passes another's message on
                    yield text


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in the scope, without the functions in it."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, ast.FunctionDef):
            yield node
            yield from _own(node)


def _text(node: ast.expr, named: dict[str, ast.expr]) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, named) for part in node.values)
    if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name):
        value = named.get(node.value.id)
        spelt_out = isinstance(value, ast.Constant | ast.JoinedStr) or _chooses_door(value)
        return _text(value, {}) if value is not None and spelt_out else "…"
    if isinstance(node, ast.FormattedValue) and (_calls(node.value, "option") or _chooses_door(node.value)):
        return _text(node.value, named)
    if isinstance(node, ast.Call) and _calls(node, "option"):
        return option(*(_text(argument, named) for argument in node.args))
    if isinstance(node, ast.IfExp) and _chooses_door(node):
        return _text(node.orelse, named)
    if isinstance(node, ast.Name) and node.id in named:
        return _text(named[node.id], {})
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, named) + _text(node.right, named)
    return "…"


def _calls(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _chooses_door(node: ast.expr | None) -> bool:
    """Return True for `A if in_python() else B`, of which B is for the command line."""
    return isinstance(node, ast.IfExp) and _calls(node.test, "in_python")
