"""The studies of TLM's paper (Yao et al., 2022, section 4.3): one thing varied, all else and the seeds the same.

    vary=retrieval  BM25, and as many documents at random or by DSIR, a new draw for each first stage; from a second
                    general corpus too, where there is one (Table 3)
    vary=k          documents for each query, and no documents (Table 4)
    vary=rho_1      external batches for each internal one, and external data only (Table 5)
    vary=rho_2      weight of language modelling on internal rows (Table 6)
    vary=stages     with and without stage 2 (Table 7)
    vary=model      a pretrained model fine-tuned, TLM from its weights, TLM from random weights (Table 8)
    vary=scale      a given model fine-tuned, and TLM at the scales that `scales` names, on test (Table 2; Table 10 with
                    the tasks of GLUE)
    vary=search     rho_1 by rho_2: the best on dev is tested, and the cost of the whole search is counted (section 4.1,
                    which has 8 by 3 values; the defaults are the 4 by 4 of Tables 5 and 6)

With `tasks` the study runs on several tasks and has each row's mean over them. Figure 1 draws these means by the FLOP
of stage 1 (`matrix`, `figures`).

Variants are compared on dev, as in the paper, where Tables 2, 8 and 10 have test scores; of these vary=scale has them.
The first variant is the one that the others are compared with. A job that variants share (a retrieval, a first stage)
is done once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

from acclimate.core import files, settings
from acclimate.core.figures import si
from acclimate.core.settings import RECIPES, Count, Positive, Range, check_no_more, check_ranges
from acclimate.core.types import Split, Watch
from acclimate.data import retrieve
from acclimate.data.gather import Inputs, gather
from acclimate.data.materials import Materials, corpus_at
from acclimate.jobs.job import Job, Result, Work, is_done
from acclimate.methods import tlm
from acclimate.methods.recipes.finetune import FinetuneRecipe
from acclimate.methods.recipes.tlm import METHOD, TlmRecipe, unsuited
from acclimate.methods.tuning.looks import dev_score
from acclimate.models.directory import weight_headers
from acclimate.races import work
from acclimate.races.compare import Against
from acclimate.races.contestants import adapted, cut, heldout_loss, retrieved
from acclimate.races.design import Cell, Design, HeldOutLosses, fine_tunings, scored
from acclimate.races.outcome import Outcome
from acclimate.races.recipe import RaceRecipe, Seeds, check_each_once
from acclimate.reading.datasets import glue
from acclimate.reading.datasets import tlm as datasets
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.reports.page import Drawing, Section
from acclimate.reports.plots import means_against_flop
from acclimate.reports.table import HEADING, MEANING, adaptations_note, interval_text
from acclimate.statistics.significance import Interval
from acclimate.studies.inputs import (
    FINETUNING_OF_SMALL,
    check_distinct,
    check_lengths,
    inputs_by_task,
    little_learnt,
    means_over_tasks,
    models_of,
)
from acclimate.tasks.prepared import open_prepared
from acclimate.text.corpus import Corpus

Scale = Literal["small", "medium", "large"]
AVERAGE = "Avg."  # the column of the means over tasks
EXTREMELY_LONG = "helpfulness"  # its queries are keywords in the paper (section 3.1), and here at a scale
SCALE = "scale"  # the value of `vary` that opens the test set, and has Figure 1
TABLES = {
    "retrieval": "Table 3",
    "k": "Table 4",
    "rho_1": "Table 5",
    "rho_2": "Table 6",
    "stages": "Table 7",
    "model": "Table 8",
    SCALE: "Tables 2 and 10 and Figure 1",
    "search": "section 4.1",
}
# facts of a row
PAPERS_FLOP, PRETRAINING, PARAMETERS, DATA = "paper's FLOP", "FLOP of pretraining", "parameters", "data, characters"
FIGURE_1 = "Figure 1: mean score by FLOP"
FOLDER = RECIPES / "tlm"


def _race_recipe() -> TlmRecipe:
    """Return a race's settings of TLM for a small encoder."""
    raced: TlmRecipe = RaceRecipe().tlm
    return replace(raced, finetune=FINETUNING_OF_SMALL)


@dataclass(frozen=True)
class TlmStudyRecipe:
    """TLM with one thing varied. All variants share the settings `tlm` and `retrieval`, except for what is varied.

    The defaults of `ks`, `rho_1s` and `rho_2s` are the paper's values; those of `tlm` are a race's for a small encoder.
    """

    vary: Literal["retrieval", "k", "rho_1", "rho_2", "stages", "model", "scale", "search"] = "k"
    """What differs between the rows of the table; all other settings are equal."""
    seeds: Seeds = 3  # runs of each variant, each with another seed; at least 2
    adapt_seeds: Count = 0
    """Number of first stages of each variant, each with another seed, at most as many as `seeds`. Run k continues
    from first stage k mod adapt_seeds. 0: each run has its own first stage."""
    ks: tuple[Positive, ...] = (50, 500, 5000)  # values of retrieval.k that vary=k compares
    rho_1s: tuple[Count, ...] = (1, 3, 99, 999)  # values of tlm.rho_1 that vary=rho_1 and vary=search compare
    rho_2s: tuple[Annotated[float, Range(least=0)], ...] = (0.0, 20.0, 100.0, 1000.0)
    """Values of tlm.rho_2 that vary=rho_2 and vary=search compare."""
    tasks: tuple[str | LabelledFiles, ...] = ()
    """Further tasks besides the main task: names of datasets of `--data`, or labelled files. Each task is a column,
    and each row has its mean over all tasks."""
    scales: tuple[Scale, ...] = ()
    """Scales of Table 2: each dataset of the paper is trained with its recipe, such as `tlm/scierc-small`, including
    its k, and a given model with `finetune/tlm-roberta`. `tlm` and `retrieval.k` are then not used. vary=scale
    compares the scales; other values of vary use one of them. None: the settings `tlm` and `retrieval`, and one row
    of TLM with vary=scale."""
    model_flops: Annotated[float, Range(least=0)] = 0.0
    """FLOP that pretraining the given model took, for Figure 1; the paper: 4.36e21 for RoBERTa-large. 0: unknown, and
    the figure leaves the model out."""
    rivals: tuple[str, ...] = ()
    """Further pretrained models that vary=scale fine-tunes beside the given one: directories or hub ids."""
    rival_flops: tuple[Annotated[float, Range(least=0)], ...] = ()
    """FLOP that pretraining each of the rivals took, in their order; none: unknown."""
    hows: tuple[Literal["random", "bm25", "dsir"], ...] = ("random", "bm25")  # retrievals that vary=retrieval compares
    second: str = ""  # a file or folder of another general corpus, from which vary=retrieval retrieves too; "": none
    retrieval: retrieve.RetrieveRecipe = field(default_factory=retrieve.RetrieveRecipe)
    """How documents are retrieved for every variant, except for the varied one."""
    tlm: TlmRecipe = field(default_factory=_race_recipe)
    """Settings of every variant, except for the varied one."""

    def __post_init__(self) -> None:
        check_ranges(self)
        check_no_more(self, "adapt_seeds", than="seeds")
        for name in ("ks", "rho_1s", "rho_2s", "hows"):
            check_each_once(name, getattr(self, name))
        if self.vary != SCALE and self.model_flops:
            raise ValueError("model_flops applies only to vary=scale. Remove it")
        if self.rivals and self.vary != SCALE:
            raise ValueError(f"rivals = {[*self.rivals]} apply only to vary=scale. Remove them")
        if self.rival_flops and len(self.rival_flops) != len(self.rivals):
            flops = f"rival_flops = {[*self.rival_flops]}"
            raise ValueError(f"{flops}: the rivals are {len(self.rivals)}. Give a value for each")
        if self.vary != SCALE and len(self.scales) > 1:
            raise ValueError(f"scales = {[*self.scales]}: vary={self.vary} uses one scale. Name one, or set vary=scale")
        if self.scales and self.tlm != _race_recipe():
            raise ValueError("scales takes the settings of TLM from the paper's recipes. Remove tlm.* or scales")
        if len({*self.scales}) < len(self.scales):
            raise ValueError(f"scales = {[*self.scales]}: a scale appears twice. Name each once")
        if self.second and self.vary != "retrieval":
            raise ValueError(f"second = {self.second!r} applies only to vary=retrieval. Remove it")


RECIPE = TlmStudyRecipe


@dataclass(frozen=True)
class TlmVariant:
    """A row of the table.

    tlm     None where a pretrained model is fine-tuned untouched
    second  True if documents come from the second general corpus
    rival   that pretrained model; "": the given one
    flops   of its pretraining; 0: unknown
    """

    name: str
    tlm: TlmRecipe | None
    retrieval: retrieve.RetrieveRecipe
    second: bool = False
    rival: str = ""
    flops: float = 0.0


def design(recipe: TlmStudyRecipe, inputs: Inputs) -> Design:
    """Raises ValueError where general text or a model is missing, and where TLM cannot do a task."""
    if recipe.tlm.model and not inputs.model:
        raise ValueError(f"tlm.model = {recipe.tlm.model!r}, but no model is given. Add --model {recipe.tlm.model}")
    several = bool(recipe.tasks)
    race = RaceRecipe(seeds=recipe.seeds, contestants=(), tlm=recipe.tlm, finetune=recipe.tlm.finetune)
    by_number, absent = inputs_by_task(inputs, recipe.tasks)
    columns = [_column(recipe, race, task_inputs, several=several) for task_inputs in by_number.values()]
    tasks = [column.materials.task.name for column in columns]
    check_distinct(tasks)
    first = columns[0]
    means = means_over_tasks([cell.row for cell in first.cells], tasks, AVERAGE)
    reference = first.cells[0].row
    compared = [
        *((column.cells[0].key, [cell.key for cell in column.cells[1:]]) for column in columns),
        *([(means[0].key, [mean.key for mean in means[1:]])] if means else []),
    ]
    against = []
    for one, others in compared:
        what = "comparisons of means" if one[2] == AVERAGE else "comparisons on tasks" if several else "comparisons"
        against += [Against(key, (one,), reference, f"all {what} with '{reference}'") for key in others]
    notes = _without_internal(recipe, tasks)
    for materials in (column.materials for column in columns):
        notes += [f"{materials.task.name}: {note}" if several else note for note in materials.notes]
    return Design(
        name=f"tlm-{recipe.vary}",
        title=f"TLM, {recipe.vary} varied: {', '.join(tasks)}",
        source=f"The study: Yao, Zheng, Yang and Yang (2022), {TABLES[recipe.vary]}.",
        cells=tuple(cell for column in columns for cell in column.cells),
        against=tuple(against),
        axes=("variant", "task"),
        split=_split(recipe),
        means=means,
        losses=tuple(loss for column in columns for loss in column.losses),
        chosen_is_tested=recipe.vary == "search",
        notes=tuple(notes),
        absent=absent,
        race=race,
        examination=None if several else first.materials.examination,
        measured=_measures,
    )


@dataclass(frozen=True, eq=False)
class TlmColumn:
    """A task's cells, what they train on, and losses on held-out text."""

    materials: Materials
    cells: tuple[Cell, ...]
    losses: tuple[HeldOutLosses, ...]


def _without_internal(recipe: TlmStudyRecipe, tasks: Sequence[str]) -> list[str]:
    """Return a note on values of rho_1 with which no batch of stage 1 is internal."""
    if recipe.vary not in ("rho_1", "search"):
        return []
    steps = min(_stated(recipe, task).plan.steps for task in tasks)
    alike = [x for x in recipe.rho_1s if x >= steps]
    note = (
        f"rho_1 = {', '.join(map(str, alike))} gives stage 1 no internal batch, because tlm.plan.steps = {steps:,} "
        "is not larger. Stage 1 never sees the task, and rho_2 has no effect. Set tlm.plan.steps to at least "
        f"{max(alike, default=0) + 1}, or remove these values from rho_1s."
    )
    return [note] if alike else []


def _split(recipe: TlmStudyRecipe) -> Split:
    """Return what is scored."""
    return "test" if recipe.vary == SCALE else "dev"


def _column(recipe: TlmStudyRecipe, race: RaceRecipe, inputs: Inputs, *, several: bool) -> TlmColumn:
    """Return the cells of one task. several: True if the study has further tasks; labels of jobs name the task then"""
    assert inputs.task is not None
    dataset = str(inputs.task.train)
    varied = variants(recipe, inputs.model, dataset)
    materials = _materials(recipe, varied, race, inputs)
    if recipe.vary == "model":
        varied = variants(recipe, materials.model, dataset)
    check_lengths(models_of(recipe.rivals) if recipe.rivals else (), {materials.task.name: materials.task.max_tokens})
    # smaller retrievals are cut from the largest
    most = max((row.retrieval.k for row in varied if row.tlm is not None and row.tlm.reads_corpus), default=0)
    sources = {False: materials}
    if recipe.second:
        second = _second_corpus(recipe.second, materials, inputs)
        sources[True] = replace(materials, general=second)

    suffix = f" on {materials.task.name}" if several else ""
    cells: list[Cell] = []
    adaptations = recipe.adapt_seeds or recipe.seeds
    first_stages: dict[str, list[Job]] = {}  # of the variants that go on from the given model
    for variant in varied:
        drawn: list[Job] = []
        if variant.tlm is not None:
            for seed in range(adaptations):  # labels do not name the variant, so that variants can share a job
                retrieval = _retrieval(variant, most, seed, sources) if variant.tlm.reads_corpus else None
                seeded = replace(variant.tlm, plan=replace(variant.tlm.plan, seed=seed))
                drawn.append(adapted(f"stage 1{suffix}, seed {seed}", METHOD, seeded, retrieval, materials))
        firsts = {seed: drawn[seed % adaptations] for seed in range(recipe.seeds)} if drawn else {}
        if variant.tlm is None or variant.tlm.stage_2:
            stage_2 = _model_tuning(recipe) if variant.tlm is None else variant.tlm.finetune
            label = f"fine-tune {variant.name}{suffix}" if variant.rival else f"fine-tune{suffix}"
            start = replace(materials, model=variant.rival) if variant.rival else materials
            tuned = fine_tunings(label, stage_2, firsts or None, start, seeds=recipe.seeds)
        else:
            label = f"hand over{suffix}, seed"
            tuned = {seed: _handed_over(f"{label} {seed}", job, materials) for seed, job in firsts.items()}
        costs = {
            "stage 1": {seed: [*_retrieved_for(job), job] for seed, job in firsts.items()},
            "tuning": {seed: [job] for seed, job in tuned.items()},
        }
        facts = {PRETRAINING: variant.flops} if variant.flops else {}
        scores = scored(tuned, materials.task, _split(recipe))
        cells.append(Cell(variant.name, materials.task.name, scores, costs, materials, facts=facts))
        if variant.tlm is not None and variant.tlm.model:
            first_stages[variant.name] = drawn
    untouched = next((row.name for row in varied if row.tlm is None and not row.rival), "untouched model")
    losses = _losses(recipe, first_stages, untouched, materials, suffix)
    return TlmColumn(materials, tuple(cells), losses)


def table_b1_recipe(dataset: str, scale: Scale) -> TlmRecipe:
    """Return the settings of a dataset of the paper at a scale, from the recipes that come with acclimate.

    Raises ValueError for a dataset that has none: GLUE's have one scale, and others are not in the paper.
    """
    name = dataset.partition(",")[0].strip().lower()
    in_glue = name in {entry.name.lower() for entry in glue.DATASETS}
    of_paper = {entry.name.lower() for entry in datasets.DATASETS}
    row = "glue" if in_glue else name.removesuffix("-13")
    file = FOLDER / f"{row}-{scale}.toml"
    if not (in_glue or name in of_paper) or not file.is_file():
        known = [entry.name for entry in datasets.DATASETS]
        raise ValueError(
            f"{dataset} has no settings at the {scale} scale: {', '.join(known)} have all three, those of GLUE "
            "'small'. Remove scales to train it with the settings of tlm and retrieval"
        )
    return settings.from_toml(TlmRecipe, file)


def _stated(recipe: TlmStudyRecipe, dataset: str) -> TlmRecipe:
    """Return the settings of every variant but for what is varied."""
    return table_b1_recipe(dataset, recipe.scales[0]) if recipe.scales and recipe.vary != SCALE else recipe.tlm


def _model_tuning(recipe: TlmStudyRecipe) -> FinetuneRecipe:
    """Return the settings with which the given model is fine-tuned: Table A.1's where scales are those of the paper."""
    file = RECIPES / "finetune" / "tlm-roberta.toml"
    return replace(settings.from_toml(FinetuneRecipe, file), model="") if recipe.scales else recipe.tlm.finetune


def _retrieval(variant: TlmVariant, most: int, seed: int, sources: Mapping[bool, Materials]) -> Job:
    """Return the job that retrieves for the first stage with this seed.

    BM25 finds the same documents for every seed, cut from a retrieval of `most` for each query. Of samples, each first
    stage has a draw of its own: the seed of the first draw is that of the settings.
    """
    retrieval_recipe = replace(variant.retrieval, k=most)
    if retrieval_recipe.how != "bm25":
        retrieval_recipe = replace(retrieval_recipe, seed=retrieval_recipe.seed + seed)
    retrieval = retrieved(retrieval_recipe, sources[variant.second])
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
        raise ValueError(f"second = {place!r} has the same documents as --general. Give another general corpus")
    return second


def variants(recipe: TlmStudyRecipe, model: str | None = None, dataset: str = "") -> list[TlmVariant]:
    """Return the rows of the table that `vary` names. dataset: name of the task, which may be one of the paper's

    Raises ValueError where they need a model and none is given, and where the dataset has no settings of its own.
    """
    tlm_recipe = _stated(recipe, dataset)
    long = recipe.scales and dataset.lower() == EXTREMELY_LONG
    queries: Literal["text", "keywords"] = "keywords" if long else recipe.retrieval.queries
    retrieval = replace(recipe.retrieval, k=tlm_recipe.k or recipe.retrieval.k, queries=queries)
    match recipe.vary:
        case "retrieval":
            names = {"random": "random", "bm25": "BM25", "dsir": "DSIR"}
            rows = [TlmVariant(names[how], tlm_recipe, replace(retrieval, how=how)) for how in recipe.hows]
            second = (replace(row, name=f"{row.name}, second corpus", second=True) for row in rows)
            return [*rows, *(second if recipe.second else ())]
        case "k":
            task_only = TlmVariant("task data only", replace(tlm_recipe, rho_1=0), retrieval)
            return [task_only, *(TlmVariant(f"K = {k}", tlm_recipe, replace(retrieval, k=k)) for k in recipe.ks)]
        case "rho_1":
            external = TlmVariant("external only", replace(tlm_recipe, external_only=True), retrieval)
            rows = [TlmVariant(f"rho_1 = {x}", replace(tlm_recipe, rho_1=x), retrieval) for x in recipe.rho_1s]
            return [*rows, external]
        case "rho_2":
            return [TlmVariant(f"rho_2 = {x:g}", replace(tlm_recipe, rho_2=x), retrieval) for x in recipe.rho_2s]
        case "stages":
            one, two_stages = replace(tlm_recipe, stage_2=False), replace(tlm_recipe, stage_2=True)
            return [TlmVariant("without stage 2", one, retrieval), TlmVariant("two stages", two_stages, retrieval)]
        case "model":
            if not model:
                raise ValueError("vary=model needs a pretrained model. Add --model with a directory or hub id")
            goes_on = replace(tlm_recipe, model=model, tokenizer="", rho_1=0)
            return [
                TlmVariant("model", None, retrieval),
                TlmVariant("model + MLM on task data", goes_on, retrieval),
                TlmVariant("TLM", replace(tlm_recipe, model=""), retrieval),
            ]
        case "scale":
            rows = [TlmVariant("model", None, retrieval, flops=recipe.model_flops)] if model else []
            rivals = models_of(recipe.rivals) if recipe.rivals else ()
            rows += [
                TlmVariant(rival.name, None, retrieval, rival=rival.where, flops=flops)
                for rival, flops in zip(rivals, recipe.rival_flops or (0.0,) * len(rivals), strict=True)
            ]
            if not recipe.scales:
                return [*rows, TlmVariant("TLM", tlm_recipe, retrieval)]
            for scale in recipe.scales:
                of_scale = table_b1_recipe(dataset, scale)
                rows.append(TlmVariant(f"TLM, {scale}", of_scale, replace(retrieval, k=of_scale.k)))
            return rows
        case "search":
            return [
                TlmVariant(f"rho_1 = {x}, rho_2 = {y:g}", replace(tlm_recipe, rho_1=x, rho_2=y), retrieval)
                for x, y in product(recipe.rho_1s, recipe.rho_2s)
            ]


def _materials(recipe: TlmStudyRecipe, varied: Sequence[TlmVariant], race: RaceRecipe, inputs: Inputs) -> Materials:
    """Return what the variants train on. Raises ValueError where general text is missing, or TLM cannot do the task."""
    joint = [variant.tlm for variant in varied if variant.tlm is not None]
    assert inputs.task is not None
    if inputs.raw.general is None and any(tlm_recipe.reads_corpus for tlm_recipe in joint):
        raise ValueError("TLM retrieves from general text. Add --general")
    on_test = len(varied) - 1 if _split(recipe) == "test" else 0
    materials = gather(inputs, inputs.labelled(), seeds=race.seeds, comparisons=on_test)
    if joint and (why := unsuited(materials.task.kind, None)):
        raise ValueError(f"TLM {why}. Use another method for this task")
    return materials


def _handed_over(label: str, joint: Job, materials: Materials) -> Job:
    """Return the job that makes the model of stage 1 the result, where there is no stage 2."""
    contents = {name: materials.task.hashes[name] for name in ("about", "train", "dev")}
    return Job(label, STAGE_1, {}, contents, {"task": materials.task.path}, {"joint": joint})


def hand_over(*, out: Path, watch: Watch, task: Path, joint: Path) -> Result:
    """Write the model of TLM without its second stage (Table 7): encoder and classifier of the first one."""
    checkpoint = tlm.without_stage_2(joint, open_prepared(task), out)
    dev = dev_score(out)
    return {"dev": dev, "checkpoint": files.sha256_of(checkpoint.path / files.MANIFEST)} | work.seen_on_dev(out)


STAGE_1 = Work("stage 1 alone", hand_over, trains="task")


def _losses(
    recipe: TlmStudyRecipe, first_stages: Mapping[str, Sequence[Job]], untouched: str, materials: Materials, suffix: str
) -> tuple[HeldOutLosses, ...]:
    """Return the losses on held-out general text before and after stage 1 of variants that go on from the given model.

    first_stages  variant -> its first stages, by seed; without any, and without held-out text, nothing is measured
    untouched     the variant that is the given model, or another name of it if no variant is
    suffix        " on TASK" where the study has several tasks
    """
    text, longest = materials.general_heldout, recipe.tlm.max_tokens
    if text is None or not first_stages:
        return ()
    before = heldout_loss(f"{HEADING}, model", text, None, materials, max_tokens=longest)
    after = {
        name: [
            heldout_loss(f"{HEADING}{suffix}, seed {seed}", text, job, materials, max_tokens=longest)
            for seed, job in enumerate(firsts)
        ]
        for name, firsts in first_stages.items()
    }
    note = adaptations_note(recipe.adapt_seeds or recipe.seeds)
    return (HeldOutLosses(f"{HEADING}{suffix}", MEANING + note, (untouched, before), after),)


def _measures(cell: Cell, out: Path) -> Mapping[str, Any]:
    """Return the parameters of the classifier. Of stage 1 return the characters of the retrieved text, the epochs over
    the task's rows, the paper's FLOP (6 x tokens x parameters, rows at full length), and how many first stages have
    learnt little more than frequencies.

    Nothing of stage 1 is returned for a variant without one, or before that of seed 0 has ended.
    """
    weights = weight_headers(cell.costs["tuning"][0][0].directory(out) / "checkpoint")
    parameters = {PARAMETERS: sum(prod(shape) for _, shape in weights.values())}
    *_, joint = cell.costs["stage 1"].get(0, [None])
    if not joint or not is_done(joint, out):
        return parameters
    cost = files.read_json(joint.directory(out) / tlm.COST)
    retrieval = next((job.directory(out) / retrieve.CORPUS for job in _retrieved_for(joint)), None)
    firsts = [jobs[-1].directory(out) for jobs in cell.costs["stage 1"].values() if jobs and is_done(jobs[-1], out)]
    return {
        **parameters,
        **({DATA: Corpus(retrieval).characters} if retrieval else {}),
        "epochs": cost["internal_epochs"],
        PAPERS_FLOP: cost["paper_flops"],
        **little_learnt([*dict.fromkeys(firsts)]),
    }


def score_by_flop(outcome: Outcome) -> dict[str, tuple[Interval, float]]:
    """Return, of each row with a known cost, its mean score over the tasks, and its FLOP: of TLM the mean over tasks of
    stage 1, as in Table 2; of the given model what `model_flops` states for its pretraining.
    """
    scores: dict[str, tuple[Interval, float]] = {}
    for row in dict.fromkeys(result.row for result in outcome.results):
        of_row = [result for result in outcome.results if result.row == row]
        key = of_row[0].key if len(of_row) == 1 else ("", row, AVERAGE)
        flops = [result.facts.get(PAPERS_FLOP, result.facts.get(PRETRAINING)) for result in of_row]
        score = outcome.interval(key)
        if score is not None and None not in flops:
            scores[row] = (score, fmean(map(float, filter(None, flops))))
    return scores


def matrix(outcome: Outcome) -> tuple[Section, ...]:
    """Return Figure 1 as a table, of the study that compares scales: mean scores by FLOP, and Table 2's columns of
    parameters and data.
    """
    points = score_by_flop(outcome) if outcome.name == f"tlm-{SCALE}" else {}
    if not points:
        return ()
    most = max(flop for _, flop in points.values())
    rows = []
    for row, (score, flop) in points.items():
        of_row = [result.facts for result in outcome.results if result.row == row]
        parameters, data = (
            fmean(values) if (values := [facts[name] for facts in of_row if name in facts]) else None
            for name in (PARAMETERS, DATA)
        )
        sizes = (si(parameters) if parameters else "-", si(data) if data else "-")
        rows.append((row, *sizes, interval_text(score), si(flop, "FLOP"), f"{flop / most:.3g}"))
    lines = (
        "FLOP as in the paper, 6 x tokens x parameters: of TLM in stage 1; of a given model in its pretraining, as "
        "stated. Data: characters of the text that TLM retrieved. FLOP, parameters and data are means over the tasks.",
    )
    return (Section(FIGURE_1, ("", "parameters", "data", "score", "FLOP", "of the most"), tuple(rows), lines),)


def figures(outcome: Outcome) -> dict[str, list[Drawing]]:
    """Return Figure 1: the mean score over the tasks by FLOP."""
    points = score_by_flop(outcome) if outcome.name == f"tlm-{SCALE}" else {}
    return {FIGURE_1: [Drawing(FIGURE_1, means_against_flop(points), wide=True)]} if points else {}
