"""Dataclasses define, TOML and key=value state."""

import importlib
import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from acclimate.api.settings import schema, stand_in_of
from acclimate.cli.settings import EVALUATION
from acclimate.core import settings
from acclimate.races.recipe import RaceRecipe, for_model


@dataclass(frozen=True)
class Inner:
    steps: int = 10
    rate: float = 1e-4


@dataclass(frozen=True)
class Outer:
    corpus: Path = Path()
    choose: Literal["best", "last"] = "best"
    lower: bool = True
    dropout: float | None = None
    names: tuple[str, ...] = ("a",)
    plan: Inner = field(default_factory=Inner)


@dataclass(frozen=True)
class File:
    path: Path
    text: str = "text"
    pair: str | None = None


@dataclass(frozen=True)
class Several:
    files: tuple[str | File, ...] = ()


def test_a_list_holds_names_and_tables(tmp_path):
    stated = settings.override(Several(), ['files=["one", {path="two.csv", text="a", pair="b"}, {path="three"}]'])
    assert stated.files == ("one", File(Path("two.csv"), "a", "b"), File(Path("three")))
    (tmp_path / "recipe.toml").write_text(settings.to_toml(stated), encoding="utf-8")
    assert settings.from_toml(Several, tmp_path / "recipe.toml") == stated
    assert settings.from_mapping(Several, settings.to_mapping(stated)) == stated


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ('files=[{path="a", txt="b"}]', r"unknown setting 'files\.txt'; did you mean 'files\.text'\?"),
        ('files=[{text="a"}]', r"no value for 'files\.path'\. Add it: files\.path=VALUE"),
        ('files=[{path="a", text=3}]', r"files\.text = 3 is int, but must be str"),
        ("files=[3]", r"files = 3 is int, but must be str"),
    ],
)
def test_what_is_wrong_in_a_table_of_a_list_is_named(assignment, said):
    with pytest.raises(ValueError, match=said):
        settings.override(Several(), [assignment])


def test_assignments_reach_nested_settings_and_an_integer_is_taken_for_a_float():
    stated = settings.override(
        Outer(), ["plan.steps=20", "choose=last", 'names=["x", "y"]', "dropout=0", "corpus=2024"]
    )
    assert stated == Outer(Path("2024"), "last", True, 0.0, ("x", "y"), Inner(steps=20))


@pytest.mark.parametrize("first", ["finetune.epochs=2", "finetune={epochs=3}"])
def test_a_setting_that_is_typed_in_two_forms_is_refused(first):
    race, both = stand_in_of("race"), ["finetune.epochs=2", "finetune={epochs=3}"]
    with pytest.raises(ValueError, match=r"'epochs' is also given as [23]"):
        settings.override(race, [first, *(text for text in both if text != first)])
    whole = settings.override(race, ["finetune.plan={batch=8}", "finetune={epochs=5}"])
    assert (whole.finetune.plan.batch, whole.finetune.epochs) == (8, 5.0)


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("plan.stpes=3", r"command line: unknown setting 'plan\.stpes'; did you mean 'plan\.steps'\?"),
        ("paln.steps=3", r"unknown group of settings 'paln'; did you mean 'plan'\?"),
        ("choose=first", r"choose = 'first' is not one of 'best', 'last'"),
        ("choose=Lsat", r"'Lsat' is not one of 'best', 'last'; did you mean 'last'\?"),
        ("lower=1", r"lower = 1 is int, but must be bool"),
        ("plan.steps=true", r"plan\.steps = True is bool, but must be int"),
        ("plan.steps=1.5", r"plan\.steps = 1\.5 is float, but must be int"),
        ("plan.rate=5e-5x", r"plan\.rate = '5e-5x' is str, but must be float"),
        ("plan.rate=nan", r"plan\.rate = nan is not a finite number"),
        ("plan.rate=inf", r"plan\.rate = inf is not a finite number"),
        ("plan=3", r"plan = 3 is int, but must be Inner"),
        ("names=b", r"names = 'b' is not a list\. Write it as 'names=\[\.\.\.\]'"),
        ("steps", r"'steps' is not of the form key=value"),
        ("zzz=1", r"unknown setting 'zzz'\. Known: corpus, choose, lower, dropout, names, plan"),
    ],
)
def test_an_error_names_the_value_the_rule_and_the_way_out(assignment, said):
    with pytest.raises(ValueError, match=said):
        settings.override(Outer(), [assignment])


CLASSES = {name: about["module"] for name, about in schema()["classes"].items() if name != EVALUATION}


@pytest.mark.parametrize("name", CLASSES)
def test_each_range_that_a_recipe_states_is_checked_when_one_is_made(name):
    kind = getattr(importlib.import_module(CLASSES[name]), name)
    for key, allowed in settings.ranges_of(kind).items():
        beyond = {
            None if allowed.least is None else allowed.least - 1,
            None if allowed.most is None else allowed.most + 1,
            *(allowed.above, allowed.below, math.inf),
        }
        for number in beyond - {None, allowed.also}:
            value = (number,) if isinstance(getattr(kind(), key), tuple) else number
            said = f" is out of range| is not a finite number|: {allowed.why}"
            with pytest.raises(ValueError, match=rf"{key} = \S+({said})"):
                kind(**{key: value})


def test_what_has_no_default_must_be_given():
    @dataclass(frozen=True)
    class Needy:
        seed: int
        model: str

    with pytest.raises(ValueError, match=r"no value for 'seed', 'model'\. Add it: seed=VALUE"):
        settings.from_mapping(Needy, {})


@pytest.mark.parametrize(
    "name", ["plain", 'quote" and \\ backslash', "Grüße", "smile \U0001f642", "tab\tline\nend", "\x7f\x01", "日本"]
)
def test_toml_reads_back_the_same_recipe(name, tmp_path):
    recipe = Outer(Path(f"/data/{name}"), dropout=0.1, names=(name, "b"), plan=Inner(rate=1e-16))
    file = tmp_path / "recipe.toml"
    file.write_text(settings.to_toml(recipe), encoding="utf-8-sig")
    assert settings.from_toml(Outer, file) == recipe
    assert "dropout" not in tomllib.loads(settings.to_toml(Outer()))


def test_a_recipe_of_a_method_names_the_method_and_an_error_of_a_group_the_group():
    with pytest.raises(ValueError, match=r"tapter/bioasq: this recipe is for `acclimate adapt tapter`"):
        settings.from_toml(RaceRecipe, Path("tapter/bioasq"))
    with pytest.raises(ValueError, match=r"settings of tapt: epochs = \d+ and plan\.steps = 30 both set the length"):
        settings.override(for_model(), ["tapt.plan.steps=30"])


def test_a_digest_depends_on_values_and_not_on_order():
    assert settings.digest({"a": 1, "b": [2]}) == settings.digest({"b": [2], "a": 1})
    assert settings.digest({"a": 1}) != settings.digest({"a": 1.5})
    assert len(settings.digest({})) == 64


def test_keywords_are_settings_with_two_underscores_or_dots_or_as_groups():
    stated = {"plan__rate": 1, "plan": {"steps": 2}, "plan.batch": 3, "seeds": 4}
    assert settings.nested(stated) == {"plan": {"rate": 1, "steps": 2, "batch": 3}, "seeds": 4}
    assert settings.assignments_of(settings.nested({"a__b": "x", "c": [1, 2]})) == ['a.b="x"', "c=[1, 2]"]
    for twice in (
        {"plan": 1, "plan__rate": 2},
        {"plan.rate": 1, "plan": {"rate": 2}},
        {"plan__rate": 1, "plan.rate": 2},
    ):
        with pytest.raises(ValueError, match=r"'(plan|rate)' is also given as 1"):
            settings.nested(twice)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'steps = 1\nname = "\xff"', r"own\.toml:2: not UTF-8 .*Save the file in UTF-8"),
        (b"steps = " + b"[" * 20_000, r"own\.toml: nested too deeply"),
        (b"steps = " + b"1" * 5000, r"own\.toml: not valid TOML: Exceeds the limit"),
        (b"steps = 10000000000000000000000", r"own\.toml: steps = 10+ is out of range: at most 1,000,000,000,000,000"),
    ],
    ids=["bytes", "deep", "digits", "large"],
)
def test_a_recipe_that_no_reader_takes_is_named(content, said, tmp_path):
    path = tmp_path / "own.toml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said):
        settings.from_toml(Inner, path)


@pytest.mark.parametrize("stated", ["abc", "-1", "nan", "inf"])
def test_a_number_of_the_environment_is_named(stated, monkeypatch):
    monkeypatch.setenv("ACCLIMATE_SAVE_SECONDS", stated)
    with pytest.raises(ValueError, match=f"ACCLIMATE_SAVE_SECONDS={stated} in the environment is not a number"):
        settings.from_environment("ACCLIMATE_SAVE_SECONDS", 30.0)
