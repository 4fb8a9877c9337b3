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

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from acclimate.core import files, ranks
from acclimate.core.types import Example, Progress, Split, Watch, unwatched
from acclimate.methods import finetune, tfidf
from acclimate.models.encoder import longest_input
from acclimate.models.loading import identity, resolved
from acclimate.study.attention import short_names
from acclimate.study.benchmark_page import Benchmark, Result, write_benchmark
from acclimate.study.entries import enter
from acclimate.study.jobs import claim, do
from acclimate.study.materials import Materials
from acclimate.study.outcome import SCORES
from acclimate.study.race import Ended, scores_of, searched
from acclimate.study.recipe import Recipe as Race
from acclimate.study.recipe import Search
from acclimate.tasks import blurb
from acclimate.tasks.catalogue import Dataset, Form, dataset_named
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.task import Task, drawn

SEARCH = "search.json"  # a Trial for each setting and round
MIDDLE = 10.0  # epochs
OF_TAGS = ("tag_layer", "tag_transitions", "tag_scheme")


def blurb_search() -> Search:
    least, most = blurb.SEARCH.epochs
    return Search(blurb.SEARCH.rates, (float(least), MIDDLE, float(most)), blurb.SEARCH.batches)


@dataclass(frozen=True)
class Recipe:
    """A run of the benchmark. The defaults are the paper's.

    Of `finetune`, `pooling` is for relations whose texts say where the two mentions stand, and `tag_layer`,
    `tag_transitions` and `tag_scheme` for tags of words; other datasets have the defaults of these.
    """

    datasets: tuple[str, ...] = ()  # (): all whose files are there
    seeds: int = 0  # 0: as many as the paper averages over, 5 or 10
    rows: int = 0  # so many of each train set, every class among them; 0: all
    rows_seed: int = 0  # of their draw
    max_tokens: int = 0  # of an example, where the dataset's own limit is no lower; 0: the dataset's
    encoding: Literal["", "dummies", "markers", "original", "dummified"] = ""  # of ChemProt and DDI; "": what is there
    special: bool = False  # the tokenizer keeps whole what the encoding writes into texts
    baseline: bool = True  # beside the models, TF-IDF or a word list
    search: Search = field(default_factory=blurb_search)
    finetune: finetune.Recipe = field(default_factory=finetune.Recipe)
    tfidf: tfidf.Recipe = field(default_factory=tfidf.Recipe)

    def __post_init__(self) -> None:
        if self.seeds < 0 or self.seeds == 1:
            raise ValueError(f"seeds = {self.seeds}: one seed says nothing about chance. Give 2 or more, or 0: 5 or 10")
        for name in ("rows", "max_tokens"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} = {getattr(self, name)} is out of range: at least 0")

    def form(self, dataset: Dataset, data: Path) -> Form:
        """How the dataset is read. Raises ValueError where its files are not there."""
        asked = [form for form in dataset.forms if form.name == self.encoding]
        if len(dataset.forms) == 1 or not asked:
            return dataset.form_in(data)
        return replace(dataset, forms=tuple(asked)).form_in(data)

    def task(self, dataset: Dataset, form: Form) -> Task:
        """The dataset with no more training rows and tokens than the recipe allows."""
        task = dataset.task(form.name if len(dataset.forms) > 1 else "")
        limit = min(task.max_tokens, self.max_tokens or task.max_tokens)
        return replace(task, max_tokens=limit, read=partial(_read, task, self.rows, self.rows_seed))

    def race(self, dataset: Dataset, form: Form, task: Prepared) -> Race:
        """What each model does on the dataset, and the baseline."""
        own, default = self.finetune, finetune.Recipe()
        if not mentions_stand(task):
            own = replace(own, pooling=default.pooling)
        if task.kind != "tokens":
            own = replace(own, **{name: getattr(default, name) for name in OF_TAGS})
        if self.special:
            own = replace(own, special_tokens=tuple(dict.fromkeys((*own.special_tokens, *form.special))))
        return Race(
            seeds=self.seeds or dataset.runs,
            contestants=("TF-IDF",) if self.baseline else (),
            search=self.search,
            finetune=own,
            tfidf=self.tfidf,
        )


@dataclass(frozen=True)
class Contestant:
    """A model. name: as tables have it; key: what its jobs are called by, the same wherever it lies."""

    name: str
    key: str
    where: str


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
    contestants = contestants_of(models)
    chosen = [dataset_named(name, datasets) for name in recipe.datasets] or list(datasets)
    forms: dict[str, Form] = {}
    absent: dict[str, str] = {}
    for dataset in chosen:
        try:
            forms[dataset.name] = recipe.form(dataset, data)
        except ValueError as error:
            if recipe.datasets:
                raise
            absent[dataset.name] = str(error)
    if not forms:
        raise ValueError(f"--data {data}: none of the datasets is there. The first: {next(iter(absent.values()))}")
    there = [dataset for dataset in chosen if dataset.name in forms]
    _check_lengths(recipe, contestants, there)
    results: list[Result] = []
    for dataset in there:
        form = forms[dataset.name]
        done = _run_dataset(dataset, form, recipe=recipe, contestants=contestants, data=data, out=out, watch=watch)
        results.append(done)
        found = Benchmark(tuple(own.name for own in contestants), tuple(results), absent)
        if ranks.is_first():
            write_benchmark(out, found)
    ranks.wait()
    return found


def contestants_of(models: Sequence[str]) -> tuple[Contestant, ...]:
    """The models with names that tell them apart. Raises ValueError for none, and for two that are the same."""
    if not models:
        raise ValueError("no model given: name one or more, directories or hub ids")
    places = [resolved(model) for model in models]
    keys = [identity(place)[:12] if Path(place).is_dir() else place for place in places]
    for at, key in enumerate(keys):
        if key in keys[:at]:
            raise ValueError(f"{models[keys.index(key)]} and {models[at]} are the same model. Give it once")
    return tuple(Contestant(*own) for own in zip(short_names(places), keys, places, strict=True))


def mentions_stand(task: Prepared) -> bool:
    """Whether the texts are of relations and say where the two mentions stand."""
    return task.kind == "sequence" and all(len(example.spans) == 2 for example in task.examples("train"))


def _run_dataset(
    dataset: Dataset,
    form: Form,
    *,
    recipe: Recipe,
    contestants: Sequence[Contestant],
    data: Path,
    out: Path,
    watch: Watch,
) -> Result:
    run = out / dataset.folder
    claim(run)
    task = ranks.first_then_all(lambda: prepare(recipe.task(dataset, form), data, run / "data"))
    race = recipe.race(dataset, form, task)
    ended: list[tuple[Contestant, Ended, Watch]] = []
    for own in contestants:
        told = _telling(watch, dataset, own)
        entries = replace(enter(race, Materials(task=task, model=own.where)), models={own.key: None})
        if entries.baseline is not None:
            do(entries.baseline, run, watch=told)
        chosen = searched(entries, run, None, (), told)
        if own.key not in chosen.tuned:
            raise ValueError(
                f"{dataset.name}: training of {own.name} diverges with its best setting on dev. Lower search.rates"
            )
        ended.append((own, chosen, told))
        race = replace(race, contestants=())  # the baseline is the same for all
    result = Result(dataset, form, task.sizes["train"], task.max_tokens, notes=_notes(recipe, dataset, form, race))
    for own, chosen, told in ended:
        for jobs in chosen.tests().values():
            for job in jobs:
                do(job, run, watch=told)
        for score in scores_of(chosen, run):
            name = own.name if score.contestant == own.key else score.contestant
            result.scores.setdefault(name, []).append(replace(score, contestant=name))
        result.trials[own.name] = [replace(trial, contestant=own.name) for trial in chosen.found.record]
        result.settings[own.name] = chosen.found.finalists[0].setting.name
    if ranks.is_first():
        files.write_json(run / SCORES, [asdict(score) for own_scores in result.scores.values() for score in own_scores])
        files.write_json(run / SEARCH, [asdict(trial) for trials in result.trials.values() for trial in trials])
    return result


def _telling(watch: Watch, dataset: Dataset, own: Contestant) -> Watch:
    """The watch, told of which dataset and model a stage is."""

    def tell(progress: Progress) -> None:
        watch(replace(progress, stage=f"{dataset.name}: {progress.stage.replace(own.key, own.name)}"))

    return tell


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


def _read(task: Task, rows: int, seed: int, root: Path, split: Split) -> list[Example]:
    examples = task.read(root, split)
    return drawn(examples, rows, seed) if split == "train" and rows else examples
