"""The files of an untrusted archive or of a folder, or a single file: name and content, one after the other.

Nothing is written to disk. The whole archive is refused if a member's name leads out of it, if a member is neither a
file nor a folder (a link, a device), if two members have one name, and if it exceeds the limits.
"""

from __future__ import annotations

import lzma
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, NoReturn

import pyarrow as pa

from acclimate.core.names import shown
from acclimate.text.untrusted import PACKINGS, check_file, named, printable, unpacked_name
from acclimate.text.untrusted import ReadLimits as FileLimits
from acclimate.text.untrusted import read_blocks as file_blocks

_TAR = (".tar", ".tar.gz", ".tgz", ".tar.zst")
ENDINGS = (*_TAR, ".zip")
_BLOCK = 1 << 20
_DRIVE = re.compile("[A-Za-z]:")
_DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, struct.error, UnicodeError)
_RECORD = 512  # bytes of a tar's block


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """How large an archive may be.

    members  number of files and folders
    content  bytes of all members, unpacked
    member   bytes of one member, unpacked
    ratio    unpacked bytes for each packed one; checked after `grace` unpacked bytes
    """

    members: int = 200_000
    content: int = 16 << 30
    member: int = 1 << 30
    ratio: int = 500
    grace: int = 16 << 20


LIMITS = ArchiveLimits()


def files_in(
    path: Path, *, endings: tuple[str, ...] = ("",), limits: ArchiveLimits = LIMITS
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file below a folder (sorted by name), of an archive (in its order), or of a file.

    endings  endings of the names to read in a folder or archive; a single file is read whatever its ending

    A name is relative, with `/` between its parts; .gz and .zst files are unpacked, and their names lack that ending.
    Hidden files and those below hidden folders, such as macOS adds to archives, are left out.

    Raises ValueError if the path cannot be read, is not what its ending says, is damaged or cut off, or is refused.
    """
    path = Path(path)
    if path.is_dir():
        files: Iterator[tuple[str, bytes]] = _folder_files(path, endings, limits)
    else:
        check_file(path)
        if path.name.endswith(_TAR):
            files = _tar(path, endings, limits)
        elif path.name.endswith(".zip"):
            files = _zip(path, endings, limits)
        else:
            files = iter([(unpacked_name(path), _whole(path, limits))])
    yield from files


def only_file(path: Path, *, ending: str = "", limits: ArchiveLimits = LIMITS) -> tuple[str, bytes]:
    """Return name and content of the only file with this ending. Raises ValueError if there is none or several."""
    files = [(name, content) for name, content in files_in(path, limits=limits) if name.endswith(ending)]
    if len(files) != 1:
        listed = ", ".join(printable(name) for name, _ in files[:3]) or "none"
        raise ValueError(
            f"{named(path)}: one {ending or 'only'} file is needed, but it contains {len(files)} ({listed}). "
            "Name the file"
        )
    return files[0]


def _folder_files(folder: Path, endings: tuple[str, ...], limits: ArchiveLimits) -> Iterator[tuple[str, bytes]]:
    for number, file in enumerate(sorted(folder.rglob("*")), 1):
        if number > limits.members:
            _refuse(folder, f"contains more than {limits.members:,} files and folders, the limit. Divide it")
        name = file.relative_to(folder).with_name(unpacked_name(file)).as_posix()
        if name.endswith(endings) and not _hidden(name) and file.is_file():
            yield name, _whole(file, limits)


def _hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


def _whole(file: Path, limits: ArchiveLimits) -> bytes:
    limits_of_file = FileLimits(content=limits.member, ratio=limits.ratio, grace=limits.grace)
    return b"".join(file_blocks(file, limits_of_file))


def _refuse(path: Path, why: str) -> NoReturn:
    raise ValueError(f"{named(path)}: {why}")


class _Members:
    """Check of an archive's members, one by one."""

    def __init__(self, path: Path, endings: tuple[str, ...], limits: ArchiveLimits) -> None:
        self._path, self._endings, self._limits = path, endings, limits
        self._count = self._taken = 0
        self._names: set[str] = set()

    def name(self, member: str, *, folder: bool) -> str:
        """Return the member's name; "" for a member that is not read.

        Raises ValueError if the name leads out of the archive, or an earlier member has it.
        """
        self._count += 1
        if self._count > self._limits.members:
            _refuse(self._path, f"contains more than {self._limits.members:,} members, the limit. Divide it")
        parts = PurePosixPath(member).parts
        if not parts and folder:
            return ""  # "./", the outermost folder
        if not parts or member.startswith("/") or ".." in parts or "\\" in member or _DRIVE.match(member):
            _refuse(
                self._path,
                f"the member {shown(member)} has a path outside the archive, so the archive was not opened. Pack it "
                "again",
            )
        name = "/".join(parts)
        if name in self._names:
            _refuse(self._path, f"two members are named {shown(name)}, and one may hide the other. Pack it again")
        if folder or _hidden(name) or not name.endswith(self._endings):
            return ""
        self._names.add(name)
        return name

    def content(self, name: str, file: IO[bytes], packed: int) -> bytes:
        """Return the member's content. packed: bytes of the archive, with which the unpacked bytes are compared."""
        parts, length = [], 0
        while part := file.read(_BLOCK):
            length += len(part)
            self._taken += len(part)
            if length > self._limits.member:
                _refuse(
                    self._path,
                    f"{shown(name)} in it contains more than {self._limits.member:,} bytes, the limit. Divide it",
                )
            if self._taken > self._limits.content:
                _refuse(self._path, f"contains more than {self._limits.content:,} bytes, the limit. Divide it")
            _check_ratio(self._path, self._taken, packed, self._limits)
            parts.append(part)
        return b"".join(parts)


def _check_ratio(path: Path, size: int, packed: int, limits: ArchiveLimits) -> None:
    if size > max(limits.grace, limits.ratio * packed):
        _refuse(
            path,
            f"unpacks to {size // max(packed, 1):,} times its size, like a decompression bomb (text: 3 to 20 "
            "times). If the file is genuine, unpack it yourself",
        )


def _zip(path: Path, endings: tuple[str, ...], limits: ArchiveLimits) -> Iterator[tuple[str, bytes]]:
    members = _Members(path, endings, limits)
    packed = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                name = members.name(member.filename, folder=member.is_dir())
                kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where the archive was not made on Unix
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    _refuse(
                        path,
                        f"the member {shown(member.filename)} is a link or a device, not a file. Pack it again without",
                    )
                if member.flag_bits & 1:
                    _refuse(path, f"the member {shown(member.filename)} is encrypted. Unpack it yourself")
                if name:
                    with archive.open(member) as file:
                        yield name, members.content(name, file, packed)
    except (*_DAMAGED, zipfile.BadZipFile, NotImplementedError) as error:
        raise ValueError(f"{named(path)}: damaged zip archive ({printable(str(error))}). Fetch it again") from error


class _Unpacked:
    """The bytes of a .tar, unpacked and counted. The newest of them are kept for `at`."""

    def __init__(self, path: Path, raw: IO[bytes], limits: ArchiveLimits) -> None:
        self._path, self._raw, self._limits = path, raw, limits
        packing = {".tgz": "gzip"} | PACKINGS
        codec = packing.get(path.suffix)
        self._stream = pa.CompressedInputStream(raw, codec) if codec else raw
        self._taken = 0
        self._newest = b""

    def read(self, size: int) -> bytes:
        content: bytes = self._stream.read(size)
        self._taken += len(content)
        self._newest = (self._newest + content)[-64 * _RECORD :]
        if self._stream is not self._raw:
            _check_ratio(self._path, self._taken, self._raw.tell(), self._limits)
        return content

    def block_at(self, offset: int) -> bytes:
        """Return the tar's block at this offset, as far as it was read; b"?" if it is no longer kept."""
        start = offset - (self._taken - len(self._newest))
        return self._newest[start : start + _RECORD] if start >= 0 else b"?"


def _tar(path: Path, endings: tuple[str, ...], limits: ArchiveLimits) -> Iterator[tuple[str, bytes]]:
    members = _Members(path, endings, limits)
    packed = path.stat().st_size
    with open(path, "rb") as raw:
        try:
            unpacked = _Unpacked(path, raw, limits)
            with tarfile.open(fileobj=unpacked, mode="r|") as archive:  # type: ignore[call-overload]
                for member in archive:
                    name = members.name(member.name, folder=member.isdir())
                    if not member.isdir() and (not member.isfile() or member.issparse()):
                        _refuse(
                            path, f"the member {shown(member.name)} is a link, a device or has holes. Pack plain files"
                        )
                    if not name:
                        continue
                    file = archive.extractfile(member)
                    assert file is not None
                    yield name, members.content(name, file, packed)
                # tarfile treats a damaged header as the end
                if unpacked.block_at(archive.offset) != bytes(_RECORD):
                    _refuse(path, "damaged or truncated tar archive: its end is missing. Fetch it again")
                while unpacked.read(_BLOCK):
                    pass  # up to the end of the packed stream, where its check sum is
        except (*_DAMAGED, tarfile.TarError) as error:
            why = printable(str(error))
            raise ValueError(f"{named(path)}: damaged or truncated tar archive ({why}). Fetch it again") from error
