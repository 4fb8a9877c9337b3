"""Predictions as rows of a file: CSV, TSV, JSON Lines or Parquet, by the file's ending; tags of words as CoNLL too.

In CSV and TSV a text that a spreadsheet would run as a formula, such as =cmd|..., gets a ' before it.

Every row begins with `row`, its number in the input from 1, or `id` where the input has one, and the columns that the
user keeps. Probabilities are rounded to DIGITS digits. In CSV, TSV and Parquet each label has a column of its own:

kind        columns
sequence    predicted, probability, `probability of LABEL` for each label
multilabel  predicted, `probability of LABEL` for each label
score       predicted
tokens      words, predicted (a tag for each word), probability (of each tag), entities
span        predicted (the best answer), probability, answers

CoNLL (.conll) has a word and its tag on each line, a tab between them, and an empty line after each sentence.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from acclimate.core import files
from acclimate.core.door import option
from acclimate.core.types import Rejected
from acclimate.tasks.task import Kind
from acclimate.text.untrusted import named

if TYPE_CHECKING:
    from acclimate.shipping.predict import Prediction
    from acclimate.shipping.texts import Text

STDOUT = "-"
TAGGED = ".conll"
ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet", TAGGED)
VECTORS = (".npy", ".parquet")  # endings of `acclimate embed`
EXPLAINED = (".html", ".jsonl")  # endings of explanations
DIGITS = 6
SEPARATOR = "|"  # between several labels in CSV and TSV, where the race's files had none and no label has it
NAMED = 100  # rows left out whose place and reason are kept
AT_ONCE = 4096  # rows of a group in Parquet
MADE = frozenset({"row", "id", "words", "predicted", "probability", "probabilities", "entities", "answers"})
Made = Iterable[tuple["Text", "Prediction"]]


@dataclass(frozen=True)
class Predicted:
    """What was written.

    out       the path
    rows      number of rows
    skipped   the first rows that were left out, at most NAMED
    left_out  number of all rows that were left out
    probabilities  a sentence on whether the probabilities are calibrated, and how well; "" if there are none
    """

    out: str
    rows: int
    skipped: tuple[Rejected, ...] = ()
    left_out: int = 0
    probabilities: str = ""


def check_out(out: str | Path, source: str | Path, keep: Sequence[str] = ()) -> None:
    """Raises ValueError for an ending that is not known, a folder that is not there, the input itself, a column that is
    kept twice, and a kept column with the name of one that is written.
    """
    path = Path(out)
    if "id" in keep:
        raise ValueError(
            f"{option('keep', 'id')}: use {option('id', 'id')} instead, which puts the id first in each row of "
            "the output"
        )
    if twice := [column for column, count in Counter(keep).items() if count > 1]:
        raise ValueError(f"{option('keep', twice[0])} appears twice. Give it once")
    _refuse_taken(keep, MADE)
    if str(out) == STDOUT:
        return
    check_path(out, source, (*ENDINGS, STDOUT))
    if path.suffix == TAGGED and keep:
        raise ValueError(
            f"{option('keep', keep[0])}: a {TAGGED} file has only words and tags. Use another ending, or remove "
            "the option"
        )


def check_path(out: str | Path, source: str | Path, endings: Sequence[str], *, name: str = "out") -> None:
    """Raises ValueError for an ending that is not among these, a folder, a folder that is not there, and the input.

    name: of the option that states the path
    """
    path = Path(out)
    if path.suffix not in endings:
        raise ValueError(
            f"{option(name, named(path))}: the ending is not a known format. Use one of {', '.join(endings)}"
        )
    if path.is_dir():
        raise ValueError(f"{option(name, named(path))} is a folder. Name a file in it")
    if not path.parent.is_dir():
        raise ValueError(f"{option(name, named(path))}: there is no folder {named(path.parent)}. Create it first")
    if path.exists() and Path(source).exists() and path.samefile(source):
        raise ValueError(f"{option(name, named(path))} is the input file. Name another file")


def check_explanations(path: str | Path, source: str | Path, out: str | Path) -> None:
    """Raises ValueError as `check_path` does, and for the file of the predictions."""
    check_path(path, source, EXPLAINED, name="explain")
    if Path(path).resolve() == Path(out).resolve():
        raise ValueError(
            f"{option('explain', named(Path(path)))} is the file of {option('out')} too. Name another file"
        )


def check_columns(out: str | Path, kind: Kind, labels: Sequence[str], keep: Sequence[str]) -> None:
    """Raises ValueError for a kept column with the name of a label's probability, and for CoNLL without tags."""
    if Path(out).suffix == TAGGED and kind != "tokens":
        others = ", ".join(ending for ending in ENDINGS if ending != TAGGED)
        raise ValueError(
            f"{option('out', named(Path(out)))}: {TAGGED} is a format for tagged words. Use one of {others}"
        )
    _refuse_taken(keep, _columns(kind, labels, "row", ()))


def _refuse_taken(keep: Sequence[str], columns: Iterable[str]) -> None:
    if duplicates := sorted({*keep} & {*columns}):
        raise ValueError(
            f"{option('keep', duplicates[0])}: the output also has a column of that name. Rename it in the input"
        )


def written(
    predictions: Made,
    out: str | Path,
    kind: Kind,
    *,
    labels: Sequence[str],
    separator: str = "",
    keep: Sequence[str] = (),
    ids: bool = False,
    stdout: IO[bytes] | None = None,
) -> int:
    """Write the predictions as they are made, and return their number. The file appears once it is whole."""
    first = "id" if ids else "row"
    rows = (_row(text, prediction, kind, first) for text, prediction in predictions)
    if str(out) == STDOUT:
        into = stdout or sys.stdout.buffer
        return _json_lines(rows, into, flush=True)
    path = Path(out)
    if path.suffix == TAGGED:
        with files.new_file(path) as into:
            return _tagged(rows, into)
    flat = (_flat(row, kind, labels) for row in rows)
    columns = _columns(kind, labels, first, keep)
    with files.new_file(path) as into:
        if path.suffix == ".jsonl":
            return _json_lines(rows, into)
        if path.suffix == ".parquet":
            return _parquet(flat, into, columns, keep, kind)
        delimiter = "\t" if path.suffix == ".tsv" else ","
        separator = separator or SEPARATOR
        if any(separator in label for label in labels):
            separator = ""  # a list as JSON, because joined labels could not be told from each other
        return _delimited(flat, into, columns, delimiter, " " if kind == "tokens" else separator)


def _row(text: Text, prediction: Prediction, kind: Kind, first: str) -> dict[str, Any]:
    """Return the row as JSON has it."""
    row: dict[str, Any] = {first: text.number if first == "row" else text.example.id, **text.extras}
    if kind == "tokens":
        entity_rows: list[dict[str, Any]] = [
            {"first": a, "last": b, "type": kind, "text": words} for a, b, kind, words in prediction.entities
        ]
        if prediction.places:
            for entity, (begin, end) in zip(entity_rows, prediction.places, strict=True):
                entity |= {"begin": begin, "end": end}
        of_words = [round(probability, DIGITS) for probability in prediction.of_words]
        row |= {"words": [*prediction.words], "predicted": prediction.label, "probability": of_words}
        return row | {"entities": entity_rows}
    if kind == "span":
        answers = [{"answer": answer, "probability": round(value, DIGITS)} for answer, value in prediction.answers]
        best = prediction.answers[0] if prediction.answers else ("", 0.0)
        return row | {"predicted": best[0], "probability": round(best[1], DIGITS), "answers": answers}
    row["predicted"] = prediction.label
    if prediction.probability is not None:
        row["probability"] = round(prediction.probability, DIGITS)
    if prediction.probabilities:
        row["probabilities"] = {name: round(value, DIGITS) for name, value in prediction.probabilities.items()}
    return row


def _flat(row: dict[str, Any], kind: Kind, labels: Sequence[str]) -> dict[str, Any]:
    """Return the row with a column for the probability of each label."""
    probabilities = row.pop("probabilities", {})
    columns = labels if kind in ("sequence", "multilabel") else ()
    return row | {_probability_column(label): probabilities[label] for label in columns}


def _probability_column(label: str) -> str:
    return f"probability of {label}"


def _columns(kind: Kind, labels: Sequence[str], first: str, keep: Sequence[str]) -> list[str]:
    columns = {
        "sequence": ["predicted", "probability", *map(_probability_column, labels)],
        "multilabel": ["predicted", *map(_probability_column, labels)],
        "score": ["predicted"],
        "tokens": ["words", "predicted", "probability", "entities"],
        "span": ["predicted", "probability", "answers"],
    }[kind]
    return [first, *keep, *columns]


def _json_lines(rows: Iterable[Mapping[str, Any]], into: IO[bytes], *, flush: bool = False) -> int:
    number = 0
    for row in rows:
        into.write(json.dumps(row, ensure_ascii=False, default=str).encode() + b"\n")
        number += 1
    if flush:
        into.flush()
    return number


def _tagged(rows: Iterable[Mapping[str, Any]], into: IO[bytes]) -> int:
    number = 0
    for row in rows:
        pairs = zip(row["words"], row["predicted"], strict=True)
        into.write("".join(f"{word}\t{tag}\n" for word, tag in pairs).encode() + b"\n")
        number += 1
    return number


def _delimited(
    rows: Iterable[Mapping[str, Any]], into: IO[bytes], columns: Sequence[str], delimiter: str, separator: str
) -> int:
    text = io.TextIOWrapper(into, encoding="utf-8", newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(map(_guarded, columns))
    number = 0
    for row in rows:
        writer.writerow([_guarded(_cell(row.get(column), column, separator)) for column in columns])
        number += 1
    text.flush()
    text.detach()
    return number


def _cell(value: Any, column: str, separator: str) -> Any:
    """Return a value as a field: several labels with their separator, words and tags with spaces, all else as JSON."""
    if column == "predicted" and isinstance(value, tuple) and separator:
        return separator.join(value)
    if value is None or isinstance(value, str | int | float):
        return value
    if column in ("words", "probability") and isinstance(value, list):
        return " ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False, default=str)


def _guarded(value: Any) -> Any:
    """Return a text that a spreadsheet would run as a formula with a ' before it; all else as it is."""
    formula = isinstance(value, str) and (value[:1] == "=" or re.match(r"[+\-@\t\r].*[|!(]", value, re.DOTALL))
    return f"'{value}" if formula else value


def _parquet(
    rows: Iterable[dict[str, Any]], into: IO[bytes], columns: Sequence[str], keep: Sequence[str], kind: Kind
) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ("first", "last", "type", "text", "begin", "end")
    entity = pa.struct([(name, pa.string() if name in ("type", "text") else pa.int64()) for name in names])
    answer = pa.struct([("answer", pa.string()), ("probability", pa.float64())])
    several = pa.list_(pa.string())
    types: dict[str, Any] = {"row": pa.int64(), "id": pa.string(), "words": several}
    types |= {"entities": pa.list_(entity), "answers": pa.list_(answer)}
    types["predicted"] = {"score": pa.float64(), "tokens": several, "multilabel": several}.get(kind, pa.string())
    types["probability"] = pa.list_(pa.float64()) if kind == "tokens" else pa.float64()
    types |= {column: pa.string() for column in keep}
    schema = pa.schema([(column, types.get(column, pa.float64())) for column in columns])
    number = 0
    stream = iter(rows)
    with pq.ParquetWriter(into, schema) as writer:
        while chunk := list(islice(stream, AT_ONCE)):
            plain = [{**row, **{column: _plain(row[column]) for column in keep}} for row in chunk]
            writer.write_table(pa.Table.from_pylist(plain, schema=schema))
            number += len(chunk)
    return number


def _plain(value: Any) -> Any:
    """Return the value of a kept column as text: several files may hold it in several types."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
