"""A dry run where an earlier one left the speed of the model on this machine."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import toys
from acclimate import cli

# prints what a command loads of the libraries that train
SCRIPT = """
import sys
from acclimate.cli import app
try:
    app(sys.argv[1:])
finally:
    print("loaded:", *sorted({"torch", "transformers", "sklearn"} & set(sys.modules)))
"""
FURTHER = ["--corpus", "raw.txt", "--general", "general.txt", 'contestants=["DAPT+TAPT", "TAPTER", "DGA", "adapter"]']


def dry_run(place: Path, *arguments: str) -> tuple[str, list[str]]:
    """What `race --dry-run` prints, and which of these libraries it loads."""
    command = ["race", "train.csv", "--dry-run", *arguments]
    environment = {**os.environ, "ACCLIMATE_CACHE": str(place / "cache")}
    started = [sys.executable, "-c", SCRIPT, *command]
    done = subprocess.run(started, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
    said, _, loaded = done.stdout.rpartition("loaded:")
    return said, loaded.split()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with labelled rows and texts, in whose cache the speeds of both races are kept."""
    place, generator = tmp_path_factory.mktemp("dry"), random.Random(0)
    topics = [*toys.TOPICS]
    rows = [f"{toys.text(topic, 12, generator)},{topic}" for topic in topics * 40]
    (place / "train.csv").write_text("\n".join(["text,label", *rows]))
    for name in ("raw.txt", "general.txt"):
        texts = [toys.text(generator.choice(topics), 40, generator) for _ in range(100)]
        (place / name).write_text("\n".join(texts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCLIMATE_CACHE", str(place / "cache"))
        patch.chdir(place)
        for arguments in ([], FURTHER):
            done = CliRunner().invoke(cli.app, ["race", "train.csv", "--dry-run", *arguments])
            assert done.exit_code == 0, done.output
    return place


@pytest.mark.parametrize("arguments", [[], FURTHER], ids=["default", "further"])
def test_it_loads_no_library_that_trains_where_the_speed_is_known(place, arguments):
    said, loaded = dry_run(place, *arguments)
    assert "jobs are left" in said
    assert "from an earlier trial" in said
    assert loaded == []
