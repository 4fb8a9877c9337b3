"""DGA's Tables 2 to 5 (Ke et al., 2022): which way of adapting on raw text of a domain gives the best model?

The study compares the untouched model with the same model adapted by each method, on the same text with the same
settings. Each model is fine-tuned with every seed and tested once. All metrics of the task are computed from the same
predictions: macro-F1 and accuracy; for PubMed micro-F1, which equals accuracy there.

Readings
  A model is adapted once, with the seed of `adapt.plan`, or `adapt_seeds` times, and fine-tuned with every seed: the
  paper averages over "5 random seeds" and does not say what they seed.
  Nothing is chosen on dev: the last epoch counts, as the released code has it (`finetune.choose` is "last").
  Each contestant is compared with the untouched model and with MLM; Holm's correction is over the comparisons of a
  metric. The paper has no test.
  With `tasks` the study runs on several tasks, each with its corpus and epochs, and has each row's means over them,
  Table 2's two columns Avg: of the tasks' main metrics, five macro-F1 and PubMed's micro-F1, and of their accuracies.
  The ensemble averages the probabilities of two models that were fine-tuned apart with the same seed
  (methods/finetune.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from acclimate.core import files
from acclimate.core.settings import AboveZero, Count, Positive, check_no_more, check_ranges
from acclimate.data.gather import Inputs, gather
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job
from acclimate.methods import METHODS, dga
from acclimate.methods.recipes import distil, finetune, light, mlm, sequence_contrast, token_contrast
from acclimate.methods.recipes.dga import DgaRecipe
from acclimate.methods.recipes.domain import DomainRecipe
from acclimate.models.configuration import configuration_of
from acclimate.models.families import PLACES
from acclimate.models.gates import heads_known
from acclimate.races import work
from acclimate.races.compare import Against, Key
from acclimate.races.contestants import Adapting, check_adaptations, domain_job, starts, tested, with_model
from acclimate.races.design import Cell, Design, HeldOutLosses, fine_tunings, heldout_columns
from acclimate.races.recipe import RaceRecipe, Seeds, check_each_once, check_unnamed, contestants_of, unread
from acclimate.reading.labelled import Labelled, fewer
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.reading.published import read_task
from acclimate.reports.page import amount
from acclimate.reports.table import UNTOUCHED
from acclimate.studies.inputs import check_all_rows, check_distinct, inputs_by_task, means_over_tasks, with_dev_rows
from acclimate.tasks.metrics import METRICS, reported_with
from acclimate.tasks.task import Metric
from acclimate.training.plan import Plan

ContestantName = Literal[
    "MLM", "adapter", "prompt", "KD", "AdaptedDeiT", "SimCSE", "TaCL", "TaCO", "InfoWord", "DGA", "DGA (H, I)",
    "DGA (H, I, O)", "DGA (H, I, O, E)", "DGA (w/o contrast)", "DGA (random mask)", "Ensemble (LM+MLM)",
    "DGA (domain-specific)", "DGA (update)", "DGA (w/o mask)",
]  # fmt: skip
TABLE_2: tuple[ContestantName, ...] = (
    "MLM", "adapter", "prompt", "KD", "AdaptedDeiT", "SimCSE", "TaCL", "TaCO", "InfoWord", "DGA",
)  # fmt: skip
TABLE_3: tuple[ContestantName, ...] = (
    "DGA (H, I)", "DGA (H, I, O)", "DGA (H, I, O, E)", "DGA (w/o contrast)", "DGA (random mask)", "Ensemble (LM+MLM)",
    "DGA (domain-specific)",
)  # fmt: skip
MLM: ContestantName = "MLM"
UNMASKED: ContestantName = "DGA (w/o mask)"
HELD_BACK = 0.9  # importance from which on a head counts as held back most
ENSEMBLE: ContestantName = "Ensemble (LM+MLM)"
AVERAGE = "Avg"  # the column of the means over tasks
AVERAGE_ACCURACY = "Avg, accuracy"
# contestant -> the method (a name of METHODS), and the settings that make it this contestant
ADAPTED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    MLM: ("mlm", {}),
    **{
        name: (contestants_of(METHODS)[name][0].name, contestants_of(METHODS)[name][1].settings)
        for name in TABLE_2
        if name != MLM
    },
    "DGA (H, I)": ("dga", {"parts": ("heads", "intermediate")}),
    "DGA (H, I, O)": ("dga", {"parts": ("heads", "intermediate", "output")}),
    "DGA (H, I, O, E)": ("dga", {"parts": ("heads", "intermediate", "output", "embeddings")}),
    "DGA (w/o contrast)": ("dga", {"contrast": 0.0}),
    "DGA (random mask)": ("dga", {"importance": "random"}),
    "DGA (domain-specific)": ("dga", {"knowledge": "domain"}),
    "DGA (update)": ("dga", {"reading": "update"}),
    "DGA (w/o mask)": ("dga", {"reading": "none"}),
}
# contestants of Table 3 -> settings that they do not read
UNREAD: Mapping[str, tuple[str, ...]] = {
    "DGA (w/o contrast)": ("temperature", "anchor", "knowledge"),
    "DGA (random mask)": ("subset", "subset_tokens"),
}
SHARED = tuple(field.name for field in fields(DomainRecipe))
GROUPED = {name: METHODS[name] for name in ("dga", "light", "distil", "sequence_contrast", "token_contrast")}


@dataclass(frozen=True)
class DgaStudyRecipe:
    """Tables 2 to 5 of Ke et al. (2022): the untouched model, and the model adapted by each method on raw text.

    The defaults are those of section 4.2. `adapt` holds the settings that all methods share, the groups of the methods
    hold the rest.
    """

    seeds: Seeds = 5  # fine-tunings of each model, each with another seed; at least 2
    contestants: tuple[ContestantName, ...] = TABLE_2
    """Ways of adapting that are compared with the untouched model. Further ones: `"DGA (H, I)"`, `"DGA (H, I, O)"`,
    `"DGA (H, I, O, E)"`, `"DGA (w/o contrast)"`, `"DGA (random mask)"`, `"Ensemble (LM+MLM)"`, `"DGA (domain-
    specific)"`; and two that the paper lacks: `"DGA (update)"` masks updates, and `"DGA (w/o mask)"` contrasts
    without a mask."""
    tasks: tuple[str | LabelledFiles, ...] = ()
    """Further tasks besides the main task: names of datasets of `--data`, or labelled files. Each task is a column,
    and each row has its mean over all tasks."""
    corpora: tuple[str, ...] = ()
    """Raw text of the domain of each further task, in their order; none: --corpus for all."""
    epochs: tuple[AboveZero, ...] = ()
    """Epochs of fine-tuning on each task, beginning with the main task; none: finetune.epochs for all. The paper has
    10 on ACL, AI and PubMed, 5 on Restaurant, 15 on Phone and Camera."""
    adapt_seeds: Positive = 1
    """Adaptations of each contestant, each with another seed, at most as many as `seeds`. Fine-tuning seed k starts
    from adaptation k mod adapt_seeds. With 1, verdicts apply only to this one adaptation."""
    ablations: bool = False  # also run the seven further contestants of Table 3
    rows: Count = 0  # number of training rows to sample; 0: all rows
    rows_seed: Count = 0  # seed of that sample
    all_rows: bool = False
    """Train on dev too, if it was drawn from train; needs finetune.choose=last. The paper has no dev set."""
    # the dropout of BERT and RoBERTa: two passes over a text have to differ
    adapt: DomainRecipe = field(default_factory=lambda: DomainRecipe(dropout=0.1, attention_dropout=0.1))
    """Settings of adaptation for all methods."""
    dga: DgaRecipe = field(default_factory=DgaRecipe)
    """Further settings of DGA. Settings of `adapt` are not allowed here or in the next four groups."""
    light: light.LightRecipe = field(default_factory=light.LightRecipe)  # further settings of adapter and prompt
    distil: distil.DistilRecipe = field(default_factory=distil.DistilRecipe)  # further settings of KD and AdaptedDeiT
    sequence_contrast: sequence_contrast.SequenceContrastRecipe = field(
        default_factory=sequence_contrast.SequenceContrastRecipe
    )  # further settings of SimCSE and InfoWord
    token_contrast: token_contrast.TokenContrastRecipe = field(default_factory=token_contrast.TokenContrastRecipe)
    """Further settings of TaCL and TaCO."""
    finetune: finetune.FinetuneRecipe = field(
        default_factory=lambda: replace(
            finetune.PAPERS, choose="last", looks=1, epochs=10.0, plan=Plan(batch=16, rate=1e-5, warmup=0.0)
        )
    )  # settings of all fine-tunings; the paper has 5 epochs on Restaurant, 15 on Phone and Camera

    def __post_init__(self) -> None:
        check_ranges(self)
        check_no_more(self, "adapt_seeds", than="seeds")
        check_each_once("contestants", self.contestants, least=0 if self.ablations else 1)
        if self.finetune.head == "kept":
            why = "finetune.head = 'kept' continues with the model's head, but adapted models have none"
            raise ValueError(f"{why}. Remove it")
        check_unnamed(self, GROUPED)
        check_all_rows(all_rows=self.all_rows, finetune=self.finetune)
        if self.epochs and len(self.epochs) != 1 + len(self.tasks):
            what = f"epochs = {[*self.epochs]}: there are {1 + len(self.tasks)} tasks"
            raise ValueError(f"{what}. Give a value for each, or remove epochs")
        if self.corpora and not self.tasks:
            raise ValueError(f"corpora = {[*self.corpora]} belong to further tasks, but there are none. Add tasks")
        usual = DomainRecipe()
        for group in GROUPED:
            for name in SHARED:
                if getattr(getattr(self, group), name) != getattr(usual, name):
                    raise ValueError(f"{group}.{name}: all methods share this setting. Set adapt.{name} instead")
        noisy = [name for name in self.names if name == "SimCSE" or (name != ENSEMBLE and ADAPTED[name][0] == "dga")]
        if noisy and not self.adapt.dropout and self.adapt.dropout == self.adapt.attention_dropout == 0:
            raise ValueError(
                f"adapt.dropout = 0 and adapt.attention_dropout = 0: {noisy[0]} compares passes over a text that "
                f"differ only by dropout. Set adapt.dropout=0.1, or remove {noisy[0]} from contestants"
            )

    @property
    def names(self) -> tuple[ContestantName, ...]:
        """The contestants that run against the untouched model, in the order of the tables."""
        chosen = {*self.contestants, *(TABLE_3 if self.ablations else ())}
        return tuple(name for name in get_args(ContestantName) if name in chosen)

    def stated(self, name: str) -> mlm.MlmRecipe:
        """Return the recipe with which a contestant of ADAPTED adapts."""
        method, differing = ADAPTED[name]
        shared = {name: getattr(self.adapt, name) for name in SHARED}
        if method == "mlm":
            return mlm.MlmRecipe(**shared)
        group = getattr(self, method)
        recipe: mlm.MlmRecipe = replace(group, **shared, **differing, **_unread(name, group))
        return recipe


RECIPE = DgaStudyRecipe


def design(recipe: DgaStudyRecipe, inputs: Inputs) -> Design:
    """Return the study. Raises ValueError for faulty files, and for contestants that do not fit model or task."""
    several = bool(recipe.tasks)
    columns: list[tuple[Materials, list[Cell], list[HeldOutLosses]]] = []
    by_number, absent = inputs_by_task(inputs, recipe.tasks, recipe.corpora)
    for number, task_inputs in by_number.items():
        materials = _materials(recipe, task_inputs)
        tuning = replace(recipe.finetune, epochs=recipe.epochs[number]) if recipe.epochs else recipe.finetune
        columns.append((materials, *_column(recipe, tuning, materials, several=several)))
    tasks = [materials.task.name for materials, _, _ in columns]
    check_distinct(tasks)
    first = columns[0][0]
    against = [
        comparison for _, cells, _ in columns for comparison in _comparisons([cell.key for cell in cells], several)
    ]
    rows = [cell.row for cell in columns[0][1]]
    means = means_over_tasks(rows, tasks, AVERAGE)
    if all(METRICS["accuracy"] in reported(materials.task.metric) for materials, _, _ in columns):
        accuracies = means_over_tasks(rows, tasks, AVERAGE_ACCURACY)
        means = (*means, *(replace(mean, metric="accuracy") for mean in accuracies))
    for name in (AVERAGE, AVERAGE_ACCURACY):
        against += _comparisons([mean.key for mean in means if mean.key[2] == name], several)
    notes: list[str] = []
    for materials, _, _ in columns:
        task, about = materials.task, f"{materials.task.name}: " if several else ""
        domain = amount(len(materials.domain or ()), "document")
        trained = f"{amount(task.sizes['train'], 'row')}, adapted on {domain}"
        notes += [f"{about}{note}" for note in (f"Trained on {trained}.", *materials.notes)]
    all_cells = [cell for _, cells, _ in columns for cell in cells]
    return Design(
        name="dga",
        title=f"{', '.join(tasks)}: {Path(first.model or '').name}",
        source="The study: Ke, Shao, Lin, Xu, Shu and Liu (2022), Tables 2 to 5.",
        cells=tuple(all_cells),
        against=tuple(against),
        metrics=reported,
        means=means,
        losses=tuple(loss for _, _, losses in columns for loss in losses),
        notes=tuple(notes),
        absent=absent,
        race=RaceRecipe(seeds=recipe.seeds, contestants=(), dapt=recipe.stated(MLM), finetune=recipe.finetune),
        examination=None if several else first.examination,
        measured=partial(_heads_of, unmasked=[cell for cell in all_cells if cell.row == UNMASKED]),
    )


def _heads_of(cell: Cell, out: Path, *, unmasked: Sequence[Cell]) -> dict[str, Any]:
    """Return how far heads moved in the cell's adaptations by DGA, and that beside the run without a mask, if there is
    one: of all heads, and of those that are held back most. Means over heads and adaptations.
    """
    head_facts = _moved(cell, out)
    if not head_facts:
        return {}
    moved = np.array([heads["moved"] for heads in head_facts])
    facts = {"heads moved": f"{moved.mean():.4f}"}
    free = [heads["moved"] for other in unmasked if other.column == cell.column for heads in _moved(other, out)]
    if free and cell.row != UNMASKED:
        ratio = moved / np.mean(free, axis=0)
        facts["beside no mask"] = f"{ratio.mean():.2f}"
        held = np.array([heads["importance"] or np.zeros(moved[0].shape) for heads in head_facts]) > HELD_BACK
        facts[f"beside no mask, I > {HELD_BACK:g}"] = f"{ratio[held].mean():.2f}" if held.any() else "-"
    return facts


def _moved(cell: Cell, out: Path) -> list[dict[str, Any]]:
    """Return what each of the cell's adaptations by DGA wrote of its heads."""
    jobs = {job.name: job for several in cell.costs.get("adapting", {}).values() for job in several}
    places = [job.directory(out) / dga.HEADS for job in jobs.values()]
    return [dict(files.read_record(place)) for place in places if place.exists()]


def _column(
    recipe: DgaStudyRecipe, tuning: finetune.FinetuneRecipe, materials: Materials, *, several: bool
) -> tuple[list[Cell], list[HeldOutLosses]]:
    """Return the cells of a task, the untouched model first, and the losses on held-out text.

    tuning   settings of the fine-tunings on this task
    several  True if the study has further tasks: labels of jobs and headings name the task then
    """
    task, names = materials.task, recipe.names
    suffix = f", {task.name}" if several else ""
    models: dict[str, Job | None] = {UNTOUCHED: None}
    for name, (method, _) in ADAPTED.items():
        if name in names or (name == MLM and ENSEMBLE in names):
            adapting_job = domain_job(f"{name}{suffix}", method, recipe.stated(name), materials)
            models[name] = with_model(adapting_job, None, materials)

    started = {
        name: starts(model, seeds=recipe.seeds, adapt_seeds=recipe.adapt_seeds) for name, model in models.items()
    }
    tuned = {
        name: fine_tunings(f"fine-tune {name}{suffix}", tuning, by_seed, materials, seeds=recipe.seeds)
        for name, by_seed in started.items()
    }
    cells = []
    for name in (UNTOUCHED, *names):
        if name == ENSEMBLE:
            pairs = {seed: (tuned[UNTOUCHED][seed], tuned[MLM][seed]) for seed in range(recipe.seeds)}
            label = f"test {name}{suffix}, seed"
            tests = {seed: _ensemble(f"{label} {seed}", pair, materials) for seed, pair in pairs.items()}
            tunings: dict[int, Sequence[Job]] = {**pairs}
            adapted = started[MLM]
        else:
            tests = {seed: tested(job, task) for seed, job in tuned[name].items()}
            tunings = {seed: [job] for seed, job in tuned[name].items()}
            adapted = started[name]
        adapting: dict[int, Sequence[Job]] = {seed: [job] if job else [] for seed, job in adapted.items()}
        costs = {"adapting": adapting, "tuning": tunings}
        facts = {"epochs": f"{tuning.epochs:g}"} if recipe.epochs else {}
        cells.append(Cell(name, task.name, tests, costs, materials, facts=facts))

    losses = heldout_columns(
        models,
        names,
        materials.heldout,
        materials,
        adapt_seeds=recipe.adapt_seeds,
        max_tokens=recipe.adapt.max_tokens,
        ending=suffix,
    )
    return cells, losses


def _comparisons(keys: Sequence[Key], several: bool) -> list[Against]:
    """Return the comparisons of the rows of one column with the untouched model and with MLM. keys: row by row"""
    if not keys:
        return []
    of_means = {AVERAGE: "comparisons of means", AVERAGE_ACCURACY: "comparisons of mean accuracies"}
    what = of_means.get(keys[0][2], "comparisons on tasks" if several else "comparisons")
    return [
        Against(key, (reference,), reference[1], f"all {what} with {UNTOUCHED} and with {MLM}, by one metric")
        for reference in keys
        if reference[1] in (UNTOUCHED, MLM)
        for key in keys[keys.index(reference) + 1 :]
    ]


def reported(metric: Metric) -> tuple[Metric, ...]:
    """Return the metrics to compute from the same predictions: beside F1 accuracy, as in Table 2."""
    return (metric, METRICS["accuracy"]) if metric.name in ("macro_f1", "micro_f1") else reported_with(metric)


def _materials(recipe: DgaStudyRecipe, inputs: Inputs) -> Materials:
    assert inputs.task is not None
    if inputs.model is None:
        raise ValueError("the study 'dga' needs a pretrained model. Add --model with a directory or hub id")
    if inputs.raw.domain is None:
        raise ValueError("the study 'dga' adapts on raw text of the domain. Add --corpus with a file or folder of it")
    labelled = read_task(inputs.task, inputs.data)
    labelled = fewer(labelled, recipe.rows, recipe.rows_seed)
    _check(recipe, labelled, inputs.model)
    pairs = len(recipe.names) + (len(recipe.names) - 1 if MLM in recipe.names else 0)
    training = with_dev_rows(labelled) if recipe.all_rows else labelled
    return gather(inputs, labelled, seeds=recipe.seeds, comparisons=pairs, training=training)


def _unread(name: str, recipe: Any) -> dict[str, Any]:
    """Return the defaults of the settings that a contestant does not read, so that they change no job's name."""
    if name in TABLE_2 and name != MLM:
        return unread(contestants_of(METHODS)[name][1], recipe)
    return {setting.name: setting.default for setting in fields(recipe) if setting.name in UNREAD.get(name, ())}


def _ensemble(label: str, pair: tuple[Job, Job], materials: Materials) -> Job:
    """Return the job that tests two models whose probabilities are averaged."""
    task = materials.task
    contents = {name: task.hashes[name] for name in ("about", "dev", "test")}
    needs = dict(zip(("first", "second"), pair, strict=True))
    return Job(label, work.TEST_TOGETHER, {"by": label}, contents, {"task": task.path}, needs, alone=True)


def _check(recipe: DgaStudyRecipe, task: Labelled, model: str) -> None:
    """Raises ValueError for contestants that the task or the model rules out, and for texts longer than it reads."""
    names = recipe.names
    if ENSEMBLE in names and task.kind != "sequence":
        raise ValueError(
            f"{ENSEMBLE} needs one label per row, but {task.name} is of kind '{task.kind}'. Remove it from "
            "contestants, and name the contestants of Table 3 instead of ablations=true"
        )
    of_dga = [name for name in names if name != ENSEMBLE and ADAPTED[name][0] == "dga"]
    if of_dga and not heads_known(model):
        families = ", ".join(sorted(PLACES))
        raise ValueError(f"{of_dga[0]} supports only these families: {families}. Remove it from contestants")
    adapted = (*(name for name in names if name != ENSEMBLE), *((MLM,) if ENSEMBLE in names else ()))
    adapting = [Adapting(name, METHODS[ADAPTED[name][0]], "adapt", recipe.stated(name)) for name in adapted]
    check_adaptations(adapting, configuration_of(model), max_tokens=task.max_tokens)
