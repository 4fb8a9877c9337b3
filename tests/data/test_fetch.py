"""Files of a catalogue, from a server on this machine or from a copy."""

import gzip
import shutil
import threading
import zipfile
from dataclasses import replace
from functools import partial
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import get_type_hints

import pytest
from tests.reading.test_published_counts import TOY

from acclimate.cli.data import fetch as verb
from acclimate.data import fetch as fetching
from acclimate.data.fetch import copy, download_to, fetch
from acclimate.reading.datasets.catalogue import Download
from acclimate.reading.published import CATALOGUES

CONTENT = b"".join(b"word%d\tO\n" % at for at in range(40_000))
download_here = partial(download_to, schemes=("http",))


class Files(BaseHTTPRequestHandler):
    """Serves CONTENT under several names, each with another fault."""

    asked: list[tuple[str, str | None]] = []  # noqa: RUF012 - one server a test

    def do_GET(self):
        wanted = self.headers.get("Range")
        type(self).asked.append((self.path, wanted))
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1/file")
            self.end_headers()
            return
        if self.path == "/absent":
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.path != "/no-ranges" else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        body = CONTENT[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        if self.path != "/endless":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.path == "/torn" and not start else body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    Files.asked = []
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Files)
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    thread.join()
    serving.server_close()


def listed(url, **stated):
    values = {"size": len(CONTENT), "sha256": sha256(CONTENT).hexdigest()} | stated
    return Download("train.tsv", url, **values)


def dataset(*downloads):
    return replace(TOY, downloads=downloads)


def test_a_file_arrives_whole(server, tmp_path):
    download_here(tmp_path / "a" / "train.tsv", listed(f"{server}/file"))
    assert (tmp_path / "a" / "train.tsv").read_bytes() == CONTENT
    assert [each.name for each in (tmp_path / "a").iterdir()] == ["train.tsv"]


def test_what_arrived_is_gone_on_with(server, tmp_path):
    path = tmp_path / "train.tsv"
    with pytest.raises(ValueError, match=r"cannot be fetched from .*/torn .*the connection ended after"):
        download_here(path, listed(f"{server}/torn"))
    assert not path.exists()
    half = (tmp_path / "train.tsv.part").stat().st_size
    assert 0 < half < len(CONTENT)
    download_here(path, listed(f"{server}/torn"))
    assert path.read_bytes() == CONTENT
    assert Files.asked == [("/torn", None), ("/torn", f"bytes={half}-")]


def test_a_server_without_ranges_begins_anew(server, tmp_path):
    (tmp_path / "train.tsv.part").write_bytes(CONTENT[:100])
    download_here(tmp_path / "train.tsv", listed(f"{server}/no-ranges"))
    assert (tmp_path / "train.tsv").read_bytes() == CONTENT


@pytest.mark.parametrize("size", [len(CONTENT), 0])
def test_a_part_that_is_all_of_it_is_only_checked(server, tmp_path, size):
    (tmp_path / "train.tsv.part").write_bytes(CONTENT)
    download_here(tmp_path / "train.tsv", listed(f"{server}/file", size=size))
    assert (tmp_path / "train.tsv").read_bytes() == CONTENT
    assert len(Files.asked) == (0 if size else 1)  # without a size the server says that nothing follows


def test_another_file_is_refused_and_what_arrived_removed(server, tmp_path):
    (tmp_path / "train.tsv.part").write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match=r"its SHA-256 is .*The download was removed"):
        download_here(tmp_path / "train.tsv", listed(f"{server}/file"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("size", "limit"), [(1000, None), (0, 1000)])
def test_more_than_it_may_be_is_not_written_down(server, tmp_path, monkeypatch, size, limit):
    if limit:
        monkeypatch.setattr(fetching, "LARGEST", limit)
    with pytest.raises(ValueError, match="exceeds the limit of 1,000 bytes"):
        download_here(tmp_path / "train.tsv", listed(f"{server}/endless", size=size))
    assert list(tmp_path.iterdir()) == []


def test_only_addresses_of_the_scheme_are_asked(server, tmp_path):
    with pytest.raises(ValueError, match=r"not fetched, because its address does not begin with https://"):
        download_to(tmp_path / "train.tsv", listed(f"{server}/file"))
    with pytest.raises(ValueError, match=r"ftp://127\.0\.0\.1/file: not fetched"):
        download_here(tmp_path / "train.tsv", listed(f"{server}/elsewhere"))
    assert [path for path, _ in Files.asked] == ["/elsewhere"]


def test_a_file_that_cannot_be_had_does_not_keep_the_others_away(server, tmp_path):
    absent = replace(listed(f"{server}/absent"), path="dev.tsv")
    with pytest.raises(
        ValueError, match=r"(?s)dev\.tsv: cannot be fetched .*Not Found.*1 of 2 files are missing\. Give"
    ):
        fetch([dataset(absent, listed(f"{server}/file"))], tmp_path, schemes=("http",))
    assert (tmp_path / "toy" / "train.tsv").read_bytes() == CONTENT


def test_a_server_that_cannot_be_reached_is_asked_once(server, tmp_path):
    gone = [replace(listed("http://127.0.0.1:9/file"), path=name) for name in ("dev.tsv", "test.tsv")]
    with pytest.raises(ValueError, match="refused") as caught:
        fetch([dataset(*gone, listed(f"{server}/file"))], tmp_path, schemes=("http",))
    assert str(caught.value).count("cannot be fetched") == 1
    assert str(caught.value).endswith("2 of 3 files are missing. Give the same command again to continue.")
    assert (tmp_path / "toy" / "train.tsv").exists()


def test_what_is_there_is_checked_and_kept(server, tmp_path):
    (tmp_path / "toy").mkdir()
    packed = tmp_path / "toy" / "train.tsv.gz"
    packed.write_bytes(gzip.compress(CONTENT))
    done = fetch([dataset(listed(f"{server}/file"))], tmp_path, schemes=("http",))
    assert (done.new, done.present, Files.asked) == ((), ("toy/train.tsv",), [])
    assert done.as_text().splitlines()[-1] == "Toy: missing: dev.tsv, test.tsv. Ask its authors."
    packed.write_bytes(gzip.compress(CONTENT[:-1]))
    with pytest.raises(ValueError, match=r"train\.tsv\.gz: has 0*[\d,]+ bytes, but the published file has"):
        fetch([dataset(listed(f"{server}/file"))], tmp_path, schemes=("http",))


def test_a_copy_is_checked_and_taken_with_files_that_may_not_be_fetched(tmp_path):
    source, to = tmp_path / "copy", tmp_path / "to"
    (source / "toy").mkdir(parents=True)
    (source / "toy" / "train.tsv.gz").write_bytes(gzip.compress(CONTENT))
    (source / "toy" / "test.tsv").write_text("local\tO\n")
    (source / "toy" / "notes.txt").write_text("not of the dataset")
    done = copy([dataset(listed("https://example.org/train.tsv"))], source, to)
    assert sorted(each.name for each in (to / "toy").iterdir()) == ["test.tsv", "train.tsv.gz"]
    assert (set(done.new), done.unchecked) == ({"toy/train.tsv", "toy/test.tsv"}, ("toy/test.tsv",))
    assert set(copy([dataset(listed("https://example.org/train.tsv"))], source, to).present) == set(done.new)


def test_two_copies_at_once_leave_whole_files_and_folders(tmp_path, monkeypatch):
    source, to = tmp_path / "copy", tmp_path / "to"
    (source / "toy" / "test.tsv").mkdir(parents=True)
    (source / "toy" / "test.tsv" / "part").write_text("local\tO\n")
    (source / "toy" / "train.tsv").write_bytes(CONTENT)
    toy, begun = dataset(listed("https://example.org/train.tsv")), []

    def after_another(copied):
        def first(*given, **named):
            if not begun:
                begun.append(copied)
                copy([toy], source, to)
            return copied(*given, **named)

        return first

    for name in ("copytree", "copyfileobj"):
        monkeypatch.setattr(shutil, name, after_another(getattr(shutil, name)))
    (to / "toy").mkdir(parents=True)
    (to / "toy" / "train.tsv.part").write_bytes(CONTENT[:4])  # of a download
    copy([toy], source, to)
    assert begun
    assert (to / "toy" / "train.tsv").read_bytes() == CONTENT
    assert (to / "toy" / "test.tsv" / "part").read_text() == "local\tO\n"
    assert {each.name for each in (to / "toy").iterdir()} == {"train.tsv", "train.tsv.part", "test.tsv"}


def test_a_copy_in_an_archive_is_checked_by_what_is_in_it_and_a_folder_is_taken_whole(tmp_path):
    source, to = tmp_path / "copy", tmp_path / "to"
    (source / "toy" / "test.tsv").mkdir(parents=True)
    (source / "toy" / "test.tsv" / "part").write_text("local\tO\n")
    with zipfile.ZipFile(source / "toy" / "train.tsv.zip", "w") as archive:
        archive.writestr("train.tsv", CONTENT)
    toy = dataset(listed("https://example.org/train.tsv"))
    assert set(copy([toy], source, to).new) == {"toy/train.tsv", "toy/test.tsv"}
    assert (to / "toy" / "test.tsv" / "part").read_text() == "local\tO\n"
    assert set(copy([toy], source, to).present) == {"toy/train.tsv", "toy/test.tsv"}
    with zipfile.ZipFile(to / "toy" / "train.tsv.zip", "w") as archive:
        archive.writestr("train.tsv", CONTENT[::-1])
    with pytest.raises(ValueError, match=r"train\.tsv\.zip: its SHA-256 is"):
        copy([toy], source, to)


def test_a_copy_of_another_file_or_of_nothing_is_refused(tmp_path):
    source = tmp_path / "copy"
    toy = dataset(listed("https://example.org/train.tsv"))
    source.mkdir()
    with pytest.raises(ValueError, match=r"contains none of the files\. Its folders must be toy"):
        copy([toy], source, tmp_path / "to")
    (source / "toy").mkdir()
    (source / "toy" / "train.tsv").write_bytes(CONTENT[::-1])
    with pytest.raises(ValueError, match=r"train\.tsv: its SHA-256 is"):
        copy([toy], source, tmp_path / "to")
    assert not (tmp_path / "to" / "toy" / "train.tsv").exists()


def test_the_help_lists_the_catalogues():
    [argument] = get_type_hints(verb, include_extras=True)["catalogue"].__metadata__
    fetched, _, copied = argument.help.rstrip(".").partition("; with --from also ")
    offered = {name for name, (_, datasets) in CATALOGUES.items() if any(dataset.downloads for dataset in datasets)}
    assert set(fetched.split(" or ")) == offered
    assert set(copied.split(", ")) == CATALOGUES.keys() - offered
