"""The studies of TLM's paper (Yao et al., 2022, section 4.3): one thing varied, all else and the seeds the same.

    vary=retrieval  BM25, and as many documents at random (Table 3)
    vary=k          documents a query, and none (Table 4)
    vary=rho_1      external batches for each internal one, and external data only (Table 5)
    vary=rho_2      weight of language modelling on internal rows (Table 6)
    vary=stages     with and without stage 2 (Table 7)
    vary=model      a pretrained model fine-tuned, TLM from its weights, TLM from random ones (Table 8)
    vary=search     rho_1 by rho_2: the best on dev is tested, and all that the search took is counted (section 4.1)

All are compared on dev, as in the paper, whose Table 8 alone has test scores. The first variant is what the others are
compared with. What variants share (a selection, a first stage) is done once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from acclimate.core import files
from acclimate.core.types import Watch
from acclimate.data import retrieve
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job, Result, Work, is_done
from acclimate.methods import finetune, tlm
from acclimate.races import work
from acclimate.races.contestants import adapted, cut, fine_tuned, heldout_loss, retrieved
from acclimate.races.design import Against, Cell, Design, Inputs, Losses
from acclimate.races.race import materials_of
from acclimate.races.recipe import RaceRecipe
from acclimate.reports.table import HEADING, MEANING
from acclimate.tasks.prepared import open_prepared

TABLES = {
    "retrieval": "Table 3",
    "k": "Table 4",
    "rho_1": "Table 5",
    "rho_2": "Table 6",
    "stages": "Table 7",
    "model": "Table 8",
    "search": "section 4.1",
}


@dataclass(frozen=True)
class TlmStudyRecipe:
    """TLM with one thing varied. `tlm` and `retrieval` are what every variant has but for what is varied.

    The defaults of `ks`, `rho_1s` and `rho_2s` are the paper's values; of `tlm`, what a race on a small encoder has.
    """

    vary: Literal["retrieval", "k", "rho_1", "rho_2", "stages", "model", "search"] = "k"
    """What differs between the rows of the table; all else is the same."""
    seeds: int = 3  # runs of each variant, each with another seed; at least 2
    ks: tuple[int, ...] = (50, 500, 5000)  # values of retrieval.k that vary=k compares
    rho_1s: tuple[int, ...] = (1, 3, 99, 999)  # values of tlm.rho_1 that vary=rho_1 and vary=search compare
    rho_2s: tuple[float, ...] = (0.0, 20.0, 100.0, 1000.0)
    """Values of tlm.rho_2 that vary=rho_2 and vary=search compare."""
    retrieval: retrieve.RetrieveRecipe = field(default_factory=retrieve.RetrieveRecipe)
    """How documents are retrieved for every variant, except for what is varied."""
    tlm: tlm.TlmRecipe = field(default_factory=lambda: replace(RaceRecipe().tlm, finetune=RaceRecipe().finetune))
    """Settings of every variant, except for what is varied; fine-tuned as in a race."""

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(
                f"seeds = {self.seeds}: one seed says nothing about chance. Give at least 2, better 3 or 5"
            )
        for name in ("ks", "rho_1s", "rho_2s"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(f"{name} = {list(values)}: at least one value, and each once")


RECIPE = TlmStudyRecipe


def hand_over(*, out: Path, watch: Watch, task: Path, joint: Path) -> Result:
    """TLM without its second stage (Table 7): the encoder and the classifier of the first one as they are."""
    checkpoint = tlm.without_stage_2(joint, open_prepared(task), out)
    dev = finetune.dev_score(out, "last")
    return {"dev": dev, "checkpoint": files.sha256_of(checkpoint.path / files.MANIFEST)} | work.seen_on_dev(out)


STAGE_1 = Work("stage 1 alone", hand_over, estimate=work.fitting, trains="task")


@dataclass(frozen=True)
class Variant:
    """name: as the table has it; tlm: None where the given model is fine-tuned as it is."""

    name: str
    tlm: tlm.TlmRecipe | None
    retrieval: retrieve.RetrieveRecipe


def variants(recipe: TlmStudyRecipe, model: str | None = None) -> list[Variant]:
    """The rows of the table that `vary` names. Raises ValueError where it needs a model and none is given."""
    stated, retrieval = recipe.tlm, recipe.retrieval
    match recipe.vary:
        case "retrieval":
            named = {"random": replace(retrieval, how="random"), "BM25": replace(retrieval, how="bm25")}
            return [Variant(name, stated, how) for name, how in named.items()]
        case "k":
            task_only = Variant("task data only", replace(stated, rho_1=0), retrieval)
            return [task_only, *(Variant(f"K = {k}", stated, replace(retrieval, k=k)) for k in recipe.ks)]
        case "rho_1":
            external = Variant("external only", replace(stated, external_only=True), retrieval)
            return [*(Variant(f"rho_1 = {x}", replace(stated, rho_1=x), retrieval) for x in recipe.rho_1s), external]
        case "rho_2":
            return [Variant(f"rho_2 = {x:g}", replace(stated, rho_2=x), retrieval) for x in recipe.rho_2s]
        case "stages":
            one, both = replace(stated, stage_2=False), replace(stated, stage_2=True)
            return [Variant("without stage 2", one, retrieval), Variant("two stages", both, retrieval)]
        case "model":
            if not model:
                raise ValueError("vary=model needs a pretrained model: give --model, a directory or hub id")
            goes_on = replace(stated, model=model, rho_1=0)
            return [
                Variant("model", None, retrieval),
                Variant("model + MLM on task data", goes_on, retrieval),
                Variant("TLM", replace(stated, model=""), retrieval),
            ]
        case "search":
            return [
                Variant(f"rho_1 = {x}, rho_2 = {y:g}", replace(stated, rho_1=x, rho_2=y), retrieval)
                for x, y in product(recipe.rho_1s, recipe.rho_2s)
            ]


def _materials(varied: Sequence[Variant], race: RaceRecipe, inputs: Inputs) -> Materials:
    """Return what the variants train on. Raises ValueError where general text is missing, or TLM cannot do the task."""
    joint = [variant.tlm for variant in varied if variant.tlm is not None]
    assert inputs.task is not None
    if inputs.raw.general is None and str(inputs.task.train) != "docstrings" and any(own.reads_corpus for own in joint):
        raise ValueError("TLM retrieves from general text: give --general")
    materials = materials_of(
        inputs.task,
        inputs.raw,
        inputs.out,
        race,
        data=inputs.data,
        model=inputs.model,
        leaks=inputs.leaks,
        labels_per_class=inputs.labels_per_class,
        watch=inputs.watch,
    )
    if joint and (why := tlm.unsuited(materials.task.kind, None)):
        raise ValueError(f"TLM {why}. Take another method for this task")
    return materials


def design(recipe: TlmStudyRecipe, inputs: Inputs) -> Design:
    """Raises ValueError where general text or a model is needed and not there."""
    if recipe.tlm.model and not inputs.model:
        raise ValueError(f"tlm.model = {recipe.tlm.model!r}, but no model is given. Add --model {recipe.tlm.model}")
    varied = variants(recipe, inputs.model)
    race = RaceRecipe(seeds=recipe.seeds, contestants=(), tlm=recipe.tlm, finetune=recipe.tlm.finetune)
    materials = _materials(varied, race, inputs)
    if recipe.vary == "model":
        varied = variants(recipe, materials.model)
    most = max(variant.retrieval.k for variant in varied)  # smaller ones are cut from its retrieval

    cells, going_on = [], {}
    for variant in varied:
        tuned: dict[int, Job] = {}
        retrieval: Job | None = None
        first: dict[int, Job] = {}
        for seed in range(recipe.seeds):
            words = f"seed {seed}"  # and not the variant: what variants share has one name
            tuning = replace(recipe.tlm.finetune, plan=replace(recipe.tlm.finetune.plan, seed=seed))
            if variant.tlm is None:
                tuned[seed] = fine_tuned(f"fine-tune, {words}", tuning, None, materials)
                continue
            stated = replace(variant.tlm, plan=replace(variant.tlm.plan, seed=seed))
            if stated.reads_corpus:
                retrieval = retrieved(replace(variant.retrieval, k=most), materials)
                if variant.retrieval.k < most:
                    retrieval = cut(retrieval, variant.retrieval.k)
            first[seed] = adapted(f"stage 1, {words}", tlm.METHOD, stated, retrieval, materials)
            if stated.stage_2:
                tuned[seed] = fine_tuned(f"fine-tune, {words}", tuning, first[seed], materials)
            else:
                contents = {name: materials.task.hashes[name] for name in ("about", "train", "dev")}
                places = {"task": materials.task.path}
                tuned[seed] = Job(f"hand over, {words}", STAGE_1, {}, contents, places, {"joint": first[seed]})
        adapting = {seed: [*([retrieval] if retrieval else []), job] for seed, job in first.items()}
        costs = {"stage 1": adapting, "tuning": {seed: [job] for seed, job in tuned.items()}}
        cells.append(Cell(variant.name, materials.task.name, tuned, costs, materials))
        if variant.tlm is not None and variant.tlm.model:
            going_on[variant.name] = first

    losses: tuple[Losses, ...] = ()
    if (text := materials.general_heldout) is not None and going_on:
        longest = recipe.tlm.max_tokens
        before = heldout_loss("general loss, model", text, None, materials, max_tokens=longest)
        after = {
            name: [
                heldout_loss(f"general loss, seed {seed}", text, job, materials, max_tokens=longest)
                for seed, job in first.items()
            ]
            for name, first in going_on.items()
        }
        losses = (Losses(HEADING, MEANING, (varied[0].name, before), after),)

    def stage_1(cell: Cell, out: Path) -> Mapping[str, Any]:
        """Epochs over the task's rows, and FLOP as the paper counts: 6 x tokens x parameters, rows at full length."""
        *_, joint = cell.costs["stage 1"].get(0, [None])
        cost = files.read_json(joint.directory(out) / tlm.COST) if joint and is_done(joint, out) else {}
        return {"epochs": cost["internal_epochs"], "paper's FLOP": cost["paper_flops"]} if cost else {}

    reference = cells[0]
    return Design(
        name=f"tlm-{recipe.vary}",
        title=f"TLM, {recipe.vary} varied: {materials.task.name}",
        source=f"The study: Yao, Zheng, Yang and Yang (2022), {TABLES[recipe.vary]}.",
        cells=tuple(cells),
        against=tuple(
            Against(cell.key, (reference.key,), reference.row, f"all comparisons with '{reference.row}'")
            for cell in cells[1:]
        ),
        axes=("variant", "task"),
        split="dev",
        losses=losses,
        chosen_is_tested=recipe.vary == "search",
        notes=materials.notes,
        race=race,
        examination=materials.examination,
        measured=stage_1,
    )
