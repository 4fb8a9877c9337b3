import gzip
import io
import json
import pickle
import random
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import squad_files
from acclimate.core.types import SPLITS, Example
from acclimate.reading.formats.squad import IMPOSSIBLE
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.tasks.prepared import prepare
from acclimate.tasks.spans import PASSAGE
from acclimate.tasks.task import checked_splits
from squad_files import article, pairs, question, write

WORDS = [f"word{number}" for number in range(500)]


def text(number: int) -> str:
    return " ".join(random.Random(number).choices(WORDS, k=12))


def csv(path: Path, labels: Sequence[str], start: int = 0) -> Path:
    path.parent.mkdir(exist_ok=True)
    rows = (f"{text(start + number)},{label}\n" for number, label in enumerate(labels))
    path.write_text("text,label\n" + "".join(rows))
    return path


def jsonl(path: Path, labels: Sequence[Any], **more: Sequence[Any]) -> Path:
    columns = {"text": [text(number) for number in range(len(labels))], "label": labels, **more}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_three_files_stay_what_they_are(tmp_path):
    stated = LabelledFiles(
        csv(tmp_path / "train.csv", ["yes", "no"] * 3),
        csv(tmp_path / "dev.csv", ["no"], 100),
        csv(tmp_path / "test.csv", ["yes"], 200),
        max_tokens=64,
    )
    found = read_files(stated)
    assert (found.name, found.kind, found.labels, found.max_tokens) == ("train", "sequence", ("no", "yes"), 64)
    assert found.metric.name == "macro_f1"
    assert found.splits["dev"] == (Example("dev:1", text(100), "no"),)
    assert [len(found.splits[split]) for split in SPLITS] == [6, 1, 1]
    assert [(read.rows, read.accepted, read.rejected) for read in found.files] == [(6, 6, ()), (1, 1, ()), (1, 1, ())]
    assert found.notes == ()


AMOUNTS = [number % 60 for number in range(120)]


@pytest.mark.parametrize("write", [csv, lambda path, labels: jsonl(path.with_suffix(".jsonl"), labels)])
def test_many_whole_numbers_become_classes_and_a_note_names_the_kind_that_predicts_numbers(tmp_path, write):
    train = write(tmp_path / "train.csv", AMOUNTS)
    found = read_files(LabelledFiles(train))
    assert (found.kind, len(found.labels)) == ("sequence", 60)
    assert found.notes[0] == (
        f"{train}: the column 'label' has 60 different numbers in 120 rows. Without a kind, each became a class "
        "without order. If they are ratings or amounts, add --kind score."
    )
    for stated in (LabelledFiles(train, kind="sequence"), LabelledFiles(train, kind="score")):
        assert not any("--kind" in note for note in read_files(stated).notes)
    few = read_files(LabelledFiles(write(tmp_path / "few.csv", [number % 3 for number in range(120)])))
    assert not any("--kind" in note for note in few.notes)


def test_another_column_of_texts_is_named_where_no_pair_is_stated(tmp_path):
    """A user who forgets --pair gets scores of half the question, and no word on it."""
    labels = ["yes", "no"] * 15
    more = {
        "other": [text(900 + number) for number in range(30)],
        "lang": ["en"] * 30,
        "note": ["the same three words"] * 30,
    }
    path = jsonl(tmp_path / "pairs.jsonl", labels, **more)
    found = read_files(LabelledFiles(path))
    [said] = [note for note in found.notes if "--pair" in note]
    assert said.endswith(
        "pairs.jsonl: the column 'other' holds texts and is not read. If a row has two texts, name the second with "
        "--pair."
    )
    assert not any("--pair" in note for note in read_files(LabelledFiles(path, pair="other")).notes)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    for name, delimiter in (("a.csv", ","), ("b.tsv", "\t")):
        (tmp_path / name).write_text("".join(f"{delimiter.join(line)}\n" for line in lines))
    for name in ("a.csv", "b.tsv"):
        notes = read_files(LabelledFiles(tmp_path / name)).notes
        assert any("the column 'other' holds" in note for note in notes), name


@pytest.mark.parametrize(
    ("name", "tags"),
    [("train.conll", "B-Drug O"), ("train.bio.gz", "NOUN VERB"), ("train.tsv", "B-Drug O"), ("train.txt.gz", "B O")],
)
def test_words_with_tags_are_told_by_content_or_ending(tmp_path, name, tags):
    first, second = tags.split()
    lines = "".join(f"Aspirin\t{first}\nhelps\t{second}\nnow{number}\t{second}\n\n" for number in range(60))
    (tmp_path / name).write_bytes(gzip.compress(lines.encode()) if name.endswith("gz") else lines.encode())
    read = read_files(LabelledFiles(tmp_path / name))
    assert (read.kind, len(read.labels)) == ("tokens", 2)
    assert read.notes[0] == f"{name} has one word and its tag per line, so it is read as --kind tokens."
    with pytest.raises(ValueError, match="word and its tag"):
        read_files(LabelledFiles(tmp_path / name, kind="sequence"))


def test_a_table_with_a_column_of_tags_is_a_table(tmp_path):
    rows = [f"text {number}\t{'OB'[number % 2]}" for number in range(60)]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *rows]))
    assert read_files(LabelledFiles(tmp_path / "train.tsv")).kind == "sequence"


@pytest.mark.parametrize(
    "labels",
    [
        [number % 50 for number in range(120)],
        [number % 60 for number in range(600)],
        [f"code {number % 60}" for number in range(120)],
    ],
)
def test_few_numbers_numbers_of_many_rows_each_and_names_are_classes_without_a_note(tmp_path, labels):
    assert not any("--kind" in note for note in read_files(LabelledFiles(csv(tmp_path / "train.csv", labels))).notes)


def test_where_a_number_stands_in_one_row_the_error_names_the_kind_that_predicts_numbers(tmp_path):
    way_out = r"If labels are numbers to predict, add --kind score; else add rows, give it another label"
    with pytest.raises(ValueError, match=way_out):
        read_files(LabelledFiles(csv(tmp_path / "train.csv", [str(number) for number in range(120)])))


def test_what_is_missing_is_split_off_and_said(tmp_path):
    train = csv(tmp_path / "train.csv", ["yes", "no", "no", "maybe"] * 50)
    both = read_files(LabelledFiles(train, seed=3))
    assert {split: len(rows) for split, rows in both.splits.items()} == {"train": 140, "dev": 20, "test": 40}
    assert "140 train, 20 dev, 40 test rows (70% / 10% / 20%), stratified by label, seed 3" in both.notes[0]
    assert both.splits == read_files(LabelledFiles(train, seed=3)).splits
    assert both.splits != read_files(LabelledFiles(train, seed=4)).splits
    dev = read_files(LabelledFiles(train, test=csv(tmp_path / "test.csv", ["no"], 500)))
    assert {split: len(rows) for split, rows in dev.splits.items()} == {"train": 180, "dev": 20, "test": 1}
    test = read_files(LabelledFiles(train, dev=csv(tmp_path / "dev.csv", ["no"], 600)))
    assert {split: len(rows) for split, rows in test.splits.items()} == {"train": 160, "dev": 1, "test": 40}


@pytest.mark.parametrize(
    ("labels", "stated", "kind", "first"),
    [
        ([3, 1] * 20, {}, "sequence", "3"),
        ([3.0, 1.0] * 20, {}, "sequence", "3"),
        ([True, False] * 20, {}, "sequence", "True"),
        ([0.5, 1] * 20, {}, "score", 0.5),
        (["0.5", "1"] * 20, {}, "sequence", "0.5"),
        (["0.5", "1"] * 20, {"kind": "score"}, "score", 0.5),
        ([str(number / 7) for number in range(40)], {"kind": "score"}, "score", 0.0),
        ([str(number) for number in range(20)] * 2, {}, "sequence", "0"),
        ([["b", "a", "b"], ["a"]] * 20, {}, "multilabel", ("a", "b")),
        ([["b", "a"], []] * 20, {}, "multilabel", ("a", "b")),
        (["b; a ;", "a"] * 20, {"separator": ";"}, "multilabel", ("a", "b")),
    ],
)
def test_the_kind_is_told_by_the_labels(tmp_path, labels, stated, kind, first):
    found = read_files(LabelledFiles(jsonl(tmp_path / "a.jsonl", labels), **stated))
    assert (found.kind, found.metric.name) == (kind, "pearson" if kind == "score" else "macro_f1")
    rows = [row for examples in found.splits.values() for row in examples]
    assert next(row.label for row in rows if row.id == "a:1") == first
    assert len(rows) == 40
    assert bool(found.labels) == (kind != "score")


def test_parquet_lists_and_numbers(tmp_path):
    texts = [text(number) for number in range(40)]
    table = pa.table({"text": texts, "tags": [["x", "y"], ["y"]] * 20, "mark": [float(n) / 3 for n in range(40)]})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    assert read_files(LabelledFiles(tmp_path / "a.parquet", label="tags")).labels == ("x", "y")
    assert read_files(LabelledFiles(tmp_path / "a.parquet", label="mark")).kind == "score"


def test_labels_that_differ_by_case_or_spaces_are_one_where_asked_and_rows_without_any_are_told(tmp_path):
    path = csv(tmp_path / "a.csv", ["very good", "bad"] * 20 + ["Very  Good", " BAD", "very good"])
    found = read_files(LabelledFiles(path, fold_labels=True))
    assert found.labels == ("bad", "very good")
    assert found.notes[0] == ("Spellings of one label were read as one: ' BAD' as 'bad', 'Very  Good' as 'very good'.")
    path = csv(tmp_path / "a.csv", ["x;y", "x", ""] * 20)
    found = read_files(LabelledFiles(path, separator=";"))
    assert found.notes[0] == f"{path}: 20 rows have no label."
    assert sum(row.label == () for rows in found.splits.values() for row in rows) == 20


def test_rejected_rows_are_counted_in_each_file(tmp_path):
    train = csv(tmp_path / "train.csv", ["a", "b"] * 20)
    with open(train, "a") as file:
        file.write(",a\nb\nsome\0text,a\nmore text,\n")
    found = read_files(LabelledFiles(train, test=csv(tmp_path / "test.csv", ["a", ""], 90)))
    read, test = found.files
    assert (read.rows, read.accepted, [row.place for row in read.rejected]) == (
        44,
        40,
        ["train.csv:42", "train.csv:43", "train.csv:44", "train.csv:45"],
    )
    assert (test.rows, test.accepted, len(test.rejected)) == (2, 1, 1)
    assert "4 of 44 rows were rejected; the first is train.csv:42: the text (column 'text') is empty" in found.notes[0]
    # an id is the row's place among all, so that it does not change once a row before it is mended
    assert found.splits["test"][0].id == "test:1"


@pytest.mark.parametrize(("labels", "end"), [(["a", "b"], ""), (["\"[[0, 3, 'X']]\"", "[]"], ":1")])
def test_ids_are_unique_where_files_bear_the_same_name(tmp_path, labels, end):
    stated = LabelledFiles(
        csv(tmp_path / "one" / "data.csv", labels * 20), test=csv(tmp_path / "two" / "data.csv", labels, 100)
    )
    found = read_files(stated)
    assert [row.id for row in found.splits["test"]] == [f"test/data:1{end}", f"test/data:2{end}"]
    ids = [row.id for rows in found.splits.values() for row in rows]
    assert len(set(ids)) == len(ids) == 42


def test_pairs_groups_and_ids_of_the_users_own(tmp_path):
    path = jsonl(
        tmp_path / "a.jsonl",
        ["a", "b"] * 30,
        other=[text(100 + number) for number in range(60)],
        doc=[f"d{number // 3}" for number in range(60)],
        key=[f"k{number}" for number in range(60)],
    )
    found = read_files(LabelledFiles(path, pair="other", group="doc", id="key"))
    sides: dict[str, set[str]] = {}
    for split, rows in found.splits.items():
        for row in rows:
            number = int(row.id.removeprefix("k"))
            assert (row.pair, row.group) == (text(100 + number), f"d{number // 3}")
            sides.setdefault(row.group, set()).add(split)
    assert all(len(found) == 1 for found in sides.values())
    assert "Each of the 20 groups is in one split." in found.notes[0]


@pytest.mark.parametrize("labels", [["a", "b"] * 20, [["a"], ["a", "b"]] * 20, [0.5, 1.5] * 20])
def test_the_task_can_be_prepared_and_sent_to_another_process(tmp_path, labels):
    found = read_files(LabelledFiles(jsonl(tmp_path / "a.jsonl", labels)))
    task = pickle.loads(pickle.dumps(found.task()))
    splits = checked_splits(task, tmp_path / "nowhere")
    assert {split: tuple(rows) for split, rows in splits.items()} == dict(found.splits)
    prepared = prepare(task, tmp_path, tmp_path / "prepared")
    assert prepared.examples("train") == list(found.splits["train"])
    assert prepared.labels == found.labels


def files(place: Path, **stated) -> LabelledFiles:
    """One article a split, of two questions on each of 12, 6 and 6 contexts."""
    paths = {split: write(place / f"{split}.json", [article(split, 12 if split == "train" else 6)]) for split in SPLITS}
    return LabelledFiles(**paths, **stated)


def contexts(found, split: str) -> set[str]:
    return {example.text for example in found.splits[split]}


def test_questions_are_told_by_the_ending_and_are_judged_by_f1(tmp_path):
    found = read_files(files(tmp_path))
    assert (found.name, found.kind, found.labels, found.metric.name) == ("train", "span", (), "f1")
    assert {split: len(rows) for split, rows in found.splits.items()} == {"train": 24, "dev": 12, "test": 12}
    first = found.splits["train"][0]
    [(begin, end)] = first.spans
    assert (first.id, first.pair, first.label) == ("train-0-0", "Which one is train-0-0?", (first.text[begin:end],))
    assert all(example.group == "" for rows in found.splits.values() for example in rows)
    assert found.notes == ()
    task = prepare(found.task(), tmp_path, tmp_path / "data")
    assert task.examples("test")[0].spans == ()


def test_a_metric_of_classes_judges_no_answers(tmp_path):
    told = r"--metric macro_f1: .*kind 'span'\. Use one of exact_match, f1, .*default f1"
    with pytest.raises(ValueError, match=told):
        read_files(files(tmp_path, metric="macro_f1"))


@pytest.mark.parametrize("ending", [".json.gz", ".json.zip"])
def test_a_packed_file_is_the_same_task(ending, tmp_path):
    plain = files(tmp_path)
    packed = tmp_path / f"train{ending}"
    if ending.endswith("gz"):
        packed.write_bytes(gzip.compress(plain.train.read_bytes()))
    else:
        with zipfile.ZipFile(packed, "w") as archive:
            archive.write(plain.train, "train.json")
    assert read_files(replace(plain, train=packed)).splits == read_files(plain).splits


def test_no_context_stands_on_two_sides_of_our_split(tmp_path):
    path = write(tmp_path / "questions.json", [article("one", 15, 3)])
    found = read_files(LabelledFiles(path))
    assert sum(map(len, found.splits.values())) == 45
    assert contexts(found, "train") & (contexts(found, "dev") | contexts(found, "test")) == set()
    assert contexts(found, "dev") & contexts(found, "test") == set()
    assert all(len(rows) % 3 == 0 for rows in found.splits.values())
    assert "questions.json at random, because no file was given for dev and test: " in found.notes[0]
    assert "instead of 70% / 10% / 20%, because sets of rows stay together), seed 0. All questions" in found.notes[0]
    assert "on one of the 15 contexts" in found.notes[0]
    assert "stratified" not in found.notes[0]
    assert read_files(LabelledFiles(path)).splits == found.splits
    assert read_files(LabelledFiles(path, seed=1)).splits != found.splits


def test_articles_stay_whole_where_there_are_enough_of_them(tmp_path):
    found = read_files(
        LabelledFiles(write(tmp_path / "questions.json", [article(f"t{number}", 3, 1) for number in range(20)]))
    )
    home = {}
    for split, rows in found.splits.items():
        for example in rows:
            assert home.setdefault(example.id.split("-")[0], split) == split
    assert "Each of the 20 groups is in one split" in found.notes[0]


def test_an_answer_is_no_class_of_which_train_must_have_one(tmp_path):
    """Every answer is another word: were answers classes, all rows would have to be in train."""
    found = read_files(LabelledFiles(write(tmp_path / "questions.json", [article("one", 40, 1)])))
    assert {split: len(rows) for split, rows in found.splits.items()} == {"train": 28, "dev": 4, "test": 8}


def test_pairs_of_a_question_are_learnt_one_by_one_and_scored_together(tmp_path):
    def listed(first: int, count: int, several: int):
        paragraphs = [
            paragraph
            for number in range(first, first + count)
            for paragraph in pairs(f"q{number}", several, f"What is it, the {number}th time?")
        ]
        return [{"title": "BioASQ", "paragraphs": paragraphs}]

    stated = LabelledFiles(
        train=write(tmp_path / "train.json", listed(0, 4, 3)),
        dev=write(tmp_path / "dev.json", listed(10, 2, 2)),
        test=write(tmp_path / "test.json", listed(20, 5, 3)),
        metric="mrr",
    )
    found = read_files(stated)
    assert {split: len(rows) for split, rows in found.splits.items()} == {"train": 12, "dev": 2, "test": 5}
    asked = found.splits["test"][0]
    assert (asked.id, asked.group, asked.text.count(PASSAGE)) == ("q20", "q20", 2)
    assert {asked.text[begin:end] for begin, end in asked.spans} == set(asked.label)
    assert any("learned separately and scored together (2 in dev and 5 in test)" in note for note in found.notes)

    whole = read_files(LabelledFiles(write(tmp_path / "whole.json", listed(0, 20, 3))))
    assert {split: len(rows) for split, rows in whole.splits.items()} == {"train": 14 * 3, "dev": 2, "test": 4}

    write(stated.dev, [{"title": "", "paragraphs": pairs("q3", 5, "What is it, the 3th time?")[3:]}])
    with pytest.raises(ValueError, match=r"dev\.json.*its group 'q3' is also in train \(train\.json.*Move the"):
        read_files(stated)


def test_ids_with_numbers_alone_make_no_pairs(tmp_path):
    text = squad_files.context("one")
    rows = [question(f"q_{number}", text, word) for number, word in enumerate(text.split())]
    found = read_files(
        LabelledFiles(
            write(tmp_path / "questions.json", [{"paragraphs": [{"context": text, "qas": rows}]}, article("a", 9)])
        )
    )
    assert sum(map(len, found.splits.values())) == len(rows) + 18


def test_questions_without_an_answer_are_left_out_and_counted_as_such(tmp_path):
    """SQuAD 2.0's dev set has more of them than others: a file is not misread for that."""
    one = article("one", 8, 2)
    for paragraph in one["paragraphs"]:
        for number in range(3):
            paragraph["qas"].append({"id": f"no {number} {paragraph['qas'][0]['id']}", "question": "Who?"})
            paragraph["qas"][-1] |= {"answers": [], "is_impossible": True, "plausible_answers": [{"text": "x"}]}
    one["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] += 1
    stated = replace(files(tmp_path), test=write(tmp_path / "two.json", [one]))
    found = read_files(stated)
    [_, _, read] = found.files
    assert (read.rows, read.accepted, len(read.rejected)) == (40, 15, 25)
    assert sum(each.reason == IMPOSSIBLE for each in read.rejected) == 24
    assert (
        "1 of 40 rows were rejected; the first is two.json, article 1, paragraph 1, question one-0-0" in found.notes[0]
    )
    assert "24 of 40 questions have no answer in their context (is_impossible). They are not used" in found.notes[1]


CASES = {
    "BioC's documents": ({"documents": []}, ("questions.json: has no rows", "BioC's documents, add --kind tokens")),
    "no question": ({"data": [article("x", 0)]}, ("questions.json: contains no question", '"qas": [{"id"')),
    "nothing but impossible ones": (
        {"data": [{"paragraphs": [{"context": "a", "qas": [{"id": "1", "question": "b", "is_impossible": True}]}]}]},
        ("none of 1 rows can be used", "is_impossible"),
    ),
    "answers that stand elsewhere": (
        {"data": [{"paragraphs": [{"context": "the end", "qas": [question("1", "end", "end")] * 2}]}]},
        ("none of 2 rows", "questions.json, article 1, paragraph 1, question 1", "it is at 4"),
    ),
    "an id twice": (
        {"data": [{"paragraphs": [{"context": "the end", "qas": [question("1", "the end", "end")] * 2}]}]},
        ("the id '1' is also at questions.json, article 1, paragraph 1, question 1", "correct it or remove"),
    ),
    "too few": ({"data": [article("x", 5)]}, ("10 rows are too few to split off dev and test",)),
    "one context": (
        {"data": [{"paragraphs": [{"context": "a", "qas": [question(f"{n}", "a", "a") for n in range(20)]}]}]},
        ("20 rows cannot be split into", "makes only 1 set of rows", "Give --dev and --test files"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_file_that_is_none_is_told_with_the_way_out(name, tmp_path):
    content, says = CASES[name]
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=re.escape(str(path)) if "twice" not in name else "questions.json") as told:
        read_files(LabelledFiles(path))
    assert [
        words for words in says if not re.search(words if "\\" in words else re.escape(words), str(told.value))
    ] == []


@pytest.mark.parametrize(
    "option", [{"text": "body"}, {"label": "topic"}, {"group": "title"}, {"separator": ";"}, {"fold_labels": True}]
)
def test_options_for_columns_are_refused(option, tmp_path):
    [(name, value)] = option.items()
    spelling = f"--{name.replace('_', '-')}{'' if value is True else f' {value}'}"
    with pytest.raises(ValueError, match=rf"{spelling}: .*read as questions in SQuAD"):
        read_files(files(tmp_path, **option))


def test_other_endings_say_where_questions_are_read_from(tmp_path):
    path = tmp_path / "train.json"
    write(path, [article("x", 12)])
    with pytest.raises(ValueError, match=r"Supported are \.csv.*--kind tokens reads.*--kind span, or no kind, reads"):
        read_files(LabelledFiles(path, kind="sequence"))


def test_what_can_be_mended_is_mended_on_request_and_counted(tmp_path):
    rows = [{"text": text(number), "label": "Yes" if number % 2 else "no", "id": number} for number in range(40)]
    rows[3]["text"] += "\0"
    rows[5]["label"] = "yes "
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[7]]))
    with pytest.raises(ValueError, match="also occurs as"):
        read_files(LabelledFiles(path, id="id"))
    found = read_files(LabelledFiles(path, id="id", repair=True))
    assert sum(map(len, found.splits.values())) == 40
    assert found.labels == ("Yes", "no")
    assert found.notes[:2] == (
        f"{path}: rows cleaned of control characters: 1 (--repair).",
        f"{path}: repeated rows that were removed: 1 (--repair).",
    )
    assert "'yes ' as 'Yes'" in found.notes[2]
    write(tmp_path / "train.json", [article("x", 12)])
    content = (tmp_path / "train.json").read_text()
    assert read_files(LabelledFiles(tmp_path / "train.json", repair=True)).kind == "span"
    early = json.loads(content)
    for paragraph in early["data"][0]["paragraphs"]:
        for asked in paragraph["qas"]:
            for answer in asked["answers"]:
                answer["answer_start"] -= 1
    (tmp_path / "train.json").write_text(json.dumps(early))
    with pytest.raises(ValueError, match=r"correct it automatically \(--repair\)"):
        read_files(LabelledFiles(tmp_path / "train.json"))
    found = read_files(LabelledFiles(tmp_path / "train.json", repair=True))
    assert "answers moved to their position in the context: 24 (--repair)." in found.notes[0]


PAIRS = [(f"{('cell', 'goal', 'price')[n % 3]} number {n} of the {n * 7}", "ab"[n % 2]) for n in range(24)]
WORDS_DAMAGE = [[(f"Ann{n}", "B-PER"), ("is", "O"), (f"here{n}", "O")] for n in range(24)]


def packed(write: Callable[[io.BytesIO], Any]) -> bytes:
    write(into := io.BytesIO())
    return into.getvalue()


def workbook(into: io.BytesIO) -> None:
    book = openpyxl.Workbook()
    for row in (("text", "label"), *PAIRS):
        book.active.append(row)
    book.save(into)


TABLE = pa.table({"text": [text for text, _ in PAIRS], "label": [label for _, label in PAIRS]})
FORMATS: dict[str, tuple[str | bytes, dict[str, Any]]] = {
    "a.parquet": (packed(lambda into: pyarrow.parquet.write_table(TABLE, into)), {}),
    "a.arrow": (packed(lambda into: pyarrow.feather.write_feather(TABLE, into, compression="uncompressed")), {}),
    "a.xlsx": (packed(workbook), {}),
    "a.csv": ("text,label\n" + "".join(f'"{text}",{label}\n' for text, label in PAIRS), {}),
    "hot.csv": (
        "text,a,b\n" + "".join(f"{text},{n % 2},{n % 3 // 2}\n" for n, (text, _) in enumerate(PAIRS)),
        {"label": ("a", "b")},
    ),
    "a.jsonl": ("".join(json.dumps({"text": text, "label": [label]}) + "\n" for text, label in PAIRS), {}),
    "a.json": (json.dumps({"columns": ["text", "label"], "data": PAIRS}), {}),
    "spans.jsonl": ("".join(json.dumps({"text": text, "label": [[0, 4, "X"]]}) + "\n" for text, _ in PAIRS), {}),
    "a.conll": ("\n".join("".join(f"{word} {tag}\n" for word, tag in words) for words in WORDS_DAMAGE), {}),
    "a.conllu": (
        "\n".join("".join(f"{n}\t{word}\t{tag}\n" for n, (word, tag) in enumerate(words, 1)) for words in WORDS_DAMAGE),
        {},
    ),
    "words.tsv": (
        "sent\ttext\tlabel\n"
        + "".join(f"{n}\t{word}\t{tag}\n" for n, words in enumerate(WORDS_DAMAGE) for word, tag in words),
        {},
    ),
}


def refusal(files: LabelledFiles) -> str:
    """Return the message with which the files are refused; "" if they are read."""
    try:
        read_files(files)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path, name):
    text, stated = FORMATS[name]
    content, ending = text.encode() if isinstance(text, str) else text, Path(name).suffix
    damaged = {f"cut {place}{ending}": content[: len(content) * place // 10] for place in range(10)}
    draws = random.Random(0)
    for number in range(6 if isinstance(text, str) else 30):
        changed = bytearray(content)
        changed[draws.randrange(len(content))] = draws.choice([0, 9, 10, 34, 123, 255])
        damaged[f"changed {number}{ending}"] = bytes(changed)
    if isinstance(text, str):
        for encoding in ("utf-16", "utf-16-be", "utf-32", "cp037"):
            damaged[f"{encoding}{ending}"] = text.encode(encoding)
        damaged[f"latin{ending}"] = text.replace("e", "\u00e9").encode("latin-1")
    for file, damage in damaged.items():
        (tmp_path / file).write_bytes(damage)
        message = refusal(LabelledFiles(tmp_path / file, **stated))
        assert "\n" not in message, file
        assert not message or ending in message, file
    for file in (f"with space{ending}", f"with\nline{ending}", f"-dash{ending}", f"{'n' * 240}{ending}"):
        (tmp_path / file).write_bytes(content)
        assert not any("\n" in note for note in read_files(LabelledFiles(tmp_path / file, **stated)).notes)
