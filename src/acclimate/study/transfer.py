"""Which intermediate task should help a target most, ranked without training on any (docs/recommend.md).

Training rows alone are looked at. Of the target's dev and test no more is read than whether a candidate's training
texts stand there: such rows would be leaks in an intermediate task, and are counted.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from acclimate.core.types import Example, Watch, unwatched
from acclimate.models.encoder import configuration_of, longest_of
from acclimate.models.loading import resolved
from acclimate.study.attention import short_names
from acclimate.study.jobs import Job, claim, result_of
from acclimate.study.launch import dataset_of
from acclimate.study.running import do_all
from acclimate.study.transfer_check import check
from acclimate.study.transfer_features import Described, Pooling, described, describing, write_rows
from acclimate.study.transfer_matrix import Measured, read_matrix
from acclimate.study.transfer_predictors import Known, count_words, predictions
from acclimate.study.transfer_result import Pass, Recommendation, Row
from acclimate.study.transfer_tuned import tuned_checkpoints
from acclimate.tasks.labelled import Labelled, Own, called, fewer
from acclimate.text.overlap import normalised

ROWS = "rows"  # folder of a run


@dataclass(frozen=True)
class Recipe:
    """What is ranked, and how much of it is read."""

    candidates: tuple[str | Own, ...] = ()  # datasets of the folder --data, or labelled files, also with their columns
    rows: int = 1_000  # of each task's training rows that go through the encoder, drawn; 0: all
    rows_seed: int = 0
    max_tokens: int = 256  # read of a text, at most
    pooling: Pooling = "mean"  # what stands for a text: the mean of its tokens' states, or its first token's
    tuned: tuple[
        str, ...
    ] = ()  # "NAME=DIR": a checkpoint that was fine-tuned on the candidate NAME; several of one: mean
    matrix_model: str = ""  # the model in the matrix that counts, where it has several
    draws: int = 9_999  # orders that stand for chance
    draws_seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("rows", 0), ("max_tokens", 8), ("draws", 99)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} = {getattr(self, name)} is out of range: at least {least}")


def recommend(
    recipe: Recipe,
    model: str,
    target: str | Own,
    out: Path,
    *,
    data: Path | None = None,
    matrix: Path | None = None,
    watch: Watch = unwatched,
) -> Recommendation:
    """Rank the candidates for the target; what was described in the directory `out` before is read there.

    model   a directory or hub id
    target  like each candidate: a dataset of those in the folder `data`, or a labelled file, also with its columns
    matrix  measured differences, beside which each predictor is put

    Raises ValueError, before any model is loaded, for whatever is wrong with these.
    """
    asked = _asked(recipe, target)
    where = resolved(model)
    known_as = short_names([where])[0]
    measured = read_matrix(matrix, recipe.matrix_model or known_as) if matrix else None
    longest = {where: longest_of(configuration_of(where))}
    read = [dataset_of(each, data) for each in asked]
    _check_names(read)
    tuned = tuned_checkpoints(recipe.tuned, where, [labelled.name for labelled in read])
    longest |= {place: longest_of(configuration_of(place)) for place in chain(*tuned.values())}
    claim(out)
    encoders = {"": [where], **tuned}
    jobs = _passes(recipe, read, encoders, longest=longest, targets=_targets(read, measured), out=out)
    failed = do_all([job for several in jobs.values() for job in several], out, watch=watch)
    seen = {key: [_seen(job, out) for job in several if job.name not in failed] for key, several in jobs.items()}
    if lost := [labelled.name for labelled in read if not seen[labelled.name, ""]]:
        raise ValueError(f"{lost[0]} could not be described: {failed[jobs[lost[0], ''][0].name]}")
    known = [_known(labelled, seen, tuned) for labelled in read]
    notes = tuple(f"A pass failed and is left out: {line}." for line in failed.values())
    return _recommendation(recipe, read, known, measured, model=known_as, notes=notes)


def _passes(
    recipe: Recipe,
    read: Sequence[Labelled],
    encoders: Mapping[str, Sequence[str]],
    *,
    longest: Mapping[str, int | None],
    targets: Container[str],
    out: Path,
) -> dict[tuple[str, str], list[Job]]:
    """(task, what the encoder was fine-tuned on, "" for as it is) -> passes; fine-tuned encoders see targets alone."""
    jobs: dict[tuple[str, str], list[Job]] = {}
    for labelled in read:
        file = _rows_of(labelled, recipe, out)
        most = min(recipe.max_tokens, labelled.max_tokens)
        for task, places in encoders.items():
            if task and (task == labelled.name or labelled.name not in targets):
                continue
            label = f"{labelled.name} seen by {f'the encoder fine-tuned on {task}' if task else 'the encoder'}"
            lengths = [min(most, longest[place] or most) for place in places]
            jobs[labelled.name, task] = [
                describing(label, place, file, max_tokens=length, pooling=recipe.pooling)
                for place, length in zip(places, lengths, strict=True)
            ]
    return jobs


def _recommendation(
    recipe: Recipe, read: Sequence[Labelled], known: Sequence[Known], measured: Measured | None, **told: Any
) -> Recommendation:
    names = [each.name for each in known]
    predicted = predictions(known)
    target, *candidates = read
    rows = []
    for place, (labelled, own) in enumerate(zip(candidates, known[1:], strict=True), 1):
        values = {name: float(values_KK[0, place]) for name, values_KK in predicted.items()}
        rows.append(Row(labelled.name, own.kind, own.rows, own.seen.rows, _standing_in(target, labelled), values))
    checked, for_target, chances = None, {}, {}
    if measured is not None:
        differences_KK = measured.among(names)
        checked = tuple(check(names, predicted, differences_KK, draws=recipe.draws, seed=recipe.draws_seed))
        own_row = zip(names[1:], differences_KK[0, 1:].tolist(), strict=True)
        for_target = {name: value for name, value in own_row if not math.isnan(value)}
        cells = {name: (target.name.lower(), name.lower()) for name in for_target}
        chances = {name: measured.p[cell] for name, cell in cells.items() if cell in measured.p}
    return Recommendation(
        target=target.name,
        kind=target.kind,
        target_rows=known[0].rows,
        candidates=tuple(rows),
        checked=checked,
        measured=for_target,
        measured_p=chances,
        passes=tuple(
            Pass(each.name, each.seen.rows, each.seen.tokens, each.seen.flops, each.seen.seconds) for each in known
        ),
        **told,
    )


def _asked(recipe: Recipe, target: str | Own) -> list[str | Own]:
    """The target, then the candidates."""
    if len(recipe.candidates) < 2:
        raise ValueError(
            f"{len(recipe.candidates)} candidates given: two or more can be ranked. Name them as "
            f'candidates=["BC5-chem", "GAD"], datasets of --data, or ["one.csv", "other.jsonl"], labelled files'
        )
    asked = [target, *recipe.candidates]
    names = [called(each) for each in asked]
    for place, name in enumerate(names):
        if name.lower() in (other.lower() for other in names[:place]):
            raise ValueError(f"'{name}' is given twice. A task is no intermediate task of its own; name each once")
    return asked


def _check_names(read: Sequence[Labelled]) -> None:
    names = [labelled.name for labelled in read]
    if twice := [name for place, name in enumerate(names) if name in names[:place]]:
        raise ValueError(f"two tasks are called '{twice[0]}'. Rename a file")


def _rows_of(labelled: Labelled, recipe: Recipe, out: Path) -> Path:
    drawn = fewer(labelled, recipe.rows, recipe.rows_seed)
    return write_rows(drawn.splits["train"], labelled.kind, labelled.labels, out / ROWS)


def _targets(read: Sequence[Labelled], measured: Measured | None) -> set[str]:
    """The tasks that predictors are wanted for: the target, and those for which the matrix has something."""
    there = {target for target, _ in measured.differences} if measured else set()
    return {read[0].name, *(labelled.name for labelled in read if labelled.name.lower() in there)}


def _seen(job: Job, out: Path) -> Described:
    result = result_of(job, out)
    assert result is not None
    return described(job, out, result)


def _known(
    labelled: Labelled, seen: Mapping[tuple[str, str], Sequence[Described]], tuned: Mapping[str, Sequence[str]]
) -> Known:
    train = labelled.splits["train"]
    words = count_words(_text(row) for row in train)
    of_tuned = {task: seen[labelled.name, task] for task in tuned if seen.get((labelled.name, task))}
    return Known(labelled.name, labelled.kind, len(train), words, seen[labelled.name, ""][0], of_tuned)


def _standing_in(target: Labelled, candidate: Labelled) -> int:
    """Training rows of the candidate whose text is that of a row of the target's dev or test."""
    sealed = {normalised(row.text) for split in ("dev", "test") for row in target.splits[split]}
    return sum(normalised(row.text) in sealed for row in candidate.splits["train"])


def _text(row: Example) -> str:
    return f"{row.text} {row.pair or ''}"
