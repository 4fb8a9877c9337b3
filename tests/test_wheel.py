"""The README's commands run where nothing but the wheel is installed, in a folder of their own: `make dist` does it.

`make dist` builds wheel and source archive, checks them with twine, and installs the wheel alone into an environment,
whose Python the variable ACCLIMATE_WHEEL names.
"""

import ast
import csv
import os
import random
import re
import shlex
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import toys

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = os.environ.get("ACCLIMATE_WHEEL")
installed = pytest.mark.skipif(PYTHON is None, reason="`make dist` runs this with a wheel that is installed")
FOR_DEVELOPERS = ("test", "benchmarks", "notebooks", "docs", "dev")  # extras of which the package imports nothing
PUBLISHED_AS = {"sklearn": "scikit-learn"}
FEW = ["seeds=2", "search.rates=[]", "adapt_seeds=1", 'contestants=["DAPT", "TF-IDF"]', "finetune.looks=1"]
FEW += [f"{of}.{each}" for of in ("finetune", "dapt") for each in ("epochs=0", "plan.steps=6", "plan.batch=8")]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder that holds what the README's commands name, and a copy of the embedded encoder for its model."""
    place = tmp_path_factory.mktemp("newcomer")
    generator = random.Random(5)
    with open(place / "train.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["abstract", "topic"])
        writer.writerows([toys.text(topic, 14, generator), topic] for topic in [*toys.TOPICS] * 40)
    (place / "new.csv").write_text(f"abstract\n{toys.text('heart', 14, generator)}\n")
    (place / "abstracts").mkdir()
    texts = [toys.text(topic, 12, generator) for topic in [*toys.TOPICS] * 20]
    (place / "abstracts" / "texts.txt").write_text("\n".join(texts) + "\n")
    (place / "path" / "or").mkdir(parents=True)
    code = "import shutil; from acclimate.models.loading import FOLDER; shutil.copytree(FOLDER, 'path/or/hub-id')"
    python(place, code)
    return place


def run(place, *arguments):
    """What the command prints. The environment has no variable that leads to the source."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    kept |= {"HF_HUB_OFFLINE": "1", "ACCLIMATE_CACHE": str(place / "cache")}
    done = subprocess.run(arguments, cwd=place, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(arguments)}\n{done.stdout}{done.stderr}"
    return done.stdout


def python(place, code):
    return run(place, PYTHON, "-c", code)


def acclimate(place, *arguments):
    return run(place, str(Path(PYTHON).with_name("acclimate")), *arguments)


@pytest.mark.slow
@installed
def test_the_commands_of_the_readme_run_with_nothing_but_the_wheel(place):
    commands = re.findall(r"^acclimate (.*)$", README, re.M)
    assert [command.split()[0] for command in commands] == ["doctor", "race", "ship", "predict"]
    for command in commands:
        verb, *stated = shlex.split(command)
        acclimate(place, verb, *stated, *(["--max-tokens", "32", *FEW] if verb == "race" else []))
    assert (place / "runs" / "race" / "report.html").is_file()
    assert len((place / "labels.csv").read_text().splitlines()) == 2
    where = python(place, "import acclimate; print(acclimate.__file__)")
    assert not Path(where.strip()).is_relative_to(ROOT / "src")


@pytest.mark.slow
@installed
def test_the_python_of_the_readme_runs_with_nothing_but_the_wheel(place):
    """With settings that are small. pandas is not installed."""
    [code] = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
    settings = ", ".join(
        ["max_tokens=32", "out='runs/python'", "seeds=2", "contestants=['DAPT']", "search={'rates': []}"]
        + [f"{of}={{'epochs': 0, 'plan': {{'steps': 6, 'batch': 8}}}}" for of in ("finetune", "dapt")]
    )
    said = python(place, code.replace('budget="20min"', settings))
    assert "DAPT" in said


@pytest.mark.slow
@installed
def test_recipes_settings_and_version_are_in_the_wheel(place):
    names = [line.split()[0] for line in acclimate(place, "recipes").splitlines()]
    assert "tapter/bioasq" in names
    assert len(names) == len(list((ROOT / "src" / "acclimate" / "recipes").glob("*/*.toml")))
    more = ["corpus=abstracts/texts.txt", "model=embedded", "max_tokens=32", "epochs=0", "plan.steps=2", "plan.batch=8"]
    acclimate(place, "adapt", "mlm", "--recipe", "mlm/dapt-dga", *more, "--out", "runs/dapt")
    assert (place / "runs" / "dapt" / "checkpoint" / "model.safetensors").is_file()
    assert "rate" in acclimate(place, "settings", "mlm", "plan.rate")
    assert re.fullmatch(r"acclimate \d+\.\d+\.\d+\S*\n", acclimate(place, "--version"))


def test_every_file_that_is_no_code_is_among_the_data_of_the_package():
    package = ROOT / "src" / "acclimate"
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["acclimate"]
    files = [file.relative_to(package).as_posix() for file in package.rglob("*") if file.is_file()]
    data = [name for name in files if not name.endswith((".py", ".pyc", ".nbi", ".nbc"))]
    assert len(data) > 60
    assert not [name for name in data if not any(fnmatch(name, each) for each in listed)]


def test_every_package_that_is_imported_is_declared_and_every_declared_one_is_imported():
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {package(each) for each in about["dependencies"]}
    extras = {name: each for name, each in about["optional-dependencies"].items() if name not in FOR_DEVELOPERS}
    optional = {package(each) for several in extras.values() for each in several}
    imported: dict[str, bool] = {}  # package -> whether some module imports it as soon as it is loaded
    for file in (ROOT / "src").rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else names
            for name in {name.split(".")[0] for name in names} - {"acclimate", *sys.stdlib_module_names}:
                found = package(PUBLISHED_AS.get(name, name))
                first = node in tree.body
                imported[found] = imported.get(found, False) or first
    assert imported.keys() - needed - optional == set()
    assert {name for name, first in imported.items() if first} <= needed  # an extra is imported where it is used
    assert needed - imported.keys() == {"protobuf"}  # transformers reads spm.model with it


def package(requirement: str) -> str:
    """The name in a requirement, as registries compare names."""
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def test_links_of_the_readme_lead_somewhere_where_pypi_shows_them():
    links = re.findall(r"\]\(([^)]*)\)", README)
    assert len(links) > 20
    base = "https://github.com/acclimate-nlp/acclimate/"
    assert not [link for link in links if not link.startswith((base, "https://"))]
    named = [re.sub(r"^(blob|raw)/main/|#.*$", "", link.removeprefix(base)) for link in links if link.startswith(base)]
    assert not [name for name in named if not (ROOT / name).exists()]
