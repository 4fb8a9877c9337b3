"""What every report states: the date, the machine, the versions, the command, and tables."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("acclimate", "torch", "transformers", "accelerate", "tokenizers", "numpy", "numba", "pyarrow")


def head(title: str, *, facts: Sequence[tuple[str, str]] = ()) -> str:
    """The top of a page; `facts` are added to those of the machine."""
    rows = [
        ("date", datetime.date.today().isoformat()),
        ("processor", f"{processor()}, {os.cpu_count()} cores, {_memory()} of memory"),
        ("system", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"),
        ("versions", ", ".join(f"{package} {_version(package)}" for package in PACKAGES)),
        ("load average as the report is written", " ".join(f"{load:.1f}" for load in os.getloadavg())),
        *facts,
    ]
    return f"# {title}\n\n{table(('', ''), rows)}\n\nCommand:\n\n```\n{_command()}\n```\n"


def table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; every column but the first is set to the right."""
    lines = [_row(names), "|" + "|".join(["---"] + ["---:"] * (len(names) - 1)) + "|"]
    return "\n".join(lines + [_row(row) for row in rows])


def spread(values: Sequence[float], form: str = ",.0f") -> str:
    """Median, and least to most in brackets."""
    ordered = sorted(values)
    half = len(ordered) // 2
    median = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
    return f"{median:{form}} ({ordered[0]:{form}} to {ordered[-1]:{form}})"


def write(path: Path, parts: Sequence[str]) -> None:
    """Write the page, which replaces an older one of this name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(part.rstrip("\n") + "\n" for part in parts), encoding="utf-8")
    tell(f"wrote {path}")


def tell(line: str) -> None:
    """Say how far it is, to whoever waits."""
    print(line, file=sys.stderr, flush=True)


def run_parts(
    names: Iterable[str],
    measure: Callable[[str], list[tuple[Any, ...]]],
    report: Callable[[Mapping[str, list[tuple[Any, ...]]]], None],
) -> None:
    """Measure one part after another, and write the report again after each."""
    parts: dict[str, list[tuple[Any, ...]]] = {}
    for name in names:
        parts[name] = measure(name)
        tell(f"{name}: {time.process_time() / 60:.1f} minutes of one core so far")
        report(parts)


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _command() -> str:
    """The command as it was given, but of absolute paths the last part only: the rest is this machine's business."""
    script = f"benchmarks/{Path(sys.argv[0]).name}"
    return shlex.join(["python", script, *map(_here, sys.argv[1:])])


def _here(word: str) -> str:
    """A path, or what stands behind NAME=, without the folders above it."""
    name, equals, path = word.rpartition("=")
    return f"{name}{equals}{Path(path).name}" if os.path.isabs(path) else word


def processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip() + _instructions()
    return platform.processor() or platform.machine()


def _instructions() -> str:
    import torch

    able = torch.cpu.get_capabilities()
    known = [name for name in ("avx2", "avx512_f", "avx512_bf16", "amx_bf16") if able.get(name)]
    return f" ({', '.join(known)})" if known else ""


def _memory() -> str:
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(absent)"
