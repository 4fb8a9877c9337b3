"""Killed at any moment and started again, a race ends with the bytes of one that was left alone."""

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from acclimate.core import files
from acclimate.core.types import Document
from acclimate.jobs.job import Job
from acclimate.jobs.run import done
from acclimate.methods.tuning.looks import BEST
from acclimate.models.encoder import new_encoder, save_model
from acclimate.races import work
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.tasks.prepared import prepare
from acclimate.text.corpus import write_corpus
from acclimate.text.vocabulary import train_tokenizer
from acclimate.training.plan import Plan
from killed import Copies
from torture import zygote
from toys import SIZES, outcome_without_seconds, race_command, write_inputs

STAGES = ("pretrain", "adapt", "fine-tune")  # in the order of a race

RUN = "run"
CLOCKS = {"clock.json", "wall.json"}  # hold seconds
OFTEN = {"ACCLIMATE_SAVE_SECONDS": "0.05"}  # a race of seconds saves no state otherwise


def test_a_race_killed_in_each_of_its_stages_ends_with_the_same_bytes(toy_race, tmp_path, capfd):
    """In children of this process, which has everything imported once `toy_race` is there."""
    write_inputs(tmp_path / "in")
    run, moments = tmp_path / RUN, random.Random(3)
    command = race_command(Path("in"), RUN, 'contestants=["TAPT", "TF-IDF"]', "seeds=1")

    def kill(after: float, stage: str = "") -> None:
        begun, until = zygote.start(command, tmp_path, environment=OFTEN), time.monotonic() + 60
        while stage and _unfinished(run) != stage and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(after)
        os.kill(begun.process, signal.SIGKILL)  # it was not waited for, so the id is still its own
        ended = begun.ended()
        assert ended.status == -signal.SIGKILL, ended

    with capfd.disabled():
        alone = zygote.run(command, tmp_path)
        assert alone.status == 0, alone
        expected = _results(run)
        shutil.rmtree(run)
        kill(0.3)
        hit = [_unfinished(run)]
        for stage in STAGES:
            kill(moments.uniform(0.0, 0.1), stage)
            hit.append(_unfinished(run))
        last = zygote.run(command, tmp_path, environment=OFTEN)
    assert last.status == 0, last
    assert _results(run) == expected
    assert set(hit) >= set(STAGES), hit


@pytest.fixture
def small(tmp_path: Path) -> dict[str, Any]:
    """A model of one layer, a corpus and a task, for jobs that take a fraction of a second."""
    inputs = write_inputs(tmp_path / "in")
    lines = (inputs / "domain.txt").read_text().splitlines()[:40]
    corpus = write_corpus((Document(str(number), line) for number, line in enumerate(lines)), tmp_path / "corpus")
    tokenizer = train_tokenizer(corpus, size=120)
    model = new_encoder(
        layers=1, hidden=8, heads=1, vocabulary_size=len(tokenizer), longest=64, pad=tokenizer.pad_token_id, seed=0
    )
    save_model(model, tokenizer, tmp_path / "model")
    paths = {split: inputs / f"{split}.jsonl" for split in SIZES}
    task = read_files(LabelledFiles(**paths, metric="macro_f1", max_tokens=16)).task()
    return {"model": tmp_path / "model", "corpus": corpus, "task": prepare(task, inputs, tmp_path / "task")}


def _fine_tuning(small: dict[str, Any], *, retry: bool = False) -> Job:
    plan = Plan(steps=2, batch=4, rate=1e-2, warmup=0.1)
    recipe = {"looks": 2, "epochs": 0.0, "retry": retry, "plan": vars(plan)}
    places = {"task": small["task"].path, "model": small["model"]}
    return Job("fine-tune", work.FINE_TUNE, {"recipe": recipe}, dict(small["task"].hashes), places)


def _fine_tuning_again(small: dict[str, Any]) -> Job:
    """It learns nothing in two steps, so that a second attempt follows, which makes the same writes as the first."""
    return _fine_tuning(small, retry=True)


def _adapting(small: dict[str, Any]) -> Job:
    plan = Plan(steps=3, batch=4, rate=1e-2, warmup=0.1)
    recipe = {"epochs": 0.0, "max_tokens": 16, "plan": vars(plan)}
    places = {"corpus": small["corpus"].path, "model": small["model"]}
    return Job("adapt", work.ADAPT, {"recipe": recipe, "method": "mlm"}, {"corpus": small["corpus"].hash}, places)


def _probing(small: dict[str, Any]) -> Job:
    places = {"task": small["task"].path, "model": small["model"]}
    return Job("probe", work.PROBE, {"precision": "float32"}, dict(small["task"].hashes), places)


@pytest.mark.parametrize(
    ("make", "least", "every"),
    [
        # killed before each write is slow
        (_fine_tuning, 60, 5),
        (_adapting, 15, 3),
        (_probing, 7, 2),
        pytest.param(_fine_tuning, 60, 1, marks=pytest.mark.slow),
        pytest.param(_adapting, 15, 1, marks=pytest.mark.slow),
        pytest.param(_probing, 7, 1, marks=pytest.mark.slow),
        # the default suite has test_a_run_killed_in_its_second_attempt_ends_with_the_same_bytes
        pytest.param(_fine_tuning_again, 120, 5, marks=pytest.mark.slow),
    ],
)
def test_a_job_killed_at_any_of_its_writes_ends_with_the_same_bytes(
    *, make, least, every, small, tmp_path, monkeypatch
):
    monkeypatch.setenv("ACCLIMATE_SAVE_SECONDS", "0")
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # the machine does not go down
    job, run = make(small), tmp_path / RUN
    with monkeypatch.context() as patch:
        copies = Copies(patch, [run, small["corpus"].path / "tokens"], tmp_path / "copies")
        done(job, run)
    expected = _job_files(job.directory(run))
    assert copies.number > least
    for number in range(0, copies.number, every):
        copies.put_back(number)
        done(job, run)
        assert _job_files(job.directory(run)) == expected, f"killed before write {number} of {copies.number}"


def test_what_a_kill_after_the_end_left_behind_is_removed(small, tmp_path):
    job = _fine_tuning(small)
    done(job, tmp_path / RUN)
    out = job.directory(tmp_path / RUN)
    (out / "result.json").unlink()
    (out / "state-000000003").mkdir()
    (out / ".state-000000004.tmp").mkdir()
    (out / BEST.format(3, 0)).write_bytes(b"")
    done(job, tmp_path / RUN)
    assert not [*out.glob("*state-*"), *out.glob(BEST.format("*", "*"))]


def _results(run: Path) -> dict[str, Any]:
    """All that must not depend on when a run was killed, by path."""
    kept: dict[str, Any] = {}
    for file in sorted((run / "jobs").rglob("*")) + sorted((run / "use").rglob("*")):
        if file.is_file() and file.name not in CLOCKS and not file.name.endswith(".tmp"):
            kept[str(file.relative_to(run))] = files.sha256_of(file)
    outcome = outcome_without_seconds(run)
    # seconds of pretraining; how Python was started; a race that is killed while it looks at the test set looks again
    del outcome["notes"], outcome["race"]["commands"], outcome["race"]["looks"]
    return kept | {"outcome": outcome}


def _job_files(out: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(out)): file.read_bytes()
        for file in sorted(out.rglob("*"))
        if file.is_file() and file.name not in CLOCKS and not file.name.endswith(".tmp")
    }


def _unfinished(run: Path) -> str:
    """The work of the job that is under way, or what comes before and after all jobs."""
    jobs = sorted((run / "jobs").glob("*/job.json"))
    for path in jobs:
        if not (path.parent / "result.json").exists():
            return str(json.loads(path.read_text())["work"]).rpartition(".")[2]
    return "between jobs, or after them" if jobs else "materials"
