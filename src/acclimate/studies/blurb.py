"""A benchmark's datasets, each fine-tuned and tested with each model: BLURB as its paper runs it (Gu et al., 2021).

Of each dataset, every model tries the same settings, dev alone chooses among them (race/search.py), and the chosen
one runs with every seed. Once that is so for all models, the test set is opened, one look a model and seed. The
baseline without an encoder stands beside them. What is finished is read where it was written: runs of other models, or
of more datasets, into the same directory repeat nothing.

<folder of a dataset>/                a study of its own: data, jobs, looks.jsonl, scores.json, search.json
table.txt, table.csv, report.html     of all datasets that are done, written anew after each

Readings
  "2-60" epochs (section 6.2) says not which: 2, 10 and 60 are tried. Of several seeds the search has the first.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np

from acclimate.core import files, ranks
from acclimate.core.figures import cautioned, duration, listed, metric_text, p_text, points, si
from acclimate.core.types import SPLITS, Cost, Example, Score, Split, Watch, unwatched
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job, claim, missing
from acclimate.jobs.run import do, done
from acclimate.methods import baselines, finetune
from acclimate.methods.contestants import BASELINE, DICTIONARY
from acclimate.methods.finetune import fitting
from acclimate.models.encoder import longest_input
from acclimate.models.loading import identity, resolved, short_names
from acclimate.race import work
from acclimate.race.contestants import Entries, enter
from acclimate.race.cost import Estimate, estimate_of, told_of_reading
from acclimate.race.outcome import PAGE, SCORES, SHEET, TABLE
from acclimate.race.recipe import RaceRecipe, Search
from acclimate.race.report import Trial
from acclimate.race.search import Ended, scores_of, searched, test_row
from acclimate.report.page import Page, Section, page
from acclimate.report.table import difference_text, interval_text
from acclimate.statistics.means import mean_difference, mean_interval
from acclimate.statistics.significance import LEVEL, Comparison, Interval, compare_of, holm, interval_of, resample
from acclimate.statistics.variance import Resampled
from acclimate.tasks.datasets import blurb
from acclimate.tasks.datasets.catalogue import Dataset, Form, dataset_named
from acclimate.tasks.metrics import blurb_score
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.task import Task, drawn
from acclimate.training.checkpoint import spent

# -------------------- benchmark recipe
# How a benchmark is run, as settings: how each of its datasets is read, and what every model does on it.


MIDDLE = 10.0  # epochs


def blurb_search() -> Search:
    least, most = blurb.SEARCH.epochs
    return Search(blurb.SEARCH.rates, (float(least), MIDDLE, float(most)), blurb.SEARCH.batches)


@dataclass(frozen=True)
class BlurbRecipe:
    """A run of the benchmark. The defaults are the paper's.

    Of `finetune`, `pooling` is for relations whose texts say where the two mentions stand, the `tag_` settings are for
    tags of words and `sequence_layer` for labels of texts; other datasets have the defaults of these (`fitting`).
    """

    datasets: tuple[str, ...] = ()  # names as in the paper; none: all whose files are there
    seeds: int = 0  # runs of the chosen setting, at least 2; 0: the paper's 5, or 10 for BIOSSES, PubMedQA and BioASQ
    rows: int = 0  # so many of each train set, every class among them; 0: all
    rows_seed: int = 0  # of their draw
    max_tokens: int = 0  # of an example, where the dataset's own limit is no lower; 0: the dataset's
    encoding: Literal["", "dummies", "markers", "original", "dummified"] = ""
    """Of ChemProt and DDI; none: the first whose files are there."""
    special: bool = False  # the tokenizer keeps whole what the encoding writes into texts
    baseline: bool = True  # beside the models, TF-IDF or a word list, and the constant answer
    search: Search = field(default_factory=blurb_search)  # settings of fine-tuning that are tried on dev
    finetune: finetune.FinetuneRecipe = field(default_factory=finetune.FinetuneRecipe)
    """Of every dataset; pooling counts where texts have two mentions, tag_ settings where words have tags."""
    tfidf: baselines.TfidfRecipe = field(default_factory=baselines.TfidfRecipe)  # of the baseline without an encoder

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

    def race(self, dataset: Dataset, form: Form, task: Prepared) -> RaceRecipe:
        """What each model does on the dataset, and the baseline."""
        own = fitting(self.finetune, task)
        if self.special:
            own = replace(own, special_tokens=tuple(dict.fromkeys((*own.special_tokens, *form.special))))
        return RaceRecipe(
            seeds=self.seeds or dataset.runs,
            contestants=("TF-IDF",) if self.baseline else (),
            search=self.search,
            finetune=own,
            tfidf=self.tfidf,
        )


def _read(task: Task, rows: int, seed: int, root: Path, split: Split) -> list[Example]:
    examples = task.read(root, split)
    return drawn(examples, rows, seed) if split == "train" and rows else examples


# -------------------- benchmark result
# What a benchmark came to, as values: scores with intervals, how each model compares, means, costs.
#
# Each model is compared with the baseline, and with the first model, on the same test items and seeds. Of the two
# baselines (the one without an encoder, the constant answer) it is compared with the one that scores higher on the test
# set: a choice that can only make the model look worse. Holm's correction is over the datasets of a model.


NO_ENCODER = "no encoder"
CONSTANT = "constant"
BASELINES = (CONSTANT, NO_ENCODER)
BLURB_SCORE = "BLURB score"


@dataclass(frozen=True, eq=False)
class Result:
    """What the models did on a dataset.

    trained   training examples; max_tokens: where they were cut
    scores    model, or a baseline by its own name, -> a score a seed
    trials    model -> the record of its search
    settings  model -> the setting that dev chose
    taken     model -> what all of its fine-tunings took, those of the search and those given up too
    """

    dataset: Dataset
    form: Form
    trained: int
    max_tokens: int
    scores: dict[str, list[Score]] = field(default_factory=dict)
    trials: dict[str, list[Trial]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    taken: dict[str, Cost] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @cached_property
    def draws(self) -> dict[str, Resampled]:
        """Column -> its scores with each test item left out once."""
        drawn = resample([score for own in self.scores.values() for score in own], self.dataset.metric)
        return {self.column(name): own for name, own in drawn.items()}

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Column -> its interval."""
        return {column: interval_of(own) for column, own in self.draws.items()}

    def column(self, name: str) -> str:
        """The model or the constant answer by its name; any other baseline is NO_ENCODER."""
        return name if name in self.trials or name == CONSTANT else NO_ENCODER

    def baseline(self) -> str:
        """The column of the baseline that scores highest; "" where there is none."""
        there = [column for column in BASELINES if column in self.intervals]
        return max(there, key=lambda column: self.intervals[column].mean, default="")

    def tunings(self, model: str) -> int:
        """Fine-tunings that its search and its seeds took, begun ones too."""
        seeds: dict[str, int] = {}
        for trial in self.trials[model]:
            seeds[trial.setting] = max(seeds.get(trial.setting, 0), trial.seeds)
        return sum(seeds.values())

    def tried(self, model: str) -> int:
        """Settings."""
        return len({trial.setting for trial in self.trials[model]})

    def finetuning(self, name: str) -> Cost:
        """What the fine-tuning of a seed took, the mean over seeds."""
        own = [score.finetuning for score in self.scores[name]]
        total = sum(own, Cost())
        return Cost(round(total.tokens / len(own)), total.flops / len(own), total.seconds / len(own))


@dataclass(frozen=True, slots=True)
class Compared:
    """A model with a reference on a dataset. reference: its column; p_holm: corrected over the model's datasets."""

    dataset: str
    model: str
    reference: str
    comparison: Comparison
    p_holm: float

    @property
    def said(self) -> str:
        """What the corrected test bears out."""
        if self.p_holm >= LEVEL:
            return "not established"
        return "higher" if self.comparison.difference > 0 else "lower"


@dataclass(frozen=True)
class Benchmark:
    """absent: dataset -> why it is not there."""

    models: tuple[str, ...]
    results: tuple[Result, ...]
    absent: Mapping[str, str]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The baselines, where there are any, and the models."""
        given = [name for name in BASELINES if any(name in result.intervals for result in self.results)]
        return (*given, *self.models)

    @cached_property
    def against_baseline(self) -> tuple[Compared, ...]:
        """Each model on each dataset, in the order of the datasets."""
        return self._compared(Result.baseline)

    @cached_property
    def against_first(self) -> tuple[Compared, ...]:
        """Each other model on each dataset, in the order of the datasets."""
        return self._compared(lambda result: self.models[0])

    @cached_property
    def weights(self) -> dict[str, dict[Result, float]]:
        """Type of task -> its datasets that are here, with their weights in its mean; last, under the name of what it
        is, the mean of the types: the BLURB score where all datasets are here.
        """
        types: dict[str, list[Result]] = {}
        for result in self.results:
            types.setdefault(result.dataset.type, []).append(result)
        found = {kind: dict.fromkeys(own, 1 / len(own)) for kind, own in types.items()}
        if self.refused() and len(types) == 1:
            return found
        name = f"{len(types)} types, no BLURB score" if self.refused() else BLURB_SCORE
        return {**found, name: {result: part / len(types) for own in found.values() for result, part in own.items()}}

    @cached_property
    def means(self) -> dict[str, dict[str, Interval]]:
        """As `weights`: what is a mean -> column -> the mean with its interval."""
        return {
            name: {
                column: mean_interval([result.draws[column] for result in own], [*own.values()])
                for column in self.columns
            }
            for name, own in self.weights.items()
        }

    def mean_against_first(self, name: str, model: str) -> Comparison:
        """The model's mean of this name with the first model's."""
        own = self.weights[name]
        ours, first = ([result.draws[column] for result in own] for column in (model, self.models[0]))
        return mean_difference(ours, first, [*own.values()])

    def refused(self) -> str:
        """Why there is no BLURB score; "" where there is."""
        try:
            blurb_score({result.dataset.name: result.intervals[self.models[0]].mean for result in self.results})
        except ValueError as error:
            return str(error)
        return ""

    def _compared(self, reference: Callable[[Result], str]) -> tuple[Compared, ...]:
        found: dict[tuple[str, str], Compared] = {}
        for model in self.models:
            sides = [(result, reference(result)) for result in self.results]
            pairs = [
                (result.dataset.name, against, compare_of(result.draws[model], result.draws[against]))
                for result, against in sides
                if against not in ("", model)
            ]
            corrected = holm([comparison.p for _, _, comparison in pairs])
            for (dataset, against, comparison), p in zip(pairs, corrected, strict=True):
                found[dataset, model] = Compared(dataset, model, against, comparison, p)
        order = [(result.dataset.name, model) for result in self.results for model in self.models]
        return tuple(found[place] for place in order if place in found)


# -------------------- benchmark page
# What a benchmark came to, as tables in text, CSV and a page: a row a dataset, a column a model, as BLURB's Table 6.
#
# Text and page give scores and differences in points (the metric times 100); CSV gives them unrounded, in units of the
# metric, tokens, FLOP and seconds.


_DIFFERENCE = ("difference", "low", "high", "p")
_STAGES = ("tokens", "flops", "seconds")
CELLS = ("dataset", "form", "type", "metric", "model", "mean", "low", "high", "seeds", "scores", "dev", "setting")
COLUMNS = (
    *CELLS,
    *("settings_tried", "fine_tunings", "train_rows", "max_tokens"),
    *("baseline", *(f"baseline_{part}" for part in _DIFFERENCE), "baseline_p_holm"),
    *("first", *(f"first_{part}" for part in _DIFFERENCE), "first_p_holm"),
    *(f"{what}_{unit}" for what in ("finetuning", "all") for unit in _STAGES),
)
"""Of table.csv. finetuning: of a seed, the mean over seeds; all: of the search and all seeds."""


def sections(found: Benchmark) -> list[Section]:
    made = [_scores(found), _means(found)]
    if found.against_baseline:
        lead = "Of constant and no encoder, the one that scores higher on the test set. "
        made.append(_compared("Against the baseline", lead, found.against_baseline))
    if found.against_first:
        made.append(_compared(f"Against {found.models[0]}", "", found.against_first))
    return [*made, _settings(found), _costs(found)]


def as_text(found: Benchmark) -> str:
    """The tables for a terminal, at most 110 columns wide."""
    return page("acclimate study blurb", sections(found))


def as_csv(found: Benchmark) -> str:
    """A line for each dataset and model, then one for each mean and model; lists separated by spaces."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    compared = {
        (reference, own.dataset, own.model): own
        for reference, several in (("baseline", found.against_baseline), ("first", found.against_first))
        for own in several
    }
    for result in found.results:
        for name in result.scores:
            row = _cell(result, name)
            for reference in ("baseline", "first"):
                own = compared.get((reference, result.dataset.name, name))
                if own is not None:
                    row |= {reference: own.reference, f"{reference}_p_holm": own.p_holm}
                    row |= _difference(reference, own.comparison)
            writer.writerow(row)
    for name, means in found.means.items():
        for column, told in means.items():
            row = {"dataset": f"mean: {name}", "model": column, "mean": told.mean, "low": told.low, "high": told.high}
            if column in found.models[1:]:
                row |= {"first": found.models[0], **_difference("first", found.mean_against_first(name, column))}
            writer.writerow(row)
    return file.getvalue()


def write_benchmark(out: Path, found: Benchmark) -> None:
    """The tables and the page."""
    out.mkdir(parents=True, exist_ok=True)
    files.write_text(out / TABLE, as_text(found))
    files.write_text(out / SHEET, as_csv(found))
    source = "The benchmark: Gu et al. (2021), Tables 3 and 6."
    Page("BLURB", ", ".join(found.models), sections(found), source=source).write(out / PAGE)


def _cell(result: Result, name: str) -> dict[str, object]:
    """Of table.csv, what a model did on a dataset."""
    own, told = result.scores[name], result.intervals[result.column(name)]
    row: dict[str, object] = {
        "dataset": result.dataset.name,
        "form": result.form.name,
        "type": result.dataset.type,
        "metric": result.dataset.metric.name,
        "model": name,
        **{"mean": told.mean, "low": told.low, "high": told.high},
        "seeds": " ".join(str(score.seed) for score in own),
        "scores": " ".join(str(score.test) for score in own),
        "dev": float(np.mean([score.dev for score in own])),
        "train_rows": result.trained,
        "max_tokens": result.max_tokens,
    }
    costs = {"finetuning": result.finetuning(name)}
    if name in result.trials:
        costs["all"] = result.taken[name]
        row |= {"setting": result.settings[name]}
        row |= {"settings_tried": result.tried(name), "fine_tunings": result.tunings(name)}
    return row | {f"{what}_{unit}": getattr(cost, unit) for what, cost in costs.items() for unit in _STAGES}


def _difference(reference: str, other: Comparison) -> dict[str, object]:
    return {f"{reference}_{part}": getattr(other, part) for part in _DIFFERENCE}


def _scores(found: Benchmark) -> Section:
    rows = []
    for result in found.results:
        told = [result.intervals[column] for column in found.columns]
        cells = [
            points(own.mean) if column == CONSTANT else interval_text(own)
            for column, own in zip(found.columns, told, strict=True)
        ]
        seeds = len(result.scores[found.models[0]])
        about = f"{result.dataset.name} ({metric_text(result.dataset.metric.name)})"
        rows.append((about, f"{result.trained:,}", str(seeds), *cells))
    lines = ["Points with 95% intervals over seeds and test items. Train: the examples that were trained on."]
    if CONSTANT in found.columns:
        lines.append("Constant: of all answers that are the same for every text, the best on train.")
    if NO_ENCODER in found.columns:
        lines.append("No encoder: TF-IDF and a linear model; of words with tags, each word's most frequent tag.")
    lines += [f"{result.dataset.name}: {note}" for result in found.results for note in result.notes]
    lines += _cautions(
        (f"{result.dataset.name} ({column})", result.intervals[column].caution)
        for result in found.results
        for column in found.columns
        if column != CONSTANT
    )
    lines += [f"{name} is left out: {why}" for name, why in found.absent.items()]
    return Section("Test scores", ("", "train", "seeds", *found.columns), tuple(rows), tuple(lines))


def _means(found: Benchmark) -> Section:
    rows = [(name, *(interval_text(own[column]) for column in found.columns)) for name, own in found.means.items()]
    lines = [
        "Means over the datasets of a type, and over types, with 95% intervals over seeds and test items; the datasets "
        "are taken for all there are."
    ]
    if why := found.refused():
        lines.append(f"There is no BLURB score: {why}.")
    last = [*found.means][-1]
    for model in found.models[1:]:
        other = found.mean_against_first(last, model)
        lines.append(f"{last}: {model} against {found.models[0]} {difference_text(other)}, p {p_text(other.p)}.")
    lines += _cautions(
        (f"{name} ({column})", told.caution)
        for name, own in found.means.items()
        for column, told in own.items()
        if column != CONSTANT and len(found.weights[name]) > 1
    )
    return Section("Means", ("", *found.columns), tuple(rows), tuple(lines))


def _compared(title: str, lead: str, several: Sequence[Compared]) -> Section:
    rows = [
        (
            f"{own.dataset}, {own.model}",
            own.reference,
            difference_text(own.comparison),
            p_text(own.comparison.p),
            p_text(own.p_holm),
            own.said,
        )
        for own in several
    ]
    lines = [
        f"{lead}Points with 95% intervals, on the same test items and seeds; p: that the expected scores are equal. "
        "Higher and lower: where p is below .05 with Holm's correction over the datasets of the model."
    ]
    for model in dict.fromkeys(own.model for own in several):
        own = [each for each in several if each.model == model]
        clear = sum(each.said == "higher" for each in own)
        others = [each.dataset for each in own if each.said != "higher"]
        rest = f"; not on {listed(others)}" if others else ""
        lines.append(f"{model} is higher on {clear} of {len(own)} datasets{rest}.")
    lines += _cautions((f"{own.dataset} ({own.model})", own.comparison.caution) for own in several)
    columns = ("", "against", "difference", "p", "p (Holm)", "expected score")
    return Section(title, columns, tuple(rows), tuple(lines))


def _settings(found: Benchmark) -> Section:
    rows = []
    for result in found.results:
        for model in found.models:
            own = result.scores[model]
            dev = points(float(np.mean([score.dev for score in own])))
            each = " ".join(points(score.test) for score in own)
            about = f"{result.dataset.name}, {model}"
            counts = str(result.tried(model)), str(result.tunings(model))
            rows.append((about, result.settings[model], dev, *counts, each))
    columns = ("", "chosen on dev", "dev", "tried", "tunings", "test score of each seed")
    lines = ("Tried: settings. Tunings: fine-tunings that the search and the seeds took, those given up too.",)
    return Section("Settings", columns, tuple(rows), lines)


def _costs(found: Benchmark) -> Section:
    rows = []
    for result in found.results:
        for model in found.models:
            costs = result.finetuning(model), result.taken[model]
            cells = [cell for cost in costs for cell in (si(cost.flops, "FLOP"), duration(cost.seconds))]
            score = points(result.intervals[model].mean)
            rows.append((f"{result.dataset.name}, {model}", score, *cells))
    columns = ("", "score", "FLOP, a seed", "time, a seed", "FLOP, in all", "time, in all")
    lines = ("What fine-tuning took; in all: the search and all seeds.",)
    return Section("Costs", columns, tuple(rows), lines)


def _cautions(cells: Iterable[tuple[str, str]]) -> list[str]:
    """Each caution of the statistics once, with the cells that it is about."""
    about: dict[str, list[str]] = {}
    for cell, cautions in cells:
        for caution in cautions.splitlines():
            about.setdefault(caution, []).append(cell)
    return [cautioned(listed(names), len(names), caution) for caution, names in about.items()]


RECIPE = BlurbRecipe
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
    recipe: BlurbRecipe,
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


def select(recipe: BlurbRecipe, models: Sequence[str], data: Path, datasets: Sequence[Dataset]) -> Asked:
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


def entered(race: RaceRecipe, own: Contestant, task: Prepared) -> Entries:
    """A model on a dataset, as the only contestant beside the baseline."""
    return replace(enter(race, Materials(task=task, model=own.where)), models={own.key: None})


def constant(task: Prepared) -> Job:
    """The constant answer, and its one look at the test set."""
    contents = {name: task.hashes[name] for name in ("about", *SPLITS)}
    stated = {"by": f"test {CONSTANT}"}
    return Job(CONSTANT, work.CONSTANT, stated, contents, {"task": task.path}, alone=True)


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
    dataset: Dataset, form: Form, *, recipe: BlurbRecipe, asked: Asked, data: Path, out: Path, watch: Watch
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
            do([entries.baseline], run, watch=told)
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
    do((job for job, _ in tests), run, watch=watch, watches={job.name: told for job, told in reversed(tests)})
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


def _notes(recipe: BlurbRecipe, dataset: Dataset, form: Form, race: RaceRecipe) -> list[str]:
    elsewhere = race.finetune.pooling != recipe.finetune.pooling and dataset.type == "Relation Extraction"
    where = "Its files do not say where the mentions stand: read at the first token." if elsewhere else ""
    return [note for note in (form.note, where) if note]


def _check_lengths(recipe: BlurbRecipe, contestants: Sequence[Contestant], datasets: Sequence[Dataset]) -> None:
    for own in contestants:
        longest = longest_input(own.where)
        for dataset in datasets:
            tokens = min(dataset.max_tokens, recipe.max_tokens or dataset.max_tokens)
            if longest is not None and tokens > longest:
                raise ValueError(
                    f"{dataset.name} has examples of up to {tokens} tokens, but {own.name} reads at most {longest}. "
                    f"Add max_tokens={longest}"
                )


# -------------------- benchmark plan
# What a benchmark is still to do, and what that costs, before it starts; nothing is trained but a few steps to try.


@dataclass(frozen=True)
class Planned:
    """A model on a dataset. settings: that are tried; tunings: fine-tunings left, given up ones too."""

    dataset: str
    model: str
    trained: int
    settings: int
    seeds: int
    tunings: int
    left: Estimate


@dataclass(frozen=True)
class Plan:
    """absent: dataset -> why it is not there; constants: datasets whose constant answer is left to test; verb, varied:
    whose plan it is, and what `Planned.settings` counts.
    """

    cells: tuple[Planned, ...]
    absent: dict[str, str]
    constants: int = 0
    verb: str = "blurb"
    varied: str = "settings"

    @property
    def seconds(self) -> float:
        return sum(cell.left.seconds for cell in self.cells)

    def as_text(self) -> str:
        rows = []
        for cell in self.cells:
            stages = cell.left.stages
            costs = si(sum(stage.tokens for stage in stages)), si(sum(stage.flops for stage in stages))
            about = f"{cell.dataset}, {cell.model}"
            counts = f"{cell.trained:,}", str(cell.settings), str(cell.seeds), str(cell.tunings)
            rows.append((about, *counts, *costs, duration(cell.left.seconds)))
        columns = ("", "train", self.varied, "seeds", "tunings", "tokens", "FLOP", "time")
        largest = max(cell.left.memory for cell in self.cells)
        disk = sum(cell.left.disk for cell in self.cells if cell.left.stages)
        lines = [
            f"Together {duration(self.seconds)} on this machine, memory {largest / 1e9:.1f} GB, disk "
            f"{disk / 1e9:.2f} GB. Tunings: fine-tunings that are left, those too that are given up on the way.",
            *told_of_reading([stage for cell in self.cells for stage in cell.left.stages]),
            *([f"Constant answers, each within seconds: {self.constants} left."] if self.constants else []),
            *(f"{name} is left out: {why}" for name, why in self.absent.items()),
        ]
        return page(f"acclimate {self.verb}, still to do", [Section("Plan", columns, tuple(rows), tuple(lines))])


def plan(
    recipe: BlurbRecipe, models: Sequence[str], data: Path, out: Path, *, datasets: Sequence[Dataset] = blurb.DATASETS
) -> Plan:
    """What `run_benchmark` would still do in `out`. Raises ValueError as it does; writes nothing there."""
    asked = select(recipe, models, data, datasets)
    cells: list[Planned] = []
    constants = 0
    for dataset, form in asked.forms:
        run = out / dataset.folder
        with TemporaryDirectory() as place:
            task = prepare(recipe.task(dataset, form), data, Path(place) / "data")
            race = recipe.race(dataset, form, task)
            constants += recipe.baseline and len(missing([constant(task)], run))
            for own in asked.contestants:
                left = estimate_of(entered(race, own, task), run)
                tunings = sum(stage.kind == "tuning" for stage in left.stages)
                counts = len(race.settings()), race.seeds, tunings
                cells.append(Planned(dataset.name, own.name, task.sizes["train"], *counts, left))
                race = replace(race, contestants=())  # the baseline is the same for all
    return Plan(tuple(cells), asked.absent, constants)
