"""PubMedQA, the thousand labelled questions (ori_pqal.json), with the splits of its authors' split_dataset.py.

The question is the text; the contexts of the abstract, joined, are its pair. LONG_ANSWER, the abstract's conclusion,
states the answer and is never read.

The authors sample 500 test questions and ten folds of the others with Python's generator, seed 0. This file does the
same as their script, so the folds are theirs. As a check, the test questions must be those of their
test_ground_truth.json, in its order.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from acclimate.core.names import shown
from acclimate.core.types import Example, Rejected, Split
from acclimate.reading.datasets.catalogue import file_in
from acclimate.reading.formats.delimited import example_of, json_object, one_of
from acclimate.text.untrusted import LIMITS, ReadLimits, named, printable

QUESTIONS = "ori_pqal.json"
TEST = "test_ground_truth.json"
ANSWERS = ("yes", "no", "maybe")
FOLDS = 10


def pubmedqa_examples(folder: Path, split: Split, *, limits: ReadLimits = LIMITS) -> Iterator[Example | Rejected]:
    """Yield an Example or a Rejected for each question of the split: 450 of train, 50 of dev (fold 0), 500 of test.

    Raises ValueError if one of the two files is missing or is another one, so that the test questions differ.
    """
    path = file_in(folder, QUESTIONS)
    questions, answers = (json_object(file, limits) for file in (path, file_in(folder, TEST)))
    for id in splits(path, questions, answers)[split]:
        place = f"{printable(path.name)}, question {id}"
        contexts = questions[id].get("CONTEXTS")
        if not isinstance(contexts, list) or not all(isinstance(context, str) for context in contexts):
            yield Rejected(place, f"CONTEXTS is {shown(contexts)}; make it a list of strings")
            continue
        texts = [str(questions[id].get(key, "")) for key in ("QUESTION", "final_decision")]
        yield example_of(place, id, texts[0], texts[1], one_of(ANSWERS), pair=" ".join(contexts))


def splits(
    path: Path, questions: Mapping[str, Mapping[str, Any]], published: Mapping[str, Any], fold: int = 0
) -> dict[Split, list[str]]:
    """Return the ids of each split, sampled as in the authors' script.

    path  of the questions, for the error
    fold  number of the fold, of ten, that is dev

    Raises ValueError if the sampled test questions are not the published ones.
    """
    generator = random.Random(0)
    decided = {
        id: str(question.get("final_decision", ""))
        for id, question in questions.items()
        if isinstance(question, Mapping)
    }
    other_ids, test = _parts(list(decided), 2, decided.__getitem__, generator)
    if len(decided) != len(questions) or test != list(published):
        raise ValueError(
            f"{named(path)}: the test questions drawn from its {len(questions):,} are not those of {TEST}, so "
            "PubMedQA did not publish this file. Fetch both again"
        )
    folds = _parts(other_ids, FOLDS, decided.__getitem__, generator)
    train = [id for at, ids in enumerate(folds) if at != fold for id in ids]
    return {"train": train, "dev": folds[fold], "test": test}


def _parts(ids: list[str], count: int, decision: Callable[[str], str], generator: random.Random) -> list[list[str]]:
    """Return the ids in `count` parts, each with its share of each decision."""
    by_decision = [[id for id in ids if decision(id) == answer] for answer in ANSWERS]
    for members in by_decision:
        generator.shuffle(members)
    parts: list[list[str]] = []
    for at in range(count):
        part: list[str] = []
        for members in by_decision:
            size = math.ceil(len(members) / count)
            part += members[at * size : None if at == count - 1 else (at + 1) * size]
        parts.append(part)
    if len(parts[-1]) != len(parts[0]):  # shares were rounded up, so the last part has fewer: each other gives it one
        for part in parts[:-1]:
            parts[-1].append(part.pop(part.index(generator.choice(part))))
    return parts
