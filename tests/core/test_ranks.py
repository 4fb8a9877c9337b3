"""Alone, all about several processes is trivial; several are tested in tests/training/test_loop_ranks.py, too."""

import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from acclimate.core import ranks

STATED = dict.fromkeys(("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"), "")


def test_one_process_is_the_first_of_one_and_agrees_with_itself(monkeypatch):
    for name in STATED:
        monkeypatch.delenv(name, raising=False)
    ranks.start()
    assert (ranks.world(), ranks.rank(), ranks.is_first()) == (1, 0, True)
    value = {"a": [1]}
    assert ranks.agree(value) is value
    assert ranks.total([1.5, 2.0]) == [1.5, 2.0]
    made = []
    assert ranks.first_then_all(lambda: made.append(1) or len(made)) == 1
    ranks.require_same("the run", value)
    ranks.stop()


@pytest.mark.parametrize("world", ["", "1"])
def test_a_process_alone_is_the_first_whatever_rank_the_environment_states(world, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", world)
    assert (ranks.rank(), ranks.is_first()) == (0, True)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE=two in the environment is not a whole number"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE=0 in the environment is not a whole number"),
        ({"WORLD_SIZE": "2", "RANK": "-1", "MASTER_ADDR": "a", "MASTER_PORT": "1", "LOCAL_RANK": "0"}, "RANK=-1"),
        (
            {"WORLD_SIZE": "2"},
            r"RANK, LOCAL_RANK, MASTER_ADDR, MASTER_PORT not set. Start them with torchrun, or unset",
        ),
        (
            {"WORLD_SIZE": "2", "RANK": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1", "LOCAL_RANK": "0"},
            "RANK=2 too larg",
        ),
    ],
)
def test_an_environment_that_states_half_of_a_group_is_refused(environment, said, monkeypatch):
    for name, value in (STATED | environment).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=said):
        ranks.start()


def test_more_processes_than_gpus_are_refused_and_a_cpu_that_is_asked_for_is_taken(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert not ranks._uses_gpus()  # the tests ask for a CPU
    monkeypatch.delenv("ACCLIMATE_DEVICE")
    assert ranks._uses_gpus()
    told = {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="process 2 of this machine has no GPU: PyTorch finds 1"):
        ranks.start()


def _free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def _in_two(place: Path, work: Callable[[int], object]) -> list[str]:
    """Return what two processes that `fork` makes say: what `work` returns for each rank, or its error; "" of one that
    was ended.
    """
    port = _free_port()

    def run(number: int) -> None:
        stated = {"WORLD_SIZE": "2", "RANK": str(number), "LOCAL_RANK": str(number), "MASTER_PORT": port}
        os.environ.update(stated | {"MASTER_ADDR": "127.0.0.1", "ACCLIMATE_STEP_SECONDS": "1"})
        try:
            ranks.start()
            said = work(number)
        except RuntimeError as error:
            said = ranks.unanswered(error)
        except ValueError as error:
            said = error
        (place / f"{number}.txt").write_text(str(said))
        os._exit(0)  # a group that has failed cannot be left in order

    processes = [multiprocessing.get_context("fork").Process(target=run, args=(number,)) for number in (0, 1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    files = [place / f"{number}.txt" for number in (0, 1)]
    return [file.read_text() if file.exists() else "" for file in files]


def test_processes_with_different_settings_are_refused_with_the_difference(tmp_path):
    def differ(number: int) -> None:
        ranks.require_same("the run", {"seed": 1})
        ranks.require_same("the run", {"seed": 1, "plan.steps": 10 + number})

    said = _in_two(tmp_path, differ)
    assert said[0] == said[1]
    assert said[0].startswith("the run: the processes differ: plan.steps is 10 in rank 0, but 11 in rank 1")


def test_a_rank_that_does_not_answer_is_named_and_the_first_may_work_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr(ranks, "ANSWER_SECONDS", 0.3)

    def wait(number: int) -> object:
        ranks.first_then_all(lambda: time.sleep(1.3) if number == 0 else None)  # longer than a step may take
        return ranks.total([1.0]) if number == 0 else time.sleep(2.5)

    said = _in_two(tmp_path, wait)[0]
    assert said.startswith("Process 0 of 2 received no answer from process 1."), said


def _stopped_or_waiting(place: Path, port: str, lost: int, how: signal.Signals, number: int) -> None:
    stated = {"WORLD_SIZE": "2", "RANK": str(number), "LOCAL_RANK": str(number), "MASTER_PORT": port}
    os.environ.update(stated | {"MASTER_ADDR": "127.0.0.1", "ACCLIMATE_STEP_SECONDS": "2"})
    sys.stderr = (place / f"{number}.txt").open("w")
    ranks.start()
    ranks.wait()  # until the other has started, too
    if number == lost:
        time.sleep(0.5)  # in which the other hears of it
        os.kill(os.getpid(), how)
    elif how == signal.SIGKILL:
        time.sleep(20.0)  # it asks nothing of the others, as while it reads rows
    ranks.wait()


@pytest.mark.parametrize(("lost", "how"), [(1, signal.SIGSTOP), (0, signal.SIGSTOP), (0, signal.SIGKILL)])
def test_a_rank_that_is_lost_outside_a_step_is_named_by_the_other_also_if_it_keeps_the_store(lost, how, tmp_path):
    context = multiprocessing.get_context("fork")
    given = tmp_path, _free_port(), lost, how
    both = [context.Process(target=_stopped_or_waiting, args=(*given, number)) for number in (0, 1)]
    for process in both:
        process.start()
    other = 1 - lost
    both[other].join(60)
    both[lost].kill()
    assert both[other].exitcode == 2
    said = f"acclimate: Process {other} of 2 received no answer from process {lost}. Stop"
    assert (tmp_path / f"{other}.txt").read_text().startswith(said)


def test_a_rank_that_is_lost_while_they_start_is_no_traceback(monkeypatch):
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_PORT", str(_free_port()))  # where nobody listens
    monkeypatch.setenv("ACCLIMATE_STEP_SECONDS", "1")
    with pytest.raises(ValueError, match="process 1 of 2 lost another process at start-up"):
        ranks.start()


def _first_ends_before(port: str, number: int) -> None:
    stated = {"WORLD_SIZE": "2", "RANK": str(number), "LOCAL_RANK": str(number), "MASTER_PORT": port}
    os.environ.update(stated | {"MASTER_ADDR": "127.0.0.1", "ACCLIMATE_STEP_SECONDS": "4"})
    ranks.start()
    ranks.wait()
    if number:
        time.sleep(2.0)
    ranks.stop()


def test_where_the_rank_that_keeps_the_store_has_come_to_its_end_the_other_does_too():
    context, port = multiprocessing.get_context("fork"), _free_port()
    both = [context.Process(target=_first_ends_before, args=(port, number)) for number in (0, 1)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]


def test_a_rank_ends_with_what_launched_it(monkeypatch):
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    ranks._end_with(os.getppid() + 1)
    assert ended == [1]
