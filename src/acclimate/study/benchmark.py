"""A benchmark's datasets, each fine-tuned and tested with each model: BLURB as its paper runs it (Gu et al., 2021).

Of each dataset, every model tries the same settings, dev alone chooses among them (study/halving.py), and the chosen
one runs with every seed. Once that is so for all models, the test set is opened, one look a model and seed. The
baseline without an encoder stands beside them. What is finished is read where it was written: runs of other models, or
of more datasets, into the same directory repeat nothing.

<folder of a dataset>/                a study of its own: data, jobs, looks.jsonl, scores.json, search.json
table.txt, table.csv, report.html     of all datasets that are done, written anew after each

Readings
  "2-60" epochs (section 6.2) says not which: 2, 10 and 60 are tried. Of several seeds the search has the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from acclimate.core import files, ranks
from acclimate.core.types import SPLITS, Cost, Watch, unwatched
from acclimate.models.encoder import longest_input
from acclimate.models.loading import identity, resolved
from acclimate.study import stages
from acclimate.study.attention import short_names
from acclimate.study.benchmark_page import write_benchmark
from acclimate.study.benchmark_recipe import Recipe
from acclimate.study.benchmark_result import BASELINES, CONSTANT, Benchmark, Result
from acclimate.study.contestants import BASELINE, DICTIONARY
from acclimate.study.entries import Entries, enter
from acclimate.study.jobs import Job, claim, missing
from acclimate.study.materials import Materials
from acclimate.study.outcome import SCORES
from acclimate.study.recipe import Recipe as Race
from acclimate.study.running import do_each, done
from acclimate.study.searching import Ended, scores_of, searched, test_row
from acclimate.tasks import blurb
from acclimate.tasks.catalogue import Dataset, Form, dataset_named
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.training.checkpoint import spent

SEARCH = "search.json"  # a Trial for each setting and round


@dataclass(frozen=True)
class Contestant:
    """A model. name: as tables have it; key: what its jobs are called by, the same wherever it lies."""

    name: str
    key: str
    where: str


@dataclass(frozen=True)
class Asked:
    """Who runs on what. absent: dataset -> why it is not there."""

    contestants: tuple[Contestant, ...]
    forms: tuple[tuple[Dataset, Form], ...]
    absent: dict[str, str]


def run_benchmark(
    recipe: Recipe,
    models: Sequence[str],
    data: Path,
    out: Path,
    *,
    datasets: Sequence[Dataset] = blurb.DATASETS,
    watch: Watch = unwatched,
) -> Benchmark:
    """Do what is missing in the directory `out`, and write the tables there after each dataset.

    data: the folder of the catalogue. Raises ValueError, before anything is trained, where a dataset that is named is
    not there, or none is, and where a model cannot read texts as long as the datasets'.
    """
    asked = select(recipe, models, data, datasets)
    results: list[Result] = []
    for dataset, form in asked.forms:
        results.append(_run_dataset(dataset, form, recipe=recipe, asked=asked, data=data, out=out, watch=watch))
        found = Benchmark(tuple(own.name for own in asked.contestants), tuple(results), asked.absent)
        if ranks.is_first():
            write_benchmark(out, found)
    ranks.wait()
    return found


def select(recipe: Recipe, models: Sequence[str], data: Path, datasets: Sequence[Dataset]) -> Asked:
    """Who runs on what. Raises ValueError as `run_benchmark` does."""
    if not data.is_dir():
        raise ValueError(f"--data {data}: there is no such folder")
    contestants = contestants_of(models)
    chosen = [dataset_named(name, datasets) for name in recipe.datasets] or list(datasets)
    forms: list[tuple[Dataset, Form]] = []
    absent: dict[str, str] = {}
    for dataset in chosen:
        try:
            forms.append((dataset, recipe.form(dataset, data)))
        except ValueError as error:
            if recipe.datasets:
                raise
            absent[dataset.name] = str(error)
    if not forms:
        raise ValueError(f"--data {data}: none of the datasets is there. The first: {next(iter(absent.values()))}")
    _check_lengths(recipe, contestants, [dataset for dataset, _ in forms])
    return Asked(contestants, tuple(forms), absent)


def entered(race: Race, own: Contestant, task: Prepared) -> Entries:
    """A model on a dataset, as the only contestant beside the baseline."""
    return replace(enter(race, Materials(task=task, model=own.where)), models={own.key: None})


def constant(task: Prepared) -> Job:
    """The constant answer, and its one look at the test set."""
    contents = {name: task.hashes[name] for name in ("about", *SPLITS)}
    stated = {"by": f"test {CONSTANT}"}
    return Job(CONSTANT, stages.constant, stated, contents, {"task": task.path}, alone=True)


def contestants_of(models: Sequence[str]) -> tuple[Contestant, ...]:
    """The models with names that tell them apart. Raises ValueError for none, and for two that are the same."""
    if not models:
        raise ValueError("no model given: name one or more, directories or hub ids")
    places = [resolved(model) for model in models]
    keys = [identity(place)[:12] if Path(place).is_dir() else place for place in places]
    for at, key in enumerate(keys):
        if key in keys[:at]:
            raise ValueError(f"{models[keys.index(key)]} and {models[at]} are the same model. Give it once")
    taken = (*BASELINES, BASELINE, DICTIONARY)  # a directory of such a name would share a baseline's row
    names = [f"{name} (model)" if name in taken else name for name in short_names(places)]
    return tuple(Contestant(*own) for own in zip(names, keys, places, strict=True))


def called(contestants: Iterable[Contestant]) -> dict[str, str]:
    """What people call the models whose keys stand in labels of jobs."""
    return {own.key: own.name for own in contestants}


def diverged(tuned: Job, run: Path) -> bool:
    """Whether a fine-tuning that was to be done in full has no result: its loss was no number any more."""
    return tuned in missing([tuned], run)


def _run_dataset(
    dataset: Dataset, form: Form, *, recipe: Recipe, asked: Asked, data: Path, out: Path, watch: Watch
) -> Result:
    run = out / dataset.folder
    claim(run, called(asked.contestants))
    task = ranks.first_then_all(lambda: prepare(recipe.task(dataset, form), data, run / "data"))
    race = recipe.race(dataset, form, task)
    ended: list[tuple[Contestant, Ended, Watch]] = []
    for own in asked.contestants:
        told = telling(watch, dataset, own)
        entries = entered(race, own, task)
        if entries.baseline is not None:
            do_each([entries.baseline], run, watch=told)
        chosen = searched(entries, run, None, (), told)
        if own.key not in chosen.tuned or any(diverged(job, run) for job in chosen.tuned[own.key]):
            raise ValueError(
                f"{dataset.name}: training of {own.name} diverges with its best setting on dev. Lower search.rates"
            )
        ended.append((own, chosen, told))
        race = replace(race, contestants=())  # the baseline is the same for all
    result = Result(dataset, form, task.sizes["train"], task.max_tokens, notes=_notes(recipe, dataset, form, race))
    if recipe.baseline:
        found = done(constant(task), run, watch=watch)
        rows = [test_row(CONSTANT, seed, found, task, adapting=Cost(), finetuning=Cost()) for seed in range(race.seeds)]
        result.scores[CONSTANT] = rows
    tests = [(job, told) for _, chosen, told in ended for jobs in chosen.tests().values() for job in jobs]
    do_each((job for job, _ in tests), run, watch=watch, watches={job.name: told for job, told in reversed(tests)})
    for own, chosen, _ in ended:
        for score in scores_of(chosen, run):
            name = own.name if score.contestant == own.key else score.contestant
            result.scores.setdefault(name, []).append(replace(score, contestant=name))
        result.trials[own.name] = [replace(trial, contestant=own.name) for trial in chosen.found.record]
        result.settings[own.name] = chosen.found.finalists[0].setting.name
        result.taken[own.name] = sum((spent(job.directory(run)) for job in chosen.begun), Cost())
    if ranks.is_first():
        files.write_json(run / SCORES, [asdict(score) for own_scores in result.scores.values() for score in own_scores])
        files.write_json(run / SEARCH, [asdict(trial) for trials in result.trials.values() for trial in trials])
    return result


def telling(watch: Watch, dataset: Dataset, own: Contestant) -> Watch:
    """The watch, told of which dataset and model a stage is."""
    named = naming(watch, own)
    return lambda progress: named(replace(progress, stage=f"{dataset.name}: {progress.stage}"))


def naming(watch: Watch, own: Contestant) -> Watch:
    """The watch, told the model's name where jobs have its key."""
    return lambda progress: watch(replace(progress, stage=progress.stage.replace(own.key, own.name)))


def _notes(recipe: Recipe, dataset: Dataset, form: Form, race: Race) -> list[str]:
    elsewhere = race.finetune.pooling != recipe.finetune.pooling and dataset.type == "Relation Extraction"
    where = "Its files do not say where the mentions stand: read at the first token." if elsewhere else ""
    return [note for note in (form.note, where) if note]


def _check_lengths(recipe: Recipe, contestants: Sequence[Contestant], datasets: Sequence[Dataset]) -> None:
    for own in contestants:
        longest = longest_input(own.where)
        for dataset in datasets:
            tokens = min(dataset.max_tokens, recipe.max_tokens or dataset.max_tokens)
            if longest is not None and tokens > longest:
                raise ValueError(
                    f"{dataset.name} has examples of up to {tokens} tokens, but {own.name} reads at most {longest}. "
                    f"Add max_tokens={longest}"
                )
