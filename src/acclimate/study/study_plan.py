"""The plan of a study: a line of `plan.jsonl` for each job that it came to, with what that needs.

It is made anew where a study claims its directory, and grows while the study finds out what it will do. It loads no
torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from acclimate.core import files, ranks
from acclimate.core.recorded import recorded
from acclimate.study.calls import forget_the_dead

if TYPE_CHECKING:
    from acclimate.study.jobs import Job

PLAN = "plan.jsonl"


@dataclass(frozen=True)
class Planned:
    """A job of a plan. work: what it is an example of; part: whether a first part of it is asked for, not its end."""

    name: str
    label: str
    work: str
    needs: tuple[str, ...]
    part: bool = False


def begin_plan(run: Path, called: Mapping[str, str] = MappingProxyType({})) -> None:
    """A plan without jobs in place of an earlier study's; marks that nobody holds are removed.

    called: what stands in labels for a model -> what people call it
    """
    if recorded() is not None:
        return
    run.mkdir(parents=True, exist_ok=True)
    forget_the_dead(run)
    files.write_text(run / PLAN, json.dumps({"called": dict(called)}) + "\n" if called else "")


def note(jobs: Iterable[Job], run: Path, *, parts: Iterable[Job] = ()) -> None:
    """Add those of the jobs, and of those of which a first part is asked for, that the plan has not."""
    if not ranks.is_first() or recorded() is not None:
        return
    known = {(own.name, own.part) for own in _lines(run)}
    lines = []
    for asked, part in ((jobs, False), (parts, True)):
        for job in asked:
            if (job.name, part) not in known:
                known.add((job.name, part))
                needs = [needed.name for needed in job.needs.values()]
                work = f"{job.work.__module__}.{job.work.__qualname__}"
                lines.append({"name": job.name, "label": job.label, "work": work, "needs": needs, "part": part})
    if lines:
        run.mkdir(parents=True, exist_ok=True)
        files.append_line(run / PLAN, "\n".join(map(json.dumps, lines)))


def read_plan(run: Path) -> list[Planned]:
    """The jobs of the study, each once, in the order in which they were planned; none where there is no plan."""
    found: dict[str, Planned] = {}
    for own in _lines(run):
        if own.name not in found or not own.part:  # of a job that went on to its end, the end counts
            found[own.name] = own
    return list(found.values())


def called_in(run: Path) -> dict[str, str]:
    """As `begin_plan` was told."""
    return {key: name for told in _told(run) for key, name in told.get("called", {}).items()}


def _lines(run: Path) -> Iterator[Planned]:
    for told in _told(run):
        if "name" in told:
            yield Planned(told["name"], told["label"], told["work"], tuple(told["needs"]), told["part"])


def _told(run: Path) -> Iterator[dict[str, Any]]:
    path = run / PLAN
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        if line.endswith("}"):  # else of a kill
            yield json.loads(line)


def studies_in(out: Path) -> list[Path]:
    """The directories with jobs: `out`, or those of a study that has one for each dataset."""
    places = [out, *sorted(path for path in out.iterdir() if path.is_dir())] if out.is_dir() else []
    found = [path for path in places if (path / PLAN).exists() or (path / "study.json").exists()]
    if not found:
        raise ValueError(f"{out} holds no study. Name the --out of a race, evaluate, grid, blurb or recommend")
    return found
