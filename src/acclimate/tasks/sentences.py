"""The sentences of a text, as offsets in it.

`sentence_spans` has rules that were made for biomedical English. A sentence ends at a full stop, question or
exclamation mark before white space, unless the mark is part of the word before it (an abbreviation, an initial, the
number of a list) or the next word cannot begin a sentence. It also ends at a tab, at an empty line, and at a line end,
unless the next line goes on in lower case.

`punkt_spans` ends the sentences of biomedical abstracts where Punkt (Kiss and Strunk, 2006) does, as NLTK ships it for
English. BLURB cut ChemProt with it, so Punkt decides which mentions stand in one sentence, and so how many examples
there are. Use it for nothing else: Punkt's English was learnt from newspapers, and it breaks "i.v. injection" in two.

Readings of Punkt
  Punkt looks words up in tables that it learnt. This file has those of its abbreviations that occur at a full stop in
  the 2,432 abstracts of ChemProt or are in general use, and common ones of its openers of sentences. It does not have
  its table of words seen in lower case: every word with a capital counts as one that could be in lower case, unless it
  is an abbreviation itself ("J. Biol.").
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator

Span = tuple[int, int]

# possessive quantifiers, and runs that match from their beginning only, keep the time linear in the length
_CLOSED = r"""["'”’»)\]]*+(?:\s?\[\d[\d\s,–-]*+\])?+"""  # quotes and brackets, and a citation such as [3, 4]
# the last: a full stop that lacks its space
_MARKED = re.compile(
    rf"(?<![.!?…])[.!?…]++{_CLOSED}(?=\s)|[。！？｡]++[」』”’)]*+|(?<=[a-z]{{3}})(?<!www)\.(?=[A-Z][a-z]++\s)"
)
_LINE_ENDS = "\n\r\t\v\f\x1c-\x1e\x85\u2028\u2029"
_BROKEN = re.compile(rf"(?<![^\S{_LINE_ENDS}])[^\S{_LINE_ENDS}]*+[{_LINE_ENDS}]\s*+")
_FINAL = re.compile(rf"""(?P<word>[^\s"'“‘«(\[{{]*?)\s?(?P<mark>[.!?…。！？｡]+){_CLOSED}$""")
_EMPTY_LINE = re.compile(r"\t|\n\s*\n|\r\s*\r(?!\n)")
_BLANK = re.compile(r"\s*")
_OPENED = re.compile(r"""["'“‘«(\[{\s]*""")
_WORD = re.compile(r"[\w'’-]*")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")  # i.v, U.S, Ph.D
_REACH = 60  # characters before a mark in which the word before it is looked for

# never the last word of a sentence
_GOES_ON = """
fig figs eq eqs eqn eqns refs dr drs mr mrs ms prof st vs cf ca approx resp e.g eg i.e ie viz incl suppl subsp ssp cv
"""
# not the last word before a number
_COUNTED = """
no nos vol p pp ref tab ser sec sect ch art v n
"""
# may be the last word: a sentence ends there if the next one is among those that begin sentences
_MAY_END = """
al etc jr sr inc ltd co corp sp spp dept univ jan feb mar apr jun jul aug sep sept oct nov dec iv im sc ip po wt var gen
"""
_BEGIN = """
a additionally after all also although among an and another any as at because before besides both but by compared
consequently conversely despite during each either every finally findings first for four from furthermore given hence
here how however if in indeed interestingly is it its many moreover most neither nevertheless no none nor not notably
of on one only or other our overall patients results second several similarly since six so some such surprisingly
taken ten that the their then there therefore these they third this those three though thus to together two under
unlike until using was we were what when where whereas whether which while who why with within without yet
"""
# before a name's initial, as in "by J. Smith"; after another word in lower case a letter names a kind: "vitamin C."
_BEFORE_INITIAL = """
and by of with the from in to for on & or against genus called
"""
GOES_ON, COUNTED, MAY_END, BEGIN, BEFORE_INITIAL = (
    frozenset(words.split()) for words in (_GOES_ON, _COUNTED, _MAY_END, _BEGIN, _BEFORE_INITIAL)
)

_STRETCH = re.compile(r"\S+")
_MARK = re.compile(r"""[.?!](?=[?!)";}\]*:@'({\[]|$)""")  # in a stretch; only its last may end a sentence
_CLOSING = re.compile(r"""["')\]}]+?(?:\s+|(?=--)|$)""")  # quotes and brackets that close the sentence before
_APART = re.compile(r"""[?!)";}\]*:@'({\[,]""")  # where a stretch without white space is several words
_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*")
_ABBREVIATED = """
vs dr mr mrs ms prof st jr sr co corp inc ltd cie bros ave ft mg yr u.s u.k u.s.a u.n a.m p.m a.d ph.d m.b.a d.c s.c s.a
a.c j.c l.f l.a n.y jan feb aug sept sep oct nov dec pa ct ga va vt wis ala fla mich minn conn col gen lt maj sen rep
gov adm messrs
"""
_OPENING = """
the this these it they he in but however at if although since while there some both moreover nevertheless meanwhile
similarly after among under despite also most
"""
_LETTERS = frozenset("cdefghklmnprstvw")  # abbreviations whatever follows; other letters before an abbreviation only
_ABBREVIATIONS = _LETTERS | frozenset(_ABBREVIATED.split())
_OPENERS = frozenset(_OPENING.split())


def sentence_spans(text: str, whole: Iterable[Span] = ()) -> list[Span]:
    """Return the offsets [start, end) of the sentences, in order, without the white space around them.

    whole  stretches in which no sentence may end, such as mentions: sentences that one runs over are joined
    """
    joined = _joined(whole)
    spans: list[Span] = []
    start = _skip_blank(text, 0)
    for end in sorted({match.end() for match in _MARKED.finditer(text)} | {m.start() for m in _BROKEN.finditer(text)}):
        after = _skip_blank(text, end)
        if start < end and not _runs_over(joined, end, after) and _is_end(text, start, end, after):
            spans.append((start, end))
            start = after
    end = len(text.rstrip())
    return [*spans, (start, end)] if start < end else spans


def punkt_spans(text: str, whole: Iterable[Span] = ()) -> list[Span]:
    """Return the offsets [start, end) of the sentences, without the white space around them; a tab ends one, too.

    whole  ignored: Punkt knows no mentions, and BLURB lost those that it cuts
    """
    untabbed = re.compile(r"[^\t]+")
    return [part.span() for span in _closed(text, list(_sentences(text))) for part in untabbed.finditer(text, *span)]


def _joined(stretches: Iterable[Span]) -> list[Span]:
    """Return the stretches in ascending order, those that overlap merged."""
    joined: list[Span] = []
    for start, end in sorted(stretches):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _runs_over(joined: list[Span], end: int, after: int) -> bool:
    """Return True if one of the stretches begins before `after` and ends behind `end`."""
    place = bisect.bisect_left(joined, (after, after)) - 1
    return place >= 0 and joined[place][1] > end


def _skip_blank(text: str, place: int) -> int:
    match = _BLANK.match(text, place)
    assert match is not None
    return match.end()


def _is_end(text: str, start: int, end: int, after: int) -> bool:
    """Return True if the sentence that begins at `start` ends at `end`; the text goes on at `after`."""
    if after == len(text) or _EMPTY_LINE.search(text, end, after):
        return True
    opened = _OPENED.match(text, after)
    assert opened is not None
    following = _WORD.match(text, opened.end())
    assert following is not None
    begins = _can_begin(following[0], text[opened.end() : opened.end() + 1])
    before = text[max(start, end - _REACH) : end]
    final = _FINAL.search(before)
    if final is None:
        return begins and not before.endswith((",", ";", "-"))  # a line end, no mark
    if final["mark"] != ".":
        return begins
    return begins and _ends_with(final["word"], before[: final.start()], following[0], alone=len(before) == end - start)


def _can_begin(word: str, character: str) -> bool:
    """Return True if a sentence can begin with the word: p53 and mRNA can, other words in lower case cannot."""
    if not word:
        return False
    return not character.islower() or any(letter.isdigit() or letter.isupper() for letter in word)


def _ends_with(word: str, before: str, following: str, *, alone: bool) -> bool:
    """Return True if a full stop after the word ends the sentence, given that the next word can begin one.

    before  the text before the word; alone: True if that is the sentence from its beginning
    """
    starter = following.lower() in BEGIN and following[:1].isupper()
    word = word.removesuffix(".")
    if alone and not before.strip() and (word.isdigit() or len(word) == 1):
        return False  # the number of a list
    if _DOTTED.fullmatch(word):
        return starter and word.lower() not in GOES_ON  # i.v., U.S.
    if len(word) == 1 and word.isalpha() and not following[:1].isdigit():
        last = before.split()[-1:] or [","]
        named = last[0].lower() in BEFORE_INITIAL or last[0][:1].isupper() or not last[0][-1].isalnum()
        return starter or not (named or len(following) == 1)
    if word.isupper() and len(word) > 1:
        return True  # NO is nitric oxide, IV is four
    lower = word.lower()
    if lower in GOES_ON or (lower in COUNTED and following[:1].isdigit()):
        return False
    return starter or lower not in MAY_END


def _sentences(text: str) -> Iterator[Span]:
    start = 0
    stretches = list(_STRETCH.finditer(text))
    for stretch, following in zip(stretches, [*stretches, None][1:], strict=True):
        ends = [mark.end() for mark in _MARK.finditer(stretch[0]) if following or mark.end() < len(stretch[0])]
        if not ends:
            continue
        before, after = stretch[0][: ends[-1] - 1], stretch[0][ends[-1] :]
        word = _APART.split(before)[-1].lstrip("-`&#") + stretch[0][ends[-1] - 1]
        if _ends(word, after or following[0] if following else after):
            end = stretch.start() + ends[-1]
            yield start, end
            start = following.start() if following and not after else end
    if start < len(text.rstrip()):
        yield start, len(text.rstrip())


def _ends(word: str, after: str) -> bool:
    """Return True if a sentence ends with this word, whose last character is the mark. after: the text behind it."""
    stem = word[:-1].lower()
    if word[-1] != ".":
        return True
    following = re.sub(r"\W.*", "", after)
    if len(stem) == 1 and stem.isalpha():
        abbreviated = len(following) > 1 and after[len(following) :].startswith(".")
        return stem not in _LETTERS and not following[:1].islower() and not abbreviated
    if stem.rpartition("-")[2] in _ABBREVIATIONS:
        return following[:1].isupper() and following.lower() in _OPENERS
    if _NUMBER.fullmatch(stem):
        return not following[:1].islower() and after[0] not in ";:,.!?"
    return not stem.endswith(".")


def _closed(text: str, spans: list[Span]) -> Iterator[Span]:
    """Yield the sentences, each with the quotes and brackets that close it."""
    begins = 0
    for place, (start, end) in enumerate(spans):
        begins, ends = max(begins, start), end
        closing = _CLOSING.match(text, *spans[place + 1]) if place + 1 < len(spans) else None
        if closing:
            ends = closing.start() + len(closing[0].rstrip())
        if begins < ends:
            yield begins, ends
        begins = closing.end() if closing else end
