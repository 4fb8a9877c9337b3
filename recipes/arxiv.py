"""Build the dataset that comes with acclimate: src/acclimate/data/arxiv.

    python recipes/arxiv.py FIELDS.jsonl.gz ABSTRACTS.jsonl.zst    (pip install zstandard)

FIELDS     one paper a line, with id, title and field: 290 papers for each of nine fields
ABSTRACTS  one paper a line, with id and text (title and abstract); none of them is in FIELDS

Both hold arXiv's metadata, which are CC0 1.0. The hash of a paper's id decides its split, and which abstracts are kept.
"""

import csv
import gzip
import hashlib
import io
import json
import sys
from pathlib import Path

import pyarrow as pa
import zstandard
from pyarrow import parquet

OUT = Path(__file__).resolve().parents[1] / "src" / "acclimate" / "data" / "arxiv"
SPLITS = {"train": 40, "dev": 20, "test": 230}  # split -> papers of each field
NAMES = {"train": "arxiv.csv", "dev": "dev.csv", "test": "test.csv"}  # the first names the task
ABSTRACTS = 6_000


def order(paper: dict[str, str]) -> str:
    return hashlib.sha256(paper["id"].encode()).hexdigest()


def main(fields: str, abstracts: str) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    with gzip.open(fields, "rt", encoding="utf-8") as file:
        papers = sorted(map(json.loads, file), key=order)
    by_field = {field: [paper for paper in papers if paper["field"] == field] for field in {p["field"] for p in papers}}
    first = 0
    for split, size in SPLITS.items():
        rows = [paper for group in by_field.values() for paper in group[first : first + size]]
        with (OUT / NAMES[split]).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("id", "title", "field"))
            writer.writerows((paper["id"], paper["title"], paper["field"]) for paper in sorted(rows, key=order))
        first += size
    with zstandard.open(abstracts, "rb") as file:
        abstracts_by_hash = sorted(map(json.loads, io.TextIOWrapper(file, encoding="utf-8")), key=order)[:ABSTRACTS]
    table = pa.table({name: [paper[name] for paper in abstracts_by_hash] for name in ("id", "text")})
    options = {"compression": "zstd", "compression_level": 22, "use_dictionary": False, "write_statistics": False}
    parquet.write_table(table, OUT / "abstracts.parquet", data_page_size=1 << 26, row_group_size=ABSTRACTS, **options)


if __name__ == "__main__":
    main(*sys.argv[1:])
