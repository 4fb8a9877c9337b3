"""Search collections in the folder format of BEIR (Thakur et al., 2021, 2104.08663).

corpus.jsonl       a document per line: _id, text and, if it has one, title
queries.jsonl      a query per line: _id, text
qrels/SPLIT.tsv    a judgement per line, after a header: query-id, corpus-id, score; SPLIT is train, dev or test

A score is the grade of relevance; 0 and less mean not relevant. The text of a document is its title, a space and its
text, as BEIR's own models read it.

Most collections have judgements of test alone, but a race chooses on dev. Then dev is a fifth of the judged queries,
drawn at random: of train if it has judgements, else of test. Without judgements of test, those of dev are the test set.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acclimate.core.names import shown
from acclimate.core.types import SPLITS, Example, Rejected, Split
from acclimate.reading.tables import FileRead, check_accepted
from acclimate.text.untrusted import LIMITS, ReadLimits, json_lines, named, printable, sound, text_lines

DOCUMENTS, QUERIES, JUDGEMENTS = "corpus.jsonl", "queries.jsonl", "qrels"
FORM = (
    f"A search task is a folder in BEIR's format: {DOCUMENTS} (_id, title, text), {QUERIES} (_id, text) and "
    f"{JUDGEMENTS}/test.tsv (query-id, corpus-id, score)"
)
FIELDS = 3  # of a judgement
HIGHEST = 100  # grade
DRAWN = 5  # one judged query in so many is drawn


@dataclass(frozen=True)
class Collection:
    """What was read of a folder. splits: as of tasks.task.Task; divided: the splits whose queries were drawn"""

    splits: Mapping[Split, tuple[Example, ...]]
    files: tuple[FileRead, ...]
    notes: tuple[str, ...]
    divided: tuple[Split, ...]


def is_collection(folder: Path) -> bool:
    """Return True if the folder has documents and queries of BEIR's format."""
    return all(os.path.isfile(folder / name) for name in (DOCUMENTS, QUERIES))  # False where it cannot be read


def check_collection(folder: Path) -> None:
    """Raise ValueError if a file of the folder is missing."""
    if not is_collection(folder) or not _judged(folder):
        missing = [name for name in (DOCUMENTS, QUERIES) if not (folder / name).is_file()]
        missing = missing or [f"{JUDGEMENTS}/test.tsv"]
        raise ValueError(f"{printable(str(folder))}: there is no {missing[0]}. {FORM}")


def read_collection(folder: Path, *, seed: int, limits: ReadLimits = LIMITS) -> Collection:
    """Return documents and judged queries. seed: of the drawn queries

    Raises ValueError, with file and line, for an id that occurs twice, a judgement that cannot be read, a query with
    judgements in two splits, and if too few queries are judged.
    """
    check_collection(folder)
    documents, documents_read = _texts(folder / DOCUMENTS, limits)
    texts, queries_read = _texts(folder / QUERIES, limits)
    judged = {split: _judgements(path, texts, limits) for split, path in _judged(folder).items()}
    _check_apart(judged, folder)
    relevant = {split: grades for split, (grades, _) in judged.items()}
    queries, divided, notes = _divided(relevant, printable(folder.name), seed)
    unknown = {document for grades in queries.values() for label in grades.values() for document in label} - {
        *documents
    }
    asking: dict[str, list[str]] = defaultdict(list)
    for query, label in queries["train"].items():
        for document in dict.fromkeys(label):
            asking[document].append(texts[query])
    rows = {split: [Example(id, texts[id], label) for id, label in queries[split].items()] for split in SPLITS[1:]}
    rows["train"] = [Example(id, text, tuple(asking[id])) for id, text in documents.items()]
    without = sum(count for _, count in judged.values())
    return Collection(
        splits={split: tuple(rows[split]) for split in SPLITS},
        files=(documents_read, queries_read),
        notes=(
            f"{printable(folder.name)} is a search collection in BEIR's format: {len(documents):,} documents, "
            f"{len(queries['train']):,} training queries, {len(queries['dev']):,} of dev and {len(queries['test']):,} "
            "of test.",
            *notes,
            *([f"{without:,} queries without a relevant document are not used."] if without else []),
            *([f"{len(unknown):,} relevant documents are not in {DOCUMENTS}; no ranking has them."] if unknown else []),
        ),
        divided=divided,
    )


def _judged(folder: Path) -> dict[Split, Path]:
    paths: dict[Split, Path] = {split: folder / JUDGEMENTS / f"{split}.tsv" for split in SPLITS}
    return {split: path for split, path in paths.items() if path.is_file()}


def _texts(path: Path, limits: ReadLimits) -> tuple[dict[str, str], FileRead]:
    """Return id -> text of a file's rows. Rows without a text are rejected."""
    texts: dict[str, str] = {}
    rejected: list[Rejected] = []
    rows = 0
    for number, values in json_lines(path, limits):
        rows += 1
        place = f"{printable(path.name)}:{number}"
        if isinstance(values, str):
            rejected.append(Rejected(place, values))
            continue
        id, parts = values.get("_id"), [values.get(name) for name in ("title", "text")]
        text = " ".join(filter(None, (sound(part).strip() for part in parts if isinstance(part, str))))
        if not isinstance(id, str | int) or id == "":
            rejected.append(Rejected(place, f"its _id is {shown(id)}; give it an id"))
        elif not text:
            rejected.append(Rejected(place, "its text is empty; fill it in or remove the row"))
        elif str(id) in texts:
            raise ValueError(f"{named(path)}:{number}: the _id {shown(id)} occurs twice. Give each row another id")
        else:
            texts[str(id)] = text
    check_accepted(printable(path.name), rows, rejected)
    return texts, FileRead(path, rows, len(texts), tuple(rejected))


def _judgements(path: Path, queries: Mapping[str, str], limits: ReadLimits) -> tuple[dict[str, tuple[str, ...]], int]:
    """Return query -> ids of its relevant documents, each as often as its grade; and the number of queries that have
    none.
    """
    relevant: dict[str, dict[str, int]] = {}
    for number, query, document, grade in _lines(path, limits):
        where = f"{named(path)}:{number}"
        if query not in queries:
            raise ValueError(f"{where}: the query {shown(query)} is not in {QUERIES}. Add it, or remove the judgement")
        if grade > HIGHEST:
            raise ValueError(f"{where}: the score {grade} is no grade of relevance. Use whole numbers up to {HIGHEST}")
        grades = relevant.setdefault(query, {})
        if grades.setdefault(document, grade) != grade:
            raise ValueError(
                f"{where}: the document {shown(document)} has the score {grade} for the query {shown(query)}, and "
                f"{grades[document]} above. Remove one of them"
            )
    labels = {
        query: tuple(document for document, grade in grades.items() for _ in range(grade))
        for query, grades in relevant.items()
    }
    bearing = {query: label for query, label in labels.items() if label}
    return bearing, len(labels) - len(bearing)


def _lines(path: Path, limits: ReadLimits) -> Iterator[tuple[int, str, str, int]]:
    """Yield line, query, document and score of each judgement. The first line may be a header."""
    for number, line in text_lines(path, limits):
        parts = [part.strip() for part in line.strip("\r\n").split("\t")]
        if parts == [""]:
            continue
        is_score = len(parts) == FIELDS and parts[2].removeprefix("-").isdecimal()
        if not is_score and number == 1 and len(parts) == FIELDS:
            continue
        if not is_score or not parts[0] or not parts[1]:
            raise ValueError(
                f"{named(path)}:{number}: {shown(line.strip())} is no judgement. Write query-id, corpus-id and a whole "
                "number as score, with tabs between them"
            )
        yield number, parts[0], parts[1], int(parts[2])


def _check_apart(judged: Mapping[Split, tuple[Mapping[str, Any], int]], folder: Path) -> None:
    first: dict[str, Split] = {}
    for split, (queries, _) in judged.items():
        for query in queries:
            if first.setdefault(query, split) != split:
                raise ValueError(
                    f"{printable(str(folder / JUDGEMENTS))}: the query {shown(query)} has judgements in "
                    f"{first[query]}.tsv and {split}.tsv, so a choice would see test material. Keep it in one file"
                )


def _divided(
    judged: Mapping[Split, Mapping[str, tuple[str, ...]]], name: str, seed: int
) -> tuple[dict[Split, dict[str, tuple[str, ...]]], tuple[Split, ...], list[str]]:
    """Return the queries of each split, the splits that were drawn from another one, and notes on that."""
    queries: dict[Split, dict[str, tuple[str, ...]]] = {split: dict(judged.get(split, {})) for split in SPLITS}
    divided, notes = list[Split](), list[str]()
    if not queries["test"] and queries["dev"]:
        queries |= {"test": queries["dev"], "dev": {}}
        notes.append(f"{name} has no judgements of test, so those of dev are the test set.")
    for split in ("test", "dev"):
        if queries[split]:
            continue
        source: Split = "train" if queries["train"] else "test"
        if len(queries[source]) < 2:
            raise ValueError(
                f"{name}: only {len(queries[source])} queries have a relevant document. Judge more queries"
            )
        drawn = {*random.Random(seed).sample([*queries[source]], max(1, len(queries[source]) // DRAWN))}
        queries[split] = {query: label for query, label in queries[source].items() if query in drawn}
        queries[source] = {query: label for query, label in queries[source].items() if query not in drawn}
        divided.append(split)
        notes.append(
            f"{name} has no judgements of {split}: {len(drawn):,} queries of {source} were drawn for it, seed {seed}."
            + " So scores on test differ from published ones." * (source == "test")
        )
    return queries, tuple(divided), notes
