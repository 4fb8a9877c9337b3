"""What guesses score: runs that only guess stand out one time in twenty, and runs that know a little mostly do."""

from types import SimpleNamespace

import numpy as np
import pytest

from acclimate.core.types import Example
from acclimate.tasks.chance import chance, exceeds_chance, nothing_learnt
from acclimate.tasks.constant import constant_on_dev
from acclimate.tasks.metrics import metric_named

WORDS = [f"w{number}" for number in range(40)]


def task_of(kind, metric, examples):
    found = metric_named(metric)
    return SimpleNamespace(kind=kind, metric=found, score=found.compute, examples=lambda split: examples)


def labels(random, knows, looks):
    """Of three labels: each look gives the right one for a share of the texts, and guesses for the others."""
    gold = random.choice(["a", "b", "c"], 60, p=[0.5, 0.3, 0.2])
    given = [np.where(random.random(60) < knows, gold, random.permutation(gold)) for _ in range(looks)]
    return gold.tolist(), [look.tolist() for look in given]


def several(random, knows, looks):
    sets = [tuple(name for name, has in zip("abc", row, strict=True) if has) for row in random.random((60, 3)) < 0.3]
    others = random.integers(60, size=(looks, 60))
    given = [[sets[at if random.random() < knows else other] for at, other in enumerate(row)] for row in others]
    return sets, given


def numbers(random, knows, looks):
    gold = random.normal(size=60)
    return gold.tolist(), [(knows * gold + random.normal(size=60)).tolist() for _ in range(looks)]


def tags(random, knows, looks):
    def sentence():
        return tuple(random.choice(["B-X", "I-X", "O"], 12, p=[0.15, 0.1, 0.75]).tolist())

    gold = [sentence() for _ in range(20)]
    return gold, [[each if random.random() < knows else sentence() for each in gold] for _ in range(looks)]


def spans(random, knows, looks):
    def answer():
        start, length = random.integers(37), random.integers(1, 4)
        return (" ".join(WORDS[start : start + length]),)

    gold = [answer() for _ in range(30)]
    return gold, [[each if random.random() < knows else answer() for each in gold] for _ in range(looks)]


KINDS = {
    "sequence": (labels, "macro_f1"),
    "multilabel": (several, "micro_f1"),
    "score": (numbers, "pearson"),
    "tokens": (tags, "entity_f1"),
    "span": (spans, "f1"),
}


def stands_out(kind, knows, looks, runs):
    """How many of the runs stand out, and how many are above the best constant answer."""
    draw, metric = KINDS[kind]
    far, above = 0, 0
    for run in range(runs):
        gold, given = draw(np.random.default_rng(run), knows, looks)
        text = " ".join(WORDS[:12] if kind == "tokens" else WORDS)
        examples = [Example(str(at), text, label) for at, label in enumerate(gold)]
        task = task_of(kind, metric, examples)
        above += max(task.score(gold, look) for look in given) > constant_on_dev(task)
        far += not nothing_learnt(task, examples, given)
    return far, above


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in ("tokens", "span") else []) for kind in KINDS]
)
def test_of_runs_that_guess_one_in_twenty_stands_out(kind):
    """Of 20 runs of four looks: more than four have a probability of .3% at the level of .05."""
    far, above = stands_out(kind, 0.0, 4, 20)
    assert far <= 4
    assert above >= 15 or kind in ("multilabel", "tokens"), "where all labels for all are hard to beat"


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_knows_half_of_the_answers_stands_out(kind):
    assert stands_out(kind, 0.5, 3, 8)[0] >= 7


def test_looks_that_agree_count_as_one_and_looks_that_differ_as_many():
    gold, given = labels(np.random.default_rng(1), 0.1, 12)
    examples = [Example(str(at), "text", label) for at, label in enumerate(gold)]
    task = task_of("sequence", "accuracy", examples)
    assert chance(task, examples, given[:1] * 12) == chance(task, examples, given[:1])
    assert chance(task, examples, given).bar > chance(task, examples, given[:1]).bar


def test_guesses_are_named_with_both_scores_and_a_dev_set_of_a_few_rows_decides_nothing():
    examples = [Example(str(at), "text", "ab"[at % 2]) for at in range(40)]
    guessed = ["ab"[at % 4 // 2] for at in range(40)]
    task = task_of("sequence", "accuracy", examples)
    bar = 100 * chance(task, examples, [guessed]).bar
    assert nothing_learnt(task, examples, [guessed], score=0.51) == (
        f"its best score on dev, 50.0 points, is within chance: guesses reach {bar:.1f} one time in twenty"
    )
    assert nothing_learnt(task, examples, [guessed]) == "on dev it has 50.0 points, and a constant answer 50.0"
    assert not nothing_learnt(task, examples[:4], [["a", "b", "a", "b"]])


def test_the_loss_decides_unless_the_best_look_stands_out_by_far():
    examples = [Example(str(at), "text", "ab"[at % 2]) for at in range(80)]
    gold, some = [example.label for example in examples], ["ab"[at % 2 if at % 4 else 1] for at in range(80)]
    task, high = task_of("sequence", "accuracy", examples), {"loss": 0.7, "constant_loss": 0.6}
    assert not nothing_learnt(task, examples, [some])
    assert nothing_learnt(task, examples, [some], **high) == (
        "its final loss on train is 0.7, and that of constant outputs 0.6"
    )
    assert not nothing_learnt(task, examples, [gold], **high)


def test_what_knows_nearly_all_stands_out_by_far_and_what_knows_little_does_not():
    random = np.random.default_rng(0)
    for knows, far in ((0.9, True), (0.0, False), (0.2, False)):
        gold, looks = labels(random, knows, 5)
        examples = [Example(str(at), "", label) for at, label in enumerate(gold)]
        assert exceeds_chance(task_of("sequence", "macro_f1", examples), examples, looks) is far
