"""The studies that are not ported yet, behind the convention of studies/__init__.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from acclimate.core.types import Watch
from acclimate.race import race
from acclimate.race.design import Inputs
from acclimate.race.recipe import RaceRecipe
from acclimate.studies import Done, blurb, choices, dga, stilt, tapter, tlm


def run(name: str, recipe: Any, inputs: Inputs, out: Path, *, watch: Watch, before: Callable[[Any], None]) -> Done:
    if name == "blurb":
        found = blurb.run_benchmark(recipe, inputs.models, _folder(inputs), out, watch=watch)
        return Done(blurb.as_text(found))
    if name == "choices":
        return Done(
            choices.run_on_catalogue(recipe.vary, recipe, inputs.models, _folder(inputs), out, watch=watch).text
        )
    if name == "stilt":
        return Done(stilt.as_text(stilt.run_matrix(recipe, inputs.models, inputs.data, out, watch=watch)))
    assert inputs.task is not None
    given: dict[str, Any] = {"model": inputs.model, "data": inputs.data, "leaks": inputs.leaks, "watch": watch}
    if name == "tlm":
        given["labels_per_class"] = inputs.labels_per_class
        seeds = RaceRecipe(seeds=recipe.seeds, contestants=())
        materials = race.materials_of(inputs.task, inputs.raw, out, seeds, **given)
        before(materials.examination)
        return Done(tlm.run_grid(recipe.vary, recipe, materials, out, watch=watch).text)
    if name == "tapter":
        stages = tapter.given(inputs.task, inputs.raw, recipe, out, **given)
        before(stages.examination)
        return Done(tapter.run_two_stages(recipe, stages, out, watch=watch).text)
    adapting = dga.given(inputs.task, inputs.raw, recipe, out, **given)
    before(adapting.examination)
    return Done(dga.run_domain_methods(recipe, adapting, out, watch=watch).text)


def plan(name: str, recipe: Any, inputs: Inputs, out: Path) -> str:
    if name == "blurb":
        return blurb.plan(recipe, inputs.models, _folder(inputs), out).as_text()
    if name == "choices":
        return choices.plan(recipe.vary, recipe, inputs.models, _folder(inputs), out).as_text()
    if name == "stilt":
        return stilt.plan(recipe, inputs.models, inputs.data, out).as_text()
    module: Any = {"tapter": tapter, "dga": dga}.get(name)
    if module is None:
        raise ValueError("--dry-run is not for tlm yet. Leave it out")
    given: dict[str, Any] = {"model": inputs.model, "data": inputs.data, "leaks": inputs.leaks}
    with TemporaryDirectory() as place:
        found = module.given(inputs.task, inputs.raw, recipe, Path(place), **given)
        text: str = module.foreseen(recipe, found, out).as_text()
        return text


def _folder(inputs: Inputs) -> Path:
    if inputs.data is None:
        raise ValueError("no datasets given: add --data DIR, a folder of datasets")
    return inputs.data
