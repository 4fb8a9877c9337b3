"""Make the rows of a corpus by number: masked segments, or masked pairs of segments for next-sentence prediction.

Pairs of segments follow Devlin et al. (2019), section 3.1 and A.2, and BERT's create_pretraining_data.py.
Legend: B rows, N tokens, R rows of the corpus, V pieces of the vocabulary, D documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.text.masking import Replacement, mask_words, replacement_of
from acclimate.text.segments import segments
from acclimate.text.tokens import Tokens

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

RANDOM_NEXT = "random_next"  # name in `Batch.rows`: 0 if the second part follows the first, 1 if it does not
TYPES = "token_type_ids"  # name in `Batch.tokens`
TRIES = 8  # times to look for a long enough part of another document
_ENDS = (".", "!", "?")


class Rows(Protocol):
    """The rows of a corpus, by number."""

    @property
    def mean_tokens(self) -> float:
        """Return the mean number of tokens of a row, special ones included."""
        ...

    def __len__(self) -> int: ...

    def __call__(self, chosen: np.ndarray, *, rate: float, generator: np.random.Generator) -> Batch:
        """Return the rows with these numbers, masked at this rate, with tokens["labels"], named like `document 17`."""
        ...


def masked_segments(
    tokens: Tokens,
    *,
    longest: int,
    whole_words: bool,
    masked: float = 0.8,
    random: float = 0.1,
    documents: np.ndarray | None = None,
    name: str = "document",
) -> Segments:
    """Return the segments of a corpus as rows.

    longest    tokens of a row at most, special tokens included
    masked, random  shares of the predicted tokens that become the mask and a random token
    documents  (D,) bool, False for documents to leave out; None: all take part

    Raises ValueError if a setting is out of range.
    """
    boundaries = segments(tokens, longest)
    replacement = Replacement(tokens.mask, tokens.vocabulary, tokens.special, masked=masked, random=random)
    return Segments(tokens, boundaries, kept_of(tokens, boundaries, documents), replacement, whole_words, name)


@dataclass(frozen=True, eq=False)
class Segments:
    """Rows of one segment each.

    boundaries   (S + 1,) of all segments of the corpus (text/segments.py)
    numbers      (R,) the segments that are rows, ascending
    whole_words  False: tokens are masked one by one
    name         stands before a document's number in messages
    """

    tokens: Tokens
    boundaries: np.ndarray
    numbers: np.ndarray
    replacement: Replacement
    whole_words: bool
    name: str = "document"

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def mean_tokens(self) -> float:
        """Return the mean number of tokens of a row, special ones included."""
        return float(np.mean(np.diff(self.boundaries)[self.numbers])) + self.tokens.frame

    def masked_words(self, chosen: np.ndarray, rows: Batch) -> np.ndarray:
        """Return (R,) how many words are predicted, of the rows that these segments became. A word of which k of n
        tokens are predicted counts as k / n words.
        """
        begins = self.boundaries[self.numbers[chosen]]
        lengths = self.boundaries[self.numbers[chosen] + 1] - begins
        source = runs(begins, lengths)
        predicted = rows.tokens["labels"][runs(rows.offsets[:-1] + len(self.tokens.prefix), lengths)] != NOT_PREDICTED
        starts = np.array(self.tokens.word_starts[source], bool)
        starts[np.cumsum(lengths) - lengths] = True  # a row may begin within a word
        word_of_token = np.cumsum(starts) - 1
        tokens_of_word = np.bincount(word_of_token, weights=self.replacement.ordinary()[self.tokens.ids[source]])
        words = np.bincount(word_of_token, weights=predicted) / np.maximum(1, tokens_of_word)
        row_of_word = np.repeat(np.arange(len(rows)), lengths)[starts]
        return np.bincount(row_of_word, weights=words, minlength=len(rows))

    def __call__(self, chosen: np.ndarray, *, rate: float, generator: np.random.Generator) -> Batch:
        tokens, numbers = self.tokens, self.numbers[chosen]
        begins = self.boundaries[numbers]
        lengths = self.boundaries[numbers + 1] - begins
        offsets = np.concatenate([[0], np.cumsum(lengths + tokens.frame)])
        source, target = runs(begins, lengths), runs(offsets[:-1] + len(tokens.prefix), lengths)
        ids = np.empty(offsets[-1], np.int64)
        ids[target] = tokens.ids[source]
        ids[offsets[:-1, None] + np.arange(len(tokens.prefix))] = tokens.prefix
        ids[offsets[1:, None] - len(tokens.suffix) + np.arange(len(tokens.suffix))] = tokens.suffix
        starts = np.ones(len(ids), bool)
        starts[target] = tokens.word_starts[source]
        ids, labels = mask_words(
            ids,
            offsets,
            word_starts=starts,
            rate=rate,
            replacement=self.replacement,
            generator=generator,
            whole_words=self.whole_words,
        )
        documents = document_numbers(tokens, begins)
        names = [f"{self.name} {document}" for document in documents.tolist()]
        return Batch(ids, offsets, tokens={"labels": labels}, names=names, pad=tokens.pad)


def kept_of(tokens: Tokens, boundaries: np.ndarray, documents: np.ndarray | None) -> np.ndarray:
    """Return (R,) int64, ascending: the segments of these documents, (D,) bool or None for all."""
    if documents is None:
        return np.arange(len(boundaries) - 1)
    return np.flatnonzero(documents[document_numbers(tokens, boundaries[:-1])])


def document_numbers(tokens: Tokens, begins: np.ndarray) -> np.ndarray:
    """Return (n,) the number of the document of each token."""
    numbers: np.ndarray = np.searchsorted(tokens.documents, begins, side="right") - 1
    return numbers


def runs(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return (sum of lengths,) the places of all runs, one run after the other."""
    rank = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)  # of a place within its run
    places: np.ndarray = rank + np.repeat(begins, lengths)
    return places


def masked_pairs(
    tokens: Tokens,
    tokenizer: PreTrainedTokenizerBase,
    *,
    longest: int,
    whole_words: bool,
    documents: np.ndarray | None = None,
    name: str = "document",
) -> NextSentenceRows:
    """Return the segments of a corpus as pairs. longest: tokens of a row at most; documents: as in `masked_segments`.

    Raises ValueError if fewer than two documents have text, or if `longest` has no room for two tokens of text.
    """
    frame = frame_of(tokenizer)
    room = longest - frame.size
    if room < 2:
        raise ValueError(
            f"pairs of at most {longest} tokens have no room for text: the tokenizer adds {frame.size} special tokens. "
            f"Set max_tokens to at least {frame.size + 2}"
        )
    boundaries = segments(tokens, room + tokens.frame - tokens.prompt)
    numbers = kept_of(tokens, boundaries, documents)
    document_of = document_numbers(tokens, boundaries[numbers])
    if not len(numbers) or document_of[0] == document_of[-1]:
        raise ValueError(
            "next_sentence needs several documents, but only one has text. Give a corpus of several, or set "
            "next_sentence=false"
        )
    single = Segments(tokens, boundaries, numbers, replacement_of(tokenizer), whole_words, name)
    ends_V, digits_V = ends_and_digits(tokenizer, tokens.vocabulary)
    return NextSentenceRows(single, frame, ends_V, digits_V, document_of, room)


@dataclass(frozen=True, eq=False)
class NextSentenceRows:
    """Rows of a segment cut in two; in half of them a part of another document replaces the second part.

    A segment is cut at the beginning of a sentence, chosen uniformly, or else of a word. A segment of a single word
    always gets a part of another document. That part begins in the same way, within a segment sampled from those of
    all other documents. It is as long as the part that it replaces, if a long enough document is found, so that
    neither its beginning nor its length shows whether it follows.

    segments  with at most the tokens that the frame leaves
    ends_V    (V,) bool, pieces that end a sentence; digits_V: pieces of digits only
    room      tokens of both parts at most
    """

    segments: Segments
    frame: Frame
    ends_V: np.ndarray
    digits_V: np.ndarray
    document_of: np.ndarray  # (R,) the document of each segment, ascending
    room: int

    def __len__(self) -> int:
        return len(self.segments)

    @property
    def mean_tokens(self) -> float:
        """Return the mean number of tokens of a row, special ones included, if every second part followed the first."""
        return self.segments.mean_tokens - self.segments.tokens.frame + self.frame.size

    def __call__(self, chosen: np.ndarray, *, rate: float, generator: np.random.Generator) -> Batch:
        tokens, boundaries, numbers = self.segments.tokens, self.segments.boundaries, self.segments.numbers
        begins_B, ends_B = boundaries[numbers[chosen]], boundaries[numbers[chosen] + 1]
        cuts_B = self._cuts(begins_B, ends_B, generator)
        random_B = (generator.random(len(chosen)) < 0.5) | (cuts_B == begins_B)
        cuts_B = np.where(cuts_B == begins_B, ends_B, cuts_B)
        cuts_B = np.where((cuts_B == ends_B) & (ends_B - begins_B >= self.room), ends_B - 1, cuts_B)  # room for another
        wanted_B = np.where(cuts_B == ends_B, self.room - (ends_B - begins_B), ends_B - cuts_B)
        others_B, other_begins_B = self._stretches(chosen, wanted_B, generator)
        other_ends_B = self._ends(other_begins_B, wanted_B, self.document_of[others_B])
        second_B = np.where(random_B, other_begins_B, cuts_B)
        lengths_B = np.where(random_B, other_ends_B, ends_B) - second_B
        names = [
            f"{self.segments.name} {document}" + (f" and {other}" if random else "")
            for document, other, random in zip(
                self.document_of[chosen].tolist(), self.document_of[others_B].tolist(), random_B.tolist(), strict=True
            )
        ]
        rows = {RANDOM_NEXT: random_B.astype(np.int64)}
        framed = self._framed(begins_B, cuts_B - begins_B, second_B, lengths_B)
        ids, labels = mask_words(
            framed.ids,
            framed.offsets,
            word_starts=framed.tokens["word_starts"],
            rate=rate,
            replacement=self.segments.replacement,
            generator=generator,
            whole_words=self.segments.whole_words,
        )
        targets = {"labels": labels, TYPES: framed.tokens[TYPES]}
        return Batch(ids, framed.offsets, tokens=targets, rows=rows, names=names, pad=tokens.pad)

    def _cuts(
        self, begins_B: np.ndarray, ends_B: np.ndarray, generator: np.random.Generator, last_B: np.ndarray | None = None
    ) -> np.ndarray:
        """Return (B,) a place within each stretch where a sentence or else a word begins; its first place if none does.

        last_B  the last place that is allowed
        """
        tokens = self.segments.tokens
        lengths_B = ends_B - begins_B
        places_N, row_N = runs(begins_B, lengths_B), np.repeat(np.arange(len(begins_B)), lengths_B)
        words_N = np.array(tokens.word_starts[places_N], bool)
        words_N[np.cumsum(lengths_B) - lengths_B] = False  # a cut before the first token would leave no first part
        before_N = self.ends_V[tokens.ids[np.maximum(places_N - 1, 0)]]
        around_N = self.digits_V[tokens.ids[places_N]] & self.digits_V[tokens.ids[np.maximum(places_N - 2, 0)]]
        words_N &= ~(before_N & around_N)  # a number such as 0.5 is whole
        if last_B is not None:
            words_N &= places_N <= last_B[row_N]
        sentences_N = words_N & before_N
        has_B = np.bincount(row_N[sentences_N], minlength=len(begins_B)) > 0
        possible = np.flatnonzero(np.where(has_B[row_N], sentences_N, words_N))
        counts_B = np.bincount(row_N[possible], minlength=len(begins_B))
        sampled_B = (generator.random(len(begins_B)) * counts_B).astype(np.int64)
        cuts_B = begins_B.copy()
        has_cut = counts_B > 0
        cuts_B[has_cut] = places_N[possible[(np.cumsum(counts_B) - counts_B + sampled_B)[has_cut]]]
        return cuts_B

    def _stretches(
        self, chosen: np.ndarray, wanted_B: np.ndarray, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (B,) segments of other documents, and (B,) a place where a sentence or word begins in each.

        From there on, the document has as many tokens as are wanted, unless TRIES attempts find none that has.
        """
        boundaries = self.segments.boundaries
        numbers = self.segments.numbers
        ends_D = self.segments.tokens.documents[1:]
        others_B = self._others(chosen, generator)
        begins_B = self._cuts(boundaries[numbers[others_B]], boundaries[numbers[others_B] + 1], generator)
        for _ in range(TRIES):
            short = np.flatnonzero(begins_B + wanted_B > ends_D[self.document_of[others_B]])
            if not len(short):
                break
            others = self._others(chosen[short], generator)
            first, last = boundaries[numbers[others]], ends_D[self.document_of[others]] - wanted_B[short]
            begins = self._cuts(first, boundaries[numbers[others] + 1], generator, last)
            within = begins > first
            others_B[short[within]], begins_B[short[within]] = others[within], begins[within]
        return others_B, begins_B

    def _others(self, chosen: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Return (B,) segments, each sampled from all documents but that of the chosen segment."""
        documents_B = self.document_of[chosen]
        first_B = np.searchsorted(self.document_of, documents_B, side="left")
        count_B = np.searchsorted(self.document_of, documents_B, side="right") - first_B
        sampled_B = generator.integers(len(self) - count_B)
        others_B: np.ndarray = sampled_B + np.where(sampled_B >= first_B, count_B, 0)
        return others_B

    def _ends(self, begins_B: np.ndarray, wanted_B: np.ndarray, documents_B: np.ndarray) -> np.ndarray:
        """Return (B,) the ends of stretches of at most the wanted lengths: before a word, within a word that is longer
        than the stretch, or at the end of the document.
        """
        tokens = self.segments.tokens
        last_B = tokens.documents[documents_B + 1]
        ends_B: np.ndarray = np.minimum(begins_B + wanted_B, last_B)
        shorter_B: np.ndarray = ends_B.copy()
        while len(inside := np.flatnonzero((shorter_B < last_B) & (shorter_B > begins_B))):
            inside = inside[~tokens.word_starts[shorter_B[inside]]]
            if not len(inside):
                break
            shorter_B[inside] -= 1
        shorter_B[shorter_B <= begins_B] = ends_B[shorter_B <= begins_B]
        return shorter_B

    def _framed(self, first_B: np.ndarray, firsts_B: np.ndarray, second_B: np.ndarray, seconds_B: np.ndarray) -> Batch:
        """Return rows of both stretches, given by begin and length, within the special tokens of the frame."""
        tokens, frame = self.segments.tokens, self.frame
        offsets = np.concatenate([[0], np.cumsum(firsts_B + seconds_B + frame.size)])
        ids, types = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64)
        starts = np.ones(offsets[-1], bool)
        at = offsets[:-1]
        around = (frame.prefix, frame.between, frame.suffix)
        within = ((first_B, firsts_B), (second_B, seconds_B), None)
        for place, (special, stretch) in enumerate(zip(around, within, strict=True)):
            lengths_B = np.full(len(at), len(special))
            target = runs(at, lengths_B)
            ids[target], types[target] = np.tile(np.array(special, np.int64), len(at)), frame.types[2 * place]
            at = at + lengths_B
            if stretch is not None:
                begins_B, lengths_B = stretch
                source, target = runs(begins_B, lengths_B), runs(at, lengths_B)
                ids[target], starts[target] = tokens.ids[source], tokens.word_starts[source]
                types[target], starts[at] = frame.types[2 * place + 1], True
                at = at + lengths_B
        return Batch(ids, offsets, tokens={"word_starts": starts, TYPES: types})


@dataclass(frozen=True)
class Frame:
    """The special tokens that a tokenizer puts around two texts.

    types  token types of prefix, first text, special tokens between, second text, suffix
    """

    prefix: tuple[int, ...]
    between: tuple[int, ...]
    suffix: tuple[int, ...]
    types: tuple[int, int, int, int, int]

    @property
    def size(self) -> int:
        return len(self.prefix) + len(self.between) + len(self.suffix)


def frame_of(tokenizer: PreTrainedTokenizerBase) -> Frame:
    """Return the special tokens that a tokenizer puts around two texts.

    Raises ValueError if they cannot be found out, or if both texts have the same token type.
    """
    inner = tokenizer("a", add_special_tokens=False)["input_ids"]
    encoding = tokenizer("a", "a", return_token_type_ids=True)
    ids, types = encoding["input_ids"], encoding["token_type_ids"]
    places = [at for at in range(len(ids) - len(inner) + 1) if ids[at : at + len(inner)] == inner]
    if not inner or len(places) != 2:
        raise ValueError(f"cannot tell which special tokens {type(tokenizer).__name__} puts around two texts")
    first, second = places
    between, suffix = ids[first + len(inner) : second], ids[second + len(inner) :]
    kinds = (0, types[first], types[second - 1] if between else 0, types[second], types[-1])
    if types[first] == types[second]:
        raise ValueError(f"{type(tokenizer).__name__} does not mark two texts by token types. Set next_sentence=false")
    return Frame(tuple(ids[:first]), tuple(between), tuple(suffix), kinds)


def ends_and_digits(tokenizer: PreTrainedTokenizerBase, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (V,) bool, pieces that end a sentence, such as "." and ")."; and (V,) bool, pieces of digits only."""
    ends_V, digits_V = np.zeros(vocabulary, bool), np.zeros(vocabulary, bool)
    for piece, number in tokenizer.get_vocab().items():
        text = piece.removeprefix("##").strip("\u2581\u0120")
        ends_V[number], digits_V[number] = text.endswith(_ENDS), text.isdigit()
    ends_V[tokenizer.all_special_ids] = False
    return ends_V, digits_V
