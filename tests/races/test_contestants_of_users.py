"""A user's method: found by its file, done by other processes, refused where they could not load it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acclimate.api import verbs
from acclimate.cli import main
from acclimate.core import settings
from acclimate.jobs.job import Job
from acclimate.jobs.run import done
from acclimate.jobs.where import Where, working
from acclimate.methods import METHODS, Contestant, Method, mlm
from acclimate.methods.method import load_method
from acclimate.races.contestants import enter
from acclimate.races.race import recipe_for
from acclimate.races.recipe import RaceRecipe, stated_methods, with_methods

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_method.py"
SHORT = ("focal.max_tokens=32", "focal.epochs=0", "focal.plan.steps=2", "focal.plan.batch=8")


@pytest.fixture
def typed(tmp_path: Path) -> str:
    """As it is typed: a copy of the example, under a name that no other test imports."""
    place = tmp_path / f"{tmp_path.name}.py"
    place.write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    return f"{place}::FOCAL"


@pytest.fixture(scope="module")
def materials(toy_race: Any) -> Any:
    return replace(toy_race.materials, model=str(toy_race.base))


def stated(typed: str, *more: str) -> RaceRecipe:
    assignments = [f'contestants=["TAPT", "{typed}"]', *SHORT, *more]
    return settings.override(recipe_for("model", stated_methods(assignments)), assignments)


def focal(recipe: RaceRecipe, materials: Any) -> Job:
    job = enter(recipe, materials).models["focal TAPT"]
    assert job is not None
    return job


def test_a_file_names_a_method_on_the_command_line_and_a_recipe_states_its_settings(typed, tmp_path):
    recipe = stated(typed, "focal.gamma=1")
    assert recipe.contestants == ("TAPT", "focal TAPT")
    assert recipe.focal.gamma == 1
    (tmp_path / "race.toml").write_text(f'contestants = ["{typed}"]\nfocal = {{gamma = 3.0}}\n')
    methods = stated_methods([f'contestants=["{typed}"]'])
    base = with_methods(methods, RaceRecipe())
    found = settings.from_toml(type(base), tmp_path / "race.toml", base=base)
    assert (found.contestants, found.focal.gamma) == (("focal TAPT",), 3.0)
    with pytest.raises(ValueError, match=r"unknown setting 'focal\.gama'; did you mean 'focal\.gamma'"):
        stated(typed, "focal.gama=1")


def test_python_takes_names_methods_and_files(typed):
    method = load_method(typed)
    assert verbs._race_recipe(["DAPT", method], None, None, {})[0].contestants == ("DAPT", "focal TAPT")
    assert verbs._race_recipe(["DAPT", typed], None, "model", {})[0].contestants == ("DAPT", "focal TAPT")
    with pytest.raises(ValueError, match=r"'TATP' is not one of .* did you mean 'TAPT'"):
        verbs._race_recipe(["TATP", method], None, None, {})


def test_a_change_of_its_file_is_another_job(typed, materials):
    before = focal(stated(typed), materials)
    with open(typed.partition("::")[0], "a", encoding="utf-8") as file:
        file.write("# changed\n")
    after = focal(stated(typed), materials)
    assert before.name != after.name
    assert before.settings == after.settings


def test_a_method_of_no_file_works_here_and_is_refused_elsewhere(materials, tmp_path):
    def adapt(recipe: mlm.MlmRecipe, out: Path, *, watch: Any) -> Any:
        return mlm.adapt(recipe, out, watch=watch)

    local = Method("local", mlm.MlmRecipe, adapt, contestants=(Contestant("local", "task"),))
    usual, _ = verbs._race_recipe([local], None, "model", {})
    recipe = settings.override(usual, [each.replace("focal", "local") for each in SHORT])
    job = enter(recipe, materials).models["local"]
    assert job is not None
    assert done(job, tmp_path)["steps"] == 2
    with (
        working(Where(workers=2)),
        pytest.raises(ValueError, match=r"local is not a named value of a file.* remove --workers"),
    ):
        enter(recipe, materials)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "mlm"}, "a method named 'mlm' already"),
        ({"name": "dapt"}, "a method named 'dapt' already"),
        ({"contestants": ()}, "has no contestants, so it cannot race"),
        ({"contestants": (Contestant("TAPT", "task"),)}, "'TAPT' is already a contestant of the method 'mlm'"),
    ],
)
def test_names_that_are_taken_are_refused(changes, message):
    method_of_user = Method("mine", mlm.MlmRecipe, mlm.adapt, contestants=(Contestant("mine", "task"),))
    with pytest.raises(ValueError, match=message):
        with_methods({"mine": replace(method_of_user, **changes)}, RaceRecipe())


def test_a_recipe_that_lacks_what_a_race_sets_is_refused():
    with pytest.raises(ValueError, match="ExtendRecipe has no field 'max_tokens', which the contestant mine needs"):
        replace(METHODS["extend"], contestants=(Contestant("mine", "task"),))


def test_what_is_no_method_is_refused():
    with pytest.raises(ValueError, match="has no Method named"):
        stated_methods([f'contestants=["{EXAMPLE}::main"]'])


def test_code_that_only_a_recipe_names_is_not_run(typed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "strange.py").write_text("open('ran', 'w')", encoding="utf-8")
    (tmp_path / "strange.toml").write_text('contestants = ["strange.py::Y"]', encoding="utf-8")
    rows = [f"word{row} of a text,{row % 2}" for row in range(60)]
    (tmp_path / "train.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    for named in ("", f'contestants=["{typed}", "TAPT"]'):  # the second overrides the recipe's
        command = ["race", "train.csv", "--recipe", "strange.toml", "--out", "out", "--dry-run", *filter(None, [named])]
        monkeypatch.setattr("sys.argv", ["acclimate", *command])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 2
        assert "strange.py::Y" in capsys.readouterr().err
        assert not (tmp_path / "ran").exists()
