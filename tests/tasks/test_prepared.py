import json
import os
import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from acclimate.core import files
from acclimate.core.types import Example
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import LOOKS, Prepared, open_prepared, prepare
from acclimate.tasks.task import Task

LABELS = {
    "sequence": ("yes", "no", "yes", "no"),
    "multilabel": (("no", "yes"), ("no",), (), ("yes",)),
    "score": (1.5, 2.0, -3.25, 1e-9),
}
METRICS = {"sequence": "accuracy", "multilabel": "micro_f1", "score": "pearson"}


def task_of(kind: str = "sequence", **changed) -> Task:
    rows = {
        split: [Example(f"{split}-{row}", f"{split} text {row}", label) for row, label in enumerate(LABELS[kind])]
        for split in ("train", "dev", "test")
    }
    labels = () if kind == "score" else ("no", "yes")
    task = Task("toy", kind, lambda path, split: rows[split], labels, metric_named(METRICS[kind]), 32)
    return replace(task, **changed)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def prepared(place: Path, kind: str = "sequence") -> Prepared:
    return prepare(task_of(kind), Path("source"), place / "data")


@pytest.mark.parametrize("kind", [*LABELS])
def test_labels_of_every_kind_come_back_as_they_were(kind, tmp_path):
    task = prepared(tmp_path, kind)
    assert task.kind == kind
    assert open_prepared(task.path) == task
    for split in ("train", "dev"):
        assert tuple(example.label for example in task.examples(split)) == LABELS[kind]
    assert tuple(task.unseal("me")) == LABELS[kind]
    assert task.score(LABELS[kind], LABELS[kind]) == pytest.approx(1.0)


def test_spans_come_back_as_they_were(tmp_path):
    task = task_of()
    spanned = replace(
        task, read=lambda path, split: [replace(e, spans=((0, 4), (5, 9))) for e in task.read(path, split)]
    )
    kept = prepare(spanned, Path("source"), tmp_path / "data")
    assert {example.spans for example in kept.examples("train")} == {((0, 4), (5, 9))}


def test_examples_are_written_as_before_there_were_spans_and_of_test_the_labels_are_sealed(tmp_path):
    line = (prepared(tmp_path).path / "train.jsonl").read_text().splitlines()[0]
    assert line == '{"id": "train-0", "text": "train text 0", "label": "yes", "pair": null, "group": ""}'
    task = prepared(tmp_path)
    assert [(example.text, example.label) for example in task.examples("test")] == [
        (f"test text {row}", "") for row in range(4)
    ]
    assert "yes" not in (task.path / "test.jsonl").read_text()
    assert task.looks() == []


def test_hashes_tell_labels_and_texts_apart(tmp_path):
    task = task_of()

    def changed(split: str, row: int, **fields):
        def read(path, wanted):
            rows = list(task.read(path, wanted))
            if wanted == split:
                rows[row] = replace(rows[row], **fields)
            return rows

        return replace(task, read=read)

    def hashes(name: str, task: Task):
        return prepare(task, Path(), tmp_path / name / "data").hashes

    before = hashes("before", task)
    label = hashes("label", changed("test", 1, label="yes"))
    text = hashes("text", changed("test", 1, text="other"))
    kind = hashes("metric", replace(task, metric=metric_named("macro_f1")))
    assert {name for name in before if before[name] != label[name]} == {"test", "sealed"}
    assert {name for name in before if before[name] != text[name]} == {"test"}
    assert {name for name in before if before[name] != kind[name]} == {"about"}


def test_every_look_is_written_down_beside_the_data_and_in_the_ledger(tmp_path, cache):
    task = prepared(tmp_path / "run")
    for by in ("test TAPT, seed 0", "test 'é', seed 1"):
        task.unseal(by)
    looks = task.looks()
    assert [look["by"] for look in looks] == ["test TAPT, seed 0", "test 'é', seed 1"]
    assert {look["test"] for look in looks} == {task.hashes["test"]}
    assert all(datetime.fromisoformat(look["time"]).utcoffset() == timedelta(0) for look in looks)
    ledger = (cache / "looks" / f"{task.hashes['test']}.jsonl").read_text().splitlines()
    assert [json.loads(line)["run"] for line in ledger] == [str((tmp_path / "run").resolve())] * 2
    assert not list(task.path.glob(LOOKS))
    files.check_manifest(task.path)  # looking changes nothing of what the manifest lists


def test_looks_of_other_runs_at_the_same_test_set_are_counted(tmp_path):
    first, second, other = prepared(tmp_path / "one"), prepared(tmp_path / "two"), prepared(tmp_path / "three", "score")
    first.unseal("a")
    first.unseal("b")
    other.unseal("c")
    assert (first.earlier_looks(), second.earlier_looks(), other.earlier_looks()) == (0, 2, 0)
    second.unseal("d")
    assert (first.earlier_looks(), second.earlier_looks()) == (1, 2)
    assert [look["by"] for look in second.looks()] == ["d"]


def test_looks_at_other_texts_with_equal_labels_are_not_looks_at_this_test_set(tmp_path):
    task = task_of()

    def other_texts(path, split):
        return [replace(example, text=f"other {example.text}") for example in task.read(path, split)]

    first = prepare(task, Path(), tmp_path / "one" / "data")
    second = prepare(replace(task, read=other_texts), Path(), tmp_path / "two" / "data")
    assert first.hashes["sealed"] == second.hashes["sealed"]
    assert list(first.unseal("a")) == list(second.unseal("b"))
    assert (first.earlier_looks(), second.earlier_looks()) == (0, 0)
    again = prepare(task, Path(), tmp_path / "three" / "data")
    assert (again.earlier_looks(), again.earlier_runs()) == (1, 1)


def test_a_run_that_was_deleted_and_done_again_has_looked_before(tmp_path):
    prepared(tmp_path / "run").unseal("a")
    shutil.rmtree(tmp_path / "run")
    again = prepared(tmp_path / "run")
    assert again.looks() == []
    assert again.earlier_looks() == 1


def test_a_run_that_was_moved_or_killed_between_its_two_records_has_not_looked_before(tmp_path, monkeypatch):
    prepared(tmp_path / "run").unseal("a")
    (tmp_path / "run").rename(tmp_path / "moved")
    moved = open_prepared(tmp_path / "moved" / "data")
    assert (len(moved.looks()), moved.earlier_looks()) == (1, 0)

    class KilledError(Exception):
        pass

    written = files.append_line

    def killed_after_the_first(path, line):
        written(path, line)
        raise KilledError

    monkeypatch.setattr(files, "append_line", killed_after_the_first)
    with pytest.raises(KilledError):
        moved.unseal("b")
    monkeypatch.setattr(files, "append_line", written)
    moved.unseal("b")
    assert (moved.earlier_looks(), prepared(tmp_path / "other").earlier_looks()) == (0, 2)


def test_a_cache_given_is_the_one_that_is_used(tmp_path, cache):
    task = prepared(tmp_path / "run")
    task.unseal("me", cache=tmp_path / "mine")
    assert not cache.exists()
    assert prepared(tmp_path / "other").earlier_looks(cache=tmp_path / "mine") == 1


def test_a_cache_that_cannot_be_written_stops_nobody(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path / "file" / "below"))
    task = prepared(tmp_path / "run")
    assert tuple(task.unseal("me")) == LABELS["sequence"]
    assert [look["by"] for look in task.looks()] == ["me"]
    assert task.earlier_looks() == 0


def test_no_labels_without_a_record_of_the_look(tmp_path):
    task = prepared(tmp_path / "run")
    (tmp_path / "run" / LOOKS).mkdir()
    with pytest.raises(IsADirectoryError):
        task.unseal("me")


def test_labels_that_were_changed_are_not_opened(tmp_path):
    task = prepared(tmp_path / "run")
    (task.path / "sealed.json").write_text('["no", "no", "no", "no"]')
    with pytest.raises(files.DamagedError, match=r"sealed.json is damaged: its hash"):
        task.unseal("me")
    assert task.looks() == []
    with pytest.raises(files.DamagedError, match=r"sealed.json is damaged"):
        open_prepared(task.path)
    with files.new_directory(tmp_path / "older") as temporary:
        files.write_json(temporary / "task.json", {"name": "a"})
    with pytest.raises(files.DamagedError, match=r"task.json is damaged: it lacks hashes, kind"):
        open_prepared(tmp_path / "older")


def test_a_line_that_a_crash_tore_is_still_a_look(tmp_path):
    task = prepared(tmp_path / "run")
    task.unseal("before")
    with open(tmp_path / "run" / LOOKS, "a") as file:
        file.write('{"by": "to')
    task.unseal("after")
    with open(tmp_path / "run" / LOOKS, "a") as file:
        file.write('{"step": 1}\n')
    torn = "a line that cannot be read"
    assert [look["by"] for look in task.looks()] == ["before", torn, "after", torn]


def test_a_line_of_the_ledger_that_a_crash_tore_is_this_runs_where_one_of_its_looks_is_missing(tmp_path):
    task = prepared(tmp_path / "run")
    task.unseal("me", cache=tmp_path)
    [ledger] = (tmp_path / "looks").iterdir()
    whole = ledger.read_bytes()
    ledger.write_bytes(bytes(len(whole)))
    assert task.earlier_looks(cache=tmp_path) == 0
    ledger.write_bytes(bytes(9) + b"\n" + bytes(len(whole)) + b"\n")
    assert task.earlier_looks(cache=tmp_path) == 1
    ledger.write_bytes(bytes(9) + b"\n" + whole)
    assert task.earlier_looks(cache=tmp_path) == 1


def test_the_same_again_changes_nothing_and_other_data_is_refused(tmp_path):
    task = prepared(tmp_path)
    before = os.stat(task.path / "sealed.json").st_mtime_ns
    assert prepared(tmp_path) == task
    assert os.stat(task.path / "sealed.json").st_mtime_ns == before
    with pytest.raises(ValueError, match=r"has other data than source now gives\. .* Choose another --out"):
        prepare(task_of(max_tokens=8), Path("source"), task.path)


@pytest.mark.parametrize(
    ("kind", "changed", "two"),
    [
        ("score", {"pair": "another"}, "pair"),
        ("sequence", {"spans": ((0, 3), (4, 7))}, "mentions"),
        ("sequence", {"spans": ((0, 3),)}, None),
        ("sequence", {}, None),
    ],
)
def test_it_knows_whether_its_labels_are_of_pairs_or_of_mentions(kind, changed, two, tmp_path):
    plain = task_of(kind)
    task = replace(plain, read=lambda path, split: [replace(one, **changed) for one in plain.read(path, split)])
    assert prepare(task, tmp_path, tmp_path / "data").two_places == two
