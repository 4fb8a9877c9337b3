"""Looks at held-out text while a model adapts: what they measure, and that nothing depends on them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from acclimate.core import files
from acclimate.core.types import HELDOUT_LOOKS, SUB_WORDS
from acclimate.methods import METHODS, mlm
from acclimate.reports.forgetting import read_path
from acclimate.training.looks import HeldOutLooks
from acclimate.training.plan import Plan

PLAN = Plan(steps=5, batch=8, rate=3e-3)
BEGUN = {"max_tokens": 24, "epochs": 0.0, "plan": PLAN}
CONTESTANTS = [
    pytest.param(method.name, each, marks=[] if each.name in ("DAPT", "DGA", "prompt") else pytest.mark.slow)
    for method in METHODS.values()
    if method.looks_at_heldout
    for each in method.contestants
]


def texts_of(toy_race):
    return {"domain": toy_race.materials.heldout.path, "general": toy_race.materials.general_heldout.path}


@pytest.mark.parametrize(("method", "contestant"), CONTESTANTS, ids=lambda each: getattr(each, "name", ""))
def test_looks_are_evenly_spaced_and_measure_what_is_measured_of_the_model(
    method, contestant, pretrained, toy_race, tmp_path
):
    texts = texts_of(toy_race)
    masks = {"": True, SUB_WORDS: False}
    stated = replace(contestant.small or METHODS[method].recipe(), **contestant.settings, **BEGUN)
    stated = replace(stated, model=str(pretrained), corpus=toy_race.materials.domain.path)
    done = METHODS[method].adapt(stated, tmp_path, looks=HeldOutLooks(2, texts, 24, sub_words=True))
    path = read_path(tmp_path)
    assert [step for step, _ in path] == [0, 2, 4, 5]
    for model, (_, found) in ((str(pretrained), path[0]), (str(done.path), path[-1])):
        assert len(found) == len(texts) * len(masks)
        for (name, text), (ending, whole_words) in product(texts.items(), masks.items()):
            expected = mlm.heldout_loss(model, text, max_tokens=24, whole_words=whole_words, most=512).loss
            assert found[f"{name}{ending}"] == pytest.approx(expected, rel=2e-4), (model, name, ending)


def test_the_checkpoint_is_the_same_with_looks_and_without_and_after_a_kill_looks_go_on(
    pretrained, toy_race, tmp_path, monkeypatch
):
    stated = mlm.MlmRecipe(str(pretrained), toy_race.materials.domain.path, **BEGUN)
    without = mlm.adapt(stated, tmp_path / "without")
    looks = HeldOutLooks(2, texts_of(toy_race), 24)
    looked = mlm.adapt(stated, tmp_path / "looked", looks=looks)
    assert files.sha256_of(looked.path / files.MANIFEST) == files.sha256_of(without.path / files.MANIFEST)
    assert not (tmp_path / "without" / HELDOUT_LOOKS).exists()

    def killed(progress):
        if progress.done == 4:
            raise KeyboardInterrupt

    monkeypatch.setenv("ACCLIMATE_SAVE_SECONDS", "0")
    with pytest.raises(KeyboardInterrupt):
        mlm.adapt(stated, tmp_path / "killed", looks=looks, watch=killed)
    assert [step for step, _ in read_path(tmp_path / "killed")] == [0, 2, 4]
    mlm.adapt(stated, tmp_path / "killed", looks=looks)
    assert read_path(tmp_path / "killed") == read_path(tmp_path / "looked")
