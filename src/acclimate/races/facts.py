"""What a race records beside scores and comparisons, gathered from the directories of its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from acclimate.core import files, settings
from acclimate.core.figures import listed, metric_text
from acclimate.core.types import Cost
from acclimate.data.retrieved import shown_from
from acclimate.jobs.job import Job, decided, read_result
from acclimate.methods import method_called
from acclimate.methods.baselines import TfidfRecipe, TfidfSetting
from acclimate.methods.recipes.finetune import WIDTH, rates_text
from acclimate.methods.recipes.mlm import NO_HEAD
from acclimate.models.formats import OF_PLACES
from acclimate.models.word_embeddings import Distances
from acclimate.races import work
from acclimate.races.compare import mean_cost
from acclimate.races.outcome import (
    IN_SCIKIT_LEARN,
    ON_USUAL_SPLIT,
    CellResult,
    Curves,
    Facts,
    HeldOutColumn,
    LooksAtTest,
    Outcome,
)
from acclimate.reports import table
from acclimate.reports.curves import TERMS, both_sides, read_curve
from acclimate.reports.page import Fact, amount
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.task import NOT_OF_A_STATE, PROBED
from acclimate.training.checkpoint import read_log, spent
from acclimate.training.run import CHECKPOINT, environment, versions

if TYPE_CHECKING:
    from acclimate.data.materials import Materials
    from acclimate.races.contestants import Entries
    from acclimate.races.design import Cell
    from acclimate.races.search import FineTuned


POINTS = 120  # of a learning curve


def with_facts(
    outcome: Outcome,
    tuned: FineTuned,
    run: Path,
    *,
    command: str,
    use: str,
    encoder: str,
    use_reason: str,
    margin: float,
    rivals: int = 0,
    folds: Sequence[FineTuned] = (),
    handed_over: str = "",
) -> Outcome:
    """Return the outcome of a race with its facts: contestants by falling mean after the untouched model, their costs,
    losses on held-out general text, and notes.

    folds        of a cross-validation what was fine-tuned on each fold; `tuned` is then the training on the usual split
    use, encoder, use_reason, margin, rivals, handed_over  as of `Facts`
    """
    counted = [result for result in outcome.results if outcome.only_probed or not result.probe]
    failed = {result.contestant: result.failed for result in counted if result.failed}
    facts = facts_of(tuned, run, command, failed=failed)
    facts = replace(facts, use=use, encoder=encoder, use_reason=use_reason, handed_over=handed_over)
    facts = replace(facts, margin=margin, rivals=rivals)
    if folds:
        facts = _cross_validation_facts(facts, outcome, folds, run, failed=failed)
    pretraining = _pretraining((folds[0] if folds else tuned).entries, run)
    results = tuple(_with_costs(result, pretraining) for result in sorted(outcome.results, key=_place))
    names = [result.row for result in results if not result.probe]
    more = table.adaptations_note(outcome.adaptations)
    more += " It is that of the training on the usual split." if folds else ""
    columns = []
    if facts.general_losses and not outcome.only_probed:
        column = table.general_loss_column(names, facts.general_losses)
        columns.append(HeldOutColumn(table.HEADING, f"{table.MEANING}{more}", column))
    notes = [note for training in (*folds, tuned) for note in training.notes]
    places = {result.key: place for place, result in enumerate(results)}
    return replace(
        outcome,
        results=results,
        against=tuple(sorted(outcome.against, key=lambda pairing: places.get(pairing.key, len(places)))),
        losses=tuple(columns),
        notes=tuple(dict.fromkeys((*outcome.notes, *notes, *_notes(tuned.entries, run)))),
        race=facts,
    )


def _cross_validation_facts(
    facts: Facts, outcome: Outcome, folds: Sequence[FineTuned], run: Path, *, failed: Mapping[str, str]
) -> Facts:
    """Return the facts of the training on the usual split with those of the cross-validation in their place: what each
    contestant was given on the first fold.
    """
    repeats = len({fold.entries.seeds for fold in folds})
    rows = next((result.task.sizes["test"] for result in outcome.results if not result.failed), 0)
    first = folds[0]
    names = [*first.entries.models, *first.entries.untuned]
    of_one_set = ("seeds", "evaluations on the test set per seed", "evaluations on the test set")
    chances_by_name = {}
    for name in names:
        chances = {fact: value for fact, value in _chances(name, first, run, failed).items() if fact not in of_one_set}
        chances_by_name[name] = {**chances, "folds": outcome.folds, "repeats": repeats}
    split_facts = [f"{split} examples" for split in ("train", "dev", "test")]
    return replace(
        facts,
        curves={f"{title}{ON_USUAL_SPLIT}": curves for title, curves in facts.curves.items()},
        task={
            **{name: value for name, value in facts.task.items() if name not in split_facts},
            "labelled rows scored": rows,
            "cross-validation": f"{outcome.folds} folds, divided {amount(repeats, 'time')}",
        },
        given=chances_by_name,
        chosen={candidate.contestant: candidate.setting.name for candidate in first.search.finalists},
        search_note="",
        looks=None,
        leaked_test_ids=(),
    )


def probe_facts(cell: Cell, out: Path) -> dict[str, Any]:
    """Return what is known of a probe beside its score; nothing of other cells. Of several adaptations that of each."""
    if not cell.probe:
        return {}
    fitted = [_result(test.needs["fitted"], out) for test in cell.jobs_by_seed.values()]
    strengths = dict.fromkeys(f"{fit['strength']:g}" for fit in fitted)
    read_outs = dict.fromkeys(fit["read_out"] for fit in fitted)
    facts = {"read-out": ", ".join(read_outs), "strength": ", ".join(strengths)}
    two = cell.materials.task.two_places
    if two is None or {*read_outs} & {*OF_PLACES}:
        return facts
    return {**facts, "asked of": {"pair": "pairs", "mentions": "mentions"}[two]}


def _place(result: CellResult) -> tuple[bool, bool, bool, float, str]:
    """Return what contestants are sorted by: the untouched model first, the others by falling mean, then the failed;
    then their probes likewise.
    """
    if result.failed:
        return result.probe, True, True, 0.0, ""
    mean = sum(score.test for score in result.scores) / len(result.scores)
    return result.probe, False, result.contestant != table.UNTOUCHED, -mean, result.row


def _with_costs(result: CellResult, pretraining: Mapping[str, Cost]) -> CellResult:
    """Return the result with the costs that a race's tables have. pretraining: contestant -> what its model took"""
    if result.failed:
        return replace(result, scores=(), jobs=(), costs={})
    costs = {"adapting": mean_cost(score.adapting for score in result.scores)}
    if result.probe:
        costs["probe"] = result.costs["probe"]
    else:
        costs["tuning"] = mean_cost(score.finetuning for score in result.scores)
    if pretraining:
        costs["pretraining"] = pretraining.get(result.contestant, Cost())
    return replace(result, costs=costs)


def facts_of(tuned: FineTuned, run: Path, command: str, failed: Mapping[str, str]) -> Facts:
    """Return everything that the page shows and that is not computed from scores. failed: contestant -> why"""
    jobs = tuned.entries
    recipe, materials = jobs.recipe, jobs.materials
    task = materials.task
    logged = {name: job for name, job in jobs.models.items() if job and (job.directory(run) / "log.jsonl").exists()}
    curves = {}
    first_of = f", the first of {recipe.adapt_seeds} adaptations" if any(jobs.further.values()) else ""
    if logged:
        names = {name: "pretraining" if job is jobs.base else name for name, job in logged.items()}
        losses = {names[name]: _smoothed(job.directory(run), _modelling(job)) for name, job in logged.items()}
        title, unit = f"Masked language modelling loss while adapting{first_of}", "loss, nats per masked token"
        curves[title] = Curves("tokens seen, millions", unit, losses)
    loss_curves = (read_curve(name, str(job.directory(run) / CHECKPOINT)) for name, job in logged.items())
    for term, lines in both_sides([curve for curve in loss_curves if curve is not None and curve.dev]).items():
        title, unit = TERMS[term]
        curves[f"{title}, on train and dev{first_of}"] = Curves("steps", unit, lines)
    if tuned.tuned:
        metric = metric_text(task.metric.name)
        lines = {name: _dev_curve(tunings, run) for name, tunings in tuned.tuned.items()}
        title = f"Dev {metric} while fine-tuning, mean over seeds"
        curves[title] = Curves("steps", f"dev {metric}, points", lines)
    examined = materials.examination
    racing = (*jobs.models, *jobs.untuned)
    return Facts(
        task=task_facts(task),
        curves=curves,
        losses=_losses(jobs.losses, jobs, run),
        general_losses=_losses(jobs.general_losses, jobs, run) if _has_head(jobs, run) else {},
        moved={name: _mean_move([_result(job, run) for job in several]) for name, several in jobs.moves.items()},
        given={name: _chances(name, tuned, run, failed) for name in racing},
        unprobed="" if task.kind in PROBED else f"A task of kind '{task.kind}' cannot be probed: {NOT_OF_A_STATE}.",
        search_note=tuned.search.note,
        stopped=tuned.search.stopped,
        chosen={candidate.contestant: candidate.setting.name for candidate in tuned.search.finalists},
        looks=looks_of(task, run),
        retrieved=shown_from(_retrieved(jobs, run)),
        examination=examined,
        leaked_test_ids=sorted(examined.leaked.get("test", ())) if examined and not examined.dropped else [],
        commands=[command],
        versions=versions(),
        hashes=_hashes(materials, jobs, run),
        environment=environment() | {"precision": recipe.finetune.plan.precision},
    )


def task_facts(task: Prepared) -> dict[str, Fact]:
    """Return what the page says on top of what was measured; numbers to predict have no labels."""
    return {
        "name": task.name,
        "source": task.source,
        **({"labels": ", ".join(task.labels)} if task.labels else {}),
        "metric": metric_text(task.metric.name),
        **{f"{split} examples": size for split, size in task.sizes.items()},
        "tokens read of an example, at most": task.max_tokens,
    }


def adapting_jobs(name: str, jobs: Entries, *, seed: int = 0) -> list[Job]:
    """Return the jobs that made the contestant's model of the untouched one, or of nothing, in their order.

    seed: of the fine-tuning that starts from the model
    """
    chain: list[Job] = []
    job = jobs.model(name, seed) if name in jobs.models else None
    while job is not None and job is not jobs.base:
        if job.work.trains == "encoder":
            chain = [*(need for name, need in job.needs.items() if name != "model"), job, *chain]
        job = job.needs.get("model")
    return chain


def _modelling(job: Job) -> str:
    """Return the term of the job's loss that is masked language modelling of its corpus."""
    name = job.settings.get("method")  # pretraining states none
    return method_called(name, job.places.get("code")).modelling if name else "mlm"


def _smoothed(directory: Path, term: str) -> list[tuple[float, float]]:
    """Return (millions of tokens, mean loss) of about POINTS stretches of a log; of the term, if the log has it."""
    log = read_log(directory)
    tokens = np.cumsum([line["tokens"] for line in log]) / 1e6
    losses = np.array([line.get(f"loss.{term}", 0.0) for line in log])
    if losses.any():
        tokens, losses = tokens[losses != 0], losses[losses != 0]  # 0: a step without rows of that term
    else:  # the loss has no such term
        losses = np.array([line["loss"] for line in log])
    stretches = np.array_split(np.arange(len(losses)), min(POINTS, len(losses)))
    return [(float(tokens[part[-1]]), float(losses[part].mean())) for part in stretches]


def _dev_curve(tuned: Sequence[Job], run: Path) -> list[tuple[float, float]]:
    """Return (step, mean dev score in points), over the seeds that looked at dev then: some stop early."""
    scores: dict[int, list[float]] = {}
    for job in tuned:
        for step, score in _result(job, run)["looks"]:
            scores.setdefault(step, []).append(score)
    return [(float(step), 100 * float(np.mean(several))) for step, several in sorted(scores.items())]


def _losses(measured: Mapping[str, Sequence[Job]], jobs: Entries, run: Path) -> table.BeforeAndAfter:
    """Return contestant -> (loss of the untouched model, mean loss over its adaptations), for adaptations and for
    checkpoints with a word head.
    """
    results = {name: [_result(job, run) for job in several] for name, several in measured.items()}
    losses = {name: fmean(result["loss"] for result in several) for name, several in results.items()}
    if (before := losses.get(table.UNTOUCHED)) is None:
        return {}
    with_head = [name for name in jobs.own_materials if all(result["head"] for result in results.get(name, ()))]
    return {name: (before, loss) for name, loss in losses.items() if name in with_head or adapting_jobs(name, jobs)}


def _mean_move(results: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, Distances]:
    """Return over what -> the distances of word embeddings, each figure the mean over adaptations. results: of these"""
    [first, *_] = results
    return {
        where: Distances(
            pieces=int(distances["pieces"]),  # all adaptations have one vocabulary
            **{name: fmean(result[where][name] for result in results) for name in distances if name != "pieces"},
        )
        for where, distances in first.items()
    }


def _has_head(jobs: Entries, run: Path) -> bool:
    """Return True if the untouched model predicts words; if not, its loss does not say what adapting forgot."""
    return all(_result(job, run)["head"] for job in jobs.general_losses.get(table.UNTOUCHED, ()))


def _pretraining(jobs: Entries, run: Path) -> dict[str, Cost]:
    """Return the contestants that start from a model that was pretrained here -> what that took, once for all."""
    if jobs.base is None:
        return {}
    cost = spent(jobs.base.directory(run))
    names = [*jobs.models, *jobs.unadapted]
    return {name: cost for name in names if name not in jobs.fresh}


def _chances(name: str, tuned: FineTuned, run: Path, failed: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings, steps, seeds and looks of a contestant, for the table that shows equal chances."""
    jobs = tuned.entries
    if name in table.UNADAPTED:
        if name in failed or name not in jobs.unadapted:
            return {"fine-tuning": f"failed: {failed.get(name, '')}"}
        result = _result(jobs.unadapted[name], run)
        layer = f"a linear layer on the frozen encoder ({result['read_out']})"
        if name == table.COMBINED:
            fit = settings.from_mapping(TfidfSetting, result["setting"])
            terms = fit.text(jobs.materials.task.kind)
            layer += f" and on terms, the best of {result['tried']} settings on dev: {terms}"
        return {"fine-tuning": f"none: {layer}", "evaluations on the test set": 1}
    if name not in jobs.models:
        kind = jobs.materials.task.kind
        if kind == "tokens":
            return {"fine-tuning": "each word's most frequent tag in train", "evaluations on the test set": 1}
        if kind == "search" and jobs.baseline is not None:
            setting = _result(jobs.baseline, run)["setting"]
            about = ", ".join(f"{key} {value:g}" for key, value in setting.items())
            return {"fine-tuning": f"none: {about}", "evaluations on the test set": 1}
        if name in failed:
            return {"fine-tuning": f"failed: {failed[name]}"}
        assert jobs.baseline is not None
        best = settings.from_mapping(TfidfSetting, _result(jobs.baseline, run)["setting"])
        chosen = best.text(kind)
        whole = jobs.materials.task.two_places != "pair" and not jobs.materials.fold
        return {
            "settings tried": (number := _tried(name, tuned)),
            "fine-tuning": f"the best on dev: {chosen}" if number > 1 else chosen,
            **({IN_SCIKIT_LEARN: best.scikit_learn_code(kind)} if whole else {}),
            "evaluations on the test set": 1,
        }
    adapting = [f"{job.label}: {_extent(_result(job, run))}" for job in adapting_jobs(name, jobs)]
    chances: dict[str, Any] = {
        "adapting": ", then ".join(adapting) or ("none: it races as it is" if name in jobs.own_materials else "none"),
        "settings tried": _tried(name, tuned),
    }
    if name in failed:
        return chances | {"fine-tuning": f"failed: {failed[name]}"}
    if not jobs.fine_tunes:
        return {"adapting": chances["adapting"], "fine-tuning": "none: it was probed only"}
    results = [_result(job, run) for job in tuned.tuned[name]]
    [setting] = [candidate.setting for candidate in tuned.search.finalists if candidate.contestant == name]
    plan = setting.recipe.plan
    rate = rates_text([setting.recipe], results[0]["width"] if setting.recipe.rate_by_width else WIDTH)
    steps = f"{results[0]['steps']:,} steps of {plan.batch} examples, {rate}"
    return chances | {
        "fine-tuning": steps if results[0]["steps"] else "none: there are no training queries",
        "seeds": len(results),
        "evaluations on dev per seed": len(results[0]["looks"]),
        "evaluations on the test set per seed": 1,
    }


def _tried(name: str, tuned: FineTuned) -> int:
    """Return how many settings of a contestant, or of the baseline, were tried."""
    jobs = tuned.entries
    if name in jobs.models or jobs.baseline is None:
        return len({trial.setting for trial in tuned.search.record if trial.contestant == name})
    return len(settings.from_mapping(TfidfRecipe, jobs.baseline.settings["recipe"]).tried(jobs.materials.task.kind))


def _retrieved(jobs: Entries, run: Path) -> list[dict[str, Any]]:
    """Return a few training texts with the documents that they retrieved; empty if no contestant retrieves."""
    retrieved = [job.needs["retrieved"] for job in jobs.models.values() if job and "retrieved" in job.needs]
    examples: list[dict[str, Any]] = files.read_json(retrieved[0].directory(run) / work.SHOWN) if retrieved else []
    return examples


def _extent(result: Mapping[str, Any]) -> str:
    return f"{result['steps']:,} steps" if "steps" in result else f"{result['documents']:,} documents"


def looks_of(task: Prepared, run: Path) -> LooksAtTest:
    """Return how often the labels of the test set were opened: here, and by earlier races on this machine."""
    by = [look["by"] for look in task.looks()]
    # as it was when this race first ended: what others look at later is not earlier
    looks, runs = decided(
        run, f"earlier-looks-{task.hashes['test'][:12]}", lambda: [task.earlier_looks(), task.earlier_runs()]
    )
    return LooksAtTest(len(by), runs, looks, by)


def _hashes(materials: Materials, jobs: Entries, run: Path) -> dict[str, str]:
    corpora = {"general": materials.general, "domain": materials.domain, "held-out": materials.heldout}
    corpora |= {"general, held-out": materials.general_heldout, "task texts": materials.task_text}
    hashes = {f"corpus, {name}": corpus.hash for name, corpus in corpora.items() if corpus is not None}
    hashes |= {f"task, {name}": value for name, value in materials.task.hashes.items()}
    models = {f"model, {name}": job for name, job in jobs.models.items() if job is not None}
    for name, further in jobs.further.items():
        models |= {f"model, {name}, adaptation {number}": job for number, job in enumerate(further, start=1)}
    hashes |= {f"model, {name}": materials.identity() for name, materials in jobs.own_materials.items()}
    return hashes | {name: _result(job, run)["checkpoint"] for name, job in models.items()}


def _notes(jobs: Entries, run: Path) -> list[str]:
    if not _has_head(jobs, run):
        return [f"The untouched model has {NO_HEAD}. Forgetting of general text is therefore unknown."]
    if jobs.base is None:
        return []
    cost: Cost = spent(jobs.base.directory(run))
    without = [name for name in jobs.models if name in jobs.fresh]
    less = f", though {listed(without)} did without it" if without else ""
    return [
        f"The untouched model was pretrained here: {cost.tokens:,} tokens, {cost.flops:.3g} FLOP, "
        f"{cost.seconds:.0f} s. This cost is not counted for any contestant{less}."
    ]


def _result(job: Job, run: Path) -> Mapping[str, Any]:
    return read_result(job.directory(run))
