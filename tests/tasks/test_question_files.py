"""A user's own questions: what of a file is used, how it is split, and which options mean nothing there."""

from __future__ import annotations

import gzip
import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import squad_files
from acclimate.core.types import SPLITS
from acclimate.tasks.formats.squad import IMPOSSIBLE
from acclimate.tasks.labelled import Own, read_own
from acclimate.tasks.prepared import prepare
from acclimate.tasks.spans import PASSAGE
from squad_files import article, pairs, question, write

QA = Path(__file__).parents[3] / "shared" / "data" / "qa"


def files(place: Path, **stated) -> Own:
    """One article a split, of two questions on each of 12, 6 and 6 contexts."""
    paths = {split: write(place / f"{split}.json", [article(split, 12 if split == "train" else 6)]) for split in SPLITS}
    return Own(**paths, **stated)


def contexts(found, split: str) -> set[str]:
    return {example.text for example in found.splits[split]}


def test_questions_are_told_by_the_ending_and_are_judged_by_f1(tmp_path):
    found = read_own(files(tmp_path))
    assert (found.name, found.kind, found.labels, found.metric.name) == ("train", "span", (), "f1")
    assert {split: len(rows) for split, rows in found.splits.items()} == {"train": 24, "dev": 12, "test": 12}
    first = found.splits["train"][0]
    [(begin, end)] = first.spans
    assert (first.id, first.pair, first.label) == ("train-0-0", "Which one is train-0-0?", (first.text[begin:end],))
    assert all(example.group == "" for rows in found.splits.values() for example in rows)
    assert found.notes == ()
    task = prepare(found.task(), tmp_path, tmp_path / "data")
    assert task.examples("test")[0].spans == ()


@pytest.mark.parametrize("metric", ["exact_match", "mrr", "strict_accuracy", "lenient_accuracy"])
def test_another_metric_of_answers_is_asked_for_by_name(metric, tmp_path):
    assert read_own(files(tmp_path, metric=metric)).metric.name == metric


def test_a_metric_of_classes_judges_no_answers(tmp_path):
    with pytest.raises(ValueError, match=r"metric='macro_f1': judges .*kind 'span'\. Leave it out \(then f1\)"):
        read_own(files(tmp_path, metric="macro_f1"))


@pytest.mark.parametrize("ending", [".json.gz", ".json.zip"])
def test_a_packed_file_is_the_same_task(ending, tmp_path):
    plain = files(tmp_path)
    packed = tmp_path / f"train{ending}"
    if ending.endswith("gz"):
        packed.write_bytes(gzip.compress(plain.train.read_bytes()))
    else:
        with zipfile.ZipFile(packed, "w") as archive:
            archive.write(plain.train, "train.json")
    assert read_own(replace(plain, train=packed)).splits == read_own(plain).splits


def test_no_context_stands_on_two_sides_of_our_split(tmp_path):
    path = write(tmp_path / "own.json", [article("one", 15, 3)])
    found = read_own(Own(path))
    assert sum(map(len, found.splits.values())) == 45
    assert contexts(found, "train") & (contexts(found, "dev") | contexts(found, "test")) == set()
    assert contexts(found, "dev") & contexts(found, "test") == set()
    assert all(len(rows) % 3 == 0 for rows in found.splits.values())
    assert "own.json was split by us, since no file was given for dev and test: " in found.notes[0]
    assert "(70% / 10% / 20%), seed 0. All questions on one of the 15 contexts" in found.notes[0]
    assert "stratified" not in found.notes[0]
    assert read_own(Own(path)).splits == found.splits
    assert read_own(Own(path, seed=1)).splits != found.splits


def test_articles_stay_whole_where_there_are_enough_of_them(tmp_path):
    found = read_own(Own(write(tmp_path / "own.json", [article(f"t{number}", 3, 1) for number in range(20)])))
    home = {}
    for split, rows in found.splits.items():
        for example in rows:
            assert home.setdefault(example.id.split("-")[0], split) == split
    assert "Each of the 20 groups stands on one side" in found.notes[0]


def test_an_answer_is_no_class_of_which_train_must_have_one(tmp_path):
    """Every answer is another word: were answers classes, all rows would have to be in train."""
    found = read_own(Own(write(tmp_path / "own.json", [article("one", 40, 1)])))
    assert {split: len(rows) for split, rows in found.splits.items()} == {"train": 28, "dev": 4, "test": 8}


def test_pairs_of_a_question_are_learnt_one_by_one_and_scored_together(tmp_path):
    def listed(first: int, count: int, several: int):
        paragraphs = [
            paragraph
            for number in range(first, first + count)
            for paragraph in pairs(f"q{number}", several, f"What is it, the {number}th time?")
        ]
        return [{"title": "BioASQ", "paragraphs": paragraphs}]

    own = Own(
        train=write(tmp_path / "train.json", listed(0, 4, 3)),
        dev=write(tmp_path / "dev.json", listed(10, 2, 2)),
        test=write(tmp_path / "test.json", listed(20, 5, 3)),
        metric="mrr",
    )
    found = read_own(own)
    assert {split: len(rows) for split, rows in found.splits.items()} == {"train": 12, "dev": 2, "test": 5}
    asked = found.splits["test"][0]
    assert (asked.id, asked.group, asked.text.count(PASSAGE)) == ("q20", "q20", 2)
    assert {asked.text[begin:end] for begin, end in asked.spans} == set(asked.label)
    assert any("learnt one by one, and scored together (2 in dev and 5 in test)" in note for note in found.notes)

    whole = read_own(Own(write(tmp_path / "whole.json", listed(0, 20, 3))))
    assert {split: len(rows) for split, rows in whole.splits.items()} == {"train": 14 * 3, "dev": 2, "test": 4}

    write(own.dev, [{"title": "", "paragraphs": pairs("q3", 5, "What is it, the 3th time?")[3:]}])
    with pytest.raises(ValueError, match=r"dev\.json.*its group 'q3' also stands in train \(train\.json.*Move the"):
        read_own(own)


def test_ids_with_numbers_alone_make_no_pairs(tmp_path):
    text = squad_files.context("one")
    rows = [question(f"q_{number}", text, word) for number, word in enumerate(text.split())]
    found = read_own(
        Own(write(tmp_path / "own.json", [{"paragraphs": [{"context": text, "qas": rows}]}, article("a", 9)]))
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
    own = replace(files(tmp_path), test=write(tmp_path / "two.json", [one]))
    found = read_own(own)
    [_, _, read] = found.files
    assert (read.rows, read.accepted, len(read.rejected)) == (40, 15, 25)
    assert sum(each.reason == IMPOSSIBLE for each in read.rejected) == 24
    assert (
        "1 of 40 rows were rejected; the first is two.json, article 1, paragraph 1, question one-0-0" in found.notes[0]
    )
    assert "24 of 40 questions have no answer in their context (is_impossible); they are left out" in found.notes[1]


ROWS = [{"text": "a", "label": "b"}]
CASES = {
    "a list of rows": (
        ROWS,
        (r"is \[\{'text'", "an object with a list 'data' is needed", "jq -c '.[]' OLD > NEW.jsonl"),
    ),
    "BioC's documents": ({"documents": []}, ("an object with a list 'data'", "BioC's documents: --kind tokens")),
    "no question": ({"data": [article("x", 0)]}, ("own.json: has no question", '"qas": [{"id"')),
    "nothing but impossible ones": (
        {"data": [{"paragraphs": [{"context": "a", "qas": [{"id": "1", "question": "b", "is_impossible": True}]}]}]},
        ("none of 1 rows can be used", "is_impossible"),
    ),
    "answers that stand elsewhere": (
        {"data": [{"paragraphs": [{"context": "the end", "qas": [question("1", "end", "end")] * 2}]}]},
        ("none of 2 rows", "own.json, article 1, paragraph 1, question 1", "it stands at 4"),
    ),
    "an id twice": (
        {"data": [{"paragraphs": [{"context": "the end", "qas": [question("1", "the end", "end")] * 2}]}]},
        (
            "the id '1' already stands at own.json, article 1, paragraph 1, question 1",
            "correct it or take the copy out",
        ),
    ),
    "too few": ({"data": [article("x", 5)]}, ("10 rows are too few to split off dev and test",)),
    "one context": (
        {
            "data": [
                {"paragraphs": [{"context": "the end", "qas": [question(f"{n}", "the end", "end") for n in range(20)]}]}
            ]
        },
        ("20 rows make only 1 sets that must stay together", "give files for dev and test"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_file_that_is_none_is_told_with_the_way_out(name, tmp_path):
    content, says = CASES[name]
    path = tmp_path / "own.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=re.escape(str(path)) if "twice" not in name else "own.json") as told:
        read_own(Own(path))
    assert [
        words for words in says if not re.search(words if "\\" in words else re.escape(words), str(told.value))
    ] == []


def test_what_is_no_json_is_told(tmp_path):
    path = tmp_path / "own.json"
    path.write_text('{"data": [')
    with pytest.raises(ValueError, match=r"own\.json: is no JSON \(Expecting"):
        read_own(Own(path))


@pytest.mark.parametrize(
    "option", [{"text": "body"}, {"label": "topic"}, {"group": "title"}, {"separator": ";"}, {"fold_labels": True}]
)
def test_options_for_columns_are_refused(option, tmp_path):
    [(name, value)] = option.items()
    with pytest.raises(ValueError, match=rf"{name}={value!r}: .*read as questions in SQuAD's form"):
        read_own(files(tmp_path, **option))


def test_other_endings_say_where_questions_are_read_from(tmp_path):
    path = tmp_path / "train.json"
    write(path, [article("x", 12)])
    with pytest.raises(ValueError, match=r"known are \.csv.*\(\.conll.*--kind tokens; questions in SQuAD's form"):
        read_own(Own(path, kind="sequence"))


@pytest.mark.skipif(not QA.exists(), reason="the published files are not here")
def test_published_questions_are_read_whole():
    found = read_own(Own(QA / "squadshifts" / "new_wiki_v1.0.json.gz"))
    assert sum(map(len, found.splits.values())) == 7_938
    assert not contexts(found, "train") & contexts(found, "test")
