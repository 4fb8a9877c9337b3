"""Datasets of the hub, read from a server on this machine that answers as the hub does."""

import json
import re
import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

import huggingface_hub
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import acclimate
from acclimate import cli
from acclimate.api.checks import check_raw_text
from acclimate.core.hub import UnreachableError, hub_errors
from acclimate.data import as_files, hub
from acclimate.data.as_files import HubChoice, labelled_files, raw_text
from acclimate.data.gather import read_dataset
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.shipping import predict
from acclimate.shipping import texts as shipping
from acclimate.shipping.writers import Predicted
from acclimate.text.corpus import Corpus

DONE = Predicted("-", 1, (), 0)
LABELS = {"_type": "ClassLabel", "names": ["neg", "pos"]}
STATED = LabelledFiles(train=Path(), label="label")


def table(rows: int, *, features: dict | None = None, start: int = 0, label: int | None = None) -> bytes:
    """A Parquet file of texts with numbers of classes; `features` as `datasets` writes them into the metadata."""
    texts = [f"{'good' if row % 2 else 'bad'} film, take {row}" for row in range(start, start + rows)]
    labels = [row % 2 if label is None else label for row in range(rows)]
    made = pa.table({"text": texts, "label": pa.array(labels, pa.int64())})
    if features is not None:
        made = made.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    content = BytesIO()
    parquet.write_table(made, content)
    return content.getvalue()


YAML = [
    {"name": "text", "dtype": "string"},
    {"name": "label", "dtype": {"class_label": {"names": {"0": "no", "1": "yes"}}}},
]


def card(*configs, splits):
    """The head of a README with a config a folder."""
    files = {name: [{"split": split, "path": f"{name}/{split}-*"} for split in splits] for name in configs}
    return {"configs": [{"config_name": name, "data_files": listed} for name, listed in files.items()]}


REPOSITORIES: dict[str, dict] = {
    "films/reviews": {
        "sha": "a" * 40,
        "files": {
            "plain/train-00000-of-00002.parquet": table(40, features={"label": LABELS}),
            "plain/train-00001-of-00002.parquet": table(40, features={"label": LABELS}, start=40),
            "plain/test-00000-of-00001.parquet": table(30, features={"label": LABELS}, start=100),
            "plain/unsupervised-00000-of-00001.parquet": table(10, start=200, label=-1),
        },
        "card": card("plain", splits=("train", "test", "unsupervised")),
    },
    "films/glue": {
        "sha": "b" * 40,
        "files": {
            f"{config}/{split}-00000-of-00001.parquet": table(30, start=start, label=label)
            for config in ("sst2", "cola")
            for split, start, label in (("train", 0, None), ("validation", 30, None), ("test", 60, -1))
        },
        "card": card("sst2", "cola", splits=("train", "validation", "test"))
        | {"dataset_info": [{"config_name": config, "features": YAML} for config in ("sst2", "cola")]},
    },
    "films/converted": {"sha": "c" * 40, "files": {"rows.csv": b""}, "card": {}},
    "yxchar/sciie-tlm": {
        "sha": "9" * 40,
        "files": {
            **dict.fromkeys(("train.csv", "dev.csv", "test.csv"), b"text,label\n"),
            "small_external.csv": b'id,text,rank\n7,"A first, retrieved\ntext.",0\n9,A second one.,1\n',
        },
        "card": {},
    },
    "films/none": {"sha": "d" * 40, "files": {"rows.csv": b""}, "card": {}},
    "films/gated": {"sha": "e" * 40, "files": {"train.parquet": b""}, "card": {}, "gated": True},
}
CONVERTED = {
    "films/converted": (
        "f" * 40,
        {"default/train/0000.parquet": table(60), "default/test/0000.parquet": table(20, start=70)},
    ),
    "yxchar/sciie-tlm": (
        "8" * 40,
        {
            "default/train/0000.parquet": table(60),
            "default/validation/0000.parquet": table(20, start=60),
            "default/test/0000.parquet": table(20, start=80),
        },
    ),
}


class Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[str]] = []

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.asked.append(self.path)
        words = unquote(self.path).strip("/").split("/")
        if words[:2] == ["api", "datasets"]:
            self.about("/".join(words[2:4]), "/".join(words[5:]))
        elif words[0] != "datasets":
            self.answer(404, b"", {})
        else:
            self.file("/".join(words[1:3]), words[4], "/".join(words[5:]))

    def about(self, repo, revision):
        known = REPOSITORIES.get(repo)
        if known is None:
            return self.answer(401, b"{}", {"X-Error-Code": "RepoNotFound"})
        sha, listed = known["sha"], known["files"]
        if revision == "refs/convert/parquet" and repo in CONVERTED:
            sha, listed = CONVERTED[repo]
        elif revision not in ("", "main", sha):
            return self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        said = {"id": repo, "sha": sha, "cardData": known["card"], "siblings": [{"rfilename": name} for name in listed]}
        return self.answer(200, json.dumps(said).encode(), {"Content-Type": "application/json"})

    def file(self, repo, commit, name):
        if REPOSITORIES[repo].get("gated"):
            return self.answer(403, b"", {"X-Error-Code": "GatedRepo"})
        files = {**REPOSITORIES[repo]["files"], **(CONVERTED[repo][1] if repo in CONVERTED else {})}
        about = {"ETag": f'"{sha256(files[name]).hexdigest()}"', "X-Repo-Commit": commit}
        return self.answer(200, files[name], about)

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def online(monkeypatch, tmp_path):
    """The hub's client asks a server here, and keeps what it downloads in a folder of the test."""
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    Hub.asked = []
    address = f"http://127.0.0.1:{serving.server_port}"
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hub, "_listed_before", {})
    yield address
    serving.shutdown()
    thread.join()
    serving.server_close()


def test_splits_shards_and_names_of_classes_are_those_of_the_dataset(online):
    given = labelled_files("films/reviews", STATED)
    read = read_files(given)
    assert {split: len(rows) for split, rows in read.splits.items()} == {"train": 72, "dev": 8, "test": 30}
    assert read.labels == ("neg", "pos")
    assert read.name == "reviews"
    assert read.task().source == (
        f"the hub's dataset films/reviews, split train (commit {'a' * 12}), "
        f"the hub's dataset films/reviews, split test (commit {'a' * 12})"
    )
    assert not any("unsupervised" in path for path in Hub.asked)
    before = len(Hub.asked)
    hub._listed_before.clear()  # another process
    assert labelled_files("films/reviews", STATED).paths == given.paths
    assert len(Hub.asked) == before + 1  # a commit's files are asked for once


def test_config_split_and_revision_can_be_named(online):
    choice = HubChoice(config="cola", split="validation", revision="main")
    read = read_files(labelled_files("hf://datasets/films/glue", STATED, choice=choice))
    assert read.name == "glue-cola"
    assert read.labels == ("no", "yes")  # of the README's head
    assert sum(map(len, read.splits.values())) == 30
    named = labelled_files("films/glue:cola@main", STATED, test="validation")
    read = read_files(named)
    assert {split: len(rows) for split, rows in read.splits.items()} == {"train": 25, "dev": 5, "test": 30}


def test_a_test_set_without_labels_is_left_out_and_the_hubs_own_parquet_files_stand_in(online):
    read = read_files(labelled_files("films/glue:sst2", STATED))
    assert read.divided == ("test",)
    assert read.notes[0].endswith("the labels of test are withheld, so the split was not read.")
    read = read_files(labelled_files("films/converted", STATED))
    assert len(read.splits["test"]) == 20
    assert read.labels == ("0", "1")


def test_configs_have_the_folders_and_patterns_that_the_readme_states():
    paths = ["en/train.parquet", "en/test.parquet", "de/train.parquet", "old/test.parquet", "rows.parquet"]
    card = {"configs": ["x", *({"config_name": name, "data_dir": f"./{name}/"} for name in ("en", "de"))]}
    found, default = hub._read_repository(paths, card)
    assert found == {
        "en": {"train": ["en/train.parquet"], "test": ["en/test.parquet"]},
        "de": {"train": ["de/train.parquet"]},
    }
    assert default == ""
    assert hub._read_repository(paths, {"configs": [{"config_name": "a", "data_files": "*.parquet"}]})[0] == {
        "a": {"train": ["rows.parquet"]}
    }
    assert hub._read_repository(paths, {"configs": [{"config_name": "a", "data_files": "**/t[e]*.parquet"}]})[0] == {
        "a": {"train": ["en/test.parquet", "old/test.parquet"]}
    }
    assert hub._read_repository(paths, {"configs": [{"config_name": "a", "data_files": "*.csv"}]})[0] == {}


def test_that_the_hub_converted_the_beginning_only_is_noted(online, monkeypatch):
    made = {"default/partial-train/0000.parquet": table(60)}
    monkeypatch.setitem(CONVERTED, "films/converted", ("f" * 40, made))
    [note, *_] = read_files(labelled_files("films/converted", STATED)).notes
    assert note == "films/converted: the hub has converted only the beginning of train, so only that was read."


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"sha": "main"}, "the hub names the commit 'main'"), ({"files": {"../a.parquet": b""}}, "outside its rep")],
)
def test_an_untrue_answer_of_the_hub_is_refused(online, monkeypatch, changed, said):
    monkeypatch.setitem(REPOSITORIES, "films/reviews", {**REPOSITORIES["films/reviews"], **changed})
    with pytest.raises(ValueError, match=said):
        labelled_files("films/reviews", STATED)


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (huggingface_hub.errors.LocalEntryNotFoundError("no"), UnreachableError, "the hub cannot be reached"),
        (OSError(28, "No space left on device"), ValueError, "cache cannot be written .No space left"),
    ],
)
def test_a_missing_network_and_a_full_disk_are_named_as_what_they_are(fault, kind, said):
    with pytest.raises(kind, match=said), hub_errors("films/reviews", "dataset", way_out=""):
        raise fault


def test_a_dataset_can_be_raw_text_and_tlms_released_files_are_read_by_name(online):
    path = raw_text("films/reviews")
    assert parquet.read_table(path).column_names == ["text"]
    assert parquet.read_table(path).num_rows == 80
    read = read_files(labelled_files("yxchar/sciie-tlm", STATED))
    assert {split: len(rows) for split, rows in read.splits.items()} == {"train": 60, "dev": 20, "test": 20}
    named = "hf://datasets/yxchar/sciie-tlm/small_external.csv"
    check_raw_text(Path(named))
    assert not any("small_external" in path for path in Hub.asked), "it may have gigabytes"
    path = raw_text(named)
    assert parquet.read_table(path).to_pydict() == {"text": ["A first, retrieved\ntext.", "A second one."]}
    with pytest.raises(ValueError, match=r"has no file big\.csv\. Its CSV files: dev\.csv, small_external\.csv, test"):
        raw_text(named.replace("small_external", "big"))


@pytest.mark.parametrize(("label", "kind"), [("code", "auto"), ("score", "score"), ("late", "auto")])
def test_a_csv_file_of_the_hub_is_read_as_a_file_here(online, label, kind, monkeypatch, tmp_path):
    rows = [
        f"{'long ' * 9_999}{n},{'' if n else 'x'},{n % 2:03},{n / 4},{'b' if n % 2 and n > 30 else 1}"
        for n in range(60)
    ]
    content = "\n".join(["text,pair,code,score,late", *rows]).encode()
    repository = REPOSITORIES["yxchar/sciie-tlm"]
    monkeypatch.setitem(repository, "files", {**repository["files"], "rows.csv": content})
    (tmp_path / "rows.csv").write_bytes(content)
    columns = LabelledFiles(train=tmp_path / "rows.csv", label=label, pair="pair", kind=kind)
    here = read_files(columns)
    there = read_files(labelled_files("hf://datasets/yxchar/sciie-tlm/rows.csv", columns))
    assert (there.kind, there.labels) == (here.kind, here.labels)
    assert [[row.label for row in rows] for rows in there.splits.values()] == [
        [row.label for row in rows] for rows in here.splits.values()
    ]


@pytest.mark.parametrize(
    ("name", "choice", "said"),
    [
        ("films/nothing", {}, "films/nothing: there is no such file here, and the hub has no such dataset"),
        ("films/gated", {}, "films/gated: its owner requires you to accept terms"),
        ("films/none", {}, "films/none: has no Parquet files, and the hub has not converted it. Download it"),
        ("films/glue", {}, "films/glue: has the configs sst2, cola. Name one: --config NAME"),
        ("films/glue", {"config": "sst"}, "films/glue: has no config 'sst'; the nearest is 'sst2' of sst2, cola"),
        ("films/reviews", {"split": "trian"}, "has no split 'trian'; the nearest is 'train' of train, test"),
        ("films/reviews", {"split": "train[:10]"}, "Slices are not supported; --rows samples rows"),
        ("films/reviews", {"revision": "v9"}, "films/reviews: has no commit, branch or tag 'v9'"),
        ("films/glue:cola", {"config": "sst2"}, "names another config than --config sst2"),
    ],
)
def test_a_fault_is_one_line_with_the_way_out(online, name, choice, said):
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        labelled_files(name, STATED, choice=HubChoice(**choice))
    assert "\n" not in str(error.value)


def test_a_dataset_of_the_hub_is_one_of_several_and_a_missing_column_names_it(online):
    with pytest.raises(ValueError, match=r"films/reviews, split train: no column 'labl'; the nearest is 'label'"):
        labelled_files("films/reviews", LabelledFiles(train=Path(), label="labl"))
    assert len(read_dataset("films/converted", None).splits["test"]) == 20
    assert read_dataset(LabelledFiles(train=Path("films/glue:cola"), test=Path("validation")), None).divided == ("dev",)


def test_without_a_network_a_dataset_that_was_read_before_is_read_again(online, monkeypatch, caplog):
    given = labelled_files("films/reviews", STATED)
    hub._listed_before.clear()  # another process
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert labelled_files("films/reviews", STATED).paths == given.paths
    assert "is read at the commit aaaaaaaaaaaa" in caplog.text
    with pytest.raises(ValueError, match=r"films/glue: there is no such file here, and the hub is not used because HF"):
        labelled_files("films/glue", STATED)


def test_a_hub_that_does_not_answer_is_named(online, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ValueError, match=r"films/reviews: there is no such file here, and the hub cannot be reached"):
        labelled_files("films/reviews", STATED)


def test_what_looks_like_a_file_is_no_dataset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert hub.parsed("nofile.csv") is None
    assert hub.parsed("owner/rows.jsonl.gz") is None
    assert [hub.parsed(f"owner/rows.{ending}") for ending in ("ndjson", "xlsx", "tags")] == [None] * 3
    assert hub.parsed("data/train") is None
    assert hub.parsed("imdb") is None
    assert hub.parsed("hf://datasets/imdb") == hub.HubName("imdb")
    assert hub.parsed("owner/name:a.b@refs/pr/1") == hub.HubName("owner/name", "a.b", "refs/pr/1")
    assert not as_files.is_hub_id("data")


def test_the_command_line_takes_a_dataset_where_it_takes_a_file(online, tmp_path):
    typed = ["data", "prepare", "films/glue", "--config", "cola", "--split", "validation", "--out"]
    done = CliRunner().invoke(cli.app, [*typed, str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "glue-cola: train 15, dev 5, test 10" in done.output
    done = CliRunner().invoke(cli.app, ["race", "films/glue", "--config", "col"])
    assert done.exit_code == 2
    assert "films/glue: has no config 'col'; the nearest is 'cola'" in done.output


def test_raw_text_of_a_method_may_be_a_dataset_of_the_hub(online, tmp_path):
    shape = ["layers=1", "hidden=16", "heads=2", "vocabulary=200", "plan.steps=1", "plan.batch=2", "max_tokens=16"]
    typed = ["adapt", "scratch", "corpus=films/reviews", *shape, "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(cli.app, typed)
    assert done.exit_code == 0, done.output
    [corpus] = tmp_path.glob("run/corpora/*/corpus.json")
    assert len(Corpus(corpus.parent)) == 80
    listed = [path for path in Hub.asked if path.startswith("/api/datasets/films/reviews")]
    assert len(listed) == len(set(listed)), "the check and the reading ask once"
    done = CliRunner().invoke(cli.app, ["adapt", "mlm", "corpus=films/nothing"])
    assert (done.exit_code, done.output.count("films/nothing: there is no such file here, and the hub")) == (2, 1)


def test_predict_reads_a_split_of_the_hub(online, tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(shipping, "checkpoint_in", Path)
    monkeypatch.setattr(predict, "predict_file", lambda model, file, *others, **named: read.append(file) or DONE)
    for typed, said in (
        (["films/glue:cola"], "films/glue:cola: has the splits train, validation, test. Name one: --split NAME"),
        (["films/glue:cola", "--split", "tests"], "has no split 'tests'; the nearest is 'test'"),
        (["films/nothing"], "films/nothing: there is no such file here, and the hub has no such dataset"),
    ):
        done = CliRunner().invoke(cli.app, ["predict", "model", *typed])
        assert (done.exit_code, said in " ".join(done.output.split())) == (2, True), done.output
    assert not read
    Hub.asked = []
    hub._listed_before.clear()  # another process
    CliRunner().invoke(cli.app, ["predict", "model", "films/glue:cola", "--split", "test"], catch_exceptions=False)
    assert sum(path.startswith("/api/datasets/films/glue") for path in Hub.asked) == 1, "what it has is listed once"
    acclimate.predict("model", "films/glue:cola", split="test", out=tmp_path / "out.csv")
    assert read[0] == read[1]
    assert parquet.read_table(read[0]).column_names == ["text", "label"]
