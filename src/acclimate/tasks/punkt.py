"""Where Punkt (Kiss and Strunk, 2006), as NLTK ships it for English, ends the sentences of biomedical abstracts.

BLURB cut ChemProt with it, so which mentions stand in one sentence, and with that the number of examples, is Punkt's
decision. For any other purpose `sentences.sentence_spans` is the better splitter: Punkt's English was learnt from
newspapers, and it breaks "i.v. injection" in two.

Readings
  Punkt looks words up in tables that it learnt: abbreviations, openers of sentences, and words seen in lower case.
  Here are of the abbreviations those that occur at a full stop in the 2,432 abstracts of ChemProt, and those of general
  use; of the openers, common ones; and instead of the third, every word that begins with a capital counts as one that
  could be in lower case, unless it is abbreviated itself ("J. Biol.").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from acclimate.tasks.sentences import Span

_STRETCH = re.compile(r"\S+")
_MARK = re.compile(r"""[.?!](?=[?!)";}\]*:@'({\[]|$)""")  # in a stretch; only its last may end a sentence
_CLOSING = re.compile(r"""["')\]}]+?(?:\s+|(?=--)|$)""")  # what goes back to the sentence before
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


def punkt_spans(text: str, whole: Iterable[Span] = ()) -> list[Span]:
    """Offsets [start, end) of the sentences, in order, without the white space around them; a tab ends one, too.

    whole  not looked at: Punkt knows no mentions, and BLURB lost those that it cuts
    """
    untabbed = re.compile(r"[^\t]+")
    return [part.span() for span in _closed(text, list(_sentences(text))) for part in untabbed.finditer(text, *span)]


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
    """Whether a sentence ends with this word, whose last character is the mark, and not with the mark alone."""
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
    """The sentences with the quotes and brackets that close behind them."""
    begins = 0
    for place, (start, end) in enumerate(spans):
        begins, ends = max(begins, start), end
        closing = _CLOSING.match(text, *spans[place + 1]) if place + 1 < len(spans) else None
        if closing:
            ends = closing.start() + len(closing[0].rstrip())
        if begins < ends:
            yield begins, ends
        begins = closing.end() if closing else end
