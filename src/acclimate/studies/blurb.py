"""BLURB's Tables 3 and 6 (Gu et al., 2021): how well does each model do on each dataset of the benchmark?

On each dataset every model tries the same settings, dev alone chooses among them (races/search.py), and the chosen
setting runs with every seed. After all training the test set is opened, once for each model and seed. The constant
answer and the baseline without an encoder stand beside the models. A study of other models or of more datasets in the
same directory repeats no job.

Each model is compared with the better of the two baselines, the one that scores higher on the test set (a choice that
can only make the model look worse), and with the first model, on the same test items and seeds.

Readings
  "2-60" epochs (section 6.2) does not say which: the search tries 2, 10 and 60. It runs with the first seed.
  The paper tunes BERT and BioBERT and gives all models "a common set of hyperparameters for each dataset", without
  saying how: `search.common=true` takes the setting with the best mean over the models of the study. It is not the
  default, because one model more may then change the setting of the others, whose test sets have been opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

from acclimate.core.settings import Count, Range, check_ranges
from acclimate.core.types import SPLITS
from acclimate.data.gather import Inputs
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job
from acclimate.methods import baselines
from acclimate.methods.recipes import finetune
from acclimate.races import work
from acclimate.races.compare import Against, Mean
from acclimate.races.contestants import enter, tested_baseline
from acclimate.races.design import Cell, Design, Search
from acclimate.races.recipe import RaceRecipe, SearchRecipe
from acclimate.reading.datasets import blurb
from acclimate.reading.datasets.catalogue import Dataset
from acclimate.studies.inputs import (
    CONSTANT,
    NO_ENCODER,
    Longest,
    called,
    check_data,
    check_lengths,
    fitted,
    form_of,
    length_of,
    models_of,
    prepared_task,
    task_of,
    there,
)
from acclimate.tasks.metrics import blurb_score
from acclimate.tasks.prepared import Prepared

BLURB_SCORE = "BLURB score"
EPOCHS = (float(blurb.SEARCH.epochs[0]), 10.0, float(blurb.SEARCH.epochs[1]))  # the values that the search tries


CHANCE = "one seed cannot show the variation between runs. Give at least 2, or 0 for 5 or 10"
BlurbSeeds = Annotated[int, Range(least=2, also=0, why=CHANCE)]


@dataclass(frozen=True)
class BlurbRecipe:
    """A run of the benchmark. The defaults are the paper's.

    `finetune.pooling` is for relations whose texts say where the two mentions stand, the `tag_` settings are for tags
    of words and `sequence_layer` is for labels of texts. On other datasets they have their defaults (`fitting`).
    """

    refused: ClassVar[Mapping[str, str]] = {"adapt_seeds": "the study fine-tunes the given models without adaptation"}

    datasets: tuple[str, ...] = ()  # names of datasets, as in the paper; none: all with files in the folder
    seeds: BlurbSeeds = 0
    """Runs of the chosen setting, at least 2; 0: as in the paper, 5, or 10 for BIOSSES, PubMedQA and BioASQ."""
    rows: Count = 0  # number of training rows to sample from each dataset, every class among them; 0: all rows
    rows_seed: Count = 0  # seed of that sample
    max_tokens: Longest = 0  # longest example in tokens, where the dataset's limit is not lower; 0: the dataset's limit
    encoding: Literal["", "dummies", "markers", "original", "dummified"] = ""
    """How ChemProt and DDI mark their mentions; none: the first encoding with files in the folder."""
    special: bool = False  # let the tokenizer keep the marker strings of the encoding whole
    baseline: bool = True  # also run the baselines: TF-IDF or a word list, and the constant answer
    search: SearchRecipe = field(default_factory=lambda: SearchRecipe(blurb.SEARCH.rates, EPOCHS, blurb.SEARCH.batches))
    """Settings of fine-tuning that are tried on dev."""
    finetune: finetune.FinetuneRecipe = finetune.PAPERS
    """Settings of every fine-tuning; pooling applies to texts with two mentions, tag_ settings to tagged words."""
    tfidf: baselines.TfidfRecipe = field(default_factory=baselines.TfidfRecipe)
    """Settings of the baseline without an encoder."""

    def __post_init__(self) -> None:
        check_ranges(self)


RECIPE = BlurbRecipe


def design(recipe: BlurbRecipe, inputs: Inputs) -> Design:
    """Return the study.

    Raises ValueError where all datasets are missing, and where a model cannot read texts as long as
    the datasets'.
    """
    models = models_of(inputs.models)
    data = inputs.data
    if data is None:
        raise ValueError("BLURB's datasets are read from a folder. Add --data DIR")
    check_data(data, ())
    forms, absent = there(
        recipe.datasets, blurb.DATASETS, blurb.DATASETS, lambda dataset: form_of(dataset, data, recipe.encoding)
    )
    if not forms:
        raise ValueError(f"--data {data}: contains none of the datasets. The first: {next(iter(absent.values()))}")
    check_lengths(models, {dataset.name: length_of(dataset, recipe) for dataset, _ in forms})

    cells: list[Cell] = []
    searches: list[Search] = []
    against: list[Against] = []
    notes: list[str] = []
    rows = [*((CONSTANT, NO_ENCODER) if recipe.baseline else ()), *(model.name for model in models)]
    for dataset, form in forms:
        task = prepared_task(task_of(dataset, form, recipe), data, inputs.out / dataset.folder / "data")
        tuning = fitted(recipe.finetune, task, form, special=recipe.special)
        race = RaceRecipe(
            seeds=recipe.seeds or dataset.runs,
            contestants=("TF-IDF",) if recipe.baseline else (),
            search=recipe.search,
            finetune=tuning,
            tfidf=recipe.tfidf,
        )
        facts = {"type": dataset.type, "form": form.name, "max_tokens": task.max_tokens}
        if recipe.baseline:
            cells += _baselines(dataset, task, race, models[0].where, facts)
        race = replace(race, contestants=())
        for model in models:
            entries = enter(race, Materials(task=task, model=model.where))
            entries = replace(entries, models={f"{model.key} on {dataset.name}": None}, probes={})
            searches.append(Search(model.name, dataset.name, entries, facts))
            key = ("", model.name, dataset.name)
            if recipe.baseline:
                references = tuple(("", name, dataset.name) for name in (CONSTANT, NO_ENCODER))
                family = f"the datasets of {model.name}, each with its better baseline"
                against.append(Against(key, references, "the better baseline", family))
            if model != models[0]:
                first = models[0].name
                family = f"the datasets of {model.name}, each with {first}"
                against.append(Against(key, (("", first, dataset.name),), first, family))
        notes += [f"{dataset.name}: {form.note}"] if form.note else []
        if tuning.pooling != recipe.finetune.pooling and dataset.type == "Relation Extraction":
            notes.append(f"{dataset.name}: Its files have no positions of mentions, so the first token is read.")
    if recipe.baseline:
        notes.append("Constant: the same answer for every text, the best one on train.")
        notes.append("No encoder: TF-IDF and a linear model; for tagged words, the most frequent tag of each word.")

    refused = _refused([dataset for dataset, _ in forms])
    means = _means([dataset for dataset, _ in forms], rows, refused)
    if refused:
        notes.append(f"There is no BLURB score: {refused}.")
    first = models[0].name
    others = [model.name for model in models[1:]]
    for mean in (mean for mean in means if mean.key[1] in others):
        family = f"the means of {mean.key[1]}, each with {first}"
        against.append(Against(mean.key, (("", first, mean.key[2]),), f"{first}, means", family))
    return Design(
        name="blurb",
        title=f"BLURB: {', '.join(model.name for model in models)}",
        source="The benchmark: Gu et al. (2021), Tables 3 and 6.",
        cells=tuple(cells),
        searches=tuple(searches),
        against=tuple(against),
        means=means,
        axes=("model", "dataset"),
        called=called(models),
        notes=tuple(notes),
        absent=absent,
    )


def _baselines(dataset: Dataset, task: Prepared, race: RaceRecipe, model: str, facts: dict[str, object]) -> list[Cell]:
    """Return the cells of the constant answer and of TF-IDF. Neither has a seed: one job stands for every seed."""
    materials = Materials(task=task, model=model)
    contents = {name: task.hashes[name] for name in ("about", *SPLITS)}
    options = {"by": f"test {CONSTANT}"}
    constant = Job(f"{CONSTANT} on {dataset.name}", work.CONSTANT, options, contents, {"task": task.path}, alone=True)
    fit = enter(race, materials).baseline
    assert fit is not None
    test = tested_baseline(fit, task)
    test = replace(test, label=f"{test.label} on {dataset.name}", needs={"fitted": fit})
    seeds = range(race.seeds)
    return [
        Cell(CONSTANT, dataset.name, dict.fromkeys(seeds, constant), {}, materials, facts=facts),
        Cell(NO_ENCODER, dataset.name, dict.fromkeys(seeds, test), {"tuning": {0: [fit]}}, materials, facts=facts),
    ]


def _means(datasets: list[Dataset], rows: list[str], refused: str) -> tuple[Mean, ...]:
    """Return the means over each type of task and over the types, which is the BLURB score if all datasets are there.

    refused: why there is no BLURB score, "" where there is
    """
    types: dict[str, list[str]] = {}
    for dataset in datasets:
        types.setdefault(dataset.type, []).append(dataset.name)
    weights = {kind: dict.fromkeys(names, 1 / len(names)) for kind, names in types.items()}
    if len(types) > 1 or not refused:
        name = f"{len(types)} types, no BLURB score" if refused else BLURB_SCORE
        weights[name] = {
            dataset: part / len(types) for kind in list(weights) for dataset, part in weights[kind].items()
        }
    return tuple(
        Mean(("", row, name), tuple((("", row, dataset),) for dataset in parts), tuple(parts.values()))
        for name, parts in weights.items()
        for row in rows
    )


def _refused(datasets: list[Dataset]) -> str:
    """Return why there is no BLURB score of these datasets; "" where there is."""
    try:
        blurb_score({dataset.name: 0.0 for dataset in datasets})
    except ValueError as error:
        return str(error)
    return ""
