"""Questions whose answers are spans of a context, in SQuAD's JSON, and BioASQ's golden answers.

data -> articles (title, paragraphs) -> context, qas (id, question, answers) -> text, answer_start. A file may be packed
(.gz, .zst) or be the one JSON file of a .zip.

BioASQ's factoid questions in this form are pairs: a question occurs once for each of its contexts, with the id
`<question>_<number>`. Test questions have no answers in it. Their answers are in the golden file (questions -> id,
type, exact_answer), as synonyms that need not occur in a context. `join_questions` makes one example from the pairs of
a question, because questions are scored.

If one answer of a question cannot be used, the whole question is rejected, with its id; so is a question of SQuAD 2.0
without an answer (`is_impossible`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from acclimate.core.door import is_python, option
from acclimate.core.names import shown
from acclimate.core.types import Example, Rejected, Split
from acclimate.reading.formats.archives import LIMITS, ArchiveLimits, only_file
from acclimate.reading.tables import Row
from acclimate.tasks.spans import PASSAGE
from acclimate.text.untrusted import loads, named, printable, unsound

IMPOSSIBLE = "is_impossible: the context has no answer"  # why SQuAD 2.0's questions without one are rejected
FETCH = "Fetch it again"
NEAR = 10  # characters that an answer may move where it stands more than once
# what `mended` counts
MOVED = "answers moved to their position in the context"
TRIMMED = "answers stripped of spaces"

_Group = Callable[[str, str], str]


def article_key(title: str, id: str) -> str:
    """Return the group of a question of SQuAD: its article, all of which goes into one split."""
    return title


def question_key(title: str, id: str) -> str:
    """Return the group of a pair of BioASQ: the question, whose id all its pairs begin with."""
    return id.rpartition("_")[0] or id


def squad_examples(
    path: Path,
    *,
    group_of: _Group = article_key,
    answers: Mapping[str, tuple[str, ...]] | None = None,
    limits: ArchiveLimits = LIMITS,
) -> Iterator[Example | Rejected]:
    """Yield an Example of kind "span" or a Rejected for each question of the file, in its order.

    The example's text is the context, its pair the question, its label the different answers, and its spans their
    offsets in the context.

    group_of  (title of the article, id) -> the group
    answers   group -> acceptable answers, for a file without answers; spans are then ()

    Raises ValueError if the file is not in SQuAD's form.
    """
    answers_of = None if answers is None else answers.get
    for row in question_rows(path, group_of=group_of, answers_of=answers_of, limits=limits):
        yield (
            row if isinstance(row, Rejected) else Example(row.id, row.text, row.label, row.pair, row.group, row.spans)
        )


def question_of(row: Mapping[str, Any], id: str) -> dict[str, Any]:
    """Return the question of a row of the hub's SQuAD, whose answers are a list of texts and one of their places.

    A text and a number are lists of one. id: if the row has none. Raises ValueError for lists of different lengths.
    """
    id, answers = row.get("id", id), row.get("answers")
    if isinstance(answers, Mapping):
        values = (answers.get(name) for name in ("text", "answer_start"))
        texts, starts = ([] if value is None else value if isinstance(value, list) else [value] for value in values)
        if len(texts) != len(starts):
            raise ValueError(
                f"question {shown(id)}: answers.text has {len(texts)} texts, but answers.answer_start has "
                f"{len(starts)} numbers. Give each answer one position"
            )
        answers = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    answers = list(answers) if isinstance(answers, list | tuple) else [answers] if answers else []
    question = {"id": id, "question": row.get("question"), "answers": answers}
    return question if answers else {**question, "is_impossible": True}


def table_questions(rows: Iterable[tuple[str, Any]], stem: str) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield place, title, context and question of the rows of a table; a row that cannot be read is the question."""
    for number, (place, row) in enumerate(rows, 1):
        if isinstance(row, str):
            yield place, "", None, row
            continue
        try:
            yield place, str(row.get("title") or ""), row.get("context"), question_of(row, f"{stem}:{number}")
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error


def question_rows(
    path: Path,
    *,
    questions: Iterable[tuple[str, str, Any, Any]] | None = None,
    group_of: _Group = article_key,
    answers_of: Callable[[str], tuple[str, ...] | None] | None = None,
    limits: ArchiveLimits = LIMITS,
    way_out: str = FETCH,
    mended: Counter[str] | None = None,
) -> Iterator[Row | Rejected]:
    """Yield the questions of `squad_examples` as rows.

    questions  place, title, context and question of each; None: those of the file in SQuAD's form
    answers_of  group -> acceptable answers, for a file without answers; None: there are none
    way_out  end of the error for a file in another form
    mended   counts what was mended: an answer that is not where it is said to be moves to where it stands, if it stands
             once, or nearest and at most NEAR characters away; and an answer loses spaces at its ends. None: nothing is
             mended, and a question whose answer is elsewhere is rejected
    """
    questions = _questions(path, limits, way_out) if questions is None else questions
    for number, (place, title, context, question) in enumerate(questions, 1):
        id = question.get("id") if isinstance(question, dict) else None
        id = str(id) if isinstance(id, int) and not isinstance(id, bool) else id
        if not isinstance(id, str) or not id.strip():
            yield Rejected(place, f"{shown(question)} is not a question with an id; correct it")
            continue
        where = f"{place}, question {printable(id)}"
        group = group_of(title, id)
        reason, label, spans = _answers(context, question, group, answers_of, mended=mended)
        if reason:
            yield Rejected(where, reason)
        else:
            yield Row(number, where, context, label, question["question"], group, id, spans)


def golden_answers(path: Path, *, limits: ArchiveLimits = LIMITS) -> dict[str, tuple[str, ...]]:
    """Return question -> synonyms of its answer, for the factoid questions of BioASQ's golden file (task B, phase B).

    A question with a blank answer (4b has one) has no synonym: it is scored, and every prediction is wrong.

    Raises ValueError if the file is not a golden file, and for an answer that is no text.
    """
    name, content = _content(path, limits, "questions")
    golden: dict[str, tuple[str, ...]] = {}
    for number, question in enumerate(content["questions"], 1):
        if not isinstance(question, dict) or not isinstance(question.get("id"), str):
            raise ValueError(f"{name}, question {number}: has no id: {shown(question)}. Correct it")
        if question.get("type") != "factoid":
            continue
        answer = question.get("exact_answer")
        # by year, a list with one list for each synonym, a list of all synonyms, or one text
        listed = [answer] if isinstance(answer, str) else answer if isinstance(answer, list) else []
        synonyms = [text for synonym in listed for text in (synonym if isinstance(synonym, list) else [synonym])]
        if not synonyms or not all(isinstance(text, str) for text in synonyms):
            raise ValueError(
                f"{name}, question {question['id']}: the exact_answer is {shown(answer)}, but must be texts. "
                "Correct it, or remove the question"
            )
        golden[question["id"]] = tuple(dict.fromkeys(filter(str.strip, synonyms)))
    return golden


def join_questions(pairs: Iterable[Example]) -> list[Example]:
    """Return one example for each question (group) of the pairs, in the order in which they first occur.

    Its id is that of the question, its text the different contexts with `PASSAGE` between them, its label all answers.
    """
    grouped: dict[str, list[Example]] = {}
    for pair in pairs:
        grouped.setdefault(pair.group, []).append(pair)
    examples = []
    for question, contexts in grouped.items():
        starts: dict[str, int] = {}
        end = 0
        for context in dict.fromkeys(pair.text for pair in contexts):
            starts[context] = end
            end += len(context) + len(PASSAGE)
        moved = [(starts[pair.text] + a, starts[pair.text] + b) for pair in contexts for a, b in pair.spans]
        answers = [text for pair in contexts if isinstance(pair.label, tuple) for text in pair.label]
        text, label = PASSAGE.join(starts), tuple(dict.fromkeys(answers))
        examples.append(replace(contexts[0], id=question, text=text, label=label, spans=tuple(dict.fromkeys(moved))))
    return examples


def numbered_questions(rows: Sequence[Row]) -> dict[str, str]:
    """Return id -> question, the beginning of the id, for rows that ask what another row of the same question asks."""
    numbered: dict[str, list[Row]] = {}
    for row in rows:
        question, _, number = row.id.rpartition("_")
        if question and number.isdecimal():
            numbered.setdefault(question, []).append(row)
    return {
        row.id: question
        for question, pairs in numbered.items()
        if len(pairs) > 1 and len({row.pair for row in pairs}) == 1
        for row in pairs
    }


def scored_questions(examples: Sequence[Example], questions: Mapping[str, str], split: Split) -> list[Example]:
    """Return the examples of a split: unchanged in train, with pairs merged into questions elsewhere.

    questions: of `numbered_questions`
    """
    grouped = [replace(row, group=questions.get(row.id, "")) for row in examples]
    if split == "train":
        return grouped
    merged = {question.group: question for question in join_questions(row for row in grouped if row.group)}
    first = {row.group: row.id for row in reversed(grouped)}
    return [merged.get(row.group, row) for row in grouped if not row.group or first[row.group] == row.id]


def _content(path: Path, limits: ArchiveLimits, key: str, way_out: str = FETCH) -> tuple[str, dict[str, Any]]:
    """Return the file's name and its JSON object. Raises ValueError if that has no list under this key."""
    file, content = only_file(path, ending=".json", limits=limits)
    try:
        value = loads(content)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{named(path)}: is not valid JSON ({printable(str(error))}). {way_out}") from error
    if not isinstance(value, dict) or not isinstance(value.get(key), list):
        raise ValueError(f"{named(path)}: is {shown(value)}, but must be an object with a list {key!r}. {way_out}")
    return printable(Path(file).name), value


def _questions(path: Path, limits: ArchiveLimits, way_out: str) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield place, title of the article, context and question. An object that lacks its list comes as the question."""
    name, content = _content(path, limits, "data", way_out)
    for number, article in enumerate(content["data"], 1):
        title = str(article.get("title", "")) if isinstance(article, dict) else ""
        for at, paragraph in enumerate(_list(article, "paragraphs"), 1):
            context = paragraph.get("context") if isinstance(paragraph, dict) else None
            for question in _list(paragraph, "qas"):
                yield f"{name}, article {number}, paragraph {at}", title, context, question


def _list(value: Any, key: str) -> list[Any]:
    """Return the list under the key; if there is none, a list of `value`, which is then rejected as a question."""
    listed = value.get(key) if isinstance(value, dict) else None
    return listed if isinstance(listed, list) else [value]


def _answers(
    context: Any,
    question: dict[str, Any],
    group: str,
    answers_of: Callable[[str], tuple[str, ...] | None] | None,
    *,
    mended: Counter[str] | None,
) -> tuple[str, tuple[str, ...], tuple[tuple[int, int], ...]]:
    """Return the reason why the question cannot be used, or "", its different answers and their offsets."""
    for field, text in (("context", context), ("question", question.get("question"))):
        if not isinstance(text, str) or not text.strip():
            return f"the {field} is {shown(text)}; fill it in or remove the question", (), ()
        if reason := unsound(text):
            return f"the {field} {reason}; correct it or remove the question", (), ()
    if answers_of is not None:
        answers = answers_of(group)
        reason = f"{group!r} has no answer; add it to the file of answers" if answers is None else ""
        return reason, answers or (), ()
    if question.get("is_impossible") is True:
        return IMPOSSIBLE, (), ()
    spans = []
    answers_listed = question.get("answers") or [None]
    for answer in answers_listed if isinstance(answers_listed, list) else [answers_listed]:
        span = _span(context, answer, mended)
        if isinstance(span, str):
            return span, (), ()
        spans.append(span)
    return "", tuple(dict.fromkeys(context[start:end] for start, end in spans)), tuple(dict.fromkeys(spans))


def _span(context: str, answer: Any, mended: Counter[str] | None) -> tuple[int, int] | str:
    """Return the answer's offsets in the context, or the reason why it cannot be used."""
    if not isinstance(answer, dict):
        return f"the answer is {shown(answer)}; give its text and answer_start, or remove the question"
    text, start = answer.get("text"), answer.get("answer_start")
    if not isinstance(text, str) or not text.strip() or not isinstance(start, int):
        return f"the answer is {shown(answer)}; give its text and answer_start, or remove the question"
    end = start + len(text)
    if start < 0 or context[start:end] != text:
        stretch = context[max(start, 0) : end]
        sought = text.strip() if context.find(text) < 0 else text
        places = [match.start() for match in re.finditer(re.escape(sought), context)]
        near = min(places, key=lambda place: abs(place - start), default=-1)
        nearest = sum(abs(place - start) == abs(near - start) for place in places) == 1 and abs(near - start) <= NEAR
        certain = len(places) == 1 or (start >= 0 and nearest)
        if mended is not None and certain:
            mended[MOVED] += 1
            return near, near + len(sought)
        hint = f"it is at {near}" if near >= 0 else "it is nowhere in it"
        switch = "repair=True" if is_python() else option("repair")
        way_out = f", or correct it automatically ({switch})" if certain else ""
        return (
            f"the answer {shown(text)} is not at character {start} of the context, where the text is "
            f"{shown(stretch)}; {hint}. Correct answer_start{way_out}"
        )
    if mended is not None and text != text.strip():
        mended[TRIMMED] += 1
        start += len(text) - len(text.lstrip())
        return start, start + len(text.strip())
    return start, end
