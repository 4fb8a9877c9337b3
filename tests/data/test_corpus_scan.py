"""One pass over a corpus counts it, samples it, and finds what it holds of dev and test."""

import gzip
import json

import pytest

from acclimate.core.types import Document, unwatched
from acclimate.data.corpus_scan import SAMPLE, scan_corpus
from acclimate.data.leaks import Sealed
from acclimate.data.materials import RawText
from acclimate.text.corpus import write_corpus
from made_up_tasks import examples, one_word_changed, text


@pytest.fixture(scope="module")
def sealed():
    return Sealed({"dev": examples("dev", 10), "test": examples("test", 20)})


def scanned(path, sealed, **options):
    return scan_corpus("domain", RawText(path), sealed, watch=unwatched, **options)


def test_documents_characters_copies_and_empty_ones_are_counted(tmp_path, sealed):
    lines = [text("one"), "", text("two"), text("one"), "   ", text("one")]
    (tmp_path / "texts.txt").write_text("\n".join(lines) + "\n")
    found = scanned(tmp_path / "texts.txt", sealed)
    assert (found.facts.documents, found.facts.copies, found.facts.empty) == (6, 2, 2)
    assert found.facts.characters == sum(map(len, lines))
    assert found.facts.path == "texts.txt"
    [finding] = found.findings
    assert "2 of the 6 documents of the domain corpus (33.3%) are copies" in finding.what


def test_what_a_corpus_holds_of_dev_and_test_is_found_with_the_documents_to_leave_out(tmp_path, sealed):
    documents = {f"other-{number}": text(f"other {number}", 80) for number in range(300)}
    planted = {
        "exact": examples("test", 20)[3].text,
        "near": one_word_changed(examples("test", 20)[4].text),
        "longer": f"{text('before', 400)} {examples('dev', 10)[5].text} {text('after', 400)}",
        "twice": examples("test", 20)[3].text,
    }
    rows = [{"id": name, "text": words} for name, words in (documents | planted).items()]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = scanned(tmp_path / "texts.jsonl", sealed).leaks
    assert found.leaking == {"test": {"301", "302", "304"}, "dev": {"303"}}
    assert {(leak.within, leak.kind, leak.references, leak.scanned) for leak in found.leaks()} == {
        ("test", "exact", 1, 2),
        ("test", "near", 1, 1),
        ("dev", "13-gram", 1, 1),
    }
    assert found.leaked_ids("test") == {"test-3", "test-4"}


def test_files_with_other_endings_are_counted_and_a_link_is_no_second_file(tmp_path, sealed):
    (tmp_path / "a.TXT").write_text(text("one") + "\n")
    (tmp_path / "link.txt").symlink_to("a.TXT")
    for name in ("b.pdf", "c.pdf", "d.html"):
        (tmp_path / name).write_text(text(name))
    found = scanned(tmp_path, sealed)
    assert (found.facts.documents, [finding.level for finding in found.findings]) == (1, ["warning"])
    assert (
        "3 files of the domain corpus not read because of their endings: .pdf (2), .html (1)" in found.findings[0].what
    )


def test_a_corpus_that_was_made_before_is_read_as_one_and_the_sample_is_bounded_and_the_same(tmp_path, sealed):
    write_corpus([Document("a", text("a")), Document("leak", examples("test", 1)[0].text)], tmp_path / "made")
    found = scanned(tmp_path / "made", sealed)
    assert (found.facts.documents, found.leaks.leaking) == (2, {"test": {"2"}})
    (tmp_path / "texts.txt").write_text("".join(f"document {number} {'long ' * 900}\n" for number in range(900)))
    one, other = (scanned(tmp_path / "texts.txt", sealed).sample for _ in range(2))
    assert one == other
    assert len(one) == SAMPLE
    assert max(len(words) for words, _ in one) == 2_000
    assert any(int(words.split()[1]) > 600 for words, _ in one)


def test_documents_of_which_nothing_can_be_made_are_told_by_reason(tmp_path, sealed):
    lines = [json.dumps({"text": text(number)}) for number in range(9)]
    (tmp_path / "texts.jsonl").write_text("\n".join([*lines[:4], "{broken", *lines[4:], '{"body": 1}']) + "\n")
    found = scanned(tmp_path / "texts.jsonl", sealed)
    assert (found.facts.documents, found.facts.rejected) == (9, 2)
    assert [finding.level for finding in found.findings] == ["note", "note"]
    assert "1 document of the domain corpus not read" in found.findings[0].what
    assert "texts.jsonl:5" in found.findings[0].what


def test_what_cannot_be_read_is_an_error_and_what_came_before_is_counted(tmp_path, sealed):
    content = "".join(f"{text(number, 4_000)}\n" for number in range(200))
    packed = gzip.compress(content.encode())
    (tmp_path / "texts.txt.gz").write_bytes(packed[: len(packed) // 2])
    found = scanned(tmp_path / "texts.txt.gz", sealed)
    assert 0 < found.facts.documents < 200
    [finding] = found.findings
    assert finding.level == "error"
    assert "The domain corpus cannot be read" in finding.what
    assert "texts.txt.gz" in finding.what


@pytest.mark.parametrize(("content", "said"), [("\n\n", "contains no"), (None, "The domain corpus cannot be read")])
def test_nothing_to_read_is_an_error(tmp_path, sealed, content, said):
    if content is not None:
        (tmp_path / "texts.txt").write_text(content)
    [finding] = scanned(tmp_path / "texts.txt", sealed).findings
    assert (finding.level, said in finding.what) == ("error", True)
