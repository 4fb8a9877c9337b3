import unicodedata

import numpy as np
import pytest

from acclimate.text.scripts import segmenter
from acclimate.text.words import word_spans, word_starts, word_starts_in_rows


@pytest.fixture(autouse=True)
def without_icu(monkeypatch):
    monkeypatch.setattr("acclimate.text.words.segmenter", lambda: None)


def words_of(text):
    """The words of a text, by one token a character."""
    spans = np.array([(place, place + 1) for place in range(len(text))]).reshape(-1, 2)
    starts = word_starts([text], spans, np.array([len(text)]))
    pieces = []
    for character, start in zip(text, starts, strict=True):
        if start:
            pieces.append("")
        pieces[-1] += character
    return [word for piece in pieces if (word := piece.strip().strip("\u200b"))]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(naloxone)", ["(", "naloxone", ")"]),
        ("don't", ["don", "'", "t"]),
        ("5-HT_2A x²", ["5", "-", "HT_2A", "x²"]),
        ("naïve " + unicodedata.normalize("NFD", "naïve"), ["naïve", unicodedata.normalize("NFD", "naïve")]),
        ("日本語のテスト", ["日", "本", "語", "の", "テスト"]),
        ("น้ำดี2", ["น้ำ", "ดี", "2"]),
        ("co\u00adoperate", ["co\u00adoperate"]),
        ("❤\ufe0flove $5", ["❤\ufe0f", "love", "$", "5"]),
        ("हिन्दी", ["हिन्दी"]),
        ("a\u00a0b\tc\nd", ["a", "b", "c", "d"]),
        ("ab\u200bcd", ["ab", "cd"]),
        ("... ", [".", ".", "."]),
    ],
)
def test_words_are_runs_of_word_characters_and_single_others(text, words):
    assert words_of(text) == words
    assert [text[start:end] for start, end in word_spans(text)] == words
    padded = f" \u200b {text}\n"
    assert [padded[start:end] for start, end in word_spans(padded)] == words


def test_words_of_scripts_without_spaces_are_those_of_icu(monkeypatch):
    """A made-up segmenter: the words have two letters. The other scripts, and `word_spans`, are as they are without."""

    def pairs(run):
        return [(first, min(first + 2, len(run))) for first in range(0, len(run), 2)]

    monkeypatch.setattr("acclimate.text.words.segmenter", lambda: pairs)
    assert words_of("one 中文字 a中文b (中)") == ["one", "中文", "字", "a", "中文", "b", "(", "中", ")"]
    assert [span[1] - span[0] for span in word_spans("中文字")] == [1, 1, 1]


def test_icu_knows_the_words_of_five_scripts(monkeypatch):
    pytest.importorskip("icu4py", reason="the extra words is not installed")
    monkeypatch.setattr("acclimate.text.words.segmenter", segmenter)
    for text in ("วัน นี้ อากาศ ดี", "ຂ້ອຍ ຮັກ ພາສາ", "ខ្ញុំ ស្រលាញ់", "မြန်မာ စကားပြော", "我 喜欢 自然 语言", "𠀀 𠀁 我 喜欢"):
        assert words_of(text.replace(" ", "")) == text.split()


def test_a_text_of_blanks_has_no_words():
    assert word_spans("") == word_spans(" \n\u200b ") == []


def naive_words(text):
    """Word of every character, None for blanks: the rules read one character at a time."""
    words, number, before = [], -1, " "
    for character in text:
        category = unicodedata.category(character)
        point = ord(character)
        if character.isspace() or category[0] == "Z" or character == "\u200b":
            kind = " "
        elif 0x4E00 <= point <= 0x9FFF:
            kind = "."
        elif category[0] in "LN" or category == "Pc":
            kind = "w"
        elif category[0] in "MC":
            kind = "attached"
        else:
            kind = "."
        if kind == "." or (kind == "w" and before != "w"):
            number += 1
        before = before if kind == "attached" else kind
        words.append(None if before == " " else number)
    return words


def naive_starts(texts, spans, counts):
    starts, place = [], 0
    for text, count in zip(texts, counts, strict=True):
        words = naive_words(text)
        previous = None
        for token in range(place, place + count):
            begin, end = spans[token]
            visible = [word for word in words[begin:end] if word is not None]
            following = [word for word in words[begin:] if word is not None]
            first = visible[0] if visible else (following[0] if following else "end")
            starts.append(token == place or first != previous)
            previous = visible[-1] if visible else first
        place += count
    return starts


def test_word_starts_equal_a_loop_over_characters_and_tokens():
    generator = np.random.default_rng(0)
    letters = np.array(list("abZ09_ .,'()中文é\u0301\u200b\n ▁$😀") + [" "] * 3)
    for _ in range(200):
        texts = ["".join(generator.choice(letters, generator.integers(0, 15))) for _ in range(4)]
        spans, counts = [], []
        for text in texts:
            edges = np.sort(generator.integers(0, len(text) + 1, generator.integers(0, 8)))
            tokens = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
            spans += tokens
            counts.append(len(tokens))
        result = word_starts(texts, np.array(spans, int).reshape(-1, 2), np.array(counts))
        assert result.tolist() == naive_starts(texts, spans, counts), texts


def test_spans_outside_a_text_stay_within_it():
    starts = word_starts(["ab", "cd"], np.array([[0, 2], [9, 12], [0, 2]]), np.array([2, 1]))
    assert starts.tolist() == [True, True, True]


def test_words_in_rows_of_pairs_are_those_of_the_texts(tokenizers):
    pairs = [("Naloxone reverses (the) clonidine", "rats"), ("in", ""), ("", "wasn't reversed")]
    for tokenizer in tokenizers.values():
        for second in (True, False):
            texts = [(first, other if second else "") for first, other in pairs]
            columns = [list(column) for column in zip(*texts, strict=True)]
            encodings = tokenizer(*columns if second else columns[:1]).encodings
            starts = word_starts_in_rows(encodings, texts)
            rows = np.split(starts, np.cumsum([len(encoding) for encoding in encodings])[:-1])
            for row, encoding, parts in zip(rows, encodings, texts, strict=True):
                sides = np.array([-1 if side is None else side for side in encoding.sequence_ids])
                assert row[sides < 0].all()
                for side, text in enumerate(parts):
                    spans = np.array(encoding.offsets, dtype=np.int64)[sides == side].reshape(-1, 2)
                    alone = word_starts([text], spans, np.array([len(spans)]))
                    np.testing.assert_array_equal(row[sides == side], alone)
