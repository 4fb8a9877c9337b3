"""Every command of the README, docs/commands.md, the tutorial, the examples and the how-to pages is run here, on tiny
inputs: what a newcomer types has to work. Blocks marked as sh need a hub, a cluster or large data, and are not run.
"""

import csv
import random
import re
import shlex
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

import acclimate
import toys
from acclimate import cli
from acclimate.core.settings import override
from acclimate.methods import probe
from acclimate.models import loading
from acclimate.races.recipe import RaceRecipe
from search_files import write_toy

ROOT = Path(__file__).parents[1]
PAGES = ("docs/tutorial.md", "docs/examples.md")
NAVIGATION = (ROOT / "mkdocs.yml").read_text("utf-8")
HOW_TO = re.findall(r"[\w-]+\.md", NAVIGATION[NAVIGATION.index("- How to:") : NAVIGATION.index("- Methods:")])
PUSHES = ("shipping.md", "data.md")  # tests/methods/test_pages.py and tests/api/test_verbs.py check their Python


def blocks_of(*pages: str) -> list[tuple[str, str]]:
    """(language, content) of each block of code, in order; "": commands."""
    shown = "".join((ROOT / page).read_text("utf-8") for page in pages)
    return re.findall(r"^```(\w*)\n(.*?)^```", shown, re.M | re.S)


BLOCKS = blocks_of("README.md", "docs/commands.md")
COMMANDS = [line for kind, block in BLOCKS if not kind for line in block.splitlines() if line]
VERBS = [line for line in COMMANDS if line.startswith("acclimate ")]

TUNING = [setting for setting in toys.SETTINGS if setting.startswith("finetune")]
TUNING += ["finetune.plan.steps=4", "finetune.looks=1"]
RACING = [setting for setting in toys.SETTINGS if not setting.startswith(("pretrain", "contestants"))]
RACING += ["finetune.looks=1", *(f"{stage}.plan.steps=6" for stage in ("tapt", "dapt", "finetune"))]


pytestmark = pytest.mark.usefixtures("all_learn")


@pytest.fixture(scope="module")
def place(tmp_path_factory, toy_race) -> Path:
    """A directory that holds what the README's commands name."""
    place = toys.write_inputs(tmp_path_factory.mktemp("newcomer"))
    (place / "abstracts").mkdir()
    generator = random.Random(5)
    with open(place / "train.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["abstract", "topic"])
        writer.writerows([toys.text(topic, 14, generator), topic] for topic in [*toys.TOPICS] * 40)
    (place / "new.csv").write_text(f"abstract\n{toys.text('heart', 14, generator)}\n")
    for name, split in (("news", "dev"), ("reviews", "test")):
        shutil.copy(place / f"{split}.jsonl", place / f"{name}.jsonl")
    write_toy(place / "FOLDER")
    shutil.copy(place / "domain.txt", place / "abstracts" / "texts.txt")
    lacking = [f"{toys.text('heart', 12, generator)} acetyltransferase\n" for _ in range(12)]  # by the toy's vocabulary
    (place / "abstracts" / "more.txt").write_text("".join(lacking))
    (place / "blurb" / "biosses").mkdir(parents=True)  # of the thirteen one, as its publisher writes it
    for split in ("train", "dev", "test"):
        pairs = [(toys.text("soil", 8, generator), toys.text("heart", 8, generator)) for _ in range(12)]
        rows = ["\t".join((f"{split} {number}", *pair, str(number % 5))) for number, pair in enumerate(pairs)]
        written = "\n".join(["pair_id\tsent1\tsent2\tscore", *rows]) + "\n"
        (place / "blurb" / "biosses" / f"{split}.tsv").write_text(written)
    shutil.copytree(toy_race.base, place / "path" / "or" / "hub-id")
    shutil.copytree(toy_race.base, place / "small")  # in place of the embedded encoder, which is larger
    for name in ("LICENSE", "NOTICE"):
        shutil.copy(loading.FOLDER / name, place / "small")
    return place


def tiny(command: str) -> list[str]:
    """The command's arguments with settings for a toy in place of those that the README states."""
    arguments = with_toy_settings(command)
    if arguments.count("--max-tokens") > 1:
        place = arguments.index("--max-tokens")
        del arguments[place : place + 2]
    keys = [argument.partition("=")[0] if re.match(r"[\w.]+=", argument) else "" for argument in arguments]
    return [argument for at, argument in enumerate(arguments) if not keys[at] or keys[at] not in keys[at + 1 :]]


def with_toy_settings(command: str) -> list[str]:
    verb, *rest = shlex.split(command)[1:]
    if verb == "doctor":
        return [verb, *rest, "--max-tokens", "32"]  # tests/api/test_verbs.py has one
    if verb == "race":
        contestants = '["DAPT+TAPT"]' if "arxiv" in rest else '["TAPT", "TF-IDF"]'
        read = [setting for setting in RACING if "FOLDER" not in rest or "looks" not in setting]  # by a search task
        return [verb, *rest, "--max-tokens", "32", *read, f"contestants={contestants}"]
    if verb == "adapt" and rest[0] == "stilt":
        return [verb, *rest, *TUNING]
    if verb == "data" and rest[0] == "prepare":
        return [verb, *rest, "--max-tokens", "32"]
    if verb == "adapt" and rest[0] != "extend":  # which trains nothing
        return [verb, *rest, "plan.steps=3", "plan.batch=4", "max_tokens=32"]
    if verb == "study" and rest[0] == "stilt":
        few = ["seeds=2", "more_steps=none", 'datasets=["train.jsonl", "news.jsonl"]']
        return [verb, *rest, *TUNING, *few, "max_tokens=32"]
    if verb == "study" and rest[0] == "tlm":
        joint = [f"tlm.{setting.removeprefix('pretrain.')}" for setting in toys.SETTINGS if "pretrain" in setting]
        return [verb, *rest, "seeds=2", *joint, *(f"tlm.{setting}" for setting in TUNING), "--max-tokens", "32"]
    if verb == "evaluate":
        return [verb, *rest, *TUNING, "seeds=2", "--max-tokens", "32"]
    if verb == "analyse" and rest[0] == "importance":  # the toy was pretrained without dropout
        return [verb, *rest, "--max-tokens", "32", "--dropout", "0.1"]
    if verb == "study" and rest[0] == "blurb":
        return [verb, *rest, "max_tokens=32", "seeds=2", "search.epochs=[]", "search.rates=[]", *TUNING]
    return [verb, *rest]


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """One cache for all pages, so that speeds are measured once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def there(place, cache, monkeypatch) -> Path:
    """`place` as the working directory, with a small model in place of the embedded encoder and few fits a probe."""
    monkeypatch.setenv("ACCLIMATE_CACHE", str(cache))
    monkeypatch.setattr(loading, "FOLDER", place / "small")
    monkeypatch.setattr(probe, "STRENGTHS", probe.STRENGTHS[:2])
    monkeypatch.chdir(place)
    return place


def test_the_verbs_run_in_the_order_shown(there, tmp_path, monkeypatch):
    toys.few_papers(tmp_path / "papers", monkeypatch)
    assert len(VERBS) >= 8
    for command in VERBS:
        monkeypatch.setattr(sys, "argv", ["acclimate", *tiny(command)])  # which lock files and pages tell
        result = CliRunner().invoke(cli.app, tiny(command))
        assert result.exit_code == 0, f"{command}\n{result.output}"
    assert (there / "runs" / "three-seeds" / "report.html").exists()
    assert (there / "shipped" / "README.md").exists()
    assert (there / "labels.csv").read_text().startswith("row,predicted,probability")
    assert len((there / "labels.csv").read_text().splitlines()) == 2
    assert any("BIOSSES" in sheet.read_text() for sheet in (there / "runs" / "blurb").glob("*.csv"))
    assert (there / "runs" / "dapt" / "checkpoint" / "model.safetensors").exists()
    assert "Nothing was compared" in (there / "runs" / "dapt-scored" / "table.txt").read_text()


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_and_the_python_of_a_page_run(page, monkeypatch):
    for kind, block in blocks_of(page):
        if kind == "python":
            exec(compile(block, page, "exec"), {})
        for command in block.splitlines() if not kind else ():
            assert command.startswith("acclimate "), command
            typed = tiny(command)
            monkeypatch.setattr(sys, "argv", ["acclimate", *typed])
            result = CliRunner().invoke(cli.app, typed)
            assert result.exit_code == 0, f"{command}\n{result.output}"


@pytest.fixture(scope="module")
def typed() -> list[list[str]]:
    """Commands of how-to pages that have run: pages share some."""
    return []


@pytest.fixture
def type_in(there, typed, monkeypatch):
    """A function that runs a command in `there`, where the README's race and an adaptation have ended."""

    def run(command: str) -> None:
        words = tiny(command)
        if words in typed:
            return
        typed.append(words)
        monkeypatch.setattr(sys, "argv", ["acclimate", *words])
        result = CliRunner().invoke(cli.app, words)
        assert result.exit_code == 0, f"{command}\n{result.output}"

    for result, verb in (("race/use", "race"), ("dapt/checkpoint", "adapt mlm")):
        if not (there / "runs" / result).exists():
            run(next(command for command in VERBS if command.startswith(f"acclimate {verb}")))
    return run


@pytest.mark.parametrize("page", [page for page in HOW_TO if f"docs/{page}" not in PAGES])
def test_a_how_to_page_begins_with_a_command_and_its_commands_run(page, type_in):
    """Races are planned, not run: tests/races runs them."""
    blocks = blocks_of(f"docs/{page}")
    assert blocks[0][1].startswith("acclimate ")
    for kind, block in blocks:
        if kind == "python" and page not in PUSHES:
            exec(compile(block, page, "exec"), {})
        for command in block.splitlines() if not kind else ():
            own = " --text abstract --label topic" if "train.csv" in command and "--text" not in command else ""
            plan = " --dry-run" if command.startswith("acclimate race") and "--dry-run" not in command else ""
            type_in(command + own + plan)


def test_make_demo_races_on_the_embedded_dataset():
    """`make demo` itself installs everything first; what it then calls is what the test above runs."""
    said = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "acclimate race arxiv --out runs/demo " in said


def test_a_newcomer_reads_it_in_seventy_lines():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 70


def test_no_command_is_left_out():
    assert COMMANDS == VERBS


def test_the_python_shown_runs(there, tmp_path, monkeypatch, capsys):
    """On a part of the included dataset, in a separate directory and with settings for a toy."""
    [code] = [block for kind, block in BLOCKS if kind == "python"]
    toys.few_papers(tmp_path / "papers", monkeypatch)
    recipe = override(RaceRecipe(), [*toys.SETTINGS, 'contestants=["TAPT"]'])
    settings = {"recipe": recipe, "max_tokens": 32, "out": there / "runs" / "python"}
    monkeypatch.setattr(acclimate, "race", partial(acclimate.race, **settings), raising=False)
    exec(compile(code, "README.md", "exec"), {})
    *answer, predicted = capsys.readouterr().out.splitlines()
    with open(tmp_path / "papers" / "arxiv.csv", newline="") as file:
        assert predicted in {row["field"] for row in csv.DictReader(file)}
    table = " ".join((there / "runs" / "python" / "table.txt").read_text().split())  # where lines are wrapped
    assert all(line in table or line.startswith(("Report: ", "Warnings: ")) for line in answer)
