"""race, evaluate, adapt, doctor, predict, ship and report, as on the command line; `push` is shipping/hub.py.

An option `--max-tokens 64` is the keyword `max_tokens=64`, a setting `finetune.plan.rate=3e-5` is
`finetune__plan__rate=3e-5` or `finetune={"plan": {"rate": 3e-5}}`. Where the command line takes a file, these take a
table in memory, a list of rows or a dataset too (data/as_files.py). A bar shows progress on a terminal and in a
notebook, and lines on standard error anywhere else; `progress=False` silences both.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from acclimate.api.study import Study, study_in
from acclimate.cli.options import HUB, LABELLED
from acclimate.cli.settings import schema, stand_in_of
from acclimate.core.names import shown as quoted
from acclimate.core.settings import (
    SEEDS,
    assignments_of,
    did_you_mean,
    from_mapping,
    from_toml,
    meant_setting,
    nested,
)
from acclimate.data.as_files import HubChoice, dicts_of, is_table, labelled_files, raw_text, rows_file
from acclimate.data.inputs import Leaks, Raw
from acclimate.jobs.where import Where, current_workers, working
from acclimate.tasks.labelled import LabelledFiles
from acclimate.tasks.labels import Stated

if TYPE_CHECKING:
    from acclimate.core.types import Checkpoint, Watch
    from acclimate.data.examination import Examination
    from acclimate.data.published import CatalogueCounts
    from acclimate.data.sources import Inputs
    from acclimate.methods import Method
    from acclimate.races.recipe import RaceRecipe
    from acclimate.shipping.predict import Prediction
    from acclimate.shipping.ship import Shipped
    from acclimate.shipping.writers import Predicted

PLAIN: dict[str, tuple[type, str]] = {  # annotation -> what a value has to be
    "str": (str, "a text"),
    "bool": (bool, "True or False"),
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
}
COMMAND = r"acclimate [a-z](?:(?!\. |[;`]).)*"
OPTION = re.compile(  # outside of commands, quoted values and paths
    rf"""{COMMAND}|(?<![\w'"/.-])--(?P<option>[a-z]+(?:-[a-z]+)*)(?:(?<=--kind) (?P<kind>[a-z]+))?"""
)
EXAMPLES = {"budget": ', such as "20min"'}
EXAMPLES |= dict.fromkeys(("text", "label", "pair", "group", "id"), ": the name of a column")
Separated = Literal["line", "blank"]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class KeywordError(TypeError):
    """A keyword is none of the verb, or has a value of another type than it takes."""


def _shorten_errors(verb: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Return the verb, whose errors that a user can mend name keywords in place of options, and lose the traceback of
    what lies within it.

    They are those that the command line prints in one line, and those of keywords. With
    ACCLIMATE_TRACEBACK=1 every error keeps it.
    """
    keywords = inspect.signature(verb).parameters

    @functools.wraps(verb)
    def run(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        from acclimate.core.files import HeldError

        try:
            for name, value in named.items():
                if name in keywords and (description := _wanted(str(keywords[name].annotation), value)):
                    given_value = " ".join(quoted(value).split())
                    raise KeywordError(
                        f"{verb.__name__}(): {name}={given_value} has to be {description}{EXAMPLES.get(name, '')}"
                    )
            return verb(*arguments, **named)
        except (ValueError, KeywordError, OSError, HeldError, ImportError) as error:
            error.args = tuple(
                _name_keywords(argument, keywords) if isinstance(argument, str) else argument for argument in error.args
            )
            if isinstance(error, ImportError):
                error.msg = _name_keywords(str(error.msg), keywords)
            if os.environ.get("ACCLIMATE_TRACEBACK"):
                raise
            raise error.with_traceback(None) from None

    return run


def _wanted(annotation: str, value: Any) -> str:
    """Return what a keyword of this annotation has to be; "" if the value is that, or if the annotation is another."""
    plain, _, none = annotation.partition(" | ")
    if plain not in PLAIN or none not in ("", "None") or (none and value is None):
        return ""
    types, description = PLAIN[plain]
    right = isinstance(value, types) and (plain == "bool" or not isinstance(value, bool))
    return "" if right else description


def _name_keywords(message: str, keywords: Collection[str]) -> str:
    """Return the message with the keyword of the verb for each of its options: `max_tokens` for `--max-tokens`. What a
    message says of Python already stands in place of what it says of the command line; whole commands stay.
    """
    message = re.sub(r"(?:--[a-z-]+ [^ ()]+ or )*--[a-z-]+(?: [^ ()]+)? \(in Python ([^()]+)\)", r"\1", message)

    def keyword(match: re.Match[str]) -> str:
        name = (match["option"] or "").replace("-", "_")
        if name not in keywords:
            return match[0]
        return f'{name}="{match["kind"]}"' if match["kind"] else name

    return OPTION.sub(keyword, message)


@_shorten_errors
def race(
    task: Any,
    *,
    dev: Any = None,
    test: Any = None,
    text: str = "text",
    pair: str | None = None,
    label: str = "label",
    group: str | None = None,
    id: str | None = None,
    kind: Stated = "auto",
    separator: str = "",
    fold_labels: bool = False,
    repair: bool = False,
    metric: str = "",
    max_tokens: int = 256,
    split_seed: int = 0,
    config: str = "",
    split: str = "",
    revision: str = "",
    corpus: Any = None,
    general: Any = None,
    separated: Separated = "line",
    model: str | PathLike[str] | None = None,
    checkpoints: Mapping[str, str | PathLike[str]] | None = None,
    leaks: Leaks = "keep",
    budget: str | None = None,
    probe_only: bool = False,
    labels_per_class: int | None = None,
    rows: int = 0,
    data: str | Path | None = None,
    folds: int | None = None,
    learning_curve: bool | Mapping[str, Any] = False,
    out: str | Path = "runs/race",
    dry_run: bool = False,
    workers: int = 1,
    cluster: str = "",
    threads: int = 0,
    gpu_share: float = 0.0,
    track: Sequence[str] = (),
    contestants: Sequence[str | Method] | None = None,
    recipe: str | Path | RaceRecipe | None = None,
    progress: bool = True,
    watch: Watch | None = None,
    **settings: Any,
) -> Study:
    """Find out which way of adapting a model to a task gives the best model, by how much, and at what cost.

    task         a labelled file; a pandas, polars or Arrow table; a list of dicts; a `datasets.Dataset` or
                 `DatasetDict`, or a folder that one was saved to; a dataset of the hub, as "owner/name"; several splits
                 of these as {"train": ..., "dev": ..., "test": ...}; "docstrings" or "sections", embedded tasks
    dev, test    the same, or the name of a split; where one is missing, its rows are split off
    text, pair, label, group, id   names of columns
    kind, separator, fold_labels, repair, metric, max_tokens, split_seed   as of `tasks.labelled.LabelledFiles`, which
                 calls the last one `seed`
    config, split, revision   of a dataset of the hub; split: to train on
    corpus       raw text of the domain: a file, a folder, texts, or what `task` takes
    general      general text, from which methods retrieve, and to pretrain on if `model` is "scratch"
    separated    what ends a document in .txt files
    model        directory or hub id to start from; None: the encoder that comes with acclimate; "scratch": a small one
                 is pretrained on `general` first
    checkpoints  name -> encoder to add as a contestant: a directory, hub id or Checkpoint
    leaks        labelled rows that contain a test text: "keep" them and score both ways, or "drop" them
    budget       such as "20min", "3PFLOP" or "5usd@2.50/h"; None: "1h" where a budget is supported;
                 "none": no limit
    probe_only   adapt and probe, and fine-tune nothing; a race without it in the same `out` goes on from there
    rows         number of training rows to sample, every class among them; 0: all
    labels_per_class   of the embedded tasks, 32; 0: all
    data         the folder of a benchmark; then `task` names one of its datasets, such as "SciERC"
    folds        score by cross-validation with this number of folds
    learning_curve   then say what adapting is worth in labels; a mapping has settings of it
    out          directory of the run; the same call again goes on there
    dry_run      train nothing, and return what is still to do and what it costs: print it
    workers, cluster, threads, gpu_share   where the jobs run
    track        names of trackers, such as "tensorboard"
    contestants  names such as "TAPT", methods of yours (methods.Method), or "file.py::NAME" of one; None: TAPT, DAPT
                 with a corpus, frozen, TF-IDF + encoder and TF-IDF; "all": every one whose texts are given
    recipe       a TOML file with settings, or a RaceRecipe
    progress     False: show none
    watch        is called with the progress of every stage too
    settings     of the race: `acclimate settings race` lists them

    Returns the study: `study.verdict` is the sentence on top of its page, `study.table` its table. Raises ValueError,
    before anything is trained, for what is wrong with the inputs and settings; an empty directory is then left empty.

    >>> study = acclimate.race(frame, text="abstract", label="topic", seeds=5, finetune__epochs=10)
    >>> print(study)
    """
    arguments = dict(locals())
    from acclimate.data.examination import grave
    from acclimate.jobs.job import check_format
    from acclimate.jobs.lock import allow_redone, check_results, write_lock
    from acclimate.jobs.refused import emptied_if_refused
    from acclimate.models.loading import start_of
    from acclimate.races import race as races
    from acclimate.races.budget import budget_or_usual
    from acclimate.races.recipe import LearningCurveRecipe, refuse_unused
    from acclimate.races.report import PAGE, TEXT

    overrides = dict(settings)
    if folds is not None:
        overrides["folds"] = folds
    if isinstance(learning_curve, Mapping):
        overrides["learning_curve"] = learning_curve
    start = start_of(None if model is None else _model("race", "model", model))
    chosen = _race_recipe(contestants, recipe, start, overrides)
    limit, notes = budget_or_usual(budget, chosen, probe_only=probe_only)
    curves = learning_curve is not False
    usual = replace(chosen, learning_curve=LearningCurveRecipe())
    refuse_unused(chosen, usual, curves="" if curves else "learning_curve=True")
    place = Path(out)
    limits: dict[str, Any] = {"budget": limit, "probe_only": probe_only}
    command = _call("race", race, arguments)
    where = Where(workers, cluster, threads, gpu_share)
    where.check()
    with _watched(progress, watch, track, place, command, several=where != Where()) as outlet:
        inputs = _inputs(arguments, start, place, outlet, chosen)
        _tell(outlet, "budget", *notes)
        if dry_run:
            plan = races.dry_run_text
            if curves:
                from acclimate.studies.learning_curve import dry_run_text as plan
            return Study(place, plan(inputs, chosen, **limits))
        check_format(place)
        check_results(place)
        with races.hold_first(place), emptied_if_refused(place), working(where):
            allow_redone(place)
            materials = races.materials_for(inputs, chosen, budget=limit)
            _tell(outlet, "doctor", *grave(materials.examination))
            if curves:
                from acclimate.studies import learning_curve as follows

                follows.check(chosen, materials, probe_only=probe_only)
            report = races.run_and_write(chosen, materials, place, **limits, command=command, watch=outlet)
            followed = follows.follow(chosen, materials, place, **limits, watch=outlet).text if curves else ""
        write_lock(place, command, chosen)
        _tell(outlet, "report", str(place / PAGE))
    return Study(place, (place / TEXT).read_text(encoding="utf-8"), report, followed)


@_shorten_errors
def evaluate(
    model: Any = None,
    task: Any = None,
    *,
    dev: Any = None,
    test: Any = None,
    text: str = "text",
    pair: str | None = None,
    label: str = "label",
    group: str | None = None,
    id: str | None = None,
    kind: Stated = "auto",
    separator: str = "",
    fold_labels: bool = False,
    repair: bool = False,
    metric: str = "",
    max_tokens: int = 256,
    split_seed: int = 0,
    config: str = "",
    split: str = "",
    revision: str = "",
    labels_per_class: int | None = None,
    rows: int = 0,
    data: str | Path | None = None,
    out: str | Path = "runs/evaluate",
    dry_run: bool = False,
    workers: int = 1,
    cluster: str = "",
    threads: int = 0,
    gpu_share: float = 0.0,
    track: Sequence[str] = (),
    recipe: str | Path | RaceRecipe | None = None,
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
        raise TypeError("evaluate() needs a task: a labelled file, a table, a list of rows or a dataset")
    arguments = {name: value for name, value in locals().items() if name not in ("settings", "EMBEDDED")}
    if refused := schema()["classes"]["Evaluation"]["refused"].keys() & settings.keys():
        name = min(refused)
        raise ValueError(f"evaluate(): {name}: {schema()['classes']['Evaluation']['refused'][name]}. Leave it out")
    arguments |= {"model": EMBEDDED if model is None else _model("evaluate", "model", model), "budget": "none"}
    return race(**arguments, contestants=(), **settings)


@_shorten_errors
def doctor(
    task: Any,
    *,
    dev: Any = None,
    test: Any = None,
    text: str = "text",
    pair: str | None = None,
    label: str = "label",
    group: str | None = None,
    id: str | None = None,
    kind: Stated = "auto",
    separator: str = "",
    fold_labels: bool = False,
    repair: bool = False,
    metric: str = "",
    max_tokens: int = 256,
    split_seed: int = 0,
    config: str = "",
    split: str = "",
    revision: str = "",
    corpus: Any = None,
    general: Any = None,
    separated: Separated = "line",
    model: str | PathLike[str] | None = None,
    seeds: int = SEEDS,
    contestants: int = 4,
    run: str | PathLike[str] | Study | None = None,
    data: str | Path | None = None,
    progress: bool = True,
    watch: Watch | None = None,
) -> Examination | CatalogueCounts:
    """Check labelled data, corpora and model, and estimate what a race could detect and how long it takes.

    model                the encoder whose tokens are counted; None: the one that comes with acclimate
    seeds, contestants   of the race to come
    run                  a finished race on this task, whose scores' spread counts instead of a guess
    data                 folder of a benchmark, which `task` names: its splits are counted beside those of its paper
    others               as of `race`

    Changes nothing. Returns the examination: `print(found.as_text())`; `found.errors` are what has to be mended first.
    With `data`, returns the counts.

    >>> found = acclimate.doctor(frame, text="abstract", label="topic", corpus="abstracts")
    """
    arguments = dict(locals())
    from acclimate.data.inputs import examined
    from acclimate.data.published import count_catalogue
    from acclimate.models.loading import EMBEDDED
    from acclimate.races.report import spread_of
    from acclimate.tasks.labelled import read_files

    start = EMBEDDED if model is None else _model("doctor", "model", model)
    with _watched(progress, watch, (), Path(), "") as outlet:
        if data is not None:
            return count_catalogue(str(task), Path(data), watch=outlet)
        labelled, raw = read_files(_labelled(arguments)), _raw(arguments)
        spread = None if run is None else spread_of(_directory(run), labelled)
        planned: dict[str, Any] = {"seeds": seeds, "comparisons": contestants, "spread": spread}
        planned |= {"finetune": stand_in_of("finetune")}
        return examined(labelled, raw, model=start, **planned, watch=outlet)


@_shorten_errors
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
    from acclimate.cli.checks import MODELS, RAW_TEXT, check_method
    from acclimate.cli.method import NAMES, adapted
    from acclimate.core import files
    from acclimate.models.loading import EMBEDDED

    if method not in NAMES:
        raise ValueError(f"no method is called '{method}'{did_you_mean(method, NAMES, '')}")
    held = {name: raw_text(settings[name]) for name in RAW_TEXT if name in settings}
    values = nested({**settings, **held})
    values |= {name: _model("adapt", name, values[name]) for name in MODELS if name in values}
    _check_names("adapt", adapt, method, values)
    check_method({"method": method, "assignments": assignments_of(values), "recipe": _path(recipe)})
    from acclimate.methods import METHODS

    method_recipe = _stated(METHODS[method].recipe(), values, recipe, "adapt()")
    if "model" in schema()["names"][method]["needs"] and not method_recipe.model:
        method_recipe = replace(method_recipe, model=EMBEDDED)
    place = Path(out)
    with _watched(progress, watch, track, place, f"acclimate.adapt({method!r}, ...)") as outlet, files.hold(place):
        return adapted(method, method_recipe, place, separated=separated, watch=outlet)


@_shorten_errors
def predict(
    model: str | PathLike[str] | Study,
    file: Any,
    *,
    out: str | Path | None = None,
    text: str | None = None,
    pair: str | None = None,
    id: str | None = None,
    keep: Sequence[str] = (),
    format: str = "",
    split: str = "",
    skip_bad: bool = False,
    contestant: str = "",
    progress: bool = True,
) -> list[Prediction] | Predicted:
    """Predict the labels of new texts, with probabilities.

    model           a shipped folder, a race (its Study or directory), its `baseline`, a checkpoint or a hub id
    file            a file with the columns that the race had, a table in memory, a list of texts or of dicts, or a
                    dataset of the hub
    out             file to write; None: the predictions are returned, in the order of the rows
    text, pair, id  columns, if not those of the race
    split           of a dataset with several
    contestant      of a race, whose model to take in place of the model to use: the best encoder or the baseline
    keep, format, skip_bad   where `out` is a file: columns to copy to it, the format of `file` if its ending does not
                             say it, and whether to leave out rows that cannot be read

    >>> acclimate.predict("runs/race", ["a new text"])[0].label
    """
    from acclimate.shipping.predict import predict as make
    from acclimate.shipping.predict import predict_file

    columns = {"text": text, "pair": pair, "id": id}
    if isinstance(file, str) and " " in file and not Path(file).exists():
        raise ValueError(f"{quoted(file)} is no file. Give texts in a list: predict(model, [{quoted(file)}])")
    if isinstance(file, str | Path):
        file = rows_file(file, HubChoice(split=split))
    elif split:
        raise TypeError("predict(): split is for a dataset that is named, as a folder or an id of the hub")
    rows = [*dicts_of(file)] if is_table(file) else file.tolist() if hasattr(file, "tolist") else file
    with _watched(progress, None, (), Path(), "") as watch:
        directory = model.path if isinstance(model, Study) else model
        if out is None:
            if unused := [
                name for name, value in (("keep", keep), ("format", format), ("skip_bad", skip_bad)) if value
            ]:
                raise TypeError(
                    f"predict(): {unused[0]} is for predictions that go to a file. Add out=, or leave it out"
                )
            return make(directory, rows, **columns, contestant=contestant, watch=watch)
        if not isinstance(rows, str | Path):
            raise TypeError(
                "predict(): texts in memory cannot be written with out=. Write them to a file first, or leave `out` out"
            )
        options: dict[str, Any] = {**columns, "keep": keep, "format": format, "skip_bad": skip_bad}
        options["contestant"] = contestant
        return predict_file(directory, rows, out, **options, watch=watch)


@_shorten_errors
def ship(
    run: str | PathLike[str] | Study,
    to: str | Path,
    *,
    onnx: bool = False,
    space: bool = False,
    license: str = "",
    language: str | Sequence[str] = (),
    contestant: str = "",
    push: str | None = None,
    progress: bool = True,
) -> Shipped:
    """Make the model of a race ready for use: checked against its scores, with a model card, in the directory `to`.

    run       directory of a finished race, or its Study, or the `baseline` in it
    contestant   whose model to ship in place of the model to use: the best encoder or the baseline
    onnx      also write ONNX copies in 32 and 8 bits, and measure their agreement and speed
    space     also write a Gradio app to try the model
    license, language   for the card: "apache-2.0"; "en", or several such codes
    push      also upload it to this hub id

    >>> acclimate.ship("runs/race", "shipped", license="apache-2.0").card
    """
    from acclimate.shipping.hub import check_repository
    from acclimate.shipping.hub import push as upload
    from acclimate.shipping.ship import ship as make

    if push is not None:
        check_repository(push)
    with _watched(progress, None, (), Path(), "") as watch:
        codes = [language] if isinstance(language, str) else language
        card: dict[str, Any] = {"license": license, "language": codes}
        shipment = make(_directory(run), to, contestant=contestant, onnx=onnx, space=space, **card, watch=watch)
    if push is not None:
        upload(to, push)
    return shipment


@_shorten_errors
def report(run: str | Path) -> Study:
    """Write page and tables of a finished race or study again, and return it.

    >>> acclimate.report("runs/race").verdict
    """
    from acclimate.cli.checks import check_ended
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
) -> RaceRecipe:
    """Return the recipe of a race: the usual or the given one, with settings and contestants on top."""
    listed = [contestants] if isinstance(contestants, str) else contestants
    ours = listed is None or all(isinstance(contestant, str) and "::" not in contestant for contestant in listed)
    values = nested(keywords)
    if ours:
        _check_names("race", race, "race", values)
    from acclimate.methods import Method
    from acclimate.methods.method import load_method
    from acclimate.races.race import recipe_for
    from acclimate.races.recipe import RaceRecipe, heeded, refuse_unused, with_methods

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
        race_recipe: RaceRecipe = _stated(base, values, None, "race()")
    else:
        base = recipe_for(start, methods)
        race_recipe = heeded(lambda base: _stated(base, values, recipe, "race()"), base)
    refuse_unused(race_recipe, base, pretrains="" if start is None else "model='scratch'")
    return race_recipe


def _check_names(verb: str, function: Callable[..., Any], recipe: str, values: Mapping[str, Any]) -> None:
    """Raises KeywordError for a keyword that is neither an option nor a setting, and ValueError for other faults of
    settings, before anything heavy is imported. recipe: its name in `acclimate settings`.
    """
    stand_in = stand_in_of(recipe)
    options = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind != parameter.VAR_KEYWORD
    ]
    for name in values:
        if not hasattr(stand_in, name) and name not in getattr(type(stand_in), "refused", {}):
            raise KeywordError(
                f"{verb}() has no option and no setting '{name}'{meant_setting(type(stand_in), name, more=options)}"
            )
    from_mapping(type(stand_in), values, where=f"{verb}()", base=stand_in)


def _stated(base: Any, values: Mapping[str, Any], recipe: str | Path | None, where: str) -> Any:
    """Return the recipe with the settings of a TOML file, then those of `values`."""
    read = base if recipe is None else from_toml(type(base), Path(recipe), base=base)
    return from_mapping(type(read), values, where=where, base=read)


def _tell(watch: Watch, stage: str, *notes: str) -> None:
    from acclimate.core.types import Progress

    for note in notes:
        watch(Progress(stage, 0, 0, "rows", {"note": note}))


def _inputs(arguments: Mapping[str, Any], start: str | None, out: Path, watch: Watch, recipe: RaceRecipe) -> Inputs:
    """Return what a race of this recipe runs on. arguments: the arguments of `race`"""
    from acclimate.cli.verb import EMBEDDED_TASKS, check_models, check_ready
    from acclimate.data.checkpoints import resolve_checkpoints
    from acclimate.data.sources import Inputs
    from acclimate.models.loading import UNSTATED

    check_models([start])
    checkpoints = resolve_checkpoints(arguments["checkpoints"] or {}, start, reserved_names=recipe.reserved_names)
    _tell(watch, "model", *([UNSTATED] if arguments["model"] is None else []))
    check_ready(arguments)
    task, data = arguments["task"], arguments["data"]
    if data is not None or (isinstance(task, str) and task in EMBEDDED_TASKS):
        labelled = _stated_files(arguments, Path(task))
    else:
        labelled = _labelled(arguments)
    return Inputs(
        out,
        task=labelled,
        raw=_raw(arguments),
        models=() if start is None else (start,),
        checkpoints=checkpoints,
        data=_path(data),
        leaks=arguments.get("leaks", "keep"),
        rows=arguments["rows"],
        labels_per_class=arguments["labels_per_class"],
        watch=watch,
    )


def _stated_files(arguments: Mapping[str, Any], train: Path) -> LabelledFiles:
    names = [name for name in LABELLED if name not in ("dev", "test", "split_seed")]
    splits: dict[str, Any] = {
        name: _path(arguments[name]) for name in ("dev", "test") if isinstance(arguments[name], str | Path)
    }
    return LabelledFiles(
        train=train, seed=arguments["split_seed"], **splits, **{name: arguments[name] for name in names}
    )


def _labelled(arguments: Mapping[str, Any]) -> LabelledFiles:
    """Return the labelled files that the arguments of a verb become, after the checks that need no reading of all."""
    from acclimate.tasks.labelled import check_labelled_files

    labelled = replace(_stated_files(arguments, Path()), dev=None, test=None)
    choice = HubChoice(**{name: arguments[name] for name in HUB})
    files = labelled_files(arguments["task"], labelled, dev=arguments["dev"], test=arguments["test"], choice=choice)
    check_labelled_files(files)
    return files


def _raw(arguments: Mapping[str, Any]) -> Raw:
    texts = {name: arguments.get(name) for name in ("corpus", "general")}
    places = {name: None if held is None else raw_text(held, column=arguments["text"]) for name, held in texts.items()}
    return Raw(places["corpus"], places["general"], arguments.get("separated", "line"))


def _model(verb: str, keyword: str, model: Any) -> str:
    """Return the directory or hub id as text. Raises KeywordError for anything else."""
    if isinstance(model, str | PathLike):
        return str(os.fspath(model))
    raise KeywordError(f"{verb}(): {keyword}={quoted(model)} has to be a directory or a hub id")


def _path(value: Any) -> Path | None:
    return None if value is None else Path(value)


def _directory(run: str | PathLike[str] | Study) -> Path:
    return run.path if isinstance(run, Study) else Path(run)


def _call(name: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    """Return the call as text, for the page: what differs from the defaults; tables and the like as `...`."""
    parts = []
    for parameter in inspect.signature(function).parameters.values():
        value = arguments[parameter.name]
        if parameter.kind == parameter.VAR_KEYWORD:
            parts += [f"{key}={setting!r}" for key, setting in value.items()]
        elif parameter.name not in ("progress", "watch") and value is not parameter.default:
            plain = os.fspath(value) if isinstance(value, PathLike) else value
            text = repr(plain) if isinstance(plain, str | int | float | bool) else "..."
            parts.append(text if parameter.kind == parameter.POSITIONAL_OR_KEYWORD else f"{parameter.name}={text}")
    return f"acclimate.{name}({', '.join(parts)})"


@contextmanager
def _watched(
    progress: bool, watch: Watch | None, track: Sequence[str], out: Path, command: str, *, several: bool = False
) -> Iterator[Watch]:
    """Within the block, progress goes to `watch`, to the screen if it is wanted, and to the trackers.

    several: True if jobs will run side by side
    """
    from rich.console import Console

    from acclimate.cli.screen import watching
    from acclimate.cli.verb import check_tracker
    from acclimate.core import ranks
    from acclimate.training.trackers import TRACKERS

    check_tracker(track)
    console = Console(soft_wrap=True)
    if not (console.is_terminal or console.is_jupyter):
        console = Console(soft_wrap=True, stderr=True)  # what a script prints is its own
    with contextlib.ExitStack() as stack:
        watches = [watch] if watch is not None else []
        if progress:
            watches.append(stack.enter_context(watching(console, several=several or current_workers() is not None)))
        for name in track if ranks.is_first() else ():
            watches.append(stack.enter_context(closing(TRACKERS[name](out.name, out, {"command": command}))))

        def listen(progress: Any) -> None:
            for listener in watches:
                listener(progress)

        yield listen
