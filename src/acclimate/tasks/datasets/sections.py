"""A second embedded task: tell from which section of a SciPy docstring a description comes.

Titles, names, types and code are taken out, so the wording has to say whether a sentence introduces a function or
describes a parameter or what is returned. Splits are those of the docstrings (tasks/datasets/docstrings.py), by module,
and the same corpora serve: raw docstrings of the domain show which sentences stand below which title, so adapting can
help. docs/data.md has the reason for this choice, which was committed before any score was seen.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from acclimate.core.files import read_json, write_json, write_text
from acclimate.core.types import SPLITS, Document, Example, Split, Watch, unwatched
from acclimate.tasks.datasets import docstrings as first
from acclimate.tasks.datasets.docstring_sources import DOCTEST, Docstring, plain_docstring, read_docstrings
from acclimate.tasks.datasets.docstrings import Docstrings, build_docstrings, build_once, near_duplicates
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.tables import read_labelled
from acclimate.tasks.task import Task
from acclimate.tasks.task import labels_per_class as low_resource
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.overlap.words import normalised_words

FORMAT = 1  # raise it with every change of the content that this file writes
SUMMARY = "summary"  # what stands above the first title
ITEMS = ("parameters", "other parameters", "returns", "yields", "attributes", "raises", "warns")
PROSE = (SUMMARY, "notes", "examples")
SAME = {"other parameters": "parameters", "yields": "returns", "warns": "raises"}  # section -> its label
TITLE = re.compile(r"^([A-Z][A-Za-z ]{2,30})[ \t]*\n[ \t]*[-=]{3,}[ \t]*\n", re.MULTILINE)
FEWEST_WORDS = 6
FEWEST_TEXTS, FEWEST_MODULES = 60, 6  # a section with fewer in test is no label: its F1 would be a matter of chance


def build_sections(
    cache: Path, *, labels_per_class: int | None = None, seed: int = 0, max_tokens: int = 96, watch: Watch = unwatched
) -> Docstrings:
    """Return the task and the corpora of the docstrings, made once and read from `cache` ever after.

    labels_per_class: number of training examples to keep of each label, sampled by `seed`

    Raises ValueError as `build_docstrings` does.
    """
    docstrings = build_docstrings(cache, watch=watch)
    path = docstrings.path.with_name(docstrings.path.name.replace("docstrings-", f"sections-{FORMAT}-"))
    build_once(path, lambda directory: _build(directory, docstrings))
    facts = read_json(path / "facts.json")
    read = partial(_read_split, labels_per_class=labels_per_class, seed=seed)
    source = docstrings.task.source
    task = Task("sections", "sequence", read, tuple(facts["labels"]), METRICS["macro_f1"], max_tokens, source=source)
    text = Corpus(path / "task_text")
    return replace(docstrings, task=task, path=path, task_text=text, counts=facts["counts"])


def _read_split(path: Path, split: Split, *, labels_per_class: int | None, seed: int) -> list[Example]:
    examples = read_labelled(path / f"{split}.jsonl", text="text", label="label", group="group", id="id")
    if split == "train" and labels_per_class is not None:
        return low_resource(examples, labels_per_class, seed)
    return examples


def _build(directory: Path, docstrings: Docstrings) -> None:
    where = {
        example.group: split for split in SPLITS for example in docstrings.task.read(docstrings.path, split)
    }  # module -> split
    counts: Counter[str] = Counter()
    rows: dict[Split, list[Example]] = {split: [] for split in SPLITS}
    texts: set[str] = set()
    for docstring in read_docstrings("scipy", without=first.WITHOUT):
        for example in descriptions(docstring) if docstring.module in where else ():
            words = normalised_words(example.text)
            if words in texts:
                counts["exact copies"] += 1
            else:
                texts.add(words)
                rows[where[docstring.module]].append(example)
    modules: dict[str, Counter[str]] = {}
    for example in rows["test"]:
        modules.setdefault(str(example.label), Counter())[example.group] += 1
    labels = sorted(label for label, of in modules.items() if len(of) >= FEWEST_MODULES and of.total() >= FEWEST_TEXTS)
    rows = {split: [example for example in rows[split] if example.label in labels] for split in SPLITS}
    corpora = (docstrings.domain, docstrings.heldout, docstrings.general, docstrings.general_heldout)
    read = "\n".join(f" {normalised_words(document.text)} " for corpus in corpora for document in corpus.documents())
    earlier = [example.text for example in rows["train"]]
    for split in ("dev", "test"):
        near = near_duplicates([example.text for example in rows[split]], earlier)
        split_rows: list[Example] = []
        for example, is_copy in zip(rows[split], near, strict=True):
            if is_copy:
                counts[f"near copies, {split}"] += 1
            elif f" {normalised_words(example.text)} " in read:
                counts[f"stand in a corpus, {split}"] += 1
            else:
                split_rows.append(example)
        rows[split] = split_rows
        earlier += [example.text for example in split_rows]
    write_corpus((Document(row.id, row.text, row.group) for row in rows["train"]), directory / "task_text")
    for split in SPLITS:
        fields = ({name: asdict(row)[name] for name in ("id", "text", "label", "group")} for row in rows[split])
        write_text(directory / f"{split}.jsonl", "".join(json.dumps(row) + "\n" for row in fields))
    write_json(directory / "facts.json", {"labels": labels, "counts": dict(sorted(counts.items()))})


def descriptions(docstring: Docstring) -> Iterator[Example]:
    """Yield one description of each section of a docstring: the paragraph of prose, or the item, whose hash is least.

    A section without a description of FEWEST_WORDS words yields nothing.
    """
    for section, body in sections(docstring.text):
        passages = _items(body) if section in ITEMS else body.split("\n\n")
        texts = [" ".join(plain_docstring(text).split()) for text in passages]
        if long := [text for text in texts if len(text.split()) >= FEWEST_WORDS]:
            text = long[0] if section == SUMMARY else min(long, key=lambda text: hashlib.sha256(text.encode()).digest())
            label = SAME.get(section, section)
            yield Example(id=f"{docstring.name}/{section}", text=text, label=label, group=docstring.module)


def sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield (title in lower case, body) of each section of ITEMS and PROSE, without doctests."""
    parts = TITLE.split(DOCTEST.sub("", text + "\n"))
    titles = [SUMMARY, *(title.strip().lower() for title in parts[1::2])]
    for title, body in zip(titles, parts[::2], strict=True):
        if title in ITEMS or title in PROSE:
            yield title, body


def _items(body: str) -> Sequence[str]:
    """Return the description of each item: its indented lines, without the line of name and type above them."""
    items: list[str] = []
    for line in body.splitlines():
        if line.strip() and not line[0].isspace():
            items.append("")
        elif items:
            items[-1] += f"\n{line.strip()}"
    return items
