"""The main job: which way of adapting a model to this domain gives the best model, by how much, at what cost?

Every contestant is the same encoder, untouched or adapted, and tries the same settings of fine-tuning with the same
steps and seeds. Choices look at dev only; the test set is opened once a contestant and seed, after everything else.
"""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Literal, overload

from acclimate.core import files, ranks, settings
from acclimate.core.types import Score, Watch, unwatched
from acclimate.data import materials
from acclimate.data.inputs import Leaks, Raw, gather
from acclimate.data.materials import DOCSTRINGS, Materials
from acclimate.data.published import published, unplaced
from acclimate.jobs.job import Job, check_format, decided
from acclimate.methods import Method
from acclimate.methods.method import load
from acclimate.races import fit as budgets
from acclimate.races.budget import Budget, parse_budget
from acclimate.races.compare import Outcome, best_on_dev
from acclimate.races.contestants import Entries, enter, is_baseline, texts_of
from acclimate.races.cost import costs_of
from acclimate.races.design import Allowed, Design, Inputs, Search
from acclimate.races.facts import facts_of
from acclimate.races.fit import Costs
from acclimate.races.outcome import WINNER, against_untouched, study_of, write_outcome, write_pages
from acclimate.races.recipe import RaceRecipe, for_model, with_methods
from acclimate.races.report import Study, title_of
from acclimate.races.run import plan
from acclimate.races.run import run as run_study
from acclimate.reports.table import ALONE, UNTOUCHED
from acclimate.tasks.labelled import Labelled, LabelledFiles, fewer, read_files, with_way_out
from acclimate.tasks.metrics import reported_with
from acclimate.tasks.tables import ColumnError
from acclimate.training.run import CHECKPOINT

LABELS_PER_CLASS = 32  # of the embedded default: as few as where adapting matters
Estimator = Callable[[RaceRecipe, Materials, Path], Costs]


def run_race(
    recipe: RaceRecipe,
    materials: Materials,
    run: Path,
    *,
    command: str,
    budget: Budget | None = None,
    estimator: Estimator | None = None,
    watch: Watch = unwatched,
) -> None:
    """Run what is missing of the race in the directory `run`, then write the winner's checkpoint, scores and facts
    (races/outcome.py makes tables and the page of them).

    estimator: what the stages will cost, in the budget's unit; needed where there is a budget (races/cost.py has one).
    Raises HeldError where another process works in `run`, ValueError where the budget is too small.
    """
    with files.hold(run) if ranks.is_first() else nullcontext():
        made = design(recipe, materials, budget=budget, estimator=estimator)
        outcome = run_study(made, run, watch=watch)
        [ended] = outcome.ended.values()
        scores = [score for ran in outcome.ran.values() if not ran.failed for score in ran.scores]
        best = _winner(outcome)
        if budget is not None and (taken := budget.spent(run)) > budget.amount:
            over = f"The race took {budget.as_text(taken)}: more than its budget of {budget.stated}."
            ended = replace(ended, notes=(*ended.notes, over))
        failed = {row: why for (_, row, _), why in outcome.failed.items()}
        facts = facts_of(ended, run, command, winner=best.contestant, failed=failed)
        if ranks.is_first():
            tuned = ended.tuned[best.contestant][best.seed]
            _hand_over(tuned, run, {"contestant": best.contestant, "seed": best.seed})
            write_outcome(run, scores, facts)
        ranks.agree(None)


def design(
    recipe: RaceRecipe, materials: Materials, *, budget: Budget | None = None, estimator: Estimator | None = None
) -> Design:
    """Return the race as a study: a search among the contestants yields its cells, each compared with `untouched`.

    Raises ValueError if a contestant cannot race, or if budget and search do not go together.
    """
    if budget is not None:
        budgets.with_search(recipe)
    entries, task = enter(recipe, materials), materials.task
    allowed = None
    if budget is not None:
        assert estimator is not None
        allowed = partial(_allowed, budget=budget, estimator=estimator)
    names = [*entries.models, *([entries.baseline.label] if entries.baseline else [])]
    return Design(
        name="race",
        title=title_of(task.name),
        source="",
        cells=(),
        searches=(Search("", task.name, entries, allowed=allowed),),
        against=against_untouched(names, task.name),
        metrics=reported_with,
        notes=materials.notes,
        race=recipe,
        examination=materials.examination,
    )


def _allowed(entries: Entries, run: Path, writes: bool, *, budget: Budget, estimator: Estimator) -> Allowed:
    """Return the entries cut down to the budget, as was decided when this race began.

    writes: whether a decision that is made now is kept in `run`, as a dry run does not
    """
    recipe, materials = budgets.with_search(entries.recipe), entries.materials
    key = _race_of(entries, budget)

    def decide() -> dict[str, Any]:
        costs = estimator(recipe, materials, run)
        fitted = budgets.fit(
            recipe,
            budget,
            costs,
            contestants=len(entries.models),
            texts=texts_of(recipe, materials),
            spent=budget.spent(run, searching=False),  # what was fine-tuned already is planned for again, not twice
        )
        return {
            "costs": vars(costs),
            "recipe": settings.to_mapping(fitted.recipe),
            "notes": fitted.notes,
        }

    fitted = decided(run, f"fitted-{key}", decide, writes=writes)
    cut = enter(settings.from_mapping(type(recipe), fitted["recipe"]), materials)
    costs, seeds, decision = Costs(**fitted["costs"]), cut.recipe.seeds, f"finalists-{_race_of(cut, budget)}"

    def finalists() -> int:
        return int(decided(run, decision, lambda: budgets.affordable(budget, costs, seeds, budget.spent(run))))

    return Allowed(cut, tuple(fitted["notes"]), finalists)


def _race_of(entries: Entries, budget: Budget) -> str:
    """Return the key of a decision, 12 hex digits: of recipe, budget, data, and the models with all that makes them."""
    models = {name: job.name if job else entries.materials.identity() for name, job in entries.models.items()}
    asked = [settings.to_mapping(entries.recipe), budget.stated, dict(entries.materials.task.hashes), models]
    return settings.digest(asked)[:12]


def _winner(outcome: Outcome) -> Score:
    """Return the score of the seed that is best on dev, of the encoder with the best mean on dev.

    Raises ValueError where the untouched model has no score.
    """
    for (_, name, _), why in outcome.failed.items():
        if name == UNTOUCHED:
            raise ValueError(f"the untouched model failed, with which all others are compared: {why}")
    best = best_on_dev(ran for ran in outcome.ran.values() if not is_baseline(ran.cell.row))
    assert best is not None  # the untouched model is one
    return max(best.scores, key=lambda score: score.dev)


def _hand_over(tuned: Job, run: Path, who: Mapping[str, Any]) -> None:
    """Copy the winner's checkpoint to `run/winner`, an ordinary directory that transformers loads."""
    source = tuned.directory(run) / CHECKPOINT
    with files.new_directory(run / WINNER) as temporary:
        for file in source.iterdir():
            if file.name != files.MANIFEST:
                shutil.copy(file, temporary / file.name)
        files.write_json(temporary / "race.json", dict(who))


@overload
def race(train: str | Path | LabelledFiles, *, dry_run: Literal[True], **given: Any) -> str: ...
@overload
def race(train: str | Path | LabelledFiles, *, dry_run: Literal[False] = False, **given: Any) -> Study: ...
def race(
    train: str | Path | LabelledFiles,
    *,
    contestants: Sequence[str | Method] | None = None,
    model: str | None = None,
    data: str | Path | None = None,
    leaks: Leaks = "keep",
    labels_per_class: int | None = None,
    budget: str | None = None,
    recipe: RaceRecipe | None = None,
    out: str | Path = "runs/race",
    dry_run: bool = False,
    watch: Watch = unwatched,
    **files: Any,
) -> Study | str:
    """Which way of adapting a model to these data gives the best model, by how much, at what cost?

    train        a labelled file (CSV, TSV, JSONL, Parquet, or questions in SQuAD's JSON; .gz, .zst), or all that is
                 stated of it as tasks.labelled.LabelledFiles. Or "docstrings": the embedded default, with
                 `labels_per_class` labels for each class (32; 0: all)
    files        fields of tasks.labelled.LabelledFiles: dev, test, text, label, pair, group, id, kind, metric, ...
                 (`split_seed` is its `seed`). And the raw text: corpus, of the domain; general, from which methods
                 retrieve, and to pretrain a small model on where none is given; separated
    contestants  names such as "TAPT", your methods (methods.Method), or "file.py::NAME" of one; None: all that can race
    data         the folder of a benchmark; then train names one of its datasets, such as "SciERC"
    leaks        what becomes of labelled rows that contain a test text: "keep" them and score both ways, or "drop" them
    budget       such as 20min, 3PFLOP or 5usd@2.50/h; None: the whole recipe
    out          directory of the run; the same call again goes on there
    dry_run      True: train nothing and write nothing in `out`; return as text what is still to do and what it costs
    watch        is called with the progress of every stage

    Returns what `out/report.html` shows; `out/winner` is the winner's checkpoint. Raises ValueError, before anything is
    trained, for whatever is wrong with the files and settings.
    """
    labelled, raw = stated_files(train, files)
    inputs = Inputs(
        Path(out),
        task=labelled,
        raw=raw,
        models=() if model is None else (model,),
        data=None if data is None else Path(data),
        leaks=leaks,
        labels_per_class=labels_per_class,
        watch=watch,
    )
    chosen = recipe_of(contestants, recipe, model)
    if dry_run:
        return plan_text(inputs, chosen, budget=budget)
    check_format(inputs.out)
    with hold_first(inputs.out):
        found = materials_of(inputs, chosen)
        return start(chosen, found, inputs.out, budget=budget, command="acclimate.race(...)", watch=watch)


def stated_files(train: str | Path | LabelledFiles, files: Mapping[str, Any]) -> tuple[LabelledFiles, Raw]:
    """The labelled files and the raw text as values. files: by the names that `race` takes.

    Raises TypeError for a name that neither has.
    """
    of_raw = {"corpus": "domain", "general": "general", "separated": "separated"}
    of_labelled = {each.name: each.name for each in fields(LabelledFiles) if each.name not in ("train", "seed")}
    of_labelled["split_seed"] = "seed"
    for name in files:
        if name not in of_raw and (name not in of_labelled or isinstance(train, LabelledFiles)):
            known = [*of_raw, *([] if isinstance(train, LabelledFiles) else of_labelled)]
            near = difflib.get_close_matches(name, known, n=1)
            told = f"did you mean '{near[0]}'?" if near else f"Known: {', '.join(known)}"
            raise TypeError(f"race() has no argument '{name}'. {told}")

    def value(name: str) -> Any:
        given = files[name]
        return Path(given) if name in ("dev", "test", "corpus", "general") and given else given

    raw = Raw(**{field: value(name) for name, field in of_raw.items() if name in files})
    if isinstance(train, LabelledFiles):
        return train, raw
    stated = {field: value(name) for name, field in of_labelled.items() if name in files}
    return LabelledFiles(train=Path(train), **stated), raw


def recipe_of(contestants: Sequence[str | Method] | None, recipe: RaceRecipe | None, model: str | None) -> RaceRecipe:
    """Return the given recipe or the usual one, with these contestants if any are named."""
    if contestants is None:
        return recipe or recipe_for(model)
    methods = {each.name: each for each in contestants if isinstance(each, Method)}
    methods |= {each: load(each) for each in contestants if isinstance(each, str) and "::" in each}
    extended = with_methods(methods, recipe) if recipe is not None else recipe_for(model, methods)
    names: list[str] = []
    for each in contestants:
        names += [one.name for one in each.contestants] if isinstance(each, Method) else [each]
    return settings.from_mapping(type(extended), {"contestants": names}, where="race", base=extended)


def recipe_for(model: str | None, methods: Mapping[str, Method] = MappingProxyType({})) -> RaceRecipe:
    """Return the recipe of a race for which none is stated. methods: a user's methods, as `with_methods` takes them."""
    return for_model(methods) if model else with_methods(methods, RaceRecipe())


def hold_first(out: Path) -> AbstractContextManager[None]:
    """Keep other processes out of the directory; of several ranks the first one does."""
    return files.hold(out) if ranks.is_first() else nullcontext()


def materials_of(inputs: Inputs, recipe: RaceRecipe, *, rows: int = 0) -> Materials:
    """Return what the race runs on: the user's files, or the dataset of that name in the folder `inputs.data`, or the
    embedded default if the labelled file is called "docstrings".

    rows: number of training rows to sample, every class among them; 0: all

    Raises ValueError for options that a dataset or the embedded default would ignore, and as `gather` does.
    """
    labelled, per_class = inputs.task, inputs.labels_per_class
    assert labelled is not None
    if inputs.data is not None or str(labelled.train) != DOCSTRINGS:
        if per_class is not None:
            raise ValueError("--labels-per-class draws from the embedded default only; give fewer rows in your file")
        return gather(
            inputs.out,
            labelled_rows(labelled, inputs.data, rows),
            inputs.raw,
            model=inputs.model,
            leaks=inputs.leaks,
            seeds=recipe.seeds,
            comparisons=len(recipe.names(domain=inputs.raw.domain is not None, general=inputs.raw.general is not None)),
            watch=inputs.watch,
        )
    if rows:
        raise ValueError(f"--rows draws from files and datasets; of '{DOCSTRINGS}' --labels-per-class does")
    if labelled != LabelledFiles(train=labelled.train) or inputs.raw != Raw() or inputs.leaks != "keep":
        raise ValueError(
            f"the task '{DOCSTRINGS}' brings its own files, columns, metric, lengths and corpora: leave the options "
            f"for files of your own out"
        )
    drawn = LABELS_PER_CLASS if per_class is None else per_class
    return materials.docstring_materials(
        inputs.out, labels_per_class=drawn or None, model=inputs.model, watch=inputs.watch
    )


def labelled_of(labelled: LabelledFiles, data: Path | None) -> LabelledFiles | Labelled:
    """Return what `gather` reads the labelled files from: the dataset in the folder `data` that `labelled.train`
    names, or the files as they are stated.

    Raises ValueError for options that a dataset would ignore, and for the name of one without its folder.
    """
    if data is None:
        if not Path(labelled.train).exists() and (way_out := unplaced(str(labelled.train))):
            raise ValueError(way_out)
        return labelled
    if labelled != LabelledFiles(train=labelled.train, max_tokens=labelled.max_tokens):
        raise ValueError(
            f"the dataset '{labelled.train}' brings its own splits, columns, kind and metric: with --data leave the "
            f"options for files of your own out; --max-tokens may stand, to read less"
        )
    read = published(str(labelled.train), data)
    if labelled.max_tokens != LabelledFiles(train=labelled.train).max_tokens:
        read = replace(read, max_tokens=min(read.max_tokens, labelled.max_tokens))
    return read


def labelled_rows(labelled: LabelledFiles, data: Path | None, rows: int) -> LabelledFiles | Labelled:
    """Return what `labelled_of` does, with `rows` training rows, sampled so that every class is among them; 0: all."""
    read = labelled_of(labelled, data)
    return fewer(read if isinstance(read, Labelled) else read_files(read), rows, seed=0) if rows else read


def dataset_of(given: str | LabelledFiles, data: Path | None) -> Labelled:
    """Return one of several datasets: a labelled file, by its path or with what is stated of it, or
    else a dataset in the folder `data`. Raises ValueError as `labelled_of` and `read_files` do.
    """
    labelled = given if isinstance(given, LabelledFiles) else LabelledFiles(train=Path(given))
    is_file = labelled.train.is_file() or (labelled.kind == "tokens" and labelled.train.is_dir())
    read = labelled_of(labelled, None if is_file else data)
    if isinstance(read, Labelled):
        return read
    try:
        return read_files(read)
    except ColumnError as error:
        if isinstance(given, LabelledFiles):
            raise
        raise with_way_out(error, given) from error


def start(
    recipe: RaceRecipe, found: Materials, out: Path, *, budget: str | None, command: str, watch: Watch = unwatched
) -> Study:
    """Run the race and write its pages."""
    if recipe.contestants == ():
        watch = _called(watch)
    limit = parse_budget(budget) if budget else None
    estimator = costs_of(limit.unit) if limit else None
    run_race(recipe, found, out, command=command, budget=limit, estimator=estimator, watch=watch)
    ranks.first_then_all(lambda: write_pages(out) if ranks.is_first() else None)
    return study_of(out)


def _called(watch: Watch) -> Watch:
    """Return the watch for a model that runs alone, which is not called untouched."""
    return lambda progress: watch(replace(progress, stage=progress.stage.replace(UNTOUCHED, ALONE)))


def plan_text(inputs: Inputs, recipe: RaceRecipe, *, budget: str | None = None, rows: int = 0) -> str:
    """Return what a race would still do in `inputs.out`, its cost, and what a budget leaves out; writes nothing there.

    rows: as `materials_of` has it
    """
    limit = parse_budget(budget) if budget else None
    with TemporaryDirectory() as place:
        found = materials_of(replace(inputs, out=Path(place)), recipe, rows=rows)
        made = design(recipe, found, budget=limit, estimator=costs_of(limit.unit) if limit else None)
        return plan(made, inputs.out).as_text()
