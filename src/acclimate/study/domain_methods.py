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
  (methods/ensemble.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from acclimate.core.types import Cost, Watch, unwatched
from acclimate.methods import ensemble
from acclimate.models.encoder import configuration_of
from acclimate.models.loading import resolved
from acclimate.models.parts import PLACES, heads_known
from acclimate.study import forgetting, stages
from acclimate.study.adapting import check_adaptations, on_domain, with_model
from acclimate.study.contestants import UNTOUCHED
from acclimate.study.cost import Estimate, estimate_of_jobs
from acclimate.study.domain_methods_page import SOURCE, DomainMethods
from acclimate.study.domain_methods_recipe import ADAPTED, ENSEMBLE, MLM, Recipe
from acclimate.study.entries import fine_tuned, heldout_loss, tested
from acclimate.study.forgetting import GeneralLoss
from acclimate.study.gathering import Leaks, Raw, gather
from acclimate.study.grid_page import records
from acclimate.study.jobs import Job, claim, do, missing, with_needs
from acclimate.study.judged_page import write_study
from acclimate.study.judging import judged
from acclimate.study.launch import labelled_of
from acclimate.study.materials import Materials
from acclimate.study.recipe import Recipe as Race
from acclimate.study.running import do_each
from acclimate.study.searching import test_row
from acclimate.tasks.labelled import Labelled, Own, fewer
from acclimate.tasks.metrics import METRICS, reported_with
from acclimate.tasks.own import read_own
from acclimate.tasks.task import Metric
from acclimate.training.checkpoint import spent

STUDY = "dga"


def given(
    own: Own,
    raw: Raw,
    recipe: Recipe,
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


def run_domain_methods(recipe: Recipe, materials: Materials, run: Path, *, watch: Watch = unwatched) -> DomainMethods:
    """Do what is missing of the study in the directory `run`, and write dga.txt, .csv, .html and .scores.json."""
    claim(run)
    study, task = _study(recipe, materials), materials.task
    do_each(study.before(), run, watch=watch)
    do_each((arm.test for arm in study.arms), run, watch=watch)  # the test set is opened once all is trained
    scores = []
    for arm in study.arms:
        result = do(arm.test, run)
        dev = result.get("dev")  # of an ensemble, which is no fine-tuning
        seen = result | {"dev": do(arm.tuned[-1], run)["dev"] if dev is None else dev}
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


def _losses(jobs: Mapping[str, Job], recipe: Recipe, run: Path) -> dict[str, GeneralLoss]:
    """Contestant -> its loss on a text; empty where the model came without a head, so that no loss says anything."""
    if not jobs or not do(jobs[UNTOUCHED], run)["head"]:
        return {}
    losses = {name: do(job, run)["loss"] for name, job in jobs.items()}
    adapted = {name: (losses[UNTOUCHED], loss) for name, loss in losses.items() if name != UNTOUCHED}
    return forgetting.beside((UNTOUCHED, *recipe.names), adapted)


def foreseen(recipe: Recipe, materials: Materials, run: Path) -> Estimate:
    """What the study would still do in `run`, and what that takes. Tries a few steps; writes nothing there."""
    study = _study(recipe, materials)
    jobs = [*study.before(), *(arm.test for arm in study.arms)]
    waiting = missing(jobs, run)
    race = Race(seeds=recipe.seeds, contestants=(), dapt=recipe.stated(MLM), finetune=recipe.finetune)
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


def _study(recipe: Recipe, materials: Materials) -> _Study:
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
    return Job(label, stages.test_together, {"by": label}, contents, {"task": task.path}, needs, alone=True)


def _check(recipe: Recipe, task: Labelled, model: str) -> None:
    """Raises ValueError for contestants that cannot be and for texts that the model cannot read."""
    names = recipe.names
    if ENSEMBLE in names and task.kind != ensemble.KIND:
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
