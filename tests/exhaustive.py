"""BM25 as `acclimate.text.bm25.build` states it, in plain Python, over all documents one by one."""

from __future__ import annotations

import math
import operator
from collections import Counter
from functools import reduce

import numpy as np

from acclimate.text.bm25.words import analysed_words


class Exhaustive:
    """Scores in float64, word by word in the order of the query, then rounded to float32."""

    def __init__(self, texts, k1=1.2, b=0.75, analyzer="words"):
        self.k1, self.b, self.analyzer = k1, b, analyzer
        self.documents = [Counter(analysed_words(analyzer, text)) for text in texts]
        self.lengths = [document.total() for document in self.documents]
        self.average = sum(self.lengths) / max(len(texts), 1)
        self.frequencies = Counter(word for document in self.documents for word in document)

    def idf(self, word):
        n = self.frequencies[word]
        return math.log(1 + (len(self.documents) - n + 0.5) / (n + 0.5))

    def parts(self, query, document):
        """Word -> its part of the document's score, for the words that both have."""
        return self._parts(Counter(analysed_words(self.analyzer, query)), document)

    def _parts(self, counts, document):
        found = {}
        for word, count in counts.items():
            if times := self.documents[document][word]:
                norm = self.k1 * (1 - self.b + self.b * self.lengths[document] / self.average)
                found[word] = self.idf(word) * count * (times / (times + norm))
        return found

    def search(self, query, k):
        """(document, score) of the best k, equal scores by document."""
        counts = Counter(analysed_words(self.analyzer, query))
        scored = [(number, self._parts(counts, number)) for number in range(len(self.documents))]
        # added one by one: the sum of newer Pythons rounds less
        hits = [(-np.float32(reduce(operator.add, parts.values())), number) for number, parts in scored if parts]
        return [(number, -score) for score, number in sorted(hits)[:k]]
