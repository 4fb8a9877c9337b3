"""PubMedBERT's study: what its models rest on."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from acclimate.core import files, settings
from acclimate.core.types import Document, Example, unwatched
from acclimate.jobs.run import do_all
from acclimate.races import work
from acclimate.races.contestants import adaptation_seed
from acclimate.studies.pubmedbert import (
    DOMAIN_WORDS,
    FULL,
    LEARNING,
    LONGER,
    MODEL_NAMES,
    PubmedbertStudyRecipe,
    leaking,
    pretrainings,
)
from acclimate.text.corpus import write_corpus


def test_each_model_rests_on_one_pretraining(toy_race):
    recipe = settings.override(PubmedbertStudyRecipe(), ["scratch.plan.seed=7"])
    text = toy_race.materials.general
    models = pretrainings(recipe, {"domain": text, "general": text})
    assert {name: adaptation_seed(job) for name, job in models.items()} == dict.fromkeys(MODEL_NAMES, 7)
    assert [replace(job, work=work.PRETRAIN).name for job in models.values()] == [job.name for job in models.values()]


def test_table_8_adds_full_texts_alone_and_then_1_6_times_the_tokens(toy_race):
    recipe = settings.override(PubmedbertStudyRecipe(), ["full_texts=pmc", "scratch.tokens=1000"])
    assert recipe.rows_of_models == (*MODEL_NAMES, FULL, LONGER)
    general, domain = toy_race.materials.general, toy_race.materials.domain
    assert general.hash != domain.hash
    models = pretrainings(recipe, {"domain": domain, "general": domain, FULL: general})
    abstracts, full, longer = (models[name] for name in (DOMAIN_WORDS, FULL, LONGER))
    assert full.contents == {**abstracts.contents, "general": general.hash}
    assert full.needs == {"tokenizer": abstracts}
    taught = abstracts.settings["recipe"]
    differing = {name for name in taught if taught[name] != full.settings["recipe"][name]}
    assert differing <= set(LEARNING)  # what is not read, since the vocabulary is given
    assert [job.settings["recipe"]["tokens"] for job in (abstracts, full, longer)] == [1000, 1000, 1600]
    by_steps = settings.override(recipe, ["scratch.tokens=0", "scratch.plan.steps=625"])
    of_steps = pretrainings(by_steps, {"domain": domain, "general": domain, FULL: general})
    assert of_steps[LONGER].settings["recipe"]["plan"]["steps"] == 1000


def test_full_texts_are_read_beside_the_corpus(toy_race, tmp_path):
    small = ["vocabulary=200", "layers=1", "hidden=16", "heads=2", "tokens=0", "plan.steps=2", "plan.batch=2"]
    recipe = settings.override(
        PubmedbertStudyRecipe(), ["full_texts=pmc", *(f"scratch.{each}" for each in (*small, "max_tokens=16"))]
    )
    materials = toy_race.materials
    models = pretrainings(recipe, {"domain": materials.domain, "general": materials.domain, FULL: materials.general})
    job = models[FULL]
    assert not do_all([job], tmp_path)
    read = files.read_json(job.directory(tmp_path) / "checkpoint" / "provenance.json")["sources"]
    assert (read["corpus"], read["general"]) == (materials.domain.hash, materials.general.hash)


def test_texts_that_hold_a_dev_or_test_text_are_told(tmp_path):
    def example(name: str) -> Example:
        return Example(name, f"the {name} sentence tells of aspirin, of dose and of those who took it for long", "a")

    task = SimpleNamespace(splits={"dev": [example("second")], "test": [example("third")]})
    clean = write_corpus([Document("0", "nothing of the kind stands in here")], tmp_path / "clean")
    held = [Document("0", f"First comes this. {example('third').text}"), *clean.documents()]
    texts = {"general": clean, "domain": write_corpus(held, tmp_path / "held")}
    inputs = SimpleNamespace(out=tmp_path / "run", watch=unwatched)
    for _ in range(2):  # the second time it is read from what the first has written
        [said] = leaking(texts, [task], inputs)
        assert said.startswith("1 of 2 documents of domain contain a dev or test text of the datasets")


def test_a_model_of_full_texts_without_them_is_refused():
    with pytest.raises(ValueError, match=r"'with full texts' is pretrained on a second text\. Set full_texts"):
        replace(PubmedbertStudyRecipe(), models=(DOMAIN_WORDS, FULL))
