"""Sentiment towards aspects of products: the aspect is the text, the review's sentence its pair.

SemEval-2014 as Xu et al. ship it: one JSON object, id -> {"term", "sentence", "polarity"}. The product reviews of Hu
and Liu: a line `picture[+2], use[-1][u]##the sentence`, sign and strength in brackets, two of which are `{` or `}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from acclimate.core.names import shown
from acclimate.core.types import Example, Rejected, Split
from acclimate.reading.formats.archives import files_in
from acclimate.reading.formats.delimited import example_of, json_object, one_of
from acclimate.text.untrusted import LIMITS, ReadLimits, printable

POLARITIES = ("positive", "negative", "neutral")
SIGNED = re.compile(r"([^,\[\]{}]+?)\s*[\[{]([+-])\d*[\]}]")


def aspect_json(path: Path, split: Split, *, limits: ReadLimits = LIMITS) -> Iterator[Example | Rejected]:
    """Yield an Example or a Rejected for each aspect of the object."""
    for id, values in json_object(path, limits).items():
        place = f"{printable(path.name)}, {id}"
        match values:
            case {"term": str(term), "sentence": str(sentence), "polarity": str(polarity)}:
                term, sentence = term.strip(), sentence.strip()
                yield example_of(place, f"{split}:{id}", term, polarity, one_of(POLARITIES), pair=sentence)
            case _:
                yield Rejected(place, f"term, sentence and polarity must be strings, not {shown(values)}")


def product_reviews(folder: Path, archives: Sequence[str], products: Sequence[str]) -> Iterator[Example | Rejected]:
    """Yield an Example for each signed aspect of the products, in their order. Aspects without a sign are left out.

    archives  files below the folder that contain `<product>.txt`

    Raises ValueError if a product is in none of the archives.
    """
    contents = {Path(name).stem: content for archive in archives for name, content in files_in(folder / archive)}
    for product in products:
        if product not in contents:
            raise ValueError(f"{', '.join(archives)}: the file {product}.txt is missing. Fetch the archives again")
        # the files are ASCII with a few bytes of Latin-1
        for number, line in enumerate(contents[product].decode("latin-1").splitlines(), 1):
            annotation, marks, sentence = line.partition("##")
            if not marks or annotation.startswith("*"):
                continue
            place = f"{product}.txt:{number}"
            for at, (aspect, sign) in enumerate(SIGNED.findall(annotation)):
                polarity = {"+": "positive", "-": "negative"}[sign]
                id = f"{product}:{number}:{at}"
                yield example_of(place, id, aspect.strip(), polarity, one_of(POLARITIES), pair=sentence.strip())
