"""The main job: which way of adapting a model to this domain gives the best model, by how much, at what cost?

Every contestant is the same encoder, untouched or adapted, and tries the same settings of fine-tuning with the same
steps and seeds. Choices look at dev only; the test set is opened once for each contestant and seed, after everything
else.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from acclimate.core import files, ranks
from acclimate.core.door import option
from acclimate.core.figures import duration, percent
from acclimate.core.types import Label, Progress, Watch, unwatched
from acclimate.data.checkpoints import check_unchanged, notes_on
from acclimate.data.gather import COLUMNS, Inputs, Raw, gather
from acclimate.data.materials import Materials
from acclimate.jobs.deadline import TimeUpError, deadline
from acclimate.jobs.job import Job, decided, result_of
from acclimate.jobs.lock import ENCODER, FITTED, USE
from acclimate.methods import Method
from acclimate.methods.baselines import BASELINE, read_baseline, write_baseline
from acclimate.methods.recipes.finetune import check_heeded
from acclimate.methods.recipes.scratch import CONTROL
from acclimate.races.calibration import ABOUT, calibrate
from acclimate.races.compare import Against
from acclimate.races.contestants import MEASURED, Entries, enter
from acclimate.races.design import Design, Search
from acclimate.races.facts import probe_facts, with_facts
from acclimate.races.outcome import Outcome, choose, probe_row
from acclimate.races.planning.budget import Budget, clocked
from acclimate.races.planning.dry_run import DryRun, dry_run
from acclimate.races.planning.lengths import ADAPTING
from acclimate.races.recipe import ALL, RaceRecipe, contestants_of, for_model, with_methods
from acclimate.races.report import RACE
from acclimate.races.rounds import race_key
from acclimate.races.run import run
from acclimate.races.search import FineTuned
from acclimate.races.settling import check_same, check_settling
from acclimate.races.work import checkpoint_of
from acclimate.reports.table import ALONE, COMBINED, UNADAPTED, UNTOUCHED
from acclimate.tasks.metrics import reported_with
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.task import PROBED
from acclimate.training.run import CHECKPOINT

PLACES = (USE, ENCODER, FITTED)  # directories of models
FAMILY = "all adapted contestants, each with the untouched model"
FAMILY_OF_UNTUNED = "all contestants that are not fine-tuned, each with the untouched model"
FAMILY_OF_BASELINE = "all fine-tuned contestants with {}"
FAMILY_OF_PROBES = "the probes of all contestants, each with that of the untouched model"
PROBES_KINDS = f"These can: {', '.join(PROBED)}"


def recipe_for(model: str | None, methods: Mapping[str, Method] = MappingProxyType({})) -> RaceRecipe:
    """Return the recipe of a race for which none is stated.

    model: None if a small encoder is pretrained. methods: a user's methods, as `with_methods` takes them
    """
    return for_model(methods) if model else with_methods(methods, RaceRecipe())


@contextmanager
def hold_first(out: Path) -> Iterator[None]:
    """Keep other processes out of the directory, and count its time; of several ranks the first one does."""
    if not ranks.is_first():
        yield
        return
    with files.hold(out), clocked(out):
        yield


def materials_for(
    inputs: Inputs, recipe: RaceRecipe, *, budget: Budget | None = None, trains: bool = True
) -> Materials:
    """Return what the race runs on. Raises ValueError as `gather` does.

    Examining the rows and reading raw text may take as much of a budget of time as adapting: raw text that is not read
    by then is left out. A model that is pretrained here needs it in any case. Under torchrun it is always read, because
    processes that share the work have to stop together.

    trains: False for a dry run, which does not show what the race could detect
    """
    raw, checkpoints = inputs.raw, inputs.checkpoints
    racing = [*recipe.names(domain=raw.domain is not None, general=raw.general is not None), *checkpoints]
    seconds = math.inf
    timed = budget is not None and budget.unit == "seconds" and ranks.world() == 1
    if budget is not None and timed and raw.texts() and inputs.model is not None:
        seconds = ADAPTING * budget.amount
    tuned = [name for name in racing if name not in (*UNADAPTED, BASELINE)]  # those that an answer compares
    labelled, comparisons = inputs.labelled(), len(tuned or racing) * trains
    study: dict[str, Any] = {"seeds": recipe.seeds, "folds": recipe.folds, "finetune": recipe.finetune}
    try:
        with deadline(time.monotonic() + seconds, inputs.watch) as watch:
            materials = gather(replace(inputs, watch=watch), labelled, comparisons=comparisons, **study)
    except TimeUpError:
        materials = gather(replace(inputs, raw=Raw()), labelled, comparisons=comparisons, **study)
        note = (
            f"Examining the rows and reading the raw text took more than {duration(seconds)}, {percent(ADAPTING)} of "
            f"the budget, so no contestant adapts to that text. Set a larger {option('budget')}, or use less text."
        )
        inputs.watch(Progress("budget", 0, 0, "steps", {"note": note}))
        materials = replace(materials, notes=(*materials.notes, note), unread=True)
    return materials


def _reading_less(recipe: RaceRecipe, materials: Materials) -> RaceRecipe:
    """Return the recipe without the named contestants that need text which was not read. Raises ValueError if none of
    the named ones is left.
    """
    if not materials.unread or recipe.contestants in (None, (ALL,), ()):
        return recipe
    known = contestants_of(recipe.methods)
    names = tuple(
        name
        for name in recipe.contestants or ()
        if all(link not in known or known[link][1].needs == "task" for link in recipe.links(name))
    )
    if not names and not materials.checkpoints:
        raise ValueError(materials.notes[-1])
    return replace(recipe, contestants=names)


def _alone(watch: Watch) -> Watch:
    """Return the watch for a model that runs alone, which is not called untouched."""
    return lambda progress: watch(replace(progress, stage=progress.stage.replace(UNTOUCHED, ALONE)))


def dry_run_for(
    inputs: Inputs, recipe: RaceRecipe, *, budget: Budget | None = None, probe_only: bool = False
) -> DryRun:
    """Return what a race would still do in `inputs.out`, its cost, and what a budget leaves out. Writes nothing."""
    with TemporaryDirectory() as place:
        materials = materials_for(replace(inputs, out=Path(place)), recipe, budget=budget, trains=False)
        check_unchanged(materials.checkpoints, inputs.out, records=False)
        race_design = design(recipe, materials, budget=budget, probe_only=probe_only)
        check_same(recipe, inputs.out, race_key(race_design.searches[0].entries))
        return dry_run(race_design, inputs.out, watch=inputs.watch)


def run_race(
    recipe: RaceRecipe,
    materials: Materials,
    out: Path,
    *,
    command: str,
    budget: Budget | None = None,
    probe_only: bool = False,
    watch: Watch = unwatched,
) -> Outcome:
    """Do what is missing of the race in the directory `out`, and write its outcome and the model to use.

    Raises HeldError where another process works in `out`.
    """
    if recipe.contestants == () and not materials.checkpoints:
        watch = _alone(watch)
    with hold_first(out):
        for place in (out / name for name in PLACES):
            if place.exists() and not (place / ABOUT).is_file():
                raise ValueError(
                    f"{place} was not written by a race, but the race would replace it. Move it, or choose another "
                    f"{option('out')}"
                )
        check_unchanged(materials.checkpoints, out)
        race_design = design(recipe, materials, command=command, budget=budget, probe_only=probe_only)
        check_same(recipe, out, race_key(race_design.searches[0].entries))
        return run(race_design, out, watch=watch)


def design(
    recipe: RaceRecipe,
    materials: Materials,
    *,
    command: str = "",
    budget: Budget | None = None,
    probe_only: bool = False,
) -> Design:
    """Return the race as a study: a search among the contestants yields its cells, each compared with `untouched`, and
    the probe of each with that of `untouched`. By cross-validation there is a search for each fold, and then one
    training of the best contestant on the usual split, whose checkpoint is handed over.

    command: that makes the race again, for its page. probe_only: True if nothing is fine-tuned. Raises ValueError if a
    contestant cannot race, if the task cannot be probed and nothing else is asked for, or if options exclude each
    other.
    """
    task, recipe = materials.task, _reading_less(recipe, materials)
    _check_recipe(recipe, materials, probe_only=probe_only)
    if not probe_only and not recipe.folds and not recipe.adapt_seeds:
        recipe = replace(recipe, adapt_seeds=recipe.seeds)
    entered = [enter(recipe, part, fine_tunes=not probe_only) for part in materials.folds or (materials,)]
    entries = entered[0]
    rivals = 0
    if recipe.until == "settled":
        rivals = len(entries.models) - 1
        check_settling(task, rivals=rivals)
    in_rounds = not probe_only and not recipe.folds
    return Design(
        name=RACE,
        title=f"Race on {task.name}" + (f", by {recipe.folds}-fold cross-validation" if recipe.folds else ""),
        source="",
        cells=(),
        searches=tuple(Search("", task.name, part, rounds=in_rounds, budget=budget) for part in entered),
        against=(
            *(() if probe_only else against_untouched([*entries.models], task.name)),
            *(() if probe_only else against_untouched([*entries.untuned], task.name, family=FAMILY_OF_UNTUNED)),
            *(() if probe_only else against_baseline(entries, task.name)),
            *probes_against_untouched([*entries.probes], task.name),
        ),
        metrics=reported_with,
        notes=(*materials.notes, *_model_notes(entries)),
        race=recipe if recipe.folds else entries.recipe,
        examination=materials.examination,
        refitted=partial(_refitted, recipe=recipe, materials=materials) if recipe.folds else None,
        measured=probe_facts,
        completed=partial(_completed, command=command, budget=budget, margin=recipe.margin, rivals=rivals),
    )


def _check_recipe(recipe: RaceRecipe, materials: Materials, *, probe_only: bool) -> None:
    """Raise ValueError for a search by cross-validation, for settings of fine-tuning that a search task does not read,
    and if the task cannot be probed and nothing else is asked for.
    """
    kind = materials.task.kind
    if probe_only and kind not in PROBED:
        raise ValueError(f"{option('probe_only')}: a task of kind '{kind}' cannot be probed. {PROBES_KINDS}. Remove it")
    if kind == "search":
        check_heeded(recipe.finetune, [materials.task])
    if recipe.folds and len(recipe.settings()) > 1 and not probe_only:
        raise ValueError(
            f"{option('folds')} with several settings in search: {len(recipe.settings())} settings would be "
            f"compared on the few dev rows of each fold. Set one of them in finetune, or remove {option('folds')}"
        )


def _model_notes(entries: Entries) -> tuple[str, ...]:
    """Return notes on checkpoints with another tokenizer, and on contestants that do not go on with the given model."""
    checkpoints, start = entries.materials.checkpoints, entries.materials.model
    notes = notes_on(checkpoints, start)
    if start is None:
        return tuple(notes)
    return *notes, *(
        f"{name} starts from random weights, not from the given model. Its settings define its size and steps, so "
        "methods are not compared at equal size."
        for name in entries.fresh
        if name in entries.models and name != CONTROL and name not in checkpoints
    )


def _refitted(row: str, *, recipe: RaceRecipe, materials: Materials) -> Search:
    """Return the search that trains this contestant alone, and fits the baseline, on the usual split; "": none."""
    entries = enter(recipe, materials)
    models = {name: model for name, model in entries.models.items() if name == row}
    measured: dict[str, Any] = {
        name: {contestant: job for contestant, job in getattr(entries, name).items() if contestant in (row, UNTOUCHED)}
        for name in MEASURED
    }
    further = {name: jobs for name, jobs in entries.further.items() if name in models}
    alone = replace(entries, models=models, further=further, probes={}, fine_tunes=bool(row), **measured)
    return Search("", materials.task.name, alone)


def against_untouched(names: Sequence[str], task: str, *, family: str = FAMILY) -> tuple[Against, ...]:
    """Return a comparison of each contestant with the untouched model. family: as of `Against`"""
    reference = ("", UNTOUCHED, task)
    return tuple(Against(("", name, task), (reference,), UNTOUCHED, family) for name in names if name != UNTOUCHED)


def against_baseline(entries: Entries, task: str) -> tuple[Against, ...]:
    """Return a comparison of each fine-tuned contestant with the baseline, if there is one."""
    if entries.baseline is None:
        return ()
    label = entries.baseline.label
    family = FAMILY_OF_BASELINE.format(label)
    return tuple(Against(("", name, task), (("", label, task),), label, family) for name in entries.models)


def probes_against_untouched(names: Sequence[str], task: str) -> tuple[Against, ...]:
    """Return a comparison of the probe of each contestant with that of the untouched model."""
    untouched = probe_row(UNTOUCHED)
    reference = ("", untouched, task)
    rivals = [("", probe_row(name), task) for name in names if name != UNTOUCHED]
    return tuple(Against(key, (reference,), untouched, FAMILY_OF_PROBES) for key in rivals)


def _completed(
    outcome: Outcome,
    tuned: Sequence[FineTuned],
    out: Path,
    watch: Watch,
    *,
    command: str,
    budget: Budget | None,
    margin: float,
    rivals: int,
) -> Outcome:
    """Return the outcome with the facts of the race, and write its models: `out/use`, `out/encoder`, `out/baseline`.

    `choose` says which contestant to use. `encoder` is there if the best encoder on dev is another one. The
    checkpoint of an encoder is that of the seed with the best dev score. A cross-validation hands over what was trained
    on the usual split, which is the last of `tuned`. Raises ValueError if the untouched model has no score.
    """
    needed = probe_row(UNTOUCHED) if outcome.only_probed else UNTOUCHED
    if why := next((why for (_, name, _), why in outcome.failed.items() if name == needed), ""):
        raise ValueError(f"the untouched model, the reference of all comparisons, failed: {why}")
    *folds, fine_tuned = tuned
    if budget is not None:
        spent = budget.spent(out)
        if not outcome.failed:  # what follows in this directory, such as learning curves, is no cost of the race
            spent = float(decided(out, f"taken-{budget.text}-{len(fine_tuned.entries.seeds)}", partial(float, spent)))
        if spent > budget.amount:
            over = f"All work in this directory took {budget.as_text(spent)}, more than the budget of {budget.text}."
            fine_tuned = replace(fine_tuned, notes=(*fine_tuned.notes, over))
    choice = choose(outcome.results, margin)
    seeds = {
        name: seed
        for name in (choice.contestant, choice.encoder)
        if (seed := _best_seed(fine_tuned.tuned.get(name, ()), out)) is not None
    }
    baseline = fine_tuned.entries.baseline
    fitted = {name: result_of(job, out) for name, job in fine_tuned.entries.untuned.items()}
    # all of these are there, unless a training on the usual split failed or learnt nothing
    usable = {*seeds, *(name for name, result in fitted.items() if result is not None and result["learnt"])}
    simplest = baseline.label if baseline is not None and choice.contestant else ""
    use = next((name for name in (choice.contestant, simplest, choice.encoder) if name in usable), "")
    reason = choice.reason
    if folds and use != choice.contestant:
        why = f"{choice.contestant} failed, or failed to learn, on the usual split"
        reason = f"{use} is used, because {why}." if use else why
    # a cross-validation trains one encoder on the usual split
    trained = choice.contestant if folds and choice.contestant in fine_tuned.tuned else choice.encoder
    called = f"the {ALONE}" if outcome.alone and trained else trained
    place = USE if trained == use else ENCODER
    checkpoints = {name: fine_tuned.tuned[name][seed] for name, seed in seeds.items()}
    complete = with_facts(
        outcome,
        fine_tuned,
        out,
        command=command,
        use=use,
        encoder=choice.encoder,
        use_reason=reason,
        margin=margin,
        rivals=rivals,
        folds=folds,
        handed_over=_refit_sentence(called, fine_tuned, place, seeds) if folds else "",
    )
    if ranks.is_first():
        gold = () if folds or not outcome.scores else outcome.scores[0].gold
        _hand_over_models(use, trained, checkpoints, seeds, entries=fine_tuned.entries, gold=gold, out=out)
    ranks.wait()
    return complete


def _hand_over_models(
    use: str,
    encoder: str,
    checkpoints: Mapping[str, Job],
    seeds: Mapping[str, int],
    *,
    entries: Entries,
    gold: Sequence[Label],
    out: Path,
) -> None:
    """Write the models of the race, calibrated: those to use, of the best encoder, and of the baseline. Remove those of
    an earlier race in the directory.

    use, encoder        names of contestants, the best encoder's to be handed over beside the one to use
    checkpoints, seeds  contestant -> the job whose checkpoint is handed over, and its seed
    gold                labels of the test set, as of `calibrate`
    """
    task, baseline = entries.materials.task, entries.baseline
    encoders = {place: name for place, name in ((USE, use), (ENCODER, encoder)) if name in seeds}
    if encoder == use:
        encoders.pop(ENCODER, None)
    for place, name in encoders.items():
        record = {"contestant": name, "seed": seeds[name], "task": _input_of(task, out)}
        _hand_over(checkpoints[name], out / place, out, record, task=task, gold=gold)
    if use in entries.unadapted:
        encoders[USE] = use
        record = {"contestant": use, "seed": 0, "task": _input_of(task, out)}
        hand_over = _hand_over_combined if use == COMBINED else _hand_over
        hand_over(entries.unadapted[use], out / USE, out, record, task=task, gold=gold)
    fits = [] if baseline is None else [FITTED, *([USE] if use == baseline.label else [])]
    if baseline is not None:
        hand_over_baseline(baseline, task, out, places=fits, gold=gold)
    for place in {*PLACES} - {*encoders, *fits}:
        shutil.rmtree(out / place, ignore_errors=True)


def _best_seed(jobs: Sequence[Job], out: Path) -> int | None:
    """Return the place of the fine-tuning with the best dev score, the first of equals; None if all learnt nothing."""
    results = enumerate(result_of(job, out) or {} for job in jobs)
    dev = {seed: result["dev"] for seed, result in results if result.get("learnt") and math.isfinite(result["dev"])}
    return max(dev, key=lambda seed: dev[seed]) if dev else None


def _refit_sentence(trained: str, refit: FineTuned, place: str, seeds: Mapping[str, int]) -> str:
    """Return in a sentence which checkpoint a race by cross-validation hands over.

    trained: the contestant; "" if there is none. place: directory of the checkpoint. seeds: empty if it learnt nothing
    """
    if not trained:
        return ""
    if not refit.tuned:
        return refit.notes[-1]
    if not seeds:
        return f"No checkpoint of {trained} is saved, because it failed to learn on the usual split."
    sizes = refit.entries.materials.task.sizes
    return (
        f"The checkpoint in {place}/ was not scored by cross-validation. {trained} was trained again on the usual "
        f"split of the task ({sizes['train']:,} rows train, {sizes['dev']:,} dev) with {len(refit.entries.seeds)} "
        "seeds, and the best on dev was saved."
    )


def _input_of(task: Prepared, out: Path) -> dict[str, Any]:
    """Return what `acclimate predict` has to know of the task: its kind and labels, and which columns were read."""
    columns = files.read_json(out / COLUMNS) if (out / COLUMNS).exists() else {}
    paired = any(example.pair for example in task.examples("dev"))
    return {"name": task.name, "kind": task.kind, "labels": list(task.labels), "paired": paired, **columns}


def _hand_over(
    tuned: Job, place: Path, out: Path, about: Mapping[str, Any], *, task: Prepared, gold: Sequence[Label]
) -> None:
    """Copy a contestant's checkpoint, calibrated, to the directory `place`, which transformers loads."""
    source = tuned.directory(out) / CHECKPOINT
    files.check_manifest(source, way_out=f"Remove {source.parent}, and give the same command again to repeat this job")
    with files.new_directory(place) as temporary:
        # with the folders of sentence-transformers' modules
        shutil.copytree(source, temporary, ignore=shutil.ignore_patterns(files.MANIFEST), dirs_exist_ok=True)
        calibration = calibrate(temporary, task, gold, tuned.directory(out))
        files.write_json(temporary / ABOUT, {**about, **calibration})


def _hand_over_combined(
    fitted: Job, place: Path, out: Path, about: Mapping[str, Any], *, task: Prepared, gold: Sequence[Label]
) -> None:
    """Write a linear model on terms and states, calibrated, to the directory `place`, with the encoder that it
    reads.
    """
    from acclimate.races import terms_and_states  # imports PyTorch

    needed = fitted.needs.get("model")
    model = fitted.places.get("model", fitted.settings.get("model")) if needed is None else needed.directory(out)
    assert model is not None
    with files.new_directory(place) as temporary:
        terms_and_states.write(terms_and_states.read(fitted.directory(out)), temporary)
        terms_and_states.write_encoder(checkpoint_of(model), temporary)
        calibration = calibrate(temporary, task, gold, fitted.directory(out))
        files.write_json(temporary / ABOUT, {**about, **_dev_choice(fitted, task, out), **calibration})


def _dev_choice(fitted: Job, task: Prepared, out: Path) -> dict[str, Any]:
    """Return what dev chose of a linear model on terms, and its score there."""
    result = result_of(fitted, out)
    assert result is not None
    return {"setting": result["setting"], "metric": task.metric.name, "dev": result["dev"], "learnt": result["learnt"]}


def hand_over_baseline(
    fitted: Job, task: Prepared, out: Path, *, places: Sequence[str] = (FITTED,), gold: Sequence[Label] = ()
) -> None:
    """Write the fitted baseline, calibrated, to these directories of `out`, with what dev chose and its score there."""
    about = {"contestant": fitted.label, "task": _input_of(task, out), **_dev_choice(fitted, task, out)}
    for place in places:
        with files.new_directory(out / place) as temporary:
            write_baseline(read_baseline(fitted.directory(out)), temporary)
            calibration = calibrate(temporary, task, gold, fitted.directory(out))
            files.write_json(temporary / ABOUT, {**about, **calibration})
