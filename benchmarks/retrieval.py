"""How fast BM25 finds the best K documents for whole task texts, beside bm25s, tantivy and Lucene.

    python benchmarks/retrieval.py --corpus general_corpus.jsonl.zst \
        --queries "about 40 words=scierc.jsonl" --queries "about 200 words=imdb.jsonl.zst" \
        --sizes 200000 417070 1000000 --peers bm25s tantivy lucene --peer-python peers/bin/python \
        --out benchmarks/reports/2026-11-21-retrieval.md

Peers live in a separate environment (`pip install bm25s==0.3.16 numba tantivy==0.27.0 pyserini==1.6.0`; pyserini
wants a JAVA_HOME newer than 17). A size beyond the corpus is reached by cutting its texts into equal parts.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from page import head, table, tell, write

from acclimate.core.types import Document
from acclimate.text.bm25.build import build_index
from acclimate.text.bm25.index import Effort, Index
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.documents import read_documents


class Peer:
    """A peer's process."""

    def __init__(self, given: argparse.Namespace, name: str, folder: Path) -> None:
        script = Path(__file__).with_name("retrieval_peer.py")
        files = [str(folder / "texts" / "texts.jsonl"), str(folder / "queries.json"), str(folder / name)]
        self.process = subprocess.Popen(
            [given.peer_python, str(script), name, *files, str(given.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.build = float(self.answer()["build"])

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("RESULT "):
                return json.loads(line.removeprefix("RESULT "))  # type: ignore[no-any-return]
        raise RuntimeError(f"{self.process.args} ended. Run it by hand to see why")

    def search(self, which: str, k: int, count: int) -> dict[str, Any]:
        assert self.process.stdin
        print(which, k, count, file=self.process.stdin, flush=True)
        return self.answer()

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    given = arguments()
    queries = {name: _queries(given, Path(path)) for name, path in (each.split("=", 1) for each in given.queries)}
    facts = [
        ("threads", str(given.threads)),
        ("queries", "; ".join(f"{name}: {_words(each)}" for name, each in queries.items())),
    ]
    parts: list[str] = []
    for size in given.sizes:
        parts.append(_size(given, size, queries))
        write(given.out, [head("BM25 retrieval", facts=facts), _INTRODUCTION, *parts])  # as far as it got
    if given.growth:
        parts.append(_growth(given, queries))
        write(given.out, [head("BM25 retrieval", facts=facts), _INTRODUCTION, *parts])


_INTRODUCTION = """Every engine's time has the reading of its queries in it. Contestants take turns within each round.
Other work ran on the machine at the same time: read the ratios (the median over rounds of the ratio within a round),
not the seconds. bm25s reads the same words as ours; tantivy (`default`) and Lucene (no stemming, no stop words) split
a little differently. "Same": the share of our first K that bm25s finds too, for 20 queries; its sums are float32, so
that it may swap neighbours. Lucene answers fewer queries, in the first round only, and states its build in whole
seconds.
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--queries", action="append", required=True, help="NAME=FILE with the field text; repeatable")
    parser.add_argument("--sizes", type=int, nargs="+", default=[200_000])
    parser.add_argument("--growth", type=int, nargs="*", default=[], help="sizes for ours alone, of the finest cut")
    parser.add_argument("--k", type=int, nargs="+", default=[50, 500, 5000])
    parser.add_argument("--peers", nargs="*", default=[])
    parser.add_argument("--largest", nargs="*", default=[], help="PEER=SIZE: leave the peer out of larger sizes")
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=200, help="queries of each kind")
    parser.add_argument("--slow-count", type=int, default=20, help="queries of each kind for Lucene")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def _queries(given: argparse.Namespace, path: Path) -> list[str]:
    texts = list(dict.fromkeys(document.text for document in read_documents(path)))
    random.Random(0).shuffle(texts)
    return texts[: given.count]


def _words(texts: list[str]) -> str:
    lengths = sorted(len(re.findall(r"\w+", text)) for text in texts)
    return f"{len(texts)}, {sum(lengths) / len(lengths):.0f} words on average ({lengths[0]} to {lengths[-1]})"


def _texts(path: Path, size: int) -> tuple[list[str], str]:
    """That many texts, and how they were made."""
    whole: list[str] = []
    for document in read_documents(path):
        whole.append(document.text)
        if len(whole) == size:
            return whole, f"the first {size:,} passages"
    parts = -(-size // len(whole))
    found: list[str] = []
    for text in whole:
        words = text.split()
        step = -(-len(words) // parts)
        found.extend(" ".join(words[place : place + step]) for place in range(0, len(words), step))
        if len(found) >= size:
            break
    return found[:size], f"passages cut into {parts} equal parts each, the first {size:,} parts"


def _made(texts: list[str], folder: Path) -> Corpus:
    return write_corpus((Document(str(number), text) for number, text in enumerate(texts)), folder / "corpus")


def _built(corpus: Corpus, path: Path, threads: int) -> tuple[Index, float]:
    begun = time.perf_counter()
    index = build_index(corpus, path, threads=threads)
    return index, time.perf_counter() - begun


def _size(given: argparse.Namespace, size: int, queries: dict[str, list[str]]) -> str:
    texts, made = _texts(given.corpus, size)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        corpus = _made(texts, folder)
        (folder / "texts").mkdir()
        with open(folder / "texts" / "texts.jsonl", "w", encoding="utf-8") as file:
            for number, text in enumerate(texts):
                print(json.dumps({"id": str(number), "contents": text}), file=file)
        named = {str(number): each for number, each in enumerate(queries.values())}
        (folder / "queries.json").write_text(json.dumps(named))
        _built(Corpus(corpus.path), folder / "warm", given.threads)  # loads what is compiled
        builds: dict[str, list[float]] = {"ours": []}
        peers = {}
        largest = dict(each.split("=") for each in given.largest)
        for name in (each for each in given.peers if size <= int(largest.get(each, size))):
            tell(f"{size:,}: building, ours and {name}")
            index, seconds = _built(corpus, folder / f"index-{name}", given.threads)
            builds["ours"].append(seconds)
            peers[name] = Peer(given, name, folder)
            builds[name] = [peers[name].build]
        if not peers:
            index, seconds = _built(corpus, folder / "index", given.threads)
            builds["ours"].append(seconds)
        rows = [
            row
            for number, name in enumerate(queries)
            for row in _searches(given, index, peers, number=str(number), name=name, queries=queries[name])
        ]
        for peer in peers.values():
            peer.end()
        held = sum(file.stat().st_size for file in index.path.iterdir()) / 1e6
        words = f"{index.documents:,} documents ({made}), {index.tokens / index.documents:.0f} words each on average"
    build_rows = [(name, " ".join(f"{each:.1f}" for each in seconds)) for name, seconds in builds.items()]
    names = ["queries", "K", "ours, queries/s", *(f"{name}: queries/s, ours by it" for name in peers), "same", *_EFFORT]
    return f"""## {size:,}

{words}; our index takes {held:.0f} MB.

{table(("index built", "seconds (ours: before each of the others, in this order)"), build_rows)}

{table(names, rows)}
"""


_EFFORT = ("postings there are, a query", "postings read", "cells read", "bytes read by 8 bytes a posting")


def _effort_cells(effort: Effort) -> list[str]:
    count = effort.queries
    # 4 bytes a posting, 1 a cell; a search that skips nothing reads document and impact, 8 bytes
    share = (4 * effort.postings + effort.cells) / max(8 * effort.exhaustive, 1)
    return [
        f"{effort.exhaustive / count:,.0f}",
        f"{effort.postings / count:,.0f}",
        f"{effort.cells / count:,.0f}",
        f"{share:.0%}",
    ]


def _searches(
    given: argparse.Namespace, index: Index, peers: dict[str, Peer], *, number: str, name: str, queries: list[str]
) -> list[list[str]]:
    rows = []
    for k in given.k:
        speeds: dict[str, list[float]] = {each: [] for each in ("ours", *peers)}
        same = "-"
        index.search(queries[:4], k)
        for turn in range(given.rounds):
            tell(f"{index.documents:,}, {name}, K = {k}, round {turn + 1}")
            begun = time.perf_counter()
            hits = index.search(queries, k, threads=given.threads)
            speeds["ours"].append(len(queries) / (time.perf_counter() - begun))
            for each, peer in peers.items():
                if each == "lucene" and turn:
                    continue
                count = min(given.slow_count, len(queries)) if each == "lucene" else len(queries)
                answer = peer.search(number, k, count)
                speeds[each].append(count / answer["seconds"])
                if each == "bm25s":
                    found = [
                        (set(theirs), set(hits.of(place)[0].tolist())) for place, theirs in enumerate(answer["found"])
                    ]
                    same = (
                        f"{sum(len(theirs & ours) for theirs, ours in found) / sum(len(ours) for _, ours in found):.3%}"
                    )
        cells = []
        for each in peers:
            ratios = [ours / theirs for ours, theirs in zip(speeds["ours"], speeds[each], strict=False)]
            cells.append(f"{_median(speeds[each]):,.0f}, {_median(ratios):.1f}x")
        rows.append([name, str(k), f"{_median(speeds['ours']):,.0f}", *cells, same, *_effort_cells(hits.effort)])
    return rows


def _growth(given: argparse.Namespace, queries: dict[str, list[str]]) -> str:
    texts, made = _texts(given.corpus, max(given.growth))
    rows = []
    with tempfile.TemporaryDirectory() as place:
        indexes = []
        for size in given.growth:
            folder = Path(place) / str(size)
            indexes.append(_built(_made(texts[:size], folder), folder / "index", given.threads)[0])
        for name, each in queries.items():
            for k in given.k:
                seconds: list[list[float]] = [[] for _ in indexes]
                for _ in range(given.rounds):
                    for index, taken in zip(indexes, seconds, strict=True):
                        begun = time.process_time()
                        index.search(each, k, threads=1)
                        taken.append((time.process_time() - begun) / len(each) * 1e6)
                rows.append([name, k, *(f"{min(taken):,.0f}" for taken in seconds)])
    return f"""## Growth

Ours alone, one thread, microseconds of processor time a query (least of {given.rounds}), by the number of documents;
{made}.

{table(("queries", "K", *(f"{size:,}" for size in given.growth)), rows)}
"""


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


if __name__ == "__main__":
    main()
