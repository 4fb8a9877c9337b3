import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from tests.races.test_report import Page, assert_whole
from transformers import BertConfig, BertForMaskedLM, BertTokenizer
from typer.testing import CliRunner

import studies
import toys
from acclimate import cli
from acclimate.analyses.embeddings import EmbeddingsAnalysis, analyse_embeddings, losses
from acclimate.core.types import Document, unwatched
from acclimate.models.encoder import save_model
from acclimate.models.word_embeddings import (
    Distances,
    Embeddings,
    beginning_words,
    piece_counts,
    principal_axes,
    read_embeddings,
    row_distances,
    shared_rows,
    summary,
)
from acclimate.races.contestants import enter
from acclimate.races.outcome import Facts
from acclimate.races.recipe import RaceRecipe
from acclimate.races.report import race_page, report_of
from acclimate.races.work import move
from acclimate.reports.curves import Curve, read_curve
from acclimate.text.corpus import write_corpus
from acclimate.text.vectors.of_vocabulary import piece_texts

pytestmark = pytest.mark.usefixtures("plots")

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["lead", "leads", "cell", "cells", "tin", "the", "protein", "##ing", "7"]
NASTY = "<script>alert(1)</script> \N{RIGHT-TO-LEFT OVERRIDE}"


def table(name: str, rows: list[list[float]], pieces: list[str]) -> Embeddings:
    ids = {piece: number for number, piece in enumerate(pieces)}
    return Embeddings(name, np.array(rows, np.float32), ids, ids)


def write_model(place: Path, pieces: list[str], rows: np.ndarray, *, tied: bool = True) -> Path:
    """A BERT of one layer whose word embeddings are `rows`, in `place / "checkpoint"`."""
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=rows.shape[1],
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=4,
        max_position_embeddings=32,
        tie_word_embeddings=tied,
    )
    torch.manual_seed(0)
    model = BertForMaskedLM(config)
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight.copy_(torch.tensor(rows))
    tokenizer = BertTokenizer(vocab={piece: number for number, piece in enumerate(pieces)})
    save_model(model.eval(), tokenizer, place / "checkpoint")
    return place


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(14, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, rows: np.ndarray) -> list[str]:
    """The untouched model; one whose row "cell" lies 3 away; one of other pieces, all of whose rows are doubled."""
    place = tmp_path_factory.mktemp("models")
    moved = rows.copy()
    moved[7, 2] += 3
    pieces = [*SPECIAL, *WORDS]
    write_model(place / "untouched", pieces, rows)
    write_model(place / "moved", pieces, moved, tied=False)
    write_model(place / "doubled", [*SPECIAL, *WORDS[2:], "iron"], np.concatenate([rows[:5], rows[7:], rows[:1]]) * 2)
    curve = [
        {"step": 0, "train": {}, "dev": {"mlm": 5.0, "embedding": 9.0}},
        {"step": 4, "train": {"mlm": 4.0, "embedding": 6.5}, "dev": {"mlm": 4.5, "embedding": 2.25}},
    ]
    (place / "moved" / "curve.json").write_text(json.dumps(curve))
    log = [{"step": step, "loss": 6.0 - step, "loss.mlm": 6.0 - step} for step in (1, 2, 3)]
    (place / "doubled" / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    return [str(place / name) for name in ("untouched", "moved", "doubled")]


@pytest.fixture(scope="module")
def analysis(models: list[str]) -> EmbeddingsAnalysis:
    texts = ["the cell leads", "cell the tin cell"]
    return analyse_embeddings(models, texts=texts, source="two texts", words=["cell", "lead"])


def test_distances_are_euclidean_piece_by_piece():
    first = table("first", [[0, 0], [1, 0], [3, 4]], ["a", "b", "c"])
    other = table("other", [[3, 4], [0, 5], [0, 0], [7, 7]], ["c", "b", "a", "z"])
    firsts, others = shared_rows(first, other)
    assert (firsts.tolist(), others.tolist()) == ([0, 1, 2], [2, 1, 0])
    distances, cosines = row_distances(first.rows_VH[firsts], other.rows_VH[others])
    assert distances == pytest.approx([0, 26**0.5, 0])
    assert np.isnan(cosines[0])
    assert cosines[1:] == pytest.approx([0, 1])


def test_a_summary_says_mean_median_and_ninth_decile_and_leaves_zero_rows_out_of_the_cosine():
    found = summary(np.arange(11.0), np.array([np.nan, *[0.5] * 10]))
    assert (found.pieces, found.mean, found.median, found.nine_tenths, found.cosine) == (11, 5, 5, 9, 0.5)


def test_rows_of_other_widths_or_of_no_common_piece_are_refused():
    first = table("first", [[0, 0]], ["a"])
    with pytest.raises(ValueError, match="first and wide have different widths, 2 and 3, so they have no distance"):
        shared_rows(first, table("wide", [[0, 0, 0]], ["a"]))
    with pytest.raises(ValueError, match="first and other have no token in common, so they cannot be compared"):
        shared_rows(first, table("other", [[0, 0]], ["b"]))


def test_axes_are_scikit_learn_s_principal_components_up_to_sign_and_the_sign_is_settled():
    rows = np.random.default_rng(1).normal(size=(20_000, 6)).astype(np.float32) * [5, 1, 3, 1, 1, 1] + 7
    axes, known = principal_axes(rows), PCA(2).fit(rows.astype(np.float64))
    assert axes.explained == pytest.approx(known.explained_variance_ratio_, rel=1e-6)
    signs = np.sign((axes.directions_2H * known.components_).sum(axis=1))
    assert axes.directions_2H == pytest.approx(known.components_ * signs[:, None], abs=1e-6)
    assert axes.places(rows) == pytest.approx(known.transform(rows) * signs, abs=1e-4)
    assert axes.directions_2H[0, 0] > 0.99
    assert axes.directions_2H[1, 2] > 0.99


def test_neighbours_are_by_cosine_and_a_word_is_none_of_its_own():
    embeddings = table("model", [[1, 0], [9, 1], [0, 1], [1, 1], [0, 0]], ["a", "b", "c", "d", "e"])
    assert [word for word, _ in embeddings.nearest("a", 3)] == ["b", "d", "c"]
    assert embeddings.nearest("a", 2)[1][1] == pytest.approx(0.5**0.5)


@pytest.mark.parametrize(
    ("pieces", "begin"),
    [
        (["[CLS]", "a", "##b", "\u2581", *"cdefghijkl"], ["[CLS]", "a", "\u2581", *"cdefghijkl"]),
        (["\u0120a", "b", "\u0120c"], ["\u0120a", "\u0120c"]),
        (["\u2581a", "b", "c"], ["\u2581a"]),
    ],
)
def test_pieces_that_begin_words_are_told_by_each_tokenizer_s_own_mark(pieces, begin):
    assert beginning_words({piece: number for number, piece in enumerate(pieces)}) == begin


def test_the_table_of_a_checkpoint_is_its_raw_rows_and_its_words_are_whole(models, rows):
    untouched = read_embeddings("untouched", f"{models[0]}/checkpoint", piece_texts)
    assert (untouched.rows_VH == rows).all()
    assert set(untouched.words) == {"lead", "leads", "cell", "cells", "tin", "the", "protein"}
    assert untouched.words["cell"] == untouched.ids["cell"] == 7


def test_pieces_of_texts_are_counted_and_what_spells_a_special_token_is_none(models):
    texts = (text for text in ["the cell [SEP]", "cell"])
    counts = piece_counts(texts, f"{models[0]}/checkpoint", 14)
    assert (counts[7], counts[10], counts[3]) == (2, 1, 0)


def test_means_are_over_all_shared_pieces_and_over_those_of_the_texts(analysis, rows):
    moved, doubled = analysis.moved
    assert moved.everywhere.pieces == 14
    assert moved.everywhere.mean == pytest.approx(3 / 14)
    assert moved.in_texts.pieces == 4  # the, cell, leads, tin
    assert moved.in_texts.mean == pytest.approx(3 / 4)
    assert doubled.everywhere.pieces == 12
    both = [*range(5), *range(7, 14)]
    assert doubled.everywhere.mean == pytest.approx(np.linalg.norm(rows[both], axis=1).mean(), rel=1e-6)
    assert doubled.everywhere.cosine == pytest.approx(1)
    assert analysis.verdict().startswith("Mean distance of the word embeddings from those of untouched: moved 0.214, ")


def test_marked_words_occur_are_shared_by_all_and_are_no_function_words(analysis):
    assert set(analysis.counts) == {"cell", "tin"}  # "leads" is no piece of the third model
    assert analysis.counts["cell"] == 3
    assert analysis.moved[0].words == {"cell": pytest.approx(3), "tin": 0}


def test_without_texts_words_are_those_that_moved_furthest_and_are_looked_up(models):
    bare = analyse_embeddings(models[:2])
    assert next(iter(bare.counts)) == "cell"
    assert next(iter(bare.neighbours)) == "cell"
    assert bare.moved[0].in_texts is None
    assert "in the texts" not in bare.as_text()


def test_all_panels_stand_on_the_axes_of_the_first_model_or_of_all(models, analysis, rows):
    known = PCA(2).fit(rows.astype(np.float64))
    assert analysis.axes.explained == pytest.approx(known.explained_variance_ratio_, rel=1e-5)
    assert np.abs(analysis.panels[0].places_N2) == pytest.approx(np.abs(known.transform(rows)), abs=1e-5)
    assert [len(panel.places_N2) for panel in analysis.panels] == [14, 14, 12]
    assert analysis.panels[0].in_texts_N.sum() == 4
    moved = rows.copy()
    moved[7, 2] += 3
    together = analyse_embeddings(models[:2], axes_of="all").axes
    expected = PCA(2).fit(np.concatenate([rows, moved]).astype(np.float64)).explained_variance_ratio_
    assert together.explained == pytest.approx(expected, rel=1e-5)


def test_neighbours_of_a_word_stand_under_each_model_that_has_it(analysis):
    assert list(analysis.neighbours["cell"]) == ["untouched", "moved", "doubled"]
    assert list(analysis.neighbours["lead"]) == ["untouched", "moved"]
    assert "cell" not in [word for word, _ in analysis.neighbours["cell"]["moved"]]


def test_curves_come_from_the_run_s_curve_or_from_its_log(analysis, models):
    curve, logged = analysis.curves
    assert curve == Curve(
        "moved",
        train={"mlm": [(4, 4.0)], "embedding": [(4, 6.5)]},
        dev={"mlm": [(0, 5.0), (4, 4.5)], "embedding": [(0, 9.0), (4, 2.25)]},
    )
    assert logged == Curve("doubled", train={"mlm": [(1, 5.0), (2, 4.0), (3, 3.0)]}, dev={})
    assert read_curve("a hub id", "name/checkpoint") is None
    drawn = losses(analysis.curves)
    assert "embedding of moved on dev: 9 to 2.25" in drawn
    assert "doubled, train</text>" in drawn


def test_a_model_of_another_width_is_said_and_the_others_are_compared(models, tmp_path):
    wide = write_model(tmp_path / "wide", [*SPECIAL, *WORDS], np.ones((14, 4), np.float32))
    found = analyse_embeddings([models[0], str(wide), models[1]])
    assert [each.name for each in found.moved] == [panel.name for panel in found.panels[1:]] == ["moved"]
    assert "untouched and wide have different widths, 8 and 4" in found.refused[0]
    assert "untouched and wide have different widths, 8 and 4" in found.as_text()
    assert "Not compared: " in found.page().as_html()
    alone = analyse_embeddings([models[0], str(wide)])
    assert alone.verdict() == "No model here can be compared with untouched."
    assert "Moved furthest" not in alone.as_text()
    assert not Page(alone.page().as_html()).open


def test_unrelated_models_are_called_so(models, tmp_path, rows):
    other = write_model(tmp_path / "other", [*SPECIAL, *WORDS], -rows)
    assert "other: the rows are unrelated to" in " ".join(analyse_embeddings([models[0], str(other)]).as_text().split())


def test_the_terminal_has_every_table(analysis):
    said = analysis.as_text()
    assert all(len(line) <= 110 for line in said.splitlines())
    for title in ("Distances", "Moved furthest", "Nearest words", "Learning curves"):
        assert f"\n{title}\n" in said
    assert "moved, embedding" in said
    assert "9.000 to 2.250" in said


def test_the_csv_is_unrounded(analysis):
    lines = [*csv.DictReader(io.StringIO(analysis.as_csv()))]
    assert [(line["model"], line["over"]) for line in lines[:2]] == [("moved", "all"), ("moved", "texts")]
    assert float(lines[0]["mean"]) == analysis.moved[0].everywhere.mean
    assert lines[0]["from"] == "untouched"


def test_the_page_is_whole_and_says_in_words_what_it_draws(analysis):
    text = analysis.page().as_html()
    assert_whole(text)
    assert text.count('role="img"') == 4
    x, y = analysis.panels[1].marked["cell"]
    assert "12 pieces; " in text
    assert f"cell at {x:.3g}, {y:.3g}" in text
    assert "<mark>" in text
    assert f"{analysis.axes.explained[0]:.1%}" in text


def test_markup_in_names_stays_text(analysis):
    named = replace(
        analysis, models=(NASTY, *analysis.models[1:]), refused=(NASTY,), source=NASTY, curves=(), neighbours={}
    )
    page = replace(named, panels=(replace(analysis.panels[0], name=NASTY),)).page().as_html()
    assert page.count("<script>") == 1  # ours
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page


def test_the_verb_writes_page_and_sheet_and_says_the_distances(models, tmp_path):
    (tmp_path / "texts.tsv").write_text("abstract\nthe cell\n")
    page = tmp_path / "pages" / "words.html"
    read = ["--texts", f"{tmp_path}/texts.tsv", "--text", "abstract", "--words", "cell, lead"]
    done = CliRunner().invoke(cli.app, ["analyse", "embeddings", *models, *read, "--out", str(page)])
    assert done.exit_code == 0, done.output
    assert "moved, in the texts" in done.output
    assert f"Page: {page}" in done.output
    assert "moved 0.214" in page.read_text()
    assert page.with_suffix(".csv").read_text().startswith("model,from,over,pieces,mean,")


@pytest.mark.parametrize(
    ("count", "change", "said"),
    [
        (2, ("--words", "leading"), "'leading' is not a single piece of the vocabulary of untouched"),
        (2, ("--out", "."), "--out . is a folder. Name the page to write, such as embeddings.html"),
        (1, (), "1 model given: name the reference model first"),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_nothing_is_written(count, change, said, *, models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli.app, ["analyse", "embeddings", *models[:count], *change])
    assert done.exit_code == 2
    assert said in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert not [*tmp_path.iterdir()]


def test_a_race_measures_all_that_were_adapted_where_tapter_takes_part(tmp_path, models):
    inputs = toys.write_inputs(tmp_path / "inputs")
    materials = toys.materials_in(tmp_path / "run", inputs)
    names = ("TAPT", "TAPTER", "DAPT+TAPT", "TLM", "TF-IDF", "random weights")
    pretrained = enter(RaceRecipe(contestants=names), materials)
    assert list(pretrained.moves) == ["TAPT", "TAPTER", "DAPT", "DAPT+TAPT"]
    [moved] = pretrained.moves["TAPTER"]
    assert moved.needs == {"untouched": pretrained.base, "model": pretrained.models["TAPTER"]}
    assert all(job in pretrained.prepared() for [job] in pretrained.moves.values())
    short = {
        name: replace(getattr(RaceRecipe(), name), max_tokens=32) for name in ("dapt", "tapter")
    }  # as the model reads
    given = enter(
        RaceRecipe(contestants=("TAPTER",), **short), replace(materials, model=f"{models[0]}/checkpoint", notes=())
    )
    [moved] = given.moves["TAPTER"]
    assert moved.places["untouched"] == Path(models[0]) / "checkpoint"
    assert enter(RaceRecipe(contestants=("TAPT",)), materials).moves == {}


def test_what_a_race_measures_stands_in_its_report(tmp_path, models):
    corpus = write_corpus([Document("1", "the cell leads"), Document("2", "tin cell")], tmp_path / "corpus")
    untouched, moved = map(Path, models[:2])
    found = move(out=tmp_path, watch=unwatched, corpus=corpus.path, model=moved, untouched=untouched)
    everywhere, in_texts = (Distances(**each) for each in found.values())
    assert (everywhere.pieces, everywhere.mean) == (14, pytest.approx(3 / 14))
    assert (in_texts.pieces, in_texts.mean) == (4, pytest.approx(3 / 4))
    scores = studies.race_of_six()
    facts = Facts(use="TAPT", encoder="TAPT")
    moved_by = {where: Distances(**each) for where, each in found.items()}
    page = race_page(report_of(studies.raced(scores, replace(facts, moved={"TAPT": moved_by})))).as_html()
    assert "Distance of word embeddings" in page
    assert ">0.750</td>" in page
    assert "Distance of word embeddings" not in race_page(report_of(studies.raced(scores, facts))).as_html()
