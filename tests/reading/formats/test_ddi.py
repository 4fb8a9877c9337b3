"""DDIExtraction's archive and lists of files become BLURB's examples."""

import gzip
import io
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from acclimate.core.types import Rejected
from acclimate.reading.formats.ddi import ARCHIVE, ddi_documents, ddi_examples

DATA = Path(__file__).parents[4] / "shared" / "data" / "blurb" / "ddi"

XML = """<?xml version="1.0" encoding="UTF-8"?>
<document id="D.d1">
    <sentence id="D.d1.s0" text="Read me."/>
    <sentence id="D.d1.s1" text="ACE or renin inhibitors &lt; aspirin.&#xd;&#xa;">
        <entity id="D.d1.s1.e0" charOffset="0-2;13-22" type="group" text="ACE inhibitors"/>
        <entity id="D.d1.s1.e1" charOffset="7-22" type="group" text="renin inhibitors"/>
        <entity id="D.d1.s1.e2" charOffset="26-32" type="drug" text="aspirin"/>
        <pair id="D.d1.s1.p0" e1="D.d1.s1.e0" e2="D.d1.s1.e1" ddi="false"/>
        <pair id="D.d1.s1.p1" e1="D.d1.s1.e0" e2="D.d1.s1.e2" ddi="true" type="effect"/>
        <pair id="D.d1.s1.p2" e1="D.d1.s1.e1" e2="D.d1.s1.e2" ddi="false"/>
    </sentence>
</document>
"""


@pytest.fixture
def folder(tmp_path):
    def write(xml=XML, listed="train_dataset/one.xml\n"):
        with tarfile.open(tmp_path / ARCHIVE, "w:gz") as archive:
            content = xml.encode()
            member = tarfile.TarInfo("DDIextraction_2013/train_dataset/one.xml")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        (tmp_path / "dev_files.tsv").write_text(listed)
        return tmp_path

    return write


def test_pairs_of_a_sentence_with_discontinuous_and_overlapping_drugs(folder):
    assert [(each.id, each.text, each.label, each.group) for each in ddi_examples(folder(), "dev")] == [
        ("D.d1.s1.e0.s1.e1", "@DRUG-DRUG$ < aspirin.  ", "DDI-false", "D.d1"),
        ("D.d1.s1.e0.s1.e2", "@DRUG$ < @DRUG$.  ", "DDI-effect", "D.d1"),
        ("D.d1.s1.e1.s1.e2", "ACE or @DRUG$ < @DRUG$.  ", "DDI-false", "D.d1"),
    ]


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_mention_one_character_beside_its_offsets_is_moved_to_where_it_stands(folder, shift):
    stated = f"{26 + shift}-{32 + shift}"
    [document] = ddi_documents(folder(XML.replace("26-32", stated)) / ARCHIVE)
    assert [mention.surface(document.text) for mention in document.mentions] == [
        "ACE inhibitors",
        "renin inhibitors",
        "aspirin",
    ]


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("26-32", "24-30", 7, "its surface form is 'aspirin', but characters"),
        ("26-32", "26", 7, "the offsets '26' must have a form such as 0-6"),
        (' type="effect"', "", 9, "the element 'pair' has no attribute 'type'"),
        ('e2="D.d1.s1.e2" ddi="true"', 'e2="D.d1.s1.e9" ddi="true"', 9, "refers to 's1.e9'"),
    ],
)
def test_what_cannot_be_used_is_rejected_with_file_and_line(folder, old, new, line, reason):
    [rejected] = ddi_documents(folder(XML.replace(old, new)) / ARCHIVE)
    assert isinstance(rejected, Rejected)
    assert rejected.place == f"{ARCHIVE}/DDIextraction_2013/train_dataset/one.xml:{line}"
    assert reason in rejected.reason


def test_a_listed_file_that_is_not_there_is_named(folder):
    with pytest.raises(ValueError, match=r"lacks 'train_dataset/two\.xml'"):
        list(ddi_examples(folder(listed="train_dataset/two.xml\n"), "dev"))


@pytest.mark.skipif(not DATA.exists(), reason="the original corpus is not there")
def test_test_is_blurbs_to_the_character():
    rows = list(ddi_examples(DATA, "test"))
    with gzip.open(DATA / "test.tsv.gz", "rt", encoding="utf-8", newline="\n") as file:
        blurb = [line.rstrip("\n").split("\t")[1:] for line in file]
    assert len(rows) == 5716
    assert Counter((each.text, each.label) for each in rows) == Counter((text, label) for text, label in blurb)
