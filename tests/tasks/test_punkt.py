"""Sentences end where Punkt's English ends them: what follows is from abstracts that BLURB cut."""

import pytest

from acclimate.tasks.sentences import punkt_spans


@pytest.mark.parametrize(
    "sentences",
    [
        ["DM and DR. We found that DF binds."],  # "dr" is an abbreviation, and "we" opens no newspaper's sentences
        ["It is known not to form DR.", "This study shows more."],
        ["Given i.v.", "injection of 5 mg/kg."],
        ["It was given s.c. in rats."],
        ["Vitamin C. These rats died."],  # a letter that newspapers abbreviate with
        ["They release granzyme B.", "In the systems used, it binds."],
        ["It was blocked by lavendustin A.", "Protein kinase C did it."],
        ["As reviewed by Kanoh, H. (1996) J. Biol.", "Chem."],
        ["The pA2 was 8.43.", "The rest was not."],
        ["At 37 degrees C. both were lost."],
        ["It rose (p < 0.05.)", "Then it fell."],
        ["Does it bind?", "Yes!", "It does."],
        ["A title without a mark", "The abstract after a tab."],
    ],
)
def test_sentences_are_cut_as_in_blurb(sentences):
    text = ("\t" if "title" in sentences[0] else " ").join(sentences)
    assert [text[start:end] for start, end in punkt_spans(text)] == sentences


def test_no_white_space_and_no_empty_sentence():
    assert punkt_spans("  ") == []
    text = "One.   Two. \t\tThree "
    assert [text[start:end] for start, end in punkt_spans(text)] == ["One.", "Two.", "Three"]


@pytest.mark.parametrize("character", ["A", ".", ")"])
def test_a_long_stretch_without_white_space_takes_no_time(character):
    assert punkt_spans(character * 200_000) == [(0, 200_000)]
