"""How long `acclimate doctor` takes on a labelled file with a corpus, and whether it finds the leaks that are put in.

python benchmarks/doctor.py --corpus general_corpus.jsonl.zst --out benchmarks/reports/2026-11-20-doctor.md
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from page import head, spread, table, tell, write

LABELS = ("north", "east", "south", "west")
LONGEST = 1_500  # characters of a labelled text
SHORTEST = 200
SPLITS = {"train": 0.7, "dev": 0.1, "test": 0.2}
WAYS = ("the same text in capitals", "one word changed", "within a longer text")


@dataclass(frozen=True)
class Planted:
    """Ids of the test items whose text was put into the corpus and into train, by the way in which."""

    corpus: dict[str, list[str]]
    train: dict[str, list[str]]


def main() -> None:
    given = arguments()
    if given.examine:
        print(json.dumps(examine_files(*given.examine)))
        return
    if not (given.corpus and given.out):
        raise SystemExit("give --corpus and --out")
    with tempfile.TemporaryDirectory(dir=given.scratch) as place:
        directory = Path(place)
        planted = prepare(given, directory)
        parts = [_speed(given, directory), _leaks(given, directory, planted)]
    facts = [("threads", str(given.threads))]
    write(given.out, [head("The doctor: seconds, and leaks found", facts=facts), *parts])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, help="a .jsonl, .jsonl.zst ... file with the field text")
    parser.add_argument("--out", type=Path, help="the report, Markdown")
    parser.add_argument("--megabytes", type=float, default=100.0, help="size of the corpus file, in 10^6 bytes")
    parser.add_argument("--rows", type=int, default=5_000, help="labelled rows")
    parser.add_argument("--planted", type=int, default=100, help="leaks of each way, in the corpus and in train")
    parser.add_argument("--vocabulary", type=int, default=30_522, help="word pieces")
    parser.add_argument("--runs", type=int, default=5, help="of each, after one that warms the disk's cache")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--scratch", type=Path, help="folder for about three times the corpus file's size")
    parser.add_argument("--examine", type=Path, nargs=2, metavar=("FOLDER", "CORPUS"), help=argparse.SUPPRESS)
    return parser.parse_args()


def prepare(given: argparse.Namespace, directory: Path) -> Planted:
    """Labelled files, the corpus as .txt and .jsonl, and a model's directory, all of the corpus's texts."""
    from acclimate.core.types import Document
    from acclimate.models.encoder import new_encoder, save_model
    from acclimate.text.corpus import write_corpus
    from acclimate.text.vocabulary import train_tokenizer

    tell("reading the corpus")
    generator = random.Random(0)
    texts = [*_texts(given.corpus, given.megabytes * 1e6 * 1.1 + 2 * given.rows * LONGEST)]
    generator.shuffle(texts)
    rows = _rows(texts, given.rows)
    documents = [text for text in texts if text]
    tell("learning the vocabulary")
    sample = [Document(str(number), text) for number, text in enumerate(documents[: 1 + len(documents) // 8])]
    words = train_tokenizer(write_corpus(sample, directory / "sample"), size=given.vocabulary)
    encoder = new_encoder(layers=1, hidden=8, heads=1, vocabulary_size=len(words), longest=512, pad=0, seed=0)
    save_model(encoder, words, directory / "model")
    test = generator.sample(rows["test"], 6 * given.planted)
    planted = Planted(*({way: [] for way in WAYS} for _ in range(2)))
    for number, (name, text, label) in enumerate(test):
        way = WAYS[number % 3]
        if number < 3 * given.planted:
            others = generator.sample(documents[: len(documents) // 2], 2)
            documents.insert(generator.randrange(len(documents) // 2), _changed(way, text, others, generator))
            planted.corpus[way].append(name)
        else:
            others = [row[1] for row in generator.sample(rows["train"], 2)]
            rows["train"].append((f"planted-{name}", _changed(way, text, others, generator), label))
            planted.train[way].append(name)
    for split, lines in rows.items():
        with open(directory / f"{split}.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("id", "text", "label"), *lines])
    _write(documents, directory / "corpus.txt", given.megabytes * 1e6, lambda text: text)
    _write(documents, directory / "corpus.jsonl", given.megabytes * 1e6, lambda text: json.dumps({"text": text}))
    return planted


def _texts(corpus: Path, size: float) -> Iterator[str]:
    """Texts on one line each, of `size` bytes together."""
    from acclimate.text.documents import read_documents

    for document in read_documents(corpus):
        text = " ".join(document.text.split())
        yield text
        size -= len(text.encode())
        if size < 0:
            return


def _rows(texts: list[str], count: int) -> dict[str, list[tuple[str, str, str]]]:
    """Labelled rows of texts, which are no documents any more."""
    rows: dict[str, list[tuple[str, str, str]]] = {}
    free = (place for place, text in enumerate(texts) if len(text) >= SHORTEST)
    for split, share in SPLITS.items():
        rows[split] = []
        for number in range(round(share * count)):
            place = next(free)
            rows[split].append((f"{split}-{number}", texts[place][:LONGEST], LABELS[number % len(LABELS)]))
            texts[place] = ""
    return rows


def _changed(way: str, text: str, others: Sequence[str], generator: random.Random) -> str:
    if way == WAYS[0]:
        return text.upper()
    if way == WAYS[2]:
        return f"{others[0]} {text} {others[1]}"
    words = text.split()
    words[generator.randrange(len(words))] = "exchanged"
    return " ".join(words)


def _write(documents: Sequence[str], path: Path, size: float, line: Callable[[str], str]) -> None:
    """Documents, a line each, until the file has `size` bytes; the planted ones stand in the first half."""
    with open(path, "wb") as file:
        for number, text in enumerate(documents):
            if file.write(line(text).encode() + b"\n") and file.tell() >= size and number >= len(documents) // 2:
                return


def _run(
    given: argparse.Namespace, directory: Path, corpus: str, **environment: str
) -> tuple[float, float, dict[str, Any]]:
    """Wall time of a whole process, the time of processors that it took, and what it told."""
    threads = {"NUMBA_NUM_THREADS": str(given.threads), "RAYON_NUM_THREADS": str(given.threads)}
    words = [sys.executable, __file__, "--examine", str(directory), str(directory / corpus)]
    begun, before = time.perf_counter(), os.times()
    done = subprocess.run(
        words, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **threads, **environment}
    )
    taken, after = time.perf_counter() - begun, os.times()
    processors = after.children_user + after.children_system - before.children_user - before.children_system
    return taken, processors, json.loads(done.stdout)


def _speed(given: argparse.Namespace, directory: Path) -> str:
    tell("examining")
    compiling, _, _ = _run(given, directory, "corpus.txt", NUMBA_CACHE_DIR=str(directory / "cache"))
    rows = []
    for corpus in ("corpus.txt", "corpus.jsonl"):
        seconds: list[float] = []
        processors: list[float] = []
        stages: dict[str, list[float]] = {}
        for number in range(given.runs + 1):
            whole, busy, told = _run(given, directory, corpus)
            if number:
                seconds.append(whole)
                processors.append(busy)
                for stage, taken in told["stages"]:
                    stages.setdefault(stage, []).append(taken)
        megabytes = (directory / corpus).stat().st_size / 1e6
        rows.append((f"**{corpus}, {megabytes:.0f} MB: the whole process**", f"**{spread(seconds, '.2f')}**"))
        rows.append((f"{corpus}: seconds of a processor, all threads together", spread(processors, ".2f")))
        rows += [(f"{corpus}: {stage}", spread(taken, ".2f")) for stage, taken in stages.items()]
    rows.append(("corpus.txt, the first time on a machine (loops are compiled and kept)", f"{compiling:.2f}"))
    return f"""## Seconds

{given.rows:,} labelled rows as CSV, a corpus with one document a line, a model's directory with a vocabulary of
{given.vocabulary:,} word pieces at most. Each run is a separate process, {given.runs} of each after one that is not
counted. The search is for exact copies, runs of 13 words and near-duplicates at once.

{table(("", "seconds: median (least to most)"), rows)}
"""


def _leaks(given: argparse.Namespace, directory: Path, planted: Planted) -> str:
    _, _, told = _run(given, directory, "corpus.txt")
    rows = []
    for place, ways in (("corpus", planted.corpus), ("train", planted.train)):
        found = set(told[f"test in {place}"])
        for way, names in ways.items():
            rows.append((f"{place}: {way}", len(names), len(found.intersection(names))))
        others = found.difference(*ways.values())
        rows.append((f"{place}: not planted", "", len(others)))
    return f"""## Leaks that were put in

Test items put into the corpus and, others of them, into train, and those of them that were found there. What was found
though it was not planted stands twice, or nearly, in the source itself, as the examination's examples show.

{table(("", "planted", "found"), rows)}
"""


def examine_files(directory: Path, corpus: Path) -> dict[str, Any]:
    """What `acclimate doctor` does, with the seconds of each stage and the test items that leak."""
    begun = time.perf_counter()
    stages: list[tuple[str, float]] = []

    def note(stage: str) -> None:
        nonlocal begun
        stages.append((stage, time.perf_counter() - begun))
        begun = time.perf_counter()

    from acclimate.core.types import Progress
    from acclimate.data.doctor import examine
    from acclimate.data.materials import RawText
    from acclimate.data.model import open_model
    from acclimate.reading.labelled import read_files
    from acclimate.reading.labelled_files import LabelledFiles

    note("import")
    files = {split: directory / f"{split}.csv" for split in SPLITS}
    labelled = read_files(LabelledFiles(**files, id="id"))
    note("read the labelled rows")
    ends = {"examining domain": "index dev and test, scan the labelled rows", "examining lengths and pieces": "corpus"}

    def watch(progress: Progress) -> None:
        if progress.stage in ends:
            note(ends.pop(progress.stage))

    model = open_model(str(directory / "model"))
    examined = examine(labelled, {"domain": RawText(corpus)}, model=model, watch=watch)
    note("tokenizer, lengths, pieces, labels")
    examined.as_text()
    note("page")
    found = {"test in corpus": examined.leaked["test in domain"], "test in train": examined.leaked["test"]}
    return {"stages": stages, **{name: sorted(ids) for name, ids in found.items()}}


if __name__ == "__main__":
    main()
