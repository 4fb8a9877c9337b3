"""P3: how much shorter the test inputs of BLURB's thirteen datasets are under a vocabulary of biomedical text.

python benchmarks/claims/vocabularies.py DIR OUT [--seconds S] [--also NAME=MODEL]

DIR has the datasets, OUT the two vocabularies that `acclimate data vocabulary` learnt: voc-biomedical/tokenizer and
voc-general/tokenizer. S: processor seconds that learning them took. NAME=MODEL: a vocabulary to count beside them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from outcomes import commit, of_values, write
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--also", default="")
    given = parser.parse_args()
    readers = {name: reader(given.out / f"voc-{name}" / "tokenizer") for name in (BIOMEDICAL, GENERAL)}
    if given.also:
        name, _, place = given.also.partition("=")
        readers[name] = reader(Path(place))
    facts: dict[str, Any] = {}
    for dataset in DATASETS:
        rows = read_dataset(dataset.name, given.data).splits["test"]
        texts = bounded_sample([(row.text, row.pair) for row in rows])
        facts[dataset.name] = {"texts": len(texts)}
        for name, by in readers.items():
            tokens, per_word = measured(texts, by)
            facts[dataset.name][name] = {"tokens": tokens, "pieces": per_word}

    def saved(what: str, against: str = GENERAL) -> dict[str, Any]:
        shares = [100 * (1 - each[BIOMEDICAL][what] / each[against][what]) for each in facts.values()]
        return of_values(shares, f"{len(shares)} datasets")

    others = [name for name in readers if name not in (BIOMEDICAL, GENERAL)]
    means = {name: sum(each[name]["pieces"] for each in facts.values()) / len(facts) for name in readers}
    remark = ", ".join(f"{mean:.2f} under the {name} vocabulary" for name, mean in means.items())
    beside = "".join(
        f" Against {name}, {saved('tokens', name)['difference']:.1f}% of the tokens are saved." for name in others
    )
    write(
        "vocabularies",
        {"tokens of an input that are saved": saved("tokens"), "pieces of a word that are saved": saved("pieces")},
        commands=[
            "acclimate data vocabulary TEXTS/biomedical.jsonl --out OUT/voc-biomedical",
            "acclimate data vocabulary TEXTS/general.jsonl --out OUT/voc-general",
            "python benchmarks/claims/vocabularies.py DIR OUT",
        ],
        seconds=given.seconds + time.process_time(),
        made_by=commit(),
        remark=f"Pieces a word, mean of the datasets: {remark}.{beside}",
        facts=facts,
    )


if __name__ == "__main__":
    main()
