"""The studies of model choices in BLURB's paper (Gu et al., 2021): one choice varied, all else and the seeds the same.

    vary=layers     what stands between the encoder and the output: a linear layer or a BiLSTM (Table 10)
    vary=schemes    how entities are tagged in training: BIO, BIOUL or IO (Table 11)
    vary=relations  how a text shows its two mentions, and which states the classifier reads (Table 12)

The studies run on BLURB's datasets; `layers` and `schemes` also run on labelled files. The first variant is the paper's
standard, and the others are compared with it: on dev, or on test with `split`. A job that two variants or two studies
in one directory share, such as the linear layer on BIO tags, is done once.

Readings
  All variants have the same rate, batch and epochs: the paper does not say that each variant was searched. A score on
  dev is the best of several looks at dev, so it is a little too high, for all variants alike.
  In IO, entities of one type that touch each other become one entity, and are scored so against the given tags.
  Layers are compared without BERT's pooler (`pooling` is "first"), because an LSTM reads the states of all tokens.
  `study blurb`, Table 6, has the pooler, so the linear layer of Table 10 is another head than that of Table 6.
  The paper does not say whether the tokenizer kept dummies and markers whole: with `special` it does, for all variants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from acclimate.core.settings import Count, check_ranges
from acclimate.data.gather import Inputs
from acclimate.data.materials import Materials
from acclimate.methods.recipes import finetune
from acclimate.methods.recipes.finetune import FinetuneRecipe
from acclimate.races.compare import Against
from acclimate.races.design import Cell, Design, fine_tunings, scored
from acclimate.races.recipe import Seeds
from acclimate.reading.datasets import blurb
from acclimate.reading.datasets.catalogue import Dataset, Form
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.reading.relations import Encoding
from acclimate.studies.inputs import (
    Longest,
    Model,
    called,
    check_by_dataset,
    check_data,
    check_lengths,
    fitted,
    folder_of,
    form_of,
    labelled,
    leaking_ids,
    length_of,
    models_of,
    prepared_task,
    settings_on,
    task_of,
    there,
    without_rows,
)
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.tags import scheme_of

CRF_RATE = 100.0  # times the encoder's rate, at which a CRF's weights stay near 0 and it equals the linear layer
# in the labels of jobs, where they are not the default
NAMED = ("tag_layer", "sequence_layer", "tag_scheme", "pooling")


@dataclass(frozen=True)
class ModelVariant:
    """A value of what is varied, a row of the table.

    settings  of fine-tuning
    encoding  how a text shows its two mentions; "" where that is not varied
    further   not in the paper; it runs only where the setting `variants` names it
    """

    name: str
    settings: Mapping[str, Any]
    encoding: Encoding | Literal[""] = ""
    further: bool = False


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper. variants: the standard comes first."""

    name: str
    datasets: tuple[str, ...]
    variants: tuple[ModelVariant, ...]


def _layer(name: str, layer: str, further: bool = False) -> ModelVariant:
    of_text, rate = ("linear", CRF_RATE) if "crf" in layer else (layer, 1.0)
    layer_settings = {"tag_layer": layer, "tag_transitions_rate": rate, "sequence_layer": of_text}
    layer_settings |= {"pooling": "first"}  # without a pooler, as behind the LSTM: one depth for all layers
    return ModelVariant(name, layer_settings, further=further)


TABLES: Mapping[str, PaperTable] = {
    "layers": PaperTable(
        "Table 10",
        ("BC5-chem", "BC5-disease", "JNLPBA", "ChemProt", "DDI", "GAD"),
        (
            _layer("linear", "linear"),
            _layer("BiLSTM", "bilstm"),
            _layer("CRF", "crf", further=True),
            _layer("BiLSTM-CRF", "bilstm-crf", further=True),
        ),
    ),
    "schemes": PaperTable(
        "Table 11",
        ("BC5-chem", "BC5-disease", "JNLPBA"),
        tuple(ModelVariant(scheme, {"tag_scheme": scheme}) for scheme in ("BIO", "BIOUL", "IO")),
    ),
    "relations": PaperTable(
        "Table 12",
        ("ChemProt", "DDI"),
        (
            ModelVariant("dummies, first token", {"pooling": "first"}, "dummies"),
            ModelVariant("dummies, mentions", {"pooling": "mentions"}, "dummies"),
            ModelVariant("original, first token", {"pooling": "first"}, "original"),
            ModelVariant("original, mentions", {"pooling": "mentions"}, "original"),
            ModelVariant("markers, first token", {"pooling": "first"}, "markers"),
            ModelVariant("markers, mentions", {"pooling": "mentions"}, "markers"),
            ModelVariant("markers, starts", {"pooling": "starts"}, "markers"),
        ),
    ),
}

if TYPE_CHECKING:
    VariantName = str
else:
    VariantName = Literal[tuple(variant.name for table in TABLES.values() for variant in table.variants)]


@dataclass(frozen=True)
class ChoicesRecipe:
    """A study of model choices. All variants share the settings `finetune`, except for what is varied."""

    refused: ClassVar[Mapping[str, str]] = {"adapt_seeds": "the study fine-tunes the given models without adaptation"}

    vary: Literal["layers", "schemes", "relations"] = "layers"
    """What differs between the rows of the table: the layer above the encoder, the tag scheme, or how relations are
    shown."""
    variants: tuple[VariantName, ...] = ()
    """Names of the variants to compare; the others are compared with the first. None: those of the paper."""
    datasets: tuple[str | LabelledFiles, ...] = ()
    """Names of datasets, or labelled files with their columns and kind; none: those of the paper with files in the
    folder."""
    seeds: Seeds = 5  # runs of each variant, each with another seed; at least 2
    rows: Count = 0  # number of training rows to sample from each dataset, every class among them; 0: all rows
    rows_seed: Count = 0  # seed of that sample
    max_tokens: Longest = 0  # longest example in tokens, where the dataset's limit is not lower; 0: the dataset's limit
    special: bool = False  # let the tokenizer keep the marker strings of an encoding whole
    leaks: Literal["keep", "drop"] = "keep"  # what becomes of rows of train and dev that contain a test text
    split: Literal["dev", "test"] = "dev"  # scored split; each run with "test" is an evaluation on the test set
    by_dataset: bool = False
    """Fine-tune BLURB's datasets with rate, batch and epochs of their recipes, such as `finetune/blurb-bc2gm`; other
    datasets use `finetune`."""
    finetune: FinetuneRecipe = finetune.PAPERS
    """Settings of every variant, except for the varied one."""

    def __post_init__(self) -> None:
        check_ranges(self)
        check_by_dataset(self)
        known = {variant.name: variant for variant in TABLES[self.vary].variants}
        for name in self.variants:
            if name not in known or self.variants.count(name) > 1:
                raise ValueError(f"variants: '{name}' is not one of {', '.join(known)}, or appears twice")
        if len(self.variants) == 1:
            raise ValueError(f"variants: '{self.variants[0]}' is the only variant. Name at least two")

    @property
    def chosen(self) -> tuple[ModelVariant, ...]:
        """The rows of the table."""
        known = {variant.name: variant for variant in TABLES[self.vary].variants}
        chosen = tuple(known[name] for name in self.variants)
        return chosen or tuple(variant for variant in known.values() if not variant.further)


RECIPE = ChoicesRecipe


@dataclass(frozen=True)
class Reading:
    """A variant on a dataset. form: of the text, for the labels of jobs; "" where there is only one."""

    variant: str
    task: Prepared
    recipe: FinetuneRecipe
    form: str = ""


def design(recipe: ChoicesRecipe, inputs: Inputs) -> Design:
    """Return the study.

    Raises ValueError where the variants do not differ on a named dataset, where no dataset is left,
    and where a model cannot read texts as long as the datasets'.
    """
    models = models_of(inputs.models)
    absent: dict[str, str] = {}
    datasets: dict[str, list[Reading]] = {}
    for name, readings in _read(recipe, inputs, models, absent):
        differing: list[Reading] = []
        for reading in readings:
            if all((reading.recipe, reading.form) != (other.recipe, other.form) for other in differing):
                differing.append(reading)
        if len(differing) > 1:
            datasets[name] = differing
            continue
        names = ", ".join(reading.variant for reading in readings)
        absent[name] = f"{names} do not apply to these datasets. Choose another study or other datasets"
        if recipe.datasets:
            raise ValueError(f"{name}: {absent[name]}")
    if not datasets:
        raise ValueError(
            f"the study '{recipe.vary}' cannot compare variants on these datasets: {' '.join(absent.values())}"
        )

    cells, against = [], []
    for name, differing in datasets.items():
        for model in models:
            table = [_cell(recipe, name, reading, model, several=len(models) > 1) for reading in differing]
            cells += table
            family = f"the variants on {name}" + (f" with {model.name}" if len(models) > 1 else "")
            against += [Against(cell.key, (table[0].key,), table[0].row, family) for cell in table[1:]]
    return Design(
        name=f"choices-{recipe.vary}",
        title=f"Model choices, {recipe.vary}: {', '.join(model.name for model in models)}",
        source=f"The study: Gu et al. (2021), {TABLES[recipe.vary].name}.",
        cells=tuple(cells),
        against=tuple(against),
        axes=("variant", "dataset"),
        split=recipe.split,
        called=called(models),
        notes=(
            f"Every variant has the same settings{' on a dataset' * recipe.by_dataset} and seeds.",
            *(("Rows of train and dev that contain a test text were removed.",) if recipe.leaks == "drop" else ()),
        ),
        absent=absent,
    )


def _cell(recipe: ChoicesRecipe, dataset: str, reading: Reading, model: Model, *, several: bool) -> Cell:
    tuning, task = reading.recipe, reading.task
    default = FinetuneRecipe.presets[tuning.preset]
    differing = [name for name in NAMED if getattr(tuning, name) != getattr(default, name)]
    words = [reading.form, *(f"{name} {getattr(tuning, name)}" for name in differing)]
    label = ", ".join(filter(None, [f"fine-tune {model.key} on {dataset}", *words]))
    materials = Materials(task=task, model=model.where)
    tuned = fine_tunings(label, tuning, None, materials, seeds=recipe.seeds)
    costs = {"tuning": {seed: [job] for seed, job in tuned.items()}}
    name = model.name if several else ""
    return Cell(reading.variant, dataset, scored(tuned, task, recipe.split), costs, materials, name)


def _read(
    recipe: ChoicesRecipe, inputs: Inputs, models: tuple[Model, ...], absent: dict[str, str]
) -> Iterator[tuple[str, list[Reading]]]:
    """Yield each dataset with its variants, once it is prepared. absent: filled with dataset -> why it is left out."""
    files = [named for named in recipe.datasets if isinstance(named, LabelledFiles) or Path(named).is_file()]
    names = [str(named) for named in recipe.datasets if named not in files]
    if files and any(variant.encoding for variant in recipe.chosen):
        raise ValueError(
            f"vary={recipe.vary} rewrites the texts of a relation, so it needs files with the positions of "
            "mentions. Name the folder of a catalogue with --data"
        )
    for file in files:
        labelled_file, _ = labelled(file, None, recipe)
        check_lengths(models, {labelled_file.name: labelled_file.max_tokens})
        task = labelled_file.task()
        source = labelled_file.files[0].path
        if recipe.leaks == "drop":
            task = without_rows(task, leaking_ids(task, source))
        ready = prepared_task(task, source, inputs.out / folder_of(labelled_file.name) / "data")
        readings = []
        for variant in recipe.chosen:
            tuning = replace(recipe.finetune, **variant.settings)
            readings.append(Reading(variant.name, ready, _fit_tags(tuning, ready)))
        yield labelled_file.name, readings
    if files and not names:
        return
    data = inputs.data
    check_data(data, ())
    assert data is not None
    usual = [dataset for dataset in blurb.DATASETS if dataset.name in TABLES[recipe.vary].datasets]
    forms, missing = there(
        names,
        usual,
        blurb.DATASETS,
        lambda dataset: {variant.name: form_of(dataset, data, variant.encoding) for variant in recipe.chosen},
    )
    absent |= missing
    check_lengths(models, {dataset.name: length_of(dataset, recipe) for dataset, _ in forms})
    for dataset, form_by_variant in forms:
        yield dataset.name, _dataset_readings(recipe, dataset, form_by_variant, data, inputs.out / dataset.folder)


def _dataset_readings(
    recipe: ChoicesRecipe, dataset: Dataset, form_by_variant: Mapping[str, Form], data: Path, place: Path
) -> list[Reading]:
    """Return the variants on a dataset of BLURB, prepared once in each form."""
    several = len(dataset.forms) > 1
    forms = {form.name: form for form in form_by_variant.values()}
    stated_tasks = {name: task_of(dataset, form, recipe) for name, form in forms.items()}
    if recipe.leaks == "drop":  # the same rows in every form; where mentions have placeholders, many texts are equal
        plain = [form for form in dataset.forms if form.name == "original" and not dataset.missing(form, data)]
        [form, *_] = [*plain, *forms.values()]
        ids = leaking_ids(task_of(dataset, form, recipe), data)
        stated_tasks = {name: without_rows(task, ids) for name, task in stated_tasks.items()}
    tasks = {
        name: prepared_task(task, data, place / (f"data-{name}" if several else "data"))
        for name, task in stated_tasks.items()
    }
    readings = []
    for variant in recipe.chosen:
        form = form_by_variant[variant.name]
        task = tasks[form.name]
        tuning = replace(settings_on(recipe, dataset.name), **variant.settings)
        tuning = fitted(tuning, task, form, special=recipe.special)
        readings.append(Reading(variant.name, task, _fit_tags(tuning, task), form.name if several else ""))
    return readings


def _fit_tags(tuning: FinetuneRecipe, task: Prepared) -> FinetuneRecipe:
    """Return the settings that mean something on the task; the given tags' scheme is stated as "given"."""
    tuning = finetune.without_idle_settings(tuning, task)
    return replace(tuning, tag_scheme="given") if scheme_of(task.labels) == tuning.tag_scheme else tuning
