"""Every Method that can race: it adapts a toy model, goes on where it was stopped, costs what it says, and is refused
where its text is missing.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from acclimate.core import files
from acclimate.jobs.job import Job
from acclimate.jobs.run import done
from acclimate.methods import METHODS
from acclimate.models.encoder import load_masked_language_model, new_encoder, save_model
from acclimate.models.loading import load_tokenizer
from acclimate.races.contestants import enter
from acclimate.races.planning.forecast import costs_of
from acclimate.races.recipe import RaceRecipe, contestants_of
from acclimate.training.checkpoint import read_log, spent

CONTESTANTS = contestants_of(METHODS)
# Contestants of a method differ in their losses, which tests/test_conformance.py has: the first of each is tried here.
FIRST = {method.name: name for name, (method, _) in reversed(CONTESTANTS.items())}
TRIED = [pytest.param(name, marks=[] if name in FIRST.values() else pytest.mark.slow) for name in CONTESTANTS]
STEPS = 6


@pytest.fixture(scope="module")
def materials(toy_race, tmp_path_factory) -> Any:
    """Those of the toy race, with a model of four layers: what a last layer leaves out matters little."""
    tokenizer, model = load_tokenizer(toy_race.base), tmp_path_factory.mktemp("model") / "four"
    sizes = {"layers": 4, "hidden": 32, "heads": 2, "vocabulary_size": len(tokenizer), "longest": 64}
    save_model(new_encoder(**sizes, pad=tokenizer.pad_token_id, seed=0), tokenizer, model)
    return replace(toy_race.materials, model=str(model))


def recipe_with(toy_race: Any, name: str, *, steps: int = STEPS) -> RaceRecipe:
    """The toy race with this contestant, whose steps are few and stand in one piece."""
    method, contestant = CONTESTANTS[name]
    group = method.group(contestant)
    stated = getattr(toy_race.recipe, group)
    plan = replace(stated.plan, steps=steps, batch=8, piece_tokens=100_000)
    small = {
        "layers": 1,
        "hidden": 32,
        "heads": 2,
        "vocabulary": 300,
        "rho_1": 1,
        "max_tokens": 32,
        "looks": 1,
        "subset": 1,
    }
    given = {key: value for key, value in small.items() if key in vars(stated)}
    recipe: RaceRecipe = replace(toy_race.recipe, contestants=(name,), **{group: replace(stated, **given, plan=plan)})
    return recipe


def job_of(name: str, recipe: RaceRecipe, materials: Any) -> Job:
    job = enter(recipe, materials).models[name]
    assert job is not None
    return job


@pytest.mark.parametrize("name", TRIED)
def test_it_adapts_goes_on_where_it_was_stopped_and_costs_what_is_foreseen(name, toy_race, materials, tmp_path):
    recipe = recipe_with(toy_race, name)
    job = job_of(name, recipe, materials)
    [cost] = costs_of(enter(recipe, materials), [job])

    def stop(progress):
        if progress.unit == "steps" and progress.done == STEPS // 2 and "loss" in progress.values:
            raise KeyboardInterrupt

    whole = done(job, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        done(job, tmp_path / "stopped", watch=stop)
    assert done(job, tmp_path / "stopped") == whole, "the same checkpoint, by its hash"
    files.check_manifest(job.directory(tmp_path / "whole") / "checkpoint")
    assert load_masked_language_model(job.directory(tmp_path / "whole") / "checkpoint").config.hidden_size == 32
    took = spent(job.directory(tmp_path / "whole"))
    assert cost.tokens == pytest.approx(took.tokens, rel=0.25)
    assert cost.flops == pytest.approx(took.flops, rel=0.25)


@pytest.fixture(scope="module")
def per_step(toy_race, materials, tmp_path_factory) -> Callable[[str], float]:
    """Return the multiplications of a contestant's step, forwards and backwards, as torch counts them, without the
    share of padding.
    """

    @cache
    def per_step(contestant):
        job = job_of(contestant, recipe_with(toy_race, contestant, steps=3), materials)
        run, after = tmp_path_factory.mktemp("counted") / "run", {}
        for needed in job.needs.values():
            done(needed, run)

        def count(progress):
            if progress.unit == "steps" and "loss" in progress.values:
                after[progress.done] = counter.get_total_flops()

        # attention between the tokens of a toy's lines would outweigh its layers of width 32
        with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.bmm: lambda *_, **__: 0}) as counter:
            done(job, run, watch=count)
        log = read_log(job.directory(run))[1:]
        read, padding = (sum(line[name] for line in log) for name in ("tokens", "padding"))
        return (after[3] - after[1]) / 2 * read / (read + padding)

    return per_step


@pytest.mark.parametrize("name", [tried for tried in TRIED if CONTESTANTS[tried.values[0]][0].new_model is None])
def test_passes_are_those_that_torch_counts(name, toy_race, materials, per_step):
    """Multiplications of a step, beside those of masked language modelling, whose last layer computes less."""
    method, _, stated = recipe_with(toy_race, name).stated(name)
    alike = "DAPT" if CONTESTANTS[name][1].needs == "domain" else "TAPT"
    assert per_step(name) / per_step(alike) == pytest.approx(method.passes(stated), rel=0.35)


@pytest.mark.parametrize("name", [name for name, (_, contestant) in CONTESTANTS.items() if contestant.needs != "task"])
def test_it_is_refused_without_its_text(name, toy_race, materials):
    needs = CONTESTANTS[name][1].needs
    without = replace(materials, **{needs: None})
    with pytest.raises(ValueError, match=rf"^{name} .*\. Add --{'corpus' if needs == 'domain' else 'general'}"):
        enter(replace(toy_race.recipe, contestants=(name,)), without)
