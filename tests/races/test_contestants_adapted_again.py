"""Races whose contestants are adapted several times: which job starts from which, and what the statistics see."""

import json
from dataclasses import replace

import pytest

import studies
from acclimate.methods import finetune
from acclimate.races import contestants, outcome
from acclimate.races.contestants import adaptation_seed, enter
from acclimate.races.race import run_race
from acclimate.races.recipe import RaceRecipe
from acclimate.races.report import race_page, report_of
from acclimate.races.verdict import established, next_race, verdict
from acclimate.statistics.significance import ONE_ADAPTATION


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
    assert first is not None
    assert second is not None
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


def test_more_adaptations_than_fine_tunings_are_refused():
    with pytest.raises(ValueError, match="adapt_seeds = 4 is more than seeds = 3"):
        RaceRecipe(seeds=3, adapt_seeds=4)
    with pytest.raises(ValueError, match="adapt_seeds"):
        RaceRecipe(adapt_seeds=-1)


def test_the_power_of_another_race_is_that_of_the_adapted_contestants(field):
    """TF-IDF and random weights, which nothing adapts, have no chance over adaptations; beside them it was not told."""
    unadapted = ("untouched", "random weights", "TF-IDF + logistic regression")
    drawn = [replace(score, adaptation=None if score.contestant in unadapted else score.seed) for score in field]
    design = next_race(studies.raced(drawn))
    rivals = len({score.contestant for score in field}) - 1
    alone = next_race(studies.raced([each for each in drawn if each.contestant not in unadapted[1:]]))
    assert (design.comparisons, alone.comparisons) == (rivals, rivals - 2)
    assert design == replace(alone, comparisons=rivals)
