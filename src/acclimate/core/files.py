"""Files that are whole or absent: every write goes to a temporary name in the same directory, is flushed, then renamed.

A directory is complete only once its `manifest.json`, with the SHA-256 of each file, stands in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

MANIFEST = "manifest.json"
LOCK, HOLDER = ".lock", ".holder"  # in a directory that a process works in; the second says which process
_held: set[Path] = set()  # by this process


class DamagedError(ValueError):
    """A directory whose files are not those that its manifest lists."""


class HeldError(RuntimeError):
    """A directory that another process works in."""


def cache() -> Path:
    """Return the directory that runs share: $ACCLIMATE_CACHE, or `acclimate` in the user's cache directory."""
    if stated := os.environ.get("ACCLIMATE_CACHE"):
        return Path(stated)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "acclimate"


def write_bytes(path: Path, content: bytes) -> None:
    """Write the file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        file.write(content)
    settle(temporary, path)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A temporary sibling to fill, for a large file; when the block ends it becomes `path`, replacing an older one.

    Where the block raises, the sibling is removed; a kill leaves it, and the next call for the same `path` begins with
    emptying it. Two processes must not write the same `path` at once.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
        settle(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def settle(temporary: Path, path: Path) -> None:
    """Make the whole file `temporary`, of the same directory, the file `path`: flushed, then renamed."""
    with open(temporary, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)
    _flush_directory(path.parent)


def write_text(path: Path, content: str) -> None:
    write_bytes(path, content.encode())


def write_json(path: Path, value: Any) -> None:
    """Write JSON, indented; NaN and infinities are refused, for no other reader takes them."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def append_line(path: Path, line: str) -> None:
    """Add a line to the file's end, flushed; lines of several processes do not mix, and a torn one stays by itself."""
    with open(path, "a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        torn = file.read(1) not in (b"", b"\n")
        file.write(b"\n" * torn + line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise DamagedError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise DamagedError(f"{path}: byte {error.start:,} is not UTF-8: {error.reason}") from error


def sha256_of(path: Path) -> str:
    """64 hex digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_input(path: Path) -> str:
    """64 hex digits, of a file that is only read: hashed once a process for as long as its size and times stay."""
    status = path.stat()
    return _sha256_of_version(path.resolve(), status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache
def _sha256_of_version(path: Path, inode: int, size: int, changed: int) -> str:
    return sha256_of(path)


def sha256_of_bytes(content: bytes) -> str:
    """64 hex digits."""
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A temporary sibling to fill; when the block ends it gets its manifest and becomes `path`, replacing an older one.

    Where the block raises, `path` stays as it was and the sibling is removed; a kill leaves the sibling, which the next
    call for the same `path` removes. The older one is moved aside before it is removed, so that at no time a part of it
    is at `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, older = path.with_name(f".{path.name}.tmp"), path.with_name(f".{path.name}.old")
    for left in (temporary, older):
        shutil.rmtree(left, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        seal(temporary)
        if path.exists():
            os.replace(path, older)
        os.replace(temporary, path)
        _flush_directory(path.parent)
        shutil.rmtree(older, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def seal(directory: Path) -> None:
    """Flush the directory's files and write its manifest, which makes it complete."""
    files = sorted(file for file in directory.rglob("*") if file.is_file() and file.name != MANIFEST)
    for file in files:
        with open(file, "rb+") as handle:
            os.fsync(handle.fileno())
    write_json(directory / MANIFEST, {str(file.relative_to(directory)): sha256_of(file) for file in files})


def check(directory: Path) -> None:
    """Raises DamagedError where the directory lacks its manifest or a file is not the one listed there."""
    manifest = directory / MANIFEST
    if not manifest.is_file():
        raise DamagedError(f"{directory} is incomplete: it has no {MANIFEST}")
    for name, expected in read_json(manifest).items():
        file = directory / name
        if not file.is_file():
            raise DamagedError(f"{file} is missing, though {manifest} lists it")
        if sha256_of(file) != expected:
            raise DamagedError(f"{file} is damaged: its content is not what {manifest} lists")


@contextlib.contextmanager
def hold(directory: Path) -> Iterator[None]:
    """Keep every other process out of the directory. The lock ends with the process, even if that is killed.

    Where the block raises, a lock that was new is gone again, and so are directories that were made and are empty.
    What this process holds already, it may hold again. Raises HeldError, naming the holder, where another has it, and
    NotADirectoryError where a file stands in its place.
    """
    place = directory.resolve()
    if place in _held:
        yield
        return
    if taken := next((each for each in (place, *place.parents) if each.is_file()), None):
        raise NotADirectoryError(f"--out {directory}: {taken.name} is a file. Choose another --out")
    made = [each for each in (place, *place.parents) if not each.exists()]
    path, holder = place / LOCK, place / HOLDER
    new = not path.exists()
    lock = _locked(path, directory)
    try:
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        _held.add(place)
        yield
    except BaseException:
        holder.unlink(missing_ok=True)
        if new:
            path.unlink(missing_ok=True)
        for each in made:
            if each.is_dir() and not any(each.iterdir()):
                each.rmdir()
        raise
    finally:
        _held.discard(place)
        holder.unlink(missing_ok=True)
        lock.release()


def _locked(path: Path, directory: Path) -> FileLock:
    """The lock, taken; its directory is made where it is missing. directory: as errors name it."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        before = _inode(path)
        lock = FileLock(path, thread_local=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            if _inode(path) != before:  # its holder has just removed it
                continue
            holder = path.with_name(HOLDER)
            who = holder.read_text(encoding="utf-8") if holder.exists() else ""
            raise HeldError(
                f"{directory} is in use by {who or 'another process'}. Wait for it, end it, or choose another --out"
            ) from None
        if _inode(path) == before:
            return lock
        lock.release()  # its holder removed the file while we opened it, so this lock keeps no one out


def _inode(path: Path) -> int | None:
    """The number of the file at the path; None where there is none. On NFS a removed file that is open keeps its links,
    so that they do not tell whether it is still there.
    """
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _flush_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
