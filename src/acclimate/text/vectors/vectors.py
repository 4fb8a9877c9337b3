"""Word vectors with n-grams (fastText): open them, train them, or continue to train them on other text.

    vectors, found = open_vectors(Path("wiki.en.bin")).look_up(["naloxone", "hypotension"])
    train_vectors(lambda: texts, Path("domain.bin"), Skipgram(lower=True), start=Path("wiki.en.bin"))

Bojanowski, Grave, Joulin and Mikolov (2017), Enriching word vectors with subword information. A word's vector is the
mean of the word's row and the rows of its n-grams; a word without a row has its n-grams only.

Continued training of a `.bin` keeps and moves all three matrices: words, n-gram buckets, output rows. The official tool
cannot do this: its -pretrainedVectors reads words only.

Readings
  Words are those of `words.word_spans`: punctuation stands alone ("protein," is two words), as in the text of the
  public vectors. A window never leaves a line of text. wiki.*.bin were trained on text in lower case (set lower=True)
  without digits; cc.*.bin keep case.
  Negatives and sub-sampling follow the counts of the new text, also in continued training: the model must distinguish
  only its words, and no other output row is needed. As in the tool, a word's share for sub-sampling is of all words
  read, rare ones included. The file gets the sum of both counts.
  New words begin as the mean of their n-grams' rows, so that their vectors do not jump, and with output rows of 0.
  They come after the start's words, whatever their counts.
  min_count applies to all words of the new text, also to those that the start has: rarer ones keep their rows.
  The rate begins again and falls to 0. In continued training of a `.bin` it begins at half, .025, where held-out loss
  was lower than at .05, with three seeds each. We chose .025 on that held-out text, from one start and one domain.
  Whether continued training beats training from nothing on a domain of a million words is not established (.004 to
  .006). benchmarks/reports/2026-11-22-vectors.md has the figures.
Deviations
  A text is read exactly `epochs` times. The tool, which counts the words that it leaves out, reads on until it has seen
  as many.
  Lines stay apart; the tool joins lines where "</s>" is rarer than min_count.
  Negatives are sampled exactly in proportion; the tool has a table of 10,000,000. The sigmoid is exact too.
  All rows begin at random; the tool (0.9.2, 0.9.3) leaves at 0 what lies past a tenth of the matrix for each thread.
What a start lacks
  A `.vec` has neither n-grams nor output rows. Buckets begin at random, output rows at 0, and a word's row at its
  vector times the number of rows that are averaged, so that its vector is kept but for the buckets' noise.
  Words that the `.vec` lacks begin at random.
  cc.*.bin were trained by CBOW: an output row was fitted to the mean of a window, not to single words. They can be
  used as a start of skip-gram training, whose loss is high at first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from acclimate.core.types import Watch, unwatched
from acclimate.text.vectors.files import END, NEGATIVE_SAMPLING, SKIPGRAM, Bin, Header, Vec, number_blocks, write_bin
from acclimate.text.vectors.skipgram import Skipgram
from acclimate.text.vectors.training import (
    InitialVectors,
    VectorsOf,
    WordRows,
    ngrams,
    number_words,
    open_file,
    parts,
    room,
    start_from,
    train_rows,
)

__all__ = ["Skipgram", "Vectors", "open_vectors", "train_vectors"]
FROM_NOTHING, CONTINUED = 0.05, 0.025  # rates at the first word
HASHES = 2**31 - 1  # different hashes of n-grams, by which they are compared
WORDS_AT_ONCE = 1 << 16


class Vectors:
    """The vectors of an open file. shortest, longest: characters of an n-gram; 0 if there are none (`.vec`)."""

    def __init__(self, file: Bin | Vec) -> None:
        self._file = file
        self.words: Sequence[str] = file.words
        self.dim, self.shortest, self.longest, self.buckets = file.dim, 0, 0, 0
        if isinstance(file, Bin):
            header = file.header
            self.shortest, self.longest, self.buckets = header.shortest, header.longest, header.buckets

    def look_up(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return (n, dim) float32, the mean of each word's rows, and (n,) bool, False if it has none (zeros)."""
        vectors, has_vector = np.zeros((len(words), self.dim), np.float32), np.zeros(len(words), bool)
        begins, buckets = ngrams(list(words), self.shortest, self.longest, self.buckets)
        for place, word in enumerate(words):
            number = self._file.index.get(word)
            word_row = vectors[:0] if number is None else self._file.word_rows(np.array([number]))
            rows = np.concatenate([word_row, self._file.bucket_rows(buckets[begins[place] : begins[place + 1]])])
            if len(rows):
                vectors[place], has_vector[place] = rows.sum(axis=0) / np.float32(len(rows)), True
        return vectors, has_vector

    def mostly_unseen(self, words: Sequence[str]) -> np.ndarray:
        """Return (n,) bool: True for a word without a row of which more than half of the n-grams occur in no word that
        the file was trained on. Its vector is mostly rows of other n-grams in the same buckets, or untrained rows.

        N-grams are compared by hashes of 31 bits: of 10,000,000 different ones in the file's words, about 1 in 200
        unseen ones is taken for seen.
        """
        unseen = np.zeros(len(words), bool)
        if not isinstance(self._file, Bin) or not self.longest:
            return unseen
        begins, hashes = ngrams(list(words), self.shortest, self.longest, HASHES)
        distinct = np.unique(hashes)
        flags = np.zeros(len(distinct), bool)
        # a .bin that began from a .vec holds words of it that its text lacks, with a count of 0: no text trained them
        trained = [word for word, count in zip(self.words, self._file.counts.tolist(), strict=True) if count]
        for first in range(0, len(trained) if len(distinct) else 0, WORDS_AT_ONCE):
            _, word_hashes = ngrams(trained[first : first + WORDS_AT_ONCE], self.shortest, self.longest, HASHES)
            places = np.searchsorted(distinct, word_hashes).clip(max=len(distinct) - 1)
            flags[places[distinct[places] == word_hashes]] = True
        is_unseen = ~flags[np.searchsorted(distinct, hashes)]
        for place, word in enumerate(words):
            if word not in self._file.index:
                of_word = is_unseen[begins[place] : begins[place + 1]]
                unseen[place] = 2 * np.count_nonzero(of_word) > len(of_word)
        return unseen


def open_vectors(path: Path) -> Vectors:
    """Open a fastText `.bin`, memory-mapped, or a text `.vec`, which has vectors of whole words only.

    Raises ValueError if the file is neither of them, cut short, quantised or supervised.
    """
    return Vectors(open_file(path))


def train_vectors(
    texts: Callable[[], Iterable[str]],
    out: Path,
    settings: Skipgram,
    *,
    start: Path | None = None,
    watch: Watch = unwatched,
) -> Path:
    """Train on the texts, from nothing or a `.bin` or `.vec`, and write `out`, a `.bin` that the official tool opens.

    Memory holds the rows of the texts' words and of the buckets that they use; all other rows are copied from file to
    file. A killed run leaves a hidden file beside `out`, which the next call for the same `out` overwrites.
    Raises ValueError if the start does not fit these settings, the texts have too few words, or training diverges.
    """
    source = start_from(start, settings)
    out.parent.mkdir(parents=True, exist_ok=True)
    text = number_words(texts(), out.parent, min_count=settings.min_count, lower=settings.lower, watch=watch)
    word_rows = parts(text.words, settings.shortest, settings.longest, settings.buckets)
    # of the text's words, in the start
    numbers = np.array([source.index.get(word, -1) for word in text.words], np.int64)
    new = np.flatnonzero(numbers < 0)
    numbers[new] = len(source.words) + np.arange(len(new))
    inputs, outputs = _gathered(source, numbers, word_rows, settings.dim)
    end = text.words.index(END) if END in text.words else -1
    rate = settings.rate or (CONTINUED if source.trained else FROM_NOTHING)
    arrays = {"inputs": inputs, "outputs": outputs}
    train_rows(text, end, word_rows, **arrays, rate=rate, settings=settings, watch=watch)
    counts = np.concatenate([source.counts, np.zeros(len(new), np.int64)])
    counts[numbers] += text.counts
    names, rows = [*source.words, *(text.words[number] for number in new)], inputs[:, : settings.dim]
    known_words, words = len(source.words), len(numbers)
    of_words = _blocks(source.word_rows, known_words, len(names), numbers, rows[:words])
    of_buckets = _blocks(source.bucket_rows, source.buckets, source.buckets, word_rows.buckets, rows[words:])
    of_outputs = _blocks(source.output_rows, known_words, len(names), numbers, outputs[:, : settings.dim])
    header = Header(
        dim=settings.dim,
        window=settings.window,
        epochs=settings.epochs,
        min_count=settings.min_count,
        negatives=settings.negatives,
        word_ngrams=1,
        loss=NEGATIVE_SAMPLING,
        model=SKIPGRAM,
        buckets=source.buckets,
        shortest=settings.shortest,
        longest=settings.longest,
        rate_every=100,  # words between two changes of the rate, the tool's default; here it changes with each line
        sample=settings.sample,
    )
    write_bin(
        out, header, names, counts, source.read + text.read, inputs=chain(of_words, of_buckets), outputs=of_outputs
    )
    return out


def _gathered(
    source: InitialVectors, numbers: np.ndarray, word_rows: WordRows, dim: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first input rows (words, then their buckets) and output rows.

    numbers  of the words in the start; from its number of words on, the word is new
    """
    words = len(numbers)
    inputs, outputs = room(words + len(word_rows.buckets), dim), room(words, dim)
    old, new = np.flatnonzero(numbers < len(source.words)), np.flatnonzero(numbers >= len(source.words))
    for rows, places, of, rows_of in (
        (inputs, words + np.arange(len(word_rows.buckets)), word_rows.buckets, source.bucket_rows),
        (inputs, old, numbers[old], source.word_rows),
        (inputs, new, numbers[new], source.new_rows),
        (outputs, old, numbers[old], source.output_rows),
    ):
        for block in number_blocks(len(places), dim):
            rows[places[block], :dim] = rows_of(of[block])
    for word in new if source.trained else ():
        ngram_rows = word_rows.rows[word_rows.begins[word] + 1 : word_rows.begins[word + 1]]
        if len(ngram_rows):
            inputs[word] = inputs[ngram_rows].mean(axis=0)
    return inputs, outputs


def _blocks(
    rows_of: VectorsOf, known_words: int, total: int, numbers: np.ndarray, moved: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield rows 0 to total - 1 in blocks: those of `moved` for the rows `numbers`, the start's for all others.

    numbers  hold all rows from `known_words` on, which the start does not have
    """
    order = np.argsort(numbers)
    ascending = numbers[order]
    for block in number_blocks(total, moved.shape[1]):
        rows = np.empty((len(block), moved.shape[1]), np.float32)
        old = block[block < known_words]
        rows[: len(old)] = rows_of(old)
        first, last = np.searchsorted(ascending, [block[0], block[-1] + 1])
        rows[ascending[first:last] - block[0]] = moved[order[first:last]]
        yield rows
