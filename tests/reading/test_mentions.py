import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from acclimate.core.types import Rejected
from acclimate.reading.formats.annotated import Annotated, Mention, StatedMention, checked
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.reading.mentions import notes_on_mentions, tagged
from acclimate.tasks.tags import entities


def document(text: str, *surfaces: str, id: str = "d") -> Annotated:
    """Each surface form is `type:parts`, `+` between the parts of a discontinuous one; the first such in the text."""
    mentions = []
    for number, surface in enumerate(surfaces, 1):
        type, _, parts = surface.partition(":")
        place, spans = 0, []
        for part in parts.split("+"):
            place = text.index(part, place)
            spans.append((place, place + len(part)))
        mention = Mention(f"T{number}", type, tuple(spans))
        mentions.append(StatedMention(f"{id}.ann:{number}", mention, mention.surface(text)))
    read = checked(id, text, mentions, place=f"{id}.txt:1")
    assert isinstance(read, Annotated), read
    return read


MENTION = {"id": "1", "infons": {"type": "Drug"}, "text": "aspirin", "locations": [{"offset": 8, "length": 7}]}
TEXT = "Aspirin (5 mg) and beta-blockers help. Naïve T-cells do not."


def test_sentences_of_words_with_a_tag_each():
    read = tagged([document(TEXT, "Drug:Aspirin", "Drug:beta-blockers", "Cell type:T-cells")], "BIO")
    first, second = read.examples
    assert (first.id, first.group, second.id) == ("d:1", "d", "d:2")
    assert first.text == "Aspirin ( 5 mg ) and beta - blockers help ."
    assert first.label == ("B-Drug", *("O",) * 5, "B-Drug", "I-Drug", "I-Drug", "O", "O")
    assert second.text == "Naïve T - cells do not ."
    assert second.label == ("O", "B-Cell_type", "I-Cell_type", "I-Cell_type", "O", "O", "O")
    for example, spans in zip(read.examples, read.spans, strict=True):
        assert " ".join(TEXT[start:end] for start, end in spans) == example.text
    assert (read.documents, read.mentions, read.cut, read.dropped, notes_on_mentions(read, where="x")) == (
        1,
        3,
        0,
        (),
        [],
    )


def test_bioul_and_io_by_name_within_borders_of_words():
    given = document(TEXT, "Drug:Aspirin", "Drug:beta-blockers")
    assert tagged([given], "BIOUL").examples[0].label[:9] == (
        *("U-Drug", "O", "O", "O", "O", "O"),
        *("B-Drug", "I-Drug", "L-Drug"),
    )
    assert set(tagged([given], "IO").examples[0].label) == {"I-Drug", "O"}
    read = tagged([document("anti-IL2receptor therapy and mice", "Gene:IL2", "Animal:mice")], "BIO")
    assert read.examples[0].text == "anti - IL2 receptor therapy and mice"
    assert entities(read.examples[0].label) == {(2, 2, "Gene"), (6, 6, "Animal")}
    assert read.cut == 1
    assert notes_on_mentions(read, where="x") == ["x: 1 words were split where a mention begins or ends inside them."]


def test_of_mentions_that_overlap_the_longest_is_kept():
    given = document(
        "human IL-2 receptor alpha chain", "Gene:IL-2", "Protein:IL-2 receptor", "Organ:receptor alpha", "Species:human"
    )
    read = tagged([given], "BIO")
    # both IL-2 receptor and receptor alpha are long; the longer one wins, and IL-2 no longer overlaps what is kept
    assert entities(read.examples[0].label) == {(0, 0, "Species"), (1, 3, "Gene"), (4, 5, "Organ")}
    assert [rejected.place for rejected in read.dropped] == ["d.txt:1"]
    assert "Protein T2, 'IL-2 receptor', overlaps a mention that is longer" in read.dropped[0].reason
    assert read.mentions == 4
    same = tagged([document("aspirin", "Drug:aspirin", "Chemical:aspirin")], "BIO")
    assert same.examples[0].label == ("B-Drug",)
    assert notes_on_mentions(same, where="x")[0].startswith(
        "x: 1 of 2 mentions have no tag. The first: d.txt:1: 'd': Chemical T2"
    )


def test_a_discontinuous_mention_is_tagged_with_the_words_between():
    given = document("breast and ovarian cancer", "Disease:ovarian cancer", "Disease:breast+cancer")
    whole = tagged([given], "BIO")
    assert entities(whole.examples[0].label) == {(0, 3, "Disease")}
    assert (whole.discontinuous, len(whole.dropped)) == (1, 1)


def test_entities_that_touch_are_one_in_io():
    given = document("calcium chloride", "Drug:calcium", "Drug:chloride")
    assert tagged([given], "BIO").merged == 0
    read = tagged([given], "IO")
    assert read.examples[0].label == ("I-Drug", "I-Drug")
    assert read.merged == 1
    assert "touch another of the same type" in notes_on_mentions(read, where="x")[0]


def test_no_sentence_ends_within_a_mention_and_rejected_documents_are_counted():
    read = tagged([document("We saw St. John. Wort. It died.", "Plant:St. John. Wort")], "BIO")
    assert [len(example.text.split()) for example in read.examples] == [8, 3]
    blank = tagged([document("It died. We saw.", "X: We ", "Y: ")], "BIO")
    assert [example.label for example in blank.examples] == [("O", "O", "O"), ("B-X", "O", "O")]
    assert "covers no visible character" in blank.dropped[0].reason
    read = tagged([Rejected("a.ann:3", "why"), document(TEXT), Rejected("b.ann:1", "too")], "BIO")
    assert (read.documents, len(read.rejected), len(read.examples)) == (3, 2, 2)
    assert [rejected.place for rejected in read.rejected] == ["a.ann:3", "b.ann:1"]


def corpus(folder: Path, documents: int, bad: int = 0, dose: str = "") -> Path:
    """BRAT's: two sentences a document, two mentions in the first, a note and a relation."""
    folder.mkdir()
    for number in range(documents):
        drug = f"drug{number}"
        text = f"We gave {drug} to rats. They slept {number}{dose} h."
        (folder / f"{number}.txt").write_text(text)
        place = 8 + (number < bad)
        lines = [
            f"T1\tDrug {place} {place + len(drug)}\t{drug}",
            f"T2\tAnimal {text.index('rats')} {text.index('rats') + 4}\trats",
            "#1\tAnnotatorNotes T1\tx",
            "R1\tin Arg1:T1 Arg2:T2",
        ]
        (folder / f"{number}.ann").write_text("\n".join(lines), encoding=("utf-8", "utf-8-sig")[number % 2])
    return folder


def test_a_folder_of_brats_is_a_labelled_file(tmp_path):
    read = read_files(LabelledFiles(corpus(tmp_path / "corpus", 30, bad=2), kind="tokens"))
    assert read.labels == ("B-Animal", "B-Drug", "O")
    assert read.metric.name == "entity_f1"
    assert [(file.rows, file.accepted, len(file.rejected)) for file in read.files] == [(58, 56, 2)]
    split_of = {example.id: split for split, examples in read.splits.items() for example in examples}
    assert len(split_of) == 56
    # the sentences of a document stay on one side of our split
    assert all(split_of[id] == split_of[id.replace(":2", ":1")] for id in split_of)
    notes = " ".join(read.notes)
    assert "not used: note (28), relation (28)" in notes
    assert "2 of 58 rows were rejected; the first is 0.ann:1: document '0', mention 'T1'" in notes
    stated = LabelledFiles(tmp_path / "corpus", test=corpus(tmp_path / "other", 3, dose=".5"), kind="tokens")
    assert {example.group for example in read_files(stated).splits["test"]} == {"test/0", "test/1", "test/2"}
    for options in ({"group": "nope"}, {"id": "a"}, {"text": "b"}):
        with pytest.raises(ValueError, match="documents with mentions, without columns"):
            read_files(replace(stated, **options))


def test_pubtator_and_bioc_are_labelled_files_too(tmp_path):
    passages = [{"offset": 0, "text": "We gave aspirin.", "annotations": [MENTION]}]
    (tmp_path / "dev.json").write_text(json.dumps([{"id": "d", "passages": passages}]))
    blocks = [f"{number}|t|We gave aspirin {number}.\n{number}\t8\t15\taspirin\tDrug\n" for number in range(30)]
    (tmp_path / "train.pubtator.gz").write_bytes(gzip.compress("\n".join(blocks).encode()))
    read = read_files(LabelledFiles(tmp_path / "train.pubtator.gz", dev=tmp_path / "dev.json", kind="tokens"))
    assert read.splits["dev"][0].label == ("O", "O", "B-Drug", "O")
    assert len(read.splits["train"]) + len(read.splits["test"]) == 30


def test_a_corpus_of_which_most_cannot_be_used_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"only 2 of 5 rows can be used.*mention 'T1'"):
        read_files(LabelledFiles(corpus(tmp_path / "corpus", 5, bad=3), kind="tokens"))
    read = read_files(LabelledFiles(corpus(tmp_path / "more", 20)))
    assert (read.kind, read.notes[0]) == ("tokens", "more has BRAT's annotations, so it is read as --kind tokens.")
    with pytest.raises(ValueError, match=r"0\.ann: has BRAT's annotations.* Name the folder with both"):
        read_files(LabelledFiles(tmp_path / "more" / "0.ann"))


@pytest.mark.parametrize("scheme", ["BIO", "BIOUL", "IO"])
def test_every_mention_is_an_entity_or_dropped_or_merged(scheme):
    text = "a bc-de f. Gh ij? Kl mn. Op qr-st. " * 4
    spans = [(first, first + 1 + (first * 7) % 9) for first in range(0, 120, 3)]
    mentions = tuple(Mention(f"T{first}", "ab"[first % 2], ((first, last),)) for first, last in spans)
    given = replace(document(text), mentions=mentions)
    read = tagged([given], scheme)  # type: ignore[arg-type]
    found = sum(len(entities(example.label)) for example in read.examples)
    assert found + len(read.dropped) + read.merged == read.mentions == len(mentions)
    assert all(len(example.label) == len(example.text.split(" ")) for example in read.examples)
