"""Learning curves: what adapting is worth in labels (`acclimate race --learning-curve`).

The study follows a race, in its directory. It takes the untouched model and the adapted contestant with the best mean
on dev, lets both learn from parts of the training rows and from all of them, and scores them on test. From the two
curves statistics/worth.py estimates how many labels the better model needs to score as the other one does with all.

A part is drawn by seed, each label in proportion; of one draw the smaller parts lie in the larger ones, and both models
have the same rows (reading/splitting.py::nested_subsets). Dev and test are those of the race.

Probes (methods/probe.py) always learn: each encoder reads all texts once, then a layer is fitted for each part. With
all rows every draw has the same layer. Where fine-tuning is asked for, seed s fine-tunes on the parts of draw s, with
the settings that the race chose for the contestant on dev; its scores with all rows are those of the race.

Nothing is chosen here: the contestant is the race's best on dev, and each score opens the test set once. The page is
learning-curve.html; what it says on top, table and plot stand on the page of the race too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from acclimate.core import files, ranks, settings
from acclimate.core.door import option
from acclimate.core.figures import listed, metric_text, points
from acclimate.core.types import SPLITS, Split, Watch, unwatched
from acclimate.data.gather import Inputs
from acclimate.data.materials import Materials
from acclimate.jobs.job import DIRECTORY, JOB, Job, Result, Work, decided
from acclimate.methods import probe
from acclimate.methods.recipes import scratch
from acclimate.methods.recipes.finetune import FinetuneRecipe
from acclimate.models.loading import load_tokenizer
from acclimate.races.compare import MAIN, Against
from acclimate.races.contestants import (
    PROBE_PRECISION,
    UNTUNED,
    Entries,
    contents_of,
    fine_tuned,
    tested,
    threshold_of,
    with_model,
)
from acclimate.races.design import Cell, Design, main_metric
from acclimate.races.facts import looks_of
from acclimate.races.outcome import (
    LEARNING_CURVE,
    CellResult,
    Outcome,
    StudyEnd,
    path_of,
    probe_row,
    read_outcome,
    write_outcome,
)
from acclimate.races.planning.budget import Budget
from acclimate.races.planning.dry_run import DryRun, dry_run
from acclimate.races.race import design as race_design
from acclimate.races.race import materials_for
from acclimate.races.recipe import RaceRecipe
from acclimate.races.report import PAGE, RACE, race_page, read_report
from acclimate.races.report import write_page as write_race_page
from acclimate.races.rounds import RESERVE, as_raced
from acclimate.races.run import run
from acclimate.races.tables import page_of, write_page
from acclimate.races.work import checkpoint_of
from acclimate.reading.splitting import nested_subsets
from acclimate.reports.page import Drawing, Page, Section, TableCell, sheet
from acclimate.reports.plots import label_curves
from acclimate.reports.table import UNTOUCHED
from acclimate.statistics.significance import ONE_ADAPTATION
from acclimate.statistics.worth import FEWEST_DRAWS, Range, Worth, worth_in_labels
from acclimate.tasks.prepared import Prepared, open_prepared, shares_of, with_fewer
from acclimate.tasks.rows import encoded, places_of, with_labels
from acclimate.tasks.task import PROBED
from acclimate.tasks.thresholds import Threshold
from acclimate.training.checkpoint import CLOCK
from acclimate.training.plan import Precision, move_to_device

NAME = "learning-curve"  # its files are NAME.html, .txt, .csv, .outcome.json
PROBE, TUNED = "probe", "fine-tuned"  # what stands behind the model's name in a row of the tables
MEANS = {PROBE: "probes", TUNED: "fine-tuning"}
SOME = "best adapted"  # the row of a contestant that is not known before the race has ended
FEWEST_ROWS = 10  # of a part; smaller ones are left out
STATES = "states.safetensors"
TITLE = "Worth in labels"
FEW = (
    f"No learning curve of fine-tuning: the budget left fewer than {FEWEST_DRAWS} seeds, too few to measure the "
    "worth of adapting in labels."
)


def check(recipe: RaceRecipe, materials: Materials, *, probe_only: bool = False) -> None:
    """Raises ValueError, before the race, where no learning curve could follow it."""
    task, curve = materials.task, recipe.learning_curve
    names = recipe.names(domain=materials.domain is not None, general=materials.general is not None, kind=task.kind)
    if not any(name not in (*UNTUNED, scratch.CONTROL) for name in names):
        raise ValueError(
            f"{option('learning_curve')} compares the untouched model with the best adapted one, but no contestant "
            "is adapted. Remove it, or name one in contestants, such as TAPT"
        )
    if probe_only and curve.finetune == "yes":
        why = f"learning_curve.finetune = 'yes', but {option('probe_only')} fine-tunes nothing"
        raise ValueError(f"{why}. Remove one of them")
    if curve.finetune == "yes" and recipe.seeds < FEWEST_DRAWS:
        raise ValueError(
            f"learning_curve.finetune = 'yes' with seeds = {recipe.seeds}: fewer than {FEWEST_DRAWS} fine-tunings "
            f"of each size are too few to measure the worth of adapting in labels. Set seeds={FEWEST_DRAWS}, or "
            "learning_curve.finetune=no"
        )
    if task.kind == "search":
        raise ValueError(f"{option('learning_curve')} does not support search tasks. Remove it")
    if task.kind not in PROBED and curve.finetune != "yes":
        raise ValueError(
            f"{option('learning_curve')}: a task of kind '{task.kind}' has no probe. Set "
            f"learning_curve.finetune=yes, or remove {option('learning_curve')}"
        )
    sizes_of(task, curve.shares)


def follow(
    recipe: RaceRecipe,
    materials: Materials,
    out: Path,
    *,
    budget: Budget | None = None,
    probe_only: bool = False,
    watch: Watch = unwatched,
) -> StudyEnd:
    """Do what is missing of the learning curves after the race in `out`, and write their page.

    recipe, materials, budget, probe_only: of the race
    """
    race = race_design(recipe, materials, budget=budget, probe_only=probe_only)
    raced = read_outcome(path_of(out, RACE))
    if not best_adapted(raced, race.searches[0].entries):
        return StudyEnd("Learning curves: none, because every adapted contestant failed to learn.")
    tunes = _tunes(race, raced, out, budget)
    if not tunes and materials.task.kind not in PROBED:
        return StudyEnd(f"Learning curves: none. {FEW}")
    outcome = run(design(race, out, out, raced=raced, tunes=tunes), out, watch=watch)
    text = write_page(page(outcome), NAME, out)
    if ranks.is_first() and raced.race is not None:  # each part was a look at the test set
        write_outcome(replace(raced, race=replace(raced.race, looks=looks_of(materials.task, out))), out)
    ranks.wait()
    add_to_race_page(out)
    failed = {", ".join(filter(None, key)): why for key, why in outcome.failed.items()}
    return StudyEnd(f"{text}\nLearning curves: {out / NAME}.html", failed)


def dry_run_for(
    inputs: Inputs, recipe: RaceRecipe, *, budget: Budget | None = None, probe_only: bool = False
) -> DryRun:
    """Return what a race with learning curves would still do in `inputs.out`, and its cost. Writes nothing there."""
    out = inputs.out
    raced = read_outcome(path_of(out, RACE)) if path_of(out, RACE).exists() else None
    if raced is not None and raced.only_probed and not probe_only:
        raced = None  # the race itself is still to come
    with TemporaryDirectory() as place:
        materials = materials_for(replace(inputs, out=Path(place)), recipe, budget=budget, trains=False)
        check(recipe, materials, probe_only=probe_only)
        race = race_design(recipe, materials, budget=budget, probe_only=probe_only)
        curves = design(race, out, Path(place), raced=raced, tunes=recipe.learning_curve.finetune == "yes")
        notes = list(race.notes)
        if raced is None:
            notes.append(f"The {SOME} contestant is known only after the race.")
        if budget is not None and recipe.learning_curve.finetune == "budget":
            notes.append("Learning curves of fine-tuning follow if enough budget remains. They are not counted.")
        return dry_run(replace(race, cells=curves.cells, notes=tuple(notes)), out)


def design(race: Design, out: Path, place: Path, *, raced: Outcome | None, tunes: bool) -> Design:
    """Return the learning curves that follow a race with an adapted contestant, as a study.

    place   the directory in which parts of the task are written; a dry run has a temporary one
    raced   None before the race has ended: the untouched model then stands for the best adapted contestant too
    tunes   True if models are fine-tuned on parts of the rows

    Raises ValueError if there are too few rows for two sizes, or if the race has no fine-tuning to repeat.
    """
    [search] = race.searches
    entries = as_raced(search, out, rounds=raced.rounds if raced else None)
    task, curve = entries.materials.task, race.race.learning_curve
    sizes = sizes_of(task, curve.shares)
    best = (best_adapted(raced, entries) if raced else "") or SOME
    cells: list[Cell] = []
    if task.kind in PROBED:
        for name in (UNTOUCHED, best):
            cells += _probed(name, entries, sizes, draws=curve.draws, seed=curve.seed)
    if tunes:
        for name in (UNTOUCHED, best):
            recipe = entries.recipe.finetune if raced is None else _tuning_of(raced, name, out)
            cells += _tuned(name, recipe, entries, sizes, place, seed=curve.seed)
    keys = {cell.key for cell in cells} | ({("", f"{best}, {TUNED}", column(sizes[-1]))} if tunes else set())
    against = [
        Against(key, (("", f"{UNTOUCHED}, {kind}", column(size)),), UNTOUCHED, f"all sizes, {kind}")
        for kind in (PROBE, TUNED)
        for size in sizes
        if (key := ("", f"{best}, {kind}", column(size))) in keys
    ]
    return Design(
        name=NAME,
        title=f"Learning curves on {task.name}",
        source="",
        cells=tuple(cells),
        against=tuple(against),
        axes=("contestant", "labels"),
        metrics=main_metric,
        notes=(
            f"Draws of the labelled rows: {curve.draws} for probes"
            + (f", {entries.recipe.seeds} for fine-tuning" if tunes else "")
            + f", seed {curve.seed}; each label in proportion. Both models learn from the same rows.",
            "In the tables, seed means draw.",
            *([FEW] if curve.finetune == "yes" and not tunes else []),
            "An interval at one size is about these training rows. The worth in labels also counts chance over which "
            "rows were labelled (statistics/worth.py).",
        ),
        race=race.race,
        study=LEARNING_CURVE,
        follows=True,
        completed=partial(_completed, raced=raced, names=(UNTOUCHED, best) if tunes else (), size=sizes[-1]),
    )


def sizes_of(task: Prepared, shares: Sequence[float]) -> list[int]:
    """Return the numbers of rows to learn from, ascending; the last is all. Raises ValueError if there is no other."""
    rows = task.sizes["train"]
    parts = sorted({round(share * rows) for share in shares} - {rows})
    sizes = [*(part for part in parts if part >= FEWEST_ROWS), rows]
    if len(sizes) < 2:
        raise ValueError(
            f"{rows} training rows are too few for learning curves: no part of learning_curve.shares has "
            f"{FEWEST_ROWS} rows. Remove {option('learning_curve')}"
        )
    return sizes


def column(size: int) -> str:
    """Return the heading of a size."""
    return f"{size:,} labels"


def best_adapted(raced: Outcome, entries: Entries) -> str:
    """Return the adapted contestant with the best mean on dev: of fine-tunings, or of probes if none was fine-tuned;
    "" if none came to its end and learnt something.
    """
    names = [name for name in entries.models if name not in (UNTOUCHED, scratch.CONTROL, *entries.own_materials)]
    for rows in ({name: name for name in names}, {probe_row(name): name for name in names}):
        candidates = [result for result in raced.results if result.row in rows and result.scores]
        if candidates := [result for result in candidates if result.learnt and not result.failed]:
            return rows[max(candidates, key=lambda result: np.mean([score.dev for score in result.scores])).row]
    return ""


def _tuning_of(raced: Outcome, name: str, out: Path) -> FinetuneRecipe:
    """Return the settings with which the race fine-tuned a contestant in the end.

    Raises ValueError if it fine-tuned none.
    """
    cell = next((result for result in raced.results if result.row == name and result.jobs), None)
    if cell is None:
        raise ValueError(f"learning_curve.finetune = 'yes', but the race has no fine-tuning of {name}. Remove it")
    test = files.read_object(out / DIRECTORY / cell.jobs[0] / JOB)
    tuned = files.read_object(out / DIRECTORY / test["needs"]["tuned"] / JOB)
    recipe: FinetuneRecipe = settings.from_mapping(FinetuneRecipe, tuned["settings"]["recipe"])
    return recipe


def _tunes(race: Design, raced: Outcome, out: Path, budget: Budget | None) -> bool:
    """Return True if models are fine-tuned on parts of the rows: asked for, or paid by what is left of the budget.

    It is decided once a race; each fine-tuning is taken to cost as much as one on all rows. With fewer than
    FEWEST_DRAWS seeds, which may be all that a budget leaves, nothing is fine-tuned.
    """
    curve, [search] = race.race.learning_curve, race.searches
    entries = as_raced(search, out, rounds=raced.rounds)
    if entries.recipe.seeds < FEWEST_DRAWS:
        return False
    if curve.finetune != "budget" or budget is None:
        return curve.finetune == "yes"
    best = best_adapted(raced, search.entries)
    tuned = [result.costs["tuning"] for result in raced.results if result.row in (UNTOUCHED, best)]
    if len(tuned) < 2:  # the race fine-tuned none
        return False
    parts = len(sizes_of(search.entries.materials.task, curve.shares)) - 1
    runs = parts * entries.recipe.seeds * sum(getattr(cost, budget.unit) for cost in tuned)
    decision_settings = {
        name: value for name, value in settings.to_mapping(race.race).items() if name not in ("margin", "until")
    }  # they choose later
    key = f"learning-curve-{settings.digest([budget.text, best, decision_settings])[:12]}"
    return bool(decided(out, key, lambda: budget.spent(out) + runs <= budget.amount * (1 - RESERVE[budget.unit])))


# Cells


def _probed(name: str, entries: Entries, sizes: Sequence[int], *, draws: int, seed: int) -> Iterator[Cell]:
    """Yield the cells of probes: a job for each size and draw, and one for all draws of all rows."""
    materials = entries.materials
    task, contents = materials.task, contents_of(materials.task, "about", *SPLITS)
    model_of = {draw: entries.model(UNTOUCHED if name == SOME else name, draw) for draw in range(draws)}
    places, tuning = {"task": task.path}, entries.recipe.finetune  # whose settings the race's probes have too
    threshold = {"threshold": "half", **threshold_of(tuning, task)}
    for size in sizes:
        encodings: dict[int, Job] = {}
        fitted: dict[int, Job] = {}
        for draw, model in model_of.items():
            read = Job(f"states of {name}", ENCODE, {"precision": PROBE_PRECISION}, contents, places, alone=True)
            states = with_model(read, model, materials)
            label = f"test probe of {name}, {column(size)}"
            drawn = {"rows": size, "seed": 0, **threshold}
            if size < sizes[-1]:
                label, drawn["seed"] = f"{label}, draw {draw}", seed + draw
            job = Job(label, TEST_PART, {"by": label, **drawn}, contents, places, {"states": states}, alone=True)
            encodings[draw], fitted[draw] = states, with_model(job, model, materials)
        costs = {
            "reading": {draw: [job] for draw, job in encodings.items()},
            "fitting": {draw: [job] for draw, job in fitted.items()},
        }
        yield Cell(f"{name}, {PROBE}", column(size), fitted, costs, replace(materials, task=_smaller(task, size)))


def _tuned(
    name: str, recipe: FinetuneRecipe, entries: Entries, sizes: Sequence[int], place: Path, *, seed: int
) -> Iterator[Cell]:
    """Yield the cells of fine-tunings on parts of the rows."""
    materials, contestant = entries.materials, UNTOUCHED if name == SOME else name
    task = materials.task
    train = task.examples("train")
    subsets = {
        draw: nested_subsets(train, sizes[:-1], kind=task.kind, seed=seed + draw)
        for draw in range(entries.recipe.seeds)
    }
    for at, size in enumerate(sizes[:-1]):
        tuned, tests = {}, {}
        for draw, parts in subsets.items():
            # beside the race's task, so that looks at the test set are looks of this run
            where = place / f"data-{size}-seed-{seed + draw}"
            part = ranks.first_then_all(partial(with_fewer, task, parts[at], where))
            seeded = replace(recipe, plan=replace(recipe.plan, seed=draw))
            label = f"fine-tune {name}, {column(size)}, seed {draw}"
            tuned[draw] = fine_tuned(label, seeded, entries.model(contestant, draw), replace(materials, task=part))
            tests[draw] = tested(tuned[draw], part)
        costs = {"tuning": {draw: [job] for draw, job in tuned.items()}}
        yield Cell(f"{name}, {TUNED}", column(size), tests, costs, replace(materials, task=_smaller(task, size)))


def _smaller(task: Prepared, size: int) -> Prepared:
    """Return the task as tables have it, with so many rows of train. Its files are those of the whole task."""
    return replace(task, sizes={**task.sizes, "train": size})


def _completed(
    outcome: Outcome,
    tuned: Sequence[Any],
    out: Path,
    watch: Watch,
    *,
    raced: Outcome | None,
    names: Sequence[str],
    size: int,
) -> Outcome:
    """Return the outcome with the race's fine-tunings on all rows. names: of the models; none if none is fine-tuned"""
    assert raced is not None
    whole = []
    for name in names:
        result = next(result for result in raced.results if result.row == name)
        row = f"{name}, {TUNED}"
        scores = tuple(replace(score, contestant=row) for score in result.scores)
        task = replace(result.task, metrics=(result.task.metric,))
        costs = {stage: cost for stage, cost in result.costs.items() if stage == "tuning"}
        whole.append(replace(result, row=row, column=column(size), scores=scores, task=task, costs=costs))
    return replace(outcome, results=(*outcome.results, *whole))


# Jobs of probes: an encoder reads all texts once, and each part is a layer on its states.


def encode(*, out: Path, watch: Watch, task: Path, model: str | Path, precision: Precision) -> Result:
    """Write the states of train, dev and test by each read-out to STATES, and the labels of train; no label of test."""
    begun = time.perf_counter()
    where, prepared = checkpoint_of(model), open_prepared(task)
    if prepared.kind not in PROBED:
        raise ValueError(f"a task of kind '{prepared.kind}' cannot be probed. These kinds can: {', '.join(PROBED)}")
    tokenizer = load_tokenizer(where)
    encoder, has_pooler = probe.load_encoder(where)
    move_to_device(encoder)
    read_outs = probe.read_outs_of(prepared, tokenizer, has_pooler=has_pooler)
    spans = places_of(prepared, tokenizer)
    values: dict[str, np.ndarray] = {}
    tokens = 0
    for split in SPLITS:
        examples = prepared.examples(split)
        rows = encoded(prepared, split, examples, tokenizer, spans=spans)
        tokens += len(rows.ids)
        states = probe.states_of(encoder, rows, read_outs, precision=precision, watch=watch)
        values |= {f"{split}.{name}": states_RD for name, states_RD in states.items()}
        if split == "train":
            values["target"] = probe.probe_targets(with_labels(rows, examples, prepared.kind, prepared.labels))
            values["example"] = probe.examples_of_states(rows)
    files.write_bytes(out / STATES, save({name: np.ascontiguousarray(value) for name, value in values.items()}))
    files.write_record(out / CLOCK, {"seconds": time.perf_counter() - begun})
    return {"tokens": tokens}


def test_part(
    *,
    out: Path,
    watch: Watch,
    by: str,
    rows: int,
    seed: int,
    task: Path,
    model: str | Path,
    states: Path,
    threshold: Threshold,
) -> Result:
    """Fit a probe's layer on a drawn part of the training rows, and score it on dev and, once, on test.

    by: the name under which the look is recorded; states: the directory of `encode`
    """
    begun = time.perf_counter()
    prepared, values = open_prepared(task), load((states / STATES).read_bytes())
    train = prepared.examples("train")
    [part] = nested_subsets(train, [rows], kind=prepared.kind, seed=seed)
    drawn = np.isin(values["example"], part)
    of_train: dict[Any, np.ndarray] = {
        name.partition(".")[2]: states_RD[drawn] for name, states_RD in values.items() if name.startswith("train.")
    }
    target_R, groups_R = values["target"][drawn], probe.groups_of(train, values["example"][drawn])
    layer, _ = probe.fit(of_train, target_R, prepared.kind, max(1, len(prepared.labels)), groups_R=groups_R)
    if threshold == "dev":
        shares = shares_of(train[int(row)] for row in part)
        decision = probe.decided(layer, values[f"dev.{layer.read_out}"], prepared, shares=shares)
        layer = probe.shifted(layer, decision)
    tokenizer = load_tokenizer(checkpoint_of(model))

    def predicted(split: Split) -> tuple[list[Any], list[Any]]:
        examples = prepared.examples(split)
        outputs_RC = layer(values[f"{split}.{layer.read_out}"])
        return examples, probe.decoded(outputs_RC, encoded(prepared, split, examples, tokenizer), prepared)

    dev, predicted_dev = predicted("dev")
    examples, predicted_test = predicted("test")
    chosen = {"dev": prepared.score([example.label for example in dev], predicted_dev)}
    files.write_record(out / CLOCK, {"seconds": time.perf_counter() - begun})
    about = {"read_out": layer.read_out, "strength": layer.strength}
    return prepared.open_and_score(examples, predicted_test, by=by) | chosen | about


ENCODE = Work("states", encode, reads=("train", "dev", "test"))
TEST_PART = Work("test probe of a part", test_part, opens_test=True)


# The page


def page(outcome: Outcome) -> Page:
    """Return the page: what adapting is worth in labels, the curves, then the tables of every study."""
    worth_by_curve = worths(outcome)
    adaptations = {name: _one_adaptation(outcome, name) for name, _ in worth_by_curve}
    sentences = [
        sentence(worth, name, kind, one_adaptation=adaptations[name]) for (name, kind), worth in worth_by_curve.items()
    ]
    without = [kind for kind in _kinds(outcome) if kind not in {kind for _, kind in worth_by_curve}]
    sentences += [
        f"The worth of adapting in labels cannot be measured by {MEANS[kind]}: it needs both models' scores with "
        f"all labels and with fewer, and {FEWEST_DRAWS} draws."
        for kind in without
    ]
    usual = page_of(outcome, lambda outcome: [_section(worth_by_curve)])
    names = ("contestant", "learning", "better_with_all", "labels", "labels_low", "labels_high", "all_labels")
    heads = (*names, "gain_log2", "gain_log2_low", "gain_log2_high", "informative", "established")
    lines = [
        (
            *(name, kind, name if worth.gain.value >= 0 else UNTOUCHED),
            *(worth.labels.value, worth.labels.low, worth.labels.high, worth.rows[-1]),
            *(worth.gain.value, worth.gain.low, worth.gain.high, worth.informative, worth.established),
        )
        for (name, kind), worth in worth_by_curve.items()
    ]
    sheets = {**usual.sheets, f"{NAME}.worth.csv": sheet(heads, lines)}
    figures = {TITLE: list(_drawings(outcome, worth_by_curve))}
    return replace(usual, verdict=" ".join(sentences), figures=figures, sheets=sheets)


def add_to_race_page(run: Path) -> None:
    """Write the page of the race in `run` again, with what adapting is worth in labels first of what is folded."""
    curves = page(read_outcome(path_of(run, NAME)))
    raced = race_page(read_report(run))
    [worth] = [section for section in curves.sections if section.title == TITLE]
    worth = replace(worth, title="What is adapting worth in labels?", lead=curves.verdict, fold="closed")
    sections = [raced.sections[0], worth, *raced.sections[1:]]
    figures = {**raced.figures, worth.title: curves.figures[TITLE]}
    if ranks.is_first():
        write_race_page(run / PAGE, replace(raced, sections=sections, figures=figures))
    ranks.wait()


def _kinds(outcome: Outcome) -> list[str]:
    return [kind for kind in MEANS if any(result.row.endswith(f", {kind}") for result in outcome.results)]


def worths(outcome: Outcome) -> dict[tuple[str, str], Worth]:
    """Return (contestant, PROBE or TUNED) -> what it is worth in labels; without one where too little was scored."""
    worth_by_curve = {}
    for kind in _kinds(outcome):
        rows = list(dict.fromkeys(result.row for result in outcome.results if result.row.endswith(f", {kind}")))
        name = next((row.removesuffix(f", {kind}") for row in rows if not row.startswith(f"{UNTOUCHED},")), None)
        if name is None:
            continue
        sides = [_scored(outcome, f"{model}, {kind}") for model in (UNTOUCHED, name)]
        sizes = sorted(sides[0].keys() & sides[1].keys())
        whole = max(result.task.sizes["train"] for result in outcome.results)
        if len(sizes) < 2 or sizes[-1] != whole:
            continue
        drawn = [[outcome.compared.draws[side[size].key, MAIN] for size in sizes] for side in sides]
        seeds = set.intersection(*(set(draws.seeds) for several in drawn for draws in several))
        if len(seeds) < FEWEST_DRAWS:
            continue
        seed_places = [[[draws.seeds.index(seed) for seed in sorted(seeds)] for draws in several] for several in drawn]
        pairs = [list(zip(several, places, strict=True)) for several, places in zip(drawn, seed_places, strict=True)]
        points_CKR = np.array([[draws.points_S[places] for draws, places in side] for side in pairs])
        shares_CKn = np.array([[draws.shares_Sn[places].mean(axis=0) for draws, places in side] for side in pairs])
        worth_by_curve[name, kind] = worth_in_labels(sizes, points_CKR, shares_CKn)
    return worth_by_curve


def _scored(outcome: Outcome, row: str) -> dict[int, CellResult]:
    """Return size -> result of the cells of a row that did not fail and that learnt something."""
    results = [result for result in outcome.results if result.row == row and not result.failed and result.learnt]
    return {result.task.sizes["train"]: result for result in results}


def _one_adaptation(outcome: Outcome, name: str) -> bool:
    """True if all scores of the contestant rest on one adaptation."""
    results = [result for result in outcome.results if result.row.startswith(f"{name}, ")]
    return len({score.adaptation for result in results for score in result.scores} - {None}) == 1


def sentence(worth: Worth, name: str, kind: str, *, one_adaptation: bool) -> str:
    """Return in a sentence or two what adapting is worth in labels, for one kind of learning."""
    rows, labels = worth.rows, worth.labels
    least, whole = rows[0], rows[-1]
    models = {
        PROBE: ("the untouched model's probe", f"{name}'s probe"),
        TUNED: ("fine-tuning of the untouched model", f"fine-tuning of {name}"),
    }[kind]
    if not worth.informative:
        rises = [f"{model} gains {_rise(rise)} points" for model, rise in zip(models, worth.rises, strict=True)]
        return (
            f"The worth of adapting in labels cannot be measured by {MEANS[kind]}: from {least:,} to {whole:,} "
            f"labels {listed(rises)}, too little relative to chance."
        )
    better, other = models[::-1] if worth.gain.value >= 0 else models
    beyond = " or fewer" if worth.beyond else ""
    text = f"With {_labels(labels.value)}{beyond} [{interval_text(worth)}] labels {better} scores as {other} does with "
    text += f"{whole:,}"
    end = f"; it {ONE_ADAPTATION}." if one_adaptation else "."
    what = f"adapting {'saves' if worth.gain.value >= 0 else 'costs'} labels"
    return f"{text}: {what}{end}" if worth.established else f"{text}: that {what} is not established{end}"


def interval_text(worth: Worth) -> str:
    """Return the interval of the labels, such as `150, 260`, `44 or fewer, 120` or `210, more than 352`."""
    labels, least, whole = worth.labels, worth.rows[0], worth.rows[-1]
    low = f"{least:,} or fewer" if labels.low <= least * (1 + 1e-6) else _labels(labels.low)
    high = f"more than {whole:,}" if labels.high > whole * (1 + 1e-6) else _labels(labels.high)
    return f"{low}, {high}"


def _labels(value: float) -> str:
    """Return a number of labels, with two digits that count."""
    digits = max(0, int(np.floor(np.log10(max(value, 1)))) - 1)
    return f"{round(value / 10**digits) * 10**digits:,}" if value >= 100 else f"{round(value):,}"


def _rise(rise: Range) -> str:
    return f"{points(rise.value, sign='+')} [{points(rise.low, sign='+')}, {points(rise.high, sign='+')}]"


def _section(worth_by_curve: Mapping[tuple[str, str], Worth]) -> Section:
    rows, rises = [], []
    for (name, kind), worth in worth_by_curve.items():
        better, gain = name if worth.gain.value >= 0 else UNTOUCHED, worth.gain
        times = f"{2**gain.value:.2f} [{2**gain.low:.2f}, {2**gain.high:.2f}]"
        labels = TableCell(f"{_labels(worth.labels.value)} [{interval_text(worth)}]", worth.labels.value)
        rows.append((f"{name}, {kind}", better, labels, TableCell(times, gain.value)))
        gains = [f"{model} {_rise(rise)}" for model, rise in zip((UNTOUCHED, name), worth.rises, strict=True)]
        rises.append(f"Points from {worth.rows[0]:,} to {worth.rows[-1]:,} labels, {kind}: {listed(gains)}.")
    return Section(
        TITLE,
        ("", "better with all", "labels that it needs", "adapting is worth"),
        tuple(rows),
        (
            "Labels that it needs: the number of labels with which the better model scores the same as the other "
            "model with all labels. Adapting is worth: the equivalent factor in labels; below 1, adapting costs "
            "labels. 95% intervals, over draws of the labels, which rows were labelled, and test items. Results "
            "are not extrapolated: an interval that ends at the fewest labels or above all labels is open on that "
            "side.",
            *rises,
        ),
    )


def _drawings(outcome: Outcome, worth_by_curve: Mapping[tuple[str, str], Worth]) -> Iterator[Drawing]:
    for (name, kind), worth in worth_by_curve.items():
        curves = {}
        for model in (UNTOUCHED, name):
            scored = _scored(outcome, f"{model}, {kind}")
            intervals = {size: outcome.compared.intervals[scored[size].key, MAIN] for size in worth.rows}
            curves[model] = [(size, interval.mean, interval.low, interval.high) for size, interval in intervals.items()]
        metric = metric_text(outcome.results[0].task.metric)
        title = f"Test score against labels, {kind}"
        needed = worth.labels.value if worth.informative else None
        svg = label_curves(curves, f"test {metric}, points", title=title, needed=needed)
        yield Drawing(title, svg, wide=True)
