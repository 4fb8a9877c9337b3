"""The facts of a race, gathered from the directories of its jobs, and the losses of runs as curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from acclimate.core import files
from acclimate.core.figures import listed, metric_text
from acclimate.core.types import Cost
from acclimate.data.retrieved import shown_from
from acclimate.jobs.job import RESULT, Job, decided
from acclimate.methods import METHODS, method_called
from acclimate.methods.baselines import baseline_of
from acclimate.methods.mlm import NO_HEAD
from acclimate.models.word_embeddings import Distances
from acclimate.races import work
from acclimate.races.report import Curves, Facts, Looks, title_of
from acclimate.tasks.prepared import Prepared
from acclimate.training.checkpoint import LOG, read_log, spent
from acclimate.training.run import CHECKPOINT, CURVE, environment, versions

if TYPE_CHECKING:
    from acclimate.data.materials import Materials
    from acclimate.races.contestants import Entries
    from acclimate.races.search import Ended


POINTS = 120  # of a learning curve
# term of a method's loss -> title and unit of its curve
TERMS = {term: words for method in METHODS.values() for term, words in method.curves.items()}
CURVE_POINTS = 60  # of a curve that is made of a log

Points = list[tuple[float, float]]


def facts_of(ended: Ended, run: Path, command: str, winner: str, failed: Mapping[str, str]) -> Facts:
    """Return everything that the page shows and that is not computed from scores. failed: contestant -> why."""
    jobs = ended.entries
    recipe, materials = jobs.recipe, jobs.materials
    task = materials.task
    adaptations = {
        name: job for name, job in jobs.models.items() if job and (job.directory(run) / "log.jsonl").exists()
    }
    curves = {}
    if adaptations:
        curves["Masked language modelling loss while adapting"] = Curves(
            "tokens seen, millions",
            "loss, nats a masked token",
            {
                "pretraining" if job is jobs.base else name: _smoothed(job.directory(run), _modelling(job))
                for name, job in adaptations.items()
            },
        )
    kept = (read_curve(name, str(job.directory(run) / CHECKPOINT)) for name, job in adaptations.items())
    for term, lines in both_sides([curve for curve in kept if curve is not None and curve.dev]).items():
        title, unit = TERMS[term]
        curves[f"{title}, on train and dev"] = Curves("steps", unit, lines)
    curves[f"Dev {metric_text(task.metric.name)} while fine-tuning, mean over seeds"] = Curves(
        "steps",
        f"dev {metric_text(task.metric.name)}, points",
        {name: _dev_curve(tuned, run) for name, tuned in ended.tuned.items()},
    )
    examined = materials.examination
    baselines = [name for name in [baseline_of(task.kind)] if name]  # spans have none
    racing = (*jobs.models, *(baselines if jobs.baseline else []))
    return Facts(
        title=title_of(task.name),
        task={
            "name": task.name,
            "source": task.source,
            "labels": ", ".join(task.labels),
            "metric": metric_text(task.metric.name),
            **{f"{split} examples": size for split, size in task.sizes.items()},
            "tokens read of an example, at most": task.max_tokens,
        },
        curves=curves,
        losses=_losses(jobs.losses, jobs, run),
        general_losses=_losses(jobs.general_losses, jobs, run) if _has_head(jobs, run) else {},
        moved={
            name: {where: Distances(**found) for where, found in _result(job, run).items()}
            for name, job in jobs.moves.items()
        },
        pretraining=_pretraining(jobs, run),
        given={name: _given(name, ended, run, failed) for name in racing},
        baselines=baselines,
        search=ended.found.record,
        search_note=ended.found.note,
        stopped=ended.found.stopped,
        chosen={candidate.contestant: candidate.setting.name for candidate in ended.found.finalists},
        sizes=dict(task.sizes),
        kind=task.kind,
        winner=winner,
        failed=failed,
        looks=_looks(task, run),
        retrieved=shown_from(_retrieved(jobs, run)),
        examination=examined,
        leaked_test_ids=sorted(examined.leaked.get("test", ())) if examined and not examined.dropped else [],
        commands=[command],
        versions=versions(),
        hashes=_hashes(materials, jobs, run),
        environment=environment() | {"precision": recipe.finetune.plan.precision},
        notes=[*materials.notes, *ended.notes, *_notes(jobs, run)],
    )


def adapting_jobs(name: str, jobs: Entries) -> list[Job]:
    """Return the jobs that made the contestant's model of the untouched one, or of nothing, in their order."""
    found: list[Job] = []
    job = jobs.models.get(name)
    while job is not None and job is not jobs.base:
        if job.work.trains == "encoder":
            found = [*(need for name, need in job.needs.items() if name != "model"), job, *found]
        job = job.needs.get("model")
    return found


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
    """(step, mean dev score over seeds in points); every seed looks at the same steps."""
    looks = [_result(job, run)["looks"] for job in tuned]
    return [(float(at[0][0]), 100 * float(np.mean([score for _, score in at]))) for at in zip(*looks, strict=True)]


def _losses(measured: Mapping[str, Job], jobs: Entries, run: Path) -> dict[str, tuple[float, float]]:
    """Return the contestants that adapted the untouched model -> (its loss, theirs)."""
    losses = {name: _result(job, run)["loss"] for name, job in measured.items()}
    before = losses.get("untouched")
    adapted = {name: loss for name, loss in losses.items() if adapting_jobs(name, jobs)}
    return {name: (before, loss) for name, loss in adapted.items() if before is not None}


def _has_head(jobs: Entries, run: Path) -> bool:
    """Return True if the untouched model predicts words; if not, its loss does not say what adapting forgot."""
    job = jobs.general_losses.get("untouched")
    return job is None or bool(_result(job, run)["head"])


def _pretraining(jobs: Entries, run: Path) -> dict[str, Cost]:
    """Return the contestants that start from a model that was pretrained here -> what that took, once for all."""
    if jobs.base is None:
        return {}
    cost = spent(jobs.base.directory(run))
    return {name: cost for name in jobs.models if name not in jobs.fresh}


def _given(name: str, ended: Ended, run: Path, failed: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings, steps, seeds and looks of a contestant, for the table that shows equal chances."""
    jobs = ended.entries
    if name not in jobs.models:
        kind = jobs.materials.task.kind
        if kind == "tokens":
            return {"fine-tuning": "each word's most frequent tag in train", "looks at the test set": 1}
        tried = ", ".join(f"{strength:g}" for strength in jobs.recipe.tfidf.tried(kind))
        name = "alpha" if kind == "score" else "C"
        return {"fine-tuning": f"{name} of {tried}, the best on dev", "looks at the test set": 1}
    adapting = [f"{job.label}: {_extent(_result(job, run))}" for job in adapting_jobs(name, jobs)]
    given: dict[str, Any] = {
        "adapting": ", then ".join(adapting) or "none",
        "settings tried": len(jobs.recipe.settings()),
    }
    if name in failed:
        return given | {"fine-tuning": f"failed: {failed[name]}"}
    if name not in ended.tuned:
        return given | {"fine-tuning": "left the race on dev", "looks at the test set, a seed": 0}
    tuned = [_result(job, run) for job in ended.tuned[name]]
    [setting] = [candidate.setting for candidate in ended.found.finalists if candidate.contestant == name]
    plan = setting.recipe.plan
    return given | {
        "fine-tuning": f"{tuned[0]['steps']:,} steps of {plan.batch} examples, peak rate {plan.rate:g}",
        "seeds": len(tuned),
        "looks at dev, a seed": len(tuned[0]["looks"]),
        "looks at the test set, a seed": 1,
    }


def _retrieved(jobs: Entries, run: Path) -> list[dict[str, Any]]:
    """Return a few training texts with the documents that they retrieved; empty if no contestant retrieves."""
    retrieved = [job.needs["retrieved"] for job in jobs.models.values() if job and "retrieved" in job.needs]
    shown: list[dict[str, Any]] = files.read_json(retrieved[0].directory(run) / work.SHOWN) if retrieved else []
    return shown


def _extent(result: Mapping[str, Any]) -> str:
    return f"{result['steps']:,} steps" if "steps" in result else f"{result['documents']:,} documents"


def _looks(task: Prepared, run: Path) -> Looks:
    """Return how often the labels of the test set were opened: here, and by earlier races on this machine."""
    by = [look["by"] for look in task.looks()]
    # as it was when this race first ended: what others look at later is not earlier
    looks, runs = decided(
        run, f"earlier-looks-{task.hashes['test'][:12]}", lambda: [task.earlier_looks(), task.earlier_runs()]
    )
    return Looks(len(by), runs, looks, by)


def _hashes(materials: Materials, jobs: Entries, run: Path) -> dict[str, str]:
    corpora = {"general": materials.general, "domain": materials.domain, "held-out": materials.heldout}
    corpora |= {"general, held-out": materials.general_heldout, "task texts": materials.task_text}
    named = {f"corpus, {name}": corpus.hash for name, corpus in corpora.items() if corpus is not None}
    named |= {f"task, {name}": value for name, value in materials.task.hashes.items()}
    models = {f"model, {name}": job for name, job in jobs.models.items() if job is not None}
    return named | {name: _result(job, run)["checkpoint"] for name, job in models.items()}


def _notes(jobs: Entries, run: Path) -> list[str]:
    if not _has_head(jobs, run):
        return [f"The untouched model has {NO_HEAD}. So what adapting forgot of general text is not known."]
    if jobs.base is None:
        return []
    cost: Cost = spent(jobs.base.directory(run))
    without = [name for name in jobs.models if name in jobs.fresh]
    less = f", though {listed(without)} did without it" if without else ""
    return [
        f"The untouched model was pretrained here: {cost.tokens:,} tokens, {cost.flops:.3g} FLOP, "
        f"{cost.seconds:.0f} s. It counts for no contestant{less}."
    ]


def _result(job: Job, run: Path) -> Mapping[str, Any]:
    result: Mapping[str, Any] = files.read_json(job.directory(run) / RESULT)
    return result


@dataclass(frozen=True)
class Curve:
    """One run's losses: term -> (step, loss) points. Empty where the run's files have none."""

    name: str
    train: Mapping[str, Points]
    dev: Mapping[str, Points]


def both_sides(curves: Sequence[Curve]) -> dict[str, dict[str, Points]]:
    """Term -> "name, train" or "name, dev" -> points, in the order of TERMS; without the terms that no curve has."""
    found: dict[str, dict[str, Points]] = {}
    for term in TERMS:
        for curve in curves:
            for side, terms in (("train", curve.train), ("dev", curve.dev)):
                if term in terms:
                    found.setdefault(term, {})[f"{curve.name}, {side}"] = terms[term]
    return found


def read_curve(name: str, model: str) -> Curve | None:
    """Return the curve of the run whose checkpoint `model` is; None if no run made it, or none with TERMS.

    The losses on train are those of curve.json if it exists, else the means of CURVE_POINTS stretches of log.jsonl.
    """
    run = Path(model).parent
    train: dict[str, Points] = {}
    dev: dict[str, Points] = {}
    if Path(model).name == CHECKPOINT and (path := run / CURVE).is_file():
        entries = files.read_json(path)
        train, dev = _points(entries, "train"), _points(entries, "dev")
    elif Path(model).name == CHECKPOINT and (run / LOG).is_file():
        train = _logged(read_log(run))
    return Curve(name, train, dev) if train or dev else None


def _points(entries: Any, side: str) -> dict[str, Points]:
    found: dict[str, Points] = {}
    for entry in entries:
        for term in TERMS:
            if (loss := entry.get(side, {}).get(term)) is not None:
                found.setdefault(term, []).append((float(entry["step"]), float(loss)))
    return found


def _logged(log: list[dict[str, Any]]) -> dict[str, Points]:
    found: dict[str, Points] = {}
    for term in TERMS:
        losses = [(line["step"], line[f"loss.{term}"]) for line in log if f"loss.{term}" in line]
        if losses:
            stretches = np.array_split(np.array(losses, float), min(CURVE_POINTS, len(losses)))
            found[term] = [(float(part[-1, 0]), float(part[:, 1].mean())) for part in stretches]
    return found
