"""The defaults of the studies are their papers', and settings that make no study are refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from acclimate.core import settings
from acclimate.data.gather import Inputs
from acclimate.methods import METHODS, finetune, mlm, tapter
from acclimate.reading.datasets import blurb
from acclimate.studies import STUDIES
from acclimate.studies.choices import TABLES, ChoicesRecipe
from acclimate.studies.dga import ADAPTED, ENSEMBLE, TABLE_2, TABLE_3, DgaStudyRecipe
from acclimate.studies.inputs import models_of
from acclimate.studies.stilt import PAPER
from acclimate.studies.tapter import TapterStudyRecipe
from acclimate.studies.tlm import TlmStudyRecipe, variants

RECIPES = Path(__file__).parents[2] / "src" / "acclimate" / "recipes"


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_a_study_fine_tunes_as_papers_do(study):
    stated = settings.flat(settings.to_mapping(study.recipe()))
    assert {value for key, value in stated.items() if key.endswith("preset")} == {"papers"}


def test_dgas_fine_tuning_is_the_papers_and_tapt_is_clipped_where_tapter_is():
    row = settings.from_toml(finetune.FinetuneRecipe, RECIPES / "finetune" / "dga.toml")
    clipped = replace(row.plan, clip=1.0)  # the released code does not clip; finetune.plan.clip=0 does as it does
    assert DgaStudyRecipe().finetune == replace(row, model="", looks=1, plan=clipped)
    assert (DgaStudyRecipe().seeds, DgaStudyRecipe().names) == (5, TABLE_2)
    assert settings.override(DgaStudyRecipe(), ["ablations=true"]).names == (*TABLE_2, *TABLE_3)
    assert {*TABLE_2, *TABLE_3} == {*ADAPTED, ENSEMBLE} - {"DGA (update)", "DGA (w/o mask)"}, "which the paper has not"
    assert {method for method, _ in ADAPTED.values()} <= {*METHODS}
    stated = TapterStudyRecipe()
    assert stated.tapt.plan == stated.tapter.plan
    tapt = settings.from_toml(mlm.MlmRecipe, RECIPES / "mlm" / "tapt-tapter.toml")
    for name in ("bioasq", "squad"):
        tapters = settings.from_toml(tapter.TapterRecipe, RECIPES / "tapter" / f"{name}.toml").plan
        assert tapters.clip == tapt.plan.clip == stated.tapt.plan.clip


def test_tapters_defaults_are_table_4s():
    recipe = TapterStudyRecipe()
    for tuning, epochs in ((recipe.first_stage, 2), (recipe.finetune, 10)):
        plan = tuning.plan
        assert (plan.batch, plan.rate, plan.warmup, plan.weight_decay) == (128, 5e-5, 0.06, 0.01)
        assert (tuning.epochs, tuning.choose) == (epochs, "last")
    assert (recipe.tapter.vectors, tapter.resolved_scale(recipe.tapter)) == ("", "unit")


def test_tables_of_the_papers():
    known = {each.name for each in blurb.DATASETS}
    assert all({*table.datasets} <= known for table in TABLES.values())
    assert [each.name for each in ChoicesRecipe(vary="layers").chosen] == ["linear", "BiLSTM"]
    assert [each.name for each in ChoicesRecipe(vary="schemes").chosen] == ["BIO", "BIOUL", "IO"]
    assert len(ChoicesRecipe(vary="relations").chosen) == 7
    assert {*PAPER} == known - {"HoC", "BIOSSES"}
    assert [each.name for each in variants(TlmStudyRecipe(vary="k"))] == [
        "task data only", "K = 50", "K = 500", "K = 5000",
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"vary=model needs a pretrained model\. Add --model"):
        variants(TlmStudyRecipe(vary="model"))


@pytest.mark.parametrize("name", STUDIES)
def test_one_seed_is_refused(name):
    with pytest.raises(ValueError, match="one seed cannot show the variation between runs"):
        settings.override(STUDIES[name].recipe(), ["seeds=1"])


@pytest.mark.parametrize("name", [name for name, study in STUDIES.items() if study.takes == "models"])
def test_a_study_of_models_needs_them_once_each_and_datasets(name, models, tmp_path):
    study = STUDIES[name]
    with pytest.raises(ValueError, match=r"no model given|there is no such folder"):
        study.design(study.recipe(), Inputs(tmp_path))
    with pytest.raises(ValueError, match=r"--data DIR|there is no such folder"):
        study.design(study.recipe(), Inputs(tmp_path, models=models))
    with pytest.raises(ValueError, match=r"one and .*one are the same model"):
        models_of([models[0], models[0]])
