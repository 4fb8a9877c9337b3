"""TAPTER from its vectors to its checkpoint, on the toy's text."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from acclimate.core import files, settings
from acclimate.core.types import NOT_PREDICTED, Batch, Document
from acclimate.methods import mlm, tapter
from acclimate.methods.recipes.tapter import METHOD
from acclimate.methods.tapter import (
    REGULARISED,
    TapterLoss,
    permuted,
    scale_to_unit_spread,
    spread_of,
    with_regularised,
)
from acclimate.models.encoder import load_masked_language_model, training_flops, word_embeddings
from acclimate.text.corpus import write_corpus
from acclimate.text.vectors.skipgram import Skipgram
from acclimate.text.vectors.vectors import open_vectors
from acclimate.text.words import ENGLISH
from acclimate.training.checkpoint import read_log
from acclimate.training.objective import MaskedLanguageLoss
from acclimate.training.pieces import pad, together
from acclimate.training.plan import Plan
from acclimate.training.run import CURVE
from conformance import toy_rows
from families import FAMILIES, VOCABULARY, mpnet

SKIPGRAM = Skipgram(dim=12, epochs=3, min_count=1, buckets=500, sample=1.0, lower=True, threads=1)


@pytest.fixture
def recipe(pretrained, toy_race) -> tapter.TapterRecipe:
    materials = toy_race.materials
    return tapter.TapterRecipe(
        model=str(pretrained),
        corpus=materials.task_text.path,
        dev=materials.heldout.path,
        vectors_corpus=materials.domain.path,
        skipgram=SKIPGRAM,
        looks=4,
        max_tokens=32,
        epochs=0.0,
        plan=Plan(steps=12, batch=16, rate=5e-3, warmup=0.1, piece_tokens=256),
    )


def table_of(model: str | Path) -> torch.Tensor:
    return word_embeddings(load_masked_language_model(model)).detach()


@pytest.mark.slow
def test_the_embeddings_come_closer_to_the_vectors_than_language_modelling_alone_takes_them(recipe, tmp_path):
    long = replace(recipe, plan=replace(recipe.plan, steps=60))
    held = tapter.adapt(long, tmp_path / "tapter")
    same = {field: getattr(long, field) for field in ("model", "corpus", "max_tokens", "epochs", "plan")}
    plain = mlm.adapt(mlm.MlmRecipe(**same), tmp_path / "tapt")
    curve = files.read_json(tmp_path / "tapter" / CURVE)
    first, last = curve[0]["dev"], curve[-1]["dev"]
    # Figure 1: the second term falls more sharply than the first
    assert last["embedding"] / first["embedding"] < min(0.8, last["mlm"] / first["mlm"])
    # Appendix B: the embeddings move further than under TAPT
    before = table_of(recipe.model)
    moved = [float((table_of(model.path) - before).norm(dim=1).mean()) for model in (held, plain)]
    assert moved[0] > moved[1]


def test_the_curve_has_both_terms_on_train_and_dev(recipe, tmp_path):
    tapter.adapt(recipe, tmp_path)
    curve, log = files.read_json(tmp_path / CURVE), read_log(tmp_path)
    assert [point["step"] for point in curve] == [0, 3, 6, 9, 12]
    assert [set(point["train"]) for point in curve] == [set(), *[{"mlm", "embedding"}] * 4]
    assert [set(point["dev"]) for point in curve] == [{"mlm", "embedding"}] * 5
    for term in ("mlm", "embedding"):
        assert curve[2]["train"][term] == pytest.approx(np.mean([line[f"loss.{term}"] for line in log[3:6]]))
    assert log[0]["loss"] == pytest.approx(log[0]["loss.mlm"] + log[0]["loss.embedding"])


def test_without_dev_the_curve_is_that_of_the_training_texts(recipe, tmp_path):
    tapter.adapt(replace(recipe, dev=Path()), tmp_path)
    curve = files.read_json(tmp_path / CURVE)
    assert all(point["dev"] == {} for point in curve)
    assert curve[-1]["train"]["embedding"] > 0


def test_a_run_that_was_stopped_among_its_vectors_goes_on_to_the_same_bytes(recipe, tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    tapter.adapt(recipe, whole)

    def stopping(progress):
        if progress.stage == "vectors":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tapter.adapt(recipe, stopped, watch=stopping)
    assert not (stopped / tapter.VECTORS / tapter.TRAINED).exists()
    tapter.adapt(recipe, stopped)
    names = [file.relative_to(whole) for file in whole.rglob("*") if file.is_file() and file.name != "clock.json"]
    assert {Path("curve.json"), Path("vectors/vectors.bin"), Path("checkpoint/model.safetensors")} <= set(names)
    for name in names:
        assert (whole / name).read_bytes() == (stopped / name).read_bytes(), name


def test_vectors_are_trained_on_all_corpora_once(tmp_path):
    texts = {"task": "artery valve artery", "domain": "moon comet moon"}
    corpora = [write_corpus([Document("0", text)], tmp_path / name) for name, text in texts.items()]
    path = tapter.train_on(corpora, tmp_path / "vectors", SKIPGRAM)
    assert {"artery", "valve", "moon", "comet"} <= set(open_vectors(path).words)
    before = path.stat().st_mtime_ns
    assert tapter.train_on(corpora, tmp_path / "vectors", SKIPGRAM) == path
    assert path.stat().st_mtime_ns == before


def test_vectors_that_were_damaged_since_are_not_gone_on_with(recipe, tmp_path):
    adapted = tapter.adapt(recipe, tmp_path)
    trained = tmp_path / tapter.VECTORS / tapter.TRAINED
    sources = files.read_json(adapted.path / "provenance.json")["sources"]
    assert sources["trained_vectors"] == files.sha256_of(trained)
    content = bytearray(trained.read_bytes())
    content[-5] ^= 1
    trained.write_bytes(content)
    shutil.rmtree(adapted.path)
    with pytest.raises(files.DamagedError, match=re.escape(str(trained))):
        tapter.adapt(recipe, tmp_path)


def test_vectors_can_be_taken_as_they_are_or_gone_on_with(recipe, tmp_path):
    short = replace(recipe, scale="unit", plan=replace(recipe.plan, steps=2))
    tapter.adapt(short, tmp_path / "one")
    trained = tmp_path / "one" / tapter.VECTORS / tapter.TRAINED
    given = replace(short, vectors=str(trained), train_vectors=False)
    tapter.adapt(given, tmp_path / "given")
    assert not (tmp_path / "given" / tapter.VECTORS).exists()
    assert files.read_json(tmp_path / "given" / tapter.TARGETS) == files.read_json(tmp_path / "one" / tapter.TARGETS)
    assert read_log(tmp_path / "given") == read_log(tmp_path / "one")
    tapter.adapt(replace(short, vectors=str(trained)), tmp_path / "on")
    words = ["artery", "moon"]
    before, after = (
        open_vectors(path).look_up(words)[0] for path in (trained, tmp_path / "on" / "vectors" / "vectors.bin")
    )
    assert np.abs(before - after).max() > 1e-3


@pytest.mark.parametrize("scale", ["given", "unit", "auto"])
def test_the_spread_of_what_embeddings_are_held_to_is_the_vectors_own_or_1(scale, recipe, tmp_path, monkeypatch):
    held = []

    class Kept(tapter.TapterLoss):
        def __init__(self, model, vectors_VF, regularised_V, **stated):
            held.append(spread_of(vectors_VF, regularised_V))
            super().__init__(model, vectors_VF, regularised_V, **stated)

    monkeypatch.setattr(tapter, "TapterLoss", Kept)
    tapter.adapt(replace(recipe, scale=scale, plan=replace(recipe.plan, steps=1), looks=1), tmp_path)
    [spread] = held
    assert 0 < spread < 0.9 if scale == "given" else spread == pytest.approx(1)  # from nothing


def test_the_run_says_of_what_r_is_made_and_provenance_tells_inputs_by_content(recipe, toy_race, tmp_path):
    path = tapter.adapt(replace(recipe, plan=replace(recipe.plan, steps=2)), tmp_path).path
    assert load_file(path / "model.safetensors").keys() == load_file(f"{recipe.model}/model.safetensors").keys()
    said = files.read_json(tmp_path / tapter.TARGETS)
    rows = len(table_of(recipe.model))
    assert said["regularised"] + sum(said["left_out"].values()) == rows
    assert said["stop_words"] == {"list": "acclimate.text.words.ENGLISH", "words": sorted(ENGLISH)}
    sources, materials = files.read_json(path / "provenance.json")["sources"], toy_race.materials
    assert sources["corpus"] == materials.task_text.hash
    assert (sources["dev"], sources["vectors_corpus"]) == (materials.heldout.hash, materials.domain.hash)
    stated = settings.from_toml(tapter.TapterRecipe, path / "recipe.toml")
    assert (stated.skipgram, stated.corpus, stated.vectors_corpus) == (SKIPGRAM, Path(), Path())
    assert str(recipe.corpus) not in (path / "recipe.toml").read_text()


def test_pieces_whose_vectors_are_mostly_of_other_ngrams_are_told_and_can_be_left_out(recipe, tmp_path):
    # vectors of words that occur 40 times or more, so that many pieces have n-grams that no word has
    few = replace(recipe, plan=replace(recipe.plan, steps=1), looks=1, skipgram=replace(SKIPGRAM, min_count=40))
    said, notes = {}, {}
    for unseen in ("keep", "drop"):
        told = notes[unseen] = []
        stated = replace(few, unseen=unseen)
        tapter.adapt(stated, tmp_path / unseen, watch=lambda step, told=told: told.append(step.values.get("note", "")))
        said[unseen] = files.read_json(tmp_path / unseen / tapter.TARGETS)
    kept, dropped = said["keep"], said["drop"]
    count = kept["mostly_unseen"]
    assert 0 < count == dropped["mostly_unseen"] == dropped["left_out"]["mostly unseen"]
    assert dropped["regularised"] == kept["regularised"] - count
    for unseen, fate in (("keep", "kept, as in the paper"), ("drop", "removed")):
        [note] = [note for note in notes[unseen] if "n-grams" in note]
        assert note.startswith(f"{count:,} of {kept['regularised']:,} pieces with a vector (")
        assert note.endswith(fate)


def test_permuted_vectors_are_a_contestant_that_differs_from_tapter_in_the_vectors_alone(recipe, tmp_path):
    contestant = METHOD.contestant("TAPTER permuted")
    assert contestant.settings == {"permuted": True}
    with_meaning = tapter.adapt(recipe, tmp_path / "tapter")
    without = tapter.adapt(replace(recipe, **contestant.settings), tmp_path / "permuted")
    vectors = [
        files.read_json(run / "vectors" / files.MANIFEST) for run in (tmp_path / "tapter", tmp_path / "permuted")
    ]
    assert vectors[0] == vectors[1]
    assert not torch.equal(table_of(with_meaning.path), table_of(without.path))


WIDTH = 7
REGULARISED_V = (np.arange(VOCABULARY) >= 5) & (np.arange(VOCABULARY) % 3 > 0)
VECTORS_VF = (np.random.default_rng(1).normal(0.2, 0.5, (VOCABULARY, WIDTH)) * REGULARISED_V[:, None]).astype("f4")


def objective_of(model, **stated) -> TapterLoss:
    return TapterLoss(model, VECTORS_VF, REGULARISED_V, **stated).eval()


def masked_rows() -> Batch:
    """Toy rows of which most predicted tokens are hidden behind the mask, which is piece 4."""
    batch = toy_rows(0, 0)
    hidden = (batch.tokens["labels"] != NOT_PREDICTED) & (np.arange(len(batch.ids)) % 4 > 0)
    return replace(batch, ids=np.where(hidden, 4, batch.ids))


def piece_of(batch):
    return pad(batch, together(batch.lengths), torch.device("cpu"))


def test_loss_is_lm_plus_mean_squared_distance_of_projected_embeddings_eq_1():
    batch, model = masked_rows(), FAMILIES["bert"]()
    objective = objective_of(model, seed=2)
    with torch.no_grad():  # f as it may be after training, not only as it begins
        objective.norm.weight.add_(torch.linspace(-0.1, 0.1, WIDTH))
    marked = with_regularised(batch, REGULARISED_V)
    sums, counts = objective(piece_of(marked)), objective.counts(marked)

    labels, table = batch.tokens["labels"], model.bert.embeddings.word_embeddings.weight
    original = [label if label != NOT_PREDICTED else piece for piece, label in zip(batch.ids, labels, strict=True)]
    distances = []
    for piece in original:
        if REGULARISED_V[piece]:
            z = objective.linear.weight @ table[piece] + objective.linear.bias
            normal = (z - z.mean()) / z.var(unbiased=False).sqrt()
            projected = objective.norm.weight * normal + objective.norm.bias
            distances.append(((projected - torch.from_numpy(VECTORS_VF[piece])) ** 2).sum())
    language = MaskedLanguageLoss(model).eval()
    by_hand = language(piece_of(batch))["mlm"] / language.counts(batch)["mlm"] + sum(distances) / len(distances)
    ours = sum(objective.weights[term] * sums[term] / counts[term] for term in sums)
    torch.testing.assert_close(ours, by_hand, rtol=1e-5, atol=1e-5)
    assert counts["embedding"] == len(distances)


def test_r_has_each_occurrence_or_each_type_by_original_or_masked_ids():
    ids, labels = np.array([7, 4, 7, 8, 5, 9, 7]), np.array([-100, 10, -100, 8, -100, -100, -100])
    batch = Batch(ids, np.array([0, 4, 7]), {"labels": labels})
    regularised_V = np.array([False] * 7 + [True] * 2 + [False] + [True])  # 7, 8 and 10, but not 9

    def pieces(**stated):
        return (with_regularised(batch, regularised_V, **stated).tokens[REGULARISED] - 1).tolist()

    assert pieces() == [7, 10, 7, 8, -1, -1, 7]
    assert pieces(ids="masked") == [7, -1, 7, 8, -1, -1, 7]
    assert pieces(per="type") == [7, 10, -1, 8, -1, -1, -1]
    assert pieces(per="type", ids="masked") == [7, -1, -1, 8, -1, -1, -1]


@pytest.mark.parametrize("name", [*FAMILIES, "mpnet"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_rows_of_r_are_moved_in_every_family_tied_or_not(name, tied):
    model = mpnet() if name == "mpnet" else FAMILIES[name]()
    if not tied:
        model.set_input_embeddings(nn.Embedding.from_pretrained(word_embeddings(model).detach().clone(), freeze=False))
    batch = with_regularised(masked_rows(), REGULARISED_V)
    objective = objective_of(model)
    objective(piece_of(batch))["embedding"].backward()
    moved = word_embeddings(model).grad.abs().sum(dim=1) > 0
    assert np.array_equal(np.flatnonzero(moved.numpy()), np.unique(batch.tokens[REGULARISED])[1:] - 1)
    others = [weight for weight in model.parameters() if weight is not word_embeddings(model)]
    assert all(weight.grad is None or not weight.grad.any() for weight in others)


def test_f_starts_at_the_scale_of_the_vectors():
    """So that what it has to learn is where they point."""
    for scale in (0.01, 1.0, 50.0):
        objective = TapterLoss(FAMILIES["bert"](), scale * VECTORS_VF, REGULARISED_V).eval()
        batch = with_regularised(masked_rows(), REGULARISED_V)
        mean = float(objective(piece_of(batch))["embedding"].detach()) / objective.counts(batch)["embedding"]
        spread = (scale * VECTORS_VF)[REGULARISED_V].var(axis=0).sum()
        assert 1 < mean / spread < 3


def test_vectors_of_unit_spread_differ_from_the_given_ones_in_scale_alone():
    scaled = scale_to_unit_spread(0.01 * VECTORS_VF, REGULARISED_V)
    counted = scaled[REGULARISED_V]
    assert np.sqrt(np.mean((counted - counted.mean(axis=0)) ** 2)) == pytest.approx(1)
    np.testing.assert_allclose(scaled, scale_to_unit_spread(VECTORS_VF, REGULARISED_V), rtol=1e-4)
    given, unit = VECTORS_VF[REGULARISED_V].ravel(), counted.ravel()
    assert given @ unit == pytest.approx(np.linalg.norm(given) * np.linalg.norm(unit))


def test_permuted_vectors_are_the_same_ones_in_another_order_among_the_pieces_of_r():
    mixed = permuted(VECTORS_VF, REGULARISED_V, seed=0)
    assert not mixed[~REGULARISED_V].any()
    before, after = VECTORS_VF[REGULARISED_V], mixed[REGULARISED_V]
    assert sorted(map(tuple, before.tolist())) == sorted(map(tuple, after.tolist()))
    assert (before != after).any(axis=1).mean() > 0.7
    assert spread_of(mixed, REGULARISED_V) == pytest.approx(spread_of(VECTORS_VF, REGULARISED_V))
    np.testing.assert_array_equal(mixed, permuted(VECTORS_VF, REGULARISED_V, seed=0))
    assert (mixed != permuted(VECTORS_VF, REGULARISED_V, seed=1)).any()


def test_vectors_that_are_all_the_same_have_no_spread_to_be_divided_by():
    same = np.ones_like(VECTORS_VF)
    with pytest.raises(ValueError, match=r"scale = 'unit' .* but it is 0: the \d+ .* Set scale=given"):
        scale_to_unit_spread(same, REGULARISED_V)


def test_without_a_piece_of_r_the_term_is_0_and_its_gradient_too():
    batch = with_regularised(masked_rows(), np.zeros(VOCABULARY, bool))
    objective = objective_of(FAMILIES["bert"]())
    terms = objective(piece_of(batch))
    assert (float(terms["embedding"].detach()), objective.counts(batch)["embedding"]) == (0, 0)
    terms["embedding"].backward()
    assert not objective.linear.weight.grad.any()


def test_flops_are_those_of_language_modelling_and_of_f_on_each_type_which_needs_a_vector():
    model = FAMILIES["bert"]()
    batch = with_regularised(masked_rows(), REGULARISED_V)
    predicted = np.count_nonzero(batch.tokens["labels"] != NOT_PREDICTED)
    types = len(set(batch.tokens[REGULARISED].tolist()) - {0})
    plain = training_flops(model, batch.lengths, predicted=predicted)
    assert objective_of(model).flops(batch) == plain + 6 * 32 * WIDTH * types
    with pytest.raises(ValueError, match="199 vectors for 200 embeddings"):
        TapterLoss(FAMILIES["bert"](), VECTORS_VF[1:], REGULARISED_V[1:])
