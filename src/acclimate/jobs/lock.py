"""`study.lock.json`: what a finished study was made with, and hashes of its results, by which a directory is verified.

verb, recipe  as the user stated them
directory     the working directory, to which relative paths in the verb refer
versions      of the packages that results depend on
data          name -> the hashes of what the jobs read under it
jobs          name -> its label, the hash of its settings, the SHA-256 of its result ("" until a study that does
              it again ends) and of the small files beside it, such as its costs
begun         name -> the same without a result, of jobs that failed or diverged
outcome       file -> SHA-256 of what tables and pages are made of
looks         file of the looks at a test set -> its size and SHA-256; later looks may follow
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from acclimate.core import files, ranks, settings
from acclimate.jobs.job import DIRECTORY, JOB, RESULT, RUNNING, read_plan, studies_in

LOCK = "study.lock.json"
FORMAT = 2  # 1: acclimate 0.1
USE = "use"  # in the directory of a race: the model to use, an encoder's checkpoint or the fitted baseline
ENCODER = "encoder"  # there: the checkpoint of the best encoder on dev, if that is not the model to use
FITTED = "baseline"  # likewise: the fitted baseline, which needs no encoder
# in the directory of a study: its prepared task, the same for each fold, its raw text, and in each of these its tokens
DATA, FOLDS, CORPORA, TOKENS = "data", "folds", "corpora", "tokens"
OUTCOME = ".outcome.json"  # end of the names of the files that races/outcome.py writes


def is_part_of_run(directory: Path) -> bool:
    """Return True if the directory holds a model that a race keeps, in the directory of its run."""
    return directory.name in (USE, ENCODER, FITTED) and (directory / "race.json").is_file()


def write_lock(out: Path, verb: str, recipe: Any) -> None:
    """Write the file for the study in `out`, or for all in its folders. recipe: a dataclass.

    Raises DamagedError as `check_results`, in place of replacing the hash of a result that has changed.
    """
    if not ranks.is_first():
        return
    check_results(out)
    before = read_lock(out)["looks"] if (out / LOCK).exists() else {}
    jobs, begun, versions, data = _jobs(out)
    lock = {
        "format": FORMAT,
        "verb": verb,
        "directory": str(Path.cwd()),
        "recipe": settings.to_mapping(recipe),
        "versions": versions,
        "data": data,
        "jobs": jobs,
        "begun": begun,
        "outcome": {path.name: files.sha256_of(path) for path in sorted(out.glob(f"*{OUTCOME}"))},
        # looks that were removed or changed stay known
        "looks": _looks(out) | {name: about for name, about in before.items() if not _begins_with(out / name, about)},
    }
    files.write_json(out / LOCK, lock)


def check_results(out: Path) -> None:
    """Raise DamagedError if a result that is there is not the one that the lock of the study has; without lock, pass.

    A study calls this before it begins and before it writes its lock.
    """
    if not ranks.is_first() or not (out / LOCK).exists():
        return
    for name, expected in read_lock(out)["jobs"].items():
        path = _job_directory(out, name) / RESULT
        if expected["result"] and path.exists() and files.sha256_of_input(path) != expected["result"]:
            raise files.DamagedError(
                f"{path} has changed since {LOCK} was written: it is not the result of {expected['label']} recorded "
                f"in the lock. Remove {path.parent}: the command that started the study does this job again"
            )


def allow_redone(out: Path) -> None:
    """Let the jobs whose results were removed be done again: the lock then expects no hash of them.

    A job that is done again need not give the same bytes, on a GPU or with another number of threads. A study calls
    this when it begins, after `check_results`; the lock that it writes at its end has the new hashes.
    """
    if not ranks.is_first() or not (out / LOCK).exists():
        return
    lock = read_lock(out)
    removed = [name for name in lock["jobs"] if not (_job_directory(out, name) / RESULT).exists()]
    if removed:
        for name in removed:
            lock["jobs"][name]["result"] = ""
        files.write_json(out / LOCK, lock)


def check_outcomes(out: Path) -> None:
    """Raise DamagedError if what tables and pages are made of is not what the lock of the study has; without it, pass.

    Where a study is under way, its lock may be older than its outcome: call this for one that has ended.
    """
    if not (out / LOCK).exists():
        return
    for name, expected in read_lock(out)["outcome"].items():
        if (out / name).exists() and files.sha256_of(out / name) != expected:
            raise files.DamagedError(
                f"{out / name} has changed since {LOCK} was written. Give the command of the study again to write "
                "both from the results of its jobs"
            )


def read_lock(out: Path) -> dict[str, Any]:
    """Return the lock of the study in `out`. Raises ValueError where there is none."""
    if not (out / LOCK).exists():
        raise ValueError(
            f"{out} has no {LOCK}, which is written when race, evaluate or a study ends. Finish the run first"
        )
    way_out = f"Remove {out / LOCK}: the command that started the study writes it again"
    lock = files.read_object(out / LOCK, names=("format", "jobs", "begun", "outcome", "looks"), way_out=way_out)
    if lock.get("format") != FORMAT:
        raise ValueError(
            f"{out / LOCK} has format {lock.get('format')}, but this version reads format {FORMAT}. Read it with the "
            f"version of acclimate that wrote it, or run the study again"
        )
    of_job = {"label", "settings", "result", "beside"}
    needed = {"jobs": of_job, "begun": {"label", "beside"}, "outcome": set(), "looks": {"bytes", "sha256"}}
    for name, fields in needed.items():
        listed = lock[name]
        rows = listed.values() if isinstance(listed, dict) and fields else ()
        if not isinstance(listed, dict) or not all(
            isinstance(one, dict) and fields <= {*one} and isinstance(one.get("beside", {}), dict) for one in rows
        ):
            raise files.DamagedError(f"{out / LOCK} is damaged: its {name} cannot belong to a study. {way_out}")
    return dict(lock)


def differences(out: Path, *, weights: bool = True) -> list[str]:
    """Return a sentence for each difference between the directory and its lock. Raises ValueError without a lock.

    weights: False if models may be gone or damaged, as where only tables are made of the results
    """
    lock = read_lock(out)
    sentences = []
    for name, expected in [*lock["jobs"].items(), *lock["begun"].items()]:
        place = _job_directory(out, name)
        changed = [file for file, content in expected["beside"].items() if _differs(place / file, content)]
        if "result" not in expected:
            sentences += [f"{name}: {file} of {expected['label']} is missing or changed" for file in changed]
        elif not (place / RESULT).exists():
            sentences.append(f"{name}: {expected['label']} no longer has a result")
        elif files.sha256_of(place / RESULT) != expected["result"]:
            sentences.append(f"{name}: the result of {expected['label']} differs from the lock")
        elif changed:
            sentences.append(f"{name}: {', '.join(changed)} of {expected['label']} is missing or changed")
        elif damage := _damage(place, names=None if weights else (JOB,)):
            sentences.append(f"{name}: {damage}")
        elif _settings_digest(files.read_object(place / JOB)) != expected["settings"]:
            sentences.append(f"{name}: {expected['label']} was done with other settings")
    for name in (USE, ENCODER, FITTED) if weights else ():
        if (out / name).is_dir() and (damage := _damage(out / name)):
            sentences.append(f"{name}: {damage}")
    if weights:
        sentences += [f"{place.relative_to(out)}: {damage}" for place in _inputs(out) if (damage := _damage(place))]
        sentences += [
            f"{name}: evaluations on test in the lock are missing or changed"
            for name, about in lock["looks"].items()
            if not _begins_with(out / name, about)
        ]
    differing = [name for name, content in lock["outcome"].items() if _differs(out / name, content)]
    return sentences + [f"{name}: is missing, or differs from the lock" for name in differing]


def _differs(path: Path, sha256: str) -> bool:
    return not path.exists() or files.sha256_of(path) != sha256


def _inputs(out: Path) -> Iterator[Path]:
    """Yield the directories of what the jobs read: the prepared tasks, the corpora and their tokens."""
    for place in _study_directories(out):
        parts = place.relative_to(out).parts
        of_inputs = parts[-1:] == (DATA,) or parts[-2:-1] in ((CORPORA,), (TOKENS,))
        has_files = any(path.is_file() for path in place.iterdir())
        if {DATA, CORPORA, FOLDS} & {*parts} and ((place / files.MANIFEST).exists() or (of_inputs and has_files)):
            yield place


def _looks(out: Path) -> dict[str, Any]:
    """Return the size and the hash of each file of looks at a test set."""
    from acclimate.tasks.prepared import LOOKS  # imports the metrics, which the commands that refuse a directory avoid

    paths = [place / LOOKS for place in _study_directories(out) if (place / LOOKS).exists()]
    contents = {str(path.relative_to(out)): path.read_bytes() for path in paths}
    return {name: {"bytes": len(read), "sha256": files.sha256_of_bytes(read)} for name, read in contents.items()}


def _study_directories(out: Path) -> Iterator[Path]:
    """Yield `out` and the directories in it, except for jobs, models that are handed over, and hidden ones."""
    excluded_names = (DIRECTORY, RUNNING, USE, ENCODER, FITTED)
    for place, names, _ in os.walk(out):
        names[:] = sorted(name for name in names if name not in excluded_names and name[0] != ".")
        yield Path(place)


def _begins_with(path: Path, about: Mapping[str, Any]) -> bool:
    """True if the file of looks begins with those that the lock has."""
    return path.exists() and files.sha256_of_bytes(path.read_bytes()[: about["bytes"]]) == about["sha256"]


def _damage(directory: Path, names: Collection[str] | None = None) -> str:
    """Return what in the directory differs from its manifest; "" if nothing does. names: as of `check_manifest`"""
    try:
        files.check_manifest(directory, names=names, within=True, way_out="")
    except files.DamagedError as error:
        return str(error)
    return ""


def _jobs(out: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, str], dict[str, list[str]]]:
    """Return the finished jobs of the plans, those that only began, the versions that the finished ones were done with,
    and hashes of what they read.
    """
    jobs: dict[str, Any] = {}
    begun: dict[str, Any] = {}
    versions: dict[str, str] = {}
    data: dict[str, set[str]] = {}
    for run in studies_in(out):
        prefix = "" if run == out else f"{run.name}/"
        for planned in read_plan(run):
            place, name = run / DIRECTORY / planned.name, f"{prefix}{planned.name}"
            if not (place / JOB).exists():
                continue
            if not (place / RESULT).exists():  # its weights are not hashed: no table is made of them
                begun[name] = {"label": planned.label, "beside": _table_hashes(place, ".json")}
                continue
            about = files.read_object(place / JOB)
            versions |= about["versions"]
            for read, value in about["contents"].items():
                data.setdefault(f"{prefix}{read}", set()).add(value)
            beside = _table_hashes(place, ".json", ".jsonl", ".safetensors")
            hashes = {"settings": _settings_digest(about), "result": files.sha256_of(place / RESULT), "beside": beside}
            jobs[name] = {"label": planned.label} | hashes
    return jobs, begun, versions, {name: sorted(values) for name, values in sorted(data.items())}


def _job_directory(out: Path, name: str) -> Path:
    """Return the directory of a job by its name in the lock."""
    study, _, job = name.rpartition("/")
    return out / study / DIRECTORY / job


def _table_hashes(place: Path, *endings: str) -> dict[str, str]:
    """Return the hashes of the files of a job that tables are made of, but for its result."""
    paths = (path for path in sorted(place.iterdir()) if path.suffix in endings and path.name not in (RESULT, JOB))
    return {path.name: files.sha256_of(path) for path in paths}


def _settings_digest(about: Mapping[str, Any]) -> str:
    return settings.digest(about["settings"])
