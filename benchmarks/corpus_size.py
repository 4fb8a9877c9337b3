r"""What a corpus of many gigabytes takes: memory while it is prepared and tokenised, killed and begun again meanwhile.

python benchmarks/corpus_size.py --corpus texts.jsonl --model path/or/hub-id --gigabytes 1 10 --kill-after 300 600 \
    --out benchmarks/reports/$(date -I)-corpus-size.md

Documents are sentences of the corpus drawn at random, so that any number can be had of which none repeats another; of
each hundred one more repeats an earlier one exactly, and one nearly. The disk needs some five times the size.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from page import head, table, tell, write

from acclimate.core import files
from acclimate.text.documents import read_documents

SENTENCES = 12  # of a document
FILE = 500_000_000  # characters of each raw file, as a publisher's many
_END = re.compile(r"(?<=[.!?])\s+")  # of a sentence, near enough
RECIPE = ("language=en", "least_words=30", "near=0.8")


@dataclass
class Run:
    """What was seen of the command: bytes held at most by stage, and of each attempt its seconds and how it ended."""

    peaks: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    attempts: list[str] = field(default_factory=list)


def main() -> None:
    given = arguments()
    sentences = [each for document in read_documents(given.corpus) for each in _END.split(document.text) if each]
    rows = []
    for gigabytes in given.gigabytes:
        with tempfile.TemporaryDirectory(dir=given.scratch) as folder:
            planted = _make(sentences, Path(folder) / "raw", round(gigabytes * 1e9))
            run = _through(given, Path(folder), gigabytes)
            rows.append(_row(gigabytes, planted, run, files.read_json(Path(folder) / "out" / "preparation.json")))
            tell(f"{gigabytes} GB: {rows[-1]}")
    facts = [("processes", str(given.processes)), ("--memory", f"{given.memory} MB"), ("settings", " ".join(RECIPE))]
    write(given.out, [head("A corpus of many gigabytes", facts=facts), _told(rows)])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True, help="raw text whose sentences are taken")
    parser.add_argument("--model", required=True, help="whose tokenizer")
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[1.0, 10.0], help="characters, in 10^9")
    parser.add_argument("--kill-after", type=float, nargs="*", default=[], help="seconds of each attempt but the last")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--memory", type=int, default=256, help="megabytes for the keys of documents")
    parser.add_argument("--scratch", type=Path, help="folder for about five times the size")
    return parser.parse_args()


def _make(sentences: Sequence[str], folder: Path, size: int) -> Counter[str]:
    """Raw files of so many characters; the documents drawn, and the repeats among them."""
    folder.mkdir()
    made, documents = Counter[str](), _documents(sentences)
    while made["characters"] < size:
        with open(folder / f"{made['files']:04}.jsonl", "w", encoding="utf-8") as file:
            end = min(size, made["characters"] + FILE)
            while made["characters"] < end:
                sort, text = next(documents)
                made.update({sort: 1, "documents": 1, "characters": len(text)})
                file.write(json.dumps({"id": str(made["documents"]), "text": text}, ensure_ascii=False) + "\n")
        made["files"] += 1
    return made


def _documents(sentences: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Documents without end: new, and of each hundred two that repeat one of 10,000 kept anywhere before."""
    draw = random.Random(1)
    kept: list[str] = []
    while True:
        for _ in range(100):
            text = " ".join(draw.choices(sentences, k=SENTENCES))
            if len(kept) < 10_000:
                kept.append(text)
            elif draw.random() < 0.001:
                kept[draw.randrange(len(kept))] = text
            yield "new", text
        yield "exact", draw.choice(kept)
        words = draw.choice(kept).split(" ")
        words[len(words) // 2] = "otherwise"
        yield "near", " ".join(words)


def _through(given: argparse.Namespace, folder: Path, gigabytes: float) -> Run:
    """The command until it ends by itself; each but the last attempt is killed with all its processes."""
    out = folder / "out"
    command = [
        str(Path(sys.executable).with_name("acclimate")),
        "data",
        "corpus",
        str(folder / "raw"),
        "--out",
        str(out),
    ]
    command += ["--model", given.model, "--processes", str(given.processes), "--memory", str(given.memory), *RECIPE]
    run = Run()
    for limit in [*given.kill_after, float("inf")]:
        begun = last = time.monotonic()
        # A separate session: what it starts dies with it
        process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
        while process.poll() is None and time.monotonic() < begun + limit:
            time.sleep(0.5)
            stage = "tokens" if (out / "corpus").exists() else "text"
            run.peaks[stage] = max(run.peaks[stage], _held(process.pid))
            last, before = time.monotonic(), last
            run.seconds[stage] += last - before
        if ended := process.poll() is not None:
            if process.returncode:
                raise SystemExit(f"the command failed with {process.returncode}")
        else:
            _kill(process)
        run.attempts.append(f"{time.monotonic() - begun:,.0f} s" + ("" if ended else ", killed"))
        tell(f"{gigabytes} GB: {run}")
        if ended:
            break
    return run


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _held(session: int) -> int:
    """Bytes that a session's processes hold and that no file stands behind."""
    held = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            of_session = int(status.read_text().rpartition(")")[2].split()[3]) == session
            lines = (status.parent / "status").read_text().splitlines() if of_session else []
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            continue
        held += sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
    return held


def _row(gigabytes: float, made: Counter[str], run: Run, facts: dict) -> tuple[str, ...]:
    left_out = facts["documents"]
    return (
        f"{gigabytes:g}",
        f"{made['documents']:,}",
        f"{facts['kept']['documents']:,}",
        f"{made['exact']:,}, {made['near']:,}",
        ", ".join(f"{count:,} {name}" for name, count in left_out.items() if name != "read" and count),
        *(f"{run.peaks[stage] >> 20:,} MiB" for stage in ("text", "tokens")),
        "; ".join(run.attempts),
        f"{gigabytes * 1e3 / sum(run.seconds.values()):.2f}",
    )


def _told(rows: Sequence[Sequence[str]]) -> str:
    names = ("GB", "documents", "kept", "planted: exact, near", "left out", "most held: text", "tokens", "attempts")
    return f"""## What is measured

`acclimate data corpus` from JSON lines to tokens with all filters on, as a command by itself. An attempt that
was killed was killed with all of its processes (`kill -9`); the next is the same command. Held is what all of its
processes have in memory without a file behind it, looked at twice a second, the interpreter and its libraries included.

{table((*names, "MB a second, all attempts"), rows)}
"""


if __name__ == "__main__":
    main()
