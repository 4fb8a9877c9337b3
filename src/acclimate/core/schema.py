"""Dataclasses of settings as plain data, from which the help and docs/settings.md are made.

A command checks settings against this data before it imports the dataclasses.

    {"MlmRecipe": {"about": ..., "fields": {"masking": {"type": "float", "default": 0.15, "help": ...}, ...}}, ...}

Beside "fields" stand "refused", where a class says why it has no setting of some name, as core.settings has it, and
"code", the name of the class where that is another one. "range" stands beside a type where only some numbers are
allowed, as core.settings.Range has it. A type is "int", "float", "str", "bool" or "path"; {"choice": [values]};
{"list": type}; {"tuple": [types]}; {"optional": type}; {"either": [types]}; {"group": name of a class}.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import io
import re
import textwrap
import tokenize
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from acclimate.core.settings import Range, did_you_mean, from_mapping, plain_value, ranges_of

Spec = Any  # a type as the docstring above describes it
_BOUNDS = {"least": "minimum", "above": "exclusiveMinimum", "most": "maximum", "below": "exclusiveMaximum"}
PLAIN: Mapping[str, type] = {"int": int, "float": float, "str": str, "bool": bool, "path": Path}


def described(kind: type, into: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the class and the classes of its groups, by name, as plain data (see above).

    into  data of other classes, to which these are added
    """
    specs = {} if into is None else into
    name = kind.__name__
    if name in specs:
        return specs
    specs[name] = {}
    hints, helps, ranges = typing.get_type_hints(kind), _helps(kind), ranges_of(kind)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        about: dict[str, Any] = {"type": _spec(hints[field.name], specs)}
        if field.default is not dataclasses.MISSING:
            about["default"] = plain_value(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            about["default"] = plain_value(field.default_factory())
        if field.name in ranges:
            bounds = vars(ranges[field.name])
            about["range"] = {name: value for name, value in bounds.items() if value not in (None, "")}
        fields[field.name] = about | {"help": _sentence(helps.get(field.name, ""))}
    first, *_ = re.split(r"\n\s*\n", inspect.cleandoc(kind.__doc__ or ""))
    specs[name] = {"module": kind.__module__, "about": " ".join(first.split()), "fields": fields}
    if refused := getattr(kind, "refused", {}):
        specs[name]["refused"] = dict(refused)
    return specs


def stand_in(schema: Mapping[str, Any], name: str) -> type:
    """Return a dataclass with the fields, types and defaults of the class `name`, and none of its code.

    core.settings accepts and refuses the same settings for both.
    """

    @functools.cache
    def made(name: str) -> type:
        fields: list[Any] = []
        for field, about in schema[name]["fields"].items():
            hint = _hint(about["type"], made)
            if "range" in about:
                hint = typing.Annotated[hint, Range(**about["range"])]
            if "default" not in about:
                fields.append((field, hint))
            else:
                default = functools.partial(_value, about["type"], about["default"], made)
                simple = about["default"] is None
                fields.append(
                    (field, hint, dataclasses.field(**({"default": None} if simple else {"default_factory": default})))
                )
        refused = {"refused": schema[name].get("refused", {})}
        return dataclasses.make_dataclass(name, fields, frozen=True, kw_only=True, namespace=refused)

    return made(name)


def field_at(schema: Mapping[str, Any], name: str, key: str) -> dict[str, Any]:
    """Return the field of a class that `key` names, such as `plan.rate`, with the default that it has in that class.

    Raises ValueError, with the message of core.settings, for a key that does not exist.
    """
    *groups, last = key.split(".")
    at, prefix, default = name, "", None
    for part in [*groups, last]:
        fields = schema[at]["fields"]
        if part not in fields:
            raise ValueError(f"unknown setting '{prefix}{part}'{did_you_mean(part, fields, prefix)}")
        about = dict(fields[part])
        if isinstance(default, Mapping):
            about["default"] = default.get(part)
        group = group_of(about["type"])
        if part is not last or prefix + part != key:
            if not group:
                raise ValueError(f"'{prefix}{part}' is not a group of settings, so '{key}' cannot be in it")
            at, prefix, default = group, f"{prefix}{part}.", about.get("default")
    return about


def group_of(spec: Spec) -> str:
    """Return the name of the class of a group of settings; "" for a plain value."""
    if isinstance(spec, Mapping):
        if "group" in spec:
            return str(spec["group"])
        if "optional" in spec:
            return group_of(spec["optional"])
    return ""


def type_text(spec: Spec) -> str:
    """Return the type in words: `list of int`, `"best", "last"`."""
    if isinstance(spec, str):
        return spec
    [(kind, inner)] = spec.items()
    if kind == "choice":
        return ", ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in inner)
    if kind == "list":
        return f"list of {type_text(inner)}"
    if kind == "tuple":
        return f"list ({', '.join(map(type_text, inner))})"
    if kind == "either":
        return " or ".join(map(type_text, inner))
    if kind == "optional":
        return type_text(inner)
    return str(inner)


def json_schema(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a JSON schema (draft 2020-12) of the class."""
    used: dict[str, Any] = {}

    def class_schema(name: str) -> dict[str, Any]:
        properties = {}
        for field, about in schema[name]["fields"].items():
            bounded = bounded_schema(type_schema(about["type"]), about.get("range", {}))
            properties[field] = bounded | {"description": about["help"]}
            if about.get("default") is not None:
                properties[field]["default"] = about["default"]
        required = [field for field, about in schema[name]["fields"].items() if "default" not in about]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def bounded_schema(typed: dict[str, Any], allowed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the schema of a type, or of the items of a list, with the bounds of its numbers."""
        if "items" in typed:
            return typed | {"items": bounded_schema(typed["items"], allowed)}
        bounded = typed | {_BOUNDS[name]: at for name, at in allowed.items() if name in _BOUNDS}
        return {"anyOf": [bounded, {"const": allowed["also"]}]} if "also" in allowed else bounded

    def type_schema(spec: Spec) -> dict[str, Any]:
        if isinstance(spec, str):
            names = {"int": "integer", "float": "number", "bool": "boolean"}
            return {"type": names.get(spec, "string")}
        [(kind, inner)] = spec.items()
        if kind == "choice":
            return {"enum": list(inner)}
        if kind == "list":
            return {"type": "array", "items": type_schema(inner)}
        if kind == "tuple":
            return {"type": "array", "prefixItems": [type_schema(part) for part in inner], "items": False}
        if kind == "either":
            return {"anyOf": [type_schema(part) for part in inner]}
        if kind == "optional":
            return type_schema(inner)
        if inner not in used:
            used[inner] = {}
            used[inner] = class_schema(inner)
        return {"$ref": f"#/$defs/{inner}"}

    whole = class_schema(name)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, **whole, "$defs": used}


def _spec(hint: Any, specs: dict[str, Any]) -> Spec:
    """Return the plain data of a type; put the classes of its groups into `specs`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return {"choice": list(arguments)}
    if origin in (types.UnionType, typing.Union):
        parts = [_spec(argument, specs) for argument in arguments if argument is not type(None)]
        inner = parts[0] if len(parts) == 1 else {"either": parts}
        return {"optional": inner} if type(None) in arguments else inner
    if origin is tuple and arguments[-1] is Ellipsis:
        return {"list": _spec(arguments[0], specs)}
    if origin is tuple:
        return {"tuple": [_spec(argument, specs) for argument in arguments]}
    if dataclasses.is_dataclass(hint):
        described(typing.cast(type, hint), specs)
        return {"group": typing.cast(type, hint).__name__}
    return next(name for name, kind in PLAIN.items() if kind is hint)


def _hint(spec: Spec, classes: Any) -> Any:
    """Return the type that a spec describes. classes: returns the stand-in of a group."""
    if isinstance(spec, str):
        return PLAIN[spec]
    [(kind, inner)] = spec.items()
    if kind == "choice":
        return Literal[tuple(inner)]
    if kind == "list":
        return tuple[_hint(inner, classes), ...]  # type: ignore[misc]
    if kind == "tuple":
        return tuple[tuple(_hint(part, classes) for part in inner)]  # type: ignore[misc]
    if kind == "either":
        return typing.Union[tuple(_hint(part, classes) for part in inner)]  # noqa: UP007
    if kind == "optional":
        return typing.Optional[_hint(inner, classes)]  # noqa: UP045
    return classes(inner)


def _value(spec: Spec, default: Any, classes: Any) -> Any:
    """Return a default of the schema as a value of the stand-in's field."""
    if group := group_of(spec):
        return from_mapping(classes(group), default)
    if spec == "path":
        return Path(default)
    return tuple(default) if isinstance(default, list) else default


def _helps(kind: type) -> dict[str, str]:
    """Return the help of each field, from the class that defines it.

    It is the string below the field, or else the comment on its line, the comment above it, its entry in the docstring
    of the class, or "help" in its metadata: the first of these that there is.
    """
    helps: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        fields = dataclasses.fields(base)
        helps = {field.name: field.metadata["help"] for field in fields if "help" in field.metadata} | helps
        if base.__module__ == "types":  # a class of make_dataclass, which has no source
            continue
        source = textwrap.dedent(inspect.getsource(base))
        lines = source.splitlines()
        comments = {
            token.start[0]: token.string.lstrip("# ")
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        }
        [node] = ast.parse(source).body
        assert isinstance(node, ast.ClassDef)
        in_docstring = _table(inspect.cleandoc(base.__doc__ or ""))

        def alone(at: int, comments: Mapping[int, str] = comments, lines: list[str] = lines) -> bool:
            """Return True if the line holds a comment and nothing else."""
            return at in comments and lines[at - 1].lstrip().startswith("#")

        for statement, after in zip(node.body, [*node.body[1:], None], strict=True):
            if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
                continue
            name, last = statement.target.id, statement.end_lineno or statement.lineno
            beside = [last] if last in comments else []  # comments on its earlier lines explain parts of the default
            above = statement.lineno - 1
            while last not in comments and alone(above):
                beside.insert(0, above)
                above -= 1
            below = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
            if isinstance(below, str):
                helps[name] = " ".join(below.split())
            elif beside:
                helps[name] = " ".join(comments[at] for at in beside)
            elif name in in_docstring:
                helps[name] = in_docstring[name]
    return helps


def _sentence(help: str) -> str:
    """Return the help with a capital letter and a full stop, which comments in the source do not have."""
    return f"{help[:1].upper()}{help[1:].rstrip('.')}." if help else ""


def _table(text: str) -> dict[str, str]:
    """Return the entries of a docstring: lines `name   what it is`, with further lines indented below."""
    rows: dict[str, str] = {}
    names: list[str] = []
    for line in text.splitlines():
        if entry := re.match(r"(\w+(?:, \w+)*) {2,}(\S.*)$", line):
            names = entry[1].split(", ")
            rows |= dict.fromkeys(names, entry[2])
        elif names and line.startswith("    "):
            rows |= {name: f"{rows[name]} {line.strip()}" for name in names}
        else:
            names = []
    return rows
