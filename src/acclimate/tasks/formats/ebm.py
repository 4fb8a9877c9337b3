"""EBM-NLP 2.00 as its authors publish it: tokens of abstracts, and for each of three elements which of them it covers.

documents/PMID.tokens                                                     tokens with white space between them
annotations/aggregated/starting_spans/ELEMENT/train/PMID.AGGREGATED.ann   as many numbers, 0 outside the element
annotations/aggregated/starting_spans/ELEMENT/test/gold/PMID.AGGREGATED.ann

Elements overlap. In BLURB and in the authors' own script (models/lstm-crf/build_data.py) each token bears one: of those
that cover it the last of participants, interventions and outcomes. With `overlaps` it bears a tag of all of them, joint
where they are several (tasks/tags.py). Sentences end after a token ".". An abstract that one element has no file for
bears none of it, and one of the test set is not trained on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from acclimate.core.types import Example, Rejected
from acclimate.tasks.formats.archives import LIMITS, Limits, files_in
from acclimate.tasks.tags import joint
from acclimate.text.untrusted import named, printable, shown, unsound

ELEMENTS = {"participants": "I-PAR", "interventions": "I-INT", "outcomes": "I-OUT"}  # the later one covers the earlier
FOLDERS = {"train": "train", "test": "test/gold"}
SPANS = "annotations/aggregated/starting_spans"
TOKENS = ".tokens"
LABELS = ".AGGREGATED.ann"

Overlaps = Literal["last", "all"]
Numbers = dict[str, dict[str, list[str]]]  # abstract -> element -> a number a token


def ebm_sentences(
    corpus: Path, part: Literal["train", "test"], *, overlaps: Overlaps = "last", limits: Limits = LIMITS
) -> Iterator[Example | Rejected]:
    """Yield an Example for each sentence of the abstracts, by PMID, or a Rejected for an abstract; the group is the
    abstract.

    corpus    the folder, or an archive of it, with an outermost folder or not
    overlaps  what a token bears that several elements cover: the last of them, or a joint tag of all

    Raises ValueError where it holds no annotated abstract.
    """
    tokens: dict[str, list[str]] = {}
    numbers: dict[str, Numbers] = {name: {} for name in FOLDERS}
    for name, content in files_in(corpus, endings=(TOKENS, LABELS), limits=limits):
        folder, _, file = f"/{name}".rpartition("/")
        try:
            words = content.decode().split()
        except UnicodeDecodeError as error:
            raise ValueError(f"{named(corpus)}: {shown(name)} in it is not UTF-8 ({error.reason}). Fetch it") from error
        if file.endswith(TOKENS) and folder.endswith("/documents"):
            tokens[file.removesuffix(TOKENS)] = words
        for each, element in ((each, element) for each in FOLDERS for element in ELEMENTS):
            if file.endswith(LABELS) and folder.endswith(f"/{SPANS}/{element}/{FOLDERS[each]}"):
                numbers[each].setdefault(file.removesuffix(LABELS), {})[element] = words
    if not numbers[part]:
        raise ValueError(f"{named(corpus)}: holds no {SPANS}/*/{FOLDERS[part]}/*{LABELS}. Name EBM-NLP 2.00's folder")
    for abstract in sorted(numbers[part].keys() - (numbers["test"].keys() if part == "train" else set())):
        yield from _sentences(printable(abstract), tokens.get(abstract), numbers[part][abstract], overlaps)


def _sentences(
    abstract: str, tokens: list[str] | None, numbers: dict[str, list[str]], overlaps: Overlaps
) -> Iterator[Example | Rejected]:
    """Yield the sentences, or why there is none."""
    if tokens is None:
        yield Rejected(f"documents/{abstract}{TOKENS}", "there is no such file; fetch the archive again")
        return
    for element, own in numbers.items():
        place = f"{SPANS}/{element}, {abstract}{LABELS}"
        if len(own) != len(tokens):
            yield Rejected(place, f"{len(own):,} numbers for {len(tokens):,} tokens; fetch the archive again")
            return
        if odd := [number for number in own if not number.isdecimal()]:
            yield Rejected(place, f"{shown(odd[0])} is no number; fetch the archive again")
            return
    if reason := next(filter(None, map(unsound, tokens)), ""):
        yield Rejected(f"documents/{abstract}{TOKENS}", f"a token {reason}; correct it")
        return
    covered: list[list[str]] = [[] for _ in tokens]
    for element, tag in ELEMENTS.items():
        for borne, number in zip(covered, numbers.get(element, ["0"] * len(tokens)), strict=True):
            if number.strip("0"):
                borne.append(tag)
    tags = [joint(each if overlaps == "all" else each[-1:]) for each in covered]
    start = 0
    for end, token in enumerate(tokens, 1):
        if token == "." or end == len(tokens):
            yield Example(f"{abstract}:{start}", " ".join(tokens[start:end]), tuple(tags[start:end]), None, abstract)
            start = end
