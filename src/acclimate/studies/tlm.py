"""The studies of TLM's paper (Yao et al., 2022, section 4.3): one thing varied, all else and the seeds the same.

    vary=retrieval  BM25, and as many documents at random, drawn anew for each first stage; from a second general
                    corpus too, where there is one (Table 3)
    vary=k          documents for each query, and no documents (Table 4)
    vary=rho_1      external batches for each internal one, and external data only (Table 5)
    vary=rho_2      weight of language modelling on internal rows (Table 6)
    vary=stages     with and without stage 2 (Table 7)
    vary=model      a pretrained model fine-tuned, TLM from its weights, TLM from random weights (Table 8)
    vary=search     rho_1 by rho_2: the best on dev is tested, and the cost of the whole search is counted (section 4.1)

Variants are compared on dev, as in the paper, where only Table 8 has test scores. The first variant is the one that the
others are compared with. A job that variants share (a retrieval, a first stage) is done once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from acclimate.core import files
from acclimate.core.settings import Count, Positive, Range, check_no_more, check_ranges
from acclimate.core.types import Watch
from acclimate.data import retrieve
from acclimate.data.materials import EMBEDDED_TASKS, Materials, corpus_at
from acclimate.data.sources import Inputs, materials_of
from acclimate.jobs.job import Job, Result, Work, is_done
from acclimate.methods import finetune, tlm
from acclimate.races import estimates, work
from acclimate.races.compare import Against
from acclimate.races.contestants import adapted, cut, heldout_loss, retrieved
from acclimate.races.design import Cell, Design, HeldOutLosses, fine_tunings
from acclimate.races.recipe import RaceRecipe, Seeds, check_each_once
from acclimate.reports.table import HEADING, MEANING, over_adaptations
from acclimate.studies.models import FINETUNING_OF_SMALL
from acclimate.tasks.prepared import open_prepared
from acclimate.text.corpus import Corpus

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
    """TLM with one thing varied. All variants share the settings `tlm` and `retrieval`, except for what is varied.

    The defaults of `ks`, `rho_1s` and `rho_2s` are the paper's values; those of `tlm` are a race's for a small encoder.
    """

    vary: Literal["retrieval", "k", "rho_1", "rho_2", "stages", "model", "search"] = "k"
    """What differs between the rows of the table; all else is the same."""
    seeds: Seeds = 3  # runs of each variant, each with another seed; at least 2
    adapt_seeds: Count = 0
    """Number of first stages of each variant, each with another seed, at most as many as `seeds`. Run k goes on from
    first stage k mod adapt_seeds. 0: each run has its first stage."""
    ks: tuple[Positive, ...] = (50, 500, 5000)  # values of retrieval.k that vary=k compares
    rho_1s: tuple[Count, ...] = (1, 3, 99, 999)  # values of tlm.rho_1 that vary=rho_1 and vary=search compare
    rho_2s: tuple[Annotated[float, Range(least=0)], ...] = (0.0, 20.0, 100.0, 1000.0)
    """Values of tlm.rho_2 that vary=rho_2 and vary=search compare."""
    second: str = ""  # a file or folder of another general corpus, from which vary=retrieval retrieves too; "": none
    retrieval: retrieve.RetrieveRecipe = field(default_factory=retrieve.RetrieveRecipe)
    """How documents are retrieved for every variant, except for what is varied."""
    tlm: tlm.TlmRecipe = field(default_factory=lambda: replace(RaceRecipe().tlm, finetune=FINETUNING_OF_SMALL))
    """Settings of every variant, except for what is varied."""

    def __post_init__(self) -> None:
        check_ranges(self)
        check_no_more(self, "adapt_seeds", than="seeds")
        for name in ("ks", "rho_1s", "rho_2s"):
            check_each_once(name, getattr(self, name))
        if self.second and self.vary != "retrieval":
            raise ValueError(f"second = {self.second!r} is read by vary=retrieval alone. Leave it out")


RECIPE = TlmStudyRecipe


@dataclass(frozen=True)
class TlmVariant:
    """A row of the table.

    tlm     None where the given model is fine-tuned untouched
    second  True if documents come from the second general corpus
    """

    name: str
    tlm: tlm.TlmRecipe | None
    retrieval: retrieve.RetrieveRecipe
    second: bool = False


def design(recipe: TlmStudyRecipe, inputs: Inputs) -> Design:
    """Raises ValueError where general text or a model is missing, and where TLM cannot do the task."""
    if recipe.tlm.model and not inputs.model:
        raise ValueError(f"tlm.model = {recipe.tlm.model!r}, but no model is given. Add --model {recipe.tlm.model}")
    varied = variants(recipe, inputs.model)
    race = RaceRecipe(seeds=recipe.seeds, contestants=(), tlm=recipe.tlm, finetune=recipe.tlm.finetune)
    materials = _materials(varied, race, inputs)
    if recipe.vary == "model":
        varied = variants(recipe, materials.model)
    most = max(variant.retrieval.k for variant in varied)  # smaller retrievals are cut from this one

    sources = {False: materials}
    if recipe.second:
        second = _second_corpus(recipe.second, materials, inputs)
        sources[True] = replace(materials, general=second)

    cells: list[Cell] = []
    adaptations = recipe.adapt_seeds or recipe.seeds
    first_stages: dict[str, list[Job]] = {}  # of the variants that go on from the given model
    for variant in varied:
        drawn: list[Job] = []
        if variant.tlm is not None:
            for seed in range(adaptations):  # labels do not name the variant, so that variants can share a job
                retrieval = _retrieval(variant, most, seed, sources) if variant.tlm.reads_corpus else None
                seeded = replace(variant.tlm, plan=replace(variant.tlm.plan, seed=seed))
                drawn.append(adapted(f"stage 1, seed {seed}", tlm.METHOD, seeded, retrieval, materials))
        firsts = {seed: drawn[seed % adaptations] for seed in range(recipe.seeds)} if drawn else {}
        if variant.tlm is None or variant.tlm.stage_2:
            tuned = fine_tunings("fine-tune", recipe.tlm.finetune, firsts or None, materials, seeds=recipe.seeds)
        else:
            tuned = {seed: _handed_over(f"hand over, seed {seed}", job, materials) for seed, job in firsts.items()}
        costs = {
            "stage 1": {seed: [*_retrieved_for(job), job] for seed, job in firsts.items()},
            "tuning": {seed: [job] for seed, job in tuned.items()},
        }
        cells.append(Cell(variant.name, materials.task.name, tuned, costs, materials))
        if variant.tlm is not None and variant.tlm.model:
            first_stages[variant.name] = drawn

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
        losses=_losses(recipe, first_stages, varied[0].name, materials),
        chosen_is_tested=recipe.vary == "search",
        notes=materials.notes,
        race=race,
        examination=materials.examination,
        measured=_cost_of_stage_1,
    )


def _retrieval(variant: TlmVariant, most: int, seed: int, sources: Mapping[bool, Materials]) -> Job:
    """Return the job that retrieves for the first stage with this seed.

    BM25 finds the same documents for every seed, cut from a retrieval of `most` for each query. At random, each first
    stage has a draw of its own: the seed of the first draw is that of the settings.
    """
    stated = replace(variant.retrieval, k=most)
    if stated.how == "random":
        stated = replace(stated, seed=stated.seed + seed)
    retrieval = retrieved(stated, sources[variant.second])
    return cut(retrieval, variant.retrieval.k) if variant.retrieval.k < most else retrieval


def _retrieved_for(first_stage: Job) -> list[Job]:
    """Return the job that retrieved what a first stage reads; none if it reads no corpus."""
    return [first_stage.needs["retrieved"]] if "retrieved" in first_stage.needs else []


def _second_corpus(place: str, materials: Materials, inputs: Inputs) -> Corpus:
    """Return the second general corpus. Raises ValueError where it has the documents of --general."""
    separated = inputs.raw.separated
    second = corpus_at(Path(place), inputs.out / "second", separated=separated, watch=inputs.watch)
    assert inputs.raw.general is not None
    if second.hash == corpus_at(inputs.raw.general, inputs.out / "second", separated=separated).hash:
        raise ValueError(f"second = {place!r} has the documents of --general. Give another general corpus")
    return second


def variants(recipe: TlmStudyRecipe, model: str | None = None) -> list[TlmVariant]:
    """Return the rows of the table that `vary` names. Raises ValueError where they need a model and none is given."""
    stated, retrieval = recipe.tlm, recipe.retrieval
    match recipe.vary:
        case "retrieval":
            named = {"random": replace(retrieval, how="random"), "BM25": replace(retrieval, how="bm25")}
            rows = [TlmVariant(name, stated, how) for name, how in named.items()]
            if recipe.second:
                rows += [TlmVariant(f"{row.name}, second corpus", stated, row.retrieval, second=True) for row in rows]
            return rows
        case "k":
            task_only = TlmVariant("task data only", replace(stated, rho_1=0), retrieval)
            return [task_only, *(TlmVariant(f"K = {k}", stated, replace(retrieval, k=k)) for k in recipe.ks)]
        case "rho_1":
            external = TlmVariant("external only", replace(stated, external_only=True), retrieval)
            return [*(TlmVariant(f"rho_1 = {x}", replace(stated, rho_1=x), retrieval) for x in recipe.rho_1s), external]
        case "rho_2":
            return [TlmVariant(f"rho_2 = {x:g}", replace(stated, rho_2=x), retrieval) for x in recipe.rho_2s]
        case "stages":
            one, both = replace(stated, stage_2=False), replace(stated, stage_2=True)
            return [TlmVariant("without stage 2", one, retrieval), TlmVariant("two stages", both, retrieval)]
        case "model":
            if not model:
                raise ValueError("vary=model needs a pretrained model: give --model, a directory or hub id")
            goes_on = replace(stated, model=model, rho_1=0)
            return [
                TlmVariant("model", None, retrieval),
                TlmVariant("model + MLM on task data", goes_on, retrieval),
                TlmVariant("TLM", replace(stated, model=""), retrieval),
            ]
        case "search":
            return [
                TlmVariant(f"rho_1 = {x}, rho_2 = {y:g}", replace(stated, rho_1=x, rho_2=y), retrieval)
                for x, y in product(recipe.rho_1s, recipe.rho_2s)
            ]


def _materials(varied: Sequence[TlmVariant], race: RaceRecipe, inputs: Inputs) -> Materials:
    """Return what the variants train on. Raises ValueError where general text is missing, or TLM cannot do the task."""
    joint = [variant.tlm for variant in varied if variant.tlm is not None]
    assert inputs.task is not None
    if (
        inputs.raw.general is None
        and str(inputs.task.train) not in EMBEDDED_TASKS
        and any(stated.reads_corpus for stated in joint)
    ):
        raise ValueError("TLM retrieves from general text: give --general")
    materials = materials_of(inputs, seeds=race.seeds, comparisons=0)  # all is scored on dev
    if joint and (why := tlm.unsuited(materials.task.kind, None)):
        raise ValueError(f"TLM {why}. Take another method for this task")
    return materials


def _handed_over(label: str, joint: Job, materials: Materials) -> Job:
    """Return the job that makes the model of stage 1 the result, where there is no stage 2."""
    contents = {name: materials.task.hashes[name] for name in ("about", "train", "dev")}
    return Job(label, STAGE_1, {}, contents, {"task": materials.task.path}, {"joint": joint})


def hand_over(*, out: Path, watch: Watch, task: Path, joint: Path) -> Result:
    """Write the model of TLM without its second stage (Table 7): encoder and classifier of the first one."""
    checkpoint = tlm.without_stage_2(joint, open_prepared(task), out)
    dev = finetune.dev_score(out)
    return {"dev": dev, "checkpoint": files.sha256_of(checkpoint.path / files.MANIFEST)} | work.seen_on_dev(out)


STAGE_1 = Work("stage 1 alone", hand_over, estimate=estimates.fitting, trains="task")


def _losses(
    recipe: TlmStudyRecipe, first_stages: Mapping[str, Sequence[Job]], untouched: str, materials: Materials
) -> tuple[HeldOutLosses, ...]:
    """Return the losses on held-out general text before and after stage 1 of variants that go on from the given model.

    first_stages  variant -> its first stages, by seed; without any, and without held-out text, nothing is measured
    untouched     the variant that is the given model
    """
    text, longest = materials.general_heldout, recipe.tlm.max_tokens
    if text is None or not first_stages:
        return ()
    before = heldout_loss("general loss, model", text, None, materials, max_tokens=longest)
    after = {
        name: [
            heldout_loss(f"general loss, seed {seed}", text, job, materials, max_tokens=longest)
            for seed, job in enumerate(firsts)
        ]
        for name, firsts in first_stages.items()
    }
    meaning = MEANING + over_adaptations(recipe.adapt_seeds or recipe.seeds)
    return (HeldOutLosses(HEADING, meaning, (untouched, before), after),)


def _cost_of_stage_1(cell: Cell, out: Path) -> Mapping[str, Any]:
    """Return the epochs over the task's rows and the paper's FLOP: 6 x tokens x parameters, rows at full length.

    Nothing is returned for a variant without stage 1, or before stage 1 of seed 0 has ended.
    """
    *_, joint = cell.costs["stage 1"].get(0, [None])
    cost = files.read_json(joint.directory(out) / tlm.COST) if joint and is_done(joint, out) else {}
    return {"epochs": cost["internal_epochs"], "paper's FLOP": cost["paper_flops"]} if cost else {}
