"""The faults: what each does, what is promised, how often it is tried, and how a try is checked."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from torture import disk, zygote
from torture.victims import OFTEN, VICTIMS, Victim, copied, differences, results, undisturbed
from torture.zygote import Ended

# what a message asks for, which is then done: "Remove PATH: ..." and "Remove PATH; ..."
REMOVE = re.compile(r"(?:[Rr]emove|, and)\s+(\S+?)[:;,.]?(?=\s|$)")
ANOTHER_OUT = re.compile(r"another --out|[Mm]ove that away|--to another directory|another --to")
WAYS_OUT = 12  # one after the other
NAMED_FIRST = "named, then the same bytes"


@dataclass(frozen=True)
class Try:
    """One try. failed: what went against the promise; "": nothing. how: how it ended, for the counts of the report"""

    failed: str = ""
    how: str = "same bytes"

    def after(self, fault: str, how: str = "") -> Try:
        """Return the try with the fault in what failed, and how it ended if that is known better."""
        return Try(self.failed and f"{self.failed} ({fault})", how or self.how)


@dataclass
class Bench:
    """A place with all inputs, of which every part has copies."""

    home: Path
    scratch: Path
    random: random.Random
    victims: tuple[Victim, ...] = tuple(VICTIMS.values())
    expected: dict[str, tuple[dict[str, Any], float]] = field(default_factory=dict)
    recordings: dict[str, disk.Recording] = field(default_factory=dict)

    def place(self, name: str) -> Path:
        """Return a directory in which a victim may run; the same for the same name."""
        place = self.scratch / name
        return place if place.exists() else copied(self.home, place)

    def fresh(self, name: str) -> Path:
        """Return such a directory as new."""
        shutil.rmtree(self.scratch / name, ignore_errors=True)
        return self.place(name)

    def alone(self, victim: Victim) -> tuple[dict[str, Any], float]:
        """Return the results of the victim left alone, and its seconds."""
        if victim.name not in self.expected:
            self.expected[victim.name] = undisturbed(self.place("alone"), victim)
        return self.expected[victim.name]

    def recording(self, victim: Victim) -> disk.Recording:
        """Return the operations of the victim left alone."""
        if victim.name not in self.recordings:
            place = self.place("recorded")
            victim.emptied(place)
            often = {} if victim.name in ("race", "study") else dict(victim.environment)  # thousands of states
            self.recordings[victim.name] = disk.recorded(victim.command, place, often)
        return self.recordings[victim.name]


Attempt = Callable[[Bench, int], Iterator[Try]]


@dataclass(frozen=True)
class Fault:
    """A row of the matrix.

    tries  of a whole run
    """

    name: str
    does: str
    promised: str
    tries: int
    attempt: Attempt


def went_on(
    bench: Bench,
    victim: Victim,
    place: Path,
    *,
    harmed: Path | None = None,
    may_name: bool = False,
    not_needed: tuple[str, ...] = (),
) -> Try:
    """Run the victim on what a fault left. It must end with the bytes of one that was left alone.

    may_name: True if it may stop with a message first. The message names what is damaged and what to remove; that is
    removed, and the command given again.
    not_needed: beginnings of the names of files that may be missing in the end
    harmed: a file that may stay as it is, or be missing, where the command does not read it
    """
    expected, _ = bench.alone(victim)
    left = harmed.read_bytes() if harmed and harmed.exists() else None
    named: list[Path] = []
    while True:
        ended = zygote.run(victim.command, place, environment=victim.environment)
        if ended.status == 0:
            found = results(place)
            unread = {} if harmed is None else {str(harmed.relative_to(place / "out")): left}
            gone = [str(path.relative_to(place / "out")) for path in named if path != place / "out"]
            differing = [
                name
                for name in differences(expected, found)
                if not (name in unread and found.get(name) == unread[name])
                and not (name not in found and name.startswith((*gone, *not_needed)))
            ]
            failed = f"{victim.name}: other bytes in {differing[:4]} after {len(named)} removals" if differing else ""
            same = not differences(expected, found)
            return Try(failed, NAMED_FIRST if named else "same bytes" if same else "not read")
        if ended.failed or not may_name:
            return Try(f"{victim.name}: {ended}")
        ways_out = [place / found for found in REMOVE.findall(ended.said)]
        ways_out = [path for path in ways_out if path.exists() and path.is_relative_to(place / "out")]
        if ANOTHER_OUT.search(ended.said) and not ways_out:
            ways_out = [place / "out"]
            shutil.rmtree(place / "cache" / "looks", ignore_errors=True)  # the next --out would rightly count them
        if not ways_out or len(named) > WAYS_OUT:
            return Try(f"{victim.name}: no way out that helps: {ended}")
        for path in ways_out:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        named += ways_out


def killed(bench: Bench, tries: int, *, name: str) -> Iterator[Try]:
    """Kill a victim at random moments, again and again, until it comes to its end."""
    victim = VICTIMS[name]
    place = bench.fresh("killed")
    _, took = bench.alone(victim)
    left = tries
    while left:
        victim.emptied(place)
        for _ in range(min(left, 8)):
            after = bench.random.uniform(0, 1.1 * took)
            ended = zygote.run(victim.command, place, environment=victim.environment, kill_after=after)
            if ended.status != -9:
                if ended.status != 0:
                    yield Try(f"{name}, killed before: {ended}")
                break
            left -= 1
            yield Try(how="killed")
        tried = went_on(bench, victim, place)
        if tried.failed:
            yield Try(f"{tried.failed} (kills)")


def crashed(bench: Bench, tries: int) -> Iterator[Try]:
    """Give each victim what a kill before each of its operations leaves."""
    place = bench.fresh("crashed")
    for victim, number in _spread(bench, tries):
        recording = bench.recording(victim)
        victim.emptied(place)
        recording.put_back(number, place)
        yield went_on(bench, victim, place).after(f"killed before operation {number} of {len(recording)}")


def _spread(bench: Bench, tries: int) -> Iterator[tuple[Victim, int]]:
    """Yield victims by their weight, and the numbers of moments: drawn ones, or all if there are no more."""
    whole = sum(victim.weight for victim in bench.victims)
    for victim in bench.victims:
        moments = bench.recording(victim).moments()
        quota = min(len(moments), max(1, round(tries * victim.weight / whole)))
        yield from ((victim, moment) for moment in sorted(bench.random.sample(moments, quota)))


def _drawn(bench: Bench, tries: int) -> Iterator[Victim]:
    """Yield victims by their weight, in random order."""
    victims = [*bench.victims]
    yield from bench.random.choices(victims, [victim.weight for victim in victims], k=tries)


def refused_by_disk(bench: Bench, tries: int, *, errors: tuple[int, ...]) -> Iterator[Try]:
    """Let an operation fail, and all openings and flushes after it; then give the command again on a whole disk."""
    place = bench.fresh("refused")
    for victim, number in _spread(bench, tries):
        victim.emptied(place)
        error = bench.random.choice(errors)
        ended = zygote.run(
            victim.command, place, environment=victim.environment, before=disk.fail_at(place, number, error)
        )
        if ended.failed:
            yield Try(f"{victim.name}, {os.strerror(error)} at operation {number}: {ended}")
            continue
        if ended.status != 0 and os.strerror(error) not in ended.said:
            yield Try(f"{victim.name}, {os.strerror(error)} at operation {number} is not named: {ended}")
            continue
        yield went_on(bench, victim, place).after(f"after {os.strerror(error)} at {number}", NAMED_FIRST)


def full_disk(bench: Bench, tries: int) -> Iterator[Try]:
    """Run on a disk with little room, which is enlarged then. Yields nothing where no disk can be mounted."""
    for victim in _drawn(bench, tries):
        expected, _ = bench.alone(victim)
        size = sum(len(content) for content in expected.values() if isinstance(content, bytes))
        room = 4096 * bench.random.randint(1, max(2, size // 4096 + len(expected)))
        with _mounted(bench) as place:
            if place is None:
                return
            victim.emptied(place)
            used = shutil.disk_usage(place).used
            subprocess.run(["mount", "-o", f"remount,size={used + room}", str(place)], check=True)
            ended = zygote.run(victim.command, place, environment=victim.environment)
            if ended.failed or (ended.status != 0 and "No space left" not in ended.said):
                yield Try(f"{victim.name} in {room:,} bytes: {ended}")
                continue
            subprocess.run(["mount", "-o", "remount,size=256m", str(place)], check=True)
            yield went_on(bench, victim, place).after(f"after {room:,} bytes", NAMED_FIRST)


@contextlib.contextmanager
def _mounted(bench: Bench) -> Iterator[Path | None]:
    """Yield a place on a disk of its own; None where none can be mounted."""
    place = bench.scratch / "mounted"
    place.mkdir(exist_ok=True)
    tmpfs = ["mount", "-t", "tmpfs", "-o", "size=256m", "none", str(place)]
    if subprocess.run(tmpfs, check=False, capture_output=True).returncode:
        yield None
        return
    try:
        yield copied(bench.home, place)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def read_only(bench: Bench, tries: int) -> Iterator[Try]:
    """Run in a directory that is mounted read-only, from nothing or from the middle."""
    for victim in _drawn(bench, tries):
        recording = bench.recording(victim)
        with _mounted(bench) as place:
            if place is None:
                return
            recording.put_back(bench.random.randrange(len(recording)), place)
            subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
            ended = zygote.run(victim.command, place, environment=victim.environment)
            if ended.failed or (ended.status != 0 and "ead-only" not in ended.said):
                yield Try(f"{victim.name}, read-only: {ended}")
                continue
            subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
            yield went_on(bench, victim, place).after("after read-only", NAMED_FIRST)


def without_power(bench: Bench, tries: int) -> Iterator[Try]:
    """Give each victim what a loss of power may leave: names without data, zeros, changes out of order."""
    place = bench.fresh("powerless")
    for victim, number in _spread(bench, tries):
        loss: disk.Loss = bench.random.choice(("data", "zeros", "reordered"))
        victim.emptied(place)
        bench.recording(victim).lose_power(number, loss, place, bench.random)
        tried = went_on(bench, victim, place, may_name=True, not_needed=("corpora/",))
        yield tried.after(f"power lost before {number}, {loss}")


def _flip(path: Path, other: Path, generator: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
    path.write_bytes(bytes(content))


HARMS: dict[str, Callable[[Path, Path, random.Random], Any]] = {
    "flipped": _flip,
    "zeroed": lambda path, other, generator: path.write_bytes(bytes(path.stat().st_size)),
    "truncated": lambda path, other, generator: os.truncate(path, generator.randrange(path.stat().st_size)),
    "deleted": lambda path, other, generator: path.unlink(),
    "swapped": lambda path, other, generator: path.write_bytes(other.read_bytes()),
}


def damaged(bench: Bench, tries: int, *, finished: bool) -> Iterator[Try]:
    """Harm one file of a run, and give the command again; what it names is removed.

    finished: False if the run was killed at some moment before
    """
    place = bench.fresh("damaged")
    for victim in _drawn(bench, tries):
        victim.emptied(place)
        recording = bench.recording(victim)
        moment = len(recording) if finished else bench.random.choice(recording.moments()[1:] or [0])
        recording.put_back(moment, place)
        written = [path for path in sorted((place / "out").rglob("*")) if path.is_file() and path.stat().st_size]
        if not written:
            yield Try(how="nothing there yet")
            continue
        by_kind: dict[str, list[Path]] = {}
        for path in written:
            by_kind.setdefault(path.name, []).append(path)
        path = bench.random.choice(by_kind[bench.random.choice([*by_kind])])
        alike = [each for each in written if each.suffix == path.suffix and each != path] or written
        how = bench.random.choice([*HARMS])
        HARMS[how](path, bench.random.choice(alike), bench.random)
        about = f"{path.relative_to(place)} {how}, {'finished' if finished else f'at operation {moment}'}"
        yield went_on(bench, victim, place, harmed=path, may_name=True).after(about)


PREDICT = ["predict", "out", "in/test.jsonl", "--out", "predicted.jsonl"]


def looked_at(bench: Bench, tries: int) -> Iterator[Try]:
    """Harm one file of a finished race, and verify, report, ship or predict: the same, or the file is named."""
    place = bench.fresh("looked-at")
    race = VICTIMS["race"]
    commands = (["study", "verify", "out"], ["report", "out"], ["ship", "out", "--to", "shipped"], PREDICT)
    for number in range(tries):
        race.emptied(place)
        shutil.rmtree(place / "shipped", ignore_errors=True)
        recording = bench.recording(race)
        recording.put_back(len(recording), place)
        whole = results(place)
        written = [path for path in sorted((place / "out").rglob("*")) if path.is_file() and path.stat().st_size]
        path, how = bench.random.choice(written), bench.random.choice([*HARMS])
        alike = [each for each in written if each.suffix == path.suffix and each != path] or written
        before = path.read_bytes()
        HARMS[how](path, bench.random.choice(alike), bench.random)
        changed = not path.exists() or path.read_bytes() != before
        about = f"{path.relative_to(place)} {how}"
        command = commands[number % len(commands)]
        ended = zygote.run(command, place)
        named = path.name in ended.said or path.parent.name in ended.said
        matters = differences(whole, results(place)) and changed
        if ended.failed or (ended.status and not named):
            yield Try(f"{' '.join(command)} ({about}): {ended}")
        elif command is PREDICT and matters and ended.status == 0 and path.parent.name == "use" and _verified(path):
            yield Try(f"predict uses a changed model ({about})")
        elif command[1] == "verify" and matters and ended.status == 0 and _verified(path):
            yield Try(f"study verify finds nothing ({about})")
        else:
            yield Try(how="named" if ended.status else "harmless")


def _verified(path: Path) -> bool:
    """True for a file from which a number, a table or a model is made."""
    return path.name in ("result.json", "job.json", "race.outcome.json") or path.suffix == ".safetensors"


def clock_jumps(bench: Bench, tries: int) -> Iterator[Try]:
    """Let the wall clock jump by up to a year at every look, back and forth."""
    place = bench.fresh("clocks")
    for victim in _drawn(bench, tries):
        victim.emptied(place)
        generator = random.Random(bench.random.random())
        real = time.time

        def jump(generator: random.Random = generator, real: Callable[[], float] = real) -> None:
            year = 365 * 86400.0
            time.time = lambda: real() + generator.uniform(-year, year)
            time.time_ns = lambda: int(time.time() * 1e9)

        for path in (place / "in").iterdir():
            when = real() + bench.random.uniform(-1e9, 1e9)
            os.utime(path, (when, when))
        _, took = bench.alone(victim)
        after = bench.random.uniform(0, took)
        zygote.run(victim.command, place, environment=victim.environment, before=jump, kill_after=after)
        ended = zygote.run(victim.command, place, environment=victim.environment, before=jump)
        if ended.status != 0:
            yield Try(f"{victim.name} with a jumping clock: {ended}")
            continue
        yield went_on(bench, victim, place).after("clock")


def two_at_once(bench: Bench, tries: int) -> Iterator[Try]:
    """Give the same command twice, a moment apart: one ends, the other too or it says who holds the directory."""
    place = bench.fresh("two")
    for victim in _drawn(bench, tries):
        victim.emptied(place)
        _, took = bench.alone(victim)
        first = zygote.start(victim.command, place, environment=victim.environment, output="first")
        time.sleep(bench.random.choice((0.0, bench.random.uniform(0, took))))
        second = zygote.start(victim.command, place, environment=victim.environment, output="second")
        both = [first.ended(), second.ended()]
        refused = [ended for ended in both if ended.status != 0]
        if len(refused) > 1 or any(ended.failed or "in use by" not in ended.said for ended in refused):
            yield Try(f"{victim.name} twice at once: {both[0]}\n{both[1]}")
            continue
        yield went_on(bench, victim, place).after("two at once", "one refused by name" if refused else "same bytes")


def stale_locks(bench: Bench, tries: int) -> Iterator[Try]:
    """Leave the locks and notes of dead processes, of this machine and of others, torn ones too."""
    place = bench.fresh("stale")
    notes = (b"", b"{", b"process 1 on elsewhere", b"\xff\xfe", b'{"label": "x", "process": 1, "machine": "y"}')
    for victim in _drawn(bench, tries):
        victim.emptied(place)
        recording = bench.recording(victim)
        at = bench.random.randrange(len(recording))
        recording.put_back(at, place)
        for moment in range(at + 1):  # all locks that there ever were
            for path, (_, content) in recording.trees[moment].items():
                is_lock = path.endswith((".lock", ".holder")) or "/running/" in path
                if content and is_lock and (place / path).parent.is_dir():
                    (place / path).write_bytes(bench.random.choice(notes))
        (place / "out").mkdir(exist_ok=True)
        if victim.name not in ("ship", "fetch"):
            (place / "out/.lock").touch()
            (place / "out/.holder").write_bytes(bench.random.choice(notes))
        yield went_on(bench, victim, place).after("stale locks")


def without_locks(bench: Bench, tries: int) -> Iterator[Try]:
    """Let the file system have no locks, or lose its lock server, as NFS may."""
    place = bench.fresh("lockless")
    for number, victim in enumerate(_drawn(bench, tries)):
        victim.emptied(place)
        error = (errno.ENOSYS, errno.ENOLCK, errno.EIO, errno.EOPNOTSUPP)[number % 4]
        after = bench.random.choice((0, 0, 1, 2))

        def broken(error: int = error, after: int = after) -> None:
            import fcntl

            real, seen = fcntl.flock, 0

            def flock(handle: Any, how: int) -> None:
                nonlocal seen
                seen += 1
                if seen > after:
                    raise OSError(error, os.strerror(error))
                real(handle, how)

            fcntl.flock = flock

        ended = zygote.run(victim.command, place, environment=victim.environment, before=broken)
        if ended.failed or (ended.status != 0 and not re.search("lock", ended.said)):
            yield Try(f"{victim.name} without locks ({errno.errorcode[error]}): {ended}")
            continue
        yield went_on(bench, victim, place).after("without locks", "named" if ended.status else "same bytes")


SCHEDULERS: tuple[Mapping[str, str], ...] = (
    {"RANK": "1"},
    {"RANK": "x"},
    {"LOCAL_RANK": "3"},
    {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"},
    {"WORLD_SIZE": "4"},
    {"WORLD_SIZE": "4", "RANK": "2"},
    {"WORLD_SIZE": "0"},
    {"WORLD_SIZE": "two"},
    {"WORLD_SIZE": "-1"},
    {"WORLD_SIZE": "2", "RANK": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"},
    {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_LOCALID": "3", "SLURM_JOB_ID": "7"},
    {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PMI_RANK": "1", "PMI_SIZE": "2"},
    {"PBS_NODEFILE": "/none", "NCPUS": "99"},
    {"MASTER_ADDR": "nowhere.invalid", "MASTER_PORT": "x"},
    {"CUDA_VISIBLE_DEVICES": "7"},
    {"CUDA_VISIBLE_DEVICES": ""},
    {"COLUMNS": "3"},
    {"COLUMNS": "many"},
    {"TERM": "dumb", "LANG": "C", "LC_ALL": "C"},
    {"TZ": "Mars/Olympus"},
    {"HOME": "/nonexistent"},
    {"ACCLIMATE_SAVE_SECONDS": "abc"},
    {"ACCLIMATE_STEP_SECONDS": "-1"},
    {"TORCHELASTIC_RUN_ID": "7"},
    {"RAY_ADDRESS": "10.0.0.1:6379"},
)


def scheduled(bench: Bench, tries: int) -> Iterator[Try]:
    """Set what schedulers and users leave in the environment: the same bytes, or the variable is named."""
    place = bench.fresh("scheduled")
    victims = [VICTIMS[name] for name in ("adapt", "race", "retrieve", "corpus")]
    for number in range(tries):
        stated = SCHEDULERS[number % len(SCHEDULERS)]
        victim = victims[number // len(SCHEDULERS) % len(victims)]
        victim.emptied(place)
        ended = zygote.run(victim.command, place, environment=stated, within=120)
        if ended.status == 0:
            differing = differences(bench.alone(victim)[0], results(place))
            yield Try(f"{victim.name} with {stated}: other bytes in {differing[:4]}" if differing else "")
        elif ended.failed or not any(name in ended.said for name in stated):
            yield Try(f"{victim.name} with {stated}: {ended}")
        else:
            yield Try(how="named")


def _kills(name: str, tries: int, does: str) -> Fault:
    return Fault(
        f"kill-{name}",
        f"`kill -9` at random moments of {does}",
        "The same command goes on and ends with the same bytes",
        tries,
        partial(killed, name=name),
    )


SAME_AFTER = "One line names the file and the error; the same command, with the disk mended, ends with the same bytes"
FAULTS = (
    _kills("adapt", 300, "an adaptation"),
    _kills("retrieve", 150, "a retrieval"),
    _kills("corpus", 150, "cleaning raw text"),
    _kills("prepare", 50, "reading labelled files"),
    _kills("fetch", 50, "taking a copy of a benchmark"),
    _kills("ship", 100, "shipping a model"),
    _kills("race", 150, "a race"),
    _kills("study", 50, "a paper's study"),
    Fault(
        "crash",
        "A kill before each file operation of each of these commands",
        "The same command goes on and ends with the same bytes",
        600,
        crashed,
    ),
    Fault(
        "disk",
        "Each file operation fails: disk full, quota, input/output error, read-only",
        SAME_AFTER,
        400,
        partial(refused_by_disk, errors=(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)),
    ),
    Fault(
        "full",
        "A disk with room for a random part of what is written (a tmpfs; needs root)",
        SAME_AFTER,
        100,
        full_disk,
    ),
    Fault(
        "read-only",
        "A disk that is mounted read-only, at the start or in the middle (needs root)",
        SAME_AFTER,
        40,
        read_only,
    ),
    Fault(
        "power",
        "Power is lost at a random operation: names without data, zeros in place of data, changes out of order",
        "The same command ends with the same bytes; or it names the damaged file, and does so once that is removed",
        500,
        without_power,
    ),
    Fault(
        "at-rest",
        "One file of a finished run is flipped in a bit, zeroed, truncated, deleted or swapped with another",
        "The same command ends with the same bytes; or it names the file, and does so once that is removed",
        400,
        partial(damaged, finished=True),
    ),
    Fault(
        "between",
        "The same, in a run that was killed at a random operation",
        "The same command ends with the same bytes; or it names the file, and does so once that is removed",
        400,
        partial(damaged, finished=False),
    ),
    Fault(
        "looked-at",
        "The same, and `study verify`, `report`, `ship` or `predict` follows",
        "`study verify` finds every changed result and weight; the others name the file, or it is none that they read",
        300,
        looked_at,
    ),
    Fault(
        "clock",
        "The wall clock jumps by up to a year at every look; times of inputs are random",
        "The same bytes",
        40,
        clock_jumps,
    ),
    Fault(
        "two",
        "The same command is given twice at once",
        "One ends with the same bytes; the other does too, or names who holds the directory",
        60,
        two_at_once,
    ),
    Fault("stale", "Locks and notes of dead processes are left, whole and torn", "The same bytes", 48, stale_locks),
    Fault(
        "lockless",
        "The file system has no locks, or loses them, as NFS may (`flock` fails)",
        "One line says so, or the lock was not needed; with locks the same command ends with the same bytes",
        64,
        without_locks,
    ),
    Fault(
        "environment",
        "Variables that schedulers, shells and users leave in the environment",
        "The same bytes, or one line that names the variable",
        100,
        scheduled,
    ),
)
__all__ = ["FAULTS", "OFTEN", "Bench", "Counter", "Ended", "Fault", "Try"]
