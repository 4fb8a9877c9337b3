"""How retrieval grows with the corpus: seconds and peak memory of the whole command, milliseconds of a query.

    python benchmarks/growth.py --corpus general_corpus.jsonl.zst --task rct.jsonl --sizes 100000 1000000 10000000 \
        --scratch growth --out benchmarks/reports/DATE-growth.md

A passage has 60 words: three stretches of 20 words, each from a random place of the corpus, so the words are as
frequent as in real text and no passage is a copy of another. One in a thousand is an exact copy of an earlier one, and
one in 100,000 holds a test text, so that the search for both has something to find. Each command runs in a process of
its own; its peak is the largest resident memory of it and of its children.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from page import head, table, write

from acclimate.text.bm25.shards import open_shards
from acclimate.text.documents import read_documents

WORDS, STRETCH = 60, 20
SOURCE = 30_000_000  # words of the corpus that passages are made from
COPY, LEAK = 1_000, 100_000  # one passage in as many is a copy, or holds a test text
QUERIES = 200


def passages(corpus: Path, tests: list[str], size: int) -> Iterator[str]:
    """Yield `size` passages; the same at every call, and the first of a larger size."""
    words: list[str] = []
    for document in read_documents(corpus):
        words += document.text.split()
        if len(words) > SOURCE:
            break
    draws = random.Random(0)
    recent: list[str] = []
    for number in range(size):
        if number % COPY == COPY - 1:
            yield draws.choice(recent)
            continue
        begins = [draws.randrange(len(words) - STRETCH) for _ in range(WORDS // STRETCH)]
        stretches = [" ".join(words[begin : begin + STRETCH]) for begin in begins]
        text = " ".join(stretches)
        if number % LEAK == LEAK - 1:
            text = f"{stretches[0]} {draws.choice(tests)}"
        recent = [*recent[-99:], text]
        yield text


def ran(command: list[str], threads: int) -> dict[str, Any]:
    """Run a command. Return its seconds, processor seconds and peak memory, those of its children included."""
    program = (
        "import json, resource, subprocess, sys, time\n"
        "begun = time.monotonic()\n"
        "status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([status, time.monotonic() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20]))"
    )
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "NUMBA_NUM_THREADS": str(threads)}
    how: dict[str, Any] = {"env": environment, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", program, *command], check=True, **how)
    status, seconds, processor, peak = json.loads(done.stdout)
    if status:
        raise RuntimeError(done.stderr)
    return {"seconds": seconds, "processor": processor, "gib": peak}


def asked(index: Path, queries: list[str], k: int, threads: int) -> float:
    """Milliseconds of a query, where all queries are asked at once."""
    opened = open_shards(index)
    opened.search(queries[:5], k, threads=threads)
    begun = time.monotonic()
    opened.search(queries, k, threads=threads)
    return 1000 * (time.monotonic() - begun) / len(queries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--task", type=Path, required=True, help="labelled rows: text and label, as JSON lines")
    parser.add_argument("--sizes", type=int, nargs="+", required=True)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.task.read_text("utf-8").splitlines()]
    half = len(rows) // 2
    parts = {"train": rows[:QUERIES], "dev": rows[half : half + QUERIES], "test": rows[-QUERIES:]}
    options.scratch.mkdir(parents=True, exist_ok=True)
    files = {name: options.scratch / f"{name}.jsonl" for name in parts}
    for name, part in parts.items():
        files[name].write_text("".join(json.dumps(row) + "\n" for row in part), "utf-8")
    queries = [row["text"] for row in parts["train"]]
    os.environ["ACCLIMATE_CACHE"] = str(options.scratch / "cache")
    commands, searches, indexes = [], [], set[Path]()
    for size in options.sizes:
        corpus, out = options.scratch / f"{size}.jsonl", options.scratch / f"{size}-out"
        if not corpus.exists():
            texts = passages(options.corpus, [row["text"] for row in parts["test"]], size)
            with corpus.open("w", encoding="utf-8") as file:
                file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
        command = ["acclimate", "data", "retrieve", str(files["train"]), "--dev", str(files["dev"])]
        command += ["--test", str(files["test"]), "--corpus", str(corpus), "--k", "50", "--out", str(out)]
        command += ["--shards", str(options.shards)] if options.shards > 1 else []
        done = ran([sys.executable, "-m", *command], max(options.threads))
        (index,) = {path.parent for path in (options.scratch / "cache").rglob("shards.json")} - indexes
        indexes.add(index)
        left_out = json.loads((out / "facts.json").read_text())["left_out"]
        size_of_index = sum(path.stat().st_size for path in index.rglob("*") if path.is_file()) / 2**30
        figures = f"{done['seconds']:.0f}", f"{done['processor']:.0f}", f"{done['gib']:.2f}"
        counts = f"{left_out['leaking']:,}", f"{left_out['copies']:,}"
        commands.append(
            (f"{size:,}", f"{corpus.stat().st_size / 2**30:.2f}", f"{size_of_index:.2f}", *figures, *counts)
        )
        times = [f"{asked(index, queries, k, threads):.1f}" for threads in options.threads for k in (50, 500)]
        searches.append((f"{size:,}", *times))
        print(commands[-1], searches[-1], flush=True)
    if options.out:
        threads = ", ".join(map(str, options.threads))
        columns = ("passages", "GiB of text", "GiB of index", "seconds", "processor seconds", "peak, GiB")
        names = [f"K = {k}, {number} thread{'s' * (number > 1)}" for number in options.threads for k in (50, 500)]
        page = [
            head("Retrieval from a growing corpus", facts=[("threads", threads), ("shards", str(options.shards))]),
            "## The whole command\n",
            table((*columns, "with a test text", "copies"), commands),
            f"\n## Milliseconds of a query, {QUERIES} at once\n",
            table(("passages", *names), searches),
        ]
        write(options.out, page)


if __name__ == "__main__":
    main()
