r"""Which characters form a word: marks belong to the letter before them, and some scripts have no spaces.

`words_in` finds runs of letters, digits, underscores (`\w`) and combining marks. `\w+` alone cuts Hindi, Thai, pointed
Arabic and decomposed Latin letters inside of words.

`divided_words` finds the same words, but each letter of a script without spaces, with its marks, is a word. So terms
and counts exist in Chinese, Japanese, Thai, Lao, Khmer and Burmese. Katakana stays in runs, as in Unicode's rules
(UAX 29): most are loanwords.

IGNORED are characters that change no word: joiners, directions, soft hyphens, variants, and the optional points and
strokes of Arabic and Hebrew. A zero-width space separates words. `plain` removes IGNORED; `words_as_written` finds the
words of a text that still has them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import version

EXTRA = "pip install 'acclimate[words]'"
MUCH = 0.05  # share of such letters from which a note is due
Segments = Callable[[str], Iterable[tuple[int, int]]]

# Blocks whose letters have no spaces between words
_BLOCKS = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x1B00, 0x1B7F),  # Balinese
    (0x3005, 0x3007),  # ideographic iteration, closing mark, zero
    (0x3041, 0x309F),  # Hiragana
    (0x3105, 0x312F),  # Bopomofo
    (0x31A0, 0x31BF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA000, 0xA48F),  # Yi
    (0xA980, 0xA9FF),  # Javanese, Myanmar
    (0xAA60, 0xAADF),  # Myanmar, Tai Viet
    (0xF900, 0xFAFF),  # Han
    (0x11700, 0x1174F),  # Ahom
    (0x17000, 0x18D8F),  # Tangut, Khitan
    (0x20000, 0x323AF),  # Han
)
# fathatan to sukun and superscript alef; tatweel; accents and points of Hebrew; variants
_OPTIONAL = (
    (0x064B, 0x0652),
    (0x0670, 0x0670),
    (0x0640, 0x0640),
    (0x0591, 0x05BD),
    (0x05BF, 0x05BF),
    (0x05C1, 0x05C2),
    (0x05C4, 0x05C5),
    (0x05C7, 0x05C7),
    (0xFE00, 0xFE0F),
    (0xE0100, 0xE01EF),
)
_LAST_MARK = 0x1F000  # but for the variants in IGNORED


def _points(ranges: Iterable[tuple[int, int]], categories: str = "") -> list[int]:
    """Return the code points of the ranges whose category begins with one of the letters; "": all of them."""
    return [
        point
        for first, last in ranges
        for point in range(first, last + 1)
        if not categories or unicodedata.category(chr(point))[0] in categories
    ]


def _class(points: Iterable[int]) -> str:
    """Return what a regular expression has between brackets for these code points, which must ascend."""
    runs: list[list[int]] = []
    for point in points:
        if runs and runs[-1][1] == point - 1:
            runs[-1][1] = point
        else:
            runs.append([point, point])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in runs)


UNSPACED = sorted({*_points(_BLOCKS, "L"), 0x3007})  # the zero is a number
_FORMATS = ((0x00AD, 0x00AD), (0x061C, 0x061C), (0x180E, 0x180E), (0x200C, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F))
IGNORED = _points((*_OPTIONAL, *_FORMATS, (0xFEFF, 0xFEFF)))
MARKS = sorted({*_points([(0x0300, _LAST_MARK)], "M")} - {*IGNORED})
_MARKS, _UNSPACED = _class(MARKS), _class(UNSPACED)
_LETTERS = rf"[^\W{_UNSPACED}]"
RUN = rf"\w+(?:[{_MARKS}]+\w*)*|(?:[{_MARKS}]+\w*)+"
"""What `words_in` finds, where `is_simple` does not hold."""
SIGNS_BETWEEN = rf"[^\w\s{_MARKS}]+"  # what is neither in RUN nor white space
SIGN = re.compile(rf"(?![\w\s])[^{_MARKS}{_class(IGNORED)}\u200b]")  # a character that is seen and belongs to no word
_WORD = re.compile(RUN)
_DIVIDED = re.compile(rf"{_LETTERS}+(?:[{_MARKS}]+{_LETTERS}*)*|[{_UNSPACED}][{_MARKS}]*|(?:[{_MARKS}]+{_LETTERS}*)+")
_INNER = f"{_MARKS}{_class(IGNORED)}"
_AS_WRITTEN = re.compile(
    rf"{_LETTERS}(?:{_LETTERS}|[{_INNER}])*|[{_UNSPACED}][{_INNER}]*|[{_MARKS}](?:{_LETTERS}|[{_INNER}])*"
)
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\uff66-\uff9f"
_OTHERS = rf"[^\W{_KATAKANA}{_UNSPACED}]"
_BESIDE_KATAKANA = re.compile(rf"(?<=[{_KATAKANA}])(?={_OTHERS})|(?<={_OTHERS})(?=[{_KATAKANA}])")
_TERM = re.compile(rf"{_LETTERS}(?:{_LETTERS}|[{_MARKS}])+|[{_UNSPACED}][{_MARKS}]*")
_SIMPLE_WORD, _SIMPLE_TERM = re.compile(r"\w+"), re.compile(r"\w\w+")
_ASCII = "".join(chr(point) if _SIMPLE_WORD.match(chr(point)) else " " for point in range(128)).encode() + bytes(128)
_IGNORED = re.compile(f"[{_class(IGNORED)}]+")
_DOTTED_I = "\u0130"
# letters that follow others and become one character with them: accents, vowels of Hangul, voiced marks of kana
_DECOMPOSED = re.compile("[\u0300-\u036f\u1100-\u11ff\u3099\u309a]")
SIGNS = (b"\xcc", b"\xcd", b"\xe1", b"\xe3", b"\xef", "\u03a3".encode(), _DOTTED_I.encode())
"""A text in UTF-8 without any of these needs neither composing, nor a look beside Katakana or its capital sigma, to be
`plain`.

Single bytes are found ten times as fast as pairs."""
# bytes of Latin, Greek and Cyrillic letters and of punctuation: without others, a text has no marks and no UNSPACED
_SIMPLE = bytes([*range(0xC0), *range(0xC2, 0xCC), *range(0xCE, 0xD2), 0xE2])
_MARKS_IN_SIMPLE = sorted({content[:2] for mark in MARKS if (content := chr(mark).encode())[0] == 0xE2})
_IN_SIMPLE = [chr(point) for point in IGNORED if chr(point).encode()[0] in _SIMPLE]


def is_simple(text: str) -> bool:
    r"""Return True if the text has neither marks nor letters of scripts without spaces: `\w+` finds its words."""
    if text.isascii():
        return True
    content = text.encode("utf-8", "surrogatepass")
    return not content.translate(None, _SIMPLE) and not any(sign in content for sign in _MARKS_IN_SIMPLE)


def plain(text: str, *, lower: bool = True) -> str:
    """Return the text composed (NFC), without IGNORED and in lower case, where the dotted capital I becomes i.

    A zero-width space is put between Katakana and letters of scripts with spaces, which are different words. A text
    whose letters have no decomposed form is not normalised: NFC would change rare ideographs.
    """
    if text.isascii():
        return text.lower() if lower else text
    special = not is_simple(text) or any(character in text for character in _IN_SIMPLE)
    if special:
        text = _IGNORED.sub("", text)
        if re.search(f"[{_KATAKANA}]", text):
            text = _BESIDE_KATAKANA.sub("\u200b", text)
    if lower:
        text = text.lower().replace("i\u0307", "i")  # the lower case of the dotted capital I
    return unicodedata.normalize("NFC", text) if special and _DECOMPOSED.search(text) else text


def words_in(text: str) -> re.Pattern[str]:
    """Return the pattern of the text's words: runs of letters, digits, underscores and marks."""
    return _SIMPLE_WORD if is_simple(text) else _WORD


def divided_in(text: str) -> re.Pattern[str]:
    """Return the pattern of the text's words, each letter of a script without spaces, with its marks, as a word."""
    return _SIMPLE_WORD if is_simple(text) else _DIVIDED


def words_as_written(text: str) -> re.Pattern[str]:
    """Return the pattern of the words of `divided_words(plain(text))` in the text itself, which may have IGNORED."""
    return _SIMPLE_WORD if is_simple(text) and not any(sign in text for sign in _IN_SIMPLE) else _AS_WRITTEN


def divided_words(text: str) -> list[str]:
    """Return the words that `divided_in` finds."""
    return ascii_words(text) if text.isascii() else divided_in(text).findall(text)


def ascii_words(text: str) -> list[str]:
    """Return the words that both `words_in` and `divided_in` find in an ASCII text, in a third of the time."""
    return text.encode().translate(_ASCII).decode().split()


def terms(text: str) -> list[str]:
    """Return `divided_words` without words of one letter in scripts with spaces: the terms of TF-IDF."""
    return (_SIMPLE_TERM if is_simple(text) else _TERM).findall(text)


@cache
def segmenter() -> Segments | None:
    """Return a function that yields (start, end) of the words in a run of a script without spaces; None without ICU.

    ICU's rules and dictionaries know Chinese, Japanese, Thai, Lao, Khmer and Burmese.
    """
    try:
        from icu4py.breakers import WordBreaker
    except ImportError:
        return None

    def segments(run: str) -> Iterable[tuple[int, int]]:
        start = 0
        for word in WordBreaker(run, "root"):  # its own spans count in UTF-16
            yield start, start + len(word)
            start += len(word)

    return segments


def pieces_sentence(share: float) -> str:
    """Return a sentence on masking for a text with this `unspaced_share`; "" if words are masked whole."""
    if share < MUCH or segmenter() is not None:
        return ""
    return (
        f"{share:.0%} of the letters are of scripts without spaces between words. Whole words need spaces or ICU, "
        f"so there each token is masked separately. {EXTRA} finds the words"
    )


def segmenter_name() -> str:
    """Return what finds the words of scripts without spaces, for records: results depend on it."""
    return "letters" if segmenter() is None else f"icu4py {version('icu4py')}"


def unspaced_share(text: str) -> float:
    """Return the share of the text's letters and marks that belong to scripts without spaces."""
    if is_simple(text):
        return 0.0
    unspaced = sum(map(len, re.findall(f"[{_UNSPACED}]+", text)))
    return unspaced / max(sum(map(str.isalpha, text)), 1)
