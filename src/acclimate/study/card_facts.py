"""What the model card tells, gathered from the files of a finished race (study/card.py says what each means)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acclimate.core import files
from acclimate.core.prompt import prompt_length
from acclimate.core.types import Example, Score
from acclimate.models.light import bottleneck_of
from acclimate.models.loading import HUB_ID
from acclimate.study import tables
from acclimate.study.card import Card, Leaked
from acclimate.study.jobs import DIRECTORY, JOB, WALL
from acclimate.study.labels import per_label, per_type
from acclimate.study.onnx_copy import Int8
from acclimate.study.outcome import FACTS, WINNER, read_scores, study_of
from acclimate.study.predicting import Loaded
from acclimate.study.tables import Row
from acclimate.study.verdict import verdict
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import Prepared
from acclimate.training.run import CHECKPOINT

WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Told:
    """What `ship` knows when it writes the card. examples: the test texts, without their labels."""

    run: Path
    task: Prepared
    score: Score
    model: Loaded
    examples: Sequence[Example]
    rounding: int = 0
    int8: Int8 | None = None


def card_of(told: Told) -> Card:
    """The card of the model that is shipped. Reads the run's facts, scores and the records of its jobs."""
    run, task, score = told.run, told.task, told.score
    facts, scores, study = files.read_json(run / FACTS), read_scores(run), study_of(run)
    examination: Mapping[str, Any] = facts.get("examination") or {}
    leaked = frozenset(facts.get("leaked_test_ids") or ()).intersection(score.ids)
    without = _without(scores, leaked)
    base, origin = _origin(run, score)
    looks: Mapping[str, Any] = facts.get("looks") or {}
    return Card(
        task=task.name,
        kind=task.kind,
        paired=any(example.pair for example in told.examples),
        labels=task.labels,
        metric=score.metric,
        max_tokens=task.max_tokens,
        architecture=type(told.model.model).__name__,
        weights=told.model.model.num_parameters(),
        contestant=score.contestant,
        shipped=score,
        verdict=study.verdict,
        rows=study.rows,
        general_losses=study.general_losses,
        base=base,
        origin=origin,
        source=task.source,
        sizes={str(split): size for split, size in task.sizes.items()},
        files=files_of(examination),
        cautions=[*study.alerts, *study.remarks, *filter(None, [study.search_note])],
        notes=facts["notes"],
        leaks=leaks_of(examination),
        leaked=len(leaked),
        rows_without=without,
        verdict_without=verdict(without, baselines=facts["baselines"]) if without else "",
        reach=_reach(examination),
        looks=looks.get("in_this_run", 0),
        earlier_races=looks.get("earlier_runs", 0),
        given=facts["given"].get(score.contestant, {}),
        seconds=sum(files.read_json(path)["seconds"] for path in run.glob(f"{DIRECTORY}/*/{WALL}")),
        commands=facts["commands"],
        versions=facts["versions"],
        environment=facts["environment"],
        hashes=facts["hashes"] | {"weights that are shipped": files.read_json(run / WINNER / files.MANIFEST)[WEIGHTS]},
        cut=_cut(told),
        adapters=bottleneck_of(told.model.model.config),
        rounding=told.rounding,
        int8=told.int8,
        **_label_parts(scores, score, task),
    )


def _label_parts(scores: Sequence[Score], shipped: Score, task: Prepared) -> dict[str, Any]:
    """F1 label by label of the untouched model and the shipped one, and the labels without a test item."""
    if task.kind == "score":
        return {}
    own = {
        name: [score for score in scores if score.contestant == name] for name in (tables.UNTOUCHED, shipped.contestant)
    }
    if task.kind == "tokens":
        return {"per_label": per_type(own[tables.UNTOUCHED], own[shipped.contestant])}
    labels = per_label(own[tables.UNTOUCHED], own[shipped.contestant])
    seen = {label.label for label in labels}
    return {"per_label": labels, "unseen": [label for label in task.labels if label not in seen]}


def _without(scores: Sequence[Score], leaked: frozenset[str]) -> list[Row]:
    """The rows of the race on the test items that the training data does not hold; none where none leaked, or all."""
    if not leaked or len(scores[0].ids) - len(leaked) < 2:
        return []
    return tables.rows(tables.without(scores, leaked), metric_named(scores[0].metric))


def leaks_of(examination: Mapping[str, Any]) -> list[Leaked] | None:
    """The leaks that the examination before the race found; None where there was none."""
    found = examination.get("leaks")
    if found is None:
        return None
    return [
        Leaked(leak["found"], leak["within"], leak["kind"], leak["references"], leak["share"])
        for leak in found
        if leak["references"]
    ]


def files_of(examination: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Name -> (rows, accepted); of equal names in several folders the last counts, for the folders are not told."""
    return {Path(file["path"]).name: (file["rows"], file["accepted"]) for file in examination.get("files", ())}


def _reach(examination: Mapping[str, Any]) -> str:
    """The sentence on the smallest difference that the race could have found."""
    said = examination.get("reach") or examination.get("detectable")
    return said if isinstance(said, str) else ""


def _cut(told: Told) -> int:
    """Test texts that are longer than what the model was trained to read."""
    tokenizer, paired = told.model.tokenizer, any(example.pair for example in told.examples)
    texts = [example.text for example in told.examples]
    pairs = [example.pair or "" for example in told.examples] if paired else None
    encoded = tokenizer(texts, pairs, truncation=False, verbose=False)["input_ids"]
    return sum(len(ids) > told.task.max_tokens + prompt_length(tokenizer) for ids in encoded)


def _origin(run: Path, score: Score) -> tuple[str, str]:
    """The hub id that the winner's weights began from, "" where there is none, and a sentence on it."""
    job = _tuned(run, score)
    chain = []
    while job is not None:
        chain.append(job["label"])
        if model := job["settings"].get("model"):
            known = bool(HUB_ID.fullmatch(model))
            return (model, f"It began as {model}.") if known else ("", "It began from a model of the user's own.")
        before = job["needs"].get("model")
        job = files.read_json(run / DIRECTORY / before / JOB) if before else None
    if not chain:
        return "", ""
    if chain[-1] == "pretrain":
        return "", "Its encoder was pretrained in the same run, from random weights."
    return "", "It began from a model of the user's own."


def _tuned(run: Path, score: Score) -> dict[str, Any] | None:
    """The record of the job that fine-tuned the winner: of those with the same weights, the one that names it."""
    digest = files.read_json(run / WINNER / files.MANIFEST)[WEIGHTS]
    found: list[dict[str, Any]] = []
    for manifest in run.glob(f"{DIRECTORY}/fine-tune*/{CHECKPOINT}/{files.MANIFEST}"):
        if files.read_json(manifest).get(WEIGHTS) == digest:
            found.append(files.read_json(manifest.parents[1] / JOB))
    named = [job for job in found if score.contestant in job["label"]]
    return next(iter(named or found), None)
