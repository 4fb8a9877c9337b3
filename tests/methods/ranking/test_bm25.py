"""BM25 on a search task: Lucene's formula, written out."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from acclimate.methods.baselines import read_baseline, write_baseline
from acclimate.methods.ranking.bm25 import Bm25
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.tasks.prepared import prepare
from search_files import write_toy


def test_documents_are_ranked_by_lucenes_formula_and_the_settings_are_kept(tmp_path: Path) -> None:
    folder = write_toy(tmp_path / "toy")
    task = prepare(read_files(LabelledFiles(folder)).task(), folder, tmp_path / "data")
    documents = [Counter(document.text.split()) for document in task.examples("train")]
    mean = sum(words.total() for words in documents) / len(documents)

    def score(query: str, words: Counter[str]) -> float:
        total = 0.0
        for word in query.split():
            having = sum(word in other for other in documents)
            weight = math.log(1 + (len(documents) - having + 0.5) / (having + 0.5))
            total += weight * words[word] / (words[word] + 1.2 * (0.25 + 0.75 * words.total() / mean))
        return total

    for query, ranked in zip(task.examples("test"), Bm25().rankings(task, "test"), strict=True):
        scores = {f"d{at}": score(query.text, words) for at, words in enumerate(documents)}
        best = sorted((name for name in scores if scores[name] > 0), key=lambda name: -round(scores[name], 5))
        assert list(ranked) == best
        assert ranked[0] == query.id.replace("q", "d")
    write_baseline(Bm25(k1=0.9, b=0.4), tmp_path)
    assert read_baseline(tmp_path) == Bm25(k1=0.9, b=0.4)
