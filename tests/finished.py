"""A finished race made in a second: the model to use is trained for some steps, and its predictions are scored."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from acclimate.core import files
from acclimate.core.types import Batch, Cost, Example, Label, Score, Split
from acclimate.data.gather import COLUMNS
from acclimate.jobs.job import claim, read_result
from acclimate.jobs.run import do_all
from acclimate.methods.baselines import TfidfRecipe, baseline_of
from acclimate.methods.task_loss import TaskLoss, predict
from acclimate.models.classifier import labels_of, load_finetuned
from acclimate.models.encoder import save_model
from acclimate.models.formats import OF_MENTIONS, OF_PLACES, Pooling
from acclimate.models.task_layers import PooledClassifiers, pooling_of, set_pooling
from acclimate.races import work
from acclimate.races.contestants import job_of, tested_baseline
from acclimate.races.outcome import Facts, Trial, test_row, write_outcome
from acclimate.races.race import hand_over_baseline
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.prepared import open_prepared, prepare
from acclimate.tasks.rows import SPANS, encode_rows, with_labels
from acclimate.tasks.task import Kind, Task
from acclimate.tasks.thresholds import Threshold
from acclimate.training.loop import adamw, train
from acclimate.training.plan import Plan
from families import CLASSIFIED, VOCABULARY
from studies import raced, recorded

LABELS = ("acid", "base", "salt")
SIZES: dict[Split, int] = {"train": 12, "dev": 18, "test": 30}
MAX_TOKENS = 24
BASE = "chemists/base-model"
USED = ("DAPT", 1)
PROBLEMS = {"multilabel": "multi_label_classification", "score": "regression"}
TAGS = ("B-acid", "I-acid", "O")
PLAN = Plan(steps=18, batch=32, rate=5e-3, precision="float32")  # of the model to use
LONGER = replace(PLAN, steps=30, rate=4e-3)  # numbers and relations take it until its predictions differ


def finished_race(
    run: Path,
    kind: Kind = "sequence",
    *,
    paired: bool = False,
    labels: Sequence[str] = LABELS,
    family: str = "bert",
    pooling: Pooling = "pooler",
    facts: dict[str, Any] | None = None,
    failed: dict[str, str] | None = None,
    trials: Sequence[Trial] = (),
) -> Path:
    """A race of the untouched model and DAPT, two seeds each; DAPT's second is to use; `facts` come over the usual."""
    run.mkdir(parents=True)
    claim(run)
    labels = {"score": (), "span": (), "tokens": TAGS}.get(kind, tuple(labels))
    metric = METRICS[{"score": "pearson", "tokens": "entity_f1", "span": "f1"}.get(kind, "micro_f1")]
    splits = {split: _examples(split, size, kind, labels, paired=paired) for split, size in SIZES.items()}
    if pooling in OF_MENTIONS:
        splits = {split: list(map(_with_mentions, examples)) for split, examples in splits.items()}
    task = Task("salts", kind, lambda _, split: splits[split], labels, metric, MAX_TOKENS, source="a friend's files")
    prepared = prepare(task, run, run / "data")
    _write_used(run, kind, labels, family, pooling, paired=paired)
    predicted = predictions(run / "use", splits["test"], kind)
    assert len(set(predicted)) > 1 or len(labels) == 1
    gold = tuple(example.label for example in splits["test"])
    scores = []
    for contestant, seed in (("untouched", 0), ("untouched", 1), ("DAPT", 0), USED):
        used = (contestant, seed) == USED
        guesses = predicted if used else _guesses(gold, random.Random(f"{contestant} {seed}"))
        scores.append(
            Score(
                contestant,
                task.name,
                metric.name,
                seed,
                dev=0.75 + 0.1 * used,
                test=metric.compute(gold, guesses),
                ids=tuple(example.id for example in splits["test"]),
                gold=gold,
                predicted=guesses,
                adapting=Cost(12_000, 3.4e9, 8.0) if contestant == "DAPT" else Cost(),
                finetuning=Cost(3_000, 5.6e8, 4.0),
            )
        )
    outcome = raced(
        scores,
        replace(_facts(prepared.hashes), **(facts or {})),
        title="Race on salts",
        kind=kind,
        sizes=prepared.sizes,
        failed=failed,
        trials=trials,
        notes=["dev was split off by us: 18 rows of /home/ada/salts/train.csv, stratified, seed 0."],
    )
    write_outcome(outcome, run)
    return run


def only_baseline(run: Path, threshold: Threshold = "half") -> Score:
    """Have the race end with a baseline to use, since no encoder learnt the task. Return its score, of two settings."""
    recipe = TfidfRecipe(trials=2, threshold=threshold)
    task, before = open_prepared(run / "data"), recorded(run)
    fitted = replace(job_of(baseline_of(task.kind), work.TERMS, recipe, {}), places={"task": task.path}, alone=True)
    tested = tested_baseline(fitted, task)
    assert not do_all([tested], run)
    files.write_json(run / COLUMNS, {"text": "text", "pair": None, "id": "id", "separator": ""})
    shutil.rmtree(run / "use")
    hand_over_baseline(fitted, task, run, places=("baseline", "use"))
    result = {**read_result(tested.directory(run)), "dev": read_result(fitted.directory(run))["dev"]}
    costs = {"adapting": Cost(), "finetuning": Cost()}
    scores = [test_row(fitted.label, seed, result, task, **costs) for seed in (0, 1)]
    of_encoders = [replace(score, learnt=False) for score in before.scores]
    why = f"{fitted.label} is used, because no encoder of this race has learned the task."
    given = {fitted.label: {"evaluations on the test set": 1}}
    facts = replace(before.race, use=fitted.label, encoder="", use_reason=why, given=given)
    about: dict[str, Any] = {"kind": task.kind, "sizes": task.sizes, "baselines": [fitted.label]}
    write_outcome(raced([*of_encoders, *scores], facts, title=before.title, **about), run)
    return scores[0]


def change_used(run: Path, change: Callable[[Score], Score]) -> None:
    """Have the outcome state another score of the model to use."""
    outcome = recorded(run)

    def changed(score: Score) -> Score:
        return change(score) if (score.contestant, score.seed) == USED else score

    results = tuple(replace(each, scores=tuple(map(changed, each.scores))) for each in outcome.results)
    assert results != outcome.results
    write_outcome(replace(outcome, results=results), run)


def predictions(directory: Path, examples: Sequence[Example], kind: Kind) -> tuple[Label, ...]:
    """What the checkpoint says of each text alone."""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = load_finetuned(directory)
    pooling = pooling_of(model.config)
    if kind in ("tokens", "span") or pooling in OF_PLACES:
        rows = encode_rows(examples, tokenizer, MAX_TOKENS, kind, spans=SPANS[pooling])
        return tuple(predict(model, rows, labels_of(model), texts=[example.text for example in examples]))
    said: list[Label] = []
    for example in examples:
        encoded = tokenizer(example.text, example.pair, truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        if getattr(model.config, "type_vocab_size", 0) < 2:
            encoded.pop("token_type_ids", None)
        with torch.no_grad():
            logits_C = model(**encoded).logits[0]
        names = model.config.id2label
        if kind == "sequence":
            said.append(names[int(logits_C.argmax())])
        elif kind == "multilabel":
            said.append(tuple(sorted(names[place] for place, logit in enumerate(logits_C) if logit.sigmoid() > 0.5)))
        else:
            said.append(float(logits_C[0]))
    return tuple(said)


def _examples(split: str, size: int, kind: Kind, labels: Sequence[str], *, paired: bool) -> list[Example]:
    generator = random.Random(split)

    def words() -> str:
        return " ".join(f"word{generator.randrange(VOCABULARY - 5)}" for _ in range(generator.randint(3, 26)))

    def label(place: int) -> Label:
        if kind == "score":
            return 5.0 * generator.random()
        if kind == "multilabel":
            return tuple(sorted(generator.sample(labels, generator.randint(1, len(labels)))))
        return labels[place % len(labels)]

    def tagged(place: int) -> Example:
        text = words()
        return Example(f"{split}-{place}", text, tuple(generator.choices(labels, k=len(text.split()))))

    def asked(place: int) -> Example:
        text = words()
        word = text.split()[1]
        start = text.index(word)
        spans = ((start, start + len(word)),)
        return Example(f"{split}-{place}", text, (word,), f"word{place}", "", spans)

    if kind in ("tokens", "span"):
        return [{"tokens": tagged, "span": asked}[kind](place) for place in range(size)]
    return [Example(f"{split}-{place}", words(), label(place), words() if paired else None) for place in range(size)]


def _with_mentions(example: Example) -> Example:
    """The example with its first two words as the mentions of a relation."""
    first, second, *_ = example.text.split()
    return replace(example, spans=((0, len(first)), (len(first) + 1, len(first) + 1 + len(second))))


def _guesses(gold: Sequence[Label], generator: random.Random) -> tuple[Label, ...]:
    if isinstance(gold[0], tuple) and set(gold[0]) <= set(TAGS):
        return tuple(tuple(generator.choices(TAGS, k=len(label))) for label in gold if isinstance(label, tuple))
    if isinstance(gold[0], float):
        return tuple(label + generator.random() for label in gold if isinstance(label, float))
    return tuple(generator.choice(gold) if generator.random() < 0.4 else label for label in gold)


def _write_used(run: Path, kind: Kind, labels: tuple[str, ...], family: str, pooling: Pooling, *, paired: bool) -> None:
    model, tokenizer = _trained(kind, labels, family, pooling, paired=paired)
    job = run / "jobs" / "fine-tune-dapt-seed-1-0123456789ab"
    for directory in (job / "checkpoint", run / "use"):
        with files.new_directory(directory) as temporary:
            save_model(model, tokenizer, temporary)
            files.write_text(temporary / "recipe.toml", "epochs = 0.0\n")
            if directory == run / "use":
                columns = {"text": "text", "pair": None, "id": "id", "separator": ""}
                about = {"name": "salts", "kind": kind, "labels": list(labels), "paired": paired, **columns}
                files.write_json(temporary / "race.json", {"contestant": USED[0], "seed": USED[1], "task": about})
    before = run / "jobs" / "dapt-ba9876543210"
    test = run / "jobs" / f"test-{USED[0]}-{USED[1]}"  # as `studies.raced` names it in the outcome
    write_job(test, "test DAPT, seed 1", tuned=job.name)
    write_job(job, "fine-tune DAPT, seed 1", model=before.name)
    write_job(before, "DAPT", {"model": BASE})
    for directory in (job, before):
        files.write_record(directory / "wall.json", {"seconds": 30.0})


def write_job(directory: Path, label: str, settings: dict[str, Any] | None = None, **needs: str) -> None:
    """Write the record of a job. needs: argument -> name of the job that it needs"""
    about = {"label": label, "settings": settings or {}, "contents": {}, "needs": needs}
    directory.mkdir(exist_ok=True)
    files.write_json(directory / "job.json", about)


@cache
def _trained(
    kind: Kind, labels: tuple[str, ...], family: str, pooling: Pooling, *, paired: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return a random model of the family, fine-tuned until its predictions differ, and its tokenizer. Do not change
    them.
    """
    config = CLASSIFIED[family]().config
    config.id2label = dict(enumerate(labels or (("start", "end") if kind == "span" else ("LABEL_0",))))
    config.label2id = {label: place for place, label in config.id2label.items()}
    config.problem_type = PROBLEMS.get(kind)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{number}" for number in range(VOCABULARY - 5))]
    tokenizer = BertTokenizer(
        vocab={word: place for place, word in enumerate(words)},
        model_max_length=MAX_TOKENS,
        **({"pad_token": "[UNK]"} if config.pad_token_id == 1 else {}),
    )
    plan = LONGER if kind == "score" or pooling in OF_MENTIONS else PLAN
    examples = _separable_examples(kind, labels, plan.batch * plan.steps, paired=paired)
    if pooling in OF_MENTIONS:
        examples = list(map(_with_mentions, examples))
    rows = with_labels(encode_rows(examples, tokenizer, MAX_TOKENS, kind, spans=SPANS[pooling]), examples, kind, labels)
    if getattr(config, "type_vocab_size", 0) < 2:
        rows.tokens.pop("token_type_ids", None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        autos = {"tokens": AutoModelForTokenClassification, "span": AutoModelForQuestionAnswering}
        auto = autos.get(kind, AutoModelForSequenceClassification)
        set_pooling(config, pooling)
        model = (auto if pooling == "pooler" else PooledClassifiers).from_config(config)
        objective = TaskLoss(model)
        steps = list(train(objective, lambda step: _batch(rows, step), plan, adamw(objective, plan)))
    assert steps[-1].loss < steps[0].loss
    return model.eval(), tokenizer


def _batch(rows: Batch, step: int) -> Batch:
    first = step * PLAN.batch
    return rows.take(np.arange(first, first + PLAN.batch) % len(rows))


def _separable_examples(kind: Kind, labels: Sequence[str], count: int, *, paired: bool) -> list[Example]:
    """Return the rows of the training steps, `count` of them.

    Word n is of label n % len(labels). All words of a text are of its label, or of one of its labels, of which it has
    one or two. A score is 5 for even words and 0 for odd words. Answers are as in the race's data.
    """
    if kind == "span":
        return _examples("training", count, kind, labels, paired=paired)
    generator, classes = random.Random("separable"), len(labels) or 2

    def words(own: Sequence[int]) -> list[int]:
        ranges = [range(place, VOCABULARY - 5, classes) for place in own]
        return [generator.choice(generator.choice(ranges)) for _ in range(12)]

    examples = []
    for row in range(count):
        own = [row % classes]
        if kind == "multilabel" and row // classes % 2:
            own = sorted({*own, (row + 1) % classes})
        if kind == "tokens":
            own = [*range(classes)]
        numbers = words(own)
        label: Label = labels[own[0]] if labels else 5.0 * (1 - own[0])
        if kind == "multilabel":
            label = tuple(labels[place] for place in own)
        if kind == "tokens":
            label = tuple(labels[number % classes] for number in numbers)
        text, pair = (" ".join(f"word{number}" for number in drawn) for drawn in (numbers, words(own)))
        examples.append(Example(f"training-{row}", text, label, pair if paired else None))
    return examples


def _facts(hashes: Any) -> Facts:
    return Facts(
        task={"name": "salts"},
        use=USED[0],
        encoder=USED[0],
        given={"DAPT": {"adapting": "DAPT: 30 steps", "settings tried": 1, "seeds": 2}},
        commands=[f"acclimate race /home/ada/salts/train.csv --model {BASE} --corpus ../texts/ --out runs/salts"],
        versions={"python": "3.11.7", "torch": "2.13.0"},
        hashes={f"task, {name}": value for name, value in hashes.items()},
        environment={"device": "CPU", "threads": "1"},
    )
