"""Hallmarks of Cancer: each sentence of an abstract is a row with ten decisions.

A row is `0_0,1_0,2_1,...,9_0<TAB>sentence<TAB><pmid>_s<number>`: hallmark 2 and no other. An abstract has the hallmarks
of all its sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from acclimate.core.names import shown
from acclimate.core.types import Example, Label, Rejected, Split
from acclimate.reading.formats.delimited import delimited_examples
from acclimate.tasks.task import classes_in
from acclimate.text.untrusted import LIMITS, ReadLimits

HALLMARKS = (
    "activating invasion and metastasis",
    "avoiding immune destruction",
    "cellular energetics",
    "enabling replicative immortality",
    "evading growth suppressors",
    "genomic instability and mutation",
    "inducing angiogenesis",
    "resisting cell death",
    "sustaining proliferative signaling",
    "tumor promoting inflammation",
)


def hoc_sentences(path: Path, split: Split, *, limits: ReadLimits = LIMITS) -> Iterator[Example | Rejected]:
    """Yield an Example or a Rejected for each sentence; its group is the PubMed id of its abstract."""
    return delimited_examples(
        path, split, text="sentence", label="labels", label_of=_hallmarks, id="index", group_of=_abstract, limits=limits
    )


def hoc_abstracts(path: Path, split: Split, *, limits: ReadLimits = LIMITS) -> Iterator[Example | Rejected]:
    """Yield a Rejected for each faulty sentence, then an Example for each abstract: its sentences, joined by spaces."""
    sentences: list[Example] = []
    for row in hoc_sentences(path, split, limits=limits):
        if isinstance(row, Rejected):
            yield row
        else:
            sentences.append(row)
    texts: dict[str, list[str]] = {}
    for sentence in sentences:
        texts.setdefault(sentence.group, []).append(sentence.text)
    for abstract, label in join_abstracts(sentences, [sentence.label for sentence in sentences]).items():
        yield Example(abstract, " ".join(texts[abstract]), label, None, abstract)


def join_abstracts(sentences: Sequence[Example], labels: Sequence[Label]) -> dict[str, tuple[str, ...]]:
    """Return abstract -> the sorted classes of all its sentences. labels: gold or predicted labels of the sentences."""
    hallmarks: dict[str, set[str]] = {}
    for sentence, label in zip(sentences, labels, strict=True):
        hallmarks.setdefault(sentence.group, set()).update(classes_in(label))
    return {abstract: tuple(sorted(names)) for abstract, names in hallmarks.items()}


def _hallmarks(value: str) -> Label:
    """Return the hallmarks of a row's first field. Raises ValueError if it is not ten decisions."""
    decisions = value.split(",")
    wrong = [decision for at, decision in enumerate(decisions) if decision not in (f"{at}_0", f"{at}_1")]
    if wrong or len(decisions) != len(HALLMARKS):
        raise ValueError(f"the label {shown(value)} must be ten decisions, 0_0 or 0_1 to 9_0 or 9_1; correct the row")
    return tuple(name for name, decision in zip(HALLMARKS, decisions, strict=True) if decision.endswith("_1"))


def _abstract(index: str) -> str:
    return index.rpartition("_s")[0]
