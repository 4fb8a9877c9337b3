import gzip
import json
import random

import pytest

from acclimate.core.types import Progress
from acclimate.text import filters, preparation
from acclimate.text.overlap.near_duplicates import grams
from acclimate.text.overlap.words import jaccard
from acclimate.text.preparation import CorpusRecipe, as_csv, as_text, prepare_corpus

WORDS = ("the", "cell", "was", "found", "in", "of", "and", "a", "to", "that", "with", "rats", "liver", "dose", "by")
ARTICLE = (
    '<PubmedArticle><MedlineCitation><PMID Version="1">{}</PMID><Article><ArticleTitle>{}</ArticleTitle></Article>'
    "</MedlineCitation></PubmedArticle>"
)


def sentence(generator, words=30):
    return " ".join(generator.choices(WORDS, k=words))


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """Three files of lines, with repeated, short, long, foreign and useless documents among them; and PubMed's."""
    folder, generator = tmp_path_factory.mktemp("raw"), random.Random(0)
    base = [sentence(generator) for _ in range(120)]
    nearly = " ".join(
        f"{word} thing" if place == 3 else word for place, word in enumerate(sentence(generator, 90).split())
    )
    extra = [
        "too short",
        "un texte de la langue que les gens ont dans le pays et pour la vie avec des mots",
        "",
        base[3].upper(),
    ]
    rows = [{"text": text, "id": f"d{number}"} for number, text in enumerate([*base, *extra, " ".join(["the"] * 500)])]
    rows += [{"text": nearly, "id": "n1"}, {"text": nearly.replace("thing", "item"), "id": "n2"}]
    lines = [json.dumps(row) for row in rows] + ["{broken", json.dumps({"no": "text"})]
    for number in range(3):
        (folder / f"{number}.jsonl").write_text("\n".join(lines[number::3]) + "\n")
    articles = [ARTICLE.format(pmid, sentence(generator, 40)) for pmid in (1, 2, 3)]
    later = [ARTICLE.format(2, "the cell was not found in the liver of rats after a dose " * 2)]
    deletions = "<DeleteCitation><PMID>3</PMID></DeleteCitation>"
    for name, inside in (("p1", "".join(articles)), ("p2", "".join(later) + deletions)):
        content = f"<PubmedArticleSet>{inside}</PubmedArticleSet>".encode()
        (folder / f"{name}.xml.gz").write_bytes(gzip.compress(content, mtime=0))
    return folder


RECIPE = CorpusRecipe(language="en", least_words=4, most_words=300)


@pytest.fixture(scope="module")
def done(raw, tmp_path_factory):
    return prepare_corpus([raw], tmp_path_factory.mktemp("done") / "out", RECIPE)


def contents(folder):
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != "plan.json"
    }


def test_every_document_is_kept_or_counted_once(raw, done):
    facts = done.facts
    kept = {document.id: document.text for document in done.corpus.documents()}
    assert facts["documents"] == {
        "read": 131, "rejected": 2, "short": 1, "language": 1, "empty": 1, "long": 1, "repeated": 1,
        "nearly repeated": 1, "replaced": 1, "deleted": 1,
    }  # fmt: skip
    assert len(kept) == facts["kept"]["documents"] == 131 - 8
    assert "2" in kept
    assert kept["2"].startswith("the cell was not found")
    assert not {"3", "d120", "d121", "d122", "d124"} & {*kept}
    assert ("n1" in kept) != ("n2" in kept)
    assert ("d3" in kept) != ("d123" in kept)
    lost = sum(facts["characters"].get(kind, 0) for kind in facts["characters"] if kind != "read")
    assert facts["kept"]["characters"] == facts["characters"]["read"] - lost == done.corpus.characters
    runs = [grams(text) for text in kept.values()]
    assert not any(jaccard(one, other) >= 0.8 for place, one in enumerate(runs) for other in runs[:place])


def test_the_report_says_what_was_left_out_and_shows_some(done):
    text = as_text(done.facts)
    assert "fewer than 4 words" in text
    assert "in another language than en: d121 (fr): un texte de la langue" in text
    assert (
        "cannot be used: 0.jsonl:" in text or "cannot be used: 1.jsonl:" in text or "cannot be used: 2.jsonl:" in text
    )
    assert "und: unknown): en 12" in text
    lines = as_csv(done.facts).splitlines()
    assert lines[0] == "what,documents,characters"
    assert lines[1].startswith("read,133,")
    assert lines[-1] == f"kept,123,{done.corpus.characters}"


@pytest.mark.parametrize("killed_at", [0, 1, 4])
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(raw, done, tmp_path, monkeypatch, killed_at):
    monkeypatch.setattr(filters, "UNIT", 5000)
    monkeypatch.setattr(filters, "PART", 3000)
    writes = []
    write = filters.write_json

    def killed(path, value):
        if len(writes) == killed_at:
            raise KeyboardInterrupt
        writes.append(path)
        write(path, value)

    with monkeypatch.context() as context:
        context.setattr(filters, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            prepare_corpus([raw], tmp_path / "out", RECIPE)
    read = []
    real = filters.document_of
    monkeypatch.setattr(filters, "document_of", lambda *given: read.append(given[0]) or real(*given))
    again = prepare_corpus([raw], tmp_path / "out", RECIPE)
    assert again.corpus.hash == done.corpus.hash
    assert contents(again.path / "corpus") == contents(done.path / "corpus")
    assert again.facts == done.facts
    assert (len(read) < 133) == (killed_at > 0)
    assert sorted(file.name for file in again.path.iterdir()) == ["corpus", "plan.json", "preparation.json"]


def test_a_finished_one_is_read_and_not_done_again(raw, done, monkeypatch):
    monkeypatch.setattr("acclimate.text.preparation.read_unit", None)
    assert prepare_corpus([raw], done.path, RECIPE) == done


def test_several_processes_write_the_same_bytes(raw, done, tmp_path, monkeypatch):
    monkeypatch.setattr(filters, "UNIT", 5000)
    again = prepare_corpus([raw], tmp_path / "out", RECIPE, processes=2)
    assert contents(again.path) == contents(done.path)


def test_files_that_are_passed_over_are_named(tmp_path):
    for name in ("a.txt", "notes.docx", "b/old.pdf", "b/.hidden.pdf", "b/c.jsonl.md5"):
        (tmp_path / "raw" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "raw" / name).write_text("Some words that are read.\n")
    facts = prepare_corpus([tmp_path / "raw"], tmp_path / "out", CorpusRecipe()).facts
    assert facts["unread"] == ["b/c.jsonl.md5", "b/old.pdf", "notes.docx"]
    assert "Not read because of their endings: b/c.jsonl.md5, b/old.pdf, notes.docx." in as_text(facts)


def test_progress_is_told(raw, tmp_path):
    told: list[Progress] = []
    prepare_corpus([raw], tmp_path / "out", CorpusRecipe(near=0, exact=False), watch=told.append)
    assert {progress.stage for progress in told} >= {"reading", "writing"}


def test_other_settings_files_or_another_recogniser_in_the_same_place_are_refused(raw, done, monkeypatch):
    with pytest.raises(ValueError, match="contains a preparation with other settings"):
        prepare_corpus([raw], done.path, CorpusRecipe())
    with pytest.raises(ValueError, match="contains a preparation with other files"):
        prepare_corpus([raw / "0.jsonl"], done.path, RECIPE)
    monkeypatch.setattr(preparation, "RECOGNISER", "py3langid 0")
    with pytest.raises(ValueError, match="contains a preparation with other recogniser"):
        prepare_corpus([raw], done.path, RECIPE)


def test_a_file_that_was_refused_may_be_mended_and_the_same_call_goes_on(tmp_path):
    """It takes no other place, and nothing of the first try is left."""
    file, told = tmp_path / "a.txt", []
    file.write_bytes("la cellule \xe9tait l\xe0\n".encode("latin-1") * 4)
    with pytest.raises(ValueError, match="UTF-8"):
        prepare_corpus([file], tmp_path / "out", CorpusRecipe())
    file.write_text("la cellule \xe9tait l\xe0\n" * 4, encoding="utf-8")
    made = prepare_corpus([file], tmp_path / "out", CorpusRecipe(), watch=told.append)
    assert [document.text for document in made.corpus.documents()] == ["la cellule \xe9tait l\xe0"]
    assert "read again" in told[0].values["note"]


def test_text_of_which_nothing_is_left_and_a_file_named_twice_are_refused(raw, tmp_path):
    with pytest.raises(ValueError, match=r"no document remains \(.*short: 13"):
        prepare_corpus([raw], tmp_path / "out", CorpusRecipe(least_words=1000))
    with pytest.raises(ValueError, match=r"0\.jsonl: is named twice"):
        prepare_corpus([raw, raw / "0.jsonl"], tmp_path / "out", CorpusRecipe())
