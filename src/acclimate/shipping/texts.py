"""Texts to predict: read row by row from a file or from standard input, with the columns that the race had.

kind        files
any         CSV, TSV, JSON Lines (each also packed), a JSON list, Parquet, Excel: columns by name. As in a race, the
            content tells the format, and the ending only where the content leaves it open
no pairs    .txt (also packed) with no such content: a text a line
tokens      .txt, .conll, .bio, .iob, .iob2, .iobes, .tags: a word a line, the first field; an empty line ends a
            sentence. In a column words stand in a list, or in a string with white space between them
span        also .json in SQuAD's form; answers are not read. A column may hold several contexts in a list

Labels are not looked at. A row that cannot be read is a `Rejected`, with its place and the reason.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from acclimate.core import files, settings
from acclimate.core.door import option
from acclimate.core.hub import failures, status_of
from acclimate.core.names import nearest_folder, shown
from acclimate.core.types import BASELINE_FILE, COMBINED_FILE, Example, Progress, Rejected, Watch, unwatched
from acclimate.jobs.job import check_format
from acclimate.jobs.lock import ENCODER, FITTED, OUTCOME, USE
from acclimate.models.loading import locate
from acclimate.races.calibration import CALIBRATED, read_calibration
from acclimate.reading.formats.squad import question_rows
from acclimate.reading.source import TAG_LINES, WORD_LINES, Source, open_source
from acclimate.reading.tables import ColumnError, no_column, option_of, row_of, table_rows
from acclimate.reading.word_lines import fields_of, word_lines
from acclimate.statistics.calibration import Calibration
from acclimate.tasks.spans import PASSAGE
from acclimate.tasks.tags import split_words, text_of
from acclimate.tasks.task import Kind
from acclimate.text.untrusted import RowValues
from acclimate.text.untrusted import unsound as fault_of

STDIN = "-"
MARK = "shipment.json"  # of a shipment: what was checked
CARD = "README.md"  # of a shipment: the model card
PATIENCE = 10.0  # seconds in which the hub has to answer whether it has a record
RECORD = "race.json"  # of what a race hands over and of a shipment: contestant, seed, and `task`
FORMS = {"csv": ".csv", "tsv": ".tsv", "jsonl": ".jsonl", "parquet": ".parquet", "txt": ".txt", "conll": ".conll"}
TABLES = (".csv", ".tsv", ".jsonl", ".parquet", ".xlsx")
SPANS = "spans"  # column of a relation's two mentions: [[begin, end], [begin, end]], in characters of the text
QUESTION, CONTEXT = "question", "context"  # columns of a question, where none are stated
MENTIONS = 2
TAG = re.compile(r"O$|[BIESLUM]-")


@dataclass(frozen=True)
class Asking:
    """How the texts of a task are read: as the race recorded it, with what the user states over it.

    kind       "": not recorded; the model's head says it
    labels     of the task; those of the model may be tags of another scheme
    paired     True if texts come in pairs
    text, pair, id  names of columns; None: not stated, nor in the race
    separator  what stands between several labels of a field
    own_roles  the columns that the user named: these must be there
    form       format that the user states, a key of FORMS; "": the file tells it
    record     file of the race's record; "": there is none
    calibration  how the race calibrated the model; None: it did not
    """

    kind: Kind | None = None
    labels: tuple[str, ...] = ()
    paired: bool = False
    text: str | None = None
    pair: str | None = None
    id: str | None = None
    separator: str = ""
    own_roles: frozenset[str] = frozenset()
    form: str = ""
    record: str = ""
    calibration: Calibration | None = None

    def with_columns(self, **columns: str | None) -> Asking:
        """Return the same with the columns that are not None."""
        named: dict[str, Any] = {role: column for role, column in columns.items() if column is not None}
        return replace(self, **named, own_roles=self.own_roles | {*named})

    def told_by_race(self, role: str) -> str:
        """Return a sentence that says where the name of a column comes from; "" if the race did not record it."""
        if role in self.own_roles or not getattr(self, role, None):
            return ""
        return f". The race read {getattr(self, role)!r}" + f" ({self.record})" * bool(self.record)

    @property
    def about_probabilities(self) -> str:
        """Whether the probabilities of the model are calibrated, in a sentence; "" if it has none."""
        if self.calibration is not None:
            return f"Probabilities: {self.calibration.sentence}"
        if self.kind == "score":
            return ""
        if self.kind in CALIBRATED:
            return "Probabilities: not calibrated"
        return "Probabilities: not calibrated. Calibration supports only labels of whole texts"

    def roles(self) -> dict[str, str]:
        """Return role -> column, with the usual names where none was recorded."""
        question = self.kind == "span"
        roles = {"text": self.text or (CONTEXT if question else "text")}
        if self.pair or self.paired or question:
            roles["pair"] = self.pair or (QUESTION if question else "pair")
        return roles | ({"id": self.id} if self.id else {})


@dataclass(frozen=True, slots=True)
class Text:
    """A text to predict.

    number       of its row, from 1
    extras       values of the columns that the user keeps
    source_text  the text as it was given, for a tagger; "" where it got a list of words
    """

    number: int
    place: str
    example: Example
    extras: Mapping[str, Any] = field(default_factory=dict)
    source_text: str = ""


def checkpoint_in(model: str | PathLike[str], contestant: str = "", *, watch: Watch = unwatched) -> str:
    """Return the directory of a fine-tuned model or of a fitted linear model, or the hub id of a model.

    model       a shipment, the out folder of a race (its model to use), a folder that holds `checkpoint`, a checkpoint,
                a baseline, a hub id
    contestant  of a race, whose model to take instead: the best encoder or the baseline
    watch       receives a note on which contestant predicts

    Raises ValueError for a race without such a model, and for what is none of these.
    """
    where = Path(locate(model))
    check_format(where)
    if contestant:
        place = contestant_directory(where, contestant)
        announce_contestant(place, watch)
        return str(place)
    if not where.is_dir():
        return os.fspath(model)
    for place in (where / USE, where / "checkpoint", where):
        if any((place / name).is_file() for name in ("config.json", BASELINE_FILE, COMBINED_FILE)):
            if place == where / USE:
                announce_contestant(place, watch)
            return str(place)
    if (where / f"race{OUTCOME}").exists():
        if reason := unused_reason(where):
            raise ValueError(f"{where}: {reason}, so there is no model to predict with. See its page for advice")
        raise ValueError(f"{where}: its {USE}/ is missing. Repeat the command of the race to write {USE}/ again")
    if (where / "data").is_dir():
        raise ValueError(f"{where} contains no finished race. Run the same race again to continue it")
    raise ValueError(
        f"{where}: contains no fine-tuned model. Give a shipped folder, the {option('out')} of a race, a checkpoint "
        "or a hub id"
    )


def announce_contestant(place: Path, watch: Watch) -> None:
    """Say whose model a race has in `place`."""
    if (place / RECORD).is_file():
        name = files.read_object(place / RECORD, names=("contestant",))["contestant"]
        watch(Progress("predict", 0, 0, "rows", {"note": f"by {name}, from {place}"}))


def contestant_directory(run: Path, contestant: str) -> Path:
    """Return the directory in which a race handed over this contestant's model. Raises ValueError if there is none."""
    choice = option("contestant", contestant)
    if not (run / f"race{OUTCOME}").exists():
        raise ValueError(f"{choice}: {run} contains no finished race. Give the {option('out')} of a finished race")
    directories: dict[str, Path] = {}
    for place in (USE, ENCODER, FITTED):
        if (run / place / RECORD).is_file():
            about = files.read_object(run / place / RECORD, names=("contestant",))
            directories.setdefault(about["contestant"], run / place)
    if contestant not in directories:
        names = ", ".join(directories) or "no contestant"
        raise ValueError(f"{choice}: {run} has no model of {contestant}. Choose one of: {names}")
    return directories[contestant]


def unused_reason(run: Path) -> str:
    """Return why a finished race has no model to use; "" if it has one."""
    from acclimate.races.outcome import read_outcome

    return read_outcome(run / f"race{OUTCOME}").unused


def asking_of(checkpoint: str, *, own_columns: bool = False) -> Asking:
    """Return how the race of a checkpoint read its texts; the defaults where nothing was recorded.

    own_columns: True if the user names the columns, so that a record that cannot be reached is not needed

    Raises ValueError if the record of a model on the hub cannot be reached, and if it is damaged.
    """
    record = Path(checkpoint) / RECORD
    if not Path(checkpoint).is_dir():
        record = _from_hub(checkpoint, own_columns=own_columns) or record
    way_out = "Copy the folder again, or ship the race again"
    task = files.read_object(record, way_out=way_out).get("task", {}) if record.is_file() else {}
    if not task:
        return Asking()
    needed = ("kind", "labels", "paired")
    if not isinstance(task, dict) or not all(name in task for name in needed):
        raise files.DamagedError(f"{record} is damaged: its task has no {', '.join(needed)}. {way_out}")
    labels = task["labels"]
    if isinstance(labels, list) and len(set(map(str, labels))) < len(labels):
        raise files.DamagedError(f"{record} is damaged: a label of its task appears twice. {way_out}")
    columns = ("text", "pair") if task["kind"] != "span" else ()  # questions in SQuAD's form have none
    names = (*needed, *columns, "id", "separator")
    recorded = {name: task[name] for name in names if task.get(name) is not None}
    asking = settings.from_mapping(Asking, recorded, where=str(record), prefix="task.")
    return replace(asking, record=str(record), calibration=read_calibration(record.parent))


def _from_hub(hub_id: str, *, own_columns: bool) -> Path | None:
    """Return the record of a model on the hub, in the hub's cache; None if it has none, or if it cannot be reached and
    the user states the columns.
    """
    import huggingface_hub as hub
    from huggingface_hub import errors

    cached = hub.try_to_load_from_cache(hub_id, RECORD)
    try:
        if cached is None:  # asked once, without the client's retries: the name may be a misspelt folder
            try:
                hub.get_hf_file_metadata(hub.hf_hub_url(hub_id, RECORD), timeout=PATIENCE)
            except failures() as error:
                if status_of(error) is None:
                    raise errors.LocalEntryNotFoundError(f"{hub_id}: the hub cannot be reached") from error
        return Path(hub.hf_hub_download(hub_id, RECORD))
    # before EntryNotFoundError: its base
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        if own_columns or not isinstance(hub.try_to_load_from_cache(hub_id, RECORD), str | None):  # the hub has none
            return None
        raise ValueError(
            f"{hub_id}: there is no such folder here{nearest_folder(Path(hub_id))}. If it is a model of the hub: "
            f"the hub cannot be reached, and its {RECORD} is not in the cache, so acclimate does not know if a row "
            f"has one text or two. Correct the path, connect to the hub once, or add {option('text')} (and "
            f"{option('pair')}, if rows have two texts)"
        ) from error
    except errors.EntryNotFoundError:
        return None


@contextmanager
def open_input(file: Path | str, asking: Asking, form: str = "", stdin: IO[bytes] | None = None) -> Iterator[Source]:
    """Yield the opened file, or what standard input holds if `file` is "-".

    form: the format, a key of FORMS; "": the content tells it, and of a file the ending

    Raises ValueError if `form` is not known, if the file cannot be read, and if standard input is no table.
    """
    if form and form not in FORMS:
        raise ValueError(f"{option('format', form)}: choose one of {', '.join(FORMS)}")
    if str(file) != STDIN:
        source = open_source(Path(file))
        yield replace(source, ending=FORMS[form]) if form else source
        return
    with TemporaryDirectory(prefix="acclimate-") as place:
        path = Path(place) / "stdin"
        with open(path, "wb") as out:
            shutil.copyfileobj(stdin or sys.stdin.buffer, out)
        try:
            source = open_source(path)
            yield replace(source, ending=FORMS[form] if form else _ending_of(source, asking))
        except ValueError as error:  # messages leave the temporary folder out
            raise type(error)(str(error).replace(f"{place}/", "")) from None


def _ending_of(source: Source, asking: Asking) -> str:
    """Return the ending for the format of standard input; "" if its content tells that.

    Raises ValueError if it is no JSON, no Parquet, and no table whose header has a column of the race.
    """
    if not source.head:
        raise ValueError("standard input is empty. Give rows, or name a file")
    roles = asking.roles()
    if (asking.kind == "span" and source.holds_questions) or source.table_form([*roles.values()]):
        return ""
    line = next(source.lines(), (1, ""))[1].strip()
    if line.startswith("{"):
        return ".jsonl"
    if line.strip('"') == roles["text"]:  # a table with one column
        return ".csv"
    plain = (
        "conll for one word per line, txt for one sentence per line"
        if asking.kind == "tokens"
        else "txt for one text per line"
    )
    raise ValueError(
        f"standard input begins with {shown(line)}, which is neither JSON nor a header with the column "
        f"{roles['text']!r}. Add {option('format')} ({plain}), or name the column with {option('text')}"
    )


def _shape(source: Source, asking: Asking) -> str:
    """Return what a file holds: "questions" in SQuAD's form, "words" (one a line), "rows" with columns, "lines" of
    text; "" if neither content nor ending tells.
    """
    if asking.form == "txt":
        return "lines"
    if asking.kind == "span" and source.holds_questions:
        return "questions"
    if asking.kind == "tokens" and source.ending in TAG_LINES:
        column = asking.roles()["text"]
        is_column = source.beginning.split(b"\n", 1)[0].strip() == column.encode()
        return "rows" if source.ending == ".tsv" and (is_column or source.has_header([column])) else "words"
    if source.table_form([*asking.roles().values()]):
        return "rows"
    return "lines" if source.ending == ".txt" else ""


def read_texts(
    source: Source, asking: Asking, kind: Kind, *, keep: Sequence[str] = (), mentions: bool = False
) -> Iterator[Text | Rejected]:
    """Yield a Text or a Rejected for each row of the file, in its order.

    mentions: True if the model reads where two mentions stand (column `spans`)

    Raises ValueError for a file that cannot be read, or lacks a column.
    """
    asking = replace(asking, kind=kind)
    shape = _shape(source, asking)
    if keep and shape in ("questions", "words", "lines"):
        way_out = f"Remove {option('keep')}, or give a file with columns"
        raise ValueError(f"{option('keep', keep[0])}: {source.name} has no columns. {way_out}")
    if shape == "questions":
        for row in question_rows(source.path, answers_of=lambda question: (), way_out="Correct the file"):
            if isinstance(row, Rejected):
                yield row
            else:
                yield Text(row.number, row.place, Example(row.id, row.text, "", row.pair))
    elif shape == "words":
        yield from _word_lines(source, asking)
    elif shape == "lines":
        if "pair" in asking.roles():
            raise ValueError(
                f"{source.name}: this model reads two texts per row, but a .txt file has one per line. Give a .csv, "
                f".tsv, .jsonl or .parquet file with the columns {' and '.join(map(repr, asking.roles().values()))}"
            )
        yield from _lines(source, kind)
    elif shape == "rows":
        yield from _rows(source, asking, kind, keep, mentions)
    else:
        more = {"span": ", .json in SQuAD's form", "tokens": f", {', '.join(WORD_LINES)}"}.get(kind, "")
        raise ValueError(
            f"{source.name}: the ending is not a known format. Supported are {', '.join(TABLES)}, .txt{more}. "
            f"Rename the file, or add {option('format')} ({', '.join(FORMS)})"
        )


def check_first_row(
    file: Path, checkpoint: str, kind: Kind | None = None, *, form: str = "", keep: Sequence[str] = (), **columns: Any
) -> None:
    """Raise ValueError for a file that is in no known format or lacks a column, before the model is loaded.

    checkpoint  as of `checkpoint_in`; columns are compared with those of its race, if that recorded them
    kind        of the texts; None: that of the race
    columns     role -> the column that the user names, or None
    """
    if not Path(checkpoint).is_dir():
        return
    asking = asking_of(checkpoint)
    if kind is not None:
        asking = Asking(text=asking.text)
    if (kind := kind or asking.kind) is not None:
        asking = replace(asking.with_columns(**columns), kind=kind, form=form)
        with open_input(file, asking, form) as source:
            next(read_texts(source, asking, kind, keep=keep), None)


def texts_of_rows(
    rows: Iterable[Any], asking: Asking, kind: Kind, *, mentions: bool = False
) -> Iterator[Text | Rejected]:
    """Yield what `read_texts` does for values in memory: texts, lists of words, pairs of texts, or mappings from the
    names of columns.

    Raises ValueError if the rows are a mapping, such as columns or splits.
    """
    roles = replace(asking, kind=kind).roles()
    if isinstance(rows, Mapping):
        raise ValueError(
            f"these are not rows but a mapping with {', '.join(map(repr, [*rows][:5]))}. Give a list with a mapping "
            f"for each row, such as [{{{roles['text']!r}: ...}}]; if it has several splits, give one of them"
        )
    for number, row in enumerate(rows, 1):
        place = f"row {number}"
        values: RowValues | Any = row
        running = row if kind == "tokens" and isinstance(row, str) else ""
        if not isinstance(row, Mapping):
            two = "pair" in roles and isinstance(row, list | tuple) and len(row) == 2
            if "pair" in roles and not two:
                keys = f"{roles['text']!r} and {roles['pair']!r}"
                yield Rejected(place, f"{shown(row)}: give a mapping with {keys}, or a pair of texts")
                continue
            text = text_of(split_words(running)) if running else row
            values = dict(zip((roles["text"], roles["pair"]), row, strict=True)) if two else {roles["text"]: text}
        if "pair" in roles and roles["pair"] not in values:
            yield Rejected(place, str(no_column("", roles["pair"], [*values])).removeprefix(": "))
            continue
        present = {role: column for role, column in roles.items() if role != "id" or column in values}
        yield _text((number, place), values, present, kind, mentions=mentions, running=running)


def _rows(source: Source, asking: Asking, kind: Kind, keep: Sequence[str], mentions: bool) -> Iterator[Text | Rejected]:
    roles = asking.roles()
    if not ids_in(source, asking):
        roles.pop("id", None)
    columns = [*roles.values(), *keep, *([SPANS] if mentions else [])]
    try:
        for number, (place, values) in enumerate(table_rows(source, list(dict.fromkeys(columns))), 1):
            text = _text((number, place), values, roles, kind, keep=keep, mentions=mentions)
            if isinstance(text, Rejected) and not isinstance(values, str):
                absent = [role for role, column in roles.items() if column not in values]
                text = replace(text, reason=text.reason + "".join(map(asking.told_by_race, absent[:1])))
            yield text
    except ColumnError as error:
        role = next((role for role, column in roles.items() if column == error.column), "")
        if mentions and error.column == SPANS:
            way = f"this model reads a relation at its two mentions: {SPANS!r} must be [[begin, end], [begin, end]]"
            raise ColumnError(f"{error}; {way}") from None
        cause = ColumnError(error.what, error.column, option_of(role) if role else "")
        raise ColumnError(f"{cause}{asking.told_by_race(role)}") from None


def ids_in(source: Source, asking: Asking) -> bool:
    """Return True if the rows of the file have ids: the race's file had a column of them, and this one has it too.

    Questions in SQuAD's form have ids. A column that the user named must be there, which `read_texts` checks.
    """
    shape = _shape(source, asking)
    if shape != "rows" or asking.id is None:
        return shape == "questions"
    if "id" in asking.own_roles:
        return True
    columns = [asking.roles()["text"], asking.id]  # of both, the text's may be the one that tells the format
    try:
        return all(asking.id in values for _, values in islice(table_rows(source, columns), 1))
    except ColumnError:
        return False


def _text(
    at: tuple[int, str],
    values: Any,
    roles: Mapping[str, str],
    kind: Kind,
    *,
    keep: Sequence[str] = (),
    mentions: bool = False,
    running: str = "",
) -> Text | Rejected:
    """Return the text of a row, or why it cannot be read. at: number of the row, and its place; running: the text of
    which the words of a row were made
    """
    number, place = at
    if isinstance(values, str):
        return Rejected(place, values)
    column = roles["text"]
    cells: dict[str, Any] = dict(values)
    source_text = ""
    if kind == "tokens" and column in cells:
        source_text = running or (cells[column] if isinstance(cells[column], str) else "")
        words, reason = _words(cells[column], column)
        if reason:
            return Rejected(place, reason)
        cells[column] = words
    if kind == "span" and isinstance(cells.get(column), list) and all(isinstance(one, str) for one in cells[column]):
        cells[column] = PASSAGE.join(cells[column])
    row = row_of(number, place, cells, {**roles, "label": column})
    if isinstance(row, Rejected):
        return row
    if kind == "span" and not row.pair:
        return Rejected(place, f"the question (column {roles['pair']!r}) is empty; fill it in or remove the row")
    spans: tuple[tuple[int, int], ...] = ()
    if mentions:
        spans, reason = _mentions(cells.get(SPANS), row.text)
        if reason:
            return Rejected(place, reason)
    example = Example(row.id or str(row.number), row.text, "", row.pair, "", spans)
    return Text(row.number, row.place, example, {name: cells.get(name) for name in keep}, source_text)


def _words(value: Any, column: str) -> tuple[str, str]:
    """Return the text of a sentence's words, or "" and the reason why there is none."""
    if isinstance(value, str) and value.strip():
        return text_of(value.split()), ""
    if not isinstance(value, list) or not value:
        way_out = "give a list of words, or words separated by spaces"
        return "", f"the words (column {column!r}) are {shown(value)}; {way_out}"
    for word in value:
        if not isinstance(word, str) or not word.strip():
            return "", f"the word {shown(word)} (column {column!r}) is not text; correct or remove it"
        why = "holds a space, which separates words" if " " in word else fault_of(word)
        if why:
            return "", f"the word {shown(word)} (column {column!r}) {why}; correct it"
    return text_of(value), ""


def _mentions(value: Any, text: str) -> tuple[tuple[tuple[int, int], ...], str]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return (), f"the mentions (column {SPANS!r}) are {shown(value)}; give [[begin, end], [begin, end]]"
    whole = isinstance(value, list) and len(value) == MENTIONS
    if whole and all(isinstance(one, list | tuple) and [*map(type, one)] == [int, int] for one in value):
        spans = tuple((begin, end) for begin, end in value)
        if all(0 <= begin < end <= len(text) for begin, end in spans):
            return spans, ""
    return (), (
        f"the mentions (column {SPANS!r}) are {shown(value)}; give [[begin, end], [begin, end]], characters of the "
        f"text from 0 to {len(text)}"
    )


def _lines(source: Source, kind: Kind) -> Iterator[Text | Rejected]:
    number = 0
    for line, content in source.lines():
        text = content.rstrip("\r\n")
        if not text.strip():
            continue
        number += 1
        words = text_of(split_words(text)) if kind == "tokens" else text
        yield _text((number, source.line_place(line)), {"text": words}, {"text": "text"}, kind, running=text)
    if not number:
        raise ValueError(f"{source.name}: has no text. Write it again, or name another file")


def _word_lines(source: Source, asking: Asking) -> Iterator[Text | Rejected]:
    number = began = 0
    words: list[str] = []
    places, _ = fields_of(source)
    for at, line, _ in word_lines(source):
        if line:
            fields = places.parts(line)
            if fields is None:
                continue
            tagged = places.counted or len(fields) == 1 or TAG.match(fields[-1]) or fields[-1] in asking.labels
            if source.ending in (".tsv", ".txt") and not tagged:
                raise ValueError(
                    f"{source.name}:{at}: each line must be a word, optionally followed by its tag; this one is "
                    f"{shown(line)}. For one sentence per line, add {option('format', 'txt')}, or give lists of "
                    "words"
                )
            began = began if words else at
            words.append(fields[places.word].strip())
        elif words:
            number += 1
            yield _text((number, source.line_place(began)), {"text": words}, {"text": "text"}, "tokens")
            words = []
    if not number:
        raise ValueError(f"{source.name}: has no words. Write it again, or name another file")
