"""An examination goes through JSON unchanged, and its page shows all of it without acting on the terminal."""

import json
from dataclasses import replace

import pytest
from rich.cells import cell_len

from acclimate.data.examination import (
    Copies,
    CorpusFacts,
    Examination,
    FileFacts,
    Finding,
    Leak,
    Lengths,
    Pieces,
    Sighting,
)
from acclimate.reports.page import WIDTH

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e<script>"
SIGHTING = Sighting("train-1", "test-2", 0.91, "shared words", f"one {HOSTILE} text", "another 文本", "acid", "base")


@pytest.fixture
def whole():
    """Every part filled; the texts are those of somebody who means ill."""
    return Examination(
        task={"name": f"salts {HOSTILE}", "kind": "sequence", "metric": "macro_f1", "labels": "2", "model": "bert"},
        files=(FileFacts("train.csv", 12, 10, 2, ((f"the text is {HOSTILE!r}", 2, "train.csv:3, train.csv:9"),)),),
        splits={"train": 10, "dev": 3, "test": 4},
        label_counts={"train": {HOSTILE: 6, "base": 4}, "dev": {"base": 3}, "test": {"base": 3, "acid": 1}},
        quantiles={"train": (0.0, 1.0, 2.5, 3.0, 5.0)},
        lengths=Lengths("tokens", 17, 40, 90, 700, 64, 512, 0.25, 0.05, 0.12, 96),
        pieces=(Pieces("task", 17, 500, 1.6, 0.7, 0.001, ((f"nalox{HOSTILE}", 4, 9),)),),
        corpora=(CorpusFacts("domain", "abstracts", 1_000, 2_000_000, 30, 1),),
        leaks=(
            Leak("train", "test", "near", 2, 1, 0.25, 1, (SIGHTING,)),
            Leak("domain", "test", "passage", 7, 2, 0.5),
        ),
        copies=(Copies("train", 1, 1, 1, (SIGHTING,)),),
        leaked={"test": frozenset({"test-2"}), "train": frozenset({"train-1", "train-2"}), "domain": frozenset()},
        findings=(
            Finding("error", f"The corpus {HOSTILE} cannot be read.", "Mend it."),
            Finding("note", "Little."),
        ),
        detectable=0.034,
        reach="A difference of 3.4 points would be found.",
    )


def test_json_gives_the_same_examination_back_with_leaked_ids_sorted(whole):
    assert Examination.from_json(json.loads(json.dumps(whole.to_json()))) == whole
    nothing = replace(whole, lengths=None, detectable=None, leaks=(), pieces=())
    assert Examination.from_json(json.loads(json.dumps(nothing.to_json()))) == nothing
    assert whole.to_json()["leaked"]["train"] == ["train-1", "train-2"]


def test_the_page_shows_every_part(whole):
    page = whole.as_text(details=True)
    for shown in (
        "2 labels, macro-F1",
        "error: The corpus",
        "Mend it.",
        "3.4 points",
        "train.csv",
        "60.0%",
        "2.5",
        "abstracts",
        "1.60",
        "test in train",
        "nearly the same",
        "another 文本",
        "not a leak",
        "with different labels",
    ):
        assert shown in page, shown
    assert page.index("error:") < page.index("note:") < page.index("Files")


def test_the_page_acts_on_no_terminal_is_the_same_every_time_and_leaves_out_what_is_empty(whole):
    page = whole.as_text(details=True)
    assert all(character == "\n" or character.isprintable() for character in page)
    assert "\\x1b]0;owned" in page
    assert max(map(cell_len, page.splitlines())) <= WIDTH
    assert whole.as_text() == whole.as_text()
    little = replace(
        whole, corpora=(), leaks=(), copies=(), pieces=(), lengths=None, quantiles={}, findings=(), label_counts={}
    )
    page = little.as_text(details=True)
    assert "No problems were found in these files." in page
    for title in ("Corpora", "Lengths", "Numbers", "Labels", "elsewhere", "more than once", "pieces"):
        assert title not in page


def test_the_terminal_gets_ten_findings_to_act_on_and_the_option_for_the_rest(whole):
    notes = [Finding("note", f"Note {number}.", "Do this.") for number in range(12)]
    page = replace(whole, findings=(*whole.findings, *notes, Finding("reading", "Tags are BIO."))).as_text()
    assert page.index("Tags are BIO.") < page.index("Findings")
    assert page.count("note:") == 9
    assert "Little." not in page
    assert "4 other findings and the tables: --details" in page
    assert "train.csv" not in page
    assert "3.4 points" in page


def test_the_page_says_what_the_table_of_tagged_words_counts(whole):
    task = {"name": "names", "kind": "tokens", "metric": "entity_f1", "labels": "11"}
    tagged = replace(whole, task=task, label_counts={"train": {"Disease": 4, "Drug": 3}})
    page = " ".join(tagged.as_text(details=True).split())
    assert "11 tags" in page
    assert "Sentences with entities of a type. A sentence may count in several lines." in page
