import random

import pytest

from acclimate.tasks.tags import (
    Scheme,
    all_tags,
    borne,
    converted,
    entities,
    fallback,
    join_tags,
    joined_tags,
    scheme_of,
    split_words,
    standard_tags,
    tags_of,
    text_of,
    words_of,
)


def test_words_are_what_stands_between_single_spaces():
    words = ["IL-2", "(", "p53\u00a0", "\u200b", "a\tb", "\u3000x"]
    assert words_of(text_of(words)) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Naloxone (a drug), in rats.", "Naloxone ( a drug ) , in rats ."),
        ("IL-2(R) on CD4+ cells. These, e.g. T cells, die", "IL-2(R) on CD4+ cells . These , e.g. T cells , die"),
        ("So Li et al., 1999, show «it» (i.e., so)?!", "So Li et al. , 1999 , show « it » ( i.e. , so ) ? !"),
        ("[3H]thymidine, (E)-2-hexenal and (CH3)2CO.", "[3H]thymidine , (E)-2-hexenal and (CH3)2CO ."),
        ("It binds p53. J. Li (Fig. 2) saw (all.)", "It binds p53 . J. Li ( Fig. 2 ) saw ( all . )"),
        ("At 2 : 1 in cells (A).", "At 2 : 1 in cells ( A ) ."),
        ("Words (already) cut , here .", "Words (already) cut , here ."),
        ("x" + ")" * 99_999, "x" + ")" * 99_999),
        ("(((", "((("),
        (" \t", ""),
    ],
)
def test_punctuation_of_running_text_stands_alone(text, words):
    assert split_words(text) == words.split()


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ({"B-Gene", "I-Gene", "O"}, "BIO"),
        ({"B", "I", "O"}, "BIO"),
        ({"B-Gene", "O"}, "BIO"),
        ({"I-PAR", "I-OUT", "O"}, "IO"),
        ({"B-a", "I-a", "E-a", "S-a", "O"}, "IOBES"),
        ({"S-a", "O"}, "IOBES"),
        ({"B-a", "I-a", "L-a", "U-a", "O"}, "BIOUL"),
        ({"U-a", "O"}, "BIOUL"),
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
def test_a_scheme_is_told_by_its_letters(tags, scheme):
    assert scheme_of(tags) == scheme


@pytest.mark.parametrize(
    ("tags", "spelling"),
    [
        ("B-a M-a E-a S-a O", "B-a I-a E-a S-a O"),
        ("B-a M-a E-a W-a O", "B-a I-a E-a S-a O"),
        ("a_B a_M a_E a_W O", "B-a I-a E-a S-a O"),
        ("b-a m-a e-a w-a o", "B-a I-a E-a S-a O"),
        ("B M E S O", "B I E S O"),
        ("B-a I-a M-a O", ""),  # I- and M- would become one tag
        ("B-a M-a E-a S-a", ""),  # no O: a scheme for the characters of words
        ("B-a I-a L-a U-a O", ""),
        ("NN L-b", ""),
        ("M W O", ""),  # letters of another meaning
        ("B-a I-a O o", "B-a I-a O O"),
    ],
)
def test_tags_of_bmes_become_iobes(tags, spelling):
    assert standard_tags(tags.split()) == dict(zip(tags.split(), spelling.split(), strict=False))


# words:      0    1    2    3    4    5    6    7
FOUND = {(0, 2, "a"), (3, 3, "a"), (4, 5, "b"), (7, 7, "b")}
WRITTEN: dict[Scheme, str] = {
    "BIO": "B-a  I-a  I-a  B-a  B-b  I-b  O    B-b",
    "BIOUL": "B-a  I-a  L-a  U-a  B-b  L-b  O    U-b",
    "IOBES": "B-a  I-a  E-a  S-a  B-b  E-b  O    S-b",
    "IO": "I-a  I-a  I-a  I-a  I-b  I-b  O    I-b",
}


@pytest.mark.parametrize("scheme", WRITTEN)
def test_entities_are_written_in_each_scheme(scheme):
    tags = tuple(WRITTEN[scheme].split())
    assert tags_of(FOUND, 8, scheme) == tags
    assert scheme_of(tags) == scheme
    # two of type a touch, and IO makes one of them
    assert entities(tags) == (FOUND if scheme != "IO" else {(0, 3, "a"), (4, 5, "b"), (7, 7, "b")})
    untyped = {(first, last, "_") for first, last, _ in FOUND}
    assert {len(tag) for tag in tags_of(untyped, 8, scheme)} == {1}
    assert scheme == "IO" or entities(tags_of(untyped, 8, scheme)) == untyped


@pytest.mark.parametrize("scheme", WRITTEN)
@pytest.mark.parametrize("other", WRITTEN)
def test_schemes_convert_into_each_other(scheme, other):
    tags, wanted = tuple(WRITTEN[scheme].split()), tuple(WRITTEN[other].split())
    lost = scheme == "IO" and other != "IO"
    assert (converted(tags, other) == wanted) is not lost
    apart = tags_of({(0, 1, "a"), (3, 3, "a"), (4, 6, "b")}, 8, scheme)
    assert converted(converted(apart, other), scheme) == apart


def test_random_tags_convert_without_loss_and_an_inside_tag_that_follows_nothing_is_a_beginning():
    draw = random.Random(0)
    for _ in range(500):
        tags = draw.choices(["O", "B-a", "I-a", "B-b", "I-b"], k=draw.randrange(1, 12))
        for scheme in ("BIO", "BIOUL", "IOBES"):
            assert entities(converted(tags, scheme)) == entities(tags)  # type: ignore[arg-type]
    assert converted(("I-a", "I-a", "I-b", "L-b"), "BIO") == ("B-a", "I-a", "B-b", "I-b")


@pytest.mark.parametrize(
    ("found", "said"), [({(0, 1, "a"), (1, 2, "a")}, "overlaps another"), ({(1, 3, "a")}, "exceeds 3 words")]
)
def test_entities_that_no_tags_can_say_are_refused(found, said):
    with pytest.raises(ValueError, match=said):
        tags_of(found, 3, "BIO")


def test_a_sentence_bears_types_of_entities_or_tags():
    tags = ("O", "B-b", "I-b", "O", "B-a")
    assert borne(tags, named=True) == ("a", "b")
    assert borne(tags, named=False) == ("B-a", "B-b", "I-b", "O")
    assert borne(("O", "O"), named=True) == ()


def test_a_word_that_nobody_reads_is_outside_where_there_is_an_outside():
    assert fallback(("B", "I", "O")) == "O"
    assert fallback(("ADJ", "NOUN")) == "ADJ"


def test_tags_without_a_type_stay_without():
    assert all_tags({"O", "B", "I"}, "BIOUL") == ("O", "B", "I", "L", "U")


def test_a_joint_tag_is_of_several_and_a_plus_within_a_type_joins_nothing():
    assert joined_tags(join_tags(["I-PAR", "I-INT"])) == ("I-INT", "I-PAR")
    assert join_tags([]) == "O"
    assert joined_tags("I-Na+") == ("I-Na+",)
    assert joined_tags("I-K+B-Na+") == ("I-K", "B-Na+")
    assert scheme_of({"I-a+B-b", "O"}) == "BIO"


def test_entities_of_types_that_overlap_are_those_of_each_type_which_may_not_come_twice():
    draw = random.Random(1)
    for _ in range(300):
        words = draw.randrange(1, 9)
        alone = {kind: draw.choices(["O", f"B-{kind}", f"I-{kind}"], k=words) for kind in ("a", "b", "c")}
        together = [join_tags(tag for tag in tags if tag != "O") for tags in zip(*alone.values(), strict=True)]
        assert entities(together) == set().union(*map(entities, alone.values()))
    with pytest.raises(ValueError, match=r"'B-a\+I-a' joins two entities of one type"):
        entities(["B-a+I-a"])
