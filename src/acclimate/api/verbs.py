"""race, evaluate, adapt, doctor and report, as on the command line.

An option `--max-tokens 64` is the keyword `max_tokens=64`, a setting `finetune.plan.rate=3e-5` is
`finetune__plan__rate=3e-5` or `finetune={"plan": {"rate": 3e-5}}`. Where the command line takes a file, these take a
table in memory, a list of rows or a dataset too (data/as_files.py). A bar shows progress on a terminal and in a
notebook, and lines on standard error anywhere else; `progress=False` silences both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acclimate.api.call import KeywordError, current_call, model_path, python_function, watched
from acclimate.api.checks import check_models
from acclimate.api.race import examine_files, order_race, plan_race, run_jobs, run_race
from acclimate.api.settings import schema, stand_in_of
from acclimate.api.study import Study, study_in
from acclimate.api.task_options import EvaluationOptions, RaceOptions, Separated, TaskOptions, split_keywords
from acclimate.core.settings import (
    SEEDS,
    assignments_of,
    did_you_mean,
    from_mapping,
    from_toml,
    meant_setting,
    nested,
)
from acclimate.data.as_files import raw_text
from acclimate.data.embedded import ABSTRACTS, is_embedded
from acclimate.jobs.where import Where

if TYPE_CHECKING:
    from acclimate.core.types import Checkpoint, Watch
    from acclimate.data.examination import Examination
    from acclimate.methods import Method
    from acclimate.races.recipe import RaceRecipe
    from acclimate.reading.published import CatalogueCounts


@python_function(RaceOptions, Where)
def race(
    task: Any,
    *,
    corpus: Any = None,
    general: Any = None,
    model: str | PathLike[str] | None = None,
    checkpoints: Mapping[str, str | PathLike[str]] | None = None,
    contestants: Sequence[str | Method] | None = None,
    budget: str | None = None,
    probe_only: bool = False,
    learning_curve: bool | Mapping[str, Any] = False,
    out: str | Path = "runs/race",
    dry_run: bool = False,
    recipe: str | Path | RaceRecipe | None = None,
    track: Sequence[str] = (),
    progress: bool = True,
    watch: Watch | None = None,
    **settings: Any,
) -> Study:
    """Find out which way of adapting a model to a task gives the best model, by how much, and at what cost.

    task         a labelled file; a pandas, polars or Arrow table; a list of dicts; a `datasets.Dataset` or
                 `DatasetDict`, or a folder that one was saved to; a dataset of the hub, as "owner/name"; several splits
                 of these as {"train": ..., "dev": ..., "test": ...}; "arxiv", which is included
    corpus       raw text of the domain: a file, a folder, texts, or what `task` takes
    general      general text, from which methods retrieve, and to pretrain on if `model` is "scratch"
    model        directory or hub id to start from; None: the encoder that comes with acclimate; "scratch": a small one
                 is pretrained on `general` first
    checkpoints  name -> encoder to add as a contestant: a directory, hub id or Checkpoint
    contestants  names such as "TAPT", methods of yours (methods.Method), or "file.py::NAME" of one; None: TAPT, DAPT
                 with a corpus, frozen, TF-IDF + encoder and TF-IDF; "all": every one whose texts are given
    budget       such as "20min", "3PFLOP" or "5usd@2.50/h"; None: "1h" where a budget is supported;
                 "none": no limit
    probe_only   adapt and probe, and fine-tune nothing; a race without it in the same `out` goes on from there
    learning_curve   then say what adapting is worth in labels; a mapping has settings of it
    out          directory of the run; the same call again continues there
    dry_run      train nothing, and return what is still to do and what it costs: print it
    recipe       a TOML file with settings, or a RaceRecipe
    track        names of trackers, such as "tensorboard"
    progress     False: show none
    watch        is called with the progress of every stage too
    settings     columns and other options of the task, such as text="abstract", label="topic", dev="dev.csv"
                 (`RaceOptions`). Where the jobs run: workers, cluster, threads, gpu_share (`Where`). The settings of
                 the race, which `acclimate settings race` lists

    Returns the study: `study.answer` is what its page has on top, `study.table` its table. Raises ValueError,
    before anything is trained, for what is wrong with the inputs and settings; an empty directory is then left empty.

    >>> study = acclimate.race(frame, text="abstract", label="topic", seeds=5, finetune__epochs=10)
    >>> print(study)
    """
    from acclimate.data.examination import grave
    from acclimate.data.gather import Inputs
    from acclimate.models.loading import UNSTATED, start_of
    from acclimate.races.planning.budget import check_budget
    from acclimate.races.recipe import LearningCurveRecipe
    from acclimate.races.report import PAGE, TEXT

    (task_options, where_options), overrides = split_keywords(settings, RaceOptions, Where)
    options, where, place = RaceOptions(**task_options), Where(**where_options), Path(out)
    overrides = {
        name: value for name, value in overrides.items() if name not in ("folds", "until") or value is not None
    }
    if isinstance(learning_curve, Mapping):
        overrides["learning_curve"] = learning_curve
    start = start_of(None if model is None else model_path("race", "model", model))
    if contestants is None or len(contestants):
        corpus = _domain(task, corpus)
    chosen, usual = _race_recipe(contestants, recipe, start, overrides)
    usual = replace(usual, learning_curve=LearningCurveRecipe())
    check_budget(budget)
    where.check()
    check_models([start])
    with watched(progress, watch, track, place, several=where != Where()) as outlet:
        inputs = Inputs(
            place,
            task=options.labelled_files(task),
            raw=options.raw_text(corpus, general, options.separated),
            models=() if start is None else (start,),
            data=None if options.data is None else Path(options.data),
            leaks=options.leaks,
            rows=options.rows,
            watch=outlet,
        )
        order = order_race(
            chosen,
            usual,
            inputs,
            command=current_call(),
            budget=budget,
            probe_only=probe_only,
            learning_curve=learning_curve is not False,
            checkpoints=checkpoints,
        )
        _tell(outlet, "model", *([UNSTATED] if model is None else []))
        _tell(outlet, "budget", *order.notes)
        with run_jobs(place, where, command=order.command, recipe=lambda: chosen, dry_run=dry_run):
            if dry_run:
                return Study(place, plan_race(order).as_text())
            end = run_race(order, examine=lambda examination: _tell(outlet, "doctor", *grave(examination)))
        _tell(outlet, "report", str(place / PAGE))
    text = (place / TEXT).read_text(encoding="utf-8")
    return Study(place, text, end.report, "" if end.curves is None else end.curves.text)


@python_function(EvaluationOptions, Where)
def evaluate(
    model: Any = None,
    task: Any = None,
    *,
    out: str | Path = "runs/evaluate",
    dry_run: bool = False,
    recipe: str | Path | RaceRecipe | None = None,
    track: Sequence[str] = (),
    progress: bool = True,
    watch: Watch | None = None,
    **settings: Any,
) -> Study:
    """Fine-tune one model on a task with several seeds, choose on dev, test once; mean score and interval.

    model   directory or hub id. If only one of `model` and `task` is given it is the task, and the model is the encoder
            that comes with acclimate
    others  as of `race`

    >>> study = acclimate.evaluate("bert-base-uncased", frame, text="abstract", label="topic", seeds=3)
    """
    from acclimate.models.loading import EMBEDDED

    if task is None:
        model, task = None, model
    if task is None:
        raise TypeError("evaluate() needs a task. Pass a labelled file, a table, a list of rows or a dataset")
    if refused := schema()["classes"]["Evaluation"]["refused"].keys() & settings.keys():
        name = min(refused)
        raise ValueError(f"evaluate(): {name}: {schema()['classes']['Evaluation']['refused'][name]}. Remove it")
    _, overrides = split_keywords(settings, EvaluationOptions, Where)
    overrides = {name: value for name, value in overrides.items() if value is not None}
    _check_names("evaluate", _options(evaluate, EvaluationOptions, Where), "evaluate", nested(overrides))
    return race(
        task,
        model=EMBEDDED if model is None else model_path("evaluate", "model", model),
        contestants=(),
        budget="none",
        out=out,
        dry_run=dry_run,
        recipe=recipe,
        track=track,
        progress=progress,
        watch=watch,
        **settings,
    )


@python_function(TaskOptions)
def doctor(
    task: Any,
    *,
    corpus: Any = None,
    general: Any = None,
    separated: Separated = "line",
    model: str | PathLike[str] | None = None,
    seeds: int = SEEDS,
    contestants: int = 4,
    run: str | PathLike[str] | None = None,
    progress: bool = True,
    watch: Watch | None = None,
    **options: Any,
) -> Examination | CatalogueCounts:
    """Check labelled data, corpora and model, and estimate what a race could detect and how long it takes.

    model                the encoder whose tokens are counted; None: the one that comes with acclimate
    seeds, contestants   of the race to come
    run                  a finished race on this task, its Study or directory: its scores' spread replaces a guess
    options              of the task, as of `race`; with data=DIR, the splits of the benchmark that `task` names are
                         counted beside those of its paper
    others               as of `race`

    Changes nothing. Returns the examination: `print(found)` shows what to act on, `found.as_text(details=True)`
    everything; `found.errors` are what has to be mended first.
    With `data`, returns the counts.

    >>> found = acclimate.doctor(frame, text="abstract", label="topic", corpus="abstracts")
    """
    from acclimate.reading.published import count_catalogue

    (known,), unknown = split_keywords(options, TaskOptions)
    if unknown:
        name = next(iter(unknown))
        near = did_you_mean(name, _options(doctor, TaskOptions), "")
        raise KeywordError(f"doctor() has no option '{name}'{near}")
    task_options = TaskOptions(**known)
    start = None if model is None else model_path("doctor", "model", model)
    with watched(progress, watch) as outlet:
        if task_options.data is not None:
            return count_catalogue(str(task), Path(task_options.data), watch=outlet)
        files = task_options.labelled_files(task)
        raw = task_options.raw_text(_domain(task, corpus), general, separated)
        planned: dict[str, Any] = {
            "seeds": seeds,
            "contestants": contestants,
            "run": None if run is None else Path(run),
        }
        return examine_files(files, raw, model=start, **planned, watch=outlet)


@python_function()
def adapt(
    method: str,
    *,
    out: str | Path = "runs/adapt",
    separated: Separated = "line",
    recipe: str | Path | None = None,
    track: Sequence[str] = (),
    progress: bool = True,
    watch: Watch | None = None,
    **settings: Any,
) -> Checkpoint:
    """Run one method on raw text or a task, and return the checkpoint.

    method    such as "mlm", "tapter" or "dga"; `acclimate adapt --help` lists them
    recipe    a TOML file with settings
    settings  of the method, such as `model` and `corpus`, which may be texts or a table: `acclimate settings mlm`
    others    as of `race`

    >>> acclimate.adapt("mlm", model="bert-base-uncased", corpus="abstracts", epochs=0, plan__steps=2500).path
    """
    from acclimate.api.checks import MODELS, RAW_TEXT, check_method
    from acclimate.api.method import NAMES, run_method
    from acclimate.core import files
    from acclimate.models.loading import EMBEDDED

    if method not in NAMES:
        raise ValueError(f"no method is named '{method}'{did_you_mean(method, NAMES, '')}")
    texts = {name: raw_text(settings[name]) for name in RAW_TEXT if name in settings}
    values = nested({**settings, **texts})
    values |= {name: model_path("adapt", name, values[name]) for name in MODELS if name in values}
    _check_names("adapt", _options(adapt), method, values)
    path = None if recipe is None else Path(recipe)
    check_method({"method": method, "assignments": assignments_of(values), "recipe": path})
    from acclimate.methods import METHODS

    method_recipe = _override(METHODS[method].recipe(), values, recipe, "adapt()")
    if "model" in schema()["names"][method]["needs"] and not method_recipe.model:
        method_recipe = replace(method_recipe, model=EMBEDDED)
    place = Path(out)
    with watched(progress, watch, track, place) as outlet, files.hold(place):
        return run_method(method, method_recipe, place, separated=separated, watch=outlet)


@python_function()
def report(run: str | PathLike[str]) -> Study:
    """Write page and tables of a finished race or study again, and return it.

    >>> acclimate.report("runs/race").answer.headline
    """
    from acclimate.api.checks import check_ended
    from acclimate.jobs.job import check_format
    from acclimate.jobs.lock import check_outcomes
    from acclimate.studies import write_again

    place = Path(run)
    check_ended({"run": place})
    check_format(place)
    check_outcomes(place)
    return study_in(place, write_again(place))


def _race_recipe(
    contestants: Sequence[str | Method] | None,
    recipe: str | Path | RaceRecipe | None,
    start: str | None,
    keywords: Mapping[str, Any],
) -> tuple[RaceRecipe, RaceRecipe]:
    """Return the recipe of a race, with settings and contestants on top of the usual or the given one, and that one."""
    listed = [contestants] if isinstance(contestants, str) else contestants
    ours = listed is None or all(isinstance(contestant, str) and "::" not in contestant for contestant in listed)
    values = nested(keywords)
    if ours:
        _check_names("race", _options(race, RaceOptions, Where), "race", values)
    from acclimate.methods import Method
    from acclimate.methods.method import load_method
    from acclimate.races.race import recipe_for
    from acclimate.races.recipe import RaceRecipe, heeded, with_methods

    methods = {contestant.name: contestant for contestant in listed or () if isinstance(contestant, Method)}
    methods |= {
        contestant: load_method(contestant)
        for contestant in listed or ()
        if isinstance(contestant, str) and "::" in contestant
    }
    if listed is not None:
        names: list[str] = []
        for contestant in listed:
            names += [one.name for one in contestant.contestants] if isinstance(contestant, Method) else [contestant]
        values["contestants"] = names
    if isinstance(recipe, RaceRecipe):
        base = with_methods(methods, recipe)
        return _override(base, values, None, "race()"), base
    base = recipe_for(start, methods)
    return heeded(lambda base: _override(base, values, recipe, "race()"), base), base


def _domain(task: Any, corpus: Any) -> Any:
    """Return the corpus, or that of the embedded dataset if `task` names it and no corpus is stated."""
    return ABSTRACTS if corpus is None and is_embedded(task) else corpus


def _options(function: Callable[..., Any], *kinds: type) -> list[str]:
    """Return the names of all options of a function. kinds: dataclasses whose fields it takes as keywords"""
    parameters = inspect.signature(function).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind != parameter.VAR_KEYWORD]
    return [*names, *(field.name for kind in kinds for field in fields(kind))]


def _check_names(function: str, options: Sequence[str], recipe: str, values: Mapping[str, Any]) -> None:
    """Raises KeywordError for a keyword that is neither an option nor a setting, and ValueError for other faults of
    settings, before anything heavy is imported. recipe: its name in `acclimate settings`.
    """
    stand_in = stand_in_of(recipe)
    for name in values:
        if not hasattr(stand_in, name) and name not in getattr(type(stand_in), "refused", {}):
            raise KeywordError(
                f"{function}() has no option and no setting '{name}'{meant_setting(type(stand_in), name, more=options)}"
            )
    from_mapping(type(stand_in), values, where=f"{function}()", base=stand_in)


def _override(base: Any, values: Mapping[str, Any], recipe: str | Path | None, where: str) -> Any:
    """Return the recipe with the settings of a TOML file, then those of `values`."""
    read = base if recipe is None else from_toml(type(base), Path(recipe), base=base)
    return from_mapping(type(read), values, where=where, base=read)


def _tell(watch: Watch, stage: str, *notes: str) -> None:
    from acclimate.core.types import Progress

    for note in notes:
        watch(Progress(stage, 0, 0, "rows", {"note": note}))
