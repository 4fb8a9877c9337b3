"""Learn a vocabulary from a corpus, as PubMedBERT does: WordPiece, byte-level BPE or Unigram, as a tokenizer.

The corpus is streamed: `survey` reads it once and counts its characters and words, from which a vocabulary is learnt.
Memory grows with the number of different words. It holds at most `words` of them; beyond that the rarest are left out,
and `watch` gets a note on their share of the text.

A word here is a run of letters, digits, underscores and combining marks, or of other visible characters, with the space
before it if there is one. No tokenizer's pieces reach over its ends.
"""

from __future__ import annotations

import io
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from acclimate.core.types import Document, Progress, Watch, counted, unwatched
from acclimate.text.scripts import RUN, SIGNS_BETWEEN, is_simple

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

VocabularyKind = Literal["wordpiece", "bpe", "unigram"]
KINDS: tuple[VocabularyKind, ...] = get_args(VocabularyKind)
WORDS = 2_000_000  # different ones: some 1.5 GB of memory while a vocabulary is learnt, and all but .1% of most texts
_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
_ALBERT = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
_CHARACTERS = 2_000_000  # of the different words that a unigram vocabulary is learnt from, the most frequent first
_WORDS_A_LINE = 100
_THREADS = 8  # of SentencePiece: its sums, and so its pieces, depend on their number
_CONTINUED = "##"
_SPACE = "\u2581"
LONGEST = 200  # characters of a word that is learnt from: what is longer is data, such as a sequence of bases
_SIMPLE_WORD, _WORD = re.compile(r" ?(?:\w+|[^\w\s]+)"), re.compile(rf" ?(?:{RUN}|{SIGNS_BETWEEN})")
_BATCH_CHARACTERS = 1 << 20


class DocumentSource(Protocol):
    """Texts that can be read again and again, such as a Corpus."""

    def documents(self) -> Iterator[Document]: ...
    def __len__(self) -> int: ...


def train_tokenizer(
    corpus: DocumentSource,
    *,
    kind: VocabularyKind = "wordpiece",
    size: int,
    lower: bool = True,
    longest: int = 512,
    characters: int = 1000,
    words: int = WORDS,
    watch: Watch = unwatched,
) -> PreTrainedTokenizerFast:
    """Return a tokenizer whose vocabulary is learnt from the corpus. The same corpus gives the same bytes.

    kind        wordpiece: BERT's rules and special tokens; bpe: byte-level, RoBERTa's; unigram: ALBERT's
    size        entries, special tokens and characters (of bpe: bytes) included; fewer if the corpus gives no more
    lower       lower-case and drop accents, as the "uncased" models do
    longest     the tokenizer's model_max_length
    characters  number of distinct characters to keep, the most frequent ones. wordpiece makes a word with another
                character unknown, unigram only the character; bpe ignores this and spells all in bytes
    words       different words that are held in memory at most, with and without a space before them

    Each has an unknown, a padding, a mask, a cls and a sep token, and puts the last two around a text.
    Raises ValueError if `size` has no room for the special tokens and the characters.
    """
    if kind not in KINDS:
        raise ValueError(f"no kind of vocabulary is named '{kind}'. Known: {', '.join(KINDS)}")
    learnt: dict[VocabularyKind, Callable[..., PreTrainedTokenizerFast]]
    learnt = {"wordpiece": _wordpiece, "bpe": _byte_pairs, "unigram": _unigram}
    settings = {"size": size, "lower": lower, "longest": longest, "characters": characters, "words": words}
    return learnt[kind](corpus, **settings, watch=watch)


def _wordpiece(
    corpus: DocumentSource, *, size: int, lower: bool, longest: int, characters: int, words: int, watch: Watch
) -> PreTrainedTokenizerFast:
    from transformers import BertTokenizer  # takes most of a second, and nothing else here needs it

    raw = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    raw.normalizer = normalizers.BertNormalizer(lowercase=lower)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    surveyed = survey(corpus, raw.normalizer.normalize_str, most=words, short=False, stage="alphabet", watch=watch)
    alphabet = surveyed.alphabet(characters)
    continued = [_CONTINUED + character for character in alphabet if _joins(character, raw)]
    least = len(_BERT) + len(alphabet) + len(continued)
    if size < least:
        raise ValueError(
            f"a vocabulary of {size} has no room for {len(_BERT)} special tokens and {len(alphabet)} characters, "
            f"{len(continued)} of them also within words. Set more than {least}, or text of fewer characters"
        )
    # Left alone, the trainer numbers "##a", "##b" ... in the order of a randomly seeded hash table, and breaks ties
    # between pairs by these numbers: every run gives another vocabulary. Named as special, they come in our order.
    # That they stay ordinary tokens is seen to below, where only the vocabulary is taken over.
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=[*_BERT, *continued],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        continuing_subword_prefix=_CONTINUED,
        show_progress=False,
    )
    raw.train_from_iterator(_read(corpus, raw.normalizer.normalize_str, surveyed, watch), trainer)
    return BertTokenizer(vocab=raw.get_vocab(), do_lower_case=lower, model_max_length=longest)


def _byte_pairs(
    corpus: DocumentSource, *, size: int, lower: bool, longest: int, characters: int, words: int, watch: Watch
) -> PreTrainedTokenizerFast:
    """Return a tokenizer of merged bytes (Sennrich et al. 2016), as GPT-2 and RoBERTa have. `characters` is unused."""
    bytes_ = sorted(pre_tokenizers.ByteLevel.alphabet())
    if size < len(_ROBERTA) + len(bytes_):
        raise ValueError(
            f"a vocabulary of {size} has no room for {len(_ROBERTA)} special tokens and {len(bytes_)} bytes. Set "
            f"more than {len(_ROBERTA) + len(bytes_)}"
        )
    raw = Tokenizer(models.BPE())
    if lower:
        raw.normalizer = _lowered(normalizers.NFD(), normalizers.NFC())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    normalise = raw.normalizer.normalize_str if lower else str
    surveyed = survey(corpus, normalise, most=words, short=True, stage="words", watch=watch)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=_special(_ROBERTA),
        initial_alphabet=bytes_,
        show_progress=False,
    )
    raw.train_from_iterator(_read(corpus, normalise, surveyed, watch), trainer)
    start, _, end, _, _ = _ROBERTA
    raw.post_processor = processors.RobertaProcessing((end, 2), (start, 0), trim_offsets=True, add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    pad, unknown, mask = (_ROBERTA[place] for place in (1, 3, 4))
    named = {"cls": start, "bos": start, "pad": pad, "sep": end, "eos": end, "unk": unknown, "mask": mask}
    return _fast(raw, named, longest)


def _unigram(
    corpus: DocumentSource, *, size: int, lower: bool, longest: int, characters: int, words: int, watch: Watch
) -> PreTrainedTokenizerFast:
    """Return the pieces of a unigram language model (Kudo 2018, section 3.2), learnt by SentencePiece from the words'
    counts.

    The trainer of `tokenizers` reads the words in the order of a randomly seeded hash table: every run gives others.
    """
    import sentencepiece

    composed = normalizers.NFKC()
    normalizer = _lowered(normalizers.NFKD(), composed) if lower else composed
    surveyed = survey(corpus, normalizer.normalize_str, most=words, short=True, stage="words", watch=watch)
    alphabet = sorted({*surveyed.alphabet(characters), _SPACE})
    if size < (least := len(_ALBERT) + len(alphabet)):
        raise ValueError(
            f"a vocabulary of {size} has no room for {len(_ALBERT)} special tokens and {len(alphabet)} characters. "
            f"Set more than {least}, or text of fewer characters"
        )
    lines = _weighted_lines(surveyed, alphabet)
    if not lines:
        raise ValueError("the corpus has no words to learn a vocabulary from. Give text with letters or digits")
    watch(Progress("pieces", 0, 1, "vocabularies"))
    learnt = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        input_format="tsv",  # a word and its count
        model_writer=learnt,
        model_type="unigram",
        vocab_size=size - len(_ALBERT) + 1,  # SentencePiece's unknown token is dropped below
        hard_vocab_limit=False,
        unk_id=0,
        bos_id=-1,
        eos_id=-1,
        pad_id=-1,
        required_chars="".join(alphabet).replace(_SPACE, ""),
        character_coverage=1.0,  # the survey has chosen the characters
        normalization_rule_name="identity",  # and normalised the text
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        num_threads=_THREADS,
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_proto=learnt.getvalue())
    pieces = [(model.id_to_piece(number), model.get_score(number)) for number in range(1, model.get_piece_size())]
    watch(Progress("pieces", 1, 1, "vocabularies"))
    raw = Tokenizer(models.Unigram([*((token, 0.0) for token in _ALBERT), *pieces], 1, False))
    raw.add_special_tokens(_special(_ALBERT))
    raw.normalizer = normalizer
    marked = pre_tokenizers.Metaspace(replacement=_SPACE, prepend_scheme="always")
    raw.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), marked])
    raw.decoder = decoders.Metaspace(replacement=_SPACE, prepend_scheme="always")
    pad, unknown, start, end, mask = _ALBERT
    raw.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {end} $B:1 {end}:1",
        special_tokens=[(start, _ALBERT.index(start)), (end, _ALBERT.index(end))],
    )
    return _fast(raw, {"cls": start, "pad": pad, "sep": end, "unk": unknown, "mask": mask}, longest)


def _weighted_lines(survey: Survey, alphabet: list[str]) -> list[str]:
    """Return the words, cut where a character is not in the alphabet, as SentencePiece's lines of a text and its count.

    SentencePiece begins with substrings that occur on two lines with different characters after them; the counts of the
    lines do not matter there. So a word that occurs twice or more stands on two lines: alone, and before another word.
    """
    characters = "".join(alphabet).replace(_SPACE, "")
    known_characters = re.compile(f" ?[{re.escape(characters)}]+" if characters else r"(?!)")
    counts: Counter[str] = Counter()
    read = 0
    for word, count in survey.words.ordered():
        for part in known_characters.findall(word) if read < _CHARACTERS else ():
            counts[part] += count
            read += len(part)
    frequent = [part for part, count in counts.items() if count > 1]
    # a word without a space before it can only begin a line: after another, both would be read as one word
    spaced = iter([part for part in frequent if part.startswith(" ")])
    texts = [part + next(spaced, "") for part in frequent if not part.startswith(" ")]
    while words := "".join(islice(spaced, _WORDS_A_LINE)):
        texts.append(words)
    alone = [f"{part}\t{max(1, count - 1)}" for part, count in counts.items()]
    return alone + [f"{text}\t1" for text in texts]


def _lowered(taken_apart: Any, composed: Any) -> Any:
    return normalizers.Sequence([taken_apart, normalizers.StripAccents(), normalizers.Lowercase(), composed])


def _special(tokens: tuple[str, ...]) -> list[AddedToken]:
    """Return the special tokens. The last is the mask; it takes the space before it, as the masked word would."""
    return [AddedToken(token, lstrip=token == tokens[-1], special=True, normalized=False) for token in tokens]


def _fast(raw: Tokenizer, named: dict[str, str], longest: int) -> PreTrainedTokenizerFast:
    from transformers import PreTrainedTokenizerFast

    tokens = {f"{name}_token": token for name, token in named.items()}
    fast_class: Any = PreTrainedTokenizerFast  # untyped in transformers
    tokenizer: PreTrainedTokenizerFast = fast_class(tokenizer_object=raw, **tokens, model_max_length=longest)
    return tokenizer


def _read(corpus: DocumentSource, normalise: Callable[[str], str], survey: Survey, watch: Watch) -> Iterator[list[str]]:
    """Yield the texts as they are, or without the words that the survey left out."""
    if survey.words.dropped or survey.long:
        return kept_texts(corpus, normalise, survey, "vocabulary", watch)
    return text_chunks(corpus, watch, "vocabulary")


def _joins(character: str, tokenizer: Tokenizer) -> bool:
    """Return True if the character can stand within a word; punctuation and ideographs cannot."""
    normal = tokenizer.normalizer.normalize_str(f"a{character}a")
    return len(tokenizer.pre_tokenizer.pre_tokenize_str(normal)) == 1


@dataclass(frozen=True, eq=False)
class Survey:
    """Counts of one pass over a corpus.

    points  (1,114,112,) int64: occurrences of each code point, after normalisation
    words   their counts; the same word with and without a space before it counts as two
    long    occurrences of words that were left out because they are too long
    """

    points: np.ndarray
    words: WordCounts
    long: int

    def alphabet(self, most: int) -> list[str]:
        """Return the `most` most frequent visible characters, by code point; ties go to the lower one."""
        present = [point for point in np.flatnonzero(self.points).tolist() if not chr(point).isspace()]
        frequent = sorted(present, key=lambda point: (-self.points[point], point))[:most]
        return [chr(point) for point in sorted(frequent)]

    def left_out(self) -> str:
        """Return a sentence on the words that are left out; "" if there are none."""
        total = sum(self.words.counts.values()) + self.words.dropped + self.long
        sentences = []
        if self.words.dropped:
            dropped = f"{self.words.dropped:,} of {total:,} words of the text ({self.words.dropped / total:.2%})"
            sentences.append(f"The rarest are not counted, to limit memory: {dropped}.")
        if self.long:
            sentences.append(f"Words of more than {LONGEST} characters are not counted: {self.long:,}.")
        return " ".join(sentences)


def survey(
    corpus: DocumentSource, normalise: Callable[[str], str], *, most: int, short: bool, stage: str, watch: Watch
) -> Survey:
    """Count characters and words of the normalised texts.

    most   number of different words to keep in memory
    short  leave out words of more than LONGEST characters
    """
    points, words, long = np.zeros(sys.maxunicode + 1, np.int64), WordCounts(most), 0
    for chunk in text_chunks(corpus, watch, stage):
        normal = [normalise(text) for text in chunk]
        codes = np.frombuffer("\n".join(normal).encode("utf-32-le"), np.uint32)
        points += np.bincount(codes, minlength=len(points))
        for text in normal:
            words_of_text = vocabulary_words(text)
            if short and words_of_text and max(map(len, words_of_text)) > LONGEST:
                short_words = [word for word in words_of_text if len(word) <= LONGEST]
                words_of_text, long = short_words, long + len(words_of_text) - len(short_words)
            words.add(words_of_text)
    result = Survey(points, words, long)
    if note := result.left_out():
        watch(Progress(stage, len(corpus), len(corpus), "documents", {"note": note}))
    return result


def vocabulary_words(text: str) -> list[str]:
    """Return the words of a normalised text, as the head of this file defines them."""
    text = " " + " ".join(text.split())
    return (_SIMPLE_WORD if is_simple(text) else _WORD).findall(text)


def kept_texts(
    corpus: DocumentSource, normalise: Callable[[str], str], word_survey: Survey, stage: str, watch: Watch
) -> Iterator[list[str]]:
    """Yield the normalised texts with a blank in place of each word that the survey did not keep."""
    counts = word_survey.words.counts
    for chunk in text_chunks(corpus, watch, stage):
        yield [
            "".join([word if word in counts else " " for word in vocabulary_words(normalise(text))]) for text in chunk
        ]


def text_chunks(corpus: DocumentSource, watch: Watch, stage: str) -> Iterator[list[str]]:
    """Yield the texts in order, in lists of about a million characters."""
    pending: list[str] = []
    waiting = 0
    for document in counted(corpus.documents(), watch, stage, total=len(corpus)):
        pending.append(document.text)
        waiting += len(document.text)
        if waiting >= _BATCH_CHARACTERS:
            yield pending
            pending, waiting = [], 0
    if pending:
        yield pending


class WordCounts:
    """Counts of words in bounded memory: at most `most` different ones at any time.

    When there are more, the rarest are dropped until half as many are left (lossy counting: Manku and Motwani, 2002,
    "Approximate Frequency Counts over Data Streams"). A hash decides between equally rare ones, so that those that stay
    come from the whole text and not from its end. Words that occur once are the most, and nearly all in a script
    without spaces, where a "word" is half a sentence.

    counts   word -> occurrences; exact for a word that was never dropped, else too low
    dropped  occurrences that were counted and then dropped; 0: nothing is left out
    """

    def __init__(self, most: int) -> None:
        if most < 2:
            raise ValueError(f"words = {most} is too few to learn a vocabulary from. Set at least 2")
        self.counts: Counter[str] = Counter()
        self.dropped = 0
        self._most = most

    def add(self, words: Iterable[str]) -> None:
        """Count the words of one text or a few. Memory is bounded between two calls, not within one."""
        self.counts.update(words)
        if len(self.counts) > self._most:
            self._drop(self._most // 2)

    def ordered(self) -> list[tuple[str, int]]:
        """Return words and their counts, the most frequent first, equal ones in the order of their code points."""
        return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))

    def _drop(self, size: int) -> None:
        words, values = [*self.counts], np.fromiter(self.counts.values(), np.int64, len(self.counts))
        least = np.partition(values, len(values) - size)[len(values) - size]
        keep, tied = values > least, np.flatnonzero(values == least)
        order = sorted(tied.tolist(), key=lambda place: (zlib.crc32(words[place].encode()), words[place]))
        keep[order[: size - int(keep.sum())]] = True
        self.dropped += int(values[~keep].sum())
        self.counts = Counter({words[place]: int(values[place]) for place in np.flatnonzero(keep).tolist()})
