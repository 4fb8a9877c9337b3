"""Is this working tree slower than another commit? The same commands in both, side by side, in processor seconds.

    python benchmarks/paired.py --base HEAD --rounds 5 [--only adapt-mlm predict]

Each turn is two processes of one thread, one of each tree, that run a command of acclimate from start to end at once,
imports included. Where there are two cores each has its own, and they change places every second round; what they share
(caches, memory) slows both, and the one that is left at the end a little less. Texts are this repository's own
documentation, so nothing has to be fetched. A command whose ratio lies above LIMIT with its whole interval ends the
program with status 1. Ten minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from page import table, tell
from turns import median_ratio, ratio_interval

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 1.03
LABELS = ("methods", "docs", "reports")
TUNED = ("seeds=2", "search.rates=[]", "finetune.epochs=1", "finetune.least_steps=0", "finetune.looks=1")
TUNED += ("finetune.retry=false",)
ADAPTED = ("plan.batch=8", "max_tokens=128", "epochs=0", "--out", "OUT")
FEW = 200  # lines that DGA measures the importance of heads on
# name -> the arguments of a command; "OUT" stands for a new place
COMMANDS = {
    "refused": ("race", "rows.csv", "sedes=3"),
    "doctor": ("doctor", "rows.csv"),
    "corpus": ("data", "corpus", "texts.txt", "--processes", "1", "--out", "OUT"),
    "retrieve": ("data", "retrieve", "rows.csv", "--corpus", "texts.txt", "--k", "50", "--out", "OUT"),
    "adapt-mlm": ("adapt", "mlm", "corpus=texts.txt", "plan.steps=30", *ADAPTED),
    "adapt-dga": ("adapt", "dga", "corpus=few.txt", "plan.steps=6", *ADAPTED),
    "evaluate": ("evaluate", "rows.csv", *TUNED, "--out", "OUT"),
    "probe": ("race", "rows.csv", "--probe-only", "contestants=[]", "--out", "OUT"),
    "predict": ("predict", "model", "rows.csv", "--out", "OUT.csv"),
}


def main() -> int:
    given = arguments()
    with tempfile.TemporaryDirectory() as directory, checked_out(given.base, Path(directory) / "base") as base:
        place = Path(directory) / "work"
        place.mkdir()
        write_texts(place)
        trees = {"base": base, "here": ROOT}
        if "predict" in given.only:
            taken([base], ("evaluate", "rows.csv", *TUNED, "--out", "OUT"), place)
            shutil.move(place / "0" / "use", place / "model")
        seconds = {(name, tree): list[float]() for name in given.only for tree in trees}
        for turn in range(-1, given.rounds):  # the first one compiles, and is not counted
            for name in given.only:
                order = [*trees] if turn % 2 else [*trees][::-1]
                spent = taken([trees[tree] for tree in order], COMMANDS[name], place)
                if turn >= 0:
                    for tree, of_tree in zip(order, spent, strict=True):
                        seconds[name, tree].append(of_tree)
            tell(f"{turn + 1} of {given.rounds} rounds")
    rows, slower = [], []
    for name in given.only:
        base_R, here_R = seconds[name, "base"], seconds[name, "here"]
        rows.append((name, f"{min(base_R):.2f}", f"{min(here_R):.2f}", median_ratio(here_R, base_R)))
        if ratio_interval(here_R, base_R)[1] > LIMIT:
            slower.append(name)
    print(table(("command", f"{given.base}, s", "here, s", "here by base [95%]"), rows))
    if slower:
        print(f"\nSlower than {given.base} by more than {LIMIT - 1:.0%}: {', '.join(slower)}")
    return 1 if slower else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", default="HEAD", help="the commit to compare with; by default the one checked out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[*COMMANDS], default=[*COMMANDS], metavar="NAME")
    return parser.parse_args()


@contextmanager
def checked_out(commit: str, place: Path) -> Iterator[Path]:
    """Yield a working tree of the commit."""
    git = ("git", "-C", str(ROOT), "worktree")
    subprocess.run([*git, "add", "--quiet", "--detach", str(place), commit], check=True)
    try:
        yield place
    finally:
        subprocess.run([*git, "remove", "--force", str(place)], check=True)


def write_texts(place: Path) -> None:
    """Write the lines of the documentation as raw text, and a part of them as rows labelled by their folder."""
    lines: list[str] = []
    rows: list[tuple[str, str]] = []
    folders = (ROOT / "docs" / "methods", ROOT / "docs", ROOT / "benchmarks" / "reports")
    for label, folder in zip(LABELS, folders, strict=True):
        for file in sorted(folder.glob("*.md")):
            found = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if len(line) > 60]
            lines += found
            rows += [(line, label) for line in found[:6]]
    for name, number in (("texts.txt", len(lines)), ("few.txt", FEW)):
        (place / name).write_text("\n".join(lines[:number]) + "\n", encoding="utf-8")
    with (place / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])


def taken(trees: Sequence[Path], arguments: Sequence[str], place: Path) -> list[float]:
    """Return the processor seconds of a command with the package of each working tree, all run at the same time."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    running = []
    for number, tree in enumerate(trees):
        out = place / str(number)
        shutil.rmtree(out, ignore_errors=True)
        command = [sys.executable, "-m", "acclimate", *(word.replace("OUT", str(out)) for word in arguments)]
        environment = os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        with out.with_suffix(".told").open("wb") as told:
            running.append(subprocess.Popen(command, cwd=place, env=environment, stdout=told, stderr=told))
        if len(cores) >= len(trees):
            os.sched_setaffinity(running[-1].pid, {cores[number]})
    spent = []
    for process in running:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        spent.append(used.ru_utime + used.ru_stime)
    for number, process in enumerate(running):
        if process.returncode != (2 if "sedes=3" in arguments else 0):
            printed = (place / f"{number}.told").read_text()
            raise SystemExit(f"{' '.join(arguments)}: status {process.returncode}\n{printed[-2000:]}")
    return spent


if __name__ == "__main__":
    raise SystemExit(main())
