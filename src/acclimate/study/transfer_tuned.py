"""Checkpoints that were fine-tuned on candidates: as they are named, or those of a run of `acclimate grid stilt`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from acclimate.core import files
from acclimate.models.loading import identity, resolved
from acclimate.study.jobs import DIRECTORY, JOB

LABEL = re.compile(r"fine-tune (?P<model>.+) on (?P<task>.+), seed (?P<seed>\d+)")  # of a first stage's job
KEY = 12  # digits of a model's identity in such a label (study/benchmark.py::contestants_of)


def tuned_checkpoints(given: Sequence[str], model: str, candidates: Sequence[str]) -> dict[str, list[str]]:
    """Candidate -> where the checkpoints lie that were fine-tuned on it, one a seed.

    candidates: their names, whose case does not count
    given: "NAME=DIR", or the directory of a run, whose checkpoints of this model on these candidates alone are taken:
           on all of a candidate's rows, with the settings of a target

    Raises ValueError for what is neither, for a name that is no candidate's, and for a run that has none.
    """
    by_name = {name.lower(): name for name in candidates}
    found: dict[str, list[str]] = {}
    for each in given:
        name, equals, place = each.partition("=")
        if equals and name and place:
            if name.lower() not in by_name:
                raise ValueError(
                    f"tuned: '{name}' is none of the candidates {', '.join(candidates)}. Name one of these"
                )
            found.setdefault(by_name[name.lower()], []).append(resolved(place))
        elif (Path(each) / DIRECTORY).is_dir():
            of_run = _of_run(Path(each), model, by_name)
            if not of_run:
                raise ValueError(
                    f"tuned: {each} holds no checkpoint of {model} fine-tuned on a candidate. Leave it out"
                )
            for task, places in of_run.items():
                found.setdefault(task, []).extend(places)
        else:
            raise ValueError(
                f"tuned: '{each}' does not say which candidate it was fine-tuned on, and is no run either. Write "
                f"NAME=DIR, or the directory of a run of `acclimate grid stilt`"
            )
    return found


def _of_run(run: Path, model: str, by_name: Mapping[str, str]) -> dict[str, list[str]]:
    key = identity(model)[:KEY] if Path(model).is_dir() else model
    found: dict[str, list[str]] = {}
    for place in sorted((run / DIRECTORY).iterdir()):
        told = LABEL.fullmatch(files.read_json(place / JOB)["label"]) if (place / JOB).exists() else None
        name = by_name.get(told["task"].lower()) if told and told["model"] == key else None
        if name and (place / "checkpoint" / "config.json").is_file():
            found.setdefault(name, []).append(str(place / "checkpoint"))
    return found
