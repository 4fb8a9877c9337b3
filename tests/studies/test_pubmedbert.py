"""PubMedBERT's study: what its models rest on."""

from dataclasses import replace

from acclimate.core import settings
from acclimate.races import work
from acclimate.races.contestants import adaptation_seed
from acclimate.studies.pubmedbert import MODEL_NAMES, PubmedbertStudyRecipe, pretrainings


def test_each_model_rests_on_one_pretraining(toy_race):
    recipe = settings.override(PubmedbertStudyRecipe(), ["scratch.plan.seed=7"])
    text = toy_race.materials.general
    models = pretrainings(recipe, {"domain": text, "general": text})
    assert {name: adaptation_seed(job) for name, job in models.items()} == dict.fromkeys(MODEL_NAMES, 7)
    assert [replace(job, work=work.PRETRAIN).name for job in models.values()] == [job.name for job in models.values()]
