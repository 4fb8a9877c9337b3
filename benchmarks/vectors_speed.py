"""Word vectors: words a processor second and held-out loss beside the official fastText; and what going on brings.

python benchmarks/vectors_speed.py --domain domain.txt --held-out held.txt --start general.bin \
    --peer-python peers/bin/python --out benchmarks/reports/2026-11-22-vectors.md
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from page import head, spread, table, tell, write

from acclimate.core.types import Progress
from acclimate.text.vectors.files import END, open_bin
from acclimate.text.vectors.skipgram import Skipgram
from acclimate.text.vectors.training import lines_of_words
from acclimate.text.vectors.vectors import FROM_NOTHING, train_vectors

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from skipgram_loss import skipgram_loss


@dataclass
class Clock:
    """Seconds of the processor since the first piece of text was trained on, and words since the `threads`-th was.

    When the first is done, the other threads are well into theirs: counting words from later on does not favour ours.
    """

    threads: int
    pieces: int = 0
    begun: float = 0.0
    first: int = 0
    speed: float = float("nan")

    def __call__(self, progress: Progress) -> None:
        if progress.stage != "vectors":
            return
        self.pieces += 1
        if self.pieces == 1:
            self.begun = time.process_time()
        if self.pieces == self.threads:
            self.first = progress.done
        self.speed = (progress.done - self.first) / (time.process_time() - self.begun)


def main() -> None:
    given = arguments()
    with tempfile.TemporaryDirectory(dir=given.work) as directory:
        folder = Path(directory)
        # both get the same words, between spaces
        domain, held_out = (_split(path, folder / path.name) for path in (given.domain, given.held_out))
        some = folder / "some.txt"
        some.write_text("\n".join(_texts(domain, given.share)) + "\n", encoding="utf-8")
        parts = [_duels(given, some, held_out, folder)] if given.peer_python else []
        if given.start:
            parts.append(_going_on(given, domain, held_out, folder))
        words = sum(len(line) + 1 for line in lines_of_words(_texts(some), False))
    facts = [("words beside the tool, line ends included", f"{words:,}"), ("threads", str(given.threads))]
    facts.append(("official tool", given.peer_name))
    write(given.out, [head("Word vectors", facts=facts), _method(given), *parts])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--domain", type=Path, required=True, help="text, a passage a line")
    parser.add_argument("--held-out", type=Path, required=True, help="other text of the domain, likewise")
    parser.add_argument("--start", type=Path, help="a .bin of general text to go on from")
    parser.add_argument("--peer-python", default="", help="a Python that has fasttext; none: ours only")
    parser.add_argument("--peer-name", default="fasttext 0.9.3, built from source")
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--work", type=Path, help="where the files of vectors may lie for a while (5 GB)")
    parser.add_argument("--dims", default="100,300")
    parser.add_argument("--buckets", type=int, default=2_000_000)
    parser.add_argument("--epochs", type=int, default=1, help="of a turn beside the tool")
    parser.add_argument("--share", type=float, default=1.0, help="of the domain's lines, for a turn beside the tool")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shares", default="0.25,1", help="of the domain's lines to go on with")
    return parser.parse_args()


def _split(path: Path, out: Path) -> Path:
    with open(path, encoding="utf-8") as texts:
        out.write_text("\n".join(" ".join(line) for line in lines_of_words(texts, True)) + "\n", encoding="utf-8")
    return out


def _texts(path: Path, share: float = 1.0) -> Iterator[str]:
    texts = path.read_text(encoding="utf-8").splitlines()
    return iter(texts[: round(share * len(texts))])


def _duels(given: argparse.Namespace, domain: Path, held_out: Path, folder: Path) -> str:
    rows = []
    for dim in map(int, given.dims.split(",")):
        settings = Skipgram(
            dim=dim, epochs=given.epochs, buckets=given.buckets, threads=given.threads, rate=FROM_NOTHING
        )
        speeds: dict[str, list[float]] = {"ours": [], "theirs": []}
        losses: dict[str, list[float]] = {"ours": [], "theirs": []}
        for number in range(given.rounds):
            for who in ("ours", "theirs") if number % 2 == 0 else ("theirs", "ours"):
                turn, out = {"ours": _ours, "theirs": _theirs}[who], folder / "turn.bin"
                speeds[who].append(turn(given, replace(settings, seed=number), domain, out))
                losses[who].append(_loss(out, held_out, _counts(out)))
            tell(f"dim {dim}, round {number + 1}: {speeds}, {losses}")
        ratios = [mine / other for mine, other in zip(speeds["ours"], speeds["theirs"], strict=True)]
        said = (*(spread(each) for each in speeds.values()), spread(ratios, ".2f"))
        rows.append((dim, *said, *(spread(each, ".3f") for each in losses.values())))
    names = (
        "dim",
        "ours, words a processor second",
        "the tool",
        "ours by the tool",
        "held-out loss, ours",
        "the tool's",
    )
    return f"## From nothing, beside the official tool\n\n{table(names, rows)}"


def _ours(given: argparse.Namespace, settings: Skipgram, domain: Path, out: Path) -> float:
    clock = Clock(settings.threads)
    train_vectors(lambda: _texts(domain), out, settings, watch=clock)
    return clock.speed


def _theirs(given: argparse.Namespace, settings: Skipgram, domain: Path, out: Path) -> float:
    said = {"dim": settings.dim, "epoch": settings.epochs, "bucket": settings.buckets}
    script = Path(__file__).with_name("vectors_peer.py")
    words = [given.peer_python, str(script), str(domain), str(out), json.dumps(said), str(settings.threads)]
    answer = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    seconds = json.loads(answer.splitlines()[-1])["seconds"]
    return settings.epochs * open_bin(out).read / seconds


def _going_on(given: argparse.Namespace, domain: Path, held_out: Path, folder: Path) -> str:
    start = open_bin(given.start)
    header, rows, out = start.header, [], folder / "on.bin"
    settings = Skipgram(
        dim=header.dim,
        shortest=header.shortest,
        longest=header.longest,
        buckets=header.buckets,
        threads=given.threads,
    )
    for share in map(float, given.shares.split(",")):
        texts = partial(_texts, domain, share)
        train_vectors(texts, out, settings)
        alone, counts = open_bin(out), _counts(out)
        among = {word: count for word, count in counts.items() if word in start.index}
        losses = [_loss(given.start, held_out, among), _loss(out, held_out, among)]
        for epochs, rate in ((5, None), (5, FROM_NOTHING), (1, None)):
            mine = replace(settings, epochs=epochs, rate=rate)
            train_vectors(texts, out, mine, start=given.start)
            losses.append(_loss(out, held_out, among))
        tell(f"share {share}: {losses}")
        rows.append((f"{alone.read:,}", f"{len(among):,} of {len(counts):,}", *(f"{loss:.3f}" for loss in losses)))
    names = ("words of the domain", "words in both", "the start", "from nothing, 5 epochs", "going on, 5 epochs")
    names += ("the same at .05", "going on, 1 epoch")
    about = (
        f"The start: {len(start.words):,} words, {header.epochs} epochs over {start.read:,} words of general text, dim "
        f"{header.dim}, {header.buckets:,} buckets."
    )
    return f"## Going on\n\n{about} Held-out loss, of words that all have:\n\n{table(names, rows)}"


def _counts(path: Path) -> dict[str, int]:
    file = open_bin(path)
    counts = dict(zip(file.words, file.counts.tolist(), strict=True))
    counts.pop(END, None)
    return counts


def _loss(path: Path, held_out: Path, among: dict[str, int]) -> float:
    return skipgram_loss(path, _texts(held_out), among, Skipgram())


def _method(given: argparse.Namespace) -> str:
    return f"""## What is measured

Skip-gram with negative sampling, n-grams of 3 to 6 characters, window 5, 5 negatives, min_count 5, on text that is
split into words and lower-cased before, the same file for both. Beside the tool: {given.epochs} epoch at rate .05,
{given.buckets:,} buckets, {given.rounds} rounds, in each of which both have a turn, every second round in reverse
order. Words are counted as each trains on them, line ends included: ours are those of the text but the ones rarer than
min_count; the tool leaves these out too, but reads on until it has trained on as many as the text has. Seconds are of
the processor, all threads together, and of training alone, without counting words, filling the rows and writing the
file: of the tool what a call takes beyond one for no epochs, of ours from the first piece of 20,000 words on.
Of several figures: median (least to most).

The loss is the mean over pairs of held-out text of -log s(u v) - sum over 5 negatives of log s(-u v)
(`tests/skipgram_loss.py`), with the same windows, negatives and words left out for all.
Guessing costs 4.159."""


if __name__ == "__main__":
    main()
