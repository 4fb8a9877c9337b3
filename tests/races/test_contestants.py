"""Jobs of contestants: names tell all that a result depends on; which starts from which adaptation."""

import json
import shutil
from dataclasses import replace

import pytest

import studies
from acclimate.core import files
from acclimate.methods import finetune, tapter
from acclimate.races import contestants, outcome
from acclimate.races.contestants import adaptation_seed, enter
from acclimate.races.race import run_race
from acclimate.races.recipe import SearchRecipe
from acclimate.races.report import race_page, report_of
from acclimate.races.verdict import established, next_race, verdict
from acclimate.statistics.significance import ONE_ADAPTATION
from acclimate.training.checkpoint import read_log, spent
from acclimate.training.run import CURVE
from studies import recorded


@pytest.fixture
def recipe(toy_race):
    return replace(toy_race.recipe, contestants=("TAPTER", "DAPT+TAPTER"))


@pytest.fixture(scope="module")
def raced(toy_race, tmp_path_factory):
    """(recipe, materials, run) of a race with both, from the encoder that the toy race pretrained."""
    run = tmp_path_factory.mktemp("raced")
    materials = replace(toy_race.materials, general=None, model=str(toy_race.base))
    tuning = replace(toy_race.recipe.finetune, looks=1, plan=replace(toy_race.recipe.finetune.plan, steps=4))
    recipe = replace(toy_race.recipe, contestants=("TAPTER", "DAPT+TAPTER"), finetune=tuning)
    run_race(recipe, materials, run, command="acclimate race")
    return recipe, materials, run


def test_losses_on_domain_and_general_text_are_the_same_work_on_two_corpora(recipe, toy_race):
    entries = enter(recipe, toy_race.materials)
    assert entries.losses.keys() == entries.general_losses.keys() >= {"untouched", "TAPTER", "DAPT+TAPTER"}
    for name, [general] in entries.general_losses.items():
        [domain] = entries.losses[name]
        assert (general.work, general.settings, general.needs) == (domain.work, domain.settings, domain.needs)
        assert general.contents == {"corpus": toy_race.materials.general_heldout.hash}
        assert general in entries.prepared()
    assert enter(recipe, replace(toy_race.materials, general_heldout=None)).general_losses == {}


def test_of_tlm_a_loss_is_measured_only_where_it_keeps_the_models_vocabulary(toy_race):
    recipe = replace(toy_race.recipe, contestants=("TLM",))
    materials = replace(toy_race.materials, model=str(toy_race.base))
    assert set(enter(recipe, materials).general_losses) == {"untouched"}
    onward = replace(recipe, tlm=replace(recipe.tlm, model=materials.model))
    assert set(enter(onward, materials).general_losses) == {"untouched", "TLM"}


def test_two_contestants_share_the_vectors(recipe, toy_race):
    models = enter(recipe, toy_race.materials).models
    alone, chained = models["TAPTER"], models["DAPT+TAPTER"]
    assert alone.needs["vectors"] == chained.needs["vectors"]
    assert set(alone.needs["vectors"].places) == {"corpus", "raw"}
    assert alone.needs["model"].label == "pretrain"
    assert chained.needs["model"].label == "DAPT"
    assert alone.contents["dev"] == toy_race.materials.heldout.hash


def test_vectors_are_of_the_domain_or_of_general_text_or_of_the_task_alone(recipe, toy_race):
    single, materials = replace(recipe, contestants=("TAPTER",)), toy_race.materials
    for stated, raw in (
        (materials, materials.domain.hash),
        (replace(materials, domain=None), materials.general.hash),
        (replace(materials, domain=None, general=None, model=str(toy_race.base)), None),
    ):
        vectors = enter(single, stated).models["TAPTER"].needs["vectors"]
        assert vectors.contents.get("raw") == raw
        assert vectors.contents["corpus"] == materials.task_text.hash


def test_names_depend_on_what_the_vectors_are_made_of_and_not_on_where_they_lie(recipe, toy_race, tmp_path):
    def name(**stated):
        stated_recipe = replace(recipe, tapter=replace(recipe.tapter, **stated))
        return enter(stated_recipe, toy_race.materials).models["TAPTER"].name

    (tmp_path / "one.vec").write_text("1 2\ngene 0 1\n")
    shutil.copy(tmp_path / "one.vec", tmp_path / "copy.vec")
    (tmp_path / "other.vec").write_text("1 2\ngene 1 0\n")
    skipgram = recipe.tapter.skipgram
    for more in ({}, {"train_vectors": False}):
        one, copy, other = (name(vectors=str(tmp_path / f"{each}.vec"), **more) for each in ("one", "copy", "other"))
        assert one == copy != other
        assert name() not in (one, other)
    assert name(vectors=str(tmp_path / "one.vec")) != name(vectors=str(tmp_path / "one.vec"), train_vectors=False)
    assert name(skipgram=replace(skipgram, epochs=3)) != name() != name(regularisation=2.0)
    with pytest.raises(ValueError, match=r"tapter\.vectors = nowhere\.bin: there is no such file"):
        name(vectors="nowhere.bin")


def test_a_race_with_tapter_adapts_measures_and_scores(raced):
    recipe, materials, run = raced
    scores = {score.contestant: score for score in recorded(run).scores}
    assert set(scores) == {"untouched", "TAPTER", "DAPT+TAPTER"}
    [vectors] = (run / "jobs").glob("word-vectors-*")
    [held] = (run / "jobs").glob("tapter-*")
    assert scores["TAPTER"].adapting == spent(vectors) + spent(held)
    assert scores["TAPTER"].adapting.seconds > spent(held).seconds > 0
    provenance = files.read_json(held / "checkpoint" / "provenance.json")
    assert provenance["sources"]["vectors"] == files.sha256_of(vectors / tapter.VECTORS / tapter.TRAINED)
    assert not (held / tapter.VECTORS).exists()
    assert [point["step"] for point in files.read_json(held / CURVE)][-1] == recipe.tapter.plan.steps
    report = report_of(recorded(run))
    assert set(report.facts.losses) == {"TAPTER", "DAPT+TAPTER"}
    texts = len(materials.task_text) + len(materials.domain)
    assert report.facts.given["TAPTER"]["adapting"] == f"word vectors: {texts} documents, then TAPTER: 25 steps"
    lines = report.facts.curves["Masked language modelling loss while adapting"].lines["TAPTER"]
    assert lines[-1][1] == pytest.approx(read_log(held)[-1]["loss.mlm"], rel=1e-6)


def test_the_baseline_tries_as_many_settings_as_an_encoder(toy_race):
    tuning = replace(toy_race.recipe.finetune, threshold="dev")
    searching = replace(toy_race.recipe, finetune=tuning, search=SearchRecipe(rates=(1e-3, 3e-3, 9e-3)))
    entries = enter(searching, toy_race.materials)
    assert entries.baseline.settings["recipe"]["trials"] == len(entries.recipe.settings()) == 3
    assert entries.baseline.settings["recipe"]["threshold"] == entries.recipe.finetune.threshold == "dev"
    fewer = replace(entries, recipe=replace(entries.recipe, tfidf=replace(entries.recipe.tfidf, trials=2)))
    assert fewer.with_trials(4).baseline.settings["recipe"]["trials"] == 2


@pytest.fixture(scope="module")
def once(toy_race):
    return replace(toy_race.recipe, contestants=("DAPT", "TAPT", "DAPT+TAPT", "TF-IDF"), seeds=3)


def test_fine_tuning_seed_k_starts_from_adaptation_k_mod_adapt_seeds(once, toy_race):
    single, several = (enter(recipe, toy_race.materials) for recipe in (once, replace(once, adapt_seeds=2)))
    [setting, *_] = once.settings()
    for name in ("TAPT", "DAPT+TAPT", "untouched"):
        jobs = [[entries.tuning(name, setting, seed) for seed in range(3)] for entries in (single, several)]
        assert [jobs[1][seed].name for seed in (0, 2)] == [jobs[0][seed].name for seed in (0, 2)]
        assert (jobs[1][1].name == jobs[0][1].name) == (name == "untouched")
        seeds = [adaptation_seed(contestants.tested(job, toy_race.materials.task)) for job in jobs[1]]
        assert seeds == ([None] * 3 if name == "untouched" else [0, 1, 0])
    first, second = (several.model("DAPT+TAPT", seed) for seed in (0, 1))
    assert second.needs["model"].name == several.model("DAPT", 1).name  # the whole chain is drawn again
    assert first.needs["model"].name == several.model("DAPT", 0).name
    assert {job.name for job in single.prepared()} < {job.name for job in several.prepared()}
    assert len(several.prepared()) == len(single.prepared()) + 4 * 3  # each with its probe and two losses


def test_a_race_of_several_adaptations_counts_them(once, toy_race, tmp_path, monkeypatch):
    monkeypatch.setattr(finetune, "nothing_learnt", lambda *looks, **measures: "")  # which little does in so few steps
    materials = replace(toy_race.materials, general=None, general_heldout=None, model=str(toy_race.base))
    brief = replace(once.finetune, looks=1, plan=replace(once.finetune.plan, steps=8))
    recipe = replace(once, contestants=("TAPT",), adapt_seeds=2, finetune=brief)
    run_race(recipe, materials, tmp_path / "run", command="acclimate race")
    several, single = (outcome.read_outcome(outcome.path_of(run, "race")) for run in (tmp_path / "run", toy_race.run))
    assert [score.adaptation for score in several.scores if score.contestant == "TAPT"] == [0, 1, 0]
    assert {score.adaptation for score in several.scores if score.contestant != "TAPT"} == {None}
    [comparison] = [row.comparison for row in outcome.rows(several) if row.contestant == "TAPT"]
    assert comparison.adaptations == 2
    measured = [
        json.loads(path.read_text())["loss"]
        for path in (tmp_path / "run").glob("jobs/held-out-loss-tapt-*/result.json")
    ]
    before, after = several.race.losses["TAPT"]
    assert after == pytest.approx(sum(measured) / 2)
    assert len({before, *measured}) == 3
    page = race_page(report_of(several)).as_html()
    assert "Means over 2 adaptations." in page
    assert "loss while adapting, the first of 2 adaptations" in page
    assert "several adaptations" in comparison.test
    assert "one adaptation" not in verdict(several)
    for score in single.scores:
        assert (score.adaptation == 0) == (score.adapting.tokens > 0), score.contestant
        assert score.adaptation in (0, None)


def test_a_verdict_says_in_the_same_sentence_that_it_rests_on_one_adaptation(field):
    unadapted = ("untouched", "random weights", "TF-IDF + logistic regression")
    stated = [replace(score, adaptation=None if score.contestant in unadapted else 0) for score in field]
    assert f"p = .029; {ONE_ADAPTATION})." in verdict(studies.raced(stated))
    assert ONE_ADAPTATION not in verdict(studies.raced(field))
    unadapted_only = [score for score in stated if score.contestant in unadapted]
    assert "one adaptation" not in verdict(studies.raced(unadapted_only))


def test_a_study_counts_the_differences_that_rest_on_one_adaptation():
    made = studies.outcome_of_pairs()
    several = tuple(
        replace(
            result,
            scores=tuple(replace(score, adaptation=0 if result.row == "Genes" else None) for score in result.scores),
        )
        for result in made.results
    )
    said = established(replace(made, results=several), "the target alone")
    assert f"; 3 of the 12 differences {ONE_ADAPTATION.replace('rests', 'rest')}." in said
    assert "one adaptation" not in established(made, "the target alone")


def test_the_power_of_another_race_is_that_of_the_adapted_contestants(field):
    """TF-IDF and random weights, which nothing adapts, have no chance over adaptations; beside them it was not told."""
    unadapted = ("untouched", "random weights", "TF-IDF + logistic regression")
    drawn = [replace(score, adaptation=None if score.contestant in unadapted else score.seed) for score in field]
    design = next_race(studies.raced(drawn))
    rivals = len({score.contestant for score in field}) - 1
    alone = next_race(studies.raced([each for each in drawn if each.contestant not in unadapted[1:]]))
    assert (design.comparisons, alone.comparisons) == (rivals, rivals - 2)
    assert design == replace(alone, comparisons=rivals)
