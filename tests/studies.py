"""Made-up races and the studies made of them: no figure in the tests that use these was measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from acclimate.core.types import Cost, Label, Score, Split
from acclimate.data.examination import (
    Copies,
    CorpusFacts,
    Examination,
    FileFacts,
    Finding,
    Leak,
    Lengths,
    Pieces,
    Sighting,
)
from acclimate.races.answer import answer_in_words
from acclimate.races.compare import Against, mean_cost
from acclimate.races.design import Cell
from acclimate.races.outcome import (
    CellResult,
    Curves,
    Facts,
    HeldOutColumn,
    LooksAtTest,
    Outcome,
    ScoredTask,
    SearchRecord,
    Trial,
    path_of,
    read_outcome,
)
from acclimate.races.race import against_untouched
from acclimate.races.report import RACE, RaceReport, search_remark
from acclimate.races.verdict import leakage_of
from acclimate.reports.labels import confusion, label_scores, mean_predictions
from acclimate.reports.table import HEADING, MEANING, general_loss_column
from acclimate.studies import stilt
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.task import Kind

LABELS = ("linalg", "optimize", "signal", "sparse", "special", "stats")
SIMPLE = "TF-IDF + logistic regression"
SHARES = (0.3, 0.2, 0.2, 0.15, 0.1, 0.05)
Maker = Callable[..., list[Score]]


def made_up_scores(
    contestant: str,
    *,
    level: float,
    seeds: int = 5,
    items: int = 400,
    spread: float = 0.06,
    adapting: Cost = Cost(),  # noqa: B008
    finetuning: Cost = Cost(90_000, 4e12, 31.0),  # noqa: B008
    metric: str = "accuracy",
    labels: Sequence[str] = LABELS,
) -> list[Score]:
    """Scores whose expected accuracy is Phi(level / sqrt(2 + spread^2)): items differ in difficulty, seeds in luck."""
    shared = np.random.default_rng(0)
    gold = shared.choice(len(LABELS), size=items, p=SHARES)
    difficulty = shared.normal(size=items)
    generator = np.random.default_rng(sum(contestant.encode()))
    scores = []
    for seed in range(seeds):
        ease = level + generator.normal(0, spread) - difficulty + generator.normal(size=items) * (spread > 0)
        guess = np.where(ease > 0, gold, (gold + 1) % len(LABELS))
        right, predicted = (tuple(labels[i] for i in codes) for codes in (gold, guess))
        scores.append(_score(contestant, metric, seed, (right, predicted), (adapting, finetuning)))
    return scores


def of_several(contestant: str, *, level: float, seeds: int = 3, items: int = 120) -> list[Score]:
    """As `made_up_scores`, with up to three labels an item."""
    pool = made_up_scores(contestant, level=level, seeds=seeds, items=3 * items)
    scores = []
    for score in pool:
        sides: list[tuple[Label, ...]] = []
        for side in (score.gold, score.predicted):
            sides.append(tuple(tuple(sorted(set(map(str, side[i : i + 3])))) for i in range(0, 3 * items, 3)))
        scores.append(_score(contestant, "micro_f1", score.seed, sides, (score.adapting, score.finetuning)))
    return scores


def of_numbers(contestant: str, *, level: float, seeds: int = 3, items: int = 120) -> list[Score]:
    """Numbers to predict, from 0 to 5; the higher `level`, the less the predictions are off."""
    shared, noise = np.random.default_rng(0), np.random.default_rng(sum(contestant.encode()))
    gold = shared.uniform(0, 5, size=items).round(1)
    scores = []
    for seed in range(seeds):
        predicted = (0.8 * gold + 0.5 + noise.normal(size=items) / level).round(3)
        sides = [tuple(map(float, side)) for side in (gold, predicted)]
        scores.append(_score(contestant, "pearson", seed, sides, (Cost(), Cost(90_000, 4e12, 31.0))))
    return scores


def race_of_six(labels: Sequence[str] = LABELS) -> list[Score]:
    tapt, dapt, dga = Cost(310_000, 2.1e12, 12.0), Cost(1_240_000, 8.6e12, 41.0), Cost(1_240_000, 19.8e12, 96.0)
    stated = [
        ("untouched", {"level": 1.2}),
        ("TAPT", {"level": 1.35, "adapting": tapt}),
        ("DAPT", {"level": 1.75, "adapting": dapt}),
        ("DGA", {"level": 1.7, "adapting": dga}),
        ("random weights", {"level": 0.3, "spread": 0.15}),
        (SIMPLE, {"level": 0.9, "spread": 0.0, "finetuning": Cost(0, 0.0, 0.4)}),
    ]
    return [score for name, more in stated for score in made_up_scores(name, metric="macro_f1", labels=labels, **more)]


def raced(
    scores: Sequence[Score],
    facts: Facts = Facts(),  # noqa: B008
    *,
    title: str = "Race",
    kind: Kind = "sequence",
    sizes: Mapping[Split, int] | None = None,
    failed: Mapping[str, str] | None = None,
    baselines: Sequence[str] = (),
    trials: Sequence[Trial] = (),
    pretraining: Mapping[str, Cost] | None = None,
    notes: Sequence[str] = (),
) -> Outcome:
    """A race with these scores: the untouched model first, then by falling mean, then what failed."""
    by_contestant: dict[str, list[Score]] = {}
    for score in sorted(scores, key=lambda score: score.seed):
        by_contestant.setdefault(score.contestant, []).append(score)
    means = {name: np.mean([score.test for score in several]) for name, several in by_contestant.items()}
    lost = failed or {}
    names = [*sorted(by_contestant, key=lambda name: (name != "untouched", -means[name], name)), *lost]
    task = ScoredTask(scores[0].task, kind, scores[0].metric, (scores[0].metric,), sizes or {})

    def result(name: str) -> CellResult:
        of_name = by_contestant.get(name, [])
        stages = {"adapting": "adapting", "tuning": "finetuning"}
        costs = {stage: mean_cost(getattr(score, paid) for score in of_name) for stage, paid in stages.items()}
        costs |= {"pretraining": pretraining.get(name, Cost())} if pretraining else {}
        return CellResult(
            "",
            name,
            task.name,
            task,
            scores=tuple(of_name),
            jobs=tuple(f"test-{name}-{score.seed}" for score in of_name),
            failed=lost.get(name, ""),
            costs=costs if of_name else {},
            encoder=name not in baselines,
        )

    losses = general_loss_column(names, facts.general_losses)
    return Outcome(
        "race",
        title,
        "",
        tuple(map(result, names)),
        against_untouched(names, task.name),
        losses=(HeldOutColumn(HEADING, MEANING, losses),) if losses else (),
        searches=(SearchRecord("", task.name, tuple(trials)),) if trials else (),
        notes=tuple(notes),
        race=facts,
    )


def recorded(run: Path) -> Outcome:
    """What the race in a directory left."""
    return read_outcome(path_of(run, RACE))


def altered(report: RaceReport, **changes: Any) -> RaceReport:
    """The report with other values of its fields, of its outcome's or of its facts'."""
    of_report = {name: value for name, value in changes.items() if name in {each.name for each in fields(RaceReport)}}
    facts = {name: value for name, value in changes.items() if name in {each.name for each in fields(Facts)}}
    rest = {name: value for name, value in changes.items() if name not in of_report | facts}
    outcome = of_report.pop("outcome", report.outcome)
    return replace(report, **of_report, outcome=replace(outcome, race=replace(report.facts, **facts), **rest))


def bare(report: RaceReport, **changes: Any) -> RaceReport:
    """The scores of the report alone."""
    outcome = replace(report.outcome, race=Facts(task=report.facts.task), searches=(), losses=())
    return altered(RaceReport(outcome=outcome, answer=report.answer), **changes)


def searched(trials: Sequence[Trial]) -> tuple[SearchRecord, ...]:
    """The record of a search with these trials."""
    return (SearchRecord("", "docstrings", tuple(trials)),)


def report_of_six(field: Sequence[Score], labels: Sequence[str] = LABELS) -> RaceReport:
    """Everything that a page can show, but for what a task of numbers shows."""
    losses = {"TAPT": (3.87, 3.93), "DAPT": (3.87, 4.36), "DGA": (3.87, 3.86)}
    by_contestant = {name: [score for score in field if score.contestant == name] for name in ("untouched", "DAPT")}
    equal = {"seeds": "0 to 4", "epochs": 4, "rate": 5e-5, "batch": 32, "chosen on": "dev"}
    steps = {"untouched": 0, "TAPT": 120, "DAPT": 480, "DGA": 480, "random weights": 0}
    examined, search = examination(labels), trials([*steps, "TLM"])
    facts = Facts(
        task={
            "task": "docstrings, which SciPy subpackage a docstring documents",
            "source": "docstrings of installed packages",
            "metric": "macro-F1",
            "labels": labels,
            "sizes": {"train": 1200, "dev": 300, "test": 400},
        },
        curves=_curves(),
        losses={"TAPT": (4.31, 3.62), "DAPT": (4.31, 2.95), "DGA": (4.31, 2.98), "random weights": (10.32, 10.32)},
        general_losses=losses,
        given={name: equal | {"adapting steps": number} for name, number in steps.items()}
        | {SIMPLE: {"seeds": "0 to 4", "chosen on": "dev", "C": 1.0}},
        use="DAPT",
        encoder="DAPT",
        search_note="Three rungs: each kept the better half of the settings on dev, and the untouched model always.",
        chosen=dict.fromkeys(steps, "rate 5e-05, batch 32"),
        stopped="nothing could win any more",
        looks=LooksAtTest(
            30, 5, 34, ["2026-11-02 14:10, race runs/first: 7 looks", "2026-11-03 09:41, race runs/second: 27"]
        ),
        examination=examined,
        commands=["acclimate race task=docstrings methods=tapt,dapt,dga seeds=5", "acclimate report runs/docstrings"],
        versions={"acclimate": "0.1.0", "torch": "2.13.0"},
        hashes={"train": "3f" * 32, "model": "a7" * 32},
        environment={"device": "cpu", "cores": 2, "precision": "bfloat16"},
    )
    outcome = raced(
        field,
        facts,
        title="Docstrings: which way of adapting helps?",
        sizes={"train": 1200, "dev": 300, "test": 400},
        baselines=[SIMPLE],
        trials=search,
        notes=["These figures are made up for a test."],
    )
    return RaceReport(
        outcome=outcome,
        answer=answer_in_words(outcome),
        remarks=[search_remark([SearchRecord("", "docstrings", tuple(search))], {})],
        alerts=["A copy of 3 training texts stands in dev."],
        labels=label_scores(by_contestant["untouched"], by_contestant["DAPT"]),
        confusions=[confusion(side) for side in by_contestant.values()],
        leakage=leakage_of(examined.leaks, outcome, examined.leaked["test"]),
    )


def trials(contestants: Sequence[str]) -> list[Trial]:
    """Three rungs of four, two and one settings each."""
    found = []
    for place, name in enumerate(contestants):
        for rung, left in enumerate((4, 2, 1)):
            for number in range(left):
                kept = number < max(1, left // 2)
                dev = 0.7 + 0.02 * rung - 0.01 * number + 0.003 * place
                why = "" if kept else "behind on dev"
                setting = f"rate {(5, 3, 2, 1)[number]}e-05, batch 32"
                found.append(Trial(name, setting, rung, 60 * 2**rung, 1 + 2 * (rung > 1), dev, kept, why))
    return found


def examination(labels: Sequence[str] = LABELS) -> Examination:
    """What a doctor might say of the race of six."""
    sizes = {"train": 1200, "dev": 300, "test": 400}
    twin = Sighting(
        "train-9",
        "test-3",
        1.0,
        "solve a linear",
        "Solve a linear system.",
        "solve a linear system",
        labels[0],
        labels[1],
    )
    return Examination(
        task={"name": "docstrings", "kind": "sequence", "metric": "macro_f1", "labels": "6", "max_tokens": "128"},
        files=(
            FileFacts("data/train.csv", 1204, 1200, 4, (("the text (column 'text') is empty", 4, "train.csv:118"),)),
            FileFacts("data/test.csv", 400, 400, 0),
        ),
        splits=sizes,
        label_counts={
            split: {label: round(size * share) for label, share in zip(labels, SHARES, strict=True)}
            for split, size in sizes.items()
        },
        quantiles={},
        lengths=Lengths("tokens", 500, 112, 240, 804, 128, 512, 0.031, 0.002, 0.12, 256),
        pieces=(Pieces("task texts", 500, 40_000, 1.9, 0.61, 0.0001, (("eigendecomposition", 5, 12),)),),
        corpora=(CorpusFacts("domain", "data/abstracts", 3_000, 4_100_000, 7),),
        leaks=(Leak("train", "test", "exact", 12, 12, 0.03, 11, (twin,)), Leak("domain", "test", "near", 5, 4, 0.01)),
        copies=(Copies("train", 3, 4, 1),),
        leaked={"test": frozenset(f"test-{i}" for i in range(12))},
        findings=(
            Finding("error", "dev.csv:17: the label 'Stats' occurs in dev only.", "Correct the file."),
            Finding("warning", "3.1% of the training texts are longer than is read of them.", "Set --max-tokens 256."),
            Finding("note", "The texts break into 1.9 pieces per word."),
        ),
        detectable=0.034,
        reach="With 400 test items and 5 seeds a true difference of 3.4 points is found 80 times in a hundred.",
    )


def _curves() -> dict[str, Curves]:
    return {
        "Training loss of adapting": Curves(
            "step",
            "loss, nats per masked token",
            {
                name: [(x, 3 + 4 * np.exp(-x / (60 + 9 * i)) - 0.05 * i) for x in range(1, 481, 4)]
                for i, name in enumerate(("TAPT", "DAPT", "DGA"))
            },
        ),
        "Dev macro-F1 during fine-tuning": Curves(
            "epoch",
            "macro-F1, points",
            {
                name: [(x, 70 + 3 * i + 8 * (1 - 2.0**-x)) for x in range(1, 5)]
                for i, name in enumerate(("untouched", "TAPT", "DAPT"))
            },
        ),
    }


def report_of_numbers() -> RaceReport:
    """A task whose label is a number."""
    sides = {name: of_numbers(name, level=level) for name, level in (("untouched", 1.0), ("DAPT", 2.0))}
    facts = Facts(task={"metric": "pearson"}, use="DAPT", encoder="DAPT")
    outcome = raced([score for side in sides.values() for score in side], facts, title="Similarity", kind="score")
    predictions = {name: mean_predictions(side) for name, side in sides.items()}
    return RaceReport(outcome=outcome, answer=answer_in_words(outcome), predictions=predictions)


def result(
    row: str,
    level: float = 1.0,
    column: str = "Genes",
    *,
    seeds: int = 5,
    failed: str = "",
    metric: str = "accuracy",
    **more: Any,
) -> CellResult:
    """What a cell came to on a task of 400 items: scores by `made_up_scores`, whose luck hangs on the cell's name."""
    scores = [] if failed else made_up_scores(f"{column}, {row}", level=level, seeds=seeds)
    named = (replace(score, contestant=row, task=column, metric=metric) for score in scores)
    task = ScoredTask(column, "sequence", metric, (metric,), {"train": 100, "dev": 20, "test": 400})
    costs = {"first": Cost(1, 2e9, 3.0), "target": Cost(4, 5e9, 6.0)}
    jobs = () if failed else tuple(f"job-{seed}" for seed in range(seeds))
    return CellResult(more.pop("model", ""), row, column, task, tuple(named), jobs, failed=failed, costs=costs, **more)


def outcome_of_pairs(*, names: Sequence[str] = ("Genes", "Drugs", "Cells"), failed: str = "") -> Outcome:
    """Three targets of two types; what goes before the first helps a lot, what goes before the last harms.

    failed: a first task that fails before every target
    """
    members: list[Any] = [
        SimpleNamespace(name=name, type=kind) for name, kind in zip(names, ("NER", "RE", "RE"), strict=True)
    ]
    gains = dict(zip(names, (1.0, 0.0, -1.0), strict=True))
    results = []
    for target in names:
        for row in ("baseline", *names, *(f"as many steps as with {name}" for name in names), "more steps"):
            facts = {"target type": "NER" if target == names[0] else "RE", "leaks": 2 * (row == names[0])}
            level = 1.2 + gains[target] * (row in names and row != target)
            why = "seed 0: its loss is not a number" * (row == failed)
            shown = not row.startswith("as many")
            results.append(result(row, level, target, failed=why, facts=facts, shown=shown))
    cells = [Cell(each.row, each.column, {}, {}, None, shown=each.shown) for each in results]  # type: ignore[arg-type]
    groups = stilt._groups(cells, members)
    against = [
        *stilt._comparisons(cells, SimpleNamespace(name="small model")),  # type: ignore[arg-type]
        *(Against(group.key, (alone.key,), stilt.TYPES, "the groups of pairs") for group, alone in groups),
    ]
    return Outcome(
        "stilt",
        "Intermediate tasks: small model",
        "After no paper.",
        tuple(results),
        tuple(against),
        tuple(mean for pair in groups for mean in pair),
        axes=("first", "target"),
        absent={"HoC": "there is no folder hoc"},
    )


def _score(
    contestant: str, metric: str, seed: int, sides: Sequence[tuple[Label, ...]], costs: tuple[Cost, Cost]
) -> Score:
    gold, predicted = sides
    test = METRICS[metric].compute(gold, predicted)
    ids = tuple(f"test-{i}" for i in range(len(gold)))
    return Score(contestant, "docstrings", metric, seed, min(1.0, test + 0.01), test, ids, gold, predicted, *costs)
