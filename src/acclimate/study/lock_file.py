"""`study.lock.json`: what a finished study was made with and what came out, to compare a directory with. No torch.

verb, recipe  as they were stated
versions      of whatever a result depends on
data          name -> the hashes of what the jobs read under it
jobs          name -> its label, the hash of its settings, and the SHA-256 of its result
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acclimate.core import files, ranks, settings
from acclimate.study.calls import JOB, RESULT
from acclimate.study.jobs import DIRECTORY
from acclimate.study.study_plan import read_plan, studies_in

LOCK = "study.lock.json"
FORMAT = 1


def write_lock(out: Path, verb: str, recipe: Any) -> None:
    """Write the file for the study in `out`, or for all in its folders. recipe: a dataclass."""
    if not ranks.is_first():
        return
    jobs, versions, data = _jobs(out)
    lock = {
        "format": FORMAT,
        "verb": verb,
        "recipe": settings.to_mapping(recipe),
        "versions": versions,
        "data": data,
        "jobs": jobs,
    }
    files.write_json(out / LOCK, lock)


def differing(out: Path) -> list[str]:
    """What in the directory is not as its lock has it, a sentence each. Raises ValueError where there is no lock."""
    if not (out / LOCK).exists():
        raise ValueError(f"{out} has no {LOCK}: it is written when race, evaluate, grid, blurb or recommend ends there")
    lock = files.read_json(out / LOCK)
    if lock.get("format") != FORMAT:
        raise ValueError(f"{out / LOCK} has format {lock.get('format')}; this version reads {FORMAT}")
    found = []
    for name, expected in lock["jobs"].items():
        study, _, job = name.rpartition("/")
        place = out / study / DIRECTORY / job
        if not (place / RESULT).exists():
            found.append(f"{name}: {expected['label']} has no result any more")
        elif files.sha256_of(place / RESULT) != expected["result"]:
            found.append(f"{name}: the result of {expected['label']} is not the one that the lock has")
        elif not (place / JOB).exists() or _of_settings(files.read_json(place / JOB)) != expected["settings"]:
            found.append(f"{name}: {expected['label']} was done with other settings, or {JOB} is changed")
    return found


def _jobs(out: Path) -> tuple[dict[str, Any], dict[str, str], dict[str, list[str]]]:
    """The finished jobs of the plans, the versions that they were done with, and hashes of what they read."""
    jobs: dict[str, Any] = {}
    versions: dict[str, str] = {}
    data: dict[str, set[str]] = {}
    for run in studies_in(out):
        prefix = "" if run == out else f"{run.name}/"
        for planned in read_plan(run):
            place = run / DIRECTORY / planned.name
            if not (place / RESULT).exists():
                continue
            about = files.read_json(place / JOB)
            versions |= about["versions"]
            for name, value in about["contents"].items():
                data.setdefault(f"{prefix}{name}", set()).add(value)
            about_result = {"settings": _of_settings(about), "result": files.sha256_of(place / RESULT)}
            jobs[f"{prefix}{planned.name}"] = {"label": planned.label, **about_result}
    return jobs, versions, {name: sorted(hashes) for name, hashes in sorted(data.items())}


def _of_settings(about: Mapping[str, Any]) -> str:
    return settings.digest(about["settings"])
