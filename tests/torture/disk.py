"""What a process does to a disk, seen by Python's audit events: to fail one operation, or to know what each would have
left behind.

An operation is a file opened for writing, a rename, a removal, a directory made or removed, or a flush. What native
code writes in between (safetensors, tokenizers, Arrow) is part of the next operation; faults of the disk itself, a
small tmpfs, reach it.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from torture import zygote

Tree = dict[str, tuple[int, str]]  # path in the place -> inode, and key of the content; "" for a directory
Loss = Literal["data", "zeros", "reordered"]
INPUTS = ("in", "model", "copy", "raced", "texts")  # in a place; the rest is what a command writes
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def watch_operations(place: Path, at: Callable[[str, str], None]) -> None:
    """Call `at(kind, path)` before each operation in the place, in this process, until it ends."""
    inputs = tuple(f"{place / name}{os.sep}" for name in INPUTS)
    busy = False
    flush = os.fsync

    def written(path: str) -> bool:
        return path.startswith(f"{place}{os.sep}") and not path.startswith(inputs)

    def reach(kind: str, path: str) -> None:
        nonlocal busy
        if not busy:
            busy = True
            try:
                at(kind, path)
            finally:
                busy = False

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = given
            if not isinstance(path, str | bytes | os.PathLike) or not flags & WRITES:
                return
        elif event in CHANGES:
            path = given[0]
        else:
            return
        below = event in ("os.remove", "os.rmdir") and given[-1] not in (-1, None)  # of shutil.rmtree
        full = os.path.abspath(os.fsdecode(path)) if not isinstance(path, int) else ""
        if below or written(full):
            reach(event, full)

    def flushed(handle: Any) -> None:
        number = handle if isinstance(handle, int) else handle.fileno()
        path = os.readlink(f"/proc/self/fd/{number}")
        if written(path):
            reach("flush", path)
        flush(handle)

    os.fsync = flushed
    sys.addaudithook(hook)


@dataclass
class Recording:
    """A run, operation by operation.

    trees     the place before each operation, and at the end
    kinds     of the operations
    flushes   number of an operation -> path, of those that are flushes
    contents  key -> bytes
    """

    trees: list[Tree] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    flushes: dict[int, str] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.kinds)

    def moments(self) -> list[int]:
        """Return the numbers of operations before which the place differs from that before the one before."""
        return [at for at in range(len(self)) if not at or self.trees[at] != self.trees[at - 1]]

    def put_back(self, number: int, place: Path) -> None:
        """Make the place as a kill before this operation leaves it."""
        _write(self.trees[number], self.contents, place)

    def lose_power(self, number: int, loss: Loss, place: Path, generator: random.Random) -> None:
        """Make the place as a loss of power before this operation may leave it.

        "data": all names are there, but of files that were not flushed the content is lost: they are empty
        "zeros": the same, and these files have their length, in zeros
        "reordered": each file that was not flushed has any of the three contents, and each folder that was not
            flushed since has its entries of now or of its last flush
        """
        data: dict[int, str] = {}
        folders: dict[int, dict[str, int]] = {}
        for at in range(number):
            if at in self.flushes:
                path, tree = self.flushes[at], self.trees[at]
                inode, content = tree.get(path, (0, ""))
                if content:
                    data[inode] = content
                elif path in tree:
                    folders[inode] = _entries(path, tree)
        now = self.trees[number]
        kept: Tree = {}
        lost: dict[str, bytes] = {}
        for path, (inode, content) in sorted(now.items()):
            above = os.path.dirname(path)
            if above and above not in kept:
                continue
            if loss == "reordered" and above and generator.random() < 0.5:
                durable = folders.get(now[above][0])
                if durable is not None and os.path.basename(path) not in durable:
                    continue
            kept[path] = (inode, content)
            if not content or data.get(inode) == content:
                continue
            before = self.contents.get(data.get(inode, ""), b"")
            zeros = bytes(len(self.contents[content]))
            choices = {"data": [before], "zeros": [zeros], "reordered": [before, zeros, self.contents[content]]}[loss]
            lost[path] = generator.choice(choices)
        _write(kept, self.contents, place, lost)


def _entries(folder: str, tree: Tree) -> dict[str, int]:
    return {os.path.basename(path): inode for path, (inode, _) in tree.items() if os.path.dirname(path) == folder}


def _write(
    tree: Tree, contents: dict[str, bytes], place: Path, instead: Mapping[str, bytes] = MappingProxyType({})
) -> None:
    for path, (_, content) in sorted(tree.items()):
        if content:
            (place / path).write_bytes(instead.get(path, contents[content]))
        else:
            (place / path).mkdir(exist_ok=True)


def recorded(command: zygote.Command, place: Path, environment: dict[str, str]) -> Recording:
    """Return what the command does. Raises RuntimeError if it fails."""
    log = place.parent / f"{place.name}.recording"

    def record() -> None:
        recording = Recording()
        versions: dict[str, tuple[Any, str]] = {}

        def at(kind: str, path: str) -> None:
            recording.trees.append(_tree(place, versions, recording.contents))
            if kind == "flush":
                recording.flushes[len(recording)] = os.path.relpath(path, place)
            recording.kinds.append(kind)

        watch_operations(place, at)
        status = command() if callable(command) else zygote._command(command)
        recording.trees.append(_tree(place, versions, recording.contents))
        if status:
            raise RuntimeError(f"status {status}")
        log.write_bytes(pickle.dumps(recording))

    ended = zygote.run(record, place, environment=environment)
    if ended.status != 0:
        raise RuntimeError(str(ended))
    found: Recording = pickle.loads(log.read_bytes())
    log.unlink()
    return found


def _tree(place: Path, versions: dict[str, tuple[Any, str]], contents: dict[str, bytes]) -> Tree:
    """Return the place as it is. versions: path -> the state of a file when it was read, and the key of its content"""
    found: Tree = {}
    folders = [str(place)]
    while folders:
        folder = folders.pop()
        for entry in os.scandir(folder):
            path = entry.path[len(str(place)) + 1 :]
            if path in INPUTS:
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
                found[path] = (entry.inode(), "")
                continue
            status = entry.stat()
            state = (status.st_ino, status.st_size, status.st_mtime_ns)
            if versions.get(path, ((), ""))[0] != state:
                content = Path(entry.path).read_bytes()
                key = f"{hash(content)} {len(content)}"
                contents[key] = content
                versions[path] = (state, key)
            found[path] = (status.st_ino, versions[path][1])
    return found


def fail_at(place: Path, number: int, error: int | None) -> Callable[[], None]:
    """Return what makes the operation of this number fail, and all flushes and openings after it if the disk is
    full or broken; None: kills the process there.
    """

    def install() -> None:
        seen = 0

        def at(kind: str, path: str) -> None:
            nonlocal seen
            seen += 1
            if seen == number + 1 and error is None:
                os.kill(os.getpid(), 9)
            if error is not None and seen > number and kind in ("open", "flush", "os.mkdir", "os.rename"):
                raise OSError(error, os.strerror(error), path)

        watch_operations(place, at)

    return install
