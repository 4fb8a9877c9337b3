"""Rows in one JSON value, spans as labels, and questions in rows."""

import json
import sys
from typing import Any

import openpyxl
import pytest

from acclimate.reading.labelled import LabelledFiles, read_files

TEXTS = [f"{first} {second} met on day {n}" for n, (first, second) in enumerate([("Ann", "Bob"), ("Eve", "Lee")] * 20)]
ROWS = [{"text": text, "label": ["yes", "no"][n % 2]} for n, text in enumerate(TEXTS)]
BY_COLUMN = {column: {str(n): row[column] for n, row in enumerate(ROWS)} for column in ("text", "label")}
FORMS: dict[str, Any] = {
    "records": ROWS,
    "split": {"columns": ["text", "label"], "index": [*range(40)], "data": [[*row.values()] for row in ROWS]},
    "columns": BY_COLUMN,
    "index": {str(n): row for n, row in enumerate(ROWS)},
    "table": {"schema": {"fields": []}, "data": ROWS},
    "lists": {column: [row[column] for row in ROWS] for column in ("text", "label")},
    "wrapped": {"data": ROWS},
    "tasks": [
        {"data": {"text": row["text"]}, "annotations": [{"result": [{"value": {"choices": [row["label"]]}}]}]}
        for row in ROWS
    ],
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_pandas_and_label_studio_are_rows(tmp_path, form):
    (tmp_path / "train.json").write_text(json.dumps(FORMS[form]))
    read = read_files(LabelledFiles(tmp_path / "train.json"))
    first = next(row for rows in read.splits.values() for row in rows if row.id == "train:1")
    assert (read.kind, first.text, first.label) == ("sequence", TEXTS[0], "yes")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([["a", "b"], ["c", "d"]], r"orient='values'.*jq -c '\.\[\] \| \{text: \.\[0\], label: \.\[1\]\}'"),
        ({"train": ROWS, "test": ROWS}, r"the splits train, test\. .*jq -c '\.train\[\]' OLD > train\.jsonl"),
        ({"text": ["a", "b"], "label": ["c"]}, r"different numbers of values: 'text' has 2, 'label' has 1"),
        ({"columns": ["text"], "data": [["a", "b"]]}, r"each list in 'data' must have 1 values"),
        ([{"text": "a", "label": "b"}, "c", "d"], r"only 1 of 3 rows.*must be an object; this one is 'c'"),
    ],
)
def test_other_json_values_are_refused_with_the_command_that_converts_them(tmp_path, value, message):
    (tmp_path / "train.json").write_text(json.dumps(value))
    with pytest.raises(ValueError, match=message):
        read_files(LabelledFiles(tmp_path / "train.json"))


@pytest.mark.parametrize("name", ["a.jsonl", "b.json"])
def test_a_key_that_is_there_twice_is_a_fault(tmp_path, name):
    row = '{"text": "a", "label": "b", "label": "c"}'
    (tmp_path / name).write_text(f"{row}\n{row}\n" if name == "a.jsonl" else f"[{row}]")
    with pytest.raises(ValueError, match="has the key 'label' twice, with two values"):
        read_files(LabelledFiles(tmp_path / name))


SPANS: dict[str, Any] = {
    "doccano": [[0, 3, "PER"]],
    "entities": [{"id": 1, "label": "PER", "start_offset": 0, "end_offset": 3}],
    "prodigy": [{"start": 0, "end": 3, "label": "PER", "token_start": 0}],
    "label studio": [{"start": 0, "end": 3, "text": "Ann", "labels": ["PER"]}],
}


@pytest.mark.parametrize("kind", ["auto", "tokens"])
@pytest.mark.parametrize("form", SPANS)
def test_spans_of_the_text_become_tags(tmp_path, form, kind):
    rows = [{"text": text, "label": SPANS[form] if n % 3 else []} for n, text in enumerate(TEXTS)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = read_files(LabelledFiles(tmp_path / "train.jsonl", kind=kind))
    tagged = next(row for rows in read.splits.values() for row in rows if row.text.startswith("Eve Lee met on day 1"))
    assert (tagged.label[:2], read.metric.name) == (("B-PER", "O"), "entity_f1")
    assert any("the labels are spans of the texts" in note for note in read.notes)
    rows[1]["label"] = [[0, 300, "PER"]]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    notes = read_files(LabelledFiles(tmp_path / "train.jsonl", kind=kind)).notes
    assert any(r"train.jsonl:2: the span [0, 300, 'PER'] does not fit its text" in note for note in notes)


def test_rows_of_questions_are_read_as_answers_in_a_context(tmp_path):
    lines = []
    for number, text in enumerate(TEXTS):
        answers = {"text": [text[:3]], "answer_start": [0]} if number % 4 else {"text": [], "answer_start": []}
        row = {"id": f"q{number}", "context": text, "question": f"Who met, {number}?", "answers": answers}
        lines.append(json.dumps(row) + "\n")
    (tmp_path / "train.jsonl").write_text("".join(lines))
    read = read_files(LabelledFiles(tmp_path / "train.jsonl"))
    assert (read.kind, sum(map(len, read.splits.values()))) == ("span", 30)
    assert read.notes[1].startswith("train.jsonl has questions") or read.notes[0].startswith(
        "train.jsonl has questions"
    )
    (tmp_path / "bad.jsonl").write_text(lines[0].replace('"answer_start": []', '"answer_start": [1]') * 2)
    with pytest.raises(ValueError, match=r"bad\.jsonl:1: question 'q0': answers\.text has 0 texts"):
        read_files(LabelledFiles(tmp_path / "bad.jsonl"))


def test_a_workbook_is_a_table(tmp_path, monkeypatch):
    book = tmp_path / "train.xlsx"
    book.write_bytes(b"PK\x03\x04" + b"\0" * 30 + b"xl/workbook.xml")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "openpyxl", None)
        with pytest.raises(ValueError, match=r"pip install 'acclimate\[excel\]'. Or save the sheet as CSV"):
            read_files(LabelledFiles(book))
    with pytest.raises(ValueError, match="damaged Excel workbook"):
        read_files(LabelledFiles(book))
    workbook = openpyxl.Workbook()
    for row in [["text", "label"], *([row["text"], n % 2] for n, row in enumerate(ROWS))]:
        workbook.active.append(row)
    workbook.save(book)
    assert read_files(LabelledFiles(book)).labels == ("0", "1")
    workbook.create_sheet("more").append(["x"])
    workbook.save(book)
    with pytest.raises(ValueError, match="several sheets have rows: 'Sheet', 'more'"):
        read_files(LabelledFiles(book))
