"""Files and directories that are whole or absent."""

import fcntl
import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from acclimate.core import files


class Stop(Exception):
    pass


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "value.json"
    files.write_json(path, {"a": 1})

    def fail(*given):
        raise Stop

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(Stop):
        files.write_json(path, {"a": 2})
    assert files.read_json(path) == {"a": 1}


def test_json_refuses_what_no_other_reader_takes(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        files.write_json(tmp_path / "value.json", {"loss": float("nan")})
    assert not list(tmp_path.iterdir())


def test_json_that_is_damaged_names_file_and_line_or_byte(tmp_path):
    path = tmp_path / "value.json"
    path.write_text('{"a": 1,\n "b": }')
    with pytest.raises(files.DamagedError, match=r"value\.json:2: not valid JSON"):
        files.read_json(path)
    (tmp_path / "value.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(files.DamagedError, match=r"value\.json: byte 7 is not UTF-8"):
        files.read_json(tmp_path / "value.json")


def test_a_directory_appears_with_its_manifest_or_not_at_all(tmp_path):
    path = tmp_path / "made"
    with pytest.raises(Stop):
        _half_made(path)
    assert not list(tmp_path.iterdir())
    with files.new_directory(path) as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "a.txt").write_text("a")
        assert not path.exists()
    files.check_manifest(path)
    assert files.read_json(path / files.MANIFEST) == {"inner/a.txt": files.sha256_of_bytes(b"a")}
    assert [file.name for file in tmp_path.iterdir()] == ["made"]


def test_a_directory_that_is_made_again_replaces_the_old_one_only_when_it_is_whole(tmp_path):
    path = tmp_path / "made"
    for content in ("one", "two"):
        with files.new_directory(path) as temporary:
            (temporary / f"{content}.txt").write_text(content)
    assert sorted(file.name for file in path.iterdir()) == ["manifest.json", "two.txt"]
    with pytest.raises(Stop):
        _half_made(path)
    files.check_manifest(path)


def _half_made(path):
    with files.new_directory(path) as temporary:
        (temporary / "half.txt").write_text("half")
        raise Stop


def test_what_a_kill_left_of_a_directory_is_not_taken_over(tmp_path):
    leftover = tmp_path / ".made.tmp"
    leftover.mkdir()
    (leftover / "half.txt").write_text("half")
    with files.new_directory(tmp_path / "made") as temporary:
        assert not list(temporary.iterdir())


def test_an_interruption_while_a_directory_is_replaced_keeps_the_earlier_one(tmp_path, monkeypatch):
    path, replace = tmp_path / "made", os.replace
    with files.new_directory(path) as temporary:
        (temporary / "a.txt").write_text("old")

    def interrupt(source, target):
        if target == path and (source / "a.txt").read_text() == "new":
            raise KeyboardInterrupt
        return replace(source, target)

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt), files.new_directory(path) as temporary:
        (temporary / "a.txt").write_text("new")
    monkeypatch.undo()
    files.check_manifest(path)
    assert (path / "a.txt").read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


def test_a_live_writer_in_another_container_keeps_its_file_for_a_day(tmp_path, monkeypatch):
    """Containers on one machine may have its name, and each has processes of its own."""
    gone, namespace = 2**22 + 1, files._namespace()
    for write, name in ((files.temporary_path, ".a.csv"), (files.process_path, "a.csv")):
        with monkeypatch.context() as other:
            other.setattr(os, "getpid", lambda: gone)
            here = write(tmp_path / "a.csv")
            other.setattr(files, "_namespace", lambda: namespace + 1)
            there = write(tmp_path / "a.csv")
        assert here.name.startswith(name)
        for path in (here, there):
            path.mkdir()
            (path / "rows").write_text("half")
        write(tmp_path / "a.csv")
        assert [*tmp_path.iterdir()] == [there]
        for path in (there / "rows", there):
            os.utime(path, (0, 0))
        write(tmp_path / "a.csv")
        assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("write", [1, 2])
def test_a_kill_while_a_directory_is_replaced_leaves_no_part_of_it(tmp_path, monkeypatch, write):
    path, replace = tmp_path / "made", os.replace
    with files.new_directory(path) as temporary:
        (temporary / "old.txt").write_text("old")
    renamed = []

    def stop(source, target):
        if str(target).endswith(files.MANIFEST):
            return replace(source, target)
        renamed.append(target)
        if len(renamed) == write:
            raise Stop
        return replace(source, target)

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(Stop), files.new_directory(path) as temporary:
        (temporary / "new.txt").write_text("new")
    monkeypatch.undo()
    assert not path.exists() or (path / "old.txt").exists()
    with files.new_directory(path) as temporary:
        (temporary / "new.txt").write_text("new")
    files.check_manifest(path)
    assert [file.name for file in tmp_path.iterdir()] == ["made"]


def test_a_large_file_appears_whole_and_what_a_kill_left_goes_with_the_next(tmp_path):
    path = tmp_path / "large.bin"
    code = "import os, sys; from pathlib import Path; from acclimate.core import files\n"
    code += "with files.new_file(Path(sys.argv[1])) as file: file.write(b'half'); file.flush(); os.kill(os.getpid(), 9)"
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -9
        assert len([*tmp_path.iterdir()]) == 1
        assert not path.exists()
    with pytest.raises(TypeError), files.new_file(path) as file:
        file.write("text")
    assert not [*tmp_path.iterdir()]
    with files.new_file(path) as file:
        file.write(b"whole")
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_bytes() == b"whole"


def test_an_input_is_hashed_once_until_it_changes(tmp_path, monkeypatch):
    path, read = tmp_path / "given.bin", []
    path.write_bytes(b"one")
    hashed = files.sha256_of
    monkeypatch.setattr(files, "sha256_of", lambda place: read.append(place) or hashed(place))
    monkeypatch.chdir(tmp_path)
    assert {files.sha256_of_input(each) for each in (path, path.relative_to(tmp_path))} == {
        files.sha256_of_bytes(b"one")
    }
    assert len(read) == 1
    path.write_bytes(b"two")
    os.utime(path, (0, 0))
    assert files.sha256_of_input(path) == files.sha256_of_bytes(b"two")
    path.write_bytes(b"three")
    os.utime(path, (0, 0))
    assert files.sha256_of_input(path) == files.sha256_of_bytes(b"three")


def test_a_directory_that_is_damaged_says_which_file(tmp_path):
    path = tmp_path / "made"
    with files.new_directory(path) as temporary:
        (temporary / "a.txt").write_text("a")
        (temporary / "b.txt").write_text("b")
    (path / "a.txt").write_text("x")
    with pytest.raises(files.DamagedError, match=r"a\.txt is damaged"):
        files.check_manifest(path)
    (path / "a.txt").write_text("a")
    (path / "b.txt").unlink()
    with pytest.raises(files.DamagedError, match=r"b\.txt is missing"):
        files.check_manifest(path)
    (path / files.MANIFEST).unlink()
    with pytest.raises(files.DamagedError, match="is incomplete: it has no manifest"):
        files.check_manifest(path)


def test_a_file_that_loaders_would_read_and_the_manifest_does_not_list_has_one_way_out(tmp_path):
    path = tmp_path / "made"
    with files.new_directory(path) as temporary:
        (temporary / "inner").mkdir()
        for folder in (temporary, temporary / "inner"):
            files.write_json(folder / "config.json", {})
    (path / "handler.py").write_text("")
    files.check_manifest(path)
    for folder in (path, path / "inner"):
        (folder / "adapter_config.json").write_text("{}")
        with pytest.raises(files.DamagedError, match=r"adapter_config\.json is not listed .* Move it out of .*made$"):
            files.check_manifest(path)
        (folder / "adapter_config.json").unlink()


HOLDING = """
import sys
from pathlib import Path
from acclimate.core import files
with files.hold(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_told_who_holds_a_directory_and_gets_it_once_that_one_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(files.HeldError, match=rf"is in use by process {holder.pid} on \S+\. Wait for it, stop it"):
            files.hold(tmp_path).__enter__()
        holder.kill()
    with files.hold(tmp_path):
        assert (tmp_path / ".holder").read_text().startswith(f"process {os.getpid()} on ")
    with files.hold(tmp_path):
        pass


def test_a_block_that_is_refused_leaves_no_lock_and_no_directory_behind(tmp_path):
    beside = tmp_path / "mine.txt"
    beside.write_text("kept")
    for place in (tmp_path / "new" / "deep", tmp_path):
        with pytest.raises(ValueError, match="refused"), files.hold(place):
            raise ValueError("refused")
    assert list(tmp_path.iterdir()) == [beside]


def test_a_block_that_breaks_off_keeps_what_it_wrote(tmp_path):
    def stopped():
        with files.hold(tmp_path / "run"):
            (tmp_path / "run" / "log").write_text("1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["log"]


@pytest.mark.parametrize("on", ["disk", "NFS"])
def test_a_lock_whose_file_was_removed_meanwhile_is_taken_anew(on, tmp_path, monkeypatch):
    taken = fcntl.flock

    def removed_once(file, how):
        taken(file, how)
        monkeypatch.undo()
        if on == "disk":
            (tmp_path / ".lock").unlink()
        else:  # which renames what is removed while somebody has it open
            (tmp_path / ".lock").rename(tmp_path / ".nfs01")

    monkeypatch.setattr(fcntl, "flock", removed_once)
    with files.hold(tmp_path):
        assert (tmp_path / ".holder").read_text().startswith(f"process {os.getpid()} on ")


def test_a_file_where_a_run_is_to_go_is_named(tmp_path):
    (tmp_path / "run.txt").write_text("")
    for place in ("run.txt", "run.txt/below"):
        with (
            pytest.raises(NotADirectoryError, match=r"run\.txt is a file\. Choose another --out"),
            files.hold(tmp_path / place),
        ):
            pass


@pytest.mark.parametrize("value", [{"a": 1.5, "b": {"é": None}}, [[1, 0.1], [2, "x"]], {}, []], ids=str)
def test_a_record_that_changed_in_one_byte_is_refused_by_name(value, tmp_path):
    path = tmp_path / "record.json"
    files.write_record(path, value, of="job 1")
    assert files.read_record(path, of="job 1") == value
    whole = path.read_bytes()
    damaged = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    for content in (*damaged, b"", b"{}", whole[:-1], bytes(len(whole))):
        path.write_bytes(content)
        with pytest.raises(files.DamagedError, match=r"record\.json is damaged: .* Remove "):
            files.read_record(path, of="job 1")
    path.write_bytes(whole)
    with pytest.raises(files.DamagedError, match="way out"):
        files.read_record(path, of="job 2", way_out="way out")
    other = path.rename(tmp_path / "another.json")
    with pytest.raises(files.DamagedError, match=r"another\.json is damaged"):
        files.read_record(other, of="job 1")


@pytest.mark.parametrize("content", ["[]", "null", "{}", "3", '{"a": 1}', "{", "[" * 10_000])
def test_a_damaged_manifest_is_named(content, tmp_path):
    with files.new_directory(tmp_path / "made") as made:
        files.write_text(made / "a", "text")
    (tmp_path / "made" / files.MANIFEST).write_text(content)
    with pytest.raises(files.DamagedError, match=r"manifest\.json.*Remove .*made"):
        files.check_manifest(tmp_path / "made")


@pytest.fixture
def _little_room():
    """Files of more than 200,000 bytes cannot be written, as if the disk were full."""
    handler, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


def _at_once(path):
    files.write_bytes(path, bytes(300_000))


def _in_blocks(path):
    with files.new_file(path) as file:
        file.write(bytes(300_000))


def _with_safetensors(path):
    with files.new_directory(path) as inside:
        save_file({"a": np.zeros(100_000)}, inside / "weights.safetensors")


def _with_numpy(path):
    with files.new_directory(path) as inside:
        np.zeros(100_000).tofile(inside / "values.bin")


@pytest.mark.usefixtures("_little_room")
@pytest.mark.parametrize("write", [_at_once, _in_blocks, _with_safetensors, _with_numpy])
def test_a_disk_that_is_full_is_named_with_the_room_that_is_left(write, tmp_path):
    with pytest.raises(files.DiskError, match=r"new cannot be written: (File|No) .+; [\d,]+ bytes are free there"):
        write(tmp_path / "new")
    assert not [*tmp_path.iterdir()]


WRITE_SLOWLY = """
import sys, time
from pathlib import Path
from acclimate.core import files
path, letter = Path(sys.argv[1]), sys.argv[2].encode()
with files.new_file(path) as file:
    for _ in range(20):
        file.write(letter * 1000)
        file.flush()
        time.sleep(0.02)
with files.new_directory(path.with_name("directory")) as directory:
    for number in range(20):
        (directory / f"{number}.txt").write_bytes(letter)
        time.sleep(0.02)
"""


def test_two_processes_that_write_one_path_at_once_leave_the_whole_work_of_one(tmp_path):
    code = [sys.executable, "-c", WRITE_SLOWLY, str(tmp_path / "rows")]
    writers = [subprocess.Popen([*code, letter]) for letter in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert (tmp_path / "rows").read_bytes() in (b"a" * 20_000, b"b" * 20_000)
    files.check_manifest(tmp_path / "directory")
    assert len({path.read_bytes() for path in (tmp_path / "directory").glob("*.txt")}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["directory", "rows"]


def test_a_name_as_long_as_the_file_system_takes_can_be_written(tmp_path):
    path = tmp_path / ("x" * 254)
    files.write_text(path, "whole")
    assert path.read_text() == "whole"
    assert [*tmp_path.iterdir()] == [path]


def test_a_name_that_occurs_twice_and_a_pipe_are_refused_where_json_is_read(tmp_path):
    (tmp_path / "a.json").write_text('{"x": {"kind": 1, "kind": 2}}')
    with pytest.raises(files.DamagedError, match=r"a\.json: the name 'kind' occurs twice"):
        files.read_json(tmp_path / "a.json")
    os.mkfifo(tmp_path / "b.json")
    with pytest.raises(files.DamagedError, match=r"b\.json is not a regular file"):
        files.read_object(tmp_path / "b.json")
