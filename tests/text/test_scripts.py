"""Words in the scripts of many languages, as texts are compared, counted and searched by them."""

import re
import unicodedata
from collections import Counter

import pytest

from acclimate.text.overlap.near_duplicates import grams
from acclimate.text.overlap.words import jaccard, normalised_words
from acclimate.text.scripts import (
    MARKS,
    UNSPACED,
    divided_words,
    is_simple,
    plain,
    terms,
    unspaced_share,
    words_as_written,
    words_in,
)
from acclimate.text.vocabulary import vocabulary_words


def nfd(text):
    return unicodedata.normalize("NFD", text)


@pytest.mark.parametrize(
    ("text", "words"),
    {
        "Hindi": ("हिन्दी भाषा", "हिन्दी भाषा"),
        "Bengali": ("বাংলা, ভাষা", "বাংলা ভাষা"),
        "Tamil": ("தமிழ் மொழி", "தமிழ் மொழி"),
        "Tibetan": ("བོད་ཡིག", "བོད ཡིག"),
        "Arabic with points": ("مُحَمَّد", "محمد"),
        "Arabic with a stroke": ("كتـــاب", "كتاب"),
        "Persian with a joiner": ("می\u200cخواهم", "میخواهم"),
        "Hebrew with points": ("שָׁלוֹם", "שלום"),
        "Turkish": ("İSTANBUL ISPARTA", "istanbul isparta"),
        "Turkish in lower case": ("i\u0307stanbul", "istanbul"),
        "French, decomposed": (nfd("Élève naïve"), "élève naïve"),
        "Vietnamese, decomposed": (nfd("tiếng Việt"), "tiếng việt"),
        "Korean, decomposed": (nfd("한국어 단어"), "한국어 단어"),
        "Yoruba, no composed letter": ("ọ̀rọ̀", "ọ̀rọ̀"),
        "Greek": ("ΟΔΟΣ", "οδος"),
        "soft hyphen": ("co\u00adoperate", "cooperate"),
        "vector": ("x\u20d7 y", "x\u20d7 y"),
        "Thai": ("ภาษาไทย ดี", "ภาษาไทย ดี"),
        "Khmer with zero-width spaces": ("ខ្ញុំ\u200bស្រលាញ់", "ខ្ញុំ ស្រលាញ់"),
    }.values(),
)
def test_marks_stay_with_their_letters_and_spellings_of_one_word_are_one(text, words):
    words = words.replace("οδος", "οδο\u03c2")
    assert normalised_words(text) == normalised_words(words) == unicodedata.normalize("NFC", words)


@pytest.mark.parametrize(
    ("text", "words", "long"),
    {
        "Chinese": ("我喜欢3号。", ["我", "喜", "欢", "3", "号"], ["我", "喜", "欢", "号"]),
        "Japanese": ("テストを行うtest", ["テスト", "を", "行", "う", "test"], ["テスト", "を", "行", "う", "test"]),
        "half-width": ("ｱﾆﾒvery2ｶﾗｰ", ["ｱﾆﾒ", "very2", "ｶﾗｰ"], ["ｱﾆﾒ", "very2", "ｶﾗｰ"]),
        "Katakana beside Latin": ("アニメvery2カラー", ["アニメ", "very2", "カラー"], ["アニメ", "very2", "カラー"]),
        "Thai": ("ที่ดี a", ["ที่", "ดี", "a"], ["ที่", "ดี"]),
        "Lao": ("ດີ ab", ["ດີ", "ab"], ["ດີ", "ab"]),
        "Burmese": ("မြန်", ["မြ", "န်"], ["မြ", "န်"]),
        "Javanese": ("ꦗꦮ", ["ꦗ", "ꦮ"], ["ꦗ", "ꦮ"]),
        "Korean": ("한국어 말", ["한국어", "말"], ["한국어"]),
        "English": ("A co-op's x_1", ["A", "co", "op", "s", "x_1"], ["co", "op", "x_1"]),
        "Hindi": ("मैं हूँ न", ["मैं", "हूँ", "न"], ["मैं", "हूँ"]),
    }.values(),
)
def test_letters_of_scripts_without_spaces_are_words(text, words, long):
    assert divided_words(plain(text, lower=False)) == words
    assert words_as_written(plain(text, lower=False)).findall(plain(text, lower=False)) == words
    assert terms(plain(text, lower=False)) == long


@pytest.mark.parametrize(
    "text", ["مُحَمَّد كتـــاب", "می\u200cخواهم", "co\u00adop \ufeffnew", "शब्द का\u200dम", "ที่ดี a\u0301"]
)
def test_words_as_written_are_those_of_the_plain_text(text):
    words = words_as_written(text).findall(text)
    assert [plain(word) for word in words] == divided_words(plain(text))


def test_texts_with_simple_letters_have_the_words_of_the_general_patterns():
    others = {*map(chr, MARKS), *map(chr, UNSPACED)}
    for point in range(1, 0x3000):
        character = chr(point)
        text = f"a{character}b"
        assert is_simple(text) <= (character not in others)
        if is_simple(text):
            assert words_in(text).findall(text) == re.findall(r"\w+", text)


def test_texts_without_spaces_have_runs_of_words_to_compare():
    text = "วันนี้อากาศดีมากแมวนอนอยู่บนโต๊ะสวัสดีชาวโลกฉันชอบกินข้าวผัด" * 2
    assert jaccard(grams(text), grams(text + "มาก")) > 0.9
    assert jaccard(grams("की की की की की की"), grams("कि कि कि कि कि कि")) == 0


def test_pieces_of_a_vocabulary_keep_marks():
    text = "हिन्दी, भाषा (ไทยที่)"
    assert vocabulary_words(text) == [" हिन्दी", ",", " भाषा", " (", "ไทยที่", ")"]
    assert "".join(vocabulary_words(text)).strip() == text


def test_plain_keeps_case_on_demand_and_the_share_of_letters_is_counted():
    assert plain("İ" + nfd("é"), lower=False) == "İé"
    assert [unspaced_share(text) for text in ("abc", "中ab", "中文", "")] == [0, 1 / 3, 1, 0]
    assert Counter(divided_words("中文中"))["中"] == 2
