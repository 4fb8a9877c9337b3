"""`run` does what is missing of a study or race, and records what it came to.

A cell whose jobs fail stands as failed with its reason, and the others go on: in every study.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from acclimate.core import ranks
from acclimate.core.types import Cost, Progress, Score, Watch, unwatched
from acclimate.jobs.job import Job, claim, failed_with, first_line, result_of, with_needs
from acclimate.jobs.run import do_all
from acclimate.races.compare import Key, mean_cost
from acclimate.races.contestants import MEASURED, adaptation_seed, tested
from acclimate.races.design import Cell, Design, HeldOutLosses, Search, entries_of, group_searches
from acclimate.races.facts import adapting_jobs
from acclimate.races.outcome import (
    CellResult,
    Chosen,
    Facts,
    HeldOutColumn,
    Outcome,
    ScoredTask,
    SearchRecord,
    best_on_dev,
    dev_row,
    encoder_to_train,
    path_of,
    probe_row,
    read_outcome,
    test_row,
    write_outcome,
)
from acclimate.races.pooling import pooled_cells, pooled_result
from acclimate.races.preparation import fit_untuned, make_models
from acclimate.races.report import PAGE, RACE
from acclimate.races.rounds import race_in_rounds, searched
from acclimate.races.search import DIVERGED, FineTuned, candidates_of
from acclimate.races.settling import Evaluation, evaluation_of
from acclimate.reports.live import live_page
from acclimate.reports.table import UNADAPTED, GeneralLoss
from acclimate.statistics.significance import FEWEST_SEEDS
from acclimate.training.checkpoint import LOG, spent


def run(design: Design, out: Path, *, watch: Watch = unwatched) -> Outcome:
    """Do what is missing of the study in the directory `out`, write the outcome there, and return it.

    Searches run first and yield cells; then all is trained, then the test set is opened, once a cell and seed. The page
    of the study shows meanwhile what is done (reports/live.py). Raises the error of the untouched model's jobs where a
    search has several contestants: there is nothing to compare then.
    """
    if not design.follows:
        claim(out, design.called)
    budgets = (search.budget for search in design.searches if search.budget is not None)
    seconds_left = next((partial(budget.left, out) for budget in budgets if budget.unit == "seconds"), None)
    page = PAGE if design.name == RACE else f"{design.name}.html"
    with live_page(design.title, out, out / page, watch, seconds_left=seconds_left) as live:
        return _run(design, out, live)


def _run(design: Design, out: Path, watch: Watch) -> Outcome:
    searches = _search(design, out, watch)
    cells = _sort_cells(design, pooled_cells([*design.cells, *searches.cells]))
    training = [job for cell in cells for job in cell.jobs]
    if design.split == "test":  # these jobs open the test set; what comes before them trains
        training = [needed for job in training for needed in job.needs.values()]
    measuring = [job for losses in design.losses for job in losses.jobs]
    columns = {(cell.model, cell.column) for cell in cells}
    watches: dict[str, Watch] = {}
    for cell in cells:
        named = _naming(watch, design, cell.row if len(columns) == 1 else cell.column)
        for job in with_needs(cell.jobs):
            watches.setdefault(job.name, named)
    errors = do_all([*training, *measuring], out, watch=watch, watches=watches)
    if design.split == "test":
        tests = [job for cell in cells for job in cell.jobs]
        tests = [job for job in tests if all(result_of(need, out) is not None for need in job.needs.values())]
        errors |= do_all(tests, out, watch=watch, watches=watches)

    reasons = {name: design.named(first_line(error)) for name, error in errors.items()}
    results = [_result(cell, design, searches.failed.get(cell.key, ""), reasons, out) for cell in cells]
    [rounds] = {tuned.rounds for tuned in searches.tuned} or {None}
    scored = {result.key for result in results}
    # a user may ask for two, which have intervals of little worth
    few = rounds is not None and rounds < FEWEST_SEEDS and (rounds < 2 or rounds < design.race.seeds)
    outcome = Outcome(
        name=design.name,
        title=design.title,
        source=design.source,
        results=tuple(results),
        against=() if few else tuple(pairing for pairing in design.against if pairing.key in scored or rounds is None),
        rounds=rounds,
        first_impression=few,
        means=design.means,
        axes=design.axes,
        split=design.split,
        losses=tuple(_losses(losses, [cell.row for cell in cells], out) for losses in design.losses),
        searches=tuple(searches.records),
        chosen=_chosen(design, cells, results, out, watch) if design.chosen_is_tested else None,
        notes=design.notes,
        absent=design.absent,
        study=design.study,
    )
    tuned = searches.tuned
    if design.refitted is not None:
        tuned = [*tuned, _refitted(design.refitted(encoder_to_train(results, design.race.margin)), out, watch)]
    if design.completed is not None:
        outcome = design.completed(outcome, tuned, out, watch)
    if ranks.is_first():
        write_outcome(outcome, out)
    ranks.wait()
    return read_outcome(path_of(out, design.name))


@dataclass
class _Searches:
    """What the searches of a design yield. failed: cell -> why it has no jobs"""

    cells: list[Cell] = field(default_factory=list)
    records: list[SearchRecord] = field(default_factory=list)
    tuned: list[FineTuned] = field(default_factory=list)
    failed: dict[Key, str] = field(default_factory=dict)


def _search(design: Design, out: Path, watch: Watch) -> _Searches:
    """Run the searches. One that fails yields a cell without jobs; several contestants need the untouched model."""
    all_searches = _Searches()
    for searches in group_searches(design.searches):
        search = searches[0]
        if not search.row:
            fold = search.entries.materials.fold
            watching = _naming(watch, design, str(fold)) if fold else watch
            evaluate = partial(_evaluate, search, design, out) if design.race.until == "settled" else None
            tuned = _together(search, out, watching, evaluate=evaluate)
            all_searches.tuned.append(tuned)
            if fold is None:
                all_searches.records.append(SearchRecord("", search.column, tuned.search.record))
            for name, why in tuned.failed.items():
                rows = [name]
                if not tuned.entries.fine_tunes or (fold and name not in tuned.entries.probes):
                    rows.append(probe_row(name))  # else its probe has a score
                for row in rows:
                    all_searches.failed.setdefault(("", row, search.column), design.named(why))
            all_searches.cells += _contestants(search, tuned)
            continue
        chosen, failed = _tune_models(searches, out, _naming(watch, design, search.column))
        for search in searches:
            [name] = search.entries.models
            if chosen is None or name in failed:
                all_searches.failed[search.key] = why = design.named(failed[name])
                watch(Progress(f"{search.column}: {search.row}", 0, 0, "steps", {"note": f"failed: {why}"}))
                cell = Cell(search.row, search.column, {}, {}, search.entries.materials, facts=search.facts)
            else:
                cell, trials = _chosen_of(search, chosen)
                all_searches.records.append(trials)
            all_searches.cells.append(cell)
    return all_searches


def _together(
    search: Search, out: Path, watch: Watch, *, evaluate: Callable[[FineTuned], Evaluation] | None = None
) -> FineTuned:
    """Search among several contestants, with a look at the test set after each round or none, or only probe them.

    evaluate: as of `race_in_rounds`
    """
    if search.rounds:
        return race_in_rounds(search.entries, out, budget=search.budget, evaluate=evaluate, watch=watch)
    if search.entries.fine_tunes:
        return searched(search.entries, out, watch=watch)
    entries, failed = fit_untuned(search.entries, out, watch)
    entries, lost, notes = make_models(entries, out, watch)
    return FineTuned(entries, notes=tuple(notes), failed={**failed, **lost})


def _evaluate(search: Search, design: Design, out: Path, tuned: FineTuned) -> Evaluation:
    """Return what the rounds of a race so far come to: the answer that it would have, if it ended here."""
    assert tuned.rounds is not None
    cells = [cell for cell in _contestants(search, tuned) if cell.jobs and cell.encoder and not cell.probe]
    facts = Facts(margin=design.race.margin, rivals=len(search.entries.models) - 1)
    outcome = Outcome(
        name=design.name,
        title=design.title,
        source=design.source,
        results=tuple(_result(cell, design, "", {}, out) for cell in cells),
        race=facts,
        rounds=tuned.rounds,
    )
    return evaluation_of(outcome.answer, rounds=tuned.rounds, margin=design.race.margin)


def _contestants(search: Search, tuned: FineTuned) -> Iterator[Cell]:
    """Yield a cell for each contestant that comes to the test set, and one without jobs for each that failed."""
    materials = search.entries.materials
    for name, tests in tuned.tests().items():
        jobs = tuned.tuned.get(name) or [job for test in tests for job in test.needs.values()]
        seeds = tuned.entries.seeds
        costs: dict[str, Any] = {"tuning": {seed: [job] for seed, job in zip(seeds, jobs, strict=True)}}
        if name in UNADAPTED:
            costs = {"tuning": {seed: [job.needs["fitted"], job] for seed, job in zip(seeds, jobs, strict=True)}}
        if name in tuned.tuned:
            adapting = {seed: adapting_jobs(name, tuned.entries, seed=seed) for seed in seeds}
            costs = {"adapting": adapting, **costs}
        encoder, by_seed = name in tuned.tuned, dict(zip(seeds, tests, strict=True))
        yield Cell(name, search.column, by_seed, costs, materials, facts=search.facts, encoder=encoder)
    for name, tests in tuned.entries.probe_tests().items():
        yield _probe(name, tests, search, tuned)
    for name in tuned.failed:
        encoder = name not in search.entries.untuned
        row = probe_row(name) if encoder and not tuned.entries.fine_tunes else name
        yield Cell(row, search.column, {}, {}, materials, facts=search.facts, encoder=encoder, probe=row != name)


def _probe(name: str, tests: Sequence[Job], search: Search, tuned: FineTuned) -> Cell:
    """Return the cell of a contestant's probe. tests: its looks at the test set, one for each adaptation"""
    jobs = {tuned.entries.seeds[number]: test for number, test in enumerate(tests)}
    costs = {
        "adapting": {number: adapting_jobs(name, tuned.entries, seed=number) for number in jobs},
        "probe": {number: [test.needs["fitted"]] for number, test in jobs.items()},
    }
    return Cell(probe_row(name), search.column, jobs, costs, search.entries.materials, facts=search.facts, probe=True)


def _tune_models(searches: Sequence[Search], out: Path, watch: Watch) -> tuple[FineTuned | None, dict[str, str]]:
    """Search the settings of one model, or one setting for several. Return what is fine-tuned, None where the search
    failed, and contestant -> why it has no score.
    """
    entries = entries_of(searches)
    try:
        fine_tuned = searched(entries, out, watch=watch)
    except Exception as error:
        if not isinstance(error, ValueError) and not failed_with(error, out):
            raise  # no job failed and no setting is at fault, so it is a mistake in the code
        return None, dict.fromkeys(entries.models, first_line(error))
    diverged = "training diverges with its best setting on dev. Lower search.rates"
    failed = {
        name: why if why and not why.startswith(DIVERGED.lost) else diverged
        for name in entries.models
        if (why := fine_tuned.failed.get(name, ""))
        or not (tuned := fine_tuned.tuned.get(name, ()))
        or any(result_of(job, out) is None for job in tuned)
    }
    return fine_tuned, failed


def _chosen_of(search: Search, fine_tuned: FineTuned) -> tuple[Cell, SearchRecord]:
    """Return the cell of a given model with the setting that dev chose, and what was tried."""
    [name] = search.entries.models
    tuned = fine_tuned.tuned[name]
    trials = [replace(trial, contestant=search.row) for trial in fine_tuned.search.record if trial.contestant == name]
    chosen = next(candidate.setting for candidate in fine_tuned.search.finalists if candidate.contestant == name)
    others = [
        search.entries.tuning(name, candidate.setting, 0)
        for candidate in candidates_of(search.entries)
        if candidate.setting != chosen
    ]
    facts = {"setting": chosen.name, "settings tried": 1 + len(others), "fine-tunings": len(tuned) + len(others)}
    task = search.entries.materials.task
    cell = Cell(
        search.row,
        search.column,
        {seed: tested(job, task) for seed, job in enumerate(tuned)},
        {
            **search.costs,
            "tuning": {seed: [job] for seed, job in enumerate(tuned)},
            "with the search": {0: [*others, *tuned]},
        },
        search.entries.materials,
        facts={**search.facts, **facts},
    )
    return cell, SearchRecord(search.row, search.column, tuple(trials))


def _refitted(search: Search, out: Path, watch: Watch) -> FineTuned:
    """Train the only contestant of the search on the usual split, or none where it has none, and fit the baseline.
    Where one of them fails, a note says so.
    """
    fitted, lost = fit_untuned(search.entries, out, unwatched)  # its score on dev is none to beat: the race is over
    notes = tuple(
        f"No {name} is saved, because its fit on the usual split failed ({why})." for name, why in lost.items()
    )
    search = replace(search, entries=replace(fitted, baseline=None, unadapted={}))
    unmeasured: dict[str, Any] = {name: {} for name in MEASURED}  # their jobs may lack results
    without = replace(fitted, models={}, **unmeasured)
    nothing = FineTuned(without, notes=notes)
    if not search.entries.models:
        return nothing
    [name] = search.entries.models
    try:
        refit = _together(search, out, watch)
        tuned = refit.tuned.get(name, ())
        if tuned and all(result_of(job, out) is not None for job in tuned):
            whole = replace(refit.entries, baseline=fitted.baseline, unadapted=fitted.unadapted)
            return replace(refit, entries=whole, notes=(*refit.notes, *notes))
        why = refit.failed.get(name, "it diverged")
    except Exception as error:
        if not isinstance(error, ValueError) and not failed_with(error, out):
            raise  # no job failed and no setting is at fault, so it is a mistake in the code
        why = first_line(error)
    note = f"No checkpoint is saved, because its training on the usual split failed ({why})."
    return replace(nothing, notes=(*notes, note))


def _sort_cells(design: Design, cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells by column, in the design's order of columns."""
    places = [*(cell.column for cell in design.cells), *(search.column for search in design.searches)]
    columns = [*dict.fromkeys(places)]
    return sorted(cells, key=lambda cell: columns.index(cell.column)) if design.searches else list(cells)


def _result(cell: Cell, design: Design, failed: str, reasons: Mapping[str, str], out: Path) -> CellResult:
    """Return what a cell came to: its scores, or why they are missing. reasons: name of a job -> why it failed"""
    if cell.folds:
        parts = [_result(fold, design, failed, reasons, out) for fold in cell.folds]
        return pooled_result(cell, parts, folds=design.race.folds)
    scores: list[Score] = []
    names: list[str] = []
    stage_costs = {
        stage: {seed: sum((cost_of(job, out) for job in jobs), Cost()) for seed, jobs in by_seed.items()}
        for stage, by_seed in cell.costs.items()
    }
    gold = [example.label for example in cell.task.examples("dev")] if design.split == "dev" else []
    for seed, job in cell.jobs_by_seed.items():
        result = result_of(job, out)
        if result is None:
            lost = next((needed for needed in with_needs([job]) if needed.name in reasons), None)
            failed = failed or (f"{design.named(lost.label)}: {reasons[lost.name]}" if lost else "not done")
            continue
        names.append(job.name)
        if design.split == "dev":
            score = dev_row(cell.row, seed, result, gold, cell.task)
        else:
            adapting, tuning = (stage_costs.get(stage, {}).get(seed, Cost()) for stage in ("adapting", "tuning"))
            about = _with_training(job, result, out)
            score = test_row(cell.row, seed, about, cell.task, adapting=adapting, finetuning=tuning)
        scores.append(replace(score, adaptation=adaptation_seed(job)))
    costs = {
        stage: mean_cost(cost for seed, cost in by_seed.items() if result_of(cell.jobs_by_seed[seed], out) is not None)
        for stage, by_seed in stage_costs.items()
    }
    metric = cell.task.metric
    return CellResult(
        *cell.key,
        task=ScoredTask(
            cell.task.name,
            cell.task.kind,
            metric.name,
            tuple(measure.name for measure in design.metrics(metric)),
            dict(cell.task.sizes),
        ),
        scores=tuple(scores),
        jobs=tuple(names),
        failed=failed,
        costs=costs,
        facts={**cell.facts, **({} if failed else design.measured(cell, out))},
        encoder=cell.encoder,
        probe=cell.probe,
        shown=cell.shown,
    )


def _with_training(test: Job, result: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """Return the result of a look at the test set, with the dev score of what was tested and whether it had learnt."""
    trained = [job_result for job in test.needs.values() if (job_result := result_of(job, out)) is not None]
    judged = [training for training in trained if "learnt" in training]
    about = {"learnt": any(training["learnt"] for training in judged) if judged else True}
    about["again"] = any(training.get("again", False) for training in judged)  # a probe has no second attempt
    if result.get("dev") is None:
        [tuned] = trained
        about["dev"] = tuned["dev"]
    return {**result, **about}


def cost_of(job: Job, out: Path) -> Cost:
    """Return what the job took. If its work keeps no log of steps, the tokens are those that its result states."""
    place, cost = job.directory(out), spent(job.directory(out))
    if (place / LOG).exists():
        return cost
    return replace(cost, tokens=cost.tokens + int((result_of(job, out) or {}).get("tokens", 0)))


def _losses(losses: HeldOutLosses, rows: Sequence[str], out: Path) -> HeldOutColumn:
    """Return the loss of each row, and of the untouched model if no row is it; of none if the model came without a
    head, so that no loss says anything.
    """
    name, job = losses.before
    before = result_of(job, out)
    if before is None or not before["head"]:
        return HeldOutColumn(losses.name, losses.meaning, {})
    losses_by_row = dict.fromkeys(rows, GeneralLoss())
    losses_by_row[name] = GeneralLoss(before[losses.unit])
    for row, jobs in losses.jobs_by_row.items():
        results = [result_of(job, out) for job in jobs]
        values = [result[losses.unit] for result in results if result is not None]
        if len(values) == len(results):
            after = values[0] if len(values) == 1 else sum(values) / len(values)
            losses_by_row[row] = GeneralLoss(after, after - before[losses.unit])
    return HeldOutColumn(losses.name, losses.meaning, losses_by_row)


def _chosen(
    design: Design, cells: Sequence[Cell], results: Sequence[CellResult], out: Path, watch: Watch
) -> Chosen | None:
    """Test the cell with the best mean on dev. Return its result and what it took to find it; None if all failed."""
    best = best_on_dev(results)
    if best is None:
        return None
    [cell] = [cell for cell in cells if cell.key == best.key]
    tests = {seed: tested(job, cell.task) for seed, job in cell.jobs_by_seed.items()}
    errors = do_all(tests.values(), out, watch=watch)
    reasons = {name: first_line(error) for name, error in errors.items()}
    result = _result(replace(cell, jobs_by_seed=tests), replace(design, split="test"), "", reasons, out)
    whole = {job.name: job for candidate in cells for job in _trained_for(candidate)}
    flops = (sum(cost_of(job, out).flops for job in jobs) for jobs in (whole.values(), _trained_for(cell)))
    return Chosen(result, len(cells), *flops)


def _trained_for(cell: Cell) -> Iterable[Job]:
    return (job for by_seed in cell.costs.values() for jobs in by_seed.values() for job in jobs)


def _naming(watch: Watch, design: Design, where: str) -> Watch:
    """Return the watch with stages named by what they are a part of, and models by their names."""

    def naming(progress: Progress) -> None:
        stage = design.named(progress.stage)
        watch(replace(progress, stage=stage if where in stage else f"{where}: {stage}"))

    return naming
