"""The most frequent tag of each word: no model at all, the baseline that a tagger must beat.

A word gets the tag that it has most often in the training sentences, spelt the same; else, of the word in small
letters; a word that never occurs there gets the most frequent tag of all words that occur once, which is what new words
are like. Of equals the first by name wins. There is nothing to choose, so dev is only scored.

CoNLL's baseline (Tjong Kim Sang and De Meulder, 2003, section 4.1) looks up whole entities instead of words.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from acclimate.core.types import Example, Label
from acclimate.methods.tfidf import Fitted
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.tags import words_of


def fit(task: Prepared) -> Fitted:
    """Count, and score on dev. The test set stays sealed. Raises ValueError for a kind of task without words' tags."""
    begun = time.perf_counter()
    if task.kind != "tokens":
        raise ValueError(f"a task of kind '{task.kind}' has no tags of words; these have: tokens")
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    small: dict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in _tagged(task.examples("train")):
        counts[word][tag] += 1
        small[word.lower()][tag] += 1
    of_new = Counter(tag for tags in counts.values() if tags.total() == 1 for tag in tags)
    exact, lowered = ({word: _most(tags) for word, tags in table.items()} for table in (counts, small))
    new = _most(of_new or sum(counts.values(), Counter()))

    def predict(examples: Sequence[Example]) -> list[Label]:
        return [
            tuple(exact.get(word) or lowered.get(word.lower(), new) for word in words_of(example.text))
            for example in examples
        ]

    dev = task.examples("dev")
    predicted = predict(dev)
    return Fitted(
        strength=0.0,
        dev=task.score([example.label for example in dev], predicted),
        predicted_dev=tuple(predicted),
        tokens=sum(tags.total() for tags in counts.values()),
        seconds=time.perf_counter() - begun,
        predict=predict,
    )


def _tagged(examples: Sequence[Example]) -> Iterator[tuple[str, str]]:
    for example in examples:
        assert isinstance(example.label, tuple)
        yield from zip(words_of(example.text), example.label, strict=True)


def _most(tags: Counter[str]) -> str:
    return min(tags, key=lambda tag: (-tags[tag], tag))
