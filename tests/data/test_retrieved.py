from dataclasses import asdict, replace

import pytest
from tests.races.test_report import Page

import studies
from acclimate.data.retrieved import (
    DOCUMENTS,
    QUERIES,
    DocumentShown,
    QueryShown,
    carrying,
    marked,
    page_examples,
    shown_from,
)
from acclimate.races.report import RaceReport, race_page

# Table 9 of the paper, with parts of the score that are made up
TERMS = (("inos", 9.0), ("oxide", 6.0), ("nitric", 5.5), ("inducible", 4.0), ("the", 0.3), ("of", 0.2))
DOCUMENT = DocumentShown(
    "wiki-7",
    "wikipedia",
    "Other immune factors found in the testis include the enzyme inducible nitric oxide synthase (iNOS).",
    1,
    25.0,
    TERMS,
)
QUERY = QueryShown(
    "train-3", "FCEO inhibited nitric oxide (NO) by inducible nitric oxide synthase (iNOS).", (DOCUMENT,)
)
NASTY = "<mark onclick='alert(1)'>&amp; \N{RIGHT-TO-LEFT OVERRIDE}"


@pytest.fixture(scope="module")
def lean(report: RaceReport) -> RaceReport:
    return studies.bare(report)


def hits(parts):
    return [text for text, hit in parts if hit]


def test_the_words_that_carry_the_score_are_those_of_nine_tenths():
    assert list(carrying(TERMS)) == ["inos", "oxide", "nitric", "inducible"]
    assert carrying(()) == {}
    assert carrying((("a", 0.0), ("b", 0.0))) == {"a": 0.0}
    assert list(carrying([("a", 1.0), ("b", 9.0)])) == ["b"]


def test_words_are_marked_whole_in_capitals_or_not_and_others_nowhere():
    parts = marked("Oxide, oxides and NITRIC_OXIDE; nitric", {"oxide": 1.0, "nitric": 1.0})
    assert hits(parts) == ["Oxide", "nitric"]
    assert "".join(text for text, _ in parts) == "Oxide, oxides and NITRIC_OXIDE; nitric"
    assert hits(marked("Ärzte in São Paulo", {"ärzte": 1.0, "são": 2.0})) == ["Ärzte", "São"]
    assert marked("oxides", {"oxid": 1.0}) == (("oxides", False),)
    assert marked("", {"oxid": 1.0}) == ()
    assert hits(marked("US and us", {"US": 1.0})) == ["US"]


def test_a_long_text_is_cut_to_where_most_of_the_weight_stands():
    filler = "words that nobody asked for " * 40
    text = f"{filler}common {filler}nitric oxide synthase {filler}"
    parts = marked(text, {"common": 1.0, "nitric": 5.0, "oxide": 5.0}, longest=200)
    assert hits(parts) == ["nitric", "oxide"]
    assert parts[0][0].startswith("\N{HORIZONTAL ELLIPSIS} ")
    assert parts[-1][0].endswith(" \N{HORIZONTAL ELLIPSIS}")
    shown = "".join(text for text, _ in parts)
    assert 100 < len(shown) < 210
    assert shown.strip("\N{HORIZONTAL ELLIPSIS} ") in text


@pytest.mark.parametrize("text", ["x" * 1000, " " * 1000, "nitric " * 300, "oxide" + "y" * 900])
def test_odd_long_texts_are_cut_too(text):
    shown = "".join(part for part, _ in marked(text, {"nitric": 1.0, "oxide": 1.0}, longest=100))
    assert 0 < len(shown) <= 104


def test_an_example_says_rank_score_source_and_what_is_shared_if_words_are_known():
    [example] = page_examples([QUERY])
    [document] = example.documents
    assert document.about == "rank 1, score 25.00, source wikipedia, document wiki-7"
    assert document.words == "In common: inos 9.00, oxide 6.00, nitric 5.50, inducible 4.00; 2 more add 0.50."
    assert hits(document.parts) == ["inducible", "nitric", "oxide", "iNOS"]
    assert hits(example.query.parts) == ["nitric", "oxide", "inducible", "nitric", "oxide", "iNOS"]
    [example] = page_examples([replace(QUERY, documents=[replace(DOCUMENT, terms=(), source="")])])
    assert example.documents[0].words == "No common word is known."
    assert example.documents[0].about == "rank 1, score 25.00, document wiki-7"
    assert hits(example.documents[0].parts) == hits(example.query.parts) == []


def test_values_come_back_from_json_and_an_unknown_key_is_an_error():
    [again] = shown_from([asdict(QUERY)])
    assert asdict(again) == asdict(QUERY)
    with pytest.raises(ValueError, match="extra"):
        shown_from([asdict(QUERY) | {"extra": 1}])
    with pytest.raises(ValueError, match="extra"):
        shown_from([asdict(QUERY) | {"documents": [asdict(DOCUMENT) | {"extra": 1}]}])


def test_the_page_marks_what_is_shared_and_leads_there(lean):
    page = race_page(studies.altered(lean, retrieved=[QUERY])).as_html()
    assert '<summary><h2 id="retrieved" dir="auto">What did retrieval find?</h2>' in page
    assert "enzyme <mark>inducible</mark> <mark>nitric</mark> <mark>oxide</mark> synthase (<mark>iNOS</mark>)" in page
    assert "In common: inos 9.00" in page
    assert not Page(page).open
    assert 'id="retrieved"' not in race_page(lean).as_html()


def test_markup_in_retrieved_texts_stays_text(lean):
    document = DocumentShown(NASTY, NASTY, f"{NASTY} nitric", 1, 1.0, ((NASTY, 1.0), ("onclick", 1.0)))
    page = race_page(studies.altered(lean, retrieved=[QueryShown(NASTY, NASTY, (document,))])).as_html()
    assert "<mark onclick" not in page
    assert "<mark>onclick</mark>" in page
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page
    assert not Page(page).open


def test_a_page_has_so_many_queries_and_says_of_how_many(lean):
    long = replace(DOCUMENT, text="nitric oxide and so on " * 1000)
    many = [replace(QUERY, id=f"q{number}", documents=(long,) * (DOCUMENTS + 5)) for number in range(QUERIES + 9)]
    page = race_page(studies.altered(lean, retrieved=many)).as_html()
    assert f"The first {QUERIES} of {QUERIES + 9}." in page
    assert f"The first {DOCUMENTS} of {DOCUMENTS + 5}." in page
    assert len(page) < 1_000_000
    assert "It retrieved none." in race_page(studies.altered(lean, retrieved=[replace(QUERY, documents=())])).as_html()
