"""Vocabularies compared on made-up texts: three topics' words, and general ones."""

import csv
import io
from dataclasses import replace

import pytest
from tests.races.test_report import Page
from transformers import AutoTokenizer
from typer.testing import CliRunner

import toys
from acclimate import cli
from acclimate.analyses.vocabularies import (
    IN_DOMAIN,
    Judged,
    VocabulariesAnalysis,
    Vocabulary,
    VocabularyRecipe,
    compare_vocabularies,
    entries,
    held_out,
    term_pieces,
    write_page,
)
from acclimate.core.types import Document
from acclimate.data.examination import Pieces
from acclimate.text.corpus import write_corpus
from acclimate.text.documents import read_documents
from acclimate.text.terms import Term
from acclimate.text.vocabulary import KINDS, train_tokenizer

NASTY = "<script>alert(1)</script> \N{RIGHT-TO-LEFT OVERRIDE}"


@pytest.fixture(scope="module")
def corpora(toy_inputs, tmp_path_factory):
    place = tmp_path_factory.mktemp("corpora")
    return {
        name: write_corpus(read_documents(toy_inputs / f"{name}.txt"), place / name) for name in ("domain", "general")
    }


@pytest.fixture(scope="module")
def models(corpora, tmp_path_factory):
    """A small tokenizer of each kind, which breaks most words, learnt from general words alone."""
    place = tmp_path_factory.mktemp("models")
    words = write_corpus([Document("0", " ".join([*toys.PLAIN * 3, *"abcdefghijklmnopqrstuvwxyz."]))], place / "words")
    for kind in KINDS:
        train_tokenizer(words, kind=kind, size=300).save_pretrained(place / kind)
    return {kind: place / kind for kind in KINDS}


@pytest.fixture(scope="module")
def analysis(corpora, models, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    given = {"models": [*map(str, models.values())], "general": corpora["general"], "name": "domain.txt"}
    return compare_vocabularies(VocabularyRecipe(size=300), corpora["domain"], out, **given), out


@pytest.mark.parametrize("kind", KINDS)
def test_fertility_is_pieces_of_words_of_texts_that_were_set_aside(kind, analysis, models, corpora):
    found = dict(zip([*KINDS, IN_DOMAIN], analysis[0].vocabularies, strict=True))[kind]
    tokenizer = AutoTokenizer.from_pretrained(models[kind])
    texts = [document.text for document in corpora["domain"].take(held_out(corpora["domain"], 0).numbers)]
    words = [word for text in texts for word in text.rstrip(".").split()]
    pieces = [len(term_pieces(word, tokenizer)) for word in words]
    assert found.texts.words == len(words)
    first = 0 if kind != "bpe" else 0.2  # no space stands before a text's first word, so its bytes are others
    assert found.texts.per_word == pytest.approx(sum(pieces) / len(words), abs=0.001 + first)
    assert found.texts.whole == pytest.approx(sum(count == 1 for count in pieces) / len(words), abs=0.001 + first)
    counts = [len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]
    assert found.per_text == pytest.approx(sum(counts) / len(texts))


def test_an_in_domain_vocabulary_keeps_the_terms_whole_that_others_shatter(analysis):
    result = analysis[0]
    *others, learnt = result.vocabularies
    assert learnt.name == IN_DOMAIN
    assert learnt.texts.per_word == pytest.approx(1.0)
    assert min(other.texts.per_word for other in others) > 1.3
    assert result.whole(3) == len(result.terms) > 0
    assert result.advice().startswith("Your texts break into ")
    assert f"{learnt.texts.per_word:.2f} under an in-domain vocabulary." in result.advice()
    assert "fewer pieces than" in result.way_out()


def test_no_text_that_is_measured_on_is_learnt_from(corpora):
    held = held_out(corpora["domain"], 0)
    aside = {document.id for document in corpora["domain"].take(held.numbers)}
    assert len(aside) == len(corpora["domain"]) // 10
    assert aside.isdisjoint(document.id for document in held.documents())
    assert len([*held.documents()]) == len(held) == len(corpora["domain"]) - len(aside)
    assert held_out(corpora["domain"], 1).numbers != held.numbers


def test_entries_are_compared_by_what_they_spell_and_where(models, corpora):
    found = {kind: entries(AutoTokenizer.from_pretrained(path)) for kind, path in models.items()}
    for kind in KINDS:
        assert {("found", True), ("n", False)} <= found[kind], kind
        assert not {text for text, _ in found[kind]} & {"[MASK]", "<mask>", "##n"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_pieces_of_a_term_are_those_within_a_text(kind, models):
    tokenizer = AutoTokenizer.from_pretrained(models[kind])
    assert term_pieces("found", tokenizer) == ("found",)
    assert "".join(term_pieces("Zaz", tokenizer)).replace("##", "").lstrip("\N{OPEN BOX}") == "zaz"
    assert term_pieces("\u0416", tokenizer)[-1] == {"bpe": "\N{REPLACEMENT CHARACTER}"}.get(kind, "[UNK]")
    assert term_pieces("found time", tokenizer) == ("found", "time")


def test_a_term_with_an_unknown_part_is_not_whole():
    judged = Judged(Term("x y"), (("x", "y"), ("[UNK]", "y"), ("x", "##x", "y")))
    assert [judged.whole(number) for number in range(3)] == [True, False, False]


def test_the_vocabulary_is_learnt_once_and_never_mixed_up(analysis, corpora):
    _, out = analysis
    before = (out / "tokenizer" / "tokenizer.json").stat().st_mtime_ns
    again = compare_vocabularies(
        VocabularyRecipe(size=300, most_terms=3), corpora["domain"], out, general=corpora["general"]
    )
    assert (out / "tokenizer" / "tokenizer.json").stat().st_mtime_ns == before
    assert len(again.terms) == 3
    with pytest.raises(ValueError, match="learnt from other texts or with other settings"):
        compare_vocabularies(VocabularyRecipe(size=301), corpora["domain"], out)
    with pytest.raises(ValueError, match="learnt from other texts or with other settings"):
        compare_vocabularies(VocabularyRecipe(size=300), corpora["general"], out)


def test_without_an_in_domain_one_the_last_model_is_what_entries_are_shared_with(corpora, models, tmp_path):
    two = [str(models["wordpiece"]), str(models["unigram"])]
    found = compare_vocabularies(VocabularyRecipe(size=0), corpora["domain"], tmp_path, models=two)
    assert [each.name for each in found.vocabularies] == ["wordpiece", "unigram"]
    assert found.vocabularies[1].shared is None
    assert 0 < found.vocabularies[0].shared < 1
    best, worst = sorted(found.vocabularies, key=lambda each: each.per_text)
    fewer = 1 - best.per_text / worst.per_text
    assert found.way_out() == (
        f"{best.name} spells them in the fewest pieces: {fewer:.0%} fewer than {worst.name} does."
    )
    assert "No terms were examined." in found.as_text()
    assert not (tmp_path / "tokenizer").exists()


def test_what_cannot_be_compared_is_refused(corpora, tmp_path):
    with pytest.raises(ValueError, match=r"there is no vocabulary to analyse\. Add --model"):
        compare_vocabularies(VocabularyRecipe(size=0), corpora["domain"], tmp_path)
    few = write_corpus([Document(str(number), "a text") for number in range(9)], tmp_path / "few")
    with pytest.raises(ValueError, match="9 texts, but a tenth of them is reserved for"):
        compare_vocabularies(VocabularyRecipe(), few, tmp_path)
    with pytest.raises(ValueError, match="kind is 'words'"):
        VocabularyRecipe(kind="words")
    with pytest.raises(ValueError, match="most_terms = 0 is out of range: at least 1"):
        VocabularyRecipe(most_terms=0)


def made_up() -> VocabulariesAnalysis:
    pieces = Pieces("texts", 10, 100, 1.9, 0.4, 0.00001, (("acetyltransferase", 7, 3),))
    model = Vocabulary(f"model {NASTY}", "WordPiece", True, 30_522, 190.0, pieces, 1.1, 0.44)
    learnt = replace(model, name=IN_DOMAIN, per_text=120.0, texts=replace(pieces, per_word=1.2, broken=()), shared=None)
    terms = (
        Judged(Term("acetyltransferase", 12, 0, 8.5), (("ace", "##tyl", "##transferase"), ("acetyltransferase",))),
        Judged(Term("diabetes", 90, 4, 7.25), (("diabetes",), ("diabetes",))),
        Judged(Term(f"beta-blocker {NASTY}"), (("beta", "-", "block", "er"), ("[UNK]",))),
    )
    return VocabulariesAnalysis(f"texts {NASTY}", 1_000, 100, (model, learnt), IN_DOMAIN, terms)


def test_the_page_holds_everything_and_runs_nothing_of_what_it_shows(tmp_path):
    page, sheet, terms = write_page(tmp_path, made_up())
    assert page.read_text(encoding="utf-8") == made_up().page().as_html()
    text = page.read_text(encoding="utf-8")
    assert not Page(text).open
    assert "<script>alert" not in text
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text
    assert "Your texts break into 1.90 pieces per word under model" in text
    assert "37% fewer pieces" in text
    assert "ace ##tyl ##transferase" in text
    assert "beta - block er" in text  # no minus sign in place of a hyphen
    [first, learnt] = csv.DictReader(io.StringIO(sheet.read_text(encoding="utf-8")))
    assert (first["pieces_per_word"], first["shared"], first["whole_terms"]) == ("1.9", "0.44", "1")
    assert (learnt["shared"], learnt["whole_terms"], learnt["terms"]) == ("", "2", "3")
    rows = [*csv.reader(io.StringIO(terms.read_text(encoding="utf-8")))]
    assert rows[1][:4] == ["acetyltransferase", "12", "0", "8.5"]
    assert rows[3][1:4] == ["", "", ""]


def test_a_terminal_shows_terms_that_break_and_obeys_nothing():
    text = made_up().as_text()
    assert max(map(len, text.splitlines())) <= 110
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text
    assert "acetyltransferase" in text
    assert "diabetes" not in text  # whole everywhere
    assert "< 0.01%" in text
    nearly = replace(made_up(), vocabularies=tuple(replace(each, per_text=100.0) for each in made_up().vocabularies))
    assert "nearly as well" in nearly.way_out()
    *models, learnt = nearly.vocabularies
    worse = replace(nearly, vocabularies=(*models, replace(learnt, per_text=120.0)))
    assert "A larger in-domain one" in worse.way_out()


def test_the_verb_learns_compares_and_writes(toy_inputs, models, tmp_path):
    listed = tmp_path / "terms.txt"
    listed.write_text("aorta\nsolar comet\n")
    command = [
        "data",
        "vocabulary",
        toy_inputs / "domain.txt",
        "kind=unigram",
        "size=120",
        "--model",
        models["wordpiece"],
    ]
    command += ["--terms", listed, "--out", tmp_path / "out"]
    done = CliRunner().invoke(cli.app, [str(each) for each in command])
    assert done.exit_code == 0, done.output
    assert "Your texts break into" in done.output
    assert "2 terms that were given" in done.output
    written = {"vocabulary.html", "vocabulary.csv", "terms.csv", "tokenizer"}
    assert written <= {path.name for path in (tmp_path / "out").iterdir()}
    refused = CliRunner().invoke(cli.app, [*map(str, command[:3]), "--terms", "none.txt", "--out", str(tmp_path / "2")])
    assert refused.exit_code == 2
    assert "--terms none.txt: there is no such file" in refused.output
