"""How long `acclimate doctor` takes where all rows are made of a few templates, so that thousands are nearly alike.

python benchmarks/templates.py --out REPORT.md
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from page import head, table, tell, write

WORDS = [f"word{number}" for number in range(3000)]


def main() -> None:
    given = arguments()
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        for name, words in FORMS.items():
            of_a_row: list[float] = []
            for size in given.sizes:
                tell(f"{name}: {size:,} rows")
                path = Path(directory) / "rows.csv"
                _make(path, size, given.templates, *words)
                begun, used = time.perf_counter(), _processor()
                done = subprocess.run(
                    [sys.executable, "-m", "acclimate", "doctor", str(path)],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                wall = time.perf_counter() - begun
                of_a_row.append(wall / size)
                cells = (f"{wall:.1f}", f"{_processor() - used:.1f}", f"{of_a_row[-1] / of_a_row[0]:.2f}")
                rows.append((name, f"{size:,}", *cells, _found(done.stdout)))
    names = (
        "rows",
        "number",
        "seconds",
        "of processor",
        "time a row, by that of the first size",
        "test texts found in train",
    )
    text = f"""Each row is one of {given.templates} templates of words, drawn at random, with a number of its own,
and has one of two labels. Whole commands, from the start of
Python on, one after the other, loops compiled before.

{table(names, rows)}
"""
    write(given.out, [head("The doctor on rows from templates"), text])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--templates", type=int, default=20)
    parser.add_argument("--sizes", type=int, nargs="+", default=[30_000], help="rows")
    return parser.parse_args()


# name -> words before the number that a row has of its own, and all words
FORMS = {
    "20 words, and a number after twelve of them: no run of 13 words is shared": (12, 20),
    "40 words, and a number after 24 of them: runs of 13 words are shared": (24, 40),
}


def _make(path: Path, size: int, templates: int, before: int, length: int) -> None:
    generator = random.Random(0)
    made = [generator.choices(WORDS, k=length) for _ in range(templates)]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label"))
        for _ in range(size):
            words, number = generator.choice(made), f"number{generator.randrange(10**9)}"
            writer.writerow((" ".join([*words[:before], number, *words[before:]]), generator.choice("ab")))


def _found(page: str) -> str:
    told = re.search(r"([\d,]+) of the ([\d,]+) test texts \([\d.]+%\) stand in train", page)
    if told is None:
        raise ValueError(f"the page does not say how many test texts stand in train:\n{page}")
    return f"{told[1]} of {told[2]}"


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
