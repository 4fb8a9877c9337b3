"""Dataclasses define settings, TOML and `key=value` state them.

A recipe is a frozen dataclass of plain fields: numbers, strings, booleans, paths, `Literal`s, tuples, optional ones
and other such dataclasses, which are tables in TOML, in lists too. An unknown key, a wrong type or a value out of a
`Literal` is a ValueError that names the key, the value, what is allowed and the nearest spelling.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import hashlib
import json
import math
import os
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from acclimate.core.door import option
from acclimate.core.records import field_types

T = TypeVar("T")
RECIPES = Path(__file__).parents[1] / "recipes"  # a TOML file for each row of a published table, a folder a method
MOST_INTEGER = 10**15  # of any setting: larger ones overflow where they are multiplied
SEEDS = 5  # fine-tunings of each contestant in a race, and in what the doctor says of it, if no number is stated


@dataclasses.dataclass(frozen=True)
class Range:
    """Which numbers a setting may have, stated with its type: `seeds: Annotated[int, Range(least=2)] = 3`.

    least, most   bounds that are allowed themselves
    above, below  bounds that are not
    also          one more number that is allowed
    why           what an error says in place of the bounds of a number that is too small
    hint          what an error says after the bounds, such as ", or take the method mlm"
    """

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    also: float | None = None
    why: str = ""
    hint: str = ""

    def check(self, key: str, value: float | tuple[float, ...] | None) -> None:
        """Raises ValueError for a number that is not allowed or not finite, or a list with one; None is allowed."""
        if isinstance(value, tuple):
            for element in value:
                self.check(key, element)
            return
        if value is None or value == self.also:
            return
        if not math.isfinite(value):
            raise ValueError(f"{key} = {value} is not a finite number")
        rules = {
            f"at least {self.least}": self.least is None or value >= self.least,
            f"above {self.above}": self.above is None or value > self.above,
            f"at most {self.most}": self.most is None or value <= self.most,
            f"below {self.below}": self.below is None or value < self.below,
        }
        if not all(rules.values()):
            bounds = " and ".join(rule for rule in rules if not rule.endswith("None"))
            too_small = not (rules[f"at least {self.least}"] and rules[f"above {self.above}"])
            broken = f": {self.why}" if self.why and too_small else f" is out of range: {bounds}{self.hint}"
            raise ValueError(f"{key} = {value}{broken}")


Count = Annotated[int, Range(least=0)]
Positive = Annotated[int, Range(least=1)]
BatchSize = Annotated[int, Range(least=1, most=131_072)]  # twice the largest batch that BERT was trained with (LAMB)
AboveZero = Annotated[float, Range(above=0)]
Dropout = Annotated[float, Range(least=0, below=1)]


_ranges: dict[type, Mapping[str, Range]] = {}  # resolving hints takes milliseconds, a race makes thousands of recipes


def ranges_of(kind: type) -> Mapping[str, Range]:
    """Return the Range of each field of a dataclass that has one, also of `Count | None` and of `tuple[Count, ...]`."""
    if kind not in _ranges:
        by_field: dict[str, Range] = {}
        for name, hint in typing.get_type_hints(kind, include_extras=True).items():
            for part in (hint, *typing.get_args(hint)):
                ranges = (bounds for bounds in getattr(part, "__metadata__", ()) if isinstance(bounds, Range))
                by_field.update((name, bounds) for bounds in ranges)
        _ranges[kind] = by_field
    return _ranges[kind]


def _check_integers(value: Any, where: str, key: str) -> None:
    """Raises ValueError for an integer, in a list too, that would overflow where it is multiplied."""
    for element in value if isinstance(value, list | tuple) else [value]:
        if isinstance(element, int) and abs(element) > MOST_INTEGER:
            raise ValueError(f"{where}: {key} = {element} is out of range: at most {MOST_INTEGER:,}")


def check_ranges(recipe: Any, prefix: str = "") -> None:
    """Raises ValueError for a field of a dataclass that is out of its Range. prefix: of names in the error."""
    for name, allowed in ranges_of(type(recipe)).items():
        allowed.check(f"{prefix}{name}", getattr(recipe, name))


def check_no_more(recipe: Any, name: str, *, than: str) -> None:
    """Raises ValueError if the number in the field `name` is larger than that in the field `than`."""
    number, most = getattr(recipe, name), getattr(recipe, than)
    if number > most:
        raise ValueError(f"{name} = {number} is more than {than} = {most}. Raise {than}, or lower {name}")


def from_environment(name: str, default: float) -> float:
    """Return a number from 0 that an environment variable states, or the default. Raises ValueError for another."""
    text = os.environ.get(name, "").strip() or str(default)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(
            f"{name}={text} in the environment is not a number of seconds of at least 0. Unset or correct it"
        )
    return number


def from_mapping(
    kind: type[T], values: Mapping[str, Any], *, where: str = "settings", prefix: str = "", base: T | None = None
) -> T:
    """Return an instance of the dataclass `kind`; what `values` leaves out is as in `base`, or else its default.

    Of a group of settings too, what is left out keeps the default that the group has here, not that of the group's
    class. Where a class has `presets` and `values` names one, what is left out is as the preset has it. Where a class
    has `besides`, a setting that `values` states ("rate", or "plan.rate" of a group) sets others too, unless `values`
    states them as well. An instance in place of a group states the settings that differ from the group's. Where a class
    has `refused`, the error for a setting that it names says why there is none.
    """
    hints, ranges = field_types(kind), ranges_of(kind)
    if "preset" in values and hasattr(kind, "presets"):
        base = _preset(kind, values["preset"], where=where, key=f"{prefix}preset", base=base)
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    implications: dict[str, Any] = {}
    for key, implied_values in getattr(kind, "besides", {}).items():
        group, dot, name = key.rpartition(".")
        usual = None if not dot else _default(fields[group]) if base is None else getattr(base, group)
        if _states(values.get(group) if dot else values, name, usual):
            implications |= implied_values
    values = implications | dict(values)
    for key in values:
        _check_refused(kind, key, where=where, prefix=prefix)
        if key not in fields:
            raise ValueError(f"{where}: unknown setting '{prefix}{key}'{meant_setting(kind, key, prefix)}")
    converted: dict[str, Any] = {}
    for key, value in values.items():
        path = f"{prefix}{key}"
        if dataclasses.is_dataclass(hints[key]) and isinstance(value, Mapping):
            if model := value.get("model"):
                raise ValueError(
                    f"{where}: {path}.model = {model!r}: {path} uses the model of the whole command. Name that model, "
                    f"and remove {path}.model"
                )
            group_base = _default(fields[key]) if base is None else getattr(base, key)
            converted[key] = from_mapping(
                typing.cast(type, hints[key]), value, where=where, prefix=f"{path}.", base=group_base
            )
        else:
            _check_integers(value, where, path)
            converted[key] = _convert(hints[key], value, where=where, key=path)
            if key in ranges:
                ranges[key].check(f"{where}: {path}", converted[key])
    if base is not None:
        with _naming_the_group(where, prefix):
            return dataclasses.replace(base, **converted)  # type: ignore[type-var]
    required = {name for name, field in fields.items() if field.default is field.default_factory is dataclasses.MISSING}
    missing = [name for name in fields if name in required - converted.keys()]
    if missing:
        names = ", ".join(f"'{prefix}{name}'" for name in missing)
        raise ValueError(f"{where}: no value for {names}. Add it: {prefix}{missing[0]}=VALUE")
    with _naming_the_group(where, prefix):
        return kind(**converted)


def _states(group: Any, name: str, usual: Any) -> bool:
    """Return True if a mapping has the setting, or if an instance has another value than the `usual` one."""
    if isinstance(group, Mapping):
        return name in group
    return dataclasses.is_dataclass(group) and getattr(group, name) != getattr(usual, name)


@contextlib.contextmanager
def _naming_the_group(where: str, prefix: str) -> Iterator[None]:
    """Put the name of a group before the errors of its class, which does not know in which group it stands."""
    try:
        yield
    except ValueError as error:
        if not prefix or prefix in str(error):
            raise
        raise ValueError(f"{where}: settings of {prefix[:-1]}: {error}") from None


def _check_refused(kind: type, key: str, *, where: str, prefix: str = "") -> None:
    """Raises ValueError, with the reason, for a setting that others of its sort have and this class has not."""
    if why := getattr(kind, "refused", {}).get(key, ""):
        raise ValueError(f"{where}: {prefix}{key}: {why}. Remove it")


def _preset(kind: Any, name: Any, *, where: str, key: str, base: Any) -> Any:
    """Return the preset of this name, with the inputs that `base` states; `base` if it is of that preset already."""
    if base is not None and name == base.preset:
        return base
    if name not in kind.presets:
        raise ValueError(f"{where}: {key} = {name!r} is not one of {', '.join(kind.presets)}")
    inputs = {} if base is None else {name: getattr(base, name) for name in kind.inputs}
    return dataclasses.replace(kind.presets[name], **inputs)


def from_toml(kind: type[T], path: Path, *, base: T | None = None) -> T:
    """Return the settings of a TOML file, or of a recipe that comes with acclimate (`recipe_file`); what it leaves out
    stays as in `base`, or else keeps its default.
    """
    content = recipe_file(path).read_bytes()
    try:
        values = tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}:{line}: not UTF-8 ({error.reason}). Save the file in UTF-8") from error
    except RecursionError as error:
        raise ValueError(f"{path}: nested too deeply. Write each setting as key = value in its group") from error
    except ValueError as error:  # tomllib's, or Python's for a number of thousands of digits
        raise ValueError(f"{path}: not valid TOML: {error}") from error
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if not path.is_file() and not values.keys() <= known:
        method = path.parent.as_posix()
        raise ValueError(
            f"{option('recipe', str(path))}: this recipe is for `acclimate adapt {method}` and has settings that "
            f"this command lacks. `acclimate recipes {path}` prints it"
        )
    return from_mapping(kind, values, where=str(path), base=base)


def recipe_names() -> list[str]:
    """Return the names of the recipes that come with acclimate, METHOD/ROW, such as "tapter/bioasq"."""
    return sorted(file.relative_to(RECIPES).with_suffix("").as_posix() for file in RECIPES.glob("*/*.toml"))


def recipe_file(path: Path) -> Path:
    """Return the file, or that of the recipe of this name that comes with acclimate. Raises ValueError for neither."""
    if path.is_file():
        return path
    name = path.as_posix().removesuffix(".toml")
    if name in (names := recipe_names()):
        return RECIPES / f"{name}.toml"
    near = _close(name, names)
    beside = f"'{near}' comes with acclimate" if near else "`acclimate recipes` lists those that come with acclimate"
    raise ValueError(f"{path}: there is no such file of settings; {beside}")


def override(recipe: T, assignments: Iterable[str]) -> T:
    """Return the recipe with `key=value` assignments made; keys of nested settings are written `plan.steps=100`.

    The last of two assignments to one key counts. Raises ValueError for a setting that has two values under different
    keys, as in `plan.steps=1 plan={steps=2}`.
    """
    current = to_mapping(recipe)
    values: dict[str, Any] = {}
    for assignment in {assignment.partition("=")[0]: assignment for assignment in assignments}.values():
        key, equals, text = assignment.partition("=")
        if not equals or not key:
            raise ValueError(f"command line: '{assignment}' is not of the form key=value")
        *parents, last = key.split(".")
        _check_refused(type(recipe), [*parents, last][0], where="command line")
        current_inner: dict[str, Any] = current
        for depth, parent in enumerate(parents):
            if not isinstance(current_inner.get(parent), dict):
                path = ".".join(parents[: depth + 1])
                raise ValueError(
                    f"command line: unknown group of settings '{path}'{did_you_mean(parent, current_inner, '')}"
                )
            current_inner = current_inner[parent]
        value = _parse(text)
        if not isinstance(value, str | list | dict) and _is_text(type(recipe), [*parents, last]):
            value = text.strip()
        _join(values, nested({key: value}), f"command line: {key}")
    return from_mapping(type(recipe), values, where="command line", base=recipe)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as `from_mapping` takes them, from keywords: `plan__rate=1` and `plan={"rate": 1}` are the same,
    and so is the key "plan.rate".

    Raises ValueError for a setting that has two values.
    """
    mapping: dict[str, Any] = {}
    for key, value in values.items():
        *parents, last = key.replace("__", ".").split(".")
        branch: dict[str, Any] = {last: nested(value) if isinstance(value, Mapping) else value}
        for parent in reversed(parents):
            branch = {parent: branch}
        _join(mapping, branch, key)
    return mapping


def _join(mapping: dict[str, Any], branch: Mapping[str, Any], key: str) -> None:
    for name, value in branch.items():
        if isinstance(mapping.get(name), dict) and isinstance(value, Mapping):
            _join(mapping[name], value, key)
        elif name in mapping:
            raise ValueError(f"{key}: '{name}' is also given as {mapping[name]!r}. Remove one of them")
        else:
            mapping[name] = value


def assignments_of(values: Mapping[str, Any]) -> list[str]:
    """Return settings as they are typed on the command line, from a mapping of mappings: `plan.rate=1`."""
    return [f"{key}={_inline(plain_value(value))}" for key, value in flat(values).items()]


def to_mapping(recipe: Any) -> dict[str, Any]:
    """Plain dicts, lists, numbers and strings, as JSON and TOML take them; settings that are None are left out."""
    values = {field.name: getattr(recipe, field.name) for field in dataclasses.fields(recipe)}
    for field in dataclasses.fields(recipe):
        # TOML has no None: only a default may be one, or reading back would give another recipe
        assert values[field.name] is not None or field.default is None, field.name
    return {name: plain_value(value) for name, value in values.items() if value is not None}


def to_toml(recipe: Any, *, without: Iterable[str] = ()) -> str:
    """Return the settings as TOML, groups last; `from_toml` reads back an equal recipe, but for the fields left out."""
    left_out = set(without)
    return _toml({key: value for key, value in to_mapping(recipe).items() if key not in left_out}, "")


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"plan": {"rate": 1}}` as `{"plan.rate": 1}`."""
    settings: dict[str, Any] = {}
    for key, value in values.items():
        settings |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return settings


def code_at(setting: str) -> tuple[Path, str]:
    """Return the file and the name of a setting `path/to/file.py::NAME`. Raises ValueError if there is no such file."""
    place, _, name = setting.partition("::")
    if not Path(place).is_file():
        raise ValueError(f"{setting}: there is no file {place}. Write it as path/to/file.py::NAME")
    return Path(place), name


def digest(value: Any) -> str:
    """64 hex digits: SHA-256 of the value as JSON with sorted keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _default(field: dataclasses.Field[Any]) -> Any:
    """Return the field's default, or None where it has none."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def _toml(values: Mapping[str, Any], prefix: str) -> str:
    lines = [f"{key} = {_inline(value)}" for key, value in values.items() if not isinstance(value, dict)]
    for key, value in values.items():
        if isinstance(value, dict):
            lines += ["", f"[{prefix}{key}]", _toml(value, f"{prefix}{key}.").rstrip("\n")]
    return "\n".join(lines) + "\n"


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_inline(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    # JSON's strings, numbers and booleans are TOML's too, but for two things: TOML has no escaped surrogate pairs,
    # hence plain characters, and no plain DEL, hence an escaped one
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def plain_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_mapping(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple | list):
        return [plain_value(item) for item in value]
    return value


def _is_text(kind: Any, keys: Sequence[str]) -> bool:
    """Return True if the setting at these keys is a text or a path, but no number and no switch."""
    hints = [kind]
    for key in keys:
        inner = [field_types(typing.cast(type, hint)).get(key) for hint in hints if dataclasses.is_dataclass(hint)]
        hints = [part for hint in inner for part in (typing.get_args(hint) if _is_union(hint) else [hint])]
    return not {str, Path}.isdisjoint(hints) and {int, float, bool}.isdisjoint(hints)


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (types.UnionType, typing.Union)


def _parse(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a bare word or path is a string
    except (RecursionError, ValueError) as error:  # or Python's for a number of thousands of digits
        excerpt = f"{text[:40]}..."
        raise ValueError(f"command line: {excerpt} is too long or too deeply nested for a setting") from error


def _convert(hint: Any, value: Any, *, where: str, key: str) -> Any:
    """`value` as the type `hint`, or a ValueError; never a silent change of meaning."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if _is_union(hint):
        if value is None:
            return None
        options = [argument for argument in arguments if argument is not type(None)]
        tables = [argument for argument in options if dataclasses.is_dataclass(argument)]
        lists = [argument for argument in options if typing.get_origin(argument) is tuple]
        plain = [argument for argument in options if argument not in (*tables, *lists)]
        as_list = not plain or (lists and isinstance(value, list | tuple))
        [inner] = tables if tables and isinstance(value, Mapping) else lists if as_list else plain
        return _convert(inner, value, where=where, key=key)
    if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return from_mapping(typing.cast(type, hint), value, where=where, prefix=f"{key}.")
    if origin is Literal:
        if value in arguments:
            return value
        allowed = ", ".join(repr(argument) for argument in arguments)
        near = _close(str(value), map(str, arguments))
        meant = f"; did you mean {near!r}?" if near else ""
        raise ValueError(f"{where}: {key} = {value!r} is not one of {allowed}{meant}")
    if origin is tuple and isinstance(value, list | tuple):
        inner_hints = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else list(arguments)
        if len(inner_hints) == len(value):
            pairs = zip(inner_hints, value, strict=True)
            return tuple(_convert(inner, item, where=where, key=key) for inner, item in pairs)
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ValueError(f"{where}: {key} = {value} is not a finite number")
        return float(value)
    if hint is Path and isinstance(value, str):
        return Path(os.path.expanduser(value))
    if isinstance(hint, type) and isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    if origin is tuple and not isinstance(value, list | tuple):
        raise ValueError(
            f"{where}: {key} = {value!r} is not a list. Write it as '{key}=[...]', with strings in double quotes"
        )
    expected = getattr(hint, "__name__", str(hint))
    raise ValueError(f"{where}: {key} = {value!r} is {type(value).__name__}, but must be {expected}")


# what other libraries call a setting -> what it is called here
USUAL_NAMES = {
    **dict.fromkeys(("lr", "learning_rate"), "rate"),
    **dict.fromkeys(("batch_size", "train_batch_size", "per_device_train_batch_size"), "batch"),
    **dict.fromkeys(("num_epochs", "n_epochs", "num_train_epochs", "epoch"), "epochs"),
    **dict.fromkeys(("max_steps", "num_steps", "n_steps"), "steps"),
    **dict.fromkeys(("warmup_ratio", "warmup_steps"), "warmup"),
    **dict.fromkeys(("seed", "random_seed", "random_state"), "seeds"),
    **dict.fromkeys(("early_stopping", "early_stopping_patience"), "patience"),
}


def meant_setting(kind: type, key: str, prefix: str = "", more: Iterable[str] = ()) -> str:
    """Return the end of an error on a name that is no setting of the dataclass: a name that is spelt nearly so, or else
    the settings of exactly that name in its groups, or else the nearest name. A name that is usual elsewhere, such as
    `lr`, stands for ours. more: names beside the settings
    """
    names = [*(field.name for field in dataclasses.fields(kind)), *more]
    if (usual := USUAL_NAMES.get(key.lower().replace("-", "_"))) is not None:
        candidates = [usual] if usual in names else sorted(_setting_paths(kind, usual), key=_setting_order)
        if candidates:
            return f"; did you mean '{prefix}{candidates[0]}'?"
    within = [] if prefix or difflib.get_close_matches(key, names, n=1, cutoff=0.8) else list(_setting_paths(kind, key))
    if within:
        within.sort(key=_setting_order)
        *others, last = [f"'{path}'" for path in within[:3]]
        return f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
    return did_you_mean(key, names, prefix)


def _setting_order(path: str) -> tuple[bool, int]:
    """Return what sorts the settings of fine-tuning first, and then those in the fewest groups."""
    return not path.startswith("finetune."), path.count(".")


def _setting_paths(kind: type, key: str) -> Iterator[str]:
    """Yield the paths of the settings of this name in the groups of a dataclass, such as `finetune.plan.rate`."""
    hints = field_types(kind)
    for field in dataclasses.fields(kind):
        group = hints[field.name]
        if isinstance(group, type) and dataclasses.is_dataclass(group):
            if key in {inner.name for inner in dataclasses.fields(group)}:
                yield f"{field.name}.{key}"
            yield from (f"{field.name}.{path}" for path in _setting_paths(group, key))


def settings_called(kind: type, name: str) -> list[str]:
    """Return the paths of the settings that are called `name` here or elsewhere, those of fine-tuning first."""
    key = USUAL_NAMES.get(name, name)
    direct = [key] if key in {field.name for field in dataclasses.fields(kind)} else []
    return [*direct, *sorted(_setting_paths(kind, key), key=_setting_order)]


def did_you_mean(key: str, candidates: Iterable[str], prefix: str) -> str:
    if near := _close(key, candidates):
        return f"; did you mean '{prefix}{near}'?"
    return f". Known: {', '.join(f'{prefix}{name}' for name in candidates)}"


def _close(name: str, candidates: Iterable[str]) -> str:
    """Return the nearest of the known names, large and small letters taken for the same; "" where none is near."""
    names = {candidate.lower(): candidate for candidate in candidates}
    return next((names[candidate] for candidate in difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)), "")
