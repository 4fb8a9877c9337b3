"""Tables of finished studies, deleted and written again: the same bytes, and nothing is done for it."""

import json
import random
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

from acclimate import cli
from acclimate.core import files
from acclimate.jobs.lock import LOCK, write_lock
from acclimate.models.encoder import new_encoder, save_model
from acclimate.studies import FAILED
from acclimate.tasks.prepared import Prepared
from acclimate.text.corpus import write_corpus
from acclimate.text.documents import read_documents
from acclimate.text.vocabulary import train_tokenizer
from acclimate.training.plan import Plan
from toys import TOPICS, text

TUNING = [f"finetune.{setting}" for setting in ("looks=1", "epochs=0.0", "plan.steps=2", "plan.batch=8")]
TWO = '{train="two.csv", text="words", label="topic"}'
STILT = ["study", "stilt", "model", f'datasets=["one.jsonl", {TWO}]', "max_tokens=32", "seeds=2", "more_steps=none"]
STILT += ["intermediate.rate=1e30", *TUNING]  # first tasks diverge
EVALUATE = ["evaluate", "model", "one.jsonl", "seeds=2", "--max-tokens", "32", "search.rates=[]", *TUNING]
COMMANDS = {  # command, its tables
    "stilt": (STILT, "stilt.txt", "stilt.csv", "stilt.html"),
    "evaluate": (EVALUATE, "table.txt", "table.csv", "report.html"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory, toy_inputs) -> Path:
    """A model and three labelled files."""
    place = tmp_path_factory.mktemp("inputs")
    generator = random.Random(0)
    rows = [(text(topic, 14, generator), topic) for topic in [*TOPICS] * 30]
    for name, rows_of_file in (("one", rows[:42]), ("three", rows[60:])):
        lines = [json.dumps({"text": words, "label": topic}) for words, topic in rows_of_file]
        (place / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    (place / "two.csv").write_text("words,topic\n" + "".join(f"{words},{topic}\n" for words, topic in rows[20:60]))
    tokenizer = train_tokenizer(write_corpus(read_documents(toy_inputs / "domain.txt"), place / "corpus"), size=200)
    shape = {"layers": 1, "hidden": 16, "heads": 2, "vocabulary_size": 200, "longest": 48}
    save_model(new_encoder(**shape, pad=tokenizer.pad_token_id, seed=0), tokenizer, place / "model")
    return place


def typed(*arguments: str) -> Result:
    """What a command does; it reads itself in sys.argv."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["acclimate", *arguments])
        return CliRunner().invoke(cli.app, arguments)


@pytest.fixture(scope="module")
def ended(place, tmp_path_factory) -> Callable[[str], Path]:
    """The directory of one of the commands, given in the folder of the inputs."""
    runs = tmp_path_factory.mktemp("runs")

    @cache
    def end(name: str) -> Path:
        command, *_ = COMMANDS[name]
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(place)
            patch.setenv("ACCLIMATE_CACHE", str(runs / "cache"))
            done = typed(*command, "--out", str(runs / name))
        assert done.exit_code == (FAILED if name == "stilt" else 0), done.output
        return runs / name

    return end


@pytest.fixture
def run(ended, tmp_path, request) -> Path:
    """A study to do something to, at another place than where it ended."""
    return Path(shutil.copytree(ended(getattr(request, "param", "stilt")), tmp_path / "moved"))


@pytest.fixture
def nothing_is_done(monkeypatch) -> Callable[[], None]:
    """From when it is called on, no module of a model is made, and no label of a test set read."""

    def refuse() -> None:
        for owner, name in ((torch.nn.Module, "__init__"), (Prepared, "unseal")):
            monkeypatch.setattr(owner, name, lambda *_, **__: pytest.fail("something was done"))

    return refuse


def contents(run: Path) -> dict[str, bytes]:
    return {str(file.relative_to(run)): file.read_bytes() for file in sorted(run.rglob("*")) if file.is_file()}


ALL = [(name, arguments) for name, (_, *arguments) in COMMANDS.items()]


@pytest.mark.parametrize(("run", "tables"), ALL, indirect=["run"])
def test_tables_come_out_of_results_again(run, tables, nothing_is_done, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = contents(run)
    for name in tables:
        (run / name).unlink()
    nothing_is_done()
    done = typed("study", "regenerate", "moved")
    assert done.exit_code == 0, done.output
    assert "Written again from the results of moved." in done.output
    after = contents(run)
    assert sorted(after) == sorted(before)
    assert [name for name in after if after[name] != before[name] and name != ".lock"] == []


def test_cells_that_failed_fail_again(ended):
    told = " ".join((ended("stilt") / "stilt.txt").read_text().split())
    assert "two: one failed: fine-tune model on one as first task without 1 row, seed 0: " in told
    lock = files.read_json(ended("stilt") / LOCK)
    assert len(lock["begun"]) == 8  # each first task a seed, once without rows that hold items of the target
    assert all({*about} == {"label", "beside"} for about in lock["begun"].values())


def changed(run: Path, what: str) -> str:
    """Change something of a study; the label of the job."""
    job = next(path for path in sorted((run / "jobs").iterdir()) if (path / "result.json").exists())
    if what == "gone":
        (job / "result.json").unlink()
    else:
        value: dict[str, Any] = files.read_json(job / what)
        files.write_json(job / what, {**value, "more": 1})
    return str(files.read_json(job / "job.json")["label"])


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("result.json", "the result of {label} differs from the lock"),
        ("gone", "{label} no longer has a result"),
        ("clock.json", "clock.json of {label} is missing or changed"),
    ],
)
def test_a_result_that_is_not_the_locks_is_told_with_the_way_out(run, what, said):
    label = changed(run, what)
    before = contents(run)
    done = typed("study", "regenerate", str(run))
    assert done.exit_code == 2
    assert said.format(label=label) in done.output
    assert "give the command again: acclimate study stilt model" in done.output
    assert contents(run) == before


@pytest.mark.parametrize("run", ["evaluate"], indirect=True)
@pytest.mark.parametrize("pattern", ["data/train.jsonl", "data/test.jsonl", "corpora/*/documents.arrow"])
def test_verify_finds_a_changed_input_of_the_jobs(run, pattern):
    assert typed("study", "verify", str(run)).exit_code == 0
    [path] = run.glob(pattern)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    done = typed("study", "verify", str(run))
    assert done.exit_code == 1
    assert f"{path} is damaged" in done.output


@pytest.mark.parametrize("run", ["evaluate"], indirect=True)
@pytest.mark.parametrize("of", [slice(1, None), slice(0, -1), slice(0, 0)], ids=["first", "last", "all"])
def test_verify_finds_looks_that_were_removed_and_takes_later_ones(run, of):
    looks = run / "looks.jsonl"
    lines = looks.read_text().splitlines(keepends=True)
    looks.write_text("".join([*lines, lines[0]]))
    assert typed("study", "verify", str(run)).exit_code == 0
    looks.write_text("".join(lines[of]))
    for _ in range(2):
        done = typed("study", "verify", str(run))
        assert (done.exit_code, done.output.count("looks.jsonl: evaluations on test")) == (1, 1)
        write_lock(run, "acclimate evaluate", Plan())  # the same command, given again, does not hide it


@pytest.mark.parametrize("run", ["evaluate", "stilt"], indirect=True)
def test_pages_need_nothing_but_their_outcome(run, tmp_path):
    """Neither the jobs' weights nor the user's files, which may be elsewhere by then."""
    lock = files.read_json(run / LOCK)
    files.write_json(run / LOCK, {**lock, "directory": str(tmp_path / "nowhere")})
    for checkpoint in run.glob("jobs/*/checkpoint"):
        shutil.rmtree(checkpoint)
    shutil.rmtree(run / "data", ignore_errors=True)
    assert typed("study", "regenerate", str(run)).exit_code == 0


def test_an_outcome_that_is_not_the_locks_is_refused(run):
    path = run / "stilt.outcome.json"
    files.write_json(path, {**files.read_json(path), "title": "another"})
    done = typed("study", "regenerate", str(run))
    assert (done.exit_code, "stilt.outcome.json: is missing, or differs from the lock" in done.output) == (2, True)


def test_report_writes_the_tables_of_any_study_again(run):
    before = (run / "stilt.txt").read_text()
    (run / "stilt.txt").unlink()
    done = typed("report", str(run))
    assert done.exit_code == 0, done.output
    assert (run / "stilt.txt").read_text() == before
    assert "Scores on test" in done.output


def test_a_record_that_changed_since_the_lock_is_not_reported(run):
    record = next(run.glob("*.outcome.json"))
    record.write_text(record.read_text().replace('"dev": ', '"dev":  ', 1))
    done = typed("report", str(run))
    assert done.exit_code == 2
    assert f"{record.name} has changed since study.lock.json was written. Give the" in " ".join(done.output.split())
