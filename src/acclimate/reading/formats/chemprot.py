"""ChemProt (BioCreative VI): abstracts with chemicals, genes and the relations between them, in three TSVs a split.

abstracts   pmid, title, abstract
entities    pmid, id, type (CHEMICAL, GENE-Y, GENE-N), start, end, surface form
relations   pmid, group (CPR:3), "Y " where the group is evaluated or "N ", name (ACTIVATOR), Arg1:<id>, Arg2:<id>
            gold_standard.tsv has only the evaluated groups, without flag and name; both forms can be read

Offsets count characters of title, one character and abstract. Quotes are ordinary characters.

As in BLURB (Gu et al., 2021), all chemicals and genes of one sentence are paired, five groups are labels, all other
pairs are "false". Sentences are Punkt's (tasks/sentences.py). If a pair has two groups, the later in the file counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from acclimate.core.names import shown
from acclimate.core.types import Example, Rejected, Split
from acclimate.reading.datasets.catalogue import file_in
from acclimate.reading.formats.annotated import Annotated, Mention, Relation, StatedMention, StatedRelation, checked
from acclimate.reading.relations import Encoding, MentionPairs, relation_examples
from acclimate.tasks.sentences import punkt_spans
from acclimate.text.untrusted import LIMITS, ReadLimits, printable, text_lines

GROUPS = ("CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9")
FALSE = "false"
CHEMICAL_GENE = MentionPairs(("CHEMICAL",), ("GENE-Y", "GENE-N", "GENE"), ("CHEMICAL", "GENE"), "CHEM-GENE")
FILES: dict[Split, tuple[str, str, str]] = {
    "train": (
        "chemprot_training/chemprot_training_abstracts.tsv",
        "chemprot_training/chemprot_training_entities.tsv",
        "chemprot_training/chemprot_training_relations.tsv",
    ),
    "dev": (
        "chemprot_development/chemprot_development_abstracts.tsv",
        "chemprot_development/chemprot_development_entities.tsv",
        "chemprot_development/chemprot_development_relations.tsv",
    ),
    "test": (
        "chemprot_test_gs/chemprot_test_abstracts_gs.tsv",
        "chemprot_test_gs/chemprot_test_entities_gs.tsv",
        "chemprot_test_gs/chemprot_test_relations_gs.tsv",
    ),
}
"""Split -> its abstracts, entities and relations, below the folder that the publisher's archives unpack to."""


def chemprot_examples(
    folder: Path,
    split: Split,
    *,
    encoding: Encoding = "dummies",
    limits: ReadLimits = LIMITS,
) -> Iterator[Example | Rejected]:
    """Yield BLURB's examples of a split, from the publisher's files in `folder`, packed or not."""
    documents = chemprot_documents(*(file_in(folder, name) for name in FILES[split]), limits=limits)
    labels = {group: group for group in GROUPS}
    return relation_examples(
        documents, CHEMICAL_GENE, labels=labels, negative=FALSE, encoding=encoding, sentences=punkt_spans
    )


def chemprot_documents(
    abstracts: Path, entities: Path, relations: Path, *, limits: ReadLimits = LIMITS
) -> Iterator[Annotated | Rejected]:
    """Yield the abstracts with their mentions and relations, whose types are their groups; a Rejected for a faulty one.

    A line of entities or relations that cannot be read, or whose abstract is missing, is a Rejected too.
    """
    mentions: dict[str, list[StatedMention]] = defaultdict(list)
    for place, fields in _rows(entities, limits):
        match fields:
            case [pmid, id, type, start, end, surface] if start.isdecimal() and end.isdecimal():
                mention = Mention(id, type, ((int(start), int(end)),))
                mentions[pmid].append(StatedMention(place, mention, surface))
            case _:
                yield Rejected(place, _unread(fields, "pmid, id, type, start, end and surface form"))
    related: dict[str, list[StatedRelation]] = defaultdict(list)
    for place, fields in _rows(relations, limits):
        match fields:
            case [pmid, group, _, _, first, second] | [pmid, group, first, second]:
                relation = Relation(group, first.removeprefix("Arg1:"), second.removeprefix("Arg2:"))
                related[pmid].append(StatedRelation(place, relation))
            case _:
                yield Rejected(place, _unread(fields, "pmid, group, flag, name, Arg1:<id> and Arg2:<id>"))
    for place, fields in _rows(abstracts, limits):
        match fields:
            case [pmid, title, abstract]:
                text = f"{title}\t{abstract}"
                yield checked(pmid, text, mentions.pop(pmid, ()), related.pop(pmid, ()), place=place)
            case _:
                yield Rejected(place, _unread(fields, "pmid, title and abstract"))
    for unread in (mentions, related):
        for pmid, rows in unread.items():
            for row in rows:
                yield Rejected(row.place, f"there is no abstract {shown(pmid)} in {printable(abstracts.name)}")


def _rows(path: Path, limits: ReadLimits) -> Iterator[tuple[str, list[str]]]:
    for number, line in text_lines(path, limits):
        if stripped := line.rstrip("\r\n"):
            yield f"{printable(path.name)}:{number}", stripped.split("\t")


def _unread(fields: list[str], number: str) -> str:
    return f"{len(fields)} fields, {shown(fields)}, but {number} are needed, separated by tabs; correct the line"
