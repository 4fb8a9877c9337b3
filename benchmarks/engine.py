"""What the study engine costs: against a plain loop, with two processes against one, and with thousands of jobs.

python benchmarks/engine.py --out benchmarks/reports/2026-11-22-engine.md
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from page import head, spread, table, tell, write
from turns import median_ratio

from acclimate.core.types import Document, unwatched
from acclimate.jobs.job import PLAN, Job, Work
from acclimate.jobs.run import do_all
from acclimate.jobs.where import Where, working
from acclimate.models.encoder import new_encoder, save_model
from acclimate.races import work
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.tasks.prepared import prepare
from acclimate.text.corpus import write_corpus
from acclimate.text.vocabulary import train_tokenizer
from acclimate.training.plan import Plan

HERE = Path(__file__).resolve()
WIDE = 100  # jobs that one job before them is needed by


def nap(*, out: Path, watch: Any, number: int, **needs: Path) -> dict[str, Any]:
    """A job of no time at all."""
    return {"number": number}


def main() -> None:
    given = arguments()
    if given.simulate:
        simulate(given.simulate, given.jobs, given.workers)
        return
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        job = fine_tuning(place, given)
        overhead = _overhead(job, place, given)
        speed = _speed(job, place, given)
        simulated = _simulated(place / "simulated", given)
    size = f"{given.size} encoder, {given.steps} steps of 16 rows, float32, 1 thread a process"
    write(
        given.out,
        [head("What the study engine costs", facts=[("fine-tunings", size)]), overhead, speed, simulated],
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="the report, Markdown")
    parser.add_argument("--size", default="2x128", help="layers x hidden of the encoder")
    parser.add_argument("--steps", type=int, default=100, help="of a fine-tuning")
    parser.add_argument("--pairs", type=int, default=10, help="of a fine-tuning in a loop and one by the engine")
    parser.add_argument("--batch", type=int, default=4, help="fine-tunings that one or two processes do")
    parser.add_argument("--rounds", type=int, default=3, help="of one process and two")
    parser.add_argument("--jobs", type=int, default=10_000, help="of the simulated study")
    parser.add_argument("--workers", type=int, default=2, help="of the simulated study")
    parser.add_argument("--simulate", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.out is None and given.simulate is None:
        parser.error("give --out")
    return given


def fine_tuning(place: Path, given: argparse.Namespace) -> Job:
    """A fine-tuning of a random encoder on made-up rows."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 6))) for _ in range(300)]
    texts = [" ".join(draw.choices(words, k=24)) for _ in range(400)]
    corpus = write_corpus((Document(str(number), text) for number, text in enumerate(texts)), place / "corpus")
    tokenizer = train_tokenizer(corpus, size=400)
    layers, hidden = map(int, given.size.split("x"))
    sizes = {"layers": layers, "hidden": hidden, "heads": 2, "vocabulary_size": len(tokenizer), "longest": 64}
    save_model(new_encoder(**sizes, pad=tokenizer.pad_token_id, seed=0), tokenizer, place / "model")
    paths = {split: place / f"{split}.jsonl" for split in ("train", "dev", "test")}
    for path in paths.values():
        rows = [{"text": text, "label": "yes" if words[0] in text else "no"} for text in draw.sample(texts, 200)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    read = read_files(LabelledFiles(**paths, metric="accuracy", max_tokens=48))
    task = prepare(read.task(), place, place / "task")
    plan = Plan(steps=given.steps, batch=16, rate=1e-3, precision="float32")
    recipe = {"looks": 2, "epochs": 0.0, "plan": vars(plan)}
    places = {"task": task.path, "model": place / "model"}
    return Job("fine-tune", work.FINE_TUNE, {"recipe": recipe}, dict(task.hashes), places)


def seeded(job: Job, number: int) -> list[Job]:
    recipe = job.settings["recipe"]
    return [
        replace(job, label=f"fine-tune {n}", settings={"recipe": {**recipe, "plan": {**recipe["plan"], "seed": n}}})
        for n in range(number)
    ]


def _overhead(job: Job, place: Path, given: argparse.Namespace) -> str:
    """By turns: whoever is second goes first in the next pair."""

    def plainly(run: Path, seeded_job: Job) -> None:
        seeded_job.work.do(out=run / "plain", watch=unwatched, **seeded_job.settings, **seeded_job.places)

    def by_engine(run: Path, seeded_job: Job) -> None:
        failed = do_all([seeded_job], run)
        assert not failed, failed

    ways = {"a plain loop": plainly, "the engine": by_engine}
    processor: dict[str, list[float]] = {name: [] for name in ways}
    wall: dict[str, list[float]] = {name: [] for name in ways}
    for pair, seeded_job in enumerate([job, *seeded(job, given.pairs)]):  # the first is not counted
        for name in [*ways] if pair % 2 else [*ways][::-1]:
            run = place / f"overhead-{pair}-{name[-4:]}"
            before = time.process_time(), time.perf_counter()
            ways[name](run, seeded_job)
            if pair:
                processor[name].append(time.process_time() - before[0])
                wall[name].append(time.perf_counter() - before[1])
            shutil.rmtree(run)
        tell(f"pair {pair} of {given.pairs}")
    rows = [(name, spread(processor[name], ".3f"), spread(wall[name], ".3f")) for name in ways]
    plain, engine = ways
    ratios = [
        (what, median_ratio(taken[engine], taken[plain])) for what, taken in (("processor", processor), ("wall", wall))
    ]
    return (
        "## Overhead\n\nThe same fine-tunings, one by one in this process: the job's function in a loop, and by\n"
        "`src/acclimate/jobs/run.py::do_all`, names, plan, marks and results included.\n\n"
        + table(("", "processor seconds: median (least to most)", "seconds on the wall"), rows)
        + "\n\n"
        + table(("time", "the engine by a plain loop within a pair: median [95% interval]"), ratios)
    )


def _speed(job: Job, place: Path, given: argparse.Namespace) -> str:
    """One process and two, the same fine-tunings; workers stand ready before the clock starts."""
    jobs = seeded(job, given.batch)
    taken: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(given.rounds):
        for workers in (1, 2) if turn % 2 else (2, 1):
            run = place / f"speed-{turn}-{workers}"
            with working(Where(workers=workers, threads=int(workers > 1))):
                do_all([replace(warm_job, label=f"warm {warm_job.label}") for warm_job in jobs[:workers]], run)
                begun = time.perf_counter()
                assert not do_all(jobs, run)
                taken[workers].append(time.perf_counter() - begun)
            shutil.rmtree(run)
        tell(f"round {turn + 1} of {given.rounds}")
    rows = [(f"{workers} process{'es' * (workers > 1)}", spread(taken[workers], ".2f")) for workers in taken]
    ratio = median_ratio(taken[1], taken[2], ".2f") if given.rounds > 1 else f"{taken[1][0] / taken[2][0]:.2f}"
    return (
        f"## Two processes\n\n{given.batch} fine-tunings, {given.rounds} rounds by turns.\n\n"
        + table(("", "seconds on the wall: median (least to most)"), rows)
        + f"\n\nOne process by two within a round: {ratio}."
    )


def _simulated(place: Path, given: argparse.Namespace) -> str:
    """A study of jobs that take no time: its driver is killed, and another goes on."""
    words = [sys.executable, str(HERE), "--simulate", str(place), "--jobs", str(given.jobs)]
    words += ["--workers", str(given.workers)]
    begun = time.perf_counter()
    driver = subprocess.Popen(words)
    jobs = place / "jobs"
    while driver.poll() is None and sum(1 for _ in jobs.glob("*")) < given.jobs // 3:
        time.sleep(0.5)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    killed = time.perf_counter() - begun
    done = sum(1 for _ in jobs.glob("*/result.json"))
    tell(f"killed with {done} done")
    before = {path: path.stat().st_mtime_ns for path in jobs.glob("*/result.json")}
    begun = time.perf_counter()
    told = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    resumed = time.perf_counter() - begun
    again = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    twice = sum(path.stat().st_mtime_ns != at for path, at in before.items())
    rows = [
        ("jobs", f"{given.jobs:,}"),
        ("done when the driver was killed", f"{done:,} in {killed:.0f} s"),
        ("done by the next", f"{given.jobs - done:,} in {resumed:.0f} s"),
        ("done twice", twice),
        ("seconds a job of the engine, the next's", f"{told['seconds'] / max(1, given.jobs - done):.4f}"),
        ("seconds to find that nothing is left", f"{again['seconds']:.2f}"),
        ("peak memory of the driver, MB", f"{told['driver'] / 1e6:,.0f}"),
        ("peak memory of the largest worker, MB", f"{told['worker'] / 1e6:,.0f}"),
        ("plan, MB", f"{(place / PLAN).stat().st_size / 1e6:.1f}"),
    ]
    return f"## A study of {given.jobs:,} jobs\n\nOne job in {WIDE} is needed by the {WIDE - 1} after it; " + (
        f"{given.workers} workers.\n\n{table(('', ''), rows)}"
    )


def simulate(place: Path, number: int, workers: int) -> None:
    """One session of it; says on the standard output what it took."""
    jobs: list[Job] = []
    for at in range(number):
        needs = {"first": jobs[at - at % WIDE]} if at % WIDE else {}
        jobs.append(Job(f"nap {at}", Work("nap", nap), {"number": at}, needs=needs))
    begun = time.perf_counter()
    with working(Where(workers=workers)):
        failed = do_all(jobs, place)
    assert not failed, failed
    took = time.perf_counter() - begun
    peaks = [resource.getrusage(who).ru_maxrss * 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(json.dumps({"seconds": took, "driver": peaks[0], "worker": peaks[1]}))


if __name__ == "__main__":
    main()
