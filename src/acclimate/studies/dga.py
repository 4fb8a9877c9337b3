"""DGA's Tables 2 to 5 (Ke et al., 2022): which way of adapting on raw text of a domain gives the best model?

The model as it is, and adapted by each method on the same text with the same settings; each fine-tuned with every seed
and tested once. All metrics that are reported of the task come out of the same predictions: macro-F1 and accuracy; of
PubMed micro-F1, which is accuracy there.

Readings
  A model is adapted once, under the seed of `adapt.plan`, and fine-tuned with every seed: the paper has averages of "5
  random seeds" and does not say of what.
  Nothing is chosen on dev: the last epoch counts, as the released code has it (`finetune.choose` is "last").
  Each contestant is compared with the untouched model and with MLM; Holm's correction is over the comparisons of a
  metric. The paper has no test.
  The ensemble averages the probabilities of two models of a seed, fine-tuned one without the other
  (methods/finetune.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from acclimate.core.types import Cost, Watch, unwatched
from acclimate.data.inputs import Leaks, Raw, gather
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job, claim, missing, with_needs
from acclimate.jobs.run import do, done
from acclimate.methods import dga, distil, finetune, light, mlm, sequence_contrast, token_contrast
from acclimate.methods.contestants import DOMAIN, UNTOUCHED, check_unnamed, unread
from acclimate.methods.domain import DomainRecipe
from acclimate.models.encoder import configuration_of
from acclimate.models.gates import PLACES, heads_known
from acclimate.models.loading import resolved
from acclimate.race import work
from acclimate.race.contestants import check_adaptations, fine_tuned, heldout_loss, on_domain, tested, with_model
from acclimate.race.cost import Estimate, estimate_of_jobs
from acclimate.race.race import labelled_of
from acclimate.race.recipe import RaceRecipe
from acclimate.race.search import test_row
from acclimate.report import table
from acclimate.report.page import Section, amount, page
from acclimate.report.table import GeneralLoss
from acclimate.studies.compare import Cell, Judged, judged, records
from acclimate.studies.write import (
    cost_columns,
    costs_section,
    judged_csv,
    pairs_section,
    scores_section,
    seeds_section,
    write_study,
)
from acclimate.tasks.labelled import Labelled, Own, fewer, read_own
from acclimate.tasks.metrics import METRICS, reported_with
from acclimate.tasks.task import Metric
from acclimate.training.checkpoint import spent
from acclimate.training.plan import Plan

# -------------------- domain methods recipe
# DGA's study as a value (studies/dga.py runs it).


Contestant = Literal[
    "MLM", "adapter", "prompt", "KD", "AdaptedDeiT", "SimCSE", "TaCL", "TaCO", "InfoWord", "DGA", "DGA (H, I)",
    "DGA (H, I, O)", "DGA (H, I, O, E)", "DGA (w/o contrast)", "DGA (random mask)", "Ensemble (LM+MLM)",
    "DGA (domain-specific)",
]  # fmt: skip
TABLE_2: tuple[Contestant, ...] = (
    "MLM", "adapter", "prompt", "KD", "AdaptedDeiT", "SimCSE", "TaCL", "TaCO", "InfoWord", "DGA",
)  # fmt: skip
TABLE_3: tuple[Contestant, ...] = (
    "DGA (H, I)", "DGA (H, I, O)", "DGA (H, I, O, E)", "DGA (w/o contrast)", "DGA (random mask)", "Ensemble (LM+MLM)",
    "DGA (domain-specific)",
)  # fmt: skip
MLM: Contestant = "MLM"
ENSEMBLE: Contestant = "Ensemble (LM+MLM)"
# who adapts -> the method (a name of METHODS), and what makes it this contestant
ADAPTED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    MLM: ("mlm", {}),
    **{name: DOMAIN[name] for name in TABLE_2 if name != MLM},
    "DGA (H, I)": ("dga", {"parts": ("heads", "intermediate")}),
    "DGA (H, I, O)": ("dga", {"parts": ("heads", "intermediate", "output")}),
    "DGA (H, I, O, E)": ("dga", {"parts": ("heads", "intermediate", "output", "embeddings")}),
    "DGA (w/o contrast)": ("dga", {"contrast": 0.0}),
    "DGA (random mask)": ("dga", {"importance": "random"}),
    "DGA (domain-specific)": ("dga", {"knowledge": "domain"}),
}
SHARED = tuple(field.name for field in fields(DomainRecipe))
GROUPS = ("dga", "light", "distil", "sequence_contrast", "token_contrast")


@dataclass(frozen=True)
class DgaStudyRecipe:
    """Tables 2 to 5 of Ke et al. (2022): the model as it is and adapted on raw text of a domain by each method.

    The defaults are those of section 4.2. `adapt` is what all adapt with; the groups of the methods have the rest.
    """

    seeds: int = 5  # of fine-tuning; at least 2
    contestants: tuple[Contestant, ...] = TABLE_2
    """Beside the model as it is; also `"DGA (H, I)"`, `"DGA (H, I, O)"`, `"DGA (H, I, O, E)"`, `"DGA (w/o
    contrast)"`, `"DGA (random mask)"`, `"Ensemble (LM+MLM)"`, `"DGA (domain-specific)"`."""
    ablations: bool = False  # with those seven, which are Table 3's
    rows: int = 0  # so many of train, drawn; 0: all
    rows_seed: int = 0  # of that draw
    # the dropout of BERT and RoBERTa: two passes over a text have to differ
    adapt: DomainRecipe = field(default_factory=lambda: DomainRecipe(dropout=0.1, attention_dropout=0.1))
    """What all methods adapt with."""
    dga: dga.DgaRecipe = field(default_factory=dga.DgaRecipe)
    """Of DGA alone; what adapt has is an error here, and in the next four groups."""
    light: light.LightRecipe = field(default_factory=light.LightRecipe)  # of adapter and prompt
    distil: distil.DistilRecipe = field(default_factory=distil.DistilRecipe)  # of KD and AdaptedDeiT
    sequence_contrast: sequence_contrast.SequenceContrastRecipe = field(
        default_factory=sequence_contrast.SequenceContrastRecipe
    )  # of SimCSE and InfoWord
    token_contrast: token_contrast.TokenContrastRecipe = field(default_factory=token_contrast.TokenContrastRecipe)
    """Of TaCL and TaCO."""
    finetune: finetune.FinetuneRecipe = field(
        default_factory=lambda: finetune.FinetuneRecipe(
            choose="last", looks=1, epochs=10.0, plan=Plan(batch=16, rate=1e-5, warmup=0.0)
        )
    )  # of all fine-tunings; the paper has 5 epochs on Restaurant, 15 on Phone and Camera

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(f"seeds = {self.seeds}: one seed says nothing about chance. Give at least 2, better 5")
        if len(set(self.contestants)) < len(self.contestants) or not self.names:
            raise ValueError(f"contestants = {list(self.contestants)}: at least one of them, and each once")
        if self.rows < 0:
            raise ValueError(f"rows = {self.rows} is out of range: at least 0")
        if self.finetune.head == "kept":
            raise ValueError(
                "finetune.head = 'kept' goes on with the model's own head, which what was adapted has not. Leave it out"
            )
        check_unnamed(self)
        usual = DomainRecipe()
        for group in GROUPS:
            for name in SHARED:
                if getattr(getattr(self, group), name) != getattr(usual, name):
                    raise ValueError(f"{group}.{name}: all adapt with the same. State adapt.{name} instead")
        noisy = [name for name in self.names if self._differs_by_dropout(name)]
        if noisy and not self.adapt.dropout and self.adapt.dropout == self.adapt.attention_dropout == 0:
            raise ValueError(
                f"adapt.dropout = 0 and adapt.attention_dropout = 0: {noisy[0]} compares passes over a text that "
                f"differ by dropout alone. Set adapt.dropout=0.1, or leave {noisy[0]} out of contestants"
            )

    @property
    def names(self) -> tuple[Contestant, ...]:
        """Who runs against the untouched model, in the order of the tables."""
        chosen = {*self.contestants, *(TABLE_3 if self.ablations else ())}
        return tuple(name for name in (*TABLE_2, *TABLE_3) if name in chosen)

    def stated(self, name: str) -> mlm.MlmRecipe:
        """How a contestant of ADAPTED adapts."""
        method, own = ADAPTED[name]
        shared = {name: getattr(self.adapt, name) for name in SHARED}
        if method == "mlm":
            return mlm.MlmRecipe(**shared)
        group = getattr(self, method)
        recipe: mlm.MlmRecipe = replace(group, **shared, **own, **unread(name, group))
        return recipe

    def _differs_by_dropout(self, name: str) -> bool:
        return name == "SimCSE" or (name != ENSEMBLE and ADAPTED[name][0] == "dga")


# -------------------- domain methods page
# What DGA's study came to, as text, CSV and a page: scores as in Tables 2 to 5, differences, costs.


DOMAIN_LOSS = "domain loss"
SOURCE = "The study: Ke, Shao, Lin, Xu, Shu and Liu (2022), Tables 2 to 5."


@dataclass(frozen=True)
class DomainMethods:
    """trained: training rows; documents: that were adapted on; metric: the task's own; judged: by every metric that is
    reported of it; general, domain: contestant -> its loss on held-out text, empty where none was measured.
    """

    task: str
    model: str
    metric: str
    trained: int
    documents: int
    judged: tuple[Judged, ...]
    general: Mapping[str, GeneralLoss]
    domain: Mapping[str, GeneralLoss]
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """As dga.txt has it, at most 110 columns wide."""
        return page(self.heading, self.sections())

    @property
    def heading(self) -> str:
        return f"{self.task}: {self.model}"

    def sections(self) -> list[Section]:
        """The parts of text and page."""
        trained = f"{amount(self.trained, 'row')}, adapted on {amount(self.documents, 'document')}"
        losses = {table.HEADING: self.general, DOMAIN_LOSS: self.domain}
        beside = {what: {name: str(loss) for name, loss in own.items()} for what, own in losses.items() if own}
        meant = [f"General loss: {table.MEANING}"] if self.general else []
        meant += ["Domain loss: the same on text of the domain that nobody adapted on."] if self.domain else []

        def costs(cell: Cell) -> dict[str, Cost]:
            return {"adapting": cell.adapting, "tuning": cell.finetuning}

        return [
            scores_section(self.judged, "test", trained=trained, beside=beside, lines=(*meant, *self.notes)),
            pairs_section(self.judged, self.metric, t_test="paired t over seeds"),
            seeds_section(self.judged),
            costs_section(self.judged[0].cells, costs, "Adapting once; tuning a seed, the mean over seeds."),
        ]

    def csv(self) -> str:
        """A line for each metric and contestant; the differences are from the untouched model and from MLM."""
        names = [cell.contestant for cell in self.judged[0].cells]

        def more(cell: Cell) -> dict[str, object]:
            told: dict[str, object] = {}
            for what, own in (("general_loss", self.general), ("domain_loss", self.domain)):
                loss = own.get(cell.contestant, GeneralLoss())
                told |= {what: loss.loss, f"{what}_difference": loss.difference}
            return told | cost_columns({"adapting": cell.adapting, "finetuning": cell.finetuning})

        about = {"task": self.task, "model": self.model}
        return judged_csv(self.judged, about, [name for name in (UNTOUCHED, MLM) if name in names], more)


STUDY = "dga"
RECIPE = DgaStudyRecipe


def given(
    own: Own,
    raw: Raw,
    recipe: DgaStudyRecipe,
    out: Path,
    *,
    model: str | None,
    data: Path | None = None,
    leaks: Leaks = "keep",
    watch: Watch = unwatched,
) -> Materials:
    """The task and the texts, as `launch.materials_of` reads them, in the directory `out`.

    Raises ValueError for whatever is wrong with them, and for contestants that the model or the task is not for.
    """
    if model is None:
        raise ValueError(f"the study '{STUDY}' needs a pretrained model: give --model, a directory or hub id")
    if raw.domain is None:
        raise ValueError(f"the study '{STUDY}' adapts on raw text of the domain: give --corpus, a file or folder of it")
    read = labelled_of(own, data)
    labelled = fewer(read if isinstance(read, Labelled) else read_own(read), recipe.rows, recipe.rows_seed)
    _check(recipe, labelled, resolved(model))
    others = len(recipe.names) - 1 if MLM in recipe.names else 0
    pairs = len(recipe.names) + others
    return gather(out, labelled, raw, model=model, leaks=leaks, seeds=recipe.seeds, comparisons=pairs, watch=watch)


def run_domain_methods(
    recipe: DgaStudyRecipe, materials: Materials, run: Path, *, watch: Watch = unwatched
) -> DomainMethods:
    """Do what is missing of the study in the directory `run`, and write dga.txt, .csv, .html and .scores.json."""
    claim(run)
    study, task = _study(recipe, materials), materials.task
    do(study.before(), run, watch=watch)
    do((arm.test for arm in study.arms), run, watch=watch)  # the test set is opened once all is trained
    scores = []
    for arm in study.arms:
        result = done(arm.test, run)
        dev = result.get("dev")  # of an ensemble, which is no fine-tuning
        seen = result | {"dev": done(arm.tuned[-1], run)["dev"] if dev is None else dev}
        costs = {
            "adapting": spent(arm.model.directory(run)) if arm.model else Cost(),
            "finetuning": sum((spent(job.directory(run)) for job in arm.tuned), Cost()),
        }
        scores.append(test_row(arm.name, arm.seed, seen, task, **costs))
    against = (UNTOUCHED, MLM)
    found = DomainMethods(
        task=task.name,
        model=Path(materials.model or "").name,
        metric=task.metric.name,
        trained=task.sizes["train"],
        documents=len(materials.domain or ()),
        judged=tuple(judged(scores, metric, against=against) for metric in reported(task.metric)),
        general=_losses(study.general, recipe, run),
        domain=_losses(study.domain, recipe, run),
        notes=materials.notes,
    )
    write_study(
        run,
        STUDY,
        title="Adapting on a domain",
        heading=found.heading,
        sections=found.sections(),
        sheet=found.csv(),
        records=records(scores, "test"),
        source=SOURCE,
    )
    return found


def _losses(jobs: Mapping[str, Job], recipe: DgaStudyRecipe, run: Path) -> dict[str, GeneralLoss]:
    """Contestant -> its loss on a text; empty where the model came without a head, so that no loss says anything."""
    if not jobs or not done(jobs[UNTOUCHED], run)["head"]:
        return {}
    losses = {name: done(job, run)["loss"] for name, job in jobs.items()}
    adapted = {name: (losses[UNTOUCHED], loss) for name, loss in losses.items() if name != UNTOUCHED}
    return table.beside((UNTOUCHED, *recipe.names), adapted)


def foreseen(recipe: DgaStudyRecipe, materials: Materials, run: Path) -> Estimate:
    """What the study would still do in `run`, and what that takes. Tries a few steps; writes nothing there."""
    study = _study(recipe, materials)
    jobs = [*study.before(), *(arm.test for arm in study.arms)]
    waiting = missing(jobs, run)
    race = RaceRecipe(seeds=recipe.seeds, contestants=(), dapt=recipe.stated(MLM), finetune=recipe.finetune)
    asked = [(job, 1.0) for job in waiting]
    return estimate_of_jobs(asked, race, materials, done=len(with_needs(jobs)) - len(waiting))


def reported(metric: Metric) -> tuple[Metric, ...]:
    """What is reported of the same predictions: with macro-F1 accuracy, as Table 2 has both."""
    return (metric, METRICS["accuracy"]) if metric.name == "macro_f1" else reported_with(metric)


@dataclass(frozen=True)
class _Arm:
    """A contestant with a seed. model: its adapting; None for the untouched model; tuned: of an ensemble two."""

    name: str
    seed: int
    model: Job | None
    tuned: tuple[Job, ...]
    test: Job


@dataclass(frozen=True)
class _Study:
    """general, domain: contestant -> the job of its loss on held-out text; empty where there is none."""

    models: Mapping[str, Job | None]
    general: Mapping[str, Job]
    domain: Mapping[str, Job]
    arms: tuple[_Arm, ...]

    def before(self) -> list[Job]:
        """All but the tests, in the order in which it is done."""
        adapting = [job for job in self.models.values() if job]
        losses = [*self.general.values(), *self.domain.values()]
        return [*adapting, *losses, *(job for arm in self.arms for job in arm.tuned)]


def _study(recipe: DgaStudyRecipe, materials: Materials) -> _Study:
    names = recipe.names
    models: dict[str, Job | None] = {UNTOUCHED: None}
    for name in ADAPTED:
        if name in names or (name == MLM and ENSEMBLE in names):
            method, _ = ADAPTED[name]
            models[name] = with_model(on_domain(name, method, recipe.stated(name), materials), None, materials)
    longest = recipe.adapt.max_tokens
    general, domain = (
        {
            name: heldout_loss(f"{what}, {name}", text, model, materials, max_tokens=longest)
            for name, model in models.items()
            if text is not None
        }
        for what, text in (("general loss", materials.general_heldout), ("domain loss", materials.heldout))
    )
    arms = []
    for seed in range(recipe.seeds):
        stated = replace(recipe.finetune, plan=replace(recipe.finetune.plan, seed=seed))
        tuned = {
            name: fine_tuned(f"fine-tune {name}, seed {seed}", stated, model, materials)
            for name, model in models.items()
        }
        for name in (UNTOUCHED, *names):
            if name == ENSEMBLE:
                both = tuned[UNTOUCHED], tuned[MLM]
                test = _together(f"test {name}, seed {seed}", both, materials)
                arms.append(_Arm(name, seed, models[MLM], both, test))
            else:
                arms.append(_Arm(name, seed, models[name], (tuned[name],), tested(tuned[name], materials.task)))
    return _Study(models, general, domain, tuple(arms))


def _together(label: str, both: tuple[Job, Job], materials: Materials) -> Job:
    task = materials.task
    contents = {name: task.hashes[name] for name in ("about", "dev", "test")}
    needs = dict(zip(("first", "second"), both, strict=True))
    return Job(label, work.TEST_TOGETHER, {"by": label}, contents, {"task": task.path}, needs, alone=True)


def _check(recipe: DgaStudyRecipe, task: Labelled, model: str) -> None:
    """Raises ValueError for contestants that cannot be and for texts that the model cannot read."""
    names = recipe.names
    if ENSEMBLE in names and task.kind != finetune.KIND:
        raise ValueError(
            f"{ENSEMBLE} averages the probabilities of a row's one label, but {task.name} is of kind '{task.kind}'. "
            f"Leave it out of contestants, and name those of Table 3 in place of ablations=true"
        )
    of_dga = [name for name in names if name != ENSEMBLE and ADAPTED[name][0] == "dga"]
    if of_dga and not heads_known(model):
        raise ValueError(f"{of_dga[0]} knows the heads of {', '.join(PLACES)} only. Leave it out of contestants")
    adapted = (*(name for name in names if name != ENSEMBLE), *((MLM,) if ENSEMBLE in names else ()))
    adapting = {name: ("adapt", recipe.stated(name)) for name in adapted}
    check_adaptations(adapting, configuration_of(model), max_tokens=task.max_tokens)
