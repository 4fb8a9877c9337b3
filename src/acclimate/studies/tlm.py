"""The studies of TLM's paper (Yao et al., 2022, section 4.3): one thing varied, all else and the seeds the same.

    retrieval  BM25, and as many documents at random (Table 3)
    k          documents a query, and none (Table 4)
    rho_1      external batches for each internal one, and external data only (Table 5)
    rho_2      weight of language modelling on internal rows (Table 6)
    stages     with and without stage 2 (Table 7)
    model      a pretrained model fine-tuned, TLM from its weights, TLM from random ones (Table 8)
    search     rho_1 by rho_2: the best on dev is tested, and all that the search took is counted to it (section 4.1)

All are compared on dev, as in the paper, whose Table 8 alone has test scores. The first variant is what the others are
compared with. What variants share (a selection, a first stage) is done once. studies/choices.py has the studies of
BLURB's paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, Literal

from acclimate.core import files, ranks
from acclimate.core.figures import metric_text, si
from acclimate.core.types import Cost, Progress, Score, Watch, unwatched
from acclimate.data import retrieve
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job, claim, with_needs
from acclimate.jobs.run import do, done
from acclimate.methods import tlm
from acclimate.race import work
from acclimate.race.contestants import cut, fine_tuned, first_stage, heldout_loss, retrieved, tested
from acclimate.race.recipe import RaceRecipe
from acclimate.race.search import dev_row, test_row
from acclimate.report.table import Row, as_csv, interval_text, rows
from acclimate.statistics.significance import interval
from acclimate.studies.compare import grid_text, records
from acclimate.training.checkpoint import spent

TASK_ONLY = "task data only"


@dataclass(frozen=True)
class TlmStudyRecipe:
    """A grid. `tlm` and `retrieval` are what every variant has but for what is varied.

    The defaults of the first three are the paper's values; of `tlm`, what a race on a small encoder has.
    """

    vary: Literal["retrieval", "k", "rho_1", "rho_2", "stages", "model", "search"] = "k"  # what is varied
    seeds: int = 3  # runs of each variant; at least 2
    ks: tuple[int, ...] = (50, 500, 5000)  # of the study `k`
    rho_1s: tuple[int, ...] = (1, 3, 99, 999)  # of the studies `rho_1` and `search`
    rho_2s: tuple[float, ...] = (0.0, 20.0, 100.0, 1000.0)  # of the studies `rho_2` and `search`
    retrieval: retrieve.RetrieveRecipe = field(default_factory=retrieve.RetrieveRecipe)
    """Of every variant, but for what is varied."""
    tlm: tlm.TlmRecipe = field(default_factory=lambda: replace(RaceRecipe().tlm, finetune=RaceRecipe().finetune))
    """Of every variant, but for what is varied; fine-tuned as in a race."""

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


@dataclass(frozen=True)
class Variant:
    """name: as the table has it. tlm: None where the given model is fine-tuned as it is."""

    name: str
    tlm: tlm.TlmRecipe | None
    retrieval: retrieve.RetrieveRecipe


def _by_retrieval(recipe: TlmStudyRecipe) -> list[Variant]:
    random, best = replace(recipe.retrieval, how="random"), replace(recipe.retrieval, how="bm25")
    return [Variant("random", recipe.tlm, random), Variant("BM25", recipe.tlm, best)]


def _by_k(recipe: TlmStudyRecipe) -> list[Variant]:
    asked = [Variant(f"K = {k}", recipe.tlm, replace(recipe.retrieval, k=k)) for k in recipe.ks]
    return [Variant(TASK_ONLY, replace(recipe.tlm, rho_1=0), recipe.retrieval), *asked]


def _by_rho_1(recipe: TlmStudyRecipe) -> list[Variant]:
    values = [Variant(f"rho_1 = {own}", replace(recipe.tlm, rho_1=own), recipe.retrieval) for own in recipe.rho_1s]
    return [*values, Variant("external only", replace(recipe.tlm, external_only=True), recipe.retrieval)]


def _by_rho_2(recipe: TlmStudyRecipe) -> list[Variant]:
    return [Variant(f"rho_2 = {own:g}", replace(recipe.tlm, rho_2=own), recipe.retrieval) for own in recipe.rho_2s]


def _by_stages(recipe: TlmStudyRecipe) -> list[Variant]:
    return [
        Variant(name, replace(recipe.tlm, stage_2=both), recipe.retrieval)
        for name, both in (("without stage 2", False), ("two stages", True))
    ]


def _by_model(recipe: TlmStudyRecipe) -> list[Variant]:
    if not recipe.tlm.model:
        raise ValueError("the study 'model' needs a pretrained model: give --model, a directory or hub id")
    from_nothing = replace(recipe.tlm, model="")
    task_only = replace(recipe.tlm, rho_1=0)
    return [
        Variant("model", None, recipe.retrieval),
        Variant("model + MLM on task data", task_only, recipe.retrieval),
        Variant("TLM", from_nothing, recipe.retrieval),
    ]


def _by_both(recipe: TlmStudyRecipe) -> list[Variant]:
    return [
        Variant(f"rho_1 = {rho_1}, rho_2 = {rho_2:g}", replace(recipe.tlm, rho_1=rho_1, rho_2=rho_2), recipe.retrieval)
        for rho_1, rho_2 in product(recipe.rho_1s, recipe.rho_2s)
    ]


STUDIES: Mapping[str, Callable[[TlmStudyRecipe], list[Variant]]] = {
    "retrieval": _by_retrieval,
    "k": _by_k,
    "rho_1": _by_rho_1,
    "rho_2": _by_rho_2,
    "stages": _by_stages,
    "model": _by_model,
    "search": _by_both,
}


@dataclass(frozen=True)
class Grid:
    """What a study came to. rows: on dev, the first variant first; text: as STUDY.txt has it."""

    rows: Sequence[Row]
    text: str


def variants(study: str, recipe: TlmStudyRecipe) -> list[Variant]:
    """Raises ValueError for a study that is not known, or lacks what it needs."""
    if study not in STUDIES:
        raise ValueError(f"no study is called '{study}'. Known: {', '.join(STUDIES)}")
    return STUDIES[study](recipe)


def run_grid(study: str, recipe: TlmStudyRecipe, materials: Materials, run: Path, *, watch: Watch = unwatched) -> Grid:
    """Do what is missing of the study in the directory `run`, and write STUDY.txt, STUDY.csv and
    STUDY.scores.json there.

    Raises ValueError where general text is needed and not there.
    """
    if recipe.tlm.model and not materials.model:
        raise ValueError(f"tlm.model = {recipe.tlm.model!r}, but no model is given. Add --model {recipe.tlm.model}")
    if study == "model":
        recipe = replace(recipe, tlm=replace(recipe.tlm, model=materials.model or ""))
    asked = variants(study, recipe)
    if materials.general is None and any(own.tlm is not None and own.tlm.reads_corpus for own in asked):
        raise ValueError("TLM retrieves from general text: give --general")
    claim(run)
    task = materials.task
    gold = [example.label for example in task.examples("dev")]
    most = max(own.retrieval.k for own in asked)
    jobs = {own.name: [_Jobs(own, recipe, materials, seed, most) for seed in range(recipe.seeds)] for own in asked}
    watches: dict[str, Watch] = {}
    for name, seeds in jobs.items():
        for job in with_needs(own.tuned for own in seeds):
            watches.setdefault(job.name, partial(_tell, watch, name))
    do((own.tuned for seeds in jobs.values() for own in seeds), run, watch=watch, watches=watches)
    scores = []
    for name, seeds in jobs.items():
        for own in seeds:
            result = done(own.tuned, run)
            row = dev_row(name, own.seed, result, gold, task)
            scores.append(replace(row, adapting=own.adapting(run), finetuning=spent(own.tuned.directory(run))))
    table = rows(scores, task.metric, untouched=asked[0].name)
    general = _general_losses(recipe, jobs, materials, run, watch)
    lines = [grid_text(table, {name: seeds[0].facts(run) for name, seeds in jobs.items()}, general)]
    if study == "search":
        lines.append(_chosen(table, jobs, materials, run, watch))
    text = "\n\n".join(lines) + "\n"
    if ranks.is_first():
        files.write_json(run / f"{study}.scores.json", records(scores, "dev"))
        files.write_text(run / f"{study}.csv", as_csv(table, general=general))
        files.write_text(run / f"{study}.txt", text)
    ranks.wait()
    return Grid(table, text)


def _tell(watch: Watch, variant: str, progress: Progress) -> None:
    """Jobs are not called by a variant, since several may share one; who watches is told whose turn it is."""
    watch(replace(progress, stage=f"{variant}: {progress.stage}"))


class _Jobs:
    """One variant with one seed. most: the largest k of the study, from whose retrieval smaller ones are cut."""

    def __init__(self, variant: Variant, recipe: TlmStudyRecipe, materials: Materials, seed: int, most: int) -> None:
        self.seed = seed
        self.goes_on = variant.tlm is not None and bool(variant.tlm.model)  # from the given model's weights
        self.joint: Job | None = None
        self.asked: Job | None = None
        words = f"seed {seed}"  # and not the variant: what variants share has one name
        tuning = replace(recipe.tlm.finetune, plan=replace(recipe.tlm.finetune.plan, seed=seed))
        if variant.tlm is None:
            self.tuned = fine_tuned(f"fine-tune, {words}", tuning, None, materials)
            return
        stated = replace(variant.tlm, plan=replace(variant.tlm.plan, seed=seed))
        if stated.reads_corpus:
            self.asked = retrieved(replace(variant.retrieval, k=most), materials)
            if variant.retrieval.k < most:
                self.asked = cut(self.asked, variant.retrieval.k)
        self.joint = first_stage(f"stage 1, {words}", stated, self.asked, materials)
        if stated.stage_2:
            self.tuned = fine_tuned(f"fine-tune, {words}", tuning, self.joint, materials)
        else:
            contents = {name: materials.task.hashes[name] for name in ("about", "train", "dev")}
            places = {"task": materials.task.path}
            self.tuned = Job(f"hand over, {words}", work.STAGE_1, {}, contents, places, {"joint": self.joint})

    def adapting(self, run: Path) -> Cost:
        made = [job for job in (self.asked, self.joint) if job is not None]
        return sum((spent(job.directory(run)) for job in made), Cost())

    def facts(self, run: Path) -> Mapping[str, Any]:
        return files.read_json(self.joint.directory(run) / tlm.COST) if self.joint else {}


def _general_losses(
    recipe: TlmStudyRecipe, jobs: Mapping[str, Sequence[_Jobs]], materials: Materials, run: Path, watch: Watch
) -> dict[str, tuple[float, float]]:
    """Variants that go on from the given model -> its loss on held-out general text, and theirs, mean over seeds."""
    corpus, going_on = materials.general_heldout, {name: seeds for name, seeds in jobs.items() if seeds[0].goes_on}
    if corpus is None or not going_on:
        return {}

    def measured(label: str, model: Job | None) -> Mapping[str, Any]:
        job = heldout_loss(label, corpus, model, materials, max_tokens=recipe.tlm.max_tokens)
        return done(job, run, watch=watch)

    before = measured("general loss, model", None)
    if not before["head"]:  # of a model that predicts no words nothing says what it forgot
        return {}
    return {
        name: (before["loss"], mean(measured(f"general loss, seed {own.seed}", own.joint)["loss"] for own in seeds))
        for name, seeds in going_on.items()
    }


def _chosen(
    table: Sequence[Row], jobs: Mapping[str, Sequence[_Jobs]], materials: Materials, run: Path, watch: Watch
) -> str:
    """The best on dev, tested; and what it took to find it."""
    best = max(table, key=lambda row: row.dev_mean).contestant
    do((tested(own.tuned, materials.task) for own in jobs[best]), run, watch=watch)
    tests: list[Score] = []
    for own in jobs[best]:
        test = done(tested(own.tuned, materials.task), run, watch=watch) | {"dev": done(own.tuned, run)["dev"]}
        cost = {"adapting": own.adapting(run), "finetuning": spent(own.tuned.directory(run))}
        tests.append(test_row(best, own.seed, test, materials.task, **cost))
    named = {job.name: job for seeds in jobs.values() for own in seeds for job in (own.joint, own.tuned) if job}
    whole = sum(spent(job.directory(run)).flops for job in named.values())
    mine = sum(score.adapting.flops + score.finetuning.flops for score in tests)
    scored = interval_text(interval(tests, materials.task.metric))
    return (
        f"Chosen on dev: {best}. On test, opened for it alone: {scored} {metric_text(materials.task.metric.name)}. The "
        f"search over {len(jobs)} settings took {si(whole, 'FLOP')}, {whole / mine:.1f} times what the chosen one did."
    )
