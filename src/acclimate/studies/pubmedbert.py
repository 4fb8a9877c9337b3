"""PubMedBERT's Tables 7 and 8 (Gu et al., 2021) at a small size: which vocabulary, which masking, what to start from,
and which texts?

The square has four models: with a general vocabulary or one learnt from the domain, with word pieces or whole words
masked. Each is pretrained on text of the domain from random weights. Beside the square stands what the paper calls
mixed-domain pretraining: a model of general text that goes on, or half of the steps on each text. One model is not in
the paper: it goes on with words of the domain added to the general vocabulary. With `full_texts`, Table 8's two models
follow: pretrained on abstracts and full texts, and on these for 1.6 times as long. The two models that go on from
general text read twice as many tokens: a full pretraining on each text. All other models train on the same number of
tokens, and all are fine-tuned on tasks with several seeds.

Readings
  Each model searches its settings of fine-tuning on dev, as in a race; the test set is opened after all training.
  Holm's correction counts the paper's orderings on all tasks together, and their means over tasks as another family.
  Table 8: abstracts and full texts are one text, every row once an epoch, with the vocabulary of the abstracts, so that
  only the texts differ; the paper leaves both open. Its findings there are "generally a slight degradation" with full
  texts, and "slightly outperform" after 60% more steps (100,000 in place of 62,500).
  The paper pretrains each model once, and so does this study, unless `adapt_seeds` asks for more.
  Losses on held-out text stand beside the scores where such text is given; the paper has none. Models with different
  vocabularies predict different pieces, so whole words are masked and the loss is that of a word: the sum over its
  pieces. Which words are drawn depends on the vocabulary, but not what a word is (text/words.py).
Deviations
  The models are small: the differences between vocabularies need not be those of BERT-base.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

import numpy as np

from acclimate.core import files, ranks, settings
from acclimate.core.settings import Count, Positive, check_no_more, check_ranges
from acclimate.core.types import Watch
from acclimate.data.corpus_scan import leave_out
from acclimate.data.gather import Inputs
from acclimate.data.leaks import SEALED, Sealed
from acclimate.data.materials import Materials, corpus_at
from acclimate.jobs.job import Job, Result, Work
from acclimate.methods import extend, scratch
from acclimate.methods.recipes import finetune
from acclimate.methods.recipes.extend import ExtendRecipe
from acclimate.methods.recipes.finetune import without_idle_settings
from acclimate.methods.recipes.scratch import ScratchRecipe
from acclimate.races import work
from acclimate.races.compare import Against, Mean
from acclimate.races.contestants import Entries, drawn_again, heldout_losses, job_of
from acclimate.races.design import Cell, Design, HeldOutLosses, Search
from acclimate.races.recipe import RaceRecipe, SearchRecipe, Seeds, check_each_once
from acclimate.reading.datasets import blurb
from acclimate.reading.labelled import Labelled
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.reports.table import DOMAIN_HEADING, HEADING, adaptations_note
from acclimate.studies.inputs import (
    FINETUNING_OF_SMALL,
    Longest,
    folder_of,
    little_learnt,
    prepared_file,
    read_datasets,
)
from acclimate.text.corpus import Corpus
from acclimate.training.checkpoint import read_log
from acclimate.training.plan import Plan

ModelName = Literal[
    "general vocabulary, word pieces",
    "general vocabulary, whole words",
    "own vocabulary, word pieces",
    "own vocabulary, whole words",
    "goes on from general text",
    "goes on from general text, vocabulary extended",
    "half general, then half domain",
    "general text",
    "with full texts",
    "with full texts, longer",
]
*_, FULL, LONGER = get_args(ModelName)
MODEL_NAMES: tuple[ModelName, ...] = get_args(ModelName)[:-2]  # those that need no full texts
GENERAL_PIECES, GENERAL_WORDS, DOMAIN_PIECES, DOMAIN_WORDS, GOES_ON, EXTENDED, HALVES, GENERAL = MODEL_NAMES
A_WORD = "nats per masked word with all its pieces, comparable between models with different vocabularies"
MORE_STEPS = 1.6  # 100,000 steps in place of 62,500 (section 6.3)
# what the paper finds (Tables 7 and 8; section 3.2 for the mixed-domain models): the first is better than the second
ORDERINGS = (
    (GENERAL_WORDS, GENERAL_PIECES),
    (DOMAIN_WORDS, DOMAIN_PIECES),
    (DOMAIN_PIECES, GENERAL_PIECES),
    (DOMAIN_WORDS, GENERAL_WORDS),
    (DOMAIN_WORDS, GOES_ON),
    (DOMAIN_WORDS, HALVES),
    (EXTENDED, GOES_ON),  # not in the paper
    (DOMAIN_WORDS, FULL),  # Table 8
    (LONGER, DOMAIN_WORDS),
    (LONGER, FULL),
)
SHAPE = ("layers", "hidden", "heads", "size", "architecture", "initializer_range")
LEARNING = ("vocabulary", "lower", "kind")


@dataclass(frozen=True)
class PubmedbertStudyRecipe:
    """Encoders pretrained from random weights on raw text of a domain, by vocabulary, masking and start."""

    models: tuple[ModelName, ...] = MODEL_NAMES
    """Models to pretrain and compare, the rows of the table; Table 8's two come beside them where `full_texts` is
    given."""
    full_texts: str = ""  # a file or folder of a second text of the domain, such as full texts (Table 8); "": none
    datasets: tuple[str | LabelledFiles, ...] = ()
    """Names of datasets, or labelled files with their columns and kind; none: those of BLURB with files in the
    folder."""
    seeds: Seeds = 3  # fine-tunings of each model, each with another seed; at least 2
    adapt_seeds: Positive = 1
    """Pretrainings of each model, each with another seed, at most as many as `seeds`. Fine-tuning seed k starts from
    pretraining k mod adapt_seeds. With 1, verdicts apply only to this one pretraining."""
    rows: Count = 0  # number of training rows to sample from each dataset, every class among them; 0: all rows
    rows_seed: Count = 0  # seed of that sample
    max_tokens: Longest = 0
    """Longest example in tokens, where the dataset's limit is not lower; 0: the dataset's limit, 256 of a file."""
    heldout: str = ""  # a file or folder of domain text that no model trains on, to report the loss on; "": none
    general_heldout: str = ""
    """A file or folder of general text that no model trains on, for a loss that shows forgetting; "": none."""
    scratch: ScratchRecipe = field(
        default_factory=lambda: ScratchRecipe(
            vocabulary=8_000,
            layers=2,
            hidden=128,
            heads=2,
            dropout=0.0,
            attention_dropout=0.0,
            initializer_range=0.08,
            tokens=20_000_000,
            plan=Plan(batch=64, rate=2e-3, warmup=0.1),
        )
    )
    """Settings of every pretraining of `scratch.tokens` tokens. Models that go on from general text have two."""
    extend: ExtendRecipe = field(default_factory=ExtendRecipe)
    """How words are added to the general vocabulary."""
    search: SearchRecipe = field(default_factory=SearchRecipe)
    """Settings of fine-tuning that are tried on dev."""
    finetune: finetune.FinetuneRecipe = FINETUNING_OF_SMALL
    """Settings of every fine-tuning."""

    def __post_init__(self) -> None:
        check_ranges(self)
        check_no_more(self, "adapt_seeds", than="seeds")
        check_each_once("models", self.models, least=2)
        if not self.full_texts and (wanting := [name for name in self.models if name in (FULL, LONGER)]):
            raise ValueError(f"'{wanting[0]}' is pretrained on a second text. Set full_texts to a file or folder of it")

    @property
    def rows_of_models(self) -> tuple[ModelName, ...]:
        """The models of the study: those that are named, and with full texts also those of Table 8."""
        return tuple(dict.fromkeys((*self.models, *((FULL, LONGER) if self.full_texts else ()))))


RECIPE = PubmedbertStudyRecipe


def design(recipe: PubmedbertStudyRecipe, inputs: Inputs) -> Design:
    """Return the study. Raises ValueError where text of the domain, general text or a dataset is missing."""
    if inputs.raw.domain is None or inputs.raw.general is None:
        raise ValueError(
            "the study 'pubmedbert' pretrains on raw text. Add --corpus, text of the domain, and --general"
        )
    read, absent = read_datasets(recipe.datasets, blurb.DATASETS, inputs.data, recipe)
    if not read:
        first = next(iter(absent.values()))
        raise ValueError(f"--data {inputs.data}: contains none of the datasets. The first: {first}")

    places = {"domain": inputs.raw.domain, "general": inputs.raw.general}
    unseen = {"heldout": recipe.heldout, "general_heldout": recipe.general_heldout}
    places |= {name: Path(place) for name, place in unseen.items() if place}
    places |= {FULL: Path(recipe.full_texts)} if recipe.full_texts else {}
    read_as: dict[str, Any] = {"separated": inputs.raw.separated, "watch": inputs.watch}
    texts = {name: corpus_at(place, inputs.out / folder_of(name), **read_as) for name, place in places.items()}
    trained_on = {name: corpus for name, corpus in texts.items() if name not in unseen}
    pretrained = pretrainings(recipe, texts)
    numbers = range(recipe.adapt_seeds)
    drawn = {name: [drawn_again(model, number) for number in numbers] for name, model in pretrained.items()}
    searches, notes = [], [*leaking(trained_on, [task for task, _ in read], inputs)]
    for task, _ in read:
        prepared = prepared_file(task, inputs.out / folder_of(task.name) / "data")
        notes += [f"{task.name}: {note}" for note in (*task.cautions, *task.notes)]
        race = RaceRecipe(
            seeds=recipe.seeds,
            adapt_seeds=recipe.adapt_seeds,
            contestants=(),
            search=recipe.search,
            finetune=without_idle_settings(recipe.finetune, prepared),
            pretrain=replace(recipe.scratch, tokens=0),  # a race states its length in steps; models are given here
        )
        materials = Materials(task=prepared, general=texts["general"])
        for name in recipe.rows_of_models:
            label, [model, *further] = f"{name} on {task.name}", drawn[name]
            entries = Entries(race, materials, None, {label: model}, {}, {}, {}, None, further={label: tuple(further)})
            costs = {"pretraining": {number: [job] for number, job in enumerate(drawn[name])}}
            searches.append(Search(name, task.name, entries, costs=costs))

    tasks = [task.name for task, _ in read]
    weights = (1 / len(tasks),) * len(tasks)
    names, every = recipe.rows_of_models, "all tasks"
    means = [Mean(("", name, every), tuple((("", name, task),) for task in tasks), weights) for name in names]
    families = {"the paper's orderings on all tasks": tasks, "their means over tasks": [every]}
    against = [
        Against(("", better, column), (("", worse, column),), worse, family)
        for family, columns in families.items()
        for better, worse in ORDERINGS
        if {better, worse} <= {*recipe.rows_of_models}
        for column in columns
    ]
    return Design(
        name="pubmedbert",
        title=f"Vocabulary and masking from scratch: {', '.join(tasks)}",
        source="The study: Gu et al. (2021), Tables 7 and 8 and section 3.2.",
        cells=(),
        searches=tuple(searches),
        against=tuple(against),
        means=tuple(means),
        axes=("model", "dataset"),
        notes=(
            "In the paper each of these differences is above 0 (those of Table 8: slightly); the paper has no extended "
            "vocabulary.",
            "Losses while pretraining are in nats per predicted piece: compare them only between models with the same "
            "vocabulary."
            f"{adaptations_note(recipe.adapt_seeds)}",
            *(
                f"'{name}' trains twice as long as the others: on general text, then on the domain's."
                for name in recipe.rows_of_models
                if name in (GOES_ON, EXTENDED)
            ),
            *notes,
        ),
        absent=absent,
        losses=tuple(_heldout_columns(recipe, texts, pretrained, searches[0].entries.materials)),
        measured=losses_of,
    )


def leaking(texts: Mapping[str, Corpus], tasks: Sequence[Labelled], inputs: Inputs) -> Iterator[str]:
    """Yield a sentence on each text for pretraining that holds dev or test texts of the datasets (data/leaks.py)."""
    splits = {split: [example for task in tasks for example in task.splits[split]] for split in SEALED}
    of_tasks = settings.digest([[one.id, one.text, one.pair] for split in SEALED for one in splits[split]])
    sealed = Sealed(splits)
    for name, corpus in texts.items():
        place = inputs.out / "leaks" / f"{corpus.hash[:12]}-{of_tasks[:12]}"
        find = partial(leave_out, corpus, sealed, place, passages=False, watch=inputs.watch)
        facts = ranks.first_then_all(find).facts
        if facts["leaking"]:
            yield (
                f"{facts['leaking']:,} of {facts['documents']:,} documents of {name} contain a dev or test text of "
                "the datasets, exactly or nearly. All models pretrained on this text have seen those texts without "
                "labels."
            )


def _heldout_columns(
    recipe: PubmedbertStudyRecipe, texts: Mapping[str, Corpus], models: Mapping[str, Job], materials: Materials
) -> Iterator[HeldOutLosses]:
    """Yield the losses of the models on held-out text, each beside that of the model of general text."""
    for heading, name in ((HEADING, "general_heldout"), (DOMAIN_HEADING, "heldout")):
        if name not in texts:
            continue
        jobs = {
            model: heldout_losses(
                f"{heading}, {model}",
                texts[name],
                job,
                recipe.adapt_seeds,
                materials,
                max_tokens=recipe.scratch.max_tokens,
            )
            for model, job in models.items()
            if model in (GENERAL, *recipe.rows_of_models)
        }
        text = "general text" if name == "general_heldout" else "text of the domain"
        yield HeldOutLosses(
            heading,
            f"masked language modelling on {text} that no model was trained on, {A_WORD}; in brackets the "
            f"difference from the {'first ' if recipe.adapt_seeds > 1 else ''}model of general "
            f"text.{adaptations_note(recipe.adapt_seeds)}",
            (GENERAL, jobs[GENERAL][0]),
            {model: jobs[model] for model in recipe.rows_of_models},
            unit="a_word",
        )


def extend_vocabulary(*, out: Path, watch: Watch, recipe: Mapping[str, Any], corpus: Path, model: Path) -> Result:
    """Write the model with words of the corpus added to its vocabulary."""
    inputs = {"corpus": str(corpus), "model": work.checkpoint_of(model)}
    checkpoint = extend.adapt(settings.from_mapping(ExtendRecipe, {**recipe, **inputs}), out, watch=watch)
    return {"checkpoint": files.sha256_of(checkpoint.path / files.MANIFEST)}


EXTEND = Work("extend", extend_vocabulary)
PRETRAIN = replace(work.PRETRAIN, draws=True)  # the rows differ by it, unlike the contestants of a race


def pretrainings(recipe: PubmedbertStudyRecipe, texts: Mapping[str, Corpus]) -> dict[str, Job]:
    """Return each model's pretraining by the model's name; models that start alike share the job they start from."""
    pretraining = recipe.scratch
    on_domain = {"corpus": texts["domain"], **({"dev": texts["heldout"]} if "heldout" in texts else {})}

    def pretrained(label: str, recipe: ScratchRecipe, corpora: Mapping[str, Corpus], **needs: Job) -> Job:
        # settings that are not read, since a vocabulary or a model is given, are at their defaults
        unread = (*LEARNING, *(SHAPE if "model" in needs else ())) if needs else ()
        usual: dict[str, Any] = {one.name: one.default for one in fields(ScratchRecipe) if one.name in unread}
        job = job_of(f"pretrain, {label}", PRETRAIN, replace(recipe, **usual), corpora)
        return replace(job, needs=needs)

    general = pretrained(GENERAL, pretraining, {"corpus": texts["general"]})
    half = _scaled(pretraining, 0.5)
    first_half = pretrained("half of general text", half, {"corpus": texts["general"]}, tokenizer=general)
    words = settings.to_mapping(recipe.extend)
    extended = job_of("extend the vocabulary", EXTEND, {"recipe": words}, {"corpus": texts["domain"]})
    extended = replace(extended, needs={"model": general})
    pieces = replace(pretraining, whole_words=False)
    models: dict[str, Job] = {
        GENERAL_PIECES: pretrained(GENERAL_PIECES, pieces, on_domain, tokenizer=general),
        GENERAL_WORDS: pretrained(GENERAL_WORDS, replace(pretraining, whole_words=True), on_domain, tokenizer=general),
        DOMAIN_PIECES: pretrained(DOMAIN_PIECES, pieces, on_domain),
        DOMAIN_WORDS: pretrained(DOMAIN_WORDS, replace(pretraining, whole_words=True), on_domain),
        GOES_ON: pretrained(GOES_ON, pretraining, on_domain, model=general),
        EXTENDED: pretrained(EXTENDED, pretraining, on_domain, model=extended),
        HALVES: pretrained(HALVES, half, on_domain, model=first_half),
        GENERAL: general,
    }
    if FULL in texts:
        whole_words, with_full = replace(pretraining, whole_words=True), {**on_domain, "general": texts[FULL]}
        of_abstracts = models[DOMAIN_WORDS]
        models[FULL] = pretrained(FULL, whole_words, with_full, tokenizer=of_abstracts)
        models[LONGER] = pretrained(LONGER, _scaled(whole_words, MORE_STEPS), with_full, tokenizer=of_abstracts)
    return models


def _scaled(recipe: ScratchRecipe, times: float) -> ScratchRecipe:
    """Return the settings for so many times the length: of tokens, or of steps where tokens do not set the length."""
    if recipe.tokens:
        return replace(recipe, tokens=int(recipe.tokens * times))
    return replace(recipe, plan=replace(recipe.plan, steps=max(1, int(recipe.plan.steps * times))))


def losses_of(cell: Cell, out: Path) -> dict[str, Any]:
    """Return the steps of the model's last pretraining, the mean loss of its last ones, and the held-out loss before
    and after, by their column; losses are means over the model's pretrainings.
    """
    places = [job.directory(out) for [job] in cell.costs["pretraining"].values()]
    logs = [read_log(place) for place in places]
    last = np.mean([line["loss.mlm"] for log in logs for line in log[-scratch.LAST :]])
    facts: dict[str, Any] = {"steps": len(logs[0]), "last loss": f"{last:.3f}", **little_learnt(places)}
    looks = [files.read_json(place / "curve.json") for place in places if (place / "curve.json").exists()]
    if looks:
        before, after = (fmean(look[at]["dev"]["mlm"] for look in looks) for at in (0, -1))
        facts["held-out loss"] = f"{before:.3f} to {after:.3f}"
    return facts
