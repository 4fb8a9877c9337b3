"""EBM-NLP 2.00 as its authors publish it: tokens of abstracts, and for each of three elements the tokens it covers.

documents/PMID.tokens                                                     tokens with white space between them
annotations/aggregated/starting_spans/ELEMENT/train/PMID.AGGREGATED.ann   as many numbers, 0 outside the element
annotations/aggregated/starting_spans/ELEMENT/test/gold/PMID.AGGREGATED.ann

Elements overlap. In BLURB and in the authors' script (models/lstm-crf/build_data.py) each token has one: of those that
cover it, the last of participants, interventions and outcomes. With `overlaps="all"` it has the joint tag of all that
cover it (tasks/tags.py). Sentences end after a token ".". An abstract without a file for an element has none of that
element. Abstracts of the test set are left out of train.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from acclimate.core.names import shown
from acclimate.core.types import Example, Rejected
from acclimate.reading.formats.archives import LIMITS, ArchiveLimits, files_in
from acclimate.tasks.tags import join_tags
from acclimate.text.untrusted import named, printable, unsound

ELEMENTS = {"participants": "I-PAR", "interventions": "I-INT", "outcomes": "I-OUT"}  # the later one covers the earlier
FOLDERS = {"train": "train", "test": "test/gold"}
SPANS = "annotations/aggregated/starting_spans"
TOKENS = ".tokens"
LABELS = ".AGGREGATED.ann"

Overlaps = Literal["last", "all"]
Numbers = dict[str, dict[str, list[str]]]  # abstract -> element -> a number for each token


def ebm_sentences(
    corpus: Path, part: Literal["train", "test"], *, overlaps: Overlaps = "last", limits: ArchiveLimits = LIMITS
) -> Iterator[Example | Rejected]:
    """Yield an Example for each sentence, abstracts in the order of their PMIDs, or a Rejected for an abstract.

    The group of a sentence is its abstract.

    corpus    the folder or an archive of it, with or without an outermost folder
    overlaps  the tag of a token that several elements cover: that of the last, or a joint tag of all

    Raises ValueError if it holds no annotated abstract.
    """
    tokens: dict[str, list[str]] = {}
    numbers: dict[str, Numbers] = {name: {} for name in FOLDERS}
    for name, content in files_in(corpus, endings=(TOKENS, LABELS), limits=limits):
        folder, _, file = f"/{name}".rpartition("/")
        try:
            words = content.decode().split()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{named(corpus)}: {shown(name)} in it is not UTF-8 ({error.reason}). Fetch it again"
            ) from error
        if file.endswith(TOKENS) and folder.endswith("/documents"):
            tokens[file.removesuffix(TOKENS)] = words
        for annotators, element in itertools.product(FOLDERS, ELEMENTS):
            if file.endswith(LABELS) and folder.endswith(f"/{SPANS}/{element}/{FOLDERS[annotators]}"):
                numbers[annotators].setdefault(file.removesuffix(LABELS), {})[element] = words
    if not numbers[part]:
        raise ValueError(f"{named(corpus)}: lacks {SPANS}/*/{FOLDERS[part]}/*{LABELS}. Name the folder of EBM-NLP 2.00")
    for abstract in sorted(numbers[part].keys() - (numbers["test"].keys() if part == "train" else set())):
        yield from _sentences(printable(abstract), tokens.get(abstract), numbers[part][abstract], overlaps)


def _sentences(
    abstract: str, tokens: list[str] | None, numbers: dict[str, list[str]], overlaps: Overlaps
) -> Iterator[Example | Rejected]:
    """Yield the sentences of an abstract, or one Rejected."""
    if tokens is None:
        yield Rejected(f"documents/{abstract}{TOKENS}", "there is no such file; fetch the archive again")
        return
    for element, covers in numbers.items():
        place = f"{SPANS}/{element}, {abstract}{LABELS}"
        if len(covers) != len(tokens):
            yield Rejected(place, f"{len(covers):,} numbers for {len(tokens):,} tokens; fetch the archive again")
            return
        if odd := [number for number in covers if not number.isdecimal()]:
            yield Rejected(place, f"{shown(odd[0])} is not a number; fetch the archive again")
            return
    if reason := next(filter(None, map(unsound, tokens)), ""):
        yield Rejected(f"documents/{abstract}{TOKENS}", f"a token {reason}; correct it")
        return
    covered: list[list[str]] = [[] for _ in tokens]
    for element, tag in ELEMENTS.items():
        for borne, number in zip(covered, numbers.get(element, ["0"] * len(tokens)), strict=True):
            if number.strip("0"):
                borne.append(tag)
    tags = [join_tags(covering if overlaps == "all" else covering[-1:]) for covering in covered]
    start = 0
    for end, token in enumerate(tokens, 1):
        if token == "." or end == len(tokens):
            yield Example(f"{abstract}:{start}", " ".join(tokens[start:end]), tuple(tags[start:end]), None, abstract)
            start = end
