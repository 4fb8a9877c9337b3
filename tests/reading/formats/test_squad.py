"""Questions in SQuAD's form: what is accepted, what is rejected and why, and the published files."""

import json
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from acclimate.core.types import Example, Rejected
from acclimate.reading.formats.squad import (
    MOVED,
    TRIMMED,
    golden_answers,
    join_questions,
    question_key,
    question_rows,
    squad_examples,
)
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.spans import PASSAGE

CONTEXT = "Warsaw is the capital of Poland. Warsaw lies on the Vistula."
QA = Path(__file__).parents[4] / "shared" / "data" / "qa"
published = pytest.mark.skipif(not QA.exists(), reason="the published files are not here")


def asked(id: Any, *answers: tuple[Any, Any], question: Any = "Where?") -> dict[str, Any]:
    return {
        "id": id,
        "question": question,
        "answers": [{"text": text, "answer_start": start} for text, start in answers],
    }


def document(*paragraphs: tuple[str, list[Any]], title: str = "Warsaw") -> dict[str, Any]:
    listed = [{"context": context, "qas": questions} for context, questions in paragraphs]
    return {"version": "1.1", "data": [{"title": title, "paragraphs": listed}]}


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def parted(rows: Iterable[Example | Rejected]) -> tuple[list[Example], list[Rejected]]:
    rows = list(rows)
    return [row for row in rows if isinstance(row, Example)], [row for row in rows if isinstance(row, Rejected)]


def test_a_question_becomes_an_example_with_different_answers_and_where_they_stand(tmp_path):
    questions = [asked("q1", ("Warsaw", 0), ("Warsaw", 33), ("the Vistula", 48), ("Warsaw", 0)), asked("q2", ("i", 7))]
    found, rejected = parted(squad_examples(written(tmp_path / "questions.json", document((CONTEXT, questions)))))
    assert rejected == []
    assert found[0] == Example(
        "q1", CONTEXT, ("Warsaw", "the Vistula"), "Where?", "Warsaw", ((0, 6), (33, 39), (48, 59))
    )
    assert (found[1].label, found[1].spans) == (("i",), ((7, 8),))


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (
            asked("q", ("Poland", 24)),
            "'Poland' is not at character 24 of the context, where the text is ' Polan'; it is at 25",
        ),
        (asked("q", ("poland", 25)), "where the text is 'Poland'; it is nowhere in it. Correct answer_start"),
        (asked("q", ("Warsaw", 0), ("Vistula", -8)), "'Vistula' is not at character -8"),
        (asked("q", ("Vistula.", 54)), "'Vistula.' is not at character 54"),
        (asked("q"), "the answer is None; give its text and answer_start"),
        (asked("q", (" ", 6)), "the answer is {'text': ' ', 'answer_start': 6}; give"),
        (asked("q", ("Poland", "25")), "the answer is .* give its text and answer_start"),
        (asked("q", ("Poland", 25), question=" "), "the question is ' '; fill it in"),
        (asked("q", ("Poland", 25), question="a\0b"), "the question has NUL"),
        (asked("", ("Poland", 25)), "is not a question with an id"),
        (asked(True, ("Poland", 25)), "is not a question with an id"),
        ("Where?", "'Where\\?' is not a question with an id"),
    ],
)
def test_a_question_that_cannot_be_used_is_rejected_with_its_id_and_the_next_is_read(question, reason, tmp_path):
    path = written(tmp_path / "questions.json", document((CONTEXT, [question, asked("next", ("Poland", 25))])))
    (found,), (rejected,) = parted(squad_examples(path))
    assert found.id == "next"
    id = question.get("id") if isinstance(question, dict) else None
    assert rejected.place == "questions.json, article 1, paragraph 1" + (", question q" if id == "q" else "")
    with pytest.raises(ValueError, match=reason):
        raise ValueError(rejected.reason)


def test_what_has_no_list_of_questions_or_no_context_is_rejected(tmp_path):
    content = document((CONTEXT, [asked("q", ("Poland", 25))]))
    content["data"] += [{"title": "x"}, {"paragraphs": [{"context": "y"}, 3]}, {"paragraphs": [{"qas": [asked("r")]}]}]
    found, rejected = parted(squad_examples(written(tmp_path / "questions.json", content)))
    assert [example.id for example in found] == ["q"]
    assert [each.place for each in rejected] == [
        "questions.json, article 2, paragraph 1",
        "questions.json, article 3, paragraph 1",
        "questions.json, article 3, paragraph 2",
        "questions.json, article 4, paragraph 1, question r",
    ]
    assert rejected[3].reason == "the context is None; fill it in or remove the question"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "questions.json: is not valid JSON"),
        ("[" * 100_000, "questions.json: is not valid JSON"),
        ("[]", r"questions.json: is \[\], but must be an object with a list 'data'"),
        ('{"data": {}}', "questions.json: is {'data': {}}, but must be an object with a list 'data'"),
    ],
)
def test_a_file_of_another_form_is_an_error(content, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        list(squad_examples(written(tmp_path / "questions.json", content)))


def test_an_archive_of_two_files_is_an_error(tmp_path):
    with zipfile.ZipFile(tmp_path / "questions.zip", "w") as archive:
        archive.writestr("a.json", "{}")
        archive.writestr("b.json", "{}")
    with pytest.raises(
        ValueError, match=r"questions.zip: one .json file is needed, but it contains 2 \(a.json, b.json\)"
    ):
        list(squad_examples(tmp_path / "questions.zip"))


def pairs(tmp_path: Path) -> Path:
    unanswered = [{"id": f"58a9_00{number}", "question": "Which?"} for number in (1, 2, 3)]
    return written(
        tmp_path / "test.json",
        document((CONTEXT, [unanswered[0]]), ("No.", [unanswered[1]]), (CONTEXT, [unanswered[2]]), title="BioASQ"),
    )


def golden(tmp_path: Path, *answers: Any) -> Path:
    questions = [
        {"id": f"58a{9 + number}", "type": "factoid", "exact_answer": each} for number, each in enumerate(answers)
    ]
    return written(tmp_path / "golden.json", {"questions": [*questions, {"id": "yes", "type": "yesno"}]})


@pytest.mark.parametrize(
    "answer", [[["ALS"], ["als disease"]], [["ALS", "als disease"]], ["ALS", "als disease", "ALS"]]
)
def test_synonyms_are_read_in_every_form_of_the_golden_files(answer, tmp_path):
    assert golden_answers(golden(tmp_path, answer)) == {"58a9": ("ALS", "als disease")}
    assert golden_answers(golden(tmp_path, "ALS", [[" "]])) == {"58a9": ("ALS",), "58a10": ()}
    for wrong in (None, [], [[3]], {"a": "b"}):
        with pytest.raises(ValueError, match=r"golden.json, question 58a9: the exact_answer is"):
            golden_answers(golden(tmp_path, wrong))


def test_pairs_of_a_question_take_the_golden_answers_and_are_scored_as_one(tmp_path):
    answers = golden_answers(golden(tmp_path, [["ALS"], ["als disease"]]))
    found, rejected = parted(squad_examples(pairs(tmp_path), group_of=question_key, answers=answers))
    assert rejected == []
    assert {(example.group, example.label, example.spans) for example in found} == {
        ("58a9", ("ALS", "als disease"), ())
    }
    (question,) = join_questions(found)
    assert question == Example("58a9", f"{CONTEXT}{PASSAGE}No.", ("ALS", "als disease"), "Which?", "58a9")
    _, rejected = parted(squad_examples(pairs(tmp_path), group_of=question_key, answers={}))
    assert {each.reason for each in rejected} == {"'58a9' has no answer; add it to the file of answers"}


def test_spans_of_a_question_stay_on_their_answers_when_its_contexts_are_joined(tmp_path):
    contexts = [
        (CONTEXT, [asked("58_001", ("Warsaw", 33))]),
        ("In Łódź or Warsaw?", [asked("58_002", ("Warsaw", 11))]),
        (CONTEXT, [asked("58_003", ("Vistula", 52))]),
    ]
    found, _ = parted(squad_examples(written(tmp_path / "questions.json", document(*contexts)), group_of=question_key))
    (question,) = join_questions(found)
    assert question.text.split(PASSAGE) == [CONTEXT, "In Łódź or Warsaw?"]
    assert question.label == ("Warsaw", "Vistula")
    assert [question.text[start:end] for start, end in question.spans] == ["Warsaw", "Warsaw", "Vistula"]


@published
def test_every_question_of_the_published_squad_is_read_and_its_own_answers_are_right():
    examples, rejected = parted(squad_examples(QA / "squad1.1" / "dev-v1.1.json.zip"))
    assert (len(examples), len({example.id for example in examples}), rejected) == (10_570, 10_570, [])
    assert len({example.group for example in examples}) == 48
    gold = [example.label for example in examples]
    assert all({example.text[start:end] for start, end in example.spans} == set(example.label) for example in examples)
    for name in ("exact_match", "f1"):
        assert METRICS[name].compute(gold, [answers[0] for answers in gold]) == 1.0
    # three questions have an answer that is nothing but a full stop, which is right to say nothing to
    assert METRICS["exact_match"].compute(gold, [""] * len(gold)) == pytest.approx(3 / 10_570, abs=1e-12)


@published
@pytest.mark.parametrize(
    ("file", "count", "wrong", "questions"),
    [("BioASQ_trainingdata_9b.json.gz", 5_278, 169, 744), ("derived_train_excl5B.json.gz", 4_337, 0, 667)],
)
def test_wrong_offsets_of_the_published_bioasq_are_counted(file, count, wrong, questions):
    examples, rejected = parted(squad_examples(QA / "bioasq" / file, group_of=question_key))
    assert (len(examples), len(rejected), len({example.group for example in examples})) == (count, wrong, questions)
    assert all("is not at character" in each.reason for each in rejected)


@published
@pytest.mark.parametrize(("year", "count", "questions"), [(4, 652, 161), (5, 495, 150), (6, 525, 161), (7, 407, 162)])
def test_every_factoid_question_of_the_published_tests_has_contexts_and_synonyms(year, count, questions):
    answers = golden_answers(QA / "bioasq" / f"{year}B_golden.json.gz")
    path = QA / "bioasq" / f"BioASQ-test-factoid-{year}b.json.gz"
    examples, rejected = parted(squad_examples(path, group_of=question_key, answers=answers))
    assert (len(examples), rejected, len(join_questions(examples)), len(answers)) == (count, [], questions, questions)


def test_ids_may_be_whole_numbers(tmp_path):
    path = written(
        tmp_path / "questions.json", document((CONTEXT, [asked(7, ("Poland", 25)), asked(0, ("Poland", 25))]))
    )
    assert [row.id for row in squad_examples(path)] == ["7", "0"]


@pytest.mark.parametrize(("said", "spans"), [(600, None), (-1, None), (7, None), (5, ((4, 5),)), (9, ((10, 11),))])
def test_an_answer_that_stands_twice_moves_a_few_characters_only(tmp_path, said, spans):
    context = "The 5 or, 5 of them; " + "a" * 600  # the fives stand at 4 and 10
    path = written(tmp_path / "questions.json", document((context, [asked("q", ("5", said))])))
    [row] = question_rows(path, mended=Counter())
    assert getattr(row, "spans", None) == (((said, said + 1),) if context[said : said + 1] == "5" else spans)


def test_an_answer_moves_to_the_nearest_place_where_it_stands_if_that_is_asked_for(tmp_path):
    early = asked("early", ("Poland", 24))
    path = written(
        tmp_path / "questions.json", document((CONTEXT, [early, asked("spaced", (" Poland  ", 24)), asked("q")]))
    )
    mended = Counter()
    rows = list(question_rows(path, mended=mended))
    assert [row.spans for row in rows[:2]] == [((25, 31),)] * 2
    assert isinstance(rows[2], Rejected)  # what has no answer cannot be mended
    assert mended == {MOVED: 2}


def test_an_answer_loses_the_spaces_at_its_ends_if_that_is_asked_for(tmp_path):
    asks = document((CONTEXT, [asked("q", (" Poland", 24)), asked("r", ("Poland", 25))]))
    path = written(tmp_path / "questions.json", asks)
    assert [row.spans for row in question_rows(path)] == [((24, 31),), ((25, 31),)]
    mended = Counter()
    rows = list(question_rows(path, mended=mended))
    assert [(row.label, row.spans) for row in rows] == [(("Poland",), ((25, 31),))] * 2
    assert mended == {TRIMMED: 1}
