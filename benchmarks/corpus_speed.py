r"""Raw text made into a tokenised corpus, with every filter on, beside `tokenizers` encoding the same texts, by turns.

python benchmarks/corpus_speed.py --corpus texts.jsonl --model path/or/hub-id \
    --out benchmarks/reports/2026-11-22-corpus-speed.md
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from page import head, spread, table, tell, write
from turns import median_ratio

from acclimate.models.loading import load_tokenizer
from acclimate.text.documents import read_documents
from acclimate.text.overlap.near_duplicates import sketches
from acclimate.text.preparation import CorpusRecipe, prepare_corpus
from acclimate.text.tokens import _plain_backend
from acclimate.text.words import word_spans

_BATCH = 1000  # texts that the peer gets at a time


@dataclass
class Turn:
    """Seconds of the processor, all processes and threads together, and on the wall."""

    processor: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


def main() -> None:
    given = arguments()
    os.environ["TOKENIZERS_PARALLELISM"] = "false" if given.threads == 1 else "true"
    os.environ["RAYON_NUM_THREADS"] = str(given.threads)
    turns = {name: Turn() for name in ("prepare", "tokens", "encode_batch", "read, encode_batch")}
    with tempfile.TemporaryDirectory(dir=given.scratch) as folder:
        raw = Path(folder) / "raw.jsonl"
        size = _make(given.corpus, raw, round(given.megabytes * 1e6))
        found = {}
        for number in range(given.rounds):
            order = (_ours, _theirs) if number % 2 else (_theirs, _ours)
            for run in order:
                found |= run(given, raw, Path(folder) / f"out-{number}", turns)
            tell(f"round {number + 1}: {turns}")
    facts = [("MB of text", f"{size / 1e6:,.1f}"), ("processes", str(given.processes)), ("threads", str(given.threads))]
    write(given.out, [head("From raw text to tokens", facts=facts), _told(turns, size, found)])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True, help="raw text")
    parser.add_argument("--model", required=True, help="whose tokenizer")
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--megabytes", type=float, default=50.0, help="of text, from the beginning of the corpus")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of `tokenizers`")
    parser.add_argument("--processes", type=int, default=1, help="of ours")
    parser.add_argument("--scratch", type=Path, help="folder for about five times the text's size")
    return parser.parse_args()


def _make(corpus: Path, raw: Path, most: int) -> int:
    """The texts as JSON lines; their characters."""
    size = 0
    with open(raw, "w", encoding="utf-8") as file:
        for document in read_documents(corpus):
            file.write(json.dumps({"id": document.id, "text": document.text}, ensure_ascii=False) + "\n")
            size += len(document.text)
            if size >= most:
                break
    return size


def _ours(given: argparse.Namespace, raw: Path, out: Path, turns: dict[str, Turn]) -> dict[str, str]:
    tokenizer = load_tokenizer(given.model)
    recipe = CorpusRecipe(language="en", least_words=5, near=0.8)
    sketches(["a b c d e f"], 0.8)  # loads what is compiled; and the table of characters
    word_spans("a")
    begun = _now()
    done = prepare_corpus([raw], out, recipe, processes=given.processes)
    _note(turns["prepare"], begun)
    begun = _now()
    tokens = done.corpus.tokens(tokenizer, processes=given.processes)
    _note(turns["tokens"], begun)
    kept, read = done.facts["kept"]["documents"], done.facts["documents"]["read"]
    return {"documents": f"{kept:,} of {read:,}", "tokens": f"{len(tokens.ids):,}"}


def _theirs(given: argparse.Namespace, raw: Path, out: Path, turns: dict[str, Turn]) -> dict[str, str]:
    backend = _plain_backend(load_tokenizer(given.model))
    begun = _now()
    texts = [json.loads(line)["text"] for line in raw.read_text(encoding="utf-8").splitlines()]
    middle = _now()
    for first in range(0, len(texts), _BATCH):
        backend.encode_batch(texts[first : first + _BATCH], add_special_tokens=False)
    _note(turns["encode_batch"], middle)
    _note(turns["read, encode_batch"], begun)
    return {}


def _now() -> tuple[float, float]:
    process, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return process.ru_utime + process.ru_stime + children.ru_utime + children.ru_stime, time.perf_counter()


def _note(turn: Turn, begun: tuple[float, float]) -> None:
    processor, wall = _now()
    turn.processor.append(processor - begun[0])
    turn.wall.append(wall - begun[1])


def _told(turns: dict[str, Turn], size: int, found: dict[str, str]) -> str:
    whole = Turn(*(_added(turns, clock) for clock in ("processor", "wall")))
    rows = []
    for name, turn in (("ours: raw text to tokens", whole), *turns.items()):
        speeds = [[size / 1e6 / seconds for seconds in clock] for clock in (turn.processor, turn.wall)]
        rows.append((name, *(spread(speed, ",.2f") for speed in speeds)))
    theirs = turns["encode_batch"]
    ratios = [median_ratio(theirs.processor, whole.processor, ".2f"), median_ratio(theirs.wall, whole.wall, ".2f")]
    rows.append(("**ours by `encode_batch` alone**", *(f"**{ratio}**" for ratio in ratios)))
    return f"""## What is measured

Ours reads JSON lines, filters by language and length, leaves out what repeats exactly or nearly, writes the corpus, and
writes its tokens with the words' starts: {found["documents"]} documents stayed, {found["tokens"]} tokens. The peer is
`tokenizers` alone, `encode_batch` on the same texts, 1,000 at a time, whose answers are thrown away; with reading the
lines beside it. Both by turns, every second round in reverse order. What is loaded once a process (compiled loops, the
table of characters) is not counted.
Of several figures: median (least to most); of the ratio a 95% interval.

{table(("", "MB of text a processor second", "MB of text a second"), rows)}
"""


def _added(turns: dict[str, Turn], clock: str) -> list[float]:
    return [sum(pair) for pair in zip(getattr(turns["prepare"], clock), getattr(turns["tokens"], clock), strict=True)]


if __name__ == "__main__":
    main()
