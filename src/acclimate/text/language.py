"""Recognise the language of a text with py3langid, whose model of 139 languages comes with the package.

Naive Bayes over byte n-grams (Lui and Baldwin, 2012, "langid.py: An Off-the-shelf Language Identification Tool"). Its
time grows with the characters that it reads, so it reads SAMPLE characters of a longer text: a third each from the
beginning, the middle and the end, because a title or a quotation in another language may stand anywhere.

It chooses among the languages that ISO 639-1 has two letters for. Its other languages, such as Nigerian Pidgin, are
mostly found in lists and tables in English.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

import numpy as np
from py3langid.langid import MODEL_FILE, LanguageIdentifier

RECOGNISER = f"py3langid {version('py3langid')}"
UNKNOWN = "und"  # as BCP 47 has it
READ = 2000  # first characters of a text, from which the sample is taken
SAMPLE = 150
CERTAIN = 0.5  # least probability of a language, below which it is unknown
_NO_TEXT = "zxx"  # what py3langid calls numbers, markup and identifiers
_TWO_LETTERS = (
    "af am an ar as az ba be bg bn br bs ca cs cy da de dz el en eo es et eu fa fi fo fr fy ga gd gl gu ha he hi hr ht "
    "hu hy id ig is it ja jv ka kk km kn ko ku ky la lb lg ln lo lt lv mg mk ml mn mr ms mt my ne nl no oc om or pa pl "
    "ps pt qu ro ru rw sa se si sk sl sn so sq sr st sv sw ta te tg th tk tl tr tt ug uk ur uz vi vo wa xh yo zh "
    "zu"
)
LANGUAGES = tuple(_TWO_LETTERS.split())
"""Two letters of each language; Nynorsk (nn) counts as Norwegian (no)."""


def check_language(name: str) -> None:
    """Raise ValueError for a language that cannot be recognised."""
    if name not in LANGUAGES:
        raise ValueError(
            f"language is '{name}', but only these can be recognised: {', '.join(LANGUAGES)}. Choose one of "
            "them, or remove language"
        )


def language(text: str) -> str:
    """Return the language of a text as two letters (ISO 639-1), or UNKNOWN."""
    text = text[:READ]
    if len(text) > SAMPLE:
        third, middle = SAMPLE // 3, (len(text) - SAMPLE // 3) // 2
        text = " ".join((text[:third], text[middle : middle + third], text[-third:]))
    code: str = _identifier().classify(text)[0]
    return UNKNOWN if code == _NO_TEXT else code


@cache
def _identifier() -> LanguageIdentifier:
    """Return the model, which takes half a second and 60 MB once a process."""
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True, min_confidence=CERTAIN)
    identifier.set_languages([*LANGUAGES, _NO_TEXT])
    # restricted, the table has its rows scattered: whole rows of float32 take half the time
    identifier.nb_ptc = np.ascontiguousarray(identifier.nb_ptc, np.float32)
    return identifier
