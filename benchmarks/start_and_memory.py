"""How long the command line takes to start, and what memory a large corpus takes to read and tokenise.

    python benchmarks/start_and_memory.py --corpus general_corpus.jsonl.zst --corpus-gigabytes 2 \
        --out benchmarks/reports/2026-11-20-start-and-memory.md
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from page import head, spread, table, tell, write

STARTS = {
    "python -c pass": ["-c", "pass"],
    "python -c 'import acclimate'": ["-c", "import acclimate"],
    "acclimate --help": ["-m", "acclimate", "--help"],
}
KEPT = 64 << 20  # characters of the corpus that the large file is put together from


def main() -> None:
    given = arguments()
    if given.read:
        print(json.dumps(read_and_tokenise(*given.read)))
        return
    if not (given.corpus and given.out):
        raise SystemExit("give --corpus and --out")
    parts = [_starts(given.runs)]
    with tempfile.TemporaryDirectory(dir=given.scratch) as directory:
        parts.append(_memory(given, Path(directory)))
    facts = [("threads of the tokenizer", str(given.threads))]
    write(given.out, [head("Start-up time and memory", facts=facts), *parts])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, help="a .jsonl, .jsonl.zst ... file with the field text")
    parser.add_argument("--out", type=Path, help="the report, Markdown")
    parser.add_argument("--runs", type=int, default=20, help="of each command, after one that warms the disk's cache")
    parser.add_argument("--corpus-gigabytes", type=float, default=2.0, help="size of the text file, in 10^9 bytes")
    parser.add_argument("--vocabulary", type=int, default=30_522, help="word pieces")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the tokenizer")
    parser.add_argument("--scratch", type=Path, help="folder for about five times the text file's size")
    parser.add_argument("--read", type=Path, nargs=3, metavar=("TEXT", "TOKENIZER", "CORPUS"), help=argparse.SUPPRESS)
    return parser.parse_args()


def _starts(runs: int) -> str:
    """Whole processes, the commands in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in STARTS}
    for number in range(runs + 1):
        for name, words in STARTS.items():
            begun = time.perf_counter()
            subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
            if number:
                seconds[name].append(time.perf_counter() - begun)
    rows = [(f"`{name}`", spread(found, ".3f")) for name, found in seconds.items()]
    return f"""## Start-up

Wall time of the whole process, {runs} runs of each in turn after one that is not counted.

{table(("command", "seconds: median (least to most)"), rows)}
"""


def _memory(given: argparse.Namespace, directory: Path) -> str:
    text, tokenizer = directory / "text.txt", directory / "tokenizer"
    _make(given.corpus, text, tokenizer, size=round(given.corpus_gigabytes * 1e9), vocabulary=given.vocabulary)
    environment = os.environ | {"RAYON_NUM_THREADS": str(given.threads), "TOKENIZERS_PARALLELISM": "true"}
    words = [sys.executable, __file__, "--read", str(text), str(tokenizer), str(directory / "corpus")]
    tell("reading and tokenising")
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found = json.loads(done.stdout)
    megabytes = text.stat().st_size / 1e6
    rows = [
        (
            stage["stage"],
            f"{stage['seconds']:.1f}",
            f"{megabytes / stage['seconds']:.1f}" if stage["of_text"] else "",
            f"{stage['peak'] / 1e6:,.0f}",
        )
        for stage in found["stages"]
    ]
    return f"""## A large corpus, read and tokenised

A text file of {megabytes:,.0f} MB ({found["documents"]:,} documents, one a line: documents of the corpus in random
order, again and again), read with `read_documents`, written with `write_corpus`, tokenised with `Corpus.tokens` under a
vocabulary of {given.vocabulary:,} word pieces at most ({found["tokens"]:,} tokens), all in one separate process.

{table(("stage", "seconds", "MB/s of text", "peak memory so far, MB"), rows)}

Peak memory is the most that was resident at once (VmHWM, where the system tells it). It includes Python, PyTorch and
transformers, and pages of files that are mapped: the tokens are mapped at the end, but no page of theirs is resident
before it is used. At the end {_megabytes(found["anonymous"])} MB belonged to the process, and
{_megabytes(found["mapped"])} MB were pages of files, most of them libraries.
"""


def _megabytes(found: int | None) -> str:
    return "(not told)" if found is None else f"{found / 1e6:,.0f}"


def _make(corpus: Path, text: Path, tokenizer: Path, *, size: int, vocabulary: int) -> None:
    """The text file, and a tokenizer learnt from a part of what it is made of."""
    from acclimate.core.types import Document
    from acclimate.text.corpus import write_corpus
    from acclimate.text.documents import read_documents
    from acclimate.text.vocabulary import train_tokenizer

    lines, characters = [], 0
    for document in read_documents(corpus):
        lines.append(" ".join(document.text.split()))
        characters += len(lines[-1])
        if characters >= KEPT:
            break
    tell("learning the vocabulary")
    sample = [Document(str(number), line) for number, line in enumerate(lines[: 1 + len(lines) // 4])]
    train_tokenizer(write_corpus(sample, text.with_name("sample")), size=vocabulary).save_pretrained(tokenizer)
    tell(f"writing {size / 1e9:g} GB of text")
    generator, written = random.Random(0), 0
    with open(text, "wb") as file:
        while written < size:
            generator.shuffle(lines)
            for line in lines:
                written += file.write(line.encode() + b"\n")
                if written >= size:
                    break


def read_and_tokenise(text: Path, tokenizer: Path, directory: Path) -> dict[str, object]:
    """What a user's run does, stage by stage, with the seconds of each and the peak memory, in bytes, by its end."""
    stages = []
    begun = time.perf_counter()

    def note(stage: str, *, of_text: bool) -> None:
        nonlocal begun
        seconds = time.perf_counter() - begun
        stages.append(
            {"stage": stage, "seconds": seconds, "of_text": of_text, "peak": _resident("VmHWM") or _maximum()}
        )
        begun = time.perf_counter()

    from acclimate.models.loading import load_tokenizer
    from acclimate.text.corpus import write_corpus
    from acclimate.text.documents import read_documents

    words = load_tokenizer(tokenizer)
    note("imports, tokenizer", of_text=False)
    corpus = write_corpus(read_documents(text), directory)
    note("read, write the corpus", of_text=True)
    tokens = corpus.tokens(words)
    note("tokenise", of_text=True)
    return {
        "stages": stages,
        "documents": len(corpus),
        "tokens": len(tokens.ids),
        "anonymous": _resident("RssAnon"),
        "mapped": _resident("RssFile"),
    }


def _resident(field: str) -> int | None:
    """A field of this process's status in bytes, or None where the system has no such file."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    values = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(values[field].split()[0]) * 1024 if field in values else None


def _maximum() -> int:
    """Peak memory as getrusage has it; on Linux it may be that of the parent before exec, so VmHWM is preferred."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


if __name__ == "__main__":
    main()
