"""Is this working tree slower than another commit? The same commands in both, in turns, in processor seconds.

    python benchmarks/paired.py --base HEAD --rounds 5 [--only adapt-mlm predict]

Each turn is a process of one thread that runs one command of acclimate from start to end, imports included; their order
is turned every second round. Texts are this repository's own documentation, so nothing has to be fetched. A command
whose ratio lies above LIMIT with its whole interval ends the program with status 1.
Under twenty minutes on two idle cores.
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
# name -> the arguments of a command; "OUT" stands for a new folder
COMMANDS = {
    "refused": ("race", "rows.csv", "sedes=3"),
    "doctor": ("doctor", "rows.csv", "--no-forecast"),
    "corpus": ("data", "corpus", "texts.txt", "--processes", "1", "--out", "OUT"),
    "retrieve": ("data", "retrieve", "rows.csv", "--corpus", "texts.txt", "--k", "50", "--out", "OUT"),
    "adapt-mlm": ("adapt", "mlm", "corpus=texts.txt", "plan.steps=30", *ADAPTED),
    "adapt-dga": ("adapt", "dga", "corpus=few.txt", "plan.steps=6", *ADAPTED),
    "evaluate": ("evaluate", "rows.csv", *TUNED, "--out", "OUT"),
    "probe": ("race", "rows.csv", "--probe-only", "contestants=[]", "--out", "OUT"),
    "predict": ("predict", "model", "rows.csv", "--out", "predicted.csv"),
}


def main() -> int:
    given = arguments()
    with tempfile.TemporaryDirectory() as directory, checked_out(given.base, Path(directory) / "base") as base:
        place = Path(directory) / "work"
        place.mkdir()
        write_texts(place)
        trees = {"base": base, "here": ROOT}
        if "predict" in given.only:
            taken(base, ("evaluate", "rows.csv", *TUNED, "--out", "tuned"), place)
            shutil.move(place / "tuned" / "winner", place / "model")
        seconds = {(name, tree): list[float]() for name in given.only for tree in trees}
        for turn in range(-1, given.rounds):  # the first one compiles, and is not counted
            for name in given.only:
                for tree in trees if turn % 2 else [*trees][::-1]:
                    spent = taken(trees[tree], COMMANDS[name], place)
                    if turn >= 0:
                        seconds[name, tree].append(spent)
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


def taken(tree: Path, arguments: Sequence[str], place: Path) -> float:
    """Return the processor seconds of a command run with the package of a working tree."""
    out = place / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "acclimate", *(str(out) if word == "OUT" else word for word in arguments)]
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with (place / "told").open("wb") as told:
        process = subprocess.Popen(command, cwd=place, env=environment, stdout=told, stderr=told)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != (2 if "sedes=3" in arguments else 0):
        raise SystemExit(f"{' '.join(command)}: status {process.returncode}\n{(place / 'told').read_text()[-2000:]}")
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    raise SystemExit(main())
