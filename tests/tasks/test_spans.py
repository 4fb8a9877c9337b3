"""Questions and contexts as rows, and answers out of scores, against a context read token by token."""

import itertools
import random
from pathlib import Path

import numpy as np
import pytest
from transformers import BertTokenizer, PreTrainedTokenizerBase

from acclimate.core.types import NOT_PREDICTED, Batch, Example
from acclimate.reading.formats.squad import squad_examples
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.rows import encode_rows, with_labels
from acclimate.tasks.spans import BEGIN, END, EXAMPLE, PASSAGE, best_answers

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "where", "is", "it", ",", ".", *"abcdefg", "##x", "##y"]
SQUAD = Path(__file__).parents[3] / "shared" / "data" / "qa" / "squad1.1" / "dev-v1.1.json.zip"


@pytest.fixture(scope="module")
def tokenizer() -> BertTokenizer:
    return BertTokenizer(vocab={piece: number for number, piece in enumerate(PIECES)})


def encoded(tokenizer: PreTrainedTokenizerBase, *examples: Example, max_tokens: int = 32) -> Batch:
    return with_labels(encode_rows(examples, tokenizer, max_tokens, "span"), examples, "span", ())


def read(rows: Batch, row: int) -> list[str]:
    return [PIECES[id] for id in rows.ids[rows.offsets[row] : rows.offsets[row + 1]]]


def asked(text: str, *spans: tuple[int, int], question: str = "where is it") -> Example:
    return Example("q", text, tuple(text[start:end] for start, end in spans), question, spans=spans)


def learnt(rows: Batch, row: int, text: str) -> str:
    """The text that the row's target stands for."""
    first, last = rows.rows["label"][row]
    start = rows.offsets[row]
    return text[rows.tokens[BEGIN][start + first] : rows.tokens[END][start + last]] if last else ""


def test_a_row_is_the_question_which_may_be_cut_and_its_context_and_says_where_its_tokens_stand(tokenizer):
    rows = encoded(tokenizer, asked("a bx, c", (2, 4)))
    assert read(rows, 0) == ["[CLS]", "where", "is", "it", "[SEP]", "a", "b", "##x", ",", "c", "[SEP]"]
    assert rows.tokens["token_type_ids"].tolist() == [0] * 5 + [1] * 6
    none = NOT_PREDICTED
    assert rows.tokens[BEGIN].tolist() == [none] * 5 + [0, 2, 3, 4, 6, none]
    assert rows.tokens[END].tolist() == [none] * 5 + [1, 3, 4, 5, 7, none]
    assert rows.rows["label"].tolist() == [[6, 7]]
    assert (rows.rows[EXAMPLE].tolist(), rows.names) == ([0], ["q"])
    rows = encoded(tokenizer, asked("a b c", (4, 5), question="where " * 40))
    assert read(rows, 0) == ["[CLS]", *["where"] * 8, "[SEP]", "a", "b", "c", "[SEP]"]


@pytest.mark.parametrize("seed", range(5))
def test_every_token_of_every_context_is_in_a_window_and_every_answer_is_learnt_in_one(seed, tokenizer):
    generator = random.Random(seed)
    contexts = [" ".join(generator.choices(PIECES[8:17], k=generator.randint(1, 90))) for _ in range(4)]
    text = PASSAGE.join(contexts)
    start = generator.choice([at for at, letter in enumerate(text) if letter in "abcdefg"])
    rows = encoded(tokenizer, asked(text, (start, start + 1)))
    stands = set(zip(rows.tokens[BEGIN].tolist(), rows.tokens[END].tolist(), strict=True)) - {(NOT_PREDICTED,) * 2}
    assert stands == {(at, at + 1) for at, letter in enumerate(text) if not letter.isspace()}
    assert rows.lengths.max() <= 32
    found = [learnt(rows, row, text) for row in range(len(rows))]
    assert set(found) <= {"", text[start]}
    assert 1 <= len([*filter(None, found)]) <= 2 < len(rows)  # 2 where it stands in the overlap
    for row in range(len(rows)):
        window = slice(rows.offsets[row], rows.offsets[row + 1])
        begin, end = rows.tokens[BEGIN][window], rows.tokens[END][window]
        inside = begin[begin != NOT_PREDICTED]
        assert PASSAGE not in text[inside[0] : end.max()], "a window runs over the end of a context"


def test_the_first_span_that_a_row_holds_is_learnt_and_of_half_an_answer_that_there_is_none(tokenizer):
    text = " ".join("abcdefg"[number % 7] for number in range(40))
    rows = encoded(tokenizer, asked(text, (40, 47)), max_tokens=32)  # tokens 20 to 23
    held = [read(rows, row)[5:-1] for row in range(len(rows))]
    assert [len(window) for window in held] == [26, 22]  # tokens 0 to 25, 18 to 39
    assert [learnt(rows, row, text) for row in range(2)] == [text[40:47]] * 2
    rows = encoded(tokenizer, asked(text, (46, 55)), max_tokens=32)  # tokens 23 to 27, of which the first has three
    assert rows.rows["label"].tolist()[0] == [0, 0]
    assert learnt(rows, 1, text) == text[46:55]
    text = f"a b{PASSAGE}c d"
    rows = encoded(tokenizer, asked(text, (6, 7), (2, 3), (0, 1)))
    assert [learnt(rows, row, text) for row in range(2)] == ["b", "d"]


def test_best_answers_are_those_of_every_pair_of_tokens(tokenizer):
    text = PASSAGE.join(" ".join(random.Random(0).choices(PIECES[8:19], k=40)) for _ in range(2))
    rows = encoded(tokenizer, asked(text), asked("a b , c"), max_tokens=24)
    scores = np.random.default_rng(0).normal(size=(len(rows.ids), 2)).astype(np.float32)
    expected = []
    for number, context in enumerate((text, "a b , c")):
        pairs: list[tuple[float, str]] = []
        for row in np.flatnonzero(rows.rows[EXAMPLE] == number):
            tokens = range(rows.offsets[row], rows.offsets[row + 1])
            for first, last in itertools.combinations_with_replacement(tokens, 2):
                if rows.tokens[BEGIN][first] >= 0 and rows.tokens[BEGIN][last] >= 0 and last - first < 4:
                    answer = context[rows.tokens[BEGIN][first] : rows.tokens[END][last]]
                    pairs.append((float(scores[first, 0] + scores[last, 1]), answer))
        expected.append(tuple(dict.fromkeys(answer for _, answer in sorted(pairs, reverse=True)))[:5])
    assert best_answers(scores, rows, [text, "a b , c"], longest=4) == expected


def test_answers_that_differ_in_case_only_are_one(tokenizer):
    rows = encoded(tokenizer, asked("A, a b"))
    scores = np.zeros((len(rows.ids), 2))
    context = np.flatnonzero(rows.tokens[BEGIN] >= 0)
    scores[context] = [(9, 9), (0, 0), (8, 8), (7, 7)]
    assert best_answers(scores, rows, ["A, a b"], longest=1) == [("A", "b", ",")]


def test_rows_without_room_and_tokenizers_without_offsets_are_refused(tokenizer):
    with pytest.raises(ValueError, match="rows of 15 tokens have no room for a question and a context"):
        encoded(tokenizer, asked("a"), max_tokens=15)

    class Slow:
        is_fast = False

    with pytest.raises(ValueError, match="no fast version, so acclimate cannot map tokens to characters"):
        encode_rows([asked("a")], Slow(), 32, "span")


@pytest.mark.skipif(not SQUAD.exists(), reason="the published files are not here")
def test_scores_of_the_learnt_tokens_give_back_the_answers_of_published_questions():
    examples = [row for row in itertools.islice(squad_examples(SQUAD), 40) if isinstance(row, Example)]
    words = sorted({letter for example in examples for letter in f"{example.text}{example.pair}".lower()})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *(f"##{letter}" for letter in words)]
    tokenizer = BertTokenizer(vocab={piece: number for number, piece in enumerate(pieces)})
    rows = encoded(tokenizer, *examples, max_tokens=384)
    assert len(rows) > len(examples)  # a letter is a token here, so contexts are read in windows
    scores = np.zeros((len(rows.ids), 2))
    for row, (first, last) in enumerate(rows.rows["label"]):
        if last:
            scores[rows.offsets[row] + first, 0] = scores[rows.offsets[row] + last, 1] = 1.0
    answers = best_answers(scores, rows, [example.text for example in examples], longest=200)
    assert METRICS["exact_match"].compute([example.label for example in examples], answers) == 1.0
