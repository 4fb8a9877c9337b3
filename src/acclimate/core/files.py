"""Files that are whole or absent: every write goes to a temporary name in the same directory, is flushed, then renamed.

A directory is complete only once its `manifest.json`, with the SHA-256 of each file, stands in it. A record is a JSON
file that has its hash in itself.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import itertools
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from acclimate.core.door import option

MANIFEST = "manifest.json"
LOCK, HOLDER = ".lock", ".holder"  # in a directory that a process works in; `.holder` names the process
_BEFORE_HASH = b'{\n "sha256": "'  # the first bytes of a record, as `write_record` calls it
_OF_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG}
_OS_ERROR = re.compile(r"\(os error (\d+)\)")  # in an error of safetensors
_CUT_SHORT = re.compile(r"\d+ requested and \d+ written$")  # numpy's error, which does not say why
# files beside a model that change what loads: weights, adapters, modules, and parts of a tokenizer
_LOADED = re.compile(
    r"(?!\.).*\.(safetensors|bin|pt|pth|ckpt|gguf|model|index\.json)|(adapter_config|config|modules|tokenizer|vocab|"
    r"tokenizer_config|special_tokens_map|added_tokens|sentence_bert_config|config_sentence_transformers|"
    r"quantize_config|quant_config|baseline|combined)\.json|(vocab|merges)\.txt"
)
_LONG_NAME = 120  # bytes
_ABANDONED = 24 * 3600  # seconds without a change
_NUMBERS = itertools.count()  # of the temporary files of this process
_held: set[Path] = set()  # directories that this process holds


class DamagedError(ValueError):
    """A file or directory is not what was written: it differs from its manifest, or is not valid JSON."""


class DiskError(OSError):
    """The disk is full, broken or read-only."""


class HeldError(RuntimeError):
    """Another process works in the directory."""


def cache() -> Path:
    """Return the directory that runs share: $ACCLIMATE_CACHE, or `acclimate` in the user's cache directory."""
    if path := os.environ.get("ACCLIMATE_CACHE"):
        return Path(path)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "acclimate"


@contextlib.contextmanager
def disk_named(path: Path) -> Iterator[None]:
    """If the block cannot write because of the disk, raise DiskError, which names the path and the room that is left.

    That is so for an OSError without a file's name, for the error of safetensors, which is no OSError, and for that of
    numpy, which has no number.
    """
    try:
        yield
    except Exception as error:
        of_safetensors = _OS_ERROR.search(str(error)) if type(error).__name__ == "SafetensorError" else None
        number = int(of_safetensors[1]) if of_safetensors else getattr(error, "errno", None)
        if isinstance(error, OSError) and _CUT_SHORT.search(str(error)):
            number = errno.ENOSPC
        if number not in _OF_DISK:
            raise
        place = next(above for above in (path, *path.absolute().parents) if above.is_dir())
        raise DiskError(
            f"{path} cannot be written: {os.strerror(number)}; {shutil.disk_usage(place).free:,} bytes are free "
            "there. Free some space, or repair the disk or the quota. Then give the same command again to continue"
        ) from error


def write_bytes(path: Path, content: bytes) -> None:
    """Write the file, whole or not at all."""
    with new_file(path) as file:
        file.write(content)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary sibling to fill. When the block ends, it replaces `path`.

    The sibling's name is this writer's own, so of several writers of one `path` the last one wins, whole. If the block
    raises, the sibling is removed. If the process is killed, it stays, and a later call for the same `path` on this
    machine removes it. If `path` is a link, the file that it names is replaced.
    """
    path = path.resolve() if path.is_symlink() else path
    temporary = temporary_path(path)
    try:
        with disk_named(path):
            with open(temporary, "xb") as file:
                yield file
            settle(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def temporary_path(path: Path, ending: str = "tmp") -> Path:
    """Return a hidden name beside `path` that no other writer has. Abandoned siblings of such a name are removed.

    A long name of `path` is replaced by its hash: a file system takes 255 bytes.
    """
    name = path.name if len(os.fsencode(path.name)) <= _LONG_NAME else sha256_of_bytes(os.fsencode(path.name))
    remove_leftovers(path.parent, name)
    return path.with_name(f".{name}.{socket.gethostname()}-{_namespace()}-{os.getpid()}-{next(_NUMBERS)}.{ending}")


def remove_leftovers(directory: Path, name: str = "") -> None:
    """Remove what processes that have ended left in the directory under names of `temporary_path`.

    name: of the file whose leftovers are removed; "": of any
    """
    _remove_abandoned(directory, rf"\.{re.escape(name)}" if name else r"\..+", r"-\d+\.(tmp|old)")


def _namespace() -> int:
    """Return the number of the namespace of this process's number; 0 without namespaces. Containers have one each."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _remove_abandoned(folder: Path, stem: str, ending: str) -> None:
    """Remove the temporary files and directories of ended processes of this machine.

    stem, ending: patterns of their names, before the machine and after the process

    Processes of another namespace are invisible: they count as ended if nothing has changed for a day.
    """
    pattern = re.compile(rf"{stem}\.{re.escape(socket.gethostname())}-(?:(\d+)-)?(\d+){ending}")
    for sibling in folder.iterdir() if folder.is_dir() else ():
        if not (match := pattern.fullmatch(sibling.name)):
            continue
        if _runs(int(match[2])) if match[1] == str(_namespace()) else _changed_lately(sibling):
            continue
        if sibling.is_dir():
            shutil.rmtree(sibling, ignore_errors=True)
        else:
            sibling.unlink(missing_ok=True)


def _changed_lately(path: Path) -> bool:
    """True if the file, or anything in the directory, has changed within a day, or has been removed meanwhile."""
    try:
        times = [file.stat().st_mtime for file in (path, *path.rglob("*"))]
    except OSError:
        return True
    return max(times) > time.time() - _ABANDONED


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
    with disk_named(path), open(path, "a+b") as file:
        with lock_named(path):
            fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        torn = file.read(1) not in (b"", b"\n")
        file.write(b"\n" * torn + line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if not size:  # the file may be new
        _flush_directory(path.parent)


class _TwiceError(Exception):
    """A name occurs twice in an object of JSON."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(name for name in names if names.count(name) > 1))
    return value


def read_json(path: Path, *, way_out: str = "") -> Any:
    """Return the file's value. Raises DamagedError, naming the place, if it is not JSON in UTF-8.

    way_out: the sentence with which the error ends
    """
    try:
        if path.exists() and not path.is_file():
            raise DamagedError(f"{path} is not a regular file but a directory, pipe or device{_advice(way_out)}")
        return json.loads(path.read_bytes().decode("utf-8"), object_pairs_hook=_unique)
    except _TwiceError as error:
        name = f"{error.args[0]!r:.60}"
        raise DamagedError(f"{path}: the name {name} occurs twice in one object{_advice(way_out)}") from error
    except json.JSONDecodeError as error:
        raise DamagedError(f"{path}:{error.lineno}: not valid JSON: {error.msg}{_advice(way_out)}") from error
    except UnicodeDecodeError as error:
        place = f"{path}: byte {error.start:,}"
        raise DamagedError(f"{place} is not UTF-8: {error.reason}{_advice(way_out)}") from error
    except RecursionError as error:
        raise DamagedError(f"{path}: nested too deeply to be read{_advice(way_out)}") from error


def read_object(path: Path, *, names: Collection[str] = (), way_out: str = "") -> dict[str, Any]:
    """Return the JSON object in a file. Raises DamagedError, naming the file, if it is none or lacks one of the names.

    way_out: the sentence with which the error ends; "": to remove the file's directory
    """
    way_out = way_out or f"Remove {path.parent}, and repeat the command that created it"
    value = read_json(path, way_out=way_out)
    if not isinstance(value, dict):
        raise DamagedError(f"{path} is damaged: it does not contain a JSON object. {way_out}")
    if lost := [name for name in names if name not in value]:
        raise DamagedError(f"{path} is damaged: it lacks {', '.join(lost)}. {way_out}")
    return value


def write_record(path: Path, value: Any, *, of: str = "") -> None:
    """Write what a later command goes on from, an object or a list, with its hash, which `read_record` checks.

    The file is indented JSON: the object with `sha256` before its entries, or {"sha256": ..., "values": the list}. The
    hash is that of the file's name, of `of`, which says what the record is of, and of the file with an empty string in
    the hash's place. So a record in another one's place is found too.
    """
    record = {"sha256": "", **(value if isinstance(value, dict) else {"values": value})}
    content = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    body = content.removeprefix(_BEFORE_HASH)
    assert content.startswith(_BEFORE_HASH + b'"'), "an entry of the value is called sha256"
    write_bytes(path, _BEFORE_HASH + _hash_of_record(path, body, of) + body)


def read_record(path: Path, *, of: str = "", way_out: str = "") -> Any:
    """Return the object or list that `write_record` wrote. Raises DamagedError, naming the file, if a byte has changed
    or it is the record of something else.

    way_out: the sentence with which the error ends; "": to remove the file's directory
    """
    content = path.read_bytes()
    begin, end = len(_BEFORE_HASH), len(_BEFORE_HASH) + 64
    if content[:begin] != _BEFORE_HASH or content[begin:end] != _hash_of_record(path, content[end:], of):
        way_out = way_out or f"Remove {path.parent}, and repeat the command that created it"
        raise DamagedError(
            f"{path} is damaged: its content does not match the hash in it. Perhaps another version wrote "
            f"it{_advice(way_out)}"
        )
    record: dict[str, Any] = json.loads(content)
    del record["sha256"]
    return record["values"] if [*record] == ["values"] else record


def _hash_of_record(path: Path, body: bytes, of: str) -> bytes:
    """Return the hash of a record as bytes. body: what comes after it in the file"""
    return sha256_of_bytes(f"{path.name}\n{of}\n".encode() + _BEFORE_HASH + body).encode()


def _advice(way_out: str) -> str:
    return f". {way_out}" if way_out else ""


def sha256_of(path: Path) -> str:
    """Return the file's SHA-256, 64 hex digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_input(path: Path) -> str:
    """Return the SHA-256 of a file that we only read, 64 hex digits; it is read again only if it was replaced, or its
    size or time changed.
    """
    status = path.stat()
    return _sha256_of_version(path.resolve(), status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1 << 16)
def _sha256_of_version(path: Path, inode: int, size: int, changed: int) -> str:
    return sha256_of(path)


def sha256_of_bytes(content: bytes) -> str:
    """Return the SHA-256 of these bytes, 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling to fill. When the block ends, it gets its manifest and replaces `path`.

    The sibling's name is this writer's own, so of several writers of one `path` the last one wins, whole. If the block
    raises, `path` does not change and the sibling is removed. If the process is killed, the sibling stays, and the next
    call for the same `path` on this machine removes it. The directory that is replaced is renamed before it is removed,
    so `path` never holds a part of it. If `path` is a link, the directory that it names is replaced.
    """
    path = path.resolve() if path.is_symlink() else path
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    temporary.mkdir()
    try:
        with disk_named(path):
            yield temporary
            seal(temporary)
        _replace_directory(temporary, path)
        _flush_directory(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace_directory(temporary: Path, path: Path) -> None:
    """Rename `temporary` to `path`, whose content is removed, even where another process writes the same path."""
    backup = temporary_path(path, "old")
    try:
        while True:
            with contextlib.suppress(FileNotFoundError):
                os.replace(path, backup)
            try:
                os.replace(temporary, path)
                return
            except BaseException as error:
                if getattr(error, "errno", None) not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                # another process has just put its own there
                shutil.rmtree(backup, ignore_errors=True)
    finally:
        if backup.exists() and not path.exists():  # interrupted
            os.replace(backup, path)
        shutil.rmtree(backup, ignore_errors=True)


def process_path(path: Path) -> Path:
    """Return a name beside `path` that has this machine and process in it. Abandoned siblings of such a name are
    removed.
    """
    _remove_abandoned(path.parent, re.escape(path.name), "")
    _remove_abandoned(path.parent, re.escape(f".{path.name}"), r"(\..*)?")
    return path.with_name(f"{path.name}.{socket.gethostname()}-{_namespace()}-{os.getpid()}")


def _runs(process: int) -> bool:
    """True if this machine has a process of that number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


def seal(directory: Path) -> None:
    """Flush the directory's files and write its manifest, which marks it as complete."""
    for left_by_a_kill in directory.rglob(".*.tmp"):
        left_by_a_kill.unlink()
    files = sorted(file for file in directory.rglob("*") if file.is_file() and file.name != MANIFEST)
    for file in files:
        with open(file, "rb+") as handle:
            os.fsync(handle.fileno())
    write_json(directory / MANIFEST, {str(file.relative_to(directory)): sha256_of(file) for file in files})


def seal_apart(directory: Path) -> None:
    """Write the manifest of a directory whose parts may have manifests, to which others may add.

    Of such a part only its manifest is listed. A record is listed without its hash, because it has one and may hold
    seconds. Hidden files are left out. Nothing is flushed: the files were when they were written.
    """
    listed: dict[str, str] = {}
    folders = [directory]
    while folders:
        for path in folders.pop().iterdir():
            if path.name.startswith(".") or path == directory / MANIFEST:
                continue
            if path.is_dir() and not (path / MANIFEST).is_file():
                folders.append(path)
                continue
            file = path / MANIFEST if path.is_dir() else path
            with open(file, "rb") as handle:
                is_record = handle.read(len(_BEFORE_HASH)) == _BEFORE_HASH
            listed[str(file.relative_to(directory))] = "" if is_record else sha256_of(file)
    write_json(directory / MANIFEST, dict(sorted(listed.items())))


def check_file(path: Path, expected: str, *, listed_in: Path, way_out: str = "") -> None:
    """Raise DamagedError if the file is missing or has another SHA-256 than was recorded in the file `listed_in`.

    A file is read once in a process, and again only if it was replaced or its size or time changed.
    """
    if not path.is_file():
        raise DamagedError(f"{path} is missing, though {listed_in} lists it{_advice(way_out)}")
    if sha256_of_input(path) != expected:
        raise DamagedError(f"{path} is damaged: its content differs from what {listed_in} lists{_advice(way_out)}")


def check_manifest(
    directory: Path,
    *,
    names: Collection[str] | None = None,
    edited: Collection[str] = (),
    within: bool = False,
    way_out: str | None = None,
) -> None:
    """Raise DamagedError if the directory has no manifest, or a file differs from the manifest or is missing.

    names: the files to check; None: all that the manifest lists
    edited: names of files whose content may differ
    within: True if the files of listed manifests inside the directory are checked, too
    way_out: the sentence with which the error ends; None: to remove the directory
    """
    manifest = directory / MANIFEST
    way_out = f"Remove {directory}, and repeat the command that created it" if way_out is None else way_out
    if not manifest.is_file():
        raise DamagedError(f"{directory} is incomplete: it has no {MANIFEST}{_advice(way_out)}")
    hashes = read_json(manifest, way_out=way_out)
    if not isinstance(hashes, dict) or not hashes or not all(isinstance(value, str) for value in hashes.values()):
        raise DamagedError(f"{manifest} is damaged: it is not a list of files with their hashes{_advice(way_out)}")
    for folder in sorted({"", *map(os.path.dirname, hashes)}):
        own_manifest = folder and os.path.join(folder, MANIFEST) in hashes
        present = [] if own_manifest or not (directory / folder).is_dir() else sorted(os.listdir(directory / folder))
        for name in present:
            if os.path.join(folder, name) not in hashes and _LOADED.fullmatch(name):
                raise DamagedError(
                    f"{directory / folder / name} is not listed in {manifest}, but loaders would read it. Move it "
                    f"out of {directory}"
                )
    for name in hashes if names is None else names:
        file = directory / name
        if name not in hashes:
            raise DamagedError(f"{manifest} is damaged: it does not list {name}{_advice(way_out)}")
        if (name in edited or not hashes[name]) and file.is_file():
            continue
        check_file(file, hashes[name], listed_in=manifest, way_out=way_out)
        if within and file.name == MANIFEST:
            check_manifest(file.parent, within=True, way_out=way_out)


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
    if obstacle := next((above for above in (place, *place.parents) if above.is_file()), None):
        raise NotADirectoryError(
            f"{option('out', str(directory))}: {obstacle.name} is a file. Choose another {option('out')}"
        )
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
        release(lock)


def _locked(path: Path, directory: Path) -> FileLock:
    """Return the acquired lock; make its directory if it is missing. directory: the path as errors name it."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        before = _inode(path)
        lock = FileLock(path, thread_local=False)
        try:
            with lock_named(path):
                lock.acquire(blocking=False)
        except Timeout:
            if _inode(path) != before:  # the holder has just removed the file
                continue
            holder = path.with_name(HOLDER)
            who = holder.read_text(encoding="utf-8") if holder.exists() else ""
            raise HeldError(
                f"{directory} is in use by {who or 'another process'}. Wait for it, stop it, or choose another "
                f"{option('out')}"
            ) from None
        if _inode(path) == before:
            return lock
        release(lock)  # the holder removed the file while we opened it, so other processes would not see this lock


@contextlib.contextmanager
def hold_beside(directory: Path) -> Iterator[None]:
    """Keep other processes from replacing the directory in the block. The lock lies beside it, and is removed.

    Raises HeldError if another process has the lock.
    """
    path = directory.with_name(f".{directory.name}.lock")
    lock = _locked(path, directory)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while the lock is held: else another's might be removed
        release(lock)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file in the block; wait for it where another process does. Raises DiskError as `lock_named` does."""
    lock = FileLock(path, thread_local=False)
    with lock_named(path):
        lock.acquire()
    try:
        yield
    finally:
        release(lock)


def release(lock: FileLock) -> None:
    """Let the lock go. Raises DiskError as `lock_named` does."""
    with lock_named(Path(lock.lock_file)):
        lock.release()


@contextlib.contextmanager
def lock_named(path: Path) -> Iterator[None]:
    """Raise DiskError, which names the file, if the block cannot lock or unlock it, on a file system without locks."""
    try:
        yield
    except (OSError, NotImplementedError) as error:
        if isinstance(error, Timeout) or getattr(error, "errno", None) in _OF_DISK - {errno.EIO}:
            raise
        raise DiskError(
            f"{path} cannot be locked or unlocked: {error}. Locks prevent two processes from working there at once. "
            "Mount the file system with locks, or choose a directory on another file system. Then give the same "
            "command again to continue"
        ) from error


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
