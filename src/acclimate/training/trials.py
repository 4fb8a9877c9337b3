"""How fast this machine trains a model: a short trial, whose result is kept for next time.

A trial trains masked language modelling for one small step and one larger step: about half a second of processor time
each. The difference between the two steps is the time a FLOP, and what is left of the small one is the time of an
update.

Where one thread computes, a trial counts the processor time of the program, so that other programs on a busy machine do
not change it. The time that the system takes to hand out memory is left out: a trial is the first to touch its memory,
which on a virtual machine can take longer than the step itself, while a training keeps its memory from step to step.
With several threads a trial measures seconds and divides them by the load of the machine. The cache holds speeds of an
idle machine; a forecast multiplies them by the present load. It also holds the device and the threads that PyTorch
computes with here, so that a speed that is known is found without importing torch.
"""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from acclimate.core import files, machines, ranks, settings
from acclimate.core.types import NOT_PREDICTED, Batch, Progress, Watch, unwatched
from acclimate.models.configuration import longest_of_config, usable_configuration
from acclimate.training.plan import Plan, device

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FIRST = 256  # tokens of the small step
MOST = 6_144  # tokens of the larger step at most: a few pieces of a CPU, after which the speed is that of a full step
SHORT = 0.1  # processor seconds, below which the system may not tell which were its own: it looks once a tick
SPENT = 0.4  # seconds that the larger step may take; with twice as many forecasts spread as far
SPIN = 0.25  # seconds in which `busy` computes
PREDICTED = 0.15  # of the tokens
KEPT, PYTORCH = "speeds", "pytorch"  # folders in core.files.cache()
# what decides the device and the threads of PyTorch, beside its version and the processors of this machine
ENVIRONMENT = ("ACCLIMATE_DEVICE", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_THREAD_LIMIT")
GPUS = Path("/proc/driver/nvidia/gpus")  # a folder for each
FORMAT = 9  # of a kept result: raise it where what a trial measures, or a field of it, changes


@dataclass(frozen=True)
class Speed:
    """What training a model takes on this machine.

    body, head  weights that each token, and each prediction, is multiplied by (models/encoder.py::weights_by_part)
    layers, hidden  of the model
    sparse      True if its head reads masked tokens alone; else it reads all
    seconds_per_flop, update_seconds  when the machine is idle; an update takes the same for every size of batch
    busy        how many times as long everything takes now, at least 1
    """

    body: int
    head: int
    layers: int
    hidden: int
    sparse: bool
    seconds_per_flop: float
    update_seconds: float
    busy: float = 1.0

    def flops(self, rows: float, mean: float, square: float, *, predicted: float = 0.0) -> float:
        """Return the FLOPs of training on so many rows, as models/encoder.py::training_flops counts them.

        mean, square  of the rows, the mean of their tokens and of the squares of these
        predicted     tokens of a row that the head reads
        """
        return rows * (6.0 * (self.body * mean + self.head * predicted) + 12.0 * self.layers * self.hidden * square)

    def seconds(self, flops: float, steps: float = 0.0) -> float:
        """Return the seconds that so many FLOPs take, in so many updates."""
        return self.busy * (flops * self.seconds_per_flop + steps * self.update_seconds)


def speed_of(
    make: Callable[[], PreTrainedModel],
    about: Mapping[str, Any],
    tokens: float,
    plan: Plan,
    *,
    watch: Watch = unwatched,
) -> Speed:
    """Return the speed of a model on rows of so many tokens, as an earlier trial of this machine showed it, or a trial.

    make   loads the model, if it is to be tried
    about  what of the model decides the speed, plain values
    plan   whose precision, pieces and recomputation count; watch: receives the speed
    """
    length = _padded_length(tokens)
    about = {**about, "tokens": length, "precision": plan.precision, "pieces": plan.piece_tokens}
    about |= {"recompute": plan.recompute}
    record, earlier = trial_record(about, lambda: vars(_tried(make(), round(length), plan)))
    speed = Speed(**record)
    predicted = length * (PREDICTED if speed.sparse else 1.0)
    a_second = length / (speed.seconds_per_flop * speed.flops(1, length, length**2, predicted=predicted))
    source = "from an earlier trial" if earlier else "tried"
    note = f"{a_second:,.0f} tokens per second in rows of about {length:.0f}, {source}"
    watch(Progress("speed of training", 0, 0, "steps", {"note": note}))
    return speed


def _tried(model: PreTrainedModel, length: int, plan: Plan) -> Speed:
    """Return the speed of the model in one small and one larger step. The model is changed, so it is thrown away."""
    from acclimate.models.encoder import weights_by_part
    from acclimate.models.heads import has_sparse_head
    from acclimate.training.loop import adamw, train
    from acclimate.training.objective import MaskedLanguageLoss

    objective, plan = MaskedLanguageLoss(model), replace(plan, steps=1, compile=False)
    optimiser = adamw(objective, plan)
    sizes = (*weights_by_part(model), model.config.num_hidden_layers, model.config.hidden_size, has_sparse_head(model))

    def step(rows: int) -> tuple[float, float, int]:
        batch = random_rows(rows, length, model.config.vocab_size)
        with clock() as timer:
            [result] = train(objective, lambda _: batch, plan, optimiser)
        return timer(), result.flops, result.tokens

    length = min(length, longest_of_config(model.config) or length)
    few = max(2, round(FIRST / length))
    step(few)  # allocates memory and the optimiser's state
    small_seconds, small_flops, small_tokens = step(few)
    # all processes of torchrun share the larger step too
    many = ranks.agree(max(2 * few, round(min(MOST, SPENT / max(small_seconds, 1e-4) * small_tokens) / length)))
    seconds, flops, _ = step(many)
    seconds_per_flop = (seconds - small_seconds) / (flops - small_flops)
    if seconds_per_flop <= 0:  # the clock was disturbed
        return Speed(*sizes, seconds / flops, 0.0)
    return Speed(*sizes, seconds_per_flop, max(0.0, small_seconds - seconds_per_flop * small_flops))


def random_rows(rows: int, length: int, vocabulary: int) -> Batch:
    """Return rows of random ids, PREDICTED of which are predicted."""
    generator = np.random.default_rng(rows)
    ids = generator.integers(0, vocabulary, rows * length)
    masked = np.where(generator.random(len(ids)) < PREDICTED, ids, NOT_PREDICTED)
    return Batch(ids, np.arange(rows + 1) * length, {"labels": masked})


@contextlib.contextmanager
def clock() -> Iterator[Callable[[], float]]:
    """Yield a function that returns, after the block, the seconds that it would take on this machine when idle."""
    import torch

    alone = device().type == "cpu" and torch.get_num_threads() == 1
    load = 1.0 if alone or device().type != "cpu" else busy()
    wall, own, total_time = time.perf_counter(), _own(), time.process_time()
    ended: list[float] = []
    yield lambda: ended[0]
    if device().type == "cuda":
        torch.cuda.synchronize()
    if alone:
        together = time.process_time() - total_time
        ended.append(together if together < SHORT else _own() - own)
    else:
        ended.append((time.perf_counter() - wall) / load)


def _own() -> float:
    """Return the processor seconds that this process has computed, without those of the system for it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def busy() -> float:
    """Return how many times as long a computation takes here now as on the machine when idle, at least 1."""
    if computing()["device"] != "cpu":
        return 1.0
    wall, processor = time.perf_counter(), time.thread_time()
    while time.perf_counter() - wall < SPIN:
        pass
    return max(1.0, (time.perf_counter() - wall) / max(time.thread_time() - processor, 1e-6))


def trial_record(about: Mapping[str, Any], measure: Callable[[], Mapping[str, Any]]) -> tuple[dict[str, Any], bool]:
    """Return what was measured for `about` on this machine, and True if it was kept from an earlier time.

    about: what decides the speed beside processor, threads, device, processes and the version of PyTorch, plain values
    """
    conditions = {
        "machine": _machine(),
        **computing(),
        "processes": ranks.world(),  # they share the machine, and each step
        "torch": version("torch"),
        "format": FORMAT,
        **about,
    }
    record = ranks.agree(_kept(KEPT, conditions) if ranks.is_first() else None)  # all of torchrun measure, or none
    if record is not None:
        return record, True
    measured = dict(measure())
    if ranks.is_first():
        _keep(KEPT, conditions, measured)
    return measured, False


def computing() -> dict[str, Any]:
    """Return the device that PyTorch computes on and the number of its threads.

    They are kept under all that decides them. So a process that has not loaded torch reads what an earlier one found.
    """
    environment = {name: os.environ.get(name) for name in ENVIRONMENT}
    gpus = sorted(gpu.name for gpu in GPUS.iterdir()) if GPUS.is_dir() else []
    conditions = {"machine": _machine(), "torch": version("torch"), "environment": environment, "gpus": gpus}
    record = _kept(PYTORCH, conditions)
    if record is not None and "torch" not in sys.modules:
        return record
    import torch

    where = device()
    name = torch.cuda.get_device_name(where) if where.type == "cuda" else where.type
    computer = {"device": name, "threads": torch.get_num_threads()}
    if record is None:
        _keep(PYTORCH, conditions, computer)
    return computer


def _machine() -> list[str | int]:
    return [platform.node(), platform.machine(), machines.processors()]


def _kept(folder: str, conditions: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what was kept under these conditions; None if there is nothing that can be read."""
    path = files.cache() / folder / f"{settings.digest(conditions)[:16]}.json"
    with contextlib.suppress(files.DamagedError):
        return dict(files.read_object(path, names=("measured",))["measured"]) if path.exists() else None
    return None


def _keep(folder: str, conditions: Mapping[str, Any], measured: Mapping[str, Any]) -> None:
    path = files.cache() / folder / f"{settings.digest(conditions)[:16]}.json"
    with contextlib.suppress(OSError):  # a forecast works without a cache
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_json(path, {"of": conditions, "measured": measured})


def _padded_length(length: float) -> float:
    """Return a length of rows in steps of a quarter octave, so that tasks of like lengths share a trial."""
    return float(round(2 ** (round(4 * np.log2(max(length, 1.0))) / 4), 1))


def model_key(model: str | Path) -> str:
    """Return what of a model decides its speed: a digest of its configuration, without names and labels.

    Dropout counts: at 0 nothing is drawn, and attention takes another kernel.
    """
    configuration = usable_configuration(model).to_dict()
    ignored = ("_name_or_path", "transformers_version", "id2label", "label2id", "architectures")
    return settings.digest({name: str(value) for name, value in configuration.items() if name not in ignored})[:16]
