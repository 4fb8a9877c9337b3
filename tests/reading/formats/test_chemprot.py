"""ChemProt's three files become BLURB's examples."""

import gzip
from collections import Counter
from pathlib import Path

import pytest

from acclimate.core.types import Example, Rejected
from acclimate.reading.formats.chemprot import FILES, chemprot_documents, chemprot_examples

DATA = Path(__file__).parents[4] / "shared" / "data" / "blurb" / "chemprot"

ABSTRACTS = 'p1\tAspirin "blocks" COX-2.\tIt spares COX-1. So does DF.\np2\tNothing.\tNothing at all.\n'
ENTITIES = (
    "p1\tT1\tCHEMICAL\t0\t7\tAspirin\n"
    "p1\tT2\tGENE-Y\t17\t22\tCOX-2\n"
    "p1\tT3\tGENE-N\t34\t39\tCOX-1\n"
    "p1\tT4\tCHEMICAL\t49\t51\tDF\n"
)
RELATIONS = "p1\tCPR:4\tY \tINHIBITOR\tArg1:T1\tArg2:T2\n"


@pytest.fixture
def paths(tmp_path):
    def write(abstracts=ABSTRACTS, entities=ENTITIES, relations=RELATIONS):
        contents = {"abstracts": abstracts, "entities": entities, "relations": relations}
        for name, content in contents.items():
            (tmp_path / f"{name}.tsv").write_text(content, encoding="utf-8")
        return [tmp_path / f"{name}.tsv" for name in contents]

    return write


def test_offsets_are_into_title_and_abstract_and_the_gold_standard_has_fewer_columns(paths):
    first, second = chemprot_documents(*paths())
    assert [mention.surface(first.text) for mention in first.mentions] == ["Aspirin", "COX-2", "COX-1", "DF"]
    assert [(relation.type, relation.first, relation.second) for relation in first.relations] == [("CPR:4", "T1", "T2")]
    assert (first.id, second.id, second.mentions, first.place) == ("p1", "p2", (), "abstracts.tsv:1")
    first, _ = chemprot_documents(*paths(relations="p1\tCPR:4\tArg1:T1\tArg2:T2\n"))
    assert first.relations[0].type == "CPR:4"


@pytest.mark.parametrize(
    ("change", "place", "reason"),
    [
        ({"abstracts": "p1\tOnly a title\n"}, "abstracts.tsv:1", "2 fields"),
        ({"entities": ENTITIES.replace("\t17\t", "\t16\t")}, "entities.tsv:2", "its surface form is 'COX-2', but"),
        ({"entities": ENTITIES.replace("\t17\t", "\tx\t")}, "entities.tsv:2", "start, end"),
        ({"entities": f"{ENTITIES}p9\tT1\tCHEMICAL\t0\t1\tA\n"}, "entities.tsv:5", "there is no abstract 'p9'"),
        ({"relations": "p1\tCPR:4\tY \tArg1:T1\tArg2:T2\n"}, "relations.tsv:1", "5 fields"),
        ({"relations": RELATIONS.replace("T2", "T9")}, "relations.tsv:1", "refers to 'T9'"),
    ],
)
def test_what_cannot_be_used_is_rejected_with_file_and_line(paths, change, place, reason):
    rejected = [each for each in chemprot_documents(*paths(**change)) if isinstance(each, Rejected)]
    assert place in [each.place for each in rejected]
    assert any(reason in each.reason for each in rejected)


def test_pairs_are_those_of_a_sentence(tmp_path):
    for name, content in zip(FILES["dev"], (ABSTRACTS, ENTITIES, RELATIONS), strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
    assert list(chemprot_examples(tmp_path, "dev")) == [
        Example("p1.T1.T2", '@CHEMICAL$ "blocks" @GENE$.', "CPR:4", None, "p1", ((0, 10), (20, 26)))
    ]


@pytest.mark.skipif(not DATA.exists(), reason="the original corpus is not there")
def test_dev_is_blurbs_but_for_one_sentence():
    # Punkt keeps "vitamin A. Inactive persons" together: it never saw "inactive" in lower case
    rows = list(chemprot_examples(DATA / "original", "dev"))
    assert Counter(each.label for each in rows) == {
        "false": 8848, "CPR:4": 1091, "CPR:3": 546, "CPR:9": 457, "CPR:6": 199, "CPR:5": 115
    }  # fmt: skip
    with gzip.open(DATA / "blurb_dev.tsv.gz", "rt", encoding="utf-8") as file:
        blurb = {pair_of(id): (text, label) for id, text, label in (line.rstrip("\n").split("\t") for line in file)}
    ours = {pair_of(each.id): (each.text, each.label) for each in rows}
    assert (len(blurb), len(ours)) == (11268, 11256)
    assert {document for document, _ in blurb.keys() - ours.keys()} == {"17578749"}
    assert all(ours[pair][1] == blurb[pair][1] for pair in ours)
    assert sum(ours[pair][0] != blurb[pair][0] for pair in ours) == 24


def pair_of(id):
    document, *mentions = id.split(".")
    return document, frozenset(mentions)
