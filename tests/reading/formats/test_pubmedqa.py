"""PubMedQA's questions and the splits that its authors' script draws."""

import json
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest

from acclimate.core.types import Example, Rejected
from acclimate.reading.formats import pubmedqa
from acclimate.reading.formats.pubmedqa import pubmedqa_examples, splits

DATA = Path(__file__).parents[4] / "shared" / "data" / "blurb" / "pubmedqa"
DECISIONS = {str(at): {"final_decision": ("yes", "no", "yes", "maybe", "yes", "no")[at % 6]} for at in range(60)}


@pytest.fixture
def folder(tmp_path):
    questions = {
        id: {**values, "QUESTION": f"Does {id}?", "CONTEXTS": ["One.", f"Two {id}."], "LONG_ANSWER": "It does."}
        for id, values in DECISIONS.items()
    }
    drawn = pubmedqa._parts(list(DECISIONS), 2, lambda id: DECISIONS[id]["final_decision"], pubmedqa.random.Random(0))
    (tmp_path / "ori_pqal.json").write_text(json.dumps(questions))
    (tmp_path / "test_ground_truth.json").write_text(json.dumps(dict.fromkeys(drawn[1], "yes")))
    return tmp_path


def test_the_question_comes_first_and_the_conclusion_is_never_read(folder):
    for row in pubmedqa_examples(folder, "test"):
        decision = DECISIONS[row.id]["final_decision"]
        assert row == Example(row.id, f"Does {row.id}?", decision, f"One. Two {row.id}.")


def test_the_folds_part_what_is_not_test(folder):
    questions = json.loads((folder / "ori_pqal.json").read_text())
    published = json.loads((folder / "test_ground_truth.json").read_text())
    drawn = [splits(folder, questions, published, fold) for fold in range(10)]
    assert sum(len(each["dev"]) for each in drawn) == 30
    assert {id for each in drawn for id in each["dev"]} == set(questions) - set(published)
    assert all(set(each["dev"]).isdisjoint(each["train"]) for each in drawn)


def test_another_file_than_the_published_one_is_refused(folder):
    (folder / "test_ground_truth.json").write_text(json.dumps({"1": "yes"}))
    with pytest.raises(ValueError, match="the test questions drawn from its 60 are not those of test_ground_truth"):
        list(pubmedqa_examples(folder, "dev"))
    (folder / "ori_pqal.json").write_text("[1]")
    with pytest.raises(ValueError, match="but must be a JSON object"):
        list(pubmedqa_examples(folder, "dev"))


def test_contexts_that_are_no_texts_are_rejected(folder):
    path = folder / "ori_pqal.json"
    path.write_text(path.read_text().replace('["One.", "Two 7."]', '"One."'))
    rejected = [
        row
        for split in ("train", "dev", "test")
        for row in pubmedqa_examples(folder, split)
        if isinstance(row, Rejected)
    ]
    assert [each.place for each in rejected] == ["ori_pqal.json, question 7"]


@pytest.mark.skipif(not DATA.exists(), reason="the questions are not there")
def test_the_draw_is_that_of_the_published_test_set():
    # `splits` compares ids and order with the 500 that the authors publish
    found = {split: list(pubmedqa_examples(DATA, split)) for split in ("train", "dev", "test")}
    assert {split: len(rows) for split, rows in found.items()} == {"train": 450, "dev": 50, "test": 500}
    assert Counter(row.label for rows in found.values() for row in rows) == {"yes": 552, "no": 338, "maybe": 110}
    # dev of the authors' pqal_fold0, in order, as their script wrote it
    drawn = " ".join(row.id for row in found["dev"])
    assert sha256(drawn.encode()).hexdigest() == "97191b5742f289b4a99c5c7d02b454a21e171e71a3bd0cd074b06d60a37bc967"
    truth = json.loads((DATA / "test_ground_truth.json").read_text())
    assert {row.id: row.label for row in found["test"]} == truth
