"""What a stranger may type, or have around a command: one entry a case, one clear line each, and nothing trained.

What is misspelt is refused in tests/test_start.py; the files themselves are tests/cli/test_bad_input.py's matter.
"""

import errno
import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_bad_input import Payload
from typer.testing import CliRunner

from acclimate import cli
from acclimate.core import files

Change = Callable[[Path], Any]  # made in the working directory before the command runs


@dataclass(frozen=True)
class Case:
    """command: after `acclimate`, in a folder with toy files and a checkpoint `base`; says: all that the line holds."""

    id: str
    command: str
    says: tuple[str, ...]
    before: Change = lambda place: None


RACE = "race train.jsonl --dev dev.jsonl --test test.jsonl --model base --max-tokens 32"
SHORT_TUNING = "finetune.preset=papers finetune.looks=1 finetune.epochs=0 finetune.plan.steps=1"
RETRIEVE = "data retrieve train.jsonl --dev dev.jsonl --test test.jsonl --corpus general.txt"


def pickled(place: Path) -> None:
    """A model directory whose weights are a pickle only."""
    (place / "base" / "model.safetensors").unlink()
    (place / "base" / "pytorch_model.bin").write_bytes(pickle.dumps(Payload()))


def with_code(place: Path) -> None:
    """A model directory that asks for its code to be run."""
    config = json.loads((place / "base" / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoModel": "modeling.Own", "AutoConfig": "modeling.OwnConfig"}}
    (place / "base" / "config.json").write_text(json.dumps(config))
    (place / "base" / "manifest.json").unlink()  # as a stranger's model has none
    (place / "base" / "modeling.py").write_text("import os\nos.system('touch ran')\n")


def other_data(place: Path) -> None:
    """The run directory has another training file's rows."""
    command = f"{RACE} --out run contestants=[] seeds=2 {SHORT_TUNING}"
    result = CliRunner().invoke(cli.app, command.split())
    assert "Use: " in result.output or result.exit_code == 0, result.output
    rows = (place / "train.jsonl").read_text().splitlines(keepends=True)
    (place / "train.jsonl").write_text("".join(rows[:-3]))


# command -> what its line holds
PLAIN = r"""
RACE metric=accuracy -> 'metric' is an option here | --metric accuracy
study blurb base --data . --max-tokens 32 -> --max-tokens: there is no such option | max_tokens=VALUE
evaluate train.jsonl base -> Put the model first | evaluate base train.jsonl
evaluate GAD owner/name --data . -> Put the model first | evaluate owner/name GAD
evaluate base arxiv --rows 3 -> 3 rows requested | one of every class
evaluate base train.jsonl --rows 1 -> 1 rows requested | one of every class
race train.jsonl --dev dev.jsonl --test test.jsonl --model some/model --max-tokens 32 -> some/model | HF_HUB_OFFLINE
race train.jsonl --dev dev.jsonl --test test.jsonl --model base --max-tokens 5000 -> 5000 | at most | --max-tokens 512
RACE --corpus base -> base
RACE --group patient -> patient
race arxiv --text abstract -> Remove the options for labelled files
ship base --to shipped -> base
data retrieve --corpus general.txt -> no FILE given | --from RUN --k NUMBER
data retrieve train.jsonl --dev dev.jsonl --test test.jsonl -> no corpus given | --corpus PATH
data retrieve --from base --k 3 -> base contains no selection | Name another run
data retrieve --from base -> --from base | --k and --out
data retrieve --from base --k 3 --how random -> only --k and --out
RETRIEVE --from base --k 3 -> only --k and --out
RACE --recipe bad.toml -> bad.toml | not valid TOML | line 1
RACE --corpus blank.txt -> blank.txt
RACE --out taken -> --out taken | taken is a file | Choose another
RACE --out taken/run -> --out taken/run | taken is a file | Choose another
"""
SHORT = {"RACE": RACE, "RETRIEVE": RETRIEVE}
CASES = [
    *(
        Case(command, re.sub("RACE|RETRIEVE", lambda name: SHORT[name[0]], command), tuple(says.split(" | ")))
        for command, says in (line.split(" -> ") for line in PLAIN.strip().splitlines())
    ),
    Case("weights as a pickle", RACE, ("base", "pickled weights", "can run code"), pickled),
    Case("a model with code", RACE, ("base", "code"), with_code),
    Case("other data", f"{RACE} --out run", ("has other data", "Choose another --out"), other_data),
]


@pytest.fixture
def place(toy_race, tmp_path, monkeypatch) -> Path:
    shutil.copytree(toy_race.inputs, tmp_path, dirs_exist_ok=True)
    for name, content in {"bad.toml": "seeds: 3\n", "blank.txt": "\n \n", "taken": ""}.items():
        (tmp_path / name).write_text(content)
    shutil.copytree(toy_race.base, tmp_path / "base")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_one_clear_line_and_nothing_trained(case, place):
    case.before(place)
    tuned = set(place.glob("run*/**/fine-tune*"))
    result = CliRunner().invoke(cli.app, case.command.split())
    assert result.exit_code == 2, result.output
    [line] = [line for line in result.output.splitlines() if line.startswith("acclimate: ")]
    assert all(words in line for words in case.says), line
    assert "Traceback" not in result.output
    assert set(place.glob("run*/**/fine-tune*")) == tuned
    assert not (place / "ran").exists()


def test_a_race_that_is_refused_leaves_the_directory_to_the_next_one(place):
    for tokens in (32, 24):
        refused = [*f"{RACE} --split-seed {tokens} --out kept".split(), 'contestants=["DAPT"]']
        result = CliRunner().invoke(cli.app, refused)
        assert result.exit_code == 2
        assert "DAPT needs raw text of the domain" in result.output
        assert not (place / "kept").exists()
    assert (place / "train.jsonl").exists()


def test_a_full_disk_is_one_line_and_the_same_command_goes_on_later(place, monkeypatch):
    command = f"{RACE} --out run contestants=[] seeds=2 {SHORT_TUNING}".split()
    real, written = files.write_bytes, []

    def full(path: Path, content: bytes) -> None:
        written.append(path)
        if len(written) > 15:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, content)

    monkeypatch.setattr(files, "write_bytes", full)
    result = CliRunner().invoke(cli.app, command)
    assert result.exit_code == 2
    assert "No space left on device" in result.output
    monkeypatch.setattr(files, "write_bytes", real)
    assert CliRunner().invoke(cli.app, command).exit_code == 0
    assert (place / "run" / "report.html").exists()


def test_a_home_that_cannot_be_written_stops_nothing(place, monkeypatch):
    (place / "home").write_text("a file, so that nothing can be made below it")
    monkeypatch.setenv("ACCLIMATE_CACHE", str(place / "home" / "cache"))
    command = f"{RACE} --out run contestants=['TF-IDF'] seeds=2 {SHORT_TUNING}"
    result = CliRunner().invoke(cli.app, command.split())
    assert result.exit_code == 0, result.output
    assert (place / "run" / "looks.jsonl").read_text().splitlines()


@pytest.mark.parametrize(
    ("number", "says"), [(errno.EROFS, "Read-only file system"), (errno.EACCES, "Permission denied")]
)
def test_a_directory_that_cannot_be_written_is_one_line(place, monkeypatch, number, says):
    real = os.mkdir

    def refused(path, *given, **named):
        if str(path).endswith("kept"):
            raise OSError(number, says, str(path))
        real(path, *given, **named)

    monkeypatch.setattr(os, "mkdir", refused)
    result = CliRunner().invoke(cli.app, f"{RACE} --out kept".split())
    assert result.exit_code == 2
    [line] = [line for line in result.output.splitlines() if line.startswith("acclimate: ")]
    assert says in line
    assert "kept" in line
    assert not (place / "kept").exists()
