"""STILT's Tables 2 and 3 (Jeong and Hwang): fine-tuned on A, then on B, for all ordered pairs of datasets.

Each pair is compared with B alone (the baseline), and with controls that the paper lacks: the same task twice (A = B),
and B alone for as many steps as both tasks of the pair took, in one go. The method is methods/stilt.py; here each stage
is a job, so that pairs share stages. Fine-tuning on A is done once for each model and seed, whatever comes after it. It
is also the baseline of A where both have the same settings.

Readings
  The paper does not say whether scores are on test or dev, how many seeds there are, and whether differences were
  tested. Here the test set is opened once for each cell and seed, after all training. Each cell has its interval and a
  paired test against B alone; Holm's correction counts all cells of a model's matrix together, controls included.
  "The same as those of PubMedBERT" is a search for each dataset there, whose results that paper does not print. Here
  all datasets have one setting (`finetune`), or with `by_dataset` BLURB's have the rate, batch and epochs of their
  recipes (`finetune/blurb-bc2gm`): points of BioLinkBERT's released script, some outside the range of that search.
  The checkpoint of B is that of its best look at dev, and so is that of A (`intermediate.choose`).
Deviations
  Training rows of A that hold a dev or test text of B are left out of A before that B (`_leaking`); leaks=keep keeps
  and counts them. A task before itself keeps all its rows: B alone trains on them too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

from acclimate.core import settings
from acclimate.core.figures import listed, points
from acclimate.core.settings import Count, check_ranges
from acclimate.core.steps import finetuning_steps
from acclimate.core.types import SPLITS, Example, Progress, Split, counted
from acclimate.data.gather import Inputs
from acclimate.data.leaks import Sealed, leak_kind, text_and_pair
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job
from acclimate.methods.recipes import finetune
from acclimate.methods.recipes.finetune import FinetuneRecipe, without_idle_settings
from acclimate.methods.recipes.stilt import Intermediate, check_chained
from acclimate.races.compare import Against, Contrast, Key, Mean
from acclimate.races.design import Cell, Design, fine_tunings, scored
from acclimate.races.outcome import CellResult, Outcome
from acclimate.races.recipe import Seeds
from acclimate.races.tables import row_id
from acclimate.reading.datasets import blurb
from acclimate.reading.datasets.catalogue import dataset_named
from acclimate.reading.labelled import Labelled
from acclimate.reading.labelled_files import LabelledFiles, name_of
from acclimate.reports import page
from acclimate.reports.page import Section, amount
from acclimate.studies.inputs import (
    Longest,
    Model,
    called,
    check_by_dataset,
    check_lengths,
    folder_of,
    models_of,
    prepared_file,
    read_datasets,
    settings_on,
)
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.task import classes_in
from acclimate.text.overlap.words import normalised_words

PAPER = (
    *("BC5-chem", "BC5-disease", "NCBI-disease", "BC2GM", "JNLPBA", "EBM PICO"),
    *("ChemProt", "DDI", "GAD", "PubMedQA", "BioASQ"),
)
BASELINE = "baseline"  # the row of B alone
MORE = "more steps"  # the row of B alone for as many steps as B twice takes
ALONE, STEPS, TYPES = "the target alone", "as many steps", "the target alone, by types"  # what cells are compared with
LEAKING: tuple[Split, ...] = ("dev", "test")
FEWEST_WORDS = 5  # of an item that may leak: headings such as "Results:" stand in every abstract
ACROSS = 9  # columns of a part of the matrix, in text
NAMED = 9  # pairs that a sentence names at most


@dataclass(frozen=True)
class StiltStudyRecipe:
    """All ordered pairs of datasets, as Tables 2 and 3 of Jeong and Hwang, with the controls that these lack.

    `finetune` holds the settings of every fine-tuning; `intermediate` changes them for the first task of a pair.
    Settings of `finetune` that mean nothing on a dataset have their defaults there.
    """

    refused: ClassVar[Mapping[str, str]] = {
        "adapt_seeds": "every run fine-tunes on both tasks, so no model is adapted once for several runs"
    }

    datasets: tuple[str | LabelledFiles, ...] = ()
    """Names of datasets of `--data`, labelled files, or files with their columns; none: those of the paper's 11 with
    files in the folder."""
    seeds: Seeds = 3  # runs of each pair, each with another seed; at least 2
    rows: Count = 0  # number of training rows to sample from each dataset, every class among them; 0: all rows
    rows_seed: Count = 0  # seed of that sample
    max_tokens: Longest = 0
    """Longest example in tokens, where the dataset's limit is not lower; 0: the dataset's limit, 256 of a file."""
    split: Literal["dev", "test"] = "test"
    """Scored split; with "test" each run of each cell is an evaluation on the test set."""
    leaks: Literal["drop", "keep"] = "drop"
    """What becomes of training rows of a first task that contain a dev or test text of the second."""
    same_task: bool = True  # also run the control A = B: the same task twice
    more_steps: Literal["each", "twice", "none"] = "each"
    """Which pairs get the control of as many steps on the target alone: each pair, A = B only (twice), or none."""
    intermediate: Intermediate = field(default_factory=Intermediate)
    """Settings that differ on the first task of a pair; none: the same as in `finetune`."""
    by_dataset: bool = False
    """Fine-tune BLURB's datasets with rate, batch and epochs of their recipes, such as `finetune/blurb-bc2gm`, also
    as first tasks; other datasets use `finetune`."""
    finetune: finetune.FinetuneRecipe = finetune.PAPERS  # settings of all fine-tunings

    def __post_init__(self) -> None:
        check_ranges(self)
        check_by_dataset(self)
        if len(self.datasets) == 1:
            raise ValueError(f"datasets = {[*map(name_of, self.datasets)]}: a pair needs two. Name another dataset")
        check_chained(self.finetune)


RECIPE = StiltStudyRecipe


def design(recipe: StiltStudyRecipe, inputs: Inputs) -> Design:
    """Return the study. A cell's row is its first task, its column the target.

    Raises ValueError for faulty models and datasets.
    """
    models = models_of(inputs.models)
    members, absent = members_of(recipe, inputs)
    check_lengths(models, {member.name: member.task.max_tokens for member in members})
    tunings = {member.name: settings_on(recipe, member.name) for member in members}
    cells: list[Cell] = []
    against: list[Against] = []
    means: list[Mean] = []
    for model in models:
        matrix = [
            cell
            for target in members
            for cell in _column(recipe, model, target, members, tunings, several=len(models) > 1)
        ]
        cells += matrix
        against += _comparisons(matrix, model)
        groups = _groups(matrix, members)
        means += [mean for pair in groups for mean in pair]
        family = f"the groups of pairs of {model.name}"
        against += [Against(group.key, (alone.key,), TYPES, family) for group, alone in groups]
    notes: dict[str, list[str]] = {}
    for member in members:
        for note in member.notes:
            notes.setdefault(note, []).append(member.name)
    leaks = "removed from the first task" if recipe.leaks == "drop" else "kept in the first task"
    return Design(
        name="stilt",
        title=f"Intermediate tasks: {', '.join(model.name for model in models)}",
        source=(
            "After Jeong and Hwang, Empirical Study on Intermediate Fine-tuning for Biomedical Domain Tasks, Tables 2 "
            "and 3."
        ),
        cells=tuple(cells),
        against=tuple(against),
        means=tuple(means),
        axes=("first", "target"),
        split=recipe.split,
        called=called(models),
        notes=(
            "As many steps: only the target task, for as many steps as both tasks. Leaks: training rows of the "
            f"first task that hold an item of the target's dev or test set, {leaks}.",
            "By types: the mean difference over the targets of a type; first tasks of one target are combined. "
            "Pairs of a task with itself are excluded.",
            *(f"{listed(names)}: {note}" for note, names in notes.items()),
        ),
        absent=absent,
    )


def _column(
    recipe: StiltStudyRecipe,
    model: Model,
    target: Member,
    members: Sequence[Member],
    tunings: Mapping[str, FinetuneRecipe],
    *,
    several: bool,
) -> Iterator[Cell]:
    """Yield all cells of a target: alone, after each first task, and alone for more steps.

    tunings  member -> its settings of fine-tuning
    """
    materials = Materials(task=target.task, model=model.where)
    tuning = without_idle_settings(tunings[target.name], target.task)
    alone = finetuning_steps(tuning, target.task.sizes["train"])
    name = model.name if several else ""

    def tune_on_target(words: str, tuning: FinetuneRecipe, firsts: Mapping[int, Job] | None = None) -> dict[int, Job]:
        return fine_tunings(f"fine-tune {model.key} on {words}", tuning, firsts, materials, seeds=recipe.seeds)

    def cell(row: str, tuned: Mapping[int, Job], firsts: Mapping[int, Job] | None = None, **facts: Any) -> Cell:
        costs = {
            stage: {seed: [job] for seed, job in jobs.items()}
            for stage, jobs in (("first", firsts), ("target", tuned))
            if jobs
        }
        about = {"first type": "", "target type": target.type, "leaks": 0, "first steps": 0, "steps": alone, **facts}
        return Cell(row, target.name, scored(tuned, target.task, recipe.split), costs, materials, name, about)

    def longer_cell(row: str, steps: int, *, display: bool) -> Cell:
        longer = replace(tuning, epochs=0.0, plan=replace(tuning.plan, steps=steps))
        target_cell = cell(row, tune_on_target(f"{target.name}, {steps} steps", longer), steps=steps)
        return replace(target_cell, shown=display)

    yield cell(BASELINE, tune_on_target(target.name, tuning))
    for member in members:
        same = member is target
        if same and not recipe.same_task:
            continue
        task = member.task if same else member.parts.get(target.name, member.task)
        usual = tunings[member.name]
        before = without_idle_settings(recipe.intermediate.change(usual), task)
        words = member.name if before == without_idle_settings(usual, task) else f"{member.name} as first task"
        if left_out := member.task.sizes["train"] - task.sizes["train"]:
            words += f" without {amount(left_out, 'row')}"
        of_first = Materials(task=task, model=model.where)
        firsts = fine_tunings(f"fine-tune {model.key} on {words}", before, None, of_first, seeds=recipe.seeds)
        steps = finetuning_steps(before, task.sizes["train"])
        facts = {"first type": member.type, "leaks": member.leaking.get(target.name, 0), "first steps": steps}
        yield cell(member.name, tune_on_target(f"{member.name}, then {target.name}", tuning, firsts), firsts, **facts)
        if recipe.more_steps == "each" or (recipe.more_steps == "twice" and same):
            yield longer_cell(_control(member.name), steps + alone, display=False)
    if recipe.more_steps != "none":
        first = without_idle_settings(recipe.intermediate.change(tunings[target.name]), target.task)
        twice = finetuning_steps(first, target.task.sizes["train"])
        yield longer_cell(MORE, twice + alone, display=True)


def _control(first: str) -> str:
    """Return the row of a first task's control: the target alone for as many steps as both tasks took."""
    return f"{STEPS} as with {first}"


def _comparisons(matrix: Sequence[Cell], model: Model) -> Iterator[Against]:
    """Yield the comparisons of each cell with the target alone, and of each pair with as many steps on the target."""
    keys = {cell.key for cell in matrix}
    cells = [cell for cell in matrix if cell.shown and cell.row != BASELINE]
    for cell in cells:
        alone = (cell.model, BASELINE, cell.column)
        yield Against(cell.key, (alone,), ALONE, f"all cells of {model.name}, controls too, each with the target alone")
    for cell in cells:
        control = (cell.model, _control(cell.row), cell.column)
        if control in keys:
            yield Against(cell.key, (control,), STEPS, f"all pairs of {model.name}, each with as many steps")


def _groups(matrix: Sequence[Cell], members: Sequence[Member]) -> list[tuple[Mean, Mean]]:
    """Return, for each type of first task and of target, the mean over its pairs, and that of the same targets alone.

    The first tasks of one target share its test items and its baseline, so they count as one chain whose score is their
    mean. Targets have different test items. The model of one first task and seed stands before several targets, as one
    adapted checkpoint does, so runs are paired over targets by seed (statistics/means.py).
    """
    types = {member.name: member.type for member in members}
    name = matrix[0].model
    groups = []
    for target in dict.fromkeys(types.values()):
        for first in dict.fromkeys(types.values()):
            parts: dict[str, list[Key]] = {}
            for cell in matrix:
                if types[cell.column] == target and types.get(cell.row) == first and cell.row != cell.column:
                    parts.setdefault(cell.column, []).append(cell.key)
            if parts:
                pairs = sum(map(len, parts.values()))
                row, weights = f"{first} → {target}", (1 / len(parts),) * len(parts)
                where = f"{amount(pairs, 'pair')}"
                group = Mean((name, row, where), tuple(map(tuple, parts.values())), weights, whole=False, shown=False)
                alone = tuple(((name, BASELINE, column),) for column in parts)
                groups.append((group, Mean((name, row, f"{where}, alone"), alone, weights, whole=False, shown=False)))
    return groups


@dataclass(frozen=True)
class Member:
    """A dataset of the matrix.

    name     stands in rows and columns
    type     of task, as its benchmark groups them
    task     the whole task, to train on alone and to be scored on
    leaking  other dataset -> number of training rows here that hold a text of its dev or test set, where there are any
    parts    other dataset -> the task without those rows, to train on before that dataset, where leaks are dropped
    notes    what a reader of the scores should know
    """

    name: str
    type: str
    task: Prepared
    leaking: Mapping[str, int]
    parts: Mapping[str, Prepared]
    notes: tuple[str, ...] = ()


def members_of(recipe: StiltStudyRecipe, inputs: Inputs) -> tuple[list[Member], dict[str, str]]:
    """Return the datasets, prepared in folders of their names; and dataset of the paper -> why it is left out.

    A training row leaks where one of its texts equals a dev or test text of the other dataset, nearly equals it, or has
    at least half of its runs of 13 words (data/leaks.py). Such rows are left out for that pair alone.

    Raises ValueError for fewer than two, for two of one name, and as
    `read_files` and `published` do.
    """
    paper = [] if recipe.datasets else [dataset_named(name, blurb.DATASETS) for name in PAPER]
    read, absent = read_datasets(recipe.datasets, paper, inputs.data, recipe)
    _check_names([dataset.name for dataset, _ in read])
    if len(read) < 2:
        raise ValueError(f"fewer than two of the datasets exist, but a pair needs two. {' '.join(absent.values())}")
    for name, why in absent.items():
        inputs.watch(Progress("reading datasets", 0, 0, "datasets", {"note": f"{name} is skipped: {why}"}))
    one_by_one = partial(counted, watch=inputs.watch, total=len(read), unit="datasets", every=1)
    followed = one_by_one(read, stage="reading datasets")
    sealed = [Sealed({split: dataset.splits[split] for split in LEAKING}) for dataset, _ in followed]
    members = []
    for place, (dataset, kind) in enumerate(one_by_one(read, stage="looking for leaks")):
        assert set(dataset.splits) == set(SPLITS)
        ids_by_target = {
            other.name: ids
            for at, (other, _) in enumerate(read)
            if at != place and (ids := _leaking(dataset.splits["train"], sealed[at]))
        }
        where = inputs.out / folder_of(dataset.name)
        task = prepared_file(dataset, where / "data")
        parts = {}
        for target, ids in ids_by_target.items() if recipe.leaks == "drop" else ():
            part = f"without-{settings.digest(sorted(ids))[:12]}"  # the same folder for the same rows
            parts[target] = prepared_file(_drop_rows(dataset, ids, target), where / part)
        leaking = {target: len(ids) for target, ids in ids_by_target.items()}
        members.append(Member(dataset.name, kind, task, leaking, parts, (*dataset.cautions, *dataset.notes)))
    return members, absent


def _check_names(names: Sequence[str]) -> None:
    """Raises ValueError where two datasets would share a folder, or one is called like a column of the table."""
    folders = [folder_of(name) for name in names]
    if twice := [name for name, folder in zip(names, folders, strict=True) if folders.count(folder) > 1]:
        raise ValueError(f"datasets: two are named '{twice[0]}'. Name each once, or rename a file")
    if clashes := [name for name in names if name in (BASELINE, MORE)]:
        raise ValueError(f"datasets: '{clashes[0]}' is the name of a column of the table. Rename the file")


def _leaking(rows: Sequence[Example], sealed: Sealed) -> frozenset[str]:
    """Return the ids of the rows that hold a sealed item."""
    long_enough = [len(normalised_words(text_and_pair(item)).split()) >= FEWEST_WORDS for _, item in sealed.items]
    texts = ((row.id, text) for row in rows for text in (row.text, row.pair) if text)
    return frozenset(
        name
        for name, _, matches in sealed.match_documents(texts)
        if any(leak_kind(match) != "passage" and long_enough[int(match.reference)] for match in matches)
    )


def _drop_rows(dataset: Labelled, ids: frozenset[str], target: str) -> Labelled:
    """Return the dataset without these training rows; a class that only they have becomes an untaught one."""
    train = tuple(row for row in dataset.splits["train"] if row.id not in ids)
    if not train:
        raise ValueError(
            f"{dataset.name}: every training row contains a text of the dev or test set of {target}, so no row "
            "remains to train on. Remove one of them from datasets, or set leaks=keep"
        )
    taught = {label for row in train for label in classes_in(row.label)}
    untaught = tuple(label for label in dataset.labels if label not in taught and dataset.kind != "span")
    return replace(dataset, splits={**dataset.splits, "train": train}, untaught=(*dataset.untaught, *untaught))


def matrix(outcome: Outcome) -> list[Section]:
    """Return the matrix of each model as the paper has it: rows are targets, columns first tasks."""
    models = dict.fromkeys(result.model for result in outcome.results)
    return [section for model in models for section in _matrix(outcome, model)]


def _matrix(outcome: Outcome, model: str) -> Iterator[Section]:
    cells = [result for result in outcome.results if result.model == model and result.shown]
    targets = list(dict.fromkeys(cell.column for cell in cells))
    firsts = [name for name in (*targets, MORE) if any(cell.row == name for cell in cells)]
    contrasts = {
        cell.key: contrast for cell in cells if (contrast := outcome.compared.contrast(cell.key, ALONE)) is not None
    }
    largest = max((abs(contrast.comparison.difference) for contrast in contrasts.values()), default=0.0)
    numbers = {name: str(place) for place, name in enumerate(targets, 1)}
    parts = [firsts[at : at + ACROSS] for at in range(0, len(firsts), ACROSS)]
    for part in parts:
        rows = []
        for target in targets:
            alone = outcome.interval((model, BASELINE, target))
            row: list[str | page.TableCell] = [f"{numbers[target]} {target}"]
            row.append(page.TableCell(points(alone.mean) if alone else "failed", look="plain"))
            for first in part:
                key = (model, first, target)
                row.append(_shaded(key, key in outcome.cells, contrasts.get(key), largest))
            rows.append(tuple(row))
        names = [numbers.get(name, "more") for name in part]
        if len(part) < 5:
            names = [f"{numbers.get(name, '')} {name}".strip() for name in part]
        heads = ("target", "alone", *names)
        lines = tuple(_sentences(outcome, cells, contrasts)) if part is parts[-1] else ()
        title = f"{model}: differences by first task" if model else "Differences by first task"
        lead = (
            "Rows are targets, columns are first tasks. A cell shows the difference from the target alone, in "
            "points: blue is higher, orange is lower, and stronger colour is larger. Hatched: not established "
            "after Holm's correction over all cells. Outlined: a control. Each cell links to its row below."
        )
        yield Section(title, heads, tuple(rows), lines, lead=lead, look="heat sticky")


def _shaded(key: Key, has_results: bool, contrast: Contrast | None, largest: float) -> page.TableCell:
    if contrast is None:
        return page.TableCell("failed" if has_results else "-", look="plain")
    _, first, target = key
    gain = contrast.comparison.difference
    way = "better" if gain > 0 else "worse" if gain < 0 else "even"
    look = f"{way} {'sure' if contrast.established else 'open'}{' control' * (first in (target, MORE))}"
    return page.TableCell(
        points(gain, sign="+") + "*" * contrast.established,
        value=gain,
        look=look,
        shade=(abs(gain) / largest) ** 0.5 if largest else 0.0,
        link=row_id(ALONE, key),
    )


def _sentences(outcome: Outcome, cells: Sequence[CellResult], contrasts: Mapping[Key, Contrast]) -> Iterator[str]:
    """Yield sentences that say what the numbers are, and which differences are established."""
    more = any(cell.row == MORE for cell in cells)
    control = " 'more': the target alone for as many steps as the same task twice." if more else ""
    yield (
        f"Points on {outcome.split}: the target alone, and what a first task (columns, by the rows' numbers) "
        f"adds to it.{control} *: established, p < .05 after Holm's correction over all {len(contrasts)} compared "
        f"cells; all others may be chance."
    )
    pairs = {key: contrast for key, contrast in contrasts.items() if key[1] not in (key[2], MORE)}
    counts = []
    for verdict, words in {"better": "score higher than", "worse": "score lower than"}.items():
        names = [f"{first} → {target}" for (_, first, target), contrast in pairs.items() if contrast.said == verdict]
        if names:
            which = f": {listed(names)}" if len(names) <= NAMED else ""
            counts.append(f"{len(names)} of {len(pairs)} pairs {words} the target alone{which}")
    if not counts:
        yield f"None of {len(pairs)} pairs is established to differ from the target alone."
    else:
        clear = sum(contrast.established for contrast in pairs.values())
        yield f"{'; '.join(counts)}.{'' if clear == len(pairs) else ' The rest may be chance.'}"
    gains = [key for key, contrast in pairs.items() if contrast.said == "better"]
    beside = [contrast for key in gains if (contrast := outcome.compared.contrast(key, STEPS)) is not None]
    if beside:
        stand = sum(contrast.said == "better" for contrast in beside)
        yield f"{stand} of {len(beside)} established gains remain in comparison with as many steps on the target alone."
    controls = {"the same task twice": [key for key in contrasts if key[1] == key[2]]}
    controls[MORE] = [key for key in contrasts if key[1] == MORE]
    for name, keys in controls.items():
        if keys:
            above = sum(contrasts[key].comparison.difference > 0 for key in keys)
            clear = sum(contrasts[key].established for key in keys)
            yield f"Control, {name}: above the target alone in {above} of {len(keys)}, {clear} established."
