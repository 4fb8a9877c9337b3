"""Made-up scores: no figure in these tests was measured."""

from collections.abc import Callable

import numpy as np
import pytest

from acclimate.core.types import Cost, Score
from acclimate.study.report import Curves, Study
from acclimate.study.tables import per_label, rows
from acclimate.study.verdict import verdict
from acclimate.tasks.metrics import METRICS

LABELS = ("linalg", "optimize", "signal", "sparse", "special", "stats")
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
) -> list[Score]:
    """Scores whose expected accuracy is Phi(level / sqrt(2 + spread^2)): items differ in difficulty, seeds in luck."""
    shared = np.random.default_rng(0)
    gold = shared.choice(len(LABELS), size=items, p=[0.3, 0.2, 0.2, 0.15, 0.1, 0.05])
    difficulty = shared.normal(size=items)
    own = np.random.default_rng(sum(contestant.encode()))
    scores = []
    for seed in range(seeds):
        ease = level + own.normal(0, spread) - difficulty + own.normal(size=items) * (spread > 0)
        guess = np.where(ease > 0, gold, (gold + 1) % len(LABELS))
        gold_labels, predicted = (tuple(LABELS[i] for i in codes) for codes in (gold, guess))
        test = METRICS[metric].compute(gold_labels, predicted)
        ids = tuple(f"test-{i}" for i in range(items))
        dev = min(1.0, test + 0.01)
        scores.append(
            Score(contestant, "docstrings", metric, seed, dev, test, ids, gold_labels, predicted, adapting, finetuning)
        )
    return scores


@pytest.fixture
def make() -> Maker:
    return made_up_scores


@pytest.fixture(scope="session")
def field() -> list[Score]:
    """A race of six."""
    contestants = [
        made_up_scores("untouched", level=1.2, metric="macro_f1"),
        made_up_scores("TAPT", level=1.35, adapting=Cost(310_000, 2.1e12, 12.0), metric="macro_f1"),
        made_up_scores("DAPT", level=1.75, adapting=Cost(1_240_000, 8.6e12, 41.0), metric="macro_f1"),
        made_up_scores("DGA", level=1.7, adapting=Cost(1_240_000, 19.8e12, 96.0), metric="macro_f1"),
        made_up_scores("random weights", level=0.3, spread=0.15, metric="macro_f1"),
        made_up_scores(
            "TF-IDF + logistic regression", level=0.9, spread=0.0, finetuning=Cost(0, 0.0, 0.4), metric="macro_f1"
        ),
    ]
    return [score for scores in contestants for score in scores]


@pytest.fixture(scope="session")
def study(field: list[Score]) -> Study:
    table = rows(field, METRICS["macro_f1"])
    untouched, dapt = ([score for score in field if score.contestant == name] for name in ("untouched", "DAPT"))
    equal = {"seeds": "0 to 4", "epochs": 4, "rate": 5e-5, "batch": 32, "chosen on": "dev"}
    steps = {"untouched": 0, "TAPT": 120, "DAPT": 480, "DGA": 480, "random weights": 0}
    return Study(
        title="Docstrings: which way of adapting helps?",
        verdict=verdict(table, baselines={"TF-IDF + logistic regression"}),
        rows=table,
        task={
            "task": "docstrings, which SciPy subpackage a docstring documents",
            "source": "docstrings of installed packages",
            "metric": "macro-F1",
            "labels": LABELS,
            "sizes": {"train": 1200, "dev": 300, "test": 400},
        },
        curves={
            "Training loss of adapting": Curves(
                "step",
                "loss, nats a masked token",
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
        },
        losses={"TAPT": (4.31, 3.62), "DAPT": (4.31, 2.95), "DGA": (4.31, 2.98), "random weights": (10.32, 10.32)},
        given={name: equal | {"adapting steps": number} for name, number in steps.items()}
        | {"TF-IDF + logistic regression": {"seeds": "0 to 4", "chosen on": "dev", "C": 1.0}},
        winner="DAPT",
        labels=per_label(untouched, dapt),
        commands=["acclimate race task=docstrings methods=tapt,dapt,dga seeds=5", "acclimate report runs/docstrings"],
        versions={"acclimate": "0.1.0", "torch": "2.13.0"},
        hashes={"train": "3f" * 32, "model": "a7" * 32},
        environment={"device": "cpu", "cores": 2, "precision": "bfloat16"},
        notes=["These figures are made up for a test."],
    )
