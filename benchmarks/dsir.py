"""Share of documents of a task's domain that BM25, DSIR and chance retrieve out of general text, and their cost.

    python benchmarks/dsir.py --corpus general_corpus.jsonl.zst --passages 20000 --k 5 --rows 100 1000 --data DIR \
        --task cs=ACL-ARC --task reviews=IMDB --task biomed=NCBI-disease --out benchmarks/reports/2026-11-29-dsir.md

Each line of the corpus states `id`, `text` and `domain`. A task is DOMAIN=DATASET: its right documents are those of
DOMAIN.

All ways retrieve as many documents as BM25 does with this K; the seconds of random and DSIR include BM25's search.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import zstandard
from page import head, table, tell, write

from acclimate.core.types import Document, Example
from acclimate.data.retrieve import RetrieveRecipe, cached_index, retrieve_for
from acclimate.reading.published import published
from acclimate.text.corpus import Corpus, write_corpus

INTRODUCTION = """\
The random way shows the share of the domain that chance brings. Random and DSIR are one sample per line, so a
difference of a few percent may be chance. DSIR's smoothing, and its weights as of chunks of equal length, were chosen
on ChemProt and SciERC, which are not in the table. A document of the domain does not prove that training on it helps.
`acclimate study tlm vary=retrieval` tests that.
"""
WAYS = ("random", "bm25", "dsir")
NAMES = {"random": "random", "bm25": "BM25", "dsir": "DSIR"}


def passages(file: Path) -> Iterator[Document]:
    """Yield the passages of the corpus, with their domain as source."""
    with file.open("rb") as packed:
        stream = zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(packed)
        for line in io.TextIOWrapper(stream, encoding="utf-8"):
            passage = json.loads(line)
            yield Document(passage["id"], passage["text"], passage["domain"])


def training_rows(name: str, data: Path) -> list[Example]:
    """Return the training rows of a published dataset in DIR or one of its folders."""
    for root in (data, *sorted(filter(Path.is_dir, data.iterdir()))):
        with contextlib.suppress(ValueError, OSError):
            return list(published(name, root).splits["train"])
    raise ValueError(f"{data} has no dataset {name}. Fetch it with acclimate data fetch")


def measure(
    corpus: Corpus, rows: list[Example], name: str, domain: str, out: Path, *, k: int
) -> list[tuple[object, ...]]:
    """Return a row of the table per way of retrieving."""
    lines = []
    for how in WAYS:
        seconds = time.process_time()
        retrieved = retrieve_for(corpus, {"train": rows}, out / how, RetrieveRecipe(k=k, how=how))
        seconds = time.process_time() - seconds
        documents, counts = len(retrieved.selection), retrieved.facts["retrieved_sources"]
        words = retrieved.facts["selection"]["words"] / documents
        share = f"{counts.get(domain, 0) / documents:.1%}"
        lines.append(
            (
                f"{name} ({domain}), {len(rows):,} rows",
                NAMES[how],
                f"{documents:,}",
                share,
                f"{words:,.0f}",
                f"{seconds:,.1f}",
            )
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--task", action="append", required=True, metavar="DOMAIN=DATASET")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        os.environ["ACCLIMATE_CACHE"] = str(place / "cache")
        corpus = write_corpus(itertools.islice(passages(options.corpus), options.passages), place / "corpus")
        cached_index(corpus, place, analyzer="words", k1=1.2, b=0.75)  # for all ways
        domains = [document.source for document in corpus.documents()]
        results = []
        for task in options.task:
            domain, _, name = task.partition("=")
            rows = training_rows(name, options.data)
            random.Random(0).shuffle(rows)
            for count in options.rows:
                results += measure(corpus, rows[:count], name, domain, place / f"{domain}-{count}", k=options.k)
            tell(f"{domain}: {domains.count(domain) / len(domains):.1%} of the corpus")
        shares = ", ".join(f"{name} {domains.count(name) / len(domains):.1%}" for name in sorted({*domains}))
    facts = [("corpus", f"{len(domains):,} passages: {shares}"), ("K", str(options.k))]
    columns = ("task", "way", "documents", "of the domain", "words per document", "processor seconds")
    write(
        options.out, [head("DSIR beside BM25 and random documents", facts=facts), INTRODUCTION, table(columns, results)]
    )


if __name__ == "__main__":
    main()
