"""What a race has before it fine-tunes: the contestants that are not fine-tuned, and the models of the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from acclimate.core.figures import metric_text
from acclimate.core.types import Progress, Watch
from acclimate.jobs.job import Job, first_line, result_of, with_needs
from acclimate.jobs.run import LackingError, do_all, done
from acclimate.methods.recipes import finetune
from acclimate.models.configuration import configuration_of
from acclimate.races.contestants import MEASURED, Entries
from acclimate.races.outcome import dev_row
from acclimate.races.recipe import ALL
from acclimate.races.work import checkpoint_of
from acclimate.reports.table import UNADAPTED, UNTOUCHED, interval_text
from acclimate.statistics.significance import interval


def fit_untuned(entries: Entries, run: Path, watch: Watch) -> tuple[Entries, dict[str, str]]:
    """Fit the contestants that are not fine-tuned, and show their scores on dev, the first of a race.

    Returns the entries, without those that failed, and of these name -> why.
    """
    task, fits = entries.materials.task, entries.untuned
    errors = do_all(fits.values(), run, watch=watch)
    lost = reasons_of({name: [job] for name, job in fits.items()}, errors)
    if lost:
        entries = without_lost(entries, lost)
    if entries.recipe.contestants in (None, (ALL,)):  # nobody asked for these
        for name in [name for name in UNADAPTED if name in lost]:
            watch(Progress(name, 0, 0, "fits", {"note": f"left out: {lost.pop(name)}"}))
    if entries.materials.fold is not None:  # a few dev rows of one fold say nothing to a reader
        return entries, lost
    gold = [example.label for example in task.examples("dev")]
    for name, job in entries.untuned.items():
        fitted = done(job, run)
        scores = [dev_row(name, seed, fitted, gold, task) for seed in (0, 1)]
        points = f"{100 * scores[0].dev:.1f}" if len(gold) < 2 else interval_text(interval(scores, task.metric))
        score = f"{points} dev {metric_text(task.metric.name)}"
        worth = "a score to beat" if fitted.get("learnt", True) else "no better than a constant answer or guesses"
        watch(Progress(name, 1, 1, "fits", {"note": f"{score}, {worth}"}))
    return entries, lost


def without_lost(entries: Entries, names: Collection[str]) -> Entries:
    """Return the entries without those of these contestants that are not fine-tuned."""
    baseline = entries.baseline if entries.baseline is None or entries.baseline.label not in names else None
    unadapted = {name: job for name, job in entries.unadapted.items() if name not in names}
    return replace(entries, baseline=baseline, unadapted=unadapted)


def make_models(entries: Entries, run: Path, watch: Watch) -> tuple[Entries, dict[str, str], list[str]]:
    """Make the models of contestants that are only probed, probe them, and measure their losses on held-out text and
    how far their embeddings moved; show what the probes score on dev.

    Returns the entries whose models are there, contestant -> why it failed, and in words what could not be measured.
    Raises the error of the untouched model.
    """
    errors = do_all(entries.prepared(), run, watch=watch)
    if entries.materials.fold is None:
        metric = metric_text(entries.materials.task.metric.name)
        for job in (job for jobs in entries.probes.values() for job in jobs):
            if (fitted := result_of(job, run)) is not None:
                score = f"{100 * fitted['dev']:.1f} dev {metric} of its probe"
                watch(Progress(job.label, 1, 1, "fits", {"note": score}))
    base = entries.models.get(UNTOUCHED)
    for error in errors.values():
        if base is not None and errors.get(base.name) is error:
            raise error
    failed = reasons_of(
        {name: [model, *entries.further.get(name, ())] for name, model in entries.models.items()}, errors
    )
    models = {name: job for name, job in entries.models.items() if name not in failed}
    measured = {name: getattr(entries, name) for name in MEASURED}
    measurements: dict[str, Any] = {
        measure: {name: jobs for name, jobs in by_model.items() if not any(job.name in errors for job in jobs)}
        for measure, by_model in measured.items()
    }
    probes = {name: jobs for name, jobs in entries.probes.items() if name not in failed}
    return replace(entries, models=models, probes=probes, **measurements), failed, missing_measurements(entries, errors)


def missing_measurements(entries: Entries, errors: Mapping[str, Exception]) -> list[str]:
    """Return a sentence for each measurement that failed. errors: name of a job -> why it failed"""
    return [
        f"Not measured: {job.label}: {first_line(errors[job.name])}."
        for measure in MEASURED
        for jobs in getattr(entries, measure).values()
        for job in jobs
        if job.name in errors and not isinstance(errors[job.name], LackingError)
    ]


def reasons_of(jobs: Mapping[str, Sequence[Job | None]], errors: Mapping[str, Exception]) -> dict[str, str]:
    """Return name -> why one of its jobs was not done: the first failure among the jobs that they need."""
    reasons = {}
    for name, models in jobs.items():
        needed = with_needs([job for job in models if job is not None])
        if lost := next((job for job in needed if job.name in errors), None):
            reasons[name] = f"{lost.label}: {first_line(errors[lost.name])}"
    return reasons


def rates_in_use(entries: Entries, run: Path) -> dict[str, str]:
    """Return contestant -> in words the peak rates that it is fine-tuned with, of those whose models are there."""
    recipes, rates = [setting.recipe for setting in entries.recipe.settings()], {}
    for name in entries.models:
        job, start = entries.model(name, entries.seeds[0]), entries.own_materials.get(name, entries.materials).model
        model = start if job is None else checkpoint_of(job.directory(run))
        assert model is not None
        if job is None or (Path(model) / "config.json").is_file():
            rates[name] = finetune.rates_text(recipes, configuration_of(model).hidden_size)
    return rates
