"""A peer of `benchmarks/retrieval.py`, in a process and a separate environment: bm25s, tantivy or Lucene.

    PYTHON retrieval_peer.py NAME TEXTS.jsonl QUERIES.json FOLDER THREADS

Says what it took to build as a line of JSON, then answers lines "SET K": the seconds of that search, and the documents
that the first 20 queries found. Texts come split into words as ours are where the peer can be told so.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

Search = Callable[[list[str], int], list[list[int]]]
TOLD = 20
_built: dict[str, float] = {}


def main() -> None:
    name, texts_file, queries_file, folder, threads = sys.argv[1:]
    with open(texts_file, encoding="utf-8") as lines:
        texts = [json.loads(line)["contents"] for line in lines]
    queries = json.loads(Path(queries_file).read_text())
    peers = {"bm25s": _bm25s, "tantivy": _tantivy, "lucene": _lucene}
    if name != "lucene":
        __import__(name)
    begun = time.perf_counter()
    search = peers[name](texts, Path(folder), int(threads), Path(texts_file).parent)
    _say({"build": _built.get(name, time.perf_counter() - begun)})
    for line in sys.stdin:
        which, k, count = line.split()
        begun = time.perf_counter()
        found = search(queries[which][: int(count)], int(k))
        _say({"seconds": time.perf_counter() - begun, "found": [list(map(int, each)) for each in found[:TOLD]]})


def _say(value: object) -> None:
    print("RESULT " + json.dumps(value), flush=True)


def _bm25s(texts: list[str], folder: Path, threads: int, source: Path) -> Search:
    import bm25s

    def split(some: list[str]) -> object:
        return bm25s.tokenize(some, token_pattern=r"(?u)\w+", stopwords=None, show_progress=False)

    index = bm25s.BM25(k1=1.2, b=0.75, method="lucene", backend="numba")
    index.index(split(texts), show_progress=False)

    def search(queries: list[str], k: int) -> list[list[int]]:
        found, _ = index.retrieve(split(queries), k=k, n_threads=threads, show_progress=False)
        return found.tolist()  # type: ignore[no-any-return]

    search(texts[:4], 5)  # compiles
    return search


def _tantivy(texts: list[str], folder: Path, threads: int, source: Path) -> Search:
    from concurrent.futures import ThreadPoolExecutor

    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", stored=False)
    folder.mkdir(parents=True)
    index = tantivy.Index(schema.build(), path=str(folder))
    writer = index.writer(heap_size=512 << 20, num_threads=threads)
    for text in texts:
        writer.add_document(tantivy.Document(text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def one(query: str, k: int) -> list[int]:
        parsed = index.parse_query(" ".join(re.findall(r"\w+", query.lower())), ["text"])
        return [address.doc for _, address in searcher.search(parsed, k, count=False).hits]

    def search(queries: list[str], k: int) -> list[list[int]]:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(lambda query: one(query, k), queries))

    return search


def _lucene(texts: list[str], folder: Path, threads: int, source: Path) -> Search:
    """Through pyserini, which wants JAVA_HOME to be a Java newer than 17."""
    os.environ.setdefault("OPENAI_API_KEY", "none")
    command = "-m pyserini.index.lucene --collection JsonCollection --generator DefaultLuceneDocumentGenerator"
    command += f" --threads {threads} --input {source} --index {folder} --stemmer none --keepStopwords"
    done = subprocess.run([sys.executable, *command.split()], check=True, capture_output=True, text=True)
    # Lucene's figure for how long it took, in whole seconds: the rest is the start of Java and of pyserini
    hours, minutes, seconds = re.findall(r"documents indexed in (\d+):(\d+):(\d+)", done.stdout + done.stderr)[-1]
    _built["lucene"] = 3600.0 * int(hours) + 60 * int(minutes) + int(seconds)
    from pyserini.analysis import get_lucene_analyzer
    from pyserini.search.lucene import LuceneSearcher

    searcher = LuceneSearcher(str(folder))
    searcher.set_analyzer(get_lucene_analyzer(stemmer="none", stopwords=False))
    searcher.set_bm25(1.2, 0.75)

    def search(queries: list[str], k: int) -> list[list[int]]:
        names = [str(number) for number in range(len(queries))]
        found = searcher.batch_search(queries, names, k, threads)
        return [[int(hit.docid) for hit in found[name]] for name in names]

    return search


if __name__ == "__main__":
    main()
