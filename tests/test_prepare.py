"""The verb `prepare`: the same task as a race makes of the same files, for a method that runs alone."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from acclimate import cli
from acclimate.data.gather import EXAMINATION
from acclimate.tasks.prepared import open_prepared


@pytest.fixture
def run(toy_inputs, tmp_path, monkeypatch):
    """Calls `acclimate` in a folder with labelled files; gives status and what it said."""
    for split in ("train", "dev", "test"):
        shutil.copy(toy_inputs / f"{split}.jsonl", tmp_path)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli.app, arguments)
        return result.exit_code, result.output

    return call


FILES = ("train.jsonl", "--dev", "dev.jsonl", "--test", "test.jsonl", "--max-tokens", "32")


def test_it_is_what_a_race_makes_of_the_same_files(run, toy_race):
    status, said = run("data", "prepare", *FILES, "--out", "got")
    assert status == 0, said
    made, raced = open_prepared(Path("got/data")), open_prepared(toy_race.run / "data")
    assert dict(made.hashes) == dict(raced.hashes)
    assert f"train {made.sizes['train']:,}" in said
    assert "Task: got/data" in said
    assert not made.looks()
    assert run("data", "prepare", *FILES, "--out", "got") == (0, said)


def test_rows_that_hold_a_test_text_are_told_and_dropped_on_request(run):
    held = Path("test.jsonl").read_text().splitlines()[0]
    with open("train.jsonl", "a") as file:
        file.write(held + "\n")
    status, said = run("data", "prepare", *FILES, "--out", "kept")
    assert status == 0, said
    assert "doctor: " in said
    assert json.loads(Path("kept", EXAMINATION).read_text())
    assert run("data", "prepare", *FILES, "--leaks", "drop", "--out", "dropped")[0] == 0
    sizes = [open_prepared(Path(run, "data")).sizes["train"] for run in ("kept", "dropped")]
    assert sizes[0] - sizes[1] >= 1
    texts = {example.text for example in open_prepared(Path("dropped/data")).examples("train")}
    assert json.loads(held)["text"] not in texts


def test_so_many_rows_are_drawn(run):
    assert run("data", "prepare", *FILES, "--rows", "12", "--out", "few")[0] == 0
    assert open_prepared(Path("few/data")).sizes["train"] == 12


def test_the_embedded_dataset_is_prepared(run):
    status, said = run("data", "prepare", "arxiv", "--max-tokens", "64", "--rows", "90", "--out", "got")
    assert status == 0, said
    prepared = open_prepared(Path("got/data"))
    assert (prepared.name, prepared.max_tokens, len(prepared.labels)) == ("arxiv", 64, 9)
    assert dict(prepared.sizes) == {"train": 90, "dev": 180, "test": 2_070}
    Path("arxiv").mkdir()
    status, said = run("data", "prepare", "arxiv", "--out", "other")
    assert status == 2, "a folder of this name is the user's"


def test_other_data_at_the_same_place_are_refused(run):
    assert run("data", "prepare", *FILES, "--out", "got")[0] == 0
    status, said = run("data", "prepare", "dev.jsonl", "--out", "got")
    assert status == 2
    assert "other data" in said


def test_a_task_in_place_of_a_file_is_told_what_it_is_made_of(run):
    assert run("data", "prepare", *FILES, "--out", "got")[0] == 0
    for given in ("got", "got/data", "got/data/train.jsonl"):
        status, said = run("evaluate", "somewhere", given)
        assert status == 2
        assert f"{given} belongs to a prepared task, whose test labels are sealed" in " ".join(said.split())
    status, said = run("adapt", "finetune", "model=somewhere", "task=got")
    assert status == 2
    assert "Give its task instead: got/data" in " ".join(said.split())


def test_a_file_in_place_of_a_task_is_told_how_to_make_one(run):
    status, said = run("adapt", "finetune", "model=somewhere", "task=train.jsonl")
    assert status == 2
    assert "acclimate data prepare train.jsonl --out runs/task" in " ".join(said.split())
