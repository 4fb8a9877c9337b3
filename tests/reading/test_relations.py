"""Pairs of mentions become sentences of one class, in each of the three encodings."""

from dataclasses import replace

import pytest

from acclimate.core.types import Rejected
from acclimate.reading.formats.annotated import Annotated, Mention, Relation
from acclimate.reading.relations import MentionPairs, relation_examples
from acclimate.tasks.mention_marks import marked_spans

PAIRS = MentionPairs(("CHEMICAL",), ("GENE",), ("CHEMICAL", "GENE"), "CHEM-GENE")
ALIKE = MentionPairs(("DRUG",), ("DRUG",), ("DRUG", "DRUG"), "DRUG-DRUG")


def document(text, *mentions, relations=()):
    """mentions: (id, type, surface form), where the surface form stands first in the text."""
    found = tuple(Mention(id, type, ((text.index(form), text.index(form) + len(form)),)) for id, type, form in mentions)
    return Annotated("d", text, found, tuple(Relation(*relation) for relation in relations), "made.tsv:1")


TEXT = "Aspirin blocks COX-2 and COX-1. Statins do not."
DOCUMENT = document(
    TEXT,
    ("T1", "CHEMICAL", "Aspirin"),
    ("T2", "GENE", "COX-2"),
    ("T3", "GENE", "COX-1"),
    ("T4", "CHEMICAL", "Statins"),
    relations=[("CPR:4", "T1", "T2"), ("CPR:2", "T1", "T3")],
)


def examples(*documents, pairs=PAIRS, encoding="dummies", labels=("CPR:3", "CPR:4")):
    named = {label: label for label in labels}
    return list(relation_examples(documents, pairs, labels=named, negative="false", encoding=encoding))


def openings(example):
    return tuple(start for start, _ in marked_spans(example))


def covered(example):
    return [example.text[start:end] for start, end in example.spans]


def test_every_pair_within_a_sentence_has_one_label():
    assert [(each.id, each.label, each.group) for each in examples(DOCUMENT)] == [
        ("d.T1.T2", "CPR:4", "d"),
        ("d.T1.T3", "false", "d"),
    ]


def test_dummies_replace_a_pair_markers_stand_around_it_and_the_original_tells_it_by_spans():
    first, second = examples(DOCUMENT)
    assert first.text == "@CHEMICAL$ blocks @GENE$ and COX-1."
    assert second.text == "@CHEMICAL$ blocks COX-2 and @GENE$."
    assert covered(second) == ["@CHEMICAL$", "@GENE$"]
    first, _ = examples(DOCUMENT, encoding="markers")
    assert first.text == "[E1] Aspirin [/E1] blocks [E2] COX-2 [/E2] and COX-1."
    assert covered(first) == ["Aspirin", "COX-2"]
    assert [first.text[place:][:4] for place in openings(first)] == ["[E1]", "[E2]"]
    first, second = examples(DOCUMENT, encoding="original")
    assert first.text == second.text == "Aspirin blocks COX-2 and COX-1."
    assert (covered(first), covered(second)) == (["Aspirin", "COX-2"], ["Aspirin", "COX-1"])
    assert openings(second) == (0, TEXT.index("COX-1"))


def test_the_first_type_comes_first_wherever_it_stands():
    turned = document("COX-2 is blocked by aspirin.", ("T1", "GENE", "COX-2"), ("T2", "CHEMICAL", "aspirin"))
    [shown], [marked] = examples(turned), examples(turned, encoding="markers")
    assert (shown.id, shown.text) == ("d.T2.T1", "@GENE$ is blocked by @CHEMICAL$.")
    assert covered(shown) == ["@CHEMICAL$", "@GENE$"]
    assert marked.text == "[E2] COX-2 [/E2] is blocked by [E1] aspirin [/E1]."
    assert covered(marked) == ["aspirin", "COX-2"]
    assert openings(marked) == (marked.text.index("[E1]"), 0)


@pytest.mark.parametrize(
    ("encoding", "text", "mentions"),
    [
        ("dummies", "An @CHEM-GENE$ here.", ["@CHEM-GENE$", "@CHEM-GENE$"]),
        ("markers", "An [E1-E2] angiotensin receptor [/E1-E2] here.", ["angiotensin", "angiotensin receptor"]),
        ("original", "An angiotensin receptor here.", ["angiotensin", "angiotensin receptor"]),
    ],
)
def test_two_that_overlap_are_shown_as_one(encoding, text, mentions):
    nested = document(
        "An angiotensin receptor here.", ("T1", "CHEMICAL", "angiotensin"), ("T2", "GENE", "angiotensin receptor")
    )
    [example] = examples(nested, encoding=encoding)
    assert (example.text, covered(example)) == (text, mentions)
    assert openings(example) == (3, 3)


def test_two_that_overlap_are_replaced_from_the_first_to_the_last_character_and_two_that_touch_not():
    crossed = document("The TNF alpha blocker works.", ("T1", "CHEMICAL", "alpha blocker"), ("T2", "GENE", "TNF alpha"))
    assert examples(crossed)[0].text == "The @CHEM-GENE$ works."
    [marked] = examples(crossed, encoding="markers")
    assert covered(marked) == ["alpha blocker", "TNF alpha"]
    assert openings(marked) == (4, 4)
    touching = document("The aspirinCOX pair.", ("T1", "CHEMICAL", "aspirin"), ("T2", "GENE", "COX"))
    assert examples(touching)[0].text == "The @CHEMICAL$@GENE$ pair."


def test_a_marker_that_the_text_had_before_is_no_opening():
    chemical = document("Of [E1] PGE1 blocks COX-2.", ("T1", "CHEMICAL", "PGE1"), ("T2", "GENE", "COX-2"))
    [marked] = examples(chemical, encoding="markers")
    assert marked.text == "Of [E1] [E1] PGE1 [/E1] blocks [E2] COX-2 [/E2]."
    assert openings(marked)[0] == len("Of [E1] ")


def test_mentions_of_one_type_are_paired_once_whichever_way_their_relation_is_stated():
    drugs = [("e2", "DRUG", "digoxin"), ("e0", "DRUG", "Warfarin"), ("e1", "DRUG", "aspirin")]
    text = "Warfarin, aspirin and digoxin."
    stated = document(text, *drugs, relations=[("effect", "e1", "e0")])
    found = list(relation_examples([stated], ALIKE, labels={"effect": "DDI-effect"}, negative="DDI-false"))
    assert [(each.id, each.label) for each in found] == [
        ("d.e0.e1", "DDI-effect"),
        ("d.e0.e2", "DDI-false"),
        ("d.e1.e2", "DDI-false"),
    ]


def test_of_two_wanted_relations_the_last_counts_and_unwanted_ones_do_not():
    several = [("CPR:4", "T1", "T2"), ("CPR:3", "T1", "T2"), ("CPR:2", "T1", "T2")]
    twice = replace(DOCUMENT, relations=tuple(Relation(*relation) for relation in several))
    assert examples(twice)[0].label == "CPR:3"


def test_a_discontinuous_mention_counts_from_its_first_character_to_its_last_unless_rejected():
    text = "ACE or renin inhibitors raise potassium."
    split = Mention("e0", "DRUG", ((0, 3), (13, 23)))
    other = Mention("e1", "DRUG", ((30, 39),))
    [example] = examples(Annotated("d", text, (split, other), (), "made.xml:1"), pairs=ALIKE)
    assert example.text == "@DRUG$ raise @DRUG$."
    rejected = Rejected("made.tsv:2", "no text")
    assert examples(rejected, DOCUMENT)[0] == rejected


def test_special_tokens_are_what_an_encoding_writes():
    assert PAIRS.special_tokens("dummies") == ("@CHEMICAL$", "@GENE$", "@CHEM-GENE$")
    assert ALIKE.special_tokens("dummies") == ("@DRUG$", "@DRUG-DRUG$")
    assert PAIRS.special_tokens("markers") == ("[E1]", "[/E1]", "[E2]", "[/E2]", "[E1-E2]", "[/E1-E2]")
    assert PAIRS.special_tokens("original") == ()
