"""Train the "public" word vectors from which TAPTER's run goes on: skip-gram on the general text.

python benchmarks/claims/vectors.py TEXTS/general.jsonl OUT/general.bin

The general text has no biomedical passage (benchmarks/claims/texts.py). One thread: equal runs give equal bytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from acclimate.text.vectors.skipgram import Skipgram
from acclimate.text.vectors.vectors import train_vectors

SETTINGS = Skipgram(dim=100, epochs=2, min_count=5, buckets=200_000, lower=True, threads=1)


def main(general: Path, out: Path) -> None:
    def texts() -> Iterator[str]:
        with general.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)["text"]

    train_vectors(texts, out, SETTINGS)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
