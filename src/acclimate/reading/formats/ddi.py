"""DDIExtraction 2013: texts with drugs and, for each pair of drugs in a sentence, whether and how they interact.

    <document id="DDI-DrugBank.d1"><sentence id="DDI-DrugBank.d1.s0" text="...">
      <entity id="DDI-DrugBank.d1.s0.e0" charOffset="0-6;12-17" type="drug" text="..."/>
      <pair id="DDI-DrugBank.d1.s0.p0" e1="..." e2="..." ddi="true" type="effect"/></sentence></document>

Each document is a file of one archive. Beside it are lists of the files of each split (`train_files.tsv`, a line for
each path below the archive's folder). Offsets count from the beginning of the sentence and include the last character.

As in BLURB (Gu et al., 2021), every pair of drugs in a sentence is an example, and a discontinuous drug counts from its
first character to its last.

Readings
  The publisher's offsets of 24 mentions in 7 documents of train and dev are one too high or too low. If a surface form
  is one character away from its offsets, the mention is moved; BLURB's files have "a@DRUG$" for "angiotensin 1".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from acclimate.core.names import shown
from acclimate.core.types import Example, Rejected, Split
from acclimate.reading.datasets.catalogue import file_in
from acclimate.reading.formats.annotated import Annotated, Mention, Relation, StatedMention, StatedRelation, checked
from acclimate.reading.formats.archives import files_in
from acclimate.reading.formats.xml import elements
from acclimate.reading.relations import Encoding, MentionPairs, relation_examples
from acclimate.tasks.sentences import Span
from acclimate.text.untrusted import LIMITS, ReadLimits, named, printable, text_lines

ARCHIVE = "DDIextraction_2013.tar.gz"
LISTS: dict[Split, str] = {"train": "train_files.tsv", "dev": "dev_files.tsv", "test": "test_files.tsv"}
FALSE = "DDI-false"
LABELS = {type: f"DDI-{type}" for type in ("advise", "effect", "int", "mechanism")}
DRUGS = ("drug", "brand", "group", "drug_n")
DRUG_DRUG = MentionPairs(DRUGS, DRUGS, ("DRUG", "DRUG"), "DRUG-DRUG")

_OFFSETS = re.compile(r"\d+-\d+(;\d+-\d+)*")
_LINE_END = re.compile(r"[\n\r\t]")  # one space for each, so that offsets stay what they are


def ddi_examples(
    folder: Path, split: Split, *, encoding: Encoding = "dummies", limits: ReadLimits = LIMITS
) -> Iterator[Example | Rejected]:
    """Yield BLURB's examples of a split, from the archive and the lists of files in `folder`.

    Raises ValueError if the archive lacks a file of the list.
    """
    listed = file_in(folder, LISTS[split])
    names = [line.strip() for _, line in text_lines(listed, limits) if line.strip()]
    documents = ddi_documents(folder / ARCHIVE, names)
    return relation_examples(
        documents, DRUG_DRUG, labels=LABELS, negative=FALSE, encoding=encoding, sentences=given_sentences
    )


def ddi_documents(archive: Path, names: Iterable[str] = ()) -> Iterator[Annotated | Rejected]:
    """Yield the documents of these files, in their order; a Rejected for a faulty one.

    archive  the archive, or the folder that it unpacks to
    names    files, which may lack the archive's outermost folder; none: all files

    Raises ValueError if there is no file of a name, and if a file is not in this corpus's XML.
    """
    contents = {name: content for name, content in files_in(archive) if name.endswith(".xml")}
    by_name = {name.partition("/")[2]: name for name in contents} | {name: name for name in contents}
    for name in names or contents:
        if name not in by_name:
            raise ValueError(f"{named(archive)}: lacks {shown(name)}, which the list of files names. Fetch it again")
        yield _document(contents[by_name[name]], f"{printable(archive.name)}/{printable(by_name[name])}")


def given_sentences(text: str, whole: Iterable[Span] = ()) -> list[Span]:
    """Return the sentences of the corpus: a line each. whole: ignored."""
    return [line.span() for line in re.finditer(r"[^\n]+", text)]


def _document(content: bytes, where: str) -> Annotated | Rejected:
    [(document, lines)] = elements([content], "document", where=where, root="document")
    texts: list[str] = []
    mentions: list[StatedMention] = []
    relations: list[StatedRelation] = []
    element = document
    try:
        id = document.attrib["id"]
        for element in (element for sentence in document.iter("sentence") for element in sentence.iter()):
            place = f"{where}:{lines[element]}"
            if element.tag == "sentence":
                texts.append(_LINE_END.sub(" ", element.attrib["text"]))
            elif element.tag == "entity":
                start = sum(len(text) + 1 for text in texts[:-1])
                mentions.append(StatedMention(place, *_mention(element.attrib, id, texts[-1], start)))
            elif element.tag == "pair" and element.attrib["ddi"] == "true":
                ends = (_short(element.attrib[end], id) for end in ("e1", "e2"))
                relations.append(StatedRelation(place, Relation(element.attrib["type"], *ends)))
    except KeyError as error:
        reason = f"the element {shown(element.tag)} has no attribute {error}; correct the file"
        return Rejected(f"{where}:{lines[element]}", reason)
    except ValueError as error:
        return Rejected(f"{where}:{lines[element]}", str(error))
    return checked(id, "\n".join(texts), mentions, relations, place=f"{where}:{lines[document]}")


def _mention(entity: dict[str, str], document: str, sentence: str, start: int) -> tuple[Mention, str]:
    """Return the mention and its surface form. start: offset of the sentence in the document."""
    offsets, surface = entity["charOffset"], entity["text"]
    if not _OFFSETS.fullmatch(offsets):
        raise ValueError(f"the offsets {shown(offsets)} must have a form such as 0-6 or 0-6;12-17; correct the file")
    ranges = [[int(offset) for offset in stretch.split("-")] for stretch in offsets.split(";")]
    for shift in (0, -1, 1):
        parts = [sentence[max(first + shift, 0) : last + shift + 1] for first, last in ranges]
        if "".join("".join(parts).split()) == "".join(surface.split()):
            surface = " ".join(parts)  # the file joins parts without a space if the text has a hyphen
            break
    else:
        shift = 0
    spans = tuple((start + first + shift, start + last + shift + 1) for first, last in ranges)
    return Mention(_short(entity["id"], document), entity["type"], spans), surface


def _short(id: str, document: str) -> str:
    return id.removeprefix(f"{document}.")
