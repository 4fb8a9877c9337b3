import pytest

from acclimate.core.types import Rejected
from acclimate.reading.formats.annotated import Annotated, Mention, Relation, StatedMention, StatedRelation, checked

TEXT = "The 𝛼-blocker\nprazosin and naïve or memory cells."


def stated(surface: str, *spans: tuple[int, int], id: str = "T1", type: str = "Drug") -> StatedMention:
    return StatedMention("a.ann:3", Mention(id, type, spans), surface)


def document(*mentions: StatedMention, text: str = TEXT, relations: tuple[Relation, ...] = ()) -> Annotated | Rejected:
    placed = [StatedRelation("a.ann:9", relation) for relation in relations]
    return checked("17", text, mentions, placed, place="a.txt:1")


def test_a_document_whose_offsets_fit_is_kept_as_stated():
    read = document(
        stated("prazosin", (14, 22)),
        stated("naïve cells", (27, 32), (43, 48), id="T2", type="Cell"),
        relations=(Relation("acts on", "T1", "T2"),),
    )
    assert isinstance(read, Annotated)
    assert [(mention.start, mention.end, mention.surface(TEXT)) for mention in read.mentions] == [
        (14, 22, "prazosin"),
        (27, 48, "naïve cells"),
    ]
    assert read.relations == (Relation("acts on", "T1", "T2"),)
    assert (read.id, read.text, read.place, read.unread) == ("17", TEXT, "a.txt:1", ())


def test_a_surface_form_may_span_a_line_end_or_hold_all_between_parts():
    assert isinstance(document(stated("𝛼-blocker prazosin", (4, 22))), Annotated)
    assert isinstance(document(stated("naïve or memory cells", (27, 32), (43, 48))), Annotated)


@pytest.mark.parametrize(
    ("text", "mention", "said"),
    [
        (TEXT, stated("prazosin", (13, 21)), ("'prazosin'", r"'\nprazosi'", "at 14 to 22")),
        (TEXT, stated("Prazosin", (14, 22)), ("'Prazosin'", "'prazosin'", "does not contain that form")),
        (TEXT, stated("prazosin", (15, 23)), ("'razosin '", "UTF-16 code units")),
        (TEXT, stated("memory", (40, 46)), ("bytes of UTF-8",)),
        (TEXT, stated("cells.", (44, 50)), ("exceed the 49 characters", "UTF-16 code units")),
        ("a\r\nb aspirin", stated("aspirin", (4, 11)), (r"\r\n counts as one character",)),
        (TEXT, stated("", (14, 14)), ("less than its end",)),
        (TEXT, stated("cells naïve", (43, 48), (27, 32)), ("must ascend",)),
        (TEXT, stated("naïve or", (27, 32), (31, 35)), ("must ascend",)),
        (TEXT, stated("prazosin", (14, 22), type=" "), ("neither may be empty",)),
        (TEXT, stated("prazosin", (14, 22), type="Dr\0ug"), ("its type has NUL",)),
        (TEXT, stated("prazosin", (10**11, 10**11 + 8)), ("exceed the 49 characters", "at 14 to 22")),
    ],
)
def test_a_mention_that_does_not_fit_rejects_its_document(text, mention, said):
    read = document(mention, text=text)
    assert isinstance(read, Rejected)
    assert read.place == "a.ann:3"
    for words in ("document '17'", "mention 'T1'", *said):
        assert words in read.reason


def test_the_nearest_place_of_the_surface_form_is_named():
    read = document(stated("cell", (21, 25)), text="cell, stroma, stem, a cell and a cell")
    assert isinstance(read, Rejected)
    assert "at 22 to 26" in read.reason


@pytest.mark.parametrize(
    ("read", "place", "said"),
    [
        (document(stated("prazosin", (14, 22)), stated("naïve", (27, 32))), "a.ann:3", "the same id"),
        (document(relations=(Relation("x", "T1", "T2"),)), "a.ann:9", "refers to 'T1', but no mention"),
        (
            document(stated("prazosin", (14, 22)), relations=(Relation("", "T1", "T1"),)),
            "a.ann:9",
            "the relation '' has no type",
        ),
        (document(text=" \n"), "a.txt:1", "the text is empty"),
        (document(text="a\0b"), "a.txt:1", "the text has NUL"),
        (checked(" ", "text", (), place="a.txt:1"), "a.txt:1", "the document's id is ' '"),
    ],
)
def test_a_document_that_makes_no_sense_is_rejected(read, place, said):
    assert isinstance(read, Rejected)
    assert read.place == place
    assert said in read.reason
