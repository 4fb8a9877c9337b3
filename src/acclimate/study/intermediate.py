"""STILT's Tables 2 and 3 (Jeong and Hwang): fine-tuned on A, then on B, for all ordered pairs of datasets.

Beside each pair stand B alone (the baseline), and the controls that the paper lacks: the same task twice (A = B), and
B alone for as many steps as the pair took in all, in one go. Fine-tuning on A is done once a model and seed, whatever
comes after it, and is the baseline of A where both have the same settings. The method is methods/stilt.py; here each
stage is a job, so that stages are shared.

Readings
  Test or dev, seeds, and whether anything was tested, the paper does not say: the test set, opened once a cell and seed
  after all training; each cell with its interval and paired test against B alone, Holm's correction over all cells of a
  model's matrix, controls included.
  "The same as those of PubMedBERT" is a search for each dataset there. One setting for all is stated here (`finetune`).
  A checkpoint of B is that of its best look at dev, of A likewise (`intermediate.choose`).
Deviations
  Training rows of A that hold a dev or test text of B are left out of A before that B (study/intermediate_data.py);
  leaks=keep keeps and counts them. A task before itself keeps all: what its own training set holds, B alone has too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from acclimate.core import ranks
from acclimate.core.types import Cost, Score, Watch, unwatched
from acclimate.methods import finetune
from acclimate.methods.fitting import fitting
from acclimate.models.encoder import longest_input
from acclimate.study.benchmark import Contestant, called, contestants_of, naming
from acclimate.study.entries import fine_tuned, tested
from acclimate.study.intermediate_data import Given, Member, given
from acclimate.study.intermediate_page import write_pages
from acclimate.study.intermediate_recipe import BASELINE, MORE, Recipe
from acclimate.study.intermediate_result import Matrix, Tables, matrix_of
from acclimate.study.intermediate_rows import Column, Ran, Row
from acclimate.study.jobs import Job, claim, result_of
from acclimate.study.judging import mean_cost
from acclimate.study.materials import Materials
from acclimate.study.outcome import constant_score
from acclimate.study.resampling import resample
from acclimate.study.running import do_all
from acclimate.study.searching import dev_row, test_row
from acclimate.study.typeset import amount
from acclimate.tasks.prepared import Prepared
from acclimate.training.checkpoint import spent

STUDY = "stilt"


@dataclass(frozen=True)
class Arm:
    """A column of a row, a job a seed. first: the fine-tuning on A; None where B stands alone.

    steps  of the first task and of the target
    """

    column: str
    tuned: tuple[Job, ...]
    first: tuple[Job, ...] = ()
    steps: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Line:
    """A target with all its arms; controls: column -> the arm of as many steps on the target alone."""

    target: Member
    arms: tuple[Arm, ...]
    controls: Mapping[str, Arm]

    def all_arms(self) -> list[Arm]:
        """Those of the columns, then the controls that are none."""
        return [*self.arms, *(arm for arm in self.controls.values() if arm not in self.arms)]


def run_matrix(
    recipe: Recipe, models: Sequence[str], data: Path | None, out: Path, *, watch: Watch = unwatched
) -> Tables:
    """Do what is missing of the study in `out`, and write stilt.txt, .csv, .html and .scores.json.

    data: the folder of a catalogue; None where all datasets are files

    A cell whose training fails is told of, and the others go on. Raises ValueError, before anything is trained, for
    whatever is wrong with models, datasets and settings.
    """
    contestants = contestants_of(models)
    claim(out, called(contestants))
    found = given(recipe, data, out, watch=watch)
    check_lengths(recipe, contestants, found)
    lines = {own.name: lines_of(recipe, own, found) for own in contestants}
    told = watch
    for own in contestants:
        told = naming(told, own)
    arms = [arm for several in lines.values() for line in several for arm in line.all_arms()]
    failed = do_all([job for arm in arms for job in (*arm.first, *arm.tuned)], out, watch=told)
    if recipe.split == "test":  # opened once all is trained
        tests = [
            tested(job, line.target.task)
            for several in lines.values()
            for line in several
            for arm in line.all_arms()
            for job in arm.tuned
            if result_of(job, out) is not None
        ]
        failed |= do_all(tests, out, watch=told)
    matrices = []
    for own in contestants:
        why = {name: error.replace(own.key, own.name) for name, error in failed.items()}
        matrices.append(_matrix(recipe, own, lines[own.name], why, out))
    tables = Tables(recipe.split, recipe.leaks, tuple(matrices), dict(found.absent))
    if ranks.is_first():
        write_pages(out, STUDY, tables)
    ranks.wait()
    return tables


def lines_of(recipe: Recipe, own: Contestant, found: Given) -> list[Line]:
    """A line for each target, the datasets in their order."""
    return [_line(recipe, own, target, found.members) for target in found.members]


def _line(recipe: Recipe, own: Contestant, target: Member, members: Sequence[Member]) -> Line:
    stated = fitting(recipe.finetune, target.task)
    alone = finetune.steps_of(stated, target.task)

    def of_target(label: str, recipe_of: finetune.Recipe, seed: int, first: Job | None = None) -> Job:
        words = f"fine-tune {own.key} on {label}, seed {seed}"
        return fine_tuned(words, _seeded(recipe_of, seed), first, _materials(target.task, own))

    def in_one_go(steps: int) -> Arm:
        longer = replace(stated, epochs=0.0, plan=replace(stated.plan, steps=steps))
        jobs = [of_target(f"{target.name}, {steps} steps", longer, seed) for seed in range(recipe.seeds)]
        return Arm(f"{MORE}, {steps}", tuple(jobs), steps=(0, steps))

    seeds = range(recipe.seeds)
    arms = [Arm(BASELINE, tuple(of_target(target.name, stated, seed) for seed in seeds), steps=(0, alone))]
    controls: dict[str, Arm] = {}
    for member in members:
        if member is target and not recipe.same_task:
            continue
        task = member.task if member is target else member.before(target.name)
        before = fitting(recipe.intermediate.on(recipe.finetune), task)
        # What a label says is what `recommend intermediate` knows a checkpoint by (study/transfer_tuned.py)
        called = member.name if before == fitting(recipe.finetune, task) else f"{member.name} as first task"
        if left_out := member.task.sizes["train"] - task.sizes["train"]:
            called += f" without {amount(left_out, 'row')}"
        words = f"fine-tune {own.key} on {called}"
        firsts = tuple(
            fine_tuned(f"{words}, seed {seed}", _seeded(before, seed), None, _materials(task, own)) for seed in seeds
        )
        label = f"{member.name}, then {target.name}"
        steps = finetune.steps_of(before, task)
        tuned = tuple(of_target(label, stated, seed, firsts[seed]) for seed in seeds)
        arms.append(Arm(member.name, tuned, firsts, (steps, alone)))
        if recipe.more_steps == "each" or (recipe.more_steps == "twice" and member is target):
            controls[member.name] = in_one_go(steps + alone)
    if recipe.more_steps != "none":
        again = finetune.steps_of(fitting(recipe.intermediate.on(recipe.finetune), target.task), target.task)
        arms.append(replace(in_one_go(again + alone), column=MORE))
        controls = {name: arms[-1] if arm.tuned == arms[-1].tuned else arm for name, arm in controls.items()}
    return Line(target, tuple(arms), controls)


def check_lengths(recipe: Recipe, contestants: Sequence[Contestant], found: Given) -> None:
    """Raises ValueError where a model cannot read texts as long as the datasets'."""
    for own in contestants:
        longest = longest_input(own.where)
        for member in found.members:
            if longest is not None and member.task.max_tokens > longest:
                raise ValueError(
                    f"{member.name} has examples of up to {member.task.max_tokens} tokens, but {own.name} reads at "
                    f"most {longest}. Add max_tokens={longest}"
                )


def _matrix(recipe: Recipe, own: Contestant, lines: Sequence[Line], failed: Mapping[str, str], out: Path) -> Matrix:
    rows = []
    for line in lines:
        ran = {arm.column: _ran(arm, line.target, recipe, failed, out) for arm in line.all_arms()}
        columns = []
        for arm in line.arms[1:]:
            first = next((other.target for other in lines if other.target.name == arm.column), None)
            control = line.controls.get(arm.column)
            columns.append(
                Column(
                    name=arm.column,
                    type=first.type if first else "",
                    ran=ran[arm.column],
                    control=ran[control.column] if control and control.column != arm.column else None,
                    leaking=first.leaking.get(line.target.name, 0) if first else 0,
                    same=first is line.target,
                )
            )
        target = line.target
        metric, trained = target.task.metric.name, target.task.sizes["train"]
        rows.append(Row(target.name, target.type, metric, trained, ran[BASELINE], tuple(columns), target.notes))
    return matrix_of(own.name, recipe.seeds, rows)


def _ran(arm: Arm, target: Member, recipe: Recipe, failed: Mapping[str, str], out: Path) -> Ran:
    """What an arm came to: its scores, or why they are not there."""
    scores: list[Score] = []
    why = ""
    gold = [example.label for example in target.task.examples("dev")] if recipe.split == "dev" else []
    for seed, job in enumerate(arm.tuned):
        trained, last = result_of(job, out), tested(job, target.task)
        result = trained if recipe.split == "dev" else result_of(last, out)
        if trained is None or result is None:
            why = why or f"seed {seed}: {failed.get(job.name) or failed.get(last.name) or 'not done'}"
            continue
        if recipe.split == "dev":
            scores.append(dev_row(arm.column, seed, result, gold, target.task))
        else:
            seen = result | {"dev": trained["dev"]}
            scores.append(test_row(arm.column, seed, seen, target.task, adapting=Cost(), finetuning=Cost()))
    done = [job for job in arm.tuned if result_of(job, out) is not None]
    return Ran(
        name=arm.column,
        seeds=tuple((score.seed, score.dev, score.test) for score in scores),
        drawn=None if why else resample(scores, target.task.metric)[arm.column],
        failed=why,
        steps=arm.steps,
        first=mean_cost(spent(job.directory(out)) for job in arm.first if result_of(job, out) is not None),
        own=mean_cost(spent(job.directory(out)) for job in done),
        jobs=tuple(job.name for job in arm.tuned),
        constant=constant_score(scores[0].gold, target.task.kind, target.task.metric) if scores else 0.0,
    )


def _materials(task: Prepared, own: Contestant) -> Materials:
    return Materials(task=task, model=own.where)


def _seeded(stated: finetune.Recipe, seed: int) -> finetune.Recipe:
    return replace(stated, plan=replace(stated.plan, seed=seed))
