from __future__ import annotations

import pytest

from acclimate.tasks.tags import borne, fallback, other_scheme, scheme_of, text_of, words_of


def test_words_are_what_stands_between_single_spaces() -> None:
    words = ["IL-2", "(", "p53\u00a0", "\u200b", "a\tb", "\u3000x"]
    assert words_of(text_of(words)) == words


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ({"B-Gene", "I-Gene", "O"}, "BIO"),
        ({"B", "I", "O"}, "BIO"),
        ({"B-Gene", "O"}, "BIO"),
        ({"I-PAR", "I-OUT", "O"}, "IO"),
        ({"B-a", "I-a", "E-a", "S-a", "O"}, "IOBES"),
        ({"S-a", "O"}, "IOBES"),
        ({"B-a-b", "I-a-b"}, "BIO"),
        ({"O"}, None),
        ({"NN", "IN", "O"}, None),
        ({"NOUN", "VERB"}, None),
        ({"B-", "O"}, None),
        ({"B_Gene", "O"}, None),
        ({"b-Gene", "O"}, None),
        ({"0", "1"}, None),
    ],
)
def test_a_scheme_is_told_by_its_letters(tags: set[str], scheme: str | None) -> None:
    assert scheme_of(tags) == scheme


@pytest.mark.parametrize(
    ("tags", "tag"),
    [
        ({"B-a", "I-a", "L-a", "U-a", "O"}, "L-a"),
        ({"B-a", "M-a", "E-a", "S-a", "O"}, "M-a"),
        ({"U-a", "O"}, "U-a"),
        ({"B-a", "I-a", "O"}, ""),
        ({"NN", "L-b"}, ""),
        ({"W-a", "V-a", "O"}, ""),
    ],
)
def test_tags_of_bilou_and_bmes_are_known_for_what_they_are(tags: set[str], tag: str) -> None:
    assert other_scheme(tags) == tag


def test_a_sentence_bears_types_of_entities_or_tags() -> None:
    tags = ("O", "B-b", "I-b", "O", "B-a")
    assert borne(tags, named=True) == ("a", "b")
    assert borne(tags, named=False) == ("B-a", "B-b", "I-b", "O")
    assert borne(("O", "O"), named=True) == ()


def test_a_word_that_nobody_reads_is_outside_where_there_is_an_outside() -> None:
    assert fallback(("B", "I", "O")) == "O"
    assert fallback(("ADJ", "NOUN")) == "ADJ"
