"""Find words in the characters of a text, so that they are the same under every tokenizer.

A word is a maximal run of letters, digits and other numbers, and connectors such as the underscore (Unicode categories
L, N, Pc). Every other visible character (punctuation, symbol) is a separate word. Combining marks and invisible
characters (M, C) belong to the character before them; after white space they count as white space, as the zero-width
space does. So "(naloxone)" is
three words, "don't" three, and "naïve" one, composed or decomposed.

In scripts without spaces (scripts.py: Chinese, Japanese, Thai, Lao, Khmer, Burmese and others) each letter with its
marks is a word. If ICU is installed, `word_starts`, by which words are masked, takes ICU's words there.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from acclimate.text.scripts import UNSPACED, Segments, segmenter

if TYPE_CHECKING:
    from tokenizers import Encoding


# English function words, between which keywords are found (text/terms.py); retrieval leaves no word out.
#
# Compiled for acclimate by word class from general knowledge of English, without copying a published list, and under
# Apache-2.0 like acclimate. In kind and size it resembles the SMART system's list: articles, pronouns, prepositions,
# conjunctions, auxiliary verbs, and adverbs and light verbs without a subject. Contractions are whole, as text/terms.py
# reads them.
_DETERMINERS = """
a an the this that these those each every either neither both all any some no none such several few fewer many much
more most less least enough another other others same own certain various one ones two first second last next whole
half
"""
_PRONOUNS = """
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
herself it its itself they them their theirs themselves who whom whose which what whoever whomever whatever whichever
someone somebody something anyone anybody anything everyone everybody everything nobody nothing oneself
"""
_PREPOSITIONS = """
about above across after against along alongside amid among amongst around as at before behind below beneath beside
besides between beyond by concerning despite down during except for from in inside into like near of off on onto
opposite out outside over past per regarding round since through throughout till to toward towards under underneath
unlike until unto up upon versus via with within without
"""
_CONJUNCTIONS = """
and or but nor so yet if then else because although though while whereas whether unless lest once than when whenever
where wherever why how however hence therefore thus thereby therein thereof whereby wherein whereupon moreover
furthermore nevertheless nonetheless otherwise instead meanwhile albeit etc eg ie
"""
_AUXILIARIES = """
am is are was were be been being have has had having do does did doing done can could cannot may might must shall
should will would ought need needs dare used let lets become becomes became becoming ain't aren't isn't wasn't weren't
haven't hasn't hadn't don't doesn't didn't can't couldn't mightn't mustn't shan't shouldn't won't wouldn't needn't i'm
i've i'd i'll you're you've you'd you'll he's he'd he'll she's she'd she'll it's it'd it'll we're we've we'd we'll
they're they've they'd they'll that's that'll there's here's what's who's where's how's let's
"""
_ADVERBS = """
not also only just even still again already always never ever often sometimes seldom rarely usually soon now today
here there anywhere everywhere somewhere nowhere very too quite rather almost nearly merely mostly mainly largely
partly fully really simply especially particularly specifically generally typically commonly currently recently
previously later early earlier finally initially respectively accordingly consequently subsequently similarly likewise
indeed perhaps maybe possibly probably certainly apparently clearly actually basically essentially approximately
roughly relatively highly well better best further together apart away back forth ago afterwards thereafter anyway
"""
_VERBS = """
say says said saying get gets got getting gotten give gives given giving gave go goes going gone went come comes
coming came make makes made making take takes taken taking took see sees seen seeing saw seem seems seemed seeming
appear appears appeared know known knows knew think thinks thought want wants wanted try tries tried trying keep keeps
kept put puts tell tells told ask asks asked show shows showed shown use uses using consider considers considered
considering include includes included including follow follows followed following concern concerns concerned contain
contains contained containing provide provides provided providing regard regards regarded allow allows allowed based
due according able unable
"""

ENGLISH = frozenset(
    word
    for group in (_DETERMINERS, _PRONOUNS, _PREPOSITIONS, _CONJUNCTIONS, _AUXILIARIES, _ADVERBS, _VERBS)
    for word in group.split()
)


_SPACE, _WORD, _ATTACHED, _SINGLE, _UNSPACED = range(5)
_WITH_THE_CONSONANT = (0x0E33, 0x0EB3)  # vowels am of Thai and Lao, which belong to the letter before them


def word_starts(texts: Sequence[str], spans: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return (N,) bool, True if a token begins a word.

    texts   D texts
    spans   (N, 2) first character and the one after the last, within its text, of every token of all texts in order
    counts  (D,) tokens of each text

    A token belongs to the word of its first visible character, or of the next one after it if it has none (a lone "▁").
    It begins the word unless the last character of the token before belongs to the same word, so several byte tokens of
    one character are one word. A text's first token always begins a word.
    """
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    begins = np.concatenate([[0], np.cumsum(lengths + 1)])[:-1]  # each text is followed by a line feed
    word, blank = _words("\n".join([*texts, ""]), segmenter())
    # a span must not leave its text, even if a normaliser miscounts
    begins_of_tokens, lengths_of_tokens = np.repeat(begins, counts), np.repeat(lengths, counts)
    first = begins_of_tokens + np.minimum(spans[:, 0], lengths_of_tokens)
    last = begins_of_tokens + np.clip(spans[:, 1] - 1, 0, lengths_of_tokens)
    # a new word follows white space, so the next visible character after a blank is in the next word
    word_of_first = word[first] + blank[first]
    # the word of the token's last visible character; without one, the word that the token belongs to
    word_of_last = np.maximum(word[last], word_of_first)
    starts = np.ones(len(spans), bool)
    starts[1:] = word_of_first[1:] != word_of_last[:-1]
    text_starts = (np.cumsum(counts) - counts)[counts > 0]
    starts[text_starts] = True
    return starts


def word_starts_in_rows(encodings: Sequence[Encoding], texts: Sequence[tuple[str, str]]) -> np.ndarray:
    """Return `word_starts`, (N,) bool, for rows of a text or a pair; special tokens begin words.

    encodings  of a fast tokenizer, one a row; texts: both texts of each row, "" for no second text
    """
    # the text of each token: 2 r or 2 r + 1 in row r, -1 for special tokens
    part_N = np.fromiter(
        (
            -1 if side is None else 2 * row + side
            for row, encoding in enumerate(encodings)
            for side in encoding.sequence_ids
        ),
        np.int64,
    )
    spans = np.array([span for encoding in encodings for span in encoding.offsets], np.int64)
    starts, inner = np.ones(len(part_N), bool), part_N >= 0
    counts = np.bincount(part_N[inner], minlength=2 * len(texts))
    starts[inner] = word_starts([text for pair in texts for text in pair], spans[inner], counts)
    return starts


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return (first character, the one after the last) of each word of the text, in order, by the rules without ICU.

    A trained model may depend on these words, so they are the same on every machine.
    """
    word, blank = _words(text, None)
    visible = np.flatnonzero(~blank)
    begins = np.flatnonzero(np.diff(word[visible], prepend=-1))
    ends = np.append(begins, len(visible))[1:] - 1
    return [(int(start), int(last) + 1) for start, last in zip(visible[begins], visible[ends], strict=True)]


def _words(text: str, segments: Segments | None) -> tuple[np.ndarray, np.ndarray]:
    """Return (C,) int32, the number of each character's word (of the word before a blank), and (C,) bool, blanks.

    segments  yields the words of a run of a script without spaces; None: each letter is a word
    """
    kind = _kinds()[np.frombuffer(text.encode("utf-32-le"), np.uint32)]
    attached = kind == _ATTACHED
    if attached.any():
        bearer = np.maximum.accumulate(np.where(attached, 0, np.arange(len(kind))))
        kind = np.where(kind[bearer] == _ATTACHED, _SPACE, kind[bearer])  # no character before it
    begins = kind == _WORD
    begins[1:] &= kind[:-1] != _WORD
    begins |= (kind >= _SINGLE) & ~attached
    if segments and (unspaced := kind == _UNSPACED).any():
        edges = np.flatnonzero(np.diff(unspaced, prepend=False, append=False))
        for first, last in edges.reshape(-1, 2).tolist():
            begins[first:last] = False
            begins[[first + start for start, _ in segments(text[first:last])]] = True
        begins &= ~attached  # a mark begins no word
    return np.cumsum(begins, dtype=np.int32), kind == _SPACE


@cache
def _kinds() -> np.ndarray:
    """Return (1,114,112,) uint8: the kind of every code point."""
    of_category = {"L": _WORD, "N": _WORD, "M": _ATTACHED, "C": _ATTACHED, "P": _SINGLE, "S": _SINGLE, "Z": _SPACE}
    of_category |= {"Pc": _WORD}
    kinds = np.empty(sys.maxunicode + 1, np.uint8)
    for point in range(len(kinds)):
        character = chr(point)
        category = unicodedata.category(character)
        kinds[point] = _SPACE if character.isspace() else of_category.get(category, of_category[category[0]])
    kinds[0x200B] = _SPACE  # the zero-width space
    kinds[UNSPACED] = _UNSPACED
    kinds[list(_WITH_THE_CONSONANT)] = _ATTACHED
    return kinds
