import gzip
import io
import random
import tarfile
import zipfile
from pathlib import Path

import pytest

from acclimate.reading.formats.archives import ArchiveLimits, files_in

FILES = {"d/b.txt": b"second", "d/a.txt": "na\u00efve".encode(), "c.txt": b""}


def tar(path: Path, members: list[tuple[tarfile.TarInfo | str, bytes]], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for member, content in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = len(content) or info.size
            archive.addfile(info, io.BytesIO(content))
    return path


def zipped(path: Path, members: dict[str | zipfile.ZipInfo, bytes], packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def refused(path: Path, said: str | None, limits: ArchiveLimits | None = None) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        list(files_in(path, limits=limits or ArchiveLimits()))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tgz", "x.zip"])
def test_files_of_an_archive_come_in_its_order(tmp_path, name):
    if name == "x.zip":
        path = zipped(tmp_path / name, dict(FILES))
    else:
        path = tar(tmp_path / name, [*FILES.items()], "w" if name == "x.tar" else "w:gz")
    assert list(files_in(path)) == list(FILES.items())


def test_files_of_a_folder_come_by_name_unpacked(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "d" / "z.ann.gz").write_bytes(gzip.compress(b"packed"))
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.txt").write_bytes(b"hidden")
    assert list(files_in(tmp_path)) == [*sorted(FILES.items()), ("d/z.ann", b"packed")]
    assert list(files_in(tmp_path / "d" / "z.ann.gz")) == [("z.ann", b"packed")]


def test_only_files_with_the_endings_are_read(tmp_path):
    for path in (tar(tmp_path / "x.tar.gz", [*FILES.items()]), zipped(tmp_path / "x.zip", dict(FILES)), tmp_path):
        if path == tmp_path:
            for name, content in FILES.items():
                (tmp_path / name).parent.mkdir(exist_ok=True)
                (tmp_path / name).write_bytes(content)
        assert [name for name, _ in files_in(path, endings=("a.txt", ".pdf"))] == ["d/a.txt"]
    assert list(files_in(tmp_path / "d" / "b.txt", endings=(".ann",))) == [("b.txt", b"second")]


def test_folders_and_hidden_files_of_an_archive_are_left_out(tmp_path):
    members = [(special("./", tarfile.DIRTYPE), b""), (special("d", tarfile.DIRTYPE), b""), ("./d/a.txt", b"1")]
    path = tar(tmp_path / "x.tar", [*members, ("d/._a.txt", b"2"), ("__MACOSX/d/a.txt", b"3")], "w")
    assert list(files_in(path)) == [("d/a.txt", b"1")]
    assert list(files_in(zipped(tmp_path / "x.zip", {"d/": b"", "d/a.txt": b"1", ".x": b""}))) == [("d/a.txt", b"1")]


@pytest.mark.parametrize("name", ["../a", "d/../../a", "/etc/passwd", "C:\\a", "C:a", "d\\..\\..\\a", "..", "d/.."])
def test_a_name_that_leads_out_is_refused(tmp_path, name):
    refused(tar(tmp_path / "x.tar.gz", [("good", b"1"), (name, b"2")]), "has a path outside the archive")
    refused(zipped(tmp_path / "x.zip", {"good": b"1", name: b"2"}), "has a path outside the archive")


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE],
)
def test_what_is_no_plain_file_is_refused(tmp_path, kind):
    refused(
        tar(tmp_path / "x.tar.gz", [("good", b"1"), (special("link", kind, "good"), b"")]), "'link' is a link, a dev"
    )


def test_a_link_in_a_zip_and_an_encrypted_member_are_refused(tmp_path):
    link = zipfile.ZipInfo("link")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    refused(zipped(tmp_path / "x.zip", {link: b"/etc/passwd"}), "'link' is a link or a device")
    content = bytearray(zipped(tmp_path / "y.zip", {"a": b"1"}).read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "y.zip").write_bytes(content)
    refused(tmp_path / "y.zip", "'a' is encrypted")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(tmp_path):
    refused(tar(tmp_path / "x.tar.gz", [("a", b"1"), ("./a", b"2")]), "two members are named 'a'")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a", b"1")
        archive.writestr("a", b"2")
    refused(tmp_path / "x.zip", "two members are named 'a'")


def test_limits_hold(tmp_path):
    noise = random.Random(0).randbytes(1000)
    some = {f"{number}": noise for number in range(9)}
    for path in (tar(tmp_path / "x.tar.gz", [*some.items()]), zipped(tmp_path / "x.zip", dict(some))):
        assert len(list(files_in(path, limits=ArchiveLimits(members=9, content=9000, member=1000)))) == 9
        refused(path, "more than 8 members", ArchiveLimits(members=8))
        refused(path, "more than 8,999 bytes", ArchiveLimits(content=8999))
        refused(path, "'0' in it contains more than 999 bytes", ArchiveLimits(member=999))
    (tmp_path / "d").mkdir()
    for name in "ab":
        (tmp_path / "d" / name).write_bytes(noise)
    refused(tmp_path / "d", "more than 1 files and folders", ArchiveLimits(members=1))
    refused(tmp_path / "d", "more than 999 bytes", ArchiveLimits(member=999))


def test_bombs_are_refused_before_they_unfold(tmp_path):
    zeros = bytes(4 << 20)
    tight = ArchiveLimits(grace=1 << 20)
    refused(tar(tmp_path / "x.tar.gz", [("a", zeros)]), "decompression bomb", tight)
    refused(zipped(tmp_path / "x.zip", {"a": zeros}), "decompression bomb", tight)
    refused(zipped(tmp_path / "y.zip", {"a": zeros}, zipfile.ZIP_LZMA), "decompression bomb", tight)
    (tmp_path / "a.gz").write_bytes(gzip.compress(zeros))
    refused(tmp_path / "a.gz", "decompression bomb", tight)
    # names and extended headers unfold in the tar's stream, which is counted too
    refused(tar(tmp_path / "z.tar.gz", [("n" * (4 << 20), b"")]), "decompression bomb", tight)


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.zip"])
def test_what_is_cut_off_is_refused(tmp_path, name):
    members = {str(number): random.Random(number).randbytes(2000) for number in range(5)}
    path = (
        zipped(tmp_path / name, dict(members))
        if name == "x.zip"
        else tar(tmp_path / name, [*members.items()], "w" if name == "x.tar" else "w:gz")
    )
    content = path.read_bytes()
    end = content.rindex(members["4"][-100:]) + 100 if name == "x.tar" else len(content)
    for length in (0, 1, 100, 512, 1000, 2560, len(content) // 2, end - 1, end - 20):
        path.write_bytes(content[:length])
        refused(path, None)
    if name == "x.tar":  # at the end of a member, where the mark of the end should follow
        path.write_bytes(content[: 512 + 2048])
        refused(path, "its end is missing")


def test_a_damaged_header_is_not_the_end_and_what_is_something_else_is_refused(tmp_path):
    path = tar(tmp_path / "x.tar", [("a", b"1"), ("b", b"2")], "w")
    content = bytearray(path.read_bytes())
    content[1024 + 148] ^= 1  # the checksum of b's header
    path.write_bytes(content)
    refused(path, "its end is missing")
    for name in ("x.tar", "x.tar.gz", "x.zip"):
        (tmp_path / name).write_bytes(b"<html>not found</html>" * 100)
        refused(tmp_path / name, None)
    refused(tmp_path / "none.zip", "there is no such file")
