"""The verb settings, and the file that it reads: every recipe as data, so that no recipe has to be imported.

`make settings` writes the file and the generated part of docs/settings.md.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acclimate.api.settings import FILE, class_of, schema
from acclimate.cli.options import begins_with
from acclimate.cli.verb import Session, verb
from acclimate.core.schema import described, field_at, group_of, json_schema, type_text
from acclimate.core.settings import flat

if TYPE_CHECKING:
    from acclimate.methods import Method

EVALUATION = "Evaluation"  # stands in the file for the settings of `evaluate`, which are some of a race's
BEGIN = "<!-- The rest of this page is generated: make settings -->"


@verb()
def settings(
    session: Session,
    name: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME] [KEY]",
            help="A method or verb, such as mlm, race or study tlm; then a setting of it.",
            autocompletion=begins_with(lambda: schema()["names"]),
        ),
    ] = None,
    as_schema: Annotated[bool, typer.Option("--schema", help="Print a JSON schema.")] = False,
) -> None:
    """Print the settings of a method or verb, with type, default and meaning; without a name, what has settings."""
    names = schema()["names"]
    if not name:
        width = max(map(len, names))
        session.say("\n".join(f"{name.ljust(width)}  {about['about']}" for name, about in names.items()))
        return
    words = name[1:] if name[0] == "adapt" and len(name) > 1 else name
    count = 2 if " ".join(words[:2]) in names else 1
    called, setting_names = " ".join(words[:count]), words[count:]
    kind = class_of(called)
    if len(setting_names) > 1:
        raise ValueError(f"{' '.join(setting_names)}: name one setting")
    classes = schema()["classes"]
    if as_schema:
        if setting_names:
            raise ValueError(f"--schema prints all settings of {called}. Remove {setting_names[0]}")
        session.say(json.dumps(json_schema(classes, kind), indent=2))
        return
    width = min(shutil.get_terminal_size().columns, 120)
    others = {option: flat(defaults) for option, defaults in names[called].get("with", {}).items()}
    if not setting_names:
        session.say(f"{called}: {names[called]['about']}\n")
        keys = list(classes[kind]["fields"])
    else:
        keys = setting_names
    for key in keys:
        session.say("\n".join(_lines(key, field_at(classes, kind, key), others, width)))


def _lines(key: str, field: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]], width: int) -> Iterator[str]:
    """What is printed of a setting. others: option -> the defaults with it, by their full names."""
    group = group_of(field["type"])
    default = "" if group else _default(field)
    yield f"{key}  ({type_text(field['type'])}{f', default {default}' if default else ''})"
    if field["help"]:
        yield textwrap.indent(textwrap.fill(field["help"], width - 4), "    ")
    for option, defaults in others.items():
        if not group and key in defaults and defaults[key] != field.get("default"):
            yield f"    with {option}: {_written(defaults[key])}"
    if group:
        stated_here = _differing(schema()["classes"], group, field.get("default"))
        if stated_here:
            yield textwrap.indent(textwrap.fill(f"defaults here: {stated_here}", width - 4), "    ")
        for option, defaults in others.items():
            begin = f"{key}."
            inner = {name.removeprefix(begin): value for name, value in defaults.items() if name.startswith(begin)}
            stated_inside = _differing(schema()["classes"], group, inner)
            if stated_inside != stated_here:
                yield textwrap.indent(
                    textwrap.fill(f"with {option}: {stated_inside or _usual(group)}", width - 4), "    "
                )


def _usual(group: str) -> str:
    """Return which defaults a group has, and the command that prints them."""
    name = next((name for name, about in schema()["names"].items() if about["class"] == group), "")
    return f"the defaults of {group}" + (f" (acclimate settings {name})" if name else "")


def _differing(classes: Mapping[str, Any], group: str, group_values: Mapping[str, Any] | None) -> str:
    """Return the values of a group that are not the defaults of its class, as `plan.steps=300, epochs=0.0`."""
    usual = flat({name: field.get("default") for name, field in classes[group]["fields"].items()})
    values = flat(group_values or {})
    return ", ".join(f"{name}={_written(value)}" for name, value in values.items() if usual.get(name) != value)


def _default(field: Mapping[str, Any]) -> str:
    """As it is typed; "" for an empty text or path."""
    if "default" not in field:
        return "needed"
    if field["default"] == "" or (field["type"] == "path" and field["default"] == "."):
        return ""
    return "none" if field["default"] is None else _written(field["default"])


def _written(value: Any) -> str:
    """As TOML has it, which is how it is typed."""
    return json.dumps(value, ensure_ascii=False)


# ------------------------------------------------------------------------------------------ what `make settings` writes


def made() -> dict[str, Any]:
    """Return the content of the file, of the recipes as they are now. Imports all of them, and torch with them."""
    from acclimate.analyses.vocabularies import VocabularyRecipe
    from acclimate.core.settings import to_mapping
    from acclimate.data.retrieve import RetrieveRecipe
    from acclimate.methods import METHODS
    from acclimate.races.recipe import RaceRecipe, for_model
    from acclimate.studies import STUDIES
    from acclimate.text.preparation import CorpusRecipe

    recipes: dict[str, type] = {"race": RaceRecipe}
    recipes |= {name: method.recipe for name, method in METHODS.items()}
    recipes |= {"data corpus": CorpusRecipe, "data retrieve": RetrieveRecipe, "data vocabulary": VocabularyRecipe}
    recipes |= {f"study {name}": study.recipe for name, study in STUDIES.items()}
    classes: dict[str, Any] = {}
    for recipe in recipes.values():
        described(recipe, classes)
    for name, value in to_mapping(for_model()).items():  # a race starts from a given model, unless it is scratch
        classes[RaceRecipe.__name__]["fields"][name]["default"] = value
    names = {
        name: {"class": recipe.__name__, "about": classes[recipe.__name__]["about"]} for name, recipe in recipes.items()
    }
    classes[EVALUATION] = _one_model_settings(classes[RaceRecipe.__name__], RaceRecipe.methods)
    of_one = {"class": EVALUATION, "about": classes[EVALUATION]["about"]}
    names = {"race": names["race"], "evaluate": of_one, **names}
    for name, method in METHODS.items():
        names[name]["kind"] = "method"
        optional = set[str]() if method.starts(method.recipe()) else {"model"}
        fields = classes[method.recipe.__name__]["fields"]
        names[name]["needs"] = [key for key in ("model", "task", "tasks", "corpus") if key in fields.keys() - optional]
        if method.without_corpus:
            names[name]["without_corpus"] = dict(method.without_corpus)
    names["race"]["with"] = {"--model scratch": to_mapping(RaceRecipe())}
    return {"names": names, "classes": classes}


def _one_model_settings(race: Mapping[str, Any], methods: Mapping[str, Method]) -> dict[str, Any]:
    """Return the settings of a race that mean something to `evaluate`, and why it has none of the others."""
    adapting = {method.group(contestant) for method in methods.values() for contestant in method.contestants}
    refused = dict.fromkeys((*sorted(adapting), "retrieval", "pretrain", "adapt_seeds"), "evaluate adapts no model")
    refused |= dict.fromkeys(("contestants", "tfidf"), "evaluate runs one model alone")
    refused |= {"learning_curve": "this applies only to race --learning-curve"}
    fields = {name: about for name, about in race["fields"].items() if name not in refused}
    about = "The settings of a race that mean something where one model runs alone."
    return {**race, "about": about, "fields": fields, "refused": refused, "code": "RaceRecipe"}


def written(content: Mapping[str, Any]) -> str:
    """Return the file, as text."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def page(content: Mapping[str, Any]) -> str:
    """Return the generated part of docs/settings.md: a section a recipe, then a section a group that is no recipe."""
    names, classes = content["names"], content["classes"]
    titles = {about["class"]: name for name, about in reversed(names.items())}
    titles |= {kind: kind for kind in classes if kind not in titles}
    parts = [BEGIN]
    for kind in [*dict.fromkeys(about["class"] for about in names.values()), *(k for k in classes if titles[k] == k)]:
        about = classes[kind]
        path = f"src/{about['module'].replace('.', '/')}.py"
        also = [name for name, entry in names.items() if entry["class"] == kind and name != titles[kind]]
        parts.append(f"\n## {titles[kind]}\n")
        parts.append(f"{about['about']}\n")
        parts.append(f"Code: `{path}::{about.get('code', kind)}`{f', also of `{also[0]}`' if also else ''}.\n")
        parts.append("| setting | type | default | meaning |\n|---|---|---|---|")
        others: Mapping[str, Any] = next(
            (entry["with"] for entry in names.values() if entry["class"] == kind and "with" in entry), {}
        )
        for name, field in about["fields"].items():
            group = group_of(field["type"])
            if group:
                typed = f"[{titles[group]}](#{titles[group].lower().replace(' ', '-')})"
                default = ""
                stated_here = _differing(classes, group, field.get("default"))
                meaning = [field["help"], f"Here: `{stated_here}`." if stated_here else ""]
                for option, defaults in others.items():
                    stated_inside = _differing(classes, group, defaults.get(name))
                    if stated_inside != stated_here:
                        meaning.append(
                            f"With {option}: `{stated_inside}`."
                            if stated_inside
                            else f"With {option}: the defaults of {group}."
                        )
            else:
                typed = type_text(field["type"])
                default = _default(field)
                default = default if default in ("", "needed", "none") else f"`{default}`"
                meaning = [field["help"]]
                meaning += [
                    f"With {option}: `{_written(defaults[name])}`."
                    for option, defaults in others.items()
                    if name in defaults and defaults[name] != field.get("default")
                ]
            cells = (f"`{name}`", typed, default, " ".join(part for part in meaning if part))
            parts.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(parts).rstrip() + "\n"


def write() -> None:
    """Write the file and the page of the repository that this is the working tree of."""
    content = made()
    FILE.write_text(written(content), encoding="utf-8")
    place = Path(__file__).parents[3] / "docs" / "settings.md"
    text, _, _ = place.read_text(encoding="utf-8").partition(BEGIN)
    place.write_text(text + page(content), encoding="utf-8")
    print(f"Written: {FILE}, {place}", file=sys.stderr)
