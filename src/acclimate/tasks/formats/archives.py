"""The files in an archive that anybody may have made, in a folder, or one file: name and content, one after the other.

Nothing is written to disk. An archive is refused as a whole where a member's name leads out of it, where a member is a
link, a device or anything but a file or a folder, where two have one name, and where it asks for more than the limits.
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

from acclimate.text.untrusted import PACKINGS, check_file, named, printable, shown, unpacked_name
from acclimate.text.untrusted import Limits as FileLimits
from acclimate.text.untrusted import blocks as file_blocks

_TAR = (".tar", ".tar.gz", ".tgz", ".tar.zst")
ENDINGS = (*_TAR, ".zip")
_BLOCK = 1 << 20
_DRIVE = re.compile("[A-Za-z]:")
_DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, struct.error, UnicodeError)
_RECORD = 512  # bytes of a tar's block


@dataclass(frozen=True, slots=True)
class Limits:
    """How much an archive may ask of us.

    members  files and folders
    content  bytes of all members, unpacked
    member   bytes of one
    ratio    unpacked bytes for each packed one, looked at once `grace` bytes are unpacked
    """

    members: int = 200_000
    content: int = 16 << 30
    member: int = 1 << 30
    ratio: int = 500
    grace: int = 16 << 20


LIMITS = Limits()


def files_in(path: Path, *, endings: tuple[str, ...] = ("",), limits: Limits = LIMITS) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file below a folder (by name), in an archive (in its order), or of the file itself.

    endings  of the names to read in a folder or archive; a file that is named itself is read whatever its ending

    A name is relative, with `/` between its parts; .gz and .zst files come unpacked, without that ending. Hidden files
    and those below hidden folders, such as macOS adds to archives, are left out.

    Raises ValueError where the path cannot be read, is not what its ending says, is damaged or cut off, or is refused.
    """
    path = Path(path)
    if path.is_dir():
        files: Iterator[tuple[str, bytes]] = _below(path, endings, limits)
    else:
        check_file(path)
        if path.name.endswith(_TAR):
            files = _tar(path, endings, limits)
        elif path.name.endswith(".zip"):
            files = _zip(path, endings, limits)
        else:
            files = iter([(unpacked_name(path), _whole(path, limits))])
    yield from files


def only_file(path: Path, *, ending: str = "", limits: Limits = LIMITS) -> tuple[str, bytes]:
    """Name and content of the one file with this ending, as `files_in` has it.

    Raises ValueError where there is none, or more than one.
    """
    files = [(name, content) for name, content in files_in(path, limits=limits) if name.endswith(ending)]
    if len(files) != 1:
        listed = ", ".join(printable(name) for name, _ in files[:3]) or "none"
        raise ValueError(
            f"{named(path)}: one {ending or 'only'} file is needed, and it holds {len(files)} ({listed}). Name the file"
        )
    return files[0]


def _below(folder: Path, endings: tuple[str, ...], limits: Limits) -> Iterator[tuple[str, bytes]]:
    for number, file in enumerate(sorted(folder.rglob("*")), 1):
        if number > limits.members:
            _refuse(folder, f"holds more than {limits.members:,} files and folders, which is the limit. Divide it")
        name = file.relative_to(folder).with_name(unpacked_name(file)).as_posix()
        if name.endswith(endings) and not _hidden(name) and file.is_file():
            yield name, _whole(file, limits)


def _hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


def _whole(file: Path, limits: Limits) -> bytes:
    each = FileLimits(content=limits.member, ratio=limits.ratio, grace=limits.grace)
    return b"".join(file_blocks(file, each))


def _refuse(path: Path, why: str) -> NoReturn:
    raise ValueError(f"{named(path)}: {why}")


class _Members:
    """Checks the members of an archive, one by one."""

    def __init__(self, path: Path, endings: tuple[str, ...], limits: Limits) -> None:
        self._path, self._endings, self._limits = path, endings, limits
        self._count = self._taken = 0
        self._names: set[str] = set()

    def name(self, stated: str, *, folder: bool) -> str:
        """Return the member's name; "" for what is not read.

        ValueError where it leads out of the archive or is taken.
        """
        self._count += 1
        if self._count > self._limits.members:
            _refuse(self._path, f"holds more than {self._limits.members:,} members, which is the limit. Divide it")
        parts = PurePosixPath(stated).parts
        if not parts and folder:
            return ""  # "./", the archive's own folder
        if not parts or stated.startswith("/") or ".." in parts or "\\" in stated or _DRIVE.match(stated):
            _refuse(self._path, f"the member {shown(stated)} leads out of the archive. It is not opened: pack it anew")
        name = "/".join(parts)
        if name in self._names:
            _refuse(self._path, f"two members are called {shown(name)}, and one may hide the other. Pack it anew")
        if folder or _hidden(name) or not name.endswith(self._endings):
            return ""
        self._names.add(name)
        return name

    def content(self, name: str, file: IO[bytes], packed: int) -> bytes:
        """Return all of the member. packed: bytes of the archive, which what is unpacked is compared with."""
        parts, length = [], 0
        while part := file.read(_BLOCK):
            length += len(part)
            self._taken += len(part)
            if length > self._limits.member:
                _refuse(self._path, f"{shown(name)} in it holds more than {self._limits.member:,} bytes, the limit")
            if self._taken > self._limits.content:
                _refuse(self._path, f"holds more than {self._limits.content:,} bytes, which is the limit. Divide it")
            _check_ratio(self._path, self._taken, packed, self._limits)
            parts.append(part)
        return b"".join(parts)


def _check_ratio(path: Path, taken: int, packed: int, limits: Limits) -> None:
    if taken > max(limits.grace, limits.ratio * packed):
        _refuse(
            path,
            f"unpacks to {taken // max(packed, 1):,} times its size, as a decompression bomb does (text: 3 to 20 "
            f"times). If it is what it should be, unpack it yourself",
        )


def _zip(path: Path, endings: tuple[str, ...], limits: Limits) -> Iterator[tuple[str, bytes]]:
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
                        f"the member {shown(member.filename)} is a link or a device, not a file. Pack it anew without",
                    )
                if member.flag_bits & 1:
                    _refuse(path, f"the member {shown(member.filename)} is encrypted. Unpack it yourself")
                if name:
                    with archive.open(member) as file:
                        yield name, members.content(name, file, packed)
    except (*_DAMAGED, zipfile.BadZipFile, NotImplementedError) as error:
        raise ValueError(f"{named(path)}: damaged zip archive ({printable(str(error))}). Fetch it again") from error


class _Unpacked:
    """The bytes of a .tar, unpacked and counted; the newest of them can be looked at again."""

    def __init__(self, path: Path, raw: IO[bytes], limits: Limits) -> None:
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

    def at(self, offset: int) -> bytes:
        """Return the tar's block that begins there, as far as it was read."""
        start = offset - (self._taken - len(self._newest))
        return self._newest[start : start + _RECORD] if start >= 0 else b"?"


def _tar(path: Path, endings: tuple[str, ...], limits: Limits) -> Iterator[tuple[str, bytes]]:
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
                # tarfile takes a damaged header for the end
                if unpacked.at(archive.offset) != bytes(_RECORD):
                    _refuse(path, "damaged or cut off tar archive: it does not end as one should. Fetch it again")
                while unpacked.read(_BLOCK):
                    pass  # to the packing's own end, where its check sum stands
        except (*_DAMAGED, tarfile.TarError) as error:
            why = printable(str(error))
            raise ValueError(f"{named(path)}: damaged or cut off tar archive ({why}). Fetch it again") from error
