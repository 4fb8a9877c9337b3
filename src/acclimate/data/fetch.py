"""`acclimate data fetch`: download or copy the published files of a catalogue into a folder.

A download is written to `<name>.part`, and renamed when it is complete and has the hash that the catalogue states.
After an interruption the same command goes on with the part. Files that exist are checked and not changed. Nothing that
is downloaded is unpacked or run.
"""

from __future__ import annotations

import http.client
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from acclimate.core.files import new_file, settle, temporary_path
from acclimate.core.types import Progress, Watch, unwatched
from acclimate.reading.datasets.catalogue import Dataset, Download, find_file
from acclimate.reading.formats.archives import ENDINGS, only_file
from acclimate.text.untrusted import ReadLimits, named, read_blocks

SCHEMES = ("https",)
LARGEST = 64 << 20  # most bytes of a file whose size the catalogue does not state
PATIENCE = 60.0  # seconds that a server may send nothing
BLOCK = 1 << 16


def fetch(
    datasets: Sequence[Dataset], to: Path, *, schemes: Sequence[str] = SCHEMES, watch: Watch = unwatched
) -> Fetched:
    """Fetch every file of the datasets that may be fetched, below `to`, and return the outcome.

    schemes  schemes of addresses that may be asked, those of redirects included

    If a file cannot be fetched, the others are still fetched. A server that cannot be reached is asked once. At the
    end, raises ValueError with each file that could not be fetched, and why; the others are in the folder.
    """
    new, present_files, failed = [], [], []
    unreachable: set[str] = set()
    downloads = [(dataset, download) for dataset in datasets for download in dataset.downloads]
    if not downloads:
        raise ValueError(
            f"none of the files can be downloaded automatically. {datasets[0].obtain}; --from DIR checks and "
            "imports your copy"
        )
    for count, (dataset, download) in enumerate(downloads):
        path = to / dataset.folder / download.path
        watch(Progress("fetching", count, len(downloads), "files"))
        try:
            if (file := find_file(path.parent, path.name)) is not None:
                check_download(file, download)
                present_files.append(_short(dataset, download))
            elif urlsplit(download.url).netloc not in unreachable:
                download_to(path, download, schemes=schemes)
                new.append(_short(dataset, download))
        except ValueError as error:
            failed.append(str(error))
            if isinstance(error, UnreachableError):
                unreachable.add(urlsplit(download.url).netloc)
    watch(Progress("fetching", len(downloads), len(downloads), "files"))
    if failed:
        missing = len(downloads) - len(new) - len(present_files)
        failed.append(f"{missing} of {len(downloads)} files are missing. Give the same command again to continue.")
        raise ValueError("\n".join(failed))
    return _fetched(datasets, to, new, present_files)


def copy(datasets: Sequence[Dataset], source: Path, to: Path, *, watch: Watch = unwatched) -> Fetched:
    """Copy the datasets' files from below `source`, in the same layout, packed or not, to `to`, and return the outcome.

    Files that any form of a dataset reads are copied too, such as those that only registered users have. Each file that
    the catalogue lists must have the listed size and hash. Raises ValueError, naming each file that has not.
    """
    if not source.is_dir():
        raise ValueError(f"--from {named(source)}: there is no such folder")
    new, present_files, failed = [], [], []
    downloads: dict[tuple[str, str], tuple[Dataset, Download]] = {}
    for dataset in datasets:
        names = (name for form in dataset.forms for name in form.files)
        downloads |= {(dataset.folder, name): (dataset, Download(name, "")) for name in names}
    for dataset in datasets:
        downloads |= {(dataset.folder, download.path): (dataset, download) for download in dataset.downloads}
    for count, ((folder, name), (dataset, download)) in enumerate(downloads.items()):
        watch(Progress("copying", count, len(downloads), "files"))
        if (file := find_file(source / folder, name)) is None:
            continue
        try:
            check_download(file, download)
            if (present := find_file(to / folder, name)) is not None:
                check_download(present, download)
                present_files.append(_short(dataset, download))
                continue
            target = (to / folder / name).with_name(file.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(file, target)
            new.append(_short(dataset, download))
        except ValueError as error:
            failed.append(str(error))
    if failed:
        raise ValueError("\n".join(failed))
    if not new and not present_files:
        folders = ", ".join(sorted(dataset.folder for dataset in datasets))
        raise ValueError(f"--from {named(source)}: contains none of the files. Its folders must be {folders}")
    return _fetched(datasets, to, new, present_files)


def _copy(source: Path, target: Path) -> None:
    """Copy a file or folder to `target`, which is whole or absent. A folder that another process copied there stays."""
    if not source.is_dir():
        with open(source, "rb") as read, new_file(target) as written:
            shutil.copyfileobj(read, written)
        return
    part = temporary_path(target)
    try:
        shutil.copytree(source, part)
        part.rename(target)
    except OSError:
        if not target.is_dir():
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def download_to(path: Path, download: Download, *, schemes: Sequence[str] = SCHEMES) -> None:
    """Fetch the file, going on where an earlier attempt stopped; `path` is whole or absent.

    Raises UnfitError, and removes the download, if it is not the file that the catalogue lists; ValueError if it cannot
    be fetched.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    largest = download.size or LARGEST
    try:
        _arrive(part, download, largest, schemes)
    except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
        reason = getattr(error, "reason", None) or error
        unreachable = isinstance(error, urllib.error.URLError) and not isinstance(error, urllib.error.HTTPError)
        raise (UnreachableError if unreachable else ValueError)(
            f"{named(path)}: cannot be fetched from {download.url} ({reason}). Try again later, or give a copy: --from"
        ) from error
    digest = sha256()
    for block in _bytes(part):
        digest.update(block)
    try:
        _compare(download.url, part.stat().st_size, digest.hexdigest(), download, "The download was removed. Try again")
    except UnfitError:
        part.unlink()
        raise
    settle(part, path)


def check_download(path: Path, download: Download) -> None:
    """Raise UnfitError if the file is not the listed one. A file that was packed here is compared unpacked."""
    if not download.size and not download.sha256:
        return
    if path.is_dir():
        raise UnfitError(f"{named(path)}: a folder, but a file is expected. Remove it to fetch the file")
    size, digest = 0, sha256()
    for block in _published(path, download):
        size += len(block)
        digest.update(block)
    _compare(named(path), size, digest.hexdigest(), download, "Remove it to fetch it again")


def _compare(name: str, size: int, digest: str, download: Download, way_out: str) -> None:
    if download.size and size != download.size:
        raise UnfitError(f"{name}: has {size:,} bytes, but the published file has {download.size:,}. {way_out}")
    if download.sha256 and digest != download.sha256:
        raise UnfitError(
            f"{name}: its SHA-256 is {digest}, but that of the published file is {download.sha256}. {way_out}"
        )


def _published(path: Path, download: Download) -> Iterable[bytes]:
    """Return the bytes of the published file, unpacked if the file at `path` is a packed copy."""
    if path.name != Path(download.path).name:
        return [only_file(path)[1]] if path.name.endswith(ENDINGS) else read_blocks(path, ReadLimits())
    return _bytes(path)


def _bytes(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            yield block


@dataclass(frozen=True)
class Fetched:
    """The outcome of `fetch` or `copy`.

    new        files that were fetched or copied
    present    files that existed already
    unchecked  files of `new` and `present` whose hash is unknown
    wanting    name of a dataset -> its missing files, and how to get them
    """

    to: Path
    new: tuple[str, ...]
    present: tuple[str, ...]
    unchecked: tuple[str, ...]
    wanting: dict[str, str]

    def as_text(self) -> str:
        lines = [f"{named(self.to)}: {len(self.new)} files fetched, {len(self.present)} already present."]
        if self.unchecked:
            lines.append(f"No published hash is known for {', '.join(self.unchecked)}.")
        lines += [f"{name}: {reason}" for name, reason in self.wanting.items()]
        return "\n".join(lines)


class UnfitError(ValueError):
    """A file is not the one that the catalogue lists."""


class UnreachableError(ValueError):
    """A server cannot be reached."""


def _arrive(part: Path, download: Download, largest: int, schemes: Sequence[str]) -> None:
    """Write the file's bytes into `part`, after those that it has already."""
    have = part.stat().st_size if part.exists() else 0
    if download.size and have == download.size:
        return
    if have > largest:
        part.unlink()
        have = 0
    _check_scheme(download.url, schemes)
    request = urllib.request.Request(download.url, headers={"User-Agent": "acclimate", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urllib.request.build_opener(_Redirects(schemes)).open(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        if not (have and error.code == 416):  # no more bytes: the part may be complete, which its hash will show
            raise
        error.close()
        return
    with answer:
        expected = int(answer.headers.get("Content-Length") or 0)
        goes_on = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        have = have if goes_on else 0
        expected += have
        with open(part, "ab" if goes_on else "wb") as file:
            while block := answer.read(BLOCK):
                have += len(block)
                if have > largest:
                    file.close()
                    part.unlink()
                    raise UnfitError(f"{download.url}: exceeds the limit of {largest:,} bytes")
                file.write(block)
    if have < expected:
        raise OSError(f"the connection ended after {have:,} of {expected:,} bytes")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects only to addresses with an allowed scheme."""

    def __init__(self, schemes: Sequence[str]) -> None:
        self.schemes = schemes

    def redirect_request(self, *redirect: Any) -> Any:
        _check_scheme(redirect[-1], self.schemes)  # its last argument is the new address
        return super().redirect_request(*redirect)


def _check_scheme(url: str, schemes: Sequence[str]) -> None:
    if urlsplit(url).scheme not in schemes:
        raise ValueError(f"{url}: not fetched, because its address does not begin with {' or '.join(schemes)}://")


def _short(dataset: Dataset, download: Download) -> str:
    return f"{dataset.folder}/{download.path}"


def _fetched(datasets: Sequence[Dataset], to: Path, new: Sequence[str], present_files: Sequence[str]) -> Fetched:
    checked = {_short(dataset, download) for dataset in datasets for download in dataset.downloads if download.sha256}
    wanting = {}
    for dataset in datasets:
        missing = dataset.missing(dataset.forms[0], to)
        if missing:
            wanting[dataset.name] = f"missing: {', '.join(missing)}. {dataset.obtain or dataset.way_out(to)}."
    unchecked = tuple(name for name in (*new, *present_files) if name not in checked)
    return Fetched(to, tuple(new), tuple(present_files), unchecked, wanting)
