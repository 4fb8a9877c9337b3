import random
import re
import sys

import pytest

from acclimate.tasks.sentences import punkt_spans, sentence_spans


def cut(text: str, *whole: tuple[int, int]) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text, whole)]


@pytest.mark.parametrize(
    "parts",
    [
        ("IL-2 was given.", "It helped."),
        ("Did it help?", "No!", "Why?"),
        ("Levels rose (Fig. 3).", "They fell again."),
        ("As in Figs. 1A and 2B, cells died."),
        ("Smith et al. (2003) and Jones et al. showed this.", "Others did not."),
        ("This was shown by Smith et al.", "However, it failed."),
        ("Rats were given morphine i.v. or 5 mg/kg s.c. Animals recovered."),
        ("Rats were given morphine i.p.", "The controls were not."),
        ("Growth of E. coli and S. aureus (approx. 5.5 h) vs. H. pylori was 0.5.", "P < .05 was significant."),
        ("Cells, e.g. T cells, i.e. lymphocytes, cf. Ref. 3, died."),
        ("Binding by J. D. Watson was studied.", "So was F. H. Crick."),
        ("Patients took vitamin C.", "Tumours shrank."),
        ("Patients had hepatitis B.", "The others had C."),
        ("It inhibits complex IV.", "Measurements confirm it."),
        ("Donors release NO.", "NO dilates vessels."),
        ("Levels were 3 mg/dL.", "Theophylline had no effect."),
        ("Mutations were found.", "p53 was intact."),
        ("We used cells.", "mRNA was extracted."),
        ("Dr. Brown et al. met on Jan. 5 at Acme Inc. in the U.S. Army base."),
        ("No. 5 was lost.", "Were there any?", "No.", "They said so."),
        ("1. Introduction is first.", "2. Methods follow."),
        ("It is known.[3,4]", "Others agree [5].", "(See also there.)"),
        ('He called it "safe."', "Others did not."),
        ("Results were clear...", "They were."),
        ("Dose of 3.5 mg, pH 7.4, at www.example.org, was used."),
        ("これは文です。", "次の文。"),
        ("The drug was safe in patients.", "The dose was low."),
        ("...",),
    ],
)
def test_sentences_end_where_a_reader_would_end_them(parts):
    sentences = [parts] if isinstance(parts, str) else list(parts)
    assert cut(" ".join(sentences)) == sentences


def test_a_full_stop_without_its_space_and_a_line_end_before_a_capital_end_a_sentence():
    assert cut("It was seen in patients.The dose was low.") == ["It was seen in patients.", "The dose was low."]
    assert cut("See Bio.Rad and www.Example for Na.Cl and e.g.This") == [
        "See Bio.Rad and www.Example for Na.Cl and e.g.This"
    ]
    assert cut("Aspirin in stroke\nWe studied it.") == ["Aspirin in stroke", "We studied it."]
    assert cut("A title\tAn abstract") == ["A title", "An abstract"]
    assert cut("Aspirin was\ngiven to rats,\nWistar ones, in Fig.\n3 of ours.") == [
        "Aspirin was\ngiven to rats,\nWistar ones, in Fig.\n3 of ours."
    ]
    assert cut("background\n\nwe looked") == ["background", "we looked"]
    assert cut("one\r\n\r\ntwo\r\nThree") == ["one", "two", "Three"]


def test_nothing_but_white_space_is_lost_and_nothing_is_in_two_sentences():
    draw = random.Random(0)
    pieces = [*'Ab.?! \n\t")(\u2029é𝛼5', "p53", "\r\n", "[3]", "Fig", "i.v"]
    for _ in range(3000):
        text = "".join(draw.choices(pieces, k=draw.randrange(25)))
        spans = sentence_spans(text)
        ends = [0, *(offset for span in spans for offset in span), len(text)]
        assert ends == sorted(ends)
        outside = "".join(text[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True))
        assert not outside.strip()
        assert all(text[start:end].strip() == text[start:end] != "" for start, end in spans)


def test_no_sentence_ends_within_a_mention():
    text = "We used St. John. Wort et al. We died. Then we rose."
    assert cut(text) == ["We used St. John.", "Wort et al.", "We died.", "Then we rose."]
    start = text.index("St.")
    assert cut(text, (start, start + len("St. John. Wort"))) == [
        "We used St. John. Wort et al.",
        "We died.",
        "Then we rose.",
    ]
    draw = random.Random(1)
    text = "Ab. Cd ef. Gh? Ij. Kl. Mn op. Qr."
    for _ in range(500):
        whole = [tuple(sorted(draw.sample(range(len(text) + 1), 2))) for _ in range(draw.randrange(4))]
        spans = sentence_spans(text, whole)  # type: ignore[arg-type]
        for start, end in whole:
            inside = [span for span in spans if span[0] < end and start < span[1]]
            assert len(inside) <= 1 or not text[start:end].strip(), (whole, inside)
        # a boundary is lost only where a mention runs over it
        for match in re.finditer(r"[.?]( )", text):
            over = any(start <= match.start(1) and end > match.start(1) for start, end in whole)
            assert over or match.start(1) in [end for _, end in spans]


def calls(text: str) -> int:
    """Return how many functions, Python's and C's, `sentence_spans` calls for the text."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        sentence_spans(text)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    "piece", ["(", ".", "a.", ". [", " \n", "A\n", "No. 5 was lost. ", "Smith et al. (2003) showed"]
)
def test_twice_the_text_takes_twice_the_calls(piece):
    assert calls(piece * 10_000) <= 2.01 * calls(piece * 5_000) + 20  # the collector of garbage calls some functions


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
