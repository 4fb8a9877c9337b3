"""Several processes of a Ray cluster on one run, as torchrun has several of one machine:

python -m acclimate.on_ray --workers 4 --cluster auto adapt mlm model=MODEL corpus=DIR --out runs/dapt

What stands behind the options is a command of acclimate, which every process runs (Ray Train; docs/many-processes.md).
Where a process or a machine dies, all are started anew, and the run goes on from its last state.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from acclimate.core import machines as clusters

PATIENCE = 7 * 24 * 3600  # seconds that processes wait while the first makes tokens or a vocabulary


class CommandError(RuntimeError):
    """The command ended with a status that is not 0, which it would do again."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command on the cluster, and exit with its status."""
    options = _arguments(arguments)
    try:
        launch(
            options.command,
            processes=options.workers,
            cluster=options.cluster,
            gpu=options.gpu,
            threads=options.threads,
        )
    except CommandError as error:
        sys.exit(error.status)
    except ValueError as error:
        sys.exit(f"acclimate: {error}")


def launch(
    command: Sequence[str], *, processes: int, cluster: str, gpu: bool = False, threads: int = 1, again: int = 3
) -> None:
    """Run the command in `processes` processes that share a run.

    gpu      each process has one
    threads  processors that each of them claims
    again    how often they are started anew, at most, after one of them has died

    Raises CommandError where the command fails; ValueError where no cluster answers, where it has no room, and where
    Ray Train is not installed.
    """
    with _connected(cluster, processes * threads, processes if gpu else 0), TemporaryDirectory() as place:
        from ray.train import RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer
        from ray.train.v2.api.exceptions import WorkerGroupError

        trainer: Any = TorchTrainer(
            _run,
            train_loop_config={"command": [*command], "directory": str(Path.cwd()), "threads": threads},
            torch_config=TorchConfig(backend="nccl" if gpu else "gloo", timeout_s=PATIENCE),
            scaling_config=ScalingConfig(
                num_workers=processes, use_gpu=gpu, resources_per_worker={"CPU": threads, **({"GPU": 1} if gpu else {})}
            ),
            run_config=RunConfig(storage_path=place),  # Ray's records; those of acclimate are in the command's --out
        )
        for tries_left in reversed(range(again + 1)):
            try:
                trainer.fit()
                return
            except WorkerGroupError as error:
                causes = [*error.worker_failures.values()]
                deaths = [cause for cause in causes if not isinstance(cause, CommandError)]
                if not deaths:  # where there is one, the others fail for want of it
                    raise causes[0] from error
                if not tries_left:
                    raise
                died = f"a process has died ({type(deaths[0]).__name__})"
                print(f"acclimate: {died}; all are started again, {tries_left} more times at most", file=sys.stderr)


def _run(environment: Mapping[str, Any]) -> None:
    """Run the command in one of the processes that Ray Train has joined and given ranks, as torchrun does."""
    import traceback

    import torch

    from acclimate.cli import app

    torch.set_num_threads(environment["threads"])
    os.chdir(environment["directory"])
    sys.argv = ["acclimate", *environment["command"]]
    try:
        app()
    except SystemExit as end:
        if end.code:
            raise CommandError(end.code if isinstance(end.code, int) else 1) from None
    except Exception as error:  # the same again, however often it is started
        traceback.print_exc()
        raise CommandError(1) from error


@contextmanager
def _connected(cluster: str, processors: int, gpus: int) -> Iterator[None]:
    with clusters.workers(cluster):
        import ray

        try:
            import ray.train
        except ImportError as error:
            raise ValueError("Ray Train is not installed: pip install 'acclimate[ray]'") from error
        resources = ray.cluster_resources()
        for resource, number in (("CPU", processors), ("GPU", gpus)):
            if resources.get(resource, 0) < number:
                raise ValueError(
                    f"the cluster has {resources.get(resource, 0):g} {resource}, but the command needs {number}. "
                    "Lower --workers or --threads, or add machines to it"
                )
        yield


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m acclimate.on_ray",
        description="Run a command of acclimate in several processes of a Ray cluster.",
    )
    parser.add_argument("--workers", type=int, required=True, help="processes")
    parser.add_argument(
        "--cluster", default="auto", help="HOST:PORT of the head of the cluster, or auto: that of this machine"
    )
    parser.add_argument("--threads", type=int, default=1, help="processors per process")
    parser.add_argument("--gpu", action="store_true", help="one GPU per process")
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, help="the command, such as adapt mlm model=MODEL --out runs/dapt"
    )
    options = parser.parse_args(arguments)
    if not options.command:
        parser.error("add a command of acclimate after the options")
    if min(options.workers, options.threads) < 1:
        parser.error("--workers and --threads must be at least 1")
    return options


if __name__ == "__main__":
    main()
