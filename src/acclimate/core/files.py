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
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

MANIFEST = "manifest.json"
LOCK, HOLDER = ".lock", ".holder"  # in a directory that a process works in; `.holder` names the process
_held: set[Path] = set()  # directories that this process holds


class DamagedError(ValueError):
    """A file or directory is not what was written: it differs from its manifest, or is not valid JSON."""


class HeldError(RuntimeError):
    """Another process works in the directory."""


def cache() -> Path:
    """Return the directory that runs share: $ACCLIMATE_CACHE, or `acclimate` in the user's cache directory."""
    if stated := os.environ.get("ACCLIMATE_CACHE"):
        return Path(stated)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "acclimate"


def write_bytes(path: Path, content: bytes) -> None:
    """Write the file, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        file.write(content)
    settle(temporary, path)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary sibling to fill, for a large file. When the block ends, it replaces `path`.

    If the block raises, the sibling is removed. If the process is killed, it stays, and the next call for the same
    `path` empties it. Two processes must not write the same `path` at once.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
        settle(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def settle(temporary: Path, path: Path) -> None:
    """Flush the finished file `temporary` and rename it to `path`, which is in the same directory."""
    with open(temporary, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)
    _flush_directory(path.parent)


def write_text(path: Path, content: str) -> None:
    """Write the file in UTF-8, whole or not at all."""
    write_bytes(path, content.encode())


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON. Raises ValueError for NaN and infinities, which JSON does not have."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def append_line(path: Path, line: str) -> None:
    """Append a line to the file and flush it.

    Lines of several processes do not mix. After a line that a crash cut off, the new one begins on the next line.
    """
    with open(path, "a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        torn = file.read(1) not in (b"", b"\n")
        file.write(b"\n" * torn + line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_json(path: Path) -> Any:
    """Return the file's value. Raises DamagedError, naming the place, if it is not JSON in UTF-8."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise DamagedError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise DamagedError(f"{path}: byte {error.start:,} is not UTF-8: {error.reason}") from error


def sha256_of(path: Path) -> str:
    """Return the file's SHA-256, 64 hex digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_input(path: Path) -> str:
    """Return the SHA-256 of a file that we only read, 64 hex digits; it is read again only if size or time changed."""
    status = path.stat()
    return _sha256_of_version(path.resolve(), status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache
def _sha256_of_version(path: Path, inode: int, size: int, changed: int) -> str:
    return sha256_of(path)


def sha256_of_bytes(content: bytes) -> str:
    """Return the SHA-256 of these bytes, 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling to fill. When the block ends, it gets its manifest and replaces `path`.

    If the block raises, `path` does not change and the sibling is removed. If the process is killed, the sibling stays,
    and the next call for the same `path` removes it. The directory that is replaced is renamed before it is removed, so
    `path` never holds a part of it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, older = path.with_name(f".{path.name}.tmp"), path.with_name(f".{path.name}.old")
    for leftover in (temporary, older):
        shutil.rmtree(leftover, ignore_errors=True)
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
    """Flush the directory's files and write its manifest, which marks it as complete."""
    files = sorted(file for file in directory.rglob("*") if file.is_file() and file.name != MANIFEST)
    for file in files:
        with open(file, "rb+") as handle:
            os.fsync(handle.fileno())
    write_json(directory / MANIFEST, {str(file.relative_to(directory)): sha256_of(file) for file in files})


def check_manifest(directory: Path, *, edited: Collection[str] = ()) -> None:
    """Raise DamagedError if the directory has no manifest, or a file differs from the manifest or is missing.

    edited: names of files whose content may differ
    """
    manifest = directory / MANIFEST
    if not manifest.is_file():
        raise DamagedError(f"{directory} is incomplete: it has no {MANIFEST}")
    for name, expected in read_json(manifest).items():
        file = directory / name
        if not file.is_file():
            raise DamagedError(f"{file} is missing, though {manifest} lists it")
        if name not in edited and sha256_of(file) != expected:
            raise DamagedError(f"{file} is damaged: its content is not what {manifest} lists")


@contextlib.contextmanager
def hold(directory: Path) -> Iterator[None]:
    """Lock the directory against other processes in the block, and make it if it is missing.

    The lock ends with the process, even if that is killed. A process may lock a directory that it has locked already.
    If the block raises, a new lock file and new empty directories are removed.

    Raises HeldError, naming the holder, if another process has the lock, and NotADirectoryError if there is a file at
    the path or above it.
    """
    place = directory.resolve()
    if place in _held:
        yield
        return
    if taken := next((above for above in (place, *place.parents) if above.is_file()), None):
        raise NotADirectoryError(f"--out {directory}: {taken.name} is a file. Choose another --out")
    created = [above for above in (place, *place.parents) if not above.exists()]
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
        for above in created:
            if above.is_dir() and not any(above.iterdir()):
                above.rmdir()
        raise
    finally:
        _held.discard(place)
        holder.unlink(missing_ok=True)
        lock.release()


def _locked(path: Path, directory: Path) -> FileLock:
    """Return the acquired lock; make its directory if it is missing. directory: the path as errors name it."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        before = _inode(path)
        lock = FileLock(path, thread_local=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            if _inode(path) != before:  # the holder has just removed the file
                continue
            holder = path.with_name(HOLDER)
            who = holder.read_text(encoding="utf-8") if holder.exists() else ""
            raise HeldError(
                f"{directory} is in use by {who or 'another process'}. Wait for it, end it, or choose another --out"
            ) from None
        if _inode(path) == before:
            return lock
        lock.release()  # the holder removed the file while we opened it, so other processes would not see this lock


def _inode(path: Path) -> int | None:
    """Return the inode of the file at the path, or None if there is no file.

    The number of links would not do: on NFS a removed file that is open keeps its links.
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
