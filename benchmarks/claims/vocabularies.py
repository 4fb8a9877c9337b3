"""P3: how much shorter the test inputs of BLURB's thirteen datasets are under a vocabulary of biomedical text.

python benchmarks/claims/vocabularies.py DIR OUT

DIR has the datasets, OUT the two vocabularies that `acclimate data vocabulary` learnt: voc-biomedical/tokenizer and
voc-general/tokenizer.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from outcomes import of_values, write
from tokenizers import Tokenizer

from acclimate.data.gather import read_dataset
from acclimate.data.lengths import Reader, bounded_sample, pieces, tokenised
from acclimate.reading.datasets.blurb import DATASETS

BIOMEDICAL, GENERAL = "biomedical", "general"


def measured(texts: list[tuple[str, str | None]], by: Reader) -> tuple[float, float]:
    """Return tokens an input, without special ones, and pieces a word."""
    encoded = tokenised(texts, by)
    tokens = sum(len(part.ids) for parts in encoded for part in parts)
    found = pieces("test", texts, encoded, by)
    assert found is not None
    return tokens / len(texts), found.per_word


def reader(path: Path) -> Reader:
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return Reader(tokenizer, None, tokenizer.token_to_id("[UNK]"))


def main(data: Path, out: Path) -> None:
    readers = {name: reader(out / f"voc-{name}" / "tokenizer") for name in (BIOMEDICAL, GENERAL)}
    facts: dict[str, Any] = {}
    for dataset in DATASETS:
        rows = read_dataset(dataset.name, data).splits["test"]
        texts = bounded_sample([(row.text, row.pair) for row in rows])
        facts[dataset.name] = {"texts": len(texts)}
        for name, by in readers.items():
            tokens, per_word = measured(texts, by)
            facts[dataset.name][name] = {"tokens": tokens, "pieces": per_word}

    def saved(what: str) -> dict[str, Any]:
        shares = [100 * (1 - text[BIOMEDICAL][what] / text[GENERAL][what]) for text in facts.values()]
        return of_values(shares, f"{len(shares)} datasets")

    means = {name: sum(text[name]["pieces"] for text in facts.values()) / len(facts) for name in readers}
    remark = ", ".join(f"{mean:.2f} under the {name} vocabulary" for name, mean in means.items())
    write(
        "vocabularies",
        {"tokens of an input that are saved": saved("tokens"), "pieces of a word that are saved": saved("pieces")},
        out=out,
        remark=f"Pieces a word, mean of the datasets: {remark}.",
        facts=facts,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
